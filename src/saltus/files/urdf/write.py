"""URDF out, with an extension for loops that other readers pass over.

URDF is a tree. Loops stand beside it as
<loop name="pin" type="revolute"><a link="rocker" xyz="..." rpy="..."/><b .../><axis xyz="0 0 1"/></loop>,
gravity and the plane of planar machines as <saltus plane="xz" gravity="0 0 -9.81"/>, both children of <robot>: a planar
machine stands upright in x and z, so that readers who know nothing of it see gravity along -z.
Joints with several motions are chains of joints with massless links between. A joint that follows others linearly
is a <mimic>; joint damping is <dynamics>, a spring <spring>, rotor inertia an attribute of <motor> (extensions).
Feet are spheres of <collision> with the friction of their link as Bullet has it, stops <limit>s, dry friction is that
of <dynamics>, and keyframes are <group_state>s, as in an SRDF.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saltus.files.xml.contacts import POINT, ends, named, unheld
from saltus.files.xml.found import FAR
from saltus.files.xml.rigid import IDENTITY, UPRIGHT, Numeric, Pose, from_rpy, to_rpy, turn
from saltus.files.xml.tree import Element, numbers, text_of
from saltus.model.forces import JointSpring, Spring
from saltus.model.joints import Ball, Shift, Turn
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.touching import Foot, Rub, Stop, Touching


def urdf_tree(mechanism: Mechanism) -> tuple[Element, list[str]]:
    """The document, and what it has no element for."""
    return _Writer(mechanism).document()


class _Writer:
    def __init__(self, m: Mechanism) -> None:
        self.m, self.n, self.left = m, Numeric(m), []  # type: Mechanism, Numeric, list[str]
        self.own: dict[str, Pose] = {
            "ground": IDENTITY
        }  # URDF's frame of a link, which is its joint's, in the link's own

    def document(self) -> tuple[Element, list[str]]:
        m = self.m
        root = self.root = Element("robot", {"name": m.name})
        root.add("saltus", plane=None if m.spatial else "xz", gravity=self.turned @ self.n.array(m.gravity).ravel())
        root.add("link", name="ground")
        self.joints: dict[str, Element] = {}
        self.links: dict[str, Element] = {}
        for placement in m.placements:
            self._placed(placement)
        for name, frame in m.points.items():
            if isinstance(m.touching.get(name), Foot):
                continue  # its sphere has the name
            self._origin(root.add("point", name=name, link=frame.link.name), self._seen(frame))
        for joint in m.loops:
            self._loop(joint)
        for name in m.constraints:
            self.left.append(f"constraint {name!r}")
        for name, force in m.forces.items():
            self._force(name, force)
        for touching in m.touching.values():
            self._touching(touching)
        self._keyframes()
        self.left += [f"memory {n!r}" for n in m.memories]
        self.left += [f"armature of {n!r}" for n in m.armatures]
        motors = {n for j in m.joints.values() if j.motor for n in j.v_names}
        self.left += [f"input {n!r}" for n in m.inputs if n not in motors]
        return root, self.left

    @property
    def turned(self) -> np.ndarray:
        """From our axes to the file's, in which z is up."""
        return np.eye(3) if self.m.spatial else UPRIGHT.R

    def _filed(self, pose: Pose) -> Pose:
        """A pose between links in the file's axes."""
        return pose if self.m.spatial else UPRIGHT @ pose @ UPRIGHT.inverse

    def _origin(self, element: Element, pose: Pose) -> None:
        _origin(element, self._filed(pose))

    def _seen(self, frame: Frame) -> Pose:
        return self.own[frame.link.name].inverse @ self.n.pose(frame)

    def _placed(self, placement: Any) -> None:
        joint, link = placement.joint, placement.child
        near, far = (joint.b, joint.a) if placement.reversed else (joint.a, joint.b)
        here = self._seen(near)
        self.own[link.name] = self.n.pose(far)
        primitives, names, sign = list(joint.primitives), list(joint.v_names), 1.0
        motion = [self.n.affine(e) for e in joint.motion] if joint.motion is not None else None
        if placement.reversed:
            primitives, names, sign = primitives[::-1], names[::-1], -1.0
            motion = motion[::-1] if motion is not None else None
        parent = placement.parent.name
        if any(isinstance(p, Ball) for p in primitives):
            self._floating(joint, primitives, parent, here, link.name, placement.reversed)
        elif not all(isinstance(p, Turn | Shift) for p in primitives):
            self.left.append(f"joint {joint.name!r}: a bend, which is no rigid joint")
            self._tag(joint.name, "fixed", parent, link.name, here)
        elif not primitives:
            self._tag(joint.name, "fixed", parent, link.name, here)
        for i, p in enumerate(primitives if all(isinstance(p, Turn | Shift) for p in primitives) else ()):
            last = i == len(primitives) - 1
            child = link.name if last else f"{link.name}.{names[i].split('.')[-1]}"
            if not last:
                self.root.add("link", name=child)
            tag = self._tag(names[i], "continuous" if isinstance(p, Turn) else "prismatic", parent, child, here)
            tag.add("axis", xyz=self.turned @ (sign * np.array(p.axis)))
            if motion is not None:
                self._mimic(tag, joint, motion[i])
            self._limits(tag, joint, isinstance(p, Shift))
            self.joints[names[i]] = tag
            parent, here = child, IDENTITY
        self._link(link)

    def _tag(self, name: str, kind: str, parent: str, child: str, pose: Pose) -> Element:
        tag = self.root.add("joint", name=name, type=kind)
        self._origin(tag, pose)
        tag.add("parent", link=parent)
        tag.add("child", link=child)
        return tag

    def _floating(self, joint: Any, primitives: list[Any], parent: str, here: Pose, child: str, reverse: bool) -> None:
        floats = joint.kind == "free" and not reverse
        if not floats:
            self.left.append(f"joint {joint.name!r}: a ball joint" + (" written child first" if reverse else ""))
        self._tag(joint.name, "floating" if floats else "fixed", parent, child, here)

    def _mimic(self, tag: Element, joint: Any, given: Any) -> None:
        if given is None or len(given[1]) > 1:
            self.left.append(f"joint {joint.name!r}: `motion` that is not linear in one coordinate")
            return
        constant, coefficients = given
        name, factor = next(iter(coefficients.items()), ("", 0.0))
        if name:
            tag.add("mimic", joint=name, multiplier=factor, offset=constant)
        else:
            tag.attributes["type"] = "fixed"
            axis = numbers(tag.children[-1], "xyz", "", 3)
            moved = Pose(turn(axis, constant), np.zeros(3))
            if any(isinstance(p, Shift) for p in joint.primitives):
                moved = Pose(np.eye(3), constant * axis)
            origin = tag.children[0]
            whole = Pose(from_rpy(numbers(origin, "rpy", "0 0 0", 3)), numbers(origin, "xyz", "0 0 0", 3)) @ moved
            tag.children = [c for c in tag.children[1:] if c.tag != "axis"]
            _origin(tag, whole)

    def _limits(self, tag: Element, joint: Any, slides: bool) -> None:
        motor = joint.motor
        if motor is None:
            if slides:
                tag.add("limit", lower=-FAR, upper=FAR, effort=0, velocity=FAR)
            return
        gear = self.n.value(motor.gear)
        effort = abs(gear) * self.n.value(motor.torque) if motor.torque is not None else FAR
        speed = self.n.value(motor.speed) / abs(gear) if motor.speed is not None else FAR
        tag.add("limit", lower=-FAR if slides else None, upper=FAR if slides else None, effort=effort, velocity=speed)
        for what in ("power", "stall", "current"):
            if getattr(motor, what) is not None:
                self.left.append(f"motor {joint.name!r}: its {what} limit")
        tag.add(
            "motor",
            limited=motor.torque is not None,
            speed_limited=motor.speed is not None,
            gear=gear,
            rotor_inertia=self.n.value(motor.rotor_inertia),
        )

    def _link(self, link: Any) -> None:
        mass = self.n.mass(link)
        tag = self.links[link.name] = self.root.add("link", name=link.name)
        if mass.mass > 0 or mass.inertia.any():
            seen = mass.moved(self.own[link.name].inverse).moved(Pose(self.turned, np.zeros(3)))
            inertial = tag.add("inertial")
            _origin(inertial, Pose(np.eye(3), seen.com))
            inertial.add("mass", value=seen.mass)
            i = seen.inertia
            inertial.add("inertia", ixx=i[0, 0], ixy=i[0, 1], ixz=i[0, 2], iyy=i[1, 1], iyz=i[1, 2], izz=i[2, 2])

    def _loop(self, joint: Any) -> None:
        tag = self.root.add("loop", name=joint.name, type=joint.kind)
        for side, frame in (("a", joint.a), ("b", joint.b)):
            end = tag.add(side, link=frame.link.name)
            seen = self._filed(self._seen(frame))
            end.attributes |= {"xyz": _text(seen.p), "rpy": _text(to_rpy(seen.R))}
        for p in joint.primitives:
            if isinstance(p, Turn | Shift):
                tag.add("axis", xyz=self.turned @ np.array(p.axis))
        if joint.motor is not None:
            self.left.append(f"motor {joint.name!r} on a joint that closes a loop")

    def _force(self, name: str, force: Any) -> None:
        if isinstance(force, JointSpring) and force.coordinate in self.joints:
            tag = self.joints[force.coordinate]
            part(tag, "dynamics").attributes["damping"] = text_of(self.n.value(force.damping))
            tag.add("spring", name=name, stiffness=self.n.value(force.stiffness), rest=self.n.value(force.rest))
        elif isinstance(force, Spring):
            tag = self.root.add(
                "spring",
                name=name,
                stiffness=self.n.value(force.stiffness),
                length=self.n.value(force.length),
                damping=self.n.value(force.damping),
            )
            for side, frame in (("a", force.a), ("b", force.b)):
                tag.add(side, link=frame.link.name, xyz=self.turned @ self._seen(frame).p)
        else:
            self.left.append(f"{type(force).__name__.lower()} {name!r}")

    def _touching(self, touching: Touching) -> None:
        self.left += unheld(touching, self.n)
        if isinstance(touching, Foot):
            self._foot(touching)
        elif isinstance(touching, Rub) and touching.coordinate in self.joints:
            dynamics = part(self.joints[touching.coordinate], "dynamics")
            dynamics.attributes["friction"] = text_of(self.n.value(touching.effort))
        elif isinstance(touching, Stop) and touching.coordinate in self.joints:
            tag = self.joints[touching.coordinate]
            tag.attributes["type"] = "revolute" if tag.get("type") == "continuous" else tag.get("type")
            low, high = map(text_of, ends(touching, self.n))
            limit = part(tag, "limit")
            limit.attributes = (
                {"effort": "0", "velocity": text_of(FAR)} | limit.attributes | {"lower": low, "upper": high}
            )
        else:
            self.left.append(named(touching))

    def _foot(self, foot: Foot) -> None:
        tag = self.links[foot.point.link.name]
        shape = tag.add("collision", name=foot.name)
        self._origin(shape, self._seen(foot.point))
        shape.add("geometry").add("sphere", radius=self.n.value(foot.radius) or POINT)
        if foot.friction is not None:
            friction = part(part(tag, "contact"), "lateral_friction")
            own = text_of(self.n.value(foot.friction))
            if friction.attributes.setdefault("value", own) != own:
                self.left.append(f"{named(foot)}: a friction other than that of the other feet of its link")

    def _keyframes(self) -> None:
        """Positions by joint; of one that floats, place and quaternion, scalar last."""
        m = self.m
        given = {n for n, tag in self.joints.items() if tag.get("type") != "fixed" and tag.first("mimic") is None}
        floating = {j.name: list(j.q_names) for j in m.joints.values() if j.kind == "free" and j.name not in given}
        for name in m.keyframes:
            state = m.keyframe(name)
            if not np.array_equal(state.p, self.n.p):
                self.left.append(f"keyframe {name!r}, which has Params of its own")
                continue
            if state.velocities.any():
                self.left.append(f"keyframe {name!r}: its velocities")
            q = dict(zip(m.q_names, state.positions, strict=True))
            tag = self.root.add("group_state", name=name, group="all")
            for joint, (*place, w, x, y, z) in floating.items():
                tag.add("joint", name=joint, value=np.array([q[n] for n in (*place, x, y, z, w)]))
            for coordinate in (n for n in m.q_names if n in given):
                tag.add("joint", name=coordinate, value=q[coordinate])


def part(element: Element, tag: str) -> Element:
    """The part of an element with a tag, made where it is missing."""
    return element.first(tag) or element.add(tag)


def _origin(element: Element, pose: Pose) -> None:
    element.children.insert(0, Element("origin", {"xyz": _text(pose.p), "rpy": _text(to_rpy(pose.R))}))


def _text(v: np.ndarray) -> str:
    return " ".join(repr(float(x) + 0.0) for x in v)
