"""Appendices A and B of Liu and Ben-Tzvi (2020), J. Mechanisms Robotics 12: every entry as printed and as corrected.

Coordinates of the paper: q_d = (q1, x, y, q2, q3, q4, q5). Entries are functions of a `State`; unlisted ones are zero.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from numpy import cos, sin

# Table 2 (optimised) and Table 3
m1, m2, m3, m4, m5, mb = 2.5639, 0.0802, 0.0921, 1.1163, 0.9754, 2.5639
I1, I2, I3, I4, I5 = 2.51e-5, 1.53e-4, 4.18e-4, 4.8e-3, 3.9e-3
lcm2, lcm3, lcm4, lcm5 = 0.0661, 0.1051, 0.0574, 0.0983
lc, l1, l2, l3, l4, l5, ls, lf, lt = 0.080, 0.020, 0.105, 0.190, 0.210, 0.303, 0.052, 0.080, 0.050
theta, g = np.radians(41.41), 9.81


class State(SimpleNamespace):
    """Angles and rates of one random state, with the sines and cosines that the entries share."""

    def __init__(self, q: np.ndarray, v: np.ndarray) -> None:
        q1, _, _, q2, q3, q4, q5 = q
        w1, _, _, w2, w3, w4, w5 = v
        sums = {"1": q1, "2": q2, "3": q3, "4": q4, "5": q5}
        sums |= {"12": q1 + q2, "123": q1 + q2 + q3, "23": q2 + q3, "45": q4 + q5}
        super().__init__(
            w1=w1,
            w2=w2,
            w3=w3,
            w4=w4,
            w5=w5,
            **{f"s{k}": sin(x) for k, x in sums.items()},
            **{f"c{k}": cos(x) for k, x in sums.items()},
        )


# ---- Appendix A as printed ------------------------------------------------------------------------------------------

H = {
    # The squares of "I" in H11 and H14 are printed so; I_cm,i and I_s are not defined, and read as I_i and I_2 here.
    (1, 1): lambda s: (
        I1
        + I2
        + I3
        + I1**2 * m2
        + I2**2 * m2
        + I3**2 * m3
        + I2**2 * m3
        + 2 * l1 * lcm3 * m3 * s.c23
        + 2 * l1 * lcm2 * m2 * s.c2
        + 2 * l1 * ls * m3 * s.c2
        + 2 * lcm3 * ls * m3 * s.c3
    ),
    (1, 2): lambda s: (
        -0.5 * (m3 * (2 * ls * s.s12 + 2 * l1 * s.s1 + 2 * lcm3 * s.s123))
        - 0.5 * (m2 * (2 * lcm2 * s.s12 + 2 * l1 * s.s1))
    ),
    (1, 3): lambda s: (
        -0.5 * (m3 * (2 * ls * s.c12 + 2 * l1 * s.c1 + 2 * lcm3 * s.c123))
        + 0.5 * (m2 * (2 * lcm2 * s.c12 + 2 * l1 * s.c1))
    ),
    (1, 4): lambda s: (
        I2
        + I3
        + I2**2 * m2
        + I3**2 * m3
        + I2**2 * m3
        + l1 * lcm3 * m3 * s.c23
        + l1 * lcm2 * m2 * s.c2
        + l1 * ls * m3 * s.c2
        + 2 * lcm3 * ls * m3 * s.c3
    ),
    (1, 5): lambda s: I3 + lcm3**2 * m3 + l1 * lcm3 * m3 * s.c23 + lcm3 * ls * m3 * s.c3,
    (2, 2): lambda s: m1 + m2 + m3 + m4 + m5 + mb,
    (2, 4): lambda s: -0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123)) - lcm2 * m2 * s.s12,
    (2, 5): lambda s: -lcm3 * m3 * s.s123,
    (2, 6): lambda s: -0.5 * (m5 * (2 * lcm5 * s.s45 + 2 * l4 * s.s4)) - lcm4 * m4 * s.s4,
    (2, 7): lambda s: -lcm5 * m5 * s.s45,
    (3, 3): lambda s: m1 + m2 + m3 + m4 + m5,
    (3, 4): lambda s: 0.5 * (m3 * (2 * ls * s.c12 + 2 * lcm3 * s.c123)) + lcm2 * m2 * s.c12,
    (3, 5): lambda s: lcm3 * m3 * s.c123 + l1 * lcm2 * m2 * s.c2,
    (3, 6): lambda s: 0.5 * (m5 * (2 * lcm5 * s.c45 + 2 * l4 * s.c4)) + lcm4 * m4 * s.c4,
    (3, 7): lambda s: lcm5 * m5 * s.c45,
    (4, 4): lambda s: I2 + I3 + lcm2**2 * m2 + lcm3**2 * m3 + ls**2 * m3 + 2 * lcm3 * ls * m3 * s.c3,
    (4, 5): lambda s: I3 + lcm3**2 * m3 + lcm3 * ls * m3 * s.c3,
    (5, 5): lambda s: I3 + lcm3**2 * m3,
    (6, 6): lambda s: I4 + I5 + l4**2 * m5 + lcm4**2 * m4 + lcm5**2 * m5 + 2 * l4 * lcm5 * m5 * s.c5,
    (6, 7): lambda s: I5 + lcm5**2 * m5 + l4 * lcm5 * m5 * s.c5,
    (7, 7): lambda s: I5 + lcm5**2 * m5,
}

C = {
    (1, 1): lambda s: (
        -s.w3 * (l1 * lcm3 * m3 * s.s23 + lcm3 * ls * m3 * s.s3)
        - s.w2 * (l1 * lcm3 * m3 * s.s23 + l1 * lcm2 * m2 * s.s2 + l1 * ls * m3 * s.s2)
    ),
    (1, 4): lambda s: (
        -s.w3 * (l1 * lcm3 * m3 * s.s23 + lcm3 * ls * m3 * s.s3)
        - s.w1 * (l1 * lcm3 * m3 * s.s23 + l1 * lcm2 * m2 * s.s2 + l1 * ls * m3 * s.s2)
        - s.w2 * (l1 * lcm3 * m3 * s.s23 + l1 * lcm2 * m2 * s.s2 + l1 * ls * m3 * s.s2)
    ),
    (1, 5): lambda s: -(s.w1 + s.w2 + s.w3) * (l1 * lcm3 * m3 * s.s23 + lcm3 * ls * m3 * s.s3),
    (2, 1): lambda s: (
        -s.w1
        * (
            0.5 * (m3 * (2 * ls * s.c12 + 2 * l1 * s.c1 + 2 * lcm3 * s.c123))
            + 0.5 * (m2 * (2 * lcm2 * s.c12 + 2 * ls * s.c1))
        )
        - s.w2 * (0.5 * (m3 * (2 * ls * s.c12 + 2 * lcm3 * s.c123)) + lcm2 * m2 * s.c12)
        - s.w3 * lcm3 * m3 * s.c123
    ),
    (2, 4): lambda s: (
        -s.w1 * (0.5 * (m3 * (2 * ls * s.c12 + 2 * lcm3 * s.c123)) + lcm2 * m2 * s.c12)
        - s.w2 * (0.5 * (m3 * (2 * ls * s.c12 + 2 * lcm3 * s.c123)) + lcm2 * m2 * s.c12)
        - s.w3 * lcm3 * m3 * s.c123
    ),
    (2, 5): lambda s: -s.w1 * lcm3 * m3 * s.c123 - s.w2 * lcm3 * m3 * s.c123 - s.w3 * lcm3 * m3 * s.c123,
    (2, 6): lambda s: (
        -s.w4 * (0.5 * (m5 * (2 * lcm5 * s.c45 + 2 * l4 * s.c4)) + lcm4 * m4 * s.c4) - s.w5 * lcm5 * m5 * s.c45
    ),
    (2, 7): lambda s: -s.w4 * lcm5 * m5 * s.c45 - s.w5 * lcm5 * m5 * s.c45,
    (3, 1): lambda s: (
        -s.w1 * (0.5 * (m3 * (2 * ls * s.s12 + 2 * l1 * s.s1 + 2 * lcm3 * s.s123)))
        + 0.5 * (m2 * (2 * lcm2 * s.s12 + 2 * l1 * s.s1))
        - s.w2 * (0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123)) + lcm2 * m2 * s.s12)
        - s.w3 * lcm3 * m3 * s.s123
    ),
    # One bracket is missing in C34 and in C41; read as closing at the end.
    (3, 4): lambda s: (
        -s.w1
        * (
            0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123))
            + lcm2 * m2 * s.s12
            - s.w2 * (0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123)) + lcm2 * m2 * s.s12)
            - s.w3 * lcm3 * m3 * s.s123
        )
    ),
    (3, 5): lambda s: -s.w1 * lcm3 * m3 * s.s123 - s.w2 * lcm3 * m3 * s.s123 - s.w3 * lcm3 * m3 * s.s123,
    (3, 6): lambda s: (
        -s.w4 * (0.5 * (m5 * (2 * lcm5 * s.s45 + 2 * l4 * s.s4)) + lcm4 * m4 * s.s4) - s.w5 * lcm5 * m5 * s.s45
    ),
    (3, 7): lambda s: -s.w4 * lcm5 * m5 * s.s45 - s.w5 * lcm5 * m5 * s.s45,
    (4, 1): lambda s: (
        s.w1 * (l1 * lcm3 * m3 * s.s23 + l1 * lcm2 * m2 * s.s2 + l1 * ls * m3 * s.s2 - s.w3 * lcm3 * ls * m3 * s.s3)
    ),
    (4, 4): lambda s: -s.w3 * lcm3 * ls * m3 * s.s3,
    (4, 5): lambda s: -s.w1 * lcm3 * ls * m3 * s.s3 - s.w2 * lcm3 * ls * m3 * s.s3 - s.w3 * lcm3 * ls * m3 * s.s3,
    (5, 1): lambda s: s.w1 * (l1 * lcm3 * m3 * s.s23 + lcm3 * ls * m3 * s.s3) + s.w2 * lcm3 * ls * m3 * s.s3,
    (5, 4): lambda s: s.w1 * lcm3 * ls * m3 * s.s3 + s.w2 * lcm3 * ls * m3 * s.s3,
    (6, 6): lambda s: -s.w5 * l4 * lcm5 * m5 * s.s5,
    (6, 7): lambda s: -s.w4 * l4 * lcm5 * m5 * s.s5 - s.w5 * l4 * lcm5 * m5 * s.s5,
    (7, 6): lambda s: s.w4 * l4 * lcm5 * m5 * s.s5,
}

G = {
    (1, 1): lambda s: g * m3 * (ls * s.c12 + l1 * s.c1 + lcm3 * s.c123) + g * m2 * (lcm2 * s.c12 + l1 * s.c1),
    (2, 1): lambda s: 0.0,
    (3, 1): lambda s: g * (mb + m1 + m2 + m3),
    (4, 1): lambda s: g * m3 * (ls * s.c12 + lcm3 * s.c123) + g * m2 * lcm2 * s.c12,
    (5, 1): lambda s: g * lcm3 * m3 * s.c123,
    (6, 1): lambda s: g * m5 * (lcm5 * s.c45 + l4 * s.c4) + g * lcm4 * m4 * s.c4,
    (7, 1): lambda s: g * lcm5 * m5 * s.c45,
}

PHI = {
    (1, 1): lambda s: l2 * s.c12 + l1 * s.c1 - lf * s.c4 - lc * cos(theta),
    (2, 1): lambda s: l2 * s.s12 + l1 * s.s1 - lf * s.s4 - lc * sin(theta),
    (3, 1): lambda s: ls * s.c12 - lt * s.c45 + l1 * s.c1 - l4 * s.c4 - lc * cos(theta) + l3 * s.c123,
    (4, 1): lambda s: ls * s.s12 - lt * s.s45 + l1 * s.s1 - l4 * s.s4 - lc * sin(theta) + l3 * s.s123,
}

# ---- Appendix B as printed ------------------------------------------------------------------------------------------

GAMMA = {
    (1, 1): lambda s: -l2 * s.s12 - l1 * s.s1,
    (1, 4): lambda s: -l2 * s.s12,
    (1, 6): lambda s: lf * s.s4,
    (2, 1): lambda s: l2 * s.c12 + l1 * s.c1,
    (2, 4): lambda s: l2 * s.c12,
    (2, 6): lambda s: -lf * s.c4,
    (3, 1): lambda s: -ls * s.s12 - l1 * s.s1 - l3 * s.s123,
    (3, 4): lambda s: -ls * s.s12 - l3 * s.s123,
    (3, 5): lambda s: -l3 * s.s123,
    (3, 6): lambda s: lt * s.s45 + l4 * s.s4,
    (3, 7): lambda s: lt * s.s45,
    (4, 1): lambda s: ls * s.c12 + l1 * s.c1 + l3 * s.c123,
    (4, 4): lambda s: ls * s.c12 + l3 * s.c123,
    (4, 5): lambda s: l3 * s.c123,
    (4, 6): lambda s: -lt * s.c45 - l4 * s.c4,
    (4, 7): lambda s: -lt * s.c45,
    (5, 1): lambda s: 1.0,
    (6, 2): lambda s: 1.0,
    (7, 3): lambda s: 1.0,
}

GAMMA_DOT = {
    (1, 1): lambda s: -s.w1 * l1 * s.c1 - l2 * s.c12 * (s.w1 + s.w2),
    (1, 4): lambda s: -l2 * s.c12 * (s.w1 + s.w2),
    (1, 6): lambda s: s.w4 * lf * s.c4,
    (2, 1): lambda s: -s.w1 * l1 * s.s1 - l2 * s.s12 * (s.w1 + s.w2),
    (2, 4): lambda s: -l2 * s.s12 * (s.w1 + s.w2),
    (2, 6): lambda s: s.w4 * lf * s.s4,
    (3, 1): lambda s: -s.w1 * l1 * s.c1 - l3 * s.c123 * (s.w1 + s.w2 + s.w3) - ls * s.c12 * (s.w1 + s.w2),
    (3, 4): lambda s: -l3 * s.c123 * (s.w1 + s.w2 + s.w3) - ls * s.c12 * (s.w1 + s.w2),
    (3, 5): lambda s: -l3 * s.c123 * (s.w1 + s.w2 + s.w3),
    (3, 6): lambda s: s.w4 * l4 * s.c4 + lt * s.c45 * (s.w4 + s.w5),
    (3, 7): lambda s: lt * s.c45 * (s.w4 + s.w5),
    (4, 1): lambda s: s.w1 * l1 * s.s1 - l3 * s.s123 * (s.w1 + s.w2 + s.w3) - ls * s.c12 * (s.w1 + s.w2),
    (4, 4): lambda s: -l3 * s.s123 * (s.w1 + s.w2 + s.w3) - ls * s.c12 * (s.w1 + s.w2),
    (4, 5): lambda s: -l3 * s.s123 * (s.w1 + s.w2 + s.w3),
    (4, 6): lambda s: s.w4 * l4 * s.s4 + lt * s.s45 * (s.w4 + s.w5),
    (4, 7): lambda s: lt * s.s45 * (s.w4 + s.w5),
}

J_Q = {
    (1, 1): lambda s: -l2 * s.s12 - l1 * s.s1,
    (2, 1): lambda s: l2 * s.c12 + l1 * s.c1,
    (3, 1): lambda s: -ls * s.s12 - l1 * s.s1 - l3 * s.s123,
    (4, 1): lambda s: ls * s.c12 + l1 * s.c1 + l3 * s.c123,
}

J_Z = {
    (1, 1): lambda s: -l2 * s.s12,
    (1, 3): lambda s: lf * s.s4,
    (2, 1): lambda s: l2 * s.c12,
    (2, 3): lambda s: -lf * s.c4,
    (3, 1): lambda s: -ls * s.s12 - l3 * s.s123,
    (3, 2): lambda s: -l3 * s.s123,
    (3, 3): lambda s: lt * s.s45 + l4 * s.s4,
    (3, 4): lambda s: lt * s.s45,
    (4, 1): lambda s: ls * s.c12 + l3 * s.c123,
    (4, 2): lambda s: l3 * s.c123,
    (4, 3): lambda s: -lt * s.c45 - l4 * s.c4,
    (4, 4): lambda s: -lt * s.c45,
}

PRINTED = {"H": H, "C": C, "g": G, "Phi": PHI, "Gamma": GAMMA, "Gamma_dot": GAMMA_DOT, "J_q": J_Q, "J_z": J_Z}

# ---- corrections ----------------------------------------------------------------------------------------------------

CORRECTED = {
    ("H", (1, 1)): lambda s: (
        I1
        + I2
        + I3
        + l1**2 * (m2 + m3)
        + lcm2**2 * m2
        + lcm3**2 * m3
        + ls**2 * m3
        + 2 * l1 * lcm3 * m3 * s.c23
        + 2 * l1 * lcm2 * m2 * s.c2
        + 2 * l1 * ls * m3 * s.c2
        + 2 * lcm3 * ls * m3 * s.c3
    ),
    ("H", (1, 3)): lambda s: (
        0.5 * (m3 * (2 * ls * s.c12 + 2 * l1 * s.c1 + 2 * lcm3 * s.c123))
        + 0.5 * (m2 * (2 * lcm2 * s.c12 + 2 * l1 * s.c1))
    ),
    ("H", (1, 4)): lambda s: (
        I2
        + I3
        + lcm2**2 * m2
        + lcm3**2 * m3
        + ls**2 * m3
        + l1 * lcm3 * m3 * s.c23
        + l1 * lcm2 * m2 * s.c2
        + l1 * ls * m3 * s.c2
        + 2 * lcm3 * ls * m3 * s.c3
    ),
    ("H", (3, 3)): lambda s: m1 + m2 + m3 + m4 + m5 + mb,
    ("H", (3, 5)): lambda s: lcm3 * m3 * s.c123,
    ("C", (2, 1)): lambda s: (
        -s.w1
        * (
            0.5 * (m3 * (2 * ls * s.c12 + 2 * l1 * s.c1 + 2 * lcm3 * s.c123))
            + 0.5 * (m2 * (2 * lcm2 * s.c12 + 2 * l1 * s.c1))
        )
        - s.w2 * (0.5 * (m3 * (2 * ls * s.c12 + 2 * lcm3 * s.c123)) + lcm2 * m2 * s.c12)
        - s.w3 * lcm3 * m3 * s.c123
    ),
    ("C", (3, 1)): lambda s: (
        -s.w1
        * (
            0.5 * (m3 * (2 * ls * s.s12 + 2 * l1 * s.s1 + 2 * lcm3 * s.s123))
            + 0.5 * (m2 * (2 * lcm2 * s.s12 + 2 * l1 * s.s1))
        )
        - s.w2 * (0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123)) + lcm2 * m2 * s.s12)
        - s.w3 * lcm3 * m3 * s.s123
    ),
    ("C", (3, 4)): lambda s: (
        -s.w1 * (0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123)) + lcm2 * m2 * s.s12)
        - s.w2 * (0.5 * (m3 * (2 * ls * s.s12 + 2 * lcm3 * s.s123)) + lcm2 * m2 * s.s12)
        - s.w3 * lcm3 * m3 * s.s123
    ),
    ("C", (4, 1)): lambda s: (
        s.w1 * (l1 * lcm3 * m3 * s.s23 + l1 * lcm2 * m2 * s.s2 + l1 * ls * m3 * s.s2) - s.w3 * lcm3 * ls * m3 * s.s3
    ),
    ("g", (3, 1)): lambda s: g * (mb + m1 + m2 + m3 + m4 + m5),
    ("Gamma_dot", (4, 1)): lambda s: (
        -s.w1 * l1 * s.s1 - l3 * s.s123 * (s.w1 + s.w2 + s.w3) - ls * s.s12 * (s.w1 + s.w2)
    ),
    ("Gamma_dot", (4, 4)): lambda s: -l3 * s.s123 * (s.w1 + s.w2 + s.w3) - ls * s.s12 * (s.w1 + s.w2),
}
