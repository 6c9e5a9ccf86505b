"""`python -m robust batches`: random batches, each copy compared with its event-exact run as steps get finer."""

from __future__ import annotations

import signal
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import saltus as sl
from robust.build import control
from robust.draw_touching import VARIANTS, random_toucher, varied
from robust.gathering import TouchTrial, command_line, told, wrong
from robust.touching import Toucher, build
from robust.trial import where
from saltus.errors import SaltusError

COPIES = 4
STRUCTURES = 100  # after so many batches the same machines come again, with other numbers
UNTIL = 0.25  # s
LEVELS = ((1e-3, 1e-6), (1.25e-4, 1e-8), (1.5625e-5, 1e-10))  # step (s), tolerance; the last leaves out no more bounces
EXACT, STEPS = 1e-12, 20_000  # tolerance of the runs they are compared with, and the most steps of one
CLOSE = 1e-6  # of one plus the size of positions: so near to the event-exact run a copy of the last level is right
SHAKEN = 1e-7  # by this share speeds, masses and frictions are changed, to see what small changes grow to
GROWN = 1.0  # a copy may be off by as much as that change makes
PATIENCE = 6.0  # s of processor for one of those runs
FATES = ("right", "grows", "lost", "doubted", "no reference", "wrong")


@dataclass(frozen=True)
class Result(TouchTrial):
    """How a batch ended: "right", "named" (refused) or "wrong"; and what became of its copies."""

    copies: dict[str, int]
    off: list[float]  # the largest difference of a right copy at every level
    seconds: float


def touchers(seed: int) -> list[Toucher]:
    """Copies of a batch: machines of one structure, with numbers of their own."""
    first = random_toucher(seed % STRUCTURES * VARIANTS)
    return [varied(first, 10**6 + COPIES * seed + k) if k or seed >= STRUCTURES else first for k in range(COPIES)]


def trial(seed: int) -> Result:
    """Run the batch of a seed."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        try:
            found = _compared(touchers(seed), build(random_toucher(seed % STRUCTURES * VARIANTS)))
        except SaltusError as error:
            found = ("named" if len(str(error)) >= 20 else "wrong"), type(error).__name__, str(error), 0, {}, []
        except Exception as error:
            found = "wrong", type(error).__name__, f"{error} | {where(error)}", 0, {}, []
    return _result(seed, *found, round(time.process_time() - begun, 3))


def lost(seed: int, end: str, detail: str) -> Result:
    """A trial whose process gave no answer."""
    return _result(seed, "wrong", end, detail, 0, {}, [], 0.0)


def _result(
    seed: int, verdict: str, end: str, detail: str, events: int, copies: dict, off: list[float], seconds: float
) -> Result:
    given = random_toucher(seed % STRUCTURES * VARIANTS)
    m, sizes = given.machine, (len(given.machine.bodies), len(given.machine.loops), len(given.touches))
    return Result(
        seed, verdict, end, detail, given.theme, m.spatial, *sizes, given.land.kind, events, copies, off, seconds
    )


# ---- runs -----------------------------------------------------------------------------------------------------------


def _law(given: Toucher, m: Any) -> Any:
    """Its control; one that is sampled is left out, since a batch takes that as actions."""
    law = control(given.machine, m)
    return None if isinstance(law, sl.control.Sampled) else law


def _start(given: Toucher, m: Any, shaken: float = 0.0) -> Any:
    machine = given.machine
    rates = {n: float(machine.v[machine.v_names.index(n)]) * (1 + shaken) for n in machine.rates}
    near_by = dict(zip(m.q_names, machine.q.tolist(), strict=True))
    params = {name: value * (1 - shaken) for name, value in given.params.items()}
    return m.assemble(near=near_by, rates=rates, params=params)


def _exact(given: Toucher, m: Any, shaken: float = 0.0) -> Any:
    """The event-exact run; an error where it takes too long, as those do that bounce without end."""
    ground = {"ground": given.land.made()} if any(x.kind == "foot" for x in given.touches) else {}
    start, law = _start(given, m, shaken), _law(given, m)
    signal.signal(signal.SIGVTALRM, _late)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        return sl.simulate(m, start, until=UNTIL, control=law, tolerance=EXACT, max_steps=STEPS, **ground)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _reference(given: Toucher, m: Any) -> Any:
    """The event-exact run to the end; None where there is none."""
    try:
        run = _exact(given, m)
    except SaltusError:
        return None
    return run if run.outcome.ok else None


def _late(number: int, frame: Any) -> None:
    raise SaltusError(f"the event-exact run takes more than {PATIENCE:g} s")


def _batch(given: list[Toucher], m: Any, step: float, tolerance: float) -> Any:
    ground = {"ground": [x.land.made() for x in given]} if any(x.kind == "foot" for x in given[0].touches) else {}
    if ground and given[0].land.kind == "terrain":
        ground = {"ground": ground["ground"][0]}
    law = _law(given[0], m)
    batch = sl.Batch(m, len(given), step=step, control=law, tolerance=tolerance, threads=1, **ground)
    batch.reset([_start(x, m) for x in given])
    batch.step(times=round(UNTIL / step))
    return batch


def _compared(given: list[Toucher], m: Any) -> tuple[str, str, str, int, dict[str, int], list[float]]:
    exacts = [_reference(one, m) for one in given]
    if not any(exacts):
        return "named", "no reference", "simulate refuses or ends before its time", 0, {"no reference": len(given)}, []
    batches = [_batch(given, m, *level) for level in LEVELS]
    again = _batch(given[::-1], m, *LEVELS[0])
    if again.state.q[::-1].tobytes() != batches[0].state.q.tobytes():
        return "wrong", "bits", "the order of the copies changes their numbers", 0, {}, []
    fates, wrong, events, off = Counter[str](), list[str](), 0, np.zeros(len(LEVELS))
    for k, (one, exact) in enumerate(zip(given, exacts, strict=True)):
        if exact is None:
            fates["no reference"] += 1
            continue
        fate, apart = _fate(one, m, k, batches, exact)
        fates[fate] += 1
        if fate == "right":
            off = np.maximum(off, apart)
            events += len(exact.events)
        if fate == "wrong":
            last = f"{len(exact.events)} events, the last {exact.events[-1].name}" if exact.events else "no events"
            wrong.append(f"copy {k} is off by {', '.join(f'{x:.1e}' for x in apart)} ({last})")
    found = {fate: fates[fate] for fate in FATES if fates[fate]}
    return ("wrong" if wrong else "right"), "compared", "; ".join(wrong), events, found, off.tolist()


def _fate(one: Toucher, m: Any, k: int, batches: list[Any], exact: Any) -> tuple[str, np.ndarray]:
    size = 1 + np.abs(exact.end.positions)
    apart = np.array([np.abs((b.state.q[k] - exact.end.positions) / size).max() for b in batches])
    if batches[-1].lost[k]:
        return "lost", apart
    if apart[-1] <= CLOSE:
        return "right", apart
    try:
        other = [_exact(one, m, share) for share in (SHAKEN, -SHAKEN)]
        grown = max(np.abs((x.end.positions - exact.end.positions) / size).max() for x in other)
        if not all(x.outcome.ok for x in other):
            return "grows", apart
    except SaltusError:
        return "grows", apart
    if apart[-1] <= GROWN * grown:
        return "grows", apart
    return ("doubted" if batches[-1].doubts[k] else "wrong"), apart


# ---- telling --------------------------------------------------------------------------------------------------------

ABOUT = """## Batches

