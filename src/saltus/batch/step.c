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
#define SPRING(i) p[SPRINGS + 2 * (i)][l] /* N/m, of soft contacts */
#define DAMPER(i) p[SPRINGS + 2 * (i) + 1][l] /* s/m */
#define STARTS(i) p[elements[i].starts][l] /* m/s: up to this a slip in 3D has the direction it started in, and has ended where it turns back */
#define GROUND(i, k) p[elements[i].p + 6 + 2 * elements[i].slips + (k)][l] /* point, normal, corner and within of its patch */
#define UP(i) (elements[i].row + (elements[i].normal ? elements[i].slips : 0)) /* row of its normal; of what has none, its first */
#define SIDE(c) p[SIDES + (c)][l] /* of a kink: 0 as it comes, -FAR_SIDE or FAR_SIDE as it is kept */
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
static const double FAR_SIDE = 1e300;  /* of what kinks compare: beyond all of it */
static const double SHARED = 1e-13;    /* of the mobility of a contact row: rows that depend on each other share their forces */
enum { ROUNDS = 4, EVENTS = 8, TRIES = 20 };

typedef struct {
  double step, tolerance, rest, weight; /* s, error of a part of a step, m/s below which nothing bounces, N */
  long long times;
  double *t;                 /* [block][lane] */
  double *x;                 /* [block][q, w, z][lane] */
  double *p;                 /* [block][parameters][lane] */
  double *v, *contact, *measured; /* [block][...][lane], at the end */
  long long *steps;          /* [block][lane] since the last reset */
  int *over;                 /* [block][lane] 1: has ended, 2: its loops are open or passed a dead centre, or its numbers are not finite; stands still */
  int *fresh;                /* [block][lane] 1: the modes are to be found */
  double *losses;            /* [block][2][lane] J that impacts took since the last reset, and at the last event; or NULL */
  long long *doubts;         /* [block][lane] events that other forces might have followed, steps with too many events */
  const double *land;        /* [patch][PATCH] of all grounds: point, normal, friction, corner, within, second patch */
  const long long *land_from, *land_to; /* [block][lane] the patches of a copy's own ground */
  const int *ends;           /* [2][contact] modes (1 open, 2 stick, 4 slip) before and after an event that ends a copy; or NULL */
  double *entries, *events;  /* [block][lane][room][fields], what happened, for derivatives; NULL if nobody asks */
  long long *written, *happened; /* [block][lane] how many there are; beyond the room they are counted, not kept */
  long long room, event_room;
} Batch;

/* An entry: what it is (s of a part of a step, or -1 less the number of an event), its time, the state before it. */
#define ENTRY (2 + NQ + NW + NZ)
/* An event: guard, whether there was an impact, w after it; of every contact closed, stick, direction, friction and whether
   others hold it, and the sides of kinks, before, after, and at the impact; share of the speed with which it bounced. */
#define MODE 6
#define MODES (MODE * ELEMENTS + KINKS)
#define EVENT (2 + NW + 3 * MODES + ELEMENTS)

typedef struct {
  V t, q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)];
  V q_dot[SIZE(NQ)], w_dot[SIZE(NW)], z_dot[SIZE(NZ)];
  V force[SIZE(ROWS)], gap[SIZE(ELEMENTS)], rate[SIZE(ROWS)], inside[SIZE(PATCHED * ELEMENTS)];
  V kink[SIZE(KINKS)], over[1], open[1], volume[SIZE(VOLUMES)]; /* the last change sign at dead centres of the loops */
  V face[SIZE(SOFTS * ELEMENTS)]; /* m/s: see `faces` */
} State;

#define WIDTH (SIZE(LINES) + SIZE(LINES) % 2) /* columns are solved for in pairs */

/* What a state does by itself: rates with no hard contact held, H = (1 + L)' D (1 + L) with the inverse of D, and of the lines
   along which contacts act A = d rate / d w and their accelerations but for A w'; forces of rows that nothing holds, of a hard
   contact that slips by its normal force; how far rows are from where they are held, their places, and those of feet. */
typedef struct {
  V w_dot[SIZE(NW)], L[SIZE(NW * (NW - 1) / 2)], D[SIZE(NW)], A[SIZE(LINES * NW)], turn[SIZE(LINES)], push[SIZE(ROWS)];
  V off[SIZE(ROWS)], hold[SIZE(HOLDS)], place[SIZE(2 * PATCHED * ELEMENTS)];
} Flow;

/* Lines that modes hold in some lane: how many, which, the weight of their rows, and whose friction acts. */
typedef struct {
  int n, line[SIZE(LINES)], slips[SIZE(LINES)], sliding;
  V weight[SIZE(ROWS)], some; /* some: a lane has one at all */
} Holds;

/* What an event needs of all lines that touch in some lane: how they move without hard contacts, how w answers to forces along
   them, and their mobility; `at` is the place of a line among them. */
typedef struct {
  Flow flow;
  State here;
  int n, line[SIZE(LINES)], at[SIZE(LINES)];
  V Y[SIZE(NW)][WIDTH], G[SIZE(LINES)][SIZE(LINES)], b[SIZE(LINES)];
} Meeting;

/* ---- the flow ---------------------------------------------------------------------------------------------------- */

static void moved(const State *from, const V *dq, const V *dw, const V *dz, V dt, V *q, V *w, V *z) {
  for (int i = 0; i < NQ; ++i) q[i] = from->q[i] + dt * dq[i];
  for (int i = 0; i < NW; ++i) w[i] = from->w[i] + dt * dw[i];
  for (int i = 0; i < NZ; ++i) z[i] = from->z[i] + dt * dz[i];
}

static void flows(const V *p, V t, const V *q, const V *w, const V *z, Flow *f, State *out) {
  flow(t, q, w, z, p, out->q_dot, f->w_dot, out->z_dot, f->L, f->D, f->A, f->turn, f->push, f->off, f->hold, f->place,
       out->gap, out->rate, out->inside, out->kink, out->over);
}

