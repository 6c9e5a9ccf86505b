"""What runs over real ground say and show: strips, ground lines, losses by contact, points below the ground."""

import json
import math
import re

import numpy as np
import pytest

import saltus as sl
from saltus.view.drawing import between
from saltus.view.plots import LOOKS, strips

G = 9.81


def block(**law):
    """A point mass of 2 kg with a foot: a block that does not turn."""
    m = sl.Mechanism("block", gravity=G)
    body = m.link("body", mass=2.0)
    m.slide("base", m.ground, body, axes="xy")
    m.foot("sole", body.at(0, 0), **({"friction": 0.3} | law))
    return m


@pytest.fixture(scope="module")
def sliding():
    """Half a second down a slope of 30 degrees: s = (sin - 0.3 cos) g t^2 / 2."""
    m = block()
    return sl.simulate(m, m.assemble(base=(0, 0)), until=0.5, ground=sl.ground.Slope(30, "deg"))


@pytest.fixture(scope="module")
def bouncing():
    m = block(friction=0.0, restitution=0.5, radius=0.1)
    return sl.simulate(m, m.assemble(base=(0, 1.1)), until=2.0)


def test_report_names_slip_and_friction(sliding):
    way = (math.sin(math.pi / 6) - 0.3 * math.cos(math.pi / 6)) * G * 0.5**2 / 2
    assert sliding.contacts.slip_length("sole") == pytest.approx(way, rel=1e-6)
    assert f"contact sole: touched 1 x, at most {2 * G * math.cos(math.pi / 6):.4g} N" in sliding.report()
    assert f"slid {way:.4g} m, friction used 0.3 of 0.3" in sliding.report()
    work = -0.3 * 2 * G * math.cos(math.pi / 6) * way
    assert sliding.energy_account["work of friction sole"] == pytest.approx(work, rel=1e-9)


def test_losses_stand_under_the_contact(bouncing):
    """A ball dropped from 1 m that comes to rest has lost m g h, all of it at its foot."""
    account = bouncing.energy_account
    assert account["lost at impacts of sole"] == pytest.approx(-2 * G, rel=1e-8)
    assert "lost at impacts" not in account
    assert account["relative residual"] < 1e-8
    first = bouncing.impacts[0].impact  # m v^2 / 2 (1 - e^2)
    assert first.works.sum() == pytest.approx(-2 * G * 0.75, rel=1e-9)


def test_bounces_are_touches():
    """Let go from 1 m, it bounces by 0.8 after 0.45 s and again after 0.72 s more; it never stays."""
    m = block(restitution=0.8)
    run = sl.simulate(m, m.assemble(base=(0, 1)), until=1.5)
    assert run.contacts.touched("sole") == 2
    assert "contact sole: touched 2 x" in run.report()


def test_a_foot_that_strikes_and_is_pulled_off_at_once_has_touched():
    """A spring lifts the foot's mass as soon as it has struck, while the load that rubs on it goes on sinking."""
    m = sl.Mechanism("touch and go", gravity=G)
    a, b = m.link("a", mass=1.0), m.link("b", mass=1.0)
    m.slide("a", m.ground, a, axes="y")
    m.slide("b", a.origin, b.origin, axes="y")
    m.rub("b", 5.0, static=60.0)
    m.foot("toe", a.origin, friction=0.0)
    m.force("spring", a.origin, (0, 400 * (0.1 - m.q.a)))
    run = sl.simulate(m, m.assemble(a=0.3), until=0.2)
    assert {event.name for event in run.events[:2]} == {"toe touches", "b friction slips"}
    assert run.events[0].impact is not None
    assert run.contacts.touched("toe") == 1


def test_losses_survive_a_file(bouncing, tmp_path):
    sl.write(bouncing, tmp_path / "run.nc")
    again = sl.read(tmp_path / "run.nc")
    assert again.energy_account == bouncing.energy_account
    assert again.meta["ground"] == bouncing.meta["ground"]


def test_shares_of_two_contacts_add_up():
    """A rod that falls flat onto two feet, one of which bounces: works by row add up to what is lost."""
    m = sl.Mechanism("rod", gravity=G)
    body = m.link("body", mass=1.0, inertia=0.02)
    m.free("base", m.ground, body)
    for name, x in (("a", -0.2), ("b", 0.2)):
        m.foot(name, body.at(x, 0), friction=0.5)
    run = sl.simulate(m, m.assemble(base=(0, 0.2, 0.3), rates={"base": (0.5, 0, 1.0)}), until=1.0)
    account = run.energy_account
    shares = [account[f"lost at impacts of {n}"] for n in "ab"]
    assert sum(shares) == pytest.approx(-sum(e.impact.lost for e in run.impacts), rel=1e-10)
    assert max(shares) < -1e-3


