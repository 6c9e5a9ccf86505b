"""Design: kinematics against closed forms and differences, known linkages, optimisation from random starts."""

import ctypes
import math
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import saltus as sl
from saltus.design import Problem, Turn, kinematic_study, lookup_table, optimise, pareto, sensitivity
from saltus.errors import BadModel, BadValue, NoDesign, Singular, UnknownName

TOUCHDOWN = math.radians(345)
LENGTHS = ("l_c", "l_1", "l_2", "l_3", "l_4", "l_5", "l_s", "l_f", "l_t", "theta")


@pytest.fixture(scope="module")
def bolt():
    return sl.zoo.bolt_linkage(base="fixed").keyframe("crank level")


@pytest.fixture(scope="module")
def study(bolt):
    return kinematic_study(bolt, "q1", "foot", pivot="hip", attack_at=TOUCHDOWN)


def four_bar(l_1=0.04, l_2=0.10, l_3=0.10, l_4=0.08, crank=math.pi, **more):
    m = sl.zoo.four_bar()
    return m.branches(params={"l_1": l_1, "l_2": l_2, "l_3": l_3, "l_4": l_4, **more}, crank=crank)[-1]


# ---- kinematics ------------------------------------------------------------------------------------------------------


def meet(a, r, b, s):
    """Point at distance r from a and s from b, right of the line from a to b."""
    d = b - a
    length = np.linalg.norm(d, axis=-1, keepdims=True)
    along = (length**2 + r**2 - s**2) / (2 * length)
    unit = d / length
    normal = np.stack([unit[..., 1], -unit[..., 0]], axis=-1)
    return a + along * unit + np.sqrt(r**2 - along**2) * normal


def bolt_by_hand(crank, p):
    """Foot of BOLT by intersections of circles (Liu and Ben-Tzvi 2020, fig. 8)."""
    D = p["l_1"] * np.stack([np.cos(crank), np.sin(crank)], axis=-1)
    A = np.broadcast_to(p["l_c"] * np.array([math.cos(p["theta"]), math.sin(p["theta"])]), D.shape)
    B = meet(D, p["l_2"], A, p["l_f"])
    C, E = D + (B - D) * p["l_s"] / p["l_2"], A + (B - A) * p["l_4"] / p["l_f"]
    G = meet(C, p["l_3"], E, p["l_t"])
    return E + (G - E) * p["l_5"] / p["l_t"]


def test_path_is_that_of_circles_for_many_designs(bolt):
    turn = Turn(bolt, "q1", 90)
    generator = np.random.default_rng(0)
    designs = {n: bolt.params[n] * generator.uniform(0.96, 1.04, 50) for n in LENGTHS}
    walked = turn.walk(turn.params(designs), turn.mapped("foot", bolt.mechanism.position("foot")))
    good = 0
    for i in range(50):
        with np.errstate(invalid="ignore"):
            expected = bolt_by_hand(turn.values, {n: v[i] for n, v in designs.items()})
        assert walked.assembles[i] == np.isfinite(expected).all()
        if walked.assembles[i]:
            good += 1
            assert np.abs(walked.values[i].reshape(90, 2) - expected).max() < 1e-11
    assert good > 25


def test_threads_change_nothing(bolt):
    turn = Turn(bolt, "q1", 60)
    p = turn.start.p * np.random.default_rng(1).uniform(0.9, 1.1, (64, len(turn.start.p)))
    one, two = (turn.walk(p, threads=n) for n in (1, 3))
    assert (one.q == two.q).all()
    assert (one.gap == two.gap).all()


def test_velocity_and_acceleration_are_derivatives_of_the_path(bolt):
    study = kinematic_study(bolt, "q1", "foot", speed=3.0)
    h = 1e-4

    def foot(crank):
        return bolt_by_hand(crank, bolt.params)

    first = (foot(study.driver + h) - foot(study.driver - h)) / (2 * h)
    second = (foot(study.driver + h) - 2 * foot(study.driver) + foot(study.driver - h)) / h**2
    assert np.abs(study.velocity - 3 * first).max() < 1e-7
    assert np.abs(study.acceleration - 9 * second).max() < 1e-5
    assert study.advantage == pytest.approx(1 / np.linalg.norm(first, axis=1), rel=1e-5)


