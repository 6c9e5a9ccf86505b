"""Touched: a machine whose contacts stick, slip and lift by themselves; their modes are run-time parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.equations import Equations
from saltus.dynamics.formulations import ODE
from saltus.dynamics.unilateral import GROWN, Element, Geometry, elements, geometry
from saltus.errors import BadModel
from saltus.ground import Ground
from saltus.hybrid.constrained import SLIP_ENDS, Constrained, rare
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.model.kinematics import Closure
from saltus.model.scale import mass
from saltus.model.symbols import SX, Named, number
from saltus.model.touching import Foot, Rub
from saltus.once import cached_property

SINGULAR = 1e-5  # determinant of slip: normal forces that grow by the friction they cause have no bound (Painleve)


def constrained(system: HybridSystem, domain: Domain) -> Constrained:
    """Return the equations of a domain, derived once."""
    kind = Touched if system.terrain is not None else Constrained
    return system.once(("constrained", domain.name), lambda: kind(system, domain))


class Touched(Constrained):
    """The equations of a machine under contacts whose modes are given at run time; see `dynamics.unilateral`."""

    def __init__(self, system: HybridSystem, domain: Domain) -> None:
        assert system.terrain is not None
        self.terrain: Ground = system.terrain
        self.elements: Sequence[Element] = elements(system.mechanism, self.terrain)
        super().__init__(system, domain)
        self.geometry = self._geometry(self.tree)
        for x, g in zip(self.elements, self.geometry, strict=True):
            if not ca.depends_on(g.rates, self.tree.v):
                raise BadModel(
                    f"{x.name!r} may touch, but no coordinate of {self.mechanism.name!r} moves it; leave it out",
                    contact=x.name,
                )

    def _geometry(self, e: Equations) -> list[Geometry]:
        return [geometry(x, e, self.terrain) for x in self.elements]

    def closures_on(self, e: Equations) -> tuple[list[Closure], SX]:
        """Rows of the contacts, weighted by their modes, and the block of their parameters."""
        made = [x.closure(g, i) for i, (x, g) in enumerate(zip(self.elements, self._geometry(e), strict=True))]
        return made, ca.vertcat(SX(0, 1), *[x.block for x in self.elements])

    def _sliding(self) -> tuple[int, ...]:
        return tuple(i for i, x in enumerate(self.elements) if x.slips and x.normal and not x.soft)

    @property
    def rough(self) -> bool:
        """Whether anything may rub: a contact along its face, or a joint."""
        return any(x.slips or x.soft for x in self.elements)

    @property
    def slipping(self) -> list[int]:
        """None: the end of a slip is an event of its contact."""
        return []

    def felt(self, block: Any) -> Named:
        """1 of every part that touches, 0 of those that do not; a foot may touch two patches of ground at once."""
        out: dict[str, Any] = {}
        at = 0
        for x in self.elements:
            name = x.part.name if isinstance(x.part, Foot) else x.name
            out[name] = 1 - (1 - out.get(name, 0.0)) * (1 - block[at + x.places["felt"].start])
            at += x.size
        return Named(list(out), list(out.values()), "contact")

    @property
    def frictions(self) -> list[int]:
        """Places of all frictions in the block of the contacts."""
        starts = np.cumsum([0, *(x.size for x in self.elements)]).tolist()
        pairs = list(zip(starts, self.elements, strict=False))
        return [at + x.places[key].start for at, x in pairs for key in ("friction", "static")]

    # ---- friction -------------------------------------------------------------------------------------------------

    def _geometry_on(self, e: Equations, i: int) -> Geometry:
        own = e.kinematics is self.tree.kinematics
        return self.geometry[i] if own else geometry(self.elements[i], e, self.terrain)

    def add_friction(self, e: Equations) -> None:
        """Add friction of contacts that slip and of joints that turn, and soft contacts, to some equations' efforts."""
        for i, x in enumerate(self.elements):
            g = self._geometry_on(e, i)
            if x.soft:
                e.rub(f"contact {x.name}", g.rates, x.push(g))
            elif x.slips:
                slip = g.rates[: x.slips]
                e.rub(f"friction {x.name}", slip, self.rubbing(slip, i))

    def rubbing(self, slip: SX, i: int) -> SX:
        """Force (N) or effort (Nm) against a slip, zero of a contact that is open or holds itself at rest."""
        x = self.elements[i]
        size = self.normals[self.sliding.index(i)] * (1 - x.steady) + x.steady if x.normal else 1.0
        way = x.slipping * x.direction(slip) + x.leaning * x.symbols["direction"]
        return -x.symbols["friction"] * size * x.rubs * way

    # ---- what holds and what moves ----------------------------------------------------------------------------------

    def reactions(self, i: int, ode: ODE) -> tuple[SX, SX]:
        """Tangential and normal force of a contact, in the order of its slips."""
        x, rows = self.elements[i], self.rows_of(i)
        if x.soft:
            push = x.push(self.geometry[i])
            return push[: x.slips], push[-1]
        tangential = ode.reactions[rows[: x.slips]] if x.slips else SX(0, 1)
        if x.slips:
            tangential = tangential + self.rubbing(self.geometry[i].rates[: x.slips], i)
        return tangential, ode.reactions[rows[-1]] if x.normal else SX(1, 1)

    def force(self, i: int, ode: ODE) -> SX:
        """Force on the machine at a contact, world axes (N); of a stop or a joint its effort comes first."""
        g, (tangential, normal) = self.geometry[i], self.reactions(i, ode)
        if g.normal is None:
            own = tangential if self.elements[i].slips else normal
            if self.elements[i].side == "upper":
                own = -own
            return ca.vertcat(own, 0, 0)
        out = normal * g.normal
        for k, t in enumerate(g.tangents):
            out += tangential[k] * t
        return out

    def state_of(self, ode: ODE) -> SX:
        """Of every contact: normal force, size of the tangential one, speed of slip (signed in the plane), gap."""
        rows = [SX(0, 1)]
        for i, (x, g) in enumerate(zip(self.elements, self.geometry, strict=True)):
            tangential, normal = self.reactions(i, ode)
            slip = g.rates[: x.slips]
            speed = slip if x.slips == 1 else ca.sqrt(ca.sumsqr(slip) + 1e-300) if x.slips else SX(1, 1)
            rows.append(ca.vertcat(normal, _size(tangential), speed, g.gap))
        return ca.densify(ca.vertcat(*rows))

    # ---- guards -----------------------------------------------------------------------------------------------------

    @cached_property
    def watched(self) -> list[tuple[str, int]]:
        """What each guard of `guards` tells of which contact: "normal", "slip", "patch", and "wedge" of all."""
        out = []
        for i, (x, g) in enumerate(zip(self.elements, self.geometry, strict=True)):
            out += [("normal", i)] * x.normal + [("slip", i)] * bool(x.slips) + [("patch", i)] * (g.inside is not None)
        return out + [("wedge", -1)] * bool(self.sliding)

    @cached_property
    def weight(self) -> SX:
        """Weight of the machine (N) at 10 m/s2, by which forces are measured."""
        return ca.densify(10 * mass(self.mechanism))

    def guards(self, ode: ODE) -> list[SX]:
        """What must stay above zero: gaps and normal forces, cones and slips, patches, pivots."""
        out = []
        for what, i in self.watched:
            if what == "wedge":
                out.append(self._bounded(ode) - SINGULAR)
                continue
            x, g = self.elements[i], self.geometry[i]
            s, (tangential, normal) = x.symbols, self.reactions(i, ode)
            if what == "normal":
                bears = -g.gap if x.soft else normal / self.weight
                out.append(s["closed"] * bears + (1 - s["closed"]) * g.gap)
            elif what == "patch":
                assert g.inside is not None
                out.append(g.inside)
            else:
                limit = s["static"] * (normal if x.normal else 1)
                cone = (limit - _size(tangential)) / (self.weight if x.normal else ca.fmax(s["static"], 1e-12))
                slip = g.rates[: x.slips]
                if x.soft:
                    moving = self._slides(i, ode)
                elif x.slips == 1:
                    moving = slip * s["direction"]
                else:  # one that started has the direction it was given until it goes against it, or has grown
                    young, along = ca.sumsqr(s["direction"]), ca.dot(slip, s["direction"])
                    speed = ca.sqrt(ca.sumsqr(slip) + 1e-300)
                    starting = ca.fmin(along + s["stands"], GROWN * s["starts"] - speed)
                    moving = young * starting + (1 - young) * (speed - s["stands"])
                rests = ca.if_else(s["share"] > 0, cone, SLIP_ENDS - _size(slip))  # else others hold it at rest
                out.append(s["closed"] * (s["stick"] * rests + (1 - s["stick"]) * moving) + (1 - s["closed"]))
        return out

    def _slides(self, i: int, ode: ODE) -> SX:
        """What stays above zero while the face of a soft contact slips: of its slip what does not stretch its spring.

        In m/s. The spring bears the friction at its limit, k y + k D h s = -f_t, and y' is that of the motion. In 3D a
        slow slip is given its direction and a fast one has that of its velocity; one becomes the other between.
        """
        x, g, e = self.elements[i], self.geometry[i], ode.equations
        slip, d = g.rates[: x.slips], x.symbols["direction"]
        stretch = x.damping * g.gap * slip - x.push(g)[: x.slips] / x.stiffness
        stretching = e.kinematics.rate(stretch) + ca.jtimes(stretch, e.v, ode.a)
        face = ca.dot(x.direction(slip), slip - stretching)
        if x.slips < 2:
            return face
        given, fast = ca.sumsqr(d), GROWN * x.symbols["starts"]
        return ca.fmin(face, given * (fast - ca.dot(slip, d)) + (1 - given) * (_size(slip) - fast / 2))

    def _bounded(self, ode: ODE) -> SX:
        """Determinant of N -> N - (normal forces by the friction that N causes): zero in Painleve's paradox.

        By elimination; a pivot may pass zero, of which the determinant knows nothing.
        """
        out, A = SX(1), ca.densify(SX.eye(self.normals.numel()) - self.loads(ode)[1])
        for k in range(A.shape[0]):
            pivot = A[k, k] + 1e-30 * (A[k, k] == 0)
            out *= pivot
            for i in range(k + 1, A.shape[0]):
                A[i, :] = A[i, :] - A[i, k] / pivot * A[k, :]
        return out

    # ---- numbers ----------------------------------------------------------------------------------------------------

    @cached_property
    def meeting(self) -> Kernel:
        """At (t, q, v, p): gaps, rates and Jacobian of all rows, tangential places, normals, positions of feet."""
        e, gs = self.tree, self.geometry
        rates = ca.vertcat(SX(0, 1), *[g.rates for g in gs])
        holds = ca.vertcat(
            SX(0, 1),
            *[g.hold if g.hold.numel() else SX.zeros(x.slips) for x, g in zip(self.elements, gs, strict=True)],
        )
        normals = ca.vertcat(SX(0, 1), *[SX.zeros(3) if g.normal is None else g.normal for g in gs])
        places = [SX.zeros(3) if not hasattr(x.part, "point") else e.position(x.part.point) for x in self.elements]
        outputs = [ca.vertcat(SX(0, 1), *[g.gap for g in gs]), rates, ca.jacobian(rates, e.v), holds, normals]
        outputs.append(ca.vertcat(SX(0, 1), *places))
        p = ca.vertcat(self.mechanism.p, self.anchors)
        return rare("meeting", [e.t, e.q, e.v, p], self.with_params([ca.densify(x) for x in outputs]))

    @cached_property
    def _laws(self) -> SX:
        rows = []
        for x in self.elements:
            part = x.part
            if isinstance(part, Rub):
                given = [part.effort, part.effort if part.static is None else part.static, 0.0]
            else:
                friction = getattr(part, "friction", 0.0)
                static = getattr(part, "static", None)
                given = [friction, friction if static is None else static, part.restitution]
            rows.append(ca.vertcat(*[SX(-1) if v is None else number(v) for v in given]))
        return self.with_params([ca.densify(ca.vertcat(SX(0, 1), *rows))])[0]

    @cached_property
    def laws(self) -> Kernel:
        """Friction, static friction and restitution of every contact from the Params; -1: not given."""
        return rare("laws", [self.mechanism.p], [self._laws])

    @cached_property
    def springs(self) -> Kernel:
        """Stiffness (N/m) and damping (s/m) of every contact from the Params, zero of hard ones."""
        given = [part for x in self.elements for part in ((x.stiffness, x.damping) if x.soft else (SX(0), SX(0)))]
        return rare("springs", [self.mechanism.p], self.with_params([ca.densify(ca.vertcat(SX(0, 1), *given))]))

    @cached_property
    def law_slopes(self) -> Kernel:
        """Derivative of `laws` with respect to the Params."""
        return rare("law_slopes", [self.mechanism.p], [ca.jacobian(self._laws, self.mechanism.p)])


def _size(force: SX) -> SX:
    return ca.sqrt(ca.sumsqr(force) + 1e-300) if force.numel() else SX(1, 1)
