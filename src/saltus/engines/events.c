/* Events of a step on its interpolant, the steps that land on them, and the loop over steps. */

static Point probe(Work *w, int i, double s) {
  place(w, s);
  guards(w, w->t + s * w->h, w->stage, w->probe_g);
  return (Point){s, w->probe_g[i], NAN};
}

static Point probe_with_rate(Work *w, int i, double s) {
  Point m = probe(w, i, s);
  guard_rates(w, w->t + s * w->h, w->stage, w->rate, w->h, w->probe_rate);
  m.rate = w->probe_rate[i];
  return m;
}

/* Rates of the guards at the samples, of the polynomial through them. */
static void rates_at_samples(Work *w) {
  static const double slope[SAMPLES][SAMPLES] = {{-25, 48, -36, 16, -3}, {-3, -10, 18, -6, 1}, {1, -8, 0, 8, -1},
                                                 {-1, 6, -18, 10, 3},    {3, -16, 36, -48, 25}};
  for (int k = 0; k < SAMPLES; ++k)
    for (int i = 0; i < G; ++i) {
      double sum = 0;
      for (int j = 0; j < SAMPLES; ++j) sum += slope[k][j] * w->g[j][i];
      w->g_rate[k][i] = sum * (SAMPLES - 1) / (12 * w->h);
    }
}

static Point sample(const Work *w, int i, int k) {
  return (Point){k / (SAMPLES - 1.0), w->g[k][i], w->g_rate[k][i]};
}

/* ---- events ---- */

/* Guard i and its slope by s at s, of the polynomial through the samples (Newton's forward differences). */
static Point through_samples(const Work *w, int i, double s) {
  const double u = (SAMPLES - 1) * s;
  double d[SAMPLES], value, slope = 0;
  for (int k = 0; k < SAMPLES; ++k) d[k] = w->g[k][i];
  for (int j = 1; j < SAMPLES; ++j)
    for (int k = SAMPLES - 1; k >= j; --k) d[k] = (d[k] - d[k - 1]) / j;
  value = d[SAMPLES - 1];
  for (int j = SAMPLES - 2; j >= 0; --j) slope = slope * (u - j) + value, value = value * (u - j) + d[j];
  return (Point){s, value, slope * (SAMPLES - 1)};
}

/* The root of guard i between a (sign * g < 0) and b (sign * g >= 0), infinity if it is seen to lie beyond `last`.

   From the root of the polynomial through the samples on by secants; where these lead out of what is left, or nowhere,
   by false position: of an end that stays for a second time half the value counts (Illinois). A jump or a pole, where
   values do not fall, is halved down to. */
static double root(Work *w, int i, double sign, Point a, Point b, double last) {
  const double least = fmin(fabs(a.g), fabs(b.g));
  double value_a = a.g, value_b = b.g, low = a.s, high = b.s, s = a.s + (b.s - a.s) * (a.g / (a.g - b.g));
  Point before = {0, 0, 0};
  int moved = 0;
  if (b.g == 0 && b.s <= last) return b.s;
  for (int pass = 0; pass < 8; ++pass) {
    if (!(s > low && s < high)) s = 0.5 * (low + high);
    before = through_samples(w, i, s);
    *(sign * before.g < 0 ? &low : &high) = s;
    s -= before.g / before.rate;
  }
  if (!(s > a.s && s < b.s)) s = 0.5 * (a.s + b.s);
  if (s > last && b.s > last) s = last;
  for (int pass = 0; pass < 100 && b.g != 0; ++pass) {
    const Point m = probe(w, i, s);
    if (sign * m.g < 0 && s >= last) return INFINITY;
    const double secant = pass ? (m.g - before.g) / (m.s - before.s) : before.rate;
    if (sign * m.g < 0) {
      a = m, value_a = m.g;
      if (moved < 0) value_b *= 0.5;
      moved = -1;
    } else {
      b = m, value_b = m.g;
      if (moved > 0) value_a *= 0.5;
      moved = 1;
    }
    before = m;
    s = pass < 6 ? m.s - m.g / secant : NAN;
    if (!(s > a.s && s < b.s)) s = a.s + (b.s - a.s) * (value_a / (value_a - value_b));
    if (fabs(s - m.s) <= fmax(FOUND, known(w)) * s && fabs(m.g) <= least) return s;
    if (b.s - a.s <= known(w) * b.s) return b.s;
    if (!(s > a.s && s < b.s) || fabs(m.g) > least) s = 0.5 * (a.s + b.s);
  }
  return b.g == 0 ? b.s : s;
}

