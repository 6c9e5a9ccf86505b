"""solve: from a Plan and a guess, over ever finer meshes, to a motion that is checked by flying it."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue, NotSolved, UnknownName
from saltus.model.contents import unchanged
from saltus.model.symbols import SX
from saltus.plan import solvers
from saltus.plan.conditions import in_words
from saltus.plan.flight import OVERLAPS
from saltus.plan.flight import fly as flown
from saltus.plan.guess import Guess, PhaseGuess, bent, guesses, rows_at
from saltus.plan.integrals import means, objective, with_integrals
from saltus.plan.mesh import errors, inputs, refined, states
from saltus.plan.phase_model import PhaseModel
from saltus.plan.planned import Planned, Round, planned
from saltus.plan.schemes import HermiteSimpson, Midpoint, Scheme
from saltus.plan.solvers import SOLVERS, Limits, Result
from saltus.plan.stages import stages_of
from saltus.plan.starting_point import fill
from saltus.plan.statement import Plan
from saltus.plan.transcription import Transcription

LOOK = 50  # iterations that a further guess gets, once one has led to a solution
RELAXED = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)  # weight m, m/s: how far contacts may overlap, in rounds
ROUNDINGS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of absolute values, as shares of their means, one after the other
SHARPENED = 300  # iterations that a solution gets for this: where it takes more, what is smooth is the better plan
SAME = 1e-3  # relative change of the objective below which they need not be rounded less


@dataclass(frozen=True)
class Method:
    """How a plan becomes numbers.

    `scheme` is HermiteSimpson(), as it comes, or Trapezoidal(); plans through contact go in implicit steps. `solver` is
    "ipopt", or "fatrop", which goes stage by stage. Meshes are refined `refinements` times at most. `momentum` keeps
    that of a floating machine exact; `native` compiles the derivatives, which pays for large problems solved often.
    """

    scheme: Scheme | None = None
    solver: str = "ipopt"
    refinements: int = 5
    momentum: bool = True
    native: bool | None = False

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise UnknownName("solver", self.solver, SOLVERS)


@dataclass(frozen=True)
class Starts:
    """Further guesses: `count` times the first one bent at random (`seed`), shared out among `workers` processes."""

    count: int = 0
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if self.count < 0 or self.workers < 1:
            raise BadValue(
                f"{self.count} starts on {self.workers} workers; give zero or more starts and at least one worker"
            )


@unchanged
def solve(
    plan: Plan,
    guess: Any = None,
    *,
    tolerance: float | None = 1e-4,
    fly: bool = True,
    method: Method | None = None,
    limits: Limits | None = None,
    starts: Starts | None = None,
    progress: Callable[[str, int, float, float], None] | None = None,
) -> Planned:
    """Find a motion that does what the plan says.

    `guess` is a trajectory, an orbit, an earlier plan or values by name; without one the machine is let go from its
    start. Meshes are refined until the relative error of every interval is below `tolerance` (None keeps the first
    mesh); where the solver ends without a solution on a finer one, the last solution is kept and is `coarse`.
    `fly` simulates the result with feedback. `method` says how the plan becomes numbers, `limits` when the solver
    gives up; Ctrl-C stops it too, and NotSolved, where no mesh was solved on, carries the motion reached. Of further
    `starts` the best solution is carried on, the other local minima are in `others`.
    `progress(what, iteration, cost, violation)` is called now and then.
    """
    begin = time.perf_counter()
    method, limits, starts = method or Method(), limits or Limits(), starts or Starts()
    scheme = method.scheme
    if plan.through and scheme is not None:
        raise BadValue(f"{plan!r} goes through contact, in steps of its own; leave out scheme={scheme!r}", given=scheme)
    method = replace(method, scheme=Midpoint() if plan.through else scheme or HermiteSimpson())
    if tolerance is not None and not tolerance > 0:
        raise BadValue(f"tolerance is {tolerance}; give a number above zero, or None to keep the mesh", given=tolerance)
    work = _Work(plan, method, limits, progress, begin)
    candidates = guesses(plan, guess)
    candidates += [bent(plan, candidates[0], np.random.default_rng([starts.seed, i])) for i in range(starts.count)]
    tried = work.try_all(candidates, starts.workers, everything=starts.count > 0)
    best, refinements = tried[0], method.refinements
    out = work.finish(best, tolerance, refinements, fly)
    out.meta["notes"] += work.notes
    if tolerance is not None and out.mesh_error > tolerance:
        why = work.ended or f"{refinements} refinements were not enough; allow more, or start with more intervals"
        out.meta["plan"]["coarse"] = True
        out.meta["notes"].append(
            f"the mesh is coarse, its error {out.mesh_error:.2g} above the tolerance {tolerance:g}: {why}"
        )
    out.others = [work.motion(*one) for one in _distinct(tried)[1:]]
    if fly:
        out.flown, out.flight = flown(out)
        if not out.flight.follows:
            out.meta["outcome"] |= {"kind": "cannot be followed", "detail": out.flight.detail}
    elif out.meta["plan"]["overlap"] > OVERLAPS:
        out.meta["outcome"] |= {"kind": "contacts overlap", "detail": out.meta["notes"][-1]}
    return out


class _Work:
    """One call of `solve`: what has been derived, the time that is left."""

    def __init__(
        self,
        plan: Plan,
        method: Method,
        limits: Limits,
        progress: Callable[[str, int, float, float], None] | None,
        begin: float,
    ) -> None:
        self.plan, self.momentum, self.native = plan, method.momentum, method.native
        self.scheme: Scheme = method.scheme or HermiteSimpson()
        self.solver, self.limits, self.progress, self.begin = method.solver, limits, progress, begin
        self.rounds: list[Round] = []
        self.solving = 0.0
        self.notes: list[str] = []
        self.ended = ""  # why no finer mesh was solved on
        self._models: dict[tuple[tuple[int, ...], ...], list[PhaseModel]] = {}
        self._locals: dict[Any, Any] = {}
        self._known: tuple[Result, list[np.ndarray]] | None = None
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
        allowed = replace(self.limits, iterations=max(min(limit, self.limits.iterations), 1), seconds=left)
        stages = stages_of(t) if self.solver == "fatrop" else None
        result = solvers.run(programme, x, t.low, t.high, allowed, warm=warm, stages=stages, progress=tell)
        self.solving += result.seconds
        x = t.filled(result.x)
        return replace(result, x=x, cost=objective(t, x) if t.rounding.size else result.cost)

    def try_all(
        self, candidates: Sequence[Guess], workers: int = 1, everything: bool = False
    ) -> list[tuple[Transcription, Result]]:
        """Solve from every guess, the cheapest solution first; unsolved ones last, the least wrong first.

        Unless `everything` is asked for, guesses after one that led to a solution get a short look only, and no more
        iterations than that one took.
        """
        count = len(candidates)
        if workers > 1 and count > 1 and "fork" in multiprocessing.get_all_start_methods():
            results = self._shared_out(candidates, workers)
        else:
            results = []
            for i in range(count):
                quickest = min([r.iterations for r in results if r.ok], default=0)
                if quickest and not everything:
                    limit = min(LOOK, quickest)
                else:
                    limit = self.limits.iterations // (1 if everything else count - i)
                results.append(self.from_guess(i, candidates, limit))
                if results[-1].status == "Interrupted":
                    break
        out = [(self._on_first_mesh(candidates[i]), result) for i, result in enumerate(results)]
        for t, result in out:
            self._record(t, result)
        out.sort(key=lambda one: (not one[1].ok, one[1].cost if one[1].ok else one[1].violation))
        return out

    def _on_first_mesh(self, guess: Guess) -> Transcription:
        meshes = [np.linspace(0, 1, p.intervals + 1) for p in self.plan.phases]
        rows = [rows_at(self.plan, p, g.q[0]) for p, g in zip(self.plan.phases, guess, strict=True)]
        t = self.transcription(rows, meshes)
        t.rounding = ROUNDINGS[0] * means(t, fill(t, guess))
        if self.plan.through:
            t.relaxed = np.array(RELAXED[:1])
        return t

    def from_guess(self, i: int, candidates: Sequence[Guess], limit: int) -> Result:
        """Solve from one of the guesses on the first mesh."""
        t = self._on_first_mesh(candidates[i])
        what = f"guess {i + 1} of {len(candidates)}" if len(candidates) > 1 else "first mesh"
        return self._solve(t, fill(t, candidates[i]), what, limit)

    def _shared_out(self, candidates: Sequence[Guess], workers: int) -> list[Result]:
        """Let processes that inherit this one's expressions solve from the guesses."""
        begin = time.perf_counter()
        given = (self, candidates)
        with multiprocessing.get_context("fork").Pool(min(workers, len(candidates)), _inherit, given) as pool:
            results = pool.map(_inherited, range(len(candidates)), chunksize=1)
        self.solving += time.perf_counter() - begin
        return results

    def finish(
        self, start: tuple[Transcription, Result], tolerance: float | None, refinements: int, fly: bool
    ) -> Planned:
        """Carry the best solution through finer meshes; where one of them is not solved on, the one before is kept."""
        t, result = start
        left = self.limits.iterations - result.iterations
        if result.status == "Maximum_Iterations_Exceeded" and left > 0:
            result = self._solve(t, result.x, "going on", left)
            self._record(t, result)
        self._insist(t, result)
        if self.plan.through:
            t, result = self._tightened(t, result)
        t, result = self._over_meshes(t, result, tolerance, refinements)
        if t.rounding.size and not self.ended:
            t, result = self._rounded_less(t, result, tolerance, refinements, fly)
        return self.motion(t, result)

    def _tightened(self, t: Transcription, result: Result) -> tuple[Transcription, Result]:
        """Let contacts overlap less and less, for as long as that is solved."""
        for relaxed in RELAXED[1:]:
            tight = self.transcription([m.rows for m in t.models], t.meshes)
            tight.rounding, tight.relaxed = t.rounding, np.array([relaxed])
            found = self._solve(tight, result.x, f"contacts within {relaxed:g}", self.limits.iterations, warm=True)
            self._record(tight, found)
            if not found.ok:
                self.notes.append(
                    f"with contacts that overlap by {relaxed:g} only, the solver ended with {found.status}"
                )
                break
            t, result = tight, found
        return t, result

    def _rounded_less(
        self, t: Transcription, result: Result, tolerance: float | None, refinements: int, fly: bool
    ) -> tuple[Transcription, Result]:
        """Round absolute values less for as long as that matters, is solved, and (`fly`) can be followed as before."""
        follows = not fly or self._follows(t, result)
        for share in ROUNDINGS[1:]:
            sharp = self.transcription([m.rows for m in t.models], t.meshes)
            sharp.rounding = share * means(sharp, result.x)
            found = self._solve(sharp, with_integrals(sharp, result.x), "rounded less", SHARPENED, warm=True)
            self._record(sharp, found)
            if found.ok:
                sharp, found = self._over_meshes(sharp, found, tolerance, refinements)
            if not found.ok or self.ended:
                self.ended = ""  # what was solved before stands
                break
            still = not fly or self._follows(sharp, found)
            if follows and not still:
                within = ", ".join(f"{r:.2g}" for r in sharp.rounding)
                self.notes.append(
                    f"with absolute values rounded off within {within} the objective would be {found.cost:.6g}, but "
                    "the machine could not follow"
                )
                break
            enough = abs(found.cost - result.cost) <= SAME * abs(found.cost)
            t, result, follows = sharp, found, still
            if enough:
                break
        return t, result

    def _follows(self, t: Transcription, result: Result) -> bool:
        return flown(self.motion(t, result))[1].follows

    def _over_meshes(
        self, t: Transcription, result: Result, tolerance: float | None, refinements: int
    ) -> tuple[Transcription, Result]:
        """Refine until the tolerance is met, or say in `ended` what was in the way."""
        for _ in range(refinements):
            try:
                error = self._errors(t, result)
                if tolerance is None or _largest(error) <= tolerance:
                    break
                finer, x = self._finer(t, result, error, tolerance)
                next_result = self._solve(finer, x, "finer mesh", self.limits.iterations, warm=True)
                self._record(finer, next_result)
            except KeyboardInterrupt:
                self.ended = "interrupted before a finer one was solved on"
                break
            if not next_result.ok:
                count = " + ".join(str(len(mesh) - 1) for mesh in finer.meshes)
                self.ended = (
                    f"the solver ended with {next_result.status} on {count} intervals after {next_result.iterations} "
                    f"iterations and {next_result.seconds:.1f} s; {self._advice(next_result)}"
                )
                break
            t, result = finer, next_result
        return t, result

    def _finer(
        self, t: Transcription, result: Result, error: Sequence[np.ndarray], tolerance: float
    ) -> tuple[Transcription, np.ndarray]:
        """A mesh that should do, and the solution there."""
        meshes = [refined(m, e, tolerance, self.scheme.order) for m, e in zip(t.meshes, error, strict=True)]
        finer = self.transcription([m.rows for m in t.models], meshes)
        finer.rounding = t.rounding
        return finer, fill(finer, guess_of(t, result.x, finer.fractions))

    def _errors(self, t: Transcription, result: Result) -> list[np.ndarray]:
        """Errors of every interval, worked out once for a result."""
        if self._known is None or self._known[0] is not result:
            finite = np.isfinite(result.x).all()
            found = errors(t, result.x) if finite else [np.full(len(m) - 1, np.inf) for m in t.meshes]
            self._known = result, found
        return self._known[1]

    def _record(self, t: Transcription, result: Result) -> None:
        error = _largest(self._errors(t, result))
        mesh = tuple(len(m) - 1 for m in t.meshes)
        status = "solved" if result.ok else result.status
        self.rounds.append(
            Round(mesh, status, result.iterations, result.cost, error, result.seconds, result.evaluations)
        )

    def motion(self, t: Transcription, result: Result) -> Planned:
        """The motion that a result stands for."""
        build = time.perf_counter() - self.begin - self.solving
        status = "solved" if result.ok else "not solved"
        return planned(
            t, result.x, self.rounds, result.cost, _largest(self._errors(t, result)), build, status, self.solver.upper()
        )

    def _advice(self, result: Result) -> str:
        if result.status in solvers.INFEASIBLE:
            return "It looks infeasible from here: give it more time or larger limits, or another guess"
        integrands = ca.vertcat(SX(0, 1), *[expression for _, expression, _ in self.plan.integrals])
        steps = ca.Function("integrands", ca.symvar(integrands), [integrands])
        if any(steps.instruction_id(k) == ca.OP_FABS for k in range(steps.n_instructions())):
            return "An integral has an absolute value, whose kink solvers trip over: write plan.absolute(x) for |x|"
        return "Allow more iterations or seconds, or give a better guess"

    def _insist(self, t: Transcription, result: Result) -> None:
        """Raise NotSolved with what is most wrong."""
        if result.ok:
            return
        worst = _worst(t, result.x)
        lines = [
            f"  {name}{f' at {when:.4g} s' if np.isfinite(when) else ''}: {value:.4g}, should be {in_words(low, high)}"
            for name, when, value, low, high in worst[:5]
        ]
        raise NotSolved(
            f"{self.plan!r}: the solver ended with {result.status} after {result.iterations} iterations and "
            f"{result.seconds:.1f} s.\n"
            + "\n".join([*(["Most wrong:", *lines] if lines else []), self._advice(result)]),
            worst=worst,
            best=self.motion(t, result),
            status=result.status,
            looks_infeasible=result.status in solvers.INFEASIBLE,
            iterations=result.iterations,
            seconds=result.seconds,
        )


