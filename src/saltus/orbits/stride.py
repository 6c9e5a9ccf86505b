"""Stride: a passage through domains, events and resets as a differentiable map, with saltation at every event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.impulse import Impact
from saltus.engines import choose as choose_engine
from saltus.engines.port import Request, Stop
from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.hybrid.constrained import Constrained, rare, tree_of
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.laws import law_in, stepwise
from saltus.hybrid.touched import constrained
from saltus.hybrid.transition import Armed, Passed, Watch, arm, choose_rows, entrance, held, transition
from saltus.orbits.variation import Dynamics, Rows, Variation

MOST_EVENTS = 200
MOST_STEPS = 20_000  # of the integrator in one stay in a domain
FIRST = 20  # steps per call to the engine while a guard is watched from its surface


class Lost(SaltusError):
    """A passage that does not come back: it ended, stalled or took too long. `reason` says which."""


@dataclass(frozen=True, eq=False)
class Moment:
    """State just after an event: time (s), positions and velocities, in a domain entered then."""

    domain: str
    t: float
    q: np.ndarray
    v: np.ndarray


@dataclass(frozen=True, eq=False)
class Crossing:
    """One event of a passage: the edge taken, the states before and after, the impact if there was one."""

    edge: Edge
    t: float
    q_before: np.ndarray
    v_before: np.ndarray
    p_before: np.ndarray
    q: np.ndarray
    v: np.ndarray
    impact: Impact | None


@dataclass(frozen=True, eq=False)
class Arc:
    """Stay in one domain: piecewise polynomials of x = (q, v), and the run-time parameters."""

    dynamics: Dynamics
    p: np.ndarray
    breaks: np.ndarray
    coefficients: np.ndarray

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
    dt: list[np.ndarray]  # shift of the time of each event, one entry a column

    @property
    def duration(self) -> float:
        """Time from start to end (s)."""
        return self.end.t - self.start.t

    def time_in(self, domain: str) -> float:
        """Time spent in a domain (s)."""
        return sum(a.duration for a in self.arcs if a.dynamics.domain.name == domain)

    def wrong_sides(self) -> list[str]:
        """What unilateral contact forbids: the ground pulling, a foot below it; one text a violation."""
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


class Stride:
    """Runs passages of a system under one control, with columns for chosen Params."""

    def __init__(
        self,
        system: HybridSystem,
        control: Any = None,
        params: tuple[str, ...] = (),
        *,
        tolerance: float = 1e-11,
        engine: str | None = None,
        longest: float = 20.0,
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
        self.tolerance, self.longest = tolerance, longest
        self.engine = choose_engine(engine)
        self._dynamics: dict[tuple[str, tuple[int, ...]], Dynamics] = {}
        self.rows = Rows(len(m.q_names), len(m.v_names), tuple(list(m.params).index(n) for n in params))

    def with_params(self, params: tuple[str, ...]) -> Stride:
        """Return the same with columns for other Params."""
        return Stride(
            self.system, self.control, params, tolerance=self.tolerance, engine=self.engine.name, longest=self.longest
        )

    # ---- pieces, made once per system -------------------------------------------------------------------------

    def constrained(self, domain: Domain) -> Constrained:
        """Equations of a domain."""
        return constrained(self.system, domain)

    def dynamics(self, domain: Domain, t: float, q: np.ndarray, theta: np.ndarray) -> Dynamics:
        """Flow of a domain with constraint rows that are independent at q."""
        c = self.constrained(domain)
        rows = choose_rows(c, t, q, np.concatenate([theta, np.zeros(c.anchors.numel())]))
        key = (domain.name, rows)
        if key not in self._dynamics:
            self._dynamics[key] = Dynamics(c, rows, law_in(self.control, domain.name))
        return self._dynamics[key]

    def variation(self, dynamics: Dynamics, columns: int) -> Variation:
        """Flow with columns."""
        key = ("variation", *dynamics.key, self.rows.params if columns else (), columns, self.engine.name)
        return self.system.once(key, lambda: Variation(dynamics, self.rows.params, columns, self.engine))

    def settled(self, domain: Domain, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray) -> Passed:
        """A state put onto the constraints of a domain, contacts held where they are."""
        c = self.constrained(domain)
        return entrance(c).settle(t, q, v, theta, held(c, t, q, v, theta))

    # ---- running ------------------------------------------------------------------------------------------------

    def run(
        self,
        start: Moment,
        theta: np.ndarray,
        Y: np.ndarray | None = None,
        *,
        stop: Callable[[list[Crossing]], bool],
    ) -> Passage:
        """Go on from event to event until `stop` says so; Lost if the motion never gets there."""
        rows = self.rows
        Y = np.zeros((rows.n, 0)) if Y is None else np.asarray(Y, float)
        moment, crossings, arcs, dt = start, [], [], []
        while True:
            domain = self.system.domains[moment.domain]
            dynamics = self.dynamics(domain, moment.t, moment.q, theta)
            crossing, arc, Y = self._stay(dynamics, moment, theta, Y, start.t + self.longest)
            crossings.append(crossing)
            arcs.append(arc)
            dt.append(Y[rows.t].copy())
            if crossing.edge.target is None:
                raise Lost(f"it ended with {crossing.edge.name!r} at t = {crossing.t:.4g} s", reason=crossing.edge.name)
            moment = Moment(crossing.edge.target.name, crossing.t, crossing.q, crossing.v)
            if stop(crossings):
                break
            if len(crossings) >= MOST_EVENTS:
                raise Lost(f"{MOST_EVENTS} events without coming back; the motion chatters", reason="chattering")
        after = self.dynamics(self.system.domains[moment.domain], moment.t, moment.q, theta)
        p = np.ravel(after.entry(moment.t, moment.q, moment.v, theta)[0])
        f = after.rates(moment.t, np.concatenate([moment.q, moment.v]), p)[0]
        return Passage(start, moment, crossings, arcs, Y, Y[rows.x] - np.outer(f, Y[rows.t]), dt)

    def _stay(
        self, dynamics: Dynamics, moment: Moment, theta: np.ndarray, Y: np.ndarray, t_end: float
    ) -> tuple[Crossing, Arc, np.ndarray]:
        """From just after an event to just after the next."""
        rows, columns = self.rows, Y.shape[1]
        variation = self.variation(dynamics, columns)
        x, t = np.concatenate([moment.q, moment.v]), moment.t
        Pi, Phi = np.zeros((len(variation.active), columns)), np.zeros((len(x), columns))
        p, remembered = dynamics.entry(t, moment.q, moment.v, theta)
        p = np.ravel(p).copy()
        if columns:
            remembered = np.reshape(remembered, (len(p), -1))
            Pi = remembered[variation.active][:, rows.among_all] @ Y
            Phi = Y[rows.x] - np.outer(dynamics.rates(t, x, p)[0], Y[rows.t])
        fired, t, x, Phi, arc = self._flow(variation, t, x, p, Phi, Pi, t_end)
        edge = dynamics.edges[fired]
        way = transition(self.system, edge)
        _check(edge, way.smooth)
        Y = self.at_event(variation, fired, t, x, p, Phi, Pi, Y)
        q, v = x[: rows.nq], x[rows.nq :]
        after = way.apply(t, q, v, theta, slope=columns > 0)
        if after.slope is not None:
            Y = rows.moved(Y, after.slope)
        return Crossing(edge, t, q, v, p, after.q, after.v, after.impact), arc, Y

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

    def _flow(
        self,
        variation: Variation,
        t: float,
        x: np.ndarray,
        p: np.ndarray,
        Phi: np.ndarray,
        Pi: np.ndarray,
        t_end: float,
    ) -> tuple[int, float, np.ndarray, np.ndarray, Arc]:
        """Let the engine run until an edge's guard fires; its number."""
        d, rows, tol = variation.dynamics, self.rows, self.tolerance
        n, edges = d.n, len(d.edges)
        guards = self._armed(d, t, x, p)
        if guards.at_once is not None:
            return guards.at_once, t, x, Phi, Arc(d, p, np.array([t]), np.zeros((0, 8, n)))
        armed, watch = guards.armed, Watch(guards, d.mode, p)
        state = np.concatenate([x, Phi.ravel("F")])
        atol = np.full(len(state), tol)
        rtol = np.concatenate([np.zeros(rows.nq), np.full(len(state) - rows.nq, tol)])
        begin, breaks, pieces = t, [np.array([t])], []
        step = 0.0
        while True:
            request = Request(
                t,
                state,
                np.concatenate([p, Pi.ravel("F")]),
                t_end,
                atol,
                rtol,
                d.directions,
                armed,
                step=step,
                max_steps=FIRST if watch.watched else MOST_STEPS,
            )
            segment = variation.stepper.run(request)
            away = watch.left(replace(segment, coefficients=segment.coefficients[:, :, :n]))
            if any(i in away for i in segment.fired):  # it left and came back: again, to its own surface
                armed = request.armed.copy()
                armed[away] = False
                continue
            if len(segment.breaks) > 1:
                breaks.append(segment.breaks[1:])
                pieces.append(segment.coefficients[:, :, :n])
            t, state, armed, step = float(segment.breaks[-1]), segment.x, segment.armed, segment.step
            fired = [i for i in segment.fired if i < edges]
            if segment.stop is Stop.EVENT and fired and min(fired) in watch.watched:
                name = d.edges[min(fired)].name
                raise Lost(f"{name!r} comes at t = {t:.4g} s without having been left", reason="grazing")
            if segment.stop is Stop.EVENT and fired:
                arc = Arc(d, p, np.concatenate(breaks), np.concatenate(pieces))
                return min(fired), t, state[:n].copy(), state[n:].reshape(n, -1, order="F"), arc
            if segment.stop is Stop.EVENT:
                raise Lost(f"a contact comes to rest at t = {t:.4g} s in {d.domain.name!r}", reason="slip ended")
            if segment.stop is Stop.LIMIT and sum(map(len, breaks)) > MOST_STEPS:
                raise Lost(
                    f"{MOST_STEPS} steps bring it from t = {begin:.4g} s to {t:.4g} s only, in {d.domain.name!r}: "
                    "round-off or stiffness, as of links far lighter than others",
                    reason="too many steps",
                )
            if segment.stop in (Stop.NOT_FINITE, Stop.STEP_TOO_SMALL):
                raise Lost(f"{segment.stop.value} at t = {t:.4g} s in {d.domain.name!r}", reason="singular")
            if segment.stop is Stop.END:
                raise Lost(
                    f"it stays in {d.domain.name!r} from t = {begin:.4g} s on: no edge fires within {self.longest:g} s",
                    reason="no event",
                )

    @staticmethod
    def _armed(d: Dynamics, t: float, x: np.ndarray, p: np.ndarray) -> Armed:
        if not len(d.directions):
            return Armed(np.zeros(0, bool))
        g, rate = (np.ravel(value) for value in d.slopes(t, x, p))
        return arm(g, rate, d.directions, d.edges)


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
