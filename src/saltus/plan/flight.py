"""Planned against flown: every plan is simulated with feedback on its motors, at a tight tolerance."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import SaltusError
from saltus.hybrid.constrained import tree_of
from saltus.hybrid.laws import Schedule, stepwise
from saltus.model.contents import unchanged
from saltus.model.touching import Foot
from saltus.plan.node import centre_of_mass, floats
from saltus.plan.planned import Flight, Planned
from saltus.simulation.run import simulate
from saltus.simulation.trajectory import Trajectory
from saltus.track.tracking import JointPD, Track

FOLLOWS = 0.02  # rad or m: a plan is followed if no position ever differs by more
REACH, LEAD = 0.02, 0.01  # rad or m, s: through contact, a joint so far off gets its largest effort; kd by kp
OVERLAPS = 1e-4  # weight m, m/s: a plan whose contacts overlap by more is none of real contacts
KP, KD = 4e4, 400.0  # 1/s2 and 1/s: gains of the kangaroo rat paper, both poles at -200/s


@unchanged
def fly(best: Planned, control: Any = None, *, tolerance: float = 1e-10) -> tuple[Trajectory | None, Flight]:
    """Simulate a plan from its start and compare; without a law its motors are tracked.

    `sl.plan.fly(best, sl.control.LQR(best, Q=..., R=...))` says whether that law holds the plan.
    """
    plan = best.plan
    motors = [n for n in plan.mechanism.inputs if plan.mechanism.motor_of(n)]
    feet = any(isinstance(part, Foot) for part in plan.mechanism.touching.values())
    try:
        if control is None:
            control = _feedback(best, motors)
        flown = simulate(
            plan.system,
            best.start,
            domain=plan.phases[0].domain,
            until=float(best.t[-1]),
            control=control,
            tolerance=tolerance,
            params=best.params,
            ground=plan.ground if feet else None,
        )
    except SaltusError as problem:
        nan = float("nan")
        return None, Flight(False, nan, nan, nan, momentum_drift(best), nan, f"cannot be flown: {problem}")
    return flown, _compared(best, flown, motors, control)


def _feedback(best: Planned, motors: list[str]) -> Any:
    """Track the motors; through contact, where accelerations jump, each joint by itself."""
    if not motors:
        return JointPD(best, joints=(), kp=0.0, kd=0.0)
    if not best.plan.through:
        return Track(best, outputs=motors, kp=KP, kd=KD)
    peaks = [max(float(np.abs(best.torques[n]).max()), 1e-6) for n in motors]
    return JointPD(best, joints=motors, kp=[p / REACH for p in peaks], kd=[p / REACH * LEAD for p in peaks])


def _compared(best: Planned, flown: Trajectory, motors: list[str], control: Any) -> Flight:
    m = best.plan.mechanism
    planned = best.states(flown.t)
    nq = len(m.q_names)
    actual = np.hstack([flown.arrays["q"], flown.arrays["v"]])
    off = np.abs(actual - planned)
    worst = off[:, :nq].max(axis=1)
    dt = np.gradient(flown.t) if len(flown.t) > 1 else np.zeros(1)
    dynamics = float(np.sqrt(((actual - planned) ** 2).sum(axis=1) @ dt))
    tracked = [m.q_names.index(n) for n in motors if n in m.q_names]
    tracking = float(off[:, tracked].max(initial=0.0))
    same = [e.target for e in flown.events][: len(best.events)] == [e.target for e in best.events]
    follows = bool(flown.outcome.ok and same and worst.max() <= FOLLOWS)
    peak = float(np.abs(flown.arrays["torques"]).max(initial=0.0))
    at = int(worst.argmax())
    name = m.q_names[int(off[at, :nq].argmax())]
    reached = f"largest difference {worst[at]:.3g} ({name} at {flown.t[at]:.4g} s), at the end {worst[-1]:.3g}"
    if follows:
        detail = f"the machine follows the plan, {reached}; peak effort {peak:.4g}"
    else:
        law = stepwise(control)
        overlap = best.meta["plan"]["overlap"]
        if overlap > OVERLAPS:
            advice = (
                f"forces and gaps or slips of its contacts overlap by {overlap:.2g} weight m, so that it has forces "
                "where nothing touches or holds; friction, stops or the duration may not allow more: change them, or "
                "give another guess"
            )
        elif isinstance(law, Schedule):
            finer = "give more intervals" if best.plan.through else "ask for a smaller tolerance"
            advice = law.judged(flown, control) or finer
        else:
            advice = "the law given follows no reference: use Track, JointPD or LQR of sl.control"
        parts = [
            "" if flown.outcome.ok else flown.outcome.detail,
            "" if same else "its events are not those of the plan",
            f"{reached}, allowed is {FOLLOWS:g}",
            advice,
        ]
        detail = "the machine does not follow the plan: " + "; ".join(part for part in parts if part)
    return Flight(follows, float(worst[-1]), dynamics, tracking, momentum_drift(best), peak, detail)


def momentum_drift(best: Planned) -> float:
    """Largest change of the angular momentum about the centre of mass by its size, of a machine in free fall."""
    plan = best.plan
    if len(plan.phases) != 1 or floats(plan.phases[0].stage) is None:
        return float("nan")
    e = tree_of(plan.system)
    centre = Kernel(ca.Function("centre", [e.q, e.p], [ca.densify(centre_of_mass(e))]), native=False)
    p = np.array([best.params[n] for n in plan.mechanism.params])
    com = centre.batch(best.arrays["q"], p)
    momentum = best.arrays["momentum"]
    own = momentum[:, 3:] - np.cross(com, momentum[:, :3])
    return float(np.abs(own - own[0]).max() / max(float(np.linalg.norm(own[0])), 1e-300))
