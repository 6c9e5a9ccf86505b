"""Study: the bounding planar quadruped leaps over a gap and stands, planned by collocation, flown on real ground."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_plans import LATER, MESH, PAIRS, Bound, flown, judged, portrait, said, solved
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate

GAP, WIDER = 0.5, 0.3  # m: the gap, and by how much another one is wider
MARGIN, DEPTH = 0.05, 1.0  # m from the middle of a toe to the edge, on both sides; how deep the gap is
FIRST, STEP = 0.5, 0.2  # m: the first leap, and from one leap to a longer one on the way to the one wanted


def study(gap: float = GAP) -> StudyResult:
    """Plan a leap over a `gap` (m) from the bound to a stand, and fly it there, and where the gap is wider."""
    m = sl.zoo.planar_quadruped()
    bound = Bound(m)
    best = planned(m, bound, gap)
    run = flown(best, best.duration + LATER, ground(bound, gap))
    wide = flown(best, best.duration, ground(bound, gap + WIDER))
    data = {"gap_m": gap, "speed": bound.speed, **judged(best, run), "lowest_toe_where_wider_m": lowest(wide)}
    beyond = min(run.point(f"{pair}_toe")[-1, 0] for pair in PAIRS) - (bound.print + MARGIN + gap)
    data["ok"] = bool(data["ok"] and beyond > 0 and lowest(run) > -0.01)
    comparisons = [
        *said(data),
        Comparison(
            f"stands beyond a gap of {gap:g} m",
            "verdict good, all toes beyond, none below the ground on the way",
            f"{run.outcome.verdict}, the nearest toe {beyond:.2f} m beyond its edge",
            holds=data["ok"],
        ),
        Comparison(
            f"the same leap where the gap is {WIDER:g} m wider",
            "falls in",
            f"its lowest toe is {-lowest(wide):.2f} m below the ground",
            holds=lowest(wide) < -0.05,
            why="the gap is real",
        ),
    ]
    info = STUDIES["quadruped-leap"]
    notes = [
        "The gap begins 50 mm ahead of the last print of the front toes and ends 50 mm before that of the hind toes.",
        "On real ground cranks follow the plan by the clock; nothing else is fed back.",
    ]
    times = [0.0, *(float(e.t) for e in best.events[:2]), float(best.t[best["body.y"].argmax()])]
    times += [float(best.events[2].t), best.duration + LATER]
    figures = {"leap": portrait(best, run, times, f"From the bound over a gap of {gap:g} m")}
    films = {"leap": functools.partial(animate, run, speed=0.25)}
    return StudyResult(info, data, comparisons, figures, notes, films)


def lowest(run: sl.Trajectory) -> float:
    """How low a toe's lowest point ever was (m)."""
    return float(min(run.point(f"{pair}_toe")[:, 1].min() for pair in PAIRS) - run.params["r_toe"])


def ground(bound: Bound, gap: float) -> sl.ground.Profile:
    """Level, with a gap between upright walls that begins MARGIN ahead of the last print of the front toes."""
    near = bound.print + MARGIN
    far = near + gap
    return sl.ground.Profile([near - 2.0, near, near, far, far, far + 2.0], [0.0, 0.0, -DEPTH, -DEPTH, 0.0, 0.0])


def planned(m: sl.Mechanism, bound: Bound, gap: float, mesh: list[int] = MESH) -> sl.plan.Planned:
    """Ever longer leaps, until hind toes land so far ahead of the last print of the front ones."""
    wanted = gap + 2 * MARGIN
    ways = np.arange(wanted, min(FIRST, wanted) - 1e-9, -STEP)[::-1]

    def ask(way: float) -> Any:
        return lambda plan: plan.require(plan.end.position("hind_toe").x - bound.print >= way)

    return solved(m, bound, [ask(float(way)) for way in ways], mesh)
