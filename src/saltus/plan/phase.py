"""Phases of a plan and their ends: the quantities that its conditions are made of."""

from __future__ import annotations

import math
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel, BadValue, UnknownName
from saltus.ground import Ground
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.contacts import same_point
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Named, number
from saltus.model.touching import Foot, Stop
from saltus.plan.conditions import Condition
from saltus.plan.touching import Touches


class Instant:
    """The machine at the start or the end of a phase: `plan.end.q.hip`, `plan.end.position("foot").x`.

    Comparisons give conditions for `plan.require`: `plan.start == state` fixes every position and velocity.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, stage: Constrained, label: str) -> None:
        m = self.mechanism = stage.system.mechanism
        self.stage, self.label = stage, label
        self.symbols = {
            "t": SX.sym(f"{label}.t"),
            "q": ca.vertcat(SX(0, 1), *[SX.sym(f"{label}.q.{n}") for n in m.q_names]),
            "v": ca.vertcat(SX(0, 1), *[SX.sym(f"{label}.v.{n}") for n in m.v_names]),
            "u": ca.vertcat(SX(0, 1), *[SX.sym(f"{label}.u.{n}") for n in m.inputs]),
        }

    @property
    def t(self) -> SX:
        """Time (s)."""
        return self.symbols["t"]

    @property
    def q(self) -> Named:
        """Positions by name."""
        return Named(self.mechanism.q_names, self.symbols["q"])

    @property
    def v(self) -> Named:
        """Velocities by name."""
        return Named(self.mechanism.v_names, self.symbols["v"], "velocity")

    @property
    def u(self) -> Named:
        """Inputs by name."""
        return Named(list(self.mechanism.inputs), self.symbols["u"], "input")

    def of(self, expression: SX) -> SX:
        """Value here of an expression of the mechanism's own symbols, with the domain's Params."""
        m = self.mechanism
        symbols = [m.time, ca.vertcat(SX(0, 1), *m.q), ca.vertcat(SX(0, 1), *m.v), inputs_of(m)]
        here = [self.symbols[k] for k in ("t", "q", "v", "u")]
        return ca.substitute(self.stage.with_params([SX(expression)]), symbols, here)[0]

    def position(self, point: Frame | str) -> Named:
        """World position of a point (m)."""
        return self._vector(self.stage.tree.position(point))

    def velocity(self, point: Frame | str) -> Named:
        """World velocity of a point (m/s)."""
        return self._vector(self.stage.tree.velocity(point))

    def _vector(self, expression: SX) -> Named:
        letters = "xyz" if self.mechanism.spatial else "xy"
        here = self.of(expression)
        return Named(list(letters), [here[i] for i in range(len(letters))], "axis")

    @property
    def upright(self) -> list[Condition]:
        """Conditions that the floating body's up axis points up, whatever its heading and however often it turned."""
        e = self.stage.tree
        up = 2 if self.mechanism.spatial else 1
        axis = self.of(e.kinematics.pose(self.mechanism.floating_body.name).R[:, up])
        level = [Condition(axis[i], 0.0, 0.0, "upright") for i in range(up)]
        return [*level, Condition(axis[up], 0.0, math.inf, "upright")]

    @property
    def angular_velocity(self) -> SX:
        """Angular velocity of the floating body in world axes (rad/s); one number in the plane."""
        spin = self.of(self.stage.tree.spin(self.mechanism.floating_body.name))
        return spin if self.mechanism.spatial else spin[2]

    @property
    def energy(self) -> SX:
        """Kinetic and potential energy (J)."""
        e = self.stage.tree
        return self.of(e.kinetic_energy + e.potential_energy)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, State):
            return NotImplemented
        if other.mechanism is not self.mechanism:
            raise BadModel(f"{self.label}: the state is of {other.mechanism.name!r}, not of {self.mechanism.name!r}")
        q, v = self.symbols["q"] == other.positions, self.symbols["v"] == other.velocities
        return ca.vertcat(q, v)

    def __repr__(self) -> str:
        return f"Instant({self.label!r})"


