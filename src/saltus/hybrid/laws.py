"""Controllers: sampled Python callables, laws with a table of numbers, and ready-made laws for joints with motors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.signals import Entry


@dataclass(frozen=True, eq=False)
class Sampled:
    """A plain Python callable `function(t, s)`, called `rate` times per second; its output is held in between."""

    function: Callable[[float, Any], Mapping[str, float]]
    rate: float = 1000.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise BadValue(f"Sampled: rate is {self.rate}; give samples per second, above zero", given=self.rate)


# ---- laws with a table of numbers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shift:
    """A number of all rows that counts from where the domain is entered: row[place] += q[coordinate] - value.

    With a `period` (2 pi of an angle) only its whole multiples count, the nearest number of them.
    """

    place: int
    coordinate: int
    value: float
    period: float = 0.0

    def by(self, q: np.ndarray) -> float:
        """What is added for a domain entered at these positions."""
        ahead = float(q[self.coordinate]) - self.value
        return self.period * math.floor(ahead / self.period + 0.5) if self.period else ahead


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers over time: row i holds from knots[i] (s) to the next knot, the last one for good.

    Knots count from entry of the domain, or with `of_run` are times of the run; `shifts` say which numbers depend on
    the state at entry. `note` goes into the run's report once the last row is in use.
    """

    knots: np.ndarray
    rows: np.ndarray
    note: str = ""
    of_run: bool = False
    shifts: tuple[Shift, ...] = ()

    def __post_init__(self) -> None:
        knots, rows = np.asarray(self.knots, float), np.asarray(self.rows, float)
        if rows.ndim != 2 or knots.shape != rows.shape[:1] or not len(knots):
            raise BadValue(
                f"a table takes one row of numbers per knot; {knots.shape} knots and {rows.shape} rows given",
                given=(knots.shape, rows.shape),
            )
        if not (np.isfinite(knots).all() and (np.diff(knots) > 0).all()):
            raise BadValue("the knots of a table are times in seconds, each later than the one before", given=knots)
        if not np.isfinite(rows).all():
            raise BadValue("a table holds numbers that are not finite; look at what it was made of", given=rows)
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "rows", rows)

    def entered(self, entry: Entry) -> Table:
        """Return the table of a stay that begins at this time and state: knots are times of the run."""
        rows, q = self.rows.copy(), np.array([*entry.q])
        for shift in self.shifts:
            rows[:, shift.place] += shift.by(q)
        return Table(self.knots if self.of_run else entry.t + self.knots, rows, self.note, of_run=True)

    def index(self, t: float) -> int:
        """Row in use from time t on; the first one before its knot too."""
        return max(int(np.searchsorted(self.knots, t + 1e-12, side="right")) - 1, 0)


class Schedule(ABC):
    """A law `law(t, s, row)` traced once and compiled, whose numbers `row` a run changes at the knots of a table.

    A run stops at every knot, so a law may jump there, and polynomials between knots are integrated as they are.
    """

    @abstractmethod
    def width(self, constrained: Constrained) -> int:
        """Count the numbers of a row in a domain."""

    @abstractmethod
    def table(self, constrained: Constrained, visit: int) -> Table:
        """Rows for the `visit`-th stay (from 0) in a domain."""

    def stays(self, constrained: Constrained) -> int:
        """Count the stays in a domain that have tables of their own; all later ones have the same table."""
        return 0

    @abstractmethod
    def law(self, t: Any, s: Any, row: Any) -> Mapping[str, Any]:
        """Efforts by input, as symbols."""

    def judged(self, run: Any, control: Any) -> str:
        """What the report of a run shall say of this law, which acts in `control`; nothing if all is well."""
        return ""


