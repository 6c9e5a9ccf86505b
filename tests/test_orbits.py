"""find_orbit: the hopper's published orbit, walkers, forced and conservative machines, and what fails clearly."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import ellipk

import machines
import saltus as sl
from saltus.studies.hopper_closed_form import orbit as closed_form

# Zana, Bodor, Bencsik and Zelei (2018), sec. 4.2, recomputed with 40 digits from the closed form of sec. 4.1.
START = {"z_U": 1.01909185656609, "v_U": 1.74034810614098}
TIMES = {"flight": 0.298898121589078, "ground": 0.249342539299599}


@pytest.fixture(scope="module")
def hopper():
    return sl.zoo.hopper()


@pytest.fixture(scope="module")
def orbit(hopper):
    return sl.find_orbit(hopper, hopper.mechanism.keyframe("takeoff", z_U=1.05))


@pytest.mark.parametrize("coordinates", [2, 4])
def test_published_orbit_in_minimal_and_redundant_coordinates(coordinates):
    hopper = sl.zoo.hopper(coordinates=coordinates)
    upper = ["z_U"] if coordinates == 2 else ["z_1", "z_2"]
    guess = hopper.mechanism.keyframe("takeoff", **dict.fromkeys(upper, 1.05))
    orbit = sl.find_orbit(hopper, guess)
    assert orbit.events == ["touchdown", "liftoff"]
    assert orbit.start.q[upper[0]] == pytest.approx(START["z_U"], abs=1e-10)
    assert orbit.start.v[upper[0]] == pytest.approx(START["v_U"], abs=1e-10)
    for domain, time in TIMES.items():
        assert orbit.time_in(domain) == pytest.approx(time, abs=1e-11)
    down = orbit.crossings[0]
    assert down.before.q[0] == pytest.approx(0.991512227435363, abs=1e-10)
    assert down.before.v[[0, -1]] == pytest.approx([-1.54446412028896, -1.52170395822452], abs=1e-10)
    assert (down.impact.T_c, down.impact.T_a) == pytest.approx((17.3668720235713, 71.5610825657986), abs=1e-8)
    assert orbit.apex == pytest.approx(1.11100669114979, abs=1e-9)
    assert orbit.highest("foot") == pytest.approx(0.133485975466707, abs=1e-9)
    assert orbit.multipliers == pytest.approx([0.471387630823884], abs=1e-9)
    assert orbit.is_stable


def test_newton_is_quadratic(orbit):
    """With an exact Jacobian each residual is about the square of the one before."""
    h = [r for r in orbit.history if 1e-11 < r < 0.02]
    assert len(h) >= 3
    rates = [math.log(b) / math.log(a) for a, b in pairwise(h)]
    assert rates[-1] > 1.8


def test_multiple_shooting_finds_the_same(hopper, orbit):
    other = sl.find_orbit(hopper, hopper.mechanism.keyframe("takeoff", z_U=1.05), multiple=True)
    assert len(other.passages) == 2
    assert other.period == pytest.approx(orbit.period, abs=1e-11)
    assert other.multipliers == pytest.approx(orbit.multipliers, abs=1e-9)


@pytest.mark.slow
def test_another_engine_finds_the_same(hopper, orbit):
    other = sl.find_orbit(hopper, hopper.keyframes["takeoff"], engine="heyoka")
    assert other.period == pytest.approx(orbit.period, abs=1e-11)
    assert other.multipliers == pytest.approx(orbit.multipliers, abs=1e-9)


def test_any_section(hopper, orbit):
    apex = sl.find_orbit(hopper, hopper.keyframes["takeoff"], section=sl.When(lambda s: s.v.z_U, "falling"))
    assert apex.start.v.z_U == pytest.approx(0.0, abs=1e-12)
    assert apex.start.q.z_U == pytest.approx(orbit.apex, abs=1e-9)
    assert apex.period == pytest.approx(orbit.period, abs=1e-10)
    assert apex.multipliers[0] == pytest.approx(orbit.multipliers[0], abs=1e-8)
    assert np.abs(apex.multipliers[1:]).max() < 1e-9


@pytest.mark.parametrize(
    ("mu", "t_F", "D_G", "apex", "multiplier"),
    [
        (0.8, 0.2, -0.0279691895617, 1.0571871048, 1.35194246861),
        (0.8, 0.3, -0.0380555194201, 1.11191409802, 0.479018930864),
        (0.95, 0.3, -0.00872769870207, 1.1124395612, 0.970756221779),
    ],
)
def test_param_chosen_for_a_flight_time(hopper, mu, t_F, D_G, apex, multiplier):
    """Numbers of the closed form, 40 digits."""
    near = {"coming_from": {"mu": 0.8}} if mu != 0.8 else {}
    found = sl.find_orbit(
        hopper, hopper.keyframes["takeoff"], params={"mu": mu}, free="D_G", where={"time in flight": t_F}, **near
    )
    assert found.params["D_G"] == pytest.approx(D_G, abs=1e-12)
    assert found.apex == pytest.approx(apex, abs=1e-9)
    assert found.multipliers[0] == pytest.approx(multiplier, abs=1e-9)
    assert pytest.approx(D_G, abs=1e-12) == closed_form(mu, t_F).D_G


def test_condition_on_the_state(hopper):
    found = sl.find_orbit(hopper, hopper.keyframes["takeoff"], free="D_G", where={lambda s: s.v.z_U: 1.8})
    assert found.start.v.z_U == pytest.approx(1.8, abs=1e-10)
    assert found.residual < 1e-9


def test_simulation_repeats_the_orbit(orbit):
    run = orbit.simulate(3.0)
    assert run["z_U"][-1] == pytest.approx(orbit.start.q.z_U, abs=1e-7)
    assert [e.name for e in run.events[:4]] == ["touchdown", "liftoff"] * 2
    assert "touchdown" in orbit.impacts.table()


def test_sliding_contact_is_as_good_as_a_pin_where_nothing_slides(orbit):
    m = sl.zoo.hopper_linkage()
    system = sl.HybridSystem(m)
    drive = 2 * m.params["D_G"] * sl.math.sqrt(m.params["k"] * m.params["m"])
    flight = system.domain("flight", params={"d": m.params["d_F"]})
    ground = system.domain("ground", contacts=[sl.Sliding("foot", friction=0.3)], params={"d": drive})
    system.edge(flight, ground, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(ground, flight, guard=sl.Liftoff("foot"))
    assert sl.find_orbit(system, system.keyframes["takeoff"]).period == pytest.approx(orbit.period, abs=1e-10)


# ---- other machines -----------------------------------------------------------------------------------------------


def test_half_strides_of_a_walker_with_travel_taken_out():
    """Goswami, Thuilot and Espiau (1998): at 3 degrees a step of 0.5354 m takes 0.7343 s."""
    system = machines.walker()
    step = sl.find_orbit(system, machines.walking(system), swap={"left": "right"})
    assert step.events == ["strike"]
    assert step.period == pytest.approx(0.7343, abs=5e-5)
    assert step.advance["hip.x"] == pytest.approx(0.5354, abs=5e-5)
    whole = sl.find_orbit(system, machines.walking(system))
    assert whole.period == pytest.approx(2 * step.period, abs=1e-9)
    squared = np.sort(np.abs(step.multipliers**2))
    assert np.sort(np.abs(whole.multipliers)) == pytest.approx(squared, abs=1e-7)


def test_ball_on_a_vibrating_table():
    """It leaves at g T / 2 where the table's speed is g T (1 - e) / (2 (1 + e)); the map contracts by e^2."""
    system = machines.ball()
    T, e, A, w = 0.2, 0.5, 0.02, 10 * math.pi
    phase = math.acos(9.81 * T * (1 - e) / (2 * (1 + e)) / (A * w))
    start = system.mechanism.assemble(y=A * math.sin(phase), rates={"y": 9.81 * T / 2})
    with pytest.raises(sl.errors.BadValue, match="depends on time"):
        sl.find_orbit(system, start)
    orbit = sl.find_orbit(system, start, period=T)
    assert orbit.period == pytest.approx(T, abs=1e-12)
    assert orbit.time % T == pytest.approx(phase / w, abs=1e-10)
    assert orbit.start.v.y == pytest.approx(9.81 * T / 2, abs=1e-10)
    # Guckenheimer and Holmes (1983), sec. 2.4: determinant e^2, trace from the table's acceleration at impact.
    trace = 1 + e**2 - (1 + e) ** 2 * A * w**2 * math.sin(phase) / 9.81
    two = orbit.multipliers[:2]
    assert (two.sum(), two.prod()) == pytest.approx((trace, e**2), abs=1e-8)
    assert abs(orbit.multipliers[2]) < 1e-10


