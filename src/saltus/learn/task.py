"""Task: a machine, where it starts, what a policy sees and does, what it is rewarded for and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import saltus as sl
from saltus.errors import BadValue


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned. Laws are functions of (t, s) or (t, s, action), traced as by `sl.Batch`.

    An action holds for `times` steps of `step` (s) and lies between `low` and `high`. An episode starts in one of
    `starts`, with Params drawn from the ranges of `params`; it is over where `until` is true, and cut off after
    `seconds`. `observe` gives a list, `noise` its standard deviation, and it comes `delay` actions late.
    """

    machine: sl.Mechanism
    starts: Sequence[sl.State]
    control: Callable[[Any, sl.Signals, Any], Mapping[str, Any]]
    low: Sequence[float]
    high: Sequence[float]
    observe: Callable[[Any, sl.Signals], Sequence[Any]]
    reward: Callable[..., Any]
    until: Callable[[Any, sl.Signals], Any] | None = None
    seconds: float = 10.0
    step: float = 1e-3
    times: int = 10
    params: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ground: Any = None
    noise: float | Sequence[float] = 0.0
    delay: int = 0
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not len(self.low) or not (np.asarray(self.low) < self.high).all():
            raise BadValue(f"low {self.low} and high {self.high}: give as many of each, low below high")
        if not len(self.starts):
            raise BadValue("a task needs at least one start, as m.assemble(...) returns it")
        if self.delay < 0 or not np.all(np.asarray(self.noise) >= 0):
            raise BadValue(f"noise {self.noise} and delay {self.delay} are zero or more")

    def within(self, action: Any) -> list[Any]:
        """Numbers between `low` and `high` for those between -1 and 1; beyond these they are the nearest."""
        share = [sl.math.fmin(sl.math.fmax(action[i], -1.0), 1.0) for i in range(len(self.low))]
        return [(b + a) / 2 + (b - a) / 2 * x for a, b, x in zip(self.low, self.high, share, strict=True)]

    def effort(self, t: Any, s: sl.Signals, action: Any) -> Mapping[str, Any]:
        """The law by an action between -1 and 1."""
        return self.control(t, s, self.within(action))

    def measure(self, t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        """Observation and reward by number."""
        seen = list(self.observe(t, s))
        earned = self.reward(t, s, self.within(action))
        return {**{f"observed {i}": x for i, x in enumerate(seen)}, "reward": earned}


class Copies:
    """Episodes of a task in all copies of a batch; everything random comes from one generator, in order."""

    def __init__(
        self, task: Task, copies: int, seed: int | None = None, threads: int | None = None, *, exact: bool = False
    ) -> None:
        self.task, self.n = task, copies
        self.rng = np.random.default_rng(seed)
        self.batch = sl.Batch(
            task.machine,
            copies,
            step=task.step,
            control=task.effort,
            actions=len(task.low),
            ground=task.ground,
            until=task.until,
            measure=task.measure,
            tolerance=task.tolerance,
            threads=threads,
            exact=exact,
        )
        self._noise = np.asarray(task.noise, float)
        self._noisy = bool(self._noise.any())
        self.start()
        engine = self.batch.engine
        self.t, self.over = engine.column(engine.t), engine.column(engine.over)
        actions = round(task.seconds / (task.step * task.times))
        self.last = (actions * task.times - 0.5) * task.step  # s: episodes that are older are cut off

    @property
    def size(self) -> int:
        """Numbers that a policy sees."""
        return self._late[0].shape[1]

    def start(self, which: np.ndarray | None = None) -> None:
        """Begin new episodes, in all copies or in some."""
        which = np.arange(self.n) if which is None else which
        task, rng = self.task, self.rng
        chosen = rng.integers(len(task.starts), size=len(which))
        drawn = {name: rng.uniform(low, high, len(which)) for name, (low, high) in task.params.items()}
        self.batch.reset([task.starts[k] for k in chosen], which, params=drawn)
        seen = self._seen(self.batch.measures)
        if len(which) == self.n:
            self._late = [seen] * (task.delay + 1)
        else:
            self._late = [_with(rows, which, seen) for rows in self._late]

    def _seen(self, measures: np.ndarray) -> np.ndarray:
        rows = measures[:, :-1]
        return rows + self.rng.normal(size=rows.shape) * self._noise if self._noisy else rows

    @property
    def observed(self) -> np.ndarray:
        """What the policy sees now, one row per copy."""
        return self._late[0].astype(np.float32)

    def act(self, actions: np.ndarray) -> np.ndarray:
        """Do one action per copy: rewards. `over` says which have ended, `t` beyond `last` which are to be cut off."""
        self.batch.step(actions, self.task.times)
        measures = self.batch.measures
        self._late = [*self._late[1:], self._seen(measures)]
        return measures[:, -1]


def _with(rows: np.ndarray, which: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Rows of which some are new."""
    out = rows.copy()
    out[which] = new[which]
    return out
