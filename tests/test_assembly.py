"""Assembly: closing, branches, following, travel, mobility; against geometry, and BOLT against published numbers."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.design.turn import Turn
from saltus.errors import BadValue, CannotClose, Singular, UnknownName
from saltus.model.assembly import assembler
from saltus.zoo import bolt_linkage

pytestmark = pytest.mark.usefixtures("interpreted")


def four_bar(ground, crank, coupler, rocker, *, spatial=False):
    m = sl.Mechanism("four-bar", spatial=spatial)
    z = (0,) if spatial else ()
    sizes = {"crank": crank, "coupler": coupler, "rocker": rocker}
    a, b, c = (m.rod(n, mass=1.0, length=x) for n, x in sizes.items())
    m.revolute("q1", m.ground.at(0, 0, *z), a.start, motor=True)
    m.revolute("q2", a.end, b.start)
    m.revolute("q3", m.ground.at(ground, 0, *z), c.start)
    m.revolute("pin", b.end, c.end)
    return m


def slider_crank(crank=0.1, rod=0.3, offset=0.0):
    m = sl.Mechanism("slider-crank")
    a, b, block = m.rod("crank", mass=1.0, length=crank), m.rod("rod", mass=1.0, length=rod), m.link("block", mass=1.0)
    m.revolute("q1", m.ground, a.start, motor=True)
    m.revolute("q2", a.end, b.start)
    m.slide("x", m.ground.at(0, offset), block, axes="x")
    m.revolute("pin", b.end, block)
    return m


def test_the_branch_is_that_of_what_was_guessed():
    """One guess of two free angles picks the nearer of the rocker's two angles, by the law of cosines."""
    generator, tried = np.random.default_rng(1), 0
    while tried < 40:
        crank, coupler, rocker, ground = generator.uniform(0.3, 1.0, 4)
        q1 = generator.uniform(-math.pi, math.pi)
        x, y = crank * math.cos(q1) - ground, crank * math.sin(q1)
        far = math.hypot(x, y)
        if not abs(coupler - rocker) + 0.05 < far < coupler + rocker - 0.05:
            continue
        half = math.acos((rocker**2 + far**2 - coupler**2) / (2 * rocker * far))
        side = generator.choice([-1, 1])
        wanted = math.atan2(y, x) + side * half
        guess = wanted + side * generator.uniform(-0.4, 0.4) * half
        m = four_bar(ground, crank, coupler, rocker)
        found = m.assemble(q1=q1, near={"q3": guess}).q.q3
        assert math.remainder(found - wanted, 2 * math.pi) == pytest.approx(0.0, abs=1e-11)
        tried += 1


def five_bar():
    m = sl.Mechanism("five-bar")
    arms = [m.rod(n, mass=1.0, length=x) for n, x in (("l1", 0.2), ("l2", 0.35), ("r1", 0.2), ("r2", 0.35))]
    m.revolute("left", m.ground, arms[0].start, motor=True)
    m.revolute("elbow", arms[0].end, arms[1].start)
    m.revolute("right", m.ground.at(0.3, 0), arms[2].start, motor=True)
    m.revolute("knee", arms[2].end, arms[3].start)
    m.revolute("tip", arms[1].end, arms[3].end)
    return m


def rssr():
    m = sl.Mechanism("RSSR", spatial=True)
    crank, coupler, rocker = (m.link(n, mass=1.0, inertia=(0.1, 0.1, 0.1)) for n in ("crank", "coupler", "rocker"))
    m.revolute("q1", m.ground, crank, axis="z", motor=True)
    m.spherical("ball", crank.at(0.1, 0, 0), coupler)
    m.revolute("q3", m.ground.at(0.3, 0.25, 0.1), rocker, axis="x")
    m.spherical("end", coupler.at(0.4, 0, 0), rocker.at(0, 0, 0.25))
    return m


