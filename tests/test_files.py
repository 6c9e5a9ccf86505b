"""Model files: Python -> file -> identical equations; errors with file, line and path; safe expressions."""

import json
import math
import subprocess
import sys

import casadi as ca
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadModel, BadValue
from saltus.files.model import schema
from saltus.files.model.documents import parse
from saltus.files.model.expressions import evaluate, write
from saltus.files.model.template import template
from saltus.files.model_file import build


def difference(a, b, points=4):
    """Largest difference of all equations at random states and Params, relative to their size."""
    assert (a.q_names, a.v_names, list(a.params)) == (b.q_names, b.v_names, list(b.params))
    assert sorted(a.inputs) == sorted(b.inputs)
    ea, eb = Equations(a), Equations(b)
    names = ("M", "h", "J", "Q", "phi", "gamma")
    fa, fb = ea.function(*names), eb.function(*names)
    order = [list(a.inputs).index(n) for n in b.inputs]
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(points):
        u = rng.normal(size=len(order))
        common = [rng.uniform(0, 1), rng.normal(size=ea.nq), rng.normal(size=ea.nv)]
        rest = [a.values() * rng.uniform(0.9, 1.1, len(a.params))]
        if ea.z.numel():
            rest.append(0.01 * rng.normal(size=ea.z.numel()))
        for x, y in zip(fa(*common, u, *rest), fb(*common, u[order], *rest), strict=True):
            x, y = np.asarray(x), np.asarray(y)
            assert x.shape == y.shape
            worst = max(worst, np.abs(x - y).max(initial=0) / max(1.0, np.abs(x).max(initial=0)))
    return worst


def machine_of(thing):
    return thing if isinstance(thing, sl.Mechanism) else thing.mechanism


@pytest.mark.parametrize("suffix", [".saltus.yaml", ".json"])
@pytest.mark.parametrize("name", sl.zoo.__all__)
def test_zoo_round_trip(name, suffix, tmp_path):
    thing = getattr(sl.zoo, name)()
    path = sl.write(thing, tmp_path / f"model{suffix}")
    again = sl.read(path)
    assert difference(machine_of(thing), again.mechanism) < 1e-12
    assert machine_of(thing).keyframes.keys() == again.mechanism.keyframes.keys()
    assert thing.controls.keys() == again.system.controls.keys()
    second = sl.write(again, tmp_path / f"second{suffix}")
    assert second.read_text() == path.read_text()


@pytest.mark.parametrize("options", [{"contacts": "all"}, {"contacts": "all", "tail": "continuum", "points": 2}])
def test_given_motions_and_soft_ground_round_trip(options, tmp_path):
    rat = sl.zoo.kangaroo_rat(**options)
    again = sl.read(sl.write(rat, tmp_path / "rat.yaml"))
    assert difference(rat.mechanism, again.mechanism, 2) < 1e-12
    assert list(again.mechanism.motions) == list(rat.mechanism.motions)


def test_a_run_from_a_file_is_the_run_from_python(tmp_path):
    bolt = sl.zoo.bolt(takeoff="phase")
    again = sl.read(sl.write(bolt, tmp_path / "bolt.yaml", start="drop", domain="flight", control="run", until=0.5))
    assert (again.domain, again.until) == ("flight", 0.5)
    one = sl.simulate(bolt, bolt.mechanism.keyframe("drop"), domain="flight", until=0.5, control=bolt.controls["run"])
    two = sl.simulate(again.system, again.start, domain=again.domain, until=again.until, control=again.control)
    assert [e.name for e in one.events] == [e.name for e in two.events]
    assert np.allclose([e.t for e in one.events], [e.t for e in two.events], atol=1e-9)


