/* Steps of many copies at once: one copy per lane, each with its own clock, modes and events.

   A step is one of Runge and Kutta's, of fourth order. Where a guard of a copy falls below zero within it (a foot reaches
   the ground, a ground pulls, friction gives way, a slip ends), the step is repeated with the length that ends on
   the guard's surface, the impact and the new modes are found, and the rest of the step follows. */

#define NEVER (-1)
#define CLOSED(i) p[elements[i].p][l]
#define STICK(i) p[elements[i].p + 1][l]
#define FELT(i) p[elements[i].p + 2][l]
#define FRICTION(i) p[elements[i].p + 3][l]
#define STATIC(i) p[elements[i].p + 4][l]
#define DIRECTION(i, k) p[elements[i].p + 5 + (k)][l]
#define ANCHOR(i, k) p[elements[i].p + 5 + elements[i].slips + (k)][l]
#define BORNE(i) p[elements[i].p + 5 + 2 * elements[i].slips][l]
#define RESTITUTION(i) p[RESTITUTIONS + (i)][l]
#define OWN(i) p[FRICTIONS + (i)][l] /* friction of slip; of one that others hold FRICTION is what it bears */
#define STIFFNESS(i) p[STIFFNESSES + (i)][l]
#define STARTS(i) p[elements[i].starts][l] /* m/s: up to this a slip in 3D has the direction it started in, and has ended where it turns back */
#define GROUND(i, k) p[elements[i].p + 6 + 2 * elements[i].slips + (k)][l] /* point, normal, corner and within of its patch */
#define UP(i) (elements[i].row + (elements[i].normal ? elements[i].slips : 0)) /* row of its normal; of what has none, its first */
#define HELD(i) (STICK(i) != 0.0 || BORNE_BY_OTHERS(i))
#define BORNE_BY_OTHERS(i) (elements[i].slips > 0 && BORNE(i) != 0.0)

static const double CLOSURE = 1e-9;    /* m: loops are closed to this after every step */
static const double TOUCHING = 1e-9;   /* m: a contact so near touches */
static const double NEAR = 1e-10;      /* m, m/s: events are located to this */
static const double PRESSED = 1e-7;    /* of the weight: and to this where a force decides */
static const double REST = 2e-5, LOW = 2e-11; /* m/s, m: a contact that is pressed and leaves more slowly stays, or would rise by less */
static const double STILL = 1e-9, SLOW = 5e-7; /* m/s: slower than this nothing slips in the plane, in 3D */
static const double YOUNG = 1e-6, TOLERANCES = 300.0, COARSEST = 1e-5; /* m/s; and how it grows with the tolerance, up to one */
static const double MOVES = 1e-6;      /* m/s: what others hold and what is as fast is held no longer */
static const double SPREAD = 1e-9;     /* of the largest force or motion: what rows that depend on others are known to */
static const double GAINS = 1e-9;      /* of the energy of approach: an impact that gains more is not one */
static const double FIXED = 1e-18;     /* times gravity by the weight (1/kg): rows that move less easily do not move */
static const double LEVER = 1e3;       /* by so much a velocity may change for one along rows that are at rest */
static const double SHORTEST = 1e-6;   /* of a step: its parts are not shorter, whatever their error */
enum { ROUNDS = 4, EVENTS = 8, TRIES = 20 };

typedef struct {
  double step, tolerance, rest, weight; /* s, error of a part of a step, m/s below which nothing bounces, N */
  long long times;
  double *t;                 /* [block][lane] */
  double *x;                 /* [block][q, w, z][lane] */
  double *p;                 /* [block][parameters][lane] */
  double *v, *contact, *measured; /* [block][...][lane], at the end */
  long long *steps;          /* [block][lane] since the last reset */
  int *over;                 /* [block][lane] 1: has ended, 2: its loops are open or its numbers not finite; stands still */
  int *fresh;                /* [block][lane] 1: the modes are to be found */
  long long *doubts;         /* [block][lane] events that other forces might have followed, steps with too many events */
  const double *land;        /* [patch][PATCH] of all grounds: point, normal, friction, corner, within, second patch */
  const long long *land_from, *land_to; /* [block][lane] the patches of a copy's own ground */
  const int *ends;           /* [2][contact] modes (1 open, 2 stick, 4 slip) before and after an event that ends a copy; or NULL */
  double *entries, *events;  /* [block][room][fields][lane], what happened, for derivatives; NULL if nobody asks */
  long long *written, *happened; /* [block][lane] how many there are; beyond the room they are counted, not kept */
  long long room, event_room;
} Batch;

/* An entry: what it is (s of a part of a step, or -1 less the number of an event), its time, the state before it. */
#define ENTRY (2 + NQ + NW + NZ)
/* An event: guard, whether there was an impact, w after it; of every contact closed, stick, direction, friction and whether
   others hold it, before, after, and at the impact; share of the speed with which it bounced. */
#define MODE 6
#define MODES (MODE * ELEMENTS)
#define EVENT (2 + NW + 3 * MODES + ELEMENTS)

typedef struct {
  V t, q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)];
  V q_dot[SIZE(NQ)], w_dot[SIZE(NW)], z_dot[SIZE(NZ)];
  V force[SIZE(ROWS)], gap[SIZE(ELEMENTS)], rate[SIZE(ROWS)], inside[SIZE(PATCHED * ELEMENTS)], over[1], open[1];
} State;

