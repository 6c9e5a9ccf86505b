"""Figures, animations and reports: what is drawn is there, with units, and where it should be."""

import html
import json
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Circle

import saltus as sl
from saltus.model.geometry import skeleton, trace
from saltus.view.colours import PALETTE
from saltus.view.placing import DEEP, ground_line, seen, shadows
from saltus.view.style import svg

UNIT = re.compile(r"\((m|m/s|deg|deg/s|rad/s|s|N|Nm|J|1)\)")


@pytest.fixture(scope="module")
def system():
    return sl.zoo.bolt()


@pytest.fixture(scope="module")
def run(system):
    start = system.mechanism.keyframe("drop")
    return sl.simulate(
        system, start, until=20.0, domain="flight", control=system.controls["run"], stop_after={"touchdown": 4}
    )


@pytest.fixture(scope="module")
def figures(run, system):
    return sl.view.figures(run, system=system)


def test_a_friction_that_no_ground_has_is_said(run, tmp_path):
    """BOLT's foot is pinned, as published: the force along the ground is 13 times that on it."""
    along, up = run.force("foot")[:, :2].T
    need = float(re.search(r"friction needed ([\d.]+), more than real ground gives", run.report())[1])
    loaded = up > 0.01 * up.max()
    assert need == pytest.approx((abs(along[loaded]) / up[loaded]).max(), rel=0.01)
    assert "a real foot would slip" in sl.view.report(run, tmp_path / "r.html", figures={}).read_text()


def labels(figure):
    """Axis labels that are shown: panels that share the x axis have one only, at the bottom."""
    for ax in figure.axes:
        yield from (text for text in (ax.get_xlabel(), ax.get_ylabel()) if text)


# ---- geometry --------------------------------------------------------------------------------------------


def test_skeleton_joins_the_pins_of_every_link():
    """BOLT's pins: 5 moving links, the tibia with knee, pin and foot in one line, 2 pins on the ground."""
    m = sl.zoo.bolt_linkage(base="fixed")
    bones = skeleton(m)
    assert list(bones.links) == ["crank", "hfe", "kfe", "femur", "tibia"]
    assert all(len(outline) == 2 for outline in bones.links.values())
    assert bones.links["tibia"][1] == bones.named["foot"] or bones.links["tibia"][0] == bones.named["foot"]
    assert len(bones.fixed) == 2


def test_skeleton_has_ends_of_rods_bodies_without_extent_and_no_dampers():
    m = sl.Mechanism("pendulum on a cart")
    cart = m.link("cart", mass=8.0, inertia=0.12)
    m.planar("base", m.ground, cart)
    for name in ("first", "second"):
        m.revolute(name, cart.origin, m.rod(f"{name}_rod", mass=1.0, length=0.3).start)
    m.joint_spring("bearing", "first", damping=0.1)
    m.joint_spring("spring", "second", stiffness=2.0)
    bones = skeleton(m)
    assert [len(bones.links[n]) for n in ("cart", "first_rod", "second_rod")] == [1, 2, 2]
    assert bones.bulks == {"cart": pytest.approx(math.sqrt(0.12 / 8.0))}  # as of a ring of that radius
    assert len(bones.spirals) == 1


def test_skeleton_of_a_plate_is_its_hull():
    m = sl.Mechanism("plate")
    plate = m.link("plate", mass=1.0, inertia=0.01)
    m.revolute("a", m.ground.at(0, 0), plate.at(0, 0))
    for name, place in (("b", (1, 0)), ("c", (1, 1)), ("d", (0, 1)), ("middle", (0.5, 0.5))):
        m.point(name, plate.at(*place))
    bones = skeleton(m)
    assert len(bones.links["plate"]) == 4
    assert bones.named["middle"] not in bones.links["plate"]


def test_trace_agrees_with_the_run_and_with_the_state(run, system):
    m = system.mechanism
    traced = sl.trace(m, run.arrays["q"], ["foot"], params=run.params)[:, 0]
    np.testing.assert_allclose(traced, run.point("foot"), atol=1e-12)
    start = m.keyframe("drop")
    np.testing.assert_allclose(sl.trace(m, start.positions, ["knee"])[0, 0], start.position("knee"), atol=1e-14)


