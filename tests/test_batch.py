"""Batches: closed forms of contact, the event-exact simulator copy by copy, order, threads, Params, no compiler."""

import ctypes
import math
from pathlib import Path

import numpy as np
import pytest

import saltus as sl
from saltus import batch as batch_package
from saltus.compile import build, find_compiler, pieces, toolchain
from saltus.dynamics.contact_problem import Law, solve
from saltus.errors import BadValue

G = 9.81


def block(friction=0.5, *, spatial=False, **foot):
    m = sl.Mechanism("block", gravity=G, spatial=spatial)
    body = m.link("body", mass=1.0, inertia=0.01 if not spatial else (0.01,) * 3)
    m.slide("s", m.ground, body, axes="xyz" if spatial else "xy")
    m.force("push", body.at(*([0] * (3 if spatial else 2))), [m.input(c) for c in ("xyz" if spatial else "xy")])
    m.foot("sole", body.at(*([0] * (3 if spatial else 2))), friction=friction, **foot)
    return m


def run(m, start, until, action=None, step=1e-3, **options):
    batch = sl.Batch(m, 1, step=step, threads=1, **options)
    batch.reset(start)
    batch.step(action, times=round(until / step))
    assert not batch.lost.any()
    return batch


def test_a_pushed_block_slides_or_stays():
    m = block()
    batch = sl.Batch(m, 2, step=1e-3, threads=1)
    batch.reset(m.assemble())
    batch.step([[10.0, 0.0], [4.9, 0.0]], times=1000)
    slides, stays = batch.state.q
    assert slides[0] == pytest.approx(2.5475, abs=1e-12)
    assert abs(stays[0]) < 1e-15
    assert abs(stays[1]) < 1e-15
    assert batch.forces["sole"] == pytest.approx(np.array([[-0.5 * G, G], [-4.9, G]]), rel=1e-12)


def test_no_creep_on_a_slope_in_100_seconds():
    m = block()
    slope = sl.ground.Slope(20, "deg")
    batch = run(m, m.assemble(), 100.0, ground=slope, step=1e-2)
    assert np.abs(batch.state.q).max() < 1e-12


def test_a_slide_ends_and_sticks():
    """v0 = 2 m/s, friction 0.3: it stops after v0^2 / (2 f g)."""
    m = block(0.3)
    batch = run(m, m.assemble(rates={"s": (2.0, 0.0)}), 1.0)
    assert batch.state.q[0, 0] == pytest.approx(4 / (2 * 0.3 * G), abs=1e-9)
    assert np.abs(batch.state.v).max() < 1e-12


def test_friction_turns_with_the_slip_in_3d():
    """On a slope with tan = friction, pushed across it: the speed tends to v0 / 2 straight down."""
    angle = 0.3
    m = block(math.tan(angle), spatial=True)
    batch = run(m, m.assemble(rates={"s": (0.0, 1.0, 0.0)}), 12.0, ground=sl.ground.Slope(angle))
    down = np.array([-math.cos(angle), 0.0, -math.sin(angle)])
    assert batch.state.v[0] == pytest.approx(0.5 * down, abs=2e-4)
    reference = sl.simulate(
        m, m.assemble(rates={"s": (0.0, 1.0, 0.0)}), until=0.5, ground=sl.ground.Slope(angle), tolerance=1e-11
    )
    early = run(m, m.assemble(rates={"s": (0.0, 1.0, 0.0)}), 0.5, ground=sl.ground.Slope(angle))
    assert early.state.q[0] == pytest.approx(reference.end.positions, abs=1e-6)


def test_a_disc_slides_then_rolls():
    m = sl.Mechanism("disc", gravity=G)
    body = m.link("body", mass=1.0, inertia=0.5 * 0.1**2)
    m.free("f", m.ground, body)
    m.foot("rim", body.at(0, 0), radius=0.1, friction=0.2)
    start = m.assemble(f=(0.0, 0.1, 0.0), rates={"f": (1.2, 0.0, 0.0)})
    batch = run(m, start, 1.0)
    ends = 1.2 / (3 * 0.2 * G)
    way = 1.2 * ends - 0.2 * G * ends**2 / 2 + 0.8 * (1.0 - ends)
    assert batch.state.v[0, 0] == pytest.approx(0.8, abs=1e-9)
    assert batch.state.q[0, 0] == pytest.approx(way, abs=1e-8)