@dataclass(frozen=True, eq=False)
class Scheduled(Schedule):
    """A law of your own with a table: `function(t, s, row)`, where rows[i] holds from knots[i] (s, time of the run) on.

    `Scheduled(lambda t, s, row: {"hip": row[0] + row[1] * t}, knots=[0, 0.1], rows=[[0, 5], [0.5, 0]])` is a ramp
    that ends after 0.1 s.
    """

    function: Callable[[Any, Any, Any], Mapping[str, Any]]
    knots: Sequence[float]
    rows: Any

    _table: Table = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_table", Table(np.asarray(self.knots, float), np.asarray(self.rows, float), of_run=True)
        )

    def width(self, constrained: Constrained) -> int:
        """Count the numbers of a row."""
        return self._table.rows.shape[1]

    def table(self, constrained: Constrained, visit: int) -> Table:
        """Return the same rows in every domain."""
        return self._table

    def law(self, t: Any, s: Any, row: Any) -> Mapping[str, Any]:
        """Efforts by input."""
        return self.function(t, s, row)


def law_in(control: Any, domain: str) -> Any:
    """Return the law that acts in a domain; None where PerDomain names none."""
    while isinstance(control, PerDomain):
        control = control.laws.get(domain)
    return control


def stepwise(control: Any) -> Sampled | Schedule | None:
    """Find what is no plain formula of (t, s): a Sampled or scheduled law, here or in one of the domains."""
    if isinstance(control, PerDomain):
        return next((found for law in control.laws.values() if (found := stepwise(law)) is not None), None)
    return control if isinstance(control, Sampled | Schedule) else None


# ---- laws for joints ----------------------------------------------------------------------------------------------


def _value(number: float | str, s: Any) -> Any:
    """Return a number, or the Param of that name."""
    return s.p[number] if isinstance(number, str) else number


def _alone(s: Any, joint: str, effort: Any) -> dict[str, Any]:
    """Effort on one joint, none on the other inputs."""
    return {**dict.fromkeys(s.mechanism.inputs, 0.0), joint: effort}


@dataclass(frozen=True)
class PD:
    """Hold a joint at `target` (a number, a Param's name or f(t, s)): u = kp (target - q) - kd q'.

    Gains are numbers or names of Params.
    """

    joint: str
    target: Any
    kp: float | str
    kd: float | str

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        target = self.target(t, s) if callable(self.target) else _value(self.target, s)
        return _alone(
            s, self.joint, _value(self.kp, s) * (target - s.q[self.joint]) - _value(self.kd, s) * s.v[self.joint]
        )


@dataclass(frozen=True)
class Damping:
    """Brake a joint: u = -d q', d a number or a Param's name."""

    joint: str
    d: float | str

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        return _alone(s, self.joint, -_value(self.d, s) * s.v[self.joint])


@dataclass(frozen=True)
class ConstantSpeed:
    """Turn a crank at `speed` (rad/s) from where the domain was entered, optionally up to a `hold` angle (rad).

    The law of Liu and Ben-Tzvi (2020), eq. 20: u = kp (ramp - q) - kd q'. With `hold`, the ramp stops at the
    next angle equal to `hold` modulo a full turn. All four are numbers or names of Params.
    """

    joint: str
    speed: float | str
    kp: float | str
    kd: float | str
    hold: float | str | None = None

    def ramp(self, t: Any, s: Any) -> Any:
        """Angle the crank is asked to have (rad)."""
        entry, speed = s.entry.q[self.joint], _value(self.speed, s)
        turned = speed * (t - s.entry.t)
        if self.hold is None:
            return entry + turned
        sense = ca.sign(speed)
        ahead = sense * (_value(self.hold, s) - entry)
        wrapped = ca.atan2(ca.sin(ahead), ca.cos(ahead))
        way = ca.if_else(wrapped < 0, wrapped + 2 * math.pi, wrapped)  # to the next hold angle, less than a turn
        return entry + sense * ca.fmin(sense * turned, way)

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        error = self.ramp(t, s) - s.q[self.joint]
        return _alone(s, self.joint, _value(self.kp, s) * error - _value(self.kd, s) * s.v[self.joint])


class PerDomain:
    """Another law in each domain: `PerDomain(flight=swing, stance=push)`; domains not named get no control."""

    def __init__(self, **laws: Callable[[Any, Any], Mapping[str, Any]]) -> None:
        self.laws = laws

    def __call__(self, t: Any, s: Any) -> Mapping[str, Any]:
        """Effort of the law that belongs to the present domain."""
        law = law_in(self, s.domain)
        return dict.fromkeys(s.mechanism.inputs, 0.0) if law is None else law(t, s)
