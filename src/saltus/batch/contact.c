/* Forces of all contacts at an instant: w = G f + b of their rows, and for every contact that takes part

     0 <= f_n, 0 <= w_n, f_n w_n = 0,    |f_t| <= limit f_n,    f_t = -friction f_n w_t / |w_t| where w_t is not zero.

   The laws and the search are those of dynamics/contact_problem.py: projected sweeps guess who is open, sticks or slips, a
   linear solve makes the forces of a guess exact, and only a guess that meets every law is taken; where a few sweeps lead to
   none, guesses change the mode of a contact whose law they break, one after the other. */

typedef struct {
  int active, rough, leaving;   /* takes part; may stick; has come to the end of what it bears: NORMAL or ALONG */
  double limit, friction, way[2]; /* of rest, of slip; direction of one that slips already */
} Law;

enum { OPEN, STICKS, SLIPS };
enum { STAYS, NORMAL, ALONG };
enum { LEANS = 50, MOST = 4, FEW = 3, MANY = 7, TURNS = 30, HALVINGS = 40, GUESSES = 100 };

typedef struct {
  int mode[SIZE(ELEMENTS)];
  double way[SIZE(ELEMENTS)][2], f[SIZE(ROWS)], w[SIZE(ROWS)];
} Forces;

typedef struct {
  int n, rows;                                                          /* contacts that may take part, and their rows */
  struct { int element, slips, normal, row; } of[SIZE(ELEMENTS)];       /* which they are; the first row of each */
  double G[SIZE(ROWS)][SIZE(ROWS)], b[SIZE(ROWS)], size;
  Law laws[SIZE(ELEMENTS)];
} Problem;

static const double FINE = 1e-9, ROUND_OFF = 1e-13; /* of the largest force or motion; of the sum of its terms */
static const double PARALLEL = 1e-8, TURN = 1e-6;   /* rad: how near a way is to that of its slip; difference of an angle */
static const double INSIDE = 1e-3;                  /* of a limit: so far within it forces are brought */
static const double NEARLY = 1e-6;                  /* of a limit: contacts that share it come to it together */

static inline int rubs(const Problem *a, int i) {
  const Law *x = &a->laws[i];
  return x->active && x->rough && a->of[i].slips > 0 && x->limit > 0.0;
}

static inline double dot(const double *a, const double *b, int n) {
  double out = 0.0;
  for (int k = 0; k < n; ++k) out += a[k] * b[k];
  return out;
}

/* The shortest x with A x = y by elimination with pivots, in the place of y; pivots below `fine` of the first are zero.
   Returned is the rank; n less the rank vectors of unit length that A takes to nothing go to `kernel`, if it is wanted. */
static int shortest(int n, double A[SIZE(ROWS)][SIZE(ROWS)], double *y, double fine, double (*kernel)[SIZE(ROWS)]) {
  double N[SIZE(ROWS) + 1][SIZE(ROWS)], first = 0.0;
  int column[SIZE(ROWS)] = {0}, rank = 0;
  for (int k = 0; k < n; ++k) column[k] = k;
  for (; rank < n; ++rank) {
    int r = rank, c = rank;
    for (int i = rank; i < n; ++i)
      for (int j = rank; j < n; ++j)
        if (fabs(A[i][j]) > fabs(A[r][c])) r = i, c = j;
    if (rank == 0) first = fabs(A[r][c]);
    if (!(fabs(A[r][c]) > fine * first)) break;
    for (int j = 0; j < n; ++j) { const double x = A[r][j]; A[r][j] = A[rank][j]; A[rank][j] = x; }
    for (int i = 0; i < n; ++i) { const double x = A[i][c]; A[i][c] = A[i][rank]; A[i][rank] = x; }
    { const double x = y[r]; y[r] = y[rank]; y[rank] = x; }
    { const int x = column[c]; column[c] = column[rank]; column[rank] = x; }
    for (int i = rank + 1; i < n; ++i) {
      const double share = A[i][rank] / A[rank][rank];
      for (int j = rank; j < n; ++j) A[i][j] -= share * A[rank][j];
      y[i] -= share * y[rank];
    }
  }
  for (int c = rank; c <= n; ++c) { /* what moves nothing, one vector per column without a pivot; last of all a solution */
    double *x = N[c - rank];
    for (int i = 0; i < n; ++i) x[i] = i == c;
    for (int i = rank - 1; i >= 0; --i) {
      x[i] = c < n ? -A[i][c] : y[i];
      for (int j = i + 1; j < rank; ++j) x[i] -= A[i][j] * x[j];
      x[i] /= A[i][i];
    }
    for (int k = 0; k < c - rank; ++k) {
      const double share = dot(N[k], x, n);
      for (int i = 0; i < n; ++i) x[i] -= share * N[k][i];
    }
    const double length = sqrt(dot(x, x, n));
    for (int i = 0; i < n && c < n; ++i) x[i] /= length;
  }
  for (int i = 0; i < n; ++i) y[column[i]] = N[n - rank][i];
  for (int k = 0; k < n - rank && kernel; ++k)
    for (int i = 0; i < n; ++i) kernel[k][column[i]] = N[k][i];
  return rank;
}

