/* An implicit step, for motions that stability would hold to short explicit ones: slips in 3D that are slow, whose
   direction follows the forces within |slip| / (friction x acceleration), and stiff springs.

   Method and coefficients: G. Steinebach, BIT Numerical Mathematics 63 (2023) 27: Rodas5P, eight stages, order 5,
   stiffly accurate, its last increment the difference from a method of order 4, dense output of order 4. In the form of
   E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, section IV.7: with W = 1 / (GAMMA h) - df/dx,

     W u_i = f(t + c_i h, x + sum a_ij u_j) + sum (C_ij / h) u_j + h d_i df/dt,   x_new = x + sum a_8j u_j + u_8.

   Derivatives of f are differences, one evaluation for each state that rates depend on (ACTS). */

#define GAMMA 0.21193756319429014
#define STAGES 8
#define DIFFERENCE 1e-10 /* of a state, or of 1 */
#define ALONG 1e-7 /* of a state, or of 1, and AHEAD of a step: for the derivative along the motion */
#define AHEAD 1e-4
#define STABLE 5.0 /* h times the largest rate that decays, up to which explicit steps are stable */
#define EXPLICIT 16 /* evaluations of an explicit step */
#define IMPLICIT (ACTING + STAGES + 2) /* and of an implicit one */
#define STRICT 30 /* by so much less than the tolerance errors are: those of explicit steps are, too */
#define KNOWN 1e-7 /* of an implicit step: to what differences for derivatives let instants be known */
/* Steps that stability limits, beyond those that it does not, before implicit ones are tried; one that failed counts
   twice. Factors of W take longer the more states there are. */
#define PATIENCE (8 + N * N / 256)
#define NEVER 1000 /* of that patience: no end */
#define FEW 4 /* implicit steps: so few were not worth the change */
#define LARGEST 256 /* number of states: more of them make factors dearer than evaluations */

static const double NODE_IMPLICIT[STAGES] = {
    0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1, 1, 1};
static const double A_IMPLICIT[STAGES][STAGES] = {
    {0},
    {3.0},
    {2.849394379747939, 0.45842242204463923},
    {-6.954028509809101, 2.489845061869568, -10.358996098473584},
    {2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641},
    {-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946},
    {-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946, 1},
    {-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946, 1, 1},
};
static const double C_IMPLICIT[STAGES][STAGES] = {
    {0},
    {-14.155112264123755},
    {-17.97296035885952, -2.859693295451294},
    {147.12150275711716, -1.41221402718213, 71.68940251302358},
    {165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306},
    {24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471},
    {30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623,
     -28.087943162872662},
    {37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002,
     -54.66780262877968, -9.48861652309627},
};
static const double TIME_IMPLICIT[STAGES] = {
    0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0, 0, 0};
static const double DENSE_IMPLICIT[3][STAGES] = {
    {25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204, 0.524948541321073,
     1.1241088310450404, 0.4272876194431874, -0.17202221070155493},
    {-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796, 20.176138334709044,
     15.98066361424651, -6.789040303419874, -6.710236069923372},
    {11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643, -52.072871366152654,
     -59.78993625266729, -0.15582684282751913, 4.883087185713722},
};

/* df/dx and df/dt at the start of a step, whose rates are k[0]. Differences are short against slips that have just begun,
   at 0.1 sqrt(tolerance) in m/s, and long against round-off.

   What is fast cancels along the motion: there df/dx times the rates is far less than each of its terms, and a slow slip
   bends these within a difference. That would hold steps as short as explicit ones. So the derivative along the motion
   is a difference of its own, and what it is beside df/dx times the rates counts as df/dt. */
static void differentiate(Work *w, double t, const double *x, double h) {
  double y[SIZE(N)], f[SIZE(N)], rate = 1;
  memcpy(y, x, N * sizeof(double));
  for (int j = 0; j < N; ++j) {
    if (!ACTS[j]) {
      for (int i = 0; i < N; ++i) w->slope[i][j] = 0;
      continue;
    }
    y[j] = x[j] + DIFFERENCE * fmax(1, fabs(x[j]));
    const double d = y[j] - x[j];
    rhs(w, t, y, f);
    for (int i = 0; i < N; ++i) w->slope[i][j] = (f[i] - w->k[0][i]) / d;
    y[j] = x[j];
  }
  for (int i = 0; i < N; ++i) rate = fmax(rate, fabs(w->k[0][i]) / fmax(1, fabs(x[i])));
  const double d = fmin(AHEAD * h, ALONG / rate);
  for (int i = 0; i < N; ++i) y[i] = x[i] + d * w->k[0][i];
  rhs(w, t + d, y, f);
  for (int i = 0; i < N; ++i) {
    w->by_time[i] = (f[i] - w->k[0][i]) / d;
    for (int j = 0; j < N; ++j) w->by_time[i] -= w->slope[i][j] * w->k[0][j];
  }
  w->differentiated = 1;
}

