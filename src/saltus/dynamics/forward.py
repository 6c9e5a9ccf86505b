"""Forward dynamics of a state: its accelerations, energies, and the forces in its joints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.balance import Instant, Load, Solved, balance_of, load
from saltus.dynamics.equations import Equations
from saltus.errors import BadValue, UnknownName
from saltus.model.assembly import State, state_of
from saltus.model.contents import unchanged
from saltus.model.symbols import Named
from saltus.once import cached_property


@unchanged
def forward(state: State, efforts: Mapping[str, float] | None = None, *, t: float | None = None) -> Forward:
    """What a state does next under the efforts (Nm, N) of its inputs; None leaves all inputs at zero.

    It is asked at the time of the state, or at `t` (s): motions may be given in time. Loops hold; contacts of a domain
    are not part of a machine and do not act here.
    """
    m = state_of(state, "forward: what moves").mechanism
    given = {} if efforts is None else dict(efforts)
    for name in given:
        if name not in m.inputs:
            raise UnknownName("input", name, m.inputs)
    missing = [name for name in m.inputs if name not in given]
    if efforts is not None and missing:
        raise BadValue(f"efforts leaves out {', '.join(missing)}; give every input of {m.name!r}", missing=missing)
    u = np.array([float(given.get(name, 0.0)) for name in m.inputs])
    if not np.isfinite(u).all():
        raise BadValue(f"efforts {given} are not all finite numbers", given=given)
    return Forward(state, u, state.time if t is None else t)


class Forward:
    """A state with the efforts that act on it: accelerations, energies, forces, each computed when it is asked for."""

    def __init__(self, state: State, u: np.ndarray, t: float) -> None:
        self.state, self.t, self._u = state, t, u
        z = np.zeros(0) if state.z is None else np.asarray(state.z, float)
        self._balance = balance_of(state.mechanism)
        self._z = z if len(z) else np.zeros(self._balance.e.z.numel())

    @cached_property
    def _instant(self) -> Instant:
        s = self.state
        out = self._balance.at(self.t, s.positions, s.velocities, self._u, s.p, self._z)
        out.check()
        return out

    @cached_property
    def _solved(self) -> Solved:
        return self._instant.solve()

    # ---- motion -------------------------------------------------------------------------------------------------

    @property
    def a(self) -> Named:
        """Accelerations by name (rad/s2, m/s2)."""
        names = self.state.mechanism.v_names
        return Named(names, self._solved.a[: len(names)], "acceleration")

    def acceleration(self, point: Any) -> np.ndarray:
        """World acceleration of a point (m/s2)."""
        i = self._instant
        return np.ravel(self._balance.accelerates(point)(i.t, i.q, i.v, self._solved.a, i.p)).copy()

    # ---- energy -------------------------------------------------------------------------------------------------

    @property
    def kinetic_energy(self) -> float:
        """Kinetic energy (J)."""
        return self._energies[0]

    @property
    def potential_energy(self) -> float:
        """Energy of gravity and springs (J); zero height is the origin, zero stretch the rest length."""
        return self._energies[1]

    @property
    def energy(self) -> float:
        """Kinetic and potential energy (J)."""
        return sum(self._energies)

    @cached_property
    def _energies(self) -> tuple[float, float]:
        T, V, _ = self._motion
        return float(np.ravel(T)[0]), float(np.ravel(V)[0])

    @property
    def momentum(self) -> np.ndarray:
        """Linear (kg m/s) and angular momentum about the origin of the world (kg m2/s), world axes: six numbers."""
        return np.ravel(self._motion[2]).copy()

    @cached_property
    def _motion(self) -> Any:
        m, s = self.state.mechanism, self.state
        kernel = m.once(
            "energies",
            lambda: Kernel(Equations(m).function("kinetic_energy", "potential_energy", "momentum"), native=False),
        )
        return kernel(self.t, s.positions, s.velocities, self._u, s.p, *([self._z] if len(self._z) else []))

    # ---- forces -------------------------------------------------------------------------------------------------

    def load(self, joint: str) -> Load:
        """Force and moment that a joint transmits from its first link to its second."""
        return load(self.state.mechanism, joint, self._wrenches)

    def force(self, joint: str) -> float:
        """Size of the force in a joint (N)."""
        return float(self.load(joint).size)

    @cached_property
    def _wrenches(self) -> np.ndarray:
        return self._instant.transmitted(self._solved)

    @property
    def motion_efforts(self) -> Named:
        """Effort that each motion given in time takes (Nm, N), by name."""
        names, rows = self._balance.given
        return Named(names, self._solved.f[rows], "motion")

    def __repr__(self) -> str:
        return f"Forward({self.state.mechanism.name!r}: a = {self.a!r}, energy = {self.energy:.6g} J)"
