"""Strides: a run cut at its touchdowns, with the time, length and speed of each stride."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from saltus.simulation.trajectory import Event, Trajectory

STEADY = 0.5  # share of the strides, the last ones, that count as steady


@dataclass(frozen=True, eq=False)
class Strides:
    """Strides of a run, one from each touchdown to the next.

    `times` (s), `lengths` (m, how far the machine went) and `duty` (share of the stride in contact) have one
    entry per stride; the means are over the last half of the strides.
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


def strides(run: Trajectory, *, event: str | None = None, coordinate: str | None = None) -> Strides:
    """Cut a run at an event: its touchdowns, or the touches of its first foot.

    Progress is that of the feet that land, along x, or of a `coordinate` if one is named.
    Without a named point on the ground it is the first coordinate along x.
    """
    if event is None:
        feet = (e.name for e in run.events if e.name == "touchdown" or e.name.endswith(" touches"))
        event = next(feet, "touchdown")
    cuts = list({e.t: e for e in run.events if e.name == event}.values())  # what fires twice at once is one cut
    starts = np.array([e.t for e in cuts])
    along = _landings(run, cuts) if coordinate is None else None
    if along is None:
        coordinate = coordinate or next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
        index = None if coordinate is None else run.meta["q_names"].index(coordinate)
        along = np.array([0.0 if index is None else e.q[index] for e in cuts])
    if len(starts) < 2:
        none = np.zeros(0)
        return Strides(none, none, none, starts)
    spans = contact_spans(run)
    inside = np.array(
        [sum(max(0.0, min(b, end) - max(a, begin)) for a, b in spans) for begin, end in itertools.pairwise(starts)]
    )
    times = np.diff(starts)
    return Strides(times, np.diff(along), inside / times, starts)


def _landings(run: Trajectory, cuts: list[Event]) -> np.ndarray | None:
    """Where (m, along x) the foot stands that carries the domain after each event; None if that is no named point."""
    phase, force, points = run.arrays["phase"], ground_forces(run), run.meta["points"]
    standing: dict[str, str] = {}
    for i in np.unique(phase) if force.shape[1] else ():
        loads = np.abs(force[phase == i]).sum(axis=(0, 2))
        if loads.max() > 0:
            standing.setdefault(run.meta["domains"][i], run.meta["standing"][int(loads.argmax())])
    feet = [standing.get(e.target or "") for e in cuts]
    if not all(foot in points for foot in feet):
        return None
    at = [int(np.searchsorted(run.t, e.t)) for e in cuts]
    return np.array([run.point(str(foot))[i, 0] for foot, i in zip(feet, at, strict=True)])


def ground_forces(run: Trajectory) -> np.ndarray:
    """Forces (N) of the ground alone, not those between links: samples, contacts that stand on it, axes."""
    return run.arrays["forces"][:, [run.meta["forces"].index(n) for n in run.meta["standing"]]]


def contact_spans(run: Trajectory) -> list[tuple[float, float]]:
    """Times (from, to) of the phases in which the ground pushes on the machine."""
    phase, force = run.arrays["phase"], ground_forces(run)
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
