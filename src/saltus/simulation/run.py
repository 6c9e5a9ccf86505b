"""simulate: from a start state through domains, guards and resets to a Trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.choice import Choice, better, choose
from saltus.dynamics.contact_problem import NoForces
from saltus.dynamics.formulations import SPF, Baumgarte, Formulation, Projection
from saltus.engines import choose as choose_engine
from saltus.engines.port import Request, Segment, Stop
from saltus.errors import BadModel, BadValue, SaltusError
from saltus.ground import Ground, Level
from saltus.hybrid.constrained import Constrained, timed
from saltus.hybrid.contacts import Pinned, Rolling, Sliding
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.laws import Schedule, Table, law_in, stepwise
from saltus.hybrid.mode import Mode, action, mode
from saltus.hybrid.regular import check_constraints
from saltus.hybrid.resets import Collision
from saltus.hybrid.signals import Entry
from saltus.hybrid.slipping import start_slips
from saltus.hybrid.strike import consistent_target, strike
from saltus.hybrid.touched import Touched, constrained
from saltus.hybrid.transition import (
    WATCH,
    Armed,
    Entrance,
    Passed,
    arm,
    check_possible,
    entrance,
    entry,
    flow_rows,
    held,
    transition,
)
from saltus.model.assembly import State
from saltus.model.contents import unchanged
from saltus.model.mechanism import Mechanism
from saltus.model.rank import independent_rows, pivots, scaled_rows
from saltus.model.symbols import Named
from saltus.simulation.asked import (
    check_events,
    check_loops,
    check_numbers,
    check_start,
    check_system,
    first_domain,
    ground_of,
)
from saltus.simulation.check import compare, finer
from saltus.simulation.contacts import SHARED, START, Contacts
from saltus.simulation.held import Held, row
from saltus.simulation.instant import Settled, response, settle
from saltus.simulation.log import Log, Stay
from saltus.simulation.reasons import slip_ended, why
from saltus.simulation.record import record
from saltus.simulation.trajectory import Event, Outcome, Trajectory

CHUNK = 4000  # steps between looks at progress and Ctrl-C
ZENO_EVENTS, ZENO_GAP = 10, 1e-5  # so many events in a row, all within so many seconds each or ever quicker up to that
HOPS, HOPPING = 500, 0.9  # instants of contacts, and of their time the next as many take at least if they lead nowhere
LOOSE = 1e3  # tolerances: what positions and velocities are known to after a while
MOVED = 1e-6  # m or rad: a state that moves by more at an event was moved
WEDGED = 1e-3  # of the pivots of slip: where forces end a run, so near to none they have no bound

Independent = Sequence[str] | Mapping[str, Sequence[str]]
Progress = Callable[[float, float, int], None]


@unchanged
def simulate(
    system: HybridSystem | Mechanism,
    start: State,
    *,
    until: float,
    domain: Domain | str | None = None,
    control: Any = None,
    formulation: Formulation | None = None,
    tolerance: float = 1e-10,
    engine: str | None = None,
    params: Mapping[str, float] | None = None,
    ground: Ground | float | None = None,
    independent: Independent | None = None,
    rate: float = 1000.0,
    begin: float | None = None,
    stop_after: Mapping[str, int] | None = None,
    max_steps: int = 1_000_000,
    progress: Progress | None = None,
    check: bool = False,
) -> Trajectory:
    """Run a machine from `start` at t = `begin` until `until` (s), or until an event ends it.

    Unless it is given, `begin` is zero, and the time of the start where the machine itself depends on time (motions
    or forces that are expressions of `m.time`): it goes on from a state of another run.

    `control` is a function (t, s) -> {input: value}, traced once per domain and compiled, or a `Sampled` one.
    `tolerance` bounds the local error of a step: absolute for positions (rad, m), relative for velocities. `params`
    give Params other values than the start has; those that change lengths need a start assembled with them.
    `ground` is what the feet of a machine meet: a shape of `sl.ground`, or a height (m); level at zero unless given.
    `independent` names the coordinates that reduced formulations keep, for all domains or by domain. `rate` is the
    number of recorded samples per second; any instant in between is there as dense output. `stop_after` ends the run
    after so many events of a name, as in {"touchdown": 16}. A motion so fast that it takes more than `max_steps` steps
    ends with outcome "step limit", before time and memory run out. `progress(t, until, events)` is called now and then.
    Ctrl-C keeps what was simulated. With `check` it is run once more at a hundredth of the tolerance, and `run.error`
    says how far each position may be off.
    """
    call = dict(locals())
    finest = finer(tolerance) if check else tolerance
    check_system(system)
    if isinstance(system, HybridSystem) and system.terrain is not None and not system.edges:
        system = system.mechanism  # it is one alone, on any ground
    terrain = ground_of(system, ground)
    if isinstance(system, Mechanism):
        system = HybridSystem.alone(system, terrain)
    check_start(system, start)
    if begin is None:
        begin = start.time if start.time and timed(system) else 0.0
    check_numbers(until=until, tolerance=tolerance, rate=rate, begin=begin, max_steps=max_steps)
    if not isinstance(formulation, Formulation | None):
        raise BadValue(f"formulation is {formulation!r}; give one such as sl.formulations.SPF()", given=formulation)
    if not until > begin:
        raise BadValue(f"until is {until}; give a time in seconds above {begin:g}", given=until)
    if not 1e-14 <= tolerance <= 1e-2:
        raise BadValue(f"tolerance is {tolerance}; give a number between 1e-14 and 1e-2", given=tolerance)
    if not rate > 0:
        raise BadValue(f"rate is {rate}; give recorded samples per second, above zero", given=rate)
    if max_steps < 1:
        raise BadValue(f"max_steps is {max_steps}; give a number of steps, at least one", given=max_steps)
    check_events(system, terrain, stop_after or {})
    first = first_domain(system, domain)
    if engine is not None:
        choose_engine(engine)  # an unknown name is refused before anything is built
    run = _Run(system, start, params, control, formulation or Projection(), tolerance, engine, independent)
    run.terrain = run.log.ground = terrain
    run.t, run.steps_left = begin, int(max_steps)
    run.go(first, until, dict(stop_after or {}), progress)
    try:
        out = record(run.log, run.t, run.q, begin, rate)
    except KeyboardInterrupt:  # the run is done: it is kept
        run.log.note("interrupted while it was recorded, and recorded all the same")
        out = record(run.log, run.t, run.q, begin, rate)
    law = stepwise(control)
    if isinstance(law, Schedule):
        run.log.note(law.judged(out, control))
    if check:
        compare(out, simulate(**{**call, "check": False, "progress": None, "tolerance": finest}))
    return out


@dataclass(frozen=True)
class Met:
    """Guards of contacts that fired together."""

    fired: tuple[int, ...]


class _Run:
    """State of one simulation while it goes on; it starts from nothing but what it is given."""

    def __init__(
        self,
        system: HybridSystem,
        start: State,
        params: Mapping[str, float] | None,
        control: Any,
        formulation: Formulation,
        tolerance: float,
        engine: str | None,
        independent: Independent | None,
    ) -> None:
        self.system, self.start, self.control = system, start, control
        self.formulation, self.tolerance = formulation, tolerance
        self.engine, self.independent = engine, independent
        self.params = system.mechanism.values({**start.params, **(params or {})})
        self.log = Log(system, formulation, tolerance, self.params)
        self.t, self.q, self.v = 0.0, start.positions.copy(), start.velocities.copy()
        self.z = start.z  # states that are neither positions nor velocities; None is zero
        self.base = self.params  # Params and anchors of the domain the run is in
        self.visits: dict[str, int] = {}  # stays in each domain so far in which time passed
        self.steps_left = 0
        self.terrain: Ground = Level()
        self._loosened: dict[int, float] = {}  # room of guards of contacts that fired and changed nothing
        self.contacts: Contacts | None = None  # of a machine whose contacts have modes of their own
        self.entered: Entry | None = None
        self._met_at: list[float] = []  # times of all instants of contacts, those without events too
        self._due: list[tuple[float, str]] = []  # names of events that have a time already
        self.held = Held(control, system.mechanism, self.params)
        self._entries: dict[Mode, tuple[Kernel, Entry | None, np.ndarray]] = {}
        self._modes: dict[tuple[str, Choice], Mode] = {}  # what was found once is not looked up again in the run
        self._domains: dict[str, tuple[Constrained, Entrance]] = {}
        self._steppers: dict[int, Any] = {}

    # ---- the loop over domains ----------------------------------------------------------------------------------

    def go(self, domain: Domain, until: float, stop_after: dict[str, int], progress: Progress | None) -> None:
        """Run stay after stay until something ends the run."""
        log, seen = self.log, dict[str, int]()
        for text in self.system.check(domain):
            log.note(text)
        try:
            self._begin(domain)
            while log.outcome is None:
                edge = self._stay(domain, until, progress)
                if edge is None:
                    break
                if isinstance(edge, Met):
                    self._met(edge, domain, seen, stop_after)
                    continue
                target = self._cross(edge)
                seen[edge.name] = seen.get(edge.name, 0) + 1
                if target is None:
                    log.outcome = Outcome(edge.name, f"{edge.name} in domain {domain.name!r}", self.t)
                elif seen[edge.name] == stop_after.get(edge.name, -1):
                    log.outcome = Outcome("stopped", f"after {seen[edge.name]} events {edge.name!r}", self.t)
                elif self._chatters():
                    quick = (
                        f"events follow one another ever quicker, the last within {ZENO_GAP:g} s (Zeno): give the last "
                        "an edge to a domain in which the contact holds; bounces of m.foot come to rest by themselves"
                    )
                    log.outcome = Outcome("chattering", quick, self.t)
                else:
                    domain = target
        except KeyboardInterrupt:
            if not any(stay.breaks for stay in log.stays):
                raise  # there is nothing to keep
            log.outcome = Outcome("interrupted", "by the user; what was simulated is kept", self.t)
        except NoForces as problem:
            if not any(stay.breaks for stay in log.stays):
                self._stand(domain)
            log.outcome = Outcome(problem.data["kind"], str(problem), self.t)
        except SaltusError as problem:
            if not any(stay.breaks for stay in log.stays):
                raise
            log.outcome = Outcome("failed", str(problem), self.t)
        if log.outcome is None:
            log.outcome = Outcome("finished", f"reached {until:g} s", self.t)
            waiting = [e.name for e in self.system.edges if e.source is domain]
            if waiting and not seen:
                log.note(f"no guard fired: {domain.name!r} waited for {', '.join(waiting)} from beginning to end")

    def _chatters(self) -> bool:
        gaps = np.diff([e.t for e in self.log.events[-ZENO_EVENTS:]])
        quick = gaps < ZENO_GAP
        return len(gaps) == ZENO_EVENTS - 1 and bool(quick.all() or (quick[-1] and (np.diff(gaps) <= 0).all()))

    def _hops(self) -> bool:
        """Whether contacts bounce ever on within no time, instead of ever less, or do nothing but share loads anew."""
        if len(self._met_at) < 2 * HOPS:
            return False
        first, middle, last = (self._met_at[k] for k in (-2 * HOPS, -HOPS, -1))
        silent = not self.log.events or self.log.events[-1].t < middle
        return last - middle < HOPS * ZENO_GAP and (silent or last - middle > HOPPING * (middle - first))

    # ---- entering and leaving -----------------------------------------------------------------------------------

    @property
    def _known(self) -> float:
        """What positions and velocities are known to."""
        return LOOSE * self.tolerance

    def _begin(self, domain: Domain) -> None:
        """Put the start onto the constraints of its domain, or refuse it."""
        c = self._in(domain)[0]
        check_loops(c, self.start, self.params, self.t)
        if isinstance(c, Touched):
            self.contacts = Contacts(c, self.terrain, self.params, self.tolerance)
            self.contacts.begin(self.t, self.q, self.v)
            self.base = self.contacts.base
            self._settle(c, allowed=max(START, self._known))
            self._meet(c, ())
            return
        self.base = held(c, self.t, self.q, self.v, self.params)
        if c.contacts:
            heights = np.ravel(c.touching(self.t, self.q, self.v, self.params)[2])
            for contact, closure, height in zip(domain.contacts, c.contacts, heights, strict=True):
                if isinstance(contact, Pinned | Sliding | Rolling) and abs(height) > MOVED:
                    where = "above" if height > 0 else "below"
                    raise BadValue(
                        f"the start has contact {closure.name!r} of domain {domain.name!r} {abs(height):.4g} m {where} "
                        f"the ground (y = {self.system.ground:g} m); assemble it on the ground, or start in another "
                        "domain",
                        contact=closure.name,
                        height=float(height),
                    )
        if not c.rows:
            return
        phi, J, phi_t = c.closure(self.t, self.q, self.base)
        off, error = float(np.abs(phi).max()), float(np.abs(J @ self.v + phi_t).max())
        allowed = max(MOVED, self._known) * max(1.0, float(np.abs(self.v).max()))
        if max(off, error) > allowed:
            tolerant = isinstance(self.formulation, SPF | Baumgarte)
            how = f"{type(self.formulation).__name__} pulls it onto them" if tolerant else "it was put onto them"
            self.log.fault(
                f"the start violates the constraints of {domain.name!r} by {off:.3g} m and {error:.3g} m/s; {how}"
            )
            self.log.pulled = tolerant
        if not self.log.pulled:
            self._settle(c, allowed)

    def _settle(self, c: Constrained, allowed: float) -> float:
        """Put the state onto the constraints; return how far a coordinate moved."""
        out = self._in(c.domain)[1].settle(self.t, self.q, self.v, self.params, self.base)
        check_possible(c, self.t, out, allowed)
        self.q, self.v = out.q, out.v
        return out.shift

    # ---- contacts with modes of their own -----------------------------------------------------------------------

    def _meet(self, c: Touched, fired: Sequence[int]) -> Settled:
        """Settle the contacts at this instant: impacts, modes, and the state onto what holds."""
        assert self.contacts is not None
        self.base = self.contacts.base
        law, stays = law_in(self.control, c.domain.name), self.log.stays
        now = stays[-1].mode if stays else self._mode(c, self._choice(c), law)
        p = self._parameters(now)
        self._command(now, p, law.table(c, 0).entered(self._entry()) if isinstance(law, Schedule) else None, math.inf)
        felt = response(now, self.t, p, self.z, self._stepper(now).look)
        x = now.state_vector(self.q, self.v, None, self.z)
        if not stays:  # an impact of the start would ask for impulses out of round-off
            now.check_heavy(self.t, x, p)
        try:
            out = settle(self.contacts, self.t, self.q, self.v, felt, fired)
        except NoForces as problem:
            if problem.data["kind"] == "unresolved":
                self._bound(now, x, p)
            raise
        if fired and not out.changes and out.impact is None:
            self._bound(now, x, p)
        self.v, self.base = out.v, self.contacts.base
        self._settle(c, max(MOVED, self._known) * max(1.0, float(np.abs(self.v).max(initial=0.0))))
        return out

    def _met(self, met: Met, domain: Domain, seen: dict[str, int], stop_after: dict[str, int]) -> None:
        """Pass an instant at which a contact changes its mode."""
        q, v, log = self.q.copy(), self.v.copy(), self.log
        c = self._in(domain)[0]
        assert isinstance(c, Touched)
        assert self.contacts is not None
        out = self._meet(c, met.fired)
        self._met_at.append(self.t)
        stay = len(log.stays)
        changes = out.changes or (
            [] if out.impact is None else [(c.elements[c.watched[met.fired[0]][1]].name, "touches")]
        )
        for name, word in changes:
            text, impact = f"{name} {word}", out.impact if (name, word) == changes[0] else None
            log.events.append(Event(self.t, text, domain.name, domain.name, q, v, self.q, self.v, impact, 0.0, stay))
            seen[text] = seen.get(text, 0) + 1
            if seen[text] == stop_after.get(text, -1) and log.outcome is None:
                log.outcome = Outcome("stopped", f"after {seen[text]} events {text!r}", self.t)
            if out.rests and word == "touches":
                self._due = sorted([*self._due, (self.t + out.rests, f"{name} rests")])
        if log.outcome is None and self._hops():
            name = c.elements[c.watched[met.fired[0]][1]].name
            who = " ".join(changes[0]) if changes else f"{name} is at the end of what it bears"
            log.outcome = Outcome(
                "chattering",
                f"{who} again and again, {2 * HOPS} instants of contacts within "
                f"{self.t - self._met_at[-2 * HOPS]:.3g} s and no end of it: friction is nearly too strong for rigid "
                "links, or nothing takes its energy; give less friction or restitution, or contacts that give way "
                "(stiffness=)",
                self.t,
            )
        more = {k: self._loosened.get(k, WATCH) * 10 for k in met.fired}
        self._loosened = self._loosened | more if out.same else {}

    def _stand(self, domain: Domain) -> None:
        """Keep the start of a run that cannot go on from there."""
        c = self._in(domain)[0]
        now = self._mode(c, self._choice(c), law_in(self.control, domain.name))
        x = now.state_vector(self.q, self.v, None, self.z)
        stay = Stay(now, self.t, x)
        breaks = np.array([self.t, np.nextafter(self.t, np.inf)])
        stay.add(Segment(breaks, x[None, None, :], x, Stop.END), self._parameters(now))
        self.log.stays.append(stay)

    def _entry(self) -> Entry:
        """Where the present domain was entered; a machine alone is in one from the start on."""
        m = self.system.mechanism
        if self.entered is None or self.contacts is None:
            q, v = Named(m.q_names, self.q.copy()), Named(m.v_names, self.v.copy(), "velocity")
            self.entered = Entry(self.t, q, v)
        return self.entered

    def _cross(self, edge: Edge) -> Domain | None:
        """Apply the reset of an edge and settle into the domain it leads to."""
        t, q, v, way = self.t, self.q, self.v, transition(self.system, edge)
        impact = None
        state = way.mapped(t, q, v, self.params)
        if isinstance(edge.reset, Collision):
            hit = strike(self.system, edge.reset.contacts, edge.source.params)
            impact, _ = hit.collide(hit.at(t, q, v, self.params), v, edge.reset.rule)
            state = Passed(q, impact.v)
        target = edge.target
        if edge.candidates:
            target = consistent_target(self.system, edge, t, state.q, state.v, self.params)
        shift = 0.0
        if target is not None:
            c = self._in(target)[0]
            out = way.into(c, t, state, self.params, speed=self._known, slope=False)
            impact, shift = impact or out.impact, out.shift
            self.q, self.v = out.q, out.v
            self.base = held(c, t, state.q, state.v, self.params)
            self._judge_passage(edge, c, out, shift)
        else:
            self.q, self.v = state.q, state.v
        name = target.name if target else None
        after = self.q.copy(), self.v.copy()
        stay = len(self.log.stays)
        self.log.events.append(Event(t, edge.name, edge.source.name, name, q, v, *after, impact, shift, stay))
        return target

    def _judge_passage(self, edge: Edge, c: Constrained, out: Passed, shift: float) -> None:
        log, domain = self.log, c.domain
        if shift > max(MOVED, self._known):
            log.fault(
                f"event {edge.name!r} at t = {self.t:.6g} s moved the machine by {shift:.3g} (m or rad) onto its loops"
            )
        acting = int(np.abs(c.closure(self.t, self.q, self.base)[1]).any(axis=1).sum()) if c.rows else 0
        if out.impact is not None and out.impact.rank < acting:
            log.note(
                f"impact into {domain.name!r}: {acting - out.impact.rank} of {acting} constraint rows are dependent; "
                "velocities and energies are unique, impulses are the least-norm set"
            )
        if c.contacts:
            heights = np.ravel(c.touching(self.t, self.q, self.v, self.params)[2])
            for contact, closure, height in zip(domain.contacts, c.contacts, heights, strict=True):
                if isinstance(contact, Pinned | Sliding | Rolling) and abs(height) > max(MOVED, self._known):
                    log.fault(
                        f"contact {closure.name!r} of {domain.name!r} took hold {abs(height):.4g} m "
                        f"{'above' if height > 0 else 'below'} the ground at t = {self.t:.6g} s"
                    )

    # ---- one stay -----------------------------------------------------------------------------------------------

    def _stay(self, domain: Domain, until: float, progress: Progress | None) -> Edge | Met | None:
        """Run one domain until an edge is taken or a contact changes; None if the run is over."""
        c = self._in(domain)[0]
        c.params(self.params)  # values that the domain gives to Params are checked
        visit, entered = self.visits.get(domain.name, 0), self._entry()
        law = law_in(self.control, domain.name)
        table = law.table(c, visit).entered(entered) if isinstance(law, Schedule) else None
        check_constraints(c, self.t, self.q, self.base)
        choice, work, p, layout = self._choice(c), None, np.zeros(0), None
        while True:  # once per choice of coordinates
            now = self._mode(c, choice, law)
            p = self._parameters(now) if layout is None else _carried(p, layout, now.layout)
            x = now.state_vector(self.q, self.v, work, self.z)
            p[now.layout.slice("smallest_volume")] = 0.1 * now.check_regular(self.t, x, p)
            if not any(known.mode is now for known in self.log.stays):
                now.check_heavy(self.t, x, p)
            stay = Stay(now, self.t, x, self._stepper(now).look)
            self.log.stays.append(stay)
            edge, better_choice = self._integrate(stay, x, p, until, table, progress)
            if better_choice is None:
                if self.contacts is None:
                    self.visits[domain.name] = visit + (self.t > entered.t)
                return edge
            stay.goes_on, work, layout = True, stay.x_end[now.layout.work], now.layout
            choice = better_choice
            self._resettle(c)

    def _choice(self, c: Constrained, rows: int | None = None) -> Choice:
        """Rows and coordinates for where the run is; `rows` keeps their number within a stay.

        A motion may pass a dead centre, where rows lose their independence for an instant, but not start at one.
        """
        if not self.formulation.reduced:
            if self.independent is not None:
                raise BadValue(
                    f"independent coordinates belong to SPF and Minimal; {type(self.formulation).__name__} keeps all "
                    "velocities: leave out independent=, or give one of those formulations",
                    given=self.independent,
                )
            return Choice(flow_rows(c, self.t, self.q, self.base, rows), tuple(range(c.equations.nv)), ())
        if c.elements:
            raise BadValue(
                f"contacts with modes of their own need all velocities, which {type(self.formulation).__name__} has "
                "not; use sl.formulations.Projection(), the default",
                given=self.formulation,
            )
        J, wanted = c.unitless(self.t, self.q, self.base), self.independent
        if isinstance(wanted, Mapping):
            wanted = wanted.get(c.domain.name)
        alike = c.equations.alike
        chosen = independent_rows(J, alike) if rows is None else pivots(scaled_rows(J, alike).T, rows)
        return choose(self.system.mechanism, J, wanted, chosen)

    def _resettle(self, c: Constrained) -> None:
        """Other rows hold the same machine: a state that moves when they change was not on the constraints."""
        if isinstance(self.formulation, SPF | Baumgarte) or self.log.pulled or not c.rows:
            return
        out = self._in(c.domain)[1].settle(self.t, self.q, self.v, self.params, self.base)
        allowed = max(MOVED, self._known)
        if out.shift > allowed or out.error > allowed * max(1.0, float(np.abs(self.v).max())):
            raise BadModel(
                f"domain {c.domain.name!r}: at t = {self.t:.6g} s other constraint rows had to be chosen and did not "
                f"hold the machine where it was (off by {out.shift:.3g} m, {out.error:.3g} m/s); use a smaller "
                "tolerance",
                domain=c.domain.name,
            )
        self.q, self.v = out.q, out.v

    def _mode(self, c: Constrained, choice: Choice, law: Any) -> Mode:
        key = (c.domain.name, choice)
        if key not in self._modes:
            self._modes[key] = mode(c, self.formulation, choice, action(c, choice, law))
        return self._modes[key]

    def _in(self, domain: Domain) -> tuple[Constrained, Entrance]:
        """The equations of a domain and the way onto its constraints."""
        if domain.name not in self._domains:
            c = constrained(self.system, domain)
            self._domains[domain.name] = c, entrance(c)
        return self._domains[domain.name]

    def _stepper(self, now: Mode) -> Any:
        if id(now) not in self._steppers:
            engine = choose_engine(self.engine)
            self._steppers[id(now)] = engine.prepare(now.flow)
            self.log.engines[self._steppers[id(now)].engine] = None
            for text in getattr(self._steppers[id(now)], "notes", ()):
                self.log.note(text)
        return self._steppers[id(now)]

    def _parameters(self, now: Mode) -> np.ndarray:
        """Run-time parameters at entry; contacts at rest get the direction in which they start to slip."""
        entered = self._entry()
        kernel, before, values = self._entries.get(now) or (entry(now), None, np.zeros(0))
        if entered is not before:
            values = np.ravel(kernel(entered.t, np.array([*entered.q]), np.array([*entered.v]), self.params))
            self._entries[now] = kernel, entered, values
        p = values.copy()
        p[now.layout.slice("anchors")] = self.base[len(self.params) :]
        if not now.constrained.elements:
            start_slips(now, self.t, self.q, self.v, p)
        return p

    # ---- integrating --------------------------------------------------------------------------------------------

    def _integrate(
        self,
        stay: Stay,
        x: np.ndarray,
        p: np.ndarray,
        until: float,
        table: Table | None,
        progress: Progress | None,
    ) -> tuple[Edge | Met | None, Choice | None]:
        """Call the engine until an edge fires (edge, None), coordinates or engine change (None, choice) or all ends."""
        now, log = stay.mode, self.log
        stepper, layout = self._stepper(now), now.layout
        atol, rtol = self._tolerances(now)
        self._command(now, p, table, until)
        state = self._armed(now, x, p)
        if state.at_once is not None:
            return now.edges[state.at_once], None
        armed, shift, step, implicit = state.armed, layout.slice("shift"), 0.0, False
        state.put(p[shift])
        while True:
            before = p.tobytes()
            t_end = self._command(now, p, table, until)
            if p.tobytes() != before and (forced := self._forced(now, x, p)) is not None:
                return forced, None
            while self._due and self._due[0][0] <= self.t + 1e-15:
                log.events.append(self._mark(self._due.pop(0)[1], now.domain.name))
            if self._due:
                t_end = min(t_end, self._due[0][0])
            request = Request(
                self.t,
                x,
                p.copy(),
                t_end,
                atol,
                rtol,
                now.directions,
                armed,
                step=step,
                implicit=implicit,
                max_step=now.ode.longest_step,
                max_steps=min(CHUNK, self.steps_left),
                shift=shift,
            )
            segment: Segment = stepper.run(request)
            p[shift][list(segment.left)] = 0.0
            stay.add(segment, request.p)
            self._count(segment)
            self.t, x, armed = float(segment.breaks[-1]), segment.x, segment.armed
            step, implicit = segment.step, segment.implicit
            self._read(now, x, p)
            if progress is not None:
                progress(self.t, until, len(log.events))
            if segment.stop is Stop.EVENT:
                edges = [i for i in segment.fired if i < len(now.edges)]
                if edges:
                    if len(edges) > 1:
                        tied = ", ".join(now.edges[i].name for i in edges)
                        log.note(f"t = {self.t:.9g} s: {tied} fired together; the first was taken")
                    return now.edges[min(edges)], None
                met = [i - len(now.edges) for i in segment.fired if i < now.n_own]
                if met and self.contacts is not None:
                    if not self.contacts.grow(met, self.t, self.q, self.v):
                        return Met(tuple(met)), None
                    self.base = self.contacts.base
                    p[layout.slice("anchors")] = self.contacts.block
                    continue
                slips = met
                if slips:
                    log.outcome = slip_ended(now, slips[0], self.t)
                    return None, None
                choice = self._better_choice(now)
                if choice is not None:
                    return None, choice
                p[layout.slice("smallest_volume")] *= 0.5
                armed = self._armed(now, x, p).armed
            elif segment.stop is Stop.END and self.t >= until:
                return None, None
            elif segment.stop in (Stop.NOT_FINITE, Stop.STEP_TOO_SMALL):
                if (stuck := self._wedged(now, x, p)) is not None:
                    return stuck, None
                log.outcome = Outcome(
                    segment.stop.value, why(segment.stop, now, self.held.name(now), self.t, x, p), self.t
                )
                return None, None
            if self.steps_left <= 0:
                log.outcome = Outcome("step limit", why(Stop.LIMIT, now, self.held.name(now), self.t, x, p), self.t)
                return None, None

    def _command(self, now: Mode, p: np.ndarray, table: Table | None, until: float) -> float:
        """Put commands that are held into the run-time parameters; until when they are."""
        end = until
        if self.held.law(now) is not None:
            entered = len(self.log.events) if self.contacts is None else 0
            end = min(until, self.held.load(now, p, self.t, self.q, self.v, entered))
        if table is not None:
            end, note = row(table, now, p, self.t, until)
            if note:
                self.log.note(note)
        return end

    def _forced(self, now: Mode, x: np.ndarray, p: np.ndarray) -> Edge | Met | None:
        """Edge or contacts that a jump of the control has carried beyond the forces that they can bear."""
        if self.contacts is None and not any(edge.guard.forbids == "force" for edge in now.edges):
            return None
        side = now.directions * self._guards(now, x, p)
        for edge, beyond in zip(now.edges, side, strict=False):
            if edge.guard.forbids == "force" and beyond > WATCH:
                return edge
        first = len(now.edges)
        met = tuple(k for k, beyond in enumerate(side[first : now.n_own]) if beyond > WATCH)
        return Met(met) if met and self.contacts is not None else None

    def _wedged(self, now: Mode, x: np.ndarray, p: np.ndarray) -> Met | None:
        """The guard of forces without bound, if an engine could not come quite as near to its surface."""
        if self.contacts is None:
            return None
        first, watched = len(now.edges), self.contacts.c.watched
        own = zip(watched, self._guards(now, x, p)[first:], strict=False)
        return next((Met((k,)) for k, ((what, _), g) in enumerate(own) if what == "wedge" and g < WEDGED), None)

    def _bound(self, now: Mode, x: np.ndarray, p: np.ndarray) -> None:
        """NoForces if those that slip have next to no bound: then none are found, or others that change nothing."""
        assert self.contacts is not None
        if "slip" in self.contacts.modes and (stuck := self._wedged(now, x, p)) is not None:
            self.contacts.ends(stuck.fired, self.t, self.q, self.v)

    def _guards(self, now: Mode, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """All guards."""
        return self._stepper(now).look(np.array([self.t]), x[None], p)[1][0]

    def _armed(self, now: Mode, x: np.ndarray, p: np.ndarray) -> Armed:
        """Judge the guards at entry; what is past its surface at the start of a run is refused or noted."""
        if not len(now.directions):
            return Armed(np.zeros(0, bool))
        g = self._guards(now, x, p)
        rate = np.ravel(now.edge_rates(self.t, x, p)) if now.edges else np.zeros(0)
        for edge, value in zip(now.edges, g, strict=False):
            if math.isnan(value):
                raise BadValue(
                    f"guard of edge {edge.name!r} is {value} as domain {now.domain.name!r} is entered at "
                    f"t = {self.t:.6g} s; it must be a number wherever the machine can be",
                    edge=edge.name,
                )
        out = arm(g, rate, now.directions, now.edges)
        if self.contacts is not None:
            own = g[len(now.edges) :]  # a guard that is well above zero fired by mistake and keeps its surface
            self._loosened = {k: room for k, room in self._loosened.items() if own[k] < max(room, SHARED)}
            out = self.contacts.watch(g, len(now.edges), out, self._loosened)
        if out.at_once is not None and not self.log.events and len(self.log.stays) == 1:
            edge, beyond = now.edges[out.at_once], now.directions[out.at_once] * g[out.at_once]
            if edge.guard.forbids == "place" and beyond > MOVED:
                raise BadValue(
                    f"the start is {beyond:.4g} m below the ground at the point of {edge.name!r} in domain "
                    f"{now.domain.name!r}; assemble it above the ground (y = {self.system.ground:g} m)",
                    edge=edge.name,
                    depth=float(beyond),
                )
        for i in out.past:
            self.log.note(
                f"t = {self.t:.9g} s: {now.edges[i].name!r} had crossed zero before {now.domain.name!r} was entered "
                f"(value {g[i]:.3g}); it can fire after it has come back"
            )
        return out

    def _mark(self, name: str, domain: str) -> Event:
        """An event at which nothing changes."""
        state = self.q.copy(), self.v.copy()
        return Event(self.t, name, domain, domain, *state, *state, None, 0.0, len(self.log.stays) - 1)

    def _tolerances(self, now: Mode) -> tuple[np.ndarray, np.ndarray]:
        layout, tol = now.layout, self.tolerance
        atol = np.full(layout.z.stop, tol)
        rtol = np.concatenate([np.zeros(layout.nq), np.full(layout.nw + layout.n_work, tol), np.zeros(layout.n_z)])
        return atol, rtol

    def _count(self, segment: Segment) -> None:
        log, taken = self.log, len(segment.breaks) - 1
        log.steps += taken
        self.steps_left -= max(taken, 1)
        log.evaluations += segment.evaluations
        log.rejected += segment.rejected

    def _read(self, now: Mode, x: np.ndarray, p: np.ndarray) -> None:
        self.q, self.z = x[: now.layout.nq].copy(), x[now.layout.z].copy()
        self.v = now.velocities(self.t, x, p)

    def _better_choice(self, now: Mode) -> Choice | None:
        """Rows and coordinates that serve clearly better here, if there are any."""
        if self.independent is not None:
            return None
        found = self._choice(now.constrained, len(now.choice.rows))
        J = now.constrained.unitless(self.t, self.q, self.base)
        alike = now.constrained.equations.alike
        return found if better(J, alike, found, now.choice, reduced=now.formulation.reduced) else None


def _carried(p: np.ndarray, old: Any, new: Any) -> np.ndarray:
    """Run-time parameters of a stay under another choice of coordinates: the same blocks."""
    out = np.zeros(new.n_p)
    for name, size in new.sizes:
        if size == dict(old.sizes)[name]:
            out[new.slice(name)] = p[old.slice(name)]
    return out
