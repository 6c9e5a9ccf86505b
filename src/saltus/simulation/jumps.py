"""Jumps: velocities that change at once, more than the accelerations on the way explain, or where drift decides.

Where a loop passes a singular position its branches meet, with velocities of their own. A motion that goes on along
another branch keeps its loops and its energy; what tells is that velocities jump without an impact. A loop that has
drifted apart is that of a slightly different machine, whose branches do not meet: it swings over to another one with
accelerations that are large and finite.
"""

from __future__ import annotations

import numpy as np

from saltus.hybrid.mode import Mode
from saltus.simulation.log import Log, Stay
from saltus.simulation.trajectory import Trajectory

JUMP = 0.1  # of the largest speed of a coordinate
NOISE = 1e3  # tolerances: velocities are not known better than that
SUDDEN = 1e-7  # s: no contact that a run resolves is so short
MOST = 50  # intervals between samples that are looked at more closely
DRIFTED = 10.0  # loops that are off by d decide where they go on within s of a singular position, s^2 < 10 d (lengths)

Part = tuple[Stay, np.ndarray, np.ndarray, np.ndarray]  # a stay, times of steps in it, their polynomials, parameters


def jump(log: Log, run: Trajectory) -> tuple[float, str, float] | None:
    """Size, coordinate and time (s) of the first jump of a velocity without an event; None if there is none."""
    t, v, a, stay = (run.arrays[name] for name in ("t", "v", "a", "phase"))
    limit = np.maximum(JUMP * np.abs(v).max(axis=0), NOISE * log.tolerance)
    h = np.diff(t)[:, None]
    missed = np.abs(np.diff(v, axis=0) - h * (a[1:] + a[:-1]) / 2) > limit
    events = np.cumsum([0, *(not one.goes_on for one in log.stays)])  # before each stay
    eventless = events[stay[1:]] == events[stay[:-1]]
    suspect = np.flatnonzero(missed.any(axis=1) & eventless & (h[:, 0] > 0))
    if not len(suspect):
        return None
    parts = [(s, *part) for s in log.stays for part in zip(s.breaks, s.coefficients, s.parameters, strict=True)]
    first, last = (np.array([part[1][k] for part in parts]) for k in (0, -1))
    for i in suspect[:MOST]:
        own = slice(np.searchsorted(last, t[i], "right"), np.searchsorted(first, t[i + 1], "left"))
        found = _within(parts[own], float(t[i]), float(t[i + 1]), limit)
        if found is not None:
            size, k, when = found
            return size, run.meta["v_names"][k], when
    return None


def _within(parts: list[Part], begin: float, end: float, limit: np.ndarray) -> tuple[float, int, float] | None:
    """The steps that overlap an interval: sudden changes, and all against Simpson's rule for the accelerations.

    Or against those at the ends of steps alone: in the middle of a step in which a slip starts they say little.
    """
    times, speeds, explained = [np.zeros(0)], [np.zeros((0, len(limit)))], np.zeros((2, len(limit)))
    drifted = False
    for stay, breaks, coefficients, p in parts:
        steps = np.flatnonzero((breaks[1:] > begin) & (breaks[:-1] < end))
        if not len(steps):
            continue
        s = np.array([0.0, 0.5, 1.0])
        x = np.einsum("sj,kjn->ksn", s[:, None] ** np.arange(coefficients.shape[1]), coefficients[steps])
        h = np.diff(breaks)[steps]
        t = breaks[steps][:, None] + s * h[:, None]
        v, a, *_ = stay.mode.outputs(t.ravel(), x.reshape(-1, x.shape[2]), p, stay.look)
        times.append(t.ravel())
        speeds.append(v)
        a = a.reshape(len(steps), 3, -1)
        ends = a[:, 0] + a[:, 2]
        explained += [(h[:, None] * x).sum(axis=0) for x in ((ends + 4 * a[:, 1]) / 6, ends / 2)]
        fastest = int(np.abs(a[:, 1] / np.maximum(limit, 1e-300)).max(axis=1).argmax())
        drifted |= _drift_decides(stay.mode, float(t[fastest, 0]), x[fastest, 0], p)
    t, v = np.concatenate(times), np.vstack(speeds)
    if not len(t):
        return None
    until = np.searchsorted(t, t + SUDDEN, side="right") - 1
    off = np.maximum(np.abs(v[until] - v).max(axis=0), np.abs(v[-1] - v[0] - explained).min(axis=0))
    if drifted:
        off = np.maximum(off, np.ptp(v, axis=0))
    worst = int((off - limit).argmax())
    return (float(off[worst]), worst, begin) if off[worst] > limit[worst] > 0 else None


def _drift_decides(mode: Mode, t: float, x: np.ndarray, p: np.ndarray) -> bool:
    """Whether loops are so near to a singular position that how far they are off decides where they go on."""
    c, base, q = mode.constrained, mode.base(p), x[: mode.layout.nq]
    rows = [i for i in mode.choice.rows if i < c.loops]
    if not rows:
        return False
    distance = np.linalg.svd(c.unitless(t, q, base)[rows], compute_uv=False).min()
    off = np.abs(c.closure(t, q, base)[0][rows] / c.sizes(base)[0][rows]).max()
    return bool(distance**2 < DRIFTED * off)
