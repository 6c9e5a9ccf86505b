"""Integrals of a motion and the absolute values in them, in numbers: how large they are, and as they are."""

from __future__ import annotations

import numpy as np

from saltus.compile import Kernel
from saltus.plan.nlp import Programme
from saltus.plan.schemes import Interval
from saltus.plan.transcription import Transcription


def means(t: Transcription, x: np.ndarray) -> np.ndarray:
    """Mean of each absolute value over time; where it is zero, that of a motion beside this one."""
    found = _means(t, x)
    if not found.size:
        return found
    t.pieces(x)  # bounds say how large things get
    step = t.scales(x)
    step[t.lengths] = 0.0
    beside = np.maximum(_means(t, x + step), _means(t, x - step))
    return np.where(found > 1e-6 * beside, found, np.where(beside > 0, beside / 10, 1.0))


def _means(t: Transcription, x: np.ndarray) -> np.ndarray:
    weights = [t.scheme.weights(mesh) * x[at] for mesh, at in zip(t.meshes, t.lengths, strict=True)]
    totals = [weight @ _measured(t, k, x) for k, weight in enumerate(weights)]
    return np.asarray(sum(totals) / sum(weight.sum() for weight in weights))


def _measured(t: Transcription, k: int, x: np.ndarray) -> np.ndarray:
    """Absolute values at the nodes of phase k, one row per node."""
    kernel = Kernel(t.models[k].measured, native=False)
    return np.abs(kernel.batch(*t.at_nodes(k, x))).reshape(len(t.fractions[k]), len(t.rounding))


def with_integrals(t: Transcription, x: np.ndarray) -> np.ndarray:
    """Unknowns with the absolute values as the motion has them, and integrals added up from it."""
    out, before = x.copy(), np.zeros(len(t.summed))
    for k, model in enumerate(t.models):
        sizes = _measured(t, k, x).T
        out[t.nodes[k][list(model.of_sizes)]] = np.vstack([sizes, 0 * sizes])
        if not t.summed:
            continue
        if t.sizes[k].size:
            found = np.abs(_inside(t, k, out, "measured")).reshape(len(t.meshes[k]) - 1, -1, len(sizes))
            out[t.sizes[k]] = np.concatenate([found, 0 * found], axis=2).reshape(len(found), -1).T
        gained = _inside(t, k, out, "gained")
        sums = before + np.vstack([0 * before, np.cumsum(gained, axis=0)])
        for row, values in zip(t.nodes[k][model.n - len(before) :], sums.T, strict=True):
            out[row] = np.interp(t.fractions[k], t.meshes[k], values)
        before = sums[-1]
    return out


def _inside(t: Transcription, k: int, x: np.ndarray, what: str) -> np.ndarray:
    """A quantity of every interval of phase k, one row each."""
    ends = np.vstack([t.meshes[k][:-1], t.meshes[k][1:]]).T
    kernel = t.kept((what, k, t.scheme), lambda: Interval(t.scheme, t.models[k]).kernel(what))
    given = x[t.taken(k)].T, x[t.common(k)], x[t.sizes[k]].T, ends, t.data
    return np.reshape(kernel.batch(*given), (len(ends), -1))


def objective(t: Transcription, x: np.ndarray) -> float:
    """Cost with absolute values as they are, not rounded."""
    return Programme(np.ones(t.n), t.pieces(x)).evaluate(with_integrals(t, x))[0]
