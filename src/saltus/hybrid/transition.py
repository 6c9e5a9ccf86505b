"""Transition: all that happens when a machine passes from one domain to the next.

At an event the state is mapped by the edge's reset, contacts of the next domain take hold where their points are, and
positions and velocities settle onto its constraints: with rows A of its Jacobian, M (v+ - v) = A' f and
A v+ + phi_t = 0. These equations are stated here once. `simulate` and strides solve them in numbers (`apply`), with the
derivative where it is asked for; exports print their solution (`printed`); plans keep them as conditions (`residual`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.dynamics.impulse import Impact
from saltus.dynamics.project import consistent
from saltus.errors import BadModel, BadValue, Singular
from saltus.hybrid.constrained import Constrained, rare
from saltus.hybrid.graph import Edge, HybridSystem
from saltus.hybrid.mode import Mode
from saltus.hybrid.resets import Continuous, Map, PlasticImpact
from saltus.hybrid.touched import constrained
from saltus.model.assembly import assembler
from saltus.model.rank import independent_rows, pivots, scaled_rows
from saltus.model.symbols import SX, flatten, members
from saltus.model.tracing import traced
from saltus.once import cached_property

ON, CROSSING = 1e-12, 1e-9  # a guard so small is on its surface; a rate so large crosses it
WATCH = 1e-11  # m or N: so far beyond where it was at entry a guard fires that forbids a place or a force
CLOSED, SOLVED = 1e-14, 1e-8  # m: closed to round-off; what a linear system that can be solved leaves
SETTLING = 3  # Newton steps that put positions onto the constraints of a domain
SPEED = 1e-6  # of the speeds, or m/s: by so much a reset that is no impact may break new constraints
STILL = 1e-9  # m/s: slower than this a contact has no direction of slip


# ---- guards at entry ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Armed:
    """Guards as a domain is entered: which may fire, which edge is taken at once, which are watched where they are.

    `watched` has the shift of the surface of each guard that fires as soon as it goes further beyond, until it has left
    its own; engines take it from the run-time parameters. `past` are other guards already beyond their surface, which
    fire after they have come back.
    """

    armed: np.ndarray
    at_once: int | None = None
    watched: dict[int, float] = field(default_factory=dict)
    past: tuple[int, ...] = ()

    def put(self, shift: np.ndarray) -> None:
        """Shift the surfaces of guards that are watched, in the block of the run-time parameters for it."""
        shift[list(self.watched)] = list(self.watched.values())


def arm(g: np.ndarray, rate: np.ndarray, directions: np.ndarray, edges: Sequence[Edge]) -> Armed:
    """Judge the guards of a domain by their values at entry, and those of edges by their rates.

    On its surface a guard fires if it is being crossed in its direction and waits if not. Beyond it one that forbids a
    force fires at once, one that forbids a place unless the motion leads out of it, any other after it has come back.
    An edge that only marks an instant waits until it has left its surface: crossing it now would lead back here.
    """
    side = np.where(directions == 0, -np.abs(g), directions * g)
    armed, watched, past = side < -ON, {}, []
    for i, edge in enumerate(edges):
        if armed[i] or edge.marks:
            continue
        crossing = directions[i] * rate[i]
        beyond = side[i] > ON
        inside = beyond and (edge.guard.forbids == "force" or (edge.guard.forbids and crossing >= 0))
        if inside or (not beyond and crossing > CROSSING):
            return Armed(armed, i)
        if edge.guard.forbids:
            watched[i] = directions[i] * (max(side[i], 0.0) + WATCH)
        elif side[i] > WATCH:
            past.append(i)
    armed[list(watched)] = True
    return Armed(armed, None, watched, tuple(past))


# ---- entering -------------------------------------------------------------------------------------------------------


def choose_rows(c: Constrained, t: float, q: np.ndarray, base: np.ndarray) -> tuple[int, ...]:
    """Constraint rows that are independent at a configuration, a well conditioned set of them."""
    return tuple(independent_rows(c.unitless(t, q, base), c.equations.alike)) if c.rows else ()


def flow_rows(c: Constrained, t: float, q: np.ndarray, base: np.ndarray, wanted: int | None = None) -> tuple[int, ...]:
    """Rows with which a motion goes on from a configuration; `wanted` keeps their number.

    Rows of contacts whose mode is given at run time all stay: what they hold changes without another choice.
    """
    n = c.loops if c.elements else len(c.rows)
    more = [i for i in range(n, len(c.rows)) if not c.elements[c.rows[i].contact or 0].soft]
    if not n:
        return tuple(more)
    loops, alike = c.unitless(t, q, base)[:n], c.equations.alike[:n]
    count = None if wanted is None else wanted - len(more)
    own = independent_rows(loops, alike) if count is None else pivots(scaled_rows(loops, alike).T, count)
    return (*own, *more)


def held(c: Constrained, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Params and anchors that hold the contacts where they are."""
    return np.concatenate([theta, np.ravel(c.touching(t, q, v, theta)[0])]) if c.contacts else theta


