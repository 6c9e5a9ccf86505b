"""Ideal impacts: what suddenly appearing constraints do to velocity and energy.

Constraints A v+ = 0 that appear at once split the velocity, orthogonally in the mass metric, into an admissible
part v_a that survives and a constrained part v_c that is lost (Font-Llagunes and Kövecses 2009, eqs. 1 to 4).
Constraints B that hold before and after, the closed loops, take part in the orthogonality and lose nothing.
All functions take stacks: leading axes of M, A, B and v run over configurations.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from saltus.errors import Singular
from saltus.once import cached_property

STILL = 1e-14  # m per m or rad: a row of less is round-off, as between links that are welded to each other
RANK_TOL = 1e-10  # singular values below this share of the largest count as zero
SAFE = 1e-6  # rows whose QR factors keep this distance from dependence are independent


@dataclass(frozen=True, eq=False)
class Impact:
    """What an impact did: an event of a run keeps one.

    `v` is the velocity after it. `impulses` (N s) act along the constraint rows named in `rows`. `T_a` and `T_c`
    (J) are the admissible and the constrained part of the kinetic energy before, `T_after` is the energy left:
    `T_a` in an ideal plastic impact. `rank` below the number of rows means that rows depend on each other:
    velocities and energies are unique, the impulses are the least-norm set. `works` (J) are the works of the impulses
    where contacts with modes of their own were hit, p (u- + u+) / 2 along each row, which add up to the change of T.
    """

    v: np.ndarray
    impulses: np.ndarray
    T_a: float
    T_c: float
    rank: int
    T_after: float
    rows: tuple[str, ...] = ()
    works: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def intensity(self) -> float:
        """xi = T_c / T, between 0 (nothing lost) and 1 (all lost)."""
        total = self.T_a + self.T_c
        return self.T_c / total if total > 0 else 0.0

    @property
    def lost(self) -> float:
        """Energy lost (J): T_c where the impact was ideal and plastic."""
        return self.T_a + self.T_c - self.T_after

    @property
    def share_lost(self) -> float:
        """Energy lost by energy before: xi where the impact was ideal and plastic."""
        total = self.T_a + self.T_c
        return self.lost / total if total > 0 else 0.0


def plastic_impact(
    M: np.ndarray, A: np.ndarray, v: np.ndarray, moving: np.ndarray | None = None, rows: tuple[str, ...] = ()
) -> Impact:
    """Project `v` onto A v + moving = 0 along M^-1 A', dependent rows included."""
    parts = Decomposition(M, A)
    u = A @ v + (0 if moving is None else moving)
    after = v - parts.constrained_velocity(u)
    T_a = float(after @ M @ after / 2)
    return Impact(after, parts.impulses(u), T_a, float(parts.energy(u)), int(parts.rank), T_a, rows)