def test_conservative_running_keeps_a_unit_multiplier():
    """The spring-loaded pendulum conserves energy: one multiplier is exactly 1; the apex map agrees with SciPy's."""
    system, push = machines.slip()
    start = system.mechanism.assemble(body=(0, 1.0), rates={"body": (5.0, 0)})
    orbit = sl.find_orbit(system, start, domain="air", control=push, section=machines.APEX)
    assert orbit.multipliers[0] == pytest.approx(1.0, abs=1e-9)
    height, speed = float(orbit.start.q.body.y), float(orbit.start.v.body.x)
    energy = 80 * 9.81 * height + 40 * speed**2

    def next_apex(y):
        v = math.sqrt((energy - 80 * 9.81 * y) / 40)
        down = math.sin(math.radians(68))
        foot = math.cos(math.radians(68))

        def rhs(t, z):
            length = math.hypot(z[0] - foot, z[1])
            f = 20000 * (1 - length) / length / 80
            return [z[2], z[3], f * (z[0] - foot), f * z[1] - 9.81]

        def up(t, z):
            return math.hypot(z[0] - foot, z[1]) - 1

        up.terminal, up.direction = True, 1
        fall = -math.sqrt(2 * 9.81 * (y - down))
        end = solve_ivp(rhs, (0, 1), [0, down, v, fall], "DOP853", events=up, rtol=1e-12, atol=1e-12).y[:, -1]
        return end[1] + end[3] ** 2 / (2 * 9.81)

    assert next_apex(height) == pytest.approx(height, abs=1e-9)
    slope = (next_apex(height + 1e-4) - next_apex(height - 1e-4)) / 2e-4
    assert orbit.multipliers[1] == pytest.approx(slope, abs=1e-5)


