"""Shapes of the ground, faces that move, contacts that depend on each other; the contact problem; bad input."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saltus as sl
from saltus.dynamics.contact_problem import Law, NoForces, solve
from saltus.errors import BadModel, BadValue, Singular, UnknownName
from saltus.simulation.run import HOPS, _Run

G = 9.81


pytestmark = pytest.mark.usefixtures("interpreted")


def point(*, friction=0.0, spatial=False, **law):
    """1 kg on a point that cannot turn."""
    m = sl.Mechanism("point", spatial=spatial)
    body = m.link("body", mass=1.0, inertia=(0.1, 0.1, 0.1) if spatial else 0.1)
    m.slide("at", m.ground, body, axes="xyz" if spatial else "xy")
    m.foot("foot", body.origin, friction=friction, **law)
    return m


def names(run):
    return [e.name for e in run.events]


# ---- shapes ---------------------------------------------------------------------------------------------------------


def test_off_a_stair_it_flies_like_any_body():
    """Smooth stairs down by 0.3 m at x = 0: at 2 m/s it lands after sqrt(2 h / g), and slides on."""
    m = point()
    stairs = sl.ground.Stairs(-0.3, 2.0, 1, start=0.0)
    run = sl.simulate(m, m.assemble(at=(-0.5, 0), rates={"at": (2.0, 0)}), until=1.0, ground=stairs)
    assert run.outcome.ok, run.outcome
    left, landed = (next(e.t for e in run.events if e.name == n) for n in ("foot lifts", "foot touches"))
    assert left == pytest.approx(0.25, abs=1e-9)
    assert landed - left == pytest.approx(math.sqrt(0.6 / G), abs=1e-9)
    assert run.q.at.x[-1] == pytest.approx(1.5, abs=1e-9)
    assert run.q.at.y[-1] == pytest.approx(-0.3, abs=1e-9)


def test_against_a_riser_it_stops_and_stays_in_the_corner():
    m = point(friction=0.5)
    run = sl.simulate(
        m, m.assemble(at=(-0.1, 0), rates={"at": (2.0, 0)}), until=0.5, ground=sl.ground.Stairs(0.3, 1.0, 1)
    )
    assert run.outcome.ok, run.outcome
    hit = next(e for e in run.events if e.impact is not None)
    speed = math.sqrt(4 - 2 * 0.5 * G * 0.1)
    assert hit.t == pytest.approx((2 - speed) / (0.5 * G), abs=1e-9)
    assert hit.v_before[0] == pytest.approx(speed, abs=1e-9)
    assert hit.v == pytest.approx([0, 0], abs=1e-12)
    assert run.q.at.x[-1] == pytest.approx(0.0, abs=1e-9)
    assert run.force("foot")[-1] == pytest.approx([0, G], abs=1e-9)


def test_round_an_edge_a_smooth_circle_leaves_at_two_thirds():
    """A smooth circle of 0.1 m that starts 0.1 rad past the edge of a step leaves where cos(a) = 2/3 cos(a0)."""
    m = point(radius=0.1)
    a = 0.1
    start = m.assemble(at=(0.1 * math.sin(a), 0.1 * math.cos(a)))
    run = sl.simulate(m, start, until=0.4, ground=sl.ground.Stairs(-1.0, 1.0, 1))
    left = next(e for e in run.events if e.name == "foot lifts")
    assert left.q[1] / 0.1 == pytest.approx(2 / 3 * math.cos(a), abs=1e-8)
    assert np.hypot(left.q[0], left.q[1]) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "heights", "radius", "rests"),
    [
        ([-1, 0, 0, 0.02, 0.02, 1], [0, 0, -0.2, -0.2, 0, 0], 0.03, math.sqrt(0.03**2 - 0.01**2)),
        ([-1, -0.01, 0.03, 1.02], [0.99, 0, 0, 0.99], 0.1, 0.1 * math.sqrt(2) - 0.02),
        ([-1, -0.02, 0.04, 1.02], [0.98, 0, 0, 0.98], 0.05, 0.05),
        ([-1, 0, 0.01, 0.02, 1], [0, 0, -0.001, 0, 0], 0.05, 0.05 * math.sqrt(1.01) - 0.001),
    ],
)
def test_a_round_foot_rests_on_what_it_reaches(x, heights, radius, rests):
    """On both edges of a slot, on both sides of a groove or at its bottom, on both sides of a scratch."""
    m = point(radius=radius)
    run = sl.simulate(m, m.assemble(at=(0.01, 0.3)), until=0.6, ground=sl.ground.Profile(x, heights))
    assert run.outcome.ok, run.outcome
    assert run.q.at.y[-1] == pytest.approx(rests, abs=1e-9)


def test_a_round_foot_goes_over_a_step_lower_than_its_radius():
    """Smooth, r = 0.1 m against a step of 0.02 m: it meets the edge at n = (-0.6, 0.8), which leaves 0.8 v along it."""
    m = point(radius=0.1)
    run = sl.simulate(
        m, m.assemble(at=(-0.5, 0.1), rates={"at": (3.0, 0)}), until=0.4, ground=sl.ground.Stairs(0.02, 2.0, 1)
    )
    assert run.outcome.ok, run.outcome
    hit = next(e for e in run.events if e.impact is not None)
    assert hit.t == pytest.approx((0.5 - 0.06) / 3, abs=1e-9)
    assert hit.v == pytest.approx([3 * 0.8 * 0.8, 3 * 0.8 * 0.6], abs=1e-9)


@pytest.mark.parametrize("radius", [0.0, 0.03])
def test_between_walls_that_do_not_meet_it_bounces_from_one_to_the_other(radius):
    """Down a shaft 0.1 m wide: 2 m/s across it, none of it lost; what it is nearest to changes where no piece ends."""
    m = point(restitution=1.0, radius=radius)
    shaft = sl.ground.Profile([-1, 0, 0, 0.1, 0.1, 1], [0, 0, -3, -3, 0, 0])
    run = sl.simulate(m, m.assemble(at=(0.05, -0.3), rates={"at": (2.0, 0)}), until=0.4, ground=shaft)
    assert run.outcome.ok, run.outcome
    first, way = (0.05 - radius) / 2, (0.1 - 2 * radius) / 2
    expected = np.arange(first, 0.4, way)
    assert [e.t for e in run.events if e.impact is not None] == pytest.approx(expected, abs=1e-9)


def test_from_one_edge_of_a_gap_it_lands_beyond_the_other():
    """Thrown from above the near edge of a gap with upright walls, it meets the far ground where its parabola does."""
    m = point(radius=0.03)
    gap = sl.ground.Profile([-1, 0.4, 0.4, 0.9, 0.9, 3], [0, 0, -0.5, -0.5, 0, 0])
    run = sl.simulate(m, m.assemble(at=(0.4, 0.1), rates={"at": (1.7, 1.45)}), until=0.6, ground=gap)
    assert run.outcome.ok, run.outcome
    assert run.events[0].t == pytest.approx((1.45 + math.sqrt(1.45**2 + 2 * G * 0.07)) / G, abs=1e-9)
    assert run.q.at.y[-1] == pytest.approx(0.03, abs=1e-9)


@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_on_smooth_waves_it_swings_as_its_own_equation_says(radius):
    """Along h = 0.1 cos(2 x) the centre of a circle follows the parallel curve; scipy integrates its arc length."""
    m = point(radius=radius)
    run = sl.simulate(
        m, m.assemble(at=_over(0.4, radius)), until=1.2, ground=sl.ground.Terrain(lambda x: 0.1 * sl.math.cos(2 * x))
    )
    assert run.outcome.ok, run.outcome

    def rate(_, y):  # T = |c'|^2 u'^2 / 2, V = g c_up for the centre c(u)
        u, h = y[0], 1e-5
        c1 = (_over(u + h, radius) - _over(u - h, radius)) / (2 * h)
        c2 = (_over(u + h, radius) - 2 * _over(u, radius) + _over(u - h, radius)) / h**2
        return [y[1], (-G * c1[1] - (c1 @ c2) * y[1] ** 2) / (c1 @ c1)]

    end = solve_ivp(rate, (0, 1.2), [0.4, 0.0], rtol=1e-11, atol=1e-12).y[0, -1]
    assert [run.q.at.x[-1], run.q.at.y[-1]] == pytest.approx(_over(end, radius), abs=2e-5)
    assert np.abs(run.arrays["touches"][:, 0, 3]).max() < 1e-9


def _over(u, radius):
    slope = -0.2 * math.sin(2 * u)
    n = np.array([-slope, 1.0]) / math.hypot(slope, 1.0)
    return np.array([u, 0.1 * math.cos(2 * u)]) + radius * n


def test_on_rough_waves_it_stays_where_they_are_flat_enough():
    """Slope 0.2 sin(2 x): below a friction of 0.1 up to x = asin(0.5) / 2."""
    ground = sl.ground.Terrain(lambda x: 0.1 * sl.math.cos(2 * x), friction=0.1)
    m = point(friction=None)
    edge = math.asin(0.5) / 2
    for x, stays in ((edge - 1e-3, True), (edge + 1e-3, False)):
        run = sl.simulate(m, m.assemble(at=_over(x, 0.0)), until=0.3, ground=ground)
        assert bool(abs(run.q.at.x[-1] - x) < 1e-12) == stays


def test_a_profile_has_a_friction_per_piece():
    """From ice onto grit at x = 0: it stops v^2 / (2 f g) behind."""
    m = point(friction=None)
    ground = sl.ground.Profile([-1, 0, 5], [0, 0, 0], friction=[0.0, 0.4])
    run = sl.simulate(m, m.assemble(at=(-0.5, 0), rates={"at": (2.0, 0)}), until=1.5, ground=ground)
    assert run.outcome.ok, run.outcome
    assert run.q.at.x[-1] == pytest.approx(4 / (2 * 0.4 * G), abs=1e-8)


def test_the_smaller_friction_of_foot_and_ground_counts():
    m = point(friction=0.9)
    start = m.assemble(at=(0, 0), rates={"at": (2.0, 0)})
    run = sl.simulate(m, start, until=1.5, ground=sl.ground.Level(friction=0.3))
    assert run.q.at.x[-1] == pytest.approx(4 / (2 * 0.3 * G), abs=1e-8)


def test_a_circle_rolls_down_a_slope():
    """Uniform disc: a = 2/3 g sin(slope) without slip."""
    angle = 0.3
    m = sl.Mechanism("disc")
    disc = m.link("disc", mass=1.0, inertia=0.5 * 0.1**2)
    m.planar("at", m.ground, disc)
    m.foot("rim", disc.origin, radius=0.1, friction=0.5)
    at = (-0.1 * math.sin(angle), 0.1 * math.cos(angle), 0)
    run = sl.simulate(m, m.assemble(at=at), until=1.0, ground=sl.ground.Slope(angle))
    assert run.outcome.ok, run.outcome
    assert names(run) == []
    assert run.q.at.x[-1] - at[0] == pytest.approx(-G * math.sin(angle) / 3 * math.cos(angle), abs=1e-8)


# ---- what moves, what depends on what -------------------------------------------------------------------------------


def test_on_a_shaken_table_it_slips_when_the_table_is_too_quick():
    """Table at 0.1 sin(8 t): 6.4 sin(8 t) m/s2 beyond a friction of 0.4 from t = asin(0.4 g / 6.4) / 8 on."""
    m = sl.Mechanism("table")
    table, body = m.link("table", mass=1.0, inertia=0.1), m.link("body", mass=1.0, inertia=0.1)
    m.slide("shake", m.ground, table, axes="x", motion=m.motion("shake", 0.1 * sl.math.sin(8 * m.time)))
    m.slide("at", m.ground, body, axes="xy")
    m.touch("body", body.origin, table.plane(0, 0, normal=(0, 1)), friction=0.4)
    run = sl.simulate(m, m.assemble(at=(0, 0), rates={"at": (0.8, 0)}), until=0.25)
    assert run.outcome.ok, run.outcome
    assert run.events[0].name == "body slips"
    assert run.events[0].t == pytest.approx(math.asin(0.4 * G / 6.4) / 8, abs=1e-8)


@pytest.mark.parametrize("push", [100.0, 1e5])
def test_a_sole_that_is_pressed_rocks_to_rest(push):
    """Heel and toe strike in turns, for the impact of one lifts the other while i^2 > a b, and lose speed each time.

    About the heel the toe falls with alpha = push a / (i^2 + a^2) / m at first; its strike leaves (i^2 - a b) /
    (i^2 + b^2) of the rate, as angular momentum about the toe is kept (thin sole, a and b from the centre of mass).
    """
    m = sl.Mechanism("sole")
    a, b, square = 0.06, 0.12, 0.02
    sole = m.link("sole", mass=0.2, inertia=0.2 * square)
    m.planar("at", m.ground, sole)
    m.foot("heel", sole.at(-a, 0), friction=0.9)
    m.foot("toe", sole.at(b, 0), friction=0.9)
    m.force("push", sole.origin, (0, -push))
    tilt = 1e-4
    run = sl.simulate(m, m.assemble(at=(0, a * math.sin(tilt), tilt)), until=0.05, max_steps=20_000)
    assert run.outcome.ok, run.outcome
    assert len(run.events) < 60
    assert np.abs(run.end.velocities).max() < 1e-12
    assert abs(run.q.at.angle[-1]) < 1e-12
    strikes = [e for e in run.events if e.impact is not None]
    alpha = (push / 0.2 + G) * a / (square + a * a)
    assert strikes[0].t == pytest.approx(math.sqrt(2 * tilt / alpha), rel=1e-6)
    before, after = (abs(v[2]) for v in (strikes[0].v_before, strikes[0].v))
    assert after / before == pytest.approx((square - a * b) / (square + b * b), rel=1e-6)


def test_contact_within_a_truss_is_left_to_its_pins():
    """A triangle of three bars that touch one another hangs from a pin and swings like the bars welded together."""
    m = sl.Mechanism("truss")
    frame, a, b = (m.link(n, mass=1.0, inertia=0.1, com=(0.5, 0)) for n in ("frame", "a", "b"))
    m.revolute("hang", m.ground, frame.origin)
    m.revolute("p", frame.origin, a.origin)
    m.revolute("r", frame.at(1, 0), b.origin)
    m.revolute("top", a.at(1, 0), b.at(1, 0))
    m.touch("tip", a.at(0.5, 0), b.plane(0.75, math.sqrt(3) / 4, normal=(0.3, 1)), friction=0.5)
    # about the pin: two bars by their ends, one across at the triangle's height; centre of mass at its middle
    inertia, arm = 2 * (0.1 + 0.25) + 0.1 + 0.75, 1 / math.sqrt(3)
    for k in range(8, 12):
        start = m.assemble(hang=0.1 * k - 1.7, near={"p": 1.0, "r": 2.0})
        run = sl.simulate(m, start, until=0.3)
        assert run.outcome.ok, run.outcome
        height = math.sin(start.q.hang + math.pi / 6), math.sin(run.q.hang[-1] + math.pi / 6)
        assert run.v.hang[-1] ** 2 * inertia / 2 == pytest.approx(3 * G * arm * (height[0] - height[1]), rel=1e-7)


def test_contacts_on_driven_links_close_the_energy_account():
    """A driven arm that stands on its own foot while the body's feet slip: drive and friction share the work."""
    m = sl.Mechanism("rower")
    body, arm = m.link("body", mass=1.0, com=(0, 0.1), inertia=0.1), m.link("arm", mass=0.5, com=(0.2, 0), inertia=0.02)
    m.planar("at", m.ground, body)
    swing = 0.3 * sl.math.sin(4 * m.time) - math.atan2(0.3, 0.5)
    m.revolute("joint", body.at(0, 0.3), arm.origin, motion=m.motion("joint", swing))
    for name, x in (("left", -0.2), ("right", 0.2)):
        m.foot(name, body.at(x, 0), friction=0.2)
    m.foot("hand", arm.at(math.hypot(0.3, 0.5), 0), friction=0.9)
    run = sl.simulate(m, m.assemble(at=(0, 1e-4, 0)), until=1.0)
    assert run.outcome.ok, run.outcome
    assert len(run.events) > 3
    assert abs(run.energy_account["residual"]) < 1e-7
    assert all(run.meta["work"][f"friction {n}"] <= 1e-9 for n in ("left", "right", "hand"))


