"""A nonlinear programme put together from small functions that repeat along a mesh, with exact sparse derivatives.

Each piece is one SX function of a few variables, its Jacobian and its Hessian: they are derived once, evaluated for
every interval or node, and their entries put where they belong. Nothing is differentiated through the whole problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.model.symbols import SX
from saltus.once import cached_property


class Local:
    """A cost and rows as functions of local variables x and data d, with their derivatives, each derived once."""

    def __init__(self, x: SX, d: SX, cost: SX, g: SX, names: Sequence[str], native: bool | None = False) -> None:
        self.names = tuple(names)
        self.n, self.m = int(x.numel()), int(g.numel())
        g = ca.densify(g)
        weight, weights = SX.sym("weight"), SX.sym("weights", self.m)
        J = ca.sparsify(ca.jacobian(g, x))
        H = ca.sparsify(ca.triu(ca.hessian(weight * cost + ca.dot(weights, g), x)[0]))
        self.jacobian, self.hessian = _places(J), _places(H)
        functions = {
            "values": ca.Function("values", [x, d], ca.cse([ca.densify(cost), g])),
            "slope": ca.Function("slope", [x, d], ca.cse([ca.densify(ca.gradient(cost, x))])),
            "first": ca.Function("first", [x, d], ca.cse([_entries(J)])),
            "second": ca.Function("second", [x, d, weight, weights], ca.cse([_entries(H)])),
        }
        self._kernels = {name: Kernel(f, native=native) for name, f in functions.items()}

    def mapped(self, name: str, places: int) -> ca.Function:
        """One of "values", "slope", "first", "second" for many places at once, one column each."""
        shared = [2] if name == "second" else []
        return self._kernels[name].runnable.map(f"{name}_{places}", "serial", places, shared, [])


@dataclass(frozen=True, eq=False)
class Piece:
    """A local function at several places: `at` says which variables each place takes, one column a place.

    `data`, `low` and `high` (bounds of the rows) have one column a place too; `times` says when each is (s).
    """

    local: Local
    at: np.ndarray
    data: np.ndarray
    low: np.ndarray
    high: np.ndarray
    times: np.ndarray

    @property
    def places(self) -> int:
        """How often the function is taken."""
        return int(self.at.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows at all places."""
        return self.local.m * self.places


@dataclass(frozen=True, eq=False)
class Expressions:
    """A scaled programme in symbols: cost, rows, the cost's gradient, and entries of the Jacobian and the Hessian."""

    cost: Any
    g: Any
    gradient: Any
    jacobian: Any
    hessian: Any