Written by `python -m robust batches`. A seed gives a batch of four machines of one structure, with numbers and ground
of their own, as in the contacts above; there are a hundred structures. It runs for 0.25 s with steps of 1, 0.125 and
0.0156 ms at tolerances of 1e-6, 1e-8 and 1e-10; each copy is compared with `simulate` at 1e-12. At the finest level a
batch leaves out the bounces that `simulate` leaves out, those below 2e-5 m/s, and no others. *Right* are copies within
1e-6 of it at that level. *Grows*: within what speeds, masses and frictions that differ by 1e-7 make.
*Lost*: the batch says that loops passed a dead centre or opened. *Doubted*: `doubts` says that the motion was one of
several. *No reference*: `simulate` refuses or ends before its time. Anything else is *wrong*, and so is a batch whose
bits depend on the order of its copies. `python -m robust batches --seed N` shows one again."""


def section(records: list[dict[str, Any]]) -> str:
    """The part of the page."""
    verdicts = Counter(r["verdict"] for r in records)
    fates = Counter[str]()
    for r in records:
        fates.update(r["copies"])
    right = [r for r in records if r["verdict"] == "right"]
    off = np.array([r["off"] for r in right if r["off"] and r["off"][0] > 0] or [[0.0] * len(LEVELS)])
    lines = [
        "| step | tolerance | largest difference in the middle | in 9 of 10 batches | at most |",
        "|---|---|---|---|---|",
    ]
    for (step, tolerance), column in zip(LEVELS, off.T, strict=True):
        middle, most = np.quantile(column, [0.5, 0.9])
        lines.append(f"| {step * 1e3:g} ms | {tolerance:g} | {middle:.1e} | {most:.1e} | {column.max():.1e} |")
    seconds = sorted(r["seconds"] for r in records)
    lands = Counter(r["land"] for r in right)
    said = [
        ABOUT,
        f"{len(records)} batches: {verdicts['right']} right, {verdicts['named']} refused with an error or without a "
        f"reference, {verdicts['wrong']} wrong. Copies: " + ", ".join(f"{fates[fate]} {fate}" for fate in FATES) + ".",
        "\n".join(lines),
        f"Of the right ones {sum(r['spatial'] for r in right)} are spatial, {sum(r['loops'] > 0 for r in right)} have "
        "loops, on "
        + ", ".join(f"{kind}: {count}" for kind, count in sorted(lands.items()))
        + "; contacts "
        + ", ".join(f"{k}: {v}" for k, v in sorted(Counter(r["contacts"] for r in right).items()))
        + f"; {sum(r['events'] for r in right)} events. A batch took {seconds[len(seconds) // 2]:.2g} s of processor "
        f"in the middle, {seconds[-1]:.2g} s at most.",
    ]
    return "\n\n".join([*said, *wrong(records, 160)]) + "\n"


def main(arguments: list[str]) -> int:
    """Parse the command line and run."""
    from robust.__main__ import results

    given = command_line(" batches", __doc__, 1000, "results/batches.jsonl").parse_args(arguments)
    if given.seed is not None:
        first = touchers(given.seed)[0]
        print(first.theme, first.land, *first.touches, first.machine, sep="\n")
        result = trial(given.seed)
        print(f"{result.verdict}: {result.end}: {result.detail} {result.copies} {result.off} ({result.seconds} s)")
        return result.verdict == "wrong"
    return told(given, lambda seeds: results(seeds, "robust.batches"), 50, section)
