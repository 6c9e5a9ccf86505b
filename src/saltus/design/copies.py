"""Gaits of many designs at once: copies of a batch that are counted from touch to touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from saltus.batch.batch import Batch
from saltus.errors import BadValue
from saltus.hybrid.signals import Signals
from saltus.math import fmax, fmin
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.touching import Foot
from saltus.simulation.strides import Strides

STEP = 1e-3  # s
WAITS = 2.0  # s without a touch after which a copy is given up


def feet_of(m: Mechanism) -> list[str]:
    """Names of the feet of a machine; strides go from touch to touch of the first."""
    feet = [name for name, part in m.touching.items() if isinstance(part, Foot)]
    if not feet:
        raise BadValue(f"{m.name!r} has no foot whose touches are strides; add m.foot(...)")
    return feet


def counted(m: Mechanism, law: Any, copies: int, threads: int | None) -> Batch:
    """Copies that end with every touch of the first foot, and measure what a gait has."""
    feet = feet_of(m)
    along = next((n for n in m.q_names if n.endswith(".x")), m.q_names[0])

    def measure(t: Any, s: Signals) -> dict[str, Any]:
        return {
            "place": s.position(feet[0]).x if feet[0] in m.points else s.q[along],
            "power": sum((fmax(p, 0.0) for p in s.powers), 0.0),
            "down": fmin(sum(s.touching[name] for name in feet), 1.0),
        }

    return Batch(m, copies, step=STEP, control=law, until=f"{feet[0]} touches", measure=measure, threads=threads)


def run_strides(
    batch: Batch, starts: Sequence[State], count: int
) -> tuple[list[Strides], np.ndarray, np.ndarray, np.ndarray]:
    """Run one copy from each start for `count` strides of the first foot.

    Returned are the strides of each, by stride the positive work (J) of its motors and what impacts took (J, that of
    the touch that begins it included), NaN beyond the last, and which could not go on. Work and time in contact are
    sums over steps.
    """
    batch.reset(starts)
    n = len(starts)
    touches, at, taken = (np.full((n, count + 1), math.nan) for _ in range(3))  # taken: by impacts before it (J)
    sums = np.zeros((2, n, count + 1))  # work and time in contact since the touch of each number
    made, t, before = np.full(n, -1), batch.t, batch.measures
    last, waiting = t.copy(), np.ones(n, bool)
    while waiting.any():
        batch.step()
        now, measures, touched = batch.t, batch.measures, batch.done & ~batch.lost & waiting
        share = (measures[:, 1:] + before[:, 1:]) / 2 * (now - t)[:, None]
        under_way = np.flatnonzero(waiting & (made >= 0))
        sums[:, under_way, made[under_way]] += share[under_way].T
        made[touched] += 1
        touches[touched, made[touched]], at[touched, made[touched]] = now[touched], measures[touched, 0]
        losses = batch.impact_losses[touched]
        taken[touched, made[touched]] = losses[:, 0] - losses[:, 1]
        last[touched] = now[touched]
        waiting &= ~batch.lost & (made < count) & (now - last < WAITS)
        batch.go_on(np.flatnonzero(waiting))
        batch.stop(np.flatnonzero(~waiting))
        t, before = now, measures
    out = []
    for k in range(n):
        whole = slice(0, max(int(made[k]), 0))
        times = np.diff(touches[k])[whole]
        out.append(Strides(times, np.diff(at[k])[whole], sums[1, k][whole] / times, touches[k, : made[k] + 1]))
    work = np.where(np.arange(count + 1) < made[:, None], sums[0], math.nan)
    return out, work, np.diff(taken), batch.lost
