"""Transcriptions: trapezoidal, and Hermite-Simpson with its middles as unknowns or eliminated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.model.symbols import SX
from saltus.plan.nlp import Local
from saltus.plan.phase_model import PhaseModel


@dataclass(frozen=True)
class Trapezoidal:
    """Rates vary linearly within an interval: order 2."""

    order = 2
    middles = False
    compressed = False
    places = (0.0, 1.0)
    between: ClassVar[tuple[float, ...]] = (0.25, 0.5, 0.75)
    shares: ClassVar[tuple[float, ...]] = (1 / 12, 1 / 12, 4 / 12, 2 / 12, 4 / 12)

    def instants(self, mesh: np.ndarray) -> np.ndarray:
        """Fractions of the phase at which there are nodes."""
        return mesh

    def weights(self, mesh: np.ndarray) -> np.ndarray:
        """Weights of the nodes in an integral over the phase."""
        h = np.diff(mesh)
        return np.concatenate([h, [0]]) / 2 + np.concatenate([[0], h]) / 2

    def running(self, t: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Integral of rates, one row per node, from the first node to each."""
        steps = np.diff(t)[:, None] * (rates[1:] + rates[:-1]) / 2
        return np.vstack([np.zeros(rates.shape[1]), np.cumsum(steps, axis=0)])

    def takes(self, nodes: np.ndarray) -> np.ndarray:
        """Unknowns that each interval is made of."""
        return np.vstack([nodes[:, :-1], nodes[:, 1:]])

    def own_points(self, count: int) -> np.ndarray:
        """Which nodes stand for themselves: all."""
        return np.ones(count, bool)

    def local(self, model: PhaseModel, native: bool | None) -> Local:
        """x1 - x0 = h (f0 + f1) / 2, with the end on the constraints."""
        one = Interval(self, model)
        (a, b), (f0, f1) = one.nodes, one.rates
        step = _integrated(model, b) - _integrated(model, a) - one.h * (f0 + f1) / 2
        return one.local([("collocation", step)], native)