/* The largest rate of df/dx, by its powers on a vector, each state measured by its tolerance. */
static double fastest(const Work *w, const double *x) {
  double v[SIZE(N)], y[SIZE(N)], rate = 0;
  for (int i = 0; i < N; ++i) v[i] = (1 + (i * 7 % 5)) * scale_of(w->run, i, fabs(x[i]));
  for (int pass = 0; pass < 8; ++pass) {
    double before = 0, after = 0;
    for (int i = 0; i < N; ++i) {
      const double scale = scale_of(w->run, i, fabs(x[i]));
      y[i] = 0;
      for (int j = 0; j < N; ++j) y[i] += w->slope[i][j] * v[j];
      before += (v[i] / scale) * (v[i] / scale), after += (y[i] / scale) * (y[i] / scale);
    }
    if (!(after > 0) || !isfinite(after)) return after > 0 ? INFINITY : 0;
    rate = sqrt(after / before);
    for (int i = 0; i < N; ++i) v[i] = y[i] / rate;
  }
  return rate;
}

/* W = L U with the larger pivots; whether there is one. */
static int factored(Work *w, double h) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) w->lu[i][j] = (i == j) / (GAMMA * h) - w->slope[i][j];
  for (int k = 0; k < N; ++k) {
    int top = k;
    for (int i = k + 1; i < N; ++i)
      if (fabs(w->lu[i][k]) > fabs(w->lu[top][k])) top = i;
    w->pivot[k] = top;
    if (!(fabs(w->lu[top][k]) > 0) || !isfinite(w->lu[top][k])) return 0;
    if (top != k)
      for (int j = 0; j < N; ++j) {
        const double kept = w->lu[k][j];
        w->lu[k][j] = w->lu[top][j], w->lu[top][j] = kept;
      }
    for (int i = k + 1; i < N; ++i) {
      const double m = w->lu[i][k] /= w->lu[k][k];
      if (m != 0)
        for (int j = k + 1; j < N; ++j) w->lu[i][j] -= m * w->lu[k][j];
    }
  }
  return 1;
}

static void solved(const Work *w, double *b) {
  for (int k = 0; k < N; ++k) {
    const double kept = b[w->pivot[k]];
    b[w->pivot[k]] = b[k], b[k] = kept;
  }
  for (int i = 1; i < N; ++i)
    for (int j = 0; j < i; ++j) b[i] -= w->lu[i][j] * b[j];
  for (int i = N - 1; i >= 0; --i) {
    for (int j = i + 1; j < N; ++j) b[i] -= w->lu[i][j] * b[j];
    b[i] /= w->lu[i][i];
  }
}

/* The same as `attempt_explicit`. Increments are k[1] to k[8]. */
static double attempt_implicit(Work *w, double t, const double *x, double h) {
  double y[SIZE(N)], sum = 0;
  if (!w->differentiated) differentiate(w, t, x, h);
  if (!factored(w, h)) return NAN;
  for (int s = 0; s < STAGES; ++s) {
    double *u = w->k[s + 1];
    memcpy(y, x, N * sizeof(double));
    for (int j = 0; j < s; ++j)
      for (int i = 0; i < N; ++i) y[i] += A_IMPLICIT[s][j] * w->k[j + 1][i];
    if (s) flow(w, t + NODE_IMPLICIT[s] * h, y, u, w->g_stage[s]);
    else memcpy(u, w->k[0], N * sizeof(double));
    for (int i = 0; i < N; ++i) u[i] += h * TIME_IMPLICIT[s] * w->by_time[i];
    for (int j = 0; j < s; ++j)
      for (int i = 0; i < N; ++i) u[i] += C_IMPLICIT[s][j] / h * w->k[j + 1][i];
    solved(w, u);
  }
  for (int i = 0; i < N; ++i) {
    const double last = w->k[STAGES][i];
    w->x_new[i] = y[i] + last;
    const double scale = scale_of(w->run, i, fmax(fabs(x[i]), fabs(w->x_new[i])));
    sum += (last / scale) * (last / scale);
  }
  return STRICT * sqrt(sum / SIZE(N));
}

