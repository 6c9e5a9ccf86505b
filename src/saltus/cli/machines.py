"""Machines by name. What the user types may name a file; what a data file says may only name a machine of the zoo."""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saltus.errors import BadValue, SaltusError, UnknownName

MODEL_FILES = (".yaml", ".yml", ".json", ".xml", ".mjcf", ".urdf")


@dataclass
class Model:
    """What a run needs: the system and what its maker suggests for it."""

    name: str
    system: Any
    start: Any = None
    control: Any = None
    domain: str | None = None
    until: float | None = None
    run: Any = None


def machines() -> dict[str, Callable[..., Any]]:
    """Every machine of the zoo by the name the command line gives it."""
    zoo = importlib.import_module("saltus.zoo")
    return {name.replace("_", "-"): getattr(zoo, name) for name in zoo.__all__}


def resolve(name: str, *, typed: bool) -> Model:
    """Return the machine of a name: of the zoo, and where the user `typed` it also of a model file or a Python file.

    A Python file is run. So this is the only function that turns names into machines, and it has two callers:
    `model_of`, with what stands on the command line, and `saved`, with the name that a data file gives.
    """
    if typed and is_file(name):
        return _from_python(Path(name)) if name.endswith(".py") else _from_model_file(Path(name))
    known, spelt = machines(), name.replace("_", "-")
    if spelt not in known:
        raise UnknownName("machine", name, [*known, *(("FILE.py", "FILE.saltus.yaml") if typed else ())])
    return Model(spelt, _as_system(known[spelt]()))


def model_of(text: str) -> Model:
    """Return the machine of a zoo name, of a model file, or of a Python file that defines `system`, which is run."""
    return resolve(text, typed=True)


def saved(file: Path, source: str | None = None) -> Model:
    """The machine of a saved run, with the run: that of `source`, typed by the user, or the zoo's of the run's name."""
    import saltus as sl

    if not file.is_file():
        raise BadValue(f"{file} is no saved run; give a run.nc, or the directory it is in")
    run = sl.read(file)
    if not isinstance(run, sl.Trajectory):
        raise BadValue(f"{file} is no saved run; give a run.nc, or the directory it is in")
    name = run.meta["name"]
    try:
        model = model_of(source) if source is not None else resolve(name.lower().replace(" ", "-"), typed=False)
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


def _from_model_file(path: Path) -> Model:
    import saltus as sl
    from saltus.files.model_file import ModelFile

    found = sl.read(_existing(path))
    if not isinstance(found, ModelFile):
        raise BadValue(f"{path} holds no machine; give a model file, a Python file or a name of `saltus zoo`")
    name = path.name.split(".")[0]
    return Model(name, _as_system(found.system), found.start, found.control, found.domain, found.until)


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


def _as_system(thing: Any) -> Any:
    from saltus import HybridSystem, Mechanism

    if isinstance(thing, HybridSystem):
        return thing
    if isinstance(thing, Mechanism):
        return HybridSystem.alone(thing)
    raise BadValue(f"`system` is a {type(thing).__name__}; it must be a sl.HybridSystem or a sl.Mechanism")
