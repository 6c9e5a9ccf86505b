/* DOP853 with events: one call integrates until the first event, the end, or a limit.

   Method and coefficients: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I,
   2nd ed., section II.5 and II.6 (order 8 with error estimators of order 5 and 3, dense output of order 7).

   Beyond Hairer's code a step is also judged by the error inside it, see error_inside.

   Written in front of this text, by native.py: the C of the flow as CasADi gives it,
     saltus_flow(t, x, p) -> (f, g, forces), derivatives, guards and more,  saltus_project(t, x, p) -> x,
   and N (states), G (guards), F (forces), PROJECT (0 or 1), DENSE (1: store degree 7, 0: store cubic Hermite). */

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define SIZE(count) ((count) > 0 ? (count) : 1) /* C has no empty arrays */
#define DEGREE (DENSE ? 7 : 3)
#define SAMPLES 5 /* points of a step, ends included, at which the guards are looked at */
#define SHARE 3e-5 /* of a step: the width of differences of guards */
#define FAR 1e-7 /* a guard so far from its surface has left it */
#define FOUND 1e-10 /* of itself: what a root is looked for to; `land` makes it exact */
#define TIED 1e-4 /* of a step: guards with roots so near may fire together */

enum { END, EVENT, LIMIT, NOT_FINITE, STEP_TOO_SMALL, NO_MEMORY };

/* The same layout as native._Run. */
typedef struct {
  double t, t_end, step, max_step, arm_tol;
  long long max_steps;
  double *p; /* a copy of its own: surfaces that guards left move back */
  const double *atol, *rtol;
  const int *directions;
  double *x;            /* in: first state, out: last state */
  unsigned char *armed; /* in and out */
  int *fired;           /* out: room for G */
  double *shift;        /* in p: by so much the surfaces of the first guards are moved */
  unsigned char *left;  /* out: which of these left it */
  double *breaks, *coefficients; /* out: belong to the caller, who passes them to saltus_free */
  long long count, capacity, evaluations, rejected;
  int shifts, n_fired, stop;
} Run;

/* What CasADi's functions work in. */
typedef struct {
  const double **arg;
  double **res;
  casadi_int *iw;
  double *w;
} Memory;

typedef struct {
  Run *run;
  Memory of_flow, of_projection;
  double k[16][SIZE(N)];   /* stages; k[0] and k[12] are the derivatives at the two ends of the step */
  double stage[SIZE(N)], x_new[SIZE(N)], rate[SIZE(N)];
  double poly[8][SIZE(N)]; /* the interpolant of the step, by powers of s in [0, 1] */
  int degree;
  double t, h;             /* the step poly stands for */
  double g[SAMPLES][SIZE(G)], g_rate[SAMPLES][SIZE(G)]; /* guards and their time derivatives */
  double g_stage[16][SIZE(G)]; /* the guards at the stages, for nothing */
  double g_end[SIZE(G)], probe_g[SIZE(G)], probe_rate[SIZE(G)], spare_g[SIZE(G)], spare_forces[SIZE(F)];
  double *forces; /* where those of an evaluation go */
  double range[SIZE(G)]; /* of the guards at the samples */
  double armed_at[SIZE(G)], root[SIZE(G)], sign[SIZE(G)], delay[SIZE(G)];
  double shift[SIZE(G)]; /* of surfaces that moved back in this step */
} Work;

/* One guard at one point of the step. */
typedef struct {
  double s, g, rate;
} Point;

static const double NODE[16] = {
    0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726,
    0.3333333333333333, 0.25, 0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571, 1.0, 1.0,
    0.1, 0.2, 0.7777777777777778};
