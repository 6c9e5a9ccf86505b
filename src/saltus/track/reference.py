"""References: a trajectory as stays in domains, and as polynomials between its samples for compiled feedback."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue, UnknownName
from saltus.hybrid.graph import ALONE
from saltus.hybrid.laws import Shift, Table
from saltus.model.mechanism import Mechanism
from saltus.model.rank import independent_rows
from saltus.model.symbols import SX
from saltus.simulation.trajectory import Trajectory
from saltus.track.polynomials import linear, parabola

CLOSEST = 0.02  # of the usual distance: samples nearer to one another are one knot
LATE = 0.1  # of a stay: for so long the reference goes on as it ended while the event that ended it is late


@dataclass(frozen=True, eq=False)
class Stay:
    """Samples of a reference while it is in one domain; `left` says whether an event ended the stay.

    `pairs` says that samples are ends and middles of intervals over which efforts are parabolas, as in a plan by
    Hermite-Simpson: without them the reference is no motion of the machine. `held` says that efforts are constant
    over the interval that a sample ends, as in a plan in implicit steps.
    """

    domain: str
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    torques: np.ndarray
    left: bool
    pairs: bool = False
    held: bool = False

    @property
    def efforts(self) -> np.ndarray:
        """Coefficients of the efforts between samples: parabolas through `pairs` of intervals, else straight lines."""
        if self.pairs:
            c = parabola(self.torques)
            first = np.stack([c[:, 0], c[:, 1] / 2, c[:, 2] / 4], axis=1)
            second = np.stack([first.sum(axis=1), (c[:, 1] + c[:, 2]) / 2, c[:, 2] / 4], axis=1)
            return np.stack([first, second], axis=1).reshape(2 * len(c), *c.shape[1:])
        if self.held:
            return np.pad(self.torques[1:, None], [(0, 0), (0, 2), (0, 0)])
        lines = linear(self.torques)
        return np.concatenate([lines, 0 * lines[:, :1]], axis=1)

    @property
    def lengths(self) -> np.ndarray:
        """How long each row of numbers serves (s): intervals, what a late event is waited for, and 1 for ever after."""
        wait = [LATE * (self.t[-1] - self.t[0])] if self.left else []
        return np.array([*np.diff(self.t), *wait, 1.0])

    @property
    def knots(self) -> np.ndarray:
        """When each row begins, in seconds after entry of the domain."""
        return np.concatenate([[0.0], np.cumsum(self.lengths[:-1])])

    def beyond(self, coefficients: np.ndarray, order: int = 0, *, at_rest: bool = False) -> np.ndarray:
        """Coefficients with rows for after the end: as it ended to the given order while an event is late, then held.

        What is held is the value reached, or zero (`at_rest`).
        """
        last, out = coefficients[-1], [coefficients]
        powers = np.arange(len(last))
        ratio = self.lengths[-2] / (self.t[-1] - self.t[-2]) if self.left else 0.0
        more = np.zeros((2, *last.shape))
        for j in range(order + 1):
            choose = np.array([math.comb(k, j) for k in powers])
            more[0, j] = choose @ last * ratio**j
        more[1, 0] = 0.0 if at_rest else more[0].sum(axis=0)
        out.append(more if self.left else more[1:])
        return np.concatenate(out)

    def over(self, owner: str) -> str:
        """What a report says of a run that outlasts its reference."""
        return (
            f"{owner}: the run stays in {self.domain!r} for longer than the reference, whose end is held then, at rest"
        )


class Reference:
    """A trajectory read as what feedback follows: on the n-th stay of a run in a domain, that of the reference.

    Later stays follow its last one in the domain that an event ended, so that one stride serves for many.
    """

    def __init__(self, trajectory: Trajectory, owner: str) -> None:
        if not isinstance(trajectory, Trajectory):
            raise BadValue(
                f"{owner}: the reference is a Trajectory (of sl.simulate or of a plan); {trajectory!r} given",
                given=trajectory,
            )
        self.trajectory, self.owner = trajectory, owner
        self.stays = stays_of(trajectory)

    def check(self, mechanism: Mechanism) -> None:
        """Refuse a reference of another machine."""
        meta = self.trajectory.meta
        own = {"q_names": mechanism.q_names, "v_names": mechanism.v_names, "inputs": list(mechanism.inputs)}
        for what, names in own.items():
            if list(meta[what]) != list(names):
                raise BadValue(
                    f"{self.owner}: the reference is of {meta['name']!r} with {', '.join(meta[what]) or 'nothing'}, "
                    f"the run of {mechanism.name!r} with {', '.join(names) or 'nothing'}; give one of the same machine",
                    reference=list(meta[what]),
                    machine=list(names),
                )
        if set(meta["params"]) != set(mechanism.params):
            raise BadValue(
                f"{self.owner}: the reference has Params {', '.join(meta['params'])}, the machine {mechanism.name!r} "
                f"{', '.join(mechanism.params)}; give one of the same machine"
            )

    def params(self, mechanism: Mechanism) -> np.ndarray:
        """Values of the machine's Params in the reference."""
        return np.array([self.trajectory.params[name] for name in mechanism.params], float)

    def count(self, domain: str) -> int:
        """Count the stays in a domain; later ones of a run follow one that was followed before."""
        return sum(s.domain == domain for s in self.stays)

    def through(self, domain: str, visit: int) -> list[Stay]:
        """What is followed in a domain, one after the other by the clock.

        One stay, but all of them in a run of the machine alone, whose contacts come and go by themselves in one
        domain: a plan through domains is followed on real ground by its times, not by its events.
        """
        if domain == ALONE and not self.count(domain):
            return self.stays
        return [self.stay(domain, visit)]

    def stay(self, domain: str, visit: int) -> Stay:
        """Return what the `visit`-th stay (from 0) in a domain follows."""
        mine = [s for s in self.stays if s.domain == domain]
        if not mine:
            known = list(dict.fromkeys(s.domain for s in self.stays))
            raise UnknownName(
                "domain",
                domain,
                known,
                message=f"{self.owner}: the reference is never in domain {domain!r}, only in {', '.join(known)}; give "
                f"a law for each domain with sl.control.PerDomain(...)",
            )
        if visit < len(mine):
            return mine[visit]
        return next((s for s in reversed(mine) if s.left), mine[-1])


