"""Ties of MJCF: springs and dampers of joints, equalities that close loops, tendons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.files.mjcf.actuators import ranged
from saltus.files.mjcf.tree import Dof, Tree
from saltus.files.mjcf.wrapping import around
from saltus.files.xml.found import called
from saltus.files.xml.rigid import Pose, from_quaternion
from saltus.files.xml.tree import Element, bad, located, numbers, scalar
from saltus.model.kinematics import Kinematics
from saltus.model.symbols import SX

TENDON = "name class stiffness damping springlength range limited frictionloss"
TENDON_QUIET = "width rgba material group user margin solreflimit solimplimit solreffriction solimpfriction"


@dataclass(frozen=True, eq=False)
class Tendon:
    """Length of a tendon (m, or rad for joints) and its rate."""

    length: SX
    rate: SX


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
            rest = d.angle(e, rest) if dof.kind == "hinge" else rest
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
            return
        label = self.tree.joint_names.new(name, "tendon")
        rest = numbers(e, "springlength", "-1", None)
        low, high = (rest[0], rest[-1]) if rest[0] >= 0 else 2 * (self._sprung(found),)
        sites = [c for c in e.children if c.tag == "site"]
        if e.tag == "spatial" and len(e.children) == len(sites) == 2 and low == high:
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
                start[dof.label] = self.document.angle(dof.element, x) if dof.kind == "hinge" else x
            elif dof.kind in ("hinge", "slide"):
                start[dof.label] = 0.0
        return self._at(tendon.length, start)

    def _at(self, length: SX, start: dict[str, float]) -> float:
        q = [start.get(n, float(n.endswith(".qw"))) for n in self.m.q_names]
        return float(ca.Function("f", [self.kinematics.q], [length])(q))

    def slope(self, rate: SX) -> np.ndarray:
        """How a rate depends on the velocities at the start."""
        q = [self.tree.start.get(n, float(n.endswith(".qw"))) for n in self.m.q_names]
        k = self.kinematics
        return np.ravel(ca.Function("f", [k.q], [ca.densify(ca.jacobian(rate, k.v))])(q))

    def _fixed(self, e: Element) -> Tendon | None:
        length, rate = SX(0), SX(0)
        for j in e.children:
            dof = self.dof(j, j.get("joint"))
            length += scalar(j, "coef", 1.0) * self.m.q[dof.label]
            rate += scalar(j, "coef", 1.0) * self.m.v[dof.label]
        return Tendon(length, rate)

    def _spatial(self, e: Element) -> Tendon | None:
        """Straight from site to site, around the shapes between; each branch after a pulley counts by its divisor."""
        length, rate, share = SX(0), SX(0), 1.0
        last: tuple[SX, SX] | None = None
        shape: Element | None = None
        for c in e.children:
            if c.tag == "pulley":
                share, last = 1 / scalar(c, "divisor", 1.0), None
            elif c.tag == "geom":
                shape = c
            elif c.tag == "site":
                here = self._site(c, c.get("site"))
                if last is not None:
                    more, speed = self._straight(last, here) if shape is None else self._around(shape, last, here)
                    length, rate = length + share * more, rate + share * speed
                last, shape = here, None
            else:
                self.left.out(c, f"<{c.tag}> of tendon{called(e)}")
                return None
        return Tendon(length, rate)

    def _site(self, e: Element, name: str) -> tuple[SX, SX]:
        """Place and velocity of a site."""
        if name not in self.tree.sites:
            raise bad(e, f"<{e.tag}> names no site {name!r}")
        place = self.kinematics.position(self.tree.frame(*self.tree.sites[name]))
        return place, self.kinematics.rate(place)

    @staticmethod
    def _straight(a: tuple[SX, SX], b: tuple[SX, SX]) -> tuple[SX, SX]:
        """Length of a straight piece between moving points, and its rate."""
        way = b[0] - a[0]
        length = ca.sqrt(ca.sumsqr(way) + 1e-24)
        return length, ca.dot(way / length, b[1] - a[1])

    def _around(self, e: Element, a: tuple[SX, SX], b: tuple[SX, SX]) -> tuple[SX, SX]:
        """Length and rate of a piece that may touch a shape: where it does, the points it touches move with the shape.

        The way is the shortest, so that moving these points along the shape changes nothing at first order.
        """
        k, shape = self.kinematics, self.tree.shapes.get(e.get("geom"))
        if shape is None or shape.kind not in ("sphere", "cylinder") or not shape.size:
            raise bad(e, f"a tendon wraps around spheres and cylinders; <geom> names none, {e.get('geom')!r}")
        frame = self.tree.frame(shape.link, shape.pose)
        pose = k.frame_pose(frame)
        seen = [ca.mtimes(pose.R.T, x - pose.p) for x, _ in (a, b)]
        side: Any = None
        if "sidesite" in e.attributes:
            place = self._site(e, e.get("sidesite"))[0]
            link, own = self.tree.sites[e.get("sidesite")]
            fixed = link == shape.link  # then its place in the shape's axes is a number
            side = SX((shape.pose.inverse @ own).p) if fixed else ca.mtimes(pose.R.T, place - pose.p)
        path = around(*seen, side, shape.size[0], ball=shape.kind == "sphere")
        centre = k.rate(pose.p)
        touched = []
        for x in (path.first, path.last):
            arm = ca.mtimes(pose.R, x)
            touched.append((pose.p + arm, centre + ca.cross(k.spins[shape.link], arm)))
        (one, its), (two, their) = self._straight(a, touched[0]), self._straight(touched[1], b)
        plain, speed = self._straight(a, b)
        length = ca.if_else(path.wraps, one + path.arc + two, plain)
        return length, ca.if_else(path.wraps, its + their, speed)

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
            away = [x and x.length - self._at(x.length, self.tree.start) for x in ends]
            m.constraint(name, away[0] - _polynomial(e, 0.0 if away[1] is None else away[1]))
        else:
            self.left.out(e, f"equality <{e.tag}> {name!r}")


def _polynomial(e: Element, x: Any) -> Any:
    given = numbers(e, "polycoef", "0 1 0 0 0", None)
    c = np.concatenate([given, np.array([0.0, 1, 0, 0, 0])[len(given) :]])[:5]
    return sum(c[k] * x**k for k in range(5) if c[k] or k == 0)
