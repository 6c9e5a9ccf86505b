"""Branch: a curve of orbits over one Param, its tangent, and the orbit a given way along it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from saltus.orbits.orbit import Orbit
from saltus.orbits.shooting import Evaluation, Point, Shooting, newton


class Branch:
    """Orbits near one of them as a curve. Arclength counts states as they are and the Param in units of `span`."""

    def __init__(self, orbit: Orbit, shooting: Shooting, param: str, span: float) -> None:
        self.first, self.shooting, self.param = orbit, shooting, param
        self.weights = np.ones(len(shooting.vector(orbit.evaluation.point)))
        self.weights[-1] = 1 / span
        self.start = shooting.evaluate(orbit.evaluation.point)

    def orbit(self, evaluation: Evaluation) -> Orbit:
        """Orbit of a point on the branch."""
        return Orbit(self.first.system, self.first.control, self.shooting, evaluation)

    def value(self, evaluation: Evaluation) -> float:
        """Value of the Param."""
        return float(evaluation.point.theta[self.shooting.free[-1]])

    def tangent(self, e: Evaluation, along: np.ndarray | None) -> np.ndarray:
        """Unit tangent in weighted coordinates, oriented like `along`."""
        null = np.linalg.svd(e.jacobian)[2][-1]
        tau = self.weights * (e.lift @ null)
        tau /= np.linalg.norm(tau)
        return -tau if along is not None and tau @ along < 0 else tau

    def corrected(self, e: Evaluation, tau: np.ndarray, ds: float, history: list[float] | None = None) -> Evaluation:
        """Point of the branch in the plane at distance ds along the tangent."""
        guess = self.shooting.moved(e.point, ds * tau / self.weights)
        aim = self.shooting.vector(e.point) + ds * tau / self.weights

        def plane(point: Point, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            gap = self.weights * (self.shooting.vector(point) - aim)
            return np.array([tau @ gap]), ((tau * self.weights) @ lift)[None, :]

        return newton(self.shooting, guess, plane, steps=8, halvings=2, history=history)

    def at_value(self, e: Evaluation, value: float) -> Evaluation:
        """Orbit with the Param at a value, near a point of the branch."""

        def fixed(point: Point, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return np.array([point.theta[self.shooting.free[-1]] - value]), lift[-1][None, :]

        return newton(self.shooting, e.point, fixed, steps=12)


def root(function: Callable[[float], float], ds: float, xtol: float) -> float:
    """Arclength between 0 and ds at which a function changes its sign."""
    from scipy.optimize import brentq  # loads slowly, and only families need it

    return float(brentq(function, 0.0, ds, xtol=xtol, rtol=4e-15, maxiter=60))
