"""Plan: what a motion should do, said with named quantities; how it becomes numbers is another matter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel, BadValue, UnknownName
from saltus.ground import Ground
from saltus.hybrid.constrained import tree_of
from saltus.hybrid.graph import ALONE, Domain, Edge, HybridSystem
from saltus.hybrid.resets import Collision
from saltus.model.mechanism import Mechanism
from saltus.model.packing import Packed
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Named
from saltus.plan.conditions import Condition, parse
from saltus.plan.phase import Instant, Phase, inputs_of
from saltus.shown import Shown
from saltus.simulation.asked import ground_of


class Plan(Packed, Shown):
    """A motion through one domain, or through several in a row, to be found by direct collocation.

    `duration` is a number of seconds, or (least, most) where it is free; `intervals` the first mesh; a list gives each
    phase its own. `friction` limits ground forces to a cone, as that of declared feet does; that the ground only
    pushes, that points with a touchdown guard stay above it, and that joints stay between their stops, is always
    required. A machine alone that has feet, stops or dry friction is planned through contact, on a `ground` of any
    smooth shape: who touches, sticks and slips when is found.

    `plan.q`, `plan.v`, `plan.u`, `plan.t` are quantities along the way, `plan.start` and `plan.end` the ends,
    `plan.phases` the phases. Say with `require`, `bound`, `periodic` and `minimise` what is wanted, then `solve`.
    """

    def __init__(
        self,
        *domains: Domain | Mechanism,
        duration: Any,
        intervals: int | Sequence[int] = 40,
        params: Mapping[str, float] | None = None,
        friction: float | None = None,
        ground: Ground | float | None = None,
    ) -> None:
        if not domains:
            raise BadValue("a plan needs a domain, as in sl.Plan(system.domains['flight'], duration=0.5)")
        alone = isinstance(domains[0], Mechanism)
        if ground is not None and not alone:
            raise BadValue("ground= belongs to machines with feet; domains have that of their HybridSystem")
        terrain = ground_of(domains[0], ground) if alone else None
        given = [HybridSystem.alone(d, terrain).domains[ALONE] if isinstance(d, Mechanism) else d for d in domains]
        systems = {id(d.system) for d in given}
        if len(systems) != 1 or given[0].system is None:
            raise BadModel("the domains of a plan belong to different systems; take them all from one")
        self.system: HybridSystem = given[0].system
        m = self.mechanism = self.system.mechanism
        self.params = dict(zip(m.params, map(float, m.values(params)), strict=True))
        durations = duration if isinstance(duration, list) else [duration] * len(given)
        meshes = list(intervals) if isinstance(intervals, Sequence) else [intervals] * len(given)
        for what, values in (("durations", durations), ("numbers of intervals", meshes)):
            if len(values) != len(given):
                raise BadValue(f"{len(values)} {what} for {len(given)} phases; give one, or one each", given=values)
        if any(not isinstance(n, int | np.integer) or n < 1 for n in meshes):
            raise BadValue(f"intervals is {intervals}; give whole numbers above zero", given=intervals)
        self.through = self.system.terrain is not None
        self.ground: Ground | None = terrain if self.through else None
        if self.through and friction is not None:
            raise BadValue(f"friction of {m.name!r} is that of its feet: m.foot(..., friction=) or that of the ground")
        self.phases = [
            Phase(self.system, d, i, int(n), T, self.ground)
            for i, (d, n, T) in enumerate(zip(given, meshes, durations, strict=True))
        ]
        self.joins = [self._join(a.domain, b.domain) for a, b in zip(self.phases, self.phases[1:], strict=False)]
        self.loop: Edge | None = None
        self.advance: tuple[str, ...] = ()
        if friction is not None and not friction > 0:
            raise BadValue(f"friction is {friction}; give a number above zero, or None for no limit", given=friction)
        self.friction = friction
        self.conditions: list[Condition] = []
        self.path: list[tuple[Phase | None, Condition]] = []
        self.freed: dict[str, tuple[float, float]] = {}
        self.integrals: list[tuple[SX, SX, Phase | None]] = []
        self.sizes: list[tuple[SX, SX]] = []
        self.objective = SX(0)
        following = [*self.phases[1:], self.phases[0]]
        self.impulses = [SX.sym(f"impulse after {p.label}", p.stage.equations.phi.numel()) for p in following]
        self.u = Named(list(m.inputs), inputs_of(m), "input")
        self.q, self.v = m.q, m.v
        self.t = m.time

    def _join(self, source: Domain, target: Domain) -> Edge:
        edges = [e for e in self.system.edges if e.source is source and target in (e.candidates or (e.target,))]
        if not edges:
            raise BadModel(f"no edge leads from {source.name!r} to {target.name!r}; add one with system.edge(...)")
        if isinstance(edges[0].reset, Collision):
            raise BadModel(
                f"edge {edges[0].name!r} from {source.name!r}: a plan can pass edges with Continuous(), "
                "PlasticImpact() or a Map, not a Collision, which is solved by cases",
                edge=edges[0].name,
            )
        return edges[0]

    # ---- quantities ---------------------------------------------------------------------------------------------

    @property
    def start(self) -> Instant:
        """First instant."""
        return self.phases[0].start

    @property
    def end(self) -> Instant:
        """Last instant."""
        return self.phases[-1].end

    @property
    def duration(self) -> SX:
        """Duration of the whole motion (s)."""
        return sum((p.duration for p in self.phases), SX(0))

    @property
    def power(self) -> Named:
        """Mechanical power of each motor along the way (W)."""
        e = tree_of(self.system)
        motors = [n for n in self.mechanism.inputs if self.mechanism.motor_of(n)]
        return Named(motors, [self.u[n] * e._rate(n) for n in motors], "motor")

    def position(self, point: Frame | str) -> Named:
        """World position of a point along the way (m)."""
        letters, here = "xyz"[: self.phases[0].stage.dimension], tree_of(self.system).position(point)
        return Named(list(letters), [here[i] for i in range(len(letters))], "axis")

    def velocity(self, point: Frame | str) -> Named:
        """World velocity of a point along the way (m/s)."""
        letters, here = "xyz"[: self.phases[0].stage.dimension], tree_of(self.system).velocity(point)
        return Named(list(letters), [here[i] for i in range(len(letters))], "axis")

    def force(self, contact: str) -> Named:
        """Force on a contact (N, world axes) of a machine that is planned through contact."""
        return self.phases[0].force(contact)

    def lost(self, join: int = 0) -> SX:
        """Energy lost at the impact between a phase and the next (J), T_c; -1 is the impact that closes a gait."""
        end = self.phases[join].end if join >= 0 else self.end
        begin = self.phases[join + 1].start if join >= 0 else self.start
        jump = end.symbols["v"] - begin.symbols["v"]
        M = begin.of(tree_of(self.system).M)  # an impact happens in the domain that it leads to
        return ca.dot(jump, ca.mtimes(M, jump)) / 2

    def impulse(self, point: Frame | str, join: int = 0) -> Named:
        """Impulse of the ground on a point (N s, world axes) at the impact after a phase; -1 closes a gait.

        `friction=` does not limit it. With too much of it along the ground a foot slips as it touches:
        `plan.require(plan.impulse("toe").x <= 0.8 * plan.impulse("toe").y)`.
        """
        before = range(len(self.phases))[join]
        after = self.phases[(before + 1) % len(self.phases)]
        if after.touches is not None or (before + 1 == len(self.phases) and self.loop is None):
            raise BadValue(f"no impact comes after phase {join} of {self!r}; name one before another phase", given=join)
        parts = [ca.substitute(SX(x), after.forces, self.impulses[before]) for x in after.force(point)]
        return Named(list("xyz"[: len(parts)]), parts, "axis")

    def param(self, name: str, low: float, high: float) -> SX:
        """Free a Param between two values; the solution says which it took."""
        if name not in self.mechanism.params:
            raise UnknownName("param", name, self.mechanism.params)
        _ordered(low, high, f"param {name!r}")
        self.freed[name] = (float(low), float(high))
        return self.mechanism.params[name].symbol

    def integral(self, expression: Any, phase: Phase | None = None) -> SX:
        """Integral over time of an expression along the way, over all phases or one."""
        symbol = SX.sym(f"integral {len(self.integrals) + 1}")
        self.integrals.append((symbol, self._along(expression, "integral"), phase))
        return symbol

    def absolute(self, expression: Any) -> SX:
        """Absolute value along the way, exact and smooth: a new quantity not below the expression or its negative.

        For what is made small, as in `plan.minimise(plan.integral(plan.absolute(plan.power.hip)))`.
        """
        symbol = SX.sym(f"size {len(self.sizes) + 1}")
        self.sizes.append((symbol, self._along(expression, "absolute value")))
        return symbol

    # ---- what is wanted -----------------------------------------------------------------------------------------

    def require(self, *conditions: Any, phase: Phase | None = None) -> None:
        """Add conditions such as `plan.end.q.hip == 0` or `plan.position("foot").y >= 0.02`.

        Those of instants, durations, integrals and Params hold once; those of `plan.q`, `plan.v`, `plan.u` all along.
        """
        for condition in conditions:
            for one in parse(condition):
                self._add(one, phase)

    def bound(self, what: Any, low: Any = -math.inf, high: Any = math.inf, phase: Phase | None = None) -> None:
        """Keep a quantity, or every entry of a group such as `plan.u.tail`, between two numbers."""
        entries = list(what.items()) if isinstance(what, Named) else [(str(what), what)]
        _ordered(low, high, entries[0][0])
        for name, entry in entries:
            for part in range(SX(entry).numel()):
                self._add(Condition(SX(entry)[part], float(low), float(high), name), phase)

    def periodic(self, advance: Iterable[str] | str = (), *, closing: bool = True) -> None:
        """Make the end lead back to the start, through the edge between their domains; `advance` names what may differ.

        A gait that runs along x has advance="base.x" (all of "boom" if that is what carries it along).
        """
        names = [advance] if isinstance(advance, str) else list(advance)
        for name in names:
            if name not in self.mechanism.q_names:
                raise UnknownName("coordinate", name, self.mechanism.q_names)
        self.advance = tuple(names)
        self.loop = self._join(self.phases[-1].domain, self.phases[0].domain) if closing else None
        self.closed = True

    closed = False

    def minimise(self, expression: Any) -> None:
        """Say what should be small: an expression of integrals, durations, instants and Params."""
        self.objective = self._checked(expression, "objective", path=False)

    def _add(self, condition: Condition, phase: Phase | None) -> None:
        symbols = ca.symvar(condition.expression)
        along = {str(s) for s in ca.symvar(self._path_symbols())}
        names = [str(s) for s in symbols]
        if any(n in along for n in names):
            self._along(condition.expression, condition.label)
            self.path.append((phase, condition))
        else:
            self._checked(condition.expression, condition.label, path=False)
            self.conditions.append(condition)

    def _path_symbols(self) -> SX:
        m = self.mechanism
        forces = [ca.vertcat(p.forces, p.pushes) for p in self.phases]
        return ca.vertcat(m.time, *m.q, *m.v, inputs_of(m), *forces, *[s for s, _ in self.sizes])

    def _along(self, expression: Any, what: str) -> SX:
        return self._checked(expression, what, path=True)

    def _checked(self, expression: Any, what: str, *, path: bool) -> SX:
        """Refuse symbols that have no meaning here."""
        if isinstance(expression, Named):
            raise BadValue(f"{what}: a group of {len(expression)} is no number; take entries of it, or .squared_norm")
        out = SX(expression)
        if out.numel() != 1:
            raise BadValue(f"{what}: {out.numel()} numbers given where one is expected", given=out.numel())
        known = [self.mechanism.p]
        if path:
            known.append(self._path_symbols())
        else:
            for p in self.phases:
                known += [p.duration, *p.start.symbols.values(), *p.end.symbols.values()]
            known += [*self.impulses, *(s for s, *_ in self.integrals)]
        valid = ca.vertcat(SX(0, 1), *known)
        strange = [str(s) for s in ca.symvar(out) if not ca.depends_on(valid, s)]
        if strange:
            where = "along the way" if path else "at instants"
            raise BadValue(
                f"{what} uses {', '.join(strange)}, which has no meaning {where}; use plan.q, plan.v, plan.u along the "
                "way (inside plan.integral for an objective) and plan.start, plan.end at instants",
                symbols=strange,
            )
        return out

    def __repr__(self) -> str:
        path = " -> ".join(p.domain.name for p in self.phases)
        return f"Plan of {self.mechanism.name!r}: {path}, {len(self.conditions) + len(self.path)} conditions"


def _ordered(low: Any, high: Any, what: str) -> None:
    if not (low <= high):
        raise BadValue(f"{what}: the lower bound {low} is above the upper bound {high}", low=low, high=high)
