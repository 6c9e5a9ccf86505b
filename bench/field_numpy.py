"""The hand port of the paper's equations (SPF) in NumPy, with scipy's integrators."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bench import best, peers
from bench.field import Motion, Setting, by_scipy

NAME, MODULE, PACKAGES, TOLERANCE = "NumPy hand port", "numpy", ("numpy", "scipy"), 1e-8


def swing(method: str, tolerance: float, q: np.ndarray, v: np.ndarray, until: float, samples: int) -> Motion:
    """State (q1 ... q5, rate of q1)."""
    port = peers.HandPort(fixed=True)

    def rhs(t: float, x: np.ndarray) -> np.ndarray:
        rates, w_dot, _ = port.evaluate(x[:5], x[5:], 0.0)
        return np.concatenate([rates, w_dot])

    def velocities(x: np.ndarray) -> np.ndarray:
        return rhs(0.0, x)[:5]

    return by_scipy(rhs, np.append(q, v[0]), method, tolerance, until, samples, velocities)


def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One evaluation."""
    return peers.HandPort(fixed=True).evaluate(q, v[:1], 0.0)[2]


def evaluation(q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]]:
    """All velocities and accelerations."""
    port = peers.HandPort(fixed=True)
    return "SPF with numpy.linalg", lambda: best(lambda: port.evaluate(q, v[:1], 0.0), 1, 200, time.process_time)


def settings() -> Sequence[Setting]:
    """RK45 at scipy's own tolerances is what a script starts with."""
    out = [Setting("RK45 1e-3, as it comes", partial(swing, "RK45", 1e-3), default=True)]
    for method, tolerance in (("LSODA", 1e-7), ("LSODA", 3e-9), ("DOP853", 1e-7)):
        out.append(Setting(f"{method} {tolerance:g}", partial(swing, method, tolerance)))
    return out
