"""A MJCF document: settings and defaults gathered, frames flattened."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saltus.files.mjcf.attaching import merged, whole
from saltus.files.xml.found import Left
from saltus.files.xml.rigid import AXIS, IDENTITY, Pose, along_z, from_quaternion, turn
from saltus.files.xml.tree import Element, bad, numbers

ACTUATORS = [
    "general",
    "motor",
    "position",
    "velocity",
    "intvelocity",
    "damper",
    "cylinder",
    "muscle",
    "adhesion",
    "dcmotor",
    "plugin",
]  # MuJoCo keeps one set of defaults for all of them
SOLVER = (
    "timestep integrator solver iterations tolerance cone jacobian impratio ls_iterations noslip_iterations "
    "ls_tolerance noslip_tolerance mpr_iterations mpr_tolerance ccd_iterations ccd_tolerance apirate magnetic "
    "sdf_iterations sdf_initpoints o_margin o_solref o_solimp o_friction sleep_tolerance"
)
COMPILER = (
    "angle eulerseq inertiafromgeom autolimits meshdir assetdir strippath boundmass boundinertia balanceinertia "
    "settotalmass inertiagrouprange fitaabb coordinate"
)
QUIET = "texturedir discardvisual convexhull usethread fusestatic saveinertial exactmeshinertia alignfree"


@dataclass(frozen=True, eq=False)
class Document:
    """The tree of a MJCF file with its settings: later <compiler>, <option> and <default> add to earlier ones."""

    root: Element
    folder: Path | None
    compilers: dict[str, Element]
    option: Element
    flags: dict[str, str]
    defaults: dict[str, dict[str, list[tuple[str, dict[str, str]]]]]

    @classmethod
    def of(cls, root: Element, folder: Path | None, left: Left) -> Document:
        """Gather a document's settings."""
        found = whole(root, folder, left)
        root, option = found.root, merged(found.root, "option")
        left.attributes(option, f"{SOLVER} gravity density viscosity wind")
        for compiler in found.compilers.values():
            left.attributes(compiler, COMPILER, QUIET)
            if compiler.get("alignfree", "false") == "true":
                left.out(compiler, "alignfree")
            if compiler.get("coordinate", "local") != "local":
                left.out(compiler, f"coordinate={compiler.get('coordinate')!r}; MuJoCo refuses all but local ones too")
        flags = {k: v for e in root.all("option") for f in e.all("flag") for k, v in f.attributes.items()}
        defaults: dict[str, dict[str, list[tuple[str, dict[str, str]]]]] = {"main": {}}
        for prefix in found.compilers:
            defaults.setdefault(f"{prefix}main", {})
        for section in root.all("default"):
            _gather(section, defaults, {}, f"{section.model}main")
        return cls(root, folder, found.compilers, option, flags, defaults)

    def compiler(self, e: Element) -> Element:
        """The <compiler> settings an element was written under."""
        return self.compilers[e.model]

    def off(self, flag: str) -> bool:
        """Whether a flag of <option> switches something off."""
        return self.flags.get(flag, "enable") == "disable"

    def sections(self, tag: str) -> Iterator[Element]:
        """Children of all sections of one kind."""
        return (e for part in self.root.all(tag) for e in part.children)

    # ---- defaults -----------------------------------------------------------------------------------------------

    def steps(self, element: Element, childclass: str, kind: str) -> list[tuple[str, dict[str, str]]]:
        """Tags and attributes of the defaults that hold for an element, outermost first."""
        label = element.get("class") or childclass or f"{element.model}main"
        if label not in self.defaults:
            raise bad(element, f"class {label!r} of <{element.tag}> is no <default>")
        return self.defaults[label].get(kind, [])

    def full(self, element: Element, childclass: str = "", kind: str | None = None) -> Element:
        """An element with what its defaults add."""
        given: dict[str, str] = {}
        for _, attributes in self.steps(element, childclass, kind or element.tag):
            given |= attributes
        return element.with_attributes(given | element.attributes) if given else element

    # ---- places -------------------------------------------------------------------------------------------------

    def angle(self, e: Element, x: float) -> float:
        """An angle of an element in rad."""
        return math.radians(x) if self.compiler(e).get("angle", "degree") != "radian" else x

    def rotation(self, e: Element) -> np.ndarray:
        """Orientation of an element, in any of MuJoCo's ways."""
        if "quat" in e.attributes:
            return from_quaternion(nonzero(e, "quat", numbers(e, "quat", "1 0 0 0", 4)))
        if "axisangle" in e.attributes:
            x = numbers(e, "axisangle", "", 4)
            return turn(nonzero(e, "axisangle", x[:3]), self.angle(e, x[3]))
        if "euler" in e.attributes:
            R, sequence = np.eye(3), self.compiler(e).get("eulerseq", "xyz")
            if len(sequence) != 3 or set(sequence.lower()) - set("xyz"):
                raise bad(self.compiler(e), f"eulerseq {sequence!r} is not three of x, y, z")
            for letter, x in zip(sequence, numbers(e, "euler", "", 3), strict=True):
                one = turn(AXIS[letter.lower()], self.angle(e, x))
                R = R @ one if letter.islower() else one @ R
            return R
        if "xyaxes" in e.attributes:
            v = numbers(e, "xyaxes", "", 6)
            x = nonzero(e, "xyaxes", v[:3]) / np.linalg.norm(v[:3])
            y = nonzero(e, "xyaxes", v[3:] - x * (x @ v[3:]))
            y = y / np.linalg.norm(y)
            return np.stack([x, y, np.cross(x, y)], axis=1)
        if "zaxis" in e.attributes:
            return along_z(nonzero(e, "zaxis", numbers(e, "zaxis", "", 3)))
        return np.eye(3)

    def pose(self, e: Element) -> Pose:
        """Place and orientation of an element in what holds it."""
        return Pose(self.rotation(e), numbers(e, "pos", "0 0 0", 3))

    def members(self, element: Element, childclass: str, at: Pose = IDENTITY) -> Iterator[tuple[Element, Pose, str]]:
        """Children of a body with the pose of the frames around them and their class."""
        for child in element.children:
            if child.tag == "frame":
                yield from self.members(child, child.get("childclass") or childclass, at @ self.pose(child))
            else:
                yield child, at, childclass