typedef struct {
  V G[SIZE(ROWS * ROWS)], b[SIZE(ROWS)], Y[SIZE(NW * ROWS)], hold[SIZE(HOLDS)], u[SIZE(ROWS)], gap[SIZE(ELEMENTS)];
  V place[SIZE(2 * PATCHED * ELEMENTS)];
} Meeting;

/* ---- the flow ---------------------------------------------------------------------------------------------------- */

static void moved(const State *from, const V *dq, const V *dw, const V *dz, V dt, V *q, V *w, V *z) {
  for (int i = 0; i < NQ; ++i) q[i] = from->q[i] + dt * dq[i];
  for (int i = 0; i < NW; ++i) w[i] = from->w[i] + dt * dw[i];
  for (int i = 0; i < NZ; ++i) z[i] = from->z[i] + dt * dz[i];
}

static void arrived(State *s, const V *p) {
  V q[SIZE(NQ)], w[SIZE(NW)];
  memcpy(q, s->q, sizeof q);
  memcpy(w, s->w, sizeof w);
  arrive(s->t, q, w, s->z, p, s->q, s->w, s->q_dot, s->w_dot, s->z_dot, s->force, s->gap, s->rate, s->inside,
         s->over, s->open);
}

/* One step; returned is the larger of its errors: of positions, and of velocities as a share of one plus their size. The rates at
   its end make a fifth stage, with which (k1 + 2 k2 + 2 k3 + k5) / 6 is of third order. */
static V attempt(const State *s, const V *p, V dt, State *out) {
  V q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)], dq[SIZE(NQ)], dw[SIZE(NW)], dz[SIZE(NZ)];
  V sq[SIZE(NQ)], sw[SIZE(NW)], sz[SIZE(NZ)];
  moved(s, s->q_dot, s->w_dot, s->z_dot, dt / 2, q, w, z);
  memcpy(sq, s->q_dot, sizeof sq);
  memcpy(sw, s->w_dot, sizeof sw);
  memcpy(sz, s->z_dot, sizeof sz);
  for (int stage = 0; stage < 3; ++stage) {
    const double weight = stage < 2 ? 2.0 : 1.0;
    const V ahead = stage < 2 ? dt / 2 : dt;
    rates(s->t + ahead, q, w, z, p, dq, dw, dz);
    for (int i = 0; i < NQ; ++i) sq[i] += weight * dq[i];
    for (int i = 0; i < NW; ++i) sw[i] += weight * dw[i];
    for (int i = 0; i < NZ; ++i) sz[i] += weight * dz[i];
    if (stage < 2) moved(s, dq, dw, dz, stage ? dt : dt / 2, q, w, z);
  }
  out->t = s->t + dt;
  moved(s, sq, sw, sz, dt / 6, out->q, out->w, out->z);
  arrived(out, p);
  V worst = v_all(0.0);
  for (int i = 0; i < NQ; ++i) worst = v_fmax(v_fabs(dq[i] - out->q_dot[i]), worst);
  for (int i = 0; i < NW; ++i) worst = v_fmax(v_fabs(dw[i] - out->w_dot[i]) / (1.0 + v_fabs(out->w[i])), worst);
  return worst * dt / 6;
}

/* ---- guards: two per contact, above zero while its mode lasts, then those of patches of ground ------------------------ */

#define GUARDS ((2 + PATCHED) * ELEMENTS)
#define PATCH 13

static double guard(const State *s, const V *p, int l, int which, double weight, double *fine) {
  *fine = NEAR;
  if (which >= 2 * ELEMENTS) return s->inside[which - 2 * ELEMENTS][l];
  const int i = which / 2, row = elements[i].row, slips = elements[i].slips;
  double along = 0.0, size = 1.0;
  if (which % 2 == 0) {
    if (!elements[i].normal) return 1.0;
    if (CLOSED(i) == 0.0) return s->gap[i][l];
    if (elements[i].soft) return -s->gap[i][l];
    *fine = PRESSED * weight;
    return s->force[row + slips][l];
  }
  if (!slips || CLOSED(i) == 0.0) return 1.0;
  if (STICK(i) == 0.0) {
    for (int k = 0; k < slips; ++k) along += s->rate[row + k][l] * (BORNE(i) != 0.0 ? s->rate[row + k][l] : DIRECTION(i, k));
    return BORNE(i) != 0.0 ? MOVES - sqrt(along) : slips < 2 ? along : along + STARTS(i) / 2; /* what starts in 3D has yet to find its way */
  }
  for (int k = 0; k < slips; ++k) along += s->force[row + k][l] * s->force[row + k][l];
  if (elements[i].normal) size = s->force[row + slips][l];
  *fine = PRESSED * (elements[i].normal ? weight : STATIC(i));
  return STATIC(i) * size - sqrt(along);
}

/* Share of a step after which a guard reaches zero, of a gap by the cubic that has its rates at both ends too. What starts on
   the surface and leaves it comes back later: then *low is a share at which it is off, and *g_low how far. */
