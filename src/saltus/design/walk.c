/* Walk a linkage through its driver's turn, for many designs: Newton's method on an extrapolated guess.

   Written in front of this text, by turn.py: the C of the machine as CasADi gives it,
     saltus_constants(p) -> c,             what depends on the Params alone
     saltus_sizes(p) -> (size, length),    of the dependent coordinates (m where they shift, 1 where they turn), of all
     saltus_newton(q, c) -> (step, det),   the Newton step of the dependent coordinates, determinant of each block
     saltus_closure(q, c) -> (phi, J),     the same equations for where they cannot be met
     saltus_reading(Q, p) -> values,       what is wanted of the whole turn (if READ)
   steps, phi and J without units, divided by these sizes: nothing here depends on the unit of length;
   and the sizes NQ coordinates, NP Params, NK constants, NC dependent coordinates, NB blocks, NOUT values, READ (0 or 1). */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE(count) ((count) > 0 ? (count) : 1) /* C has no empty arrays */
#define ORDER 6       /* points of the extrapolation */
#define DONE 1e-8     /* rad, or of the length: a Newton step this short leaves an error of its square */
#define CLOSED 1e-11  /* of the length */
#define ITERATIONS 25
#define RELAXATIONS 60
#define STARTS 24     /* random starts at the first point before a design is said not to close there */

/* The same layout as turn._Walk. */
typedef struct {
  long long count, samples, driver;
  const double *p, *p_start, *q_start, *values, *signs;
  const int *columns;
  double *Q, *out, *gap; /* Q may be NULL; gap (m): largest error left on the turn, zero where it closes */
  int *flips;            /* samples that close the other way round */
} Walk;

typedef struct {
  const Walk *walk;
  const double **arg;
  double **res;
  casadi_int *iw;
  double *w;
  double c[SIZE(NK)], size[SIZE(NC)], length;
  double step[SIZE(NC)], det[SIZE(NB)], phi[SIZE(NC)], J[SIZE(NC * NC)];
} Work;

static void design_of(Work *k, const double *p) {
  k->arg[0] = p, k->res[0] = k->c;
  saltus_constants(k->arg, k->res, k->iw, k->w, 0);
  k->res[0] = k->size, k->res[1] = &k->length;
  saltus_sizes(k->arg, k->res, k->iw, k->w, 0);
}

static int newton(Work *k, const double *q) {
  k->arg[0] = q, k->arg[1] = k->c, k->res[0] = k->step, k->res[1] = k->det;
  return saltus_newton(k->arg, k->res, k->iw, k->w, 0);
}

static double closure(Work *k, const double *q) {
  k->arg[0] = q, k->arg[1] = k->c, k->res[0] = k->phi, k->res[1] = k->J;
  saltus_closure(k->arg, k->res, k->iw, k->w, 0);
  double sum = 0;
  for (int i = 0; i < NC; ++i) sum += k->phi[i] * k->phi[i];
  return sqrt(sum);
}

static int right_way_round(const Work *k) {
  for (int i = 0; i < NB; ++i)
    if (!(k->det[i] * k->walk->signs[i] > 0)) return 0;
  return 1;
}

/* Newton's method from q, in place. Returns 1 if it closes on the branch, 2 if it closes otherwise, 0 if not. */
static int close_loops(Work *k, double *q) {
  for (int n = 0; n < ITERATIONS; ++n) {
    newton(k, q);
    double largest = 0;
    for (int i = 0; i < NC; ++i) largest = fmax(largest, fabs(k->step[i]));
    if (!isfinite(largest)) return 0;
    const double scale = largest > 0.5 ? 0.5 / largest : 1.0;
    for (int i = 0; i < NC; ++i) q[k->walk->columns[i]] += scale * k->step[i] * k->size[i];
    if (largest < DONE) return right_way_round(k) ? 1 : 2;
  }
  return 0;
}

