"""What a notebook shows of each thing: well-formed, with its numbers, and an animation that plays."""

import ast
import html as text
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import saltus as sl

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def hopper():
    return sl.zoo.hopper()


@pytest.fixture(scope="module")
def run(hopper):
    return sl.simulate(hopper, hopper.keyframes["takeoff"], domain="flight", until=0.6)


@pytest.fixture(scope="module")
def orbit(hopper):
    return sl.find_orbit(hopper, hopper.keyframes["takeoff"])


def shown(thing):
    """The HTML of a thing; its drawing parses, and its tags close."""
    page = thing._repr_html_()
    for drawing in re.findall(r"<svg.*?</svg>", page):
        ET.fromstring(drawing)
    for tag in ("div", "table", "svg", "iframe"):
        assert page.count(f"<{tag}") == page.count(f"</{tag}>")
    return page


def test_a_machine_shows_its_picture_joints_and_params():
    m = sl.zoo.bolt_linkage(base="fixed")
    page = shown(m)
    assert page.count("<polygon") == len(m.links) - 1  # a bar or a plate for each, the ground has none
    assert page.count("<circle") >= len(m.joints) - len(m.loops)
    for word in (m.name, *m.joints, *m.params):
        assert word in page


def test_a_machine_that_cannot_close_says_so():
    m = sl.Mechanism("wide")
    a, b = (m.rod(n, mass=0.1, length=0.1) for n in "ab")
    m.revolute("q1", m.ground, a.start)
    m.revolute("q2", m.ground.at(0.5, 0), b.start)
    m.revolute("pin", a.end, b.end)
    assert "cannot close" in text.unescape(shown(m))


def test_a_state_shows_numbers_and_gap():
    state = sl.zoo.bolt_linkage(base="fixed").keyframe("crank level")
    page = shown(state)
    for name, value in state.q.items():
        assert f"<td>{name}</td><td>{value:.6g}</td>" in page
    assert "loops open by" in page


def test_a_run_shows_outcome_and_plays(run):
    page = shown(run)
    assert "finished at t = 0.6 s" in page
    assert "touchdown" in page
    inner = text.unescape(re.search(r'srcdoc="([^"]*)"', page)[1])
    assert "<canvas" in inner
    assert "http" not in inner
    assert len(page) < 400_000


def test_animate_without_a_path_plays(run, tmp_path):
    animation = sl.view.animate(run)
    assert "<iframe" in shown(animation)
    assert "<canvas" in animation.save(tmp_path / "run.html").read_text()


def test_an_orbit_and_a_family_show_their_numbers(orbit):
    assert f"{orbit.period:.6g} s" in shown(orbit)
    family = sl.orbits.follow(orbit, "k", to=orbit.params["k"] * 1.02)
    page = shown(family)
    assert f"{orbit.params['k']:.6g}" in page


def test_a_plan_shows_phases_and_conditions(hopper):
    plan = sl.Plan(hopper.domains["flight"], duration=0.3, intervals=7)
    plan.require(plan.start == hopper.keyframes["takeoff"])
    page = shown(plan)
    assert "<td>flight</td><td>7</td>" in page


def test_names_over_time_print_a_summary(run):
    line = repr(run.q)
    low, high = run.q.z_U.min(), run.q.z_U.max()
    assert line.startswith(f"(z_U={low:.4g} to {high:.4g}, ")
    assert line.endswith(f"; {len(run.t)} samples)")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda p: p.stem)
def test_example_notebooks_run(path, tmp_path, monkeypatch):
    """Cell by cell in an empty folder; what a cell ends in shows itself."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells)
    for cell in cells:
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), path.name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            if hasattr(value, "_repr_html_"):
                shown(value)
