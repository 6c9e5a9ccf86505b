"""Tables of laws in C: rows of numbers by domain and stay, put into the run-time parameters as time passes."""

from __future__ import annotations

from saltus.compile.statements import C, literal
from saltus.files.code.routines import Machine
from saltus.hybrid.laws import Table


def schedule_source(exported: Machine) -> str:
    """Data of all tables, and the function that loads the row in use."""
    domains = exported.domains
    if not any(d.tables for d in domains):
        return NO_TABLES.replace("NAME", exported.name)
    tables = [table for d in domains for table in d.tables]
    before = [sum(len(d.tables) for d in domains[:i]) for i in range(len(domains))]
    places = ("row", "entry_t", "entry_q")
    return (
        SCHEDULE.replace("NAME", exported.name)
        .replace("@DATA@", "\n".join(_data(i, table) for i, table in enumerate(tables)))
        .replace("@TABLES@", _listed([_entry(i, table) for i, table in enumerate(tables)]))
        .replace("@FIRST@", _listed([k if d.tables else -1 for k, d in zip(before, domains, strict=True)]))
        .replace("@LAST@", _listed([max(0, len(d.tables) - 1) for d in domains]))
        .replace("@PLACES@", _listed([_listed([d.slice(n).start for n in places]) for d in domains]))
    )


def _listed(values: list) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _numbers(values: list[float]) -> str:
    return _listed([literal(float(x), C) for x in values] or ["0.0"])


def _data(i: int, table: Table) -> str:
    moves = [f"{{{s.place}, {s.coordinate}, {literal(s.value, C)}, {literal(s.period, C)}}}" for s in table.shifts]
    rows = ",\n  ".join(_numbers(list(row))[1:-1] for row in table.rows)
    return (
        f"static const double knots_{i}[] = {_numbers(list(table.knots))};\n"
        f"static const real rows_{i}[] = {{\n  {rows}}};\n"
        f"static const shift shifts_{i}[] = {_listed(moves or ['{0, 0, 0.0, 0.0}'])};"
    )


def _entry(i: int, table: Table) -> str:
    count, width = table.rows.shape
    return f"{{{count}, {width}, {int(table.of_run)}, {len(table.shifts)}, knots_{i}, rows_{i}, shifts_{i}}}"


NO_TABLES = """/* The controller has no tables: one set of numbers for all time. */
static double load_row(NAME_state *s) {
  (void)s;
  return INFINITY;
}

static void stayed(NAME_state *s) {
  (void)s;
}
"""

SCHEDULE = """/* ---- tables of the controller ---- */

typedef struct {
  int place, coordinate;
  real value, period;
} shift;

typedef struct {
  int count, width, of_run, shifts;
  const double *knots;
  const real *rows;
  const shift *shift;
} table;

@DATA@
static const table tables[] = @TABLES@;
static const int first_table[] = @FIRST@, last_stay[] = @LAST@;
static const int places[][3] = @PLACES@; /* in p: row, time and positions at entry */

/* Put the row in use now into p; return for how long it holds (s). */
static double load_row(NAME_state *s) {
  const int d = s->domain, stay = s->stays[d] < last_stay[d] ? s->stays[d] : last_stay[d];
  const table *w = tables + first_table[d] + stay;
  int low = 0, high, i;
  real *row = s->p + places[d][0];
  double begin;
  if (first_table[d] < 0) return INFINITY;
  begin = w->of_run ? 0.0 : s->p[places[d][1]];
  for (high = w->count; high - low > 1;) {
    const int middle = (low + high) / 2;
    if (begin + w->knots[middle] <= s->t + 1e-12) low = middle; else high = middle;
  }
  memcpy(row, w->rows + w->width * low, (size_t)w->width * sizeof *row);
  for (i = 0; i < w->shifts; ++i) {
    const shift *m = w->shift + i;
    const real ahead = s->p[places[d][2] + m->coordinate] - m->value;
    row[m->place] += m->period > 0 ? m->period * floor(ahead / m->period + (real)0.5) : ahead;
  }
  return low + 1 < w->count ? begin + w->knots[low + 1] - s->t : INFINITY;
}

/* Count a stay that ends, if time passed in it. */
static void stayed(NAME_state *s) {
  s->stays[s->domain] += (real)s->t > s->p[places[s->domain][1]];
}
"""
