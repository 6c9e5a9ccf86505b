"""Forward and inverse dynamics: against closed forms, free-body balances of every link, and recorded runs."""

import cmath
import math

import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.forward import forward
from saltus.dynamics.inverse import Turning, inverse
from saltus.errors import BadModel, BadValue, Singular, UnknownName

G = 9.81


def test_slider_crank_against_the_textbook():
    """Effort by Lagrange, half the slope of the reduced inertia times speed squared; pin forces by Newton and Euler.

    With s = sin(b) = -r sin(q) / l: x = r cos q + l cos b, and b', b'' follow by differentiation.
    """
    m = sl.zoo.slider_crank()
    r, length, m1, m2, m3, w = 0.04, 0.12, 0.05, 0.10, 0.20, 30.0
    turn = inverse(m.keyframe("extended", crank=0.3), crank=Turning(w))
    q = 0.3 + w * turn.t
    b = np.arcsin(-r * np.sin(q) / length)
    db = -r * np.cos(q) / (length * np.cos(b))  # per rad of the crank
    ddb = (r * np.sin(q) + length * np.sin(b) * db**2) / (length * np.cos(b))
    dx = -r * np.sin(q) - length * np.sin(b) * db
    ddx = -r * np.cos(q) - length * (np.cos(b) * db**2 + np.sin(b) * ddb)
    cx, cy = -r * np.sin(q) - length / 2 * np.sin(b) * db, r * np.cos(q) + length / 2 * np.cos(b) * db  # rod's centre
    ccx = -r * np.cos(q) - length / 2 * (np.cos(b) * db**2 + np.sin(b) * ddb)
    ccy = -r * np.sin(q) + length / 2 * (-np.sin(b) * db**2 + np.cos(b) * ddb)
    slope = m2 * (cx * ccx + cy * ccy) + m2 * length**2 / 12 * db * ddb + m3 * dx * ddx
    effort = w**2 * slope + G * (m1 * r / 2 * np.cos(q) + m2 * cy)
    assert np.allclose(turn.effort.crank, effort, rtol=1e-9, atol=1e-12)
    # on the slider: Fx = m3 x''; on the rod, moments about the crank pin
    Fx = m3 * w**2 * ddx
    lever_x, lever_y = length * np.cos(b), length * np.sin(b)
    moment = m2 * length**2 / 12 * w**2 * ddb + m2 * (
        lever_x / 2 * (w**2 * ccy + G) - lever_y / 2 * w**2 * ccx
    )  # of the wrist's force -F on the rod: lever x (-F)
    Fy = -(moment - lever_y * Fx) / lever_x
    wrist = turn.load("wrist").vector
    assert np.allclose(wrist, np.stack([Fx, Fy], axis=1), rtol=1e-8, atol=1e-10)
    total = m1 * r / 2 * w**2 * np.stack([-np.cos(q), -np.sin(q)]) + w**2 * np.stack([m2 * ccx + m3 * ddx, m2 * ccy])
    assert np.allclose(turn.shaking.vector, -total.T, atol=1e-10)
    assert turn.force("wrist").max() == pytest.approx(np.hypot(Fx, Fy).max())


def maximal_four_bar(a, b, c, d, masses, q1, w, branch):
    """Efforts and pin forces of a four-bar from nine free-body equations; angles and rates from the loop in C."""
    z = a * cmath.exp(1j * q1) - d
    # a e^(i q1) + b e^(i q2) = d + c e^(i q3)
    R = abs(z)
    q3 = cmath.phase(z) + branch * math.acos((R**2 + c**2 - b**2) / (2 * R * c))
    e1, e3 = cmath.exp(1j * q1), cmath.exp(1j * q3)
    e2 = (d + c * e3 - a * e1) / b
    A = np.array([[(1j * b * e2).real, (-1j * c * e3).real], [(1j * b * e2).imag, (-1j * c * e3).imag]])

    def solve(known):
        return np.linalg.solve(A, [-known.real, -known.imag])

    w2, w3 = solve(1j * a * e1 * w)
    al2, al3 = solve(-a * e1 * w**2 - b * e2 * w2**2 + c * e3 * w3**2)
    acc = [-a / 2 * e1 * w**2]
    acc += [-a * e1 * w**2 + b / 2 * e2 * (1j * al2 - w2**2), c / 2 * e3 * (1j * al3 - w3**2)]
    centres = [a / 2 * e1, a * e1 + b / 2 * e2, d + c / 2 * e3]
    pins = [0, a * e1, a * e1 + b * e2, d]
    # forces: pin 0 on crank, pin 1 on coupler, pin 2 on rocker (of the coupler), pin 3 on rocker; torque on the crank
    on = [{0: 1, 1: -1}, {1: 1, 2: -1}, {2: 1, 3: 1}]
    E, rhs = np.zeros((9, 9)), np.zeros(9)
    for k, (size, alpha) in enumerate(zip((a, b, c), (0.0, al2, al3), strict=True)):
        for pin, sign in on[k].items():
            arm = pins[pin] - centres[k]
            E[3 * k, 2 * pin] = E[3 * k + 1, 2 * pin + 1] = sign
            E[3 * k + 2, 2 * pin], E[3 * k + 2, 2 * pin + 1] = -sign * complex(arm).imag, sign * complex(arm).real
        rhs[3 * k : 3 * k + 2] = masses[k] * acc[k].real, masses[k] * (acc[k].imag + G)
        rhs[3 * k + 2] = masses[k] * size**2 / 12 * alpha
    E[2, 8] = 1.0
    return np.linalg.solve(E, rhs)