def test_a_stiff_table_stands_on_least_norm_forces():
    """Four feet at (+-0.4, +-0.3), centre of mass at (0.1, 0.05): f = m g / 4 (1 + x c_x / 0.16 + y c_y / 0.09)."""
    m = sl.Mechanism("table", spatial=True)
    top = m.link("top", mass=2.0, com=(0.1, 0.05, 0), inertia=(0.1, 0.1, 0.2))
    m.free("at", m.ground, top)
    corners = {f"foot{i}": (x, y) for i, (x, y) in enumerate([(0.4, 0.3), (-0.4, 0.3), (-0.4, -0.3), (0.4, -0.3)])}
    for name, (x, y) in corners.items():
        m.foot(name, top.at(x, y, 0), friction=0.5)
    run = sl.simulate(m, m.assemble(), until=0.2)
    assert run.outcome.ok, run.outcome
    assert np.abs(run.arrays["q"] - run.arrays["q"][0]).max() < 1e-18
    for name, (x, y) in corners.items():
        share = 1 + x * 0.1 / 0.16 + y * 0.05 / 0.09
        assert run.force(name)[-1] == pytest.approx(
            [0, 0, G / 2 * share], abs=1e-4
        )  # as damping of dependent rows has it


def test_a_stop_bounces_beside_a_face_that_hardly_moves_with_it():
    """Pushed with 0.025 m/s2 from 2 mm, it strikes at 0.01 m/s, and leaves at half of that, the face at 5e-6 m/s."""
    m = sl.Mechanism("slider", gravity=(-0.025, 0.0))
    block = m.link("block", mass=2.0, inertia=0.1)
    m.slide("along", m.ground, block, axes="x")
    m.stop("along", lower=0.0, restitution=0.5)
    m.touch("side", block.origin, m.ground.plane(0, 0, normal=(1e-3, 1.0)), friction=0.0)
    run = sl.simulate(m, m.assemble(along=2e-3), until=1.0)
    assert run.outcome.ok, run.outcome
    first, second = run.impacts[:2]
    assert first.v == pytest.approx([0.005], rel=1e-8)
    assert [first.t, second.t] == pytest.approx([0.4, 0.8], rel=1e-8)