def test_a_point_below_a_slope_or_step_is_named():
    """A point 0.2 m below the foot, along the normal of the slope, is that far below the ground."""
    for ground, start, depth in (
        (sl.ground.Slope(30, "deg"), (0.0, 0.0), 0.2 * math.cos(math.pi / 6)),
        (sl.ground.Stairs(0.5, 1.0, 1, start=0.3), (0.2, 0.0), 0.2),
        (sl.ground.Terrain(lambda x: 0.0 * x), (0.0, 0.0), 0.2),
    ):
        m = block(friction=5.0)
        m.point("keel", m.links["body"].at(0, -0.2))
        run = sl.simulate(m, m.assemble(base=start), until=0.1, ground=ground)
        assert not run.outcome.ok
        assert f"'keel' was {depth:.4g} m below the ground" in run.outcome.verdict
        assert run.outcome.verdict.count("below") == 1


def test_depth_inside_a_step_is_that_to_the_nearest_face():
    ground = sl.ground.Stairs(0.5, 1.0, 1, start=0.3)
    x, up = np.array([0.31, 0.8, 0.29, 0.31]), np.array([0.1, 0.45, 0.1, 0.6])
    assert ground.depth(x, 0 * x, up) == pytest.approx([0.01, 0.05, -0.01, -0.1])