def test_traced_python_functions_are_written_as_formulas(tmp_path):
    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=1.0)
    m.param("e", 0.8)
    m.slide("y", m.ground, ball, axes="y")
    m.point("ball", ball.origin)
    push = m.input("push")
    m.force("wind", ball, (0, push + 0.1 * sl.math.sin(m.time)))
    m.keyframes["up"] = {"y": 1.0}
    system = sl.HybridSystem(m)
    system.domain("air")
    reset = sl.Map(lambda s: {"v.y": -s.p.e * s.v.y})
    system.edge("air", "air", guard=sl.When(lambda s: s.height("ball"), "falling", label="bounce"), reset=reset)
    system.controls["mixed"] = lambda t, s: {"push": sl.math.where(s.q.y > 0.5, 0.2, 0.1) * s.position("ball").y}
    again = sl.read(sl.write(system, tmp_path / "ball.yaml"))
    text = (tmp_path / "ball.yaml").read_text()
    assert "-(e*v.y)" in text
    assert "position.ball.y" in text
    runs = [
        sl.simulate(s, s.mechanism.keyframe("up"), until=1.5, control=s.controls["mixed"])
        for s in (system, again.system)
    ]
    assert [r.t for r in runs[0].events] == pytest.approx([r.t for r in runs[1].events], abs=1e-10)
    assert len(runs[0].events) >= 2


def test_what_no_file_can_hold_is_named(tmp_path):
    system = sl.zoo.bolt()
    system.controls["mine"] = sl.control.Sampled(lambda t, s: {})
    with pytest.raises(sl.errors.BadModel, match="controller 'mine'"):
        sl.write(system, tmp_path / "x.yaml")
    del system.controls["mine"]
    system.ends("odd", sl.When(lambda s: math.sin(s.q.q1), "falling"))
    with pytest.raises(sl.errors.BadModel, match="end 'odd'"):
        sl.write(system, tmp_path / "x.yaml")


# ---- machines nobody thought of -----------------------------------------------------------------------------------

lengths = st.floats(0.01, 2.0)
angles = st.floats(-3.0, 3.0)


@st.composite
def mechanisms(draw):
    """A tree of links with all kinds of joints, a loop, forces and Params."""
    spatial = draw(st.booleans())
    m = sl.Mechanism("generated", spatial=spatial, gravity=draw(st.floats(0, 20)))
    p = m.param("a", draw(lengths), "m")
    s = m.param("sin", draw(lengths))  # a Param whose name is that of a function
    d = 3 if spatial else 2
    places = st.lists(
        st.one_of(st.just(0.0), lengths, st.just(p), st.just(2 * p + 0.01), st.just(sl.math.sqrt(p * s))),
        min_size=d,
        max_size=d,
    )
    inertias = st.floats(0.5, 0.9)
    links = [m.ground]
    kinds = ["revolute", "slide", "weld"] + (["universal", "spherical", "free", "planar"] if spatial else ["planar"])
    for i in range(draw(st.integers(1, 4))):
        inertia = [draw(inertias) for _ in range(3)] if spatial else draw(inertias) * p
        link = draw(
            st.sampled_from(
                [
                    lambda n, inertia=inertia: m.link(n, mass=1 + p, inertia=inertia, com=draw(places)),
                    lambda n: m.rod(n, mass=draw(lengths), length=s, radius=draw(st.sampled_from([0.0, 0.01]))),
                ]
            )
        )(f"link{i}")
        a, b = draw(st.sampled_from(links)), link
        frames = [a.at(*draw(places), angle=draw(st.sampled_from([0.0, 0.3]))), b.at(*draw(places))]
        if draw(st.booleans()):
            frames.reverse()
        kind = draw(st.sampled_from(kinds if i else [k for k in kinds if k != "weld"]))
        options = {}
        if kind == "revolute" and spatial:
            options["axis"] = draw(st.sampled_from(["x", "y", (1, 2, 3)]))
        if kind in ("revolute", "slide"):
            options["motor"] = draw(st.sampled_from([None, True, sl.Motor(torque=2 * p, gear=3.0, rotor_inertia=1e-3)]))
        getattr(m, kind)(f"joint{i}", *frames, **options)
        links.append(link)
    if len(links) > 2:
        m.revolute("loop", links[1].at(*draw(places)), links[-1].at(*draw(places)))
        m.spring(
            "spring", links[0].at(*draw(places)), links[-1].at(*draw(places)), stiffness=100 * p, length=0.1, damping=s
        )
    m.force("push", links[-1].at(*draw(places)), [p * sl.math.sin(m.time)] + [0.5] * (d - 1))
    first = m.q[m.q_names[0]]
    m.torque("twist", links[-1], [first * p] * 3 if spatial else first * first * s)
    m.constraint(
        "hand", sl.math.where(first > p, first, 2 * first) - sl.math.fmin(p, s) * sl.math.tanh(first / (1 + p))
    )
    return m


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(mechanisms(), st.sampled_from([".yaml", ".json"]))
def test_generated_machines_round_trip(tmp_path_factory, m, suffix):
    path = sl.write(m, tmp_path_factory.mktemp("generated") / f"m{suffix}")
    assert difference(m, sl.read(path).mechanism, 2) < 1e-12


