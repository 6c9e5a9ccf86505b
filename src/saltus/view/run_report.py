"""Report of a run: one self-contained HTML file with figures, tables and how to make it again."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.metadata
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saltus.errors import BadValue, naming_extras
from saltus.view.placing import check_run
from saltus.view.player import SCRIPT, player

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from saltus.hybrid.graph import HybridSystem
    from saltus.simulation.trajectory import Trajectory

TITLES = {
    "snapshots": "Snapshots",
    "path": "Path",
    "coordinates": "Coordinates",
    "portraits": "Phase portraits",
    "loop_gaps": "Loop gaps",
    "energy": "Energy",
    "torques": "Torques",
    "contacts": "Ground contact",
}
PACKAGES = ("saltus", "casadi", "numpy", "scipy", "matplotlib", "heyoka", "scikit-sundae")
CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: 0.6rem 0; }
caption { text-align: left; color: #555; padding-bottom: 0.3rem; }
th, td { padding: 0.2rem 0.9rem 0.2rem 0; text-align: left; border-bottom: 1px solid #eee; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } svg, img { max-width: 100%; height: auto; }
pre { background: #f5f5f5; padding: 0.8rem; overflow-x: auto; } .bad { color: #b03000; } .good { color: #00704f; }
details { margin: 0.6rem 0; } summary { cursor: pointer; color: #0060a0; }
"""


