"""`python -m robust attacks`: hostile and damaged input by the thousand, each refused by name or harmless.

A seed gives one attack. Attacks run in a process of their own, which is replaced when it hangs or crashes; in it,
whatever would run a program or open a connection is noted. Results are appended to a file, one line per attack; a run
that was interrupted goes on from there.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from robust import attacks_data, attacks_files, attacks_robots, attacks_studio, attacks_threads
from robust.gathering import command_line, told, wrong
from robust.wrong import Wrong
from saltus.errors import SaltusError

SECONDS = 90.0  # of wall clock, after which an attack has hung
CPU = 10.0  # s of processor that one may take
MEMORY = 6 * 2**30  # bytes of address space
FRESH = 2000  # attacks before a process is replaced
WATCHED = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect", "pty.spawn")
QUIET = ("kills", "threads")  # campaigns that start processes and compilers themselves


@dataclass(frozen=True)
class Result:
    """What one attack came to: "refused" by a named error, "harmless", or "wrong"."""

    seed: int
    campaign: str
    verdict: str
    end: str
    detail: str
    seconds: float


Attack = Callable[[int, Path], str]  # of a seed and an empty folder; says how it ended, or raises


def campaigns() -> dict[str, tuple[int, Attack]]:
    """Share of a thousand, and the attack, by name."""
    return {
        "model files": (180, attacks_files.model_file),
        "robots": (200, attacks_robots.robot),
        "runs": (220, attacks_data.run_file),
        "families": (20, attacks_data.family_file),
        "sweep stores": (96, attacks_data.sweep_store),
        "names": (18, attacks_files.names),
        "results": (20, attacks_data.result_file),
        "requests": (240, attacks_studio.request),
        "kills": (2, attacks_studio.kill),
        "threads": (4, attacks_threads.together),
    }


def chosen(seed: int) -> tuple[str, Attack]:
    """Campaign of a seed."""
    place = seed * 617 % 1000  # spread, so that a short run has some of each
    for name, (share, attack) in campaigns().items():
        if place < share:
            return name, attack
        place -= share
    raise AssertionError("shares do not add up to a thousand")


# ---- one attack ----------------------------------------------------------------------------------------------------

_ran: list[str] = []


def _watch(event: str, _given: Any) -> None:
    if event in WATCHED:
        _ran.append(event)


def attack(seed: int, folder: Path) -> Result:
    """Carry out one attack; anything but an error of the library or a harmless end is wrong."""
    name, act = chosen(seed)
    begin = time.process_time()
    _ran.clear()
    try:
        verdict, end, detail = "harmless", act(seed, folder), ""
    except SaltusError as error:
        verdict, end, detail = "refused", type(error).__name__, str(error)[:300]
        if len(detail) < 15:
            verdict, end = "wrong", "says nothing"
    except Wrong as error:
        verdict, end, detail = "wrong", "had an effect", str(error)[:300]
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        verdict, end = "wrong", "raw error"
        detail = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"[:300]
    seconds = time.process_time() - begin
    if any(p.name == "PWNED" for p in folder.rglob("*")) or (_ran and name not in QUIET):
        verdict, end, detail = "wrong", "ran code", f"{', '.join(_ran) or 'a file was made'}; {detail}"[:300]
    elif seconds > CPU:
        verdict, end, detail = "wrong", "slow", f"{seconds:.1f} s; {detail}"[:300]
    return Result(seed, name, verdict, end, detail, round(seconds, 3))


def _serve(pipe: Connection) -> None:
    """Loop of the process, which ends with the one that started it."""
    attacks_files.prepare()
    attacks_data.prepare()
    pipe.send("ready")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_watch)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)  # what libraries print of damaged files
    while True:
        try:
            seed = pipe.recv()
            with tempfile.TemporaryDirectory(prefix="saltus-attack-") as folder:
                os.chdir(folder)
                result = asdict(attack(seed, Path(folder)))
                os.chdir("/")
            pipe.send(result)
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            return


class Victim:
    """A process that attacks are carried out in."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # libraries with threads of their own do not survive a fork
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=_serve, args=(far,))
        self.process.start()
        far.close()
        self.pipe.recv()
        self.served = 0

    def suffer(self, seed: int) -> dict[str, Any]:
        """Record of a seed, whatever happens to the process."""
        self.served += 1
        self.pipe.send(seed)
        if not self.pipe.poll(SECONDS):
            self.stop()
            return asdict(Result(seed, chosen(seed)[0], "wrong", "hang", f"no answer in {SECONDS:g} s", SECONDS))
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            return asdict(Result(seed, chosen(seed)[0], "wrong", "crash", f"the process ended with code {code}", 0.0))

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()