def test_path_derivatives_by_params_against_differences(study, bolt):
    slopes = study.derivatives()
    for name in LENGTHS:
        h = 1e-6
        up, down = (bolt_by_hand(study.driver, {**bolt.params, name: bolt.params[name] + s * h}) for s in (1, -1))
        assert np.abs(slopes[name] - (up - down) / (2 * h)).max() < 2e-8
    assert not slopes["torque_limit"].any()


def test_quantities_and_their_derivatives_against_differences(study, bolt):
    fine = np.linspace(0, 2 * np.pi, 200001)

    def by_hand(params):
        path = bolt_by_hand(fine, params)
        x, y = path.T
        hip = params["l_c"] * np.array([math.cos(params["theta"]), math.sin(params["theta"])])
        down = bolt_by_hand(np.array([TOUCHDOWN]), params)[0] - hip
        area = abs(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])) / 2
        return np.array([np.ptp(x), np.ptp(y), area, math.atan2(down[0], -down[1])])

    names = ("stride_length", "stride_height", "swept_area", "angle_of_attack")
    assert [study[n].value for n in names] == pytest.approx(by_hand(bolt.params).tolist(), abs=2e-10)
    for name in LENGTHS:
        h = 1e-5
        slope = (
            by_hand({**bolt.params, name: bolt.params[name] + h})
            - by_hand({**bolt.params, name: bolt.params[name] - h})
        ) / (2 * h)
        assert [study[n].by_param[name] for n in names] == pytest.approx(slope.tolist(), abs=2e-5)


def test_bolt_has_four_branches_that_turn(study):
    """Foot box of the BOLT branch, from the published lengths: x -0.0711 to 0.1613, y -0.4237 to -0.3619 m."""
    all_of_them = study.branches()
    assert len(all_of_them) == 4
    assert all(b.travel.full_turn for b in all_of_them)
    assert study.path.min(axis=0) == pytest.approx([-0.0711, -0.4237], abs=1e-4)
    assert study.path.max(axis=0) == pytest.approx([0.1613, -0.3619], abs=1e-4)


def test_transmission_angle_by_the_law_of_cosines():
    state = four_bar()
    study = kinematic_study(state, "crank", "tracer")
    p = state.params
    d2 = p["l_1"] ** 2 + p["l_4"] ** 2 - 2 * p["l_1"] * p["l_4"] * np.cos(study.driver)
    angle = np.arccos((p["l_2"] ** 2 + p["l_3"] ** 2 - d2) / (2 * p["l_2"] * p["l_3"]))
    angle = np.minimum(angle, np.pi - angle)
    assert study.transmission[:, 0] == pytest.approx(angle, abs=1e-9)
    assert study["least_transmission"].value == pytest.approx(angle.min(), abs=1e-9)
    assert study["least_transmission"].at % (2 * math.pi) == pytest.approx(0.0, abs=1e-6)


def test_transmission_angle_of_a_slider_crank():
    """Textbook: 90 degrees less the rod's slope, sin(slope) = (r sin(crank) - e) / l."""
    m = sl.zoo.slider_crank()
    study = kinematic_study(m.keyframe("extended", params={"e": 0.01}), "crank", "wrist")
    slope = np.arcsin((0.04 * np.sin(study.driver) - 0.01) / 0.12)
    assert study.transmission.min(axis=1) == pytest.approx(np.pi / 2 - np.abs(slope), abs=1e-7)
    turn = study.turn
    found = optimise(turn, {"r": (0.02, 0.10)}, lambda c: -c.p.r, transmission=math.radians(40))
    assert found.params["r"] == pytest.approx(0.12 * math.cos(math.radians(40)) - 0.01, abs=1e-7)


def test_area_of_a_circle():
    found = kinematic_study(four_bar(), "crank", "crank_pin")["swept_area"]
    assert found.value == pytest.approx(math.pi * 0.04**2, rel=1e-12)
    assert found.by_param["l_1"] == pytest.approx(2 * math.pi * 0.04, rel=1e-12)


