"""Study: the trotting quadruped turns by 90 degrees at speed, by legs that step unevenly and by its tail."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped import ROLLS
from saltus.studies.quadruped_runs import (
    EXACT,
    LEANS,
    LOW,
    NO_STEER,
    ROLL,
    STEP,
    TOLERANCE,
    Crowd,
    angles,
    machine,
    start,
)
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate, plot_snapshots
from saltus.view.style import new_figure, styled

OMEGA = -24.0  # rad/s: a slower clock than the trot's own, with which more of the steering is survived
AT, RATE = 1.0, 0.7  # s, rad/s: when and how fast the heading that is asked for turns
ANGLE, ASKED, STRIDES = 90.0, 95.0, 10  # deg that shall be turned, in less strides than this; deg asked for: it sways
TRIED = 14  # strides that are run from AT on: the turn, and straight on
STRIDE = 2 * math.pi / abs(OMEGA)  # s
UNTIL = AT + TRIED * STRIDE  # s: the time of a run
TURN = {"omega": OMEGA, "turn": RATE, "turn_at": AT, "turn_until": AT + math.radians(ASKED) / RATE}
RIGHT = TURN | {"turn": -RATE}
WAYS: dict[str, dict[str, float]] = {
    "legs and tail": RIGHT,
    "legs": RIGHT | {"swing_turn": 0.0, "swing_yaw": 0.0, "swing_yaw_rate": 0.0},
    "feedback of the heading": RIGHT | NO_STEER,
    "legs and tail, to the left": TURN,
}


def study(starts: float = 4) -> StudyResult:
    """Turn the trot by 90 degrees by legs and tail, without the tail's help, by feedback alone, and to the left.

    All run in a batch. By legs and tail it turns again in the event-exact simulator, from so many `starts`, which
    differ in roll; with none, the batch's run is judged.
    """
    m = machine()
    paths = dict(zip(WAYS, crowd(m, list(WAYS.values())), strict=True))
    rows = [{"by_means_of": way, "by": "batch", **judged(WAYS[way], *path)} for way, path in paths.items()]
    runs = {roll: alone(m, RIGHT, roll) for roll in ROLLS[: int(starts)]}
    exact = [{"roll_at_start_deg": roll, "by": "simulate", **judged(RIGHT, x.t, _body(x))} for roll, x in runs.items()]
    for row, run in zip(exact, runs.values(), strict=True):
        row |= {"ok": bool(row["ok"] and run.outcome.ok), "verdict": run.outcome.verdict}
    best = exact[0] if exact else rows[0]
    comparisons = [
        Comparison(
            f"turn by {ANGLE:g} degrees at speed",
            f"in less than {STRIDES} strides",
            f"{best['strides']:.1f} strides, {best['yaw_rate_deg_per_s']:.0f} deg/s, {best['speed']:.2f} m/s, "
            f"radius {best['radius_m']:.2f} m"
            if best["strides"]
            else f"{best['turned_deg']:.0f} deg in {TRIED} strides",
            holds=best["ok"],
            why="aim of this study; the paper has a drawing",
        ),
        *(
            Comparison(
                f"from {row['roll_at_start_deg']:g} degrees of roll",
                None,
                f"{row['strides'] or math.nan:.1f} strides, {row['verdict']}{', fell' if row['fell'] else ''}",
            )
            for row in exact[1:]
        ),
    ]
    figures, films = {"paths": _paths(paths)}, {}
    if runs:
        run = runs[ROLL]
        figures["snapshots"] = plot_snapshots(run, times=AT + np.linspace(0, STRIDES * STRIDE, 6))
        films["turn"] = functools.partial(animate, run, speed=0.5)
    info = STUDIES["quadruped-turn"]
    notes = [
        "Legs lie in sagittal planes: two feet that stick, one ahead of the other, do not let the body turn.",
        "Steering brings the hind legs nearer in phase: two feet side by side that stick let it turn.",
    ]
    data = {"steer_at_s": AT, "angle_deg": ANGLE, "turns": rows, "starts": exact, "ok": best["ok"]}
    return StudyResult(info, data, comparisons, figures, notes, films)


def crowd(
    m: sl.Mechanism,
    cases: Sequence[Mapping[str, float]],
    rolls: Sequence[float] = (ROLL,),
    tolerance: float = TOLERANCE,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Times and places of the body with the Params of every case, until it falls; starts have `rolls` (deg) in turn."""
    starts = itertools.islice(itertools.cycle([start(m, "trot", roll) for roll in rolls]), len(cases))
    runs = Crowd(m, len(cases), tolerance).run(list(starts), cases, UNTIL)
    return [(runs.t[live], runs.q[live, k]) for k, live in enumerate(runs.live().T)]


def alone(
    m: sl.Mechanism, given: Mapping[str, float], roll: float, until: float = UNTIL, rate: float = 200.0
) -> sl.Trajectory:
    """Turn event by event."""
    law = m.controls["run"]
    return sl.simulate(m, start(m, "trot", roll), until=until, control=law, params=given, tolerance=EXACT, rate=rate)


def _body(run: sl.Trajectory) -> np.ndarray:
    return np.column_stack([run[f"body.{c}"] for c in ("x", "y", "z", "qw", "qx", "qy", "qz")])


def judged(given: Mapping[str, float], t: np.ndarray, q: np.ndarray) -> dict[str, Any]:
    """How far and how fast it turned from AT on, to the side that it was given, and whether it fell."""
    roll, _, yaw = (np.degrees(x) for x in angles(q[:, 3:]))
    since = t - AT
    turned = math.copysign(1.0, given["turn"]) * (yaw - np.interp(AT, t, yaw))
    lean = 1 - 2 * (q[:, 4] ** 2 + q[:, 5] ** 2)
    gone = bool(t[-1] < UNTIL - 0.05 or lean.min() < LEANS or q[:, 2].min() < LOW)
    done = float(since[np.argmax(turned >= ANGLE)]) if (turned >= ANGLE).any() else None
    time = max(float(since[-1]) if done is None else done, STEP)
    at = np.linspace(AT, AT + time, max(2, round(4 * time)))  # far enough apart that swaying is no way
    way_m = float(np.hypot(*(np.diff(np.interp(at, t, q[:, i])) for i in (0, 1))).sum())
    rate = float(np.interp(time, since, turned)) / time
    after = turned[since > STRIDES * STRIDE]
    return {
        "turned_deg": float(turned.max()),
        "strides": None if done is None else done / STRIDE,
        "yaw_rate_deg_per_s": rate,
        "speed": way_m / time,
        "radius_m": way_m / max(abs(math.radians(rate)) * time, 1e-9),
        "heading_after_deg": [float(after.min()), float(after.max())] if len(after) else None,
        "roll_rms_deg": float(np.sqrt(np.mean(roll**2))),
        "fell": gone,
        "until_s": float(t[-1]),
        "ok": bool(not gone and done is not None and done < STRIDES * STRIDE),
    }


@styled
def _paths(paths: dict[str, tuple[np.ndarray, np.ndarray]]) -> Any:
    """Ways over ground, and headings over time."""
    figure = new_figure(8.0, 3.4)
    over, heading = figure.subplots(1, 2)
    for way, (t, q) in paths.items():
        over.plot(q[:, 0], q[:, 1], label=way)
        heading.plot(t, np.degrees(angles(q[:, 3:])[2]), label=way)
    heading.axvline(AT, color="#777777", linewidth=0.8, linestyle=":")
    over.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    heading.set(xlabel="time (s)", ylabel="heading (deg)")
    heading.legend()
    return figure
