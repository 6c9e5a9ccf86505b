"""A CasADi function, compiled, or on CasADi's virtual machine where there is no compiler."""

from __future__ import annotations

import ctypes
import math
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from saltus.compile.toolchain import LIGHT, CompileError, build, find_compiler
from saltus.errors import BadValue, NoCompiler, SaltusError
from saltus.once import cached_property

Array = NDArray[np.float64]

_NAME = "saltus_kernel"
TOGETHER = 32  # sets that the virtual machine evaluates per call

# CasADi's helpers such as casadi_sq are visible from outside, so that no compiler may put them in place of their calls.
_HELPER = re.compile(r"^(?:void|int|casadi_int|casadi_real) casadi_\w+\(", re.MULTILINE)

_LOOPS = """
#include <stdlib.h>

/* Evaluate `count` sets; set k of argument i starts at arg[i] + k * arg_stride[i], results likewise.
   Through a volatile pointer, so that repeated sets are really evaluated again. */
int saltus_batch(long long count, const double **arg, const long long *arg_stride,
                 double **res, const long long *res_stride) {
  int (*volatile evaluate)(const double **, double **, casadi_int *, double *, int) = saltus_kernel;
  const int n_in = (int)saltus_kernel_n_in(), n_out = (int)saltus_kernel_n_out();
  casadi_int sz_arg, sz_res, sz_iw, sz_w;
  saltus_kernel_work(&sz_arg, &sz_res, &sz_iw, &sz_w);
  const double **a = malloc((sz_arg + 1) * sizeof *a);
  double **r = malloc((sz_res + 1) * sizeof *r);
  casadi_int *iw = malloc((sz_iw + 1) * sizeof *iw);
  double *w = malloc((sz_w + 1) * sizeof *w);
  int failed = !a || !r || !iw || !w;
  const int memory = failed ? 0 : saltus_kernel_checkout();
  for (long long k = 0; k < count && !failed; ++k) {
    for (int i = 0; i < n_in; ++i) a[i] = arg[i] + k * arg_stride[i];
    for (int i = 0; i < n_out; ++i) r[i] = res[i] + k * res_stride[i];
    failed = evaluate(a, r, iw, w, memory);
  }
  saltus_kernel_release(memory);
  free(a);
  free(r);
  free(iw);
  free(w);
  return failed;
}
"""


class EvaluationError(SaltusError):
    """A function that contains an iterative solver reported that it did not succeed."""


def densified(function: ca.Function, name: str) -> ca.Function:
    """Return the function under a name of its own with dense arguments and results."""
    symbol: Any = ca.SX if function.is_a("SXFunction") else ca.MX
    names_in = [function.name_in(i) for i in range(function.n_in())]
    names_out = [function.name_out(i) for i in range(function.n_out())]
    arguments = [symbol.sym(label, *function.size_in(i)) for i, label in enumerate(names_in)]
    results = function.call(arguments, True, False)
    return ca.Function(name, arguments, [ca.densify(result) for result in results], names_in, names_out)


def c_source(functions: Iterable[ca.Function]) -> str:
    """Return the C of some functions; raise NotImplementedError if one of them has no C form."""
    generator = ca.CodeGenerator("saltus", {"with_header": False})
    try:
        for function in functions:
            generator.add(function)
        source = str(generator.dump())
    except RuntimeError as error:
        raise NotImplementedError(f"CasADi cannot write this function in C: {error}") from error
    if "#error" in source:
        raise NotImplementedError("CasADi cannot write every part of this function in C")
    return _HELPER.sub(r"static \g<0>", source)