/* Follow the hump of v = sign * g between a (v rising) and b (v falling) until v >= level or its top. */
static Point top(Work *w, int i, double sign, Point a, Point b, double level) {
  const double length = (b.s - a.s) * w->h, high = fmax(sign * a.g, sign * b.g);
  const double reach = (sign * (b.g - a.g) - sign * b.rate * length) / (sign * (a.rate - b.rate));
  Point best = sign * a.g > sign * b.g ? a : b;
  /* A concave hump stays below where its end tangents meet; twice that rise leaves room for others. */
  if (high + 2 * (sign * (a.g + a.rate * reach) - high) < level) return best;
  double weight_a = a.rate, weight_b = b.rate; /* Illinois: the end that stays has its weight halved */
  for (int pass = 0; pass < 100 && b.s - a.s > 4 * known(w) * b.s; ++pass) {
    double s = a.s + (b.s - a.s) * (weight_a / (weight_a - weight_b));
    if (!(s > a.s && s < b.s)) s = 0.5 * (a.s + b.s);
    const Point m = probe_with_rate(w, i, s);
    if (sign * m.g > sign * best.g) best = m;
    if (sign * m.g >= level || m.rate == 0) break;
    if (sign * m.rate > 0) a = m, weight_a = m.rate, weight_b *= 0.5;
    else b = m, weight_b = m.rate, weight_a *= 0.5;
  }
  return best;
}

/* The first root of guard i in the step up to `last`, in s (infinity: none). Sets armed_at[i] and sign[i]. */
static double scan(Work *w, int i, double last) {
  const int direction = w->run->directions[i];
  for (int k = 0; k + 1 < SAMPLES; ++k) {
    Point a = sample(w, i, k);
    if (a.s >= last) break;
    const Point b = sample(w, i, k + 1);
    const double margin = w->armed_at[i] <= a.s ? 0 : w->run->arm_tol;
    int ready = direction ? direction * a.g < -margin : fabs(a.g) > margin;
    /* v = sign * g comes from below; a guard of both directions on its surface leaves it by its slope. */
    const double sign = direction ? direction : (ready ? a.g < 0 : a.rate < 0) ? 1 : -1;
    w->sign[i] = sign;
    if (!ready) {
      if (sign * b.g < -margin) {
        w->armed_at[i] = fmin(w->armed_at[i], b.s);
        continue;
      }
      if (sign * a.rate < 0 && sign * b.rate > 0) { /* it may have left and come back in between */
        const double level = fmax(margin, DBL_MIN);
        const Point m = top(w, i, -sign, a, b, level);
        if (-sign * m.g >= level) a = m, ready = 1;
      }
    }
    if (!ready) {
      if (!direction && fabs(b.g) > margin) w->armed_at[i] = fmin(w->armed_at[i], b.s);
      continue;
    }
    w->armed_at[i] = fmin(w->armed_at[i], a.s);
    if (sign * b.g >= 0) return root(w, i, sign, a, b, last);
    if (sign * a.rate > 0 && sign * b.rate < 0) {
      const Point m = top(w, i, sign, a, b, 0);
      if (sign * m.g >= 0) return root(w, i, sign, a, m, last);
    }
  }
  return INFINITY;
}

/* The lowest and the highest value of guard i at the samples. */
static void bounds(const Work *w, int i, double *low, double *high) {
  *low = *high = w->g[0][i];
  for (int k = 1; k < SAMPLES; ++k) *low = fmin(*low, w->g[k][i]), *high = fmax(*high, w->g[k][i]);
}

