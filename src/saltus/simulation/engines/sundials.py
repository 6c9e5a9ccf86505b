"""The stiff engine: CVODE's backward differentiation formulas (scikit-sundae) with the exact Jacobian."""

from __future__ import annotations

import contextlib
import io
import itertools
from typing import Any

import casadi as ca
import numpy as np
from scipy.optimize import brentq
from sksundae.cvode import CVODE

from saltus import errors
from saltus.compile import Kernel
from saltus.simulation.engines.port import TIE, Array, Flow, Request, Segment, Stop, away, crosses

DRIFT = 100.0  # tolerances a state may be off its manifold before the run is started anew on it
DEGREE = 5  # of CVODE's own interpolant at its highest order

# Six points fix a polynomial of degree five, so sampling CVODE there recovers its interpolant without loss.
_NODES = (1 - np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)) / 2
_FIT = np.linalg.inv(_NODES[1:, None] ** np.arange(1, DEGREE + 1))


class SundialsStepper:
    """A flow with its Jacobian, ready for CVODE. Not for two threads at once."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        symbol: Any = ca.SX if flow.rhs.is_a("SXFunction") else ca.MX
        names = [flow.rhs.name_in(i) for i in range(3)]
        t, x, p = (symbol.sym(name, flow.rhs.size1_in(i)) for i, name in enumerate(names))
        slope = ca.jacobian(flow.rhs(t, x, p), x)
        jacobian = ca.Function("jacobian", [t, x, p], [slope], names, ["slope"])
        self._rhs = Kernel(flow.rhs).bind()
        # CVODE asks for it once in tens of steps: compiling so large a function would never pay
        self._jacobian = Kernel(jacobian, native=False).bind()
        self._guards = Kernel(flow.guards)
        self._project = None if flow.project is None else Kernel(flow.project)
        self._evaluations = 0
        self._finite = True  # whether every right-hand side was, since the last accepted step

    def __reduce__(self) -> tuple[Any, ...]:
        return SundialsStepper, (self.flow,)

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit."""
        if not request.t <= request.t_end < np.inf:
            raise errors.BadValue(
                f"{self.flow.name!r}: t_end is {request.t_end}, expected a finite time from {request.t} on",
                t=request.t,
                t_end=request.t_end,
            )
        self._evaluations = 0
        # scikit-sundae prints each failure of a step; here a failure is an outcome, not a message
        with contextlib.redirect_stdout(io.StringIO()):
            return _Run(self, request).go()

    def _solver(self, request: Request, first_step: float) -> CVODE:
        """CVODE on this request. It has one rtol for all states: the least, which holds them all."""
        for bound in (self._rhs, self._jacobian):
            bound.args[2][...] = request.p
        max_step = min(request.max_step, request.t_end - request.t)
        # smaller steps would not move the time; the far end of a long run must not forbid a fast start
        min_step = 4 * np.spacing(max(abs(request.t), min(abs(request.t_end), 1e3)))
        return CVODE(
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


class _Run:
    """One request on its way: where CVODE is, which guards are armed, and the polynomials so far."""

    def __init__(self, stepper: SundialsStepper, request: Request) -> None:
        self.stepper, self.request = stepper, request
        self.t, self.x = float(request.t), np.array(request.x, float)
        self.breaks, self.pieces = [self.t], list[Array]()
        self.g = self.guards(self.t, self.x)
        self.armed = request.armed | away(self.g, request)

    def go(self) -> Segment:
        """Step to the end."""
        request, stepper = self.request, self.stepper
        start = np.zeros(len(self.x))
        stepper._finite = True
        solver = stepper._solver(request, request.step)
        stepper._evaluate_rhs(self.t, self.x, start)
        if not (stepper._finite and np.isfinite(self.x).all()):
            return self.segment(Stop.NOT_FINITE)
        gap = request.t_end - self.t
        if gap <= 8 * np.spacing(max(abs(self.t), abs(request.t_end))):
            if gap > 0:  # too short for CVODE to begin, and short enough for a line to be exact
                line = np.zeros((DEGREE + 1, len(self.x)))
                line[:2] = self.x, gap * start
                self.append(request.t_end, line)
            return self.segment(Stop.END)
        solver.init_step(self.t, self.x)
        restarted = -np.inf
        while len(self.pieces) < request.max_steps:
            stepper._finite = True
            result = solver.step(request.t_end, "onestep", request.t_end)
            if result.status < 0 or not np.isfinite(result.y).all():
                if self.t - restarted <= TIE * max(1.0, abs(self.t)):
                    return self.segment(Stop.STEP_TOO_SMALL if stepper._finite else Stop.NOT_FINITE)
                # the history may end at a kink: begin anew, at first order and with a step of CVODE's choice
                restarted = self.t
                solver = stepper._solver(request, 0.0)
                solver.init_step(self.t, self.x)
                continue
            fired = self.advance(float(result.t), self.sample(solver, float(result.t)))
            if not fired and self.project():
                after = self.guards(self.t, self.x)
                jumped = self.armed & crosses(self.g, after, request.directions)
                fired = tuple(np.flatnonzero(jumped).tolist())
                self.g = after
                if not fired and self.t < request.t_end:
                    solver.init_step(self.t, self.x)
            if fired:
                return self.segment(Stop.EVENT, fired)
            if self.t >= request.t_end:
                return self.segment(Stop.END)
        return self.segment(Stop.LIMIT)

    def sample(self, solver: CVODE, t: float) -> Array:
        """CVODE's interpolant over its last step, as powers of s."""
        times = self.t + (t - self.t) * _NODES[1:]
        times[-1] = t  # CVODE goes on only from the end of its step
        rise = np.array([solver.step(time, "normal").y for time in times]) - self.x
        return np.vstack([self.x, _FIT @ rise])

    def advance(self, t: float, piece: Array) -> tuple[int, ...]:
        """Take over a step, cut at its first event; return the guards that fired there."""
        request = self.request
        if not self.stepper.flow.n_guards:
            self.append(t, piece)
            return ()
        t0, h, values = self.t, t - self.t, self.g

        def along(s: float) -> Array:
            return self.guards(t0 + s * h, s ** np.arange(DEGREE + 1) @ piece)

        for low, high in itertools.pairwise(_NODES):
            ahead = along(high)
            hit = np.flatnonzero(self.armed & crosses(values, ahead, request.directions))
            if hit.size:
                roots = [brentq(lambda s, i=i: along(s)[i], low, high, xtol=1e-16) for i in hit]
                s = min(roots)
                window = TIE * max(1.0, abs(t0)) / h
                before, after = along(s - window), along(s + window)
                ties = self.armed & crosses(before, after, request.directions)
                ties[hit[roots.index(s)]] = True
                slope = np.where(after == before, 1.0, after - before)
                self.append(t0 + s * h, piece * s ** np.arange(DEGREE + 1)[:, None])
                return tuple(sorted(np.flatnonzero(ties).tolist(), key=lambda i: (-before[i] / slope[i], i)))
            values = ahead
            self.armed = self.armed | away(values, request)
        self.g = values
        self.append(t, piece)
        return ()

    def project(self) -> bool:
        """Whether the projection moves the state far beyond its tolerance; then the state is moved.

        The formulas look back over several steps and a move means starting them anew, so small ones wait.
        """
        if self.stepper._project is None:
            return False
        request = self.request
        x = self.projected()
        if (np.abs(x - self.x) <= DRIFT * (request.atol + request.rtol * np.abs(x))).all():
            return False
        self.x = x
        return True

    def projected(self) -> Array:
        """The state on its manifold."""
        project = self.stepper._project
        return self.x if project is None else np.asarray(project(self.t, self.x, self.request.p))

    def guards(self, t: float, x: Array) -> Array:
        """The guards' values."""
        return np.asarray(self.stepper._guards(t, x, self.request.p))

    def append(self, t: float, piece: Array) -> None:
        """Move on to time t along a polynomial."""
        self.x = piece.sum(axis=0)
        if t > self.t:
            self.breaks.append(t)
            self.pieces.append(piece)
        self.t = t

    def segment(self, stop: Stop, fired: tuple[int, ...] = ()) -> Segment:
        """What the port asks for."""
        empty = np.zeros((0, DEGREE + 1, len(self.x)))
        return Segment(
            breaks=np.array(self.breaks),
            coefficients=np.concatenate([empty, np.array(self.pieces).reshape(-1, *empty.shape[1:])]),
            x=self.projected() if self.pieces else self.x,
            stop=stop,
            fired=fired,
            armed=self.armed,
            step=self.breaks[-1] - self.breaks[-2] if self.pieces else self.request.step,
            evaluations=self.stepper._evaluations,
        )


class SundialsEngine:
    """CVODE (BDF) through scikit-sundae: what is stiff or has kinks.

    The Jacobian is CasADi's. Guards are watched at six points of each step on CVODE's own interpolant; two
    crossings of one guard between neighbouring points go unseen, so bound `max_step` where guards are fast.
    All rtol count as their least. A projection acts on the state that is returned, and on the way once it
    would move a state by a hundred times its tolerance.
    """

    name = "sundials"

    def prepare(self, flow: Flow, **options: Any) -> SundialsStepper:
        """Make the flow ready; there are no options."""
        for name in options:
            raise errors.UnknownName("option of engine 'sundials'", name, ())
        return SundialsStepper(flow)
