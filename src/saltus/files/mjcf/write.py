"""MJCF out: a mechanism at its default Params as MuJoCo's XML, loops as equality constraints between sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from saltus.files.mjcf.servos import Servo, damping, servo
from saltus.files.xml.contacts import POINT, ends, named, unheld
from saltus.files.xml.found import FAR
from saltus.files.xml.rigid import IDENTITY, Mass, Numeric, Pose, to_quaternion, turn
from saltus.files.xml.tree import Element
from saltus.model.forces import Effort, JointSpring, Spring
from saltus.model.joints import Ball, Joint, Shift, Turn
from saltus.model.mechanism import Mechanism, Placement
from saltus.model.touching import Foot, Rub, Stop, Touching

LEAST = 1e-14  # kg, kg m2: MuJoCo wants every moving body to have some mass
FIRM = {"solref": "0.004 1", "solimp": "0.9999 0.9999 0.001 0.5 2"}
APART = 0.1  # m between the two points that hold a hinge's axis


def mjcf_tree(mechanism: Mechanism) -> tuple[Element, list[str]]:
    """The document, and what it has no element for."""
    return _Writer(mechanism).document()


class _Writer:
    def __init__(self, m: Mechanism) -> None:
        self.m, self.n, self.left = m, Numeric(m), []  # type: Mechanism, Numeric, list[str]
        self.sites = 0

    def document(self) -> tuple[Element, list[str]]:
        m = self.m
        root = Element("mujoco", {"model": m.name})
        root.add("compiler", angle="radian", autolimits="true", inertiafromgeom="false")
        root.add("option", gravity=self.n.array(m.gravity).ravel(), timestep=0.0005)
        if not m.spatial:
            root.add("custom").add("text", name="saltus_plane", data="xy")
        world = root.add("worldbody")
        self.equality, self.tendon, self.actuator = (
            Element("equality", {}),
            Element("tendon", {}),
            Element("actuator", {}),
        )
        self.bodies = {"ground": world}
        self.joint_tags: dict[str, Element] = {}
        self.balls: dict[tuple[str, ...], Element] = {}  # by their three rates
        for placement in m.placements:
            self._body(placement)
        for name, frame in m.points.items():
            if isinstance(m.touching.get(name), Foot):
                continue  # its sphere has the name
            pose = self.n.pose(frame)
            self.bodies[frame.link.name].add("site", name=name, pos=pose.p, quat=to_quaternion(pose.R), size=0.005)
        for joint in m.loops:
            self._loop(joint)
        for constraint in m.constraints.values():
            for i in range(constraint.phi.numel()):
                self._affine(
                    f"{constraint.name}_{i + 1}" if constraint.phi.numel() > 1 else constraint.name,
                    f"constraint {constraint.name!r}",
                    constraint.phi[i],
                )
        self.servos: dict[str, Servo] = {}  # by input
        for name, force in m.forces.items():
            self._force(name, force)
        for touching in m.touching.values():
            self._touching(touching)
        if any(isinstance(x, Foot) for x in m.touching.values()):
            up = np.array([0, 0, 1]) if m.spatial else np.array([0, 1, 0])
            still = {"friction": "0 0 0", "contype": 0, "conaffinity": 1}  # feet bring their own
            world.add("geom", name="ground", type="plane", size="5 5 0.1", zaxis=up, **still)
        self.left += [f"memory {n!r}" for n in m.memories]
        motors = {n for j in m.joints.values() if j.motor for n in j.v_names}
        for name in m.inputs:
            if name in motors and name in self.joint_tags:
                self._motor(name)
            elif name in self.servos:
                self._servo(self.servos[name])
            elif name in motors:
                self.left.append(f"motor {name!r} on a joint that closes a loop or has a given motion")
            else:
                self.left.append(f"input {name!r}")
        for name, inertia in m.reflected:
            value = self.n.value(inertia)
            tag = self.joint_tags.get(name)
            if tag is not None and value:
                tag.attributes["armature"] = repr(float(tag.get("armature", "0")) + value)
            elif value and name in m.armatures:
                self.left.append(f"armature of {name!r}, a coordinate of a ball joint or a loop")
        for part in (self.tendon, self.equality, self.actuator, self._keyframes(world)):
            if part.children:
                root.children.append(part)
        return root, self.left

    def _keyframes(self, world: Element) -> Element:
        """Configurations by name, in the order in which MuJoCo counts joints: body by body, depth first."""
        m, out, tags = (
            self.m,
            Element("keyframe", {}),
            [e.get("name") for e in _inside(world) if e.tag in ("joint", "freejoint")],
        )
        balls = {f"{j.name}.ball": j for j in m.joints.values()}
        whole = {j.name: j for j in m.joints.values() if j.kind == "free"}
        for name in m.keyframes:
            state = m.keyframe(name)
            if not np.array_equal(state.p, self.n.p):
                self.left.append(f"keyframe {name!r}, which has Params of its own")
                continue
            q, v = (dict(zip(*x, strict=True)) for x in ((m.q_names, state.positions), (m.v_names, state.velocities)))
            for joint in m.joints.values():
                for own, e in zip(joint.q_names, joint.motion or (), strict=False):
                    constant, coefficients = self.n.affine(e) or (0.0, {})
                    q[own] = constant + sum(c * q[n] for n, c in coefficients.items())
                    v[own] = sum(c * v[n] for n, c in coefficients.items())
            places, speeds = [], []
            for tag in tags:
                ball, free = balls.get(tag), whole.get(tag)
                own_q = [n for n in ball.q_names if n not in ball.v_names] if ball else free.q_names if free else [tag]
                own_v = [n for n in ball.v_names if n not in ball.q_names] if ball else free.v_names if free else [tag]
                places += [q[n] for n in own_q]
                speeds += [v[n] for n in own_v]
            out.add("key", name=name, qpos=np.array(places), qvel=np.array(speeds))
        return out

    # ---- contacts -----------------------------------------------------------------------------------------------

    def _touching(self, part: Touching) -> None:
        """Feet are spheres, ends of joints ranges, dry friction is frictionloss; MuJoCo's contacts are soft."""
        self.left += unheld(part, self.n)
        if isinstance(part, Foot):
            self.bodies[part.point.link.name].add(
                "geom",
                name=part.name,
                type="sphere",
                pos=self.n.pose(part.point).p,
                size=self.n.value(part.radius) or POINT,
                friction=None if part.friction is None else np.array([self.n.value(part.friction), 0.0, 0.0]),
                contype=1,
                conaffinity=0,
            )
        elif isinstance(part, Stop | Rub) and part.coordinate in self.joint_tags:
            tag = self.joint_tags[part.coordinate]
            if isinstance(part, Rub):
                tag.attributes["frictionloss"] = repr(self.n.value(part.effort))
            else:
                low, high = ends(part, self.n)
                tag.attributes["range"] = f"{low!r} {high!r}"
        else:
            self.left.append(named(part))

    # ---- the tree -----------------------------------------------------------------------------------------------

    def _body(self, placement: Placement) -> None:
        joint, link = placement.joint, placement.child
        near, far = (joint.b, joint.a) if placement.reversed else (joint.a, joint.b)
        start, end = self.n.pose(near), self.n.pose(far)
        primitives = list(joint.primitives)
        sign = 1.0
        if placement.reversed:
            primitives, sign = primitives[::-1], -1.0
        motion = [self.n.affine(e) for e in joint.motion] if joint.motion is not None else None
        fixed = motion is not None and all(x is not None and not x[1] for x in motion)
        middle = IDENTITY
        if fixed and motion is not None:
            for p, value in zip(joint.primitives, motion, strict=True):
                assert value is not None
                middle = middle @ _moved(p, value[0])
            middle = middle.inverse if placement.reversed else middle
        rest = start @ middle @ end.inverse
        body = self.bodies[placement.parent.name].add("body", name=link.name, pos=rest.p, quat=to_quaternion(rest.R))
        self.bodies[link.name] = body
        if self._floats(placement):
            body.add("freejoint", name=joint.name)
        elif not fixed:
            names = iter(joint.v_names if not placement.reversed else joint.v_names[::-1])
            for p in primitives:
                self._primitive(body, joint, p, sign, end, names)
            if motion is not None:
                self._followers(joint, motion)
        mass = self.n.mass(link)
        if mass.mass > 0 or mass.inertia.any() or not fixed:
            _inertial(body, mass)
        body.add("geom", type="sphere", pos=mass.com, size=0.01, contype=0, conaffinity=0, group=1)

    def _floats(self, placement: Placement) -> bool:
        """Whether a joint is what MuJoCo calls free: between origins of world and body, with nothing acting in it."""
        joint, m = placement.joint, self.m
        acting = [getattr(x, "coordinate", "") for x in (*m.forces.values(), *m.touching.values())] + list(m.armatures)
        tied = [self.n.affine(c.phi[i]) for c in m.constraints.values() for i in range(c.phi.numel())]
        acting += [name for given in tied if given is not None for name in given[1]]
        return (
            joint.kind == "free"
            and not placement.reversed
            and joint.a.link.name == "ground"
            and all(
                np.array_equal(p.p, np.zeros(3)) and np.array_equal(p.R, np.eye(3))
                for p in map(self.n.pose, (joint.a, joint.b))
            )
            and joint.motor is None
            and not set(acting) & set(joint.v_names)
        )

    def _primitive(self, body: Element, joint: Joint, p: Any, sign: float, end: Pose, names: Any) -> None:
        if isinstance(p, Ball):
            if sign < 0:
                self.left.append(f"joint {joint.name!r}: a ball joint written child first; swap a and b")
            for _ in range(3):
                next(names, None)
            tag = body.add("joint", name=f"{joint.name}.ball", type="ball", pos=end.p)
            self.balls[tuple(joint.v_names[-3:])] = tag
        elif isinstance(p, Turn | Shift):
            name = next(names)
            kind = "hinge" if isinstance(p, Turn) else "slide"
            tag = body.add("joint", name=name, type=kind, pos=end.p, axis=sign * end.R @ np.array(p.axis))
            self.joint_tags[name] = tag
        else:
            self.left.append(f"joint {joint.name!r}: a bend, which is no rigid joint")

    def _followers(self, joint: Joint, motion: list[Any]) -> None:
        for name, given in zip(joint.q_names, motion, strict=True):
            if given is None:
                self.left.append(f"joint {joint.name!r}: `motion` that is not linear in coordinates")
            else:
                constant, coefficients = given
                self._tie(f"{name}_follows", -constant, {name: 1.0, **{n: -c for n, c in coefficients.items()}})

    # ---- constraints --------------------------------------------------------------------------------------------

    def _site(self, link: str, pose: Pose) -> str:
        self.sites += 1
        name = f"loop_site_{self.sites}"
        self.bodies[link].add("site", name=name, pos=pose.p, quat=to_quaternion(pose.R), size=0.004, group=4)
        return name

    def _loop(self, joint: Joint) -> None:
        a, b = self.n.pose(joint.a), self.n.pose(joint.b)
        where = (joint.a.link.name, joint.b.link.name)
        turns = [p for p in joint.primitives if isinstance(p, Turn)]
        shifts = [p for p in joint.primitives if isinstance(p, Shift)]
        if joint.kind == "weld":
            self.equality.add(
                "weld", name=joint.name, site1=self._site(where[0], a), site2=self._site(where[1], b), **FIRM
            )
        elif joint.kind in ("revolute", "spherical"):
            self.equality.add(
                "connect", name=joint.name, site1=self._site(where[0], a), site2=self._site(where[1], b), **FIRM
            )
            if turns and self.m.spatial:
                offset = Pose(np.eye(3), APART * np.array(turns[0].axis))
                self.equality.add(
                    "connect",
                    name=f"{joint.name}_axis",
                    site1=self._site(where[0], a @ offset),
                    site2=self._site(where[1], b @ offset),
                    **FIRM,
                )
        elif not _locks(self.m, joint):
            if joint.motor is None and not any(
                isinstance(f, JointSpring) and f.coordinate.split(".")[0] == joint.name for f in self.m.forces.values()
            ):
                return  # it locks nothing and nothing acts on it
            self.left.append(f"joint {joint.name!r}: a joint that only measures")
        else:
            self.left.append(f"joint {joint.name!r}: a loop closed by a {joint.kind} joint ({len(shifts)} slide(s))")

    def _affine(self, name: str, part: str, phi: Any) -> None:
        given = self.n.affine(phi)
        if given is None:
            self.left.append(f"{part}: not linear in coordinates")
        else:
            self._tie(name, given[0], given[1])

    def _tie(self, name: str, constant: float, coefficients: dict[str, float]) -> None:
        """constant + sum c q = 0, as a fixed tendon of constant length."""
        missing = [n for n in coefficients if n not in self.joint_tags]
        if missing:
            self.left.append(f"{name!r}: it ties coordinates of a ball joint ({', '.join(missing)})")
            return
        tendon = self.tendon.add("fixed", name=f"{name}_sum")
        for n, c in coefficients.items():
            tendon.add("joint", joint=n, coef=c)
        # MuJoCo holds the length at its value in the reference configuration (zero) plus the polynomial's constant.
        self.equality.add(
            "tendon", name=name, tendon1=f"{name}_sum", polycoef=np.array([-constant, 0, 0, 0, 0]), **FIRM
        )

    # ---- forces -------------------------------------------------------------------------------------------------

    def _force(self, name: str, force: Any) -> None:
        if isinstance(force, Spring):
            k, rest, d = (self.n.value(x) for x in (force.stiffness, force.length, force.damping))
            tendon = self.tendon.add("spatial", name=name, stiffness=k, springlength=rest, damping=d, width=0.002)
            for frame in (force.a, force.b):
                tendon.add("site", site=self._site(frame.link.name, self.n.pose(frame)))
            if d < 0:
                self.left.append(f"spring {name!r}: negative damping")
        elif isinstance(force, JointSpring):
            tag = self.joint_tags.get(force.coordinate)
            k, rest, d = (self.n.value(x) for x in (force.stiffness, force.rest, force.damping))
            if tag is None or "stiffness" in tag.attributes or d < 0 or k < 0:
                self.left.append(
                    f"spring {name!r} on {force.coordinate!r}: a loop's coordinate, a second spring or "
                    "a negative number"
                )
            else:
                tag.attributes |= {"stiffness": repr(k), "springref": repr(rest), "damping": repr(d)}
        elif isinstance(force, Effort) and (damped := damping(force, self.n)) and damped[0] in self.balls:
            self.balls[damped[0]].attributes["damping"] = repr(damped[1])
        elif isinstance(force, Effort) and (found := servo(force, self.n)) and found.coordinate in self.joint_tags:
            if found.command in self.servos:
                self.left.append(f"effort {name!r}: input {found.command!r} acts twice")
            self.servos[found.command] = found
        else:
            self.left.append(f"{type(force).__name__.lower()} {name!r}")

    def _servo(self, s: Servo) -> None:
        """Gain and bias, which MuJoCo counts on the actuator's side of the gear."""
        bias = np.array([s.a, s.c / s.gear, s.d / s.gear])
        self.actuator.add(
            "general",
            name=s.command,
            joint=s.coordinate,
            gear=s.gear,
            gainprm=s.b,
            biastype="affine" if bias.any() else None,
            biasprm=bias if bias.any() else None,
            ctrlrange=_range(s.ctrl),
            forcerange=_range(s.force),
        )

    def _motor(self, name: str) -> None:
        motor = self.m.joints[name.split(".")[0]].motor
        assert motor is not None
        limit = None if motor.most is None else self.n.value(motor.most)
        self.actuator.add(
            "motor", name=name, joint=name, gear=1, ctrlrange=None if limit is None else np.array([-limit, limit])
        )
        for what in ("speed", "power", "stall"):
            if getattr(motor, what) is not None:
                self.left.append(f"motor {name!r}: its {what} limit")