static void respond(const Problem *a, const double *f, double *w) {
  for (int i = 0; i < a->rows; ++i) w[i] = a->b[i] + dot(a->G[i], f, a->rows);
}

/* Forces near g->f with w = 0 along the rows that a guess holds, and the motion they give. Returned is how many ways there
   are to change forces along these rows that move none of them, which go to `ways`, if they are wanted. */
static int held(const Problem *a, Forces *g, double (*ways)[SIZE(ROWS)]) {
  double K[SIZE(ROWS)][SIZE(ROWS)], N[SIZE(ROWS)][SIZE(ROWS)], first[SIZE(ROWS)], step[SIZE(ROWS)], f[SIZE(ROWS)] = {0.0};
  int row[SIZE(ROWS)], of[SIZE(ROWS)], n = 0;
  for (int i = 0; i < a->n; ++i) {
    const int t = a->of[i].row, slips = a->of[i].slips;
    if (!a->laws[i].active || g->mode[i] == OPEN) continue;
    for (int k = 0; k < slips && g->mode[i] == STICKS; ++k) row[n] = t + k, of[n++] = -1;
    if (a->of[i].normal) row[n] = t + slips, of[n++] = g->mode[i] == SLIPS ? i : -1;
    else if (g->mode[i] == SLIPS)
      for (int k = 0; k < slips; ++k) f[t + k] = -a->laws[i].friction * g->way[i][k];
  }
  for (int j = 0; j < n; ++j) {
    first[j] = g->f[row[j]];
    f[row[j]] += first[j];
    for (int k = 0; of[j] >= 0 && k < a->of[of[j]].slips; ++k)
      f[a->of[of[j]].row + k] = -a->laws[of[j]].friction * first[j] * g->way[of[j]][k];
  }
  for (int i = 0; i < n; ++i) {
    step[i] = -a->b[row[i]] - dot(a->G[row[i]], f, a->rows);
    for (int j = 0; j < n; ++j) {
      K[i][j] = a->G[row[i]][row[j]];
      for (int k = 0; of[j] >= 0 && k < a->of[of[j]].slips; ++k)
        K[i][j] -= a->laws[of[j]].friction * g->way[of[j]][k] * a->G[row[i]][a->of[of[j]].row + k];
    }
  }
  const int spare = n - shortest(n, K, step, 1e-11, ways ? N : NULL);
  for (int k = 0; k < spare && ways; ++k) {
    memset(ways[k], 0, sizeof ways[k]);
    for (int j = 0; j < n; ++j) ways[k][row[j]] = N[k][j];
  }
  for (int j = 0; j < n; ++j) {
    f[row[j]] += step[j];
    for (int k = 0; of[j] >= 0 && k < a->of[of[j]].slips; ++k)
      f[a->of[of[j]].row + k] -= a->laws[of[j]].friction * step[j] * g->way[of[j]][k];
  }
  memcpy(g->f, f, sizeof f);
  respond(a, g->f, g->w);
  return spare;
}

static inline double largest(const double *x, int n) {
  double out = 0.0;
  for (int k = 0; k < n; ++k) out = fmax(out, fabs(x[k]));
  return out;
}

