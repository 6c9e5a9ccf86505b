"""Commands that make pages: studio, report, gallery, reproduce; registered by the command line."""

from __future__ import annotations

import functools
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from saltus.cli.results import err, out, progress_bar
from saltus.errors import BadValue, SaltusError, UnknownName


def studio(
    load: Callable[[str], Any], model: str, source: str | None, port: int, host: str | None, browser: bool
) -> None:
    """Serve until Ctrl-C."""
    from saltus.studio import serve

    file = run_file(Path(model))
    make = functools.partial(saved, load, file, source) if file is not None else functools.partial(load, model)

    def listening(url: str) -> None:
        out.print(f"Studio of {escape(model)}: {escape(url)}  (Ctrl-C ends it)", soft_wrap=True)
        if browser:
            webbrowser.open(url)

    running = serve(make, port=port, host=host, listening=listening)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        running.stop()


def run_file(path: Path) -> Path | None:
    """The file of a saved run: a .nc file, or the run.nc of a directory; None if it is something else."""
    file = path / "run.nc" if path.is_dir() else path
    return file if file.suffix == ".nc" else None


def saved(load: Callable[[str], Any], file: Path | None, source: str | None) -> Any:
    """The machine of a saved run, with the run: the machine named, or that of the zoo with the run's name."""
    import saltus as sl

    if file is None or not file.is_file():
        raise BadValue(f"{file} is no saved run; give a run.nc, or the directory it is in")
    run = sl.read(file)
    name = source or run.meta["name"].lower().replace(" ", "-")
    try:
        model = load(name)
    except SaltusError as problem:
        if source is not None:
            raise
        raise BadValue(
            f"the run is of {run.meta['name']!r}, which is not in the zoo; say what it was made from with --model FILE"
        ) from problem
    if list(model.system.mechanism.q_names) != list(run.meta["q_names"]):
        raise BadValue(f"{name} has other coordinates than the run of {run.meta['name']!r}; give --model FILE")
    run.mechanism = model.system.mechanism
    model.run = run
    return model


def report(load: Callable[[str], Any], run: Path, source: str | None, target: Path | None) -> Path:
    """Write the report of a saved run."""
    from saltus import view

    file = run_file(run)
    model = saved(load, file or run, source)
    return view.report(model.run, target or (file or run).with_name("report.html"), system=model.system)


def plot(
    load: Callable[[str], Any],
    run: Path,
    source: str | None,
    kinds: list[str],
    formats: list[str],
    target: Path | None,
    **options: Any,
) -> list[Path]:
    """Write figures of a saved run."""
    from saltus import view

    file = run_file(run)
    model = saved(load, file or run, source)
    known = view.makers(model.run, system=model.system, **options)
    for kind in kinds:
        if kind not in known:
            raise UnknownName("figure of this run", kind, known)
    for kind in formats:
        if kind not in ("pdf", "svg", "png"):
            raise UnknownName("format", kind, ("pdf", "svg", "png"))
    directory = target or (file or run).parent
    return [path for kind in kinds or known for path in view.save(known[kind](), directory / kind, formats)]


def gallery(directory: Path, missing: bool, target: Path | None) -> Path:
    """Write the index, after computing the studies that have no result yet, if asked for."""
    from saltus import studies, view
    from saltus.studies.collect import Run, collect

    if missing:
        _collected(collect, [Run(name) for name in studies.STUDIES], directory, resume=True)
    return view.gallery(directory, target)


def reproduce(directory: Path, target: Path, resume: bool, check: bool) -> bool:
    """Compute what the reproduction table needs and write the page, or compare; return whether all is well."""
    from saltus.studies.collect import collect
    from saltus.studies.reproduction import differences, page, papers

    runs = [item.run for paper in papers() for item in paper.items if item.study]
    results = _collected(collect, runs, directory, resume=resume)
    failed = {run: r["error"] for run, r in results.items() if "error" in r}
    for run, text in failed.items():
        err.print(f"[bold red]error:[/] {escape(run.command)}: {escape(text)}", soft_wrap=True)
    if check:
        if not target.is_file():
            raise BadValue(f"{target} is no file to compare with; write it with `saltus reproduce`", path=str(target))
        found = differences(target.read_text(encoding="utf-8"), results)
        for line in found:
            out.print(escape(line), soft_wrap=True)
        out.print(f"{len(found)} differences from {escape(str(target))}", soft_wrap=True)
        return not (found or failed)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(results), encoding="utf-8")
    out.print(escape(str(target)), soft_wrap=True)
    return not failed


