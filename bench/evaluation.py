"""One SPF evaluation of the BOLT leg: compiled, against NumPy, Pinocchio and MuJoCo."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np

import saltus as sl
from bench import Row, best, micro, peers, same
from saltus.dynamics.coordinates import choose
from saltus.machine import Kernel
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
    ode = sl.SPF().ode(e, choose(m, J))
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

    in_c = min(rhs.time(20_000, [q, w, zero, p]) for _ in range(7))
    bound = rhs.bind()
    for target, value in zip(bound.args, (q, w, zero, p), strict=True):
        target[...] = value
    from_python = best(bound.evaluate, 7, 20_000)
    hand = best(lambda: port.evaluate(q_port, w_port, 0.0), 5, 300)
    out += [
        Row(f"{label}: Saltus, loop in C", micro(in_c)),
        Row(f"{label}: Saltus, called from Python", micro(from_python)),
        Row.at_most(f"{label}: call from Python / loop in C", from_python / in_c, 2, "x"),
        Row(f"{label}: NumPy hand port", micro(hand)),
        Row.at_least(f"{label}: NumPy / Saltus", hand / in_c, 300),
    ]
    out += pinocchio(label, fixed, q, v, a, in_c) if peers.installed("pinocchio") else [skipped(label, "Pinocchio")]
    out += mujoco(label, fixed, q, v, a, in_c) if peers.installed("mujoco") else [skipped(label, "MuJoCo")]
    return out


def skipped(label: str, name: str) -> Row:
    """Line for a tool that is not there."""
    return Row(f"{label}: {name}", "skipped, not installed")


def pinocchio(label: str, fixed: bool, q: np.ndarray, v: np.ndarray, a: np.ndarray, in_c: float) -> list[Row]:
    """`constraintDynamics`; Python's share of a call is measured with a call that does nothing."""
    leg = peers.Pinocchio(fixed)
    agree = same(f"{label}, Pinocchio", a, leg.acceleration(q, v), 1e-8)
    call = best(lambda: leg.acceleration(q, v), 7, 5000)
    python = best(lambda: leg.overhead(q, v), 7, 5000)
    return [
        agree,
        Row(f"{label}: Pinocchio constraintDynamics from Python", f"{micro(call)}, of which the call {micro(python)}"),
        Row.at_least(f"{label}: Pinocchio without the call / Saltus in C", (call - python) / in_c, 8),
    ]


def mujoco(label: str, fixed: bool, q: np.ndarray, v: np.ndarray, a: np.ndarray, in_c: float) -> list[Row]:
    """`mj_forward` from Python, and mj_step(nstep) with Euler, which is mj_forward looped in C."""
    leg = peers.MuJoCo(fixed, step=1e-9, integrator="Euler")
    agree = same(f"{label}, MuJoCo", a, leg.acceleration(q, v), 1e-2)
    call = best(lambda: leg.mujoco.mj_forward(leg.model, leg.data), 7, 5000)
    loop = best(lambda: leg.mujoco.mj_step(leg.model, leg.data, nstep=5000), 7) / 5000
    return [
        agree,
        Row(f"{label}: MuJoCo mj_forward from Python", micro(call)),
        Row(f"{label}: MuJoCo mj_step, loop in C", micro(loop)),
        Row.at_least(f"{label}: MuJoCo / Saltus, both in C", min(loop, call) / in_c, 8),
    ]


def run() -> list[Row]:
    """Measure the floating and the fixed leg."""
    return rows("floating") + rows("fixed")
