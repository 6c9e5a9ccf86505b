"""The command line: every command, and how each says what went wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from saltus import __version__
from saltus.cli import doctor, files, learning, pages, running, studying, sweeping, turning
from saltus.cli.console import out, speaking

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Legged machines with closed kinematic chains: simulate, study, report.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        out.print(f"saltus {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


for command in (
    running.run,
    running.demo,
    turning.inverse,
    files.zoo,
    files.new,
    files.check,
    files.export,
    sweeping.sweep,
    learning.train,
    pages.studio,
    pages.report,
    pages.plot,
    pages.gallery,
    pages.reproduce,
    doctor.doctor,
):
    app.command(command.__name__)(speaking(command))
app.command("study", context_settings=studying.SETTINGS)(speaking(studying.study))

if __name__ == "__main__":
    app()