def test_four_bar_against_free_bodies_in_maximal_coordinates():
    m, w = sl.zoo.four_bar(), -12.0
    turn = inverse(m.keyframe("middle"), crank=Turning(w), samples=73)
    loads = [turn.load(n).vector for n in ("crank", "coupler", "pin", "rocker")]
    for k, t in enumerate(turn.t):
        expected = maximal_four_bar(0.04, 0.1, 0.1, 0.08, (0.05, 0.1, 0.1), math.pi + w * t, w, -1)
        found = np.concatenate([*(x[k] for x in loads), [turn.effort.crank[k]]])
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-10)


def odd_machine():
    """A six-bar of pins and slides with springs, dampers, a motor and a spiral on a loop joint, a force, a torque."""
    m = sl.Mechanism("odd")
    crank, rod = m.rod("crank", mass=0.3, length=0.1), m.rod("rod", mass=0.4, length=0.35)
    rocker = m.link("rocker", mass=0.5, inertia=0.01, com=(0.1, 0.02))
    block, arm = m.link("block", mass=0.2, inertia=0.001), m.rod("arm", mass=0.1, length=0.3)
    m.revolute("q1", m.ground, crank.start, motor=sl.Motor(rotor_inertia=1e-4, gear=3.0))
    m.revolute("q2", crank.end, rod.start)
    m.revolute("q3", rocker.at(0, 0), m.ground.at(0.4, 0))  # written child first
    m.revolute("pin", rod.end, rocker.at(0.3, 0), motor=True)
    m.slide("along", rocker.at(0.1, 0.05, angle=0.2), block.at(0.01, 0), axes="x")
    m.revolute("q5", m.ground.at(0.3, 0.5), arm.start)
    m.revolute("end", arm.end, block.at(0, 0.02))
    m.spring("spring", rod.at(0.1, 0.0), m.ground.at(0.1, -0.3), stiffness=40.0, length=0.2, damping=0.5)
    m.spring("between", crank.end, rocker.at(0.2, 0), stiffness=15.0, length=0.1)
    m.joint_spring("spiral", "pin", stiffness=0.7, rest=0.3, damping=0.02)
    m.joint_spring("other", "q5", stiffness=0.2)
    m.force("push", rod.at(0.2, 0.03), (1.0, 2.0 * sl.math.sin(3 * m.time)))
    m.torque("twist", rocker, 0.3 * m.q.q2)
    return m


