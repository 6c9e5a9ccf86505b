"""The page of the command line, from the commands themselves: `.. commands::` becomes one section for each."""

import click
import typer
from public_names import escaped
from sphinx.application import Sphinx

from saltus.cli.app import app as commands


def section(name: str, command: click.Command) -> str:
    """A command with its arguments and options."""
    context = click.Context(command, info_name=f"saltus {name}")
    usage = " ".join([f"saltus {name}", *command.collect_usage_pieces(context)])
    lines = [f"saltus {name}", "-" * (len(name) + 7), "", _plain(command.help), "", "::", "", f"   {usage}", ""]
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None and record[0] != "--help":
            lines += [f"``{record[0]}``", f"   {_plain(record[1]) or 'required'}", ""]
    return "\n".join(lines)


def _plain(text: str | None) -> str:
    return escaped(" ".join((text or "").split()))


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill in the page."""
    if docname == "api/command_line":
        group = typer.main.get_command(commands)
        found = "\n".join(section(name, command) for name, command in group.commands.items())
        source[0] = source[0].replace(".. commands::", found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook into the build."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
