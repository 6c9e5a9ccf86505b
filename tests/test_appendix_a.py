"""Every entry of Appendices A and B of Liu and Ben-Tzvi (2020), J. Mechanisms Robotics 12, as printed and as corrected.

Coordinates of the paper: q_d = (q1, x, y, q2, q3, q4, q5). Ours: (x, y, q1, ..., q5).
"""

from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest
from numpy import cos, sin

import saltus as sl
from saltus.dynamics.coordinates import choose
from saltus.zoo import bolt_linkage

OURS = [2, 0, 1, 3, 4, 5, 6]  # where the paper's coordinates stand in ours
STATES = 200

# Table 2 (optimised) and Table 3
m1, m2, m3, m4, m5, mb = 2.5639, 0.0802, 0.0921, 1.1163, 0.9754, 2.5639
I1, I2, I3, I4, I5 = 2.51e-5, 1.53e-4, 4.18e-4, 4.8e-3, 3.9e-3
lcm2, lcm3, lcm4, lcm5 = 0.0661, 0.1051, 0.0574, 0.0983
lc, l1, l2, l3, l4, l5, ls, lf, lt = 0.080, 0.020, 0.105, 0.190, 0.210, 0.303, 0.052, 0.080, 0.050
theta, g = np.radians(41.41), 9.81


class State(SimpleNamespace):
    """Angles and rates of one random state, with the sines and cosines that the entries share."""

    def __init__(self, q, v):
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


# ---- ours -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    m = bolt_linkage(base="floating")
    e = sl.Equations(m)
    start = m.keyframe("crank level")
    J = np.asarray(e.function("J")(0, start.positions, np.zeros(7), 0, start.p))
    choice = choose(m, J, wanted=["boom", "q1"])
    assert choice.independent == (0, 1, 2)
    return m, e, choice


@pytest.fixture(scope="module")
def compared(model):
    """Random states of the paper's coordinates, and our matrices there in the paper's order."""
    m, e, choice = model
    terms = sl.SPF().terms(e, choice)
    outputs = [e.M, e.C, e.g, e.phi, terms["Gamma"], terms["Gamma_dot"], terms["J_q"], terms["J_z"]]
    f = ca.Function("f", [e.q, e.v, e.p], outputs)
    r = np.random.default_rng(0)
    states, ours = [], []
    rows = [0, 1, 2, 3, *(4 + i for i in OURS[:3])]  # loops, then the independent ones
    for _ in range(STATES):
        q, v = r.uniform(-np.pi, np.pi, 7), r.normal(0, 10, 7)
        back = np.argsort(OURS)
        M, C, G, phi, gamma, gamma_dot, J_q, J_z = (np.asarray(x) for x in f(q[back], v[back], m.values()))
        states.append(State(q, v))
        ours.append(
            {
                "H": M[np.ix_(OURS, OURS)],
                "C": C[np.ix_(OURS, OURS)],
                "g": G[OURS],
                "Phi": phi,
                "Gamma": gamma[np.ix_(rows, OURS)],
                "Gamma_dot": gamma_dot[np.ix_(rows, OURS)],
                "J_q": J_q[:, OURS[:3]],
                "J_z": J_z,
            }
        )
    return states, ours


def error(compared, matrix, entry, formula):
    """Largest difference over all states, relative to the size of the entry."""
    states, ours = compared
    found = np.array([o[matrix][entry[0] - 1, entry[1] - 1] for o in ours])
    given = np.array([formula(s) for s in states])
    return np.abs(found - given).max() / max(1.0, np.abs(found).max())


ENTRIES = [(name, entry) for name, entries in PRINTED.items() for entry in entries]


@pytest.mark.parametrize(("matrix", "entry"), [e for e in ENTRIES if e not in CORRECTED], ids=str)
def test_entries_that_are_printed_right(compared, matrix, entry):
    assert error(compared, matrix, entry, PRINTED[matrix][entry]) <= 1e-12


@pytest.mark.parametrize(("matrix", "entry"), list(CORRECTED), ids=str)
def test_entries_that_are_misprinted(compared, matrix, entry):
    assert error(compared, matrix, entry, PRINTED[matrix][entry]) > 1e-6
    assert error(compared, matrix, entry, CORRECTED[matrix, entry]) <= 1e-12


def test_h11_needs_both_of_its_corrections(compared):
    """With lengths in place of the printed I's, l_1^2 m_3 is still missing."""

    def letters_only(s):
        return CORRECTED["H", (1, 1)](s) - l1**2 * m3

    assert error(compared, "H", (1, 1), letters_only) == pytest.approx(l1**2 * m3, rel=1e-9)


def test_unlisted_entries_are_zero(compared):
    _, ours = compared
    for name, entries in PRINTED.items():
        for matrix in (o[name] for o in ours):
            listed = np.zeros(matrix.shape, bool)
            for i, j in entries:
                listed[i - 1, j - 1] = True
                if name == "H":
                    listed[j - 1, i - 1] = True
            assert np.abs(matrix[~listed]).max(initial=0) <= 1e-13, name


def test_reduced_equations_are_those_of_appendix_b(model):
    """H q'' + C q' + g = B tau and z' = -J_z^-1 (Phi / epsilon + J_q q'), off the constraints too.

    In (17) and (B1) the second unknown is printed z''; it is z'. C = rho' C' rho + rho' H' rho-dot.
    """
    m, e, choice = model
    r = np.random.default_rng(4)
    formulation = sl.SPF(epsilon=2e-3)
    ode, terms = formulation.ode(e, choice), formulation.terms(e, choice)
    at = ca.Function("at", [e.q, ode.w, e.u, e.p], [ode.v, ode.a])
    printed = ca.Function("printed", [e.q, e.v, e.p], [terms[n] for n in ("H", "C", "g", "J_q", "J_z")] + [e.phi])
    start = m.keyframe("crank level")
    for _ in range(20):
        q, w, tau = start.positions + r.normal(0, 0.02, 7), r.normal(0, 3, 3), r.normal(0, 10)
        v, a = (np.asarray(x).ravel() for x in at(q, w, tau, start.p))
        H_, C_, g_, J_q, J_z, phi = (np.asarray(x) for x in printed(q, v, start.p))
        load = np.array([0, 0, tau]) - C_ @ w - g_.ravel()
        np.testing.assert_allclose(H_ @ a[:3], load, atol=1e-10 * np.abs(load).max())
        z_dot = -np.linalg.solve(J_z, phi.ravel() / 2e-3 + J_q @ w)
        np.testing.assert_allclose(v[3:], z_dot, atol=1e-11 * np.abs(z_dot).max())