static const double A[16][15] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.05260015195876773, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.0197250569845379, 0.0591751709536137, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.02958758547680685, 0, 0.08876275643042054, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.2413651341592667, 0, -0.8845494793282861, 0.924834003261792, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.037037037037037035, 0, 0, 0.17082860872947386, 0.12546768756682242, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.037109375, 0, 0, 0.17025221101954405, 0.06021653898045596, -0.017578125, 0, 0, 0, 0, 0, 0, 0, 0,
     0},
    {0.03709200011850479, 0, 0, 0.17038392571223998, 0.10726203044637328, -0.015319437748624402,
     0.008273789163814023, 0, 0, 0, 0, 0, 0, 0, 0},
    {0.6241109587160757, 0, 0, -3.3608926294469414, -0.868219346841726, 27.59209969944671,
     20.154067550477894, -43.48988418106996, 0, 0, 0, 0, 0, 0, 0},
    {0.47766253643826434, 0, 0, -2.4881146199716677, -0.590290826836843, 21.230051448181193,
     15.279233632882423, -33.28821096898486, -0.020331201708508627, 0, 0, 0, 0, 0, 0},
    {-0.9371424300859873, 0, 0, 5.186372428844064, 1.0914373489967295, -8.149787010746927,
     -18.52006565999696, 22.739487099350505, 2.4936055526796523, -3.0467644718982196, 0, 0, 0, 0, 0},
    {2.273310147516538, 0, 0, -10.53449546673725, -2.0008720582248625, -17.9589318631188,
     27.94888452941996, -2.8589982771350235, -8.87285693353063, 12.360567175794303, 0.6433927460157636, 0,
     0, 0, 0},
    {0.054293734116568765, 0, 0, 0, 0, 4.450312892752409, 1.8915178993145003, -5.801203960010585,
     0.3111643669578199, -0.1521609496625161, 0.20136540080403034, 0.04471061572777259, 0, 0, 0},
    {0.056167502283047954, 0, 0, 0, 0, 0, 0.25350021021662483, -0.2462390374708025, -0.12419142326381637,
     0.15329179827876568, 0.00820105229563469, 0.007567897660545699, -0.008298, 0, 0},
    {0.03183464816350214, 0, 0, 0, 0, 0.028300909672366776, 0.053541988307438566, -0.05492374857139099, 0,
     0, -0.00010834732869724932, 0.0003825710908356584, -0.00034046500868740456, 0.1413124436746325, 0},
    {-0.42889630158379194, 0, 0, 0, 0, -4.697621415361164, 7.683421196062599, 4.06898981839711,
     0.3567271874552811, 0, 0, 0, -0.0013990241651590145, 2.9475147891527724, -9.15095847217987},
};
static const double E5[12] = {
    0.01312004499419488, 0, 0, 0, 0, -1.2251564463762044, -0.4957589496572502, 1.6643771824549864,
    -0.35032884874997366, 0.3341791187130175, 0.08192320648511571, -0.022355307863886294};
static const double E3[12] = {
    -0.18980075407240762, 0, 0, 0, 0, 4.450312892752409, 1.8915178993145003, -5.801203960010585,
    -0.4226823213237919, -0.1521609496625161, 0.20136540080403034, 0.02265179219836082};
static const double D[4][16] = {
    {-8.428938276109013, 0, 0, 0, 0, 0.5667149535193777, -3.0689499459498917, 2.38466765651207,
     2.117034582445028, -0.871391583777973, 2.2404374302607883, 0.6315787787694688, -0.08899033645133331,
     18.148505520854727, -9.194632392478356, -4.436036387594894},
    {10.427508642579134, 0, 0, 0, 0, 242.28349177525817, 165.20045171727028, -374.5467547226902,
     -22.113666853125306, 7.733432668472264, -30.674084731089398, -9.332130526430229, 15.697238121770845,
     -31.139403219565178, -9.35292435884448, 35.81684148639408},
    {19.985053242002433, 0, 0, 0, 0, -387.0373087493518, -189.17813819516758, 527.8081592054236,
     -11.57390253995963, 6.8812326946963, -1.0006050966910838, 0.7777137798053443, -2.778205752353508,
     -60.19669523126412, 84.32040550667716, 11.99229113618279},
    {-25.69393346270375, 0, 0, 0, 0, -154.18974869023643, -231.5293791760455, 357.6391179106141,
     93.40532418362432, -37.45832313645163, 104.0996495089623, 29.8402934266605, -43.53345659001114,
     96.32455395918828, -39.17726167561544, -149.72683625798564},
};

/* ---- the flow ---- */

static int finite_all(const double *v, int n) {
  for (int i = 0; i < n; ++i)
    if (!isfinite(v[i])) return 0;
  return 1;
}

/* Derivatives and guards. A function that reports failure (a solver inside it) counts as not finite. */
static void flow(Work *w, double t, const double *x, double *f, double *g) {
  const Memory *m = &w->of_flow;
  m->arg[0] = &t, m->arg[1] = x, m->arg[2] = w->run->p, m->res[0] = f, m->res[1] = g, m->res[2] = w->forces;
  ++w->run->evaluations;
  if (saltus_flow(m->arg, m->res, m->iw, m->w, 0) && N > 0) f[0] = NAN;
}