/* How far the ways of some slips are from their motion, d x w, with the forces of a guess; 0 where that is no number. */
static int apart(const Problem *a, const Forces *from, Forces *g, int n, const int *who, const double *angle, double *off) {
  memcpy(g->f, from->f, sizeof g->f);
  for (int j = 0; j < n; ++j) g->way[who[j]][0] = cos(angle[j]), g->way[who[j]][1] = sin(angle[j]);
  held(a, g, NULL);
  int known = 1;
  for (int j = 0; j < n; ++j) {
    const double *d = g->way[who[j]], *w = g->w + a->of[who[j]].row;
    off[j] = d[0] * w[1] - d[1] * w[0];
    known &= isfinite(off[j]) != 0;
  }
  return known;
}

/* Turn the slips of a guess that start from rest in 3D until each goes along its own motion: Newton's method on angles. */
static void aligned(const Problem *a, Forces *g) {
  double angle[SIZE(ELEMENTS)], now[SIZE(ELEMENTS)], ahead[SIZE(ELEMENTS)], at[SIZE(ELEMENTS)], A[SIZE(ROWS)][SIZE(ROWS)];
  double step[SIZE(ROWS)];
  int who[SIZE(ELEMENTS)], n = 0;
  const Forces from = *g;
  for (int i = 0; i < a->n; ++i)
    if (rubs(a, i) && g->mode[i] == SLIPS && a->of[i].slips == 2) {
      angle[n] = atan2(g->way[i][1], g->way[i][0]);
      who[n++] = i;
    }
  if (!n) {
    held(a, g, NULL);
    return;
  }
  int known = apart(a, &from, g, n, who, angle, now);
  for (int turn = 0; turn < TURNS && known && largest(now, n) >= 1e-16 * a->size; ++turn) {
    int better = 0;
    for (int j = 0; j < n; ++j) {
      double behind[SIZE(ELEMENTS)];
      memcpy(at, angle, sizeof at);
      at[j] = angle[j] - TURN;
      known &= apart(a, &from, g, n, who, at, behind);
      at[j] = angle[j] + TURN;
      known &= apart(a, &from, g, n, who, at, ahead);
      for (int i = 0; i < n; ++i) A[i][j] = (ahead[i] - behind[i]) / (2.0 * TURN);
    }
    if (!known) break;
    for (int j = 0; j < n; ++j) step[j] = -now[j];
    shortest(n, A, step, 1e-14, NULL);
    const double far = fmax(1.0, largest(step, n));
    for (int k = 0; k < HALVINGS / 2 && !better; ++k) {
      for (int j = 0; j < n; ++j) at[j] = angle[j] + step[j] / far / (double)(1 << k);
      better = apart(a, &from, g, n, who, at, ahead) && dot(ahead, ahead, n) < dot(now, now, n);
    }
    if (!better) break;
    memcpy(angle, at, sizeof angle);
    memcpy(now, ahead, sizeof now);
  }
  apart(a, &from, g, n, who, angle, now);
}

/* Whether the forces of a guess press and stay within their cones. */
static int bearable(const Problem *a, const Forces *g) {
  const double small = FINE * largest(g->f, a->rows);
  for (int i = 0; i < a->n; ++i) {
    const int slips = a->of[i].slips, normal = a->of[i].normal;
    const double *f = g->f + a->of[i].row, bears = normal ? f[slips] : 1.0;
    if (!a->laws[i].active || (normal && g->mode[i] == OPEN)) continue;
    if (normal && bears < -small) return 0;
    if (g->mode[i] == STICKS && sqrt(dot(f, f, slips)) > a->laws[i].limit * bears + small) return 0;
  }
  return 1;
}

/* Whether contacts move as a guess says under its forces. */
static int moves_as(const Problem *a, const Forces *g) {
  double terms = 0.0;
  for (int i = 0; i < a->rows; ++i) {
    double sum = 0.0;
    for (int j = 0; j < a->rows; ++j) sum += fabs(a->G[i][j] * g->f[j]);
    terms = fmax(terms, sum);
    if (!isfinite(g->f[i])) return 0;
  }
  const double small = FINE * a->size + ROUND_OFF * terms;
  for (int i = 0; i < a->n; ++i) {
    const int slips = a->of[i].slips, normal = a->of[i].normal;
    const double *w = g->w + a->of[i].row;
    if (!a->laws[i].active) continue;
    if (normal && g->mode[i] == OPEN) {
      if (w[slips] < -small) return 0;
      continue;
    }
    if (normal && fabs(w[slips]) > small) return 0;
    if (g->mode[i] == STICKS && largest(w, slips) > small) return 0;
    if (g->mode[i] == SLIPS && rubs(a, i)) {
      const double along = dot(w, g->way[i], slips);
      double across = 0.0;
      for (int k = 0; k < slips; ++k) across += (w[k] - along * g->way[i][k]) * (w[k] - along * g->way[i][k]);
      if (along < -small || sqrt(across) > PARALLEL * along + small) return 0;
    }
  }
  return 1;
}

