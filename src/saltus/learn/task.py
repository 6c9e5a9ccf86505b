"""Task: a machine, where it starts, what a policy sees and does, what it is rewarded for and when it is over."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

import saltus as sl
from saltus.errors import BadValue, UnknownName


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned. Laws are functions of (t, s) or (t, s, action), traced as by `sl.Batch`.

    An action holds for `times` steps of `step` (s) and lies between `low` and `high`; without `control` its numbers are
    the efforts of the inputs, and without a range those of their motors. An episode starts in one of `starts`, with
    Params drawn from the ranges of `params`; it is over where `until` is true, and cut off after `seconds`. `observe`
    gives a list, `noise` its standard deviation, and it comes `delay` actions late. `pushes` are inputs of the machine
    that nobody commands, with the range of what they push with for the second number of `pushed` (s), once in as many
    seconds as the first says in the mean. `ground` is one for all copies, or a list from which each copy has its own.
    A policy that lasts in `simulate` near the commanded speed, with `strides` touches of the ground or more, has
    learned it; 0 asks for none.
    """

    machine: sl.Mechanism
    observe: Callable[[Any, sl.Signals], Sequence[Any]]
    reward: Callable[..., Any]
    starts: Sequence[sl.State] = ()
    control: Callable[[Any, sl.Signals, Any], Mapping[str, Any]] | None = None
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    until: Callable[[Any, sl.Signals], Any] | None = None
    seconds: float = 10.0
    step: float = 1e-3
    times: int = 10
    params: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    ground: Any = None
    noise: float | Sequence[float] = 0.0
    delay: int = 0
    pushes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    pushed: tuple[float, float] = (1.0, 0.1)
    tolerance: float = 1e-4
    strides: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.pushes if name not in self.machine.inputs]
        if unknown:
            raise UnknownName("input", unknown[0], self.machine.inputs)
        if not len(self.low) and not len(self.high) and self.control is None:
            limits = [_limit(self.machine, name) for name in self.commanded]
            object.__setattr__(self, "low", tuple(-x for x in limits))
            object.__setattr__(self, "high", tuple(limits))
        if not len(self.starts):
            object.__setattr__(self, "starts", (self.machine.assemble(),))
        if len(self.low) != len(self.high) or not len(self.low) or not (np.asarray(self.low) < self.high).all():
            raise BadValue(f"low {self.low} and high {self.high}: give as many of each, low below high")
        if self.delay < 0 or not np.all(np.asarray(self.noise) >= 0):
            raise BadValue(f"noise {self.noise} and delay {self.delay} are zero or more")

    @property
    def commanded(self) -> list[str]:
        """Inputs that actions command."""
        return [name for name in self.machine.inputs if name not in self.pushes]

    def within(self, action: Any) -> list[Any]:
        """Numbers between `low` and `high` for those between -1 and 1; beyond these they are the nearest."""
        share = [sl.math.fmin(sl.math.fmax(action[i], -1.0), 1.0) for i in range(len(self.low))]
        return [(b + a) / 2 + (b - a) / 2 * x for a, b, x in zip(self.low, self.high, share, strict=True)]

    def effort(self, t: Any, s: sl.Signals, action: Any) -> Mapping[str, Any]:
        """The law by an action between -1 and 1, followed by the pushes."""
        own = self.within(action)
        efforts = dict(zip(self.commanded, own, strict=True)) if self.control is None else self.control(t, s, own)
        return {**efforts, **{name: action[len(own) + i] for i, name in enumerate(self.pushes)}}

    def measure(self, t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        """Observation and reward by number."""
        seen = list(self.observe(t, s))
        earned = self.reward(t, s, self.within(action))
        return {**{f"observed {i}": x for i, x in enumerate(seen)}, "reward": earned}


def _limit(m: sl.Mechanism, name: str) -> float:
    """Largest torque (Nm) or force (N) of the motor of an input."""
    motor = m.motor_of(name)
    if motor is None or motor.torque is None:
        raise BadValue(
            f"input {name!r} of {m.name!r} has no motor with a limit; give the task low and high, one number per input",
            input=name,
        )
    limit = ca.Function("limit", [m.p], [ca.SX(motor.torque) * ca.fabs(motor.gear)])
    return float(limit(m.values()))


class Copies:
    """Episodes of a task in all copies of a batch; everything random comes from one generator, in order."""

    def __init__(
        self, task: Task, copies: int, seed: int | None = None, threads: int | None = None, *, exact: bool = False
    ) -> None:
        self.task, self.n = task, copies
        self.rng = np.random.default_rng(seed)
        grounds = task.ground if isinstance(task.ground, Sequence) else None
        self.batch = sl.Batch(
            task.machine,
            copies,
            step=task.step,
            control=task.effort,
            actions=len(task.low) + len(task.pushes),
            ground=task.ground if grounds is None else [grounds[k % len(grounds)] for k in range(copies)],
            until=task.until,
            measure=task.measure,
            tolerance=task.tolerance,
            threads=threads,
            exact=exact,
        )
        self._noise = np.asarray(task.noise, float)
        self._noisy = bool(self._noise.any())
        self._pushes = np.zeros((copies, len(task.pushes)))
        self._left = np.zeros(copies)  # s for which a copy is still pushed
        self.start()
        for note in self.batch.notes:
            warnings.warn(note, RuntimeWarning, stacklevel=3)
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
        self._left[which] = 0.0
        seen = self._seen(self.batch.measures)
        if len(which) == self.n:
            self._late = [seen] * (task.delay + 1)
        else:
            self._late = [_with(rows, which, seen) for rows in self._late]

    def _seen(self, measures: np.ndarray) -> np.ndarray:
        rows = measures[:, :-1]
        return rows + self.rng.normal(size=rows.shape) * self._noise if self._noisy else rows

    def _with_pushes(self, actions: np.ndarray) -> np.ndarray:
        """Actions followed by what pushes the copies now."""
        task, rng, lasts = self.task, self.rng, self.task.step * self.task.times
        begins = (rng.random(self.n) < lasts / task.pushed[0]) & (self._left <= 0)
        drawn = np.column_stack([rng.uniform(low, high, self.n) for low, high in task.pushes.values()])
        self._left = np.where(begins, task.pushed[1], self._left - lasts)
        self._pushes = np.where(begins[:, None], drawn, self._pushes) * (self._left > 0)[:, None]
        return np.hstack([np.broadcast_to(actions, (self.n, len(task.low))), self._pushes])

    @property
    def observed(self) -> np.ndarray:
        """What the policy sees now, one row per copy."""
        return self._late[0].astype(np.float32)

    def act(self, actions: np.ndarray) -> np.ndarray:
        """Do one action per copy: rewards. `over` says which have ended, `t` beyond `last` which are to be cut off."""
        self.batch.step(self._with_pushes(actions) if self.task.pushes else actions, self.task.times)
        measures = self.batch.measures
        self._late = [*self._late[1:], self._seen(measures)]
        return measures[:, -1]


def _with(rows: np.ndarray, which: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Rows of which some are new."""
    out = rows.copy()
    out[which] = new[which]
    return out
