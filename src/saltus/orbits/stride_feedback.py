"""Feedback once per stride: discrete LQR on the Poincare map, with Params as inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.errors import BadValue, NoOrbit
from saltus.model.contents import unchanged
from saltus.orbits.basins import Returns
from saltus.orbits.orbit import Orbit
from saltus.orbits.section import Section
from saltus.orbits.shooting import Shooting


@dataclass(frozen=True, eq=False)
class Feedback:
    """u = u0 - K y once per stride: y the deviation just after the event, in the columns of `basis`, u Params.

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

    def run(self, push: Mapping[str, float], strides: int = 10, closed: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Distance from the gait and inputs, stride by stride, after a push (velocities by name at the start)."""
        returns = Returns(self.orbit)
        theta0 = self.orbit.evaluation.point.theta
        m = self.orbit.system.mechanism
        places = [list(m.params).index(n) for n in self.inputs]
        inverse = np.linalg.pinv(self.basis)
        at = returns.pushed({}, push)
        distances, inputs = [returns.distance(at)], []
        for _ in range(strides):
            theta = theta0.copy()
            if closed:
                deviation = inverse @ returns.shooting.sameness.difference(at, returns.home)
                theta[places] -= self.gain @ deviation
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
    weights = np.ones(len(names)) if input_weights is None else np.asarray(input_weights, float)
    if len(weights) != len(names) or not (weights > 0).all() or not state_weight > 0:
        raise BadValue("give one positive weight an input and a positive state_weight", given=list(weights))
    if len(orbit.passages) > 1:
        raise BadValue("feedback needs an orbit found by single shooting; find it again without multiple=True")
    known = orbit.shooting.with_free(names, {})
    theta, first = orbit.evaluation.point.theta, known.sections[0].crossing
    section = Section(known.stride, first, first.after if first else orbit.node, known.relabel, theta, guarded=False)
    parts: Any = (known.events, known.sameness, known.relabel, known.period, {}, known.step)
    shooting = Shooting(known.stride, [section], *parts)
    e = shooting.evaluate(orbit.evaluation.point)
    A, B = e.section_map, e.by_param
    k = len(A)
    from scipy.linalg import LinAlgError, solve_discrete_are  # load slowly, and only this needs them

    try:
        P = solve_discrete_are(A, B, state_weight * np.eye(k), np.diag(weights))
    except (LinAlgError, ValueError) as problem:
        raise NoOrbit(
            f"the inputs {', '.join(names)} cannot stabilise this gait (multipliers "
            f"{', '.join(f'{m:.4g}' for m in orbit.multipliers)}): {problem}; choose others",
            history=[],
            best=orbit.start,
        ) from problem
    gain = np.linalg.solve(np.diag(weights) + B.T @ P @ B, B.T @ P @ A)
    rows = shooting.sameness.rows
    return Feedback(orbit, names, A, B, gain, e.lift[rows, :k])
