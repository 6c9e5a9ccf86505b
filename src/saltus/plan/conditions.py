"""Conditions on a planned motion, read from comparisons of its quantities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import casadi as ca

from saltus.errors import BadValue
from saltus.model.symbols import SX

FREE = math.inf


@dataclass(frozen=True, eq=False)
class Condition:
    """low <= expression <= high, with the words it is reported by."""

    expression: SX
    low: float
    high: float
    label: str


def parse(condition: Any) -> list[Condition]:
    """Conditions in an SX comparison, a list of them, or what `plan.start == state` gave."""
    if isinstance(condition, Condition):
        return [condition]
    if isinstance(condition, list | tuple):
        return [one for c in condition for one in parse(c)]
    if isinstance(condition, bool) or not isinstance(condition, SX):
        raise BadValue(
            f"{condition!r} is no condition; compare quantities of the plan, as in plan.end.q.hip == 0", given=condition
        )
    out = []
    for k in range(condition.numel()):
        one = condition[k]
        if one.is_constant():
            if float(one) != 1.0:
                raise BadValue("a condition is false whatever the motion: both sides are numbers", given=str(one))
            continue
        operation = one.op() if not one.is_symbolic() else -1
        if operation not in (ca.OP_EQ, ca.OP_LE, ca.OP_LT):
            raise BadValue(f"{_short(one)} is no comparison; use ==, <= or >=", given=str(one))
        left, right = one.dep(0), one.dep(1)
        difference, high = left - right, 0.0
        if right.is_constant():
            difference, high = left, float(right)
        elif left.is_constant():
            out.append(Condition(right, float(left), float(left) if operation == ca.OP_EQ else math.inf, _short(one)))
            continue
        out.append(Condition(difference, high if operation == ca.OP_EQ else -math.inf, high, _short(one)))
    return out


def _short(expression: SX) -> str:
    text = str(expression)
    return text if len(text) <= 80 else text[:77] + "..."


def in_words(low: float, high: float) -> str:
    """A range for messages."""
    if low == high:
        return f"{low:g}"
    if high == FREE:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -FREE else f"{low:g} to {high:g}"
