/* Derivatives backwards: what happened to every copy, from its end to its start, with the adjoint of its state and parameters.

   Parts of steps are those of Runge and Kutta's, stage by stage. An event at the time at which a guard g is zero, with the map
   x+ = R(x-) and rates f- and f+ before and after it, turns the adjoint of x+ into that of x- by the transpose of the
   saltation matrix R_x + (f+ - R_x f-) g_x / (g_x f- + g_t). */

typedef struct {
  V t[1], q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)], p[SIZE(NP)];
} Adjoint;

typedef struct {
  const Batch *batch;
  double *x, *p;               /* [block][q, w, z or parameters][lane] adjoints */
  const long long *low, *high; /* [block][lane] entries to go through, from high - 1 down to low */
  double *slowest;             /* [block][lane] least rate of a guard at its event, as a share of what the rates could make of it */
} Back;

static void added(V *to, const V *what, int n) {
  for (int i = 0; i < n; ++i) to[i] += what[i];
}

static V dotted(const V *a, const V *b, int n) {
  V out = v_all(0.0);
  for (int i = 0; i < n; ++i) out += a[i] * b[i];
  return out;
}

static void scaled(V *to, V by, const V *what, const V *more, V share, int n) {
  for (int i = 0; i < n; ++i) to[i] = by * what[i] + (more ? share * more[i] : v_all(0.0));
}

/* Back through one part of a step; where dt is zero nothing changes. */
static void stepped_back(V t, V dt, const State *s, const V *p, Adjoint *at) {
  static const double weights[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}, ahead[4] = {0.0, 0.5, 0.5, 1.0};
  V q[4][SIZE(NQ)], w[4][SIZE(NW)], z[4][SIZE(NZ)], dq[SIZE(NQ)], dw[SIZE(NW)], dz[SIZE(NZ)];
  Adjoint own, more;
  memcpy(q[0], s->q, sizeof q[0]);
  memcpy(w[0], s->w, sizeof w[0]);
  memcpy(z[0], s->z, sizeof z[0]);
  for (int k = 0; k < 3; ++k) {
    rates(t + ahead[k] * dt, q[k], w[k], z[k], p, dq, dw, dz);
    moved(s, dq, dw, dz, ahead[k + 1] * dt, q[k + 1], w[k + 1], z[k + 1]);
  }
  memset(&own, 0, sizeof own);
  for (int k = 3; k >= 0; --k) {
    const V share = k < 3 ? ahead[k + 1] * dt : v_all(0.0);
    scaled(dq, weights[k] * dt, at->q, k < 3 ? more.q : NULL, share, NQ);
    scaled(dw, weights[k] * dt, at->w, k < 3 ? more.w : NULL, share, NW);
    scaled(dz, weights[k] * dt, at->z, k < 3 ? more.z : NULL, share, NZ);
    rates_back(t + ahead[k] * dt, q[k], w[k], z[k], p, dq, dw, dz, more.t, more.q, more.w, more.z, more.p);
    added(own.q, more.q, NQ);
    added(own.w, more.w, NW);
    added(own.z, more.z, NZ);
    added(own.p, more.p, NP);
  }
  added(at->q, own.q, NQ);
  added(at->w, own.w, NW);
  added(at->z, own.z, NZ);
  added(at->p, own.p, NP);
}

static void put(V *p, int l, const double *note) {
  for (int i = 0; i < ELEMENTS; ++i, note += MODE) {
    CLOSED(i) = FELT(i) = note[0];
    STICK(i) = note[1];
    for (int k = 0; k < elements[i].slips; ++k) DIRECTION(i, k) = note[2 + k];
    FRICTION(i) = note[4];
    if (elements[i].slips) BORNE(i) = note[5];
  }
}

