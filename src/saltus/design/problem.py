"""Problem: bounds, aims and constraints of a turn, stated once, read by any search and solved by IPOPT."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.design.closure_nlp import Programme, reach
from saltus.design.cycle import MX, Cycle, PathError, _Combined, scalar
from saltus.design.turn import Turn
from saltus.errors import BadModel, BadValue, NoDesign, UnknownName
from saltus.model.assembly import State
from saltus.once import cached_property

SLACK = 1e-6  # by how much a constraint may be missed, relative to its size
FAR = 0.05  # share of the size of a target path by which it may be missed before its reach is looked at

Aim = Callable[[Cycle], Any]
Limits = tuple[Aim, float, float]


@dataclass(frozen=True, eq=False)
class Design:
    """What an optimisation found: Params, the value of each aim and constraint, and whether all of it holds.

    `constraints` maps each name to (smallest value on the turn, largest value, lower limit, upper limit).
    """

    params: dict[str, float]
    value: float
    aims: dict[str, float]
    constraints: dict[str, tuple[float, float, float, float]]
    feasible: bool
    turn: Turn
    method: str
    evaluations: int
    seconds: float
    notes: list[str] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    @property
    def state(self) -> State:
        """The machine with these Params, assembled where the turn begins."""
        walked = self.turn.walk(self.turn.params(self.params))
        assert walked.q is not None
        m = self.turn.mechanism
        values = {**self.turn.start.params, **self.params}
        return State(m, walked.q[0, 0], np.zeros(len(m.v_names)), values)

    def report(self) -> str:
        """Text for print."""
        lines = [
            f"{self.method}: value {self.value:.6g}, {'feasible' if self.feasible else 'NOT feasible'}, "
            f"{self.evaluations} evaluations, {self.seconds:.2f} s"
        ]
        lines += [f"  {name} = {value:.6g}" for name, value in self.params.items()]
        for name, (low, high, lower, upper) in self.constraints.items():
            lines.append(f"  {name}: {low:.6g} to {high:.6g}, allowed {lower:.6g} to {upper:.6g}")
        return "\n".join(lines + [f"  note: {n}" for n in self.notes])


class Problem:
    """Bounds, aims and constraints of a turn, as one reading of the turn and as one nonlinear programme."""

    def __init__(
        self,
        turn: Turn,
        vary: Mapping[str, tuple[float, float]],
        aims: Mapping[str, Aim],
        subject_to: Mapping[str, Limits] | None = None,
        transmission: float = math.radians(1.0),
    ) -> None:
        self.turn, self.names = turn, list(vary)
        if turn.redundant:
            raise BadModel(
                f"{turn.mechanism.name!r} has redundant loop equations, which hold for special lengths only; "
                "free a direction (a slot instead of a pin) before its lengths are changed"
            )
        if not vary:
            raise BadValue("nothing varies; give vary={'l_1': (low, high), ...}")
        params = list(turn.mechanism.params)
        for name, given in vary.items():
            if name not in params:
                raise UnknownName("param", name, params)
            if np.shape(given) != (2,):
                raise BadValue(f"{name!r} varies in {given!r}; give its bounds, (low, high)", given=given)
            low, high = given
            if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
                raise BadValue(
                    f"bounds of {name!r} are {low:g} to {high:g}; the lower one must be less than the upper one",
                    param=name,
                    given=(low, high),
                )
        if not 0 <= transmission < math.pi / 2:
            raise BadValue(f"transmission is {transmission}; give the least transmission angle in rad, below pi/2")
        self.low, self.high = np.array([v[0] for v in vary.values()]), np.array([v[1] for v in vary.values()])
        self.index = [params.index(n) for n in self.names]
        self.aims = dict(aims)
        self.limits: dict[str, Limits] = {
            "transmission": (lambda c: c.transmission(), math.sin(transmission), math.inf),
            **(subject_to or {}),
        }
        for name, (_, lower, upper) in self.limits.items():
            if not lower <= upper:
                raise BadValue(
                    f"constraint {name!r} wants values from {lower:g} to {upper:g}, which contradict each other"
                )
        self.evaluations = 0
        self._refuse_idle()

    # ---- as a reading -------------------------------------------------------------------------------------------

    @cached_property
    def reading(self) -> ca.Function:
        """(Q, p) -> aims, then the smallest and the largest value of each constraint."""
        Q, p = self.turn.symbols
        cycle = Cycle(self.turn, Q, p)
        out = [scalar(name, aim(cycle)) for name, aim in self.aims.items()]
        for function, _, _ in self.limits.values():
            rows = ca.vec(MX(function(cycle)))
            out += [ca.mmin(rows), ca.mmax(rows)]
        return ca.Function("reading", [Q, p], [ca.vertcat(*out)])

    def full(self, x: np.ndarray) -> np.ndarray:
        """Rows of all Params from rows of those that vary."""
        out = np.tile(self.turn.start.p, (len(np.atleast_2d(x)), 1))
        out[:, self.index] = x
        return out

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Aims of many designs and by how much each misses assembly (m) and each constraint; zero is good."""
        walked = self.turn.walk(self.full(x), self.reading, keep=False)
        self.evaluations += len(walked.gap)
        k = len(self.aims)
        scale = float(np.abs(self.high).max())
        missed = [walked.gap + scale * walked.flips / self.turn.samples]
        for i, (_, lower, upper) in enumerate(self.limits.values()):
            low, high = walked.values[:, k + 2 * i], walked.values[:, k + 2 * i + 1]
            below = np.maximum(lower - low, 0.0) if math.isfinite(lower) else np.zeros(len(low))
            missed.append(below + (np.maximum(high - upper, 0.0) if math.isfinite(upper) else 0.0))
        return walked.values[:, :k], np.nan_to_num(np.column_stack(missed), nan=scale)

    def tolerances(self) -> np.ndarray:
        """By how much assembly and each constraint may be missed."""
        sizes = [
            max([abs(v) for v in (lower, upper) if math.isfinite(v)] or [1.0])
            for _, lower, upper in self.limits.values()
        ]
        return np.array([1e-9] + [SLACK * max(s, 1e-3) for s in sizes])

    def _refuse_idle(self) -> None:
        """Refuse Params that change nothing of what is asked for."""
        Q, p = self.turn.symbols
        cycle = Cycle(self.turn, Q, p)
        wanted = [MX(f(cycle)) for f in self.aims.values()] + [MX(f(cycle)) for f, _, _ in self.limits.values()]
        direct = ca.Function("wanted", [Q, p], [ca.vertcat(*[ca.vec(w) for w in wanted])]).jac_sparsity(0, 1)
        loops = ca.jacobian_sparsity(self.turn.phi, self.turn.p)
        touched = {c for s in (direct, loops) for c in s.get_triplet()[1]}
        idle = [n for n, i in zip(self.names, self.index, strict=True) if i not in touched]
        if idle:
            raise BadValue(
                f"{', '.join(map(repr, idle))} change neither the loops nor anything that is minimised or bounded; "
                "leave them out of `vary`",
                params=idle,
            )

    # ---- as a nonlinear programme -------------------------------------------------------------------------------

    @cached_property
    def programme(self) -> Programme:
        """The same with the closure angles as variables, made once."""
        return Programme(self)

    def best(self, starts: Sequence[np.ndarray], method: str, weights: Any = None) -> Design:
        """Solve from every start; the best feasible design, or NoDesign naming what cannot be met."""
        begin, before = time.perf_counter(), self.evaluations
        found, words = [], []
        for x in starts:
            solution, word, iterations = self.programme.solve(x, weights)
            self.evaluations += iterations
            aims, missed = self.evaluate(solution[None])
            found.append((solution, aims[0], missed[0]))
            words.append(word)
        good = [bool((missed <= self.tolerances()).all()) for *_, missed in found]
        merit = [self.programme.merit(aims, weights) for _, aims, _ in found]
        runs = [v if ok else math.inf for v, ok in zip(merit, good, strict=True)]
        if not any(good):
            best = min(range(len(found)), key=lambda i: float((found[i][2] / self.tolerances()).max()))
            raise self._nothing(found[best][0], found[best][2], words[best])
        best = int(np.argmin(runs))
        x, aims, _ = found[best]
        return self.design(x, aims, method, self.evaluations - before, time.perf_counter() - begin, runs)

    def design(
        self,
        x: np.ndarray,
        aims: np.ndarray,
        method: str,
        evaluations: int,
        seconds: float,
        runs: list[float],
    ) -> Design:
        """Gather what a result says."""
        walked = self.turn.walk(self.full(x), self.reading, keep=False)
        k, ends = len(self.aims), {}
        for i, (name, (_, lower, upper)) in enumerate(self.limits.items()):
            low, high = walked.values[0, k + 2 * i : k + 2 * i + 2]
            ends[name] = (float(low), float(high), lower, upper)
        _, missed = self.evaluate(x[None])
        notes = [
            f"{n} is at its {'lower' if v < (a + b) / 2 else 'upper'} bound, {v:.6g}"
            for n, v, a, b in zip(self.names, x, self.low, self.high, strict=True)
            if min(v - a, b - v) < 1e-6 * (b - a)
        ]
        return Design(
            dict(zip(self.names, map(float, x), strict=True)),
            float(aims[0]),
            dict(zip(self.aims, map(float, aims), strict=True)),
            ends,
            bool((missed[0] <= self.tolerances()).all()),
            self.turn,
            method,
            evaluations,
            seconds,
            notes + self._reach_notes(x),
            runs,
        )

    def _nothing(self, x: np.ndarray, missed: np.ndarray, word: str) -> NoDesign:
        amounts = dict(zip(["assembly", *self.limits], missed.tolist(), strict=True))
        allowed = dict(zip(amounts, self.tolerances(), strict=True))
        worst = sorted((n for n in amounts if amounts[n] > allowed[n]), key=lambda n: -amounts[n] / allowed[n])
        said = []
        for name in worst[:3]:
            if name == "assembly":
                said.append(f"the loops do not close all the way round (off by {amounts[name]:.3g} m)")
            else:
                _, lower, upper = self.limits[name]
                said.append(f"{name!r} misses {lower:g} to {upper:g} by {amounts[name]:.3g}")
        return NoDesign(
            f"no design of {self.turn.mechanism.name!r} within the bounds of {', '.join(self.names)} was found: "
            f"{'; '.join(said)} (IPOPT: {word}). Widen bounds or constraints, or try method='global'",
            missed=amounts,
            params=dict(zip(self.names, x.tolist(), strict=True)),
        )

    def _reach_notes(self, x: np.ndarray) -> list[str]:
        """Say plainly where a target path cannot be reached by any design."""
        out = []
        for part in (p for aim in self.aims.values() for p in _parts(aim) if isinstance(p, PathError)):
            Q, p = self.turn.symbols
            squares = ca.Function("squares", [Q, p], [ca.vec(part.squares(Cycle(self.turn, Q, p)))])
            missed = np.sqrt(self.turn.walk(self.full(x), squares, keep=False).values[0])
            size = float(np.ptp(part.target, axis=0).max())
            worst = int(missed.argmax())
            if missed[worst] <= FAR * max(size, 1e-9):
                continue
            target = part.target[worst]
            where = ", ".join(f"{c:.4g}" for c in target)
            nearest = reach(self, part.point, target, x)
            if nearest > FAR * size / 2:
                out.append(
                    f"target path: ({where}) is out of reach of {part.point!r}; no design within the bounds "
                    f"comes nearer than about {nearest:.3g} m"
                )
            else:
                out.append(
                    f"target path: missed by up to {missed[worst]:.3g} m, at ({where}): "
                    f"{missed[worst] / size:.0%} of its size"
                )
        return out


def _parts(aim: Any) -> list[Any]:
    return [q for _, part in aim.terms for q in _parts(part)] if isinstance(aim, _Combined) else [aim]
