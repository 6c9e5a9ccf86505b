"""Study: BOLT's running gaits over speed, and feedback once per stride (machine of Liu and Ben-Tzvi 2020).

The paper runs BOLT open loop and leaves a feedback controller as future work. Here its gait is found as a periodic
orbit, followed over the speed of the crank, and stabilised further by a discrete LQR on the return map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult

RANGE = (-43.0, -33.5)  # rad/s
PUSH = {"boom.x": 0.05}  # m/s
WEIGHT = 9.81 * 7.3918  # N, sum of Table 3
HEAT = 1350.0 / 30.0**2  # W/(Nm)2: a motor that turns its peak power into heat at its torque limit


def gait_of(takeoff: str) -> sl.Orbit:
    """BOLT's gait under its own control, from a rough guess: dropped at running speed."""
    system = sl.zoo.bolt(takeoff=takeoff)
    return sl.find_orbit(system, system.keyframes["drop"], control=system.controls["run"])


def study() -> StudyResult:
    """Follow the gait with take-off at zero force over speed; stabilise the one with take-off at an angle."""
    gait = gait_of("force")
    family = sl.orbits.follow(gait, "omega", to=RANGE, step=0.2, largest=1.0)
    rows = [_numbers(o) for o in family.orbits]
    rows.sort(key=lambda r: r["speed"])
    by_angle = gait_of("phase")
    feedback = sl.orbits.stabilise(by_angle, ["phase", "omega"], input_weights=[1.0, 1e-3])
    open_loop, _ = feedback.run(PUSH, 4, closed=False)
    closed_loop, inputs = feedback.run(PUSH, 4)
    data = {
        "gait": _numbers(gait),
        "family": rows,
        "ends": list(family.ends),
        "bifurcations": [{"kind": b.kind, "omega": b.value} for b in family.bifurcations],
        "feedback": {
            "inputs": list(feedback.inputs),
            "gain": feedback.gain,
            "open_loop_multipliers": _pairs(by_angle.multipliers),
            "closed_loop_multipliers": _pairs(feedback.multipliers),
            "push": PUSH,
            "open_loop_distance": open_loop,
            "closed_loop_distance": closed_loop,
            "input_values": inputs,
        },
    }
    largest = [abs(o.multipliers).max() for o in family.orbits]
    comparisons = [
        Comparison("speed", 1.3, gait.speed, "m/s", 0.05, why="the paper prints no gains; ours run near its speed"),
        Comparison("stride time", 0.284, gait.period, "s", 0.002, why="as above, sec. 5"),
        Comparison("largest multiplier along the family", None, float(max(largest))),
        Comparison(
            "closed loop contracts faster than open loop",
            "future work (sec. 6)",
            f"{abs(feedback.multipliers).max():.3g} against {abs(by_angle.multipliers).max():.3g}",
            holds=bool(abs(feedback.multipliers).max() < abs(by_angle.multipliers).max()),
        ),
    ]
    info = STUDIES["bolt-gaits"]
    notes = [
        "Feedback takes the take-off angle and the crank's speed as inputs, changed once per stride.",
        "Take-off at an angle lets the ground pull for an instant: " + "; ".join(by_angle.violations),
    ]
    figures = {"family": _family_figure(rows), "feedback": _feedback_figure(open_loop, closed_loop)}
    return StudyResult(info, data, comparisons, figures, notes)


def _pairs(values: np.ndarray) -> list[Any]:
    return [[float(x.real), float(x.imag)] if abs(complex(x).imag) > 0 else float(x.real) for x in values]


def _numbers(orbit: sl.Orbit) -> dict[str, Any]:
    """Numbers of one gait; the cost of transport counts what the motor gives and what it takes."""
    run = orbit.trajectory
    power = np.abs(run.torques["q1"] * run.v["q1"])
    work = float(np.sum(np.diff(run.t) * (power[1:] + power[:-1]) / 2))
    distance = next(iter(orbit.advance.values()))
    return {
        "omega": orbit.params["omega"],
        "speed": orbit.speed,
        "period": orbit.period,
        "duty_factor": orbit.duty,
        "multipliers": _pairs(orbit.multipliers),
        "stable": orbit.is_stable,
        "cost_of_transport": work / (WEIGHT * distance),
        "impact_loss": orbit.impact_loss,
        "apex": orbit.highest("hip"),
        "violations": orbit.violations,
        "friction_need": run.meta["contacts"]["foot"]["friction_need"],
    }


def _family_figure(rows: list[dict[str, Any]]) -> Figure:
    speed = np.array([r["speed"] for r in rows])
    panels = {
        "largest |multiplier| (1)": [
            ("", speed, np.array([max(abs(complex(*np.atleast_1d(m))) for m in r["multipliers"]) for r in rows]))
        ],
        "duty factor (1)": [("", speed, np.array([r["duty_factor"] for r in rows]))],
        "cost of transport (1)": [("", speed, np.array([r["cost_of_transport"] for r in rows]))],
        "lost at impact (J per stride)": [("", speed, np.array([r["impact_loss"] for r in rows]))],
    }
    return sl.view.plot_impact_curves(panels, "speed (m/s)")


def _feedback_figure(open_loop: np.ndarray, closed_loop: np.ndarray) -> Figure:
    from saltus.view.colours import PALETTE
    from saltus.view.style import logarithmic, new_figure, styled

    @styled
    def draw() -> Figure:
        figure = new_figure(5.0, 3.2)
        ax = figure.add_subplot()
        for values, label, colour in ((open_loop, "open loop", "blue"), (closed_loop, "with feedback", "vermillion")):
            logarithmic(ax)
            ax.plot(np.arange(len(values)), values, "o-", color=PALETTE[colour], markersize=4, label=label)
        ax.set_xlabel("stride")
        ax.set_ylabel("distance from the gait (mixed SI units)")
        ax.set_xticks(range(len(open_loop)))
        ax.set_title("after a push of 0.05 m/s")
        ax.legend()
        return figure

    return draw()


def leave_sharply(plan: sl.Plan, point: str, fall: float) -> None:
    """Ask the ground force of a plan's stance to fall to zero over the crank's angle with `fall` (N/rad) or more.

    The angle at which it is zero is the Param q_off, which the plan chooses.
    """
    stance, leaves = plan.phases[0], plan.param("q_off", -1e3, 1e3)
    plan.require(stance.end.q.q1 == leaves)
    plan.require(stance.force(point).y >= fall * (plan.q.q1 - leaves), phase=stance)
