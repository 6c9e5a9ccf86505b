"""Machines that touch, as plain data: a machine, what of it may touch, and the ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize

import saltus as sl
from robust.build import RATE, control, mechanism
from robust.machines import Machine

UNTIL = 1.0  # s
STEPS = 100_000  # at most: what is stiff beyond measure ends by name


@dataclass(frozen=True, eq=False)
class Touch:
    """One part that may touch: a foot, a stop, a point against a face of another link, or a joint that rubs.

    `face` is ("plane", link, place, normal) or ("round", link, place, radius).
    """

    kind: str
    name: str
    link: str = ""
    at: np.ndarray | None = None
    radius: float = 0.0
    friction: float | None = 0.0
    static: float | None = None
    restitution: float = 0.0
    lower: float | None = None
    upper: float | None = None
    face: tuple[str, str, np.ndarray, Any] | None = None


@dataclass(frozen=True, eq=False)
class Land:
    """Ground over x, in 3D the same for every y but for a wavy one: level, slope, profile (stairs too) or terrain."""

    kind: str
    height: float = 0.0
    angle: float = 0.0
    corners: tuple[np.ndarray, np.ndarray] | None = None
    wave: tuple[float, float, float, float] | None = None  # size, wave number, phase, size across
    friction: float | None = None

    def made(self) -> Any:
        """The library's."""
        g = sl.ground
        if self.kind == "level":
            return g.Level(self.height, friction=self.friction)
        if self.kind == "slope":
            return g.Slope(self.angle, height=self.height, friction=self.friction)
        if self.kind == "profile":
            assert self.corners is not None
            return g.Profile(*self.corners, friction=self.friction)
        assert self.wave is not None
        size, k, phase, across = self.wave

        def wavy(x: Any, *y: Any) -> Any:
            out = self.height + size * sl.math.sin(k * x + phase)
            return out + across * sl.math.cos(k * y[0]) if y else out

        return g.Terrain(wavy, friction=self.friction)

    def line(self) -> np.ndarray:
        """Corners of ground made of straight pieces, with level ends."""
        if self.kind == "slope":
            far = 1e3
            return np.array([[x, self.height + np.tan(self.angle) * x] for x in (-far, far)])
        if self.kind == "profile":
            assert self.corners is not None
            points = np.column_stack(self.corners)
        else:
            points = np.array([[0.0, self.height]])
        ends = points[0] - [1e3, 0], points[-1] + [1e3, 0]
        return np.vstack([ends[0], points, ends[1]])


@dataclass(frozen=True, eq=False)
class Near:
    """The ground nearest to a place: its nearest point, and the way to tell gap and normal of places close by."""

    land: Land
    point: np.ndarray  # in the plane of x and up; all three of a wavy one
    normal: np.ndarray | None  # of a straight piece; None at an edge and on wavy ground

    def gap(self, p: np.ndarray, radius: float, spatial: bool) -> tuple[float, np.ndarray]:
        """Gap (m) and unit normal at a place."""
        up = 2 if spatial else 1
        if self.land.kind == "terrain":
            return _wavy(self.land, p, radius, spatial)
        place = np.array([p[0], p[up]])
        away = place - self.point
        n = away / np.linalg.norm(away) if self.normal is None else self.normal
        full = np.zeros(3)
        full[0], full[up] = n
        return float(n @ away) - radius, full


def near(land: Land, p: np.ndarray, radius: float, spatial: bool) -> list[Near]:
    """Pieces and edges of the ground by their distance, nearest first; those within a hair of the nearest."""
    if land.kind == "terrain":
        return [Near(land, p, None)]
    place = np.array([p[0], p[2 if spatial else 1]])
    corners, found = land.line(), []
    along = np.diff(corners, axis=0)
    tangents = along / np.linalg.norm(along, axis=1)[:, None]
    for i, t in enumerate(tangents):
        n = np.array([-t[1], t[0]])
        at = float((place - corners[i]) @ t)
        length = float(np.linalg.norm(along[i]))
        side = float((place - corners[i]) @ n)
        if -1e-8 <= at <= length + 1e-8 and side > -0.5 * max(radius, 0.05):
            found.append((abs(side), Near(land, corners[i] + t * at, n)))
        if i + 1 < len(tangents):
            edge, after = corners[i + 1], tangents[i + 1]
            away = place - edge
            hair = 1e-9 if radius > 0 else 0.0  # a round foot there is on the piece and on its edge
            if t[0] * after[1] - t[1] * after[0] < 0 and away @ t > -hair and away @ after < hair:
                found.append((float(np.linalg.norm(away)), Near(land, edge, None)))
    found.sort(key=lambda x: x[0])
    return [x for d, x in found if d <= found[0][0] + 1e-7]


