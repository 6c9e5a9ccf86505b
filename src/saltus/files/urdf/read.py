"""URDF in: the tree of links and joints, and the loops, points and springs that stand beside it (see urdf_write)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saltus.errors import BadFile
from saltus.files.xml.rigid import Pose, from_rpy
from saltus.files.xml.tree import Element, Left, Names, located, numbers
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor


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
        self.m = Mechanism(
            root.get("name", "robot"), spatial=not plane, gravity=list(gravity[:2] if plane else gravity)
        )
        self.names, self.joint_names = Names(), Names()
        self.links: dict[str, str] = {}
        self.joints: dict[str, str] = {}

    def read(self) -> Mechanism:
        """Read links, joints, loops and springs."""
        for e in self.root.children:
            if e.tag not in (
                "link",
                "joint",
                "material",
                "saltus",
                "loop",
                "point",
                "spring",
                "transmission",
                "gazebo",
            ):
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
                raise BadFile(
                    f"{self.file}:{waiting[0].line}: joints {names} hang on no placed link (a cycle?); loops are "
                    "<loop> elements",
                    file=self.file,
                    line=waiting[0].line,
                )
            waiting.remove(j)
            child = self._of(j, "child", links)
            if child in placed:
                raise BadFile(f"{self.file}:{j.line}: link {child!r} has two parents", file=self.file, line=j.line)
            with located(self.file, links[child]):
                self.links[child] = self._link(links[child])
            placed.add(child)
            with located(self.file, j):
                self._joint(j, links)
        for e in self.root.all("loop"):
            with located(self.file, e):
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
            raise BadFile(
                f"{self.file}:{joint.line}: joint {joint.get('name')!r} has no {side} link {name!r}",
                file=self.file,
                line=joint.line,
            )
        return name

    def _origin(self, e: Element) -> Pose:
        origin = e.first("origin") or Element("origin", {}, e.line)
        return Pose(
            from_rpy(numbers(origin, "rpy", "0 0 0", 3, self.file)), numbers(origin, "xyz", "0 0 0", 3, self.file)
        )

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
        i = {
            k: float(numbers(tensor_tag, k, "0", 1, self.file)[0]) if tensor_tag else 0.0
            for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        }
        tensor = np.array(
            [[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]]
        )
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
            raise BadFile(
                f"{self.file}:{e.line}: joint type {kind!r} is not one of URDF's", file=self.file, line=e.line
            )
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
                    speed=float(limit.get("velocity")) * gear
                    if own is not None and own.get("speed_limited") == "true"
                    else None,
                    gear=gear,
                    rotor_inertia=float(own.get("rotor_inertia", "0")) if own else 0.0,
                )
        if mimic is not None:
            leader = mimic.get("joint")
            if leader not in self.joints or self.joints[leader] not in self.m.q_names:
                self.left.out(mimic, f"mimic of joint {name!r}: it stands before {leader!r}, or that has no coordinate")
            else:
                factor, offset = (
                    float(numbers(mimic, n, d, 1, self.file)[0]) for n, d in (("multiplier", "1"), ("offset", "0"))
                )
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
                raise BadFile(
                    f"{self.file}:{e.line}: <{e.tag}> has no <{side} link=... xyz=.../>", file=self.file, line=e.line
                )
            pose = Pose(
                from_rpy(numbers(end, "rpy", "0 0 0", 3, self.file)), numbers(end, "xyz", "0 0 0", 3, self.file)
            )
            out.append(self._frame(end.get("link"), pose, end))
        return out

    def _loop(self, e: Element) -> None:
        kind, name = e.get("type", "revolute"), self.joint_names.new(e.get("name"), "loop")
        axes = [list(numbers(x, "xyz", "0 0 1", 3, self.file)) for x in e.all("axis")]
        known = {
            "revolute": {"axis": axes[0]} if axes else {},
            "slide": {"axes": axes},
            "universal": {"axes": axes},
            "weld": {},
            "spherical": {},
            "planar": {"normal": axes[-1]} if axes else {},
        }
        if kind not in known:
            raise BadFile(
                f"{self.file}:{e.line}: loop type {kind!r} is not one of {', '.join(known)}",
                file=self.file,
                line=e.line,
            )
        getattr(self.m, kind)(name, *self._ends(e), **known[kind])

    def _spring(self, e: Element) -> None:
        k, length, d = (float(numbers(e, n, "0", 1, self.file)[0]) for n in ("stiffness", "length", "damping"))
        self.m.spring(
            self.joint_names.new(e.get("name"), "spring"), *self._ends(e), stiffness=k, length=length, damping=d
        )