@pytest.mark.parametrize(
    ("lengths", "turns"),
    [((0.04, 0.10, 0.10, 0.08), True), ((0.09, 0.10, 0.10, 0.08), True), ((0.13, 0.10, 0.10, 0.08), False)],
    ids=["crank-rocker", "double crank", "triple rocker"],
)
def test_grashof(lengths, turns):
    """Grashof: the input turns fully if shortest + longest < the others and input or ground is shortest."""
    state = four_bar(*lengths, crank=1.0)
    study = kinematic_study(state, "crank", "tracer")
    assert study.travel.full_turn is turns
    if not turns:  # dead centres where coupler and rocker are in line: |diagonal| = l_2 + l_3
        l_1, l_2, l_3, l_4 = lengths
        limit = math.acos((l_1**2 + l_4**2 - (l_2 + l_3) ** 2) / (2 * l_1 * l_4))
        assert study.dead_centres == pytest.approx([-limit, limit], abs=1e-7)
        assert study.transmission.min() < 0.02


def test_hoeken_draws_a_straight_line():
    """Hoeken's linkage, 1 : 2 : 2.5 : 2.5: nearly straight at y = 4 l_1 over half the turn."""
    study = kinematic_study(sl.zoo.four_bar().keyframe("middle"), "crank", "tracer", samples=720)
    half = np.cos(study.driver) < -0.05
    x, y = study.path[half].T
    assert np.ptp(x) > 3.5 * 0.04
    assert np.abs(y - 0.16).max() < 0.01 * np.ptp(x)


def test_chebyshev_draws_a_straight_line():
    """Chebyshev's linkage, ground 4, cranks 5, coupler 2: its middle is at height 4 exactly at x = 0, 2 and 4."""
    m = sl.zoo.four_bar()
    lengths = {"l_1": 5.0, "l_2": 2.0, "l_3": 5.0, "l_4": 4.0, "p_x": 1.0}
    begin = math.atan2(4, 3)
    centre = min(m.branches(params=lengths, crank=begin), key=lambda s: abs(s.position("tracer")[1] - 4))
    assert centre.position("tracer") == pytest.approx([2, 4])
    turn = Turn(centre, "crank", 181, between=(begin, math.pi / 2))
    path = turn.walk(turn.params(), turn.mapped("tracer", m.position("tracer"))).values[0].reshape(-1, 2)
    assert path[-1] == pytest.approx([0, 4], abs=1e-9)
    assert np.abs(path[:, 1] - 4).max() < 0.01 * 4


def test_toggles_are_where_the_rocker_turns_back():
    """A crank-rocker's rocker turns back where crank and coupler are in line (law of cosines)."""
    study = kinematic_study(four_bar(), "crank", "tracer", samples=720)
    l_1, l_2, l_3, l_4 = 0.04, 0.10, 0.10, 0.08
    folded = math.acos(((l_2 - l_1) ** 2 + l_4**2 - l_3**2) / (2 * (l_2 - l_1) * l_4)) + math.pi
    stretched = math.acos(((l_2 + l_1) ** 2 + l_4**2 - l_3**2) / (2 * (l_2 + l_1) * l_4))
    found = sorted(t % (2 * math.pi) for t in study.toggles["rocker"])
    ways = [sorted((a % (2 * math.pi), b % (2 * math.pi))) for a, b in ((folded, stretched), (-folded, -stretched))]
    assert any(found == pytest.approx(way, abs=1e-4) for way in ways)


def test_gap_of_a_linkage_that_cannot_close():
    """Crank 0.1 and ground 0.08 against coupler and rocker of 0.03 each: at 180 degrees 0.12 m are missing."""
    turn = Turn(four_bar(), "crank", 36)
    walked = turn.walk(turn.params({"l_1": 0.10, "l_2": 0.03, "l_3": 0.03}))
    assert walked.gap[0] == pytest.approx(0.12, abs=1e-6)
    assert not walked.assembles[0]


# ---- forces ----------------------------------------------------------------------------------------------------------


def readings(turn, function, params=None):
    Q, p = turn.symbols
    import casadi as ca

    reading = ca.Function("r", [Q, p], [ca.vec(function(sl.design.Cycle(turn, Q, p)))])
    return turn.walk(turn.params(params), reading, keep=True)


def test_torque_is_the_slope_of_the_energy():
    """At a steady speed the driver's power is the rate of kinetic and potential energy."""
    state = four_bar()
    turn, speed = Turn(state, "crank", 2000), 7.0
    walked = readings(turn, lambda c: c.torque(speed))
    e = sl.Equations(state.mechanism)
    import casadi as ca

    energy = ca.Function("E", [e.q, e.v, e.p], [e.kinetic_energy + e.potential_energy])
    rates = np.asarray(
        ca.Function("r", [turn.q, turn.p], [turn.rate]).map(2000)(walked.q[0].T, ca.repmat(ca.DM(state.p), 1, 2000))
    )
    total = np.asarray(energy.map(2000)(walked.q[0].T, speed * rates, ca.repmat(ca.DM(state.p), 1, 2000))).ravel()
    slope = (np.roll(total, -1) - np.roll(total, 1)) / (2 * 2 * np.pi / 2000)
    assert np.abs(walked.values[0] - slope).max() < 1e-4 * np.abs(slope).max()


