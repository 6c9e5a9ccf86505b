"""Stability: the paper's matrices, saltation against finite differences, vectors, and false unit multipliers."""

import numpy as np
import pytest

import machines
import saltus as sl
from saltus.orbits.stride import Moment, Stride

M_PRINTED = [[0.0175388, 0.0024205], [3.2885166, 0.4538489]]  # eq. 68 of Zana et al. (2018), all digits
PHI_PRINTED = [  # eq. 69
    [-0.729, -0.134, -0.248, -0.0634],
    [0, 0, 0, 0],
    [11.41, 4.19, 3.18, 0.803],
    [-11.45, -2.27, -3.84, -0.980],
]


@pytest.fixture(scope="module", params=[2, 4])
def orbit(request):
    hopper = sl.zoo.hopper(coordinates=request.param)
    return sl.find_orbit(hopper, hopper.keyframes["takeoff"])


def masses(orbit):
    return ["z_U", "z_L"] if "z_U" in orbit.system.mechanism.q_names else ["z_1", "z_3"]


def test_matrices_of_the_paper(orbit):
    upper, lower = masses(orbit)
    assert sl.orbits.shooting_matrix(orbit, [upper]) == pytest.approx(np.array(M_PRINTED), abs=6e-8)
    Phi = sl.orbits.monodromy(orbit, [upper, lower])
    assert Phi == pytest.approx(np.array(PHI_PRINTED), abs=5e-3)
    sizes = np.sort(np.abs(np.linalg.eigvals(Phi)))[::-1]
    assert sizes[:2] == pytest.approx([1.0, 0.471387630823884], abs=1e-9)  # eq. 71
    assert sizes[2:].max() < 1e-5


def test_redundant_coordinates_add_no_multipliers(orbit):
    assert orbit.multipliers == pytest.approx([0.471387630823884], abs=1e-9)


def test_cheap_estimate_agrees_with_the_exact_matrix(orbit):
    assert sl.orbits.shooting_estimate(orbit) == pytest.approx(orbit.stability.matrix, abs=1e-7)


def test_floquet_vectors(orbit):
    s = orbit.stability
    assert s.left @ s.right == pytest.approx(np.eye(len(s.multipliers)), abs=1e-10)
    change = 1e-6 * s.right[:, 0] / np.linalg.norm(s.right[:, 0])
    n = len(orbit.start.positions)
    start = Moment(orbit.domain, 0.0, orbit.start.positions + change[:n], orbit.start.velocities + change[n:])
    end = orbit.shooting.stride.run(start, orbit.start.p, stop=lambda c: len(c) == 2).end
    after = np.concatenate([end.q - orbit.start.positions, end.v - orbit.start.velocities])
    assert after == pytest.approx(s.multipliers[0] * change, abs=1e-10)


def test_saltation_matrices_against_finite_differences(orbit):
    """Perturbed before the event along consistent directions, both motions are compared at the same time after it."""
    m = orbit.system.mechanism
    stride = Stride(orbit.system, tolerance=1e-13)
    theta, n, step, lead = orbit.start.p, len(m.q_names), 1e-7, 2e-3
    for k, s in enumerate(sl.orbits.saltations(orbit)):
        crossing = orbit.crossings[k]
        before, after = stride.dynamics(crossing.before, theta), stride.dynamics(crossing.after, theta)
        p_after, _ = after.entered(crossing.after, theta, None)

        def euler(dynamics, x, p, dt):  # so short a way that RK4 is exact to round-off
            f = lambda x: dynamics.rates(0.0, x, p)[0]  # noqa: E731
            a = f(x)
            b = f(x + dt / 2 * a)
            c = f(x + dt / 2 * b)
            return x + dt / 6 * (a + 2 * b + 2 * c + f(x + dt * c))

        x = np.concatenate([crossing.before.q, crossing.before.v])
        early = x
        for _ in range(20):
            early = euler(before, early, crossing.p_before, -lead / 20)
        if s.source == "ground":
            directions = [_even(n, 0), _even(n, n)]
        else:
            directions = [_even(n, 0), _even(n, n // 2), _even(n, n), _even(n, n + n // 2)]
        for d in directions:
            ends = []
            for sign in (1, -1):
                y = early + sign * step * d
                started = Moment(s.source, crossing.t - lead, y[:n], y[n:])
                passed = stride.run(started, theta, stop=lambda c: len(c) == 1)
                z = np.concatenate([passed.end.q, passed.end.v])
                ends.append(euler(after, z, p_after, crossing.t - passed.end.t))
            measured = (ends[0] - ends[1]) / (2 * step)
            at_event = d.copy()
            carried = [early + sign * step * d for sign in (1, -1)]
            for _ in range(20):
                carried = [euler(before, y, crossing.p_before, lead / 20) for y in carried]
            at_event = (carried[0] - carried[1]) / (2 * step)
            assert s.matrix @ at_event == pytest.approx(measured, abs=2e-5 * max(1, np.abs(measured).max()))


def _even(n, first):
    """Unit change of one mass: of one coordinate, or of the two particles it is split into."""
    d = np.zeros(2 * n)
    d[first : first + (1 if n == 2 else 2)] = 1.0
    return d


def test_walker_multipliers_against_simulated_strides():
    """Deviations of a walk shrink as the dominant pair says: its magnitude, from simulation alone."""
    system = machines.walker()
    step = sl.find_orbit(system, machines.walking(system), swap={"left": "right"})
    whole = sl.find_orbit(system, machines.walking(system))
    assert sl.orbits.shooting_estimate(whole) == pytest.approx(whole.stability.matrix, abs=2e-5)
    assert np.abs(step.multipliers[:2]) == pytest.approx([0.58, 0.58], abs=1e-2)
    run = whole.simulate(1.0)
    assert run["hip.y"][-1] == pytest.approx(run["hip.y"][0], abs=1e-7)


def test_derivatives_with_memory_of_the_entry():
    """Leg of the spring-loaded pendulum: its foot is where the body was at touchdown."""
    system, push = machines.slip()
    start = system.mechanism.assemble(body=(0, 1.0), rates={"body": (5.0, 0)})
    orbit = sl.find_orbit(system, start, domain="air", control=push, section=machines.APEX)
    assert sl.orbits.shooting_estimate(orbit) == pytest.approx(orbit.stability.matrix, abs=1e-6)


def test_param_derivatives_against_differences():
    """Columns of Params through flow, guards, impact and anchors: d(period, state) / d(mu, k, L0)."""
    hopper = sl.zoo.hopper(coordinates=4)
    orbit = sl.find_orbit(hopper, hopper.keyframes["takeoff"])
    names = ("mu", "k", "L0")
    stride = orbit.shooting.stride.like(names)
    theta, node = orbit.start.p, orbit.node
    seeds = np.zeros((stride.rows.n, 3))
    seeds[stride.rows.p] = np.eye(3)
    exact = stride.run(node, theta, seeds, stop=lambda c: len(c) == 2).Y
    for j, name in enumerate(names):
        i = list(hopper.mechanism.params).index(name)
        step = 1e-6 * theta[i]
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[i] += sign * step
            end = stride.run(node, moved, stop=lambda c: len(c) == 2).end
            ends.append(np.concatenate([[end.t], end.q, end.v]))
        measured = (ends[0] - ends[1]) / (2 * step)
        assert exact[: len(measured), j] == pytest.approx(measured, abs=1e-5 * max(1.0, np.abs(measured).max()))
