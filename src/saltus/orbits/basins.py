"""Robustness of an orbit: sensitivity to Params, the largest push survived, sections through its basin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from saltus.errors import BadValue, UnknownName
from saltus.model.contents import unchanged
from saltus.model.symbols import flatten
from saltus.orbits.orbit import Orbit
from saltus.orbits.stride import Crossing, Lost, Moment

STRIDES = 20


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
            if self.distance(at) < 1e-6:
                return strides, True
        return strides, self.distance(at) < max(0.5 * first, 1e-6)


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
    the first stretch of survival, found to `tolerance`; beyond it some larger pushes may be survived again.
    """
    if not any(direction.values()):
        raise BadValue(
            "a push needs a direction: give velocities by name, as in {'boom.x': 1.0}", given=dict(direction)
        )
    returns = Returns(orbit)

    def lives(size: float) -> bool:
        return returns.survives(returns.pushed({}, {n: size * v for n, v in direction.items()}), strides)[1]

    low, high = 0.0, most / 64
    while high < most and lives(high):
        low, high = high, 2 * high
    if high >= most and lives(most):
        return Push(dict(direction), most, np.inf)
    high = min(high, most)
    while high - low > tolerance * most / 10:
        middle = (low + high) / 2
        low, high = (middle, high) if lives(middle) else (low, middle)
    return Push(dict(direction), low, high)


@dataclass(frozen=True, eq=False)
class Basin:
    """Section through the basin of an orbit: strides made and whether the gait was regained, over two changes."""

    names: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    strides: np.ndarray  # one row a y
    regained: np.ndarray


@unchanged
def basin(
    orbit: Orbit,
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    *,
    strides: int = STRIDES,
    threads: int = 2,
) -> Basin:
    """Run from changed starts: `x` and `y` are a coordinate ("z_U") or a velocity ("v.z_U") and changes to it."""
    returns = Returns(orbit)
    m = orbit.system.mechanism
    for name, _ in (x, y):
        if name.removeprefix("v.") not in (m.v_names if name.startswith("v.") else m.q_names):
            raise UnknownName("coordinate", name, [*m.q_names, *(f"v.{n}" for n in m.v_names)])

    def run(pair: tuple[float, float]) -> tuple[int, bool]:
        given = {x[0]: pair[0], y[0]: pair[1]}
        places = {n: v for n, v in given.items() if not n.startswith("v.")}
        speeds = {n[2:]: v for n, v in given.items() if n.startswith("v.")}
        return returns.survives(returns.pushed(places, speeds), strides)

    pairs = [(float(a), float(b)) for b in y[1] for a in x[1]]
    results = [run(pairs[0])]  # compiles what there is to compile
    with ThreadPoolExecutor(threads) as pool:
        results += list(pool.map(run, pairs[1:]))
    shape = (len(y[1]), len(x[1]))
    made = np.array([r[0] for r in results]).reshape(shape)
    return Basin(
        (x[0], y[0]),
        np.asarray(x[1], float),
        np.asarray(y[1], float),
        made,
        np.array([r[1] for r in results]).reshape(shape),
    )