def test_every_link_of_an_odd_machine_is_in_balance():
    """Joint forces and springs, summed by hand, give mass times acceleration, which is a difference of places."""
    m = odd_machine()
    begin = m.assemble(q1=0.5, near={"q2": 0.28, "q3": -1.78, "along": 0.14, "q5": -1.7})
    samples, dt = 9, 1e-3
    turn = inverse(begin, q1=lambda t: 0.5 + 2 * t + 3 * sl.math.sin(4 * t), until=(samples - 1) * dt, samples=samples)
    middle, t = samples // 2, turn.t[samples // 2]

    def second(x):
        weights = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
        return np.tensordot(weights, x, axes=(0, 0)) / dt**2

    def place(link, x, y):
        return turn.position(link.at(x, y))[middle]

    def pull(end, other, stiffness, length, damping=0.0):
        gap = turn.position(other) - turn.position(end)
        size = np.linalg.norm(gap, axis=1)
        weights = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
        tension = stiffness * (size[middle] - length) + damping * (weights @ size) / dt
        return tension * gap[middle] / size[middle]

    L = m.links
    spring = pull(L["rod"].at(0.1, 0), m.ground.at(0.1, -0.3), 40.0, 0.2, 0.5)
    between = pull(L["crank"].at(0.1, 0), L["rocker"].at(0.2, 0), 15.0, 0.1)
    applied = {
        "crank": [(between, place(L["crank"], 0.1, 0))],
        "rod": [
            (spring, place(L["rod"], 0.1, 0)),
            (np.array([1.0, 2 * math.sin(3 * t)]), place(L["rod"], 0.2, 0.03)),
        ],
        "rocker": [(-between, place(L["rocker"], 0.2, 0))],
        "block": [],
        "arm": [],
    }
    moments = {"rocker": 0.3 * turn.q.q2[middle]}
    ends = {"q1": ("ground", "crank"), "q2": ("crank", "rod"), "q3": ("rocker", "ground"), "pin": ("rod", "rocker")}
    ends |= {"along": ("rocker", "block"), "q5": ("ground", "arm"), "end": ("arm", "block")}
    for joint, (a, b) in ends.items():
        load, at = turn.load(joint), turn.position(m.joints[joint].b)[middle]
        for link, sign in ((a, -1.0), (b, 1.0)):
            if link != "ground":
                applied[link].append((sign * load.vector[middle], at))
                moments[link] = moments.get(link, 0.0) + sign * load.moment[middle]
    for name, forces in applied.items():
        link = L[name]
        x, y = float(link.com[0]), float(link.com[1])
        track = turn.position(link.at(x, y))
        heading = turn.position(link.at(x + 1, y)) - track
        angle = np.unwrap(np.arctan2(heading[:, 1], heading[:, 0]))
        mass, inertia = float(link.mass), float(link.inertia[2, 2])
        force = sum(f for f, _ in forces) + np.array([0, -mass * G])
        assert np.allclose(force, mass * second(track), atol=1e-6), name
        arms = [(at - track[middle], f) for f, at in forces]
        turned = sum(r[0] * f[1] - r[1] * f[0] for r, f in arms) + moments[name]
        assert turned == pytest.approx(inertia * second(angle), abs=1e-6), name
    # the torque of the motor at q1 moves its rotor too: 3^2 1e-4 kg m2 are not seen by the link
    assert turn.effort.q1[middle] - turn.load("q1").moment[middle] == pytest.approx(9e-4 * turn.a.q1[middle], rel=1e-6)


