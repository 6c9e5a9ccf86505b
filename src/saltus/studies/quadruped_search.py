"""Search for controllers of the quadruped: a covariance matrix is adapted to the best of many runs on a batch."""

from __future__ import annotations

import functools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import quadruped_laws as laws
from saltus.studies.quadruped_runs import (
    FOUND_IN,
    NO_STEER,
    REGULAR,
    ROLL,
    STEP,
    TOLERANCE,
    Crowd,
    Runs,
    angles,
    machine,
    start,
)
from saltus.studies.quadruped_turn import ANGLE, TURN, UNTIL, crowd, judged
from saltus.zoo.quadruped import GAITS, LEGS

# Params that are sought: first mean, with which it trots badly, and width of the first draw.
SOUGHT = {
    "omega": (-26.5, 1.0),
    "K_P": (33.0, 5.0),
    "K_D": (2.4, 0.4),
    "h": (-0.62, 0.05),
    "b": (2.77, 0.15),
    "lag": (-0.14, 0.2),
    "x_body": (0.022, 0.02),
    "rest": (0.4, 0.1),
    **{
        f"{signal}_{part}": (mean, width)
        for signal, means, width in (
            ("sides_roll", (1.5, 0.9, 0.0), 0.3),
            ("sides_roll_rate", (-0.06, 0.05, 0.03), 0.03),
            ("sides_yaw", (0.0, 0.2, 0.0), 0.15),
            ("sides_yaw_rate", (0.15, 0.04, -0.04), 0.05),
            ("ends_pitch", (0.0, -0.4, 0.3), 0.3),
            ("ends_pitch_rate", (0.0, -0.04, -0.04), 0.03),
        )
        for part, mean in zip(("even", "cos", "sin"), means, strict=True)
    },
    "lift_pitch": (45.0, 20.0),
    "lift_pitch_rate": (15.0, 4.0),
    "swing_roll": (0.0, 15.0),
    "swing_roll_rate": (-3.0, 3.0),
    "swing_yaw": (-40.0, 15.0),
    "swing_yaw_rate": (-2.0, 3.0),
}
BOUNDS = {"omega": (-45.0, -12.0), "K_P": (10.0, 600.0), "K_D": (0.5, 20.0), "rest": (-0.3, 0.9), "h": (-0.85, 0.85)}
TRIALS = ((2.0, 4.0), (-1.5, -4.0))  # deg of roll at the start, and N s of a push after 3 s: each candidate runs both
COARSE = 0.05  # tolerance of the search; what it finds runs again at that of the studies
LOWEST_TIP = 0.15  # m: what the tail's tip should stay above


def cost(runs: Runs, seconds: float, goal: float) -> np.ndarray:
    """Falling early, being slower than `goal` (m/s), leaning, turning away, slipping, a low tail: each copy's sum."""
    live = runs.live()
    count = np.maximum(live.sum(axis=0), 1)

    def size(x: np.ndarray) -> np.ndarray:
        return np.sqrt((x * x * live).sum(axis=0) / count)

    roll, pitch, yaw = angles(runs.q[..., 3:])
    across, along = runs.forces[..., 2], np.hypot(runs.forces[..., 0], runs.forces[..., 1])
    on = (across > 1.0) & live[:, None, :]
    slip = (on & (along > 0.79 * across)).sum(axis=(0, 1)) / np.maximum(on.sum(axis=(0, 1)), 1)
    k, half = np.arange(len(count)), count // 2
    speed = (runs.q[count - 1, k, 0] - runs.q[half - 1, k, 0]) / (np.maximum(count - half, 1) * runs.t[0])
    low = np.maximum(0.0, LOWEST_TIP - np.where(live, runs.tip, math.inf).min(axis=0))
    out = 10 * (1 - runs.ends / seconds) + 4 * size(roll) + np.abs(roll * live).max(axis=0) + 2 * size(pitch)
    out += np.minimum(size(yaw), 3.0) + 3 * np.maximum(0.0, goal - speed) + 2 * slip + 5 * low
    return np.where(np.isfinite(out), out, 50.0)


