"""Orbits of machines whose contacts stick, slip and lift by themselves, in the sequence found by running."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadValue
from saltus.orbits import find

from test_contact_laws import hopper  # isort: skip


def law(t, s):
    return {"leg": -s.p.k * s.q.leg - 6 * s.v.leg - s.p.push * s.touching.toe}


def with_params():
    m, _ = hopper()
    m.param("k", 400.0)
    m.param("push", 60.0)
    return m, m.assemble(height=0.8)


@pytest.fixture(scope="module")
def gait():
    m, start = with_params()
    run = sl.simulate(m, start, until=2.0, control=law)
    return sl.find_orbit(m, run.last_stride, control=law)


def test_the_same_orbit_as_of_a_prescribed_sequence(gait):
    m, start = with_params()
    graph = sl.HybridSystem(m)
    air, stand = graph.domain("air"), graph.domain("stand", contacts=[sl.Pinned("toe")])
    graph.edge(air, stand, guard=sl.Touchdown("toe"), reset=sl.PlasticImpact())
    graph.edge(stand, air, guard=sl.Liftoff("toe"))
    other = sl.find_orbit(graph, start, domain=air, control=law)
    assert gait.events == ["toe lifts", "toe touches"]
    assert gait.period == pytest.approx(other.period, abs=1e-9)
    assert gait.multipliers[0] == pytest.approx(other.multipliers[0], abs=1e-8)
    assert gait.multipliers[1:] == pytest.approx(0.0, abs=1e-8)
    assert gait.duty == pytest.approx(other.duty, abs=1e-9)
    assert gait.impact_loss == pytest.approx(other.impact_loss, abs=1e-9)


def test_it_runs_as_found(gait):
    run = gait.simulate(3.0)
    assert run.outcome.ok
    assert run.end.positions == pytest.approx(gait.start.positions, abs=1e-8)
    assert run.end.v.height == pytest.approx(gait.start.v.height, abs=1e-8)  # the toe is about to strike
    assert gait.error < 1e-8
    assert not gait.notes


def test_derivatives_against_differences(gait):
    assert sl.orbits.shooting_estimate(gait) == pytest.approx(gait.stability.matrix, abs=1e-6)
    assert max(abs(np.linalg.eigvals(sl.orbits.monodromy(gait)))) == pytest.approx(1.0, abs=1e-8)


def test_a_family_ends_where_another_contact_comes_in():
    m, _ = with_params()
    m.stop("leg", lower=-0.15)
    run = sl.simulate(m, m.assemble(height=0.8), until=2.0, control=law)
    orbit = sl.find_orbit(m, run.last_stride, control=law)
    family = sl.orbits.follow(orbit, "push", to=80.0)
    assert "leg lower touches" in family.ends[1]
    assert family.orbits[-1].trajectory.q.leg.min() == pytest.approx(-0.15, abs=1e-4)


def test_a_family_ends_where_a_foot_begins_to_scuff():
    """A leg of 0.5 m swings on a sprung cart that is let down: where its toe touches the map's slope is infinite."""
    m = sl.Mechanism("scuffer", gravity=0.0)
    cart, leg = m.link("cart", mass=2.0), m.rod("leg", mass=0.5, length=0.5)
    height = m.param("height", 0.51)
    m.slide("rail", m.ground, cart, axes="y")
    m.revolute("hip", cart.origin, leg.start)
    m.foot("toe", leg.end, friction=0.3)
    m.force("hold", cart.origin, (0, 2000 * (height - m.q.rail) - 60 * m.v.rail))
    m.torque("swing", leg, 2.5 * sl.math.sin(5 * m.time) - 6 * (m.q.hip + math.pi / 2) - 0.4 * m.v.hip)
    orbit = sl.find_orbit(m, m.assemble(rail=0.51, hip=-1.4), period=2 * math.pi / 5)
    family = sl.orbits.follow(orbit, "height", to=0.4)
    assert family.ends[1].startswith("grazing: toe all but touches")
    run = family.orbits[-1].simulate()
    assert (run.q.rail + 0.5 * np.sin(run.q.hip)).min() == pytest.approx(0.0, abs=1e-4)


