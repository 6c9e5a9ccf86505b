"""Model files: read and write a machine as .saltus.yaml, .json, MJCF or URDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from saltus.errors import BadFile, BadModel, BadValue, UnknownName
from saltus.files.model import documents
from saltus.files.model.reading import Builder
from saltus.files.model.recording import Recorder
from saltus.files.model.writing import ground_data, model_data
from saltus.files.xml.contacts import let_touch
from saltus.files.xml.found import Kept
from saltus.files.xml.repair import repaired
from saltus.ground import Ground
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.guards import When
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.simulation.asked import ground_of

XML = (".xml", ".mjcf", ".urdf", ".sdf", ".world", ".xacro")


@dataclass(frozen=True)
class Held:
    """A law that holds its inputs, as a keyframe's `ctrl` says."""

    values: dict[str, float]

    def __call__(self, t: Any, s: Any) -> dict[str, float]:
        """The inputs, whatever the state."""
        return self.values


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A machine from a file, and what the file says about running it.

    `system` is what `sl.simulate` takes: the HybridSystem, or the Mechanism where the file names no domains.
    `notes` lists by name and line what a foreign file holds and Saltus has no part for, then what was `kept` and
    does not act, and what was passed over. `commands` are the inputs a foreign file's keyframes hold, and its `control`
    holds those of the start; `ground` is what its feet meet, for `sl.simulate(..., ground=model.ground)`.
    """

    mechanism: Mechanism
    system: HybridSystem | Mechanism
    domain: str | None = None
    control: Any = None
    until: float | None = None
    keyframe: str | None = None
    notes: tuple[str, ...] = ()
    kept: Any = None
    ground: Ground | None = None
    commands: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def start(self) -> State | None:
        """The configuration runs start from, assembled: the file's own, or its last keyframe."""
        names = list(self.mechanism.keyframes)
        name = self.keyframe or (names[-1] if names else None)
        return None if name is None else self.mechanism.keyframe(name)


def read_model(
    path: str | Path,
    *,
    partial: bool = False,
    base: str | None = None,
    closing: float = 0.0,
    repair: bool = False,
    contacts: bool | Sequence[str] = False,
) -> ModelFile:
    """Read a model file: .yaml or .json of Saltus, or MJCF, URDF or SDF (.xml, .urdf, .sdf).

    BadFile says what is wrong with file, line and path. Opening a file never runs code. A foreign file with
    features Saltus has no part for is refused with their list; `partial` reads the rest and keeps the list. The root
    of a URDF or SDF stands still or floats by `base`, "fixed" or "free". `closing` (m) is what loops may leave open
    where the numbers of a file are rounded; `repair` moves the ends of loops by as little as closes them, and says so.
    `contacts` lets joint limits, dry friction and the shapes of the outermost links (or of those named) act.
    """
    path = Path(path)
    if path.suffix.lower() in XML:
        from saltus.files.xml.models import read_xml

        found = read_xml(path, partial, base)
        m, ground, said = found.mechanism, None, list[str]()
        m.closing = closing
        if repair:
            said += [f"{path}: {text}" for text in repaired(m, found.keyframe)]
        if contacts:
            ground, texts = let_touch(found, contacts)
            said += [f"{path}: {text}" for text in texts]
        notes = (*said, *found.left.notes(found.kept if not contacts else Kept()))
        held = found.commands.get(found.keyframe or "")
        return ModelFile(
            m,
            m,
            control=Held(held) if held else None,
            keyframe=found.keyframe,
            notes=notes,
            kept=found.kept,
            ground=ground,
            commands=found.commands,
        )
    if base is not None or repair or contacts:
        raise BadValue(
            "base, repair and contacts belong to MJCF, URDF and SDF; a file of Saltus says these things itself"
        )
    model = build(documents.read(path))
    model.mechanism.closing = closing
    return model


