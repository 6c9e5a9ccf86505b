"""Kinematic study: where a point of a driven linkage goes, how fast, how well it transmits, on every branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.design.turn import Turn
from saltus.errors import BadValue, Singular, UnknownName
from saltus.model.assembly import State
from saltus.model.contents import unchanged
from saltus.model.symbols import SX
from saltus.model.travel import Travel
from saltus.once import cached_property

MARGIN = 1e-6  # share of its travel by which a driver stays off a dead centre


@dataclass(frozen=True)
class Quantity:
    """A number of a study with its exact derivatives with respect to every Param; `at` is the driver's value there."""

    name: str
    value: float
    unit: str
    by_param: Mapping[str, float]
    at: float | None = None


@dataclass(frozen=True, eq=False)
class KinematicStudy:
    """A point of a linkage over the driver's turn. Rows are samples; velocities are for the driver at `speed`.

    `transmission` are angles (rad, 0 to pi/2), one column per loop of `turn.loops`. `advantage` is the force (N) at
    the point, along its path, that 1 Nm (or 1 N) at the driver holds. `travel` says how far the driver goes: its
    limits are the dead centres. `toggles` are the driver's values at which another coordinate turns back: the dead
    centres of the linkage when it is driven from there.
    """

    turn: Turn
    point: str
    speed: float
    travel: Travel
    q: np.ndarray
    path: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    transmission: np.ndarray
    advantage: np.ndarray
    toggles: Mapping[str, list[float]]
    pivot: str | None = None
    attack_at: float | None = None

    @property
    def driver(self) -> np.ndarray:
        """Values of the driver (rad or m)."""
        return self.turn.values

    @property
    def dead_centres(self) -> list[float]:
        """Values of the driver at which it can go no further; none if it turns fully."""
        return [] if self.travel.full_turn else [x for x in (self.travel.low, self.travel.high) if np.isfinite(x)]

    def __getitem__(self, name: str) -> Quantity:
        if name not in self.quantities:
            raise UnknownName("quantity", name, self.quantities)
        return self.quantities[name]

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """Stride length and height, least transmission angle, area inside the path, angle of attack, by name."""
        turn, world = self.turn, self.turn.mechanism.position(self.point)
        found = {}
        for name, axis in (("stride_length", 0), ("stride_height", world.numel() - 1)):
            high, low = self._extreme(world[axis], 1), self._extreme(world[axis], -1)
            found[name] = Quantity(name, high[0] - low[0], "m", _named(turn, high[1] - low[1]))
        least = [(i, *self._extreme(turn.transmission[i], -1)) for i in range(len(turn.loops))]
        _, sine, slope, at = min(least, key=lambda e: e[1])
        angle = float(np.arcsin(min(sine, 1.0)))
        found["least_transmission"] = Quantity(
            "least_transmission", angle, "rad", _named(turn, slope / max(np.cos(angle), 1e-12)), at
        )
        if turn.closed and world.numel() == 2:
            found["swept_area"] = self._area(world)
        if self.pivot is not None and self.attack_at is not None:
            apart = world - turn.mechanism.position(self.pivot)
            value, slope = self._at(ca.atan2(apart[0], -apart[-1]), self.attack_at)
            found["angle_of_attack"] = Quantity("angle_of_attack", value, "rad", _named(turn, slope), self.attack_at)
        return found

    def _area(self, world: SX) -> Quantity:
        """Area (m2) inside the path: 1/2 of the integral of x dy - y dx, by the trapezoidal rule, which is exact to
        round-off for a smooth closed path."""
        turn = self.turn
        slope = turn.along(world)
        cross = world[0] * slope[1] - world[1] * slope[0]
        values, slopes = self._over(cross)
        step = 2 * np.pi / turn.samples / 2
        sign = 1.0 if values.sum() > 0 else -1.0
        return Quantity(
            "swept_area", sign * step * float(values.sum()), "m2", _named(turn, sign * step * slopes.sum(axis=0))
        )

    def _over(self, expression: SX) -> tuple[np.ndarray, np.ndarray]:
        """Values of a scalar at the samples, and its derivatives with respect to all Params."""
        turn = self.turn
        outputs = ca.cse([ca.densify(expression), ca.densify(turn.gradient(expression))])
        kernel = Kernel(ca.Function("over", [turn.q, turn.p], outputs), native=False)
        values, slopes = kernel.batch(self.q, turn.start.p)
        return values.ravel(), slopes.reshape(len(self.q), -1)

    def _at(self, expression: SX, driver: float) -> tuple[float, np.ndarray]:
        turn = self.turn
        near = int(np.abs(turn.values - driver).argmin())
        state = replace(turn.start, positions=self.q[near])
        target = (
            driver
            if not turn.closed
            else float(turn.values[near]) + (driver - turn.values[near] + np.pi) % (2 * np.pi) - np.pi
        )
        q = state.follow(turn.driver, [target])[0]
        f = ca.Function("at", [turn.q, turn.p], [expression, turn.gradient(expression)])
        value, slope = f(q, turn.start.p)
        return float(value), np.asarray(slope).ravel()

    def _extreme(self, expression: SX, sign: int) -> tuple[float, np.ndarray, float]:
        """Largest (sign 1) or smallest value on the turn, its derivatives, and where; Newton between the samples.

        At an extreme the driver's share of the derivative vanishes, so that at a fixed driver is the whole.
        """
        turn = self.turn
        first = turn.along(expression)
        f = ca.Function(
            "extreme", [turn.q, turn.p], ca.cse([expression, first, turn.along(first), turn.gradient(expression)])
        )
        values = np.asarray(f.map(len(self.q))(self.q.T, ca.repmat(ca.DM(turn.start.p), 1, len(self.q)))[0]).ravel()
        best = int((sign * values).argmax())
        q, spacing = self.q[best], abs(turn.values[1] - turn.values[0])
        at = float(turn.values[best])
        for _ in range(8):
            value, slope, curve, by_p = (np.asarray(x).ravel() for x in f(q, turn.start.p))
            step = -slope[0] / curve[0] if sign * curve[0] < 0 else 0.0
            inside = turn.closed or turn.values[0] <= at + step <= turn.values[-1]
            if abs(step) > 2 * spacing or not inside or abs(step) < 1e-14:
                break
            at += step
            q = replace(turn.start, positions=q).follow(turn.driver, [at])[0]
        return float(value[0]), by_p, at

    def derivatives(self) -> dict[str, np.ndarray]:
        """Exact derivatives of the whole path: name of a Param to (samples, dimensions), in m per its unit."""
        turn = self.turn
        world = turn.mechanism.position(self.point)
        f = ca.Function("path", [turn.q, turn.p], [ca.densify(turn.gradient(world))])
        slopes = Kernel(f, native=False).batch(self.q, turn.start.p)
        return {name: np.asarray(slopes)[:, :, i] for i, name in enumerate(turn.mechanism.params)}

    def branches(self) -> list[KinematicStudy]:
        """The same study on every way of closing the linkage at the first sample, this one included."""
        turn = self.turn
        m, names = turn.mechanism, turn.mechanism.q_names
        held = {names[i]: x for i, x in turn.held.items()}
        out = []
        for state in m.branches(
            params=turn.start.params, **held, **{turn.driver: float(turn.start.positions[turn.index])}
        ):
            try:
                out.append(
                    kinematic_study(
                        state,
                        turn.driver,
                        self.point,
                        samples=turn.samples,
                        speed=self.speed,
                        pivot=self.pivot,
                        attack_at=self.attack_at,
                    )
                )
            except Singular:
                continue
        return out


