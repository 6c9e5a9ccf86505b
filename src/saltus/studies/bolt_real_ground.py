"""Study: BOLT runs on ground with friction, its crank on a clock (what sec. 6 of Liu and Ben-Tzvi 2020 built and ran)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view.style import PALETTE, new_figure, styled

# Clocks of the crank: omega (rad/s), K_P (Nm/rad), K_D (Nm s/rad), h, b (rad). All were found by `search`, begun anew from
# the ones known before.
CLOCKS: tuple[tuple[float, ...], ...] = ()
NAMES = ("omega", "K_P", "K_D", "h", "b")
LOWEST = np.array([-70.0, 10.0, 0.3, -0.7, -math.pi])
HIGHEST = np.array([-15.0, 300.0, 10.0, 0.7, math.pi])
STEPS = 16
UNTIL = 8.0  # s
HOP = 0.02  # s: contacts that are apart by less are one stance
BIN = 0.3  # m/s
SAME = 1e-5  # distance (mixed SI units) of states that are the same


def study(friction: float = 0.8, search: float = 0) -> StudyResult:
    """Run every stored clock on hard ground and judge it: speed, steps, slip, friction used, multipliers if periodic.

    With `search` so many clocks are tried beside the stored ones, and the most regular of every speed are given.
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
        Comparison("slowest gait", 0.5, slow, "m/s", holds=bool(slow <= 0.5), why="sec. 6.1: open loop, on a treadmill"),
        Comparison("fastest gait", 3.2, quick, "m/s", holds=bool(quick >= 3.2), why="sec. 6.1, at least as fast"),
        Comparison(
            "every gait holds",
            "observed at multiple speeds (sec. 6.1)",
            f"{len(good)} of {len(gaits)} run {STEPS} steps or more",
            holds=data["ok"],
            why="no fall, no more friction than there is, energy and loops closed",
        ),
        Comparison("gaits that are periodic and stable", None, sum(g["stable"] for g in periodic)),
    ]
    info = STUDIES["bolt-real-ground"]
    notes = [
        "The paper prints no clocks; these are ours. The ground is hard, the toe's spring has the paper's 65 kN/m.",
        "Gaits without multipliers hop irregularly: their speeds are means over the second half of their steps.",
    ]
    shown = dict(zip((f"{g['speed']:.2f} m/s" for g in gaits), runs, strict=True))
    figures = {"gaits": _figure(gaits), "strips": sl.view.plot_contact_strips(shown)} if runs else {}
    return StudyResult(info.name, info.title, info.source, data, comparisons, figures, notes)


# ---- one gait -------------------------------------------------------------------------------------------------------


def simulate(m: sl.Mechanism, clock: Any, friction: float, start: sl.State | None = None, **options: Any) -> Any:
    """Run from rest, or from a state, with a clock."""
    params = {**dict(zip(NAMES, map(float, clock), strict=True)), "mu": friction}
    begin = start or m.keyframe("rest")
    return sl.simulate(m, begin, control=m.controls["clock"], params=params, **options)


def gait(m: sl.Mechanism, clock: tuple[float, ...], friction: float) -> dict[str, Any]:
    """All that is said of one clock; under "run" the run itself."""
    run = simulate(m, clock, friction, until=UNTIL)
    begun = steps(run)
    second = begun[len(begun) // 2 :]
    x = np.array(run.at(np.array(second)).q["boom.x"]) if len(second) > 1 else np.zeros(2)
    used, fell = run.contacts.friction_used("toe"), any("boom.y" in e.name for e in run.events)
    work = np.abs(run.torques["q1"] * run.v["q1"])
    weight = 9.81 * 7.4418  # N, with the toe
    late = run.t >= second[0] if len(second) > 1 else run.t >= 0
    energy = float(np.trapezoid(work[late], run.t[late]))
    turns, multipliers = periodicity(m, clock, friction, run)
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
        "stable": bool(multipliers) and max(abs(complex(*x)) for x in multipliers) < 1,
        "fell": fell,
        "ok": bool(run.outcome.ok and not fell and len(begun) >= STEPS and used <= friction * (1 + 1e-9)),
        "run": run,
    }


def steps(run: sl.Trajectory) -> list[float]:
    """Times at which stances begin; a foot that leaves for less than HOP stays."""
    touches = [(x.begin, x.end) for x in run.contacts["toe"] if x.mode != "open"]
    begun = [begin for begin, _ in touches[:1]]
    begun += [b[0] for a, b in itertools.pairwise(touches) if b[0] - a[1] > HOP]
    return begun


# ---- periodic ones --------------------------------------------------------------------------------------------------


