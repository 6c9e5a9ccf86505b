"""Cycle: a linkage over its whole turn as expressions, in which objectives and constraints are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np

from saltus.design.turn import Turn
from saltus.dynamics.equations import Equations, number
from saltus.errors import BadModel, BadValue, UnknownName
from saltus.model.contents import unchanged
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Named
from saltus.once import cached_property

MX = ca.MX


class Cycle:
    """What an objective sees: rows over the samples of the turn (MX, one column per sample), Params, and reductions.

    Numbers follow from expressions by CasADi's arithmetic. For an absolute value or a largest value use
    `absolute` and `largest`: in the optimiser they become a variable with bounds of its own, so that it never meets
    a kink. They may be minimised or bounded from above, not rewarded.
    """

    def __init__(self, turn: Turn, Q: MX, p: MX, *, smooth: bool = False) -> None:
        self.turn, self.Q, self._p, self._smooth = turn, Q, p, smooth
        self.slack: list[MX] = []
        self.bounded: list[MX] = []  # each must not exceed zero

    # ---- the machine --------------------------------------------------------------------------------------------

    @property
    def p(self) -> Named:
        """Params by name."""
        names = list(self.turn.mechanism.params)
        return Named(names, [self._p[i] for i in range(len(names))], "param")

    @property
    def driver(self) -> np.ndarray:
        """Values of the driver at the samples (rad or m)."""
        return self.turn.values

    def each(self, expression: SX) -> MX:
        """Any expression of the machine's coordinates and Params at every sample, one column each."""
        return self.turn.mapped("each", SX(expression))(self.Q, self._p)

    def coordinate(self, name: str) -> MX:
        """A coordinate over the turn (rad or m)."""
        names = self.turn.mechanism.q_names
        if name not in names:
            raise UnknownName("coordinate", name, names)
        return self.Q[names.index(name), :]

    def position(self, point: Frame | str) -> MX:
        """World position of a point (m), one column per sample."""
        return self.each(self.turn.mechanism.position(point))

    def velocity(self, point: Frame | str, speed: float = 1.0) -> MX:
        """Velocity of a point (m/s) at a steady speed of the driver."""
        return speed * self.each(self.turn.along(self.turn.mechanism.position(point)))

    def acceleration(self, point: Frame | str, speed: float = 1.0) -> MX:
        """Acceleration of a point (m/s2) at a steady speed of the driver."""
        along = self.turn.along
        return speed**2 * self.each(along(along(self.turn.mechanism.position(point))))

    def transmission(self) -> MX:
        """Sine of the transmission angle, one row per loop: positive on the branch, zero at a dead centre."""
        return self.each(self.turn.transmission)

    def distance(self, a: Frame | str, b: Frame | str, c: Frame | str | None = None) -> MX:
        """Distance (m) of point a from point b, or from the straight link between b and c."""
        m = self.turn.mechanism
        at, begin = m.position(a), m.position(b)
        if c is None:
            return self.each(ca.norm_2(at - begin))
        along = m.position(c) - begin
        share = ca.fmax(0, ca.fmin(1, ca.dot(at - begin, along) / ca.dot(along, along)))
        return self.each(ca.norm_2(at - begin - share * along))

    def at(self, row: MX, value: float) -> MX:
        """A row (or rows) at one value of the driver, which must be a sample."""
        return row[:, self.turn.index_of(value)]

    def attack(self, point: Frame | str, pivot: Frame | str) -> MX:
        """Angle (rad) of the line from a pivot down to a point, against the vertical, positive with the point ahead."""
        apart = self.position(point) - self.position(pivot)
        return ca.atan2(apart[0, :], -apart[-1, :])

    # ---- forces -------------------------------------------------------------------------------------------------

    @cached_property
    def _efforts(self) -> tuple[SX, SX]:
        """Effort of the driver and of each loop equation, for a driver at a speed that is the last symbol."""
        turn, m = self.turn, self.turn.mechanism
        moved = [c for i, c in enumerate(m.q_names) if i in turn.held]
        if moved:
            raise BadModel(f"forces over a turn need a fixed base; {', '.join(moved)} of {m.name!r} are free")
        e = Equations(m)
        speed = SX.sym("speed")
        v, a = speed * turn.rate, speed**2 * turn.along(turn.rate)
        known = ca.vertcat(e.v, e.a)
        inverse = ca.substitute(e.inverse_dynamics, known, ca.densify(ca.vertcat(v, a)))
        applied = ca.substitute(ca.substitute(e.Q, e.u, SX.zeros(e.u.numel())), e.v, ca.densify(v))
        need = ca.substitute(inverse - applied, e.t, SX(0))
        reactions = turn._factored.solve_transposed(need[turn.columns])
        effort = need[turn.index] - ca.dot(turn.J[:, turn.index], reactions)
        return ca.vertcat(effort, reactions), speed

    def _forces(self, speed: float) -> MX:
        forces, symbol = self._efforts
        return self.each(ca.substitute(forces, symbol, SX(float(speed))))

    def torque(self, speed: float) -> MX:
        """Effort of the driver (Nm or N) that keeps it at a steady speed against inertia, gravity and springs."""
        return self._forces(speed)[0, :]

    def reactions(self, speed: float) -> MX:
        """Size of the force (N) in every pin that closes a loop, one row each, at a steady speed."""
        forces, owner = self._forces(speed)[1:, :], [self.turn.assembler.owner[r] for r in self.turn.rows]
        rows = [
            ca.sqrt(ca.sum1(forces[[i for i, o in enumerate(owner) if o == name], :] ** 2) + 1e-18)
            for name in dict.fromkeys(owner)
        ]
        return ca.vertcat(*rows)

    def mass(self) -> MX:
        """Mass of all links (kg)."""
        m = self.turn.mechanism
        total = sum((number(link.mass) for link in m.links.values()), SX(0))
        return ca.Function("mass", [m.p], [total])(self._p)

    # ---- reductions ---------------------------------------------------------------------------------------------

    def absolute(self, value: MX) -> MX:
        """|value| of a scalar, for what is minimised or bounded from above."""
        return self.largest(ca.vertcat(value, -value))

    def largest(self, values: MX) -> MX:
        """Largest entry, for what is minimised or bounded from above."""
        if not self._smooth:
            return ca.mmax(values)
        top = MX.sym(f"top_{len(self.slack)}")
        self.slack.append(top)
        self.bounded.append(ca.vec(values) - top)
        return top

    def smallest(self, values: MX) -> MX:
        """Smallest entry, for what is maximised or bounded from below."""
        return -self.largest(-values)


