"""Bad models: every mistake has its own error, which names the part and the remedy."""

import copy
import math
import pickle

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus.errors import (
    BadModel,
    BadValue,
    CannotClose,
    DuplicateName,
    MissingParam,
    SaltusError,
    Singular,
    UnknownName,
)


def planar():
    return sl.Mechanism("machine")


def spatial():
    return sl.Mechanism("machine", spatial=True)


def pendulum(m=None, **options):
    """One arm on one pin."""
    m = m or planar()
    arm = m.link("arm", mass=1.0, inertia=0.1 if not m.spatial else (0.1, 0.1, 0.1))
    m.revolute("pin", m.ground, arm, **options)
    return m


def four_bar(ground=0.4):
    m = planar()
    a, b, c = (m.rod(n, mass=1.0, length=x) for n, x in (("crank", 0.1), ("coupler", 0.35), ("rocker", 0.3)))
    m.revolute("q1", m.ground, a.start)
    m.revolute("q2", a.end, b.start)
    m.revolute("q3", m.ground.at(ground, 0), c.start)
    m.revolute("close", b.end, c.end)
    return m


def refused(kind, call, *said):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    for words in said:
        assert words in str(caught.value), str(caught.value)
    return caught.value


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.link("arm", mass=1.0), ("link 'arm' exists already in 'machine'", "choose another name")),
        (lambda m: m.rod("arm", mass=1.0, length=1.0), ("link 'arm' exists already",)),
        (lambda m: m.revolute("pin", m.ground, m.links["arm"]), ("joint 'pin' exists already",)),
        (lambda m: [m.param("k", 1.0), m.param("k", 2.0)], ("param 'k' exists already",)),
        (lambda m: [m.input("u"), m.input("u")], ("input 'u' exists already",)),
        (lambda m: [m.point("tip", m.ground.at(1, i)) for i in range(2)], ("point 'tip' exists already",)),
        (
            lambda m: [m.torque("t", m.links["arm"], 1.0), m.torque("t", m.links["arm"], 1.0)],
            ("force 't' exists already",),
        ),
        (lambda m: m.constraint("pin", m.q.pin), ("constraint 'pin' exists already",)),
        (lambda m: m.link("ground", mass=1.0), ("link 'ground' exists already",)),
    ],
)
def test_duplicate_names(call, said):
    refused(DuplicateName, lambda: call(pendulum()), *said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m: m.assemble(pni=1.0), ("no coordinate named 'pni'", "Did you mean 'pin'?", "Valid names: pin")),
        (lambda m: m.assemble(near={"hip": 1.0}), ("no coordinate named 'hip'",)),
        (lambda m: m.assemble(rates={"hip": 1.0}), ("no velocity named 'hip'", "Valid names: pin")),
        (lambda m: m.assemble(params={"mass": 1.0}), ("no param named 'mass'", "Valid names: none")),
        (lambda m: m.position("tip"), ("no point named 'tip'",)),
        (lambda m: m.q.hip, ("no coordinate named 'hip'", "Valid names: pin")),
        (lambda m: m.joint_spring("s", "hip", stiffness=1.0), ("no joint coordinate named 'hip'",)),
        (lambda m: m.keyframe("start"), ("no keyframe named 'start'",)),
        (lambda m: m.assemble().mobility(["hip"]), ("no coordinate named 'hip'",)),
    ],
)
def test_unknown_names(call, said):
    error = refused(UnknownName, lambda: call(pendulum()), *said)
    assert error.valid is not None


@pytest.mark.parametrize("name", ["two words", "1st", "", 7, "a.b"])
def test_names_are_identifiers(name):
    refused(BadValue, lambda: planar().link(name, mass=1.0), "link name")


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [0.0, -1.0])
def test_mass_is_positive(mass):
    refused(BadValue, lambda: planar().link("arm", mass=mass), "link 'arm': mass is", "must be positive")
    refused(BadValue, lambda: planar().rod("arm", mass=mass, length=1.0), "rod 'arm': mass is")


@pytest.mark.parametrize("mass", [math.nan, math.inf, "heavy", None, True])
def test_mass_is_a_number(mass):
    refused(BadValue, lambda: planar().link("arm", mass=mass), "link 'arm': mass", "not a finite number")