def test_every_link_of_a_spatial_linkage_is_in_balance():
    """Crank, ball, coupler, universal joint, rocker: Newton and Euler for each, motion by differences of places."""
    m = sl.Mechanism("RSUR", spatial=True, gravity=(1.0, 2.0, -9.0))
    tensor = [[0.010, 0.001, -0.002], [0.001, 0.020, 0.003], [-0.002, 0.003, 0.022]]
    com = (0.05, 0.01, -0.02)
    tilted = [[1, 0, 0], [0, math.cos(0.2), -math.sin(0.2)], [0, math.sin(0.2), math.cos(0.2)]]
    a, b, c = (m.link(n, mass=1.0 + k, inertia=tensor, com=com) for k, n in enumerate(("a", "b", "c")))
    m.revolute("q", m.ground, a, axis=(0.1, 0.2, 1.0), motor=True)
    m.spherical("ball", a.at(0.1, 0, 0), b)
    m.revolute("r", c.at(0, 0, 0), m.ground.at(0.3, 0.25, 0.1), axis="x")  # written child first
    m.universal("end", b.at(0.4, 0, 0, rotation=tilted), c.at(0, 0, 0.25), axes=("y", "x"))
    m.spring("spring", b.at(0.2, 0.1, 0), m.ground.at(0.2, 0, 0.5), stiffness=30.0, length=0.1)
    dt, half = 1e-3, 4
    start = m.assemble(q=0.9, near={"r": 0.3})
    assert start.mobility().freedom == 1
    turn = inverse(start, q=lambda t: 0.9 + t + 0.3 * sl.math.sin(6 * t), until=2 * half * dt, samples=2 * half + 1)
    one = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280]) / dt
    two = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]) / dt**2

    def axial(W):
        return np.array([W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]]) / 2

    gap = turn.position(m.ground.at(0.2, 0, 0.5))[half] - turn.position(b.at(0.2, 0.1, 0))[half]
    pull = 30.0 * (np.linalg.norm(gap) - 0.1) * gap / np.linalg.norm(gap)
    acting = {"a": [], "b": [(pull, np.zeros(3), turn.position(b.at(0.2, 0.1, 0))[half])], "c": []}
    for joint, (first, second) in {"q": ("", "a"), "ball": ("a", "b"), "r": ("c", ""), "end": ("b", "c")}.items():
        load, at = turn.load(joint), turn.position(m.joints[joint].b)[half]
        for link, sign in ((first, -1), (second, 1)):
            if link:
                acting[link].append((sign * load.vector[half], sign * load.moment[half], at))
    for name, wrenches in acting.items():
        link = m.links[name]
        track = turn.position(link.at(*com))
        R = np.stack([turn.position(link.at(*(np.array(com) + e))) - track for e in np.eye(3)], axis=2)
        R0, R1, R2 = R[half], np.tensordot(one, R, 1), np.tensordot(two, R, 1)
        w, alpha = axial(R1 @ R0.T), axial(R2 @ R0.T + R1 @ R1.T)
        world = R0 @ np.array(tensor) @ R0.T
        force = sum(f for f, _, _ in wrenches) + link.mass * np.array([1.0, 2.0, -9.0])
        moment = sum(n + np.cross(at - track[half], f) for f, n, at in wrenches)
        assert np.allclose(force, link.mass * (two @ track), atol=1e-6), name
        assert np.allclose(moment, world @ alpha + np.cross(w, world @ w), atol=1e-6), name
    assert turn.effort.q[half] == pytest.approx(
        turn.load("q").moment[half] @ np.array([0.1, 0.2, 1.0]) / math.sqrt(1.05), abs=1e-9
    )


def test_a_pin_without_motor_and_spring_bears_no_moment():
    turn = inverse(sl.zoo.four_bar().keyframe("middle"), crank=Turning(5.0), samples=13)
    for pin in ("coupler", "rocker", "pin"):
        assert np.abs(turn.load(pin).moment).max() < 1e-12
    assert np.allclose(turn.load("crank").moment, turn.effort.crank, atol=1e-12)


def test_rotor_with_a_product_of_inertia():
    """A body at steady speed w about z bears the force m (g - w^2 r) and, by Euler, the moment w^2 (-Iyz, Ixz, 0)."""
    m = sl.Mechanism("rotor", spatial=True)
    tensor = [[0.02, 0.0, 0.004], [0.0, 0.03, 0.001], [0.004, 0.001, 0.025]]
    body = m.link("body", mass=2.0, inertia=tensor, com=(0.01, 0, 0))
    m.revolute("spin", m.ground, body.at(0, 0, 0), axis="z", motor=True)
    w = 40.0
    turn = inverse(m.assemble(), spin=Turning(w), samples=5)
    load = turn.load("spin")
    assert np.allclose(load.vector[0], [-2.0 * w**2 * 0.01, 0, 2.0 * G])
    weight = np.cross([0.01, 0, 0], [0, 0, 2.0 * G])
    assert np.allclose(load.moment[0], w**2 * np.array([-0.001, 0.004, 0.0]) + weight, atol=1e-9)
    assert np.allclose(turn.effort.spin, 0, atol=1e-10)


def test_forces_that_redundant_constraints_leave_open_are_not_numbers():
    """A planar four-bar of pins in space: what acts in its plane is known, what acts across it is not."""
    plane, space = (four_bar(spatial) for spatial in (False, True))
    flat = inverse(plane.assemble(q1=0.9, near={"q3": 1.5}), q1=Turning(4.0), samples=7)
    deep = inverse(space.assemble(q1=0.9, near={"q3": 1.5}), q1=Turning(4.0), samples=7)
    assert np.allclose(deep.effort.q1, flat.effort.q1, atol=1e-9)
    for joint in ("q1", "q2", "q3", "pin"):
        assert np.allclose(deep.load(joint).vector[:, :2], flat.load(joint).vector, atol=1e-8)
        assert np.isnan(deep.load(joint).vector[:, 2]).all()


