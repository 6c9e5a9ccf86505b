"""Registry of the reproduction table: what was published, as printed, and where a study computes it.

One TOML file a paper, in the order of their names; an `[[item]]` is one row of the page. One with `printed` is a matrix
and gives a row an entry: `printed` holds its rows, `rows` and `columns` their labels. In its `item` and `field`, {i}
and {j} are the indices, {row} and {column} the labels, {at} the column's entry of `fields`; `units` are one per column,
`reasons` are by "row, column". `notes` is prose for the page.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from saltus.errors import BadValue
from saltus.studies.collect import Run

RELATIONS = ("=", "<", ">", "beat")


@dataclass(frozen=True)
class Item:
    """One published thing.

    `published` is the text of the paper; where a `field` of the study's JSON is compared with it, a number with the
    digits that are printed; `digit` is the size of the last one where the print is shorter than its neighbours ("0" for
    0.000). `relation` is "=" for printed digits, "<" or ">" for a stated bound, "beat" for a cost that
    is better the smaller it is. `statement` names a comparison of the study instead of a field, `figure` a figure it
    draws. Without a study nothing is computed, and `reason` says why. `varies`: computed anew it is another number of
    the same size (times, round-off), so only its verdict is checked.
    """

    item: str
    published: str
    unit: str = ""
    relation: str = "="
    study: str = ""
    options: tuple[tuple[str, float], ...] = ()
    field: str = ""
    scale: float = 1.0
    digit: str = ""
    statement: str = ""
    figure: str = ""
    reason: str = ""
    given: bool = False
    varies: bool = False

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise BadValue(f"item {self.item!r}: relation {self.relation!r}; one of {', '.join(RELATIONS)}")
        if bool(self.study) != bool(self.field or self.statement or self.figure):
            raise BadValue(f"item {self.item!r}: a study needs a field, a statement or a figure, and these a study")
        if not (self.study or self.reason):
            raise BadValue(f"item {self.item!r}: nothing computes it; give the reason")

    @property
    def run(self) -> Run:
        """The study that computes it, with its options."""
        return Run(self.study, self.options)


@dataclass(frozen=True)
class Paper:
    """A paper with its items and what is to be said about them; `name` is the heading of the page."""

    name: str
    source: str
    items: tuple[Item, ...]
    notes: str


@functools.cache
def papers() -> tuple[Paper, ...]:
    """All papers, read from the files beside this module."""
    return tuple(_paper(path) for path in sorted(Path(__file__).parent.glob("*.toml")))


def _paper(path: Path) -> Paper:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    items: list[Item] = []
    for entry in data["item"]:
        items += _entries(entry) if "printed" in entry else [_item(entry)]
    return Paper(data["name"], data["source"], tuple(items), data["notes"].strip())


def _item(entry: Mapping[str, Any]) -> Item:
    unknown = set(entry) - {f.name for f in fields(Item)}
    if unknown:
        raise BadValue(f"item {entry.get('item')!r}: unknown keys {', '.join(sorted(unknown))}")
    return Item(**{**entry, "options": tuple(entry.get("options", {}).items())})


def _entries(table: Mapping[str, Any]) -> list[Item]:
    """Items of a printed matrix; entries printed as "-" are left out."""
    rest = {k: v for k, v in table.items() if k not in ("printed", "rows", "columns", "fields", "units", "reasons")}
    out = []
    for i, (label, values) in enumerate(zip(table["rows"], table["printed"], strict=True)):
        for j, (column, value) in enumerate(zip(table["columns"], values, strict=True)):
            if value == "-":
                continue
            at = table["fields"][j] if "fields" in table else column
            place = {"i": i, "j": j, "row": label, "column": column, "at": at}
            reason = table.get("reasons", {}).get(f"{label}, {column}", table.get("reason", ""))
            out.append(
                _item(
                    {
                        **rest,
                        "item": table["item"].format(**place),
                        "published": value,
                        "field": table["field"].format(**place),
                        "unit": table["units"][j] if "units" in table else table.get("unit", ""),
                        "reason": reason,
                    }
                )
            )
    return out
