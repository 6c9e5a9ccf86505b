"""A law's table as plain numbers, for what runs a law without Saltus."""

from __future__ import annotations

import numpy as np

from saltus.hybrid.constrained import Constrained
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.hybrid.laws import Schedule
from saltus.hybrid.signals import Entry
from saltus.model.assembly import State


def knots_and_rows(
    law: Schedule, system: HybridSystem, domain: Domain, start: State, *, t: float = 0.0, visit: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return knots (s) and rows of a law for its `visit`-th stay (from 0) in a domain, entered at time t with a state.

    Row i holds from knots[i] on, the last one for good; with it `law.law(t, s, row)` is a plain formula of the state.
    """
    table = law.table(Constrained(system, domain), visit, Entry(t, start.q, start.v))
    return table.knots, table.rows