def states(run: sl.Trajectory, omega: float, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Instants once a turn of the clock, and there height, crank ahead of the clock, toe, and all velocities."""
    turn = 2 * math.pi / abs(omega)
    t = np.arange(run.t[0] + offset, run.t[-1], turn)
    at = run.at(t)
    columns = [at.q["boom.y"], at.q["q1"] - omega * t, at.q["toe"]]
    columns += [at.v[n] for n in ("boom.x", "boom.y", "q1", "toe")]
    return t, np.column_stack(columns)


def periodicity(m: sl.Mechanism, clock: tuple[float, ...], friction: float, run: sl.Trajectory) -> tuple[int, list[Any]]:
    """Turns of the clock in a period, with the multipliers of that return map; (0, []) if the run is not periodic.

    The section is a phase of the clock at which the foot is well in the air. Columns are central differences of runs over
    a period, in height, crank, toe and all velocities.
    """
    turn = 2 * math.pi / abs(clock[0])
    last = float(run.t[-1])
    for n in range(1, 9):
        open_times = run.t[(run.contacts.mode("toe") == 0) & (run.t < last - n * turn) & (run.t > last - (n + 1) * turn)]
        if not len(open_times):
            continue
        t0 = float(open_times[len(open_times) // 2])
        S = np.array([_section(run, clock[0], t) for t in (t0, t0 + n * turn)])
        if np.linalg.norm(S[1] - S[0]) < SAME:
            break
    else:
        return 0, []
    near = run.at(t0)

    def back(s: np.ndarray) -> np.ndarray:
        y, ahead, toe, *rates = s
        start = m.assemble(
            boom=(0.0, y),
            q1=ahead + clock[0] * t0,
            toe=toe,
            near={c: near.q[c] for c in ("q2", "q3", "q4", "q5")},
            rates=dict(zip(("boom.x", "boom.y", "q1", "toe"), rates, strict=True)),
        )
        end = t0 + n * turn
        return _section(simulate(m, clock, friction, start, begin=t0, until=end, tolerance=1e-11, rate=10.0), clock[0], end)

    size = 1e-5 * np.array([1, 1, 0.1, 1, 1, 10, 1])
    columns = [(back(S[0] + d) - back(S[0] - d)) / (2 * e) for e, d in zip(size, np.diag(size), strict=True)]
    values = np.linalg.eigvals(np.array(columns).T)
    return n, [[float(x.real), float(x.imag)] for x in sorted(values, key=abs, reverse=True)]


def _section(run: sl.Trajectory, omega: float, t: float) -> np.ndarray:
    at = run.at(min(t, float(run.t[-1])))
    q, v = at.q, at.v
    return np.array([q["boom.y"], q["q1"] - omega * t, q["toe"], *(v[n] for n in ("boom.x", "boom.y", "q1", "toe"))])


# ---- search ---------------------------------------------------------------------------------------------------------


def found(m: sl.Mechanism, count: int, friction: float, seed: int = 1, known: Any = CLOCKS) -> list[dict[str, Any]]:
    """Try `count` clocks, a quarter anywhere and the others near the best of each speed; return the best of each.

    The best are those that come back nearest to themselves after a few turns of the clock, without hopping above 0.6 m.
    """
    r = np.random.default_rng(seed)
    best: dict[int, dict[str, Any]] = {}

    def try_out(clock: np.ndarray) -> None:
        one = trial(m, clock, friction)
        key = round(one["speed"] / BIN)
        if one["cost"] < best.get(key, {"cost": math.inf})["cost"]:
            best[key] = one

    for clock in known:
        try_out(np.array(clock))
    logarithmic = np.array([False, True, True, False, False])
    for _ in range(count):
        ahead = [key for key in best if key >= 1]
        if not ahead or r.random() < 0.25:
            low, high = (np.where(logarithmic, np.log(np.abs(x)), x) for x in (LOWEST, HIGHEST))
            drawn = r.uniform(low, high)
            clock = np.where(logarithmic, np.exp(drawn), drawn)
        else:
            old = np.array(list(best[ahead[r.integers(len(ahead))]]["clock"].values()))
            step = np.exp(r.uniform(math.log(0.01), math.log(0.3))) * r.normal(size=5)
            clock = np.where(logarithmic, old * np.exp(step), old + step * np.array([4.0, 0, 0, 0.5, 1.0]))
        try_out(np.clip(clock, LOWEST, HIGHEST))
    return [best[key] for key in sorted(best)]


def trial(m: sl.Mechanism, clock: np.ndarray, friction: float) -> dict[str, Any]:
    """A short run at a loose tolerance: its speed, and how far from regular it is."""
    one = {"clock": dict(zip(NAMES, map(float, clock), strict=True)), "speed": 0.0, "cost": math.inf}
    run, options = None, {"tolerance": 1e-6, "rate": 200.0, "max_steps": 40_000}
    for begin, end in ((0.0, 2.0), (2.0, 4.5)):  # those that fall or jump high are not run to the end
        start = run.end if run is not None else None
        run = simulate(m, clock, friction, start, begin=begin, until=end, **options)
        if not run.outcome.ok or any("boom.y" in e.name for e in run.events) or run["boom.y"].max() > 1.0:
            return one
    S = states(run, clock[0])[1]
    apart = [np.linalg.norm((S[n:] - S[:-n]) * [10, 1, 10, 1, 1, 0.03, 0.1], axis=1).mean() for n in range(1, 7)]
    one["speed"] = float(np.ptp(run["boom.x"]) / run.duration) * float(np.sign(run["boom.x"][-1] - run["boom.x"][0]))
    one["cost"] = float(min(apart) + 3 * max(0.0, run["boom.y"].max() - 0.6))
    return one


# ---- pictures -------------------------------------------------------------------------------------------------------


@styled
def _figure(gaits: list[dict[str, Any]]) -> Any:
    figure = new_figure(7.0, 4.6)
    panels = {
        "steps per second": lambda g: g["steps"] / UNTIL,
        "slip (m a step)": lambda g: g["slip_per_stride"],
        "largest |multiplier|": lambda g: max((abs(complex(*x)) for x in g["multipliers"]), default=math.nan),
        "cost of transport": lambda g: g["cost_of_transport"],
    }
    for ax, (label, value) in zip(figure.subplots(2, 2, sharex=True).flat, panels.items(), strict=True):
        ax.plot([g["speed"] for g in gaits], [value(g) for g in gaits], "o", color=PALETTE["blue"], markersize=4)
        ax.set(ylabel=label)
        if label in ("largest |multiplier|", "cost of transport"):
            ax.set(xlabel="speed (m/s)")
    return figure
