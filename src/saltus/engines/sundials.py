"""The stiff engine: CVODE's backward differentiation formulas (scikit-sundae) with the exact Jacobian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from sksundae.cvode import CVODE

from saltus import errors
from saltus.compile import Kernel
from saltus.engines.hush import hushed
from saltus.engines.port import TIE, Array, Flow, Kept, Request, Segment, Stop, check_times
from saltus.engines.steps import Steps, Surroundings

DRIFT = 100.0  # tolerances a state may be off its manifold before the run is started anew on it
SHARE = 60 / 137  # of a step's length: what its last slope counts with at CVODE's highest order
ROUND_OFF = 1e-14  # of state and time: what a step's end is known to
DEGREE = 5  # of CVODE's own interpolant at its highest order

# Six points fix a polynomial of degree five, so sampling CVODE there recovers its interpolant without loss.
_NODES = (1 - np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)) / 2
_FIT = np.linalg.inv(_NODES[1:, None] ** np.arange(1, DEGREE + 1))
_KEPT = Kept()


@dataclass(frozen=True)
class _Made:
    """The functions of a flow, ready to be tied to memory."""

    rhs: Kernel
    jacobian: Kernel
    around: Surroundings

    @classmethod
    def of(cls, flow: Flow) -> _Made:
        symbol: Any = ca.SX if flow.rhs.is_a("SXFunction") else ca.MX
        names = [flow.rhs.name_in(i) for i in range(3)]
        t, x, p = (symbol.sym(name, flow.rhs.size1_in(i)) for i, name in enumerate(names))
        slope = ca.jacobian(flow.rhs(t, x, p), x)
        jacobian = ca.Function("jacobian", [t, x, p], [slope], names, ["slope"])
        # rates are those on the manifold, off which CVODE's state drifts: what it drifts by must not act on the motion
        rates = flow.rhs(t, x if flow.project is None else flow.project(t, x, p), p)
        made = cls(
            Kernel(ca.Function(flow.rhs.name(), [t, x, p], [rates], names, ["rates"])),
            # CVODE asks for it once in tens of steps: compiling so large a function would never pay
            Kernel(jacobian, native=False),
            Surroundings.of(flow, native=None),
        )
        for kernel in (made.rhs, made.around.guards, made.around.project):
            _ = kernel is not None and kernel.native  # compiled now, while other threads wait for it
        return made


class SundialsStepper:
    """A flow with its Jacobian, ready for CVODE. All state is a run's own: threads may share it."""

    engine = "sundials"

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.look = flow.look
        self._made: _Made = _KEPT.once(flow, "made", lambda: _Made.of(flow))
        self.notes = [*self._made.rhs.notes, *self._made.around.notes]

    def __reduce__(self) -> tuple[Any, ...]:
        return SundialsStepper, (self.flow,)

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit."""
        check_times(self.flow, request)
        # scikit-sundae prints each failure of a step; here a failure is an outcome, not a message
        with hushed():
            return _Run(self._made, request).go()


class _Run:
    """One request on its way: CVODE, the buffers it evaluates in, and the steps so far."""

    def __init__(self, made: _Made, request: Request) -> None:
        self.request, self.steps = request, Steps(made.around, request, DEGREE)
        self._rhs, self._jacobian = made.rhs.bind(), made.jacobian.bind()
        for bound in (self._rhs, self._jacobian):
            bound.args[2][...] = request.p
        self._evaluations = 0
        self._finite = True  # whether every right-hand side was, since the last accepted step

    def go(self) -> Segment:
        """Step to the end."""
        request, steps = self.request, self.steps
        start = np.zeros(len(steps.x))
        self._evaluate_rhs(steps.t, steps.x, start)
        if not (self._finite and np.isfinite(steps.x).all()):
            return self._segment(Stop.NOT_FINITE)
        gap = request.t_end - steps.t
        if gap <= 8 * np.spacing(max(abs(steps.t), abs(request.t_end))):
            if gap > 0:  # too short for CVODE to begin, and short enough for a line to be exact
                line = np.zeros((DEGREE + 1, len(steps.x)))
                line[:2] = steps.x, gap * start
                return self._segment(steps.add(request.t_end, line) or Stop.END)
            return self._segment(Stop.END)
        solver = self._solver(request.step)
        restarted = -np.inf
        begin = steps.x  # where CVODE's present step begins: off the manifold by less than DRIFT
        while len(steps.pieces) < request.max_steps:
            self._finite = True
            result = solver.step(request.t_end, "onestep", request.t_end)
            if result.status < 0 or not np.isfinite(result.y).all():
                if steps.t - restarted <= TIE * max(1.0, abs(steps.t)):
                    return self._segment(Stop.STEP_TOO_SMALL if self._finite else Stop.NOT_FINITE)
                # the history may end at a kink: begin anew, at first order and with a step of CVODE's choice
                restarted, begin = steps.t, steps.x
                solver = self._solver(0.0)
                continue
            t, piece = float(result.t), self._sample(solver, begin, float(result.t))
            if steps.t > restarted and not self._solved(t, piece):
                restarted, begin = steps.t, steps.x
                solver = self._solver(0.0)
                continue
            stop = steps.add(t, piece)
            if stop is not None:
                return self._segment(stop)
            if t >= request.t_end:
                return self._segment(Stop.END)
            begin = piece.sum(axis=0)
            if (np.abs(steps.x - begin) > DRIFT * (request.atol + request.rtol * np.abs(begin))).any():
                # the formulas look back over several steps and a move means starting them anew, so small ones wait
                begin = steps.x
                solver.init_step(t, begin)
        return self._segment(Stop.LIMIT)

    def _solver(self, first_step: float) -> CVODE:
        """CVODE from where the run is. It has one rtol for all states: the least, which holds them all."""
        request, steps = self.request, self.steps
        max_step = min(request.max_step, request.t_end - request.t)
        # smaller steps would not move the time; the far end of a long run must not forbid a fast start
        min_step = 4 * np.spacing(max(abs(request.t), min(abs(request.t_end), 1e3)))
        solver = CVODE(
            self._evaluate_rhs,
            jacfn=self._evaluate_jacobian,
            method="BDF",
            rtol=float(request.rtol.min()),
            atol=np.maximum(request.atol, np.finfo(float).tiny),
            first_step=min(first_step, max_step),
            min_step=min(min_step, max_step),
            max_step=max_step,
            max_conv_fails=40,  # each makes the step four times smaller: a NaN ahead is approached closely
        )
        solver.init_step(steps.t, steps.x)
        return solver

    def _sample(self, solver: CVODE, begin: Array, t: float) -> Array:
        """CVODE's interpolant over its last step, as powers of s."""
        times = self.steps.t + (t - self.steps.t) * _NODES[1:]
        times[-1] = t  # CVODE goes on only from the end of its step
        rise = np.array([solver.step(time, "normal").y for time in times]) - begin
        return np.vstack([begin, _FIT @ rise])

    def _solved(self, t: float, piece: Array) -> bool:
        """Whether the end of a step meets its equation p' = f(p), within the tolerance.

        CVODE keeps a Jacobian for fifty steps. Where stiffness falls much faster, what it solves with that one says
        little of the error: corrections are then as small as the stiffness is large, and pass every test.
        """
        h, end, f = t - self.steps.t, piece.sum(axis=0), np.zeros(piece.shape[1])
        self._evaluate_rhs(t, end, f)
        off = SHARE * (np.arange(DEGREE + 1) @ piece - h * f)
        known = ROUND_OFF * (np.abs(end) + abs(t) * np.abs(f))  # the time of a step is a number, too
        scale = self.request.atol + self.request.rtol * np.abs(end) + known
        if not np.abs(off / scale).max(initial=0.0) > 1.0:
            return True
        slope = np.zeros((len(end), len(end)))
        self._evaluate_jacobian(t, end, f, slope)
        return not np.abs(np.linalg.solve(np.eye(len(end)) - SHARE * h * slope, off) / scale).max() > 1.0

    def _evaluate_rhs(self, t: float, x: Array, dx: Array) -> None:
        bound = self._rhs
        bound.args[0][0] = t
        bound.args[1][...] = x
        bound()
        dx[:] = bound.results[0]
        self._evaluations += 1
        # a NaN fails CVODE's corrector, which tries a smaller step: the recovery we want
        self._finite = self._finite and bool(np.isfinite(dx).all())

    def _evaluate_jacobian(self, t: float, x: Array, dx: Array, out: Array) -> None:
        bound = self._jacobian
        bound.args[0][0] = t
        bound.args[1][...] = x
        bound()
        out[:] = bound.results[0].reshape(out.shape)

    def _segment(self, stop: Stop) -> Segment:
        breaks = self.steps.breaks
        step = breaks[-1] - breaks[-2] if len(breaks) > 1 else self.request.step
        return self.steps.segment(stop, self._evaluations, step)


class SundialsEngine:
    """CVODE (BDF) through scikit-sundae: what is stiff or has kinks.

    The Jacobian is CasADi's. Guards are looked for inside each step on CVODE's own interpolant (see `events`), grazes
    included. All rtol count as their least. A projection acts on the recorded motion after every step, within every
    evaluation, and on CVODE's own state once it would move one by a hundred times its tolerance.
    """

    name = "sundials"

    def prepare(self, flow: Flow, **options: Any) -> SundialsStepper:
        """Make the flow ready; there are no options."""
        for name in options:
            raise errors.UnknownName("option of engine 'sundials'", name, ())
        return SundialsStepper(flow)
