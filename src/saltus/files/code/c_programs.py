"""Programs and build files that go with an exported C library; NAME and the like are filled in."""

from __future__ import annotations

BUILD = "cc -O2 example.c NAME.c -lm -o example && ./example"

SELF_TEST = """/* Compares every function with numbers from Python; ends with 0 if all agree to 1e-13 (float: 1e-4). */
#include <math.h>
#include <stdio.h>

#include "NAME.h"

#ifdef NAMES_FLOAT
#define BOUND 1e-4
#else
#define BOUND 1e-13
#endif
typedef NAME_real real;

DATA

static double worst = 0.0;

static int check(const char *what, const real *got, const real *expected, int n) {
  double scale = 1.0, error = 0.0;
  int i;
  for (i = 0; i < n; ++i) if (fabs(expected[i]) > scale) scale = fabs(expected[i]);
  for (i = 0; i < n; ++i) {
    const double e = fabs(got[i] - expected[i]) / scale;
    if (!(e <= error)) error = e;
  }
  if (error > worst) worst = error;
  if (error <= BOUND) return 0;
  printf("%s differs by %g\\n", what, error);
  return 1;
}

int main(void) {
  static real out[SIZE];
  int failed = 0;
CALLS
  printf("%s, largest difference %.3g\\n", failed ? "FAILED" : "all functions agree", worst);
  return failed != 0;
}
"""

EXAMPLE = """/* One second of motion, SUBSTEPS step(s) a millisecond. */
#include <stdio.h>

#include "NAME.h"

typedef NAME_real real;
START

int main(void) {
  static NAME_state s;
  static real u[NAMES_NU + 1];
  int k, i, events;
  if (NAME_start(&s, FIRST, 0.0, q, v, NAME_params)) return 2;
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
      for (i = 0; i < NAMES_NQ; ++i) printf(" %.5f", (double)s.x[i]);
      printf("\\n");
    }
  }
  return 0;
}
"""

LOOP = """/* A loop at 1 kHz: sleeps to the next millisecond, steps SUBSTEPS time(s), prints how long that took. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "NAME.h"

typedef NAME_real real;
START

static double seconds(const struct timespec *a, const struct timespec *b) {
  return (double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec);
}

int main(int argc, char **argv) {
  static NAME_state s;
  static real u[NAMES_NU + 1];
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
STRICT = -std=c99 -Wall -Wextra

all: libNAME.a selftest example loop_1khz

libNAME.a: NAME.o
\tar rcs $@ $^

NAME.o: NAME.c NAME.h
\t$(CC) $(STRICT) $(CFLAGS) -fPIC -c -o $@ $<

selftest example loop_1khz: %: %.c libNAME.a NAME.h
\t$(CC) $(STRICT) $(CFLAGS) -o $@ $< libNAME.a -lm

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
add_test(selftest selftest)
"""

README = """# NAME

Written by Saltus: `NAME.h` and `NAME.c`, C99 without allocation, in need of nothing but libm. Build and run one second
of motion:

    @BUILD@

Compare every function with numbers from Python:

    cc -O2 selftest.c NAME.c -lm -o selftest && ./selftest

`-DNAMES_FLOAT` computes in float, in the library and in what includes its header; time stays double. `loop_1khz.c` is
a loop with a histogram of its timing. `make test`, or CMake, build the same. `NAME_hash()` is the hash of the library
that was linked, `NAMES_HASH` that of the header.
"""

ASSEMBLE_HEADER = """\
/* Close the loops by Newton's method, in place: positions hold that are marked in held[UPPER_NQ], with NULL the
   independent ones. Velocities become those that the loops allow. 0: closed, to 1e-10 m (float: 1e-5 m), 1: not. */
int NAME_assemble(double t, NAME_real *q, NAME_real *v, const NAME_real *params, const unsigned char *held);"""

ASSEMBLE = """int NAME_assemble(double t, real *q, real *v, const real *params, const unsigned char *held) {
  static const int moved[][2] = {@MOVED@}; /* velocities of every position: the first, and how many */
  static const int independent[] = {@FIXED@};
  const real closed = sizeof(real) < 8 ? 1e-5 : 1e-10;
  real share[UPPER_NV], on_q[UPPER_NQ], on_v[UPPER_NV], gap = 0;
  int i, k, any = 0;
  for (i = 0; held && i < UPPER_NQ; ++i) any |= held[i];
  for (i = 0; i < UPPER_NV; ++i) share[i] = !independent[i] ? 1.0 : any ? 1e-3 : 0.0;
  for (i = 0; any && i < UPPER_NQ; ++i)
    for (k = 0; held[i] && k < moved[i][1]; ++k) share[moved[i][0] + k] = 0;
  for (k = 0; k < 100; ++k) {
    NAME_close((real)t, q, v, params, share, on_q, on_v, &gap);
    if (gap <= closed / 100) break;
    for (i = 0; i < UPPER_NQ; ++i) if (!isfinite(on_q[i])) return 1;
    memcpy(q, on_q, sizeof on_q);
  }
  if (!(gap <= closed)) return 1;
  for (i = 0; i < UPPER_NV; ++i) if (!isfinite(on_v[i])) return 0;
  memcpy(v, on_v, sizeof on_v);
  return 0;
}
"""