/* What w does under forces: H \ X of n columns, in their place; two at a time, so that L is read once for both. */
static void respond_to(const Flow *f, V X[SIZE(NW)][WIDTH], int n) {
  for (int j = 0; j < n; j += 2) {
    for (int i = NW - 1; i >= 0; --i) {
      V one = X[i][j], two = X[i][j + 1];
      for (int k = NW - 1; k > i; --k) {
        const V share = f->L[k * (k - 1) / 2 + i];
        one -= share * X[k][j];
        two -= share * X[k][j + 1];
      }
      X[i][j] = one;
      X[i][j + 1] = two;
    }
    for (int k = 0; k < NW; ++k) {
      V one = X[k][j] * f->D[k], two = X[k][j + 1] * f->D[k];
      for (int i = 0; i < k; ++i) {
        const V share = f->L[k * (k - 1) / 2 + i];
        one -= share * X[i][j];
        two -= share * X[i][j + 1];
      }
      X[k][j] = one;
      X[k][j + 1] = two;
    }
  }
}

/* How w answers to forces along n lines, and the mobility of these. */
static void mobility(const Flow *f, const int *line, int n, V Y[SIZE(NW)][WIDTH], V G[SIZE(LINES)][SIZE(LINES)]) {
  for (int k = 0; k < NW; ++k) {
    for (int j = 0; j < n; ++j) Y[k][j] = f->A[line[j] * NW + k];
    if (n % 2) Y[k][n] = v_all(0.0);
  }
  respond_to(f, Y, n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; j += 2) {
      V one = v_all(0.0), two = v_all(0.0);
      for (int k = 0; k < NW; ++k) {
        const V own = f->A[line[i] * NW + k];
        one += own * Y[k][j];
        two += own * Y[k][j + 1];
      }
      G[i][j] = G[j][i] = one;
      if (j < i) G[i][j + 1] = G[j + 1][i] = two;
    }
}

static int any_of(V x) {
  int out = 0;
  EACH(l) out |= x[l] != 0.0;
  return out;
}

static void holds(const V *p, Holds *h) {
  h->n = h->sliding = 0;
  h->some = v_all(0.0);
  for (int i = 0; i < ELEMENTS; ++i) {
    const V closed = elements[i].soft ? v_all(0.0) : p[elements[i].p], held = closed * p[elements[i].p + 1];
    for (int k = 0; k < elements[i].slips; ++k) h->weight[elements[i].row + k] = held;
    if (elements[i].normal) h->weight[elements[i].row + elements[i].slips] = closed;
  }
  for (int j = 0; j < LINES; ++j) {
    V weight = h->weight[lines[j].row];
    if (lines[j].twin != NEVER) weight += h->weight[lines[j].twin];
    if (!any_of(weight)) continue;
    h->some += weight;
    h->slips[h->n] = lines[j].slips && any_of(weight * (1.0 - p[elements[lines[j].element].p + 1]));
    h->sliding |= h->slips[h->n];
    h->line[h->n++] = j;
  }
}

/* K x = b of several b at once by elimination without pivots: lines are in the order of their contacts, normal ones last. */
static void eliminated(int n, V K[SIZE(LINES)][SIZE(LINES)], V x[SIZE(LINES)][3], int first, int last) {
  for (int k = 0; k < n; ++k) {
    K[k][k] = 1.0 / K[k][k];
    for (int i = k + 1; i < n; ++i) {
      const V share = K[i][k] * K[k][k];
      for (int j = k + 1; j < n; ++j) K[i][j] -= share * K[k][j];
      for (int c = first; c < last; ++c) x[i][c] -= share * x[k][c];
    }
  }
  for (int k = n - 1; k >= 0; --k)
    for (int c = first; c < last; ++c) {
      for (int j = k + 1; j < n; ++j) x[k][c] -= K[k][j] * x[j][c];
      x[k][c] *= K[k][k];
    }
}

/* Forces along the rows of all contacts and the accelerations with them. A contact with mode (closed, stick) has

     stick: A_t a = 0,    slip: f_t = -friction N d,    closed: A_n a = 0,    open: f_t = 0, N = 0,

   one small linear system, of lines that are held in some lane. With `shift` and `dw` also what puts rows onto their places and
   to rest, as changes of the independent coordinates and velocities: forces without friction. */
