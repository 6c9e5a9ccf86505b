"""study: compute a published result, compare and draw; its options are those of the study itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from saltus.cli.console import ENDED_BADLY, check_directory, out, progress_bar, telling_of_compilation
from saltus.errors import BadValue

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def study(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A name of `saltus study list`, or list.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Result directory.", show_default="results/NAME")
    ] = None,
    help_: Annotated[
        bool, typer.Option("--help", help="With a NAME: say what the study computes, its options.")
    ] = False,
) -> None:
    """Compute a published result, compare, draw its figures. Ends with code 1 if a stated agreement fails.

    Further options are those of the study, as in `saltus study compass-heelstrike --theta 40 --rho 0.25`;
    `saltus study NAME --help` lists them.
    """
    from saltus import studies

    if name is None or (help_ and name == "list"):
        out.print(context.get_help(), markup=False, highlight=False)
        return
    if help_:
        _print_help(name)
        return
    if name == "list":
        if context.args:
            raise BadValue(f"study list takes no options of a study, {' '.join(context.args)!r} was given")
        _list_studies(as_json)
        return
    options = study_options(context.args)
    directory = out_dir or Path("results") / name
    check_directory(directory)
    with progress_bar(as_json) as bar:
        task = bar.add_task(f"study {escape(name)}", total=None, note="")
        with telling_of_compilation(bar, task):
            result = studies.run(name, **options)
        bar.update(task, note="drawing")
        files = result.write(directory)
    if as_json:
        print(json.dumps({**result.as_dict(), "files": [str(f) for f in files]}, indent=2))
    else:
        _print_study(result, directory)
    if not result.agrees:
        raise typer.Exit(ENDED_BADLY)


def _print_help(name: str) -> None:
    """What a study computes and which options it takes."""
    from saltus import studies

    about, declared = studies.options(name)
    info = studies.STUDIES[name]
    out.print(f"[bold]{escape(info.title)}[/]\n{escape(info.source)}\n{escape(about)}\n", soft_wrap=True)
    if not declared:
        out.print("It takes no options of its own.")
    for option, default in declared.items():
        kind = "WORD" if isinstance(default, str) else "NUMBER"
        said = "not given" if default is None else default if isinstance(default, str) else f"{default:g}"
        out.print(f"  --{escape(option.replace('_', '-'))} {kind}  (default: {escape(said)})", soft_wrap=True)
    out.print("\n  --out DIRECTORY, --json: as for every study", soft_wrap=True)


def study_options(arguments: list[str]) -> dict[str, float | str]:
    """Turn ["--theta", "40", "--rho=0.25", "--scheme", "trapezoidal"] into numbers and words by name."""
    given: dict[str, float | str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        text = value if equals else next(words, "")
        if not name.startswith("--") or not text or text.startswith("--"):
            raise BadValue(f"study option {word!r}: write --NAME VALUE, as in --theta 40", given=word)
        option = name[2:].replace("-", "_")
        if option in given:
            raise BadValue(f"study option {name} is given twice, {given[option]} and {text}; give it once", given=word)
        try:
            given[option] = float(text)
        except ValueError:
            given[option] = text
    return given


def _list_studies(as_json: bool) -> None:
    from saltus import studies

    if as_json:
        print(
            json.dumps(
                [{"name": s.name, "title": s.title, "source": s.source} for s in studies.STUDIES.values()], indent=2
            )
        )
        return
    table = Table(box=None, pad_edge=False)
    for column in ("study", "what it computes", "published in"):
        table.add_column(column, style="cyan" if column == "study" else None)
    for s in studies.STUDIES.values():
        table.add_row(escape(s.name), escape(s.title), escape(s.source))
    out.print(table)


def _print_study(result: Any, directory: Path) -> None:
    out.print(f"[bold]{escape(result.study.title)}[/]\n{escape(result.study.source)}", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("quantity", "published", "computed", "agrees", "tolerance and why"):
        table.add_column(column, overflow="fold", no_wrap=column == "agrees")
    for c in result.comparisons:
        word = {True: "[green]yes[/]", False: "[bold red]no[/]", None: "-"}[c.agrees]
        table.add_row(escape(c.quantity), escape(c.published_text), escape(c.computed_text), word, escape(c.reason))
    out.print(table)
    for note in result.notes:
        out.print(f"[dim]note:[/] {escape(note)}", soft_wrap=True)
    out.print(f"Results in {escape(str(directory))}", soft_wrap=True)
