"""The compiled engine: DOP853 and the flow's own C in one library, nothing of Python inside the loop."""

from __future__ import annotations

import ctypes
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from saltus.compile import (
    LIGHT,
    PIECE,
    PLAIN,
    CompileError,
    build,
    c_source,
    densified,
    left_as_it_is,
    skipping,
)
from saltus.engines.port import Array, Flow, Kept, Request, Segment, Stepper, Stop, check_times
from saltus.errors import BadValue

_STOPS = (Stop.END, Stop.EVENT, Stop.LIMIT, Stop.NOT_FINITE, Stop.STEP_TOO_SMALL)
_NO_MEMORY = len(_STOPS)
_KEPT = Kept()

# Fused products and one division where many have the same divisor: a fifth faster, and here there is no virtual
# machine to agree with to the last bit.
_FLAGS = ("-ffp-contract=fast", "-freciprocal-math")

# CasADi's C asks before each number whether its vector was given at all. Here they all are; without the question
# a sine and the cosine of the same angle become one call.
_ABSENT_INPUT = re.compile(r"arg\[(\d+)\]\? (arg\[\1\]\[\d+\]) : 0")
_ABSENT_OUTPUT = re.compile(r"if \(res\[\d+\]!=0\) (?=res\[\d+\]\[\d+\]=)")

# The flow's functions become static, so that libraries never see each other's.
_PREAMBLE = f"""
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define CASADI_SYMBOL_EXPORT static
#define EXPORT
#include <math.h>
#include <string.h>
{PIECE}
"""


class _Run(ctypes.Structure):
    """The same layout as `Run` in dop853.c."""

    _fields_ = (
        *((name, ctypes.c_double) for name in ("t", "t_end", "step", "max_step", "arm_tol")),
        ("max_steps", ctypes.c_longlong),
        *((n, ctypes.c_void_p) for n in ("p", "atol", "rtol", "directions", "x", "armed", "fired", "shift", "left")),
        *((name, ctypes.c_void_p) for name in ("breaks", "coefficients")),
        *((name, ctypes.c_longlong) for name in ("count", "capacity", "evaluations", "rejected")),
        *((name, ctypes.c_int) for name in ("shifts", "n_fired", "stop", "implicit")),
    )


class NativeEngine:
    """Hairer's DOP853 in C: order 8, dense output of order 7, events polished to round-off.

    The step is chosen so that the error between its ends stays within the tolerance, too.
    """

    name = "native"

    def prepare(self, flow: Flow, *, dense: bool = True, **options: Any) -> Stepper:
        """Compile a flow. `dense=False` keeps a cubic per step: faster, its interior is of order 4 only, and unchecked.

        If the compiler fails, hangs, or finds no room, the stepper is that of an engine that needs none, with a note.
        """
        if options:
            raise BadValue(
                f"the native engine has no option {sorted(options)}; it has ['dense']",
                options=sorted(options),
            )
        try:
            return NativeStepper(flow, dense)
        except CompileError as error:
            from saltus.engines.interpreted import ScipyEngine  # SciPy's integrators load slowly

            stepper = ScipyEngine().prepare(flow)
            note = f"{flow.name!r} was not compiled, and engine {stepper.engine!r} took over: {error}"
            stepper.notes = [note, *stepper.notes]
            return stepper


