"""`ok` means physical: motions that no machine could make, and starts that do not fit, are told with their numbers."""

import dataclasses
import math

import numpy as np
import pytest

import saltus as sl

G = 9.81


def block(**contact):
    """A block of 1 kg on level ground that can be pushed along x and y."""
    m = sl.Mechanism("block")
    body = m.link("block", mass=1.0)
    m.slide("at", m.ground, body, axes="xy", motor=True)
    m.point("foot", body.at(0, 0))
    system = sl.HybridSystem(m)
    system.domain("ground", contacts=[sl.Sliding("foot", **contact)])
    return system, m


def pushed(x, y=0.0):
    return lambda t, s: {"at.x": x, "at.y": y}


def jumper():
    """A ball on a vertical slide with a motor: it stands on its sole, or flies."""
    m = sl.Mechanism("jumper")
    ball = m.link("ball", mass=1.0)
    m.slide("z", m.ground, ball, axes="y", motor=True)
    m.point("sole", ball.at(0, 0))
    system = sl.HybridSystem(m)
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Pinned("sole")])
    system.edge(air, stand, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    system.edge(stand, air, guard=sl.Liftoff("sole"))
    return system, m


# ---- friction -------------------------------------------------------------------------------------------------------


def test_a_slip_from_rest_has_friction():
    """x = (F/m - mu g) t^2 / 2 = 2.5475 m after 1 s."""
    system, m = block(friction=0.5)
    run = sl.simulate(system, m.assemble(), until=1.0, control=pushed(10.0))
    assert run.q["at.x"][-1] == pytest.approx(2.5475, abs=1e-12)
    assert run.outcome.ok
    back = sl.simulate(system, m.assemble(), until=1.0, control=pushed(-10.0))
    assert back.q["at.x"][-1] == pytest.approx(-2.5475, abs=1e-12)


def test_what_friction_holds_does_not_slide():
    system, m = block(friction=0.5)
    with pytest.raises(sl.errors.BadModel, match=r"'foot' of domain 'ground' is at rest.*Pinned"):
        sl.simulate(system, m.assemble(), until=1.0, control=pushed(4.9))


def test_a_slip_that_ends_is_found_where_it_ends():
    system, m = block(friction=0.3)
    run = sl.simulate(system, m.assemble(rates={"at.x": 2.0}), until=2.0, control=pushed(0.0))
    assert run.outcome.kind == "slip ended"
    assert not run.outcome.ok
    assert run.outcome.t == pytest.approx(2.0 / (0.3 * G), abs=1e-10)
    assert run.q["at.x"][-1] == pytest.approx(4.0 / (2 * 0.3 * G), abs=1e-10)


def test_a_slip_that_ends_goes_on_where_an_edge_says_so():
    """Pushed with 4 N against 0.5 of its weight it decelerates by mu g - F/m, stops, and sticks where it stopped."""
    system, m = block(friction=0.5)
    stick = system.domain("stick", contacts=[sl.Pinned("foot", friction=0.5)])
    system.edge("ground", stick, guard=sl.When(lambda s: s.velocity("foot").x, "falling"), reset=sl.PlasticImpact())
    run = sl.simulate(system, m.assemble(rates={"at.x": 1.0}), domain="ground", until=3.0, control=pushed(4.0))
    slows = 0.5 * G - 4.0
    assert [e.t for e in run.events] == [pytest.approx(1.0 / slows, abs=1e-9)]
    assert run.q["at.x"][-1] == pytest.approx(0.5 / slows, abs=1e-9)
    after = run.q["at.x"][run.arrays["phase"] == run.arrays["phase"][-1]]
    assert np.ptp(after) == 0.0
    assert run.outcome.ok


def test_friction_in_space_turns_with_the_slip():
    """On a slope with tan(slope) = mu, pushed across it, the speed tends to v0 / 2 straight down (textbooks)."""
    slope, v0 = math.atan(0.4), 1.0
    m = sl.Mechanism("puck", spatial=True, gravity=(0.0, -G * math.sin(slope), -G * math.cos(slope)))
    puck = m.link("puck", mass=1.0, inertia=(1e-3, 1e-3, 1e-3))
    m.slide("at", m.ground, puck, axes="xyz")
    m.point("foot", puck.at(0, 0, 0))
    system = sl.HybridSystem(m)
    system.domain("slide", contacts=[sl.Sliding("foot", friction=0.4)])
    run = sl.simulate(system, m.assemble(rates={"at.x": v0}), until=12.0)
    assert run.outcome.ok
    assert run.v["at.x"][-1] == pytest.approx(0.0, abs=1e-3)
    assert run.v["at.y"][-1] == pytest.approx(-v0 / 2, abs=1e-3)
    speed = np.hypot(run.v["at.x"], run.v["at.y"])
    np.testing.assert_allclose(speed - run.v["at.y"], v0, atol=1e-8)  # an integral of the motion: |v| + v_down = v0


def test_more_friction_than_there_is():
    m = sl.Mechanism("leaning rod")
    rod = m.rod("rod", mass=1.0, length=1.0)
    m.planar("at", m.ground, rod)
    m.point("foot", rod.start)
    system = sl.HybridSystem(m)
    system.domain("stand", contacts=[sl.Pinned("foot", friction=0.2)])
    start = m.assemble(at=(0, 0, 1.0))
    run = sl.simulate(system, start, until=0.1)
    assert not run.outcome.ok
    assert "N more friction than the ground's 0.2 gives" in run.outcome.verdict
    # statics of the first instant, Newton-Euler by hand: a_t = g cos(th) 3/2 / L about the foot
    th = 1.0
    alpha = -1.5 * G * math.cos(th)
    ax, ay = -0.5 * math.sin(th) * alpha, 0.5 * math.cos(th) * alpha
    assert abs(run.force("foot")[0, 0] / run.force("foot")[0, 1]) == pytest.approx(abs(ax / (G + ay)), rel=1e-9)


# ---- the ground -----------------------------------------------------------------------------------------------------


def test_a_start_above_or_below_the_ground_is_refused():
    system, m = jumper()
    with pytest.raises(sl.errors.BadValue, match=r"'sole' of domain 'stand' 0\.137 m above the ground"):
        sl.simulate(system, m.assemble(z=0.137), domain="stand", until=1.0)
    with pytest.raises(sl.errors.BadValue, match=r"0\.11 m below the ground"):
        sl.simulate(system, m.assemble(z=-0.11), domain="air", until=1.0)


def test_a_grazing_liftoff_does_not_fall_through_the_floor():
    """The motor lifts by less than a picometre and lets go."""
    system, m = jumper()

    def tiptoe(t, s):
        return {"z": G * (1 + 1e-9)} if s.domain == "stand" else {"z": 0.0}

    run = sl.simulate(system, m.assemble(z=0.0), domain="stand", until=0.5, control=tiptoe)
    assert run.q.z.min() > -1e-6
    assert run.outcome.kind in ("finished", "chattering")


def test_a_controller_that_pushes_down_as_it_leaves_does_not_sink():
    system, m = jumper()

    def bounce(t, s):
        return {"z": 30.0 * t if s.domain == "stand" else -50.0}

    run = sl.simulate(system, m.assemble(z=0.0), domain="stand", until=0.6, control=bounce)
    assert run.q.z.min() > -1e-6
    if not run.outcome.ok:
        assert run.outcome.kind == "chattering"


def test_a_point_below_the_ground_is_told_unless_it_may_be_there():
    for through, ok in (((), False), (("tail",), True)):
        m = sl.Mechanism("block with a tail")
        body = m.link("block", mass=1.0)
        m.slide("at", m.ground, body, axes="xy")
        m.point("foot", body.at(0, 0))
        m.point("tail", body.at(0.1, -0.05))
        system = sl.HybridSystem(m, through=through)
        system.domain("slide", contacts=[sl.Sliding("foot")])
        run = sl.simulate(system, m.assemble(rates={"at.x": 1.0}), until=0.5)
        assert run.outcome.ok is ok
        assert ok or "'tail' was 0.05 m below the ground" in run.outcome.verdict


def test_contacts_hold_where_they_touched():
    """A step of 0.2 m: the foot stays on it, and the run says that the ground given is not there."""
    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=1.0)
    m.slide("z", m.ground, ball, axes="y")
    m.point("sole", ball.at(0, 0))
    system = sl.HybridSystem(m)
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Pinned("sole")])
    step = sl.When(lambda s: s.position("sole").y - 0.2, "falling")
    system.edge(air, stand, guard=step, reset=sl.PlasticImpact())
    run = sl.simulate(system, m.assemble(z=0.5), domain="air", until=1.0)
    assert run.q.z[-1] == pytest.approx(0.2, abs=1e-9)
    assert "took hold 0.2 m above the ground" in run.outcome.verdict
    raised = sl.HybridSystem(m, ground=0.2)
    air, stand = raised.domain("air"), raised.domain("stand", contacts=[sl.Pinned("sole")])
    raised.edge(air, stand, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    assert sl.simulate(raised, m.assemble(z=0.5), domain="air", until=1.0).outcome.ok


def test_a_second_foot_in_the_air_is_not_pulled_down():
    m = sl.Mechanism("two feet")
    body = m.link("body", mass=2.0, inertia=0.1)
    m.planar("at", m.ground, body)
    m.point("left", body.at(-0.2, 0))
    m.point("right", body.at(0.2, 0.296))
    system = sl.HybridSystem(m)
    air = system.domain("air")
    both = system.domain("both", contacts=[sl.Pinned("left"), sl.Pinned("right")])
    system.edge(air, both, guard=sl.Touchdown("left"), reset=sl.PlasticImpact())
    run = sl.simulate(system, m.assemble(at=(0, 0.3, 0)), domain="air", until=0.5)
    assert run.point("right")[-1, 1] == pytest.approx(0.296, abs=1e-9)
    assert "'right' of 'both' took hold 0.296 m above the ground" in run.outcome.verdict


# ---- starts ---------------------------------------------------------------------------------------------------------


def test_params_that_change_lengths_need_another_start():
    m = sl.zoo.bolt_linkage(base="fixed")
    start = m.keyframe("crank level")
    longer = float(start.params["l_2"]) * 1.05
    with pytest.raises(sl.errors.BadValue, match=r"params l_2 open the loops of the start by .* m.*assemble"):
        sl.simulate(m, start, until=0.1, params={"l_2": longer})
    again = m.assemble(q1=start.q.q1, near=start, params={"l_2": longer})
    run = sl.simulate(m, again, until=0.5)
    assert run.outcome.ok
    assert run.params["l_2"] == longer


def test_a_start_that_breaks_its_constraints_is_not_ok():
    m = sl.zoo.four_bar()
    start = m.assemble(**{m.q_names[0]: 1.0})
    v = start.velocities.copy()
    v[0] += 1.0
    broken = sl.State(m, start.positions, v, start.params)
    for formulation in (sl.formulations.Projection(), sl.formulations.SPF()):
        run = sl.simulate(m, broken, until=0.1, formulation=formulation)
        assert not run.outcome.ok
        assert "the start violates the constraints" in run.outcome.verdict


def test_the_verdict_is_in_files_and_reports(tmp_path):
    system, m = block(friction=0.3)
    run = sl.simulate(system, m.assemble(rates={"at.x": 2.0}), until=2.0, control=pushed(0.0))
    again = sl.read(sl.write(run, tmp_path / "run.nc"))
    assert again.outcome == run.outcome
    assert "not ok: slip ended" in run.report()


# ---- controllers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (lambda t, s: {"at.x": 1.0}, "leaves out at.y"),
        (lambda t, s: {"at.x": math.sin(s.q["at.x"]), "at.y": 0.0}, r"sl\.math\.sin"),
        (lambda t, s: {"at.x": math.copysign(1.0, s.v["at.x"]), "at.y": 0.0}, r"sl\.math\.sin"),
        (lambda t, s: {"at.x": float("nan"), "at.y": 0.0}, "nan for 'at.x'"),
        (lambda t, s: {"at.x": s.q["at"], "at.y": 0.0}, "one number"),
        (lambda t, s: {"at.x": "much", "at.y": 0.0}, "one number"),
        (lambda t, s: 3.0, "dict"),
    ],
)
def test_controllers_are_named_with_what_is_wrong(law, words):
    system, m = block()
    with pytest.raises(sl.errors.SaltusError, match=words) as caught:
        sl.simulate(system, m.assemble(), until=0.1, control=law)
    assert "controller '<lambda>'" in str(caught.value)


