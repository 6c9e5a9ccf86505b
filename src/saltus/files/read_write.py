"""read and write: one verb each for every kind of file that holds a machine, a run, a family or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saltus.errors import BadFile, BadValue
from saltus.files import tables
from saltus.hybrid.graph import HybridSystem
from saltus.model.contents import unchanged
from saltus.model.mechanism import Mechanism
from saltus.orbits.orbit import Orbit
from saltus.simulation import store
from saltus.simulation.trajectory import Trajectory


def read(
    path: str | Path,
    *,
    like: Orbit | None = None,
    partial: bool = False,
    base: str | None = None,
    closing: float = 0.0,
    repair: bool = False,
    contacts: bool | Sequence[str] = False,
) -> Any:
    """Read a file by what it is.

    A model (.yaml or .json of Saltus, MJCF, URDF or SDF as .xml, .mjcf, .urdf, .sdf) gives a ModelFile, a run (.nc) a
    Trajectory, the store of a sweep an xarray Dataset. A family of orbits needs `like`, an orbit of the same machine
    and control. Opening a file never runs code. A foreign model with features Saltus has no part for is refused with
    their list; `partial` reads the rest and keeps the list in `notes`. `base` ("fixed" or "free") says what holds
    the root of a URDF or SDF, `closing` (m) how far loops may stay open where a file's numbers are rounded; `repair`
    moves the ends of such loops by as little as closes them. `contacts` lets joint limits, dry friction and shapes of a
    foreign file act: True for shapes of the outermost links, or a list of shapes and links.
    """
    path = Path(path)
    if like is not None:
        from saltus.orbits.family import read_family

        return read_family(path, like)
    if path.is_dir():
        from saltus.sweeps import read_sweep

        return read_sweep(path)
    if path.suffix.lower() == ".nc":
        return store.load(path)
    from saltus.files.model_file import read_model

    return read_model(path, partial=partial, base=base, closing=closing, repair=repair, contacts=contacts)


@unchanged
def write(
    thing: Any,
    path: str | Path,
    *,
    start: str | None = None,
    domain: str | None = None,
    control: str | None = None,
    until: float | None = None,
    ground: Any = None,
    partial: bool = False,
) -> Path:
    """Write a machine, a run, a family of orbits or a list of records; `read` gives the first three back.

    A Mechanism, HybridSystem or ModelFile goes into a model file by its suffix: .yaml, .json, or MJCF (.xml) and
    URDF (.urdf), which hold the numbers of the default Params and refuse what they have no element for, by name; with
    `partial` that is left out and listed in a comment. `start` (a keyframe), `domain`, `control`, `until` and `ground`
    (a height in m or a shape, which feet meet) are what `saltus run FILE` does by default. A Trajectory goes into
    NetCDF (.nc, whole), .csv, ROS-style .json or .tex; records, one dict a row, into .csv, .json or .tex.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise BadFile(f"{path.parent} is no directory; make it first", file=str(path))
    given = {"start": start, "domain": domain, "control": control, "until": until, "ground": ground}
    settings = partial or any(x is not None for x in given.values())
    if isinstance(thing, Trajectory) and not settings:
        if path.suffix.lower() == ".nc":
            return store.save(thing, path)
        if path.suffix not in tables.FORMATS:
            raise BadValue(f"{path}: a run is written as .nc (whole), {', '.join(tables.FORMATS)}", given=str(path))
        return tables.write_table(thing, path)
    from saltus.files.model_file import ModelFile, write_model  # these load slowly, and runs need none of them
    from saltus.orbits.family import Family, write_family

    if isinstance(thing, Mechanism | HybridSystem | ModelFile):
        return write_model(thing, path, **given, partial=partial)
    if settings:
        raise BadValue("start, domain, control, until, ground and partial belong to model files", given=given)
    if isinstance(thing, Family):
        return write_family(thing, path)
    if isinstance(thing, Sequence) and all(isinstance(x, Mapping) for x in thing):
        return tables.write_table(thing, path)
    raise BadValue(
        f"a {type(thing).__name__} cannot be written to a file; give a Mechanism, HybridSystem, Trajectory, Family or "
        "a list of records",
        given=thing,
    )