# ---- clear outcomes -----------------------------------------------------------------------------------------------


def test_a_machine_that_comes_to_rest_has_no_orbit(hopper):
    with pytest.raises(sl.errors.NoOrbit, match="no edge fires") as caught:
        sl.find_orbit(hopper, hopper.keyframes["takeoff"], params={"D_G": 0.05})
    assert isinstance(caught.value.history, list)


def test_beyond_the_last_orbit_newton_says_how_far_it_came(hopper):
    with pytest.raises(sl.errors.NoOrbit, match="residual") as caught:
        sl.find_orbit(hopper, hopper.keyframes["takeoff"], params={"D_G": -0.2})
    assert min(caught.value.history) > 1e-3
    assert isinstance(caught.value.best, sl.State)


def test_wrong_names_and_counts(hopper, orbit):
    start = hopper.keyframes["takeoff"]
    with pytest.raises(sl.errors.UnknownName, match="D_G"):
        sl.find_orbit(hopper, start, params={"d_g": 1.0})
    with pytest.raises(sl.errors.UnknownName, match="time in flight"):
        sl.find_orbit(hopper, start, free="D_G", where={"flight": 0.3})
    with pytest.raises(sl.errors.BadValue, match="as many"):
        sl.find_orbit(hopper, start, free="D_G")
    with pytest.raises(sl.errors.UnknownName, match="hip"):
        sl.find_orbit(hopper, start, swap={"hip": "z_U"})
    with pytest.raises(sl.errors.UnknownName, match="period"):
        orbit.value("priod")
    with pytest.raises(sl.errors.BadValue, match="Sampled"):
        sl.find_orbit(hopper, start, control=sl.control.Sampled(lambda t, s: {}))


def test_events_without_a_derivative_are_refused():
    m = sl.Mechanism("ball")
    m.slide("y", m.ground, m.link("ball", mass=1.0), axes="y")
    m.point("ball", m.links["ball"].at(0, 0))
    system = sl.HybridSystem(m)
    air = system.domain("air")
    system.edge(air, air, guard=sl.Touchdown("ball"), reset=sl.Collision([sl.Sliding("ball")], restitution=0.8))
    with pytest.raises(sl.errors.BadValue, match="Collision reset has no derivative"):
        sl.find_orbit(system, m.assemble(y=1.0))


