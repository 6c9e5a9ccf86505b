"""Study: a kick drives a kangaroo rat into the air, its tail passive (kangaroo rat paper, eq. 48, fig. 9a)."""

from __future__ import annotations

import functools
import time
from typing import Any

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.rat_views import curves, lean
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate_side, plot_strip
from saltus.view.style import new_figure, styled

UNTIL = 1.1  # s
TIMES = (0.4, 0.5, 0.7, 0.9, 1.1)  # s; the paper draws the last four


def study() -> StudyResult:
    """Jump from a stand with a tail of three links that only damps (eq. 47)."""
    rat = sl.zoo.kangaroo_rat(1, 3, contacts="feet")
    start, damp = rat.mechanism.keyframe("standing"), rat.controls["damp"]
    sl.simulate(rat, start, until=0.01, control=damp, tolerance=1e-8)  # compiles
    begin = time.perf_counter()
    run = sl.simulate(rat, start, until=UNTIL, control=damp, tolerance=1e-8)
    seconds = time.perf_counter() - begin
    turned = lean(run)
    data = {
        "apex_m": float(run["base.z"].max()),
        "turn_deg": float(turned[-1] - turned[0]),
        "leg_work_j": run.energy_account["work of motion delta"],
        "energy_residual": run.energy_account["relative residual"],
        "milliseconds_an_evaluation": 1e3 * seconds / run.meta["evaluations"],
    }
    comparisons = [
        Comparison("height of the jump", 0.6, data["apex_m"], "m", 0.05, why='printed as "around 0.6 m", one digit'),
        Comparison(
            "without control the body tumbles",
            "yes (fig. 9a)",
            f"turns by {data['turn_deg']:.0f} deg",
            holds=abs(data["turn_deg"]) > 180,
            why="more than half a turn before it would land",
        ),
    ]
    info = STUDIES["rat-kick"]
    drawn = curves(run.mechanism)
    return StudyResult(
        info,
        data,
        comparisons,
        {"fig9a_snapshots": plot_strip({"passive tail": (run, drawn)}, TIMES), "motion": _plot(run, turned)},
        ["The tail has no contact with the ground, as in the paper."],
        {"jump": functools.partial(animate_side, run, drawn)},
    )


@styled
def _plot(run: sl.Trajectory, turned: Any) -> Any:
    figure = new_figure(6.5, 3.6)
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.plot(run.t, run["base.z"])
    bottom.plot(run.t, turned)
    top.set(ylabel="height of the body (m)")
    bottom.set(ylabel="turn (deg)", xlabel="time (s)")
    return figure