def test_trace_refuses_rows_of_the_wrong_length(system):
    with pytest.raises(sl.errors.BadValue, match="7 coordinates"):
        sl.trace(system.mechanism, np.zeros((3, 5)))


# ---- strides ---------------------------------------------------------------------------------------------


def test_strides_are_what_lies_between_touchdowns(run):
    gait = sl.strides(run)
    touchdowns = [e.t for e in run.events if e.name == "touchdown"]
    assert len(gait) == 3
    np.testing.assert_allclose(gait.times, np.diff(touchdowns))
    liftoffs = [e.t for e in run.events if e.name == "liftoff"]
    stance = np.array(liftoffs) - np.array(touchdowns[:-1])
    np.testing.assert_allclose(gait.duty, stance / np.diff(touchdowns), rtol=1e-9)
    feet = sl.trace(run.mechanism, np.array([e.q for e in run.events if e.name == "touchdown"]), ["foot"])
    x = feet[:, 0, 0]
    np.testing.assert_allclose(gait.lengths, np.diff(x), atol=1e-9)
    assert gait.mean_speed == pytest.approx((x[-1] - x[-3]) / (touchdowns[-1] - touchdowns[-3]), rel=1e-9)


def test_a_touchdown_that_fires_twice_at_once_is_one(run):
    twice = [e for e in run.events for _ in range(1 + (e.name == "touchdown"))]
    again = sl.strides(sl.Trajectory(run.meta, run.arrays, run.pieces, twice, run.mechanism))
    np.testing.assert_array_equal(again.times, sl.strides(run).times)
    np.testing.assert_array_equal(again.duty, sl.strides(run).duty)


@pytest.mark.parametrize("steps", [4, 5])
def test_a_walker_on_two_feet_is_as_fast_over_any_number_of_steps(steps):
    """The gait of the compass walker: every step is 0.42 m (its docstring), whichever foot it starts with."""
    walker = sl.zoo.compass()
    start = walker.mechanism.keyframe("walking")
    walk = sl.simulate(walker, start, domain="first", until=20.0, stop_after={"touchdown": steps + 1})
    gait = sl.strides(walk)
    np.testing.assert_allclose(gait.lengths, gait.lengths[0], rtol=1e-5)
    assert gait.mean_speed == pytest.approx(0.42 / 0.71, rel=0.02)


def test_a_run_without_touchdowns_has_no_strides():
    m = sl.zoo.four_bar()
    gait = sl.strides(sl.simulate(m, m.keyframe("middle"), until=0.1))
    assert len(gait) == 0
    assert np.isnan(gait.mean_speed)


# ---- figures ---------------------------------------------------------------------------------------------


def test_all_figures_of_a_leg_are_made(figures):
    names = ("snapshots", "path", "coordinates", "portraits", "loop_gaps", "energy", "torques", "contacts")
    assert tuple(figures) == names


def test_every_axis_names_its_unit(figures):
    for name, figure in figures.items():
        shown = list(labels(figure))
        assert len(shown) >= 2, name
        for text in shown:
            assert UNIT.search(text), f"{name}: {text!r} has no unit"


def test_a_machine_is_drawn_where_it_is():
    state = sl.zoo.bolt_linkage(base="fixed").keyframe("crank level")
    figure = sl.view.plot_machine(state, ground=-0.45)
    drawn = np.vstack([line.get_xydata() for line in figure.axes[0].lines if len(line.get_xydata()) == 2])
    for point in ("foot", "knee", "hip"):
        assert np.abs(drawn - state.position(point)).max(axis=1).min() < 1e-12
    assert list(labels(figure)) == ["x (m)", "y (m)"]


