"""Feedback along a reference: tables in compiled laws, partial feedback linearisation, LQR; start, end and tilt."""

import math
from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest
from scipy.linalg import expm, solve_continuous_are

import saltus as sl
from saltus.errors import BadValue
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.signals import Entry
from saltus.model.symbols import Named
from saltus.track.lqr import Linearised
from saltus.track.reference import Reference


def block(motor=True):
    """A mass of 2 kg on a slide, without gravity in its direction."""
    m = sl.Mechanism("block")
    m.slide("x", m.ground, m.link("mass", mass=2.0), axes="x", motor=motor)
    return m


def cart_pole():
    """Cart of 1 kg, point mass of 0.2 kg on a pole of 0.5 m; theta = 0 is upright, counted anticlockwise."""
    m = sl.Mechanism("cart-pole")
    cart, pole = m.link("cart", mass=1.0), m.link("pole", mass=0.2, com=(0, 0.5))
    m.slide("x", m.ground, cart, axes="x", motor=True)
    m.revolute("theta", cart, pole)
    m.point("tip", pole.at(0, 1.0))
    return m


def two_link(motor=True):
    """The planar elbow arm of Spong, Hutchinson and Vidyasagar (2006), sec. 7.3, uniform rods."""
    m = sl.Mechanism("arm")
    upper, lower = m.rod("upper", mass=1.5, length=0.4), m.rod("lower", mass=1.0, length=0.3)
    m.revolute("q1", m.ground.at(0, 0), upper.start, motor=motor)
    m.revolute("q2", upper.end, lower.start, motor=motor)
    m.point("hand", lower.end)
    return m


def held_five_bar(rate=200, until=0.3):
    """The five-bar leg following given motor angles with a joint PD: a reference, and the machine."""
    m = sl.zoo.five_bar()
    start = m.keyframe("stand")

    def hold(t, s):
        left = start.q.left + 0.3 * sl.math.sin(9 * t) ** 2
        right = start.q.right - 0.2 * sl.math.sin(7 * t) ** 2
        return {"left": 8 * (left - s.q.left) - 0.3 * s.v.left, "right": 8 * (right - s.q.right) - 0.3 * s.v.right}

    return m, sl.simulate(m, start, until=until, control=hold, rate=rate, formulation=sl.formulations.Minimal())


def stage_of(m):
    system = HybridSystem.alone(m)
    return Constrained(system, next(iter(system.domains.values())))


def solved(m, state, load, t=0.0):
    """Accelerations M a - J' f = load - h, J a = -gamma, in NumPy."""
    e = sl.Equations(m)
    M, h, J, gamma = (x.full() for x in e.function("M", "h", "J", "gamma")(t, *at(m, state)))
    n, k = len(M), len(J)
    saddle = np.block([[M, -J.T], [J, np.zeros((k, k))]])
    return np.linalg.solve(saddle, np.concatenate([load - h[:, 0], -gamma[:, 0]]))[:n], saddle


def at(m, state):
    return state.positions, state.velocities, np.zeros(len(m.inputs)), state.p


def same_times(run, reference):
    """Indices of the samples that a run and its reference have in common."""
    pairs = [(i, int(np.abs(reference.t - t).argmin())) for i, t in enumerate(run.t)]
    return np.array([(i, k) for i, k in pairs if abs(reference.t[k] - run.t[i]) < 1e-9]).T


# ---- tables in compiled laws --------------------------------------------------------------------------------------


def test_table_gives_exact_piecewise_polynomials():
    """u linear between knots with jumps at them: the motion is a chain of cubics, which DOP853 integrates exactly."""
    m = block()
    knots, rows = [0.0, 0.1, 0.25], [[1.0, 4.0], [-2.0, 0.0], [0.5, -6.0]]
    law = sl.control.Scheduled(lambda t, s, row: {"x": row[0] + row[1] * t}, knots, rows)
    run = sl.simulate(m, m.assemble(), until=0.4, control=law, tolerance=1e-6)
    x = v = 0.0
    for (a, b), t0, t1 in zip(rows, knots, [*knots[1:], 0.4], strict=True):
        h, u = t1 - t0, a + b * t0
        x += v * h + (u / 2 * h**2 + b / 6 * h**3) / 2.0
        v += (u * h + b / 2 * h**2) / 2.0
    assert run["x"][-1] == pytest.approx(x, abs=1e-14)
    assert run.v["x"][-1] == pytest.approx(v, abs=1e-14)
    assert set(knots) <= set(run.t)
    assert run.torques["x"][run.t == 0.1] == -2.0  # the row that begins there


def test_table_by_domain_and_among_other_laws():
    m = block()
    system = sl.HybridSystem(m)
    first, then = system.domain("first"), system.domain("then")
    system.edge(first, then, guard=sl.When(lambda s: s.t - 0.1))
    push = sl.control.Scheduled(lambda t, s, row: {"x": row[0]}, [0.0, 0.05], [[2.0], [4.0]])
    stop = sl.control.Sampled(lambda t, s: {"x": -1.0})
    run = sl.simulate(
        system, m.assemble(), domain="first", until=0.2, control=sl.control.PerDomain(first=push, then=stop)
    )
    assert run.v["x"][-1] == pytest.approx((2 * 0.05 + 4 * 0.05 - 0.1) / 2.0, abs=1e-12)


@pytest.mark.parametrize(
    ("knots", "rows", "said"),
    [
        ([0.0, 0.1], [[1.0]], "one row of numbers per knot"),
        ([0.1, 0.0], [[1.0], [2.0]], "each later than"),
        ([0.0], [[math.nan]], "not finite"),
    ],
)
def test_bad_tables(knots, rows, said):
    with pytest.raises(sl.errors.BadValue, match=said):
        sl.control.Scheduled(lambda t, s, row: {}, knots, rows)