static void held_by(const Holds *h, const Flow *f, V *w_dot, V *force, const V *rate, V *shift, V *dw) {
  V Y[SIZE(NW)][WIDTH], Z[SIZE(NW)][WIDTH], G[SIZE(LINES)][SIZE(LINES)], K[SIZE(LINES)][SIZE(LINES)];
  V weight[SIZE(LINES)], x[SIZE(LINES)][3]; /* of accelerations, places, velocities */
  const int n = h->n, wanted = shift ? 3 : 1;
  for (int i = 0; i < ROWS; ++i) force[i] = v_all(0.0);
  for (int i = 0; i < ELEMENTS; ++i)
    for (int k = 0; k < elements[i].slips + elements[i].normal && (elements[i].soft || !elements[i].normal); ++k)
      force[elements[i].row + k] = f->push[elements[i].row + k];
  memcpy(w_dot, f->w_dot, NW * sizeof *w_dot);
  if (!n) return;
  mobility(f, h->line, n, Y, G);
  for (int i = 0; i < n; ++i) {
    const int line = h->line[i], row = lines[line].row, twin = lines[line].twin;
    V turn = f->turn[line];
    for (int k = 0; k < NW; ++k) turn += f->A[line * NW + k] * f->w_dot[k];
    weight[i] = h->weight[row];
    x[i][1] = -h->weight[row] * f->off[row];
    if (twin != NEVER) {
      weight[i] += h->weight[twin];
      x[i][1] += h->weight[twin] * f->off[twin];
    }
    x[i][0] = -weight[i] * turn;
    x[i][2] = -weight[i] * rate[row];
  }
  if (h->sliding) { /* a normal force of a contact that slips acts with its friction */
    int slip[SIZE(LINES)], m = 0;
    memset(Z, 0, sizeof Z);
    for (int j = 0; j < n; ++j)
      if (h->slips[j]) {
        const int row = lines[h->line[j]].row;
        for (int k = 0; k < NW; ++k)
          for (int c = 1; c <= lines[h->line[j]].slips; ++c) Z[k][m] += f->push[row - c] * f->A[(h->line[j] - c) * NW + k];
        slip[m++] = j;
      }
    respond_to(f, Z, m);
    for (int i = 0; i < n; ++i) memcpy(K[i], G[i], n * sizeof(V));
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < m; ++c)
        for (int k = 0; k < NW; ++k) K[i][slip[c]] += f->A[h->line[i] * NW + k] * Z[k][c];
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) K[i][j] = weight[i] * K[i][j] + (i == j ? 1.0 - weight[i] + SHARED * G[i][i] : v_all(0.0));
    eliminated(n, K, x, 0, 1);
    for (int k = 0; k < NW; ++k)
      for (int c = 0; c < m; ++c) w_dot[k] += Z[k][c] * x[slip[c]][0];
  }
  if (!h->sliding || shift) {
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) K[i][j] = weight[i] * G[i][j] + (i == j ? 1.0 - weight[i] + SHARED * G[i][i] : v_all(0.0));
    eliminated(n, K, x, h->sliding, wanted);
  }
  for (int j = 0; j < n; ++j) {
    const int line = h->line[j], row = lines[line].row, twin = lines[line].twin;
    force[row] += h->weight[row] * x[j][0];
    if (twin != NEVER) force[twin] -= h->weight[twin] * x[j][0];
    for (int c = 1; c <= lines[line].slips; ++c) force[row - c] += f->push[row - c] * x[j][0];
  }
  for (int k = 0; k < NW; ++k) {
    for (int j = 0; j < n; ++j) w_dot[k] += Y[k][j] * x[j][0];
    w_dot[k] = v_where(h->some != 0.0, w_dot[k], f->w_dot[k]); /* the same bits, whatever other lanes hold */
    if (!shift) continue;
    shift[k] = dw[k] = v_all(0.0);
    for (int j = 0; j < n; ++j) shift[k] += Y[k][j] * x[j][1], dw[k] += Y[k][j] * x[j][2];
  }
}

static void rates_of(const Holds *h, const V *p, V t, const V *q, const V *w, const V *z, V *dq, V *dw, V *dz) {
  Flow f;
  State at;
  flows(p, t, q, w, z, &f, &at);
  held_by(h, &f, dw, at.force, at.rate, NULL, NULL);
  memcpy(dq, at.q_dot, NQ * sizeof *dq);
  memcpy(dz, at.z_dot, NZ * sizeof *dz);
}

/* Whether a soft contact that slips has the direction it was given: in the plane, and in 3D while it is slow or goes back. */
static V given(const V *p, const V *rate, int i) {
  V along = v_all(0.0);
  if (elements[i].slips < 2) return v_all(1.0);
  for (int k = 0; k < 2; ++k) along += rate[k] * p[elements[i].p + 5 + k];
  return v_where(along < GROWN * p[elements[i].starts], v_all(1.0), v_all(0.0));
}

/* Speed of the face of a soft contact that slips: of its slip s what does not stretch its spring, which bears the friction at
   its limit, k y + k D h s = friction N d with its stretch y and depth h. */
static void faces(State *s, const Flow *f, const V *p) {
  for (int i = 0; i < ELEMENTS; ++i) {
    const int slips = elements[i].slips, row = elements[i].row, up = row + slips, own = elements[i].p;
    if (!elements[i].soft || !slips) continue;
    const V k = p[SPRINGS + 2 * i], D = p[SPRINGS + 2 * i + 1], h = -s->gap[i], sinks = -s->rate[up], is = given(p, s->rate + row, i);
    V a[3], speed = v_all(0.0);
    for (int j = 0; j <= slips; ++j) {
      a[j] = f->turn[elements[i].line + j];
      for (int n = 0; n < NW; ++n) a[j] += f->A[(elements[i].line + j) * NW + n] * s->w_dot[n];
      if (j < slips) speed += s->rate[row + j] * s->rate[row + j];
    }
    speed = v_sqrt(speed);
    const V loads = v_where(s->force[up] > 0.0, k * (sinks * (1.0 + D * sinks) - D * h * a[slips]), v_all(0.0));
    s->face[i] = -p[own + 3] * loads / k;
    for (int j = 0; j < slips; ++j) {
      const V way = v_where(is != 0.0, p[own + 5 + j], s->rate[row + j] / v_where(speed > 0.0, speed, v_all(1.0)));
      s->face[i] += way * (s->rate[row + j] + D * (sinks * s->rate[row + j] + h * a[j]));
    }
  }
}

/* The end of a step: the state on loops and contacts, its rates, and what guards are made of. */
static void arrived(State *s, const Holds *h, const V *p) {
  V q[SIZE(NQ)], shift[SIZE(NW)], dw[SIZE(NW)], open[1];
  Flow f;
  memcpy(q, s->q, sizeof q);
  settle(s->t, q, p, s->q, s->open, s->volume);
  flows(p, s->t, s->q, s->w, s->z, &f, s);
  held_by(h, &f, s->w_dot, s->force, s->rate, shift, dw);
  if (SOFTS) faces(s, &f, p);
  if (!h->n) return;
  displace(s->t, s->q, shift, p, q, open);
  s->open[0] = v_where(h->some != 0.0, open[0], s->open[0]);
  for (int i = 0; i < NQ; ++i) s->q[i] = v_where(h->some != 0.0, q[i], s->q[i]);
  for (int i = 0; i < NW; ++i) s->w[i] = v_where(h->some != 0.0, s->w[i] + dw[i], s->w[i]);
}

