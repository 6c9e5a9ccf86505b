"""Parts that touch: feet, stops, faces of links and dry friction; what may touch, not what does."""

from __future__ import annotations

from dataclasses import dataclass

from saltus.model.parts import Frame, Plane, Round
from saltus.model.symbols import Number


@dataclass(frozen=True, eq=False)
class Foot:
    """A point, or a circle (a ball in 3D) of `radius` (m) about it, that may touch the ground.

    `friction` (1) is that of slip, `static` that of rest; None leaves it to the ground. `restitution` (1) is the share
    of the approach speed with which it bounces. With a `stiffness` (N/m) it is soft, see `dynamics.unilateral`.
    """

    name: str
    point: Frame
    radius: Number
    friction: Number | None
    static: Number | None
    restitution: Number
    stiffness: Number | None = None
    damping: Number = 0.0


@dataclass(frozen=True, eq=False)
class Stop:
    """A coordinate of a joint that ends at `lower` or `upper` (rad, m), bouncing with `restitution` (1), or soft."""

    coordinate: str
    lower: Number | None
    upper: Number | None
    restitution: Number
    stiffness: Number | None = None
    damping: Number = 0.0

    @property
    def name(self) -> str:
        """By its coordinate."""
        return self.coordinate


@dataclass(frozen=True, eq=False)
class Meeting:
    """A point or circle of one link that may touch a face of another: the side of a plane, or a circle."""

    name: str
    point: Frame
    radius: Number
    face: Plane | Round
    friction: Number
    static: Number | None
    restitution: Number
    stiffness: Number | None = None
    damping: Number = 0.0


@dataclass(frozen=True, eq=False)
class Rub:
    """Dry friction in a joint: up to `effort` (Nm, N) against its motion, and what holds it up to `static` at rest."""

    coordinate: str
    effort: Number
    static: Number | None

    @property
    def name(self) -> str:
        """By its coordinate."""
        return f"{self.coordinate} friction"


Touching = Foot | Stop | Meeting | Rub
