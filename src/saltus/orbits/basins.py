"""Robustness of an orbit: sensitivity to Params, the largest push survived, sections through its basin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, UnknownName
from saltus.model.contents import unchanged
from saltus.model.symbols import flatten
from saltus.orbits.copies import AT_ONCE, Copies, batched
from saltus.orbits.orbit import Orbit
from saltus.orbits.stride import Crossing, Lost, Moment

STRIDES = 20
REGAINED = 1e-6  # m, rad, m/s, rad/s from the gait: so near it is regained
CLOSE = 1e-5  # the same in a batch, whose steps have errors of their own
SIZES = 16  # pushes that are tried at once
EXACT_RUNS = 200  # of a basin, at its edge


@unchanged
def sensitivities(orbit: Orbit, params: Sequence[str], of: str = "period") -> dict[str, float]:
    """How a number of the gait ("period", "speed", "time in ...") changes with Params while it stays a gait.

    Exact: the orbit's equations r(z, theta) = 0 give dz/dtheta = -r_z^-1 r_theta.
    """
    shooting = orbit.shooting.with_free(tuple(params), {of: 0.0})
    e = shooting.evaluate(orbit.evaluation.point)
    n = len(params)
    equations, wanted = e.jacobian[:-1], e.jacobian[-1]
    moves = -np.linalg.lstsq(equations[:, :-n], equations[:, -n:], rcond=1e-12)[0]
    return dict(zip(params, (wanted[:-n] @ moves + wanted[-n:]).tolist(), strict=True))


class Returns:
    """An orbit's return map for states that are anything but small perturbations."""

    def __init__(self, orbit: Orbit) -> None:
        self.orbit, self.shooting = orbit, orbit.shooting
        self.stride, self.theta = orbit.shooting.stride, orbit.evaluation.point.theta
        self.home = orbit.node
        self.last = orbit.crossings[-1].mark if orbit.shooting.events[0] is not None else None
        self.count = sum(c.mark == self.last for c in orbit.crossings)

    def pushed(self, change_q: Mapping[str, float], change_v: Mapping[str, float]) -> Moment:
        """Start of the gait with coordinates and velocities changed, then put onto the constraints of its domain."""
        m = self.orbit.system.mechanism
        q, v = self.home.q.copy(), self.home.v.copy()
        for name, value in flatten(change_q, m.q_names).items():
            q[m.q_names.index(name)] += value
        for name, value in flatten(change_v, m.v_names, "velocity").items():
            v[m.v_names.index(name)] += value
        return self.stride.settled(self.orbit.system.domains[self.home.domain], self.home.t, q, v, self.theta)

    def next(self, moment: Moment, theta: np.ndarray | None = None) -> Moment:
        """State one period later, brought back to the start of time where the machine does not depend on it."""
        theta = self.theta if theta is None else theta

        def back(crossings: list[Crossing]) -> bool:
            return sum(c.mark == self.last for c in crossings) == self.count

        if self.last is None:
            end = self.shooting.whole(moment, theta).end
        else:
            end = self.stride.run(moment, theta, stop=back).end
        end = self.shooting.relabel.moment(end)
        return replace(end, t=end.t - (self.shooting.period or 0.0) if self.shooting.sameness.timed else self.home.t)

    def distance(self, moment: Moment) -> float:
        """How far a state is from the gait's start, cyclic coordinates left out."""
        return float(np.linalg.norm(self.shooting.sameness.difference(moment, self.home)))

    def survives(self, moment: Moment, strides: int = STRIDES) -> tuple[int, bool]:
        """Strides it makes, and whether it ends nearer to the gait than it began."""
        first, at = self.distance(moment), moment
        for k in range(strides):
            try:
                at = self.next(at)
            except Lost:
                return k, False
            if self.distance(at) < REGAINED:
                return strides, True
        return strides, self.distance(at) < max(0.5 * first, REGAINED)

    def survive(
        self, moments: Sequence[Moment], strides: int = STRIDES, threads: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of many starts, as copies of a batch: strides, who regains the gait, and of whom that is in doubt.

        The gait's own start is one more copy: if that does not come back, batches are not right for this gait.
        """
        moments = [*moments, self.home]
        copies = Copies(self.orbit, moments, threads)
        first, regained = [self.distance(x) for x in moments], np.zeros(len(moments), bool)
        while copies.under_way.any():
            for k, at in copies.back().items():
                off, made = self.distance(at), copies.made[k]
                regained[k] = off < CLOSE or (made == strides and off < 0.5 * first[k])
                if regained[k] or made == strides:
                    copies.made[k] = strides
                    copies.stop([k])
        doubt = regained & copies.doubtful if regained[-1] else np.ones(len(moments), bool)
        return copies.made[:-1], regained[:-1], doubt[:-1]


@dataclass(frozen=True)
class Survival:
    """A task for sweeps: strides that an orbit makes from changed starts, and whether it is regained (1 or 0).

    Points are changes of coordinates ("z_U") and velocities ("v.z_U") at the start of the stride. All points of a call
    run side by side in a `sl.Batch` where the machine has feet; one that regains the gait by a motion that was one of
    several runs event-exactly, as all do otherwise, or with `exact`.
    """

    orbit: Orbit
    strides: int = STRIDES
    exact: bool = False
    threads: int = 1

    @property
    def at_once(self) -> int:
        """Points that a sweep shall give it at a time."""
        return AT_ONCE if batched(self.orbit) and not self.exact else 1

    def __call__(self, points: Mapping[str, np.ndarray], generators: Any = None) -> dict[str, np.ndarray]:
        """Strides, whether the gait was regained, and whether that was found event-exactly, one entry per point."""
        m = self.orbit.system.mechanism
        known = [*m.q_names, *(f"v.{n}" for n in m.v_names)]
        for name in points:
            if name not in known:
                raise UnknownName("coordinate", name, known)
        returns, count = Returns(self.orbit), len(next(iter(points.values())))
        starts = [returns.pushed(*_changes({n: float(v[i]) for n, v in points.items()})) for i in range(count)]
        made, regained, doubt = np.zeros(count, int), np.zeros(count, bool), np.ones(count, bool)
        if batched(self.orbit) and not self.exact:
            made, regained, doubt = returns.survive(starts, self.strides, self.threads)
        with ThreadPoolExecutor(self.threads) as pool:
            which = np.flatnonzero(doubt)
            for i, out in zip(which, pool.map(lambda i: returns.survives(starts[i], self.strides), which), strict=True):
                made[i], regained[i] = out
        return {"strides": made, "regained": regained, "exact": doubt}


def _changes(given: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Changes of places and of speeds."""
    speeds = {n[2:]: v for n, v in given.items() if n.startswith("v.")}
    return {n: v for n, v in given.items() if not n.startswith("v.")}, speeds


@dataclass(frozen=True)
class Push:
    """Largest push survived along a direction of velocities: `survived` and the smallest found to be `fatal`."""

    direction: dict[str, float]
    survived: float
    fatal: float


@unchanged
def largest_push(
    orbit: Orbit, direction: Mapping[str, float], *, most: float = 10.0, strides: int = STRIDES, tolerance: float = 1e-3
) -> Push:
    """Bisect for the largest push, a change of velocities at the start of the stride, that dies out.

    `direction` are velocities by name, as in {"boom.x": 1.0}; sizes are multiples of it. The answer is the end of
    the first stretch of survival, found to `tolerance`; beyond it some larger pushes may be survived again. Of a
    machine with feet, batches say where to look; both ends of the answer are event-exact in any case.
    """
    if not any(direction.values()):
        raise BadValue(
            "a push needs a direction: give velocities by name, as in {'boom.x': 1.0}", given=dict(direction)
        )
    returns, fine = Returns(orbit), tolerance * most / 10

    def pushed(size: float) -> Moment:
        return returns.pushed({}, {n: size * v for n, v in direction.items()})

    def lives(size: float) -> bool:
        return returns.survives(pushed(size), strides)[1]

    low, high = 0.0, most / 64
    if batched(orbit):
        sizes = [0.0, *(most / 2**k for k in range(6, -1, -1))]
        while True:
            _, regained, _ = returns.survive([pushed(size) for size in sizes[1:]], strides)
            end = int(np.argmin(regained)) if not regained.all() else len(regained) - 1
            low, high = sizes[end], sizes[end + 1]
            if regained.all() or high - low <= fine:
                break
            sizes = np.linspace(low, high, SIZES + 2).tolist()
    width = high - low
    while low > 0.0 and not lives(low):
        low, high, width = max(0.0, low - width), low, 2 * width
    while high < most and lives(high):
        low, high, width = high, min(most, high + width), 2 * width
    if high >= most and lives(most):
        return Push(dict(direction), most, np.inf)
    while high - low > fine:
        middle = (low + high) / 2
        low, high = (middle, high) if lives(middle) else (low, middle)
    return Push(dict(direction), low, high)


@dataclass(frozen=True, eq=False)
class Basin:
    """Section through the basin of an orbit: strides made and whether the gait was regained, over two changes.

    `exact` says which points were run event-exactly; of a machine with feet those at the edge of the basin, `left` how
    many of these were not, since they were more than asked for.
    """

    names: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    strides: np.ndarray  # one row a y
    regained: np.ndarray
    exact: np.ndarray
    left: int = 0


@unchanged
def basin(
    orbit: Orbit,
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    *,
    strides: int = STRIDES,
    threads: int = 2,
    exact_runs: int | None = EXACT_RUNS,
    sweep: Callable[[Survival, dict[str, np.ndarray]], Any] | None = None,
) -> Basin:
    """Run from changed starts: `x` and `y` are a coordinate ("z_U") or a velocity ("v.z_U") and changes to it.

    Of a machine with feet all starts run side by side in a batch, and those whose neighbour does otherwise again,
    event-exactly, until no such point is left or `exact_runs` (None: any number) were made, spread along the edge:
    each costs what some thirty copies of the batch do. `sweep` runs the starts elsewhere, as
    functools.partial(sl.sweep, store="basin", scheduler="tcp://HOST:PORT") does.
    """
    across, up = (np.asarray(values, float) for values in (x[1], y[1]))
    for name, values in ((x[0], across), (y[0], up)):
        if values.ndim != 1:
            raise BadValue(f"basin: changes of {name!r} are {values}; give a list of numbers", given=values)
    points = {x[0]: np.tile(across, len(up)), y[0]: np.repeat(up, len(across))}
    task = Survival(orbit, strides, threads=threads)
    found = task(points) if sweep is None else sweep(task, points)
    made, regained, exact = (
        np.array(found[name]).reshape(len(up), len(across)).astype(kind)
        for name, kind in (("strides", int), ("regained", bool), ("exact", bool))
    )
    again, room = replace(task, exact=True), exact.size if exact_runs is None else exact_runs
    while (edge := np.flatnonzero(_edge(regained) & ~exact)).size and room > 0:
        todo = edge[:: -(-edge.size // room)]
        room -= todo.size
        more = again({name: values[todo] for name, values in points.items()})
        made.flat[todo], regained.flat[todo], exact.flat[todo] = more["strides"], more["regained"], True
    return Basin((x[0], y[0]), across, up, made, regained, exact, int(edge.size))


def _edge(regained: np.ndarray) -> np.ndarray:
    """Points beside which the other happens."""
    out = np.zeros(regained.shape, bool)
    for a, b in ((np.s_[1:, :], np.s_[:-1, :]), (np.s_[:, 1:], np.s_[:, :-1])):
        other = regained[a] != regained[b]
        out[a] |= other
        out[b] |= other
    return out
