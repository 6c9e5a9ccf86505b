"""A hybrid system as a handful of functions: what exports to C, NumPy and FMUs have in common.

The state of a domain is x = (q, w, z); the run-time parameters are p = (Params, anchors, slip, entry, held inputs,
smallest volume), as in a simulation, so that the exported equations are those that `simulate` runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile.statements import Routine, identifier, labels, routine
from saltus.dynamics.choice import Choice, choose
from saltus.dynamics.formulations import SPF, Formulation, Projection
from saltus.errors import BadModel, UnknownName
from saltus.hybrid.constrained import Constrained, tree_of
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.laws import Sampled, Schedule, Table, law_in
from saltus.hybrid.mode import action, mode
from saltus.hybrid.resets import Collision
from saltus.hybrid.touched import constrained
from saltus.hybrid.transition import held, memory, transition
from saltus.model.assembly import State
from saltus.model.linear import Positive
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX
from saltus.once import cached_property
from saltus.simulation.run import simulate

LOOK, LOOKS = 0.5, 100  # s of a run, and so many of its states, at which stiffness is looked at
CLOSING = 0.5  # rad or m: a Newton step onto the loops goes no farther


def _held(t: Any, s: Any) -> dict[str, float]:
    """Stand for inputs that the user of the exported code sets."""
    return {}


class Machine:
    """What exports of all kinds have in common: the equations of a mechanism, near a start."""

    stable_step: float
    domains: Sequence[Any]

    def __init__(self, system: HybridSystem, start: State | None, control: Any, name: str | None) -> None:
        self.system = system
        m = self.mechanism = system.mechanism
        self.name = identifier(name or m.name)
        if start is None:
            start = m.keyframe(list(m.keyframes)[-1]) if m.keyframes else m.assemble()
        if start.mechanism is not m:
            raise BadModel(f"the start state is of {start.mechanism.name!r}, not of {m.name!r}")
        if any(isinstance(law_in(control, d), Sampled) for d in system.domains):
            raise BadModel(
                "a Sampled controller lives in the run, not in the equations; export with control=None "
                "and set the inputs"
            )
        self.start, self.takes_inputs = start, control is None
        self.labels, self.first = labels(list(system.domains), "domain"), next(iter(system.domains.values()))
        self.contacts: list[str] = []
        self.events: list[str] = []

    @cached_property
    def params(self) -> np.ndarray:
        """Values of the Params."""
        return self.mechanism.values(self.start.params)

    @cached_property
    def loops(self) -> Choice:
        """Independent rows of the loops and independent velocities at the start."""
        c = constrained(self.system, next(iter(self.system.domains.values())))
        base = np.append(self.params, np.zeros(c.anchors.numel()))
        return choose(self.mechanism, c.unitless(0.0, self.start.positions, base)[: c.loops])

    @property
    def moved_by(self) -> list[list[int]]:
        """Velocities that move each position: one, or those of its ball joint."""
        m, out = self.mechanism, []
        for name in m.q_names:
            joint = next(p.joint for p in m.placements if name in p.joint.q_names)
            own = [n for n in joint.v_names if n == name] or [n for n in joint.v_names if n not in joint.q_names]
            out.append([m.v_names.index(n) for n in own])
        return out

    @cached_property
    def machine(self) -> list[Routine]:
        """Routines of the mechanism alone."""
        m, e = self.mechanism, tree_of(self.system)
        inputs, names = [e.t, e.q, e.v, m.p], "t q v params"
        out = [
            routine("M", "Mass matrix.", inputs, [e.M], names, "M"),
            routine("C", "Coriolis matrix of Christoffel symbols: C v + g is the bias.", inputs, [e.C], names, "C"),
            routine("g", "Gravity efforts.", inputs, [e.g], names, "g"),
            routine("bias", "Coriolis, centrifugal and gravity efforts.", inputs, [e.h], names, "h"),
        ]
        if e.phi.numel():
            out.append(
                routine(
                    "loops",
                    "Loop equations phi, their Jacobian J and gamma of phi'' = J a + gamma.",
                    inputs,
                    [e.phi, e.J, e.gamma],
                    names,
                    "phi J gamma",
                )
            )
            out.append(self._close())
        if m.points:
            d = 3 if m.spatial else 2
            places = ca.vertcat(*[e.position(n)[:d].T for n in m.points])
            speeds = ca.vertcat(*[e.velocity(n)[:d].T for n in m.points])
            out.append(
                routine(
                    "points",
                    f"Positions and velocities of {', '.join(m.points)}, one per row.",
                    inputs,
                    [places, speeds],
                    names,
                    "position velocity",
                )
            )
        return out

    def _close(self) -> Routine:
        """One Newton step onto the loops: q <- q - W J' (J W J')^-1 phi, and the velocities that they allow there."""
        e, rows = tree_of(self.system), list(self.loops.rows)
        share, J = SX.sym("share", e.nv), e.J[rows, :]
        along = share * J.T
        closes = Positive(ca.mtimes(J, along))
        step, rate = (ca.densify(-ca.mtimes(along, closes.solve(x))) for x in (e.phi[rows], e.phi_dot[rows]))
        far, gap = SX(CLOSING), SX(0)
        for i in range(e.nv):
            far = ca.fmax(far, ca.fabs(step[i]))
        for i in range(e.phi.numel()):
            gap = ca.fmax(gap, ca.fabs(e.phi[i]))
        outputs = [e.kinematics.displaced(step * CLOSING / far), e.v + rate, gap]
        doc = "A Newton step onto the loops: positions and velocities move by their shares; the largest error now."
        names = "t q v params share", "q_on v_on gap"
        return routine("close", doc, [e.t, e.q, e.v, self.mechanism.p, share], outputs, *names)

    def index(self, domain: Domain | str | None) -> int:
        """Number of a domain."""
        if domain is None:
            return 0
        names, name = list(self.system.domains), domain.name if isinstance(domain, Domain) else domain
        if name not in names:
            raise UnknownName("domain", name, names)
        return names.index(name)

    @property
    def routines(self) -> list[Routine]:
        """All routines, in order."""
        return self.machine

    def sample(self, r: Routine, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of a routine by name, near the start configuration."""
        m, start = self.mechanism, self.start
        return {
            "t": np.array([rng.uniform(0, 0.1)]),
            "q": start.positions + 0.05 * rng.standard_normal(len(m.q_names)),
            "v": start.velocities + 0.2 * rng.standard_normal(len(m.v_names)),
            "params": self.params,
            "share": np.ones(len(m.v_names)),
        }


