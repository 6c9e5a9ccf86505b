"""Random machines: one integer gives one machine, its start and how it is run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robust.cranks import cranks
from robust.machines import DEFAULT, Body, JointSpring, Machine, Pin, Push, Soft, Spring, Wave, Z, q_at
from robust.motion import Pose, motion_of, rotation_about, world

THEMES = {
    "tree": 0.19,
    "loops": 0.20,
    "may not close": 0.06,
    "redundant loops": 0.08,
    "too many cranks": 0.07,
    "dead centres": 0.10,
    "singular start": 0.04,
    "contacts": 0.12,
    "extreme numbers": 0.09,
    "bad input": 0.05,
}
PLANE = ("too many cranks", "dead centres")
DEFAULTS = 0.55  # how many name neither formulation nor engine nor tolerance
LINKS = {2: 0.24, 3: 0.34, 4: 0.22, 5: 0.10, 6: 0.05, 7: 0.02, 8: 0.01, 10: 0.01, 12: 0.01}
KINDS = {
    False: {"revolute": 0.6, "slide": 0.13, "slide2": 0.07, "planar": 0.1, "weld": 0.1},
    True: {
        "revolute": 0.4,
        "slide": 0.1,
        "slide2": 0.05,
        "universal": 0.12,
        "spherical": 0.1,
        "planar": 0.07,
        "weld": 0.06,
        "free": 0.05,
        "euler": 0.05,
    },
}
LOCKS = {
    False: {"revolute": 2, "slide": 2, "slide2": 1, "weld": 3},
    True: {"revolute": 5, "slide": 5, "slide2": 4, "universal": 4, "spherical": 3, "planar": 3, "weld": 6},
}


def random_machine(seed: int) -> Machine:
    """Make the machine of a seed."""
    return _Maker(seed).make()


class _Maker:
    """Draws one machine; every number comes from one generator in a fixed order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.r = r = np.random.default_rng(seed)
        self.theme = str(r.choice(list(THEMES), p=list(THEMES.values())))
        self.spatial = bool(r.random() < 0.5) or self.theme == "redundant loops"
        self.n = int(r.choice(list(LINKS), p=list(LINKS.values())))
        self.n = max(self.n, 3 if self.theme in ("loops", "redundant loops", "singular start") else 2)
        self.flat = self.theme in ("redundant loops", "singular start")  # all axes parallel
        self.normal = _unit(r.normal(size=3)) if self.spatial else Z
        if self.theme == "singular start":
            self.normal = Z

    def make(self) -> Machine:
        """Draw bodies, joints, loops, loads and how it is run."""
        r = self.r
        if self.theme in PLANE:
            return self.with_run(cranks(self.seed, self.theme, self.spatial, self.gravity(), r))
        bodies = [self.body(f"link{i}") for i in range(self.n)]
        tree = [self.joint(i, bodies) for i in range(self.n)]
        if r.random() < 0.1:
            turning = [i for i, pin in enumerate(tree) if pin.kind in ("revolute", "slide")]
            if len(turning) > 1:
                k = turning[int(r.integers(len(turning)))]
                wave = Wave(r.normal(), r.normal(0, 0.3), r.uniform(1, 10), r.uniform(0, 6))
                tree[k] = replace(tree[k], wave=wave, motor=None)
        parents = {pin.a if pin.b == f"link{i}" else pin.b for i, pin in enumerate(tree)}
        inner = [i for i, body in enumerate(bodies) if body.name in parents]
        if inner and r.random() < 0.06:
            k = inner[int(r.integers(len(inner)))]
            bodies[k] = Body(bodies[k].name, 0.0, np.zeros(3), np.zeros((3, 3)))
        free = [pin for pin in tree if pin.wave is None]
        q = np.concatenate([np.zeros(0), *[self.place(pin) for pin in free]])
        v = r.normal(0, 1.0, sum(pin.v_size for pin in free)) * (r.random() < 0.8)
        machine = Machine(
            self.seed, self.theme, self.spatial, tuple(bodies), tuple(tree), (), q, v, 0.0, (), gravity=self.gravity()
        )
        machine = self.with_loops(machine)
        machine = self.with_loads(machine)
        return self.with_run(machine)

    def gravity(self) -> float:
        """Mostly that of the Earth."""
        return float(self.r.choice([9.81, 0.0, 1.62], p=[0.8, 0.15, 0.05]))

    # ---- parts --------------------------------------------------------------------------------------------------

    def size(self) -> float:
        """A length (m)."""
        if self.theme == "extreme numbers":
            return float(10 ** self.r.uniform(-3, 2))
        return float(self.r.uniform(0.05, 0.5))

    def body(self, name: str) -> Body:
        """A link."""
        r, size = self.r, self.size()
        mass = 10 ** r.uniform(-5, 4) if self.theme == "extreme numbers" else 10 ** r.uniform(-1, 1)
        com = size * r.normal(size=3) / 2
        cloud = size * r.normal(size=(5, 3)) / 2
        cloud -= cloud.mean(axis=0)
        inertia = mass / 5 * sum(np.eye(3) * (x @ x) - np.outer(x, x) for x in cloud)
        if r.random() < 0.03:
            inertia = np.zeros((3, 3))
        if not self.spatial:
            com[2], inertia = 0.0, np.diag([0, 0, inertia[2, 2]])
        return Body(name, float(mass), com, inertia)

    def frame(self) -> tuple[np.ndarray, np.ndarray]:
        """A frame on a link."""
        r, place = self.r, self.size() * self.r.normal(size=3)
        if self.theme == "singular start":
            return np.eye(3), np.array([abs(place[0]) + 0.05, 0.0, 0.0])
        if not self.spatial:
            place[2] = 0.0
        axis = self.normal if self.flat or not self.spatial else _unit(r.normal(size=3))
        turn = rotation_about(axis, r.uniform(-3, 3)) if r.random() < 0.5 else np.eye(3)
        return turn, place

    def joint(self, i: int, bodies: list[Body]) -> Pin:
        """The joint that places link i."""
        r = self.r
        before = i - 1 if r.random() < 0.65 else int(r.integers(-1, i)) if i else -1
        if self.flat:
            before = i - 1
        parent = "ground" if before < 0 else bodies[before].name
        kinds = KINDS[self.spatial]
        kind = str(r.choice(list(kinds), p=list(kinds.values())))
        if self.theme in ("singular start", "redundant loops"):
            kind = "revolute" if self.flat and r.random() < 0.9 else "slide"
        if i == 0 and r.random() < (0.8 if self.theme == "contacts" else 0.15):
            kind = ("free" if r.random() < 0.7 else "euler") if self.spatial else "planar"
        sides = [(parent, self.frame()), (bodies[i].name, self.frame() if r.random() < 0.5 else _HERE)]
        if self.theme == "singular start":
            sides[1] = (bodies[i].name, _HERE)
        elif r.random() < 0.15:
            sides = sides[::-1]
        pin = self.pin(f"j{i}", kind, *sides)
        if kind in ("revolute", "slide", "universal") and r.random() < 0.3:
            numbers = {
                "torque": 10 ** r.uniform(-1, 1.5),
                "speed": r.uniform(5, 50),
                "power": r.uniform(5, 200),
                "gear": r.uniform(0.5, 10),
                "rotor_inertia": 10 ** r.uniform(-6, -3),
            }
            chosen = {n: float(x) for n, x in numbers.items() if r.random() < 0.4}
            if not chosen.keys() & {"torque", "power"}:
                chosen.pop("speed", None)  # it ends a line that they begin
            pin = replace(pin, motor=chosen)
        return pin

    def pin(self, name: str, kind: str, a: tuple, b: tuple) -> Pin:
        """A joint of a kind with random axes."""
        r = self.r
        axis = self.normal if self.flat or not self.spatial else _unit(r.normal(size=3))
        if kind == "slide":
            axis = _unit(np.cross(self.normal, r.normal(size=3))) if self.flat or not self.spatial else axis
            axes: tuple[np.ndarray, ...] = (axis,)
            if self.theme == "singular start":
                axes = (np.eye(3)[0],)
        elif kind == "slide2":
            axes = (np.eye(3)[0], np.eye(3)[1 + int(self.spatial and r.random() < 0.5)])
        elif kind == "universal":
            axes = (axis, _unit(np.cross(axis, r.normal(size=3))))
        elif kind == "planar":
            axes = (np.eye(3)[int(r.integers(3))] if self.spatial else Z,)
        else:
            axes = (axis,)
        return Pin(name, kind, a[0], b[0], a[1], b[1], axes)

    def place(self, pin: Pin) -> np.ndarray:
        """Coordinates of a joint in the reference configuration."""
        r, out = self.r, list[float]()
        for what, _ in pin.primitives:
            if what == "ball":
                out += _unit(r.normal(size=4)).tolist()
            elif what == "turn":
                straight = self.theme == "singular start"
                out.append(float(r.choice([0.0, np.pi])) if straight else float(r.uniform(-3, 3)))
            else:
                out.append(float(r.normal() * 0.3))
        return np.array(out)

    # ---- loops --------------------------------------------------------------------------------------------------

    def with_loops(self, machine: Machine) -> Machine:
        """Close loops; all but "may not close" do so in the reference configuration."""
        r, chances = self.r, {"loops": 1.0, "may not close": 1.0, "redundant loops": 1.0, "singular start": 1.0}
        chance = chances.get(self.theme, 0.15 if self.theme != "tree" else 0.0)
        poses = world(machine, 0.0, machine.q, 0 * machine.v, 0 * machine.v, still=True)
        freedom, loops = len(machine.v), list[Pin]()
        for k in range(4):
            if r.random() > chance * 0.4**k:
                break
            first, second = sorted(r.choice(self.n + 1, 2, replace=False).tolist())
            if self.flat:
                first, second = int(r.integers(0, max(1, self.n - 2))), self.n
            links = ["ground", *[body.name for body in machine.bodies]]
            kinds = list(LOCKS[self.spatial])
            fits = [kind for kind in kinds if freedom - LOCKS[self.spatial][kind] >= 1]
            kind = str(r.choice(fits if fits and r.random() < 0.9 else kinds))
            if self.flat:
                kind = "revolute"
            pin = self.pin(f"loop{k}", kind, (links[first], self.frame()), (links[second], _HERE))
            if self.theme == "may not close":
                pin = replace(pin, frame_b=self.frame())
            else:
                moved = motion_of(pin, self.place(pin))
                here = poses[pin.a] @ Pose.still(*pin.frame_a) @ moved
                there = poses[pin.b].inverse() @ here
                pin = replace(pin, frame_b=(there.R[0], there.p[0]))
            if kind in ("revolute", "slide") and r.random() < 0.2:
                pin = replace(pin, motor={"torque": float(10 ** r.uniform(-1, 1))})
            loops.append(pin)
            freedom -= LOCKS[self.spatial][kind] if not self.flat else 2
        error = float(r.choice([0.0, 0.02, 0.2]))
        names = machine.v_names
        one = [names[int(r.integers(len(names)))]] if names and r.random() < 0.5 else []
        asked = one if loops else names
        return replace(machine, loops=tuple(loops), guess_error=error, rates=tuple(asked))

    # ---- loads --------------------------------------------------------------------------------------------------

    def with_loads(self, machine: Machine) -> Machine:
        """Springs, dampers, forces, soft ground, a prescribed coordinate."""
        r, links = self.r, ["ground", *[body.name for body in machine.bodies]]
        springs, joint_springs, pushes, softs = list[Spring](), list[JointSpring](), list[Push](), list[Soft]()
        if r.random() < 0.25:
            a, b = r.choice(len(links), 2, replace=False)
            at = self.frame()[1], self.frame()[1]
            numbers = float(10 ** r.uniform(0, 3)), float(r.choice([0.0, 0.3])), float(r.choice([0.0, 1.0]))
            springs.append(Spring("spring", links[a], at[0], links[b], at[1], *numbers))
        names = machine.v_names
        balls = {n for pin in machine.tree for n in pin.v_names if pin.kind in ("free", "spherical")}
        plain = [i for i, name in enumerate(names) if name not in balls]
        if plain and r.random() < 0.3:
            k = plain[int(r.integers(len(plain)))]
            numbers = float(10 ** r.uniform(-1, 2)), float(r.normal()), float(r.choice([0.0, 0.2]))
            joint_springs.append(JointSpring("bushing", names[k], k, *numbers))
        if r.random() < 0.15:
            value = 5 * r.normal(size=3) * np.array([1, 1, self.spatial])
            pushes.append(Push("push", links[1 + int(r.integers(self.n))], self.frame()[1], value))
        if r.random() < 0.08:
            stiffness, damping, friction = 10 ** r.uniform(3, 5), r.uniform(0, 1), r.choice([0.0, 0.8])
            link, place = links[1 + int(r.integers(self.n))], self.frame()[1]
            softs.append(Soft("mat", link, place, float(stiffness), float(damping), float(friction), 0.05))
        prescribed = None
        turning = [i for i in plain if "." not in names[i]]
        if len(turning) > 1 and r.random() < 0.06:
            k = turning[int(r.integers(len(turning)))]
            size, rate = float(r.normal(0, 0.3)), float(r.uniform(1, 8))
            prescribed = k, Wave(float(machine.q[q_at(machine, k)]), size, rate, 0.0)  # begins where it is
        return replace(
            machine,
            springs=tuple(springs),
            joint_springs=tuple(joint_springs),
            pushes=tuple(pushes),
            softs=tuple(softs),
            prescribed=prescribed,
        )

    def with_run(self, machine: Machine) -> Machine:
        """Contacts, control, formulation, engine, tolerance."""
        r = self.r
        contact, foot, drop = "", None, 0.0
        if self.theme == "contacts":
            contact = str(r.choice(["standing", "sliding", "hopping", "bouncing"], p=[0.2, 0.2, 0.45, 0.15]))
            foot = f"link{int(r.integers(self.n))}", self.frame()[1]
            drop = float(r.uniform(0.02, 0.3)) if contact in ("hopping", "bouncing") else 0.0
        motors = any(pin.motor is not None for pin in (*machine.tree, *machine.loops))
        machine = replace(
            machine,
            contact=contact,
            foot=foot,
            drop=drop,
            friction=float(r.choice([0.0, 0.3])),
            control=str(r.choice(["none", "wave", "hold", "sampled"], p=[0.4, 0.25, 0.25, 0.1])) if motors else "none",
        )
        if r.random() < DEFAULTS:
            return machine
        names = ["SPF", "Index1", "Baumgarte", "Projection", "Minimal"]
        return replace(
            machine,
            formulation=str(r.choice(names, p=[0.3, 0.2, 0.15, 0.15, 0.2])),
            engine=str(r.choice(["sundials", "heyoka", DEFAULT], p=[0.9, 0.04, 0.06])) if self.n <= 5 else "sundials",
            tolerance=float(r.choice([1e-5, 1e-6, 1e-8, 1e-4], p=[0.6, 0.2, 0.05, 0.15])),
        )


_HERE = (np.eye(3), np.zeros(3))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)