/* One step; returned is the larger of its errors: of positions, and of velocities as a share of one plus their size. The rates at
   its end make a fifth stage, with which (k1 + 2 k2 + 2 k3 + k5) / 6 is of third order. */
static V attempt(const State *s, const Holds *h, const V *p, V dt, State *out) {
  V q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)], dq[SIZE(NQ)], dw[SIZE(NW)], dz[SIZE(NZ)];
  V sq[SIZE(NQ)], sw[SIZE(NW)], sz[SIZE(NZ)];
  moved(s, s->q_dot, s->w_dot, s->z_dot, dt / 2, q, w, z);
  memcpy(sq, s->q_dot, sizeof sq);
  memcpy(sw, s->w_dot, sizeof sw);
  memcpy(sz, s->z_dot, sizeof sz);
  for (int stage = 0; stage < 3; ++stage) {
    const double weight = stage < 2 ? 2.0 : 1.0;
    const V ahead = stage < 2 ? dt / 2 : dt;
    rates_of(h, p, s->t + ahead, q, w, z, dq, dw, dz);
    for (int i = 0; i < NQ; ++i) sq[i] += weight * dq[i];
    for (int i = 0; i < NW; ++i) sw[i] += weight * dw[i];
    for (int i = 0; i < NZ; ++i) sz[i] += weight * dz[i];
    if (stage < 2) moved(s, dq, dw, dz, stage ? dt : dt / 2, q, w, z);
  }
  out->t = s->t + dt;
  moved(s, sq, sw, sz, dt / 6, out->q, out->w, out->z);
  arrived(out, h, p);
  V worst = v_all(0.0);
  for (int i = 0; i < NQ; ++i) worst = v_fmax(v_fabs(dq[i] - out->q_dot[i]), worst);
  for (int i = 0; i < NW; ++i) worst = v_fmax(v_fabs(dw[i] - out->w_dot[i]) / (1.0 + v_fabs(out->w[i])), worst);
  return worst * dt / 6;
}

/* ---- guards: two per contact, above zero while its mode lasts, then those of patches of ground and of kinks ------------------------ */

#define KINK ((2 + PATCHED) * ELEMENTS)
#define GUARDS (KINK + KINKS)
#define PATCH 13

static double guard(const State *s, const V *p, int l, int which, double weight, double *fine) {
  *fine = NEAR;
  if (which >= KINK) return SIDE(which - KINK) > 0.0 ? -s->kink[which - KINK][l] : SIDE(which - KINK) < 0.0 ? s->kink[which - KINK][l] : 1.0;
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
    if (elements[i].soft) return s->face[i][l];
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
  for (int c = 0; c < KINKS; ++c) out[c] = SIDE(c);
}

/* Let kinks be on the sides on which they come, but the one that has come to its surface, which passes it; NEVER: none has. */
static void freed(V *p, int l, int cause) {
  for (int c = 0; c < KINKS; ++c) SIDE(c) = cause == KINK + c ? -SIDE(c) : 0.0;
}

/* Keep kinks on the sides on which they are. */
static void kept_on(const State *s, V *p, int l) {
  for (int c = 0; c < KINKS; ++c)
    if (SIDE(c) == 0.0) SIDE(c) = s->kink[c][l] < 0.0 ? FAR_SIDE : -FAR_SIDE;
}

/* Give feet the patches of ground that are nearest; one that is touched already keeps its mode. A foot at the border of its
   patch, whose guard is the cause, goes on to the next one. */
static void looked(const Batch *a, long long lane, const Meeting *m, V *p, int l, int cause) {
  static const double nothing[PATCH] = {0.0, -1e9, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, -1.0, -1.0};
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].patch != 1) continue;
    const double x = m->flow.place[2 * i][l], up = m->flow.place[2 * i + 1][l], *best = NULL, *beside = nothing;
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

/* Modes of soft contacts, which follow from where they are and how they move. One whose face comes to rest sticks with the
   stretch of its spring that leaves its force as it is. */
static void softened(const State *s, const Meeting *m, V *p, int l, int cause) {
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    double along[2] = {0.0}, length = 0.0;
    if (!elements[i].soft) continue;
    for (int k = 0; k < slips; ++k) along[k] = -s->force[t + k][l], length += along[k] * along[k];
    for (int k = 0; k < slips && length == 0.0; ++k) along[k] = m->here.rate[t + k][l];
    length = sqrt(dot(along, along, slips));
    if (CLOSED(i) == 0.0) {
      CLOSED(i) = STICK(i) = m->here.gap[i][l] <= TOUCHING && m->here.rate[UP(i)][l] < 0.0;
      for (int k = 0; k < slips; ++k) ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l];
    } else if (cause == 2 * i) CLOSED(i) = STICK(i) = 0.0;
    else if (cause == 2 * i + 1 && STICK(i) != 0.0) {
      STICK(i) = 0.0;
      for (int k = 0; k < slips; ++k) DIRECTION(i, k) = length > 0.0 ? along[k] / length : 0.0;
    } else if (cause == 2 * i + 1) {
      STICK(i) = 1.0;
      for (int k = 0; k < slips; ++k)
        ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l] + s->force[t + k][l] / SPRING(i) - DAMPER(i) * s->gap[i][l] * s->rate[t + k][l];
    }
  }
}

/* The mobility of the rows of a lane's contacts that touch, of those without a normal too; nothing of rows that the loops hold
   but for round-off. */
static void posed(const Batch *batch, const Meeting *m, int l, const int *touching, Problem *a) {
  int line[SIZE(ROWS)];
  double sign[SIZE(ROWS)];
  a->n = a->rows = 0;
  memset(a->of, 0, sizeof a->of);
  memset(a->laws, 0, sizeof a->laws);
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].soft || (elements[i].normal && !touching[i])) continue;
    a->of[a->n].element = i;
    a->of[a->n].slips = elements[i].slips;
    a->of[a->n].normal = elements[i].normal;
    a->of[a->n++].row = a->rows;
    for (int k = 0; k < elements[i].slips + elements[i].normal; ++k, ++a->rows) {
      line[a->rows] = m->at[elements[i].line + k];
      sign[a->rows] = elements[i].sign;
    }
  }
  for (int i = 0; i < a->rows; ++i)
    for (int j = 0; j < a->rows; ++j) {
      const int still_ = !(m->G[line[i]][line[i]][l] > FIXED / batch->weight) || !(m->G[line[j]][line[j]][l] > FIXED / batch->weight);
      a->G[i][j] = still_ ? 0.0 : sign[i] * sign[j] * m->G[line[i]][line[j]][l];
    }
}

