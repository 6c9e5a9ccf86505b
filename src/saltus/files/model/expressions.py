"""Expressions in files: a small safe grammar such as "2*l_1 + 0.01", read into values and written from symbols.

Text goes through a tokenizer and a recursive-descent parser into postfix code, which a stack evaluates on floats
and on CasADi symbols alike. Nothing in it can call Python. Parts that occur often may have a name of their own:
"a = q.hip - 0.2; 3*a + a^3".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca

from saltus.errors import BadModel, BadValue, UnknownName
from saltus.model.symbols import SX, Param, where

LONGEST = 100_000  # characters
DEEPEST = 60  # nested brackets and signs
DISPLACED = "displacement "  # marks the displacements of given motions in `names`
SHORT = 400  # characters up to which an expression is written without named parts

Value = Any  # float, SX

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^()<>,;=])|(?P<bad>\S))"
)
_WORDS = ("and", "or", "not")


FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    **{
        n: (1, getattr(ca, n))
        for n in (
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "exp",
            "log",
            "sqrt",
            "sign",
            "floor",
            "ceil",
            "expm1",
            "log1p",
            "erf",
        )
    },
    "abs": (1, ca.fabs),
    "atan2": (2, ca.atan2),
    "hypot": (2, ca.hypot),
    "min": (2, ca.fmin),
    "max": (2, ca.fmax),
    "copysign": (2, ca.copysign),
    "fmod": (2, ca.fmod),
    "where": (3, where),
}
CONSTANTS = {"pi": math.pi}
_GROUPS = ("entry", "position", "velocity", "force", "motion", "touching")
RESERVED = {*FUNCTIONS, *CONSTANTS, *_WORDS, *"tpqvu", *_GROUPS}


def _both(symbolic: Callable[..., Value], plain: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *a: symbolic(*a) if any(isinstance(x, SX) for x in a) else float(plain(*a))


_OPERATORS: dict[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": _both(lambda a, b: a**b, math.pow),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": _both(ca.logic_and, lambda a, b: bool(a) and bool(b)),
    "or": _both(ca.logic_or, lambda a, b: bool(a) or bool(b)),
    "not": _both(ca.logic_not, lambda a: not a),
    "neg": lambda a: -a,
}

# ---- reading ------------------------------------------------------------------------------------------------------


class _Parser:
    """Postfix code of one text."""

    def __init__(self, text: str) -> None:
        self.text, self.code, self.at, self.depth = text, [], 0, 0  # type: tuple[str, list[tuple[Any, ...]], int, int]
        if len(text) > LONGEST:
            raise BadValue(f"expression of {len(text)} characters; the longest allowed has {LONGEST}")
        self.tokens = [
            (m.lastgroup, m.group(m.lastgroup), m.start(m.lastgroup)) for m in _TOKEN.finditer(text) if m.lastgroup
        ]
        while True:
            if self._is_assignment():
                name = self._next()[1]
                if name in RESERVED or "." in name:
                    raise self._wrong(f"{name!r} cannot name a part of an expression; use a plain new name")
                self._next()
                self._either()
                self._expect(";")
                self.code.append(("set", name))
            else:
                self._either()
                if self._peek()[1] == ";":
                    raise self._wrong("only named parts, NAME = ..., stand before ';'")
                break
        if self.at < len(self.tokens):
            raise self._wrong(f"unexpected {self._peek()[1]!r}")

    def _is_assignment(self) -> bool:
        return self._peek()[0] == "name" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][1] == "="

    def _peek(self) -> tuple[str, str, int]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", len(self.text))

    def _next(self) -> tuple[str, str, int]:
        token = self._peek()
        self.at += 1
        return token

    def _wrong(self, what: str) -> BadValue:
        place = self._peek()[2]
        shown = self.text if len(self.text) <= 80 else self.text[max(0, place - 30) : place + 30]
        return BadValue(f"expression {shown!r}: {what} at character {place + 1}", expression=shown)

    def _expect(self, sign: str) -> None:
        if self._peek()[1] != sign:
            raise self._wrong(f"expected {sign!r}")
        self.at += 1

    def _chain(self, signs: tuple[str, ...], operand: Callable[[], None], once: bool = False) -> None:
        operand()
        while self._peek()[0] != "number" and self._peek()[1] in signs:
            sign = self._next()[1]
            operand()
            self.code.append(("op", sign, 2))
            if once:
                return

    def _either(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._wrong(f"nested more than {DEEPEST} deep")
        self._chain(("or",), lambda: self._chain(("and",), self._inverted))
        self.depth -= 1

    def _inverted(self) -> None:
        count = 0
        while self._peek()[1] == "not":
            self.at, count = self.at + 1, count + 1
        self._chain(("<", "<=", ">", ">=", "==", "!="), self._sum, once=True)
        self.code += [("op", "not", 1)] * count

    def _sum(self) -> None:
        self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._signed))

    def _signed(self) -> None:
        negative = False
        while self._peek()[1] in ("-", "+"):
            negative ^= self._next()[1] == "-"
        self._atom()
        if self._peek()[1] in ("^", "**"):
            self.at += 1
            self.depth += 1
            if self.depth > DEEPEST:
                raise self._wrong(f"nested more than {DEEPEST} deep")
            self._signed()
            self.depth -= 1
            self.code.append(("op", "^", 2))
        if negative:
            self.code.append(("op", "neg", 1))

    def _atom(self) -> None:
        kind, word, _ = self._peek()
        if kind == "number":
            self.at += 1
            self.code.append(("number", float(word)))
        elif word == "(":
            self.at += 1
            self._either()
            self._expect(")")
        elif kind == "name" and word not in _WORDS:
            self.at += 1
            if self._peek()[1] == "(":
                self._call(word)
            else:
                self.code.append(("name", word))
        else:
            raise self._wrong("the expression ends too early" if kind == "end" else f"unexpected {word!r}")

    def _call(self, name: str) -> None:
        if name not in FUNCTIONS:
            self.at -= 1
            raise self._wrong(str(UnknownName("function", name, FUNCTIONS)))
        self.at += 1
        count = 0
        while True:
            self._either()
            count += 1
            if self._peek()[1] != ",":
                break
            self.at += 1
        self._expect(")")
        if count != FUNCTIONS[name][0]:
            raise self._wrong(f"{name} takes {FUNCTIONS[name][0]} argument(s), {count} given")
        self.code.append(("call", name, count))


@lru_cache(maxsize=4096)
def parsed(text: str) -> tuple[tuple[Any, ...], ...]:
    """Postfix code of a text; BadValue says what is wrong where."""
    return tuple(_Parser(text).code)


def evaluate(text: str, lookup: Callable[[str], Value]) -> Value:
    """Value of an expression, a float or SX; `lookup` gives the value of a name or raises UnknownName."""
    stack: list[Value] = []
    parts: dict[str, Value] = {}
    try:
        for kind, word, *count in parsed(text):
            if kind == "number":
                stack.append(word)
            elif kind == "name":
                stack.append(parts[word] if word in parts else CONSTANTS[word] if word in CONSTANTS else lookup(word))
            elif kind == "set":
                parts[word] = stack.pop()
            else:
                arguments = stack[-count[0] :]
                del stack[-count[0] :]
                function = _OPERATORS[word] if kind == "op" else FUNCTIONS[word][1]
                result = function(*arguments)
                stack.append(result if isinstance(result, SX) else float(result))
    except (ZeroDivisionError, OverflowError, ValueError) as problem:
        raise BadValue(f"expression {text[:80]!r} has no value: {problem}", expression=text[:80]) from None
    return stack[0]


# ---- writing ------------------------------------------------------------------------------------------------------

_ADD, _MUL, _NEG, _POW, _ATOM = 5, 6, 7, 8, 9
_COMPARE = {ca.OP_LT: "<", ca.OP_LE: "<=", ca.OP_EQ: "==", ca.OP_NE: "!="}
_CALLS = {
    ca.OP_SIN: "sin",
    ca.OP_COS: "cos",
    ca.OP_TAN: "tan",
    ca.OP_ASIN: "asin",
    ca.OP_ACOS: "acos",
    ca.OP_ATAN: "atan",
    ca.OP_SINH: "sinh",
    ca.OP_COSH: "cosh",
    ca.OP_TANH: "tanh",
    ca.OP_ASINH: "asinh",
    ca.OP_ACOSH: "acosh",
    ca.OP_ATANH: "atanh",
    ca.OP_EXP: "exp",
    ca.OP_LOG: "log",
    ca.OP_SQRT: "sqrt",
    ca.OP_SIGN: "sign",
    ca.OP_FLOOR: "floor",
    ca.OP_CEIL: "ceil",
    ca.OP_EXPM1: "expm1",
    ca.OP_LOG1P: "log1p",
    ca.OP_ERF: "erf",
    ca.OP_FABS: "abs",
    ca.OP_ATAN2: "atan2",
    ca.OP_HYPOT: "hypot",
    ca.OP_FMIN: "min",
    ca.OP_FMAX: "max",
    ca.OP_COPYSIGN: "copysign",
    ca.OP_FMOD: "fmod",
}


@dataclass(frozen=True)
class Node:
    """One operation of a scalar expression; `args` are numbers of earlier nodes."""

    op: int
    args: tuple[int, ...] = ()
    constant: float = 0.0
    name: str = ""


def nodes(expression: SX, names: Mapping[int, str]) -> list[Node]:
    """Operations of a scalar expression in order, the result last; `names` by element hash of the symbols."""
    symbols = ca.symvar(expression)
    for symbol in symbols:
        if symbol.element_hash() not in names:
            raise BadModel(
                f"it uses the symbol {symbol.name()!r}, which has no name in a file; use coordinates, Params and time",
                symbol=symbol.name(),
            )
    f = ca.Function("f", [ca.vertcat(SX(0, 1), *symbols)], [ca.densify(SX(expression))])
    out: list[Node] = []
    work: dict[int, int] = {}
    result = 0
    for k in range(f.n_instructions()):
        op, taken, given = f.instruction_id(k), f.instruction_input(k), f.instruction_output(k)
        if op == ca.OP_OUTPUT:
            result = work[taken[0]]
            continue
        if op == ca.OP_INPUT:
            node = Node(op, name=names[symbols[taken[1]].element_hash()])
        elif op == ca.OP_CONST:
            node = Node(op, constant=f.instruction_constant(k))
        else:
            node = Node(op, tuple(work[i] for i in taken))
        out.append(node)
        work[given[0]] = len(out) - 1
    return out[: result + 1]


def number_text(value: float) -> str:
    """Shortest text that reads back as the same number."""
    if not math.isfinite(value):
        raise BadModel(f"it contains {value}, which is not a finite number", value=value)
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def write(expression: Any, names: Mapping[int, str]) -> float | str:
    """Text of a number, a Param or a scalar expression that reads back as the same; plain numbers stay numbers."""
    if isinstance(expression, Param):
        expression = expression.symbol
    if not isinstance(expression, SX) or expression.is_constant():
        if not math.isfinite(float(expression)):
            raise BadModel(f"it is {float(expression)}; use the functions of Saltus (sl.math.sin), not those of math")
        return float(expression)
    listing = [_driven(node, before) for before in [nodes(expression, names)] for node in before]
    used, sizes = [0] * len(listing), [0] * len(listing)
    used[-1] = 1
    for i in reversed(range(len(listing))):
        for j in listing[i].args if used[i] else ():
            used[j] += 1
    for node in (n for n, count in zip(listing, used, strict=True) if count and n.name.startswith(DISPLACED)):
        raise BadModel(f"motion {node.name.removeprefix(DISPLACED)!r} is not used as a whole in it")
    for i, node in enumerate(listing):
        sizes[i] = len(node.name) + 6 + sum(sizes[j] for j in node.args)
    shared = sizes[-1] > SHORT
    prefix = "x"
    while any(n.name.startswith(prefix) for n in listing):
        prefix += "_"
    texts: list[tuple[str, int]] = []
    parts: list[str] = []
    for i, node in enumerate(listing):
        text, level = _text(node, [texts[j] for j in node.args])
        if shared and used[i] > 1 and node.args:
            name = f"{prefix}{len(parts) + 1}"
            parts.append(f"{name} = {text}; ")
            text, level = name, _ATOM
        texts.append((text, level))
    return "".join(parts) + texts[-1][0]


def _driven(node: Node, listing: list[Node]) -> Node:
    """A motion with its virtual displacement added is the motion's own name."""
    if node.op in (ca.OP_ADD, ca.OP_SUB):
        for i in node.args[: 2 if node.op == ca.OP_ADD else 1]:
            if listing[i].name.startswith(DISPLACED):
                return Node(ca.OP_INPUT, name="motion." + listing[i].name.removeprefix(DISPLACED))
    return node


