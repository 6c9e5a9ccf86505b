"""Plans against optima that are known: closed forms, other transcriptions written here, conservation laws."""

import math

import casadi as ca
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, least_squares, minimize_scalar

import saltus as sl
from saltus.errors import BadValue, NotSolved, UnknownName

G = 9.81


# ---- a block on a rail --------------------------------------------------------------------------------------------


def rail(stiffness=0.0, mass=1.0):
    """A block pushed along x, with a spring to the origin if it has a stiffness."""
    m = sl.Mechanism("block", gravity=0.0)
    m.slide("x", m.ground, m.link("block", mass=mass), axes="x", motor=True)
    m.joint_spring("spring", "x", stiffness=stiffness)
    return m


def move(m, duration=1.0, distance=1.0, intervals=10):
    """From rest to rest."""
    plan = sl.Plan(m, duration=duration, intervals=intervals)
    plan.require(plan.start == m.assemble(x=0.0), plan.end.q.x == distance, plan.end.v.x == 0)
    return plan


def effort(plan):
    plan.minimise(plan.integral(plan.u.squared_norm))
    return plan


@pytest.mark.parametrize("scheme", [sl.plan.HermiteSimpson(), sl.plan.HermiteSimpson(compressed=True)])
def test_least_effort_of_a_double_integrator(scheme):
    """x'' = u from rest to rest over 1 m in 1 s: u = 6 - 12 t, which Hermite-Simpson integrates exactly."""
    best = sl.plan.solve(effort(move(rail())), method=sl.plan.Method(scheme=scheme))
    assert best.objective == pytest.approx(12.0, abs=1e-9)
    assert best.torques.x == pytest.approx(6 - 12 * best.t, abs=1e-8)
    assert best.q.x == pytest.approx(3 * best.t**2 - 2 * best.t**3, abs=1e-9)
    assert best.flight.follows
    assert best.flight.state_error < 1e-9
    assert best.energy_account["work of motor x"] == pytest.approx(0.0, abs=1e-9)


def test_least_time_is_bang_bang():
    """|u| <= 1 over 4 m: T = 2 sqrt(4) s, full push to the middle, full brake after it."""
    plan = move(rail(), duration=(0.5, 10.0), distance=4.0, intervals=20)
    plan.bound(plan.u.x, -1, 1)
    plan.minimise(plan.duration)
    best = sl.plan.solve(plan)
    assert best.duration == pytest.approx(4.0, abs=1e-4)
    away = np.abs(best.t - 2) > 0.2
    assert best.torques.x[away] == pytest.approx(np.sign(2 - best.t[away]), abs=1e-3)
    assert np.abs(best.torques.x).max() <= 1.0


@pytest.mark.parametrize("scheme", [sl.plan.HermiteSimpson(), sl.plan.HermiteSimpson(compressed=True)])
def test_a_speed_limit_along_the_way(scheme):
    """With speed limited to c the effort falls linearly to zero, the block coasts, and the rest is the mirror image.

    v(t) = c (1 - (1 - t / a)^2) until a = 3 (1 - 1 / c) / 2, so that the cost is 8 c^2 / (3 a).
    """
    c = 1.2
    plan = effort(move(rail(), intervals=20))
    plan.bound(plan.v.x, high=c)
    best = sl.plan.solve(
        plan, method=sl.plan.Method(scheme=scheme), tolerance=None, limits=sl.plan.Limits(accuracy=1e-9)
    )
    a = 1.5 * (1 - 1 / c)
    assert best.objective == pytest.approx(8 * c**2 / (3 * a), rel=1e-8)
    assert best.v.x.max() <= c + 1e-9
    coasting = (best.t > a + 1e-9) & (best.t < 1 - a - 1e-9)
    assert best.torques.x[coasting] == pytest.approx(0.0, abs=1e-5)


def test_least_fuel_with_an_absolute_value():
    """int |u| dt with |u| <= U: push, coast, brake, so that the fuel is twice the speed between."""
    U, T, d = 10.0, 1.0, 1.0
    speed = U * (T - math.sqrt(T**2 - 4 * d / U)) / 2
    plan = move(rail(), intervals=40)
    plan.bound(plan.u.x, -U, U)
    plan.minimise(plan.integral(plan.absolute(plan.u.x)))
    best = sl.plan.solve(plan, tolerance=None)
    assert best.objective == pytest.approx(2 * speed, rel=2e-3)
    coasting = (best.t > speed / U + 0.05) & (best.t < T - speed / U - 0.05)
    assert np.abs(best.torques.x[coasting]).max() <= best.rounding[0] < 0.003 * U


SCHEMES = [sl.plan.HermiteSimpson(), sl.plan.HermiteSimpson(compressed=True), sl.plan.Trapezoidal()]


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_power_does_not_hide_between_the_nodes(scheme):
    """A cart that comes with -v and leaves with v takes m v^2, whatever its motor does: braking and pushing.

    A kick while a rate passes through zero at a node has no power at any node, and would cost nothing there.
    """
    m = sl.Mechanism("rail")
    m.slide("x", m.ground, m.link("cart", mass=2.0), axes="x", motor=True)
    plan = sl.Plan(m, duration=1.0, intervals=21)
    plan.require(plan.start == m.assemble(x=0.0, rates={"x": -1.0}), plan.end.q.x == 0, plan.end.v.x == 1)
    plan.bound(plan.u.x, -400.0, 400.0)
    plan.minimise(plan.integral(plan.absolute(plan.power.x)))
    best = sl.plan.solve(plan, method=sl.plan.Method(scheme=scheme), tolerance=None)
    assert best.objective == pytest.approx(2.0, rel=0.1)  # Simpson's rule over an |u v| with a kink
    power = np.abs(best.flown.torques.x * best.flown.v.x)
    assert (power[1:] + power[:-1]) @ np.diff(best.flown.t) / 2 > 2.0 * (1 - 1e-3)
    assert "rounded off within" in best.report()


