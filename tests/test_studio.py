"""The studio in a browser, end to end: sliders, runs, gaits, broken linkages, two pages, the token; reports too."""

import contextlib
import functools
import http.client
import logging
import math
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import saltus as sl
from browser import launch, watched
from saltus.cli.machines import model_of, saved
from saltus.model.geometry import skeleton, spiral

pytest.importorskip("viser", reason="the test extra installs viser")
import viser

from saltus.studio import machine_panel, page, serve, target_panel
from saltus.studio.gate import Gate
from saltus.studio.grips import grips
from saltus.studio.keeping import checked
from saltus.studio.pose import Posing, drivers
from saltus.studio.run_panel import works
from saltus.studio.scene import LEFT, RIGHT, Placed, colours, quaternions, side, solid
from saltus.studio.session import FRAME
from saltus.studio.units import Units, unit_of
from saltus.studio.words import Words
from saltus.studio.worker import Worker

SHOTS = Path(os.environ["SALTUS_SCREENSHOTS"]) if "SALTUS_SCREENSHOTS" in os.environ else None
LONG = 180_000  # ms: a machine that is busy with other things is slow, and waiting costs nothing where it is not


# ---- without a browser ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linkage():
    return sl.zoo.bolt_linkage(base="fixed")


def test_drivers_use_up_the_freedom():
    assert drivers(sl.zoo.bolt().mechanism.keyframe("drop")) == ["q1", "boom.x", "boom.y"]
    five = sl.zoo.five_bar()
    state = five.keyframe(next(iter(five.keyframes))) if five.keyframes else five.assemble()
    assert len(drivers(state)) == state.mobility().freedom


def test_posing_follows_the_branch_and_agrees_with_assembly(linkage):
    start = linkage.keyframe("crank level")
    posing = Posing(linkage, start)
    posing.to({"q1": 1.3}, {"l_1": 0.022, "torque_limit": 45.0})
    expected = linkage.assemble(near=start, q1=1.3, params={"l_1": 0.022})
    assert posing.pose.closed
    assert np.abs(posing.pose.q - expected.positions).max() < 1e-9


def test_a_linkage_that_does_not_close_says_where_and_comes_back(linkage):
    posing = Posing(linkage, linkage.keyframe("crank level"))
    pose = posing.to({}, {"l_c": 0.6})
    # the hip is 0.6 m from the crank; crank, HFE link and femur reach 0.020 + 0.105 + 0.080 m
    assert not pose.closed
    assert max(pose.gaps.values()) > (0.6 - 0.205) / math.sqrt(2) - 1e-3
    assert "Does not close" in posing.sentence()
    assert posing.to({}, {"l_c": 0.080}).closed


