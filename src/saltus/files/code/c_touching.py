"""The exported stepper of a machine with feet, stops and walls: the steps of a batch, for one copy, as plain C."""

from __future__ import annotations

import math

from saltus.batch.batch import REST, START
from saltus.batch.native import source
from saltus.compile.statements import C, literal
from saltus.files.code.c_schedule import schedule_source
from saltus.files.code.touching import Touching

TOLERANCE = 1e-5  # as of sl.Batch


def real(exported: Touching) -> list[str]:
    """The type of all numbers: contacts are held to 1e-9 m, which float has not."""
    upper = exported.name.upper()
    return [
        f"#ifdef {upper}_FLOAT",
        "#error contacts are held to 1e-9 m: there is no float build of a machine with feet, stops or walls",
        "#endif",
        f"typedef double {exported.name}_real;",
    ]


def stepper_header(exported: Touching) -> str:
    """State and functions of the stepper."""
    inputs = "inputs held over the step" if exported.takes_inputs else "ignored: the controller is built in"
    text = HEADER.replace("@CONTROL@", "" if exported.takes_inputs else CONTROL_HEADER)
    return _filled(text.replace("@INPUTS@", inputs), exported)


def stepper_source(exported: Touching) -> str:
    """The steps of the batch, and the stepper around them."""
    kernel = source(exported.motion)
    text = SOURCE.replace("@CONTROL@", "" if exported.takes_inputs else CONTROL)
    before, after = text.split("@KERNEL@")
    return _filled(before, exported) + kernel + _filled(after, exported)


def _listed(values: object) -> str:
    return "{" + ", ".join(map(str, values)) + "}"  # type: ignore[call-overload]


def _land(exported: Touching) -> str:
    """Pieces and edges of the ground, where it has several."""
    rows = exported.ground.table.tolist() if exported.motion.patched else [[0.0]]
    return _listed(_listed("NAN" if math.isnan(x) else literal(x, C) for x in row) for row in rows)


def _filled(text: str, exported: Touching) -> str:
    motion = exported.motion
    loops = "if (NAME_assemble(t, s->x, on, params, NULL)) return 1;" if exported.loops.rows else ""
    parts = {
        "@LOOPS@": loops,
        "@NX@": str(motion.e.nq + motion.w.numel() + motion.e.z.numel()),
        "@NP@": str(max(1, motion.p.numel())),
        "@NE@": str(max(1, len(motion.elements))),
        "@TOLERANCE@": repr(TOLERANCE),
        "@START_P@": _listed([literal(float(x), C) for x in exported.p] or ["0.0"]),
        "@INDEPENDENT@": _listed(motion.choice.independent or [0]),
        "@LAWS@": _listed(exported.law_places or [0]),
        "@LAW_COUNT@": str(len(exported.law_places)),
        "@START@": repr(START),
        "@REST@": repr(REST),
        "@GRAVITY@": repr(motion.gravity),
        "@WEIGHT@": repr(motion.weight),
        "@STEP@": repr(exported.stable_step),
        "@TAKES@": str(int(exported.takes_inputs)),
        "@SCHEDULE@": schedule_source(exported) if "@SCHEDULE@" in text else "",
        "@LAND@": _land(exported),
    }
    for name in ("params", "entry_t", "entry_q", "entry_v", "row"):
        parts[f"@AT_{name.upper()}@"] = str(motion.slice(name).start)
    for key, value in parts.items():
        text = text.replace(key, value)
    return text.replace("NAMES", exported.name.upper()).replace("NAME", exported.name)


HEADER = """/* State of the stepper: x = (q, w, z), positions are x[0] ... x[NAMES_NQ - 1]. */
typedef struct {
  double t;               /* time (s) */
  double tolerance;       /* parts of steps have no larger error */
  int domain;             /* 0: a machine whose contacts find their own modes has one domain */
  int ended;              /* 0 */
  double x[@NX@];
  double p[@NP@];
  double v[NAMES_NV + 1]; /* all velocities */
  double force[3 * @NE@]; /* on the machine at every contact, world axes (N); of a stop or a joint its effort (Nm, N) */
  unsigned char touching[@NE@];
  long long doubts;       /* how often the motion was one of several: Painleve's paradox, too many events in a step */
  int over, fresh;        /* 2 if the loops are open or a number is not finite; 1 until the first modes are found */
  int stays[1];
} NAME_state;

/* Begin at (q, v), with the loops closed for the Params. Returns 0; 1 if they do not close, 2 if a contact is inside
   of what it touches. `domain` is 0. */
int NAME_start(NAME_state *s, int domain, double t, const double *q, const double *v, const double *params);

/* Advance by h seconds through any events: contacts stick, slip, bounce and lift by themselves. u[NAMES_NU] are
   @INPUTS@. Returns how many events there were, or -3 if the loops opened or a number is not finite. */
int NAME_step(NAME_state *s, double h, const double *u);

/* All velocities now. */
void NAME_velocity(const NAME_state *s, double *v);

/* What the controller asks of the inputs now. */
void NAME_command(const NAME_state *s, double *u);
@CONTROL@
#define NAMES_STABLE_STEP @STEP@ /* s: steps are done in parts where their error asks for it */
"""

CONTROL_HEADER = """
/* The controller for a robot: efforts u[NAMES_NU] from measured q[NAMES_NQ] and v[NAMES_NV] at time t. `s` is its
   memory: begin with NAME_start. Who touches is what the robot's sensors wrote into s->touching. `domain` is 0. */
int NAME_control(NAME_state *s, int domain, double t, const double *q, const double *v, double *u);
"""