static void rhs(Work *w, double t, const double *x, double *f) { flow(w, t, x, f, w->spare_g); }

static void guards(Work *w, double t, const double *x, double *g) {
  double f[SIZE(N)];
  flow(w, t, x, f, g);
}

/* Time derivatives of the guards along xdot, by differences over a share of the step: what they depend on (forces) may
   be the larger part of the flow, whose derivative would be three times as long. */
static void guard_rates(Work *w, double t, const double *x, const double *xdot, double h, double *g_rate) {
  const double d = fmax(SHARE * h, 1e-10 * fmax(1, fabs(t)));
  double y[SIZE(N)], ahead[SIZE(G)];
  for (int i = 0; i < N; ++i) y[i] = x[i] + d * xdot[i];
  guards(w, t + d, y, ahead);
  for (int i = 0; i < N; ++i) y[i] = x[i] - d * xdot[i];
  guards(w, t - d, y, g_rate);
  for (int i = 0; i < G; ++i) g_rate[i] = (ahead[i] - g_rate[i]) / (2 * d);
}

/* ---- one step ---- */

/* y = sum_j c_j k_j */
static void combine(const Work *w, const double *c, int count, double *y) {
  for (int i = 0; i < N; ++i) y[i] = c[0] * w->k[0][i];
  for (int j = 1; j < count; ++j) {
    const double a = c[j], *k = w->k[j];
    if (a != 0)
      for (int i = 0; i < N; ++i) y[i] += a * k[i];
  }
}

static void stage(Work *w, int j, double t, const double *x, double h) {
  double y[SIZE(N)];
  combine(w, A[j], j, y);
  for (int i = 0; i < N; ++i) y[i] = x[i] + h * y[i];
  flow(w, t + NODE[j] * h, y, w->k[j], w->g_stage[j]);
}

/* Fill x_new from x and k[0]; return the error in units of the tolerance (NaN: not finite). */
static double attempt(Work *w, double t, const double *x, double h) {
  double y[SIZE(N)], e5[SIZE(N)], e3[SIZE(N)], sum5 = 0, sum3 = 0;
  for (int j = 1; j < 12; ++j) stage(w, j, t, x, h);
  combine(w, A[12], 12, y);
  combine(w, E5, 12, e5);
  combine(w, E3, 12, e3);
  for (int i = 0; i < N; ++i) {
    w->x_new[i] = x[i] + h * y[i];
    /* Without the smallest number a state at rest with atol 0 would make 0/0. */
    const double scale = w->run->atol[i] + w->run->rtol[i] * fmax(fabs(x[i]), fabs(w->x_new[i])) + DBL_MIN;
    sum5 += (e5[i] / scale) * (e5[i] / scale);
    sum3 += (e3[i] / scale) * (e3[i] / scale);
  }
  const double sum = sum5 + 0.01 * sum3;
  return sum == 0 ? 0 : h * sum5 / sqrt(sum * N);
}

/* Project x_new and evaluate the derivative there; return whether all is finite. */
static int finish(Work *w, double t_new) {
#if PROJECT
  double y[SIZE(N)];
  memcpy(y, w->x_new, N * sizeof(double));
  const Memory *m = &w->of_projection;
  m->arg[0] = &t_new, m->arg[1] = y, m->arg[2] = w->run->p, m->res[0] = w->x_new;
  if (saltus_project(m->arg, m->res, m->iw, m->w, 0)) return 0;
#endif
  flow(w, t_new, w->x_new, w->k[12], w->g_end);
  for (int i = 0; i < G; ++i)
    if (isnan(w->g_end[i])) return 0; /* it could never fire: a foot above ground that has no height there */
  return finite_all(w->x_new, N) && finite_all(w->k[12], N);
}

