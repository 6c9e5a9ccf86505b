"""Numerical rank of constraint Jacobians: which rows and columns are independent."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

ROUND_OFF = 1e-12  # relative to the longest row
NOTHING = 1e-13  # m/rad or 1: a row that no coordinate moves is shorter, be it the longest
RANK_TOL = 1e-8  # relative to the largest pivot, after scaling the rows to unit length


def scaled_rows(J: np.ndarray, alike: Sequence[Hashable] | None = None) -> np.ndarray:
    """Rows scaled to unit length, so that metres and directions compare; rows of mere round-off become zero.

    Rows of one label in `alike` have one unit, and the longest of them unit length: a short one says little of them.
    """
    lengths = np.linalg.norm(J, axis=1, keepdims=True)
    for label in () if alike is None else set(alike):
        own = [i for i, other in enumerate(alike or ()) if other == label]
        lengths[own] = lengths[own].max()
    least = max(ROUND_OFF * float(lengths.max(initial=0.0)), NOTHING)
    return np.divide(J, lengths, out=np.zeros_like(J), where=lengths > least)


def rank(J: np.ndarray) -> int:
    """Numerical rank."""
    if J.size == 0:
        return 0
    return _rank(scaled_rows(J))


def _rank(scaled: np.ndarray) -> int:
    singular = np.linalg.svd(scaled, compute_uv=False)
    return int((singular > RANK_TOL * max(1.0, singular[0])).sum())


def independent_rows(J: np.ndarray, alike: Sequence[Hashable] | None = None) -> list[int]:
    """A largest set of independent rows, well conditioned: each time the row that adds most to those taken."""
    if J.size == 0:
        return []
    scaled = scaled_rows(J)
    moving = np.flatnonzero(scaled.any(axis=1))
    wanted = _rank(scaled[moving]) if len(moving) else 0
    return moving.tolist() if len(moving) == wanted else pivots(scaled_rows(J, alike).T, wanted)


def spread(J: np.ndarray, rows: Sequence[int], alike: Sequence[Hashable]) -> float:
    """Least singular value of some rows, all scaled: zero where they are dependent."""
    return float(np.linalg.svd(scaled_rows(J, alike)[list(rows)], compute_uv=False).min()) if len(rows) else 1.0


def dependent_columns(J: np.ndarray, weights: np.ndarray) -> list[int]:
    """Columns that make a well conditioned square matrix; columns of small weight are taken last."""
    return pivots(scaled_rows(J) * weights, J.shape[0])


def pivots(A: np.ndarray, wanted: int) -> list[int]:
    """Columns that QR with column pivoting takes first: each time the longest of what is left of them."""
    rest, taken = A.copy(), list[int]()
    for _ in range(min(wanted, *A.shape)):
        lengths = np.linalg.norm(rest, axis=0)
        lengths[taken] = -1.0
        k = int(lengths.argmax())
        taken.append(k)
        if lengths[k] > 0:
            direction = rest[:, k] / lengths[k]
            for _ in range(2):  # twice is enough against round-off
                rest -= np.outer(direction, direction @ rest)
    return sorted(taken)


def positive(A: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive definite: a hundredth of the time that its eigenvalues take."""
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    return True


def quality(J: np.ndarray, columns: Sequence[int]) -> float:
    """|det J_z| / sqrt(det J J'): one for the best choice of coordinates there can be, zero for a singular one.

    Of constraints that share no coordinate each group counts alone, and the worst says how good the choice is.
    """
    chosen, worst = np.isin(np.arange(J.shape[1]), columns), 1.0
    for rows in groups(J):
        part = J[rows]
        square = part[:, chosen & part.any(axis=0)]
        if square.shape[0] != square.shape[1]:
            return 0.0
        own, best = np.linalg.slogdet(square)[1], np.linalg.slogdet(part @ part.T)[1] / 2
        worst = min(worst, float(np.exp(own - best)) if np.isfinite(best) else 0.0)
    return worst


def groups(J: np.ndarray) -> list[np.ndarray]:
    """Rows that are tied together by the columns they share."""
    moves = J != 0
    tied = (moves.astype(float) @ moves.T.astype(float)) > 0
    np.fill_diagonal(tied, True)
    label = np.arange(len(J))
    while True:
        least = np.where(tied, label, len(J)).min(axis=1, initial=len(J))
        if (least == label).all():
            return [np.flatnonzero(label == k) for k in np.unique(label)]
        label = least
