"""Random machines end right or in a named outcome; the judge of that, its runner, and what the machines found."""

import json
import math
import os
import time
from dataclasses import replace

import numpy as np
import pytest
import robust.__main__ as command
from robust import contacts, faults, trial
from robust.build import build, run
from robust.draw import PLANE, random_machine
from robust.draw_touching import VARIANTS, random_toucher
from robust.ends import apart, compared
from robust.judge import Instant, of_run, of_start, residuals
from robust.judge_touching import of_run as of_touching
from robust.machines import Body, Machine, Pin
from robust.maximal import Bodies, Maximal, NoOpinion, turned
from robust.motion import world
from robust.touching import build as build_touching
from robust.touching import run as run_touching
from scipy.integrate import solve_ivp

import saltus as sl
from saltus.compile import find_compiler
from saltus.errors import BadModel, BadValue, Singular
from saltus.model.rank import independent_rows, rank

HERE = (np.eye(3), np.zeros(3))
Z = np.array([0.0, 0.0, 1.0])


pytestmark = pytest.mark.usefixtures("interpreted")


# ---- random machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_random_machines_end_right_or_in_a_named_outcome(part):
    """`python -m robust` runs thousands; here are the small ones among the first."""
    machines = [random_machine(seed) for seed in range(part, 80, 4)]
    small = [m for m in machines if len(m.bodies) * (1 + m.spatial) <= 4 and m.engine == "sundials"]
    assert small
    wrong = [r for r in (trial.trial(m.seed) for m in small) if r.verdict == "wrong"]
    assert not wrong


@pytest.mark.slow
def test_larger_random_machines():
    records = list(command.results(list(range(20_000, 20_600))))
    assert not [r for r in records if r["verdict"] == "wrong"]


@pytest.fixture(scope="module")
def touching():
    """A machine that touches, and its run."""
    given = random_toucher(120)
    return given, run_touching(given, build_touching(given))


def test_forces_without_bound_are_named_where_steps_end_before_them():
    """A foot with friction 17 that slips into Painleve's paradox; the judge finds it wedged, too."""
    given = random_toucher(475)
    run = run_touching(given, build_touching(random_toucher(470)))
    assert run.outcome.kind == "painleve"
    assert "without bound" in run.outcome.detail
    assert of_touching(given, run) == []