def scalar(name: str, value: Any) -> MX:
    """Return a value as one number, or say that it is none."""
    value = MX(value)
    if value.numel() != 1:
        raise BadValue(f"{name!r} is an array of shape {value.shape}; what is minimised is one number", name=name)
    return value


# ---- ready parts of objectives ---------------------------------------------------------------------------------------


class Part(ABC):
    """Part of an objective: a function of a Cycle that can be weighted and added."""

    @abstractmethod
    def __call__(self, cycle: Cycle) -> MX:
        """Return the value."""

    def __add__(self, other: Part) -> Part:
        return _Combined(((1.0, self), (1.0, other)))

    def __mul__(self, weight: float) -> Part:
        return _Combined(((float(weight), self),))

    __rmul__ = __mul__


class _Combined(Part):
    def __init__(self, terms: Sequence[tuple[float, Part]]) -> None:
        self.terms = terms

    def __call__(self, cycle: Cycle) -> MX:
        return sum((w * part(cycle) for w, part in self.terms), MX(0))


class PathError(Part):
    """Sum of squared distances (m2) of a point from a target path.

    With `timing` the target has one row per sample of the turn: where the point shall be then; `samples` names those
    that count if not all do. Without timing each target point counts by its distance from the path drawn, wherever
    the driver is.
    """

    def __init__(self, point: str, target: Any, *, timing: bool = True, samples: Sequence[int] | None = None) -> None:
        self.point, self.timing, self.samples = point, timing, samples
        self.target = np.asarray(target, float)
        if self.target.ndim != 2 or self.target.shape[1] not in (2, 3) or not np.isfinite(self.target).all():
            raise BadValue(f"target path has shape {self.target.shape}; give rows of finite (x, y) in metres")

    def __call__(self, cycle: Cycle) -> MX:
        """Return the sum."""
        return ca.sum2(self.squares(cycle))

    def squares(self, cycle: Cycle) -> MX:
        """Squared distance of every target point, as a row."""
        path = cycle.position(self.point)
        if self.timing:
            if self.samples is not None:
                path = path[:, list(self.samples)]
            if path.shape[1] != len(self.target):
                raise BadValue(
                    f"target path has {len(self.target)} points and the turn {path.shape[1]} samples; with timing they "
                    "belong together one by one. Use sl.design.target_path to sample a curve, or timing=False"
                )
            return ca.sum1((path - self.target.T) ** 2)
        begin = path
        end = ca.horzcat(path[:, 1:], path[:, 0]) if cycle.turn.closed else path[:, 1:]
        begin = begin[:, : end.shape[1]]
        along = end - begin
        length = ca.sum1(along**2) + 1e-18
        out = []
        for point in self.target:
            away = ca.repmat(ca.DM(point), 1, end.shape[1]) - begin
            share = ca.fmax(0, ca.fmin(1, ca.sum1(away * along) / length))
            out.append(ca.mmin(ca.sum1((away - ca.repmat(share, len(point), 1) * along) ** 2)))
        return ca.horzcat(*out)