def test_reaction_of_a_rocker_that_hangs_on_its_coupler():
    """With a weightless coupler the pin pulls along it: force x lever = m g l_3 / 2 cos(rocker)."""
    m = sl.zoo.four_bar()
    state = m.branches(params={"m_1": 1e-9, "m_2": 1e-9, "m_3": 0.2}, crank=math.pi)[-1]
    turn = Turn(state, "crank", 36)
    walked = readings(turn, lambda c: c.reactions(0.0))
    crank, coupler, rocker = walked.q[0].T
    lever = 0.10 * np.abs(np.sin(crank + coupler - rocker))
    moment = np.abs(0.2 * 9.81 * 0.05 * np.cos(rocker))
    assert walked.values[0] == pytest.approx(moment / lever, rel=1e-6, abs=2e-8)  # the coupler's own weight is 1e-8 N


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_lookup_table_keeps_its_stated_error(study, bolt, tmp_path):
    table = lookup_table(study, 90)
    crank = np.random.default_rng(0).uniform(-10, 10, 500)
    error = np.abs(table(crank)[:, :2] - bolt_by_hand(crank, bolt.params)).max(axis=0)
    assert (error <= 1.01 * table.errors[:2]).all()
    assert (error > 0.2 * table.errors[:2]).all()  # the statement is not a loose one
    assert table.columns == ("foot.x", "foot.y", "q2", "q3", "q4", "q5")
    rows = np.loadtxt(table.csv(tmp_path / "t.csv"), delimiter=",", skiprows=1)
    assert (rows == np.column_stack([table.at, table.values])).all()
    finer = lookup_table(study, 180)
    assert (table.errors / finer.errors)[:2] == pytest.approx([16, 16], rel=0.15)  # cubic Hermite: fourth order


def test_header_compiles_and_interpolates_alike(study, tmp_path):
    table = lookup_table(study, 60)
    table.header(tmp_path / "foot.h", "foot")
    (tmp_path / "foot.c").write_text('#include "foot.h"\nvoid at(double x, double *out) { foot(x, out); }\n')
    library = tmp_path / "foot.so"
    subprocess.run(
        [
            "cc",
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            str(library),
            str(tmp_path / "foot.c"),
            "-lm",
        ],
        check=True,
    )
    at = ctypes.CDLL(str(library)).at
    out = (ctypes.c_double * 6)()
    for crank in (-7.0, 0.0, 1.234, 6.28, 100.0):
        at(ctypes.c_double(crank), out)
        assert list(out) == pytest.approx(table(crank).tolist(), abs=1e-12)
    assert "error at most" in (tmp_path / "foot.h").read_text()


# ---- sensitivity -----------------------------------------------------------------------------------------------------


def test_the_two_findings_of_the_paper(study):
    """Liu and Ben-Tzvi 2020, sec. 3.2: stride length is proportional to the crank radius, the angle of attack falls
    with the distance of hip and crank."""
    effects = sensitivity(study)
    assert effects.of("stride_length", "l_1") == pytest.approx(1.0, abs=0.01)
    assert effects.ranking("stride_length")[0][0] == "l_1"
    assert effects.of("angle_of_attack", "l_c") < -1
    assert set(effects.idle) == {"torque_limit", "power_limit"}
    assert "no effect on any of these: torque_limit, power_limit" in effects.table()
    with pytest.raises(UnknownName, match="l_1"):
        effects.of("stride_length", "l_9")


def test_scale_of_a_linkage_scales_its_path():
    """Euler: the lengths' normalised effects on a length sum to one, on an area to two, on an angle to zero."""
    study = kinematic_study(four_bar(p_y=0.02), "crank", "tracer")
    effects = sensitivity(study, ["l_1", "l_2", "l_3", "l_4", "p_x", "p_y"])
    sums = dict(zip(effects.quantities, effects.normalised.sum(axis=1), strict=True))
    assert sums["stride_length"] == pytest.approx(1, abs=1e-9)
    assert sums["swept_area"] == pytest.approx(2, abs=1e-9)
    assert sums["least_transmission"] == pytest.approx(0, abs=1e-9)