/* Back through the events of some lanes. */
static void changed_back(const int *event, double notes[LANES][EVENT], const State *s, V *p, Adjoint *at, V *slowest) {
  State plus = *s, minus = *s;
  Adjoint map, by;
  V force[SIZE(ROWS)], gap[SIZE(ELEMENTS)], rate[SIZE(ROWS)];
  int hit = 0;
  memset(force, 0, sizeof force);
  memset(gap, 0, sizeof gap);
  memset(rate, 0, sizeof rate);
  EACH(l) if (event[l]) {
    for (int i = 0; i < NW; ++i) plus.w[i][l] = notes[l][2 + i];
    hit |= notes[l][1] > 0.0;
  }
  rates(s->t, plus.q, plus.w, plus.z, p, plus.q_dot, plus.w_dot, plus.z_dot); /* modes are those after it */
  memset(&map, 0, sizeof map);
  if (hit) {
    V kept[SIZE(NP)];
    memcpy(kept, p, sizeof kept);
    EACH(l) if (event[l]) {
      put(p, l, notes[l] + 2 + NW + 2 * MODES);
      for (int i = 0; i < ELEMENTS; ++i) RESTITUTION(i) = notes[l][2 + NW + 3 * MODES + i];
    }
    strike_back(s->t, s->q, s->w, s->z, p, at->w, map.t, map.q, map.w, map.z, map.p);
    memcpy(p, kept, sizeof kept);
  }
  EACH(l) {
    const int struck_here = event[l] && notes[l][1] > 0.0;
    if (event[l]) put(p, l, notes[l] + 2 + NW);
    for (int i = 0; i < NP; ++i) map.p[i][l] = struck_here ? map.p[i][l] : 0.0;
    for (int i = 0; i < NQ; ++i) map.q[i][l] = at->q[i][l] + (struck_here ? map.q[i][l] : 0.0);
    for (int i = 0; i < NW; ++i) map.w[i][l] = struck_here ? map.w[i][l] : at->w[i][l];
    for (int i = 0; i < NZ; ++i) map.z[i][l] = at->z[i][l] + (struck_here ? map.z[i][l] : 0.0);
  }
  look(s->t, s->q, s->w, s->z, p, minus.q_dot, minus.w_dot, minus.z_dot, minus.force, minus.gap, minus.rate);
  EACH(l) if (event[l] && notes[l][0] >= 0.0) {
    const int which = (int)notes[l][0], i = which / 2, t = elements[i].row, slips = elements[i].slips;
    if (which % 2 == 0 && CLOSED(i) == 0.0) gap[i][l] = 1.0;
    else if (which % 2 == 0) force[t + slips][l] = 1.0;
    else if (STICK(i) == 0.0) for (int k = 0; k < slips; ++k) rate[t + k][l] = DIRECTION(i, k);
    else {
      double length = 0.0;
      for (int k = 0; k < slips; ++k) length += minus.force[t + k][l] * minus.force[t + k][l];
      for (int k = 0; k < slips; ++k) force[t + k][l] = -minus.force[t + k][l] / sqrt(length);
      if (elements[i].normal) force[t + slips][l] = STATIC(i);
    }
  }
  V none_q[SIZE(NQ)], none_w[SIZE(NW)], none_z[SIZE(NZ)];
  memset(none_q, 0, sizeof none_q);
  memset(none_w, 0, sizeof none_w);
  memset(none_z, 0, sizeof none_z);
  look_back(s->t, s->q, s->w, s->z, p, none_q, none_w, none_z, force, gap, rate, by.t, by.q, by.w, by.z, by.p);
  EACH(l) if (event[l] && notes[l][0] >= 0.0) { /* how the limit of friction itself enters the guard of a stick */
    const int which = (int)notes[l][0], i = which / 2;
    if (which % 2 && STICK(i) != 0.0)
      by.p[elements[i].p + 4][l] += elements[i].normal ? minus.force[elements[i].row + elements[i].slips][l] : 1.0;
  }
  const V jump = dotted(map.q, minus.q_dot, NQ) + dotted(map.w, minus.w_dot, NW) + dotted(map.z, minus.z_dot, NZ) -
                 dotted(at->q, plus.q_dot, NQ) - dotted(at->w, plus.w_dot, NW) - dotted(at->z, plus.z_dot, NZ);
  const V pace = dotted(by.q, minus.q_dot, NQ) + dotted(by.w, minus.w_dot, NW) + dotted(by.z, minus.z_dot, NZ) + by.t[0];
  const V size = v_sqrt(dotted(by.q, by.q, NQ) * dotted(minus.q_dot, minus.q_dot, NQ)) +
                 v_sqrt(dotted(by.w, by.w, NW) * dotted(minus.w_dot, minus.w_dot, NW));
  EACH(l) if (event[l]) {
    const int timed = notes[l][0] >= 0.0;
    const double share = timed ? -jump[l] / pace[l] : 0.0;
    if (timed) (*slowest)[l] = fmin((*slowest)[l], fabs(pace[l]) / (size[l] + 1e-300));
    for (int i = 0; i < NQ; ++i) at->q[i][l] = map.q[i][l] + share * by.q[i][l];
    for (int i = 0; i < NW; ++i) at->w[i][l] = map.w[i][l] + share * by.w[i][l];
    for (int i = 0; i < NZ; ++i) at->z[i][l] = map.z[i][l] + share * by.z[i][l];
    for (int i = 0; i < NP; ++i) at->p[i][l] += map.p[i][l] + share * by.p[i][l];
  }
}

