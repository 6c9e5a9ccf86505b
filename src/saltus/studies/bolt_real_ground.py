"""Study: BOLT runs on ground with friction, its crank on a clock, as it was built (Liu and Ben-Tzvi 2020, sec. 6)."""

from __future__ import annotations

import dataclasses
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
from saltus.zoo.bolt import bolt_pose

# Clocks of the crank, omega (rad/s), K_P (Nm/rad), K_D (Nm s/rad), h, b (rad), and how the leg is let go: speed of the
# belt (m/s), height (m), and, unless it rests at the clock's first angle, the angles (rad) of clock and crank and the
# crank's speed (rad/s). All were found by random searches on batches; `--search 1500` finds such of every speed anew.
CLOCKS = (
    (-24.74, 101.8, 1.585, -0.5798, 0.6305, 0.0, 0.43),
    (-15.95, 31.22, 0.3979, 0.4668, -2.146, 0.0, 0.43),
    (-18.79, 31.22, 0.4302, -0.2635, -1.348, 0.0, 0.43),
    (-21.84, 182.1, 0.6215, 0.005247, -1.726, 0.0, 0.43),
    (-28.2, 93.01, 2.456, -0.1946, 1.324, 0.0, 0.43),
    (-27.52, 26.39, 3.065, -0.3155, 0.7889, 0.0, 0.43),
    (-25.59, 39.79, 8.408, -0.1717, 0.591, 0.0, 0.43),
    (-33.16, 27.48, 3.568, 0.4122, -3.062, 0.0, 0.43),
    (-36.306, 46.984, 7.5122, -0.45585, -2.9139, 2.3862, 0.49197),
    (-60.14, 16.679, 0.86858, 0.78206, 1.9905, 2.4917, 0.59904),
    (-60.126, 14.264, 0.61331, 0.77652, 2.0488, 2.327, 0.60192),
    (-60.127, 12.622, 0.5928, 0.8432, 1.9723, 2.2824, 0.5993),
    (-60.014, 13.679, 0.632, 0.923, 1.9448, 2.3735, 0.5993),
    (-59.805, 14.443, 0.63888, 0.98986, 1.9535, 2.8129, 0.53005, 1.8351, 0.70678, -36.822),
)
NAMES = ("omega", "K_P", "K_D", "h", "b")
NUMBERS = (*NAMES, "belt", "height")  # what a search chooses
AT = {"a_0": 1.75, "q1": 1.75, "rate": 0.0}  # where clock and crank start unless given
LOWEST = np.array([-75.0, 5.0, 0.3, -1.1, -math.pi, 0.0, 0.43])
HIGHEST = np.array([-15.0, 600.0, 20.0, 1.1, math.pi, 4.0, 0.65])
UNITS = np.array([4.0, 0, 0, 0.5, 1.0, 0.5, 0.05])  # steps of a search; of gains they are relative
GAINS = np.array([False, True, True, False, False, False, False])  # are drawn by their logarithms
STEPS = 16
UNTIL = 30.0  # s
HOP = 0.02  # s: contacts that are apart by less are one stance
BIN, KEPT, ROUNDS = 0.05, 6, 30  # m/s, clocks of one speed that a search goes on from, and how often it does
REGULAR = 0.5  # clocks that are less regular are no place to go on from
SETTLED = 12.0  # s: by then a gait has come to its orbit, which is sought from there
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
        "fastest_stable": max((g["speed"] for g in good if g["stable"]), default=None),
        "steps": min((g["steps"] for g in good), default=0),
        "slip_per_stride": fastest["slip_per_stride"] if fastest else None,
        "friction_used_max": max((g["friction_used_max"] for g in good), default=None),
        "fell": any(g["fell"] for g in gaits),
        "ok": bool(good) and len(good) == len(gaits),
        "gaits": gaits,
    }
    if search:
        data["search"] = found(m, int(search), friction)
    stable = [g["speed"] for g in good if g["stable"]]
    comparisons = [
        Comparison(
            "speeds of stable gaits",
            "0.5 to 3.2 m/s",
            f"{min(stable):.2f} to {max(stable):.2f} m/s" if stable else "none",
            holds=bool(stable) and min(stable) <= 0.5 and max(stable) >= 3.2,
            why="sec. 6.1, open loop on a treadmill; at least from as slow to as fast",
        ),
        Comparison("widest gap between their speeds", None, float(np.diff(stable).max(initial=0.0)), "m/s"),
        Comparison(
            "every gait holds",
            "observed at multiple speeds (sec. 6.1)",
            f"{len(good)} of {len(gaits)} run {STEPS} steps or more",
            holds=data["ok"],
            why="no fall, no more friction than there is, energy and loops closed",
        ),
        Comparison("gaits that are periodic and stable", None, f"{len(stable)} of {len(gaits)}"),
    ]
    info = STUDIES["bolt-real-ground"]
    notes = [
        "The paper prints no clocks; these are ours. The ground is hard, the toe's spring has the paper's 65 kN/m.",
        "The leg is let go above a belt that runs, as on the paper's treadmill: on ground, with a speed; for the "
        "fastest gait near its orbit. Speeds are those of the orbits; where none is stable, means of the last 15 s.",
        "Above 2.3 m/s the clock turns four times per long hop and short one, and the crank races for an instant of "
        "flight (`crank_fastest`, rad/s), where it feels the least inertia: the paper prints neither a limit of the "
        "motor's speed nor the inertia of its rotor, which would not let it.",
        "The damping of the toe's spring is not printed; with less of it fewer gaits are regular.",
    ]
    shown = dict(zip((f"{g['speed']:.2f} m/s" for g in gaits), runs, strict=True))
    figures = {"gaits": _figure(gaits), "feet": _strips(shown)} if runs else {}
    return StudyResult(info, data, comparisons, figures, notes)