# ---- optimisation ----------------------------------------------------------------------------------------------------

BOUNDS = {
    "l_c": (0.075, 0.12),
    "l_f": (0.073, 0.098),
    "l_s": (0.039, 0.056),
    "l_t": (0.044, 0.067),  # Table 1
    "l_1": (0.015, 0.045),
    "l_2": (0.08, 0.20),
    "l_3": (0.12, 0.26),
    "l_4": (0.16, 0.26),
    "l_5": (0.24, 0.33),
    "theta": (math.radians(20), math.radians(75)),
}


def leg(c):
    return c.p.l_4 + c.p.l_5


@pytest.fixture(scope="module")
def problem(bolt):
    from saltus.studies.bolt_design import desired

    turn = Turn(bolt, "q1", 72)
    aim = 0.05 * sl.design.AngleOfAttack("foot", "hip", TOUCHDOWN) + sl.design.PathError("foot", desired(turn.values))
    return Problem(turn, BOUNDS, {"objective": aim}, {"leg length": (leg, 0.45, 0.50)})


def test_objective_of_the_published_lengths_by_hand(problem, bolt):
    """Liu and Ben-Tzvi 2020, eq. 4, with Table 2's lengths."""
    from saltus.studies.bolt_design import desired

    values, missed = problem.evaluate(np.array([[bolt.params[n] for n in BOUNDS]]))
    path = bolt_by_hand(problem.turn.values, bolt.params)
    hip = bolt.params["l_c"] * np.array([math.cos(bolt.params["theta"]), math.sin(bolt.params["theta"])])
    down = bolt_by_hand(np.array([TOUCHDOWN]), bolt.params)[0] - hip
    by_hand = 0.05 * abs(math.atan2(down[0], -down[1])) + ((path - desired(problem.turn.values)) ** 2).sum()
    assert values[0, 0] == pytest.approx(by_hand, rel=1e-10)
    assert missed[0].tolist() == pytest.approx([0, 0, 0.013])  # l_4 + l_5 = 0.513 m breaks Table 1


def test_bolt_lengths_from_random_starts(problem, bolt):
    generator = np.random.default_rng(3)
    starts = [generator.uniform(problem.low, problem.high) for _ in range(10)]
    assert not problem.turn.walk(problem.full(np.array(starts))).assembles.all()  # some starts do not even assemble
    found = problem.best(starts, "test")
    published = problem.evaluate(np.array([[bolt.params[n] for n in BOUNDS]]))[0][0, 0]
    assert sum(v <= published for v in found.runs) >= 8
    assert found.feasible
    for name, (low, high) in BOUNDS.items():
        assert low <= found.params[name] <= high
    assert 0.45 - 1e-9 <= found.params["l_4"] + found.params["l_5"] <= 0.50 + 1e-9
    assert found.state.gap < 1e-10


def test_published_lengths_come_back_from_their_own_path(bolt):
    turn = Turn(bolt, "q1", 72)
    aim = sl.design.PathError("foot", bolt_by_hand(turn.values, bolt.params))
    found = optimise(turn, BOUNDS, aim, {"leg length": (leg, 0.45, 0.52)}, starts=4, seed=1)
    assert found.value < 1e-14
    assert [found.params[n] for n in LENGTHS] == pytest.approx([bolt.params[n] for n in LENGTHS], rel=1e-4)


def small(samples=24):
    """A four-bar whose tracer shall follow the path of another one."""
    turn = Turn(four_bar(), "crank", samples)
    wanted = turn.walk(
        turn.params({"l_1": 0.036, "p_x": 0.17, "p_y": 0.02}), turn.mapped("t", turn.mechanism.position("tracer"))
    )
    return turn, wanted.values[0].reshape(-1, 2), {"l_1": (0.02, 0.045), "p_x": (0.1, 0.25), "p_y": (-0.05, 0.05)}


def test_global_search_finds_the_same():
    turn, path, vary = small()
    found = optimise(
        turn, vary, sl.design.PathError("tracer", path), method="global", generations=15, population=6, seed=2
    )
    assert found.value < 1e-12
    assert [found.params[n] for n in vary] == pytest.approx([0.036, 0.17, 0.02], abs=1e-6)
    again = optimise(
        turn, vary, sl.design.PathError("tracer", path), method="global", generations=15, population=6, seed=2
    )
    assert again.params == found.params