def test_mass_of_params_is_checked_with_their_values():
    m = planar()
    half = m.param("half", 0.5)
    refused(BadValue, lambda: m.link("a", mass=half - 1), "link 'a': mass is -0.5; it must be positive")
    refused(BadValue, lambda: m.link("a", mass=0.0), "may have 1e-9 kg")
    arm = m.link("b", mass=half, inertia=half - 0.2)
    m.revolute("pin", m.ground, arm)
    refused(BadValue, lambda: m.assemble(params={"half": -2.0}), "link 'b': mass is -2 for the given Params")
    refused(BadValue, lambda: m.assemble(params={"half": 0.1}), "link 'b': inertia is -0.1 for the given Params")
    refused(BadValue, lambda: m.assemble(params={"half": math.nan}), "param 'half'", "not a finite number")
    assert m.assemble(params={"half": 0.2}).params["half"] == 0.2


@pytest.mark.parametrize(
    ("inertia", "said"),
    [
        ((1, 1, 3), "no body has principal moments 1, 1, 3"),
        ((0, 0, 1), "no body has principal moments 0, 0, 1"),
        ((-1, 1, 1), "no body has principal moments"),
        ((1, math.nan, 1), "not finite"),
        ([[1, 0.5, 0], [0, 1, 0], [0, 0, 1]], "not symmetric"),
        ([[1, 0], [0, 1]], "3 numbers or a 3 x 3 tensor"),
        (0.5, "(Ixx, Iyy, Izz)"),
    ],
)
def test_impossible_inertia(inertia, said):
    refused(BadValue, lambda: spatial().link("arm", mass=1.0, inertia=inertia), "link 'arm'", said)


def test_inertia_of_params_is_checked_with_their_values():
    m = spatial()
    i = m.param("i", 0.1)
    arm = m.link("arm", mass=1.0, inertia=[[0.1, 0, 0], [0, 0.1, 0], [0, 0, i]])
    m.revolute("pin", m.ground, arm)
    assert m.assemble().gap == 0
    refused(
        BadValue, lambda: m.assemble(params={"i": 0.3}), "link 'arm'", "no body has principal moments 0.1, 0.1, 0.3"
    )


def test_planar_inertia_and_lengths():
    refused(BadValue, lambda: planar().link("arm", mass=1.0, inertia=-0.1), "link 'arm': inertia", "below 0")
    refused(
        BadValue,
        lambda: planar().link("arm", mass=1.0, inertia=(1, 1, 1)),
        "link 'arm': inertia",
        "one number",
    )
    refused(BadValue, lambda: planar().rod("arm", mass=1.0, length=0.0), "rod 'arm': length is 0.0", "must be positive")
    refused(BadValue, lambda: planar().rod("arm", mass=1.0, length=1.0, radius=-1), "rod 'arm': radius", "below 0")
    refused(BadValue, lambda: sl.Mechanism("m", gravity=math.nan), "gravity", "not a finite number")


def test_points_have_the_dimension_of_the_machine():
    refused(BadValue, lambda: spatial().ground.at(1, 2), "link 'ground': a point takes (x, y, z)", "2 number(s) given")
    refused(BadValue, lambda: planar().ground.at(1), "link 'ground': a point takes (x, y)")
    refused(BadValue, lambda: planar().ground.end, "link 'ground' is not a rod", "use .at(x, y)")
    refused(
        BadValue, lambda: spatial().ground.at(0, 0, 0, rotation=2 * np.eye(3)), "link 'ground'", "3 x 3 rotation matrix"
    )
    refused(BadValue, lambda: spatial().ground.at(0, 0, 0, rotation=-np.eye(3)), "determinant -1")
    tilted = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    refused(
        BadValue, lambda: planar().ground.at(0, 0, rotation=tilted), "link 'ground'", "out of the plane", "spatial=True"
    )


# ---- Params and symbols ---------------------------------------------------------------------------------------------


