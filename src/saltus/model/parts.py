"""Links, frames on links, and motors: the parts a machine is made of."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue
from saltus.model.symbols import SX, Number, Param, not_finite, number, rotation, vector


def point_of(xyz: Sequence[Number], spatial: bool, part: str) -> SX:
    """Check the dimension of a point and give it its third coordinate."""
    expected = (2, 3) if not spatial else (3,)
    want = "(x, y, z)" if spatial else "(x, y)"
    if not hasattr(xyz, "__len__"):
        raise BadValue(f"{part}: a point takes {want} in metres; {xyz!r} given", given=xyz)
    if len(xyz) not in expected:
        raise BadValue(f"{part}: a point takes {want} in metres; {len(xyz)} number(s) given", given=list(xyz))
    for entry in xyz:
        _finite(entry, part)
    return vector(*xyz, *([0] * (3 - len(xyz))))


def gravity_vector(given: Any, spatial: bool) -> SX:
    """Gravity (m/s2) from its size, which then points down, or from its components in world axes."""
    part = "gravity"
    if isinstance(given, np.ndarray | ca.DM) and np.size(given) == 1:
        given = float(np.ravel(given)[0])
    if isinstance(given, Param | SX | int | float | np.number) and not (isinstance(given, SX) and given.numel() > 1):
        _finite(given, part)
        if isinstance(given, int | float | np.number) and given < 0:
            hint = f"gravity is {given:g}, and a number points downwards: things fall up; give {-given:g}, or a vector"
            warnings.warn(hint, stacklevel=4)
        return vector(*((0, 0, -given) if spatial else (0, -given, 0)))
    if isinstance(given, SX | ca.DM | np.ndarray):
        if len(given.shape) > 1 and 1 not in given.shape:
            raise BadValue(f"{part}: a vector has one row or one column; shape {given.shape} given", given=given)
        given = ca.vertsplit(ca.vec(ca.densify(given))) if isinstance(given, SX) else np.ravel(given).tolist()
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise BadValue(f"{part}: {given!r} is neither a number (m/s2, downwards) nor a vector", given=given)
    out = point_of(given, spatial, part)
    if not spatial and out.sparsity().has_nz(2, 0):
        raise BadValue(
            f"{part} leaves the plane of this machine; give (x, y), or make the machine with spatial=True", given=given
        )
    return out


def _finite(value: Number, part: str) -> None:
    """Refuse what is neither a finite number nor an expression."""
    if isinstance(value, Param | SX):
        if not isinstance(value, Param) and value.numel() != 1:
            raise BadValue(f"{part}: an expression of shape {value.shape} is not one number", given=value)
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise BadValue(f"{part}: {not_finite(value)}", given=value)


@dataclass(frozen=True, eq=False)
class Frame:
    """A point on a link, with an orientation. Positions in metres in the link's own frame."""

    link: Link
    position: SX
    rotation: SX = field(default_factory=lambda: SX.eye(3))

    @property
    def label(self) -> str:
        """How error texts name it."""
        return f"a point of link {self.link.name!r}"


@dataclass(frozen=True, eq=False)
class Link:
    """A rigid body. `com` (m) and `inertia` (kg m2, about the centre of mass) in the link's own frame."""

    name: str
    mass: Number
    com: SX
    inertia: SX
    spatial: bool
    points: dict[str, Frame] = field(default_factory=dict)
    length: Number = None

    def at(self, *xyz: Number, angle: Number = 0, rotation: Any = None) -> Frame:
        """Return the frame at (x, y) or (x, y, z); planar turn `angle` (rad) or a 3 x 3 `rotation` matrix."""
        where = f"link {self.name!r}"
        orientation = turn(angle, rotation, where)
        if not self.spatial and rotation is not None and not np.allclose(np.asarray(rotation)[2], (0, 0, 1)):
            raise BadValue(
                f"{where}: rotation turns out of the plane; give `angle`, or make the machine with spatial=True",
                given=rotation,
            )
        return Frame(self, point_of(xyz, self.spatial, where), orientation)

    def plane(self, *xyz: Number, normal: Any) -> Plane:
        """Return the face through (x, y) or (x, y, z) that looks along `normal`: a line in the plane machine."""
        where = f"plane of link {self.name!r}"
        direction = point_of(normal, self.spatial, where)
        if direction.is_constant():
            length = float(np.linalg.norm(ca.DM(direction).full()))
            if not length > 0:
                raise BadValue(f"{where}: normal is {normal!r}; give the direction it looks to", given=normal)
            direction = direction / length
        return Plane(self.at(*xyz), direction)

    def round(self, *xyz: Number, radius: Number) -> Round:
        """Return the outside of a circle (a ball in 3D) of `radius` (m) about (x, y) or (x, y, z)."""
        return Round(self.at(*xyz), radius)

    @property
    def origin(self) -> Frame:
        """The link's own frame."""
        return Frame(self, SX(3, 1))

    @property
    def start(self) -> Frame:
        """Where a rod begins: its own origin."""
        return self._end_of_rod(0)

    @property
    def end(self) -> Frame:
        """Where a rod ends: at its length along x."""
        return self._end_of_rod(self.length)

    def _end_of_rod(self, x: Number) -> Frame:
        if self.length is None:
            raise BadValue(
                f"link {self.name!r} is not a rod and has no start or end; use .at(x, y) or make it with m.rod(...)",
                link=self.name,
            )
        return Frame(self, vector(x, 0, 0))

    def __repr__(self) -> str:
        return f"Link({self.name!r})"


