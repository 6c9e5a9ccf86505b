"""Machines on real ground: balls, blocks, walkers and legs against closed forms, their own periods and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

import saltus as sl
from saltus.studies import bolt_real_ground
from saltus.zoo.bolt import bolt_pose

G = 9.81


def times(run, name):
    return [e.t for e in run.events if e.name == name]


def test_a_ball_rests_at_the_limit_of_its_bounces():
    """Sum of the geometric series: (1 + e) / (1 - e) sqrt(2 h / g)."""
    m = sl.zoo.bouncing_ball()
    run = sl.simulate(m, m.keyframe("drop"), until=5.0, rate=100.0)
    assert run.outcome.ok
    assert times(run, "ball rests") == pytest.approx([9 * math.sqrt(2 / G)], abs=1e-9)
    assert run["ball.y"][-1] == pytest.approx(0.1, abs=1e-12)


def test_a_ball_that_slides_comes_to_roll():
    """Friction slows it and spins it up until v = 5/7 v0, for a solid ball."""
    m = sl.zoo.bouncing_ball()
    run = sl.simulate(m, m.keyframe("slide"), until=0.5, rate=100.0)
    assert times(run, "ball sticks") == pytest.approx([2 / (7 * 0.3 * G)], abs=1e-10)
    assert run.v["ball.x"][-1] == pytest.approx(5 / 7, abs=1e-10)


def test_a_block_rocks_as_housner_says_until_it_stands():
    """Angular momentum about the new corner: the rate is multiplied by 1 - 3/2 sin(alpha)^2 at every impact."""
    m = sl.zoo.rocking_block()
    run = sl.simulate(m, m.keyframe("tilted"), until=4.0, rate=50.0)
    assert run.outcome.ok
    hits = [e for e in run.events if e.impact is not None]
    ratios = [e.v[2] / e.v_before[2] for e in hits[:-1]]
    assert len(ratios) > 20
    np.testing.assert_allclose(ratios, 1 - 1.5 * math.sin(math.atan(0.1 / 0.4)) ** 2, rtol=1e-9)
    assert abs(run["block.angle"][-1]) < 1e-12
    assert {run.contacts.mode(n)[-1] for n in ("left", "right")} == {1}


def test_the_kneed_walker_walks_on_its_stops_alone():
    """Every stride is the same; both knees strike their stops once per stride; energy comes from the slope alone."""
    m = sl.zoo.kneed_walker()
    slope = 0.067
    run = sl.simulate(m, m.keyframe("walking"), until=2.8, ground=sl.ground.Slope(-slope), rate=100.0)
    assert run.outcome.ok
    strides = [e for e in run.events if e.name == "left touches"]
    first, second = strides[0], strides[1]
    np.testing.assert_allclose(second.q[2:], first.q[2:], atol=1e-9)
    np.testing.assert_allclose(second.v, first.v, atol=1e-8)
    ahead, down = second.q[:2] - first.q[:2]
    assert down == pytest.approx(-math.tan(slope) * ahead, abs=1e-9)
    lost = sum(e.impact.lost for e in run.events if e.impact and first.t < e.t <= second.t)
    assert lost == pytest.approx(-4.3 * G * down, rel=1e-7)
    assert [len(times(run, f"{leg}_knee upper touches")) for leg in ("left", "right")] == [2, 2]
    assert max(run.contacts.slip_length(leg) for leg in ("left", "right")) < 1e-7


def test_poses_of_bolt_are_those_of_its_branch():
    start = sl.zoo.bolt_linkage(base="fixed").keyframe("crank level")
    for angle in (-4.0, -1.0, 1.75, 5.0):
        followed = start.follow("q1", np.linspace(0.0, angle, 60))[-1]
        off = np.array(list(bolt_pose(angle).values())) - followed[1:]
        np.testing.assert_allclose(np.remainder(off + 1, 2 * math.pi) - 1, 0, atol=1e-9)


def test_a_toe_that_leaves_for_an_instant_is_not_lost():
    """The toe's spring pulls it off the ground just after an impact, by less than a step shows, and pushes it back."""
    m = sl.zoo.bolt_on_ground()
    clock = {"omega": -68.59650105251256, "K_P": 78.3237487752999, "K_D": 8.929105296300364, "h": -0.5472147695323235}
    run = sl.simulate(
        m,
        m.keyframe("rest"),
        until=2.2,
        control=m.controls["clock"],
        params={**clock, "b": 2.404528853506833, "d_toe": 20.0},
        tolerance=1e-6,
        rate=200.0,
    )
    assert run.outcome.ok, run.outcome.verdict
    assert run.meta["contacts"]["toe"]["gap_min"] > -1e-8
    assert run["boom.y"].max() < 3.0