# ---- errors -------------------------------------------------------------------------------------------------------

GOOD = template("machine")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("mass: 3.0", "mas: 3.0", "links.body", ["Did you mean 'mass'"]),
        ("b: crank.start", "b: crnk.start", "joints.hip", ["Did you mean 'crank'"]),
        ("l_crank}", "l_crnk}", "links.crank", ["Did you mean 'l_crank'"]),
        ("type: revolute, a: rocker.end", "type: revolut, a: rocker.end", "joints.pin", ["revolute"]),
        ("kd*v.hip", "kd*v.hop", "controls.thrust", ["Did you mean 'hip'"]),
        ("kp*(-2.60 +", "kp*(-2.60 + (", "controls.thrust", ["expected ')'"]),
        ("touching.toe", "touching.too", "controls.thrust", ["Did you mean 'toe'"]),
        ("point: shank.end", "point: shank.ed", "feet.toe", ["Did you mean 'end'"]),
        ("mass: 0.20", "mass: -0.20", "links.shank", ["must be positive"]),
        ("start: drop", "start: dorp", "run.start", ["Did you mean 'drop'"]),
        ("saltus: 1", "saltus: 7", "saltus", ["1"]),
        ("value: 60", "value: yes", "params.kp", ["number"]),
        ("until: 3.0", "until: 3*kp", "run.until", ["'kp' has no value here; give a number"]),
        ("hip: -2.6}", 'hip: "-l_cranc"}', "keyframes.drop", ["Did you mean 'l_crank'"]),
    ],
)
def test_errors_name_file_line_and_path(old, new, line, words, tmp_path):
    text = GOOD.replace(old, new, 1)
    path = tmp_path / "machine.saltus.yaml"
    path.write_text(text)
    number = next(i for i, row in enumerate(text.splitlines(), 1) if new in row)
    with pytest.raises(sl.errors.BadFile) as caught:
        sl.read(path)
    message = str(caught.value)
    assert line in message
    assert all(word in message for word in words), message
    first, last = number - 5, number + 1  # a controller is named at its first line
    assert first <= caught.value.line <= last, message
    assert message.startswith(f"{path}:{caught.value.line}:")


# ---- feet, ground, formulas ---------------------------------------------------------------------------------------


def test_a_machine_with_feet_runs_from_a_file_as_from_python(tmp_path):
    """Its law asks which feet touch; from a file that is written touching.NAME."""
    leg = sl.zoo.runner()
    again = sl.read(sl.write(leg, tmp_path / "leg.yaml", start="drop", control="run", until=0.6))
    assert "touching.foot" in (tmp_path / "leg.yaml").read_text()
    one = sl.simulate(leg, leg.keyframe("drop"), until=0.6, control=leg.controls["run"])
    two = sl.simulate(again.system, again.start, until=again.until, control=again.control)
    assert [e.name for e in one.events] == [e.name for e in two.events]
    assert len(one.events) > 3
    assert np.abs(one.end.positions - two.end.positions).max() < 1e-9


