"""The nonlinear solvers, IPOPT and FATROP: exact sparse derivatives, limits on time and iterations, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import casadi as ca
import numpy as np

from saltus.plan.nlp import Programme
from saltus.plan.stages import Staged

SOLVERS = ("ipopt", "fatrop")
SOLVED = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
FATROP = (  # what its return flags are called here
    "Solve_Succeeded",
    "Maximum_Iterations_Exceeded",
    "Solved_To_Acceptable_Level",
    "Infeasible_Problem_Detected",
    "Restoration_Failed",
    "Error_In_Step_Computation",
    "Unknown_Error",
)
QUIET = {"print_time": False, "record_time": True, "error_on_fail": False}
INFEASIBLE = ("Infeasible_Problem_Detected", "Restoration_Failed")


@dataclass(frozen=True)
class Limits:
    """When to give up: iterations on a mesh, seconds in all, and the scaled optimality error that counts as solved."""

    iterations: int = 1000
    seconds: float = 600.0
    accuracy: float = 1e-6


@dataclass(frozen=True, eq=False)
class Result:
    """Where the solver ended; `seconds` are its own, without those in which the problem was built."""

    x: np.ndarray
    status: str
    iterations: int
    cost: float
    seconds: float
    violation: float
    evaluations: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether a local optimum was found."""
        return self.status in SOLVED


def run(
    programme: Programme,
    guess: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    limits: Limits,
    *,
    warm: bool = False,
    stages: np.ndarray | None = None,
    progress: Callable[[int, float, float], None] | None = None,
) -> Result:
    """Solve from a guess, by FATROP if a stage is given for every unknown, else by IPOPT.

    `warm` starts near a solution; `progress(iteration, cost, violation)` is told at times.
    """
    x0, least, most = np.clip(guess, low, high) / programme.scale, low / programme.scale, high / programme.scale
    with _Watch(programme, limits, progress) as watch:
        if stages is None:
            x, status, stats = _ipopt(programme, x0, least, most, limits, warm, watch)
        else:
            staged = Staged(programme, stages, low, high)
            x, status, stats = _fatrop(staged, x0, least, most, limits, warm, watch)
        seconds = time.perf_counter() - watch.begin
        status = watch.stopped or status
        if status not in SOLVED and watch.best is not None:
            x = watch.best
    evaluations = {
        name: (int(stats[f"n_call_nlp_{name}"]), float(stats[f"t_wall_nlp_{name}"]))
        for name in ("f", "g", "grad_f", "jac_g", "hess_l")
        if f"n_call_nlp_{name}" in stats
    }
    x = np.clip(x * programme.scale, low, high)
    cost, g = programme.evaluate(x)
    violation = float(programme.wrong(g).max(initial=0.0))
    return Result(x, status, int(stats["iter_count"]), cost, seconds, violation, evaluations)


def _ipopt(
    programme: Programme,
    guess: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    limits: Limits,
    warm: bool,
    watch: _Watch,
) -> tuple[np.ndarray, str, dict[str, Any]]:
    """Scaled unknowns, status and statistics, by IPOPT."""
    problem, derivatives = programme.functions()
    options: dict[str, Any] = {
        **derivatives,
        **QUIET,
        "no_nlp_grad": True,
        "iteration_callback": watch,
        "ipopt": {
            "print_level": 0,
            "sb": "yes",
            "max_iter": limits.iterations,
            "max_wall_time": max(limits.seconds, 1e-3),
            "tol": limits.accuracy,
            "acceptable_tol": 10 * limits.accuracy,
            "constr_viol_tol": 1e-7,
            "nlp_scaling_method": "none",
            "mu_strategy": "monotone",
            "bound_relax_factor": 0.0,
            **({"mu_init": 1e-4, "warm_start_init_point": "yes", "warm_start_bound_push": 1e-6} if warm else {}),
        },
    }
    solver = ca.nlpsol("plan", "ipopt", problem, options)
    rows = {"lbg": programme.low * programme.row_scale, "ubg": programme.high * programme.row_scale}
    watch.begin = time.perf_counter()
    out = solver(x0=guess, lbx=low, ubx=high, **rows)
    stats = solver.stats()
    return out["x"].full().ravel(), str(stats["return_status"]), stats


