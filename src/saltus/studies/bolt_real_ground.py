"""Study: BOLT runs on ground with friction, its crank on a clock, as it was built (Liu and Ben-Tzvi 2020, sec. 6)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.plots import strips
from saltus.view.style import new_figure, styled

# Clocks of the crank: omega (rad/s), K_P (Nm/rad), K_D (Nm s/rad), h, b (rad). They were picked from random searches on
# batches, among more than ten thousand clocks; `found` searches in the same way and finds others.
CLOCKS = (
    (-24.74, 101.8, 1.585, -0.5798, 0.6305),
    (-15.95, 31.22, 0.3979, 0.4668, -2.146),
    (-18.79, 31.22, 0.4302, -0.2635, -1.348),
    (-21.84, 182.1, 0.6215, 0.005247, -1.726),
    (-28.2, 93.01, 2.456, -0.1946, 1.324),
    (-27.52, 26.39, 3.065, -0.3155, 0.7889),
    (-25.59, 39.79, 8.408, -0.1717, 0.591),
    (-33.16, 27.48, 3.568, 0.4122, -3.062),
    (-60.03, 184.5, 1.785, 0.1877, 0.8268),
    (-61.444, 239.45, 1.9781, 0.17987, 0.84676),
    (-80.7, 119.7, 1.434, 0.498, 1.692),
    (-88.95, 16.11, 11.06, 0.1806, 3.045),
)
NAMES = ("omega", "K_P", "K_D", "h", "b")
LOWEST = np.array([-90.0, 10.0, 0.3, -0.85, -math.pi])
HIGHEST = np.array([-15.0, 600.0, 20.0, 0.85, math.pi])
STEPS = 16
UNTIL = 30.0  # s: irregular gaits are now faster and now slower
HOP = 0.02  # s: contacts that are apart by less are one stance
BIN, KEPT, ROUNDS = 0.2, 8, 12  # m/s, clocks of one speed that a search goes on from, and how often it does
GAINS = np.array([False, True, True, False, False])  # are drawn by their logarithms
SETTLED = 8.0  # s: by then a gait has come to its orbit, which is sought from there
NEAR, LONGEST = 0.02, 8  # states (SI units) so near to one so many turns of the clock before may be periodic


def study(friction: float = 0.8, search: float = 0) -> StudyResult:
    """Run every stored clock on hard ground and judge it: speed, steps, slip, friction used, multipliers if periodic.

    With `search` as many clocks are tried in each of twelve rounds, and the most regular of every speed are given.
    """
    m = sl.zoo.bolt_on_ground()
    gaits = sorted((gait(m, clock, friction) for clock in CLOCKS), key=lambda g: g["speed"])
    runs = [g.pop("run") for g in gaits]
    good = [g for g in gaits if g["ok"]]
    fastest = max(good, key=lambda g: g["speed"], default=None)
    data: dict[str, Any] = {
        "friction": friction,
        "speed": fastest["speed"] if fastest else None,
        "slowest": min((g["speed"] for g in good), default=None),
        "fastest_periodic": max((g["speed"] for g in good if g["stable"]), default=None),
        "steps": min((g["steps"] for g in good), default=0),
        "slip_per_stride": fastest["slip_per_stride"] if fastest else None,
        "friction_used_max": max((g["friction_used_max"] for g in good), default=None),
        "fell": any(g["fell"] for g in gaits),
        "ok": bool(good) and len(good) == len(gaits),
        "gaits": gaits,
    }
    if search:
        data["search"] = found(m, int(search), friction)
    slow, quick = data["slowest"] or math.nan, data["speed"] or math.nan
    periodic = [g for g in good if g["multipliers"]]
    comparisons = [
        Comparison("slowest gait", 0.5, slow, "m/s", holds=bool(slow <= 0.5), why="sec. 6.1, at least as slow"),
        Comparison(
            "fastest gait",
            3.2,
            quick,
            "m/s",
            why="sec. 6.1, on a treadmill; above 2.5 m/s ours hop irregularly: the mean of 15 s",
        ),
        Comparison(
            "every gait holds",
            "observed at multiple speeds (sec. 6.1)",
            f"{len(good)} of {len(gaits)} run {STEPS} steps or more",
            holds=data["ok"],
            why="no fall, no more friction than there is, energy and loops closed",
        ),
        Comparison("gaits that are periodic and stable", None, sum(g["stable"] for g in periodic)),
        Comparison("fastest of those", None, data["fastest_periodic"] or math.nan, "m/s"),
    ]
    info = STUDIES["bolt-real-ground"]
    notes = [
        "The paper prints no clocks; these are ours. The ground is hard, the toe's spring has the paper's 65 kN/m.",
        "Gaits that are not stable and periodic hop irregularly: their speeds are means over the second half of their "
        "steps, 15 s, and another stretch of the same run has another mean. The fastest were chosen among many.",
        "The damping of the toe's spring is not printed; with less of it fewer gaits are regular.",
    ]
    shown = dict(zip((f"{g['speed']:.2f} m/s" for g in gaits), runs, strict=True))
    figures = {"gaits": _figure(gaits), "feet": _strips(shown)} if runs else {}
    return StudyResult(info, data, comparisons, figures, notes)


# ---- one gait -------------------------------------------------------------------------------------------------------


def simulate(m: sl.Mechanism, clock: Any, friction: float, start: sl.State, **options: Any) -> sl.Trajectory:
    """Run from a state with a clock."""
    params = {**dict(zip(NAMES, map(float, clock), strict=True)), "mu": friction}
    return sl.simulate(m, start, control=m.controls["clock"], params=params, **options)


def gait(m: sl.Mechanism, clock: tuple[float, ...], friction: float, until: float = UNTIL) -> dict[str, Any]:
    """All that is said of one clock; under "run" the run itself."""
    run = simulate(m, clock, friction, m.keyframe("rest"), until=until)
    begun = steps(run)
    second = begun[len(begun) // 2 :]
    x = np.array(run.at(np.array(second)).q["boom.x"]) if len(second) > 1 else np.zeros(2)
    used, fell = run.contacts.friction_used("toe"), any("boom.y" in e.name for e in run.events)
    work = np.abs(run.torques["q1"] * run.v["q1"])
    weight = 9.81 * 7.4418  # N, with the toe
    late = run.t >= second[0] if len(second) > 1 else run.t >= 0
    energy = float(np.trapezoid(work[late], run.t[late]))
    turns, periodic = orbit(m, clock, run)
    multipliers = [] if periodic is None else [[float(x.real), float(x.imag)] for x in periodic.multipliers]
    return {
        "clock": dict(zip(NAMES, clock, strict=True)),
        "speed": float((x[-1] - x[0]) / (second[-1] - second[0])) if len(second) > 1 else 0.0,
        "steps": len(begun),
        "slip_per_stride": run.contacts.slip_length("toe") / max(len(begun), 1),
        "friction_used_max": used,
        "highest": float(run["boom.y"].max()),
        "largest_force": float(run.force("toe")[:, 1].max()),
        "cost_of_transport": energy / (weight * float(np.ptp(run["boom.x"][late]))),
        "turns_per_period": turns,
        "multipliers": multipliers,
        "stable": periodic is not None and periodic.is_stable,
        "fell": fell,
        "ok": bool(run.outcome.ok and not fell and len(begun) >= STEPS and used <= friction * (1 + 1e-6)),
        "run": run,
    }


def steps(run: sl.Trajectory) -> list[float]:
    """Times at which stances begin; a foot that leaves for less than HOP stays."""
    touches = [(x.begin, x.end) for x in run.contacts["toe"] if x.mode != "open"]
    begun = [begin for begin, _ in touches[:1]]
    begun += [b[0] for a, b in itertools.pairwise(touches) if b[0] - a[1] > HOP]
    return begun


# ---- periodic ones --------------------------------------------------------------------------------------------------


def states(run: sl.Trajectory, omega: float) -> np.ndarray:
    """Once a turn of the clock: height, crank ahead of the clock, and velocities of body and crank, of this a tenth."""
    t = np.arange(run.t[0], min(run.t[-1], SETTLED), 2 * math.pi / abs(omega))
    at = run.at(t)
    rows = at.q["boom.y"], at.q["q1"] - omega * t, at.v["boom.x"], at.v["boom.y"], 0.1 * at.v["q1"]
    return np.column_stack(rows)


def orbit(m: sl.Mechanism, clock: tuple[float, ...], run: sl.Trajectory) -> tuple[int, sl.Orbit | None]:
    """The periodic orbit that a run has come to, and the turns of the clock in its period; (0, None) if there is none.

    It is sought from a state in the air.
    """
    S = states(run, clock[0])
    flights = [x for x in run.contacts["toe"] if x.mode == "open" and x.end < min(run.t[-1], SETTLED)]
    for n in range(1, LONGEST + 1):
        if not flights or np.abs(S[-1] - S[-1 - n]).max() >= NEAR:
            continue
        flight = max(flights[-2 * n :], key=lambda x: x.end - x.begin)
        start = run.at((flight.begin + flight.end) / 2)
        try:
            period = n * 2 * math.pi / abs(clock[0])
            return n, sl.find_orbit(m, start, control=m.controls["clock"], params=run.params, period=period)
        except sl.errors.NoOrbit:
            continue
    return 0, None


# ---- search ---------------------------------------------------------------------------------------------------------


def found(m: sl.Mechanism, count: int, friction: float, seed: int = 1) -> list[dict[str, Any]]:
    """Try ROUNDS times `count` clocks, beside the stored ones; return the best of each speed.

    A batch runs them on hard ground. A sixth is drawn anywhere, the others near the best so far of some speed, which
    are those that come back nearest to themselves after a few turns of the clock, without hopping above 0.6 m.
    """
    r = np.random.default_rng(seed)
    batch = sl.Batch(m, count, step=0.001, control=m.controls["clock"], params={"mu": friction})
    best: dict[int, list[tuple[float, float, tuple[float, ...]]]] = {}
    low, high = (np.where(GAINS, np.log(np.abs(x)), x) for x in (LOWEST, HIGHEST))
    for _ in range(ROUNDS):
        drawn = r.uniform(low, high, (count, len(NAMES)))
        clocks = np.where(GAINS, np.exp(drawn), drawn)
        keys = [key for key in best if key >= 1]
        if not keys:
            clocks[: len(CLOCKS)] = np.array(CLOCKS).reshape(-1, len(NAMES))[:count]
        for i in range(count // 6 if keys else count, count):
            several = best[keys[r.integers(len(keys))]]
            old = np.array(several[r.integers(len(several))][2])
            step = math.exp(r.uniform(math.log(0.003), math.log(0.3))) * r.normal(size=len(NAMES))
            near = np.where(GAINS, old * np.exp(step), old + step * np.array([4.0, 0, 0, 0.5, 1.0]))
            near[-1] = math.remainder(near[-1], 2 * math.pi)
            clocks[i] = np.clip(near, LOWEST, HIGHEST)
        for clock, speed, cost in zip(clocks, *trials(m, batch, clocks), strict=True):
            if math.isfinite(cost):
                several = best.setdefault(round(speed / BIN), [])
                several.append((float(cost), float(speed), tuple(map(float, clock))))
                several.sort()
                del several[KEPT:]
    firsts = [best[key][0] for key in sorted(best)]
    return [{"speed": v, "cost": cost, "clock": dict(zip(NAMES, clock, strict=True))} for cost, v, clock in firsts]


def trials(m: sl.Mechanism, batch: sl.Batch, clocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Speed of each clock in the second half of 8 s, and how far from regular it is; infinite if it fell."""
    batch.reset(m.keyframe("rest"), params=dict(zip(NAMES, clocks.T, strict=True)))
    batch.step(times=4000)
    seen = [m.q_names.index(n) for n in ("boom.x", "boom.y", "q1")]
    samples = []
    for _ in range(4001):
        now = batch.state
        samples.append(np.hstack([now.q[:, seen], now.v[:, seen]]))
        batch.step()
    x, y, q1, vx, vy, rate = np.array(samples).transpose(2, 1, 0)
    t = 4.0 + 0.001 * np.arange(x.shape[1])
    cost = 3 * np.maximum(0.0, y.max(axis=1) - 0.6)
    for i, omega in enumerate(clocks[:, 0]):
        once = np.arange(4.0, 8.0, 2 * math.pi / abs(omega))
        rows = (10 * y[i], vx[i], vy[i], q1[i] - omega * t, 0.03 * rate[i])
        S = np.column_stack([np.interp(once, t, row) for row in rows])
        cost[i] += min(np.linalg.norm(S[n:] - S[:-n], axis=1).mean() for n in range(1, 6))
    bad = batch.done | (batch.doubts > 0) | (y.min(axis=1) < 0.21) | ~np.isfinite(cost)
    return (x[:, -1] - x[:, 0]) / 4.0, np.where(bad, math.inf, cost)