def test_a_controller_that_leaves_its_domain_of_definition_is_named():
    system, m = block()

    def roots(t, s):
        return {"at.x": sl.math.sqrt(0.1 - s.q["at.x"]), "at.y": 0.0}

    run = sl.simulate(system, m.assemble(rates={"at.x": 1.0}), until=1.0, control=roots)
    assert run.outcome.kind == "not finite"
    assert "'roots'" in run.outcome.detail
    assert run.q["at.x"][-1] == pytest.approx(0.1, abs=1e-3)


def test_the_tutorials_tolerance_works_at_liftoff():
    """Velocities of SPF hold its pull on the loops; what an event passes on are those the loops allow."""
    hopper = sl.zoo.bolt()
    start = hopper.keyframes["drop"]
    run = sl.simulate(
        hopper,
        start,
        domain="flight",
        until=1.0,
        control=hopper.controls["run"],
        tolerance=1e-6,
        formulation=sl.formulations.SPF(1e-3),
    )
    assert run.outcome.kind == "finished", run.outcome


# ---- impacts and coordinates ----------------------------------------------------------------------------------------


def test_impact_of_a_machine_that_is_driven_in_time():
    """A table that moves at cos(t): the velocity of a ball on it is judged at the time of the impact."""
    m = sl.Mechanism("table")
    table, ball = m.link("table", mass=5.0), m.link("ball", mass=1.0)
    m.slide("x", m.ground, table, axes="x")
    m.slide("y", table, ball, axes="y")
    m.point("sole", ball.at(0, 0))
    m.move("x", sl.math.sin(m.time))
    t = 1.0
    q, v = np.array([math.sin(t), 0.0]), np.array([math.cos(t), -2.0])
    with pytest.raises(sl.errors.BadValue, match="break"):
        sl.impact(m, sl.State(m, q, v, {}), sl.Sliding("sole"))
    hit = sl.impact(m, sl.State(m, q, v, {}, time=t), sl.Sliding("sole"))
    assert hit.impulses["sole y"] == pytest.approx(2.0, rel=1e-12)
    assert hit.after.v.x == pytest.approx(math.cos(t), rel=1e-12)


