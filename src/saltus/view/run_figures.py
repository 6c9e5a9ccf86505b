"""All figures of one run by name: what makes sense for it, made when it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from saltus.errors import UnknownName
from saltus.view.drawing import plot_snapshots, plot_strobe
from saltus.view.placing import has_contacts
from saltus.view.plots import plot_contacts, plot_coordinates, plot_energy, plot_gaps, plot_path, plot_torques
from saltus.view.portraits import plot_portraits

if TYPE_CHECKING:
    from saltus.hybrid.graph import HybridSystem
    from saltus.model.mechanism import Mechanism
    from saltus.simulation.trajectory import Trajectory


def makers(
    run: Trajectory,
    *,
    system: HybridSystem | None = None,
    mechanism: Mechanism | None = None,
    coordinates: Sequence[str] = (),
    since: float | None = None,
    until: float | None = None,
    count: int = 10,
) -> dict[str, Callable[[], Figure]]:
    """Return what draws each figure that makes sense for a run, by name.

    `coordinates` are those of the phase portraits; the snapshots are `count` between `since` and `until` (s). Without
    them, portraits are of the height and the first motor, snapshots of the end of the run.
    """
    for name in coordinates:
        if name not in run.meta["v_names"]:
            raise UnknownName("coordinate", name, run.meta["v_names"])
    out: dict[str, Callable[[], Figure]] = {}
    points = run.meta["points"]
    if mechanism is not None or run.mechanism is not None:
        first, last = float(run.t[0]) if since is None else since, float(run.t[-1]) if until is None else until
        times = None if since is None and until is None else np.linspace(first, last, count)
        interval = _frame_interval(run)
        out["snapshots"] = lambda: plot_snapshots(run, times=times, count=count, interval=interval, mechanism=mechanism)
        if has_contacts(run):
            begin = max(first, last - interval * (count - 1)) if since is None else first
            paths = [p for p in dict.fromkeys(("foot", *run.meta["forces"])) if p in points][:3]
            out["strobe"] = lambda: plot_strobe(
                run, since=begin, until=last, frames=count, paths=paths, mechanism=mechanism
            )
    if points:
        point = next((p for p in (*run.meta["forces"], "foot") if p in points), points[-1])
        out["path"] = lambda: plot_path(run, point)
    if run.meta["q_names"]:
        out["coordinates"] = lambda: plot_coordinates(run)
    driver = next((n for n in run.meta["inputs"] if n in run.meta["v_names"]), None)
    height = next((n for up in (".z", ".y") for n in run.meta["v_names"] if n.endswith(up)), None)
    portraits = list(coordinates) or [n for n in (height, driver) if n]
    if portraits:
        out["portraits"] = lambda: plot_portraits(run, portraits)
    if run.meta["constraints"]:
        out["loop_gaps"] = lambda: plot_gaps(run)
    out["energy"] = lambda: plot_energy(run)
    if run.meta["inputs"]:
        out["torques"] = lambda: plot_torques(run, system=system)
    if has_contacts(run) or len(run.contacts):
        out["contacts"] = lambda: plot_contacts(run)
    return out


def figures(
    run: Trajectory, *, system: HybridSystem | None = None, mechanism: Mechanism | None = None
) -> dict[str, Figure]:
    """Make all figures that a report of a run shows, by name."""
    found = makers(run, system=system, mechanism=mechanism)
    return {name: make() for name, make in found.items() if name in REPORTED}


def _frame_interval(run: Trajectory) -> float:
    """Time between snapshots: 0.03 s as in the paper for legs on the ground, else a tenth of the run."""
    return 0.03 if has_contacts(run) and run.duration > 0.3 else max(run.duration / 9.001, 1e-9)


REPORTED = ("snapshots", "path", "coordinates", "portraits", "loop_gaps", "energy", "torques", "contacts")
