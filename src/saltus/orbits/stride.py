"""Stride: a passage through domains, events and resets as a differentiable map, with saltation at every event."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.contact_problem import NoForces
from saltus.dynamics.impulse import Impact
from saltus.engines import choose as choose_engine
from saltus.engines.port import Request, Stop
from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.ground import Ground
from saltus.hybrid.constrained import Constrained, rare, tree_of
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.laws import law_in, stepwise
from saltus.hybrid.touched import Touched, constrained
from saltus.hybrid.transition import WATCH, Armed, arm, entrance, flow_rows, held, transition
from saltus.orbits.strike import strike
from saltus.orbits.variation import Dynamics, Rows, Variation
from saltus.simulation.contacts import SHARED, Contacts, Now
from saltus.simulation.instant import response, settle

MOST_EVENTS = 200
MOST_IDLE = 2_000  # guards that fire and change nothing, in one stay
MOST_STEPS = 20_000  # of the integrator in one stay in a domain
BEYOND = 1e-7  # m, m/s or of the weight: by so much a state may miss the modes of its contacts
FAR = 100  # last digits of a coordinate that a tolerance has to be above


class Lost(SaltusError):
    """A passage that does not come back: it ended, stalled or took too long. `reason` says which."""


@dataclass(frozen=True, eq=False)
class Moment:
    """State just after an event: time (s), positions and velocities, in a domain entered then.

    `contacts` are those that have modes of their own, as they are then.
    """

    domain: str
    t: float
    q: np.ndarray
    v: np.ndarray
    contacts: tuple[Now, ...] = ()

    @property
    def modes(self) -> tuple[str, ...]:
        """Of such contacts: open, stick or slip."""
        return tuple(one.mode for one in self.contacts)


@dataclass(frozen=True, eq=False)
class Crossing:
    """One event of a passage: the guard that fired, the states before and after, the impact if there was one.

    `edge` is the one taken; None where contacts changed their modes. `by` is the derivative of (q, v) after it with
    respect to (t, q, v, Params) before, None unless columns were asked for. `tied`: several contacts met at once.
    """

    name: str
    edge: Edge | None
    fired: int
    before: Moment
    p_before: np.ndarray
    after: Moment
    impact: Impact | None
    by: np.ndarray | None = None
    tied: bool = False

    @property
    def t(self) -> float:
        """Its time (s)."""
        return self.after.t

    @property
    def mark(self) -> Hashable:
        """What it shares with the same event of another stride."""
        return self.name, id(self.edge) if self.edge is not None else self.after.modes


@dataclass(frozen=True, eq=False)
class Arc:
    """Stay in one domain: piecewise polynomials of x = (q, v), and the run-time parameters."""

    dynamics: Dynamics
    p: np.ndarray
    breaks: np.ndarray
    coefficients: np.ndarray
    modes: tuple[str, ...] = ()

    @property
    def duration(self) -> float:
        """Time spent (s)."""
        return float(self.breaks[-1] - self.breaks[0])

    def sampled(self, each: int = 8) -> tuple[np.ndarray, np.ndarray]:
        """Times and states, `each` a step of the integrator and the end."""
        s = np.arange(each) / each
        powers = s[:, None] ** np.arange(self.coefficients.shape[1])
        x = np.einsum("sj,kjn->ksn", powers, self.coefficients).reshape(-1, self.coefficients.shape[2])
        t = (self.breaks[:-1, None] + s * np.diff(self.breaks)[:, None]).ravel()
        return np.append(t, self.breaks[-1]), np.vstack([x, self.coefficients[-1].sum(axis=0)])


@dataclass(frozen=True, eq=False)
class Passage:
    """A finished passage. `Y` are columns (dt, dq, dv, dParams) at the last event, which moves with them;
    `flow` columns (dq, dv) at its fixed time, in the domain just entered."""

    start: Moment
    end: Moment
    crossings: list[Crossing]
    arcs: list[Arc]
    Y: np.ndarray
    flow: np.ndarray
    dt: list[np.ndarray]  # shift of the time of each event and of the end, one entry per column

    @property
    def duration(self) -> float:
        """Time from start to end (s)."""
        return self.end.t - self.start.t

    def time_in(self, domain: str) -> float:
        """Time spent in a domain (s)."""
        return sum(a.duration for a in self.arcs if a.dynamics.domain.name == domain)

    def wrong_sides(self) -> list[str]:
        """What unilateral contact forbids: the ground pulling, a foot below it; one text per violation."""
        out = []
        for arc in self.arcs:
            if len(arc.breaks) < 2:
                continue
            t, x = arc.sampled(4)
            clearances = np.array([arc.dynamics.clearances(ti, xi, arc.p) for ti, xi in zip(t, x, strict=True)])
            for kind, values in zip(arc.dynamics.clearance_kinds, clearances.reshape(len(t), -1).T, strict=True):
                worst = float(values.min())
                if worst < -1e-7 * max(1.0, float(np.abs(values).max())):
                    out.append(kind.format(-worst) + f" in {arc.dynamics.domain.name!r}")
        return out


def after(count: int) -> Callable[[list[Crossing]], bool]:
    """What ends a passage after so many events."""
    return lambda crossings: len(crossings) == count


class Stride:
    """Runs passages of a system under one control, with columns for chosen Params.

    Of a machine whose contacts have modes of their own, `ground` is what its feet meet.
    """

    def __init__(
        self,
        system: HybridSystem,
        control: Any = None,
        params: tuple[str, ...] = (),
        *,
        tolerance: float = 1e-11,
        engine: str | None = None,
        longest: float = 20.0,
        ground: Ground | None = None,
    ) -> None:
        if (found := stepwise(control)) is not None:
            raise BadValue(
                f"a {type(found).__name__} controller changes its numbers in steps, which strides do not "
                "differentiate; give a plain function (t, s), which is traced into symbols"
            )
        m = system.mechanism
        for name in params:
            if name not in m.params:
                raise UnknownName("param", name, m.params)
        self.system, self.control, self.params = system, control, params
        self.tolerance, self.longest, self.ground = tolerance, longest, ground
        self.engine = choose_engine(engine)
        self._dynamics: dict[tuple[str, tuple[int, ...]], Dynamics] = {}
        self.rows = Rows(len(m.q_names), len(m.v_names), tuple(list(m.params).index(n) for n in params))

    def like(self, params: tuple[str, ...], tolerance: float | None = None) -> Stride:
        """Return the same with columns for other Params, or with another tolerance."""
        return Stride(
            self.system,
            self.control,
            params,
            tolerance=tolerance or self.tolerance,
            engine=self.engine.name,
            longest=self.longest,
            ground=self.ground,
        )

    # ---- pieces, made once per system -------------------------------------------------------------------------

    def constrained(self, domain: Domain) -> Constrained:
        """Equations of a domain."""
        return constrained(self.system, domain)

    def dynamics(self, moment: Moment, theta: np.ndarray) -> Dynamics:
        """Flow of a domain with constraint rows that are independent at a state."""
        domain = self.system.domains[moment.domain]
        c = self.constrained(domain)
        rows = flow_rows(c, moment.t, moment.q, np.concatenate([theta, np.zeros(c.anchors.numel())]))
        key = (domain.name, rows)
        if key not in self._dynamics:
            self._dynamics[key] = Dynamics(c, rows, law_in(self.control, domain.name))
        return self._dynamics[key]

    def variation(self, dynamics: Dynamics, columns: int) -> Variation:
        """Flow with columns."""
        key = ("variation", *dynamics.key, self.rows.params if columns else (), columns, self.engine.name)
        return self.system.once(key, lambda: Variation(dynamics, self.rows.params, columns, self.engine))

    def settled(self, domain: Domain, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray) -> Moment:
        """A state put onto the constraints of a domain, contacts held where they are."""
        c = self.constrained(domain)
        if isinstance(c, Touched):
            return self._touching(c, t, q, v, theta)
        out = entrance(c).settle(t, q, v, theta, held(c, t, q, v, theta))
        return Moment(domain.name, t, out.q, out.v)

    def contacts(self, moment: Moment, theta: np.ndarray) -> Contacts | None:
        """Contacts with modes of their own, as they are at a moment."""
        c = self.constrained(self.system.domains[moment.domain])
        if not isinstance(c, Touched):
            return None
        out = Contacts(c, self.ground or c.terrain, theta)
        out.restore(moment.contacts)
        out.turn(moment.t, moment.q, moment.v)
        return out

    def _touching(self, c: Touched, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray) -> Moment:
        """A state with the modes that the laws of contact give it."""
        contacts = Contacts(c, self.ground or c.terrain, theta, self.tolerance)
        contacts.begin(t, q, v)
        out = entrance(c).settle(t, q, v, theta, contacts.base)
        moment = Moment(c.domain.name, t, out.q, out.v, contacts.kept)
        d = self.dynamics(moment, theta)
        p, _ = d.entered(moment, theta, contacts)
        met = settle(contacts, t, out.q, out.v, response(d.mode, t, p))
        out = entrance(c).settle(t, out.q, met.v, theta, contacts.base)
        return Moment(c.domain.name, t, out.q, out.v, contacts.kept)

    # ---- running ------------------------------------------------------------------------------------------------

    def run(
        self,
        start: Moment,
        theta: np.ndarray,
        Y: np.ndarray | None = None,
        *,
        stop: Callable[[list[Crossing]], bool] | None = None,
        until: float = math.inf,
    ) -> Passage:
        """Go on from event to event until `stop` says so, or until a time (s); Lost if the motion never gets there."""
        rows = self.rows
        Y = np.zeros((rows.n, 0)) if Y is None else np.asarray(Y, float)
        moment, crossings, arcs, dt = start, [], [], []
        while True:
            stay = _Stay(self, moment, theta, Y, min(until, start.t + self.longest))
            crossing, Y = stay.go(on_time=math.isfinite(until))
            arcs.append(stay.arc)
            if crossing is None:
                moment = stay.end
                dt.append(np.zeros(Y.shape[1]))  # its time is given
                break
            crossings.append(crossing)
            dt.append(Y[rows.t].copy())
            moment = crossing.after
            if stop is not None and stop(crossings):
                break
            if len(crossings) >= MOST_EVENTS:
                raise Lost(f"{MOST_EVENTS} events without coming back; the motion chatters", reason="chattering")
        after = self.dynamics(moment, theta)
        p, _ = after.entered(moment, theta, self.contacts(moment, theta))
        f = after.rates(moment.t, np.concatenate([moment.q, moment.v]), p)[0]
        return Passage(start, moment, crossings, arcs, Y, Y[rows.x] - np.outer(f, Y[rows.t]), dt)

    def at_event(
        self,
        variation: Variation,
        fired: int,
        t: float,
        x: np.ndarray,
        p: np.ndarray,
        Phi: np.ndarray,
        Pi: np.ndarray,
        Y: np.ndarray,
    ) -> np.ndarray:
        """Columns at the event that moves with them: dt = -(g_x dx + g_p dp) / (dg/dt), x there dx + f dt."""
        rows, Y = self.rows, Y.copy()
        if not Y.shape[1]:
            return Y
        f, _, g_t, g_x, g_p = variation.crossing(t, x, p)
        g_x = g_x.reshape(-1, len(x))[fired]
        g_p = g_p.reshape(-1, len(variation.active))[fired] if variation.active else np.zeros(0)
        rate = float(np.ravel(g_t)[fired] + g_x @ f)
        dt = -(g_x @ Phi + g_p @ Pi) / rate
        Y[rows.t], Y[rows.x] = dt, Phi + np.outer(f, dt)
        return Y


class _Stay:
    """From just after an event to just after the next, with columns."""

    def __init__(self, stride: Stride, moment: Moment, theta: np.ndarray, Y: np.ndarray, t_end: float) -> None:
        self.stride, self.moment, self.theta, self.t_end = stride, moment, theta, t_end
        self.d = d = stride.dynamics(moment, theta)
        self.contacts = stride.contacts(moment, theta)
        self.variation = stride.variation(d, Y.shape[1])
        self.Y, rows, t = Y, stride.rows, moment.t
        self.x = np.concatenate([moment.q, moment.v])
        self.p, self.remembered = d.entered(moment, theta, self.contacts)
        self.Pi, self.Phi = np.zeros((len(self.variation.active), Y.shape[1])), np.zeros((len(self.x), Y.shape[1]))
        if Y.shape[1]:
            self.Pi = self.remembered[self.variation.active][:, rows.among_all] @ Y
            self.Phi = Y[rows.x] - np.outer(d.rates(t, self.x, self.p)[0], Y[rows.t])
        self.rooms: dict[int, float] = {}
        self.idle = 0
        self.begin, self.breaks, self.pieces = t, [np.array([t])], list[np.ndarray]()

    @property
    def arc(self) -> Arc:
        """What was run."""
        pieces = np.concatenate(self.pieces) if self.pieces else np.zeros((0, 8, self.d.n))
        return Arc(self.d, self.p, np.concatenate(self.breaks), pieces, self.moment.modes)

    @property
    def t(self) -> float:
        """Time it has come to (s)."""
        return float(self.breaks[-1][-1])

    @property
    def end(self) -> Moment:
        """State it has come to, contacts as they were."""
        nq = self.stride.rows.nq
        return Moment(self.moment.domain, self.t, self.x[:nq], self.x[nq:], self.moment.contacts)

    def go(self, *, on_time: bool) -> tuple[Crossing | None, np.ndarray]:
        """Run to the next event and across it; None if the time ends first."""
        rows = self.stride.rows
        while True:
            fired, watched = self._flow(on_time)
            if not fired:
                Y = self.Y.copy()
                Y[rows.t], Y[rows.x] = 0.0, self.Phi
                return None, Y
            edges = [i for i in fired if i < len(self.d.edges)]
            if edges and min(edges) in watched:
                name = self.d.edges[min(edges)].name
                raise Lost(f"{name!r} comes at t = {self.t:.4g} s without having been left", reason="grazing")
            crossing = self._edge(min(edges)) if edges else self._met(fired, watched)
            if crossing is None:
                continue
            Y = self.stride.at_event(self.variation, crossing.fired, self.t, self.x, self.p, self.Phi, self.Pi, self.Y)
            return crossing, Y if crossing.by is None else rows.moved(Y, crossing.by)

    def _edge(self, fired: int) -> Crossing:
        """Take an edge."""
        edge, before, theta = self.d.edges[fired], self.end, self.theta
        if edge.target is None:
            raise Lost(f"it ended with {edge.name!r} at t = {self.t:.4g} s", reason=edge.name)
        if self.contacts is not None:  # a mark: nothing changes
            by = np.eye(1 + len(self.x) + len(theta))[1 : 1 + len(self.x)]
            return Crossing(edge.name, edge, fired, before, self.p, before, None, by)
        way = transition(self.stride.system, edge)
        _check(edge, way.smooth)
        out = way.apply(self.t, before.q, before.v, theta, slope=self.Y.shape[1] > 0)
        after = Moment(edge.target.name, self.t, out.q, out.v)
        return Crossing(edge.name, edge, fired, before, self.p, after, out.impact, out.slope)

    def _met(self, fired: list[int], watched: list[int]) -> Crossing | None:
        """Let contacts change their modes; None if they do not, and the motion goes on."""
        contacts, first, before = self.contacts, len(self.d.edges), self.end
        own = [i - first for i in fired if i < self.d.mode.n_own]
        if contacts is None or not own:
            what = "a contact comes to rest" if own else "rows of the loops become dependent"
            raise Lost(
                f"{what} at t = {self.t:.4g} s in {self.d.domain.name!r}", reason="slip ended" if own else "singular"
            )
        c, t, q, v, kept = contacts.c, self.t, before.q, before.v, contacts.kept
        try:
            out = settle(contacts, t, q, v, response(self.d.mode, t, self.p), own)
        except NoForces as problem:
            raise Lost(f"at t = {t:.4g} s {problem}", reason=problem.data["kind"]) from problem
        pairs = zip(contacts.now, kept, strict=True)
        passed = [(one.element.name, "passes on") for one, was in pairs if one.passed(was)]
        if not out.changes and out.impact is None and not passed:
            self.rooms |= {k: self.rooms.get(k, WATCH) * 10 for k in own}
            self.p, self.remembered = self.d.entered(self.moment, self.theta, contacts)  # open feet see other ground
            self.idle += 1
            if self.idle > MOST_IDLE:
                what, i = c.watched[own[0]]
                who = c.elements[i].name if i >= 0 else "a contact"
                raise Lost(f"{who} asks for a change again and again at t = {t:.4g} s ({what})", reason="chattering")
            return None
        changes = out.changes or passed or [(c.elements[c.watched[own[0]][1]].name, "touches")]
        name = ", ".join(" ".join(change) for change in changes)
        caused = _cause(c, own, changes)
        at_corner = c.watched[caused][0] == "patch"  # another piece is met there, which is no change of the motion
        if first + caused in watched and caused not in self.rooms and not at_corner:
            raise Lost(f"{name} at t = {t:.4g} s, where it was on the verge of it already", reason="grazing")
        by = strike(c).slope(t, q, v, contacts, self._by_params, out) if self.Y.shape[1] else None
        settled = entrance(c).settle(t, q, out.v, self.theta, contacts.base)
        after = Moment(before.domain, t, settled.q, settled.v, contacts.kept)
        met = [c.watched[k] for k in own]
        tied = len({c.elements[i].part.name for what, i in met if what == "normal"}) > 1
        return Crossing(name, None, first + caused, before, self.p, after, out.impact, by, tied)

    @property
    def _by_params(self) -> np.ndarray:
        """How the contacts' block moves with the Params."""
        rows, theta = self.d.layout.slice("anchors"), self.theta
        return self.remembered[rows, self.remembered.shape[1] - len(theta) :]

    def _armed(self) -> Armed:
        if not len(self.d.directions):
            return Armed(np.zeros(0, bool))
        g, rate = (np.ravel(value) for value in self.d.slopes(self.t, self.x, self.p))
        out = arm(g, rate, self.d.directions, self.d.edges)
        if self.contacts is None:
            return out
        first = len(self.d.edges)
        self.rooms = {k: room for k, room in self.rooms.items() if g[first + k] < max(room, SHARED)}
        beyond = [k for k, value in enumerate(g[first : self.d.mode.n_own]) if value < -BEYOND]
        if beyond and self.t == self.begin:
            what, i = self.contacts.c.watched[beyond[0]]
            name = self.contacts.c.elements[i].name if i >= 0 else "a contact"
            raise Lost(f"{name} is not as the sequence has it at t = {self.t:.4g} s ({what})", reason="other events")
        return self.contacts.watch(g, first, out, self.rooms)

    def _far(self) -> str:
        """Which coordinate has become so large that its last digit is not far below the tolerance."""
        q, names = np.abs(self.x[: self.stride.rows.nq]), self.stride.system.mechanism.q_names
        worst, tol = int(q.argmax()) if len(q) else 0, self.stride.tolerance
        if not len(q) or FAR * np.spacing(q[worst]) < tol:
            return ""
        return (
            f": {names[worst]} is {self.x[worst]:.4g} (rad or m), whose last digit is too large for a tolerance of "
            f"{tol:g}; start where it is smaller, or give a larger `tolerance`"
        )

    def _jump(self) -> str:
        """What lets steps shrink without end but a singular motion: across a jump their error falls with the step."""
        tol = self.stride.tolerance
        return (
            f": derivatives jump there, as where a motor comes to a limit, by more than steps of a tolerance of {tol:g}"
            f" pass, or the motion is singular; give tolerance={10 * tol:g}"
        )

    def _flow(self, on_time: bool) -> tuple[list[int], list[int]]:
        """Let the engine run until guards fire: their numbers, and those still watched; none where the time ends."""
        d, rows, tol, p, Pi = self.d, self.stride.rows, self.stride.tolerance, self.p, self.Pi
        n = d.n
        shift = d.layout.slice("shift")
        p[shift] = 0.0
        guards = self._armed()
        if guards.at_once is not None:
            return [guards.at_once], []
        armed = guards.armed
        guards.put(p[shift])
        state = np.concatenate([self.x, self.Phi.ravel("F")])
        atol = np.full(len(state), tol)
        rtol = np.concatenate([np.zeros(rows.nq), np.full(len(state) - rows.nq, tol)])
        step = 0.0
        while True:
            request = Request(
                self.t,
                state,
                np.concatenate([p, Pi.ravel("F")]),
                self.t_end,
                atol,
                rtol,
                d.directions,
                armed,
                step=step,
                max_steps=MOST_STEPS,
                shift=shift,
            )
            segment = self.variation.stepper.run(request)
            p[shift][list(segment.left)] = 0.0
            if len(segment.breaks) > 1:
                self.breaks.append(segment.breaks[1:])
                self.pieces.append(segment.coefficients[:, :, :n])
            state, armed, step = segment.x, segment.armed, segment.step
            self.x, self.Phi = state[:n].copy(), state[n:].reshape(n, -1, order="F")
            if segment.stop is Stop.EVENT:
                return list(segment.fired), np.flatnonzero(p[shift]).tolist()
            if segment.stop is Stop.LIMIT and sum(map(len, self.breaks)) > MOST_STEPS:
                raise Lost(
                    f"{MOST_STEPS} steps bring it from t = {self.begin:.4g} s to {self.t:.4g} s only, in "
                    f"{d.domain.name!r}: round-off or stiffness, as of links far lighter than others{self._far()}",
                    reason="too many steps",
                )
            if segment.stop in (Stop.NOT_FINITE, Stop.STEP_TOO_SMALL):
                why = self._far() or (self._jump() if segment.stop is Stop.STEP_TOO_SMALL else "")
                raise Lost(f"{segment.stop.value} at t = {self.t:.4g} s in {d.domain.name!r}{why}", reason="singular")
            if segment.stop is Stop.END and on_time:
                return [], []
            if segment.stop is Stop.END:
                raise Lost(
                    f"it stays in {d.domain.name!r} from t = {self.begin:.4g} s on: no edge fires within "
                    f"{self.stride.longest:g} s",
                    reason="no event",
                )


