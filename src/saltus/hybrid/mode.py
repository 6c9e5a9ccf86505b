"""Stage and Program: a domain's equations, and with a formulation and a controller the Flow an engine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.dynamics.equations import Equations, number
from saltus.dynamics.formulations import ODE, Formulation
from saltus.errors import BadValue, SaltusError, Singular
from saltus.hybrid.graph import DIRECTIONS, Domain, Edge, HybridSystem, Sliding, contact_closures, contact_names
from saltus.hybrid.laws import Sampled, Schedule, law_in
from saltus.hybrid.response import Responses
from saltus.hybrid.signals import Entry, Signals, called, commands
from saltus.model.kinematics import Kinematics
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.rank import scaled_rows
from saltus.model.symbols import SX, Named
from saltus.simulation.engines.port import Flow


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

    def slice(self, name: str) -> slice:
        """Place of a block of p."""
        at = 0
        for block, size in self.sizes:
            if block == name:
                return slice(at, at + size)
            at += size
        raise KeyError(name)

    @property
    def n_p(self) -> int:
        """Length of p."""
        return sum(size for _, size in self.sizes)


WORTH_COMPILING = 20_000  # sets of arguments
NO_MASS = 1e-14  # smallest eigenvalue of a mass matrix scaled to a diagonal of ones


def _rare(function: ca.Function) -> Kernel:
    """Wrap a function that is called a few times an event: CasADi's virtual machine is quick enough for it."""
    return Kernel(function, native=False)


class _Often:
    """A function of many sets of arguments: compiled once so many have come by that compiling pays."""

    def __init__(self, function: ca.Function) -> None:
        self._plain, self._compiled, self._seen = _rare(function), Kernel(function), 0

    def batch(self, t: np.ndarray, x: np.ndarray, p: np.ndarray) -> Any:
        """Evaluate one set a row."""
        self._seen += len(t)
        kernel = self._compiled if self._seen > WORTH_COMPILING else self._plain
        return kernel.batch(t[:, None], x, p)


def _drives(mechanism: Mechanism, closure: str) -> str | None:
    """Name the coordinate that a closure prescribes."""
    return mechanism.constraints[closure].drives if closure in mechanism.constraints else None


def tree_of(system: HybridSystem) -> Equations:
    """Equations of a system's mechanism without contacts, derived once and shared by all its domains."""
    return system.once("tree", lambda: Equations(system.mechanism))


