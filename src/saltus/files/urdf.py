"""URDF in and out, with an extension for loops that other readers pass over.

URDF is a tree. Loops stand beside it as
<loop name="pin" type="revolute"><a link="rocker" xyz="..." rpy="..."/><b .../><axis xyz="0 0 1"/></loop>,
gravity and the plane of planar machines as <saltus plane="xy" gravity="0 -9.81 0"/>, both children of <robot>.
Joints with several motions are chains of joints with massless links between. A joint that follows others linearly
is a <mimic>; joint damping is <dynamics>, a spring <spring>, rotor inertia an attribute of <motor> (extensions).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saltus.errors import BadFile
from saltus.files.rigid import IDENTITY, Numeric, Pose, from_rpy, to_rpy, turn
from saltus.files.xmltree import Element, Left, Names, numbers
from saltus.model.forces import JointSpring, Spring
from saltus.model.joints import Ball, Shift, Turn
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor

# ---- out ----------------------------------------------------------------------------------------------------------


def urdf_tree(mechanism: Mechanism) -> tuple[Element, list[str]]:
    """The document, and what it has no element for."""
    return _Writer(mechanism).document()


class _Writer:
    def __init__(self, m: Mechanism) -> None:
        self.m, self.n, self.left = m, Numeric(m), []  # type: Mechanism, Numeric, list[str]
        self.own: dict[str, Pose] = {"ground": IDENTITY}  # URDF's frame of a link, which is its joint's, in the link's own

    def document(self) -> tuple[Element, list[str]]:
        m = self.m
        root = self.root = Element("robot", {"name": m.name})
        root.add("saltus", plane=None if m.spatial else "xy", gravity=self.n.array(m.gravity).ravel())
        root.add("link", name="ground")
        self.joints: dict[str, Element] = {}
        for placement in m.placements:
            self._placed(placement)
        for name, frame in m.points.items():
            _origin(root.add("point", name=name, link=frame.link.name), self._seen(frame))
        for joint in m.loops:
            self._loop(joint)
        for name in m.constraints:
            self.left.append(f"constraint {name!r}")
        for name, force in m.forces.items():
            self._force(name, force)
        motors = {n for j in m.joints.values() if j.motor for n in j.v_names}
        self.left += [f"input {n!r}" for n in m.inputs if n not in motors]
        return root, self.left

    def _seen(self, frame: Frame) -> Pose:
        return self.own[frame.link.name].inverse @ self.n.pose(frame)

    def _placed(self, placement: Any) -> None:
        joint, link = placement.joint, placement.child
        near, far = (joint.b, joint.a) if placement.reversed else (joint.a, joint.b)
        here = self._seen(near)
        self.own[link.name] = self.n.pose(far)
        primitives, names, sign = list(joint.primitives), list(joint.v_names), 1.0
        follows = [self.n.affine(e) for e in joint.follows] if joint.follows is not None else None
        if placement.reversed:
            primitives, names, sign = primitives[::-1], names[::-1], -1.0
            follows = follows[::-1] if follows is not None else None
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
            tag.add("axis", xyz=sign * np.array(p.axis))
            if follows is not None:
                self._mimic(tag, joint, follows[i])
            self._limits(tag, joint, isinstance(p, Shift))
            self.joints[names[i]] = tag
            parent, here = child, IDENTITY
        self._link(link)

    def _tag(self, name: str, kind: str, parent: str, child: str, pose: Pose) -> Element:
        tag = self.root.add("joint", name=name, type=kind)
        _origin(tag, pose)
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
            self.left.append(f"joint {joint.name!r}: `follows` that is not linear in one coordinate")
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
                tag.add("limit", lower=-1e6, upper=1e6, effort=0, velocity=1e6)
            return
        gear = self.n.value(motor.gear)
        effort = gear * self.n.value(motor.torque) if motor.torque is not None else 1e6
        speed = self.n.value(motor.speed) / gear if motor.speed is not None else 1e6
        tag.add("limit", lower=-1e6 if slides else None, upper=1e6 if slides else None, effort=effort, velocity=speed)
        if motor.power is not None:
            self.left.append(f"motor {joint.name!r}: its power limit")
        tag.add("motor", limited=motor.torque is not None, speed_limited=motor.speed is not None, gear=gear,
                rotor_inertia=self.n.value(motor.rotor_inertia))

    def _link(self, link: Any) -> None:
        mass = self.n.mass(link)
        tag = self.root.add("link", name=link.name)
        if mass.mass > 0:
            seen = mass.moved(self.own[link.name].inverse)
            inertial = tag.add("inertial")
            _origin(inertial, Pose(np.eye(3), seen.com))
            inertial.add("mass", value=seen.mass)
            i = seen.inertia
            inertial.add("inertia", ixx=i[0, 0], ixy=i[0, 1], ixz=i[0, 2], iyy=i[1, 1], iyz=i[1, 2], izz=i[2, 2])

    def _loop(self, joint: Any) -> None:
        tag = self.root.add("loop", name=joint.name, type=joint.kind)
        for side, frame in (("a", joint.a), ("b", joint.b)):
            end = tag.add(side, link=frame.link.name)
            seen = self._seen(frame)
            end.attributes |= {"xyz": _text(seen.p), "rpy": _text(to_rpy(seen.R))}
        for p in joint.primitives:
            if isinstance(p, Turn | Shift):
                tag.add("axis", xyz=np.array(p.axis))
        if joint.motor is not None:
            self.left.append(f"motor {joint.name!r} on a joint that closes a loop")

    def _force(self, name: str, force: Any) -> None:
        if isinstance(force, JointSpring) and force.coordinate in self.joints:
            tag = self.joints[force.coordinate]
            tag.add("dynamics", damping=self.n.value(force.damping))
            tag.add("spring", name=name, stiffness=self.n.value(force.stiffness), rest=self.n.value(force.rest))
        elif isinstance(force, Spring):
            tag = self.root.add("spring", name=name, stiffness=self.n.value(force.stiffness),
                                length=self.n.value(force.length), damping=self.n.value(force.damping))
            for side, frame in (("a", force.a), ("b", force.b)):
                tag.add(side, link=frame.link.name, xyz=self._seen(frame).p)
        else:
            self.left.append(f"{type(force).__name__.lower()} {name!r}")


def _origin(element: Element, pose: Pose) -> None:
    element.children.insert(0, Element("origin", {"xyz": _text(pose.p), "rpy": _text(to_rpy(pose.R))}))


def _text(v: np.ndarray) -> str:
    return " ".join(repr(float(x) + 0.0) for x in v)


# ---- in -----------------------------------------------------------------------------------------------------------


def urdf_mechanism(root: Element, file: str) -> tuple[Mechanism, tuple[str, ...]]:
    """The mechanism, and what of the file it does not hold."""
    reader = _Reader(root, file)
    return reader.read(), tuple(reader.left.notes)


class _Reader:
    def __init__(self, root: Element, file: str) -> None:
        self.root, self.file, self.left = root, file, Left(file)
        extra = root.first("saltus") or Element("saltus", {})
        plane = extra.get("plane") == "xy"
        gravity = numbers(extra, "gravity", "0 0 -9.81", 3, file)
        self.m = Mechanism(root.get("name", "robot"), spatial=not plane, gravity=list(gravity[:2] if plane else gravity))
        self.names, self.joint_names = Names(), Names()
        self.links: dict[str, str] = {}
        self.joints: dict[str, str] = {}

    def read(self) -> Mechanism:
        """Read links, joints, loops and springs."""
        for e in self.root.children:
            if e.tag not in ("link", "joint", "material", "saltus", "loop", "point", "spring", "transmission", "gazebo"):
                self.left.out(e, f"element <{e.tag}>")
            elif e.tag == "gazebo":
                self.left.out(e, "element <gazebo>")
        links = {e.get("name"): e for e in self.root.all("link")}
        joints = list(self.root.all("joint"))
        children = {self._of(j, "child", links) for j in joints}
        roots = [n for n in links if n not in children]
        if len(roots) != 1:
            raise BadFile(f"{self.file}: a URDF has one root link, this one has {len(roots)}", file=self.file)
        root = roots[0]
        bare = links[root].first("inertial") is None
        self.links[root] = "ground" if bare else self._link(links[root])
        if not bare:
            self.m.free(self.joint_names.new("base", "base"), self.m.ground, self.m.links[self.links[root]])
        waiting, placed = joints, {root}
        while waiting:
            j = next((j for j in waiting if self._of(j, "parent", links) in placed), None)
            if j is None:
                names = ", ".join(j.get("name") for j in waiting)
                raise BadFile(f"{self.file}:{waiting[0].line}: joints {names} hang on no placed link (a cycle?); loops are "
                              "<loop> elements", file=self.file, line=waiting[0].line)
            waiting.remove(j)
            child = self._of(j, "child", links)
            if child in placed:
                raise BadFile(f"{self.file}:{j.line}: link {child!r} has two parents", file=self.file, line=j.line)
            self.links[child] = self._link(links[child])
            placed.add(child)
            self._joint(j, links)
        for e in self.root.all("loop"):
            self._loop(e)
        for e in self.root.all("point"):
            self.m.point(self.names.new(e.get("name"), "point"), self._frame(e.get("link"), self._origin(e), e))
        for e in self.root.all("spring"):
            self._spring(e)
        return self.m

    def _of(self, joint: Element, side: str, links: dict[str, Element]) -> str:
        tag = joint.first(side)
        name = tag.get("link") if tag is not None else ""
        if name not in links:
            raise BadFile(f"{self.file}:{joint.line}: joint {joint.get('name')!r} has no {side} link {name!r}", file=self.file,
                          line=joint.line)
        return name

    def _origin(self, e: Element) -> Pose:
        origin = e.first("origin") or Element("origin", {}, e.line)
        return Pose(from_rpy(numbers(origin, "rpy", "0 0 0", 3, self.file)), numbers(origin, "xyz", "0 0 0", 3, self.file))

    def _frame(self, link: str, pose: Pose, e: Element) -> Frame:
        if link not in self.links:
            raise BadFile(f"{self.file}:{e.line}: <{e.tag}> names no link {link!r}", file=self.file, line=e.line)
        body = self.m.links[self.links[link]]
        if self.m.spatial:
            plain = np.abs(pose.R - np.eye(3)).max() < 1e-15
            return body.at(*pose.p, rotation=None if plain else pose.R)
        return body.at(*pose.p[:2], angle=math.atan2(pose.R[1, 0], pose.R[0, 0]))

    def _link(self, e: Element) -> str:
        name = self.names.new(e.get("name"), "link")
        for child in e.children:
            if child.tag not in ("inertial", "visual", "collision"):
                self.left.out(child, f"element <{child.tag}> of link {name!r}")
        inertial, m = e.first("inertial"), self.m
        if inertial is None:
            m.massless(name)
            return name
        pose = self._origin(inertial)
        mass_tag, tensor_tag = inertial.first("mass"), inertial.first("inertia")
        mass = float(numbers(mass_tag or inertial, "value", "", 1, self.file)[0])
        i = {k: float(numbers(tensor_tag, k, "0", 1, self.file)[0]) if tensor_tag else 0.0
             for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
        tensor = np.array([[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]])
        tensor = pose.R @ tensor @ pose.R.T
        if mass == 0:
            m.massless(name)
        elif m.spatial:
            m.link(name, mass=mass, com=list(pose.p), inertia=((tensor + tensor.T) / 2).tolist())
        else:
            m.link(name, mass=mass, com=list(pose.p[:2]), inertia=float(tensor[2, 2]))
        return name

    def _joint(self, e: Element, links: dict[str, Element]) -> None:
        m, kind, name = self.m, e.get("type"), self.joint_names.new(e.get("name").replace(".", "_"), "joint")
        self.joints[e.get("name")] = name
        for child in e.children:
            if child.tag not in ("origin", "parent", "child", "axis", "limit", "mimic", "dynamics", "motor", "spring"):
                self.left.out(child, f"element <{child.tag}> of joint {name!r}")
        a = self._frame(self._of(e, "parent", links), self._origin(e), e)
        b = m.links[self.links[self._of(e, "child", links)]]
        axis_tag = e.first("axis")
        axis = numbers(axis_tag, "xyz", "1 0 0", 3, self.file) if axis_tag else np.array([1.0, 0, 0])
        options = self._options(e, name)
        if kind in ("revolute", "continuous"):
            m.revolute(name, a, b, axis=axis, **options)
        elif kind == "prismatic":
            m.slide(name, a, b, axes=[list(axis)], **options)
        elif kind == "fixed":
            m.weld(name, a, b)
        elif kind == "floating":
            m.free(name, a, b)
        elif kind == "planar":
            m.planar(name, a, b, normal=axis)
        else:
            raise BadFile(f"{self.file}:{e.line}: joint type {kind!r} is not one of URDF's", file=self.file, line=e.line)
        self._dynamics(e, name)

    def _options(self, e: Element, name: str) -> dict[str, Any]:
        limit, mimic, out = e.first("limit"), e.first("mimic"), {}  # type: Element | None, Element | None, dict[str, Any]
        own = e.first("motor")
        if limit is not None:
            low, high = (float(numbers(limit, n, "0", 1, self.file)[0]) for n in ("lower", "upper"))
            if e.get("type") in ("revolute", "prismatic") and (low > -1e6 or high < 1e6):
                self.left.out(limit, f"limits of joint {name!r}: limits are guards in Saltus")
            effort = float(numbers(limit, "effort", "0", 1, self.file)[0])
            if effort > 0 and mimic is None:
                gear = float(own.get("gear", "1")) if own else 1.0
                out["motor"] = Motor(
                    torque=effort / gear if own is None or own.get("limited") == "true" else None,
                    speed=float(limit.get("velocity")) * gear if own is not None and own.get("speed_limited") == "true" else None,
                    gear=gear, rotor_inertia=float(own.get("rotor_inertia", "0")) if own else 0.0,
                )
        if mimic is not None:
            leader = mimic.get("joint")
            if leader not in self.joints or self.joints[leader] not in self.m.q_names:
                self.left.out(mimic, f"mimic of joint {name!r}: it stands before {leader!r}, or that has no coordinate")
            else:
                factor, offset = (float(numbers(mimic, n, d, 1, self.file)[0]) for n, d in (("multiplier", "1"), ("offset", "0")))
                out["follows"] = factor * self.m.q[self.joints[leader]] + offset
        return out

    def _dynamics(self, e: Element, name: str) -> None:
        dynamics, spring = e.first("dynamics"), e.first("spring")
        damping = float(numbers(dynamics, "damping", "0", 1, self.file)[0]) if dynamics else 0.0
        if dynamics is not None and float(dynamics.get("friction", "0")):
            self.left.out(dynamics, f"friction of joint {name!r}")
        if damping or spring is not None:
            k, rest = (float(spring.get(n, "0")) if spring else 0.0 for n in ("stiffness", "rest"))
            label = spring.get("name") if spring else f"{name}_damper"
            if name in self.m.v_names:
                self.m.joint_spring(label, name, stiffness=k, rest=rest, damping=damping)
            else:
                self.left.out(e, f"damping of joint {name!r}, which has no single coordinate")

    def _ends(self, e: Element) -> list[Frame]:
        out = []
        for side in ("a", "b"):
            end = e.first(side)
            if end is None:
                raise BadFile(f"{self.file}:{e.line}: <{e.tag}> has no <{side} link=... xyz=.../>", file=self.file, line=e.line)
            pose = Pose(from_rpy(numbers(end, "rpy", "0 0 0", 3, self.file)), numbers(end, "xyz", "0 0 0", 3, self.file))
            out.append(self._frame(end.get("link"), pose, end))
        return out

    def _loop(self, e: Element) -> None:
        kind, name = e.get("type", "revolute"), self.joint_names.new(e.get("name"), "loop")
        axes = [list(numbers(x, "xyz", "0 0 1", 3, self.file)) for x in e.all("axis")]
        known = {"revolute": {"axis": axes[0]} if axes else {}, "slide": {"axes": axes}, "universal": {"axes": axes},
                 "weld": {}, "spherical": {}, "planar": {"normal": axes[-1]} if axes else {}}
        if kind not in known:
            raise BadFile(f"{self.file}:{e.line}: loop type {kind!r} is not one of {', '.join(known)}", file=self.file, line=e.line)
        getattr(self.m, kind)(name, *self._ends(e), **known[kind])

    def _spring(self, e: Element) -> None:
        k, length, d = (float(numbers(e, n, "0", 1, self.file)[0]) for n in ("stiffness", "length", "damping"))
        self.m.spring(self.joint_names.new(e.get("name"), "spring"), *self._ends(e), stiffness=k, length=length, damping=d)