static double crossing(double *g_low, double g1, double d0, double d1, int cubic, double fine, double *low) {
  const double g0 = *g_low;
  double s = g0 / (g0 - g1);
  if (!cubic) return s;
  const double a = 2.0 * (g0 - g1) + d0 + d1, b = 3.0 * (g1 - g0) - 2.0 * d0 - d1;
  if (g0 <= fine && d0 > 0.0) {
    double from = 0.0, to = 1.0;
    for (int k = 0; k < TRIES; ++k) {
      s = (from + to) / 2.0;
      if (((a * s + b) * s + d0) * s + g0 > 0.0) from = s;
      else to = s;
    }
    *low = s / 2.0;
    *g_low = ((a * *low + b) * *low + d0) * *low + g0;
    return s;
  }
  for (int k = 0; k < 6; ++k) {
    const double value = ((a * s + b) * s + d0) * s + g0, slope = (3.0 * a * s + 2.0 * b) * s + d0;
    const double next = s - value / slope;
    if (!(next > 0.0 && next < 1.0)) break;
    s = next;
  }
  return s;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static void modes(const V *p, int l, double *out) {
  for (int i = 0; i < ELEMENTS; ++i, out += MODE) {
    out[0] = CLOSED(i);
    out[1] = STICK(i);
    for (int k = 0; k < 2; ++k) out[2 + k] = k < elements[i].slips ? DIRECTION(i, k) : 0.0;
    out[4] = FRICTION(i);
    out[5] = BORNE_BY_OTHERS(i);
  }
}

/* Give feet the patches of ground that are nearest; one that is touched already keeps its mode. A foot at the border of its
   patch, whose guard is the cause, goes on to the next one. */
static void looked(const Batch *a, long long lane, const Meeting *m, V *p, int l, int cause) {
  static const double nothing[PATCH] = {0.0, -1e9, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, -1.0, -1.0};
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].patch != 1) continue;
    const double x = m->place[2 * i][l], up = m->place[2 * i + 1][l], *best = NULL, *beside = nothing;
    double least = INFINITY, old[2][4], kept[2][5];
    int inside = 0;
    for (long long n = a->land_from[lane]; n < a->land_to[lane]; ++n) {
      const double *o = a->land + n * PATCH, dx = x - o[0], dy = up - o[1];
      const double in = fmin(o[6] * x + o[7] * up - o[8], o[9] * x + o[10] * up - o[11]);
      const double off = fmax(0.0, -in) + fabs(o[5] != 0.0 ? sqrt(dx * dx + dy * dy) : o[2] * dx + o[3] * dy);
      const int within = in >= -2.0 * NEAR;
      int left = cause == 2 * ELEMENTS + i;
      for (int k = 5; k < 11; ++k) left &= GROUND(i, k) == o[k + 1];
      if (left) continue;
      if (within > inside || (within == inside && off < least)) best = o, least = off, inside = within;
    }
    if (best[PATCH - 1] >= 0.0) beside = a->land + (a->land_from[lane] + (long long)best[PATCH - 1]) * PATCH;
    for (int c = 0; c < 2; ++c) {
      for (int k = 0; k < 4; ++k) old[c][k] = GROUND(i + c, k);
      kept[c][0] = CLOSED(i + c), kept[c][1] = STICK(i + c), kept[c][4] = BORNE(i + c);
      for (int k = 0; k < 2; ++k) kept[c][2 + k] = k < elements[i].slips ? DIRECTION(i + c, k) : 0.0;
    }
    for (int c = 0; c < 2; ++c) {
      const int e = i + c;
      const double *o = c ? beside : best, own = p[GIVEN + 2 * e][l], most = p[GIVEN + 2 * e + 1][l];
      const double *same = NULL, none[5] = {0.0};
      for (int k = 0; k < 2; ++k)
        if (!memcmp(old[k], o, sizeof old[k])) same = kept[k];
      if (memcmp(old[c], o, sizeof old[c])) {
        same = same ? same : none;
        CLOSED(e) = same[0], STICK(e) = same[1], BORNE(e) = same[4];
        for (int k = 0; k < elements[e].slips; ++k) DIRECTION(e, k) = same[2 + k];
      }
      for (int k = 0; k < 4; ++k) GROUND(e, k) = o[k];
      for (int k = 4; k < 11; ++k) GROUND(e, k) = o[k + 1];
      if (o == nothing) continue;
      OWN(e) = own < 0.0 ? o[4] : fmin(own, o[4]); /* fmin leaves out what is not a number: ground that has no friction */
      STATIC(e) = fmax(OWN(e), most < 0.0 ? o[4] : fmin(most, o[4]));
      FRICTION(e) = OWN(e);
    }
  }
}

/* Modes of soft contacts, which follow from where they are and how they move. One that comes to rest sticks with the stretch
   of its spring that leaves its force as it is. */
static void softened(const State *s, const Meeting *m, V *p, int l, int cause) {
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    double along[2] = {0.0}, length = 0.0;
    if (!elements[i].soft) continue;
    for (int k = 0; k < slips; ++k) along[k] = -s->force[t + k][l], length += along[k] * along[k];
    for (int k = 0; k < slips && length == 0.0; ++k) along[k] = m->u[t + k][l];
    length = sqrt(dot(along, along, slips));
    if (CLOSED(i) == 0.0) {
      CLOSED(i) = STICK(i) = m->gap[i][l] <= TOUCHING && m->u[UP(i)][l] < 0.0;
      for (int k = 0; k < slips; ++k) ANCHOR(i, k) = m->hold[elements[i].hold + k][l];
    } else if (cause == 2 * i) CLOSED(i) = STICK(i) = 0.0;
    else if (cause == 2 * i + 1 && STICK(i) != 0.0) {
      STICK(i) = 0.0;
      for (int k = 0; k < slips; ++k) DIRECTION(i, k) = length > 0.0 ? along[k] / length : 0.0;
    } else if (cause == 2 * i + 1) {
      STICK(i) = 1.0;
      for (int k = 0; k < slips; ++k) ANCHOR(i, k) = m->hold[elements[i].hold + k][l] + s->force[t + k][l] / STIFFNESS(i);
    }
  }
}

