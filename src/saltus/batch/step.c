/* Steps of many copies at once: one copy per lane, each with its own clock, modes and events.

   A step is one of Runge and Kutta's, of fourth order. Where a guard of a copy falls below zero within it (a foot reaches
   the ground, a ground pulls, friction gives way, a slip ends), the step is repeated with the length that ends on
   the guard's surface, the impact and the new modes are found, and the rest of the step follows. */

#define SIZE(n) ((n) > 0 ? (n) : 1)
#define NEVER (-1)
#define CLOSED(i) p[elements[i].p][l]
#define STICK(i) p[elements[i].p + 1][l]
#define FELT(i) p[elements[i].p + 2][l]
#define FRICTION(i) p[elements[i].p + 3][l]
#define STATIC(i) p[elements[i].p + 4][l]
#define DIRECTION(i, k) p[elements[i].p + 5 + (k)][l]
#define ANCHOR(i, k) p[elements[i].p + 5 + elements[i].slips + (k)][l]
#define RESTITUTION(i) p[RESTITUTIONS + (i)][l]

static const double CLOSURE = 1e-9;    /* m: loops are closed to this after every step */
static const double TOUCHING = 1e-9;   /* m: a contact so near touches */
static const double NEAR = 1e-10;      /* m, m/s: events are located to this */
static const double PRESSED = 1e-7;    /* of the weight: and to this where a force decides */
static const double REST = 2e-5;       /* m/s: a contact that is pressed and leaves more slowly stays */
static const double STILL = 1e-8;      /* m/s: slower than this nothing slips */
static const double GAINS = 1e-9;      /* of the energy of approach: an impact that gains more is not one */
static const double SHORTEST = 1.0 / 1024; /* of a step: its parts are not shorter, whatever their error */
enum { ROUNDS = 4, EVENTS = 8, TRIES = 20, SWEEPS = 1000, TURNS = 60, HALVINGS = 40 };

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
  double *entries, *events;  /* [block][room][fields][lane], what happened, for derivatives; NULL if nobody asks */
  long long *written, *happened; /* [block][lane] how many there are; beyond the room they are counted, not kept */
  long long room, event_room;
} Batch;

/* An entry: what it is (s of a part of a step, or -1 less the number of an event), its time, the state before it. */
#define ENTRY (2 + NQ + NW + NZ)
/* An event: guard, whether there was an impact, w after it; of every contact closed, stick and direction before, after, and
   at the impact; share of the speed with which it bounced. */
#define MODES (4 * ELEMENTS)
#define EVENT (2 + NW + 3 * MODES + ELEMENTS)

typedef struct {
  V t, q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)];
  V q_dot[SIZE(NQ)], w_dot[SIZE(NW)], z_dot[SIZE(NZ)];
  V force[SIZE(ROWS)], gap[SIZE(ELEMENTS)], rate[SIZE(ROWS)], over[1], open[1];
} State;

