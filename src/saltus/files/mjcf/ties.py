"""Ties of MJCF: springs and dampers of joints, equalities that close loops, tendons."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np

from saltus.files.mjcf.actuators import ranged
from saltus.files.mjcf.tree import Dof, Tree
from saltus.files.xml.found import called
from saltus.files.xml.rigid import Pose, from_quaternion
from saltus.files.xml.tree import Element, bad, located, numbers, scalar
from saltus.model.kinematics import Kinematics
from saltus.model.symbols import SX

TENDON = "name class stiffness damping springlength range limited frictionloss"
TENDON_QUIET = "width rgba material group user margin solreflimit solimplimit solreffriction solimpfriction"


@dataclass(frozen=True, eq=False)
class Tendon:
    """Length of a tendon (m, or rad for joints), its rate, its length at the start."""

    length: SX
    rate: SX
    start: float


class Ties:
    """Adds to the machine of a tree what ties its parts together."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.m, self.document, self.left = tree, tree.m, tree.document, tree.left
        self.kinematics = Kinematics(tree.m)
        self._elements: dict[str, Element] = {}
        self._tendons: dict[str, Tendon | None] = {}

    def read(self) -> None:
        """Read springs, tendons and equalities."""
        d = self.document
        for dof in self.tree.joints.values():
            with located(dof.element):
                self._spring(dof)
        for raw in d.sections("tendon"):
            with located(raw):
                self._tendon(d.full(raw, "", "tendon"))
        for raw in d.sections("equality") if not d.off("equality") else ():
            with located(raw):
                self._equality(d.full(raw, "", "equality"))

    # ---- springs of joints --------------------------------------------------------------------------------------

    def _number(self, e: Element, name: str) -> float:
        """One number; MuJoCo takes further ones for a polynomial."""
        given = numbers(e, name, "0", None)
        if given[1:].any():
            self.left.out(e, f"{name} of <{e.tag}>{called(e)} as a polynomial")
        return float(given[0]) if len(given) else 0.0

    def _spring(self, dof: Dof) -> None:
        e, d, m = dof.element, self.document, self.m
        stiffness, damping = self._number(e, "stiffness"), self._number(e, "damping")
        time, ratio = numbers(e, "springdamper", "0 0", 2)
        if time > 0 and ratio > 0:  # MuJoCo finds both from the inertia the joint feels at the start
            if dof.kind not in ("hinge", "slide"):
                self.left.out(e, f"springdamper of {dof.kind} joint {dof.label!r}")
                return
            i = self.m.v_names.index(dof.label)
            inertia = float(1 / np.linalg.inv(self.tree.mass_matrix())[i, i])
            stiffness, damping = inertia / (time * ratio) ** 2, 2 * inertia / time
        stiffness = 0.0 if d.off("spring") or d.off("passive") else stiffness
        damping = 0.0 if d.off("damper") or d.off("passive") else damping
        if not (stiffness or damping):
            return
        if dof.kind in ("hinge", "slide"):
            rest = scalar(e, "springref")
            rest = d.angle(rest) if dof.kind == "hinge" else rest
            m.joint_spring(f"{dof.label}_spring", dof.label, stiffness=stiffness, damping=damping, rest=rest)
            return
        rates = [m.v[n] for n in dof.v_names]
        value = [-damping * v for v in rates]
        if stiffness:
            value = [f - stiffness * x for f, x in zip(value, self._away(dof), strict=True)]
        m.effort(f"{dof.label}_spring", rates, value)

    def _away(self, dof: Dof) -> list[SX]:
        """How far a ball or free joint is from its start: shift in world axes, turn as a vector in the body's."""
        names = self.m.joints[dof.label].q_names
        q = [self.m.q[n] for n in names]
        shift = [x - self.tree.start[n] for n, x in zip(names[:-4], q[:-4], strict=True)]
        w0, *v0 = (self.tree.start.get(n, float(i == 0)) for i, n in enumerate(names[-4:]))
        a, b = ca.DM([-x for x in v0]), ca.vertcat(*q[-3:])  # conjugate of the start, times the quaternion now
        w = w0 * q[-4] - ca.dot(a, b)
        v = w0 * b + q[-4] * a + ca.cross(a, b)
        sign = ca.if_else(w < 0, -1, 1)
        length = ca.sqrt(ca.sumsqr(v) + 1e-30)
        turned = 2 * ca.atan2(length, sign * w) / length * sign * v
        return [*shift, turned[0], turned[1], turned[2]]

    # ---- tendons ------------------------------------------------------------------------------------------------

    def _tendon(self, e: Element) -> None:
        name, d = e.get("name"), self.document
        self.left.attributes(e, TENDON, TENDON_QUIET)
        self._elements[name] = e
        if ranged(e, d, "range", "limited") is not None and not d.off("limit"):
            low, high = numbers(e, "range", "0 0", 2)
            self.tree.kept.ranges[f"tendon {name}"] = (float(low), float(high))
        if scalar(e, "frictionloss"):
            self.tree.kept.dry_friction[f"tendon {name}"] = scalar(e, "frictionloss")
        stiffness = 0.0 if d.off("spring") or d.off("passive") else self._number(e, "stiffness")
        damping = 0.0 if d.off("damper") or d.off("passive") else self._number(e, "damping")
        if not (stiffness or damping):
            return
        found = self.tendon(name)
        if found is None:
            self.left.out(e, f"spatial tendon{called(e)} that wraps around shapes or runs over pulleys")
            return
        label = self.tree.joint_names.new(name, "tendon")
        rest = numbers(e, "springlength", "-1", None)
        low, high = (rest[0], rest[-1]) if rest[0] >= 0 else 2 * (self._sprung(found),)
        sites = [c for c in e.children if c.tag == "site"]
        if e.tag == "spatial" and len(sites) == 2 and low == high:
            ends = [self.tree.frame(*self.tree.sites[s.get("site")]) for s in sites]
            self.m.spring(label, *ends, stiffness=stiffness, damping=damping, length=float(low))
            return
        over, under = found.length - float(high), found.length - float(low)
        stretch = over if low == high else ca.if_else(over > 0, over, ca.if_else(under < 0, under, 0))
        self.m.effort(label, found.rate, -stiffness * stretch - damping * found.rate)

    def tendon(self, name: str) -> Tendon | None:
        """A tendon by name, made when it is asked for; None for one that is not there or cannot be read."""
        e = self._elements.get(name)
        if e is not None and name not in self._tendons:
            self._tendons[name] = self._fixed(e) if e.tag == "fixed" else self._spatial(e)
        return self._tendons.get(name)

    def _sprung(self, tendon: Tendon) -> float:
        """Length where the joints are at their springref."""
        start = dict(self.tree.start)
        for dof in self.tree.joints.values():
            if "springref" in dof.element.attributes and dof.kind in ("hinge", "slide"):
                x = scalar(dof.element, "springref")
                start[dof.label] = self.document.angle(x) if dof.kind == "hinge" else x
            elif dof.kind in ("hinge", "slide"):
                start[dof.label] = 0.0
        return self._at(tendon.length, start)

    def _at(self, length: SX, start: dict[str, float]) -> float:
        q = [start.get(n, float(n.endswith(".qw"))) for n in self.m.q_names]
        return float(ca.Function("f", [self.kinematics.q], [length])(q))

    def _fixed(self, e: Element) -> Tendon | None:
        length, rate = SX(0), SX(0)
        for j in e.children:
            dof = self.dof(j, j.get("joint"))
            length += scalar(j, "coef", 1.0) * self.m.q[dof.label]
            rate += scalar(j, "coef", 1.0) * self.m.v[dof.label]
        return Tendon(length, rate, self._at(length, self.tree.start))

    def _spatial(self, e: Element) -> Tendon | None:
        if any(c.tag != "site" for c in e.children) or len(e.children) < 2:
            return None
        points = []
        for c in e.children:
            if c.get("site") not in self.tree.sites:
                raise bad(c, f"<site> names no site {c.get('site')!r}")
            points.append(self.kinematics.position(self.tree.frame(*self.tree.sites[c.get("site")])))
        parts = [b - a for a, b in pairwise(points)]
        length = sum((ca.sqrt(ca.sumsqr(p) + 1e-24) for p in parts), SX(0))
        return Tendon(length, self.kinematics.rate(length), self._at(length, self.tree.start))

    # ---- equalities ---------------------------------------------------------------------------------------------

    def dof(self, e: Element, name: str) -> Dof:
        """A hinge or slide by the file's name."""
        dof = self.tree.joints.get(name)
        if dof is None or dof.kind not in ("hinge", "slide"):
            raise bad(e, f"<{e.tag}> names no hinge or slide {name!r}")
        return dof

    def _link_of(self, e: Element, attribute: str) -> str:
        name = e.get(attribute, "world")
        if name not in self.tree.links:
            raise bad(e, f"<{e.tag}> names no body {name!r}")
        return self.tree.links[name]

    def _ends(self, e: Element) -> tuple[tuple[str, Pose], tuple[str, Pose]]:
        """Frames on the two bodies that an equality holds together."""
        if "site1" in e.attributes:
            missing = [e.get(s) for s in ("site1", "site2") if e.get(s) not in self.tree.sites]
            if missing:
                raise bad(e, f"<{e.tag}> names no site {missing[0]!r}")
            return self.tree.sites[e.get("site1")], self.tree.sites[e.get("site2")]
        one, two = self._link_of(e, "body1"), self._link_of(e, "body2")
        relative = self.tree.poses[one].inverse @ self.tree.poses[two]
        if e.tag == "connect":
            anchor = Pose(np.eye(3), numbers(e, "anchor", "", 3))
            return (one, anchor), (two, relative.inverse @ anchor)
        relpose = numbers(e, "relpose", "0 1 0 0 0 0 0", 7)
        if np.any(relpose[3:]):
            relative = Pose(from_quaternion(relpose[3:]), relpose[:3])
        anchor = Pose(np.eye(3), numbers(e, "anchor", "0 0 0", 3))
        return (one, relative @ anchor), (two, anchor)

    def _equality(self, e: Element) -> None:
        m, name = self.m, self.tree.joint_names.new(e.get("name"), f"{e.tag}_{e.line}")
        if e.get("active", "true") == "false":
            self.left.remark(e, f"equality {name!r} is not active and holds nothing")
            return
        quiet = "solref solimp torquescale"
        if e.tag in ("connect", "weld"):
            self.left.attributes(e, "name class active body1 body2 anchor site1 site2 relpose", quiet)
            (one, first), (two, second) = self._ends(e)
            a, b = self.tree.frame(one, first), self.tree.frame(two, second)
            if e.tag == "weld":
                m.weld(name, a, b)
            elif m.spatial:
                m.spherical(name, a, b)
            else:
                m.revolute(name, a, b)
        elif e.tag == "joint":
            self.left.attributes(e, "name class active joint1 joint2 polycoef", quiet)
            leader = self.dof(e, e.get("joint1"))
            x: Any = 0.0
            if "joint2" in e.attributes:
                other = self.dof(e, e.get("joint2"))
                x = m.q[other.label] - other.ref
            m.constraint(name, m.q[leader.label] - leader.ref - _polynomial(e, x))
        elif e.tag == "tendon":
            self.left.attributes(e, "name class active tendon1 tendon2 polycoef", quiet)
            ends = [self.tendon(e.get(t)) for t in ("tendon1", "tendon2")]
            if ends[0] is None or (ends[1] is None and "tendon2" in e.attributes):
                self.left.out(e, f"equality {name!r} of a tendon that is not read")
                return
            y = 0.0 if ends[1] is None else ends[1].length - ends[1].start
            m.constraint(name, ends[0].length - ends[0].start - _polynomial(e, y))
        else:
            self.left.out(e, f"equality <{e.tag}> {name!r}")


def _polynomial(e: Element, x: Any) -> Any:
    given = numbers(e, "polycoef", "0 1 0 0 0", None)
    c = np.concatenate([given, np.array([0.0, 1, 0, 0, 0])[len(given) :]])[:5]
    return sum(c[k] * x**k for k in range(5) if c[k] or k == 0)
