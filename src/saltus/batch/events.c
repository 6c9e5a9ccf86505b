/* Events of many copies, those of the lanes whose `event` is set: impacts, new modes of contacts, other patches of ground,
   kinks; and what is written down of them. */

/* Where the first of some numbers of a copy is; the next one is LANES further on. */
static double *place(double *memory, long long copy, int numbers) {
  return memory + copy / LANES * numbers * LANES + copy % LANES;
}

static void modes(const V *p, int l, double *out) {
  for (int i = 0; i < ELEMENTS; ++i, out += MODE) {
    out[0] = CLOSED(i);
    out[1] = STICK(i);
    for (int k = 0; k < 2; ++k) out[2 + k] = k < elements[i].slips ? DIRECTION(i, k) : 0.0;
    out[4] = FRICTION(i);
    out[5] = BORNE_BY_OTHERS(i);
  }
  for (int c = 0; c < KINKS; ++c) out[c] = SIDE(c);
}

/* Let kinks be on the sides on which they come, but the one that has come to its surface, which passes it; NEVER: none has. */
static void freed(V *p, int l, int cause) {
  for (int c = 0; c < KINKS; ++c) SIDE(c) = cause == KINK + c ? -SIDE(c) : 0.0;
}

/* Keep kinks on the sides on which they are. */
static void kept_on(const State *s, V *p, int l) {
  for (int c = 0; c < KINKS; ++c)
    if (SIDE(c) == 0.0) SIDE(c) = s->kink[c][l] < 0.0 ? FAR_SIDE : -FAR_SIDE;
}

/* Give feet the patches of ground that are nearest; one that is touched already keeps its mode. A foot at the border of its
   patch, whose guard is the cause, goes on to the next one. */
static void looked(const Batch *a, long long copy, const Meeting *m, V *p, int l, int cause) {
  static const double nothing[PATCH] = {0.0, -1e9, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, -1.0, -1.0};
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].patch != 1) continue;
    const double x = m->flow.place[2 * i][l], up = m->flow.place[2 * i + 1][l], *best = NULL, *beside = nothing;
    double least = INFINITY, old[2][4], kept[2][7];
    int inside = 0;
    for (long long n = a->land_from[copy]; n < a->land_to[copy]; ++n) {
      const double *o = a->land + n * PATCH, dx = x - o[0], dy = up - o[1];
      const double in = fmin(o[6] * x + o[7] * up - o[8], o[9] * x + o[10] * up - o[11]);
      const double off = fmax(0.0, -in) + fabs(o[5] != 0.0 ? sqrt(dx * dx + dy * dy) : o[2] * dx + o[3] * dy);
      const int within = in >= -2.0 * NEAR;
      int left = cause == 2 * ELEMENTS + i;
      for (int k = 5; k < 11; ++k) left &= GROUND(i, k) == o[k + 1];
      if (left) continue;
      if (within > inside || (within == inside && off < least)) best = o, least = off, inside = within;
    }
    if (best[PATCH - 1] >= 0.0) beside = a->land + (a->land_from[copy] + (long long)best[PATCH - 1]) * PATCH;
    for (int c = 0; c < 2; ++c) {
      for (int k = 0; k < 4; ++k) old[c][k] = GROUND(i + c, k);
      kept[c][0] = CLOSED(i + c), kept[c][1] = STICK(i + c), kept[c][4] = BORNE(i + c);
      for (int k = 0; k < elements[i].slips; ++k) kept[c][2 + k] = DIRECTION(i + c, k), kept[c][5 + k] = ANCHOR(i + c, k);
    }
    for (int c = 0; c < 2; ++c) {
      const int e = i + c;
      const double *o = c ? beside : best, own = p[GIVEN + 2 * e][l], most = p[GIVEN + 2 * e + 1][l];
      const double *same = NULL, none[7] = {0.0};
      for (int k = 0; k < 2; ++k)
        if (!memcmp(old[k], o, sizeof old[k])) same = kept[k];
      if (memcmp(old[c], o, sizeof old[c])) {
        same = same ? same : none;
        CLOSED(e) = same[0], STICK(e) = same[1], BORNE(e) = same[4];
        for (int k = 0; k < elements[e].slips; ++k) DIRECTION(e, k) = same[2 + k], ANCHOR(e, k) = same[5 + k];
      }
      for (int k = 0; k < 4; ++k) GROUND(e, k) = o[k];
      for (int k = 4; k < 11; ++k) GROUND(e, k) = o[k + 1];
      if (o == nothing) continue;
      OWN(e) = own < 0.0 ? o[4] : fmin(own, o[4]); /* fmin leaves out what is not a number: ground that has no friction */
      STATIC(e) = fmax(OWN(e), most < 0.0 ? o[4] : fmin(most, o[4]));
      FRICTION(e) = OWN(e);
    }
  }
}