def test_motions_that_are_round_off_of_their_terms_are_none():
    """A foot that can move one way only, where next to nothing is asked: what is left across that way is round-off."""
    way = np.array([2.66, 1.11, -1.08])
    laws = [Law((0, 1), 2, 7.0, 7.0)]
    b = 6.6e-10 * way + 1e-15 * np.array([3.0, -1.0, -3.0])
    with pytest.raises(NoForces, match="no forces were found"):
        solve(np.outer(way, way), b, laws)
    found = solve(np.outer(way, way), b, laws, 20.0)
    assert found.modes == ("stick",)
    assert way @ found.f == pytest.approx(-6.6e-10, rel=1e-5)


@pytest.mark.parametrize("spatial", [False, True])
def test_unlike_feet_of_a_stiff_sledge_share_a_pull_until_all_slip(spatial):
    """Pulled along the ground with 2 N/s: none moves until the pull is the sum of all limits, whoever bears it."""
    m = sl.Mechanism("sledge", spatial=spatial)
    sledge = m.link("sledge", mass=2.0, inertia=(0.1, 0.1, 0.2) if spatial else 0.1)
    m.free("at", m.ground, sledge)
    feet = {"light": (0.4, 0.7), "middle": (-0.1, 0.2), "heavy": (-0.2, 0.5)} if spatial else {"light": (0.4, 0.7)}
    feet["other"] = (-0.1, 0.3)
    sides = {"light": 0.0, "middle": 0.3, "heavy": -0.3, "other": 0.0}
    for name, (x, friction) in feet.items():
        m.foot(name, sledge.at(x, sides[name], 0) if spatial else sledge.at(x, 0), friction=friction)
    still = sl.simulate(m, m.assemble(), until=0.01)
    loads = {name: float(still.force(name)[-1][-1]) for name in feet}
    limit = sum(friction * loads[name] for name, (_, friction) in feet.items())
    arm = sum(friction * loads[name] * sides[name] for name, (_, friction) in feet.items()) / limit  # none turns it
    pull = m.input("pull")
    m.force("rope", sledge.at(0, arm, 0) if spatial else sledge.origin, (pull, 0, 0) if spatial else (pull, 0))
    run = sl.simulate(m, m.assemble(), until=limit / 2 + 0.1, control=lambda t, s: {"pull": 2 * t})
    assert run.outcome.ok, run.outcome
    slips = [e.t for e in run.events if e.name.endswith("slips")]
    assert len(slips) == len(feet)
    assert slips == pytest.approx([limit / 2] * len(feet), rel=1e-6)  # so near to their limits all are let go