def test_bounces_follow_one_another_and_end():
    """A ball dropped from 1 m with restitution 0.8 rests after 9 sqrt(2 / g) s; bounces below a step are left out."""
    m = block(restitution=0.8)
    start = m.assemble(s=(0.0, 1.0))
    first = math.sqrt(2 / G)
    t = first * (1 + 0.8)  # the top of the second arc
    assert run(m, start, t, step=t / 500).state.q[0, 1] == pytest.approx(0.64, abs=1e-9)
    assert abs(run(m, start, 4.2).state.q[0, 1]) < 1e-12


def test_a_stop_is_a_contact_without_friction():
    m = sl.Mechanism("pendulum", gravity=G)
    rod = m.link("rod", mass=1.0, inertia=0.1, com=(0.5, 0))
    m.revolute("hip", m.ground.at(0, 0), rod.at(0, 0))
    m.stop("hip", lower=-1.0, restitution=0.5)
    start = m.assemble(hip=0.0)
    reference = sl.simulate(m, start, until=3.0, tolerance=1e-12)
    assert run(m, start, 1.0, tolerance=1e-9).state.q[0] == pytest.approx(reference.at(1.0).positions, abs=1e-8)
    rests = run(m, start, 3.0)
    assert rests.state.q[0, 0] == pytest.approx(-1.0, abs=1e-12)
    assert rests.forces["hip lower"][0, 0] == pytest.approx(0.5 * G * math.cos(1.0), rel=1e-9)


def test_both_sides_of_stops_act_along_one_line():
    m = sl.Mechanism("arm", gravity=G)
    links = [m.link(f"rod{k}", mass=1.0, inertia=0.1, com=(0.5, 0)) for k in range(2)]
    m.revolute("hip", m.ground.at(0, 0), links[0].at(0, 0))
    m.revolute("knee", links[0].at(1, 0), links[1].at(0, 0))
    m.stop("hip", lower=-2.0, upper=0.4, restitution=0.3)
    m.stop("knee", lower=-0.5, upper=0.7, restitution=0.4)
    start = m.assemble(hip=0.3, knee=0.0, rates={"hip": 3.0, "knee": -4.0})
    reference = sl.simulate(m, start, until=2.0, tolerance=1e-12)
    for side in ("hip lower", "hip upper", "knee lower", "knee upper"):
        assert any(side in x.name for x in reference.events)
    found = run(m, start, 2.0, tolerance=1e-9)
    assert found.state.q[0] == pytest.approx(reference.at(2.0).positions, abs=1e-7)


def test_pieces_of_a_kernel_give_what_it_gives_whole(monkeypatch):
    m, found = bolt(), []
    start = m.assemble(boom=(0, 0.44), q1=1.75, near=NEAR)
    for longest in (toolchain.LONG, 0):  # of 1,000 characters and more it is cut then
        monkeypatch.setattr(toolchain, "LONG", longest)
        monkeypatch.setattr(pieces, "WHOLE", 0 if longest == 0 else pieces.WHOLE)
        found.append(run(m, start, 0.15, control=law).state.q)
    assert found[1] == pytest.approx(found[0], abs=1e-9)


