"""C export: a C99 library without allocation, its header, build files, a self-test and an example loop."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saltus.compile.statements import C, Routine, declared, identifier, literal, statements
from saltus.errors import BadValue
from saltus.files.code.c_programs import CMAKE, EXAMPLE, LOOP, MAKEFILE, SELF_TEST
from saltus.files.code.c_stepper import stepper_header, stepper_source
from saltus.files.code.routines import Exported

Table = tuple[Sequence[float], Any]  # grid, and one row of values a grid point
VECTORS = 4  # sets of arguments a routine is tested with


def export_c(exported: Exported, directory: Path, *, tables: Mapping[str, Table] | None = None) -> list[Path]:
    """Write the library; `tables` are looked up and interpolated linearly, {name: (grid, rows)}."""
    directory.mkdir(parents=True, exist_ok=True)
    name = exported.name
    checked = {identifier(n): _table(n, *table) for n, table in (tables or {}).items()}
    texts = {
        f"{name}.h": header(exported, checked),
        f"{name}.c": source(exported, checked),
        "selftest.c": self_test(exported),
        "example.c": _example(exported),
        "loop_1khz.c": _loop(exported),
        "Makefile": MAKEFILE.replace("NAME", name),
        "CMakeLists.txt": CMAKE.replace("NAME", name),
    }
    for file, text in texts.items():
        (directory / file).write_text(text, encoding="ascii", errors="replace")
    return [directory / file for file in texts]


def comment(text: str) -> str:
    """Text that is safe within a C comment."""
    return re.sub(r"\*/|/\*|\\", "?", re.sub(r"[^\x20-\x7e]+", " ", text))


def _table(name: str, grid: Sequence[float], rows: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(grid, float), np.asarray(rows, float)
    y = y[:, None] if y.ndim == 1 else y
    if (
        x.ndim != 1
        or len(x) < 2
        or y.ndim != 2
        or len(y) != len(x)
        or not (np.diff(x) > 0).all()
        or not (np.isfinite(x).all() and np.isfinite(y).all())
    ):
        raise BadValue(f"table {name!r}: give a rising grid of two or more numbers and one row of values for each")
    return x, y


# ---- header and source --------------------------------------------------------------------------------------------


def _prototype(name: str, r: Routine) -> str:
    arguments = ["double t" if n == "t" else f"const double *{n}" for n, _ in r.inputs]
    arguments += [f"double *{n}" for n, _ in r.outputs]
    return f"void {name}_{r.name}({', '.join(arguments)})"


def _sizes(r: Routine) -> str:
    parts = [f"{n}[{size}]" for n, size in r.inputs if n != "t"]
    parts += [f"{n}[{a} x {b}]" if b != 1 else f"{n}[{a}]" for n, (a, b) in r.outputs]
    return ", ".join(parts)


def header(exported: Exported, tables: Mapping[str, Any]) -> str:
    """The header with every function, size and index."""
    name, m = exported.name, exported.mechanism
    upper = name.upper()
    lines = [
        f"/* {comment(m.name)}: equations, guards, resets and a fixed-step hybrid stepper.",
        "   Written by Saltus. C99, no allocation, no dependencies but libm. SI units, matrices row by row. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"#define {upper}_NQ {len(m.q_names)} /* positions */",
        f"#define {upper}_NV {len(m.v_names)} /* velocities */",
        f"#define {upper}_NU {len(m.inputs)} /* inputs */",
        f"#define {upper}_NPARAMS {len(m.params)} /* Params */",
        "",
    ]
    for title, prefix, names in (
        ("Positions", "Q", m.q_names),
        ("Velocities", "V", m.v_names),
        ("Inputs", "U", list(m.inputs)),
        ("Params", "P", list(m.params)),
        ("Domains", "D", list(exported.system.domains)),
    ):
        if names:
            listed = ", ".join(f"{upper}_{prefix}_{i} = {i} /* {comment(n)} */" for i, n in enumerate(names))
            lines += [f"/* {title} by number. */", f"enum {{ {listed} }};"]
    lines += [
        "",
        "/* Values of the Params at export. */",
        f"extern const double {name}_params[{max(1, len(m.params))}];",
        "",
    ]
    for r in exported.routines:
        lines += [f"/* {comment(r.doc)} {_sizes(r)} */", _prototype(name, r) + ";", ""]
    for table, (x, y) in tables.items():
        lines += [
            f"/* Table {table} between {x[0]:.6g} and {x[-1]:.6g}, linear, ends held: out[{y.shape[1]}]. */",
            f"void {name}_table_{table}(double x, double *out);",
            "",
        ]
    lines += [stepper_header(exported), "#ifdef __cplusplus", "}", "#endif", "#endif"]
    return "\n".join(lines) + "\n"


def source(exported: Exported, tables: Mapping[str, Any]) -> str:
    """The library."""
    name = exported.name
    lines = [
        f"/* {comment(exported.mechanism.name)}. Written by Saltus. */",
        f'#include "{name}.h"',
        "",
        "#include <math.h>",
        "#include <string.h>",
        "",
    ]
    params = ", ".join(literal(x, C) for x in exported.params) or "0.0"
    lines += [f"const double {name}_params[] = {{{params}}};", ""]
    for r in exported.routines:
        lines += _function(name, r)
    for table, (x, y) in tables.items():
        lines += _table_function(f"{name}_table_{table}", x, y)
    return "\n".join(lines) + "\n" + stepper_source(exported)


def _function(name: str, r: Routine) -> list[str]:
    body, count, used = statements(r.function, C)
    lines = [_prototype(name, r) + " {"]
    lines += declared(count, "double")
    lines += [f"  (void){n};" for i, (n, _) in enumerate(r.inputs) if i not in used]
    lines += [f"  (void){n};" for n, (a, b) in r.outputs if a * b == 0]
    return [*lines, *(f"  {line}" for line in body), "}", ""]


def _table_function(name: str, x: np.ndarray, y: np.ndarray) -> list[str]:
    rows = ",\n    ".join(", ".join(literal(v, C) for v in row) for row in y)
    n, k = y.shape
    return [
        f"void {name}(double x, double *out) {{",
        f"  static const double grid[] = {{{', '.join(literal(v, C) for v in x)}}};",
        f"  static const double rows[] = {{\n    {rows}}};",
        f"  int low = 0, high = {n - 1}, i;",
        "  double s;",
        "  while (high - low > 1) {",
        "    const int middle = (low + high) / 2;",
        "    if (grid[middle] <= x) low = middle; else high = middle;",
        "  }",
        "  s = (x - grid[low]) / (grid[high] - grid[low]);",
        "  s = s < 0.0 ? 0.0 : (s > 1.0 ? 1.0 : s);",
        f"  for (i = 0; i < {k}; ++i) out[i] = rows[{k} * low + i] * (1.0 - s) + rows[{k} * high + i] * s;",
        "}",
        "",
    ]


# ---- self-test ----------------------------------------------------------------------------------------------------


def vectors(
    exported: Exported, r: Routine, rng: np.random.Generator
) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Arguments near the start configuration, and the results of CasADi's own virtual machine."""
    m, start = exported.mechanism, exported.start
    domain = next((d for d in exported.domains if r in d.routines), exported.domains[0])
    out = []
    for _ in range(VECTORS):
        q = start.positions + 0.05 * rng.standard_normal(len(m.q_names))
        v = start.velocities + 0.2 * rng.standard_normal(len(m.v_names))
        t, z = rng.uniform(0, 0.1), np.zeros(domain.mode.layout.n_z)
        x, p = domain.entered(t, q, v, z)
        anchors = p[domain.mode.layout.slice("anchors")]
        known = {
            "t": np.array([t]),
            "q": q,
            "v": v,
            "z": z,
            "x": x,
            "p": p,
            "params": exported.params,
            "anchors": anchors,
        }
        arguments = [known[n] for n, _ in r.inputs]
        results = r.function.call([np.asarray(a) for a in arguments])
        out.append((arguments, [np.asarray(y.full()).ravel() for y in results]))
    return out


