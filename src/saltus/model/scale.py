"""Scale: the characteristic length of a machine, by which tolerances, steps and guesses are measured.

Nothing that is found about a machine may depend on the unit of length. So metres are divided by a length of the
machine's own, the diagonal of the box that holds the joints and the centre of mass of its largest link; angles and
directions are left as they are. Assembly works on these numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.model.joints import Ball, Bend, Shift
from saltus.model.kinematics import Closure
from saltus.model.structure import Structure
from saltus.model.symbols import SX


def length(m: Structure) -> SX:
    """Characteristic length (m) as an expression of the Params.

    Where all joints sit at the origins of their links it is that of the machine's points; 1 m where these do too.
    """
    joints = list(m.joints.values())
    places: dict[str, list[SX]] = {name: [link.com] for name, link in m.links.items() if link is not m.ground}
    for frame in (f for joint in joints for f in (joint.a, joint.b)):
        places.setdefault(frame.link.name, []).append(frame.position)
    bends = [p.length for joint in joints for p in joint.primitives if isinstance(p, Bend)]
    of_links = [_diagonal(own) for own in places.values()]
    of_points = _diagonal([SX(3, 1), *(frame.position for frame in m.points.values())])
    out = SX(0)
    for size in (*of_links, *bends):
        out = ca.fmax(out, size)
    out = ca.if_else(out > 0, out, of_points)
    return ca.if_else(out > 0, out, 1)


def _diagonal(places: Sequence[SX]) -> SX:
    """Diagonal of the box around some points."""
    low = high = ca.densify(places[0])
    for place in places[1:]:
        low, high = ca.fmin(low, place), ca.fmax(high, place)
    return ca.sqrt(ca.sumsqr(high - low))


class Scale:
    """Sizes of a machine's velocity coordinates and constraint rows: a length for metres, 1 for angles.

    A row written by hand has a unit that nobody declared; its size is how far it goes when every coordinate moves by
    its own size.
    """

    def __init__(self, m: Structure, closures: Sequence[Closure], J: SX) -> None:
        self.length = length(m)
        self.columns: SX = ca.vertcat(SX(0, 1), *[self.length if shifts else SX(1) for shifts in shifted(m)])
        self.by_hand = np.array([c.joint is None for c in closures for _ in c.locks], bool)
        rows: list[SX] = []
        at = 0
        for closure in closures:
            for lock in closure.locks:
                moved = ca.sqrt(ca.sumsqr(J[at, :].T * self.columns))
                own = ca.if_else(moved > 0, moved, 1)
                rows.append(own if closure.joint is None else self.length if lock.startswith("shift") else SX(1))
                at += 1
        self.rows: SX = ca.vertcat(SX(0, 1), *rows)
        self._p = m.p

    @cached_property
    def _sizes(self) -> Kernel:
        known = [SX(1) if hand else row for hand, row in zip(self.by_hand, ca.vertsplit(self.rows), strict=True)]
        outputs = [ca.densify(x) for x in (ca.vertcat(SX(0, 1), *known), self.columns, self.length)]
        return Kernel(ca.Function("sizes", [self._p], outputs, ["p"], ["rows", "columns", "length"]), native=False)

    def metres(self, p: np.ndarray) -> float:
        """The characteristic length (m) for given Params."""
        return float(np.ravel(self._sizes(p)[2])[0])

    def of_columns(self, p: np.ndarray) -> np.ndarray:
        """Size of every velocity coordinate for given Params."""
        return np.ravel(self._sizes(p)[1])

    def of_rows(self, J: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Size of every constraint row for given Params, where its Jacobian is J (or many of them)."""
        rows, columns, _ = self._sizes(p)
        out = np.broadcast_to(np.ravel(rows), J.shape[:-1]).copy()
        if self.by_hand.any():
            moved = np.linalg.norm(J[..., self.by_hand, :] * np.ravel(columns), axis=-1)
            out[..., self.by_hand] = np.where(moved > 0, moved, 1.0)
        return out

    def scaled(self, J: np.ndarray, p: np.ndarray) -> np.ndarray:
        """J without units: rows and columns over and times their sizes."""
        return J * self.of_columns(p) / self.of_rows(J, p)[..., None]


def shifted(m: Structure) -> list[bool]:
    """Whether each velocity coordinate is a shift, in metres per second."""
    out: list[bool] = []
    for joint in (placement.joint for placement in m.placements if placement.joint.follows is None):
        for primitive in joint.primitives:
            count = 3 if isinstance(primitive, Ball) else len(getattr(primitive, "towards", "1"))
            out += [isinstance(primitive, Shift)] * count
    return out
