"""Study: a kangaroo rat that lies back is pushed up by its tail (kangaroo rat paper, fig. 15)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.rat_jumping import Held, posture
from saltus.studies.rat_views import curves, lean
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate_side, plot_strip
from saltus.view.style import new_figure, styled

LIMP, PUSH = (-0.14, 0.0, 0.0), (0.19, 0.0, 0.0)  # rad per joint: tail along the ground, tail under the body
TIMES = 0.6, 1.2  # s: it pushes in between
UNTIL = 2.0  # s
LEGS = math.radians(-30.0)


def study(mu: float = 0.5) -> StudyResult:
    """Lie back on ankles and tail, then bend the tail down until the body stands on its soles."""
    runs = {kind: recover(kind, mu) for kind in ("articulated", "continuum")}
    leans = {kind: lean(run) for kind, run in runs.items()}
    before = {k: float(np.interp(TIMES[0], r.t, leans[k])) for k, r in runs.items()}
    after = {k: float(a[-1]) for k, a in leans.items()}
    toes = {k: float(r.force("right_toe_ground")[-1, 2]) for k, r in runs.items()}
    data = {
        "mu": mu,
        "lean_before_deg": before,
        "lean_after_deg": after,
        "toe_force_n": toes,
        "tail_work_j": {k: _tail_work(r) for k, r in runs.items()},
        "energy_residual": {k: r.energy_account["relative residual"] for k, r in runs.items()},
    }
    comparisons = [
        Comparison(
            f"standing up by the {kind} tail",
            "the tail pushes the body up (fig. 15)",
            f"from {before[kind]:.0f} to {after[kind]:.0f} deg, {toes[kind]:.2f} N on each toe",
            holds=abs(after[kind]) < 15 < before[kind] and toes[kind] > 0,
            why="upright within 15 deg, on its toes; lying back before",
        )
        for kind in runs
    ]
    pictures = {kind: (run, curves(run.mechanism)) for kind, run in runs.items()}
    info = STUDIES["rat-recovery"]
    return StudyResult(
        info,
        data,
        comparisons,
        {"fig15_snapshots": plot_strip(pictures, (0.0, 0.6, 0.8, 1.0, 1.2, 2.0)), "motion": _plot(runs, leans)},
        ["The paper plans the tail's motion by hand and prints neither it nor the start; both are ours."],
        {kind: functools.partial(animate_side, run, curves(run.mechanism), speed=0.5) for kind, run in runs.items()},
    )


def recover(kind: str, mu: float) -> sl.Trajectory:
    """Lie back, then be pushed up."""
    rat = sl.zoo.kangaroo_rat(3, 4, kind, contacts="all", legs=lambda t: LEGS + 0 * t)
    m = rat.mechanism
    limp, push = posture(m, LIMP), posture(m, PUSH)
    back = math.radians(16.0)
    start = m.assemble(base=(0, 0, 0.031, math.cos(back), math.sin(back), 0, 0), **limp)
    control = Held(limp, push, TIMES)
    return sl.simulate(rat, start, until=UNTIL, control=control, tolerance=1e-7, params={"mu": mu, "mu_tail": mu})


def _tail_work(run: sl.Trajectory) -> float:
    """Work of the tail's motors (J)."""
    return sum(w for name, w in run.meta["work"].items() if name.startswith("motor tail"))


@styled
def _plot(runs: dict[str, sl.Trajectory], leans: dict[str, np.ndarray]) -> Any:
    figure = new_figure(7.0, 4.6)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    for kind, run in runs.items():
        top.plot(run.t, leans[kind], label=kind)
        feet = sum(run.force(n)[:, 2] for n in run.meta["forces"] if not n.startswith("tail"))
        tail = sum(run.force(n)[:, 2] for n in run.meta["forces"] if n.startswith("tail"))
        middle.plot(run.t, feet, linewidth=0.9)
        bottom.plot(run.t, tail, linewidth=0.9)
    top.set(ylabel="lean (deg)")
    top.legend()
    middle.set(ylabel="force on feet (N)")
    bottom.set(ylabel="force on tail (N)", xlabel="time (s)")
    return figure
