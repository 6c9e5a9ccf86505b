"""The return map of an orbit for many starts at once: copies of a batch that come back to its section."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from saltus.batch.batch import Batch
from saltus.batch.motion import Change
from saltus.compile import find_compiler
from saltus.model.assembly import State
from saltus.orbits.orbit import Orbit
from saltus.orbits.stride import Crossing, Moment

STEP = 1e-3  # s
TOLERANCE = 1e-7
AT_ONCE = 256  # copies that are worth what it takes to trace a machine for a batch
LOOKS = 4  # times per period at which copies that are back are sent on


def batched(orbit: Orbit) -> bool:
    """Whether a batch can do it: contacts with modes of their own, a section that is an event of them or a period."""
    s, law = orbit.shooting, orbit.control
    if orbit.system.terrain is None or find_compiler() is None or not (law is None or callable(law)):
        return False
    return s.events[0] is None or _modes_change(orbit.crossings[-1])


def _modes_change(crossing: Crossing) -> bool:
    return crossing.edge is None and crossing.before.modes != crossing.after.modes


class Copies:
    """Copies of a machine that start near an orbit and stride on."""

    def __init__(self, orbit: Orbit, starts: Sequence[Moment], threads: int | None = None) -> None:
        self.orbit, self.home = orbit, orbit.node
        shooting, many = orbit.shooting, max(1, math.ceil(orbit.period / STEP))
        self.event: Change | None = None
        self.hits, self.times = 1, many  # how often the event that ends a stride comes in one; steps per look
        if shooting.events[0] is not None:
            last = orbit.crossings[-1]
            self.event = Change(*(tuple((mode,) for mode in at.modes) for at in (last.before, last.after)))
            self.hits, self.times = sum(c.mark == last.mark for c in orbit.crossings), -(-many // LOOKS)
        self.batch = Batch(
            orbit.system.mechanism,
            len(starts),
            step=orbit.period / many,
            control=orbit.control,
            ground=shooting.stride.ground,
            until=self.event,
            tolerance=TOLERANCE,
            threads=threads,
        )
        self.batch.reset([self._state(x.q, x.v) for x in starts], begin=self.home.t)
        n = len(starts)
        self.under_way, self.doubtful = np.ones(n, bool), np.zeros(n, bool)
        self.made, self._hit = np.zeros(n, int), np.zeros(n, int)
        self._since, self._when = self.batch.t, np.full(n, self.home.t)

    def _state(self, q: np.ndarray, v: np.ndarray) -> State:
        return State(self.orbit.system.mechanism, q, v, self.orbit.params)

    def back(self) -> dict[int, Moment]:
        """Go on a little: where copies are that have come back to the section, by number.

        Those whose motion was one of several are `doubtful`.
        """
        batch, shooting = self.batch, self.orbit.shooting
        batch.step(times=self.times)
        t, states, lost = batch.t, batch.state, batch.lost
        self.doubtful |= batch.doubts > 0
        here = self.under_way & ~lost & (batch.done if self.event is not None else True)
        self._hit += here
        here &= self._hit == self.hits
        self._hit[here] = 0
        self.made += here
        if shooting.sameness.timed:
            self._when += (t - self._since - (shooting.period or 0.0)) * here
        self.stop(np.flatnonzero(lost | (t - self._since > shooting.stride.longest)))
        out = {}
        for k in np.flatnonzero(here).tolist():
            end = Moment(self.home.domain, float(self._when[k]), states.q[k], states.v[k], self.home.contacts)
            out[k] = shooting.relabel.moment(end)
        batch.go_on(np.flatnonzero(self.under_way))
        if out and not shooting.relabel.plain:
            batch.reset([self._state(x.q, x.v) for x in out.values()], list(out), begin=self.home.t)
        self._since[here] = batch.t[here]
        return out

    def stop(self, which: Sequence[int] | np.ndarray) -> None:
        """Let copies stand still for good."""
        self.under_way[which] = False
        self.batch.stop(which)
