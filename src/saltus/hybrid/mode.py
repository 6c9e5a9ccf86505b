"""Mode: what holds and acts now, rows, formulation and law, as functions an engine runs and a trajectory records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.dynamics.equations import Equations
from saltus.dynamics.formulations import ODE, Formulation
from saltus.engines.port import Flow, Look
from saltus.errors import BadValue, Singular
from saltus.hybrid.constrained import SLIP_ENDS, Constrained, Often
from saltus.hybrid.contacts import same_point
from saltus.hybrid.graph import Edge
from saltus.hybrid.guards import DIRECTIONS
from saltus.hybrid.laws import Sampled, Schedule
from saltus.hybrid.response import Responses
from saltus.hybrid.signals import commands
from saltus.hybrid.touched import Touched
from saltus.model.parts import Frame
from saltus.model.rank import positive, scaled_rows
from saltus.model.symbols import SX
from saltus.model.tracing import traced
from saltus.once import cached_property

NO_MASS = 1e-14  # smallest eigenvalue of a mass matrix scaled to a diagonal of ones


@dataclass(frozen=True)
class Layout:
    """Where things are in the state x = (q, w, work, z) and in the run-time parameters p."""

    nq: int
    nw: int
    n_work: int
    n_z: int
    sizes: tuple[tuple[str, int], ...]

    @property
    def work(self) -> slice:
        """Place of the work channels in x."""
        return slice(self.nq + self.nw, self.nq + self.nw + self.n_work)

    @property
    def z(self) -> slice:
        """Place in x of the states that are neither positions nor velocities nor work."""
        return slice(self.work.stop, self.work.stop + self.n_z)

    @cached_property
    def _places(self) -> dict[str, slice]:
        ends = [0, *accumulate(size for _, size in self.sizes)]
        return {name: slice(ends[i], ends[i + 1]) for i, (name, _) in enumerate(self.sizes)}

    def slice(self, name: str) -> slice:
        """Place of a block of p."""
        return self._places[name]

    @property
    def n_p(self) -> int:
        """Length of p."""
        return sum(size for _, size in self.sizes)


@dataclass(frozen=True, eq=False)
class Action:
    """What a law does in a domain: inputs `u` as expressions, the symbols of its table's `row`, and its `name`.

    `key` is the content of the expression: laws that say the same have the same one, whatever objects they are.
    """

    u: SX
    row: SX
    name: str
    key: str


def action(constrained: Constrained, choice: Choice, law: Any) -> Action:
    """Trace a law in a domain; None leaves the motors switched off, a Sampled one holds its inputs."""
    m, e = constrained.mechanism, constrained.equations
    row = SX.sym("row", law.width(constrained) if isinstance(law, Schedule) else 0)
    if law is None or not m.inputs:
        return Action(SX.zeros(len(m.inputs)), row, "none", f"none {row.numel()}" if row.numel() else "none")
    if isinstance(law, Sampled):
        return Action(constrained.held, row, name_of(law.function), "held")
    if not callable(law) and not isinstance(law, Schedule):
        known = ", ".join(f"m.controls[{n!r}]" for n in constrained.system.controls) or "one of m.controls"
        raise BadValue(f"control is {law!r}; give a function (t, s) -> {{input: value}}, or {known}", given=law)
    name, t = name_of(law), e.t
    s = constrained.signals(t, e.q, e.v, m.p, constrained.entry, responses=Responses(constrained, choice))
    what = f"controller {name!r} in domain {constrained.domain.name!r}"
    instead = ", or wrap the controller as sl.control.Sampled(controller, rate=1000)"
    arguments = (t, s, row) if isinstance(law, Schedule) else (t, s)
    function = law.law if isinstance(law, Schedule) else law
    given = traced(function, *arguments, what=what, instead=instead)
    u = ca.densify(ca.vertcat(*[SX(value) for value in commands(m, given, what)]))
    return Action(u, row, name, _content(constrained, u, row, what))


def name_of(law: Any) -> str:
    """Name of a law for messages."""
    return getattr(law, "__name__", type(law).__name__)


def _content(constrained: Constrained, u: SX, row: SX, what: str) -> str:
    """Digest of an expression of the state."""
    e, entry = constrained.equations, constrained.entry
    known = [
        e.t,
        e.q,
        e.v,
        e.p,
        constrained.slip,
        *(ca.vertcat(SX(0, 1), *x) for x in (entry.q, entry.v)),
        entry.t,
        row,
    ]
    try:
        function = ca.Function("law", known, [u])
    except RuntimeError as problem:
        raise BadValue(f"{what} uses symbols that are not of the machine: {problem}") from problem
    return hashlib.sha256(function.serialize().encode()).hexdigest()


class Mode:
    """A domain with formulation, rows, coordinates and law: everything numerical about a stay in it.

    A Mode is made of values and nothing else can change what it computes.
    """

    def __init__(self, constrained: Constrained, formulation: Formulation, choice: Choice, act: Action) -> None:
        c = self.constrained = constrained
        self.system, self.domain, self.mechanism = c.system, c.domain, c.mechanism
        self.formulation, self.choice, self.action = formulation, choice, act
        self.edges: list[Edge] = self.system.leaving(self.domain)
        self.dimension = c.dimension
        e = self.equations = c.moved(passive=act.key == "none" and bool(self.mechanism.inputs))
        ode = self.ode = formulation.ode(e, choice)
        self._smallest = SX.sym("smallest_volume")
        entry, edges = c.entry, SX.sym("shift", self.n_own)
        blocks = {
            "params": self.mechanism.p,
            "anchors": c.anchors,
            "slip": c.slip,
            "entry_t": entry.t,
            "entry_q": ca.vertcat(SX(0, 1), *entry.q),
            "entry_v": ca.vertcat(SX(0, 1), *entry.v),
            "held": c.held,
            "row": act.row,
            "shift": edges,
            "smallest_volume": self._smallest,
        }
        self.p = ca.vertcat(*blocks.values())
        self._shift = edges
        self._motion_load = self._motion_efforts(ode)
        self._channels = self._powers()
        self.power_names = list(self._channels)
        sizes = tuple((n, int(b.numel())) for n, b in blocks.items())
        self.layout = Layout(e.nq, ode.w.numel(), len(self.power_names), e.z.numel(), sizes)
        self.work = SX.sym("work", self.layout.n_work)
        self.x = ca.vertcat(e.q, ode.w, self.work, e.z)

    # ---- given motions ------------------------------------------------------------------------------------------

    def _given(self, name: str) -> str | None:
        """Name the coordinate whose motion a constraint gives."""
        constraints = self.mechanism.constraints
        return constraints[name].moves if name in constraints else None

    def _motion_efforts(self, ode: ODE) -> SX:
        """Effort of every given motion: what is left of M a + h = Q + J' f in the direction of its displacement."""
        e = self.equations
        given = [i for closure, i in zip(e.closures, self._first_rows(), strict=True) if self._given(closure.name)]
        held = ca.densify(ode.reactions[given]) if given else SX(0, 1)
        if not self.mechanism.motions:
            return held
        return ca.vertcat(self._motion_loads(*[ca.densify(x) for x in (ode.v, ode.a, ode.reactions)]), held)

    @cached_property
    def _motion_loads(self) -> Callable[[SX, SX, SX], SX]:
        """Loads in the direction of given motions by velocities, accelerations and reactions."""
        m, e, c = self.mechanism, self.equations, self.constrained
        full = Equations(m, released=True, passive=e.passive)
        contacts, anchors = c.closures_on(full)
        full = full.constrained(contacts, anchors, passive=e.passive)
        c.add_friction(full)
        reactions = SX.sym("reaction", e.phi.numel())
        load = (full.inverse_dynamics - full.Q - ca.mtimes(full.J.T, reactions))[e.nv :]
        still = SX.zeros(len(m.motions))
        others = [e.t, m.p, e.u, e.z, c.slip, c.normals]
        at = ca.Function("load", [full.q, full.v, full.a, anchors, reactions, *others], [ca.densify(load)])

        def loads(v: SX, a: SX, f: SX) -> SX:
            return at(*[ca.vertcat(x, still) for x in (e.q, v, a)], c.anchors, f, *others)

        return loads

    @property
    def motion_names(self) -> list[str]:
        """Names of given motions, in the order of their efforts."""
        m = self.mechanism
        return [*m.motions, *(c.moves for c in m.constraints.values() if c.moves)]

    def _first_rows(self) -> list[int]:
        """Index of the first row of every closure."""
        sizes = [c.phi.numel() for c in self.equations.closures]
        return [sum(sizes[:i]) for i in range(len(sizes))]

    def _powers(self) -> dict[str, SX]:
        """Power (W) by channel: of forces that store no energy, of given motions, of constraints that move in time."""
        m, e = self.mechanism, self.equations
        own = self._with_v(*e.powers.values()) if e.powers else []
        out = dict(zip(e.powers, own, strict=True))
        for i, (name, motion) in enumerate(m.motions.items()):
            out[f"motion {name}"] = self._motion_load[i] * motion.speed
        for closure, at in zip(e.closures, self._first_rows(), strict=True):
            rows = slice(at, at + closure.phi.numel())
            if closure.name in m.constraints and ca.depends_on(closure.phi, m.time):
                moved = self._given(closure.name)
                name = f"motion {moved}" if moved else f"constraint {closure.name}"
                out[name] = -ca.dot(self.ode.reactions[rows], e.phi_t[rows])
        return out

    # ---- expressions --------------------------------------------------------------------------------------------

    def forces(self, frame: Frame) -> SX:
        """Force of the ground on a contact point (N), world axes, as an expression still containing u."""
        for i, contact in enumerate(self.domain.contacts):
            if same_point(self.mechanism, contact.point, frame):
                return self._force(i, self.ode)
        raise BadValue(
            f"domain {self.domain.name!r} has no contact at that point; contact forces exist where a contact holds",
            domain=self.domain.name,
        )

    def _force(self, contact: int, ode: ODE) -> SX:
        c, out = self.constrained, SX.zeros(self.dimension)
        if isinstance(c, Touched):
            return c.force(contact, ode)[: self.dimension]
        for row in c.rows_of(contact):
            out["xyz".index(c.rows[row].lock)] = ode.reactions[row]
        if contact in c.sliding:
            out[: self.dimension - 1] = c.friction(self.equations, c.sliding.index(contact))
        return out

    def finish(self, *expressions: SX, loaded: bool = False) -> list[SX]:
        """Insert the law, the formulation's velocities, domain Params, and normal forces unless they are `loaded`."""
        e, c = self.equations, self.constrained
        out = [ca.densify(x) for x in expressions]
        out = out if loaded else c.with_normals(out, self.ode)
        if e.u.numel():
            out = ca.substitute(out, [e.u], [self.action.u])
        out = self._with_v(*out)
        return c.with_params(out)

    def _with_v(self, *expressions: SX) -> list[SX]:
        """Insert the velocities of the formulation for the symbols v."""
        e = self.equations
        if self.ode.v is e.v:
            return [ca.densify(x) for x in expressions]
        return list(ca.substitute([ca.densify(x) for x in expressions], [e.v], [ca.densify(self.ode.v)]))

    def function(self, name: str, *outputs: SX, often: bool = True) -> ca.Function:
        """CasADi function of (t, x, p); one that is called often has its common parts shared, which takes long."""
        inputs, finished = [self.equations.t, self.x, self.p], self.finish(*outputs)
        shared = ca.cse(finished) if often else finished
        return ca.Function(name, inputs, shared, ["t", "x", "p"], [f"out{i}" for i in range(len(outputs))])

    def _kernel(self, name: str, *outputs: SX) -> Kernel:
        return Kernel(self.function(name, *outputs, often=False), native=False)

    # ---- functions ----------------------------------------------------------------------------------------------

    @cached_property
    def flow(self) -> Flow:
        """Right-hand side, guards and projection for an engine."""
        powers, e = ca.vertcat(SX(0, 1), *self._channels.values()), self.equations
        rates, values = ca.vertcat(self.ode.rhs, powers, e.z_dot), ca.vertcat(SX(0, 1), *self._guards)
        reactions = SX(0, 1) if self.formulation.reduced else self._borne(self.ode)  # reduced ones need none of them
        whole = self.function("whole", rates, values, reactions)
        inputs = [e.t, self.x, self.p]
        rhs, guards = (
            ca.Function(name, inputs, [out], ["t", "x", "p"], ["out0"])
            for name, out in zip(("rhs", "guards"), whole(*inputs)[:2], strict=True)
        )
        project = None
        if self.ode.project is not None:
            project = self.function("project", ca.vertcat(self.ode.project, self.work, e.z))
        return Flow(f"{self.mechanism.name}/{self.domain.name}", rhs, guards, project, whole, self._factors)

    @property
    def _factors(self) -> ca.Function | None:
        """Whether each contact is closed, held along its face, and rubs, as numbers at (t, x, p)."""
        own = [number for x in self.constrained.elements for number in (x.symbols["closed"], x.held, x.rubs)]
        return self.function("factors", ca.vertcat(*own)) if own else None

    def _in_block(self, key: str) -> tuple[int, ...]:
        """Places in p of one number of every contact whose mode is given."""
        elements = self.constrained.elements
        starts = accumulate((x.size for x in elements), initial=self.layout.slice("anchors").start)
        return tuple(at + x.places[key].start for at, x in zip(starts, elements, strict=False))

    @cached_property
    def _guards(self) -> list[SX]:
        """Guards of the edges, shifted where one is watched from its own surface on, and that of the coordinates."""
        e, c = self.equations, self.constrained
        s = c.signals(e.t, e.q, e.v, self.mechanism.p, c.entry, forces=self.forces)
        rows = []
        for i, edge in enumerate(self.edges):
            what = f"guard of edge {edge.name!r} in domain {self.domain.name!r}"
            given = traced(edge.guard.expression, s, what=what)
            value = SX(given) if isinstance(given, SX) else None
            if isinstance(given, int | float | np.number):
                value = SX(float(given))
            if value is None or value.numel() != 1:
                raise BadValue(f"{what} gives {given!r}; give one number or expression", edge=edge.name)
            rows.append(value - self._shift[i])
        for k in c.slipping:
            along = c.slip_velocity(e, k)
            rows.append(along * c.slip[k] if self.dimension == 2 else ca.norm_2(along) - SLIP_ENDS)
        if isinstance(c, Touched):
            rows += [g - self._shift[len(rows) + i] for i, g in enumerate(c.guards(self.ode))]
        return rows + ([] if self.ode.volume is None else [self.ode.volume - self._smallest])

    @property
    def n_own(self) -> int:
        """Guards of edges, of slips that end, of contacts whose mode is given at run time; the rest is the volume's."""
        c = self.constrained
        return len(self.edges) + len(c.slipping) + (len(c.watched) if isinstance(c, Touched) else 0)

    @cached_property
    def directions(self) -> np.ndarray:
        """Direction of every guard: of the edges, of contacts that slide, of the choice of coordinates if any."""
        out = [DIRECTIONS[edge.guard.direction] for edge in self.edges] + [-1] * (self.n_own - len(self.edges))
        return np.array(out + ([-1] if self.ode.volume is not None else []), np.int32)

    @cached_property
    def velocity(self) -> Kernel:
        """All velocities at (t, x, p), those that the constraints allow there."""
        return self._kernel("velocity", self.ode.consistent)

    def velocities(self, t: float, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The same in numbers; most formulations have them in the state."""
        if self.formulation.reduced:
            return np.ravel(self.velocity(t, x, p))
        return x[self.layout.nq : self.layout.nq + self.layout.nw].copy()

    @cached_property
    def command(self) -> Kernel:
        """What the law asks of the inputs, and what they deliver, at (t, x, p)."""
        return self._kernel("command", self.action.u, self.equations.torques)

    def guard_rates(self, count: int | None = None) -> SX:
        """Rates of the guards along the flow, or of the first of them."""
        f, e = self.flow, self.equations
        g = f.guards(e.t, self.x, self.p)[:count]
        return ca.cse(ca.densify(ca.jtimes(g, ca.vertcat(e.t, self.x), ca.vertcat(1, f.rhs(e.t, self.x, self.p)))))

    @cached_property
    def edge_rates(self) -> Kernel:
        """Rates of the guards of the edges along the flow."""
        inputs = [self.equations.t, self.x, self.p]
        return Kernel(ca.Function("edge_rates", inputs, [self.guard_rates(len(self.edges))]), native=False)

    @cached_property
    def slip_acceleration(self) -> Kernel:
        """Tangential accelerations (m/s2) of the sliding contacts, one after another."""
        e, c = self.equations, self.constrained
        rates = ca.vertcat(SX(0, 1), *[c.slip_velocity(e, k) for k in range(len(c.sliding))])
        second = ca.substitute(e.kinematics.second_rate(rates), e.a, ca.densify(self.ode.a))
        return self._kernel("slip_acceleration", second)

    @cached_property
    def volume(self) -> Kernel:
        """Measure of how far the choice of coordinates is from singular."""
        return self._kernel("volume", SX(1) if self.ode.volume is None else self.ode.volume)

    # ---- what follows from accelerations and reactions ----------------------------------------------------------

    @cached_property
    def _solved(self) -> ODE:
        """The formulation with symbols in place of the accelerations and reactions that it solves for."""
        a, reactions = SX.sym("a", self.equations.nv), SX.sym("reaction", self.ode.reactions.numel())
        return replace(self.ode, a=a, reactions=reactions, unrefined=reactions)

    def _borne(self, ode: ODE) -> SX:
        """Reactions, and the loads by which contacts rub: of loads that are shared those are the less exact ones."""
        return ca.vertcat(ode.reactions, self.constrained.normals)

    def _of_solved(self, name: str, *outputs: SX) -> ca.Function:
        """CasADi function of (t, x, p, accelerations, reactions and loads)."""
        inputs = [self.equations.t, self.x, self.p, self._solved.a, self._borne(self._solved)]
        return ca.Function(name, inputs, self.finish(*outputs, loaded=True))

    @cached_property
    def _solve(self) -> Often:
        """Accelerations, and reactions with loads, at (t, x, p)."""
        return Often(self.function("solve", self.ode.a, self._borne(self.ode), often=False))

    def solved(self, t: np.ndarray, x: np.ndarray, p: np.ndarray, look: Look | None = None) -> tuple[np.ndarray, ...]:
        """Accelerations, and reactions with loads, one row per time; `look` is a stepper's of this flow: quicker."""
        if self.formulation.reduced or look is None:
            a, reactions = self._solve.batch(t[:, None], x, p)
            return a.reshape(len(t), -1), reactions.reshape(len(t), -1)
        rates, _, reactions = look(t, x, p)
        return rates[:, self.layout.nq : self.layout.nq + self.layout.nw], reactions

    @cached_property
    def unheeded(self) -> list[int]:
        """Places in p of who is felt to touch, where the law does not mind."""
        felt = [SX(0, 1), *(x.symbols["felt"] for x in self.constrained.elements)]
        return [] if ca.depends_on(self.action.u, ca.vertcat(*felt)) else list(self._in_block("felt"))

    @cached_property
    def contact_response(self) -> Kernel:
        """Of all rows of the contacts whose mode is given: second rates, held or not, and forces."""
        e, c = self.equations, self.constrained
        assert isinstance(c, Touched)
        rates = ca.vertcat(SX(0, 1), *[g.rates for g in c.geometry])
        second = ca.substitute(e.kinematics.second_rate(rates), e.a, self._solved.a)
        forces = [ca.vertcat(*c.reactions(i, self._solved))[: x.rows] for i, x in enumerate(c.elements)]
        return Kernel(self._of_solved("contact_response", second, ca.vertcat(SX(0, 1), *forces)), native=False)

    @cached_property
    def _outputs(self) -> Often:
        """What trajectories record: v, a, torques, phi, energies, momentum, contact forces, points."""
        e, m, ode = self.equations, self.mechanism, self._solved
        contacts = [self._force(i, ode) for i in range(len(self.constrained.contacts))]
        soft = [t.force[: self.dimension] for t in e.touches.values()]
        points = [e.position(name)[: self.dimension] for name in m.points]
        parts = (
            ode.v,
            ode.a,
            e.torques,
            e.phi,
            e.kinetic_energy,
            e.potential_energy,
            e.momentum,
            ca.vertcat(SX(0, 1), *contacts, *soft),
            ca.vertcat(SX(0, 1), *points),
            self._motion_efforts(ode),
            self.constrained.state_of(ode) if isinstance(self.constrained, Touched) else SX(0, 1),
        )
        return Often(self._of_solved("outputs", *parts))

    def outputs(self, t: np.ndarray, x: np.ndarray, p: np.ndarray, look: Look | None = None) -> list[np.ndarray]:
        """v, a, torques, phi, T, V, momentum, contact forces, points, motion efforts, contacts; one row per time."""
        return [out.reshape(len(t), -1) for out in self._outputs.batch(t[:, None], x, p, *self.solved(t, x, p, look))]

    # ---- vectors ------------------------------------------------------------------------------------------------

    def state_vector(
        self, q: np.ndarray, v: np.ndarray, work: np.ndarray | None = None, z: np.ndarray | None = None
    ) -> np.ndarray:
        """Return x from all positions and velocities."""
        w = v[list(self.ode.independent)] if self.formulation.reduced else v
        work = np.zeros(self.layout.n_work) if work is None else work
        return np.concatenate([q, w, work, np.zeros(self.layout.n_z) if z is None else z])

    def base(self, p: np.ndarray) -> np.ndarray:
        """Params and anchors out of the run-time parameters."""
        return np.concatenate([p[self.layout.slice(n)] for n in ("params", "anchors")])

    def check_regular(self, t: float, x: np.ndarray, p: np.ndarray) -> float:
        """Volume now; Singular if the coordinates cannot carry the motion."""
        volume = 1.0 if self.ode.volume is None else float(np.ravel(self.volume(t, x, p))[0])
        if self.formulation.reduced and self.choice.rows and not volume > 0:
            names = [self.mechanism.v_names[i] for i in self.choice.independent]
            raise Singular(
                f"domain {self.domain.name!r}: {', '.join(names)} do not determine the motion at t = {t:.6g} s; "
                "leave the choice of independent coordinates open",
                coordinates=names,
            )
        return volume

    def check_heavy(self, t: float, x: np.ndarray, p: np.ndarray) -> None:
        """Singular if a motion moves nothing heavy; angles may pass their pole, where two of them do, but not start."""
        q, base, c = x[: self.layout.nq], self.base(p), self.constrained
        M, everything = c.mass(t, q, base), np.eye(self.equations.nv)
        partly = self._partly
        names, other = self._idle(M, self._allowed(t, q, base) if partly else everything), ""
        if names and not partly and not self._idle(M, self._allowed(t, q, base)):
            other = ", or use sl.formulations.SPF() or Minimal(): loops hold them"
        if names:
            raise Singular(
                f"domain {self.domain.name!r}: the mass matrix is singular (t = {t:.6g} s), a motion of "
                f"{', '.join(names)} moves nothing heavy; give the links there mass and inertia{other}",
                coordinates=names,
            )

    @cached_property
    def _partly(self) -> bool:
        """Whether what loops hold need not be heavy."""
        return self.formulation.reduced or bool(self.mechanism.idle)

    def _allowed(self, t: float, q: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Motions, one per row, that the constraints allow; contacts with modes of their own may let go."""
        c = self.constrained
        rows = [i for i in self.choice.rows if i < c.loops or not c.elements]
        if not rows:
            return np.eye(self.equations.nv)
        _, s, Vt = np.linalg.svd(scaled_rows(c.closure(t, q, base)[1][rows]))
        return Vt[len(s) :]

    def _idle(self, M: np.ndarray, motions: np.ndarray) -> list[str]:
        """Coordinates of one of these motions (rows) that the mass matrix does not notice; none if it notices all."""
        M = motions @ M @ motions.T
        size = np.sqrt(np.maximum(M.diagonal(), 0.0))
        scaled = np.divide(M, np.outer(size, size), out=np.zeros_like(M), where=np.outer(size, size) > 0)
        if positive(scaled - NO_MASS * np.eye(len(scaled))):
            return []
        vectors = np.linalg.eigh(scaled)[1]
        moved = np.abs(vectors[:, 0] @ motions)
        return [n for n, part in zip(self.mechanism.v_names, moved, strict=True) if part > 0.1]


def mode(constrained: Constrained, formulation: Formulation, choice: Choice, act: Action) -> Mode:
    """Return the mode of these values, derived once."""
    key = ("mode", constrained.domain.name, formulation, choice, act.key)
    return constrained.system.once(key, lambda: Mode(constrained, formulation, choice, act))
