"""The exported fixed-step hybrid stepper in C: Runge-Kutta of order four, guards located by bisection, resets."""

from __future__ import annotations

from collections.abc import Callable

from saltus.files.code.c_schedule import schedule_source
from saltus.files.code.routines import DomainCode, Exported
from saltus.hybrid.graph import Edge
from saltus.hybrid.transition import CROSSING, ON, WATCH


def stepper_header(exported: Exported) -> str:
    """State and functions of the stepper."""
    name, d = exported.name, exported.domains
    n_x, n_p, n_g = (max(1, *(getattr(x, a) for x in d)) for a in ("n_x", "n_p", "n_guards"))
    inputs = "inputs held over the step" if exported.takes_inputs else "ignored: the controller is built in"
    return f"""/* State of the stepper: x = (q, w, z) of the domain; positions are x[0] ... x[{name.upper()}_NQ - 1]. */
typedef struct {{
  double t;                     /* time (s) */
  int domain;                   /* number of the domain */
  int ended;                    /* 0, or 1 + number of the guard that ended the run */
  int last_event;               /* number of the guard that fired last, or -1 */
  double x[{n_x}];
  double p[{n_p}];
  unsigned char armed[{n_g}];
  unsigned char watched[{n_g}]; /* fires as soon as it is beyond its surface */
  int entered;                  /* 1 until the guards have been judged in a domain just entered */
  int stays[{len(d)}];          /* in each domain so far, for tables of the controller */
}} {name}_state;

/* Begin in a domain at (q, v). */
void {name}_start({name}_state *s, int domain, double t, const double *q, const double *v, const double *params);

/* Advance by h seconds through any events and knots of the controller's tables; u[{name.upper()}_NU] are {inputs}.
   Returns how many events there were, -1 if the chosen coordinates became singular or a slip ended, -2 for more than
   {name.upper()}_MAX_EVENTS events in one step, -3 if a number is not finite. As a domain is entered, a guard on its
   surface fires if it is being crossed; beyond it a liftoff fires at once, a touchdown unless the foot moves out of the
   ground, any other guard after it has come back. Steps above {name.upper()}_STABLE_STEP are likely to be unstable. */
int {name}_step({name}_state *s, double h, const double *u);

/* All velocities now. */
void {name}_velocity(const {name}_state *s, double *v);

/* What the controller asks of the inputs now. */
void {name}_command(const {name}_state *s, double *u);

#define {name.upper()}_MAX_EVENTS 8
#define {name.upper()}_STABLE_STEP {exported.stable_step!r} /* s, at the start configuration */
"""


def _switch(exported: Exported, call: Callable[[DomainCode], str | None]) -> str:
    cases = [(d.index, call(d)) for d in exported.domains]
    listed = "\n".join(f"    case {i}: {text} break;" for i, text in cases if text)
    return f"  switch (domain) {{\n{listed}\n    default: break;\n  }}" if listed else ""


def _kind(edge: Edge) -> int:
    """How a guard is judged at entry: 1 forbids a place, 2 a force, 3 only marks an instant, 0 is any other."""
    return 3 if edge.marks else ("", "place", "force").index(edge.guard.forbids)


def _unused(*names: str) -> str:
    return " ".join(f"(void){n};" for n in names)


