"""The Taylor engine: heyoka integrates a flow by Taylor series compiled just in time, without a compiler."""

from __future__ import annotations

import copy
import math
import threading
from dataclasses import dataclass
from typing import Any

import casadi as ca
import heyoka as hy
import numpy as np

from saltus import errors
from saltus.compile import Kernel, compiling
from saltus.engines.convert import convert, scalar
from saltus.engines.port import Flow, Kept, Request, Segment, Stop, check_times
from saltus.engines.steps import Steps, Surroundings

_LOOK_BACK = 6  # Taylor coefficients that the first step of a run is judged by
_KEPT = Kept()


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


@dataclass(frozen=True)
class _Made:
    """What is read off a flow once: the virtual machine's forms, which need no compiler, and its scalar form."""

    name: str
    scalar_rhs: ca.Function
    rhs: Kernel
    around: Surroundings
    notes: tuple[str, ...]

    @classmethod
    def of(cls, flow: Flow) -> _Made:
        notes: tuple[str, ...] = ()
        if flow.has_kinks:
            notes = (
                f"{flow.name!r} branches or clips, and engine 'heyoka' steps over kinks without seeing them; "
                "put a guard on each kink, or use engine native or sundials",
            )
        return cls(
            flow.name, scalar(flow.rhs), Kernel(flow.rhs, native=False), Surroundings.of(flow, native=False), notes
        )

    def integrator(self, tol: float, compact_mode: bool) -> Any:
        """Compile."""
        rhs = self.scalar_rhs
        x = [hy.expression(f"x{i}") for i in range(rhs.size1_in(1))]
        p = [hy.par[i] for i in range(rhs.size1_in(2))]
        system = list(zip(x, convert(rhs, [hy.time], x, p), strict=True))
        with compiling(self.name, rhs.n_instructions()):
            return hy.taylor_adaptive(system, [0.0] * len(x), tol=tol, compact_mode=compact_mode)


class TaylorStepper:
    """A flow with heyoka integrators of its own, one for each tolerance asked for. Threads that share it take turns."""

    engine = "heyoka"

    def __init__(self, flow: Flow, tol: float | None = None, compact_mode: bool = True) -> None:
        self.flow, self.tol, self.compact_mode = flow, tol, compact_mode
        self.look = flow.look
        self._made: _Made = _KEPT.once(flow, "made", lambda: _Made.of(flow))
        self.notes = list(self._made.notes)
        self._integrators: dict[float, Any] = {}
        self._lock = threading.Lock()
        if tol is not None:
            self._integrator(tol)

    def __reduce__(self) -> tuple[Any, ...]:
        return TaylorStepper, (self.flow, self.tol, self.compact_mode)

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit. `request.step` is not used."""
        check_times(self.flow, request)
        with self._lock:
            return self._run(request, self._integrator(self.tol or tolerance(request)))

    def _run(self, request: Request, integrator: Any) -> Segment:
        steps = Steps(self._made.around, request, integrator.order)
        if request.t_end == request.t:
            return steps.segment(Stop.END, 0)
        if not np.isfinite([request.x, self._made.rhs(request.t, request.x, request.p)]).all():
            return steps.segment(Stop.NOT_FINITE, 0)
        integrator.time, integrator.state[:] = request.t, request.x
        integrator.pars[:] = request.p[: len(integrator.pars)]
        longest, count = self._first_step(integrator), 0
        powers = np.arange(integrator.order + 1)
        stop: Stop | None = None
        while stop is None:
            longest = min(longest, request.max_step, request.t_end - steps.t)
            outcome, h = integrator.step(max_delta_t=longest, write_tc=True)
            # one step that is cut short by the end, not by the step size, ends there to the last bit
            last = outcome == hy.taylor_outcome.time_limit and h >= request.t_end - steps.t
            count += 1
            piece = integrator.tc.T * (h**powers)[:, None]
            if outcome == hy.taylor_outcome.err_nf_state or not np.isfinite(piece).all():
                stop = Stop.NOT_FINITE
            elif not last and h <= 4 * np.spacing(abs(steps.t)):
                stop = Stop.STEP_TOO_SMALL
            else:
                stop = steps.add(request.t_end if last else integrator.time, piece)
            if stop is None and last:
                stop = Stop.END
            if stop is None and count >= request.max_steps:
                stop = Stop.LIMIT
            integrator.state[:] = steps.x
            longest = np.inf
        return steps.segment(stop, count, integrator.last_h)

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
        seen = largest > 0
        reach = (max(1.0, np.abs(x).max()) / largest[seen]) ** (1.0 / powers[seen])
        return float(reach.min(initial=np.inf)) * math.exp(-2)

    def _integrator(self, tol: float) -> Any:
        """An integrator of this stepper's own: a copy has its state and shares the machine code."""
        if tol not in self._integrators:
            made, compact_mode = self._made, self.compact_mode
            shared = _KEPT.once(self.flow, (tol, compact_mode), lambda: made.integrator(tol, compact_mode))
            self._integrators[tol] = copy.copy(shared)
        return self._integrators[tol]


class TaylorEngine:
    """Taylor series through heyoka: the last digits, and no C compiler needed.

    Compiling takes seconds; heyoka keeps what it compiled on disk, so it happens once for each flow and tolerance.

    heyoka has one tolerance, taken as the least positive entry of atol and rtol (see `tolerance`), and holds
    the error relative to max(1, max |x_i|). Guards are looked for on the Taylor polynomials of each step (see
    `events`), so they may have kinks, jumps and poles; they and a projection are Python calls, once per step.

    Its error control does not see kinks of the flow inside a step (clips, fabs, fmin, contact): it may step across
    one as if it were not there. Put a guard on the kink, or use engine native or sundials.
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
