"""C export: a C99 library without allocation, its header, build files, a self-test and an example loop."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saltus.errors import BadValue
from saltus.files.code import C, Routine, identifier, literal, statements
from saltus.files.cstepper import stepper_header, stepper_source
from saltus.files.routines import Exported

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
    if x.ndim != 1 or len(x) < 2 or y.ndim != 2 or len(y) != len(x) or not (np.diff(x) > 0).all() or not (
            np.isfinite(x).all() and np.isfinite(y).all()):
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
        f"#ifndef {upper}_H", f"#define {upper}_H", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        f"#define {upper}_NQ {len(m.q_names)} /* positions */", f"#define {upper}_NV {len(m.v_names)} /* velocities */",
        f"#define {upper}_NU {len(m.inputs)} /* inputs */", f"#define {upper}_NPARAMS {len(m.params)} /* Params */", "",
    ]
    for title, prefix, names in (("Positions", "Q", m.q_names), ("Velocities", "V", m.v_names), ("Inputs", "U", list(m.inputs)),
                                 ("Params", "P", list(m.params)), ("Domains", "D", list(exported.system.domains))):
        if names:
            listed = ", ".join(f"{upper}_{prefix}_{i} = {i} /* {comment(n)} */" for i, n in enumerate(names))
            lines += [f"/* {title} by number. */", f"enum {{ {listed} }};"]
    lines += ["", "/* Values of the Params at export. */", f"extern const double {name}_params[{max(1, len(m.params))}];", ""]
    for r in exported.routines:
        lines += [f"/* {comment(r.doc)} {_sizes(r)} */", _prototype(name, r) + ";", ""]
    for table, (x, y) in tables.items():
        lines += [f"/* Table {table} between {x[0]:.6g} and {x[-1]:.6g}, linear, ends held: out[{y.shape[1]}]. */",
                  f"void {name}_table_{table}(double x, double *out);", ""]
    lines += [stepper_header(exported), "#ifdef __cplusplus", "}", "#endif", "#endif"]
    return "\n".join(lines) + "\n"


def source(exported: Exported, tables: Mapping[str, Any]) -> str:
    """The library."""
    name = exported.name
    lines = [f"/* {comment(exported.mechanism.name)}. Written by Saltus. */", f'#include "{name}.h"', "", "#include <math.h>",
             "#include <string.h>", ""]
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
    for at in range(0, count, 16):
        lines.append("  double " + ", ".join(f"a{i}" for i in range(at, min(at + 16, count))) + ";")
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
        f"  int low = 0, high = {n - 1}, i;", "  double s;",
        "  while (high - low > 1) {", "    const int middle = (low + high) / 2;",
        "    if (grid[middle] <= x) low = middle; else high = middle;", "  }",
        "  s = (x - grid[low]) / (grid[high] - grid[low]);", "  s = s < 0.0 ? 0.0 : (s > 1.0 ? 1.0 : s);",
        f"  for (i = 0; i < {k}; ++i) out[i] = rows[{k} * low + i] * (1.0 - s) + rows[{k} * high + i] * s;", "}", "",
    ]


# ---- self-test ----------------------------------------------------------------------------------------------------


def vectors(exported: Exported, r: Routine, rng: np.random.Generator) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Arguments near the start configuration, and the results of CasADi's own virtual machine."""
    m, start = exported.mechanism, exported.start
    domain = next((d for d in exported.domains if r in d.routines), exported.domains[0])
    out = []
    for _ in range(VECTORS):
        q = start.positions + 0.05 * rng.standard_normal(len(m.q_names))
        v = start.velocities + 0.2 * rng.standard_normal(len(m.v_names))
        t, z = rng.uniform(0, 0.1), np.zeros(domain.program.layout.n_z)
        x, p = (np.asarray(a).ravel() for a in domain.entry.function(t, q, v, z, exported.params))
        anchors = p[domain.program.layout.slice("anchors")]
        known = {"t": np.array([t]), "q": q, "v": v, "z": z, "x": x, "p": p, "params": exported.params, "anchors": anchors}
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
    return SELF_TEST.replace("NAME", name).replace("SIZE", str(max(1, largest))).replace("DATA", "\n".join(data)).replace(
        "CALLS", "\n".join(calls))


def _array(name: str, values: np.ndarray) -> str:
    return f"static const double {name}[] = {{{', '.join(literal(float(x), C) for x in values) or '0.0'}}};"


SELF_TEST = """/* Compares every function with numbers from Python; ends with 0 if all agree to 1e-13. */
#include <math.h>
#include <stdio.h>

#include "NAME.h"

DATA

static double worst = 0.0;

static int check(const char *what, const double *got, const double *expected, int n) {
  double scale = 1.0, error = 0.0;
  int i;
  for (i = 0; i < n; ++i) if (fabs(expected[i]) > scale) scale = fabs(expected[i]);
  for (i = 0; i < n; ++i) {
    const double e = fabs(got[i] - expected[i]) / scale;
    if (!(e <= error)) error = e;
  }
  if (error > worst) worst = error;
  if (error <= 1e-13) return 0;
  printf("%s differs by %g\\n", what, error);
  return 1;
}

int main(void) {
  static double out[SIZE];
  int failed = 0;
CALLS
  printf("%s, largest difference %.3g\\n", failed ? "FAILED" : "all functions agree", worst);
  return failed != 0;
}
"""

