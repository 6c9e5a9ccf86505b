"""Orbits: the hopper's family with its folds, BOLT's orbit from a rough guess, and what exact derivatives cost."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import saltus as sl
from bench import Disagreement, Row, best

TITLE = "Periodic orbits: search, multipliers, families"

TOLERANCE = 1e-11


def family() -> list[Row]:
    """The whole mu = 0.8 family of the constrained hopper, flight times 0.02 to 1 s, from one orbit, all compiled."""
    hopper = sl.zoo.hopper(coordinates=4)
    gait = sl.find_orbit(hopper, hopper.keyframes["takeoff"])
    sl.orbits.follow(gait, "D_G", to=-0.038)
    start = time.perf_counter()
    found = sl.orbits.follow(gait, "D_G", to=(-0.2, 0.0), bounds={"time in flight": (0.02, 1.0)})
    seconds = time.perf_counter() - start
    folds = len(found.of_kind("fold"))
    if folds != 8:
        raise Disagreement(f"the family has {folds} folds, 8 are known")
    return [Row.at_most(f"hopper family, {len(found)} orbits, 8 folds located", seconds, 10, " s")]


def bolt() -> list[Row]:
    """BOLT's gait with exact multipliers, from the state it is dropped with."""
    system = sl.zoo.bolt()

    def find() -> sl.Orbit:
        return sl.find_orbit(system, system.keyframes["drop"], control=system.controls["run"])

    orbit = find()
    rows = [Row.at_most("BOLT orbit and multipliers from a rough guess", best(find, 3), 10, " s")]
    return [*rows, _share("BOLT", orbit)]


def _share(name: str, orbit: sl.Orbit) -> Row:
    """Cost of the map with its derivative over that of the map alone."""
    shooting, point = orbit.shooting, orbit.evaluation.point
    with_columns = best(lambda: shooting.evaluate(point), 7, 3)
    plain = best(lambda: shooting.evaluate(point, derivatives=False), 7, 3)
    return Row.at_most(f"{name}: stride with exact derivative / plain stride", with_columns / plain, 15, "x")


class Peer:
    """The hopper by hand on scipy's DOP853, its monodromy by central differences."""

    m, mu, k, d_F, d_G, L0, g = 75.0, 0.8, 15000.0, 150.0, -80.0, 1.0, 9.81

    def flight(self, t: float, z: np.ndarray) -> list[float]:
        """Right-hand side in the air."""
        f = self.k * (z[0] - z[1] - self.L0) + self.d_F * (z[2] - z[3])
        return [z[2], z[3], -f / (self.mu * self.m) - self.g, f / ((1 - self.mu) * self.m) - self.g]

    def ground(self, t: float, z: np.ndarray) -> list[float]:
        """Right-hand side on the ground."""
        f = self.k * (z[0] - z[1] - self.L0) + self.d_G * (z[2] - z[3])
        return [z[2], 0.0, -f / (self.mu * self.m) - self.g, 0.0]

    def stride(self, z: np.ndarray) -> np.ndarray:
        """From lift-off to lift-off."""

        def down(t: float, z: np.ndarray) -> float:
            return z[1] if t > 1e-3 else 1.0

        def up(t: float, z: np.ndarray) -> float:
            return self.k * (z[0] - self.L0) + self.d_G * z[2] - (1 - self.mu) * self.m * self.g

        for event, sign in ((down, -1), (up, 1)):
            event.terminal, event.direction = True, sign  # type: ignore[attr-defined]
        options: dict[str, Any] = {"method": "DOP853", "rtol": TOLERANCE, "atol": TOLERANCE}
        z = solve_ivp(self.flight, (0, 5), z, events=down, **options).y[:, -1]
        z = np.array([z[0], 0.0, z[2], 0.0])
        return solve_ivp(self.ground, (0, 5), z, events=up, **options).y[:, -1]

    def matrix(self, z: np.ndarray, step: float = 1e-6) -> np.ndarray:
        """Derivative of the state at the moving end over that at the start."""
        return np.array([(self.stride(z + d) - self.stride(z - d)) / (2 * step) for d in step * np.eye(4)]).T


def differences() -> list[Row]:
    """Derivative of the hopper's stride: variational equations against differences around solve_ivp, same tolerance."""
    hopper = sl.zoo.hopper()
    orbit = sl.find_orbit(hopper, hopper.keyframes["takeoff"])
    start = orbit.start
    z = np.concatenate([start.positions, start.velocities])
    peer = Peer()
    gap = float(np.abs(peer.matrix(z) - sl.orbits.shooting_matrix(orbit)).max())
    if gap > 1e-4:
        raise Disagreement(f"the two matrices differ by {gap:.3g}")
    theirs = best(lambda: peer.matrix(z), 3)
    ours = best(lambda: sl.orbits.shooting_matrix(orbit), 7, 3)
    return [
        Row("hopper: same matrix", f"{gap:.1e}", "<= 1e-4", True),
        _share("hopper", orbit),
        Row.at_least("hopper: differences around solve_ivp / variational", theirs / ours, 50),
    ]


def run() -> list[Row]:
    """Measure all."""
    return [*family(), *differences(), *bolt()]