/* The mobility of the rows and what they do without forces; nothing of those that the loops hold but for round-off. */
static void posed(const Batch *batch, const Meeting *m, const V *moves, int l, Problem *a) {
  memset(a, 0, sizeof *a);
  for (int i = 0; i < ROWS; ++i) {
    const int held_i = !(m->G[i * ROWS + i][l] > FIXED / batch->weight);
    a->b[i] = held_i ? 0.0 : moves[i][l];
    for (int j = 0; j < ROWS; ++j)
      a->G[i][j] = held_i || !(m->G[j * ROWS + j][l] > FIXED / batch->weight) ? 0.0 : m->G[i * ROWS + j][l];
  }
  a->size = fmax(largest(a->b, ROWS), 1e-12);
}

/* Speed with which a contact would rise by LOW, pressed as it is; REST at least. */
static double slow(const Meeting *m, int l, int i) {
  return fmax(REST, sqrt(2.0 * LOW * fmax(-m->b[UP(i)][l], 0.0)));
}

/* Moreau's law at all contacts that touch; the share of restitution is lowered until no energy is gained. 0: there was no
   impact, 2: its impulses are in doubt. */
static int struck(const Batch *batch, const Meeting *m, V *w, const V *p, int l, const int *touching, double *note) {
  double u[SIZE(ROWS)], bounce[SIZE(ELEMENTS)] = {0.0}, low = 0.0, high = 1.0, share = 1.0, bounces = 0.0;
  Problem a;
  Forces g;
  int hit = 0, doubt = 0;
  posed(batch, m, m->u, l, &a);
  memcpy(u, a.b, sizeof u);
  const double least = 1e-9 * (1.0 + largest(u, ROWS));
  for (int i = 0; i < ELEMENTS; ++i) {
    const double speed = -u[UP(i)];
    if (!touching[i]) continue;
    a.laws[i].active = a.laws[i].rough = 1;
    a.laws[i].limit = a.laws[i].friction = OWN(i);
    bounce[i] = RESTITUTION(i) * speed > fmax(batch->rest, slow(m, l, i)) ? RESTITUTION(i) : 0.0;
    bounces += bounce[i];
    hit |= speed > least;
  }
  if (!hit) return 0;
  for (int k = 0; k <= HALVINGS; ++k) {
    double gained = 0.0, lost = 0.0;
    memcpy(a.b, u, sizeof u);
    for (int i = 0; i < ELEMENTS; ++i)
      if (touching[i]) a.b[UP(i)] *= 1.0 + share * bounce[i];
    a.size = fmax(largest(a.b, ROWS), 1e-12);
    doubt = solved(&a, &g, 0);
    if (k == 0 && doubt && bounces > 0.0) { /* where friction jams a contact it cannot bounce */
      share = bounces = 0.0;
      k = -1;
      continue;
    }
    for (int j = 0; j < ROWS; ++j) {
      gained += g.f[j] * (u[j] + dot(a.G[j], g.f, ROWS) / 2.0);
      lost += fabs(g.f[j] * u[j]);
    }
    if (k == 0 && (gained <= GAINS * lost || bounces == 0.0)) break;
    if (k > 0 && gained <= 0.0) low = share;
    if (k > 0 && gained > 0.0) high = share;
    share = k == HALVINGS - 1 ? low : (low + high) / 2.0;
  }
  for (int i = 0; i < ELEMENTS; ++i) {
    double *mine = note + MODE * i;
    mine[0] = touching[i] && g.mode[i] != OPEN;
    mine[1] = mine[0] != 0.0 && g.mode[i] == STICKS;
    for (int k = 0; k < 2; ++k) mine[2 + k] = k < elements[i].slips ? g.way[i][k] : 0.0;
    mine[4] = OWN(i);
    mine[5] = 0.0;
    note[MODES + i] = share * bounce[i];
  }
  for (int i = 0; i < NW; ++i)
    for (int j = 0; j < ROWS; ++j) w[i][l] += m->Y[i * ROWS + j][l] * g.f[j];
  return 1 + doubt;
}

/* Pose the question which modes the accelerations ask for. `cause` is the guard on whose surface this is, NEVER if none: a
   slip has ended there, or a force has come to its limit. */
static void asked(const Batch *batch, const Meeting *m, const V *p, int l, const int *touching, int cause, int hit, Problem *a) {
  posed(batch, m, m->b, l, a);
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips, holds = CLOSED(i) != 0.0 && HELD(i) && !hit;
    Law *x = &a->laws[i];
    double speed = 0.0;
    for (int k = 0; k < slips; ++k) speed += m->u[t + k][l] * m->u[t + k][l];
    speed = sqrt(speed);
    x->active = !elements[i].soft && (!elements[i].normal || (touching[i] && fabs(m->u[UP(i)][l]) <= slow(m, l, i)));
    x->rough = slips > 0 && (holds || speed <= (slips < 2 ? STILL : SLOW) || (cause == 2 * i + 1 && (slips < 2 || speed <= STARTS(i))));
    x->limit = STATIC(i);
    x->friction = OWN(i);
    if (cause == 2 * i && CLOSED(i) != 0.0 && !hit) x->leaving = NORMAL;
    if (cause == 2 * i + 1 && holds) x->leaving = ALONG;
    for (int k = 0; k < slips; ++k) x->way[k] = x->rough ? 0.0 : m->u[t + k][l] / speed;
  }
}