def test_feet_of_a_body_that_a_loop_keeps_level_share_its_weight_alone():
    """Feet of friction 0.1 and 0.5 bear half the weight each, whatever moments the loop has: a = F / m - 0.3 g."""
    m = sl.Mechanism("tray")
    tray = m.link("tray", mass=2.0, inertia=0.1, com=(0.3, 0.2))
    m.planar("at", m.ground, tray)
    m.slide("level", m.ground, tray, axes="xy")
    m.foot("smooth", tray.at(0.1, 0), friction=0.1)
    m.foot("rough", tray.at(0.4, 0), friction=0.5)
    m.force("pull", tray.at(0, 0.5), (12.0, 0))
    run = sl.simulate(m, m.assemble(), until=0.5)
    assert run.outcome.ok, run.outcome
    assert run.q.at.x[-1] == pytest.approx((6 - 0.3 * G) / 8, rel=1e-6)  # as damping of dependent rows has it
    assert run.force("smooth")[-1] == pytest.approx([-0.1 * G, G], rel=1e-5)


def test_a_foot_on_a_rail_rests_on_its_load():
    """1 kg on a rail 30 degrees steep, its foot on the ground: N sin + T cos = m g sin; least norm has T / N = 1.7."""
    m = sl.Mechanism("rail")
    body = m.link("body", mass=1.0, inertia=0.1)
    way = math.radians(30)
    m.slide("at", m.ground, body, axes=[(math.cos(way), math.sin(way))])
    m.foot("foot", body.origin, friction=0.1)
    run = sl.simulate(m, m.assemble(), until=0.2)
    assert run.outcome.ok, run.outcome
    assert np.abs(run.arrays["q"]).max() < 1e-12
    T, N = run.force("foot")[-1]
    assert N * math.sin(way) + T * math.cos(way) == pytest.approx(G * math.sin(way), abs=1e-9)
    assert abs(T) <= 0.1 * N * (1 + 1e-9)


def test_a_strut_on_a_ball_joint_sticks_as_long_as_any_forces_hold_it():
    """Hinged a height h above the ground, its foot a length L away, pushed across with F = t: a force along the strut
    moves nothing. With c = h / L and the load a = m g / 2 friction f holds it up to F = f a / sqrt(1 - f^2 c^2)."""
    m, h, L, friction = sl.Mechanism("strut", spatial=True), 0.3, 0.4, 0.7
    strut = m.link("strut", mass=1.0, inertia=(1e-3, 0.02, 0.02), com=(L / 2, 0, -h / 2))
    m.spherical("hip", m.ground.at(0, 0, h), strut.origin)
    m.foot("foot", strut.at(L, 0, -h), friction=friction)
    push = m.input("push")
    m.force("push", strut.at(L, 0, -h), (0, push, 0))
    run = sl.simulate(m, m.assemble(), until=5.0, control=lambda t, s: {"push": t}, stop_after={"foot slips": 1})
    a, c = G / 2, h / L
    assert not run.outcome.faults
    assert run.events[-1].t == pytest.approx(friction * a / math.sqrt(1 - (friction * c) ** 2), rel=1e-5)