def build(document: documents.Document) -> ModelFile:
    """Build the machine of a document."""
    builder = Builder(document)
    m, entry = builder.mechanism(), builder.entry
    system = builder.system()
    _check_formulas(system, builder)
    ground = builder.ground() if "ground" in entry.model_fields_set else None
    model = ModelFile(m, system if entry.domains else m, ground=ground)
    if entry.run is not None:
        run = entry.run
        for path, name, valid in (
            ("start", run.start, m.keyframes),
            ("domain", run.domain, entry.domains),
            ("control", run.control, entry.controls),
        ):
            if name is not None and name not in valid:
                raise document.problem(("run", path), str(UnknownName(path, name, valid)))
        control = model.system.controls[run.control] if run.control else None
        with builder.at("run", "until"):
            until = None if run.until is None else float(builder.constant(run.until))
        model = replace(model, domain=run.domain, control=control, until=until, keyframe=run.start)
    return model


def _check_formulas(system: HybridSystem, builder: Builder) -> None:
    """Look up every name in guards and controllers now, not when a run comes to them."""
    first = next(iter(system.domains))
    for i, edge in enumerate(system.edges):
        with builder.at("edges", i):
            if isinstance(edge.guard, When):
                edge.guard.expression(Recorder(system, edge.source.name).signals)
            if hasattr(edge.reset, "function"):
                edge.reset.function(Recorder(system, "", forces=False).signals)
    for i, (_, guard) in enumerate(system.outcomes):
        with builder.at("ends", i):
            if isinstance(guard, When):
                guard.expression(Recorder(system, first).signals)
    for name, control in system.controls.items():
        with builder.at("controls", name):
            for domain in system.domains:
                control(system.mechanism.time, Recorder(system, domain, forces=False).signals)


def write_model(
    thing: Mechanism | HybridSystem | ModelFile,
    path: str | Path,
    *,
    start: str | None = None,
    domain: str | None = None,
    control: str | None = None,
    until: float | None = None,
    ground: Ground | float | None = None,
    partial: bool = False,
) -> Path:
    """Write a machine to a file by its suffix; `read_model` gives the same equations back.

    `start` (a keyframe), `domain`, `control`, `until` and `ground`, which its feet meet, are what `saltus run FILE`
    does by default. MJCF (.xml) and URDF (.urdf) hold the numbers of the default Params and refuse what they have no
    element for, by name; with `partial` that is left out and listed in a comment of the file.
    """
    path = Path(path)
    if isinstance(thing, ModelFile):
        start, domain, until = start or thing.keyframe, domain or thing.domain, until or thing.until
        if control is None:
            control = next((n for n, c in thing.system.controls.items() if c is thing.control), None)
        ground, thing = thing.ground if ground is None else ground, thing.system
    if not isinstance(thing, Mechanism | HybridSystem):
        raise BadValue(f"write_model takes a Mechanism, a HybridSystem or a ModelFile, not a {type(thing).__name__}")
    m = thing.mechanism if isinstance(thing, HybridSystem) else thing
    ground = None if ground is None else ground_of(thing, ground)
    if path.suffix.lower() in XML:
        from saltus.files.xml.models import write_xml

        if ground is not None and ground_data(ground, m.spatial):
            raise BadModel(
                f"{path}: {ground!r} has no element here: MJCF and URDF are written for level ground at 0; write "
                ".yaml, or leave ground= out and give it to sl.simulate",
                given=ground,
            )
        text = write_xml(thing, path.suffix.lower(), partial)
    else:
        data = model_data(thing, ground)
        for kind, name in (("keyframe", start), ("domain", domain), ("control", control)):
            known = data.get(f"{kind}s", {})
            if name is not None and name not in known:
                raise UnknownName(kind, name, known)
        run = {"start": start, "domain": domain, "control": control, "until": until}
        if any(x is not None for x in run.values()):
            data["run"] = {k: x for k, x in run.items() if x is not None}
        text = documents.text_of(data, path.suffix.lower())
    if not path.parent.is_dir():
        raise BadFile(f"{path.parent} is no directory; make it first", file=str(path))
    path.write_text(text, encoding="utf-8")
    return path
