/* Vectors of doubles, one number per copy of a machine, and the functions that statements about them call. */
#include <math.h>
#include <string.h>

#if defined(LANES) /* as whoever includes this says */
#elif defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif

typedef double V __attribute__((vector_size(8 * LANES)));
typedef long long L __attribute__((vector_size(8 * LANES)));

#define EACH(l) for (int l = 0; l < LANES; ++l)

static inline V v_all(double x) { return (V){0.0} + x; }
static inline V v_where(L mask, V a, V b) { return (V)((mask & (L)a) | (~mask & (L)b)); }
static inline V v_one(L mask) { return (V)(mask & (L)v_all(1.0)); }
static inline V v_fmin(V a, V b) { return v_where(a < b, a, b); }
static inline V v_fmax(V a, V b) { return v_where(a > b, a, b); }
static inline V v_fabs(V a) { return v_fmax(a, -a); }
static inline V v_sign(V a) { return v_one(a > 0.0) - v_one(a < 0.0); }

/* x less the nearest multiple of pi/2, in three parts: right to round-off up to a million radians. */
static inline V v_reduced(V x, L *quarter) {
  const double shift = 0x1.8p52;
  const V at = x * 0.6366197723675814 + shift, n = at - shift;
  *quarter = (L)at;
  return ((x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
}

/* Taylor's series up to pi/4, where what is left out is below round-off. */
static inline V v_sine(V r) {
  const V s = r * r;
  V y = v_all(1.0 / 355687428096000.0);
  y = y * s - 1.0 / 1307674368000.0;
  y = y * s + 1.0 / 6227020800.0;
  y = y * s - 1.0 / 39916800.0;
  y = y * s + 1.0 / 362880.0;
  y = y * s - 1.0 / 5040.0;
  y = y * s + 1.0 / 120.0;
  y = y * s - 1.0 / 6.0;
  return r + r * s * y;
}

static inline V v_cosine(V r) {
  const V s = r * r;
  V y = v_all(1.0 / 20922789888000.0);
  y = y * s - 1.0 / 87178291200.0;
  y = y * s + 1.0 / 479001600.0;
  y = y * s - 1.0 / 3628800.0;
  y = y * s + 1.0 / 40320.0;
  y = y * s - 1.0 / 720.0;
  y = y * s + 1.0 / 24.0;
  y = y * s - 0.5;
  return 1.0 + s * y;
}

static inline V v_sin(V x) {
  L quarter;
  const V r = v_reduced(x, &quarter), y = v_where((quarter & 1) != 0, v_cosine(r), v_sine(r));
  return (V)((L)y ^ ((quarter & 2) << 62));
}

static inline V v_cos(V x) {
  L quarter;
  const V r = v_reduced(x, &quarter), y = v_where((quarter & 1) != 0, v_sine(r), v_cosine(r));
  return (V)((L)y ^ (((quarter + 1) & 2) << 62));
}

#define ONE(f) static inline V v_##f(V x) { EACH(l) x[l] = f(x[l]); return x; }
#define TWO(f) static inline V v_##f(V x, V y) { EACH(l) x[l] = f(x[l], y[l]); return x; }
ONE(sqrt) ONE(exp) ONE(log) ONE(expm1) ONE(log1p) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh)
ONE(asinh) ONE(acosh) ONE(atanh) ONE(erf) ONE(floor) ONE(ceil)
TWO(pow) TWO(atan2) TWO(hypot) TWO(fmod) TWO(copysign)