typedef struct {
  V G[SIZE(ROWS * ROWS)], b[SIZE(ROWS)], Y[SIZE(NW * ROWS)], hold[SIZE(HOLDS)], u[SIZE(ROWS)];
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
  arrive(s->t, q, w, s->z, p, s->q, s->w, s->q_dot, s->w_dot, s->z_dot, s->force, s->gap, s->rate, s->over, s->open);
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

/* ---- guards: two per contact, above zero while its mode lasts -------------------------------------------------------- */

static double guard(const State *s, const V *p, int l, int which, double weight, double *fine) {
  const int i = which / 2, row = elements[i].row, slips = elements[i].slips;
  double along = 0.0, size = 1.0;
  *fine = NEAR;
  if (which % 2 == 0) {
    if (!elements[i].normal) return 1.0;
    if (CLOSED(i) == 0.0) return s->gap[i][l];
    *fine = PRESSED * weight;
    return s->force[row + slips][l];
  }
  if (!slips || CLOSED(i) == 0.0) return 1.0;
  if (STICK(i) == 0.0) {
    for (int k = 0; k < slips; ++k) along += s->rate[row + k][l] * DIRECTION(i, k);
    return along;
  }
  for (int k = 0; k < slips; ++k) along += s->force[row + k][l] * s->force[row + k][l];
  if (elements[i].normal) size = s->force[row + slips][l];
  *fine = PRESSED * (elements[i].normal ? weight : STATIC(i));
  return STATIC(i) * size - sqrt(along);
}

/* Share of a step after which a guard reaches zero, of a gap by the cubic that has its rates at both ends too. */
static double crossing(double g0, double g1, double d0, double d1, int cubic) {
  double s = g0 / (g0 - g1);
  if (!cubic) return s;
  for (int k = 0; k < 6; ++k) {
    const double a = 2.0 * (g0 - g1) + d0 + d1, b = 3.0 * (g1 - g0) - 2.0 * d0 - d1;
    const double value = ((a * s + b) * s + d0) * s + g0, slope = (3.0 * a * s + 2.0 * b) * s + d0;
    const double next = s - value / slope;
    if (!(next > 0.0 && next < 1.0)) break;
    s = next;
  }
  return s;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

typedef struct {
  int active, rough;  /* takes part; may stick */
  double limit, friction, way[2], bounce;
} Law;

static double motion(const Meeting *m, int l, const double *b, const double *f, int row) {
  double out = b[row];
  for (int j = 0; j < ROWS; ++j) out += m->G[row * ROWS + j][l] * f[j];
  return out;
}

/* Normal force of one contact that slips along `way`, and its motion along the face. Where the friction it causes presses it
   ever more, its laws have no solution or several (Painleve): that is noted. */
static double slipping(
    const double G[3][3], const double *b, int slips, double friction, const double *way, double *w, int *doubt) {
  const int n = slips;
  double across = G[n][n], f = 0.0;
  for (int k = 0; k < slips; ++k) across -= friction * way[k] * G[n][k];
  if (across <= 1e-9 * G[n][n]) {
    *doubt = 1;
    across = G[n][n];
  }
  f = fmax(0.0, -b[n] / across);
  for (int i = 0; i < slips; ++i) {
    w[i] = b[i] + G[i][n] * f;
    for (int k = 0; k < slips; ++k) w[i] -= G[i][k] * friction * f * way[k];
  }
  return f;
}

/* Solve the first n of three equations, without pivoting: mobilities are positive definite. */
static void solved(const double G[3][3], const double *b, int n, double *x) {
  double A[3][3];
  memcpy(A, G, sizeof A);
  for (int i = 0; i < n; ++i) x[i] = -b[i];
  for (int k = 0; k < n; ++k)
    for (int i = k + 1; i < n; ++i) {
      const double share = A[i][k] / A[k][k];
      for (int j = k; j < n; ++j) A[i][j] -= share * A[k][j];
      x[i] -= share * x[k];
    }
  for (int k = n - 1; k >= 0; --k) {
    for (int j = k + 1; j < n; ++j) x[k] -= A[k][j] * x[j];
    x[k] /= A[k][k];
  }
}

/* Forces f of one contact with motions w = G f + b: sticks if it can, else slips against w, or is open. */
static void alone(const double G[3][3], const double *b, int slips, int normal, const Law *law, double *f, int *doubt) {
  double w[2], way[2] = {law->way[0], law->way[1]}, size = 1.0, length = 0.0;
  if (!law->rough) {
    if (normal) size = slipping(G, b, slips, law->friction, way, w, doubt);
    for (int k = 0; k < slips; ++k) f[k] = -law->friction * size * way[k];
    if (normal) f[slips] = size;
    return;
  }
  solved(G, b, slips + normal, f);
  if (normal) size = f[slips];
  for (int k = 0; k < slips; ++k) length += f[k] * f[k];
  length = sqrt(length);
  if (length <= law->limit * size) return;
  for (int k = 0; k < slips; ++k) way[k] = -f[k] / length;
  if (!normal) size = 1.0;
  else if (slips == 1) { /* the way along which it then moves; the other one where this fails */
    size = slipping(G, b, 1, law->limit, way, w, doubt);
    if (w[0] * way[0] < 0.0) way[0] = -way[0], size = slipping(G, b, 1, law->limit, way, w, doubt);
  } else
    for (int turn = 0; turn < TURNS; ++turn) {
      double change = 0.0;
      size = slipping(G, b, 2, law->limit, way, w, doubt);
      length = sqrt(w[0] * w[0] + w[1] * w[1]);
      for (int k = 0; k < 2 && length > 0.0; ++k) {
        change = fmax(change, fabs(w[k] / length - way[k]));
        way[k] = w[k] / length;
      }
      if (change < 1e-14) break;
    }
  for (int k = 0; k < slips; ++k) f[k] = -law->limit * size * way[k];
  if (normal) f[slips] = size;
}

/* Forces of all contacts that take part, w = G f + b, contact by contact until none of them changes; 1 if they are in doubt. */
static int forces(const Meeting *m, int l, const double *b, const Law *laws, double *f) {
  int doubt = 0;
  for (int j = 0; j < ROWS; ++j) f[j] = 0.0;
  for (int sweep = 0; sweep < SWEEPS; ++sweep) {
    double change = 0.0, largest = 1e-300;
    int active = 0;
    for (int i = 0; i < ELEMENTS; ++i) {
      const int t = elements[i].row, slips = elements[i].slips, n = slips + elements[i].normal;
      double G[3][3] = {{0.0}}, own[3] = {0.0}, before[3] = {0.0};
      if (!laws[i].active) continue;
      ++active;
      for (int k = 0; k < n; ++k) {
        before[k] = f[t + k];
        f[t + k] = 0.0;
        for (int j = 0; j < n; ++j) G[k][j] = m->G[(t + k) * ROWS + t + j][l];
      }
      for (int k = 0; k < n; ++k) own[k] = motion(m, l, b, f, t + k);
      alone(G, own, slips, elements[i].normal, &laws[i], f + t, &doubt);
      for (int k = 0; k < n; ++k) {
        change = fmax(change, fabs(f[t + k] - before[k]));
        largest = fmax(largest, fabs(f[t + k]));
      }
    }
    if (active < 2 || change <= 1e-15 * largest) return doubt;
  }
  return 1;
}

static void modes(const V *p, int l, double *out) {
  for (int i = 0; i < ELEMENTS; ++i) {
    out[4 * i] = CLOSED(i);
    out[4 * i + 1] = STICK(i);
    for (int k = 0; k < 2; ++k) out[4 * i + 2 + k] = k < elements[i].slips ? DIRECTION(i, k) : 0.0;
  }
}

/* Moreau's law at all contacts that touch; the share of restitution is lowered until no energy is gained. 0: there was no
   impact, 2: its impulses are in doubt. */
static int struck(const Meeting *m, V *w, const V *p, int l, const int *touching, double rest, double *note) {
  double u[SIZE(ROWS)], b[SIZE(ROWS)], f[SIZE(ROWS)], fastest = 0.0, low = 0.0, high = 1.0, share = 1.0, bounces = 0.0;
  Law laws[SIZE(ELEMENTS)] = {{0}};
  int hit = 0, doubt = 0;
  for (int j = 0; j < ROWS; ++j) u[j] = m->u[j][l], fastest = fmax(fastest, fabs(u[j]));
  for (int i = 0; i < ELEMENTS; ++i) {
    const double speed = -u[elements[i].row + elements[i].slips];
    if (!touching[i]) continue;
    laws[i].active = 1;
    laws[i].rough = elements[i].slips > 0;
    laws[i].limit = FRICTION(i);
    laws[i].bounce = RESTITUTION(i) * speed > rest ? RESTITUTION(i) : 0.0;
    bounces += laws[i].bounce;
    hit |= speed > 1e-9 * (1.0 + fastest);
  }
  if (!hit) return 0;
  for (int k = 0; k <= HALVINGS; ++k) {
    double gained = 0.0, lost = 0.0;
    memcpy(b, u, sizeof b);
    for (int i = 0; i < ELEMENTS; ++i)
      if (touching[i]) b[elements[i].row + elements[i].slips] *= 1.0 + share * laws[i].bounce;
    doubt = forces(m, l, b, laws, f);
    for (int j = 0; j < ROWS; ++j) {
      gained += f[j] * (u[j] + motion(m, l, u, f, j)) / 2.0;
      lost += fabs(f[j] * u[j]);
    }
    if (k == 0 && (gained <= GAINS * lost || bounces == 0.0)) break;
    if (k > 0 && gained <= 0.0) low = share;
    if (k > 0 && gained > 0.0) high = share;
    share = k == HALVINGS - 1 ? low : (low + high) / 2.0;
  }
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    const double size = elements[i].normal ? f[t + slips] : 0.0;
    double length = 0.0;
    for (int k = 0; k < slips; ++k) length += f[t + k] * f[t + k];
    length = sqrt(length);
    note[4 * i] = touching[i] && size > 0.0;
    note[4 * i + 1] = note[4 * i] != 0.0 && slips && length < laws[i].limit * size * (1.0 - 1e-9);
    for (int k = 0; k < 2; ++k) note[4 * i + 2 + k] = k < slips && length > 0.0 ? -f[t + k] / length : 0.0;
    note[MODES + i] = share * laws[i].bounce;
  }
  for (int i = 0; i < NW; ++i)
    for (int j = 0; j < ROWS; ++j) w[i][l] += m->Y[i * ROWS + j][l] * f[j];
  return 1 + doubt;
}

/* Modes that the accelerations ask for. `cause` is the guard on whose surface this is, NEVER if none: a slip has ended
   there, and a force that has fallen to its limit counts as beyond it. */
static int settled(const Meeting *m, V *p, int l, const int *touching, int cause, int hit, double weight) {
  double b[SIZE(ROWS)], f[SIZE(ROWS)], largest = 0.0;
  Law laws[SIZE(ELEMENTS)] = {{0}};
  for (int j = 0; j < ROWS; ++j) b[j] = m->b[j][l];
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    double speed = 0.0;
    for (int k = 0; k < slips; ++k) speed += m->u[t + k][l] * m->u[t + k][l];
    speed = sqrt(speed);
    laws[i].active = !elements[i].normal || (touching[i] && fabs(m->u[t + slips][l]) <= REST);
    laws[i].rough = slips > 0 && ((CLOSED(i) != 0.0 && STICK(i) != 0.0 && !hit) || cause == 2 * i + 1 || speed <= STILL);
    laws[i].limit = STATIC(i);
    laws[i].friction = FRICTION(i);
    for (int k = 0; k < slips; ++k) laws[i].way[k] = laws[i].rough ? 0.0 : m->u[t + k][l] / speed;
  }
  const int doubt = forces(m, l, b, laws, f);
  for (int j = 0; j < ROWS; ++j) largest = fmax(largest, fabs(f[j]));
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    const double size = elements[i].normal ? f[t + slips] : 1.0;
    const double fine = cause / 2 == i && cause != NEVER ? 2.0 * PRESSED * (elements[i].normal ? weight : STATIC(i)) : 0.0;
    double length = 0.0;
    for (int k = 0; k < slips; ++k) length += f[t + k] * f[t + k];
    length = sqrt(length);
    CLOSED(i) = laws[i].active && (!elements[i].normal || size > fmax(1e-12 * largest, fine));
    STICK(i) = CLOSED(i) != 0.0 && laws[i].rough && length < laws[i].limit * size * (1.0 - 1e-7) - fine;
    for (int k = 0; k < slips; ++k) {
      DIRECTION(i, k) = !laws[i].rough ? laws[i].way[k] : length > 0.0 ? -f[t + k] / length : 0.0;
      ANCHOR(i, k) = m->hold[elements[i].hold + k][l];
    }
  }
  return doubt;
}