CONTROL = """
int NAME_control(NAME_state *s, int domain, double t, const double *q, const double *v, double *u) {
  (void)domain;
  s->t = t;
  put(s, q, v);
  for (int i = 0; i < ELEMENTS; ++i) s->p[elements[i].p + 2] = s->touching[i];
  (void)load_row(s);
  NAME_command(s, u);
  return 0;
}
"""

SOURCE = """/* ---- the steps of many copies, here of one ---- */

#define LANES 1
#define saltus_step NAME_saltus_step
#define saltus_lanes NAME_saltus_lanes
int saltus_lanes(void);
@KERNEL@
/* ---- the stepper ---- */

@SCHEDULE@
static const double start_p[] = @START_P@;
static const double land[][PATCH] = @LAND@; /* pieces and edges of the ground */
static const int independent[] = @INDEPENDENT@, laws_at[] = @LAWS@; /* velocities; places in p */

static void put(NAME_state *s, const double *q, const double *v) {
  memcpy(s->x, q, NQ * sizeof *q);
  for (int i = 0; i < NW; ++i) s->x[NQ + i] = v[independent[i]];
}

static Batch one(void) {
  static const long long first = 0, last = PATCHED ? sizeof land / sizeof land[0] : 0;
  Batch a;
  memset(&a, 0, sizeof a);
  a.land = land[0];
  a.land_from = &first;
  a.land_to = &last;
  return a;
}

static int run(NAME_state *s, double h, int times) {
  Batch a = one();
  double none, along[SIZE(ROWS)];
  long long steps = 0, happened = 0;
  a.step = h;
  a.tolerance = s->tolerance;
  a.rest = fmax(@REST@, @GRAVITY@ * h / 8);
  a.weight = @WEIGHT@;
  a.times = times;
  a.t = &s->t;
  a.x = s->x;
  a.p = s->p;
  a.v = s->v;
  a.contact = s->force;
  a.measured = a.events = &none;
  a.force = along;
  a.steps = &steps;
  a.over = &s->over;
  a.fresh = &s->fresh;
  a.doubts = &s->doubts;
  a.happened = &happened;
  saltus_step(&a, 0, 1);
  for (int i = 0; i < ELEMENTS; ++i) s->touching[i] = s->p[elements[i].p] != 0.0;
  return (int)happened;
}

int NAME_start(NAME_state *s, int domain, double t, const double *q, const double *v, const double *params) {
  double on[NV + 1], law[@LAW_COUNT@ + 1];
  const Batch a = one();
  const int l = 0, begins = 1;
  V *p = (V *)s->p;
  State here;
  Meeting m;
  (void)domain; (void)stayed;
  memset(s, 0, sizeof *s);
  s->t = t;
  s->tolerance = @TOLERANCE@;
  s->fresh = 1;
  memcpy(s->x, q, NQ * sizeof *q);
  memcpy(on, v, NV * sizeof *v);
  @LOOPS@
  memcpy(s->p, start_p, sizeof start_p);
  memcpy(s->p + @AT_PARAMS@, params, NAMES_NPARAMS * sizeof *params);
  NAME_laws(params, law);
  for (int i = 0; i < @LAW_COUNT@; ++i) s->p[laws_at[i]] = law[i];
  s->p[@AT_ENTRY_T@] = t;
  memcpy(s->p + @AT_ENTRY_Q@, s->x, NQ * sizeof *q);
  memcpy(s->p + @AT_ENTRY_V@, on, NV * sizeof *v);
  put(s, s->x, on);
  memset(&here, 0, sizeof here);
  here.t[l] = t;
  for (int i = 0; i < NQ; ++i) here.q[i][l] = s->x[i];
  for (int i = 0; i < NW; ++i) here.w[i][l] = s->x[NQ + i];
  met(&here, p, &begins, &m);
  if (PATCHED) {
    looked(&a, l, &m, p, l, NEVER);
    met(&here, p, &begins, &m);
  }
  for (int i = 0; i < ELEMENTS; ++i) {
    const double gap = m.here.gap[i][l];
    if (elements[i].soft) {
      CLOSED(i) = STICK(i) = gap < 0.0;
      for (int k = 0; k < elements[i].slips; ++k) ANCHOR(i, k) = m.flow.hold[elements[i].hold + k][l];
    } else if (elements[i].normal) {
      if (gap < -@START@) return 2;
      CLOSED(i) = gap <= @START@ && fabs(m.here.rate[elements[i].row + elements[i].slips][l]) <= @START@;
    }
    FELT(i) = CLOSED(i);
  }
  (void)load_row(s);
  (void)run(s, 0.0, 0);
  return 0;
}

void NAME_velocity(const NAME_state *s, double *v) { memcpy(v, s->v, NV * sizeof *v); }

void NAME_command(const NAME_state *s, double *u) {
  NAME_commands(s->t, s->x, s->x + NQ, s->x + NQ + NW, s->p, u);
}

int NAME_step(NAME_state *s, double h, const double *u) {
  double rest = h;
  int events = 0;
  while (rest > 0.0) {
    double part = load_row(s);
    if (part > rest) part = rest;
    if (@TAKES@) memcpy(s->p + @AT_ROW@, u, NAMES_NU * sizeof *u);
    events += run(s, part, 1);
    if (s->over) return -3;
    rest -= part;
  }
  (void)load_row(s);
  return events;
}
@CONTROL@"""
