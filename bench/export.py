"""Exported C of BOLT: a million SPF evaluations and stepper steps one by one, against Pinocchio in the same run."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import saltus as sl
from bench import Row, field_pinocchio, peers, same
from saltus.files.code.routines import Exported

TITLE = "Exported C of BOLT: every call timed"
CALLS, PEER_CALLS = 1_000_000, 200_000

PROGRAM = """#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "bolt.h"
static const double q[] = {Q}, v[] = {V};
static float took[CALLS];
static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static void report(void) {
  double sum = 0.0;
  long k;
  for (k = 0; k < CALLS; ++k) sum += took[k];
  qsort(took, CALLS, sizeof *took, ascending);
  printf("%.9g %.9g %.9g\\n", sum / CALLS, (double)took[CALLS / 1000 * 999], (double)took[CALLS - 1]);
}
int main(void) {
  static bolt_state s;
  double dx[16], u[2] = {0.0, 0.0}, before, after, steps = 0.0;
  long k;
  for (k = 0; k < CALLS; ++k) {
    before = now();
    after = now();
    took[k] = (float)(after - before);
  }
  report();
  bolt_start(&s, 0, 0.0, q, v, bolt_params);
  for (k = 0; k < CALLS; ++k) {
    before = now();
    bolt_rhs_flight(s.t, s.x, s.p, dx);
    after = now();
    took[k] = (float)(after - before);
    s.x[0] += 1e-9 * dx[0];
  }
  report();
  bolt_start(&s, 0, 0.0, q, v, bolt_params);
  for (k = 0; k < CALLS; ++k) {
    int events;
    before = now();
    events = bolt_step(&s, 1e-4, u);
    after = now();
    took[k] = (float)(after - before);
    steps += events > 0;
    if (events < 0 || s.ended) bolt_start(&s, 0, 0.0, q, v, bolt_params);
  }
  report();
  printf("%g\\n", steps);
  return 0;
}
"""


def _numbers(values: np.ndarray) -> str:
    return "{" + ", ".join(repr(float(x)) for x in values) + "}"


def run() -> list[Row]:
    """Measure."""
    bolt = sl.zoo.bolt()
    m = bolt.mechanism
    start, law = m.keyframe("drop"), bolt.controls["run"]
    out: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        sl.export(bolt, folder, start=start, control=law)
        text = PROGRAM.replace("{Q}", _numbers(start.positions)).replace("{V}", _numbers(start.velocities))
        (Path(folder) / "bench.c").write_text(text.replace("CALLS", str(CALLS)))
        flags = ["-O2", "-std=c99", "-Wall", "-Wextra"]
        subprocess.run(["cc", *flags, "-fstack-usage", "-c", "bolt.c"], cwd=folder, check=True)
        subprocess.run(["cc", *flags, "-o", "bench", "bench.c", "bolt.o", "-lm"], cwd=folder, check=True)
        done = subprocess.run(["./bench"], cwd=folder, capture_output=True, text=True, check=True).stdout.split()
        stack = {
            line.split("\t")[0].rsplit(":", 1)[-1]: int(line.split("\t")[1])
            for line in (Path(folder) / "bolt.su").read_text().splitlines()
        }
        size = subprocess.run(["size", "bolt.o"], cwd=folder, capture_output=True, text=True, check=True)
    clock, rhs, step = (np.array(done[3 * i : 3 * i + 3], float) * 1e-3 for i in range(3))
    for what, t in (("right-hand side (flight)", rhs), ("step of 0.1 ms with guards and resets", step)):
        words = f"mean {t[0]:.3f}, 99.9 % {t[1]:.3f}, longest {t[2]:.1f} us"
        out.append(Row(f"{what}, {CALLS:,} calls in C", f"{words} (clock alone {clock[0]:.3f})"))
    out.append(Row("events within those steps", done[9]))
    deepest = stack["bolt_step"] + stack.get("leave", 0) + stack.get("advance", 0) + max(stack.values())
    out.append(Row("stack of a step, largest call chain", f"<= {deepest} bytes"))
    out.append(Row("code and tables of the library", f"{size.stdout.splitlines()[1].split()[0]} bytes"))
    if peers.installed("pinocchio"):
        out += _pinocchio(bolt, start, float(rhs[0] - clock[0]))
    return out


def _pinocchio(bolt: sl.HybridSystem, start: sl.State, ours: float) -> list[Row]:
    """`constraintDynamics` from Python, every call timed; what a call that computes nothing costs is taken off."""
    pin, q, v = field_pinocchio.Leg(False), start.positions, start.velocities
    code = Exported(bolt, start, control=lambda t, s: {}).domains[0]
    x, p = code.entry.function(0.0, q, v, [], bolt.mechanism.values(start.params))
    a = np.asarray(code.routines[0].function(0.0, x, p)).ravel()[len(q) :]
    theirs = pin.acceleration(q, v)
    rows = [same("Pinocchio", a, theirs[list(code.mode.ode.independent)], 1e-6)]
    took = {}
    for name, call in (("call", pin.overhead), ("dynamics", pin.acceleration)):
        times = np.empty(PEER_CALLS)
        for k in range(PEER_CALLS):
            before = time.perf_counter_ns()
            call(q, v)
            times[k] = time.perf_counter_ns() - before
        took[name] = np.array([times.mean(), np.quantile(times, 0.999), times.max()]) * 1e-3
    t = took["dynamics"]
    rows.append(
        Row(
            f"Pinocchio's constraintDynamics from Python, {PEER_CALLS:,} calls",
            f"mean {t[0]:.3f}, 99.9 % {t[1]:.3f}, longest {t[2]:.1f} us",
        )
    )
    net = t[0] - took["call"][0]
    rows.append(Row("Pinocchio by exported C, mean, Python's call and the clock taken off", f"{net / ours:.3g}x"))
    return rows