/* Whether any guard comes so near its surface that the cubic interpolant cannot be trusted to tell. */
static int may_cross(const Work *w) {
  for (int i = 0; i < G; ++i) {
    double low, high, fastest = 0;
    bounds(w, i, &low, &high);
    for (int k = 0; k < SAMPLES; ++k) fastest = fmax(fastest, fabs(w->g_rate[k][i]));
    const double gap = low > 0 ? low : -high; /* negative if the surface lies between */
    if (!w->run->armed[i] || gap <= high - low || gap <= 0.25 * w->h * fastest) return 1;
  }
  return 0;
}

/* Whether guards keep so far from their surfaces at all stages that none can have been near one in between. */
static int distant(const Work *w) {
  const Run *r = w->run;
  for (int i = 0; i < G; ++i) {
    double low = fmin(w->g[0][i], w->g_end[i]), high = fmax(w->g[0][i], w->g_end[i]);
    for (int j = 1; j < (w->implicit ? STAGES : DENSE ? 16 : 12); ++j)
      if (j != 12) low = fmin(low, w->g_stage[j][i]), high = fmax(high, w->g_stage[j][i]);
    if (!r->armed[i] || (i < r->shifts && r->shift[i] != 0) || !((low > 0 ? low : -high) > high - low)) return 0;
  }
  return 1;
}

/* Move surfaces back that guards have left: until then these fire as soon as they go further beyond, also if they come back
   and leave later in the same step. */
static void release(Work *w) {
  Run *r = w->run;
  for (int i = 0; i < r->shifts; ++i) {
    const double shift = r->shift[i], sign = -r->directions[i], level = fmin(fabs(shift), FAR) - sign * shift;
    int left = 0;
    for (int k = 0; k + 1 < SAMPLES && shift != 0 && !left; ++k) {
      const Point a = sample(w, i, k), b = sample(w, i, k + 1);
      if (sign * a.g < 0 || (sign * a.rate < 0 && sign * b.rate > 0 && sign * top(w, i, -sign, a, b, 0).g < 0)) break;
      left = sign * a.g > level || sign * b.g > level ||
             (sign * a.rate > 0 && sign * b.rate < 0 && sign * top(w, i, sign, a, b, level).g > level);
    }
    if (!left) continue;
    for (int k = 0; k < SAMPLES; ++k) w->g[k][i] += shift;
    w->shift[i] = shift, r->shift[i] = 0, r->left[i] = 1, r->armed[i] = 0;
  }
}

/* Forget it: the step is not taken. */
static void take_back(Work *w) {
  Run *r = w->run;
  for (int i = 0; i < r->shifts; ++i) {
    if (w->shift[i] == 0) continue;
    w->g[0][i] -= w->shift[i];
    r->shift[i] = w->shift[i], r->left[i] = 0, r->armed[i] = 1;
  }
}

/* Look for events in the finished step from x. Return the s of the first one, infinity for none. */
static double find_events(Work *w, double t, const double *x, double h) {
  double first = INFINITY;
  memcpy(w->g[SAMPLES - 1], w->g_end, sizeof w->g_end);
  memset(w->shift, 0, sizeof w->shift);
  if (distant(w)) return first;
  for (;;) {
    for (int k = 1; k + 1 < SAMPLES; ++k) {
      const double s = k / (SAMPLES - 1.0);
      place(w, s);
      guards(w, w->t + s * w->h, w->stage, w->g[k]);
    }
    rates_at_samples(w);
    release(w);
    if (w->degree == 7) break;
    if (!may_cross(w)) return first;
    interpolate(w, t, x, h);
  }
  for (int i = 0; i < G; ++i) {
    double low, high;
    bounds(w, i, &low, &high);
    w->range[i] = high - low;
    w->armed_at[i] = w->run->armed[i] ? 0 : INFINITY;
    w->root[i] = scan(w, i, first + TIED);
    first = fmin(first, w->root[i]);
  }
  return first;
}

