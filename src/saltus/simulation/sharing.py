"""How contacts share a load where their rows depend on each other: nothing of it changes the motion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from saltus.dynamics.shared_forces import Forces, Law, centred, dependent, rank
from saltus.dynamics.unilateral import LEAN, STEADY
from saltus.simulation.contacts import SHARED, Contacts, Now

TINY = 1e-300
SPREAD = 1e-9  # of the largest force or acceleration: what dependent rows are known to
LIGHT = 1e-3  # share of friction where loads are preferred to it, and the smallest one
AIMS = 5  # times that contacts which lean are put right
STEPS = 21  # of forces between those found and those farthest from their limits
ROOM, GAIN = 0.05, 0.1  # of a limit: left over, it is enough; of what is left over: worth another try
SHARINGS, LEAST = 50, 1e-6  # times that shares of a load are tried; the smallest of the largest


def spread(group: Group, forces: Forces, size: float, respond: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
    """Shares with which the forces of the run meet the laws too, where rows depend on each other.

    `respond` gives accelerations and forces of all rows as the contacts are, and `size` is that of free accelerations.
    Those forces have the least sum of f^2 / share, and the motion is that of `forces` or the one that comes of equal
    shares: they differ where a contact that slips shares its load, which the laws leave open. A contact that they pull
    is open. Shares are found by Lawson's method (1961): who uses more of its limit is given less, until the largest
    use is as small as can be. If that does not do, all lean as forces far from all limits do, by their loads or
    steadily; then who is beyond its limit bears what it does in the solution, as far as others hold it; then loads are
    preferred to friction. Where nothing will do, the best is kept.
    """
    first = best = [copy(one) for one in group.now]
    if group.unload():
        w, f = (x[group.rows] for x in respond())
        if group.worst(f)[0] < 0 and np.abs(w - forces.w).max() <= SPREAD * size:
            first = best = [copy(one) for one in group.now]
    least, motions, borne = math.inf, [forces.w], forces.f
    shared = 1.0, lambda: None, group.weigh, SHARINGS
    leaning = LEAN, lambda: group.lean(forces), group.weigh, 1
    steadily = STEADY, lambda: group.lean(forces), group.aim, AIMS
    idling = 1.0, lambda: None, group.idle(forces.f), 2 * len(first)
    loaded = LIGHT, lambda: None, group.weigh, SHARINGS
    for share, prepare, mend, times in (shared, leaning, steadily, idling, loaded):
        group.put(first)
        group.begin(share)
        prepare()
        before, most = None, -math.inf
        for _ in range(times):
            w, f = (x[group.rows] for x in respond())
            if not (np.isfinite(w).all() and np.isfinite(f).all()):
                break
            motions = motions if len(motions) > 1 else [*motions, w]  # where slips hang on shares both will do
            k, pulled, beyond = group.worst(f)
            room, fits = group.room(f), min(np.abs(w - x).max(initial=0.0) for x in motions) <= SPREAD * size
            if fits and (beyond < least or (beyond == 0 and room > most)):
                best, least, borne = [copy(one) for one in group.now], beyond, f
            gained, most = room - most, max(room, most)
            enough = share < 1 or room > ROOM or gained <= GAIN * max(room, SPREAD)  # else it would soon be asked again
            if (enough and (least == 0 or k < 0)) or (before is not None and np.array_equal(f, before)):
                break
            if pulled:
                group.now[k].closed = group.now[k].stick = False
            else:
                mend(k, f)
            before = f
        if least == 0:
            break
    group.put(best)
    group.relieve(borne)


@dataclass(eq=False)
class Group:
    """Contacts that may bear something at an instant, with their laws and rows; laws count in these rows."""

    contacts: Contacts
    candidates: Sequence[int]
    laws: Sequence[Law]
    rows: Sequence[int]
    G: np.ndarray  # mobility of these
    weights: np.ndarray | None = None  # of Lawson's method
    least: float = 1.0  # of the shares
    aimed: np.ndarray = field(default_factory=lambda: np.zeros(0))  # forces by which contacts lean
    _shares: np.ndarray | None = None

    @property
    def now(self) -> list[Now]:
        """Each as it is."""
        return [self.contacts.now[i] for i in self.candidates]

    def put(self, known: Sequence[Now]) -> None:
        """Have them be as they were."""
        for i, one in zip(self.candidates, known, strict=True):
            self.contacts.now[i] = copy(one)

    def unload(self) -> bool:
        """Have joints that rub bear nothing where others hold them too; whether any do."""
        before = [one.share for one in self.now]
        for k, (one, x) in enumerate(zip(self.now, self.laws, strict=True)):
            if x.normal is None and one.stick:
                others = self._others(k)
                if rank(self.G, others) == rank(self.G, [*others, *x.tangential]):
                    one.share = 0.0
        return before != [one.share for one in self.now]

    def begin(self, share: float) -> None:
        """Give those that stick one share, by which others are measured."""
        self.weights, self.least, self._shares = None, share, None
        for one in self.now:
            one.share *= share if one.stick else 1.0

    def lean(self, found: Forces) -> None:
        """Have friction of those that stick grow with their loads as in forces that are well within all limits.

        Those are as near to the ones found as half of the room that there is at most allows: a wedge could bear loads
        of any size, and the larger they are, the less friction by them says of what each bears.
        """
        far = centred(self.G, self.laws, found)
        if far is None:
            return
        ways = (found.f + step * (far - found.f) for step in np.linspace(0.0, 1.0, STEPS))
        enough = self.room(far) / 2
        f = next((f for f in ways if self.room(f) >= enough), far)
        self.aimed = f
        for one, x in zip(self.now, self.laws, strict=True):
            if one.stick and one.share > 0 and x.normal is not None and f[x.normal] > 0:
                one.bears = -f[list(x.tangential)] / (f[x.normal] if one.share > STEADY else 1.0)

    def aim(self, _: int, f: np.ndarray) -> None:
        """Have those that lean steadily bear what the forces f that come of it are off the ones wanted."""
        for one, x in zip(self.now, self.laws, strict=True):
            if one.leans and x.normal is not None and self.aimed.size and self.aimed[x.normal] > 0:
                one.bears = one.bears + (f - self.aimed)[list(x.tangential)]

    def room(self, f: np.ndarray) -> float:
        """Least share of its limit that one that sticks does not use, and whose forces could be others."""
        limits = self.limits(f)
        held = np.array([one.stick for one in self.now])
        left = 1 - self.drags(f) / np.maximum(limits, LEAST * np.abs(f).max() + TINY)
        if left[held].min(initial=1.0) > ROOM:
            return float(left[held].min(initial=1.0))
        return float(left[held & self.open].min(initial=1.0))

    @property
    def open(self) -> np.ndarray:
        """Which contacts hold rows that depend on others: the forces of the rest follow from the motion."""
        if self._shares is None:
            held = [(k, row) for k in range(len(self.laws)) for row in self._held(k, True)]
            self._shares = np.zeros(len(self.laws), bool)
            if held:
                whose, rows = (list(x) for x in zip(*held, strict=True))
                self._shares[[whose[i] for i in np.flatnonzero(dependent(self.G, rows))]] = True
        return self._shares

    def relieve(self, f: np.ndarray) -> None:
        """Open those that bear nothing, as far as forces are known, where others hold all that they would."""
        largest = float(np.abs(f).max(initial=0.0))
        for k, (one, x) in enumerate(zip(self.now, self.laws, strict=True)):
            if one.closed and x.normal is not None and f[x.normal] <= SHARED * largest:
                others = self._others(k)
                if rank(self.G, others) == rank(self.G, [*others, *self._held(k, True)]):
                    one.closed = one.stick = False

    def idle(self, solved: np.ndarray) -> Callable[[int, np.ndarray], None]:
        """Have one that sticks bear what it does of the forces `solved`, and hold nothing; if others hold it."""

        def let(k: int, _: np.ndarray) -> None:
            one, x = self.now[k], self.laws[k]
            held = [row for j in range(len(self.laws)) for row in self._held(j, j != k)]
            if rank(self.G, held) == rank(self.G, [*held, *x.tangential]):
                load = float(solved[x.normal]) if x.normal is not None else 1.0
                one.share, one.bears = 0.0, -solved[list(x.tangential)] / load if load > 0 else np.zeros(1)

        return let

    def _others(self, k: int) -> list[int]:
        """Rows that all but one contact hold."""
        return [row for j in range(len(self.laws)) if j != k for row in self._held(j, True)]

    def _held(self, j: int, along: bool) -> list[int]:
        """Rows that a contact holds, those along its face too or not."""
        one, x = self.now[j], self.laws[j]
        own = list(x.tangential) if along and one.stick and one.share > 0 else []
        return [*own, *([] if x.normal is None else [x.normal])] if one.closed else []

    def weigh(self, _: int, f: np.ndarray) -> None:
        """Give those that stick other shares for the forces f that come of present ones."""
        limits, drags = self.limits(f), self.drags(f) * self.open
        if not drags.any():
            return
        limits = np.maximum(limits, LEAST * max(limits.max(), drags.max()))
        more = limits if self.weights is None else self.weights * np.maximum(drags / limits, LEAST)
        self.weights = np.maximum(more, LEAST**2 * more.max())
        shares = limits**2 / self.weights
        shares = np.clip(shares / shares[drags > 0].min(), 1.0, 1 / LEAST)
        # With larger shares round-off makes more forces of its own; less than LIGHT could be felt in the motion.
        shares *= max(1 / float(shares[self.open].max()), min(1.0, LIGHT / self.least))
        for one, share, mine in zip(self.now, shares.tolist(), self.open, strict=True):
            if one.stick and one.share > 0 and mine:
                one.share = self.least * share

    def drags(self, f: np.ndarray) -> np.ndarray:
        """Tangential force of each that sticks, zero of the others."""
        pairs = zip(self.now, self.laws, strict=True)
        return np.array([float(np.linalg.norm(f[list(x.tangential)])) if one.stick else 0.0 for one, x in pairs])

    def limits(self, f: np.ndarray) -> np.ndarray:
        """What friction at rest allows each."""
        return np.array([x.static * (max(f[x.normal], 0.0) if x.normal is not None else 1.0) for x in self.laws])

    def worst(self, f: np.ndarray) -> tuple[int, bool, float]:
        """Contact whose forces break the laws most, whether they pull it, and by how much (N); -1 if none does."""
        most, found = SPREAD * float(np.abs(f).max(initial=0.0)), (-1, False, 0.0)
        for k, (one, x, slides) in enumerate(zip(self.now, self.laws, self.drags(f) - self.limits(f), strict=True)):
            for off, pulls in ((-f[x.normal] if x.normal is not None else 0.0, True), (slides, False)):
                if one.closed and off > most:
                    most, found = off, (k, pulls, float(off))
        return found