/* Whether forces and motion meet every law. */
static int lawful(const Problem *a, const Forces *g) { return bearable(a, g) && moves_as(a, g); }

static int tried(const Problem *a, Forces *g) {
  aligned(a, g);
  return lawful(a, g);
}

static void still(const Problem *a, Forces *g) {
  memset(g, 0, sizeof *g);
  for (int i = 0; i < a->n; ++i) {
    g->mode[i] = !a->laws[i].active ? OPEN : rubs(a, i) ? STICKS : SLIPS;
    memcpy(g->way[i], a->laws[i].way, sizeof g->way[i]);
  }
}

/* Forces brought to the nearest within their cones. */
static void coned(const Problem *a, const Forces *g, double *f) {
  for (int i = 0; i < a->n; ++i) {
    const int slips = a->of[i].slips, normal = a->of[i].normal;
    const double limit = (1.0 - INSIDE) * a->laws[i].limit;
    double *own = f + a->of[i].row;
    if (g->mode[i] == SLIPS && normal) own[slips] = fmax(own[slips], 0.0);
    if (g->mode[i] != STICKS) continue;
    const double drag = sqrt(dot(own, own, slips));
    if (drag <= limit * (normal ? own[slips] : 1.0)) continue;
    const double load = normal ? fmax(0.0, (own[slips] + limit * drag) / (1.0 + limit * limit)) : 1.0;
    for (int k = 0; k < slips; ++k) own[k] *= drag > 0.0 ? limit * load / drag : 0.0;
    if (normal) own[slips] = load;
  }
}

/* The solution in which all that is at rest stays so, by other forces than the shortest where rows depend on each other: a
   point of those that hold and of the cones, found by reflections (Douglas and Rachford) if they share an inside. */
static int leaned(const Problem *a, Forces *g) {
  double z[SIZE(ROWS)] = {0.0}, y[SIZE(ROWS)], first[SIZE(ROWS)], ways[SIZE(ROWS)][SIZE(ROWS)];
  still(a, g);
  const int spare = held(a, g, ways);
  if (lawful(a, g)) return 1;
  if (!spare || !moves_as(a, g)) return 0;
  memcpy(first, g->f, sizeof first);
  for (int turn = 0; turn < LEANS; ++turn) {
    for (int j = 0; j < a->rows; ++j) y[j] = 2.0 * g->f[j] - z[j];
    coned(a, g, y);
    for (int j = 0; j < a->rows; ++j) z[j] += y[j] - g->f[j];
    memcpy(g->f, first, sizeof first);
    for (int k = 0; k < spare; ++k) {
      const double share = dot(ways[k], z, a->rows);
      for (int j = 0; j < a->rows; ++j) g->f[j] += share * ways[k][j];
    }
    if (!bearable(a, g)) continue;
    held(a, g, NULL); /* also what slips by these forces */
    if (lawful(a, g)) return 1;
  }
  return 0;
}

