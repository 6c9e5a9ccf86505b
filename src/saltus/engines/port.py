"""The port every integrator stands behind: a Flow goes in, Segments of piecewise polynomials come out."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from saltus.compile import Kernel, densified
from saltus.errors import BadValue
from saltus.once import LOCK, cached_property

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
TIE = 1e-12  # guards whose roots are this close (relative to the time) fire together
FAR = 1e-7  # m, or of the weight: a guard so far from its surface has left it

_KINKS = {
    ca.OP_LT,
    ca.OP_LE,
    ca.OP_EQ,
    ca.OP_NE,
    ca.OP_NOT,
    ca.OP_AND,
    ca.OP_OR,
    ca.OP_IF_ELSE_ZERO,
    ca.OP_FABS,
    ca.OP_SIGN,
    ca.OP_FMIN,
    ca.OP_FMAX,
    ca.OP_FLOOR,
    ca.OP_CEIL,
    ca.OP_FMOD,
}


@dataclass(frozen=True, eq=False)
class Flow:
    """A smooth vector field with its guards and its projection, as symbols.

    `rhs(t, x, p) -> dx/dt`, `guards(t, x, p) -> g` (possibly no rows),
    `project(t, x, p) -> x`, applied after each accepted step (None: nothing to project). `whole(t, x, p)` gives
    right-hand side, guards and forces that belong to them in one, where these share most of what they compute.
    `factors(t, x, p)` are numbers that hang on p alone and with which, where they are zero, much of that falls away.

    A flow is equal to itself only: what engines compile is kept by the flow it was made of, see `Kept`.
    """

    name: str
    rhs: ca.Function
    guards: ca.Function
    project: ca.Function | None = None
    whole: ca.Function | None = None
    factors: ca.Function | None = None

    @property
    def n(self) -> int:
        """Number of states."""
        return int(self.rhs.size1_in(1))

    @property
    def n_guards(self) -> int:
        """Number of guard functions."""
        return int(self.guards.size1_out(0))

    @property
    def n_forces(self) -> int:
        """Number of forces."""
        return int(self.together.size1_out(2))

    @cached_property
    def acting(self) -> list[bool]:
        """Which states the right-hand side depends on."""
        columns = set(self.rhs.jac_sparsity(0, 1).get_col())
        return [j in columns for j in range(self.n)]

    @cached_property
    def together(self) -> ca.Function:
        """(t, x, p) -> (derivatives, guards, forces), dense."""
        if self.whole is not None:
            return densified(self.whole, "saltus_flow")
        symbol: Any = ca.SX if self.rhs.is_a("SXFunction") and self.guards.is_a("SXFunction") else ca.MX
        inputs = [symbol.sym(name, *self.rhs.size_in(i)) for i, name in enumerate(("t", "x", "p"))]
        outputs = [ca.densify(f.call(inputs, True, False)[0]) for f in (self.rhs, self.guards)]
        return ca.Function("saltus_flow", inputs, ca.cse([*outputs, symbol(0, 1)]))

    def factored(self, function: ca.Function) -> ca.Function:
        """A function of (t, x, p) with the factors as one more result."""
        assert self.factors is not None
        inputs = [ca.SX.sym(name, *self.rhs.size_in(i)) for i, name in enumerate(("t", "x", "p"))]
        outputs = [*function.call(inputs, True, False), *self.factors.call(inputs, True, False)]
        return ca.Function(function.name(), inputs, [ca.densify(out) for out in outputs])

    @cached_property
    def _looking(self) -> Kernel:
        return Kernel(self.together, native=False)

    def look(self, t: Array, x: Array, p: Array) -> tuple[Array, ...]:
        """The same in numbers, on the virtual machine."""
        return tuple(out.reshape(len(t), -1) for out in self._looking.batch(t, x, p))

    @property
    def has_kinks(self) -> bool:
        """Whether the right-hand side branches or clips anywhere, or cannot be read instruction by instruction."""
        try:
            f = self.rhs.expand()
        except RuntimeError:
            return True
        return any(f.instruction_id(k) in _KINKS for k in range(f.n_instructions()))


Look = Callable[[Array, Array, Array], tuple[Array, ...]]
"""(t, x, p) -> derivatives, guards, forces of a flow: one row per time, p one for all of them or one row each."""


class Stop(enum.Enum):
    """Why an engine returned."""

    END = "end"  # reached t_end
    EVENT = "event"  # one or more guards crossed zero
    LIMIT = "limit"  # max_steps taken; go on from where it stopped
    NOT_FINITE = "not finite"  # the right-hand side gave NaN or infinity however small the step
    STEP_TOO_SMALL = "step too small"  # the error test kept failing


@dataclass(eq=False, slots=True)  # not frozen: sampled laws make thousands a second, and freezing takes most of it
class Request:
    """One call to an engine.

    `atol` and `rtol` have one entry per state: the local error of state i is held below
    atol[i] + rtol[i] |x_i|. `directions` has one entry per guard: +1 rising, -1 falling, 0 both.
    `armed[i]` is False for a guard that must first leave zero (it was on or beyond its surface at the
    start): it arms itself once directions[i] * g < -arm_tol (|g| > arm_tol for direction 0) and only
    then can fire.

    Guards that stand on their surface may be watched from there: `shift` are the entries of p by which the surfaces of
    the first guards are moved. A guard that has gone to the other side of its true surface by as much, or by FAR, has
    left: its entry counts as zero from then on, and it is one that must first leave zero.
    """

    t: float
    x: Array
    p: Array
    t_end: float
    atol: Array
    rtol: Array
    directions: NDArray[np.int32]
    armed: NDArray[np.bool_]
    arm_tol: float = 1e-12
    step: float = 0.0  # first step to try; 0: the engine chooses
    implicit: bool = False  # whether steps were implicit before, of an engine that has both kinds
    max_step: float = np.inf
    max_steps: int = 20_000
    shift: slice = field(default_factory=lambda: slice(0, 0))


@dataclass(eq=False, slots=True)
class Segment:
    """What one call produced.

    On interval k, x(t) = sum_j coefficients[k, j] s**j with s = (t - breaks[k]) / (breaks[k+1] - breaks[k]).
    `x` is the state at breaks[-1] (after projection). `fired` lists the guards that crossed, earliest first;
    guards whose roots lie within 1e-12 relative of the first one's count as ties and are all listed.
    """

    breaks: Array  # (k+1,)
    coefficients: Array  # (k, degree+1, n)
    x: Array
    stop: Stop
    fired: tuple[int, ...] = ()
    armed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    left: tuple[int, ...] = ()  # guards with a shifted surface that left it
    step: float = 0.0  # the step the engine would try next
    implicit: bool = False  # and of which kind
    evaluations: int = 0
    rejected: int = 0


class Stepper(Protocol):
    """A flow made ready to run; for one run at a time, since it may own buffers."""

    engine: str  # the engine that really runs: another than the one asked for if that one could not be built
    notes: list[str]  # what the user of a run should know about how it was made ready

    def run(self, request: Request) -> Segment:
        """Integrate until the first event, the end, or a limit."""

    @property
    def look(self) -> Look:
        """Evaluate its flow."""


class Engine(Protocol):
    """A kind of integrator."""

    name: str

    def prepare(self, flow: Flow, **options: Any) -> Stepper:
        """Return a stepper of one's own. The costly part is made once per flow and kept, so ask for every run."""


class Kept:
    """What an engine compiled of each flow: made once, shared by all its steppers, gone with the flow.

    What is kept must hold no state of a run and must not refer to the flow.
    """

    def __init__(self) -> None:
        self._flows: weakref.WeakKeyDictionary[Flow, dict[Hashable, Any]] = weakref.WeakKeyDictionary()

    def once(self, flow: Flow, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` returned the first time."""
        with LOCK:
            made = self._flows.setdefault(flow, {})
            if key not in made:
                made[key] = make()
            return made[key]


def check_times(flow: Flow, request: Request) -> None:
    """Refuse a request that goes backwards or never ends."""
    if not request.t <= request.t_end < np.inf:
        raise BadValue(
            f"{flow.name!r}: t_end is {request.t_end}, expected a finite time not before t = {request.t}",
            t=request.t,
            t_end=request.t_end,
        )