/* Whether guards at the landed state say that none has fired: what the interpolant showed of guard i was its error, as
   of forces that hang on velocities below the tolerance, and not a graze, whose value there is next to none. */
static int mistaken(const Work *w, int i) {
  for (int k = 0; k < G; ++k)
    if (isfinite(w->delay[k]) && w->sign[k] * w->g_end[k] >= 0) return 0;
  return fabs(w->g_end[i]) > 0.1 * w->range[i];
}

/* Whether the landed state says otherwise than the interpolant did: a guard is well beyond its surface that was never
   seen there, or one that fired is not near it. Something below the tolerance, as the direction of a slip that ends,
   turned within the step, and another event may come first. */
static int missed(const Work *w) {
  for (int k = 0; k < G; ++k) {
    const double beyond = w->run->directions[k] * w->g_end[k];
    if (w->armed_at[k] == 0 && beyond > 0.1 * w->range[k] && beyond < 2 * w->range[k] && /* and no pole */
        (!isfinite(w->root[k]) || isfinite(w->delay[k])))
      return 1;
  }
  return 0;
}

/* Whether guards with a root near the landed state are beyond their surfaces by more than a share of their ranges. */
static int beyond(const Work *w, double share) {
  for (int i = 0; i < G; ++i)
    if (isfinite(w->delay[i]) && w->sign[i] * w->g_end[i] > share * w->range[i]) return 1;
  return 0;
}

/* Whether a guard that has no root here is well beyond its surface at the landed state: forces have passed a pole. */
static int leapt(const Work *w) {
  for (int k = 0; k < G; ++k)
    if (w->armed_at[k] == 0 && !isfinite(w->delay[k]) && w->run->directions[k] * w->g_end[k] > 0.1 * w->range[k])
      return 1;
  return 0;
}

/* A step of length from x, put onto the constraints; whether it is sound, its error no more than `most` tolerances. */
static int stepped(Work *w, double t, const double *x, double length, double most) {
  return attempt(w, t, x, length) <= most && finish(w, t + length);
}

/* A step of no length. */
static void stay(Work *w, double t, const double *x) {
  memcpy(w->x_new, x, N * sizeof(double));
  memcpy(w->k[12], w->k[0], N * sizeof(double));
  guards(w, t, x, w->g_end);
}

/* Guards that jump, as forces do where a slip in 3D turns round as it ends: halve the step down to the instant before any
   is beyond its surface, and list those that are just behind it. Return the length of the step, NaN if one failed. */
static double before(Work *w, double t, const double *x, double length, double most) {
  Run *r = w->run;
  double low = 0, high = length;
  for (int pass = 0; pass < 60 && t + 0.5 * (low + high) != t + low && t + 0.5 * (low + high) != t + high; ++pass) {
    const double middle = 0.5 * (low + high);
    if (!stepped(w, t, x, middle, most)) return NAN;
    *(beyond(w, 0) ? &high : &low) = middle;
  }
  if (!stepped(w, t, x, high, most)) return NAN;
  r->n_fired = 0;
  for (int i = 0; i < G; ++i)
    if (isfinite(w->delay[i]) && w->sign[i] * w->g_end[i] >= 0) r->fired[r->n_fired++] = i;
  if (low == 0) stay(w, t, x); /* the step is as short as steps are */
  return low == 0 || stepped(w, t, x, low, most) ? low : NAN;
}

/* Shorten the step to the event near s = first: a true step of the method, its length corrected by Newton's
   method on the guards. Lists the guards that fired, none if it was a mistake. Return the length, or NaN if a step was
   not finite or its error more than `most` tolerances: what is unstable may by chance pass in a longer one. */
