"""Study: righting with a tail of one, two and three segments (kangaroo rat paper, sec. 4.3, figs. 12, 13, table 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies import rat_plans as rp
from saltus.studies.rat_views import curves
from saltus.studies.result import Comparison, StudyResult
from saltus.view import plot_strip
from saltus.view.style import new_figure, styled

WORKSPACE = 360.0  # degrees of all joints together
CASES = ((1, 6), (2, 3), (3, 2))  # segments, links
RATE = 100.0  # Hz, of the first mesh; twice that for three segments
SPEED_OF_THREE = 40.0  # rad/s: with more freedom the tail whips quicker, and plans at 60 rad/s took minutes to refine
PAPER = {  # table 2: minutes, optimal value, energy (J), peak power (W), dynamics error, tracking error (rad)
    1: (15, 1.35e-5, 0.0308, 1.02, 3.98, 0.0848),
    2: (39, 5.81e-7, 0.0152, 0.208, 8.21, 0.391),
    3: (121, 5.06e-7, 0.0208, 0.551, 19.5, 0.109),
}
TIMES = (0.0, 0.15, 0.3, 0.45, rp.DURATION)  # s after t_1


def study(plain: float = 1) -> StudyResult:
    """Plan, refine and fly three tails of six links; with `plain` also as the paper transcribed them."""
    plans = {m: plan(m, n) for m, n in CASES}
    naive = {m: rp.plain(m, n, WORKSPACE, RATE) for m, n in CASES} if plain else {}
    cases = [{"segments": m, "links": n, **rp.numbers(plans[m])} for m, n in CASES]
    printed = [{"segments": m, "links": n, **rp.numbers(naive[m])} for m, n in CASES if naive]
    comparisons: list[Comparison] = []
    for case in cases:
        comparisons += _compared(case)
    for case in printed:
        error = PAPER[case["segments"]][4]
        comparisons.append(
            Comparison(
                f"{_words(case)}: the paper's own transcription, flown",
                f"dynamics error of {error:g}",
                f"{case['dynamics_error']:.3g}, {case['final_tilt_deg_flown']:.0f} deg off, momentum drifts by "
                f"{100 * case['momentum_drift']:.0f} %",
                holds=not case["follows"],
                why="trapezoidal at 100 Hz: it cannot be followed and is not counted as a plan",
            )
        )
    costs = [case["objective"] for case in cases]
    comparisons.append(
        Comparison(
            "more segments need less torque",
            "yes, less so from two to three (table 2)",
            ", ".join(f"{c:.3g}" for c in costs),
            holds=max(costs[1:]) < costs[0] / 2,
            why="two and three segments below half of one; all are local optima",
        )
    )
    shown = {f"{m} x {n}": (plans[m].flown or plans[m], curves(plans[m].mechanism)) for m, n in CASES}
    info = STUDIES["tail-segments"]
    return StudyResult(
        info,
        {"cases": cases, "plain_trapezoidal": printed},
        comparisons,
        {"fig12_snapshots": plot_strip(shown, TIMES, ground=None), "fig13_details": _details(plans)},
        [
            "Time counts from t_1 = 0.5 s. The state there is not printed; ours come from jumps of our own.",
            "The paper's times are fmincon's on its own computer. Ours are those of the solver on all meshes; the time "
            "to derive and differentiate the problem is `build_seconds`.",
            "Tail rates are limited to 60 rad/s, with three segments to 40: our own limits, the paper names none.",
            "Energy is the integral of the sum of the motors' |torque times rate|, peak power the largest of that sum.",
        ],
    )


def plan(segments: int, links: int, **options: Any) -> sl.plan.Planned:
    """A plan that conserves momentum, refined and flown."""
    intervals = rp.intervals_at(RATE, "hermite-simpson")
    if segments < 3:
        statement = rp.righting(segments, links, WORKSPACE, intervals)
    else:
        statement = rp.righting(segments, links, WORKSPACE, 2 * intervals, SPEED_OF_THREE)
    return sl.plan.solve(statement, **{"tolerance": rp.TOLERANCE, "method": sl.plan.Method(native=None), **options})


def _words(case: dict[str, Any]) -> str:
    return f"{case['segments']} segment{'s' if case['segments'] > 1 else ''}"


def _compared(case: dict[str, Any]) -> list[Comparison]:
    minutes, _, _, _, error, joint = PAPER[case["segments"]]
    words = _words(case)
    return [
        *rp.upright(words, case),
        Comparison(
            f"{words}: dynamics error",
            f"{error:g}",
            f"{case['dynamics_error']:.2g}, {error / case['dynamics_error']:.0f} times less",
            holds=case["dynamics_error"] <= error / 100,
            why="a hundredth or less",
        ),
        Comparison(
            f"{words}: tracking error",
            f"{joint:g} rad",
            f"{case['tracking_error_rad']:.2g} rad",
            holds=case["tracking_error_rad"] <= joint,
            why="largest of all joints",
        ),
        Comparison(
            f"{words}: time to solve",
            f"{minutes} min",
            f"{case['solve_seconds']:.1f} s and {case['build_seconds']:.1f} s to build",
            holds=case["solve_seconds"] < 60 * minutes,
            why="both on their own computers",
        ),
    ]


@styled
def _details(plans: dict[int, sl.plan.Planned]) -> Any:
    """Panels of fig. 13: orientation, tail angles and torques of every tail."""
    figure = new_figure(10.0, 7.0)
    grid = figure.subplots(3, len(plans), sharex=True, sharey="row")
    for column, (m, best) in enumerate(plans.items()):
        flown = best.flown or best
        top, middle, bottom = grid[:, column]
        names = rp.labels(best)
        top.plot(best.t, rp.tilt(best), label="planned")
        top.plot(flown.t, rp.tilt(flown), "--", label="flown")
        rp.lines(middle, best.t, np.degrees(rp.angles(best)), names)
        rp.lines(bottom, best.t, 1e3 * best.arrays["torques"], names)
        top.set_title(f"{m} segment{'s' if m > 1 else ''}")
        top.legend(loc="upper right")
        middle.legend(loc="lower left", bbox_to_anchor=(0.0, 0.98), ncols=6, fontsize=7, borderpad=0.0)
        bottom.set_xlabel("time (s)")
    for ax, label in zip(grid[:, 0], ("tilt (deg)", "angle of a tail joint (deg)", "torque (mNm)"), strict=True):
        ax.set_ylabel(label)
    return figure
