"""MJCF in: bodies, joints, inertias (given or from geoms), equality constraints, springs and motors of MuJoCo's XML."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saltus.errors import BadFile
from saltus.files.xml.rigid import AXIS, IDENTITY, Mass, Pose, along_z, from_quaternion, shape, together, turn
from saltus.files.xml.tree import Element, Left, Names, located, numbers
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor

LOOKS = "rgba material texture group name class user size mesh fluidcoef"
HARMLESS = {
    "asset",
    "visual",
    "statistic",
    "size",
    "sensor",
    "custom",
    "default",
    "compiler",
    "option",
    "worldbody",
    "equality",
    "tendon",
    "actuator",
    "contact",
    "keyframe",
}
SOLVER = (
    "timestep integrator solver iterations tolerance cone jacobian impratio ls_iterations noslip_iterations "
    "ls_tolerance noslip_tolerance mpr_iterations mpr_tolerance ccd_iterations ccd_tolerance apirate gravity "
    "sdf_iterations sdf_initpoints"
)


def mjcf_mechanism(root: Element, file: str) -> tuple[Mechanism, tuple[str, ...]]:
    """The mechanism, and what of the file it does not hold."""
    reader = _Reader(root, file)
    return reader.read(), tuple(reader.left.notes)


class _Reader:
    def __init__(self, root: Element, file: str) -> None:
        self.root, self.file, self.left = root, file, Left(file)
        compiler = root.first("compiler") or Element("compiler", {})
        self.degrees = compiler.get("angle", "degree") != "radian"
        self.sequence = compiler.get("eulerseq", "xyz")
        self.from_geoms = compiler.get("inertiafromgeom", "auto")
        self.auto_limits = compiler.get("autolimits", "true") == "true"
        self.left.attributes(
            compiler,
            "angle eulerseq inertiafromgeom autolimits",
            "meshdir texturedir assetdir balanceinertia discardvisual strippath convexhull usethread "
            "fusestatic boundmass boundinertia",
        )
        if any(float(compiler.get(n, "0")) for n in ("boundmass", "boundinertia")):
            self.left.out(compiler, "boundmass, boundinertia")
        self.defaults: dict[str, dict[str, dict[str, str]]] = {}
        self._defaults(root, {}, "main")
        plane = any(t.get("name") == "saltus_plane" for c in root.all("custom") for t in c.all("text"))
        option = root.first("option") or Element("option", {})
        gravity = numbers(option, "gravity", "0 0 -9.81", 3, file)
        self.m = Mechanism(
            root.get("model", "MuJoCo Model"), spatial=not plane, gravity=list(gravity[:2] if plane else gravity)
        )
        self.left.attributes(option, SOLVER)
        flags = option.first("flag")
        for flag, value in (flags.attributes if flags else {}).items():
            off = value == "disable"
            if flag in ("gravity", "actuation", "equality", "spring", "damper", "limit", "frictionloss") and off:
                self.left.out(flags or option, f"flag {flag}={value!r}")
        self.names, self.joint_names = Names(), Names()
        self.links: dict[str, str] = {"world": "ground"}  # by the name in the file
        self.poses: dict[str, Pose] = {"ground": IDENTITY}
        self.sites: dict[str, tuple[str, Pose]] = {}
        self.joints: dict[str, tuple[str, Element]] = {}
        self.motors: dict[str, dict[str, Any]] = {}
        self.touching: list[Element] = []

    # ---- defaults and orientations ------------------------------------------------------------------------------

    def _defaults(self, element: Element, above: dict[str, dict[str, str]], name: str) -> None:
        for tag in element.all("default"):
            own = {k: dict(v) for k, v in above.items()}
            for child in tag.children:
                if child.tag != "default":
                    own[child.tag] = {**own.get(child.tag, {}), **child.attributes}
            label = tag.get("class", name)
            self.defaults[label] = own
            self._defaults(tag, own, label)

    def _with_defaults(self, element: Element, childclass: str, tag: str | None = None) -> Element:
        label = element.get("class") or childclass or "main"
        given = self.defaults.get(label, {}).get(tag or element.tag, {})
        return Element(element.tag, {**given, **element.attributes}, element.line, element.children)

    def _angle(self, x: float) -> float:
        return math.radians(x) if self.degrees else x

    def _rotation(self, e: Element) -> np.ndarray:
        if "quat" in e.attributes:
            return from_quaternion(self._nonzero(e, "quat", numbers(e, "quat", "1 0 0 0", 4, self.file)))
        if "axisangle" in e.attributes:
            x = numbers(e, "axisangle", "", 4, self.file)
            return turn(self._nonzero(e, "axisangle", x[:3]), self._angle(x[3]))
        if "euler" in e.attributes:
            R = np.eye(3)
            for letter, x in zip(self.sequence, numbers(e, "euler", "", 3, self.file), strict=False):
                one = turn(AXIS[letter.lower()], self._angle(x))
                R = R @ one if letter.islower() else one @ R
            return R
        if "xyaxes" in e.attributes:
            v = numbers(e, "xyaxes", "", 6, self.file)
            x = self._nonzero(e, "xyaxes", v[:3]) / np.linalg.norm(v[:3])
            y = self._nonzero(e, "xyaxes", v[3:] - x * (x @ v[3:]))
            y = y / np.linalg.norm(y)
            return np.stack([x, y, np.cross(x, y)], axis=1)
        if "zaxis" in e.attributes:
            return along_z(self._nonzero(e, "zaxis", numbers(e, "zaxis", "", 3, self.file)))
        return np.eye(3)

    def _nonzero(self, e: Element, name: str, v: np.ndarray) -> np.ndarray:
        if not np.linalg.norm(v) > 0:
            raise BadFile(f"{self.file}:{e.line}: {name} of <{e.tag}> has no direction", file=self.file, line=e.line)
        return v

    def _pose(self, e: Element) -> Pose:
        return Pose(self._rotation(e), numbers(e, "pos", "0 0 0", 3, self.file))

    def frame(self, link: str, pose: Pose) -> Frame:
        """A frame of a link."""
        body = self.m.links[link]
        if self.m.spatial:
            return body.at(*pose.p, rotation=_orthonormal(pose.R))
        return body.at(*pose.p[:2], angle=math.atan2(pose.R[1, 0], pose.R[0, 0]))

    # ---- reading ------------------------------------------------------------------------------------------------

    def read(self) -> Mechanism:
        """Read everything."""
        for child in self.root.children:
            if child.tag not in HARMLESS:
                self.left.out(child, f"element <{child.tag}>")
        self._actuators()
        for world in self.root.all("worldbody"):
            self._inside(world, "ground", "")
        for part in self.root.all("equality"):
            for e in part.children:
                with located(self.file, e):
                    self._equality(self._with_defaults(e, "", "equality"))
        for part in self.root.all("tendon"):
            for e in part.children:
                self._tendon(self._with_defaults(e, "", "tendon"))
        for part in self.root.all("keyframe"):
            for e in part.children:
                self.left.out(e, f"keyframe {e.get('name')!r}")
        if self.touching:
            lines = ", ".join(str(e.line) for e in self.touching[:8]) + (", ..." if len(self.touching) > 8 else "")
            self.left.out(
                self.touching[0],
                f"collisions: {len(self.touching)} geom(s) can touch (lines {lines}); contacts are domains in Saltus",
            )
        return self.m

    def _actuators(self) -> None:
        for part in self.root.all("actuator"):
            for raw in part.children:
                e = self._with_defaults(raw, "", "general" if raw.tag == "general" else raw.tag)
                joint = e.get("joint")
                if raw.tag != "motor" or not joint:
                    self.left.out(raw, f"actuator <{raw.tag}> {e.get('name')!r}")
                    if joint:
                        self.motors.setdefault(joint, {})
                    continue
                self.left.attributes(e, "name joint gear ctrlrange ctrllimited class", "group user")
                gear = numbers(e, "gear", "1", None, self.file)
                given: dict[str, Any] = {"gear": abs(float(gear[0])) or 1.0}
                if len(gear) > 1 and np.any(gear[1:]):
                    self.left.out(e, f"gear of motor {e.get('name')!r} on a ball or free joint")
                limited = e.get("ctrllimited", "auto")
                if "ctrlrange" in e.attributes and (limited == "true" or (limited == "auto" and self.auto_limits)):
                    low, high = numbers(e, "ctrlrange", "", 2, self.file)
                    if low != -high or not high > 0:
                        self.left.out(e, f"ctrlrange of motor {e.get('name')!r}, which is not symmetric")
                    else:
                        given["torque"] = float(high)
                self.motors[joint] = given

    def _inside(self, element: Element, link: str, childclass: str) -> None:
        for child in element.children:
            if child.tag == "body":
                with located(self.file, child):
                    self._body(child, link, child.get("childclass") or childclass)
            elif child.tag == "site":
                e = self._with_defaults(child, childclass)
                self._site(e, link)
            elif child.tag == "geom":
                e = self._with_defaults(child, childclass)
                if int(e.get("contype", "1")) or int(e.get("conaffinity", "1")):
                    self.touching.append(e)
            elif child.tag not in ("light", "camera", "joint", "freejoint", "inertial"):
                self.left.out(child, f"element <{child.tag}>")

    def _site(self, e: Element, link: str) -> None:
        pose = self._fromto(e)[0] if "fromto" in e.attributes else self._pose(e)
        if e.get("name"):
            self.sites[e.get("name")] = (link, pose)
            name = e.get("name")
            if name.isidentifier() and name not in self.m.points and not name.startswith("loop_site_"):
                self.m.point(name, self.frame(link, pose))

    def _body(self, body: Element, parent: str, childclass: str) -> None:
        name = self.names.new(body.get("name"), "body")
        self.links[body.get("name") or name] = name
        self.left.attributes(body, "name pos quat axisangle euler xyaxes zaxis childclass", "user sleep")
        if body.get("mocap") == "true":
            self.left.out(body, f"mocap body {name!r}")
        pose = self._pose(body)
        self.poses[name] = self.poses[parent] @ pose
        mass = self._mass(body, childclass)
        m = self.m
        if mass.mass > 0:
            tensor = ((mass.inertia + mass.inertia.T) / 2).tolist()
            m.link(
                name,
                mass=mass.mass,
                com=list(mass.com[: 3 if m.spatial else 2]),
                inertia=tensor if m.spatial else tensor[2][2],
            )
        else:
            m.massless(name)
        joints = [self._with_defaults(j, childclass, "joint") for j in body.all("joint", "freejoint")]
        self._joints(joints, body, parent, name, pose)
        self._inside(body, name, childclass)

    def _joints(self, joints: list[Element], body: Element, parent: str, name: str, pose: Pose) -> None:
        m = self.m
        if not joints:
            m.weld(self.joint_names.new(f"{name}_fixed", "fixed"), self.frame(parent, pose), m.links[name])
            return
        at, here = parent, pose
        for i, e in enumerate(joints):
            last = i == len(joints) - 1
            target = name if last else self.names.new(f"{name}_part{i + 1}", "part")
            if not last:
                m.massless(target)
            kind = "free" if e.tag == "freejoint" else e.get("type", "hinge")
            label = self.joint_names.new(e.get("name"), f"{name}_{kind}")
            self.joints[e.get("name") or label] = (label, e)
            self._joint(kind, label, e, at, here, target)
            at, here = target, IDENTITY

    def _joint(self, kind: str, label: str, e: Element, parent: str, pose: Pose, child: str) -> None:
        m = self.m
        if e.tag != "freejoint":
            self.left.attributes(
                e,
                "name class type pos axis stiffness damping springref armature range limited ref",
                "group user solreflimit solimplimit solreffriction solimpfriction margin springdamper actuatorfrcrange "
                "actuatorfrclimited actuatorgravcomp",
            )
        if float(e.get("frictionloss", "0")):
            self.left.out(e, f"frictionloss of joint {label!r}")
        limited = e.get("limited", "auto")
        if "range" in e.attributes and (limited == "true" or (limited == "auto" and self.auto_limits)):
            self.left.out(e, f"range of joint {label!r}: limits are guards in Saltus")
        if float(e.get("ref", "0")):
            self.left.out(e, f"ref of joint {label!r}")
        if "springdamper" in e.attributes:
            self.left.out(e, f"springdamper of joint {label!r}")
        place = Pose(np.eye(3), numbers(e, "pos", "0 0 0", 3, self.file))
        a, b = self.frame(parent, pose @ place), self.frame(child, place)
        armature = float(numbers(e, "armature", "0", 1, self.file)[0])
        stiffness = float(numbers(e, "stiffness", "0", None, self.file)[0])
        damping = float(numbers(e, "damping", "0", None, self.file)[0])
        if kind == "free":
            if parent != "ground":
                self.left.out(e, f"free joint {label!r} of a body that is not in the world")
            m.free(label, m.ground, m.links[child])
        elif kind == "ball":
            m.spherical(label, a, b)
        if kind in ("free", "ball"):
            if e.tag != "freejoint" and (armature or stiffness or damping):
                self.left.out(e, f"armature, stiffness or damping of {kind} joint {label!r}")
            return
        axis = self._nonzero(e, "axis", numbers(e, "axis", "0 0 1", 3, self.file))
        given, motor = self.motors.get(e.get("name")), None
        if given is not None or armature:
            gear = (given or {}).get("gear", 1.0)
            motor = Motor(**{**(given or {}), "rotor_inertia": armature / gear**2})
        if kind == "hinge":
            m.revolute(label, a, b, axis=axis, motor=motor)
        elif kind == "slide":
            m.slide(label, a, b, axes=[list(axis)], motor=motor)
        else:
            raise BadFile(
                f"{self.file}:{e.line}: joint type {kind!r} is not one of MuJoCo's", file=self.file, line=e.line
            )
        if stiffness or damping:
            rest = float(numbers(e, "springref", "0", 1, self.file)[0])
            m.joint_spring(
                f"{label}_spring",
                label,
                stiffness=stiffness,
                damping=damping,
                rest=self._angle(rest) if kind == "hinge" else rest,
            )

    # ---- masses -------------------------------------------------------------------------------------------------

    def _mass(self, body: Element, childclass: str) -> Mass:
        inertial = body.first("inertial")
        if inertial is not None and self.from_geoms != "true":
            self.left.attributes(inertial, "pos quat axisangle euler xyaxes zaxis mass diaginertia fullinertia")
            if "fullinertia" in inertial.attributes:
                xx, yy, zz, xy, xz, yz = numbers(inertial, "fullinertia", "", 6, self.file)
                tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            else:
                tensor = np.diag(numbers(inertial, "diaginertia", "0 0 0", 3, self.file))
            mass = self._weight(inertial, "mass", "")
            if not self.m.spatial and mass <= 1e-13:
                mass = 0.0
            return Mass(mass, np.zeros(3), tensor).moved(self._pose(inertial))
        parts = [self._geom(self._with_defaults(g, childclass)) for g in body.all("geom")]
        return together(parts)

    def _weight(self, e: Element, name: str, default: str) -> float:
        """A mass (kg) or density (kg/m3), which is not negative."""
        value = float(numbers(e, name, default, 1, self.file)[0])
        if value < 0:
            raise BadFile(
                f"{self.file}:{e.line}: {name} of <{e.tag}> is {value:g}; give zero or more",
                file=self.file,
                line=e.line,
            )
        return value

    def _fromto(self, e: Element) -> tuple[Pose, float]:
        ends = numbers(e, "fromto", "", 6, self.file)
        # MuJoCo's z axis of such a geom points from the second end to the first
        return Pose(along_z(self._nonzero(e, "fromto", ends[:3] - ends[3:])), (ends[:3] + ends[3:]) / 2), float(
            np.linalg.norm(ends[3:] - ends[:3]) / 2
        )

    def _geom(self, e: Element) -> Mass:
        kind = e.get("type", "mesh" if "mesh" in e.attributes else "sphere")
        nothing = Mass(0.0, np.zeros(3), np.zeros((3, 3)))
        if kind in ("plane", "hfield") or 0 in (self._weight(e, "mass", "1"), self._weight(e, "density", "1")):
            return nothing
        if kind not in ("sphere", "capsule", "cylinder", "box", "ellipsoid"):
            self.left.out(e, f"inertia of <geom> {e.get('name')!r} of type {kind!r}")
            return nothing
        for attribute in ("shellinertia", "fluidshape"):
            if e.get(attribute, "false") not in ("false", "none"):
                self.left.out(e, f"{attribute} of <geom> {e.get('name')!r}")
        size = numbers(e, "size", "", None, self.file)
        pose = self._pose(e)
        if "fromto" in e.attributes:
            pose, half = self._fromto(e)
            size = np.array([size[0], half]) if kind in ("capsule", "cylinder") else np.array([size[0], size[0], half])
        need = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
        if len(size) < need or not (size[:need] > 0).all():
            raise BadFile(f"{self.file}:{e.line}: a {kind} takes {need} positive size(s)", file=self.file, line=e.line)
        volume, moments = shape(kind, size)
        given = "mass" in e.attributes
        mass = self._weight(e, "mass", "") if given else self._weight(e, "density", "1000") * volume
        return Mass(mass, np.zeros(3), mass * np.diag(moments)).moved(pose)

    # ---- constraints and springs --------------------------------------------------------------------------------

    def _link_of(self, e: Element, attribute: str) -> str:
        name = e.get(attribute, "world")
        if name not in self.links:
            raise BadFile(f"{self.file}:{e.line}: <{e.tag}> names no body {name!r}", file=self.file, line=e.line)
        return self.links[name]

    def _ends(self, e: Element) -> tuple[tuple[str, Pose], tuple[str, Pose]] | None:
        """Frames on the two bodies that an equality holds together."""
        if "site1" in e.attributes:
            missing = [e.get(s) for s in ("site1", "site2") if e.get(s) not in self.sites]
            if missing:
                raise BadFile(
                    f"{self.file}:{e.line}: <{e.tag}> names no site {missing[0]!r}", file=self.file, line=e.line
                )
            return self.sites[e.get("site1")], self.sites[e.get("site2")]
        one, two = self._link_of(e, "body1"), self._link_of(e, "body2")
        relative = self.poses[one].inverse @ self.poses[two]
        if e.tag == "connect":
            anchor = Pose(np.eye(3), numbers(e, "anchor", "", 3, self.file))
            return (one, anchor), (two, relative.inverse @ anchor)
        relpose = numbers(e, "relpose", "0 1 0 0 0 0 0", 7, self.file)
        if np.any(relpose[3:]):
            relative = Pose(from_quaternion(relpose[3:]), relpose[:3])
        anchor = Pose(np.eye(3), numbers(e, "anchor", "0 0 0", 3, self.file))
        return (one, relative @ anchor), (two, anchor)

    def _equality(self, e: Element) -> None:
        m, name = self.m, self.joint_names.new(e.get("name"), f"{e.tag}_{e.line}")
        if e.get("active", "true") == "false":
            self.left.out(e, f"inactive equality {name!r}")
        elif e.tag in ("connect", "weld"):
            self.left.attributes(
                e, "name class active body1 body2 anchor site1 site2 relpose", "solref solimp torquescale"
            )
            ends = self._ends(e)
            assert ends is not None
            (one, first), (two, second) = ends
            a, b = self.frame(one, first), self.frame(two, second)
            if e.tag == "weld":
                m.weld(name, a, b)
            elif m.spatial:
                m.spherical(name, a, b)
            else:
                m.revolute(name, a, b)
        elif e.tag == "joint":
            self.left.attributes(e, "name class active joint1 joint2 polycoef", "solref solimp")
            c = np.resize(np.concatenate([numbers(e, "polycoef", "0 1 0 0 0", None, self.file), np.zeros(5)]), 5)
            x = m.q[self._coordinate(e, e.get("joint2"))] if "joint2" in e.attributes else 0.0
            m.constraint(name, m.q[self._coordinate(e, e.get("joint1"))] - sum(c[k] * x**k for k in range(5)))
        elif e.tag == "tendon" and "tendon2" not in e.attributes:
            self.left.attributes(e, "name class active tendon1 polycoef", "solref solimp")
            tendon = next(
                (t for part in self.root.all("tendon") for t in part.all("fixed") if t.get("name") == e.get("tendon1")),
                None,
            )
            constant = numbers(e, "polycoef", "0 1 0 0 0", None, self.file)[0]
            if tendon is None:
                self.left.out(e, f"equality {name!r} of a tendon that is not fixed")
            else:
                m.constraint(
                    name,
                    sum(
                        float(j.get("coef", "1")) * m.q[self._coordinate(j, j.get("joint"))]
                        for j in tendon.all("joint")
                    )
                    - constant,
                )
        else:
            self.left.out(e, f"equality <{e.tag}> {name!r}")

    def _coordinate(self, e: Element, name: str) -> str:
        if name not in self.joints or self.joints[name][0] not in self.m.q_names:
            raise BadFile(
                f"{self.file}:{e.line}: <{e.tag}> names no hinge or slide {name!r}", file=self.file, line=e.line
            )
        return self.joints[name][0]

    def _tendon(self, e: Element) -> None:
        ties = [x.get("tendon1") for part in self.root.all("equality") for x in part.all("tendon")]
        if e.tag == "fixed":
            self.left.attributes(e, "name class", "user group")
            if e.get("name") not in ties:
                self.left.out(e, f"fixed tendon {e.get('name')!r}")
            return
        ends = [self.sites.get(s.get("site")) for s in e.children]
        if len(ends) != 2 or None in ends or any(s.tag != "site" for s in e.children):
            self.left.out(e, f"spatial tendon {e.get('name')!r} that is no line between two sites")
            return
        self.left.attributes(e, "name class stiffness damping springlength", "width rgba material group user")
        rest = numbers(e, "springlength", "-1", None, self.file)
        if len(rest) > 1 or rest[0] < 0:
            self.left.out(e, f"springlength of tendon {e.get('name')!r}, which is not one number")
        frames = [self.frame(*x) for x in ends if x is not None]
        name = self.joint_names.new(e.get("name"), "tendon")
        self.m.spring(
            name,
            *frames,
            stiffness=float(e.get("stiffness", "0")),
            damping=float(e.get("damping", "0")),
            length=max(0.0, float(rest[0])),
        )


def _orthonormal(R: np.ndarray) -> np.ndarray | None:
    """The nearest rotation; None for no rotation at all, so that structural zeros stay."""
    if np.abs(R - np.eye(3)).max() < 1e-15:
        return None
    rounded = np.where(np.abs(R - np.round(R)) < 1e-15, np.round(R), R)
    U, _, V = np.linalg.svd(rounded)
    out = U @ V
    return np.where(np.abs(out - np.round(out)) < 1e-14, np.round(out), out)