def test_way_is_the_path_and_stops_at_dead_centres(linkage):
    posing = Posing(linkage, linkage.keyframe("crank level"))
    way = posing.way(["foot"])
    expected = linkage.keyframe("crank level").follow("q1", way.values)
    assert way.full
    assert np.abs(way.points[:, 0] - sl.trace(linkage, expected, ["foot"])[:, 0]).max() < 1e-9
    m = sl.Mechanism("rocker")  # crank 0.3, coupler 0.25, rocker 0.2, ground 0.4: no link turns fully (Grashof)
    crank, coupler, rocker = (m.rod(n, mass=1.0, length=x) for n, x in (("a", 0.3), ("b", 0.25), ("c", 0.2)))
    m.revolute("q1", m.ground.at(0, 0), crank.start, motor=True)
    m.revolute("q2", crank.end, coupler.start)
    m.revolute("q3", m.ground.at(0.4, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    m.point("tip", coupler.end)
    posing = Posing(m, m.assemble(q1=0.5, near={"q2": -0.5, "q3": 2.0}))
    way = posing.way(["tip"])
    # dead centre where coupler and rocker are in line: cos q1 = (0.3^2 + 0.4^2 - 0.45^2) / (2 * 0.3 * 0.4)
    assert not way.full
    assert way.values.max() == pytest.approx(math.acos((0.09 + 0.16 - 0.2025) / 0.24), abs=2e-3)


def test_a_dragged_machine_glides_from_value_to_value(linkage, monkeypatch):
    posing = Posing(linkage, linkage.keyframe("crank level"))
    shown, clock = [], [10.0]
    monkeypatch.setattr(machine_panel, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    client = SimpleNamespace(atomic=contextlib.nullcontext)
    session = SimpleNamespace(
        tick=None,
        client=client,
        placed=Placed(linkage, posing.params),
        follow=lambda x: None,
        show=lambda shot: shown.append(posing.params["l_1"]),
        line=lambda *given: None,
        units=Units(),
        mechanism=linkage,
    )
    session.pause = lambda: setattr(session, "tick", None)
    panel = machine_panel.MachinePanel.__new__(machine_panel.MachinePanel)
    panel.session, panel.posing, panel.point, panel.sliders = session, posing, None, {}
    gui = SimpleNamespace(add_html=lambda text: SimpleNamespace(content=text))
    panel.text, panel.chart = Words(gui), SimpleNamespace(content="")
    panel.grips = SimpleNamespace(renew=lambda: None)
    panel._dragged = panel._due = panel._said = panel._charted = 0.0
    for at, value in (
        (10.0, 0.0200),
        (10.1, 0.0204),
    ):  # a first value is gone to at once, the way to a second is shared
        panel.params, clock[0] = {"l_1": SimpleNamespace(value=value)}, at
        panel.drag()
        while session.tick is not None:
            session.tick(clock[0])
            clock[0] += FRAME
    assert shown[0] == 0.0200
    poses = round(machine_panel.LATE * 0.1 / FRAME)
    assert shown[1:] == pytest.approx(np.linspace(0.0200, 0.0204, poses + 1)[1:], abs=1e-12)
    assert shown[-1] == 0.0204
    assert "1 degree of freedom" in panel.text.text


def test_a_dragged_point_is_reached_or_as_near_as_the_machine_comes(linkage):
    posing = Posing(linkage, linkage.keyframe("crank level"))
    way = posing.way(["foot"])
    target = way.points[7, 0]  # on its path: reached
    posing.to(posing.reach("foot", target), {})
    assert posing.state.position("foot") == pytest.approx(target, abs=1e-6)
    far = target + np.array([0.0, -0.5])  # off it: the nearest of the path, where the way there is across it
    posing.to(posing.reach("foot", far), {})
    gap = far - posing.state.position("foot")
    step = posing.state.follow("q1", [posing.held["q1"], posing.held["q1"] + 1e-4])
    along = np.diff(sl.trace(linkage, step, ["foot"])[:, 0], axis=0)[0]
    assert abs(gap @ along) < 1e-3 * np.linalg.norm(gap) * np.linalg.norm(along)
    five = sl.zoo.five_bar()
    posing = Posing(five, five.keyframe("stand"))
    point = "foot"
    target = posing.state.position(point) + np.array([0.02, 0.03])
    posing.to(posing.reach(point, target), {})
    assert posing.state.position(point) == pytest.approx(target, abs=1e-6)


def test_a_point_of_the_body_takes_the_body_along():
    """Nothing but the base moves it, so the base does: the knee of a leg leaves it where it is."""
    m = sl.zoo.biped()
    posing = Posing(m, m.keyframe(list(m.keyframes)[-1]))
    found = grips(m)
    assert {"chest", "left", "right", "left_rear_knee", "right_rear_knee"} <= set(found)
    chest, knee, way = found["chest"], found["left_rear_knee"], np.array([0.02, 0.03])
    before = posing.state.position(chest)
    posing.to(posing.reach(chest, before + way), {})
    np.testing.assert_allclose(posing.state.position(chest), before + way, atol=1e-5)
    base, before = posing.held["body.y"], posing.state.position(knee)
    posing.to(posing.reach(knee, before + way), {})
    assert np.linalg.norm(posing.state.position(knee) - before) > 0.005
    assert posing.held["body.y"] == base


def test_a_body_that_floats_does_not_turn_when_its_leg_is_pulled():
    m = sl.Mechanism("leg of a floating body", spatial=True)
    body = m.link("body", mass=5.0, inertia=(0.1, 0.1, 0.1))
    thigh, shank = (m.rod(n, mass=0.5, length=0.3) for n in ("thigh", "shank"))
    m.free("base", m.ground, body)
    m.universal("hip", body.at(0.1, 0.1, -0.05), thigh.start, axes=["y", "z"])
    m.revolute("knee", thigh.end, shank.start, axis="y")
    m.point("toe", shank.end)
    start = m.assemble(base=(0, 0, 0.6, 1, 0, 0, 0), hip=(1.2, 0.1), knee=0.8)
    posing = Posing(m, start)
    for way in ([0.03, -0.02, 0.04], [0.0, 0.05, 0.0], [1.0, 0.0, 0.0]):
        before = posing.state.position("toe")
        posing.to(posing.reach("toe", before + way), {})
        left = np.linalg.norm(posing.state.position("toe") - before - way)
        assert left < (1e-6 if way[0] < 1 else 0.8)  # the last is out of reach: it stretches towards it
        assert np.allclose(posing.state.positions[:7], start.positions[:7], atol=1e-12)


def test_sliders_show_other_units_and_keep_theirs():
    handle = SimpleNamespace(min=-1.0, max=3.0, step=0.01, value=0.5, label="hip (rad)")
    slider, units = machine_panel.Slider(handle, "hip", "rad"), Units()
    units.chosen = "mm, deg"
    slider.show(units)
    assert (handle.label, handle.value) == ("hip (deg)", pytest.approx(math.degrees(0.5)))
    assert (handle.min, handle.max) == pytest.approx((math.degrees(-1.0), math.degrees(3.0)))
    slider.value = 4.0  # beyond its end
    assert (slider.value, handle.max) == (pytest.approx(4.0), pytest.approx(math.degrees(4.0)))
    slider.show(Units())
    assert (handle.label, handle.value) == ("hip (rad)", pytest.approx(4.0))
    mass = machine_panel.Slider(SimpleNamespace(min=0.0, max=2.0, step=0.1, value=1.0, label="m (kg)"), "m", "kg")
    mass.show(units)
    assert (mass.handle.value, mass.handle.label) == (1.0, "m (kg)")
    assert units.of("m/s") == ("mm/s", 1000.0)
    assert units.text(0.25, "m") == "250 mm"


def test_coordinates_have_their_units():
    rat, leg = sl.zoo.kangaroo_rat(tail="continuum").mechanism, sl.zoo.bolt_linkage()
    assert [unit_of(leg, n) for n in ("boom.x", "q1")] == ["m", "rad"]
    assert {n.split(".")[1]: unit_of(rat, n) for n in rat.q_names if n.startswith(("tail1", "base"))} == {
        **dict.fromkeys(("x", "y", "z"), "m"),
        **dict.fromkeys(("qw", "qx", "qy", "qz"), ""),
        **dict.fromkeys([n.split(".")[1] for n in rat.q_names if n.startswith("tail1")], "rad"),
    }


def test_colours_tell_sides_apart():
    paint = colours(["trunk", "left_thigh", "right_thigh", "shank_L", "shank_R"])
    assert {paint["left_thigh"], paint["shank_L"]} <= set(LEFT)
    assert {paint["right_thigh"], paint["shank_R"]} <= set(RIGHT)
    assert len(set(paint.values())) == 5
    assert side("leftover") == "left"  # whoever names a link so
    assert [side(n) for n in ("crank", "rLeg", "ulna", "roller")] == ["", "right", "", ""]
    plain = colours(["crank", "coupler", "rocker"])
    assert len(set(plain.values())) == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no json", "no changes of this machine"),
        (b"[1]", "no changes"),
        (b'{"format": "other"}', "expected 'saltus-studio-1'"),
        (b'{"format": "saltus-studio-1", "machine": "x", "params": {"k": 1}, "drivers": {}}', "has no k"),
        (b'{"format": "saltus-studio-1", "params": {"l": NaN}, "drivers": {}, "pose": {}}', "not finite"),
        (b'{"format": "saltus-studio-1", "params": {}, "drivers": {}, "pose": {"q3": 1}}', "has no q3"),
        (b"[" * 100_000, "no changes"),
        (b" " * 2_000_000, "2000000 bytes"),
    ],
)
def test_files_of_changes_are_checked(content, said):
    with pytest.raises(sl.errors.BadFile, match=said):
        checked(content, {"l": None}, {"q1": None}, ["q1", "q2"])
    good = b'{"format": "saltus-studio-1", "params": {"l": 2}, "drivers": {"q1": 0.5}, "pose": {"q2": 1}}'
    read = {"params": {"l": 2.0}, "drivers": {"q1": 0.5}, "pose": {"q2": 1.0}}
    assert checked(good, {"l": None}, {"q1": None}, ["q1", "q2"]) == read


def test_solids_are_closed_and_of_the_right_volume():
    bar = np.array([[0.0, 0, 0], [1.0, 0, 0]])
    for thickness, volume in ((0.1, (2 * 0.2 * 1.0 + math.pi * 0.04) * 0.1), (None, math.pi * (0.04 + 4 / 3 * 0.008))):
        vertices, faces = solid(bar, 0.2, thickness)
        a, b, c = (vertices[faces[:, i]] for i in range(3))
        assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6 == pytest.approx(volume, rel=0.05)
        faces = np.unique(np.round(vertices, 9), axis=0, return_inverse=True)[1].reshape(-1)[faces]  # joined by place
        edges = np.sort(np.vstack([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
        assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()


def test_quaternions_are_those_of_scipy():
    turns = Rotation.random(200, random_state=1).as_matrix()
    halves = Rotation.from_rotvec(np.pi * np.eye(3)).as_matrix()  # half turns, where the first component vanishes
    R = np.concatenate([turns, halves, np.eye(3)[None]])
    ours = quaternions(R)
    assert np.abs(np.linalg.norm(ours, axis=1) - 1).max() < 1e-12
    assert np.abs(Rotation.from_quat(ours[:, [1, 2, 3, 0]]).as_matrix() - R).max() < 1e-12


def test_springs_of_joints_are_drawn():
    m = sl.Mechanism("sprung")
    arm, hand = (m.rod(n, mass=1.0, length=0.5) for n in ("arm", "hand"))
    m.revolute("shoulder", m.ground.at(0, 0), arm.start)
    m.revolute("wrist", arm.end, hand.start)
    m.slide("press", hand.end, m.link("stamp", mass=1.0, inertia=0.1).at(0, 0))
    m.joint_spring("torsion", "wrist", stiffness=1.0)
    m.joint_spring("wall", "shoulder", stiffness=1.0)
    m.joint_spring("pressing", "press", stiffness=1.0)
    bones = skeleton(m)
    points = sl.trace(m, np.array([0.0, math.pi / 2, 0.2]), bones.frames)[0]  # arm along x, hand along y
    assert np.abs(points[list(bones.springs[0])] - [[0.5, 0.5], [0.5, 0.7]]).max() < 1e-12
    (pin, arm_end, hand_end), (wall, _, _) = sorted(bones.spirals, key=lambda ends: -points[ends[0]][0])
    line = spiral(points[pin], points[arm_end], points[hand_end], 0.1)
    assert np.abs(line[0] - [0.5 - 0.035, 0.0]).max() < 1e-12  # begins towards the shoulder, ends towards the hand
    assert np.abs(line[-1] - [0.5, 0.1]).max() < 1e-12
    assert np.abs(points[wall]).max() < 1e-12


def test_a_bad_model_is_refused_and_leaves_nothing_behind():
    def broken():
        raise sl.errors.BadValue("no such machine")

    heard = []
    with pytest.raises(sl.errors.BadValue, match="no such machine"):
        serve(broken, port=0, listening=heard.append)
    assert len(heard) == 1
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(heard[0].url, timeout=5)


def test_placed_links_carry_their_points():
    m = sl.zoo.bolt().mechanism
    state = m.keyframe("drop")
    placed = Placed(m, state.params)
    shot = placed.at(state.positions, state.params)
    k = placed.links.index("tibia")
    foot = shot.p[0, k] + shot.R[0, k] @ [0.303, 0, 0]
    assert np.abs(foot[:2] - state.position("foot")).max() < 1e-12
    assert np.abs(shot.ends[0, :, 0] - shot.ends[0, :, 1]).max() < 1e-9


def test_strokes_become_even_points():
    circle = np.column_stack([np.cos(np.linspace(0, 6, 50)), np.sin(np.linspace(0, 6, 50))])
    even = target_panel.resampled(circle, 24)
    steps = np.linalg.norm(np.diff(even, axis=0), axis=1)
    assert len(even) == 24
    assert np.ptp(steps) < 0.01 * steps.mean()
    assert len(target_panel.resampled(np.zeros((3, 2)), 24)) == 0


def wait_for(worker, seconds=30.0):
    end = time.monotonic() + seconds
    words = []
    while time.monotonic() < end:
        words += worker.read()
        if words and words[-1][0] != "progress":
            return words
        time.sleep(0.02)
    raise AssertionError(f"no answer: {words[-1:]}")


def test_a_crashed_worker_is_told_and_replaced():
    worker = Worker(functools.partial(model_of, "hopper"))
    options = {"start": "takeoff", "control": "none", "domain": "flight", "params": {}}
    try:
        worker.do("run", formulation="SPF", until=1e5, **options)
        worker._process.kill()
        assert "crashed" in wait_for(worker)[-1][1]
        worker.do("run", formulation="SPF", until=0.5, **options)
        kind, run = wait_for(worker)[-1]
        assert kind == "result"
        assert run.outcome.kind == "finished"
        worker.do("orbit", **options)
        kind, found = wait_for(worker)[-1]
        assert found["orbit"]["period"] == pytest.approx(0.548241, abs=1e-5)  # sl.find_orbit, the same start
    finally:
        worker.close()


# ---- in the browser -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    manager, browser = launch()
    yield browser
    browser.close()
    manager.stop()


@pytest.fixture
def chrome(browser):
    yield browser
    for context in browser.contexts:  # a test that failed leaves no page open for the next one to find
        context.close()


@pytest.fixture(scope="module")
def studio():
    running = serve(functools.partial(model_of, "bolt"), port=0)
    yield running
    running.stop()


@pytest.fixture
def complaints():
    return []


def opened(chrome, url, complaints, width=1280, height=720):
    page = watched(chrome.new_page(viewport={"width": width, "height": height}), complaints)
    page.set_default_timeout(LONG)
    page.goto(url)
    page.get_by_text("transmission angle").first.wait_for()
    return page


def session_of(studio, before=()):
    return next(s for k, s in studio.sessions.items() if k not in before)


def pixel(session, place):
    """Where the page shows a place in the machine's plane: a pinhole camera, z ahead and y down."""
    camera = session.client.camera
    w, *u = camera.wxyz
    away = np.array([place[0], -place[2], place[1]]) - camera.position
    seen = away + 2 * np.cross(u, np.cross(u, away) - w * away)  # turned by the inverse of the camera's rotation
    focus = camera.image_height / 2 / math.tan(camera.fov / 2)
    return camera.image_width / 2 + focus * seen[0] / seen[2], camera.image_height / 2 + focus * seen[1] / seen[2]


def shoot(page, name):
    if SHOTS is not None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png", timeout=LONG)


def until(condition, seconds=LONG / 1000):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_sliders_runs_scrubbing_gaits_and_cancel(chrome, studio, complaints):
    page = opened(chrome, studio.url, complaints)
    session = session_of(studio)
    shoot(page, "1-machine")
    # drag the slider of l_1 with the mouse: the path changes
    text = page.get_by_text(re.compile("Path of foot"))
    before, l_1 = text.inner_text(), session.posing.params["l_1"]
    thumb = page.get_by_role("slider").nth(len(session.posing.drivers) + list(session.posing.params).index("l_1"))
    thumb.scroll_into_view_if_needed()
    box = thumb.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for k in range(1, 8):
        page.mouse.move(box["x"] + 5 * k, box["y"] + box["height"] / 2)
    page.mouse.up()
    until(lambda: session.posing.params["l_1"] > l_1 + 1e-3)
    until(lambda: text.inner_text() != before)
    until(lambda: session.posing.params["l_1"] == float(thumb.get_attribute("aria-valuenow")))
    # the same with the keyboard
    now, seen_from = session.posing.params["l_1"], session.client.camera.position
    thumb.focus()
    page.keyboard.press("ArrowLeft")
    until(lambda: session.posing.params["l_1"] < now)
    page.wait_for_timeout(300)
    assert np.abs(session.client.camera.position - seen_from).max() < 1e-6  # the key moves the slider, nothing else
    shoot(page, "2-longer-crank")
    page.get_by_role("button", name="Reset").click()
    until(lambda: session.posing.params["l_1"] == l_1)
    # another branch
    q = session.posing.pose.q.copy()
    page.get_by_role("button", name="Next branch").click()
    page.get_by_text(re.compile(r"Branch \d of \d")).wait_for()
    assert np.abs(session.posing.pose.q - q).max() > 0.1
    page.get_by_role("button", name="Reset").click()
    # run, then scrub
    page.get_by_role("tab", name="Run").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text(re.compile("finished at 3 s")).wait_for()
    until(lambda: session.tick is not None or session.panels.run.time.value > 0)
    panel = session.panels.run
    page.get_by_role("button", name="Play / pause").click()
    until(lambda: session.tick is None)
    page.get_by_role("button", name="Next event").click()
    until(lambda: min(abs(e.t - panel.time.value) for e in panel.film.run.events) < 2e-3)
    shoot(page, "3-run")
    page.get_by_role("slider").first.focus()
    page.keyboard.press("Home")
    until(lambda: panel.time.value == panel.film.begin)
    page.get_by_role("button", name="Keep as ghost").click()
    until(lambda: panel.ghost is not None)
    # a long run is cancelled and keeps what it has
    page.get_by_label("Duration (s)").fill("600")
    page.keyboard.press("Tab")
    until(lambda: panel.until.value == 600)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text(re.compile(r"Running ... \d+ events")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(re.compile("interrupted|cancelled")).first.wait_for()
    assert studio.sessions
    # a gait
    page.get_by_role("tab", name="Gait").click()
    page.get_by_role("button", name="Find orbit").click()
    page.get_by_text(re.compile("Stable gait")).wait_for()
    shoot(page, "4-gait")
    page.close()
    until(lambda: session.client.client_id not in studio.sessions)
    until(lambda: not session.thread.is_alive())
    assert complaints == []


def test_the_page_draws_less_without_a_graphics_card(chrome, studio, complaints):
    page = opened(chrome, studio.url, complaints)
    name, smooth = page.evaluate("""() => {
      const gl = [...document.querySelectorAll("canvas")].map((c) => c.getContext("webgl2")).find((gl) => gl);
      const known = gl.getExtension("WEBGL_debug_renderer_info");
      return [gl.getParameter(known.UNMASKED_RENDERER_WEBGL), gl.getContextAttributes().antialias];
    }""")
    assert "SwiftShader" in name  # what browser.py asks for
    assert not smooth
    # callbacks for pictures: one cancelled never comes, the others come in their order, 30 ms after the last ones
    order = """() => new Promise((done) => {
      const seen = [], note = (k) => (now) => seen.push([k, now]);
      cancelAnimationFrame(requestAnimationFrame(note(0)));
      requestAnimationFrame(note(1));
      requestAnimationFrame((now) => {
        note(2)(now);
        requestAnimationFrame((later) => { note(3)(later); done(seen); });
      });
    })"""
    (one, first), (two, same), (three, later) = page.evaluate(order)
    assert (one, two, three) == (1, 2, 3)
    assert first == same
    assert later - first >= 30
    page.close()
    assert complaints == []


def test_every_control_is_reached_with_the_keyboard(chrome, studio, complaints):
    before = set(studio.sessions)
    page = opened(chrome, studio.url, complaints)
    session = session_of(studio, before)
    named = """() => { const e = document.activeElement, box = e.closest("[id]");
      return [e.getAttribute("role") || e.tagName.toLowerCase(), e.innerText || "", box ? box.id : ""]; }"""
    seen = []
    page.mouse.click(5, 700)
    for _ in range(90):
        page.keyboard.press("Tab")
        seen.append(tuple(page.evaluate(named)))
    roles = [role for role, _, _ in seen]
    buttons = {text for role, text, _ in seen if role == "button"}
    assert {"Next branch", "Reset"} <= buttons
    assert len({n for r, _, n in seen if r == "slider"}) == len(session.posing.drivers) + len(session.posing.params)
    assert "input" in roles
    # the tabs: arrows move between them, and what is chosen can be worked on
    page.get_by_role("tab", name="Machine").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "Run":
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Run", exact=True).wait_for()
    page.close()
    assert complaints == []


def test_a_saved_run_is_opened_and_the_plots_follow_it(chrome, tmp_path, complaints):
    system = sl.zoo.bolt()
    start = system.mechanism.keyframe("drop")
    run = sl.simulate(system, start, domain="flight", until=0.6, control=system.controls["run"])
    running = serve(functools.partial(saved, sl.write(run, tmp_path / "run.nc")), port=0)
    try:
        page = opened(chrome, running.url, complaints)
        session = session_of(running)
        page.get_by_role("tab", name="Run").click()
        page.get_by_text("finished at 0.6 s").wait_for()
        until(lambda: session.tick is None)  # played to its end
        where = """() => [...document.querySelectorAll(".saltus-charts svg")].map(
          (s) => s.lastElementChild.getBoundingClientRect().x - s.getBoundingClientRect().x)"""
        last = page.evaluate(where)
        page.get_by_role("slider").first.focus()
        page.keyboard.press("Home")
        until(lambda: session.panels.run.time.value == 0)
        until(lambda: page.evaluate(where)[0] < last[0] - 50)
        first = page.evaluate(where)
        assert len(first) == 5
        # over time all cursors have gone from the left to the right of their charts; the dot of the portrait moved
        wide = page.locator(".saltus-charts svg").first.bounding_box()["width"]
        assert all(b - a > 0.7 * wide for a, b in zip(first[:4], last[:4], strict=True))
        assert first[4] != last[4]
        panels = session.panels
        panels.machine.units.value = "mm, deg"
        session.post("units", panels.machine.show_units)
        until(lambda: "log10 of mm" in panels.run.charts.content)
        assert "q1 (deg)" in panels.run.charts.content
        assert "q1 (deg)" in panels.machine.chart.content
        assert " mm long" in panels.machine.text.text
        page.close()
    finally:
        running.stop()
    assert complaints == []


def test_a_broken_linkage_in_one_of_two_pages(chrome, studio, complaints):
    before = set(studio.sessions)
    first = opened(chrome, studio.url, complaints, width=900, height=600)
    one = session_of(studio, before)
    second = opened(chrome, studio.url, complaints, width=400, height=800)
    two = session_of(studio, before | {one.client.client_id})
    shoot(second, "5-phone")
    # the panel takes the lower 60 % of a narrow page; all of the machine is above it
    places = two.placed.at(two.posing.pose.q, two.posing.params).points[0]
    pixels = np.array([pixel(two, place) for place in places])
    assert (pixels[:, 1] > 0).all()
    assert (pixels[:, 1] < 0.4 * 800).all()
    assert ((pixels[:, 0] > 0) & (pixels[:, 0] < 400)).all()
    numbers = first.locator("input[type='text']:visible, input[inputmode='decimal']:visible")
    broken = numbers.nth(len(one.posing.drivers) + list(one.posing.params).index("l_c"))
    one.panels.machine.params["l_c"].handle.max = 1.0
    # a page that does not know of it yet takes a number back to the end it knows, when its field is left
    first.locator("[role=slider][aria-valuemax='1']").wait_for(state="attached")
    broken.fill("0.6")
    first.keyboard.press("Tab")
    first.get_by_text(re.compile("Does not close")).wait_for()
    assert one.posing.params["l_c"] == pytest.approx(0.6)
    shoot(first, "6-broken")
    assert two.posing.params["l_c"] == 0.080
    assert two.posing.pose.closed
    assert not second.get_by_text(re.compile("Does not close")).count()
    first.close()
    second.close()
    assert complaints == []


def test_family_of_the_hopper_is_clicked(chrome, complaints):
    running = serve(functools.partial(model_of, "hopper"), port=0)
    try:
        page = watched(chrome.new_page(viewport={"width": 1280, "height": 720}), complaints)
        page.set_default_timeout(LONG)
        page.goto(running.url)
        page.get_by_role("tab", name="Gait").click()
        session = session_of(running)
        page.get_by_role("button", name="Find orbit").click()
        page.get_by_text(re.compile("Stable gait")).wait_for()
        panel = session.panels.gait
        panel.param.value = "k"
        panel.low.value, panel.high.value = 14000.0, 16000.0
        page.get_by_role("button", name="Follow family").click()
        page.get_by_text(re.compile("Family in k")).wait_for()
        shoot(page, "7-family")
        k, ball = panel.balls[-1]
        wanted = panel.family["orbits"][k]["params"]["k"]
        for seconds in (10.0, 20.0, LONG / 1000):  # a click is lost while the page still draws the balls
            page.mouse.click(*pixel(session, ball.position))
            with contextlib.suppress(AssertionError):
                until(lambda: session.panels.run.film.run.params["k"] == wanted, seconds)
                break
        assert session.panels.run.film.run.params["k"] == wanted
        assert panel.which.value == k > 3
        page.close()
    finally:
        running.stop()
    assert complaints == []


@pytest.mark.slow
def test_a_target_is_drawn_with_the_mouse_and_approached(chrome, complaints, monkeypatch):
    monkeypatch.setattr(target_panel, "STAGES", 3)
    monkeypatch.setattr(target_panel, "SAMPLES", 18)
    running = serve(functools.partial(model_of, "four-bar"), port=0)
    try:
        page = opened(chrome, running.url, complaints)
        session = session_of(running)
        page.get_by_role("tab", name="Target").click()
        panel = session.panels.target
        page.get_by_role("button", name="Draw").click()
        until(lambda: panel.board is not None)
        page.wait_for_timeout(500)
        page.mouse.move(500, 300)
        page.mouse.down()
        for k in range(1, 13):
            page.mouse.move(400 + 100 * math.cos(k / 2), 300 - 60 * math.sin(k / 2))
        page.mouse.up()
        page.get_by_text(re.compile("points drawn")).wait_for()
        # the ray through the mouse met the machine's plane: sizes in metres are those of the stroke in pixels
        assert np.ptp(panel.target[:, 0]) / np.ptp(panel.target[:, 1]) == pytest.approx(200 / 120, rel=0.25)
        lengths = dict(session.posing.params)
        page.get_by_role("button", name="Optimise").click()
        seen = []
        until(lambda: seen.append(panel.text.text) or panel.text.text.startswith("Done") or panel.text.head)
        shoot(page, "9-target")
        misses = [float(m.group(1)) for t in dict.fromkeys(seen) if (m := re.search(r"([\d.e+-]+) mm", t))]
        assert panel.text.text.startswith("Done")
        assert len(misses) > 2
        assert misses[-1] < 0.9 * misses[0]
        assert session.posing.params != lengths
        page.close()
    finally:
        running.stop()
    # Chromium reports this of viser's own pointer handling on the canvas
    assert [c for c in complaints if "passive event listener" not in c] == []


def test_a_point_is_dragged_with_the_mouse_and_a_link_opens_what_came_of_it(chrome, guarded, complaints):
    page = opened(chrome, guarded.url, complaints)
    session = session_of(guarded)
    page.get_by_label("Drag points").wait_for()
    until(lambda: hasattr(session, "panels"))
    panel, posing = session.panels.machine, session.posing
    page.get_by_label("Drag points").check()
    until(lambda: panel.grips.balls)
    # a ball is dragged, and everything else moves along
    name, ball = list(panel.grips.balls.items())[-1]
    frame, q = panel.grips.frames[name], posing.pose.q.copy()
    before = posing.state.position(frame)

    def moved():
        return np.linalg.norm(posing.state.position(frame) - before) > 0.02 * session.size

    for _ in range(20):  # the page may not have drawn the ball yet, or still be moving its camera
        x, y = pixel(session, ball.position)
        page.mouse.move(x, y)
        page.mouse.down()
        for k in range(1, 13):
            page.mouse.move(x + 4 * k, y - 4 * k)
            page.wait_for_timeout(60)
        page.mouse.up()
        page.wait_for_timeout(1000)
        if moved():
            break
    until(moved)
    assert np.abs(posing.pose.q - q).min() > 1e-3
    assert posing.pose.closed
    shoot(page, "8-dragged")
    # other units, another branch, and a link
    page.get_by_role("button", name="Next branch").click()
    page.get_by_text(re.compile(r"Branch \d of \d")).wait_for()
    page.get_by_text("Keep", exact=True).click()
    page.get_by_role("button", name="Link to this").click()
    page.goto(page.locator("input[value*='state=']").input_value())  # the browser has the cookie
    page.get_by_text("transmission angle").first.wait_for()
    until(lambda: guarded.sessions and session_of(guarded) is not session)
    again = session_of(guarded)
    until(lambda: again.posing.held == pytest.approx(posing.held))
    until(lambda: np.abs(again.posing.pose.q - posing.pose.q).max() < 1e-4)
    shoot(page, "9-opened-again")
    page.close()
    until(lambda: not guarded.sessions)
    assert complaints == []


# ---- strangers ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded():
    running = serve(functools.partial(model_of, "four-bar"), port=0)
    yield running
    running.stop()


def asked(studio, path="/", **headers):
    """Status, headers and text of a request with exactly these headers (`_` stands for `-`)."""
    port = studio.server.get_port()
    given = {"Host": f"127.0.0.1:{port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, value in given.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = b"" if answer.status == 101 else answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), text.decode()


UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_a_server_that_cannot_be_guarded_is_not_started(monkeypatch):
    """Another version of viser might start its server by other means than those the gate stands before."""
    stopped = []
    monkeypatch.setattr(viser, "ViserServer", lambda **_: SimpleNamespace(stop=lambda: stopped.append(True)))
    with pytest.raises(sl.errors.BadValue, match="cannot guard"):
        page.server(Gate("127.0.0.1"))
    assert stopped == [True]


def test_garbage_from_strangers_leaves_no_traceback(guarded, caplog):
    for head in (b"\x16\x03\x01", b"GET / HTTP/1.0\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\r\n", b""):
        with socket.create_connection(("127.0.0.1", guarded.server.get_port()), timeout=20) as stranger:
            stranger.sendall(head)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def test_nobody_comes_in_without_the_token(guarded):
    port = guarded.server.get_port()
    query = guarded.url.split("/")[-1]
    status, headers, _ = asked(guarded, f"/{query}")
    assert status == 303
    assert headers["Location"] == "/"
    assert "HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].split(";")[0]
    own = f"http://127.0.0.1:{port}"
    status, headers, text = asked(guarded, Cookie=cookie)
    assert status == 200
    assert "<html" in text
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy.replace("wasm-unsafe-eval", "")
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert asked(guarded, Cookie=cookie, Origin=own, **UPGRADE)[0] == 101
    # without, with another, with a foreign page, with a name that a stranger points here
    wrong = {
        "no cookie": {},
        "another cookie": {"Cookie": f"{cookie[:-1]}x"},
        "another token": {"path": "/?token=x"},
        "foreign origin": {"Cookie": cookie, "Origin": "http://evil.example"},
        "null origin": {"Cookie": cookie, "Origin": "null"},
        "another port": {"Cookie": cookie, "Origin": f"http://127.0.0.1:{port + 1}"},
        "rebound name": {"Cookie": cookie, "Host": f"evil.example:{port}"},
        "rebound name and origin": {
            "Cookie": cookie,
            "Host": f"evil.example:{port}",
            "Origin": f"http://evil.example:{port}",
        },
        "no host": {"Cookie": cookie, "Host": None},
        "user in host": {"Cookie": cookie, "Host": f"evil@127.0.0.1:{port}"},
    }
    for name, case in wrong.items():
        path = case.pop("path", "/")
        assert asked(guarded, path, **case)[0] == 403, name
        assert asked(guarded, path, **{"Origin": own, **UPGRADE, **case})[0] == 403, name
    assert asked(guarded, Cookie=cookie, **UPGRADE)[0] == 403  # a WebSocket from nowhere
    # a link with a state goes on to a page that asks for it; what is no state is left out
    there = f"/?websocket=ws://127.0.0.1:{port}/?state=eyJ9_-="
    for path, given in ((f"/{query}&state=eyJ9_-%3D", {}), ("/?state=eyJ9_-%3D", {"Cookie": cookie})):
        status, headers, _ = asked(guarded, path, **given)
        assert (status, headers["Location"]) == (303, there)
    assert asked(guarded, "/?state=eyJ9")[0] == 403
    for state in ("a%0d%0aSet-Cookie:x", "%3Cscript%3E", "a" * 7000):
        assert asked(guarded, f"/{query}&state={state}")[1]["Location"] == "/"
    assert asked(guarded, "/../../../etc/passwd", Cookie=cookie)[0] == 404
    assert not guarded.sessions


def test_a_ticket_lets_one_visitor_in(guarded):
    query = guarded.ticket().split("/")[-1]
    assert asked(guarded, f"/{query}")[0] == 303
    assert asked(guarded, f"/{query}")[0] == 403


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(sl.errors.BadValue, match="cannot listen on 192"):  # TEST-NET-1 of RFC 5737
        serve(functools.partial(model_of, "four-bar"), port=0, host="192.0.2.1")


def test_a_page_of_another_site_learns_nothing(chrome, guarded):
    """A page on the same machine but another port, in a browser that holds the cookie."""
    browser = chrome.new_context()
    page = browser.new_page()
    page.goto(guarded.url)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        script = f"""<script>
          const socket = new WebSocket("ws://127.0.0.1:{guarded.server.get_port()}", "viser-v{viser.__version__}");
          socket.onopen = () => document.title = "open"; socket.onerror = () => document.title = "refused";
        </script>"""
        answer = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(script)}\r\n\r\n{script}"

        def serving():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = other.accept()
                    connection.recv(65536)
                    connection.sendall(answer.encode())
                    connection.close()

        threading.Thread(target=serving, daemon=True).start()
        evil = browser.new_page()
        evil.goto(f"http://127.0.0.1:{other.getsockname()[1]}/")
        evil.wait_for_function("document.title != ''", timeout=LONG)
        assert evil.title() == "refused"
    browser.close()


HOSTILE = "<iframe srcdoc='<script>parent.ran = 1</script>'></iframe><img src=x onerror='ran = 1'>[a](javascript:ran=1)"


def test_text_of_a_run_is_text_in_the_page(chrome, tmp_path, complaints):
    m = sl.zoo.four_bar()
    run = sl.simulate(m, m.keyframe("middle"), until=0.1)
    run.meta["outcome"] |= {"kind": HOSTILE, "detail": HOSTILE}
    run.meta["notes"] = [HOSTILE]
    running = serve(functools.partial(saved, sl.write(run, tmp_path / "run.nc")), port=0)
    try:
        page = opened(chrome, running.url, complaints)
        page.get_by_role("tab", name="Run").click()
        page.get_by_text("<iframe srcdoc=").first.wait_for()
        page.wait_for_timeout(500)
        assert page.evaluate("window.ran") is None
        assert page.locator("iframe").count() == 0
        # and if something did get through, the policy keeps it from running
        page.evaluate("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror='window.ran = 1'>`)")
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', `<iframe srcdoc='<script>parent.ran=1</script>'>`)"
        )
        page.wait_for_timeout(500)
        assert page.evaluate("window.ran") is None
        page.close()
    finally:
        running.stop()


def children():
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends meanwhile has none
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def test_workers_end_with_their_page(chrome, guarded, caplog):
    """Pages closed at every stage of their coming up leave no process, no thread and no error behind."""
    before = children()
    for wait in (0, 30, 100, 200, 300, 500, 800, 1200, 0, 60):
        page = chrome.new_page()
        page.goto(guarded.url, wait_until="commit")
        page.wait_for_timeout(wait)
        page.close()
    until(lambda: not guarded.sessions)
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("studio page")])
    until(lambda: children() <= before)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def test_a_closed_worker_starts_nothing():
    before = children()
    worker = Worker(functools.partial(model_of, "hopper"))
    worker.close()
    worker.start()
    worker.do("orbit")
    assert worker.read() == []
    assert children() == before


def test_report_animates_from_a_file(chrome, tmp_path, complaints):
    system = sl.zoo.bolt()
    start = system.mechanism.keyframe("drop")
    run = sl.simulate(system, start, domain="flight", until=2.0, control=system.controls["run"])
    path = sl.view.report(run, tmp_path / "report.html", system=system)
    assert path.stat().st_size < 5e6
    page = watched(chrome.new_page(), complaints)
    page.goto(path.as_uri())
    figure = page.locator("figure.player")
    picture = "document.querySelector('canvas').toDataURL()"
    page.get_by_label("time").fill("0")
    first = page.evaluate(picture)
    page.get_by_role("button", name="Play").click()
    shown = "document.querySelector('figure.player').dataset.picture"
    until(lambda: int(page.evaluate(shown) or 0) > 10)
    page.get_by_role("button", name="Pause").click()
    assert page.evaluate(picture) != first
    page.get_by_label("time").fill("0")
    until(lambda: page.evaluate(shown) == "0")
    assert page.evaluate(picture) == first
    if SHOTS is not None:
        page.get_by_label("time").fill("60")
        figure.screenshot(path=SHOTS / "8-report.png")
    page.close()
    assert complaints == []


def test_report_and_gallery_commands(tmp_path):
    from typer.testing import CliRunner

    from saltus.cli.app import app

    call = CliRunner().invoke
    system = sl.zoo.bolt()
    start = system.mechanism.keyframe("drop")
    run = sl.simulate(system, start, domain="flight", until=0.5, control=system.controls["run"])
    (tmp_path / "bolt").mkdir()
    sl.write(run, tmp_path / "bolt" / "run.nc")
    done = call(app, ["report", str(tmp_path / "bolt"), "-o", str(tmp_path / "bolt" / "report.html")])
    assert done.exit_code == 0, done.output
    assert 'class="player"' in (tmp_path / "bolt" / "report.html").read_text()
    from saltus.studies.result import Comparison, Study, StudyResult

    rows = [Comparison("mass", 2.0, 2.0, "kg", tolerance=0.1), Comparison("<b>", None, 3.0)]
    StudyResult(Study("some", "Some study", "A paper", ""), {}, rows).write(tmp_path / "some")
    done = call(app, ["gallery", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "index.html").read_text()
    assert "1 of 1 stated agreements hold" in page
    assert "&lt;b&gt;" in page
    assert "bolt/report.html" in page
    assert call(app, ["gallery", str(tmp_path / "none")]).exit_code == 2
    # figures for print
    kinds = ["--kind", "portraits", "--kind", "snapshots", "--kind", "strobe"]
    done = call(app, ["plot", str(tmp_path / "bolt"), *kinds, "--since", "0.1", "--until", "0.4", "--count", "5"])
    assert done.exit_code == 0, done.output
    for name in kinds[1::2]:
        assert (tmp_path / "bolt" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    done = call(app, ["plot", str(tmp_path / "bolt"), "--kind", "portrait"])
    assert done.exit_code == 2
    assert "portraits" in done.output
    assert call(app, ["plot", str(tmp_path / "some")]).exit_code == 2
    assert call(app, ["studio", "blot", "--no-browser"]).exit_code == 2


def test_works_of_many_channels_are_summed_by_kind():
    work = np.arange(10.0).reshape(2, 5)
    names = ["spring", "motor a", "motor b", "friction a", "friction b"]
    assert {n: x.tolist() for n, x in works(names, work).items()} == {
        "other": [0.0, 5.0],
        "motor": [3.0, 13.0],
        "friction": [7.0, 17.0],
    }
    assert list(works(names[:3], work[:, :3])) == ["spring", "a", "b"]
