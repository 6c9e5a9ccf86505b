"""Cranks that turn far: parallelograms with more cranks than they need, and linkages that pass dead centres.

All lie in one plane, also in space, where every loop then has rows too many. In the plane of the machine a pin is at
(x, y) and links turn about its normal.
"""

from __future__ import annotations

import numpy as np

from robust.machines import Body, Branch, Machine, Pin, Z
from robust.motion import rotation_about

Place = tuple[float, float]


def cranks(seed: int, theme: str, spatial: bool, gravity: float, r: np.random.Generator) -> Machine:
    """A machine of theme "too many cranks" or "dead centres", turning so fast that it goes round or far."""
    maker = _Plane(spatial, r)
    if theme == "too many cranks":
        maker.table(int(r.integers(3, 6)))
    else:
        (maker.windows, maker.slider, maker.kite)[int(r.choice(3, p=[0.5, 0.25, 0.25]))]()
    assert maker.branch is not None
    q, rate, _ = maker.branch.at(maker.angle)
    v = rate * maker.speed
    bodies, tree, loops = tuple(maker.bodies), tuple(maker.tree), tuple(maker.loops)
    return Machine(
        seed, theme, spatial, bodies, tree, loops, q, v, 0.0, (tree[0].name,), gravity=gravity, branch=maker.branch
    )


class _Plane:
    """Rods and pins in a plane of space or in the plane itself."""

    def __init__(self, spatial: bool, r: np.random.Generator) -> None:
        self.r, self.spatial = r, spatial
        self.bodies, self.tree, self.loops = list[Body](), list[Pin](), list[Pin]()
        self.branch: Branch | None = None
        axis = r.normal(size=3)
        self.ground = rotation_about(axis / np.linalg.norm(axis), r.uniform(0, 3)) if spatial else np.eye(3)
        self.size = float(10 ** r.uniform(-1, 0.5))
        self.angle = float(r.choice([-1, 1]) * r.uniform(0.4, 1.2) + r.choice([0.0, np.pi]))
        self.speed = float(r.choice([-1, 1]) * r.uniform(2, 12))

    def rod(self, name: str, length: float) -> None:
        """A rod along x of its own frame, not always uniform."""
        mass, r = float(10 ** self.r.uniform(-0.7, 0.7)), self.r
        com = np.array([length * r.uniform(0.3, 0.7), 0.0, 0.0])
        inertia = mass * length**2 * r.uniform(0.05, 0.12) * np.diag([0.02 * self.spatial, self.spatial, 1.0])
        self.bodies.append(Body(name, mass, com, inertia))

    def frame(self, link: str, at: Place) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
        """A place on a link; the plane of the machine is that of z of every frame."""
        place = np.array([*at, 0.0])
        return (link, (self.ground, self.ground @ place)) if link == "ground" else (link, (np.eye(3), place))

    def pin(self, name: str, a: str, at_a: Place, b: str, at_b: Place, *, closes: bool = False) -> None:
        """A joint of the tree, or one that closes a loop."""
        (a, one), (b, other) = self.frame(a, at_a), self.frame(b, at_b)
        (self.loops if closes else self.tree).append(Pin(name, "revolute", a, b, one, other, (Z,)))

    def follows(self, turn: list[float], swing: float = 0.0, fold: float = 0.0, ratio: float = 0.0) -> None:
        """Say how all coordinates follow the first: the last by `swing` too, those of a kite by `fold`."""
        n = len(turn)
        swings, folds = np.zeros(n), np.zeros(n)
        swings[-1] = swing
        if n > 2:
            folds[1], folds[2] = -fold, fold
        self.branch = Branch(np.zeros(n), np.array(turn), swings, folds, ratio)

    def table(self, n: int) -> None:
        """One table on n cranks of the same length: all beyond the second are too many."""
        L, span = self.size, self.size * float(self.r.uniform(1.0, 3.0))
        feet = [0.0, *sorted(self.r.uniform(0.1, 0.9, n - 2) * span), span]
        self.rod("table", span)
        for i, x in enumerate(feet):
            self.rod(f"crank{i}", L)
            self.pin(f"foot{i}", "ground", (x, 0.0), f"crank{i}", (0.0, 0.0))
        self.pin("top0", "crank0", (L, 0.0), "table", (0.0, 0.0))
        for i, x in enumerate(feet[1:], 1):
            self.pin(f"top{i}", f"crank{i}", (L, 0.0), "table", (x, 0.0), closes=True)
        self.bodies.append(self.bodies.pop(0))  # named in the order they hang
        self.follows([1.0] * n + [-1.0])

    def windows(self) -> None:
        """Rhombic windows side by side (IFToMM A04): twice per turn all rods lie on one line."""
        L, n = self.size, int(self.r.integers(1, 4))
        for i in range(n + 1):
            self.rod(f"crank{i}", L)
            self.pin(f"foot{i}", "ground", (i * L, 0.0), f"crank{i}", (0.0, 0.0))
        for i in range(n):
            self.rod(f"bar{i}", L)
            self.pin(f"top{i}", f"crank{i}", (L, 0.0), f"bar{i}", (0.0, 0.0))
            self.pin(f"close{i}", f"bar{i}", (L, 0.0), f"crank{i + 1}", (L, 0.0), closes=True)
        self.follows([1.0] * (n + 1) + [-1.0] * n)

    def slider(self) -> None:
        """A slider-crank with a rod as long as the crank: upright, the block may stay or go on."""
        L = self.size
        self.rod("crank", L)
        self.rod("rod", L)
        self.pin("pivot", "ground", (0.0, 0.0), "crank", (0.0, 0.0))
        self.pin("knee", "crank", (L, 0.0), "rod", (0.0, 0.0))
        self.rod("block", 0.1 * L)
        (a, one), (b, other) = self.frame("ground", (0.0, 0.0)), self.frame("block", (0.0, 0.0))
        self.tree.append(Pin("rail", "slide", a, b, one, other, (np.eye(3)[0],)))
        self.pin("close", "rod", (L, 0.0), "block", (0.0, 0.0), closes=True)
        self.follows([1.0, -2.0, 0.0], swing=2 * L)

    def kite(self) -> None:
        """A four-bar of two pairs of equal neighbours: where the short pair folds, the long one may swing freely.

        Crank and base have length s, bar and rocker l. With f = asin(s/l sin(x/2)) for a crank at x, the bar is at
        x/2 - f and the rocker at x/2 + f: both pass the fold at x = 0 smoothly.
        """
        short, ratio = self.size, float(self.r.uniform(0.4, 0.85))
        long = short / ratio
        for name, length in (("crank", short), ("bar", long), ("rocker", long)):
            self.rod(name, length)
        self.pin("pivot", "ground", (0.0, 0.0), "crank", (0.0, 0.0))
        self.pin("knee", "crank", (short, 0.0), "bar", (0.0, 0.0))
        self.pin("base", "ground", (short, 0.0), "rocker", (0.0, 0.0))
        self.pin("close", "bar", (long, 0.0), "rocker", (long, 0.0), closes=True)
        self.follows([1.0, -0.5, 0.5], fold=1.0, ratio=ratio)
