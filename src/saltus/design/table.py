"""Lookup table: driver to point and joint angles, as arrays, CSV and a C header that interpolates (sec. 2.2 of Liu
and Ben-Tzvi 2020), with its interpolation error measured and stated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saltus.design.kinematic_study import KinematicStudy
from saltus.errors import BadValue
from saltus.model.contents import unchanged
from saltus.model.geometry import trace

CHECKS = 7  # places between two entries at which the interpolation is compared with the linkage


@dataclass(frozen=True, eq=False)
class LookupTable:
    """Values and slopes at evenly spaced values of the driver; cubic Hermite interpolation between them.

    Columns are the coordinates of the point (m), then all other joint coordinates (rad or m). `errors` is the
    largest interpolation error of each column, measured at seven places in every interval.
    """

    name: str
    driver: str
    closed: bool
    columns: tuple[str, ...]
    units: tuple[str, ...]
    at: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    errors: np.ndarray

    @property
    def step(self) -> float:
        """Spacing of the driver (rad or m)."""
        return float(self.at[1] - self.at[0])

    def __call__(self, driver: float | np.ndarray) -> np.ndarray:
        """Interpolate: one row per value of the driver."""
        x = np.atleast_1d(np.asarray(driver, float))
        first, last = self.at[0], self.at[-1]
        if self.closed:
            x = first + (x - first) % (2 * np.pi)
        elif (x < first).any() or (x > last).any():
            raise BadValue(f"{self.driver} is outside the table, {first:.6g} to {last:.6g}", given=driver)
        i = np.minimum(((x - first) / self.step).astype(int), len(self.at) - 2)
        s = ((x - self.at[i]) / self.step)[:, None]
        a, b = self.values[i], self.values[i + 1]
        da, db = self.step * self.slopes[i], self.step * self.slopes[i + 1]
        out = a + s * (da + s * (3 * (b - a) - 2 * da - db + s * (2 * (a - b) + da + db)))
        return out if np.ndim(driver) else out[0]

    def csv(self, path: str | Path) -> Path:
        """Write driver and columns, one line an entry."""
        path = Path(path)
        head = ",".join([self.driver, *self.columns])
        np.savetxt(
            path, np.column_stack([self.at, self.values]), "%.17g", ",", header=head, comments="", encoding="utf-8"
        )
        return path

    def header(self, path: str | Path, prefix: str | None = None) -> Path:
        """Write a C99 header: tables and `void PREFIX(double driver, double out[])`, which interpolates."""
        path = Path(path)
        prefix = prefix or re.sub(r"\W+", "_", self.name.lower()).strip("_") + "_lookup"
        if not prefix.isidentifier():
            raise BadValue(f"prefix {prefix!r} is no C name; use letters, digits and _", given=prefix)
        n, k = len(self.at) - 1, len(self.columns)
        listed = [
            f"   out[{i}] {c} ({u}), error at most {e:.2g}"
            for i, (c, u, e) in enumerate(zip(self.columns, self.units, self.errors, strict=True))
        ]
        turn = " modulo a full turn" if self.closed else ""
        wrap = f"  x -= {2 * np.pi!r} * floor(x / {2 * np.pi!r});\n" if self.closed else ""
        rows = [
            ",\n".join("  {" + ", ".join(f"{x!r}" for x in row.tolist()) + "}" for row in array)
            for array in (self.values, self.step * self.slopes)
        ]
        path.write_text(
            f"""/* {self.name}: lookup table over {self.driver}{turn}, {n} intervals, cubic Hermite interpolation.
{chr(10).join(listed)}
   Errors are those of the interpolation, measured against the loop equations. Made by Saltus. */
#ifndef {prefix.upper()}_H
#define {prefix.upper()}_H
#include <math.h>

enum {{ {prefix.upper()}_COLUMNS = {k}, {prefix.upper()}_INTERVALS = {n} }};

static const double {prefix}_values[{n + 1}][{k}] = {{
{rows[0]}}};
static const double {prefix}_slopes[{n + 1}][{k}] = {{ /* times the spacing */
{rows[1]}}};

static inline void {prefix}(double driver, double out[{k}]) {{
  double x = driver - {float(self.at[0])!r};
{wrap}  double place = x * {1 / self.step!r};
  int i = (int)place;
  if (i < 0) i = 0;
  if (i > {n - 1}) i = {n - 1};
  const double s = place - i;
  for (int c = 0; c < {k}; ++c) {{
    const double a = {prefix}_values[i][c], b = {prefix}_values[i + 1][c];
    const double da = {prefix}_slopes[i][c], db = {prefix}_slopes[i + 1][c];
    out[c] = a + s * (da + s * (3 * (b - a) - 2 * da - db + s * (2 * (a - b) + da + db)));
  }}
}}
#endif
""",
            encoding="utf-8",
        )
        return path


@unchanged
def lookup_table(study: KinematicStudy, entries: int | None = None) -> LookupTable:
    """Table of a study's point and of all joint coordinates over its turn, with `entries` intervals."""
    import casadi as ca

    turn = study.turn
    m = turn.mechanism
    n = entries or turn.samples
    if n < 4:
        raise BadValue(f"entries is {n}; a table needs at least 4 intervals", given=n)
    first = float(turn.values[0])
    last = first + 2 * np.pi if turn.closed else float(turn.values[-1])
    fine = np.linspace(first, last, n * (CHECKS + 1) + 1)
    from dataclasses import replace

    q = replace(turn.start, positions=study.q[0]).follow(turn.driver, fine.tolist())
    others = [i for i in range(len(m.q_names)) if i != turn.index and i not in turn.held]
    points = trace(m, q, [study.point], params=turn.start.params)[:, 0]
    every = np.column_stack([points, q[:, others]])
    world = m.position(study.point)
    slope = ca.Function("slope", [turn.q, turn.p], [ca.vertcat(turn.along(world), turn.rate[others])])
    coarse = slice(None, None, CHECKS + 1)
    slopes = np.asarray(slope.map(n + 1)(q[coarse].T, ca.repmat(ca.DM(turn.start.p), 1, n + 1))).T
    axes = "xyz" if m.spatial else "xy"
    units = ["m"] * len(axes) + ["rad"] * len(others)
    table = LookupTable(
        f"{m.name} {study.point}",
        turn.driver,
        turn.closed,
        (*[f"{study.point}.{x}" for x in axes], *[m.q_names[i] for i in others]),
        tuple(units),
        fine[coarse],
        every[coarse],
        slopes,
        np.zeros(every.shape[1]),
    )
    inside = np.ones(len(fine), bool)
    inside[coarse] = False
    errors = np.abs(table(fine[inside]) - every[inside]).max(axis=0)
    return replace(table, errors=errors)