def test_a_param_without_value_must_be_given():
    m = planar()
    arm = m.rod("arm", mass=1.0, length=m.param("length"))
    m.revolute("pin", m.ground, arm)
    error = refused(MissingParam, m.assemble, "param 'length' of 'machine' has no value", "params={'length': ...}")
    assert error.param == "length"
    assert m.assemble(params={"length": 0.4}).params == {"length": 0.4}


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.link("other", mass=x),
        lambda m, x: m.link("other", mass=1.0, com=(x, 0)),
        lambda m, x: m.link("other", mass=1.0, inertia=x),
        lambda m, x: m.torque("t", m.links["arm"], x),
        lambda m, x: m.force("f", m.links["arm"].at(1, 0), (x, 0)),
        lambda m, x: m.spring("s", m.ground, m.links["arm"].at(1, 0), stiffness=x),
        lambda m, x: m.revolute("p2", m.ground.at(x, 0), m.link("other", mass=1.0)),
        lambda m, x: m.revolute("p2", m.ground, m.link("other", mass=1.0), motion=x),
        lambda m, x: m.revolute("p2", m.ground, m.link("other", mass=1.0), motor=sl.Motor(torque=x)),
        lambda m, x: m.revolute("p2", m.ground, m.link("other", mass=1.0), motor=sl.Motor(rotor_inertia=x)),
        lambda m, x: m.constraint("c", m.q.pin - x),
    ],
)
def test_foreign_symbols(call):
    refused(BadModel, lambda: call(pendulum(), ca.SX.sym("foreign")), "the symbol 'foreign'", "m.param(...)")
    refused(BadModel, lambda: call(pendulum(), planar().param("foreign", 1.0).symbol), "the symbol 'foreign'")


# ---- topology -------------------------------------------------------------------------------------------------------


def test_a_joint_of_a_link_with_itself():
    m = planar()
    arm = m.link("arm", mass=1.0)
    refused(
        BadModel,
        lambda: m.revolute("pin", arm, arm.at(1, 0)),
        "joint 'pin' joins link 'arm' to itself",
        "two different",
    )


def test_disconnected_links():
    m = pendulum()
    a, b = m.link("a", mass=1.0), m.link("b", mass=1.0)
    m.revolute("loose", a, b)
    error = refused(BadModel, m.assemble, "links 'a', 'b' of 'machine' are not connected to the ground", "m.free(...)")
    assert error.links == ["a", "b"]
    refused(BadModel, lambda: sl.Equations(m), "not connected")


def test_nothing_moves():
    m = planar()
    m.weld("w", m.ground, m.link("arm", mass=1.0))
    refused(BadModel, m.assemble, "'machine' has no coordinate", "add a joint")


def test_links_of_another_mechanism():
    m, other = pendulum(), pendulum()
    stranger = other.links["arm"]
    for call in (
        lambda: m.revolute("p2", m.links["arm"], stranger),
        lambda: m.point("tip", stranger.at(1, 0)),
        lambda: m.torque("t", stranger, 1.0),
        lambda: m.spring("s", m.ground, stranger.at(1, 0)),
    ):
        refused(BadModel, call, "link 'arm' belongs to another mechanism than 'machine'")


def test_what_is_no_point():
    refused(BadValue, lambda: pendulum().revolute("p2", (0, 0), "x"), "'p2'", "is no point of a link", "link.at(x, y)")


def test_a_free_joint_cannot_close_a_loop():
    m = pendulum(spatial())
    refused(BadModel, lambda: m.free("extra", m.ground, m.links["arm"]), "joint 'extra'", "free joint", "leave it out")
    m = pendulum()
    refused(BadModel, lambda: m.free("extra", m.ground, m.links["arm"]), "joint 'extra'", "leave it out")


def test_a_loop_joint_cannot_have_a_given_motion():
    m = pendulum()
    refused(
        BadModel,
        lambda: m.revolute("second", m.ground, m.links["arm"], motion=m.time),
        "joint 'second' on links 'ground' and 'arm' closes a loop and cannot also have a motion",
    )


def test_joints_that_leave_the_plane():
    m = planar()
    arm = m.link("arm", mass=1.0)
    for call in (
        lambda: m.revolute("j", m.ground, arm, axis="x"),
        lambda: m.slide("j", m.ground, arm, axes="z"),
        lambda: m.universal("j", m.ground, arm),
        lambda: m.spherical("j", m.ground, arm),
        lambda: m.planar("j", m.ground, arm, normal="x"),
    ):
        refused(BadModel, call, "joint 'j'", "leaves the plane of 'machine'", "spatial=True")


