"""Commands for looking: studio, report, gallery; registered by the command line."""

from __future__ import annotations

import functools
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from saltus.errors import BadValue, SaltusError

out = Console(highlight=False)


def studio(load: Callable[[str], Any], model: str, port: int, host: str | None, browser: bool) -> None:
    """Serve until Ctrl-C."""
    from saltus.studio import serve

    running = serve(functools.partial(load, model), port=port, host=host)
    out.print(f"Studio of {escape(model)}: {escape(running.url)}  (Ctrl-C ends it)", soft_wrap=True)
    if browser:
        webbrowser.open(running.url)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        running.stop()


def report(load: Callable[[str], Any], run: Path, model: str | None, target: Path | None) -> Path:
    """Write the report of a saved run."""
    import saltus as sl

    file = run / "run.nc" if run.is_dir() else run
    trajectory = sl.load(file)
    system = _system(load, trajectory, model)
    trajectory.mechanism = system.mechanism
    return sl.view.report(trajectory, target or file.with_name("report.html"), system=system)


def _system(load: Callable[[str], Any], run: Any, model: str | None) -> Any:
    """The machine of a saved run: the one named, or the machine of the zoo with the run's name."""
    name = model or run.meta["name"].lower().replace(" ", "-")
    try:
        system = load(name).system
    except SaltusError as problem:
        if model is not None:
            raise
        raise BadValue(
            f"the run is of {run.meta['name']!r}, which is not in the zoo; say what it was made from with --model FILE"
        ) from problem
    if list(system.mechanism.q_names) != list(run.meta["q_names"]):
        raise BadValue(f"{name} has other coordinates than the run of {run.meta['name']!r}; give --model FILE")
    return system


def gallery(directory: Path, missing: bool, target: Path | None) -> Path:
    """Write the index, after computing the studies that have no result yet, if asked for."""
    from saltus import studies, view

    for name in studies.STUDIES if missing else ():
        if not (directory / name / "result.json").is_file():
            out.print(f"study {escape(name)}", soft_wrap=True)
            studies.run(name).write(directory / name)
    return view.gallery(directory, target)


def register(app: typer.Typer, speaking: Callable[..., Any], load: Callable[[str], Any]) -> None:
    """Add the commands to the command line."""

    def studio_(
        model: Annotated[str, typer.Argument(help="A machine of `saltus zoo`, or a model or Python file.")] = "bolt",
        port: Annotated[int, typer.Option(help="Port; the next free one if it is taken.")] = 8080,
        host: Annotated[
            str | None, typer.Option(help="Address others can reach, with a token.", show_default="loopback only")
        ] = None,
        browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
    ) -> None:
        """See a machine in the browser: turn it, change its lengths, run it, find its gaits."""
        studio(load, model, port, host, browser)

    def report_(
        run: Annotated[Path, typer.Argument(help="A run.nc, or the directory it is in.")],
        target: Annotated[
            Path | None, typer.Option("-o", "--out", help="File to write.", show_default="report.html beside the run")
        ] = None,
        model: Annotated[
            str | None, typer.Option(help="What the run was made from.", show_default="the zoo's machine of its name")
        ] = None,
    ) -> None:
        """Write one self-contained page about a saved run: animation, figures, tables."""
        out.print(escape(str(report(load, run, model, target))), soft_wrap=True)

    def gallery_(
        directory: Annotated[Path, typer.Argument(help="Directory of results.")] = Path("results"),
        missing: Annotated[bool, typer.Option("--missing", help="First compute every study without a result.")] = False,
        target: Annotated[
            Path | None, typer.Option("-o", "--out", help="File to write.", show_default="index.html there")
        ] = None,
    ) -> None:
        """Write an index of all studies and runs, published against computed."""
        out.print(escape(str(gallery(directory, missing, target))), soft_wrap=True)

    app.command("studio")(speaking(studio_))
    app.command("report")(speaking(report_))
    app.command("gallery")(speaking(gallery_))