/* Modes of soft contacts, which follow from where they are and how they move. One whose face comes to rest sticks with the
   stretch of its spring that leaves its force as it is. */
static void softened(const State *s, const Meeting *m, V *p, int l, int cause) {
  for (int i = 0; i < ELEMENTS; ++i) {
    const int t = elements[i].row, slips = elements[i].slips;
    double along[2] = {0.0}, length = 0.0;
    if (!elements[i].soft) continue;
    for (int k = 0; k < slips; ++k) along[k] = -s->force[t + k][l], length += along[k] * along[k];
    for (int k = 0; k < slips && length == 0.0; ++k) along[k] = m->here.rate[t + k][l];
    length = sqrt(dot(along, along, slips));
    if (CLOSED(i) == 0.0) {
      CLOSED(i) = STICK(i) = m->here.gap[i][l] <= TOUCHING && m->here.rate[UP(i)][l] < 0.0;
      for (int k = 0; k < slips; ++k) ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l];
    } else if (cause == 2 * i) CLOSED(i) = STICK(i) = 0.0;
    else if (cause == 2 * i + 1 && STICK(i) != 0.0) {
      STICK(i) = 0.0;
      for (int k = 0; k < slips; ++k) DIRECTION(i, k) = length > 0.0 ? along[k] / length : 0.0;
    } else if (cause == 2 * i + 1) {
      STICK(i) = 1.0;
      for (int k = 0; k < slips; ++k)
        ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l] + s->force[t + k][l] / SPRING(i) - DAMPER(i) * s->gap[i][l] * s->rate[t + k][l];
    }
  }
}

/* Soft contacts whose velocities an impact has changed stick by their springs, whose stretch it leaves as it was; they slip
   where these give. */
static void shaken(const State *s, const Meeting *m, V *p, int l) {
  for (int i = 0; i < ELEMENTS; ++i) {
    if (!elements[i].soft || CLOSED(i) == 0.0 || STICK(i) != 0.0) continue;
    STICK(i) = 1.0;
    for (int k = 0, t = elements[i].row; k < elements[i].slips; ++k)
      ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l] + s->force[t + k][l] / SPRING(i) - DAMPER(i) * s->gap[i][l] * s->rate[t + k][l];
  }
}

/* The mobility of the rows of a lane's contacts that touch, of those without a normal too; nothing of rows that the loops hold
   but for round-off. */
static void posed(const Batch *batch, const Meeting *m, int l, const int *touching, Problem *a) {
  int line[SIZE(ROWS)];
  double sign[SIZE(ROWS)];
  a->n = a->rows = 0;
  memset(a->of, 0, sizeof a->of);
  memset(a->laws, 0, sizeof a->laws);
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].soft || (elements[i].normal && !touching[i])) continue;
    a->of[a->n].element = i;
    a->of[a->n].slips = elements[i].slips;
    a->of[a->n].normal = elements[i].normal;
    a->of[a->n++].row = a->rows;
    for (int k = 0; k < elements[i].slips + elements[i].normal; ++k, ++a->rows) {
      line[a->rows] = m->at[elements[i].line + k];
      sign[a->rows] = elements[i].sign;
    }
  }
  for (int i = 0; i < a->rows; ++i)
    for (int j = 0; j < a->rows; ++j) {
      const int still_ = !(m->G[line[i]][line[i]][l] > FIXED / batch->weight) || !(m->G[line[j]][line[j]][l] > FIXED / batch->weight);
      a->G[i][j] = still_ ? 0.0 : sign[i] * sign[j] * m->G[line[i]][line[j]][l];
    }
}