def test_path_without_timing_ignores_where_the_crank_is():
    turn, path, vary = small(60)
    rolled = np.roll(path[::5], 4, axis=0)
    timed = Problem(turn, vary, {"e": sl.design.PathError("tracer", rolled, samples=range(0, 60, 5))})
    free = Problem(turn, vary, {"e": sl.design.PathError("tracer", rolled, timing=False)})
    right = np.array([[0.036, 0.17, 0.02]])
    assert timed.evaluate(right)[0][0, 0] > 1e-3
    assert free.evaluate(right)[0][0, 0] < 1e-12
    found = optimise(turn, vary, sl.design.PathError("tracer", rolled, timing=False), starts=3)
    assert found.value < 1e-7


def test_minimum_transmission_angle_is_kept():
    """The least transmission angle of this four-bar follows from l_4 - l_1 (law of cosines); mass wants l_1 long."""
    turn = Turn(four_bar(l_1=0.03), "crank", 72)
    angle = math.radians(20)
    found = optimise(turn, {"l_1": (0.02, 0.07)}, lambda c: -c.p.l_1, transmission=angle)
    exact = 0.08 - math.sqrt(0.1**2 + 0.1**2 - 2 * 0.1 * 0.1 * math.cos(angle))
    assert found.params["l_1"] == pytest.approx(exact, abs=1e-7)


def test_clearance_as_a_constraint():
    """The tracer's least distance from the crank's pivot is bounded from below."""
    turn = Turn(four_bar(), "crank", 60)
    m = turn.mechanism
    m.point("pivot", m.ground.at(0, 0)) if "pivot" not in m.points else None
    near = {"clearance": (lambda c: c.distance("tracer", "pivot"), 0.12, math.inf)}
    found = optimise(turn, {"p_x": (0.10, 0.25)}, lambda c: c.p.p_x, near)
    path = turn.walk(turn.params(found.params), turn.mapped("t", m.position("tracer"))).values[0].reshape(-1, 2)
    assert np.linalg.norm(path, axis=1).min() == pytest.approx(0.12, abs=1e-7)


def test_pareto_front_of_two_aims():
    """Mass m = m_2 scaled by p_x against stride: aims x^2 and (x - 1)^2 of one Param have the front x in [0, 1]."""
    turn = Turn(four_bar(), "crank", 24)
    front = pareto(turn, {"p_x": (-1.0, 2.0)}, {"a": lambda c: c.p.p_x**2, "b": lambda c: (c.p.p_x - 1) ** 2}, points=7)
    assert len(front.values) >= 6
    assert np.sqrt(front.values).sum(axis=1) == pytest.approx(1.0, abs=1e-2)
    assert (np.diff(front.values[:, 0]) > 0).all()
    assert (np.diff(front.values[:, 1]) < 0).all()


def test_ready_parts_by_hand():
    turn = Turn(four_bar(), "crank", 180)
    parts = {
        "mass": sl.design.Mass(),
        "stride": sl.design.StrideLength("crank_pin"),
        "ripple": sl.design.TorqueRipple(10.0),
        "peak": sl.design.PeakReaction(10.0),
    }
    values = Problem(turn, {"l_1": (0.02, 0.05)}, parts).evaluate(np.array([[0.04]]))[0][0]
    torque = readings(turn, lambda c: c.torque(10.0)).values[0]
    assert values[0] == pytest.approx(0.25)
    assert values[1] == pytest.approx(0.08)
    assert values[2] == pytest.approx(torque.std(), rel=1e-9)
    assert values[3] == pytest.approx(readings(turn, lambda c: c.reactions(10.0)).values[0].max())
    found = optimise(turn, {"l_1": (0.02, 0.05)}, sl.design.PeakReaction(10.0))
    assert found.value <= values[3]