def _distinct(tried: Sequence[tuple[Transcription, Result]]) -> list[tuple[Transcription, Result]]:
    """Solutions, cheapest first, without those that cost the same as one before."""
    out: list[tuple[Transcription, Result]] = []
    for one in tried:
        if one[1].ok and not any(abs(one[1].cost - o[1].cost) <= 1e-4 * abs(o[1].cost) for o in out):
            out.append(one)
    return out


_INHERITED: list[tuple[_Work, Sequence[Guess]]] = []  # in a forked worker, what it works on


def _inherit(work: _Work, candidates: Sequence[Guess]) -> None:
    _INHERITED.append((work, candidates))


def _inherited(i: int) -> Result:
    ((work, candidates),) = _INHERITED
    return work.from_guess(i, candidates, work.limits.iterations)


def guess_of(t: Transcription, x: np.ndarray, fractions: Sequence[np.ndarray]) -> Guess:
    """Turn a solution into a guess for nodes at other fractions of its phases."""
    out, nq = [], len(t.plan.mechanism.q_names)
    params = dict(zip(t.plan.mechanism.params, t.params(x).tolist(), strict=True))
    for k, s in enumerate(fractions):
        at = x[t.begins[k]] + s * x[t.lengths[k]]
        y = states(t, k, x).at(at)
        out.append(PhaseGuess(s * x[t.lengths[k]], y[:, :nq], y[:, nq:], inputs(t, k, x).at(at), params))
    return out


