"""simulate: from a start state through domains, guards and resets to a Trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from saltus.dynamics.choice import PREFER, Choice, choose
from saltus.dynamics.formulations import SPF, Formulation
from saltus.errors import BadModel, BadValue, SaltusError, UnknownName
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.laws import Sampled, Schedule, Table, law_in
from saltus.hybrid.mode import Program, Stage
from saltus.hybrid.mover import Mover
from saltus.hybrid.regular import check_constraints
from saltus.hybrid.signals import Entry, Signals, commands
from saltus.hybrid.slip import directions, reversal
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.rank import dependent_columns, independent_rows, pivots, quality, rank
from saltus.model.symbols import Named
from saltus.simulation.engines import choose as choose_engine
from saltus.simulation.engines.port import Request, Segment, Stop
from saltus.simulation.record import Phase, record
from saltus.simulation.trajectory import Outcome, Trajectory

CHUNK = 4000  # steps between looks at progress and Ctrl-C
ZENO_EVENTS, ZENO_GAP = 10, 1e-5  # so many events in a row, ever quicker, the last within so many seconds


def simulate(
    system: HybridSystem | Mechanism,
    start: State,
    *,
    until: float,
    domain: Domain | str | None = None,
    control: Any = None,
    formulation: Formulation | None = None,
    tolerance: float = 1e-9,
    engine: str | None = None,
    params: Mapping[str, float] | None = None,
    independent: Sequence[str] | None = None,
    rate: float = 1000.0,
    begin: float = 0.0,
    stop_after: Mapping[str, int] | None = None,
    max_steps: int = 1_000_000,
    progress: Callable[[float, float, int], None] | None = None,
) -> Trajectory:
    """Run a machine from `start` at t = `begin` until `until` (s), or until an event ends it.

    `control` is a function (t, s) -> {input: value}, traced once a domain and compiled, or a `Sampled`
    one. `tolerance` bounds the local error of a step: absolute for positions (rad, m), relative for
    velocities. `rate` is the number of recorded samples a second; any instant in between is there as dense
    output. `stop_after` ends the run after so many events of a name, as in {"touchdown": 16}. A motion so fast
    that it takes more than `max_steps` steps ends with outcome "step limit", before time and memory run out.
    `progress(t, until, events)` is called now and then. Ctrl-C keeps what was simulated.
    """
    if isinstance(system, Mechanism):
        system = alone(system)
    if not isinstance(start, State):
        raise BadValue(f"the start is {start!r}; give a State, as m.assemble(...) returns it", given=start)
    if not isinstance(formulation, Formulation | None):
        raise BadValue(f"formulation is {formulation!r}; give one such as sl.formulations.SPF()", given=formulation)
    for what, number in (("until", until), ("tolerance", tolerance), ("rate", rate), ("max_steps", max_steps)):
        if isinstance(number, bool) or not isinstance(number, int | float | np.number):
            raise BadValue(f"{what} is {number!r}; give a number", given=number)
    if not (until > begin and math.isfinite(until)):
        raise BadValue(f"until is {until}; give a time in seconds above {begin:g}", given=until)
    if not 1e-14 <= tolerance <= 1e-2:
        raise BadValue(f"tolerance is {tolerance}; give a number between 1e-14 and 1e-2", given=tolerance)
    sizes = start.positions.shape, start.velocities.shape
    names = start.mechanism.q_names, start.mechanism.v_names
    if sizes != tuple((len(n),) for n in names) or not np.isfinite([*start.positions, *start.velocities]).all():
        raise BadValue(
            f"the start state of {start.mechanism.name!r} has not {len(names[0])} positions and {len(names[1])} "
            "velocities that are finite numbers; make it with m.assemble(...)",
            given=start,
        )
    if start.mechanism is not system.mechanism:
        raise BadModel(f"the start state is of {start.mechanism.name!r}, not of {system.mechanism.name!r}")
    if max_steps < 1:
        raise BadValue(f"max_steps is {max_steps}; give a number of steps, at least one", given=max_steps)
    for name in stop_after or {}:
        known = {e.name for e in system.edges}
        if name not in known:
            raise UnknownName("event", name, known)
    first = _first_domain(system, domain)
    run = _Run(system, start, params, control, formulation or SPF(), tolerance, engine, independent)
    run.t, run.steps_left = begin, max_steps
    run.go(first, until, dict(stop_after or {}), progress)
    return record(run.finished(until), rate)


def alone(mechanism: Mechanism) -> HybridSystem:
    """Return the one-domain system of a mechanism, made once."""
    kept = mechanism.__dict__.get("_alone")
    if kept is None:
        kept = mechanism.__dict__["_alone"] = HybridSystem(mechanism)
        kept.domain("motion")
    return kept


def _first_domain(system: HybridSystem, domain: Domain | str | None) -> Domain:
    if domain is None:
        if len(system.domains) != 1:
            raise BadValue(f"say in which domain to start: {', '.join(system.domains)}", valid=list(system.domains))
        return next(iter(system.domains.values()))
    name = domain.name if isinstance(domain, Domain) else domain
    if name not in system.domains:
        raise UnknownName("domain", name, system.domains)
    return system.domains[name]


class _Run(Mover):
    """State of one simulation while it goes on."""

    def __init__(
        self,
        system: HybridSystem,
        start: State,
        params: Mapping[str, float] | None,
        control: Any,
        formulation: Formulation,
        tolerance: float,
        engine: str | None,
        independent: Sequence[str] | None,
    ) -> None:
        at_start = system.mechanism.values({**start.params, **(params or {})})
        super().__init__(system, formulation, 0.0, start.positions.copy(), start.velocities.copy(), at_start)
        self.control = control
        self.tolerance, self.independent = tolerance, independent
        self.engine = engine
        self.engines: dict[str, None] = {}  # those in use, in order
        if engine is not None:
            choose_engine(engine)  # an unknown name is refused before anything is built
        self.z = start.z  # states that are neither positions nor velocities; None is zero
        self.phases: list[Phase] = []
        self.outcome: Outcome | None = None
        self.visits: dict[str, int] = {}  # stays in each domain so far in which time passed
        self.steps = self.evaluations = self.rejected = 0
        self.steps_left = 0

    # ---- the loop over phases -----------------------------------------------------------------------------------

    def go(
        self,
        domain: Domain,
        until: float,
        stop_after: dict[str, int],
        progress: Callable[[float, float, int], None] | None,
    ) -> None:
        """Run phase after phase until something ends the run."""
        self.notes += self.system.check(domain)
        seen: dict[str, int] = {}
        try:
            self._settle(domain, first=True)
            while self.outcome is None:
                edge = self._phase(domain, until, progress)
                if edge is None:
                    break
                target = self._cross(edge, len(self.phases))
                seen[edge.name] = seen.get(edge.name, 0) + 1
                if target is None:
                    self.outcome = Outcome(edge.name, f"{edge.name} in domain {domain.name!r}", self.t)
                elif seen[edge.name] == stop_after.get(edge.name, -1):
                    self.outcome = Outcome("stopped", f"after {seen[edge.name]} events {edge.name!r}", self.t)
                elif self._chatters():
                    quick = f"events follow one another ever quicker, the last within {ZENO_GAP:g} s (Zeno)"
                    self.outcome = Outcome("chattering", quick, self.t)
                else:
                    domain = target
        except KeyboardInterrupt:
            self.outcome = Outcome("interrupted", "by the user; what was simulated is kept", self.t)
        except SaltusError as problem:
            if not self.phases:
                raise
            self.outcome = Outcome("failed", str(problem), self.t)

    def finished(self, until: float) -> _Run:
        """Give the run its outcome if nothing else did."""
        if self.outcome is None:
            self.outcome = Outcome("finished", f"reached {until:g} s", self.t)
        return self

    def _chatters(self) -> bool:
        gaps = np.diff([e.t for e in self.events[-ZENO_EVENTS:]])
        return len(gaps) == ZENO_EVENTS - 1 and bool(gaps[-1] < ZENO_GAP and (np.diff(gaps) <= 0).all())

    # ---- one phase ----------------------------------------------------------------------------------------------

    def _choice(self, stage: Stage, base: np.ndarray, entered: bool) -> Choice:
        """Rows and coordinates: the last ones of this domain while they serve, or new ones.

        A motion may pass a dead centre, where rows lose their independence for an instant, but not start at one: within
        a stay the number of rows is kept.
        """
        m, kept = self.system.mechanism, self.system.programs.setdefault("choices", {})
        if entered:
            check_constraints(stage, self.t, self.q, base)
        _, J, _ = stage.closure(self.t, self.q, base)
        wanted = tuple(self.independent) if self.independent is not None else None
        old: Choice | None = kept.get((stage.domain.name, wanted))
        if old is not None and len(old.rows) >= rank(J):
            best = quality(J[list(old.rows)], dependent_columns(J[list(old.rows)], np.ones(J.shape[1])))
            if quality(J[list(old.rows)], old.dependent) >= PREFER / 2 * best and best > 0:
                return old
        rows = independent_rows(J) if entered or old is None else pivots(J.T, len(old.rows))
        if len(rows) == J.shape[1]:
            raise BadModel(
                f"domain {stage.domain.name!r} has no freedom left: {len(rows)} independent constraints on "
                f"{J.shape[1]} coordinates; remove a contact or a joint",
                domain=stage.domain.name,
            )
        whole = not stage.domain.contacts
        kept[(stage.domain.name, wanted)] = choose(m, J, self.independent if whole else None, rows)
        return kept[(stage.domain.name, wanted)]

    def _program(self, stage: Stage, choice: Choice) -> tuple[Program, Any]:
        key = (stage.domain.name, self.formulation, choice, self.control, len(self.system.leaving(stage.domain)))
        program = self.system.once(key, lambda: Program(stage, self.formulation, choice, self.control))
        engine = choose_engine(self.engine, program.flow)
        self.engines[engine.name] = None
        stepper = self.system.once((*key, engine.name), lambda: engine.prepare(program.flow))
        self.notes += [n for n in getattr(stepper, "notes", ()) if n not in self.notes]
        return program, stepper

    def _phase(self, domain: Domain, until: float, progress: Callable[[float, float, int], None] | None) -> Edge | None:
        """Run one domain until an edge is taken; None if the run is over."""
        stage = self._stage(domain)
        base = self._anchored(stage)
        entry = (self.t, self.q.copy(), self.v.copy())
        work: np.ndarray | None = None
        law, visit = law_in(self.control, domain.name), self.visits.get(domain.name, 0)
        table = law.table(stage, visit, self._entry(*entry)) if isinstance(law, Schedule) else None
        while True:  # once a choice of coordinates
            program, stepper = self._program(stage, self._choice(stage, base, work is None))
            p = self._parameters(program, base, entry)
            x = program.state_vector(self.q, self.v, work, self.z)
            volume = program.check_regular(self.t, x, p)
            p[program.layout.slice("smallest_volume")] = 0.1 * volume
            phase = Phase(program, self.t, p, list(domain.contacts))
            self.phases.append(phase)
            edge, again = self._integrate(phase, stepper, x, until, table, progress)
            if not again:
                self.visits[domain.name] = visit + (self.t > entry[0])
                return edge
            phase.goes_on, work = True, phase.x_end[program.layout.work]

    def _parameters(
        self, program: Program, base: np.ndarray, entry: tuple[float, np.ndarray, np.ndarray]
    ) -> np.ndarray:
        layout = program.layout
        p = np.zeros(layout.n_p)
        p[layout.slice("params")] = self.params
        p[layout.slice("anchors")] = base[len(self.params) :]
        p[layout.slice("entry_t")], p[layout.slice("entry_q")], p[layout.slice("entry_v")] = entry
        if layout.slice("slip").stop > layout.slice("slip").start:
            p[layout.slice("slip")] = directions(program, self.t, self.q, self.v, base)
        return p

    def _integrate(
        self,
        phase: Phase,
        stepper: Any,
        x: np.ndarray,
        until: float,
        table: Table | None,
        progress: Callable[[float, float, int], None] | None,
    ) -> tuple[Edge | None, bool]:
        """Call the engine until an edge fires (edge, False), coordinates must change (None, True) or all ends."""
        program, p = phase.program, phase.p
        directions = program.directions
        if table is not None:
            self._row(table, program, p, until)
        armed = self._armed(program, x, p)
        fired = self._at_once(program, x, p, armed)
        if fired is not None:
            phase.finish(self.t, x)
            return fired, False
        on_surface = ~armed
        atol, rtol = self._tolerances(program)
        step = 0.0
        sampled = program.law if isinstance(program.law, Sampled) else None
        next_sample = self.t
        while True:
            t_end = until
            if sampled is not None:
                if self.t >= next_sample - 1e-12:
                    self._sample(program, x, p, sampled)
                    next_sample = (math.floor(self.t * sampled.rate + 1e-9) + 1) / sampled.rate
                t_end = min(until, next_sample)
            if table is not None:
                t_end = self._row(table, program, p, until)
            chunk = min(CHUNK, self.steps_left)
            request = Request(
                self.t,
                x,
                p.copy(),
                t_end,
                atol,
                rtol,
                directions,
                armed,
                step=step,
                max_step=program.ode.longest_step,
                max_steps=chunk,
            )
            segment: Segment = stepper.run(request)
            phase.add(segment, request.p)
            self._count(segment)
            self.t, x, armed, step = float(segment.breaks[-1]), segment.x, segment.armed, segment.step
            self._read(program, x, p)
            if progress is not None:
                progress(self.t, until, len(self.events))
            on_surface = self._slipped(program, x, p, on_surface & ~armed)
            self.outcome = reversal(program, segment, p)
            if self.outcome is not None:
                return None, False
            if segment.stop is Stop.EVENT:
                edges = [i for i in segment.fired if i < len(program.edges)]
                if edges:
                    if len(edges) > 1:
                        tied = ", ".join(program.edges[i].name for i in edges)
                        self.notes.append(f"t = {self.t:.9g} s: {tied} fired together; the first was taken")
                    return program.edges[min(edges)], False
                if self._other_choice(program, p):
                    return None, True
                p[program.layout.slice("smallest_volume")] *= 0.1
                armed = self._armed(program, x, p)
            elif segment.stop is Stop.END and self.t >= until:
                return None, False
            elif segment.stop in (Stop.NOT_FINITE, Stop.STEP_TOO_SMALL):
                self.outcome = Outcome(segment.stop.value, _why(segment.stop, program), self.t)
                return None, False
            if self.steps_left <= 0:
                self.outcome = Outcome("step limit", _why(Stop.LIMIT, program), self.t)
                return None, False

    def _armed(self, program: Program, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        if not len(program.directions):
            return np.zeros(0, bool)
        g, _ = program.guards(self.t, x, p)
        for edge, value in zip(program.edges, g, strict=False):
            if math.isnan(value):
                raise BadValue(
                    f"guard of edge {edge.name!r} is {value} as domain {program.domain.name!r} is entered at "
                    f"t = {self.t:.6g} s; it must be a number wherever the machine can be",
                    edge=edge.name,
                )
        d = program.directions
        return np.where(d == 0, np.abs(g) > 1e-12, d * g < -1e-12)

    def _at_once(self, program: Program, x: np.ndarray, p: np.ndarray, armed: np.ndarray) -> Edge | None:
        """Edge whose guard is on its surface at entry and being crossed right away."""
        if not len(program.directions) or armed.all():
            return None
        g, rate = program.guards(self.t, x, p)
        for i, edge in enumerate(program.edges):
            d = program.directions[i]
            if armed[i]:
                continue
            if abs(g[i]) <= 1e-12 and (d * rate[i] > 1e-9 or (d == 0 and abs(rate[i]) > 1e-9)):
                return edge
            if d * g[i] > 1e-9:
                if getattr(edge.guard, "strict", False):
                    return edge
                self.notes.append(
                    f"t = {self.t:.9g} s: guard {edge.name!r} was already past its surface when "
                    f"{program.domain.name!r} was entered (value {g[i]:.3g}); it fires after it has come back"
                )
        return None

    def _slipped(self, program: Program, x: np.ndarray, p: np.ndarray, unarmed: np.ndarray) -> np.ndarray:
        """Note guards that went from their surface at entry to the far side without ever leaving it the right way."""
        if unarmed[: len(program.edges)].any():
            g, _ = program.guards(self.t, x, p)
            for i, edge in enumerate(program.edges):
                if unarmed[i] and program.directions[i] * g[i] > 1e-6:
                    unarmed[i] = False
                    self.notes.append(
                        f"t = {self.t:.9g} s: {edge.name!r} could not fire: from its surface the motion went straight "
                        f"to the far side in {program.domain.name!r} (value {g[i]:.3g})"
                    )
        return unarmed

    def _tolerances(self, program: Program) -> tuple[np.ndarray, np.ndarray]:
        layout, tol = program.layout, self.tolerance
        atol = np.full(layout.z.stop, tol)
        rtol = np.concatenate([np.zeros(layout.nq), np.full(layout.nw + layout.n_work, tol), np.zeros(layout.n_z)])
        return atol, rtol

    def _count(self, segment: Segment) -> None:
        self.steps += len(segment.breaks) - 1
        self.steps_left -= max(len(segment.breaks) - 1, 1)
        self.evaluations += segment.evaluations
        self.rejected += segment.rejected

    def _read(self, program: Program, x: np.ndarray, p: np.ndarray) -> None:
        self.q, self.z = x[: program.layout.nq].copy(), x[program.layout.z].copy()
        self.v = np.ravel(program.velocity(self.t, x, p)).copy()

    def _other_choice(self, program: Program, p: np.ndarray) -> bool:
        """Whether other coordinates would serve clearly better here."""
        if self.independent is not None:
            return False
        stage = program.stage
        base = np.concatenate([self.params, p[program.layout.slice("anchors")]])
        _, J, _ = stage.closure(self.t, self.q, base)
        kept = J[list(program.choice.rows)]
        best = quality(kept, dependent_columns(kept, np.ones(J.shape[1])))
        return quality(kept, program.choice.dependent) < PREFER / 2 * best

    def _entry(self, t: float, q: np.ndarray, v: np.ndarray) -> Entry:
        m = self.system.mechanism
        return Entry(t, Named(m.q_names, q), Named(m.v_names, v, "velocity"))

    def _row(self, table: Table, program: Program, p: np.ndarray, until: float) -> float:
        """Load the row of numbers in use now; return when it ends."""
        at = table.index(self.t)
        p[program.layout.slice("row")] = table.rows[at]
        if at + 1 < len(table.knots):
            knot = float(table.knots[at + 1])
            return knot if knot < until - 1e-12 else until
        if table.note and table.note not in self.notes and self.t < until - 1e-12:
            self.notes.append(table.note)
        return until

    def _sample(self, program: Program, x: np.ndarray, p: np.ndarray, sampled: Sampled) -> None:
        """Call the user's function and hold what it returns."""
        m = self.system.mechanism
        self._read(program, x, p)
        layout = program.layout
        t, q, v = (p[layout.slice(f"entry_{name}")] for name in "tqv")
        entry = self._entry(float(t[0]), q, v)
        signals = Signals(
            m,
            program.domain.name,
            self.t,
            Named(m.q_names, self.q),
            Named(m.v_names, self.v, "velocity"),
            Named(list(m.params), self.params, "param"),
            entry,
            self._places,
            None,
            self.system.ground,
        )
        name = getattr(sampled.function, "__name__", "controller")
        try:
            values = commands(m, sampled.function(self.t, signals), f"controller {name!r}")
            numbers = np.array([float(value) for value in values])
        except SaltusError:
            raise
        except Exception as problem:
            raise BadValue(
                f"controller {name!r} raised {type(problem).__name__} at t = {self.t:.6g} s: {problem}"
            ) from problem
        if not np.isfinite(numbers).all():
            bad = [n for n, value in zip(m.inputs, numbers, strict=True) if not math.isfinite(value)]
            raise BadValue(
                f"controller {name!r} returned a number that is not finite for {', '.join(bad)} at t = {self.t:.6g} s"
            )
        p[layout.slice("held")] = numbers


def _why(stop: Stop, program: Program) -> str:
    if stop is Stop.NOT_FINITE:
        return (
            f"the equations of {program.domain.name!r} gave a number that is not finite: look at the controller's "
            "output, at springs of zero length, and at the loops for a dead centre"
        )
    if stop is Stop.LIMIT:
        return (
            f"all max_steps steps are used up in {program.domain.name!r}: its motion is very fast or stiff against the "
            "time asked for; try another engine, a looser tolerance or a larger max_steps"
        )
    return f"the step fell below round-off in {program.domain.name!r}: singular motion; try a looser tolerance"
