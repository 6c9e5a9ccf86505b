"""The tree of a MJCF file: bodies with their masses, joints, sites and shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from saltus.files.mjcf.actuators import Range, ranged
from saltus.files.mjcf.document import Document, fromto, nonzero
from saltus.files.mjcf.inertia import SIZES, Masses, kind_of
from saltus.files.xml.found import Kept, Left, Shape, called
from saltus.files.xml.rigid import IDENTITY, Mass, Pose, frame_at, to_quaternion, turn
from saltus.files.xml.tree import Element, Names, bad, located, numbers, scalar
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor

LEAST = 1e-13  # kg: what is lighter was written for MuJoCo, which wants every moving body to have some mass
LOOKS = {
    "light",
    "camera",
}
JOINT = (
    "name class type pos axis stiffness damping springref springdamper armature range limited ref frictionloss "
    "actuatorfrcrange actuatorfrclimited actuatorgravcomp"
)
JOINT_QUIET = "group user solreflimit solimplimit solreffriction solimpfriction margin"


@dataclass
class Dof:
    """A joint of the file: its name among ours, its element with defaults, the axis in the world at the start."""

    label: str
    kind: str
    element: Element
    link: str
    at: Pose
    axis: np.ndarray
    ref: float = 0.0
    armature: float = 0.0
    force: Range | None = None
    v_names: list[str] = field(default_factory=list)

    def motion(self, point: np.ndarray) -> np.ndarray:
        """Velocity of a point it moves and spin, a column for each of its velocities, at the start."""
        if self.kind == "slide":
            return np.concatenate([self.axis, np.zeros(3)])[:, None]
        axes = self.axis[:, None] if self.kind == "hinge" else self.at.R
        turning = np.concatenate([np.cross(axes.T, point - self.at.p).T, axes])
        return np.hstack([np.eye(6)[:, :3], turning]) if self.kind == "free" else turning


class Tree:
    """Bodies of a document as links of a machine; what comes after finds its parts here by the file's names."""

    def __init__(self, document: Document, left: Left, kept: Kept, motor_of: Callable[[Element], Motor | None]) -> None:
        self.document, self.left, self.kept, self._motor_of = document, left, kept, motor_of
        d = document
        self.masses = Masses(d, left)
        self.plane = any(e.get("name") == "saltus_plane" for e in d.sections("custom"))
        gravity = numbers(d.option, "gravity", "0 0 -9.81", 3) * (0 if d.off("gravity") else 1)
        name = d.root.get("model", "MuJoCo Model")
        self.m = Mechanism(name, spatial=not self.plane, gravity=list(gravity[:2] if self.plane else gravity))
        self.gravity = gravity
        self.names, self.joint_names = Names(), Names()
        self.links: dict[str, str] = {"world": "ground"}  # by the name in the file
        self.poses: dict[str, Pose] = {"ground": IDENTITY}  # in the world, at the start
        self.parents: dict[str, str] = {}
        self.mass: dict[str, Mass] = {}
        self.axes: dict[str, np.ndarray] = {}  # principal axes, where the file gives them
        self.sites: dict[str, tuple[str, Pose]] = {}
        self.shapes: dict[str, Shape] = {}  # by the name in the file
        self.joints: dict[str, Dof] = {}
        self.moving: dict[str, list[Dof]] = {}  # by the link they move
        self.start: dict[str, float] = {}
        self.compensated: list[tuple[Element, str, float]] = []

    def frame(self, link: str, pose: Pose) -> Frame:
        """A frame of a link."""
        return frame_at(self.m, link, pose)

    def read(self) -> None:
        """Read all bodies."""
        compiler, worlds = self.document.compilers[""], list(self.document.root.all("worldbody"))
        total = scalar(compiler, "settotalmass", -1)
        if total > 0:
            found = sum(self._weighed(world, "") for world in worlds)
            if not found:
                raise bad(compiler, f"settotalmass is {total:g} kg, and no body has a mass")
            self.masses.scale = total / found
        for world in worlds:
            self._inside(world, "ground", "")

    def _weighed(self, element: Element, childclass: str) -> float:
        """Mass of all bodies within an element (kg), before it is scaled."""
        out = 0.0
        for child, _, label in self.document.members(element, childclass):
            if child.tag == "body":
                own = child.get("childclass") or label
                out += self.masses.of_body(child, own).mass + self._weighed(child, own)
        return out

    # ---- bodies -------------------------------------------------------------------------------------------------

    def _inside(self, element: Element, link: str, childclass: str) -> None:
        for child, at, label in self.document.members(element, childclass):
            if child.tag == "body":
                with located(child):
                    self._body(child, link, at, child.get("childclass") or label)
            elif child.tag == "site":
                self._site(self.document.full(child, label), link, at)
            elif child.tag == "geom":
                self._geom(self.document.full(child, label), link, at)
            elif child.tag in LOOKS:
                self.left.over(child)
            elif child.tag not in ("joint", "freejoint", "inertial"):
                self.left.out(child, f"element <{child.tag}>{called(child)}")

    def _site(self, e: Element, link: str, at: Pose) -> None:
        name = e.get("name")
        pose = at @ (fromto(e)[0] if "fromto" in e.attributes else self.document.pose(e))
        if name:
            self.sites[name] = (link, pose)
            if name.isidentifier() and name not in self.m.points and not name.startswith("loop_site_"):
                self.m.point(name, self.frame(link, pose))

    def _geom(self, e: Element, link: str, at: Pose) -> None:
        pose = at @ (fromto(e)[0] if "fromto" in e.attributes else self.document.pose(e))
        if e.get("fluidshape", "none") != "none":
            self.left.out(e, f"fluidshape of <geom>{called(e)}")
        touches = bool(scalar(e, "contype", 1) or scalar(e, "conaffinity", 1)) and not self.document.off("contact")
        simple = kind_of(e) in SIZES and "mesh" not in e.attributes
        size = tuple(float(x) for x in (self.masses.solid(e)[0] if simple else numbers(e, "size", "", None)))
        friction = float(numbers(e, "friction", "1", None)[0])
        asset = self.masses.assets.get(e.get("mesh"))
        file = self.masses.path(asset) if asset is not None and asset.get("file") else ""
        masks = (int(scalar(e, "contype", 1)), int(scalar(e, "conaffinity", 1)))
        look = self.masses.surface(e, pose) if kind_of(e) == "mesh" and not self.plane else None
        found = Shape(e.get("name"), link, kind_of(e), pose, size, friction, touches, file, masks=masks, surface=look)
        self.shapes[found.name] = found
        self.kept.shapes.append(found)

    def _body(self, body: Element, parent: str, at: Pose, childclass: str) -> None:
        d, m = self.document, self.m
        name = self.names.new(body.get("name"), "body")
        self.links[body.get("name") or name] = name
        self.left.attributes(body, "name pos quat axisangle euler xyaxes zaxis childclass mocap gravcomp", "user sleep")
        if body.get("mocap", "false") == "true":
            self.left.remark(body, f"mocap body {name!r} stands where the file puts it")
        pose = at @ d.pose(body)
        self.poses[name], self.parents[name] = self.poses[parent] @ pose, parent
        mass = self.mass[name] = self.masses.of_body(body, childclass)
        if mass.mass > LEAST:
            self._link(name, mass)
        else:
            m.massless(name)
        inertial = next((e for e, _, _ in d.members(body, childclass) if e.tag == "inertial"), None)
        if inertial is not None and "fullinertia" not in inertial.attributes:
            self.axes[name] = d.rotation(inertial)
        share = scalar(body, "gravcomp")
        if share:
            self.compensated.append((body, name, share))
        joints = [
            (e if e.tag == "freejoint" else d.full(e, c, "joint"), seen)
            for e, seen, c in d.members(body, childclass)
            if e.tag in ("joint", "freejoint")
        ]
        self._joints(joints, body, parent, name, pose)
        self._inside(body, name, childclass)

    def _link(self, name: str, mass: Mass) -> None:
        tensor = ((mass.inertia + mass.inertia.T) / 2).tolist()
        if self.m.spatial:
            self.m.link(name, mass=mass.mass, com=list(mass.com), inertia=tensor)
        else:
            self.m.link(name, mass=mass.mass, com=list(mass.com[:2]), inertia=tensor[2][2])

    # ---- joints -------------------------------------------------------------------------------------------------

    def _joints(self, joints: list[tuple[Element, Pose]], body: Element, parent: str, name: str, pose: Pose) -> None:
        m = self.m
        if not joints:
            m.weld(self.joint_names.new(f"{name}_fixed", "fixed"), self.frame(parent, pose), m.links[name])
            return
        at, here = parent, pose
        for i, (e, seen) in enumerate(joints):
            last = i == len(joints) - 1
            target = name if last else self.names.new(f"{name}_part{i + 1}", "part")
            if not last:
                m.massless(target)
                self.parents[target], self.poses[target] = at, self.poses[name]
                self.mass[target] = Mass(0.0, np.zeros(3), np.zeros((3, 3)))
            self.parents[name] = at if last else target
            with located(e):
                self._joint(e, seen, name, at, here, target)
            at, here = target, IDENTITY

    def _joint(self, e: Element, seen: Pose, body: str, parent: str, pose: Pose, child: str) -> None:
        m, d = self.m, self.document
        kind = "free" if e.tag == "freejoint" else e.get("type", "hinge")
        label = self.joint_names.new(e.get("name"), f"{body}_{kind}")
        if e.tag == "freejoint":
            self.left.attributes(e, "name", "group align")
            if e.get("align", "false") == "true":
                self.left.out(e, f"align of freejoint {label!r}")
        else:
            self.left.attributes(e, JOINT, JOINT_QUIET)
        if kind not in ("hinge", "slide", "ball", "free"):
            raise bad(e, f"joint type {kind!r} is not one of MuJoCo's")
        place = seen @ Pose(np.eye(3), numbers(e, "pos", "0 0 0", 3))
        place = Pose(np.eye(3), place.p)
        axis = seen.R @ nonzero(e, "axis", numbers(e, "axis", "0 0 1", 3))
        axis = axis / np.linalg.norm(axis)
        axis = np.where(np.abs(axis - np.round(axis)) < 1e-15, np.round(axis), axis)
        dof = Dof(label, kind, e, child, self.poses[body] @ place, self.poses[body].R @ axis)
        self.joints[e.get("name") or label] = dof
        self.moving.setdefault(child, []).append(dof)
        if kind == "free":
            if parent != "ground":
                raise bad(e, f"free joint {label!r} of a body that is not in the world; MuJoCo refuses it too")
            m.free(label, m.ground, m.links[child])
            self._float(label, pose)
        elif kind == "ball":
            m.spherical(label, self.frame(parent, pose @ place), self.frame(child, place))
        else:
            ref = scalar(e, "ref")
            dof.ref = d.angle(e, ref) if kind == "hinge" else ref
            back = Pose(turn(axis, -dof.ref), np.zeros(3)) if kind == "hinge" else Pose(np.eye(3), -dof.ref * axis)
            a, b = self.frame(parent, pose @ place @ back if dof.ref else pose @ place), self.frame(child, place)
            motor = self._motor_of(e)
            if kind == "hinge":
                m.revolute(label, a, b, axis=axis, motor=motor)
            else:
                m.slide(label, a, b, axes=[list(axis)], motor=motor)
            self.start[label] = dof.ref
        dof.v_names = m.joints[label].v_names
        if kind in ("hinge", "slide"):
            dof.force = ranged(e, d, "actuatorfrcrange", "actuatorfrclimited")
        self._keep(dof)
        armature = scalar(e, "armature")
        if armature:
            dof.armature = armature
            for n in dof.v_names:
                m.armature(n, armature)

    def _float(self, label: str, pose: Pose) -> None:
        if self.m.spatial:
            values = [*pose.p, *to_quaternion(pose.R)]
        else:
            values = [*pose.p[:2], float(np.arctan2(pose.R[1, 0], pose.R[0, 0]))]
        self.start |= dict(zip(self.m.joints[label].q_names, values, strict=True))

    def _keep(self, dof: Dof) -> None:
        """Joint limits and dry friction: read, not acting yet."""
        e, d = dof.element, self.document
        limits = ranged(e, d, "range", "limited")
        if limits is not None and dof.kind != "free" and not d.off("limit"):
            turns = dof.kind in ("hinge", "ball")
            self.kept.ranges[dof.label] = tuple(d.angle(e, x) if turns else x for x in limits)  # type: ignore[assignment]
        loss = scalar(e, "frictionloss")
        if loss and not d.off("frictionloss"):
            self.kept.dry_friction[dof.label] = loss

    def mass_matrix(self) -> np.ndarray:
        """Mass matrix at the start, in the order of the velocities; MuJoCo finds some gains from it."""
        n = len(self.m.v_names)
        at = {name: i for i, name in enumerate(self.m.v_names)}
        M = np.zeros((n, n))
        for link, mass in self.mass.items():
            seen, J = mass.moved(self.poses[link]), np.zeros((6, n))
            above = link
            while above != "ground" and mass.mass:
                for dof in self.moving.get(above, ()):
                    J[:, [at[v] for v in dof.v_names]] = dof.motion(seen.com)
                above = self.parents[above]
            M += mass.mass * J[:3].T @ J[:3] + J[3:].T @ seen.inertia @ J[3:]
        for dof in self.joints.values():
            for v in dof.v_names:
                M[at[v], at[v]] += dof.armature
        return M