def test_a_family_ends_where_an_event_comes_to_the_instant_at_which_strides_begin():
    """A case stands on its foot until the mass shaken in it overcomes friction; its end of a slip moves with that."""
    m = sl.Mechanism("shaker")
    case, inner = m.link("case", mass=2.0), m.link("inner", mass=1.0)
    m.slide("base", m.ground, case, axes="xy")
    m.slide("x", case.origin, inner.origin, axes="x", motor=True)
    m.foot("sole", case.origin, friction=m.param("mu", 0.14))
    period = 2 * math.pi / 5
    run = sl.simulate(m, m.assemble(base=(0, 0), x=0.0), until=6 * period, control=shaken)
    orbit = sl.find_orbit(m, run.at(5 * period), period=period, control=shaken)
    family = sl.orbits.follow(orbit, "mu", to=0.1)
    assert "'sole sticks' and the instant at which strides begin" in family.ends[1]


def shaken(t, s):
    return {"x": 10 * sl.math.sin(5 * t) - 80 * s.q.x - 4 * s.v.x}


def block(friction=0.3):
    """1 kg on rough ground, drawn to and fro by a spring."""
    m = sl.Mechanism("stick and slip")
    body = m.link("block", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.origin, friction=m.param("friction", friction))
    m.force("pull", body.origin, (40 * (0.5 * sl.math.sin(4 * m.time) - m.q.at.x) - 2 * m.v.at.x, 0))
    return m, m.assemble(at=(0.05, 0), rates={"at": (0.3, 0)})


@pytest.mark.parametrize(("friction", "events"), [(0.3, {"foot turns back"}), (1.2, {"foot sticks", "foot slips"})])
def test_strides_of_one_period_of_the_motion(friction, events):
    m, start = block(friction)
    period = 2 * math.pi / 4
    run = sl.simulate(m, start, until=6 * period + 0.2)
    orbit = sl.find_orbit(m, run.at(6 * period + 0.1), period=period)
    assert set(orbit.events) == events
    assert orbit.time == pytest.approx(6 * period + 0.1)
    assert sl.orbits.shooting_estimate(orbit) == pytest.approx(orbit.stability.matrix, abs=1e-6)
    assert orbit.simulate().end.positions == pytest.approx(orbit.start.positions, abs=1e-8)
    family = sl.orbits.follow(orbit, "friction", to=friction * 0.9)
    last = family.orbits[-1]
    assert last.params["friction"] == pytest.approx(friction * 0.9)
    assert last.simulate().end.velocities == pytest.approx(last.start.velocities, abs=1e-7)


@pytest.mark.parametrize("ground", [sl.ground.Slope(20, "deg"), sl.ground.Terrain(lambda x: math.tan(math.pi / 9) * x)])
def test_a_foot_that_never_leaves_a_slope_ties_height_to_place(ground):
    """Smooth, on a spring and a damper along x: x'' = cos^2 (F - k x - c x') / m. Height alone is not free to shift."""
    m, mass, k, c = sl.Mechanism("on a slope"), 2.0, 40.0, 2.0
    body = m.link("block", mass=mass)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.origin, friction=0.0)
    m.force("pull", body.origin, (sl.math.sin(4 * m.time) - k * m.q.at.x - c * m.v.at.x, 0))
    period, share = math.pi / 2, math.cos(math.pi / 9) ** 2 / mass
    orbit = sl.find_orbit(m, m.assemble(at=(0, 0)), period=period, ground=ground)
    exact = np.exp(np.roots([1, c * share, k * share]) * period)
    assert np.sort_complex(orbit.multipliers) == pytest.approx(np.sort_complex(exact), abs=1e-7)
    assert not orbit.advance


