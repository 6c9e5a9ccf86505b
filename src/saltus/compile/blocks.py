"""C that leaves out what is nothing: of a function with factors that are often zero, as of contacts that are open.

Which statements fall away with which factors is found once, from the list of instructions: those whose value is then
zero, and those that are then needed for nothing. They are put into blocks that the same factors switch, so that one
function serves all cases and none of them is listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from saltus.compile.pieces import LENGTH
from saltus.compile.statements import OPERATIONS, C, literal

MOST = 62  # factors: bits of a number in C

# Which operands make a result zero: any of them, all of them, or the first.
_ANY = {ca.OP_MUL, ca.OP_IF_ELSE_ZERO}
_ALL = {ca.OP_ADD, ca.OP_SUB, ca.OP_FMIN, ca.OP_FMAX}
_FIRST = {ca.OP_ASSIGN, ca.OP_NEG, ca.OP_TWICE, ca.OP_SQ, ca.OP_SQRT, ca.OP_FABS, ca.OP_DIV}

_FORMS = {op: text.replace(" ", "") for op, (text, _) in OPERATIONS.items()}
_FEW = 4  # statements, for which no block is worth its while
_TAME = {ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_NEG, ca.OP_TWICE, ca.OP_SQ}  # finite, whatever zeros they are given


@dataclass(eq=False, slots=True)
class _Node:
    """One instruction: its operands by number, its text unless it is computed, and where its result goes, if it does.

    Bits of `zero` are factors with which it is zero, those of `needed` factors in whose absence something needs it.
    """

    op: int
    operands: tuple[int, ...]
    text: str = ""
    result: str = ""
    zero: int = 0
    needed: int = 0

    @property
    def skip(self) -> int:
        """Factors without which it is left out."""
        return 0 if self.result else self.zero | ~self.needed


def skipping(function: ca.Function) -> str:
    """C of a function of scalars as CasADi would write it, but for its last result: the factors.

    Numbers that pass from block to block are kept in `w`, zeros where a block was left out, for as long as the same
    factors are zero: `iw` and `w` are zeros before the first call.
    """
    nodes, factors = _read(function)
    _mark(nodes, factors)
    users: list[list[int]] = [[] for _ in nodes]
    for k, node in enumerate(nodes):
        for i in dict.fromkeys(node.operands):
            users[i].append(k)
    blocks = _scheduled(nodes, users)
    block_of = {k: number for number, (_, own) in enumerate(blocks) for k in own}
    passed = [k for k in block_of if any(block_of[u] != block_of[k] for u in users[k])]
    return _written(function, nodes, factors, blocks, {k: at for at, k in enumerate(passed)})


def _read(f: ca.Function) -> tuple[list[_Node], list[int]]:
    """Instructions, each with a variable of its own, and which of them give the factors."""
    nodes: list[_Node] = []
    factors: list[int] = []
    holds: dict[int, int] = {}  # where the virtual machine has the result of which instruction
    known: dict[tuple[int, str, tuple[int, ...]], int] = {}  # what is computed twice is one
    for k in range(f.n_instructions()):
        op, taken, given = f.instruction_id(k), f.instruction_input(k), f.instruction_output(k)
        if op == ca.OP_OUTPUT and given[0] == f.n_out() - 1:
            factors.append(holds[taken[0]])
        elif op == ca.OP_OUTPUT:
            nodes.append(_Node(op, (holds[taken[0]],), result=f"y{given[0]}[{given[1]}]"))
        else:
            text = ""
            operands: tuple[int, ...] = ()
            if op == ca.OP_INPUT:
                text = f"x{taken[0]}[{taken[1]}]"
            elif op == ca.OP_CONST:
                text = literal(f.instruction_constant(k), C)
            else:
                operands = tuple([holds[i] for i in taken])
            holds[given[0]] = known.setdefault((op, text, operands), len(nodes))
            if holds[given[0]] == len(nodes):
                nodes.append(_Node(op, operands, text))
    return nodes, factors[:MOST]


def _mark(nodes: Sequence[_Node], factors: Sequence[int]) -> None:
    """Find with which factors each node is zero or needed for nothing."""
    every = (1 << len(factors)) - 1
    for bit, k in enumerate(factors):
        nodes[k].zero |= 1 << bit
    for node in nodes:
        zeros = [nodes[i].zero for i in node.operands]
        if node.op in _ANY:
            node.zero |= zeros[0] | zeros[1]
        elif node.op in _ALL:
            node.zero |= zeros[0] & zeros[1]
        elif node.op in _FIRST:
            node.zero |= zeros[0]
        elif node.text == "0.0":
            node.zero = every
    for node in reversed(nodes):
        if node.result:
            node.needed = every
        for i in node.operands:
            nodes[i].needed |= node.needed if node.result else node.needed & ~node.zero
    for node in nodes:
        node.needed |= ~every


def _scheduled(nodes: Sequence[_Node], users: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Nodes that are computed in an order with few blocks: of each what it is left out with, and its nodes.

    Next come those with the longest way to the end, counted in changes of blocks. What is done though it could be left
    out is arithmetic on zeros.
    """
    skip = [node.skip for node in nodes]
    way = [0] * len(nodes)
    for k in reversed(range(len(nodes))):
        way[k] = max((way[u] + (skip[u] != skip[k]) for u in users[k]), default=0)
    waits = [len({*node.operands}) for node in nodes]
    ready: dict[int, list[int]] = defaultdict(list)

    def done(k: int) -> None:
        for u in users[k]:
            waits[u] -= 1
            if not waits[u]:
                ready[skip[u]].append(u)

    for k, node in enumerate(nodes):
        if node.text:
            done(k)

    def small(now: int) -> int | None:
        """Something left out with more than a block is that is too little for one of its own."""
        for x, own in ready.items():
            if x & now == now and len(own) <= _FEW and all(nodes[k].op in _TAME for k in own):
                return x
        return None

    blocks: list[tuple[int, list[int]]] = []
    while ready:
        now = max(ready, key=lambda x: (max(way[k] for k in ready[x]), len(ready[x])))
        own: list[int] = []
        more: int | None = now
        while more is not None:
            stack = ready.pop(more)
            while stack:
                own.append(stack.pop())
                done(own[-1])
                stack += ready.pop(now, [])
            more = small(now)
        own.sort()
        blocks += [(now, own[at : at + LENGTH]) for at in range(0, len(own), LENGTH)]
    return blocks


