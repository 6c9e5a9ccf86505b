"""Random machines that touch: one integer gives one machine, its start, its contacts and the ground."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robust.draw import _HERE, _Maker, _unit
from robust.machines import Body, Machine, Pin, Z, q_at
from robust.motion import Pose, world
from robust.touching import Land, Touch, Toucher, near

THEMES = {"dropped": 0.35, "standing": 0.25, "sliding": 0.1, "hung": 0.2, "extreme": 0.1}
LINKS = {1: 0.34, 2: 0.34, 3: 0.2, 4: 0.08, 5: 0.04}
CONTACTS = {1: 0.25, 2: 0.25, 3: 0.18, 4: 0.16, 5: 0.08, 6: 0.08}
LANDS = {"level": 0.35, "slope": 0.25, "stairs": 0.12, "profile": 0.14, "terrain": 0.14}
KINDS = {"foot": 0.6, "touch": 0.16, "stop": 0.14, "rub": 0.1}
LOOPS = 1 / 3


VARIANTS = 10  # machines of one structure, which is derived and compiled once


def random_toucher(seed: int) -> Toucher:
    """Make the machine of a seed: structure seed // VARIANTS with numbers of its own."""
    first = _Toucher(seed // VARIANTS).touching()
    return varied(first, seed) if seed % VARIANTS else replace(first, machine=replace(first.machine, seed=seed))


def varied(first: Toucher, seed: int) -> Toucher:
    """Other friction, restitution, mass, speeds and height of the ground."""
    r = np.random.default_rng([seed, 19])
    params = dict(first.params)
    body = first.machine.bodies[0]
    if "mass" in params:
        params["mass"] *= float(10 ** r.uniform(-0.7, 0.7))
        body = replace(body, mass=params["mass"])
    touches = []
    for x in first.touches:
        changed = {}
        if f"friction_{x.name}" in params:
            factor = float(r.uniform(0.3, 2.0))
            changed = {n: getattr(x, n) * factor for n in ("friction", "static") if getattr(x, n) is not None}
        if f"restitution_{x.name}" in params:
            changed["restitution"] = float(r.uniform(0, 1)) if r.random() < 0.7 else 0.0
        params |= {f"{n}_{x.name}": value for n, value in changed.items()}
        touches.append(replace(x, **changed))
    lower = 0.0 if first.theme in ("standing", "sliding") or r.random() < 0.3 else float(r.uniform(0, 0.2))
    corners = first.land.corners and (first.land.corners[0], first.land.corners[1] - lower)
    land = replace(
        first.land, height=first.land.height - (0.0 if first.land.kind == "terrain" else lower), corners=corners
    )
    v = first.machine.v * r.uniform(-1.5, 1.5)
    machine = replace(first.machine, seed=seed, bodies=(body, *first.machine.bodies[1:]), v=v)
    return replace(first, machine=machine, touches=tuple(touches), land=land, params=params)


class _Toucher(_Maker):
    """Draws one machine; every number comes from one generator in a fixed order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.r = r = np.random.default_rng([seed, 18])
        self.kind = self.one_of(THEMES)
        self.spatial = bool(r.random() < 0.45)
        self.n = int(self.one_of(LINKS))
        self.theme = "tree"
        if r.random() < LOOPS:
            self.theme, self.n = "loops", max(self.n, 2 if self.spatial else 3)
        self.flat = False
        self.normal = _unit(r.normal(size=3)) if self.spatial else Z

    def one_of(self, shares: dict) -> str:
        """A key by its share."""
        return str(self.r.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))

    def gravity(self) -> float:
        """That of the Earth, hardly ever none."""
        return float(self.r.choice([9.81, 0.0], p=[0.97, 0.03]))

    def body(self, name: str) -> Body:
        """A link; of an extreme machine some are very light."""
        out = super().body(name)
        if self.kind == "extreme":
            share = 10 ** self.r.uniform(-4, 1)
            return Body(name, out.mass * share, out.com, out.inertia * share)
        return out

    def joint(self, i: int, bodies: list[Body]) -> Pin:
        """The joint that places link i; the first one mostly leaves it free."""
        out = super().joint(i, bodies)
        keeps = i or self.r.random() < (0.85 if self.kind == "hung" else 0.2)
        if keeps and (self.n > 1 or out.kind != "weld"):
            return out
        free = ("free" if self.r.random() < 0.6 else "euler") if self.spatial else "planar"
        return Pin("j0", free, "ground", bodies[0].name, _HERE, _HERE, (Z,))

    # ---- contacts -----------------------------------------------------------------------------------------------

    def touching(self) -> Toucher:
        """Draw the machine, the ground below it, and what may touch."""
        r = self.r
        machine = replace(self.make(), guess_error=0.0, contact="", foot=None, formulation="default", engine="default")
        machine = replace(machine, tolerance=float(r.choice([1e-10, 1e-8, 1e-6], p=[0.7, 0.2, 0.1])))
        if self.kind in ("standing", "sliding"):
            machine = replace(machine, rates=(), v=0 * machine.v)
        self.poses = world(machine, 0.0, machine.q, 0 * machine.v, 0 * machine.v, still=True)
        moving = [body for body in machine.bodies if body.mass > 0]
        self.below = self.poses[moving[0].name].point(moving[0].com)[0] - [0, *(np.eye(2)[int(self.spatial)] * 0.3)]
        land = self.land()
        if self.kind == "sliding":
            machine = self.pushed(machine, land)
        out: list[Touch] = []
        for k in range(int(self.one_of(CONTACTS))):
            kind = self.one_of(KINDS)
            if self.kind in ("standing", "sliding") and k == 0:
                kind = "foot"
            made = {"foot": self.foot, "touch": self.touch, "stop": self.stop, "rub": self.rub}[kind](machine, land, k)
            if made is not None and not any((x.kind, x.name) == (made.kind, made.name) for x in out):
                out.append(made)
        if not out:
            out.append(self.foot(machine, land, 0))
        params = {"mass": machine.bodies[0].mass} if machine.bodies[0].mass > 0 else {}
        for x in out:
            if x.kind in ("foot", "touch"):  # smooth faces and those that do not bounce stay so
                given = [n for n in ("friction", "static", "restitution") if getattr(x, n)]
                params |= {f"{n}_{x.name}": getattr(x, n) for n in given}
        return Toucher(machine, tuple(out), land, self.kind, params)

    def pushed(self, machine: Machine, land: Land) -> Machine:
        """A free machine that moves along the ground."""
        if machine.tree[0].kind not in ("free", "euler", "planar") or machine.tree[0].a != "ground" or machine.loops:
            return machine
        v, speed = 0 * machine.v, self.r.normal(size=2) * 2
        v[0] = speed[0]
        if land.kind == "slope":
            v[0], v[2 if self.spatial else 1] = speed[0] * np.cos(land.angle), speed[0] * np.sin(land.angle)
        if self.spatial:
            v[1] = speed[1]
        return replace(machine, v=v, rates=tuple(machine.v_names[: 3 if self.spatial else 2]))

    def land(self) -> Land:
        """Ground below the first link."""
        r, kind = self.r, self.one_of(LANDS)
        up = float(self.below[2 if self.spatial else 1])
        friction = float(r.choice([0.2, 0.7, 1.2])) if r.random() < 0.2 else None
        if kind == "slope":
            angle = float(r.uniform(-0.6, 0.6))
            return Land(kind, up - float(np.tan(angle) * self.below[0]), angle, friction=friction)
        if kind == "stairs":
            count, rise = int(r.integers(1, 5)), float(r.choice([-1, 1]) * r.uniform(0.05, 0.2))
            i = np.arange(2 * count)
            x = self.below[0] + r.uniform(-1, 0) + 0.3 * (i // 2)
            return Land("profile", corners=(x, up + rise * ((i + 1) // 2)), friction=friction)
        if kind == "profile":
            n = int(r.integers(2, 7))
            x = self.below[0] + np.cumsum(r.uniform(0.1, 0.4, n)) - 0.2 * n
            return Land(kind, corners=(x, up + r.normal(0, 0.1, n)), friction=friction)
        if kind == "terrain":
            size, k, phase, across = r.uniform([0.01, 1, 0, 0], [0.06, 5, 6, 0.05]).tolist()
            return Land(kind, up - size, wave=(size, k, phase, across), friction=friction)
        return Land("level", up, friction=friction)

    def roughness(self) -> dict:
        """Friction and restitution."""
        r = self.r
        options = [0.0, 0.1, 0.3, 0.6, 0.9, 1.5] if self.kind != "extreme" else [0.0, 0.5, 2.0, 10.0, 100.0]
        friction = float(r.choice(options))
        static = friction * 1.4 if r.random() < 0.3 else None
        restitution = float(r.choice([0.0, 0.3, 0.8, 1.0], p=[0.65, 0.2, 0.12, 0.03]))
        return {"friction": friction, "static": static, "restitution": restitution}

    def clearance(self) -> float:
        """Gap at the start: nothing for a machine that stands."""
        standing = self.kind in ("standing", "sliding") or self.r.random() < 0.2
        return 0.0 if standing and self.r.random() < 0.85 else float(self.r.uniform(0.005, 0.25))

    def some_link(self, machine: Machine) -> Body:
        """A link that moves."""
        moving = [body for body in machine.bodies if body.mass > 0]
        first = self.kind in ("standing", "sliding") and self.r.random() < 0.6
        return moving[0 if first else int(self.r.integers(len(moving)))]

    def foot(self, machine: Machine, land: Land, k: int) -> Touch:
        """A foot on or above the ground below its link."""
        r, body = self.r, self.some_link(machine)
        pose = self.poses[body.name]
        radius = float(r.uniform(0.01, 0.08)) if r.random() < 0.35 else 0.0
        up = 2 if self.spatial else 1
        for _ in range(50):
            place = pose.point(body.com)[0] + r.normal(size=3) * 0.25 * [1, self.spatial, 0]
            place[up] = _height(land, place, self.spatial) + 1e-3
            n = near(land, place, 0.0, self.spatial)[0].gap(place, 0.0, self.spatial)[1]
            place[up] -= 1e-3
            place = place + n * (radius + self.clearance())
            if near(land, place, radius, self.spatial)[0].gap(place, radius, self.spatial)[0] > -1e-9:
                break
        laws = self.roughness()
        if land.friction is not None and r.random() < 0.5:
            laws |= {"friction": None, "static": None}
        return Touch("foot", f"foot{k}", body.name, _local(pose, place), radius, **laws)

    def touch(self, machine: Machine, land: Land, k: int) -> Touch | None:
        """A point of one link off a face of another."""
        r, links = self.r, ["ground", *[body.name for body in machine.bodies if body.mass > 0]]
        if len(links) < 2:
            return None
        a, b = r.choice(len(links), 2, replace=False)
        if a == 0:
            a, b = b, a
        pose, other = self.poses[links[a]], self.poses[links[b]]
        flat = np.array([1, 1, self.spatial], float)
        place = pose.point(r.normal(size=3) * 0.2 * flat)[0]
        n, radius, gap = _unit(r.normal(size=3) * flat), float(r.choice([0.0, 0.03])), self.clearance()
        laws = self.roughness()
        at = _local(pose, place)
        if r.random() < 0.6:
            face = ("plane", links[b], _local(other, place - n * (gap + radius)), other.R[0].T @ n)
        else:
            size = float(r.uniform(0.05, 0.3))
            face = ("round", links[b], _local(other, place - n * (gap + radius + size)), size)
        return Touch("touch", f"touch{k}", links[a], at, radius, face=face, **laws)

    def coordinate(self, machine: Machine) -> int | None:
        """A coordinate that is one number, not of the first, free joint."""
        names = machine.v_names
        no = {n for pin in machine.tree for n in pin.v_names if pin.kind in ("free", "spherical", "euler")}
        plain = [i for i, name in enumerate(names) if name not in no]
        return plain[int(self.r.integers(len(plain)))] if plain else None

    def stop(self, machine: Machine, land: Land, k: int) -> Touch | None:
        """Ends of a coordinate."""
        i, r = self.coordinate(machine), self.r
        if i is None:
            return None
        q = float(machine.q[q_at(machine, i)])
        lower, upper = q - self.clearance(), q + self.clearance() + 0.05
        sides = [(lower, upper), (lower, None), (None, upper)][int(r.integers(3))]
        restitution = self.roughness()["restitution"]
        return Touch("stop", machine.v_names[i], lower=sides[0], upper=sides[1], restitution=restitution)

    def rub(self, machine: Machine, land: Land, k: int) -> Touch | None:
        """Dry friction of a coordinate."""
        i, r = self.coordinate(machine), self.r
        if i is None:
            return None
        effort = float(10 ** r.uniform(-2, 1))
        return Touch("rub", machine.v_names[i], friction=effort, static=1.5 * effort if r.random() < 0.3 else None)


def _local(pose: Pose, place: np.ndarray) -> np.ndarray:
    return pose.R[0].T @ (place - pose.p[0])


def _height(land: Land, p: np.ndarray, spatial: bool) -> float:
    if land.kind == "terrain":
        assert land.wave is not None
        size, k, phase, across = land.wave
        return float(land.height + size * np.sin(k * p[0] + phase) + (across * np.cos(k * p[1]) if spatial else 0.0))
    line = land.line()
    return float(np.interp(p[0], line[:, 0], line[:, 1]))
