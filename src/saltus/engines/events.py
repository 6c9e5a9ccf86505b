"""Events inside a step: where a guard first crosses zero on the step's own polynomial."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from saltus.compile import Kernel
from saltus.engines.port import FAR, TIE, Array, Flow, Mask, Request

NODES = np.linspace(0, 1, 9)  # of a step, at which guards and their slopes are looked at first
PROBES = 400  # further looks at one guard in one step
_EPSILON = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)


def guards_with_rates(flow: Flow) -> ca.Function:
    """(t, x, p, xdot) -> (g, dg/dt): the slopes tell a graze from a near miss inside a step."""
    guards = flow.guards
    symbol: Any = ca.SX if guards.is_a("SXFunction") else ca.MX
    t, x, p = (symbol.sym(name, *guards.size_in(i)) for i, name in enumerate(("t", "x", "p")))
    xdot = symbol.sym("xdot", flow.n)
    value = guards.call([t, x, p], True, False)[0]
    rate = ca.jtimes(value, t, symbol(1)) + ca.jtimes(value, x, xdot)
    return ca.Function("saltus_guards", [t, x, p, xdot], [ca.densify(value), ca.densify(rate)])


@dataclass(frozen=True)
class _Point:
    """One guard at one instant of the step; the slope is by s."""

    s: float
    g: float
    slope: float


_Probe = Callable[[float], _Point]


class Watch:
    """The guards of one run: which are armed, and the first that fires in each step."""

    def __init__(self, kernel: Kernel, request: Request) -> None:
        self._kernel, self._request, self._p = kernel, request, request.p.copy()
        self.left: list[int] = []  # guards with a shifted surface that left it
        g, _ = self._look(np.array([request.t]), request.x[None], np.zeros((1, len(request.x))))
        self.armed: Mask = request.armed | away(g[0], request)

    @np.errstate(invalid="ignore")  # a guard at its pole is infinite, and so are its slopes
    def first(self, t: float, h: float, piece: Array) -> tuple[float, tuple[int, ...]] | None:
        """The first event of the step x(t + s h) = sum_j piece[j] s**j: its s, and the guards that fire there.

        None if there is none. Guards that leave their surface before the event arm themselves.
        """
        count = len(self.armed)
        if not count:
            return None

        def along(s: Array) -> tuple[Array, Array]:
            powers = s[:, None] ** np.arange(len(piece))
            slopes = powers[:, :-1] * np.arange(1, len(piece))
            g, rate = self._look(t + s * h, powers @ piece, slopes @ piece[1:] / h)
            return g, rate * h

        values, slopes = along(NODES)

        def probing(i: int) -> tuple[list[_Point], _Probe]:
            def probe(s: float) -> _Point:
                g, slope = along(np.array([s]))
                return _Point(s, float(g[0, i]), float(slope[0, i]))

            return [_Point(*map(float, at)) for at in zip(NODES, values[:, i], slopes[:, i], strict=True)], probe

        for i in np.flatnonzero(self._p[self._request.shift]).tolist():
            values[:, i] += self._released(i, *probing(i))
        armed_at = np.where(self.armed, 0.0, np.inf)
        roots = np.full(count, np.inf)
        for i in np.flatnonzero(~self._clear(values, slopes)).tolist():
            roots[i], armed_at[i] = self._scan(i, *probing(i), armed_at[i])
        s = float(roots.min())
        if s == np.inf:
            self.armed = (armed_at <= 1) | away(values[-1], self._request)
            return None
        window = TIE * max(1.0, abs(t + s * h)) / h
        (before, here, after), _ = along(np.array([s - window, s, s + window]))
        self.armed = (armed_at <= s) | away(here, self._request)
        fired = (armed_at <= s) & crosses(before, after, self._request.directions)
        fired |= roots <= s + window
        change = np.where(after == before, 1.0, after - before)
        return s, tuple(sorted(np.flatnonzero(fired).tolist(), key=lambda i: (-before[i] / change[i], i)))

    def _released(self, i: int, points: Sequence[_Point], probe: _Probe) -> float:
        """Move the surface of a guard that has left it back; by how much. Before, it fires beyond the shifted one."""
        place, side, search = self._request.shift.start + i, -int(self._request.directions[i]), _Search(probe)
        shift = float(self._p[place])
        level = min(abs(shift), FAR) - side * shift
        for a, b in itertools.pairwise(points):
            left, further = search.first_beyond(a, b, side, level), search.first_beyond(a, b, -side, _TINY)
            if left is not None and (further is None or left[1].s < further[1].s):
                self._p[place], self.armed[i] = 0.0, False
                self.left.append(i)
                return shift
            if further is not None:
                return 0.0
        return 0.0

    def _look(self, t: Array, x: Array, xdot: Array) -> tuple[Array, Array]:
        g, rate = self._kernel.batch(t, x, self._p, xdot)
        return np.asarray(g), np.asarray(rate)

    def _clear(self, values: Array, slopes: Array) -> Mask:
        """Guards that keep to one side all along.

        Between nodes a guard is taken for the cubic with its values and slopes, which stays within the hull of its
        Bezier points.
        """
        third = np.diff(NODES)[:, None] / 3
        hull = np.concatenate([values, values[:-1] + third * slopes[:-1], values[1:] - third * slopes[1:]])
        above, below = (hull > 0).all(axis=0), (hull < 0).all(axis=0)
        beyond = np.where(self._request.directions > 0, above, below & (self._request.directions < 0))
        return np.where(self.armed, above | below, beyond)

    def _scan(self, i: int, points: Sequence[_Point], probe: _Probe, armed_at: float) -> tuple[float, float]:
        """The first root of guard i, and when it armed itself (infinity: never)."""
        direction = int(self._request.directions[i])
        level = max(0.0 if armed_at == 0 else self._request.arm_tol, _TINY)
        search = _Search(probe)
        ready = False
        for a, b in itertools.pairwise(points):
            start = a
            if not ready:  # it must first be on the side it fires from
                sides = (-direction,) if direction else (-1, 1)
                away_at = [p for side in sides if (p := search.first_beyond(a, b, side, level)) is not None]
                if not away_at:
                    continue
                start = min((above for _, above in away_at), key=lambda point: point.s)
                ready, armed_at = True, min(armed_at, start.s)
                direction = direction or (-1 if start.g > 0 else 1)
            found = search.first_beyond(start, b, direction, 0.0)
            if found is not None:
                return search.root(*found, direction), armed_at
        return np.inf, armed_at


class _Search:
    """Looks for the first time at which side * g reaches a level, between two points of a step."""

    def __init__(self, probe: _Probe) -> None:
        self._probe, self._left = probe, PROBES

    def first_beyond(self, a: _Point, b: _Point, side: int, level: float) -> tuple[_Point, _Point] | None:
        """Neighbouring points before and at or beyond the level; None if it is not reached.

        Halves the interval for as long as the hull of the cubic through both ends reaches the level.
        """
        if side * a.g >= level:
            return a, a
        if side * b.g >= level:
            return a, b
        third = (b.s - a.s) / 3
        highest = max(side * (a.g + third * a.slope), side * (b.g - third * b.slope))
        if not highest >= level or b.s - a.s <= 4 * _EPSILON or self._left <= 0:
            return None
        self._left -= 1
        middle = self._probe((a.s + b.s) / 2)
        found = self.first_beyond(a, middle, side, level)
        return found if found is not None else self.first_beyond(middle, b, side, level)

    def root(self, a: _Point, b: _Point, side: int) -> float:
        """The crossing between a (side * g < 0) and b: Newton's method kept in its bracket, so a jump is found too."""
        s, before = 0.5 * (a.s + b.s), b.s - a.s
        for _ in range(100):
            if b.g == 0 or before <= _EPSILON * s:
                break
            m = self._probe(s)
            if side * m.g >= 0:
                b = m
            else:
                a = m
            following = s - m.g / m.slope if m.slope else np.inf
            if not (a.s < following < b.s and abs(following - s) < 0.5 * before):
                following = 0.5 * (a.s + b.s)
            before, s = abs(following - s), following
        return b.s if b.g == 0 else s


def crosses(before: Array, after: Array, directions: NDArray[np.int32]) -> Mask:
    """Which guards go through zero between two values, in their direction."""
    rising = (before < 0) & (after >= 0) & (directions >= 0)
    falling = (before > 0) & (after <= 0) & (directions <= 0)
    return rising | falling


def away(g: Array, request: Request) -> Mask:
    """Which guards are far enough on the side they fire from to be armed."""
    return np.where(request.directions == 0, np.abs(g), -request.directions * g) > request.arm_tol
