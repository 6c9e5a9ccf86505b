"""Named symbols: Param, named views of vectors, and the small 3D algebra every expression is built from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue, UnknownName

SX = ca.SX
Number = Any  # float | Param | SX expression of Params
_float = SX.__float__


class NoFloat(BadValue, TypeError):
    """What Python expects where there is no float, as an error of Saltus."""


def _no_float(symbol: SX) -> float:
    """A float of what is a number. CasADi gives NaN for what is none, of which math.copysign makes 1.0."""
    if symbol.is_constant():
        return _float(symbol)
    raise NoFloat(
        f"a float was taken of the symbol {symbol}, as math.sin and other functions of Python's math module do; "
        "take sl.math.sin"
    )


SX.__float__ = _no_float  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class Param:
    """One named number of a machine: swept, continued in, optimised over, changed without a rebuild.

    Arithmetic with Params, floats and CasADi functions gives expressions: `2 * l1 + 0.01`, `sl.math.cos(theta)`.
    """

    name: str
    value: float | None = None
    unit: str = ""
    symbol: SX = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise BadValue(
                f"param {self.name!r}: value {self.value} is not finite; give a finite number",
                param=self.name,
            )
        object.__setattr__(self, "symbol", SX.sym(self.name))

    def __SX__(self) -> SX:  # CasADi's own conversion hook
        return self.symbol

    def __add__(self, other: Number) -> SX:
        return self.symbol + other

    def __radd__(self, other: Number) -> SX:
        return other + self.symbol

    def __sub__(self, other: Number) -> SX:
        return self.symbol - other

    def __rsub__(self, other: Number) -> SX:
        return other - self.symbol

    def __mul__(self, other: Number) -> SX:
        return self.symbol * other

    def __rmul__(self, other: Number) -> SX:
        return other * self.symbol

    def __truediv__(self, other: Number) -> SX:
        return self.symbol / other

    def __rtruediv__(self, other: Number) -> SX:
        return other / self.symbol

    def __pow__(self, other: Number) -> SX:
        return self.symbol**other

    def __neg__(self) -> SX:
        return -self.symbol


class Expression:
    """An expression that compares by what it is made of: the same operations on the same symbols and numbers."""

    __slots__ = ("value",)

    def __init__(self, value: SX) -> None:
        self.value = SX(value)  # a copy: entries of the original may be assigned to

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression) or self.value.sparsity() != other.value.sparsity():
            return False
        return bool(ca.is_equal(self.value, other.value, 100))

    def __hash__(self) -> int:
        return hash(self.value.shape)


class Named:
    """A vector whose entries have dotted names: `s.q.hip`, `s.q.boom.x`, `s.q["boom.x"]`, all of `s.q.tail`.

    Values may be floats, SX symbols or arrays over time; a wrong name lists the valid ones. `"hip" in s.q` asks for a
    name; a loop runs over the values.
    """

    __slots__ = ("_kind", "_names", "_values")

    def __init__(self, names: Sequence[str], values: Any, kind: str = "coordinate") -> None:
        self._names = tuple(names)
        self._values = values
        self._kind = kind

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__slots__:
            self[name] = value
        object.__setattr__(self, name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        raise BadValue(
            f"{self._kind} {name!r} cannot be set; make another state, m.assemble(near=state, {name}=...)", given=value
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.__slots__:
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name in self._names:
            return self._values[self._names.index(name)]
        names = members(name, self._names) if isinstance(name, str) else []
        if not names:
            raise UnknownName(self._kind, name, self._names)
        values = [self._values[self._names.index(full)] for full in names]
        own = [full.removeprefix(name + ".") for full in names]
        return Named(own, values, self._kind)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(members(name, self._names))

    def __iter__(self) -> Iterator[Any]:
        return (self._values[i] for i in range(len(self._names)))

    def __len__(self) -> int:
        return len(self._names)

    def __dir__(self) -> list[str]:
        return sorted({n.split(".")[0] for n in self._names})

    def __repr__(self) -> str:
        entries = [f"{n}={_short(v)}" for n, v in zip(self._names, self, strict=True)]
        samples = {len(v) for v in self if isinstance(v, np.ndarray) and v.ndim}
        return "(" + ", ".join(entries) + (f"; {samples.pop()} samples" if len(samples) == 1 else "") + ")"

    @property
    def squared_norm(self) -> Any:
        """Sum of the squares of all entries."""
        return sum(value * value for value in self)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Name and value of every entry."""
        return zip(self._names, self, strict=True)

    def _no_number(self, *_: Any) -> Any:
        raise BadValue(
            f"a group of {len(self)} {self._kind} entries ({', '.join(self._names)}) is no number: calculate with its "
            "entries by name, or with .squared_norm",
            names=list(self._names),
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_number
    __pow__ = __rpow__ = __neg__ = __abs__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = __SX__ = _no_number


def members(name: str, names: Sequence[str]) -> list[str]:
    """The entry of this name, or all that belong to it: "boom" has boom.x and boom.y, "tail" tail1.alpha and more."""
    if name in names:
        return [name]
    rest = {full: full[len(name) :] for full in names if full.startswith(name)}
    return [full for full, more in rest.items() if more[0] == "." or more.split(".")[0].isdigit()]


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim and value.size:
        return f"{value.min():.4g} to {value.max():.4g}"
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def flatten(given: Mapping[str, Any], names: Sequence[str], kind: str = "coordinate") -> dict[str, float]:
    """Turn {'boom': (0, 0.4), 'hip': 1.0, 'base.x': 2} into one number for each full name."""
    flat: dict[str, float] = {}
    for key, value in given.items():
        if key in names:
            targets = [key]
        else:
            targets = [n for n in names if n.startswith(key + ".")]
            if not targets:
                raise UnknownName(kind, key, names)
        try:
            numbers = np.atleast_1d(np.asarray(value, float)).ravel()
        except (TypeError, ValueError):
            raise BadValue(f"{kind} {key!r}: {value!r} is not a number", name=key, given=value) from None
        if len(numbers) != len(targets):
            raise BadValue(
                f"{kind} {key!r} takes {len(targets)} number(s) ({', '.join(targets)}); {len(numbers)} given",
                given=value,
                expected=targets,
            )
        for target, number in zip(targets, numbers, strict=True):
            if not math.isfinite(number):
                raise BadValue(f"{kind} {target!r}: {not_finite(float(number))}", name=target)
            if target in flat:
                raise BadValue(f"{kind} {target!r} is given twice; give it once", name=target)
            flat[target] = float(number)
    return flat


def in_radians(angle: float) -> str:
    """Words for an angle beyond a turn, which is mostly one in degrees."""
    return f"is in radians, {angle / math.tau:.1f} turns; for degrees write math.radians({angle:g})"


def not_finite(value: Any) -> str:
    """Words for what should have been a finite number."""
    nan = isinstance(value, float) and math.isnan(value)
    return f"{value!r} is not a finite number; " + ("of symbols take sl.math.sin, not math.sin" if nan else "give one")


def where(condition: Any, then: Any, otherwise: Any) -> Any:
    """Branch on state inside a traced expression: `where(s.v.hip > 0, a, b)`."""
    if isinstance(condition, SX):
        return ca.if_else(condition, then, otherwise)
    return then if condition else otherwise


def vector(*entries: Number) -> SX:
    """Column vector with structural zeros where an entry is exactly zero."""
    return ca.sparsify(ca.vertcat(*[number(e) for e in entries]))


def number(value: Number) -> SX:
    """Turn a number, a Param or an expression into an expression."""
    try:
        return SX(value.symbol) if isinstance(value, Param) else SX(value)
    except NotImplementedError:
        raise BadValue(
            f"{value!r} is no number; give one, a Param, or an expression of them and of m.time", given=value
        ) from None


def cross(a: SX, b: SX) -> SX:
    """Cross product that keeps structural zeros."""
    return ca.mtimes(skew(a), b)


def skew(a: SX) -> SX:
    """Matrix of the cross product, [a] b = a x b."""
    out = SX(3, 3)
    for i, j, k, sign in ((0, 1, 2, -1), (0, 2, 1, 1), (1, 0, 2, 1), (1, 2, 0, -1), (2, 0, 1, -1), (2, 1, 0, 1)):
        if a.sparsity().has_nz(k, 0):
            out[i, j] = sign * a[k]
    return out


def rotation(axis: SX, angle: SX) -> SX:
    """Rodrigues' formula for a unit axis; axis-aligned axes keep their structural zeros."""
    c, s = ca.cos(angle), ca.sin(angle)
    outer = ca.mtimes(axis, axis.T)
    return ca.simplify(ca.sparsify(c * (SX.eye(3) - outer) + outer + s * skew(axis)))


def quaternion_rotation(w: SX, x: SX, y: SX, z: SX) -> SX:
    """Rotation matrix (body to parent) of a unit quaternion, scalar first."""
    return ca.vertcat(
        ca.horzcat(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        ca.horzcat(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        ca.horzcat(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
