"""SDF in: links and joints of one model, whose graph may have cycles; what closes them keeps its forces."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saltus.errors import BadFile, BadValue
from saltus.files.sdf.frames import WORLD, Frames, own_pose, value, vector, words, yes
from saltus.files.xml.bodies import add_body
from saltus.files.xml.found import Found, Kept, Left, Shape
from saltus.files.xml.mesh import surface
from saltus.files.xml.rigid import IDENTITY, Mass, Pose, frame_at, to_quaternion
from saltus.files.xml.tree import Element, Names, bad, located, scalar
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor

GRAVITY = "0 0 -9.8"  # m/s2, of a world that does not say
ENDLESS = 1e15  # rad, m, Nm, N: limits beyond are none
QUIET = {"visual", "sensor", "light", "self_collide", "must_be_base_link", "audio_source", "audio_sink", "projector"}
WORLD_QUIET = {
    *("light", "scene", "physics", "gui", "plugin", "atmosphere", "magnetic_field", "wind", "audio", "state"),
    *("spherical_coordinates", "road", "frame"),
}
MODEL_QUIET = {
    *("plugin", "self_collide", "allow_auto_disable", "enable_wind", "gripper"),
    "drake:collision_filter_group",
}
DRAKE = ("drake:rotor_inertia", "drake:gear_ratio", "drake:mimic")
JOINT_QUIET = {"physics", "sensor", "plugin", "thread_pitch"}
KINDS = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "slide",
    "universal": "universal",
    "ball": "spherical",
    "fixed": "weld",
}


def sdf_mechanism(root: Element, file: str, folder: Path | None = None, base: str | None = None) -> Found:
    """The machine of a document with one model that moves; `base` fixes its root or lets it float."""
    if base not in (None, "fixed", "free"):
        raise BadValue(f'base is {base!r}; give "fixed" or "free"', given=base)
    return _Reader(root, file, folder, base).read()


@dataclass(frozen=True, eq=False)
class _Axis:
    """One axis of a joint: its direction in the joint's frame, and what acts along it."""

    e: Element
    direction: np.ndarray
    damping: float
    friction: float
    stiffness: float
    rest: float
    low: float
    high: float
    effort: float
    speed: float
    rotor: float  # kg m2, kg: what the joint feels of its motor's rotor
    follows: Element | None

    @property
    def acts(self) -> bool:
        """Whether a joint needs a coordinate for it."""
        given = (self.follows, self.rotor, self.damping, self.stiffness, self.friction, self.effort > 0, self.bounded)
        return any(map(bool, given))

    @property
    def bounded(self) -> bool:
        """Whether it has an end."""
        return self.low > -ENDLESS or self.high < ENDLESS


@dataclass(frozen=True, eq=False)
class _Joint:
    """A joint of the file: its ends (links, or the world), its place in the model and its axes."""

    e: Element
    kind: str
    parent: str
    child: str
    pose: Pose
    axes: list[_Axis]

    @property
    def acts(self) -> bool:
        """Whether it needs coordinates of its own, so that others had better close the loops."""
        return any(axis.acts for axis in self.axes)


