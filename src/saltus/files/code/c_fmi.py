"""The C of an FMU: what FMI 2.0 and 3.0 have in common, and each of the two interfaces upon it."""

from __future__ import annotations

CORE = """/* The stepper of NAME as an FMU for co-simulation. Written by Saltus. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "NAME.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

typedef unsigned int reference;
typedef enum { ok, warning, discard, error, fatal } status;
enum { n_params = @NP@, n_inputs = @NI@, n_q = @NQ@, n_v = @NV@, n_commands = @NC@,
       at_inputs = n_params, at_q = at_inputs + n_inputs, at_v = at_q + n_q, at_commands = at_v + n_v,
       at_domain = at_commands + n_commands, at_time };

/* All that a run depends on: what getting and setting the state copies. */
typedef struct {
  NAME_state state;
  double params[n_params + 1], inputs[n_inputs + UPPER_NU + 1], q[n_q], v[n_v], begin, tolerance;
  unsigned char held[n_q], turned[n_q]; /* positions that were set; positions whose velocities were set */
  int running;
} memory;

typedef void (*logger)(void); /* of either interface; `say` knows which */

typedef struct {
  memory m;
  logger log;
  void *environment;
  char name[200];
} instance;

static const double start_q[] = {@Q@}, start_v[] = {@V@};
static const char *const q_names[] = {@Q_LABELS@};
static const int q_of_v[] = {@Q_OF_V@};

static void say(instance *i, const char *message);

static void reset(instance *i) {
  memory *m = &i->m;
  memset(m, 0, sizeof *m);
  memcpy(m->params, NAME_params, n_params * sizeof(double));
  memcpy(m->q, start_q, sizeof m->q);
  memcpy(m->v, start_v, sizeof m->v);
  m->tolerance = 1e-8;
}

/* Close the loops for what was set, and begin there. */
static status restart(instance *i) {
  memory *m = &i->m;
  double q[n_q], v[n_v];
  int code;
  memcpy(q, m->q, sizeof q);
  memcpy(v, m->v, sizeof v);
#if @LOOPS@
  {
    int k, any = 0;
    code = NAME_assemble(m->begin, q, v, m->params, m->held);
    for (k = 0; k < n_q; ++k) any |= m->turned[k];
    if (any) {
      memcpy(v, m->v, sizeof v);
      code |= NAME_assemble(m->begin, q, v, m->params, m->turned);
    }
    if (code) {
      char text[600] = "the loops do not close with these lengths and these positions as they were set:";
      for (k = 0; k < n_q; ++k) {
        const size_t at = strlen(text);
        if (m->held[k]) snprintf(text + at, sizeof text - at, " %s", q_names[k]);
      }
      say(i, text);
      return error;
    }
  }
#else
  (void)q_names; (void)q_of_v;
#endif
  code = NAME_start(&m->state, @FIRST@, m->begin, q, v, m->params);
  m->state.tolerance = m->tolerance;
  if (code) say(i, "a contact starts inside of what it touches; set other positions");
  return code ? error : ok;
}

static status got(instance *i, const reference r[], size_t n, double out[]) {
  memory *m = &i->m;
  double v[n_v], u[n_commands + UPPER_NU + 1];
  size_t k;
  NAME_velocity(&m->state, v);
  NAME_command(&m->state, u);
  for (k = 0; k < n; ++k) {
    const int x = (int)r[k];
    if (x < at_inputs) out[k] = m->params[x];
    else if (x < at_q) out[k] = m->inputs[x - at_inputs];
    else if (x < at_v) out[k] = m->running ? m->state.x[x - at_q] : m->q[x - at_q];
    else if (x < at_commands) out[k] = m->running ? v[x - at_v] : m->v[x - at_v];
    else if (x < at_domain) out[k] = u[x - at_commands];
    else if (x == at_time) out[k] = m->state.t;
    else return error;
  }
  return ok;
}

static status put(instance *i, const reference r[], size_t n, const double in[]) {
  memory *m = &i->m;
  size_t k;
  for (k = 0; k < n; ++k) {
    const int x = (int)r[k];
    if (x >= at_inputs && x < at_q) m->inputs[x - at_inputs] = in[k];
    else if (m->running || x >= at_commands) {
      say(i, "only inputs can be set after initialization");
      return error;
    } else if (x < at_inputs) m->params[x] = in[k];
    else if (x < at_v) {
      m->q[x - at_q] = in[k];
      m->held[x - at_q] = in[k] != start_q[x - at_q];
    } else {
      m->v[x - at_v] = in[k];
      m->turned[q_of_v[x - at_v]] |= in[k] != start_v[x - at_v];
    }
  }
  return ok;
}

/* Go on by h seconds: ok, discard if the run has ended, or error. */
static status gone(instance *i, double h) {
  memory *m = &i->m;
  const double wanted = ceil(h / UPPER_STABLE_STEP - 1e-9);
  const int steps = wanted > 1 ? (int)wanted : 1;
  int k;
  for (k = 0; k < steps; ++k) {
    int code;
    if (m->state.ended) return discard;
    code = NAME_step(&m->state, h / steps, m->inputs);
    if (code < 0) {
      say(i, code == -1 ? "the coordinates chosen at export became singular, or a slip ended"
             : code == -2 ? "more events in one step than it can have" : "the loops opened, or a number is not finite");
      return error;
    }
  }
  return m->state.ended ? discard : ok;
}

static status saved(instance *i, void **s) {
  if (!*s) *s = malloc(sizeof(memory));
  if (!*s) return error;
  memcpy(*s, &i->m, sizeof(memory));
  return ok;
}
static status restored(instance *i, const void *s) {
  if (!s) return error;
  memcpy(&i->m, s, sizeof(memory));
  return ok;
}
static status freed(void **s) {
  free(*s);
  *s = NULL;
  return ok;
}
static status packed(const void *s, void *to, size_t n) {
  if (!s || n < sizeof(memory)) return error;
  memcpy(to, s, sizeof(memory));
  return ok;
}
static status unpacked(const void *from, size_t n, void **s) {
  if (n != sizeof(memory)) return error;
  *s = malloc(sizeof(memory));
  if (!*s) return error;
  memcpy(*s, from, sizeof(memory));
  return ok;
}

static instance *made(const char *name, const char *token, logger log, void *environment) {
  instance *i;
  if (!token || strcmp(token, "GUID") != 0) return NULL;
  i = calloc(1, sizeof *i);
  if (!i) return NULL;
  i->log = log;
  i->environment = environment;
  snprintf(i->name, sizeof i->name, "%s", name ? name : "");
  reset(i);
  (void)restart(i);
  return i;
}
"""