def test_dry_friction_in_a_locked_joint_bears_nothing_it_cannot():
    """Two rods that make a triangle with the ground: nothing moves, friction at a pin stays within its limit."""
    m = sl.Mechanism("locked")
    a, b = m.rod("a", mass=1.0, length=0.5), m.rod("b", mass=1.0, length=0.5)
    m.revolute("one", m.ground.at(0, 0), a.start)
    m.revolute("two", a.end, b.start)
    m.revolute("three", m.ground.at(0.6, 0), b.end)
    body = m.link("body", mass=1.0, inertia=0.1)
    m.slide("at", m.ground.at(2, 0), body, axes="x")
    m.rub("one", 0.01)
    run = sl.simulate(m, m.assemble(near={"one": 0.927, "two": -1.85}, at=0.0, rates={"at": 1.0}), until=0.2)
    assert run.outcome.ok, run.outcome
    assert np.abs(run.force("one friction")[:, 0]).max() <= 0.01 * (1 + 1e-9)


def test_a_stop_with_restitution_comes_to_rest():
    """A slider that falls 0.5 m onto its stop with restitution 0.5: t = sqrt(2 h / g) (1 + e) / (1 - e)."""
    m = sl.Mechanism("slider")
    body = m.link("body", mass=1.0, inertia=0.1)
    m.slide("height", m.ground, body, axes="y")
    m.stop("height", lower=0.1, restitution=0.5)
    run = sl.simulate(m, m.assemble(height=0.6), until=1.5)
    assert run.outcome.ok, run.outcome
    rests = next(e.t for e in run.events if e.name == "height lower rests")
    assert rests == pytest.approx(math.sqrt(1 / G) * 3, abs=1e-6)
    assert run.q.height[-1] == pytest.approx(0.1, abs=1e-9)


def test_one_impact_makes_another():
    """A body falls on one foot beside its centre; the other one is pushed down into the ground in the same instant."""
    m = sl.Mechanism("plank")
    plank = m.link("plank", mass=1.0, inertia=0.02)
    m.planar("at", m.ground, plank)
    m.foot("near", plank.at(-0.05, 0), friction=0.0)
    m.foot("far", plank.at(0.4, 0), friction=0.0)
    run = sl.simulate(m, m.assemble(at=(0, 0, 0), rates={"at": (0, -1.0, 2.5)}), until=0.05)
    assert run.outcome.ok, run.outcome
    assert run.v.at.y[0] == pytest.approx(0.0, abs=1e-12)  # near and far both stop: u = (-1.125, 0) before
    assert run.v.at.angle[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("tilt", "tolerance"), [(0.0, 1e-10), (1e-8, 1e-6)], ids=["level", "by all that is known"])
def test_two_feet_that_land_at_once(tilt, tolerance):
    """Where places are known to 1e-6 m, feet 6e-9 m apart land at once: one after the other would rock the plank."""
    m = sl.Mechanism("plank")
    plank = m.link("plank", mass=1.0, inertia=0.02)
    m.planar("at", m.ground, plank)
    for name, x in (("left", -0.3), ("right", 0.3)):
        m.foot(name, plank.at(x, 0), friction=0.3)
    start = m.assemble(at=(0, 0.2, tilt), rates={"at": (1.0, 0, 0)})
    run = sl.simulate(m, start, until=1.0, tolerance=tolerance)
    assert run.outcome.ok, run.outcome
    hits = [e for e in run.events if e.impact is not None]
    assert len(hits) == 1
    assert hits[0].t == pytest.approx(math.sqrt(0.4 / G), abs=1e-9 + tilt)
    assert hits[0].v[0] == pytest.approx(max(0.0, 1 - 0.3 * math.sqrt(0.4 * G)), abs=1e-9 + tolerance)
    assert hits[0].v[2] == pytest.approx(0.0, abs=1e-9)


# ---- the contact problem --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slips", [1, 2])
@pytest.mark.parametrize("rank", [20, 3])
def test_forces_meet_every_law(slips, rank):
    """Random problems, with independent and with dependent contacts; the laws are checked one by one."""
    r = np.random.default_rng(slips + rank)
    for _ in range(60):
        n = int(r.integers(1, 4))
        size = slips + 1
        A = r.normal(size=(n * size, rank))
        b = A @ r.normal(size=rank)  # what some motion makes
        mu = r.uniform(0, 0.3, n)
        laws = [
            Law(tuple(range(size * i, size * i + slips)), size * i + slips, float(mu[i]), float(mu[i]))
            for i in range(n)
        ]
        out = solve(A @ A.T, b, laws)
        w = A @ A.T @ out.f + b
        assert out.w == pytest.approx(w, abs=1e-9)
        small = 1e-7 * max(1.0, float(np.abs(b).max()), float(np.abs(out.f).max()))
        for i, x in enumerate(laws):
            N, T, gap, slip = out.f[x.normal], out.f[list(x.tangential)], w[x.normal], w[list(x.tangential)]
            assert -small < N
            assert gap > -small
            assert abs(N * gap) < small * (1 + abs(N) + abs(gap))
            assert np.linalg.norm(T) <= mu[i] * N + small
            if np.linalg.norm(slip) > 1e-5 and small < N:
                assert pytest.approx(-mu[i] * N * slip / np.linalg.norm(slip), abs=1e-5 * (1 + N)) == T


def test_a_strong_coupling_turns_a_slip_that_starts():
    """At a contact whose motions across and along are coupled, repeated substitution runs in circles."""
    G_ = np.array([[3.97, -0.53, 1.39], [-0.53, 34.0, 5.94], [1.39, 5.94, 2.47]])
    law = Law((0, 1), 2, 0.6, 0.6)
    out = solve(G_, np.array([38.7, -17.7, -31.0]), [law])
    assert out.modes == ("slip",)
    slip = out.w[:2]
    assert out.f[:2] == pytest.approx(-0.6 * out.f[2] * slip / np.linalg.norm(slip), rel=1e-8)