/* Hairer, Norsett and Wanner, section II.4: a first step from the sizes of x, f and the change of f. */
static double first_step(Work *w, double t, const double *x) {
  const Run *r = w->run;
  double y[SIZE(N)], size_x = 0, size_f = 0, size_d = 0;
  for (int i = 0; i < N; ++i) {
    const double scale = r->atol[i] + r->rtol[i] * fabs(x[i]) + DBL_MIN;
    size_x += (x[i] / scale) * (x[i] / scale) / N;
    size_f += (w->k[0][i] / scale) * (w->k[0][i] / scale) / N;
  }
  size_x = sqrt(size_x), size_f = sqrt(size_f);
  double h = size_x < 1e-5 || size_f < 1e-5 || !isfinite(size_x / size_f) ? 1e-6 : 0.01 * size_x / size_f;
  h = fmin(h, fmin(r->max_step, r->t_end - t));
  for (int i = 0; i < N; ++i) y[i] = x[i] + h * w->k[0][i];
  rhs(w, t + h, y, w->k[1]);
  for (int i = 0; i < N; ++i) {
    const double scale = r->atol[i] + r->rtol[i] * fabs(x[i]) + DBL_MIN;
    const double d = (w->k[1][i] - w->k[0][i]) / scale;
    size_d += d * d / N;
  }
  const double largest = fmax(size_f, sqrt(size_d) / h);
  if (!isfinite(largest)) return h;
  return fmin(100 * h, largest <= 1e-15 ? fmax(1e-6, h * 1e-3) : pow(0.01 / largest, 1.0 / 8));
}

/* ---- the interpolant ---- */

/* Cubic Hermite from both ends of the step from x to x_new. */
static void interpolate_cubic(Work *w, double t, const double *x, double h) {
  w->t = t, w->h = h, w->degree = 3;
  for (int i = 0; i < N; ++i) {
    const double d = w->x_new[i] - x[i], a = h * w->k[0][i], b = h * w->k[12][i];
    w->poly[0][i] = x[i];
    w->poly[1][i] = a;
    w->poly[2][i] = 3 * d - 2 * a - b;
    w->poly[3][i] = a + b - 2 * d;
  }
}

/* Order 7, three more evaluations. Hairer's form is nested,
   x + s (F0 + (1 - s) (F1 + s (F2 + (1 - s) (F3 + s (F4 + (1 - s) (F5 + s F6)))))); here it is expanded. */
static void interpolate(Work *w, double t, const double *x, double h) {
  double f[4][SIZE(N)];
  for (int j = 13; j < 16; ++j) stage(w, j, t, x, h);
  for (int j = 0; j < 4; ++j) combine(w, D[j], 16, f[j]);
  w->t = t, w->h = h, w->degree = 7;
  for (int i = 0; i < N; ++i) {
    const double f0 = w->x_new[i] - x[i], f1 = h * w->k[0][i] - f0, f2 = f0 - f1 - h * w->k[12][i];
    const double f3 = h * f[0][i], f4 = h * f[1][i], f5 = h * f[2][i], f6 = h * f[3][i];
    w->poly[0][i] = x[i];
    w->poly[1][i] = h * w->k[0][i];
    w->poly[2][i] = f2 + f3 - f1;
    w->poly[3][i] = f4 + f5 - f2 - 2 * f3;
    w->poly[4][i] = f3 - 2 * f4 - 3 * f5 + f6;
    w->poly[5][i] = f4 + 3 * f5 - 3 * f6;
    w->poly[6][i] = 3 * f6 - f5;
    w->poly[7][i] = -f6;
  }
}

/* Put state and rate at s on the interpolant into stage and rate. */
static void place(Work *w, double s) {
  for (int i = 0; i < N; ++i) {
    double value = w->poly[w->degree][i], slope = 0;
    for (int j = w->degree - 1; j >= 0; --j) {
      slope = slope * s + value;
      value = value * s + w->poly[j][i];
    }
    w->stage[i] = value;
    w->rate[i] = slope / w->h;
  }
}

/* The error of the interpolant inside the step in units of the tolerance, which that of the step's end says nothing
   about: it is of lower order, and often twenty times larger. Estimated from the defect p' - f(p) at one point
   (W. H. Enright, Computing 65, 2000, controls it so). For this interpolant the largest error is 0.11 h times the
   defect at s = 0.93; measured on swinging linkages, 0.10 to 0.13 for eight steps of ten. */
