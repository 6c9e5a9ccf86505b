"""Gallery: one page over a directory of results: every study with published against computed, every run's report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from saltus.errors import BadValue
from saltus.view.run_report import CSS, escaped, policy, table

MORE = """
.studies img { max-width: 22rem; max-height: 16rem; vertical-align: top; margin: 0.3rem; border: 1px solid #eee; }
"""


def gallery(directory: str | Path, path: str | Path | None = None) -> Path:
    """Write an index of all results below a directory and return its path, by default DIRECTORY/index.html.

    Studies are known by their result.json, runs by their report.html; pictures and reports are linked to, not copied.
    """
    directory = Path(directory)
    target = Path(path) if path is not None else directory / "index.html"
    studies = [s for s in map(_study, sorted(filter(Path.is_file, directory.rglob("result.json")))) if s is not None]
    runs = sorted(p for p in directory.rglob("report.html") if p != target)
    if not (studies or runs):
        raise BadValue(f"{directory} holds no results; make some with `saltus study NAME` or `saltus run MODEL`")
    stated = [c["agrees"] for _, s in studies for c in s["comparisons"] if c["agrees"] is not None]
    parts = [
        f"<h1>Saltus: {len(studies)} studies, {len(runs)} runs</h1>",
        f"<p>{sum(stated)} of {len(stated)} stated agreements hold.</p>",
        "<ul>",
    ]
    parts += [f"<li><a href='#{escaped(s['study'])}'>{escaped(s['title'])}</a></li>" for _, s in studies]
    parts += [f"<li><a href='{_link(p, target)}'>report of {escaped(p.parent.name)}</a></li>" for p in runs]
    parts.append("</ul><div class=studies>")
    for place, study in studies:
        parts += _shown(place, study, target)
    page = (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8>{policy()}<title>Saltus gallery</title>\n"
        f"<meta name=viewport content='width=device-width'>\n<style>{CSS}{MORE}</style>\n"
        + "\n".join(parts)
        + "</div>\n</html>\n"
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")
    return target


def _study(path: Path) -> tuple[Path, dict[str, Any]] | None:
    """A study's result, or None if the file is something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(data, ensure_ascii=False).encode()  # JSON can spell letters that no file can hold
        rows = [{**row, "agrees": {True: True, False: False, None: None}[row["agrees"]]} for row in data["comparisons"]]
        for row in rows:
            _text(row["published"]), _text(row["computed"]), row["quantity"], row["unit"], row["why"]
        texts = {name: str(data[name]) for name in ("study", "title", "source")}
        return path.parent, {**texts, "notes": [str(note) for note in data["notes"]], "comparisons": rows}
    except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _shown(place: Path, study: dict[str, Any], target: Path) -> list[str]:
    rows = []
    for c in study["comparisons"]:
        word = {True: "yes", False: "NO", None: ""}[c["agrees"]]
        rows.append((c["quantity"], _text(c["published"]), _text(c["computed"]), c["unit"], word, c["why"]))
    head = ("quantity", "published", "computed", "unit", "agrees", "why")
    pictures = [*sorted(place.glob("*.png")), *sorted(place.glob("*.gif"))]
    shown = [
        f"<a href='{_link(p, target)}'><img loading=lazy alt='{escaped(p.stem)}' src='{_link(p, target)}'></a>"
        for p in pictures
    ]
    notes = [f"<p>{escaped(n)}</p>" for n in study["notes"]]
    again = f"<pre>saltus study {escaped(study['study'])}</pre>"
    return [
        f"<h2 id='{escaped(study['study'])}'>{escaped(study['title'])}</h2>",
        f"<p>{escaped(study['source'])}</p>",
        table(head, rows),
        *notes,
        *shown,
        again,
    ]


def _text(value: Any) -> Any:
    return "" if value is None else value if isinstance(value, str) else f"{float(value):.6g}"


def _link(path: Path, target: Path) -> str:
    """Path relative to the page, as an address."""
    return quote(os.path.relpath(path, target.parent).replace(os.sep, "/"))