def test_a_slip_that_has_turned_round_has_not_ended():
    """Two feet on a slope in 3D, one slipping against the way in which it started: the other one must not let go."""
    given = random_toucher(2163)
    run = run_touching(given, build_touching(random_toucher(2160)))
    assert run.outcome.ok
    assert of_touching(given, run) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(4048, id="an impact is judged where it happened and not where contacts are held after it"),
        pytest.param(6966, id="a foot and dry friction of a joint share a pull up to their limits"),
    ],
)
def test_machines_that_touch_of_which_surveys_found_fault(seed):
    given = random_toucher(seed)
    run = run_touching(given, build_touching(random_toucher(seed // VARIANTS * VARIANTS)))
    assert run.outcome.ok, run.outcome
    assert of_touching(given, run) == []


def test_the_judge_of_contacts_agrees(touching):
    given, good = touching
    assert good.outcome.ok
    assert any(e.impact is not None for e in good.events)
    assert of_touching(given, good) == []


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("forces", lambda f: 1.1 * f, "balance"),
        ("forces", lambda f: -f, "pulls"),
        ("q", lambda q: q - 1e-3 * np.eye(q.shape[1])[1], "inside"),
        ("a", lambda a: a + 0.1, "accelerates"),
    ],
)
def test_the_judge_of_contacts_notices(touching, name, change, said):
    given, good = touching
    bad = sl.Trajectory(good.meta, good.arrays | {name: change(good.arrays[name])}, good.pieces, good.events)
    assert any(said in fault for fault in of_touching(given, bad)), of_touching(given, bad)


def test_the_judge_of_contacts_notices_an_impact_by_another_law(touching):
    given, good = touching
    hit = next(e for e in good.events if e.impact is not None)
    other = replace(hit, impact=replace(hit.impact, v=hit.v_before + 0.5 * (hit.impact.v - hit.v_before)))
    bad = sl.Trajectory(good.meta, good.arrays, good.pieces, [other])
    assert of_touching(given, bad)


def test_a_seed_gives_the_same_machine_again():
    for seed in (3, 44, 1234):
        assert repr(random_machine(seed)) == repr(random_machine(seed))


@pytest.mark.parametrize("name", faults.FAULTS)
@pytest.mark.parametrize("spatial", [False, True])
def test_bad_input_is_refused_by_name(name, spatial):
    m = sl.Mechanism("machine", spatial=spatial)
    m.param("mass", 1.0)
    m.revolute("j0", m.ground, m.rod("link0", mass=1.0, length=0.5, radius=0.02).start)
    verdict, _, detail = faults.spoilt(name, m, m.assemble(j0=0.3))
    assert verdict == "named", detail


# ---- the judge ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [2, 9, 24, 36, 50])
def test_the_judges_velocities_and_accelerations_are_derivatives_of_its_poses(seed):
    """Central differences along q(t) of a machine with turns and shifts (balls are turned by their own rates)."""
    machine = random_machine(seed)
    r, h = np.random.default_rng(seed), 1e-4
    v, a = r.normal(size=len(machine.v)), r.normal(size=len(machine.v))
    now = world(machine, 0.3, machine.q, v, a)
    ahead, behind = (world(machine, 0.3 + s, _moved(machine, v, a, s), 0 * v, 0 * v) for s in (h, -h))
    for name, pose in now.items():
        for part in ("R", "p"):
            x = [getattr(p[name], part)[0] for p in (behind, now, ahead)]
            scale = 1 + np.abs(getattr(pose, part)).max()
            np.testing.assert_allclose((x[2] - x[0]) / (2 * h), getattr(pose, part)[1], atol=1e-6 * scale)
            np.testing.assert_allclose((x[2] - 2 * x[1] + x[0]) / h**2, getattr(pose, part)[2], atol=1e-4 * scale)


def _moved(machine, v, a, s):
    """Positions after a time s, to second order."""
    out, q = [], machine.q
    for pin in (p for p in machine.tree if p.wave is None):
        for what, _ in pin.primitives:
            n = 3 if what == "ball" else 1
            step = v[:n] * s + a[:n] * s**2 / 2
            out += _turned(q[:4], step) if what == "ball" else [q[0] + step[0]]
            q, v, a = q[n + (n == 3) :], v[n:], a[n:]
    return np.array(out)


def _turned(q, step):
    """Quaternion times the exponential of a small turn."""
    angle = np.linalg.norm(step)
    w, x = math.cos(angle / 2), step * math.sin(angle / 2) / angle
    return [q[0] * w - q[1:] @ x, *(q[0] * x + w * q[1:] + np.cross(q[1:], x))]


def physical_pendulum():
    """A body on a pin: (I + m l^2) a = -m g l cos q."""
    body = Body("link0", 2.0, np.array([0.3, 0.0, 0.0]), np.diag([0, 0, 0.05]))
    pin = Pin("j0", "revolute", "ground", "link0", HERE, HERE, (Z,))
    return Machine(0, "tree", False, (body,), (pin,), (), np.array([0.4]), np.array([1.0]), 0.0, ("j0",))


def test_the_judge_knows_a_pendulum():
    machine = physical_pendulum()
    a = -2.0 * 9.81 * 0.3 * math.cos(0.4) / (0.05 + 2.0 * 0.3**2)
    total, _ = Instant(machine, 0.0, machine.q, machine.v, np.array([a])).forces({}, {})
    assert abs(total[0]) < 1e-14
    T, V, _ = Instant(machine, 0.0, machine.q, machine.v, np.array([a])).energies
    assert pytest.approx((0.05 + 2.0 * 0.09) / 2) == T
    assert pytest.approx(2.0 * 9.81 * 0.3 * math.sin(0.4)) == V


def plain_loop(m):
    """Whether it is a planar machine with a loop, of the default formulation, that nobody drives."""
    plain = m.theme == "loops" and m.formulation == "default" and not m.spatial and len(m.bodies) == 3
    return plain and m.v.any() and m.control == "none" and not m.prescribed and not any(p.wave for p in m.tree)


def right_run():
    """A planar machine with a loop that runs well."""
    machine = replace(random_machine(next(s for s in range(400) if plain_loop(random_machine(s)))), engine="sundials")
    built = build(machine)
    return machine, built, run(machine, built)


def test_the_judge_notices_faults():
    machine, built, good = right_run()
    assert of_start(machine, built.start) == []
    assert of_run(machine, good) == []

    def spoilt(name, change):
        arrays = {n: x.copy() for n, x in good.arrays.items()}
        change(arrays[name])
        return " ".join(of_run(machine, sl.Trajectory(good.meta, arrays, good.pieces, good.events, good.mechanism)))

    def add(x):
        x[-1] += 0.01

    def spoil(x):
        x[3] = math.nan

    assert "not finite" in spoilt("v", spoil)
    assert "accelerate" in spoilt("a", add)
    assert "loop gap" in spoilt("q", add)
    assert "kinetic energy" in spoilt("kinetic", add)
    off = sl.State(built.mechanism, built.start.positions + 0.01, built.start.velocities, built.start.params)
    assert "gap" in of_start(machine, off)[0]


def floating(m):
    solid = all(np.trace(b.inertia) > 0 for b in m.bodies)
    return m.floats and len(m.bodies) <= 3 and not m.loops and solid and m.engine == "sundials"


def test_the_judge_notices_lost_momentum():
    machine = next(m for m in map(random_machine, range(1000)) if floating(m))
    good = run(machine, build(machine))
    assert residuals(machine, good)["momentum"] < 1e-3
    good.arrays["v"][-1, 0] += 1.0
    assert residuals(machine, good)["momentum"] > 1e-2


# ---- the second judge -----------------------------------------------------------------------------------------------


def test_the_second_judge_knows_a_pendulum():
    """From 0.4 rad at 1 rad/s, against the one equation of its angle."""
    machine = physical_pendulum()
    start = Bodies.of(machine, 0.0, machine.q, machine.v)
    end = Maximal(machine, start).end(0.0, start, 0.5)
    inertia, weight = 0.05 + 2.0 * 0.09, 2.0 * 9.81 * 0.3
    rise = solve_ivp(
        lambda t, y: [y[1], -weight * math.cos(y[0]) / inertia], (0, 0.5), [0.4, 1.0], "DOP853", rtol=1e-12, atol=1e-13
    )
    exact = Bodies.of(machine, 0.0, rise.y[:1, -1], rise.y[1:, -1])
    assert apart(end, exact) < 1e-10


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_the_second_judge_are_derivatives_of_its_equations(seed):
    """J by central differences along turns and shifts of all bodies, gamma by those of the rates along a motion."""
    machine, r, h = random_machine(seed + 40), np.random.default_rng(seed), 1e-6
    here = Bodies.of(machine, 0.2, machine.q, machine.v)
    try:
        maximal = Maximal(machine, here)
    except NoOpinion as reason:
        pytest.skip(str(reason))
    x = r.normal(size=(maximal.n, 6))
    x[:, [] if machine.spatial else [2, 3, 4]] = 0.0
    here = replace(here, speed=x[:, :3], spin=x[:, 3:])

    def rows(s, t=0.2):
        turn = np.array([turned(s * w) @ R for w, R in zip(x[:, 3:], here.turn, strict=True)])
        moved = replace(here, place=here.place + s * x[:, :3], turn=turn)
        return maximal.constraints(t, moved, moved.poses(machine))[0]

    phi, J = maximal.constraints(0.2, here, here.poses(machine))
    size = 1 + np.abs(phi).max()
    still = (rows(h) - rows(-h))[:, 0] / (2 * h)
    np.testing.assert_allclose(J @ x.ravel()[maximal.columns], still, atol=1e-7 * size)
    along = (rows(h, 0.2 + h) - rows(-h, 0.2 - h)) / (2 * h)
    np.testing.assert_allclose(phi[:, 1], along[:, 0], atol=1e-7 * size)
    np.testing.assert_allclose(phi[:, 2], along[:, 1], atol=1e-7 * size**2)


def test_the_second_judge_notices_an_end_state_that_is_off():
    machine, _, good = right_run()
    off, allowed = compared(machine, good, 1e-8)
    assert off <= allowed < 1e-3
    good.arrays["v"][-1] *= 1.01
    off, allowed = compared(machine, good, 1e-8)
    assert off > allowed


@pytest.mark.parametrize("theme", PLANE)
def test_linkages_in_closed_form_close_everywhere(theme):
    """Also at dead centres: their loops by the first judge's equations, their rates by differences."""
    found = [m for m in map(random_machine, range(300)) if m.theme == theme][:20]
    for machine in found:
        for x in np.linspace(-7, 7, 29):
            q, q1, q2 = machine.branch.at(x)
            phi, J = Instant(machine, 0.0, q, q1, q2).constraints(False)
            assert np.abs(phi).max() < 1e-12 * max(1.0, np.abs(q2).max())
            assert np.abs(J @ q1).max() < 1e-12 * max(1.0, np.abs(q1).max())
            ahead, behind = machine.branch.at(x + 1e-5), machine.branch.at(x - 1e-5)
            np.testing.assert_allclose((ahead[0] - behind[0]) / 2e-5, q1, atol=1e-8)
            np.testing.assert_allclose((ahead[1] - behind[1]) / 2e-5, q2, atol=1e-8)


def test_the_same_call_twice_must_give_the_same_bits():
    _, _, good = right_run()
    arrays = {n: x.copy() for n, x in good.arrays.items()}
    other = sl.Trajectory(good.meta, arrays, good.pieces, good.events, good.mechanism)
    assert trial.differ(good, other) == ""
    arrays["q"][-1, 0] = np.nextafter(arrays["q"][-1, 0], np.inf)
    assert trial.differ(good, other).startswith("q differs by up to")
    assert trial.differ(good, BadValue("no such thing at all")) != ""


def test_machines_are_what_the_page_says():
    machines = [random_machine(seed) for seed in range(1000)]
    assert sum(m.formulation == m.engine == "default" for m in machines) >= 500
    assert sum(len(m.bodies) >= 4 for m in machines) >= 334
    assert sum(m.branch is not None for m in machines) >= 120


# ---- the runner -----------------------------------------------------------------------------------------------------


def test_a_hang_and_a_crash_are_results(monkeypatch):
    def stubborn(seed):
        if seed == 1:
            time.sleep(60)
        while seed == 4:
            pass
        if seed == 2:
            os._exit(7)
        return trial.Result(seed, "right", "finished", "")

    monkeypatch.setattr(trial, "trial", stubborn)
    monkeypatch.setattr(command, "SECONDS", 1.0)
    assert [r["end"] for r in command.results([0, 4, 2, 3])] == ["finished", "hang", "crash", "finished"]
    monkeypatch.setattr(command, "PATIENCE", 5.0)
    found = list(command.results([1, 2]))
    assert [r["end"] for r in found] == ["hang", "crash"]
    assert "code 7" in found[1]["detail"]
    assert [r["verdict"] for r in found] == ["wrong", "wrong"]


def test_a_worker_ends_with_the_process_that_started_it(tmp_path):
    worker = command.Worker(str(tmp_path), "robust.trial")
    worker.pipe.close()
    worker.process.join(20)
    assert worker.process.exitcode == 0


def test_a_run_goes_on_where_it_was_interrupted(monkeypatch, tmp_path, capsys):
    def quick(seed):
        return trial.Result(seed, "right", "finished", "", "tree")

    monkeypatch.setattr(trial, "trial", quick)
    kept, page = tmp_path / "robust.jsonl", tmp_path / "robustness.md"
    kept.write_text(json.dumps(trial.Result(1, "named", "Singular", "known", "tree").record()) + "\n")
    monkeypatch.setattr("sys.argv", ["robust", "--count", "3", "--results", str(kept), "--write", str(page)])
    assert command.main() == 0
    assert sorted(json.loads(line)["seed"] for line in kept.read_text().splitlines()) == [0, 1, 2]
    assert "| named | Singular | 1 | 1 |" in capsys.readouterr().out
    assert "3 machines, seeds 0 to 2: 2 right, 1 ended in a named error or outcome, 0 wrong." in page.read_text()


# ---- what the machines found ----------------------------------------------------------------------------------------


def crate(friction, speed, drop=0.0):
    """A block on the ground that slides at a speed (m/s)."""
    m = sl.Mechanism("crate")
    block = m.link("block", mass=2.0)
    m.slide("block", m.ground, block, axes="xy")
    m.point("sole", block.at(0, 0))
    system = sl.HybridSystem(m)
    system.domain("sliding", contacts=[sl.Sliding("sole", friction=friction)])
    return system, m.assemble(block=(0, drop), rates={"block.x": speed})


def test_friction_never_drives_a_contact_back():
    """A block at 1 m/s stops after v / (mu g) = 0.34 s; friction would have pushed it back ever faster."""
    system, start = crate(0.3, 1.0)
    ended = sl.simulate(system, start, until=1.0, engine="sundials")
    assert ended.outcome.kind == "slip ended"
    assert not ended.outcome.ok
    assert ended.outcome.t == pytest.approx(1 / (0.3 * 9.81), abs=1e-8)
    assert "Pinned" in ended.outcome.detail
    assert sl.simulate(system, start, until=0.3, engine="sundials").outcome.ok
    system, start = crate(0.0, 1.0)
    assert sl.simulate(system, start, until=1.0, engine="sundials").outcome.ok


def test_friction_on_a_contact_that_cannot_move_off_the_ground():
    """The height of a crate on rails is no coordinate, so its normal force is zero and so is friction."""
    m = sl.Mechanism("rails")
    m.slide("x", m.ground, m.link("crate", mass=1.0), axes="x")
    m.point("sole", m.links["crate"].at(0, 0))
    system = sl.HybridSystem(m)
    system.domain("sliding", contacts=[sl.Sliding("sole", friction=0.3)])
    run = sl.simulate(system, m.assemble(rates={"x": 1.0}), until=0.5, engine="sundials")
    assert run["x"][-1] == pytest.approx(0.5)


def test_the_energy_account_counts_an_impact_into_a_domain_that_is_left_at_once():
    """A ball lands and a lift-off (it is pulled up by 30 N) ends the stance before any time passes."""
    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=1.0)
    m.slide("y", m.ground, ball, axes="y")
    m.slide("x", ball, m.link("rider", mass=1.0), axes="x")
    m.force("lift", ball.at(0, 0), (0.0, 30.0))
    m.point("sole", ball.at(0, 0))
    system = sl.HybridSystem(m)
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Sliding("sole")])
    system.edge(air, stand, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    system.edge(stand, air, guard=sl.Liftoff("sole"))
    run = sl.simulate(system, m.assemble(y=1.0, rates={"y": -6.0}), domain="air", until=1.0, engine="sundials")
    assert [e.name for e in run.events] == ["touchdown", "liftoff"]
    assert run.events[0].t == run.events[1].t
    assert run.energy_account["lost at impacts"] < -1.0
    assert run.energy_account["relative residual"] < 1e-7


def test_the_energy_account_counts_work_before_a_bounce_into_the_same_domain():
    """A damped ball that bounces: what the damper took before each bounce stays in the account."""
    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=1.0)
    m.slide("y", m.ground, ball, axes="y")
    m.joint_spring("drag", "y", damping=0.5)
    m.point("sole", ball.at(0, 0))
    system = sl.HybridSystem(m)
    air = system.domain("air")
    bounce = sl.Collision([sl.Sliding("sole")], restitution=0.8)
    system.edge(air, air, guard=sl.Touchdown("sole"), reset=bounce)
    run = sl.simulate(system, m.assemble(y=0.5), until=1.2, engine="sundials")
    assert len(run.events) == 3
    assert run.arrays["work"][-1, 0] == pytest.approx(-np.trapezoid(0.5 * run.v.y**2, run.t), rel=1e-4)
    assert run.energy_account["relative residual"] < 1e-7


