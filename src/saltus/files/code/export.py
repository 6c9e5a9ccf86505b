"""export: a machine as C, as an FMU, or as NumPy code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saltus.errors import BadModel, UnknownName
from saltus.files.code.routines import Exported
from saltus.files.code.touching import Touching
from saltus.hybrid.graph import HybridSystem
from saltus.model.contents import unchanged
from saltus.model.mechanism import Mechanism
from saltus.simulation.asked import ground_of

FORMS = ("c", "fmu", "numpy")


@unchanged
def export(
    thing: Any,
    directory: str | Path,
    *,
    to: str = "c",
    start: Any = None,
    control: Any = None,
    domain: Any = None,
    formulation: Any = None,
    at: Mapping[str, Any] | None = None,
    name: str | None = None,
    tables: Mapping[str, Any] | None = None,
    ground: Any = None,
    fmi: int = 2,
) -> list[Path]:
    """Write a Mechanism or a HybridSystem as code; return the files.

    "c": a C99 library with equations, guards, resets and a fixed-step hybrid stepper, self-test and examples;
    "fmu": one FMU for co-simulation (`fmi` 2 or 3); "numpy": a Python module to read. Rows and independent
    coordinates are chosen at `start` (the last keyframe unless given), for single domains at the states `at`. With
    `control` None the inputs are arguments. Runs begin in `domain`, the first unless given. `tables` are looked up
    in C, {name: (grid, rows)}. A machine with feet, stops or walls stands on `ground`; it has the steps of
    `sl.Batch`.
    """
    if to not in FORMS:
        raise UnknownName("export", to, FORMS)
    exported: Exported | Touching
    if isinstance(thing, HybridSystem) and thing.terrain is not None:
        thing, ground = thing.mechanism, ground_of(thing, ground)
    if isinstance(thing, Mechanism) and thing.touching:
        unheard = [n for n, x in (("formulation", formulation), ("at", at), ("domain", domain)) if x is not None]
        if unheard or to == "numpy":
            raise BadModel(
                f"{thing.name!r} has contacts that find their own modes: its steps are those of sl.Batch, as C or as "
                f"an FMU, which know no {', '.join(unheard) or 'NumPy'}",
                parts=list(thing.touching),
            )
        exported = Touching(thing, start, control=control, ground=ground, name=name)
    else:
        ground_of(thing, ground)
        exported = Exported(thing, start, control=control, formulation=formulation, at=at, name=name, domain=domain)
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    if to == "c":
        from saltus.files.code.c_library import export_c

        return export_c(exported, path, tables=tables)
    if to == "fmu":
        from saltus.files.code.fmu import export_fmu

        return [export_fmu(exported, path, fmi)]
    from saltus.files.code.numpy_module import export_numpy

    assert isinstance(exported, Exported)
    return [export_numpy(exported, path)]
