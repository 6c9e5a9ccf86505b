"""find_orbit: periodic gaits of hybrid systems by shooting with exact Jacobians, with help for poor guesses."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, NoOrbit, SaltusError
from saltus.ground import Ground
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.guards import When
from saltus.hybrid.resets import Continuous
from saltus.model.assembly import State
from saltus.model.contents import unchanged
from saltus.model.mechanism import Mechanism
from saltus.orbits.orbit import Orbit
from saltus.orbits.section import Relabel, Sameness, Section, find_sameness
from saltus.orbits.shooting import Evaluation, Point, Shooting, newton
from saltus.orbits.stride import Arc, Crossing, Lost, Moment, Passage, Stride
from saltus.simulation.asked import check_events, check_start, ground_of

ON_SECTION = 1e-6
SHORTEST = 1e-5  # s: a shorter period is rest, not a gait
STILL = 1e-7  # m, rad, m/s, rad/s: what moves by less all the way is at rest
ATTRACT = 20  # strides run forward when Newton's method fails from the guess
SECTION = "section"
MEETS = re.compile(r" (touches|bounces)(,|$)")  # among the changes of contacts that make an event


@unchanged
def find_orbit(
    system: HybridSystem | Mechanism,
    start: State,
    *,
    domain: Domain | str | None = None,
    control: Any = None,
    params: Mapping[str, float] | None = None,
    ground: Ground | float | None = None,
    section: When | str | None = None,
    strides: int = 1,
    period: float | None = None,
    swap: Mapping[str, str] | None = None,
    free: str | Sequence[str] = (),
    where: Mapping[Any, float] | None = None,
    coming_from: Mapping[str, float] | None = None,
    multiple: bool = False,
    step: float | None = None,
    tolerance: float = 1e-11,
    engine: str | None = None,
    longest: float = 20.0,
) -> Orbit:
    """Find a periodic orbit near `start`, in `domain` (by default the system's first).

    The stride ends when the domain it began in is entered again for the `strides`-th time, or, with a `section`
    of one's own in that domain, when that is crossed. Of a machine whose contacts stick, slip and lift by themselves on
    its `ground`, it goes from the first touch to the same again, or from the event that `section` names, such as
    "left touches"; where the machine depends on time it lasts one `period` from the start on, whatever happens in it.
    The sequence found by running is the orbit's. Coordinates that may shift without the machine noticing
    (travel along the ground) and full turns of a crank are taken out by themselves. `swap` names coordinates and
    domains that change places, left for right: then half a stride is sought. `period` (s) fixes it, and is needed
    where the machine depends on time. Params in `free` are chosen so that `where` holds: {"period": 0.5},
    {"speed": 1.3}, {"time in flight": 0.3}, or {lambda s: s.q.z_U: 1.1} for the state at the start.

    A guess off the section runs forward to it; if Newton's method with exact derivatives fails, more strides are
    run to let a stable gait attract. `coming_from` gives Params other values at which the guess is good; the
    orbit is then carried over in steps. `multiple` shoots every phase from a state of its own, for motion so
    unstable that a whole stride is out of reach. With a `step` derivatives are central differences of whole strides,
    each state moved by so much: for machines whose differentiated flow would be too large to compile. NoOrbit carries
    the residuals and the best iterate.
    """
    terrain = ground_of(system, ground)
    if isinstance(system, Mechanism):
        system = HybridSystem.alone(system, terrain)
    check_start(system, start)
    names = (free,) if isinstance(free, str) else tuple(free)
    where = dict(where or {})
    if len(names) != len(where):
        raise BadValue(
            f"{len(names)} free Param(s) ({', '.join(names) or 'none'}) for {len(where)} condition(s): give as many of "
            "one as of the other"
        )
    if strides < 1:
        raise BadValue(f"strides is {strides}; give one or more", given=strides)
    search = _Search(
        system,
        start,
        domain,
        control,
        params,
        section,
        strides,
        period,
        swap,
        names,
        where,
        multiple,
        step,
        tolerance,
        engine,
        longest,
        terrain,
    )
    return search.go(dict(coming_from or {}))


class _Search:
    """One search for an orbit."""

    def __init__(
        self,
        system: HybridSystem,
        start: State,
        domain: Domain | str | None,
        control: Any,
        params: Mapping[str, float] | None,
        section: When | str | None,
        strides: int,
        period: float | None,
        swap: Mapping[str, str] | None,
        free: tuple[str, ...],
        where: dict[Any, float],
        multiple: bool,
        step: float | None,
        tolerance: float,
        engine: str | None,
        longest: float,
        terrain: Ground,
    ) -> None:
        self.domain = system._domain(domain) if domain is not None else next(iter(system.domains.values()))
        self.system, self.event = system, None if section is None else SECTION
        if isinstance(section, str) and system.terrain is not None:
            check_events(system, terrain, [section])
            self.event = section
        elif section is not None:
            self.system = _with_section(system, self.domain, section)
        self.given, self.params, self.control = start, dict(params or {}), control
        self.strides, self.period, self.multiple, self.step = strides, period, multiple, step
        self.free, self.where = free, where
        self.relabel = Relabel(self.system, swap or {})
        self.stride = Stride(
            self.system, control, free, tolerance=tolerance, engine=engine, longest=longest, ground=terrain
        )
        self.aim = self.relabel.domains[self.domain.name]
        self.mark: Hashable = None  # of the event that begins a stride of contacts with modes of their own
        self.history: list[float] = []
        self.best: Evaluation | None = None
        self.shooting: Shooting

    def go(self, coming_from: dict[str, float]) -> Orbit:
        """Search; NoOrbit if nothing helps."""
        m = self.system.mechanism
        theta = m.values({**self.given.params, **self.params})
        begin = m.values({**self.given.params, **self.params, **coming_from})
        try:
            point = self._prepared(begin)
        except Lost as problem:
            raise self._failure(f"from the start it does not come back to {self.aim!r}: {problem}") from problem
        found = self._solved(point)
        if coming_from:
            found = self._carried(found, begin, theta)
        orbit = Orbit(self.system, self.control, self.shooting, found, self.history)
        if orbit.period < SHORTEST or min(a.duration for p in orbit.passages for a in p.arcs) < 0:
            raise self._failure(f"the search ends at rest: the period shrinks to {orbit.period:.3g} s")
        if all(np.ptp(a.sampled()[1], axis=0).max() < STILL for p in orbit.passages for a in p.arcs):
            raise self._failure("the search ends at rest: nothing moves from one event to the next")
        return orbit

    # ---- steps --------------------------------------------------------------------------------------------------

    def _back(self, crossings: list[Crossing]) -> bool:
        if self.system.terrain is not None:
            return sum(c.mark == self.mark for c in crossings) == self.strides
        home = [c for c in crossings if c.after.domain == self.aim and self.event in (None, c.name)]
        return len(home) == self.strides

    def _prepared(self, theta: np.ndarray) -> Point:
        """Run from the start to find out the events of a stride, and what counts as the same state."""
        q, v = self.given.positions.copy(), self.given.velocities.copy()
        moment = self._unwound(self.stride.settled(self.domain, self.given.time, q, v, theta), theta)
        if self.system.terrain is not None:
            if self.period is not None:
                passage = self.stride.run(moment, theta, until=moment.t + self.period)
                same = find_sameness(self.stride, theta, passage.arcs, passage.crossings)
                if same.timed:
                    return self._on_time(moment, replace(same, timed=False), theta)
            moment = self._first_event(moment, theta)
        passage = self.stride.run(moment, theta, stop=self._back)
        again = self._settled(passage, theta)
        same = find_sameness(self.stride, theta, again.arcs, again.crossings)
        where = dict(self.where)
        if same.timed and self.period is None:
            raise BadValue("the machine depends on time itself; give the period, a multiple of that of its motions")
        if self.period is not None and not same.timed:
            where["period"] = self.period
        crossings = again.crossings
        marks = list(range(len(crossings))) if self.multiple else [0]
        ends = [*marks[1:], len(crossings)]
        plain = Relabel(self.system, {})
        sections = []
        for mark in marks:  # the first node comes after the last event, seen in the mirror
            crossing, mirror = (crossings[-1], self.relabel) if mark == 0 else (crossings[mark - 1], plain)
            sections.append(Section(self.stride, crossing, crossing.after, mirror, theta))
        events = [b - a for a, b in zip(marks, ends, strict=True)]
        self.shooting = Shooting(
            self.stride, sections, events, same, self.relabel, self.period if same.timed else None, where, self.step
        )
        on_section = sections[0].distance(moment, theta) < ON_SECTION and self._crosses(crossings[-1], moment, theta)
        first = self._reduced(moment if on_section else self.relabel.moment(passage.end))
        return self._point(first, theta)

    def _unwound(self, moment: Moment, theta: np.ndarray) -> Moment:
        """The same without whole turns of angles that no domain notices: a crank at 1000 rad costs three digits."""
        if np.abs(moment.q).max(initial=0.0) < 2 * np.pi:
            return moment
        x, arcs = np.concatenate([moment.q, moment.v]), []
        for name in self.system.domains:
            here = replace(moment, domain=name)
            d = self.stride.dynamics(here, theta)
            p, _ = d.entered(here, theta, self.stride.contacts(here, theta))
            arcs.append(Arc(d, p, np.full(2, moment.t), x[None, None]))
        return find_sameness(self.stride, theta, arcs).unwound(moment)

    def _crosses(self, crossing: Crossing, moment: Moment, theta: np.ndarray) -> bool:
        """Whether a state on the section goes through it in its direction, where nothing else happens there."""
        if crossing.edge is None or not crossing.edge.marks:
            return True
        d = self.stride.dynamics(moment, theta)
        p, _ = d.entered(moment, theta, self.stride.contacts(moment, theta))
        rate = np.ravel(d.slopes(moment.t, np.concatenate([moment.q, moment.v]), p)[1])[crossing.fired]
        return bool(d.directions[crossing.fired] * rate >= 0)

    def _on_time(self, moment: Moment, same: Sameness, theta: np.ndarray) -> Point:
        """Strides of one period each, from the start's time on, whatever happens on the way."""
        section = Section(self.stride, None, moment, self.relabel, theta)
        parts = [section], [None], same, self.relabel, self.period, self.where, self.step
        self.shooting = Shooting(self.stride, *parts)
        return self._point(same.unwound(moment), theta)

    def _first_event(self, moment: Moment, theta: np.ndarray) -> Moment:
        """State after the first touch, or after the event that was named; the stride goes on to the same again."""

        def there(crossings: list[Crossing]) -> bool:
            name = crossings[-1].name
            return name == self.event if self.event is not None else bool(MEETS.search(name))

        first = self.stride.run(moment, theta, stop=there)
        self.mark = self.relabel.mark(first.crossings[-1])
        return first.end

    def _reduced(self, moment: Moment) -> Moment:
        """The same state without full turns; strides on time begin at the start's, those of no time at zero."""
        same = self.shooting.sameness
        t = self.given.time if self.shooting.events[0] is None else moment.t if same.timed else 0.0
        return same.unwound(replace(moment, t=t))

    def _settled(self, passage: Passage, theta: np.ndarray) -> Passage:
        """The stride after the first, whose events count; the first one if it is the only one to come back."""
        try:
            return self.stride.run(self.relabel.moment(passage.end), theta, stop=self._back)
        except Lost:
            return passage

    def _point(self, first: Moment, theta: np.ndarray) -> Point:
        """Nodes along the motion from a first state."""
        s = self.shooting
        first = s.sections[0].nearest(first, theta)
        if len(s.sections) == 1:
            return Point((first,), theta)
        passage = self.stride.run(first, theta, stop=self._back)
        nodes = [first]
        for section, c in zip(s.sections[1:], passage.crossings[:-1], strict=True):
            nodes.append(section.nearest(self._reduced(c.after), theta))
        return Point(tuple(nodes), theta)

    def _solved(self, point: Point) -> Evaluation:
        """Newton from the guess; if that fails, from where the motion is after some strides."""
        try:
            return newton(self.shooting, point, history=self.history)
        except Lost as problem:
            self._note(problem)
            first_problem = problem
        moment, nearest = point.nodes[0], (np.inf, point.nodes[0])
        try:
            for _ in range(ATTRACT):
                end = self.relabel.moment(self._strode(moment, point.theta).end)
                if self.period is not None and self.shooting.sameness.timed:
                    end = replace(end, t=end.t - self.period * round((end.t - moment.t) / self.period))
                end = self._reduced(end)
                gap = float(np.linalg.norm(self.shooting.sameness.difference(end, moment)))
                nearest = min(nearest, (gap, end), key=lambda pair: pair[0])
                moment = end
        except Lost as problem:
            self._note(problem)
        try:
            return newton(self.shooting, self._point(nearest[1], point.theta), history=self.history)
        except Lost as problem:
            self._note(problem)
            again = "" if str(problem) == str(first_problem) else f"; after up to {ATTRACT} strides forward: {problem}"
            raise self._failure(f"{first_problem}{again}") from problem

    def _strode(self, moment: Moment, theta: np.ndarray) -> Passage:
        """One stride."""
        if self.shooting.events[0] is None:
            return self.shooting.whole(moment, theta)
        return self.stride.run(moment, theta, stop=self._back)

    def _carried(self, found: Evaluation, begin: np.ndarray, goal: np.ndarray) -> Evaluation:
        """Follow an orbit while Params go from where it was found to where it is wanted, in adaptive steps."""
        at, step = 0.0, 0.25
        before: Evaluation | None = None
        was = 0.0
        while at < 1.0:
            to = min(1.0, at + step)
            theta = begin + to * (goal - begin)
            for i in self.stride.rows.params:  # those are found, not given
                theta[i] = found.point.theta[i]
            change = np.zeros(len(self.shooting.vector(found.point)))
            if before is not None:
                ratio = (to - at) / (at - was)
                change = ratio * (self.shooting.vector(found.point) - self.shooting.vector(before.point))
            try:
                guess = self.shooting.moved(Point(found.point.nodes, theta), change)
                found, before, was, at = newton(self.shooting, guess, history=self.history, steps=8), found, at, to
                step *= 1.5
            except SaltusError as problem:
                step /= 2
                if step < 1e-3:
                    raise self._failure(f"carried over {100 * at:.0f} % of the way, then lost: {problem}") from problem
        return found

    def _note(self, problem: Lost) -> None:
        best = problem.data.get("best")
        if best is not None and (self.best is None or best.norm < self.best.norm):
            self.best = best

    def _failure(self, why: str) -> NoOrbit:
        state = None
        if self.best is not None:
            node, values = self.best.point.nodes[0], map(float, self.best.point.theta)
            m = self.system.mechanism
            state = State(m, node.q, node.v, dict(zip(m.params, values, strict=True)))
        return NoOrbit(
            f"no periodic orbit of {self.system.mechanism.name!r} found: {why}. Start nearer to one, run the machine "
            "forward first, or give `coming_from` Params at which it has one",
            history=list(self.history),
            best=state,
        )


def _with_section(system: HybridSystem, domain: Domain, section: Any) -> HybridSystem:
    """Return the system with one more edge, from the domain to itself, that marks the section."""
    if not isinstance(section, When):
        raise BadValue(f"section is a {type(section).__name__}; give sl.When(lambda s: ..., 'falling')", given=section)
    return system.with_edge(Edge(SECTION, domain, domain, section, Continuous()))
