"""Study: a jump and its landing without a tail, with rigid links and with arcs (kangaroo rat paper, fig. 14)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.rat_views import curves, lean
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate_side, plot_strip
from saltus.view.style import new_figure, styled

START, RATE, LAND = 0.1, 20.0, 0.1  # s, rad/s, s: when the legs kick, how fast, how long they take to fold again
UNTIL = 1.5  # s
STIFFNESS, DAMPING = 0.2, 0.02  # Nm/rad and Nm s/rad that hold a coordinate of the articulated tail
POSTURE = 0.08, 0.0, -0.04  # rad per joint: down at the root, level at the tip
MODELS = {"no tail": "none", "articulated": "articulated", "continuum": "continuum"}


def study(mu: float = 0.5) -> StudyResult:
    """Jump with three tails; the tail is held in one posture and props the body where it lands."""
    runs = {name: jump(kind, mu) for name, kind in MODELS.items()}
    leans = {name: lean(run) for name, run in runs.items()}
    final = {name: float(angles[-1]) for name, angles in leans.items()}
    data = {
        "mu": mu,
        "apex_m": {n: float(r["base.z"].max()) for n, r in runs.items()},
        "final_lean_deg": final,
        "largest_turn_deg": {n: float(np.ptp(a)) for n, a in leans.items()},
        "stands": {n: abs(a) < 60.0 for n, a in final.items()},
        "energy_residual": {n: r.energy_account["relative residual"] for n, r in runs.items()},
        "steps": {n: r.meta["steps"] for n, r in runs.items()},
        "leg_work_j": {n: r.energy_account["work of motion delta"] for n, r in runs.items()},
    }
    comparisons = [
        Comparison(
            "landing without a tail",
            "falls over (fig. 14a to d)",
            f"leans by {final['no tail']:.0f} deg",
            holds=abs(final["no tail"]) > 90,
            why="body on its back or front",
        ),
        *(
            Comparison(
                f"landing on the {name} tail",
                "stands, propped by the tail (fig. 14)",
                f"leans by {final[name]:.0f} deg",
                holds=abs(final[name]) < 60,
                why="nearer upright than lying",
            )
            for name in ("articulated", "continuum")
        ),
        Comparison(
            "articulated against continuum",
            "similar (fig. 14e to l)",
            f"{abs(final['articulated'] - final['continuum']):.1f} deg apart at the end",
            holds=abs(final["articulated"] - final["continuum"]) < 15,
            why="same posture, 15 deg",
        ),
    ]
    pictures = {name: (run, curves(run.mechanism)) for name, run in runs.items()}
    info = STUDIES["rat-jumping"]
    notes = [
        "The paper gives the angles of the legs (-40, -90, -30 deg) but neither times nor how the tail is held; "
        "these are ours.",
        "As in the paper only feet and tail touch the ground: a body that falls over sinks into it.",
    ]
    return StudyResult(
        info,
        data,
        comparisons,
        {"fig14_snapshots": plot_strip(pictures, (0.1, 0.16, 0.25, 0.4, 0.7, 1.5)), "motion": _plot(runs, leans)},
        notes,
        {
            name.replace(" ", "_"): functools.partial(animate_side, run, curves(run.mechanism))
            for name, run in runs.items()
        },
    )


def legs(t: Any) -> Any:
    """Angle of the legs: -40 deg, kick to -90 deg, back to -30 deg for landing."""
    crouched, stretched, landing = map(math.radians, (-40.0, -90.0, -30.0))
    end = START + (crouched - stretched) / RATE + 0.02
    kick = sl.math.fmax(crouched - RATE * (t - START), stretched)
    fold = sl.math.fmin(stretched + (landing - stretched) / LAND * (t - end), landing)
    return sl.math.where(t < START, crouched, sl.math.where(t < end, kick, fold))


def jump(kind: str, mu: float) -> sl.Trajectory:
    """One jump from a flat-footed stand."""
    rat = sl.zoo.kangaroo_rat(3, 4, kind, contacts="feet" if kind == "none" else "all", legs=legs)
    goal = posture(rat.mechanism, POSTURE)
    start = rat.mechanism.assemble(base=(0, 0, 0.0427, 1, 0, 0, 0), **goal)
    friction = {name: mu for name in ("mu", "mu_tail") if name in rat.mechanism.params}
    return sl.simulate(rat, start, until=UNTIL, control=Held(goal), tolerance=1e-7, params=friction)


def posture(mechanism: sl.Mechanism, angles: tuple[float, ...]) -> dict[str, float]:
    """Turns a joint (rad, down) of each segment as coordinates of either tail; four links make an arc's bend."""
    given = {f"tail{i + 1}.alpha": a for i, a in enumerate(angles)}
    given |= {f"tail{i + 1}.bend_z": -4 * a for i, a in enumerate(angles)}
    return {name: value for name, value in given.items() if name in mechanism.q_names}


class Held:
    """Springs and dampers that hold the tail in a posture, moved from one to another between two times.

    An arc bends by what its four joints turn together, so its stiffness is a sixteenth of theirs.
    """

    def __init__(
        self, goal: dict[str, float], then: dict[str, float] | None = None, times: tuple[float, float] = (0, 1)
    ) -> None:
        self.goal, self.then, self.times = goal, then or goal, times

    def __call__(self, t: Any, s: sl.Signals) -> dict[str, Any]:
        """Efforts by input."""
        begin, end = self.times
        x = sl.math.fmin(sl.math.fmax((t - begin) / (end - begin), 0), 1)
        x = x * x * (3 - 2 * x)
        out = {}
        for name in s.mechanism.inputs:
            part = 1.0 if name.endswith(("alpha", "beta")) else 1 / 16
            goal = (1 - x) * self.goal.get(name, 0.0) + x * self.then.get(name, 0.0)
            out[name] = -part * (STIFFNESS * (s.q[name] - goal) + DAMPING * s.v[name])
        return out


@styled
def _plot(runs: dict[str, sl.Trajectory], leans: dict[str, np.ndarray]) -> Any:
    figure = new_figure(7.0, 4.6)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    for name, run in runs.items():
        top.plot(run.t, 1000 * run["base.z"], label=name)
        middle.plot(run.t, leans[name])
        total = sum(run.force(contact)[:, 2] for contact in run.meta["forces"])
        bottom.plot(run.t, total, linewidth=0.9)
    top.set(ylabel="height (mm)")
    top.legend(ncols=3)
    middle.set(ylabel="lean (deg)")
    bottom.set(ylabel="ground force (N)", xlabel="time (s)")
    return figure