# ---- one gait -------------------------------------------------------------------------------------------------------


def let_go(held: sl.State, belt: float, height: float) -> sl.State:
    """The leg let go with its body at a height (m) above a belt that runs at a speed (m/s), its crank as it is."""
    m, q, v = held.mechanism, held.positions.copy(), held.velocities.copy()
    q[m.q_names.index("boom.y")], v[m.v_names.index("boom.x")] = height, belt
    return dataclasses.replace(held, positions=q, velocities=v)


def simulate(m: sl.Mechanism, clock: Any, friction: float, start: sl.State, **options: Any) -> sl.Trajectory:
    """Run from a state with a clock."""
    numbers = dict(zip((*NUMBERS, *AT), map(float, clock), strict=False))
    params = {n: numbers[n] for n in (*NAMES, "a_0") if n in numbers}
    return sl.simulate(m, start, control=m.controls["clock"], params={**params, "mu": friction}, **options)


def gait(m: sl.Mechanism, clock: tuple[float, ...], friction: float, until: float = UNTIL) -> dict[str, Any]:
    """All that is said of one clock; under "run" the run itself."""
    at = {**AT, **dict(zip(AT, clock[len(NUMBERS) :], strict=False))}
    held = m.assemble(boom=(0, 0.5), q1=at["q1"], near=bolt_pose(at["q1"]), rates={"q1": at["rate"]})
    run = simulate(m, clock, friction, let_go(held, *clock[len(NAMES) : len(NUMBERS)]), until=until)
    begun = steps(run)
    second = begun[len(begun) // 2 :]
    x = np.array(run.at(np.array(second)).q["boom.x"]) if len(second) > 1 else np.zeros(2)
    used, fell = run.contacts.friction_used("toe"), any("boom.y" in e.name for e in run.events)
    work = np.abs(run.torques["q1"] * run.v["q1"])
    weight = 9.81 * 7.4418  # N, with the toe
    late = run.t >= second[0] if len(second) > 1 else run.t >= 0
    energy = float(np.trapezoid(work[late], run.t[late]))
    mean = float((x[-1] - x[0]) / (second[-1] - second[0])) if len(second) > 1 else 0.0
    turns, periodic = orbit(m, clock, run)
    multipliers = [] if periodic is None else [[float(x.real), float(x.imag)] for x in periodic.multipliers]
    return {
        "clock": {**dict(zip(NUMBERS, clock, strict=False)), **at},
        "speed": float(periodic.speed) if periodic is not None and periodic.is_stable else mean,
        "mean_speed": mean,
        "steps": len(begun),
        "slip_per_stride": run.contacts.slip_length("toe") / max(len(begun), 1),
        "friction_used_max": used,
        "highest": float(run["boom.y"].max()),
        "largest_force": float(run.force("toe")[:, 1].max()),
        "cost_of_transport": energy / (weight * float(np.ptp(run["boom.x"][late]))),
        "crank_fastest": float(np.abs(run.v["q1"][late]).max()),
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

    It is sought from a state in the air. Where the motor comes to a limit derivatives jump, which steps of a tolerance
    below 1e-10 do not always pass.
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
            how = {"control": m.controls["clock"], "params": run.params, "period": period, "tolerance": 1e-10}
            return n, sl.find_orbit(m, start, **how)
        except sl.errors.NoOrbit:
            continue
    return 0, None


# ---- search ---------------------------------------------------------------------------------------------------------


def found(m: sl.Mechanism, count: int, friction: float, seed: int = 1) -> list[dict[str, Any]]:
    """Try ROUNDS times `count` clocks with their starts; return the most regular of each speed.

    A batch runs them on hard ground. A tenth is drawn anywhere, the others near the best so far of some speed, so that
    the range of speeds that have a regular gait grows from round to round.
    """
    r = np.random.default_rng(seed)
    batch = sl.Batch(m, count, step=0.002, control=m.controls["clock"], params={"mu": friction})
    best: dict[int, list[tuple[float, float, tuple[float, ...]]]] = {}
    low, high = (np.where(GAINS, np.log(x, where=GAINS, out=x.copy()), x) for x in (LOWEST, HIGHEST))
    for _ in range(ROUNDS):
        drawn = r.uniform(low, high, (count, len(NUMBERS)))
        tried = np.where(GAINS, np.exp(drawn), drawn)
        keys = [key for key, several in best.items() if key * BIN >= 0.4 and several[0][0] < REGULAR]
        for i in range(count // 10 if keys else count, count):
            several = best[max(keys[j] for j in r.integers(len(keys), size=2))]  # rather a fast one
            old = np.array(several[r.integers(len(several))][2])
            size = math.exp(r.uniform(math.log(0.001), math.log(0.3)))
            step = size * r.normal(size=len(old)) * (r.random(len(old)) < 0.6)
            near = np.where(GAINS, old * np.exp(step), old + step * UNITS)
            near[4] = math.remainder(near[4], 2 * math.pi)
            tried[i] = np.clip(near, LOWEST, HIGHEST)
        for numbers, speed, cost in zip(tried, *trials(m, batch, tried), strict=True):
            if math.isfinite(cost):
                several = best.setdefault(math.floor(speed / BIN), [])
                several.append((float(cost), float(speed), tuple(map(float, numbers))))
                several.sort()
                del several[KEPT:]
    firsts = [best[key][0] for key in sorted(best)]
    return [{"speed": v, "cost": cost, "clock": dict(zip(NUMBERS, x, strict=True))} for cost, v, x in firsts]


def trials(m: sl.Mechanism, batch: sl.Batch, tried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Speed of each clock in the last two of 6 s, and how far from regular it is; infinite if it fell.

    Regular means: states once per turn of the clock are those of one, two, three or four turns before.
    """
    rest = m.keyframe("rest")
    starts = [let_go(rest, *numbers[len(NAMES) :]) for numbers in tried]
    batch.reset(starts, params=dict(zip(NAMES, tried.T, strict=False)))
    batch.step(times=2000)
    seen = [m.q_names.index(n) for n in ("boom.x", "boom.y", "q1")]
    samples = []
    for _ in range(1001):
        now = batch.state
        samples.append(np.hstack([now.q[:, seen], now.v[:, seen]]))
        batch.step()
    x, y, q1, vx, vy, rate = np.array(samples).transpose(2, 1, 0)
    t = 4.0 + 0.002 * np.arange(x.shape[1])
    cost = 3 * np.maximum(0.0, y.max(axis=1) - 0.65)
    for i, omega in enumerate(tried[:, 0]):
        once = np.arange(4.0, 6.0, 2 * math.pi / abs(omega))
        rows = (10 * y[i], vx[i], vy[i], q1[i] - omega * t, 0.03 * rate[i])
        S = np.column_stack([np.interp(once, t, row) for row in rows])
        cost[i] += min(np.median(np.linalg.norm(S[n:] - S[:-n], axis=1)[-12:]) for n in range(1, 5))
    bad = batch.done | (batch.doubts > 0) | (y.min(axis=1) < 0.21) | ~np.isfinite(cost)
    return (x[:, -1] - x[:, 0]) / 2.0, np.where(bad, math.inf, cost)


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
