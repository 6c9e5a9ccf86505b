"""Transcriptions: trapezoidal, and Hermite-Simpson with its middles as unknowns or eliminated."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from saltus.model.symbols import SX
from saltus.plan.nlp import Local
from saltus.plan.phase_model import PhaseModel


@dataclass(frozen=True)
class Trapezoidal:
    """Rates vary linearly within an interval: order 2."""

    order = 2
    middles = False

    def instants(self, mesh: np.ndarray) -> np.ndarray:
        """Fractions of the phase at which there are nodes."""
        return mesh

    def weights(self, mesh: np.ndarray) -> np.ndarray:
        """Weights of the nodes in an integral over the phase."""
        h = np.diff(mesh)
        return np.concatenate([h, [0]]) / 2 + np.concatenate([[0], h]) / 2

    def running(self, t: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Integral of rates, one row a node, from the first node to each."""
        steps = np.diff(t)[:, None] * (rates[1:] + rates[:-1]) / 2
        return np.vstack([np.zeros(rates.shape[1]), np.cumsum(steps, axis=0)])

    def takes(self, nodes: np.ndarray) -> np.ndarray:
        """Unknowns that each interval is made of."""
        return np.vstack([nodes[:, :-1], nodes[:, 1:]])

    def own_points(self, count: int) -> np.ndarray:
        """Which nodes stand for themselves: all."""
        return np.ones(count, bool)

    def bounds(self, model: PhaseModel, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of an interval's rows: equations."""
        return np.zeros(rows), np.zeros(rows)

    def local(self, model: PhaseModel, native: bool | None) -> Local:
        """x1 - x0 = h (f0 + f1) / 2, with the end on the constraints."""
        a, b = _unknowns(model, 2)
        d, s, h, p = _data(model)
        rates = [model.rate(x, model.common, at, p) for x, at in ((a, s[0]), (b, s[1]))]
        step = _integrated(model, b) - _integrated(model, a) - h * (rates[0] + rates[1]) / 2
        return _interval(model, ca.vertcat(a, b), d, [("collocation", step)], b, s[1], p, native)


@dataclass(frozen=True)
class HermiteSimpson:
    """Rates vary quadratically within an interval: order 4.

    The state in the middle is an unknown of its own (separated), or with `compressed` the Hermite cubic's.
    """

    compressed: bool = False
    order = 4
    middles = True

    def instants(self, mesh: np.ndarray) -> np.ndarray:
        """Fractions of the phase at which there are nodes."""
        out = np.empty(2 * len(mesh) - 1)
        out[::2], out[1::2] = mesh, (mesh[:-1] + mesh[1:]) / 2
        return out

    def weights(self, mesh: np.ndarray) -> np.ndarray:
        """Weights of the nodes in an integral over the phase."""
        h = np.diff(mesh)
        out = np.zeros(2 * len(mesh) - 1)
        out[:-1:2] += h / 6
        out[2::2] += h / 6
        out[1::2] = 4 * h / 6
        return out

    def running(self, t: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Integral of rates, one row a node, from the first node to each: of the parabola through an interval."""
        h = np.diff(t[::2])[:, None]
        first, middle, last = rates[:-1:2], rates[1::2], rates[2::2]
        steps = np.empty((len(t) - 1, rates.shape[1]))
        steps[::2] = h / 24 * (5 * first + 8 * middle - last)
        steps[1::2] = h / 24 * (5 * last + 8 * middle - first)
        return np.vstack([np.zeros(rates.shape[1]), np.cumsum(steps, axis=0)])

    def takes(self, nodes: np.ndarray) -> np.ndarray:
        """Unknowns that each interval is made of."""
        return np.vstack([nodes[:, :-1:2], nodes[:, 1::2], nodes[:, 2::2]])

    def own_points(self, count: int) -> np.ndarray:
        """Which nodes stand for themselves: compressed middles belong to their interval."""
        return np.arange(count) % 2 == 0 if self.compressed else np.ones(count, bool)

    def bounds(self, model: PhaseModel, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of an interval's rows: equations, and what must hold in a compressed middle."""
        low, high = np.zeros(rows), np.zeros(rows)
        if self.compressed:
            inside = _states_inside(model)
            least, most = (
                np.concatenate([b, [one[i] for one in inside]])
                for i, b in ((1, model.point_low), (2, model.point_high))
            )
            low[rows - len(least) :], high[rows - len(most) :] = least, most
        return low, high

    def local(self, model: PhaseModel, native: bool | None) -> Local:
        """x1 - x0 = h (f0 + 4 fc + f1) / 6 and xc = (x0 + x1) / 2 + h (f0 - f1) / 8, the end on the constraints."""
        a, c, b = _unknowns(model, 3)
        d, s, h, p = _data(model)
        centre = (s[0] + s[1]) / 2
        f0, f1 = model.rate(a, model.common, s[0], p), model.rate(b, model.common, s[1], p)
        first, last = _integrated(model, a), _integrated(model, b)
        cubic = (first + last) / 2 + h * (f0 - f1) / 8
        middle = SX(c)
        if self.compressed:
            middle[model.integrated] = cubic
        fc = model.rate(middle, model.common, centre, p)
        parts = [("collocation", last - first - h * (f0 + 4 * fc + f1) / 6)]
        if not self.compressed:
            parts.append(("middle", _integrated(model, c) - cubic))
            return _interval(model, ca.vertcat(a, c, b), d, parts, b, s[1], p, native)
        cost, g = model.point(middle, model.common, centre, p)
        g = ca.vertcat(g, *[middle[i] for i, _, _ in _states_inside(model)])
        return _interval(model, ca.vertcat(a, c, b), d, parts, b, s[1], p, native, 4 * h / 6 * cost, g)


Scheme = Trapezoidal | HermiteSimpson


def _unknowns(model: PhaseModel, count: int) -> list[SX]:
    return [SX.sym(f"x{i}", model.n) for i in range(count)]


def _data(model: PhaseModel) -> tuple[SX, list[SX], SX, SX]:
    s, p = [SX.sym("s0"), SX.sym("s1")], SX.sym("p", model.p.numel())
    return ca.vertcat(*s, p), s, model.length * (s[1] - s[0]), p


def _integrated(model: PhaseModel, x: SX) -> SX:
    return x[model.integrated]


def _states_inside(model: PhaseModel) -> list[tuple[int, float, float]]:
    """Bounds of integrated unknowns, which in a compressed middle are rows: they are no unknowns there."""
    return [bound for bound in model.simple if bound[0] in model.integrated]


def _interval(
    model: PhaseModel,
    unknowns: SX,
    d: SX,
    parts: list[tuple[str, SX]],
    end: SX,
    at: SX,
    p: SX,
    native: bool | None,
    cost: SX | None = None,
    middle: SX | None = None,
) -> Local:
    """Rows of an interval: the first part gives way along the constraints, which its end fulfils."""
    word, step = parts[0]
    parts = [(word, step - model.pull(end, model.common, at, p, model.slack)), *parts[1:]]
    names = [f"{word} of {model.names[i]}" for word, _ in parts for i in model.integrated]
    names += [*model.node.closed.names, *model.node.still.names]
    g = [part for _, part in parts] + [model.gap(end, model.common, at, p)]
    if middle is not None:
        names += [*model.point_names, *[model.names[i] for i, _, _ in _states_inside(model)]]
        g.append(middle)
    x = ca.vertcat(unknowns, model.slack, model.common)
    return Local(x, d, SX(0) if cost is None else cost, ca.vertcat(*g), names, native)