@unchanged
def kinematic_study(
    start: State,
    driver: str,
    point: str,
    *,
    samples: int = 360,
    speed: float = 1.0,
    pivot: str | None = None,
    attack_at: float | None = None,
) -> KinematicStudy:
    """Study a point of a linkage while `driver` turns, on the branch of `start`.

    A driver that cannot turn fully goes from one dead centre to the other. With a `pivot` and `attack_at` (rad) the
    angle of attack is that of the line from pivot to point against the vertical, at that value of the driver.
    """
    m = start.mechanism
    m.frame(point)
    if (pivot is None) != (attack_at is None):
        raise BadValue("the angle of attack needs both `pivot` and `attack_at`, the driver's value at touchdown")
    travel = start.travel(driver)
    between = None
    if not travel.full_turn:
        span = travel.high - travel.low
        if not np.isfinite(span):
            raise BadValue(f"{driver} has no limit on a side; give a driver that turns or stops", given=str(travel))
        between = (travel.low + MARGIN * span, travel.high - MARGIN * span)
    turn = Turn(start, driver, samples, between=between)
    walked = turn.walk(turn.params())
    assert walked.q is not None
    if not walked.assembles[0]:
        raise Singular(f"{m.name!r} passes too near a dead centre to be followed with {samples} samples; take more")
    q = walked.q[0]
    world = m.position(point)
    first = turn.along(world)
    outputs = ca.cse([ca.densify(e) for e in (world, first, turn.along(first), turn.transmission, turn.rate)])
    kernel = Kernel(ca.Function("study", [turn.q, turn.p], outputs), native=False)
    path, slope, curve, sine, rate = kernel.batch(q, start.p)
    length = np.linalg.norm(slope, axis=1)
    with np.errstate(divide="ignore"):
        advantage = 1 / length
    return KinematicStudy(
        turn,
        point,
        speed,
        travel,
        q,
        path,
        speed * slope,
        speed**2 * curve,
        np.arcsin(np.clip(sine.reshape(len(q), -1), -1, 1)),
        advantage,
        _toggles(turn, rate),
        pivot,
        attack_at,
    )


def _toggles(turn: Turn, rate: np.ndarray) -> dict[str, list[float]]:
    """Where the rate of a dependent coordinate changes its sign, by linear interpolation between samples."""
    out = {}
    for c in turn.columns:
        r = rate[:, c]
        ahead = np.append(r[1:], r[0]) if turn.closed else r[1:]
        here = r[: len(ahead)]
        flips = np.flatnonzero(here * ahead < 0)
        step = turn.values[1] - turn.values[0]
        out[turn.mechanism.q_names[c]] = [float(turn.values[i] + step * here[i] / (here[i] - ahead[i])) for i in flips]
    return {name: values for name, values in out.items() if values}


def _named(turn: Turn, slope: np.ndarray) -> dict[str, float]:
    return dict(zip(turn.mechanism.params, map(float, slope), strict=True))
