"""The engine that needs nothing: SciPy's DOP853 on CasADi's virtual machine, for where nothing can be compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import DOP853

from saltus import errors
from saltus.compile import Kernel
from saltus.engines.port import Array, Flow, Kept, Request, Segment, Stop, check_times
from saltus.engines.steps import Steps, Surroundings

DEGREE = 7  # of DOP853's dense output
STAGES = 12  # evaluations of one attempt at a step
_KEPT = Kept()


class ScipyStepper:
    """A flow on the virtual machine. All state is a run's own: threads may share it."""

    engine = "scipy"

    def __init__(self, flow: Flow, notes: Sequence[str] = ()) -> None:
        self.flow = flow
        self.look = flow.look
        self._rhs: Kernel
        self._around: Surroundings
        self._rhs, self._around = _KEPT.once(
            flow, "made", lambda: (Kernel(flow.rhs, native=False), Surroundings.of(flow, native=False))
        )
        self.notes = list(notes)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScipyStepper, (self.flow, self.notes)

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit."""
        check_times(self.flow, request)
        return _Run(self._rhs, self._around, request).go()


class _Run:
    """One request on its way: SciPy's solver, the buffers it evaluates in, and the steps so far."""

    def __init__(self, rhs: Kernel, around: Surroundings, request: Request) -> None:
        self.request, self.steps = request, Steps(around, request, DEGREE)
        self._rhs = rhs.bind()
        self._rhs.args[2][...] = request.p
        self._finite = True  # whether every right-hand side was, since the last accepted step

    def go(self) -> Segment:
        """Step to the end."""
        request, steps = self.request, self.steps
        if request.t_end == request.t:
            return steps.segment(Stop.END, 0)
        if not np.isfinite([steps.x, self._evaluate(steps.t, steps.x)]).all():
            return steps.segment(Stop.NOT_FINITE, 1)
        solver, rejected, stop = self._solver(), 0, None
        while stop is None:
            if len(steps.pieces) >= request.max_steps:
                stop = Stop.LIMIT
                break
            self._finite, before = True, solver.nfev
            with np.errstate(all="ignore"):  # a NaN makes the step smaller
                solver.step()
            rejected += (solver.nfev - before) // STAGES - 1
            if solver.status == "failed":
                stop = Stop.STEP_TOO_SMALL if self._finite else Stop.NOT_FINITE
                break
            stop = steps.add(solver.t, _powers(solver.dense_output()))
            if stop is None and solver.status == "finished":
                stop = Stop.END
            if stop is None and (steps.x != solver.y).any():  # projected: a one-step method goes on from anywhere
                solver.y, solver.f = steps.x, self._evaluate(solver.t, steps.x)
        return steps.segment(stop, solver.nfev, float(solver.h_abs), rejected)

    def _solver(self) -> DOP853:
        """SciPy measures an error by its root mean square: tolerances are divided so that every state holds its own."""
        request = self.request
        share = np.sqrt(len(request.x))
        return DOP853(
            self._evaluate,
            request.t,
            request.x,
            request.t_end,
            first_step=min(request.step, request.max_step, request.t_end - request.t) or None,
            max_step=request.max_step,
            rtol=np.maximum(request.rtol / share, 100 * np.finfo(float).eps),
            atol=np.maximum(request.atol / share, np.finfo(float).tiny),
        )

    def _evaluate(self, t: float, x: Array) -> Array:
        bound = self._rhs
        bound.args[0][0] = t
        bound.args[1][...] = x
        bound.evaluate()
        result = bound.results[0].copy()
        self._finite = self._finite and bool(np.isfinite(result).all())
        return result


def _powers(dense: Any) -> Array:
    """Dense output as powers of s, from SciPy's nest x0 + s (F0 + (1 - s) (F1 + s (F2 + ...)))."""
    piece = np.zeros((DEGREE + 1, len(dense.y_old)))
    for i, row in enumerate(reversed(dense.F)):
        piece[0] += row
        shifted = np.vstack([np.zeros((1, piece.shape[1])), piece[:-1]])
        piece = shifted if i % 2 == 0 else piece - shifted
    piece[0] += dense.y_old
    return piece


class ScipyEngine:
    """SciPy's DOP853, order 8 as the native engine's, with the equations on CasADi's virtual machine.

    Nothing is compiled, so the first run starts at once and a long one is tens of times slower than native.
    """

    name = "scipy"

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self._notes = notes

    def prepare(self, flow: Flow, **options: Any) -> ScipyStepper:
        """Make the flow ready; there are no options."""
        for name in options:
            raise errors.UnknownName("option of engine 'scipy'", name, ())
        return ScipyStepper(flow, self._notes)