def test_strips_are_the_intervals_of_the_run():
    """A block pushed along slips, stops and sticks: spans in the picture are those in which it did."""
    m = block()
    run = sl.simulate(m, m.assemble(base=(0, 0.05), rates={"base": (1.0, 0)}), until=0.6)
    _, ax = sl.view.style.axes_of(None)
    strips(ax, {"sole": run.contacts["sole"]}, 0.0, run.duration)
    for bars, mode in zip(ax.collections, LOOKS, strict=True):
        drawn = [(p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in bars.get_paths()]
        expected = [(x.begin, x.end) for x in run.contacts["sole"] if x.mode == mode]
        assert np.array(drawn) == pytest.approx(np.array(expected), abs=run.duration / 500)
        assert expected
    assert LOOKS["slip"]["hatch"]


def test_torques_stand_on_the_axis_where_a_turn_is_stopped_alone(sliding, tmp_path):
    m = sl.Mechanism("arm", gravity=G)
    arm = m.rod("arm", mass=1.0, length=0.3)
    m.revolute("pin", m.ground, arm.start)
    m.stop("pin", lower=-0.1)
    stopped = sl.simulate(m, m.assemble(pin=0.0), until=0.3)
    labels = [sl.view.plot_contacts(run).axes[1].get_ylabel() for run in (sliding, stopped)]
    assert labels == ["force (N)", "force (N), of turns (Nm)"]
    sl.write(sliding, tmp_path / "run.nc")
    alone = sl.read(tmp_path / "run.nc")
    assert alone.mechanism is None  # it is drawn without its machine, whose units nobody knows
    assert sl.view.plot_contacts(alone).axes[1].get_ylabel() == "force (N), of turns (Nm)"


def test_a_path_shows_when_its_own_foot_is_on_the_ground():
    """A body in 3D that falls flat on a low foot and a high one: the high one is never marked, heights are z."""
    m = sl.Mechanism("box", spatial=True, gravity=G)
    body = m.link("body", mass=2.0, inertia=(0.02, 0.02, 0.02))
    m.free("body", m.ground, body)
    for name, up in (("low", -0.1), ("high", 0.1)):
        m.foot(name, body.at(0, 0, up), friction=0.5)
    run = sl.simulate(m, m.assemble(body=(0, 0, 0.2, 1, 0, 0, 0)), until=0.3)
    marked = {}
    for name in ("low", "high"):
        ax = sl.view.plot_path(run, name).axes[0]
        assert ax.get_ylabel() == "z (m)"
        marked[name] = [line for line in ax.lines if line.get_label() == "on the ground"]
    assert not marked["high"]
    heights = marked["low"][0].get_ydata()
    assert np.nanmax(np.abs(heights)) < 1e-9 < np.isfinite(heights).sum()
    turned = [ax for ax in sl.view.plot_coordinates(run).axes if ax.get_ylabel() == "quaternion (1)"]
    assert max(np.nanmax(line.get_ydata()) for line in turned[0].lines) == pytest.approx(1.0)


def test_the_drawn_ground_is_the_ground(sliding):
    line = between(sliding.meta["ground"], -3.0, 7.0)
    assert line[:, 1] == pytest.approx(line[:, 0] * math.tan(math.pi / 6))
    stairs = sl.ground.Stairs(0.5, 1.0, 1, start=0.3).line(-2.0, 2.0)
    assert between(stairs, 0.0, 1.0).tolist() == [[0.0, 0.0], [0.3, 0.0], [0.3, 0.5], [1.0, 0.5]]
    waves = sl.ground.Terrain(lambda x: 0.1 * sl.math.sin(5 * x)).line(0.0, 1.0)
    assert waves[:, 1] == pytest.approx(0.1 * np.sin(5 * waves[:, 0]))


def test_player_and_figures_have_ground_and_round_feet(bouncing, sliding):
    from saltus.view.player import player

    data = json.loads(re.search(r'class="data">(.*?)</script>', player(bouncing), re.S).group(1))
    assert [radius for _, radius in data["feet"]] == [0.1]
    assert {height for _, height in data["ground"]} == {0.0}
    figures = sl.view.figures(sliding)
    assert [text.get_text() for text in figures["contacts"].axes[0].get_yticklabels()] == ["sole"]
    low = figures["contacts"].axes[2]
    used, given = (next(x for x in low.lines if x.get_label() == f"sole: {n}") for n in ("used", "given"))
    assert np.nanmax(used.get_ydata()) == pytest.approx(0.3)
    assert np.nanmax(given.get_ydata()) == pytest.approx(0.3)


def test_round_foot_high_above_waves():
    """Farther above a hollow than its radius of curvature the nearest point is not unique: a ball falls as ever."""
    m = block(friction=0.5, radius=0.03)
    ground = sl.ground.Terrain(lambda x: 0.08 * sl.math.cos(6 * x))
    x = math.pi / 6  # the bottom of a hollow
    run = sl.simulate(m, m.assemble(base=(x, 1.0)), until=0.6, ground=ground)
    touch = next(e for e in run.events if e.name == "sole touches")
    assert touch.t == pytest.approx(math.sqrt(2 * (1.0 - 0.03 + 0.08) / G), abs=1e-9)
    assert run.outcome.ok


def test_strips_of_the_studio():
    from saltus.studio.charts import LEFT, RIGHT, WIDE, strips

    chart = strips({"left": [("stick", 0.0, 1.0), ("slip", 1.0, 2.0)], "right": []}, 0.0, 2.0)
    boxes = [
        (float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', chart.svg())
    ]
    (x1, w1), (x2, w2) = boxes[-2:]
    assert x2 == pytest.approx(x1 + w1, abs=0.11)  # the slip begins where the stick ends
    assert w1 == pytest.approx((WIDE - LEFT - RIGHT) / 2.2, abs=0.11)
    assert w2 == pytest.approx(w1, abs=0.11)
    assert chart.svg().count("url(#slip)") == 1


def test_a_machine_of_the_command_line_has_its_feet():
    """A Mechanism that a Python file defines stands on its feet in `saltus run` and in the studio."""
    from saltus.cli.machines import _as_system

    m = block()
    run = sl.simulate(_as_system(m), m.assemble(base=(0, 0.1)), until=1.0)
    assert run["base.y"][-1] == pytest.approx(0.0, abs=1e-9)
    slope = sl.simulate(
        _as_system(m), m.assemble(base=(0, 0.1)), until=0.1, ground=sl.ground.Stairs(0.1, 1.0, 1, start=3)
    )
    assert slope.outcome.ok


def test_what_code_and_files_do_not_hold_of_contacts_is_refused_by_name(tmp_path):
    with pytest.raises(sl.errors.BadModel, match="'block' has contacts that find their own modes"):
        sl.export(block(), tmp_path, to="numpy")
    with pytest.raises(sl.errors.SaltusError, match="'sole'"):
        sl.write(block(restitution=0.5), tmp_path / "a.urdf")
    assert not (tmp_path / "a.urdf").exists()
