"""Tables out: trajectories as CSV, NetCDF and ROS-style JSON, lists of records as CSV, JSON and LaTeX."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saltus.errors import BadFile, BadValue
from saltus.simulation.trajectory import Trajectory

FORMATS = (".csv", ".json", ".tex")
_LATEX = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def write_table(data: Trajectory | Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Write a run or a list of records by the suffix of the path.

    A Trajectory: .csv has a column per quantity and a row per sample; .json the fields of ROS's sensor_msgs/JointState
    (name, position, velocity, effort) one message per sample; .tex a table of its events. Records
    (dicts with the same keys): .csv, .json, .tex.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise BadValue(f"{path}: a table ends in {', '.join(FORMATS)}", given=str(path))
    if isinstance(data, Trajectory):
        text = {".csv": _csv_of_run, ".json": _joint_states, ".tex": _events}[path.suffix](data)
    else:
        records = [dict(r) for r in data]
        if any(r.keys() != records[0].keys() for r in records):
            raise BadValue("records of one table have the same names; these differ")
        text = {".csv": _csv, ".json": _json, ".tex": _latex}[path.suffix](records)
    if not path.parent.is_dir():
        raise BadFile(f"{path.parent} is no directory; make it first", file=str(path))
    path.write_text(text, encoding="utf-8")
    return path


def _columns(run: Trajectory) -> dict[str, np.ndarray]:
    """Every sampled quantity by name."""
    out = {"t": run.t}
    for prefix, named in (("q", run.q), ("v", run.v), ("a", run.a), ("torque", run.torques)):
        out |= {f"{prefix}.{n}": x for n, x in named.items()}
    letters = "xyz"[: run.meta["dimension"]]
    for kind, of in (("point", run.point), ("force", run.force)):
        for name in run.meta["points" if kind == "point" else "forces"]:
            out |= {f"{kind}.{name}.{x}": of(name)[:, i] for i, x in enumerate(letters)}
    return out | {"kinetic": run.energy["kinetic"], "potential": run.energy["potential"]}


def _csv_of_run(run: Trajectory) -> str:
    columns = _columns(run)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, "domain"])
    domains = [_inert(name) for name in run.domain]
    for row, domain in zip(np.column_stack(list(columns.values())), domains, strict=True):
        writer.writerow([*(repr(float(x)) for x in row), domain])
    return out.getvalue()


def _joint_states(run: Trajectory) -> str:
    """One message per sample, as rosbag tools print sensor_msgs/JointState."""
    names = [n for n in run.meta["v_names"] if n in run.meta["q_names"]]
    efforts = dict(run.torques.items())
    zero = np.zeros(len(run.t))
    columns = [
        np.column_stack([source.get(n, zero) for n in names])
        for source in (dict(run.q.items()), dict(run.v.items()), efforts)
    ]
    messages = []
    for k, t in enumerate(run.t):
        seconds = int(np.floor(t))
        stamp = {"sec": seconds, "nanosec": round((float(t) - seconds) * 1e9)}
        position, velocity, effort = (c[k].tolist() for c in columns)
        messages.append(
            {
                "header": {"stamp": stamp, "frame_id": run.domain[k]},
                "name": names,
                "position": position,
                "velocity": velocity,
                "effort": effort,
            }
        )
    return json.dumps(messages) + "\n"


def _events(run: Trajectory) -> str:
    rows = [
        {
            "t (s)": e.t,
            "event": e.name,
            "from": e.source,
            "to": e.target or "end",
            "lost (J)": e.impact.lost if e.impact else 0.0,
        }
        for e in run.events
    ]
    return _latex(rows or [{"event": "none"}])


def _csv(records: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_inert(name) for name in records[0]] if records else [])
    writer.writerows([[repr(float(x)) if isinstance(x, float) else _inert(x) for x in r.values()] for r in records])
    return out.getvalue()


def _inert(cell: Any) -> Any:
    """A text that a spreadsheet would carry out as a formula, behind an apostrophe, which it does not show."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")) else cell


def _json(records: list[dict[str, Any]]) -> str:
    return json.dumps(records, indent=1, default=float) + "\n"


def _latex(records: list[dict[str, Any]]) -> str:
    """A tabular of booktabs; numbers to the right."""
    names = list(records[0]) if records else []
    numeric = [all(isinstance(r[n], int | float | np.number) for r in records) for n in names]
    rows = [" & ".join(_cell(r[n]) for n in names) + r" \\" for r in records]
    head = " & ".join(_escaped(n) for n in names) + r" \\"
    columns = "".join("r" if x else "l" for x in numeric)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return _escaped(str(value))
    if isinstance(value, int):
        return str(value)
    text = f"{float(value):.6g}"
    mantissa, e, exponent = text.partition("e")
    return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$" if e else text


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)