def four_bar(spatial=False):
    m = sl.Mechanism("four-bar", spatial=spatial, gravity=(0, -G, 0) if spatial else G)
    z = (0,) if spatial else ()
    a, b, c = (m.rod(n, mass=1.0, length=x) for n, x in (("crank", 0.1), ("coupler", 0.35), ("rocker", 0.3)))
    m.revolute("q1", m.ground.at(0, 0, *z), a.start, motor=True)
    m.revolute("q2", a.end, b.start)
    m.revolute("q3", m.ground.at(0.4, 0, *z), c.start)
    m.revolute("pin", b.end, c.end)
    return m


def test_forward_undoes_inverse():
    turn = inverse(sl.zoo.five_bar().keyframe("stand"), left=lambda t: -2.6 + t**2, right=Turning(-1.0), until=0.3)
    for k in (0, 100, 360):
        now = forward(turn.at(k), {n: float(turn.effort[n][k]) for n in ("left", "right")})
        assert np.allclose(list(now.a), turn.accelerations[k], atol=1e-9)
        assert np.allclose(now.load("ankle").vector, turn.load("ankle").vector[k], atol=1e-9)


def test_forward_against_a_recorded_run():
    """Accelerations, energies, points and the effort of a given motion, as `simulate` records them."""
    leg = sl.zoo.five_bar()
    begin = leg.keyframes["stand"]["left"]
    leg.move("left", begin + 0.3 * (1 - sl.math.cos(10 * leg.time)))
    run = sl.simulate(leg, leg.keyframe("stand"), until=0.2, control=lambda t, s: {"left": 0.0, "right": 0.1})
    k = len(run.t) // 2
    t = float(run.t[k])
    state = sl.State(leg, np.array([run[n][k] for n in leg.q_names]), np.array([run.v[n][k] for n in leg.v_names]), {})
    now = forward(state, {"left": 0.0, "right": 0.1}, t=t)
    assert now.motion_efforts.left == pytest.approx(run.motion_efforts["left"][k], rel=1e-5)
    assert np.allclose(list(now.a), [run.a[n][k] for n in leg.v_names], rtol=1e-5, atol=1e-6)
    assert now.kinetic_energy == pytest.approx(run.energy["kinetic"][k], rel=1e-8)
    assert now.potential_energy == pytest.approx(run.energy["potential"][k], rel=1e-8)


def test_points_of_a_state_against_differences():
    m = sl.zoo.five_bar()
    state = m.keyframe("stand", rates={"left": 1.0, "right": -2.0})
    now, dt = forward(state, {"left": 0.3, "right": -0.2}), 1e-4
    a = np.array(list(now.a))

    def foot(x):
        q = state.positions + x * state.velocities + x**2 / 2 * a
        return sl.trace(m, q, ["foot"])[0, 0]

    assert np.allclose(state.velocity("foot"), (foot(dt) - foot(-dt)) / (2 * dt), atol=1e-7)
    assert np.allclose(now.acceleration("foot"), (foot(dt) - 2 * foot(0) + foot(-dt)) / dt**2, atol=1e-5)
    assert np.allclose(state.jacobian("foot") @ state.velocities, state.velocity("foot"))
    assert state.jacobian("foot").shape == (2, 4)


def test_energy_of_a_pendulum():
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.rod("rod", mass=2.0, length=0.6).start)
    now = forward(m.assemble(pin=0.4, rates={"pin": 3.0}))
    assert now.kinetic_energy == pytest.approx(2.0 * 0.6**2 / 3 * 9.0 / 2)
    assert now.potential_energy == pytest.approx(2.0 * G * 0.3 * math.sin(0.4))
    assert now.a.pin == pytest.approx(-1.5 * G * math.cos(0.4) / 0.6)
    assert now.momentum[5] == pytest.approx(2.0 * 0.6**2 / 3 * 3.0)
    weight = 2.0 * np.array([-0.3 * (9 * math.cos(0.4) + now.a.pin * math.sin(0.4)), 0.0])
    weight[1] = 2.0 * (G + 0.3 * (now.a.pin * math.cos(0.4) - 9 * math.sin(0.4)))
    assert np.allclose(now.load("pin").vector, weight)


