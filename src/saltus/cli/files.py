"""Commands for machines and their files: zoo, new, check, export."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from saltus.cli.console import check_directory, check_file, drawing, out
from saltus.cli.machines import MODEL, machines, model_of, reads
from saltus.cli.running import control_of
from saltus.errors import BadValue, SaltusError, UnknownName

TARGETS = ("c", "fmu", "numpy", "mjcf", "urdf", "yaml", "json")


def zoo() -> None:
    """List the machines that come along."""
    from saltus import HybridSystem

    table = Table(box=None, pad_edge=False)
    for column in ("name", "what it is", "runs"):
        table.add_column(column, style="cyan" if column == "name" else None)
    for name, make in machines().items():
        text = inspect.getdoc(make) or ""
        machine = make()
        kind = ", ".join(machine.domains) if isinstance(machine, HybridSystem) else "linkage"
        table.add_row(escape(name), escape(text.splitlines()[0] if text else ""), escape(kind))
    out.print(table)


@reads
def new(
    name: Annotated[str, typer.Argument(help="Name of the machine; the file is NAME.saltus.yaml.")],
    kind: Annotated[
        str, typer.Option(help="hopper: one leg with a loop; biped: two legs, stops and shared formulas.")
    ] = "hopper",
    robot: Annotated[
        Path | None,
        typer.Option("--from", help="A robot to start from instead: URDF, MJCF, SDF or another model file."),
    ] = None,
    directory: Annotated[Path, typer.Option("--out", help="Directory of the file.")] = Path("."),
    reading: Any = None,
) -> None:
    """Write a file to start from: a hopper, a biped, or a robot that comes as URDF, MJCF or SDF."""
    from saltus.files.model.template import KINDS, template

    if kind not in KINDS:
        raise UnknownName("kind of machine", kind, KINDS)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_ -]*", name):
        raise BadValue(f"name {name!r}: use letters, digits, spaces, - and _", given=name)
    path = directory / f"{name.replace(' ', '_')}.saltus.yaml"
    if path.exists():
        raise BadValue(f"{path} exists already; choose another name", path=str(path))
    check_directory(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if robot is not None:
        _convert(robot, path, {**reading, "partial": True})
    else:
        path.write_text(template(name, kind), encoding="utf-8")
    out.print(f"Wrote {escape(str(path))}. Next: saltus check {escape(str(path))}", soft_wrap=True)


def _convert(robot: Path, path: Path, reading: dict[str, Any]) -> None:
    """Write a robot's file as a model file, and say what it held beyond Saltus."""
    import saltus as sl
    from saltus.files.model_file import ModelFile

    model = sl.read(robot, **reading)
    if not isinstance(model, ModelFile):
        raise BadValue(f"{robot} holds no robot; give a URDF, an MJCF, an SDF or a model file")
    for note in model.notes:
        out.print(f"[yellow]left out[/]: {escape(note)}", soft_wrap=True)
    sl.write(model, path)


@reads
def check(
    file: Annotated[Path, typer.Argument(help="A model file: .saltus.yaml, .json, MJCF, URDF or SDF.")],
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where to draw it.", show_default="beside the file")
    ] = None,
    draw: Annotated[bool, typer.Option(help="Draw the first configuration.")] = True,
    reading: Any = None,
) -> None:
    """Assemble a model file and say what it holds: links, joints, loops, freedom, motions, feet, start; draw it."""
    import saltus as sl
    from saltus.files.model_file import ModelFile

    target = picture or file.with_suffix("").with_suffix(".svg")
    if draw:
        check_file(target)
    model = sl.read(file, **reading)
    if not isinstance(model, ModelFile):
        raise BadValue(f"{file} holds no machine; give a model file (.saltus.yaml, .json, MJCF, URDF or SDF)")
    m = model.mechanism
    closing = [*(j.name for j in m.loops), *m.constraints]
    moving = len(m.placements) - sum(p.joint.kind == "weld" for p in m.placements)
    rows = [
        ("machine", f"{m.name}: {len(m.links) - 1} links, {len(m.joints)} joints, {len(m.params)} Params"),
        ("tree", f"{moving} joints that move, {len(m.v_names)} velocities"),
        ("coordinates", _listed(m.q_names)),
        ("loops closed by", f"{len(closing)}: {_listed(closing)}" if closing else "nothing: the machine is a tree"),
        ("inputs", f"{len(m.inputs)}: {_listed(m.inputs)}" if m.inputs else "none"),
        ("forces", f"{len(m.forces)}: {_listed(m.forces)}" if m.forces else "none"),
        ("may touch", f"{len(m.touching)}: {_listed(m.touching)}" if m.touching else "nothing"),
    ]
    if model.ground is not None:
        rows.append(("ground", repr(model.ground)))
    if model.system.controls:
        rows.append(("controllers", f"{len(model.system.controls)}: {_listed(model.system.controls)}"))
    if model.keyframe is not None:
        rows.append(("starts from", model.keyframe))
    rows += [("note", note) for note in model.notes]
    states: dict[str, Any] = {}
    for name in m.keyframes:
        states[name] = m.keyframe(name)
    if not states:
        states["zero angles"] = m.assemble()
    for name, state in states.items():
        rows.append((f"at {name!r}", f"{state.mobility()}; largest gap {state.gap:.1e} m"))
    first = next(iter(states.values()))
    rows.append(("branches", _branches(m, first)))
    if isinstance(model.system, sl.HybridSystem):
        system = model.system
        edges = [f"{e.source.name} -> {e.target.name if e.target else 'end'} ({e.name})" for e in system.edges]
        rows.append(("domains", f"{', '.join(system.domains)}; {', '.join(edges) or 'no edges'}"))
        rows += [("look at", x) for x in system.check(next(iter(system.domains.values())))]
    for name, text in rows:
        out.print(f"[cyan]{escape(name)}[/]: {escape(text)}", soft_wrap=True)
    if draw:
        from saltus import view

        with drawing():
            view.save(view.plot_machine(first), target.with_suffix(""), (target.suffix[1:] or "svg",))
            out.print(f"Drawn: {escape(str(target))}", soft_wrap=True)