def memory(mode: Mode) -> tuple[list[SX], SX]:
    """Run-time parameters with which a mode is entered, as an expression of (t, q, v, Params).

    A contact that slides has the direction of its velocity; from rest, that of its acceleration without friction.
    """
    c, e, layout = mode.constrained, mode.constrained.equations, mode.layout
    symbols = [e.t, e.q, e.v, c.mechanism.p]
    tangents, d = c.dimension - 1, c.dimension
    if c.elements:  # their parameters are those of their modes, which the run has
        blocks = {"params": c.mechanism.p, "entry_t": e.t, "entry_q": e.q, "entry_v": e.v}
        return symbols, ca.vertcat(*[ca.densify(SX(blocks.get(name, SX.zeros(size)))) for name, size in layout.sizes])
    anchors, speeds, _ = c.touching.function(*symbols)
    slow = [SX(0, 1)]
    for i in c.sliding:
        along = speeds[d * i : d * i + tangents]
        slow.append(ca.if_else(ca.norm_2(along) > STILL, along / ca.fmax(ca.norm_2(along), 1e-300), 0))
    blocks = {
        "params": c.mechanism.p,
        "anchors": anchors,
        "slip": ca.vertcat(*slow),
        "entry_t": e.t,
        "entry_q": e.q,
        "entry_v": e.v,
    }
    p = ca.vertcat(*[ca.densify(SX(blocks.get(name, SX.zeros(size)))) for name, size in layout.sizes])
    if c.sliding:
        x = ca.vertcat(e.q, e.v[list(mode.ode.independent)], SX.zeros(layout.n_work + layout.n_z))
        starts = mode.slip_acceleration.function(e.t, x, p)
        for k in range(len(c.sliding)):
            place = slice(layout.slice("slip").start + tangents * k, layout.slice("slip").start + tangents * (k + 1))
            to = starts[tangents * k : tangents * (k + 1)]
            rest = ca.sumsqr(p[place]) < 0.5
            p[place] = ca.if_else(rest, to / ca.fmax(ca.norm_2(to), 1e-300), p[place])
    return symbols, p


def entry(mode: Mode) -> Kernel:
    """`memory` in numbers, made once."""

    def make() -> Kernel:
        symbols, p = memory(mode)
        return rare("entry", symbols, [p])

    return mode.system.once(("entry", mode.domain.name, mode.formulation, mode.choice, mode.action.key), make)


# ---- passing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Passed:
    """State after a passage: positions, velocities, the ideal impact if there was one.

    `shift` is how far a coordinate moved onto the constraints (rad or m), `error` the speed (m/s) by which velocities
    that came in break them, `apart` that by which those that go out still do: constraints that contradict each other.
    `slope` is the derivative of (q, v) with respect to (t, q, v, Params) before.
    """

    q: np.ndarray
    v: np.ndarray
    impact: Impact | None = None
    shift: float = 0.0
    error: float = 0.0
    slope: np.ndarray | None = None
    apart: float = 0.0


