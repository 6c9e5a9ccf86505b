/* What was written down of every copy: parts of its steps and its events, read by what takes derivatives along them. */

typedef struct { /* adjoint or tangent of a state and its parameters */
  V t[1], q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)], p[SIZE(NP)];
} Linear;

typedef struct {
  const Batch *batch;
  double *x, *p;               /* [block][q, w, z or parameters][lane] adjoints or tangents */
  const long long *low, *high; /* [block][lane] entries to go through, from low to high - 1, or back */
  double *slowest;             /* [block][lane] least rate of a guard at its event, as a share of what the rates could make of it */
} Pass;

/* The start of a Runge-Kutta step, and how far ahead of it its stages are and weigh. */
static const double WEIGHTS[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6}, AHEAD[4] = {0.0, 0.5, 0.5, 1.0};

static const double CONTINUOUS = 1e-7; /* of the rates: those on both sides of a kink that differ by less are the same */

static V dotted(const V *a, const V *b, int n) {
  V out = v_all(0.0);
  for (int i = 0; i < n; ++i) out += a[i] * b[i];
  return out;
}

static void put(V *p, int l, const double *note) {
  for (int i = 0; i < ELEMENTS; ++i, note += MODE) {
    CLOSED(i) = FELT(i) = note[0];
    STICK(i) = note[1];
    for (int k = 0; k < elements[i].slips; ++k) DIRECTION(i, k) = note[2 + k];
    FRICTION(i) = note[4];
    if (elements[i].slips) BORNE(i) = note[5];
  }
  for (int c = 0; c < KINKS; ++c) SIDE(c) = note[c];
}

/* By how much rates jump at kinks, as a share of one plus the largest of them; `minus` has those before. */
static V bent(const int *event, double notes[LANES][EVENT], const State *s, const V *p, const State *minus) {
  V after[SIZE(NP)], dq[SIZE(NQ)], dw[SIZE(NW)], dz[SIZE(NZ)], out = v_all(0.0), most = v_all(1.0);
  int any = 0;
  memcpy(after, p, sizeof after);
  EACH(l) if (event[l] && notes[l][0] >= KINK) put(after, l, notes[l] + 2 + NW + MODES), any = 1;
  if (!any) return out;
  rates(s->t, s->q, s->w, s->z, after, dq, dw, dz);
  for (int i = 0; i < NW; ++i) {
    out = v_fmax(out, v_fabs(dw[i] - minus->w_dot[i]));
    most = v_fmax(most, v_fabs(dw[i]));
  }
  return out / most;
}

/* An event at the time at which a guard g is zero: the rates before it and the slope of g by state, time and parameters, in the
   modes before it. Returned is how fast g falls; of lanes that no guard stopped, one. */
static V crossed(const int *event, double notes[LANES][EVENT], const State *s, V *p, State *minus, Linear *by, V *slowest) {
  V force[SIZE(ROWS)], gap[SIZE(ELEMENTS)], rate[SIZE(ROWS)], kink[SIZE(KINKS)], none_q[SIZE(NQ)], none_w[SIZE(NW)], none_z[SIZE(NZ)];
  memset(force, 0, sizeof force);
  memset(gap, 0, sizeof gap);
  memset(rate, 0, sizeof rate);
  memset(kink, 0, sizeof kink);
  memset(none_q, 0, sizeof none_q);
  memset(none_w, 0, sizeof none_w);
  memset(none_z, 0, sizeof none_z);
  EACH(l) if (event[l]) put(p, l, notes[l] + 2 + NW);
  *minus = *s;
  look(s->t, s->q, s->w, s->z, p, minus->q_dot, minus->w_dot, minus->z_dot, minus->force, minus->gap, minus->rate,
       minus->kink);
  EACH(l) if (event[l] && notes[l][0] >= 0.0) {
    const int which = (int)notes[l][0], i = which < KINK ? which / 2 : 0, t = elements[i].row, slips = elements[i].slips;
    if (which >= KINK) kink[which - KINK][l] = 1.0;
    else if (which % 2 == 0 && CLOSED(i) == 0.0) gap[i][l] = 1.0;
    else if (which % 2 == 0) force[t + slips][l] = 1.0;
    else if (STICK(i) == 0.0) for (int k = 0; k < slips; ++k) rate[t + k][l] = DIRECTION(i, k);
    else {
      double length = 0.0;
      for (int k = 0; k < slips; ++k) length += minus->force[t + k][l] * minus->force[t + k][l];
      for (int k = 0; k < slips; ++k) force[t + k][l] = -minus->force[t + k][l] / sqrt(length);
      if (elements[i].normal) force[t + slips][l] = STATIC(i);
    }
  }
  look_back(s->t, s->q, s->w, s->z, p, none_q, none_w, none_z, force, gap, rate, kink, by->t, by->q, by->w, by->z, by->p);
  EACH(l) if (event[l] && notes[l][0] >= 0.0) { /* how the limit of friction itself enters the guard of a stick */
    const int which = (int)notes[l][0], i = which / 2;
    if (which < KINK && which % 2 && STICK(i) != 0.0)
      by->p[elements[i].p + 4][l] += elements[i].normal ? minus->force[elements[i].row + elements[i].slips][l] : 1.0;
  }
  V pace = dotted(by->q, minus->q_dot, NQ) + dotted(by->w, minus->w_dot, NW) + dotted(by->z, minus->z_dot, NZ) + by->t[0];
  const V size = v_sqrt(dotted(by->q, by->q, NQ) * dotted(minus->q_dot, minus->q_dot, NQ)) +
                 v_sqrt(dotted(by->w, by->w, NW) * dotted(minus->w_dot, minus->w_dot, NW));
  const V jump = bent(event, notes, s, p, minus);
  EACH(l) {
    const int timed = event[l] && notes[l][0] >= 0.0;
    if (timed && notes[l][0] >= KINK && jump[l] <= CONTINUOUS) pace[l] = INFINITY; /* when it is met changes nothing */
    else if (timed) (*slowest)[l] = fmin((*slowest)[l], fabs(pace[l]) / (size[l] + 1e-300));
    else pace[l] = 1.0;
  }
  return pace;
}