/* Modes of a solution; one that is at its limit and does not start to slip is held by others. Rows that do not move, since
   loops hold them, are left to the loops. */
static void taken(const Meeting *m, const Problem *a, const Forces *g, V *p, int l) {
  const double small = FINE * fmax(largest(g->w, ROWS), 1.0);
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    const Law *x = &a->laws[i];
    double moves = 0.0;
    if (elements[i].soft) continue;
    for (int k = 0; k < slips; ++k) moves += a->G[t + k][t + k];
    CLOSED(i) = x->active && (g->mode[i] != OPEN);
    STICK(i) = CLOSED(i) != 0.0 && g->mode[i] == STICKS;
    FRICTION(i) = OWN(i);
    for (int k = 0; k < slips; ++k) {
      DIRECTION(i, k) = x->active ? g->way[i][k] : 0.0;
      ANCHOR(i, k) = m->hold[elements[i].hold + k][l];
    }
    if (slips)
      BORNE(i) = g->mode[i] == SLIPS && rubs(x, i) && x->leaving == STAYS && sqrt(dot(g->w + t, g->w + t, slips)) <= small;
    if (slips && CLOSED(i) != 0.0 && !(moves > 0.0)) {
      STICK(i) = FRICTION(i) = 0.0;
      BORNE(i) = DIRECTION(i, 0) = 1.0;
      if (slips > 1) DIRECTION(i, 1) = 0.0;
    }
    if (elements[i].normal && CLOSED(i) != 0.0 && !(a->G[UP(i)][UP(i)] > 0.0)) CLOSED(i) = STICK(i) = 0.0;
  }
}

/* Contact whose forces break the laws most, and whether they pull it; NEVER if none does. */
static int worst(const Problem *a, const double *f, const V *p, int l, int *pulled) {
  double most = SPREAD * largest(f, ROWS);
  int found = NEVER;
  for (int i = 0; i < ELEMENTS; ++i) {
    const double *own = f + elements[i].row, bears = elements[i].normal ? own[elements[i].slips] : 1.0;
    const double drag = STICK(i) != 0.0 ? sqrt(dot(own, own, elements[i].slips)) : 0.0;
    const double beyond[2] = {drag - a->laws[i].limit * fmax(bears, 0.0), -bears};
    for (int k = 0; k < 2; ++k)
      if (a->laws[i].active && CLOSED(i) != 0.0 && beyond[k] > most) most = beyond[k], found = i, *pulled = k;
  }
  return found;
}

static void met(const State *s, const V *p, Meeting *m) {
  m->hold[0] = v_all(0.0); /* where nothing slips, nothing is written there */
  meet(s->t, s->q, s->w, s->z, p, m->G, m->b, m->Y, m->hold, m->u, m->gap, m->place);
}

static void copied(State *to, const State *from, int l) {
  V *a = (V *)to;
  const V *b = (const V *)from;
  for (unsigned k = 0; k < sizeof(State) / sizeof(V); ++k) a[k][l] = b[k][l];
}

static long long number(const Batch *a, long long block, int l) {
  return a->events ? a->happened[block * LANES + l] : 0;
}

static void noted(const Batch *a, long long block, int l, const State *s, double what) {
  if (!a->entries) return;
  const long long k = a->written[block * LANES + l]++;
  if (k >= a->room) return;
  double *out = a->entries + (block * a->room + k) * ENTRY * LANES + l;
  out[0] = what;
  out[LANES] = s->t[l];
  for (int i = 0; i < NQ; ++i) out[(2 + i) * LANES] = s->q[i][l];
  for (int i = 0; i < NW; ++i) out[(2 + NQ + i) * LANES] = s->w[i][l];
  for (int i = 0; i < NZ; ++i) out[(2 + NQ + NW + i) * LANES] = s->z[i][l];
}

/* Whether contacts move as their modes say: none inwards, none that is held, slips that start along theirs. */
static int moves_so(const Problem *a, const double *w, const V *p, int l, double close) {
  for (int i = 0; i < ELEMENTS; ++i) {
    const double *own = w + elements[i].row;
    const int slips = elements[i].slips;
    double ahead = 0.0, across = 0.0;
    if (!a->laws[i].active) continue;
    if (elements[i].normal && own[slips] < -close) return 0;
    if (CLOSED(i) == 0.0) continue;
    if (slips && HELD(i) && largest(own, slips) > close) return 0;
    if (HELD(i) || !rubs(&a->laws[i], i)) continue;
    for (int k = 0; k < slips; ++k) ahead += own[k] * DIRECTION(i, k);
    for (int k = 0; k < slips; ++k) across += (own[k] - ahead * DIRECTION(i, k)) * (own[k] - ahead * DIRECTION(i, k));
    if (ahead < -close || sqrt(across) > close) return 0;
  }
  return 1;
}

/* Change modes until the forces of the flow meet the laws where rows depend on each other, of the lanes whose `event` is set.
   A contact that they would pull is open, and one that they put outside of its cone bears what its limit allows; if others
   cannot bear the rest, what it has in the solution. None of this changes the motion if it can be helped: where contacts with
   unlike frictions share a load, shares as lawful as those of the solution may. Else all stays as it is. */
