"""Springs, dampers, applied forces and torques: each gives a potential or a generalised force."""

from __future__ import annotations

from dataclasses import dataclass

from saltus.model.parts import Frame, Link
from saltus.model.symbols import SX, Number


@dataclass(frozen=True, eq=False)
class Spring:
    """Linear spring and damper between two points: force = stiffness (d - length) + damping d'.

    Stiffness in N/m, length in m, damping in N s/m.
    """

    name: str
    a: Frame
    b: Frame
    stiffness: Number
    length: Number
    damping: Number


@dataclass(frozen=True, eq=False)
class JointSpring:
    """Spring and damper on one joint coordinate: effort = -stiffness (q - rest) - damping q'.

    Nm/rad and Nm s/rad for turns, N/m and N s/m for slides.
    """

    name: str
    coordinate: str
    stiffness: Number
    rest: Number
    damping: Number


@dataclass(frozen=True, eq=False)
class Force:
    """A force (N) at a point, in world axes; an expression of time, state, Params and inputs."""

    name: str
    point: Frame
    value: SX


@dataclass(frozen=True, eq=False)
class Torque:
    """A torque (Nm) on a link, in world axes; an expression of time, state, Params and inputs."""

    name: str
    link: Link
    value: SX


ForceElement = Spring | JointSpring | Force | Torque