@dataclass(frozen=True)
class Implicit(Trapezoidal):
    """Rates are those at the end of an interval: order 1, and stable where forces jump, as at contacts."""

    order = 1
    between: ClassVar[tuple[float, ...]] = ()
    shares: ClassVar[tuple[float, ...]] = (0.0, 1.0)

    def weights(self, mesh: np.ndarray) -> np.ndarray:
        """Weights of the nodes in an integral over the phase."""
        return np.concatenate([[0.0], np.diff(mesh)])

    def running(self, t: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Integral of rates, one row per node, from the first node to each."""
        return np.vstack([np.zeros(rates.shape[1]), np.cumsum(np.diff(t)[:, None] * rates[1:], axis=0)])

    def local(self, model: PhaseModel, native: bool | None) -> Local:
        """x1 - x0 = h f1, with the end on the constraints."""
        one = Interval(self, model)
        (a, b), (_, f1) = one.nodes, one.rates
        return one.local([("step", _integrated(model, b) - _integrated(model, a) - one.h * f1)], native)


@dataclass(frozen=True)
class HermiteSimpson:
    """Rates vary quadratically within an interval: order 4.

    The state in the middle is an unknown of its own (separated), or with `compressed` the Hermite cubic's.
    """

    compressed: bool = False
    order = 4
    middles = True
    places = (0.0, 0.5, 1.0)
    between, shares = (0.25, 0.75), (1 / 12, 2 / 12, 1 / 12, 4 / 12, 4 / 12)

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
        """Integral of rates, one row per node, from the first node to each: of the parabola through an interval."""
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

    def local(self, model: PhaseModel, native: bool | None) -> Local:
        """x1 - x0 = h (f0 + 4 fc + f1) / 6 and xc = (x0 + x1) / 2 + h (f0 - f1) / 8, the end on the constraints."""
        one = Interval(self, model)
        (a, c, b), (f0, fc, f1), h = one.nodes, one.rates, one.h
        first, last = _integrated(model, a), _integrated(model, b)
        parts = [("collocation", last - first - h * (f0 + 4 * fc + f1) / 6)]
        if not self.compressed:
            parts.append(("middle", _integrated(model, c) - (first + last) / 2 - h * (f0 - f1) / 8))
        return one.local(parts, native)


Scheme = Trapezoidal | HermiteSimpson


class Interval:
    """One interval in symbols: its nodes with their rates, and what lies between them.

    Integrals look between the nodes where there are absolute values (`between`, with `shares` of the interval for nodes
    and these): an effort that acts while a rate passes through zero at a node has no power at any node. In between,
    integrated unknowns are cubics, the others go through their nodes.
    """

    def __init__(self, scheme: Scheme, model: PhaseModel) -> None:
        self.scheme, self.model = scheme, model
        self.unknowns = [SX.sym(f"x{i}", model.n) for i in range(len(scheme.places))]
        self.s, self.p = SX.sym("s", 2), SX.sym("p", model.p.numel())
        self.h = model.length * (self.s[1] - self.s[0])
        ends = {i: self._rate(self.unknowns[i], scheme.places[i]) for i in (0, -1)}
        self._ends = ends[0], ends[-1]
        self.nodes = [*self.unknowns]
        if scheme.compressed:
            self.nodes[1] = SX(self.unknowns[1])
            self.nodes[1][model.integrated] = self._cubic(0.5)
        self.sizes = SX.sym("size", len(model.of_sizes), len(scheme.between) if model.sums.numel() else 0)
        middles = [self._rate(x, at) for x, at in zip(self.nodes[1:-1], scheme.places[1:-1], strict=True)]
        self.rates = [ends[0], *middles, ends[-1]]

    def _at(self, place: float) -> SX:
        return self.s[0] + place * (self.s[1] - self.s[0])

    def _rate(self, x: SX, place: float) -> SX:
        return self.model.rate(x, self.model.common, self._at(place), self.p)

    def _cubic(self, place: float) -> SX:
        """Integrated unknowns from those at the ends and their rates."""
        first, last = (_integrated(self.model, self.unknowns[i]) for i in (0, -1))
        f0, f1 = self._ends
        rest = 1 - place
        out = (1 + 2 * place) * rest**2 * first + (1 + 2 * rest) * place**2 * last
        return out + self.h * place * rest * (rest * f0 - place * f1)

    @property
    def inside(self) -> list[tuple[SX, float]]:
        """Unknowns between the nodes, and where."""
        out = []
        for j, place in enumerate(self.scheme.between):
            weights = _lagrange(self.scheme.places, place)
            x = sum((w * node for w, node in zip(weights, self.nodes, strict=True)), SX(0))
            x[self.model.integrated] = self._cubic(place)
            if self.sizes.numel():
                x[list(self.model.of_sizes)] = self.sizes[:, j]
            out.append((x, place))
        return out

    @property
    def gained(self) -> SX:
        """What the interval adds to the integrals: by Simpson's rule over its halves."""
        n, inside = self.model.sums.numel(), [self._rate(x, at) for x, at in self.inside]
        shares = zip(self.scheme.shares, self.rates + inside, strict=True)
        return self.h * sum((share * rate[-n:] for share, rate in shares), SX(0))

    @property
    def measured(self) -> SX:
        """What has absolute values, between the nodes, one column each."""
        common = self.model.common
        return ca.horzcat(*[self.model.measured(x, common, self._at(at), self.p) for x, at in self.inside])

    def kernel(self, what: str) -> Kernel:
        """Return "gained" or "measured" in numbers, given unknowns, what is common, sizes, the ends s and data."""
        arguments = [ca.vertcat(*self.unknowns), self.model.common, ca.vec(self.sizes), self.s, self.p]
        return Kernel(ca.Function(what, arguments, [ca.densify(ca.vec(getattr(self, what)))]), native=False)

    def local(self, parts: list[tuple[str, SX]], native: bool | None) -> Local:
        """Rows of an interval: the first part gives way along the constraints, which its end fulfils."""
        model, end, at = self.model, self.nodes[-1], self.s[1]
        word, step = parts[0]
        n = model.sums.numel()
        if self.sizes.numel():
            step = ca.vertcat(step[:-n], end[-n:] - self.nodes[0][-n:] - self.gained)
        step -= model.pull(end, model.common, at, self.p, model.slack)
        parts = [(word, step), *parts[1:]]
        names = [f"{word} of {model.names[i]}" for word, _ in parts for i in model.integrated]
        names += [*model.node.closed.names, *model.node.still.names]
        g, cost = [part for _, part in parts] + [model.gap(end, model.common, at, self.p)], SX(0)
        if self.scheme.compressed:
            cost, held = model.point(self.nodes[1], model.common, self._at(0.5), self.p)
            cost = 4 * self.h / 6 * cost
            g += [held, *[self.nodes[1][i] for i, _, _ in _states_inside(model)]]
        if self.sizes.numel():
            size, rest = ca.vertsplit(self.sizes, len(model.absolutes))
            g += [ca.vec(size + side * (self.measured - rest)) for side in (1, -1)]
        names += [name for name, _, _ in inequalities(self.scheme, model)]
        x = ca.vertcat(*self.unknowns, model.slack, ca.vec(self.sizes), model.common)
        return Local(x, ca.vertcat(self.s, self.p), cost, ca.vertcat(*g), names, native)


def inequalities(scheme: Scheme, model: PhaseModel) -> list[tuple[str, float, float]]:
    """Names and bounds of an interval's last rows, which need be no equations: a compressed middle's, and of sizes."""
    out: list[tuple[str, float, float]] = []
    if scheme.compressed:
        out += zip(model.point_names, model.point_low.tolist(), model.point_high.tolist(), strict=True)
        out += [(model.names[i], low, high) for i, low, high in _states_inside(model)]
    return out + [("size between nodes", 0.0, math.inf)] * sizes_inside(scheme, model)


def sizes_inside(scheme: Scheme, model: PhaseModel) -> int:
    """Count the parts of absolute values between the nodes of an interval, which integrals make necessary."""
    return len(model.of_sizes) * len(scheme.between) * bool(model.sums.numel())


def _lagrange(places: tuple[float, ...], at: float) -> list[float]:
    """Weights of the values at places in the polynomial through them."""
    return [float(np.prod([(at - b) / (a - b) for b in places if b != a])) for a in places]


def _integrated(model: PhaseModel, x: SX) -> SX:
    return x[model.integrated]


def _states_inside(model: PhaseModel) -> list[tuple[int, float, float]]:
    """Bounds of integrated unknowns, which in a compressed middle are rows: they are no unknowns there."""
    return [bound for bound in model.simple if bound[0] in model.integrated]