static double land(Work *w, double t, const double *x, double h, double first, double most) {
  Run *r = w->run;
  const double *g = w->g_end, *g_rate = w->probe_rate;
  double length = first * h, soonest = INFINITY, off = INFINITY, begun = 0, least = INFINITY, nearest_by = length;
  int nearest = 0;
  for (int pass = 0;; ++pass) {
    const double before = soonest;
    if (t + length == t) {
      stay(w, t, x);
      length = 0;
    } else if (!stepped(w, t, x, length, most)) {
      return NAN;
    }
    guard_rates(w, t + length, w->x_new, w->k[12], h, w->probe_rate);
    const int jumps = fabs(before) > 1e-10 * length && fabs(g[nearest]) > 0.5 * off;
    soonest = INFINITY;
    for (int i = 0; i < G; ++i) {
      /* Only guards with a root here; the interpolant may have swapped those that are very near. */
      w->delay[i] = w->root[i] - first > TIED ? INFINITY
                    : w->sign[i] * g_rate[i] > 0 ? -g[i] / g_rate[i]
                                                 : (w->root[i] - first) * h;
      if (w->delay[i] < soonest) soonest = w->delay[nearest = i];
    }
    off = fabs(g[nearest]);
    if (pass == 0) begun = off;
    if (off < least) least = off, nearest_by = length;
    /* A large correction means that the guard barely touches: the interpolant's root then stays. */
    if (pass == 3 || length == 0 || fabs(soonest) > 0.5 * length) break;
    if (!jumps && fabs(soonest) <= DBL_EPSILON * fmax(fabs(t + length), length)) break;
    if (jumps || fabs(soonest) > fmax(0.5 * fabs(before), 1e-10 * length)) {
      /* Round-off of the guard lets it come no nearer. Unless it came clearly nearer, the interpolant has the root. */
      if (off == least && off < 0.5 * begun) break;
      pass = 2, length = least < 0.5 * begun ? nearest_by : first * h;
      continue;
    }
    length = fmin(h, length + soonest);
  }
  r->n_fired = 0;
  if (length > 0 && mistaken(w, nearest)) return length;
  if (length > 0 && (beyond(w, 0.1) || leapt(w))) return before(w, t, x, length, most);
  const double tie = fmax(1e-12 * fmax(fabs(t + length), h), known(w) * length);
  for (int i = 0; i < G; ++i) {
    if (!(w->delay[i] - soonest <= tie || (isfinite(w->delay[i]) && w->sign[i] * g[i] >= 0))) continue;
    int k = r->n_fired++;
    for (; k > 0 && w->delay[r->fired[k - 1]] > w->delay[i]; --k) r->fired[k] = r->fired[k - 1];
    r->fired[k] = i;
  }
  return length;
}

/* Arm what left its surface before s, or has left it in the state the guards were looked at last. */
static void arm(Work *w, double s, const double *g) {
  for (int i = 0; i < G; ++i) {
    const int direction = w->run->directions[i];
    const double tol = w->run->arm_tol;
    if (w->armed_at[i] <= s || (direction ? direction * g[i] < -tol : fabs(g[i]) > tol)) w->run->armed[i] = 1;
  }
}

/* ---- the loop ---- */

static int store(Work *w, double t_new) {
  Run *r = w->run;
  if (r->count == r->capacity) {
    const long long capacity = r->capacity ? 2 * r->capacity : 64;
    double *breaks = realloc(r->breaks, (capacity + 1) * sizeof(double));
    if (breaks) r->breaks = breaks;
    double *coefficients = realloc(r->coefficients, capacity * (DEGREE + 1) * SIZE(N) * sizeof(double));
    if (coefficients) r->coefficients = coefficients;
    if (!breaks || !coefficients) return 0;
    r->capacity = capacity;
  }
  for (int j = 0; j <= DEGREE; ++j)
    memcpy(r->coefficients + (r->count * (DEGREE + 1) + j) * N, w->poly[j], N * sizeof(double));
  r->breaks[++r->count] = t_new;
  return 1;
}

/* Keep the finished step as the next interval and start from its end. */
static int advance(Work *w, double *t, double t_new, double h) {
  Run *r = w->run;
  if (w->degree != DEGREE || w->h != h) (DENSE ? interpolate : interpolate_cubic)(w, *t, r->x, h);
  if (!store(w, t_new)) return 0;
  *t = t_new, w->differentiated = 0;
  memcpy(r->x, w->x_new, N * sizeof(double));
  memcpy(w->k[0], w->k[12], N * sizeof(double));
  return 1;
}