def nonzero(e: Element, name: str, v: np.ndarray) -> np.ndarray:
    """A vector that has a direction."""
    if not np.linalg.norm(v) > 0:
        raise bad(e, f"{name} of <{e.tag}> has no direction")
    return v


def fromto(e: Element) -> tuple[Pose, float]:
    """Pose and half length of a shape between two points; MuJoCo's z axis points from the second to the first."""
    ends = numbers(e, "fromto", "", 6)
    R = along_z(nonzero(e, "fromto", ends[:3] - ends[3:]))
    return Pose(R, (ends[:3] + ends[3:]) / 2), float(np.linalg.norm(ends[3:] - ends[:3]) / 2)


def _gather(
    section: Element,
    defaults: dict[str, dict[str, list[tuple[str, dict[str, str]]]]],
    above: dict[str, list[tuple[str, dict[str, str]]]],
    name: str,
) -> None:
    label = section.get("class", name)
    outermost = label == f"{section.model}main"
    own = defaults[label] if outermost else {k: list(v) for k, v in above.items()}
    for child in section.children:
        if child.tag != "default":
            kind = "actuator" if child.tag in ACTUATORS else child.tag
            own.setdefault(kind, []).append((child.tag, child.attributes))
    defaults[label] = own
    for child in section.all("default"):
        if not child.get("class"):
            raise bad(child, "a <default> inside another has a class")
        _gather(child, defaults, own, child.get("class"))
