"""Rollouts with derivatives: where copies end, and how that depends on starts, actions and Params."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from saltus.batch.batch import Batch, States
from saltus.batch.native import Native
from saltus.errors import BadValue, NoCompiler
from saltus.ground import Ground
from saltus.model.assembly import State
from saltus.model.contents import unchanged
from saltus.model.mechanism import Mechanism

ROOM = 4  # parts of a step that are written down at first; where there are more the rollout is repeated
EVENTFUL = 16  # steps for which an event is written down at first
GRAZING = 1e-4  # of what the rates could make of a guard: one that is slower grazes its surface and does not cross it


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of a number, or products with a seed, one row per copy.

    `q` and `v` are by positions and velocities at the start, the independent ones: others follow from the loops, and
    their entries are zero. `actions` (copies, actions, numbers), and `params` (copies, Params) in the machine's order,
    with the start kept in its independent coordinates. `exists` is False for copies in which a contact grazed.
    """

    q: np.ndarray
    v: np.ndarray
    actions: np.ndarray
    params: np.ndarray
    exists: np.ndarray


@dataclass(frozen=True, eq=False)
class Change:
    """How the final positions and velocities change along a direction, one row per copy; `exists` as of a Gradient."""

    q: np.ndarray
    v: np.ndarray
    exists: np.ndarray


class Tape:
    """What happened in a rollout: derivatives go through it, through impacts, slips and loops."""

    def __init__(
        self, batch: Batch, engine: Native, actions: np.ndarray, marks: list[np.ndarray], starts: States, p: np.ndarray
    ) -> None:
        self.batch, self._engine, self._actions, self._marks, self._starts = batch, engine, actions, marks, starts
        self._begin, self._ends = p, (engine.x.copy(), engine.p.copy())
        self.final = batch.state

    def gradient(self, q: ArrayLike | None = None, v: ArrayLike | None = None) -> Gradient:
        """Derivatives of sum(q * final.q) + sum(v * final.v), of every copy: seeds of one row, or one per copy."""
        batch, engine, motion = self.batch, self._engine, self.batch.motion
        n, e = batch.copies, motion.e
        q_bar, v_bar = (self._seed(x, (size,), name) for x, size, name in ((q, e.nq, "q"), (v, e.nv, "v")))
        _, *parts = (np.reshape(x, (n, -1)) for x in motion.ends(True).batch(*self._end, v_bar))
        x_bar = self._memory(np.hstack([parts[0] + q_bar, parts[1], parts[2]]))
        p_bar, row, slowest = self._memory(parts[3]), motion.slice("row"), self._slowest()
        engine.x[...], engine.p[...] = self._ends
        out = np.zeros((n, len(self._actions), batch.actions))
        for k in reversed(range(len(self._actions))):
            if batch.actions:
                engine.act(self._actions[k])
            engine.through(True, x_bar, p_bar, self._marks[k], self._marks[k + 1], slowest)
            out[:, k] = engine.rows(p_bar)[:, row]
            p_bar[:, row, :] = 0.0
        engine.x[...], engine.p[...] = self._ends
        return self._at_start(engine.rows(x_bar), engine.rows(p_bar), out, engine.column(slowest) > GRAZING)

    def change(
        self,
        q: ArrayLike | None = None,
        v: ArrayLike | None = None,
        actions: ArrayLike | None = None,
        params: ArrayLike | None = None,
    ) -> Change:
        """How the end changes along a direction of the start, the actions and the Params, for all copies or one each.

        The directions have the shapes of a Gradient; of `q` and `v` the independent entries count, others follow.
        """
        batch, engine, motion = self.batch, self._engine, self.batch.motion
        n, e, row = batch.copies, motion.e, motion.slice("row")
        i, starts = list(motion.choice.independent), self._starts
        q_dot, v_dot = self._seed(q, (e.nq,), "q"), self._seed(v, (e.nv,), "v")[:, i]
        acts = self._seed(actions, (len(self._actions), batch.actions), "actions")
        theta = self._seed(params, (len(self.batch.machine.params),), "params")
        given = np.zeros(n), starts.q, starts.params, np.zeros(n), q_dot, theta
        q_dot = np.reshape(motion.starts(False).batch(*given), (n, -1))
        x = self._memory(np.hstack([q_dot, v_dot, np.zeros((n, e.z.numel()))]))
        own = np.zeros((n, motion.p.numel()))
        own[:, motion.slice("params")], own[:, motion.slice("entry_q")] = theta, q_dot
        own[:, motion.slice("entry_v").start + np.array(i, int)] = v_dot
        if motion.elements:
            laws = np.reshape(motion.laws_by_params(False).batch(starts.params, theta), (n, -1, 3))
            for k, at in enumerate(self._places):
                own[:, at : at + 2] = laws[:, k, :2]
            own[:, motion.slice("restitution")] = laws[:, :, 2]
        p, slowest = self._memory(own), self._slowest()
        engine.p[...] = self._begin
        for k in range(len(self._actions)):
            if batch.actions:
                engine.act(self._actions[k])
                engine.put(p[:, row, :], np.arange(n), acts[:, k])
            engine.through(False, x, p, self._marks[k], self._marks[k + 1], slowest)
        engine.p[...] = self._ends[1]
        moved, nq, nw = engine.rows(x), e.nq, motion.w.numel()
        parts = moved[:, :nq], moved[:, nq : nq + nw], moved[:, nq + nw :], engine.rows(p)
        v_end = np.reshape(motion.ends(False).batch(*self._end, np.zeros(n), *parts), (n, -1))
        return Change(parts[0], v_end, engine.column(slowest) > GRAZING)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the actions: copies, actions, numbers."""
        return self.batch.copies, len(self._actions), self.batch.actions

    @property
    def _end(self) -> tuple[np.ndarray, ...]:
        """Time, state (q, w, z) and parameters at the end, one row per copy."""
        engine, motion = self._engine, self.batch.motion
        x, p = (engine.rows(x) for x in self._ends)
        nq, nw = motion.e.nq, motion.w.numel()
        return engine.column(engine.t), x[:, :nq], x[:, nq : nq + nw], x[:, nq + nw :], p

    @property
    def _places(self) -> list[int]:
        """Where the friction of every contact is in the parameters, that of rest behind it."""
        sizes = [0, *(x.size for x in self.batch.motion.elements[:-1])]
        return [self.batch.motion.slice("block").start + 3 + int(at) for at in np.cumsum(sizes)]

    def _memory(self, rows: np.ndarray) -> np.ndarray:
        """One row per copy in the kernel's order."""
        out = self._engine.memory(rows.shape[1])
        self._engine.put(out, np.arange(len(rows)), rows)
        return out

    def _slowest(self) -> np.ndarray:
        out = self._engine.memory(1)
        out[...] = np.inf
        return out

    def _seed(self, given: ArrayLike | None, shape: tuple[int, ...], name: str) -> np.ndarray:
        whole = (self.batch.copies, *shape)
        numbers = np.zeros(shape) if given is None else np.asarray(given, float)
        if numbers.shape not in (shape, whole):
            raise BadValue(f"seed of {name} has shape {numbers.shape}; give {shape} or {whole}")
        return np.broadcast_to(numbers, whole)

    def _at_start(self, x: np.ndarray, p: np.ndarray, actions: np.ndarray, exists: np.ndarray) -> Gradient:
        motion, n, starts = self.batch.motion, len(x), self._starts
        nq, i = motion.e.nq, list(motion.choice.independent)
        q_bar, params = x[:, :nq] + p[:, motion.slice("entry_q")], p[:, motion.slice("params")].copy()
        v_bar = np.zeros((n, motion.e.nv))
        v_bar[:, i] = x[:, nq : nq + len(i)] + p[:, motion.slice("entry_v")][:, i]
        _, by_q, by_p = motion.starts(True).batch(np.zeros(n), starts.q, starts.params, q_bar)
        params += np.reshape(by_p, (n, -1))
        if motion.elements:
            seeds = np.zeros((n, len(motion.elements), 3))
            for k, at in enumerate(self._places):
                seeds[:, k, :2] = p[:, at : at + 2]
            seeds[:, :, 2] = p[:, motion.slice("restitution")]
            by_laws = motion.laws_by_params(True).batch(starts.params, seeds.reshape(n, -1))
            params += np.reshape(by_laws, (n, -1))
        return Gradient(np.reshape(by_q, (n, -1)), v_bar, actions, params, exists)


