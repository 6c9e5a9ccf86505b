/* Derivatives forwards: what happened to every copy, from its start to its end, with a tangent of its state and parameters.

   At an event the guard's surface is met by dt = -(g_x dx + g_p dp) / (g_x f- + g_t) later, so that with the map x+ = R(t, x-)
   and rates f- and f+ before and after it dx+ = R_x (dx + f- dt) + R_t dt + R_p dp - f+ dt. */

/* Through one part of a step; where dt is zero nothing changes. */
static void stepped_forth(V t, V dt, const State *s, const V *p, Linear *at) {
  V q[SIZE(NQ)], w[SIZE(NW)], z[SIZE(NZ)], dq[SIZE(NQ)], dw[SIZE(NW)], dz[SIZE(NZ)];
  Linear now = *at, sum = *at, rate;
  memcpy(q, s->q, sizeof q);
  memcpy(w, s->w, sizeof w);
  memcpy(z, s->z, sizeof z);
  now.t[0] = v_all(0.0);
  for (int k = 0; k < 4; ++k) {
    const V ahead = k < 3 ? AHEAD[k + 1] * dt : v_all(0.0);
    rates_forth(t + AHEAD[k] * dt, q, w, z, p, now.t, now.q, now.w, now.z, at->p, rate.q, rate.w, rate.z);
    rates(t + AHEAD[k] * dt, q, w, z, p, dq, dw, dz);
    moved(s, dq, dw, dz, ahead, q, w, z);
    for (int i = 0; i < NQ; ++i) sum.q[i] += WEIGHTS[k] * dt * rate.q[i], now.q[i] = at->q[i] + ahead * rate.q[i];
    for (int i = 0; i < NW; ++i) sum.w[i] += WEIGHTS[k] * dt * rate.w[i], now.w[i] = at->w[i] + ahead * rate.w[i];
    for (int i = 0; i < NZ; ++i) sum.z[i] += WEIGHTS[k] * dt * rate.z[i], now.z[i] = at->z[i] + ahead * rate.z[i];
  }
  *at = sum;
}

/* Through the events of some lanes. */
static void changed_forth(const int *event, double notes[LANES][EVENT], const State *s, V *p, Linear *at, V *slowest) {
  State plus = *s, minus;
  Linear by, on = *at;
  V struck[SIZE(NW)], kept[SIZE(NP)];
  const V pace = crossed(event, notes, s, p, &minus, &by, slowest);
  const V off = dotted(by.q, at->q, NQ) + dotted(by.w, at->w, NW) + dotted(by.z, at->z, NZ) + dotted(by.p, at->p, NP);
  EACH(l) on.t[0][l] = event[l] && notes[l][0] >= 0.0 ? -off[l] / pace[l] : 0.0;
  for (int i = 0; i < NQ; ++i) on.q[i] += minus.q_dot[i] * on.t[0];
  for (int i = 0; i < NW; ++i) on.w[i] += minus.w_dot[i] * on.t[0];
  for (int i = 0; i < NZ; ++i) on.z[i] += minus.z_dot[i] * on.t[0];
  memcpy(kept, p, sizeof kept);
  if (put_impact(p, event, notes))
    strike_forth(s->t, s->q, s->w, s->z, p, on.t, on.q, on.w, on.z, at->p, struck);
  memcpy(p, kept, sizeof kept);
  EACH(l) if (event[l]) {
    put(p, l, notes[l] + 2 + NW + MODES);
    for (int i = 0; i < NW; ++i) plus.w[i][l] = notes[l][2 + i];
    for (int i = 0; i < NW && notes[l][1] > 0.0; ++i) on.w[i][l] = struck[i][l];
  }
  rates(s->t, plus.q, plus.w, plus.z, p, plus.q_dot, plus.w_dot, plus.z_dot);
  EACH(l) if (event[l]) {
    for (int i = 0; i < NQ; ++i) at->q[i][l] = on.q[i][l] - plus.q_dot[i][l] * on.t[0][l];
    for (int i = 0; i < NW; ++i) at->w[i][l] = on.w[i][l] - plus.w_dot[i][l] * on.t[0][l];
    for (int i = 0; i < NZ; ++i) at->z[i][l] = on.z[i][l] - plus.z_dot[i][l] * on.t[0][l];
  }
}

void saltus_forth(const Pass *b, long long first, long long last) {
  for (long long k = first; k < last; ++k) passed(b, k, 0, stepped_forth, changed_forth);
}