def _written(
    f: ca.Function,
    nodes: Sequence[_Node],
    factors: Sequence[int],
    blocks: Sequence[tuple[int, list[int]]],
    places: dict[int, int],
) -> str:
    name = f.name()

    def line(k: int, known: set[int], kept: bool = True) -> str:
        node = nodes[k]
        known.add(k)
        read = [nodes[i].text or (f"a{i}" if i in known else f"w[{places[i]}]") for i in node.operands]
        if node.result:
            return f"{node.result}={read[0]};"
        keep = f"w[{places[k]}]=" if kept and k in places else ""
        return f"R a{k}={keep}{_FORMS[node.op].format(*read)};"

    inputs, outputs = (range(n) for n in (f.n_in(), f.n_out() - 1))
    given = ", ".join([*(f"x{i}" for i in inputs), *(f"y{i}" for i in outputs)])
    declared = ", ".join([*(f"const casadi_real* x{i}" for i in inputs), *(f"casadi_real* y{i}" for i in outputs)])
    pieces: list[list[str]] = [[]]
    for skip, own in blocks:
        if len(pieces[-1]) > 4 * LENGTH:
            pieces.append([])
        known: set[int] = set()
        pieces[-1] += [f"  if (!(skip & {skip})) {{" if skip else "  {", *[line(k, known) for k in own], "  }"]
    out: list[str] = []
    for i, lines in enumerate(pieces):
        out += [f"SALTUS_PIECE void {name}_{i}({declared}, casadi_real* w, casadi_int skip) {{", *lines, "}"]
    first, stack = set[int](), list(factors)
    while stack:
        k = stack.pop()
        if k not in first and not nodes[k].text:
            first.add(k)
            stack += nodes[k].operands
    known = set()
    bits = [f"(casadi_int)({nodes[k].text or f'a{k}'} == 0) << {bit}" for bit, k in enumerate(factors)]
    size = max(len(places), 1)
    return "\n".join(
        [
            "#define R const casadi_real",
            *out,
            f"static int {name}(const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int m) {{",
            *(f"  const casadi_real* x{i} = arg[{i}];" for i in inputs),
            *(f"  casadi_real* y{i} = res[{i}];" for i in outputs),
            *(f"  {line(k, known, kept=False)}" for k in sorted(first)),
            f"  const casadi_int skip = {' | '.join(bits)};",
            f"  if (skip != iw[0]) memset(w, 0, {size} * sizeof *w), iw[0] = skip;",
            *(f"  {name}_{i}({given}, w, skip);" for i in range(len(pieces))),
            "  return m;",
            "}",
            f"static int {name}_work(casadi_int* a, casadi_int* r, casadi_int* iw, casadi_int* w) {{",
            f"  *a = {len(inputs)}, *r = {len(outputs)}, *iw = 1, *w = {size};",
            "  return 0;",
            "}",
            "",
        ]
    )