static double error_inside(Work *w) {
  const double s = 0.93, share = 0.12;
  double f[SIZE(N)], sum = 0;
  place(w, s);
  rhs(w, w->t + s * w->h, w->stage, f);
  for (int i = 0; i < N; ++i) {
    const double size = fabs(w->stage[i]), round_off = 16 * DBL_EPSILON * (size + fabs(w->h * f[i]));
    const double scale = w->run->atol[i] + w->run->rtol[i] * size + round_off + DBL_MIN;
    const double d = w->h * (w->rate[i] - f[i]) / scale;
    sum += d * d;
  }
  return N > 0 ? share * sqrt(sum / N) : 0;
}

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
    if (fabs(s - m.s) <= FOUND * s && fabs(m.g) <= least) return s;
    if (b.s - a.s <= DBL_EPSILON * b.s) return b.s;
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
  for (int pass = 0; pass < 100 && b.s - a.s > 4 * DBL_EPSILON * b.s; ++pass) {
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
    for (int j = 1; j < (DENSE ? 16 : 12); ++j)
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

/* Shorten the step to the event near s = first: a true step of the method, its length corrected by Newton's
   method on the guards. Lists the guards that fired, none if it was a mistake. Return the length, or NaN if a step was
   not finite or its error more than `most` tolerances: what is unstable may by chance pass in a longer one. */
static double land(Work *w, double t, const double *x, double h, double first, double most) {
  Run *r = w->run;
  const double *g = w->g_end, *g_rate = w->probe_rate;
  double length = first * h, soonest = INFINITY, off = INFINITY, begun = 0;
  int nearest = 0;
  for (int pass = 0;; ++pass) {
    const double before = soonest;
    if (t + length == t) {
      memcpy(w->x_new, x, N * sizeof(double));
      memcpy(w->k[12], w->k[0], N * sizeof(double));
      guards(w, t, x, w->g_end);
      length = 0;
    } else if (!(attempt(w, t, x, length) <= most) || !finish(w, t + length)) {
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
    /* A large correction means that the guard barely touches: the interpolant's root then stays. */
    if (pass == 3 || length == 0 || fabs(soonest) > 0.5 * length) break;
    if (!jumps && fabs(soonest) <= DBL_EPSILON * fmax(fabs(t + length), length)) break;
    if (jumps || fabs(soonest) > fmax(0.5 * fabs(before), 1e-10 * length)) {
      if (off < 0.5 * begun) break; /* it is as near as round-off of the guard lets it come */
      pass = 2, length = first * h; /* the interpolant's root stays, too */
      continue;
    }
    length = fmin(h, length + soonest);
  }
  r->n_fired = 0;
  if (length > 0 && mistaken(w, nearest)) return length;
  const double tie = 1e-12 * fmax(fabs(t + length), h);
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
  *t = t_new;
  memcpy(r->x, w->x_new, N * sizeof(double));
  memcpy(w->k[0], w->k[12], N * sizeof(double));
  return 1;
}

static int integrate(Work *w) {
  /* PI control after Gustafsson as in Hairer's code: exponents, safety, and bounds of the change of step. */
  const double beta = 0.04, power = 1.0 / 8 - 0.2 * beta, safety = 0.9, shrink = 3, grow = 1.0 / 6;
  Run *r = w->run;
  double t = r->t, h = r->step, error_before = 1e-4;
  int halvings = 0, failed_before = 0;
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
    const double smallest = 1e-14 * fmax(1, fabs(t));
    double error = attempt(w, t, r->x, length);
    int sound = isfinite(error);
    if (error <= 1) {
      sound = finish(w, t_new);
      if (sound) {
        (DENSE ? interpolate : interpolate_cubic)(w, t, r->x, length);
        /* Both fall with the eighth power of h. What does not, as the jump of a projection that is uncertain near a
           singular position, must not shorten steps for ever. */
        if (DENSE) error = fmax(error, fmin(error_inside(w), 1e3 * error));
      }
    }
    if (sound && error > 1) {
      ++r->rejected;
      failed_before = 1;
      r->step = h = length / fmin(shrink, pow(error, power) / safety);
      if (h < smallest) return STEP_TOO_SMALL;
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
    if (!advance(w, &t, t_new, length)) return NO_MEMORY;
    if (G > 0) {
      arm(w, 1, w->g[SAMPLES - 1]);
      memcpy(w->g[0], w->g[SAMPLES - 1], sizeof w->g[0]);
    }
    const double change = pow(error, power) / pow(error_before, beta) / safety;
    double next = length / fmax(grow, fmin(shrink, change));
    if (failed_before) next = fmin(next, length);
    h = last ? fmax(h, next) : next; /* a step cut at the end says nothing against longer ones */
    r->step = h;
    error_before = fmax(error, 1e-4);
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