def test_what_is_pushed_along_travels_with_what_pushes():
    """One block pushes another for ever: their places are free together, and (5 N) / (2.5 kg/s) is their speed."""
    m = sl.Mechanism("pusher")
    a, b = m.link("a", mass=1.0), m.link("b", mass=2.0)
    for link in (a, b):
        m.slide(link.name, m.ground, link, axes="x")
    m.touch("nose", a.at(0.05, 0), b.plane(-0.05, 0, normal=(-1, 0)), friction=0.0)
    m.force("push", a.origin, (5 + sl.math.sin(2 * math.pi * m.time), 0))
    m.force("drag", b.origin, (-2.5 * m.v.b, 0))
    orbit = sl.find_orbit(m, m.assemble(a=0.0, b=0.1), period=1.0)
    assert orbit.multipliers == pytest.approx(math.exp(-2.5 / 3), abs=1e-8)
    assert orbit.speed == pytest.approx(2.0, abs=1e-8)


@pytest.mark.parametrize(
    ("ground", "upward"),
    [
        (sl.ground.Profile([-1, 0, 0, 1], [0.05, 0.05, 0, 0]), 14.0),  # a step, over which it flies both ways
        (sl.ground.Profile([-1, -0.2, 1], [0.2, 0, 0]), 14.0),  # a corner that goes in, into which it slides
        (sl.ground.Profile([-1, 0.05, 1], [0, 0, 0], friction=[0.1, 0.6]), 0.0),  # on one piece and on the other
    ],
)
def test_a_foot_that_comes_to_other_pieces_of_the_ground(ground, upward):
    """What the search has for a stride is what a run does, and its multipliers are those of runs that begin beside."""
    m, period, begin = sl.Mechanism("over pieces"), 2 * math.pi / 5, 10.2
    body = m.link("block", mass=1.0)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("toe", body.origin, friction=None if upward == 0.0 else 0.2)
    across = 60 * (0.3 * sl.math.sin(5 * m.time) - m.q.at.x) - 2 * m.v.at.x
    m.force("pull", body.origin, (across, upward * sl.math.sin(5 * m.time + 0.5) - m.v.at.y))
    run = sl.simulate(m, m.assemble(at=(-0.1, 0.3)), until=begin, ground=ground)
    orbit = sl.find_orbit(m, run.end, period=period, ground=ground)

    def end(*moves):
        """Where a stride ends that begins so far off; in flight all four numbers are free, on the ground two."""
        x, vx, y, vy = (*moves, 0, 0)[:4] + np.ravel([*zip(orbit.start.positions, orbit.start.velocities, strict=True)])
        start = m.assemble(at=(x, y), rates={"at": (vx, vy)})
        last = sl.simulate(m, start, begin=begin, until=begin + period, ground=ground, tolerance=1e-12).end
        return np.ravel([*zip(last.positions, last.velocities, strict=True)])[: len(moves)]

    n, eps = 2 if upward == 0.0 else 4, 1e-5
    assert orbit.simulate().end.positions == pytest.approx(orbit.start.positions, abs=1e-9)
    slopes = np.column_stack([(end(*(eps * one)) - end(*(-eps * one))) / (2 * eps) for one in np.eye(n)])
    largest = sorted(abs(np.linalg.eigvals(slopes)))[-2:]
    assert sorted(abs(orbit.multipliers))[-2:] == pytest.approx(largest, abs=3e-5)


def test_a_family_names_where_its_sequence_changes(tmp_path):
    """A block that turns back at once begins to stick where the spring's pull at that instant is friction's."""
    m, start = block(0.6)
    period = 2 * math.pi / 4
    run = sl.simulate(m, start, until=6 * period + 0.2)
    orbit = sl.find_orbit(m, run.at(6 * period + 0.1), period=period)
    family = sl.orbits.follow(orbit, "friction", to=1.2, until="sequence")
    (changes,) = family.bifurcations
    assert set(changes.orbit.events) == {"foot turns back"}
    assert "foot sticks" in changes.change
    assert "foot turns back stay away" in changes.change
    again = changes.orbit.simulate()
    at = next(e for e in again.events if e.name == "foot turns back").t
    pull = 40 * (0.5 * math.sin(4 * at) - again.at(at).q["at.x"])
    assert abs(pull) == pytest.approx(changes.value * 9.81, rel=1e-3)
    read = sl.read(sl.write(family, tmp_path / "family.json"), like=orbit)
    assert read.bifurcations[0].change == changes.change