def test_what_the_machine_is_given_in_time_counts():
    """A shaken pendulum whose swing is given too: two efforts from M a + h of cart and rod, by hand."""
    m = sl.Mechanism("shaken")
    cart, rod = m.link("cart", mass=1.0), m.rod("rod", mass=0.5, length=0.4)
    m.slide("x", m.ground, cart, axes="x", motion=0.05 * sl.math.sin(20 * m.time))
    m.revolute("angle", cart, rod.start)
    turn = inverse(m, angle=lambda t: -1.5 + 0.2 * sl.math.sin(7 * t), until=0.3, samples=31)
    q, w = turn.q.angle, turn.v.angle
    al, ax = -0.2 * 49 * np.sin(7 * turn.t), -0.05 * 400 * np.sin(20 * turn.t)
    push = 1.5 * ax - 0.5 * 0.2 * (al * np.sin(q) + w**2 * np.cos(q))
    torque = 0.5 * 0.4**2 / 3 * al - 0.5 * 0.2 * ax * np.sin(q) + 0.5 * G * 0.2 * np.cos(q)
    assert np.allclose(turn.effort.x, push, atol=1e-10)
    assert np.allclose(turn.effort.angle, torque, atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "call", "said"),
    [
        (UnknownName, lambda m, s: inverse(s, crnk=Turning(1.0)), "Did you mean 'crank'"),
        (Singular, lambda m, s: inverse(s, {}, until=1.0), "free to move"),
        (BadValue, lambda m, s: inverse(s, crank=Turning(1.0), rocker=0.3), "contradict"),
        (BadValue, lambda m, s: inverse(s, crank=lambda t: 2 * t), "until"),
        (BadValue, lambda m, s: inverse(s, crank=lambda t: math.sin(t), until=1.0), "sl.math"),
        (BadValue, lambda m, s: inverse(s, crank=m.q.rocker, until=1.0), "uses rocker"),
        (BadValue, lambda m, s: inverse(s, crank="fast", until=1.0), "'fast' is no number"),
        (BadValue, lambda m, s: m.move("crank", lambda t: 2 * t), "is no number; give .* an expression"),
        (BadValue, lambda m, s: inverse(s, crank=Turning(1.0), samples=1), "samples"),
        (BadValue, lambda m, s: inverse(s, crank=Turning(1.0), until=-1.0), "until"),
        (BadValue, lambda m, s: Turning(0.0), "other than zero"),
        (UnknownName, lambda m, s: Turning(1.0, "rpn"), "Did you mean 'rpm'"),
        (Singular, lambda m, s: inverse(s, rocker=Turning(1.0)), "dead centre"),
        (UnknownName, lambda m, s: inverse(s, crank=Turning(1.0), samples=3).force("pni"), "Did you mean 'pin'"),
        (UnknownName, lambda m, s: forward(s, {"crnk": 1.0}), "Did you mean 'crank'"),
        (BadValue, lambda m, s: forward(s, {}), "leaves out crank"),
        (BadValue, lambda m, s: forward(s, {"crank": math.nan}), "finite"),
        (BadValue, lambda m, s: forward(sl.State(m, s.positions, s.velocities, {"l_1": 0.05})).a, "does not satisfy"),
        (BadValue, lambda m, s: forward(sl.State(m, s.positions, np.array([1.0, 0, 0]), {})).a, "does not satisfy"),
        (BadValue, lambda m, s: inverse(sl.zoo.slider_crank(), slider=Turning(1.0)), "slides and cannot turn"),
    ],
)
def test_mistakes_are_named(kind, call, said):
    m = sl.zoo.four_bar()
    with pytest.raises(kind, match=said):
        call(m, m.keyframe("middle"))


def test_the_unit_of_length_does_not_matter():
    """Lengths and gravity times s: the same motion, forces times s, torques times s squared."""

    def answers(s):
        m = sl.zoo.slider_crank()
        m.gravity = G * s
        params = {n: p.value * s if p.unit == "m" else p.value for n, p in m.params.items()}
        start = m.assemble(crank=0.3, near={"slider": 0.16 * s}, params=params)
        turn = inverse(start, crank=Turning(300, "rpm"), samples=25)
        return turn.effort.crank / s**2, turn.load("wrist").vector / s, turn.load("slider").vector / s

    for s in (1e-4, 0.7e-3, 1e4):
        for found, expected in zip(answers(s), answers(1.0), strict=True):
            assert np.allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_machine_without_a_state_begins_at_zero():
    turn = inverse(sl.zoo.four_bar(), crank=Turning(10, "rad/s"), samples=19)
    assert turn.q.crank[0] == 0.0
    assert turn.t[-1] == pytest.approx(2 * math.pi / 10)
    assert turn.positions[-1] - turn.positions[0] == pytest.approx([2 * math.pi, -2 * math.pi, 0.0], abs=1e-9)