def test_a_pendulum_let_go_level_runs_on_the_taylor_engine():
    """Its series has every fourth term only; from level to upright below, w^2 = 3 g / l for a rod."""
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.rod("rod", mass=1.0, length=1.0).start)
    run = sl.simulate(m, m.assemble(), until=2.0, engine="heyoka", tolerance=1e-12)
    assert run.energy_account["relative residual"] < 1e-12
    assert np.abs(run.v.pin).max() ** 2 == pytest.approx(3 * 9.81, rel=1e-4)


def test_coordinates_that_move_nothing_heavy_are_named():
    """A point mass turns about itself: the equations hold no acceleration for it."""
    m = sl.Mechanism("point")
    m.planar("base", m.ground, m.link("mass", mass=1.0))
    for formulation in (sl.formulations.SPF(), sl.formulations.Index1(), sl.formulations.Projection()):
        with pytest.raises(Singular, match=r"base\.angle moves nothing heavy"):
            sl.simulate(m, m.assemble(), until=0.1, formulation=formulation, engine="sundials")


def massless_slider_crank(mass=0.0):
    """A heavy crank and a heavy block; the rod between them is without mass, or nearly so."""
    m = sl.Mechanism("loop")
    arm = m.rod("arm", mass=1.0, length=0.3)
    bar = m.rod("bar", mass=mass, length=0.8) if mass else m.massless("bar")
    m.revolute("q1", m.ground, arm.start)
    m.revolute("q2", arm.end, bar)
    m.slide("q3", m.ground.at(0.0, -0.5), m.link("block", mass=1.0), axes="x")
    m.revolute("end", bar.at(0.8, 0.0), m.links["block"].at(0, 0))
    return m, m.assemble(q1=0.4, near={"q2": -1.5, "q3": 0.5})