@unchanged
def rollout(
    machine: Mechanism,
    starts: State | Sequence[State],
    actions: ArrayLike,
    *,
    times: int = 10,
    step: float = 1e-3,
    control: Callable[..., Any] | None = None,
    params: Mapping[str, ArrayLike] | None = None,
    ground: Ground | float | Sequence[Ground] | None = None,
    tolerance: float = 1e-7,
    gradient: bool = False,
    threads: int | None = None,
) -> Any:
    """Run copies under a row of actions, (actions, numbers) or (copies, actions, numbers), each held for `times` steps.

    Returns the States at the end; with `gradient` also a Tape, whose `gradient` and `change` give derivatives of them.
    All else as in `sl.Batch`.
    """
    given = np.asarray(actions, float)
    if given.ndim not in (2, 3) or not np.isfinite(given).all():
        raise BadValue(
            f"actions have shape {given.shape}; give finite (actions, numbers) or (copies, actions, numbers)"
        )
    many = [starts] if isinstance(starts, State) else list(starts)
    n = given.shape[0] if given.ndim == 3 else len(many)
    many = many * n if len(many) == 1 else many
    rows = np.moveaxis(given, 1, 0) if given.ndim == 3 else given
    batch = Batch(
        machine,
        n,
        step=step,
        control=control,
        actions=given.shape[-1],
        params=params,
        ground=ground,
        tolerance=tolerance,
        threads=threads,
        gradient=gradient,
    )
    if not gradient:
        batch.reset(many)
        for row in rows:
            batch.step(row if batch.actions else None, times=times)
        return batch.state
    room = ROOM * times * len(rows) + 64
    while True:
        batch.reset(many)
        engine = batch.engine
        if not isinstance(engine, Native):
            raise NoCompiler(f"gradients need a compiled kernel: {'; '.join(batch.notes)}")
        engine.keep(room, room // (ROOM * EVENTFUL) + 64)
        begin, p = batch.state, engine.p.copy()
        marks = [engine.written.copy()]
        for row in rows:
            batch.step(row if batch.actions else None, times=times)
            marks.append(engine.written.copy())
        if not engine.full:
            tape = Tape(batch, engine, rows, marks, begin, p)
            return tape.final, tape
        room *= 4
