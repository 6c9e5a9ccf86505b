"""Straight-line code: a CasADi function over scalars as the statements of a C or NumPy function.

In C also for vectors, so that each number of a statement stands for several copies of a machine side by side.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from saltus.errors import BadModel

# Every operation in C99 and in NumPy; {0} and {1} are the operands, names or numbers in both. Constants are whole
# numbers, which leave the precision to the operands.
OPERATIONS: dict[int, tuple[str, str]] = {
    ca.OP_ASSIGN: ("{0}", "{0}"),
    ca.OP_LIFT: ("{0}", "{0}"),
    ca.OP_NEG: ("-{0}", "-{0}"),
    ca.OP_ADD: ("{0} + {1}",) * 2,
    ca.OP_SUB: ("{0} - {1}",) * 2,
    ca.OP_MUL: ("{0} * {1}",) * 2,
    ca.OP_DIV: ("{0} / {1}",) * 2,
    ca.OP_SQ: ("{0} * {0}",) * 2,
    ca.OP_TWICE: ("2 * {0}",) * 2,
    ca.OP_INV: ("1 / {0}",) * 2,
    ca.OP_POW: ("pow({0}, {1})", "{0} ** {1}"),
    ca.OP_CONSTPOW: ("pow({0}, {1})", "{0} ** {1}"),
    ca.OP_SQRT: ("sqrt({0})", "np.sqrt({0})"),
    ca.OP_EXP: ("exp({0})", "np.exp({0})"),
    ca.OP_LOG: ("log({0})", "np.log({0})"),
    ca.OP_EXPM1: ("expm1({0})", "np.expm1({0})"),
    ca.OP_LOG1P: ("log1p({0})", "np.log1p({0})"),
    ca.OP_SIN: ("sin({0})", "np.sin({0})"),
    ca.OP_COS: ("cos({0})", "np.cos({0})"),
    ca.OP_TAN: ("tan({0})", "np.tan({0})"),
    ca.OP_ASIN: ("asin({0})", "np.arcsin({0})"),
    ca.OP_ACOS: ("acos({0})", "np.arccos({0})"),
    ca.OP_ATAN: ("atan({0})", "np.arctan({0})"),
    ca.OP_SINH: ("sinh({0})", "np.sinh({0})"),
    ca.OP_COSH: ("cosh({0})", "np.cosh({0})"),
    ca.OP_TANH: ("tanh({0})", "np.tanh({0})"),
    ca.OP_ASINH: ("asinh({0})", "np.arcsinh({0})"),
    ca.OP_ACOSH: ("acosh({0})", "np.arccosh({0})"),
    ca.OP_ATANH: ("atanh({0})", "np.arctanh({0})"),
    ca.OP_ERF: ("erf({0})", "np.vectorize(math.erf)({0})"),
    ca.OP_FABS: ("fabs({0})", "np.abs({0})"),
    ca.OP_SIGN: ("({0} > 0 ? 1 : ({0} < 0 ? -1 : {0}))", "np.sign({0})"),
    ca.OP_FLOOR: ("floor({0})", "np.floor({0})"),
    ca.OP_CEIL: ("ceil({0})", "np.ceil({0})"),
    ca.OP_ATAN2: ("atan2({0}, {1})", "np.arctan2({0}, {1})"),
    ca.OP_HYPOT: ("hypot({0}, {1})", "np.hypot({0}, {1})"),
    ca.OP_FMIN: ("fmin({0}, {1})", "np.fmin({0}, {1})"),
    ca.OP_FMAX: ("fmax({0}, {1})", "np.fmax({0}, {1})"),
    ca.OP_FMOD: ("fmod({0}, {1})", "np.fmod({0}, {1})"),
    ca.OP_COPYSIGN: ("copysign({0}, {1})", "np.copysign({0}, {1})"),
    ca.OP_NOT: ("({0} == 0)", "1.0 * ({0} == 0.0)"),
    ca.OP_LT: ("({0} < {1})", "1.0 * ({0} < {1})"),
    ca.OP_LE: ("({0} <= {1})", "1.0 * ({0} <= {1})"),
    ca.OP_EQ: ("({0} == {1})", "1.0 * ({0} == {1})"),
    ca.OP_NE: ("({0} != {1})", "1.0 * ({0} != {1})"),
    ca.OP_AND: ("({0} != 0 && {1} != 0)", "1.0 * (({0} != 0.0) & ({1} != 0.0))"),
    ca.OP_OR: ("({0} != 0 || {1} != 0)", "1.0 * (({0} != 0.0) | ({1} != 0.0))"),
    ca.OP_IF_ELSE_ZERO: ("({0} != 0 ? {1} : 0)", "np.where({0} != 0.0, {1}, 0.0)"),
}
C, NUMPY, VECTOR = 0, 1, 2

# What C's operators cannot say of vectors, one number per copy; functions of C are called by "v_" and their name.
_ON_VECTORS: dict[int, str] = {
    ca.OP_SIGN: "v_sign({0})",
    ca.OP_NOT: "v_one({0} == 0.0)",
    ca.OP_LT: "v_one({0} < {1})",
    ca.OP_LE: "v_one({0} <= {1})",
    ca.OP_EQ: "v_one({0} == {1})",
    ca.OP_NE: "v_one({0} != {1})",
    ca.OP_AND: "v_one(({0} != 0.0) & ({1} != 0.0))",
    ca.OP_OR: "v_one(({0} != 0.0) | ({1} != 0.0))",
    ca.OP_IF_ELSE_ZERO: "v_where({0} != 0.0, {1}, v_all(0.0))",
}

_C_WORDS = set(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "main",
    ]
)


@dataclass(frozen=True, eq=False)
class Routine:
    """A function to export: its name, one sentence about it, and the CasADi function with dense arguments."""

    name: str
    doc: str
    function: ca.Function

    @property
    def inputs(self) -> list[tuple[str, int]]:
        """Names and sizes of the arguments."""
        f = self.function
        return [(f.name_in(i), f.numel_in(i)) for i in range(f.n_in())]

    @property
    def outputs(self) -> list[tuple[str, tuple[int, int]]]:
        """Names and shapes of the results."""
        f = self.function
        return [(f.name_out(i), f.size_out(i)) for i in range(f.n_out())]


def routine(
    name: str, doc: str, inputs: Sequence[ca.SX], outputs: Sequence[ca.SX], names: str, results: str
) -> Routine:
    """Make a routine from expressions."""
    dense = [ca.densify(ca.SX(x)) for x in outputs]
    return Routine(name, doc, ca.Function(name, list(inputs), ca.cse(dense), names.split(), results.split()))


def identifier(text: str, fallback: str = "model") -> str:
    """A name that C, Python and file systems take, made of any text."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()[:48].rstrip("_")
    if not name or name[0].isdigit():
        name = f"{fallback}_{name}" if name else fallback
    return f"{name}_c" if name in _C_WORDS or keyword.iskeyword(name) else name