GROUNDS = [
    ("0.2", sl.ground.Level(0.2)),
    ("{type: slope, angle: pi/18, height: 0.1, friction: 0}", sl.ground.Slope(10, "deg", height=0.1, friction=0.0)),
    (
        "{type: stairs, rise: 0.05, run: 0.3, count: 3, start: 1, friction: 0.5}",
        sl.ground.Stairs(0.05, 0.3, 3, start=1, friction=0.5),
    ),
    (
        "{type: profile, x: [0, 1, 1, 2], heights: [0, 0, 1/8, 0.2], friction: [0.5, 0.6, ~]}",
        sl.ground.Profile([0, 1, 1, 2], [0, 0, 0.125, 0.2], friction=[0.5, 0.6, None]),
    ),
    (
        "{type: terrain, height: wave*2, friction: 0.7}",
        sl.ground.Terrain(lambda x: 0.06 * sl.math.sin(4 * x), friction=0.7),
    ),
]
BALL = """saltus: 1
name: ball
formulas: {twice: 2*drop, wave: 0.03*sin(4*x)}
params: {drop: 0.4}
links: {ball: {mass: 1}}
joints: {at: {type: slide, a: ground, b: ball, axes: xy}}
feet: {ball: {point: ball, friction: 0.9}}
keyframes: {top: {held: {at: [0.1, "twice + 0.1"]}, rates: {at.x: drop/2}}}
"""


@pytest.mark.parametrize(("text", "shape"), GROUNDS, ids=[type(shape).__name__ for _, shape in GROUNDS])
def test_every_shape_of_the_ground_can_be_said_in_a_file(text, shape, tmp_path):
    """The file's ground is that of Python where a ball falls on it, and is written so that it is read again."""
    model = build(parse(BALL + f"ground: {text}", ".yaml", "ball.yaml"))
    again = sl.read(sl.write(model, tmp_path / "ball.yaml"))
    third = sl.read(sl.write(sl.HybridSystem.alone(model.mechanism, model.ground), tmp_path / "third.yaml"))
    x, up = np.linspace(-1, 3, 41), np.linspace(0.3, 1, 41)
    for ground in (model.ground, again.ground, third.ground):
        assert np.allclose(ground.line(-1, 3), shape.line(-1, 3), atol=1e-14)
        assert np.allclose(ground.depth(x, 0 * x, up), shape.depth(x, 0 * x, up), atol=1e-14)
        rough = [[p.friction for at in x for p in g.near(at, 0.5)] for g in (ground, shape)]
        assert rough[0] == rough[1]
    falls = [
        sl.simulate(model.mechanism, model.start, until=0.5, ground=one).end.positions for one in (model.ground, shape)
    ]
    assert np.abs(falls[0] - falls[1]).max() < 1e-9


def test_expressions_of_a_keyframe_follow_the_params():
    m = build(parse(BALL, ".yaml", "ball.yaml")).mechanism
    for drop in (0.4, 0.7):
        state = m.keyframe("top", params={"drop": drop})
        assert np.allclose(state.positions, [0.1, 2 * drop + 0.1])
        assert np.allclose(state.velocities, [drop / 2, 0])
    given = m.params["drop"]
    assert np.allclose(m.assemble(at=(given, given * 3), params={"drop": 2.0}).positions, [2, 6])
    with pytest.raises(sl.errors.BadModel, match="not of 'ball'"):
        m.assemble(at=(ca.SX.sym("z"), 0))


