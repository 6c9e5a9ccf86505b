"""Registry: the names, Params and number checks of a mechanism, apart from what its parts mean."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel, BadValue, DuplicateName, MissingParam, UnknownName
from saltus.model.parts import check_tensor
from saltus.model.symbols import SX, Number, Param, not_finite, vector

ARGUMENTS = ("self", "name", "near", "rates", "params", "time")  # of `assemble`, `keyframe`, which take joints by name
MAY_VANISH = ("inertia", "radius")  # of numbers that must not be negative

# Byte-order marks, and what turns the direction of text, so that a name looks like another one.
UNSEEN = "\ufeff\ufffe\uffff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Parts(dict[str, Any]):
    """Parts of a kind by name; one that is not there is told with those that are."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def __missing__(self, name: str) -> Any:
        raise UnknownName(self.kind, name, self)


def readable(text: Any, what: str) -> str:
    """Return a text that is shown, drawn and written to files, or refuse it: control characters break all three."""
    if not isinstance(text, str):
        raise BadValue(f"{what} is {text!r}; give a text", given=text)
    for c in text:
        if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in UNSEEN:
            raise BadValue(f"{what} {text[:60]!r} contains {c!r}, a control character; leave it out", given=text)
    return text


def _enough(value: float, what: str) -> bool:
    return value > 0 or (value == 0 and what in MAY_VANISH)


def _asked(what: str) -> str:
    return "it must be zero or more" if what in MAY_VANISH else "it must be positive"


class Params(dict[str, Param]):
    """Params by name; numbers are given to a start or a run, not put here."""

    def __setitem__(self, name: str, param: Param) -> None:
        if not isinstance(param, Param):
            raise BadValue(
                f"param {name!r} cannot be set to {param!r} in a machine; give it to a start, m.assemble(..., "
                f"params={{{name!r}: ...}}), or to a run, sl.simulate(..., params=...)",
                given=param,
            )
        super().__setitem__(name, param)