/* What the rows do without forces; nothing where they cannot move. */
static void moving(const Meeting *m, int l, int speeds, Problem *a) {
  for (int k = 0; k < a->n; ++k)
    for (int c = 0; c < a->of[k].slips + a->of[k].normal; ++c) {
      const int i = a->of[k].element, row = a->of[k].row + c;
      const double moves = speeds ? m->here.rate[elements[i].row + c][l] : elements[i].sign * m->b[m->at[elements[i].line + c]][l];
      a->b[row] = a->G[row][row] > 0.0 ? moves : 0.0;
    }
  a->size = fmax(largest(a->b, a->rows), 1e-12);
}

/* w after forces along the rows. */
static void answered(const Meeting *m, const Problem *a, const double *f, int l, V *w) {
  for (int k = 0; k < a->n; ++k)
    for (int c = 0; c < a->of[k].slips + a->of[k].normal; ++c) {
      const int e = a->of[k].element, line = m->at[elements[e].line + c];
      for (int i = 0; i < NW; ++i) w[i][l] += elements[e].sign * m->Y[i][line][l] * f[a->of[k].row + c];
    }
}

/* Speed with which a contact would rise by LOW, pressed as it is; REST at least. */
static double slow(const Meeting *m, int l, int i) {
  const double rises = elements[i].sign * m->b[m->at[elements[i].line + UP(i) - elements[i].row]][l];
  return fmax(REST, sqrt(2.0 * LOW * fmax(-rises, 0.0)));
}

/* Moreau's law at all contacts that touch; the share of restitution is lowered until no energy is gained. 0: there was no
   impact, 2: its impulses are in doubt; `loss` is the energy (J) that it took. */
static int struck(const Batch *batch, const Meeting *m, V *w, const V *p, int l, const int *touching, double *note, double *loss) {
  double u[SIZE(ROWS)], bounce[SIZE(ELEMENTS)] = {0.0}, low = 0.0, high = 1.0, share = 1.0, bounces = 0.0;
  Problem a;
  Forces g;
  int hit = 0, doubt = 0;
  *loss = 0.0;
  posed(batch, m, l, touching, &a);
  moving(m, l, 1, &a);
  memcpy(u, a.b, sizeof u);
  const double least = 1e-9 * (1.0 + largest(u, a.rows));
  for (int k = 0; k < a.n; ++k) {
    const int i = a.of[k].element;
    const double speed = -u[a.of[k].row + a.of[k].slips * a.of[k].normal];
    if (!a.of[k].normal) continue;
    a.laws[k].active = a.laws[k].rough = 1;
    a.laws[k].limit = a.laws[k].friction = OWN(i);
    bounce[k] = RESTITUTION(i) * speed > fmax(batch->rest, slow(m, l, i)) ? RESTITUTION(i) : 0.0;
    bounces += bounce[k];
    hit |= speed > least;
  }
  if (!hit) return 0;
  for (int k = 0; k <= HALVINGS; ++k) {
    double gained = 0.0, lost = 0.0;
    memcpy(a.b, u, sizeof u);
    for (int i = 0; i < a.n; ++i)
      if (a.of[i].normal) a.b[a.of[i].row + a.of[i].slips] *= 1.0 + share * bounce[i];
    a.size = fmax(largest(a.b, a.rows), 1e-12);
    doubt = solved(&a, &g, 0);
    if (k == 0 && doubt && bounces > 0.0) { /* where friction jams a contact it cannot bounce */
      share = bounces = 0.0;
      k = -1;
      continue;
    }
    for (int j = 0; j < a.rows; ++j) {
      gained += g.f[j] * (u[j] + dot(a.G[j], g.f, a.rows) / 2.0);
      lost += fabs(g.f[j] * u[j]);
    }
    *loss = -gained;
    if (k == 0 && (gained <= GAINS * lost || bounces == 0.0)) break;
    if (k > 0 && gained <= 0.0) low = share;
    if (k > 0 && gained > 0.0) high = share;
    share = k == HALVINGS - 1 ? low : (low + high) / 2.0;
  }
  for (int i = 0; i < ELEMENTS; ++i) note[MODE * i + 4] = OWN(i);
  for (int k = 0; k < a.n; ++k) {
    double *mine = note + MODE * a.of[k].element;
    mine[0] = a.of[k].normal && g.mode[k] != OPEN;
    mine[1] = mine[0] != 0.0 && g.mode[k] == STICKS;
    for (int c = 0; c < a.of[k].slips; ++c) mine[2 + c] = g.way[k][c];
    note[MODES + a.of[k].element] = share * bounce[k];
  }
  answered(m, &a, g.f, l, w);
  return 1 + doubt;
}

