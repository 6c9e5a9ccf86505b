"""Bifurcations between two neighbours on a branch: functions that change sign there, and where they vanish."""

from __future__ import annotations

from collections import Counter

import numpy as np

from saltus.errors import SaltusError
from saltus.orbits import crossing_point
from saltus.orbits.branch import Branch, root
from saltus.orbits.family import Bifurcation
from saltus.orbits.shooting import Evaluation

PRECISE = 1e-13  # of the arclength at which a bifurcation is located
CLOSE = 1e-4  # of a step: how near to a change of sequence its orbit is
SIGHT = 1e-12  # a test function smaller than this has no sign


def tests(branch: Branch, e: Evaluation, tau: np.ndarray) -> dict[str, float]:
    """Functions that change sign at bifurcations."""
    A = e.section_map
    mu = np.linalg.eigvals(A) if len(A) else np.zeros(0)
    i, j = np.triu_indices(len(mu), 1)
    pairs = mu[i] * mu[j]
    out = {
        "fold": float(tau[-1]),
        "flip": float(np.real(np.prod(mu + 1))),
        "torus": float(np.real(np.prod(pairs - 1))) if len(pairs) else 1.0,
    }
    if len(e.point.nodes) == 1:
        same = branch.shooting.sameness.rows
        null = np.linalg.lstsq(branch.weights[:, None] * e.lift, tau, rcond=None)[0]
        inverse = np.linalg.pinv(e.lift[same, : len(A)])
        square = np.vstack([inverse @ e.jacobian[: len(same)], e.jacobian[len(same) :], null])
        out["branch point"] = float(np.linalg.det(square))
    elif not branch.shooting.where:  # the same up to a positive factor, by Cramer's rule
        out["branch point"] = float(np.real(np.prod(mu - 1)) / tau[-1])
    return out


def between(
    branch: Branch, left: Evaluation, tau: np.ndarray, ds: float, right: Evaluation, tau_right: np.ndarray
) -> tuple[list[Bifurcation], list[str]]:
    """Bifurcations between two neighbours in order, and what was passed but could not be located."""
    before, after = tests(branch, left, tau), tests(branch, right, tau_right)
    found: list[tuple[float, Bifurcation]] = []
    missed = []
    for kind in before:
        if before[kind] * after[kind] >= 0 or min(abs(before[kind]), abs(after[kind])) < SIGHT:
            continue
        near = left if abs(before[kind]) < abs(after[kind]) else right
        try:
            crosses = kind == "branch point"
            point = _crossing(branch, near, tau, ds) if crosses else _root(branch, kind, left, tau, ds)
        except (SaltusError, ValueError, np.linalg.LinAlgError) as problem:
            ends = " and ".join(f"{branch.value(e):.8g}" for e in (left, right))
            missed.append(f"a {kind} between {branch.param} = {ends} could not be located: {problem}")
            continue
        if point is not None:
            gap = branch.weights * (
                branch.shooting.vector(point.orbit.evaluation.point) - branch.shooting.vector(left.point)
            )
            found.append((float(tau @ gap), point))
    found += _changes(branch, left, tau, ds, right)
    return [b for _, b in sorted(found, key=lambda pair: pair[0])], missed


def _crossing(branch: Branch, near: Evaluation, tau: np.ndarray, ds: float) -> Bifurcation:
    e, tangents = crossing_point.located(branch, near, tau, ds)
    own, other = (tangents / branch.weights[:, None]).T
    return Bifurcation("branch point", branch.param, branch.orbit(e), own, other)


def _root(branch: Branch, kind: str, left: Evaluation, tau: np.ndarray, ds: float) -> Bifurcation | None:
    """The bifurcation where a test function vanishes; None if the multipliers do not bear it out."""

    def test(s: float) -> float:
        e = branch.corrected(left, tau, s)
        return tests(branch, e, branch.tangent(e, tau))[kind]

    s = root(test, ds, PRECISE)
    e = branch.corrected(left, tau, s)
    own = branch.tangent(e, tau) / branch.weights
    mu, vectors = np.linalg.eig(e.section_map) if len(e.section_map) else (np.zeros(0), np.zeros((0, 0)))
    if kind == "torus" and not ((np.abs(np.abs(mu) - 1) < 1e-5) & (np.abs(np.imag(mu)) > 1e-5)).any():
        return None  # a product of two real multipliers that passes 1 is no torus
    if kind != "flip":
        return Bifurcation(kind, branch.param, branch.orbit(e), own, None)
    flipping = int(np.argmin(np.abs(mu + 1)))
    if abs(mu[flipping] + 1) > 1e-4:
        return None
    mode = e.lift[:, : len(mu)] @ np.real(vectors[:, flipping])
    return Bifurcation(kind, branch.param, branch.orbit(e), own, mode / np.linalg.norm(branch.weights * mode))


def _changes(
    branch: Branch, left: Evaluation, tau: np.ndarray, ds: float, right: Evaluation
) -> list[tuple[float, Bifurcation]]:
    """Where other events come or some stay away: the last orbits of each sequence, with their arclength.

    Strides that end with an event keep their sequence; those of one period are whatever happens in them. Where one
    grazes the return map has an infinite slope on one side, so that an orbit may not be found next to it.
    """
    out, begin, here, last = list[tuple[float, Bifurcation]](), 0.0, left, branch.orbit(right).events
    while not _alike(known := branch.orbit(here).events, last):
        low, high, inside, beyond = begin, ds, here, right
        while high - low > CLOSE * ds:
            middle = (low + high) / 2
            try:
                e = branch.corrected(left, tau, middle)
            except SaltusError:
                high = middle
                continue
            if _alike(branch.orbit(e).events, known):
                low, inside = middle, e
            else:
                high, beyond = middle, e
        own = branch.tangent(inside, tau) / branch.weights
        change = _said(known, branch.orbit(beyond).events)
        out.append((low, Bifurcation("sequence", branch.param, branch.orbit(inside), own, None, change)))
        begin, here = high, beyond
    return out


def _alike(a: list[str], b: list[str]) -> bool:
    """Whether events are the same round the stride, wherever it begins."""
    return len(a) == len(b) and (a == b or any(a[i:] + a[:i] == b for i in range(len(a))))


def _said(before: list[str], after: list[str]) -> str:
    """Which events come in and which stay away."""
    come, go = (Counter(x) - Counter(y) for x, y in ((after, before), (before, after)))
    texts = [f"{', '.join(x.elements())} {what}" for x, what in ((come, "come in"), (go, "stay away")) if x]
    return " and ".join(texts) or "events change their order"