# ---- constraints and couplings --------------------------------------------------------------------------------------


def test_a_constraint_that_depends_on_nothing():
    m = pendulum()
    k = m.param("k", 1.0)
    refused(BadModel, lambda: m.constraint("c", k - 1), "constraint 'c' depends on no coordinate", "m.q.NAME")
    refused(
        BadModel, lambda: m.constraint("c", [m.q.pin - 1, m.time]), "constraint 'c' depends on no coordinate in row 2"
    )
    refused(BadModel, lambda: m.constraint("c", []), "constraint 'c' depends on no coordinate")


def test_constraints_and_couplings_are_of_positions():
    m = pendulum(motor=True)
    refused(
        BadModel,
        lambda: m.constraint("c", m.v.pin - m.q.pin),
        "constraint 'c' uses \"pin'\"",
        "positions, time and Params",
    )
    refused(BadModel, lambda: m.constraint("c", m.q.pin - m.inputs["pin"]), "constraint 'c' uses 'u_pin'")
    other = m.link("other", mass=1.0)
    refused(
        BadModel,
        lambda: m.revolute("p2", m.ground, other, motion=m.v.pin),
        "joint 'p2': motion uses",
        "positions, time",
    )
    refused(
        BadValue,
        lambda: m.slide("p2", m.ground, other, axes="xy", motion=m.q.pin),
        "motion takes 2 expression(s), 1 given",
    )


# ---- axes and options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", ["w", "", (0, 0, 0), (1, 2, 3, 4), (math.nan, 0, 1), object(), None])
def test_bad_axes(axis):
    m = spatial()
    arm = m.link("arm", mass=1.0)
    refused(BadValue, lambda: m.revolute("pin", m.ground, arm, axis=axis), "joint 'pin': axis")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, arm: m.slide("s", m.ground, arm, axes="xx"), "not independent directions"),
        (lambda m, arm: m.slide("s", m.ground, arm, axes=[]), "not independent directions"),
        (
            lambda m, arm: m.slide("s", m.ground, arm, axes=[(1, 0, 0), (0, 1, 0), (1, 1, 0)]),
            "not independent directions",
        ),
        (lambda m, arm: m.universal("s", m.ground, arm, axes=("x", (1, 1, 0))), "perpendicular"),
        (lambda m, arm: m.universal("s", m.ground, arm, axes="xyz"), "takes two axes"),
        (lambda m, arm: m.planar("s", m.ground, arm, normal=(0, 0, 0)), "axis (0, 0, 0) is not a direction"),
        (lambda m, arm: m.free("s", m.ground, arm, rotation="zzx"), "three Euler axes"),
        (lambda m, arm: m.free("s", m.ground, arm, rotation="euler"), "neither 'quaternion' nor"),
        (lambda m, arm: m.free("s", m.ground, arm, rotation=3), "neither 'quaternion' nor"),
    ],
)
def test_bad_joint_options(call, said):
    m = spatial()
    refused(BadValue, lambda: call(m, m.link("arm", mass=1.0)), "joint 's'", said)


@pytest.mark.parametrize(
    "options",
    [
        {"torque": 0.0},
        {"torque": -1.0},
        {"speed": 0},
        {"power": math.nan},
        {"gear": 0.0},
        {"rotor_inertia": -1e-3},
    ],
)
def test_bad_motors(options):
    name = next(iter(options))
    refused(BadValue, lambda: sl.Motor(**options), f"motor: {name} =", "expected")


def test_bad_motors_on_joints():
    refused(BadValue, lambda: pendulum(motor="strong"), "joint 'pin': motor takes True or a Motor(...)")
    refused(
        BadValue, lambda: pendulum(motor=sl.Motor(torque="5")), "motor on joint 'pin': torque", "not a finite number"
    )
    refused(BadValue, lambda: pendulum(motor=sl.Motor(rotor_inertia=[1])), "motor on joint 'pin': rotor_inertia")
    m = planar()
    gear = m.param("gear", 5.0)
    pendulum(m, motor=sl.Motor(torque=1.0, gear=gear))
    refused(
        BadValue, lambda: m.assemble(params={"gear": -1.0}), "motor on joint 'pin': gear is -1 for the given Params"
    )
    m = spatial()
    a = m.link("a", mass=1.0)
    m.free("f", m.ground, a)
    refused(
        BadModel, lambda: m.universal("u", m.ground, a, motor=True), "joint 'u' on links 'ground' and 'a'", "2 motions"
    )