def _collected(collect: Callable[..., Any], runs: list[Any], directory: Path, resume: bool) -> Any:
    """Results of studies, with a bar that says which one runs."""
    with progress_bar(False) as bar:
        task = bar.add_task("studies", total=None, note="")

        def show(run: Any, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, note=f"{done} of {total}: {run.directory}")

        return collect(runs, directory, resume=resume, progress=show)


Saved = Annotated[Path, typer.Argument(help="A run.nc, or the directory it is in.")]
Source = Annotated[
    str | None, typer.Option("--model", help="What a run was made from.", show_default="the zoo's machine of its name")
]


def register(
    app: typer.Typer, speaking: Callable[..., Any], load: Callable[[str], Any], check: Callable[[str], None]
) -> None:
    """Add the commands to the command line; `check` refuses the name of a model that does not exist."""

    def studio_(
        model: Annotated[
            str, typer.Argument(help="A machine of `saltus zoo`, a model or Python file, or a saved run.")
        ] = "bolt",
        source: Source = None,
        port: Annotated[int, typer.Option(help="Port; the next free one if it is taken.")] = 8080,
        host: Annotated[
            str | None, typer.Option(help="Address others can reach, with a token.", show_default="loopback only")
        ] = None,
        browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
    ) -> None:
        """See a machine in the browser: turn it, change its lengths, run it, find its gaits."""
        if run_file(Path(model)) is None:
            check(model)
        studio(load, model, source, port, host, browser)

    def report_(
        run: Saved,
        target: Annotated[
            Path | None, typer.Option("-o", "--out", help="File to write.", show_default="report.html beside the run")
        ] = None,
        source: Source = None,
    ) -> None:
        """Write one self-contained page about a saved run: animation, figures, tables."""
        out.print(escape(str(report(load, run, source, target))), soft_wrap=True)

    def plot_(
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
    ) -> None:
        """Draw figures of a saved run for print: vector graphics, units on every axis."""
        options = {"coordinates": coordinate or (), "since": since, "until": until, "count": count}
        for path in plot(load, run, source, kind or [], format_ or ["pdf"], target, **options):
            out.print(escape(str(path)), soft_wrap=True)

    def gallery_(
        directory: Annotated[Path, typer.Argument(help="Directory of results.")] = Path("results"),
        missing: Annotated[bool, typer.Option("--missing", help="First compute every study without a result.")] = False,
        target: Annotated[
            Path | None, typer.Option("-o", "--out", help="File to write.", show_default="index.html there")
        ] = None,
    ) -> None:
        """Write an index of all studies and runs, published against computed."""
        out.print(escape(str(gallery(directory, missing, target))), soft_wrap=True)

    def reproduce_(
        directory: Annotated[Path, typer.Option("--results", help="Directory of results.")] = Path("results"),
        target: Annotated[Path, typer.Option("-o", "--out", help="Page to write or compare with.")] = Path(
            "docs/reproduction.md"
        ),
        resume: Annotated[bool, typer.Option("--resume", help="Keep results that are there already.")] = False,
        check: Annotated[bool, typer.Option("--check", help="Compare with the page instead of writing it.")] = False,
    ) -> None:
        """Compute every published figure, table and number again and write the page that compares them."""
        if not reproduce(directory, target, resume, check):
            raise typer.Exit(1)

    app.command("studio")(speaking(studio_))
    app.command("report")(speaking(report_))
    app.command("plot")(speaking(plot_))
    app.command("gallery")(speaking(gallery_))
    app.command("reproduce")(speaking(reproduce_))