# ---- pictures -------------------------------------------------------------------------------------------------------


@styled
def _figure(gaits: list[dict[str, Any]]) -> Any:
    figure = new_figure(7.0, 4.6)
    panels = {
        "steps per second": lambda g: g["steps"] / UNTIL,
        "slip (m per step)": lambda g: g["slip_per_stride"],
        "largest |multiplier|": lambda g: max((abs(complex(*x)) for x in g["multipliers"]), default=math.nan),
        "cost of transport": lambda g: g["cost_of_transport"],
    }
    for ax, (label, value) in zip(figure.subplots(2, 2, sharex=True).flat, panels.items(), strict=True):
        ax.plot([g["speed"] for g in gaits], [value(g) for g in gaits], "o", color=PALETTE["blue"], markersize=4)
        ax.set(ylabel=label)
        if label in ("largest |multiplier|", "cost of transport"):
            ax.set(xlabel="speed (m/s)")
    return figure


@styled
def _strips(runs: dict[str, sl.Trajectory]) -> Any:
    """When the toe stuck and slipped, in the last second of each run."""
    figure = new_figure(7.0, 0.7 + 0.25 * len(runs))
    ax = figure.add_subplot()
    strips(ax, {name: run.contacts["toe"] for name, run in runs.items()}, UNTIL - 1, UNTIL)
    ax.set_xlabel("time (s)")
    return figure