def stepper_source(exported: Exported) -> str:
    """The stepper."""
    name, domains = exported.name, exported.domains
    m = exported.mechanism
    n_x, n_g = (max(1, *(getattr(x, a) for x in domains)) for a in ("n_x", "n_guards"))
    n_q, n_v = len(m.q_names), len(m.v_names)
    projected = [d for d in domains if d.mode.flow.project is not None]
    n_z = domains[0].mode.layout.n_z
    held = [d.mode.layout.slice("held").start for d in domains]

    def table(values: list[int]) -> str:
        return "{" + ", ".join(map(str, values)) + "}"

    directions = [list(map(int, d.mode.directions)) + [0] * (n_g - d.n_guards) for d in domains]
    edges = [len(d.edges) for d in domains]
    targets = [[e.target for e in d.edges] + [-1] * (n_g - len(d.edges)) for d in domains]
    kinds = [[_kind(e.edge) for e in d.edges] + [0] * (n_g - len(d.edges)) for d in domains]
    shifts = [d.mode.layout.slice("shift").start for d in domains]
    two = lambda rows: "{" + ", ".join(table(r) for r in rows) + "}"  # noqa: E731
    entering = _switch(exported, lambda d: f"{name}_enter_{d.label}(t, q, v, z, params, s->x, s->p);")
    resets = "\n".join(
        f"    case {n_g * d.index + e.guard}: {name}_{e.reset.name}(s->t, q, v, s->p, q_after, v_after); break;"
        for d in domains
        for e in d.edges
        if e.reset is not None
    )
    project = _switch(exported, lambda d: f"{name}_project_{d.label}(t, x, p, y);" if d in projected else None)
    parts = {
        "NX": str(n_x),
        "NG": str(n_g),
        "NQ": str(n_q),
        "NV": str(n_v),
        "NZ": str(max(1, n_z)),
        "Z_COUNT": str(n_z),
        "NU": str(len(m.inputs)),
        "SIZES": table([d.n_x for d in domains]),
        "GUARDS": table([d.n_guards for d in domains]),
        "EDGES": table(edges),
        "HELD": table(held),
        "DIRECTIONS": two(directions),
        "TARGETS": two(targets),
        "KINDS": two(kinds),
        "SHIFTS": table(shifts),
        "ON": repr(ON),
        "CROSSING": repr(CROSSING),
        "WATCH": repr(WATCH),
        "UPPER": name.upper(),
        "RHS": _switch(exported, lambda d: f"{name}_rhs_{d.label}(t, x, p, dx);"),
        "GUARD_CALLS": _switch(exported, lambda d: f"{name}_guards_{d.label}(t, x, p, g);" if d.n_guards else None),
        "RATE_CALLS": _switch(exported, lambda d: f"{name}_guard_rates_{d.label}(t, x, p, g);" if d.n_guards else None),
        "VELOCITIES": _switch(exported, lambda d: f"{name}_velocities_{d.label}(s->t, s->x, s->p, v);"),
        "COMMANDS": _switch(exported, lambda d: f"{name}_commands_{d.label}(s->t, s->x, s->p, u);"),
        "ENTER": entering,
        "RESETS": f"  switch (NG * s->domain + guard) {{\n{resets}\n    default: break;\n  }}" if resets else "",
        "PROJECT": f"  double y[NX];\n  memcpy(y, x, sizeof y);\n{project}\n  memcpy(x, y, sizeof y);"
        if project
        else "  " + _unused("domain", "t", "x", "p"),
        "TAKES": "1" if exported.takes_inputs else "0",
        "SCHEDULE": schedule_source(exported),
    }
    text = STEPPER.replace("NAME", name)
    for key in ("PROJECT", "RESETS"):  # they contain keys of their own
        text = text.replace(f"@{key}@", parts.pop(key))
    for key, value in parts.items():
        text = text.replace(f"@{key}@", value)
    return text