def test_params_of_a_keyframe_stay_where_others_are_given():
    m = sl.Mechanism("two Params")
    m.slide("x", m.ground, m.link("block", mass=m.param("mass", 1.0)), axes="x")
    m.param("other", 2.0)
    m.keyframes["heavy"] = {"params": {"mass": 5.0}}
    assert m.keyframe("heavy", params={"other": 3.0}).params == {"mass": 5.0, "other": 3.0}


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        ("twice: 2*drop", "twice: wave", "formulas.twice", "uses 'wave', which does not come before it"),
        ("twice: 2*drop", "twice: twice + 1", "formulas.twice", "uses 'twice', which does not come before it"),
        ("twice: 2*drop", "twice: a = 2; a*drop", "formulas.twice", "no named parts of its own"),
        ("twice: 2*drop", "drop: 2", "formulas.drop", "is a Param already"),
        ("twice: 2*drop", "twice: 2*", "formulas.twice", "ends too early"),
        ("twice: 2*drop", "sin: 2", "formulas.sin", "cannot name a part"),
        ("rates: {at.x: drop/2}", "rates: {at.x: wave}", "keyframes.top", "'x'"),
        ("feet: {ball", "ground: {type: terrain, height: 0.1*y}\nfeet: {ball", "ground", "coordinate of the ground"),
        ("feet: {ball", "ground: {type: terrain, height: drop}\nfeet: {ball", "ground", "coordinate of the ground"),
        ("feet: {ball", "ground: {type: terrain, height: floor(x)}\nfeet: {ball", "ground", "jumps or branches"),
        ("feet: {ball", "ground: {type: hill}\nfeet: {ball", "ground", "Valid names: profile, slope, stairs, terrain"),
        ("feet: {ball", "ground: {type: stairs, rise: 0, run: 1, count: 2}\nfeet: {ball", "ground", "give a rise"),
        ("feet: {ball", "ground: {type: stairs, rise: 0.1, run: 1}\nfeet: {ball", "ground", "'count' is missing"),
        ("feet: {ball", "ground: stairs\nfeet: {ball", "ground", "{type: stairs, ...}"),
        ("feet: {ball", "ground: {type: slope, angle: 5}\nfeet: {ball", "ground", 'angle: "5*pi/180"'),
        ("friction: 0.9", "friction: [0.9, 0.5]", "feet.ball.friction", "expected a number, not [0.9, 0.5]"),
        ("{point: ball, friction: 0.9}", "ball", "feet.ball", "expected {point: ..., radius: ..., friction: ...}, not"),
        ("{ball: {point: ball, friction: 0.9}}", "[ball]", "feet", "expected {NAME: ...}, not ['ball']"),
        ("feet: {ball", "ground: {type: slope, angle: 2}\ndomains: {a: {}}\nfeet: {ball", "ground", "level ground"),
        ("feet: {ball", "ends: [{name: a, guard: {type: when, expression: t}}]\nfeet: {ball", "ends", "add `domains`"),
    ],
)
def test_wrong_formulas_and_grounds_are_named(old, new, where, words):
    with pytest.raises(sl.errors.BadFile) as caught:
        build(parse(BALL.replace(old, new, 1), ".yaml", "ball.yaml"))
    assert where in str(caught.value)
    assert words in str(caught.value)


def test_errors_have_lines_in_either_format(tmp_path):
    system = sl.zoo.hopper()
    for suffix in (".yaml", ".json"):
        path = sl.write(system, tmp_path / f"h{suffix}")
        text = path.read_text().replace("block_U", "blok_U", 1)
        path.write_text(text)
        with pytest.raises(sl.errors.BadFile, match=r"Did you mean 'blok_U'") as caught:
            sl.read(path)
        assert "block_U" in text.splitlines()[caught.value.line - 1] or suffix == ".json"


