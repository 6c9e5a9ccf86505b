"""Commands that make pages: studio, report, plot, gallery, reproduce."""

from __future__ import annotations

import functools
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from saltus.cli.console import ENDED_BADLY, check_directory, check_file, err, out, progress_bar
from saltus.cli.machines import check_name, model_of, reads, run_file, saved
from saltus.errors import BadValue, UnknownName

Saved = Annotated[Path, typer.Argument(help="A run.nc, or the directory it is in.")]
Source = Annotated[
    str | None, typer.Option("--model", help="What a run was made from.", show_default="the zoo's machine of its name")
]


@reads
def studio(
    model: Annotated[
        str, typer.Argument(help="A machine of `saltus zoo`, a model or Python file, or a saved run.")
    ] = "bolt",
    source: Source = None,
    port: Annotated[int, typer.Option(help="Port; the next free one if it is taken, any with 0.")] = 8080,
    host: Annotated[str | None, typer.Option(help="Address others can reach.", show_default="loopback only")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
    reading: Any = None,
) -> None:
    """See a machine in the browser: turn it, change its lengths, run it, find its gaits. Ctrl-C ends it."""
    from saltus.studio import serve

    file = run_file(Path(model))
    if file is None:
        if source is not None:
            raise BadValue(f"--model says what a saved run was made from, and {model} is none; give one of them")
        check_name(model)
    make = functools.partial(saved, file, source, reading) if file else functools.partial(model_of, model, reading)

    def listening(running: Any) -> None:
        out.print(f"Studio of {escape(model)}: {escape(running.url)}  (Ctrl-C ends it)", soft_wrap=True)
        if browser:
            webbrowser.open(running.ticket())

    running = serve(make, port=port, host=host, listening=listening)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        running.stop()


@reads
def report(
    run: Saved,
    target: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write.", show_default="report.html beside the run")
    ] = None,
    source: Source = None,
    reading: Any = None,
) -> None:
    """Write one self-contained page about a saved run: animation, figures, tables."""
    from saltus import view

    file = run_file(run) or run
    target = target or file.with_name("report.html")
    check_file(target)
    model = saved(file, source, reading)
    out.print(escape(str(view.report(model.run, target, system=model.system))), soft_wrap=True)


@reads
def plot(
    run: Saved,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="snapshots, strobe, path, coordinates, portraits, loop_gaps, energy, "
            "torques or contacts; repeat for more.",
            show_default="all that make sense",
        ),
    ] = None,
    format_: Annotated[
        list[str] | None, typer.Option("--format", help="pdf, svg or png; repeat for more.", show_default="pdf")
    ] = None,
    coordinate: Annotated[
        list[str] | None, typer.Option(help="Coordinate of a phase portrait; repeat for more.")
    ] = None,
    since: Annotated[float | None, typer.Option(help="First of the snapshots (s).")] = None,
    until: Annotated[float | None, typer.Option(help="Last of the snapshots (s).")] = None,
    count: Annotated[int, typer.Option(help="Number of snapshots.")] = 10,
    target: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory to write to.", show_default="beside the run")
    ] = None,
    source: Source = None,
    reading: Any = None,
) -> None:
    """Draw figures of a saved run for print: vector graphics, units on every axis."""
    from saltus import view

    for word in format_ or ():
        if word not in ("pdf", "svg", "png"):
            raise UnknownName("format", word, ("pdf", "svg", "png"))
    file = run_file(run) or run
    directory = target or file.parent
    check_directory(directory)
    model = saved(file, source, reading)
    known = view.makers(
        model.run, system=model.system, coordinates=coordinate or (), since=since, until=until, count=count
    )
    for word in kind or ():
        if word not in known:
            raise UnknownName("figure of this run", word, known)
    for name in kind or known:
        for path in view.save(known[name](), directory / name, format_ or ["pdf"]):
            out.print(escape(str(path)), soft_wrap=True)


def gallery(
    directory: Annotated[Path, typer.Argument(help="Directory of results.")] = Path("results"),
    missing: Annotated[bool, typer.Option("--missing", help="First compute every study without a result.")] = False,
    target: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write.", show_default="index.html there")
    ] = None,
) -> None:
    """Write an index of all studies and runs, published against computed."""
    from saltus import studies, view
    from saltus.studies.collect import Run, collect

    check_file(target or directory / "index.html")
    if missing:
        _collected(collect, [Run(name) for name in studies.STUDIES], directory, resume=True)
    out.print(escape(str(view.gallery(directory, target))), soft_wrap=True)


def reproduce(
    directory: Annotated[Path, typer.Option("--results", help="Directory of results.")] = Path("results"),
    target: Annotated[Path, typer.Option("-o", "--out", help="Page to write or compare with.")] = Path(
        "docs/reproduction.md"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Keep results that are there already.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare with the page instead of writing it.")] = False,
) -> None:
    """Compute every published figure, table and number again and write the page that compares them."""
    from saltus.studies.collect import collect
    from saltus.studies.reproduction import differences, page, papers

    check_directory(directory)
    if not check:
        check_file(target)
    elif not target.is_file():
        raise BadValue(f"{target} is no file to compare with; write it with `saltus reproduce`", path=str(target))
    runs = [item.run for paper in papers() for item in paper.items if item.study]
    results = _collected(collect, runs, directory, resume=resume)
    failed = {run: r["error"] for run, r in results.items() if "error" in r}
    for run, text in failed.items():
        err.print(f"[bold red]error:[/] {escape(run.command)}: {escape(text)}", soft_wrap=True)
    found = []
    if check:
        found = differences(target.read_text(encoding="utf-8"), results)
        for line in found:
            out.print(escape(line), soft_wrap=True)
        out.print(f"{len(found)} differences from {escape(str(target))}", soft_wrap=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(results), encoding="utf-8")
        out.print(escape(str(target)), soft_wrap=True)
    if found or failed:
        raise typer.Exit(ENDED_BADLY)


def _collected(collect: Callable[..., Any], runs: list[Any], directory: Path, resume: bool) -> Any:
    """Results of studies, with a bar that says which one runs."""
    with progress_bar(False) as bar:
        task = bar.add_task("studies", total=None, note="")

        def show(run: Any, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, note=f"{done} of {total}: {run.directory}")

        return collect(runs, directory, resume=resume, progress=show)