static void met(const State *s, const V *p, Meeting *m) {
  meet(s->t, s->q, s->w, s->z, p, m->G, m->b, m->Y, m->hold, m->u);
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

/* Impacts and new modes of the lanes whose `event` is set; their state and its rates are then those after
   it. Doubts about them are counted. */
static void changed(const Batch *a, long long block, State *s, V *p, const int *event, const int *cause) {
  Meeting m;
  State after;
  const double rest = a->rest, weight = a->weight;
  long long *doubts = a->doubts + block * LANES;
  double notes[LANES][EVENT];
  int hit[LANES] = {0}, any = 0, touching[LANES][SIZE(ELEMENTS)] = {{0}};
  met(s, p, &m);
  EACH(l) if (event[l]) {
    for (int i = 0; i < ELEMENTS; ++i)
      touching[l][i] = elements[i].normal && (CLOSED(i) != 0.0 || s->gap[i][l] <= TOUCHING);
    double *note = notes[l];
    memset(note, 0, sizeof notes[l]);
    noted(a, block, l, s, -1.0 - (double)number(a, block, l));
    modes(p, l, note + 2 + NW);
    any |= hit[l] = struck(&m, s->w, p, l, touching[l], rest, note + 2 + NW + 2 * MODES);
    note[0] = cause[l];
    note[1] = hit[l] > 0;
    for (int i = 0; i < NW; ++i) note[2 + i] = s->w[i][l];
  }
  for (int round = 0; round < ROUNDS; ++round) { /* a law that feels contacts may act otherwise in the new modes */
    int felt = 0;
    if (any || round) met(s, p, &m);
    EACH(l) if (event[l]) {
      const int doubt = settled(&m, p, l, touching[l], cause[l], hit[l], weight) || hit[l] > 1;
      if (!round) doubts[l] += doubt;
      for (int i = 0; i < ELEMENTS; ++i) felt |= FELT(i) != CLOSED(i), FELT(i) = CLOSED(i);
    }
    if (!FEELS || !felt) break;
  }
  EACH(l) if (event[l] && a->events) {
    const long long lane = block * LANES + l, k = a->happened[lane]++;
    modes(p, l, notes[l] + 2 + NW + MODES);
    if (k < a->event_room)
      for (int i = 0; i < EVENT; ++i) a->events[((block * a->event_room + k) * EVENT + i) * LANES + l] = notes[l][i];
  }
  after = *s;
  arrived(&after, p);
  EACH(l) if (event[l]) copied(s, &after, l);
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
  return s->rate[elements[i].row + elements[i].slips][l];
}

/* Look for the first guard that fell below zero in a trial; 0 if there is none, and the trial stands. */
static int located(Clock *c, const State *now, const State *next, const V *p, int l, double weight) {
  double first = 2.0, fine, g0, g1;
  int found = NEVER;
  for (int which = 0; which < 2 * ELEMENTS; ++which) {
    const int cubic = which % 2 == 0 && CLOSED(which / 2) == 0.0;
    g1 = guard(next, p, l, which, weight, &fine);
    if (!(g1 < -fine)) continue;
    g0 = fmax(guard(now, p, l, which, weight, &fine), 0.0);
    const double d0 = cubic ? c->trial * slope(now, l, which) : 0.0, d1 = cubic ? c->trial * slope(next, l, which) : 0.0;
    const double at = crossing(g0, g1, d0, d1, cubic);
    if (at < first) {
      first = at;
      found = which;
      c->g_low = g0;
      c->g_high = g1;
    }
  }
  if (found == NEVER) return 0;
  c->target = found;
  c->low = 0.0;
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
    if (elements[i].slips < 2 || CLOSED(i) == 0.0 || STICK(i) != 0.0) continue;
    const double x = s->rate[t][l], y = s->rate[t + 1][l], speed = sqrt(x * x + y * y);
    if (speed > STILL) DIRECTION(i, 0) = x / speed, DIRECTION(i, 1) = y / speed;
  }
}

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
    if (any) changed(a, k, &now, p, event, cause);
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

void saltus_step(const Batch *a, long long first, long long last) {
  for (long long k = first; k < last; ++k) block(a, k);
}