class NativeStepper:
    """A flow with its integrator as a library. All state is a run's own: threads may share it."""

    engine = "native"

    def __init__(self, flow: Flow, dense: bool = True) -> None:
        self.flow = flow
        self.dense = dense
        self._degree = 7 if dense else 3
        self._sizes = flow.n, flow.n_guards, int(flow.rhs.numel_in(2))
        self._looks = flow.n, flow.n_guards, flow.n_forces
        library, notes = _KEPT.once(flow, dense, lambda: _library(flow, dense))
        self.notes: list[str] = list(notes)
        self._integrate, self._release, self._look = library.saltus_run, library.saltus_free, library.saltus_look

    def __reduce__(self) -> tuple[Any, ...]:
        return NativeStepper, (self.flow, self.dense)

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit."""
        flow = self.flow
        n, guards, parameters = self._sizes
        check_times(flow, request)
        for name, value, size in (
            ("x", request.x, n),
            ("p", request.p, parameters),
            ("atol", request.atol, n),
            ("rtol", request.rtol, n),
            ("directions", request.directions, guards),
            ("armed", request.armed, guards),
        ):
            if np.shape(value) != (size,):
                raise BadValue(
                    f"{flow.name!r}: {name} has shape {np.shape(value)}, expected ({size},)",
                    name=name,
                    given=np.shape(value),
                    expected=(size,),
                )
        # One block of each kind: asking an array for its address takes as long as a step.
        numbers = np.concatenate([request.x, request.p, request.atol, request.rtol], dtype=np.float64)
        flags, signs = np.zeros(2 * guards, np.bool_), np.zeros(2 * guards, np.int32)
        flags[:guards], signs[:guards] = request.armed, request.directions
        at, at_flags, at_signs = numbers.ctypes.data, flags.ctypes.data, signs.ctypes.data
        run = _Run(
            t=request.t,
            t_end=request.t_end,
            step=request.step,
            max_step=request.max_step,
            arm_tol=request.arm_tol,
            max_steps=request.max_steps,
            x=at,
            p=at + 8 * n,
            atol=at + 8 * (n + parameters),
            rtol=at + 8 * (2 * n + parameters),
            directions=at_signs,
            fired=at_signs + 4 * guards,
            armed=at_flags,
            left=at_flags + guards,
            shift=at + 8 * (n + request.shift.start),
            shifts=request.shift.stop - request.shift.start,
            implicit=request.implicit,
        )
        self._integrate(ctypes.byref(run))
        try:
            if run.stop == _NO_MEMORY:
                raise MemoryError(f"{flow.name!r}: no memory left after {run.count} steps; lower max_steps")
            count = run.count
            shape = (count, self._degree + 1, n)
            return Segment(
                breaks=_copied(run.breaks, (count + 1,)),
                coefficients=_copied(run.coefficients, shape),
                x=numbers[:n].copy(),
                stop=_STOPS[run.stop],
                fired=tuple(signs[guards : guards + run.n_fired].tolist()),
                armed=flags[:guards],
                left=tuple(np.flatnonzero(flags[guards:]).tolist()),
                step=run.step,
                evaluations=run.evaluations,
                rejected=run.rejected,
                implicit=bool(run.implicit),
            )
        finally:
            self._release(ctypes.byref(run))

    def look(self, t: Array, x: Array, p: Array) -> tuple[Array, ...]:
        """Derivatives, guards and forces of the flow: one row per time, p one for all of them or one row each."""
        count, (n, guards, forces) = len(t), self._looks
        given = np.concatenate([t, np.ravel(x), np.ravel(p)], dtype=np.float64)  # one block of each kind, as in `run`
        out = np.empty(count * (n + guards + forces))
        into, at = given.ctypes.data, out.ctypes.data
        first, second = count * n, count * (n + guards)
        places = into, into + 8 * count, into + 8 * (count + first), at, at + 8 * first, at + 8 * second
        self._look(count, p.ndim - 1, p.shape[-1], *places)
        return tuple(part.reshape(count, -1) for part in (out[:first], out[first:second], out[second:]))


def _copied(address: int | None, shape: tuple[int, ...]) -> Array:
    """Copy out of C's memory (None: C never asked for any, and the array is empty)."""
    if address is None:
        return np.empty(shape)
    block: Any = (ctypes.c_double * math.prod(shape)).from_address(address)
    return np.frombuffer(block).reshape(shape).copy()


def _library(flow: Flow, dense: bool) -> tuple[ctypes.CDLL, tuple[str, ...]]:
    """Compile; return the library and what is to be noted about it."""
    source = _source(flow, dense)
    library = ctypes.CDLL(str(build(source, _FLAGS, flow.name, LIGHT if flow.factors is None else PLAIN)))
    library.saltus_run.restype = library.saltus_free.restype = library.saltus_look.restype = None
    library.saltus_look.argtypes = [ctypes.c_longlong] * 3 + [ctypes.c_void_p] * 6
    if not left_as_it_is(source):
        return library, ()
    return library, (
        f"the C of {flow.name!r} is {len(source) / 1e6:.1f} MB long and was compiled without optimisation, "
        "which takes seconds instead of minutes; evaluations are about three times slower for it",
    )


def _source(flow: Flow, dense: bool) -> str:
    """The whole translation unit: sizes, the flow in C, the integrator."""
    functions = [flow.together]
    if flow.project is not None:
        functions.append(densified(flow.project, "saltus_project"))
    sizes = {"N": flow.n, "G": flow.n_guards, "F": flow.n_forces}
    acts = flow.acting
    sizes |= {"PROJECT": int(flow.project is not None), "DENSE": int(dense), "ACTING": sum(acts)}
    defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    defines += f"static const unsigned char ACTS[] = {{{', '.join(str(int(x)) for x in acts) or '0'}}};\n"
    integrator = "".join(Path(__file__).with_name(f"{name}.c").read_text() for name in ("dop853", "rodas", "events"))
    # The sizes come after the flow's C, whose own names they must not touch.
    if flow.factors is None:
        flow_in_c = _ABSENT_OUTPUT.sub("", _ABSENT_INPUT.sub(r"\2", c_source(functions)))
    else:
        flow_in_c = c_source(()) + "".join(skipping(flow.factored(f)) for f in functions)
    return _PREAMBLE + flow_in_c + defines + integrator