# ---- example programs and build files -----------------------------------------------------------------------------


def _start(exported: Exported) -> str:
    s = exported.start
    return "\n".join([_array("q", s.positions), _array("v", s.velocities)])


def _example(exported: Exported) -> str:
    return _filled(EXAMPLE, exported)


def _loop(exported: Exported) -> str:
    return _filled(LOOP, exported)


def _filled(text: str, exported: Exported) -> str:
    substeps = str(min(1000, max(1, math.ceil(1e-3 / exported.stable_step))))
    text = text.replace("START", _start(exported)).replace("SUBSTEPS", substeps).replace("FIRST", str(exported.index(exported.first)))
    return text.replace("NAMES", exported.name.upper()).replace("NAME", exported.name)


EXAMPLE = """/* One second of motion, SUBSTEPS step(s) a millisecond. */
#include <stdio.h>

#include "NAME.h"

START

int main(void) {
  static NAME_state s;
  static double u[NAMES_NU + 1];
  int k, i, events;
  NAME_start(&s, FIRST, 0.0, q, v, NAME_params);
  for (k = 0; k < 1000 && !s.ended; ++k) {
    for (i = 0, events = 0; i < SUBSTEPS && events >= 0; ++i) {
      const int more = NAME_step(&s, 1e-3 / SUBSTEPS, u);
      events = more < 0 ? more : events + more;
    }
    if (events < 0) {
      printf("t = %.3f s: stopped with code %d\\n", s.t, events);
      return 1;
    }
    if (events > 0 || k % 100 == 99) {
      printf("t = %.4f s, domain %d, q =", s.t, s.domain);
      for (i = 0; i < NAMES_NQ; ++i) printf(" %.5f", s.x[i]);
      printf("\\n");
    }
  }
  return 0;
}
"""

LOOP = """/* A loop at 1 kHz: sleeps to the next millisecond, steps SUBSTEPS time(s), and prints how long the steps took. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "NAME.h"

START

static double seconds(const struct timespec *a, const struct timespec *b) {
  return (double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec);
}

int main(int argc, char **argv) {
  static NAME_state s;
  static double u[NAMES_NU + 1];
  static long histogram[12];
  const long cycles = argc > 1 ? atol(argv[1]) : 2000;
  struct timespec next, before, after;
  double longest = 0.0, total = 0.0, late = 0.0;
  long k;
  int i;
  NAME_start(&s, FIRST, 0.0, q, v, NAME_params);
  clock_gettime(CLOCK_MONOTONIC, &next);
  for (k = 0; k < cycles; ++k) {
    double took;
    next.tv_nsec += 1000000;
    if (next.tv_nsec >= 1000000000) {
      next.tv_nsec -= 1000000000;
      next.tv_sec += 1;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (i = 0; i < SUBSTEPS; ++i) {
      if (s.ended || NAME_step(&s, 1e-3 / SUBSTEPS, u) < 0) NAME_start(&s, FIRST, 0.0, q, v, NAME_params);
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    took = seconds(&before, &after);
    if (seconds(&next, &before) > late) late = seconds(&next, &before);
    total += took;
    if (took > longest) longest = took;
    for (i = 0; i < 11 && took > 1e-6 * (double)(1L << i); ++i) {
    }
    histogram[i] += 1;
  }
  printf("%ld cycles: mean %.2f us, longest %.2f us, latest wake-up %.2f us\\n", cycles, 1e6 * total / (double)cycles,
         1e6 * longest, 1e6 * late);
  for (i = 0; i < 12; ++i) {
    if (histogram[i]) printf("  up to %5ld us: %ld\\n", i < 11 ? 1L << i : -1L, histogram[i]);
  }
  return 0;
}
"""

MAKEFILE = """CFLAGS ?= -O2
CFLAGS += -std=c99 -Wall -Wextra -Werror

all: libNAME.a selftest example loop_1khz

libNAME.a: NAME.o
\tar rcs $@ $^

NAME.o: NAME.c NAME.h
\t$(CC) $(CFLAGS) -fPIC -c -o $@ $<

selftest example loop_1khz: %: %.c libNAME.a NAME.h
\t$(CC) $(CFLAGS) -o $@ $< libNAME.a -lm

test: selftest
\t./selftest

clean:
\trm -f *.o *.a selftest example loop_1khz

.PHONY: all test clean
"""

CMAKE = """cmake_minimum_required(VERSION 3.10)
project(NAME C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_library(NAME NAME.c)
set_target_properties(NAME PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(NAME PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(NAME PUBLIC m)
foreach(program selftest example loop_1khz)
  add_executable(${program} ${program}.c)
  target_link_libraries(${program} NAME)
endforeach()
enable_testing()
add_test(NAME selftest COMMAND selftest)
"""
