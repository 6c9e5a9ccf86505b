"""Structure: what kinematics, assembly and pictures read of a machine, apart from how it was put together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from saltus.model.forces import ForceElement
from saltus.model.joints import Joint
from saltus.model.parts import Frame, Link
from saltus.model.symbols import SX, Named, Param
from saltus.model.touching import Touching

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Placement:
    """A joint that places `child` relative to `parent`; `reversed` if it was written child first."""

    joint: Joint
    parent: Link
    child: Link
    reversed: bool


@dataclass(frozen=True, eq=False)
class Constraint:
    """A hand-written constraint phi(q, t) = 0; `moves` names the coordinate whose motion it gives, if it does."""

    name: str
    phi: SX
    moves: str | None = None


@dataclass(frozen=True, eq=False)
class GivenMotion:
    """A coordinate whose motion is given: `symbol` is a virtual displacement from it (zero), `speed` its rate.

    The effort it takes is the generalised force on `symbol`, its power that times `speed`.
    """

    name: str
    symbol: SX
    speed: SX


class Structure(Protocol):
    """A machine as its readers see it; `Mechanism` is one."""

    name: str
    spatial: bool
    ground: Link
    links: dict[str, Link]
    joints: dict[str, Joint]
    points: dict[str, Frame]
    params: dict[str, Param]
    forces: dict[str, ForceElement]
    touching: dict[str, Touching]
    surfaces: dict[str, list[Any]]
    closing: float
    constraints: dict[str, Constraint]
    motions: dict[str, GivenMotion]
    placements: list[Placement]
    loops: list[Joint]
    time: SX

    @property
    def p(self) -> SX:
        """All Params as one symbol vector."""

    @property
    def q(self) -> Named:
        """Position coordinates as named symbols."""

    @property
    def v(self) -> Named:
        """Velocity coordinates as named symbols."""

    @property
    def q_names(self) -> list[str]:
        """Names of the position coordinates, in order."""

    @property
    def v_names(self) -> list[str]:
        """Names of the velocity coordinates, in order."""

    @property
    def floating_body(self) -> Link:
        """Link that a free or planar joint joins to the ground."""

    def values(self, given: Mapping[str, float] | None = None) -> np.ndarray:
        """Vector of all Params, defaults overridden by `given`, checked."""

    def frame(self, point: Any) -> Frame:
        """Frame of a point by its name."""

    def check(self) -> None:
        """Raise BadModel unless the parts make a machine."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` derives from the machine as it is now, made once and again after every change."""