class Entrance:
    """The way onto the constraints of a domain."""

    def __init__(self, c: Constrained) -> None:
        self.constrained = c
        e, m = c.equations, c.mechanism
        self.symbols = [e.t, e.q, e.v, m.p]
        self.nq, self.nv, self.n = e.nq, e.nv, 1 + e.nq + e.nv + len(m.params)
        self._helper = assembler(m)

    def at_place(self, *expressions: SX) -> list[SX]:
        """Expressions with the domain's Params and with the contacts held where they are."""
        c = self.constrained
        out = [ca.densify(x) for x in c.with_params(expressions)]
        if not c.contacts:
            return out
        return list(ca.substitute(out, [c.anchors], [c.touching.function(*self.symbols)[0]]))

    @cached_property
    def phi(self) -> SX:
        """Constraints with the contacts held where they are."""
        return self.at_place(self.constrained.equations.phi)[0]

    @cached_property
    def phi_dot(self) -> SX:
        """Rates of the constraints, contacts held."""
        return self.at_place(self.constrained.equations.phi_dot)[0]

    def residual(self, after: SX, impulses: SX, rows: Sequence[int]) -> SX:
        """M (v+ - v) - A' f and A v+ + phi_t, zero where velocities v+ come out of an ideal impact along some rows."""
        e, chosen = self.constrained.equations, list(rows)
        arrive = ca.substitute(e.phi_dot[chosen], e.v, after)
        push = ca.jtimes(e.phi_dot[chosen], e.v, impulses, True) if chosen else SX.zeros(e.nv)
        momentum = ca.densify(e.times_mass(ca.densify(after - e.v))) - push
        return ca.vertcat(*self.at_place(ca.densify(ca.vertcat(momentum, arrive))))

    @cached_property
    def gaps(self) -> Kernel:
        """phi at (t, q, v, Params), contacts held where they are."""
        return rare("gaps", self.symbols, [self.phi])

    @cached_property
    def _closing(self) -> Kernel:
        """phi and its derivative with respect to (t, q, v, Params), contacts moving along; N with q' = N v."""
        N = ca.jacobian(self.constrained.equations.q_dot, self.symbols[2])
        return rare("closing", self.symbols, [self.phi, ca.jacobian(self.phi, ca.vertcat(*self.symbols)), N])

    def _bending(self, rows: tuple[int, ...]) -> Kernel:
        """Derivative of `residual` with respect to (t, q, v, Params)."""
        c = self.constrained

        def make() -> Kernel:
            after, impulses = SX.sym("after", self.nv), SX.sym("impulse", len(rows))
            bent = ca.jacobian(self.residual(after, impulses, rows), ca.vertcat(*self.symbols))
            return rare("bending", [*self.symbols, after, impulses], [bent])

        return c.system.once(("bending", c.domain.name, rows), make)

    def settle(
        self,
        t: float,
        q: np.ndarray,
        v: np.ndarray,
        theta: np.ndarray,
        base: np.ndarray,
        *,
        slope: bool = False,
        impact: bool = False,
    ) -> Passed:
        """Positions and velocities onto the constraints, along M^-1 A'; `base` holds Params and anchors.

        With `slope` its derivative comes with it, with `impact` what it does as an ideal impact.
        """
        c, before = self.constrained, q
        if not c.rows:
            return Passed(q, v, slope=np.eye(self.n)[1 : 1 + self.nq + self.nv] if slope else None)
        rows = choose_rows(c, t, q, base)
        phi, J, phi_t = c.closure(t, q, base)
        for _ in range(SETTLING):
            if np.abs(phi).max() < CLOSED:
                break
            saddle, _ = self._saddle(t, q, base, J[list(rows)])
            step = self._solved(saddle, np.concatenate([np.zeros(self.nv), -phi[list(rows)]]), t)[: self.nv]
            q = self._helper.move(q, step, theta)
            phi, J, phi_t = c.closure(t, q, base)
        A = J[list(rows)]
        saddle, M = self._saddle(t, q, base, A)
        solved = self._solved(saddle, np.concatenate([M @ v, -phi_t[list(rows)]]), t)
        after, change = solved[: self.nv], None
        error = float(np.abs(J @ v + phi_t).max())
        if slope:
            change = self._slope(t, q, v, theta, rows, saddle, solved)
        hit = _impact(M, J, v, after, len(rows), c.row_names) if impact else None
        apart = float(np.abs(J @ after + phi_t).max())
        return Passed(q, after, hit, float(np.abs(q - before).max()), error, change, apart)

    def _saddle(self, t: float, q: np.ndarray, base: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        M = self.constrained.mass(t, q, base)
        saddle = np.zeros((self.nv + len(A), self.nv + len(A)))
        saddle[: self.nv, : self.nv], saddle[: self.nv, self.nv :], saddle[self.nv :, : self.nv] = M, -A.T, A
        return saddle, M

    def _solved(self, saddle: np.ndarray, right: np.ndarray, t: float) -> np.ndarray:
        try:
            out = np.linalg.solve(saddle, right)
            off = np.abs(saddle @ out - right).max(initial=0.0)
            solved = bool(off <= SOLVED * (np.abs(saddle) @ np.abs(out) + np.abs(right)).max(initial=0.0))
        except np.linalg.LinAlgError:
            solved = False
        if not solved:
            name, idle = self.constrained.domain.name, np.abs(np.linalg.svd(saddle[:, : self.nv])[2][-1])
            names = [n for n, part in zip(self.constrained.mechanism.v_names, idle, strict=True) if part > 0.1]
            raise Singular(
                f"domain {name!r}: a motion of {', '.join(names)} moves nothing heavy (t = {t:.6g} s), so that impacts "
                "and projections onto the constraints are not defined; give every link that moves mass and inertia, or "
                "let loops hold it",
                domain=name,
                coordinates=names,
            )
        return out

    def _slope(
        self,
        t: float,
        q: np.ndarray,
        v: np.ndarray,
        theta: np.ndarray,
        rows: tuple[int, ...],
        saddle: np.ndarray,
        solved: np.ndarray,
    ) -> np.ndarray:
        """Derivative of (q, v) after with respect to (t, q, v, Params) before, at a state on the constraints."""
        nq, nv, n, chosen = self.nq, self.nv, self.n, list(rows)
        _, bent, N = self._closing(t, q, v, theta)
        bent, N = np.reshape(bent, (-1, n))[chosen], np.reshape(N, (nq, nv))
        still = np.zeros((nv, n))
        out = np.eye(n)[1 : 1 + nq + nv]
        out[:nq] += N @ np.linalg.solve(saddle, np.vstack([still, -bent]))[:nv]
        load = np.reshape(self._bending(rows)(t, q, v, theta, solved[:nv], solved[nv:]), (nv + len(rows), n))
        moved = np.eye(n)
        moved[1 : 1 + nq + nv] = out  # velocities change along with the positions that were put onto the constraints
        moved[1 + nq : 1 + nq + nv] = np.eye(n)[1 + nq : 1 + nq + nv]
        out[nq:] = np.linalg.solve(saddle, -load @ moved)[:nv]
        return out

    # ---- as expressions -------------------------------------------------------------------------------------------

    def printed(self, choice: Choice) -> ca.Function:
        """(t, q, v, Params) -> (q, v) on the constraints, the same equations solved as expressions."""
        c, e = self.constrained, self.constrained.equations
        t, q, v, theta = (SX.sym(n, x.numel()) for n, x in zip(("t", "q", "v", "params"), self.symbols, strict=True))
        if not choice.rows:
            return ca.Function("settled", [t, q, v, theta], [q, v])
        rows = list(choice.rows)
        p = ca.vertcat(theta, c.touching.function(t, q, v, theta)[0])
        speed = SX.sym("speed", len(rows))
        after, _ = consistent(e, choice, e.v, speed)
        project = ca.Function("project", [e.t, e.q, e.v, e.p, speed], c.with_params([ca.densify(after)]))
        phi, phi_t = c.with_params([ca.densify(e.phi[rows]), ca.densify(e.phi_t[rows])])
        gaps = ca.Function("gaps", [e.t, e.q, e.p], [phi, phi_t])
        shift = SX.sym("shift", self.nv)
        displaced = ca.Function("displaced", [e.q, shift, e.p], [e.kinematics.displaced(shift)])
        closed = q
        for _ in range(SETTLING):
            step = project(t, closed, SX.zeros(self.nv), p, -gaps(t, closed, p)[0])
            closed = displaced(closed, step, p)
        out = project(t, closed, v, p, -gaps(t, closed, p)[1])
        return ca.Function("settled", [t, q, v, theta], ca.cse([ca.densify(closed), ca.densify(out)]))


def check_possible(c: Constrained, t: float, out: Passed, allowed: float) -> None:
    """Refuse constraints that contradict each other: no velocity meets all of them to what is allowed (m/s)."""
    if out.apart > allowed:
        raise BadModel(
            f"domain {c.domain.name!r}: motions given in time contradict its constraints at t = {t:.6g} s, "
            f"which no velocity meets to less than {out.apart:.3g} m/s; let go of a contact or of a given motion",
            domain=c.domain.name,
            error=out.apart,
        )


def entrance(c: Constrained) -> Entrance:
    """Return the way onto the constraints of a domain, made once."""
    return c.system.once(("entrance", c.domain.name), lambda: Entrance(c))


class Transition:
    """The passage along one edge: its reset, then the way into the next domain."""

    def __init__(self, system: HybridSystem, edge: Edge) -> None:
        self.system, self.edge = system, edge
        self.source = constrained(system, edge.source)

    @cached_property
    def mapping(self) -> ca.Function | None:
        """(t, q, v, Params) -> (q, v), what the edge's Map does; None if it has none."""
        if not isinstance(self.edge.reset, Map):
            return None
        c, what = self.source, f"Map of edge {self.edge.name!r}"
        e, m = c.equations, c.mechanism
        given = traced(self.edge.reset.function, c.signals(e.t, e.q, e.v, m.p), what=what)
        if not hasattr(given, "items"):
            raise BadValue(f"{what} returned {given!r}; return a dict such as {{'v.hip': 0.0}}", given=given)
        q, v = SX(e.q), SX(e.v)
        for key, value in given.items():
            speed = key.startswith("v.")
            names, vector = (m.v_names, v) if speed else (m.q_names, q)
            kind = "velocity" if speed else "coordinate"
            name = key.removeprefix("v.")
            mine = members(name, names)
            if not mine:
                flatten({name: 0.0}, names, kind)  # raises, with the names there are
            values = list(value) if hasattr(value, "__len__") or hasattr(value, "items") else [value]
            if isinstance(value, SX):
                values = ca.vertsplit(ca.vec(value))
            if len(values) != len(mine):
                raise BadValue(
                    f"{what}: {key!r} takes {len(mine)} numbers ({', '.join(mine)}), {len(values)} given", given=value
                )
            for full, one in zip(mine, values, strict=True):
                vector[names.index(full)] = SX(one)
        symbols = [e.t, e.q, e.v, m.p]
        return ca.Function("map", symbols, ca.cse(c.with_params([ca.densify(q), ca.densify(v)])))

    @cached_property
    def _map(self) -> tuple[Kernel, Kernel] | None:
        if self.mapping is None:
            return None
        symbols = [SX.sym(n, self.mapping.numel_in(i)) for i, n in enumerate(("t", "q", "v", "p"))]
        q, v = self.mapping(*symbols)
        slope = ca.jacobian(ca.vertcat(q, v), ca.vertcat(*symbols))
        return rare("map", symbols, [q, v]), rare("slope", symbols, [slope])

    def mapped(self, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray, *, slope: bool = False) -> Passed:
        """State after the edge's Map."""
        n = 1 + len(q) + len(v) + len(theta)
        if self._map is None:
            return Passed(q, v, slope=np.eye(n)[1 : 1 + len(q) + len(v)] if slope else None)
        after_q, after_v = (np.ravel(x) for x in self._map[0](t, q, v, theta))
        if not (np.isfinite(after_q).all() and np.isfinite(after_v).all()):
            raise BadValue(f"Map of edge {self.edge.name!r} gave a number that is not finite at t = {t:.6g} s")
        return Passed(after_q, after_v, slope=np.reshape(self._map[1](t, q, v, theta), (-1, n)) if slope else None)

    def into(self, c: Constrained, t: float, state: Passed, theta: np.ndarray, *, speed: float, slope: bool) -> Passed:
        """Settle a mapped state into a domain; BadModel if the reset is no impact and the velocities break it.

        `speed` is what velocities are known to, relative to the largest and in m/s.
        """
        base = held(c, t, state.q, state.v, theta)
        plastic = isinstance(self.edge.reset, PlasticImpact) and bool(c.rows)
        out = entrance(c).settle(t, state.q, state.v, theta, base, slope=slope, impact=plastic)
        allowed = max(SPEED, speed) * max(1.0, float(np.abs(state.v).max(initial=0.0)))
        check_possible(c, t, out, allowed)
        impact = out.impact
        if impact is None and out.error > allowed:
            raise BadModel(
                f"edge {self.edge.name!r}: its reset leaves velocities that violate the constraints of "
                f"{c.domain.name!r} by {out.error:.3g} m/s; use reset=sl.PlasticImpact(), or after a collision list "
                "domains that fit as targets",
                edge=self.edge.name,
                error=out.error,
            )
        total = None
        if slope:
            assert out.slope is not None
            assert state.slope is not None
            n = out.slope.shape[1]
            whole = np.eye(n)
            whole[1 : 1 + len(state.slope)] = state.slope
            total = out.slope @ whole
        return Passed(out.q, out.v, impact, out.shift, out.error, total)

    def apply(
        self, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray, *, speed: float = SPEED, slope: bool = False
    ) -> Passed:
        """State just after the event, in the edge's target."""
        state = self.mapped(t, q, v, theta, slope=slope)
        if self.edge.target is None:
            return state
        return self.into(constrained(self.system, self.edge.target), t, state, theta, speed=speed, slope=slope)

    def printed(self, choice: Choice) -> ca.Function:
        """(t, q, v, Params) -> (q, v) just after the event, as expressions; `choice` is that of the target."""
        assert self.edge.target is not None
        settled = entrance(constrained(self.system, self.edge.target)).printed(choice)
        if self.mapping is None:
            return settled
        symbols = [SX.sym(n, self.mapping.numel_in(i)) for i, n in enumerate(("t", "q", "v", "p"))]
        t, _, _, theta = symbols
        return ca.Function("passed", symbols, list(settled(t, *self.mapping(*symbols), theta)))

    def residual(
        self, c: Constrained, before: Sequence[SX], after: Sequence[SX], impulses: SX, rows: Sequence[int]
    ) -> tuple[SX, SX]:
        """What is zero if (q, v) `after` the event comes of (t, q, v, Params) `before` it: of positions, of velocities.

        The passage leads into `c`. An ideal impact along some of its rows balances momentum and holds them, any other
        reset leaves the velocities that it gave.
        """
        t, q, v, theta = before
        q, v = (q, v) if self.mapping is None else self.mapping(t, q, v, theta)
        if not isinstance(self.edge.reset, PlasticImpact):
            return after[0] - q, after[1] - v
        way = entrance(c)
        speeds = way.residual(after[1], impulses, rows)
        here = ca.substitute([speeds], [ca.vertcat(*way.symbols)], [ca.vertcat(t, after[0], v, theta)])[0]
        return after[0] - q, here

    @property
    def smooth(self) -> bool:
        """Whether the passage has a derivative: no collision by cases, one target."""
        return isinstance(self.edge.reset, Continuous | PlasticImpact | Map) and len(self.edge.candidates) < 2


def transition(system: HybridSystem, edge: Edge) -> Transition:
    """Return the passage along an edge, made once."""
    return system.once(("transition", id(edge)), lambda: Transition(system, edge))


def _impact(M: np.ndarray, J: np.ndarray, v: np.ndarray, after: np.ndarray, rank: int, rows: tuple[str, ...]) -> Impact:
    """What an ideal impact did; the impulses are the least-norm set where rows depend on each other."""
    change = M @ (after - v)
    impulses = np.linalg.lstsq(J.T, change, rcond=1e-10)[0]
    T_a, lost = float(after @ M @ after / 2), after - v
    return Impact(after, impulses, T_a, float(lost @ M @ lost / 2), rank, T_a, rows)
