"""The hopper's periodic orbits in closed form: Zana, Bodor, Bencsik and Zelei (2018), sec. 4.1, without integrating.

Flight is a parabola of the centre of mass and a damped oscillation of the distance (eqs. 43 to 50), the ground
phase a linear oscillator (eqs. 51, 52); what remains are algebraic equations (eqs. 56 to 61).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, root

GRAVITY = 9.81
START = (0.298898, -80.0, 1.0191, 1.7403, 0.24934)  # t_F, d_G, z_U, v_U, t_G of the paper's example, mu = 0.8
NEWTON = 8  # steps; the events of neighbours are near those of the orbit


@dataclass(frozen=True)
class Hopper:
    """Numbers of the machine (SI)."""

    mu: float = 0.8
    m: float = 75.0
    k: float = 15000.0
    d_F: float = 150.0
    L0: float = 1.0

    def flight(self, z: np.ndarray, t: float) -> np.ndarray:
        """State (z_U, z_L, v_U, v_L) after time t in the air."""
        upper, lower = self.mu * self.m, (1 - self.mu) * self.m
        centre, rise = (upper * z[0] + lower * z[1]) / self.m, (upper * z[2] + lower * z[3]) / self.m
        natural = math.sqrt(self.k * self.m / (upper * lower))
        decay = self.d_F * self.m / (2 * upper * lower)
        stretch, rate = _oscillated(z[0] - z[1] - self.L0, z[2] - z[3], natural, decay, t)
        centre, rise = centre + rise * t - GRAVITY * t**2 / 2, rise - GRAVITY * t
        length = stretch + self.L0
        return np.array(
            [
                centre + lower / self.m * length,
                centre - upper / self.m * length,
                rise + lower / self.m * rate,
                rise - upper / self.m * rate,
            ]
        )

    def ground(self, z_U: float, v_U: float, d_G: float, t: float) -> tuple[float, float]:
        """Position and velocity of the upper mass after time t on the ground."""
        upper = self.mu * self.m
        rest = self.L0 - upper * GRAVITY / self.k
        e, rate = _oscillated(z_U - rest, v_U, math.sqrt(self.k / upper), d_G / (2 * upper), t)
        return e + rest, rate

    def force(self, z_U: float, v_U: float, d_G: float) -> float:
        """Ground force, negative while it pushes (eq. 62)."""
        return self.k * (z_U - self.L0) + d_G * v_U - (1 - self.mu) * self.m * GRAVITY


def _oscillated(x: float, v: float, natural: float, decay: float, t: float) -> tuple[float, float]:
    """x'' + 2 decay x' + natural^2 x = 0 from (x, v)."""
    w = math.sqrt(natural**2 - decay**2)
    c, s, shrink = math.cos(w * t), math.sin(w * t), math.exp(-decay * t)
    return (shrink * (x * c + (v + decay * x) / w * s), shrink * (v * c - (natural**2 * x + decay * v) / w * s))


@dataclass(frozen=True)
class Closed:
    """A periodic orbit: times (s), start (m, m/s), D_G, the multiplier."""

    t_F: float
    t_G: float
    z_U: float
    v_U: float
    d_G: float
    D_G: float
    multiplier: float


def orbit(mu: float, t_F: float) -> Closed:
    """Periodic orbit with flight time t_F (s), reached in small steps from the paper's example."""
    t, d_G, z_U, v_U, t_G = START
    guess, share = np.array([z_U, v_U, d_G / 100, t_G]), 0.8
    steps = 1 + int(max(abs(t_F - t) / 0.01, abs(mu - share) / 0.01))
    for s in np.linspace(0, 1, steps + 1):
        hopper, time = Hopper(share + s * (mu - share)), t + s * (t_F - t)
        found = root(lambda x, h=hopper, time=time: _gaps(h, time, x), guess, method="hybr", options={"xtol": 1e-14})
        guess = found.x
    z_U, v_U, d_G, t_G = guess[0], guess[1], 100 * guess[2], guess[3]
    D_G = d_G / (2 * math.sqrt(hopper.k * hopper.m))
    return Closed(t_F, t_G, z_U, v_U, d_G, D_G, _multiplier(hopper, t_F, t_G, z_U, v_U, d_G))