def joined(stays: Sequence[Stay], tables: Sequence[Table]) -> Table:
    """One table of stays that follow one another: each ends when the next begins, whatever has happened."""
    knots, rows = [], []
    for stay, table in zip(stays, tables, strict=True):
        last = None if stay is stays[-1] else len(stay.t) - 1
        begin = stay.t[0] - stays[0].t[0]
        knots.append(begin + table.knots[:last])
        rows.append(table.rows[:last].copy())
        rows[-1][:, 0] += begin  # Blocks: when a row begins
    return Table(np.concatenate(knots), np.concatenate(rows), tables[-1].note, shifts=tables[0].shifts)


def stays_of(trajectory: Trajectory) -> list[Stay]:
    """Split at the events; a mere change of coordinates on the way leaves no trace."""
    arrays, phases = trajectory.arrays, np.asarray(trajectory.arrays["phase"])
    starts = [0, *(e.phase for e in trajectory.events if e.target is not None)]
    ends = [*starts[1:], int(phases.max()) + 1]
    out = []
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        mine = np.flatnonzero((phases >= first) & (phases < last))
        if not len(mine):
            continue
        count, mine = len(mine), mine[_knots(arrays["t"][mine])]
        if len(mine) < 2:
            continue
        pairs = bool(trajectory.meta.get("plan", {}).get("middles")) and len(mine) == count
        samples = {name: arrays[name][mine] for name in ("t", "q", "v", "a", "torques")}
        left = number < len(trajectory.events)
        held = bool(trajectory.meta.get("plan", {}).get("held"))
        domain = trajectory.meta["domains"][phases[mine[0]]]
        out.append(Stay(domain, **samples, left=left, pairs=pairs, held=held))
    if not out:
        raise BadValue("the reference has no two samples between events; simulate it for longer or at a higher rate")
    return out


def _knots(t: np.ndarray) -> list[int]:
    """Samples that stand apart from their neighbours, the first and the last among them.

    The second rate of a polynomial over a very short interval would be round-off.
    """
    gap = CLOSEST * float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    kept = [0]
    for i in range(1, len(t)):
        if t[i] - t[kept[-1]] > gap:
            kept.append(i)
    if kept[-1] != len(t) - 1:
        kept = [*kept[:-1], len(t) - 1] if len(kept) > 1 else kept
    return kept


# ---- polynomials between samples ----------------------------------------------------------------------------------