def _listed(names: Any, most: int = 40) -> str:
    """Names, the first of them where there are many."""
    found = list(names)
    return ", ".join(found[:most]) + (f", and {len(found) - most} more" if len(found) > most else "")


def _branches(mechanism: Any, state: Any) -> str:
    """How many ways there are to close the loops with the freedom of the first configuration held."""
    if not mechanism.loops:
        return "one: no loops"
    motors = [n for j in mechanism.joints.values() if j.motor for n in j.q_names if n in mechanism.q_names]
    freedom = state.mobility().freedom
    slides = [n for p in mechanism.placements if p.joint.kind != "revolute" for n in p.joint.q_names]
    held = [n for n in dict.fromkeys([*motors, *slides]) if n in mechanism.q_names][:freedom]
    if len(held) != freedom:
        return f"not counted: {freedom} coordinate(s) must be held and the machine has {len(held)} motors and slides"
    try:
        found = mechanism.branches(**{n: float(state.q[n]) for n in held})
    except SaltusError as problem:
        return f"not counted: {problem}"
    return f"{len(found)} way(s) to close the loops with {', '.join(held)} held as at the first configuration"


@reads
def export(
    model: Annotated[str, typer.Argument(help=MODEL)],
    to: Annotated[
        str,
        typer.Option(
            help="c (C99 with self-test and example), fmu (co-simulation), numpy (a Python module), mjcf, "
            "urdf, yaml or json (model files)."
        ),
    ],
    directory: Annotated[Path, typer.Option("--out", help="Directory to write to.")] = Path("."),
    start: Annotated[
        str | None, typer.Option(help="Keyframe that it starts from.", show_default="the file's, or the last")
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="Controller to write along, or none.", show_default="the file's, or the first")
    ] = None,
    fmi: Annotated[int, typer.Option(help="Version of the interface of an FMU, 2 or 3.")] = 2,
    reading: Any = None,
) -> None:
    """Write a machine as C, FMU, NumPy code, MJCF, URDF or a model file."""
    import saltus as sl

    if to not in TARGETS:
        raise UnknownName("export", to, TARGETS)
    check_directory(directory)
    found = model_of(model, reading)
    directory.mkdir(parents=True, exist_ok=True)
    if to in ("c", "fmu", "numpy"):
        law, _ = control_of(found, control)
        begin, _ = found.begin(start)
        written = sl.export(found.system, directory, to=to, start=begin, control=law, domain=found.domain, fmi=fmi)
    else:
        suffix = {"mjcf": ".xml", "urdf": ".urdf"}.get(to, f".saltus.{to}")
        stem = re.sub(r"\W+", "_", found.name)
        law, _ = control_of(found, control)
        named = next((n for n, c in found.system.controls.items() if c is law), None)
        run = {"start": start or found.keyframe, "control": named, "domain": found.domain, "until": found.until}
        path = directory / f"{stem}{suffix}"
        written = [sl.write(found.system, path, partial=reading["partial"], **(run if to in ("yaml", "json") else {}))]
    for path in written:
        out.print(escape(str(path)), soft_wrap=True)
    if to == "c":
        from saltus.files.code.c_library import build_line

        name = next(path.stem for path in written if path.suffix == ".h")
        out.print(f"Build and run: cd {escape(str(directory))} && {build_line(name)}", soft_wrap=True)
