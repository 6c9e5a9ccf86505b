"""follow: families of orbits by pseudo-arclength, with folds, flips, tori and branch points located."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.orbits.family import Bifurcation, Family
from saltus.orbits.orbit import Orbit
from saltus.orbits.shooting import Evaluation, Point, Shooting, newton
from saltus.orbits.stride import Lost

SMALLEST = 1e-5  # arclength step below which a branch counts as ended
TURN = 0.95  # cosine of the largest angle between tangents of neighbours
CHANGE = 0.5  # largest change of a multiplier's magnitude from neighbour to neighbour
PRECISE = 1e-13  # of the arclength at which a bifurcation is located


def follow(
    orbit: Orbit,
    param: str,
    *,
    to: float | tuple[float, float],
    bounds: Mapping[str, tuple[float, float]] | None = None,
    step: float = 0.05,
    largest: float = 0.25,
    most: int = 400,
    longest: float | None = None,
    unilateral: bool = False,
    progress: Callable[[Orbit], None] | None = None,
    _tangent: np.ndarray | None = None,
) -> Family:
    """Follow the family of an orbit in a Param until it reaches `to`, or both ways to the two values of `to`.

    The branch may fold on its way. It also ends where a number of `bounds` leaves its interval, as in
    {"time in flight": (0.02, 1.0)}; where the period exceeds `longest` (s, 10 times the first one's unless
    given); with `unilateral`, where the ground would have to pull or a foot is below it; and where orbits cease
    to exist: `ends` says why. `step` and `largest` are arclength in the space of states (m, m/s, rad, rad/s) and
    Param, the Param in units of the interval to be covered.
    """
    if param not in orbit.system.mechanism.params:
        raise UnknownName("param", param, orbit.system.mechanism.params)
    if param in orbit.shooting.stride.params and _tangent is None and orbit.shooting.where:
        raise BadValue(f"{param!r} is chosen by a condition of this orbit; continue in another Param", param=param)
    known = [n for n in orbit.shooting.stride.params if n != param] if orbit.shooting.where else []
    shooting = orbit.shooting.with_free((*known, param))
    here = orbit.params[param]
    goals = tuple(to) if isinstance(to, Sequence) else (to,)
    if not goals or len(goals) > 2 or not all(np.isfinite(g) for g in goals) or (len(goals) == 1 and goals[0] == here):
        raise BadValue(
            f"to is {to!r}; give another value of {param!r} than {here:g}, or two, one a direction", given=to
        )
    span = max(abs(g - here) for g in goals)
    limit = longest if longest is not None else 10 * orbit.period
    branch = _Branch(orbit, shooting, param, span, dict(bounds or {}), step, largest, most, limit, unilateral, progress)
    if len(goals) == 1:
        return branch.followed(goals[0], _tangent)
    low, high = min(goals), max(goals)
    down, up = branch.followed(low), branch.followed(high)
    return Family(
        param,
        down.orbits[::-1] + up.orbits[1:],
        down.bifurcations[::-1] + up.bifurcations,
        (down.ends[1], up.ends[1]),
        [-t for t in down.tangents[::-1]] + up.tangents[1:],
    )


class _Branch:
    """What following needs to know."""

    def __init__(
        self,
        orbit: Orbit,
        shooting: Shooting,
        param: str,
        span: float,
        bounds: dict[str, tuple[float, float]],
        step: float,
        largest: float,
        most: int,
        longest: float,
        unilateral: bool,
        progress: Callable[[Orbit], None] | None,
    ) -> None:
        self.first, self.shooting, self.param, self.bounds = orbit, shooting, param, bounds
        self.step, self.largest, self.most, self.longest = step, largest, most, longest
        self.unilateral, self.progress = unilateral, progress
        self.weights = np.ones(len(shooting.vector(orbit.evaluation.point)))
        self.weights[-1] = 1 / span
        self.start = shooting.evaluate(orbit.evaluation.point)

    def orbit(self, evaluation: Evaluation) -> Orbit:
        """Orbit of a point on the branch."""
        return Orbit(self.first.system, self.first.control, self.shooting, evaluation)

    def tangent(self, e: Evaluation, along: np.ndarray | None) -> np.ndarray:
        """Unit tangent of the branch in weighted coordinates, oriented like `along`."""
        null = np.linalg.svd(e.jacobian)[2][-1]
        tau = self.weights * (e.lift @ null)
        tau /= np.linalg.norm(tau)
        return -tau if along is not None and tau @ along < 0 else tau

    def corrected(self, e: Evaluation, tau: np.ndarray, ds: float, history: list[float] | None = None) -> Evaluation:
        """Point of the branch in the plane at distance ds along the tangent."""
        guess = self.shooting.moved(e.point, ds * tau / self.weights)
        aim = self.shooting.vector(e.point) + ds * tau / self.weights

        def plane(point: Point, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            gap = self.weights * (self.shooting.vector(point) - aim)
            return np.array([tau @ gap]), ((tau * self.weights) @ lift)[None, :]

        return newton(self.shooting, guess, plane, steps=8, halvings=2, history=history)

    def at_value(self, e: Evaluation, value: float) -> Evaluation:
        """Orbit with the Param at a value, near a point of the branch."""

        def fixed(point: Point, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return np.array([point.theta[self.shooting.free[-1]] - value]), lift[-1][None, :]

        return newton(self.shooting, e.point, fixed, steps=12)

    # ---- tests --------------------------------------------------------------------------------------------------

    def tests(self, e: Evaluation, tau: np.ndarray) -> dict[str, float]:
        """Functions that change sign at bifurcations."""
        A = e.section_map
        mu = np.linalg.eigvals(A) if len(A) else np.zeros(0)
        i, j = np.triu_indices(len(mu), 1)
        pairs = mu[i] * mu[j]
        null = np.linalg.lstsq(self.weights[:, None] * e.lift, tau, rcond=None)[0]
        out = {
            "fold": float(tau[-1]),
            "flip": float(np.real(np.prod(mu + 1))),
            "torus": float(np.real(np.prod(pairs - 1))) if len(pairs) else 1.0,
        }
        if len(e.point.nodes) == 1:
            same = self.shooting.sameness.rows
            inverse = np.linalg.pinv(e.lift[same, : len(A)])
            square = np.vstack([inverse @ e.jacobian[: len(same)], e.jacobian[len(same) :], null])
            out["branch point"] = float(np.linalg.det(square))
        return out

    def crossed(
        self, left: Evaluation, tau: np.ndarray, ds: float, right: Evaluation, tau_right: np.ndarray
    ) -> list[tuple[float, Bifurcation]]:
        """Bifurcations between two neighbours, located, with their arclength from the left one."""
        before, after = self.tests(left, tau), self.tests(right, tau_right)
        out = []
        for kind in before:
            if before[kind] * after[kind] >= 0 or min(abs(before[kind]), abs(after[kind])) < 1e-12:
                continue
            found: dict[float, tuple[Evaluation, np.ndarray]] = {}

            def test(s: float, kind: str = kind, found: dict[float, Any] = found) -> float:
                e = self.corrected(left, tau, s)
                own = self.tangent(e, tau)
                found[s] = (e, own)
                return self.tests(e, own)[kind]

            try:
                s = float(brentq(test, 0.0, ds, xtol=PRECISE, rtol=4e-15, maxiter=60))
                e, own = found[s] if s in found else (self.corrected(left, tau, s), tau)
            except (SaltusError, ValueError):
                continue
            if self.real_one(kind, e):
                out.append((s, Bifurcation(kind, self.param, self.orbit(e), own / self.weights)))
        return sorted(out, key=lambda pair: pair[0])

    @staticmethod
    def real_one(kind: str, e: Evaluation) -> bool:
        """Whether the multipliers bear it out; a product of two real multipliers that passes 1 is no torus."""
        mu = np.linalg.eigvals(e.section_map) if len(e.section_map) else np.zeros(0)
        if kind == "torus":
            return bool(((np.abs(np.abs(mu) - 1) < 1e-5) & (np.abs(np.imag(mu)) > 1e-5)).any())
        if kind == "flip":
            return bool((np.abs(mu + 1) < 1e-4).any())
        return True

    # ---- the walk -----------------------------------------------------------------------------------------------

    def followed(self, goal: float, tangent: np.ndarray | None = None) -> Family:
        """Walk from the first orbit towards `goal`."""
        here = float(self.start.point.theta[self.shooting.free[-1]])
        e, tau = self.start, self.tangent(self.start, None if tangent is None else tangent * self.weights)
        if tangent is None and tau[-1] * (goal - here) < 0:
            tau = -tau
        orbits, tangents, found = [self.first], [tau], []
        ds, why = self.step, f"{self.most} orbits were followed"
        problem: SaltusError | None = None
        while len(orbits) < self.most:
            history: list[float] = []
            try:
                new = self.corrected(e, tau, ds, history)
                new_tau = self.tangent(new, tau)
                good = self.near(e, tau, ds, new) and (
                    ds < 1e-3 or (tau @ new_tau > TURN and self.resolved(e, tau, ds, new, new_tau))
                )
                problem = None
            except SaltusError as trouble:
                good, problem = False, trouble
            if not good:
                ds /= 2
                if ds < SMALLEST:
                    why = self.explained(self.orbit(e), problem)
                    break
                continue
            orbit = self.orbit(new)
            value = orbit.params[self.param]
            if (value - goal) * (here - goal) <= 0 and value != goal:
                found += [b for s, b in self.crossed(e, tau, ds, new, new_tau) if (b.value - goal) * (here - goal) > 0]
                last = self.at_value(new, goal)
                orbits.append(self.orbit(last))
                tangents.append(self.tangent(last, new_tau))
                why = f"{self.param} reached {goal:g}"
                break
            beyond = self.beyond(orbit)
            if beyond is not None:
                why = beyond
                edge = self.at_bound(e, tau, ds, orbit)
                if edge is not None:
                    found += [b for _, b in self.crossed(e, tau, edge[0], edge[1], self.tangent(edge[1], tau))]
                    orbits.append(self.orbit(edge[1]))
                    tangents.append(self.tangent(edge[1], tau))
                break
            found += [b for _, b in self.crossed(e, tau, ds, new, new_tau)]
            orbits.append(orbit)
            tangents.append(new_tau)
            if self.progress is not None:
                self.progress(orbit)
            if len(orbits) > 4 and self.closed(new, tau, ds):
                why = "the family is closed: it is back where it began"
                break
            e, tau = new, new_tau
            if len(history) <= 4:
                ds = min(1.5 * ds, self.largest)
            elif len(history) > 6:
                ds /= 1.5
        directions = [t / self.weights for t in tangents]
        return Family(self.param, orbits, found, ("the orbit it was begun with", why), directions)

    def near(self, e: Evaluation, tau: np.ndarray, ds: float, new: Evaluation) -> bool:
        """Whether a corrected point is near the predicted one; if not it is on another branch."""
        step = self.weights * (self.shooting.vector(new.point) - self.shooting.vector(e.point))
        return bool(np.linalg.norm(step - ds * tau) < 0.5 * ds)

    def resolved(self, left: Evaluation, tau: np.ndarray, ds: float, right: Evaluation, tau_right: np.ndarray) -> bool:
        """Whether a step is short enough not to jump over things in pairs, which no change of sign would tell."""
        spectra = [np.sort(np.abs(np.linalg.eigvals(e.section_map))) for e in (left, right)]
        if np.abs(spectra[1] - spectra[0]).max(initial=0.0) > CHANGE:
            return False
        rise = (
            float(right.point.theta[self.shooting.free[-1]] - left.point.theta[self.shooting.free[-1]])
            * self.weights[-1]
        )
        a, b = ds * float(tau[-1]), ds * float(tau_right[-1])
        if a * b < 0:
            return True  # one fold, seen
        # The cubic with these ends and slopes: rise may turn twice in between, d/ds = a + 2 (3 rise - 2 a - b) s + ...
        turns = np.roots([3 * (a + b - 2 * rise), 2 * (3 * rise - 2 * a - b), a])
        return not any(abs(r.imag) < 1e-12 and 0 < r.real < 1 for r in turns)

    def closed(self, e: Evaluation, tau: np.ndarray, ds: float) -> bool:
        """Whether the first orbit was just passed again."""
        gap = self.weights * (self.shooting.vector(e.point) - self.shooting.vector(self.start.point))
        return bool(
            np.linalg.norm(gap) < ds and 0 <= gap @ tau <= ds and np.linalg.norm(gap - (gap @ tau) * tau) < 0.1 * ds
        )

    def beyond(self, orbit: Orbit) -> str | None:
        """Why an orbit lies outside what was asked for; None if it does not."""
        for name, (low, high) in self.bounds.items():
            value = orbit.value(name)
            if not low <= value <= high:
                return f"{name} leaves {low:g} ... {high:g}"
        if orbit.period > self.longest:
            return f"the period grows beyond {self.longest:g} s (to infinity)"
        if self.unilateral and orbit.violations:
            return orbit.violations[0]
        return None

    def at_bound(self, e: Evaluation, tau: np.ndarray, ds: float, outside: Orbit) -> tuple[float, Evaluation] | None:
        """Arclength and orbit at which the first number of `bounds` reaches its limit; None if none does."""
        for name, limits in self.bounds.items():
            value = outside.value(name)
            for limit in limits:
                inside = self.orbit(e).value(name) - limit
                if inside * (value - limit) < 0:

                    def gap(s: float, name: str = name, limit: float = limit) -> float:
                        return self.orbit(self.corrected(e, tau, s)).value(name) - limit

                    try:
                        s = float(brentq(gap, 0.0, ds, xtol=1e-10))
                        return s, self.corrected(e, tau, s)
                    except (SaltusError, ValueError):
                        return None
        return None

    def explained(self, orbit: Orbit, problem: SaltusError | None) -> str:
        """Why a branch cannot be followed further than an orbit."""
        arcs = [a for p in orbit.passages for a in p.arcs]
        shortest = min(arcs, key=lambda a: a.duration)
        if shortest.duration < 0.02 * orbit.period:
            return f"the time in {shortest.dynamics.domain.name!r} shrinks to zero ({shortest.duration:.3g} s)"
        reason = problem.data.get("reason") if problem is not None else None
        if reason == "singular":
            return f"the loops become singular: {problem}"
        if isinstance(problem, Lost) and reason != "not converged":
            return f"grazing: beyond this orbit another event comes first or one is missed ({problem})"
        best = problem.data.get("best") if problem is not None else None
        if best is not None and best.norm > 1e3 * SMALLEST:  # next to an orbit, and yet far from closing
            return f"the return map jumps by {best.norm:.3g} just beyond: the control or a guard is discontinuous there"
        if orbit.violations:
            return f"grazing: {orbit.violations[0]}"
        return f"no further orbit found ({problem or 'what is found is not next to it: the return map jumps'})"