def test_target_paths_from_points_and_files(tmp_path):
    turn = Turn(four_bar(), "crank", 48)
    angles = turn.values[::4]
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    smooth = sl.design.target_path(turn, circle)
    assert np.abs(smooth - np.column_stack([np.cos(turn.values), np.sin(turn.values)])).max() < 5e-4  # 12-point spline
    np.savetxt(tmp_path / "p.csv", np.column_stack([angles, circle]), delimiter=",", header="crank,x,y", comments="")
    assert sl.design.target_path(turn, str(tmp_path / "p.csv")) == pytest.approx(smooth, abs=1e-12)
    (tmp_path / "bad.csv").write_text("x,y\n1,2\nfoo,3\n")
    with pytest.raises(BadValue, match=r"bad\.csv"):
        sl.design.target_path(turn, str(tmp_path / "bad.csv"))


# ---- said plainly ----------------------------------------------------------------------------------------------------


def test_contradictions_are_said_plainly(bolt):
    turn, path, vary = small()
    aim = sl.design.PathError("tracer", path)
    with pytest.raises(BadValue, match=r"'l_1' are 0\.04 to 0\.02"):
        optimise(turn, {"l_1": (0.04, 0.02)}, aim)
    with pytest.raises(UnknownName, match="p_x"):
        optimise(turn, {"p_z": (0.04, 0.05)}, aim)
    with pytest.raises(BadValue, match="'m_3' change neither"):
        optimise(turn, {**vary, "m_3": (0.1, 0.2)}, aim)
    with pytest.raises(NoDesign, match="'sum' misses") as caught:
        optimise(turn, vary, aim, {"sum": (lambda c: c.p.l_1 + c.p.p_x, 1.0, 2.0)})
    assert caught.value.missed["sum"] == pytest.approx(1.0 - 0.045 - 0.25, abs=1e-3)
    with pytest.raises(NoDesign, match="do not close all the way round"):
        optimise(turn, {"l_1": (0.13, 0.15)}, lambda c: c.p.l_1)
    with pytest.raises(BadValue, match="24 samples"):
        optimise(turn, vary, sl.design.PathError("tracer", path[:5]))
    with pytest.raises(BadValue, match="one number"):
        optimise(turn, vary, lambda c: c.position("tracer"))
    with pytest.raises(BadValue, match="no sample"):
        turn.index_of(0.01)
    m = sl.Mechanism("pendulum")
    m.revolute("a", m.ground, m.rod("r", mass=1.0, length=1.0).start)
    hanging = m.assemble(a=0.0)
    with pytest.raises(BadModel, match="no loop"):
        Turn(hanging, "a")


def test_start_at_a_dead_centre_is_refused():
    """A 3-4-5 triangle: crank up, coupler and rocker together as long as the diagonal."""
    m = sl.zoo.four_bar()
    near = {"coupler": -math.atan2(3, 4) - math.pi / 2, "rocker": math.pi - math.atan2(3, 4)}
    state = m.assemble(crank=math.pi / 2, near=near, params={"l_1": 0.03, "l_2": 0.02, "l_3": 0.03, "l_4": 0.04})
    with pytest.raises(Singular, match="dead centre"):
        Turn(state, "crank")


def test_target_out_of_reach_is_said_plainly():
    turn, path, vary = small()
    found = optimise(turn, vary, sl.design.PathError("tracer", path + np.array([1.0, 0.0])))
    text = "\n".join(found.notes)
    assert "out of reach of 'tracer'" in text
    assert "no design within the bounds comes nearer" in text


# ---- gaits -----------------------------------------------------------------------------------------------------------


def test_gait_of_bolt_by_other_ways():
    """Speed and stride time of the published gait; weight, work and impact loss against the run's own account."""
    task = sl.design.GaitTask(sl.zoo.bolt, strides=6)
    run = task.run()
    gait = task.gait({})
    cut = sl.strides(run)
    assert gait.completed == 6
    assert gait.speed == cut.mean_speed
    begin = cut.starts[3]
    inside = run.t >= begin
    power = run.arrays["torques"][inside][:, 0] * run.v["q1"][inside]
    t = run.t[inside]
    positive = np.sum(np.maximum((power[1:] + power[:-1]) / 2, 0) * np.diff(t))
    distance = cut.lengths[3:].sum()
    assert gait.cost_of_transport == pytest.approx(positive / (7.3918 * 9.81 * distance), rel=0.02)
    lost = np.mean([e.impact.lost for e in run.events if e.impact is not None][3:6])
    assert gait.impact_loss == pytest.approx(lost, rel=1e-6)
    assert task.gait({"l_1": 0.2}).completed == 0
    with pytest.raises(UnknownName, match="l_1"):
        task.gait({"l_9": 0.2})


