"""The Taylor engine: heyoka integrates a flow by Taylor series compiled just in time, without a compiler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import casadi as ca
import heyoka as hy
import numpy as np

from saltus import errors
from saltus.compile import Kernel
from saltus.simulation.engines.convert import convert, scalar
from saltus.simulation.engines.port import TIE, Array, Flow, Mask, Request, Segment, Stop, crosses

_NUDGE = 1e-30  # keeps a guard off exact zero, where heyoka loses the next root of the step
_LOOK_BACK = 6  # Taylor coefficients that the first step of a run is judged by
_SLACK = 1e-3  # an arming event stops at the arming distance up to rounding

Evaluate = Callable[[float, Array, Array], Array]


def tolerance(request: Request) -> float:
    """The one tolerance heyoka takes: the least positive of atol and rtol, down to a power of ten.

    Rounding makes nearly equal requests share one compiled integrator. Within [1e-15, 1e-6].
    """
    given = np.concatenate([request.atol, request.rtol])
    positive = given[given > 0]
    if positive.size == 0:
        raise errors.BadValue("atol and rtol are all zero; engine 'heyoka' needs one positive entry")
    exponent = math.floor(math.log10(positive.min()) + 1e-9)
    return float(10.0 ** min(max(exponent, -15), -6))


def _evaluate(function: ca.Function) -> Evaluate:
    """The function on CasADi's virtual machine: it is called a few times a run, and needs no compiler."""
    kernel = Kernel(function, native=False)
    return lambda t, x, p: np.asarray(kernel(t, x, p))


class _Projection:
    """Step callback of heyoka: puts the state back on its manifold and sees guards that jump over zero."""

    def __init__(self, project: Evaluate, guards: Evaluate, request: Request) -> None:
        self.project, self.guards, self.request = project, guards, request
        self.armed = request.armed
        self.before = request.x
        self.jumped = np.zeros(len(request.armed), bool)

    def __call__(self, integrator: Any) -> bool:
        t, p = integrator.time, self.request.p
        self.before = integrator.state.copy()
        integrator.state[:] = after = self.project(t, self.before, p)
        crossed = crosses(self.guards(t, self.before, p), self.guards(t, after, p), self.request.directions)
        self.jumped = self.armed & crossed
        return not self.jumped.any()


