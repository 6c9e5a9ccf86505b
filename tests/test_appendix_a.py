"""Every entry of Appendices A and B of Liu and Ben-Tzvi (2020), J. Mechanisms Robotics 12, as printed and as corrected.

Coordinates of the paper: q_d = (q1, x, y, q2, q3, q4, q5). Ours: (x, y, q1, ..., q5).
"""

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.choice import choose
from saltus.studies.bolt_appendix_entries import CORRECTED, PRINTED, State, l1, m3
from saltus.zoo import bolt_linkage

OURS = [2, 0, 1, 3, 4, 5, 6]  # where the paper's coordinates stand in ours
STATES = 200

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
    terms = sl.formulations.SPF().terms(e, choice)
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
    formulation = sl.formulations.SPF(epsilon=2e-3)
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