def test_a_link_without_mass_that_a_loop_holds_needs_none():
    """Reduced formulations never see its mass; the others agree with them, and with the limit of a light one."""
    m, start = massless_slider_crank()
    ends = [sl.simulate(m, start, until=0.3, formulation=f, tolerance=1e-11).end.positions for f in FORMULATIONS]
    np.testing.assert_allclose(ends, np.tile(ends[0], (len(ends), 1)), atol=1e-9)
    light = sl.simulate(*massless_slider_crank(1e-9), until=0.3, tolerance=1e-11)
    np.testing.assert_allclose(light.end.positions, ends[0], atol=1e-8)


def test_a_link_without_mass_that_nothing_holds_is_named():
    m, _ = massless_slider_crank()
    m.revolute("flap", m.links["block"], m.massless("flag"))
    start = m.assemble(q1=0.4, near={"q2": -1.5, "q3": 0.5})
    for formulation in FORMULATIONS:
        with pytest.raises(Singular, match="a motion of flap moves nothing heavy"):
            sl.simulate(m, start, until=0.1, formulation=formulation, engine="sundials")


def test_feet_on_a_leg_without_mass():
    """A body on a knee without mass hops as on one of 1e-9 kg: impacts need no mass of what loops hold either."""
    ends = []
    for mass in (0.0, 1e-9):
        m = sl.Mechanism("hopper")
        body, toe = m.link("body", mass=2.0), m.link("toe", mass=0.3)
        thigh, shank = (m.rod(n, mass=mass, length=0.3) if mass else m.massless(n) for n in ("thigh", "shank"))
        m.slide("y", m.ground, body, axes="y")
        m.slide("z", m.ground, toe, axes="y")
        m.revolute("hip", body, thigh)
        m.revolute("knee", thigh.at(0.3, 0), shank)
        m.revolute("ankle", shank.at(0.3, 0), toe)
        m.joint_spring("bend", "knee", stiffness=60.0, rest=1.0, damping=0.5)
        m.foot("sole", toe.at(0, 0), friction=0.5)
        run = sl.simulate(m, m.assemble(y=0.7, z=0.15, near={"hip": -2.0, "knee": 0.9}), until=0.6)
        assert run.outcome.ok
        assert [event.name for event in run.events] == ["sole touches", "sole lifts", "sole touches", "sole lifts"]
        ends.append([*run.end.positions, *(event.t for event in run.events)])
    np.testing.assert_allclose(*ends, atol=1e-7)