@dataclass(frozen=True, eq=False)
class Plane:
    """A face of a link: the half-space on the side of the unit `normal`, in the link's axes, is outside."""

    frame: Frame
    normal: SX


@dataclass(frozen=True, eq=False)
class Round:
    """A round face of a link: the outside of a circle, a ball in 3D, of `radius` (m) about a point."""

    frame: Frame
    radius: Number


def turn(angle: Number, matrix: Any, where: str) -> SX:
    """Orientation of a frame from a planar angle or a rotation matrix."""
    if matrix is not None:
        try:
            numbers = np.asarray(matrix, float)
        except (TypeError, ValueError):
            numbers = np.zeros(0)
        if numbers.shape != (3, 3) or not np.allclose(numbers @ numbers.T, np.eye(3), atol=1e-9):
            raise BadValue(f"{where}: rotation must be a 3 x 3 rotation matrix", given=matrix)
        if np.linalg.det(numbers) < 0:
            raise BadValue(f"{where}: rotation has determinant -1, a mirror; give a proper rotation", given=matrix)
        return ca.sparsify(SX(numbers))
    _finite(angle, f"{where}: angle")
    if not isinstance(angle, Param | SX) and angle == 0:
        return SX.eye(3)
    return rotation(vector(0, 0, 1), SX(angle.symbol) if isinstance(angle, Param) else SX(angle))


def inertia_tensor(value: Any, spatial: bool, part: str) -> SX:
    """Planar scalar, diagonal or full tensor to a 3 x 3 matrix; refuse what no body can have."""
    if isinstance(value, Param | SX | int | float | np.number) and not (isinstance(value, SX) and value.numel() > 1):
        if not spatial:
            return _diagonal(0, 0, value)
        if not isinstance(value, Param | SX) and float(value) == 0.0:
            return SX(3, 3)
        raise BadValue(
            f"{part}: in 3D the inertia is (Ixx, Iyy, Izz) or a 3 x 3 tensor about the centre of mass, in kg m2",
            given=value,
        )
    rows = list(value) if not isinstance(value, SX) else [value]
    if len(rows) == 3 and not hasattr(rows[0], "__len__"):
        tensor = _diagonal(*rows)
    else:
        if not isinstance(value, SX) and {len(row) if hasattr(row, "__len__") else 0 for row in rows} != {3}:
            raise BadValue(f"{part}: inertia takes 3 numbers or a 3 x 3 tensor in kg m2", given=value)
        tensor = ca.sparsify(value if isinstance(value, SX) else ca.horzcat(*[vector(*row) for row in rows]).T)
        if tensor.shape != (3, 3):
            raise BadValue(f"{part}: inertia has shape {tensor.shape}, expected (3, 3)", given=value)
    if tensor.is_constant():
        check_tensor(np.asarray(ca.DM(tensor).full()), part)
    return tensor


def _diagonal(*entries: Number) -> SX:
    return ca.sparsify(ca.diag(vector(*entries)))


def check_tensor(tensor: np.ndarray, part: str) -> None:
    """Refuse tensors that are not symmetric, not positive, or break the triangle inequality."""
    if not np.isfinite(tensor).all():
        raise BadValue(f"{part}: inertia has entries that are not finite", given=tensor)
    if not np.allclose(tensor, tensor.T, rtol=1e-9, atol=1e-12 * np.abs(tensor).max(initial=0)):
        raise BadValue(f"{part}: inertia tensor is not symmetric; check its off-diagonal entries", given=tensor)
    a, b, c = np.sort(np.linalg.eigvalsh(tensor))
    slack = 1e-9 * max(c, 0.0)
    if a < -slack or c > a + b + slack:
        raise BadValue(
            f"{part}: no body has principal moments {a:.4g}, {b:.4g}, {c:.4g} kg m2; each must be positive and no "
            "larger than the sum of the other two",
            given=tensor,
        )


LIMITS = ("torque", "speed", "power", "stall", "current", "torque_constant")  # of motors
POSITIVE = (*LIMITS, "friction", "stiffness", "damping", "backlash")