def test_snapshots_strobe_and_paths_take_their_points(run):
    assert len(sl.view.plot_snapshots(run, times=[0.1, 0.2, 0.3]).axes[0].get_xticks()) == 3
    figure = sl.view.plot_strobe(run, since=0.2, until=0.8, paths=("foot",))
    assert figure.axes[0].get_xlabel() == "x (m)"
    with pytest.raises(sl.errors.UnknownName, match="foot"):
        sl.view.plot_path(run, "feet")
    with pytest.raises(sl.errors.UnknownName, match="q1"):
        sl.view.plot_coordinates(run, ["q9"])


def test_stance_is_shaded_where_the_foot_is_down(run):
    ax = sl.view.plot_coordinates(run, ["boom.y"]).axes[0]
    (shaded,) = ax.collections
    spans = [(p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in shaded.get_paths()]
    touchdowns = [e.t for e in run.events if e.name == "touchdown"]
    liftoffs = [e.t for e in run.events if e.name == "liftoff"]
    np.testing.assert_allclose(spans[: len(liftoffs)], list(zip(touchdowns, liftoffs, strict=False)), atol=1e-9)


def test_energy_curves_add_up(run):
    """At every sample change of energy = work - loss at impacts, as drawn."""
    low = sl.view.plot_energy(run).axes[1]
    lines = {line.get_label(): line.get_ydata() for line in low.lines}
    end = [float(lines[name][-1]) for name in ("change of energy", "work of motor q1", "lost at impacts")]
    last = run.events[-1].impact
    assert end[0] == pytest.approx(end[1] + end[2], abs=1e-6 * abs(end[1]) + 1e-6)
    assert last is not None


def test_torque_limits_are_those_of_the_domain(run, system):
    (ax,) = sl.view.plot_torques(run, system=system).axes
    limit = next(line for line in ax.lines if line.get_label() == "limit of the motor").get_ydata()
    assert np.nanmin(limit) > 0
    assert np.isclose(limit, 30.0).any()  # in flight


def test_figures_that_make_no_sense_say_so():
    m = sl.zoo.four_bar()
    swing = sl.simulate(m, m.keyframe("middle"), until=0.1)
    with pytest.raises(sl.errors.BadValue, match="no ground contacts"):
        sl.view.plot_contacts(swing)
    assert "contacts" not in sl.view.figures(swing)


def test_saved_formats_and_repeatable_svg(figures, tmp_path):
    written = sl.view.save(figures["path"], tmp_path / "deep" / "path", ("png", "svg", "pdf"))
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    for path in written:
        assert path.read_bytes().startswith(starts[path.suffix])
    assert svg(figures["path"]) == svg(figures["path"])
    assert len(set(PALETTE.values())) == 8


# ---- runs loaded from files ------------------------------------------------------------------------------


def test_a_loaded_run_needs_its_machine(run, system, tmp_path):
    loaded = sl.read(sl.write(run, tmp_path / "run.nc"))
    assert loaded.mechanism is None
    with pytest.raises(sl.errors.BadValue, match="mechanism="):
        sl.view.plot_snapshots(loaded)
    with pytest.raises(sl.errors.BadValue, match="other coordinates"):
        sl.view.plot_snapshots(loaded, mechanism=sl.zoo.four_bar())
    assert sl.view.plot_snapshots(loaded, mechanism=system.mechanism).axes
    assert "snapshots" not in sl.view.figures(loaded)
    assert "param" in sl.view.report(loaded, tmp_path / "loaded.html", figures={}).read_text()


# ---- animation and report --------------------------------------------------------------------------------


def test_animation_has_a_frame_for_every_instant(run, tmp_path):
    from PIL import Image

    seen = []
    path = sl.view.animate(
        run, tmp_path / "run.gif", fps=20, since=0.1, until=0.6, progress=lambda k, n: seen.append((k, n))
    )
    with Image.open(path) as film:
        assert film.n_frames == 11
        assert film.info["duration"] == 50
        first = np.asarray(film.convert("RGB"), int)
        film.seek(6)
        moved = np.asarray(film.convert("RGB"), int)
    assert (np.abs(first - moved).sum(axis=2) > 60).mean() > 0.005
    assert seen[-1] == (11, 11)


def test_animation_refuses_an_empty_span(run, tmp_path):
    with pytest.raises(sl.errors.BadValue, match="nothing to draw"):
        sl.view.animate(run, tmp_path / "x.gif", since=3.0, until=1.0)


def test_report_is_one_file_that_needs_no_network(run, figures, tmp_path):
    page = sl.view.report(run, tmp_path / "report.html", figures=figures, command="saltus run bolt")
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?://", text)
    assert not re.search(r"<(link|iframe|script[^>]* src)", text)
    assert all(target.startswith(("data:", "#")) for target in re.findall(r'(?:src|href)="([^"]{1,9})', text))
    parts = (
        "Energy account",
        "Contacts",
        "Events",
        "Parameters",
        "Versions",
        "saltus run bolt",
        "Projection(iterations=2)",
    )
    for part in parts:
        assert part in text
    assert text.count("<svg") == 8


def test_nothing_of_a_figure_is_cut_off(figures):
    """Margins are given in inches and not measured, so they must hold what stands in them."""
    for name, figure in figures.items():
        if name == "snapshots":  # lays itself out
            continue
        FigureCanvasAgg(figure).draw()
        drawn, page = figure.get_tightbbox(), figure.get_size_inches()
        assert min(drawn.x0, drawn.y0) > -0.01, name
        assert (np.array([drawn.x1, drawn.y1]) < page + 0.01).all(), name


def test_phase_portraits_show_where_switching_surfaces_are_met():
    """Zana et al. (2018), eqs. 11 and 12: the hopper touches down on z_L = 0, where its foot then stays at rest."""
    system = sl.zoo.hopper()
    hop = sl.simulate(system, system.mechanism.keyframe("takeoff"), domain="flight", until=2.0)
    figure = sl.view.plot_phase_portrait(hop, "z_L", surfaces={"F2G": (0.0, [-100.0, 100.0])})
    (ax,) = figure.axes
    met = {line.get_marker(): line.get_xydata() for line in ax.lines if line.get_marker() != "None"}
    assert set(met) == {"o", "s"}
    assert len(met["o"]) == len([e for e in hop.events if e.name == "touchdown"])
    assert np.abs(met["o"][:, 0]).max() < 1e-9
    assert (met["o"][:, 1] < -0.5).all()
    assert np.abs(met["s"]).max() < 1e-6  # lift-off: at rest on the ground
    (surface,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert (surface.get_xdata() == 0.0).all()
    assert ax.get_ylim()[1] < 10.0  # the surface does not stretch the picture
    assert "F2G" in {text.get_text() for text in ax.texts}


# ---- odd machines and odd names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two-way", r"$\x$", "a $ b $ c", "<b>&amp;", "%s {x}", "x" * 300])
def test_a_two_way_bend_and_odd_names_are_drawn(tmp_path, name):
    """A bend's coordinates are angles (rad), both of them; dollars in a name are no formula."""
    m = sl.Mechanism(name, spatial=True)
    body = m.link("body", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.bend("tail", m.ground, body, length=0.3, towards="yz")
    m.point("tip", body.at(0.1, 0, 0))
    run = sl.simulate(m, m.assemble(), until=0.05, engine="sundials", rate=200.0)
    assert len(m.q_names) == 2
    figure = sl.view.plot_coordinates(run)
    assert [ax.get_ylabel() for ax in figure.axes] == ["angle (deg)"]
    figure.axes[0].set_title(name)
    for path in sl.view.save(figure, tmp_path / "figure", ("svg", "pdf", "png")):
        assert path.stat().st_size > 500
    ET.fromstring((tmp_path / "figure.svg").read_text())
    page = sl.view.report(run, tmp_path / "report.html").read_text()
    assert html.escape(name) in page


def test_a_gallery_of_strangers_results(tmp_path):
    """Files that are no results are left out; text of results is text."""
    rows = [{"quantity": "<script>x</script>", "published": 1, "computed": 2.0, "unit": "m", "agrees": True, "why": ""}]
    good = {"study": "a", "title": "<img src=x onerror=x>", "source": "", "comparisons": rows, "notes": ["<b>"]}
    bad = ["[]", "3", '{"study": 1}', '{"study": "a", "title": "b", "comparisons": 7}', "[" * 100_000, "{"]
    bad.append(json.dumps({**good, "comparisons": [{**rows[0], "agrees": "yes"}]}))
    bad.append(json.dumps({**good, "comparisons": [{**rows[0], "published": {}}]}))
    bad.append(json.dumps({**good, "comparisons": [{**rows[0], "published": 10**400}]}))
    bad += [json.dumps({**good, "notes": 5}), json.dumps({**good, "title": "\ud800"})]
    for k, text in enumerate([json.dumps(good), *bad]):
        (tmp_path / str(k)).mkdir()
        (tmp_path / str(k) / "result.json").write_text(text)
    page = sl.view.gallery(tmp_path).read_text()
    assert "1 studies" in page
    assert "<script>" not in page
    assert "<img src=x" not in page


def test_machines_in_3d_are_seen_in_perspective():
    """Points of the middle plane stay; lines along y meet where the eye looks straight; two legs are drawn apart."""
    width = np.array([[[x, y, z] for x in (0.0, 1.0) for y in (-0.2, 0.2) for z in (0.0, 1.0)] + [[0.3, 0.0, 0.4]]])
    width[0, -1] = [0.5, 0.0, 0.5]
    flat = seen(width)[0]
    assert flat[-1] == pytest.approx([0.5, 0.5])
    near, far = flat[[0, 1, 4, 5]], flat[[2, 3, 6, 7]]
    assert np.linalg.norm(near - far, axis=1).min() > 0.05
    assert np.ptp(near[:, 0]) > 1 > np.ptp(far[:, 0])
    eye = np.array([0.5, 0.5]) + 4.0 * np.array([-0.5, 0.35])
    for a, b in zip(near, far, strict=True):  # all such lines lead to one point
        (u, v), (x, y) = b - a, eye - a
        assert u * y - v * x == pytest.approx(0.0, abs=1e-12)
    assert seen(width * [1, 0, 1])[0] == pytest.approx(width[0][:, [0, 2]])


def test_feet_in_3d_stand_on_the_ground_that_is_drawn():
    """Its line is the far edge, where the projection of points puts it; balls below it are no squares."""
    m = sl.zoo.quadruped()
    state = m.keyframe("trot")
    world = trace(m, state.positions)
    flat = seen(world)
    edge = ground_line([[-2.0, 0.0], [2.0, 0.0]], flat, spatial=True)
    deep = DEEP * np.ptp(world, axis=1).max()
    far = np.array([[[float(world[0, :, 0].mean()), float(world[0, :, 1].mean()) + deep, 0.0]]])
    assert edge[:, 1] == pytest.approx(seen(far, world)[0, 0, 1], rel=0.1)
    on_floor = world * [1.0, 1.0, 0.0]
    assert seen(on_floor, world)[..., 1].max() < edge[0, 1]
    assert np.array_equal(ground_line([[0.0, 0.1], [1.0, 0.2]], flat, spatial=False), [[0.0, 0.1], [1.0, 0.2]])
    ax = sl.view.plot_machine(state).axes[0]
    assert sum(isinstance(x, Circle) for x in ax.patches) == 4
    assert not any(line.get_marker() == "s" for line in ax.lines)


def test_shadows_lie_on_the_ground_below_each_point():
    """A point on the ground is its own shadow; two points above each other have one."""
    m = sl.zoo.quadruped()
    state = m.keyframe("trot")
    bones = skeleton(m, state.params)
    world = trace(m, state.positions, bones.frames)
    for height in (0.0, 0.1):
        fallen = shadows(m, bones, state.positions[None], state.params, [[-2.0, height], [2.0, height]])
        assert fallen == pytest.approx(seen(np.where([0, 0, 1], height, world), world))
