"""One SPF evaluation of the BOLT leg: compiled, against NumPy, Pinocchio and MuJoCo."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np

import saltus as sl
from bench import Row, best, field_mujoco, field_pinocchio, micro, peers, race, same
from saltus.compile import Kernel
from saltus.dynamics.choice import choose
from saltus.model.assembly import assembler
from saltus.zoo.bolt import bolt_linkage

TITLE = "Cost of one evaluation of forward dynamics (SPF)"


def kernel(base: str) -> tuple[Kernel, Kernel, sl.State]:
    """Right-hand side in (q, w, u, p), all accelerations, and a moving consistent state."""
    m = bolt_linkage(base=base)
    rates = {"q1": 10.0} | ({} if base == "fixed" else {"boom": (1.3, 0.2)})
    start = m.keyframe("crank level", q1=math.radians(45), rates=rates)
    e = sl.Equations(m)
    _, J = assembler(m).closure(0.0, start.positions, start.p)
    ode = sl.formulations.SPF().ode(e, choose(m, J))
    names = ["q", "w", "u", "p"]
    inputs = [e.q, ode.w, e.u, e.p]
    return (
        Kernel(ca.Function("rhs", inputs, [ode.rhs], names, ["x_dot"])),
        Kernel(ca.Function("all", inputs, ca.cse([ca.densify(ode.v), ca.densify(ode.a)]), names, ["v", "a"])),
        start,
    )


def rows(base: str) -> list[Row]:
    """Measure one base."""
    rhs, everything, start = kernel(base)
    q, fixed = start.positions, base == "fixed"
    w = start.velocities[:1] if fixed else start.velocities[:3]
    p, zero = start.p, np.zeros(1)
    v, a = everything(q, w, zero, p)
    label = f"{base} base"

    port = peers.HandPort(fixed=fixed)
    order = slice(None) if fixed else peers.TO_PAPER
    back = slice(None) if fixed else peers.FROM_PAPER
    q_port, w_port = q[order], (w if fixed else w[[2, 0, 1]])
    out = [same(f"{label}, NumPy", a, port.evaluate(q_port, w_port, 0.0)[2][back], 1e-8)]
    off = q + 1e-3 * np.sin(np.arange(len(q)))  # where the loops are open, SPF has terms of its own
    q_off = off[order]
    ours, theirs = everything(off, w, zero, p)[1], port.evaluate(q_off, w_port, 0.0)[2][back]
    out.append(same(f"{label}, NumPy, loops open", ours, theirs, 1e-8))

    bound = rhs.bind()
    for target, value in zip(bound.args, (q, w, zero, p), strict=True):
        target[...] = value
    timers = {
        "C": lambda: rhs.time(20_000, [q, w, zero, p]),
        "Python": lambda: best(bound.evaluate, 1, 20_000),
        "NumPy": lambda: best(lambda: port.evaluate(q_port, w_port, 0.0), 1, 200),
    }
    if peers.installed("pinocchio"):
        pin = field_pinocchio.Leg(fixed)
        out.append(same(f"{label}, Pinocchio", a, pin.acceleration(q, v), 1e-8))
        timers["Pinocchio"] = lambda: best(lambda: pin.acceleration(q, v), 1, 5000)
        timers["Pinocchio's call"] = lambda: best(lambda: pin.overhead(q, v), 1, 5000)
    if peers.installed("mujoco"):  # mj_step with Euler and a tiny step is mj_forward looped in C
        mj = field_mujoco.Leg(fixed, step=1e-9, integrator="Euler")
        out.append(same(f"{label}, MuJoCo (its constraints are soft)", a, mj.acceleration(q, v), 1e-2))
        timers["mj_forward"] = lambda: best(lambda: mj.mujoco.mj_forward(mj.model, mj.data), 1, 5000)
        timers["mj_step"] = lambda: best(lambda: mj.mujoco.mj_step(mj.model, mj.data, nstep=5000), 1) / 5000
    return out + report(label, race(timers))


def report(label: str, least: dict[str, float]) -> list[Row]:
    """Lines of the table from the least times of each."""
    in_c = least["C"]
    out = [
        Row(f"{label}: Saltus, loop in C", micro(in_c)),
        Row(f"{label}: Saltus, called from Python", micro(least["Python"])),
        Row.at_most(f"{label}: call from Python / loop in C", least["Python"] / in_c, 2, "x"),
        Row(f"{label}: NumPy hand port", micro(least["NumPy"])),
        Row.at_least(f"{label}: NumPy / Saltus", least["NumPy"] / in_c, 300),
    ]
    if "Pinocchio" in least:
        call, python = least["Pinocchio"], least["Pinocchio's call"]
        measured = f"{micro(call)}, of which the call {micro(python)}"
        out.append(Row(f"{label}: Pinocchio constraintDynamics from Python", measured))
        out.append(Row.at_least(f"{label}: Pinocchio without the call / Saltus in C", (call - python) / in_c, 8))
    else:
        out.append(Row(f"{label}: Pinocchio", "skipped, not installed"))
    if "mj_step" in least:
        forward, step = least["mj_forward"], least["mj_step"]
        out.append(Row(f"{label}: MuJoCo", f"mj_forward from Python {micro(forward)}, loop in C {micro(step)}"))
        out.append(Row.at_least(f"{label}: MuJoCo / Saltus in C", min(forward, step) / in_c, 8))
    else:
        out.append(Row(f"{label}: MuJoCo", "skipped, not installed"))
    return out


def run() -> list[Row]:
    """Measure the floating and the fixed leg."""
    return rows("floating") + rows("fixed")
