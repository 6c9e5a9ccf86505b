"""How well a planned motion obeys the dynamics between its nodes, and a finer mesh where it does not."""

from __future__ import annotations

import numpy as np

from saltus.plan.fill import Dynamics
from saltus.plan.transcription import Transcription

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(4)
INSIDE, WEIGHTS = (POINTS + 1) / 2, WEIGHTS / 2


def errors(t: Transcription, x: np.ndarray) -> list[np.ndarray]:
    """Relative error of every interval, phase by phase.

    Positions and velocities are cubics between nodes; what their rates lack of N v and of the accelerations that the
    machine really has there, with the planned inputs, is integrated over the interval and compared with the largest
    value of its kind (velocities with velocities) along the phase.
    """
    out = []
    for k, model in enumerate(t.models):
        q, v, _, u, _, _ = t.whole(k, x)
        params = t.p.copy()
        params[[list(t.plan.mechanism.params).index(n) for n in t.plan.freed]] = x[t.freed]
        anchors = x[t.constants[k]] if "turn" not in model.node.blocks else np.zeros(0)
        dynamics = Dynamics(t.plan, model)
        every = 2 if t.scheme.middles else 1
        times = x[t.begins[k]] + x[t.lengths[k]] * t.fractions[k]
        a, _, q_dot = dynamics.solve(times, q, v, u, anchors, params)
        ends = times[::every]
        h = np.diff(ends)
        where = (ends[:-1, None] + h[:, None] * INSIDE).ravel()
        shape = hermite(h, INSIDE)
        qs, qd = (_cubic(f, q[::every], q_dot[::every], h) for f in shape)
        vs, vd = (_cubic(f, v[::every], a[::every], h) for f in shape)
        us = _inputs(u, every, INSIDE)
        q_in, v_in, u_in = (y.reshape(len(where), y.shape[-1]) for y in (qs, vs, us))
        true, _, moved = dynamics.solve(where, q_in, v_in, u_in, anchors, params)
        lacking = [
            np.abs(qd - moved.reshape(qd.shape)) / np.maximum(np.abs(q_dot).max(initial=1e-9), 1e-9),
            np.abs(vd - true.reshape(vd.shape)) / np.maximum(np.abs(a).max(initial=1e-9), 1e-9),
        ]
        size = h / x[t.lengths[k]]
        total = [(np.einsum("ijk,j->ik", part, WEIGHTS) * size[:, None]).max(axis=1, initial=0.0) for part in lacking]
        out.append(np.maximum(*total))
    return out


def resampled(t: Transcription, x: np.ndarray, k: int, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and inputs of phase k at fractions s of it, between the nodes as the scheme has them."""
    q, v, a, u, _, _ = t.whole(k, x)
    every = 2 if t.scheme.middles else 1
    q_dot = t.position_rates(k, x)
    ends = t.fractions[k][::every]
    at = np.clip(np.searchsorted(ends, s, side="right") - 1, 0, len(ends) - 2)
    h = np.diff(ends)[at]
    inside = (s - ends[at]) / h
    weights = hermite(h * x[t.lengths[k]], inside[:, None])[0][:, :, 0]
    out = []
    for y, rate in ((q, q_dot), (v, a)):
        parts = (y[::every][at], y[::every][at + 1], rate[::every][at], rate[::every][at + 1])
        out.append(sum(w[:, None] * part for w, part in zip(weights, parts, strict=True)))
    if every == 1:
        inputs = u[at] * (1 - inside)[:, None] + u[at + 1] * inside[:, None]
    else:
        a0, b0, c0 = 2 * (inside - 0.5) * (inside - 1), 4 * inside * (1 - inside), 2 * inside * (inside - 0.5)
        inputs = u[2 * at] * a0[:, None] + u[2 * at + 1] * b0[:, None] + u[2 * at + 2] * c0[:, None]
    return out[0], out[1], inputs


def refined(mesh: np.ndarray, error: np.ndarray, tolerance: float, order: int) -> np.ndarray:
    """Split intervals whose error is above the tolerance, by as much as the order of the scheme makes necessary."""
    parts = np.where(error > tolerance, np.ceil((error / tolerance) ** (1.0 / (order + 1))), 1)
    parts = np.clip(parts, 1, 4).astype(int)
    parts[error > tolerance] = np.maximum(parts[error > tolerance], 2)
    pieces = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(mesh[:-1], mesh[1:], parts, strict=True)]
    return np.concatenate([*pieces, mesh[-1:]])


def hermite(h: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
    """Weights of (y0, y1, y0', y1') in a cubic at fractions s of intervals h, and in its rate."""
    one = np.ones((len(h), 1))
    s = np.asarray(s)
    value = [one * (1 + 2 * s) * (1 - s) ** 2, one * s**2 * (3 - 2 * s)]
    value += [h[:, None] * s * (1 - s) ** 2, -h[:, None] * s**2 * (1 - s)]
    rate = [6 * s * (s - 1) / h[:, None], -6 * s * (s - 1) / h[:, None]]
    rate += [one * (1 - s) * (1 - 3 * s), one * s * (3 * s - 2)]
    return [np.array(value), np.array(rate)]


def _cubic(weights: np.ndarray, y: np.ndarray, rate: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Intervals x points x entries."""
    parts = (y[:-1], y[1:], rate[:-1], rate[1:])
    return sum(w[:, :, None] * p[:, None, :] for w, p in zip(weights, parts, strict=True))


def _inputs(u: np.ndarray, every: int, s: np.ndarray) -> np.ndarray:
    """Inputs within intervals: straight lines, or parabolas through the middle."""
    if every == 1:
        return u[:-1, None, :] * (1 - s)[None, :, None] + u[1:, None, :] * s[None, :, None]
    left, middle, right = u[:-1:2, None, :], u[1::2, None, :], u[2::2, None, :]
    a, b, c = (2 * (s - 0.5) * (s - 1), 4 * s * (1 - s), 2 * s * (s - 0.5))
    return left * a[None, :, None] + middle * b[None, :, None] + right * c[None, :, None]
