"""`python -m robust`: thousands of random machines, each in a right result or a named outcome.

Trials run in a process of their own, which is stopped when one takes too long or too much memory and replaced
now and then. Results are appended to a file, one line per machine; a run that was interrupted goes on from there.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from robust.gathering import command_line, gathered, renew

SECONDS = 60.0  # of processor for one machine, all told
PATIENCE = 1200.0  # s of wall clock, for one that waits for nothing
MEMORY = 6 * 2**30  # bytes of address space
FRESH = 200  # machines a worker is given before another takes its place


class Worker:
    """A process that runs trials on request."""

    def __init__(self, cache: str, trials: str) -> None:
        self.trials = trials
        context = multiprocessing.get_context("fork")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=_serve, args=(far, self.pipe, cache, trials), daemon=True)
        self.process.start()
        far.close()
        self.served = 0

    def trial(self, seed: int) -> dict[str, Any]:
        """Return the record of a seed, whatever happens to the process."""
        self.served += 1
        self.pipe.send(seed)
        if not self.pipe.poll(PATIENCE):
            self.stop()
            return self.lost(seed, "hang", f"no answer within {PATIENCE:g} s")
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            if self.process.exitcode == -signal.SIGXCPU:
                return self.lost(seed, "hang", f"no answer within {SECONDS:g} s of processor")
            return self.lost(seed, "crash", f"the process ended with code {self.process.exitcode}")

    def lost(self, seed: int, end: str, detail: str) -> dict[str, Any]:
        """Record of a seed that gave no answer."""
        return import_module(self.trials).lost(seed, end, detail).record()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()

    @property
    def tired(self) -> bool:
        """Whether another should take its place."""
        return self.served >= FRESH or not self.process.is_alive()


def _serve(pipe: Connection, other_end: Connection, cache: str, trials: str) -> None:
    """Loop of a worker, which ends with the process that started it."""
    trial = import_module(trials).trial
    other_end.close()
    os.environ["SALTUS_CACHE_DIR"] = cache
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while True:
        try:
            seed = pipe.recv()
            limit = math.ceil(time.process_time() + SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            pipe.send(trial(seed).record())
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            return


def results(seeds: list[int], trials: str = "robust.trial") -> Iterator[dict[str, Any]]:
    """Run the trials of a module one after another; what they compile stays in $SALTUS_CACHE_DIR if that is given."""
    with tempfile.TemporaryDirectory(prefix="saltus-robust-") as own:
        cache = os.environ.get("SALTUS_CACHE_DIR", own)
        worker = Worker(cache, trials)
        try:
            for seed in seeds:
                if worker.tired:
                    worker.stop()
                    worker = Worker(cache, trials)
                yield worker.trial(seed)
        finally:
            worker.stop()


# ---- telling ----------------------------------------------------------------------------------------------------


def table(records: list[dict[str, Any]]) -> str:
    """Outcomes by theme, as Markdown."""
    themes = list(dict.fromkeys(sorted(r["theme"] for r in records)))
    ends = Counter((r["verdict"], r["end"]) for r in records)
    order = sorted(ends, key=lambda key: (("right", "named", "wrong").index(key[0]), -ends[key]))
    lines = [f"| verdict | ending | all | {' | '.join(themes)} |", "|---|---|---|" + "---|" * len(themes)]
    for verdict, end in order:
        mine = Counter(r["theme"] for r in records if (r["verdict"], r["end"]) == (verdict, end))
        cells = " | ".join(str(mine[theme]) if mine[theme] else "" for theme in themes)
        lines.append(f"| {verdict} | {end} | {ends[verdict, end]} | {cells} |")
    total = Counter(r["theme"] for r in records)
    lines.append(f"| | all | {len(records)} | {' | '.join(str(total[theme]) for theme in themes)} |")
    return "\n".join(lines)


def page(records: list[dict[str, Any]]) -> str:
    """The whole page for the documentation."""
    verdicts = Counter(r["verdict"] for r in records)
    wrong = [r for r in records if r["verdict"] == "wrong"]
    seconds = sorted(r["seconds"] for r in records)
    parts = [Counter(r[key] for r in records) for key in ("engine", "formulation", "spatial", "loops", "links")]
    engine, formulation, spatial, loops, links = parts
    said = [
        INTRODUCTION,
        f"{len(records)} machines, seeds {ranges([r['seed'] for r in records])}: "
        f"{verdicts['right']} right, {verdicts['named']} ended in a named error or outcome, {verdicts['wrong']} wrong.",
        table(records),
        "What they were: "
        + "; ".join(
            [
                f"{spatial[True]} spatial, {spatial[False]} planar",
                "links " + _listed(links),
                "loops " + _listed(loops),
                "engines " + _listed(engine),
                "formulations " + _listed(formulation),
            ]
        )
        + ".",
        _end_states(records),
        f"A machine took {seconds[len(seconds) // 2]:.2g} s of processor in the middle, {seconds[-1]:.2g} s at most.",
    ]
    if wrong:
        said.append(
            "Wrong:\n\n"
            + "\n".join(f"* seed {r['seed']}: {r['end']}: {' '.join(r['detail'].split())[:200]}" for r in wrong)
        )
    return "\n\n".join(said) + "\n"


def _end_states(records: list[dict[str, Any]]) -> str:
    """What the second judge said."""
    given = [r["compared"] for r in records if r["verdict"] == "right"]
    off = sorted(float(text) for text in given if text and not text.startswith("no"))
    why = Counter(text.split(": ")[1].split(" at ")[0].split(" grow")[0] for text in given if text.startswith("no"))
    if not off:
        return "No end state was compared."
    fine = sorted(
        float(r["compared"])
        for r in records
        if r["formulation"] == "default" and r["verdict"] == "right" and r["compared"][:1].isdigit()
    )
    middle = f"; with the defaults {fine[len(fine) // 2]:.1g} in the middle and {fine[-1]:.1g} at most" if fine else ""
    return (
        f"End states of {len(off)} of the {len(given)} right ones were compared with the second judge's: off by "
        f"{off[len(off) // 2]:.1g} in the middle, {off[-1]:.1g} at most (loose tolerances included){middle}. "
        f"No opinion on the others: {_listed(why)}."
    )


def ranges(seeds: list[int]) -> str:
    """Seeds that were run, as ranges: a run that was interrupted leaves some out."""
    ordered = sorted(seeds)
    begins = [s for i, s in enumerate(ordered) if i == 0 or ordered[i - 1] != s - 1]
    ends = [s for i, s in enumerate(ordered) if i + 1 == len(ordered) or ordered[i + 1] != s + 1]
    return ", ".join(f"{a} to {b}" for a, b in zip(begins, ends, strict=True))


def _listed(count: Counter[Any]) -> str:
    return ", ".join(f"{key}: {count[key]}" for key in sorted(count))


INTRODUCTION = """# Robustness

