"""Search for controllers of the quadruped: a covariance matrix is adapted to the best of many runs on a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies.quadruped_runs import ROLL, SAMPLE, Crowd, Runs, angles, params, start
from saltus.zoo.quadruped import LEGS

# Params that are sought, with the width of the first draw.
WIDTHS = {
    "omega": 2.0,
    "K_P": 10.0,
    "K_D": 0.8,
    "h": 0.1,
    "b": 0.3,
    "lag": 0.2,
    "x_body": 0.03,
    "rest": 0.1,
    **{f"sides_{x}_{part}": w for x, w in (("roll", 0.5), ("roll_rate", 0.05)) for part in ("even", "cos", "sin")},
    **{f"sides_{x}_{part}": w for x, w in (("yaw", 0.3), ("yaw_rate", 0.05)) for part in ("even", "cos", "sin")},
    **{f"ends_{x}_{part}": w for x, w in (("pitch", 0.5), ("pitch_rate", 0.05)) for part in ("even", "cos", "sin")},
    **{"lift_pitch": 40.0, "lift_pitch_rate": 4.0, "swing_roll": 20.0, "swing_roll_rate": 4.0},
    **{"swing_yaw": 20.0, "swing_yaw_rate": 4.0},
}
BOUNDS = {"omega": (-45.0, -12.0), "K_P": (10.0, 600.0), "K_D": (0.5, 20.0), "rest": (-0.3, 0.9), "h": (-0.85, 0.85)}


def cost(runs: Runs, seconds: float, goal: float) -> np.ndarray:
    """Falling early, being slower than `goal` (m/s), leaning, turning away and slipping, each copy's sum."""
    live = runs.live()
    count = np.maximum(live.sum(axis=0), 1)

    def size(x: np.ndarray) -> np.ndarray:
        return np.sqrt((x * x * live).sum(axis=0) / count)

    roll, pitch, yaw = angles(runs.q[..., 3:])
    across, along = runs.forces[..., 2], np.hypot(runs.forces[..., 0], runs.forces[..., 1])
    on = (across > 1.0) & live[:, None, :]
    slip = (on & (along > 0.79 * across)).sum(axis=(0, 1)) / np.maximum(on.sum(axis=(0, 1)), 1)
    k = np.arange(len(count))
    half = count // 2
    speed = (runs.q[count - 1, k, 0] - runs.q[half - 1, k, 0]) / np.maximum((count - half) * SAMPLE, SAMPLE)
    out = 10 * (1 - runs.ends / seconds) + 5 * (runs.ends < 1.0) + 2 * size(roll) + 2 * size(pitch)
    out += (
        np.minimum(size(yaw), 3.0) + 3 * np.maximum(0.0, goal - speed) + 2 * slip + 0.02 * np.minimum(runs.doubts, 50)
    )
    return np.where(np.isfinite(out), out, 50.0)


def search(
    m: sl.Mechanism,
    gait: str,
    *,
    rounds: int = 20,
    copies: int = 64,
    seconds: float = 4.0,
    goal: float = 1.7,
    width: float = 1.0,
    seed: int = 1,
    tell: Any = None,
    crowd: Crowd | None = None,
) -> dict[str, float]:
    """Return the Params of the cheapest run among `rounds` times `copies`, beginning with those that the gait has.

    A quarter of a round is kept, weighted by its rank; their spread about the last mean becomes that of the next round.
    """
    r, crowd = np.random.default_rng(seed), crowd or Crowd(m, copies)
    old = params(gait, "controlled", m)
    names = list(WIDTHS)
    mean = np.array([old.get(n, m.params[n].value) for n in names], float)
    low, high = (np.array([BOUNDS.get(n, (-math.inf, math.inf))[i] for n in names]) for i in (0, 1))
    widths, kept = width * np.array([WIDTHS[n] for n in names]), copies // 4
    ranks = np.log(kept + 0.5) - np.log(np.arange(1, kept + 1))
    ranks /= ranks.sum()
    C, at, best = np.eye(len(names)), np.zeros(len(names)), (math.inf, mean)
    learns = 0.5 * kept / (kept + len(names))
    starts = [start(m, gait, ROLL)] * copies
    for k in range(rounds):
        draws = r.multivariate_normal(np.zeros(len(names)), C, copies, method="cholesky")
        draws[0] = 0.0
        X = np.clip(mean + widths * (at + draws), low, high)
        phases = {f"phase_{leg}": old[f"phase_{leg}"] for leg in LEGS}
        runs = crowd.run(starts, [phases | dict(zip(names, map(float, x), strict=True)) for x in X], seconds)
        J = cost(runs, seconds, goal)
        order = np.argsort(J)[:kept]
        if J[order[0]] < best[0]:
            best = float(J[order[0]]), X[order[0]].copy()
        steps = ((X - mean) / widths - at)[order]
        C = (1 - learns) * C + learns * (steps.T * ranks) @ steps
        C = (C + C.T) / 2 + 1e-9 * np.eye(len(names))
        at = at + ranks @ steps
        if tell:
            i = int(order[0])
            tell(
                f"{k} cost {J[i]:.2f} median {np.median(J):.2f} speed {runs.speed()[i]:.2f} ends {runs.ends.mean():.2f}"
            )
    return dict(zip(names, map(float, best[1]), strict=True))