/* Pose the question which modes the accelerations ask for. `cause` is the guard on whose surface this is, NEVER if none: a
   slip has ended there, or a force has come to its limit. */
static void asked(const Batch *batch, const Meeting *m, const V *p, int l, const int *touching, int cause, int hit, Problem *a) {
  posed(batch, m, l, touching, a);
  for (int n = 0; n < a->n; ++n) {
    const int i = a->of[n].element, t = elements[i].row, slips = elements[i].slips, holds_ = CLOSED(i) != 0.0 && HELD(i) && !hit;
    Law *x = &a->laws[n];
    double speed = 0.0;
    for (int k = 0; k < slips; ++k) speed += m->here.rate[t + k][l] * m->here.rate[t + k][l];
    speed = sqrt(speed);
    x->active = !elements[i].normal || fabs(m->here.rate[UP(i)][l]) <= slow(m, l, i);
    x->rough = slips > 0 && (holds_ || speed <= (slips < 2 ? STILL : SLOW) || (cause == 2 * i + 1 && (slips < 2 || speed <= STARTS(i))));
    x->limit = STATIC(i);
    x->friction = OWN(i);
    if (cause == 2 * i && CLOSED(i) != 0.0 && !hit) x->leaving = NORMAL;
    if (cause == 2 * i + 1 && holds_) x->leaving = ALONG;
    for (int k = 0; k < slips; ++k) x->way[k] = x->rough ? 0.0 : m->here.rate[t + k][l] / speed;
  }
}

/* Modes of a solution; one that is at its limit and does not start to slip is held by others. Rows that do not move, since
   loops hold them, are left to the loops; 1 where these bear a load that friction hangs on, which is not known then. */