def _text(node: Node, args: list[tuple[str, int]]) -> tuple[str, int]:
    def at(i: int, level: int) -> str:
        text, own = args[i]
        return text if own >= level else f"({text})"

    op = node.op
    if op == ca.OP_INPUT:
        return node.name, _ATOM
    if op == ca.OP_CONST:
        return number_text(node.constant), _ATOM if node.constant >= 0 else _NEG
    if op in (ca.OP_ADD, ca.OP_SUB):
        return f"{at(0, _ADD)} {'+' if op == ca.OP_ADD else '-'} {at(1, _ADD + 1)}", _ADD
    if op in (ca.OP_MUL, ca.OP_DIV):
        return f"{at(0, _MUL)}{'*' if op == ca.OP_MUL else '/'}{at(1, _MUL + 1)}", _MUL
    if op in (ca.OP_POW, ca.OP_CONSTPOW):
        return f"{at(0, _ATOM)}^{at(1, _NEG)}", _POW
    if op in _COMPARE:
        return f"{at(0, _ADD)} {_COMPARE[op]} {at(1, _ADD)}", 4
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(text for text, _ in args)})", _ATOM
    match op:
        case ca.OP_NEG:
            return f"-{at(0, _POW)}", _NEG
        case ca.OP_SQ:
            return f"{at(0, _ATOM)}^2", _POW
        case ca.OP_TWICE:
            return f"2*{at(0, _MUL + 1)}", _MUL
        case ca.OP_INV:
            return f"1/{at(0, _MUL + 1)}", _MUL
        case ca.OP_NOT:
            return f"not {at(0, 4)}", 3
        case ca.OP_AND:
            return f"{at(0, 3)} and {at(1, 3)}", 2
        case ca.OP_OR:
            return f"{at(0, 2)} or {at(1, 2)}", 1
        case ca.OP_IF_ELSE_ZERO:
            return f"where({args[0][0]}, {args[1][0]}, 0)", _ATOM
        case ca.OP_ASSIGN | ca.OP_LIFT:
            return args[0]
    raise BadModel("it uses an operation that has no text form; write it with the functions of files.md", op=op)
