"""What a study gives back: numbers, comparisons with what was published, figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Comparison:
    """One number or statement, published against computed.

    With a `tolerance` the two must be that near (same unit); without one `holds` says whether the statement is true.
    `agrees` is None where the paper prints nothing to compare with.
    """

    quantity: str
    published: float | str | None
    computed: float | str
    unit: str = ""
    tolerance: float | None = None
    holds: bool | None = None
    why: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether they agree; None if there is nothing to agree with."""
        if self.published is None:
            return None
        if self.tolerance is not None and not isinstance(self.published, str) and not isinstance(self.computed, str):
            return bool(abs(self.computed - self.published) <= self.tolerance)
        return self.holds

    @property
    def published_text(self) -> str:
        """For tables."""
        return "not printed" if self.published is None else self._text(self.published)

    @property
    def computed_text(self) -> str:
        """For tables."""
        return self._text(self.computed)

    @property
    def reason(self) -> str:
        """Tolerance and why, for tables."""
        size = "" if self.tolerance is None else f"within {self.tolerance:g} {self.unit}".rstrip()
        return "; ".join(x for x in (size, self.why) if x)

    def _text(self, value: float | str) -> str:
        return value if isinstance(value, str) else f"{value:.6g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Study:
    """Name, title and source of a study, and the module whose `study()` computes it.

    Keyword arguments of `study` are its options: numbers, in degrees where they are angles, or words.
    """

    name: str
    title: str
    source: str
    module: str


@dataclass(eq=False)
class StudyResult:
    """Numbers, comparisons and figures of one study."""

    study: Study
    data: dict[str, Any]
    comparisons: list[Comparison]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    animations: Mapping[str, Callable[[Path], Path]] = field(default_factory=dict)  # write a GIF to the path given

    @property
    def agrees(self) -> bool:
        """Whether no stated agreement fails."""
        return all(c.agrees is not False for c in self.comparisons)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the pictures, ready for JSON."""
        rows = [
            {
                "quantity": c.quantity,
                "published": c.published,
                "computed": c.computed,
                "unit": c.unit,
                "tolerance": c.tolerance,
                "agrees": c.agrees,
                "why": c.why,
            }
            for c in self.comparisons
        ]
        return plain(
            {
                "study": self.study.name,
                "title": self.study.title,
                "source": self.study.source,
                **self.data,
                "comparisons": rows,
                "agrees": self.agrees,
                "notes": self.notes,
                "figures": list(self.figures),
            }
        )

    def write(self, directory: str | Path) -> list[Path]:
        """Write every figure as PNG and PDF, every animation as GIF, and last result.json: where it is, all is."""
        from saltus.view import save

        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        files = [directory / "result.json"]
        for name, figure in self.figures.items():
            files += save(figure, directory / name, ("png", "pdf"))
        files += [draw(directory / f"{name}.gif") for name, draw in self.animations.items()]
        files[0].write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        return files


def plain(value: Any) -> Any:
    """Turn arrays, tuples and numbers of numpy into what JSON knows; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
