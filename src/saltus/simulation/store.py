"""Trajectories in files: one NetCDF file holds samples, polynomials, events and accounts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from saltus.dynamics.impulse import Impact
from saltus.errors import BadFile
from saltus.simulation.trajectory import SAMPLES, Event, Piece, Trajectory

FORMAT = "saltus-trajectory-1"


def save(trajectory: Trajectory, path: str | Path) -> Path:
    """Write everything to one NetCDF file; a file half written never takes the place of a whole one."""
    from netCDF4 import Dataset

    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with Dataset(temporary, "w") as file:
            file.setncatts(
                {
                    "format": FORMAT,
                    "meta": json.dumps(trajectory.meta),
                    "events": json.dumps(_event_records(trajectory)),
                }
            )
            _put(file, "time", ("time",), trajectory.t, "s")
            for dimension, names in trajectory.labels.items():
                _put(file, dimension, (dimension,), np.array(names, object))
            for name, (dims, unit) in SAMPLES.items():
                _put(file, name, ("time", *dims), trajectory.arrays[name], unit)
            for name, (dimensions, array) in _dense(trajectory).items():
                _put(file, name, dimensions, array)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _put(file: Any, name: str, dimensions: tuple[str, ...], array: np.ndarray, unit: str = "") -> None:
    for dimension, size in zip(dimensions, array.shape, strict=True):
        if dimension not in file.dimensions:
            file.createDimension(dimension, size)
    variable = file.createVariable(name, str if array.dtype == object else array.dtype, dimensions)
    if unit:
        variable.units = unit
    if array.size:
        variable[:] = array


def _dense(trajectory: Trajectory) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Polynomials of all pieces, padded to one size, and the states around events."""
    pieces, events = trajectory.pieces, trajectory.events
    degree = max((p.coefficients.shape[1] for p in pieces), default=1)
    width = max((p.coefficients.shape[2] for p in pieces), default=0)
    polynomials = np.full((sum(len(p.coefficients) for p in pieces), degree, width), np.nan)
    at = 0
    for p in pieces:
        k, d, w = p.coefficients.shape
        polynomials[at : at + k, :d, :w] = p.coefficients
        at += k
    sizes = np.array([[p.phase, *p.coefficients.shape] for p in pieces], np.int64).reshape(-1, 4)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "breaks": (("break",), np.concatenate([p.breaks for p in pieces] or [np.zeros(0)])),
        "polynomials": (("interval", "power", "state"), polynomials),
        "pieces": (("piece", "field"), sizes),
    }
    for name in ("q_before", "v_before", "q", "v"):
        width = len(trajectory.meta[f"{name[0]}_names"])
        values = np.array([getattr(e, name) for e in events], float).reshape(len(events), width)
        out[f"event_{name}"] = (("event", "coordinate" if name[0] == "q" else "velocity"), values)
    return out


def _event_records(trajectory: Trajectory) -> list[dict[str, Any]]:
    out = []
    for e in trajectory.events:
        impact = None
        if e.impact is not None:
            impact = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(e.impact).items()}
        out.append(
            {
                "t": e.t,
                "name": e.name,
                "source": e.source,
                "target": e.target,
                "impact": impact,
                "shift": e.shift,
                "phase": e.phase,
            }
        )
    return out


def load(path: str | Path) -> Trajectory:
    """Read a trajectory that `save` wrote; BadFile says what is wrong with any other file."""
    from netCDF4 import Dataset

    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", path=str(path))
    try:
        with Dataset(path) as file:
            file.set_auto_mask(False)
            attributes = {name: file.getncattr(name) for name in file.ncattrs()}
            arrays = {name: np.asarray(x[:]) for name, x in file.variables.items() if x.dtype is not str}
    except (OSError, RuntimeError, ValueError) as problem:
        raise BadFile(
            f"{path} cannot be read as NetCDF ({type(problem).__name__}); it may be truncated: simulate again",
            path=str(path),
        ) from problem
    if attributes.get("format") != FORMAT:
        raise BadFile(
            f"{path} is no trajectory of Saltus: its format is {attributes.get('format')!r}, expected {FORMAT!r}",
            path=str(path),
        )
    try:
        return _rebuilt(attributes, arrays)
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise BadFile(f"{path} is damaged: {type(problem).__name__}: {problem}", path=str(path)) from problem


def _rebuilt(attributes: dict[str, Any], arrays: dict[str, np.ndarray]) -> Trajectory:
    pieces, at, point = [], 0, 0
    for phase, k, d, w in arrays["pieces"]:
        breaks, polynomials = arrays["breaks"][point : point + k + 1], arrays["polynomials"][at : at + k, :d, :w]
        pieces.append(Piece(int(phase), breaks, polynomials))
        at, point = at + k, point + k + 1
    events = []
    for i, fields in enumerate(json.loads(attributes["events"])):
        if fields["impact"] is not None:
            impact: dict[str, Any] = fields["impact"]
            impact |= {name: np.array(impact[name]) for name in ("v", "impulses")}
            impact["rows"] = tuple(impact["rows"])
            fields["impact"] = Impact(**impact)
        states = {name: arrays[f"event_{name}"][i] for name in ("q_before", "v_before", "q", "v")}
        events.append(Event(**fields, **states))
    samples = {"t": arrays["time"], **{name: arrays[name] for name in SAMPLES}}
    return Trajectory(json.loads(attributes["meta"]), samples, pieces, events)