static int taken(const Meeting *m, const Problem *a, const Forces *g, V *p, int l) {
  int unknown = 0;
  const double small = FINE * fmax(largest(g->w, a->rows), 1.0);
  for (int i = 0; i < ELEMENTS; ++i) {
    if (elements[i].soft) continue;
    CLOSED(i) = STICK(i) = 0.0;
    FRICTION(i) = OWN(i);
    for (int k = 0; k < elements[i].slips; ++k) {
      DIRECTION(i, k) = 0.0;
      ANCHOR(i, k) = m->flow.hold[elements[i].hold + k][l];
    }
    if (elements[i].slips) BORNE(i) = 0.0;
  }
  for (int n = 0; n < a->n; ++n) {
    const int i = a->of[n].element, t = a->of[n].row, slips = a->of[n].slips, up = t + (a->of[n].normal ? slips : 0);
    const Law *x = &a->laws[n];
    double moves = 0.0;
    if (!x->active || g->mode[n] == OPEN) continue;
    for (int k = 0; k < slips; ++k) moves += a->G[t + k][t + k];
    CLOSED(i) = 1.0;
    STICK(i) = g->mode[n] == STICKS;
    for (int k = 0; k < slips; ++k) DIRECTION(i, k) = g->way[n][k];
    if (slips)
      BORNE(i) = g->mode[n] == SLIPS && rubs(a, n) && x->leaving == STAYS && sqrt(dot(g->w + t, g->w + t, slips)) <= small;
    if (slips && !(moves > 0.0)) {
      STICK(i) = FRICTION(i) = 0.0;
      BORNE(i) = DIRECTION(i, 0) = 1.0;
      if (slips > 1) DIRECTION(i, 1) = 0.0;
    }
    if (elements[i].normal && !(a->G[up][up] > 0.0)) {
      CLOSED(i) = STICK(i) = 0.0;
      unknown |= moves > 0.0 && x->limit > 0.0;
    }
  }
  return unknown;
}

/* Contact of a problem whose forces break the laws most, and whether they pull it; NEVER if none does. */
static int worst(const Problem *a, const double *f, const V *p, int l, int *pulled) {
  double most = SPREAD * largest(f, a->rows);
  int found = NEVER;
  for (int n = 0; n < a->n; ++n) {
    const int i = a->of[n].element;
    const double *own = f + a->of[n].row, bears = a->of[n].normal ? own[a->of[n].slips] : 1.0;
    const double drag = STICK(i) != 0.0 ? sqrt(dot(own, own, a->of[n].slips)) : 0.0;
    const double beyond[2] = {drag - a->laws[n].limit * fmax(bears, 0.0), -bears};
    for (int k = 0; k < 2; ++k)
      if (a->laws[n].active && CLOSED(i) != 0.0 && beyond[k] > most) most = beyond[k], found = n, *pulled = k;
  }
  return found;
}

static int touches(const State *s, const V *p, int l, int i) {
  return elements[i].normal && !elements[i].soft && (CLOSED(i) != 0.0 || s->gap[i][l] <= TOUCHING);
}

/* Where contacts of the lanes whose `event` is set are, and what they would do without forces. */
static void met(const State *s, const V *p, const int *event, Meeting *m) {
  V smooth[SIZE(NP)];
  int wanted[SIZE(LINES)] = {0};
  memcpy(smooth, p, sizeof smooth);
  for (int i = 0; i < ELEMENTS; ++i) /* what rubs in a joint is one of the forces that are sought */
    if (!elements[i].normal) smooth[elements[i].p + 3] = v_all(0.0);
  m->flow.hold[0] = v_all(0.0); /* where nothing slips, nothing is written there */
  flows(smooth, s->t, s->q, s->w, s->z, &m->flow, &m->here);
  for (int i = 0; i < ELEMENTS; ++i) {
    int some = !elements[i].normal;
    EACH(l) some |= event[l] && touches(&m->here, p, l, i);
    for (int k = 0; k < elements[i].slips + elements[i].normal; ++k) wanted[elements[i].line + k] |= some;
  }
  m->n = 0;
  for (int j = 0; j < LINES; ++j) {
    m->at[j] = wanted[j] ? m->n : NEVER;
    if (wanted[j]) m->line[m->n++] = j;
  }
  mobility(&m->flow, m->line, m->n, m->Y, m->G);
  for (int j = 0; j < m->n; ++j) {
    m->b[j] = m->flow.turn[m->line[j]];
    for (int k = 0; k < NW; ++k) m->b[j] += m->flow.A[m->line[j] * NW + k] * m->flow.w_dot[k];
  }
}

static void copied(State *to, const State *from, int l) {
  V *a = (V *)to;
  const V *b = (const V *)from;
  for (unsigned k = 0; k < sizeof(State) / sizeof(V); ++k) a[k][l] = b[k][l];
}

