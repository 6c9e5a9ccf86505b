"""Springs, dampers, soft ground, applied forces and torques: each gives a potential or a generalised force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from saltus.model.joints import Joint
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


@dataclass(frozen=True, eq=False)
class Effort:
    """A generalised force along a rate: Q = (d rate / dv)' value, its power value x rate.

    `rate` (m/s, rad/s) is linear in the velocities, such as 20 v.hip for a gear or the speed of a tendon; `value`
    (N, Nm) an expression of time, state, Params and inputs.
    """

    name: str
    rate: SX
    value: SX


@dataclass(frozen=True, eq=False)
class CompliantContact:
    """Soft ground under a point, or under the lowest point of a constant-curvature segment (`place` its joint).

    See `saltus.dynamics.soft_contact` for the law. `memory` (m) is the stretch of the friction spring, a state of its
    own: one number a tangential direction, none without friction.
    """

    name: str
    place: Frame | Joint
    stiffness: Number
    damping: Number
    exponent: float
    friction: Number
    friction_stiffness: Number
    friction_damping: Number
    ground: Number | Callable[..., Number]
    memory: SX = field(default_factory=lambda: SX(0, 1))


@dataclass(frozen=True, eq=False)
class Memory:
    """A state of its own, such as the activation of a muscle or the charge of a capacitor: z' = `rate`, zero at first.

    `rate` is an expression of the memory's `symbol`, time, state, Params, inputs and other memories.
    """

    name: str
    symbol: SX
    rate: SX


ForceElement = Spring | JointSpring | Force | Torque | Effort | CompliantContact