def test_no_speed_where_nothing_travels(hopper):
    with pytest.raises(sl.errors.BadValue, match="no speed"):
        sl.find_orbit(hopper, hopper.keyframes["takeoff"], free="D_G", where={"speed": 1.0})


@pytest.mark.parametrize("t_F", [0.3, 0.38])
def test_pulling_ground_is_reported(hopper, t_F):
    """Right after touchdown the ground pulls where lambda = k e + d_G v_U - m_L g > 0 (eq. 62), largest there."""
    found = sl.find_orbit(hopper, hopper.keyframes["takeoff"], free="D_G", where={"time in flight": t_F})
    down = found.crossings[0]
    d_G = 2 * found.params["D_G"] * math.sqrt(15000 * 75)
    force = 15000 * (down.after.q[0] - 1) + d_G * down.after.v[0] - 15 * 9.81
    assert (force > 0) == (t_F == 0.38)
    assert found.violations == ([f"the ground pulls with {force:.4g} N in 'ground'"] if force > 0 else [])


# ---- robustness ---------------------------------------------------------------------------------------------------


def test_sensitivity_is_the_derivative_of_the_period(hopper, orbit):
    exact = sl.orbits.sensitivities(orbit, ["k", "mu"])
    for name, step in (("k", 1.5), ("mu", 1e-5)):
        value = orbit.params[name]
        ends = [sl.find_orbit(hopper, orbit.start, params={name: value + s * step}).period for s in (1, -1)]
        assert exact[name] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_largest_push_and_basin_agree(orbit):
    push = sl.orbits.largest_push(orbit, {"z_U": -1.0}, most=3.0, tolerance=1e-2)
    assert 0 < push.survived < push.fatal < 3.0
    sizes = [-push.survived, -0.1, 0.1]
    basin = sl.orbits.basin(orbit, ("v.z_U", sizes), ("z_U", [0.0]))
    assert basin.regained.tolist() == [[True, True, True]]
    with pytest.raises(sl.errors.UnknownName, match=r"v\.z_U"):
        sl.orbits.basin(orbit, ("v.z", sizes), ("z_U", [0.0]))


def test_feedback_contracts_as_its_multiplier_says(hopper):
    """An unstable orbit (multiplier 1.35) is held by changing D_G once per stride."""
    unstable = sl.find_orbit(hopper, hopper.keyframes["takeoff"], free="D_G", where={"time in flight": 0.2})
    gait = sl.find_orbit(hopper, unstable.start)
    assert not gait.is_stable
    feedback = sl.orbits.stabilise(gait, "D_G", input_weights=[10.0])
    assert np.abs(feedback.multipliers).max() < 1
    push = {"z_U": 1e-4}
    held, _ = feedback.run(push, 8)
    lost, _ = feedback.run(push, 8, closed=False)
    assert held[-1] < 0.02 * held[0]
    assert lost[-1] > 3 * lost[0]
    with pytest.raises(sl.errors.BadValue, match="weight"):
        sl.orbits.stabilise(gait, "D_G", input_weights=[-1.0])


@pytest.mark.slow
def test_bolt_runs_periodically_with_a_crank_that_turns_on():
    """From a rough guess; the crank turns once per stride, so angles count modulo a turn, and x is quotiented out."""
    system = sl.zoo.bolt()
    orbit = sl.find_orbit(system, system.keyframes["drop"], control=system.controls["run"])
    # DOP853 at 1e-12 on the hand-derived equations: 283.80 ms, 1.279 m/s, duty 0.277, multiplier -0.0875
    assert (orbit.period, orbit.speed, orbit.duty) == pytest.approx((0.28380, 1.279, 0.277), abs=5e-4)
    assert orbit.multipliers[0] == pytest.approx(-0.0875, abs=3e-4)
    run = orbit.simulate(2.0)
    assert run["boom.y"][-1] == pytest.approx(orbit.start.q.boom.y, abs=1e-6)
    fast = sl.find_orbit(system, orbit.start, control=system.controls["run"], free="omega", where={"speed": 1.3})
    assert fast.speed == pytest.approx(1.3, abs=1e-9)


