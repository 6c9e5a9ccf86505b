"""The page of the reproduction table: written from rows, and read back to compare it with fresh ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from saltus.studies.collect import Run
from saltus.studies.reproduction.registry import papers
from saltus.studies.reproduction.rows import MISSING, Row, row

HEAD = ("item", "published", "computed", "verdict", "reason", "saltus study")
NEAR = 1e-4  # relative difference of two numbers that count as the same: other processors round otherwise
INTRODUCTION = """\
# Reproduction

What was published, what Saltus computes, and where the two differ. `saltus reproduce` computes everything and writes
this page; `saltus reproduce --check` compares a fresh run with it. Published values are copied from the papers with
the digits they print; computed ones come from the studies.

* **agrees**: rounded to the printed digits it is the printed number, or a printed statement holds.
* **agrees to n digits**: fewer than are printed. **beaten**: a cost, and ours is lower.
* **differs**: the reason says why. **cannot be compared**: drawn without numbers, measured, or a datum is missing.
* **given**: an input that we use as printed. **nothing to compute**: photographs, diagrams, notation.

The last column completes the command: `saltus study bolt-running` computes such a row alone and draws its figures.
"""


def page(results: Mapping[Run, Mapping[str, Any]]) -> str:
    """Return the page in Markdown."""
    table = {paper: [row(item, results) for item in paper.items] for paper in papers()}
    counts = Counter(r.kind for rows in table.values() for r in rows)
    words = {"agrees": "agree", "beaten": "beaten", "differs": "differ", "cannot": "cannot be compared"}
    words |= {"given": "given", "nothing": "with nothing to compute", "not": MISSING}
    said = ", ".join(f"{counts[kind]} {text}" for kind, text in words.items() if counts[kind])
    parts = [INTRODUCTION, f"{counts.total()} rows: {said}.\n"]
    for paper, rows in table.items():
        parts += [f"## {paper.name}\n", f"Source: {paper.source}\n", _line(HEAD) + "\n" + "|---" * len(HEAD) + "|"]
        parts[-1] = "\n".join([parts[-1], *(_line(_coded(r)) for r in rows)]) + "\n"
        parts += [paper.notes + "\n"] if paper.notes else []
    return "\n".join(parts)


def differences(text: str, results: Mapping[Run, Mapping[str, Any]]) -> list[str]:
    """What a page says otherwise than fresh results do, one line each; rows of runs that are not given are left out."""
    printed = _read(text)
    found = []
    for paper in papers():
        for item in paper.items:
            if item.study and item.run not in results:
                continue
            fresh = _coded(row(item, results))
            old = printed.get((paper.name, fresh[0]))
            if old is None:
                found.append(f"{paper.name}, {item.item}: not on the page")
                continue
            for name, a, b in zip(HEAD, old, fresh, strict=True):
                if not (same(a, b) or (item.varies and name in ("computed", "reason"))):
                    found.append(f"{paper.name}, {item.item}: {name} {a!r} on the page, {b!r} now")
    return found


def same(a: str, b: str) -> bool:
    """Whether two texts are the same but for the last digits of their numbers."""
    number = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
    x, y = number.findall(a), number.findall(b)
    alike = all(math.isclose(float(p), float(q), rel_tol=NEAR) for p, q in zip(x, y, strict=False))
    return len(x) == len(y) and alike and number.sub("#", a) == number.sub("#", b)


def _coded(r: Row) -> tuple[str, ...]:
    """Cells as Markdown; of the command only what follows `saltus study`, which the column is headed by."""
    *texts, command = r.cells
    study = command.removeprefix("saltus study ")
    return (*(t.replace("|", "\\|") for t in texts), f"`{study}`" if study else "")


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _read(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Cells of every row of a page, by heading and item."""
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        cells = tuple(c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1])
        if len(cells) == len(HEAD) and cells != HEAD and not cells[0].startswith("---"):
            rows[heading, cells[0]] = cells
    return rows
