/* Derivatives backwards: what happened to every copy, from its end to its start, with the adjoint of its state and parameters.

   Parts of steps are those of Runge and Kutta's, stage by stage. An event at the time at which a guard g is zero, with the map
   x+ = R(x-) and rates f- and f+ before and after it, turns the adjoint of x+ into that of x- by the transpose of the
   saltation matrix R_x + (f+ - R_x f-) g_x / (g_x f- + g_t). */

static void added(V *to, const V *what, int n) {
  for (int i = 0; i < n; ++i) to[i] += what[i];
}

static void scaled(V *to, V by, const V *what, const V *more, V share, int n) {
  for (int i = 0; i < n; ++i) to[i] = by * what[i] + (more ? share * more[i] : v_all(0.0));
}

/* Back through one part of a step; where dt is zero nothing changes. */
static void stepped_back(V t, V dt, const State *s, const V *p, Linear *at) {
  V q[4][SIZE(NQ)], w[4][SIZE(NW)], z[4][SIZE(NZ)], dq[SIZE(NQ)], dw[SIZE(NW)], dz[SIZE(NZ)];
  Linear own, more;
  memcpy(q[0], s->q, sizeof q[0]);
  memcpy(w[0], s->w, sizeof w[0]);
  memcpy(z[0], s->z, sizeof z[0]);
  for (int k = 0; k < 3; ++k) {
    rates(t + AHEAD[k] * dt, q[k], w[k], z[k], p, dq, dw, dz);
    moved(s, dq, dw, dz, AHEAD[k + 1] * dt, q[k + 1], w[k + 1], z[k + 1]);
  }
  memset(&own, 0, sizeof own);
  for (int k = 3; k >= 0; --k) {
    const V share = k < 3 ? AHEAD[k + 1] * dt : v_all(0.0);
    scaled(dq, WEIGHTS[k] * dt, at->q, k < 3 ? more.q : NULL, share, NQ);
    scaled(dw, WEIGHTS[k] * dt, at->w, k < 3 ? more.w : NULL, share, NW);
    scaled(dz, WEIGHTS[k] * dt, at->z, k < 3 ? more.z : NULL, share, NZ);
    rates_back(t + AHEAD[k] * dt, q[k], w[k], z[k], p, dq, dw, dz, more.t, more.q, more.w, more.z, more.p);
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

/* Back through the events of some lanes. */
static void changed_back(const int *event, double notes[LANES][EVENT], const State *s, V *p, Linear *at, V *slowest) {
  State plus = *s, minus;
  Linear map, by;
  V kept[SIZE(NP)];
  EACH(l) if (event[l])
    for (int i = 0; i < NW; ++i) plus.w[i][l] = notes[l][2 + i];
  rates(s->t, plus.q, plus.w, plus.z, p, plus.q_dot, plus.w_dot, plus.z_dot); /* modes are those after it */
  memcpy(kept, p, sizeof kept);
  if (put_impact(p, event, notes))
    strike_back(s->t, s->q, s->w, s->z, p, at->w, map.t, map.q, map.w, map.z, map.p);
  memcpy(p, kept, sizeof kept);
  EACH(l) {
    const int hit = event[l] && notes[l][1] > 0.0;
    map.t[0][l] = hit ? map.t[0][l] : 0.0;
    for (int i = 0; i < NP; ++i) map.p[i][l] = hit ? map.p[i][l] : 0.0;
    for (int i = 0; i < NQ; ++i) map.q[i][l] = at->q[i][l] + (hit ? map.q[i][l] : 0.0);
    for (int i = 0; i < NW; ++i) map.w[i][l] = hit ? map.w[i][l] : at->w[i][l];
    for (int i = 0; i < NZ; ++i) map.z[i][l] = at->z[i][l] + (hit ? map.z[i][l] : 0.0);
  }
  const V pace = crossed(event, notes, s, p, &minus, &by, slowest);
  const V jump = dotted(map.q, minus.q_dot, NQ) + dotted(map.w, minus.w_dot, NW) + dotted(map.z, minus.z_dot, NZ) + map.t[0] -
                 dotted(at->q, plus.q_dot, NQ) - dotted(at->w, plus.w_dot, NW) - dotted(at->z, plus.z_dot, NZ);
  EACH(l) if (event[l]) {
    const double share = notes[l][0] >= 0.0 ? -jump[l] / pace[l] : 0.0;
    for (int i = 0; i < NQ; ++i) at->q[i][l] = map.q[i][l] + share * by.q[i][l];
    for (int i = 0; i < NW; ++i) at->w[i][l] = map.w[i][l] + share * by.w[i][l];
    for (int i = 0; i < NZ; ++i) at->z[i][l] = map.z[i][l] + share * by.z[i][l];
    for (int i = 0; i < NP; ++i) at->p[i][l] += map.p[i][l] + share * by.p[i][l];
  }
}

void saltus_back(const Pass *b, long long first, long long last) {
  for (long long k = first; k < last; ++k) passed(b, k, 1, stepped_back, changed_back);
}