def test_whole_turns_at_the_start_cost_nothing():
    """A pendulum that turns over, at any number of turns: T is the integral of da / sqrt(2 (E - g sin a)) over one."""
    m = sl.Mechanism("rotor")
    m.revolute("pin", m.ground, m.link("bob", mass=1.0, com=(1.0, 0.0)))
    energy = 9.0**2 / 2 + 9.81 * math.sin(0.4)
    period = quad(lambda a: 1 / math.sqrt(2 * (energy - 9.81 * math.sin(a))), 0, 2 * math.pi, epsabs=1e-13)[0]
    start = m.assemble(pin=0.4, rates={"pin": 9.0})
    for turns in (0, -160, 100_000):
        wound = sl.State(m, start.positions + 2 * math.pi * turns, start.velocities, start.params)
        orbit = sl.find_orbit(m, wound, section=sl.When(lambda s: sl.math.sin(s.q.pin), "rising"))
        assert orbit.period == pytest.approx(period, abs=1e-9)
        assert abs(orbit.start.q.pin) < 7


def test_an_angle_too_large_for_the_tolerance_is_named():
    m = sl.Mechanism("coil")
    m.revolute("pin", m.ground, m.link("bob", mass=1.0, inertia=0.1, com=(1.0, 0.0)))
    m.joint_spring("coil", "pin", stiffness=50.0, rest=1e6)
    start = sl.State(m, np.array([1e6 + 0.5]), np.zeros(1), {})
    with pytest.raises(sl.errors.NoOrbit, match=r"pin is 1e\+06 .* too large for a tolerance of 1e-14"):
        sl.find_orbit(m, start, section=sl.When(lambda s: s.v.pin, "falling"), tolerance=1e-14)


def trammel(mass):
    """Two blocks of 1 kg on crossed slides, tied by a rod of 0.5 m without mass: a pendulum of that length."""
    m = sl.Mechanism("trammel")
    a, b = m.link("a", mass=1.0), m.link("b", mass=1.0)
    rod = m.rod("rod", mass=mass, length=0.5) if mass else m.massless("rod")
    m.slide("x", m.ground, a, axes="x")
    m.slide("y", m.ground, b, axes="y")
    m.revolute("turn", a, rod)
    m.revolute("end", rod.at(0.5, 0), b)
    start = m.assemble(turn=-math.pi / 2 - 0.6, near={"x": 0.3, "y": -0.4})
    return sl.find_orbit(m, start, section=sl.When(lambda s: s.v.turn, "falling"))


def test_links_without_mass_have_orbits():
    """T = m l^2 w^2 / 2 of both blocks together: 4 sqrt(l / g) K(sin^2(A / 2)) for every swing A of the family."""
    for mass, near in ((0.0, 1e-10), (1e-9, 1e-8)):
        orbit = trammel(mass)
        swing = orbit.start.q.turn + math.pi / 2
        assert swing > 0.5
        exact = 4 * math.sqrt(0.5 / 9.81) * ellipk(math.sin(swing / 2) ** 2)
        assert orbit.period == pytest.approx(exact, rel=near)
        assert orbit.error < 1e-8


def test_a_start_that_crosses_the_section_the_other_way_runs_on_to_it():
    """It once became the orbit's start: what a swing maps to its mirror image is rest, which then was the orbit."""
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.link("bob", mass=1.0, com=(1.0, 0.0)))
    orbit = sl.find_orbit(m, m.assemble(pin=-math.pi / 2 - 0.6), section=sl.When(lambda s: s.v.pin, "falling"))
    swing = orbit.start.q.pin + math.pi / 2
    assert swing > 0.5
    assert orbit.period == pytest.approx(4 * math.sqrt(1 / 9.81) * ellipk(math.sin(swing / 2) ** 2), rel=1e-10)


def test_rest_is_no_orbit():
    """A damped pendulum crosses v = 0 for ever; what comes back to itself is the lowest point, at rest."""
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.link("bob", mass=1.0, com=(1.0, 0.0)))
    m.joint_spring("friction", "pin", stiffness=0.0, damping=0.3)
    with pytest.raises(sl.errors.NoOrbit, match="ends at rest"):
        sl.find_orbit(m, m.assemble(pin=-math.pi / 2 + 0.6), section=sl.When(lambda s: s.v.pin, "falling"))