def test_json_schema_describes_what_is_written(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    rules = schema.json_schema()
    for name in sl.zoo.__all__:
        path = sl.write(getattr(sl.zoo, name)(), tmp_path / "m.json")
        jsonschema.validate(json.loads(path.read_text()), rules)
    bad = json.loads(path.read_text())
    bad["links"]["crank"]["maß"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bad, rules)


def test_published_schema_is_the_present_one():
    from pathlib import Path

    published = Path(__file__).parents[1] / "docs" / "saltus.schema.json"
    assert json.loads(published.read_text()) == schema.json_schema()


# ---- expressions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*a + 0.01", 2 * 0.3 + 0.01),
        ("-a^2", -0.09),
        ("2^-1", 0.5),
        ("2^3^2", 512.0),
        ("1 - 2 - 3", -4.0),
        ("8/4/2", 1.0),
        ("(1 + 2)*3", 9.0),
        ("1e-3 + .5", 0.501),
        ("atan2(1, 1)*4 - pi", 0.0),
        ("where(a < 1 and not a > 2, 7, 8)", 7.0),
        ("min(a, 2) + max(a, 2)", 2.3),
        ("x = a + 1; x*x", 1.69),
        ("--a", 0.3),
        ("a >= 0.3 or 0", 1.0),
        ("3 + -2", 1.0),
    ],
)
def test_expressions_mean_what_they_say(text, value):
    symbol = ca.SX.sym("a")
    assert evaluate(text, {"a": 0.3}.__getitem__) == pytest.approx(value, abs=1e-15)
    assert float(ca.substitute(ca.SX(evaluate(text, {"a": symbol}.__getitem__)), symbol, 0.3)) == pytest.approx(
        value, abs=1e-15
    )


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a.__class__",
        "lambda: 1",
        "[1, 2]",
        "a if a else b",
        "open('x')",
        "1 +",
        "(1",
        "",
        "a b",
        "2 a",
        "sin",
        "sin()",
        "sin(1, 2)",
        "1 = 2; 3",
        "a;",
        "$a",
        "exec('1')",
        "(" * 500 + "1" + ")" * 500,
        "9^9^9^9^9",
        "1/0",
        "-" * 5,
        "a" * 200_000,
    ],
)
def test_anything_else_is_refused(text):
    def lookup(name):
        raise sl.errors.UnknownName("Param", name, [])

    with pytest.raises(sl.errors.SaltusError):
        evaluate(text, lookup)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_written_expressions_read_back_exactly(data):
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    pool = [x, y, ca.SX(0.1), ca.SX(-2.5)]
    for _ in range(data.draw(st.integers(1, 12))):
        a, b = data.draw(st.sampled_from(pool)), data.draw(st.sampled_from(pool))
        pool.append(
            data.draw(
                st.sampled_from(
                    [
                        a + b,
                        a - b,
                        a * b,
                        a / (b * b + 1),
                        -a,
                        ca.sin(a),
                        ca.fmin(a, b),
                        ca.if_else(a < b, a, b),
                        ca.fabs(a) ** 0.5,
                        a**2,
                        ca.atan2(a, b),
                        ca.if_else(ca.logic_and(a < b, b <= 2), a, 1),
                        ca.if_else(a != b, ca.tanh(a), -b),
                    ]
                )
            )
        )
    e = pool[-1]
    text = write(e, {x.element_hash(): "x", y.element_hash(): "y"})
    names = {"x": x, "y": y}
    back = ca.SX(evaluate(str(text), names.__getitem__))
    f, g = ca.Function("f", [x, y], [e]), ca.Function("g", [x, y], [back])
    for at in ((0.3, -0.7), (2.0, 2.0), (-1.5, 0.25)):
        one, two = float(f(*at)), float(g(*at))
        assert one == pytest.approx(two, rel=1e-13, abs=1e-13, nan_ok=True)


@pytest.mark.parametrize("what", ['<inertial pos="0 0 0" mass="-5"/>', '<geom size="0.1" mass="-5"/>'])
def test_a_negative_mass_of_mjcf_is_refused(what, tmp_path):
    path = tmp_path / "m.xml"
    path.write_text(f'<mujoco><worldbody><body name="a"><joint type="slide"/>{what}</body></worldbody></mujoco>')
    with pytest.raises(sl.errors.BadFile, match="is -5; give zero or more"):
        sl.read(path, partial=True)


# ---- command line -------------------------------------------------------------------------------------------------