@dataclass(frozen=True)
class Motor:
    """An actuator on a joint. Commands are joint torques (Nm) or forces (N); limits cut them.

    All but `power` (W) are on the motor's side of the `gear` (joint torque = gear x motor torque, motor speed = gear x
    joint speed; a negative gear turns the joint against the motor). `torque` (Nm) is the most it may give; `current`
    (A) with `torque_constant` (Nm/A) limits it too. `speed` (rad/s) is where it runs without load: driving torque falls
    from `stall` (Nm, at rest) to zero there. Unless given, that is the most it may give, or of a motor with neither
    limit 4 power / speed, for on such a line power is the most at half the speed. `rotor_inertia` in kg m2.
    None means no limit. `friction` (Nm) is dry friction of motor and gear. What is between gear and joint counts on the
    joint's side: a spring in series of `stiffness` (Nm/rad) and `damping` (Nm s/rad), and play, `backlash` (rad from
    end to end); with either a joint gets a second coordinate, its twist.
    """

    torque: Number = None
    speed: Number = None
    power: Number = None
    gear: Number = 1.0
    rotor_inertia: Number = 0.0
    stall: Number = None
    current: Number = None
    torque_constant: Number = None
    friction: Number = None
    stiffness: Number = None
    damping: Number = None
    backlash: Number = None

    def __post_init__(self) -> None:
        for name in POSITIVE:
            value = getattr(self, name)
            if isinstance(value, int | float) and not value > 0:
                raise BadValue(f"motor: {name} = {value}; expected a positive number or None", given=value)
        if isinstance(self.gear, int | float) and not abs(self.gear) > 0:
            raise BadValue(f"motor: gear = {self.gear}; expected a number other than zero", given=self.gear)
        if isinstance(self.rotor_inertia, int | float) and not self.rotor_inertia >= 0:
            raise BadValue(f"motor: rotor_inertia = {self.rotor_inertia}; expected zero or more, in kg m2")
        if self.current is not None and self.torque_constant is None:
            raise BadValue("motor: a limit of current needs torque_constant, in Nm/A", given=self.current)
        if self.damping is not None and (self.stiffness is None or self.backlash is not None):
            raise BadValue(
                "motor: damping is that of a spring without play; give stiffness and no backlash, or leave it out"
            )
        if self.stall is not None and self.speed is None:
            raise BadValue("motor: stall begins the line that ends at speed; give speed too", given=self.stall)
        begins = self.torque, self.current, self.stall, self.power
        if self.speed is not None and all(x is None for x in begins):
            raise BadValue(
                f"motor: speed = {self.speed} ends a line along which torque falls, and nothing says where it begins; "
                "give torque, current, stall or power too",
                given=self.speed,
            )

    @classmethod
    def from_voltage(
        cls, voltage: float, *, resistance: float, torque_constant: float, current: float | None = None, **more: Any
    ) -> Motor:
        """A DC motor at a `voltage` (V) from its data sheet: `resistance` (ohm), `torque_constant` (Nm/A).

        Stall torque torque_constant voltage / resistance, no-load speed voltage / torque_constant.
        """
        for name, value in (("voltage", voltage), ("resistance", resistance), ("torque_constant", torque_constant)):
            if not value > 0:
                raise BadValue(f"motor: {name} = {value}; expected a positive number", given=value)
        stall, speed = torque_constant * voltage / resistance, voltage / torque_constant
        return cls(stall=stall, speed=speed, current=current, torque_constant=torque_constant, **more)

    @property
    def reflected_inertia(self) -> Number:
        """Rotor inertia as the joint feels it: gear^2 x rotor_inertia."""
        return number(self.gear) ** 2 * number(self.rotor_inertia)

    @property
    def rigid(self) -> Motor:
        """The same motor on the joint itself, without friction."""
        return replace(self, **dict.fromkeys(("friction", "stiffness", "damping", "backlash")))

    @property
    def ratio(self) -> SX:
        """Size of the gear."""
        return ca.fabs(number(self.gear))

    @property
    def most(self) -> SX | None:
        """The largest effort on the joint that torque and current allow; None without such a limit."""
        given = [] if self.torque is None else [number(self.torque)]
        if self.current is not None:
            given.append(number(self.current) * number(self.torque_constant))
        return None if not given else self.ratio * reduce(ca.fmin, given)

    @property
    def line(self) -> tuple[SX, SX] | None:
        """Effort on the joint at rest and joint speed without load, the ends of the torque-speed line; None without."""
        if self.speed is None:
            return None
        free = number(self.speed) / self.ratio
        if self.stall is not None:
            return self.ratio * number(self.stall), free
        return 4 * number(self.power) / free if self.most is None else self.most, free

    def delivered(self, command: SX, rate: SX) -> SX:
        """Joint torque after the motor's limits, for a joint rate in rad/s or m/s."""
        out, most, line = command, self.most, self.line
        if line is not None:
            stall, free = line
            fade = rate / free
            up, down = stall * ca.fmax(0, 1 - fade), stall * ca.fmax(0, 1 + fade)
            if most is not None:
                up, down = ca.fmin(up, most), ca.fmin(down, most)
            out = _clipped(out, down, up)
        elif most is not None:
            out = _clipped(out, most, most)
        if self.power is not None:
            bound = number(self.power) / ca.fmax(ca.fabs(rate), 1e-9)
            out = _clipped(out, bound, bound)
        return out


def _clipped(value: SX, down: Number, up: Number) -> SX:
    """Value between -down and up; unlike fmin and fmax this lets a NaN through, so that it is noticed."""
    return ca.if_else(value > up, up, ca.if_else(value < -down, -down, value))
