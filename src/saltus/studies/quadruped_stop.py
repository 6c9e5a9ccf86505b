"""Study: the bounding planar quadruped stops from full speed, planned by collocation, flown on real ground."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_plans import LATER, MESH, REAL, Bound, flown, judged, portrait, said, solved
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate

WAY, FIRST, STEP = 1.15, 1.3, 0.2  # m in which it shall stop; of the first plan; from one to a shorter one
G = 9.81


def study(way: float = WAY) -> StudyResult:
    """Plan a stop from the bound within a `way` (m) of the body, and fly it."""
    m = sl.zoo.planar_quadruped()
    bound = Bound(m)
    best = planned(m, bound, way)
    run = flown(best, best.duration + LATER)
    stopped = {"way_planned_m": float(best["body.x"][-1]), "way_flown_m": float(run["body.x"][-1])}
    data = {"speed": bound.speed, "way_asked_m": way, **stopped, **judged(best, run)}
    data["way_of_a_skid_m"] = bound.speed**2 / (2 * REAL * G)
    comparisons = [
        *said(data),
        Comparison("way of the body to rest, planned", None, stopped["way_planned_m"], "m"),
        Comparison("way of the body to rest, flown", None, stopped["way_flown_m"], "m", why="it bounces as it lands"),
        Comparison("stands after the stop", "verdict good", f"{run.outcome.verdict}", holds=data["ok"]),
    ]
    info = STUDIES["quadruped-stop"]
    notes = ["On real ground cranks follow the plan by the clock; nothing else is fed back."]
    times = [0.0, *(float(e.t) for e in best.events[:3]), best.duration, best.duration + LATER]
    title = f"From {bound.speed:.2f} m/s to rest within {stopped['way_planned_m']:.2f} m"
    figures = {"stop": portrait(best, run, times, title)}
    films = {"stop": functools.partial(animate, run, speed=0.25)}
    return StudyResult(info, data, comparisons, figures, notes, films)


def planned(m: sl.Mechanism, bound: Bound, way: float, mesh: list[int] = MESH) -> sl.plan.Planned:
    """Ever shorter stops, until the body comes to rest within the way (m) from where the plan takes over."""

    def ask(most: float) -> Any:
        return lambda plan: plan.require(plan.end.q["body.x"] <= most)

    ways = np.arange(way, max(FIRST, way) + 1e-9, STEP)[::-1]
    return solved(m, bound, [ask(float(most)) for most in ways], mesh)