def test_dry_friction_in_a_joint_stops_and_holds():
    m = sl.Mechanism("wheel", gravity=0.0)
    wheel = m.link("wheel", mass=1.0, inertia=0.2)
    m.revolute("axle", m.ground.at(0, 0), wheel.at(0, 0))
    m.torque("drive", wheel, m.input("drive"))
    m.rub("axle", 0.3, static=0.5)
    batch = run(m, m.assemble(axle=0.0, rates={"axle": 2.0}), 3.0, [0.0])
    assert batch.state.q[0, 0] == pytest.approx(4 / (2 * 0.3 / 0.2), abs=1e-9)
    batch.step([0.49], times=1000)
    assert np.abs(batch.state.v).max() < 1e-12
    batch.step([0.6], times=1000)
    assert batch.state.v[0, 0] == pytest.approx((0.6 - 0.3) / 0.2, rel=1e-9)


SEARCH = """
#include <math.h>
#include <string.h>
#define SIZE(n) (n)
#define ROWS 12
#define ELEMENTS 4
%s
int problem(const double *G, const double *b, const double *friction, double *w) {
  Problem a;
  Forces g;
  memset(&a, 0, sizeof a);
  memcpy(a.G, G, sizeof a.G);
  memcpy(a.b, b, sizeof a.b);
  a.n = ELEMENTS;
  a.rows = ROWS;
  a.size = largest(a.b, ROWS);
  for (int i = 0; i < ELEMENTS; ++i) {
    a.of[i].slips = 2;
    a.of[i].normal = 1;
    a.of[i].row = 3 * i;
    a.laws[i].active = a.laws[i].rough = 1;
    a.laws[i].limit = a.laws[i].friction = friction[i];
  }
  const int doubt = solved(&a, &g, 0);
  memcpy(w, g.w, sizeof g.w);
  return doubt;
}
"""


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
def test_the_search_in_c_finds_the_motions_of_the_other():
    """Four feet in 3D, of machines that can and of those that cannot move all rows."""
    text = Path(batch_package.__file__).with_name("contact.c").read_text()
    library = ctypes.CDLL(str(build(SEARCH % text, (), name="search")))
    rng = np.random.default_rng(0)
    slips = 0
    for k in range(40):
        A = rng.standard_normal((12, (6, 12, 15)[k % 3]))
        G, b, friction, w = A @ A.T, A @ rng.standard_normal(A.shape[1]), rng.uniform(0.1, 1.0, 4), np.zeros(12)
        laws = [Law((3 * i, 3 * i + 1), 3 * i + 2, mu, mu) for i, mu in enumerate(friction)]
        assert not library.problem(*(ctypes.c_void_p(x.ctypes.data) for x in (G, b, friction, w)))
        found = solve(G, b, laws)
        assert w == pytest.approx(found.w, abs=1e-7 * np.abs(b).max())
        slips += found.modes.count("slip")
    assert slips > 20


# ---- machines with loops --------------------------------------------------------------------------------------------


def bolt(friction=0.8):
    m = sl.zoo.bolt_linkage(base="floating")
    m.foot("toe", "foot", friction=friction)
    return m


NEAR = {"q2": -2.13, "q3": -0.80, "q4": -1.13, "q5": -1.14}


def law(t, s):
    return {"q1": -8 * sl.math.cos(9 * t) - 0.02 * s.v.q1}


def test_copies_of_a_leg_agree_with_simulate_one_by_one():
    m = bolt(0.5)
    rng = np.random.default_rng(3)
    n = 12
    lengths, heights, angles = rng.uniform(0.29, 0.31, n), rng.uniform(0.42, 0.5, n), rng.uniform(1.6, 1.9, n)
    starts = [
        m.assemble(boom=(0, h), q1=a, near=NEAR, params={"l_5": x})
        for h, a, x in zip(heights, angles, lengths, strict=True)
    ]
    batch = sl.Batch(m, n, step=1e-3, control=law, tolerance=1e-9, threads=1)
    batch.reset(starts)
    batch.step(times=250)
    events = 0
    for k, start in enumerate(starts):
        reference = sl.simulate(m, start, until=0.25, control=law, tolerance=1e-12)
        assert reference.outcome.ok
        events += len(reference.events)
        assert batch.state.q[k] == pytest.approx(reference.end.positions, abs=2e-6)
        assert batch.state[k].gap < 1e-9
    assert events > 2 * n
    assert not batch.doubts.any()