def test_bad_forces():
    m = pendulum()
    tip = m.links["arm"].at(1, 0)
    refused(BadValue, lambda: m.spring("s", m.ground, tip, stiffness=-1.0), "spring 's': stiffness", "below 0")
    refused(
        BadValue, lambda: m.spring("s", m.ground, tip, damping=math.nan), "spring 's': damping", "not a finite number"
    )
    refused(BadValue, lambda: m.joint_spring("s", "pin", rest=math.inf), "spring 's': rest")
    refused(BadValue, lambda: m.force("f", tip, (1.0,)), "force 'f'", "(x, y)")


# ---- assembling -----------------------------------------------------------------------------------------------------


def test_a_linkage_that_cannot_close():
    error = refused(
        CannotClose, four_bar(ground=2.0).assemble, "'machine' cannot close", "m at 'close'", "change lengths"
    )
    assert error.gap == pytest.approx(2.0 - 0.75, rel=1e-3)
    assert error.gaps == {"close": error.gap}
    error = refused(CannotClose, lambda: four_bar().assemble(q1=0.3, q2=0.1, q3=0.2), "with q1, q2, q3 held")
    assert error.loop == "close"


def test_contradictory_coordinates_and_rates():
    m = four_bar()
    refused(CannotClose, lambda: m.assemble(q1=0.5, q3=0.1), "with q1, q3 held", "Hold fewer coordinates")
    refused(
        BadValue,
        lambda: m.assemble(q1=0.5, near={"q2": 0.3, "q3": 1.5}, rates={"q1": 1.0, "q3": 7.0}),
        "rates q1, q3 contradict the loops of 'machine'",
        "give fewer",
    )
    refused(BadValue, lambda: pendulum().assemble(pin=math.nan), "coordinate 'pin': nan is not a finite number")
    refused(BadValue, lambda: pendulum().assemble(pin=(1, 2)), "coordinate 'pin' takes 1 number(s)", "2 given")
    m = spatial()
    m.free("f", m.ground, m.link("a", mass=1.0))
    refused(BadValue, lambda: m.assemble(**{"f": (0, 0, 0, 1, 0, 0, 0), "f.x": 1.0}), "coordinate 'f.x' is given twice")
    refused(BadValue, lambda: m.assemble(**{"f.qw": 1.0}), "give all four numbers of the quaternion")
    refused(BadValue, lambda: m.assemble(f=(0, 0, 0, 0, 0, 0, 0)), "of length 1, not [0.0, 0.0, 0.0, 0.0]")
    refused(BadValue, lambda: m.assemble(f=(0, 0, 0, 1e308, 0, 0, 0)), "of length 1, not [1e+308")


def test_chosen_coordinates_must_fit_the_freedom():
    from saltus.dynamics.choice import choose

    m = four_bar()
    state = m.assemble(q1=0.5, near={"q2": 0.3, "q3": 1.5})
    J = np.asarray(sl.Equations(m).function("J")(0, state.positions, np.zeros(3), [], state.p))
    refused(UnknownName, lambda: choose(m, J, ["q9"]), "no velocity coordinate named 'q9'")
    refused(BadValue, lambda: choose(m, J, ["q1", "q2"]), "2 independent coordinate(s) given", "1 degree(s) of freedom")
    J[:, 1] = 2 * J[:, 2]
    refused(Singular, lambda: choose(m, J, ["q1"]), "the coordinates q1 do not determine 'machine'", "choose different")


def test_all_errors_have_one_base():
    for kind in (BadModel, BadValue, CannotClose, DuplicateName, MissingParam, Singular, UnknownName):
        assert issubclass(kind, SaltusError)