static long long number(const Batch *a, long long copy) {
  return a->events ? a->happened[copy] : 0;
}

static void noted(const Batch *a, long long copy, int l, const State *s, double what) {
  if (!a->entries) return;
  const long long k = a->written[copy]++;
  if (k >= a->room) return;
  double *out = a->entries + (copy * a->room + k) * ENTRY;
  out[0] = what;
  out[1] = s->t[l];
  for (int i = 0; i < NQ; ++i) out[2 + i] = s->q[i][l];
  for (int i = 0; i < NW; ++i) out[2 + NQ + i] = s->w[i][l];
  for (int i = 0; i < NZ; ++i) out[2 + NQ + NW + i] = s->z[i][l];
}

/* Whether contacts move as their modes say: none inwards, none that is held, slips that start along theirs. */
static int moves_so(const Problem *a, const double *w, const V *p, int l, double close) {
  for (int n = 0; n < a->n; ++n) {
    const double *own = w + a->of[n].row;
    const int i = a->of[n].element, slips = a->of[n].slips;
    double ahead = 0.0, across = 0.0;
    if (!a->laws[n].active) continue;
    if (a->of[n].normal && own[slips] < -close) return 0;
    if (CLOSED(i) == 0.0) continue;
    if (slips && HELD(i) && largest(own, slips) > close) return 0;
    if (HELD(i) || !rubs(a, n)) continue;
    for (int k = 0; k < slips; ++k) ahead += own[k] * DIRECTION(i, k);
    for (int k = 0; k < slips; ++k) across += (own[k] - ahead * DIRECTION(i, k)) * (own[k] - ahead * DIRECTION(i, k));
    if (ahead < -close || sqrt(across) > close) return 0;
  }
  return 1;
}

/* Change modes until the forces of the flow meet the laws where rows depend on each other, of the lanes whose `event` is set.
   A contact that they would pull is open, and one that they put outside of its cone bears what its limit allows; if others
   cannot bear the rest, what it has in the solution. None of this changes the motion if it can be helped: where contacts with
   unlike frictions share a load, or jam, shares as lawful as those of the solution may; `doubts` counts that. Else all stays as
   it is. */
static void spread(
    const State *s, V *p, const int *event, const Problem *posed_, const Forces *solutions, const long long *copy, long long *doubts) {
  V kept[SIZE(NP)];
  double wanted[LANES][SIZE(ROWS)];
  int todo[LANES], left = 0;
  memcpy(kept, p, sizeof kept);
  EACH(l) left |= todo[l] = event[l];
  for (int way = 0; way < 4 && left; ++way) {
    const int given = way % 2, otherwise = way / 2;
    int trying[LANES], any = 1;
    memcpy(trying, todo, sizeof trying);
    for (int round = 0; round <= 2 * ELEMENTS && any; ++round) {
      State now = *s;
      Holds h;
      holds(p, &h);
      arrived(&now, &h, p);
      any = 0;
      EACH(l) if (trying[l]) {
        const Problem *a = &posed_[l];
        double f[SIZE(ROWS)], w[SIZE(ROWS)], change = 0.0;
        int pulled = 0;
        for (int n = 0; n < a->n; ++n)
          for (int k = 0; k < a->of[n].slips + a->of[n].normal; ++k) f[a->of[n].row + k] = now.force[elements[a->of[n].element].row + k][l];
        respond(a, f, w);
        if (!way && !round) memcpy(wanted[l], w, sizeof w);
        for (int j = 0; j < a->rows; ++j) change = fmax(change, fabs(w[j] - wanted[l][j]));
        const int n = worst(a, f, p, l, &pulled);
        if (n == NEVER && (change <= SPREAD * a->size || (otherwise && moves_so(a, w, p, l, SPREAD * a->size)))) {
          todo[l] = trying[l] = 0;
          doubts[copy[l]] += change > APART * a->size;
        } else if (n == NEVER || round == 2 * a->n) {
          for (int k = 0; k < NP; ++k) p[k][l] = kept[k][l];
          trying[l] = 0;
        } else {
          const int i = a->of[n].element, slips = a->of[n].slips;
          const double *own = (given ? solutions[l].f : f) + a->of[n].row, drag = sqrt(dot(own, own, slips));
          const double load = a->of[n].normal ? solutions[l].f[a->of[n].row + slips] : 1.0;
          any = 1;
          STICK(i) = 0.0;
          if (pulled) {
            CLOSED(i) = 0.0;
            if (slips) BORNE(i) = 0.0, FRICTION(i) = OWN(i);
            continue;
          }
          for (int k = 0; k < slips; ++k) DIRECTION(i, k) = drag > 0.0 ? -own[k] / drag : k == 0;
          BORNE(i) = 1.0;
          FRICTION(i) = !given ? a->laws[n].limit : load > 0.0 ? drag / load : 0.0;
        }
      }
    }
    left = 0;
    EACH(l) left |= todo[l];
  }
}