#define CLEAR 30 /* times what the projection moved: so large an error inside a step is its own */

/* By how much the projection moved the end of the step, in units of the tolerance. */
static double shifted(const Work *w) {
  double sum = 0;
  for (int i = 0; i < N; ++i) {
    const double share = w->moved[i] / scale_of(w->run, i, fabs(w->x_new[i]));
    sum += share * share;
  }
  return sqrt(sum / SIZE(N));
}

static int integrate(Work *w) {
  /* PI control after Gustafsson as in Hairer's code: exponents, safety, and bounds of the change of step. */
  const double beta = 0.04, safety = 0.9, shrink = 3, grow = 1.0 / 6;
  Run *r = w->run;
  double t = r->t, h = r->step, error_before = 1e-4, length_before = 0;
  int halvings = 0, failed_before = 0;
  change(w, r->implicit && N <= LARGEST), w->begun = w->implicit ? h : 0;
  w->patience = PATIENCE;
  flow(w, t, r->x, w->k[0], w->g[0]);
  if (!finite_all(r->x, N) || !finite_all(w->k[0], N)) return NOT_FINITE;
  for (int i = 0; i < G; ++i) w->armed_at[i] = INFINITY;
  arm(w, 0, w->g[0]);
  if (t >= r->t_end) return END;
  if (!(h > 0)) r->step = h = first_step(w, t, r->x);
  for (;;) {
    if (t >= r->t_end) return END;
    if (r->count >= r->max_steps) return LIMIT;
    h = fmin(h, r->max_step);
    const int last = t + 1.01 * h >= r->t_end;
    const double length = last ? r->t_end - t : h, t_new = last ? r->t_end : t + h;
    const double smallest = 1e-14 * fmax(1, fabs(t)), power = w->implicit ? 1.0 / 5 : 1.0 / 8 - 0.2 * beta;
    double error = attempt(w, t, r->x, length);
    int sound = isfinite(error), finished = 0;
    if (error <= 1) {
      sound = finished = finish(w, t_new);
      if (sound) {
        (DENSE ? interpolate : interpolate_cubic)(w, t, r->x, length);
        /* Both fall with a power of h. What does not must not shorten steps for ever: the jump of a projection that is
           uncertain near a singular position or between rows that depend on each other, or a kink of the rates, to which
           an explicit step that failed before may owe it; of a stiff motion the ends of implicit steps say nothing of
           what is between. */
        if (DENSE) {
          const double inside = error_inside(w);
          const int own = inside > CLEAR * shifted(w) && (w->implicit || !failed_before);
          error = fmax(error, own ? inside : fmin(inside, 1e3 * error));
        }
      }
    }
    if (sound && error > 1) {
      ++r->rejected;
      failed_before = 1;
      if (!w->implicit) {
        if (!finished) rhs(w, t_new, w->x_new, w->k[12]);
        if (stiff(w, length, w->k[12], 1)) {
          change(w, 1), w->begun = length;
          continue;
        }
      }
      h = length / fmin(shrink, pow(error, power) / safety);
      if (h < smallest && !give_up(w, &h)) return STEP_TOO_SMALL;
      r->step = h;
      continue;
    }
    double event = INFINITY, landed = NAN;
    if (sound) {
      if (G > 0) event = find_events(w, t, r->x, length);
      if (isfinite(event)) {
        landed = land(w, t, r->x, length, event, halvings < 20 ? 1 : DBL_MAX);
        sound = isfinite(landed) && !(halvings < 8 && length > 1e3 * smallest && missed(w));
      }
    }
    if (!sound) {
      if (isfinite(event)) take_back(w);
      ++r->rejected;
      failed_before = 1;
      r->step = h = 0.5 * length;
      if (++halvings > 60 || h < smallest) return NOT_FINITE;
      continue;
    }
    if (isfinite(event)) {
      arm(w, event, w->g_end);
      memcpy(w->g[0], w->g_end, sizeof w->g[0]);
      r->step = h;
      if (landed > 0 && !advance(w, &t, landed == length ? t_new : t + landed, landed)) return NO_MEMORY;
      if (r->n_fired) return EVENT;
      continue;
    }
    const int changes = w->implicit ? mild(w, r->x, length, error) : stiff(w, length, w->k[12], 0);
    if (!advance(w, &t, t_new, length)) return NO_MEMORY;
    if (changes && !w->implicit) w->begun = length;
    if (changes) change(w, !w->implicit), error = 1;
    if (G > 0) {
      arm(w, 1, w->g[SAMPLES - 1]);
      memcpy(w->g[0], w->g[SAMPLES - 1], sizeof w->g[0]);
    }
    const double change = pow(error, power) / pow(error_before, beta) / safety;
    double next = length / fmax(grow, fmin(shrink, change));
    /* Steps that shrink go on to: near a slip's end each is a share of the one before (Hairer and Wanner, IV.8). */
    if (length < length_before)
      next = fmin(next, length * fmax(1 / shrink, length / length_before * pow(error_before / error, power) / change));
    if (failed_before) next = fmin(next, length);
    h = last ? fmax(h, next) : next; /* a step cut at the end says nothing against longer ones */
    if (h < smallest && h < length && !give_up(w, &h)) return STEP_TOO_SMALL;
    r->step = h;
    error_before = fmax(error, 1e-4), length_before = length;
    failed_before = halvings = 0;
  }
}