class Registry:
    """Named numbers of a machine, and the checks every part goes through when it is added."""

    def __init__(self, name: str) -> None:
        self.name = readable(name, "name of the machine")
        self.params: dict[str, Param] = Params()
        self.inputs: dict[str, SX] = {}
        self.memories: dict[str, SX] = {}
        self.time = SX.sym("t")
        self.q: dict[str, SX] = {}
        self.v: dict[str, SX] = {}
        self.checks: list[tuple[str, str, SX]] = []
        self._checker: tuple[tuple[tuple[Param, ...], int], ca.Function] | None = None

    def param(self, name: str, value: float | None = None, unit: str = "") -> Param:
        """Declare a named number. Without a value it must be given wherever numbers are needed."""
        self.new_name("param", name, self.params)
        if value is not None:
            self.plain(value, f"param {name!r}")
        param = Param(name, None if value is None else float(value), readable(unit, f"unit of param {name!r}"))
        self.params[name] = param
        return param

    def values(self, given: Mapping[str, float] | None = None) -> np.ndarray:
        """Return the vector of all Params, defaults overridden by `given`, checked."""
        given = dict(given or {})
        for name in given:
            if name not in self.params:
                raise UnknownName("param", name, self.params)
        out = []
        for name, param in self.params.items():
            value = given.get(name, param.value)
            if value is None:
                raise MissingParam(
                    f"param {name!r} of {self.name!r} has no value; pass params={{{name!r}: ...}} or give it a default",
                    param=name,
                )
            self.plain(value, f"param {name!r}")
            out.append(float(value))
        p = np.array(out)
        self._check_numbers(p)
        return p

    @property
    def p(self) -> SX:
        """All Params as one symbol vector."""
        return ca.vertcat(SX(0, 1), *[param.symbol for param in self.params.values()])

    def _check_numbers(self, p: np.ndarray) -> None:
        if not self.checks:
            return
        key = (tuple(self.params.values()), len(self.checks))
        checker = self._checker
        if checker is None or checker[0] != key:
            checked = ca.vertcat(*[ca.vec(ca.densify(e)) for *_, e in self.checks])
            self._checker = checker = key, ca.Function("check", [self.p], [checked])
        flat = np.asarray(checker[1](p)).ravel()
        for part, what, expression in self.checks:
            numbers, flat = flat[: expression.numel()], flat[expression.numel() :]
            if len(numbers) == 9:
                check_tensor(numbers.reshape(3, 3), part)
            elif not (math.isfinite(numbers[0]) and _enough(numbers[0], what)):
                raise BadValue(f"{part}: {what} is {numbers[0]:.6g} for the given Params; {_asked(what)}", part=part)

    def new_name(self, kind: str, name: str, taken: Mapping[str, Any]) -> None:
        """Refuse a name that is taken or that Python could not write."""
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise BadValue(f"{kind} name {name!r}: use letters, digits and _ (a valid Python name)", given=name)
        if "." in name and kind != "input":
            raise BadValue(f"{kind} name {name!r} has a dot; dots separate a joint from its coordinates", given=name)
        if kind == "joint" and name in ARGUMENTS:
            raise BadValue(
                f"joint name {name!r} means something else in m.assemble({name}=...); choose another", given=name
            )
        if name in taken:
            raise DuplicateName(f"{kind} {name!r} exists already in {self.name!r}; choose another name", name=name)

    def number(self, value: Number, part: str, lowest: float = -math.inf) -> None:
        """Refuse what is neither a finite number nor an expression of known Params."""
        if isinstance(value, Param | SX):
            self.known_symbols(part, vector(value))
            return
        self.plain(value, part)
        if value < lowest:
            raise BadValue(f"{part}: {value} is below {lowest:g}; give {lowest:g} or more", given=value)

    @staticmethod
    def plain(value: Any, part: str) -> None:
        """Refuse what is no finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise BadValue(f"{part}: {not_finite(value)}", given=value)

    def positive(self, value: Number, part: str, what: str) -> None:
        """Refuse what is not positive (a radius may be zero), now or for Params that come later."""
        self.number(value, f"{part}: {what}")
        expression = None
        if isinstance(value, Param | SX):
            expression = vector(value)
            defaults = {n: p.value for n, p in self.params.items()}
            if all(defaults[s.name()] is not None for s in ca.symvar(expression)):
                known = [(p.symbol, p.value) for p in self.params.values() if p.value is not None]
                f = ca.Function("f", [ca.vertcat(*[symbol for symbol, _ in known])], [expression])
                value = float(f([number for _, number in known]))
        if not isinstance(value, Param | SX) and not _enough(value, what):
            light = "; a link that weighs next to nothing may have 1e-9 kg" if what == "mass" and value == 0 else ""
            raise BadValue(f"{part}: {what} is {value}; {_asked(what)}{light}", part=part, given=value)
        if expression is not None:
            self.checks.append((part, what, ca.densify(expression)))

    def known_symbols(self, part: str, *expressions: SX, state: bool = False) -> None:
        """Refuse symbols of other machines; with `state` those of coordinates, inputs and time are known too."""
        known = {param.symbol.element_hash() for param in self.params.values()}
        if state:
            of_state = (self.q, self.v, self.inputs, self.memories, {"t": self.time})
            known |= {symbol.element_hash() for group in of_state for symbol in group.values()}
        for expression in expressions:
            for symbol in ca.symvar(expression):
                if symbol.element_hash() not in known:
                    raise BadModel(
                        f"{part} uses the symbol {symbol.name()!r}, which is not of {self.name!r}; declare it with "
                        "m.param(...)" + (", m.input(...) or use m.q, m.v, m.time" if state else ""),
                        symbol=symbol.name(),
                    )

    def without_rates(self, part: str, *expressions: SX) -> None:
        """Refuse velocities and inputs where only positions and time have a meaning."""
        rates = {s.element_hash() for group in (self.v, self.inputs, self.memories) for s in group.values()}
        for symbol in (s for e in expressions for s in ca.symvar(e)):
            if symbol.element_hash() in rates:
                raise BadModel(
                    f"{part} uses {symbol.name()!r}, a velocity or such; it may use positions, time and Params",
                    symbol=symbol.name(),
                )
