"""The contact problem: forces of unilateral contacts with friction, at accelerations or at an impact.

Rows of contacts move with w = G f + b, f their forces (impulses), G their mobility within the loops. Looked for are f
with, for every contact,

    0 <= f_n, 0 <= w_n, f_n w_n = 0,    |f_t| <= friction f_n,    f_t = -friction f_n w_t / |w_t| where w_t is not zero;

a contact that slips already has f_t = -friction f_n d with its direction d. A guess of who is open, sticks or slips
gives forces by a linear solve to round-off, and only a solution that meets every condition is returned. Projected
sweeps over the contacts give guesses; where a few of them do not lead there, guesses change the mode of a contact
whose law they break, one after the other; then follow a fixed point of convex problems, slips of one contact in 3D
all around, and last all modes with slips that start anywhere. In the plane, and of contacts that slip already, where
friction is so strong that there may be none or several solutions (Painleve), all guesses are looked at. Where motions
are given that leave contacts no way but inwards, no forces can help.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from saltus.dynamics.guessed_forces import HUGE, NEARLY, ROUND_OFF, TINY, Guesses
from saltus.dynamics.shared_forces import FINE, Forces, Law, centred, rank
from saltus.errors import SaltusError

GUESSES = 100  # that follow from each other
FEW, MANY = (0, 3, 10, 30), (100, 300, 1000, 3000)  # sweeps, after each of which the guess is tried
SCAN = 720  # directions around a contact from which slips are looked for
FIXED, DESCENTS = 20, 500  # convex problems that follow from each other, and steps in each
SCATTERED = 1000  # guesses of modes with slips that start anywhere
MOST = 4  # contacts up to which all guesses are looked at


class NoForces(SaltusError):
    """No forces, or several sets of them, meet the laws of contact.

    `kind` is "painleve", "jammed" where motions that are given leave contacts no way but inwards, or "unresolved" where
    forces were not found only.
    """


def solve(
    G: np.ndarray,
    b: np.ndarray,
    laws: Sequence[Law],
    terms: float = 0.0,
    *,
    count: bool = False,
    leaving: Mapping[int, str] | None = None,
    pressed: bool = False,
) -> Forces:
    """Forces that meet the laws. With `count`, NoForces also where there are several solutions.

    b is a sum of terms as large as `terms`, and known to their round-off.
    `leaving` are contacts that have just come to the end of what they bear, "normal" or "slip": as far as round-off
    tells, they may stay as they were or go on to be open or to slip, and they go on. With `pressed` contacts have borne
    loads up to now, and may go on to do so although all would part without any forces.
    """
    problem = _Problem(G, b, laws, terms)
    if count and problem.doubtful:
        found = problem.all()
        found = [one for one in found if not any(problem.ends(i, one) for i in leaving or ())] or found
        if len(found) != 1:
            if not found and problem.jammed:
                raise NoForces(problem.jam, kind="jammed")
            raise NoForces(problem.paradox(found), kind="painleve")
        return found[0]
    found_one = None if pressed else problem.free()
    found_one = found_one or (problem.released(leaving) if leaving else None)
    if found_one is None:
        found_one = problem.swept(FEW) or problem.changed() or problem.convex() or problem.one_way()
    if found_one is None and problem.jammed:
        raise NoForces(problem.jam, kind="jammed")
    found_one = found_one or problem.swept(MANY) or problem.scattered()
    if found_one is None:
        raise NoForces(
            "no forces were found that meet the laws of contact, though there may be some; try another tolerance",
            kind="unresolved",
        )
    return found_one


class _Problem(Guesses):
    @property
    def doubtful(self) -> bool:
        """Whether there may be none or several solutions: a minor of the normal forces' matrix is not positive.

        That of slip either way at the contacts that slip, or that might.
        """
        rubs = [x for x in self.laws if x.normal is not None]
        listed = all(len(x.tangential) < 2 or x.direction is not None for x in self.laws)  # its guesses are a few
        if not rubs or not listed or len(rubs) > MOST or not any(x.tangential for x in rubs):
            return False
        ways = [[1.0] if x.direction is not None else [1.0, -1.0] if x.tangential else [0.0] for x in rubs]
        normals = [x.normal for x in rubs if x.normal is not None]
        plain = self.G[np.ix_(normals, normals)]
        one = np.ones(1)
        along = np.array(
            [
                x.friction * self.G[np.ix_(normals, x.tangential)] @ (one if x.direction is None else x.direction)
                if x.tangential
                else 0 * plain[0]
                for x in rubs
            ]
        ).T
        scale = np.sqrt(np.abs(np.diag(plain))) + 1e-100  # squared, it is above zero
        plain, along = (A / np.outer(scale, scale) for A in (plain, along))
        for r in range(1, len(normals) + 1):
            for chosen in itertools.combinations(range(len(normals)), r):
                signs = np.array(list(itertools.product(*(ways[i] for i in chosen))))
                mine = np.ix_(chosen, chosen)
                if (
                    np.linalg.det(plain[mine]) >= 1e-9
                    and (np.linalg.det(plain[mine] - signs[:, None, :] * along[mine]) <= 1e-9).any()
                ):
                    return True
        return False

    def ends(self, i: int, found: Forces) -> bool:
        """Whether a solution has a contact stick at its limit: one that leaves it now has others only."""
        x, f = self.laws[i], found.f
        load = f[x.normal] if x.normal is not None else 1.0
        drag = float(np.linalg.norm(f[list(x.tangential)]))
        return found.modes[i] == "stick" and drag >= (1 - NEARLY) * x.static * float(load)

    def paradox(self, found: Sequence[Forces]) -> str:
        """What is the matter where there is not one solution, with the load (N) that each gives to who does what."""
        told = []
        for one in found:
            parts = [
                f"{x.name} {'open' if mode == 'open' else mode + 's'}"
                + (f" at {one.f[x.normal]:.4g} N" if mode != "open" and x.normal is not None else "")
                for x, mode in zip(self.laws, one.modes, strict=True)
            ]
            told.append(", ".join(parts))
        slipping = [x.name for x in self.laws if x.direction is not None]
        which = "; or ".join(told) or f"{', '.join(slipping) or 'nothing'} slips already"
        return (
            f"the laws of contact have {f'{len(found)} solutions' if found else 'no solution'} here (Painleve's "
            f"paradox: {which}): friction is too strong for this configuration of rigid links; less friction, or "
            "contacts that give way (stiffness=), leave one"
        )

    @property
    def _still(self) -> tuple[tuple[str, ...], list[np.ndarray | None]]:
        """The guess in which nothing that is at rest moves."""
        return tuple("stick" if x.rough else "slip" for x in self.laws), [x.direction for x in self.laws]

    # ---- guesses ------------------------------------------------------------------------------------------------

    def free(self) -> Forces | None:
        """No forces, if all contacts part without any: friction could jam some by forces that nothing asks for."""
        if any(x.normal is None or self.b[x.normal] <= FINE * self.size for x in self.laws):
            return None
        return Forces(np.zeros(self.n), self.b, ("open",) * len(self.laws), (None,) * len(self.laws))

    def all(self) -> list[Forces]:
        """Every solution with motions of its own, where slips in 3D have directions."""
        choices: list[list[tuple[str, np.ndarray | None]]] = []
        for x in self.laws:
            closed: list[tuple[str, np.ndarray | None]] = [("slip", x.direction)] if x.direction is not None else []
            if x.direction is None and x.tangential:
                closed = [("stick", None), ("slip", np.array([1.0])), ("slip", np.array([-1.0]))]
            elif not x.tangential:
                closed = [("slip", None)]
            choices.append(closed if x.normal is None else [("open", None), *closed])
        out: list[Forces] = []
        for guess in itertools.product(*choices):
            found = self.tried(np.zeros(self.n), [g[0] for g in guess], [g[1] for g in guess], lean=True)
            if found is not None and not any(np.abs(found.w - x.w).max() < 1e-6 * self.size for x in out):
                out.append(found)
        return out

    def changed(self) -> Forces | None:
        """The solution that is reached from rest by changing the mode of one contact at a time, each law it breaks."""
        still, own = self._still
        waiting = [(still, own)]
        known = {still}
        for modes, ways in waiting:
            f = self.forces(np.zeros(self.n), modes, ways)
            if f is None:
                continue
            w = self.G @ f + self.b
            found = self.judged(f, w, modes, ways)
            if found is not None or len(known) > GUESSES:
                return found
            for i, mode, way in self._broken(f, w, modes, ways):
                after = (*modes[:i], mode, *modes[i + 1 :])
                if after not in known:
                    known.add(after)
                    waiting.append((after, [*ways[:i], way, *ways[i + 1 :]]))
        return None

    def _broken(
        self, f: np.ndarray, w: np.ndarray, modes: Sequence[str], ways: Sequence[np.ndarray | None]
    ) -> list[tuple[int, str, np.ndarray | None]]:
        """Contacts whose laws a guess breaks, with the mode and direction that mends it, worst first."""
        out: list[tuple[float, int, str, np.ndarray | None]] = []
        own = [x.static for x in self.laws if x.normal is None]  # without a load the limit is a force of its own
        size = max(float(np.abs(f).max(initial=0.0)), *own, 1e-300)
        for i, x in enumerate(self.laws):
            t, way = list(x.tangential), ways[i]
            load = float(f[x.normal]) if x.normal is not None else 1.0
            if modes[i] == "open":
                assert x.normal is not None  # nothing else opens
                out.append((-float(w[x.normal]) / self.size, i, "stick" if x.rough else "slip", x.direction))
            elif load < 0:
                out.append((-load / size, i, "open", None))
            elif modes[i] == "stick":
                drag = float(np.linalg.norm(f[t]))
                out.append(((drag - x.static * load) / size, i, "slip", -f[t] / max(drag, 1e-300)))
            elif x.rough and way is not None:
                out.append((-float(w[t] @ way) / self.size, i, "stick", None))
        return [(i, mode, way) for share, i, mode, way in sorted(out, key=lambda one: -one[0]) if share > 0]

    @property
    def _turning(self) -> list[int]:
        """Contacts that may start to slip in 3D, if they are one or two."""
        found = [i for i, x in enumerate(self.laws) if x.rough and len(x.tangential) == 2]
        return found if len(found) <= 2 else []

    def one_way(self) -> Forces | None:
        """A solution in which one contact starts to slip in 3D, wherever to, and another sticks or opens.

        Newton's method may miss it under strong friction: d x w changes its sign within a fraction of a degree.
        """
        modes, own = self._still
        for i in self._turning:
            x = self.laws[i]
            t, others = list(x.tangential), [k for k in self._turning if k != i]
            for kinds in itertools.product(("stick", "open"), repeat=len(others)):
                after, ways = list(modes), list(own)
                after[i] = "slip"
                for k, kind in zip(others, kinds, strict=True):
                    after[k] = kind if self.laws[k].normal is not None else "stick"
                before, start = math.nan, 0.0
                for angle in 2 * math.pi * np.arange(SCAN + 1) / SCAN:
                    ways[i] = d = np.array([math.cos(angle), math.sin(angle)])
                    f = self.held(np.zeros(self.n), after, ways)
                    w = np.full(2, math.nan) if f is None else self.G[t] @ f + self.b[t]
                    off = float(d[0] * w[1] - d[1] * w[0])
                    if before * off <= 0:
                        between = start + (angle - start) * before / (before - off) if before != off else angle
                        ways[i] = np.array([math.cos(between), math.sin(between)])
                        found = self.tried(np.zeros(self.n), after, ways)
                        if found is not None:
                            return found
                    before, start = off, float(angle)
        return None

    def convex(self) -> Forces | None:
        """The solution that a fixed point of convex problems leads to (Cadoux 2009), of contacts that may all stick.

        With w_n + friction |w_t| for w_n the laws say that forces within cones have the least f' G f / 2 + b f. That
        is sought by projected gradients with momentum (Nesterov 1983), each time for the slips found last.
        """
        largest = float(np.linalg.norm(self.G, 2))
        if largest < 1 / HUGE or any(x.direction is not None for x in self.laws):
            return None
        normals = [x.normal for x in self.laws if x.normal is not None]
        rubs = [(x.static, list(x.tangential)) for x in self.laws if x.normal is not None]
        f, step = np.zeros(self.n), 1 / largest
        for _ in range(FIXED):
            w, b = self.G @ f + self.b, self.b.copy()
            b[normals] += [mu * math.hypot(*w[t]) for mu, t in rubs]
            ahead, momentum = f, 1.0
            for _ in range(DESCENTS):
                after = self._within(ahead - step * (self.G @ ahead + b))
                more = (1 + math.sqrt(1 + 4 * momentum**2)) / 2 if (ahead - after) @ (after - f) <= 0 else 1.0
                ahead, f, momentum = after + (momentum - 1) / more * (after - f), after, more
            found = self.tried(f, *self._guess(f))
            if found is not None:
                return found
        return None

    def _within(self, f: np.ndarray) -> np.ndarray:
        """The nearest forces within all cones."""
        out = f.copy()
        for x in self.laws:
            t, mu = list(x.tangential), x.static
            drag = math.hypot(*f[t])
            if x.normal is None:
                out[t] *= min(1.0, mu / max(drag, TINY))
            elif drag > mu * f[x.normal]:
                out[x.normal] = load = max(0.0, (f[x.normal] + mu * drag) / (1 + mu**2))
                out[t] *= mu * load / max(drag, TINY)
        return out

    def scattered(self) -> Forces | None:
        """A solution in any modes, with slips that start in 3D tried from all around: Newton's method may miss them."""
        may = ([("open", x.normal is not None), ("stick", x.rough), ("slip", True)] for x in self.laws)
        choices = [[mode for mode, possible in own if possible] for own in may]
        steps = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0])  # turns, of which no multiples meet
        guesses = itertools.product(range(SCATTERED), itertools.product(*choices))
        for turn, modes in itertools.islice(guesses, SCATTERED):
            ways = [x.direction for x in self.laws]
            turning = [i for i, x in enumerate(self.laws) if modes[i] == "slip" and x.rough]
            for k, i in enumerate(turning):
                angle = 2 * math.pi * (turn * steps[k % len(steps)] + i / len(self.laws))
                way = np.array([math.cos(angle), math.sin(angle)][: len(self.laws[i].tangential)])
                ways[i] = way / np.linalg.norm(way)
            found = self.tried(np.zeros(self.n), modes, ways, lean=True) if turning or not turn else None
            if found is not None:
                return found
        return None

    @property
    def jammed(self) -> bool:
        """Whether no forces at all leave every contact a way outwards: loads in a balance that motions work against."""
        rows = [x.normal for x in self.laws if x.normal is not None]
        G = self.G * np.outer(self.units, self.units)
        b = self.units * self.b
        A = np.vstack([G[rows].T / max(float(np.abs(G).max()), TINY), b[None, rows] / np.abs(b).max()])
        wanted = np.append(np.zeros(self.n), -1.0)

        from scipy.optimize import nnls  # loads slowly, and few instants need it

        loads, left = nnls(A, wanted, maxiter=1000)
        known = ROUND_OFF * float(np.abs(self.G).max()) < self.size and loads.sum() < 1 / NEARLY  # else it is round-off
        return bool(known and left < FINE * max(1.0, float(loads.sum())))

    @property
    def jam(self) -> str:
        """What is the matter there."""
        inwards = [x.name for x in self.laws if x.normal is not None and self.b[x.normal] < 0]
        return (
            f"motions that are given press {', '.join(inwards)} inwards, and nothing can give way: no force holds it; "
            "give motions that leave room, or a motor with limits in their place"
        )

    def swept(self, counts: Sequence[int]) -> Forces | None:
        """The solution that projected sweeps lead to; before the first one all that is at rest stays so."""
        f, done, own = np.zeros(self.n), 0, [self._own(x) for x in self.laws]
        for sweeps in counts:
            with np.errstate(over="ignore", invalid="ignore"):  # what hardly moves may need forces without bound
                for _ in range(sweeps - done):
                    for x, mobility in zip(self.laws, own, strict=True):
                        self._sweep(f, x, *mobility)
            done = sweeps
            if not np.isfinite(f).all():
                return None
            found = self.tried(f, *(self._guess(f) if sweeps else self._still), lean=not sweeps)
            if found is not None:
                return found
        return None

    def _own(self, x: Law) -> tuple[list[int], float, float]:
        """Tangential rows of a contact, and how it moves itself across and along: 1/kg."""
        t = list(x.tangential)
        across = 0.0
        if x.normal is not None:
            across = float(self.G[x.normal, x.normal])
            if x.direction is not None and t:
                coupled = across - x.friction * float(self.G[x.normal, t] @ x.direction)
                across = coupled if coupled > 0 else across
        along = float(sum(self.G[i, i] for i in t)) / (1.0 if len(t) < 2 else 1.5)
        return t, across, along

    def _sweep(self, f: np.ndarray, x: Law, t: list[int], across: float, along: float) -> None:
        G, b, n = self.G, self.b, x.normal
        if n is not None and across > 0:
            f[n] = max(0.0, f[n] - (G[n] @ f + b[n]) / across)
        if x.rough:
            limit = x.static * (f[n] if n is not None else 1.0)
            trial = f[t] - (G[t] @ f + b[t]) / along if along > 0 else f[t]
            size = math.sqrt(float(trial @ trial))
            f[t] = trial if size <= limit else trial * (limit / size)
        elif x.direction is not None:
            f[t] = -x.friction * (f[n] if n is not None else 1.0) * x.direction

    def _guess(self, f: np.ndarray) -> tuple[list[str], list[np.ndarray | None]]:
        modes, directions = [], list[np.ndarray | None]()
        largest = np.abs(f).max(initial=0.0)
        for x in self.laws:
            t = list(x.tangential)
            direction = x.direction
            if x.normal is not None and f[x.normal] <= 1e-12 * largest:
                mode = "open"
            elif not x.rough:
                mode = "slip"
            else:
                limit = x.static * (f[x.normal] if x.normal is not None else 1.0)
                size = math.hypot(*f[t])
                mode = "slip" if size >= limit * (1 - 1e-7) else "stick"
                direction = -f[t] / size if size > 0 else None
            modes.append(mode)
            directions.append(direction)
        return modes, directions

    def released(self, leaving: Mapping[int, str]) -> Forces | None:
        """The solution in which nothing changes but that contacts at their limit are let go, if there is one.

        Those are the given ones and all that are as near to theirs. Where their rows depend on others that hold, or on
        each other and other forces do, the limit is one of how forces are shared, and nothing is let go. At the limit
        nothing moves yet, so that a slip that starts has no direction but that of the force; if friction falls then,
        it has that of what moves at once.
        """
        modes, ways = self._still
        f = self.held(np.zeros(self.n), modes, ways)
        normals = [x.normal for k, x in enumerate(self.laws) if x.normal is not None and k not in leaving]
        if f is None or f[normals].min(initial=0.0) < -NEARLY * np.abs(f).max():  # some touch and are not pressed
            known = self.swept(FEW) or self.changed()
            if known is None:
                return None
            ways, f = list(known.directions), known.f
            idle = [x.normal is not None and f[x.normal] <= FINE * np.abs(f).max() for x in self.laws]
            modes = tuple("open" if none else mode for none, mode in zip(idle, known.modes, strict=True))
        near = {k: "slip" for k, x in enumerate(self.laws) if modes[k] == "stick" and self._spent(x, f)}
        if "normal" in leaving.values():
            least = NEARLY * float(np.abs(f).max())
            near |= {k: "normal" for k, x in enumerate(self.laws) if x.normal is not None and f[x.normal] <= least}
        near |= leaving
        for which in (near, leaving) if near != leaving else (near,):
            if not self._alone(which, modes) or self._spares(which, f, modes):
                continue
            after, turned = list(modes), list(ways)
            for k, what in which.items():
                along = f[list(self.laws[k].tangential)]
                if what == "normal":
                    after[k], turned[k] = "open", None
                elif after[k] == "stick":
                    after[k], turned[k] = "slip", -along / max(float(np.linalg.norm(along)), 1e-300)
            falls = any(self.laws[k].static > self.laws[k].friction for k in which)
            for made in (self.held, self.forces)[: 1 + falls]:
                gone = made(f, after, turned)
                found = None if gone is None else self.met(gone, after, turned, lean=True, gone=which)
                if found is not None:
                    return replace(found, gone=frozenset(which))
        return None

    @staticmethod
    def _spent(x: Law, f: np.ndarray) -> bool:
        """Whether friction of a contact that sticks is all used."""
        limit = x.static * (f[x.normal] if x.normal is not None else 1.0)
        return bool(math.hypot(*f[list(x.tangential)]) >= (1 - NEARLY) * limit)

    def _rows(self, i: int, modes: Sequence[str]) -> list[int]:
        x, mode = self.laws[i], modes[i]
        return [*(x.tangential if mode == "stick" else ()), *([] if x.normal is None or mode == "open" else [x.normal])]

    def _alone(self, which: Collection[int], modes: Sequence[str]) -> bool:
        """Whether the rows that some contacts hold depend on none that others hold."""
        own = [row for i in which for row in self._rows(i, modes)]
        others = [row for i in range(len(self.laws)) if i not in which for row in self._rows(i, modes)]
        return rank(self.G, [*own, *others]) - rank(self.G, others) == rank(self.G, own)

    def _spares(self, which: Collection[int], f: np.ndarray, modes: Sequence[str]) -> bool:
        """Whether contacts whose rows depend on each other have other forces, within all limits, than those f."""
        own = [row for i in which for row in self._rows(i, modes)]
        if rank(self.G, own) == len(own):
            return False
        still = Forces(f, self.G @ f + self.b, tuple(modes), tuple(x.direction for x in self.laws))
        other = centred(self.G, self.laws, still, NEARLY)
        return other is not None and not any(self._spent(self.laws[i], other) for i in which)
