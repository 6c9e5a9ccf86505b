"""Scale: the characteristic length of a machine, by which tolerances, steps and guesses are measured.

Nothing that is found about a machine may depend on the unit of length. So metres are divided by a length of the
machine's own, the diagonal of the box that holds the joints and the centre of mass of its largest link; angles and
directions are left as they are. Assembly works on these numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.model.joints import Ball, Bend, Shift
from saltus.model.kinematics import Closure, Kinematics
from saltus.model.structure import Structure
from saltus.model.symbols import SX, number

DRAWS = 3


def mass(m: Structure) -> SX:
    """Mass of all links (kg) as an expression of the Params."""
    return sum((number(link.mass) for link in m.links.values()), SX(0))


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

    A row written by hand has a unit that nobody declared. Its size is how far it goes while every coordinate moves by
    its own size, the most of a few configurations drawn at random (with a fixed seed).
    """

    def __init__(self, kinematics: Kinematics, closures: Sequence[Closure], J: SX) -> None:
        k, m = kinematics, kinematics.mechanism
        self.length = length(m)
        self.columns: SX = ca.vertcat(SX(0, 1), *[self.length if shifts else SX(1) for shifts in shifted(m)])
        sizes: list[SX] = []
        for closure in closures:
            at = len(sizes)
            if closure.joint is None:
                sizes += ca.vertsplit(self._by_hand(k, J[at : at + len(closure.locks), :]))
            else:
                sizes += [self.length if lock.startswith("shift") else SX(1) for lock in closure.locks]
        self.rows: SX = ca.vertcat(SX(0, 1), *sizes)
        outputs = [ca.densify(x) for x in (self.rows, self.columns, self.length)]
        function = ca.Function("sizes", [k.p], outputs, ["p"], ["rows", "columns", "length"])
        self._sizes = Kernel(function, native=False)

    def _by_hand(self, k: Kinematics, J: SX) -> SX:
        lengths = ca.sqrt(ca.sum2((J * ca.repmat(self.columns.T, J.shape[0], 1)) ** 2))
        at = ca.Function("at", [k.t, k.q, k.p], [ca.densify(lengths)])
        slides = {n for n, shifts in zip(k.mechanism.v_names, shifted(k.mechanism), strict=True) if shifts}
        shifts = [name in slides for name in k.mechanism.q_names]  # a slide has one name in positions and velocities
        out = SX.zeros(J.shape[0])
        for draw in np.random.default_rng(0).uniform(-np.pi, np.pi, (DRAWS, k.q.numel())):
            q = ca.vertcat(*[x * self.length if shift else SX(x) for x, shift in zip(draw, shifts, strict=True)])
            for b in k.balls:
                q[b : b + 4] = SX(draw[b : b + 4] / np.linalg.norm(draw[b : b + 4]))
            out = ca.fmax(out, at(0, q, k.p))
        return ca.if_else(out > 0, out, 1)

    def metres(self, p: np.ndarray) -> float:
        """The characteristic length (m) for given Params."""
        return float(np.ravel(self._sizes(p)[2])[0])

    def of_columns(self, p: np.ndarray) -> np.ndarray:
        """Size of every velocity coordinate for given Params."""
        return np.ravel(self._sizes(p)[1]).copy()

    def of_rows(self, p: np.ndarray) -> np.ndarray:
        """Size of every constraint row for given Params."""
        return np.ravel(self._sizes(p)[0]).copy()

    def scaled(self, J: np.ndarray, p: np.ndarray) -> np.ndarray:
        """J (or many of them) without units: how many of its sizes a row moves with a coordinate by one of its own."""
        return J * self.of_columns(p) / self.of_rows(p)[:, None]


def shifted(m: Structure) -> list[bool]:
    """Whether each velocity coordinate is a shift, in metres per second."""
    out: list[bool] = []
    for joint in (placement.joint for placement in m.placements if placement.joint.motion is None):
        for primitive in joint.primitives:
            count = 3 if isinstance(primitive, Ball) else len(getattr(primitive, "towards", "1"))
            out += [isinstance(primitive, Shift)] * count
    return out