/* Order 4: x (1 - s) + s (x_new + (1 - s) (H1 + s (H2 + s H3))), expanded. */
static void interpolate_implicit(Work *w, double t, const double *x, double h) {
  w->t = t, w->h = h, w->degree = 7;
  for (int i = 0; i < N; ++i) {
    double H[3] = {0, 0, 0};
    for (int k = 0; k < 3; ++k)
      for (int s = 0; s < STAGES; ++s) H[k] += DENSE_IMPLICIT[k][s] * w->k[s + 1][i];
    w->poly[0][i] = x[i];
    w->poly[1][i] = w->x_new[i] - x[i] + H[0];
    w->poly[2][i] = H[1] - H[0];
    w->poly[3][i] = H[2] - H[1];
    w->poly[4][i] = -H[2];
    w->poly[5][i] = w->poly[6][i] = w->poly[7][i] = 0;
  }
}

/* The error of that interpolant in the middle of the step in units of the tolerance: its defect p' - f(p) by W, since what
   decays at once is off by the defect over its rate. A step that passes over a decay, which its end does not show, is
   too long. */
static double error_inside_implicit(Work *w) {
  double f[SIZE(N)], sum = 0;
  place(w, 0.5);
  rhs(w, w->t + 0.5 * w->h, w->stage, f);
  for (int i = 0; i < N; ++i) f[i] = w->rate[i] - f[i];
  solved(w, f);
  for (int i = 0; i < N; ++i) {
    const double size = fabs(w->stage[i]), scale = scale_of(w->run, i, size) + 16 * DBL_EPSILON * size;
    sum += (f[i] / scale) * (f[i] / scale);
  }
  return STRICT * sqrt(sum / SIZE(N));
}

/* ---- which of the two ---- */

static double attempt(Work *w, double t, const double *x, double h) {
  return w->implicit ? attempt_implicit(w, t, x, h) : attempt_explicit(w, t, x, h);
}

static void interpolate(Work *w, double t, const double *x, double h) {
  (w->implicit ? interpolate_implicit : interpolate_explicit)(w, t, x, h);
}

/* Of a step: what an instant within it is known to. */
static double known(const Work *w) { return w->implicit ? KNOWN : DBL_EPSILON; }

static double error_inside(Work *w) { return w->implicit ? error_inside_implicit(w) : error_inside_explicit(w); }

/* Go over to implicit steps, or back. */
static void change(Work *w, int implicit) {
  w->implicit = w->run->implicit = implicit;
  w->differentiated = w->strained = w->taken = 0;
}

/* Whether implicit steps would serve better than explicit ones such as the last of length h, with rates f at its end.

   The rate by which f changes between the last stage and the end of the step tells: h times it is about STABLE where
   stability limits steps (Hairer, Norsett and Wanner, section IV.2). */
static int stiff(Work *w, double h, const double *f, int failed) {
  double by = 0, way = 0;
  if (N > LARGEST || w->patience == NEVER) return 0;
  for (int i = 0; i < N; ++i) {
    const double scale = scale_of(w->run, i, fabs(w->x_new[i]));
    const double df = (f[i] - w->k[11][i]) / scale, dx = (w->x_new[i] - w->last[i]) / scale;
    by += df * df, way += dx * dx;
  }
  const double strain = way > 0 && isfinite(by) ? h * sqrt(by / way) : 0;
  if (failed) w->strained += 2; /* where the motion is smooth hardly any step fails */
  else if (strain > 0.5 * STABLE) ++w->strained;
  else if (w->strained > 0) --w->strained;
  return w->strained >= w->patience || (failed && strain > 3 * STABLE * IMPLICIT / EXPLICIT);
}

/* Go back, for good, to explicit steps of the length they had before implicit ones began: they may pass what no implicit
   step is short enough for, as a kink of the rates. Whether there was a way back. */
static int give_up(Work *w, double *h) {
  const double begun = w->begun;
  if (!(begun > 0)) return 0;
  change(w, 0);
  w->patience = NEVER, w->begun = 0, *h = begun;
  return 1;
}

/* Whether explicit steps would serve better than implicit ones of length h from x, which do not grow any more. */
static int mild(Work *w, const double *x, double h, double error) {
  ++w->taken;
  if (error < 0.1 || h * fastest(w, x) * EXPLICIT > STABLE * IMPLICIT) return 0;
  if (w->taken <= FEW) w->patience = 2 * w->patience < NEVER ? 2 * w->patience : NEVER; /* it was not worth the while */
  return 1;
}
