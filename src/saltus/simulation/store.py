"""Trajectories in files: one NetCDF file holds samples, polynomials, events and accounts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.dynamics.impact import Impact
from saltus.errors import BadFile
from saltus.simulation.trajectory import Event, Piece, Trajectory

if TYPE_CHECKING:
    import xarray

FORMAT = "saltus-trajectory-1"


def save(trajectory: Trajectory, path: str | Path) -> Path:
    """Write everything to one NetCDF file; a file half written never takes the place of a whole one."""
    import xarray as xr

    path = Path(path)
    data = trajectory.dataset()
    degree = max((p.coefficients.shape[1] for p in trajectory.pieces), default=1)
    width = max((p.coefficients.shape[2] for p in trajectory.pieces), default=0)
    polynomials = np.full((sum(len(p.coefficients) for p in trajectory.pieces), degree, width), np.nan)
    at = 0
    for p in trajectory.pieces:
        k, d, w = p.coefficients.shape
        polynomials[at : at + k, :d, :w] = p.coefficients
        at += k
    data["breaks"] = (("break",), np.concatenate([p.breaks for p in trajectory.pieces] or [np.zeros(0)]))
    data["polynomials"] = (("interval", "power", "state"), polynomials)
    data["pieces"] = (
        ("piece", "field"),
        np.array([[p.phase, *p.coefficients.shape] for p in trajectory.pieces], np.int64).reshape(-1, 4),
    )
    for name in ("q_before", "v_before", "q", "v"):
        width = len(trajectory.meta["q_names" if name[0] == "q" else "v_names"])
        values = np.array([getattr(e, name) for e in trajectory.events], float).reshape(len(trajectory.events), width)
        data[f"event_{name}"] = (("event", f"event_{name[0]}"), values)
    events = json.dumps(_event_records(trajectory))
    data.attrs = {"format": FORMAT, "meta": json.dumps(trajectory.meta), "events": events}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    encoding = {name: {"_FillValue": None} for name, x in data.variables.items() if x.dtype.kind == "f"}
    try:
        xr.Dataset.to_netcdf(data, temporary, engine="netcdf4", encoding=encoding)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _event_records(trajectory: Trajectory) -> list[dict[str, Any]]:
    out = []
    for e in trajectory.events:
        impact = None
        if e.impact is not None:
            impact = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(e.impact).items()}
        out.append({"t": e.t, "name": e.name, "source": e.source, "target": e.target, "impact": impact,
                    "shift": e.shift, "phase": e.phase})
    return out


def load(path: str | Path) -> Trajectory:
    """Read a trajectory that `save` wrote; BadFile says what is wrong with any other file."""
    import xarray as xr

    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", path=str(path))
    try:
        with xr.open_dataset(path, engine="netcdf4", decode_times=False) as opened:
            data = opened.load()
    except Exception as problem:
        raise BadFile(
            f"{path} cannot be read as NetCDF ({type(problem).__name__}); it may be truncated: simulate again",
            path=str(path),
        ) from problem
    if data.attrs.get("format") != FORMAT:
        raise BadFile(
            f"{path} is no trajectory of Saltus: its format is {data.attrs.get('format')!r}, expected {FORMAT!r}",
            path=str(path),
        )
    try:
        return _from_dataset(data)
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise BadFile(f"{path} is damaged: {type(problem).__name__}: {problem}", path=str(path)) from problem


def _from_dataset(data: xarray.Dataset) -> Trajectory:
    meta = json.loads(data.attrs["meta"])
    names = ("q", "v", "a", "torques", "drives", "phase", "kinetic", "potential", "work", "gap", "momentum", "points",
             "forces")
    arrays = {name: data[name].values for name in names}
    arrays["t"] = data["time"].values
    pieces, at, point = [], 0, 0
    breaks, polynomials = data["breaks"].values, data["polynomials"].values
    for phase, k, d, w in data["pieces"].values:
        pieces.append(Piece(int(phase), breaks[point : point + k + 1], polynomials[at : at + k, :d, :w]))
        at, point = at + k, point + k + 1
    events = []
    for i, record_ in enumerate(json.loads(data.attrs["events"])):
        impact = record_["impact"]
        if impact is not None:
            values: dict[str, Any] = {k: np.array(v) if isinstance(v, list) else v for k, v in impact.items()}
            impact = Impact(**{**values, "rows": tuple(impact["rows"])})
        q0, v0, q1, v1 = (data[f"event_{n}"].values[i] for n in ("q_before", "v_before", "q", "v"))
        events.append(Event(record_["t"], record_["name"], record_["source"], record_["target"], q0, v0, q1, v1, impact,
                            record_["shift"], record_["phase"]))
    return Trajectory(meta, arrays, pieces, events)