def test_a_refused_part_leaves_nothing_behind():
    m = pendulum()
    refused(BadModel, lambda: m.free("extra", m.ground, m.links["arm"]), "leave it out")
    assert "extra" not in m.joints
    m.revolute("extra", m.links["arm"].at(1, 0), m.link("other", mass=1.0))
    assert m.assemble(extra=0.3).q.extra == 0.3


# ---- gravity --------------------------------------------------------------------------------------------------------


def swing(m):
    """Acceleration of a level pendulum rod: 3 g / 2 l, from its equations."""
    e = sl.Equations(m)
    M, h = e.function("M", "h")(0.0, [0.0], [0.0], [], m.values())
    return -float(h) / float(M)


@pytest.mark.parametrize(
    ("given", "size"),
    [(3.0, 3.0), ([0, -3.0], 3.0), ((0, -3.0, 0), 3.0), (np.array([1.0, -3.0]), 3.0), (np.float64(3.0), 3.0), (3, 3.0)],
)
def test_gravity_is_set_later(given, size):
    m = planar()
    m.revolute("pin", m.ground, m.rod("rod", mass=2.0, length=1.5).start)
    m.gravity = given
    assert swing(m) == pytest.approx(-1.5 * size / 1.5)


def test_gravity_may_be_params_and_expressions():
    """On a slope of angle b under a gravity of size g the part across a level rod is g cos b."""
    m = planar()
    m.revolute("pin", m.ground, m.rod("rod", mass=2.0, length=1.5).start)
    g, slope = m.param("g", 2.0, "m/s2"), m.param("slope", 0.3, "rad")
    m.gravity = g
    assert swing(m) == pytest.approx(-2.0)
    m.gravity = 2 * g
    assert swing(m) == pytest.approx(-4.0)
    for form in (tuple, list, lambda x: ca.vertcat(*x), lambda x: ca.horzcat(*x)):
        m.gravity = form((g * sl.math.sin(slope), -g * sl.math.cos(slope)))
        assert swing(m) == pytest.approx(-2.0 * math.cos(0.3))


@pytest.mark.parametrize(
    "given", ["down", None, [1.0], [1, 2, 3, 4], math.inf, [0, math.nan], True, np.eye(3), ca.SX.eye(2)]
)
def test_gravity_is_a_number_or_a_vector(given):
    m = planar()
    before = m.contents
    with pytest.raises(BadValue, match="gravity"):
        m.gravity = given
    assert m.contents == before


def test_gravity_stays_in_the_plane_and_in_the_machine():
    m = planar()
    with pytest.raises(BadValue, match="leaves the plane"):
        m.gravity = (0, 0, -9.81)
    with pytest.raises(BadModel, match="'other'"):
        m.gravity = sl.Param("other", 1.0)
    assert float(m.gravity[1]) == -9.81
    with pytest.raises(BadValue, match="shape"):
        m.force("f", pendulum(m).links["arm"], (ca.SX.sym("x", 2), 0))


@pytest.mark.parametrize(
    "matrix", [np.eye(3) * 1.001, np.diag([1, 1, -1]), np.eye(2), np.full((3, 3), np.nan), "turned"]
)
def test_rotations_are_rotations(matrix):
    refused(BadValue, lambda: spatial().ground.at(0, 0, 0, rotation=matrix), "link 'ground': rotation")


# ---- named vectors --------------------------------------------------------------------------------------------------


