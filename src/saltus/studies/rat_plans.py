"""What the studies of righting share: the plan of secs. 4.2 and 4.3, its numbers as planned and flown, pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.errors import BadValue, NotSolved, UnknownName
from saltus.studies.result import Comparison
from saltus.view.colours import COLOURS

DURATION = 0.58  # s, from t_1 = 0.5 s on
TORQUE = 0.02  # Nm
SPEED = 60.0  # rad/s on each tail coordinate: ours; without it plans whip the tail between the nodes
TOLERANCE = 5e-5  # relative error of an interval
SCHEMES = {"hermite-simpson": sl.plan.HermiteSimpson(), "trapezoidal": sl.plan.Trapezoidal()}


def righting(segments: int, links: int, workspace: float, intervals: int, speed: float | None = SPEED) -> sl.Plan:
    """End upright and at rest with the least integral of tau' tau, from the tumbling start (eqs. 40 to 43).

    Tail angles stay within `workspace` (degrees) divided by the number of joints, tail rates within `speed` (rad/s).
    """
    rat = sl.zoo.kangaroo_rat(segments, links)
    plan = sl.Plan(rat.domains["flight"], duration=DURATION, intervals=intervals)
    plan.require(plan.start == rat.keyframes["tumbling"])
    plan.require(plan.end.upright, plan.end.angular_velocity == 0)
    angle = math.radians(workspace) / (segments * links)
    bent = max(abs(float(x)) for n, x in rat.keyframes["tumbling"].q.items() if n.startswith("tail"))
    if bent > angle:
        raise BadValue(
            f"{segments} segment(s) of {links} links: a joint gets {math.degrees(angle):.3g} of {workspace:g} degrees, "
            f"and the tumbling start bends one by {math.degrees(bent):.3g}; give fewer links"
        )
    plan.bound(plan.q.tail, -angle, angle)
    plan.bound(plan.u.tail, -TORQUE, TORQUE)
    if speed is not None:
        plan.bound(plan.v.tail, -speed, speed)
    plan.minimise(plan.integral(plan.u.tail.squared_norm))
    return plan


def intervals_at(rate: float, scheme: str) -> int:
    """Intervals of a mesh with `rate` nodes per second; Hermite-Simpson has a node in the middle of each."""
    if scheme not in SCHEMES:
        raise UnknownName("scheme", scheme, SCHEMES)
    return max(round(rate * DURATION / (2 if SCHEMES[scheme].middles else 1)), 2)


def plain(segments: int, links: int, workspace: float, rate: float = 100.0) -> sl.plan.Planned:
    """The paper's own transcription: trapezoidal on one mesh, momentum left to the rule, tail rates without a limit."""
    plan = righting(segments, links, workspace, intervals_at(rate, "trapezoidal"), speed=None)
    return sl.plan.solve(plan, scheme=SCHEMES["trapezoidal"], tolerance=None, momentum=False, native=None)


def solved(plan: sl.Plan, **options: Any) -> tuple[sl.plan.Planned, bool]:
    """Solution of a plan, or the motion that the solver gave up with."""
    try:
        return sl.plan.solve(plan, **options), True
    except NotSolved as problem:
        return problem.best, False


# ---- numbers ------------------------------------------------------------------------------------------------------


def power(run: sl.Trajectory) -> np.ndarray:
    """Sum over the tail's motors of |torque times rate| (W), at every sample."""
    return np.abs(run.arrays["torques"] * rates(run)).sum(axis=1)


def rates(run: sl.Trajectory) -> np.ndarray:
    """Rates of the tail's coordinates (rad/s), in the order of the motors."""
    return np.stack([run.v[name] for name in run.meta["inputs"]], axis=1)


def angles(run: sl.Trajectory) -> np.ndarray:
    """The tail's coordinates (rad), in the order of the motors."""
    return np.stack([run[name] for name in run.meta["inputs"]], axis=1)