def test_strides_run_forward_keep_the_time_of_the_start(monkeypatch):
    """Where Newton's method fails at first, strides that follow begin at the same time of the clock."""
    m, start = block()
    period = 2 * math.pi / 4
    run = sl.simulate(m, start, until=3 * period + 0.2)
    solve, calls = find.newton, []

    def fails_once(shooting, point, **options):
        calls.append(point.nodes[0].t)
        if len(calls) == 1:
            raise find.Lost("at first", reason="test")
        return solve(shooting, point, **options)

    monkeypatch.setattr(find, "newton", fails_once)
    orbit = sl.find_orbit(m, run.at(3 * period + 0.1), period=period)
    assert calls == pytest.approx([3 * period + 0.1] * 2)
    assert orbit.simulate().end.velocities == pytest.approx(orbit.start.velocities, abs=1e-7)


def test_left_and_right_change_places():
    """Two blocks of one machine that take turns: half a period with the names swapped is the whole story."""
    m = sl.Mechanism("two hoppers")
    for side in ("left", "right"):
        body = m.link(side, mass=1.0, inertia=0.1)
        m.slide(f"{side}_at", m.ground, body, axes="y")
        m.foot(side, body.origin, friction=0.5, restitution=1.0)
    drop = 0.5
    half = math.sqrt(2 * drop / 9.81)  # s from the top to the ground: one is on top when the other touches
    start = m.assemble(left_at=drop, right_at=0.0, rates={"right_at": 9.81 * half})
    orbit = sl.find_orbit(m, start, swap={"left_at": "right_at", "left": "right"})
    assert orbit.events == ["right bounces"] or orbit.events == ["left bounces"]
    assert orbit.period == pytest.approx(half, abs=1e-9)


MIRROR = {f"body.{n}": f"-body.{n}" for n in ("y", "qx", "qz", "wx", "wz")}


def swinging():
    """A free body hung in springs above the ground, pushed to the left and to the right in turns."""
    m = sl.Mechanism("swinging", spatial=True)
    body = m.link("body", mass=2.0, inertia=(0.02, 0.03, 0.04))
    m.free("body", m.ground, body)
    m.foot("foot", body.origin, friction=0.5)
    x, y, z = (m.q[f"body.{n}"] for n in "xyz")
    wx, wy, wz = (m.v[f"body.w{n}"] for n in "xyz")
    push = 3 * sl.math.sin(5 * m.time)
    m.force("springs", body.origin, (-50 * x - 6 * m.v["body.x"], push - 50 * y - 6 * m.v["body.y"], 0))
    m.force("hung", body.at(0, 0, 0.2), (-wy, push / 4 + wx, 2 * 9.81 - 60 * (z - 1) - 8 * m.v["body.z"]))
    m.force("heading", body.at(0.3, 0, 0), (0, -9 * m.q["body.qz"] - wz, 0))
    return m, 2 * math.pi / 5


def test_a_free_body_in_3d_seen_in_a_mirror():
    """Half a period with left for right is the whole period's orbit; its multipliers are their squares."""
    m, period = swinging()
    run = sl.simulate(m, m.assemble(body=(0, 0, 1, 1, 0, 0, 0)), until=3 * period, tolerance=1e-9)
    half = sl.find_orbit(m, run.end, period=period / 2, swap=MIRROR)
    whole = sl.find_orbit(m, run.end, period=period)
    assert half.start.positions == pytest.approx(whole.start.positions, abs=1e-8)
    assert half.start.velocities == pytest.approx(whole.start.velocities, abs=1e-8)
    assert abs(half.start.q["body.qx"]) > 1e-3
    squares, values = (np.poly(x) for x in (half.multipliers**2, whole.multipliers))  # whatever their order
    assert squares == pytest.approx(values, abs=1e-8)
    differences = sl.find_orbit(m, run.end, period=period / 2, swap=MIRROR, step=1e-5)
    assert differences.start.velocities == pytest.approx(half.start.velocities, abs=1e-8)
    assert abs(differences.multipliers) == pytest.approx(abs(half.multipliers), abs=1e-6)


