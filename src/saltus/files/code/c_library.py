"""C export: a C99 library without allocation, its header, build files, a self-test and an example loop."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saltus.compile.statements import C, Routine, declared, identifier, labels, literal, statements, unused
from saltus.errors import BadValue
from saltus.files.code import c_stepper, c_touching
from saltus.files.code.c_programs import (
    ASSEMBLE,
    ASSEMBLE_HEADER,
    BUILD,
    CMAKE,
    EXAMPLE,
    LOOP,
    MAKEFILE,
    README,
    SELF_TEST,
)
from saltus.files.code.routines import Machine
from saltus.files.code.touching import Touching

Table = tuple[Sequence[float], Any]  # grid, and one row of values a grid point
VECTORS = 4  # sets of arguments a routine is tested with


def export_c(exported: Machine, directory: Path, *, tables: Mapping[str, Table] | None = None) -> list[Path]:
    """Write the library; `tables` are looked up and interpolated linearly, {name: (grid, rows)}."""
    directory.mkdir(parents=True, exist_ok=True)
    checked = {identifier(n): _table(n, *table) for n, table in (tables or {}).items()}
    texts = library(exported, checked) | {"selftest.c": self_test(exported)}
    for file, text in (
        ("example.c", EXAMPLE),
        ("loop_1khz.c", LOOP),
        ("Makefile", MAKEFILE),
        ("CMakeLists.txt", CMAKE),
        ("README.md", README),
    ):
        texts[file] = _filled(text, exported)
    for file, text in texts.items():
        (directory / file).write_text(text, encoding="ascii", errors="replace")
    return [directory / file for file in texts]


def library(exported: Machine, tables: Mapping[str, Any]) -> dict[str, str]:
    """Header and source, with a hash of all that they say: two builds with the same one do the same."""
    texts = {f"{exported.name}.h": header(exported, tables), f"{exported.name}.c": source(exported, tables)}
    digest = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:32]
    return {file: text.replace("@HASH@", digest) for file, text in texts.items()}


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


def kit(exported: Machine) -> Any:
    """What writes the stepper."""
    return c_touching if isinstance(exported, Touching) else c_stepper


# ---- header and source --------------------------------------------------------------------------------------------


def _prototype(name: str, r: Routine) -> str:
    real = f"{name}_real"
    arguments = [f"{real} t" if n == "t" else f"const {real} *{n}" for n, _ in r.inputs]
    arguments += [f"{real} *{n}" for n, _ in r.outputs]
    return f"void {name}_{r.name}({', '.join(arguments)})"


def _sizes(r: Routine) -> str:
    parts = [f"{n}[{size}]" for n, size in r.inputs if n != "t"]
    parts += [f"{n}[{a} x {b}]" if b != 1 else f"{n}[{a}]" for n, (a, b) in r.outputs]
    return ", ".join(parts)


def _numbers(exported: Machine) -> list[str]:
    """Everything that has a name, by number."""
    m, upper, lines = exported.mechanism, exported.name.upper(), []
    for title, prefix, names, spelled in (
        ("Positions", "Q", m.q_names, None),
        ("Velocities", "V", m.v_names, None),
        ("Inputs", "U", list(m.inputs), None),
        ("Params", "P", list(m.params), None),
        ("Memories", "Z", list(m.memories), None),
        ("Points, rows of what NAME_points gives".replace("NAME", exported.name), "POINT", list(m.points), None),
        ("Domains", "D", list(exported.system.domains), None),
        ("Contacts", "C", exported.contacts, None),
        ("Events", "E", exported.events, exported.events),
    ):
        if names:
            own = enumerate(zip(spelled or labels(names, "no"), names, strict=True))
            listed = ",\n  ".join(f"{upper}_{prefix}_{n.upper()} = {i} /* {comment(x)} */" for i, (n, x) in own)
            lines += [f"/* {title}. */", f"enum {{\n  {listed}\n}};"]
    return lines


def header(exported: Machine, tables: Mapping[str, Any]) -> str:
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
        *kit(exported).real(exported),
        "",
        f"#define {upper}_NQ {len(m.q_names)} /* positions */",
        f"#define {upper}_NV {len(m.v_names)} /* velocities */",
        f"#define {upper}_NU {len(m.inputs)} /* inputs */",
        f"#define {upper}_NPARAMS {len(m.params)} /* Params */",
        "",
        "/* Hash of all equations, names and numbers; the function tells that of the library that was linked. */",
        f'#define {upper}_HASH "@HASH@"',
        f"const char *{name}_hash(void);",
        "",
        *_numbers(exported),
        "",
        "/* Values of the Params at export. */",
        f"extern const {name}_real {name}_params[{max(1, len(m.params))}];",
        "",
    ]
    for r in exported.routines:
        lines += [f"/* {comment(r.doc)} {_sizes(r)} */", _prototype(name, r) + ";", ""]
    if exported.loops.rows:
        lines += [ASSEMBLE_HEADER.replace("NAME", name).replace("UPPER", upper), ""]
    for table, (x, y) in tables.items():
        lines += [
            f"/* Table {table} between {x[0]:.6g} and {x[-1]:.6g}, linear, ends held: out[{y.shape[1]}]. */",
            f"void {name}_table_{table}({name}_real x, {name}_real *out);",
            "",
        ]
    lines += [kit(exported).stepper_header(exported), "#ifdef __cplusplus", "}", "#endif", "#endif"]
    return "\n".join(lines) + "\n"


def source(exported: Machine, tables: Mapping[str, Any]) -> str:
    """The library."""
    name = exported.name
    lines = [
        f"/* {comment(exported.mechanism.name)}. Written by Saltus. */",
        f'#include "{name}.h"',
        "",
        "#include <string.h>",
        "#include <tgmath.h>",
        "",
        f"typedef {name}_real real;",
        "",
        f'const char *{name}_hash(void) {{ return "@HASH@"; }}',
        "",
    ]
    params = ", ".join(literal(x, C) for x in exported.params) or "0.0"
    lines += [f"const real {name}_params[] = {{{params}}};", ""]
    for r in exported.routines:
        lines += _function(name, r)
    if exported.loops.rows:
        lines += [_assemble(exported)]
    for table, (x, y) in tables.items():
        lines += _table_function(f"{name}_table_{table}", f"{name}_real", x, y)
    return "\n".join(lines) + "\n" + kit(exported).stepper_source(exported)


def _function(name: str, r: Routine) -> list[str]:
    body, count, used = statements(r.function, C)
    lines = [_prototype(name, r) + " {"]
    return [*lines, *declared(count, "real"), *unused(r, used), *(f"  {line}" for line in body), "}", ""]


def _assemble(exported: Machine) -> str:
    moved = [(own[0], len(own)) for own in exported.moved_by]
    fixed = [int(i in exported.loops.independent) for i in range(len(exported.mechanism.v_names))]
    return (
        ASSEMBLE.replace("NAME", exported.name)
        .replace("UPPER", exported.name.upper())
        .replace("@MOVED@", ", ".join(f"{{{at}, {count}}}" for at, count in moved))
        .replace("@FIXED@", ", ".join(map(str, fixed)))
    )


def _table_function(name: str, real: str, x: np.ndarray, y: np.ndarray) -> list[str]:
    rows = ",\n    ".join(", ".join(literal(v, C) for v in row) for row in y)
    n, k = y.shape
    return [
        f"void {name}({real} x, {real} *out) {{",
        f"  static const real grid[] = {{{', '.join(literal(v, C) for v in x)}}};",
        f"  static const real rows[] = {{\n    {rows}}};",
        f"  int low = 0, high = {n - 1}, i;",
        "  real s;",
        "  while (high - low > 1) {",
        "    const int middle = (low + high) / 2;",
        "    if (grid[middle] <= x) low = middle; else high = middle;",
        "  }",
        "  s = (x - grid[low]) / (grid[high] - grid[low]);",
        "  s = s < 0 ? 0 : (s > 1 ? 1 : s);",
        f"  for (i = 0; i < {k}; ++i) out[i] = rows[{k} * low + i] * (1 - s) + rows[{k} * high + i] * s;",
        "}",
        "",
    ]


# ---- self-test ----------------------------------------------------------------------------------------------------


def vectors(exported: Machine, r: Routine, rng: np.random.Generator) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Arguments near the start configuration, and the results of CasADi's own virtual machine."""
    out = []
    for _ in range(VECTORS):
        known = exported.sample(r, rng)
        arguments = [known[n] for n, _ in r.inputs]
        results = r.function.call([np.asarray(a) for a in arguments])
        out.append((arguments, [np.asarray(y.full()).ravel() for y in results]))
    return out


def self_test(exported: Machine) -> str:
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
        SELF_TEST.replace("NAMES", name.upper())
        .replace("NAME", name)
        .replace("SIZE", str(max(1, largest)))
        .replace("DATA", "\n".join(data))
        .replace("CALLS", "\n".join(calls))
    )


def _array(name: str, values: np.ndarray) -> str:
    return f"static const real {name}[] = {{{', '.join(literal(float(x), C) for x in values) or '0.0'}}};"


# ---- example programs ---------------------------------------------------------------------------------------------


def _filled(text: str, exported: Machine) -> str:
    s = exported.start
    substeps = str(min(1000, max(1, math.ceil(1e-3 / exported.stable_step))))
    text = (
        text.replace("START", "\n".join([_array("q", s.positions), _array("v", s.velocities)]))
        .replace("SUBSTEPS", substeps)
        .replace("FIRST", f"NAMES_D_{exported.labels[exported.index(exported.first)].upper()}")
        .replace("@BUILD@", BUILD)
    )
    return text.replace("NAMES", exported.name.upper()).replace("NAME", exported.name)


def build_line(name: str) -> str:
    """What builds and runs the example, in its directory."""
    return BUILD.replace("NAME", name)