def test_gaits_of_copies_are_those_of_exact_runs():
    """Touches are located alike; work and time in contact are sums over milliseconds, at both ends of a jump."""
    task = sl.design.GaitTask(sl.zoo.biped, strides=4)
    points = {"speed": np.array([0.55, 0.65, 0.6, 0.6]), "l_shank": np.array([0.34, 0.35, 0.36, 0.05])}
    many, each = task(points), replace(task, exact=True)(points)
    made = [4, 4, 0, 0]  # the third starts in the ground, the fourth does not assemble
    assert many["completed"].tolist() == each["completed"].tolist() == made
    near = {"speed": 1e-5, "stride_time": 1e-5, "impact_loss": 1e-3, "duty_factor": 1e-2, "cost_of_transport": 1e-2}
    for name, within in near.items():
        assert many[name] == pytest.approx(each[name], rel=within, nan_ok=True)
    assert np.isnan(many["normal_min"]).all()
    with pytest.raises(UnknownName, match="l_shank"):
        task({"l_shin": np.array([0.35])})
    with pytest.raises(BadValue, match="has no foot"):
        sl.design.GaitTask(stopped_pendulum)({"length": np.array([1.0])})


def stopped_pendulum():
    m = sl.Mechanism("pendulum")
    m.revolute("hip", m.ground.origin, m.rod("rod", mass=1.0, length=m.param("length", 1.0)).start)
    m.stop("hip", lower=-2.0)
    m.keyframes["out"] = {"hip": 0.0}
    return m


def test_a_gait_designed_on_batches_ran_exactly():
    """What the batch says is confirmed: the design found has the numbers of a run of its own, impact loss too."""
    task = sl.design.GaitTask(sl.zoo.runner, strides=4)
    found = sl.design.design_gait(
        task,
        {"pace": (-28.0, -20.0)},
        lambda g: g.cost_of_transport,
        {"speed": (lambda g: g.speed, 1.0, 2.0)},
        generations=1,
        population=6,
    )
    assert found.gait == task.gait(found.params)
    assert found.gait.speed > 1.0
    assert found.gait.impact_loss > 0


@pytest.mark.slow
def test_gait_design_lowers_the_cost():
    task = sl.design.GaitTask(sl.zoo.bolt, strides=6, stability=True)
    before = task.gait({})
    found = sl.design.design_gait(
        task,
        {"l_1": (0.018, 0.022), "l_5": (0.29, 0.31)},
        lambda g: g.cost_of_transport,
        {"speed": (lambda g: g.speed, 1.2, 9.0), "stable": (lambda g: g.multiplier, 0.0, 0.9)},
        generations=3,
        population=4,
        seed=0,
    )
    assert found.value < before.cost_of_transport
    assert found.gait.multiplier < 0.9
    with pytest.raises(NoDesign, match="speed"):
        sl.design.design_gait(
            task,
            {"l_1": (0.0199, 0.0201)},
            lambda g: g.impact_loss,
            {"speed": (lambda g: g.speed, 5.0, 9.0)},
            generations=1,
            population=5,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bolt-design", "four-bar-path"])
def test_studies_agree(name, tmp_path):
    from saltus import studies

    result = studies.run(name)
    assert result.agrees
    assert result.data["feasible"]
    assert result.write(tmp_path)
    if name == "bolt-design":
        fields = {
            "objective_heuristic",
            "objective_published",
            "objective_found",
            "lengths",
            "feasible",
            "evaluations",
            "seconds",
        }
        assert fields <= set(result.data)
        assert result.data["objective_found"] < result.data["objective_published"]


def test_a_turn_without_a_compiler_is_the_same(monkeypatch):
    m = sl.zoo.bolt_linkage(base="fixed")
    turn = Turn(m.keyframe("crank level"), "q1", 60)
    rows = turn.params({"l_1": [0.020, 0.024, 0.2]})  # the last crank is too long to go round
    compiled = turn.walk(rows)
    monkeypatch.setenv("SALTUS_CC", "none")
    plain = Turn(m.keyframe("crank level"), "q1", 60).walk(rows)
    np.testing.assert_array_equal(plain.assembles, compiled.assembles)
    assert list(plain.assembles) == [True, True, False]
    np.testing.assert_allclose(plain.q[:2], compiled.q[:2], atol=1e-9)
    assert plain.gap[2] > 0