def four_bar(q1):
    """Bars of 0.2, 0.5, 0.3 and 0.4 m: at q1 = 0 all lie on one line, where the loop equations lose a rank."""
    m = sl.Mechanism("four-bar")
    bars = [m.rod(n, mass=1.0, length=x) for n, x in (("a", 0.2), ("b", 0.5), ("c", 0.3))]
    m.revolute("q1", m.ground, bars[0].start)
    m.revolute("q2", bars[0].end, bars[1].start)
    m.revolute("q3", m.ground.at(0.4, 0), bars[2].start)
    m.revolute("close", bars[1].end, bars[2].end)
    return m, m.assemble(q1=q1, near={"q2": 0.0, "q3": 0.0} if q1 == 0 else {"q2": 0.01, "q3": 0.01})


FORMULATIONS = (
    sl.formulations.SPF(),
    sl.formulations.Index1(),
    sl.formulations.Baumgarte(),
    sl.formulations.Projection(),
    sl.formulations.Minimal(),
)


@pytest.mark.parametrize("q1", [0.0, 1e-7])
def test_a_start_at_a_dead_centre_is_refused_by_every_formulation(q1):
    m, start = four_bar(q1)
    for formulation in FORMULATIONS:
        with pytest.raises(Singular, match="singular at the start"):
            sl.simulate(m, start, until=0.1, formulation=formulation, engine="sundials")


