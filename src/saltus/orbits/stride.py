"""Stride: a passage through domains, events and resets as a differentiable map, with saltation at every event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.impulse import Impact
from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.hybrid.graph import Continuous, Domain, Edge, HybridSystem, Map, PlasticImpact
from saltus.hybrid.laws import stepwise
from saltus.hybrid.mode import Stage
from saltus.model.rank import independent_rows
from saltus.orbits.variation import Dynamics, Entrance, Reset, Rows, Variation
from saltus.simulation.engines import choose as choose_engine
from saltus.simulation.engines.port import Request, Stop

MOST_EVENTS = 200
MOST_STEPS = 20_000  # of the integrator in one stay in a domain


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
        self.rows = Rows(len(m.q_names), len(m.v_names), tuple(list(m.params).index(n) for n in params))

    def with_params(self, params: tuple[str, ...]) -> Stride:
        """Return the same with columns for other Params."""
        return Stride(
            self.system, self.control, params, tolerance=self.tolerance, engine=self.engine.name, longest=self.longest
        )

    # ---- pieces, made once a system ---------------------------------------------------------------------------

    def stage(self, domain: Domain) -> Stage:
        """Equations of a domain."""
        return self.system.once(("stage", domain.name), lambda: Stage(self.system, domain))

    def _rows(self, stage: Stage, t: float, q: np.ndarray, theta: np.ndarray) -> tuple[int, ...]:
        """Constraint rows that are independent at q; looked for anew only where some depend on others."""
        key, kept = ("rows", stage.domain.name), self.system.programs
        rows: tuple[int, ...] | None = kept.get(key)
        if rows is None:
            base = np.concatenate([theta, np.zeros(stage.anchors.numel())])
            rows = tuple(independent_rows(stage.closure(t, q, base)[1])) if stage.equations.phi.numel() else ()
            if len(rows) == len(set(ca.sparsify(stage.equations.J).sparsity().get_triplet()[0])):
                kept[key] = rows
        return rows

    def dynamics(self, domain: Domain, t: float, q: np.ndarray, theta: np.ndarray) -> Dynamics:
        """Flow of a domain with constraint rows that are independent at q."""
        stage = self.stage(domain)
        rows = self._rows(stage, t, q, theta)
        key = ("dynamics", domain.name, rows, self.control, len(self.system.leaving(domain)))
        return self.system.once(key, lambda: Dynamics(stage, rows, self.control))

    def variation(self, dynamics: Dynamics, columns: int) -> Variation:
        """Flow with columns."""
        key = ("variation", id(dynamics), self.rows.params if columns else (), columns, self.engine.name)
        return self.system.once(key, lambda: Variation(dynamics, self.rows.params, columns, self.engine))

    def entrance(self, domain: Domain, dynamics: Dynamics) -> Entrance:
        """Way into a domain."""
        layout = dynamics.layout
        return self.system.once(("entrance", domain.name, layout.sizes), lambda: Entrance(self.stage(domain), layout))

    def reset(self, edge: Edge) -> Reset:
        """A user's Map, differentiable."""
        return self.system.once(("reset", id(edge)), lambda: Reset(self.stage(edge.source), edge))

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
        p = self.entrance(after.domain, after).remember(moment.t, moment.q, moment.v, theta)
        f = after.rates(moment.t, np.concatenate([moment.q, moment.v]), p)[0]
        return Passage(start, moment, crossings, arcs, Y, Y[rows.x] - np.outer(f, Y[rows.t]), dt)

    def _stay(
        self, dynamics: Dynamics, moment: Moment, theta: np.ndarray, Y: np.ndarray, t_end: float
    ) -> tuple[Crossing, Arc, np.ndarray]:
        """From just after an event to just after the next."""
        rows, columns = self.rows, Y.shape[1]
        variation = self.variation(dynamics, columns)
        entrance = self.entrance(dynamics.domain, dynamics)
        x, t = np.concatenate([moment.q, moment.v]), moment.t
        Pi = np.zeros((len(variation.active), columns))
        if columns:
            p, remembered = entrance.entry(t, moment.q, moment.v, theta)
            Pi = remembered[variation.active][:, rows.among_all] @ Y
            Phi = Y[rows.x] - np.outer(dynamics.rates(t, x, p)[0], Y[rows.t])
        else:
            p, Phi = entrance.remember(t, moment.q, moment.v, theta), np.zeros((len(x), 0))
        fired, t, x, Phi, arc = self._flow(variation, t, x, p, Phi, Pi, t_end)
        edge = dynamics.edges[fired]
        _check(edge)
        Y = self.at_event(variation, fired, t, x, p, Phi, Pi, Y)
        q, v = x[: rows.nq], x[rows.nq :]
        after_q, after_v, impact = q, v, None
        if isinstance(edge.reset, Map):
            after_q, after_v, Y = self.reset(edge).apply(t, q, v, theta, Y, rows)
        if edge.target is not None:
            into = self.dynamics(edge.target, t, after_q, theta)
            way = self.entrance(edge.target, into)
            after_q, after_v, Y, impact = way.settle(edge, into.kept, t, after_q, after_v, theta, Y, rows)
        return Crossing(edge, t, q, v, p, after_q, after_v, impact), arc, Y

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
        armed, at_once = self._armed(d, t, x, p)
        none = np.zeros((0, 8, n))
        if at_once is not None:
            return at_once, t, x, Phi, Arc(d, p, np.array([t]), none)
        state = np.concatenate([x, Phi.ravel("F")])
        parameters = np.concatenate([p, Pi.ravel("F")])
        atol = np.full(len(state), tol)
        rtol = np.concatenate([np.zeros(rows.nq), np.full(len(state) - rows.nq, tol)])
        begin, breaks, pieces = t, [np.array([t])], []
        step = 0.0
        while True:
            request = Request(t, state, parameters, t_end, atol, rtol, d.directions, armed, step=step)
            segment = variation.stepper.run(request)
            if len(segment.breaks) > 1:
                breaks.append(segment.breaks[1:])
                pieces.append(segment.coefficients[:, :, :n])
            t, state, armed, step = float(segment.breaks[-1]), segment.x, segment.armed, segment.step
            fired = [i for i in segment.fired if i < edges]
            if segment.stop is Stop.EVENT and fired:
                arc = Arc(d, p, np.concatenate(breaks), np.concatenate(pieces))
                return min(fired), t, state[:n].copy(), state[n:].reshape(n, -1, order="F"), arc
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
    def _armed(d: Dynamics, t: float, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, int | None]:
        """Guards that are armed at entry, and the edge that is crossed right there, as `simulate` judges it."""
        if not len(d.directions):
            return np.zeros(0, bool), None
        g, rate = d.slopes(t, x, p)
        way = d.directions
        armed = np.where(way == 0, np.abs(g) > 1e-12, way * g < -1e-12)
        for i, edge in enumerate(d.edges):
            mark = edge.source is edge.target and isinstance(edge.reset, Continuous)  # it was crossed to get here
            if armed[i] or mark:
                continue
            if abs(g[i]) <= 1e-12 and (way[i] * rate[i] > 1e-9 or (way[i] == 0 and abs(rate[i]) > 1e-9)):
                return armed, i
            if way[i] * g[i] > 1e-9 and getattr(edge.guard, "strict", False):
                return armed, i
        return armed, None


def _check(edge: Edge) -> None:
    """Refuse an event that has no derivative here."""
    if not isinstance(edge.reset, Continuous | PlasticImpact | Map):
        raise BadValue(
            f"edge {edge.name!r}: a {type(edge.reset).__name__} reset has no derivative here; orbits know Continuous, "
            "PlasticImpact and Map",
            edge=edge.name,
        )
    if len(edge.candidates) > 1:
        raise BadValue(
            f"edge {edge.name!r} lets the impact choose between {', '.join(d.name for d in edge.candidates)}, which "
            "has no derivative; write one edge for the domain the gait enters",
            edge=edge.name,
        )


def heights(system: HybridSystem, point: str) -> Kernel:
    """Height of a point (m) at (t, q, Params)."""

    def make() -> Kernel:
        e = Stage(system, next(iter(system.domains.values()))).equations
        up = 2 if system.mechanism.spatial else 1
        f = ca.Function("height", [e.t, e.q, system.mechanism.p], [ca.densify(e.position(point))[up] - system.ground])
        return Kernel(f, native=False)

    return system.once(("height", point), make)