def test_new_check_run(tmp_path, monkeypatch):
    from saltus.cli.app import app

    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["new", "my hopper"]).exit_code == 0
    assert runner.invoke(app, ["new", "my hopper"]).exit_code == 2  # never overwrites
    assert runner.invoke(app, ["new", "../evil"]).exit_code == 2
    done = runner.invoke(app, ["check", "my_hopper.saltus.yaml"])
    assert done.exit_code == 0, done.output
    for words in ("3 degrees of freedom", "loops closed by: 1: pin", "2 way(s) to close"):
        assert words in done.output
    assert (tmp_path / "my_hopper.svg").stat().st_size > 1000
    done = runner.invoke(app, ["run", "my_hopper.saltus.yaml", "--until", "0.6", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["events"]["toe touches"] >= 1


def test_example_file_is_the_python_example():
    """The model file in examples/ is the machine of examples/four_bar_hopper.py."""
    from pathlib import Path

    examples = Path(__file__).parents[1] / "examples"
    model = sl.read(examples / "four_bar_hopper.saltus.yaml")
    code = "import runpy, sys; m = runpy.run_path(sys.argv[1])['m']; import saltus as sl; sl.write(m, sys.argv[2])"
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "m.yaml"
        subprocess.run(
            [sys.executable, "-c", code, str(examples / "four_bar_hopper.py"), str(target)],
            check=True,
            capture_output=True,
        )
        python = sl.read(target).mechanism
    ea, eb = Equations(python), Equations(model.mechanism)
    p = [model.mechanism.values()]
    q, v = np.linspace(0.1, 1, ea.nq), np.linspace(-1, 1, ea.nv)
    for n in ("M", "h", "J"):
        one, two = (np.asarray(f) for f in (ea.function(n)(0, q, v, [0.0], []), eb.function(n)(0, q, v, [0.0], *p)))
        assert np.allclose(one, two, rtol=1e-13, atol=1e-13)


def test_yaml_numbers_and_words():
    data = parse("a: 1e-3\nb: no\nc: 012\nd: '7'\ne: ~\nf: true\ng: [1, -2.5]", ".yaml", "x").data
    assert data == {"a": 1e-3, "b": "no", "c": 12, "d": "7", "e": None, "f": True, "g": [1, -2.5]}


def test_bad_formula_in_a_domain_is_found_at_once():
    text = GOOD.replace("kd*v.hip", "kd*force.toe.y")
    with pytest.raises(sl.errors.BadFile, match="controller"):
        build(parse(text, ".yaml", "m.yaml"))


def test_ground_is_written_with_the_machine_that_meets_it(tmp_path):
    """Every shape comes back and gives the same run; what MJCF has no element for is refused."""
    m = sl.Mechanism("slider")
    body = m.link("body", mass=1.0, inertia=0.01)
    m.planar("at", m.ground, body)
    m.foot("front", body.at(0.1, -0.05), friction=0.6)
    m.foot("hind", body.at(-0.1, -0.05), friction=0.6, restitution=0.2)
    m.keyframes["drop"] = {"at": (0.0, 0.3, 0.1), "rates": {"at": (0.5, 0.0, 0.0)}}
    shapes = (
        0.05,
        sl.ground.Slope(4, "deg", height=-0.02, friction=0.5),
        sl.ground.Stairs(rise=0.02, run=0.2, count=3, friction=0.5),
        sl.ground.Profile([-1, 0, 0, 1], [0, 0, 0.03, 0.05], friction=[0.3, 0.4, 0.5]),
        sl.ground.Terrain(lambda x: 0.02 * sl.math.sin(7 * x)),
    )
    for ground in shapes:
        model = sl.read(sl.write(m, tmp_path / "m.yaml", start="drop", ground=ground))
        asked = sl.simulate(m, m.keyframe("drop"), until=0.6, ground=ground)
        run = sl.simulate(model.mechanism, model.start, until=0.6, ground=model.ground)
        assert len(asked.events) > 2
        assert run.end.positions == pytest.approx(asked.end.positions, abs=1e-9)
        with pytest.raises(BadModel, match="written for level ground at 0"):
            sl.write(m, tmp_path / "m.xml", ground=ground)
    with pytest.raises(BadValue, match="has no feet"):
        sl.write(sl.zoo.slider_crank(), tmp_path / "m.yaml", ground=0.1)