def test_a_contact_of_ones_own_acts_as_a_grip():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Plumb:
        point: str

        def rows(self, kinematics, spatial, anchor):
            where = kinematics.position(kinematics.mechanism.frame(self.point))
            return where[0] - anchor[0], ("x",)

    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=2.0)
    m.slide("at", m.ground, ball, axes="xy")
    m.point("ball", ball.at(0, 0))
    state = m.assemble(at=(0.3, 0.4), rates={"at": (1.5, -0.5)})
    hit = sl.impact(m, state, Plumb("ball"), bilateral=True)
    assert list(hit.after.velocities) == pytest.approx([0.0, -0.5])
    assert hit.lost == pytest.approx(2.0 * 1.5**2 / 2)
    with pytest.raises(sl.errors.BadValue, match="bilateral=True"):
        sl.impact(m, state, Plumb("ball"))


def test_independent_coordinates_are_those_asked_for_in_every_domain():
    """A two-link leg that stands: one freedom per angle while it floats, fewer while its foot is pinned."""
    m = sl.Mechanism("leg")
    body, thigh = m.link("body", mass=3.0, inertia=0.02), m.rod("thigh", mass=0.5, length=0.2)
    shank = m.rod("shank", mass=0.3, length=0.2)
    m.slide("at", m.ground, body, axes="xy")
    m.revolute("hip", body.at(0, 0), thigh.start)
    m.revolute("knee", thigh.end, shank.start)
    m.point("foot", shank.end)
    system = sl.HybridSystem(m)
    system.domain("stand", contacts=[sl.Pinned("foot")])
    bent = m.assemble(hip=-2.0, knee=0.9)
    start = m.assemble(at=(0, -bent.position("foot")[1]), hip=-2.0, knee=0.9)
    ends = []
    for wanted in (["hip", "knee"], {"stand": ["at.x", "at.y"]}):
        run = sl.simulate(
            system, start, until=0.15, formulation=sl.formulations.Minimal(), independent=wanted, tolerance=1e-11
        )
        ends.append(run.arrays["q"][-1])
        width = run.pieces[0].coefficients.shape[2] - len(m.q_names)
        assert width >= 2
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)
    with pytest.raises(sl.errors.BadValue, match="2 degree"):
        sl.simulate(system, start, until=0.1, formulation=sl.formulations.Minimal(), independent=["hip"])