def test_a_mirror_that_turns_positions_without_their_rates_is_refused():
    m, period = swinging()
    turned = {a: b for a, b in MIRROR.items() if a != "body.wz"}
    with pytest.raises(BadValue, match=r"body\.wz"):
        sl.find_orbit(m, m.assemble(body=(0, 0, 1, 1, 0, 0, 0)), period=period / 2, swap=turned)


def test_sections_of_ones_own(gait):
    """From an event by name, and from the apex: the same gait; a name that no contact has is refused."""
    m, start = with_params()
    lifted = sl.find_orbit(m, start, control=law, section="toe lifts")
    apex = sl.find_orbit(m, start, control=law, section=sl.When(lambda s: s.v.height, "falling"))
    assert lifted.events[-1] == "toe lifts"
    assert apex.events[-1] == "section"
    for other in (lifted, apex):
        assert other.period == pytest.approx(gait.period, abs=1e-9)
        assert other.multipliers[0] == pytest.approx(gait.multipliers[0], abs=1e-7)
    with pytest.raises(sl.errors.UnknownName, match="toe lifts"):
        sl.find_orbit(m, start, control=law, section="toe lift")


def test_what_depends_on_its_entry_is_refused():
    m, start = hopper()
    with pytest.raises(BadValue, match=r"s\.entry"):
        sl.find_orbit(m, start, control=lambda t, s: {"leg": -400 * s.q.leg - 6 * s.v.leg + (t - s.entry.t)})


def test_a_run_without_a_whole_stride_says_so():
    m, start = hopper()
    run = sl.simulate(m, start, until=0.1)
    with pytest.raises(BadValue, match="no whole stride"):
        _ = run.last_stride


N, LENGTH, MASS, INERTIA, SLOPE = 6, 0.3, 1.0, 0.02, math.radians(12)  # of a rimless wheel
WHOLE, HALF = INERTIA + MASS * LENGTH**2, math.pi / N


@pytest.fixture(scope="module")
def rolling():
    m = sl.Mechanism("rimless wheel")
    wheel = m.link("wheel", mass=MASS, inertia=INERTIA)
    m.planar("at", m.ground, wheel)
    for i in range(N):
        angle = 2 * math.pi * i / N
        m.foot(f"spoke{i}", wheel.at(LENGTH * math.sin(angle), -LENGTH * math.cos(angle)), friction=3.0)
    turn, rate = HALF - 0.1 - SLOPE, -7.0  # shortly after an impact, on spoke 0
    rates = (-rate * LENGTH * math.cos(turn), -rate * LENGTH * math.sin(turn), rate)
    start = m.assemble(at=(-LENGTH * math.sin(turn), LENGTH * math.cos(turn), turn), rates={"at": rates})
    ground = sl.ground.Slope(-SLOPE)
    run = sl.simulate(m, start, until=3.0, ground=ground)
    assert run.outcome.ok
    return sl.find_orbit(m, run.last_stride, ground=ground)


def test_rimless_wheel_down_a_slope(rolling):
    """Each step keeps eta = (I + m l^2 cos(2 pi / n)) / (I + m l^2) of the rate, n of them eta^(2 n) of a deviation.

    On the orbit the slope gives back what the impact takes: w^2 (1 - eta^2) = 2 m g l (cos(a - s) - cos(a + s)) / (I +
    m l^2), a half the angle between spokes, s the slope; w the rate before an impact.
    """
    eta = (INERTIA + MASS * LENGTH**2 * math.cos(2 * math.pi / N)) / WHOLE
    gain = 2 * MASS * 9.81 * LENGTH * (math.cos(HALF - SLOPE) - math.cos(HALF + SLOPE)) / WHOLE
    assert len(rolling.events) == N
    for c in rolling.crossings:
        assert c.before.v[2] ** 2 == pytest.approx(gain / (1 - eta**2), rel=1e-8)
    assert rolling.multipliers[0] == pytest.approx(eta ** (2 * N), abs=1e-8)
    assert rolling.advance["at.x"] == pytest.approx(N * 2 * LENGTH * math.sin(HALF) * math.cos(SLOPE), abs=1e-8)


# ---- many starts at once ------------------------------------------------------------------------------------------


