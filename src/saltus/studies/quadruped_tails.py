"""Study: what the tail is for: one trot with the tail fixed, passive, and under four laws of feedback."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_laws import BEGUN, EACH, LAWS, STEPS, Trot, down, lqr, machine
from saltus.studies.quadruped_orbits import IN_THE_AIR
from saltus.studies.quadruped_runs import PUSHED, REGULAR, ROLL, angles, scattered, start
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

AT = 9  # strides from rest after which the trot is pushed
AFTER = 1.5  # s for which it has to stand after that
LARGEST = 70.0  # N s, of pushes
SLOW = "PFL"  # kind that takes some 80 s of the processor for a second of motion event by event
LASTS = 5.0  # s for which a start at random has to run
# Starts at random, uniform within: roll, pitch, yaw (deg), their rates (rad/s), speed to the side (m/s).
AWAY = {"roll": 15.0, "pitch": 8.0, "yaw": 15.0, "wx": 2.0, "wy": 1.5, "wz": 1.5, "vy": 0.6}


def study(starts: float = 128, phases: float = 6, exact: float = 1, only: str = "") -> StudyResult:
    """Run the trot at 22.5 rad/s with every kind of tail: calm, pushed at so many `phases`, and from so many `starts`.

    All run in batches; unless `exact` is 0, the push that each just stands at its weakest phase, and a harder one, run
    again event by event, but PFL's, whose law makes that fifty times slower. `only` names one kind: fixed, passive, PD,
    PFL, LQR or learnt. A kind takes one to two minutes of the processor: all of them some eight minutes.
    """
    if only and only not in LAWS:
        raise sl.errors.UnknownName("kind of tail", only, LAWS)
    m, sizes = machine(), np.linspace(0.0, LARGEST, 8)
    begin = BEGUN * STEPS // EACH + round(IN_THE_AIR * STEPS / EACH)
    away = scattered(m, settled(Trot(m, "PD"), begin), int(starts), AWAY)
    rows, maps = list[dict[str, Any]](), {}
    for kind in [only] if only else LAWS:
        trot = Trot(m, kind, feedback=lqr(m) if kind == "LQR" else None)
        maps[kind], largest = pushed(trot, int(phases), sizes)
        row = {"tail": kind, **calm(trot), "push_Ns": max(0.0, float(largest.min())), "push_by_phase_Ns": largest}
        row |= {"basin": float(basin(trot, away, begin).mean()), "params": trot.given, "exact": None}
        if exact and kind != SLOW:
            worst, edges = int(np.argmin(largest)), [row["push_Ns"], *sizes[sizes > row["push_Ns"] + 1][:1]]
            row["exact"] = edge(trot, worst / int(phases), edges)
        if trot.feedback is not None:
            row["multipliers_max"] = float(np.abs(trot.feedback.multipliers[0]) ** 2)
            row["multipliers_max_without"] = float(np.abs(trot.feedback.orbit.multipliers[0]) ** 2)
        rows.append(row)
    data = {"omega": REGULAR["omega"], "starts": int(starts), "sizes_Ns": sizes, "tails": rows, "map": maps}
    comparisons = [
        Comparison(f"tail {row['tail']}", None, told(row), why="ours; the paper has a drawing") for row in rows
    ]
    info = STUDIES["quadruped-tails"]
    notes = [
        f"A push is half a sine of {PUSHED} s to the left, after {AT} strides from rest; it stands {AFTER} s after it.",
        "Gains of legs and tail were sought for each kind by `quadruped_search`, of LQR the weights only; with it and "
        "with the policy the legs have the trot's own gains.",
        f"Starts at random are about the trot in the air, within {AWAY}; they have to run for {LASTS:g} s.",
    ]
    figures = {"tails": _figure(rows), "pushes": _maps(maps, sizes)}
    return StudyResult(info, data, comparisons, figures, notes)


def told(row: Mapping[str, Any]) -> str:
    """A row in words."""
    (a, b), (c, d) = row["pitch_range_deg"], row["roll_range_deg"]
    ends = f"falls after {row['strides']} strides" if row["fell"] else f"{row['strides']} strides"
    return (
        f"{ends}, {row['speed']:.2f} m/s, pitch {a:.1f} to {b:.1f}, roll {c:.1f} to {d:.1f} deg, "
        f"push {row['push_Ns']:.1f} N s, {100 * row['basin']:.0f} % of the starts"
    )


# ---- what is measured -----------------------------------------------------------------------------------------------


def calm(trot: Trot, strides: int = 50) -> dict[str, Any]:
    """The trot from rest with 2 degrees of roll, unpushed: speed, ranges of pitch and roll in its second half."""
    seconds = trot.m.params["ramp"].value + strides * trot.T
    runs = trot.runs([start(trot.m, "trot", ROLL)], [{}], seconds)
    live = runs.live()[:, 0]
    late = live & (runs.t > runs.ends[0] / 2)
    roll, pitch, _ = (np.degrees(x[late]) for x in angles(runs.q[:, 0, 3:]))
    speed, gone = float(runs.speed()[0]), bool(runs.ends[0] < seconds - 0.02)
    return {
        "speed": speed,
        "fell": gone,
        "strides": min(strides, int((runs.ends[0] - trot.m.params["ramp"].value) / trot.T + 1e-6)),
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "roll_range_deg": [float(roll.min()), float(roll.max())],
    }


def pushed(trot: Trot, phases: int, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether it stands after pushes to the left by phase and size (N s), and the largest it stands at each phase.

    The edge is halved twice. Pushes that are stood beyond the first that is not do not count.
    """
    at, T = np.arange(phases) / phases, trot.T

    def stands(cases: Sequence[tuple[float, float]]) -> np.ndarray:
        given = [{"push": float(size), "push_at": (AT + phase) * T} for phase, size in cases]
        seconds = (AT + 1) * T + PUSHED + AFTER
        runs = trot.runs([start(trot.m, "trot", ROLL)] * len(cases), given, seconds)
        return np.asarray(runs.ends > seconds - 0.02)

    lives = stands(list(itertools.product(at, sizes))).reshape(phases, -1)
    first = np.array([int(np.argmin(np.append(row, False))) for row in lives])
    low = np.where(first > 0, sizes[np.maximum(first - 1, 0)], -1.0)
    high = np.where(first < len(sizes), sizes[np.minimum(first, len(sizes) - 1)], sizes[-1])
    for _ in range(2):
        middle = np.where((low >= 0) & (high > low), (low + high) / 2, np.maximum(low, 0.0))
        held = stands(list(zip(at, middle, strict=True))) & (low >= 0)
        low, high = np.where(held, np.maximum(low, middle), low), np.where(held, high, np.minimum(high, middle))
    return lives, low