class AngleOfAttack(Part):
    """|angle| (rad) of the line from a pivot to a point against the vertical, at one value of the driver (rad)."""

    def __init__(self, point: str, pivot: str, at: float) -> None:
        self.point, self.pivot, self.value = point, pivot, at

    def __call__(self, cycle: Cycle) -> MX:
        """Return the angle."""
        return cycle.absolute(cycle.at(cycle.attack(self.point, self.pivot), self.value))


class StrideLength(Part):
    """How far a point comes along x (m): give it a negative weight to make strides long."""

    def __init__(self, point: str) -> None:
        self.point = point

    def __call__(self, cycle: Cycle) -> MX:
        """Return the length."""
        x = cycle.position(self.point)[0, :]
        return ca.mmax(x) - ca.mmin(x)


class TorqueRipple(Part):
    """Root mean square (Nm) of the driver's torque about its mean, at a steady `speed` (rad/s)."""

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def __call__(self, cycle: Cycle) -> MX:
        """Return the ripple."""
        torque = cycle.torque(self.speed)
        mean = ca.sum2(torque) / torque.shape[1]
        return ca.sqrt(ca.sum2((torque - mean) ** 2) / torque.shape[1] + 1e-18)


class PeakReaction(Part):
    """Largest force (N) in any pin that closes a loop, at a steady `speed` (rad/s)."""

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def __call__(self, cycle: Cycle) -> MX:
        """Return the peak."""
        return cycle.largest(ca.vec(cycle.reactions(self.speed)))


class Mass(Part):
    """Mass of the machine (kg)."""

    def __call__(self, cycle: Cycle) -> MX:
        """Return the mass."""
        return cycle.mass()


@unchanged
def target_path(turn: Turn, points: Any, *, closed: bool = True) -> np.ndarray:
    """Sample a target curve at the samples of a turn: a cubic spline through points, or through a CSV file's.

    `points` are rows (x, y) evenly spaced over the turn, rows (driver, x, y), or the name of a CSV file with either.
    """
    from scipy.interpolate import CubicSpline

    if isinstance(points, str) or hasattr(points, "read_text"):
        with open(points, encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
        try:
            float(lines[0].split(",")[0])
        except ValueError:
            lines = lines[1:]  # a header
        try:
            points = [[float(x) for x in line.split(",")] for line in lines]
        except ValueError as problem:
            raise BadValue(f"{points}: {problem}; give rows x,y or driver,x,y with a header line or none") from None
    rows = np.asarray(points, float)
    dimension = 3 if turn.mechanism.spatial else 2
    if (
        rows.ndim != 2
        or rows.shape[1] not in (dimension, dimension + 1)
        or len(rows) < 4
        or not np.isfinite(rows).all()
    ):
        raise BadValue(f"target path has shape {rows.shape}; give four or more finite rows (x, y) or (driver, x, y)")
    first, last = float(turn.values[0]), float(turn.values[-1])
    span = 2 * np.pi if turn.closed else last - first
    if rows.shape[1] == dimension:
        steps = np.arange(len(rows)) / (len(rows) if closed else len(rows) - 1)
        rows = np.column_stack([first + span * steps, rows])
    at = rows[:, 0] if not closed else first + (rows[:, 0] - first) % span
    order = np.argsort(at)
    at, xy = at[order], rows[order, 1:]
    if (np.diff(at) <= 0).any():
        raise BadValue("target path: two points at the same value of the driver; give each once")
    if closed:
        at, xy = np.append(at, at[0] + span), np.vstack([xy, xy[:1]])
        curve = CubicSpline(at, xy, bc_type="periodic")
        return np.asarray(curve(at[0] + (turn.values - at[0]) % span))
    return np.asarray(CubicSpline(at, xy)(turn.values))