/* Whether the rows that some contacts hold depend on none that the others hold. */
static int free_of(const Problem *a, const Forces *g, const int *some) {
  int ranks[3] = {0};
  for (int part = 0; part < 3; ++part) { /* of those, of the others, of all */
    double A[SIZE(ROWS)][SIZE(ROWS)], y[SIZE(ROWS)] = {0.0};
    int row[SIZE(ROWS)], n = 0;
    for (int i = 0; i < a->n; ++i) {
      if (!a->laws[i].active || (part < 2 && (part == 0) != (some[i] != STAYS))) continue;
      for (int k = 0; k < a->of[i].slips && g->mode[i] == STICKS; ++k) row[n++] = a->of[i].row + k;
      if (a->of[i].normal) row[n++] = a->of[i].row + a->of[i].slips;
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        A[i][j] = a->G[row[i]][row[j]] / (sqrt(fabs(a->G[row[i]][row[i]] * a->G[row[j]][row[j]])) + 1e-200);
    ranks[part] = shortest(n, A, y, 1e-9, NULL);
  }
  return ranks[2] - ranks[1] == ranks[0];
}

/* The solution in which nothing changes but that contacts at their limit are let go, if there is one. */
static int released(const Problem *a, Forces *g) {
  Forces at;
  int any = 0, lifts = 0;
  for (int i = 0; i < a->n; ++i) {
    any |= a->laws[i].active && a->laws[i].leaving != STAYS;
    lifts |= a->laws[i].active && a->laws[i].leaving == NORMAL;
  }
  if (!any) return 0;
  still(a, &at);
  held(a, &at, NULL);
  for (int few = 0; few < 2; ++few) { /* with all that are as near to their limits, then without */
    int some[SIZE(ELEMENTS)] = {STAYS};
    for (int i = 0; i < a->n; ++i) {
      const double *f = at.f + a->of[i].row, bears = a->of[i].normal ? f[a->of[i].slips] : 1.0;
      const int spent = at.mode[i] == STICKS && sqrt(dot(f, f, a->of[i].slips)) >= (1.0 - NEARLY) * a->laws[i].limit * bears;
      const int light = lifts && a->of[i].normal && bears <= NEARLY * largest(at.f, a->rows);
      some[i] = a->laws[i].leaving != STAYS ? a->laws[i].leaving : few ? STAYS : light ? NORMAL : spent ? ALONG : STAYS;
    }
    if (!free_of(a, &at, some)) continue;
    *g = at;
    for (int i = 0; i < a->n; ++i) {
      const double *f = at.f + a->of[i].row, length = sqrt(dot(f, f, a->of[i].slips));
      if (some[i] == NORMAL) g->mode[i] = OPEN;
      else if (some[i] == ALONG && at.mode[i] == STICKS) {
        g->mode[i] = SLIPS;
        for (int k = 0; k < a->of[i].slips; ++k) g->way[i][k] = length > 0.0 ? -f[k] / length : 0.0;
      }
    }
    held(a, g, NULL);
    if (lawful(a, g)) return 1;
  }
  return 0;
}

static void sweep(const Problem *a, double *f) {
  for (int i = 0; i < a->n; ++i) {
    const Law *x = &a->laws[i];
    const int t = a->of[i].row, slips = a->of[i].slips, n = t + slips;
    double along = 0.0, across = a->of[i].normal ? a->G[n][n] : 0.0;
    if (!x->active) continue;
    if (!rubs(a, i) && a->of[i].normal) {
      const double coupled = across - x->friction * dot(a->G[n] + t, x->way, slips);
      across = coupled > 0.0 ? coupled : across;
    }
    for (int k = 0; k < slips; ++k) along += a->G[t + k][t + k] / (slips < 2 ? 1.0 : 1.5);
    if (a->of[i].normal && across > 0.0) f[n] = fmax(0.0, f[n] - (a->b[n] + dot(a->G[n], f, a->rows)) / across);
    const double bears = a->of[i].normal ? f[n] : 1.0;
    double trial[2] = {0.0};
    for (int k = 0; k < slips; ++k)
      trial[k] = along > 0.0 ? f[t + k] - (a->b[t + k] + dot(a->G[t + k], f, a->rows)) / along : f[t + k];
    const double length = sqrt(dot(trial, trial, slips)), share = length > x->limit * bears ? x->limit * bears / length : 1.0;
    for (int k = 0; k < slips; ++k) f[t + k] = rubs(a, i) ? trial[k] * share : -x->friction * bears * x->way[k];
  }
}

/* The solution that sweeps from f on lead to, the guess being tried after every number of them from `first` to before `last`. */
static int swept(const Problem *a, Forces *g, double *f, int first, int last) {
  static const int counts[MANY + 1] = {0, 3, 10, 30, 100, 300, 1000, 3000};
  for (int search = first; search < last; ++search) {
    for (int done = counts[search - 1]; done < counts[search]; ++done) sweep(a, f);
    still(a, g);
    memcpy(g->f, f, sizeof g->f);
    const double most = largest(f, a->rows);
    if (!isfinite(most)) return 0;
    for (int i = 0; i < a->n; ++i) {
      const double *own = f + a->of[i].row, bears = a->of[i].normal ? own[a->of[i].slips] : 1.0;
      const double length = sqrt(dot(own, own, a->of[i].slips));
      if (!a->laws[i].active) continue;
      if (a->of[i].normal && bears <= 1e-12 * most) g->mode[i] = OPEN;
      else if (rubs(a, i) && length >= a->laws[i].limit * bears * (1.0 - 1e-7)) {
        g->mode[i] = SLIPS;
        for (int k = 0; k < a->of[i].slips; ++k) g->way[i][k] = length > 0.0 ? -own[k] / length : 0.0;
      }
    }
    if (tried(a, g)) return 1;
  }
  return 0;
}

/* How far a contact is from its law as a guess has it, and the mode and way that mend it; not above zero where it keeps it. */
static double broken(const Problem *a, const Forces *g, int i, int *mode, double *way) {
  const Law *x = &a->laws[i];
  const int slips = a->of[i].slips;
  const double *f = g->f + a->of[i].row, *w = g->w + a->of[i].row;
  const double most = fmax(largest(g->f, a->rows), 1e-300), bears = a->of[i].normal ? f[slips] : 1.0;
  memset(way, 0, 2 * sizeof *way);
  if (!x->active) return 0.0;
  if (g->mode[i] == OPEN) {
    *mode = rubs(a, i) ? STICKS : SLIPS;
    memcpy(way, x->way, sizeof x->way);
    return -w[slips] / a->size;
  }
  if (bears < 0.0) {
    *mode = OPEN;
    return -bears / most;
  }
  if (g->mode[i] == STICKS) {
    const double drag = sqrt(dot(f, f, slips));
    *mode = SLIPS;
    for (int k = 0; k < slips; ++k) way[k] = -f[k] / fmax(drag, 1e-300);
    return (drag - x->limit * bears) / most;
  }
  *mode = STICKS;
  return rubs(a, i) ? -dot(w, g->way[i], slips) / a->size : 0.0;
}

/* The solution that is reached from rest by changing the mode of one contact at a time, each law it breaks, worst first. */
static int mended(const Problem *a, Forces *g) {
  struct { int mode[SIZE(ELEMENTS)]; double way[SIZE(ELEMENTS)][2]; } known[GUESSES + 1 + SIZE(ELEMENTS)];
  int n = 1;
  still(a, g);
  memcpy(known[0].mode, g->mode, sizeof g->mode);
  memcpy(known[0].way, g->way, sizeof g->way);
  for (int at = 0; at < n; ++at) {
    double far[SIZE(ELEMENTS)] = {0.0}, ways[SIZE(ELEMENTS)][2] = {{0.0}};
    int to[SIZE(ELEMENTS)] = {0};
    memset(g, 0, sizeof *g);
    memcpy(g->mode, known[at].mode, sizeof g->mode);
    memcpy(g->way, known[at].way, sizeof g->way);
    if (tried(a, g)) return 1;
    if (n > GUESSES) return 0;
    for (int i = 0; i < a->n; ++i) far[i] = fmax(0.0, broken(a, g, i, &to[i], ways[i]));
    for (;;) {
      int worst = 0, seen = 0;
      for (int i = 1; i < a->n; ++i)
        if (far[i] > far[worst]) worst = i;
      if (!(far[worst] > 0.0)) break;
      far[worst] = 0.0;
      memcpy(known[n].mode, g->mode, sizeof g->mode);
      memcpy(known[n].way, g->way, sizeof g->way);
      known[n].mode[worst] = to[worst];
      memcpy(known[n].way[worst], ways[worst], sizeof ways[worst]);
      for (int k = 0; k < n && !seen; ++k) seen = !memcmp(known[k].mode, known[n].mode, sizeof g->mode);
      n += !seen;
    }
  }
  return 0;
}

/* The solution that sweeps and guesses lead to; before the first one all that is at rest stays so. */
static int searched(const Problem *a, Forces *g) {
  double f[SIZE(ROWS)] = {0.0};
  return leaned(a, g) || swept(a, g, f, 1, FEW + 1) || mended(a, g) || swept(a, g, f, FEW + 1, MANY + 1);
}

/* Contacts that press and take part, no more than MOST, all of them in the plane; 0 if that is not so. */
static int few(const Problem *a, int *who) {
  int n = 0;
  for (int i = 0; i < a->n; ++i) {
    if (!a->laws[i].active) continue;
    if (a->of[i].slips > 1) return 0;
    if (a->of[i].normal && n++ < MOST) who[n - 1] = i;
  }
  return n <= MOST ? n : 0;
}

/* Whether there may be none or several solutions in the plane: a minor of the normal forces' matrix, with slip either way
   where it may be, is not positive (Painleve). */
static int doubtful(const Problem *a) {
  int who[MOST] = {0};
  const int n = few(a, who);
  for (int some = 1; some < 1 << n; ++some)
    for (int ways = 0; ways < 1 << n; ++ways) {
      double plain[SIZE(ROWS)][SIZE(ROWS)], slip[SIZE(ROWS)][SIZE(ROWS)], dets[2] = {1.0, 1.0};
      int m = 0, chosen[MOST], skip = 0;
      for (int i = 0; i < n; ++i) {
        const int plus = (ways >> i) & 1, picked = (some >> i) & 1;
        skip |= plus && (!picked || !rubs(a, who[i]));
        if (picked) chosen[m++] = i;
      }
      if (skip) continue;
      for (int r = 0; r < m; ++r)
        for (int c = 0; c < m; ++c) {
          const int i = who[chosen[r]], j = who[chosen[c]], row = a->of[i].row + a->of[i].slips;
          const int column = a->of[j].row + a->of[j].slips;
          const double scale = sqrt(fabs(a->G[row][row] * a->G[column][column])) + 1e-200;
          const double way = rubs(a, j) ? 1.0 - 2.0 * ((ways >> chosen[c]) & 1) : a->laws[j].way[0];
          plain[r][c] = a->G[row][column] / scale;
          slip[r][c] = plain[r][c] - (a->of[j].slips ? way * a->laws[j].friction * a->G[row][a->of[j].row] / scale : 0.0);
        }
      for (int which = 0; which < 2; ++which) {
        double(*A)[SIZE(ROWS)] = which ? slip : plain;
        for (int k = 0; k < m; ++k) { /* by elimination with pivots in columns */
          int r = k;
          for (int i = k; i < m; ++i)
            if (fabs(A[i][k]) > fabs(A[r][k])) r = i;
          dets[which] *= r == k ? A[r][k] : -A[r][k];
          for (int j = 0; j < m && r != k; ++j) { const double x = A[r][j]; A[r][j] = A[k][j]; A[k][j] = x; }
          for (int i = k + 1; i < m && A[k][k] != 0.0; ++i)
            for (int j = m - 1; j >= k; --j) A[i][j] -= A[i][k] / A[k][k] * A[k][j];
        }
      }
      if (dets[0] >= 1e-9 && dets[1] <= 1e-9) return 1;
    }
  return 0;
}

/* Solutions with motions of their own in the plane, of all guesses; the first that sticks most is left in g. */
static int every(const Problem *a, Forces *g) {
  int who[MOST], found = 0, choices = 1;
  if (!few(a, who)) return 0;
  for (int i = 0; i < a->n; ++i) choices *= a->laws[i].active ? 4 : 1;
  for (int choice = 0; choice < choices && choices <= 4096; ++choice) {
    Forces at;
    int rest = choice, skip = 0;
    still(a, &at);
    for (int i = 0; i < a->n; ++i) {
      if (!a->laws[i].active) continue;
      const int pick = rest % 4; /* as it may stay, slip either way, open */
      rest /= 4;
      skip |= (pick == 3 && !a->of[i].normal) || ((pick == 1 || pick == 2) && !rubs(a, i));
      if (pick == 3) at.mode[i] = OPEN;
      else if (pick) at.mode[i] = SLIPS, at.way[i][0] = pick == 1 ? 1.0 : -1.0;
    }
    if (skip || !tried(a, &at)) continue;
    double other = 0.0;
    for (int j = 0; j < a->rows && found; ++j) other = fmax(other, fabs(at.w[j] - g->w[j]));
    if (!found) *g = at;
    found += !found || other > 1e-6 * a->size;
  }
  return found;
}

/* Forces that meet the laws; `count`: also look whether there are others. 0: they are known, 1: there are none or several. */
static int solved(const Problem *a, Forces *g, int count) {
  if (count && doubtful(a)) {
    const int found = every(a, g);
    if (found == 1) return 0;
    if (!found) searched(a, g);
    return 1;
  }
  return !(released(a, g) || searched(a, g) || every(a, g) > 0);
}