STEPPER = """/* ---- the stepper ---- */

enum { NX = @NX@, NG = @NG@ };

static const int sizes[] = @SIZES@, guard_counts[] = @GUARDS@, edge_counts[] = @EDGES@, held_at[] = @HELD@;
static const int directions[][NG] = @DIRECTIONS@, targets[][NG] = @TARGETS@, kinds[][NG] = @KINDS@;
static const int shift_at[] = @SHIFTS@;
static const double on_surface = @ON@, crossing = @CROSSING@, watch = @WATCH@;

static void rhs(int domain, double t, const double *x, const double *p, double *dx) {
@RHS@
}

static void guards(int domain, double t, const double *x, const double *p, double *g) {
  (void)domain; (void)t; (void)x; (void)p; (void)g;
@GUARD_CALLS@
}

static void guard_rates(int domain, double t, const double *x, const double *p, double *g) {
  (void)domain; (void)t; (void)x; (void)p; (void)g;
@RATE_CALLS@
}

static void project(int domain, double t, double *x, const double *p) {
@PROJECT@
}

@SCHEDULE@
/* One step of the classical Runge-Kutta method, order four. */
static void advance(const NAME_state *s, double h, double *out) {
  double k1[NX], k2[NX], k3[NX], k4[NX], y[NX];
  const int n = sizes[s->domain];
  int i;
  rhs(s->domain, s->t, s->x, s->p, k1);
  for (i = 0; i < n; ++i) y[i] = s->x[i] + 0.5 * h * k1[i];
  rhs(s->domain, s->t + 0.5 * h, y, s->p, k2);
  for (i = 0; i < n; ++i) y[i] = s->x[i] + 0.5 * h * k2[i];
  rhs(s->domain, s->t + 0.5 * h, y, s->p, k3);
  for (i = 0; i < n; ++i) y[i] = s->x[i] + h * k3[i];
  rhs(s->domain, s->t + h, y, s->p, k4);
  memset(out, 0, NX * sizeof *out);
  for (i = 0; i < n; ++i) out[i] = s->x[i] + h / 6.0 * (k1[i] + 2.0 * (k2[i] + k3[i]) + k4[i]);
  project(s->domain, s->t + h, out, s->p);
}

static void arm(NAME_state *s, const double *g) {
  int i;
  for (i = 0; i < guard_counts[s->domain]; ++i) {
    const int d = directions[s->domain][i];
    if (s->watched[i]) {
      if (d * (g[i] + s->p[shift_at[s->domain] + i]) < -watch) {
        s->watched[i] = 0;
        s->p[shift_at[s->domain] + i] = 0.0;
      }
    } else if (d == 0 ? fabs(g[i]) > on_surface : d * g[i] < -on_surface) {
      s->armed[i] = 1;
    }
  }
}

/* Judge the guards as a domain is entered: the one that fires at once, or -1. */
static int judge(NAME_state *s, const double *g) {
  double rate[NG] = {0.0};
  int i;
  guard_rates(s->domain, s->t, s->x, s->p, rate);
  memset(s->armed, 0, sizeof s->armed);
  memset(s->watched, 0, sizeof s->watched);
  arm(s, g);
  for (i = 0; i < edge_counts[s->domain]; ++i) {
    const int d = directions[s->domain][i], kind = kinds[s->domain][i];
    const double side = d ? d * g[i] : -fabs(g[i]), across = d * rate[i];
    if (s->armed[i] || kind == 3) continue;
    if (side > on_surface ? kind == 2 || (kind == 1 && across >= 0.0) : across > crossing) return i;
    if (kind) {
      s->watched[i] = s->armed[i] = 1;
      s->p[shift_at[s->domain] + i] = d * ((side > 0.0 ? side : 0.0) + watch);
    }
  }
  return -1;
}

/* The first guard that forbids a force and is beyond its surface after a jump of the controller, or -1. */
static int jumped(const NAME_state *s, const double *g) {
  int i;
  for (i = 0; i < edge_counts[s->domain]; ++i) {
    if (kinds[s->domain][i] == 2 && directions[s->domain][i] * g[i] > watch) return i;
  }
  return -1;
}

/* The first armed guard that crosses between two values, or -1. */
static int crossed(const NAME_state *s, const double *before, const double *after) {
  int i;
  for (i = 0; i < guard_counts[s->domain]; ++i) {
    const int d = directions[s->domain][i];
    if (!s->armed[i]) continue;
    if (before[i] < 0.0 && after[i] >= 0.0 && d >= 0) return i;
    if (before[i] > 0.0 && after[i] <= 0.0 && d <= 0) return i;
  }
  return -1;
}

static void enter(NAME_state *s, int domain, double t, const double *q, const double *v, const double *z,
                  const double *params) {
  s->t = t;
  s->domain = domain;
  s->entered = 1;
@ENTER@
  (void)load_row(s);
}

void NAME_start(NAME_state *s, int domain, double t, const double *q, const double *v, const double *params) {
  const double z[@NZ@] = {0.0};
  memset(s, 0, sizeof *s);
  s->last_event = -1;
  enter(s, domain, t, q, v, z, params);
}

void NAME_velocity(const NAME_state *s, double *v) {
  const int domain = s->domain;
@VELOCITIES@
}

void NAME_command(const NAME_state *s, double *u) {
  const int domain = s->domain;
@COMMANDS@
}

/* Take an edge: reset, then enter the target. */
static void leave(NAME_state *s, int guard) {
  double q[@NQ@], v[@NV@], z[@NZ@] = {0.0}, q_after[@NQ@], v_after[@NV@], params[@UPPER@_NPARAMS + 1];
  const int target = targets[s->domain][guard];
  s->last_event = guard;
  stayed(s);
  if (target < 0) {
    s->ended = 1 + guard;
    return;
  }
  memcpy(q, s->x, sizeof q);
  NAME_velocity(s, v);
  memcpy(z, s->x + sizes[s->domain] - @Z_COUNT@, @Z_COUNT@ * sizeof *z);
  memcpy(params, s->p, @UPPER@_NPARAMS * sizeof *params);
  memcpy(q_after, q, sizeof q);
  memcpy(v_after, v, sizeof v);
@RESETS@
  enter(s, target, s->t, q_after, v_after, z, params);
}

int NAME_step(NAME_state *s, double h, const double *u) {
  double before[NG] = {0.0}, after[NG] = {0.0}, y[NX], rest = h;
  int events = 0, guard, i;
  while (rest > 0.0 && !s->ended) {
    double part = load_row(s); /* as far as the numbers of the controller hold */
    if (part > rest) part = rest;
    if (@TAKES@) memcpy(s->p + held_at[s->domain], u, @NU@ * sizeof *u);
    guards(s->domain, s->t, s->x, s->p, before);
    guard = s->entered ? -1 : jumped(s, before);
    if (s->entered) {
      guard = judge(s, before);
      s->entered = 0;
      guards(s->domain, s->t, s->x, s->p, before);
    }
    if (guard < 0) {
      advance(s, part, y);
      for (i = 0; i < sizes[s->domain]; ++i) if (!isfinite(y[i])) return -3;
      guards(s->domain, s->t + part, y, s->p, after);
      arm(s, before);
      guard = crossed(s, before, after);
      if (guard < 0) {
        memcpy(s->x, y, sizeof y);
        s->t += part;
        rest -= part;
        arm(s, after);
        continue;
      } else {
        double low = 0.0, high = part;
        while (high - low > 1e-13) {
          const double middle = 0.5 * (low + high);
          int now;
          if (middle <= low || middle >= high) break;
          advance(s, middle, y);
          guards(s->domain, s->t + middle, y, s->p, after);
          now = crossed(s, before, after);
          if (now < 0) low = middle;
          else {
            high = middle;
            guard = now;
          }
        }
        advance(s, high, y);
        memcpy(s->x, y, sizeof y);
        s->t += high;
        rest -= high;
        if (guard >= edge_counts[s->domain]) return -1;
      }
    }
    leave(s, guard);
    if (++events > @UPPER@_MAX_EVENTS) return -2;
  }
  (void)load_row(s);
  return events;
}
"""