def test_a_start_a_little_way_off_a_dead_centre_is_right_or_says_that_it_is_not():
    m, start = four_bar(1e-3)
    runs = [sl.simulate(m, start, until=0.2, formulation=f, max_steps=5000) for f in FORMULATIONS]
    right = sl.simulate(m, start, until=0.2, formulation=sl.formulations.Projection(), tolerance=1e-12)
    assert right.outcome.ok
    ok = [run for run in runs if run.outcome.ok]
    assert max((run.energy_account["relative residual"] for run in ok), default=0.0) < 1e-5
    assert max((abs(run["q1"][-1] - right["q1"][-1]) for run in ok), default=0.0) < 1e-5


def test_a_motion_may_pass_a_dead_centre():
    """From q1 = 0.01 the bars fall back through the line they start next to, and other coordinates take over."""
    m, start = four_bar(0.01)
    ends = []
    for engine in ("scipy", "sundials"):
        run = sl.simulate(m, start, until=0.5, engine=engine)
        assert run.outcome.ok
        assert run["q1"].min() < -1.0  # beyond the line
        ends.append(run.end.positions)
    np.testing.assert_allclose(ends, np.tile(ends[0], (len(ends), 1)), atol=1e-6)
    others = (sl.formulations.SPF(), sl.formulations.Minimal())
    for run in (sl.simulate(m, start, until=0.1, formulation=f) for f in others):
        assert not run.outcome.ok
        assert "left its branch" in run.outcome.verdict


def parallelogram(cranks):
    """A table on cranks of equal length: each beyond the second adds rows that depend on the others everywhere."""
    m = sl.Mechanism("parallelogram")
    table = m.rod("table", mass=1.0, length=0.6)
    for i, (x, mass) in enumerate(((0.0, 0.5), (0.6, 0.5), (0.25, 1e-9))[:cranks]):
        crank = m.rod(f"crank{i}", mass=mass, length=0.3)
        m.revolute(f"foot{i}", m.ground.at(x, 0.0), crank.start)
        m.revolute(f"top{i}", crank.end, table.at(x, 0.0))
    return m, m.assemble(foot0=1.0, near={n: 1.0 if "foot" in n else -1.0 for n in m.q_names if n != "foot0"})


def test_a_bar_too_many_is_no_dead_centre():
    """A third crank without weight changes nothing."""
    two, three = (
        sl.simulate(*parallelogram(n), until=0.3, formulation=sl.formulations.Minimal(), engine="sundials")
        for n in (2, 3)
    )
    assert three.outcome.kind == "finished"
    assert three["foot0"][-1] == pytest.approx(two["foot0"][-1], abs=1e-7)


def test_rows_of_round_off_alone_constrain_nothing():
    """A second ball joint at the place of the first has them; once the longest of them locked a coordinate."""
    J = np.random.default_rng(1).normal(size=(3, 7))
    assert rank(4e-16 * J) == 0
    assert independent_rows(4e-16 * J) == []
    assert rank(1e-9 * J) == 3