FMI2 = """
/* ---- FMI 2.0 ---- */

typedef void *component;
typedef struct {
  void (*log)(void *environment, const char *name, status s, const char *category, const char *message, ...);
  void *(*allocate)(size_t n, size_t size);
  void (*release)(void *p);
  void (*finished)(void *environment, status s);
  void *environment;
} callbacks2;

static void say(instance *i, const char *message) {
  void (*log)(void *, const char *, status, const char *, const char *, ...) =
      (void (*)(void *, const char *, status, const char *, const char *, ...))i->log;
  if (log) log(i->environment, i->name, error, "logStatusError", message); /* it has no % */
}

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }

EXPORT component fmi2Instantiate(const char *name, int type, const char *guid, const char *resources,
                                 const callbacks2 *callbacks, int visible, int logging) {
  (void)resources; (void)visible; (void)logging;
  if (type != 1) return NULL;
  return made(name, guid, callbacks ? (logger)callbacks->log : NULL, callbacks ? callbacks->environment : NULL);
}

EXPORT void fmi2FreeInstance(component c) { free(c); }
EXPORT status fmi2SetDebugLogging(component c, int on, size_t n, const char *const categories[]) {
  (void)c; (void)on; (void)n; (void)categories;
  return ok;
}
EXPORT status fmi2SetupExperiment(component c, int tolerance_given, double tolerance, double start, int stop_given,
                                  double stop) {
  instance *i = c;
  (void)stop_given; (void)stop;
  i->m.begin = start;
  if (tolerance_given) i->m.tolerance = tolerance;
  return ok;
}
EXPORT status fmi2EnterInitializationMode(component c) { (void)c; return ok; }
EXPORT status fmi2ExitInitializationMode(component c) {
  const status s = restart(c);
  ((instance *)c)->m.running = s == ok;
  return s;
}
EXPORT status fmi2Terminate(component c) { (void)c; return ok; }
EXPORT status fmi2Reset(component c) {
  reset(c);
  return restart(c);
}

EXPORT status fmi2GetReal(component c, const reference r[], size_t n, double out[]) { return got(c, r, n, out); }
EXPORT status fmi2SetReal(component c, const reference r[], size_t n, const double in[]) { return put(c, r, n, in); }
EXPORT status fmi2GetInteger(component c, const reference r[], size_t n, int out[]) {
  size_t k;
  for (k = 0; k < n; ++k) {
    if ((int)r[k] != at_domain) return error;
    out[k] = ((instance *)c)->m.state.domain;
  }
  return ok;
}
EXPORT status fmi2DoStep(component c, double t, double h, int keep) {
  (void)t; (void)keep;
  return gone(c, h);
}
EXPORT status fmi2GetFMUstate(component c, void **s) { return saved(c, s); }
EXPORT status fmi2SetFMUstate(component c, void *s) { return restored(c, s); }
EXPORT status fmi2FreeFMUstate(component c, void **s) { (void)c; return freed(s); }
EXPORT status fmi2SerializedFMUstateSize(component c, void *s, size_t *n) {
  (void)c; (void)s;
  *n = sizeof(memory);
  return ok;
}
EXPORT status fmi2SerializeFMUstate(component c, void *s, char b[], size_t n) { (void)c; return packed(s, b, n); }
EXPORT status fmi2DeSerializeFMUstate(component c, const char b[], size_t n, void **s) {
  (void)c;
  return unpacked(b, n, s);
}

/* What this FMU has no variables for. */
#define NONE2(kind, type) \\
  EXPORT status fmi2Get##kind(component c, const reference r[], size_t n, type out[]) { \\
    (void)c; (void)r; (void)out; \\
    return n ? error : ok; \\
  } \\
  EXPORT status fmi2Set##kind(component c, const reference r[], size_t n, const type in[]) { \\
    (void)c; (void)r; (void)in; \\
    return n ? error : ok; \\
  }
typedef const char *text;
NONE2(Boolean, int)
NONE2(String, text)
EXPORT status fmi2SetInteger(component c, const reference r[], size_t n, const int in[]) {
  (void)c; (void)r; (void)in;
  return n ? error : ok;
}
EXPORT status fmi2GetDirectionalDerivative(component c, const reference u[], size_t nu, const reference k[], size_t nk,
                                           const double dk[], double du[]) {
  (void)c; (void)u; (void)nu; (void)k; (void)nk; (void)dk; (void)du;
  return error;
}
EXPORT status fmi2SetRealInputDerivatives(component c, const reference r[], size_t n, const int o[], const double v[]) {
  (void)c; (void)r; (void)n; (void)o; (void)v;
  return error;
}
EXPORT status fmi2GetRealOutputDerivatives(component c, const reference r[], size_t n, const int o[], double v[]) {
  (void)c; (void)r; (void)n; (void)o; (void)v;
  return error;
}
EXPORT status fmi2CancelStep(component c) { (void)c; return error; }
EXPORT status fmi2GetStatus(component c, int k, status *s) { (void)c; (void)k; (void)s; return discard; }
EXPORT status fmi2GetRealStatus(component c, int k, double *s) { (void)c; (void)k; (void)s; return discard; }
EXPORT status fmi2GetIntegerStatus(component c, int k, int *s) { (void)c; (void)k; (void)s; return discard; }
EXPORT status fmi2GetBooleanStatus(component c, int k, int *s) { (void)c; (void)k; (void)s; return discard; }
EXPORT status fmi2GetStringStatus(component c, int k, const char **s) { (void)c; (void)k; (void)s; return discard; }
"""

