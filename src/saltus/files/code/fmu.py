"""FMU export: the exported stepper behind FMI 2.0 or 3.0 for co-simulation, compiled for this machine."""

from __future__ import annotations

import hashlib
import io
import platform
import re
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saltus.compile.statements import C, literal
from saltus.compile.toolchain import find_compiler
from saltus.errors import BadValue, NoCompiler
from saltus.files.code.c_fmi import CORE, FMI2, FMI3
from saltus.files.code.c_library import comment, library
from saltus.files.code.routines import Machine
from saltus.files.xml.tree import Element
from saltus.sealed import put

SYSTEMS = {"Linux": ("linux", ".so"), "Darwin": ("darwin", ".dylib"), "Windows": ("windows", ".dll")}
PROCESSORS = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Variable:
    """A variable of the model description; its number is its reference."""

    name: str
    causality: str
    start: float | None = None
    initial: str | None = None

    @property
    def variability(self) -> str:
        """How it may change."""
        return "fixed" if self.causality == "parameter" else "discrete" if self.name == "domain" else "continuous"


def export_fmu(exported: Machine, directory: Path, fmi: int = 2) -> Path:
    """Write NAME.fmu: Params are parameters, inputs (if no controller) inputs, q, v, commands and domain outputs.

    Positions and velocities can be set before and during initialization; the loops are then closed with those held.
    """
    compiler = find_compiler()
    if compiler is None:
        raise NoCompiler("an FMU holds machine code and there is no C compiler; install gcc or clang, or export to C")
    if fmi not in (2, 3):
        raise BadValue(f"fmi is {fmi!r}; give 2 or 3, the version of the interface", given=fmi)
    if platform.system() not in SYSTEMS or platform.machine() not in PROCESSORS:
        raise BadValue(
            f"FMUs have no folder for {platform.system()!r} on {platform.machine()!r}; export to C and build there"
        )
    name, variables = exported.name, _variables(exported)
    texts = library(exported, {}) | {"fmu.c": _wrapper(exported, variables) + (FMI2 if fmi == 2 else FMI3)}
    guid = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:32]
    texts["fmu.c"] = texts["fmu.c"].replace("GUID", guid)
    system, suffix = SYSTEMS[platform.system()]
    folders = {2: f"{system[:3] if system == 'windows' else system}64", 3: f"{PROCESSORS[platform.machine()]}-{system}"}
    path = directory / f"{name}.fmu"
    with tempfile.TemporaryDirectory() as folder:
        for file, text in texts.items():
            (Path(folder) / file).write_text(text, encoding="ascii", errors="replace")
        built = Path(folder) / f"{name}{suffix}"
        flags = ["-O2", "-std=c99", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(built)]
        command = [compiler.path, *flags, f"{name}.c", "fmu.c", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BadValue(f"the compiler refused the FMU's code: {done.stderr[:500]}")
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as out:
            described = _description2 if fmi == 2 else _description3
            out.writestr("modelDescription.xml", described(exported, variables, guid))
            out.write(built, f"binaries/{folders[fmi]}/{name}{suffix}")
            for file in texts:
                out.write(Path(folder) / file, f"sources/{file}")
        put(path, whole.getvalue())
    return path


def _variables(exported: Machine) -> list[Variable]:
    """Every variable, in the order of the wrapper."""
    m, s = exported.mechanism, exported.start
    initial = "approx" if exported.loops.rows else "exact"  # loops move what was not set
    out = [Variable(f"param.{n}", "parameter", float(x)) for n, x in zip(m.params, exported.params, strict=True)]
    if exported.takes_inputs:
        out += [Variable(f"input.{n}", "input", 0.0) for n in m.inputs]
    for letter, names, values in (("q", m.q_names, s.positions), ("v", m.v_names, s.velocities)):
        out += [Variable(f"{letter}.{n}", "output", float(x), initial) for n, x in zip(names, values, strict=True)]
    if not exported.takes_inputs:
        out += [Variable(f"command.{n}", "output") for n in m.inputs]
    return [*out, Variable("domain", "output")]


def _root(exported: Machine, guid: str, version: str, token: str) -> Element:
    return Element(
        "fmiModelDescription",
        {
            "fmiVersion": version,
            "modelName": exported.mechanism.name,
            token: guid,
            "generationTool": "Saltus",
            "variableNamingConvention": "flat",
        },
    )


def _written(root: Element) -> str:
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', *root.lines()]) + "\n"


def _description2(exported: Machine, variables: list[Variable], guid: str) -> str:
    root = _root(exported, guid, "2.0", "guid")
    root.attributes["numberOfEventIndicators"] = "0"
    root.add(
        "CoSimulation",
        modelIdentifier=exported.name,
        canHandleVariableCommunicationStepSize="true",
        canInterpolateInputs="false",
        canBeInstantiatedOnlyOncePerProcess="false",
        canGetAndSetFMUstate="true",
        canSerializeFMUstate="true",
    )
    root.add("DefaultExperiment", startTime="0", stopTime="1", stepSize="0.001")
    listed = root.add("ModelVariables")
    for i, x in enumerate(variables):
        about = {"name": x.name, "valueReference": str(i), "causality": x.causality, "variability": x.variability}
        tag = listed.add("ScalarVariable", **about, initial=x.initial)
        tag.add("Integer" if x.name == "domain" else "Real", start=None if x.start is None else repr(x.start))
    structure, outputs = root.add("ModelStructure"), [i for i, x in enumerate(variables) if x.causality == "output"]
    for part, which in (
        ("Outputs", outputs),
        ("InitialUnknowns", [i for i in outputs if variables[i].initial != "exact"]),
    ):
        place = structure.add(part)
        for i in which:
            place.add("Unknown", index=str(i + 1))
    return _written(root)


def _description3(exported: Machine, variables: list[Variable], guid: str) -> str:
    root = _root(exported, guid, "3.0", "instantiationToken")
    root.add(
        "CoSimulation",
        modelIdentifier=exported.name,
        canGetAndSetFMUState="true",
        canSerializeFMUState="true",
        canHandleVariableCommunicationStepSize="true",
    )
    root.add("DefaultExperiment", startTime="0", stopTime="1", stepSize="0.001")
    listed = root.add("ModelVariables")
    for i, x in enumerate(variables):
        about = {"name": x.name, "valueReference": str(i), "causality": x.causality, "variability": x.variability}
        kind = "Int32" if x.name == "domain" else "Float64"
        listed.add(kind, **about, initial=x.initial, start=None if x.start is None else repr(x.start))
    listed.add(
        "Float64", name="time", valueReference=str(len(variables)), causality="independent", variability="continuous"
    )
    structure = root.add("ModelStructure")
    outputs = [i for i, x in enumerate(variables) if x.causality == "output"]
    for i in outputs:
        structure.add("Output", valueReference=str(i))
    for i in outputs:
        if variables[i].initial != "exact":
            structure.add("InitialUnknown", valueReference=str(i))
    return _written(root)


def _wrapper(exported: Machine, variables: list[Variable]) -> str:
    m, s = exported.mechanism, exported.start
    kinds = [x.causality for x in variables]
    n_params, n_inputs = kinds.count("parameter"), kinds.count("input")
    n_commands = 0 if exported.takes_inputs else len(m.inputs)
    moved = exported.moved_by

    def listed(values: Any) -> str:
        return ", ".join(map(str, values)) or "0"

    text = CORE.replace("NAME", exported.name).replace("UPPER", exported.name.upper())
    for key, value in {
        "@Q@": listed(literal(float(x), C) for x in s.positions),
        "@V@": listed(literal(float(x), C) for x in s.velocities),
        "@Q_LABELS@": listed('"' + re.sub('["%]', "'", comment(n)) + '"' for n in m.q_names),
        "@Q_OF_V@": listed(next(i for i, own in enumerate(moved) if j in own) for j in range(len(m.v_names))),
        "@LOOPS@": str(int(bool(exported.loops.rows))),
        "@NP@": str(n_params),
        "@NI@": str(n_inputs),
        "@NQ@": str(len(m.q_names)),
        "@NV@": str(len(m.v_names)),
        "@NC@": str(n_commands),
        "@FIRST@": str(exported.index(exported.first)),
    }.items():
        text = text.replace(key, value)
    return text
