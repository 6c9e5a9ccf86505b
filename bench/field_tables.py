"""Results of the free swing as Markdown: one evaluation, 10 s, 100 s."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from bench import micro
from bench.field import Result

SWEEP = (
    "Saltus runs 10 s with all of `simulate`; peers run 2 s and their CPU time is taken five times. Each is shown as "
    "it comes (default) and with the cheapest setting found that reaches 1e-5 m and keeps the energy to 1e-3, or "
    "the most accurate one. RK4 around Pinocchio is charged for its evaluations alone, as in a C++ loop; every other "
    "time is that of the run. Gaps are the largest at ends of steps, energy errors are relative to the largest kinetic "
    "energy."
)
DRIFT = (
    "Runs that would take more than {patience:g} s of CPU are shorter, which flatters them: errors grow with time. "
    "A leg that holds its loops may still lose its energy, so the two belong together."
)


def evaluations(costs: Mapping[str, tuple[str, float]], unit: float) -> str:
    """What one evaluation costs in each tool."""
    lines = ["### One evaluation", "", "| tool | what is timed | time | times Saltus |", "|---|---|---|---|"]
    return "\n".join(
        lines + [f"| {tool} | {what} | {micro(s)} | {s / unit:.3g}x |" for tool, (what, s) in costs.items()]
    )


def short(results: Iterable[Result], unit: float) -> str:
    """CPU time for 10 s and what it buys; `unit` is our CPU time for one second of motion."""
    head = "| tool | setting | CPU for 10 s | times Saltus | tip error at 2 s | loop gap | energy error |"
    lines = ["### 10 s of motion", "", SWEEP, "", head, "|---|---|---|---|---|---|---|"]
    for r in results:
        tip = f"{r.error:.1e} m" + ("" if r.good else " (missed)")
        if r.lost < math.inf:
            tip = f"not finite after {r.lost:.3g} s"
        lines.append(_line(r, f"{10 * r.pace:.3g} s | {r.pace / unit:.3g}x | {tip}"))
    return "\n".join([*lines, "", "![CPU time against tip error](images/peers_work.png)"])


def long(results: Iterable[Result], patience: float) -> str:
    """How far loops and energy are off after 100 s."""
    head = "| tool | setting | motion | CPU for 1 s | loop gap | energy error |"
    lines = ["### 100 s of motion", "", DRIFT.format(patience=patience), "", head, "|---|---|---|---|---|---|"]
    for r in results:
        motion = f"{r.until:g} s" if r.lost == math.inf else f"not finite after {r.lost:.3g} s"
        lines.append(_line(r, f"{motion} | {1e3 * r.pace:.3g} ms"))
    return "\n".join([*lines, "", "![Loop gap and energy error against CPU time](images/peers_drift.png)"])


def _line(r: Result, middle: str) -> str:
    name = r.setting.label + (" (default)" if r.setting.default else "")
    held = f"{r.gap:.1e} m | {r.energy:.1e}" if r.lost == math.inf else "- | -"
    return f"| {r.tool} | {name} | {middle} | {held} |"