class Bound:
    """A kernel tied to memory: write into `args`, call it, read `results`.

    Both are lists of float64 arrays that stay the same for life. `evaluate` is the bare call for the
    hottest loops. Not for two threads at once: bind once per thread.
    """

    __slots__ = ("_buffer", "args", "evaluate", "results")

    def __init__(self, function: ca.Function) -> None:
        self.args = [_column_major(function.size_in(i)) for i in range(function.n_in())]
        self.results = [_column_major(function.size_out(i)) for i in range(function.n_out())]
        self._buffer: Any
        self.evaluate: Any
        self._buffer, self.evaluate = function.buffer()
        for i, array in enumerate(self.args):
            self._buffer.set_arg(i, array.T.data)
        for i, array in enumerate(self.results):
            self._buffer.set_res(i, array.T.data)
        # CasADi's call knows only addresses: let it keep alive what lies there.
        self.evaluate.owner = (self._buffer, *self.args, *self.results)

    def __call__(self) -> None:
        """Evaluate in place."""
        self.evaluate()

    @property
    def failed(self) -> bool:
        """Whether the last evaluation reported failure; only iterative solvers inside can."""
        return bool(self._buffer.ret())


class Kernel:
    """A function of dense vectors and matrices, made fast.

    `native` None compiles if there is a compiler, True insists on it, False stays on CasADi's virtual
    machine. Compilation happens at the first use and is kept on disk; if it fails (the compiler gives up or hangs,
    the disk is full), None warns, leaves a note in `notes` and goes on with the virtual machine. Columns are 1-D
    arrays, other matrices 2-D. Kernels may be called from several threads and may be pickled.
    """

    def __init__(self, function: ca.Function, native: bool | None = None) -> None:
        self.function = function
        self.name: str = function.name()
        self.notes: list[str] = []
        self._wish = native
        self._shapes_in = [_shape(function.size_in(i)) for i in range(function.n_in())]
        self._shapes_out = [_shape(function.size_out(i)) for i in range(function.n_out())]
        self._can_fail = not function.is_a("SXFunction")
        self._local = threading.local()
        if native and find_compiler() is None:
            raise NoCompiler(
                f"native code was asked for {self.name!r}, and there is no C compiler. "
                "Install gcc or clang, name one in SALTUS_CC, or use native=None",
                function=self.name,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernel, (self.function, self._wish)

    def __repr__(self) -> str:
        return f"Kernel({self.function}, native={self._wish})"

    @property
    def native(self) -> bool:
        """Whether it runs compiled (compiles it to find out)."""
        return self._library is not None

    @cached_property
    def _dense(self) -> ca.Function:
        return densified(self.function, _NAME)

    @cached_property
    def _library(self) -> str | None:
        """The path of the built library, None on the virtual machine."""
        if self._wish is False or find_compiler() is None:
            return None
        try:
            source = c_source([self._dense])
        except NotImplementedError as error:
            if self._wish:
                raise NoCompiler(f"{self.name!r} cannot become native code: {error}", function=self.name) from error
            return None
        try:
            return str(build(source + _LOOPS, name=self.name, level=LIGHT))
        except CompileError as error:
            if self._wish:
                raise
            self.notes.append(f"{self.name!r} runs on CasADi's virtual machine, some ten times slower: {error}")
            warnings.warn(self.notes[-1], RuntimeWarning, stacklevel=4)
            return None

    @cached_property
    def runnable(self) -> ca.Function:
        """As a CasADi function of dense arguments, for use within others."""
        return ca.external(_NAME, self._library) if self._library else self._dense

    @cached_property
    def _loop(self) -> Callable[..., int]:
        return ctypes.CDLL(self._library).saltus_batch

    def __call__(self, *args: ArrayLike) -> Array | tuple[Array, ...]:
        """Evaluate; one result comes alone, several as a tuple. The arrays are new.

        Arguments of the call before are not evaluated again: an instant asks for one thing in several places.
        """
        if len(args) != len(self._shapes_in):
            raise self._wrong_number(len(args))
        try:
            bound, before = self._local.bound
        except AttributeError:
            bound, before = self.bind(), None
        fitted = [
            value
            if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == target.shape
            else self._fit(i, value)
            for i, (value, target) in enumerate(zip(args, bound.args, strict=True))
        ]
        given = [value.tobytes() for value in fitted]
        if given != before:
            self._local.bound = bound, None
            for target, value in zip(bound.args, fitted, strict=True):
                target[...] = value
            bound.evaluate()
            if self._can_fail and bound.failed:
                raise self._failure()
            self._local.bound = bound, given
        if len(bound.results) == 1:
            return bound.results[0].copy()
        return tuple([result.copy() for result in bound.results])

    def bind(self) -> Bound:
        """Tie the kernel to memory of its own, for calls without any conversion."""
        return Bound(self.runnable)

    def batch(self, *args: ArrayLike, threads: int = 1) -> Array | tuple[Array, ...]:
        """Evaluate N sets of arguments: each is one set, or N along a first axis. Results have N first.

        `threads` splits the sets over threads (native code only, the virtual machine uses one).
        """
        if len(args) != len(self._shapes_in):
            raise self._wrong_number(len(args))
        sets = [self._fit_sets(i, value) for i, value in enumerate(args)]
        counts = {len(array) for array, many in sets if many}
        if len(counts) > 1:
            given = ", ".join(
                f"{self.function.name_in(i)}: {len(array)}" for i, (array, many) in enumerate(sets) if many
            )
            raise BadValue(f"{self.name!r}: the arguments hold different numbers of sets ({given})", counts=counts)
        count = counts.pop() if counts else 1
        # CasADi is column-major: what it sees is the transpose of each matrix.
        inputs = [np.ascontiguousarray(_turn(array)) for array, _ in sets]
        outputs = [np.empty((count, *shape[::-1])) for shape in self._shapes_out]
        steps = [math.prod(shape) * many for shape, (_, many) in zip(self._shapes_in, sets, strict=True)]
        if self.native:
            parts = max(1, min(threads, count))
            edges = [count * k // parts for k in range(parts + 1)]
            loop = self._loop  # here, not in a thread that would wait for what this one may hold

            def run(first: int, end: int) -> int:
                return self._run(loop, first, end - first, inputs, steps, outputs)

            if parts == 1:
                failures = [run(0, count)]
            else:
                with ThreadPoolExecutor(parts) as pool:
                    failures = list(pool.map(run, edges[:-1], edges[1:]))
            if any(failures):
                raise self._failure()
        else:
            self._run_virtual(count, inputs, [many for _, many in sets], outputs)
        results = [np.ascontiguousarray(_turn(array)) for array in outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def time(self, repeats: int = 10_000, args: Sequence[ArrayLike] | None = None) -> float:
        """Return the seconds of one evaluation, on average; the loop is in C for native code.

        `args` is where to evaluate; None stands for zeros, at which sines and cosines are cheaper.
        """
        if args is not None and len(args) != len(self._shapes_in):
            raise self._wrong_number(len(args))
        bound = self.bind()
        for i, target in enumerate(bound.args):
            target[...] = 0.0 if args is None else self._fit(i, args[i])
        bound.evaluate()
        if self.native:
            still = [0] * len(bound.args)
            start = time.perf_counter()
            self._run(self._loop, 0, repeats, bound.args, still, bound.results, still=True)
        else:
            start = time.perf_counter()
            for _ in range(repeats):
                bound.evaluate()
        return (time.perf_counter() - start) / repeats

    @staticmethod
    def _run(
        loop: Callable[..., int],
        first: int,
        count: int,
        inputs: list[Array],
        steps: list[int],
        outputs: list[Array],
        still: bool = False,
    ) -> int:
        """Let C go through some of the sets; `still` writes every result to the same place."""
        sizes = [0 if still else array[:1].size for array in outputs]
        return loop(
            ctypes.c_longlong(count),
            _pointers(inputs, first, steps),
            (ctypes.c_longlong * len(steps))(*steps),
            _pointers(outputs, first, sizes),
            (ctypes.c_longlong * len(sizes))(*sizes),
        )

    def _run_virtual(self, count: int, inputs: list[Array], many: list[bool], outputs: list[Array]) -> None:
        try:
            bounds = self._local.batch
        except AttributeError:
            bounds = self._local.batch = {}
        done = 0
        for size in (TOGETHER, 1):
            if count - done < size:
                continue
            if size not in bounds:
                bounds[size] = self.bind() if size == 1 else Bound(self.runnable.map(size))
            bound = bounds[size]
            sets = [
                target.T.reshape(size, *shape[::-1]) for target, shape in zip(bound.args, self._shapes_in, strict=True)
            ]
            found = [
                result.T.reshape(size, *shape[::-1])
                for result, shape in zip(bound.results, self._shapes_out, strict=True)
            ]
            moving = [(target, array) for target, array, m in zip(sets, inputs, many, strict=True) if m]
            for target, array, m in zip(sets, inputs, many, strict=True):
                if not m:
                    target[...] = array
            for k in range(done, count - size + 1, size):
                for target, array in moving:
                    target[...] = array[k : k + size]
                bound.evaluate()
                if self._can_fail and bound.failed:
                    raise self._failure()
                for output, result in zip(outputs, found, strict=True):
                    output[k : k + size] = result
            done = count - count % size

    def _fit(self, i: int, value: ArrayLike) -> Array:
        """Bring one argument to its shape without ever changing its size."""
        array = self._numbers(i, value)
        shape = self._shapes_in[i]
        if array.shape == shape:
            return array
        column = array.ndim == 2 and array.shape[1] == 1 and len(shape) == 1
        if array.size == math.prod(shape) and (array.ndim == 0 or column):
            return array.reshape(shape)
        raise self._wrong_size(i, array.shape, "")

    def _fit_sets(self, i: int, value: ArrayLike) -> tuple[Array, bool]:
        """Return an argument with a first axis, and whether that axis runs over several sets."""
        array = self._numbers(i, value)
        shape = self._shapes_in[i]
        if array.shape == shape or (array.ndim == 0 and shape == (1,)):
            return array.reshape(1, *shape), False
        if array.shape[1:] == shape:
            return array, True
        if array.ndim == 1 and shape == (1,):
            return array[:, None], True
        raise self._wrong_size(i, array.shape, f" or (N, {', '.join(map(str, shape))})")

    def _numbers(self, i: int, value: ArrayLike) -> Array:
        try:
            return np.asarray(value, float)
        except (TypeError, ValueError) as error:
            name = self.function.name_in(i)
            raise BadValue(
                f"{self.name!r}: argument {name!r} is not an array of numbers: {error}", name=name
            ) from error

    def _wrong_size(self, i: int, given: tuple[int, ...], also: str) -> BadValue:
        name, expected = self.function.name_in(i), self._shapes_in[i]
        return BadValue(
            f"{self.name!r}: argument {name!r} has shape {given}, expected {expected}{also}",
            function=self.name,
            argument=name,
            given=given,
            expected=expected,
        )

    def _wrong_number(self, given: int) -> BadValue:
        names = [self.function.name_in(i) for i in range(len(self._shapes_in))]
        return BadValue(
            f"{self.name!r} takes {len(names)} arguments ({', '.join(names)}), {given} given",
            function=self.name,
            given=given,
            expected=len(names),
        )

    def _failure(self) -> EvaluationError:
        return EvaluationError(
            f"{self.name!r}: a solver inside it did not converge; start it nearer to a solution",
            function=self.name,
        )


def _shape(size: tuple[int, int]) -> tuple[int, ...]:
    """The numpy shape of a CasADi size: columns, and CasADi's 0-by-0, have one axis."""
    rows, columns = size
    return (rows,) if columns == 1 or rows == columns == 0 else (rows, columns)


def _column_major(size: tuple[int, int]) -> Array:
    return np.zeros(_shape(size), order="F")


def _turn(sets: Array) -> Array:
    """Transpose each matrix of a stack; columns stay."""
    return sets.transpose(0, 2, 1) if sets.ndim == 3 else sets


def _pointers(arrays: list[Array], first: int, steps: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    addresses = [array.ctypes.data + first * step * array.itemsize for array, step in zip(arrays, steps, strict=True)]
    return (ctypes.c_void_p * len(addresses))(*addresses)