/* Modes of an impact and what bounced in it, of lanes that had one; whether any had. */
static int put_impact(V *p, const int *event, double notes[LANES][EVENT]) {
  int any = 0;
  EACH(l) if (event[l] && notes[l][1] > 0.0) {
    any = 1;
    put(p, l, notes[l] + 2 + NW + 2 * MODES);
    for (int i = 0; i < ELEMENTS; ++i) RESTITUTION(i) = notes[l][2 + NW + 3 * MODES + i];
  }
  return any;
}

/* One entry of a lane: the state before it, and the length of a part of a step, or zero of an event with its notes. */
static double entered(const Batch *a, long long k, long long place, int l, State *s, int *event, double *notes) {
  const double *in = a->entries + ((k * LANES + l) * a->room + place) * ENTRY;
  s->t[l] = in[1];
  for (int i = 0; i < NQ; ++i) s->q[i][l] = in[2 + i];
  for (int i = 0; i < NW; ++i) s->w[i][l] = in[2 + NQ + i];
  for (int i = 0; i < NZ; ++i) s->z[i][l] = in[2 + NQ + NW + i];
  *event = in[0] < 0.0;
  if (!*event) return in[0];
  const long long number = (long long)(-1.0 - in[0]);
  memcpy(notes, a->events + ((k * LANES + l) * a->event_room + number) * EVENT, EVENT * sizeof *notes);
  return 0.0;
}

typedef void Step(V t, V dt, const State *s, const V *p, Linear *at);
typedef void Change(const int *event, double notes[LANES][EVENT], const State *s, V *p, Linear *at, V *slowest);

/* Through all that happened to a block of copies, in time or back. */
static void passed(const Pass *b, long long k, int back, Step *step, Change *change) {
  const Batch *a = b->batch;
  V *p = (V *)a->p + k * NP, *slowest = (V *)b->slowest + k, *x = (V *)a->x + k * (NQ + NW + NZ);
  V *own_x = (V *)b->x + k * (NQ + NW + NZ), *own_p = (V *)b->p + k * NP;
  long long place[LANES];
  double notes[LANES][EVENT];
  int event[LANES], running = 1;
  Linear at;
  State s;
  memset(&at, 0, sizeof at);
  memset(&s, 0, sizeof s);
  memcpy(at.q, own_x, NQ * sizeof(V));
  memcpy(at.w, own_x + NQ, NW * sizeof(V));
  memcpy(at.z, own_x + NQ + NW, NZ * sizeof(V));
  memcpy(at.p, own_p, NP * sizeof(V));
  memcpy(s.q, x, NQ * sizeof(V));
  memcpy(s.w, x + NQ, NW * sizeof(V));
  EACH(l) place[l] = back ? b->high[k * LANES + l] - 1 : b->low[k * LANES + l];
  while (running) {
    V dt = v_all(0.0);
    int steps = 0, events = 0;
    running = 0;
    EACH(l) {
      event[l] = 0;
      if (place[l] < b->low[k * LANES + l] || place[l] >= b->high[k * LANES + l]) continue;
      dt[l] = entered(a, k, place[l], l, &s, &event[l], notes[l]);
      place[l] += back ? -1 : 1;
      running = 1;
      steps |= !event[l];
      events |= event[l];
    }
    if (steps) step(s.t, dt, &s, p, &at);
    if (events) change(event, notes, &s, p, &at, slowest);
  }
  memcpy(own_x, at.q, NQ * sizeof(V));
  memcpy(own_x + NQ, at.w, NW * sizeof(V));
  memcpy(own_x + NQ + NW, at.z, NZ * sizeof(V));
  memcpy(own_p, at.p, NP * sizeof(V));
}