def tilt(run: sl.Trajectory) -> np.ndarray:
    """Angle between the body's up axis and the vertical (degrees), at every sample."""
    x, y = run["base.qx"], run["base.qy"]
    return np.degrees(np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1)))


def tracking(best: sl.plan.Planned) -> np.ndarray:
    """Flown minus planned tail coordinates (rad), one row per sample of the flight."""
    if best.flown is None:
        return np.full((1, len(best.meta["inputs"])), np.nan)
    columns = [best.meta["q_names"].index(name) for name in best.meta["inputs"]]
    return angles(best.flown) - best.at(best.flown.t).positions[:, columns]


def numbers(best: sl.plan.Planned) -> dict[str, Any]:
    """Fields of a plan that has been flown.

    Energy is the integral over the plan of the sum of the motors' |torque times rate|, peak power the largest value
    of that sum. `dynamics_error` is eq. 50, `tracking_error_rad` the largest of all joints at any time,
    `peak_torque_Nm` that of the flight, so between the nodes as well.
    """
    flight = best.flight
    assert flight is not None
    watts = power(best)
    off = tracking(best)
    calls = {k: sum(r.evaluations.get(k, (0, 0.0))[0] for r in best.rounds) for k in ("g", "jac_g", "hess_l")}
    spent = sum(seconds for r in best.rounds for _, seconds in r.evaluations.values())
    return {
        "objective": best.objective,
        "energy_J": float(np.trapezoid(watts, best.t)),
        "peak_power_W": float(watts.max()),
        "final_tilt_deg_planned": math.degrees(best.end.tilt),
        "final_tilt_deg_flown": math.nan if best.flown is None else math.degrees(best.flown.end.tilt),
        "follows": flight.follows,
        "verdict": flight.detail,
        "dynamics_error": flight.dynamics_error,
        "tracking_error_rad": float(np.abs(off).max()),
        "tracking_error_deviation_rad": float(off.std(axis=0).max()),
        "momentum_drift": flight.momentum_drift,
        "peak_torque_Nm": flight.peak_effort,
        "mesh_error": best.mesh_error,
        "intervals": int(best.rounds[-1].intervals[0]),
        "iterations": sum(r.iterations for r in best.rounds),
        "evaluations": calls,
        "evaluation_seconds": spent,
        "solve_seconds": best.solve_seconds,
        "build_seconds": best.build_seconds,
    }


def upright(words: str, case: dict[str, Any]) -> list[Comparison]:
    """Comparisons that every plan which counts has to pass: upright as flown, with the torque that there is."""
    return [
        Comparison(
            f"{words}: upright as flown",
            "upright",
            f"{case['final_tilt_deg_flown']:.2g} deg off",
            holds=case["follows"] and case["final_tilt_deg_flown"] < 1,
            why="under 1 deg, simulated with the tail's plan tracked",
        ),
        Comparison(
            f"{words}: torque within 0.02 Nm between the nodes",
            "limit",
            f"{case['peak_torque_Nm']:.4g} Nm",
            holds=case["peak_torque_Nm"] <= TORQUE,
            why="largest of the flight, feedback included",
        ),
    ]


# ---- pictures -----------------------------------------------------------------------------------------------------


def labels(run: sl.Trajectory) -> list[str]:
    """Names of the tail's coordinates as the paper writes them: alpha and beta of each segment."""
    out = []
    for name in run.meta["inputs"]:
        part, angle = name.split(".")
        out.append(f"{ {'alpha': 'α', 'beta': 'β'}[angle] }{part.removeprefix('tail')}")
    return out


def lines(ax: Any, t: np.ndarray, values: np.ndarray, names: list[str], **style: Any) -> None:
    """One line an entry, told apart by colour and by dashes."""
    dashes = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))
    for i, name in enumerate(names):
        ax.plot(t, values[:, i], color=COLOURS[i % len(COLOURS)], linestyle=dashes[i % 6], label=name, **style)