def results(seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Carry out attacks one after another."""
    victim = Victim()
    try:
        for seed in seeds:
            if victim.served >= FRESH or not victim.process.is_alive():
                victim.stop()
                victim = Victim()
            yield victim.suffer(seed)
    finally:
        victim.stop()


# ---- telling -------------------------------------------------------------------------------------------------------

HEAD = "## Attacks"
ABOUT = """Written by `python -m robust attacks`. A seed gives one attack: a mutant of a model file (YAML, JSON, MJCF,
URDF, an expression); a robot as people have it (MJCF, URDF, SDF) with other numbers and names, elements left out or
doubled, and parts outside of its folder, read with any options to its start and its equations; a saved run with flipped
bits, cut, or with a hostile header or contents under a right checksum, and the name of a Python file that lies beside
it; a family of orbits and a study's result with other numbers and names; a sweep store with flipped bits and missing
chunks; names made of markup, formulas, escapes and control characters through every output; requests to the studio with
foreign origins, hosts, cookies, broken heads and links with spoiled states; kills of sweeps, workers and pages; five
threads at once that simulate on every engine, assemble, find orbits, plan, draw, read and write, on one machine and on
several, whose results must have the bits they have alone. *Refused* means an error of the library that says what is the
matter. *Harmless* means that it was accepted and is right: a mutant that is still a machine, a flip in a byte that
nothing uses, a name that came out as the text it is. Anything else is *wrong*: code that ran, another exception, a
number that changed, a process that crashed, more than 10 s of processor. `python -m robust attacks --seed N` shows one
again."""


def section(records: list[dict[str, Any]]) -> str:
    """The part of the page that tells of the attacks."""
    verdicts = Counter(r["verdict"] for r in records)
    names = list(campaigns())
    ends = Counter((r["verdict"], r["end"]) for r in records)
    lines = [f"| verdict | ending | all | {' | '.join(names)} |", "|---|---|---|" + "---|" * len(names)]
    for verdict, end in sorted(ends, key=lambda key: (("refused", "harmless", "wrong").index(key[0]), -ends[key])):
        mine = Counter(r["campaign"] for r in records if (r["verdict"], r["end"]) == (verdict, end))
        lines.append(f"| {verdict} | {end} | {ends[verdict, end]} | {' | '.join(str(mine[n] or '') for n in names)} |")
    total = Counter(r["campaign"] for r in records)
    lines.append(f"| | all | {len(records)} | {' | '.join(str(total[n]) for n in names)} |")
    count = f"{len(records)} attacks: " + ", ".join(f"{verdicts[v]} {v}" for v in ("refused", "harmless", "wrong"))
    slowest = max(r["seconds"] for r in records)
    said = [HEAD, ABOUT, f"{count}. The slowest took {slowest:.2g} s of processor.", "\n".join(lines)]
    return "\n\n".join([*said, *wrong(records, 200)]) + "\n"


def main(arguments: list[str]) -> int:
    """Parse the command line and run."""
    given = command_line(" attacks", __doc__, 100_000, "results/attacks.jsonl").parse_args(arguments)
    if given.seed is not None:
        with tempfile.TemporaryDirectory(prefix="saltus-attack-") as folder:
            os.chdir(folder)
            result = attack(given.seed, Path(folder))
        print(f"{result.campaign}: {result.verdict}: {result.end}: {result.detail} ({result.seconds} s)")
        return result.verdict == "wrong"
    return told(given, results, 1000, section)
