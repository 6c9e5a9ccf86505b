"""Plan: what a motion should do, said with named quantities; how it becomes numbers is another matter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel, BadValue, UnknownName
from saltus.hybrid.constrained import Constrained, tree_of
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.resets import Collision, Map
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Named
from saltus.plan.conditions import Condition, parse

if TYPE_CHECKING:
    from saltus.plan.planned import Planned


class Instant:
    """The machine at the start or the end of a phase: `plan.end.q.hip`, `plan.end.position("foot").x`.

    Comparisons give conditions for `plan.require`: `plan.start == state` fixes every position and velocity.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, mechanism: Mechanism, label: str) -> None:
        m = self.mechanism = mechanism
        self.label = label
        self.symbols = {
            "t": SX.sym(f"{label}.t"),
            "q": ca.vertcat(SX(0, 1), *[SX.sym(f"{label}.q.{n}") for n in m.q_names]),
            "v": ca.vertcat(SX(0, 1), *[SX.sym(f"{label}.v.{n}") for n in m.v_names]),
            "u": ca.vertcat(SX(0, 1), *[SX.sym(f"{label}.u.{n}") for n in m.inputs]),
        }

    @property
    def t(self) -> SX:
        """Time (s)."""
        return self.symbols["t"]

    @property
    def q(self) -> Named:
        """Positions by name."""
        return Named(self.mechanism.q_names, self.symbols["q"])

    @property
    def v(self) -> Named:
        """Velocities by name."""
        return Named(self.mechanism.v_names, self.symbols["v"], "velocity")

    @property
    def u(self) -> Named:
        """Inputs by name."""
        return Named(list(self.mechanism.inputs), self.symbols["u"], "input")

    def of(self, expression: SX) -> SX:
        """Value here of an expression of the mechanism's own symbols."""
        m = self.mechanism
        symbols = [m.time, ca.vertcat(SX(0, 1), *m.q), ca.vertcat(SX(0, 1), *m.v), _inputs(m)]
        return ca.substitute([SX(expression)], symbols, [self.symbols[k] for k in ("t", "q", "v", "u")])[0]

    def position(self, point: Frame | str) -> Named:
        """World position of a point (m)."""
        return self._vector(_equations(self.mechanism).position(point))

    def velocity(self, point: Frame | str) -> Named:
        """World velocity of a point (m/s)."""
        return self._vector(_equations(self.mechanism).velocity(point))

    def _vector(self, expression: SX) -> Named:
        letters = "xyz" if self.mechanism.spatial else "xy"
        here = self.of(expression)
        return Named(list(letters), [here[i] for i in range(len(letters))], "axis")

    @property
    def upright(self) -> list[Condition]:
        """Conditions that the floating body's up axis points up, whatever its heading and however often it turned."""
        e = _equations(self.mechanism)
        up = 2 if self.mechanism.spatial else 1
        axis = self.of(e.kinematics.pose(self.mechanism.floating_body.name).R[:, up])
        level = [Condition(axis[i], 0.0, 0.0, "upright") for i in range(up)]
        return [*level, Condition(axis[up], 0.0, math.inf, "upright")]

    @property
    def angular_velocity(self) -> SX:
        """Angular velocity of the floating body in world axes (rad/s); one number in the plane."""
        spin = self.of(_equations(self.mechanism).spin(self.mechanism.floating_body.name))
        return spin if self.mechanism.spatial else spin[2]

    @property
    def energy(self) -> SX:
        """Kinetic and potential energy (J)."""
        e = _equations(self.mechanism)
        return self.of(e.kinetic_energy + e.potential_energy)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, State):
            return NotImplemented
        if other.mechanism is not self.mechanism:
            raise BadModel(f"{self.label}: the state is of {other.mechanism.name!r}, not of {self.mechanism.name!r}")
        q, v = self.symbols["q"] == other.positions, self.symbols["v"] == other.velocities
        return ca.vertcat(q, v)

    def __repr__(self) -> str:
        return f"Instant({self.label!r})"


