"""Machines as plain data: bodies, joints, loads, a start, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Z = np.array([0.0, 0.0, 1.0])
DEFAULT = "default"  # formulation or engine: none is named in the call


@dataclass(frozen=True)
class Wave:
    """A given motion: middle + size sin(rate t + phase)."""

    middle: float
    size: float
    rate: float
    phase: float

    def at(self, t: float) -> tuple[float, float, float]:
        """Value and its first two derivatives."""
        s, c = np.sin(self.rate * t + self.phase), np.cos(self.rate * t + self.phase)
        return self.middle + self.size * s, self.size * self.rate * c, -self.size * self.rate**2 * s


@dataclass(frozen=True, eq=False)
class Body:
    """A link: mass (kg), centre of mass (m), inertia about it (kg m2)."""

    name: str
    mass: float
    com: np.ndarray
    inertia: np.ndarray


@dataclass(frozen=True, eq=False)
class Pin:
    """A joint between a frame (rotation, position) on link `a` and one on link `b`."""

    name: str
    kind: str
    a: str
    b: str
    frame_a: tuple[np.ndarray, np.ndarray]
    frame_b: tuple[np.ndarray, np.ndarray]
    axes: tuple[np.ndarray, ...] = ()
    motor: dict[str, float] | None = None
    wave: Wave | None = None

    @property
    def primitives(self) -> list[tuple[str, np.ndarray]]:
        """The joint as turns, shifts and balls, in their order."""
        shifts = [("shift", axis) for axis in np.eye(3)]
        if self.kind in ("revolute", "universal"):
            return [("turn", axis) for axis in self.axes]
        if self.kind in ("slide", "slide2"):
            return [("shift", axis) for axis in self.axes]
        if self.kind == "planar":
            normal = int(np.argmax(np.abs(self.axes[0])))
            return [shifts[i] for i in range(3) if i != normal] + [("turn", self.axes[0])]
        if self.kind == "free":
            return [*shifts, ("ball", Z)]
        if self.kind == "euler":
            return [*shifts, ("turn", np.eye(3)[2]), ("turn", np.eye(3)[1]), ("turn", np.eye(3)[0])]
        return [("ball", Z)] if self.kind == "spherical" else []

    @property
    def q_size(self) -> int:
        """Number of position coordinates."""
        return sum(4 if what == "ball" else 1 for what, _ in self.primitives)

    @property
    def v_size(self) -> int:
        """Number of velocity coordinates."""
        return sum(3 if what == "ball" else 1 for what, _ in self.primitives)

    @property
    def v_names(self) -> list[str]:
        """Names of its velocities, as the library is documented to give them."""
        letters = ["xyz"[int(np.argmax(np.abs(axis)))] for what, axis in self.primitives if what == "shift"]
        names = {
            "universal": ["alpha", "beta"],
            "spherical": ["wx", "wy", "wz"],
            "free": ["x", "y", "z", "wx", "wy", "wz"],
            "euler": ["x", "y", "z", "r1z", "r2y", "r3x"],
            "planar": [*letters, "angle"],
            "slide2": letters,
        }.get(self.kind)
        return [f"{self.name}.{n}" for n in names] if names else [self.name] * self.v_size


@dataclass(frozen=True, eq=False)
class Spring:
    """A spring and damper between points of two links."""

    name: str
    a: str
    at_a: np.ndarray
    b: str
    at_b: np.ndarray
    stiffness: float
    length: float
    damping: float


@dataclass(frozen=True)
class JointSpring:
    """A spring and damper on one coordinate, `index` its place among all velocities."""

    name: str
    coordinate: str
    index: int
    stiffness: float
    rest: float
    damping: float


@dataclass(frozen=True, eq=False)
class Push:
    """A constant force (N) at a point of a link."""

    name: str
    link: str
    at: np.ndarray
    value: np.ndarray


@dataclass(frozen=True, eq=False)
class Soft:
    """Soft ground `below` (m) the start of a point of a link."""

    name: str
    link: str
    at: np.ndarray
    stiffness: float
    damping: float
    friction: float
    below: float


@dataclass(frozen=True, eq=False)
class Branch:
    """Motion of a linkage of one freedom in closed form: q = middle + turn x + swing cos x + fold asin(ratio sin(x/2)).

    It is smooth where the loop equations are singular, and so says on which branch the machine goes on.
    """

    middle: np.ndarray
    turn: np.ndarray
    swing: np.ndarray
    fold: np.ndarray
    ratio: float

    def at(self, x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q and its first two derivatives by x."""
        s, c = np.sin(x), np.cos(x)
        half, k = x / 2, self.ratio
        f = np.arcsin(k * np.sin(half))
        f1 = k / 2 * np.cos(half) / np.cos(f)
        f2 = (f1**2 * np.sin(f) - k / 4 * np.sin(half)) / np.cos(f)
        q = self.middle + self.turn * x + self.swing * c + self.fold * f
        return q, self.turn - self.swing * s + self.fold * f1, -self.swing * c + self.fold * f2