def test_parts_of_a_step_follow_the_tolerance():
    m = bolt()
    start = m.assemble(boom=(0, 0.43), q1=1.75, near=NEAR)
    reference = sl.simulate(m, start, until=0.2, control=law, tolerance=1e-13).end.positions
    errors = [
        np.abs(run(m, start, 0.2, control=law, tolerance=x).state.q[0] - reference).max() for x in (1e-4, 1e-6, 1e-8)
    ]
    assert errors[1] < errors[0] / 10
    assert errors[2] < errors[1] / 10
    assert errors[2] < 1e-6


def test_plain_steps_are_of_fourth_order():
    m = bolt()
    start = m.assemble(boom=(0, 0.6), q1=1.75, near=NEAR)

    def calm(t, s):
        return {"q1": -3 * sl.math.cos(20 * t)}

    reference = sl.simulate(m, start, until=0.06, control=calm, tolerance=1e-14).end.positions
    errors = [
        np.abs(run(m, start, 0.06, control=calm, step=h, tolerance=math.inf).state.q[0] - reference).max()
        for h in (1e-3, 5e-4, 2.5e-4)
    ]
    orders = np.log2(errors[:-1]) - np.log2(errors[1:])
    assert (orders > 3.7).all()


def test_threads_lanes_and_calls_change_no_bit():
    m = bolt()
    n = 37
    lengths = np.random.default_rng(1).uniform(0.303, 0.31, n)
    start = m.assemble(boom=(0, 0.44), q1=1.75, near=NEAR)

    def final(threads, calls, copies=n):
        batch = sl.Batch(m, copies, step=1e-3, control=law, params={"l_5": lengths[:copies]}, threads=threads)
        batch.reset(start)
        for _ in range(calls):
            batch.step(times=120 // calls)
        return batch.state.q

    one = final(1, 1)
    assert (final(2, 1) == one).all()
    assert (final(1, 1, 3) == one[:3]).all()
    assert final(1, 4) == pytest.approx(one, abs=1e-9)


def test_copies_end_and_start_again():
    m = bolt()
    start = m.assemble(boom=(0, 0.5), q1=1.75, near=NEAR)
    batch = sl.Batch(
        m,
        3,
        step=1e-3,
        control=lambda t, s, a: {"q1": a[0]},
        actions=1,
        until=lambda t, s: s.q["boom.y"] < 0.49,
        measure=lambda t, s: {"height": s.q["boom.y"], "toe": s.position("foot").y},
        threads=1,
    )
    batch.reset([start, m.assemble(boom=(0, 0.7), q1=1.75, near=NEAR), start])
    batch.step([0.0], times=100)
    assert batch.done.tolist() == [True, False, True]
    assert batch.measured["height"] == pytest.approx(batch.state.q[:, 1])
    assert batch.measured["toe"][1] == pytest.approx(batch.state[1].position("foot")[1])
    fell = batch.t[0]
    assert fell < 0.06
    batch.step([0.0], times=10)
    assert batch.t[0] == fell
    batch.reset(start, [0])
    assert batch.done.tolist() == [False, False, True]
    assert batch.t.tolist() == [0.0, pytest.approx(0.11), fell]
    assert batch.state.q[0] == pytest.approx(start.positions)


@pytest.mark.parametrize("exact", [False, True])
def test_copies_end_at_the_instant_of_an_event_and_go_on(exact):
    """Dropped from h they touch after sqrt(2 h / g) and stand; one that slides stops after v / (f g)."""
    m = block(0.5)
    heights = np.array([0.5, 1.0, 50.0])
    batch = sl.Batch(m, 3, step=1e-3, until="sole touches", exact=exact)
    batch.reset([m.assemble(s=(0.0, h), rates={"s": (5.0, 0.0)}) for h in heights], begin=2.0)
    batch.step(times=1000)
    assert batch.done.tolist() == [True, True, False]
    assert batch.t[:2] == pytest.approx(2.0 + np.sqrt(2 * heights[:2] / G), abs=1e-9)
    assert batch.t[2] == pytest.approx(3.0)
    after = 5.0 - 0.5 * np.sqrt(2 * G * heights[:2])  # the impact takes its share of the slip
    assert batch.state.v[:2] == pytest.approx(np.column_stack([after, [0.0, 0.0]]), abs=1e-9)
    batch.go_on([0])
    batch.stop([2])
    batch.step(times=1000)
    assert batch.t == pytest.approx([3.0 + math.sqrt(1.0 / G), 2.0 + math.sqrt(2.0 / G), 3.0], abs=1e-9)
    assert batch.done.tolist() == [False, True, True]
    assert abs(batch.state.v[0]).max() < 1e-9
    with pytest.raises(sl.errors.UnknownName, match="sole touches"):
        sl.Batch(m, 1, step=1e-3, until="toe touches")


def test_without_a_compiler_copies_run_in_simulate(monkeypatch):
    m = bolt()
    start = m.assemble(boom=(0, 0.43), q1=1.75, near=NEAR)

    def final():
        batch = sl.Batch(m, 2, step=1e-3, control=lambda t, s, a: {"q1": a[0]}, actions=1, tolerance=1e-9, threads=1)
        batch.reset(start)
        batch.step([[-3.0], [-2.0]], times=40)
        batch.step([[-1.0], [-2.0]], times=40)
        return batch

    compiled = final()
    monkeypatch.setenv("SALTUS_CC", "none")
    slow = final()
    assert "compiler" in slow.notes[0]
    assert slow.state.q == pytest.approx(compiled.state.q, abs=1e-7)
    assert slow.forces["toe"] == pytest.approx(compiled.forces["toe"], rel=1e-4, abs=1e-6)


def test_stops_and_stairs_bear_the_same_in_copies_that_run_by_themselves():
    pendulum = sl.Mechanism("pendulum", gravity=G)
    rod = pendulum.link("rod", mass=1.0, inertia=0.1, com=(0.5, 0))
    pendulum.revolute("hip", pendulum.ground.at(0, 0), rod.at(0, 0))
    pendulum.stop("hip", lower=-1.0, upper=1.0)
    for m, start, ground in (
        (pendulum, {"hip": 0.0}, {}),
        (block(), {"s": (-0.1, 0.01)}, {"ground": sl.ground.Stairs(0.1, 0.3, 3)}),
    ):
        found = []
        for exact in (False, True):
            batch = sl.Batch(m, 1, step=1e-3, exact=exact, **ground)
            batch.reset(m.assemble(**start))
            batch.step(times=1500)
            found.append(batch.forces)
        assert found[0].keys() == found[1].keys()
        for name, force in found[0].items():
            assert found[1][name] == pytest.approx(force, abs=1e-6)


def test_a_copy_whose_exact_run_cannot_go_on_is_lost():
    m = block()
    law = {"control": lambda t, s: {"x": sl.math.sqrt(0.0155 - t), "y": 0.0}}  # no number from there on
    batch = sl.Batch(m, 1, step=1e-3, exact=True, **law)
    batch.reset(m.assemble(s=(0.0, 1.0)))
    batch.step(times=20)
    assert batch.lost.all()
    assert 0.015 <= batch.t[0] <= 0.0156


def test_lengths_per_copy_close_their_own_loops():
    m = bolt()
    start = m.assemble(boom=(0, 0.6), q1=1.75, near=NEAR)
    lengths = np.linspace(0.185, 0.195, 9)
    batch = sl.Batch(m, 9, step=1e-3, params={"l_3": lengths}, threads=1)
    batch.reset(start)
    for k, length in enumerate(lengths):
        assert batch.state[k].params["l_3"] == length
        assert batch.state[k].gap < 1e-12
    with pytest.raises(sl.errors.BadValue, match="copy 4"):
        sl.Batch(m, 9, step=1e-3, params={"l_3": np.where(np.arange(9) == 4, 0.9, 0.19)}).reset(start)


def test_a_law_may_feel_the_ground():
    """It pushes sideways while the foot touches: as in `simulate`, jump after jump."""
    m = block(0.5)
    start = m.assemble(s=(0.0, 0.05), rates={"s": (0.3, 0.0)})

    def law(t, s):
        return {"x": 8.0 * s.touching["sole"], "y": 20.0 * sl.math.sin(20 * t)}

    reference = sl.simulate(m, start, until=0.9, control=law, tolerance=1e-12)
    assert sum(e.name == "sole touches" for e in reference.events) > 1
    found = run(m, start, 0.9, control=law, tolerance=1e-9)
    assert found.state.q[0] == pytest.approx(reference.end.positions, abs=1e-7)


@pytest.mark.parametrize("spatial", [False, True])
def test_soft_contacts_push_slip_and_stick_as_in_simulate(spatial):
    m = block(0.5, spatial=spatial, stiffness=2e4, damping=0.3)
    across = (0.4,) if spatial else ()
    start = m.assemble(s=(0.0, *(0.0 for _ in across), 0.02), rates={"s": (1.0, *across, -0.5)})
    reference = sl.simulate(m, start, until=0.6, tolerance=1e-12)
    assert {e.name for e in reference.events} == {"sole touches", "sole slips", "sole lifts"}
    found = run(m, start, 0.6, tolerance=1e-9)
    assert found.state.q[0] == pytest.approx(reference.end.positions, abs=1e-8)
    assert not found.doubts.any()


def hoop():
    m = sl.Mechanism("hoop", gravity=G)
    body = m.link("body", mass=1.0, inertia=0.002)
    m.planar("s", m.ground, body)
    m.foot("rim", body.at(0, 0), radius=0.05, friction=0.4)
    return m


def test_a_wheel_goes_down_stairs_of_its_own():
    """Every copy has steps of its own: it rolls, flies off edges and lands, as in `simulate`."""
    m = hoop()
    grounds = [sl.ground.Stairs(-rise, 0.3, 3, start=0.2) for rise in (0.02, 0.05, 0.11)]
    start = m.assemble(s=(0.0, 0.05, 0.0), rates={"s": (0.8, 0.0, -16.0)})
    batch = sl.Batch(m, 3, step=1e-3, ground=grounds, tolerance=1e-9, threads=1)
    batch.reset(start)
    batch.step(times=900)
    names = set()
    for k, ground in enumerate(grounds):
        reference = sl.simulate(m, start, until=0.9, ground=ground, tolerance=1e-12)
        names |= {e.name for e in reference.events}
        assert batch.state.q[k] == pytest.approx(reference.end.positions, abs=1e-6)
    assert {"rim lifts", "rim touches"} <= names
    assert not batch.doubts.any()


def test_ground_may_have_friction_piece_by_piece():
    """Over ice a block keeps its speed: v^2 / 2 = v0^2 / 2 - f g (s - ice)."""
    m = block(None)
    ground = sl.ground.Profile([-1, 0.2, 0.5, 9], [0, 0, 0, 0], friction=[0.3, 0.0, 0.3])
    batch = run(m, m.assemble(rates={"s": (2.0, 0.0)}), 2.0, ground=ground)
    assert batch.state.q[0, 0] == pytest.approx(4 / (2 * 0.3 * G) + 0.3, abs=1e-9)


def test_friction_on_a_ball_in_3d():
    """A point that slides over a round face: the direction along the face is none of its coordinates'."""
    m = sl.Mechanism("on a ball", gravity=G, spatial=True)
    body = m.link("body", mass=1.0, inertia=(0.01,) * 3)
    m.slide("s", m.ground, body, axes="xyz")
    m.touch("tip", body.at(0, 0, 0), m.links["ground"].round(0, 0, 0, radius=0.5), friction=0.3)
    start = m.assemble(s=(0.1, 0.0, math.sqrt(0.24)), rates={"s": (0.0, 0.6, 0.0)})
    reference = sl.simulate(m, start, until=0.4, tolerance=1e-12)
    assert run(m, start, 0.4, tolerance=1e-9).state.q[0] == pytest.approx(reference.end.positions, abs=1e-7)


def test_two_feet_of_one_body_share_what_they_bear():
    """Rows along the ground depend on each other: the body stays below the cone's slope and slides above it."""
    m = sl.Mechanism("table", gravity=G)
    body = m.link("body", mass=2.0, inertia=0.05)
    m.planar("s", m.ground, body)
    for name, x in (("left", -0.2), ("right", 0.2)):
        m.foot(name, body.at(x, -0.1), friction=0.4)
    slopes = [sl.ground.Slope(math.atan(rise)) for rise in (0.1, 0.39, 0.41)]
    starts = []
    for rise in (0.1, 0.39, 0.41):
        angle = math.atan(rise)
        up = 0.1
        starts.append(m.assemble(s=(-up * math.sin(angle), up * math.cos(angle), angle)))
    batch = sl.Batch(m, 3, step=1e-3, ground=slopes, threads=1)
    batch.reset(starts)
    batch.step(times=500)
    way = np.linalg.norm(batch.state.q[:, :2] - [x.positions[:2] for x in starts], axis=1)
    angle = math.atan(0.41)
    fall = (math.sin(angle) - 0.4 * math.cos(angle)) * G
    assert way[:2].max() < 1e-12
    assert way[2] == pytest.approx(fall * 0.125, rel=1e-6)
    assert not batch.doubts.any()
    pressed = batch.forces["left"][:2] + batch.forces["right"][:2]
    assert pressed == pytest.approx(np.array([[0.0, 2 * G]] * 2), abs=1e-6)


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 4, 16, 17))])
def test_random_batches_follow_the_event_exact_run(seed):
    """Machines of the campaign that once came out wrong, or have stairs, loops and many contacts."""
    batches = pytest.importorskip("robust.batches")
    found = batches.trial(seed)
    assert (found.verdict, found.copies) == ("right", {"right": 4})


