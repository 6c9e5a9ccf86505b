"""Contacts: points that hold to the ground, the rows each of them locks, and one rule for naming them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca

from saltus.errors import BadModel, BadValue
from saltus.model.kinematics import Closure, Kinematics
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Param


class Contact(Protocol):
    """What a domain holds: a point, and the constraint rows that hold it where it touched."""

    @property
    def point(self) -> Frame | str:
        """Point of a link, or the name of one."""

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """Rows phi, zero at the `anchor` (m, where it took hold), and the axis each of them locks."""


@dataclass(frozen=True, eq=False)
class Pinned:
    """The point sticks to the ground where it touched; `friction` (1) is what the ground has, None leaves it open."""

    point: Frame | str
    friction: float | None = None

    def __post_init__(self) -> None:
        _not_negative("pinned", self.friction)

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """Position minus anchor: tangential rows first, the normal one last."""
        letters = "xyz" if spatial else "xy"
        return ca.densify(_position(kinematics, self.point, spatial) - anchor), tuple(letters)


@dataclass(frozen=True, eq=False)
class Sliding:
    """The point stays on the ground and slides along it, against Coulomb friction `friction` (1).

    Friction points against the slip with which the domain is entered; from rest, against the slip that the other forces
    start. A slip that ends, and a point that friction would hold, end the run: go on in a domain in which it is Pinned.
    """

    point: Frame | str
    friction: Any = 0.0

    def __post_init__(self) -> None:
        _not_negative("sliding", self.friction)

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """Height above the ground only."""
        height = _position(kinematics, self.point, spatial)[-1] - anchor[-1]
        return ca.densify(height), ("z" if spatial else "y",)


@dataclass(frozen=True, eq=False)
class Rolling:
    """A circular foot of the given radius (m) about the point rolls on the ground without slipping (planar)."""

    point: Frame | str
    radius: Any
    friction: float | None = None

    def __post_init__(self) -> None:
        _not_negative("rolling", self.friction)

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """x + R angle and height of the centre."""
        if spatial:
            raise BadModel("a Rolling foot is planar; in 3D rolling is not a constraint on positions")
        frame = kinematics.mechanism.frame(self.point)
        radius = self.radius.symbol if isinstance(self.radius, Param) else self.radius
        centre = kinematics.position(frame)
        roll = centre[0] + radius * kinematics.angle(frame.link.name)
        return ca.densify(ca.vertcat(roll - anchor[0], centre[1] - radius - anchor[1])), ("x", "y")


def _not_negative(kind: str, friction: Any) -> None:
    if isinstance(friction, int | float) and not friction >= 0:
        raise BadValue(f"{kind} contact: friction is {friction}; it must be zero or more", given=friction)


def _position(kinematics: Kinematics, point: Frame | str, spatial: bool) -> SX:
    return ca.densify(kinematics.position(kinematics.mechanism.frame(point)))[: 3 if spatial else 2]


def contact_closures(
    mechanism: Mechanism, contacts: Sequence[Contact], kinematics: Kinematics
) -> tuple[list[Closure], SX]:
    """Constraint rows of contacts and the symbols of their anchors (where they took hold), d per contact."""
    d = 3 if mechanism.spatial else 2
    anchors, out = SX.sym("anchor", d * len(contacts)), []
    for i, (contact, name) in enumerate(zip(contacts, contact_names(mechanism, contacts), strict=True)):
        phi, locks = contact.rows(kinematics, mechanism.spatial, anchors[d * i : d * (i + 1)])
        out.append(Closure(name, phi, locks, contact=i))
    return out, anchors


def same_point(mechanism: Mechanism, a: Frame | str, b: Frame | str) -> bool:
    """Whether two frames are the same point of the same link."""
    first, second = mechanism.frame(a), mechanism.frame(b)
    return first is second or (
        first.link is second.link and bool(ca.is_equal(ca.densify(first.position), ca.densify(second.position), 5))
    )


def named_points(mechanism: Mechanism, points: Sequence[Frame | str]) -> dict[str, Frame]:
    """Every different one of some points: by its own name, else by its link's, numbered from the second one on."""
    out: dict[str, Frame] = {}
    for frame in map(mechanism.frame, points):
        if any(same_point(mechanism, frame, known) for known in out.values()):
            continue
        name = next((n for n, f in mechanism.points.items() if same_point(mechanism, f, frame)), frame.link.name)
        number, unique = 1, name
        while unique in out:
            number, unique = number + 1, f"{name} {number + 1}"
        out[unique] = frame
    return out


def contact_names(mechanism: Mechanism, contacts: Sequence[Contact]) -> list[str]:
    """Name of the point of every contact."""
    points = named_points(mechanism, [c.point for c in contacts])
    return [next(n for n, f in points.items() if same_point(mechanism, f, c.point)) for c in contacts]