class _Reader:
    def __init__(self, root: Element, file: str, folder: Path | None, base: str | None) -> None:
        self.root, self.folder, self.base, self.left, self.kept = root, folder, base, Left(file), Kept()
        version = root.get("version", "1.6").split(".")
        if len(version) != 2 or not all(x.isdigit() for x in version):
            raise bad(root, f"version {root.get('version')!r} is no version of SDF")
        self.version = int(version[0]), int(version[1])
        world = root.first("world")
        model, self.standing = self._models(world if world is not None else root)
        self.model, self.frames = model, Frames(model, self.version)
        if not self.frames.links:
            raise bad(model, f"model {model.get('name')!r} has no <link>")
        self.gravity = vector(world if world is not None else root, "gravity", GRAVITY, 3)
        self.m = Mechanism(model.get("name") or "model", spatial=True, gravity=list(self.gravity))
        self.names, self.joint_names = Names(), Names()
        self.links: dict[str, str] = {WORLD: "ground"}
        self.placed: dict[str, Pose] = {WORLD: IDENTITY}  # of links, in the world, at zero coordinates
        self.shares: dict[str, list[str]] = {}  # of links, what joints that close loops are made with

    def _models(self, place: Element) -> tuple[Element, list[Element]]:
        """The one model that moves, and those that stand."""
        moving, standing = list[Element](), list[Element]()
        for e in place.children:
            if e.tag == "model":
                (standing if yes(e, "static") else moving).append(e)
            elif e.tag in WORLD_QUIET:
                self.left.over(e)
            elif e.tag == "include":
                self.left.out(e, f"<include> of {words(e, 'uri')!r}: only what the file itself holds is read")
            elif e.tag != "gravity":
                self.left.out(e, f"element <{e.tag}>")
        if len(moving) != 1:
            names = ", ".join(repr(e.get("name")) for e in moving[:5]) or "none"
            raise bad(place, f"<{place.tag}> holds {len(moving)} models that move ({names}); one is read at a time")
        return moving[0], standing

    def read(self) -> Found:
        """Read links, joints, loops and shapes."""
        model, frames = self.model, self.frames
        if model.get("placement_frame"):
            self.left.out(model, f"placement_frame {model.get('placement_frame')!r}")
        for e in model.children:
            if e.tag in MODEL_QUIET:
                self.left.over(e)
            elif e.tag in ("include", "model"):
                what = words(e, "uri") or e.get("name")
                self.left.out(e, f"<{e.tag}> {what!r}: nested models are not read; write their links into this one")
            elif e.tag not in ("link", "joint", "frame", "pose", "static"):
                self.left.out(e, f"element <{e.tag}> of model {model.get('name')!r}")
        here = own_pose(model)
        for name in frames.links:
            self.placed[name] = here @ frames.pose(name, frames.named[name])
        joints = [self._joint(e) for e in model.all("joint") if not self._nested(e)]
        tree = self._tree(joints)
        split = [j.child for j in joints if j not in tree and j.acts]
        for name in frames.links:
            with located(frames.named[name]):
                self._link(frames.named[name], split.count(name))
        for other in self.standing:
            for e in other.all("link"):
                self._shapes(e, "ground", own_pose(other) @ own_pose(e))
        self._joints(joints, tree)
        if joints and not any(a.effort > 0 for j in joints for a in j.axes):
            self.left.remark(model, "no joint states an <effort> above zero, so none has a motor")
        return Found(self.m, self.left, self.kept, "zero")

    # ---- links --------------------------------------------------------------------------------------------------

    def _link(self, e: Element, halves: int) -> None:
        """A link; where joints with forces close loops at it, a share of it for each of them, to be welded to it."""
        name = self.links[e.get("name")] = self.names.new(e.get("name"), "link")
        for child in e.children:
            still = child.tag == "velocity_decay" and not (value(child, "linear") or value(child, "angular"))
            off = child.tag in ("enable_wind", "kinematic") and not yes(e, child.tag)
            if child.tag in QUIET or still or off:
                self.left.over(child)
            elif child.tag not in ("inertial", "collision", "pose", "gravity"):
                self.left.out(child, f"element <{child.tag}> of link {name!r}")
        mass = self._mass(e)
        share = Mass(mass.mass / (1 + halves), mass.com, mass.inertia / (1 + halves))
        self.shares[name] = [self.names.new(f"{name}_share", "share") for _ in range(halves)]
        for part in (name, *self.shares[name]):
            add_body(self.m, self.left, e, part, share)
        if not yes(e, "gravity", True) and mass.mass > 0:
            at = frame_at(self.m, name, Pose(np.eye(3), mass.com))
            self.m.force(f"{name}_weightless", at, list(-mass.mass * self.gravity))
        self._shapes(e, name, IDENTITY)

    def _mass(self, e: Element) -> Mass:
        inertial = e.first("inertial")
        if inertial is None:
            self.left.remark(e, f"link {e.get('name')!r} has no <inertial>: 1 kg and 1 kg m2, as Gazebo takes it")
            return Mass(1.0, np.zeros(3), np.eye(3))
        for part in inertial.children:
            if part.tag not in ("mass", "pose", "inertia"):
                self.left.out(part, f"element <{part.tag}> of the inertia of link {e.get('name')!r}")
        if inertial.get("auto") in ("true", "1"):
            self.left.out(inertial, f"inertia of link {e.get('name')!r} from its shapes (auto)")
        tensor = inertial.first("inertia") or Element("inertia", {}, inertial.line, file=inertial.file)
        x = {k: value(tensor, k, float(k[1] == k[2])) for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
        rows = [[x["ixx"], x["ixy"], x["ixz"]], [x["ixy"], x["iyy"], x["iyz"]], [x["ixz"], x["iyz"], x["izz"]]]
        return Mass(value(inertial, "mass", 1.0), np.zeros(3), np.array(rows)).moved(own_pose(inertial))

    def _shapes(self, e: Element, link: str, pose: Pose) -> None:
        for seen in e.all("visual"):
            geometry = seen.first("geometry")
            mesh = geometry.first("mesh") if geometry is not None else None
            if mesh is not None:
                with suppress(BadFile):  # what is only seen keeps no machine from being read
                    at = pose @ own_pose(seen)
                    look = surface(mesh, self.folder, words(mesh, "uri"), vector(mesh, "scale", "1 1 1", 3), at)
                    shape = Shape(seen.get("name"), link, "mesh", at, (), 1.0, False, words(mesh, "uri"), surface=look)
                    self.kept.shapes.append(shape)
        for collision in e.all("collision"):
            geometry = collision.first("geometry")
            for g in geometry.children if geometry is not None else ():
                size = [float(x) for tag in ("size", "radius", "length") for x in vector(g, tag, "", None)]
                if g.tag == "capsule" and len(size) == 2:
                    size[1] /= 2
                mu = collision
                for tag in ("surface", "friction", "ode"):
                    mu = mu.first(tag) or Element(tag, {}, mu.line, file=mu.file)
                self.kept.shapes.append(
                    Shape(
                        collision.get("name"),
                        link,
                        g.tag,
                        pose @ own_pose(collision),
                        tuple(size),
                        friction=value(mu, "mu", 1.0),
                        file=words(g, "uri"),
                        share=0.5,
                    )
                )

    # ---- joints -------------------------------------------------------------------------------------------------

    def _nested(self, e: Element) -> bool:
        """Whether a joint leads into a model within the model, and is left out with it."""
        inner = [words(e, side) for side in ("parent", "child") if "::" in words(e, side)]
        for name in inner:
            self.left.out(e, f"joint {e.get('name')!r} to {name!r} of a nested model")
        return bool(inner)

    def _joint(self, e: Element) -> _Joint:
        kind, name = KINDS.get(e.get("type")), e.get("name")
        if kind is None:
            raise bad(e, f"joint {name!r}: type {e.get('type')!r} is not one of {', '.join(KINDS)}")
        for part in e.children:
            if part.tag in JOINT_QUIET:
                self.left.over(part)
            elif part.tag not in ("parent", "child", "axis", "axis2", "pose", *DRAKE) or (
                part.tag in DRAKE and kind not in ("revolute", "slide")
            ):
                self.left.out(part, f"element <{part.tag}> of joint {name!r}")
        ends = [words(e, side) for side in ("parent", "child")]
        parent = WORLD if ends[0] == WORLD else self.frames.link_of(ends[0], e)
        child = self.frames.link_of(ends[1], e)
        if parent == child:
            raise bad(e, f"joint {name!r} joins {parent!r} to itself")
        pose = own_pose(self.model) @ self.frames.pose(name, e)
        count = {"weld": 0, "spherical": 0, "universal": 2}.get(kind, 1)
        tags = [t for t in (e.first("axis"), e.first("axis2")) if t is not None][:count]
        while len(tags) < count:
            tags.append(Element("axis", {}, e.line, file=e.file))
        return _Joint(e, kind, parent, child, pose, [self._axis(t, e, pose) for t in tags])

    def _axis(self, tag: Element, joint: Element, pose: Pose) -> _Axis:
        name = joint.get("name")
        xyz = vector(tag, "xyz", "0 0 1", 3)
        if not xyz.any():
            raise bad(tag, f"the axis of joint {name!r} has no direction")
        child = tag.first("xyz")
        within = child.get("expressed_in") if child is not None else ""
        if within:
            xyz = pose.R.T @ (own_pose(self.model) @ self.frames.pose(within, tag)).R @ xyz
        elif self.version < (1, 5) or yes(tag, "use_parent_model_frame"):
            xyz = pose.R.T @ own_pose(self.model).R @ xyz
        parts = {p: tag.first(p) or Element(p, {}, tag.line, file=tag.file) for p in ("limit", "dynamics")}
        known = ("xyz", "limit", "dynamics", "use_parent_model_frame", "initial_position", "mimic")
        for part in tag.children:
            if part.tag not in known:
                self.left.out(part, f"element <{part.tag}> of the axis of joint {name!r}")
        if value(tag, "initial_position"):
            self.left.out(tag, f"initial_position of joint {name!r}")
        limit, dynamics, gear = parts["limit"], parts["dynamics"], value(joint, "drake:gear_ratio", 1.0)
        ends = [-np.inf, np.inf] if joint.get("type") == "continuous" else []
        low, high = ends or (_long(limit, "lower", -1e16), _long(limit, "upper", 1e16))
        if low > high:
            raise bad(limit, f"joint {name!r}: the lower limit {low:g} is above the upper one, {high:g}")
        damping, friction, stiffness, rest = (
            value(dynamics, k) for k in ("damping", "friction", "spring_stiffness", "spring_reference")
        )
        return _Axis(
            tag,
            xyz,
            damping,
            friction,
            stiffness,
            rest,
            low,
            high,
            _long(limit, "effort", -1.0),
            _long(limit, "velocity", -1.0),
            value(joint, "drake:rotor_inertia") * gear * gear,
            tag.first("mimic") or joint.first("drake:mimic"),
        )

    def _tree(self, joints: list[_Joint]) -> list[_Joint]:
        """Joints that place links, those with forces of their own before others; the rest closes loops."""
        group = {n: {n} for n in self.placed}
        tree = []
        for j in sorted(joints, key=lambda j: not j.acts):
            if group[j.parent] is not group[j.child]:
                tree.append(j)
                group[j.parent] |= group[j.child]
                for n in group[j.child]:
                    group[n] = group[j.parent]
        return sorted(tree, key=joints.index)

    def _joints(self, joints: list[_Joint], tree: list[_Joint]) -> None:
        """Place link after link, from the world and the canonical link on, then close the loops."""
        held, where = {WORLD}, dict[str, tuple[float, ...]]()
        for root in dict.fromkeys([WORLD, self.frames.canonical, *self.frames.links]):
            if root not in held:
                where |= self._root(root)
                held.add(root)
            while ready := [j for j in tree if (j.parent in held) != (j.child in held)]:
                self._place(ready[0], self.links[ready[0].parent], self.links[ready[0].child])
                held |= {ready[0].parent, ready[0].child}
        for j in joints:
            if j not in tree:
                self._close(j)
        for j in joints:
            for axis in j.axes:
                if axis.follows is not None:
                    self._follow(axis.follows, j.e.get("name"))
        self.m.keyframes["zero"] = {"near": where} if self.m.loops or self.m.constraints else {**where}

    def _root(self, root: str) -> dict[str, tuple[float, ...]]:
        """Let a link that nothing holds float, or hold it; returns where it starts."""
        m, pose = self.m, self.placed[root]
        link = m.links[self.links[root]]
        if self.base == "fixed":
            m.weld(self.joint_names.new(f"{root}_held", "held"), frame_at(m, "ground", pose), link)
            return {}
        label = self.joint_names.new("base" if root == self.frames.canonical else f"{root}_free", "base")
        m.free(label, m.ground, link)
        return {label: (*map(float, pose.p), *map(float, to_quaternion(pose.R)))}

    def _frames_of(self, j: _Joint, parent: str, child: str) -> tuple[Frame, Frame]:
        seen = {side: self.placed[link].inverse @ j.pose for side, link in ((0, j.parent), (1, j.child))}
        return frame_at(self.m, parent, seen[0]), frame_at(self.m, child, seen[1])

    def _place(self, j: _Joint, parent: str, child: str) -> None:
        """Make a joint with its coordinates, and what acts along them."""
        m, name = self.m, self.joint_names.new(j.e.get("name").replace(".", "_"), "joint")
        with located(j.e):
            a, b = self._frames_of(j, parent, child)
            if j.kind in ("weld", "spherical"):
                getattr(m, j.kind)(name, a, b)
                return
            directions = [list(x.direction) for x in j.axes]
            effort = j.axes[0].effort
            motor = {"motor": Motor(torque=effort if effort < ENDLESS else None)} if effort > 0 else {}
            if j.kind == "universal":
                m.universal(name, a, b, axes=directions)
                if effort > 0 or j.axes[1].effort > 0:
                    self.left.out(j.e, f"effort of universal joint {name!r}: two motors on one joint")
            elif j.kind == "slide":
                m.slide(name, a, b, axes=directions, **motor)
            else:
                m.revolute(name, a, b, axis=directions[0], **motor)
            if j.acts:
                for axis, coordinate in zip(j.axes, m.joints[name].v_names, strict=True):
                    self._act(axis, coordinate)

    def _act(self, axis: _Axis, coordinate: str) -> None:
        if axis.damping or axis.stiffness:
            self.m.joint_spring(
                f"{coordinate.replace('.', '_')}_spring",
                coordinate,
                stiffness=axis.stiffness,
                rest=axis.rest,
                damping=axis.damping,
            )
        if axis.rotor:
            self.m.armature(coordinate, axis.rotor)
        if axis.friction:
            self.kept.dry_friction[coordinate] = axis.friction
        if axis.bounded:
            self.kept.ranges[coordinate] = (max(axis.low, -ENDLESS), min(axis.high, ENDLESS))
        if 0 < axis.speed < ENDLESS:
            self.kept.speeds[coordinate] = axis.speed

    def _close(self, j: _Joint) -> None:
        """Close a loop: by the joint itself, or where forces act in it by a share of its child welded to the rest."""
        whole = self.links[j.child]
        if not j.acts:
            self._place(j, self.links[j.parent], whole)
            return
        share = self.shares[whole].pop()
        self._place(j, self.links[j.parent], share)
        label = self.joint_names.new(f"{j.e.get('name')}_closed".replace(".", "_"), "closed")
        self.m.weld(label, self.m.links[whole], self.m.links[share])

    def _follow(self, tag: Element, name: str) -> None:
        """q = multiplier (q of the other - reference) + offset."""
        m, names = self.m, (name, tag.get("joint"))
        for n in names:
            if n.replace(".", "_") not in m.q_names or tag.get("axis", "axis") != "axis":
                self.left.out(tag, f"mimic of joint {name!r}: {n!r} is no joint of one axis that places a link")
                return
        own, other = (m.q[n.replace(".", "_")] for n in names)
        with located(tag):
            slope, rest, shift = (
                scalar(tag, k) if k in tag.attributes else value(tag, k) for k in ("multiplier", "reference", "offset")
            )  # Drake has attributes
            follows = slope * (other - rest) + shift
            m.constraint(f"{name}_follows", own - follows)


def _long(e: Element, tag: str, default: float) -> float:
    """A limit, which may be infinite."""
    text = words(e, tag, repr(default)).lower()
    return float(text) if text in ("inf", "+inf", "-inf") else value(e, tag, default)