def _largest(error: Sequence[np.ndarray]) -> float:
    return max(float(e.max()) for e in error)


def _integrals(plan: Plan) -> tuple[list[int], dict[int, float]]:
    """Integrals that are unknowns of their own, and those the objective just adds up, with their factors."""
    summed, direct = [], {}
    conditions = ca.vertcat(SX(0, 1), *[c.expression for c in plan.conditions])
    wanted = ca.vertcat(conditions, plan.objective)
    sizes = ca.vertcat(SX(0, 1), *[symbol for symbol, _ in plan.sizes])
    for i, (symbol, integrand, _) in enumerate(plan.integrals):
        factor = ca.simplify(ca.jacobian(plan.objective, symbol))
        plain = not (ca.depends_on(conditions, symbol) or ca.depends_on(integrand, sizes))
        if not ca.depends_on(wanted, symbol):
            continue
        if factor.is_constant() and plain:
            direct[i] = float(factor)
        else:
            summed.append(i)
    return summed, direct


def _worst(t: Transcription, x: np.ndarray, count: int = 10) -> list[tuple[str, float, float, float, float]]:
    """Rows that are most wrong, scaled as the solver saw them: name, time, value, bounds."""
    programme = t.programme(x)
    _, g = programme.evaluate(x)
    wrong = programme.wrong(g)
    order = np.argsort(-wrong * programme.row_scale)[:count]
    return [
        (*programme.row(int(i)), float(g[i]), float(programme.low[i]), float(programme.high[i]))
        for i in order
        if wrong[i] > 1e-9
    ]
