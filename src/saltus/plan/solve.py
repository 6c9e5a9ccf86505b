"""solve: from a Plan and a guess, over ever finer meshes, to a motion that is checked by flying it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue, NotSolved
from saltus.model.symbols import SX
from saltus.plan import solver
from saltus.plan.fill import fill
from saltus.plan.flight import fly as flown
from saltus.plan.guess import Guess, PhaseGuess, guesses, rows_at
from saltus.plan.mesh import errors, refined, resampled
from saltus.plan.schemes import HermiteSimpson, Scheme
from saltus.plan.solution import Planned, Round, planned
from saltus.plan.solver import Limits, Result
from saltus.plan.statement import Plan
from saltus.plan.transcription import PhaseModel, Transcription

LOOK = 50  # iterations that a further guess gets, once one has led to a solution


def solve(
    plan: Plan,
    guess: Any = None,
    *,
    scheme: Scheme | None = None,
    tolerance: float | None = 1e-4,
    refinements: int = 5,
    iterations: int = 1000,
    seconds: float = 600.0,
    accuracy: float = 1e-6,
    momentum: bool = True,
    native: bool | None = False,
    fly: bool = True,
    progress: Callable[[str, int, float, float], None] | None = None,
) -> Planned:
    """Find a motion that does what the plan says.

    `guess` is a trajectory, an orbit, an earlier plan or values by name; without one the machine is let go from its
    start. Meshes are refined until the relative error of every interval is below `tolerance` (None keeps the first
    mesh). `iterations` and `seconds` limit the solver, Ctrl-C stops it; NotSolved carries the motion reached.
    `momentum` keeps the momentum of a floating machine exact. `native` compiles the derivatives, which pays for
    large problems solved often. `fly` simulates the result with feedback. `progress(what, iteration, cost,
    violation)` is called now and then.
    """
    begin = time.perf_counter()
    scheme = scheme or HermiteSimpson()
    if tolerance is not None and not tolerance > 0:
        raise BadValue(f"tolerance is {tolerance}; give a number above zero, or None to keep the mesh", given=tolerance)
    work = _Work(plan, scheme, momentum, native, Limits(iterations, seconds, accuracy), progress, begin)
    candidates = guesses(plan, guess)
    tried = work.try_all(candidates)
    best = tried[0]
    out = work.finish(best, tolerance, refinements)
    out.others = [work.motion(*one) for one in tried[1:] if one[1].ok]
    if fly:
        out.flown, out.flight = flown(out)
        if not out.flight.follows:
            out.meta["outcome"] |= {"kind": "cannot be followed", "detail": out.flight.detail}
    return out


class _Work:
    """One call of `solve`: what has been derived, the time that is left."""

    def __init__(
        self,
        plan: Plan,
        scheme: Scheme,
        momentum: bool,
        native: bool | None,
        limits: Limits,
        progress: Callable[[str, int, float, float], None] | None,
        begin: float,
    ) -> None:
        self.plan, self.scheme, self.momentum, self.native = plan, scheme, momentum, native
        self.limits, self.progress, self.begin = limits, progress, begin
        self.rounds: list[Round] = []
        self.used = 0
        self.solving = 0.0
        self._models: dict[tuple[tuple[int, ...], ...], list[PhaseModel]] = {}
        self._locals: dict[Any, Any] = {}
        self.summed, self.direct = _integrals(plan)

    def transcription(self, rows: Sequence[Sequence[int]], meshes: Sequence[np.ndarray]) -> Transcription:
        """The plan on meshes; models are derived once for a choice of rows."""
        key = tuple(tuple(r) for r in rows)
        if key not in self._models:
            self._models[key] = [
                PhaseModel(self.plan, phase, r, self.summed, self.direct, self.momentum)
                for phase, r in zip(self.plan.phases, key, strict=True)
            ]
        kept = self._locals.setdefault(key, {})
        return Transcription(
            self.plan, self._models[key], meshes, self.scheme, self.summed, self.direct, kept, self.native
        )

    def _solve(self, t: Transcription, x: np.ndarray, what: str, limit: int, warm: bool = False) -> Result:
        programme = t.programme(x)
        left = self.limits.seconds - self.solving
        tell = None if self.progress is None else partial(self.progress, what)
        allowed = replace(self.limits, iterations=max(min(limit, self.limits.iterations - self.used), 1), seconds=left)
        result = solver.run(programme, x, t.low, t.high, allowed, warm=warm, progress=tell)
        self.used += result.iterations
        self.solving += result.seconds
        return replace(result, x=t.filled(result.x))

    def try_all(self, candidates: Sequence[Guess]) -> list[tuple[Transcription, Result]]:
        """Solve from every guess, the cheapest solution first; unsolved ones last, the least wrong first."""
        meshes = [np.linspace(0, 1, p.intervals + 1) for p in self.plan.phases]
        out: list[tuple[Transcription, Result]] = []
        for i, guess in enumerate(candidates):
            rows = [rows_at(self.plan, p, g.q[0]) for p, g in zip(self.plan.phases, guess, strict=True)]
            t = self.transcription(rows, meshes)
            several = len(candidates) > 1
            what = f"guess {i + 1} of {len(candidates)}" if several else "first mesh"
            solved = any(r.ok for _, r in out)
            limit = LOOK if solved else self.limits.iterations // (len(candidates) - i)
            result = self._solve(t, fill(t, guess), what, limit)
            out.append((t, result))
            self._record(t, result, what)
            if result.status == "Interrupted":
                break
        out.sort(key=lambda one: (not one[1].ok, one[1].cost if one[1].ok else _violation(*one)))
        return out

    def finish(self, start: tuple[Transcription, Result], tolerance: float | None, refinements: int) -> Planned:
        """Carry the best solution through finer meshes."""
        t, result = start
        if not result.ok and result.status == "Maximum_Iterations_Exceeded" and self.used < self.limits.iterations:
            result = self._solve(t, result.x, "going on", self.limits.iterations)
            self._record(t, result, "going on")
        self._insist(t, result)
        if tolerance is None:
            return self.motion(t, result)
        for _ in range(refinements):
            error = errors(t, result.x)
            if max(e.max() for e in error) <= tolerance:
                break
            meshes = [refined(m, e, tolerance, self.scheme.order) for m, e in zip(t.meshes, error, strict=True)]
            finer = self.transcription([m.rows for m in t.models], meshes)
            x = fill(finer, guess_of(t, result.x, finer.fractions))
            next_result = self._solve(finer, x, "finer mesh", self.limits.iterations, warm=True)
            self._record(finer, next_result, "finer mesh")
            self._insist(finer, next_result)
            t, result = finer, next_result
        return self.motion(t, result)

    def _record(self, t: Transcription, result: Result, what: str) -> None:
        finite = np.isfinite(result.x).all()
        error = max(float(e.max()) for e in errors(t, result.x)) if finite else float("inf")
        mesh = tuple(len(m) - 1 for m in t.meshes)
        status = "solved" if result.ok else result.status
        self.rounds.append(
            Round(mesh, status, result.iterations, result.cost, error, result.seconds, result.evaluations)
        )

    def motion(self, t: Transcription, result: Result) -> Planned:
        """The motion that a result stands for."""
        build = time.perf_counter() - self.begin - self.solving
        status = "solved" if result.ok else "not solved"
        return planned(t, result.x, self.rounds, result.cost, build, status)

    def _insist(self, t: Transcription, result: Result) -> None:
        """Raise NotSolved with what is most wrong."""
        if result.ok:
            return
        worst = _worst(t, result.x)
        lines = [
            f"  {name}{f' at {when:.4g} s' if np.isfinite(when) else ''}: {value:.4g}, should be {_words(low, high)}"
            for name, when, value, low, high in worst[:5]
        ]
        stuck = result.status in solver.INFEASIBLE
        advice = {
            True: "It looks infeasible from here: give it more time or larger limits, or another guess",
            False: "Allow more iterations or seconds, or give a better guess",
        }[stuck]
        raise NotSolved(
            f"{self.plan!r}: the solver ended with {result.status} after {result.iterations} iterations and "
            f"{result.seconds:.1f} s.\n" + "\n".join(["Most wrong:", *lines, advice]),
            worst=worst,
            best=self.motion(t, result),
            status=result.status,
            looks_infeasible=stuck,
            iterations=result.iterations,
            seconds=result.seconds,
        )


def guess_of(t: Transcription, x: np.ndarray, fractions: Sequence[np.ndarray]) -> Guess:
    """Turn a solution into a guess for nodes at other fractions of its phases."""
    out = []
    for k, s in enumerate(fractions):
        out.append(PhaseGuess(s * x[t.lengths[k]], *resampled(t, x, k, s)))
    return out


def _integrals(plan: Plan) -> tuple[list[int], dict[int, float]]:
    """Integrals that are unknowns of their own, and those the objective just adds up, with their factors."""
    summed, direct = [], {}
    conditions = ca.vertcat(SX(0, 1), *[c.expression for c in plan.conditions])
    for i, (symbol, _, _) in enumerate(plan.integrals):
        factor = ca.simplify(ca.jacobian(plan.objective, symbol))
        if factor.is_constant() and not ca.depends_on(conditions, symbol):
            direct[i] = float(factor)
        else:
            summed.append(i)
    return summed, direct


def _rows(t: Transcription, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    programme = t.programme(x)
    _, g = programme.evaluate(x)
    return g, np.maximum(programme.low - g, g - programme.high), programme


def _violation(t: Transcription, result: Result) -> float:
    return float(_rows(t, result.x)[1].max(initial=0.0))


def _worst(t: Transcription, x: np.ndarray, count: int = 10) -> list[tuple[str, float, float, float, float]]:
    """Rows that are most wrong, scaled as the solver saw them: name, time, value, bounds."""
    g, wrong, programme = _rows(t, x)
    order = np.argsort(-wrong * programme.row_scale)[:count]
    return [
        (*programme.row(int(i)), float(g[i]), float(programme.low[i]), float(programme.high[i]))
        for i in order
        if wrong[i] > 1e-9
    ]


def _words(low: float, high: float) -> str:
    if low == high:
        return f"{low:g}"
    return f"at least {low:g}" if high == np.inf else f"at most {high:g}" if low == -np.inf else f"{low:g} to {high:g}"