/* What the rows do without forces; nothing where they cannot move. */
static void moving(const Meeting *m, int l, int speeds, Problem *a) {
  for (int k = 0; k < a->n; ++k)
    for (int c = 0; c < a->of[k].slips + a->of[k].normal; ++c) {
      const int i = a->of[k].element, row = a->of[k].row + c;
      const double moves = speeds ? m->here.rate[elements[i].row + c][l] : elements[i].sign * m->b[m->at[elements[i].line + c]][l];
      a->b[row] = a->G[row][row] > 0.0 ? moves : 0.0;
    }
  a->size = fmax(largest(a->b, a->rows), 1e-12);
}

/* w after forces along the rows. */
static void answered(const Meeting *m, const Problem *a, const double *f, int l, V *w) {
  for (int k = 0; k < a->n; ++k)
    for (int c = 0; c < a->of[k].slips + a->of[k].normal; ++c) {
      const int e = a->of[k].element, line = m->at[elements[e].line + c];
      for (int i = 0; i < NW; ++i) w[i][l] += elements[e].sign * m->Y[i][line][l] * f[a->of[k].row + c];
    }
}

/* Speed with which a contact would rise by LOW, pressed as it is; REST at least. */
static double slow(const Meeting *m, int l, int i) {
  const double rises = elements[i].sign * m->b[m->at[elements[i].line + UP(i) - elements[i].row]][l];
  return fmax(REST, sqrt(2.0 * LOW * fmax(-rises, 0.0)));
}

/* Moreau's law at all contacts that touch; the share of restitution is lowered until no energy is gained. 0: there was no
   impact, 2: its impulses are in doubt; `loss` is the energy (J) that it took. */
static int struck(const Batch *batch, const Meeting *m, V *w, const V *p, int l, const int *touching, double *note, double *loss) {
  double u[SIZE(ROWS)], bounce[SIZE(ELEMENTS)] = {0.0}, low = 0.0, high = 1.0, share = 1.0, bounces = 0.0;
  Problem a;
  Forces g;
  int hit = 0, doubt = 0;
  *loss = 0.0;
  posed(batch, m, l, touching, &a);
  moving(m, l, 1, &a);
  memcpy(u, a.b, sizeof u);
  const double least = 1e-9 * (1.0 + largest(u, a.rows));
  for (int k = 0; k < a.n; ++k) {
    const int i = a.of[k].element;
    const double speed = -u[a.of[k].row + a.of[k].slips * a.of[k].normal];
    if (!a.of[k].normal) continue;
    a.laws[k].active = a.laws[k].rough = 1;
    a.laws[k].limit = a.laws[k].friction = OWN(i);
    bounce[k] = RESTITUTION(i) * speed > fmax(batch->rest, slow(m, l, i)) ? RESTITUTION(i) : 0.0;
    bounces += bounce[k];
    hit |= speed > least;
  }
  if (!hit) return 0;
  for (int k = 0; k <= HALVINGS; ++k) {
    double gained = 0.0, lost = 0.0;
    memcpy(a.b, u, sizeof u);
    for (int i = 0; i < a.n; ++i)
      if (a.of[i].normal) a.b[a.of[i].row + a.of[i].slips] *= 1.0 + share * bounce[i];
    a.size = fmax(largest(a.b, a.rows), 1e-12);
    doubt = solved(&a, &g, 0);
    if (k == 0 && doubt && bounces > 0.0) { /* where friction jams a contact it cannot bounce */
      share = bounces = 0.0;
      k = -1;
      continue;
    }
    for (int j = 0; j < a.rows; ++j) {
      gained += g.f[j] * (u[j] + dot(a.G[j], g.f, a.rows) / 2.0);
      lost += fabs(g.f[j] * u[j]);
    }
    *loss = -gained;
    if (k == 0 && (gained <= GAINS * lost || bounces == 0.0)) break;
    if (k > 0 && gained <= 0.0) low = share;
    if (k > 0 && gained > 0.0) high = share;
    share = k == HALVINGS - 1 ? low : (low + high) / 2.0;
  }
  for (int i = 0; i < ELEMENTS; ++i) note[MODE * i + 4] = OWN(i);
  for (int k = 0; k < a.n; ++k) {
    double *mine = note + MODE * a.of[k].element;
    mine[0] = a.of[k].normal && g.mode[k] != OPEN;
    mine[1] = mine[0] != 0.0 && g.mode[k] == STICKS;
    for (int c = 0; c < a.of[k].slips; ++c) mine[2 + c] = g.way[k][c];
    note[MODES + a.of[k].element] = share * bounce[k];
  }
  answered(m, &a, g.f, l, w);
  return 1 + doubt;
}

/* Pose the question which modes the accelerations ask for. `cause` is the guard on whose surface this is, NEVER if none: a
   slip has ended there, or a force has come to its limit. */
