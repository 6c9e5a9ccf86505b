"""How far a run is off: the same call once more, with a hundredth of the tolerance."""

from __future__ import annotations

import numpy as np

from saltus.errors import BadValue
from saltus.simulation.trajectory import Trajectory

FINER, FINEST = 0.01, 1e-14
LEAST = 10  # tolerances: what no run is better than, whatever by chance its finer one says
SAME_TIME = 1e-6  # s: ends that differ by less are one
MOVED = 1e-9  # rad or m: what an event moves by more is compared on either side of it


def finer(tolerance: float) -> float:
    """Tolerance of the second run."""
    if tolerance < 10 * FINEST:
        raise BadValue(
            f"check: nothing is finer than a tolerance of {tolerance:g}; give {10 * FINEST:g} or more", given=tolerance
        )
    return max(FINEST, FINER * tolerance)


def compare(run: Trajectory, second: Trajectory) -> None:
    """Note in a run how far its positions may be off, by coordinate: twice the largest difference from a finer one.

    With errors e of the run and e' of the finer one, |e| <= |difference| + |e'|, which is at most twice the
    difference as long as the finer run is at most half as far off. LEAST tolerances are added.
    """
    ends = [f"{x.outcome.kind} at t = {x.outcome.t:.9g} s" for x in (run, second)]
    if run.outcome.kind != second.outcome.kind or abs(run.t[-1] - second.t[-1]) > SAME_TIME:
        run.meta["outcome"]["faults"] = (
            *run.outcome.faults,
            f"it does not hold: {ends[0]}, but with a tolerance of {second.meta['tolerance']:g} {ends[1]}",
        )
    jumps = [e.t for e in run.events if np.abs(e.q - e.q_before).max(initial=0.0) > MOVED]
    kept = (run.t <= second.t[-1]) & ~np.isin(run.t, jumps)
    off = np.abs(run.arrays["q"][kept] - second.at(run.t[kept]).positions).max(axis=0, initial=0.0)
    bounds = 2 * off + LEAST * run.meta["tolerance"]
    run.meta["error"] = dict(zip(run.meta["q_names"], map(float, bounds), strict=True))
