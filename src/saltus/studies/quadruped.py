"""Study: the tailed quadruped runs on hard ground, with its tail controlled, passive, fixed, and without one."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_orbits import found
from saltus.studies.quadruped_runs import (
    CONTROLLERS,
    LEANS,
    REGULAR,
    ROLL,
    TAILS,
    Crowd,
    G,
    Runs,
    alone,
    angles,
    fell,
    machine,
    over_ground,
    params,
    period,
    start,
)
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate, plot_snapshots
from saltus.view.colours import PALETTE
from saltus.view.plots import strips
from saltus.view.style import logarithmic, new_figure, styled
from saltus.zoo.quadruped import LEGS

FAST = 1.5  # m/s that a gait shall reach
CLOCKS = (30.0, 25.0, 23.0, 22.5, 22.0)  # rad/s
ROLLS = (ROLL, 1.0, -1.0, -2.0)  # deg, at the starts of the trots with these
FINE = 1e-4  # tolerance of their batch
FIELDS = (  # of every run; what else is known of it is listed beside
    "gait",
    "tail",
    "speed",
    "fell",
    "strides",
    "pitch_range_deg",
    "roll_range_deg",
    "cost_of_transport",
    "friction_used_max",
    "multipliers_max",
    "ok",
)
SLOWER = "slower trot"  # name of the trot with the Params REGULAR
APART, SMALL = 1e-4, 0.02  # deg of roll between starts whose growing apart is measured; rad up to which it is


def study(strides: float = 50, exact: float = 1) -> StudyResult:
    """Run every gait with every kind of tail for `strides`, from rest with 2 degrees of roll.

    All run in a batch; those that do it at 1.5 m/s or more with the tail controlled again in the event-exact
    simulator, unless `exact` is 0, and so does the trot that is periodic, with the multipliers of its orbit.
    """
    m, bare = machine(), machine("none")
    rows, runs = table(m, bare, int(strides)), {}
    for at, row in enumerate(rows):
        if exact and row["tail"] == "controlled" and row["ok"] and row["speed"] >= FAST:
            runs[row["gait"]] = alone(m, row["gait"], int(strides))
            rows[at] = judged(m, runs[row["gait"]], row["gait"], int(strides))
    if exact:
        steady = alone(m, "trot", int(strides), more=REGULAR)
        orbit = found(m, steady)[1]
        known = {"gait": SLOWER, "multipliers_max": orbit["multipliers_max"]}
        rows.append(judged(m, steady, "trot", int(strides), REGULAR) | known)
    twin = planar()
    good = [r for r in rows if r["tail"] == "controlled" and r["ok"] and r["speed"] >= FAST and r["gait"] != SLOWER]
    slower = clocks(m)
    data = {
        "strides": int(strides),
        "roll_at_start_deg": ROLL,
        "gaits": [{name: row[name] for name in FIELDS} for row in rows],
        "runs": [{n: x for n, x in row.items() if n in ("gait", "tail") or n not in FIELDS} for row in rows],
        "clocks": slower,
        "planar": twin,
    }
    comparisons = [
        Comparison(
            f"gaits that run {int(strides)} strides at {FAST} m/s or more with the tail controlled",
            "two, one of them trot or pace",
            ", ".join(f"{r['gait']} {r['speed']:.2f} m/s" for r in good) or "none",
            holds=len(good) >= 2 and any(r["gait"] in ("trot", "pace") for r in good),
            why="aim of this study; the paper has a drawing",
        ),
        Comparison(
            "planar twin",
            "2 m/s or more, periodic",
            f"{twin['speed']:.2f} m/s, pitch {twin['pitch_range_deg'][0]:.1f} to {twin['pitch_range_deg'][1]:.1f} deg, "
            f"largest multiplier {twin['multipliers_max']:.3f}",
            holds=twin["ok"] and twin["stable"] and twin["speed"] >= 2,
            why="aim of this study; nothing is fed back but the cranks",
        ),
    ]
    info = STUDIES["quadruped"]
    notes = [
        'Machine, clocks and gains are ours. Rows by "simulate" are event-exact, rows by "batch" have steps of 1 ms.',
        "Legs are fed back by roll, pitch and yaw in all rows; kinds of tail differ in nothing but the tail's torques.",
    ]
    figures, films = {}, {}
    for gait, run in runs.items():
        speed = next(r["speed"] for r in rows if r["gait"] == gait)
        figures[gait] = portrait(run, f"{gait.capitalize()} at {speed:.2f} m/s: one motor per leg, and a tail")
        figures[f"lean-{gait}"] = lean(run)
        films[gait] = functools.partial(animate, run, speed=0.5, until=3.0)
    figures["clocks"] = _clocks(slower)
    return StudyResult(info, data, comparisons, figures, notes, films)


def table(m: sl.Mechanism, bare: sl.Mechanism, strides: int) -> list[dict[str, Any]]:
    """Every gait with every tail, side by side."""
    rows: list[dict[str, Any]] = []
    for body, tails in ((m, list(TAILS)), (bare, ["none"])):
        cases = [(gait, tail) for gait in CONTROLLERS for tail in tails]
        seconds = [strides * period(m, gait) + m.params["ramp"].value for gait, _ in cases]
        starts = [start(body, gait) for gait, _ in cases]
        runs = Crowd(body, len(cases)).run(starts, [params(*case, body) for case in cases], max(seconds))
        runs = replace(
            runs, ends=np.minimum(runs.ends, seconds)
        )  # what comes after a gait's own strides does not count
        rows += [_row(body, runs, k, *case, strides, seconds[k]) for k, case in enumerate(cases)]
    return rows


def _row(m: sl.Mechanism, runs: Runs, k: int, gait: str, tail: str, strides: int, seconds: float) -> dict[str, Any]:
    live = runs.live()[:, k]
    late = live & (runs.t > min(1.0, runs.ends[k] / 2))
    roll, pitch, _ = (np.degrees(x[late]) for x in angles(runs.q[:, k, 3:]))
    across, along = runs.forces[late, :, k, 2], np.hypot(*runs.forces[late, :, k, :2].transpose(2, 0, 1))
    pressed = across > 0.01 * weight(m)
    used = float((along[pressed] / across[pressed]).max(initial=0.0))
    speed = float(runs.speed()[k])
    done = int(max(0.0, runs.ends[k] - m.params["ramp"].value) / period(m, gait) + 1e-6)
    gone = bool(runs.ends[k] < seconds - 0.01)
    return {
        "gait": gait,
        "tail": tail,
        "speed": speed,
        "fell": gone,
        "fell_at_s": float(runs.ends[k]) if gone else None,
        "strides": min(done, strides),
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "roll_range_deg": [float(roll.min()), float(roll.max())],
        "cost_of_transport": float(runs.power[late, k].mean() / (weight(m) * max(speed, 1e-3))),
        "friction_used_max": used,
        "multipliers_max": None,
        "growth_per_stride": None,
        "ok": not gone and done >= strides and bool(runs.tip[live, k].min() > 0) and used < 1.01 * m.params["mu"].value,
        "by": "batch",
    }


def weight(m: sl.Mechanism) -> float:
    """Weight (N), with the tail's 2 kg or without."""
    return G * (22.776 + 2 * any(n.startswith("tail") for n in m.inputs))


