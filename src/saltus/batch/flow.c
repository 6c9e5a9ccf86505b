/* The motion of many copies between events, one copy per lane: rates, contacts that modes hold, one step of Runge and
   Kutta's; and what all of the kernel shares. */

#define NEVER (-1)
#define KINK ((2 + PATCHED) * ELEMENTS) /* the first guard of a kink */
#define PATCH 13                       /* numbers of a patch of ground */
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
static const double APART = 1e-6;      /* of the largest motion: motions that differ by more are not the same */
static const double GAINS = 1e-9;      /* of the energy of approach: an impact that gains more is not one */
static const double FIXED = 1e-18;     /* times gravity by the weight (1/kg): rows that move less easily do not move */
static const double LEVER = 1e3;       /* by so much a velocity may change for one along rows that are at rest */
static const double SHORTEST = 1e-6;   /* of a step: its parts are not shorter, whatever their error */
static const double FAR_SIDE = 1e300;  /* of what kinks compare: beyond all of it */
static const double FIRM = 1e-12;      /* of the largest mobility of a row: those with less do not move */
static const double SHARED = 1e-13;    /* of the mobility of a contact row: rows that depend on each other share their forces */
enum { ROUNDS = 4, EVENTS = 64, TRIES = 20 };

typedef struct {
  double step, tolerance, rest, weight; /* s, error of a part of a step, m/s below which nothing bounces, N */
  long long times;
  double *t;                 /* [block][lane] */
  double *x;                 /* [block][q, w, z][lane] */
  double *p;                 /* [block][parameters][lane] */
  double *v, *contact, *measured; /* [block][...][lane], at the end */
  double *force;             /* [block][rows][lane] along the rows of contacts, at the end */
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
  V weight[SIZE(LINES)], x[SIZE(LINES)][3], most = v_all(0.0); /* of accelerations, places, velocities */
  const int n = h->n, wanted = shift ? 3 : 1;
  for (int i = 0; i < ROWS; ++i) force[i] = v_all(0.0);
  for (int i = 0; i < ELEMENTS; ++i)
    for (int k = 0; k < elements[i].slips + elements[i].normal && (elements[i].soft || !elements[i].normal); ++k)
      force[elements[i].row + k] = f->push[elements[i].row + k];
  memcpy(w_dot, f->w_dot, NW * sizeof *w_dot);
  if (!n) return;
  memset(weight, 0, sizeof weight);
  mobility(f, h->line, n, Y, G);
  for (int i = 0; i < n; ++i) {
    const int row = lines[h->line[i]].row, twin = lines[h->line[i]].twin;
    weight[i] = h->weight[row];
    x[i][1] = -h->weight[row] * f->off[row];
    if (twin != NEVER) {
      weight[i] += h->weight[twin];
      x[i][1] += h->weight[twin] * f->off[twin];
    }
    most = v_fmax(most, v_where(weight[i] != 0.0, G[i][i], v_all(0.0)));
  }
  for (int i = 0; i < n; ++i) {
    const int line = h->line[i];
    const L moves = G[i][i] > FIRM * most; /* what loops hold no contact needs to */
    V turn = f->turn[line];
    for (int k = 0; k < NW; ++k) turn += f->A[line * NW + k] * f->w_dot[k];
    weight[i] = v_where(moves, weight[i], v_all(0.0));
    x[i][0] = -weight[i] * turn;
    x[i][1] = v_where(moves, x[i][1], v_all(0.0));
    x[i][2] = -weight[i] * rate[lines[line].row];
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
  V worst = v_all(0.0), sum = v_all(0.0);
  for (int i = 0; i < NQ; ++i) worst = v_fmax(v_fabs(dq[i] - out->q_dot[i]), worst);
  for (int i = 0; i < NW; ++i) worst = v_fmax(v_fabs(dw[i] - out->w_dot[i]) / (1.0 + v_fabs(out->w[i])), worst);
  for (int i = 0; i < NQ; ++i) sum += out->q[i];
  for (int i = 0; i < NW; ++i) sum += out->w[i];
  return worst * dt / 6 + 0.0 * sum; /* not a number where any of them is none */
}