def test_a_stiff_toe_that_can_neither_stick_nor_slip_lifts_under_load(monkeypatch):
    """BOLT without the spring of its toe: where stick ends, slip has no solution; ever stiffer feet lift there, too."""
    hard = sl.zoo.bolt_on_ground(spring=False)
    law, until = hard.controls["clock"], 0.94
    run = sl.simulate(hard, hard.keyframe("rest"), until=until, control=law, tolerance=1e-8)
    assert run.outcome.ok, run.outcome.verdict
    touch, lift = [times(run, f"foot {word}")[-1 if word == "lifts" else -2] for word in ("touches", "lifts")]
    assert run.force("foot")[run.t < lift][-1][1] > 400.0  # N
    before, late, plain = run.at(touch - 1e-5), [], sl.Mechanism.foot
    for stiffness in (1e7, 1e8):
        with monkeypatch.context() as patch:
            patch.setattr(
                sl.Mechanism, "foot", lambda m, *a, k=stiffness, **kw: plain(m, *a, **kw, stiffness=k, damping=5.0)
            )
            soft = sl.zoo.bolt_on_ground(spring=False)
        start = sl.State(soft, before.positions, before.velocities, before.params)
        again = sl.simulate(soft, start, begin=touch - 1e-5, until=until, control=law, tolerance=1e-8)
        assert again.outcome.ok, again.outcome.verdict
        late.append(next(t for t in times(again, "foot lifts") if t > lift - 2e-4) - lift)
    assert late[1] < 0.2 * late[0]
    assert late[1] < 2e-4


def test_a_walker_whose_feet_stand_against_each_other():
    """Four lambda legs on one crank: two feet that stand have a row too many, and the load of one fades to nothing."""
    m, crank_radius = sl.Mechanism("lambda walker"), 0.05
    body, crank = m.link("body", mass=2.0, inertia=0.02), m.link("crank", mass=0.05, inertia=5e-3)
    m.free("body", m.ground, body)
    m.revolute("drive", body.origin, crank.origin, motor=True)
    near = {}
    for name, side, way in (("front_a", 1, 1), ("hind_a", -1, 1), ("front_b", 1, -1), ("hind_b", -1, -1)):
        rocker = m.rod(f"rocker_{name}", mass=0.03, length=2.5 * crank_radius)
        leg = m.rod(f"leg_{name}", mass=0.06, length=5 * crank_radius)
        m.revolute(f"knee_{name}", crank.at(way * crank_radius, 0), leg.start)
        m.revolute(f"hip_{name}", body.at(2 * side * crank_radius, 0), rocker.start)
        m.revolute(f"pin_{name}", rocker.end, leg.at(2.5 * crank_radius, 0))
        m.foot(name, leg.end, friction=0.8)
        near[f"hip_{name}"] = -1.5 - 0.3 * side
    guess = m.assemble(body=(0, 0, 0), drive=0.0, near=near)
    low = min(guess.position(name)[1] for name in m.touching)
    start = m.assemble(body=(0, 1e-3 - low, 0), drive=0.0, near=guess)

    def turn(t, s):
        return {"drive": 2 * (6 * t - s.q.drive) + 0.2 * (6 - s.v.drive)}

    ends = []
    for tolerance in (1e-8, 1e-10):
        run = sl.simulate(m, start, until=2.0, control=turn, tolerance=tolerance)
        assert run.outcome.ok, run.outcome.verdict
        ends.append(run.end.positions)
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)
    assert len(run.events) > 60


def test_the_biped_jogs_and_its_multipliers_tell_how_a_push_fades():
    """A second run, pushed: the largest multiplier is the factor by which differences shrink in a stride."""
    m = sl.zoo.biped()
    law, period = m.controls["walk"], m.params["period"].value
    run = sl.simulate(m, m.keyframe("standing"), until=8 * period, control=law, tolerance=1e-8, rate=100.0)
    assert run.outcome.ok
    assert run["body.y"].min() > 0.3
    gait = sl.find_orbit(m, run.end, control=law, period=period)
    sizes = np.sort(np.abs(gait.multipliers))[::-1]
    assert gait.is_stable
    assert gait.speed == pytest.approx(0.664, abs=0.01)
    start = gait.start
    v = start.velocities.copy()
    v[0] += 1e-3
    pushed = sl.State(m, start.positions, v, start.params)
    begin = start.time
    runs = [
        sl.simulate(m, x, begin=begin, until=begin + 4 * period, control=law, tolerance=1e-10, rate=20.0)
        for x in (start, pushed)
    ]
    ends = [[r.at(begin + k * period).velocities for r in runs] for k in (2, 3, 4)]
    apart = [float(np.linalg.norm(a - b)) for a, b in ends]
    assert apart[0] < 1e-3
    assert apart[2] < apart[1] < apart[0]
    assert (apart[2] / apart[0]) ** 0.5 == pytest.approx(sizes[0], abs=0.12)


