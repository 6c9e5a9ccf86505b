"""The BOLT leg in numbers, its hand port in NumPy, and what any motion of it is measured by."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, field

import numpy as np

# Liu and Ben-Tzvi (2020), Tables 2 and 3.
LC, L1, L2, L3, L4, L5 = 0.080, 0.020, 0.105, 0.190, 0.210, 0.303
LS, LF, LT, THETA = 0.052, 0.080, 0.050, math.radians(41.41)
MB, M1, M2, M3, M4, M5 = 2.5639, 2.5639, 0.0802, 0.0921, 1.1163, 0.9754
I1, I2, I3, I4, I5 = 2.51e-5, 1.53e-4, 4.18e-4, 4.8e-3, 3.9e-3
LCM2, LCM3, LCM4, LCM5 = 0.0661, 0.1051, 0.0574, 0.0983
G = 9.81
HIP = (LC * math.cos(THETA), LC * math.sin(THETA))
LINKS = {
    "crank": (M1, I1, 0.0),
    "hfe": (M2, I2, LCM2),
    "kfe": (M3, I3, LCM3),
    "femur": (M4, I4, LCM4),
    "tibia": (M5, I5, LCM5),
}

# Order of Appendix A (q1, x, y, q2, q3, q4, q5) in ours (x, y, q1 ... q5), and back.
TO_PAPER = [2, 0, 1, 3, 4, 5, 6]
FROM_PAPER = [1, 2, 0, 3, 4, 5, 6]


def installed(name: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(name) is not None


# ---- NumPy, as ported from the paper's MATLAB ---------------------------------------------------------------------


@dataclass
class HandPort:
    """Appendices A and B entry by entry (misprints corrected), solved with numpy.linalg as app. B says.

    Coordinates are (q1, x, y, q2, q3, q4, q5); `stance` pins the foot at `anchor`, `fixed` holds x and y.
    """

    stance: bool = False
    fixed: bool = False
    epsilon: float = 1e-3
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def __post_init__(self) -> None:
        every = [0, 3, 4, 5, 6] if self.fixed else list(range(7))
        independent = [0] if self.fixed or self.stance else [0, 1, 2]
        self.angles, self.bends = ([0, 1, 2, 3, 4], [1, 2, 4]) if self.fixed else ([0, 3, 4, 5, 6], [3, 4, 6])
        self.keep = np.ix_(every, every)
        self.every = every
        self.independent = [every.index(i) for i in independent]
        self.dependent = [i for i in range(len(every)) if i not in self.independent]
        self.n, self.k = len(every), len(independent)
        self.selector = np.eye(self.n)[self.independent]
        self.right = np.vstack([np.zeros((self.n - self.k, self.k)), np.eye(self.k)])

    def sines(self, q: np.ndarray) -> tuple[float, ...]:
        """Cosines and sines of the absolute angles q1, q1+q2, q1+q2+q3, q4, q4+q5."""
        q1, q2, q3, q4, q5 = q[self.angles]
        return (
            np.cos(q1),
            np.sin(q1),
            np.cos(q1 + q2),
            np.sin(q1 + q2),
            np.cos(q1 + q2 + q3),
            np.sin(q1 + q2 + q3),
            np.cos(q4),
            np.sin(q4),
            np.cos(q4 + q5),
            np.sin(q4 + q5),
        )

    def dynamics(self, q: np.ndarray, v: np.ndarray, sines: tuple[float, ...]) -> tuple[np.ndarray, ...]:
        """H', C', g' and the derivative of the Jacobian of Phi."""
        c1, s1, c12, s12, c123, s123, c4, s4, c45, s45 = sines
        d1, d2, d3, d4, d5 = v[self.angles]
        q2, q3, q5 = q[self.bends]
        c2, s2, c3, s3, c5, s5 = np.cos(q2), np.sin(q2), np.cos(q3), np.sin(q3), np.cos(q5), np.sin(q5)
        c23, s23 = np.cos(q2 + q3), np.sin(q2 + q3)

        H = np.zeros((7, 7))
        H[0, 0] = (
            I1
            + I2
            + I3
            + L1**2 * M2
            + LCM2**2 * M2
            + LCM3**2 * M3
            + LS**2 * M3
            + L1**2 * M3
            + 2 * L1 * LCM3 * M3 * c23
            + 2 * L1 * LCM2 * M2 * c2
            + 2 * L1 * LS * M3 * c2
            + 2 * LCM3 * LS * M3 * c3
        )
        H[0, 1] = -M3 * (LS * s12 + L1 * s1 + LCM3 * s123) - M2 * (LCM2 * s12 + L1 * s1)
        H[0, 2] = M3 * (LS * c12 + L1 * c1 + LCM3 * c123) + M2 * (LCM2 * c12 + L1 * c1)
        H[0, 3] = (
            I2
            + I3
            + LCM2**2 * M2
            + LCM3**2 * M3
            + LS**2 * M3
            + L1 * LCM3 * M3 * c23
            + L1 * LCM2 * M2 * c2
            + L1 * LS * M3 * c2
            + 2 * LCM3 * LS * M3 * c3
        )
        H[0, 4] = I3 + LCM3**2 * M3 + L1 * LCM3 * M3 * c23 + LCM3 * LS * M3 * c3
        H[1, 1] = M1 + M2 + M3 + M4 + M5 + MB
        H[1, 3] = -M3 * (LS * s12 + LCM3 * s123) - LCM2 * M2 * s12
        H[1, 4] = -LCM3 * M3 * s123
        H[1, 5] = -M5 * (LCM5 * s45 + L4 * s4) - LCM4 * M4 * s4
        H[1, 6] = -LCM5 * M5 * s45
        H[2, 2] = M1 + M2 + M3 + M4 + M5 + MB
        H[2, 3] = M3 * (LS * c12 + LCM3 * c123) + LCM2 * M2 * c12
        H[2, 4] = LCM3 * M3 * c123
        H[2, 5] = M5 * (LCM5 * c45 + L4 * c4) + LCM4 * M4 * c4
        H[2, 6] = LCM5 * M5 * c45
        H[3, 3] = I2 + I3 + LCM2**2 * M2 + LCM3**2 * M3 + LS**2 * M3 + 2 * LCM3 * LS * M3 * c3
        H[3, 4] = I3 + LCM3**2 * M3 + LCM3 * LS * M3 * c3
        H[4, 4] = I3 + LCM3**2 * M3
        H[5, 5] = I4 + I5 + L4**2 * M5 + LCM4**2 * M4 + LCM5**2 * M5 + 2 * L4 * LCM5 * M5 * c5
        H[5, 6] = I5 + LCM5**2 * M5 + L4 * LCM5 * M5 * c5
        H[6, 6] = I5 + LCM5**2 * M5
        H = H + np.triu(H, 1).T

        C = np.zeros((7, 7))
        C[0, 0] = -d3 * (L1 * LCM3 * M3 * s23 + LCM3 * LS * M3 * s3) - d2 * (
            L1 * LCM3 * M3 * s23 + L1 * LCM2 * M2 * s2 + L1 * LS * M3 * s2
        )
        C[0, 3] = -d3 * (L1 * LCM3 * M3 * s23 + LCM3 * LS * M3 * s3) - (d1 + d2) * (
            L1 * LCM3 * M3 * s23 + L1 * LCM2 * M2 * s2 + L1 * LS * M3 * s2
        )
        C[0, 4] = -(d1 + d2 + d3) * (L1 * LCM3 * M3 * s23 + LCM3 * LS * M3 * s3)
        C[1, 0] = (
            -d1 * (M3 * (LS * c12 + L1 * c1 + LCM3 * c123) + M2 * (LCM2 * c12 + L1 * c1))
            - d2 * (M3 * (LS * c12 + LCM3 * c123) + LCM2 * M2 * c12)
            - d3 * LCM3 * M3 * c123
        )
        C[1, 3] = -(d1 + d2) * (M3 * (LS * c12 + LCM3 * c123) + LCM2 * M2 * c12) - d3 * LCM3 * M3 * c123
        C[1, 4] = -(d1 + d2 + d3) * LCM3 * M3 * c123
        C[1, 5] = -d4 * (M5 * (LCM5 * c45 + L4 * c4) + LCM4 * M4 * c4) - d5 * LCM5 * M5 * c45
        C[1, 6] = -(d4 + d5) * LCM5 * M5 * c45
        C[2, 0] = (
            -d1 * (M3 * (LS * s12 + L1 * s1 + LCM3 * s123) + M2 * (LCM2 * s12 + L1 * s1))
            - d2 * (M3 * (LS * s12 + LCM3 * s123) + LCM2 * M2 * s12)
            - d3 * LCM3 * M3 * s123
        )
        C[2, 3] = -(d1 + d2) * (M3 * (LS * s12 + LCM3 * s123) + LCM2 * M2 * s12) - d3 * LCM3 * M3 * s123
        C[2, 4] = -(d1 + d2 + d3) * LCM3 * M3 * s123
        C[2, 5] = -d4 * (M5 * (LCM5 * s45 + L4 * s4) + LCM4 * M4 * s4) - d5 * LCM5 * M5 * s45
        C[2, 6] = -(d4 + d5) * LCM5 * M5 * s45
        C[3, 0] = d1 * (L1 * LCM3 * M3 * s23 + L1 * LCM2 * M2 * s2 + L1 * LS * M3 * s2) - d3 * LCM3 * LS * M3 * s3
        C[3, 3] = -d3 * LCM3 * LS * M3 * s3
        C[3, 4] = -(d1 + d2 + d3) * LCM3 * LS * M3 * s3
        C[4, 0] = d1 * (L1 * LCM3 * M3 * s23 + LCM3 * LS * M3 * s3) + d2 * LCM3 * LS * M3 * s3
        C[4, 3] = (d1 + d2) * LCM3 * LS * M3 * s3
        C[5, 5] = -d5 * L4 * LCM5 * M5 * s5
        C[5, 6] = -(d4 + d5) * L4 * LCM5 * M5 * s5
        C[6, 5] = d4 * L4 * LCM5 * M5 * s5

        g = np.array(
            [
                G * M3 * (LS * c12 + L1 * c1 + LCM3 * c123) + G * M2 * (LCM2 * c12 + L1 * c1),
                0.0,
                G * (M1 + M2 + M3 + M4 + M5 + MB),
                G * M3 * (LS * c12 + LCM3 * c123) + G * M2 * LCM2 * c12,
                G * LCM3 * M3 * c123,
                G * M5 * (LCM5 * c45 + L4 * c4) + G * LCM4 * M4 * c4,
                G * LCM5 * M5 * c45,
            ]
        )

        J_dot = np.zeros((6 if self.stance else 4, 7))
        J_dot[0, 0], J_dot[0, 3] = -d1 * L1 * c1 - L2 * c12 * (d1 + d2), -L2 * c12 * (d1 + d2)
        J_dot[0, 5] = d4 * LF * c4
        J_dot[1, 0], J_dot[1, 3] = -d1 * L1 * s1 - L2 * s12 * (d1 + d2), -L2 * s12 * (d1 + d2)
        J_dot[1, 5] = d4 * LF * s4
        J_dot[2, 0] = -d1 * L1 * c1 - L3 * c123 * (d1 + d2 + d3) - LS * c12 * (d1 + d2)
        J_dot[2, 3] = -L3 * c123 * (d1 + d2 + d3) - LS * c12 * (d1 + d2)
        J_dot[2, 4] = -L3 * c123 * (d1 + d2 + d3)
        J_dot[2, 5], J_dot[2, 6] = d4 * L4 * c4 + LT * c45 * (d4 + d5), LT * c45 * (d4 + d5)
        J_dot[3, 0] = -d1 * L1 * s1 - L3 * s123 * (d1 + d2 + d3) - LS * s12 * (d1 + d2)
        J_dot[3, 3] = -L3 * s123 * (d1 + d2 + d3) - LS * s12 * (d1 + d2)
        J_dot[3, 4] = -L3 * s123 * (d1 + d2 + d3)
        J_dot[3, 5], J_dot[3, 6] = d4 * L4 * s4 + LT * s45 * (d4 + d5), LT * s45 * (d4 + d5)
        if self.stance:
            J_dot[4, 5], J_dot[4, 6] = -d4 * L4 * c4 - L5 * c45 * (d4 + d5), -L5 * c45 * (d4 + d5)
            J_dot[5, 5], J_dot[5, 6] = -d4 * L4 * s4 - L5 * s45 * (d4 + d5), -L5 * s45 * (d4 + d5)
        if self.fixed:
            return H[self.keep], C[self.keep], g[self.every], J_dot[:, self.every]
        return H, C, g, J_dot

    def loops(self, q: np.ndarray, sines: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Phi and its Jacobian, the foot below the loops."""
        c1, s1, c12, s12, c123, s123, c4, s4, c45, s45 = sines
        rows = 6 if self.stance else 4
        phi, J = np.zeros(rows), np.zeros((rows, 7))
        phi[0] = L2 * c12 + L1 * c1 - LF * c4 - HIP[0]
        phi[1] = L2 * s12 + L1 * s1 - LF * s4 - HIP[1]
        phi[2] = LS * c12 - LT * c45 + L1 * c1 - L4 * c4 - HIP[0] + L3 * c123
        phi[3] = LS * s12 - LT * s45 + L1 * s1 - L4 * s4 - HIP[1] + L3 * s123
        J[0, 0], J[0, 3], J[0, 5] = -L2 * s12 - L1 * s1, -L2 * s12, LF * s4
        J[1, 0], J[1, 3], J[1, 5] = L2 * c12 + L1 * c1, L2 * c12, -LF * c4
        J[2, 0], J[2, 3], J[2, 4] = -LS * s12 - L1 * s1 - L3 * s123, -LS * s12 - L3 * s123, -L3 * s123
        J[2, 5], J[2, 6] = LT * s45 + L4 * s4, LT * s45
        J[3, 0], J[3, 3], J[3, 4] = LS * c12 + L1 * c1 + L3 * c123, LS * c12 + L3 * c123, L3 * c123
        J[3, 5], J[3, 6] = -LT * c45 - L4 * c4, -LT * c45
        if self.stance:
            x, y = q[1:3]
            phi[4] = x + HIP[0] + L4 * c4 + L5 * c45 - self.anchor[0]
            phi[5] = y + HIP[1] + L4 * s4 + L5 * s45 - self.anchor[1]
            J[4, 1] = J[5, 2] = 1.0
            J[4, 5], J[4, 6] = -L4 * s4 - L5 * s45, -L5 * s45
            J[5, 5], J[5, 6] = L4 * c4 + L5 * c45, L5 * c45
        return (phi, J[:, self.every]) if self.fixed else (phi, J)

    def velocities(self, phi: np.ndarray, J: np.ndarray, w: np.ndarray) -> np.ndarray:
        """All velocities: z' = -J_z^-1 (Phi / epsilon + J_q q')."""
        v = np.empty(self.n)
        v[self.independent] = w
        v[self.dependent] = -np.linalg.solve(J[:, self.dependent], phi / self.epsilon + J[:, self.independent] @ w)
        return v

    def evaluate(self, q: np.ndarray, w: np.ndarray, torque: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All velocities, accelerations of the independent coordinates and of all."""
        sines = self.sines(q)
        phi, J = self.loops(q, sines)
        v = self.velocities(phi, J, w)
        H_, C_, g_, J_dot = self.dynamics(q, v, sines)
        gamma = np.vstack([J, self.selector])
        gamma_dot = np.vstack([J_dot, np.zeros((self.k, self.n))])
        rho = np.linalg.solve(gamma, self.right)
        rho_dot = -np.linalg.solve(gamma, gamma_dot @ rho)
        H = rho.T @ H_ @ rho
        C = rho.T @ C_ @ rho + rho.T @ H_ @ rho_dot
        g = rho.T @ g_
        effort = np.zeros(self.n)
        effort[0] = torque
        w_dot = np.linalg.solve(H, rho.T @ effort - C @ w - g)
        a = rho @ w_dot + rho_dot @ w
        self.load = H_ @ a + C_ @ (rho @ w) + g_ - effort  # J' f, from which the ground force follows
        self.J = J
        return v, w_dot, a

    def reactions(self) -> np.ndarray:
        """Constraint forces of the last evaluation."""
        return np.linalg.solve(self.J[:, self.dependent].T, self.load[self.dependent])


