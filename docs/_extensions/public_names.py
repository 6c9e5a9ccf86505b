"""API pages from the package's own list of public names.

A line `.. public-names:: saltus.model saltus.hybrid.graph` in a page becomes the documentation of every public name
that lives below these modules, in the order of `saltus._HOME`; `.. public-module:: saltus.zoo` that of a module's
`__all__`. Docstrings are plain text: code in backticks and indented formulas are set as such, nothing else is markup.
"""

import importlib
import re

from sphinx.application import Sphinx

import saltus


def entry(module: str, name: str) -> list[str]:
    """The autodoc lines of one name of a module."""
    thing = getattr(importlib.import_module(module), name)
    kind = "autoclass" if isinstance(thing, type) else "autofunction" if callable(thing) else "autodata"
    kind = "autoexception" if kind == "autoclass" and issubclass(thing, BaseException) else kind
    options = ["   :no-value:"] if kind == "autodata" else []
    return [f".. {kind}:: {module}.{name}", *options, ""]


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the marker lines of a page."""

    def of_homes(match: re.Match[str]) -> str:
        homes = tuple(match[1].split())
        below = tuple(f"{home}." for home in homes)
        mine = [n for n, home in saltus._HOME.items() if home in homes or home.startswith(below)]
        return "\n".join(line for name in mine for line in entry("saltus", name))

    def of_module(match: re.Match[str]) -> str:
        module = importlib.import_module(match[1])
        listed = getattr(module, "__all__", None) or [
            name
            for name, thing in vars(module).items()
            if getattr(thing, "__module__", "") == match[1] and name[0] != "_"
        ]
        own = [name for name in listed if name not in saltus._HOME]  # those at the top are listed there
        return "\n".join(line for name in own for line in entry(match[1], name))

    if docname.startswith("api/"):
        source[0] = re.sub(r"^\.\. public-names:: (.+)$", of_homes, source[0], flags=re.M)
        source[0] = re.sub(r"^\.\. public-module:: (\S+)$", of_module, source[0], flags=re.M)


def as_text(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Make a docstring valid reStructuredText that shows what was typed."""
    out: list[str] = []
    for line in lines:
        formula = line.startswith("    ")
        if formula and out and not out[-1].startswith("    "):
            out += ["", "::", ""]
        elif not formula and out and out[-1].startswith("    "):
            out.append("")
        out.append(line if formula else escaped(line))
    lines[:] = out


def escaped(line: str) -> str:
    """Set code in backticks as code and take everything else as it is."""
    pieces = re.split(r"`+([^`]+)`+", line)
    return "".join(f"``{piece}``" if i % 2 else re.sub(r"([\\*_|`])", r"\\\1", piece) for i, piece in enumerate(pieces))


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook both into the build."""
    app.connect("source-read", expand)
    app.connect("autodoc-process-docstring", as_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
