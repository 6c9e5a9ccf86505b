"""Rows of the reproduction table: an item, what was computed for it, and the verdict that follows from both."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any

from saltus.studies.collect import Run
from saltus.studies.reproduction.registry import Item
from saltus.studies.result import Comparison

MISSING = "not computed"
FEWEST = 3  # digits that must agree before a number is said to agree in part
CUT = 100  # in units of its last digit, what a number must be for a print that is cut off to be told from a wrong one
FORMATS = {"=": "{}", "<": "below {}", ">": "above {}", "beat": "{}"}


@dataclass(frozen=True)
class Row:
    """One line of the page; all are texts."""

    item: str
    published: str
    computed: str
    verdict: str
    reason: str
    command: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the columns in order."""
        return self.item, self.published, self.computed, self.verdict, self.reason, self.command

    @property
    def kind(self) -> str:
        """First word of the verdict: agrees, beaten, differs, cannot, given, nothing or not."""
        return re.split(r"[ ,]", self.verdict)[0]


def row(item: Item, results: Mapping[Run, Mapping[str, Any]]) -> Row:
    """Judge an item by the results of its study."""
    published = f"{FORMATS[item.relation].format(item.published)} {item.unit}".strip()
    command = item.run.command if item.study else ""
    if not item.study:
        return Row(item.item, published, "", "given" if item.given else "nothing to compute", item.reason, "")
    result = results.get(item.run)
    if result is None or "error" in result:
        why = "the study is not there" if result is None else result["error"]
        return Row(item.item, published, "", MISSING, _joined(item.reason, why), command)
    try:
        computed, verdict, why = _number(item, result) if item.field else _words(item, result)
    except LookupError as problem:
        return Row(item.item, published, "", MISSING, f"the study's result has no {problem.args[0]}", command)
    return Row(item.item, published, computed, verdict, _joined(item.reason, why), command)


def find(result: Any, path: str) -> Any:
    """Value at a dotted path such as "rows.1.speed"; LookupError names what is missing."""
    for step in path.split("."):
        try:
            result = result[int(step)] if isinstance(result, list) else result[step]
        except (LookupError, TypeError, ValueError):
            raise LookupError(f"{step!r} of {path!r}") from None
    if result is None:
        raise LookupError(f"value of {path!r}")
    return result


def _number(item: Item, result: Mapping[str, Any]) -> tuple[str, str, str]:
    found = find(result, item.field)
    value = item.scale * float(found)
    step = Decimal(item.digit) if item.digit and item.published.isdigit() else last_digit(item.published)
    said = verdict(item.published, value, item.relation, step)
    if isinstance(found, int):
        return f"{found} {item.unit}".strip(), said.split(" by ")[0], ""
    text = _rounded(value, step * Decimal("0.001"))
    return f"{text} {item.unit}".strip(), said, ""


def _words(item: Item, result: Mapping[str, Any]) -> tuple[str, str, str]:
    drawn = f"figure {item.figure}" if item.figure else ""
    if item.figure and item.figure not in result["figures"]:
        raise LookupError(f"figure {item.figure!r}")
    if not item.statement:
        return drawn, "cannot be compared", ""
    stated = {c["quantity"]: c for c in result["comparisons"]}
    if item.statement not in stated:
        raise LookupError(f"comparison {item.statement!r}")
    c = stated[item.statement]
    comparison = Comparison(c["quantity"], None, c["computed"], c["unit"], why=c["why"])
    good = "beaten" if item.relation == "beat" else "agrees"
    word = {True: good, False: "differs", None: "cannot be compared"}[c["agrees"]]
    return _joined(comparison.computed_text, drawn), word, "" if item.reason else comparison.why


def last_digit(printed: str) -> Decimal:
    """Size of one unit in the last printed digit: 0.01 of "3.28", 1e-7 of "5.1e-6"."""
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent)


def verdict(printed: str, value: float, relation: str = "=", step: Decimal | None = None) -> str:
    """How a computed number compares with a printed one.

    It agrees if rounding it to the printed digits gives the print, or cutting it off there, with three digits and more;
    in part, if at least three leading digits agree: |value - print| at most half a unit of that digit. A print of 0 has
    no per cent.
    """
    published, step = float(printed), step or last_digit(printed)
    if relation == "<":
        return "agrees" if value < published else "differs"
    if relation == ">":
        return "agrees" if value > published else "differs"
    if relation == "beat" and value < published:
        return "beaten"
    exact = Decimal(value)
    if abs(exact - Decimal(printed)) <= step / 2:
        return "agrees"
    if abs(Decimal(printed)) >= CUT * step and exact.quantize(step, ROUND_DOWN) == Decimal(printed):
        return "agrees, printed cut off instead of rounded"
    if published != 0:
        off = 2 * abs(value - published) / 10 ** math.floor(math.log10(abs(published)))
        digits = 1 + math.floor(-math.log10(off))
        if digits >= FEWEST:
            return f"agrees to {digits} digits"
        share = 100 * abs(value / published - 1)
        return f"differs by {share:.2g} %" if share < 99.5 else f"differs by {share:.0f} %"
    return "differs"


def _rounded(value: float, step: Decimal) -> str:
    """Rounded to a step, in decimals where that is short, else with an exponent."""
    rounded = Decimal(value).quantize(step, ROUND_HALF_UP)
    if rounded == 0:
        return "0"
    return f"{rounded:f}" if abs(rounded) >= Decimal("0.0001") and step < 1000 else f"{rounded:e}"


def _joined(*texts: str) -> str:
    return "; ".join(t for t in texts if t)