def test_a_slip_under_strong_friction_is_found_wherever_it_goes():
    """An impact at friction 17: the slip's direction by a scan of all of them, where its cross product changes sign."""
    G_ = np.array([[0.847, -0.223, -1.287], [-0.223, 1.638, -1.568], [-1.287, -1.568, 8.467]])
    b, mu = np.array([-0.523, 2.458, -1.345]), 17.3
    angle = np.linspace(0, 2 * np.pi, 100_001)
    d = np.array([np.cos(angle), np.sin(angle)])
    N = -b[2] / (G_[2, 2] - mu * G_[2, :2] @ d)
    slip = b[:2, None] + (G_[:2, 2:] - mu * G_[:2, :2] @ d) * N
    turned = d[0] * slip[1] - d[1] * slip[0]
    goes = (turned[1:] * turned[:-1] <= 0) & (N[1:] > 0) & (N[:-1] > 0) & ((d * slip).sum(axis=0)[1:] > 0)
    assert goes.sum() == 1
    out = solve(G_, b, [Law((0, 1), 2, mu, mu)])
    assert out.modes == ("slip",)
    assert math.atan2(*out.w[1::-1]) == pytest.approx(angle[1:][goes][0], abs=1e-4)
    assert out.f[2] == pytest.approx(N[1:][goes][0], rel=1e-2)


def test_slips_in_3d_without_a_solution_are_counted():
    """Two feet that slip: w = b + B N of their normals, and every choice of who is open breaks a law."""
    d, mu = np.array([0.712, 0.702]), (0.134, 1.979)
    across, along = np.array([[0.521, -0.227], [-0.227, 1.373]]), np.array([[-0.541, -0.696], [1.004, 1.306]])
    G_ = np.zeros((6, 6))
    G_[np.ix_([2, 5], [2, 5])] = across
    for i, row in enumerate((2, 5)):
        for k, first in enumerate((0, 3)):
            G_[row, first : first + 2] = G_[first : first + 2, row] = along[i, k] * d / (d @ d)
    b = np.array([0.0, 0.0, -8.28, 0.0, 0.0, -8.28])
    B = across - along * mu
    for closed in ([], [0], [1], [0, 1]):
        N = np.zeros(2)
        N[closed] = np.linalg.solve(B[np.ix_(closed, closed)], [8.28] * len(closed)) if closed else []
        assert (N < -1e-9).any() or (B @ N - 8.28 < -1e-9).any()
    laws = [Law((3 * i, 3 * i + 1), 3 * i + 2, mu[i], mu[i], d) for i in range(2)]
    with pytest.raises(NoForces, match="no solution"):
        solve(G_, b, laws, count=True)


def test_what_parts_without_forces_is_not_jammed_by_friction():
    """One freedom between two faces that friction 2 could hold by any forces: it moves off both and needs none."""
    way = np.array([0.9, 0.1, -0.8, 0.2])  # along and across each of two faces, of 1 kg that moves along one line
    laws = [Law((0,), 1, 2.0, 2.0), Law((2,), 3, 2.0, 2.0)]
    found = solve(np.outer(way, way), 3.0 * way, laws)
    assert found.modes == ("open", "open")
    assert not found.f.any()