static void asked(const Batch *batch, const Meeting *m, const V *p, int l, const int *touching, int cause, int hit, Problem *a) {
  posed(batch, m, l, touching, a);
  for (int n = 0; n < a->n; ++n) {
    const int i = a->of[n].element, t = elements[i].row, slips = elements[i].slips, holds_ = CLOSED(i) != 0.0 && HELD(i) && !hit;
    Law *x = &a->laws[n];
    double speed = 0.0;
    for (int k = 0; k < slips; ++k) speed += m->here.rate[t + k][l] * m->here.rate[t + k][l];
    speed = sqrt(speed);
    x->active = !elements[i].normal || fabs(m->here.rate[UP(i)][l]) <= slow(m, l, i);
    x->rough = slips > 0 && (holds_ || speed <= (slips < 2 ? STILL : SLOW) || (cause == 2 * i + 1 && (slips < 2 || speed <= STARTS(i))));
    x->limit = STATIC(i);
    x->friction = OWN(i);
    if (cause == 2 * i && CLOSED(i) != 0.0 && !hit) x->leaving = NORMAL;
    if (cause == 2 * i + 1 && holds_) x->leaving = ALONG;
    for (int k = 0; k < slips; ++k) x->way[k] = x->rough ? 0.0 : m->here.rate[t + k][l] / speed;
  }
}

/* Modes of a solution; one that is at its limit and does not start to slip is held by others. Rows that do not move, since
   loops hold them, are left to the loops. */
static void taken(const Meeting *m, const Problem *a, const Forces *g, V *p, int l) {
  const double small = FINE * fmax(largest(g->w, a->rows), 1.0);
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].soft) continue;
    CLOSED(i) = STICK(i) = 0.0;
    FRICTION(i) = OWN(i);
    for (int k = 0; k < elements[i].slips; ++k) {
      DIRECTION(i, k) = 0.0;
      ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l];
    }
    if (elements[i].slips) BORNE(i) = 0.0;
  }
  for (int n = 0; n < a->n; ++n) {
    const int i = a->of[n].element, t = a->of[n].row, slips = a->of[n].slips, up = t + (a->of[n].normal ? slips : 0);
    const Law *x = &a->laws[n];
    double moves = 0.0;
    if (!x->active || g->mode[n] == OPEN) continue;
    for (int k = 0; k < slips; ++k) moves += a->G[t + k][t + k];
    CLOSED(i) = 1.0;
    STICK(i) = g->mode[n] == STICKS;
    for (int k = 0; k < slips; ++k) DIRECTION(i, k) = g->way[n][k];
    if (slips)
      BORNE(i) = g->mode[n] == SLIPS && rubs(a, n) && x->leaving == STAYS && sqrt(dot(g->w + t, g->w + t, slips)) <= small;
    if (slips && !(moves > 0.0)) {
      STICK(i) = FRICTION(i) = 0.0;
      BORNE(i) = DIRECTION(i, 0) = 1.0;
      if (slips > 1) DIRECTION(i, 1) = 0.0;
    }
    if (elements[i].normal && !(a->G[up][up] > 0.0)) CLOSED(i) = STICK(i) = 0.0;
  }
}

/* Contact of a problem whose forces break the laws most, and whether they pull it; NEVER if none does. */
static int worst(const Problem *a, const double *f, const V *p, int l, int *pulled) {
  double most = SPREAD * largest(f, a->rows);
  int found = NEVER;
  for (int n = 0; n < a->n; ++n) {
    const int i = a->of[n].element;
    const double *own = f + a->of[n].row, bears = a->of[n].normal ? own[a->of[n].slips] : 1.0;
    const double drag = STICK(i) != 0.0 ? sqrt(dot(own, own, a->of[n].slips)) : 0.0;
    const double beyond[2] = {drag - a->laws[n].limit * fmax(bears, 0.0), -bears};
    for (int k = 0; k < 2; ++k)
      if (a->laws[n].active && CLOSED(i) != 0.0 && beyond[k] > most) most = beyond[k], found = n, *pulled = k;
  }
  return found;
}

static int touches(const State *s, const V *p, int l, int i) {
  return elements[i].normal && !elements[i].soft && (CLOSED(i) != 0.0 || s->gap[i][l] <= TOUCHING);
}

/* Where contacts of the lanes whose `event` is set are, and what they would do without forces. */
static void met(const State *s, const V *p, const int *event, Meeting *m) {
  V smooth[SIZE(NP)];
  int wanted[SIZE(LINES)] = {0};
  memcpy(smooth, p, sizeof smooth);
  for (int i = 0; i < ELEMENTS; ++i) /* what rubs in a joint is one of the forces that are sought */
    if (!elements[i].normal) smooth[elements[i].p + 3] = v_all(0.0);
  m->flow.hold[0] = v_all(0.0); /* where nothing slips, nothing is written there */
  flows(smooth, s->t, s->q, s->w, s->z, &m->flow, &m->here);
  for (int i = 0; i < ELEMENTS; ++i) {
    int some = !elements[i].normal;
    EACH(l) some |= event[l] && touches(&m->here, p, l, i);
    for (int k = 0; k < elements[i].slips + elements[i].normal; ++k) wanted[elements[i].line + k] |= some;
  }
  m->n = 0;
  for (int j = 0; j < LINES; ++j) {
    m->at[j] = wanted[j] ? m->n : NEVER;
    if (wanted[j]) m->line[m->n++] = j;
  }
  mobility(&m->flow, m->line, m->n, m->Y, m->G);
  for (int j = 0; j < m->n; ++j) {
    m->b[j] = m->flow.turn[m->line[j]];
    for (int k = 0; k < NW; ++k) m->b[j] += m->flow.A[m->line[j] * NW + k] * m->flow.w_dot[k];
  }
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
  double *out = a->entries + ((block * LANES + l) * a->room + k) * ENTRY;
  out[0] = what;
  out[1] = s->t[l];
  for (int i = 0; i < NQ; ++i) out[2 + i] = s->q[i][l];
  for (int i = 0; i < NW; ++i) out[2 + NQ + i] = s->w[i][l];
  for (int i = 0; i < NZ; ++i) out[2 + NQ + NW + i] = s->z[i][l];
}

