"""What every campaign shares: its command line, results kept in a file from which it goes on, and a page's section."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Records = list[dict[str, Any]]
Trials = Callable[[list[int]], Iterable[dict[str, Any]]]


@dataclass(frozen=True)
class Trial:
    """How the trial of a seed ended."""

    seed: int
    verdict: str
    end: str
    detail: str

    def record(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


@dataclass(frozen=True)
class TouchTrial(Trial):
    """One of machines that touch, and what they were."""

    theme: str
    spatial: bool
    links: int
    loops: int
    contacts: int
    land: str
    events: int


def command_line(name: str, about: str | None, count: int, kept: str) -> argparse.ArgumentParser:
    """Options of a campaign of so many seeds."""
    parser = argparse.ArgumentParser(prog=f"python -m robust{name}", description=about)
    parser.add_argument("--first", type=int, default=0, help="first seed (0)")
    parser.add_argument("--count", type=int, default=count, help=f"how many seeds ({count})")
    parser.add_argument("--seed", type=int, help="show this one alone")
    parser.add_argument("--results", type=Path, default=Path(kept), help="where results are kept")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; the same command goes on")
    parser.add_argument("--write", type=Path, metavar="FILE", help="renew this page's part on it")
    return parser


def gathered(given: argparse.Namespace, results: Trials, every: int) -> Records:
    """Records of all seeds asked for, one line each in a file: those that are there already are not made again."""
    given.results.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    wanted = range(given.first, given.first + given.count)
    records = {r["seed"]: r for r in known if r["seed"] in wanted}
    todo = [seed for seed in wanted if seed not in records]
    begun = time.monotonic()
    try:
        with given.results.open("a") as file:
            for done, record in enumerate(results(todo), 1):
                records[record["seed"]] = record
                file.write(json.dumps(record) + "\n")
                file.flush()
                if record["verdict"] in ("wrong", "unfinished"):
                    said = f"{record['verdict']}: {record['end']}: {record['detail'][:150]}"
                    print(f"\rseed {record['seed']}: {said}", flush=True)
                spent = time.monotonic() - begun
                if sys.stdout.isatty() or done % every == 0:
                    left = spent / done * (len(todo) - done) / 60
                    print(f"\r{len(records)} of {given.count}, {left:.0f} min left ", end="", flush=True)
                if spent > 60 * given.minutes:
                    break
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here")
    return list(records.values())


def told(given: argparse.Namespace, results: Trials, every: int, section: Callable[[Records], str]) -> bool:
    """Run a campaign, print the section of the page that tells of it and renew it there; whether any is wrong."""
    records = gathered(given, results, every)
    text = section(records)
    print("\n" + text)
    renew(given.write, text)
    return any(r["verdict"] == "wrong" for r in records)


def renew(page: Path | None, text: str) -> None:
    """Put a part of a page, which begins with its heading, into the place of the one of the same heading."""
    if page is None:
        return
    parts = re.split(r"^(?=#{1,2} )", page.read_text() if page.exists() else "", flags=re.MULTILINE)
    head = text.partition("\n")[0]
    others = [part.rstrip() for part in parts if part.strip()]
    if not any(part.partition("\n")[0] == head for part in others):
        others.append(head)
    page.write_text("\n\n".join(text.rstrip() if p.partition("\n")[0] == head else p for p in others) + "\n")


def wrong(records: Records, length: int) -> list[str]:
    """A page's paragraph on the trials that went wrong, with so many letters of what was; none if none did."""
    bad = [r for r in records if r["verdict"] == "wrong"]
    listed = "\n".join(f"* seed {r['seed']}: {r['end']}: {r['detail'][:length]}" for r in bad)
    return [f"Wrong:\n\n{listed}"] if bad else []
