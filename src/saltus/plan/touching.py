"""Contacts of a planned motion whose sequence is not given: forces that gaps and slips exclude.

At every node, with gap g(q) and slip s(q, v) of a contact, its normal force N and tangential force f, both by the
machine's weight, and a bound c of its slip,

    g >= 0,  N >= 0,  |f| <= mu N,  |s| <= c,    g N = 0,  g' N = 0,  mu N c + f s = 0.

As f s >= -|f| |s|, the last sum is never below zero. Where it is zero, either s is zero or c = |s| and
f = -mu N s / |s|, which dissipates as much as friction can: these are the laws of contact. Products are allowed to be
eps, which is lowered in rounds (Scholtes 2001, "Convergence properties of a regularization scheme for
mathematical programs with complementarity constraints"). Forces act evenly over the step that ends at their node,
after which the contact is closed and at rest along its normal: an impact is a large force over one step, plastic, and
comes half a step before the node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import casadi as ca

from saltus.dynamics.unilateral import Element, Geometry, elements, geometry
from saltus.errors import BadModel, BadValue
from saltus.ground import Ground, Terrain
from saltus.hybrid.constrained import Constrained
from saltus.model.symbols import SX, number
from saltus.model.touching import Foot, Rub
from saltus.plan.conditions import FREE, Condition

GAP = "gap of "  # conditions that a contact is not inside of what it touches
START = 1e-6  # m: where a motion may be below the ground at its start, as in a run
MOST = 1e3  # weights, m/s: no force and no slip is larger; without a bound the solver strays
ROUND = 1e-4  # of the weight, m/s: the tips of cones in 3D are as round as this
GRAVITY = 10.0  # m/s2: forces are measured by the weight there


@dataclass(frozen=True, eq=False)
class Touch:
    """One contact: where it is, and the friction there (for dry friction of a joint its effort by the weight)."""

    element: Element
    geometry: Geometry
    friction: SX

    @property
    def slips(self) -> int:
        """Directions in which it rubs."""
        return 0 if self.friction.is_zero() else self.element.slips

    @property
    def name(self) -> str:
        """That of the contact."""
        return self.element.name


class Touches:
    """All contacts of a machine that is planned through contact, as unknowns of a node and conditions on them."""

    def __init__(self, stage: Constrained, ground: Ground) -> None:
        m, e = stage.system.mechanism, stage.tree
        if ground.patches > 1 and any(isinstance(x, Foot) for x in m.touching.values()):
            raise BadModel(
                f"a plan through contact needs a smooth ground, not {ground!r}; give sl.ground.Terrain(function), a "
                "step as 0.05 * (1 + sl.math.tanh(x / 0.01)) for example"
            )
        self.ground, self.weight = ground, GRAVITY * sum((number(x.mass) for x in m.links.values()), SX(0))
        self.all = [
            Touch(x, _placed(x, geometry(x, e, ground), ground), self._friction(x)) for x in elements(m, ground)
        ]
        self.pressed = [x for x in self.all if x.element.normal]
        self.rubbed = [x for x in self.all if x.slips]
        self.sizes = {"n": len(self.pressed), "t": sum(x.slips for x in self.rubbed), "c": len(self.rubbed)}

    def _friction(self, x: Element) -> SX:
        part = x.part
        if isinstance(part, Rub):
            return number(part.effort) / self.weight
        if part.stiffness is not None:
            raise BadModel(f"contact {part.name!r} is soft; a plan through contact has hard ones, without stiffness=")
        if not number(part.restitution).is_zero():
            raise BadModel(
                f"contact {part.name!r} bounces; in a plan through contact impacts are plastic, restitution=0"
            )
        rough = self.ground.near(0.0, 0.0)[0].friction
        given = [part.friction, rough] if isinstance(part, Foot) else [getattr(part, "friction", 0.0)]
        known = [number(one) for one in given if one is not None]
        if not known:
            raise BadValue(f"foot {part.name!r} has no friction, and neither has the ground", foot=part.name)
        return known[0] if len(known) == 1 else ca.fmin(*known)

    # ---- what is unknown ----------------------------------------------------------------------------------------

    @property
    def names(self) -> dict[str, list[str]]:
        """Names of the unknowns."""
        return {
            "n": [f"normal force of {x.name}" for x in self.pressed],
            "t": [f"tangential force of {x.name}" for x in self.rubbed for _ in range(x.slips)],
            "c": [f"slip of {x.name}" for x in self.rubbed],
        }

    @property
    def first(self) -> SX:
        """Unknowns to begin with: the weight on all feet alike."""
        feet = sum(isinstance(x.element.part, Foot) for x in self.pressed)
        pushes = [1.0 / feet if isinstance(x.element.part, Foot) else 0.0 for x in self.pressed]
        return ca.vertcat(SX(0, 1), *pushes, SX.zeros(self.sizes["t"] + self.sizes["c"]))

    def forces(self, part: dict[str, SX]) -> list[tuple[Touch, SX, SX, SX]]:
        """Each contact with its tangential and normal force by the weight, and the bound of its slip."""
        out, at = [], 0
        for x in self.all:
            n = part["n"][self.pressed.index(x)] if x.element.normal else SX(1)
            f, c = SX(0, 1), SX(0)
            if x.slips:
                f, c = part["t"][at : at + x.slips], part["c"][self.rubbed.index(x)]
                at += x.slips
            out.append((x, f, n, c))
        return out

    def efforts(self, part: dict[str, SX], v: SX) -> SX:
        """Generalised forces of all contacts."""
        out = SX.zeros(v.numel())
        for x, f, n, _ in self.forces(part):
            rates, forces = x.geometry.rates[: x.slips, 0], f
            if x.element.normal:
                rates, forces = ca.vertcat(rates, x.geometry.rates[-1]), ca.vertcat(f, n)
            out += ca.jtimes(rates, v, forces, True)
        return self.weight * out

    # ---- what holds ---------------------------------------------------------------------------------------------

    def overlaps(self, part: dict[str, SX]) -> SX:
        """Products (m, m/s) that are not above zero where the laws of contact hold."""
        out = [SX(0, 1)]
        for x, f, n, c in self.forces(part):
            if x.element.normal:
                out += [x.geometry.gap * n, x.geometry.rates[-1] * n, -x.geometry.rates[-1] * n]
            if x.slips:
                out.append(x.friction * n * c + ca.dot(f, x.geometry.rates[: x.slips, 0]))
        return ca.vertcat(*out)

    def conditions(self, part: dict[str, SX], eps: SX) -> list[Condition]:
        """The laws of contact at a node, products within eps."""
        products = ca.vertsplit(self.overlaps(part) - eps)
        out = [Condition(one, -FREE, 0.0, "a contact pushes, or is open; it rubs against its slip") for one in products]
        for x, f, n, c in self.forces(part):
            gap, name = x.geometry.gap, x.name
            if x.element.normal:
                out.append(Condition(n, 0.0, MOST, f"normal force of {name}"))
                out.append(Condition(gap, 0.0, FREE, f"{GAP}{name}"))
            if not x.slips:
                continue
            out.append(Condition(c, 0.0, MOST, f"slip of {name}"))
            limit, slip = x.friction * n, x.geometry.rates[: x.slips, 0]
            for most, of, what in ((limit, f, "friction"), (c, slip, "slip")):
                sizes = [of, -of] if x.slips == 1 else [ca.sqrt(ca.sumsqr(of) + ROUND**2) - ROUND]
                out += [Condition(most - size, 0.0, FREE, f"{what} of {name}") for size in sizes]
        return out

    def seen(self, part: dict[str, SX]) -> tuple[SX, SX]:
        """Forces on the machine (N, world axes); normal, tangential (N), slip (m/s), gap (m), friction (1) of each."""
        forces, rows = [], []
        for x, f, n, _ in self.forces(part):
            g, along = x.geometry, x.element.slips  # what has no friction moves along all the same
            slip, push = g.rates[:along, 0], SX.zeros(3)
            if g.normal is not None:
                push = n * g.normal + sum((f[k] * g.tangents[k] for k in range(x.slips)), SX.zeros(3))
            elif x.element.normal:
                push[0] = -n if x.element.side == "upper" else n
            else:
                push[0] = f
            forces.append(self.weight * push)
            speed = slip if along == 1 else ca.sqrt(ca.sumsqr(slip) + 1e-300) if along else SX(1, 1)
            pressing = self.weight * n if x.element.normal else SX(1, 1)
            rows.append(ca.vertcat(pressing, self.weight * ca.sqrt(ca.sumsqr(f) + 1e-300), speed, g.gap, x.friction))
        return ca.vertcat(SX(0, 1), *forces), ca.vertcat(SX(0, 1), *rows)


def _placed(x: Element, g: Geometry, ground: Ground) -> Geometry:
    """A geometry with the numbers of the ground in it."""
    if not isinstance(x.part, Foot) or isinstance(ground, Terrain):
        return g
    patch = ground.near(0.0, 0.0)[0]
    known = [x.symbols["point"], x.symbols["up"]]
    values = [SX(ca.DM(list(one))) for one in (patch.point, patch.normal)]

    def put(expression: Any) -> Any:
        return ca.substitute([expression], known, values)[0]

    assert g.normal is not None
    return replace(
        g, gap=put(g.gap), rates=put(g.rates), normal=put(g.normal), tangents=tuple(put(one) for one in g.tangents)
    )
