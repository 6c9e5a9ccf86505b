"""Inverse dynamics: the efforts, joint forces and shaking force that given motions of a machine take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.dynamics.balance import Balance, Load, balance_of, load
from saltus.errors import BadModel, BadValue, Singular, UnknownName
from saltus.model.assembly import CLOSED, State, assembler
from saltus.model.contents import unchanged
from saltus.model.geometry import trace
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX, Named, Param, number

UNITS = {"rad/s": 1.0, "deg/s": math.pi / 180, "rpm": math.pi / 30}
JUMP = 0.3  # rad or machine lengths: a coordinate goes no farther from one configuration to the next
HALVINGS = 20


@dataclass(frozen=True)
class Turning:
    """A coordinate that turns steadily from where the start has it; `unit` is rad/s, deg/s or rpm."""

    speed: float
    unit: str = "rad/s"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise UnknownName("unit", self.unit, UNITS)
        if not isinstance(self.speed, int | float) or not math.isfinite(self.speed) or self.speed == 0:
            raise BadValue(f"Turning: speed is {self.speed!r}; give a finite number other than zero", given=self.speed)

    @property
    def rate(self) -> float:
        """Speed in rad/s."""
        return self.speed * UNITS[self.unit]

    @property
    def period(self) -> float:
        """Time of one turn (s)."""
        return 2 * math.pi / abs(self.rate)


Motion = Turning | Callable[[SX], Any] | SX | Param | float


@dataclass(frozen=True, eq=False)
class Inverse:
    """A machine moved through given motions: positions, velocities, accelerations, efforts and forces over time.

    `shaking` is the resultant of all inertia forces, -m a of every link, with its moment about the world's origin:
    what the frame feels of the motion beside weight and applied forces.
    """

    mechanism: Mechanism
    params: Mapping[str, float]
    t: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    accelerations: np.ndarray
    effort: Named
    shaking: Load
    _wrenches: np.ndarray | BadModel

    @property
    def q(self) -> Named:
        """Positions by name, each an array over time (rad, m)."""
        return Named(self.mechanism.q_names, self.positions.T)

    @property
    def v(self) -> Named:
        """Velocities by name (rad/s, m/s)."""
        return Named(self.mechanism.v_names, self.velocities.T, "velocity")

    @property
    def a(self) -> Named:
        """Accelerations by name (rad/s2, m/s2)."""
        return Named(self.mechanism.v_names, self.accelerations.T, "acceleration")

    def load(self, joint: str) -> Load:
        """Force and moment over time that a joint transmits from its first link to its second."""
        if isinstance(self._wrenches, BadModel):
            raise self._wrenches
        return load(self.mechanism, joint, self._wrenches)

    def force(self, joint: str) -> np.ndarray:
        """Size of the force in a joint over time (N)."""
        return self.load(joint).size

    def position(self, point: Any) -> np.ndarray:
        """World position of a point over time (m), one row per time."""
        return trace(self.mechanism, self.positions, [point], params=self.params, t=self.t)[:, 0]

    def at(self, index: int) -> State:
        """State at one of the times."""
        q, v, t = self.positions[index], self.velocities[index], float(self.t[index])
        return State(self.mechanism, q, v, self.params, time=t)

    @property
    def loads(self) -> dict[str, Load]:
        """What each joint transmits, by name; none of them where a constraint written by hand leaves that open."""
        known = not isinstance(self._wrenches, BadModel)
        return {name: self.load(name) for name in self.mechanism.joints} if known else {}

    def records(self) -> list[dict[str, float]]:
        """One record per time, for a table: positions, efforts, forces of joints and the shaking force."""
        columns = {"t": self.t, **{f"q.{n}": x for n, x in self.q.items()}}
        columns |= {f"effort.{n}": x for n, x in self.effort.items()}
        for name, found in {**self.loads, "shaking": self.shaking}.items():
            columns |= {f"force.{name}.{c}": x for c, x in zip("xyz", found.vector.T, strict=False)}
        return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]

    def __repr__(self) -> str:
        efforts = ", ".join(f"{n} up to {np.abs(x).max():.6g}" for n, x in self.effort.items())
        return f"Inverse({self.mechanism.name!r}, {len(self.t)} times to {self.t[-1]:.6g} s: {efforts})"


@unchanged
def inverse(
    start: State | Mechanism,
    motions: Mapping[str, Motion] | None = None,
    *,
    until: float | None = None,
    samples: int = 361,
    params: Mapping[str, float] | None = None,
    **more: Motion,
) -> Inverse:
    """Efforts and joint forces of a machine whose every freedom moves as given, over one turn or `until` a time (s).

    Motions are given by coordinate, as keywords or (names with dots) in a mapping: a `Turning`, a function of time such
    as `lambda t: 0.1 * sl.math.sin(5 * t)`, an expression of `m.time` and Params, or a number, at which it is held.
    Motions the machine itself gives in time (`motion=`, `m.move`) count too. `start` says on which branch; a
    Mechanism is put together where its motions begin. Motors add nothing but the inertia of their rotors; the efforts
    found are those the motions take. Springs, dampers and forces act.
    """
    given = {**(motions or {}), **more}
    m = start if isinstance(start, Mechanism) else start.mechanism
    begin = start if isinstance(start, State) else None
    for name in given:
        if name not in m.q_names or len(assembler(m).v_of_q[m.q_names.index(name)]) > 1:
            raise UnknownName("coordinate that can be given a motion", name, [n for n in m.q_names if n in m.v_names])
        if isinstance(given[name], Turning) and name not in m.turns:
            raise BadValue(
                f"inverse: {name!r} slides and cannot turn; give a function of time, such as lambda t: 0.1 * t"
            )
    own = [n for n in m.inputs if m.motor_of(n) is None]
    if own:
        raise BadModel(
            f"inverse: input {own[0]!r} of {m.name!r} is set by nobody; put a force in its place", name=own[0]
        )
    if m.forces and balance_of(m, passive=True).e.z.numel():
        raise BadModel(f"inverse: friction of soft ground under {m.name!r} has a memory; simulate the machine instead")
    if begin is not None and len(given) > begin.mobility().freedom:
        raise BadValue(
            f"inverse: {len(given)} motions are given ({', '.join(given)}), which contradict one another: {m.name!r} "
            f"has {begin.mobility().freedom} freedom(s) here",
            given=list(given),
        )
    numbers = m.values(params if begin is None or params is not None else begin.params)
    driven = [m.v_names.index(n) for n in given]
    known = {n: float(begin.q[n]) for n in given} if begin is not None else {}
    law = _law(m, given, known)
    times = np.linspace(0.0, _end(given, until), _count(samples))
    values = [[np.ravel(np.asarray(x)) for x in law(t, numbers)] for t in times]
    if not all(np.isfinite(x).all() for row in values for x in row):
        raise BadValue(
            "inverse: a given motion, its speed or acceleration is not a finite number at all times; write it with "
            "sl.math functions, smooth in time"
        )
    first = dict(zip(given, values[0][0].tolist(), strict=True))
    named = dict(zip(m.params, numbers.tolist(), strict=True))
    begin = m.assemble(params=named, near=begin, **first)
    balance = balance_of(m, passive=True)
    return _walk(balance, begin, named, numbers, times, driven, list(given), law, values)


def _end(given: Mapping[str, Motion], until: float | None) -> float:
    turns = [motion.period for motion in given.values() if isinstance(motion, Turning)]
    if until is None:
        if not turns:
            raise BadValue("inverse: no motion turns; say until which time (s) to go, until=...")
        return max(turns)
    if not until > 0 or not math.isfinite(until):
        raise BadValue(f"inverse: until is {until!r}; give a positive time in s", given=until)
    return float(until)


def _count(samples: int) -> int:
    if not isinstance(samples, int) or samples < 2:
        raise BadValue(f"inverse: samples is {samples!r}; give at least 2", given=samples)
    return samples


def _law(m: Mechanism, given: Mapping[str, Motion], known: Mapping[str, float]) -> ca.Function:
    """Values, rates and accelerations of the driven coordinates at (t, p)."""
    values = []
    for name, motion in given.items():
        if isinstance(motion, Turning):
            value = SX(known.get(name, 0.0)) + motion.rate * m.time
        elif callable(motion) and not isinstance(motion, SX | Param):
            value = _traced(name, motion, m.time)
        else:
            value = number(motion)
        unknown = {s.name() for s in ca.symvar(value)} - {m.time.name(), *m.params}
        if value.numel() != 1 or unknown:
            raise BadValue(
                f"inverse: the motion of {name!r} is an expression of m.time and Params; "
                + (f"it uses {', '.join(sorted(unknown))}" if unknown else f"its shape is {value.shape}"),
                name=name,
            )
        values.append(value)
    x = ca.vertcat(SX(0, 1), *values)
    rate = ca.jtimes(x, m.time, SX(1))
    second = ca.jtimes(rate, m.time, SX(1))
    return ca.Function("law", [m.time, m.p], [ca.densify(e) for e in (x, rate, second)])


def _traced(name: str, motion: Callable[[SX], Any], time: SX) -> SX:
    try:
        return SX(motion(time))
    except Exception as problem:
        raise BadValue(
            f"inverse: the motion of {name!r} cannot be followed as an expression of time ({problem}); write it with "
            "sl.math functions",
            name=name,
        ) from problem


def _walk(
    balance: Balance,
    begin: State,
    named: Mapping[str, float],
    p: np.ndarray,
    times: np.ndarray,
    driven: list[int],
    names: list[str],
    law: ca.Function,
    values: list[list[np.ndarray]],
) -> Inverse:
    m, n = balance.mechanism, balance.nv
    q, before = begin.positions, 0.0
    still, u, z = np.zeros(n), np.zeros(len(m.inputs)), np.zeros(0)
    rows: list[tuple[np.ndarray, ...]] = []
    unknown: BadModel | None = None
    wrenches = []
    listed, at = balance.given
    places = [*at, *range(balance.rows + balance.slack, balance.rows + balance.slack + len(driven))]
    for t, (_, rate, second) in zip(times.tolist(), values, strict=True):
        q = _advance(m, q, before, t, p, names, law)
        before = t
        resting = balance.at(t, q, still, u, p, z)
        v = resting.rates(driven, rate, resting.phi_t)[:n]
        instant = balance.at(t, q, v, u, p, z)
        solved = instant.solve(driven, second)
        if len(solved.open) and np.abs(solved.open[:, places]).max(initial=0.0) > 1e-7 * np.abs(solved.open).max():
            raise BadValue(
                f"inverse: more motions of {m.name!r} are given than it has freedoms, so that their efforts are not "
                f"determined; give fewer than {', '.join([*names, *listed])}",
                given=[*names, *listed],
            )
        full = balance.full(q), balance.full(v)
        rows.append((q, v, solved.a[:n], solved.f[places], np.ravel(balance.shaking(t, *full, solved.a, p)).copy()))
        if unknown is None:
            try:
                wrenches.append(instant.transmitted(solved))
            except BadModel as problem:
                unknown = problem
    Q, V, A, F, S = (np.array(column) for column in zip(*rows, strict=True))
    shaking = Load(S[:, :3], S[:, 3:]) if m.spatial else Load(S[:, :2], S[:, 5])
    effort = Named([*listed, *names], F.T, "effort")
    return Inverse(m, named, times, Q, V, A, effort, shaking, np.array(wrenches) if unknown is None else unknown)


def _advance(
    m: Mechanism, q: np.ndarray, now: float, then: float, p: np.ndarray, names: list[str], law: ca.Function
) -> np.ndarray:
    """Positions at a later time, on the same branch: by steps short enough that no coordinate jumps."""
    a = assembler(m)
    sizes = a.scale.of_columns(p)[[v[0] for v in a.v_of_q]]
    index = [m.q_names.index(n) for n in names]
    locked = {v for i in index for v in a.v_of_q[i]}
    free = [i for i in range(a.nv) if i not in locked]
    shortest, step = (then - now) / 2**HALVINGS, then - now
    while True:
        ahead = min(now + step, then) if now + 1.0001 * step < then else then
        guess = q.copy()
        guess[index] = np.ravel(np.asarray(law(ahead, p)[0]))
        closed, gap = a.newton(guess, free, p, ahead) if a.owner else (guess, 0.0)
        if gap <= CLOSED and np.abs((closed - q) / sizes).max(initial=0.0) <= JUMP:
            q, now = closed, ahead
            if ahead == then:
                return q
        else:
            step /= 2
            if step < shortest:
                raise Singular(
                    f"{m.name!r} cannot follow the given motions beyond t = {now:.6g} s: a dead centre or the end of "
                    "its travel; see state.travel(...)",
                    t=now,
                    positions=q,
                )
