"""CasADi to heyoka: the instruction list of an SX function replayed on heyoka expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
import heyoka as hy

from saltus import errors

Expression = Any  # heyoka ships no types
Instruction = tuple[int, tuple[int, ...], tuple[int, ...], float]


def _select(condition: Expression, yes: Expression, no: Expression) -> Expression:
    return hy.select(condition, hy.expression(yes), hy.expression(no))


_UNARY: dict[int, Callable[[Expression], Expression]] = {
    ca.OP_ASSIGN: lambda a: a,
    ca.OP_NEG: lambda a: -a,
    ca.OP_SQ: lambda a: a * a,
    ca.OP_TWICE: lambda a: 2.0 * a,
    ca.OP_INV: lambda a: 1.0 / a,
    ca.OP_SQRT: hy.sqrt,
    ca.OP_EXP: hy.exp,
    ca.OP_EXPM1: hy.expm1,
    ca.OP_LOG: hy.log,
    ca.OP_LOG1P: hy.log1p,
    ca.OP_SIN: hy.sin,
    ca.OP_COS: hy.cos,
    ca.OP_TAN: hy.tan,
    ca.OP_ASIN: hy.asin,
    ca.OP_ACOS: hy.acos,
    ca.OP_ATAN: hy.atan,
    ca.OP_SINH: hy.sinh,
    ca.OP_COSH: hy.cosh,
    ca.OP_TANH: hy.tanh,
    ca.OP_ASINH: hy.asinh,
    ca.OP_ACOSH: hy.acosh,
    ca.OP_ATANH: hy.atanh,
    ca.OP_ERF: hy.erf,
    ca.OP_FABS: lambda a: _select(hy.gte(a, 0.0), a, -a),
    ca.OP_SIGN: lambda a: _select(hy.gt(a, 0.0), 1.0, _select(hy.lt(a, 0.0), -1.0, a)),
    ca.OP_NOT: lambda a: hy.eq(a, 0.0),
}

_BINARY: dict[int, Callable[[Expression, Expression], Expression]] = {
    ca.OP_ADD: lambda a, b: a + b,
    ca.OP_SUB: lambda a, b: a - b,
    ca.OP_MUL: lambda a, b: a * b,
    ca.OP_DIV: lambda a, b: a / b,
    ca.OP_POW: lambda a, b: a**b,
    ca.OP_CONSTPOW: lambda a, b: a**b,
    ca.OP_ATAN2: hy.atan2,
    ca.OP_HYPOT: lambda a, b: hy.sqrt(a * a + b * b),
    ca.OP_FMIN: lambda a, b: _select(hy.lte(a, b), a, b),
    ca.OP_FMAX: lambda a, b: _select(hy.gte(a, b), a, b),
    ca.OP_COPYSIGN: lambda a, b: _select(hy.eq(hy.gte(a, 0.0), hy.gte(b, 0.0)), a, -a),
    ca.OP_IF_ELSE_ZERO: lambda a, b: _select(a, b, 0.0),
    ca.OP_LT: hy.lt,
    ca.OP_LE: hy.lte,
    ca.OP_EQ: hy.eq,
    ca.OP_NE: hy.neq,
    ca.OP_AND: lambda a, b: hy.logical_and([hy.neq(a, 0.0), hy.neq(b, 0.0)]),
    ca.OP_OR: lambda a, b: hy.logical_or([hy.neq(a, 0.0), hy.neq(b, 0.0)]),
    ca.OP_LIFT: lambda a, b: a,
}


def _op_name(op: int) -> str:
    return next(name[3:].lower() for name in dir(ca) if name.startswith("OP_") and getattr(ca, name) == op)


def scalar(function: ca.Function) -> ca.Function:
    """The function over scalars (SX), whose instructions can be read."""
    if function.is_a("SXFunction"):
        return function
    try:
        return function.expand()
    except RuntimeError as error:
        raise errors.BadValue(
            f"function {function.name()!r} does not expand to scalar operations, as engine 'heyoka' needs; "
            "use engine native or sundials",
            function=function.name(),
        ) from error


def _instructions(function: ca.Function) -> list[Instruction]:
    """The instruction list of a scalar function: operation, inputs, outputs, constant."""
    listing: list[Instruction] = []
    for k in range(function.n_instructions()):
        op = function.instruction_id(k)
        constant = function.instruction_constant(k) if op == ca.OP_CONST else 0.0
        taken, given = tuple(function.instruction_input(k)), tuple(function.instruction_output(k))
        listing.append((op, taken, given, constant))
    return listing


def convert(function: ca.Function, *arguments: Sequence[Expression]) -> list[Expression]:
    """Write the first output of a CasADi function as heyoka expressions, one per row.

    `arguments` gives, for each input, the heyoka expressions of its rows. Operations heyoka has no Taylor
    series for (floor, ceil, fmod, remainder, erfinv, printme, calls of other functions) raise BadValue.
    """
    function = scalar(function)
    inputs = [function.sparsity_in(i).row() for i in range(function.n_in())]
    rows = function.sparsity_out(0).row()
    outputs: list[Expression] = [hy.expression(0.0)] * function.size1_out(0)
    work: dict[int, Expression] = {}
    for op, taken, given, constant in _instructions(function):
        if op == ca.OP_INPUT:
            which, entry = taken
            work[given[0]] = arguments[which][inputs[which][entry]]
        elif op == ca.OP_OUTPUT:
            if given[0] == 0:
                outputs[rows[given[1]]] = work[taken[0]]
        elif op == ca.OP_CONST:
            work[given[0]] = hy.expression(constant)
        elif op in _UNARY:
            work[given[0]] = hy.expression(_UNARY[op](work[taken[0]]))
        elif op in _BINARY:
            work[given[0]] = hy.expression(_BINARY[op](work[taken[0]], work[taken[1]]))
        else:
            raise errors.BadValue(
                f"operation {_op_name(op)!r} in function {function.name()!r} has no Taylor series in engine "
                "'heyoka'; use engine native or sundials",
                op=_op_name(op),
                function=function.name(),
            )
    return outputs