Written by `make robust`; do not edit. A seed gives a random machine, its start and how it is run
(`robust/draw.py`): planar and spatial, 2 to 12 links, all kinds of joints, up to four loops that close, may not
close, are redundant or singular, linkages that turn through dead centres, tables on more cranks than they need,
springs, dampers, motors, given motions, links without mass, soft ground, feet that stick, slide, hop and bounce, masses
and lengths over many orders of magnitude, and input that is plainly wrong. More than half name neither formulation
nor engine nor tolerance. It is assembled and run for a second, twice by the same call: the same bits must come out.

*Right* means that checks which share no code with the library agree (`robust/judge.py`): loops closed, Kane's equations
and the constraints' accelerations at the first and last instant, energies, the energy account, momentum of machines
that float, unit quaternions, impacts that take energy, passive parts that do no work. A second judge
(`robust/maximal.py`) integrates the machine by itself, as free bodies held together by their joints, or along the
closed form of its motion where it passes dead centres, and compares end states: they may differ by a thousand
tolerances and 1e-7, times what small changes of the start grow by. *Named* means an error of the library or an outcome
that says what is the matter. Anything else is *wrong*: another exception, a number that is not finite, two answers to
one call, a process that crashes or hangs. `python -m robust --seed N` shows one machine again."""


def show(seed: int) -> int:
    """One machine at length."""
    from robust.draw import random_machine
    from robust.trial import trial

    machine = random_machine(seed)
    for name in machine.__dataclass_fields__:
        print(f"{name}: {getattr(machine, name)}")
    result = trial(seed)
    print(f"\n{result.verdict}: {result.end}: {result.detail} ({result.seconds} s)")
    return result.verdict == "wrong"


def main() -> int:
    """Parse the command line and run."""
    given = command_line("", __doc__, 10_000, "results/robust.jsonl").parse_args()
    if given.seed is not None:
        return show(given.seed)
    records = gathered(given, results, every=100)
    print("\n" + table(records))
    if records:
        renew(given.write, page(records))
    return any(r["verdict"] == "wrong" for r in records)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.argv[1:2] == ["attacks"]:
        from robust import attacks

        raise SystemExit(attacks.main(sys.argv[2:]))
    if sys.argv[1:2] == ["contacts"]:
        from robust import contacts

        raise SystemExit(contacts.main(sys.argv[2:]))
    if sys.argv[1:2] == ["batches"]:
        from robust import batches

        raise SystemExit(batches.main(sys.argv[2:]))
    raise SystemExit(main())
