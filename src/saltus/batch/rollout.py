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
from saltus.model.mechanism import Mechanism

ROOM = 4  # parts of a step that are written down at first; where there are more the rollout is repeated
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


class Tape:
    """What happened in a rollout; `gradient` goes through it backwards, through impacts, slips and loops."""

    def __init__(
        self, batch: Batch, engine: Native, actions: np.ndarray, marks: list[np.ndarray], starts: States
    ) -> None:
        self.batch, self._engine, self._actions, self._marks, self._starts = batch, engine, actions, marks, starts
        self._ends = engine.x.copy(), engine.p.copy()
        self.final = batch.state

    def gradient(self, q: ArrayLike | None = None, v: ArrayLike | None = None) -> Gradient:
        """Derivatives of sum(q * final.q) + sum(v * final.v), of every copy: seeds of one row, or one per copy."""
        batch, engine, motion = self.batch, self._engine, self.batch.motion
        n, e = batch.copies, motion.e
        q_bar, v_bar = (self._seed(x, size, name) for x, size, name in ((q, e.nq, "q"), (v, e.nv, "v")))
        x_end, p_end = (engine.rows(x) for x in self._ends)
        nq, nw = e.nq, motion.w.numel()
        split = x_end[:, :nq], x_end[:, nq : nq + nw], x_end[:, nq + nw :]
        t = engine.column(engine.t)
        _, by_q, by_w, by_z, by_p = motion.ends_back.batch(t, *split, p_end, v_bar)
        parts = [np.reshape(x, (n, -1)) for x in (by_q, by_w, by_z, by_p)]
        x_bar, p_bar = engine.memory(x_end.shape[1]), engine.memory(p_end.shape[1])
        every = np.arange(n)
        engine.put(x_bar, every, np.hstack([parts[0] + q_bar, parts[1], parts[2]]))
        engine.put(p_bar, every, parts[3])
        slowest = engine.memory(1)
        slowest[...] = np.inf
        engine.x[...], engine.p[...] = self._ends
        row = motion.slice("row")
        out = np.zeros((n, len(self._actions), batch.actions))
        for k in reversed(range(len(self._actions))):
            if batch.actions:
                engine.act(self._actions[k])
            engine.back(x_bar, p_bar, self._marks[k], self._marks[k + 1], slowest)
            out[:, k] = engine.rows(p_bar)[:, row]
            p_bar[:, row, :] = 0.0
        engine.x[...], engine.p[...] = self._ends
        return self._at_start(engine.rows(x_bar), engine.rows(p_bar), out, engine.column(slowest) > GRAZING)

    def _seed(self, given: ArrayLike | None, size: int, name: str) -> np.ndarray:
        n = self.batch.copies
        numbers = np.zeros(size) if given is None else np.asarray(given, float)
        if numbers.shape not in ((size,), (n, size)):
            raise BadValue(f"seed of {name} has shape {numbers.shape}; give ({size},) or ({n}, {size})")
        return np.broadcast_to(numbers, (n, size))

    def _at_start(self, x: np.ndarray, p: np.ndarray, actions: np.ndarray, exists: np.ndarray) -> Gradient:
        motion, n, starts = self.batch.motion, len(x), self._starts
        nq, i = motion.e.nq, list(motion.choice.independent)
        q_bar, params = x[:, :nq] + p[:, motion.slice("entry_q")], p[:, motion.slice("params")].copy()
        v_bar = np.zeros((n, motion.e.nv))
        v_bar[:, i] = x[:, nq : nq + len(i)] + p[:, motion.slice("entry_v")][:, i]
        by_q, by_p = motion.starts_back.batch(np.zeros(n), starts.q, starts.params, q_bar)
        params += np.reshape(by_p, (n, -1))
        if motion.elements:
            seeds, at = np.zeros((n, len(motion.elements), 3)), motion.slice("block").start
            for k, element in enumerate(motion.elements):
                seeds[:, k, :2] = p[:, at + 3 : at + 5]
                at += element.block.numel()
            seeds[:, :, 2] = p[:, motion.slice("restitution")]
            params += np.reshape(motion.laws_back.batch(starts.params, seeds.reshape(n, -1)), (n, -1))
        return Gradient(np.reshape(by_q, (n, -1)), v_bar, actions, params, exists)


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

    Returns the States at the end; with `gradient` also a Tape, whose `gradient` gives derivatives of them. All else as
    in `sl.Batch`.
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
            raise NoCompiler("gradients need a C compiler; install gcc or clang")
        engine.keep(room, room // ROOM + 64)
        begin = batch.state
        marks = [engine.written.copy()]
        for row in rows:
            batch.step(row if batch.actions else None, times=times)
            marks.append(engine.written.copy())
        if not engine.full:
            tape = Tape(batch, engine, rows, marks, begin)
            return tape.final, tape
        room *= 4