def self_test(exported: Exported) -> str:
    """A program that compares every routine with numbers from Python."""
    rng, name = np.random.default_rng(1), exported.name
    data: list[str] = []
    calls: list[str] = []
    for r in exported.routines:
        for k, (arguments, results) in enumerate(vectors(exported, r, rng)):
            tag, passed = f"{r.name}_{k}", []
            for (n, _), values in zip(r.inputs, arguments, strict=True):
                if n == "t":
                    passed.append(literal(float(values[0]), C))
                else:
                    data.append(_array(f"{tag}_{n}", values))
                    passed.append(f"{tag}_{n}")
            at = 0
            for (n, _), values in zip(r.outputs, results, strict=True):
                data.append(_array(f"{tag}_expect_{n}", values))
                passed.append(f"out + {at}")
                at += len(values)
            calls.append(f"  {name}_{r.name}({', '.join(passed)});")
            at = 0
            for (n, _), values in zip(r.outputs, results, strict=True):
                calls.append(f'  failed += check("{r.name} {n}", out + {at}, {tag}_expect_{n}, {len(values)});')
                at += len(values)
    largest = max(sum(a * b for _, (a, b) in r.outputs) for r in exported.routines)
    return (
        SELF_TEST.replace("NAME", name)
        .replace("SIZE", str(max(1, largest)))
        .replace("DATA", "\n".join(data))
        .replace("CALLS", "\n".join(calls))
    )


def _array(name: str, values: np.ndarray) -> str:
    return f"static const double {name}[] = {{{', '.join(literal(float(x), C) for x in values) or '0.0'}}};"


# ---- example programs ---------------------------------------------------------------------------------------------


def _start(exported: Exported) -> str:
    s = exported.start
    return "\n".join([_array("q", s.positions), _array("v", s.velocities)])


def _example(exported: Exported) -> str:
    return _filled(EXAMPLE, exported)


def _loop(exported: Exported) -> str:
    return _filled(LOOP, exported)


def _filled(text: str, exported: Exported) -> str:
    substeps = str(min(1000, max(1, math.ceil(1e-3 / exported.stable_step))))
    text = (
        text.replace("START", _start(exported))
        .replace("SUBSTEPS", substeps)
        .replace("FIRST", str(exported.index(exported.first)))
    )
    return text.replace("NAMES", exported.name.upper()).replace("NAME", exported.name)