def _fatrop(
    staged: Staged,
    guess: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    limits: Limits,
    warm: bool,
    watch: _Watch,
) -> tuple[np.ndarray, str, dict[str, Any]]:
    """Scaled unknowns, status and statistics, by FATROP."""
    if staged.contradicts(guess):
        return guess, "Infeasible_Problem_Detected", {"iter_count": 0}
    problem, functions = staged.functions(watch)
    options: dict[str, Any] = {
        **staged.structure,
        **QUIET,
        "cache": functions,
        "show_eval_warnings": False,
        "fatrop": {
            "print_level": 0,
            "max_iter": limits.iterations - 1,  # it makes one more
            "tolerance": limits.accuracy,
            "tol_acceptable": 10 * limits.accuracy,
            **({"mu_init": 1e-4, "bound_push": 1e-6, "bound_frac": 1e-6} if warm else {}),
        },
    }
    solver = ca.nlpsol("plan", "fatrop", problem, options)
    watch.begin = time.perf_counter()
    try:
        out = solver(x0=guess[staged.unknown], **staged.bounds(low, high))
    except RuntimeError:  # a number that is none: `watch` stopped it, or a function did
        return guess, "Invalid_Number_Detected", {"iter_count": watch.iteration}
    stats = solver.stats()
    return staged.whole(out["x"].full().ravel()), FATROP[int(stats["fatrop"]["return_flag"])], stats


class _Watch(ca.Callback):
    """Follows the iterations: keeps the least infeasible one, stops on Ctrl-C or when time is up."""

    def __init__(
        self,
        programme: Programme,
        limits: Limits,
        progress: Callable[[int, float, float], None] | None,
    ) -> None:
        ca.Callback.__init__(self)
        self.n, self.m = programme.n, programme.m
        self.bounds = programme.low * programme.row_scale, programme.high * programme.row_scale
        self.cost_scale = programme.cost_scale
        self.limits, self.progress = limits, progress
        self.best: np.ndarray | None = None
        self.least, self.iteration, self.stopped = np.inf, 0, ""
        self.begin, self._said = time.perf_counter(), 0.0  # when the solver itself began
        self._interrupted = False
        self._old: Any = None
        self.construct("watch", {})

    def __enter__(self) -> _Watch:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)

    def _interrupt(self, *_: Any) -> None:
        self._interrupted = True

    def get_n_in(self) -> int:
        """Outputs of an NLP solver."""
        return int(ca.nlpsol_n_out())

    def get_n_out(self) -> int:
        """Whether to stop."""
        return 1

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        """Shapes of the solver's outputs."""
        name = ca.nlpsol_out(i)
        size = {"f": 1, "x": self.n, "lam_x": self.n, "g": self.m, "lam_g": self.m}.get(name, 0)
        return ca.Sparsity.dense(size, 1)

    def eval(self, arg: Any) -> list[int]:
        """Look at one iterate."""
        x, g = arg[0].full().ravel(), arg[2].full().ravel()
        cost = float(arg[1]) / self.cost_scale
        low, high = self.bounds
        violation = float(np.maximum(low - g, g - high).max(initial=0.0))
        if violation <= max(self.least, 1e-8) and np.isfinite(x).all():
            self.best, self.least = x.copy(), violation
        self.iteration += 1
        now = time.perf_counter()
        if self.progress is not None and now - self._said > 0.2:
            self._said = now
            self.progress(self.iteration, cost, violation)
        if self._interrupted:
            self.stopped = "Interrupted"
        elif now - self.begin > self.limits.seconds:
            self.stopped = "Maximum_WallTime_Exceeded"
        return [1 if self.stopped else 0]
