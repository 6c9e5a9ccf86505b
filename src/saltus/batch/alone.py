"""Copies that run in `simulate`, one by one: the event-exact truth, and what there is without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from saltus.batch.motion import Acted, Motion
from saltus.compile import Kernel
from saltus.errors import BadValue
from saltus.ground import Ground
from saltus.hybrid.laws import Scheduled
from saltus.model.assembly import State
from saltus.model.touching import Foot
from saltus.simulation.run import simulate
from saltus.simulation.touches import CLOSED
from saltus.simulation.trajectory import Trajectory


class Alone:
    """The memory of all copies, one row each, and their runs since they started."""

    def __init__(self, motion: Motion, grounds: list[Ground], law: Any, ends: dict[Any, int]) -> None:
        self.motion, self.grounds, self.law, self.ends = motion, grounds, law, ends
        self._report = Kernel(motion.report.function, native=False)
        self._unknown = np.zeros(motion.rows)  # forces are those of the runs
        n, e = len(grounds), motion.e
        if motion.looks_at_entry():
            raise BadValue("copies that run in sl.simulate one by one cannot have a law that looks at s.entry")
        self.t, self.p = np.zeros((n, 1)), np.zeros((n, motion.p.numel()))
        self.x, self.v = np.zeros((n, e.nq + motion.w.numel() + e.z.numel())), np.zeros((n, e.nv))
        self.contact, self.measured = np.zeros((n, 3 * len(motion.elements))), np.zeros((n, len(motion.measured)))
        self.runs: list[list[Trajectory]] = [[] for _ in range(n)]
        self.over, self.doubts, self.losses = np.zeros((n, 1), int), np.zeros((n, 1), int), np.zeros((n, 2))

    @staticmethod
    def rows(memory: np.ndarray) -> np.ndarray:
        """One row per copy."""
        return memory.copy()

    @staticmethod
    def column(memory: np.ndarray) -> np.ndarray:
        """One number per copy, where there is one; as a view."""
        return memory[:, 0]

    def begin(self, which: np.ndarray, t: float, q: np.ndarray, w: np.ndarray, p: np.ndarray) -> None:
        """Start some copies at a time."""
        nq, nw = q.shape[1], w.shape[1]
        self.x[which] = 0.0
        self.x[which, :nq], self.x[which, nq : nq + nw], self.p[which] = q, w, p
        self.t[which], self.over[which], self.losses[which] = t, 0, 0.0
        for k in which:
            self.v[k], _, self.measured[k] = self._report(self.t[k], *self._split(k), self.p[k], self._unknown)
            self.contact[k] = 0.0
            self.runs[k] = []

    def act(self, actions: np.ndarray) -> None:
        """Hold new actions: one for all copies, or one row per copy."""
        self.p[:, self.motion.slice("row")] = actions

    def _split(self, k: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nq, nw = self.motion.e.nq, self.motion.w.numel()
        return self.x[k, :nq], self.x[k, nq : nq + nw], self.x[k, nq + nw :]

    def step(self, step: float, times: int, tolerance: float, rest: float, weight: float, threads: int) -> bool:
        """Run every copy that has not ended; False where one was given actions that are not finite."""
        del tolerance, rest, weight, threads
        fine = np.isfinite(self.p[:, self.motion.slice("row")]).all(axis=1)
        wrong = ~fine & (self.over[:, 0] == 0)
        self.over[wrong] = 2
        for k in np.flatnonzero(self.over[:, 0] == 0):
            self._run(int(k), step, times)
        return not wrong.any()

    def _run(self, k: int, step: float, times: int) -> None:
        motion, (q, w, z) = self.motion, self._split(k)
        m, begin = motion.mechanism, float(self.t[k, 0])
        theta = dict(zip(m.params, map(float, self.p[k, motion.slice("params")]), strict=True))
        law = self.law
        if isinstance(law, Acted):
            law = Scheduled(law.law, [begin], [self.p[k, motion.slice("row")]])
        run = simulate(
            m,
            State(m, q.copy(), self.v[k].copy(), theta, z.copy() if z.size else None),
            until=begin + times * step,
            begin=begin,
            control=law,
            ground=self.grounds[k] if any(isinstance(x.part, Foot) for x in motion.elements) else None,
            rate=1 / step,
            stop_after=self.ends,
        )
        self.runs[k].append(run)
        last, stopped = run.end, run.outcome.kind == "stopped"
        if stopped:
            last = State(m, run.events[-1].q, run.events[-1].v, theta)
        for i in range(1, times + 1):
            early = begin + i * step > run.t[-1] + 1e-9 * step  # it could not go on
            state = run.at(begin + i * step) if i < times and not early else last
            self.x[k, : len(q)] = state.positions
            self.x[k, len(q) : len(q) + len(w)] = state.velocities[list(motion.choice.independent)]
            self.t[k] = run.t[-1] if early else begin + i * step
            q, w, z = self._split(k)
            self.v[k] = state.velocities
            if float(motion.ended(self.t[k], q, w, z, self.p[k])) > 0 or (early and stopped):
                self.over[k] = 1
            if early or self.over[k]:
                break
        for event in run.events:
            if event.t <= self.t[k, 0] + 1e-9 * step:
                self.losses[k, 1] = event.impact.lost if event.impact else 0.0
                self.losses[k, 0] += self.losses[k, 1]
        self.measured[k] = self._report(self.t[k], q, w, z, self.p[k], self._unknown)[2]
        sample = int(np.argmin(np.abs(run.t - self.t[k, 0])))
        self.contact[k], told = 0.0, set[str]()
        for i, x in enumerate(motion.elements):  # a run tells of parts: of what touches with two, the first bears it
            closed = run.arrays["touches"][sample, run.meta["elements"].index(x.name), CLOSED] > 0.5
            if closed and x.part.name not in told:
                force = run.force(x.part.name if x.part.name in run.meta["forces"] else x.name)[sample]
                self.contact[k, 3 * i : 3 * i + len(force)] = force
                told.add(x.part.name)
        if not run.outcome.ok and not self.over[k]:
            self.over[k] = 2