static void spread(const State *s, V *p, const int *event, const Problem *posed_, const Forces *solutions) {
  V kept[SIZE(NP)];
  double wanted[LANES][SIZE(ROWS)];
  int todo[LANES], left = 0;
  memcpy(kept, p, sizeof kept);
  EACH(l) left |= todo[l] = event[l];
  for (int way = 0; way < 4 && left; ++way) {
    const int given = way % 2, otherwise = way / 2;
    int trying[LANES], any = 1;
    memcpy(trying, todo, sizeof trying);
    for (int round = 0; round <= 2 * ELEMENTS && any; ++round) {
      State now = *s;
      arrived(&now, p);
      any = 0;
      EACH(l) if (trying[l]) {
        const Problem *a = &posed_[l];
        double f[SIZE(ROWS)], w[SIZE(ROWS)], change = 0.0;
        int pulled = 0;
        for (int j = 0; j < ROWS; ++j) f[j] = now.force[j][l];
        respond(a, f, w);
        if (!way && !round) memcpy(wanted[l], w, sizeof w);
        for (int j = 0; j < ROWS; ++j) change = fmax(change, fabs(w[j] - wanted[l][j]));
        const int i = worst(a, f, p, l, &pulled);
        if (i == NEVER && (change <= SPREAD * a->size || (otherwise && moves_so(a, w, p, l, SPREAD * a->size)))) {
          todo[l] = trying[l] = 0;
        } else if (i == NEVER || round == 2 * ELEMENTS) {
          for (int k = 0; k < NP; ++k) p[k][l] = kept[k][l];
          trying[l] = 0;
        } else {
          const int slips = elements[i].slips;
          const double *own = (given ? solutions[l].f : f) + elements[i].row, drag = sqrt(dot(own, own, slips));
          const double load = elements[i].normal ? solutions[l].f[elements[i].row + slips] : 1.0;
          any = 1;
          STICK(i) = 0.0;
          if (pulled) {
            CLOSED(i) = 0.0;
            if (slips) BORNE(i) = 0.0, FRICTION(i) = OWN(i);
            continue;
          }
          for (int k = 0; k < slips; ++k) DIRECTION(i, k) = drag > 0.0 ? -own[k] / drag : k == 0;
          BORNE(i) = 1.0;
          FRICTION(i) = !given ? a->laws[i].limit : load > 0.0 ? drag / load : 0.0;
        }
      }
    }
    left = 0;
    EACH(l) left |= todo[l];
  }
}

/* Where a contact that others hold has come to move, put what is at rest to rest: nothing but the others holds it. */
static void calmed(const Meeting *m, const Problem *a, const V *p, int l, V *w) {
  double G[SIZE(ROWS)][SIZE(ROWS)], f[SIZE(ROWS)], fast = 0.0, most = 0.0, off[SIZE(NW)] = {0.0};
  int row[SIZE(ROWS)], n = 0, creeps = 0;
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    double speed = 0.0;
    if (!a->laws[i].active) continue;
    for (int k = 0; k < slips; ++k) speed += m->u[t + k][l] * m->u[t + k][l];
    creeps |= CLOSED(i) != 0.0 && BORNE_BY_OTHERS(i) && sqrt(speed) > SLOW;
    for (int k = 0; k < slips && a->laws[i].rough; ++k) row[n++] = t + k;
    if (elements[i].normal) row[n++] = t + slips;
  }
  if (!creeps) return;
  for (int i = 0; i < n; ++i) {
    f[i] = -m->u[row[i]][l];
    fast = fmax(fast, fabs(f[i]));
    for (int j = 0; j < n; ++j) G[i][j] = a->G[row[i]][row[j]];
  }
  shortest(n, G, f, 1e-11);
  for (int i = 0; i < NW; ++i) {
    for (int j = 0; j < n; ++j) off[i] += m->Y[i * ROWS + row[j]][l] * f[j];
    most = fmax(most, fabs(off[i]));
  }
  for (int i = 0; i < NW && most <= LEVER * fast; ++i) w[i][l] += off[i];
}

static int mode(const V *p, int l, int i) { return CLOSED(i) == 0.0 ? 1 : HELD(i) ? 2 : 4; }

/* Impacts and new modes of the lanes whose `event` is set; their state and its rates are then those after
   it. Doubts about them are counted. `ends` are lanes whose copies end with it. */
