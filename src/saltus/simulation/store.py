"""Trajectories in files: one NetCDF file holds samples, polynomials, events and accounts, under a checksum.

What a file says is checked for what a trajectory is, whoever wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from saltus import sealed
from saltus.dynamics.impulse import Impact
from saltus.errors import BadFile, BadValue
from saltus.model.registry import readable
from saltus.simulation import netcdf
from saltus.simulation.trajectory import SAMPLES, Event, Piece, Trajectory

FORMAT = "saltus-trajectory-5"
STATES = ("q_before", "v_before", "q", "v")  # around an event

# What `meta` holds at least: a text, a number, a list of names, a dict of numbers.
TEXTS = ("name", "formulation", "engine")
NUMBERS = ("tolerance", "loop_gap", "energy_start", "energy_end", "energy_scale", "energy_of_resets", "energy_drift")
COUNTS = ("steps", "evaluations", "rejected", "dimension")
NAMES = (
    "q_names",
    "v_names",
    "inputs",
    "motions",
    "channels",
    "constraints",
    "points",
    "forces",
    "standing",
    "elements",
)
TABLES = ("params", "work", "error")
ACCOUNTS = {
    "contacts": ("normal_min", "normal_max", "friction_need", "friction_given", "friction_short", "pulling"),
    "feet": ("depth", "t"),
}


def save(trajectory: Trajectory, path: str | Path) -> Path:
    """Write everything to one NetCDF file."""
    attributes = {"format": FORMAT, "meta": json.dumps(trajectory.meta), "events": json.dumps(_records(trajectory))}
    variables = {n: (dims, x, {"units": unit} if unit else {}) for n, (dims, x, unit) in _variables(trajectory).items()}
    try:
        content = netcdf.written(attributes, variables)
    except ValueError as problem:
        raise BadValue(f"{path}: {problem}; ask for fewer samples, or a shorter run") from problem
    return sealed.put(Path(path), sealed.seal(content))


def _variables(trajectory: Trajectory) -> dict[str, tuple[tuple[str, ...], np.ndarray, str]]:
    """Dimensions, values and unit of everything that is an array, by name."""
    out: dict[str, tuple[tuple[str, ...], np.ndarray, str]] = {"time": (("time",), trajectory.t, "s")}
    for dimension, names in trajectory.labels.items():
        out[dimension] = ((dimension,), np.array(names, object), "")
    for name, (dims, unit) in SAMPLES.items():
        out[name] = (("time", *dims), trajectory.arrays[name], unit)
    return out | {name: (*x, "") for name, x in _dense(trajectory).items()}


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
    for name in STATES:
        width = len(trajectory.meta[f"{name[0]}_names"])
        values = np.array([getattr(e, name) for e in events], float).reshape(len(events), width)
        out[f"event_{name}"] = (("event", "coordinate" if name[0] == "q" else "velocity"), values)
    return out


def _records(trajectory: Trajectory) -> list[dict[str, Any]]:
    out = []
    for e in trajectory.events:
        impact = None
        if e.impact is not None:
            impact = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(e.impact).items()}
        kept = {name: getattr(e, name) for name in ("t", "name", "source", "target", "shift", "phase")}
        out.append({**kept, "impact": impact})
    return out


# ---- reading -------------------------------------------------------------------------------------------------------


def load(path: str | Path) -> Trajectory:
    """Read a trajectory that `save` wrote; BadFile says what is wrong with any other file."""
    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", path=str(path))
    content = sealed.unseal(path.read_bytes())
    if content is None:
        raise BadFile(
            f"{path} is damaged or truncated, or no trajectory of Saltus: it does not end with the checksum of its "
            "contents; simulate again, or get another copy",
            path=str(path),
        )
    try:
        attributes, variables = netcdf.read(content)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise BadFile(
            f"{path} cannot be read as NetCDF ({problem}); it may be of an older version: simulate again",
            path=str(path),
        ) from problem
    found = attributes.get("format")
    if found != FORMAT:
        raise BadFile(
            f"{path} is no trajectory of Saltus: its format is {found!r}, expected {FORMAT!r}; simulate again",
            path=str(path),
        )
    try:
        return _rebuilt(attributes, variables)
    except (BadValue, LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        said = str(problem) if isinstance(problem, BadValue) else f"{type(problem).__name__}: {problem}"
        raise BadFile(f"{path} is damaged: {said}; simulate again, or get another copy", path=str(path)) from problem


def _rebuilt(attributes: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> Trajectory:
    """A trajectory of what a file says, which is checked here once so that nothing later need doubt it."""
    meta = _meta(json.loads(attributes["meta"]))
    t = arrays["time"]
    samples = {"t": t, **{name: arrays[name] for name in SAMPLES}}
    events = [_event(fields, i, arrays) for i, fields in enumerate(json.loads(attributes["events"]))]
    trajectory = Trajectory(meta, samples, _pieces(arrays), events)
    sizes = {name: len(labels) for name, labels in trajectory.labels.items()}
    for name, (dims, _) in SAMPLES.items():
        expected = (len(t), *(sizes[d] for d in dims))
        if samples[name].shape != expected or samples[name].dtype.kind not in "if":
            raise ValueError(f"{name} has shape {samples[name].shape}, expected {expected} of numbers")
    if not (t.ndim == 1 and len(t) and np.isfinite(t).all() and (np.diff(t) >= 0).all()):
        raise ValueError("time does not go on from sample to sample")
    phases, known = samples["phase"], len(meta["domains"])
    if phases.dtype.kind != "i" or phases.min() < 0 or phases.max() >= known:
        raise ValueError(f"phases are not those of {known} domains")
    for name in STATES:
        expected = (len(events), sizes["coordinate" if name[0] == "q" else "velocity"])
        if arrays[f"event_{name}"].shape != expected:
            raise ValueError(f"states at events have shape {arrays[f'event_{name}'].shape}, expected {expected}")
    if any(piece.coefficients.shape[2] < sizes["coordinate"] for piece in trajectory.pieces):
        raise ValueError("polynomials have fewer entries than there are coordinates")
    return trajectory


def _meta(meta: Any) -> dict[str, Any]:
    if not isinstance(meta, dict):
        raise TypeError("meta holds no names")
    for name in (*NAMES, "domains"):
        if not isinstance(meta[name], list) or len(set(meta[name])) < len(meta[name]) * (name != "domains"):
            raise ValueError(f"{name} is no list of different names")
        for entry in meta[name]:
            readable(entry, name)
    for name in TABLES:
        for entry, value in meta[name].items():
            _number(value, readable(entry, name))
    for table, expected in ACCOUNTS.items():
        for entry, numbers in meta[table].items():
            for value in (*numbers.values(), *(numbers[name] for name in expected)):
                _number(value, readable(entry, table))
    for name, among in (("standing", "forces"), ("elements", "contacts")):
        if strange := set(meta[name]) - set(meta[among]):
            raise ValueError(f"{name} names {', '.join(sorted(strange))}, which is none of its {among}")
    for place in meta["ground"]:
        if len([_number(value, "ground") for value in place]) != 2:
            raise ValueError("ground is no list of places (x, height)")
    if not isinstance(meta["all_velocities"], bool):
        raise TypeError("all_velocities is neither true nor false")
    for name in TEXTS:
        readable(meta[name], name)
    for name in NUMBERS:
        _number(meta[name], name)
    for name in COUNTS:
        if isinstance(meta[name], bool) or not isinstance(meta[name], int):
            raise TypeError(f"{name} is {meta[name]!r}, no whole number")
    outcome = meta["outcome"]
    _number(outcome["t"], "time of the outcome")
    readable(outcome["kind"], "outcome")
    if meta["dimension"] not in (2, 3) or not isinstance(meta["notes"], list):
        raise ValueError("dimension or notes are none")
    for text in (outcome["detail"], *outcome.get("faults", ()), *meta["notes"]):
        _lines(text)
    return meta


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is {value!r}, no number")
    return float(value)


def _lines(text: Any) -> None:
    """A text for people, which may have more than one line."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no text")
    for line in text.split("\n"):
        readable(line.replace("\t", " "), "text")


