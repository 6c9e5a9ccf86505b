/* Steps of many copies at once: one copy per lane, each with its own clock, modes and events.

   A step is one of Runge and Kutta's, of fourth order. Where a guard of a copy falls below zero within it (a foot reaches
   the ground, a ground pulls, friction gives way, a slip ends), the step is repeated with the length that ends on
   the guard's surface, the impact and the new modes are found, and the rest of the step follows. */

/* ---- guards: two per contact, above zero while its mode lasts, then those of patches of ground and of kinks ------------------------ */

#define GUARDS (KINK + KINKS)

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

/* Lanes at work: the copies they step, and where these are. */
typedef struct {
  State now;
  V p[SIZE(NP)], start;    /* when the copy was taken up */
  Holds h;
  Clock clocks[LANES];
  long long copy[LANES];
  int event[LANES], cause[LANES];
  int bent[LANES];         /* new actions came to the other side of a kink */
} Work;

static void put_down(const Batch *a, const Work *s, int l) {
  const long long copy = s->copy[l];
  double *x = place(a->x, copy, NQ + NW + NZ), *p = place(a->p, copy, NP), *force = place(a->force, copy, ROWS);
  a->t[copy] = s->now.t[l];
  for (int i = 0; i < NQ; ++i) x[i * LANES] = s->now.q[i][l];
  for (int i = 0; i < NW; ++i) x[(NQ + i) * LANES] = s->now.w[i][l];
  for (int i = 0; i < NZ; ++i) x[(NQ + NW + i) * LANES] = s->now.z[i][l];
  for (int i = 0; i < NP; ++i) p[i * LANES] = s->p[i][l];
  for (int i = 0; i < ROWS; ++i) force[i * LANES] = s->now.force[i][l];
}

/* Let lanes that have nothing to do take up the next copies, from *waiting to before `last`. Those that stand still are put
   down at once, with the forces that they feel where they are. */
static void taken_up(const Batch *a, Work *s, long long *waiting, long long last) {
  State next;
  int new[LANES] = {0};
  EACH(l) if (!s->clocks[l].todo && *waiting < last) {
    const long long copy = s->copy[l] = (*waiting)++;
    const double *x = place(a->x, copy, NQ + NW + NZ), *p = place(a->p, copy, NP);
    new[l] = 1;
    s->start[l] = s->now.t[l] = a->t[copy];
    for (int i = 0; i < NQ; ++i) s->now.q[i][l] = x[i * LANES];
    for (int i = 0; i < NW; ++i) s->now.w[i][l] = x[(NQ + i) * LANES];
    for (int i = 0; i < NZ; ++i) s->now.z[i][l] = x[(NQ + NW + i) * LANES];
    for (int i = 0; i < NP; ++i) s->p[i][l] = p[i * LANES];
  }
  for (int i = 0; i < ELEMENTS; ++i)
    if (elements[i].slips > 1) s->p[elements[i].starts] = v_all(young(a->tolerance));
  next = s->now;
  holds(s->p, &s->h);
  arrived(&next, &s->h, s->p);
  memcpy(next.q, s->now.q, sizeof next.q);
  memcpy(next.w, s->now.w, sizeof next.w);
  EACH(l) if (new[l]) {
    const long long copy = s->copy[l];
    Clock *c = &s->clocks[l];
    copied(&s->now, &next, l);
    memset(c, 0, sizeof *c);
    c->todo = a->over[copy] ? 0 : a->times;
    c->target = NEVER;
    c->left = c->trial = a->step;
    s->event[l] = a->fresh[copy] && c->todo;
    s->cause[l] = NEVER;
    s->bent[l] = 0;
    if (c->todo && located(c, &s->now, &s->now, s->p, l, a->weight)) {
      s->bent[l] = !s->event[l] && c->target >= KINK;
      s->event[l] = 1;
    }
    c->target = NEVER;
    c->trial = c->pace = c->left;
    if (c->todo) a->fresh[copy] = 0;
    else put_down(a, s, l);
  }
}

/* What happens to the lanes whose `event` is set. */
static void happened(const Batch *a, Work *s) {
  int ends[LANES], bends[LANES], kinks = 0, others = 0; /* which copies end with it; of which kinks alone change */
  EACH(l) kinks |= bends[l] = s->event[l] && KINKS && (s->bent[l] || s->cause[l] >= KINK);
  EACH(l) others |= s->event[l] &= !bends[l];
  if (kinks) switched(a, s->copy, &s->now, s->p, &s->h, bends, s->cause);
  if (others) {
    changed(a, s->copy, &s->now, s->p, &s->h, s->event, s->cause, ends);
    EACH(l) if (ends[l]) {
      a->over[s->copy[l]] = 1;
      s->clocks[l].todo = 0;
      put_down(a, s, l);
    }
  }
  memset(s->event, 0, sizeof s->event);
  memset(s->bent, 0, sizeof s->bent);
}

