"""Machines by name. What the user types may name a file; what a data file says may only name a machine of the zoo."""

from __future__ import annotations

import functools
import importlib
import inspect
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from saltus.errors import BadValue, SaltusError, UnknownName

MODEL = "A machine of `saltus zoo`, a model file (MJCF, URDF and SDF too), or a Python file that defines `system`."
MODEL_FILES = (".yaml", ".yml", ".json", ".xml", ".mjcf", ".urdf", ".sdf", ".world", ".xacro")
READING: dict[str, tuple[Any, Any]] = {  # options of `sl.read` for model files, with their defaults
    "partial": (
        Annotated[bool, typer.Option("--partial", help="Leave out what a foreign file and Saltus cannot share.")],
        False,
    ),
    "base": (Annotated[str | None, typer.Option(help="fixed or free: what holds the root of a URDF or SDF.")], None),
    "closing": (Annotated[float, typer.Option(help="How far loops may stay open (m), for rounded files.")], 0.0),
    "repair": (
        Annotated[bool, typer.Option("--repair", help="Move the ends of rounded loops until they close.")],
        False,
    ),
    "contacts": (
        Annotated[bool, typer.Option("--contacts", help="Let limits, dry friction and shapes of a foreign file act.")],
        False,
    ),
}


@dataclass
class Model:
    """What a run needs: the system and what its maker suggests for it."""

    name: str
    system: Any
    start: Any = None
    control: Any = None
    domain: str | None = None
    until: float | None = None
    ground: Any = None
    run: Any = None
    keyframe: str | None = None

    def begin(self, keyframe: str | None = None, params: Mapping[str, float] | None = None) -> tuple[Any, str]:
        """State to start from, and its name: the keyframe asked for, the file's own start, or the last keyframe."""
        m = self.system.mechanism
        m.values(params)  # refuses unknown names before anything else does
        if keyframe is None and self.start is not None:
            return self.start, "start of the file"
        name = keyframe or self.keyframe or next(reversed(m.keyframes), None)
        return (m.assemble(params=params), "zero angles") if name is None else (m.keyframe(name, params=params), name)

    @property
    def felt(self) -> Any:
        """What is simulated: a machine whose contacts happen by themselves, or a graph of domains."""
        return self.system if self.system.terrain is None else self.system.mechanism


def machines() -> dict[str, Callable[..., Any]]:
    """Every machine of the zoo by the name the command line gives it."""
    zoo = importlib.import_module("saltus.zoo")
    return {name.replace("_", "-"): getattr(zoo, name) for name in zoo.__all__}


def reads(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options with which model files are read; it gets them together as `reading`."""
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def wrapper(**given: Any) -> Any:
        return command(**{n: x for n, x in given.items() if n not in READING}, reading={n: given[n] for n in READING})

    plain = [p for n, p in own.parameters.items() if n != "reading"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(n, keyword, default=usual, annotation=a) for n, (a, usual) in READING.items()]
    wrapper.__signature__ = own.replace(parameters=[*(p.replace(kind=keyword) for p in plain), *more])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in (*plain, *more)}
    return wrapper


def resolve(name: str, *, typed: bool, reading: Mapping[str, Any] | None = None) -> Model:
    """Return the machine of a name: of the zoo, and where the user `typed` it also of a model file or a Python file.

    A Python file is run. So this is the only function that turns names into machines, and it has two callers:
    `model_of`, with what stands on the command line, and `saved`, with the name that a data file gives.
    """
    if typed and is_file(name):
        return _from_python(Path(name)) if name.endswith(".py") else _from_model_file(Path(name), reading or {})
    known, spelt = machines(), name.replace("_", "-")
    if spelt not in known:
        raise UnknownName("machine", name, [*known, *(("FILE.py", "FILE.saltus.yaml") if typed else ())])
    return Model(spelt, _as_system(known[spelt]()))


def model_of(text: str, reading: Mapping[str, Any] | None = None) -> Model:
    """Return the machine of a zoo name, of a model file, or of a Python file that defines `system`, which is run."""
    return resolve(text, typed=True, reading=reading)


def saved(file: Path, source: str | None = None, reading: Mapping[str, Any] | None = None) -> Model:
    """The machine of a saved run, with the run: that of `source`, typed by the user, or the zoo's of the run's name."""
    import saltus as sl

    if not file.is_file():
        raise BadValue(f"{file} is no saved run; give a run.nc, or the directory it is in")
    run = sl.read(file)
    if not isinstance(run, sl.Trajectory):
        raise BadValue(f"{file} is no saved run; give a run.nc, or the directory it is in")
    name = run.meta["name"]
    try:
        model = (
            model_of(source, reading) if source is not None else resolve(name.lower().replace(" ", "-"), typed=False)
        )
    except SaltusError as problem:
        if source is not None:
            raise
        raise BadValue(
            f"the run is of {name!r}, which is not in the zoo; say what it was made from with --model FILE"
        ) from problem
    if list(model.system.mechanism.q_names) != list(run.meta["q_names"]):
        raise BadValue(f"{model.name} has other coordinates than the run of {name!r}; give --model FILE")
    run.mechanism = model.system.mechanism
    model.run = run
    return model


def run_file(path: Path) -> Path | None:
    """The file of a saved run: a .nc file, or the run.nc of a directory; None if it is something else."""
    file = path / "run.nc" if path.is_dir() else path
    return file if file.suffix == ".nc" else None


def is_file(text: str) -> bool:
    """Whether a model is named by a file, not by a name of the zoo."""
    return text.endswith((*MODEL_FILES, ".py")) or "/" in text


def check_name(text: str) -> None:
    """Refuse a model that does not exist, without building it."""
    if is_file(text):
        _existing(Path(text))
    elif text.replace("_", "-") not in machines():
        raise UnknownName("machine", text, [*machines(), "FILE.py", "FILE.saltus.yaml"])


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise BadValue(f"{path} is no file; give a name of `saltus zoo` or a file that defines a machine")
    return path


def _from_model_file(path: Path, reading: Mapping[str, Any]) -> Model:
    import saltus as sl
    from saltus.files.model_file import ModelFile

    found = sl.read(_existing(path), **reading)
    if not isinstance(found, ModelFile):
        raise BadValue(f"{path} holds no machine; give a model file, a Python file or a name of `saltus zoo`")
    name = path.name.split(".")[0]
    system = _as_system(found.system, found.ground)
    given = {n: getattr(found, n) for n in ("control", "domain", "until", "ground", "keyframe")}
    return Model(name, system, **given)


def _from_python(path: Path) -> Model:
    try:
        found = runpy.run_path(str(_existing(path)), run_name="saltus_model")
    except SaltusError:
        raise
    except Exception as problem:
        raise BadValue(f"{path} cannot be run: {type(problem).__name__}: {problem}") from problem
    if "system" not in found:
        raise BadValue(f"{path} defines no `system`; assign a sl.HybridSystem or a sl.Mechanism to that name")
    system = _as_system(found["system"])
    return Model(path.stem, system, *(found.get(n) for n in ("start", "control", "domain", "until")))


def _as_system(thing: Any, ground: Any = None) -> Any:
    from saltus import HybridSystem, Mechanism

    if isinstance(thing, HybridSystem):
        return thing
    if isinstance(thing, Mechanism):
        return HybridSystem.alone(thing, ground)
    raise BadValue(f"`system` is a {type(thing).__name__}; it must be a sl.HybridSystem or a sl.Mechanism")
