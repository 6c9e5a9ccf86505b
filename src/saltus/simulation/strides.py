"""Strides: a run cut at its touchdowns, with the time, length and speed of each stride."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from saltus.simulation.trajectory import Trajectory

STEADY = 0.5  # share of the strides, the last ones, that count as steady


@dataclass(frozen=True, eq=False)
class Strides:
    """Strides of a run, one from each touchdown to the next.

    `times` (s), `lengths` (m, how far the machine went) and `duty` (share of the stride in contact) have one
    entry a stride; the means are over the last half of the strides.
    """

    times: np.ndarray
    lengths: np.ndarray
    duty: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    @property
    def steady(self) -> slice:
        """The strides that count as steady: the last half of them."""
        return slice(len(self) - max(int(np.ceil(STEADY * len(self))), 1), None) if len(self) else slice(0)

    @property
    def stride_time(self) -> float:
        """Mean time of a steady stride (s); NaN without strides."""
        return float(self.times[self.steady].mean()) if len(self) else float("nan")

    @property
    def mean_speed(self) -> float:
        """Mean speed over the steady strides (m/s): their length by their time."""
        return float(self.lengths[self.steady].sum() / self.times[self.steady].sum()) if len(self) else float("nan")

    @property
    def duty_factor(self) -> float:
        """Mean share of a steady stride that is spent in contact."""
        return float(self.duty[self.steady].mean()) if len(self) else float("nan")


def strides(run: Trajectory, *, event: str = "touchdown", coordinate: str | None = None) -> Strides:
    """Cut a run at an event. `coordinate` measures progress; by default the first one along x that moves the base."""
    starts = np.array([e.t for e in run.events if e.name == event])
    if coordinate is None:
        coordinate = next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
    if coordinate is None:
        along = np.zeros(len(starts))
    else:
        index = run.meta["q_names"].index(coordinate)
        along = np.array([e.q[index] for e in run.events if e.name == event])
    if len(starts) < 2:
        none = np.zeros(0)
        return Strides(none, none, none, starts)
    spans = contact_spans(run)
    inside = np.array(
        [sum(max(0.0, min(b, end) - max(a, begin)) for a, b in spans) for begin, end in itertools.pairwise(starts)]
    )
    times = np.diff(starts)
    return Strides(times, np.diff(along), inside / times, starts)


def contact_spans(run: Trajectory) -> list[tuple[float, float]]:
    """Times (from, to) of the phases in which the ground pushes on the machine."""
    phase, force = run.arrays["phase"], run.arrays["forces"]
    spans: list[tuple[float, float]] = []
    for i in np.unique(phase):
        mine = phase == i
        if force.shape[1] and np.abs(force[mine]).max(initial=0.0) > 0:
            begin, end = float(run.t[mine][0]), float(run.t[mine][-1])
            if spans and begin - spans[-1][1] < 1e-12:  # only the coordinates changed
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((begin, end))
    return spans
