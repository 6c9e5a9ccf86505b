"""follow, extend: families of orbits by pseudo-arclength, with folds, flips, tori and branch points located."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.model.contents import unchanged
from saltus.orbits.bifurcations import between
from saltus.orbits.branch import Branch, root
from saltus.orbits.family import KINDS, Bifurcation, Family
from saltus.orbits.orbit import Orbit
from saltus.orbits.shooting import Evaluation
from saltus.orbits.stride import Lost

SMALLEST = 1e-5  # arclength step below which a branch counts as ended
SHORT = 1e-3  # arclength step that is taken without asking how much tangent and multipliers change in it
TURN = 0.95  # cosine of the largest angle between tangents of neighbours
CHANGE = 0.5  # largest change of a multiplier's magnitude from neighbour to neighbour


@unchanged
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
    until: str | None = None,
    progress: Callable[[Orbit], None] | None = None,
) -> Family:
    """Follow the family of an orbit in a Param until it reaches `to`, or both ways to the two values of `to`.

    The branch may fold on its way. It also ends where a number of `bounds` leaves its interval, as in
    {"time in flight": (0.02, 1.0)}; where the period exceeds `longest` (s, 10 times the first one's unless
    given); with `unilateral`, where the ground would have to pull or a foot is below it; with `until`, at the first
    bifurcation of that kind; and where orbits cease to exist: `ends` says why. `step` and `largest` are arclength in
    the space of states (m, m/s, rad, rad/s) and Param, the Param in units of the interval to be covered.
    """
    limits = Limits(bounds, step, largest, most, longest, unilateral, until, progress)
    here = _value(orbit, param)
    goals = tuple(to) if isinstance(to, Sequence) else (to,)
    if len(goals) not in (1, 2) or not np.isfinite(goals).all() or {*goals} == {here}:
        raise BadValue(
            f"to is {to!r}; give another value of {param!r} than {here:g}, or two, one per direction", given=to
        )
    if param in orbit.shooting.stride.params and orbit.shooting.where:
        raise BadValue(f"{param!r} is chosen by a condition of this orbit; continue in another Param", param=param)
    span = max(abs(g - here) for g in goals)
    if len(goals) == 1 or here in goals:
        return advance(orbit, param, next(g for g in goals if g != here), limits)
    down, up = (advance(orbit, param, goal, limits, span=span) for goal in (min(goals), max(goals)))
    return Family(
        param,
        down.orbits[::-1] + up.orbits[1:],
        down.bifurcations[::-1] + up.bifurcations,
        (down.ends[1], up.ends[1]),
        [-t for t in down.tangents[::-1]] + up.tangents[1:],
        down.missed + up.missed,
    )


@unchanged
def extend(family: Family, to: float, **options: Any) -> Family:
    """Return the family continued from its last orbit in the direction it was going, with the options of `follow`."""
    more = advance(family.orbits[-1], family.param, to, Limits(**options), direction=family.tangents[-1])
    return Family(
        family.param,
        family.orbits + more.orbits[1:],
        family.bifurcations + more.bifurcations,
        (family.ends[0], more.ends[1]),
        family.tangents + more.tangents[1:],
        family.missed + more.missed,
    )


@dataclass(frozen=True)
class Limits:
    """Options of `follow`: what ends a family, and the steps along it."""

    bounds: Mapping[str, tuple[float, float]] | None = None
    step: float = 0.05
    largest: float = 0.25
    most: int = 400
    longest: float | None = None
    unilateral: bool = False
    until: str | None = None
    progress: Callable[[Orbit], None] | None = None

    def __post_init__(self) -> None:
        if self.until is not None and self.until not in KINDS:
            raise UnknownName("kind of bifurcation", self.until, KINDS)
        if not (self.step > 0 and self.largest > 0 and self.most > 1):
            raise BadValue(
                f"step {self.step:g}, largest {self.largest:g}, most {self.most}: give positive steps, and two or more",
                given=(self.step, self.largest, self.most),
            )


def advance(
    orbit: Orbit,
    param: str,
    to: float,
    limits: Limits,
    *,
    direction: np.ndarray | None = None,
    span: float | None = None,
) -> Family:
    """Follow one way: towards `to`, or in a `direction` (a change of states and Params) if that is given."""
    here = _value(orbit, param)
    known = [n for n in orbit.shooting.stride.params if n != param] if orbit.shooting.where else []
    shooting = orbit.shooting.with_free((*known, param))
    longest = 10 * orbit.period if limits.longest is None else limits.longest
    branch = Branch(orbit, shooting, param, span or abs(to - here) or 1.0)
    return _Walk(branch, replace(limits, longest=longest), to).go(direction)


def _value(orbit: Orbit, param: str) -> float:
    if param not in orbit.params:
        raise UnknownName("param", param, orbit.params)
    return orbit.params[param]


class _Walk:
    """One way along a branch."""

    def __init__(self, branch: Branch, limits: Limits, goal: float) -> None:
        self.branch, self.limits, self.goal = branch, limits, goal
        self.e, self.tau = branch.start, branch.tangent(branch.start, None)
        self.side = branch.value(self.e) - goal
        self.orbits, self.tangents = [branch.first], [self.tau]
        self.found: list[Bifurcation] = []
        self.missed: list[str] = []

    def go(self, direction: np.ndarray | None) -> Family:
        """Walk until there is a reason to stop."""
        along = -self.side * np.eye(len(self.tau))[-1] if direction is None else direction * self.branch.weights
        self.tau = self.tangents[0] = -self.tau if self.tau @ along < 0 else self.tau
        ds, why, problem = min(self.limits.step, self.limits.largest), "", None
        while not why:
            if len(self.orbits) >= self.limits.most:
                why = f"{self.limits.most} orbits were followed"
                break
            history: list[float] = []
            try:
                new = self.branch.corrected(self.e, self.tau, ds, history)
                tau = self.branch.tangent(new, self.tau)
                good, problem = self.good(ds, new, tau), None
            except SaltusError as trouble:
                good, problem = False, trouble
            if not good:
                ds /= 2
                why = self.explained(problem) if ds < SMALLEST else ""
                continue
            why = self.taken(ds, new, tau)
            ds = min(1.5 * ds, self.limits.largest) if len(history) <= 4 else ds / 1.5 if len(history) > 6 else ds
        directions = [t / self.branch.weights for t in self.tangents]
        ends = ("the orbit it was begun with", why)
        return Family(self.branch.param, self.orbits, self.found, ends, directions, tuple(self.missed))

    def taken(self, ds: float, new: Evaluation, tau: np.ndarray) -> str:
        """Take a step; say why it is the last one, or nothing."""
        branch, param = self.branch, self.branch.param
        orbit, value = branch.orbit(new), branch.value(new)
        if (value - self.goal) * self.side <= 0:
            self.look(ds, new, tau, lambda b: (b.value - self.goal) * self.side > 0)
            try:
                self.keep(self.reached(ds, new))
            except (SaltusError, ValueError) as problem:
                return f"{param} = {self.goal:g} lies just ahead, but no orbit was found there: {problem}"
            return f"{param} reached {self.goal:g}"
        beyond = self.beyond(orbit)
        if beyond is not None:
            edge = self.at_bound(ds, orbit)
            if edge is not None:
                self.look(edge[0], edge[1], branch.tangent(edge[1], self.tau))
                self.keep(edge[1])
            return beyond
        self.look(ds, new, tau)
        self.keep(new)
        if self.limits.progress is not None:
            self.limits.progress(orbit)
        if self.limits.until is not None and self.found and self.found[-1].kind == self.limits.until:
            return f"the first {self.limits.until} was met, at {param} = {self.found[-1].value:.8g}"
        if len(self.orbits) > 5 and self.closed(new, tau, ds):
            return "the family is closed: it is back where it began"
        return ""

    def keep(self, new: Evaluation) -> None:
        """Make a point the last of the family."""
        self.tau, self.e = self.branch.tangent(new, self.tau), new
        self.orbits.append(self.branch.orbit(new))
        self.tangents.append(self.tau)

    def look(
        self, ds: float, new: Evaluation, tau: np.ndarray, wanted: Callable[[Bifurcation], bool] = lambda b: True
    ) -> None:
        """Collect bifurcations between the last point and a new one."""
        found, missed = between(self.branch, self.e, self.tau, ds, new, tau)
        self.found += filter(wanted, found)
        self.missed += missed

    def reached(self, ds: float, new: Evaluation) -> Evaluation:
        """Orbit with the Param at the goal, which lies between the last point and a new one."""
        try:
            return self.branch.at_value(new, self.goal)
        except Lost:  # a fold or a crossing is near: look for it along the branch instead

            def gap(s: float) -> float:
                return self.branch.value(self.branch.corrected(self.e, self.tau, s)) - self.goal

            return self.branch.corrected(self.e, self.tau, root(gap, ds, 1e-13))

    # ---- judging a step -----------------------------------------------------------------------------------------

    def good(self, ds: float, new: Evaluation, tau: np.ndarray) -> bool:
        """Whether a corrected point is near the predicted one (else it is on another branch) and nothing hides."""
        vector, weights = self.branch.shooting.vector, self.branch.weights
        off = weights * (vector(new.point) - vector(self.e.point)) - ds * self.tau
        if not np.linalg.norm(off) < 0.5 * ds:
            return False
        return ds < SHORT or bool(self.tau @ tau > TURN and self.resolved(ds, new, tau))

    def resolved(self, ds: float, right: Evaluation, tau_right: np.ndarray) -> bool:
        """Whether a step is short enough not to jump over things in pairs, which no change of sign would tell."""
        spectra = [np.sort(np.abs(np.linalg.eigvals(e.section_map))) for e in (self.e, right)]
        if np.abs(spectra[1] - spectra[0]).max(initial=0.0) > CHANGE:
            return False
        rise = (self.branch.value(right) - self.branch.value(self.e)) * self.branch.weights[-1]
        a, b = ds * float(self.tau[-1]), ds * float(tau_right[-1])
        if a * b < 0:
            return True  # one fold, seen
        # The cubic with these ends and slopes: rise may turn twice in between, d/ds = a + 2 (3 rise - 2 a - b) s + ...
        turns = np.roots([3 * (a + b - 2 * rise), 2 * (3 * rise - 2 * a - b), a])
        return not any(abs(r.imag) < 1e-12 and 0 < r.real < 1 for r in turns)

    def closed(self, e: Evaluation, tau: np.ndarray, ds: float) -> bool:
        """Whether the first orbit was just passed again."""
        vector = self.branch.shooting.vector
        gap = self.branch.weights * (vector(e.point) - vector(self.branch.start.point))
        return bool(
            np.linalg.norm(gap) < ds and 0 <= gap @ tau <= ds and np.linalg.norm(gap - (gap @ tau) * tau) < 0.1 * ds
        )

    # ---- reasons to stop ----------------------------------------------------------------------------------------

    def beyond(self, orbit: Orbit) -> str | None:
        """Why an orbit lies outside what was asked for; None if it does not."""
        for name, (low, high) in (self.limits.bounds or {}).items():
            value = orbit.value(name)
            if not low <= value <= high:
                return f"{name} leaves {low:g} ... {high:g}"
        if self.limits.longest is not None and orbit.period > self.limits.longest:
            return f"the period grows beyond {self.limits.longest:g} s (to infinity)"
        if self.limits.unilateral and orbit.violations:
            return orbit.violations[0]
        return None

    def at_bound(self, ds: float, outside: Orbit) -> tuple[float, Evaluation] | None:
        """Arclength and orbit at which the first number of `bounds` reaches its limit; None if none does."""
        e, tau, branch = self.e, self.tau, self.branch
        for name, limits in (self.limits.bounds or {}).items():
            value = outside.value(name)
            for limit in limits:
                inside = branch.orbit(e).value(name) - limit
                if inside * (value - limit) < 0:

                    def gap(s: float, name: str = name, limit: float = limit) -> float:
                        return branch.orbit(branch.corrected(e, tau, s)).value(name) - limit

                    try:
                        s = root(gap, ds, 1e-10)
                        return s, branch.corrected(e, tau, s)
                    except (SaltusError, ValueError):
                        return None
        return None

    def explained(self, problem: SaltusError | None) -> str:
        """Why a branch cannot be followed further than its last orbit."""
        orbit = self.orbits[-1]
        stays = [(arc, p.crossings, i) for p in orbit.passages for i, arc in enumerate(p.arcs)]
        shortest, events, i = min(stays, key=lambda stay: stay[0].duration)
        if shortest.duration < 0.02 * orbit.period:
            seconds = f"shrinks to zero ({shortest.duration:.3g} s)"
            if not shortest.modes or not events:
                return f"the time in {shortest.dynamics.domain.name!r} {seconds}"
            if orbit.shooting.period is not None and i in (0, len(events)):
                return (
                    f"the time between {events[i - (i > 0)].name!r} and the instant at which strides begin {seconds}; "
                    "find the orbit from another instant and follow that"
                )
            return f"the time between {events[i - 1].name!r} and {events[i].name!r} {seconds}"
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
        verge = orbit.on_the_verge
        if verge:
            return f"grazing: {verge}, from which on the return map may have an infinite slope"
        return f"no further orbit found ({problem or 'what is found is not next to it: the return map jumps'})"
