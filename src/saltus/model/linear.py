"""Linear solves as expressions: block by block, in a fixed order, without pivoting at run time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import casadi as ca

from saltus.model.symbols import SX


class Factored:
    """A square matrix in block triangular form: small blocks by Cramer's rule, larger ones by QR.

    A linkage whose loops build on one another gives one small block a loop, so the cost stays linear in
    their number.
    """

    def __init__(self, A: SX) -> None:
        self.A = A
        self.n = A.shape[0]
        n_blocks, rows, cols, row_at, col_at, *_ = A.sparsity().btf()
        # CasADi's order is block lower triangular: a block needs the unknowns of those before it only.
        self.blocks = [(rows[row_at[i] : row_at[i + 1]], cols[col_at[i] : col_at[i + 1]]) for i in range(n_blocks)]
        self._factors = [self._factor(A[r, c]) for r, c in self.blocks]

    @staticmethod
    def _factor(block: SX) -> tuple[SX, SX, SX]:
        """Return (left, R, volume) with inverse(block) b = R \\ (left b)."""
        n = block.shape[0]
        if n == 1:
            return SX.eye(1), block, ca.fabs(block)
        if n == 2:
            a, b, c, d = block[0, 0], block[0, 1], block[1, 0], block[1, 1]
            det = a * d - b * c
            adjugate = ca.vertcat(ca.horzcat(d, -b), ca.horzcat(-c, a))
            return adjugate, SX.eye(2) * det, ca.fabs(det)
        Q, R = ca.qr(ca.densify(block))
        return Q.T, ca.triu(R), ca.fabs(ca.cse(product(ca.vertsplit(ca.diag(R)))))

    def worst(self, J: SX) -> SX:
        """Smallest determinant of a block over the lengths of its rows in J (A and more columns); zero: singular."""
        out = SX(1)
        for (rows, _), (*_, volume) in zip(self.blocks, self._factors, strict=True):
            lengths = [ca.sqrt(ca.sumsqr(J[r, :]) + 1e-300) for r in rows]
            out = ca.fmin(out, volume / product(lengths))
        return out

    @property
    def determinants(self) -> SX:
        """Of every block: its sign changes where the block is singular and not elsewhere."""
        return ca.vertcat(SX(0, 1), *[_determinant(self.A[r, c]) for r, c in self.blocks])

    def solve(self, B: SX) -> SX:
        """A \\ B."""
        X = SX(self.n, B.shape[1])
        for (r, c), (left, R, _) in zip(self.blocks, self._factors, strict=True):
            known = ca.mtimes(self.A[r, :], X)
            X[c, :] = _back(R, ca.mtimes(left, B[r, :] - known))
        return ca.sparsify(X)

    def solve_transposed(self, B: SX) -> SX:
        """A' \\ B."""
        X = SX(self.n, B.shape[1])
        for (r, c), (left, R, _) in reversed(list(zip(self.blocks, self._factors, strict=True))):
            known = ca.mtimes(self.A[:, c].T, X)
            X[r, :] = ca.mtimes(left.T, _forward(R.T, B[c, :] - known))
        return ca.sparsify(X)


def product(entries: Iterable[SX]) -> SX:
    """Product of all entries."""
    out = SX(1)
    for entry in entries:
        out = out * entry
    return out


def _determinant(A: SX) -> SX:
    """By elimination; of two rows without a division."""
    n, sign, out, A = A.shape[0], 1, SX(1), SX(A)
    for k in range(n - 2):
        pivot = next(i for i in range(k, n) if not A[i, k].is_zero())
        if pivot != k:
            A[[k, pivot], :], sign = A[[pivot, k], :], -sign
        out *= A[k, k]
        for i in range(k + 1, n):
            A[i, :] -= A[i, k] / A[k, k] * A[k, :]
    return sign * out * (A if n < 2 else ca.det(A[n - 2 :, n - 2 :]))


def _back(R: SX, b: SX) -> SX:
    n = R.shape[0]
    x = SX(n, b.shape[1])
    for i in reversed(range(n)):
        x[i, :] = (b[i, :] - ca.mtimes(R[i, i + 1 :], x[i + 1 :, :])) / R[i, i]
    return x


def _forward(L: SX, b: SX) -> SX:
    n = L.shape[0]
    x = SX(n, b.shape[1])
    for i in range(n):
        x[i, :] = (b[i, :] - ca.mtimes(L[i, :i], x[:i, :])) / L[i, i]
    return x


def _raised(pivot: SX, floor: SX) -> SX:
    """|pivot| + floor^4 / (|pivot|^3 + floor^3), at least the floor, and off by (floor / pivot)^4 of a large pivot."""
    size, square = ca.fabs(pivot), floor**2
    return size + square**2 / (size**3 + square * floor)


def _sizes(A: SX) -> list[SX]:
    """Sums of products of no, one and two eigenvalues: 1, the trace, the sum of the minors of two rows and columns."""
    pairs = [A[i, i] * A[j, j] - A[i, j] ** 2 for i in range(A.shape[0]) for j in range(i)]
    return [SX(1), ca.trace(A), sum(pairs, SX(0))][: A.shape[0]]


class Positive:
    """A symmetric positive definite matrix as L D L', last row first, which fits the sparsity of a tree.

    Pivots far above their `floor` are what they are, those below stay near it. Rows of one of the `groups` have it on
    the eigenvalues of their block, whatever axes they are along: the product of the first pivots is at most that of as
    many largest eigenvalues, and by what it falls short the next floor is raised.
    """

    def __init__(self, A: SX, floor: SX | None = None, groups: Sequence[Hashable] = ()) -> None:
        n = A.shape[0]
        L, D = SX(n, n), [SX(1, 1)] * n
        work, sizes = SX(A), dict[Hashable, list[SX]]()
        for k in reversed(range(n)):
            if floor is None:
                D[k] = work[k, k]
            elif not groups:
                D[k] = _raised(work[k, k], floor[k])
            else:
                own = [i for i in range(k + 1) if groups[i] == groups[k]]
                short = sizes.setdefault(groups[k], _sizes(work[own, own]))
                D[k] = _raised(work[k, k], floor[k] * short[0])
                sizes[groups[k]] = [x / D[k] for x in short[1:]] or [SX(1)]
            column = work[:k, k]
            for i in column.row():
                L[k, i] = work[i, k] / D[k]
            for i in column.row():
                for j in column.row():
                    if j <= i:
                        work[i, j] -= L[k, i] * work[j, k]
                        work[j, i] = work[i, j]
        self.L, self.D, self.n = L, D, n

    def solve(self, B: SX) -> SX:
        """A \\ B, with A = (I + L)' D (I + L)."""
        X = SX(B)
        for k in reversed(range(self.n)):
            for i in self.L[k, :].T.row():
                X[i, :] -= self.L[k, i] * X[k, :]
        for k in range(self.n):
            X[k, :] = X[k, :] / self.D[k]
        for k in range(self.n):
            for i in self.L[k, :].T.row():
                X[k, :] -= self.L[k, i] * X[i, :]
        return ca.sparsify(X)
