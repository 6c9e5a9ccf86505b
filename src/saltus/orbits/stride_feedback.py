"""Feedback once per stride: discrete LQR on the Poincare map, with Params as inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, NoOrbit
from saltus.model.assembly import State
from saltus.model.contents import unchanged
from saltus.orbits.basins import Returns
from saltus.orbits.orbit import Orbit
from saltus.orbits.section import Section
from saltus.orbits.shooting import Shooting
from saltus.orbits.stride import Moment


@dataclass(frozen=True, eq=False)
class Feedback:
    """u = u0 - K y a stride: y the deviation just after the event, in the columns of `basis`, u Params.

    `gain` is K; `A` and `B` are the derivatives of the return map with respect to state and inputs.
    """

    orbit: Orbit
    inputs: tuple[str, ...]
    A: np.ndarray
    B: np.ndarray
    gain: np.ndarray
    basis: np.ndarray

    @property
    def multipliers(self) -> np.ndarray:
        """Multipliers of the closed loop, largest magnitude first."""
        values = np.linalg.eigvals(self.A - self.B @ self.gain)
        return values[np.argsort(-np.abs(values))]

    def weighed(self, input_weights: Sequence[float], state_weight: float = 1.0) -> Feedback:
        """The same gait and inputs with other weights, see `stabilise`."""
        _positive(self.inputs, input_weights, state_weight)
        from scipy.linalg import LinAlgError, solve_discrete_are  # load slowly, and only this needs them

        A, B, R = self.A, self.B, np.diag(np.asarray(input_weights, float))
        try:
            P = solve_discrete_are(A, B, state_weight * np.eye(len(A)), R)
        except (LinAlgError, ValueError) as problem:
            raise NoOrbit(
                f"the inputs {', '.join(self.inputs)} cannot stabilise this gait (multipliers "
                f"{', '.join(f'{m:.4g}' for m in self.orbit.multipliers)}): {problem}; choose others",
                history=[],
                best=self.orbit.start,
            ) from problem
        return replace(self, gain=np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))

    def changes(self, state: State, *, mirrored: bool = False) -> np.ndarray:
        """-K y: by how much the inputs change for the stride that begins with a state.

        Of half strides with left for right every other one begins `mirrored`: then the changes are those of the mirror
        image, so that the caller turns the signs of inputs that point to a side.
        """
        home = self.orbit.node
        at = Moment(home.domain, home.t, state.positions, state.velocities)
        return self._changes(self.orbit.shooting.relabel.moment(at) if mirrored else at)

    def _changes(self, at: Moment) -> np.ndarray:
        off = self.orbit.shooting.sameness.difference(at, self.orbit.node)
        return np.asarray(-self.gain @ np.linalg.pinv(self.basis) @ off)

    def run(self, push: Mapping[str, float], strides: int = 10, closed: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Distance from the gait and inputs, stride by stride, after a push (velocities by name at the start)."""
        returns = Returns(self.orbit)
        theta0 = self.orbit.evaluation.point.theta
        m = self.orbit.system.mechanism
        places = [list(m.params).index(n) for n in self.inputs]
        at = returns.pushed({}, push)
        distances, inputs = [returns.distance(at)], []
        for _ in range(strides):
            theta = theta0.copy()
            if closed:
                theta[places] += self._changes(at)
            at = returns.next(at, theta)
            distances.append(returns.distance(at))
            inputs.append(theta[places])
        return np.array(distances), np.array(inputs)


@unchanged
def stabilise(
    orbit: Orbit,
    inputs: str | Sequence[str],
    *,
    state_weight: float = 1.0,
    input_weights: Sequence[float] | None = None,
) -> Feedback:
    """Discrete LQR for y' = A y + B u, minimising the sum of state_weight |y|^2 + u' R u over the strides to come.

    `inputs` are Params that may change once per stride, such as a take-off angle or an offset of the crank's speed;
    `input_weights` is the diagonal of R, one each (1 unless given).
    """
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    if not names:
        raise BadValue("give one or more Params as inputs")
    weights = [1.0] * len(names) if input_weights is None else input_weights
    _positive(names, weights, state_weight)
    if len(orbit.passages) > 1:
        raise BadValue("feedback needs an orbit found by single shooting; find it again without multiple=True")
    known = orbit.shooting.with_free(names, {})
    theta, first = orbit.evaluation.point.theta, known.sections[0].crossing
    section = Section(known.stride, first, first.after if first else orbit.node, known.relabel, theta, guarded=False)
    parts: Any = known.events, known.sameness, known.relabel, known.period, {}, known.step
    shooting = Shooting(known.stride, [section], *parts)
    e = shooting.evaluate(orbit.evaluation.point)
    A, B, rows = e.section_map, e.by_param, shooting.sameness.rows
    gain = np.zeros((len(names), len(A)))
    return Feedback(orbit, names, A, B, gain, e.lift[rows, : len(A)]).weighed(weights, state_weight)


def _positive(names: Sequence[str], weights: Sequence[float], state_weight: float) -> None:
    if len(weights) != len(names) or not all(w > 0 for w in weights) or not state_weight > 0:
        raise BadValue("give one positive weight an input and a positive state_weight", given=list(weights))
