"""Machines of many loops and links: elimination along the tree against other ways, and its growth."""

import ctypes

import casadi as ca
import numpy as np
import pytest
from bench.growing import chain, legs, tail

import saltus as sl
from saltus.compile import build, c_source
from saltus.compile.pieces import cut
from saltus.dynamics import formulations
from saltus.dynamics.choice import choose
from saltus.dynamics.recursion import Recursion
from saltus.model.assembly import assembler
from saltus.model.linear import Factored
from saltus.model.rank import quality
from saltus.studies import benchmark_machines as machines

BUILDERS = {"chain": (chain, 6), "tail": (tail, 4), "legs": (legs, 2)}


def numbers(state, *expressions, e, extra=()):
    """Values of expressions of q, v, p (and further symbols with their values) at a state."""
    f = ca.Function("f", [e.t, e.q, e.v, e.p, *[s for s, _ in extra]], [ca.densify(x) for x in expressions])
    out = f(0.0, state.positions, state.velocities, state.p, *[x for _, x in extra])
    values = [np.asarray(x) for x in (out if len(expressions) > 1 else [out])]
    return [x[:, 0] if x.shape[1] == 1 else x for x in values]


@pytest.mark.parametrize("name", BUILDERS)
def test_elimination_solves_the_saddle_point_system(name):
    build_it, n = BUILDERS[name]
    m, state = build_it(n)
    e = sl.Equations(m)
    rows = list(range(e.phi.numel()))
    r, s = ca.SX.sym("r", e.nv), ca.SX.sym("s", len(rows))
    given = np.random.default_rng(0)
    extra = [(r, given.normal(size=e.nv)), (s, given.normal(size=len(rows)))]
    a, f = numbers(state, *Recursion(e, rows).solve(r, s), e=e, extra=extra)
    M, J = numbers(state, e.M, e.J if rows else ca.SX(0, e.nv), e=e)
    J = J.reshape(len(rows), e.nv)
    whole = np.block([[M, -J.T], [J, np.zeros((len(rows), len(rows)))]])
    expected = np.linalg.solve(whole, np.concatenate([extra[0][1], extra[1][1]]))
    np.testing.assert_allclose(np.concatenate([a, f]), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def nearly_in_line(windows, angle):
    """N-four-bar next to where all its rods lie in line."""
    m, _ = machines.n_four_bar(windows)
    near = {f"turn{i}": angle for i in range(1, windows + 1)} | {f"top{i}": -angle for i in range(1, windows + 1)}
    return m, m.assemble(turn0=angle, near=near, rates={"turn0": -1.0})


REDUNDANT = {
    "third crank": lambda: machines.parallelogram(3, 1.0, 2.0),
    "Bricard": machines.bricard,
    "nearly in line": lambda: nearly_in_line(1, 1e-4),
    "ten nearly in line": lambda: nearly_in_line(10, 1e-3),
}


@pytest.mark.parametrize("name", REDUNDANT)
def test_what_keeps_reactions_finite_does_not_reach_the_motion(name):
    """Gauss' principle with a pseudo-inverse: a = a0 - M^-1/2 (J M^-1/2)^+ (J a0 + gamma), a0 without constraints."""
    m, state = REDUNDANT[name]()
    e = sl.Equations(m)
    M, J, gamma, r = numbers(state, e.M, e.J, e.gamma, e.Q - e.h, e=e)
    root = np.linalg.inv(np.linalg.cholesky(M))  # M^-1 = root' root
    free = np.linalg.solve(M, r)
    exact = free - root.T @ (np.linalg.pinv(J @ root.T, rcond=1e-12) @ (J @ free + gamma))
    ode = sl.formulations.Index1().ode(e, choose(m, assembler(m).closure(0.0, state.positions, state.p)[1]))
    (a,) = numbers(state, ode.a, e=e)
    np.testing.assert_allclose(a, exact, rtol=0, atol=1e-11 * np.abs(exact).max())


def test_feet_that_share_a_load_hold_as_firmly_as_a_weld():
    """A pendulum on a crate on four feet, 4 mm apart, and on the same crate welded to the ground."""

    def swinging(held):
        m = sl.Mechanism("crate", spatial=True)
        crate = m.link("crate", mass=20.0, inertia=(1.0, 1.0, 1.0))
        place = {} if held else {"crate": (0, 0, 0.3, 1, 0, 0, 0)}
        if held:
            m.weld("weld", m.ground.at(0, 0, 0.3), crate.origin)
        else:
            m.free("crate", m.ground, crate)
            for i, (x, y) in enumerate([(1, 1), (1, -1), (-1, 1), (-1, -1)]):
                m.foot(f"foot{i}", crate.at(0.002 * x, 0.4 * y, -0.3), friction=5.0)
        bob = m.rod("bob", mass=1.0, length=0.4, radius=0.02)
        m.revolute("pin", crate.at(0, 0.05, 0.2), bob.start, axis="y")
        return sl.simulate(m, m.assemble(pin=np.pi / 2 + 3e-5, **place), until=0.01, engine="scipy")

    feet, weld = swinging(False), swinging(True)
    assert feet.outcome.ok
    np.testing.assert_allclose(feet.a.pin[0], weld.a.pin[0], rtol=1e-13)


def test_feet_do_not_push_against_each_other_by_round_off():
    """Weights that turn at 300 rad/s on a crate balance each other, 18,000 N each: its four feet bear weight alone."""
    m = sl.Mechanism("rotor", spatial=True)
    crate, rotor = m.link("crate", mass=20.0, inertia=(1.0, 1.0, 1.0)), m.link("rotor", mass=0.1, inertia=(1, 1, 1))
    m.free("crate", m.ground, crate)
    m.revolute("axle", crate.at(0, 0, 0.2), rotor.origin, axis="z")
    for name, x in (("left", -0.2), ("right", 0.2)):
        m.weld(name, rotor.at(x, 0, 0), m.link(name, mass=1.0, inertia=(0.01, 0.01, 0.01)).origin)
    for i, (x, y) in enumerate([(1, 1), (1, -1), (-1, 1), (-1, -1)]):
        m.foot(f"foot{i}", crate.at(0.4 * x, 0.4 * y, -0.3), friction=0.5)
    start = m.assemble(crate=(0, 0, 0.3, 1, 0, 0, 0), axle=0.3, rates={"axle": 300.0})
    run = sl.simulate(m, start, until=0.01)
    forces = np.array([run.force(f"foot{i}") for i in range(4)])
    assert np.abs(forces[..., :2]).max() < 1e-9
    np.testing.assert_allclose(forces[..., 2], 22.1 * 9.81 / 4, rtol=1e-10)


def test_a_shared_coordinate_and_a_rotor_between_links_leave_in_time():
    m = sl.Mechanism("shared")
    shared = m.rod("shared", mass=0.3, length=0.2)
    m.revolute("bend", m.ground, shared.start)
    last = shared
    for i in range(3):  # joints that follow the first one's coordinate: it cannot leave before the root
        rod = m.rod(f"rod_{i}", mass=0.1, length=0.1)
        m.revolute(f"follower_{i}", last.end, rod.start, motion=0.5 * m.q["bend"])
        last = rod
    free = m.rod("free", mass=0.1, length=0.1)
    m.revolute("free", last.end, free.start, motor=sl.Motor(gear=20.0, rotor_inertia=1e-5))
    e = sl.Equations(m)
    state = m.assemble(bend=0.3, free=-0.4)
    r = ca.SX.sym("r", e.nv)
    load = np.array([0.3, -0.7])
    (a,) = numbers(state, Recursion(e, ()).solve(r, ca.SX(0, 1))[0], e=e, extra=[(r, load)])
    (M,) = numbers(state, e.M, e=e)
    np.testing.assert_allclose(M @ a, load, atol=1e-12)


def test_a_tail_of_sixty_links_moves_as_in_mujoco():
    mujoco = pytest.importorskip("mujoco")
    import importlib

    rat = importlib.import_module("saltus.zoo.kangaroo_rat")
    n = 60
    m, state = tail(n)
    e = sl.Equations(m)
    (a,) = numbers(state, Recursion(e, ()).solve(-e.h, ca.SX(0, 1))[0], e=e)
    step, part = rat.TAIL_LENGTH / n, rat.TAIL_MASS / n
    radius = np.sqrt(rat.TAIL_MASS / (np.pi / 6 * rat.TAIL_LENGTH * rat.DENSITY)) / 2
    across, along = part * (step**2 / 4 + radius**2) / 5, part * radius**2 * 2 / 5
    inner = ""
    for k in reversed(range(n)):
        place = " ".join(map(str, rat.TAIL_ROOT)) if k == 0 else f"0 {-step} 0"
        inner = (
            f'<body pos="{place}"><joint axis="1 0 0"/><joint axis="0 0 1"/>'
            f'<inertial pos="0 {-step / 2} 0" mass="{part}" diaginertia="{across} {along} {across}"/>{inner}</body>'
        )
    inertia = " ".join(map(str, rat.BODY_INERTIA))
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option gravity="0 0 -9.8"/><compiler inertiafromgeom="false" boundmass="0" boundinertia="0"/>'
        f'<worldbody><body><freejoint/><inertial pos="0 0 0" mass="{rat.BODY_MASS}" diaginertia="{inertia}"/>{inner}'
        "</body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state.positions, state.velocities
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(a, data.qacc, rtol=0, atol=1e-7 * np.abs(data.qacc).max())


@pytest.mark.parametrize("n", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_many_four_bars_obey_newton_euler_and_their_loops(n):
    m, state = chain(n)
    assert state.gap < 1e-12
    e = sl.Equations(m)
    ode = sl.formulations.Index1().ode(e, choose(m, assembler(m).closure(0.0, state.positions, state.p)[1]))
    a, f = numbers(state, ode.a, ode.reactions, e=e)
    efforts, gamma = numbers(state, e.inverse_dynamics, e.gamma, e=e, extra=[(e.a, a)])
    _, J = assembler(m).closure(0.0, state.positions, state.p)
    assert np.abs(efforts - J.T @ f).max() < 1e-9 * np.abs(efforts).max()
    assert np.abs(J @ a + gamma).max() < 1e-9 * np.abs(a).max()


def test_a_long_chain_keeps_its_loops_and_its_energy():
    m, state = chain(5)
    run = sl.simulate(m, state, until=0.2, formulation=sl.formulations.Projection())
    assert run.outcome.ok
    assert run.loop_gap < 1e-11
    assert run.energy_account["relative residual"] < 1e-8


def test_the_reduced_mass_matrix_and_the_elimination_give_one_motion(monkeypatch):
    m, state = chain(3)
    e = sl.Equations(m)
    choice = choose(m, assembler(m).closure(0.0, state.positions, state.p)[1])
    off = state.positions + 1e-3 * np.sin(np.arange(9))  # with open loops, where SPF has terms of its own
    found = []
    for limit in (8, 0):
        monkeypatch.setattr(formulations, "FREEDOMS", limit)
        ode = sl.formulations.SPF().ode(e, choice)
        f = ca.Function("f", [e.q, ode.w], [ode.a, ode.reactions])
        found.append(np.concatenate([x.full().ravel() for x in f(off, [1.0, -2.0, 0.5])]))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-10 * np.abs(found[0]).max())


@pytest.mark.parametrize("machine", [chain, tail])
def test_expressions_grow_in_proportion_to_the_machine(machine):
    sizes = []
    for n in (3, 6, 12):
        m, _ = machine(n)
        e = sl.Equations(m)
        rows = tuple(range(e.phi.numel()))
        a, _ = Recursion(e, rows).solve(e.Q - e.h, -e.gamma if rows else ca.SX(0, 1))
        sizes.append(ca.Function("a", [e.t, e.q, e.v, e.p], ca.cse([a])).n_instructions())
    assert (sizes[2] - sizes[1]) / (sizes[1] - sizes[0]) == pytest.approx(2.0, rel=0.02)


def test_a_function_in_pieces_is_the_same_to_the_last_bit():
    x = ca.SX.sym("x", 3)
    y = ca.sin(x)
    for k in range(150):
        y = ca.vertcat(ca.cos(y[1]) * y[2], y[0] - 0.3 * y[1], ca.sqrt(1 + y[0] ** 2) / (k + 1))
    source = c_source([ca.Function("saltus_kernel", [x, ca.SX.sym("unused", 2)], [y, ca.sum1(y)])])
    pieces = cut(source, 100)
    assert pieces.count("SALTUS_PIECE void") > 10
    results = []
    for text in (source, pieces):
        evaluate = ctypes.CDLL(str(build(text))).saltus_kernel
        given, out, total = np.array([0.1, 0.7, -1.2]), np.zeros(3), np.zeros(1)
        pointers = (ctypes.c_void_p * 2)(given.ctypes.data, None)
        assert evaluate(pointers, (ctypes.c_void_p * 2)(out.ctypes.data, total.ctypes.data), None, None, 0) == 0
        results.append([*out, *total])
        evaluate((ctypes.c_void_p * 2)(None, None), (ctypes.c_void_p * 2)(None, total.ctypes.data), None, None, 0)
        results[-1].append(total[0])  # a missing argument is zeros, a missing result is not written
    assert results[0] == results[1]


def test_loops_far_apart_do_not_spoil_each_others_choice_of_coordinates():
    one = np.array([[0.6, 0.8, 0.1], [0.3, -0.2, 0.9]])
    many = np.kron(np.eye(50), one)
    columns = [3 * k + j for k in range(50) for j in (0, 2)]
    assert quality(many, columns) == pytest.approx(quality(one, [0, 2]), rel=1e-12)
    J = ca.sparsify(ca.SX(many))
    worst = Factored(J[:, columns]).worst(J)
    lengths = np.linalg.norm(one, axis=1)
    assert float(worst) == pytest.approx(abs(np.linalg.det(one[:, [0, 2]])) / lengths.prod(), rel=1e-12)


@pytest.mark.slow
def test_a_hundred_four_bars_run_for_a_second():
    m, state = chain(100)
    run = sl.simulate(m, state, until=1.0, formulation=sl.formulations.Projection())
    assert run.outcome.ok
    assert run.loop_gap < 1e-11
    assert run.energy_account["relative residual"] < 1e-7
