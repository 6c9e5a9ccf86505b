"""Study: a four-bar through five points at given crank angles, a test problem of the path-generation literature."""

from __future__ import annotations

import math

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view import design_plots

# Second case of Cabrera, Simon and Prado (2002), Mechanism and Machine Theory 37, posed by Kunjur and Krishnamurty
# (1997): ground pivots at (0, 0) and (r1, 0), crank angles 30, 45, 60, 75 and 90 degrees.
TARGET = np.array([(3.0, 3.0), (2.759, 3.363), (2.372, 3.663), (1.890, 3.862), (1.355, 3.943)])
NAMES = ("r1", "r2", "r3", "r4", "c_x", "c_y")
PUBLISHED = {  # ground, crank, coupler, rocker, coupler point, as printed
    "Kunjur and Krishnamurty 1997": (3.509643, 1.857606, 4.725835, 3.518721, 1.959538, 1.558898),
    "Cabrera et al. 2002": (3.0630424, 1.9959624, 3.305823, 2.524706, 1.645158, 1.708959),
    "Cabrera et al. 2011 (MUMSA)": (3.77326856, 2.00000403, 4.11697104, 2.74615671, 1.67848787, 1.67098007),
    "Nguyen-Van and Gwak 2022": (4.2930812, 1.9978324, 4.7374099, 2.9417301, 1.7074051, 1.6441696),
}
BOUNDS = {
    "r1": (0.1, 50.0),
    "r2": (0.1, 50.0),
    "r3": (0.1, 50.0),
    "r4": (0.1, 50.0),
    "c_x": (-50.0, 50.0),
    "c_y": (-50.0, 50.0),
}


def linkage() -> sl.Mechanism:
    """Four-bar with its lengths and its coupler point as Params (any unit of length)."""
    m = sl.Mechanism("four-bar")
    r1, r2, r3, r4, cx, cy = (m.param(n, v) for n, v in zip(NAMES, PUBLISHED["Cabrera et al. 2002"], strict=True))
    crank, coupler, rocker = (m.rod(n, mass=1.0, length=r) for n, r in (("crank", r2), ("coupler", r3), ("rocker", r4)))
    m.revolute("crank", m.ground.at(0, 0), crank.start, motor=True)
    m.revolute("coupler", crank.end, coupler.start)
    m.revolute("rocker", m.ground.at(r1, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    m.point("tracer", coupler.at(cx, cy))
    return m


def study() -> StudyResult:
    """Recompute the published errors, then search from random designs."""
    m = linkage()
    begin = math.radians(30)
    branches = m.branches(crank=begin)
    gaps = [float(np.linalg.norm(s.position("tracer") - TARGET[0])) for s in branches]
    turn = sl.design.Turn(branches[int(np.argmin(gaps))], "crank", 72)
    error = sl.design.PathError("tracer", TARGET, samples=[0, 3, 6, 9, 12])
    names = list(BOUNDS)
    problem = sl.design.Problem(turn, BOUNDS, {"error": error})
    rows = np.array([PUBLISHED[n] for n in PUBLISHED])
    values, missed = problem.evaluate(rows)
    published = dict(zip(PUBLISHED, values[:, 0].tolist(), strict=True))
    full = dict(zip(PUBLISHED, (missed[:, 0] == 0).tolist(), strict=True))

    generator = np.random.default_rng(0)
    low, high = np.array([(1.0, 10.0)] * 4 + [(-5.0, 5.0)] * 2).T
    starts = [rows[1], *[generator.uniform(low, high) for _ in range(11)]]
    found = problem.best(starts, f"IPOPT from {len(starts)} designs")
    best = min(v for n, v in published.items() if full[n])
    data = {
        "published_errors": published,
        "published_turns_fully": full,
        "error_found": found.value,
        "lengths": found.params,
        "feasible": found.feasible,
        "evaluations": found.evaluations,
        "seconds": found.seconds,
    }
    comparisons = [
        Comparison(
            "sum of squared errors",
            best,
            found.value,
            "",
            holds=found.value <= best * (1 + 1e-9),
            why="best published linkage that turns fully, its error computed here from its printed lengths",
        ),
        Comparison("turns fully", "crank-rocker (Grashof)", "yes" if found.feasible else "no", holds=found.feasible),
        *[
            Comparison(
                f"error of {name}",
                None,
                value,
                "",
                why="from the printed lengths" + ("" if full[name] else "; does not turn fully on this branch"),
            )
            for name, value in published.items()
        ],
    ]
    both = turn.walk(np.vstack([turn.params(dict(zip(names, rows[1], strict=True))), turn.params(found.params)]))
    assert both.q is not None
    paths = {
        "Cabrera et al. 2002": sl.trace(m, both.q[0], ["tracer"])[:, 0],
        "found here": sl.trace(m, both.q[1], ["tracer"], params=found.params)[:, 0],
    }
    info = STUDIES["four-bar-path"]
    return StudyResult(
        info,
        data,
        comparisons,
        {"paths": design_plots.plot_paths(paths, target=TARGET)},
        list(found.notes),
    )