def slowed(orbit):
    """Velocities by which the wheel turns more slowly about the spoke it stands on, by 1 rad/s."""
    rates = orbit.start.velocities
    return dict(zip(orbit.system.mechanism.v_names, rates / rates[2], strict=True))


def still_over():
    """Rate that just brings the wheel over its spoke: I w^2 / 2 = m g l (1 - cos(a - s)), I about the spoke's end."""
    return math.sqrt(2 * MASS * 9.81 * LENGTH * (1 - math.cos(HALF - SLOPE)) / WHOLE)


def test_the_largest_push_stops_the_wheel_on_top_of_a_spoke(rolling):
    limit = -rolling.start.v["at.angle"] - still_over()
    push = sl.orbits.largest_push(rolling, slowed(rolling), most=2.0, strides=3)
    assert push.survived < limit < push.fatal
    assert push.fatal - push.survived < 2e-4


def test_batches_and_exact_runs_draw_the_same_basin(rolling):
    limit = -rolling.start.v["at.angle"] - still_over()
    sizes = limit * np.array([-0.5, 0.0, 0.9, 0.99, 1.01, 1.2])
    points = {f"v.{name}": sizes * by for name, by in slowed(rolling).items()}
    many, each = (sl.orbits.Survival(rolling, 3, exact=exact)(points) for exact in (False, True))
    assert many["regained"].tolist() == each["regained"].tolist() == [True, True, True, True, False, False]
    assert not many["exact"].any()
    assert each["exact"].all()


def test_only_the_edge_of_a_basin_is_run_again(rolling):
    seen = []

    def sweep(task, points):
        seen.append(points)
        return task(points)

    rates, heights = np.linspace(-1.0, 3.0, 9), [0.0, 0.05]
    found = sl.orbits.basin(rolling, ("v.at.angle", rates), ("at.y", heights), strides=3, sweep=sweep)
    each = sl.orbits.Survival(rolling, 3, exact=True)(seen[0])
    assert np.array_equal(found.regained.ravel(), each["regained"])
    assert 0 < found.regained.sum() < found.regained.size
    assert 0 < found.exact.sum() < found.exact.size
    other = np.diff(found.regained.astype(int), axis=1) != 0
    assert found.exact[:, 1:][other].all()
    assert found.exact[:, :-1][other].all()
    assert found.left == 0
    fewer = sl.orbits.basin(rolling, ("v.at.angle", rates), ("at.y", heights), strides=3, exact_runs=2)
    assert (fewer.exact.sum(), fewer.left) == (2, found.exact.sum() - 2)


def test_strides_of_one_period_run_as_copies():
    m, start = block(0.3)
    period = 2 * math.pi / 4
    run = sl.simulate(m, start, until=6 * period + 0.2)
    orbit = sl.find_orbit(m, run.at(6 * period + 0.1), period=period)
    points = {f"v.{m.v_names[0]}": np.array([-0.5, 0.0, 0.5, 2.0])}
    many, each = (sl.orbits.Survival(orbit, 6, exact=exact)(points) for exact in (False, True))
    assert many["regained"].tolist() == each["regained"].tolist()
    assert many["strides"].tolist() == each["strides"].tolist()
    assert not many["exact"].any()


def test_a_param_is_freed_for_a_speed_over_one_period():
    """The belt's speed under a block that is driven to and fro: what moves it on is found so that it goes 0.2 m/s."""
    m = sl.Mechanism("carried")
    body = m.link("block", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.origin, friction=0.2)
    wind = m.param("wind", 3.0)
    m.force("pull", body.origin, (wind + 8 * sl.math.sin(6 * m.time) - 2 * m.v.at.x, 0))
    period = 2 * math.pi / 6
    run = sl.simulate(m, m.assemble(at=(0, 0)), until=6 * period)
    orbit = sl.find_orbit(m, run.at(5 * period), period=period, free="wind", where={"speed": 0.2})
    assert orbit.speed == pytest.approx(0.2, abs=1e-9)
    check = orbit.simulate(3.0)
    assert check.q.at.x[-1] - check.q.at.x[0] == pytest.approx(0.2 * 3 * period, abs=1e-7)
