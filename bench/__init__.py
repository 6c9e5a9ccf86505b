"""Benchmarks: each runs side by side with its baselines in one process and reports ratios."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of a table: what was measured, the number with its unit, and the target if there is one."""

    what: str
    measured: str
    target: str = ""
    met: bool | None = None

    @classmethod
    def at_least(cls, what: str, ratio: float, target: float) -> Row:
        """Ratio that should be `target` or more."""
        return cls(what, f"{ratio:.3g}x", f">= {target:g}x", ratio >= target)

    @classmethod
    def at_most(cls, what: str, value: float, target: float, unit: str = "") -> Row:
        """Number that should be `target` or less."""
        return cls(what, f"{value:.3g}{unit}", f"<= {target:g}{unit}", value <= target)


@dataclass(frozen=True)
class Report:
    """Lines with targets, further Markdown below them, and the figures it shows: file name and what draws it."""

    rows: list[Row]
    text: str = ""
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)


class Disagreement(AssertionError):
    """The two sides of a comparison do not compute the same thing."""


def same(what: str, ours: Iterable[float], theirs: Iterable[float], tolerance: float) -> Row:
    """Check that two vectors agree relative to the largest entry; a benchmark of different things is worthless."""
    a, b = list(map(float, ours)), list(map(float, theirs))
    scale = max(1.0, *map(abs, a))
    worst = max(abs(x - y) for x, y in zip(a, b, strict=True)) / scale
    if not worst <= tolerance:
        raise Disagreement(f"{what}: they differ by {worst:.3g} relative, allowed is {tolerance:g}")
    return Row(f"{what}: same accelerations", f"{worst:.1e}", f"<= {tolerance:g}", True)


def best(
    call: Callable[[], Any], repeats: int = 5, loop: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the least seconds of one call over `repeats` loops: other processes only ever add."""
    least = math.inf
    for _ in range(repeats):
        start = clock()
        for _ in range(loop):
            call()
        least = min(least, (clock() - start) / loop)
    return least


def race(timers: Mapping[str, Callable[[], float]], rounds: int = 9) -> dict[str, float]:
    """Least seconds of each timer, taken in turn so that a busy moment of the machine meets them all."""
    least = dict.fromkeys(timers, math.inf)
    for _ in range(rounds):
        for name, timer in timers.items():
            least[name] = min(least[name], timer())
    return least


def micro(seconds: float) -> str:
    """Microseconds as text."""
    return f"{seconds * 1e6:.3g} us"
