"""Optimise: Params within bounds and constraints, by exact gradients, by global search, or for several aims."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.design.problem import Aim, Design, Limits, Problem
from saltus.design.turn import Turn
from saltus.errors import BadValue, NoDesign, UnknownName
from saltus.model.contents import unchanged


@unchanged
def optimise(
    turn: Turn,
    vary: Mapping[str, tuple[float, float]],
    minimise: Aim,
    subject_to: Mapping[str, Limits] | None = None,
    *,
    method: str = "local",
    starts: int = 1,
    seed: int = 0,
    transmission: float = math.radians(1.0),
    generations: int = 120,
    population: int = 10,
) -> Design:
    """Choose Params within bounds so that `minimise(cycle)` is least while the linkage assembles all the way round.

    `subject_to` maps names to (function of a Cycle, lower limit, upper limit), `transmission` is the least
    transmission angle (rad). "local" goes down exact gradients (IPOPT) from the turn's own Params and, with
    `starts` above one, from random designs too; "global" lets differential evolution (SciPy) look everywhere for
    `generations`, then goes down from the best. Designs that do not assemble miss a constraint, no more.
    """
    problem = Problem(turn, vary, {"value": minimise}, subject_to, transmission)
    generator = np.random.default_rng(seed)
    own = turn.start.p[problem.index]
    if method == "local":
        points = [np.clip(own, problem.low, problem.high)]
        points += [generator.uniform(problem.low, problem.high) for _ in range(starts - 1)]
        return problem.best(points, f"IPOPT from {len(points)} start(s)")
    if method == "global":
        begin = time.perf_counter()
        x, count = _evolve(problem, seed, generations, population)
        found = problem.best([x], f"differential evolution ({generations} generations), then IPOPT")
        return replace(found, evaluations=count + found.evaluations, seconds=time.perf_counter() - begin)
    raise UnknownName("method", method, ["local", "global"])


def _evolve(problem: Problem, seed: int, generations: int, population: int) -> tuple[np.ndarray, int]:
    """Differential evolution on whole populations at once; constraints are compared by how much they are missed."""
    from scipy.optimize import NonlinearConstraint, differential_evolution

    kept: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    before = problem.evaluations

    def both(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = x.tobytes()
        if key not in kept:
            kept.clear()
            kept[key] = problem.evaluate(np.atleast_2d(x.T))
        return kept[key]

    def value(x: np.ndarray) -> Any:
        return both(x)[0][:, 0] if x.ndim > 1 else float(both(x)[0][0, 0])

    def missed(x: np.ndarray) -> np.ndarray:
        return both(x)[1].T if x.ndim > 1 else both(x)[1][0]

    allowed = NonlinearConstraint(missed, -np.inf, problem.tolerances())
    with np.errstate(all="ignore"):
        answer = differential_evolution(
            value,
            list(zip(problem.low, problem.high, strict=True)),
            constraints=(allowed,),
            vectorized=True,
            updating="deferred",
            polish=False,
            maxiter=generations,
            popsize=population,
            rng=seed,
            tol=1e-8,
        )
    return np.asarray(answer.x), problem.evaluations - before


@dataclass(frozen=True, eq=False)
class Front:
    """A Pareto front: no design of it is better in one aim without being worse in another."""

    names: list[str]
    values: np.ndarray
    designs: list[Design]


@unchanged
def pareto(
    turn: Turn,
    vary: Mapping[str, tuple[float, float]],
    minimise: Mapping[str, Aim],
    subject_to: Mapping[str, Limits] | None = None,
    *,
    points: int = 15,
    seed: int = 0,
    transmission: float = math.radians(1.0),
) -> Front:
    """Pareto front of two or more aims: IPOPT on the Chebyshev distance from the ideal, weighted in all directions."""
    if len(minimise) < 2:
        raise BadValue("a front needs two or more aims; use optimise for one", given=list(minimise))
    names, k = list(minimise), len(minimise)
    own = Problem(turn, vary, minimise, subject_to, transmission)
    start = np.clip(turn.start.p[own.index], own.low, own.high)
    own_aims, _ = own.evaluate(start[None])
    scale = np.maximum(np.abs(own_aims[0]), 1e-12)
    best = []
    for i in range(k):  # the ends of the front: one aim counts, the others break ties
        found = own.best([start], "IPOPT", np.array([np.eye(k)[i], np.zeros(k), scale]))
        best.append(np.array([found.params[n] for n in own.names]))
    corners, _ = own.evaluate(np.array(best))
    ideal, worst = corners.min(axis=0), corners.max(axis=0)
    size = np.maximum(worst - ideal, 1e-12)
    generator = np.random.default_rng(seed)
    if k == 2:
        share = np.linspace(0.0, 1.0, points)[1:-1]
        directions = np.column_stack([share, 1 - share])
    else:
        directions = generator.dirichlet(np.ones(k), points - k)
    designs = [own.design(x, a, "IPOPT", 0, 0.0, []) for x, a in zip(best, corners, strict=True)]
    x = best[0]
    for direction in directions:
        weights = np.array([1 / np.maximum(direction, 1e-3), ideal, size])
        weights[0] /= weights[0].min()
        try:
            found = own.best([x], "IPOPT on the Chebyshev distance", weights)
        except NoDesign:
            continue
        designs.append(found)
        x = np.array([found.params[n] for n in own.names])
    values = np.array([[d.aims[n] for n in names] for d in designs])
    kept = [i for i in range(len(values)) if not _dominated(values[i], values)]
    kept.sort(key=lambda i: tuple(values[i]))
    return Front(names, values[kept], [designs[i] for i in kept])


def _dominated(value: np.ndarray, others: np.ndarray) -> bool:
    return bool(((others <= value).all(axis=1) & (others < value).any(axis=1)).any())