def test_tables_are_refused_by_name_where_they_do_not_serve(tmp_path):
    m = block()
    law = sl.control.Scheduled(lambda t, s, row: {"x": row[0]}, [0.0], [[1.0]])
    with pytest.raises(sl.errors.BadModel, match="law with tables"):
        sl.export(m, tmp_path, to="numpy", control=law)
    system = HybridSystem.alone(m)
    with pytest.raises(sl.errors.BadValue, match="Scheduled"):
        sl.find_orbit(system, m.assemble(), control=sl.control.PerDomain(motion=law))
    system.controls["mine"] = law
    with pytest.raises(sl.errors.BadModel, match="Scheduled"):
        sl.write(system, tmp_path / "block.yaml")


# ---- start, end, tilt ---------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_where_it_ended():
    """Soft ground with friction remembers the stretch of its springs: two runs must equal one."""
    m = sl.Mechanism("puck", spatial=True)
    body = m.link("body", mass=0.5, inertia=(1e-3, 1e-3, 1e-3))
    m.free("base", m.ground, body)
    m.compliant_contact("foot", body.at(0, 0, 0), stiffness=2000.0, damping=0.5, friction=0.6, friction_stiffness=900.0)
    start = m.assemble(base=(0, 0, 0.001, 1, 0, 0, 0), rates={"base": (0.3, 0.1, 0, 0, 0, 0)})
    whole = sl.simulate(m, start, until=0.2)
    half = sl.simulate(m, start, until=0.1)
    rest = sl.simulate(m, half.end, begin=0.1, until=0.2)
    assert half.end.z is not None
    assert np.abs(half.end.z).max() > 1e-5
    assert np.abs(rest.end.positions - whole.end.positions).max() < 1e-8
    assert np.array_equal(whole.start.positions, start.positions)
    assert whole.start.params == start.params


def test_tilt():
    m = sl.Mechanism("plate")
    m.free("base", m.ground, m.link("plate", mass=1.0, inertia=0.1))
    assert m.assemble(base=(1.0, 2.0, -0.4)).tilt == pytest.approx(0.4, abs=1e-12)
    rat = sl.zoo.kangaroo_rat().keyframes["tumbling"]
    _, x, y, _ = rat.positions[3:7]
    assert rat.tilt == pytest.approx(math.acos(1 - 2 * (x * x + y * y)), abs=1e-9)
    with pytest.raises(sl.errors.BadValue, match="no body that floats"):
        _ = cart_pole().assemble().tilt


def test_state_of_a_trajectory_from_a_file(tmp_path):
    m = block()
    run = sl.simulate(m, m.assemble(rates={"x": 1.0}), until=0.1)
    again = sl.read(sl.write(run, tmp_path / "run.nc"))
    with pytest.raises(sl.errors.BadValue, match="set its `mechanism`"):
        _ = again.end
    again.mechanism = m
    assert np.array_equal(again.end.positions, run.end.positions)


# ---- partial feedback linearisation -------------------------------------------------------------------------------