def report(
    run: Trajectory,
    path: str | Path,
    *,
    system: HybridSystem | None = None,
    figures: Mapping[str, Figure | str] | None = None,
    command: str | None = None,
    summary: Sequence[tuple[str, str]] = (),
) -> Path:
    """Write one HTML file about a run that needs nothing else: no network, no other files.

    A run that knows its machine gets an animation to play and scrub. `figures` are matplotlib figures or <svg> texts,
    by default all that make sense, and {} for none (which needs no matplotlib); `command` says how to make the run
    again; `summary` are rows for the first table, in place of its own.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise BadValue(f"{path} would be a page; name it {Path(path).with_suffix('.html')}", given=str(path))
    check_run(run)
    if figures is None:
        with naming_extras():
            from saltus.view.run_figures import figures as all_figures
        figures = all_figures(run, system=system)
    outcome = run.outcome
    kind, detail = "good" if outcome.ok else "bad", escaped(outcome.detail)
    faults = "".join(f"<li class=bad>{escaped(fault)}</li>" for fault in outcome.faults)
    parts = [
        f"<h1>{escaped(run.meta['name'])}</h1>",
        f"<p class={kind}><strong>{escaped(outcome.kind)}</strong> at t = {outcome.t:.6g} s: {detail}</p>",
        *([f"<ul>{faults}</ul>"] if faults else []),
        table(("", ""), list(summary) or _facts(run)),
    ]
    if run.mechanism is not None:
        parts += ["<h2>Animation</h2>", player(run)]
    for name, figure in figures.items():
        parts.append(f"<h2>{escaped(TITLES.get(name, name.replace('_', ' ').capitalize()))}</h2>{_inline(figure)}")
    parts += ["<h2>Energy account</h2>", _energy(run), *_contacts(run), *_events(run), *_notes(run)]
    parts += ["<h2>Parameters</h2>", _params(run), "<h2>Versions</h2>", table(("package", "version"), versions())]
    parts += ["<h2>How to make it again</h2>", f"<pre>{escaped(command or _recipe(run))}</pre>"]
    text = (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8>{policy(SCRIPT)}\n<title>{escaped(run.meta['name'])}"
        "</title>\n"
        f"<meta name=viewport content='width=device-width'>\n<style>{CSS}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def versions() -> list[tuple[str, str]]:
    """Versions of Python and of the packages a run depends on."""
    out = [("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    for name in PACKAGES:
        try:
            out.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            out.append((name, "not installed"))
    return out


def policy(script: str = "") -> str:
    """What a page may do, whatever text stands in it: show itself and run this one script, and ask nobody anything."""
    runs = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    rules = f"default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data: file:; script-src {runs}"
    return f"<meta http-equiv=\"Content-Security-Policy\" content=\"{rules}; base-uri 'none'; form-action 'none'\">"


def escaped(text: Any) -> str:
    """Text as HTML."""
    return html.escape(str(text))


def _inline(figure: Figure | str) -> str:
    """A drawing as an <svg> fit for HTML, in which names need no namespaces."""
    drawing = figure
    if not isinstance(drawing, str):
        from saltus.view.style import svg

        drawing = svg(drawing)
    return re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", drawing[drawing.index("<svg") :])


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Rows as an HTML table."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"<td class=n>{value:.6g}</td>"
        return f"<td class=n>{value}</td>" if isinstance(value, int) else f"<td>{escaped(value)}</td>"

    top = f"<caption>{escaped(caption)}</caption>" if caption else ""
    if any(head):
        top += "<tr>" + "".join(f"<th>{escaped(h)}</th>" for h in head) + "</tr>"
    return f"<table>{top}{''.join('<tr>' + ''.join(map(cell, row)) + '</tr>' for row in rows)}</table>"


def _facts(run: Trajectory) -> list[tuple[str, str]]:
    meta = run.meta
    return [
        ("time simulated", f"{run.duration:.6g} s"),
        ("formulation", meta["formulation"]),
        ("engine", f"{meta['engine']}, tolerance {meta['tolerance']:g}"),
        ("steps", f"{meta['steps']} ({meta['rejected']} rejected), {meta['evaluations']} evaluations"),
        ("largest loop gap", f"{run.loop_gap:.3g} m"),
        ("energy residual", f"{run.energy_account['relative residual']:.3g} of the energy exchanged"),
    ]


def _energy(run: Trajectory) -> str:
    rows = [(name, value) for name, value in run.energy_account.items() if name != "relative residual"]
    return table(("", "J"), rows, "change = works + lost at impacts + added by resets + residual")


def _contacts(run: Trajectory) -> list[str]:
    own = run.contacts
    if len(own):
        head = ("contact", "touched", "slid (m)", "largest normal force (N)", "friction used (1)", "friction given (1)")
        most = {n: c["normal_max"] for n, c in run.meta["contacts"].items()}
        rows = [
            (n, own.touched(n), own.slip_length(n), most[n], own.friction_used(n), own.friction_given(n))
            for n in own.names
        ]
        worry = (
            "a contact slips where the friction used is the friction given, and one that sticks is safe by what is "
            "left; on ground with less friction than it used the motion is another one"
        )
        return ["<h2>Contacts</h2>", table(head, rows, worry)]
    contacts = run.meta["contacts"]
    if not contacts:
        return []
    shown = {
        "normal_min": ("smallest normal force (N)", 1.0),
        "friction_need": ("friction needed (1)", 1.0),
        "depth": ("below ground outside contact (m)", 1.0),
        "pulling": ("contact time with the ground pulling (%)", 100.0),
    }
    known = [n for n in shown if all(n in c for c in contacts.values())]
    rows = [(name, *(shown[n][1] * float(c[n]) for n in known)) for name, c in contacts.items()]
    worry = (
        "a pinned foot is held whatever it takes: where the friction needed is above the ground's own (real ground's "
        "is about 1 at most), or the ground pulls, a real foot would slip or lift, and the motion is another one"
    )
    return ["<h2>Contacts</h2>", table(("contact", *(shown[n][0] for n in known)), rows, worry)]


def _events(run: Trajectory) -> list[str]:
    if not run.events:
        return []
    rows = []
    for e in run.events:
        loss, share = (e.impact.lost, 100 * e.impact.share_lost) if e.impact else ("", "")
        rows.append((e.t, e.name, e.source, e.target or "end", loss, share, e.shift))
    head = ("t (s)", "event", "from", "to", "lost (J)", "of the kinetic energy (%)", "shift (m, rad)")
    return ["<h2>Events</h2>", f"<details><summary>{len(rows)} events</summary>{table(head, rows)}</details>"]


def _notes(run: Trajectory) -> list[str]:
    if not run.meta["notes"]:
        return []
    return ["<h2>Notes</h2><ul>", *[f"<li>{escaped(n)}</li>" for n in run.meta["notes"]], "</ul>"]


def _params(run: Trajectory) -> str:
    units = {n: p.unit for n, p in run.mechanism.params.items()} if run.mechanism is not None else {}
    rows = [(name, float(value), units.get(name, "")) for name, value in run.params.items()]
    return f"<details><summary>{len(rows)} parameters</summary>{table(('param', 'value', 'unit'), rows)}</details>"


def _recipe(run: Trajectory) -> str:
    meta = run.meta
    return (
        f"sl.simulate(system, start, until={run.outcome.t:.12g}, formulation=sl.formulations.{meta['formulation']}, "
        f"engine={meta['engine']!r}, tolerance={meta['tolerance']:g}, params={{...as above...}})"
    )