static void changed(const Batch *a, long long block, State *s, V *p, const int *event, const int *cause, int *ends) {
  Meeting m;
  State after;
  Problem asks[LANES];
  Forces gives[LANES];
  long long *doubts = a->doubts + block * LANES;
  double notes[LANES][EVENT];
  int hit[LANES] = {0}, any = SOFTS, touching[LANES][SIZE(ELEMENTS)] = {{0}};
  EACH(l) {
    ends[l] = a->ends && event[l] && cause[l] != NEVER;
    for (int i = 0; i < ELEMENTS && ends[l]; ++i) ends[l] = (mode(p, l, i) & a->ends[i]) != 0;
  }
  met(s, p, &m);
  if (PATCHED) {
    EACH(l) if (event[l]) looked(a, block * LANES + l, &m, p, l, cause[l]);
    met(s, p, &m);
  }
  EACH(l) if (event[l]) {
    softened(s, &m, p, l, cause[l]);
    for (int i = 0; i < ELEMENTS; ++i)
      touching[l][i] = elements[i].normal && !elements[i].soft && (CLOSED(i) != 0.0 || m.gap[i][l] <= TOUCHING);
    double *note = notes[l];
    memset(note, 0, sizeof notes[l]);
    noted(a, block, l, s, -1.0 - (double)number(a, block, l));
    modes(p, l, note + 2 + NW);
    any |= hit[l] = struck(a, &m, s->w, p, l, touching[l], note + 2 + NW + 2 * MODES);
    note[0] = cause[l];
    note[1] = hit[l] > 0;
    for (int i = 0; i < NW; ++i) note[2 + i] = s->w[i][l];
  }
  for (int round = 0; round < ROUNDS; ++round) { /* a law that feels contacts may act otherwise in the new modes */
    int felt = 0;
    if (any || round) met(s, p, &m);
    EACH(l) if (event[l]) {
      if (!round) asked(a, &m, p, l, touching[l], cause[l], hit[l], &asks[l]);
      for (int j = 0; j < ROWS; ++j) asks[l].b[j] = asks[l].G[j][j] > 0.0 ? m.b[j][l] : 0.0;
      asks[l].size = fmax(largest(asks[l].b, ROWS), 1e-12);
      const int doubt = solved(&asks[l], &gives[l], 1) || hit[l] > 1;
      taken(&m, &asks[l], &gives[l], p, l);
      if (!round) doubts[l] += doubt;
      for (int i = 0; i < ELEMENTS; ++i) felt |= FELT(i) != CLOSED(i), FELT(i) = CLOSED(i);
    }
    if (!FEELS || !felt) break;
  }
  if (ELEMENTS > 1) spread(s, p, event, asks, gives);
  EACH(l) if (event[l]) calmed(&m, &asks[l], p, l, s->w);
  EACH(l) if (event[l] && a->events) {
    const long long lane = block * LANES + l, k = a->happened[lane]++;
    modes(p, l, notes[l] + 2 + NW + MODES);
    if (k < a->event_room)
      for (int i = 0; i < EVENT; ++i) a->events[((block * a->event_room + k) * EVENT + i) * LANES + l] = notes[l][i];
  }
  after = *s;
  arrived(&after, p);
  EACH(l) if (event[l]) copied(s, &after, l);
  EACH(l) for (int i = 0; i < ELEMENTS && ends[l]; ++i) ends[l] = (mode(p, l, i) & a->ends[ELEMENTS + i]) != 0;
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

typedef struct {
  long long todo;         /* steps that are left */
  double left, trial, pace; /* s of this step, s that are tried next, s that were right for the error */
  double low, high, g_low, g_high;
  int target, tries, side, events; /* guard that is being located, NEVER if none; on which side the last trial was */
} Clock;

static double slope(const State *s, int l, int which) {
  const int i = which / 2;
  return s->rate[UP(i)][l];
}

/* Look for the first guard that fell below zero in a trial; 0 if there is none, and the trial stands. */
static int located(Clock *c, const State *now, const State *next, const V *p, int l, double weight) {
  double first = 2.0, fine, g0, g1;
  int found = NEVER;
  for (int which = 0; which < GUARDS; ++which) {
    const int cubic = which < 2 * ELEMENTS && which % 2 == 0 && CLOSED(which / 2) == 0.0;
    g1 = guard(next, p, l, which, weight, &fine);
    if (!(g1 < -fine)) continue;
    g0 = fmax(guard(now, p, l, which, weight, &fine), 0.0);
    const double d0 = cubic ? c->trial * slope(now, l, which) : 0.0, d1 = cubic ? c->trial * slope(next, l, which) : 0.0;
    double low = 0.0;
    const double at = crossing(&g0, g1, d0, d1, cubic, fine, &low);
    if (at < first) {
      first = at;
      found = which;
      c->low = c->trial * low;
      c->g_low = g0;
      c->g_high = g1;
    }
  }
  if (found == NEVER) return 0;
  c->target = found;
  c->high = c->trial;
  c->trial *= first;
  c->tries = c->side = 0;
  return 1;
}

/* The next trial of a guard that is being located, by false position; 1 when the last one is on its surface. */
static int closer(Clock *c, const State *next, const V *p, int l, double weight) {
  double fine;
  const double g = guard(next, p, l, c->target, weight, &fine);
  if (fabs(g) <= fine || ++c->tries >= TRIES || c->high - c->low < 1e-15) return 1;
  const int side = g < 0.0 ? -1 : 1;
  if (side < 0) {
    c->high = c->trial;
    c->g_high = g;
    if (c->side == side) c->g_low /= 2.0;
  } else {
    c->low = c->trial;
    c->g_low = g;
    if (c->side == side) c->g_high /= 2.0;
  }
  c->side = side;
  c->trial = c->low + (c->high - c->low) * c->g_low / (c->g_low - c->g_high);
  return 0;
}

static void turned(const State *s, V *p, int l) {
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row;
    if (elements[i].slips < 2 || CLOSED(i) == 0.0 || HELD(i)) continue;
    const double x = s->rate[t][l], y = s->rate[t + 1][l], speed = sqrt(x * x + y * y);
    if (speed > STARTS(i) / 2) DIRECTION(i, 0) = x / speed, DIRECTION(i, 1) = y / speed;
  }
}

/* Speed (m/s) of a slip in 3D up to which it keeps its first direction. A slip finds its direction the quicker the slower it is,
   with parts of steps as short: coarser tolerances leave out more of that. */
static double young(double tolerance) { return fmax(YOUNG, TOLERANCES * fmin(tolerance, COARSEST)); }

