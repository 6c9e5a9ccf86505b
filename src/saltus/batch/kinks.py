"""Kinks of an expression: where a motor comes to its limit, a law clips or chooses.

Derivatives of a step that crosses one are wrong by the order of the step: its stages are on either side. So the side is
a number of its own: each comparison x < y becomes x - y < side, and with a side of plus or minus `FAR` the branch is
chosen, and the expression smooth; with a side of zero it is what it was. Sizes and signs stay as they are: where one
stands below a fraction, its other branch has a pole.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from saltus.model.symbols import SX

FAR = 1e300
_COMPARED = (ca.OP_LT, ca.OP_LE, ca.OP_FMIN, ca.OP_FMAX)
SMALL = 1e-6  # a limit that is smaller keeps a quotient finite


@dataclass(frozen=True, eq=False)
class Sided:
    """An expression whose branches are chosen by `sides`, and what is compared: below zero where x < y is true.

    The latter as a share of one plus the size of both.
    """

    expression: SX
    sides: SX
    values: SX


def sided(expression: SX, state: SX) -> Sided:
    """Give every comparison that depends on the state a side."""
    inputs = ca.vertcat(SX(0, 1), *ca.symvar(expression))
    f = ca.Function("kinks", [inputs], [ca.cse(ca.densify(expression))])
    work: list[SX] = [SX(0)] * f.sz_w()
    out, sides, values = SX(*expression.shape), [SX(0, 1)], [SX(0, 1)]
    for k in range(f.n_instructions()):
        op, taken, given = f.instruction_id(k), f.instruction_input(k), f.instruction_output(k)
        if op == ca.OP_OUTPUT:
            out[given[1]] = work[taken[0]]
        elif op == ca.OP_INPUT:
            work[given[0]] = inputs[taken[1]]
        elif op == ca.OP_CONST:
            work[given[0]] = SX(f.instruction_constant(k))
        else:
            x, y = work[taken[0]], work[taken[1]] if len(taken) > 1 else SX(0)
            if op in _COMPARED and ca.depends_on(x - y, state) and not (_small(x) or _small(y)):
                sides.append(SX.sym(f"side_{len(sides)}"))
                values.append((x - y) / (1 + ca.fabs(x) + ca.fabs(y)))
                work[given[0]] = _chosen(op, x, y, x - y < sides[-1])
            else:
                work[given[0]] = SX.binary(op, x, y) if len(taken) > 1 else SX.unary(op, x)
    return Sided(out, ca.vertcat(*sides), ca.vertcat(*values))


def _chosen(op: int, x: SX, y: SX, less: SX) -> SX:
    """What an operation gives where x < y, and where not."""
    by_operation = {ca.OP_FMIN: (x, y), ca.OP_FMAX: (y, x)}
    return ca.if_else(less, *by_operation.get(op, (SX(1), SX(0))))


def _small(x: SX) -> bool:
    return x.is_constant() and 0 < abs(float(x)) < SMALL