def test_several_solutions_are_counted():
    """Painleve's rod at friction 2: none that slips on, or two."""
    G_ = np.array([[4.0, -3.0], [-3.0, 2.0]])
    with pytest.raises(NoForces, match="solution"):
        solve(G_, np.array([0.0, 1.0]), [Law((0,), 1, 2.0, 2.0, np.array([-1.0]))], count=True)


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_bad_laws_are_refused_where_they_are_given():
    m = sl.Mechanism("bad")
    body = m.link("body", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    foot = body.origin
    for given in ({"friction": -0.1}, {"friction": math.nan}, {"friction": 0.5, "static": 0.4}, {"restitution": 1.2}):
        with pytest.raises(BadValue, match="foot"):
            m.foot("foot", foot, **({"friction": 0.5} | given))
    with pytest.raises(BadValue, match="radius"):
        m.foot("foot", foot, friction=0.5, radius=-0.1)
    with pytest.raises(BadValue, match=r"lower 0\.2 is not below upper 0\.1"):
        m.stop("at.y", lower=0.2, upper=0.1)
    with pytest.raises(BadValue, match="give lower=, upper= or both"):
        m.stop("at.y")
    with pytest.raises(UnknownName, match=r"at\.z"):
        m.stop("at.z", lower=0.0)
    with pytest.raises(BadValue, match="effort"):
        m.rub("at.x", -1.0)
    with pytest.raises(BadModel, match="same link"):
        m.touch("tip", foot, body.plane(0, 0, normal=(0, 1)))
    with pytest.raises(BadValue, match="normal"):
        body.plane(0, 0, normal=(0, 0))
    m.stop("at.y", lower=0.0)
    with pytest.raises(BadModel, match="has a stop already"):
        m.stop("at.y", upper=1.0)


def test_a_start_inside_of_something_is_refused():
    m = point(friction=0.5)
    m.stop("at.x", lower=-1.0, upper=1.0)
    with pytest.raises(BadValue, match=r"'foot' 0\.01 m below the ground"):
        sl.simulate(m, m.assemble(at=(0, -0.01)), until=1.0)
    with pytest.raises(BadValue, match=r"'at\.x' beyond its upper stop \(1\.0\) by 0\.5"):
        sl.simulate(m, m.assemble(at=(1.5, 0)), until=1.0)
    run = sl.simulate(m, m.assemble(at=(0, -1e-8)), until=0.1)
    assert run.outcome.ok, run.outcome


def test_friction_that_nobody_gave_is_asked_for():
    m = point(friction=None)
    with pytest.raises(BadValue, match="has no friction, and neither has the ground"):
        sl.simulate(m, m.assemble(at=(0, 0)), until=1.0)
    m = sl.Mechanism("param")
    body = m.link("body", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.origin, friction=m.param("rough", 0.5))
    with pytest.raises(BadValue, match="friction of 'foot'"):
        sl.simulate(m, m.assemble(at=(0, 0)), until=1.0, params={"rough": -0.5})


def test_ground_of_no_shape_is_refused():
    m, g = point(friction=0.5), sl.ground
    start = m.assemble(at=(0, 1.0))
    for jumps in (lambda x: sl.math.where(x > 0, 0.1, 0.0), lambda x: 0.1 * (x > 0)):
        with pytest.raises(BadValue, match="jumps or branches"):
            sl.simulate(m, start, until=1.0, ground=g.Terrain(jumps))
    with pytest.raises(BadValue, match=r"use sl\.math\.sin"):
        sl.simulate(m, start, until=1.0, ground=g.Terrain(lambda x: math.sin(x)))
    with pytest.raises(BadValue, match="no function"):
        g.Terrain(0.3)
    with pytest.raises(BadValue, match="below a right angle"):
        g.Slope(90, "deg")
    with pytest.raises(BadValue, match="unit"):
        g.Slope(1, "grad")
    with pytest.raises(BadValue, match="sort the points by x"):
        g.Profile([0, 1, 0.5], [0, 0, 0])
    with pytest.raises(BadValue, match="2 frictions for 1 pieces"):
        g.Profile([0, 1], [0, 0], friction=[0.1, 0.2])
    with pytest.raises(BadValue, match="friction is -1"):
        g.Level(friction=-1)
    with pytest.raises(BadValue, match="positive run"):
        g.Stairs(0.1, -1, 3)
    with pytest.raises(BadValue, match="ground is 'ice'"):
        sl.simulate(m, start, until=1.0, ground="ice")


def test_a_foot_that_nothing_moves_is_refused():
    m = point(friction=0.5)
    post = m.link("post", mass=1.0, inertia=0.1)
    m.weld("fixed", m.ground.at(1, 0), post)
    m.foot("base", post.origin, friction=0.5)
    with pytest.raises(BadModel, match="no coordinate of 'point' moves it"):
        sl.simulate(m, m.assemble(at=(0, 1.0)), until=1.0)


def test_a_point_mass_that_turns_and_starts_with_an_impact_is_refused_as_singular():
    m = sl.Mechanism("dart")
    body = m.link("body", mass=0.5, inertia=0.0, com=(-0.01, 0.025))
    m.planar("at", m.ground, body)
    m.foot("left", body.at(-0.3, 0.3), friction=0.0)
    height = 0.3 * math.sin(1) - 0.3 * math.cos(1)
    with pytest.raises(Singular, match=r"a motion of at\.x, at\.y, at\.angle moves nothing heavy"):
        sl.simulate(m, m.assemble(at=(0, height, 1.0), rates={"at": (0.1, -0.07, -0.05)}), until=1.0)


def test_ground_without_feet_and_graphs_with_stops_are_refused():
    m = sl.Mechanism("none")
    m.slide("at", m.ground, m.link("body", mass=1.0, inertia=0.1), axes="xy")
    with pytest.raises(BadValue, match="no feet"):
        sl.simulate(m, m.assemble(at=(0, 0)), until=1.0, ground=sl.ground.Level())
    m.stop("at.y", lower=-1.0)
    graph = sl.HybridSystem(m)
    graph.domain("air")
    with pytest.raises(BadModel, match=r"'at\.y' would not be"):
        sl.simulate(graph, m.assemble(at=(0, 0)), domain="air", until=1.0)


@pytest.mark.parametrize(("restitution", "kind"), [(1.0, "chattering"), (0.99, "finished")])
def test_bounces_without_end_are_told_and_those_that_end_pass(restitution, kind, monkeypatch):
    """Hops of 2 v / g = 8e-6 s that nothing damps, or that have halved their speed after 69 of them."""
    monkeypatch.setattr("saltus.simulation.run.HOPS", 100)
    m = sl.Mechanism("ball")
    body = m.link("body", mass=1.0)
    m.slide("base", m.ground, body, axes="xy")
    m.foot("sole", body.at(0, 0), friction=0.3, restitution=restitution)
    run = sl.simulate(m, m.assemble(base=(0, 0), rates={"base": (0, 4e-5)}), until=0.05, rate=100)
    assert run.outcome.kind == kind


@pytest.mark.parametrize(("last", "ends"), [(None, True), (0.0, True), (0.9999, False)])
def test_instants_that_share_loads_anew_without_end_are_told(last, ends):
    """Each takes 0.998 of the one before, as bounces that end do; they end a run if there was no event for long."""
    times = 1 - 1e-3 * 0.998 ** np.arange(2 * HOPS)
    events = [] if last is None else [SimpleNamespace(t=last)]
    run = SimpleNamespace(_met_at=times.tolist(), log=SimpleNamespace(events=events))
    assert _Run._hops(run) is ends
    run = SimpleNamespace(_met_at=(100 * times).tolist(), log=SimpleNamespace(events=events))
    assert not _Run._hops(run)  # slow enough
    assert not _Run._hops(SimpleNamespace(_met_at=times[1:].tolist(), log=run.log))


def test_bounces_of_a_foot_that_another_presses_come_to_rest():
    """A bar of 0.1 kg on its left end, pressed by 50 N at a third of its length, where the right end alone feels none
    of it: that end bounces by 0.5 and rests after three times its fall, at a'' = -(F / 3 + m g / 2) / (m / 3)."""
    m = sl.Mechanism("bar")
    bar = m.rod("bar", mass=0.1, length=1.0)
    m.planar("at", m.ground, bar)
    m.foot("left", bar.start, friction=0.9)
    m.foot("right", bar.end, friction=0.0, restitution=0.5)
    m.force("press", bar.at(1 / 3, 0), (0, -50.0))
    run = sl.simulate(m, m.assemble(at=(0, 0, 1e-4)), until=0.01)
    assert run.outcome.ok, run.outcome
    fall = math.sqrt(2e-4 * 0.1 / 3 / (50 / 3 + 0.05 * G))
    rests = next(e.t for e in run.events if e.name == "right rests")
    assert rests == pytest.approx(3 * fall, rel=1e-6)
    assert run.q.at.angle[-1] == pytest.approx(0.0, abs=1e-10)


def test_a_foot_that_slides_over_an_edge_leaves_it_there():
    """At 1 m/s without friction after 0.1 s; the piece that it leaves is no wall beside the one below."""
    m = sl.Mechanism("block")
    body = m.link("body", mass=1.0)
    m.slide("base", m.ground, body, axes="xy")
    m.foot("sole", body.at(0, 0), friction=0.0)
    start = m.assemble(base=(0, 0), rates={"base": (1.0, 0.0)})
    run = sl.simulate(m, start, until=0.15, ground=sl.ground.Profile([-1, 0.1, 1.1], [0, 0, -1]), tolerance=1e-8)
    assert run.outcome.ok
    assert [e.name for e in run.events] == ["sole lifts"]
    assert run.events[0].t == pytest.approx(0.1, abs=1e-9)


def test_where_stick_ends_and_slip_has_no_solution_there_is_one_left():
    """Worked by hand: with friction 1.5, f = (1.5, 1) sticks at its limit; without forces it lifts."""
    G_, b = np.array([[1.0, -0.8], [-0.8, 1.0]]), np.array([-0.7, 0.2])
    law = [Law((0,), 1, 1.5, 1.5, name="tip")]
    with pytest.raises(NoForces, match="2 solutions"):
        solve(G_, b, law, count=True)
    assert solve(G_, b, law, count=True, leaving={0: "slip"}).modes == ("open",)


def test_a_foot_that_a_given_motion_drives_into_the_ground_is_jammed():
    """Height 0.1 - 0.5 t of all that stands on a slide: it is there after 0.2 s, and nothing gives way."""
    m = sl.Mechanism("driven")
    car, body = m.link("car", mass=1, inertia=0.1), m.link("body", mass=1, inertia=0.1)
    m.slide("way", m.ground, car, axes="x")
    m.slide("lift", car, body, axes="y", motion=m.motion("lift", 0.1 - 0.5 * m.time))
    m.foot("sole", body.at(0, 0), friction=0.5)
    run = sl.simulate(m, m.assemble(), until=1.0)
    assert run.outcome.kind == "jammed"
    assert not run.outcome.ok
    assert "sole" in run.outcome.detail
    assert run.outcome.t == pytest.approx(0.2, abs=1e-9)


def test_a_wedge_holds_a_pendulum_as_a_fixed_pivot_does():
    """Two faces 15 degrees from upright, friction 1: both cones hold the line between the points, so nothing moves."""
    m = sl.Mechanism("wedge")
    body, bob = m.link("body", mass=0.05, inertia=1e-3), m.link("bob", mass=2, inertia=0.0, com=(0.3, 0))
    m.planar("base", m.ground, body)
    m.revolute("pin", body.at(0, 0.05), bob)
    lean = np.radians(15)
    for name, side in (("left", -1), ("right", 1)):
        face = m.ground.plane(0.1 * side, 0, normal=[-side * np.cos(lean), np.sin(lean)])
        m.touch(name, body.at(0.1 * side, 0), face, friction=1.0)
    start = m.assemble(base=(0, 0, 0), pin=np.radians(-30))
    run = sl.simulate(m, start, until=3.0, tolerance=1e-10)
    assert run.outcome.ok, run.outcome
    exact = solve_ivp(
        lambda _, y: [y[1], -9.81 / 0.3 * np.cos(y[0])], (0, 3), [np.radians(-30), 0], rtol=1e-12, atol=1e-12
    )
    assert run["pin"][-1] == pytest.approx(exact.y[0, -1], abs=1e-7)
    assert abs(run["base.x"]).max() + abs(run["base.y"]).max() < 1e-9


def test_an_impact_of_feet_whose_freedoms_hardly_differ_has_its_impulses():
    """Two feet in 3D on light links, at which sweeps and Newton's method from anywhere fail; checked law by law."""
    A = np.array(
        [
            [37.68227, -134.152, -61.16609, -0.4126065, -0.1316538, 0.4922672],
            [-134.152, 479.458, 218.8289, 0.8013629, 0.5797722, -2.019626],
            [-61.16609, 218.8289, 100.2094, 0.09899828, 0.440569, -1.510649],
            [-0.4126065, 0.8013629, 0.09899828, 2.220042, -0.2292538, 0.7325928],
            [-0.1316538, 0.5797722, 0.440569, -0.2292538, 0.3012827, -0.8875859],
            [0.4922672, -2.019626, -1.510649, 0.7325928, -0.8875859, 2.971929],
        ]
    )
    b = np.array([-0.1518805, 0.002378966, 0.0, -0.9999601, -0.5284641, -0.5825088])
    found = solve(A, b, [Law((0, 1), 2, 1.5219, 1.5219), Law((3, 4), 5, 0.33373, 0.33373)])
    w = A @ found.f + b
    for t, n, mu in (([0, 1], 2, 1.5219), ([3, 4], 5, 0.33373)):
        assert found.f[n] > 0
        assert abs(w[n]) < 1e-9
        slip = np.linalg.norm(w[t])
        assert slip > 1e-3
        np.testing.assert_allclose(found.f[t], -mu * found.f[n] * w[t] / slip, rtol=1e-7, atol=1e-9)


def test_mobilities_that_differ_beyond_measure_are_both_heeded():
    """A stop of a link of next to no mass beside a foot: by themselves each is stopped by -b / G."""
    G_, b = np.diag([5e12, 0.75]), np.array([-0.3, -1.0])
    found = solve(G_, b, [Law((), 0), Law((), 1)])
    np.testing.assert_allclose(found.f, -b / np.diag(G_), rtol=1e-12)


def test_a_point_that_leaves_an_edge_feels_nothing_of_its_corner():
    """Put at the upper end of a slope, give or take round-off, and moving along it: it flies on, v = v0 - g t."""
    draw = np.random.default_rng(0)
    m = sl.Mechanism("edge")
    body = m.link("body", mass=1.0)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("tip", body.at(0, 0), friction=0.3)
    for _ in range(24):
        slope, top = draw.uniform(0.1, 1.2), draw.uniform(0.1, 0.5, 2)
        along = np.array([math.cos(slope), math.sin(slope)])
        low = top - along
        edge = sl.ground.Profile([low[0] - 1, low[0], top[0], top[0] + 2], [low[1], low[1], top[1], top[1] - 1])
        for place in top + 1e-16 * draw.uniform(-1, 1, (4, 2)):
            start = m.assemble(at=tuple(place), rates={"at": tuple(2 * along)})
            run = sl.simulate(m, start, until=0.02, ground=edge)
            assert run.outcome.ok
            np.testing.assert_allclose(run.end.velocities, 2 * along - [0, 9.81 * 0.02], atol=1e-5)