def test_an_absolute_value_that_nothing_depends_on_changes_nothing():
    plain = sl.plan.solve(effort(move(rail())), fly=False)
    plan = move(rail())
    plan.integral(plan.absolute(plan.u.x))
    assert sl.plan.solve(effort(plan), fly=False).objective == plain.objective


def test_an_absolute_value_in_a_condition_is_exact():
    """|v| <= V is a bound on v from both sides."""
    found = []
    for say in (lambda p: p.require(p.absolute(p.v.x) <= 1.2), lambda p: p.bound(p.v.x, -1.2, 1.2)):
        plan = move(rail())
        say(plan)
        found.append(sl.plan.solve(effort(plan), fly=False).objective)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_a_ratio_of_an_integral():
    """(int u^2 dt + 3) / d with int u^2 dt = 12 d^2: d = 1/2, ratio 12."""
    m = rail()
    plan = sl.Plan(m, duration=1.0, intervals=6)
    plan.require(plan.start == m.assemble(x=0.0), plan.end.v.x == 0, plan.end.q.x >= 0.1)
    plan.minimise((plan.integral(plan.u.x**2) + 3) / plan.end.q.x)
    best = sl.plan.solve(plan, guess={"t": [0, 1], "x": [0, 1]})
    assert best.end.q.x == pytest.approx(0.5, abs=1e-5)
    assert best.objective == pytest.approx(12.0, abs=1e-8)


def test_stretches_of_a_run_are_a_guess():
    """A block that is pushed to and fro; the plan from there is the block's own, 12 d^2."""
    m = rail()
    run = sl.simulate(m, m.assemble(x=0.0), until=3.0, control=lambda t, s: {"x": sl.math.cos(t)})
    plan = sl.Plan(m, duration=1.0, intervals=6)
    plan.require(plan.start == m.assemble(x=0.0), plan.end.v.x == 0, plan.end.q.x == 0.5)
    plan.minimise(plan.integral(plan.u.x**2))
    best = sl.plan.solve(plan, guess=[sl.plan.stretch(run, 1.0, 2.0)])
    assert best.objective == pytest.approx(3.0, abs=1e-8)
    with pytest.raises(BadValue, match=r"has 2 phases, the plan 1; give one stretch per phase"):
        sl.plan.solve(plan, guess=[sl.plan.stretch(run, 1.0, 2.0)] * 2)
    with pytest.raises(BadValue, match=r"samples between 5 and 6 s; give times between 0 and 3 s"):
        sl.plan.stretch(run, 5.0, 6.0)
    other = effort(sl.Plan(sl.zoo.four_bar(), duration=1.0))
    with pytest.raises(BadValue, match="it is of another machine"):
        sl.plan.solve(other, guess=[sl.plan.stretch(run, 1.0, 2.0)])


def test_an_integral_that_is_bounded():
    """The furthest an effort of 12 N2 s carries the block in 1 s is 1 m."""
    m = rail()
    plan = sl.Plan(m, duration=1.0, intervals=6)
    plan.require(plan.start == m.assemble(x=0.0), plan.end.v.x == 0, plan.integral(plan.u.x**2) <= 12)
    plan.minimise(-plan.end.q.x)
    best = sl.plan.solve(plan, guess={"t": [0, 1], "x": [0, 0.5]})
    assert best.end.q.x == pytest.approx(1.0, abs=1e-6)


def test_a_freed_param_takes_its_best_value():
    """A block that swings from -1 m to 1 m in 1 s needs no motor if its spring has k = m pi^2."""
    m = sl.Mechanism("spring", gravity=0.0)
    k = m.param("k", 4.0, "N/m")
    m.slide("x", m.ground, m.link("block", mass=2.0), axes="x", motor=True)
    m.joint_spring("spring", "x", stiffness=k)
    plan = sl.Plan(m, duration=1.0, intervals=20)
    plan.param("k", 0.0, 100.0)
    plan.require(plan.start == m.assemble(x=-1.0), plan.end.q.x == 1, plan.end.v.x == 0)
    best = sl.plan.solve(effort(plan), tolerance=1e-6)
    assert best.params["k"] == pytest.approx(2 * math.pi**2, rel=1e-5)
    assert best.objective == pytest.approx(0.0, abs=1e-6)
    assert best.flight.follows
    with pytest.raises(NotSolved) as stopped:
        sl.plan.solve(plan, best, tolerance=None, limits=sl.plan.Limits(iterations=1))
    assert stopped.value.best.params["k"] == pytest.approx(best.params["k"], rel=1e-3)  # goes on from there
    with pytest.raises(UnknownName, match="k"):
        plan.param("stiffness", 0.0, 1.0)