class Phase:
    """Stay in one domain: start, end, duration (s), ground forces along the way."""

    def __init__(self, system: HybridSystem, domain: Domain, index: int, intervals: int, duration: Any) -> None:
        self.stage = Constrained(system, domain)
        self.domain, self.index = domain, index
        label = f"{domain.name} {index + 1}" if index else domain.name
        self.label = label
        self.start = Instant(system.mechanism, f"{label} start")
        self.end = Instant(system.mechanism, f"{label} end")
        self.duration = SX.sym(f"{label} duration")
        self.low, self.high = _duration(duration, label)
        self.intervals = intervals
        self.forces = SX.sym("force", self.stage.equations.phi.numel())

    def force(self, point: Frame | str) -> Named:
        """Ground force on a point in contact along the phase (N), world axes."""
        m, d = self.stage.system.mechanism, self.stage.dimension
        for i, contact in enumerate(self.domain.contacts):
            if m.frame(contact.point) is m.frame(point):
                rows, locks = self._rows(i)
                values = {lock: self.forces[r] for lock, r in zip(locks, rows, strict=True)}
                letters = "xyz"[:d]
                return Named(list(letters), [values.get(a, SX(0)) for a in letters], "axis")
        names = [str(c.point) for c in self.domain.contacts]
        raise UnknownName(f"contact in {self.domain.name!r}", str(point), names)

    def _rows(self, contact: int) -> tuple[range, tuple[str, ...]]:
        closures = self.stage.equations.closures
        own = len(closures) - len(self.domain.contacts)
        first = sum(c.phi.numel() for c in closures[: own + contact])
        closure = closures[own + contact]
        return range(first, first + closure.phi.numel()), closure.locks

    @property
    def normals(self) -> list[tuple[str, SX]]:
        """Normal force of every contact."""
        out = []
        for i in range(len(self.domain.contacts)):
            rows, _ = self._rows(i)
            out.append((self.stage.row_names[rows[-1]], self.forces[rows[-1]]))
        return out

    def tangential(self, contact: int) -> tuple[str, SX]:
        """Name of a contact's friction condition, and its forces along the ground."""
        rows, _ = self._rows(contact)
        return f"friction at {self.stage.row_names[rows[-1]]}", self.forces[list(rows[:-1])]

    def cones(self, friction: float) -> list[Condition]:
        """Tangential ground forces within `friction` times the normal ones."""
        out = []
        for i, (_, normal) in enumerate(self.normals):
            name, along = self.tangential(i)
            most = friction * normal
            if along.numel() == 1:
                out += [Condition(most + side * along, 0.0, math.inf, name) for side in (1, -1)]
            elif along.numel():
                out.append(Condition(most**2 - ca.sumsqr(along), 0.0, math.inf, name))
        return out


class Plan:
    """A motion through one domain, or through several in a row, to be found by direct collocation.

    `duration` is a number of seconds, or (least, most) where it is free; `intervals` the first mesh; a list gives each
    phase its own. `friction` limits ground forces to a cone; that the ground only pushes, and that points with a
    touchdown guard stay above it, is always required.

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
    ) -> None:
        if not domains:
            raise BadValue("a plan needs a domain, as in sl.Plan(system.domains['flight'], duration=0.5)")
        given = [HybridSystem.alone(d).domains["motion"] if isinstance(d, Mechanism) else d for d in domains]
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
        self.phases = [
            Phase(self.system, d, i, int(n), T)
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
        self.u = Named(list(m.inputs), _inputs(m), "input")
        self.q, self.v = m.q, m.v
        self.t = m.time

    def _join(self, source: Domain, target: Domain) -> Edge:
        edges = [e for e in self.system.edges if e.source is source and target in (e.candidates or (e.target,))]
        if not edges:
            raise BadModel(f"no edge leads from {source.name!r} to {target.name!r}; add one with system.edge(...)")
        if isinstance(edges[0].reset, Collision | Map):
            raise BadModel(
                f"edge {edges[0].name!r} from {source.name!r}: a plan can pass edges with Continuous() or "
                f"PlasticImpact(), not {type(edges[0].reset).__name__}",
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

    def lost(self, join: int = 0) -> SX:
        """Energy lost at the impact between a phase and the next (J), T_c; -1 is the impact that closes a gait."""
        end = self.phases[join].end if join >= 0 else self.end
        begin = self.phases[join + 1].start if join >= 0 else self.start
        jump = end.symbols["v"] - begin.symbols["v"]
        M = end.of(tree_of(self.system).M)
        return ca.dot(jump, ca.mtimes(M, jump)) / 2

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
        forces = [p.forces for p in self.phases]
        return ca.vertcat(m.time, *m.q, *m.v, _inputs(m), *forces, *[s for s, _ in self.sizes])

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
            known += [s for s, *_ in self.integrals]
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

    # ---- solving ------------------------------------------------------------------------------------------------

    def solve(self, guess: Any = None, **options: Any) -> Planned:
        """Find the motion; see `saltus.plan.refinement.solve` for the options."""
        from saltus.plan.refinement import solve

        return solve(self, guess, **options)

    def __repr__(self) -> str:
        path = " -> ".join(p.domain.name for p in self.phases)
        return f"Plan of {self.mechanism.name!r}: {path}, {len(self.conditions) + len(self.path)} conditions"


def _inputs(m: Mechanism) -> SX:
    return ca.vertcat(SX(0, 1), *m.inputs.values())


def _equations(m: Mechanism) -> Any:
    """Equations of a mechanism, derived once."""
    return tree_of(HybridSystem.alone(m))


def _duration(given: Any, label: str) -> tuple[float, float]:
    low, high = given if isinstance(given, tuple) else (given, given)
    if not (isinstance(low, int | float | np.number) and math.isfinite(high) and 0 < low <= high):
        raise BadValue(
            f"{label}: duration is {given}; give seconds above zero, or (least, most) with least <= most", given=given
        )
    return float(low), float(high)


def _ordered(low: Any, high: Any, what: str) -> None:
    if not (low <= high):
        raise BadValue(f"{what}: the lower bound {low} is above the upper bound {high}", low=low, high=high)
