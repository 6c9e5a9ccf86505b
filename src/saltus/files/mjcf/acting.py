"""What drives a MJCF machine: the file's ctrl as inputs, in its order and units."""

from __future__ import annotations

import casadi as ca
import numpy as np

from saltus.files.mjcf.actuators import Actuator, clipped, read_actuator
from saltus.files.mjcf.document import Document
from saltus.files.mjcf.ties import Ties
from saltus.files.mjcf.tree import Tree
from saltus.files.xml.found import Left, called
from saltus.files.xml.tree import Element, Names, bad, located, numbers
from saltus.model.parts import Motor
from saltus.model.symbols import SX


class Acting:
    """Actuators of a document: a plain motor alone on a joint is the joint's Motor, all others are efforts."""

    def __init__(self, document: Document, left: Left) -> None:
        self.left = left
        self.all: list[Actuator] = []
        self.inputs: list[str] = []  # in the file's order
        self.commands: dict[str, dict[str, float]] = {}
        for raw in document.sections("actuator") if not document.off("actuation") else ():
            with located(raw):
                self.all.append(read_actuator(raw, document))
        joints = [a.element.get("joint") for a in self.all]
        self._motors = {
            a.element.get("joint"): a
            for a in self.all
            if self._usable(a, say=False)
            and a.plain
            and a.limit is not None
            and joints.count(a.element.get("joint")) == 1
        }
        self._motors.pop("", None)

    def motor_of(self, joint: Element) -> Motor | None:
        """The Motor of a joint: one whose ctrl is the joint's effort, with symmetric limits."""
        a = self._motors.get(joint.get("name"))
        if a is None or "actuatorfrcrange" in joint.attributes:
            self._motors.pop(joint.get("name"), None)
            return None
        limit = a.limit
        return Motor() if limit == np.inf else Motor(torque=limit)

    def _usable(self, a: Actuator, say: bool = True) -> bool:
        e, reasons = a.element, list(a.unknown)
        if e.tag == "adhesion" and "body" in e.attributes:
            return True
        if a.dynamics not in ("none", "integrator", "filter", "filterexact", "muscle"):
            reasons.append(f"dyntype {a.dynamics!r}")
        if a.gain_type not in ("fixed", "affine", "muscle") or a.bias_type not in ("none", "affine", "muscle"):
            reasons.append(f"gaintype {a.gain_type!r}, biastype {a.bias_type!r}")
        for where in ("refsite", "cranksite", "slidersite", "jointinparent", "body"):
            if e.get(where):
                reasons.append(where)
        if reasons and say:
            self.left.out(e, f"actuator <{e.tag}>{called(e)}: {', '.join(dict.fromkeys(reasons))}")
        return not reasons

    def act(self, tree: Tree, ties: Ties) -> None:
        """Add the efforts of all actuators that are no Motor."""
        self.tree, m, r = tree, tree.m, tree
        names = Names()
        names.taken |= set(m.inputs)
        shared: dict[str, SX] = {}
        for a in self.all:
            with located(a.element):
                joint = a.element.get("joint")
                if joint in self._motors and r.joints.get(joint) is not None:
                    self.inputs.append(r.joints[joint].label)
                    continue
                if not self._usable(a):
                    continue
                self.inputs.append(names.new(a.name or joint or a.element.get("tendon"), "actuator"))
                self._effort(a, self.inputs[-1], ties, shared)
        for label, total in shared.items():
            dof = next(x for x in r.joints.values() if x.label == label)
            assert dof.force is not None
            m.effort(f"{label}_actuators", m.v[label], clipped(total, *dof.force))
        m.inputs = {n: m.inputs[n] for n in self.inputs}

    def _effort(self, a: Actuator, name: str, ties: Ties, shared: dict[str, SX]) -> None:
        r, m, e = self.tree, self.tree.m, a.element
        command = m.input(name)
        if e.tag == "adhesion":
            self.left.remark(e, f"adhesion{called(e)} acts in contacts, which do not act yet")
            return
        label = name if name not in m.forces else f"{name}_effort"
        if "site" in e.attributes:
            self._site(a, label, command, ties)
            return
        lever: dict[str, float] = {}  # by coordinate of a joint
        if "tendon" in e.attributes:
            tendon = ties.tendon(e.get("tendon"))
            if tendon is None:
                self.left.out(e, f"actuator{called(e)} on tendon {e.get('tendon')!r}, which is not read")
                return
            length, rate = a.gear[0] * tendon.length, a.gear[0] * tendon.rate
            slopes = ca.jacobian(rate, ties.kinematics.v)
            if slopes.is_constant():
                lever = {n: float(slopes[i]) for i, n in enumerate(m.v_names) if float(slopes[i])}
        else:
            dof = r.joints.get(e.get("joint"))
            if dof is None:
                raise bad(e, f"actuator{called(e)} names no joint {e.get('joint')!r}")
            lever = dict(zip(dof.v_names, a.gear[: len(dof.v_names)], strict=True))
            rate = sum((c * m.v[n] for n, c in lever.items()), SX(0))
            length = a.gear[0] * m.q[dof.label] if dof.kind in ("hinge", "slide") else SX(0)
            if dof.kind in ("ball", "free") and a.feels_length:
                r.left.out(e, f"actuator{called(e)} with a length on a {dof.kind} joint")
            if dof.kind in ("hinge", "slide") and a.inherit:
                low, high = r.kept.ranges.get(dof.label, (0.0, 0.0))
                middle, half = (low + high) / 2, (high - low) / 2 * a.inherit
                ends = (middle - half, middle + half)
                a.ctrl, a.act = (a.ctrl, ends) if a.dynamics == "integrator" else (ends, a.act)
        if not any(lever.values()) and not ca.symvar(rate):
            return
        if a.bias[2] > 0 and a.bias_type == "affine" and a.gain[0] == -a.bias[1]:
            a.bias = a.bias.copy()
            a.bias[2] = -2 * a.bias[2] * np.sqrt(a.gain[0] * self._felt(lever))
        force = a.value(self._signal(a, name, command), length, rate, self._quick(a, lever, rate, ties))
        limited = {x.label for x in r.joints.values() if x.force is not None}
        if limited & set(lever):
            for n in limited & set(lever):
                shared[n] = shared.get(n, SX(0)) + lever[n] * force
            rate = sum((c * m.v[n] for n, c in lever.items() if n not in limited), SX(0))
            if not ca.symvar(rate):
                return
        m.effort(label, rate, force)

    def _signal(self, a: Actuator, name: str, command: SX) -> SX:
        """What the gain multiplies: the command, or an activation that follows it."""
        if a.dynamics == "none":
            return a.limited(command)
        return self.tree.m.memory(name, lambda act: a.quickness(command, act))

    def _quick(self, a: Actuator, lever: dict[str, float], rate: SX, ties: Ties) -> float:
        """Size of the accelerations that a unit force causes at the start, for muscles that are scaled by it."""
        if "muscle" not in (a.gain_type, a.bias_type) or min(a.gain[2], a.bias[2]) >= 0:
            return 0.0
        slope = np.array([lever.get(n, 0.0) for n in self.tree.m.v_names])
        if not slope.any():
            slope = ties.slope(rate)
        return float(np.linalg.norm(np.linalg.solve(self.tree.mass_matrix(), slope)))

    def _felt(self, lever: dict[str, float]) -> float:
        """Inertia behind a transmission at the start, as MuJoCo takes it for a damping ratio."""
        slope = np.array([lever.get(n, 0.0) for n in self.tree.m.v_names])
        return float(1 / (slope @ np.linalg.solve(self.tree.mass_matrix(), slope)))

    def _site(self, a: Actuator, label: str, command: SX, ties: Ties) -> None:
        r, m, e = self.tree, self.tree.m, a.element
        if e.get("site") not in r.sites:
            raise bad(e, f"actuator{called(e)} names no site {e.get('site')!r}")
        frame = r.frame(*r.sites[e.get("site")])
        if a.feels_length or a.feels_rate:
            r.left.out(e, f"actuator{called(e)} with a length or speed at a site")
        R = ties.kinematics.frame_pose(frame).R
        force = a.value(self._signal(a, label, command), SX(0), SX(0))
        push, twist = (ca.densify(ca.mtimes(R, ca.DM(x)) * force) for x in (a.gear[:3], a.gear[3:]))
        if a.gear[:3].any():
            m.force(label, frame, [push[i] for i in range(3)])
        if a.gear[3:].any():
            m.torque(f"{label}_torque", frame.link, [twist[i] for i in range(3)])

    def key(self, e: Element, label: str) -> None:
        """Commands of a keyframe."""
        ctrl = numbers(e, "ctrl", "", None)
        if len(ctrl) and len(ctrl) == len(self.all) == len(self.inputs):
            self.commands[label] = dict(zip(self.inputs, map(float, ctrl), strict=True))