/* Where a contact that others hold has come to move, put what is at rest to rest: nothing but the others holds it. */
static void calmed(const Meeting *m, const Problem *a, const V *p, int l, V *w) {
  double G[SIZE(ROWS)][SIZE(ROWS)], f[SIZE(ROWS)], along[SIZE(ROWS)] = {0.0}, fast = 0.0, most = 0.0;
  V off[SIZE(NW)];
  int row[SIZE(ROWS)], n = 0, creeps = 0;
  for (int j = 0; j < a->n; ++j) {
    const int i = a->of[j].element, t = a->of[j].row, slips = a->of[j].slips;
    double speed = 0.0;
    if (!a->laws[j].active) continue;
    for (int k = 0; k < slips; ++k) speed += m->here.rate[elements[i].row + k][l] * m->here.rate[elements[i].row + k][l];
    creeps |= CLOSED(i) != 0.0 && BORNE_BY_OTHERS(i) && sqrt(speed) > SLOW;
    for (int k = 0; k < slips + a->of[j].normal; ++k) {
      if (k < slips && !a->laws[j].rough) continue;
      f[n] = -m->here.rate[elements[i].row + k][l];
      row[n++] = t + k;
    }
  }
  if (!creeps) return;
  for (int i = 0; i < n; ++i) {
    fast = fmax(fast, fabs(f[i]));
    for (int j = 0; j < n; ++j) G[i][j] = a->G[row[i]][row[j]];
  }
  shortest(n, G, f, 1e-11, NULL);
  for (int i = 0; i < n; ++i) along[row[i]] = f[i];
  memset(off, 0, sizeof off);
  answered(m, a, along, l, off);
  for (int i = 0; i < NW; ++i) most = fmax(most, fabs(off[i][l]));
  for (int i = 0; i < NW && most <= LEVER * fast; ++i) w[i][l] += off[i][l];
}

/* Write down an event with the modes after it. */
static void written_down(const Batch *a, long long copy, int l, const V *p, double *note) {
  if (!a->events) return;
  const long long k = a->happened[copy]++;
  modes(p, l, note + 2 + NW + MODES);
  if (k < a->event_room) memcpy(a->events + (copy * a->event_room + k) * EVENT, note, EVENT * sizeof *note);
}

/* Kinks of the lanes whose `event` is set come to their other sides; no contact changes. */
static void switched(const Batch *a, const long long *copy, State *s, V *p, const Holds *h, const int *event, const int *cause) {
  State after = *s;
  double notes[LANES][EVENT];
  EACH(l) if (event[l]) {
    memset(notes[l], 0, sizeof notes[l]);
    noted(a, copy[l], l, s, -1.0 - (double)number(a, copy[l]));
    notes[l][0] = cause[l];
    for (int i = 0; i < NW; ++i) notes[l][2 + i] = s->w[i][l];
    modes(p, l, notes[l] + 2 + NW);
    freed(p, l, cause[l]);
  }
  arrived(&after, h, p);
  EACH(l) if (event[l]) {
    copied(s, &after, l);
    kept_on(s, p, l);
    written_down(a, copy[l], l, p, notes[l]);
  }
}