class Phase:
    """Stay in one domain: start, end, duration (s), ground forces along the way."""

    def __init__(
        self,
        system: HybridSystem,
        domain: Domain,
        index: int,
        intervals: int,
        duration: Any,
        ground: Ground | None = None,
    ) -> None:
        self.stage = Constrained(system, domain)
        self.touches = Touches(self.stage, ground) if ground is not None else None
        self.domain, self.index = domain, index
        label = f"{domain.name} {index + 1}" if index else domain.name
        self.label = label
        self.start, self.end = (Instant(self.stage, f"{label} {word}") for word in ("start", "end"))
        self.duration = SX.sym(f"{label} duration")
        self.low, self.high = _duration(duration, label)
        self.intervals = intervals
        self.forces = SX.sym("force", self.stage.equations.phi.numel())

    def force(self, point: Frame | str) -> Named:
        """Ground force on a point in contact along the phase (N), world axes."""
        m, d = self.stage.system.mechanism, self.stage.dimension
        for i, contact in enumerate(self.domain.contacts):
            if m.frame(contact.point) is m.frame(point):
                rows, locks = self._rows(i)
                values = {lock: self.forces[r] for lock, r in zip(locks, rows, strict=True)}
                letters = "xyz"[:d]
                return Named(list(letters), [values.get(a, SX(0)) for a in letters], "axis")
        names = [str(c.point) for c in self.domain.contacts]
        raise UnknownName(f"contact in {self.domain.name!r}", str(point), names)

    def _rows(self, contact: int) -> tuple[range, tuple[str, ...]]:
        closures = self.stage.equations.closures
        own = len(closures) - len(self.domain.contacts)
        first = sum(c.phi.numel() for c in closures[: own + contact])
        closure = closures[own + contact]
        return range(first, first + closure.phi.numel()), closure.locks

    @property
    def normals(self) -> list[tuple[str, SX]]:
        """Normal force of every contact."""
        out = []
        for i in range(len(self.domain.contacts)):
            rows, _ = self._rows(i)
            out.append((self.stage.row_names[rows[-1]], self.forces[rows[-1]]))
        return out

    def tangential(self, contact: int) -> tuple[str, SX]:
        """Name of a contact's friction condition, and its forces along the ground."""
        rows, _ = self._rows(contact)
        return f"friction at {self.stage.row_names[rows[-1]]}", self.forces[list(rows[:-1])]

    def friction(self, contact: int, most: float | None) -> SX | None:
        """Friction at a contact: that of a foot declared there, at `most` so much; None where neither is given."""
        m, point = self.stage.system.mechanism, self.domain.contacts[contact].point
        feet = [x for x in m.touching.values() if isinstance(x, Foot) and same_point(m, x.point, point)]
        known = [number(x) for x in (most, *(foot.friction for foot in feet)) if x is not None]
        return None if not known else known[0] if len(known) == 1 else ca.fmin(*known)

    @property
    def stops(self) -> list[Condition]:
        """Joints between the stops that the machine declares."""
        m, k = self.stage.system.mechanism, self.stage.tree.kinematics
        out = []
        for stop in (x for x in m.touching.values() if isinstance(x, Stop)):
            here = k.coordinate(stop.coordinate)
            if stop.lower is not None:
                out.append(Condition(here - number(stop.lower), 0.0, math.inf, f"lower stop of {stop.coordinate}"))
            if stop.upper is not None:
                out.append(Condition(number(stop.upper) - here, 0.0, math.inf, f"upper stop of {stop.coordinate}"))
        return out

    def cones(self, most: float | None) -> list[Condition]:
        """Tangential ground forces within friction times the normal ones; see `friction`."""
        out = []
        for i, (_, normal) in enumerate(self.normals):
            name, along = self.tangential(i)
            friction = self.friction(i, most)
            if friction is None:
                continue
            most_here = friction * normal
            if along.numel() == 1:
                out += [Condition(most_here + side * along, 0.0, math.inf, name) for side in (1, -1)]
            elif along.numel():
                out.append(Condition(most_here**2 - ca.sumsqr(along), 0.0, math.inf, name))
        return out


def inputs_of(m: Mechanism) -> SX:
    """Inputs of a mechanism as one column."""
    return ca.vertcat(SX(0, 1), *m.inputs.values())


def _duration(given: Any, label: str) -> tuple[float, float]:
    low, high = given if isinstance(given, tuple) else (given, given)
    if not (isinstance(low, int | float | np.number) and math.isfinite(high) and 0 < low <= high):
        raise BadValue(
            f"{label}: duration is {given}; give seconds above zero, or (least, most) with least <= most", given=given
        )
    return float(low), float(high)
