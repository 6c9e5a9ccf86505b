"""What the command line shows and writes of a run: summary, figures, animation, report."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from saltus.cli.console import progress_bar


def facts(run: Any, seconds: float) -> dict[str, Any]:
    """Numbers of a run for the summary and for --json."""
    from saltus.simulation.strides import strides

    gait = strides(run)
    contacts = run.meta["contacts"]
    return {
        "model": run.meta["name"],
        "outcome": run.outcome.kind,
        "ok": run.outcome.ok,
        "detail": run.outcome.detail,
        "faults": list(run.outcome.faults),
        "time": run.outcome.t,
        "events": run.event_counts,
        "steps": len(gait),
        "mean_speed": finite(gait.mean_speed),
        "stride_time": finite(gait.stride_time),
        "duty_factor": finite(gait.duty_factor),
        "max_loop_gap": run.loop_gap,
        "energy_residual": run.energy_account["relative residual"],
        "error": run.meta["error"] or None,
        "fell": run.outcome.kind == "fell",
        "worst_friction_need": max((c["friction_need"] for c in contacts.values()), default=None),
        "smallest_normal_force": min((c["normal_min"] for c in contacts.values()), default=None),
        "formulation": run.meta["formulation"],
        "engine": run.meta["engine"],
        "tolerance": run.meta["tolerance"],
        "wall_time": seconds,
        "real_time_factor": run.duration / seconds,
        "notes": run.meta["notes"],
    }


def finite(value: float) -> float | None:
    """Return the number, or None where JSON has no word for it."""
    return value if math.isfinite(value) else None


def summary_rows(f: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of the summary table."""
    events = ", ".join(f"{n} x {name}" for name, n in f["events"].items()) or "none"
    rows = [("outcome", f"{f['outcome']} at {f['time']:.4f} s ({f['detail']})")]
    rows += [("not ok", fault) for fault in f["faults"]]
    rows.append(("events", events))
    if f["steps"]:
        rows += [
            ("strides", f"{f['steps']}"),
            ("mean speed", f"{f['mean_speed']:.4f} m/s (last half of the strides)"),
            ("stride time", f"{1000 * f['stride_time']:.2f} ms"),
            ("duty factor", f"{f['duty_factor']:.3f}"),
        ]
    rows += [
        ("largest loop gap", f"{f['max_loop_gap']:.2e} m"),
        ("energy residual", f"{f['energy_residual']:.2e} of the energy exchanged"),
    ]
    if f["error"]:
        worst = max(f["error"], key=f["error"].__getitem__)
        rows.append(("error", f"{f['error'][worst]:.1e} rad or m at most ({worst}), from a run at a finer tolerance"))
    if f["worst_friction_need"] is not None:
        rows += [
            ("worst friction need", f"{f['worst_friction_need']:.3g}{_worry(f['worst_friction_need'])}"),
            ("smallest normal force", f"{f['smallest_normal_force']:.3g} N"),
        ]
    rows += [
        ("solved with", f"{f['formulation']}, engine {f['engine']}, tolerance {f['tolerance']:g}"),
        ("wall time", f"{f['wall_time']:.2f} s ({f['real_time_factor']:.1f}x real time, compiling included)"),
    ]
    return rows + [("note", note) for note in f["notes"]]


def _worry(need: float) -> str:
    """What a friction need means for a machine of metal and rubber."""
    if need <= 1.0:
        return " (rubber on concrete gives about 0.8)"
    return " (no real ground gives more than about 1: this foot was held by assumption, see m.foot)"


def write_results(
    run: Any,
    system: Any,
    directory: Path,
    numbers: Mapping[str, Any],
    *,
    figures: bool,
    quiet: bool,
    command: str,
) -> list[Path]:
    """Write the data and a page that plays the run, last of the files; with `figures` these and a film too."""
    import saltus as sl
    from saltus import view

    directory.mkdir(parents=True, exist_ok=True)
    files = [sl.write(run, directory / "run.nc"), directory / "summary.json"]
    files[1].write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    drawn = _draw(run, system, directory, quiet) if figures else []
    drawings = {path.stem: path.read_text(encoding="utf-8") for path in drawn if path.suffix == ".svg"}
    rows = summary_rows(numbers)[1:]
    page = view.report(run, directory / "report.html", figures=drawings, system=system, command=command, summary=rows)
    return [*files, *drawn, page]


def _draw(run: Any, system: Any, directory: Path, quiet: bool) -> list[Path]:
    """The figures of a report, and the film, which is drawn on the other core."""
    from saltus import view

    film = directory / "run.gif"
    makers = {name: make for name, make in view.makers(run, system=system).items() if name in view.REPORTED}
    ours, others = list(makers)[:-2], list(makers)[-2:]

    def on_the_other_core() -> None:
        for name in others:
            view.save(makers[name](), directory / name, ["svg"])
        view.animate(run, film)

    wait = beside(on_the_other_core)
    with progress_bar(quiet) as bar:
        task = bar.add_task("drawing", total=len(ours) + 1, note="")
        for name in ours:
            bar.update(task, note=name)
            view.save(makers[name](), directory / name, ["svg"])
            bar.update(task, advance=1)
        bar.update(task, note="film")
        wait()
    return [film, *(directory / f"{name}.svg" for name in makers)]


def beside(work: Callable[[], Any]) -> Callable[[], None]:
    """Start work in a copy of this process, on another core; call what is returned to wait for it."""
    if not hasattr(os, "fork"):
        return lambda: (work(), None)[1]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)

    def wait() -> None:
        if os.waitpid(child, 0)[1] != 0:
            work()  # once more, here, where the error can be seen

    return wait
