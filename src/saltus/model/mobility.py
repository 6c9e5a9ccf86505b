"""Mobility: freedom of a machine at a configuration, redundant constraints, nearness of a dead centre."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saltus.model.closing import Assembler
from saltus.model.rank import rank


@dataclass(frozen=True)
class Mobility:
    """Freedom of a machine at a configuration.

    `redundant` counts, by loop joint, the constraint rows that others already imply. `transmission` is the
    sine of the transmission angle (the normalised determinant of each loop's own equations, worst loop): one
    is best, zero is a dead centre; `worst_loop` names the loop it belongs to.
    """

    freedom: int
    coordinates: int
    rows: int
    rank: int
    redundant: Mapping[str, int]
    transmission: float
    worst_loop: str | None

    def __str__(self) -> str:
        degrees = "degree" if self.freedom == 1 else "degrees"
        text = f"{self.freedom} {degrees} of freedom: {self.coordinates} coordinates, "
        text += f"{self.rank} independent constraints"
        if self.redundant:
            named = ", ".join(f"{n} by {k}" for n, k in self.redundant.items())
            text += f" ({self.rows - self.rank} more are redundant: {named})"
        if self.worst_loop is not None:
            angle = math.degrees(math.asin(min(self.transmission, 1.0)))
            text += f"; worst transmission angle {angle:.0f} deg at {self.worst_loop} (90 is best, 0 a dead centre)"
        return text


def mobility(a: Assembler, q: np.ndarray, p: np.ndarray, drivers: Sequence[str] | None = None) -> Mobility:
    """Count freedom at a configuration; `drivers` default to the joints with motors."""
    m = a.mechanism
    J = a.scaled(q, p)
    r = rank(J)
    redundant = {}
    owner = np.array(a.owner)
    for name in dict.fromkeys(a.owner):
        mine = owner == name
        extra = int(mine.sum()) - (r - rank(J[~mine]))
        if extra:
            redundant[name] = extra
    if drivers is None:
        drivers = [n for j in m.joints.values() if j.motor for n in j.q_names if n in m.q_names]
    moved = [v for d in drivers for v in a.v_of_q[a.driver(d)]]
    transmission, worst = 1.0, None
    if r:
        sizes, names = a.closing(q, p, moved).transmission(J[None])
        transmission, worst = float(sizes[0]), names[0]
    return Mobility(a.nv - r, a.nv, len(a.owner), r, redundant, transmission, worst)