/* Levenberg and Marquardt: the configuration of least gap near q, in place. Returns the gap. */
static double relax(Work *k, double *q) {
  double lambda = 1e-6, trial[SIZE(NQ)], gap = closure(k, q);
  for (int n = 0; n < RELAXATIONS && gap > CLOSED; ++n) {
    double A[SIZE(NC * NC)], b[SIZE(NC)], size = 0;
    for (int i = 0; i < NC; ++i) {
      b[i] = 0;
      for (int r = 0; r < NC; ++r) b[i] -= k->J[i * NC + r] * k->phi[r];
      for (int j = 0; j <= i; ++j) {
        double sum = 0;
        for (int r = 0; r < NC; ++r) sum += k->J[i * NC + r] * k->J[j * NC + r];
        A[i * NC + j] = sum;
      }
      size = fmax(size, A[i * NC + i]);
    }
    double phi[SIZE(NC)], J[SIZE(NC * NC)], moved = 0;
    memcpy(phi, k->phi, sizeof phi), memcpy(J, k->J, sizeof J);
    for (int tries = 0; tries < 12; ++tries) {
      double L[SIZE(NC * NC)], x[SIZE(NC)];
      for (int i = 0; i < NC; ++i)
        for (int j = 0; j <= i; ++j) {
          double sum = A[i * NC + j] + (i == j ? lambda * size : 0);
          for (int r = 0; r < j; ++r) sum -= L[i * NC + r] * L[j * NC + r];
          L[i * NC + j] = i == j ? sqrt(fmax(sum, 1e-300)) : sum / L[j * NC + j];
        }
      for (int i = 0; i < NC; ++i) {
        x[i] = b[i];
        for (int r = 0; r < i; ++r) x[i] -= L[i * NC + r] * x[r];
        x[i] /= L[i * NC + i];
      }
      for (int i = NC - 1; i >= 0; --i) {
        for (int r = i + 1; r < NC; ++r) x[i] -= L[r * NC + i] * x[r];
        x[i] /= L[i * NC + i];
      }
      moved = 0;
      memcpy(trial, q, sizeof trial);
      for (int i = 0; i < NC; ++i) {
        trial[k->walk->columns[i]] += x[i] * k->size[i];
        moved = fmax(moved, fabs(x[i]));
      }
      const double ahead = moved < 1.0 ? closure(k, trial) : INFINITY;
      if (ahead < gap) {
        memcpy(q, trial, sizeof trial);
        gap = ahead, lambda = fmax(lambda / 10, 1e-14);
        break;
      }
      memcpy(k->phi, phi, sizeof phi), memcpy(k->J, J, sizeof J);
      lambda *= 10, moved = 0;
    }
    if (moved < 1e-9 || (moved < 1e-4 && gap > 1e-6)) break; /* the gap is flat at its least */
  }
  return gap;
}

static double uniform(unsigned long long *seed) { /* in [-1, 1), the same on every computer */
  *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return (double)(*seed >> 11) / 4503599627370496.0 - 1.0;
}

/* The first point: from the start's configuration, along the line from its Params, from anywhere. */
static int first(Work *k, double *q, const double *p) {
  const Walk *walk = k->walk;
  memcpy(q, walk->q_start, NQ * sizeof *q);
  if (close_loops(k, q) == 1) return 1;
  double between[SIZE(NP)];
  int good = 1;
  memcpy(q, walk->q_start, NQ * sizeof *q);
  for (int n = 1; n <= 16 && good == 1; ++n) {
    for (int i = 0; i < NP; ++i) between[i] = walk->p_start[i] + n / 16.0 * (p[i] - walk->p_start[i]);
    design_of(k, between);
    good = close_loops(k, q);
  }
  design_of(k, p);
  if (good == 1) return 1;
  unsigned long long seed = 1;
  for (int n = 0; n < STARTS; ++n) {
    memcpy(q, walk->q_start, NQ * sizeof *q);
    for (int i = 0; i < NC; ++i) q[walk->columns[i]] += M_PI * (n + 1) / STARTS * uniform(&seed) * k->size[i];
    if (close_loops(k, q) == 1) return 1;
  }
  memcpy(q, walk->q_start, NQ * sizeof *q);
  return 0;
}