class Stage:
    """Equations of one domain with its contacts, before any choice of formulation, coordinates or control."""

    def __init__(self, system: HybridSystem, domain: Domain) -> None:
        m = system.mechanism
        self.system, self.domain = system, domain
        self.dimension = 3 if m.spatial else 2
        tree = tree_of(system)
        self.contacts, self.anchors = contact_closures(m, domain.contacts, tree.kinematics)
        self.tree, self.equations = tree, tree.constrained(self.contacts, self.anchors)

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """What each constraint row locks: joints by name, contacts by their points."""
        e, m = self.equations, self.system.mechanism
        own = len(e.closures) - len(self.domain.contacts)
        named = [(c.name + ":", c.locks) for c in e.closures[:own]]
        named += list(zip(contact_names(m, self.domain.contacts), [c.locks for c in e.closures[own:]], strict=True))
        return tuple(f"{name} {lock}" for name, locks in named for lock in locks)

    def with_domain_params(self, expressions: Sequence[SX]) -> list[SX]:
        """Insert the values that Params take in this domain."""
        if not self.domain.params:
            return list(expressions)
        symbols = [self.system.mechanism.params[n].symbol for n in self.domain.params]
        values = [SX(number(x)) for x in self.domain.params.values()]
        return list(ca.substitute(list(expressions), symbols, values))

    def closure(self, t: float, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """phi, J and the rate of phi at rest; p the Params and anchors."""
        phi, J, phi_t = self._closure(t, q, p)
        return phi, J.reshape(len(phi), self.equations.nv), phi_t

    def gaps(self, t: np.ndarray, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        """phi at many times, one row a time."""
        return self._gaps.batch(t, q, p)

    def mass(self, t: float, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Mass matrix."""
        return np.asarray(self._mass(t, q, p)).reshape(self.equations.nv, self.equations.nv)

    def curvature(self, t: float, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Part of gamma that is quadratic in the velocities, phi'' = J a + gamma."""
        ahead, still, back = (np.asarray(self._gamma(t, q, x, p)) for x in (v, 0 * v, -v))
        return np.ravel(ahead + back - 2 * still) / 2

    @cached_property
    def _gamma(self) -> Kernel:
        e = self.equations
        return _rare(ca.Function("gamma", [e.t, e.q, e.v, e.p], self.with_domain_params([ca.densify(e.gamma)])))

    @cached_property
    def _closure(self) -> Kernel:
        return self._kernel("closure", "phi", "J", "phi_t")

    @cached_property
    def _gaps(self) -> _Often:
        return _Often(self._kernel("gaps", "phi").function)

    @cached_property
    def _mass(self) -> Kernel:
        """M column by column, one pass of the recursion each: expressions of all its entries would be many more."""
        e, column = self.equations, SX.sym("column", self.equations.nv)
        product = self.with_domain_params([ca.densify(e.times_mass(column))])
        times = ca.Function("times", [column, e.t, e.q, e.p], product)
        t, q, p = ca.MX.sym("t"), ca.MX.sym("q", e.nq), ca.MX.sym("p", e.p.numel())
        M = times.map("columns", "serial", e.nv, [1, 2, 3], [])(ca.DM.eye(e.nv), t, q, p)
        return _rare(ca.Function("mass", [t, q, p], [M], ["t", "q", "p"], ["M"]))

    @cached_property
    def places(self) -> Kernel:
        """Anchor that would hold each contact where it is now, and velocity of its point, at (t, q, v, p)."""
        e, m, d = self.equations, self.system.mechanism, self.dimension
        holds, speeds = [SX(0, 1)], [SX(0, 1)]
        at_zero = contact_closures(m, self.domain.contacts, e.kinematics)
        for contact, closure in zip(self.domain.contacts, at_zero[0], strict=True):
            rows = ca.substitute(closure.phi, at_zero[1], SX.zeros(at_zero[1].numel()))
            anchor = SX.zeros(d)
            for row, letter in enumerate(closure.locks):
                anchor["xyz".index(letter)] = rows[row]
            holds.append(anchor)
            speeds.append(e.velocity(m.frame(contact.point))[:d])
        outputs = self.with_domain_params([ca.vertcat(*holds), ca.vertcat(*speeds)])
        return _rare(
            ca.Function(
                "places",
                [e.t, e.q, e.v, e.p],
                ca.cse([ca.densify(x) for x in outputs]),
                ["t", "q", "v", "p"],
                ["anchors", "speeds"],
            )
        )

    def _kernel(self, name: str, *parts: str) -> Kernel:
        e = self.equations
        outputs = self.with_domain_params([ca.densify(getattr(e, part)) for part in parts])
        return _rare(ca.Function(name, [e.t, e.q, e.p], ca.cse(outputs), ["t", "q", "p"], [f"out_{x}" for x in parts]))


class Program:
    """A stage with formulation, coordinates and control: everything numerical about one domain of a run."""

    def __init__(self, stage: Stage, formulation: Formulation, choice: Choice, control: Any) -> None:
        self.stage, self.system, self.domain = stage, stage.system, stage.domain
        self.formulation, self.choice, self.law = formulation, choice, law_in(control, stage.domain.name)
        m = self.system.mechanism
        self.edges: list[Edge] = self.system.leaving(self.domain)
        self.dimension = stage.dimension
        sliding = [c for c in self.domain.contacts if isinstance(c, Sliding)]
        normals, slip = SX.sym("normal", len(sliding)), SX.sym("slip", (stage.dimension - 1) * len(sliding))
        self._normals = normals
        self._sliding = sliding, slip
        e = stage.equations  # what one program derives from them, the next one finds
        passive = control is None and bool(m.inputs)
        if sliding or passive:  # friction adds efforts and symbols of its own, motors at rest take some away
            e = self._own_equations(passive=passive)
        self.equations = e
        ode = self.ode = formulation.ode(e, choice)

        entry_t, entry_q, entry_v = SX.sym("entry_t"), SX.sym("entry_q", e.nq), SX.sym("entry_v", e.nv)
        held, smallest = SX.sym("held", e.u.numel()), SX.sym("smallest_volume")
        width = self.law.width(stage) if isinstance(self.law, Schedule) else 0
        row = SX.sym("row", width)
        self._entry = Entry(entry_t, Named(m.q_names, entry_q), Named(m.v_names, entry_v, "velocity"))
        blocks = {
            "params": m.p,
            "anchors": stage.anchors,
            "slip": slip,
            "entry_t": entry_t,
            "entry_q": entry_q,
            "entry_v": entry_v,
            "held": held,
            "row": row,
            "smallest_volume": smallest,
        }
        self.p = ca.vertcat(*blocks.values())
        self._drive_load = self._drives()
        self._channels = self._powers()
        self.power_names = list(self._channels)
        sizes = tuple((n, int(b.numel())) for n, b in blocks.items())
        self.layout = Layout(e.nq, ode.w.numel(), len(self.power_names), e.z.numel(), sizes)
        self.work = SX.sym("work", self.layout.n_work)
        self.x = ca.vertcat(e.q, ode.w, self.work, e.z)
        self.u = self._control(held, row)
        self._smallest = smallest

    def _own_equations(self, *, passive: bool = False, unlimited: bool = False) -> Equations:
        """Equations of the stage with friction of its sliding contacts and other motors."""
        stage, (sliding, slip) = self.stage, self._sliding
        own_p = ca.vertcat(stage.anchors, slip, self._normals)
        e = stage.tree.constrained(stage.contacts, own_p, passive=passive, unlimited=unlimited)
        self._add_friction(e, sliding, slip)
        return e

    def unlimited(self) -> Equations:
        """The same equations with motors that deliver whatever they are asked for."""
        return self._own_equations(unlimited=True)

    # ---- friction of sliding contacts ---------------------------------------------------------------------------

    def _add_friction(self, e: Equations, sliding: Sequence[Sliding], slip: SX) -> None:
        """Friction -mu N s at each sliding point, s its direction of slip at entry; N is solved for later.

        N depends linearly on itself through the friction it causes, so it enters as a symbol and the reaction
        that comes out is set equal to it.
        """
        tangents = self.dimension - 1
        for k, contact in enumerate(sliding):
            push = -number(contact.friction) * self._normals[k] * slip[tangents * k : tangents * (k + 1)]
            velocity = e.velocity(self.system.mechanism.frame(contact.point))[:tangents]
            e.efforts[f"friction {k + 1}"] = ca.jtimes(velocity, e.v, push, True)

    def with_normals(self, expressions: Sequence[SX], ode: ODE) -> list[SX]:
        """Insert the normal forces of sliding contacts, as they follow from the reactions of an ODE."""
        N = self._normals
        if not N.numel():
            return list(expressions)
        mine = [self._row_of(i, -1) for i, c in enumerate(self.domain.contacts) if isinstance(c, Sliding)]
        reaction = ode.reactions[mine]
        at_zero = ca.substitute(reaction, N, SX.zeros(N.numel()))
        solved = ca.solve(SX.eye(N.numel()) - ca.jacobian(reaction, N), at_zero)
        return list(ca.substitute(list(expressions), [N], [ca.densify(solved)]))

    def _row_of(self, contact: int, component: int) -> int:
        """Index among all constraint rows of one row of a contact; component -1 is the normal one."""
        first = sum(c.phi.numel() for c in self.equations.closures if not c.name.startswith("contact "))
        sizes = [c.phi.numel() for c in self.equations.closures if c.name.startswith("contact ")]
        at = first + sum(sizes[:contact])
        return at + (component if component >= 0 else sizes[contact] - 1)

    # ---- given motions ------------------------------------------------------------------------------------------

    def _drives(self) -> SX:
        """Effort of every drive: what is left of M a + h = Q + J' f in the direction of its displacement."""
        m, e = self.system.mechanism, self.equations
        given = [i for c, i in zip(e.closures, self._first_rows(), strict=True) if _drives(m, c.name)]
        prescribed = ca.densify(self.ode.reactions[given]) if given else SX(0, 1)
        if not m.drives:
            return prescribed
        contacts, anchors = contact_closures(m, self.domain.contacts, Kinematics(m, released=True))
        full = Equations(m, contacts, anchors, released=True, passive=e.passive)
        self._add_friction(full, *self._sliding)
        reactions = SX.sym("reaction", e.phi.numel())
        load = (full.inverse_dynamics - full.Q - ca.mtimes(full.J.T, reactions))[e.nv :]
        still = SX.zeros(len(m.drives))
        insert = {
            "q": (full.q, ca.vertcat(e.q, still)),
            "v": (full.v, ca.vertcat(ca.densify(self.ode.v), still)),
            "a": (full.a, ca.vertcat(ca.densify(self.ode.a), still)),
            "anchors": (anchors, self.stage.anchors),
            "reactions": (reactions, ca.densify(self.ode.reactions)),
        }
        others = [e.t, m.p, e.u, e.z, self._sliding[1], self._normals]
        at = ca.Function("load", [symbol for symbol, _ in insert.values()] + others, [ca.densify(load)])
        return ca.vertcat(at(*[value for _, value in insert.values()], *others), prescribed)

    @property
    def drive_names(self) -> list[str]:
        """Names of given motions, in the order of their efforts."""
        m = self.system.mechanism
        return [*m.drives, *(c.drives for c in m.constraints.values() if c.drives)]

    def _first_rows(self) -> list[int]:
        """Index of the first row of every closure."""
        sizes = [c.phi.numel() for c in self.equations.closures]
        return [sum(sizes[:i]) for i in range(len(sizes))]

    def _powers(self) -> dict[str, SX]:
        """Power (W) by channel: of forces that store no energy, of drives, of constraints that move in time."""
        m, e = self.system.mechanism, self.equations
        own = self._with_v(*e.powers.values()) if e.powers else []
        out = dict(zip(e.powers, own, strict=True))
        for i, (name, drive) in enumerate(m.drives.items()):
            out[f"drive {name}"] = self._drive_load[i] * drive.speed
        for closure, at in zip(e.closures, self._first_rows(), strict=True):
            rows = slice(at, at + closure.phi.numel())
            if closure.name in m.constraints and ca.depends_on(closure.phi, m.time):
                driven = _drives(m, closure.name)
                name = f"drive {driven}" if driven else f"constraint {closure.name}"
                out[name] = -ca.dot(self.ode.reactions[rows], e.phi_t[rows])
        return out

    # ---- tracing ------------------------------------------------------------------------------------------------

    def _signals(self, forces: Callable[[Frame], Any] | None = None) -> Signals:
        e, m = self.equations, self.system.mechanism
        v = ca.densify(self.ode.v)

        def places(frame: Frame) -> tuple[SX, SX]:
            velocity = ca.Function("velocity", [e.t, e.q, e.v, e.p], [e.velocity(frame)])
            return e.position(frame), velocity(e.t, e.q, v, e.p)

        return Signals(
            m,
            self.domain.name,
            e.t,
            Named(m.q_names, e.q),
            Named(m.v_names, v, "velocity"),
            Named(list(m.params), m.p, "param"),
            self._entry,
            places,
            forces,
            self.system.ground,
            Responses(self),
        )

    def _control(self, held: SX, row: SX) -> SX:
        m, law, t = self.system.mechanism, self.law, self.equations.t
        if law is None or not m.inputs:
            return SX.zeros(len(m.inputs))
        if isinstance(law, Sampled):
            return held
        name = getattr(law, "__name__", type(law).__name__)
        signals = self._signals()
        try:
            given = law.law(t, signals, row) if isinstance(law, Schedule) else law(t, signals)
            values = commands(m, given, f"controller {name!r}")
            return ca.vertcat(SX(0, 1), *[SX(v) for v in values])
        except SaltusError:
            raise
        except Exception as problem:
            raise BadValue(
                f"controller {name!r} cannot be traced into symbols in domain {self.domain.name!r} "
                f"({type(problem).__name__}: {problem}); branch on the state with sl.math.where, or wrap the "
                "controller as sl.control.Sampled(controller, rate=1000)",
                controller=name,
            ) from problem

    def forces(self, frame: Frame) -> SX:
        """Force of the ground on a contact point (N), world axes, as an expression still containing u."""
        m = self.system.mechanism
        for i, contact in enumerate(self.domain.contacts):
            mine = m.frame(contact.point)
            if mine is not frame and not (mine.link is frame.link and ca.is_equal(mine.position, frame.position, 5)):
                continue
            closure = next(c for c in self.equations.closures if c.name == f"contact {i + 1}")
            out = SX.zeros(self.dimension)
            letters = "xyz" if m.spatial else "xy"
            for k, lock in enumerate(closure.locks):
                out[letters.index(lock)] = self.ode.reactions[self._row_of(i, k)]
            if isinstance(contact, Sliding):
                k = [c for c in self.domain.contacts if isinstance(c, Sliding)].index(contact)
                tangents = self.dimension - 1
                slip = self.p[self.layout.slice("slip")][tangents * k : tangents * (k + 1)]
                out[:tangents] = -number(contact.friction) * self._normals[k] * slip
            return out
        raise BadValue(
            f"domain {self.domain.name!r} has no contact at that point; contact forces exist where a contact holds",
            domain=self.domain.name,
        )

    def _finish(self, *expressions: SX) -> list[SX]:
        """Insert control, domain Params and sliding normal forces, share common parts."""
        e = self.equations
        out = self.with_normals([ca.densify(x) for x in expressions], self.ode)
        out = ca.substitute(out, [e.u], [ca.densify(self.u)]) if e.u.numel() else out
        return ca.cse(self.stage.with_domain_params(out))

    def _function(self, name: str, *outputs: SX) -> ca.Function:
        return ca.Function(
            name,
            [self.equations.t, self.x, self.p],
            self._finish(*outputs),
            ["t", "x", "p"],
            [f"out{i}" for i in range(len(outputs))],
        )

    def _with_v(self, *expressions: SX) -> list[SX]:
        """Insert the velocities of the formulation for the symbols v."""
        e = self.equations
        f = ca.Function("with_v", [e.t, e.q, e.v, e.u, e.p, e.z], list(map(ca.densify, expressions)))
        out = f(e.t, e.q, ca.densify(self.ode.v), e.u, e.p, e.z)
        return list(out) if isinstance(out, tuple | list) else [out]

    # ---- functions ----------------------------------------------------------------------------------------------

    @cached_property
    def flow(self) -> Flow:
        """Right-hand side, guards and projection for an engine."""
        powers = ca.vertcat(SX(0, 1), *self._channels.values())
        z_dot = self._with_v(self.equations.z_dot)[0]
        rhs = self._function("rhs", ca.vertcat(self.ode.rhs, powers, z_dot))
        signals = self._signals(self.forces)
        rows = []
        for edge in self.edges:
            what = f"guard of edge {edge.name!r} in domain {self.domain.name!r}"
            rows.append(called(lambda e=edge: SX(e.guard.expression(signals)), what=what))
        if self.ode.volume is not None:
            rows.append(self.ode.volume - self._smallest)
        guards = self._function("guards", ca.vertcat(SX(0, 1), *rows))
        project = None
        if self.ode.project is not None:
            project = self._function("project", ca.vertcat(self.ode.project, self.work, self.equations.z))
        return Flow(f"{self.system.mechanism.name}/{self.domain.name}", rhs, guards, project)

    @cached_property
    def directions(self) -> np.ndarray:
        """Direction of every guard; the last watches the choice of coordinates where there is one."""
        out = [DIRECTIONS[edge.guard.direction] for edge in self.edges]
        return np.array(out + ([-1] if self.ode.volume is not None else []), np.int32)

    @cached_property
    def velocity(self) -> Kernel:
        """All velocities at (t, x, p)."""
        return _rare(self._function("velocity", self.ode.v))

    @cached_property
    def guards(self) -> Kernel:
        """Guards and their rates along the flow."""
        f, e = self.flow, self.equations
        g = f.guards(e.t, self.x, self.p)
        rate = ca.jtimes(g, ca.vertcat(e.t, self.x), ca.vertcat(1, f.rhs(e.t, self.x, self.p)))
        return _rare(
            ca.Function(
                "guard_rates",
                [e.t, self.x, self.p],
                ca.cse([ca.densify(g), ca.densify(rate)]),
                ["t", "x", "p"],
                ["g", "rate"],
            )
        )

    @cached_property
    def volume(self) -> Kernel:
        """Measure of how far the choice of coordinates is from singular."""
        return _rare(self._function("volume", SX(1) if self.ode.volume is None else self.ode.volume))

    @cached_property
    def _outputs(self) -> _Often:
        """What trajectories record: v, a, torques, phi, energies, momentum, contact forces, points."""
        e, m = self.equations, self.system.mechanism
        T, V, torques, momentum = self._with_v(e.kinetic_energy, e.potential_energy, e.torques, e.momentum)
        contacts = [self.forces(m.frame(c.point)) for c in self.domain.contacts]
        soft = self._with_v(*[t.force[: self.dimension] for t in e.touches.values()]) if e.touches else []
        points = [e.position(name)[: self.dimension] for name in m.points]
        return _Often(
            self._function(
                "outputs",
                self.ode.v,
                self.ode.a,
                torques,
                e.phi,
                T,
                V,
                momentum,
                ca.vertcat(SX(0, 1), *contacts, *soft),
                ca.vertcat(SX(0, 1), *points),
                self._drive_load,
            )
        )

    def outputs(self, t: np.ndarray, x: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
        """v, a, torques, phi, T, V, momentum, contact forces, points and efforts of drives, one row a time."""
        return [out.reshape(len(t), -1) for out in self._outputs.batch(t, x, p)]

    # ---- vectors ------------------------------------------------------------------------------------------------

    def state_vector(
        self, q: np.ndarray, v: np.ndarray, work: np.ndarray | None = None, z: np.ndarray | None = None
    ) -> np.ndarray:
        """Return x from all positions and velocities."""
        w = v[list(self.ode.independent)]
        work = np.zeros(self.layout.n_work) if work is None else work
        return np.concatenate([q, w, work, np.zeros(self.layout.n_z) if z is None else z])

    def check_regular(self, t: float, x: np.ndarray, p: np.ndarray) -> float:
        """Volume now; Singular if the coordinates cannot carry the motion, or move nothing heavy."""
        q, base = x[: self.layout.nq], np.concatenate([p[self.layout.slice(n)] for n in ("params", "anchors")])
        volume = float(np.ravel(self.volume(t, x, p))[0])
        M, motions = self.stage.mass(t, q, base), np.eye(self.equations.nv)
        if self.formulation.reduced and self.choice.rows:
            if not volume > 0:
                names = [self.system.mechanism.v_names[i] for i in self.choice.independent]
                raise Singular(
                    f"domain {self.domain.name!r}: {', '.join(names)} do not determine the motion at t = {t:.6g} s; "
                    "leave the choice of independent coordinates open",
                    coordinates=names,
                )
            _, s, Vt = np.linalg.svd(scaled_rows(self.stage.closure(t, q, base)[1][list(self.choice.rows)]))
            motions = Vt[len(s) :]
            M = motions @ M @ motions.T
        size = np.sqrt(np.maximum(M.diagonal(), 0.0))
        scaled = np.divide(M, np.outer(size, size), out=np.zeros_like(M), where=np.outer(size, size) > 0)
        values, vectors = np.linalg.eigh(scaled)
        if values.size and not values[0] > NO_MASS:
            moved = np.abs(vectors[:, 0] @ motions)
            names = [n for n, part in zip(self.system.mechanism.v_names, moved, strict=True) if part > 0.1]
            raise Singular(
                f"domain {self.domain.name!r}: the mass matrix is singular (t = {t:.6g} s), a motion of "
                f"{', '.join(names)} moves nothing heavy; give the links there mass and inertia, or use SPF() or "
                "Minimal() where loops hold them",
                coordinates=names,
            )
        return volume
