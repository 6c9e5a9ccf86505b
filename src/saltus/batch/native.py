"""The kernel of a batch: functions of one copy printed for vectors of copies, the steps of step.c, compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from saltus.batch.motion import Change, Motion, derivative
from saltus.compile import build
from saltus.compile.statements import VECTOR, Routine, declared, statements, unused
from saltus.dynamics.unilateral import GROWN
from saltus.ground import Ground
from saltus.model.touching import Foot
from saltus.once import cached_property

_FUSED = ("-ffp-contract=fast", "-fexpensive-optimizations")  # a product and a sum in one go, below -O2 too


BLOCKS = 8  # fewer are not worth a thread of their own
_KEPT = ("entries", "events", "written", "happened")
_ARRAYS = (
    "t",
    "x",
    "p",
    "v",
    "contact",
    "measured",
    "force",
    "steps",
    "over",
    "fresh",
    "losses",
    "doubts",
    "land",
    "land_from",
    "land_to",
    "ends",
)


class _Batch(ctypes.Structure):
    """The same layout as `Batch` in step.c."""

    _fields_ = (
        *((n, ctypes.c_double) for n in ("step", "tolerance", "rest", "weight")),
        ("times", ctypes.c_longlong),
        *((n, ctypes.c_void_p) for n in (*_ARRAYS, *_KEPT)),
        *((n, ctypes.c_longlong) for n in ("room", "event_room")),
    )


class _Pass(ctypes.Structure):
    """The same layout as `Pass` in tape.c."""

    _fields_ = (
        ("batch", ctypes.POINTER(_Batch)),
        *((n, ctypes.c_void_p) for n in ("x", "p", "low", "high", "slowest")),
    )


def source(motion: Motion, way: str = "") -> str:
    """C of the kernel; with `way` "back" or "forth" also of derivatives that go so through what happened."""
    here = Path(__file__)
    sizes = {
        "NQ": motion.e.nq,
        "NV": motion.e.nv,
        "NW": motion.w.numel(),
        "NZ": motion.e.z.numel(),
        "NP": motion.p.numel(),
        "ROWS": motion.rows,
        "LINES": len(motion.lines),
        "ELEMENTS": len(motion.elements),
        "MEASURES": len(motion.measured),
        "HOLDS": sum(x.slips for x in motion.elements),
        "FEELS": int(motion.feels),
        "RESTITUTIONS": motion.slice("restitution").start,
        "FRICTIONS": motion.slice("friction").start,
        "SPRINGS": motion.slice("springs").start,
        "GIVEN": motion.slice("given").start,
        "ACTIONS": motion.row.numel(),
        "ACTION": motion.slice("row").start,
        "PATCHED": int(motion.patched),
        "SIDES": motion.slice("sides").start,
        "VOLUMES": len(motion.reduced.Jz.blocks),
        "KINKS": motion.efforts.sides.numel(),
        "SOFTS": int(any(x.soft for x in motion.elements)),
        "GROWN": GROWN,
    }
    rows, holds, at, table = 0, 0, motion.slice("block").start, []
    line_of = {row: (k, sign) for k, line in enumerate(motion.lines) for row, sign in line}
    firsts = dict[int, tuple[int, Any]]()  # number and element of the contact that a row belongs to
    for i, x in enumerate(motion.elements):
        patch = 1 + x.patch if motion.patched and isinstance(x.part, Foot) else 0
        starts = at + x.places["starts"].start if "starts" in x.places else 0
        line, sign = line_of[rows]
        numbers = x.slips, int(x.normal), rows, at, holds, int(x.soft), patch, starts, line, sign
        table.append("{" + ", ".join(map(str, numbers)) + "}")
        firsts |= {rows + k: (i, x) for k in range(x.rows)}
        rows, holds, at = rows + x.rows, holds + x.slips, at + x.size
    lines_table = []
    for (row, _), *twin in motion.lines:
        i, x = firsts[row]
        normal = (
            x.normal and not x.soft and (row + 1 not in firsts or firsts[row + 1][0] != i)
        )  # its contact's last row
        lines_table.append(f"{{{row}, {twin[0][0] if twin else -1}, {i}, {x.slips if normal else 0}}}")
    lines = [
        "#define SIZE(n) ((n) > 0 ? (n) : 1)",
        *(f"#define {name} {value}" for name, value in sizes.items()),
        "static const struct { int slips, normal, row, p, hold, soft, patch, starts, line, sign; } elements[] = {"
        + ", ".join(table or ["{0}"])
        + "};",
        "static const struct { int row, twin, element, slips; } lines[] = {" + ", ".join(lines_table or ["{0}"]) + "};",
    ]
    routines = [motion.flow, motion.settle, motion.displace, motion.report]
    if way:
        routines += [motion.rates, motion.look, derivative(motion.look, True)]
        routines += [derivative(r, way == "back") for r in (motion.rates, motion.strike)]
    for r in routines:
        lines += _function(r)
    names = ["lanes.c", "contact.c", "flow.c", "events.c", "step.c", *(["tape.c", f"{way}.c"] if way else [])]
    before, *after = (here.with_name(name).read_text() for name in names)
    return "\n".join([before, *lines, *after])


def _function(r: Routine) -> list[str]:
    body, count, used = statements(r.function, VECTOR)
    arguments = [
        "V t",
        *(f"const V *restrict {n}" for n, _ in r.inputs[1:]),
        *(f"V *restrict {n}" for n, _ in r.outputs),
    ]
    head = f"static __attribute__((noinline)) void {r.name}({', '.join(arguments)}) {{"
    return [head, *declared(count, "V"), *unused(r, used), *(f"  {line}" for line in body), "}"]


class Native:
    """A compiled kernel and the memory of its copies: structure of arrays, `lanes` copies side by side."""

    def __init__(
        self,
        motion: Motion,
        grounds: list[Ground],
        name: str,
        gradient: bool = False,
        ends: Change | None = None,
    ) -> None:
        n = len(grounds)
        self._motion, self._name = motion, f"{n} copies of {name}"
        self._library = self._built("back" if gradient else "")
        self.lanes = self._library.saltus_lanes()
        self._pool: ThreadPoolExecutor | None = None
        self._last: tuple[Any, Any] = None, None
        self._kept: tuple[int, ...] = (0,) * 6  # where what happens is written, and how much room there is
        self.n, self.blocks = n, -(-n // self.lanes)
        e = motion.e
        self.x = self.memory(e.nq + motion.w.numel() + e.z.numel())
        self.p, self.t = self.memory(motion.p.numel()), self.memory(1)
        self._held = self.p[:, motion.slice("row"), :]
        self.v, self.contact = self.memory(e.nv), self.memory(3 * len(motion.elements))
        self.measured, self.force = self.memory(len(motion.measured)), self.memory(motion.rows)
        self.losses = self.memory(2)
        self.steps, self.doubts = self.memory(1, np.int64), self.memory(1, np.int64)
        self.over, self.fresh = self.memory(1, np.int32), self.memory(1, np.int32)
        self.land_from, self.land_to = self.memory(1, np.int64), self.memory(1, np.int64)
        self.land = self._table(grounds if motion.patched else [])
        self.ends = None if ends is None else ends.masks(motion.elements)

    def _built(self, way: str) -> ctypes.CDLL:
        return ctypes.CDLL(str(build(source(self._motion, way), _FUSED, name=self._name)))

    @cached_property
    def _forth(self) -> ctypes.CDLL:
        return self._built("forth")

    def _table(self, grounds: list[Ground]) -> np.ndarray:
        """Rows of `Ground.table` of all grounds; every copy is told from which to which are its own."""
        parts, starts, at = list[np.ndarray](), dict[int, tuple[int, int]](), 0
        for k, ground in enumerate(grounds):
            if id(ground) not in starts:
                parts.append(ground.table)
                starts[id(ground)] = at, at + len(parts[-1])
                at += len(parts[-1])
            self.column(self.land_from)[k], self.column(self.land_to)[k] = starts[id(ground)]
        return np.vstack(parts) if parts else np.zeros((0, 0))

    def memory(self, rows: int, kind: type = float) -> np.ndarray:
        """Zeros (blocks, rows, lanes), where a vector of copies may be read at once."""
        size = self.blocks * rows * self.lanes * np.dtype(kind).itemsize
        room = np.zeros(size + 64, np.uint8)
        at = -room.ctypes.data % 64
        return room[at : at + size].view(kind).reshape(self.blocks, rows, self.lanes)

    def rows(self, memory: np.ndarray) -> np.ndarray:
        """One row per copy, as a copy."""
        if self.n == 1:
            return memory[:, :, 0].copy()
        return memory.transpose(0, 2, 1).copy().reshape(self.blocks * self.lanes, memory.shape[1])[: self.n]

    def column(self, memory: np.ndarray) -> np.ndarray:
        """One number per copy, where there is one; as a view."""
        return memory.reshape(-1)[: self.n]

    def put(self, memory: np.ndarray, which: np.ndarray, values: Any) -> None:
        """Write one row per copy of `which`."""
        block, lane = np.divmod(which, self.lanes)
        memory[block, :, lane] = values

    def begin(self, which: np.ndarray, t: float, q: np.ndarray, w: np.ndarray, p: np.ndarray) -> None:
        """Start some copies at a time."""
        z = np.zeros((len(q), self.x.shape[1] - q.shape[1] - w.shape[1]))
        for memory, values in ((self.x, np.hstack([q, w, z])), (self.p, p), (self.fresh, 1), (self.t, t)):
            self.put(memory, which, values)
        for memory in (self.steps, self.over, self.losses, self.doubts):
            self.put(memory, which, 0)
        if (
            len(which) == self.n and self.n % self.lanes
        ):  # lanes without a copy hold numbers of the last one, and stand still
            block, lane = divmod(self.n, self.lanes)
            for memory in (self.x, self.p):
                memory[block, :, lane:] = memory[block, :, lane - 1 : lane]
            self.over[block, :, lane:] = 1
        self._step(self._batch(0.0, 0, 0.0, 0.0, 0.0), 0, self.blocks)

    def act(self, actions: np.ndarray) -> None:
        """Hold new actions: one for all copies, or one row per copy."""
        if actions.ndim == 1:
            self._held[...] = actions[:, None]
            return
        if self.n % self.lanes:
            actions = np.concatenate([actions, np.zeros((self.blocks * self.lanes - self.n, actions.shape[1]))])
        self._held[...] = actions.reshape(self.blocks, self.lanes, -1).transpose(0, 2, 1)

    @cached_property
    def _step(self) -> Callable[..., int]:
        function = self._library.saltus_step
        function.argtypes = [ctypes.POINTER(_Batch), ctypes.c_longlong, ctypes.c_longlong]
        return function

    # ---- derivatives ------------------------------------------------------------------------------------------------

    def keep(self, room: int, event_room: int) -> None:
        """Write down what happens from now on: so many parts of steps and events per copy, so many of them events."""
        n_w, elements = self.x.shape[1], self.contact.shape[1] // 3
        kinks = self._motion.efforts.sides.numel()
        fields = 2 + n_w, 2 + n_w + 19 * elements + 3 * kinks  # an event has no more than this
        self.written, self.happened = self.memory(1, np.int64), self.memory(1, np.int64)
        self.entries = self.memory(room * fields[0])
        self.events = self.memory(event_room * fields[1])
        kept = [getattr(self, name).ctypes.data for name in _KEPT]
        self._kept, self._last = (*kept, room, event_room), (None, None)

    @property
    def full(self) -> bool:
        """Whether more happened than was written down."""
        return bool((self.written > self._kept[4]).any() or (self.happened > self._kept[5]).any())

    def through(
        self, back: bool, x: np.ndarray, p: np.ndarray, low: np.ndarray, high: np.ndarray, slowest: np.ndarray
    ) -> None:
        """Turn tangents of states and parameters before entry `low` into those after entry `high`, or adjoints back."""
        batch = self._batch(0.0, 0, 0.0, 0.0, 0.0)
        memories = (a.ctypes.data for a in (x, p, low, high, slowest))
        one = ctypes.byref(_Pass(ctypes.pointer(batch), *memories))
        passes = self._library.saltus_back if back else self._forth.saltus_forth
        passes(one, ctypes.c_longlong(0), ctypes.c_longlong(self.blocks))

    @cached_property
    def _memories(self) -> list[int]:
        arrays = (getattr(self, name) for name in _ARRAYS)
        return [0 if array is None else array.ctypes.data for array in arrays]

    def _batch(self, step: float, times: int, tolerance: float, rest: float, weight: float) -> _Batch:
        return _Batch(step, tolerance, rest, weight, times, *self._memories, *self._kept)

    def step(self, step: float, times: int, tolerance: float, rest: float, weight: float, threads: int) -> bool:
        """Step all copies that have not ended, blocks of them on several threads; none of them knows of another.

        False where a copy was given actions that are not finite: it stands still.
        """
        given = step, times, tolerance, rest, weight
        if given != self._last[0]:
            self._last = given, ctypes.pointer(self._batch(*given))
        batch = self._last[1]
        threads = min(threads, -(-self.blocks // BLOCKS))
        if threads == 1:
            return self._step(batch, 0, self.blocks) == 0
        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads)
        edges = [self.blocks * k // threads for k in range(threads + 1)]
        return not any(list(self._pool.map(lambda k: self._step(batch, edges[k], edges[k + 1]), range(threads))))