static int mode(const V *p, int l, int i) { return CLOSED(i) == 0.0 ? 1 : HELD(i) ? 2 : 4; }

/* Impacts and new modes of the lanes whose `event` is set; their state and its rates are then those after
   it, and `h` who is held. Doubts about them are counted. `ends` are lanes whose copies end with it. */
static void changed(
    const Batch *a, const long long *copy, State *s, V *p, Holds *h, const int *event, const int *cause, int *ends) {
  Meeting m;
  State after;
  Problem asks[LANES];
  Forces gives[LANES];
  double notes[LANES][EVENT];
  int hit[LANES] = {0}, any = SOFTS, touching[LANES][SIZE(ELEMENTS)] = {{0}};
  EACH(l) {
    ends[l] = a->ends && event[l] && cause[l] != NEVER;
    for (int i = 0; i < ELEMENTS && ends[l]; ++i) ends[l] = (mode(p, l, i) & a->ends[i]) != 0;
    if (!event[l]) continue;
    memset(notes[l], 0, sizeof notes[l]);
    modes(p, l, notes[l] + 2 + NW);
    freed(p, l, NEVER);
  }
  met(s, p, event, &m);
  if (PATCHED) {
    EACH(l) if (event[l]) looked(a, copy[l], &m, p, l, cause[l]);
    met(s, p, event, &m);
  }
  EACH(l) if (event[l]) {
    softened(s, &m, p, l, cause[l]);
    for (int i = 0; i < ELEMENTS; ++i) touching[l][i] = touches(&m.here, p, l, i);
    double *note = notes[l], loss;
    noted(a, copy[l], l, s, -1.0 - (double)number(a, copy[l]));
    any |= hit[l] = struck(a, &m, s->w, p, l, touching[l], note + 2 + NW + 2 * MODES, &loss);
    if (hit[l]) shaken(s, &m, p, l);
    if (a->losses) {
      double *own = place(a->losses, copy[l], 2);
      own[0] += loss;
      own[LANES] = loss;
    }
    note[0] = cause[l];
    note[1] = hit[l] > 0;
    for (int i = 0; i < NW; ++i) note[2 + i] = s->w[i][l];
  }
  for (int round = 0; round < ROUNDS; ++round) { /* a law that feels contacts may act otherwise in the new modes */
    int felt = 0;
    if (any || round) met(s, p, event, &m);
    EACH(l) if (event[l]) {
      if (!round) asked(a, &m, p, l, touching[l], cause[l], hit[l], &asks[l]);
      moving(&m, l, 0, &asks[l]);
      int doubt = solved(&asks[l], &gives[l], 1) || hit[l] > 1;
      doubt |= taken(&m, &asks[l], &gives[l], p, l);
      if (!round) a->doubts[copy[l]] += doubt;
      for (int i = 0; i < ELEMENTS; ++i) felt |= FELT(i) != CLOSED(i), FELT(i) = CLOSED(i);
    }
    if (!FEELS || !felt) break;
  }
  if (ELEMENTS > 1) spread(s, p, event, asks, gives, copy, a->doubts);
  EACH(l) if (event[l]) calmed(&m, &asks[l], p, l, s->w);
  after = *s;
  holds(p, h);
  arrived(&after, h, p);
  EACH(l) if (event[l]) {
    copied(s, &after, l);
    kept_on(s, p, l);
    written_down(a, copy[l], l, p, notes[l]);
  }
  EACH(l) for (int i = 0; i < ELEMENTS && ends[l]; ++i) ends[l] = (mode(p, l, i) & a->ends[ELEMENTS + i]) != 0;
}