def edge(trot: Trot, phase: float, sizes: Sequence[float]) -> list[dict[str, Any]]:
    """The same pushes at one phase event by event, harder and harder, until it falls."""
    out: list[dict[str, Any]] = []
    for size in sizes:
        until = (AT + 1) * trot.T + PUSHED + AFTER
        runs = trot.alone({"push": float(size), "push_at": (AT + phase) * trot.T}, until)
        gone = down(runs[-1]) or runs[-1].t[-1] < until - 1e-6
        ok = all(x.outcome.ok for x in runs)
        out.append({"push_Ns": float(size), "fell": gone, "ok": ok, "verdict": runs[-1].outcome.verdict})
        if gone:
            break
    return out


def settled(trot: Trot, begin: int) -> sl.State:
    """State of the trot from rest after so many samples."""
    trot.runs([start(trot.m, "trot", ROLL)], [{}], begin * trot.T / STEPS * EACH)
    state = trot.crowd(1).batch.state
    return sl.State(
        trot.m, state.q[0].copy(), state.v[0].copy(), dict(zip(trot.m.params, trot.m.values(trot.given), strict=True))
    )


def basin(trot: Trot, starts: Sequence[sl.State], begin: int) -> np.ndarray:
    """Which starts still run after LASTS seconds."""
    return np.asarray(trot.runs(starts, [{}] * len(starts), LASTS, begin).ends > LASTS - 0.02)


# ---- pictures -------------------------------------------------------------------------------------------------------

COLOURS = dict(zip(LAWS, ("black", "sky", "blue", "orange", "green", "vermillion"), strict=True))


@styled
def _figure(rows: list[dict[str, Any]]) -> Any:
    """Ranges of roll and pitch, the largest push by phase, and the share of starts that run, by kind of tail."""
    figure = new_figure(9.0, 3.4)
    lean, push, share = figure.subplots(1, 3, width_ratios=(1.2, 1.4, 1))
    at = np.arange(len(rows))
    for k, row in enumerate(rows):
        colour = PALETTE[COLOURS[row["tail"]]]
        for name, y, hatch in (("roll_range_deg", k - 0.2, ""), ("pitch_range_deg", k + 0.2, "//")):
            low, high = row[name]
            lean.barh(y, high - low, 0.36, low, color=colour if not hatch else "white", edgecolor=colour, hatch=hatch)
        by = np.maximum(row["push_by_phase_Ns"], 0)
        push.plot(np.arange(len(by)) / len(by), by, "o-", color=colour, markersize=4, label=row["tail"])
        share.barh(k, 100 * row["basin"], 0.6, color=colour)
    lean.use_sticky_edges = False
    for ax in (lean, share):
        ax.set_yticks(at, [r["tail"] for r in rows])
        ax.invert_yaxis()
        ax.grid(False, axis="y")
    lean.set(xlabel="roll (filled) and pitch (hatched), deg", title="calm")
    push.set(xlabel="phase of the stride", ylabel="largest push stood (N s)", ylim=(0, None), title="pushed")
    push.legend(ncols=2, fontsize=7)
    share.set(xlabel=f"starts that run {LASTS:g} s (%)", xlim=(0, 100), title="from random starts")
    return figure


@styled
def _maps(maps: Mapping[str, np.ndarray], sizes: np.ndarray) -> Any:
    """Which pushes are stood, by phase and size, for each kind of tail."""
    figure = new_figure(9.0, 2.4)
    places = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
    for ax, (kind, lives) in zip(places, maps.items(), strict=True):
        at, size = np.meshgrid(np.arange(len(lives)) / len(lives), sizes, indexing="ij")
        for held, colour, label in ((True, "blue", "stands"), (False, "vermillion", "falls")):
            chosen = lives == held
            ax.plot(at[chosen], size[chosen], "s", color=PALETTE[colour], markersize=5, label=label)
        ax.set(title=kind, xlabel="phase", xlim=(-0.1, 0.95))
    figure.axes[0].set_ylabel("push (N s)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