/* Whether contacts move as their modes say: none inwards, none that is held, slips that start along theirs. */
static int moves_so(const Problem *a, const double *w, const V *p, int l, double close) {
  for (int n = 0; n < a->n; ++n) {
    const double *own = w + a->of[n].row;
    const int i = a->of[n].element, slips = a->of[n].slips;
    double ahead = 0.0, across = 0.0;
    if (!a->laws[n].active) continue;
    if (a->of[n].normal && own[slips] < -close) return 0;
    if (CLOSED(i) == 0.0) continue;
    if (slips && HELD(i) && largest(own, slips) > close) return 0;
    if (HELD(i) || !rubs(a, n)) continue;
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
      Holds h;
      holds(p, &h);
      arrived(&now, &h, p);
      any = 0;
      EACH(l) if (trying[l]) {
        const Problem *a = &posed_[l];
        double f[SIZE(ROWS)], w[SIZE(ROWS)], change = 0.0;
        int pulled = 0;
        for (int n = 0; n < a->n; ++n)
          for (int k = 0; k < a->of[n].slips + a->of[n].normal; ++k) f[a->of[n].row + k] = now.force[elements[a->of[n].element].row + k][l];
        respond(a, f, w);
        if (!way && !round) memcpy(wanted[l], w, sizeof w);
        for (int j = 0; j < a->rows; ++j) change = fmax(change, fabs(w[j] - wanted[l][j]));
        const int n = worst(a, f, p, l, &pulled);
        if (n == NEVER && (change <= SPREAD * a->size || (otherwise && moves_so(a, w, p, l, SPREAD * a->size)))) {
          todo[l] = trying[l] = 0;
        } else if (n == NEVER || round == 2 * a->n) {
          for (int k = 0; k < NP; ++k) p[k][l] = kept[k][l];
          trying[l] = 0;
        } else {
          const int i = a->of[n].element, slips = a->of[n].slips;
          const double *own = (given ? solutions[l].f : f) + a->of[n].row, drag = sqrt(dot(own, own, slips));
          const double load = a->of[n].normal ? solutions[l].f[a->of[n].row + slips] : 1.0;
          any = 1;
          STICK(i) = 0.0;
          if (pulled) {
            CLOSED(i) = 0.0;
            if (slips) BORNE(i) = 0.0, FRICTION(i) = OWN(i);
            continue;
          }
          for (int k = 0; k < slips; ++k) DIRECTION(i, k) = drag > 0.0 ? -own[k] / drag : k == 0;
          BORNE(i) = 1.0;
          FRICTION(i) = !given ? a->laws[n].limit : load > 0.0 ? drag / load : 0.0;
        }
      }
    }
    left = 0;
    EACH(l) left |= todo[l];
  }
}

/* Where a contact that others hold has come to move, put what is at rest to rest: nothing but the others holds it. */
static void calmed(const Meeting *m, const Problem *a, const V *p, int l, V *w) {
  double G[SIZE(ROWS)][SIZE(ROWS)], f[SIZE(ROWS)], along[SIZE(ROWS)] = {0.0}, fast = 0.0, most = 0.0;
  V off[SIZE(NW)];
  int row[SIZE(ROWS)], n = 0, creeps = 0;
  for (int j = 0; j < a->n; ++j) {
    const int i = a->of[j].element, t = a->of[j].row, slips = a->of[j].slips;
    double speed = 0.0;
    if (!a->laws[j].active) continue;
    for (int k = 0; k < slips; ++k) speed += m->here.rate[elements[i].row + k][l] * m->here.rate[elements[i].row + k][l];
    creeps |= CLOSED(i) != 0.0 && BORNE_BY_OTHERS(i) && sqrt(speed) > SLOW;
    for (int k = 0; k < slips + a->of[j].normal; ++k) {
      if (k < slips && !a->laws[j].rough) continue;
      f[n] = -m->here.rate[elements[i].row + k][l];
      row[n++] = t + k;
    }
  }
  if (!creeps) return;
  for (int i = 0; i < n; ++i) {
    fast = fmax(fast, fabs(f[i]));
    for (int j = 0; j < n; ++j) G[i][j] = a->G[row[i]][row[j]];
  }
  shortest(n, G, f, 1e-11, NULL);
  for (int i = 0; i < n; ++i) along[row[i]] = f[i];
  memset(off, 0, sizeof off);
  answered(m, a, along, l, off);
  for (int i = 0; i < NW; ++i) most = fmax(most, fabs(off[i][l]));
  for (int i = 0; i < NW && most <= LEVER * fast; ++i) w[i][l] += off[i][l];
}

/* Write down an event with the modes after it. */
static void written_down(const Batch *a, long long block, int l, const V *p, double *note) {
  if (!a->events) return;
  const long long lane = block * LANES + l, k = a->happened[lane]++;
  modes(p, l, note + 2 + NW + MODES);
  if (k < a->event_room) memcpy(a->events + (lane * a->event_room + k) * EVENT, note, EVENT * sizeof *note);
}

/* Kinks of the lanes whose `event` is set come to their other sides; no contact changes. */
static void switched(const Batch *a, long long block, State *s, V *p, const Holds *h, const int *event, const int *cause) {
  State after = *s;
  double notes[LANES][EVENT];
  EACH(l) if (event[l]) {
    memset(notes[l], 0, sizeof notes[l]);
    noted(a, block, l, s, -1.0 - (double)number(a, block, l));
    notes[l][0] = cause[l];
    for (int i = 0; i < NW; ++i) notes[l][2 + i] = s->w[i][l];
    modes(p, l, notes[l] + 2 + NW);
    freed(p, l, cause[l]);
  }
  arrived(&after, h, p);
  EACH(l) if (event[l]) {
    copied(s, &after, l);
    kept_on(s, p, l);
    written_down(a, block, l, p, notes[l]);
  }
}

static int mode(const V *p, int l, int i) { return CLOSED(i) == 0.0 ? 1 : HELD(i) ? 2 : 4; }

/* Impacts and new modes of the lanes whose `event` is set; their state and its rates are then those after
   it, and `h` who is held. Doubts about them are counted. `ends` are lanes whose copies end with it. */
