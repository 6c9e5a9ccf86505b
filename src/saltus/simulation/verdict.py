"""Verdict: whether what a run recorded is something a machine could do, judged from outside the integrator."""

from __future__ import annotations

import casadi as ca
import numpy as np

from saltus.dynamics.formulations import Projection
from saltus.model.mechanism import Mechanism
from saltus.model.scale import mass
from saltus.simulation.jumps import jump
from saltus.simulation.log import Log
from saltus.simulation.trajectory import Trajectory

MISSED, LOOSE = 5e-6, 1e3  # part of the energy that a run may miss; at least so many tolerances
COARSE = 0.01  # of speeds and forces: what no tolerance explains
APART = 1e-6  # of a lever: constraints that are off by less count as closed
DEEP = 1e-6  # m: below the ground
PULL, BEYOND = 1e-6, 1e-6  # of the largest normal force, or of the weight: what forces of contacts are known to


def faults(log: Log, run: Trajectory, t: float, q: np.ndarray) -> list[str]:
    """What no machine could do, and what the run got wrong, each in one line with its numbers."""
    heavy = weight(log.system.mechanism, log.params)
    out = _accuracy(log, run, t, q, heavy)
    known = min(LOOSE * log.tolerance, COARSE)
    for name, contact in run.meta["contacts"].items():
        largest = max(contact["normal_max"], -contact["normal_min"], 0.0)
        limit = largest or max(contact["friction_given"], 0.0)  # dry friction of a joint has no normal force
        if largest:
            largest = limit = max(largest, heavy)
        if contact["normal_min"] < -max(PULL, known) * largest - 1e-9:
            let = "" if "gap_min" in contact else "; an edge with sl.Liftoff lets it go"
            out.append(f"the ground pulled at {name!r} with {-contact['normal_min']:.4g} N{let}")
        if contact["friction_short"] > max(BEYOND, known) * limit + 1e-9:
            short, given = contact["friction_short"], contact["friction_given"]
            out.append(
                f"contact {name!r} needed {short:.4g} N more friction than the ground's {given:.4g} gives, "
                f"{contact['friction_need']:.4g} in all"
                if largest
                else f"{name!r} held with {short:.4g} (Nm or N) more than its {given:.4g}"
            )
        if contact.get("gap_min", 0.0) < -max(DEEP, known):
            out.append(f"contact {name!r} was {-contact['gap_min']:.4g} m inside of what it touches")
    for name, foot in run.meta["feet"].items():
        if foot["depth"] > max(DEEP, known):
            out.append(f"{name!r} was {foot['depth']:.4g} m below the ground at t = {foot['t']:.4g} s")
    return out


def weight(m: Mechanism, params: np.ndarray) -> float:
    """Weight of a machine (N)."""
    return float(ca.Function("weight", [m.p], [mass(m) * ca.norm_2(ca.densify(m.gravity))])(params))


def _accuracy(log: Log, run: Trajectory, t: float, q: np.ndarray, heavy: float) -> list[str]:
    """Energy and constraints that the tolerance does not explain, of a machine as `heavy` (N).

    Velocities are known to d = LOOSE tolerance (1 + |v|), COARSE (1 + |v|) at most, so energies to the sum of
    M_ii (|v_i| d_i + d_i^2 / 2).
    """
    if log.pulled:
        return []  # said already: the start is off its constraints
    mode, known = log.stays[-1].mode, min(LOOSE * log.tolerance, COARSE)
    base = mode.base(log.stays[-1].parameters[0] if log.stays[-1].parameters else np.zeros(mode.layout.n_p))
    if not log.stays[-1].parameters:
        base[: len(log.params)] = log.params
    mass = np.abs(np.diag(mode.constrained.mass(t, q, base)))
    speed = np.abs(run.arrays["v"]).max(axis=0)
    error = known * (1 + speed)
    allowed = MISSED * float(run.meta["energy_scale"]) + float(mass @ (speed * error + error**2 / 2))
    allowed += log.tolerance * heavy  # positions are known to a tolerance
    residual = max(abs(run.energy_account["residual"]), float(run.meta["energy_drift"]))
    out = []
    if not residual <= allowed:
        out.append(
            f"{residual:.3g} J of energy are unexplained, of {run.meta['energy_scale']:.3g} J exchanged: use a smaller "
            "tolerance or another formulation"
        )
    found = jump(log, run) if mode.constrained.loops else None
    if found is not None:
        other = (
            "look at motors and given motions there, or use a smaller tolerance"
            if isinstance(log.formulation, Projection)
            else "use sl.formulations.Projection(), the default"
        )
        out.append(
            f"the velocity of {found[1]} jumps by {found[0]:.3g} at t = {found[2]:.4g} s without an impact: the motion "
            f"left its branch at a singular position, which {type(log.formulation).__name__} does not pass; {other}"
        )
    J = mode.constrained.closure(t, q, base)[1]
    lever = max(1.0, float(np.abs(J).max(initial=0.0)))
    if not run.loop_gap <= max(APART, known) * lever:
        out.append(f"constraints are off by {run.loop_gap:.3g} m: use a smaller tolerance or another formulation")
    return out
