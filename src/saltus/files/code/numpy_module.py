"""NumPy export: the same functions as a Python module that needs nothing but NumPy, for those who want to read it."""

from __future__ import annotations

from pathlib import Path

from saltus.compile.statements import NUMPY, Routine, literal, statements
from saltus.errors import BadModel
from saltus.files.code.routines import Exported


def export_numpy(exported: Exported, directory: Path) -> Path:
    """Write one module; names of coordinates, inputs and Params are in its lists."""
    m = exported.mechanism
    if any(d.tables for d in exported.domains):
        raise BadModel(
            "a law with tables changes its numbers as time passes, which functions alone do not; export it as C or "
            "as an FMU"
        )
    lines = [
        f'"""{_safe(m.name)}: equations, guards and resets. Written by Saltus; SI units."""',
        "",
        "import math  # noqa: F401",
        "",
        "import numpy as np",
        "",
    ]
    for what, names in (
        ("POSITIONS", m.q_names),
        ("VELOCITIES", m.v_names),
        ("INPUTS", list(m.inputs)),
        ("PARAMS", list(m.params)),
        ("DOMAINS", list(exported.system.domains)),
    ):
        lines.append(f"{what} = {names!r}")
    lines += [f"VALUES = [{', '.join(literal(x, NUMPY) for x in exported.params)}]  # of the Params", ""]
    for r in exported.routines:
        lines += _function(r)
    path = directory / f"{exported.name}.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _function(r: Routine) -> list[str]:
    body, _, _ = statements(r.function, NUMPY)
    results = ", ".join(n for n, _ in r.outputs)
    lines = ["", f"def {r.name}({', '.join(n for n, _ in r.inputs)}):", f'    """{_safe(r.doc)}"""']
    for n, (rows, columns) in r.outputs:
        shape = f"{rows}" if columns == 1 else f"({rows}, {columns})"
        lines.append(f"    {n} = np.zeros({shape})")
    return [*lines, *(f"    {line}" for line in body), f"    return {results}", ""]


def _safe(text: str) -> str:
    return text.replace("\\", " ").replace('"', "'")