def _wavy(land: Land, p: np.ndarray, radius: float, spatial: bool) -> tuple[float, np.ndarray]:
    assert land.wave is not None
    size, k, phase, across = land.wave
    across = across if spatial else 0.0

    def height(x: float, y: float) -> float:
        return land.height + size * np.sin(k * x + phase) + across * np.cos(k * y)

    def normal(x: float, y: float) -> np.ndarray:
        slope = size * k * np.cos(k * x + phase), -across * k * np.sin(k * y)
        n = np.array([-slope[0], -slope[1], 1.0]) if spatial else np.array([-slope[0], 1.0, 0.0])
        return n / np.linalg.norm(n)

    x, y, up = (p[0], p[1], p[2]) if spatial else (p[0], 0.0, p[1])
    if radius == 0:
        n = normal(x, y)
        return float((up - height(x, y)) * n[2 if spatial else 1]), n
    if not spatial:

        def off(s: float) -> float:
            return (s - x) + (height(s, 0) - up) * size * k * np.cos(k * s + phase)

        ends = x - radius - 0.2, x + radius + 0.2
        s = brentq(off, *ends, xtol=1e-15, rtol=1e-15) if off(ends[0]) < 0 < off(ends[1]) else x
        n = normal(s, 0)
        return float(n @ (p - np.array([s, height(s, 0), 0]))) - radius, n
    best = minimize(
        lambda s: (s[0] - x) ** 2 + (s[1] - y) ** 2 + (height(*s) - up) ** 2, [x, y], method="BFGS", tol=1e-12
    ).x
    for _ in range(5):  # Newton's method on (s - c) + (h - up) grad h = 0
        g = np.array([size * k * np.cos(k * best[0] + phase), -across * k * np.sin(k * best[1])])
        H = np.diag([-size * k * k * np.sin(k * best[0] + phase), -across * k * k * np.cos(k * best[1])])
        away = best - [x, y] + (height(*best) - up) * g
        best = best - np.linalg.solve(np.eye(2) + np.outer(g, g) + (height(*best) - up) * H, away)
    n = normal(*best)
    return float(n @ (p - np.array([*best, height(*best)]))) - radius, n


@dataclass(frozen=True, eq=False)
class Toucher:
    """All about one trial."""

    machine: Machine
    touches: tuple[Touch, ...]
    land: Land
    theme: str
    params: dict[str, float]  # numbers that differ between machines of one structure

    @property
    def seed(self) -> int:
        """What it was made of."""
        return self.machine.seed


def build(given: Toucher) -> Any:
    """The library's machine; what differs between machines of one structure are Params of it."""
    machine = given.machine
    m = mechanism(machine)
    flat = slice(None) if machine.spatial else slice(2)
    for x in given.touches:
        if x.kind == "stop":
            m.stop(x.name, lower=x.lower, upper=x.upper, restitution=x.restitution)
        elif x.kind == "rub":
            m.rub(x.name, x.friction, static=x.static)
        else:
            assert x.at is not None
            point = m.links[x.link].at(*x.at[flat])
            own = ("friction", "static", "restitution")
            laws = {
                n: m.param(f"{n}_{x.name}", given.params[f"{n}_{x.name}"])
                if f"{n}_{x.name}" in given.params
                else getattr(x, n)
                for n in own
            }
            laws["radius"] = x.radius
            if x.kind == "foot":
                m.foot(x.name, point, **laws)
                continue
            assert x.face is not None
            what, link, place, more = x.face
            if what == "plane":
                face = m.links[link].plane(*place[flat], normal=more[flat].tolist())
            else:
                face = m.links[link].round(*place[flat], radius=more)
            m.touch(x.name, point, face, **laws)
    return m


def run(given: Toucher, m: Any) -> Any:
    """Assemble, and simulate for a second; what is the default is not named."""
    machine, params = given.machine, given.params
    rates = {n: float(machine.v[machine.v_names.index(n)]) for n in machine.rates}
    near_by = dict(zip(m.q_names, machine.q.tolist(), strict=True))
    start = m.assemble(near=near_by, rates=rates, params=params)
    named: dict[str, Any] = {}
    if given.machine.tolerance != Machine.tolerance:
        named["tolerance"] = given.machine.tolerance
    if any(x.kind == "foot" for x in given.touches):
        named["ground"] = given.land.made()
    law = control(given.machine, m)
    return sl.simulate(m, start, until=UNTIL, control=law, rate=RATE, max_steps=STEPS, **named)