class TaylorStepper:
    """A flow as heyoka integrators, one for each tolerance asked for. Not for two threads at once."""

    def __init__(self, flow: Flow, tol: float | None = None, compact_mode: bool = True) -> None:
        self.flow, self.tol, self.compact_mode = flow, tol, compact_mode
        self._functions = scalar(flow.rhs), scalar(flow.guards)
        self._rhs, self._guards = _evaluate(flow.rhs), _evaluate(flow.guards)
        self._project = None if flow.project is None else _evaluate(flow.project)
        self._integrators: dict[float, Any] = {}
        if tol is not None:
            self._integrator(tol)

    def __reduce__(self) -> tuple[Any, ...]:
        return TaylorStepper, (self.flow, self.tol, self.compact_mode)

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit. `request.step` is not used."""
        if not request.t <= request.t_end < np.inf:
            raise errors.BadValue(
                f"{self.flow.name!r}: t_end is {request.t_end}, expected a finite time from {request.t} on",
                t=request.t,
                t_end=request.t_end,
            )
        integrator = self._integrator(self.tol or tolerance(request))
        integrator.time = request.t
        integrator.state[:] = request.x
        record = _Record(request, integrator.order)
        armed = request.armed.astype(bool)
        if request.t_end == request.t:
            return record.segment(request.x, Stop.END, armed=armed)
        if not np.isfinite([request.x, self._rhs(request.t, request.x, request.p)]).all():
            return record.segment(request.x, Stop.NOT_FINITE, armed=armed)
        projection = None if self._project is None else _Projection(self._project, self._guards, request)
        t, x = request.t, request.x
        scale = 1.0 / np.maximum(1.0, np.abs(self._guards(t, x, request.p)))
        while True:
            g = self._guards(t, x, request.p)
            beyond = np.where(request.directions == 0, np.abs(g), -request.directions * g)
            armed |= beyond > request.arm_tol * (1 - _SLACK)
            parameters = np.concatenate([_event_parameters(request, armed, scale), request.p])
            integrator.pars[:] = parameters[: len(integrator.pars)]
            if integrator.with_events:
                integrator.reset_cooldowns()
            if projection is not None:
                projection.armed = armed.copy()
            first = record.steps == 0
            outcome, _, _, steps, output, _ = integrator.propagate_until(
                request.t_end,
                max_steps=1 if first else request.max_steps - record.steps,
                max_delta_t=min(request.max_step, self._first_step(integrator) if first else np.inf),
                callback=projection,
                c_output=True,
            )
            record.add(steps, output)
            if outcome == hy.taylor_outcome.err_nf_state:
                return record.segment(self._last(record, request), Stop.NOT_FINITE, armed=armed)
            t, x = integrator.time, integrator.state.copy()
            stopped = -outcome.value - 1  # the event that ended the run, if it is one of ours
            event = stopped // 2 if stopped < 2 * self.flow.n_guards else None
            hit = np.zeros(self.flow.n_guards, bool)
            if event is not None:
                hit[event] = armed[event]
            if projection is not None:
                hit |= projection.jumped
            fired = self._fired(t, x if projection is None else projection.before, request, armed, hit)
            if event is not None:
                armed[event] = True
            if fired:
                return record.segment(x, Stop.EVENT, fired, armed, integrator.last_h)
            if outcome == hy.taylor_outcome.time_limit:
                return record.segment(x, Stop.END, (), armed, integrator.last_h)
            if record.steps >= request.max_steps:
                stuck = record.steps > 0 and record.last_step <= 4 * np.spacing(abs(t))
                stop = Stop.STEP_TOO_SMALL if stuck else Stop.LIMIT
                return record.segment(x, stop, (), armed, integrator.last_h)

    @staticmethod
    def _first_step(integrator: Any) -> float:
        """Longest step from the present state that several of the last Taylor coefficients allow.

        heyoka looks at the last two. Both vanish where a motion starts symmetric, as a pendulum does that is let go
        level and at rest, whose series has every fourth term only: it would then take a step of any length.
        """
        t, x, order = integrator.time, integrator.state.copy(), integrator.order
        integrator.step(max_delta_t=1e-12, write_tc=True)
        largest, powers = np.abs(integrator.tc[:, -_LOOK_BACK:]).max(axis=0), np.arange(order + 1)[-_LOOK_BACK:]
        integrator.time, integrator.state[:] = t, x
        if integrator.with_events:
            integrator.reset_cooldowns()
        seen = largest > 0
        reach = (max(1.0, np.abs(x).max()) / largest[seen]) ** (1.0 / powers[seen])
        return float(reach.min(initial=np.inf)) * math.exp(-2)

    def _fired(self, t: float, x: Array, request: Request, armed: Mask, hit: Mask) -> tuple[int, ...]:
        """The guards in `hit` and those that tie with time t, earliest first.

        Where nothing was hit, only a root lost to the rounding of t is looked for: a wider window would reach
        back to the surface a guard has just been armed away from.
        """
        if not armed.any():
            return ()
        window = (TIE if hit.any() else 1e-3 * TIE) * max(1.0, abs(t))
        shift = window * self._rhs(t, x, request.p)
        before = self._guards(t - window, x - shift, request.p)
        after = self._guards(t + window, x + shift, request.p)
        found = hit | (armed & crosses(before, after, request.directions))
        change = np.where(after == before, 1.0, after - before)
        return tuple(sorted(np.flatnonzero(found).tolist(), key=lambda i: (-before[i] / change[i], i)))

    def _last(self, record: _Record, request: Request) -> Array:
        """The last finite state, where heyoka has already overwritten its own."""
        x = record.end()
        moved = len(record.breaks) > 1
        return self._project(record.breaks[-1], x, request.p) if self._project and moved else x

    def _integrator(self, tol: float) -> Any:
        if tol not in self._integrators:
            self._integrators[tol] = self._build(tol)
        return self._integrators[tol]

    def _build(self, tol: float) -> Any:
        """Compile. Each guard gives two events, e = a g + b rising and falling; see _event_parameters."""
        rhs, guards = self._functions
        count = self.flow.n_guards
        x = [hy.expression(f"x{i}") for i in range(self.flow.n)]
        p = [hy.par[4 * count + i] for i in range(rhs.size1_in(2))]
        events = []
        for i, g in enumerate(convert(guards, [hy.time], x, p)):
            rising = hy.par[4 * i] * g + hy.par[4 * i + 1]
            falling = hy.par[4 * i + 2] * g + hy.par[4 * i + 3]
            events += [
                hy.t_event(rising, direction=hy.event_direction.positive),
                hy.t_event(falling, direction=hy.event_direction.negative),
            ]
        system = list(zip(x, convert(rhs, [hy.time], x, p), strict=True))
        start = [0.0] * self.flow.n
        return hy.taylor_adaptive(system, start, tol=tol, compact_mode=self.compact_mode, t_events=events)


def _event_parameters(request: Request, armed: Mask, scale: Array) -> Array:
    """The numbers (a, b) of the events e = a g + b of each guard: rising, then falling.

    An armed guard waits for g = 0 in its direction; at exact zero it has been there already. An unarmed one
    waits to be arm_tol away on the side it fires from, so a start on the surface is no root at all. An event
    nobody waits for is the constant 1.
    """
    rows = np.tile([0.0, 1.0, 0.0, 1.0], (len(armed), 1))
    for i, direction in enumerate(request.directions):
        a = scale[i]
        away = -_NUDGE if armed[i] else a * request.arm_tol
        # armed, a rising guard watches for a rise; unarmed, for a fall: the other way about for a falling one
        if direction == 0 or (direction > 0) == armed[i]:
            rows[i, :2] = a, -away
        if direction == 0 or (direction < 0) == armed[i]:
            rows[i, 2:] = a, away
    return rows.ravel()


class _Record:
    """The steps taken so far, as breaks and polynomials."""

    def __init__(self, request: Request, degree: int) -> None:
        self.request, self.degree = request, degree
        self.breaks: list[float] = [request.t]
        self.pieces: list[Array] = []
        self.steps = 0
        self.last_step = math.inf

    def add(self, steps: int, output: Any) -> None:
        """Take over heyoka's continuous output: coefficient j in time is h**j times as much in s."""
        self.steps += steps
        if output is None:
            return
        h = np.diff(output.times)
        self.last_step = h[-1]
        series = output.tcs.transpose(0, 2, 1)  # (step, power, state)
        kept = (h > 0) & np.isfinite(series).all(axis=(1, 2))
        if not kept.any():
            return
        powers = h[kept, None] ** np.arange(self.degree + 1)
        self.pieces.append(series[kept] * powers[:, :, None])
        self.breaks += output.times[1:][kept].tolist()

    def end(self) -> Array:
        """The last state the polynomials reach."""
        return self.pieces[-1][-1].sum(axis=0) if self.pieces else self.request.x

    def segment(
        self, x: Array, stop: Stop, fired: tuple[int, ...] = (), armed: Mask | None = None, step: float = 0.0
    ) -> Segment:
        """What the port asks for. One evaluation is one Taylor expansion of the flow."""
        empty = np.zeros((0, self.degree + 1, len(self.request.x)))
        return Segment(
            breaks=np.array(self.breaks),
            coefficients=np.concatenate([empty, *self.pieces]),
            x=np.array(x, float),
            stop=stop,
            fired=fired,
            armed=self.request.armed if armed is None else armed,
            step=step,
            evaluations=self.steps,
        )


class TaylorEngine:
    """Taylor series through heyoka: the last digits, and no C compiler needed.

    Compiling takes seconds; heyoka keeps what it compiled on disk, so it happens once for each flow and tolerance.

    heyoka has one tolerance, taken as the least positive entry of atol and rtol (see `tolerance`), and holds
    the error relative to max(1, max |x_i|, |guards|); guards are scaled to at most 1 at the start.
    A flow with a projection calls Python after each step and is slower.

    Its error control does not see kinks inside a step (clips, fabs, fmin, contact): it may step across one
    as if it were not there. Put a guard on the kink, or use engine native or sundials.
    """

    name = "heyoka"

    def prepare(self, flow: Flow, tol: float | None = None, compact_mode: bool = True, **options: Any) -> TaylorStepper:
        """Make the flow ready.

        With `tol` it is compiled at once and every run uses that tolerance; without, the first run of each
        tolerance compiles. `compact_mode=False` unrolls all code: up to twice as fast, many times slower to
        compile.
        """
        for name in options:
            raise errors.UnknownName("option of engine 'heyoka'", name, ("tol", "compact_mode"))
        return TaylorStepper(flow, tol, compact_mode)
