"""The exported fixed-step hybrid stepper in C: Runge-Kutta of order four, guards located by bisection, resets."""

from __future__ import annotations

from collections.abc import Callable

from saltus.files.code.c_schedule import schedule_source
from saltus.files.code.routines import DomainCode, Exported
from saltus.hybrid.graph import Edge
from saltus.hybrid.transition import CROSSING, ON, WATCH


def real(exported: Exported) -> list[str]:
    """The type of all numbers but time."""
    name = exported.name
    return [
        f"#ifdef {name.upper()}_FLOAT /* for library and program alike */",
        f"typedef float {name}_real;",
        "#else",
        f"typedef double {name}_real;",
        "#endif",
    ]


def stepper_header(exported: Exported) -> str:
    """State and functions of the stepper."""
    name, d = exported.name, exported.domains
    n_x, n_p, n_g = (max(1, *(getattr(x, a) for x in d)) for a in ("n_x", "n_p", "n_guards"))
    inputs = "inputs held over the step" if exported.takes_inputs else "ignored: the controller is built in"
    upper, real = name.upper(), f"{name}_real"
    controller = "" if exported.takes_inputs else CONTROL_HEADER.replace("NAME", name).replace("UPPER", upper)
    return f"""/* State of the stepper: x = (q, w, z) of the domain; positions are x[0] ... x[{upper}_NQ - 1]. */
typedef struct {{
  double t;                     /* time (s) */
  double tolerance;             /* if above zero: parts of steps have no larger error, at the cost of a varying time */
  int domain;                   /* number of the domain */
  int ended;                    /* 0, or 1 + number of the event that ended the run */
  int last_event;               /* number of the last event, or -1 */
  {real} x[{n_x}];
  {real} p[{n_p}];
  unsigned char armed[{n_g}];
  unsigned char watched[{n_g}]; /* fires as soon as it is beyond its surface */
  int entered;                  /* 1 until the guards have been judged in a domain just entered */
  int stays[{len(d)}];          /* in each domain so far, for tables of the controller */
}} {name}_state;

/* Begin in a domain at (q, v); returns 0. */
int {name}_start({name}_state *s, int domain, double t, const {real} *q, const {real} *v, const {real} *params);

/* Advance by h seconds through any events and knots of the controller's tables; u[{upper}_NU] are {inputs}.
   Returns how many events there were, -1 if the chosen coordinates became singular or a slip ended, -2 for more than
   {upper}_MAX_EVENTS events in one step, -3 if a number is not finite. As a domain is entered, a guard on its
   surface fires if it is being crossed; beyond it a liftoff fires at once, a touchdown unless the foot moves out of the
   ground, any other guard after it has come back. Steps above {upper}_STABLE_STEP are likely to be unstable. */
int {name}_step({name}_state *s, double h, const {real} *u);

/* All velocities now. */
void {name}_velocity(const {name}_state *s, {real} *v);

/* What the controller asks of the inputs now. */
void {name}_command(const {name}_state *s, {real} *u);
{controller}
#define {upper}_MAX_EVENTS 8
#define {upper}_STABLE_STEP {exported.stable_step!r} /* s, at the start configuration */
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
    entering = _switch(exported, lambda d: f"{name}_enter_{d.label}(t, q, v, z, params, x, p);")
    resets = "\n".join(
        f"    case {n_g * d.index + e.guard}: {name}_{e.reset.name}(t, q, v, params, q_after, v_after); break;"
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
        "VELOCITIES": _switch(exported, lambda d: f"{name}_velocities_{d.label}(t, s->x, s->p, v);"),
        "COMMANDS": _switch(exported, lambda d: f"{name}_commands_{d.label}(t, s->x, s->p, u);"),
        "ENTER": entering,
        "RESETS": f"  switch (NG * from + guard) {{\n{resets}\n    default: break;\n  }}" if resets else "",
        "PROJECT": f"  real y[NX];\n  memcpy(y, x, sizeof y);\n{project}\n  memcpy(x, y, sizeof y);"
        if project
        else "  " + _unused("domain", "t", "x", "p"),
        "TAKES": "1" if exported.takes_inputs else "0",
        "SCHEDULE": schedule_source(exported),
        "CONTROL": "" if exported.takes_inputs else CONTROL,
        "EVENTS": two([[e.event for e in d.edges] + [-1] * (n_g - len(d.edges)) for d in domains]),
        "NP": str(max(1, *(d.n_p for d in domains))),
    }
    text = STEPPER.replace("@CONTROL@", parts.pop("CONTROL")).replace("NAME", name)
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
static const int events[][NG] = @EVENTS@;
#ifdef @UPPER@_FLOAT
static const real on_surface = 1e-6, crossing = 1e-4, watch = 1e-5;
#else
static const real on_surface = @ON@, crossing = @CROSSING@, watch = @WATCH@;
#endif

static void rhs(int domain, real t, const real *x, const real *p, real *dx) {
@RHS@
}

static void guards(int domain, real t, const real *x, const real *p, real *g) {
  (void)domain; (void)t; (void)x; (void)p; (void)g;
@GUARD_CALLS@
}

static void guard_rates(int domain, real t, const real *x, const real *p, real *g) {
  (void)domain; (void)t; (void)x; (void)p; (void)g;
@RATE_CALLS@
}

static void project(int domain, real t, real *x, const real *p) {
@PROJECT@
}

@SCHEDULE@
/* One step of the classical Runge-Kutta method, order four. Where a tolerance asks for it, its error: the rates at its
   end make a fifth stage, with which (k1 + 2 k2 + 2 k3 + k5) / 6 is of third order. Velocities count as a share of one
   plus their size. */
static real advance(const NAME_state *s, real h, real *out) {
  real k1[NX], k2[NX], k3[NX], k4[NX], y[NX], error = 0;
  const real t = (real)s->t, half = h / 2;
  const int n = sizes[s->domain];
  int i;
  rhs(s->domain, t, s->x, s->p, k1);
  for (i = 0; i < n; ++i) y[i] = s->x[i] + half * k1[i];
  rhs(s->domain, t + half, y, s->p, k2);
  for (i = 0; i < n; ++i) y[i] = s->x[i] + half * k2[i];
  rhs(s->domain, t + half, y, s->p, k3);
  for (i = 0; i < n; ++i) y[i] = s->x[i] + h * k3[i];
  rhs(s->domain, t + h, y, s->p, k4);
  memset(out, 0, NX * sizeof *out);
  for (i = 0; i < n; ++i) out[i] = s->x[i] + h / 6 * (k1[i] + 2 * (k2[i] + k3[i]) + k4[i]);
  if (s->tolerance > 0) {
    rhs(s->domain, t + h, out, s->p, y);
    for (i = 0; i < n; ++i) {
      const real e = h / 6 * fabs(k4[i] - y[i]) / (i < @NQ@ ? 1 : 1 + fabs(out[i]));
      if (!(e <= error)) error = e;
    }
  }
  project(s->domain, t + h, out, s->p);
  return error;
}

static void arm(NAME_state *s, const real *g) {
  int i;
  for (i = 0; i < guard_counts[s->domain]; ++i) {
    const int d = directions[s->domain][i];
    if (s->watched[i]) {
      if (d * (g[i] + s->p[shift_at[s->domain] + i]) < -watch) {
        s->watched[i] = 0;
        s->p[shift_at[s->domain] + i] = 0;
      }
    } else if (d == 0 ? fabs(g[i]) > on_surface : d * g[i] < -on_surface) {
      s->armed[i] = 1;
    }
  }
}

/* Judge the guards as a domain is entered: the one that fires at once, or -1. */
static int judge(NAME_state *s, const real *g) {
  real rate[NG] = {0};
  int i;
  guard_rates(s->domain, (real)s->t, s->x, s->p, rate);
  memset(s->armed, 0, sizeof s->armed);
  memset(s->watched, 0, sizeof s->watched);
  arm(s, g);
  for (i = 0; i < edge_counts[s->domain]; ++i) {
    const int d = directions[s->domain][i], kind = kinds[s->domain][i];
    const real side = d ? d * g[i] : -fabs(g[i]), across = d * rate[i];
    if (s->armed[i] || kind == 3) continue;
    if (side > on_surface ? kind == 2 || (kind == 1 && across >= 0) : across > crossing) return i;
    if (kind) {
      s->watched[i] = s->armed[i] = 1;
      s->p[shift_at[s->domain] + i] = d * ((side > 0 ? side : 0) + watch);
    }
  }
  return -1;
}

/* The first guard that forbids a force and is beyond its surface after a jump of the controller, or -1. */
static int jumped(const NAME_state *s, const real *g) {
  int i;
  for (i = 0; i < edge_counts[s->domain]; ++i) {
    if (kinds[s->domain][i] == 2 && directions[s->domain][i] * g[i] > watch) return i;
  }
  return -1;
}

/* The first armed guard that crosses between two values, or -1. */
static int crossed(const NAME_state *s, const real *before, const real *after) {
  int i;
  for (i = 0; i < guard_counts[s->domain]; ++i) {
    const int d = directions[s->domain][i];
    if (!s->armed[i]) continue;
    if (before[i] < 0 && after[i] >= 0 && d >= 0) return i;
    if (before[i] > 0 && after[i] <= 0 && d <= 0) return i;
  }
  return -1;
}

/* State and parameters of a domain at (q, v). */
static void placed(int domain, real t, const real *q, const real *v, const real *z, const real *params, real *x,
                   real *p) {
@ENTER@
}

static void enter(NAME_state *s, int domain, double t, const real *q, const real *v, const real *z,
                  const real *params) {
  s->t = t;
  s->domain = domain;
  s->entered = 1;
  placed(domain, (real)t, q, v, z, params, s->x, s->p);
  (void)load_row(s);
}

int NAME_start(NAME_state *s, int domain, double t, const real *q, const real *v, const real *params) {
  const real z[@NZ@] = {0};
  memset(s, 0, sizeof *s);
  s->last_event = -1;
  enter(s, domain, t, q, v, z, params);
  return 0;
}

void NAME_velocity(const NAME_state *s, real *v) {
  const int domain = s->domain;
  const real t = (real)s->t;
@VELOCITIES@
}

void NAME_command(const NAME_state *s, real *u) {
  const int domain = s->domain;
  const real t = (real)s->t;
@COMMANDS@
}

/* What goes on from domain to domain: memories and Params. */
static void kept(const NAME_state *s, real *z, real *params) {
  memcpy(z, s->x + sizes[s->domain] - @Z_COUNT@, @Z_COUNT@ * sizeof *z);
  memcpy(params, s->p, @UPPER@_NPARAMS * sizeof *params);
}

/* Leave the domain by one of its guards; the number of the next domain, or -1. */
static int left(NAME_state *s, int guard) {
  const int target = targets[s->domain][guard];
  s->last_event = events[s->domain][guard];
  if (target < 0) s->ended = 1 + s->last_event;
  stayed(s);
  return target;
}

/* Take an edge: reset, then enter the target. */
static void leave(NAME_state *s, int guard) {
  real q[@NQ@], v[@NV@], z[@NZ@] = {0}, q_after[@NQ@], v_after[@NV@], params[@UPPER@_NPARAMS + 1] = {0};
  const real t = (real)s->t;
  const int from = s->domain, target = left(s, guard);
  if (target < 0) return;
  kept(s, z, params);
  memcpy(q, s->x, sizeof q);
  NAME_velocity(s, v);
  memcpy(q_after, q, sizeof q);
  memcpy(v_after, v, sizeof v);
  (void)t; (void)from;
@RESETS@
  enter(s, target, s->t, q_after, v_after, z, params);
}

int NAME_step(NAME_state *s, double h, const real *u) {
  real before[NG] = {0}, after[NG] = {0}, y[NX];
  double rest = h, pace = h;
  int events = 0, guard, i;
  while (rest > 0.0 && !s->ended) {
    double part = load_row(s); /* as far as the numbers of the controller hold */
    if (part > rest) part = rest;
    if (part > pace) part = pace;
    if (@TAKES@) memcpy(s->p + held_at[s->domain], u, @NU@ * sizeof *u);
    guards(s->domain, (real)s->t, s->x, s->p, before);
    guard = s->entered ? -1 : jumped(s, before);
    if (s->entered) {
      guard = judge(s, before);
      s->entered = 0;
      guards(s->domain, (real)s->t, s->x, s->p, before);
    }
    if (guard < 0) {
      const real error = advance(s, (real)part, y), share = (real)s->tolerance / (error + (real)1e-30);
      for (i = 0; i < sizes[s->domain]; ++i) if (!isfinite(y[i])) return -3;
      if (s->tolerance > 0.0) {
        pace = part * (double)fmax((real)0.2, fmin((real)4, (real)0.9 * sqrt(sqrt(share))));
        if (share < 1 && part > h / 4096) continue;
      }
      guards(s->domain, (real)(s->t + part), y, s->p, after);
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
          advance(s, (real)middle, y);
          guards(s->domain, (real)(s->t + middle), y, s->p, after);
          now = crossed(s, before, after);
          if (now < 0) low = middle;
          else {
            high = middle;
            guard = now;
          }
        }
        advance(s, (real)high, y);
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
@CONTROL@"""

