"""URDF in: the tree of links and joints, its motors and limits; loops in every dialect stand in `loops`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from saltus.errors import BadFile, BadValue
from saltus.files.urdf.beside import Beside
from saltus.files.urdf.loops import Loops
from saltus.files.xml.bodies import add_body, configuration
from saltus.files.xml.found import Found, Kept, Left, Shape, bounds
from saltus.files.xml.mesh import surface
from saltus.files.xml.rigid import IDENTITY, UPRIGHT, Mass, Pose, carried, frame_at, from_rpy
from saltus.files.xml.tree import Element, Names, bad, located, numbers, scalar
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor
from saltus.model.symbols import SX

ENDLESS = 1e6  # rad, m: limits beyond are none
LEAST = 1e-15  # kg m2: rounding of a zero
NOTHING = Mass(0.0, np.zeros(3), np.zeros((3, 3)))
JOINT_PARTS = {
    "origin",
    "parent",
    "child",
    "axis",
    "limit",
    "mimic",
    "dynamics",
    "motor",
    "spring",
}
JOINT_QUIET = {
    "safety_controller",
    "calibration",
    "hardwareInterface",
    "safety_limits",
    "property",
    "joint_properties",
    "controller_gains",
    "traits",
    "anchor",
}
LINK_QUIET = {
    "visual",
    "self_collision_checking",
    "collision_checking",
    "drake:proximity_properties",
    "sensor",
    "origin",
    "surface",
}
KNOWN = {
    "link",
    "joint",
    "saltus",
    "loop",
    "loop_joint",
    "coupling",
    "point",
    "spring",
    "transmission",
    "group_state",
    "force_element",
}
QUIET = {
    "material",
    "sensor",
    "link_properties",
    "sensors",
    "virtualJoint",
    "ros2_control",
    "drake:collision_filter_group",
    "collision_filter_group",
    "end_effector",
    "group",
    "disable_collisions",
    "self_collision",
    "frame",  # Drake's: a name for a place
    "create",
    "RefLink",
}
ACTS = {  # what a <gazebo> element may hold that changes the motion, and the values that change nothing
    "turnGravityOff": ("false", "0", ""),
    "gravity": ("true", "1", ""),
    "springStiffness": ("0", "0.0"),
    "dampingFactor": ("0", "0.0"),
    "static": ("false", "0"),
    "kinematic": ("false", "0"),
}


def urdf_mechanism(root: Element, file: str, folder: Path | None = None, base: str | None = None) -> Found:
    """The machine of a document; `base` fixes its root or lets it float."""
    if base not in (None, "fixed", "free"):
        raise BadValue(f'base is {base!r}; give "fixed" or "free"', given=base)
    return _Reader(root, file, folder, base).read()


class _Reader:
    def __init__(self, root: Element, file: str, folder: Path | None, base: str | None) -> None:
        self.root, self.left, self.kept, self.base, self.folder = root, Left(file), Kept(), base, folder
        extra = root.first("saltus") or Element("saltus", {}, file=file)
        self.plane = extra.get("plane") or None
        if self.plane not in (None, "xy", "xz"):
            raise bad(extra, f"plane {self.plane!r} is neither xy nor xz")
        gravity = numbers(extra, "gravity", "0 0 -9.81", 3)
        seen = gravity if self.plane is None else (gravity[:2] if self.plane == "xy" else gravity[[0, 2]])
        self.m = Mechanism(root.get("name", "robot") or "robot", spatial=self.plane is None, gravity=list(seen))
        self.names, self.joint_names = Names(), Names()
        self.links: dict[str, str] = {}
        self.joints: dict[str, str] = {}
        self.values: dict[str, SX] = {}  # of joints with one motion, by the file's name
        self.rotors: dict[str, float] = {}  # inertia that joints feel of their motors (kg m2, kg), likewise
        self.beside = Beside.find(folder, file)

    def read(self) -> Found:
        """Read links, joints, loops and springs."""
        links = {e.get("name"): e for e in self.root.all("link")}
        joints = list(self.root.all("joint"))
        self.gears = self._transmissions(joints)
        ends = {j.get("name"): (self._of(j, "parent", links), self._of(j, "child", links)) for j in joints}
        roots = [n for n in links if n not in {c for _, c in ends.values()}]
        if not links:
            raise bad(self.root, "this robot has no <link>")
        if len(roots) != 1:
            raise bad(self.root, f"a URDF has one root link, this one has {len(roots)}: {', '.join(roots[:5])}")
        masses = self._masses(links, joints, ends)
        self._root(links[roots[0]], masses, joints, ends)
        self._tree(links, joints, ends, masses, roots[0])
        Loops(self.m, self.left, self.links, self.joints, self.values, self.frame).read(self.root, self.beside)
        self._springs()
        for e in self.root.children:
            self._other(e)
        return Found(self.m, self.left, self.kept, self._keyframes())

    def _tree(
        self,
        links: dict[str, Element],
        joints: list[Element],
        ends: dict[str, tuple[str, str]],
        masses: dict[str, Mass],
        root: str,
    ) -> None:
        """Place joint after joint, one that follows another after that one where it can be."""
        waiting, placed = list(joints), {root}
        while waiting:
            ready = [j for j in waiting if ends[j.get("name")][0] in placed]
            if not ready:
                names = ", ".join(j.get("name") for j in waiting[:5])
                raise bad(waiting[0], f"joints {names} hang on no placed link (a cycle?); loops are <loop> elements")
            j = next((j for j in ready if self._leader(j) in self.values or self._leader(j) == ""), ready[0])
            waiting.remove(j)
            child = ends[j.get("name")][1]
            if child in placed:
                raise bad(j, f"link {child!r} has two parents")
            with located(links[child]):
                self.links[child] = self._link(links[child], masses[child])
            placed.add(child)
            with located(j):
                self._joint(j, *ends[j.get("name")])

    def _leader(self, joint: Element) -> str:
        mimic = joint.first("mimic")
        return mimic.get("joint") if mimic is not None else ""

    def _of(self, joint: Element, side: str, links: dict[str, Element]) -> str:
        tag = joint.first(side)
        name = tag.get("link") if tag is not None else ""
        if name not in links:
            raise bad(joint, f"joint {joint.get('name')!r} has no {side} link {name!r}")
        return name

    def pose(self, e: Element) -> Pose:
        """What the <origin> of an element says."""
        origin = e.first("origin") or Element("origin", {}, e.line, file=e.file)
        return pose_of(origin)

    def frame(self, link: str, pose: Pose, e: Element) -> Frame:
        """A frame of a link by the file's name."""
        if link not in self.links:
            raise bad(e, f"<{e.tag}> names no link {link!r}")
        return frame_at(self.m, self.links[link], self._flat(pose))

    def _flat(self, pose: Pose) -> Pose:
        """In the plane of a planar machine: our y is the file's z where its plane is xz."""
        return UPRIGHT.inverse @ pose @ UPRIGHT if self.plane == "xz" else pose

    # ---- links --------------------------------------------------------------------------------------------------

    def _masses(
        self, links: dict[str, Element], joints: list[Element], ends: dict[str, tuple[str, str]]
    ) -> dict[str, Mass]:
        found = {n: self._mass(e) for n, e in links.items()}
        welds = {
            ends[j.get("name")][1]: (ends[j.get("name")][0], self.pose(j)) for j in joints if self._kind(j) == "fixed"
        }
        return carried(found, welds)

    def _mass(self, e: Element) -> Mass:
        inertial = e.first("inertial")
        if inertial is None:
            return NOTHING
        mass_tag, tensor_tag = inertial.first("mass"), inertial.first("inertia")
        given = tensor_tag.attributes if tensor_tag is not None else {}
        empty = [k for k, text in given.items() if not text.strip()]
        if empty:
            self.left.remark(inertial, f"{', '.join(empty)} of link {e.get('name')!r} is empty: zero")
        tensor_tag = inertial.with_attributes({k: text for k, text in given.items() if k not in empty})
        i = {k: scalar(tensor_tag, k) for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
        tensor = np.array(
            [[i["ixx"], i["ixy"], i["ixz"]], [i["ixy"], i["iyy"], i["iyz"]], [i["ixz"], i["iyz"], i["izz"]]]
        )
        tensor[np.abs(tensor) < LEAST] = 0.0
        mass = scalar(mass_tag, "value") if mass_tag is not None else 0.0
        return Mass(mass, np.zeros(3), tensor).moved(self.pose(inertial))

    def _link(self, e: Element, mass: Mass) -> str:
        name = self.names.new(e.get("name"), "link")
        for child in e.children:
            if child.tag == "collision":
                self._shape(child, name, e)
            elif child.tag in LINK_QUIET:
                with suppress(BadFile):  # what is only seen keeps no machine from being read
                    self._shape(child, name, e)
                self.left.over(child)
            elif child.tag == "contact":
                if child.first("inertia_scaling") is not None:
                    self.left.out(child, f"inertia_scaling of link {name!r}")
                soft = ", ".join(c.tag for c in child.all("stiffness", "damping"))
                if soft:
                    self.left.remark(child, f"{soft} of link {name!r} is not taken over: contacts of files are hard")
                self.left.over(child)
            elif child.tag in ACTS and child.text.strip().lower() in ACTS[child.tag]:
                self.left.over(child)
            elif child.tag != "inertial":
                self.left.out(child, f"element <{child.tag}> of link {name!r}")
        add_body(self.m, self.left, e, name, mass.moved(UPRIGHT.inverse) if self.plane == "xz" else mass)
        return name

    def _shape(self, e: Element, link: str, owner: Element) -> None:
        geometry = e.first("geometry")
        for g in geometry.children if geometry is not None else ():
            size = [float(x) for n in ("size", "radius", "length") for x in numbers(g, n, "", None)]
            if g.tag == "capsule" and len(size) == 2:
                size[1] /= 2
            pose, file = self._flat(self.pose(e)), g.get("filename")
            drawn = g.tag == "mesh" and self.m.spatial
            look = surface(g, self.folder, file, numbers(g, "scale", "1 1 1", 3), pose) if drawn else None
            touches, mu = e.tag == "collision", self._friction(e, owner)
            own = Shape(e.get("name"), link, g.tag, pose, tuple(size), mu, touches, file, share=0.5, surface=look)
            self.kept.shapes.append(own)

    def _friction(self, e: Element, owner: Element) -> float:
        """Sliding friction of a shape: Drake's own, its link's as Bullet or Gazebo have it, or 1, as these take it."""
        drake, bullet = e.first("drake:proximity_properties"), owner.first("contact")
        gazebo = [g for g in self.root.all("gazebo") if g.get("reference") == owner.get("name")]
        for place in (drake, bullet, *gazebo):
            for found in place.all("drake:mu_dynamic", "lateral_friction", "mu1") if place is not None else ():
                return scalar(found.with_attributes({"value": found.text.strip(), **found.attributes}), "value")
        return 1.0

    def _root(
        self, e: Element, masses: dict[str, Mass], joints: list[Element], ends: dict[str, tuple[str, str]]
    ) -> None:
        """The root stands in the world unless it is let float."""
        name, m = e.get("name"), self.m
        floats = [j for j in joints if self._kind(j) == "floating" and ends[j.get("name")][0] == name]
        if self.base == "free" and floats:
            self.left.remark(e, f"the file's own joint {floats[0].get('name')!r} lets it float; base='free' adds none")
        alone = not any(self._kind(j) != "fixed" for j in joints)
        if self.base is None and alone and any(x.mass for x in masses.values()):
            self.left.remark(e, f"nothing moves against root link {name!r}: it floats; base='fixed' holds it")
        if (self.base == "free" or (self.base is None and alone)) and not floats:
            with located(e):
                self.links[name] = self._link(e, masses[name])
            label = self.joint_names.new("base", "base")
            m.free(label, m.ground, m.links[self.links[name]])
            self.joints["root_joint"] = label  # as others call it
            return
        self.links[name] = "ground"
        for child in e.all("collision"):
            self._shape(child, "ground", e)
        if self.base is None and e.first("inertial") is not None and not floats:
            self.left.remark(e, f"root link {name!r} has a mass and stands still; base='free' lets it float")

    # ---- joints -------------------------------------------------------------------------------------------------

    def _kind(self, e: Element) -> str:
        return self.beside.kinds.get(e.get("name"), e.get("type"))

    def _joint(self, e: Element, parent: str, child: str) -> None:
        m, kind, own = self.m, self._kind(e), e.get("name")
        name = self.joints[own] = self.joint_names.new(own.replace(".", "_"), "joint")
        for part in e.children:
            if part.tag in JOINT_QUIET:
                self.left.over(part)
            elif part.tag not in JOINT_PARTS:
                self.left.out(part, f"element <{part.tag}> of joint {name!r}")
        a = self.frame(parent, self.pose(e), e)
        b = m.links[self.links[child]]
        axis_tag = e.first("axis")
        axis = numbers(axis_tag, "xyz", "1 0 0", 3) if axis_tag is not None else np.array([1.0, 0, 0])
        axis = UPRIGHT.R.T @ axis if self.plane == "xz" else axis
        one = kind in ("revolute", "continuous", "prismatic")
        options = self._options(e, name) if one else {}
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
        elif kind in ("ball", "spherical"):
            m.spherical(name, a, b)
        elif kind.startswith("universal"):
            m.universal(name, a, b, axes=tuple(kind[-2:].lower()))
        else:
            raise bad(e, f"joint type {kind!r} is not one of URDF's")
        if one:
            self.values[own] = options["motion"] if "motion" in options else m.q[name]
            self._follow_later(e, name, options)
        if self.rotors.get(own):
            if name in m.v_names:
                m.armature(name, self.rotors[own])
            else:
                self.left.out(e, f"rotor inertia of joint {name!r}, which has no coordinate of its own")
        self._dynamics(e, name)

    def _options(self, e: Element, name: str) -> dict[str, Any]:
        limit, mimic, out = e.first("limit"), e.first("mimic"), {}  # type: Element | None, Element | None, dict[str, Any]
        if limit is not None and mimic is None:
            low, high = scalar(limit, "lower"), scalar(limit, "upper")
            if e.get("type") in ("revolute", "prismatic") and (low > -ENDLESS or high < ENDLESS):
                self.kept.ranges[name] = bounds(low, high)
            if 0 < scalar(limit, "velocity") < ENDLESS and e.first("motor") is None:
                self.kept.speeds[name] = scalar(limit, "velocity")
        if mimic is None:
            motor = self._motor(e, limit)
            if motor is not None:
                out["motor"] = motor
        elif mimic.get("joint") in self.values:
            out["motion"] = self._following(mimic)
        return out

    def _following(self, mimic: Element) -> SX:
        return scalar(mimic, "multiplier", 1.0) * self.values[mimic.get("joint")] + scalar(mimic, "offset")

    def _follow_later(self, e: Element, name: str, options: dict[str, Any]) -> None:
        """Constraints of joints that follow one further out, once that is there."""
        self._late = getattr(self, "_late", [])
        mimic = e.first("mimic")
        if mimic is not None and "motion" not in options:
            self._late.append((mimic, name))
        for tag, follower in list(self._late):
            if tag.get("joint") in self.values:
                self._late.remove((tag, follower))
                self.m.constraint(f"{follower}_follows", self.m.q[follower] - self._following(tag))

    def _transmissions(self, joints: list[Element]) -> dict[str, float] | None:
        """Gear by joint; None where the file has no <transmission> and names no motors."""
        names = {j.get("name") for j in joints}
        out: dict[str, float] = {}
        for e in self.root.all("transmission"):
            gears = [g for a in (e, *e.all("actuator")) for g in a.all("mechanicalReduction")]
            text = gears[0].text.strip() if gears else ""
            try:
                gear = float(text or 1)
            except ValueError:
                raise bad(gears[0], f"mechanicalReduction {text[:40]!r} is no number") from None
            for j in e.all("joint"):
                if j.get("name") in names:
                    out[j.get("name")] = gear if np.isfinite(gear) and gear else 1.0
                    self.rotors[j.get("name")] = sum(_reflected(a) for a in e.all("actuator"))
        if self.beside.motors is not None:
            return {n: out.get(n, 1.0) for n in self.beside.motors}
        return out or None

    def _motor(self, e: Element, limit: Element | None) -> Motor | None:
        own = e.first("motor")
        effort = scalar(limit, "effort") if limit is not None else 0.0
        if own is not None:
            gear = scalar(own, "gear", 1.0)
            given = effort / abs(gear) if own.get("limited") == "true" else None
            speed = scalar(limit, "velocity") * abs(gear) if limit and own.get("speed_limited") == "true" else None
            return Motor(torque=given, speed=speed, gear=gear, rotor_inertia=scalar(own, "rotor_inertia"))
        if self.gears is None:
            return Motor(torque=effort) if effort > 0 else None
        if e.get("name") not in self.gears:
            return None
        gear = self.gears[e.get("name")]
        return Motor(torque=effort / abs(gear) if effort > 0 else None, gear=gear)

    def _dynamics(self, e: Element, name: str) -> None:
        dynamics, spring = e.first("dynamics"), e.first("spring")
        damping = scalar(dynamics, "damping") if dynamics is not None else 0.0
        if dynamics is not None:
            self.left.attributes(dynamics, "damping friction", "D K mu_coulomb mu_viscous")
            if scalar(dynamics, "friction") and e.first("mimic") is None:
                self.kept.dry_friction[name] = scalar(dynamics, "friction")
        if damping or spring is not None:
            k, rest = (scalar(spring, n) if spring is not None else 0.0 for n in ("stiffness", "rest"))
            label = spring.get("name") if spring is not None else f"{name}_damper"
            one = [n for j in self.m.joints.values() if j.kind in ("revolute", "slide") for n in j.v_names]
            if name in one:
                self.m.joint_spring(label, name, stiffness=k, rest=rest, damping=damping)
            elif self.m.joints[name].kind != "weld":
                self.left.out(e, f"damping of joint {name!r}, which has no single coordinate")

    def _keyframes(self) -> str:
        """Configurations by name, from <group_state>s, with joints they leave out at zero; returns the first one's."""
        m, names = self.m, Names()
        for e in self.root.all("group_state"):
            with located(e):
                q = dict.fromkeys(m.q_names, 0.0)
                for part in e.all("joint"):
                    joint = m.joints.get(self.joints.get(part.get("name"), ""))
                    if joint is None:
                        self.left.remark(part, f"<group_state> names no joint {part.get('name')!r}")
                    elif joint.motion is None:
                        values = numbers(part, "value", "", len(joint.q_names))
                        if joint.kind in ("free", "spherical"):
                            values[-4:] = np.roll(values[-4:], 1)  # theirs have the scalar last
                        q |= dict(zip(joint.q_names, values, strict=True))
                m.keyframes[names.new(e.get("name"), "state")] = configuration(m, q)
        if not m.keyframes:
            m.keyframes["zero"] = configuration(m, dict.fromkeys(m.q_names, 0.0))
        return next(iter(m.keyframes))

    # ---- beside the tree ----------------------------------------------------------------------------------------

    def _springs(self) -> None:
        for e in self.root.all("point"):
            self.m.point(self.names.new(e.get("name"), "point"), self.frame(e.get("link"), self.pose(e), e))
        for e in self.root.all("force_element"):  # Drake's
            for s in e.children:
                joint = s.first("joint")
                if s.tag != "torsional_spring" or joint is None or joint.get("name") not in self.joints:
                    self.left.out(s, f"force element <{s.tag}>")
                    continue
                label = self.joint_names.new(e.get("name"), "spring")
                k, rest = scalar(s, "stiffness"), scalar(s, "rest_angle")
                self.m.joint_spring(label, self.joints[joint.get("name")], stiffness=k, rest=rest)

    def _other(self, e: Element) -> None:
        if e.tag == "gazebo":
            for c in e.children:
                if c.tag in ACTS and c.text.strip().lower() not in ACTS[c.tag]:
                    self.left.remark(c, f"<{c.tag}> of link {e.get('reference')!r} is Gazebo's alone; not taken over")
            self.left.over(e)
        elif e.tag in QUIET or e.tag == "mujoco":
            self.left.over(e)
        elif e.tag not in KNOWN:
            self.left.out(e, f"element <{e.tag}>")


def _reflected(actuator: Element) -> float:
    """Drake's rotor inertia times its gear ratio squared, which act on the joint and on nothing else."""
    inertia, ratio = actuator.first("drake:rotor_inertia"), actuator.first("drake:gear_ratio")
    gear = 1.0 if ratio is None else scalar(ratio, "value")
    return 0.0 if inertia is None else scalar(inertia, "value") * gear * gear


def pose_of(origin: Element) -> Pose:
    """Pose of attributes xyz and rpy."""
    if not origin.attributes:
        return IDENTITY
    return Pose(from_rpy(numbers(origin, "rpy", "0 0 0", 3)), numbers(origin, "xyz", "0 0 0", 3))
