"""How well a planned motion obeys the dynamics between its nodes, and a finer mesh where it does not."""

from __future__ import annotations

import numpy as np

from saltus.plan.transcription import Transcription
from saltus.simulation.trajectory import Piece
from saltus.track.polynomials import cubic, linear, parabola, slope

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(4)
INSIDE, WEIGHTS = (POINTS + 1) / 2, WEIGHTS / 2


def states(t: Transcription, k: int, x: np.ndarray) -> Piece:
    """Positions and velocities of phase k over time: cubics between the ends of intervals."""
    q, v, a, _, _, _, q_dot = t.whole(k, x)
    if t.plan.through:
        return Piece(k, _ends(t, k, x), linear(np.hstack([q, v])))
    return _cubics(t, k, x, np.hstack([q, v]), np.hstack([q_dot, a]))


def inputs(t: Transcription, k: int, x: np.ndarray) -> Piece:
    """Inputs of phase k over time: straight lines, or parabolas through the middles of intervals."""
    u = t.whole(k, x)[3]
    if t.plan.through:
        return Piece(k, _ends(t, k, x), u[1:, None])
    return Piece(k, _ends(t, k, x), parabola(u) if t.scheme.middles else linear(u))


def errors(t: Transcription, x: np.ndarray) -> list[np.ndarray]:
    """Relative error of every interval, phase by phase.

    Positions and velocities are cubics between nodes; what their rates lack of N v and of the accelerations that the
    machine really has there, with the planned inputs, is integrated over the interval and compared with the largest
    value of its kind (velocities with velocities) along the phase. Steps through contact have none that is known.
    """
    if t.plan.through:
        return [np.zeros(len(mesh) - 1) for mesh in t.meshes]
    out, params = [], t.params(x)
    for k, model in enumerate(t.models):
        q, v, _, u, *_ = t.whole(k, x)
        anchors = t.anchors(k, x)
        a, _, q_dot = model.accelerations(t.times(k, x), q, v, u, anchors, params)
        motion = _cubics(t, k, x, np.hstack([q, v]), np.hstack([q_dot, a]))
        ends = motion.breaks
        h = np.diff(ends)
        where = (ends[:-1, None] + h[:, None] * INSIDE).ravel()
        y = motion.at(where)
        rate = Piece(k, ends, slope(motion.coefficients, h)).at(where)
        nq = q.shape[1]
        true, _, moved = model.accelerations(where, y[:, :nq], y[:, nq:], inputs(t, k, x).at(where), anchors, params)
        total = np.zeros(len(h))
        for lacking, largest in ((rate[:, :nq] - moved, q_dot), (rate[:, nq:] - true, a)):
            size = np.abs(lacking).reshape(len(h), len(INSIDE), -1) / np.abs(largest).max(initial=1e-9)
            share = np.einsum("ijk,j->ik", size, WEIGHTS) * (h / x[t.lengths[k]])[:, None]
            total = np.maximum(total, share.max(axis=1, initial=0.0))
        out.append(total)
    return out


def refined(mesh: np.ndarray, error: np.ndarray, tolerance: float, order: int) -> np.ndarray:
    """Split intervals whose error is above the tolerance, by as much as the order of the scheme makes necessary."""
    parts = np.where(error > tolerance, np.ceil((error / tolerance) ** (1.0 / (order + 1))), 1)
    parts = np.clip(parts, 1, 4).astype(int)
    parts[error > tolerance] = np.maximum(parts[error > tolerance], 2)
    pieces = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(mesh[:-1], mesh[1:], parts, strict=True)]
    return np.concatenate([*pieces, mesh[-1:]])


def _ends(t: Transcription, k: int, x: np.ndarray) -> np.ndarray:
    return t.times(k, x)[:: 2 if t.scheme.middles else 1]


def _cubics(t: Transcription, k: int, x: np.ndarray, y: np.ndarray, rate: np.ndarray) -> Piece:
    ends, every = _ends(t, k, x), 2 if t.scheme.middles else 1
    return Piece(k, ends, cubic(np.diff(ends), y[::every], rate[::every]))