class Decomposition:
    """Space of constrained motion of the rows A, in the mass metric and within the loops B.

    With M = L L', velocities y = L' v have the energy |y|^2 / 2. There the rows of B span what the loops forbid;
    what A adds to it, the rows A L'^-1 without their part in B, is decomposed into singular values. What loops hold
    need not be heavy: velocities with B v = 0 have the same energy in M + c B'B, which is positive definite then.
    """

    def __init__(self, M: np.ndarray, A: np.ndarray, B: np.ndarray | None = None) -> None:
        self.M, self.A = M, A
        try:
            self._L = _cholesky(M, B)
        except np.linalg.LinAlgError:
            raise Singular(
                "the mass matrix is not positive definite: some coordinate moves nothing heavy, so that neither "
                "impacts nor projections onto the constraints are defined; give every link that moves mass and inertia"
            ) from None
        n = M.shape[-1]
        self._loops = np.zeros((*M.shape[:-2], 0, n))
        scaled = self._scaled(np.where(np.abs(A).max(axis=-1, keepdims=True, initial=0.0) > STILL, A, 0.0))
        self._sizes = np.linalg.norm(scaled, axis=-1)
        if B is not None and B.shape[-2]:
            self._loops = _row_space(self._scaled(B))
            scaled = scaled - (scaled @ _t(self._loops)) @ self._loops
            left = np.linalg.norm(scaled, axis=-1) > RANK_TOL * self._sizes
            scaled = np.where(left[..., None], scaled, 0.0)  # a row that the loops hold moves nothing
        self.scaled = scaled

    def among(self, rows: Sequence[int]) -> Decomposition:
        """That of some of the rows."""
        out = copy(self)
        out.A, out.scaled, out._sizes = self.A[..., rows, :], self.scaled[..., rows, :], self._sizes[..., rows]
        out.__dict__.pop("_parts", None)
        return out

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Left vectors, inverses of singular values that are not zero, right vectors of these, and their number."""
        U, s, rows = np.linalg.svd(self.scaled, full_matrices=False)
        keep = s > RANK_TOL * np.linalg.norm(self._sizes, axis=-1)[..., None]
        return U, np.divide(1.0, s, out=np.zeros_like(s), where=keep), rows * keep[..., None], keep.sum(axis=-1)

    @property
    def rank(self) -> np.ndarray:
        """How many rows are independent of each other and of the loops."""
        return self._parts[3]

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        return _t(np.linalg.solve(self._L, _t(rows)))

    def _unscaled(self, y: np.ndarray) -> np.ndarray:
        return np.linalg.solve(_t(self._L), y[..., None])[..., 0]

    def _along(self, u: np.ndarray) -> np.ndarray:
        return (_t(self._parts[0]) @ u[..., None])[..., 0] * self._parts[1]

    def constrained_velocity(self, u: np.ndarray) -> np.ndarray:
        """v_c of a velocity that has u = A v along the rows."""
        return self._unscaled((_t(self._parts[2]) @ self._along(u)[..., None])[..., 0])

    def energy(self, u: np.ndarray) -> np.ndarray:
        """T_c (J) of a velocity that has u = A v along the rows."""
        return (self._along(u) ** 2).sum(axis=-1) / 2

    def impulses(self, u: np.ndarray) -> np.ndarray:
        """Impulses (N s) that stop the velocities u along the rows: the least-norm set where rows are dependent."""
        return -(self._parts[0] @ (self._along(u) * self._parts[1])[..., None])[..., 0]

    def push(self, impulses: np.ndarray) -> np.ndarray:
        """Change of velocity, M^-1 A' impulses, kept within the loops."""
        return self._unscaled((_t(self.scaled) @ impulses[..., None])[..., 0])

    @property
    def mobility(self) -> np.ndarray:
        """G = A M^-1 A' within the loops (1/kg): velocity along the rows by an impulse along the rows."""
        return self.scaled @ _t(self.scaled)

    @property
    def effective_mass(self) -> np.ndarray:
        """Inverse of the mobility (kg), its pseudoinverse where rows are dependent: T_c = u' m u / 2."""
        U, inverse, *_ = self._parts
        return U * (inverse**2)[..., None, :] @ _t(U)

    @property
    def P_a(self) -> np.ndarray:
        """Projector onto admissible motion (Zana et al. 2018, eq. 27, with loops and new constraints in it)."""
        gone = _t(self._loops) @ self._loops + _t(self._parts[2]) @ self._parts[2]
        kept = np.eye(self.M.shape[-1]) - gone
        return np.linalg.solve(_t(self._L), kept @ _t(self._L))

    @property
    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Intensities xi and velocities (columns, 1 J each) of P_c' M P_c v = xi M v on motions the loops allow.

        xi is 1 for the first `rank` columns, which span the constrained motion and are ordered by effective mass,
        lightest row combination last, and 0 for the rest. For a single configuration.
        """
        first = self._parts[2][: int(self.rank)]
        taken = np.vstack([self._loops[np.abs(self._loops).any(axis=-1)], first])
        _, s, rest = np.linalg.svd(taken) if len(taken) else (None, np.zeros(0), np.eye(self.M.shape[-1]))
        free = rest[int((s > 0.5).sum()) :]
        vectors = np.linalg.solve(self._L.T, np.sqrt(2.0) * np.vstack([first[::-1], free]).T)
        return np.concatenate([np.ones(len(first)), np.zeros(len(free))]), vectors


def _cholesky(M: np.ndarray, B: np.ndarray | None) -> np.ndarray:
    """L L' = M, or M + c B'B where M alone is not positive definite."""
    try:
        return np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        if B is None or not B.any():
            raise
    held = _t(B) @ B
    sizes = [np.trace(x, axis1=-2, axis2=-1)[..., None, None] for x in (M, held)]
    return np.linalg.cholesky(M + held * (sizes[0] / np.where(sizes[1] > 0, sizes[1], 1.0)))


def critical_friction(G: np.ndarray) -> np.ndarray:
    """kappa_c = |G_nt| / G_nn of Zana et al. (2018), eq. 24, for one contact with its normal row last."""
    return _ratio(np.linalg.norm(G[..., -1, :-1], axis=-1), G[..., -1, -1])


def sticking_friction(G: np.ndarray) -> np.ndarray:
    """Friction from which on a contact at rest along the ground stays so, |G_tt^-1 G_tn| (Routh's criterion)."""
    need = np.linalg.pinv(G[..., :-1, :-1], rcond=RANK_TOL, hermitian=True) @ G[..., :-1, -1:]
    return np.linalg.norm(need[..., 0], axis=-1)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.full(np.shape(a), np.nan), where=b > 0)


def _row_space(rows: np.ndarray) -> np.ndarray:
    """Orthonormal rows that span the given ones; zero rows fill up where some depend on others.

    QR where all are independent, which it costs a fraction to find out, singular values elsewhere.
    """
    n = rows.shape[-1]
    if rows.shape[-2] <= n:
        Q, R = np.linalg.qr(_t(rows))
        diagonal = np.abs(np.diagonal(R, axis1=-2, axis2=-1))
        if (diagonal.min(axis=-1) > SAFE * diagonal.max(axis=-1)).all():
            return _t(Q)
    _, s, right = np.linalg.svd(rows, full_matrices=False)
    return right * (s > RANK_TOL * s[..., :1])[..., None]


def _t(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)
