"""A nonlinear programme stage by stage, as FATROP takes it.

An unknown is an input of the stage to which it belongs and a state of those after it, for as long as a row needs it.
Any programme fits; in a plan, where rows reach from one node to the next, states stay short. Functions are evaluated
with the inputs alone: copies equal them from the start on, which the linear rows between stages keep true.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from saltus.plan.nlp import Expressions, Programme, assembled
from saltus.plan.transcription import Transcription


def stages_of(t: Transcription) -> np.ndarray:
    """Stage of every unknown: that of its node, or of the node that ends its interval."""
    out, first, at = np.zeros(t.n, int), [], 0
    for k, mesh in enumerate(t.meshes):
        first.append(at)
        out[t.common(k)] = at
        out[t.nodes[k]] = at + np.searchsorted(mesh, t.fractions[k])
        for inside in (t.slacks[k], t.sizes[k]):
            out[inside] = at + 1 + np.arange(len(mesh) - 1)
        at += len(mesh)
    for (a, b, _), impulse in zip(t.joins, t.impulses, strict=True):
        out[impulse] = first[b] if b > a else at - 1
    out[t.freed] = 0
    return out


class Staged:
    """A programme over copies of its free unknowns: `nx` states, `nu` inputs and `ng` rows in each stage.

    Columns go stage by stage, states before inputs; rows too, those that carry states on before the programme's own.
    """

    def __init__(self, programme: Programme, stage: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        self.programme = programme
        free = low < high
        self.free, self.fixed = np.flatnonzero(free), np.where(free, 0.0, low) / programme.scale
        self.stage = np.zeros(programme.n, int)
        self.stage[free] = np.unique(stage[free], return_inverse=True)[1]
        i, j = programme.jacobian_places
        self._first = np.flatnonzero(free[j])
        i, j = i[self._first], j[self._first]
        a, b = programme.hessian_places
        self._second = np.flatnonzero(free[a] & free[b])
        a, b = a[self._second], b[self._second]
        of_row, met = np.full(programme.m, -1), np.maximum(self.stage[a], self.stage[b])
        np.maximum.at(of_row, i, self.stage[j])
        last = self.stage.copy()
        for unknowns, needed in ((j, of_row[i]), (a, met), (b, met)):
            np.maximum.at(last, unknowns, needed)
        self._place_columns(last)
        self._place_rows(of_row)
        self._jacobian = self.row_at[i], self._column(j, of_row[i])
        self._hessian = self._column(a, met), self._column(b, met)

    def _place_columns(self, last: np.ndarray) -> None:
        """One column for each stage from an unknown's own to the last that needs it."""
        count = last[self.free] - self.stage[self.free] + 1
        unknown = np.repeat(self.free, count)
        stage = self.stage[unknown] + np.arange(len(unknown)) - np.repeat(np.cumsum(count) - count, count)
        order = np.lexsort((unknown, stage == self.stage[unknown], stage))
        self.unknown, self.column_stage = unknown[order], stage[order]
        self.own = self.column_stage == self.stage[self.unknown]
        self._keys = self.column_stage * self.programme.n + self.unknown
        self._sorted = np.argsort(self._keys)
        self.n, stages = len(self.unknown), int(self.column_stage.max()) + 1
        self.nx = np.bincount(self.column_stage[~self.own], minlength=stages)
        self.nu = np.bincount(self.column_stage[self.own], minlength=stages)

    def _column(self, unknown: np.ndarray, stage: np.ndarray) -> np.ndarray:
        """Where unknowns are in stages."""
        keys = stage * self.programme.n + unknown
        return np.asarray(self._sorted[np.searchsorted(self._keys, keys, sorter=self._sorted)])

    def _place_rows(self, of_row: np.ndarray) -> None:
        """Rows that carry states on, and in each stage those whose last unknown is there; constant ones nowhere."""
        states, self.rows = np.flatnonzero(~self.own), np.flatnonzero(of_row >= 0)
        stage = np.concatenate([self.column_stage[states] - 1, of_row[self.rows]])
        kind = np.repeat([0, 1], [len(states), len(self.rows)])
        at = np.argsort(np.lexsort((kind, stage)))
        self.m = len(at)
        carrying = at[: len(states)]
        self.row_at = np.full(self.programme.m, -1)
        self.row_at[self.rows] = at[len(states) :]
        self.ng = np.bincount(of_row[self.rows], minlength=len(self.nx))
        before = self._column(self.unknown[states], self.column_stage[states] - 1)
        self._carried = np.tile(carrying, 2), np.concatenate([states, before]), np.repeat([1.0, -1.0], len(states))

    # ---- numbers ------------------------------------------------------------------------------------------------

    @property
    def structure(self) -> dict[str, Any]:
        """Sizes as `casadi.nlpsol` takes them."""
        sizes = {"nx": self.nx.tolist(), "nu": self.nu.tolist(), "ng": self.ng.tolist()}
        return {"structure_detection": "manual", "N": len(self.nx) - 1, **sizes}

    def bounds(self, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
        """Bounds of columns and rows, from those of the scaled unknowns; copies have none of their own."""
        p = self.programme
        rows = [np.zeros(self.m), np.zeros(self.m)]
        for out, side in zip(rows, (p.low, p.high), strict=True):
            out[self.row_at[self.rows]] = (side * p.row_scale)[self.rows]
        columns = [np.where(self.own, b[self.unknown], free) for b, free in ((low, -np.inf), (high, np.inf))]
        return {"lbx": columns[0], "ubx": columns[1], "lbg": rows[0], "ubg": rows[1]}

    def contradicts(self, x: np.ndarray) -> bool:
        """Whether a row without free unknowns does not hold at x (scaled), and so nowhere."""
        p = self.programme
        _, g = p.evaluate(x * p.scale)
        return bool((p.wrong(g) * p.row_scale > 1e-6)[self.row_at < 0].any())

    def whole(self, z: np.ndarray) -> np.ndarray:
        """Scaled unknowns of the programme."""
        out = self.fixed.copy()
        out[self.unknown[self.own]] = z[self.own]
        return out

    # ---- for the solver -----------------------------------------------------------------------------------------

    def functions(self, watch: Any) -> tuple[dict[str, Any], dict[str, ca.Function]]:
        """Problem, and functions under the names by which CasADi's interface asks for them.

        `watch` sees every iterate; a Jacobian that is not a number is how it stops the solver.
        """
        z, none = ca.MX.sym("z", self.n), ca.MX.sym("p", 0)
        lam_f, lam = ca.MX.sym("lam_f"), ca.MX.sym("lam_g", self.m)
        p, own = self.programme, np.flatnonzero(self.own)
        pick = _selection(self.unknown[own], own, (p.n, self.n))
        place = _selection(self.row_at[self.rows], self.rows, (self.m, p.m))
        x = ca.densify(ca.mtimes(pick, z)) + ca.DM(self.fixed)
        e = p.expressions(x, lam_f, ca.densify(ca.mtimes(place.T, lam)))
        rows, cols, signs = self._carried
        carried = ca.DM.triplet(rows.tolist(), cols.tolist(), ca.DM(signs), self.m, self.n)
        g = ca.densify(ca.mtimes(place, e.g) + ca.mtimes(carried, z))
        gradient = ca.densify(ca.mtimes(pick.T, e.gradient))
        J, H = self._matrices(e)
        slope = ca.densify(lam_f * gradient + ca.mtimes(J.T, lam))
        stop = watch(x, e.cost, e.g, 0, 0, 0)
        first, second = [z, none], [z, none, lam_f, lam]
        functions = {
            "nlp_grad_f": (first, [gradient]),
            "nlp_jac_g": (first, [g, J * ca.if_else(stop, np.nan, 1.0)]),
            "nlp_hess_l": (second, [slope, H]),
            "nlp_grad": (second, [e.cost, g, slope, ca.MX(0, 1)]),
        }
        return {"x": z, "p": none, "f": e.cost, "g": g}, {n: ca.Function(n, *f) for n, f in functions.items()}

    def _matrices(self, e: Expressions) -> tuple[Any, Any]:
        """Jacobian and full Hessian."""
        rows, cols, signs = self._carried
        i, j = (np.concatenate(one) for one in zip(self._jacobian, (rows, cols), strict=True))
        J = assembled(i, j, ca.vertcat(e.jacobian[self._first.tolist()], ca.DM(signs)), (self.m, self.n))
        a, b = self._hessian
        off, entries = np.flatnonzero(a != b), e.hessian[self._second.tolist()]
        both = np.concatenate([a, b[off]]), np.concatenate([b, a[off]])
        return J, assembled(*both, ca.vertcat(entries, entries[off.tolist()]), (self.n, self.n))


def _selection(rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> ca.DM:
    """Matrix of ones at some places."""
    return ca.DM.triplet(rows.tolist(), cols.tolist(), ca.DM.ones(len(rows)), *shape)
