"""FMU export: the exported stepper behind the interface of FMI 2.0 for co-simulation, compiled for this machine."""

from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from saltus.compile.statements import C, literal
from saltus.compile.toolchain import find_compiler
from saltus.errors import BadValue, NoCompiler
from saltus.files.code.c_library import header, source
from saltus.files.code.routines import Machine
from saltus.files.xml.tree import Element
from saltus.sealed import put

SYSTEMS = {"Linux": ("linux", ".so"), "Darwin": ("darwin", ".dylib"), "Windows": ("win", ".dll")}


def export_fmu(exported: Machine, directory: Path) -> Path:
    """Write NAME.fmu: Params are parameters, inputs (if no controller) inputs, q, v, commands and domain outputs."""
    compiler = find_compiler()
    if compiler is None:
        raise NoCompiler("an FMU holds machine code and there is no C compiler; install gcc or clang, or export to C")
    name, variables = exported.name, _variables(exported)
    texts = {
        f"{name}.h": header(exported, {}),
        f"{name}.c": source(exported, {}),
        "fmu.c": _wrapper(exported, variables),
    }
    guid = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:32]
    texts["fmu.c"] = texts["fmu.c"].replace("GUID", guid)
    if platform.system() not in SYSTEMS:
        raise BadValue(f"FMUs have no folder for {platform.system()!r}; export to C and build there")
    system, suffix = SYSTEMS[platform.system()]
    path = directory / f"{name}.fmu"
    with tempfile.TemporaryDirectory() as folder:
        for file, text in texts.items():
            (Path(folder) / file).write_text(text, encoding="ascii", errors="replace")
        library = Path(folder) / f"{name}{suffix}"
        command = [
            compiler.path,
            "-O2",
            "-std=c99",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-o",
            str(library),
            f"{name}.c",
            "fmu.c",
            "-lm",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BadValue(f"the compiler refused the FMU's code: {done.stderr[:500]}")
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("modelDescription.xml", _description(exported, variables, guid))
            out.write(library, f"binaries/{system}64/{name}{suffix}")
            for file in texts:
                out.write(Path(folder) / file, f"sources/{file}")
        put(path, whole.getvalue())
    return path


def _variables(exported: Machine) -> list[tuple[str, str, float | None]]:
    """Name, causality and start value of every variable; the number of a variable is its reference."""
    m = exported.mechanism
    out: list[tuple[str, str, float | None]] = [
        (f"param.{n}", "parameter", float(x)) for n, x in zip(m.params, exported.params, strict=True)
    ]
    if exported.takes_inputs:
        out += [(f"input.{n}", "input", 0.0) for n in m.inputs]
    out += [(f"q.{n}", "output", None) for n in m.q_names] + [(f"v.{n}", "output", None) for n in m.v_names]
    if not exported.takes_inputs:
        out += [(f"command.{n}", "output", None) for n in m.inputs]
    return [*out, ("domain", "output", None)]


def _description(exported: Machine, variables: list[tuple[str, str, float | None]], guid: str) -> str:
    root = Element(
        "fmiModelDescription",
        {
            "fmiVersion": "2.0",
            "modelName": exported.mechanism.name,
            "guid": guid,
            "generationTool": "Saltus",
            "variableNamingConvention": "flat",
            "numberOfEventIndicators": "0",
        },
    )
    root.add(
        "CoSimulation",
        modelIdentifier=exported.name,
        canHandleVariableCommunicationStepSize="true",
        canInterpolateInputs="false",
        canBeInstantiatedOnlyOncePerProcess="false",
        canGetAndSetFMUstate="false",
    )
    root.add("DefaultExperiment", startTime="0", stopTime="1", stepSize="0.001")
    listed = root.add("ModelVariables")
    outputs = []
    for i, (name, causality, start) in enumerate(variables):
        kind = "Integer" if name == "domain" else "Real"
        variability = {"parameter": "fixed", "input": "continuous"}.get(
            causality, "discrete" if kind == "Integer" else "continuous"
        )
        tag = listed.add(
            "ScalarVariable", name=name, valueReference=str(i), causality=causality, variability=variability
        )
        tag.add(kind, start=None if start is None else repr(start))
        if causality == "output":
            outputs.append(i + 1)
    structure = root.add("ModelStructure")
    for part in ("Outputs", "InitialUnknowns"):
        place = structure.add(part)
        for i in outputs:
            place.add("Unknown", index=str(i))
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', *root.lines()]) + "\n"


def _wrapper(exported: Machine, variables: list[tuple[str, str, float | None]]) -> str:
    m, s = exported.mechanism, exported.start
    kinds = [v[1] for v in variables]
    n_params, n_inputs = kinds.count("parameter"), kinds.count("input")
    n_commands = 0 if exported.takes_inputs else len(m.inputs)

    def array(values: Any) -> str:
        return ", ".join(literal(float(x), C) for x in values) or "0.0"

    text = WRAPPER.replace("NAME", exported.name).replace("UPPER", exported.name.upper())
    for key, value in {
        "@Q@": array(s.positions),
        "@V@": array(s.velocities),
        "@NP@": str(n_params),
        "@NI@": str(n_inputs),
        "@NQ@": str(len(m.q_names)),
        "@NV@": str(len(m.v_names)),
        "@NC@": str(n_commands),
        "@FIRST@": str(exported.index(exported.first)),
    }.items():
        text = text.replace(key, value)
    return text


WRAPPER = """/* The stepper of NAME behind FMI 2.0 for co-simulation. Written by Saltus. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "NAME.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

typedef void *component;
typedef unsigned int reference;
typedef enum { ok, warning, discard, error, fatal, pending } status;
enum { n_params = @NP@, n_inputs = @NI@, n_q = @NQ@, n_v = @NV@, n_commands = @NC@,
       at_inputs = n_params, at_q = at_inputs + n_inputs, at_v = at_q + n_q, at_commands = at_v + n_v,
       at_domain = at_commands + n_commands };

typedef struct {
  NAME_state state;
  double params[n_params + 1], inputs[n_inputs + UPPER_NU + 1], begin;
  int running;
} instance;

static const double start_q[] = {@Q@}, start_v[] = {@V@};

static void restart(instance *i) {
  NAME_start(&i->state, @FIRST@, i->begin, start_q, start_v, i->params);
}

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }

EXPORT component fmi2Instantiate(const char *name, int type, const char *guid, const char *resources,
                                 const void *callbacks, int visible, int logging) {
  instance *i;
  (void)name; (void)resources; (void)callbacks; (void)visible; (void)logging;
  if (type != 1 || !guid || strcmp(guid, "GUID") != 0) return NULL;
  i = calloc(1, sizeof *i);
  if (!i) return NULL;
  memcpy(i->params, NAME_params, n_params * sizeof(double));
  restart(i);
  return i;
}

EXPORT void fmi2FreeInstance(component c) { free(c); }
EXPORT status fmi2SetDebugLogging(component c, int on, size_t n, const char *const categories[]) {
  (void)c; (void)on; (void)n; (void)categories;
  return ok;
}
EXPORT status fmi2SetupExperiment(component c, int tolerance_given, double tolerance, double start, int stop_given,
                                  double stop) {
  (void)tolerance_given; (void)tolerance; (void)stop_given; (void)stop;
  ((instance *)c)->begin = start;
  return ok;
}
EXPORT status fmi2EnterInitializationMode(component c) {
  restart(c);
  return ok;
}
EXPORT status fmi2ExitInitializationMode(component c) {
  restart(c);
  ((instance *)c)->running = 1;
  return ok;
}
EXPORT status fmi2Terminate(component c) {
  (void)c;
  return ok;
}
EXPORT status fmi2Reset(component c) {
  instance *i = c;
  memset(i, 0, sizeof *i);
  memcpy(i->params, NAME_params, n_params * sizeof(double));
  restart(i);
  return ok;
}

EXPORT status fmi2GetReal(component c, const reference r[], size_t n, double out[]) {
  instance *i = c;
  double v[n_v], u[n_commands + UPPER_NU + 1];
  size_t k;
  NAME_velocity(&i->state, v);
  NAME_command(&i->state, u);
  for (k = 0; k < n; ++k) {
    const int x = (int)r[k];
    if (x < at_inputs) out[k] = i->params[x];
    else if (x < at_q) out[k] = i->inputs[x - at_inputs];
    else if (x < at_v) out[k] = i->state.x[x - at_q];
    else if (x < at_commands) out[k] = v[x - at_v];
    else if (x < at_domain) out[k] = u[x - at_commands];
    else return error;
  }
  return ok;
}
EXPORT status fmi2SetReal(component c, const reference r[], size_t n, const double in[]) {
  instance *i = c;
  size_t k;
  for (k = 0; k < n; ++k) {
    const int x = (int)r[k];
    if (x < at_inputs && !i->running) i->params[x] = in[k];
    else if (x >= at_inputs && x < at_q) i->inputs[x - at_inputs] = in[k];
    else return error;
  }
  return ok;
}
EXPORT status fmi2GetInteger(component c, const reference r[], size_t n, int out[]) {
  size_t k;
  for (k = 0; k < n; ++k) {
    if ((int)r[k] != at_domain) return error;
    out[k] = ((instance *)c)->state.domain;
  }
  return ok;
}
EXPORT status fmi2DoStep(component c, double t, double h, int keep) {
  instance *i = c;
  const int steps = (int)ceil(h / UPPER_STABLE_STEP - 1e-9) > 1 ? (int)ceil(h / UPPER_STABLE_STEP - 1e-9) : 1;
  int k;
  (void)t; (void)keep;
  for (k = 0; k < steps; ++k) {
    if (i->state.ended) return discard;
    if (NAME_step(&i->state, h / steps, i->inputs) < 0) return error;
  }
  return ok;
}

/* What this FMU has no variables or no state for. */
EXPORT status fmi2SetInteger(component c, const reference r[], size_t n, const int in[]) {
  (void)c; (void)r; (void)in;
  return n ? error : ok;
}
EXPORT status fmi2GetBoolean(component c, const reference r[], size_t n, int out[]) {
  (void)c; (void)r; (void)out;
  return n ? error : ok;
}
EXPORT status fmi2SetBoolean(component c, const reference r[], size_t n, const int in[]) {
  (void)c; (void)r; (void)in;
  return n ? error : ok;
}
EXPORT status fmi2GetString(component c, const reference r[], size_t n, const char *out[]) {
  (void)c; (void)r; (void)out;
  return n ? error : ok;
}
EXPORT status fmi2SetString(component c, const reference r[], size_t n, const char *const in[]) {
  (void)c; (void)r; (void)in;
  return n ? error : ok;
}
EXPORT status fmi2GetFMUstate(component c, void **s) { (void)c; (void)s; return error; }
EXPORT status fmi2SetFMUstate(component c, void *s) { (void)c; (void)s; return error; }
EXPORT status fmi2FreeFMUstate(component c, void **s) { (void)c; (void)s; return error; }
EXPORT status fmi2SerializedFMUstateSize(component c, void *s, size_t *n) { (void)c; (void)s; (void)n; return error; }
EXPORT status fmi2SerializeFMUstate(component c, void *s, char b[], size_t n) {
  (void)c; (void)s; (void)b; (void)n;
  return error;
}
EXPORT status fmi2DeSerializeFMUstate(component c, const char b[], size_t n, void **s) {
  (void)c; (void)b; (void)n; (void)s;
  return error;
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
