"""Free swing of the fixed leg in Saltus and in every peer: evaluations, work and precision, drift over 100 s."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from bench import Disagreement, Report, Row, field_plots, field_saltus, field_tables, race, same
from bench.evaluation import kernel
from bench.field import GOAL, LOOK, Peer, Result, Swing, field, versions

TITLE = "Free swing of BOLT's leg: 10 s to a tip error of 1e-5 m at 2 s, and 100 s (CPU time)"

SHORT, LONG = 10.0, 100.0
PATIENCE = 6.0  # CPU seconds of a long run; a peer that is slower runs for as long as that lasts
SALTUS, PORT = "Saltus", "NumPy hand port"


def run() -> Report:
    """Measure all."""
    swing, found = Swing(), dict(field())
    peers = {name: peer for name, peer in found.items() if peer is not None}
    rows, costs = evaluations(swing, peers)
    rows += [Row(name, "skipped, not installed") for name, peer in found.items() if peer is None]
    ours = [swing.judge(SALTUS, setting, SHORT) for setting in field_saltus.settings(swing)]
    theirs = {name: [swing.judge(name, s, LOOK) for s in peer.settings()] for name, peer in peers.items()}
    mine = chosen(ours)
    if not mine.good:
        raise Disagreement(f"no setting of Saltus reaches {GOAL} m; best {mine.error:.3g} m")
    bare: list[Result] = []
    if "Pinocchio" in theirs:
        # A loop in C++ is left with little but the evaluations. RK4 is a few lines there, so it is charged these alone.
        bare = [replace(r, cpu=costs["Pinocchio"][1] * r.evaluations) for r in theirs["Pinocchio"]]
        pairs = zip(theirs["Pinocchio"], bare, strict=True)
        theirs["Pinocchio"] = [alone if "RK4" in alone.setting.label else whole for whole, alone in pairs]
    rows += ratios(mine, theirs, bare)

    shown = [mine, *defaults(ours)]
    for results in theirs.values():
        shown += distinct([*defaults(results), chosen(results)])
    tight = [r for r in ours if r.setting in field_saltus.lasting(r.setting for r in ours)]
    lasting = [long_run(swing, r) for r in distinct([*tight, *shown])]
    rows += held(lasting)
    text = [
        field_tables.evaluations(costs, costs[SALTUS][1]),
        field_tables.short(shown, mine.pace),
        field_tables.long(lasting, PATIENCE),
    ]
    figures = {
        "peers_work.png": lambda path: field_plots.work({SALTUS: ours, **theirs}, path),
        "peers_drift.png": lambda path: field_plots.drift(lasting, path),
    }
    return Report(rows, "\n\n".join(text), figures)


def evaluations(swing: Swing, peers: dict[str, Peer]) -> tuple[list[Row], dict[str, tuple[str, float]]]:
    """Check that all compute the same accelerations, then time one evaluation of each in turn."""
    rhs, everything, start = kernel("fixed")
    w, p, zero = start.velocities[:1], start.p, np.zeros(1)
    _, a = everything(start.positions, w, zero, p)
    rows, what = [], {SALTUS: "SPF, loop in C"}
    timers = {SALTUS: lambda: rhs.time(20_000, [start.positions, w, zero, p])}
    for name, peer in peers.items():
        theirs = peer.acceleration(swing.q, swing.v)
        rows.append(same(f"{name} ({versions(peer)})", a, theirs, peer.TOLERANCE))
        what[name], timers[name] = peer.evaluation(swing.q, swing.v)
    least = race(timers, 5)
    return rows, {name: (what[name], seconds) for name, seconds in least.items()}


def chosen(results: Iterable[Result]) -> Result:
    """Cheapest result that reaches the goal, or the most accurate one."""
    tried = list(results)
    good = [r for r in tried if r.good]
    if good:
        return min(good, key=lambda r: r.pace)
    return min(tried, key=lambda r: r.error if math.isfinite(r.error) else math.inf)


def defaults(results: Iterable[Result]) -> list[Result]:
    """Results of settings as they come."""
    return [r for r in results if r.setting.default]


def distinct(results: Iterable[Result]) -> list[Result]:
    """One result a setting."""
    return list({(r.tool, r.setting.label): r for r in results}.values())


def ratios(mine: Result, theirs: dict[str, list[Result]], bare: list[Result]) -> list[Row]:
    """How many times our CPU time the peers take to the goal."""
    rows = []
    best = {name: chosen(results) for name, results in theirs.items()}
    reached = [r for name, r in best.items() if r.good and name != PORT]
    if reached:
        first = min(reached, key=lambda r: r.pace)
        name = f"best-tuned peer ({first.tool}, {first.setting.label}) / Saltus"
        rows.append(Row.at_least(name, first.pace / mine.pace, 20))
    order_8 = [r for r in bare if "DOP853" in r.setting.label and r.good]
    if order_8:
        ideal = min(order_8, key=lambda r: r.pace)
        name = f"bare evaluations of Pinocchio, as many as its {ideal.setting.label} takes / Saltus"
        rows.append(Row(name, f"{ideal.pace / mine.pace:.3g}x"))
    return [*rows, Row.at_least("NumPy hand port / Saltus", best[PORT].pace / mine.pace, 300)]


def long_run(swing: Swing, result: Result) -> Result:
    """The same setting over 100 s, or as far as patience goes; one that is lost within 2 s is not run again."""
    if result.lost < math.inf:
        return result
    until = LONG if result.tool == SALTUS else min(LONG, max(LOOK, math.floor(PATIENCE / result.pace)))
    again = swing.judge(result.tool, result.setting, float(until))
    return replace(again, cpu=min(again.pace, result.pace) * until)


def held(lasting: list[Result]) -> list[Row]:
    """Loops and energy of our most careful run against the best peer's, which need not be the same one."""
    ours = min((r for r in lasting if r.tool == SALTUS), key=lambda r: r.energy)
    theirs = [r for r in lasting if r.tool != SALTUS and r.lost == math.inf]
    rows = []
    for what, unit in (("gap", " m"), ("energy", "")):
        best = min(theirs, key=lambda r: getattr(r, what))
        a, b = getattr(ours, what), getattr(best, what)
        title = f"{what} over 100 s: Saltus, {ours.setting.label}, against {best.tool}, {best.setting.label}"
        rows.append(Row(title, f"{a:.1e}{unit}", f"<= {b:.1e}{unit}", a <= b))
    return rows