/* What becomes of a trial of a lane: 1 where it stands; `event` is set where it ends on the surface of a guard. */
static int stands(const Batch *a, Work *s, const State *next, double error, int l) {
  Clock *c = &s->clocks[l];
  const long long copy = s->copy[l];
  int accepted = 1;
  if (c->target == NEVER && !(error <= a->tolerance) && c->trial > SHORTEST * a->step) {
    c->pace = c->trial *= fmax(0.2, 0.9 * pow(a->tolerance / error, 0.25));
    return 0;
  }
  if (!isfinite(error)) {
    a->over[copy] = 2;
    c->todo = 0;
    return 0;
  }
  if (c->target == NEVER) {
    const int found = located(c, &s->now, next, s->p, l, a->weight);
    if (found && c->events < EVENTS) {
      if (c->trial > 1e-12 * a->step) return 0;
      s->event[l] = 1; /* at the very start: nothing moves before it */
      accepted = 0;
    } else if (found) {
      c->events = EVENTS + 1;
      c->trial = c->high;
      c->target = NEVER;
    }
  } else {
    const int found = closer(c, next, s->p, l, a->weight);
    if (!found) return 0;
    a->doubts[copy] += found > 1;
    s->event[l] = 1;
  }
  if (accepted && passes(&s->now, next, l)) {
    s->event[l] = 0;
    a->over[copy] = 2;
    c->todo = 0;
    return 0;
  }
  if (s->event[l]) {
    s->cause[l] = c->target;
    ++c->events;
  }
  return accepted;
}

/* The clock of a lane after a trial that stands. */
static void went_on(const Batch *a, Work *s, double error, int l) {
  Clock *c = &s->clocks[l];
  const long long copy = s->copy[l];
  turned(&s->now, s->p, l);
  c->left -= c->trial;
  if (c->target != NEVER) return;
  c->pace = fmax(c->pace, c->trial * fmin(4.0, 0.9 * pow(a->tolerance / (error + 1e-300), 0.25)));
  if (c->left > 1e-9 * a->step) return;
  --c->todo;
  ++a->steps[copy];
  s->now.t[l] = s->start[l] + (double)(a->times - c->todo) * a->step;
  a->doubts[copy] += c->events > EVENTS;
  c->events = 0;
  c->left = a->step;
  a->over[copy] = !(s->now.open[0][l] <= CLOSURE) ? 2 : s->now.over[0][l] > 0.0;
  if (a->over[copy]) c->todo = 0;
}

/* Step the copies of some blocks. A lane that is done with its copy takes up the next one, as soon as a quarter of them are: how long
   a copy takes hangs on what happens to it, and evaluations are for all lanes at once. */
static void worked(const Batch *a, long long first, long long last) {
  Work s;
  State next;
  long long waiting = first * LANES;
  memset(&s, 0, sizeof s);
  for (;;) {
    int idle = 0, any = 0, all = 1, accepted[LANES], busy[LANES];
    V dt;
    EACH(l) idle += !s.clocks[l].todo;
    if (waiting < last * LANES && 4 * idle >= LANES) {
      taken_up(a, &s, &waiting, last * LANES);
      continue;
    }
    if (idle == LANES) break;
    EACH(l) any |= s.event[l];
    if (any) happened(a, &s);
    EACH(l) {
      busy[l] = s.clocks[l].todo > 0;
      dt[l] = busy[l] ? s.clocks[l].trial : 0.0;
    }
    const V error = attempt(&s.now, &s.h, s.p, dt, &next);
    EACH(l) {
      s.cause[l] = NEVER;
      accepted[l] = busy[l] && stands(a, &s, &next, error[l], l);
      all &= accepted[l];
      if (accepted[l]) noted(a, s.copy[l], l, &s.now, s.clocks[l].trial);
    }
    if (all) s.now = next;
    EACH(l) {
      Clock *c = &s.clocks[l];
      if (accepted[l]) {
        if (!all) copied(&s.now, &next, l);
        went_on(a, &s, error[l], l);
      }
      if (accepted[l] || s.event[l]) {
        c->target = NEVER;
        c->trial = c->pace < 0.99 * c->left ? fmin(c->pace, c->left / 2) : c->left;
      }
      if (busy[l] && !c->todo) put_down(a, &s, l);
    }
  }
  for (long long k = first; k < last; ++k) {
    const V *x = (V *)a->x + k * (NQ + NW + NZ);
    report(
        ((V *)a->t)[k], x, x + NQ, x + NQ + NW, (V *)a->p + k * NP, (V *)a->force + k * ROWS, (V *)a->v + k * NV,
        (V *)a->contact + k * 3 * ELEMENTS, (V *)a->measured + k * MEASURES);
  }
}

int saltus_lanes(void) { return LANES; }

/* How many copies were given actions that are not finite; these stand still. */
int saltus_step(const Batch *a, long long first, long long last) {
  int wrong = 0;
  for (long long k = first; k < last; ++k) {
    const double *given = a->p + (k * NP + ACTION) * LANES;
    for (int i = 0; i < ACTIONS * LANES; ++i)
      if (!isfinite(given[i]) && !a->over[k * LANES + i % LANES]) a->over[k * LANES + i % LANES] = 2, ++wrong;
  }
  worked(a, first, last);
  return wrong;
}