/* Zeros, from which functions that leave out a part of themselves start; whether there was room. */
static int taken(Memory *m, int (*work)(casadi_int *, casadi_int *, casadi_int *, casadi_int *)) {
  casadi_int arg, res, iw, w;
  work(&arg, &res, &iw, &w);
  m->arg = calloc(arg + 1, sizeof *m->arg);
  m->res = calloc(res + 1, sizeof *m->res);
  m->iw = calloc(iw + 1, sizeof *m->iw);
  m->w = calloc(w + 1, sizeof *m->w);
  return m->arg && m->res && m->iw && m->w;
}

static void given_back(Memory *m) {
  free(m->arg);
  free(m->res);
  free(m->iw);
  free(m->w);
}

static void shut(Work *w) {
  if (!w) return;
  given_back(&w->of_flow);
  given_back(&w->of_projection);
  free(w);
}

static Work *opened(Run *r) {
  Work *w = malloc(sizeof *w);
  if (!w) return w;
  w->run = r, w->forces = w->spare_forces;
  memset(&w->of_projection, 0, sizeof w->of_projection);
  int sound = taken(&w->of_flow, saltus_flow_work);
#if PROJECT
  sound = sound && taken(&w->of_projection, saltus_project_work);
#endif
  if (sound) return w;
  shut(w);
  return NULL;
}

EXPORT void saltus_run(Run *r) {
  Work *w = opened(r);
  r->breaks = malloc(sizeof(double));
  r->stop = NO_MEMORY;
  if (w && r->breaks) {
    r->breaks[0] = r->t;
    r->stop = integrate(w);
  }
  shut(w);
}

/* Derivatives, guards and forces at `count` states; one p of `size` for all of them, or with `each` one for each. */
EXPORT void saltus_look(long long count, long long each, long long size, const double *t, const double *x, double *p,
                        double *f, double *g, double *forces) {
  Run r = {0};
  Work *w = opened(&r);
  for (long long k = 0; k < count; ++k) {
    if (!w) {
      for (int i = 0; i < N; ++i) f[k * N + i] = NAN;
      continue;
    }
    r.p = p + each * k * size, w->forces = forces + k * F;
    flow(w, t[k], x + k * N, f + k * N, g + k * G);
  }
  shut(w);
}

EXPORT void saltus_free(Run *r) {
  free(r->breaks);
  free(r->coefficients);
}
