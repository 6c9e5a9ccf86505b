"""A machine posed by hand: which coordinates drive it, where it is for their values and Params, where its points go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import null_space

from saltus.errors import CannotClose, SaltusError, Singular
from saltus.model.assembly import State, assembler
from saltus.model.geometry import trace
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.rank import rank

SAMPLES = 120  # points of a path
SPARSE = 4  # every so many of them the transmission angle is looked at
STEP = 0.1  # rad or m a driver goes at once
SHARE = 0.05  # of its own size a Param changes at once
REACHES = 30  # steps of a point towards where it is dragged


@dataclass(frozen=True)
class Pose:
    """Where the machine is: positions, and by how much each loop stays open (m), none if it is closed."""

    q: np.ndarray
    gaps: dict[str, float] = field(default_factory=dict)

    @property
    def closed(self) -> bool:
        """Whether every loop closes."""
        return not self.gaps


@dataclass(frozen=True)
class Way:
    """The way of the machine while its first driver turns: positions q, driver values (rad, m) and paths of points.

    Each has a row per value; `full` says whether the driver turns fully.
    """

    q: np.ndarray
    values: np.ndarray
    points: np.ndarray
    full: bool


class Posing:
    """Holds the drivers and Params of one page and follows them on one branch."""

    def __init__(self, mechanism: Mechanism, start: State) -> None:
        self.mechanism, self.first = mechanism, start
        self.assembler = assembler(mechanism)
        self.drivers = drivers(start)
        self.state = start
        self.held = {d: float(start.q[d]) for d in self.drivers}
        self.params = dict(start.params)
        self.pose = Pose(start.positions)

    def to(self, held: Mapping[str, float], params: Mapping[str, float]) -> Pose:
        """Go to new values of drivers and Params, in small steps so that the branch stays the same."""
        before = {d: float(self.state.q[d]) for d in self.drivers}, dict(self.state.params)
        after = {**self.held, **held}, {**self.params, **params}
        self.held, self.params = after
        moves = [abs(after[0][d] - v) / STEP for d, v in before[0].items()]
        moves += [abs(after[1][n] - v) / (SHARE * max(abs(after[1][n]), abs(v), 1e-9)) for n, v in before[1].items()]
        count = min(max(math.ceil(max(moves, default=0.0)), 1), 60)
        try:
            for k in range(1, count + 1):
                share = k / count
                values, numbers = (
                    {n: (1 - share) * before[i][n] + share * v for n, v in after[i].items()} for i in (0, 1)
                )
                self.state = self._near(self.state, values, numbers)
            self.pose = Pose(self.state.positions)
        except CannotClose:
            self.pose = self._open(*after)
        return self.pose

    def jump(self, pose: Mapping[str, float], held: Mapping[str, float], params: Mapping[str, float]) -> None:
        """Go to the branch that a pose is on, without a way there; one that does not close leaves the present one."""
        fixed: dict[str, Any] = {**self.held, **held}
        try:
            self.state = self.mechanism.assemble(near=pose, params={**self.params, **params}, **fixed)
        except CannotClose:
            return

    def _near(self, state: State, held: Mapping[str, float], params: Mapping[str, float]) -> State:
        guess = dict(zip(self.mechanism.q_names, state.positions.tolist(), strict=True))
        fixed: dict[str, Any] = dict(held)
        return self.mechanism.assemble(near=guess, params=params, **fixed)

    def _open(self, held: Mapping[str, float], params: Mapping[str, float]) -> Pose:
        """The nearest the loops come to closing."""
        try:
            self.state = self._near(self.state, held, params)
            return Pose(self.state.positions)
        except CannotClose as problem:
            return Pose(problem.positions, {n: g for n, g in problem.gaps.items() if g > 1e-9})

    def branches(self) -> list[State]:
        """All ways to close the loops with the drivers where they are."""
        return self.mechanism.branches(params=self.params, **self.held)

    def next_branch(self) -> tuple[int, int]:
        """Go to the branch after the present one; its number and how many there are."""
        found = self.branches()
        if not found:
            return 0, 0
        here = np.array([np.abs(np.sin((s.positions - self.state.positions) / 2)).max() for s in found])
        number = (int(here.argmin()) + 1) % len(found)
        self.state = found[number]
        self.pose = Pose(self.state.positions)
        return number + 1, len(found)

    def way(self, points: list[str]) -> Way | None:
        """Paths of points while the first driver turns and everything else that is free stays; None if nothing does."""
        m, state = self.mechanism, self.state
        if not self.assembler.owner or not self.drivers or not self.pose.closed:
            return None
        driver, here = self.drivers[0], float(state.q[self.drivers[0]])
        rows, full = self._turn(driver, here)
        if not len(rows):
            return None
        places = trace(m, rows, points, params=state.params) if points else np.zeros((len(rows), 0, 2))
        return Way(rows, rows[:, m.q_names.index(driver)], places, full)

    def transmission(self, way: Way) -> tuple[np.ndarray, np.ndarray]:
        """Driver values (rad, m) along a way and the transmission angle (rad) at each."""
        a, state = self.assembler, self.state
        _, J = a.closures_at(way.q[::SPARSE], state.p)
        index = self.mechanism.q_names.index(self.drivers[0])
        closing = a.closing(state.positions, state.p, a.v_of_q[index])
        sines, _ = closing.transmission(J)
        return way.values[::SPARSE], np.arcsin(np.clip(sines, 0, 1))

    def _turn(self, driver: str, here: float) -> tuple[np.ndarray, bool]:
        """Positions over a full turn, or between the dead centres on either side."""
        try:
            return self.state.follow(driver, _values(here, here + 2 * math.pi, SAMPLES)), True
        except Singular:
            sides = [self._side(driver, here, sense) for sense in (-1.0, 1.0)]
            return np.vstack([sides[0][::-1], sides[1][1:]]), False

    def _side(self, driver: str, here: float, sense: float) -> np.ndarray:
        """Positions from here to the dead centre in one sense."""
        try:
            self.state.follow(driver, _values(here, here + sense * 2 * math.pi, SAMPLES))
            reached = here + sense * 2 * math.pi
        except Singular as problem:
            reached = float(problem.reached)
        for share in (1.0, 0.999, 0.99, 0.9):  # the last stretch before a dead centre cannot always be walked
            try:
                return self.state.follow(driver, _values(here, here + share * (reached - here), SAMPLES // 2))
            except Singular:
                continue
        return self.state.positions[None]

    def sentence(self) -> str:
        """What is known about the present pose, for people."""
        if not self.pose.closed:
            worst = max(self.pose.gaps, key=lambda n: self.pose.gaps[n])
            return f"Does not close: a gap of {1000 * self.pose.gaps[worst]:.3g} mm stays at {worst}"
        try:
            found = self.state.mobility(self.drivers[:1])
        except SaltusError as problem:
            return str(problem)
        text = _counted(found.freedom, "degree", " of freedom")
        if found.worst_loop is not None:
            angle = math.degrees(math.asin(min(max(found.transmission, 0.0), 1.0)))
            text += f", transmission angle {angle:.1f}° at {found.worst_loop}"
        if found.redundant:
            text += ", " + _counted(sum(found.redundant.values()), "redundant constraint")
        return text

    def reach(self, point: Frame | str, target: np.ndarray) -> dict[str, float]:
        """Values of the drivers that bring a point nearest to a place (m), the floating base where it is unless that
        alone moves the point.

        Gauss-Newton steps along the machine's own motions, short ones, so that the branch stays the same, and shorter
        still where one would lead away.
        """
        m, state = self.mechanism, self.state
        based = {n for j in m.joints.values() if "ground" in (j.a.link.name, j.b.link.name) for n in j.q_names}
        inner = [d for d in self.drivers if d not in based or len(self.drivers) == len(based & set(self.drivers))]
        rates = {n: self.assembler.v_of_q[m.q_names.index(n)] for n in m.q_names}
        moved = {d: rates[d][0] for d in self.drivers}
        turned = {n for n in based if len(rates.get(n, ())) > 1}  # quaternion of a body that floats: it does not turn
        held, longest = dict(self.held), STEP
        for _ in range(REACHES):
            _, J = self.assembler.closure(0.0, state.positions, state.p)
            still = {v for n in {*self.drivers, *turned} if n not in inner for v in rates[n]}
            rows = np.eye(self.assembler.nv)[sorted(still)]
            motions = null_space(np.vstack([J, rows])) if len(J) or len(rows) else np.eye(self.assembler.nv)
            if not np.abs(state.jacobian(point) @ motions).max(initial=0.0) > 1e-9:
                if len(inner) == len(self.drivers):
                    break
                inner = self.drivers
                continue
            gap = target - state.position(point)
            along = motions @ np.linalg.lstsq(state.jacobian(point) @ motions, gap, rcond=1e-3)[0]
            along *= min(1.0, longest / max(np.abs(along).max(), 1e-12))
            step = {d: float(along[moved[d]]) for d in inner}
            size = max(map(abs, step.values()), default=0.0)
            if size < 1e-6:
                break
            try:
                ahead = self._near(state, {**held, **{d: held[d] + v for d, v in step.items()}}, self.params)
            except CannotClose:
                break  # as near as the loops let it
            if np.linalg.norm(target - ahead.position(point)) > np.linalg.norm(gap):
                longest = size / 2
                continue
            state, held = ahead, held | {d: held[d] + v for d, v in step.items()}
        return held


def _counted(number: int, what: str, rest: str = "") -> str:
    return f"{number} {what}{'' if number == 1 else 's'}{rest}"


def _values(first: float, last: float, steps: int) -> list[float]:
    return np.linspace(first, last, steps + 1).tolist()


def drivers(state: State) -> list[str]:
    """Coordinates that, held, leave the machine no freedom: motors first, the floating base last."""
    m, a = state.mechanism, assembler(state.mechanism)
    _, J = a.closure(0.0, state.positions, state.p)
    based = {n for j in m.joints.values() if "ground" in (j.a.link.name, j.b.link.name) for n in j.q_names}
    motors = [n for j in m.joints.values() if j.motor for n in j.q_names if n in m.q_names]
    inner = [n for n in m.q_names if n not in based]
    out: list[str] = []
    known = rank(J) if len(J) else 0
    for name in dict.fromkeys([*motors, *inner, *m.q_names]):
        moved = a.v_of_q[m.q_names.index(name)]
        if len(moved) > 1:
            continue  # part of a quaternion
        row = np.zeros((1, a.nv))
        row[0, moved[0]] = 1.0
        more = np.vstack([J, row])
        if rank(more) > known:
            J, known = more, rank(more)
            out.append(name)
    return out