/* From one closed point to the next in ever smaller steps. */
static int carefully(Work *k, double *q, double from, double to) {
  double at = from, step = (to - from) / 4, trial[SIZE(NQ)];
  while (fabs(to - at) > 1e-14 * fmax(1.0, fabs(to))) {
    if (fabs(step) < fabs(to - from) / 300) return 0;
    if (fabs(step) > fabs(to - at)) step = to - at;
    memcpy(trial, q, sizeof trial);
    trial[k->walk->driver] = at + step;
    if (close_loops(k, trial) == 1) {
      memcpy(q, trial, sizeof trial);
      at += step;
    } else {
      step /= 2;
    }
  }
  q[k->walk->driver] = to;
  return 1;
}

static void turn(Work *k, long long design, double *Q) {
  static const double WEIGHTS[ORDER][ORDER] = {{1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}, {5, -10, 10, -5, 1},
                                               {6, -15, 20, -15, 6, -1}};
  const Walk *walk = k->walk;
  const double *p = walk->p + design * NP;
  design_of(k, p);
  double worst = 0;
  int known = 0, flips = 0; /* closed points in a row to extrapolate from */
  for (long long s = 0; s < walk->samples; ++s) {
    double *q = Q + s * NQ;
    int good = 0;
    if (s == 0) {
      good = first(k, q, p);
    } else {
      memcpy(q, q - NQ, NQ * sizeof *q);
      if (known > 1)
        for (int i = 0; i < NC; ++i) {
          const int c = walk->columns[i];
          double guess = 0;
          for (int n = 0; n < known; ++n) guess += WEIGHTS[known - 1][n] * q[c - (n + 1) * NQ];
          q[c] = guess;
        }
      q[walk->driver] = walk->values[s];
      good = close_loops(k, q);
      if (good != 1 && known) { /* the last point is closed: do not give up at once */
        memcpy(q, q - NQ, NQ * sizeof *q);
        good = carefully(k, q, walk->values[s - 1], walk->values[s]);
      }
    }
    if (good != 1) {
      if (s > 0) memcpy(q, q - NQ, NQ * sizeof *q);
      q[walk->driver] = walk->values[s];
      const double gap = relax(k, q);
      if (gap > CLOSED) {
        worst = fmax(worst, gap * k->length);
      } else {
        newton(k, q);
        if (right_way_round(k)) good = 1;
        else ++flips;
      }
    }
    known = good == 1 ? (known < ORDER ? known + 1 : ORDER) : 0;
  }
  walk->gap[design] = worst;
  walk->flips[design] = flips;
#if READ
  k->arg[0] = Q, k->arg[1] = p, k->res[0] = walk->out + design * NOUT;
  saltus_reading(k->arg, k->res, k->iw, k->w, 0);
#endif
}

static void larger(casadi_int *into, const casadi_int *sizes) {
  for (int i = 0; i < 4; ++i)
    if (sizes[i] > into[i]) into[i] = sizes[i];
}

int saltus_walk(const Walk *walk) {
  casadi_int most[4] = {2, 2, 0, 0}, sizes[4];
  saltus_constants_work(sizes, sizes + 1, sizes + 2, sizes + 3);
  larger(most, sizes);
  saltus_sizes_work(sizes, sizes + 1, sizes + 2, sizes + 3);
  larger(most, sizes);
  saltus_newton_work(sizes, sizes + 1, sizes + 2, sizes + 3);
  larger(most, sizes);
  saltus_closure_work(sizes, sizes + 1, sizes + 2, sizes + 3);
  larger(most, sizes);
#if READ
  saltus_reading_work(sizes, sizes + 1, sizes + 2, sizes + 3);
  larger(most, sizes);
#endif
  Work k = {.walk = walk};
  k.arg = malloc((most[0] + 1) * sizeof *k.arg);
  k.res = malloc((most[1] + 1) * sizeof *k.res);
  k.iw = malloc((most[2] + 1) * sizeof *k.iw);
  k.w = malloc((most[3] + 1) * sizeof *k.w);
  double *room = walk->Q ? NULL : malloc(walk->samples * NQ * sizeof *room);
  const int failed = !k.arg || !k.res || !k.iw || !k.w || (!walk->Q && !room);
  for (long long d = 0; d < walk->count && !failed; ++d)
    turn(&k, d, walk->Q ? walk->Q + d * walk->samples * NQ : room);
  free(k.arg), free(k.res), free(k.iw), free(k.w), free(room);
  return failed;
}
