/* DOP853 with events, and an implicit method where motions are stiff (rodas.c): one call integrates until the first
   event, the end, or a limit (events.c).

   Method and coefficients: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I,
   2nd ed., section II.5 and II.6 (order 8 with error estimators of order 5 and 3, dense output of order 7).

   Beyond Hairer's code a step is also judged by the error inside it, see error_inside_explicit.

   Written in front of this text, by native.py: the C of the flow as CasADi gives it,
     saltus_flow(t, x, p) -> (f, g, forces), derivatives, guards and more,  saltus_project(t, x, p) -> x,
   and N (states), G (guards), F (forces), PROJECT (0 or 1), DENSE (1: store degree 7, 0: store cubic Hermite),
   ACTS (which states rates depend on), ACTING (how many). */

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
  int implicit; /* in and out: whether steps are */
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
  double stage[SIZE(N)], last[SIZE(N)], x_new[SIZE(N)], rate[SIZE(N)]; /* last: of the stages of an explicit step */
  double moved[SIZE(N)];   /* by the projection of the step's end */
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
  double slope[SIZE(N)][SIZE(N)], by_time[SIZE(N)]; /* of the rates, at the start of an implicit step */
  double lu[SIZE(N)][SIZE(N)];
  int pivot[SIZE(N)];
  int implicit, differentiated, strained, patience, taken;
  double begun; /* length of the step at which implicit ones began, 0 if none did */
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
  if (j == 11) memcpy(w->last, y, sizeof y);
  flow(w, t + NODE[j] * h, y, w->k[j], w->g_stage[j]);
}

static double scale_of(const Run *r, int i, double size) {
  /* Without the smallest number a state at rest with atol 0 would make 0/0. */
  return r->atol[i] + r->rtol[i] * size + DBL_MIN;
}

/* Fill x_new from x and k[0]; return the error in units of the tolerance (NaN: not finite). */
static double attempt_explicit(Work *w, double t, const double *x, double h) {
  double y[SIZE(N)], e5[SIZE(N)], e3[SIZE(N)], sum5 = 0, sum3 = 0;
  for (int j = 1; j < 12; ++j) stage(w, j, t, x, h);
  combine(w, A[12], 12, y);
  combine(w, E5, 12, e5);
  combine(w, E3, 12, e3);
  for (int i = 0; i < N; ++i) {
    w->x_new[i] = x[i] + h * y[i];
    const double scale = scale_of(w->run, i, fmax(fabs(x[i]), fabs(w->x_new[i])));
    sum5 += (e5[i] / scale) * (e5[i] / scale);
    sum3 += (e3[i] / scale) * (e3[i] / scale);
  }
  const double sum = sum5 + 0.01 * sum3;
  return sum == 0 ? 0 : h * sum5 / sqrt(sum * N);
}

/* Project x_new and evaluate the derivative there; return whether all is finite. */
static int finish(Work *w, double t_new) {
  double y[SIZE(N)];
  memcpy(y, w->x_new, N * sizeof(double));
#if PROJECT
  const Memory *m = &w->of_projection;
  m->arg[0] = &t_new, m->arg[1] = y, m->arg[2] = w->run->p, m->res[0] = w->x_new;
  if (saltus_project(m->arg, m->res, m->iw, m->w, 0)) return 0;
#endif
  for (int i = 0; i < N; ++i) w->moved[i] = w->x_new[i] - y[i];
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
    const double scale = scale_of(r, i, fabs(x[i]));
    size_x += (x[i] / scale) * (x[i] / scale) / N;
    size_f += (w->k[0][i] / scale) * (w->k[0][i] / scale) / N;
  }
  size_x = sqrt(size_x), size_f = sqrt(size_f);
  double h = size_x < 1e-5 || size_f < 1e-5 || !isfinite(size_x / size_f) ? 1e-6 : 0.01 * size_x / size_f;
  h = fmin(h, fmin(r->max_step, r->t_end - t));
  for (int i = 0; i < N; ++i) y[i] = x[i] + h * w->k[0][i];
  rhs(w, t + h, y, w->k[1]);
  for (int i = 0; i < N; ++i) {
    const double scale = scale_of(r, i, fabs(x[i]));
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
static void interpolate_explicit(Work *w, double t, const double *x, double h) {
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
static double error_inside_explicit(Work *w) {
  const double s = 0.93, share = 0.12;
  double f[SIZE(N)], sum = 0;
  place(w, s);
  rhs(w, w->t + s * w->h, w->stage, f);
  for (int i = 0; i < N; ++i) {
    const double size = fabs(w->stage[i]), round_off = 16 * DBL_EPSILON * (size + fabs(w->h * f[i]));
    const double scale = scale_of(w->run, i, size) + round_off;
    const double d = w->h * (w->rate[i] - f[i]) / scale;
    sum += d * d;
  }
  return N > 0 ? share * sqrt(sum / N) : 0;
}