class Exported(Machine):
    """A system made ready for export: routines of the machine, of every domain and of every edge.

    `start` gives the configuration at which rows and independent coordinates of each domain are chosen, `at` other
    ones by domain. With `control` None the inputs are arguments, held over a step. Runs begin in `domain`.
    """

    def __init__(
        self,
        thing: HybridSystem | Mechanism,
        start: State | None = None,
        *,
        control: Any = None,
        formulation: Formulation | None = None,
        at: Mapping[str, State] | None = None,
        name: str | None = None,
        domain: Domain | str | None = None,
    ) -> None:
        super().__init__(HybridSystem.alone(thing) if isinstance(thing, Mechanism) else thing, start, control, name)
        for given in at or {}:
            if given not in self.system.domains:
                raise UnknownName("domain", given, self.system.domains)
        self.at = dict(at or {})
        self.formulation = formulation or Projection()
        self.first = list(self.system.domains.values())[self.index(domain)]
        self.control = Sampled(_held) if control is None else control
        self.events = self._events()
        self.domains = [DomainCode(self, d, i) for i, d in enumerate(self.system.domains.values())]

    def _events(self) -> list[str]:
        """Identifiers of the edges, then of the ends: an edge's own name, with its source where several share it."""
        edges, ends = self.system.edges, [name for name, _ in self.system.outcomes]
        names = [e.name for e in edges] + ends
        own = [f"{e.source.name} {e.name}" if names.count(e.name) > 1 else e.name for e in edges]
        return labels(own + ends, "event")

    def event(self, edge: Edge) -> int:
        """Number of an edge among the events."""
        own = self.system.edges
        if edge in own:
            return own.index(edge)
        return len(own) + [name for name, _ in self.system.outcomes].index(edge.name)

    @cached_property
    def stable_step(self) -> float:
        """Longest step (s) at which Runge-Kutta of order four is likely to be stable, with reserve: 2 / fastest rate.

        Rates are eigenvalues of the right-hand side's slope along a short run, at full speed and at rest, where a
        limited motor does not hide its controller's stiffness.
        """
        control = None if self.takes_inputs else self.control
        run = simulate(
            self.system,
            self.start,
            domain=self.first,
            until=LOOK,
            control=control,
            rate=LOOKS / LOOK,
            formulation=self.formulation,
            tolerance=1e-6,
        )
        slopes = [d.slope for d in self.domains]
        fastest = 1e-9
        for q, v, phase in zip(run.arrays["q"], run.arrays["v"], run.arrays["phase"], strict=True):
            i = self.index(run.meta["domains"][phase])
            z = np.zeros(self.domains[i].mode.layout.n_z)
            for share in (0.0, 1.0):
                x, p = self.domains[i].entered(0.0, q, share * v, z)
                A = np.asarray(slopes[i](0.0, x, p).full())
                if A.size and np.isfinite(A).all():
                    fastest = max(fastest, float(np.abs(np.linalg.eigvals(A)).max()))
        return float(f"{2.0 / fastest:.2g}")

    @property
    def routines(self) -> list[Routine]:
        """All routines, in order."""
        return [*self.machine, *(r for d in self.domains for r in d.routines)]

    def sample(self, r: Routine, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of a routine by name, near the start configuration."""
        out = super().sample(r, rng)
        domain = next((d for d in self.domains if r in d.routines), self.domains[0])
        z = np.zeros(domain.mode.layout.n_z)
        x, p = domain.entered(float(out["t"][0]), out["q"], out["v"], z)
        return out | {"z": z, "x": x, "p": p, "anchors": p[domain.slice("anchors")]}


def tables_of(law: Any, c: Constrained) -> list[Table]:
    """Tables of a law for the stays in a domain, the last one for all later ones; none of a plain law."""
    return [law.table(c, stay) for stay in range(law.stays(c) + 1)] if isinstance(law, Schedule) else []


@dataclass(frozen=True, eq=False)
class EdgeCode:
    """An edge out of a domain: its numbers among events and guards, target (-1 ends the run)."""

    edge: Edge
    event: int
    guard: int
    target: int
    reset: Routine | None


class DomainCode:
    """One domain of an exported system."""

    def __init__(self, owner: Exported, domain: Domain, index: int) -> None:
        self.owner, self.domain, self.index = owner, domain, index
        self.label = owner.labels[index]
        c = self.constrained = constrained(owner.system, domain)
        state = owner.at.get(domain.name, owner.start)
        base = held(c, 0.0, state.positions, state.velocities, owner.params)
        self.choice = choose(owner.mechanism, c.unitless(0.0, state.positions, base))
        law = law_in(owner.control, domain.name)
        self.tables = tables_of(law, c)
        self.mode = mode(c, owner.formulation, self.choice, action(c, self.choice, law))
        layout = self.mode.layout
        self.kept = [*range(layout.nq + layout.nw), *range(layout.z.start, layout.z.stop)]
        self.n_x, self.n_p = len(self.kept), layout.n_p

    def slice(self, name: str) -> slice:
        """Place of a block of p."""
        return self.mode.layout.slice(name)

    @cached_property
    def _symbols(self) -> tuple[SX, SX, SX]:
        """Exported state, the full state with work channels at zero, and parameters."""
        p, layout = self.mode, self.mode.layout
        x = SX.sym("x", self.n_x)
        full = ca.vertcat(x[: layout.nq + layout.nw], SX.zeros(layout.n_work), x[layout.nq + layout.nw :])
        return x, full, SX.sym("p", p.p.numel())

    def _of_flow(self, name: str, doc: str, function: ca.Function, rows: Sequence[int] | None, result: str) -> Routine:
        x, full, p = self._symbols
        t = SX.sym("t")
        value = ca.densify(function(t, full, p))
        value = value if rows is None else value[list(rows)]
        return routine(f"{name}_{self.label}", doc, [t, x, p], [value], "t x p", result)

    @cached_property
    def routines(self) -> list[Routine]:
        """Right-hand side, guards, velocities, control, entry, resets and reduced equations of the domain."""
        now, title = self.mode, f"domain {self.domain.name!r}"
        flow = now.flow
        out = [
            self._of_flow("rhs", f"Right-hand side x' of {title}.", flow.rhs, self.kept, "dx"),
            self._of_flow("velocities", f"All velocities v in {title}.", now.velocity.function, None, "v"),
            self._of_flow(
                "commands",
                f"What the controller asks of the inputs in {title}.",
                now.function("u", now.action.u),
                None,
                "u",
            ),
            self.entry,
        ]
        if flow.n_guards:
            out.append(self._of_flow("guards", f"Guards of {title}.", flow.guards, None, "guard"))
            rates = ca.Function("rates", [now.equations.t, now.x, now.p], [now.guard_rates()])
            out.append(self._of_flow("guard_rates", f"Rates of the guards of {title}.", rates, None, "rate"))
        if flow.project is not None:
            out.append(
                self._of_flow("project", f"State of {title} put onto its constraints.", flow.project, self.kept, "y")
            )
        out += [e.reset for e in self.edges if e.reset is not None]
        if isinstance(self.owner.formulation, SPF) and self.choice.rows:
            out.append(self._reduced())
        return out

    @cached_property
    def slope(self) -> ca.Function:
        """Derivative of the right-hand side by the state."""
        rhs = self.routines[0].function
        t, x, p = (SX.sym(n, rhs.numel_in(i)) for i, n in enumerate(("t", "x", "p")))
        return ca.Function("slope", [t, x, p], [ca.jacobian(rhs(t, x, p), x)])

    @property
    def n_guards(self) -> int:
        """Number of guards, that of the coordinates included."""
        return self.mode.flow.n_guards

    def _reduced(self) -> Routine:
        c, formulation = self.constrained, self.owner.formulation
        assert isinstance(formulation, SPF)
        e, terms = c.equations, formulation.terms(c.equations, self.choice)
        values = c.with_params([terms[n] for n in ("rho", "H", "C", "g")])
        doc = f"Reduced equations of {self.domain.name!r}: H a + C w + g = rho' Q with v = rho w, w independent."
        return routine(
            f"reduced_{self.label}",
            doc,
            [e.t, e.q, e.v, self.owner.mechanism.p, c.anchors],
            values,
            "t q v params anchors",
            "rho H C g",
        )

    # ---- entering -----------------------------------------------------------------------------------------------

    @cached_property
    def entry(self) -> Routine:
        """State and parameters with which the domain is entered."""
        now, layout = self.mode, self.mode.layout
        (t, q, v, params), p = memory(now)
        z = SX.sym("z", layout.n_z)
        w = v[list(now.ode.independent)]
        full = ca.vertcat(q, w, SX.zeros(layout.n_work), z)
        p[layout.slice("smallest_volume")] = 0.1 * now.volume.function(t, full, p)
        doc = f"State x and run-time parameters p with which {self.domain.name!r} is entered at (q, v)."
        x = ca.vertcat(q, w, z)
        return routine(f"enter_{self.label}", doc, [t, q, v, z, params], [x, p], "t q v z params", "x p")

    def entered(self, t: float, q: np.ndarray, v: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """State and run-time parameters at entry, with the first row of the law's table."""
        x, p = (np.asarray(a).ravel() for a in self.entry.function(t, q, v, z, self.owner.params))
        if self.tables:
            p[self.slice("row")] = self.tables[0].rows[0]
        return x, p

    # ---- leaving ------------------------------------------------------------------------------------------------

    @cached_property
    def edges(self) -> list[EdgeCode]:
        """Edges out of the domain with their resets."""
        out = []
        for i, edge in enumerate(self.mode.edges):
            event = self.owner.event(edge)
            if edge.target is None:
                out.append(EdgeCode(edge, event, i, -1, None))
                continue
            if len(edge.candidates) > 1:
                raise BadModel(
                    f"edge {edge.name!r} lets the impact choose between {len(edge.candidates)} domains, which exported "
                    "code does not; give it one target",
                    edge=edge.name,
                )
            target = self.owner.domains[self.owner.index(edge.target)]
            out.append(EdgeCode(edge, event, i, target.index, self._reset(edge, target, event)))
        return out

    def _reset(self, edge: Edge, target: DomainCode, event: int) -> Routine:
        """(q, v) after the reset, put onto the constraints of the target along M^-1 J', as a simulation does."""
        if isinstance(edge.reset, Collision):
            raise BadModel(
                f"edge {edge.name!r}: a Collision is solved by cases, which exported code does not; use PlasticImpact",
                edge=edge.name,
            )
        function = transition(self.owner.system, edge).printed(target.choice)
        symbols = [SX.sym(n, function.numel_in(i)) for i, n in enumerate(("t", "q", "v", "params"))]
        doc = (
            f"State after {edge.name!r} ({type(edge.reset).__name__}) into {target.domain.name!r}, on its constraints."
        )
        names = "t q v params", "q_after v_after"
        return routine(f"reset_{self.owner.events[event]}", doc, symbols, list(function(*symbols)), *names)
