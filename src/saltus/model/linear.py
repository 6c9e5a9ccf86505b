"""Linear solves as expressions: block by block, in a fixed order, without pivoting at run time."""

from __future__ import annotations

from collections.abc import Iterable

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


class Positive:
    """A symmetric positive definite matrix as L D L', last row first, which fits the sparsity of a tree.

    Pivots far above their `floor` are what they are, those below stay near it: (D^4 + floor^4)^(1/4).
    """

    def __init__(self, A: SX, floor: SX | None = None) -> None:
        n = A.shape[0]
        L, D = SX(n, n), [SX(1, 1)] * n
        work = SX(A)
        for k in reversed(range(n)):
            D[k] = work[k, k] if floor is None else ca.sqrt(ca.sqrt((work[k, k] ** 2) ** 2 + (floor[k] ** 2) ** 2))
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


class Proximal:
    """A symmetric matrix A, which may be singular; A + diag(e) is factored, and A \\ B has the least x' diag(e) x.

    A second step solves (A + e) x = B + e x with the first one's x: where A x = c x it is off by (e / (c + e))^2.
    """

    def __init__(self, factor: Positive, e: SX) -> None:
        self.factor, self.e = factor, e

    def solve(self, B: SX) -> SX:
        """A \\ B."""
        x = self.factor.solve(B)
        return x + self.factor.solve(x * ca.repmat(self.e, 1, B.shape[1]))