@dataclass(frozen=True, eq=False)
class Machine:
    """All about one trial."""

    seed: int
    theme: str
    spatial: bool
    bodies: tuple[Body, ...]
    tree: tuple[Pin, ...]
    loops: tuple[Pin, ...]
    q: np.ndarray  # a configuration; loops close in it unless the theme says otherwise
    v: np.ndarray
    guess_error: float  # how far the guess given to the assembly is off q (rad, m)
    rates: tuple[str, ...]  # velocities that are asked for
    springs: tuple[Spring, ...] = ()
    joint_springs: tuple[JointSpring, ...] = ()
    pushes: tuple[Push, ...] = ()
    softs: tuple[Soft, ...] = ()
    prescribed: tuple[int, Wave] | None = None  # index among the velocities
    foot: tuple[str, np.ndarray] | None = None
    contact: str = ""  # "standing", "sliding", "hopping", "bouncing"
    drop: float = 0.0  # height of the foot at the start (m)
    friction: float = 0.0
    control: str = "none"
    formulation: str = DEFAULT
    engine: str = DEFAULT
    tolerance: float = 1e-10
    gravity: float = 9.81
    branch: Branch | None = None  # its motion where that is known in closed form, x the first coordinate

    @property
    def v_names(self) -> list[str]:
        """Names of all velocities, in order."""
        return [name for pin in self.tree if pin.wave is None for name in pin.v_names]

    @property
    def commanded(self) -> str:
        """The first of all inputs, which the controllers drive; the others are given zero."""
        motors = [n for pin in (*self.tree, *self.loops) if pin.motor is not None for n in pin.v_names]
        return motors[0] if motors else ""

    @property
    def held(self) -> str:
        """The coordinate that a controller holds where it was."""
        return self.commanded if self.control == "hold" and self.commanded in self.v_names else ""

    @property
    def floats(self) -> bool:
        """Whether nothing but one free joint ties it to the ground and nothing but gravity acts on it."""
        free = ("free", "euler") if self.spatial else ("planar",)
        held = [pin for pin in (*self.tree, *self.loops) if "ground" in (pin.a, pin.b)]
        outside = self.pushes or self.softs or self.contact or self.prescribed
        tied = any("ground" in (s.a, s.b) for s in self.springs)
        own = {name for pin in held for name in pin.v_names}
        braked = any(s.coordinate in own for s in self.joint_springs)
        given = any(pin.wave for pin in held)
        return len(held) == 1 and held[0].kind in free and not (outside or tied or braked or given)

    def down(self) -> np.ndarray:
        """Gravity (m/s2)."""
        return self.gravity * (np.array([0, 0, -1.0]) if self.spatial else np.array([0, -1.0, 0]))


def q_at(machine: Machine, v_index: int) -> int:
    """Place in q of the coordinate of a velocity, which is not part of a ball."""
    q = v = 0
    for pin in machine.tree:
        if pin.wave is not None:
            continue
        for what, _ in pin.primitives:
            if v == v_index:
                return q
            q, v = q + (4 if what == "ball" else 1), v + (3 if what == "ball" else 1)
    raise IndexError(v_index)