class Programme:
    """min f(x) subject to low <= g(x) <= high; the solver works on x / scale and on scaled rows."""

    def __init__(self, scale: np.ndarray, pieces: Sequence[Piece]) -> None:
        self.pieces = [p for p in pieces if p.places]
        self.scale = scale
        self.n = len(scale)
        self.low = np.concatenate([np.zeros(0), *[p.low.ravel(order="F") for p in self.pieces]])
        self.high = np.concatenate([np.zeros(0), *[p.high.ravel(order="F") for p in self.pieces]])
        self.first_row = np.cumsum([0, *[p.rows for p in self.pieces]])
        self.m = int(self.first_row[-1])
        self.row_scale, self.cost_scale = np.ones(self.m), 1.0

    # ---- numbers at one point -----------------------------------------------------------------------------------

    def evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Cost and rows."""
        cost, rows = 0.0, [np.zeros(0)]
        for piece in self.pieces:
            f, g = piece.local.mapped("values", piece.places)(x[piece.at], piece.data)
            cost += float(f.full().sum())
            rows.append(g.full().ravel(order="F"))
        return cost, np.concatenate(rows)

    def wrong(self, g: np.ndarray) -> np.ndarray:
        """By how much rows are outside their bounds; not above zero where they are inside."""
        return np.maximum(self.low - g, g - self.high)

    def rescale(self, x: np.ndarray, slack: np.ndarray, beside: np.ndarray) -> None:
        """Scale cost and rows so that their largest derivatives at x are one; a row alike at all its places.

        Unknowns that are `slack`, with no size of their own, get the one that makes their largest derivative one. The
        cost is looked at `beside` x too: a guess without effort is where the slope of an effort squared is zero.
        """
        gradient, slope, scale = np.zeros(self.n), np.zeros(self.n), [np.zeros(0)]
        columns = np.zeros(self.n)
        loose = np.zeros(self.n, bool)
        loose[slack] = True
        for piece in self.pieces:
            here = x[piece.at], piece.data
            for sums, point in ((gradient, x), (slope, beside)):
                own = piece.local.mapped("slope", piece.places)(point[piece.at], piece.data).full()
                np.add.at(sums, piece.at.ravel(), own.ravel())
            entries = piece.local.mapped("first", piece.places)(*here)
            i, j = piece.local.jacobian
            sized = np.abs(entries.full() * self.scale[piece.at[j]])
            largest = np.zeros(piece.local.m)
            np.maximum.at(largest, i, np.where(loose[piece.at[j]], 0.0, sized).max(axis=1, initial=0.0))
            rows = 1.0 / np.where(largest > 1e-8, largest, 1.0)
            scale.append(np.tile(rows, piece.places))
            np.maximum.at(columns, piece.at[j].ravel(), (rows[i][:, None] * sized).ravel())
        self.row_scale = np.concatenate(scale)
        self.scale = np.where(loose & (columns > 1e-12), self.scale / np.maximum(columns, 1e-12), self.scale)
        steepest = max(float(np.nan_to_num(np.abs(g * self.scale)).max(initial=0.0)) for g in (gradient, slope))
        self.cost_scale = 1.0 / steepest if steepest > 1e-12 else 1.0

    # ---- for the solver -----------------------------------------------------------------------------------------

    @cached_property
    def jacobian_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of every local entry."""
        rows, cols = [np.zeros(0, int)], [np.zeros(0, int)]
        for piece, start in zip(self.pieces, self.first_row, strict=False):
            i, j = piece.local.jacobian
            rows.append((start + i[:, None] + piece.local.m * np.arange(piece.places)).ravel(order="F"))
            cols.append(piece.at[j].ravel(order="F"))
        return np.concatenate(rows), np.concatenate(cols)

    @cached_property
    def hessian_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of every local entry, in the upper triangle."""
        rows, cols = [np.zeros(0, int)], [np.zeros(0, int)]
        for piece in self.pieces:
            i, j = piece.local.hessian
            a, b = piece.at[i].ravel(order="F"), piece.at[j].ravel(order="F")
            rows.append(np.minimum(a, b))
            cols.append(np.maximum(a, b))
        return np.concatenate(rows), np.concatenate(cols)

    def expressions(self, x: Any, lam_f: Any, lam_g: Any) -> Expressions:
        """Everything as the solver sees it, at scaled unknowns x and multipliers of the cost and of scaled rows."""
        size, rows = ca.DM(self.scale), ca.DM(self.row_scale)
        true = size * x
        cost, g = ca.MX(0), [ca.MX(0, 1)]
        gradients, jacobian, hessian = [ca.MX(0, 1)], [ca.MX(0, 1)], [ca.MX(0, 1)]
        weights = rows * lam_g
        for piece, start in zip(self.pieces, self.first_row, strict=False):
            local, data = ca.reshape(true[piece.at.ravel(order="F").tolist()], *piece.at.shape), ca.DM(piece.data)
            f, own = piece.local.mapped("values", piece.places)(local, data)
            cost += self.cost_scale * ca.sum2(f)
            g.append(ca.vec(own))
            gradients.append(ca.vec(piece.local.mapped("slope", piece.places)(local, data)))
            jacobian.append(ca.vec(piece.local.mapped("first", piece.places)(local, data)))
            mine = ca.reshape(weights[int(start) : int(start) + piece.rows], piece.local.m, piece.places)
            second = piece.local.mapped("second", piece.places)(local, data, self.cost_scale * lam_f, mine)
            hessian.append(ca.vec(second))
        at = np.concatenate([np.zeros(0, int), *[p.at.ravel(order="F") for p in self.pieces]])
        gathered = ca.densify(ca.mtimes(_gathering(at, self.n), ca.vertcat(*gradients)))  # a solver's has no gaps
        (i, j), (a, b) = self.jacobian_places, self.hessian_places
        return Expressions(
            cost,
            rows * ca.vertcat(*g),
            self.cost_scale * size * gathered,
            ca.vertcat(*jacobian) * ca.DM(self.row_scale[i] * self.scale[j]),
            ca.vertcat(*hessian) * ca.DM(self.scale[a] * self.scale[b]),
        )

    def functions(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Problem and derivatives as `casadi.nlpsol` takes them."""
        x, none = ca.MX.sym("x", self.n), ca.MX.sym("p", 0)
        lam_f, lam_g = ca.MX.sym("lam_f"), ca.MX.sym("lam_g", self.m)
        e = self.expressions(x, lam_f, lam_g)
        J = assembled(*self.jacobian_places, e.jacobian, (self.m, self.n))
        H = assembled(*self.hessian_places, e.hessian, (self.n, self.n))
        first = [x, none], ["x", "p"]
        options = {
            "grad_f": ca.Function("grad_f", first[0], [e.cost, e.gradient], first[1], ["f", "grad_f_x"]),
            "jac_g": ca.Function("jac_g", first[0], [e.g, J], first[1], ["g", "jac_g_x"]),
            "hess_lag": ca.Function(
                "hess_lag", [*first[0], lam_f, lam_g], [H], [*first[1], "lam_f", "lam_g"], ["hess_gamma_x_x"]
            ),
        }
        return {"x": x, "p": none, "f": e.cost, "g": e.g}, options

    def row(self, index: int) -> tuple[str, float]:
        """Name and time (s) of a row."""
        k = int(np.searchsorted(self.first_row, index, side="right")) - 1
        piece = self.pieces[k]
        place, row = divmod(index - int(self.first_row[k]), piece.local.m)
        return piece.local.names[row], float(piece.times[place])


def _places(matrix: SX) -> tuple[np.ndarray, np.ndarray]:
    rows, cols = matrix.sparsity().get_triplet()
    return np.array(rows, int), np.array(cols, int)


def _entries(matrix: SX) -> SX:
    """Entries of a sparse matrix as a dense column."""
    entries: list[Any] = matrix.nonzeros()
    return ca.densify(ca.vertcat(SX(0, 1), *entries))


def _gathering(at: np.ndarray, n: int) -> ca.DM:
    """Matrix that adds entry k to place at[k]."""
    return ca.DM.triplet(at.tolist(), list(range(len(at))), ca.DM.ones(len(at)), n, len(at))


def assembled(rows: np.ndarray, cols: np.ndarray, entries: Any, shape: tuple[int, int]) -> Any:
    """Sparse matrix of entries, those at the same place added."""
    keys, where = np.unique(cols.astype(np.int64) * shape[0] + rows, return_inverse=True)
    sparsity = ca.Sparsity.triplet(*shape, (keys % shape[0]).tolist(), (keys // shape[0]).tolist())
    if len(keys) == len(where):
        order = np.argsort(where)
        return ca.MX(sparsity, entries[order.tolist()])
    return ca.MX(sparsity, ca.mtimes(_gathering(where, len(keys)), entries))
