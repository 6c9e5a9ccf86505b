"""Turn: a linkage walked through its driver's turn, for one design or many at once, in compiled C where it can."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import CompileError, build, c_source, densified, find_compiler
from saltus.errors import BadModel, BadValue, Singular, UnknownName
from saltus.model.assembly import State, assembler
from saltus.model.symbols import SX
from saltus.once import cached_property

DEAD = 1e-6  # sine of the transmission angle below which a start is a dead centre

_FLAGS = ("-ffp-contract=fast",)
_PREAMBLE = """
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define _DEFAULT_SOURCE
#define CASADI_SYMBOL_EXPORT static
"""


class _Walk(ctypes.Structure):
    """The same layout as `Walk` in walk.c."""

    _fields_ = (
        *((name, ctypes.c_longlong) for name in ("count", "samples", "driver")),
        *((name, ctypes.c_void_p) for name in ("p", "p_start", "q_start", "values", "signs", "columns")),
        *((name, ctypes.c_void_p) for name in ("Q", "out", "gap", "flips")),
    )


@dataclass(frozen=True, eq=False)
class Walked:
    """Some designs on their way round: positions (designs, samples, coordinates) if they were kept, and readings.

    `gap` is the largest distance (m) by which a loop stays open on the way, zero for a design that assembles all
    the way; `flips` counts the samples at which it closes only the other way round, on another branch.
    """

    gap: np.ndarray
    flips: np.ndarray
    values: np.ndarray
    q: np.ndarray | None = None

    @property
    def assembles(self) -> np.ndarray:
        """Whether each design closes at every sample, on the branch of the start."""
        return (self.gap == 0) & (self.flips == 0)


class Turn:
    """The way of a linkage while `driver` goes once round, from a state that says where and on which branch.

    `samples` positions are looked at, evenly over the turn; `between=(low, high)` goes from one value to another
    instead, both included. All other freedoms stay where the start has them. A branch is known by the signs of
    the determinants of its loop equations, which change only at dead centres.
    """

    def __init__(
        self, start: State, driver: str, samples: int = 360, *, between: tuple[float, float] | None = None
    ) -> None:
        m = self.mechanism = start.mechanism
        a = self.assembler = assembler(m)
        if samples < 8:
            raise BadValue(f"samples is {samples}; a turn needs at least 8", given=samples)
        if a.balls:
            raise BadModel(f"{m.name!r} has quaternions; a turn is of a linkage of pins and slides")
        if not a.owner:
            raise BadModel(f"{m.name!r} has no loop: its coordinates are free, there is nothing a driver could drive")
        self.start, self.driver, self.samples = start, driver, samples
        self.index = a.driver(driver)
        closing = a.closing(start.positions, start.p, [self.index])
        if self.index in closing.columns:
            raise Singular(
                f"{driver} cannot drive {m.name!r} from here: it stands at a dead centre, or the loops hold it where "
                "it is; start elsewhere or drive another coordinate",
                driver=driver,
                at=float(start.positions[self.index]),
            )
        first = float(start.positions[self.index])
        if between is None:
            self.values = first + 2 * np.pi * np.arange(samples) / samples
            self.closed = True
        else:
            self.values, self.closed = np.linspace(*between, samples), False
        self.rows, self.columns, self._factored = list(closing.rows), list(closing.columns), closing.factored
        self.redundant = len(self.rows) < len(a.owner)
        k = a.kinematics
        if ca.depends_on(a.phi, k.t):
            raise BadModel(f"the loops of {m.name!r} depend on time; a turn is of a linkage that one driver moves")
        self.q, self.p = k.q, k.p
        self.phi, self.J = a.phi[self.rows], ca.sparsify(a.J)[self.rows, :]
        self.held = {i: float(x) for i, x in enumerate(start.positions) if i not in self.columns and i != self.index}
        self._libraries: dict[Any, Any] = {}
        sines = ca.Function("sines", [self.q, self.p], [self._sines])
        at_start = np.asarray(sines(self.begin, start.p)).ravel()
        if np.abs(at_start).min() < DEAD:
            raise Singular(
                f"the start of {m.name!r} is a dead centre of {driver}, of the loop of "
                f"{self.loops[int(np.abs(at_start).argmin())]!r}; start from another value of {driver}",
                driver=driver,
                at=float(self.values[0]),
            )
        self.signs = np.sign(at_start)

    @cached_property
    def begin(self) -> np.ndarray:
        """The start's positions at the first value of the driver."""
        if self.values[0] == self.start.positions[self.index]:
            return self.start.positions.copy()
        return self.start.follow(self.driver, [float(self.values[0])])[0]

    # ---- expressions of one position ----------------------------------------------------------------------------

    @cached_property
    def rate(self) -> SX:
        """dq/ds: how all coordinates move with the driver, from J dq/ds = 0."""
        out = SX(self.assembler.nq, 1)
        out[self.index] = 1
        out[self.columns] = -self._factored.solve(self.J[:, self.index])
        return ca.cse(out)

    @cached_property
    def by_params(self) -> SX:
        """dq/dp at a fixed driver, by implicit differentiation: J_c dq_c/dp = -dphi/dp."""
        out = SX(self.assembler.nq, self.p.numel())
        out[self.columns, :] = -self._factored.solve(ca.sparsify(ca.jacobian(self.phi, self.p)))
        return ca.cse(out)

    def along(self, expression: SX) -> SX:
        """Total derivative of an expression of q and p with respect to the driver."""
        return ca.jtimes(expression, self.q, self.rate)

    def gradient(self, expression: SX) -> SX:
        """Total derivative of an expression of q and p with respect to all Params, at a fixed driver."""
        return ca.jacobian(expression, self.p) + ca.mtimes(ca.jacobian(expression, self.q), self.by_params)

    @cached_property
    def determinants(self) -> SX:
        """Determinant of each block of the loop equations: its sign tells the branch."""
        chosen = self.J[:, self.columns]
        return ca.vertcat(*[ca.det(ca.densify(chosen[r, c])) for r, c in self._factored.blocks])

    @cached_property
    def _sines(self) -> SX:
        """Determinant of each block with its columns scaled to unit length.

        The length of a column is that in all equations of the loops the block is of: a link whose turn is found from
        one equation alone (a slider-crank's rod) has its lever in the other.
        """
        chosen = self.J[:, self.columns]
        owner = [self.assembler.owner[row] for row in self.rows]
        out = []
        for r, c in self._factored.blocks:
            whole = [i for i, name in enumerate(owner) if name in {owner[k] for k in r}]
            block, columns = ca.densify(chosen[r, c]), ca.densify(chosen[whole, c])
            out.append(ca.det(block) / _product([ca.norm_2(columns[:, i]) for i in range(len(c))]))
        return ca.vertcat(*out)

    @property
    def transmission(self) -> SX:
        """Sine of the transmission angle of each block, positive on the branch of the start, zero at a dead centre.

        For a dyad of two links it is the sine of the angle between them.
        """
        return ca.DM(self.signs) * self._sines

    @cached_property
    def loops(self) -> list[str]:
        """Which loop joint each block of the equations belongs to."""
        return [self.assembler.owner[self.rows[r[0]]] for r, _ in self._factored.blocks]

    # ---- walking ------------------------------------------------------------------------------------------------

    def params(self, designs: Mapping[str, Any] | None = None) -> np.ndarray:
        """Rows of all Params: the start's values, with those named given as one number or one per design."""
        designs = designs or {}
        names = list(self.mechanism.params)
        for name in designs:
            if name not in names:
                raise UnknownName("param", name, names)
        count = max([np.size(v) for v in designs.values()], default=1)
        out = np.tile(self.start.p, (count, 1))
        for name, value in designs.items():
            out[:, names.index(name)] = value
        return out

    def walk(
        self, p: np.ndarray, reading: ca.Function | None = None, *, keep: bool = True, threads: int | None = None
    ) -> Walked:
        """Go round with every row of Params; `reading(Q, p)` is evaluated on the whole turn of each.

        Q has one column per sample. `keep` returns the positions, which for many designs need room.
        """
        p = np.ascontiguousarray(np.atleast_2d(p), float)
        count, outputs = len(p), 0 if reading is None else int(reading.numel_out(0))
        run = self._compiled(reading)
        if run is None:
            from saltus.design.walk_in_python import walk_plainly

            positions, read, open_by, turned = walk_plainly(self, p, reading)
            return Walked(open_by, turned, read, positions if keep else None)
        q = np.empty((count, self.samples, self.assembler.nq)) if keep else None
        values, gap, flips = np.empty((count, outputs)), np.empty(count), np.empty(count, np.int32)
        q_start = np.ascontiguousarray(self.begin)
        steady = np.ascontiguousarray(self.values)
        columns = np.array(self.columns, np.int32)
        start_p, signs = np.ascontiguousarray(self.start.p), np.ascontiguousarray(self.signs)

        def part(begin: int, end: int) -> int:
            walk = _Walk(
                count=end - begin,
                samples=self.samples,
                driver=self.index,
                p=p[begin:].ctypes.data,
                p_start=start_p.ctypes.data,
                q_start=q_start.ctypes.data,
                values=steady.ctypes.data,
                signs=signs.ctypes.data,
                columns=columns.ctypes.data,
                Q=None if q is None else q[begin:].ctypes.data,
                out=values[begin:].ctypes.data,
                gap=gap[begin:].ctypes.data,
                flips=flips[begin:].ctypes.data,
            )
            return int(run(ctypes.byref(walk)))

        parts = max(1, min(threads or os.cpu_count() or 1, count // 8))
        edges = [count * i // parts for i in range(parts + 1)]
        if parts == 1:
            failed = [part(0, count)] if count else []
        else:
            with ThreadPoolExecutor(parts) as pool:
                failed = list(pool.map(part, edges[:-1], edges[1:]))
        if any(failed):
            raise MemoryError(f"no memory for {count} designs of {self.mechanism.name!r}; walk fewer at once")
        return Walked(gap, flips, values, q)

    def _compiled(self, reading: ca.Function | None) -> Any:
        """The walk in C; None where nothing can be compiled."""
        if find_compiler() is None:
            return None
        try:
            return self._library(reading)
        except CompileError as error:
            note = f"the turn of {self.mechanism.name!r} is walked in Python, many times slower: {error}"
            warnings.warn(note, RuntimeWarning, stacklevel=3)
            return None

    def _library(self, reading: ca.Function | None) -> Any:
        key = None if reading is None else hash(reading)
        if key not in self._libraries:
            a, chosen = self.assembler, self.J[:, self.columns]
            step = -self._factored.solve(self.phi)
            wanted = [ca.densify(e) for e in (step, self.determinants, self.phi, chosen)]
            (step, det, phi, chosen), symbols, constants = self._split(wanted)
            functions = [
                ca.Function("saltus_constants", [self.p], [constants]),
                ca.Function("saltus_newton", [self.q, symbols], ca.cse([step, det])),
                ca.Function("saltus_closure", [self.q, symbols], ca.cse([phi, chosen])),
                *([] if reading is None else [densified(reading, "saltus_reading")]),
            ]
            sizes = {
                "NQ": a.nq,
                "NP": self.p.numel(),
                "NC": len(self.columns),
                "NB": len(self._factored.blocks),
                "NK": constants.numel(),
                "NOUT": 0 if reading is None else reading.numel_out(0),
                "READ": int(reading is not None),
            }
            defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
            source = _PREAMBLE + c_source(functions) + defines + Path(__file__).with_name("walk.c").read_text()
            run = ctypes.CDLL(str(build(source, _FLAGS, f"the turn of {self.mechanism.name!r}"))).saltus_walk
            self._libraries[key] = (run, reading)  # the reading stays alive: its hash is the key
        return self._libraries[key][0]

    def mapped(self, name: str, expression: SX) -> ca.Function:
        """(Q, p) -> the expression at every sample, one column each."""
        (each,), symbols, constants = self._split([ca.densify(expression)])
        one = ca.Function(name, [self.q, symbols], ca.cse([each]))
        Q, p = self.symbols
        first = ca.Function(name + "_constants", [self.p], [constants])
        over = one.map(name + "_map", "serial", self.samples, [1], [])
        return ca.Function(name + "_turn", [Q, p], [over(Q, first(p))])

    @cached_property
    def symbols(self) -> tuple[ca.MX, ca.MX]:
        """Positions over the whole turn, one column per sample, and all Params."""
        return ca.MX.sym("Q", self.assembler.nq, self.samples), ca.MX.sym("p", self.p.numel())

    def _split(self, expressions: list[SX]) -> tuple[list[SX], SX, SX]:
        """Take out what depends on Params alone, to be computed once per design: (rest, symbols, their values)."""
        rest, symbols, values = ca.extract_parametric(expressions, self.p, {"extract_trivial": True})
        return rest, ca.vertcat(SX(0, 1), *symbols), ca.vertcat(SX(0, 1), *values)

    def index_of(self, value: float) -> int:
        """Sample at a value of the driver; refuse one that lies between samples."""
        apart = self.values - value
        if self.closed:
            apart = (apart + np.pi) % (2 * np.pi) - np.pi
        nearest = int(np.abs(apart).argmin())
        spacing = abs(self.values[1] - self.values[0])
        if abs(apart[nearest]) > 1e-6 * spacing:
            raise BadValue(
                f"{self.driver} = {value:.6g} is no sample of the turn; the nearest is {self.values[nearest]:.6g}. "
                "Start the turn there or choose `samples` so that it becomes one",
                given=value,
            )
        return nearest


def _product(entries: Sequence[SX]) -> SX:
    out = entries[0]
    for entry in entries[1:]:
        out = out * entry
    return out