static void block_back(const Back *b, long long k) {
  const Batch *a = b->batch;
  V *p = (V *)a->p + k * NP, *ax = (V *)b->x + k * (NQ + NW + NZ), *slowest = (V *)b->slowest + k;
  long long place[LANES];
  double notes[LANES][EVENT];
  int event[LANES], running = 1;
  Adjoint at;
  State s;
  memset(&at, 0, sizeof at);
  memset(&s, 0, sizeof s);
  memcpy(at.q, ax, NQ * sizeof(V));
  memcpy(at.w, ax + NQ, NW * sizeof(V));
  memcpy(at.z, ax + NQ + NW, NZ * sizeof(V));
  memcpy(at.p, (V *)b->p + k * NP, NP * sizeof(V));
  memcpy(s.q, (V *)a->x + k * (NQ + NW + NZ), NQ * sizeof(V));
  memcpy(s.w, (V *)a->x + k * (NQ + NW + NZ) + NQ, NW * sizeof(V));
  EACH(l) place[l] = b->high[k * LANES + l] - 1;
  while (running) {
    V dt = v_all(0.0);
    int steps = 0, events = 0;
    running = 0;
    EACH(l) {
      event[l] = 0;
      if (place[l] < b->low[k * LANES + l]) continue;
      const double *in = a->entries + (k * a->room + place[l]) * ENTRY * LANES + l;
      s.t[l] = in[LANES];
      for (int i = 0; i < NQ; ++i) s.q[i][l] = in[(2 + i) * LANES];
      for (int i = 0; i < NW; ++i) s.w[i][l] = in[(2 + NQ + i) * LANES];
      for (int i = 0; i < NZ; ++i) s.z[i][l] = in[(2 + NQ + NW + i) * LANES];
      running = 1;
      --place[l];
      if (in[0] >= 0.0) {
        dt[l] = in[0];
        steps = 1;
      } else {
        const long long number = (long long)(-1.0 - in[0]);
        event[l] = events = 1;
        for (int i = 0; i < EVENT; ++i) notes[l][i] = a->events[((k * a->event_room + number) * EVENT + i) * LANES + l];
      }
    }
    if (steps) stepped_back(s.t, dt, &s, p, &at);
    if (events) changed_back(event, notes, &s, p, &at, slowest);
  }
  memcpy(ax, at.q, NQ * sizeof(V));
  memcpy(ax + NQ, at.w, NW * sizeof(V));
  memcpy(ax + NQ + NW, at.z, NZ * sizeof(V));
  memcpy((V *)b->p + k * NP, at.p, NP * sizeof(V));
}

void saltus_back(const Back *b, long long first, long long last) {
  for (long long k = first; k < last; ++k) block_back(b, k);
}