def _cause(c: Touched, fired: list[int], changes: list[tuple[str, str]]) -> int:
    """Which of the guards that fired makes the first change: a normal force that ends takes its friction along."""
    for name, word in changes:
        wanted = "slip" if word in ("sticks", "slips", "turns back") else "normal"
        for k in fired:
            what, i = c.watched[k]
            if what == wanted and c.elements[i].name == name:
                return k
    return fired[0]


def _check(edge: Edge, smooth: bool) -> None:
    """Refuse an event that has no derivative."""
    if smooth:
        return
    if len(edge.candidates) > 1:
        raise BadValue(
            f"edge {edge.name!r} lets the impact choose between {', '.join(d.name for d in edge.candidates)}, which "
            "has no derivative; write one edge for the domain the gait enters",
            edge=edge.name,
        )
    raise BadValue(
        f"edge {edge.name!r}: a {type(edge.reset).__name__} reset has no derivative here; orbits know Continuous, "
        "PlasticImpact and Map",
        edge=edge.name,
    )


def heights(system: HybridSystem, point: str) -> Kernel:
    """Height of a point (m) at (t, q, Params)."""

    def make() -> Kernel:
        e, up = tree_of(system), 2 if system.mechanism.spatial else 1
        height = ca.densify(e.position(point))[up] - system.ground
        return rare("height", [e.t, e.q, system.mechanism.p], [height])

    return system.once(("height", point), make)