def test_a_plane_joint_twice_between_the_same_links():
    """The second one's rows are the first one's: a puck on a table, at rest against gravity along y and z, goes on."""
    m = sl.Mechanism("puck", spatial=True)
    puck = m.link("puck", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.planar("on", m.ground, puck, normal="z")
    m.planar("again", m.ground.at(0.1, 0.2, 0.0), puck.at(0.3, 0.1, 0.0), normal="z")
    start = m.assemble(rates={"on.x": 1.0, "on.angle": 2.0})
    for formulation in FORMULATIONS:
        run = sl.simulate(m, start, until=0.5, formulation=formulation, engine="sundials")
        assert run.outcome.ok
        assert run["on.x"][-1] == pytest.approx(0.5, abs=1e-8)
        assert run["on.angle"][-1] == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize(("links", "loops"), [(3, [0]), (6, [2]), (5, [1, 2]), (8, [2, 5])])
def test_chains_of_bars_on_one_line_that_close_are_singular(links, loops):
    """Bars folded or stretched along x, pinned at places they pass: once some only shook, without a word."""
    m, lengths = sl.Mechanism("chain"), [0.2 + 0.05 * i for i in range(links)]
    at = np.cumsum([0.0, *[length * (-1) ** i for i, length in enumerate(lengths)]])  # ends of the bars along x
    bars = [m.rod(f"bar{i}", mass=1.0 + i, length=length) for i, length in enumerate(lengths)]
    for i, bar in enumerate(bars):
        m.revolute(f"q{i}", bars[i - 1].end if i else m.ground, bar.start)
    for k, i in enumerate(loops):  # the last bar's end, then its start, to bar i - 1 or to the ground
        x, place = float(at[links - k]), (lengths[-1], 0.0)[k]
        base = m.ground.at(x, 0.0) if i == 0 else bars[i - 1].at((x - float(at[i - 1])) * (-1) ** (i - 1), 0.0)
        m.revolute(f"close{k}", base, bars[-1].at(place, 0.0))
    near = {f"q{i}": math.pi if i else 0.0 for i in range(links)}
    start = m.assemble(near=near)
    for formulation in FORMULATIONS:
        with pytest.raises(Singular, match="singular at the start"):
            sl.simulate(m, start, until=0.1, formulation=formulation, engine="sundials")


def turning_four_bar(tolerance, until, formulation):
    """A crank at 20 rad/s, which passes by the dead centre in every turn."""
    m, _ = four_bar(0.0)
    start = m.assemble(q1=1.0, near={"q2": 0.01, "q3": 1.5}, rates={"q1": 20.0})
    return sl.simulate(m, start, until=until, formulation=formulation, engine="sundials", tolerance=tolerance)


def test_a_run_whose_accounts_do_not_close_is_not_ok(monkeypatch):
    """A hundredth of a joule that turns up from nowhere, of a few hundredths exchanged."""
    m, start = four_bar(0.01)
    monkeypatch.setattr("saltus.simulation.record._drift", lambda *_: 0.01)
    run = sl.simulate(m, start, until=0.3, engine="sundials")
    assert run.outcome.kind == "finished"
    assert not run.outcome.ok
    assert "0.01 J of energy are unexplained" in run.outcome.verdict


def test_a_run_whose_loops_come_apart_is_not_ok():
    """Multipliers alone let loops drift: by a centimetre in 10 s at 1e-5, where projection keeps them."""
    run = turning_four_bar(1e-5, 10.0, sl.formulations.Index1())
    assert run.loop_gap > 0.01
    assert run.outcome.kind == "finished"
    assert not run.outcome.ok
    assert "constraints are off by" in run.outcome.verdict
    kept = turning_four_bar(1e-5, 2.0, sl.formulations.Projection())
    assert kept.loop_gap < 1e-5  # the tolerance, between steps
    assert kept.outcome.ok


def test_a_bar_too_many_without_weight_keeps_its_pins():
    """A crank of 1e-9 kg once fell from its pin by centimetres under multipliers alone.

    At 0.29 s all cranks lie in line, which multipliers alone need not pass on their branch.
    """
    two, three = (
        sl.simulate(*parallelogram(n), until=0.25, formulation=sl.formulations.Index1(), engine="sundials")
        for n in (2, 3)
    )
    assert three.outcome.ok
    assert three.loop_gap < 1e-9
    assert three["foot0"][-1] == pytest.approx(two["foot0"][-1], abs=1e-7)


def test_a_start_off_the_constraints_is_the_only_fault_it_is_blamed_for():
    """The feedback that stops a foot does work, which no account holds; the verdict says why, and nothing else."""
    system, _ = crate(0.0, 0.0)
    start = system.mechanism.assemble(block=(0, 0.0), rates={"block.y": 1.0})
    run = sl.simulate(system, start, until=0.2, formulation=sl.formulations.Baumgarte(), engine="sundials")
    assert run.energy_account["relative residual"] > 0.1
    assert run.outcome.kind == "finished"
    assert not run.outcome.ok
    assert not any("unexplained" in fault for fault in run.outcome.faults)
    assert any("violates the constraints of 'sliding' by 0 m and 1 m/s" in fault for fault in run.outcome.faults)


def test_a_given_motion_that_contradicts_a_contact_is_named():
    """The foot is carried along at 1 m/s whatever the ground does."""
    m = sl.Mechanism("dragged")
    cart, leg = m.link("cart", mass=1.0), m.link("leg", mass=1.0)
    m.slide("x", m.ground, cart, axes="x", motion=m.motion("x", m.time))
    m.slide("y", cart, leg, axes="y")
    m.slide("rider", leg, m.link("rider", mass=1.0), axes="x")
    m.point("foot", leg.at(0, 0))
    system = sl.HybridSystem(m)
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Pinned("foot")])
    system.edge(air, stand, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    with pytest.raises(BadModel, match="motions given in time contradict its constraints"):
        sl.simulate(system, m.assemble(y=0.0), domain="stand", until=1.0, engine="sundials")
    run = sl.simulate(system, m.assemble(y=0.1), domain="air", until=1.0, engine="sundials")
    assert run.outcome.kind == "failed"
    assert "which no velocity meets to less than 1 m/s" in run.outcome.detail


def test_rows_are_changed_in_time_after_a_dead_centre():
    """A table on three cranks, in 3D: chosen next to the dead centre, rows once were kept until they were dependent."""
    record = trial.trial(212)
    assert (record.verdict, record.end) == ("right", "finished"), record.detail
    assert float(record.compared) < 1e-9  # from the closed form of its motion


def test_a_motor_comes_to_the_speed_it_has_without_load():
    """J w' = s (1 - w / w0): w = w0 (1 - exp(-s t / (J w0))), s = 4 P / w0 of a motor of which power P is known."""
    m = sl.Mechanism("flywheel")
    m.revolute("pin", m.ground, m.link("wheel", mass=1.0, inertia=0.1), motor=sl.Motor(speed=2.0, power=0.05))
    run = sl.simulate(m, m.assemble(), until=5.0, control=lambda t, s: {"pin": 1.0})
    expected = 2.0 * (1 - np.exp(-4 * 0.05 / 2.0 * 5.0 / (0.1 * 2.0)))
    assert run.outcome.ok
    assert run.end.velocities[0] == pytest.approx(expected, abs=1e-8)


def test_a_given_motion_beyond_where_loops_close_is_named():
    """Rods of 0.3 and 0.3 m reach 0.6 m; the block is driven out to 0.7 m."""
    m = sl.Mechanism("reach")
    a, b = m.rod("a", mass=1.0, length=0.3), m.rod("b", mass=1.0, length=0.3)
    m.revolute("q1", m.ground, a.start)
    m.revolute("q2", a.end, b.start)
    m.slide("x", m.ground, m.link("block", mass=1.0), axes="x", motion=m.motion("x", 0.4 + 0.3 * m.time))
    m.revolute("end", b.end, m.links["block"].at(0, 0))
    run = sl.simulate(m, m.assemble(near={"q1": 0.8, "q2": -1.6}), until=1.0)
    assert run.outcome.kind == "step too small"
    assert "motions given in time, which may lead beyond where loops close" in run.outcome.detail
    assert run.t[-1] == pytest.approx(2 / 3, abs=1e-3)


def test_a_run_of_too_many_steps_ends_by_name():
    m = sl.Mechanism("spinner")
    rod = m.rod("rod", mass=1e-3, length=0.01)
    m.revolute("pin", m.ground, rod.start)
    m.spring("spring", m.ground.at(0.0, 0.02), rod.end, stiffness=1e4)
    for engine in ("sundials", "heyoka", "scipy"):
        run = sl.simulate(m, m.assemble(), until=5.0, engine=engine, max_steps=300)
        assert run.outcome.kind == "step limit"
        assert not run.outcome.ok
        assert run.meta["steps"] <= 300
        assert np.isfinite(run.arrays["q"]).all()


def test_given_motions_that_contradict_a_loop_are_named():
    m = sl.Mechanism("driven")
    a, b = (m.rod(n, mass=1.0, length=1.0) for n in "ab")
    m.revolute("q1", m.ground, a.start, motion=m.motion("q1", m.time))
    m.slide("q2", m.ground.at(0.0, 0.5), b, axes="x")
    m.slide("end", a.end, b.at(1.0, -0.5), axes="x")
    with pytest.raises(BadValue, match="motions given in time contradict the loops"):
        m.assemble()


def test_a_loop_that_moves_with_no_coordinate():
    """Two slides in x and y between the same links: what the second locks, turning, nothing can do."""
    m = sl.Mechanism("table")
    top = m.link("top", mass=1.0)
    m.slide("table", m.ground, top, axes="xy")
    m.slide("again", m.ground.at(0.1, 0.2, angle=0.3), top.at(0.4, 0.1, angle=0.3), axes="xy")
    start = m.assemble(table=(0.3, 0.2), rates={"table.x": 1.0})
    run = sl.simulate(m, start, until=0.5, engine="sundials")
    assert run["table.x"][-1] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (3090, "a stop lets go, pulls and presses again within one step of the engine"),
        (4390, "dry friction at its limit, beside a stop that touches and bears nothing"),
        (5036, "the instant of a limit is known as well as forces are"),
        (5216, "friction by loads that a light link shares is reported as it acts"),
        (5621, "dry friction of a joint where a foot that slips bears the load"),
        (7322, "two feet share a push up to their common limit"),
        (8985, "static friction above that of slip: in 3D it starts where the motion goes"),
        (1235, "loads shared by links that turn at 200 rad/s are known to round-off"),
        (399, "a face that comes to rest does not stop the bounce of its joint's stop"),
        (5217, "accelerations that are round-off of what they are sums of are none"),
        (1450, "feet that nothing can move are jammed"),
        (962, "friction of a foot beside a joint that rubs ends in painleve, where the judge finds it wedged"),
    ],
)
def test_random_machines_that_touch_meet_the_laws(seed, what):
    record = contacts.trial(seed)
    assert record.verdict == next((end for end in ("jammed", "painleve") if end in what), "right"), record.detail


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (2608, "a slip that ends where its force grows without bound ends before that"),
        (1245, "a slip that turns round within the least step of time ends before it does"),
    ],
)
def test_the_compiled_engine_lands_before_forces_jump(monkeypatch, seed, what):
    monkeypatch.delenv("SALTUS_CC")
    record = contacts.trial(seed)
    assert record.verdict == "right", record.detail