# ---- measures -------------------------------------------------------------------------------------------------------


def gap(q: np.ndarray) -> float:
    """Largest loop error of positions (q1 ... q5), m."""
    q1, q2, q3, q4, q5 = q[-5:]
    a, b, c, d = q1 + q2, q1 + q2 + q3, q4, q4 + q5
    B = (
        L2 * math.cos(a) + L1 * math.cos(q1) - LF * math.cos(c) - HIP[0],
        L2 * math.sin(a) + L1 * math.sin(q1) - LF * math.sin(c) - HIP[1],
    )
    E = (
        LS * math.cos(a) - LT * math.cos(d) + L1 * math.cos(q1) - L4 * math.cos(c) - HIP[0] + L3 * math.cos(b),
        LS * math.sin(a) - LT * math.sin(d) + L1 * math.sin(q1) - L4 * math.sin(c) - HIP[1] + L3 * math.sin(b),
    )
    return max(map(abs, (*B, *E)))


def foot(q: np.ndarray) -> np.ndarray:
    """Foot relative to the body, m."""
    q4, q5 = q[-2:]
    x, y = L4 * math.cos(q4) + L5 * math.cos(q4 + q5), L4 * math.sin(q4) + L5 * math.sin(q4 + q5)
    return np.array([HIP[0] + x, HIP[1] + y])


def energy(q: np.ndarray, v: np.ndarray) -> float:
    """Kinetic and potential energy of the leg on a fixed base, J."""
    port = HandPort(fixed=True)
    H, *_ = port.dynamics(q[-5:], v[-5:], port.sines(q[-5:]))
    q1, q2, q3, q4, q5 = q[-5:]
    heights = (
        M2 * (L1 * math.sin(q1) + LCM2 * math.sin(q1 + q2))
        + M3 * (L1 * math.sin(q1) + LS * math.sin(q1 + q2) + LCM3 * math.sin(q1 + q2 + q3))
        + M4 * (HIP[1] + LCM4 * math.sin(q4))
        + M5 * (HIP[1] + L4 * math.sin(q4) + LCM5 * math.sin(q4 + q5))
    )
    return float(v[-5:] @ H @ v[-5:] / 2 + G * heights)