def box(
    sought: Mapping[str, tuple[float, float]], bounds: Mapping[str, tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """First means, widths, and lower and upper bounds of what is sought."""
    first, widths = np.array(list(sought.values())).T
    low, high = np.array([bounds.get(n, (-math.inf, math.inf)) for n in sought]).T
    return first, widths, (low, high)


def adapt(
    costs: Callable[[np.ndarray], np.ndarray],
    first: np.ndarray,
    widths: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    *,
    rounds: int,
    candidates: int,
    seed: int,
    keep: str | Path = "",
    tell: Callable[[str], None] | None = None,
) -> np.ndarray:
    """Return the last mean and the cheapest candidate of each round, the last first.

    A quarter of each round's candidates is kept, weighted by rank; their spread about the last mean becomes that of the
    next round. With a file `keep` a search that was stopped goes on from its last round.
    """
    kept, n = candidates // 4, len(first)
    ranks = np.log(kept + 0.5) - np.log(np.arange(1, kept + 1))
    ranks, learns = ranks / ranks.sum(), 0.5 * kept / (kept + n)
    C, at, best, begun = np.eye(n), np.zeros(n), np.zeros((0, n)), Path(keep)
    if keep and begun.exists():
        C, at, best = (np.array(x) for x in json.loads(begun.read_text()))
    for k in range(len(best), rounds):
        draws = np.random.default_rng((seed, k)).multivariate_normal(np.zeros(n), C, candidates)
        draws[0] = 0.0
        X = np.clip(first + widths * (at + draws), *bounds)
        J = costs(X)
        order = np.argsort(J)[:kept]
        best = np.vstack([best, X[order[0]]])
        steps = ((X - first) / widths - at)[order]
        C = (1 - learns) * C + learns * (steps.T * ranks) @ steps
        C, at = (C + C.T) / 2 + 1e-9 * np.eye(n), at + ranks @ steps
        if keep:
            part = begun.with_suffix(".part")
            part.write_text(json.dumps([C.tolist(), at.tolist(), best.tolist()]))
            part.replace(begun)
        if tell:
            tell(f"{k + 1} of {rounds}: cost {J[order[0]]:.3f}, median {np.median(J):.3f}, mean {J[0]:.3f}")
    return np.vstack([np.clip(first + widths * at, *bounds), best[::-1]])


def search(
    gait: str,
    *,
    rounds: int = 25,
    candidates: int = 40,
    seconds: float = 6.0,
    goal: float = 1.9,
    lag: float = math.inf,
    seed: int = 1,
    keep: str | Path = "",
    tell: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Return Params of a gait that run well from several starts, beginning with `SOUGHT`: see `adapt`.

    The last mean and the cheapest candidates of the last rounds run from eight starts, twice as long, in a finer batch;
    the best of them is returned. Hind legs lag (rad) by no more than `lag` behind the gait's phases: without a bound
    the search may leave one gait for another.
    """
    m, names = machine(), list(SOUGHT)
    phases = {f"phase_{leg}": a for leg, a in zip(LEGS, GAITS[gait], strict=True)}
    crowd, finer = (Crowd(m, candidates * len(TRIALS), x) for x in (COARSE, TOLERANCE))

    def costs(
        X: np.ndarray,
        crowd: Crowd = crowd,
        trials: tuple[tuple[float, float], ...] = TRIALS,
        seconds: float = seconds,
    ) -> np.ndarray:
        given = [phases | dict(zip(names, map(float, x), strict=True)) | {"push": p} for x in X for _, p in trials]
        starts = {roll: start(m, gait, roll) for roll, _ in trials}
        runs = crowd.run([starts[roll] for _ in X for roll, _ in trials], given, seconds)
        return cost(runs, seconds, goal).reshape(len(X), len(trials)).mean(axis=1)

    first, widths, bounds = box(SOUGHT, BOUNDS | {"lag": (-lag, lag)})
    X = adapt(costs, first, widths, bounds, rounds=rounds, candidates=candidates, seed=seed, keep=keep, tell=tell)
    many = tuple((roll, push) for roll in (2.0, 1.0, -1.0, -2.0) for push in (4.0, -4.0))
    X = X[np.arange(candidates * len(TRIALS) // len(many)) % len(X)]
    J = costs(X, finer, many, 2 * seconds)
    if tell:
        tell("from eight starts: " + ", ".join(f"{x:.2f}" for x in J))
    return dict(zip(names, map(float, X[np.argmin(J)]), strict=True))


# ---- tails ----------------------------------------------------------------------------------------------------------

PUSHES = ((2.0, 15.0), (-2.0, -15.0), (1.0, 25.0), (-1.0, -25.0))  # deg of roll at the start, N s after PUSHED_AT (s)
PUSHED_AT = 2.0
ROUNDS, CANDIDATES = 6, 16  # of every kind of tail: so many runs of EPISODE seconds, four for each candidate
NARROWER = 0.4  # of the widths of SOUGHT: the trot's own gains are where it begins
OWN = {  # of each kind of tail: which of the Params of SOUGHT, and others with their widths
    "fixed": ("rest",),
    "passive": ("rest",),
    "PD": ("rest", "lift", "swing"),
    "PFL": ("rest", "swing_yaw"),
}
OTHERS = {
    "passive": {"K_tail": 6.0, "D_tail": 0.4},
    "PFL": {"kp_roll": 15.0, "kd_roll": 3.0, "kp_pitch": 30.0, "kd_pitch": 6.0, "soft": 0.5},
}
TAIL_BOUNDS = {"K_tail": (8.0, 100.0), "D_tail": (0.2, 10.0), "soft": (0.03, 5.0), "rest": (-0.3, 0.9)}
DECADES, DECADES_WIDE = -2.0, 0.7  # of LQR's two weights: exponents of ten at first, and width of the first draw


def tail_gains(
    kind: str, *, seed: int = 1, keep: str | Path = "", tell: Callable[[str], None] | None = None
) -> dict[str, float]:
    """Return gains of legs and tail for a kind of tail of `quadruped_laws`, found with as many runs as for any other.

    `adapt` begins with the trot's own gains; each candidate is pushed four times. The first and the last mean and the
    cheapest candidates run again in a finer batch; the best of them is returned. With LQR the two weights of its
    torques are sought, for the legs that the trot has.
    """
    m = laws.machine()
    feedback = laws.lqr(m) if kind == "LQR" else None
    if feedback is not None:
        sought = {name: (DECADES, DECADES_WIDE) for name in feedback.inputs}
    else:
        given = {n: x.value for n, x in m.params.items()} | REGULAR | laws.LAWS[kind]
        mine = ("sides", "ends", "lag", *OWN[kind])
        widths = {n: NARROWER * width for n, (_, width) in SOUGHT.items() if n.startswith(mine)}
        sought = {n: (given[n], x) for n, x in (widths | OTHERS.get(kind, {})).items()}
    names, starts = list(sought), {roll: start(m, "trot", roll) for roll, _ in PUSHES}
    crowds = {x: laws.Trot(m, kind, x, feedback) for x in (COARSE, TOLERANCE)}

    def costs(X: np.ndarray, tolerance: float = COARSE) -> np.ndarray:
        gains = [dict(zip(names, map(float, x), strict=True)) if feedback is None else {} for x in X]
        cases = [x | {"push": p, "push_at": PUSHED_AT} for x in gains for _, p in PUSHES]
        held = [feedback.weighed(10.0**x) for x in X for _ in PUSHES] if feedback is not None else None
        at = [starts[roll] for _ in X for roll, _ in PUSHES]
        runs = crowds[tolerance].runs(at, cases, laws.EPISODE, feedbacks=held)
        return cost(runs, laws.EPISODE, 1.55)[: len(cases)].reshape(len(X), -1).mean(axis=1)

    first, wide, bounds = box(sought, TAIL_BOUNDS)
    budget = {"rounds": ROUNDS, "candidates": CANDIDATES}
    X = adapt(costs, first, wide, bounds, seed=seed, keep=keep, tell=tell, **budget)
    X = np.vstack([first, X])
    J = costs(X, TOLERANCE)
    if tell:
        tell("in a finer batch, the first gains first: " + ", ".join(f"{x:.2f}" for x in J))
    best = X[np.argmin(J)]
    return dict(zip(names, map(float, best if feedback is None else 10.0**best), strict=True))


def tail_policy(tell: Callable[[str], None] | None = None) -> list[Any]:
    """Learn the policy of `quadruped_laws` by PPO, for as many seconds of motion as the gains of other kinds had.

    These ran CANDIDATES in each of the ROUNDS, then the best of each round, the first and the last mean in a finer
    batch. Samples are rounded up to whole batches, of 2048.
    """
    from saltus.learn.training import policy_of, train  # needs the extra `learn`

    task = laws.learning(laws.machine())
    samples = round((ROUNDS * (CANDIDATES + 1) + 2) * len(PUSHES) * laws.EPISODE / (task.step * task.times))
    options: dict[str, Any] = {"seconds": math.inf, "samples": samples, "copies": 64, "shape": (16, 16)}
    with tempfile.TemporaryDirectory() as folder:
        model = train(task, folder, tell=lambda row: tell(str(row)) if tell else None, **options)
    return [[part.tolist() for part in layer] for layer in policy_of(model).layers]


# ---- turns ----------------------------------------------------------------------------------------------------------

TURNED = (ROLL, -1.0)  # deg, at the starts of turns
STEERED = {name: (0.0, 25.0 if name == "swing_turn" else 0.3) for name in NO_STEER}


def steering(
    *,
    rounds: int = 14,
    candidates: int = 32,
    seed: int = 1,
    keep: str | Path = "",
    tell: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Return Params with which the trot turns to the left and runs on straight: see `adapt` and `quadruped_turn`.

    Every candidate turns from two starts. The last mean and the cheapest candidates of all rounds turn again in a finer
    batch, to both sides; the best of them is returned.
    """
    m, names = machine(), list(STEERED)

    def costs(X: np.ndarray, sides: tuple[int, ...] = (1,), tolerance: float = COARSE) -> np.ndarray:
        turns = [TURN | {"turn": side * TURN["turn"]} for side in sides for _ in TURNED]
        cases = [turn | dict(zip(names, map(float, x), strict=True)) for x in X for turn in turns]
        paths = zip(cases, crowd(m, cases, TURNED, tolerance), strict=True)
        J = [_turning_cost(judged(case, *path)) for case, path in paths]
        return np.nan_to_num(np.reshape(J, (len(X), -1)).mean(axis=1), nan=50.0)

    first, widths, bounds = box(STEERED, {})
    X = adapt(costs, first, widths, bounds, rounds=rounds, candidates=candidates, seed=seed, keep=keep, tell=tell)
    J = costs(X, (1, -1), TOLERANCE)
    if tell:
        tell("to both sides, in a finer batch: " + ", ".join(f"{x:.2f}" for x in J))
    return dict(zip(names, map(float, X[np.argmin(J)]), strict=True))


def _turning_cost(x: Mapping[str, Any]) -> float:
    """Falling early, turning late or not far enough, leaving the new heading, being slow, rolling."""
    out = 10 * (1 - x["until_s"] / UNTIL) + max(0.0, ANGLE - x["turned_deg"]) / 10 + x["roll_rms_deg"] / 10
    out += min(max(0.0, (x["strides"] or math.inf) - 8), 4) + 2 * max(0.0, 1.3 - x["speed"])
    after = x["heading_after_deg"]
    return float(out + (0.03 * max(abs(h - ANGLE) for h in after) if after else 0))


# ---- the planar twin ------------------------------------------------------------------------------------------------

CLOCK = {"omega": (-32.0, 6.0), "K_P": (60.0, 25.0), "K_D": (3.5, 1.2), "h": (-0.4, 0.2), "b": (1.9, 0.7)}
CLOCK |= {"phase": (-2.6, 1.0), "x_body": (0.0, 0.06)}  # first mean and width of each Param
CLOCK_BOUNDS = {"omega": (-70.0, -15.0), "K_P": (10.0, 600.0), "K_D": (0.5, 20.0), "h": (-0.85, 0.85)}


def twin(
    *,
    rounds: int = 30,
    candidates: int = 256,
    seconds: float = 8.0,
    goal: float = 2.1,
    seed: int = 1,
    keep: str | Path = "",
    tell: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Return the clock of the planar twin that comes nearest to itself turn after turn at `goal` (m/s) or more."""
    m, names = sl.zoo.planar_quadruped(), list(CLOCK)
    batch = sl.Batch(
        m,
        candidates,
        step=STEP,
        tolerance=COARSE,
        control=m.controls["clock"],
        until=lambda t, s: sl.math.fmax(sl.math.fabs(s.q["body.angle"]) - 0.7, 0.2 - s.q["body.y"]) > 0,
        threads=1,
    )

    def costs(X: np.ndarray) -> np.ndarray:
        batch.reset(m.keyframe("bound"), params=dict(zip(names, X.T, strict=True)))
        batch.step(times=round(seconds / 2 / STEP))
        S = []
        for _ in range(round(seconds / 2 / STEP)):
            batch.step()
            S.append(np.hstack([batch.state.q[:, :3], batch.state.v[:, :3]]))
        t, paths = STEP * np.arange(len(S)), np.array(S)
        J = 15 - 10 * batch.t / seconds  # of those that fell
        for k in np.flatnonzero(batch.t > seconds - STEP / 2):
            once = np.arange(0.0, t[-1], 2 * math.pi / abs(X[k, 0]))
            rows = np.column_stack([np.interp(once, t, x) for x in paths[:, k, 1:].T])
            speed = (paths[-1, k, 0] - paths[0, k, 0]) / t[-1]
            J[k] = min(np.abs(rows[n:] - rows[:-n]).mean() for n in (1, 2)) + 2 * max(0.0, goal - speed)
        return np.where(np.isfinite(J), J, 50.0)

    first, widths, bounds = box(CLOCK, CLOCK_BOUNDS)
    X = adapt(costs, first, widths, bounds, rounds=rounds, candidates=candidates, seed=seed, keep=keep, tell=tell)
    X = X[np.arange(candidates) % len(X)]
    return dict(zip(names, map(float, X[np.argmin(costs(X))]), strict=True))


# ---- what is stored -------------------------------------------------------------------------------------------------

SEARCHES: dict[str, dict[str, Callable[..., Any]]] = {
    "gaits": {
        "amble": functools.partial(search, "amble", lag=0.3, rounds=14, goal=1.7),
        "pace": functools.partial(search, "pace", lag=0.5, rounds=14),
        "bound": functools.partial(search, "bound", lag=0.5, rounds=7),
    },
    "tails": {
        **{kind: functools.partial(tail_gains, kind) for kind in (*OWN, "LQR")},
        "learnt": tail_policy,
    },
}


def rounded(x: Any) -> Any:
    """Numbers with four digits, within lists and dictionaries."""
    if isinstance(x, dict):
        return {name: rounded(value) for name, value in x.items()}
    return [rounded(value) for value in x] if isinstance(x, list) else float(f"{x:.4g}")


def store(name: str, tell: Callable[[str], None] = print) -> None:
    """Seek one entry of the file of what was found anew, and write it there."""
    places = [group for group, searches in SEARCHES.items() if name in searches]
    if not places:
        raise sl.errors.UnknownName("search", name, [n for searches in SEARCHES.values() for n in searches])
    new = rounded(SEARCHES[places[0]][name](tell=tell))
    found = json.loads(FOUND_IN.read_text())  # others may have been written meanwhile
    found[places[0]][name] = new
    groups = (
        f'"{group}": {{\n' + ",\n".join(f'"{n}": {json.dumps(x)}' for n, x in entries.items()) + "\n}"
        for group, entries in found.items()
    )
    FOUND_IN.write_text("{\n" + ",\n".join(groups) + "\n}\n")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        store(given)