CONTROL_HEADER = """
/* The controller for a robot: efforts u[UPPER_NU] from measured q[UPPER_NQ] and v[UPPER_NV] at time t. `s` is its
   memory: begin with NAME_start. `domain` says where the robot is (a touchdown is best known by a sensor), or -1 lets
   the guards tell from one measurement to the next, which asks for clean ones. Nothing is reset, since impacts are in
   what is measured. Returns how many domains were left, 0 or 1. */
int NAME_control(NAME_state *s, int domain, double t, const NAME_real *q, const NAME_real *v, NAME_real *u);
"""

CONTROL = """
int NAME_control(NAME_state *s, int domain, double t, const real *q, const real *v, real *u) {
  real before[NG] = {0}, after[NG] = {0}, x[NX] = {0}, p[@NP@], z[@NZ@] = {0}, params[@UPPER@_NPARAMS + 1] = {0};
  int guard, gone, i;
  kept(s, z, params);
  placed(s->domain, (real)t, q, v, z, params, x, p);
  guards(s->domain, (real)s->t, s->x, s->p, before);
  memcpy(s->x, x, sizeof x);
  s->t = t;
  guards(s->domain, (real)t, x, s->p, after);
  if (s->entered) guard = judge(s, after);
  else {
    arm(s, before);
    guard = crossed(s, before, after);
    for (i = 0; i < edge_counts[s->domain] && guard < 0; ++i) /* on the surface: the sign is chance */
      if (s->armed[i] && directions[s->domain][i] && fabs(after[i]) <= 1000 * on_surface) guard = i;
    arm(s, after);
  }
  s->entered = 0;
  gone = domain < 0 ? guard >= 0 && guard < edge_counts[s->domain] : domain != s->domain;
  if (gone && domain < 0) domain = left(s, guard);
  else if (gone) stayed(s);
  if (gone && domain >= 0) enter(s, domain, t, q, v, z, params);
  (void)load_row(s);
  NAME_command(s, u);
  return gone;
}
"""
