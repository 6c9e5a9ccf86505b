"""`python -m robust contacts`: thousands of random machines that touch, each judged from outside at every event."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

from robust.draw_touching import VARIANTS, random_toucher
from robust.gathering import TouchTrial, command_line, told
from robust.judge_touching import of_run
from robust.touching import Toucher, build, run
from robust.trial import differ, where
from saltus.errors import SaltusError

TWICE = 7  # every so many machines are run twice: the same bits must come out


@dataclass(frozen=True)
class Result(TouchTrial):
    """How a trial ended: "right", "named" (refused), "painleve", "jammed", "unfinished" or "wrong"."""

    impacts: int
    seconds: float


def trial(seed: int) -> Result:
    """Run the machine of a seed."""
    given = random_toucher(seed)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        verdict, end, detail, events, impacts = _ending(given)
    return _result(given, verdict, end, detail, events, impacts, round(time.process_time() - begun, 3))


def _result(given: Toucher, verdict: str, end: str, detail: str, events: int, impacts: int, seconds: float) -> Result:
    m, sizes = given.machine, (len(given.machine.bodies), len(given.machine.loops), len(given.touches))
    return Result(
        given.seed, verdict, end, detail, given.theme, m.spatial, *sizes, given.land.kind, events, impacts, seconds
    )


def lost(seed: int, end: str, detail: str) -> Result:
    """A trial whose process gave no answer."""
    return _result(random_toucher(seed), "wrong", end, detail, 0, 0, 0.0)


_known: dict[int, Any] = {}  # the last machine built, by its structure


def _built(given: Toucher) -> Any:
    structure = given.seed // VARIANTS
    if structure not in _known:
        _known.clear()
        _known[structure] = build(random_toucher(structure * VARIANTS))
    return _known[structure]


def _ending(given: Toucher) -> tuple[str, str, str, int, int]:
    try:
        m = _built(given)
        first = run(given, m)
        if given.seed % TWICE == 0:
            unlike = differ(first, run(given, m))
            if unlike:
                return "wrong", "not the same twice", unlike, 0, 0
        return _judged(given, first)
    except SaltusError as error:
        return ("named" if len(str(error)) >= 20 else "wrong"), type(error).__name__, str(error), 0, 0
    except Exception as error:
        return "wrong", type(error).__name__, f"{error} | {where(error)}", 0, 0


def _judged(given: Toucher, first: Any) -> tuple[str, str, str, int, int]:
    outcome = first.outcome
    counts = len(first.events), sum(e.impact is not None for e in first.events)
    wrong = of_run(given, first)
    if wrong and not outcome.faults:
        return "wrong", outcome.kind, "; ".join(wrong), *counts
    if outcome.kind == "painleve" and "Painleve" in outcome.detail:
        return "painleve", outcome.kind, outcome.detail, *counts
    if outcome.kind == "jammed":
        return "jammed", outcome.kind, outcome.detail, *counts
    if not outcome.ok:
        end = f"{outcome.kind}, not ok" if outcome.kind == "finished" else outcome.kind
        return "unfinished", end, "; ".join([*outcome.faults, outcome.detail]), *counts
    return "right", outcome.kind, "", *counts


# ---- telling --------------------------------------------------------------------------------------------------------

HEAD = "## Contacts"
VERDICTS = ("right", "named", "painleve", "jammed", "unfinished", "wrong")
ABOUT = """Written by `python -m robust contacts`. A seed gives a random machine that touches, ten to a structure
(`robust/draw_touching.py`): planar or spatial, 1 to 5 links, a third with closed loops, 1 to 6 feet (points, circles,
balls), joint stops, faces of links and dry joint friction, friction from none to 100 in the extreme ones, static above
kinetic, restitution, motors with laws; on level ground, slopes, stairs, broken lines and waves; dropped, standing,
sliding along or hung up. It runs for a second.

*Right* means that a judge that shares no code with the library (`robust/judge_touching.py`) finds, around events and at
random instants: no gap below zero, no normal force below zero or across a gap, none that leaves a contact accelerating
inwards, friction within its cone and against the slip or the slip that starts, M a = h + J' f with those forces, no
energy from friction or impacts; and of every impact, impulses by Moreau's law with restitution that give its change of
velocity.
*Wrong* is what the judge finds fault with and the run itself does not: `outcome.faults` is empty. *Named* means refused
with an error, *painleve* that the run ended where the laws have no solution or several, *jammed* that motions given in
time left contacts no way but inwards, which the judge finds too, *unfinished* any other ending before time, or that the
run itself says what is not physical in it. `python -m robust contacts --seed N` shows one machine again."""


def section(records: list[dict[str, Any]]) -> str:
    """The part of the page that tells of contacts."""
    from robust.__main__ import ranges

    verdicts, themes = Counter(r["verdict"] for r in records), sorted({r["theme"] for r in records})
    ends = Counter((r["verdict"], r["end"]) for r in records)
    lines = [f"| verdict | ending | all | {' | '.join(themes)} |", "|---|---|---|" + "---|" * len(themes)]
    for key in sorted(ends, key=lambda key: (VERDICTS.index(key[0]), -ends[key])):
        mine = Counter(r["theme"] for r in records if (r["verdict"], r["end"]) == key)
        lines.append(f"| {key[0]} | {key[1]} | {ends[key]} | {' | '.join(str(mine[n] or '') for n in themes)} |")
    total = Counter(r["theme"] for r in records)
    lines.append(f"| | all | {len(records)} | {' | '.join(str(total[n]) for n in themes)} |")
    seconds = sorted(r["seconds"] for r in records)
    said = [
        HEAD,
        ABOUT,
        f"{len(records)} machines, seeds {ranges([r['seed'] for r in records])}: "
        + ", ".join(f"{verdicts[v]} {v}" for v in VERDICTS)
        + ".",
        "\n".join(lines),
        f"{sum(r['spatial'] for r in records)} are spatial, {sum(r['loops'] > 0 for r in records)} have loops, "
        "contacts "
        + ", ".join(f"{k}: {v}" for k, v in sorted(Counter(r["contacts"] for r in records).items()))
        + f"; {sum(r['events'] for r in records)} events, {sum(r['impacts'] for r in records)} impacts. A machine took "
        f"{seconds[len(seconds) // 2]:.2g} s of processor in the middle, {seconds[-1]:.2g} s at most.",
    ]
    bad = [r for r in records if r["verdict"] in ("wrong", "unfinished")]
    if bad:
        told = [f"* seed {r['seed']}: {r['verdict']}, {r['end']}: {' '.join(r['detail'].split())[:160]}" for r in bad]
        said.append("Wrong or unfinished:\n\n" + "\n".join(told))
    return "\n\n".join(said) + "\n"


def main(arguments: list[str]) -> int:
    """Parse the command line and run."""
    from robust.__main__ import results

    given = command_line(" contacts", __doc__, 10_000, "results/contacts.jsonl").parse_args(arguments)
    if given.seed is not None:
        toucher = random_toucher(given.seed)
        print(toucher.theme, toucher.land, *toucher.touches, toucher.machine, sep="\n")
        result = trial(given.seed)
        print(f"{result.verdict}: {result.end}: {result.detail} ({result.seconds} s, {result.events} events)")
        return result.verdict == "wrong"
    return told(given, lambda seeds: results(seeds, "robust.contacts"), 100, section)
