"""Loads: springs, forces, torques, inputs and soft ground a machine is given."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca

from saltus.errors import BadModel, BadValue, UnknownName
from saltus.model.forces import CompliantContact, Effort, Force, ForceElement, JointSpring, Memory, Spring, Torque
from saltus.model.joints import Ball, Joint
from saltus.model.parts import Frame, Link, Plane, Round, point_of
from saltus.model.registry import Parts, Registry
from saltus.model.symbols import SX, Number, in_radians, vector
from saltus.model.touching import Foot, Meeting, Rub, Stop, Touching
from saltus.model.tree import Tree


class Loads:
    """What acts on the links of a machine beside gravity and its joints."""

    def __init__(self, name: str, spatial: bool) -> None:
        self.name, self.spatial = name, spatial
        self.book = Registry(name)
        self.tree = Tree(self.book, spatial)
        self.links: dict[str, Link] = Parts("link")
        self.joints = self.tree.joints
        self.inputs = self.book.inputs
        self.points: dict[str, Frame] = Parts("point")
        self.forces: dict[str, ForceElement] = {}
        self.armatures: dict[str, Number] = {}
        self.memories: dict[str, Memory] = {}
        self.touching: dict[str, Touching] = {}

    def spring(
        self, name: str, a: Any, b: Any, *, stiffness: Number = 0.0, length: Number = 0.0, damping: Number = 0.0
    ) -> Spring:
        """Add a linear spring (N/m, rest length m) and damper (N s/m) between two points."""
        part = f"spring {name!r}"
        for what, value in (("stiffness", stiffness), ("length", length)):
            self.book.number(value, f"{part}: {what}", lowest=0.0)
        self.book.number(damping, f"{part}: damping")
        return self._add_force(Spring(name, self._frame(a, name), self._frame(b, name), stiffness, length, damping))

    def joint_spring(
        self, name: str, joint: Joint | str, *, stiffness: Number = 0.0, rest: Number = 0.0, damping: Number = 0.0
    ) -> JointSpring:
        """Add a spring and damper on a joint's coordinate ("boom.y" where the joint has several)."""
        part = f"spring {name!r}"
        self.book.number(stiffness, f"{part}: stiffness", lowest=0.0)
        self.book.number(rest, f"{part}: rest")
        self.book.number(damping, f"{part}: damping")
        return self._add_force(JointSpring(name, self._coordinate(joint), stiffness, rest, damping))

    def _coordinate(self, joint: Joint | str) -> str:
        """Name of a coordinate that is one number."""
        coordinate = joint.name if isinstance(joint, Joint) else joint
        plain = [j for j in self.joints.values() if not any(isinstance(p, Ball) for p in j.primitives)]
        valid = [n for j in plain for n in j.v_names]
        if coordinate not in valid:
            raise UnknownName("joint coordinate", coordinate, valid)
        return coordinate

    def force(self, name: str, point: Any, value: Sequence[Number]) -> Force:
        """Apply a force (N, world axes) at a point: constants, Params, inputs, state, time."""
        frame = self._frame(point, name)
        expression = point_of(value, self.spatial, f"force {name!r}")
        if not self.spatial and expression.sparsity().has_nz(2, 0):
            raise BadValue(f"force {name!r} leaves the plane of this machine; give (x, y)", given=value)
        self.book.known_symbols(f"force {name!r}", expression, state=True)
        return self._add_force(Force(name, frame, expression))

    def compliant_contact(
        self,
        name: str,
        place: Any,
        *,
        stiffness: Number,
        damping: Number = 0.0,
        exponent: float = 1.5,
        friction: Number = 0.0,
        friction_stiffness: Number | None = None,
        friction_damping: Number = 0.01,
        ground: Any = 0.0,
    ) -> CompliantContact:
        """Put soft ground under a point, or under a `bend` joint's lowest point.

        Normal force `stiffness` depth^`exponent` (1 + `damping` depth'), in N/m^exponent and s/m, never a pull.
        Friction springs back from where the point took hold (`friction_stiffness` N/m, the normal one unless
        given; `friction_damping` s), limited by Coulomb's law with coefficient `friction`. `ground` is a height
        (m) or a function of x (and y in 3D) that gives one.
        """
        part = f"contact {name!r}"
        tangential = stiffness if friction_stiffness is None else friction_stiffness
        for what, value in (
            ("stiffness", stiffness),
            ("friction_stiffness", tangential),
            ("friction_damping", friction_damping),
        ):
            self.book.positive(value, part, what)
        for what, value in (("damping", damping), ("friction", friction)):
            self.book.number(value, f"{part}: {what}", lowest=0.0)
        self.book.number(exponent, f"{part}: exponent", lowest=1.0)
        if isinstance(place, Joint):
            if place.kind != "bend" or self.joints.get(place.name) is not place:
                raise BadValue(f"{part}: {place!r} is no bend joint of {self.name!r}; give one or a point", given=place)
        else:
            place = self._frame(place, name)
        if not callable(ground):
            self.book.number(ground, f"{part}: ground")
        has_friction = not isinstance(friction, int | float) or friction > 0
        memory = SX.sym(f"stretch_{name}", (2 if self.spatial else 1) if has_friction else 0)
        return self._add_force(
            CompliantContact(
                name, place, stiffness, damping, exponent, friction, tangential, friction_damping, ground, memory
            )
        )

    # ---- what may touch -----------------------------------------------------------------------------------------

    def foot(
        self,
        name: str,
        point: Any,
        *,
        friction: Number | None = None,
        static: Number | None = None,
        radius: Number = 0.0,
        restitution: Number = 0.0,
        stiffness: Number | None = None,
        damping: Number = 0.0,
    ) -> Foot:
        """Let a point, or a circle (in 3D a ball) of `radius` (m) about it, touch the ground, stick, slip and lift.

        `friction` is that of slip, `static` that of rest (the same unless given); without them the ground's counts,
        and where both have one the smaller. It bounces with `restitution` times the speed of its approach. With a
        `stiffness` k (N/m) contact is soft: the force is k depth (1 + `damping` depth'), `damping` in s/m, and along
        the ground a spring of the same kind holds it where it touched.
        """
        part = f"foot {name!r}"
        self._law(part, friction, static, radius, restitution, stiffness, damping)
        frame = self._frame(point, name)
        if frame.link.name == "ground":
            raise BadModel(f"{part} is a point of the ground, which it is to touch; give a point of a link that moves")
        if self.points.setdefault(name, frame) is not frame:
            raise BadModel(f"{part}: a point of that name is elsewhere; give the foot another name", name=name)
        return self._touches(Foot(name, frame, radius, friction, static, restitution, stiffness, damping))

    def stop(
        self,
        joint: Joint | str,
        *,
        lower: Number | None = None,
        upper: Number | None = None,
        restitution: Number = 0.0,
        stiffness: Number | None = None,
        damping: Number = 0.0,
    ) -> Stop:
        """Let a joint's coordinate end at `lower` and `upper` (rad, m): contacts without friction.

        With a `stiffness` (Nm/rad, N/m) they are soft, as those of feet are.
        """
        coordinate = self._coordinate(joint)
        part = f"stop of {coordinate!r}"
        self._law(part, None, None, 0.0, restitution, stiffness, damping)
        given = [x for x in (lower, upper) if x is not None]
        for limit in given:
            self.book.number(limit, part)
        if not given:
            raise BadValue(f"{part}: give lower=, upper= or both")
        if isinstance(lower, int | float) and isinstance(upper, int | float) and not lower < upper:
            raise BadValue(f"{part}: lower {lower} is not below upper {upper}; exchange them", given=(lower, upper))
        own = self.joints[coordinate.split(".")[0]]
        angular = dict(zip(own.q_names, own.q_units, strict=True))[coordinate] == "rad"
        for limit in given:
            if angular and isinstance(limit, int | float) and abs(limit) > math.tau:
                warnings.warn(f"{part} at {limit:g} {in_radians(limit)}", stacklevel=2)
        return self._touches(Stop(coordinate, lower, upper, restitution, stiffness, damping))

    def touch(
        self,
        name: str,
        point: Any,
        face: Plane | Round,
        *,
        friction: Number = 0.0,
        static: Number | None = None,
        radius: Number = 0.0,
        restitution: Number = 0.0,
        stiffness: Number | None = None,
        damping: Number = 0.0,
    ) -> Meeting:
        """Let a point or circle of one link touch a face of another or of the ground: link.plane(...), .round(...).

        Friction, bounce and softness are said as of feet.
        """
        part = f"touch {name!r}"
        self._law(part, friction, static, radius, restitution, stiffness, damping)
        if isinstance(point, Plane | Round):
            raise BadValue(f"{part}: a face of link {point.frame.link.name!r} comes first; give point, then face")
        frame = self._frame(point, name)
        if not isinstance(face, Plane | Round):
            said = face.label if isinstance(face, Frame) else repr(face)
            raise BadValue(
                f"{part}: {said} is no face; give link.plane(x, y, normal=(0, 1)) or link.round(x, y, radius=0.1)",
                given=face,
            )
        self._mine(face.frame, part)
        if isinstance(face, Round):
            self.book.positive(face.radius, part, "radius of its face")
        if face.frame.link is frame.link:
            raise BadModel(f"{part}: point and face belong to the same link {frame.link.name!r}")
        return self._touches(Meeting(name, frame, radius, face, friction, static, restitution, stiffness, damping))

    def rub(self, joint: Joint | str, effort: Number, *, static: Number | None = None) -> Rub:
        """Give a joint dry friction: `effort` (Nm, N) against its motion; at rest it holds up to `static`."""
        coordinate = self._coordinate(joint)
        part = f"dry friction of {coordinate!r}"
        for what, value in (("effort", effort), ("static", static)):
            if value is not None:
                self.book.number(value, f"{part}: {what}", lowest=0.0)
        _rest_holds(part, effort, static)
        return self._touches(Rub(coordinate, effort, static))

    def _law(
        self,
        part: str,
        friction: Number | None,
        static: Number | None,
        radius: Number,
        restitution: Number,
        stiffness: Number | None,
        damping: Number,
    ) -> None:
        numbers = {"friction": friction, "static friction": static, "damping": damping}
        for what, value in numbers.items():
            if value is not None:
                self.book.number(value, f"{part}: {what}", lowest=0.0)
        self.book.positive(radius, part, "radius")
        given = [n for n, x in (("restitution", restitution), ("damping", damping)) if not _is_zero(x)]
        if stiffness is not None:
            self.book.positive(stiffness, part, "stiffness")
            if "restitution" in given:
                raise BadValue(f"{part}: what is soft bounces by its damping; leave out restitution= or stiffness=")
            if not _is_zero(radius):
                raise BadValue(f"{part}: a soft contact is a point's; leave out radius= or stiffness=", given=radius)
        elif "damping" in given:
            raise BadValue(f"{part}: damping= belongs to a soft contact; give stiffness= too, or restitution=")
        self.book.number(restitution, f"{part}: restitution", lowest=0.0)
        if isinstance(restitution, int | float) and restitution > 1:
            raise BadValue(f"{part}: restitution is {restitution}; it is between 0 and 1", given=restitution)
        _rest_holds(part, friction, static)

    def _touches(self, part: Any) -> Any:
        if isinstance(part, Foot | Meeting):
            self.book.new_name("contact", part.name, self.touching)
        elif part.name in self.touching:  # by its coordinate, which has a name that it may have
            if isinstance(self.touching[part.name], Foot | Meeting):
                raise BadModel(
                    f"{part.name!r} of {self.name!r} cannot have a stop: a foot or touch is called so; rename that one",
                    name=part.name,
                )
            what = "a stop" if isinstance(part, Stop) else "dry friction"
            raise BadModel(f"{part.coordinate!r} of {self.name!r} has {what} already; give it once", name=part.name)
        self.touching[part.name] = part
        return part

    def torque(self, name: str, link: Link, value: Any) -> Torque:
        """Apply a torque (Nm, world axes) on a link: one number in the plane, three in 3D."""
        given = (0, 0, value) if not self.spatial else tuple(value)
        expression = point_of(given, True, f"torque {name!r}")
        self._mine(link.origin, f"torque {name!r}")
        self.book.known_symbols(f"torque {name!r}", expression, state=True)
        return self._add_force(Torque(name, link, expression))

    def effort(self, name: str, rate: Any, value: Any) -> Effort:
        """Apply a generalised force `value` along `rate`, linear in `m.v`: Q = (d rate / dv)' value. Lists pair up.

        `m.effort("hip", 20 * m.v.hip, m.input("u"))` is a torque u behind a gear of 20.
        """
        part, along, amount = f"effort {name!r}", _column(rate), _column(value)
        self.book.known_symbols(part, along, amount, state=True)
        moving = ca.vertcat(SX(0, 1), *self.book.v.values())
        slope = ca.jacobian(along, moving)
        if ca.depends_on(slope, moving) or not slope.nnz() or along.shape != amount.shape:
            raise BadModel(f"{part}: its rate must be linear in m.v, such as 2 * m.v.hip, one per value", name=name)
        return self._add_force(Effort(name, along, amount))

    def armature(self, coordinate: str, inertia: Number) -> None:
        """Add inertia (kg m2, kg) felt by one coordinate of a joint alone, as of a rotor behind a gear."""
        valid = [n for j in self.joints.values() for n in j.v_names]
        if coordinate not in valid:
            raise UnknownName("joint coordinate", coordinate, valid)
        if coordinate in self.armatures:
            raise BadModel(f"armature of {coordinate!r} is given twice; give the sum", name=coordinate)
        self.book.number(inertia, f"armature of {coordinate!r}", lowest=0.0)
        self.armatures[coordinate] = inertia

    @property
    def reflected(self) -> list[tuple[str, Number]]:
        """Coordinates and the inertia that rotors add to them: gear^2 x rotor inertia, and armatures."""
        motors = [(n, j.motor) for j in self.joints.values() if j.motor is not None for n in j.v_names]
        return [*((n, x.reflected_inertia) for n, x in motors), *self.armatures.items()]

    def input(self, name: str) -> SX:
        """Declare an input a controller sets by name, for use in forces and torques."""
        self.book.new_name("input", name, self.inputs)
        self.inputs[name] = SX.sym(f"u_{name}")
        return self.inputs[name]

    def memory(self, name: str, rate: Callable[[SX], Any]) -> SX:
        """Add a state of its own, for use in forces, by its rate: `m.memory("act", lambda a: (u - a) / 0.05)`."""
        self.book.new_name("memory", name, self.memories)
        symbol = self.book.memories[name] = SX.sym(f"z_{name}")
        try:
            expression = vector(rate(symbol))
            self.book.known_symbols(f"memory {name!r}", expression, state=True)
        except BaseException:
            del self.book.memories[name]
            raise
        self.memories[name] = Memory(name, symbol, expression)
        return symbol

    @property
    def z(self) -> SX:
        """States beyond positions and velocities: stretches of friction on soft ground, then the memories."""
        soft = [f.memory for f in self.forces.values() if isinstance(f, CompliantContact)]
        return ca.vertcat(SX(0, 1), *soft, *self.book.memories.values())

    def _add_force(self, element: Any) -> Any:
        self.book.new_name("force", element.name, self.forces)
        self.forces[element.name] = element
        return element

    def frame(self, point: Frame | str) -> Frame:
        """Return a frame by the name of its point."""
        if isinstance(point, Frame):
            return point
        if point not in self.points:
            link, _, end = str(point).partition(".")
            if link in self.links and end in ("", "start", "end"):
                raise BadValue(
                    f"{point!r} names no point of {self.name!r}; give the place itself, "
                    f"m.links[{link!r}].{end or 'at(0, 0)'}, or name it: m.point(NAME, ...)",
                    given=point,
                )
            raise UnknownName("point", point, self.points)
        return self.points[point]

    def _frame(self, place: Any, name: str) -> Frame:
        if isinstance(place, Link):
            place = place.origin
        if isinstance(place, str):
            place = self.frame(place)
        if not isinstance(place, Frame):
            raise BadValue(f"{name!r}: {place!r} is no point of a link; use link.at(x, y)", given=place)
        self._mine(place, repr(name))
        return place

    def _mine(self, frame: Frame, part: str) -> None:
        if not isinstance(frame, Frame):
            raise BadModel(f"{part}: {frame!r} is no place; give one on a link, such as link.at(0.1, 0) or link.end")
        if self.links.get(frame.link.name) is not frame.link:
            raise BadModel(f"{part}: link {frame.link.name!r} belongs to another mechanism than {self.name!r}")
        self.book.known_symbols(part, frame.position, frame.rotation)


def _rest_holds(part: str, slip: Number | None, static: Number | None) -> None:
    """Refuse friction that is smaller at rest than in slip."""
    if isinstance(slip, int | float) and isinstance(static, int | float) and static < slip:
        raise BadValue(
            f"{part}: static friction {static} is below that of slip, {slip}; give as much or more, or leave it out",
            given=static,
        )


def _is_zero(value: Number) -> bool:
    return isinstance(value, int | float) and value == 0


def _column(given: Any) -> SX:
    return vector(*given) if isinstance(given, list | tuple) else vector(given)
