"""State: a configuration of a machine in motion, and what can be asked of it without its equations of motion."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadValue
from saltus.model.closing import CLOSED, Assembler, assembler
from saltus.model.contents import unchanged
from saltus.model.geometry import trace
from saltus.model.kinematics import Kinematics
from saltus.model.mobility import Mobility, mobility
from saltus.model.structure import Structure
from saltus.model.symbols import Named
from saltus.model.travel import Travel, follow, travel
from saltus.shown import Shown

__all__ = ["CLOSED", "State", "assembler"]

M = TypeVar("M", bound=Structure)


# what `sl.forward` tells of a state
FORWARD = ("a", "acceleration", "energy", "kinetic_energy", "potential_energy", "momentum", "load", "force")


@dataclass(frozen=True, eq=False)
class State(Shown, Generic[M]):
    """Positions and velocities of a mechanism, with the Param values they belong to.

    `z` is what else has a memory, the stretch of friction springs on soft ground (m); None is none. `time` (s) is when
    it is so, which matters where motions are given in time. What a state does next, and which forces act in it, says
    `sl.forward(state)`.
    """

    mechanism: M
    positions: np.ndarray
    velocities: np.ndarray
    params: Mapping[str, float]
    z: np.ndarray | None = None
    time: float = 0.0

    def __getattr__(self, name: str) -> Any:
        """Only what there is not: what depends on masses and forces is an answer of `sl.forward`."""
        where = f"; sl.forward(state).{name} has it" if name in FORWARD else ""
        raise AttributeError(f"'State' object has no attribute {name!r}{where}", name=name, obj=self)

    @property
    def q(self) -> Named:
        """Positions by name (rad, m)."""
        return Named(self.mechanism.q_names, self.positions)

    @property
    def v(self) -> Named:
        """Velocities by name (rad/s, m/s)."""
        return Named(self.mechanism.v_names, self.velocities, "velocity")

    @property
    def p(self) -> np.ndarray:
        """Vector of all Params."""
        return self.mechanism.values(self.params)

    @property
    def gap(self) -> float:
        """Largest constraint error (m)."""
        phi, _ = self._assembler.closure(self.time, self.positions, self.p)
        return float(np.abs(phi).max(initial=0.0))

    # ---- points -------------------------------------------------------------------------------------------------

    def position(self, point: Any, *, t: float | None = None) -> np.ndarray:
        """World position of a point (m) at the state's time, or at `t` (s)."""
        when = self.time if t is None else t
        return trace(self.mechanism, self.positions, [point], params=self.params, t=when)[0, 0]

    def velocity(self, point: Any, *, t: float | None = None) -> np.ndarray:
        """World velocity of a point (m/s)."""
        return self._moving(point, t)[0]

    def jacobian(self, point: Any, *, t: float | None = None) -> np.ndarray:
        """Jacobian of a point's velocity by all velocities v, loops not inserted: one row per axis of the world."""
        return self._moving(point, t)[1]

    def _moving(self, point: Any, t: float | None) -> tuple[np.ndarray, np.ndarray]:
        m = self.mechanism
        frame, when = m.frame(point), self.time if t is None else t
        d = 3 if m.spatial else 2

        def make() -> Kernel:
            k = Kinematics(m)
            rate = k.rate(k.position(frame))[:d]
            outputs = ca.cse([ca.densify(rate), ca.densify(ca.jacobian(rate, k.v))])
            return Kernel(
                ca.Function("moving", [k.t, k.q, k.v, k.p], outputs, list("tqvp"), ["rate", "J"]), native=False
            )

        velocity, J = m.once(("moving", frame), make)(when, self.positions, self.velocities, self.p)
        return np.ravel(velocity).copy(), np.reshape(J, (d, len(m.v_names))).copy()

    @property
    def tilt(self) -> float:
        """Angle (rad, 0 to pi) between the vertical and the up axis (z, in the plane y) of the body that floats."""
        m, body = self.mechanism, self.mechanism.floating_body
        up = self.position(body.at(*(0, 0, 1) if m.spatial else (0, 1))) - self.position(body.origin)
        return float(np.arctan2(np.linalg.norm(up[:-1]), up[-1]))

    @property
    def _assembler(self) -> Assembler:
        return assembler(self.mechanism).at(self.time)

    # ---- branch -------------------------------------------------------------------------------------------------

    @unchanged
    def follow(self, driver: str, values: Sequence[float]) -> np.ndarray:
        """Positions, one row per value, while a coordinate moves through `values` on this state's branch."""
        return follow(self._assembler, self.positions, self.p, driver, values)

    @unchanged
    def travel(self, driver: str) -> Travel:
        """How far a coordinate can go on this state's branch: all the way round, or between two limits."""
        return travel(self._assembler, self.positions, self.p, driver)

    @unchanged
    def mobility(self, drivers: Sequence[str] | None = None) -> Mobility:
        """Freedom, redundant constraints and nearness of a dead centre; drivers default to joints with motors."""
        return mobility(self._assembler, self.positions, self.p, drivers)

    def __repr__(self) -> str:
        return f"State of {self.mechanism.name!r}: q = {self.q!r}, v = {self.v!r}"


def state_of(given: Any, what: str, keyframes: Collection[str] = ()) -> State[Any]:
    """A state that was given; anything else is refused with what to give instead."""
    if isinstance(given, State):
        return given
    how = f"m.keyframe({given!r})" if isinstance(given, str) and given in keyframes else "m.assemble(...)"
    of_run = "; of a run, run.end and run.last_stride are some" if hasattr(type(given), "last_stride") else ""
    raise BadValue(f"{what} is {given!r}; give a State, as {how} returns it{of_run}", given=given)