def test_reference_between_samples_converges_with_order_six():
    """On its way the block is where the quintic through samples of sin says it should be."""
    m = block()
    errors = []
    for rate in (10, 20, 40):
        force = sl.simulate(
            m, m.assemble(rates={"x": 9.0}), until=1.0, control=lambda t, s: {"x": -162 * sl.math.sin(9 * t)}, rate=rate
        )
        law = sl.control.Track(force, "x", kp=0.0, kd=0.0)
        run = sl.simulate(m, force.start, until=1.0, control=law, rate=200, tolerance=1e-13)
        errors.append(np.abs(run["x"] - np.sin(9 * run.t) * 1.0).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx([6, 6], abs=0.5)


def test_computed_torque_of_the_elbow_arm():
    """Torques against the closed form of Spong, Hutchinson and Vidyasagar (2006), eqs. 7.87 to 7.89."""
    m = two_link()
    swing = sl.simulate(
        m,
        m.assemble(q1=-1.0, q2=0.5),
        until=0.5,
        control=lambda t, s: {"q1": 6 * sl.math.cos(5 * t), "q2": 1.5 * sl.math.sin(8 * t)},
        rate=100,
    )
    kp, kd = np.array([400.0, 900.0]), np.array([40.0, 45.0])
    off = m.assemble(q1=-0.9, q2=0.4, rates={"q1": 0.5})
    run = sl.simulate(m, off, until=0.5, control=sl.control.Track(swing, ["q1", "q2"], kp=kp, kd=kd), rate=100)
    mine, theirs = same_times(run, swing)
    assert len(mine) > 40
    q, v = run.arrays["q"][mine], run.arrays["v"][mine]
    wanted = swing.arrays["a"][theirs] + kd * (swing.arrays["v"][theirs] - v) + kp * (swing.arrays["q"][theirs] - q)
    m1, m2, l1, c1, c2, g = 1.5, 1.0, 0.4, 0.2, 0.15, 9.81
    i1, i2 = m1 * 0.4**2 / 12, m2 * 0.3**2 / 12
    cross = m2 * l1 * c2
    for (q1, q2), (w1, w2), want, u in zip(q, v, wanted, run.arrays["torques"][mine], strict=True):
        d11 = m1 * c1**2 + m2 * (l1**2 + c2**2) + 2 * cross * math.cos(q2) + i1 + i2
        d12 = m2 * c2**2 + cross * math.cos(q2) + i2
        D = np.array([[d11, d12], [d12, m2 * c2**2 + i2]])
        bias = cross * math.sin(q2) * np.array([-2 * w1 * w2 - w2**2, w1**2])
        weight = m2 * c2 * g * math.cos(q1 + q2)
        gravity = np.array([(m1 * c1 + m2 * l1) * g * math.cos(q1) + weight, weight])
        assert u == pytest.approx(D @ want + bias + gravity, abs=1e-7)


@pytest.fixture(scope="module")
def tumble():
    """The rat tumbling while motors bend its tail."""
    rat = sl.zoo.kangaroo_rat(segments=2, links=3)

    def bend(t, s):
        return {n: 0.003 * sl.math.sin(20 * t + i) - 5e-4 * s.v[n] for i, n in enumerate(rat.mechanism.inputs)}

    return rat, sl.simulate(rat, rat.keyframes["tumbling"], domain="flight", until=0.2, control=bend, rate=200)


def test_rat_flies_its_plan(tumble):
    """Tail torques are those of eq. 46 of Liu and Ben-Tzvi, computed in NumPy with the pseudo-inverse it names."""
    rat, plan = tumble
    m = rat.mechanism
    law = sl.control.Track(plan, outputs="tail", kp=4e4, kd=400)
    flown = sl.simulate(rat, plan.start, domain="flight", until=plan.duration, control=law)
    assert np.abs(flown.end.positions - plan.end.positions).max() < 1e-6
    assert flown.end.tilt == pytest.approx(plan.end.tilt, abs=1e-6)

    away = {n: float(plan.start.q[n]) + 0.05 * (-1) ** i for i, n in enumerate(m.inputs)}
    rates = dict(plan.start.v.items())
    off = m.assemble(base=plan.start.positions[:7], rates=rates, **away)
    run = sl.simulate(rat, off, domain="flight", until=plan.duration, control=law, rate=200)
    mine, theirs = same_times(run, plan)
    tail = [m.q_names.index(n) for n in m.inputs]
    error = run.arrays["q"][np.ix_(mine, tail)] - plan.arrays["q"][np.ix_(theirs, tail)]
    t = run.t[mine][:, None]
    expected = error[0] * (1 + 200 * t) * np.exp(-200 * t)  # both roots of s^2 + 400 s + 4e4 are -200
    assert error == pytest.approx(expected, abs=1e-7)

    S = np.eye(len(m.v_names))[[m.v_names.index(n) for n in m.inputs]]
    f = sl.Equations(m).function("M", "h")
    for i, k in zip(mine[1:20:3], theirs[1:20:3], strict=True):
        q, v = run.arrays["q"][i], run.arrays["v"][i]
        M, h = (x.full() for x in f(0.0, q, v, np.zeros(len(S)), np.zeros(0)))
        follow = plan.arrays["a"][k] + 400 * (plan.arrays["v"][k] - v)
        wanted = S @ follow + 4e4 * (plan.arrays["q"][k] - q)[tail]
        u = np.linalg.pinv(S @ np.linalg.solve(M, S.T)) @ (S @ np.linalg.solve(M, h[:, 0]) + wanted)
        assert run.arrays["torques"][i] == pytest.approx(u, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "formulation", [sl.formulations.SPF(), sl.formulations.Projection()], ids=["SPF", "Projection"]
)
def test_foot_of_a_closed_chain_follows(formulation):
    """Both coordinates of a five-bar's foot, from off the reference: the error obeys its own linear equation."""
    m, plan = held_five_bar()
    off = m.assemble(near=plan.start, left=plan.start.q.left + 0.05, right=plan.start.q.right - 0.03)
    law = sl.control.Track(plan, "foot", kp=[900.0, 900.0], kd=60.0)
    run = sl.simulate(m, off, until=plan.duration, control=law, formulation=formulation, rate=200)
    mine, theirs = same_times(run, plan)
    error, t = run.point("foot")[mine] - plan.point("foot")[theirs], run.t[mine][:, None]
    assert np.abs(error[0]).min() > 1e-3
    assert error == pytest.approx(error[0] * (1 + 30 * t) * np.exp(-30 * t), abs=1e-8)
    assert run.loop_gap < 1e-9

    i = int(mine[len(mine) // 3])
    state = sl.State(m, run.arrays["q"][i], run.arrays["v"][i], run.params)
    B = np.zeros((4, 2))
    B[[m.v_names.index("left"), m.v_names.index("right")], [0, 1]] = 1
    a, _ = solved(m, state, B @ run.arrays["torques"][i])
    assert run.arrays["a"][i] == pytest.approx(a, rel=1e-6, abs=1e-5)


def test_fewer_outputs_than_inputs_stay_near_the_efforts_of_the_reference():
    """Height of the foot alone: of all efforts that give its acceleration those nearest to the reference's."""
    m, plan = held_five_bar()
    off = m.assemble(near=plan.start, left=plan.start.q.left + 0.02, right=plan.start.q.right)
    run = sl.simulate(m, off, until=0.1, control=sl.control.Track(plan, "foot.y", kp=900, kd=60), rate=200)
    mine, theirs = same_times(run, plan)
    foot = sl.Equations(m)
    for i, k in zip(mine[1:15:4], theirs[1:15:4], strict=True):
        state = sl.State(m, run.arrays["q"][i], run.arrays["v"][i], run.params)
        Jy = foot_jacobian(foot, state)
        B = np.zeros((4, 2))
        B[[m.v_names.index("left"), m.v_names.index("right")], [0, 1]] = 1
        a, saddle = solved(m, state, B @ run.arrays["torques"][i])
        D = Jy @ np.linalg.solve(saddle, np.vstack([B, np.zeros((2, 2))]))[:4]
        extra = run.arrays["torques"][i] - plan.arrays["torques"][k]
        assert extra[0] * D[1] == pytest.approx(extra[1] * D[0], rel=1e-4, abs=1e-9)  # along D': least norm
        assert run.arrays["a"][i] == pytest.approx(a, rel=1e-6, abs=1e-5)


def foot_jacobian(equations, state):
    import casadi as ca

    e = equations
    f = ca.Function("Jy", [e.q, e.p], [e.jacobian("foot")[1, :]])
    return np.ravel(f(state.positions, state.p).full())


def test_pole_by_way_of_the_cart():
    """An output without an input of its own, and a function of the signals."""
    m = cart_pole()
    plan = sl.simulate(
        m, m.assemble(theta=0.2), until=0.4, control=lambda t, s: {"x": 3 * sl.math.sin(9 * t) + 2.0}, rate=200
    )
    off = m.assemble(theta=0.25)
    run = sl.simulate(m, off, until=0.4, control=sl.control.Track(plan, "theta", kp=400, kd=40), rate=200)
    mine, theirs = same_times(run, plan)
    t = run.t[mine]
    error = run["theta"][mine] - plan["theta"][theirs]
    assert error == pytest.approx(0.05 * (1 + 20 * t) * np.exp(-20 * t), abs=1e-9)
    height = sl.control.Track(plan, lambda s: {"height": sl.math.cos(s.q.theta)}, kp=400, kd=40)
    run = sl.simulate(m, off, until=0.4, control=height, rate=200)
    mine, theirs = same_times(run, plan)
    error = np.cos(run["theta"][mine]) - np.cos(plan["theta"][theirs])
    assert error == pytest.approx(error[0] * (1 + 20 * t) * np.exp(-20 * t), abs=1e-8)


def test_friction_that_depends_on_the_effort_is_solved_for():
    """A sled pulled at 30 degrees: the pull lifts it, so its friction falls; x'' = (u cos - mu (m g - u sin)) / m."""
    m = sl.Mechanism("sled", gravity=10.0)
    sled = m.link("sled", mass=4.0)
    m.slide("sled", m.ground, sled, axes="xy")
    pull = m.input("pull")
    m.force("rope", sled.at(0, 0), (pull * math.cos(math.pi / 6), pull * math.sin(math.pi / 6)))
    m.point("runner", sled.at(0, 0))
    system = sl.HybridSystem(m)
    system.domain("sliding", contacts=[sl.Sliding("runner", friction=0.4)])
    given = {"domain": "sliding", "until": 0.5, "rate": 100}
    start = m.assemble(rates={"sled.x": 1.0})
    plan = sl.simulate(system, start, control=lambda t, s: {"pull": 20 + 5 * sl.math.sin(9 * t)}, **given)
    off = m.assemble(sled=(0.02, 0.0), rates={"sled.x": 1.0})
    run = sl.simulate(system, off, control=sl.control.Track(plan, "sled.x", kp=400, kd=40), **given)
    mine, theirs = same_times(run, plan)
    t, error = run.t[mine], run["sled.x"][mine] - plan["sled.x"][theirs]
    assert error == pytest.approx(0.02 * (1 + 20 * t) * np.exp(-20 * t), abs=1e-9)
    u, a = run.torques["pull"], run.a["sled.x"]
    assert a == pytest.approx((u * math.cos(math.pi / 6) - 0.4 * (40 - u * math.sin(math.pi / 6))) / 4, abs=1e-9)


def test_given_motion_beside_the_output():
    """The shoulder is moved as told, the elbow alone keeps the hand's height on the reference."""
    m = two_link()
    m.move("q1", -1.0 + 0.4 * sl.math.sin(6 * m.time))
    start = m.assemble(q1=-1.0, q2=0.8, rates={"q1": 2.4, "q2": 0.0})
    plan = sl.simulate(m, start, until=0.4, control=lambda t, s: {"q1": 0.0, "q2": 2.0 + sl.math.sin(9 * t)}, rate=200)
    off = m.assemble(q1=-1.0, q2=0.85, rates={"q1": 2.4, "q2": 0.0})
    run = sl.simulate(m, off, until=0.4, control=sl.control.Track(plan, "hand.y", kp=900, kd=60), rate=200)
    mine, theirs = same_times(run, plan)
    t, error = run.t[mine], run.point("hand")[mine, 1] - plan.point("hand")[theirs, 1]
    rate = 0.3 * 2.4 * (math.cos(-0.15) - math.cos(-0.2))  # of the lower arm at its other angle
    assert abs(error[0]) > 0.01
    assert error == pytest.approx((error[0] * (1 + 30 * t) + rate * t) * np.exp(-30 * t), abs=1e-7)
    assert run["q1"] == pytest.approx(-1.0 + 0.4 * np.sin(6 * run.t), abs=1e-8)


def test_limits_cut_what_is_delivered():
    m = two_link(motor=sl.Motor(torque=2.0))
    plan = sl.simulate(m, m.assemble(q1=-1.5, q2=0.1), until=0.3, control=lambda t, s: {"q1": 1.0, "q2": 0.1}, rate=100)
    off = m.assemble(q1=-1.0, q2=0.1)
    law = sl.control.Track(plan, ["q1", "q2"], kp=900, kd=60, limit={"q2": 0.3})
    run = sl.simulate(m, off, until=0.3, control=law)
    assert np.abs(run.torques["q1"]).max() == pytest.approx(2.0)
    assert np.abs(run.torques["q2"]).max() == pytest.approx(0.3)
    free = two_link()
    same = sl.simulate(
        free, free.assemble(q1=-1.45, q2=0.1), until=0.3, control=sl.control.Track(plan, ["q1", "q2"], 900, 60)
    )
    assert np.abs(same.end.positions - plan.end.positions).max() < 1e-3  # motors without limits bring it back


def test_time_counts_from_entry_and_the_end_is_held():
    m = block()
    plan = sl.simulate(m, m.assemble(), until=0.2, control=lambda t, s: {"x": 4.0}, rate=100)
    law = sl.control.Track(plan, "x", kp=2500, kd=100)
    late = sl.simulate(m, m.assemble(), begin=3.0, until=3.2, control=law)
    assert late["x"][-1] == pytest.approx(plan["x"][-1], abs=1e-10)
    assert not late.meta["notes"]
    longer = sl.simulate(m, m.assemble(), until=1.0, control=law)
    assert longer["x"][-1] == pytest.approx(plan["x"][-1], abs=1e-9)
    assert longer.v["x"][-1] == pytest.approx(0.0, abs=1e-9)
    assert any("for longer than the reference" in note for note in longer.meta["notes"])


@pytest.mark.parametrize(("kp", "kd"), [(1e4, 200.0), (1e3, 60.0)])
def test_gait_is_followed_phase_by_phase(kp, kd):
    """BOLT: one stride serves for many, the crank's turns counted on, from a lift-off 1 cm higher."""
    bolt = sl.zoo.bolt()
    run = sl.simulate(bolt, bolt.keyframes["drop"], domain="flight", until=2.5, control=bolt.controls["run"], rate=50)
    lift = [e for e in run.events if e.name == "liftoff"][-1]
    begin = sl.State(bolt.mechanism, lift.q, lift.v, run.params)
    gait = {"domain": "flight", "control": bolt.controls["run"], "rate": 400, "stop_after": {"liftoff": 1}}
    plan = sl.simulate(bolt, begin, until=1.0, **gait)
    higher = sl.State(bolt.mechanism, lift.q.copy(), lift.v, run.params)
    higher.positions[1] += 0.01
    law = sl.control.Track(plan, "q1", kp=kp, kd=kd)
    flown = sl.simulate(bolt, higher, domain="flight", until=2.0, control=law, rate=100)
    strides = np.diff([0.0, *(e.t for e in flown.events if e.name == "liftoff")])
    off = np.abs(strides - plan.duration)
    assert off[0] > 0.005 * plan.duration
    assert off[-1] < 0.1 * off[0]
    assert flown["q1"][-1] < plan["q1"][0] - 5 * 2 * math.pi
    assert not flown.meta["notes"]


# ---- what cannot be followed --------------------------------------------------------------------------------------


def test_bad_outputs():
    m = cart_pole()
    plan = sl.simulate(m, m.assemble(theta=0.2), until=0.2, control=lambda t, s: {"x": 1.0}, rate=100)

    def fly(**given):
        sl.simulate(
            m, plan.start, until=0.1, control=sl.control.Track(plan, **{"outputs": "x", "kp": 1.0, "kd": 1.0, **given})
        )

    with pytest.raises(sl.errors.UnknownName, match=r"tip\.x"):
        fly(outputs="foot")
    with pytest.raises(sl.errors.BadValue, match=r"2 outputs \(x, theta\) for 1 inputs"):
        fly(outputs=["x", "theta"])
    with pytest.raises(sl.errors.BadValue, match="named twice"):
        fly(outputs=["x", "x"])
    with pytest.raises(sl.errors.BadValue, match="kp"):
        fly(kp=-1.0)
    with pytest.raises(sl.errors.BadValue, match="velocities"):
        fly(outputs=lambda s: s.v.x)
    with pytest.raises(sl.errors.BadValue, match="limit"):
        fly(limit=0.0)
    with pytest.raises(sl.errors.BadValue, match="Trajectory"):
        sl.control.Track("plan", "x", 1.0, 1.0)
    other = block()
    with pytest.raises(sl.errors.BadValue, match=r"cart-pole.*block"):
        sl.simulate(other, other.assemble(), until=0.1, control=sl.control.Track(plan, "x", 1.0, 1.0))


def test_outputs_that_inputs_do_not_reach(tumble):
    """Nothing inside moves the centre of mass; nothing turns a quaternion's numbers one by one; a pole lies down."""
    rat, plan = tumble
    with pytest.raises(sl.errors.BadValue, match="quaternion"):
        sl.simulate(rat, plan.start, domain="flight", until=0.1, control=sl.control.Track(plan, "base", 1.0, 1.0))
    m = sl.Mechanism("pair", gravity=0.0)
    left, right = m.link("left", mass=1.0), m.link("right", mass=3.0)
    m.slide("left", m.ground, left, axes="x")
    m.slide("gap", left, right, axes="x", motor=True)
    push = sl.simulate(m, m.assemble(), until=0.1, control=lambda t, s: {"gap": 1.0}, rate=100)
    centre = sl.control.Track(push, lambda s: {"centre": s.q.left + 0.75 * s.q.gap}, 1.0, 1.0)
    with pytest.raises(sl.errors.Singular, match="centre"):
        sl.simulate(m, m.assemble(), until=0.1, control=centre)
    pole = cart_pole()
    falls = sl.simulate(pole, pole.assemble(theta=0.5), until=1.0, control=lambda t, s: {"x": 0.0 * t}, rate=100)
    assert falls["theta"].max() > math.pi / 2
    with pytest.raises(sl.errors.Singular, match="theta"):
        sl.simulate(pole, falls.start, until=1.0, control=sl.control.Track(falls, "theta", 1.0, 1.0))


def test_domain_that_the_reference_never_enters():
    m = block()
    system = sl.HybridSystem(m)
    system.domain("air")
    plan = sl.simulate(m, m.assemble(), until=0.1, control=lambda t, s: {"x": 1.0})
    with pytest.raises(sl.errors.UnknownName, match=r"never in domain 'air', only in motion"):
        sl.simulate(system, m.assemble(), domain="air", until=0.1, control=sl.control.Track(plan, "x", 1.0, 1.0))


# ---- joint PD and LQR ---------------------------------------------------------------------------------------------


def test_joint_pd_is_its_formula():
    m, plan = held_five_bar()
    off = m.assemble(near=plan.start, left=plan.start.q.left + 0.05, right=plan.start.q.right - 0.03)
    run = sl.simulate(m, off, until=0.3, control=sl.control.JointPD(plan, "left", kp=20, kd=0.5), rate=200)
    mine, theirs = same_times(run, plan)
    left = 20 * (plan["left"][theirs] - run["left"][mine]) + 0.5 * (plan.v["left"][theirs] - run.v["left"][mine])
    assert run.torques["left"][mine] == pytest.approx(plan.torques["left"][theirs] + left, abs=1e-9)
    assert run.torques["right"][mine] == pytest.approx(plan.torques["right"][theirs], abs=1e-12)
    with pytest.raises(sl.errors.UnknownName, match="left_knee"):
        sl.simulate(m, off, until=0.1, control=sl.control.JointPD(plan, "left_knee", kp=1.0))
    bare = sl.simulate(m, off, until=0.1, control=sl.control.JointPD(plan, joints=()), rate=200)
    mine, theirs = same_times(bare, plan)
    assert bare.arrays["torques"][mine] == pytest.approx(plan.arrays["torques"][theirs], abs=1e-12)


def test_lqr_at_rest_is_the_algebraic_riccati_equation():
    """Far from its end the gain about an equilibrium is that of SciPy's solver, A and B from the closed form."""
    m = cart_pole()
    still = sl.simulate(m, m.assemble(), until=12.0, control=lambda t, s: {"x": 0.0 * t}, rate=10)
    law = sl.control.LQR(still, Q={"x": 1.0, "theta": 10.0, "v.x": 0.1}, R=0.1)
    # (M + m) x'' - m l theta'' = u and -m l x'' + m l^2 theta'' = m g l theta
    inertia = np.array([[1.2, -0.1], [-0.1, 0.05]])
    A, B = np.zeros((4, 4)), np.zeros((4, 1))
    A[:2, 2:] = np.eye(2)
    A[2:, :2] = np.linalg.solve(inertia, [[0, 0], [0, 0.2 * 9.81 * 0.5]])
    B[2:] = np.linalg.solve(inertia, [[1.0], [0.0]])
    K = B.T @ solve_continuous_are(A, B, np.diag([1, 10, 0.1, 0]), [[0.1]]) / 0.1
    assert law.gains(stage_of(m))[0] == pytest.approx(K, rel=1e-8)
    run = sl.simulate(m, m.assemble(x=0.3, theta=0.3), until=10.0, control=law)
    assert np.abs(run.end.positions).max() < 0.3 / 1000
    final = sl.control.LQR(still, Q=1.0, R=1.0, final=0.0).gains(stage_of(m))
    assert np.abs(final[-1]).max() == 0.0


def difference(m, a, b):
    """Displacement from state b to state a in velocity coordinates, quaternions by their product."""
    from saltus.model.assembly import assembler

    out, at_q = [], 0
    balls = assembler(m).balls
    while at_q < len(m.q_names):
        if at_q in balls:
            w, u = b.positions[at_q], -b.positions[at_q + 1 : at_q + 4]
            w2, u2 = a.positions[at_q], a.positions[at_q + 1 : at_q + 4]
            out += list(2 * (w * u2 + w2 * u + np.cross(u, u2)))
            at_q += 4
        else:
            out.append(a.positions[at_q] - b.positions[at_q])
            at_q += 1
    return np.concatenate([out, a.velocities - b.velocities])


@pytest.mark.parametrize("machine", ["five-bar", "rat"])
def test_linearisation_carries_small_differences(machine):
    """A along the reference, integrated, against the difference of two runs; loops and quaternions included.

    Means over intervals are of second order, so that four times as many samples leave a sixteenth of the error.
    """
    if machine == "five-bar":
        m = sl.zoo.five_bar()
        system, domain, start = HybridSystem.alone(m), "motion", m.keyframe("stand")
        sides = [
            m.assemble(near=start, left=start.q.left + e, right=start.q.right - 2 * e, rates={"left": 3 * e})
            for e in (-1e-5, 1e-5)
        ]
        push = {"left": 0.1, "right": -0.2}
    else:
        system, domain = sl.zoo.kangaroo_rat(), "flight"
        m, start = system.mechanism, system.keyframes["tumbling"]
        w, x, y, z = start.positions[3:7]
        about = 0.5 * np.array([-x - 2 * y, w - 2 * z, z + 2 * w, -y + 2 * x])  # a turn of (1, 2, 0)
        sides = [
            m.assemble(
                base=(*start.positions[:3], *(start.positions[3:7] + e * about)),
                rates=dict(start.v.items()),
                **{n: float(start.q[n]) + e for n in m.inputs},
            )
            for e in (-1e-5, 1e-5)
        ]
        push = {"tail1.alpha": 0.002, "tail1.beta": -0.003}
    given = {"domain": domain, "until": 0.1, "tolerance": 1e-12, "formulation": sl.formulations.Projection()}

    def control(t, s):
        return {n: u * sl.math.cos(30 * t) for n, u in push.items()}

    low, high = (sl.simulate(system, s, control=control, **given) for s in sides)
    before, after = (difference(m, getattr(high, e), getattr(low, e)) for e in ("start", "end"))
    errors = []
    for rate in (250, 1000):
        plan = sl.simulate(system, start, control=control, rate=rate, **given)
        values = np.array(list(plan.params.values()))
        along = Linearised(Constrained(system, system.domains[domain]), Reference(plan, "test").stays[0], values)
        carried = before
        for i in range(len(along.t) - 1):
            carried = expm((along.A[i] + along.A[i + 1]) / 2 * (along.t[i + 1] - along.t[i])) @ carried
        errors.append(np.abs(carried - after).max() / np.abs(after).max())
    assert errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.25)


def test_lqr_brings_a_closed_chain_back():
    m, plan = held_five_bar(rate=400)
    off = m.assemble(near=plan.start, left=plan.start.q.left + 0.03, right=plan.start.q.right - 0.03)
    weights = {"left": 400.0, "right": 400.0, "v.left": 0.1, "v.right": 0.1}
    ends = []
    for law in (sl.control.JointPD(plan), sl.control.LQR(plan, Q=weights, R=1.0, final=weights)):
        run = sl.simulate(m, off, until=plan.duration, control=law)
        ends.append(np.abs(run.end.positions - plan.end.positions).max())
    assert ends[1] < 0.05 * ends[0]
    assert ends[1] < 1e-3


def test_lqr_holds_a_free_body():
    """A body with a reaction wheel on each axis, turned away: attitude comes back by way of the quaternion error."""
    m = sl.Mechanism("satellite", spatial=True, gravity=0.0)
    body = m.link("body", mass=5.0, inertia=(0.1, 0.12, 0.08))
    m.free("base", m.ground, body)
    for axis in "xyz":
        m.revolute(f"wheel_{axis}", body, m.link(f"wheel_{axis}", mass=0.1, inertia=(1e-3,) * 3), axis=axis, motor=True)
    still = sl.simulate(m, m.assemble(), until=8.0, control=lambda t, s: {}, rate=20)
    law = sl.control.LQR(still, Q={"base.wx": 1.0, "base.wy": 1.0, "base.wz": 1.0}, R=1.0)
    half = 0.5 * np.array([0.3, -0.4, 0.5])
    turn = np.array([math.cos(np.linalg.norm(half)), *(math.sin(np.linalg.norm(half)) * half / np.linalg.norm(half))])
    for sign in (1, -1):  # a quaternion and its negative are the same attitude
        run = sl.simulate(m, m.assemble(base=(0, 0, 0, *(sign * turn))), until=8.0, control=law)
        assert run.end.tilt < 1e-3
        assert np.abs(run.end.positions[4:7]).max() < 1e-3


def test_bad_weights():
    m = cart_pole()
    plan = sl.simulate(m, m.assemble(), until=0.1, control=lambda t, s: {"x": 0.0 * t}, rate=100)
    for given, said in (({"Q": -1.0}, "Q must"), ({"R": 0.0}, "R must"), ({"final": np.ones((2, 2))}, "final must")):
        with pytest.raises(sl.errors.BadValue, match=said):
            sl.simulate(m, plan.start, until=0.1, control=sl.control.LQR(plan, **given))
    with pytest.raises(sl.errors.UnknownName, match=r"v\.theta"):
        sl.simulate(m, plan.start, until=0.1, control=sl.control.LQR(plan, Q={"phi": 1.0}))


# ---- plans as references ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swung():
    """Cart and pole swung up in 2 s, planned on a mesh whose efforts are parabolas over its intervals."""
    m = sl.Mechanism("cart and pole")
    cart, pole = m.link("cart", mass=1.0), m.rod("pole", mass=0.3, length=0.5)
    m.slide("x", m.ground, cart, axes="x", motor=True)
    m.revolute("swing", cart.at(0, 0), pole.start)
    plan = sl.Plan(m, duration=2.0, intervals=25)
    plan.require(plan.start == m.assemble(x=0.0, swing=-math.pi / 2))
    plan.require(plan.end.q.swing == math.pi / 2, plan.end.v.swing == 0, plan.end.q.x == 1.0, plan.end.v.x == 0)
    plan.bound(plan.u.x, -20.0, 20.0)
    plan.minimise(plan.integral(plan.u.x**2))
    return sl.plan.solve(plan, tolerance=1e-5)


def test_efforts_of_a_plan_are_those_it_was_found_with(swung):
    """Flown open loop, a plan's own efforts lead through a swing-up, which straight lines between samples do not."""
    run = sl.simulate(swung.mechanism, swung.start, until=2.0, control=sl.control.JointPD(swung), tolerance=1e-10)
    off = np.abs(run.arrays["q"] - swung.states(run.t)[:, :2]).max()
    assert off < 1e-3
    stay = Reference(swung, "test").stays[0]
    tau = np.linspace(0, 1, 5)
    values = np.einsum("pt,ipk->itk", tau ** np.arange(3)[:, None], stay.efforts)[:, :, 0]
    assert values[:, 0] == pytest.approx(swung.torques.x[:-1])
    assert values[:, -1] == pytest.approx(swung.torques.x[1:])
    for i in range(0, len(values), 2):  # one parabola over two intervals: third differences vanish
        both = np.concatenate([values[i], values[i + 1, 1:]])
        assert np.diff(both, 3) == pytest.approx(0.0, abs=1e-9 * np.abs(values).max())


@pytest.mark.parametrize(("Q", "R"), [(1.0, 1.0), (100.0, 0.1)])
def test_lqr_holds_the_end_of_its_reference(swung, Q, R):
    """Past the end its gains are those of the algebraic Riccati equation there, and it stands for as long as asked."""
    m, law = swung.mechanism, sl.control.LQR(swung, Q=Q, R=R)
    along = Linearised(stage_of(m), law._reference.stays[0], law._reference.params(m))
    A, B = along.A[-1], along.B[-1]
    P = solve_continuous_are(A, B, Q * np.eye(4), R * np.eye(1))
    assert law.gains(stage_of(m))[-1] == pytest.approx(B.T @ P / R, rel=1e-4)
    run = sl.simulate(m, swung.start, until=8.0, control=law)
    assert run.q.swing[-1] == pytest.approx(math.pi / 2, abs=1e-3)
    assert run.q.x[-1] == pytest.approx(1.0, abs=1e-3)
    assert sl.control.following(run, law).holds


def test_feedback_that_falls_is_found_out(swung):
    """With weights that fade (final = Q) the pole falls after the end; the law is named, with what is off and when."""
    m, law = swung.mechanism, sl.control.LQR(swung, final=1.0)
    run = sl.simulate(m, swung.start, until=8.0, control=law)
    found = sl.control.following(run, law)
    assert not found.holds
    held = np.abs(run.arrays["q"] - [1.0, math.pi / 2])[run.t > 2]
    assert np.abs(run.q.swing[-1] - math.pi / 2) > 1.0
    assert found.largest == pytest.approx(held.max(), rel=1e-6)
    assert found.name == m.q_names[int(held.max(axis=0).argmax())]
    assert f"LQR does not hold the reference: {found.name}" in found.detail
    assert found.detail in run.report()
    weak = sl.control.LQR(swung, Q=1e-6, R=1e6, final=0.0)
    off = sl.simulate(m, m.assemble(x=0.0, swing=-math.pi / 2 + 0.1), until=2.0, control=weak)
    assert not sl.control.following(off, weak).holds
    assert sl.plan.fly(swung, sl.control.LQR(swung))[1].follows
    with pytest.raises(BadValue, match="follows no reference"):
        sl.control.following(run, sl.control.PD("x", 0.0, 1.0, 1.0))


def test_the_law_that_falls_is_named_where_another_holds(swung):
    """LQR with a limit of 6 N, where the plan takes 10, lets the pole fall; Track without one brings it up."""
    track, lqr = (sl.plan.fly(swung, law)[1] for law in (None, sl.control.LQR(swung, limit=6.0)))
    assert track.follows
    assert not lqr.follows
    assert "LQR does not hold the reference: swing is" in lqr.detail
    assert "or use Track" in lqr.detail
    other = sl.plan.fly(swung, sl.control.PD("x", 0.0, 1.0, 1.0))[1]
    assert "follows no reference: use Track" in other.detail


def test_a_gait_goes_on_under_lqr():
    """Where the last stride of a reference serves for all, the way along the ground is no error."""
    m = sl.Mechanism("slider")
    body, foot = m.link("body", mass=2.0), m.link("foot", mass=0.5)
    m.slide("base", m.ground, body, axes="xy")
    m.slide("leg", body, foot, axes="y", motor=True)
    m.point("foot", foot.origin)
    system = sl.HybridSystem(m)
    air, ground = system.domain("air"), system.domain("ground", contacts=[sl.Sliding("foot", friction=0.0)])
    system.edge(air, ground, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(ground, air, guard=sl.Liftoff("foot"), reset=sl.Continuous())
    plan = sl.Plan(ground, air, duration=[(0.1, 0.5), (0.15, 0.5)], intervals=[10, 8])
    plan.periodic(advance="base.x")
    plan.require(plan.start.q["base.x"] == 0, plan.start.v["base.x"] == 1.0)
    plan.bound(plan.q.leg, -0.6, -0.3)
    plan.bound(plan.u.leg, -200.0, 200.0)
    plan.minimise(plan.integral(plan.u.leg**2))
    best = sl.plan.solve(plan)
    law = sl.control.LQR(best, Q={"leg": 1e4, "base.x": 1e4, "v.leg": 10.0}, R=0.01)
    strides = 5
    run = sl.simulate(system, best.start, domain="ground", until=strides * best.duration, control=law)
    assert run.outcome.ok
    assert run.q["base.x"][-1] == pytest.approx(strides * best.duration, rel=1e-6)  # nothing pushes along x
    assert len(run.events) >= 2 * strides - 1
    assert sl.control.following(run, law).holds
    stage, visit = Constrained(system, ground), 3
    entry = Entry(1.0, Named(m.q_names, [7.0, *best.start.positions[1:]]), best.start.v)
    rows = law.table(stage, visit).entered(entry).rows
    assert rows[0, 2] == pytest.approx(7.0)  # the first number of the positions' block
    assert law.table(stage, 0).entered(entry).rows[0, 2] == pytest.approx(0.0)


@pytest.mark.parametrize("kind", ["JointPD", "LQR"])
def test_a_law_is_its_formula_with_its_table(swung, kind):
    """Knots and rows as arrays, put into the traced formula, give the efforts that the compiled run delivered."""
    m, system = swung.mechanism, swung.plan.system
    law = {"JointPD": sl.control.JointPD(swung, kp=5.0, kd=1.0), "LQR": sl.control.LQR(swung)}[kind]
    off = m.assemble(x=0.02, swing=-math.pi / 2 + 0.03)
    table = law.table(Constrained(system, system.domains["motion"]), 0).entered(Entry(0.0, off.q, off.v))
    knots, rows = table.knots, table.rows
    assert knots[0] == 0.0
    assert rows.shape == (len(knots), law.width(Constrained(system, system.domains["motion"])))
    t, q, v, row = ca.SX.sym("t"), ca.SX.sym("q", 2), ca.SX.sym("v", 2), ca.SX.sym("row", rows.shape[1])
    named = Named(m.q_names, q), Named(m.v_names, v, "velocity")
    s = SimpleNamespace(mechanism=m, q=named[0], v=named[1], entry=Entry(0.0, off.q, off.v))
    formula = ca.Function("formula", [t, q, v, row], [ca.vertcat(*law.law(t, s, row).values())])
    run = sl.simulate(m, off, until=2.5, control=law, rate=50)
    for i in range(0, len(run.t), 7):
        place = max(int(np.searchsorted(knots, run.t[i], side="right")) - 1, 0)
        u = formula(run.t[i], run.arrays["q"][i], run.arrays["v"][i], rows[place])
        assert float(u) == pytest.approx(run.torques.x[i], abs=1e-6)
