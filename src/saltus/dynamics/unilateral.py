"""Unilateral contacts as expressions: gap, slip and what a mode given at run time makes of them.

A contact has a gap g(q) >= 0, a normal force N >= 0 and a slip s(q, v) along its face. Its mode is two numbers of the
run-time parameters: `closed` (g = 0 is held) and `stick` (s = 0 too). The constraint rows are

    closed stick s = 0,    closed g = 0,    with  (1 - closed stick) f_t = 0,  (1 - closed) N = 0,

and a contact that is closed and does not stick feels f_t = -friction N d, d the direction of its slip. So one set of
equations serves all modes, and nothing is derived or compiled again when one changes.

A soft contact holds nothing. Closed, with depth h = -g, it pushes with N = max(k h (1 + D h'), 0) (Hunt and Crossley
1975); sticking, with f_t = -k y - k D h s, y = x - x0 the stretch of its spring since it took hold at x0; slipping,
with Coulomb's law as above, which its spring bears. It slips as long as its face does: while s is more than y' along d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.dynamics.equations import Equations
from saltus.errors import BadValue
from saltus.ground import Ground, Terrain
from saltus.model.kinematics import Closure
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Plane, Round
from saltus.model.symbols import SX, cross, number
from saltus.model.touching import Foot, Meeting, Rub, Stop, Touching

TINY = 1e-300
LEAN, STEADY = 1e-4, 5e-5  # share of friction in a load: with so little of it a contact leans, by its load or not
GROWN = 10.0  # times the speed up to which a slip in 3D is given its direction: it has one of its own
EDGE = 1e-9  # m: a point so near to a corner is on the face beside it
FOOT_STEPS = 8  # of Newton's method, from the centre of a round foot to the nearest point of a smooth ground


def given_speed(starts: Any, square: Any) -> Any:
    """Speed (m/s) along its given direction that a slip in 3D has beside its own, whose square is given.

    It fades with the sixth power: where the direction is given up, at GROWN times `starts`, none of it is left.
    """
    return starts / (1 + square / starts**2) ** 3


@dataclass(frozen=True, eq=False)
class Geometry:
    """Where a contact is: gap (m), unit normal and tangents (world axes), and the tangential place that stick holds.

    `rates` are the slip, one row per tangent, and the rate of the gap, all linear in v. Stops have no directions.
    """

    gap: SX
    rates: SX
    hold: SX
    normal: SX | None = None
    tangents: tuple[SX, ...] = ()
    inside: SX | None = None  # above zero while the patch of ground is the nearest one


class Element:
    """One contact of a machine: its geometry, and its place in the block of run-time parameters."""

    def __init__(self, name: str, part: Touching, side: str, slips: int, patch: int, d: int) -> None:
        self.name, self.part, self.side, self.slips, self.patch = name, part, side, slips, patch
        self.normal = not isinstance(part, Rub)
        self.soft = not isinstance(part, Rub) and part.stiffness is not None
        sizes = {"closed": 1, "stick": 1, "felt": 1, "friction": 1, "static": 1, "direction": slips, "anchor": slips}
        sizes["share"] = int(slips > 0)  # of a load that others bear too; 0: others hold it
        if isinstance(part, Foot):
            sizes |= {"point": 2, "up": 2, "corner": 1, "within": 6, "free": 3}
        if isinstance(part, Meeting) and isinstance(part.face, Round) and d == 3:
            sizes |= {"reference": 3}
        # m/s, of slips in 3D: a slower one has come to rest; a slower one that starts has the direction it started in,
        # for at no speed it has none.
        sizes |= {"stands": int(slips == 2), "starts": int(slips == 2)}
        self.symbols = {key: SX.sym(f"{key}_{name}", size) for key, size in sizes.items() if size}
        self.block = ca.vertcat(*self.symbols.values())
        self.size = int(self.block.numel())
        starts = np.cumsum([0, *(x.numel() for x in self.symbols.values())])
        self.places = {key: slice(int(a), int(b)) for key, a, b in zip(self.symbols, starts, starts[1:], strict=False)}

    @property
    def rows(self) -> int:
        """Rows it may lock: tangential ones, then the normal one."""
        return self.slips + int(self.normal)

    @property
    def stiffness(self) -> SX:
        """Of a soft contact (N/m)."""
        assert not isinstance(self.part, Rub)
        assert self.part.stiffness is not None
        return number(self.part.stiffness)

    @property
    def damping(self) -> SX:
        """Of a soft contact (s/m)."""
        assert not isinstance(self.part, Rub)
        return number(self.part.damping)

    @property
    def slipping(self) -> SX:
        """1 where it is closed and does not stick."""
        return self.symbols["closed"] * (1 - self.symbols["stick"])

    @property
    def leaning(self) -> SX:
        """1 where it is at rest with a friction that it is given, beside what holds it: see `steady`.

        With a share of zero nothing else holds it.
        """
        return self.symbols["closed"] * self.symbols["stick"] * (self.symbols["share"] <= LEAN)

    @property
    def steady(self) -> SX:
        """1 where that friction is a force; else it is given by the load."""
        share = self.symbols["share"]
        return self.leaning * (share > 0) * (share <= STEADY)

    @property
    def held(self) -> SX:
        """1 where its rows along the face hold it."""
        return self.symbols["closed"] * self.symbols["stick"] * (self.symbols.get("share", SX(1)) > 0)

    @property
    def rubs(self) -> SX:
        """1 where it has a friction that it is given: it slips or leans."""
        return self.slipping + self.leaning if self.slips else SX(0)

    def closure(self, g: Geometry, index: int) -> Closure:
        """Its rows, weighted by the mode."""
        closed, share, held = self.symbols["closed"], self.symbols.get("share", SX(1)), self.held
        if self.soft:
            closed = held = SX(0)
        weights = [held] * self.slips + [closed] * self.normal
        shares = [share + (share <= 0)] * self.slips + [SX(1)] * self.normal
        off = [g.hold[i] - self.symbols["anchor"][i] for i in range(self.slips)] if g.hold.numel() else [0] * self.slips
        if self.slips and g.hold.numel() and "corner" in self.symbols:
            off = [(1 - self.symbols["corner"]) * x for x in off]
        phi = [w * x for w, x in zip(weights, [*off, *([g.gap] * self.normal)], strict=True)]
        rate = [w * g.rates[i] for i, w in enumerate(weights)]
        locks = (*("xyz"[: self.slips] if self.slips else ""), *(["normal"] * self.normal))
        rows = ca.vertcat(*phi), ca.vertcat(*rate), ca.vertcat(*weights), ca.vertcat(*shares)
        return Closure(self.name, rows[0], locks, contact=index, rate=rows[1], weight=rows[2], share=rows[3])

    def direction(self, slip: SX) -> SX:
        """Unit direction of slip: in the plane that of the mode, in 3D that of the velocity, from rest on as given.

        A soft contact in 3D that is slow has the one given: its face may slip on while its point goes back.
        """
        d = self.symbols["direction"]
        if self.slips < 2:
            return d
        starts = self.symbols["starts"]
        given = ca.sumsqr(d) * (ca.dot(slip, d) < GROWN * starts) if self.soft else SX(0)
        along = slip + (1 - self.soft) * d * given_speed(starts, ca.sumsqr(slip))
        along[0] += 1 - self.slipping * (1 - given)  # whatever direction, but one: its series must exist
        return given * d + (1 - given) * along / ca.sqrt(ca.sumsqr(along) + TINY)

    def push(self, g: Geometry) -> SX:
        """Forces of a soft contact along its rows: tangential, then normal."""
        s, slip, depth = self.symbols, g.rates[: self.slips], -g.gap
        k, D = self.stiffness, self.damping
        normal = s["closed"] * ca.fmax(k * depth * (1 - D * g.rates[-1]), 0)
        if not self.slips:
            return normal
        spring = -k * (g.hold - s["anchor"]) - k * D * ca.fmax(depth, 0) * slip
        rubbing = -s["friction"] * normal * self.direction(slip)
        return ca.vertcat(s["closed"] * (s["stick"] * spring + (1 - s["stick"]) * rubbing), normal)


def elements(m: Mechanism, ground: Ground) -> list[Element]:
    """Every contact a machine may have on this ground, in order of declaration."""
    d = 3 if m.spatial else 2
    out = []
    for part in m.touching.values():
        if isinstance(part, Foot):
            if part.stiffness is not None and isinstance(ground, Terrain):
                raise BadValue(
                    f"foot {part.name!r} is soft, and on a terrain there is no straight way along which its spring "
                    "could be measured; leave out stiffness=, or give the ground as sl.ground.Profile(x, heights)",
                    foot=part.name,
                )
            for k in range(ground.patches):
                out.append(Element(part.name if k == 0 else f"{part.name} {k + 1}", part, "", d - 1, k, d))
        elif isinstance(part, Stop):
            for side in ("lower", "upper"):
                if getattr(part, side) is not None:
                    out.append(Element(f"{part.name} {side}", part, side, 0, 0, d))
        elif isinstance(part, Meeting):
            smooth = isinstance(part.friction, int | float) and part.friction == 0 and not part.static
            if part.stiffness is not None and isinstance(part.face, Round) and not smooth:
                raise BadValue(
                    f"touch {part.name!r}: a soft contact with a round face has no friction", touch=part.name
                )
            out.append(Element(part.name, part, "", 0 if smooth else d - 1, 0, d))
        else:
            out.append(Element(part.name, part, "", 1, 0, d))
    return out


def geometry(element: Element, e: Equations, ground: Ground) -> Geometry:
    """Gap, slip and directions of a contact."""
    part, k = element.part, e.kinematics
    if isinstance(part, Foot):
        return _foot(element, part, e, ground)
    if isinstance(part, Meeting):
        return _meeting(element, part, e)
    coordinate = k.coordinate(part.coordinate)
    if isinstance(part, Rub):
        return Geometry(SX(0), k.rate(coordinate), coordinate)
    limit = number(getattr(part, element.side))
    gap = coordinate - limit if element.side == "lower" else limit - coordinate
    return Geometry(gap, k.rate(gap), SX(0, 1))


def _foot(element: Element, foot: Foot, e: Equations, ground: Ground) -> Geometry:
    k = e.kinematics
    s, spatial = element.symbols, k.mechanism.spatial
    p = ca.densify(k.position(foot.point))
    up = 2 if spatial else 1
    place, radius = ca.vertcat(p[0], p[up]), number(foot.radius)
    pointed = radius.is_zero()
    if isinstance(ground, Terrain):
        gap, normal, first = _over(ground, p, radius, spatial)
        hold = SX(0, 1)
    else:
        away = place - s["point"]
        beside = away + EDGE * s["up"] if pointed else away  # a point at a corner has the direction of round-off
        round_it = beside / ca.sqrt(ca.sumsqr(beside) + TINY)
        n = (1 - s["corner"]) * s["up"] + s["corner"] * round_it if ground.patches > 1 else s["up"]
        gap = ca.dot(n, away) - radius
        normal = ca.vertcat(n[0], 0, n[1]) if spatial else ca.vertcat(n[0], n[1], 0)
        first = ca.vertcat(n[1], 0, -n[0]) if spatial else ca.vertcat(n[1], -n[0], 0)
        along = ca.vertcat(s["up"][1], 0, -s["up"][0]) if spatial else ca.vertcat(s["up"][1], -s["up"][0], 0)
        hold = ca.vertcat(ca.dot(along, p), p[1]) if spatial else ca.dot(along, p)
        hold = hold if pointed else SX(0, 1)
    tangents = (first, cross(normal, first)) if spatial else (first,)
    velocity = k.rate(p)
    if not pointed:
        velocity = velocity - radius * cross(e.spin(foot.point.link.name), normal)
    slip = [ca.dot(t, velocity) for t in tangents]
    inside = None
    if ground.patches > 1 and element.patch == 0:
        w = s["within"]
        near = [w[3 * i] * place[0] + w[3 * i + 1] * place[1] - w[3 * i + 2] for i in range(2)]
        free = s["free"]  # a circle, by the square of the way from its centre, which has a slope there too
        alone = (free[2] ** 2 - ca.sumsqr(place - free[:2])) / (2 * free[2])
        inside = ca.fmin(ca.fmin(*near), alone)
    return Geometry(gap, ca.vertcat(*slip, k.rate(gap)), hold, normal, tangents, inside)


def _over(ground: Terrain, p: SX, radius: SX, spatial: bool) -> tuple[SX, SX, SX]:
    """Gap above a smooth ground, its normal, and a tangent, at the point nearest to the foot."""
    x, y = SX.sym("x"), SX.sym("y")
    h = ground.expression(x, y, spatial)
    flat = ca.vertcat(x, y) if spatial else x
    centre, up = (p[:2], p[2]) if spatial else (p[0], p[1])
    at = centre
    if not radius.is_zero():
        # The nearest point (x, h) has (x - c) + (h - c_up) grad h = 0. Above a hollow, farther than its radius of
        # curvature, that has no unique solution; so far up the slope of this equation is taken as near the ground.
        c, c_up = SX.sym("c", flat.numel()), SX.sym("up")
        g = ca.gradient(h, flat)
        off = (flat - c) + (h - c_up) * g
        bend = SX.eye(flat.numel()) + g @ g.T + ca.fmax(h - c_up, -2 * radius) * ca.jacobian(g, flat)
        step = ca.Function("step", [flat, c, c_up, *ca.symvar(radius)], [flat - ca.solve(bend, off)])
        for _ in range(FOOT_STEPS):
            at = step(at, centre, up, *ca.symvar(radius))
    height, slope = ca.Function("height", [flat], [h, ca.gradient(h, flat)])(at)
    size = ca.sqrt(1 + ca.sumsqr(slope))
    normal = (ca.vertcat(-slope[0], -slope[1], 1) if spatial else ca.vertcat(-slope[0], 1, 0)) / size
    if spatial:
        first = ca.vertcat(1, 0, slope[0]) / ca.sqrt(1 + slope[0] ** 2)
        away = p - ca.vertcat(at[0], at[1], height)
    else:
        first = ca.vertcat(1, slope[0], 0) / size
        away = ca.vertcat(p[0], p[1], 0) - ca.vertcat(at, height, 0)
    return ca.dot(normal, away) - radius, normal, first


def _meeting(element: Element, part: Meeting, e: Equations) -> Geometry:
    k = e.kinematics
    spatial, radius = k.mechanism.spatial, number(part.radius)
    p, other = ca.densify(k.position(part.point)), ca.densify(k.position(part.face.frame))
    R = k.pose(part.face.frame.link.name).R
    if isinstance(part.face, Plane):
        normal = ca.densify(ca.mtimes(R, part.face.normal))
        gap = ca.dot(normal, p - other) - radius
        first = ca.mtimes(R, _across(part.face, spatial))
    else:
        away = p - other
        distance = ca.sqrt(ca.sumsqr(away) + TINY)
        normal = away / distance
        gap = distance - radius - number(part.face.radius)
        if spatial:
            reference = element.symbols.get("reference", SX(ca.DM([0, 0, 1])))
            first = reference - normal * ca.dot(normal, reference)
            first = first / ca.sqrt(ca.sumsqr(first) + TINY)
        else:
            first = ca.vertcat(normal[1], -normal[0], 0)
    tangents = ((first, cross(normal, first)) if spatial else (first,))[: element.slips]
    touch = p - radius * normal
    mine = k.rate(p) + cross(e.spin(part.point.link.name), touch - p)
    its = k.rate(other) + cross(e.spin(part.face.frame.link.name), touch - other)
    slip = [ca.dot(t, mine - its) for t in tangents]
    hold = SX(0, 1)
    if isinstance(part.face, Plane) and radius.is_zero():
        hold = ca.vertcat(SX(0, 1), *[ca.dot(t, p - other) for t in tangents])
    return Geometry(gap, ca.vertcat(*slip, k.rate(gap)), hold, normal, tangents)


def _across(face: Plane, spatial: bool) -> SX:
    """A direction along a plane, in its link's axes."""
    n = face.normal
    if not spatial:
        return ca.vertcat(n[1], -n[0], 0)
    numbers = ca.DM(n).full().ravel() if n.is_constant() else np.array([0.0, 0.0, 1.0])
    axis = SX(ca.DM(np.eye(3)[int(np.abs(numbers).argmin())]))
    along = axis - n * ca.dot(n, axis)
    return along / ca.sqrt(ca.sumsqr(along))


def frames(parts: Iterator[Touching]) -> dict[str, Frame]:
    """Points of feet and of links that touch others, by name."""
    return {x.name: x.point for x in parts if isinstance(x, Foot | Meeting)}