def test_named_vectors_answer_hasattr():
    m = planar()
    m.free("base", m.ground, m.link("body", mass=1.0, inertia=1.0))
    q = m.assemble().q
    asked = [hasattr(q, "base"), hasattr(q.base, "x"), hasattr(q, "bose"), hasattr(q.base, "w")]
    assert asked == [True, True, False, False]
    assert getattr(q, "bose", 7) == 7
    assert [name in q for name in ("base", "base.x", "bose", 0.0)] == [True, True, False, False]
    for wrong in (lambda: q.bose, lambda: q["bose"], lambda: q[0]):
        with pytest.raises(
            UnknownName, match=r"no coordinate named .* Valid names: base.angle, base.x, base.y"
        ) as caught:
            wrong()
        assert isinstance(caught.value, AttributeError | KeyError)
    assert caught.value.name == 0
    assert caught.value.valid == ["base.angle", "base.x", "base.y"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert list(copy.copy(q)) == list(q)


@pytest.mark.parametrize(
    "use",
    [
        lambda g: g + 1,
        lambda g: 1 + g,
        lambda g: 2.0 * g,
        lambda g: g / 2,
        lambda g: -g,
        lambda g: g**2,
        lambda g: g > 0,
        lambda g: ca.SX.sym("x") * g,
        lambda g: ca.SX.sym("x") - g,
        lambda g: abs(g),
        float,
    ],
)
def test_a_group_is_no_number(use):
    m = planar()
    m.free("base", m.ground, m.link("body", mass=1.0, inertia=1.0))
    for q in (m.q, m.assemble().q):
        with pytest.raises(BadValue, match=r"group of 3 coordinate entries \(x, y, angle\) is no number"):
            use(q.base)


# ---- changes --------------------------------------------------------------------------------------------------------


def _gravity_in_place(m):
    m.gravity[0] = 1e-9


CHANGES = {
    "param": lambda m: m.param("new"),
    "param replaced": lambda m: m.params.update(k=sl.Param("k", 2.0)),
    "link": lambda m: m.link("more", mass=1.0),
    "link replaced": lambda m: m.links.update(arm=sl.Mechanism("n").link("arm", mass=1.0)),
    "massless": lambda m: m.massless("more"),
    "joint": lambda m: m.revolute("more", m.links["arm"], m.links["loose"]),
    "point": lambda m: m.point("more", m.ground.at(0, 1)),
    "point replaced": lambda m: m.points.update(tip=m.ground.at(0, 1)),
    "spring": lambda m: m.spring("more", m.ground, m.links["arm"]),
    "joint spring": lambda m: m.joint_spring("more", "pin"),
    "force": lambda m: m.force("more", m.ground, (0, 0)),
    "force replaced": lambda m: m.forces.update(f=m.torque("f2", m.links["arm"], 1.0)),
    "force taken away": lambda m: m.forces.pop("f"),
    "torque": lambda m: m.torque("more", m.links["arm"], 1.0),
    "contact": lambda m: m.compliant_contact("more", m.links["arm"], stiffness=1.0),
    "input": lambda m: m.input("more"),
    "constraint": lambda m: m.constraint("more", m.q.pin),
    "moved": lambda m: m.move("pin", m.time),
    "motion": lambda m: m.motion("more", m.time),
    "gravity": lambda m: setattr(m, "gravity", 9.81 + 1e-9),
    "gravity by param": lambda m: setattr(m, "gravity", m.params["k"]),
    "gravity in place": _gravity_in_place,
}


@pytest.mark.parametrize("change", CHANGES)
def test_contents_see_every_change(change):
    m = pendulum()
    m.param("k", 1.0)
    m.link("loose", mass=1.0)
    m.point("tip", m.links["arm"].at(1, 0))
    m.force("f", m.links["arm"], (1.0, 0))
    before = m.contents
    assert m.contents == before
    assert hash(m.contents) == hash(before)
    made = m.once("something", lambda: object())
    assert m.once("something", lambda: object()) is made
    CHANGES[change](m)
    assert m.contents != before
    assert m.once("something", lambda: object()) is not made


def test_contents_hold_no_keyframes_and_know_gravity_by_value():
    m = pendulum()
    before = m.contents
    m.keyframes["here"] = {"pin": 1.0}
    m.gravity = 9.81
    assert m.contents == before
    assert pendulum().contents != before


def test_what_is_derived_follows_a_change():
    """Positions and loops after a change are those of the machine as it is."""
    m = four_bar()
    first = m.assemble(q1=0.5)
    m.point("tip", m.links["crank"].at(0.1, 0))
    assert np.allclose(first.position("tip"), [0.1 * math.cos(0.5), 0.1 * math.sin(0.5)])
    m.points["tip"] = m.links["crank"].at(0.2, 0)
    assert np.allclose(first.position("tip"), [0.2 * math.cos(0.5), 0.2 * math.sin(0.5)])
    m.move("q1", 0.7)
    assert m.assemble(near=dict(first.q.items())).q.q1 == pytest.approx(0.7)