FMI3 = """
/* ---- FMI 3.0 ---- */

#include <stdbool.h>

typedef void *component;
typedef void (*log3)(void *environment, status s, const char *category, const char *message);

static void say(instance *i, const char *message) {
  if (i->log) ((log3)i->log)(i->environment, error, "logStatusError", message);
}

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT status fmi3SetDebugLogging(component c, bool on, size_t n, const char *const categories[]) {
  (void)c; (void)on; (void)n; (void)categories;
  return ok;
}
EXPORT component fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible,
                                             bool logging, bool events, bool early, const reference between[],
                                             size_t n, void *environment, log3 log, void (*update)(void)) {
  (void)resources; (void)visible; (void)logging; (void)events; (void)early; (void)between; (void)n; (void)update;
  return made(name, token, (logger)log, environment);
}
EXPORT component fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, bool visible,
                                              bool logging, void *environment, log3 log) {
  (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)log;
  return NULL;
}
EXPORT component fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *resources,
                                                   bool visible, bool logging, void *environment, log3 log,
                                                   void (*update)(void), void (*lock)(void), void (*unlock)(void)) {
  (void)name; (void)token; (void)resources; (void)visible; (void)logging; (void)environment; (void)log;
  (void)update; (void)lock; (void)unlock;
  return NULL;
}
EXPORT void fmi3FreeInstance(component c) { free(c); }
EXPORT status fmi3EnterInitializationMode(component c, bool tolerance_given, double tolerance, double start,
                                          bool stop_given, double stop) {
  instance *i = c;
  (void)stop_given; (void)stop;
  i->m.begin = start;
  if (tolerance_given) i->m.tolerance = tolerance;
  return ok;
}
EXPORT status fmi3ExitInitializationMode(component c) {
  const status s = restart(c);
  ((instance *)c)->m.running = s == ok;
  return s;
}
EXPORT status fmi3Terminate(component c) { (void)c; return ok; }
EXPORT status fmi3Reset(component c) {
  reset(c);
  return restart(c);
}
EXPORT status fmi3GetFloat64(component c, const reference r[], size_t n, double out[], size_t count) {
  return count < n ? error : got(c, r, n, out);
}
EXPORT status fmi3SetFloat64(component c, const reference r[], size_t n, const double in[], size_t count) {
  return count < n ? error : put(c, r, n, in);
}
EXPORT status fmi3GetInt32(component c, const reference r[], size_t n, int32_t out[], size_t count) {
  size_t k;
  for (k = 0; k < n && k < count; ++k) {
    if ((int)r[k] != at_domain) return error;
    out[k] = ((instance *)c)->m.state.domain;
  }
  return ok;
}
EXPORT status fmi3EnterStepMode(component c) { (void)c; return ok; }
EXPORT status fmi3DoStep(component c, double t, double h, bool keep, bool *event, bool *end, bool *early,
                         double *last) {
  const status s = gone(c, h);
  (void)t; (void)keep;
  *event = *early = false;
  *end = s == discard;
  *last = ((instance *)c)->m.state.t;
  return s == discard ? ok : s;
}
EXPORT status fmi3GetFMUState(component c, void **s) { return saved(c, s); }
EXPORT status fmi3SetFMUState(component c, void *s) { return restored(c, s); }
EXPORT status fmi3FreeFMUState(component c, void **s) { (void)c; return freed(s); }
EXPORT status fmi3SerializedFMUStateSize(component c, void *s, size_t *n) {
  (void)c; (void)s;
  *n = sizeof(memory);
  return ok;
}
EXPORT status fmi3SerializeFMUState(component c, void *s, uint8_t b[], size_t n) { (void)c; return packed(s, b, n); }
EXPORT status fmi3DeserializeFMUState(component c, const uint8_t b[], size_t n, void **s) {
  (void)c;
  return unpacked(b, n, s);
}

/* What this FMU has no variables for. */
#define NONE3(kind, type) \\
  EXPORT status fmi3Get##kind(component c, const reference r[], size_t n, type out[], size_t count) { \\
    (void)c; (void)r; (void)out; (void)count; \\
    return n ? error : ok; \\
  } \\
  EXPORT status fmi3Set##kind(component c, const reference r[], size_t n, const type in[], size_t count) { \\
    (void)c; (void)r; (void)in; (void)count; \\
    return n ? error : ok; \\
  }
typedef const char *text;
typedef const uint8_t *bytes;
NONE3(Float32, float)
NONE3(Int8, int8_t)
NONE3(UInt8, uint8_t)
NONE3(Int16, int16_t)
NONE3(UInt16, uint16_t)
NONE3(UInt32, uint32_t)
NONE3(Int64, int64_t)
NONE3(UInt64, uint64_t)
NONE3(Boolean, bool)
NONE3(String, text)
EXPORT status fmi3SetInt32(component c, const reference r[], size_t n, const int32_t in[], size_t count) {
  (void)c; (void)r; (void)in; (void)count;
  return n ? error : ok;
}
EXPORT status fmi3GetBinary(component c, const reference r[], size_t n, size_t sizes[], bytes out[], size_t count) {
  (void)c; (void)r; (void)sizes; (void)out; (void)count;
  return n ? error : ok;
}
EXPORT status fmi3SetBinary(component c, const reference r[], size_t n, const size_t sizes[], const bytes in[],
                            size_t count) {
  (void)c; (void)r; (void)sizes; (void)in; (void)count;
  return n ? error : ok;
}
EXPORT status fmi3GetClock(component c, const reference r[], size_t n, bool out[]) {
  (void)c; (void)r; (void)out;
  return n ? error : ok;
}
EXPORT status fmi3SetClock(component c, const reference r[], size_t n, const bool in[]) {
  (void)c; (void)r; (void)in;
  return n ? error : ok;
}

/* What this FMU cannot do. */
#define REFUSED(name, ...) EXPORT status name(component c, __VA_ARGS__) { (void)c; return error; }
EXPORT status fmi3EnterEventMode(component c) { (void)c; return error; }
EXPORT status fmi3EnterConfigurationMode(component c) { (void)c; return error; }
EXPORT status fmi3ExitConfigurationMode(component c) { (void)c; return error; }
EXPORT status fmi3EvaluateDiscreteStates(component c) { (void)c; return error; }
REFUSED(fmi3GetNumberOfVariableDependencies, reference r, size_t *n)
REFUSED(fmi3GetVariableDependencies, reference r, size_t a[], reference b[], size_t d[], int kinds[], size_t n)
REFUSED(fmi3GetDirectionalDerivative, const reference u[], size_t nu, const reference k[], size_t nk, const double s[],
        size_t ns, double d[], size_t nd)
REFUSED(fmi3GetAdjointDerivative, const reference u[], size_t nu, const reference k[], size_t nk, const double s[],
        size_t ns, double d[], size_t nd)
REFUSED(fmi3GetIntervalDecimal, const reference r[], size_t n, double x[], int kinds[])
REFUSED(fmi3GetIntervalFraction, const reference r[], size_t n, uint64_t a[], uint64_t b[], int kinds[])
REFUSED(fmi3GetShiftDecimal, const reference r[], size_t n, double x[])
REFUSED(fmi3GetShiftFraction, const reference r[], size_t n, uint64_t a[], uint64_t b[])
REFUSED(fmi3SetIntervalDecimal, const reference r[], size_t n, const double x[])
REFUSED(fmi3SetIntervalFraction, const reference r[], size_t n, const uint64_t a[], const uint64_t b[])
REFUSED(fmi3SetShiftDecimal, const reference r[], size_t n, const double x[])
REFUSED(fmi3SetShiftFraction, const reference r[], size_t n, const uint64_t a[], const uint64_t b[])
REFUSED(fmi3UpdateDiscreteStates, bool *a, bool *b, bool *d, bool *e, bool *f, double *t)
REFUSED(fmi3GetOutputDerivatives, const reference r[], size_t n, const int32_t orders[], double x[], size_t count)
REFUSED(fmi3ActivateModelPartition, reference clock, double t)
EXPORT status fmi3EnterContinuousTimeMode(component c) { (void)c; return error; }
REFUSED(fmi3CompletedIntegratorStep, bool keep, bool *event, bool *end)
REFUSED(fmi3SetTime, double t)
REFUSED(fmi3SetContinuousStates, const double x[], size_t n)
REFUSED(fmi3GetContinuousStates, double x[], size_t n)
REFUSED(fmi3GetContinuousStateDerivatives, double x[], size_t n)
REFUSED(fmi3GetNominalsOfContinuousStates, double x[], size_t n)
REFUSED(fmi3GetEventIndicators, double x[], size_t n)
REFUSED(fmi3GetNumberOfEventIndicators, size_t *n)
REFUSED(fmi3GetNumberOfContinuousStates, size_t *n)
"""