static void block(const Batch *a, long long k) {
  V *x = (V *)a->x + k * (NQ + NW + NZ), *p = (V *)a->p + k * NP;
  State now, next;
  Clock clocks[LANES];
  int event[LANES], cause[LANES], any = 0, running = 0;
  V start, dt;
  memset(&now, 0, sizeof now);
  now.t = ((V *)a->t)[k];
  memcpy(now.q, x, NQ * sizeof(V));
  memcpy(now.w, x + NQ, NW * sizeof(V));
  memcpy(now.z, x + NQ + NW, NZ * sizeof(V));
  next = now;
  for (int i = 0; i < ELEMENTS; ++i)
    if (elements[i].slips > 1) p[elements[i].starts] = v_all(young(a->tolerance));
  arrived(&next, p);
  memcpy(next.q, now.q, sizeof now.q);
  memcpy(next.w, now.w, sizeof now.w);
  now = next;
  EACH(l) {
    const int lane = (int)(k * LANES) + l;
    Clock *c = &clocks[l];
    memset(c, 0, sizeof *c);
    c->todo = a->over[lane] ? 0 : a->times;
    c->target = NEVER;
    c->left = c->trial = c->todo ? a->step : 0.0;
    event[l] = a->fresh[lane] && c->todo;
    cause[l] = NEVER;
    if (c->todo && located(c, &now, &now, p, l, a->weight)) event[l] = 1;
    c->target = NEVER;
    c->trial = c->pace = c->left;
    if (c->todo) a->fresh[lane] = 0;
    any |= event[l];
    running |= c->todo > 0;
  }
  start = now.t;
  while (running) {
    int all = 1;
    if (any) {
      int ends[LANES];
      changed(a, k, &now, p, event, cause, ends);
      EACH(l) if (ends[l]) a->over[k * LANES + l] = 1, clocks[l].todo = 0;
    }
    any = 0;
    EACH(l) dt[l] = clocks[l].todo ? clocks[l].trial : 0.0;
    const V error = attempt(&now, p, dt, &next);
    int accepted[LANES];
    EACH(l) {
      Clock *c = &clocks[l];
      event[l] = accepted[l] = 0;
      cause[l] = NEVER;
      if (!c->todo) {
        all = 0;
        continue;
      }
      if (c->target == NEVER && !(error[l] <= a->tolerance) && c->trial > SHORTEST * a->step) {
        all = 0;
        c->pace = c->trial *= fmax(0.2, 0.9 * pow(a->tolerance / error[l], 0.25));
        continue;
      }
      if (!isfinite(error[l])) {
        all = 0;
        a->over[k * LANES + l] = 2;
        c->todo = 0;
        continue;
      }
      if (c->target == NEVER) {
        const int found = located(c, &now, &next, p, l, a->weight);
        if (found && c->events < EVENTS) {
          if (c->trial > 1e-12 * a->step) { all = 0; continue; }
          event[l] = 1;  /* at the very start: nothing moves before it */
        } else if (found) {
          c->events = EVENTS + 1;
          c->trial = c->high;
          c->target = NEVER;
        }
        accepted[l] = !event[l];
      } else if (closer(c, &next, p, l, a->weight)) {
        accepted[l] = event[l] = 1;
      } else {
        all = 0;
        continue;
      }
      if (event[l]) {
        cause[l] = c->target;
        ++c->events;
        any = 1;
      }
      all &= accepted[l];
    }
    EACH(l) if (accepted[l]) noted(a, k, l, &now, clocks[l].trial);
    if (all) now = next;
    running = 0;
    EACH(l) {
      Clock *c = &clocks[l];
      const int lane = (int)(k * LANES) + l;
      if (accepted[l]) {
        if (!all) copied(&now, &next, l);
        turned(&now, p, l);
        c->left -= c->trial;
        if (c->target == NEVER) c->pace = fmax(c->pace, c->trial * fmin(4.0, 0.9 * pow(a->tolerance / (error[l] + 1e-300), 0.25)));
        if (c->target == NEVER && c->left <= 1e-9 * a->step) {
          --c->todo;
          ++a->steps[lane];
          now.t[l] = start[l] + (double)(a->times - c->todo) * a->step;
          a->doubts[lane] += c->events > EVENTS;
          c->events = 0;
          c->left = a->step;
          a->over[lane] = !(now.open[0][l] <= CLOSURE) ? 2 : now.over[0][l] > 0.0;
          if (a->over[lane]) c->todo = 0;
        }
      }
      if (accepted[l] || event[l]) {
        c->target = NEVER;
        c->trial = c->pace < 0.99 * c->left ? fmin(c->pace, c->left / 2) : c->left;
      }
      running |= c->todo > 0;
    }
  }
  ((V *)a->t)[k] = now.t;
  memcpy(x, now.q, NQ * sizeof(V));
  memcpy(x + NQ, now.w, NW * sizeof(V));
  memcpy(x + NQ + NW, now.z, NZ * sizeof(V));
  report(
      now.t, now.q, now.w, now.z, p, now.force, (V *)a->v + k * NV, (V *)a->contact + k * 3 * ELEMENTS,
      (V *)a->measured + k * MEASURES);
}

int saltus_lanes(void) { return LANES; }

/* How many copies were given actions that are not finite; these stand still. */
int saltus_step(const Batch *a, long long first, long long last) {
  int wrong = 0;
  for (long long k = first; k < last; ++k) {
    const double *given = a->p + (k * NP + ACTION) * LANES;
    for (int i = 0; i < ACTIONS * LANES; ++i)
      if (!isfinite(given[i]) && !a->over[k * LANES + i % LANES]) a->over[k * LANES + i % LANES] = 2, ++wrong;
    block(a, k);
  }
  return wrong;
}