def labels(names: Sequence[str], fallback: str = "model") -> list[str]:
    """Identifiers of several names, each its own: one that is taken gets its number."""
    out: list[str] = []
    for i, name in enumerate(names):
        label = identifier(name, fallback)
        while label in out:
            label += f"_{i}"
        out.append(label)
    return out


def literal(value: float, language: int) -> str:
    """A number as source text that reads back as the same double."""
    if math.isnan(value):
        return "NAN" if language == C else "np.nan"
    if math.isinf(value):
        word = "INFINITY" if language == C else "np.inf"
        return word if value > 0 else f"(-{word})"
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def _form(op: int, language: int) -> str:
    """An operation in a language."""
    if language != VECTOR:
        return OPERATIONS[op][language]
    plain = OPERATIONS[op][C]
    return _ON_VECTORS.get(op) or ("v_" + plain if plain[0].isalpha() else plain)


def declared(count: int, kind: str) -> list[str]:
    """Declarations of the locals of a body in C."""
    groups = [range(at, min(at + 16, count)) for at in range(0, count, 16)]
    return [f"  {kind} " + ", ".join(f"a{i}" for i in group) + ";" for group in groups]


def unused(r: Routine, used: set[int]) -> list[str]:
    """Lines in C that say which arguments and results a body leaves alone."""
    names = [n for i, (n, _) in enumerate(r.inputs) if i not in used] + [n for n, (a, b) in r.outputs if a * b == 0]
    return [f"  (void){n};" for n in names]


def statements(function: ca.Function, language: int) -> tuple[list[str], int, set[int]]:
    """Lines of the body, how many locals they use, and which arguments; results go to NAME[i], row by row."""
    f = function
    lines: list[str] = []
    highest, used = -1, set()
    end = "" if language == NUMPY else ";"
    for k in range(f.n_instructions()):
        op, taken, given = f.instruction_id(k), f.instruction_input(k), f.instruction_output(k)
        if op == ca.OP_INPUT:
            which, entry = taken
            used.add(which)
            name, row = f.name_in(which), f.sparsity_in(which).row()[entry]
            lines.append(f"a{given[0]} = {name if name == 't' else f'{name}[{row}]'}{end}")
        elif op == ca.OP_OUTPUT:
            which, entry = given
            columns = f.size2_out(which)
            sparsity = f.sparsity_out(which)
            row, column = sparsity.row()[entry], sparsity.get_col()[entry]
            place = f"{row * columns + column}" if language != NUMPY or columns == 1 else f"{row}, {column}"
            lines.append(f"{f.name_out(which)}[{place}] = a{taken[0]}{end}")
            continue
        elif op == ca.OP_CONST:
            value = literal(f.instruction_constant(k), NUMPY if language == NUMPY else C)
            lines.append(f"a{given[0]} = {f'v_all({value})' if language == VECTOR else value}{end}")
        elif op in OPERATIONS:
            text = _form(op, language).format(*[f"a{i}" for i in taken])
            lines.append(f"a{given[0]} = {text}{end}")
        else:
            raise BadModel(f"function {f.name()!r} uses an operation that has no form in exported code", op=op)
        highest = max(highest, given[0])
    return lines, highest + 1, used