def test_copies_take_mirrored_half_strides_as_exact_runs_do():
    m = sl.zoo.biped()
    law, period = m.controls["walk"], m.params["period"].value
    run = sl.simulate(m, m.keyframe("standing"), until=8 * period, control=law, tolerance=1e-8, rate=100.0)
    legs = {name: name.replace("left", "right") for name in (*m.q_names, "left") if name.startswith("left")}
    gait = sl.find_orbit(m, run.end, control=law, period=period / 2, swap=legs)
    points = {"v.body.x": np.array([0.0, 0.3, -0.5])}
    many, each = (sl.orbits.Survival(gait, 8, exact=exact)(points) for exact in (False, True))
    assert many["regained"].all()
    assert each["regained"].all()
    assert not many["exact"].any()


def test_a_clock_of_bolt_makes_a_stable_gait_on_friction_that_there_is():
    """The run settles to the orbit: speed of the run's last steps and of the orbit agree."""
    m = sl.zoo.bolt_on_ground()
    clock = bolt_real_ground.CLOCKS[1]
    one = bolt_real_ground.gait(m, clock, 0.8, until=8.0)
    turns, orbit = bolt_real_ground.orbit(m, clock, one["run"])
    assert one["ok"]
    assert one["steps"] >= 16
    assert one["friction_used_max"] <= 0.8 * (1 + 1e-6)
    assert turns == 1
    assert orbit.is_stable
    assert orbit.speed == pytest.approx(one["mean_speed"], rel=1e-3)


@pytest.mark.parametrize("tolerance", [1e-8, pytest.param(1e-10, marks=pytest.mark.slow)])
def test_the_fastest_clock_of_bolt_runs_as_fast_as_the_built_leg(tolerance):
    """Sec. 6.1 of Liu and Ben-Tzvi (2020): 3.2 m/s; a start 3 % too slow comes to the same periodic gait."""
    m = sl.zoo.bolt_on_ground()
    *clock, belt, height, a_0, q1, rate = bolt_real_ground.CLOCKS[-1]
    rates = {"boom": (0.97 * belt, 0.0), "q1": rate}
    start = m.assemble(boom=(0.0, height), q1=q1, near=bolt_pose(q1), rates=rates)
    params = {**dict(zip(bolt_real_ground.NAMES, clock, strict=True)), "a_0": a_0}
    period = 4 * 2 * math.pi / abs(clock[0])
    law = m.controls["clock"]
    run = sl.simulate(m, start, control=law, params=params, until=24 * period, tolerance=tolerance)
    x = run.at(period * np.array([20.0, 22.0])).q["boom.x"]
    assert run.outcome.ok
    assert (x[1] - x[0]) / (2 * period) == pytest.approx(3.2125, rel=1e-3)


def test_a_contact_between_welded_links_does_nothing():
    """Its rows are round-off: it neither bears a load nor lifts, and the machine falls as if it were not there."""
    m = sl.Mechanism("welded", spatial=True)
    a, b = m.link("a", mass=1.0, inertia=(0.02, 0.03, 0.04)), m.link("b", mass=0.3, inertia=(0.01, 0.01, 0.02))
    m.free("base", m.ground, a, rotation="zyx")
    m.weld("joint", a.at(0.3, 0.1, 0.2), b.at(-0.1, 0.2, 0.07))
    m.foot("toe", a.at(0.1, 0, -0.3), friction=0.5)
    m.touch("seam", b.at(0.05, 0.1, 0.2), a.plane(0.45, 0.0, 0.33, normal=[0.0, 0.0, 1.0]), friction=0.7)
    run = sl.simulate(m, m.assemble(base=(0, 0, 0.5, 0.3, 0.2, -0.4)), until=0.3)
    assert run.outcome.ok
    assert [e.name for e in run.events] == ["toe touches"]
