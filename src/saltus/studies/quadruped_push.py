"""Study: how hard the trotting quadruped can be pushed to the side, with its tail controlled, passive and fixed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_runs import (
    EXACT,
    LEANS,
    LOW,
    PUSHED,
    TAILS,
    Crowd,
    machine,
    params,
    period,
    start,
)
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

AT, AFTER = 1.5, 1.5  # s: when the first push begins, and for how long the last one has to be survived
LARGEST = 60.0  # N s, of the map
COLOURS = {"controlled": "blue", "passive": "orange", "fixed": "vermillion"}


def study(phases: float = 3, sizes: float = 6, rounds: float = 1, exact: float = 1) -> StudyResult:
    """Push the trot at so many `phases` of a stride with so many `sizes`, then halve the edges' brackets in `rounds`.

    All run in batches; unless `exact` is 0, the controlled tail's weakest phase again event by event.
    """
    m = machine()
    given = np.linspace(0.0, LARGEST, int(sizes))
    cases = list(itertools.product(TAILS, np.arange(int(phases)) / int(phases)))
    lives = survived(m, [(*case, size) for case in cases for size in given]).reshape(len(cases), -1)
    first = np.array([int(np.argmin(np.append(row, False))) for row in lives])  # the first that is not survived
    low = np.where(first > 0, given[np.maximum(first - 1, 0)], 0.0)
    high = np.where(first < len(given), given[np.minimum(first, len(given) - 1)], math.inf)
    for _ in range(int(rounds)):
        middle = np.where((first > 0) & np.isfinite(high), (low + high) / 2, low)
        held = survived(m, [(*case, size) for case, size in zip(cases, middle, strict=True)])
        low, high = np.where(held, np.maximum(low, middle), low), np.where(held, high, np.minimum(high, middle))
    rows: list[dict[str, Any]] = [
        {"tail": tail, "phase": float(phase), "stands_unpushed": bool(first[k] > 0), "survived_Ns": float(low[k])}
        for k, (tail, phase) in enumerate(cases)
    ]
    least = {tail: min(r["survived_Ns"] for r in rows if r["tail"] == tail) for tail in TAILS}
    data = {
        "push_s": PUSHED,
        "push_at_s": AT,
        "survive_s": AFTER,
        "sizes_Ns": given,
        "map": {tail: lives[[c[0] == tail for c in cases]] for tail in TAILS},
        "pushes": rows,
        "largest_at_every_phase_Ns": least,
        "ok": least["controlled"] > max(least["passive"], least["fixed"]),
    }
    comparisons = [
        Comparison(
            "largest push to the side that the trot survives at every phase: tail controlled, passive, fixed",
            "most with the tail controlled",
            ", ".join(f"{x:.1f} N s" for x in least.values()),
            holds=data["ok"],
            why="aim of this study; the paper has a drawing",
        )
    ]
    figures = {"map": _map(data, int(phases)), "edges": _edges(rows)}
    if exact:
        worst = min((r for r in rows if r["tail"] == "controlled"), key=lambda r: r["survived_Ns"])
        data["exact"] = found = edge(m, worst["phase"], given[given >= worst["survived_Ns"]])
        comparisons.append(
            Comparison(
                f"the controlled tail's weakest phase, {worst['phase']:.2f}, event by event",
                None,
                ", ".join(f"{'falls' if x['fell'] else 'stands'} with {x['push_Ns']:g} N s" for x in found),
                why=f"in the batch it stands with {worst['survived_Ns']:g} N s; a trot that is pushed is irregular",
            )
        )
    info = STUDIES["quadruped-push"]
    notes = [
        f"A push is half a sine of {PUSHED} s on the body; the trot starts from rest with 2 degrees of roll.",
        "Legs are fed back in the same way in all runs; kinds of tail differ in nothing but the tail's torques.",
    ]
    return StudyResult(info, data, comparisons, figures, notes)


def survived(m: sl.Mechanism, cases: list[tuple[str, float, float]]) -> np.ndarray:
    """Whether it stands after a push, for every tail, phase of the stride and size (N s)."""
    turn = period(m, "trot")
    given = [
        params("trot", tail, m) | {"push": float(size), "push_at": AT + phase * turn} for tail, phase, size in cases
    ]
    seconds = AT + turn + PUSHED + AFTER
    runs = Crowd(m, len(cases)).run([start(m, "trot")] * len(cases), given, seconds)
    return np.asarray(runs.ends > seconds - 0.02)


def edge(m: sl.Mechanism, phase: float, sizes: np.ndarray) -> list[dict[str, Any]]:
    """Push it event by event with the tail controlled, harder and harder, until it falls or its run is not resolved."""
    turn, out = period(m, "trot"), []
    for size in sizes:
        given = params("trot", "controlled", m) | {"push": float(size), "push_at": AT + phase * turn}
        law, until = m.controls["run"], AT + turn + PUSHED + AFTER
        run = sl.simulate(m, start(m, "trot"), until=until, control=law, params=given, tolerance=EXACT, rate=200.0)
        upright = 1 - 2 * (run["body.qx"] ** 2 + run["body.qy"] ** 2)
        fell = bool(upright.min() < LEANS or run["body.z"].min() < LOW or run.duration < until - 1e-6)
        out.append({"push_Ns": float(size), "fell": fell, "ok": run.outcome.ok, "verdict": run.outcome.verdict})
        if fell:
            break
    return out


# ---- pictures -------------------------------------------------------------------------------------------------------


@styled
def _map(data: dict[str, Any], phases: int) -> Any:
    """Which pushes are survived, by phase and size."""
    figure = new_figure(8.0, 2.8)
    step = float(data["sizes_Ns"][1] - data["sizes_Ns"][0])
    for ax, (tail, lives) in zip(figure.subplots(1, len(data["map"]), sharey=True), data["map"].items(), strict=True):
        at, size = np.meshgrid(np.arange(phases) / phases, data["sizes_Ns"], indexing="ij")
        for held, colour, label in ((True, "blue", "stands"), (False, "vermillion", "falls")):
            chosen = lives == held
            ax.plot(at[chosen], size[chosen], "s", color=PALETTE[colour], markersize=6, label=label)
        ax.set(title=tail, xlabel="phase of the stride", ylim=(-step / 2, LARGEST + step / 2))
    figure.axes[0].set_ylabel("push (N s)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


@styled
def _edges(rows: list[dict[str, Any]]) -> Any:
    """The largest push survived over the phase of the stride."""
    figure = new_figure(5.0, 3.0)
    ax = figure.add_subplot()
    for tail, colour in COLOURS.items():
        chosen = [r for r in rows if r["tail"] == tail]
        ax.plot(
            [r["phase"] for r in chosen], [r["survived_Ns"] for r in chosen], "o-", color=PALETTE[colour], label=tail
        )
    ax.set(xlabel="phase of the stride at which the push begins", ylabel="largest push survived (N s)", ylim=(0, None))
    ax.legend()
    return figure
