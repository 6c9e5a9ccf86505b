"""Many studies in a row: computed one after the other, kept as files, taken up again where they stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saltus import studies
from saltus.errors import BadFile, SaltusError


@dataclass(frozen=True)
class Run:
    """A study with its options, as (name, number) pairs."""

    study: str
    options: tuple[tuple[str, float], ...] = ()

    @property
    def command(self) -> str:
        """What to type for it."""
        return " ".join(["saltus study", self.study, *(f"--{n.replace('_', '-')} {v:g}" for n, v in self.options)])

    @property
    def directory(self) -> str:
        """Name of the directory its results are kept in."""
        return "-".join([self.study, *(f"{n}-{v:g}" for n, v in self.options)])


def collect(
    runs: Iterable[Run],
    directory: str | Path,
    *,
    resume: bool = False,
    progress: Callable[[Run, int, int], None] | None = None,
) -> dict[Run, Mapping[str, Any]]:
    """Compute every run, write its results below the directory and return them as they are in result.json.

    With `resume` a run that has a result.json there is read instead. A study that is not registered is left out;
    one that ends with an error of Saltus gives {"error": text} and is not kept.
    """
    wanted = [run for run in dict.fromkeys(runs) if run.study in studies.STUDIES]
    results: dict[Run, Mapping[str, Any]] = {}
    for i, run in enumerate(wanted):
        place = Path(directory) / run.directory
        kept = place / "result.json"
        if progress is not None:
            progress(run, i, len(wanted))
        if not (resume and kept.is_file()):
            try:
                studies.run(run.study, **dict(run.options)).write(place)
            except SaltusError as problem:
                results[run] = {"error": str(problem)}
                continue
        try:
            results[run] = dict(json.loads(kept.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError) as problem:
            raise BadFile(f"{kept} is damaged: {problem}; remove it to compute it again", path=str(kept)) from problem
    return results
