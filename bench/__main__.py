"""`python -m bench [names...] [--write FILE]`: run some or all benchmarks and print their tables."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from bench import Report, Row

SUBJECTS = (
    "startup",
    "assembly",
    "evaluation",
    "swing",
    "running",
    "batch",
    "ground",
    "orbits",
    "design",
    "tail",
    "planning",
    "export",
    "studio",
    "scaling",
)
PACKAGES = ("saltus", "casadi", "numpy", "scipy", "pin", "mujoco", "drake", "exudyn", "sympy", "pydy")


def machine() -> str:
    """Processor, compiler and versions."""
    from saltus.compile import find_compiler

    names = [x.partition(":")[2].strip() for x in _cpuinfo() if x.startswith("model name")]
    compiler = find_compiler()
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    return (
        f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores; Python {platform.python_version()}; "
        f"{compiler.version if compiler else 'no C compiler'}; {', '.join(versions)}"
    )


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def table(title: str, rows: list[Row]) -> str:
    """One subject as Markdown, which is readable as text too."""
    lines = [f"## {title}", "", "| what | measured | target | met |", "|---|---|---|---|"]
    verdict = {True: "yes", False: "no", None: ""}
    lines += [f"| {r.what} | {r.measured} | {r.target} | {verdict[r.met]} |" for r in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(SUBJECTS)}; all without a name")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also put the tables into a Markdown file")
    words = sys.argv[1:]
    if words[:1] == ["robots"]:  # a survey of files of one's own
        from bench import robots

        print(table(robots.TITLE, robots.main(words[1:]).rows))
        return
    if words[:1] == ["learning"]:  # twenty minutes
        from bench import learning

        report = learning.run()
        print(table(learning.TITLE, report.rows) + f"\n{report.text}\n")
        return
    given = parser.parse_args(words)
    unknown = sorted(set(given.names) - set(SUBJECTS))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    for name in given.names or SUBJECTS:
        module = importlib.import_module(f"bench.{name}")
        found = module.run()
        report = found if isinstance(found, Report) else Report(found)
        part = table(module.TITLE, report.rows) + (f"\n{report.text}\n" if report.text else "")
        print(part, flush=True)
        if given.write is not None:
            put(given.write, module.TITLE, part)
            for file, draw in report.figures.items():
                draw(given.write.parent / "images" / file)


def put(page: Path, title: str, part: str) -> None:
    """Put one subject into its place on a page, at once: what was measured stays when the rest is interrupted."""
    old = page.read_text().split("\n## ")[1:] if page.exists() else []
    parts = {x.partition("\n")[0]: f"## {x.strip()}\n" for x in old} | {title: part}
    titles = [importlib.import_module(f"bench.{name}").TITLE for name in SUBJECTS]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(INTRODUCTION.format(machine=machine()) + "\n" + "\n".join(parts[t] for t in titles if t in parts))


INTRODUCTION = """# Benchmarks

Written by `python -m bench --write docs/benchmarks.md`; do not edit. Every line compares in one process, after
a check that both sides compute the same thing. Times are the least of several; read the ratios, since the
machine may be shared. `python -m bench NAME` runs one table, `make bench` installs the peers and writes this page; a
table stays as it was until it is measured again.

{machine}.
"""

if __name__ == "__main__":
    main()