static void changed(const Batch *a, long long block, State *s, V *p, Holds *h, const int *event, const int *cause, int *ends) {
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
    if (!event[l]) continue;
    memset(notes[l], 0, sizeof notes[l]);
    modes(p, l, notes[l] + 2 + NW);
    freed(p, l, NEVER);
  }
  met(s, p, event, &m);
  if (PATCHED) {
    EACH(l) if (event[l]) looked(a, block * LANES + l, &m, p, l, cause[l]);
    met(s, p, event, &m);
  }
  EACH(l) if (event[l]) {
    softened(s, &m, p, l, cause[l]);
    for (int i = 0; i < ELEMENTS; ++i) touching[l][i] = touches(&m.here, p, l, i);
    double *note = notes[l], loss;
    noted(a, block, l, s, -1.0 - (double)number(a, block, l));
    any |= hit[l] = struck(a, &m, s->w, p, l, touching[l], note + 2 + NW + 2 * MODES, &loss);
    if (a->losses) {
      double *own = a->losses + 2 * block * LANES + l;
      own[0] += loss;
      own[LANES] = loss;
    }
    note[0] = cause[l];
    note[1] = hit[l] > 0;
    for (int i = 0; i < NW; ++i) note[2 + i] = s->w[i][l];
  }
  for (int round = 0; round < ROUNDS; ++round) { /* a law that feels contacts may act otherwise in the new modes */
    int felt = 0;
    if (any || round) met(s, p, event, &m);
    EACH(l) if (event[l]) {
      if (!round) asked(a, &m, p, l, touching[l], cause[l], hit[l], &asks[l]);
      moving(&m, l, 0, &asks[l]);
      const int doubt = solved(&asks[l], &gives[l], 1) || hit[l] > 1;
      taken(&m, &asks[l], &gives[l], p, l);
      if (!round) doubts[l] += doubt;
      for (int i = 0; i < ELEMENTS; ++i) felt |= FELT(i) != CLOSED(i), FELT(i) = CLOSED(i);
    }
    if (!FEELS || !felt) break;
  }
  if (ELEMENTS > 1) spread(s, p, event, asks, gives);
  EACH(l) if (event[l]) calmed(&m, &asks[l], p, l, s->w);
  after = *s;
  holds(p, h);
  arrived(&after, h, p);
  EACH(l) if (event[l]) {
    copied(s, &after, l);
    kept_on(s, p, l);
    written_down(a, block, l, p, notes[l]);
  }
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

/* Whether loops have passed a dead centre, where their independent coordinates do not say how they go on. */
static int passes(const State *now, const State *next, int l) {
  int out = 0;
  for (int i = 0; i < VOLUMES; ++i) out |= (now->volume[i][l] > 0.0) != (next->volume[i][l] > 0.0);
  return out;
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

/* The next trial of a guard that is being located, by false position; 1 when the last one is on its surface, 2 when none is:
   what the guard is made of is not known well enough. */
static int closer(Clock *c, const State *next, const V *p, int l, double weight) {
  double fine;
  const double g = guard(next, p, l, c->target, weight, &fine);
  if (fabs(g) <= fine) return 1;
  if (++c->tries >= TRIES || c->high - c->low < 1e-15) return 2;
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
    const double ahead = x * DIRECTION(i, 0) + y * DIRECTION(i, 1);
    if (elements[i].soft ? ahead >= GROWN * STARTS(i) : speed > STARTS(i) / 2) DIRECTION(i, 0) = x / speed, DIRECTION(i, 1) = y / speed;
  }
}

/* Speed (m/s) of a slip in 3D up to which it keeps its first direction. A slip finds its direction the quicker the slower it is,
   with parts of steps as short: coarser tolerances leave out more of that. */
static double young(double tolerance) { return fmax(YOUNG, TOLERANCES * fmin(tolerance, COARSEST)); }

static void block(const Batch *a, long long k) {
  V *x = (V *)a->x + k * (NQ + NW + NZ), *p = (V *)a->p + k * NP;
  State now, next;
  Holds h;
  Clock clocks[LANES];
  int event[LANES], cause[LANES], bent[LANES], any = 0, running = 0; /* bent: new actions came to the other side of a kink */
  V start, dt;
  memset(&now, 0, sizeof now);
  now.t = ((V *)a->t)[k];
  memcpy(now.q, x, NQ * sizeof(V));
  memcpy(now.w, x + NQ, NW * sizeof(V));
  memcpy(now.z, x + NQ + NW, NZ * sizeof(V));
  next = now;
  for (int i = 0; i < ELEMENTS; ++i)
    if (elements[i].slips > 1) p[elements[i].starts] = v_all(young(a->tolerance));
  holds(p, &h);
  arrived(&next, &h, p);
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
    bent[l] = 0;
    if (c->todo && located(c, &now, &now, p, l, a->weight)) {
      bent[l] = !event[l] && c->target >= KINK;
      event[l] = 1;
    }
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
      int ends[LANES], bends[LANES], some = 0; /* which end with it; of which kinks alone change */
      any = 0;
      EACH(l) some |= bends[l] = event[l] && KINKS && (bent[l] || cause[l] >= KINK);
      EACH(l) any |= event[l] &= !bends[l];
      if (some) switched(a, k, &now, p, &h, bends, cause);
      if (any) {
        changed(a, k, &now, p, &h, event, cause, ends);
        EACH(l) if (ends[l]) a->over[k * LANES + l] = 1, clocks[l].todo = 0;
      }
      memset(bent, 0, sizeof bent);
    }
    any = 0;
    EACH(l) dt[l] = clocks[l].todo ? clocks[l].trial : 0.0;
    const V error = attempt(&now, &h, p, dt, &next);
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
      } else {
        const int found = closer(c, &next, p, l, a->weight);
        if (!found) { all = 0; continue; }
        a->doubts[k * LANES + l] += found > 1;
        accepted[l] = event[l] = 1;
      }
      if (accepted[l] && passes(&now, &next, l)) {
        all = accepted[l] = event[l] = 0;
        a->over[k * LANES + l] = 2;
        c->todo = 0;
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
