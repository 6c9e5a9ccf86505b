"""Commands that are held: rows of a schedule, and what a user's function returned when it was last due."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saltus.hybrid.laws import Sampled, Table, law_in
from saltus.hybrid.mode import Mode, name_of
from saltus.hybrid.signals import Entry, called, commands
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import Named


def row(table: Table, now: Mode, p: np.ndarray, t: float, until: float) -> tuple[float, str]:
    """Load the row of numbers in use at t into the run-time parameters; when it ends, and what there is to note."""
    at = table.index(t)
    p[now.layout.slice("row")] = table.rows[at]
    if at + 1 < len(table.knots):
        knot = float(table.knots[at + 1])
        return (knot if knot < until - 1e-12 else until), ""
    return until, table.note if t < until - 1e-12 else ""


class Held:
    """What a `Sampled` law of a run gave last.

    It is due at multiples of its period and, unless a contact alone has changed, when a domain is entered.
    """

    def __init__(self, control: Any, mechanism: Mechanism, params: np.ndarray) -> None:
        self.control, self.mechanism, self.params = control, mechanism, params
        self._known, self._values, self._due = (0, -1), np.zeros(0), -math.inf

    def law(self, now: Mode) -> Sampled | None:
        """The law of a domain, if it is one that is sampled."""
        law = law_in(self.control, now.domain.name)
        return law if isinstance(law, Sampled) else None

    def name(self, now: Mode) -> str:
        """Name of the law in use, "" if there is none; modes are shared by laws that say the same."""
        law = law_in(self.control, now.domain.name)
        return "" if law is None else name_of(law.function if isinstance(law, Sampled) else law)

    def load(self, now: Mode, p: np.ndarray, t: float, q: np.ndarray, v: np.ndarray, entered: int) -> float:
        """Put the commands at t into the run-time parameters, calling the function if it is due; when it is next.

        `entered` counts the domains entered so far.
        """
        sampled = self.law(now)
        assert sampled is not None
        if self._known != (id(sampled), entered) or t >= self._due - 1e-12:
            self._values = self._sample(now, p, sampled, t, q, v)
            self._due = (math.floor(t * sampled.rate + 1e-9) + 1) / sampled.rate
            self._known = id(sampled), entered
        p[now.layout.slice("held")] = self._values
        return self._due

    def _sample(self, now: Mode, p: np.ndarray, sampled: Sampled, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        layout, m = now.layout, self.mechanism
        t_in, q_in, v_in = (p[layout.slice(f"entry_{name}")] for name in "tqv")
        entered = Entry(float(t_in[0]), Named(m.q_names, q_in), Named(m.v_names, v_in, "velocity"))
        signals = now.constrained.signals(t, q, v, self.params, entered, block=p[layout.slice("anchors")])
        what = f"controller {self.name(now)!r} at t = {t:.6g} s"
        return np.array([float(value) for value in commands(m, called(sampled.function, t, signals, what=what), what)])