# ---- order of convergence -----------------------------------------------------------------------------------------


def oscillator(T=2.0, w=2.0):
    """Least effort of x'' = -w^2 x + u from (1, 0) to rest: its cost d' W^-1 d, with the Gramian W, and the states."""

    def free(t):
        return np.array([[math.cos(w * t), math.sin(w * t) / w], [-w * math.sin(w * t), math.cos(w * t)]])

    def gramian(t):
        wave, mixed = math.sin(2 * w * t) / (4 * w), math.sin(w * t) ** 2 / (2 * w**2)
        return np.array([[(t / 2 - wave) / w**2, mixed], [mixed, t / 2 + wave]])

    d = -free(T) @ [1.0, 0.0]
    costate = np.linalg.solve(gramian(T), d)
    return float(d @ costate), lambda t: free(t) @ [1.0, 0.0] + gramian(t) @ free(T - t).T @ costate


@pytest.mark.parametrize(
    ("scheme", "order"),
    [(sl.plan.Trapezoidal(), 2), (sl.plan.HermiteSimpson(), 4), (sl.plan.HermiteSimpson(compressed=True), 4)],
)
def test_orders_of_convergence(scheme, order):
    """States and cost of an oscillator brought to rest, on meshes halved twice."""
    cost, state = oscillator()
    m = rail(stiffness=4.0)
    errors = []
    for n in (8, 16, 32):
        plan = sl.Plan(m, duration=2.0, intervals=n)
        plan.require(plan.start == m.assemble(x=1.0), plan.end.q.x == 0, plan.end.v.x == 0)
        best = sl.plan.solve(
            effort(plan),
            method=sl.plan.Method(scheme=scheme),
            tolerance=None,
            limits=sl.plan.Limits(accuracy=1e-11),
            fly=False,
        )
        exact = np.array([state(t) for t in best.t])
        found = np.column_stack([best.q.x, best.v.x])
        errors.append((np.abs(found - exact).max(), abs(best.objective - cost)))
    rates = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert rates[-1] == pytest.approx([order, order], abs=0.25)


# ---- classics -----------------------------------------------------------------------------------------------------


def test_brachistochrone():
    """A bead falls along a wire to (1, -0.5) m: least time on a cycloid.

    It turns there at the constant rate sqrt(g / R) / 2, and gravity bends its way back as much, so that the wire's
    force u (-v_y, v_x), which does no work, has u = sqrt(g / R). A little effort in the cost keeps u from rattling
    where it has no use; at the least its effect on the time is of second order.
    """
    m = sl.Mechanism("bead")
    bead = m.link("bead", mass=1.0)
    m.slide("b", m.ground, bead, axes="xy")
    u, v = m.input("u"), m.v.b
    m.force("wire", bead.at(0, 0), (-u * v.y, u * v.x))
    angle = brentq(lambda s: 0.5 * (s - math.sin(s)) - (1 - math.cos(s)), 0.1, 6)
    radius = 0.5 / (1 - math.cos(angle))
    plan = sl.Plan(m, duration=(0.1, 2.0), intervals=20)
    plan.require(plan.start == m.assemble(b=(0, 0)), plan.end.q.b.x == 1, plan.end.q.b.y == -0.5)
    plan.bound(plan.u.u, -10, 10)
    plan.minimise(plan.duration + 1e-4 * plan.integral(plan.u.u**2))
    best = sl.plan.solve(plan, tolerance=1e-6)
    assert best.duration == pytest.approx(angle * math.sqrt(radius / G), rel=2e-4)
    middle = (best.t > 0.1 * best.duration) & (best.t < 0.9 * best.duration)
    assert best.torques.u[middle] == pytest.approx(math.sqrt(G / radius), rel=0.03)
    assert np.ptp(best.energy["total"]) < 1e-3


def cart_pole():
    """Swing-up of Kelly (2017), SIAM Review 59: cart 1 kg, bob 0.3 kg at 0.5 m, 1 m in 2 s, 20 N."""
    m = sl.Mechanism("cart-pole")
    cart, pole = m.link("cart", mass=1.0), m.link("pole", mass=0.3, com=(0, -0.5))
    m.slide("cart", m.ground, cart, axes="x", motor=True)
    m.revolute("pole", cart.at(0, 0), pole)
    return m


def swing_up(m, intervals=20):
    plan = sl.Plan(m, duration=2.0, intervals=intervals)
    plan.require(plan.start == m.assemble(cart=0.0, pole=0.0), plan.end == m.assemble(cart=1.0, pole=math.pi))
    plan.bound(plan.u.cart, -20, 20)
    plan.bound(plan.q.cart, -2, 2)
    return effort(plan)


STRAIGHT = {"t": np.linspace(0, 2, 21), "cart": np.linspace(0, 1, 21), "pole": np.linspace(0, math.pi, 21)}