def _gaps(h: Hopper, t_F: float, x: np.ndarray) -> list[float]:
    """Eqs. 58 to 61; 54 to 57 are satisfied by how it is written."""
    z_U, v_U, d_G, t_G = x[0], x[1], 100 * x[2], x[3]
    down = h.flight(np.array([z_U, 0.0, v_U, 0.0]), t_F)
    z, v = h.ground(down[0], down[2], d_G, t_G)
    return [down[1], z - z_U, v - v_U, h.force(z, v, d_G) / 1000]


def _multiplier(h: Hopper, t_F: float, t_G: float, z_U: float, v_U: float, d_G: float) -> float:
    """Derivative of the return map along lift-off states, which lie on force = 0, by differences of order four."""

    def back(change: float) -> float:
        """Speed at the next lift-off when this one is `change` faster along the section."""
        start = np.array([z_U - d_G / h.k * change, 0.0, v_U + change, 0.0])
        down_at = t_F
        for _ in range(NEWTON):
            down = h.flight(start, down_at)
            down_at -= down[1] / down[3]
        down, up_at = h.flight(start, down_at), t_G
        for _ in range(NEWTON):
            z, v = h.ground(down[0], down[2], d_G, up_at)
            rate = -(h.k * (z - h.L0) + d_G * v) / (h.mu * h.m) - GRAVITY
            up_at -= h.force(z, v, d_G) / (h.k * v + d_G * rate)
        return h.ground(down[0], down[2], d_G, up_at)[1]

    step = 1e-3 * v_U
    return (8 * (back(step) - back(-step)) - (back(2 * step) - back(-2 * step))) / (12 * step)


def ends(mu: float) -> dict[str, float]:
    """What the family goes to as the flight vanishes (extrapolated linearly from 1 and 2 ms) and as it becomes endless.

    Towards the latter the multiplier goes as 1 - c / t_F: extrapolated from 5 and 10 s. `kept` is T_a / T at touchdown.
    """
    short, shorter, long, longer = (orbit(mu, t) for t in (2e-3, 1e-3, 5.0, 10.0))
    down = Hopper(mu).flight(np.array([longer.z_U, 0.0, longer.v_U, 0.0]), longer.t_F)
    upper, lower = mu * down[2] ** 2, (1 - mu) * down[3] ** 2
    return {
        "ground_time_without_flight": 2 * shorter.t_G - short.t_G,
        "multiplier_without_flight": 2 * shorter.multiplier - short.multiplier,
        "multiplier_of_endless_flight": 2 * longer.multiplier - long.multiplier,
        "kept_after_long_flight": float(upper / (upper + lower)),
    }


def limit(mu: float) -> float:
    """D_G towards which the family goes as the flight becomes endless.

    The oscillation has died out at touchdown and gravity does not matter any more: both masses land at speed V, the
    ground phase is an oscillator from (0, -V), lift-off is where its acceleration vanishes, and the centre of mass
    leaves at V if the upper mass has the speed V / mu there.
    """
    upper, k = mu * 75.0, 15000.0
    natural = math.sqrt(k / upper)

    def gap(xi: float) -> float:
        """Speed at lift-off over that needed, minus one, for the damping ratio xi < 0 of the ground phase."""
        w = math.sqrt(1 - xi**2)
        # acceleration of exp(-xi t) sin(w t) vanishes at tan(w t) = 2 xi w / (2 xi^2 - 1)
        turn = math.atan2(2 * xi * w, 2 * xi**2 - 1) % (2 * math.pi)
        turn = turn if turn > math.pi / 2 else turn + math.pi
        _, rate = _oscillated(0.0, -1.0, natural, xi * natural, turn / (w * natural))
        return mu * rate - 1

    xi = float(brentq(gap, -0.5, -1e-6, xtol=1e-15))
    return xi * natural * upper / math.sqrt(k * 75.0)