def _pieces(arrays: Mapping[str, np.ndarray]) -> list[Piece]:
    sizes, breaks, polynomials = arrays["pieces"], arrays["breaks"], arrays["polynomials"]
    if sizes.ndim != 2 or sizes.shape[1] != 4 or sizes.dtype.kind != "i" or (sizes < 0).any() or polynomials.ndim != 3:
        raise ValueError("pieces are no table of phases and sizes")
    pieces, at, point = [], 0, 0
    for phase, k, d, w in sizes.tolist():
        own = breaks[point : point + k + 1]
        if k < 1 or d < 1 or len(own) != k + 1 or not (np.diff(own) >= 0).all() or d > polynomials.shape[1]:
            raise ValueError("polynomials and their breaks do not belong together")
        pieces.append(Piece(int(phase), own, polynomials[at : at + k, :d, :w]))
        at, point = at + k, point + k + 1
    if (at, point) != (len(polynomials), len(breaks)) or (sizes[:, 3] > polynomials.shape[2]).any():
        raise ValueError("polynomials and their breaks do not belong together")
    return pieces


def _event(fields: dict[str, Any], i: int, arrays: Mapping[str, np.ndarray]) -> Event:
    for name in ("name", "source", *(["target"] if fields["target"] is not None else [])):
        readable(fields[name], f"{name} of an event")
    for name in ("t", "shift", "phase"):
        _number(fields[name], f"{name} of an event")
    if fields["impact"] is not None:
        impact: dict[str, Any] = fields["impact"]
        for name in ("T_a", "T_c", "T_after", "rank"):
            _number(impact[name], name)
        impact |= {name: np.array(impact[name], float) for name in ("v", "impulses", "works")}
        impact["rows"] = tuple(readable(row, "row of an impact") for row in impact["rows"])
        per_row = (len(impact["rows"]),)
        if impact["impulses"].shape != per_row or impact["works"].shape not in ((0,), per_row):
            raise ValueError("an impact has not one impulse, and one work or none, per row")
        fields["impact"] = Impact(**impact)
    states = {name: arrays[f"event_{name}"][i] for name in STATES}
    return Event(**fields, **states)