def other_swing_up(n=160):
    """Least effort by multiple shooting with Runge-Kutta steps and straight inputs, in Kelly's equations of motion."""
    M, mass, length, h = 1.0, 0.3, 0.5, 2 / n

    def rate(y, u):
        s, c, w = ca.sin(y[1]), ca.cos(y[1]), y[3]
        inertia = M + mass * s**2
        cart = (length * mass * s * w**2 + u + mass * G * c * s) / inertia
        pole = -(length * mass * c * s * w**2 + u * c + (M + mass) * G * s) / (length * inertia)
        return ca.vertcat(y[2], w, cart, pole)

    y, a, b = ca.SX.sym("y", 4), ca.SX.sym("a"), ca.SX.sym("b")
    k1 = rate(y, a)
    k2 = rate(y + h / 2 * k1, (a + b) / 2)
    k3 = rate(y + h / 2 * k2, (a + b) / 2)
    step = ca.Function("step", [y, a, b], [y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(y + h * k3, b))])
    o = ca.Opti()
    Y, u = o.variable(4, n + 1), o.variable(1, n + 1)
    o.subject_to(ca.vec(Y[:, 1:] - step.map(n)(Y[:, :-1], u[:-1], u[1:])) == 0)
    o.subject_to(Y[:, 0] == 0)
    o.subject_to(Y[:, -1] == ca.DM([1, math.pi, 0, 0]))
    o.subject_to(o.bounded(-20, ca.vec(u), 20))
    o.minimize(h / 3 * ca.sum2(u[:-1] ** 2 + u[:-1] * u[1:] + u[1:] ** 2))
    o.set_initial(Y[0, :], np.linspace(0, 1, n + 1))
    o.set_initial(Y[1, :], np.linspace(0, math.pi, n + 1))
    o.solver("ipopt", {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}})
    return float(o.solve().value(o.f))


@pytest.fixture(scope="module")
def swung():
    return sl.plan.solve(swing_up(cart_pole()), STRAIGHT, tolerance=1e-6)


def test_cart_pole_swings_up_as_another_transcription_has_it(swung):
    assert swung.objective == pytest.approx(other_swing_up(), rel=1e-4)
    assert swung.flight.follows
    assert swung.outcome.ok


def test_meshes_are_refined_until_the_tolerance(swung):
    """Each mesh is finer and less wrong; what the last one lacks is small, and it is finer where it had to be."""
    meshes, found = [sum(r.intervals) for r in swung.rounds], [r.error for r in swung.rounds]
    assert meshes == sorted(set(meshes))
    assert found == sorted(found, reverse=True)
    assert found[0] > 1e-4
    assert swung.mesh_error <= 1e-6
    h = np.diff(swung.t)
    assert h.max() > 1.5 * h.min()
    assert swung.meta["notes"] == []
    short = sl.plan.solve(
        swing_up(swung.mechanism), STRAIGHT, tolerance=1e-6, method=sl.plan.Method(refinements=1), fly=False
    )
    assert short.mesh_error > 1e-6
    assert short.coarse
    assert not swung.coarse
    assert "above the tolerance 1e-06: 1 refinements were not enough" in short.report()


def test_guesses(swung, tmp_path):
    """From an earlier plan, from the run that flew it, by name and from a coarser mesh: one optimum."""
    m, cost = swung.mechanism, swung.objective
    plan = swing_up(m)
    again = sl.plan.solve(plan, swung, tolerance=None, fly=False)
    assert again.rounds[0].iterations < 10
    assert again.objective == pytest.approx(cost, rel=5e-3)
    flown = sl.plan.solve(plan, swung.flown, tolerance=None, fly=False)
    assert flown.objective == pytest.approx(again.objective, rel=1e-7)
    coarse = sl.plan.solve(swing_up(m, 10), STRAIGHT, tolerance=None, fly=False)
    fine = sl.plan.solve(swing_up(m, 40), coarse, tolerance=None, fly=False)
    assert fine.objective == pytest.approx(cost, rel=2e-4)
    named = {"t": swung.t, "cart": swung.q.cart, "pole": swung.q.pole, "u.cart": swung.torques.cart}
    assert sl.plan.solve(plan, named, tolerance=None, fly=False).objective == pytest.approx(again.objective, rel=1e-7)
    with pytest.raises(UnknownName, match="trolley"):
        sl.plan.solve(plan, {"t": [0, 2], "trolley": [0, 1]})
    with pytest.raises(BadValue, match="a guess is"):
        sl.plan.solve(plan, 3.0)
    with pytest.raises(BadValue, match="other"):
        sl.plan.solve(plan, sl.plan.solve(effort(move(rail()))))
    loaded = sl.read(sl.write(swung, tmp_path / "swing.nc"))
    assert sl.plan.solve(plan, loaded, tolerance=None, fly=False).objective == pytest.approx(again.objective, rel=1e-7)


# ---- legs ---------------------------------------------------------------------------------------------------------

BODY, FOOT = 4.0, 1.0


