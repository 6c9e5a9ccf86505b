"""Study: a biped with two five-bar legs and free pitch walks on level and on random ground."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate, plot_snapshots
from saltus.view.plots import strips
from saltus.view.style import new_figure, styled

LEGS = ("left", "right")
STANDS = 0.25  # m: a hip below it has fallen
PIECE = 0.1  # m, of random ground


def study(strides: float = 50, friction: float = 0.6, height: float = 0.01, seed: float = 1) -> StudyResult:
    """Walk `strides` on level ground and on random ground within +-`height` (m) of a `seed`; the gait's multipliers."""
    m = sl.zoo.biped()
    until = strides * m.params["period"].value
    level = walk(m, until, friction)
    rough = walk(m, until, friction, ground(float(rough_length(level)), height, int(seed)))
    gait = sl.find_orbit(
        m,
        level.end,
        control=m.controls["walk"],
        params=level.params,
        period=m.params["period"].value,
    )
    rows = {name: numbers(run, friction) for name, run in (("level", level), ("random", rough))}
    data = {
        "strides": int(strides),
        "friction": friction,
        "height_m": height,
        "seed": int(seed),
        **rows,
        "orbit": {
            "speed": gait.speed,
            "period": gait.period,
            "multipliers": [[float(x.real), float(x.imag)] for x in gait.multipliers],
            "stable": gait.is_stable,
            "residual": gait.residual,
        },
        "ok": all(row["ok"] for row in rows.values()),
    }
    largest = float(np.abs(gait.multipliers).max())
    comparisons = [
        Comparison(f"{name} ground", "walks", _said(row), holds=row["ok"], why="no fall, within the friction there is")
        for name, row in rows.items()
    ]
    comparisons.append(
        Comparison("largest multiplier of the walk", "below 1", f"{largest:.4f}", holds=largest < 1, why="it is stable")
    )
    info = STUDIES["biped-walking"]
    notes = [
        "Machine, clock and gains are ours; the law feeds back pitch and speed, and knows nothing of the ground.",
        "Both feet are in the air for a moment between steps: it jogs.",
    ]
    times = float(level.t[-1]) - gait.period * np.linspace(1, 0, 9)
    figures = {"snapshots": plot_snapshots(level, times=times), "feet": _figure(rows, level, rough)}
    film = {"walk": functools.partial(animate, level, speed=0.5, until=3.0)}
    return StudyResult(info, data, comparisons, figures, notes, film)


def ground(length: float, height: float, seed: int) -> sl.ground.Profile:
    """Straight pieces of 10 cm between random heights, level for the first step."""
    x = np.arange(-1.0, length + 2.0, PIECE)
    heights = np.random.default_rng(seed).uniform(-height, height, len(x))
    return sl.ground.Profile(x.tolist(), np.where(x < 0.4, 0.0, heights).tolist())


def rough_length(run: sl.Trajectory) -> float:
    """How far it walks (m), with some more to spare."""
    return 1.3 * float(run["body.x"].max()) + 1.0


def walk(m: sl.Mechanism, until: float, friction: float, terrain: sl.ground.Ground | None = None) -> sl.Trajectory:
    """Walk from the stand."""
    return sl.simulate(
        m,
        m.keyframe("standing"),
        until=until,
        control=m.controls["walk"],
        params={"mu": friction},
        ground=terrain,
        tolerance=1e-8,
        rate=200.0,
    )


def numbers(run: sl.Trajectory, friction: float) -> dict[str, Any]:
    """Distance, speed, lean, slip and friction of a walk."""
    feet = [name for name in run.contacts if name.split()[0] in LEGS]
    used = max(run.contacts.friction_used(name) for name in feet)
    lowest = float(run["body.y"].min())
    pitch = np.degrees(run["body.angle"])
    fell = lowest < STANDS
    half = run.t > run.t[-1] / 2
    return {
        "time_s": run.duration,
        "distance_m": float(run["body.x"][-1]),
        "speed": float(np.ptp(run["body.x"][half]) / np.ptp(run.t[half])),
        "touchdowns": sum(e.name in ("left touches", "right touches") for e in run.events),
        "lowest_hip_m": lowest,
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "slip_m": sum(run.contacts.slip_length(name) for name in feet),
        "friction_used_max": used,
        "fell": fell,
        "ok": bool(run.outcome.ok and not fell and used <= friction * (1 + 1e-6)),
    }


def _said(row: dict[str, Any]) -> str:
    low, high = row["pitch_range_deg"]
    return (
        f"{row['time_s']:.0f} s, {row['distance_m']:.1f} m at {row['speed']:.2f} m/s, pitch {low:.1f} to {high:.1f} "
        f"deg, slip {row['slip_m']:.3f} m"
    )


@styled
def _figure(rows: dict[str, Any], level: sl.Trajectory, rough: sl.Trajectory) -> Any:
    figure = new_figure(7.0, 4.2)
    top, low = figure.subplots(2, 1, height_ratios=(1, 1.2))
    last, runs = float(level.t[-1]), {"level": level, "random": rough}
    strips(top, {f"{leg}, {name}": run.contacts[leg] for name, run in runs.items() for leg in LEGS}, last - 2, last)
    top.set_xlabel("time (s)")
    for name, run in runs.items():
        low.plot(run.t, np.degrees(run["body.angle"]), label=name, linewidth=0.8)
    low.set(xlabel="time (s)", ylabel="pitch (deg)")
    low.legend(ncols=2)
    return figure
