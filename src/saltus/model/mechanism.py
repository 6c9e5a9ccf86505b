"""Mechanism: links, joints, loops, forces and Params; it describes a machine and holds no state."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import casadi as ca
import numpy as np

from saltus.errors import BadModel, BadValue, DuplicateName, UnknownName
from saltus.model import joints
from saltus.model.assembly import State, assembler
from saltus.model.branches import branches
from saltus.model.contents import Derived, Same, unchanged
from saltus.model.joints import Ball, Joint
from saltus.model.kinematics import Kinematics
from saltus.model.loads import Loads
from saltus.model.packing import Packed
from saltus.model.parts import POSITIVE, Frame, Link, Motor, gravity_vector, inertia_tensor, point_of
from saltus.model.structure import Constraint, GivenMotion, Placement
from saltus.model.symbols import SX, Expression, Named, Number, Param, in_radians, vector
from saltus.shown import Shown

__all__ = ["Constraint", "GivenMotion", "Mechanism", "Placement"]

T = TypeVar("T")


class Mechanism(Packed, Shown, Loads):
    """A machine of links and joints. Planar by default (x right, y up, turns about z), 3D with `spatial=True` (z up).

    SI units throughout. Every number may be a Param or an expression of Params. Joining a link that is not
    placed yet places it; joining two links that are both placed closes a loop.
    """

    def __init__(self, name: str, *, spatial: bool = False, gravity: Any = 9.81) -> None:
        super().__init__(name, spatial)
        self.constraints: dict[str, Constraint] = {}
        self.motions: dict[str, GivenMotion] = {}
        self.keyframes: dict[str, dict[str, Any]] = {}
        self.surfaces: dict[str, list[Any]] = {}  # of links, from files; pictures ask each for its `triangles()`
        self.controls: dict[str, Any] = {}  # laws of a machine that is simulated by itself, by name
        self.closing = 0.0  # m: what loops may leave open at most, for machines whose lengths are rounded
        self.ground = Link("ground", 0.0, SX(3, 1), SX(3, 3), spatial)
        self.links["ground"] = self.ground
        self.params, self.time = self.book.params, self.book.time
        self.placements, self.loops = self.tree.placements, self.tree.loops
        self._derived = Derived()
        self.gravity = gravity

    # ---- numbers ------------------------------------------------------------------------------------------------

    def param(self, name: str, value: float | None = None, unit: str = "") -> Param:
        """Declare a named number. Without a value it must be given wherever numbers are needed."""
        return self.book.param(name, value, unit)

    def values(self, given: Mapping[str, float] | None = None) -> np.ndarray:
        """Return the vector of all Params, defaults overridden by `given`, checked."""
        return self.book.values(given)

    @property
    def p(self) -> SX:
        """All Params as one symbol vector."""
        return self.book.p

    @property
    def gravity(self) -> SX:
        """Acceleration of free fall (m/s2, world axes). Set a number (downwards), or a vector of numbers and Params."""
        return self._gravity

    @gravity.setter
    def gravity(self, given: Any) -> None:
        gravity = gravity_vector(given, self.spatial)
        self.book.known_symbols("gravity", gravity)
        self._gravity = gravity

    @property
    def contents(self) -> tuple[Hashable, ...]:
        """All that equations of motion are derived from; equal as long as nothing of it was changed.

        Parts compare by identity, since they cannot be changed themselves; expressions node by node.
        """
        parts = (self.params, self.links, self.joints, self.points, self.forces, self.constraints, self.motions)
        named = tuple(tuple(part.items()) for part in (*parts, self.memories, self.touching))
        more = tuple((name, Same(x)) for group in (self.inputs, self.armatures) for name, x in group.items())
        return (*named, more, self.closing, Expression(self._gravity))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` derives from the machine as it is now, made once and again after every change."""
        return self._derived.once(self.contents, key, make)

    # ---- links --------------------------------------------------------------------------------------------------

    def link(self, name: str, *, mass: Number, inertia: Any = 0.0, com: Sequence[Number] = (0, 0, 0)) -> Link:
        """Add a body: `mass` kg, `com` in m in its own frame, `inertia` in kg m2 about its centre of mass.

        Planar machines take one number for the inertia, 3D ones (Ixx, Iyy, Izz) or a full tensor.
        """
        self.book.new_name("link", name, self.links)
        part = f"link {name!r}"
        if not (isinstance(mass, int | float) and mass == 0 and np.any(np.asarray(inertia, object) != 0)):
            self.book.positive(mass, part, "mass")  # inertia without mass is a flywheel whose mass is counted elsewhere
        if not self.spatial:
            if isinstance(inertia, Sequence | np.ndarray):
                raise BadValue(
                    f"{part}: inertia is {inertia!r}; a planar machine takes one number, the moment about z in kg m2; "
                    "with spatial=True it takes three or a tensor",
                    given=inertia,
                )
            self.book.number(inertia, f"{part}: inertia", lowest=0.0)
        tensor = inertia_tensor(inertia, self.spatial, part)
        if not tensor.is_constant():
            self.book.checks.append((part, "inertia", tensor if self.spatial else tensor[2, 2]))
        link = Link(name, mass, point_of(com, self.spatial, part), tensor, self.spatial)
        self.book.known_symbols(part, SX(vector(mass)), link.com, link.inertia)
        self.links[name] = link
        return link

    def massless(self, name: str) -> Link:
        """Add a link without mass: moved by a joint with a `motion`, with something heavy further out, or in a loop."""
        self.book.new_name("link", name, self.links)
        self.links[name] = Link(name, 0.0, SX(3, 1), SX(3, 3), self.spatial)
        return self.links[name]

    def rod(self, name: str, *, mass: Number, length: Number, radius: Number = 0.0) -> Link:
        """Add a uniform rod along x from its start to its end; centre of mass and inertia follow."""
        self.book.new_name("link", name, self.links)
        part = f"rod {name!r}"
        self.book.positive(mass, part, "mass")
        self.book.positive(length, part, "length")
        self.book.number(radius, f"{part}: radius", lowest=0.0)
        across = mass * (length * length / 12 + radius * radius / 4)
        along = mass * (radius * radius) / 2
        tensor = inertia_tensor((along, across, across) if self.spatial else across, self.spatial, part)
        link = Link(name, mass, vector(length / 2, 0, 0), tensor, self.spatial, length=length)
        self.book.known_symbols(part, link.com, link.inertia)
        self.links[name] = link
        return link

    def point(self, name: str, frame: Frame) -> Frame:
        """Give a frame a name, by which trajectories, plots and contacts know it."""
        self.book.new_name("point", name, self.points)
        self._mine(frame, f"point {name!r}")
        self.points[name] = frame
        return frame

    # ---- joints -------------------------------------------------------------------------------------------------

    def revolute(self, name: str, a: Any, b: Any, *, axis: Any = "z", motor: Any = None, motion: Any = None) -> Joint:
        """Pin b to a: one turn about `axis` (rad)."""
        return self._join(name, "revolute", a, b, joints.revolute(axis, f"joint {name!r}"), motor, motion)

    def slide(self, name: str, a: Any, b: Any, *, axes: Any = "x", motor: Any = None, motion: Any = None) -> Joint:
        """Let b slide along one or more `axes` of a, such as "xy" (m); it does not turn."""
        return self._join(name, "slide", a, b, joints.slide(axes, f"joint {name!r}"), motor, motion)

    def universal(
        self, name: str, a: Any, b: Any, *, axes: Any = ("x", "y"), motor: Any = None, motion: Any = None
    ) -> Joint:
        """Two turns alpha, beta about perpendicular axes (rad)."""
        return self._join(name, "universal", a, b, joints.universal(axes, f"joint {name!r}"), motor, motion)

    def bend(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        length: Number,
        along: Any = "x",
        towards: Any = "y",
        fraction: float = 1.0,
        turns: bool = True,
        motor: Any = None,
        motion: Any = None,
    ) -> Joint:
        """Join by an inextensible segment of constant curvature and `length` (m), without mass of its own.

        It leaves a `along` an axis and bends by angles (rad) `towards` one or two others, as in "yz"; b sits at
        the given `fraction` of its length and turns with it, or (`turns=False`, enough for a point mass) keeps a's
        orientation. A straight segment is a state like any other.
        """
        part = f"joint {name!r}"
        self.book.positive(length, part, "length")
        primitives = joints.bend(vector(length), along, towards, fraction, turns, part)
        return self._join(name, "bend", a, b, primitives, motor, motion)

    def motion(self, name: str, value: Number) -> SX:
        """Declare a motion given in time, an expression of `m.time` and Params, for joints to share as their `motion`.

        Runs report the effort it takes as `run.motion_efforts[name]` and its work in the energy account.
        """
        expression = vector(value)
        self.book.known_symbols(f"motion {name!r}", expression, state=True)
        moving = ca.vertcat(SX(0, 1), *self.book.q.values(), *self.book.v.values(), *self.inputs.values())
        if ca.depends_on(expression, moving):
            raise BadModel(f"motion {name!r} uses the state; it is a function of m.time and Params", name=name)
        return self._given(name, expression)

    def move(self, coordinate: str, value: Number) -> Constraint:
        """Give a coordinate's motion, `value` an expression of `m.time` and Params; the rest of the machine reacts.

        Runs report the effort it takes as `run.motion_efforts[coordinate]` and its work in the energy account.
        """
        name = "motion_" + coordinate.replace(".", "_")
        self.constraint(name, self.q[coordinate] - vector(value))
        self.constraints[name] = replace(self.constraints[name], moves=coordinate)
        return self.constraints[name]

    def _given(self, name: str, expression: SX) -> SX:
        if name in self.motions:
            raise DuplicateName(f"motion {name!r} exists already in {self.name!r}; choose another name", name=name)
        given = GivenMotion(name, SX.sym(f"slack_{name}"), ca.densify(ca.jtimes(expression, self.time, SX(1))))
        self.motions[name] = given
        return expression + given.symbol

    def spherical(self, name: str, a: Any, b: Any) -> Joint:
        """Ball joint: unit quaternion in q, angular velocity in b's frame in v (rad/s)."""
        return self._join(name, "spherical", a, b, (Ball(),), None, None)

    def weld(self, name: str, a: Any, b: Any) -> Joint:
        """Fix b to a."""
        return self._join(name, "weld", a, b, (), None, None)

    def planar(self, name: str, a: Any, b: Any, *, normal: Any = "z") -> Joint:
        """Float in a plane: two shifts (m) across `normal` and a turn (rad) about it."""
        return self._join(name, "planar", a, b, joints.planar(normal, f"joint {name!r}"), None, None)

    def free(self, name: str, a: Any, b: Any, *, rotation: str = "quaternion") -> Joint:
        """Float: position in a's axes (m) and rotation, a unit quaternion or an Euler chain such as "zyx".

        In a planar machine this is x, y and angle.
        """
        if not self.spatial:
            return self.planar(name, a, b)
        return self._join(name, "free", a, b, joints.free(rotation, f"joint {name!r}"), None, None)

    def constraint(self, name: str, phi: Any) -> Constraint:
        """Require phi(q, t) = 0, an expression (or several) of `m.q`, `m.position(...)`, `m.time` and Params."""
        self.book.new_name("constraint", name, {**self.constraints, **self.joints})
        try:
            expression: SX = ca.vertcat(SX(0, 1), *phi) if isinstance(phi, list | tuple) else SX(phi)
        except NotImplementedError:
            raise BadValue(f"constraint {name!r}: {phi!r} is no expression of coordinates", given=phi) from None
        self.book.known_symbols(f"constraint {name!r}", expression, state=True)
        self.book.without_rates(f"constraint {name!r}", expression)
        moved = ca.which_depends(expression, ca.vertcat(SX(0, 1), *self.book.q.values()), 1, True)
        if not moved or not all(moved):
            row = f" in row {moved.index(False) + 1}" if len(moved) > 1 else ""
            raise BadModel(
                f"constraint {name!r} depends on no coordinate{row}; write it with m.q.NAME or m.position(point)",
                name=name,
            )
        self.constraints[name] = Constraint(name, expression)
        return self.constraints[name]

    def _join(
        self, name: str, kind: str, a: Any, b: Any, primitives: tuple[joints.Primitive, ...], motor: Any, motion: Any
    ) -> Joint:
        self.book.new_name("joint", name, {**self.joints, **self.constraints})
        a, b = self._frame(a, name), self._frame(b, name)
        if a.link is b.link:
            raise BadModel(
                f"joint {name!r} joins link {a.link.name!r} to itself; give points of two different links", joint=name
            )
        if not self.spatial and joints.leaves_plane(primitives):
            raise BadModel(
                f"joint {name!r}: such a {kind} joint leaves the plane of {self.name!r}, in which links turn about z "
                "and slide along x and y; make the machine with spatial=True",
                joint=name,
            )
        if motor is True:
            motor = Motor()
        if isinstance(motor, Motor):
            for quantity in POSITIVE:
                if getattr(motor, quantity) is not None:
                    self.book.positive(getattr(motor, quantity), f"motor on joint {name!r}", quantity)
            if isinstance(motor.gear, Param | SX):
                self.book.positive(motor.gear, f"motor on joint {name!r}", "gear")
            self.book.number(motor.gear, f"motor on joint {name!r}: gear")
            self.book.number(motor.rotor_inertia, f"motor on joint {name!r}: rotor_inertia", lowest=0.0)
        elif motor not in (None, False):
            raise BadValue(f"joint {name!r}: motor takes True or a Motor(...), not {motor!r}", given=motor)
        if isinstance(motor, Motor) and motor != motor.rigid:
            return self._driven_through(motor, Joint(name, kind, a, b, primitives))
        joint = Joint(name, kind, a, b, primitives, motor or None)
        if motion is not None:
            joint = replace(joint, motion=self._motion_of(joint, motion))
        self.tree.add(joint)
        return joint

    def _driven_through(self, motor: Motor, joint: Joint) -> Joint:
        """Give a joint a motor with friction, and a rotor of its own where a spring or play is between the two."""
        name, soft = joint.name, motor.stiffness is not None or motor.backlash is not None
        if len(joint.v_names) != 1:
            raise BadModel(
                f"motor on {joint.title}: friction, stiffness and backlash belong to a joint with one motion",
                joint=name,
            )
        if not soft:
            self.tree.add(replace(joint, motor=motor.rigid))
        elif isinstance(motor.rotor_inertia, int | float) and motor.rotor_inertia == 0:
            raise BadValue(
                f"motor on joint {name!r}: what is behind a spring or play needs inertia; give rotor_inertia (kg m2)"
            )
        else:
            twist, rotor = f"{name}_twist", self.massless(f"{name}_rotor").origin
            self.tree.add(replace(joint, b=rotor, motor=motor.rigid))
            self.book.new_name("joint", twist, {**self.joints, **self.constraints})
            self.tree.add(replace(joint, name=twist, a=rotor))
            if motor.backlash is None:
                self.joint_spring(f"{name}_spring", twist, stiffness=motor.stiffness, damping=motor.damping or 0.0)
            else:
                self.stop(twist, lower=motor.backlash * -0.5, upper=motor.backlash * 0.5, stiffness=motor.stiffness)
        if motor.friction is not None:
            gear = motor.gear  # one that is no number is above zero
            self.rub(name, (abs(gear) if isinstance(gear, int | float) else gear) * motor.friction)
        return self.joints[name]

    def _motion_of(self, joint: Joint, motion: Any) -> tuple[SX, ...]:
        """Expressions of a joint's motion; one that depends on time and has no name gets that of its coordinate."""
        given = motion if isinstance(motion, list | tuple) else [motion]
        if len(given) != len(joint.q_names):
            raise BadValue(
                f"joint {joint.name!r}: motion takes {len(joint.q_names)} expression(s), {len(given)} given",
                given=motion,
            )
        expressions = tuple(vector(e) for e in given)
        slack = ca.vertcat(SX(0, 1), *[d.symbol for d in self.motions.values()])
        plain = ca.substitute(list(expressions), [slack], [SX.zeros(slack.numel())])
        self.book.known_symbols(f"joint {joint.name!r}: motion", *plain, state=True)
        self.book.without_rates(f"joint {joint.name!r}: motion", *plain)
        return tuple(
            self._given(name, e) if ca.depends_on(e, self.time) and not ca.depends_on(e, slack) else e
            for name, e in zip(joint.q_names, expressions, strict=True)
        )

    def motor_of(self, name: str) -> Motor | None:
        """Motor that an input commands; None for inputs of the user's own."""
        joint = self.joints.get(name.split(".")[0])
        return joint.motor if joint is not None and name in joint.v_names else None

    # ---- coordinates --------------------------------------------------------------------------------------------

    @property
    def turns(self) -> list[str]:
        """Names of the position coordinates that are angles of a turn, the same after a full one."""
        out = []
        for placement in self.placements:
            joint = placement.joint
            if joint.motion is None and not any(isinstance(p, Ball | joints.Bend) for p in joint.primitives):
                out += [n for n, p in zip(joint.q_names, joint.primitives, strict=True) if isinstance(p, joints.Turn)]
        return out

    @property
    def q(self) -> Named:
        """Position coordinates as named symbols (rad, m)."""
        return Named(list(self.book.q), list(self.book.q.values()))

    @property
    def v(self) -> Named:
        """Velocity coordinates as named symbols (rad/s, m/s)."""
        return Named(list(self.book.v), list(self.book.v.values()), "velocity")

    @property
    def q_names(self) -> list[str]:
        """Names of the position coordinates, in order."""
        return list(self.book.q)

    @property
    def v_names(self) -> list[str]:
        """Names of the velocity coordinates, in order."""
        return list(self.book.v)

    @property
    def floating_body(self) -> Link:
        """Link that a free or planar joint joins to the ground."""
        for placement in self.placements:
            if placement.parent is self.ground and placement.joint.kind in ("free", "planar"):
                return placement.child
        raise BadValue(
            f"{self.name!r} has no body that floats; join one to the ground with m.free(...) or m.planar(...)"
        )

    def position(self, point: Frame | str) -> SX:
        """World position of a point as an expression (m): (x, y) in the plane, (x, y, z) in 3D."""
        world = ca.densify(Kinematics(self).position(self.frame(point)))
        return world if self.spatial else world[:2]

    def check(self) -> None:
        """Raise BadModel unless every link hangs together with the ground and something heavy moves."""
        self.tree.check(self.links, {name for name, _ in self.reflected})

    @property
    def idle(self) -> set[str]:
        """Links that joints move without moving anything heavy, by name."""
        return {x.child.name for x in self.tree.idle(self.links, {name for name, _ in self.reflected})}

    # ---- configurations -----------------------------------------------------------------------------------------

    @unchanged
    def assemble(
        self,
        *,
        near: Mapping[str, Any] | State | None = None,
        rates: Mapping[str, Any] | None = None,
        params: Mapping[str, float] | None = None,
        time: float | None = None,
        **fixed: Any,
    ) -> State[Mechanism]:
        """Close all loops with the given coordinates held, the others free to move from `near`.

        `near` is a rough guess by name, which picks the branch: coordinates without a guess follow those that have
        one. Or it is a State: then its branch is followed to the new values. Numbers may be expressions of Params,
        which take the values of the state's.

        `rates` holds velocities; those not given follow from the loops, or are zero where they are free. Motions given
        in time are those at `time` (s): that of the state `near`, or zero.
        """
        when = float(time) if time is not None else near.time if isinstance(near, State) else 0.0
        a, p = assembler(self).at(when), self.values(params)
        fixed, rates = self._numbers(fixed, p), self._numbers(rates or {}, p)
        if not isinstance(near, Mapping | State | None):
            raise BadValue(f"near is {near!r}; give a guess by name, near={{'knee': 1.5}}, or a State", given=near)
        near = near if isinstance(near, State) else self._numbers(near or {}, p)
        self._hint_at_degrees({**(near if isinstance(near, Mapping) else {}), **fixed})
        if isinstance(near, State):
            if near.mechanism is not self:
                raise BadValue(f"near is a state of {near.mechanism.name!r}, not of {self.name!r}")
            q, v = a.from_neighbour(fixed, near.positions, near.p, rates, p)
        else:
            q, v = a.assemble(fixed, near, rates, p)
        return State(self, q, v, dict(zip(self.params, p.tolist(), strict=True)), time=when)

    def _numbers(self, given: Mapping[str, Any], p: np.ndarray) -> dict[str, Any]:
        """Coordinates by name, with the values that expressions of Params among them have."""

        def value(name: str, x: Any) -> Any:
            if isinstance(x, list | tuple):
                return [value(name, one) for one in x]
            if not isinstance(x, Param | SX):
                return x
            self.book.known_symbols(f"coordinate {name!r}", SX(x))
            found = ca.Function("value", [self.p], [SX(x)])(p).full().ravel()
            return found if len(found) > 1 else float(found[0])

        return {name: value(name, x) for name, x in given.items()}

    def _hint_at_degrees(self, given: Mapping[str, Any]) -> None:
        """Warn of angles beyond a turn, which are mostly degrees if somebody typed them: with a digit or two behind."""
        for name in self.turns:
            if not isinstance(angle := given.get(name), int | float | np.number):
                continue
            if abs(float(angle)) > math.tau and round(float(angle), 2) == float(angle):
                warnings.warn(f"{name} = {angle:g} of {self.name!r} {in_radians(float(angle))}", stacklevel=4)

    @unchanged
    def branches(self, *, params: Mapping[str, float] | None = None, **fixed: Any) -> list[State[Mechanism]]:
        """All ways to close the loops with the given coordinates held, which must use up the freedom."""
        a, p = assembler(self), self.values(params)
        numbers = dict(zip(self.params, p.tolist(), strict=True))
        return [State(self, q, np.zeros(a.nv), numbers) for q in branches(a, p, self._numbers(fixed, p))]

    def keyframe(self, name: str, **overrides: Any) -> State[Mechanism]:
        """Assemble one of the machine's own named configurations."""
        if name not in self.keyframes:
            raise UnknownName("keyframe", name, self.keyframes)
        own = self.keyframes[name]
        if not isinstance(own, Mapping):
            raise BadValue(
                f"keyframe {name!r} is {own!r}; give what m.assemble takes, such as {{'hip': 0.3}}", given=own
            )
        params = {**(own.get("params") or {}), **(overrides.get("params") or {})}
        return self.assemble(**{**own, **overrides, "params": params})

    def __repr__(self) -> str:
        parts = {"link": len(self.links) - 1, "joint": len(self.joints), "loop": len(self.loops)}
        counts = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in parts.items())
        v = len(self.book.v)
        return f"Mechanism({self.name!r}: {counts}, {v} {'velocity' if v == 1 else 'velocities'})"