@pytest.mark.parametrize("seed", [39, pytest.param(73, marks=pytest.mark.slow), 80])
def test_random_batches_are_right_or_say_that_they_are_not(seed):
    """Contacts that may jam or open after an impact, or at the start; feet of which loops hold some rows."""
    batches = pytest.importorskip("robust.batches")
    assert batches.trial(seed).verdict == "right"


@pytest.mark.parametrize(("step", "tolerance"), [(1e-3, math.inf), (1e-3, 1e-5), (1e-4, 1e-9)])
def test_a_loop_that_passes_its_dead_centre_is_lost(step, tolerance):
    """A crank and a rod as long as it move a slider, s = 2 r cos(angle), the independent coordinate where it starts.

    It turns back where both are in line: there copies end, however coarse their steps.
    """
    m = sl.Mechanism("slider crank", gravity=0)
    crank, rod = m.rod("crank", mass=1.0, length=0.2), m.rod("rod", mass=1e-6, length=0.2)
    slider = m.link("slider", mass=1e-6)
    m.slide("s", m.ground, slider, axes="x")
    m.revolute("pin", slider, rod.start)
    m.revolute("main", m.ground, crank.start)
    m.revolute("wrist", rod.end, crank.end)
    start = m.assemble(main=2.0, near={"s": 0.4 * math.cos(2.0), "pin": math.pi - 2.0}, rates={"main": 10.0})
    batch = sl.Batch(m, 2, step=step, tolerance=tolerance, threads=1)
    batch.reset(start)
    assert m.v_names[batch.motion.choice.independent[0]] == "s"
    turn = (math.pi - 2.0) / 10.0  # the other masses are small
    batch.step(times=round(0.9 * turn / step))
    assert not batch.done.any()
    assert batch.state.q[:, 0] == pytest.approx(0.4 * np.cos(2.0 + 10 * batch.t), abs=1e-5)
    batch.step(times=round(0.2 * turn / step))
    assert batch.lost.all()
    assert batch.t == pytest.approx(turn, abs=step)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"copies": 0}, "copies is 0"),
        ({"control": 5}, "control is 5"),
        ({"until": 5}, "until is 5"),
        ({"ground": "stairs"}, "ground is 'stairs'"),
        ({"step": -1e-3}, "step is"),
        ({"params": {"l_9": 1.0}}, "l_9"),
        ({"params": {"l_5": [1.0, 2.0]}}, "one per copy"),
        ({"ground": [sl.ground.Stairs(0.1, 0.3, 3)] * 3 + [sl.ground.Level()]}, "several kinds"),
        ({"control": sl.control.Sampled(lambda t, s: {"q1": 0.0})}, "traces its law"),
        ({"tolerance": 0}, "tolerance"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    given = {"copies": 4, "step": 1e-3} | given
    with pytest.raises(sl.errors.SaltusError, match=said):
        sl.Batch(bolt(), given.pop("copies"), **given)


@pytest.mark.parametrize("exact", [False, True])
def test_actions_that_are_not_numbers_are_refused_by_copy(exact):
    m = block()
    batch = sl.Batch(m, 3, step=1e-3, threads=1, exact=exact)
    batch.reset(m.assemble())
    with pytest.raises(BadValue, match=r"copies \[1\]"):
        batch.step([[1.0, 0.0], [math.nan, 0.0], [1.0, 0.0]])
    assert batch.lost.tolist() == [False, True, False]
    assert np.isfinite(batch.state.q).all()
    with pytest.raises(BadValue, match="give 2 numbers"):
        batch.step("fast")


def test_starts_go_to_the_copies_as_they_are_named():
    m = block()
    batch = sl.Batch(m, 3, step=1e-3)
    batch.reset(m.assemble(s=(0.0, 1.0)))
    batch.reset([m.assemble(s=(x, 1.0)) for x in (5.0, 7.0)], [2, 0])
    assert batch.state.q[:, 0].tolist() == [7.0, 0.0, 5.0]


@pytest.mark.parametrize(
    "given", [{"starts": None}, {"copies": ["a"]}, {"copies": [3]}, {"copies": [1, 1]}, {"begin": math.nan}]
)
def test_resets_that_cannot_be_are_refused(given):
    m = block()
    batch = sl.Batch(m, 3, step=1e-3)
    with pytest.raises(BadValue, match="give"):
        batch.reset(**{"starts": m.assemble(), **given})


def test_machines_without_contacts_have_no_forces():
    m = sl.zoo.five_bar()
    batch = sl.Batch(m, 3, step=1e-3)
    batch.reset(m.keyframe(next(iter(m.keyframes))))
    batch.step(times=5)
    assert batch.forces == {}


def test_a_start_below_the_ground_is_refused():
    m = bolt()
    batch = sl.Batch(m, 2, step=1e-3)
    with pytest.raises(sl.errors.BadValue, match="no state yet"):
        batch.step()
    high, low = (m.assemble(boom=(0, y), q1=1.75, near=NEAR) for y in (0.6, 0.2))
    with pytest.raises(sl.errors.BadValue, match=r"copy 1 starts with 'toe'"):
        batch.reset([high, low])


def test_more_feet_than_a_few_may_land_in_one_step():
    """Twelve points on slides of their own fall from 1 to 12 mm, and all lie on the ground after a step of 60 ms."""
    m, heights = sl.Mechanism("dozen"), 1e-3 * np.arange(1, 13)
    for k in range(len(heights)):
        body = m.link(f"body{k}", mass=1.0)
        m.slide(f"slide{k}", m.ground, body, axes="y")
        m.foot(f"foot{k}", body.at(0, 0), friction=0.5)
    batch = sl.Batch(m, 2, step=0.06)
    batch.reset(m.assemble(**{f"slide{k}": h for k, h in enumerate(heights)}))
    batch.step()
    assert np.abs(batch.state.q).max() < 1e-9
    assert not batch.doubts.any()