@pytest.fixture(scope="module")
def bolt():
    return bolt_linkage(base="fixed")


# ---- closing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_closes_from_rough_guesses(bolt, seed):
    r = np.random.default_rng(seed)
    for m in (bolt, five_bar(), slider_crank(), rssr()):
        near = {n: r.uniform(-1.5, 1.5) for n in m.q_names if "ball" not in n}
        assert m.assemble(near=near).gap <= 1e-12


def test_closing_moves_only_what_is_not_held(bolt):
    state = bolt.assemble(q1=1.234, near={"q2": 0.1, "q3": -0.8, "q4": -0.6, "q5": -1.2})
    assert state.q.q1 == 1.234
    assert state.gap <= 1e-12


def test_a_linkage_that_cannot_close_says_by_how_much():
    """Bars of 1, 1 and 1 m over 4 m of ground leave 1 m between coupler and rocker."""
    with pytest.raises(CannotClose, match="gap of 1 m at 'pin'") as caught:
        four_bar(4.0, 1.0, 1.0, 1.0).assemble()
    assert caught.value.gap == pytest.approx(1.0, rel=1e-3)
    assert caught.value.loop == "pin"


def test_params_change_without_a_rebuild(bolt, monkeypatch):
    start = bolt.keyframe("crank level")
    start.follow("q1", [0.1])
    kept = assembler(bolt)

    def build(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr("saltus.compile.kernel.build", build)
    near = dict(start.q.items())
    other = bolt.assemble(q1=0.0, near=near, params={"l_1": 0.022, "theta": 0.75})
    assert other.params["l_1"] == 0.022
    assert other.gap <= 1e-12
    other.follow("q1", np.linspace(0, 6, 50))
    assert assembler(bolt) is kept
    np.testing.assert_allclose(other.position("knee"), _knee(other), atol=1e-12)


def _knee(state):
    p, q4 = state.params, state.q.q4
    hip = p["l_c"] * np.array([math.cos(p["theta"]), math.sin(p["theta"])])
    return hip + p["l_4"] * np.array([math.cos(q4), math.sin(q4)])


# ---- BOLT -----------------------------------------------------------------------------------------------------------


def test_bolt_foot_path(bolt):
    """Liu and Ben-Tzvi (2020), Table 2 and fig. 5: foot x in [-0.0711, 0.1613], y in [-0.4237, -0.3619] m."""
    start = bolt.keyframe("crank level")
    angles = [start.q[n] for n in ("q2", "q3", "q4", "q5")]
    np.testing.assert_allclose(np.degrees(angles), [3.30, -43.09, -35.87, -68.33], atol=0.006)
    path = start.follow("q1", np.radians(np.arange(361)))
    np.testing.assert_allclose(path[-1] - path[0], [2 * np.pi, -2 * np.pi, 0, 0, 0], atol=1e-10)
    p = start.params
    q4, q45 = path[:, 3], path[:, 3] + path[:, 4]
    x = p["l_c"] * np.cos(p["theta"]) + p["l_4"] * np.cos(q4) + p["l_5"] * np.cos(q45)
    y = p["l_c"] * np.sin(p["theta"]) + p["l_4"] * np.sin(q4) + p["l_5"] * np.sin(q45)
    np.testing.assert_allclose([x.min(), x.max(), y.min(), y.max()], [-0.0711, 0.1613, -0.4237, -0.3619], atol=1e-4)
    np.testing.assert_allclose(start.position("foot"), (x[0], y[0]), atol=1e-12)


def test_bolt_has_four_branches_that_all_turn_fully(bolt):
    branches = bolt.branches(q1=0.0)
    assert len(branches) == 4
    start = bolt.keyframe("crank level")
    assert sum(np.allclose(b.positions, start.positions, atol=1e-9) for b in branches) == 1
    for branch in branches:
        assert branch.gap <= 1e-12
        assert branch.travel("q1").full_turn
        assert len(branch.follow("q1", np.linspace(0, -2 * np.pi, 90))) == 90


# ---- following ------------------------------------------------------------------------------------------------------


def test_following_stays_closed_and_comes_back(bolt):
    start = bolt.keyframe("crank level")
    there = np.linspace(0, 4 * np.pi, 300)
    path = start.follow("q1", np.r_[there, there[::-1]])
    phi, _ = assembler(bolt).closures_at(path, start.p)
    assert np.abs(phi).max() <= 1e-12
    np.testing.assert_allclose(path[:300], path[:299:-1], atol=1e-11)


def test_following_does_not_depend_on_the_step(bolt):
    start = bolt.keyframe("crank level")
    fine = start.follow("q1", np.radians(np.arange(0, 361)))
    for step in (5, 45, 90, 360):
        np.testing.assert_allclose(start.follow("q1", np.radians(np.arange(0, 361, step))), fine[::step], atol=1e-10)
    uneven = np.array([0, 3, 4, 40, 41, 41, 39, 200, 199, 360])
    np.testing.assert_allclose(start.follow("q1", np.radians(uneven)), fine[uneven], atol=1e-10)


def test_following_keeps_quaternions_unit():
    start = rssr().assemble(q1=0.3, near={"q3": 0.1})
    path = start.follow("q1", 0.3 + np.linspace(0, 1.0, 60))
    np.testing.assert_allclose(np.linalg.norm(path[:, 1:5], axis=1), 1.0, atol=1e-14)


def test_following_stops_at_a_dead_centre():
    m = four_bar(0.4, 0.3, 0.1, 0.35)
    start = m.assemble(q1=0.8, near={"q2": -1.0, "q3": 1.5})
    with pytest.raises(Singular, match="dead centre near q1") as caught:
        start.follow("q1", np.linspace(0.8, 3.0, 50))
    assert caught.value.reached == pytest.approx(start.travel("q1").high, abs=1e-6)


def test_a_locked_coordinate_cannot_drive():
    m = four_bar(0.4, 0.1, 0.35, 0.3)
    m.constraint("clamp", m.q.q1 - 0.5)
    start = m.assemble(near={"q2": 0.3, "q3": 1.5})
    assert start.mobility().freedom == 0
    with pytest.raises(Singular, match="q1 cannot drive 'four-bar'"):
        start.follow("q1", [0.5, 0.6])


# ---- travel ---------------------------------------------------------------------------------------------------------


def limit(ground, crank, distance):
    """Crank angle at which the crank's end is `distance` away from the rocker's pivot."""
    return math.acos((ground**2 + crank**2 - distance**2) / (2 * ground * crank))


def test_grashof_crank_turns_fully():
    assert four_bar(0.4, 0.1, 0.35, 0.3).assemble(q1=0.5).travel("q1").full_turn


@pytest.mark.parametrize("spatial", [False, True])
def test_double_rocker_limits(spatial):
    """Shortest bar is the coupler: the input moves between |rocker - coupler| and rocker + coupler."""
    g, a, b, c = 0.4, 0.3, 0.1, 0.35
    travel = four_bar(g, a, b, c, spatial=spatial).assemble(q1=0.8, near={"q2": -1.0, "q3": 1.5}).travel("q1")
    assert not travel.full_turn
    assert travel.low == pytest.approx(limit(g, a, c - b), abs=1e-9)
    assert travel.high == pytest.approx(limit(g, a, c + b), abs=1e-9)
    assert str(travel) == f"q1 moves between {travel.low:.6g} and {travel.high:.6g}"


def test_non_grashof_limits():
    """Shortest plus longest exceed the other two: the input swings symmetrically about the ground line."""
    g, a, b, c = 0.5, 0.3, 0.3, 0.2
    travel = four_bar(g, a, b, c).assemble(q1=0.4, near={"q2": 0.5, "q3": 2.0}).travel("q1")
    assert travel.high == pytest.approx(limit(g, a, b + c), abs=1e-9)
    assert travel.low == pytest.approx(-limit(g, a, b + c), abs=1e-9)


def test_slider_crank_travel():
    r, rod, e = 0.1, 0.3, 0.05
    start = slider_crank(r, rod, e).assemble(q1=0.7, near={"x": 0.3, "q2": -0.8})
    assert start.travel("q1").full_turn
    travel = start.travel("x")
    assert travel.low == pytest.approx(math.sqrt((rod - r) ** 2 - e**2), abs=1e-9)
    assert travel.high == pytest.approx(math.sqrt((rod + r) ** 2 - e**2), abs=1e-9)


def test_a_slide_without_limit_and_a_slide_of_a_planar_joint():
    m = sl.Mechanism("puck")
    puck = m.link("puck", mass=1.0, inertia=0.1)
    m.planar("puck", m.ground, puck)
    m.constraint("rail", m.q.puck.y - 0.1 * m.q.puck.x)
    travel = m.assemble().travel("puck.x")
    assert (travel.low, travel.high, travel.full_turn) == (-math.inf, math.inf, False)


# ---- branches -------------------------------------------------------------------------------------------------------


def test_branches_of_a_four_bar_mirror_each_other():
    branches = four_bar(0.4, 0.1, 0.35, 0.3).branches(q1=0.6)
    assert len(branches) == 2
    ends = np.array([[0.1 * np.cos(0.6), 0.1 * np.sin(0.6)], [0.4, 0.0]])
    line = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    offsets = [np.array([0.4 + 0.3 * np.cos(b.q.q3), 0.3 * np.sin(b.q.q3)]) - ends[0] for b in branches]
    across = [float(line[0] * o[1] - line[1] * o[0]) for o in offsets]
    assert across[0] == pytest.approx(-across[1], abs=1e-12)


def test_branches_of_a_five_bar():
    assert len(five_bar().branches(left=2.0, right=1.0)) == 2


def test_branches_of_a_large_slider_crank():
    """Slides are not angles: 5 m is not 5 m - 2 pi."""
    x = sorted(b.q.x for b in slider_crank(2.0, 5.0).branches(q1=0.5))
    reach = math.sqrt(25 - (2 * math.sin(0.5)) ** 2)
    np.testing.assert_allclose(x, [2 * math.cos(0.5) - reach, 2 * math.cos(0.5) + reach], atol=1e-12)


def test_branches_need_the_freedom_held():
    with pytest.raises(BadValue, match="hold 1 more"):
        five_bar().branches(left=2.0)


# ---- mobility -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q1", [0.3, 1.1, 2.5, 4.0])
def test_transmission_is_the_sine_of_the_transmission_angle(q1):
    state = four_bar(0.4, 0.1, 0.35, 0.3).assemble(q1=q1, near={"q2": 0.3, "q3": 1.5})
    mobility = state.mobility()
    coupler, rocker = state.q.q1 + state.q.q2, state.q.q3
    assert mobility.transmission == pytest.approx(abs(math.sin(coupler - rocker)), abs=1e-12)
    assert mobility.worst_loop == "pin"
    assert (mobility.freedom, mobility.rank, mobility.redundant) == (1, 2, {})


def test_transmission_vanishes_at_a_dead_centre():
    g, a, b, c = 0.4, 0.3, 0.1, 0.35
    m = four_bar(g, a, b, c)
    high = m.assemble(q1=0.8, near={"q2": -1.0, "q3": 1.5}).travel("q1").high
    seen = [m.assemble(q1=high - d, near={"q2": -1, "q3": 2.0}).mobility().transmission for d in (1e-2, 1e-4)]
    assert seen[0] / seen[1] == pytest.approx(10, rel=0.05)  # a fold: the sine goes with the square root


def test_redundant_constraints_are_named():
    """Two welds in parallel: the second holds nothing that the first does not."""
    m = sl.Mechanism("double")
    a, b = m.link("a", mass=1.0), m.link("b", mass=1.0)
    m.free("fa", m.ground, a)
    m.free("fb", m.ground, b)
    m.weld("one", a.at(0.1, 0), b.at(0, 0))
    m.weld("two", a.at(0.1, 0.2), b.at(0, 0.2))
    mobility = m.assemble(fa=(0.1, 0.2, 0.3)).mobility()
    assert (mobility.freedom, mobility.rank, mobility.rows) == (3, 3, 6)
    assert mobility.redundant == {"one": 3, "two": 3}
    assert "3 more are redundant: one by 3, two by 3" in str(mobility)


# ---- velocities -----------------------------------------------------------------------------------------------------


def test_velocities_follow_from_the_driver(bolt):
    start = bolt.keyframe("crank level", rates={"q1": 2.0})
    step = 1e-5
    behind, ahead = start.follow("q1", [-2.0 * step, 2.0 * step])
    np.testing.assert_allclose(start.velocities, (ahead - behind) / (2 * step), atol=1e-7)
    _, J = assembler(bolt).closure(0.0, start.positions, start.p)
    np.testing.assert_allclose(J @ start.velocities, 0, atol=1e-13)


def test_velocities_not_given_and_not_bound_are_zero():
    m = bolt_linkage(base="free")
    state = m.keyframe("crank level", rates={"q1": 3.0})
    assert [state.v[n] for n in ("boom.x", "boom.y", "boom.angle")] == [0, 0, 0]


def test_prescribed_motion_moves_the_loop_at_rest():
    """A ground pivot that follows time drags the four-bar along even when nothing else is given."""
    m = sl.Mechanism("moved")
    cart = m.link("cart", mass=1.0)
    m.slide("cart", m.ground, cart, motion=0.1 * m.time)
    a, b = m.rod("a", mass=1.0, length=0.3), m.rod("b", mass=1.0, length=0.3)
    m.revolute("qa", m.ground, a.start)
    m.revolute("qb", cart.at(0.4, 0), b.start)
    m.revolute("pin", a.end, b.end)
    state = m.assemble(near={"qa": 0.8, "qb": 2.3})
    np.testing.assert_allclose(0.3 * np.sin(state.q.qa) * state.v.qa, -0.05, atol=1e-12)
    assert state.v.qb == pytest.approx(-state.v.qa, abs=1e-12)


def test_rates_that_contradict_the_loops_are_refused(bolt):
    with pytest.raises(BadValue, match="rates q1, q4 contradict the loops of 'BOLT'"):
        bolt.keyframe("crank level", rates={"q1": 2.0, "q4": 5.0})


def test_names_are_checked(bolt):
    start = bolt.keyframe("crank level")
    for call in (lambda: start.follow("q9", [0.0]), lambda: start.travel("q9"), lambda: bolt.keyframe("nowhere")):
        with pytest.raises(UnknownName, match="Valid names"):
            call()
    with pytest.raises(BadValue, match="part of a quaternion"):
        rssr().assemble(q1=0.3).travel("ball.qx")


def test_near_a_state_stays_on_its_branch():
    """From crank angle 0 to 100 degrees the branch is BOLT's own only if it is followed on the way."""
    m = sl.zoo.bolt_linkage(base="fixed")
    level = m.keyframe("crank level")
    there = m.assemble(q1=math.radians(100.0), near=level)
    followed = level.follow("q1", np.radians(np.arange(0, 101)))[-1]
    np.testing.assert_allclose(there.positions, followed, atol=1e-12)
    longer = m.assemble(q1=math.radians(100.0), near=level, params={"l_5": 0.32})
    assert longer.params["l_5"] == 0.32
    np.testing.assert_allclose(longer.positions, followed, atol=1e-12)  # the shin's length is in no loop
    with pytest.raises(sl.errors.BadValue, match="four"):
        m.assemble(q1=0.0, near=sl.zoo.four_bar().keyframe("middle"))


def test_a_joint_that_locks_nothing_new_still_measures():
    """A slide between two links on parallel slides removes no freedom; its spring reads the distance."""
    m = sl.Mechanism("two masses")
    low, high = m.link("low", mass=1.0), m.link("high", mass=2.0)
    m.slide("z_low", m.ground, low, axes="y")
    m.slide("z_high", m.ground, high, axes="y")
    m.slide("leg", low, high, axes="y")
    m.joint_spring("spring", "leg", stiffness=100.0, rest=1.0)
    state = m.assemble(z_low=0.2, z_high=0.9)
    assert state.mobility().freedom == 2
    Q = sl.Equations(m).kernel("Q")(0.0, state.positions, state.velocities, [], state.p)
    np.testing.assert_allclose(Q, [-30.0, 30.0], atol=1e-12)


def test_a_slider_cranks_transmission_is_the_cosine_of_its_rods_angle():
    """The rod drives the slider with the cosine of its angle to the slide: crank across, sqrt(1 - (r/l)^2)."""
    m = sl.zoo.slider_crank()
    across = m.assemble(crank=math.pi / 2, near=m.keyframe("extended"))
    assert across.mobility().transmission == pytest.approx(math.sqrt(1 - (0.04 / 0.12) ** 2), rel=1e-12)
    assert across.mobility().worst_loop == "wrist"


# ---- the unit of length ---------------------------------------------------------------------------------------------


def quick_return(s):
    """Crank-shaper: a block on the crank slides in a lever that turns about a pin below."""
    m = sl.Mechanism("quick-return")
    crank, lever = m.rod("crank", mass=1.0, length=0.1 * s), m.rod("lever", mass=1.0, length=0.6 * s)
    block = m.link("block", mass=0.1)
    m.revolute("q1", m.ground, crank.start, motor=True)
    m.revolute("q2", m.ground.at(0, -0.3 * s), lever.start)
    m.slide("along", lever.start, block, axes="x")
    m.revolute("pin", crank.end, block)
    return m


def scotch_yoke(s):
    m = sl.Mechanism("Scotch yoke")
    crank, block, yoke = m.rod("crank", mass=1.0, length=0.2 * s), m.link("block", mass=0.1), m.link("yoke", mass=1.0)
    m.revolute("q1", m.ground, crank.start, motor=True)
    m.slide("x", m.ground, yoke, axes="x")
    m.slide("y", yoke, block, axes="y")
    m.revolute("pin", crank.end, block)
    return m


def six_bar(s):
    """Watt's chain: a four-bar whose coupler carries a second dyad down to a slider."""
    m = four_bar(0.4 * s, 0.1 * s, 0.35 * s, 0.3 * s)
    rod, block = m.rod("rod", mass=1.0, length=0.5 * s), m.link("block", mass=1.0)
    m.revolute("q4", m.links["coupler"].at(0.2 * s, 0.1 * s), rod.start)
    m.slide("x", m.ground.at(0, 0.1 * s), block, axes="x")
    m.revolute("wrist", rod.end, block)
    return m


def tied(s):
    """Two arms on a rope: a constraint in square metres, written by hand."""
    m = sl.Mechanism("tied")
    arm, hand = m.rod("arm", mass=1.0, length=0.3 * s), m.rod("hand", mass=0.5, length=0.2 * s)
    m.revolute("q1", m.ground, arm.start, motor=True)
    m.revolute("q2", arm.end, hand.start)
    tip = m.position(hand.end)
    m.constraint("rope", tip[0] ** 2 + tip[1] ** 2 - (0.4 * s) ** 2)
    return m


def ball_chain(s):
    m = sl.Mechanism("RSSR", spatial=True)
    crank, coupler, rocker = (m.link(n, mass=1.0, inertia=(0.1, 0.1, 0.1)) for n in ("crank", "coupler", "rocker"))
    m.revolute("q1", m.ground, crank, axis="z", motor=True)
    m.spherical("ball", crank.at(0.1 * s, 0, 0), coupler)
    m.revolute("q3", m.ground.at(0.3 * s, 0.25 * s, 0.1 * s), rocker, axis="x")
    m.spherical("end", coupler.at(0.4 * s, 0, 0), rocker.at(0, 0, 0.25 * s))
    return m


LINKAGES = {
    "crank-rocker": lambda s: four_bar(0.4 * s, 0.1 * s, 0.35 * s, 0.3 * s),
    "spatial four-bar": lambda s: four_bar(0.4 * s, 0.1 * s, 0.35 * s, 0.3 * s, spatial=True),
    "slider-crank": lambda s: slider_crank(0.1 * s, 0.3 * s),
    "offset slider": lambda s: slider_crank(0.1 * s, 0.3 * s, 0.05 * s),
    "long rod": lambda s: slider_crank(0.1 * s, 30.0 * s),
    "quick-return": quick_return,
    "Scotch yoke": scotch_yoke,
    "six-bar": six_bar,
    "tied": tied,
    "RSSR": ball_chain,
}
SCALES = (1e-4, 0.7e-3, 1e4)


def in_lengths(state, s):
    """Positions with shifts in units of the scale."""
    slides = {n for j in state.mechanism.joints.values() if j.kind == "slide" for n in j.q_names}
    return np.array([x / s if n in slides else x for n, x in state.q.items()])


@pytest.mark.parametrize("name", LINKAGES)
def test_nothing_depends_on_the_unit_of_length(name):
    """A machine and its enlargement have the same angles, branches, travel and freedom."""

    def answers(s):
        m = LINKAGES[name](s)
        rough, there = m.assemble(q1=0.9), m.assemble(near=m.assemble(q1=0.9), q1=2.4)
        size = (30.0 if name == "long rod" else 1.0) * s
        assert max(rough.gap, there.gap) < 1e-12 * (size**2 if name == "tied" else size)  # the rope's in square metres
        ways = [] if name == "RSSR" else [in_lengths(way, s) for way in m.branches(q1=0.9)]
        moved = m.assemble(q1=0.9, rates={"q1": 2.0})
        rates = [x / s if n in ("x", "y", "along") else x for n, x in moved.v.items()]
        path = rough.follow("q1", np.linspace(0.9, 1.4, 6))[-1]
        path = in_lengths(sl.State(m, path, moved.velocities, moved.params), s)
        travel, mobility = rough.travel("q1"), rough.mobility()
        limits = [travel.full_turn, travel.low, travel.high]
        counts = [mobility.freedom, mobility.rank, mobility.transmission]
        return [in_lengths(rough, s), in_lengths(there, s), rates, path, limits, counts, *ways]

    expected = answers(1.0)
    for s in SCALES:
        found = answers(s)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert np.allclose(np.array(a, float), np.array(b, float), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rod", [0.3, 3.0, 30.0, 300.0, 3e4])
def test_a_slider_crank_closes_forwards_whatever_its_rod(rod):
    """x = r cos q + sqrt(l^2 - r^2 sin^2 q) with the rod forward."""
    state = slider_crank(0.1, rod).assemble(q1=0.7, near={"x": rod})
    assert state.q.x == pytest.approx(0.1 * math.cos(0.7) + math.sqrt(rod**2 - (0.1 * math.sin(0.7)) ** 2), rel=1e-12)


@pytest.mark.parametrize("s", [1e-4, 1.0, 1e4])
def test_params_of_any_size_are_followed_on_the_branch(s):
    m = sl.Mechanism("four-bar")
    sizes = {"crank": 0.1 * s, "coupler": 0.35 * s, "rocker": 0.3 * s}
    a, b, c = (m.rod(n, mass=1.0, length=m.param(n + "_length", x, "m")) for n, x in sizes.items())
    m.revolute("q1", m.ground, a.start, motor=True)
    m.revolute("q2", a.end, b.start)
    m.revolute("q3", m.ground.at(0.4 * s, 0), c.start)
    m.revolute("pin", b.end, c.end)
    new = {"coupler_length": 0.5 * s, "rocker_length": 0.25 * s}
    for start in m.branches(q1=0.9):
        there = m.assemble(near=start, params=new, q1=1.1)
        ways = m.branches(params=new, q1=1.1)
        side = [math.sin(w.q.q2) > 0 for w in (start, there)]
        assert side[0] == side[1]
        assert min(abs(there.q.q2 - w.q.q2) for w in ways) < 1e-9


def heavy_slider_crank(s):
    """Crank of 0.1, rod of 0.3 and a piston, masses and times alike in every unit."""
    m = sl.Mechanism("slider-crank", gravity=9.81 * s)
    crank = m.link("crank", mass=1.0, inertia=0.01 * s**2, com=(0.05 * s, 0))
    rod = m.link("rod", mass=0.5, inertia=0.02 * s**2, com=(0.15 * s, 0))
    piston = m.link("piston", mass=2.0)
    length = m.param("length", 0.3 * s)
    m.revolute("crank", m.ground, crank.at(0, 0))
    m.slide("piston", m.ground, piston, axes="x")
    m.revolute("rod", crank.at(0.1 * s, 0), rod.at(0, 0))
    m.revolute("pin", rod.at(length, 0), piston.at(0, 0))
    m.point("tip", rod.at(0.2 * s, 0.05 * s))
    return m, m.assemble(crank=0.7, near={"rod": -0.9, "piston": 0.37 * s}, rates={"crank": 3.0})


@pytest.mark.parametrize("s", [1e-3, 1e3, 1e5], ids=["millimetres", "kilometres", "100 km"])
def test_no_result_depends_on_the_unit_of_length(s):
    """Motion, coordinates that are chosen, turns of many designs, impacts and dead centres, against metres."""
    (m, start), (other, same) = heavy_slider_crank(s), heavy_slider_crank(1.0)
    for f in (None, sl.formulations.Minimal()):
        run, metres = (sl.simulate(x.mechanism, x, until=2.0, formulation=f) for x in (start, same))
        assert run.outcome.ok
        assert run.q.crank[-1] == pytest.approx(metres.q.crank[-1], abs=1e-9)
        assert run.q.piston[-1] / s == pytest.approx(metres.q.piston[-1], abs=1e-9)
    designs = np.array([[0.3], [0.12], [0.101], [0.09]])
    walked, known = Turn(start, "crank", 90).walk(designs * s), Turn(same, "crank", 90).walk(designs)
    assert walked.gap / s == pytest.approx(known.gap, abs=1e-9)
    assert (walked.flips == known.flips).all()
    axis, angles = np.linspace(0.15, 0.6, 30), np.linspace(0.2, 2.5, 20)
    lost = [
        sl.impact_map(x.mechanism, x, ["tip"], ("length", axis * size), ("crank", angles)).fields["T_c"] / size**2
        for x, size in ((start, s), (same, 1.0))
    ]
    np.testing.assert_allclose(*lost, rtol=1e-9)
    assert np.isfinite(lost[0]).all()
    for angle in (1e-8, 1e-4):  # within 1e-6 rad of lying in line, and beyond
        answers = []
        for machine, size in ((m, s), (other, 1.0)):
            lying = machine.assemble(piston=0.4 * size * (1 - 0.5 * angle**2 / 4), near={"crank": angle, "rod": -angle})
            try:
                answers.append(sl.simulate(machine, lying, until=1e-3).outcome.ok)
            except Singular:
                answers.append("singular")
        assert answers[0] == answers[1]