def evaluated(coefficients: SX, components: int, tau: SX, order: int = 0) -> SX:
    """Polynomials at tau (0 to 1), or their derivatives with respect to it; coefficients power by power."""
    powers = coefficients.numel() // max(components, 1)
    c = ca.reshape(coefficients, components, powers)
    out = SX.zeros(components)
    for k in reversed(range(order, powers)):
        factor = float(np.prod(range(k - order + 1, k + 1)))  # 1 for order 0
        out = out * tau + factor * c[:, k]
    return out


def accelerations(M: np.ndarray, J: np.ndarray, load: np.ndarray, bent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve M a - J' f = load, J a = bent for columns of a and f; dependent rows of J carry no force."""
    rows, nv = independent_rows(J), len(M)
    A = J[rows]
    saddle = np.block([[M, -A.T], [A, np.zeros((len(rows), len(rows)))]])
    solved = np.linalg.solve(saddle, np.concatenate([load, bent[rows]]))
    f = np.zeros((len(J), *load.shape[1:]))
    f[rows] = solved[nv:]
    return solved[:nv], f


class Blocks:
    """Named blocks of a row of numbers; the first two are when it begins (s after entry) and 1 over its length."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = {"begin": 1, "pace": 1, **sizes}
        self.width = sum(self.sizes.values())

    def rows(self, stay: Stay, **parts: np.ndarray) -> np.ndarray:
        """One row per knot of the stay; parts are per row, or the same in all."""
        count = len(stay.knots)
        out = []
        for name, size in self.sizes.items():
            part = {"begin": stay.knots[:, None], "pace": 1 / stay.lengths[:, None], **parts}[name]
            part = np.asarray(part, float)
            wide = part.reshape(count, size) if part.size == count * size and part.ndim > 1 else part.reshape(1, size)
            out.append(np.broadcast_to(wide, (count, size)))
        return np.concatenate(out, axis=1)

    def begin(self, name: str) -> int:
        """Place of the first number of a block."""
        return sum(list(self.sizes.values())[: list(self.sizes).index(name)])

    def split(self, row: SX) -> dict[str, SX]:
        """Blocks of a row by name."""
        ends = np.cumsum([0, *self.sizes.values()])
        return {name: row[int(ends[i]) : int(ends[i + 1])] for i, name in enumerate(self.sizes)}


def full_turns(mechanism: Mechanism, names: Sequence[str], stay: Stay, at: int = 0) -> tuple[Shift, ...]:
    """Shifts by full turns that bring outputs near where the domain is entered; `at` is the place of the first."""
    where = {name: mechanism.q_names.index(name) for name in names if name in mechanism.turns}
    return tuple(Shift(at + list(names).index(n), i, float(stay.q[0, i]), math.tau) for n, i in where.items())


def clock(t: Any, s: Any, row: Mapping[str, SX]) -> tuple[SX, SX]:
    """Share of the interval that has passed, and its rate (1/s)."""
    return (t - s.entry.t - row["begin"]) * row["pace"], row["pace"]


def gains(owner: str, what: str, given: float | Sequence[float], count: int) -> np.ndarray:
    """One gain an output, zero or more."""
    numbers = np.atleast_1d(np.asarray(given, float))
    if numbers.shape not in ((1,), (count,)) or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise BadValue(
            f"{owner}: {what} = {given!r}; give a number of zero or more, or one for each of {count} outputs"
        )
    return np.broadcast_to(numbers, (count,))


def limits(owner: str, given: float | Mapping[str, float] | None, inputs: Sequence[str]) -> np.ndarray:
    """Largest effort of every input (Nm, N); infinite where none is given."""
    if given is None:
        return np.full(len(inputs), np.inf)
    table = given if isinstance(given, Mapping) else dict.fromkeys(inputs, given)
    for name, value in table.items():
        if name not in inputs:
            raise UnknownName("input", name, inputs)
        if not value > 0:
            raise BadValue(f"{owner}: limit of {name!r} is {value}; give a positive effort (Nm, N)", given=value)
    return np.array([float(table.get(name, np.inf)) for name in inputs])


def clipped(u: SX, limit: np.ndarray) -> SX:
    """Efforts cut at their limits; a NaN passes, so that it is noticed."""
    out = SX(u)
    for i in np.flatnonzero(np.isfinite(limit)):
        top = float(limit[i])
        out[int(i)] = ca.if_else(u[int(i)] > top, top, ca.if_else(u[int(i)] < -top, -top, u[int(i)]))
    return out