def judged(
    m: sl.Mechanism, run: sl.Trajectory, gait: str, strides: int, more: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """What is said of an event-exact run, which has Params of its gait and `more`."""
    T = period(m, gait, more)
    q = turns(run)
    late, half = run.t > 1.0, run.t > run.t[-1] / 2
    roll, pitch, _ = (np.degrees(x[late]) for x in angles(q))
    speed = over_ground(run.t, np.column_stack([run["body.x"], run["body.y"]]))
    watts = sum(np.abs(run.torques[n] * run.v[n]) for n in m.inputs)
    energy = float(np.trapezoid(watts[half], run.t[half]) / np.ptp(run.t[half]))
    fallen = np.flatnonzero(1 - 2 * (q[:, 1] ** 2 + q[:, 2] ** 2) < LEANS)
    end = float(run.t[fallen[0]] if len(fallen) else run.t[-1])
    done = int((end - m.params["ramp"].value) / T + 1e-6)
    return {
        "gait": gait,
        "tail": "controlled",
        "speed": speed,
        "fell": bool(len(fallen)),
        "fell_at_s": end if len(fallen) else None,
        "strides": done,
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "roll_range_deg": [float(roll.min()), float(roll.max())],
        "cost_of_transport": energy / (weight(m) * speed),
        "friction_used_max": max(run.contacts.friction_used(f"{leg}_toe") for leg in LEGS),
        "multipliers_max": None,
        "growth_per_stride": growth(m, run, gait, more),
        "footfalls": footfalls(run, T),
        "ok": bool(run.outcome.ok and not len(fallen) and done >= strides),
        "by": "simulate",
    }


def footfalls(run: sl.Trajectory, T: float) -> list[float]:
    """When each toe is on the ground in the second half, as a share of the stride after the front left one.

    It is the mean angle of the clock over the time on the ground, the integral of exp(2 pi i t / T), so that a toe that
    touches twice in a stride counts by how long. A trot has diagonal pairs (0, 0.5, 0.5, 0), an amble four beats (0,
    0.5, 0.75, 0.25), a pace (0, 0.5, 0, 0.5).
    """
    means = []
    for leg in LEGS:
        stands = [x for x in run.contacts[f"{leg}_toe"] if x.mode != "open" and x.begin > run.t[-1] / 2]
        turns = np.exp(2j * math.pi / T * np.array([(x.begin, x.end) for x in stands]))
        means.append((turns[:, 1] - turns[:, 0]).sum())
    return [float(x) for x in np.angle(np.array(means) / means[0]) / (2 * math.pi) % 1]


def turns(run: sl.Trajectory) -> np.ndarray:
    """Quaternions of the body."""
    return np.column_stack([run[f"body.q{c}"] for c in "wxyz"])


def growth(
    m: sl.Mechanism, run: sl.Trajectory, gait: str, more: Mapping[str, float] | None = None, strides: int = 12
) -> float | None:
    """By how much a small difference of starts grows per stride, in the first twelve: how irregular a run from rest is.

    A second run starts with 1e-4 deg more roll. The distance d of roll and pitch (rad) from the first, the largest in
    each stride, grows as g^n: g is fitted to log d in the strides n from the second on, as long as d < 0.02. None if
    that lasts for less than three strides.
    """
    other, T = alone(m, gait, strides, ROLL + APART, more), period(m, gait, more)
    both = zip(angles(turns(run))[:2], angles(turns(other))[:2], strict=True)
    d = np.hypot(*(one[: len(two)] - two for one, two in both))
    stride = (other.t / T).astype(int)
    largest = np.array([d[stride == n].max() for n in range(2, stride[-1])])
    near = np.flatnonzero(largest > SMALL)
    last = near[0] if len(near) else len(largest)
    return float(np.exp(np.polyfit(np.arange(last), np.log(largest[:last]), 1)[0])) if last > 2 else None


def clocks(m: sl.Mechanism, strides: int = 70) -> list[dict[str, Any]]:
    """The trot with slower clocks, from four starts each: where it becomes periodic.

    `stride_differs` (m/s) is how far the body's velocity is from that one stride earlier, at the same angle of the
    clock: the median of the last ten strides. A number that shrinks to nothing says that the gait is periodic.
    """
    rows = []
    for omega in CLOCKS:
        T = 2 * math.pi / omega
        batch = sl.Batch(m, len(ROLLS), step=T / 200, tolerance=FINE, control=m.controls["run"], until=fell, threads=1)
        batch.reset([start(m, "trot", roll) for roll in ROLLS], params={"omega": -omega})
        x, v = [], []
        for _ in range(strides):
            batch.step(times=200)
            x.append(batch.state.q[:, :2].copy())
            v.append(batch.state.v[:, :3].copy())
        differ = np.linalg.norm(np.diff(v[-11:], axis=0), axis=-1)
        rows.append(
            {
                "omega": -omega,
                "fell": [bool(t < (strides - 0.5) * T) for t in batch.t],
                "speeds": [float(d) for d in np.linalg.norm(x[-1] - x[-11], axis=-1) / (10 * T)],
                "stride_differs": [float(d) for d in np.median(differ, axis=0)],
            }
        )
    return rows


def planar(strides: int = 40) -> dict[str, Any]:
    """The planar twin's bound, event by event, and the periodic orbit that it has come to: two turns of the clock."""
    m = sl.zoo.planar_quadruped()
    law, T = m.controls["clock"], 2 * 2 * math.pi / abs(m.params["omega"].value)
    run = sl.simulate(m, m.keyframe("running"), until=strides * T, control=law, tolerance=1e-8, rate=200.0)
    late = run.t > run.t[-1] / 2
    pitch = np.degrees(run["body.angle"][late])
    orbit = sl.find_orbit(m, run.end, control=law, params=run.params, period=T)
    return {
        "speed": float(np.ptp(run["body.x"][late]) / np.ptp(run.t[late])),
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "period_s": orbit.period,
        "multipliers": [[float(x.real), float(x.imag)] for x in orbit.multipliers],
        "multipliers_max": float(np.abs(orbit.multipliers).max()),
        "stable": orbit.is_stable,
        "residual": orbit.residual,
        "ok": bool(run.outcome.ok),
    }


# ---- pictures -------------------------------------------------------------------------------------------------------


@styled
def portrait(run: sl.Trajectory, title: str = "", shown: float = 1.0) -> Any:
    """The machine at four times of its last stride, and when each toe stuck and slipped in the last `shown` seconds."""
    figure = new_figure(9.0, 4.1)
    top, low = figure.subplots(2, 1, height_ratios=(1.9, 1))
    last = float(run.t[-1])
    plot_snapshots(run, times=last - 0.052 * np.arange(4)[::-1], ax=top)
    strips(low, {leg.replace("_", " "): run.contacts[f"{leg}_toe"] for leg in LEGS}, last - shown, last)
    top.set_title(title)
    low.set_xlabel("time (s)")
    return figure


@styled
def _clocks(rows: list[dict[str, Any]]) -> Any:
    """Speed of the trot over its clock, and how far strides differ."""
    figure = new_figure(5.0, 3.6)
    speed, differs = figure.subplots(2, 1, sharex=True)
    for row in rows:
        at = [abs(row["omega"])] * len(row["speeds"])
        speed.plot(at, row["speeds"], "o", color=PALETTE["blue"], markersize=4)
        differs.plot(at, row["stride_differs"], "o", color=PALETTE["blue"], markersize=4)
    speed.set(ylabel="speed (m/s)")
    differs.set(xlabel="clock (rad/s)", ylabel="strides differ by (m/s)")
    logarithmic(differs)
    return figure


@styled
def lean(run: sl.Trajectory) -> Any:
    """Roll, pitch and yaw over time."""
    figure = new_figure(7.0, 2.6)
    ax = figure.add_subplot()
    for name, x in zip(("roll", "pitch", "yaw"), angles(turns(run)), strict=True):
        ax.plot(run.t, np.degrees(x), label=name, linewidth=0.8)
    ax.set(xlabel="time (s)", ylabel="angle (deg)")
    ax.legend(ncols=3)
    return figure
