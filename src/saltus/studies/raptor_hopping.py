"""Study: a Raptor-like leg with three loops hops in place (Kamidi, Williams and Ben-Tzvi 2018, figs. 7 and 8)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.bolt_running import EPSILON, numbers, steps_of
from saltus.studies.result import Comparison, StudyResult
from saltus.view import plots


def study() -> StudyResult:
    """Hop 16 times, and once more from a start half a degree off, to see the six constraint errors decay."""
    system = sl.zoo.raptor()
    start = system.mechanism.keyframe("hop")
    run = steps_of(system, start)
    gait = sl.strides(run)
    off = start.positions.copy()
    off[system.mechanism.q_names.index("q4")] += math.radians(0.5)
    loose = steps_of(system, dataclasses.replace(start, positions=off), steps=4, rate=2000.0)
    gap = np.abs(loose.arrays["gap"]).max(axis=1)
    second = [e.t for e in loose.events if e.name == "touchdown"][1]
    after_second = float(gap[loose.t > second].max())
    usual = float(np.abs(run.arrays["gap"]).max())
    rows = len(run.meta["constraints"])
    half = run.t > gait.starts[len(gait) // 2]
    data = {
        **numbers(run, gait),
        "epsilon": EPSILON,
        "apex_height": float(run["boom.y"][half].max()),
        "constraint_rows": rows,
        "drift_a_stride": float(gait.lengths[gait.steady].mean()),
        "inconsistent_start": {
            "angle_deg": 0.5,
            "gap_at_start": float(gap[0]),
            "gap_after_second_touchdown": after_second,
        },
    }
    comparisons = [
        Comparison(
            "loops", 3, data["loops"], tolerance=0, why="sec. IV-B: a three-loop leg with one degree of freedom"
        ),
        Comparison("constraint equations", 6, rows, tolerance=0, why="fig. 8: two per loop"),
        Comparison(
            "gait",
            "reminiscent of hopping (sec. IV-B)",
            f"{data['mean_speed']:.3f} m/s, apex {data['apex_height']:.3f} m",
            holds=not data["fell"] and abs(gait.mean_speed) < 0.1,
            why="in place: slower than 0.1 m/s, no fall",
        ),
        Comparison("steps", None, len(gait), why="fig. 7 shows a sequence without a number of steps"),
        Comparison(
            "loop gap throughout",
            "asymptotically zero drift (fig. 8)",
            f"at most {run.loop_gap:.1e} m",
            holds=run.loop_gap < 1e-7,
            why="below 1e-7 m: errors of the integrator only",
        ),
        Comparison(
            "gap from a start 0.5 deg off",
            "converges to zero (fig. 8)",
            f"{gap[0]:.1e} m, then {after_second:.1e} m",
            holds=after_second < 1e-8,
            why=f"after the second touchdown below 1e-8 m, errors of the integrator ({usual:.1e} m else)",
        ),
        Comparison("stride time", None, gait.stride_time, "s", why="the paper prints no time"),
        Comparison(
            "friction needed", None, data["worst_friction_need"], "", why="the paper assumes that the foot sticks"
        ),
    ]
    notes = [
        "A Raptor-like leg: the real dimensions are not public. Lengths, body mass, gains and start are ours.",
        "The paper prints no numbers for this leg, so only its statements are compared.",
    ]
    first = float(gait.starts[-2]) - 0.05
    figures = {
        "fig7_frames": sl.view.plot_snapshots(run, times=first + 0.05 * np.arange(10)),
        "fig8_constraint_errors": plots.plot_gaps(loose, until=min(1.2, float(loose.t[-1]))),
        "coordinates": plots.plot_coordinates(run),
        "portrait": sl.view.plot_phase_portrait(run, "boom.y"),
        "torques": plots.plot_torques(run, system=system),
        "contacts": plots.plot_contacts(run),
    }
    info = STUDIES["raptor-hopping"]
    return StudyResult(info, data, comparisons, figures, notes)