def _inertial(body: Element, mass: Mass) -> None:
    inertia = mass.inertia + (LEAST * np.eye(3) if np.linalg.eigvalsh(mass.inertia).min() < LEAST else 0)
    xx, yy, zz, xy, xz, yz = (inertia[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    full = None if (xy, xz, yz) == (0, 0, 0) else np.array([xx, yy, zz, xy, xz, yz])
    body.add(
        "inertial",
        pos=mass.com,
        mass=max(mass.mass, LEAST),
        fullinertia=full,
        diaginertia=np.array([xx, yy, zz]) if full is None else None,
    )


def _range(ends: tuple[float, float]) -> np.ndarray | None:
    return np.clip(ends, -FAR, FAR) if np.isfinite(ends).any() else None


def _inside(element: Element) -> Iterator[Element]:
    """Everything inside an element, in the order of the file."""
    for child in element.children:
        yield child
        yield from _inside(child)


def _moved(p: Any, value: float) -> Pose:
    axis = np.array(p.axis)
    return Pose(turn(axis, value), np.zeros(3)) if isinstance(p, Turn) else Pose(np.eye(3), value * axis)


def _locks(m: Mechanism, joint: Joint) -> bool:
    from saltus.model.kinematics import Kinematics

    return any(c.joint is joint and c.phi.numel() for c in Kinematics(m).closures())