def test_a_constraint_written_by_hand_has_no_place():
    m = four_bar()
    m.constraint("gear", m.q.q2 - 0.5 * m.q.q1**2)
    with pytest.raises(BadModel, match="'gear', written by hand"):
        forward(m.assemble(near={"q1": 0.5, "q3": 1.5})).force("pin")


def test_an_arm_in_space_against_mujoco(tmp_path):
    """Efforts of three joints with given motions, as MuJoCo's inverse dynamics has them at the same instants."""
    mujoco = pytest.importorskip("mujoco")
    m = sl.Mechanism("arm", spatial=True)
    base = m.link("base", mass=2.0, com=(0.02, 0, 0.1), inertia=(0.02, 0.03, 0.04))
    upper = m.link("upper", mass=1.0, com=(0.15, 0.01, 0), inertia=(0.002, 0.01, 0.011))
    hand = m.link("hand", mass=0.5, com=(0.1, 0, 0.02), inertia=(0.001, 0.003, 0.002))
    m.revolute("turn", m.ground, base, axis=(0, 0, 1))
    m.revolute("lift", base.at(0.05, 0, 0.2), upper, axis=(0, 1, 0))
    m.revolute("bend", upper.at(0.3, 0, 0), hand, axis=(0.6, 0.8, 0))
    motions = {
        "turn": lambda t: 0.8 * sl.math.sin(3 * t),
        "lift": lambda t: -0.4 + 0.5 * sl.math.cos(5 * t),
        "bend": lambda t: 0.7 * sl.math.sin(4 * t + 0.3),
    }
    moved = sl.inverse(m, motions, until=1.0, samples=21)
    model = mujoco.MjModel.from_xml_path(str(sl.write(m, tmp_path / "arm.xml")))
    data = mujoco.MjData(model)
    place = [int(model.joint(name).dofadr[0]) for name in motions]
    for k in range(len(moved.t)):
        for name, at in zip(motions, place, strict=True):
            data.qpos[at], data.qvel[at], data.qacc[at] = moved.q[name][k], moved.v[name][k], moved.a[name][k]
        mujoco.mj_inverse(model, data)
        assert [moved.effort[n][k] for n in motions] == pytest.approx(data.qfrc_inverse[place], abs=1e-9)


def test_forces_beyond_all_numbers_are_refused_by_name():
    m = sl.Mechanism("block", gravity=0.0)
    m.slide("x", m.ground, m.link("block", mass=1.0), axes="x")
    m.joint_spring("spring", "x", stiffness=1e308)
    with pytest.raises(BadValue, match="equations of 'block' are not finite"):
        _ = sl.forward(m.assemble(x=100.0)).a


@pytest.mark.parametrize("engine", ["native", "scipy", "heyoka", "sundials"])
def test_a_crank_at_a_given_speed_alone(engine, tmp_path):
    """A rod of 2 kg and 0.5 m that turns at 10 rad/s: torque m g (l / 2) cos, pin force m w^2 l / 2 inwards and m g."""
    m = sl.Mechanism("crank alone")
    rod = m.rod("rod", mass=2.0, length=0.5)
    m.revolute("crank", m.ground.at(0, 0), rod.start, motion=10 * m.time)
    m.point("tip", rod.end)
    run = sl.simulate(m, m.assemble(), until=1.0, engine=engine)
    assert run.outcome.ok
    assert np.allclose(run.point("tip")[-1], [0.5 * np.cos(10), 0.5 * np.sin(10)], atol=1e-12)
    assert np.allclose(run.arrays["motion_efforts"][:, 0], 2.0 * G * 0.25 * np.cos(10 * run.t), atol=1e-9)
    assert np.isclose(run.energy_account["work of motion crank"], 2.0 * G * 0.25 * np.sin(10), atol=1e-7)
    load = sl.forward(m.assemble()).load("crank")
    assert np.allclose(load.vector, [-2.0 * 100 * 0.25, 2.0 * G])
    assert np.isclose(load.moment, 2.0 * G * 0.25)
    if engine == "native":
        sl.view.report(run, tmp_path / "crank.html")