def hopper():
    """A body above a foot, with a motor in the leg between them."""
    m = sl.Mechanism("two-mass hopper")
    body, foot = m.link("body", mass=BODY), m.link("foot", mass=FOOT)
    m.slide("body", m.ground, body, axes="y")
    m.slide("leg", body, foot, axes="y", motor=True)
    m.point("foot", foot.at(0, 0))
    system = sl.HybridSystem(m)
    flight, stance = system.domain("flight"), system.domain("stance", contacts=[sl.Pinned("foot")])
    system.edge(flight, stance, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(stance, flight, guard=sl.Liftoff("foot"), reset=sl.Continuous())
    return system


def least(v0, v1, d, T):
    """int a^2 dt of the double integrator from (0, v0) to (d, v1) in T."""
    return 4 * (v0**2 + v0 * v1 + v1**2) / T - 12 * d * (v0 + v1) / T**2 + 12 * d**2 / T**3


def test_a_landing_in_closed_form():
    """Flight of 0.3 s, plastic touchdown, rest after 0.4 s.

    In flight the centre of mass falls and the leg is a double integrator with the reduced mass; when it lands it has
    the length that the fall left. In stance the body is one under its weight. The leg's speed at touchdown, w, is all
    that is free: the impact stops the foot and loses T_c = FOOT (v_body + w)^2 / 2.
    """
    air, ground, total = 0.3, 0.4, BODY + FOOT
    y, leg, v, rate, end = 1.0, -0.9, 1.5, -0.5, 0.9
    centre, speed = y + FOOT * leg / total, v + FOOT * rate / total
    height = (centre + speed * air - G * air**2 / 2) * total / BODY  # of the body, with the foot on the ground
    falls = speed - G * air
    reduced = BODY * FOOT / total

    def cost(w):
        down = falls - FOOT * w / total
        flight = reduced**2 * least(rate, w, -height - leg, air)
        stance = BODY**2 * (least(down, 0.0, end - height, ground) - 2 * G * down + G**2 * ground)
        return flight + stance

    exact = minimize_scalar(cost)
    down = falls - FOOT * exact.x / total
    system = hopper()
    domains = system.domains
    plan = sl.Plan(domains["flight"], domains["stance"], duration=[air, ground], intervals=[4, 4])
    start = system.mechanism.assemble(body=y, leg=leg, rates={"body": v, "leg": rate})
    plan.require(plan.start == start, plan.end.q.body == end, plan.end.v.body == 0)
    lost = plan.lost(0)
    best = sl.plan.solve(effort(plan))
    assert best.objective == pytest.approx(exact.fun, rel=1e-7)
    (event,) = best.events
    assert (event.t, event.target) == (pytest.approx(air), "stance")
    assert event.v_before == pytest.approx([down, exact.x], abs=1e-4)
    assert event.impact.T_c == pytest.approx(FOOT * (down + exact.x) ** 2 / 2, rel=1e-4)
    assert best.flight.follows
    assert best.energy_account["relative residual"] < 1e-6
    gentle = sl.Plan(domains["flight"], domains["stance"], duration=[air, ground], intervals=[4, 4])
    gentle.require(gentle.start == start, gentle.end.q.body == end, gentle.end.v.body == 0, gentle.lost(0) <= 1.0)
    soft = sl.plan.solve(effort(gentle), best)
    assert soft.events[0].impact.T_c == pytest.approx(1.0, abs=1e-5)
    assert soft.objective > best.objective
    assert lost.is_scalar()


def test_an_impact_has_the_params_of_the_domain_it_leads_to():
    """A bar falls on its foot and turns about it: w+ (I + m l^2) = -m l cos(theta) V, with the I of the stance.

    The wheel on its centre gives the plan something to choose; no torque acts on it in the impact.
    """
    length, tilt, height, inertia = 0.4, 0.7, 0.2, 0.05
    m = sl.Mechanism("bar")
    bar, wheel = m.link("bar", mass=1.0, inertia=m.param("I", 0.01, "kg m2")), m.link("wheel", mass=0.5, inertia=0.01)
    m.free("base", m.ground, bar)
    m.revolute("wheel", bar, wheel, motor=True)
    m.point("foot", bar.at(-length, 0))
    system = sl.HybridSystem(m)
    air = system.domain("air")
    ground = system.domain("ground", contacts=[sl.Pinned("foot")], params={"I": inertia})
    system.edge(air, ground, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    plan = sl.Plan(air, ground, duration=[(0.05, 0.5), 0.01], intervals=[4, 4])
    start = m.assemble(**{"base.x": 0.0, "base.y": height + length * math.sin(tilt), "base.angle": tilt})
    plan.require(plan.start == start)
    falls = math.sqrt(2 * G * height)
    best = sl.plan.solve(effort(plan), sl.simulate(system, start, domain=air, until=falls / G + 0.01))
    turns = -1.5 * length * math.cos(tilt) * falls / (inertia + 1.5 * length**2)
    before, after = 1.5 * falls**2 / 2, (inertia + 1.5 * length**2) * turns**2 / 2
    (event,) = best.events
    assert event.v[2] == pytest.approx(turns, rel=1e-3)
    assert event.t == pytest.approx(falls / G, rel=1e-3)
    assert best.objective == pytest.approx(0.0, abs=1e-6)
    assert event.impact.T_c == pytest.approx(before - after, rel=1e-3)
    assert best.flight.follows


def test_a_floating_machine_is_where_it_is_along_the_way():
    """A ceiling that is just not reached does not matter; one below the apex v^2 / (2 g) cannot be kept under."""

    def under(ceiling):
        m = sl.Mechanism("ball")
        ball, wheel = m.link("ball", mass=1.0, inertia=0.01), m.link("wheel", mass=0.1, inertia=0.01)
        m.free("base", m.ground, ball)
        m.revolute("wheel", ball, wheel, motor=True)
        plan = sl.Plan(m, duration=0.5, intervals=5)
        plan.require(plan.start == m.assemble(rates={"base.y": 2.0}), plan.end.q.wheel == 1.0)
        plan.bound(plan.q["base.y"], -math.inf, ceiling)
        return sl.plan.solve(effort(plan), tolerance=None)

    apex = 2.0**2 / (2 * G)
    assert under(apex + 1e-3).flight.follows
    with pytest.raises(NotSolved):
        under(apex - 2e-3)


def test_a_hop_repeats_itself():
    """A flight of 0.3 s between equal heights starts with (BODY + FOOT) g 0.15 / BODY; what the motor does in a stride
    is what the touchdown loses."""
    system = hopper()
    plan = sl.Plan(*[system.domains[n] for n in ("stance", "flight")], duration=[(0.1, 0.6), 0.3], intervals=[12, 6])
    flight = plan.phases[1]
    plan.require(flight.start.q.body == 0.9, flight.end.q.body == 0.9)
    plan.bound(plan.q.body, 0.6, 2.0)
    plan.periodic()
    best = sl.plan.solve(effort(plan))
    assert [e.target for e in best.events] == ["flight"]
    off = best.events[0]
    assert off.v_before[0] == pytest.approx((BODY + FOOT) / BODY * G * 0.15, rel=1e-6)
    inside = np.array(best.domain) == "stance"
    normal = best.force("foot")[:, 1]
    assert normal[inside].min() > -1e-7
    assert normal[inside][-1] == pytest.approx(0.0, abs=1e-6)
    first, last = best.start, best.end
    assert first.q.body == pytest.approx(last.q.body, abs=1e-7)
    assert first.v.body == pytest.approx(last.v.body, abs=1e-6)
    foot = last.v.body + last.v.leg
    assert abs(first.v.body + first.v.leg) < 1e-7
    assert sum(best.meta["work"].values()) == pytest.approx(FOOT * foot**2 / 2, rel=1e-3)


def test_a_gait_moves_along():
    """A planar hopper with a swinging leg repeats itself 0.2 m further on; in flight its centre of mass falls."""
    m = sl.Mechanism("planar hopper")
    body, thigh, foot = m.link("body", mass=4.0), m.link("thigh", mass=0.5, inertia=0.01), m.link("foot", mass=0.3)
    m.slide("body", m.ground, body, axes="xy")
    m.revolute("hip", body, thigh, motor=True)
    m.slide("leg", thigh, foot, axes="y", motor=True)
    m.point("foot", foot.at(0, 0))
    system = sl.HybridSystem(m)
    flight, stance = system.domain("flight"), system.domain("stance", contacts=[sl.Pinned("foot")])
    system.edge(flight, stance, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(stance, flight, guard=sl.Liftoff("foot"), reset=sl.Continuous())
    m.keyframes["stand"] = {"body": (0.0, 0.8), "hip": 0.0, "leg": -0.8}
    plan = sl.Plan(stance, flight, duration=[(0.1, 0.5), (0.1, 0.3)], intervals=[8, 6], friction=0.8)
    plan.bound(plan.q.leg, -0.9, -0.5)
    plan.bound(plan.q.hip, -0.6, 0.6)
    plan.periodic(advance="body.x")
    plan.require(plan.start.q.body.x == 0, plan.end.q.body.x == 0.2, plan.phases[1].duration >= 0.15)
    best = sl.plan.solve(effort(plan), tolerance=1e-3, fly=False)
    for name in ("body.y", "hip", "leg"):
        assert best[name][0] == pytest.approx(best[name][-1], abs=1e-6)
    after = sl.impact(system, best.end, "stance")
    assert after.after.velocities == pytest.approx(best.arrays["v"][0], abs=1e-5)
    air = np.array(best.domain) == "flight"
    total = 4.8
    momentum = best.arrays["momentum"][air]
    t = best.t[air] - best.t[air][0]
    assert momentum[:, 0] == pytest.approx(momentum[0, 0], abs=2e-3)
    assert momentum[:, 1] == pytest.approx(momentum[0, 1] - total * G * t, abs=2e-3)
    force = best.force("foot")[~air]
    assert (np.abs(force[:, 0]) <= 0.8 * force[:, 1] + 1e-5).all()
    assert force[-1] == pytest.approx(0.0, abs=1e-6)  # at lift-off the cone is a point


# ---- turns and loops ----------------------------------------------------------------------------------------------


def test_a_ball_joint_turns_about_one_axis():
    """A sphere (I = 0.5 kg m2) turned by 2 rad from rest to rest in 1 s: 12 I^2 2^2, about one axis."""
    m = sl.Mechanism("sphere", spatial=True, gravity=0.0)
    ball = m.link("ball", mass=1.0, inertia=(0.5, 0.5, 0.5))
    m.spherical("joint", m.ground, ball)
    m.torque("wheels", ball, [m.input(f"u{a}") for a in "xyz"])
    axis = np.array([1.0, 2.0, -2.0]) / 3
    end = np.concatenate([[math.cos(1.0)], math.sin(1.0) * axis])
    plan = sl.Plan(m, duration=1.0, intervals=12)
    plan.require(plan.start == m.assemble(), *[plan.end.v[n] == 0 for n in m.v_names])
    plan.require(*[plan.end.q[n] == x for n, x in zip(m.q_names[1:], end[1:], strict=True)])
    plan.require(plan.end.q[m.q_names[0]] >= 0)
    best = sl.plan.solve(effort(plan), tolerance=1e-6, fly=False)
    assert best.objective == pytest.approx(12 * 0.5**2 * 4, rel=1e-5)
    assert np.linalg.norm(best.arrays["q"], axis=1)[::2] == pytest.approx(1.0, abs=1e-8)
    turned = np.array([best.torques[f"u{a}"] for a in "xyz"]).T
    assert np.cross(turned, axis) == pytest.approx(0.0, abs=1e-3)


def test_a_spherical_pendulum_keeps_its_energy():
    """Let go with nothing to choose, a plan is the simulated motion."""
    m = sl.Mechanism("pendulum", spatial=True)
    bob = m.link("bob", mass=1.0, inertia=(0.02, 0.02, 0.01), com=(0, 0, -0.5))
    m.spherical("joint", m.ground, bob)
    start = m.assemble(joint=(math.cos(0.5), math.sin(0.5), 0, 0), rates={"joint": (0.0, 1.0, 2.0)})
    plan = sl.Plan(m, duration=1.0, intervals=20)
    plan.require(plan.start == start)
    best = sl.plan.solve(plan, tolerance=1e-7, fly=False)
    run = sl.simulate(m, start, until=1.0, tolerance=1e-11)
    assert best.arrays["q"][-1] == pytest.approx(run.arrays["q"][-1], abs=1e-6)
    assert np.linalg.norm(best.arrays["q"], axis=1)[::2] == pytest.approx(1.0, abs=1e-8)
    assert np.ptp(best.energy["total"]) < 1e-5


LENGTHS = {"crank": 0.1, "coupler": 0.25, "rocker": 0.2}


def four_bar():
    m = sl.Mechanism("four-bar", gravity=0.0)
    crank, coupler, rocker = (m.rod(n, mass=10 * x, length=x) for n, x in LENGTHS.items())
    m.revolute("crank", m.ground, crank.start, motor=True)
    m.revolute("elbow", crank.end, coupler.start)
    m.revolute("pivot", m.ground.at(0.25, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    return m


def inertia_of_crank(angle):
    """Twice the kinetic energy at unit rate of the crank, by plane geometry in complex numbers.

    The coupler's end B is where two circles meet; rates of coupler and rocker follow from A = r (B - D) - c (B - A).
    """
    (a, b, r), D = LENGTHS.values(), 0.25
    A = a * np.exp(1j * angle)
    reach = np.abs(D - A)
    along = (b**2 - r**2 + reach**2) / (2 * reach)
    B = A + (D - A) / reach * (along + 1j * np.sqrt(b**2 - along**2))

    def cross(x, y):
        return (np.conj(x) * y).imag

    rocker = cross(B - A, A) / cross(B - A, B - D)
    coupler = -cross(B - D, A) / cross(B - D, B - A)
    centre = np.abs(A + coupler * (B - A) / 2)
    return 10 * (a**3 / 3 + b * centre**2 + b**3 / 12 * coupler**2 + r**3 / 3 * rocker**2)


def test_a_four_bar_moves_as_in_minimal_coordinates():
    """Crank from 0.5 to 2.5 rad in 0.5 s with least effort, against torque = I a'' + I' a'^2 / 2 of one coordinate.

    The other solution expands the crank's angle in Legendre polynomials and takes the least squares of its torque.
    """
    T = 0.5
    points, weights = np.polynomial.legendre.leggauss(40)
    s = (points + 1) / 2
    poly = np.polynomial.Polynomial
    basis = [poly([0, 0, 3, -2])] + [
        poly([0, 0, 1]) * poly([1, -2, 1]) * np.polynomial.Legendre.basis(k, domain=[0, 1]).convert(kind=poly)
        for k in range(14)
    ]
    B, B1, B2 = (np.array([b.deriv(k)(s) if k else b(s) for b in basis]).T for k in range(3))

    angles = np.linspace(0, 3.2, 801)
    inertia = CubicSpline(angles, inertia_of_crank(angles))

    def torque(c):
        c = np.concatenate([[2.0], c])
        a, a1, a2 = 0.5 + B @ c, B1 @ c / T, B2 @ c / T**2
        return np.sqrt(weights * T / 2) * (inertia(a) * a2 + inertia(a, 1) * a1**2 / 2)

    other = 2 * least_squares(torque, np.zeros(14), ftol=1e-12, xtol=1e-12).cost
    m = four_bar()
    near = {"elbow": 0.5, "pivot": 2.0}
    start = m.assemble(crank=0.5, near=near)
    plan = sl.Plan(m, duration=T, intervals=12)
    plan.require(plan.start == start, plan.end.q.crank == 2.5, plan.end.v.crank == 0)
    best = sl.plan.solve(effort(plan), {"t": [0, T], "crank": [0.5, 2.5]}, tolerance=1e-6)
    assert best.objective == pytest.approx(other, rel=1e-4)
    assert best.arrays["gap"][::2] == pytest.approx(0.0, abs=1e-8)
    assert best.flight.follows
    assert best.energy_account["relative residual"] < 1e-5


# ---- floating -----------------------------------------------------------------------------------------------------


def acrobat():
    """Two links that float, joined away from their centres of mass."""
    m = sl.Mechanism("acrobat")
    body, leg = m.link("body", mass=3.0, inertia=0.1), m.link("leg", mass=1.0, inertia=0.03, com=(0, -0.2))
    m.planar("base", m.ground, body)
    m.revolute("hip", body.at(0, -0.2), leg, motor=True)
    return m


def somersault(m, momentum):
    plan = sl.Plan(m, duration=0.6, intervals=10)
    base = [n for n in m.q_names if n != "hip"]
    start = m.assemble(base=(0, 1, 0), hip=0.3, rates={"base": (0.5, 2.0, 3.0), "hip": 0.0})
    plan.require(plan.start == start, plan.end.q.hip == 1.5, plan.end.v.hip == 0)
    return base, sl.plan.solve(effort(plan), tolerance=None, method=sl.plan.Method(momentum=momentum), fly=False)


def test_momentum_is_exact_in_free_fall():
    """The centre of mass is on its parabola and the angular momentum is the first one, on any mesh."""
    m = acrobat()
    drift = {}
    for momentum in (True, False):
        _, best = somersault(m, momentum)
        linear, angular = best.arrays["momentum"][:, :2], best.arrays["momentum"][:, 5]
        legs = m.position(m.links["leg"].at(0, -0.2))
        place = ca.Function("place", [ca.vertcat(*m.q)], [legs[:2]])
        com = (3 * best.arrays["q"][:, :2] + np.array([place(q).full().ravel() for q in best.arrays["q"]])) / 4
        own = angular - (com[:, 0] * linear[:, 1] - com[:, 1] * linear[:, 0])
        parabola = com[0] + linear[0] / 4 * best.t[:, None] - [0, G / 2] * best.t[:, None] ** 2
        drift[momentum] = np.abs(own / own[0] - 1).max(), np.abs(com - parabola).max()
    assert max(drift[True]) < 1e-8
    assert drift[False][0] > 1e3 * drift[True][0]
    assert drift[False][0] < 1e-2


def test_a_plan_through_domains_is_followed_on_real_ground_by_its_times():
    """A hop planned as stance, flight and stance, flown by the machine alone, whose foot finds its own contacts."""
    m = sl.Mechanism("bouncer")
    body, foot = m.link("body", mass=2.0), m.link("foot", mass=0.5)
    m.slide("height", m.ground, foot, axes="y")
    m.slide("leg", foot, body, axes="y", motor=True)
    m.foot("foot", foot.origin, friction=0.5)
    hopper = sl.HybridSystem(m)
    air, ground = hopper.domain("air"), hopper.domain("ground", contacts=[sl.Pinned("foot")])
    hopper.edge(air, ground, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    hopper.edge(ground, air, guard=sl.Liftoff("foot"), reset=sl.Continuous())
    plan = sl.Plan(ground, air, ground, duration=[(0.1, 0.5), (0.1, 0.5), (0.1, 0.5)], intervals=[12, 8, 12])
    flight = plan.phases[1]
    plan.require(plan.start == m.assemble(height=0.0, leg=0.3), flight.duration == 0.2)
    plan.require(plan.end.q.leg == 0.3, plan.end.v.leg == 0)
    plan.bound(plan.q.leg, 0.15, 0.5)
    plan.minimise(plan.integral(plan.u.leg**2))
    best = sl.plan.solve(plan)
    law = sl.control.JointPD(best, kp=500.0, kd=20.0)
    run = sl.simulate(m, best.start, until=best.duration, control=law)
    lifts, lands = (e.t for e in best.events)
    (opened,) = (x for x in run.contacts["foot"] if x.mode == "open")
    assert opened.begin == pytest.approx(lifts, abs=1e-4)
    assert opened.end == pytest.approx(lands, abs=1e-4)
    assert np.abs(run.arrays["q"] - best.states(run.t)[:, :2]).max() < 1e-4
    held = sl.control.following(run, law)
    assert held.holds
    assert held.largest < 5e-3  # samples of the plan are joined by straight lines there


def test_impulses_of_the_ground_are_quantities_of_a_plan():
    """A point mass that falls from h with speed u takes m sqrt(2 g h) upwards and m u along the ground as it sticks."""
    m = sl.Mechanism("mass", gravity=G)
    body = m.link("body", mass=2.0)
    m.slide("base", m.ground, body, axes="xy")
    m.point("sole", body.origin)
    system = sl.HybridSystem(m)
    air, ground = system.domain("air"), system.domain("ground", contacts=[sl.Pinned("sole")])
    system.edge(air, ground, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    plan = sl.Plan(air, ground, duration=[(0.01, 1.0), 0.1], intervals=[4, 2])
    hit = plan.impulse("sole")
    plan.require(plan.start.q["base.x"] == 0, plan.start.v["base.y"] == 0, plan.start.q["base.y"] >= 0.2)
    plan.require(-hit.x >= 0.5 * hit.y)
    plan.minimise(hit.y + plan.start.v["base.x"] ** 2)
    best = sl.plan.solve(plan, fly=False)
    up = 2.0 * math.sqrt(2 * G * 0.2)
    assert best.v["base.x"][0] == pytest.approx(up / 4, rel=1e-5)  # half of the impulse upwards, by the mass
    assert best.objective == pytest.approx(up + (up / 4) ** 2, rel=1e-5)
    with pytest.raises(BadValue, match="no impact comes after"):
        plan.impulse("sole", -1)
