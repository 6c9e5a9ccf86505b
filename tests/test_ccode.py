"""C export: compiles without a warning, agrees with Python, and its stepper converges to `simulate` at order four."""

import ctypes
import importlib.util
import shutil
import subprocess

import numpy as np
import pytest

import saltus as sl
from saltus.compile.statements import identifier
from saltus.errors import BadModel, BadValue
from saltus.files.code.c_library import vectors
from saltus.files.code.routines import Exported
from saltus.files.code.touching import Touching

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def control_of(thing):
    return next(iter(thing.controls.values()), None) if isinstance(thing, sl.HybridSystem) else None


def built(directory, name, *more, flags=STRICT):
    subprocess.run(
        ["cc", *flags, "-shared", "-fPIC", "-o", "lib.so", f"{name}.c", *more, "-lm"], cwd=directory, check=True
    )
    return ctypes.CDLL(str(directory / "lib.so"))


class Stepper:
    """The compiled stepper from Python."""

    def __init__(self, thing, directory, start, single=False, **options):
        sl.export(thing, directory, start=start, **options)
        self.exported = e = Exported(thing, start, **options)
        self.library = built(directory, e.name, *([f"-D{e.name.upper()}_FLOAT"] if single else []))
        sizes = [max(1, *(getattr(d, a) for d in e.domains)) for a in ("n_x", "n_p", "n_guards")]
        real = self.real = ctypes.c_float if single else ctypes.c_double
        fields = [("t", ctypes.c_double), ("tolerance", ctypes.c_double)]
        fields += [("domain", ctypes.c_int), ("ended", ctypes.c_int), ("last_event", ctypes.c_int)]
        fields += [
            ("x", real * sizes[0]),
            ("p", real * sizes[1]),
            ("armed", ctypes.c_ubyte * sizes[2]),
            ("watched", ctypes.c_ubyte * sizes[2]),
            ("entered", ctypes.c_int),
            ("stays", ctypes.c_int * len(e.domains)),
        ]
        self.kind = type("State", (ctypes.Structure,), {"_fields_": fields})
        self.start = start

    def begun(self, domain, tolerance=0.0):
        s, name = self.kind(), self.exported.name
        numbers = [
            (self.real * max(1, len(x)))(*x)
            for x in (self.start.positions, self.start.velocities, self.exported.params)
        ]
        getattr(self.library, f"{name}_start")(
            ctypes.byref(s), self.exported.index(domain), ctypes.c_double(0.0), *numbers
        )
        s.tolerance = tolerance or s.tolerance
        return s

    def run(self, domain, until, steps, u=(), tolerance=0.0):
        s, name, nq = self.begun(domain, tolerance), self.exported.name, len(self.exported.mechanism.q_names)
        step, inputs = getattr(self.library, f"{name}_step"), (self.real * max(1, len(u)))(*u)
        events = 0
        for _ in range(steps):
            found = step(ctypes.byref(s), ctypes.c_double(until / steps), inputs)
            assert found >= 0
            events += found
        return np.array(s.x[:nq]), events, s


@needs_compiler
@pytest.mark.parametrize("name", ["bolt", "hopper", "compass", "slider_crank"])
def test_self_test_passes(name, tmp_path):
    thing = getattr(sl.zoo, name)()
    files = sl.export(
        thing, tmp_path, control=control_of(thing), tables={"gait": ([0.0, 1.0, 3.0], [[1, 2], [2, 4], [0, 0]])}
    )
    assert {f.name for f in files} >= {"Makefile", "CMakeLists.txt", "selftest.c", "example.c", "loop_1khz.c"}
    done = subprocess.run(
        ["make", "test", "example", "loop_1khz", "CFLAGS=-O1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "all functions agree" in done.stdout
    assert subprocess.run(["./example"], cwd=tmp_path, capture_output=True).returncode == 0
    assert b"us" in subprocess.run(["./loop_1khz", "20"], cwd=tmp_path, capture_output=True, check=True).stdout


@needs_compiler
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind")
def test_valgrind_has_no_complaint(tmp_path):
    sl.export(sl.zoo.hopper(), tmp_path)
    subprocess.run(["make", "all", "CFLAGS=-O0 -g"], cwd=tmp_path, check=True, capture_output=True)
    for program in ("./selftest", "./example"):
        done = subprocess.run(
            ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


@needs_compiler
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_builds_and_tests(tmp_path):
    sl.export(sl.zoo.four_bar(), tmp_path)
    for command in (["cmake", "-S", ".", "-B", "build"], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run(["./build/selftest"], cwd=tmp_path).returncode == 0


def test_library_allocates_nothing(tmp_path):
    sl.export(sl.zoo.bolt(), tmp_path)
    text = (tmp_path / "bolt.c").read_text()
    for word in ("malloc", "calloc", "free(", "alloca", "printf"):
        assert word not in text


@needs_compiler
def test_stepper_converges_at_order_four_through_events(tmp_path):
    hopper = sl.zoo.hopper()
    start = hopper.mechanism.keyframe("takeoff")
    run = sl.simulate(hopper, start, domain="flight", until=1.0, tolerance=1e-13)
    assert len(run.events) == 3
    stepper = Stepper(hopper, tmp_path, start)
    errors = []
    for steps in (250, 500, 1000):
        q, events, s = stepper.run("flight", 1.0, steps)
        assert (events, s.domain) == (3, 1)
        errors.append(np.abs(q - run.arrays["q"][-1]).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx([4, 4], abs=0.35)


@needs_compiler
def test_stepper_runs_bolt_with_its_controller(tmp_path):
    bolt = sl.zoo.bolt()
    start, law = bolt.mechanism.keyframe("drop"), bolt.controls["run"]
    run = sl.simulate(bolt, start, domain="flight", until=0.45, control=law, tolerance=1e-11)
    stepper = Stepper(bolt, tmp_path, start, control=law)
    q, events, s = stepper.run("flight", 0.45, 9000)
    assert events == len(run.events) == 3
    assert s.domain == 1
    assert np.abs(q - run.arrays["q"][-1]).max() < 1e-6
    # The motor's limits are kinks, where a whole step is of second order: 6e-7 at 8000 steps. Parts of steps mend that.
    q, events, s = stepper.run("flight", 0.45, 450, tolerance=1e-12)
    assert events == 3
    assert np.abs(q - run.arrays["q"][-1]).max() < 1e-8


@needs_compiler
def test_without_a_motors_limits_the_order_is_four(tmp_path):
    """The same leg with limits out of reach of a smooth law: half the step has a sixteenth of the error."""
    bolt = sl.zoo.bolt()
    start = bolt.mechanism.keyframe("drop")
    start.params.update(torque_limit=1e4, power_limit=1e7)
    law = sl.control.PD("q1", 0.5, 30.0, 0.2)
    run = sl.simulate(bolt, start, domain="flight", until=0.1, control=law, tolerance=1e-13)
    stepper = Stepper(bolt, tmp_path, start, control=law)
    errors = [np.abs(stepper.run("flight", 0.1, n)[0] - run.arrays["q"][-1]).max() for n in (500, 1000, 2000)]
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([4, 4], abs=0.4)


@needs_compiler
def test_the_float_build_agrees_to_its_own_precision(tmp_path):
    bolt = sl.zoo.bolt()
    start, law = bolt.mechanism.keyframe("drop"), bolt.controls["run"]
    run = sl.simulate(bolt, start, domain="flight", until=0.45, control=law, tolerance=1e-11)
    q, events, _ = Stepper(bolt, tmp_path, start, single=True, control=law).run("flight", 0.45, 4500)
    assert events == len(run.events) == 3
    assert np.abs(q - run.arrays["q"][-1]).max() < 1e-4
    flags = ["-DBOLT_FLOAT", "-Wdouble-promotion", "-Werror"]
    subprocess.run(["cc", "-O1", *flags, "selftest.c", "bolt.c", "-lm", "-o", "selftest"], cwd=tmp_path, check=True)
    assert subprocess.run(["./selftest"], cwd=tmp_path).returncode == 0


@needs_compiler
def test_one_line_builds_and_runs_without_make(tmp_path):
    """The line of the README, with a PATH that has a compiler and its tools but no make."""
    sl.export(sl.zoo.hopper(), tmp_path / "out")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("cc", "as", "ld"):
        (tools / tool).symlink_to(shutil.which(tool))
    readme = (tmp_path / "out" / "README.md").read_text()
    line = next(x.strip() for x in readme.splitlines() if x.startswith("    cc "))
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path / "out", env={"PATH": str(tools)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "t = 1.0000 s" in done.stdout


@needs_compiler
def test_names_and_hash(tmp_path):
    """Every part has its name in C; the hash is that of what was exported, and follows it."""
    bolt = sl.zoo.bolt()
    for folder in ("one", "two"):
        sl.export(sl.zoo.bolt(), tmp_path / folder, control=bolt.controls["run"])
    heavier = sl.zoo.bolt()
    start = heavier.mechanism.keyframe("drop")
    start.params["l_5"] = 0.31
    sl.export(heavier, tmp_path / "other", control=heavier.controls["run"], start=start)
    m = bolt.mechanism
    names = {
        "BOLT_P_K_P": list(m.params).index("K_P"),
        "BOLT_Q_BOOM_Y": m.q_names.index("boom.y"),
        "BOLT_V_Q1": m.v_names.index("q1"),
        "BOLT_U_Q1": 0,
        "BOLT_POINT_FOOT": list(m.points).index("foot"),
        "BOLT_D_STANCE": 1,
        "BOLT_E_LIFTOFF": [e.name for e in bolt.edges].index("liftoff"),
    }
    program = (
        '#include <stdio.h>\n#include "bolt.h"\nint main(void) {\n  void *reset = (void *)bolt_reset_touchdown;\n'
        + "".join(f'  printf("%d ", {name});\n' for name in names)
        + '  printf("%s %s", bolt_hash(), reset ? BOLT_HASH : "");\n  return 0;\n}\n'
    )
    found = {}
    for folder in ("one", "two", "other"):
        (tmp_path / folder / "names.c").write_text(program)
        subprocess.run(["cc", "names.c", "bolt.c", "-lm", "-o", "names"], cwd=tmp_path / folder, check=True)
        out = subprocess.run(["./names"], cwd=tmp_path / folder, capture_output=True, text=True).stdout.split()
        assert list(map(int, out[: len(names)])) == list(names.values())
        assert out[-1] == out[-2]
        found[folder] = out[-1]
    assert found["one"] == found["two"] != found["other"]


def efforts(stepper, run, given):
    """What the exported controller says at the states of a run; with its domains, or finding them by its guards."""
    name, real = stepper.exported.name, stepper.real
    control, s = getattr(stepper.library, f"{name}_control"), stepper.begun(run.meta["domains"][0])
    out, domains = [], []
    u = (real * len(run.mechanism.inputs))()
    for t, q, v, phase in zip(run.t, *(run.arrays[n] for n in ("q", "v", "phase")), strict=True):
        domain = stepper.exported.index(run.meta["domains"][phase]) if given else -1
        control(ctypes.byref(s), domain, ctypes.c_double(t), (real * len(q))(*q), (real * len(v))(*v), u)
        out.append(list(u))
        domains.append(s.domain)
    return np.array(out), domains


@needs_compiler
@pytest.mark.parametrize("kind", ["run", "JointPD", "LQR"])
def test_the_controller_takes_what_is_measured(kind, tmp_path):
    """At the states of a run it asks for the efforts that the run's law asked for, also through events."""
    bolt = sl.zoo.bolt()
    start, law = bolt.mechanism.keyframe("drop"), bolt.controls["run"]
    start.params.update(torque_limit=1e4, power_limit=1e7)  # so that the motor gives what is asked for
    run = sl.simulate(bolt, start, domain="flight", until=0.45, control=law, tolerance=1e-11, rate=400)
    if kind != "run":
        own = {"kp": 20.0, "kd": 0.5} if kind == "JointPD" else {"Q": {"v": 0.1}, "R": 1.0}
        law = getattr(sl.control, kind)(run, **own)
        run = sl.simulate(bolt, start, domain="flight", until=0.45, control=law, tolerance=1e-11)
    stepper = Stepper(bolt, tmp_path, start, control=law)
    asked, domains = efforts(stepper, run, given=True)
    assert len(run.events) == 3
    assert np.abs(asked - run.arrays["torques"]).max() < 1e-9
    _, own = efforts(stepper, run, given=False)
    assert np.sum(np.array(own) != domains) <= 3  # at the instant of an event they leave before it, the run after it


def as_simulated(tmp_path, thing, start, law, *, domain=None, until, steps):
    """Compare the end of a run by the exported stepper with that of simulate; return the run."""
    run = sl.simulate(thing, start, domain=domain, until=until, control=law, tolerance=1e-13, rate=100)
    q, events, _ = Stepper(thing, tmp_path, start, control=law).run(domain, until, steps)
    assert run.outcome.ok
    assert events == len(run.events)
    assert np.abs(q - run.arrays["q"][-1]).max() < 1e-12
    return run


@needs_compiler
@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize("kind", ["Track", "JointPD", "LQR"])
def test_feedback_along_a_reference_is_that_of_simulate(kind, turns, tmp_path):
    """The five-bar brought back to a given motion, from off it and with a motor that has turned twice before."""
    m = sl.zoo.five_bar()
    begin = m.keyframe("stand")

    def hold(t, s):
        left = begin.q.left + 0.3 * sl.math.sin(9 * t) ** 2
        return {"left": 8 * (left - s.q.left) - 0.3 * s.v.left, "right": 8 * (begin.q.right - s.q.right)}

    plan = sl.simulate(m, begin, until=0.2, control=hold, rate=200)
    law = {
        "Track": lambda: sl.control.Track(plan, ["left", "right"], kp=900.0, kd=60.0),
        "JointPD": lambda: sl.control.JointPD(plan, kp=20.0, kd=0.5, limit=1.0),
        "LQR": lambda: sl.control.LQR(plan, Q={"left": 400, "right": 400, "v": 0.1}, R=1.0),
    }[kind]()
    off = m.assemble(near=begin, left=begin.q.left + 0.05, right=begin.q.right - 0.03)
    off.positions[m.q_names.index("left")] += turns * 2 * np.pi
    run = as_simulated(tmp_path, m, off, law, until=0.25, steps=4000)
    assert sl.control.following(run, law).holds


def hopping_block():
    """A block of 1 kg that a motor lifts, sliding along smooth ground at its own speed."""
    m = sl.Mechanism("block")
    block = m.link("block", mass=1.0)
    m.slide("x", m.ground, block, axes="x")
    m.slide("y", block, lifted := m.link("lifted", mass=1.0), axes="y", motor=True)
    m.point("foot", lifted.origin)
    system = sl.HybridSystem(m)
    system.domain("ground", contacts=[sl.Sliding("foot")])
    system.domain("air")
    system.edge("ground", "air", guard=sl.Liftoff("foot"), reset=sl.Continuous())
    system.edge("air", "ground", guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    return m, system


@needs_compiler
def test_tables_jump_and_repeat_as_in_simulate(tmp_path):
    """A push that jumps lifts the block at a knot; feedback repeats a stride, counting x from each entry."""
    m, system = hopping_block()
    push = sl.control.Scheduled(lambda t, s, row: {"y": row[0]}, [0.0, 0.05, 0.1], [[0.0], [17.0], [0.0]])
    start = m.assemble(x=0.0, rates={"x": 0.5})
    once = as_simulated(tmp_path / "once", system, start, push, domain="ground", until=0.3, steps=300)
    assert [e.name for e in once.events] == ["liftoff", "touchdown"]
    assert once.events[0].t == pytest.approx(0.05)


@needs_compiler
def test_a_stride_is_repeated_as_in_simulate(tmp_path):
    """A cart that is pushed for 0.1 s and braked for 0.1 s, again and again: its way counts from each entry."""
    m = sl.Mechanism("cart")
    m.slide("x", m.ground, m.link("cart", mass=2.0), axes="x", motor=True)
    system = sl.HybridSystem(m)
    for name in ("push", "brake"):
        system.domain(name)
    for source, target in (("push", "brake"), ("brake", "push")):
        system.edge(source, target, guard=sl.When(lambda s: s.t - s.entry.t - 0.1), name=f"end of {source}")
    stride = sl.simulate(
        system,
        m.assemble(),
        domain="push",
        until=0.25,
        control=lambda t, s: {"x": 40.0 if s.domain == "push" else -35.0 - 10 * t},
        stop_after={"end of brake": 1},
        rate=200,
    )
    law = sl.control.LQR(stride, Q={"x": 1e4, "v.x": 10.0}, R=0.01)
    start = m.assemble(x=3.0, rates={"x": 0.1})
    run = as_simulated(tmp_path, system, start, law, domain="push", until=0.75, steps=7500)
    assert len(run.events) == 7
    assert run.q.x[-1] > 3 * stride.q.x[-1]  # the first stride comes back to where the reference is


@needs_compiler
@pytest.mark.parametrize(
    "formulation",
    [sl.formulations.Projection(), sl.formulations.Baumgarte(), sl.formulations.Minimal()],
    ids=lambda f: type(f).__name__,
)
def test_other_formulations_and_inputs(formulation, tmp_path):
    m = sl.zoo.four_bar()
    start = m.keyframe("middle")
    run = sl.simulate(m, start, until=0.3, control=lambda t, s: {"crank": 0.01}, tolerance=1e-11)
    q, _, s = Stepper(m, tmp_path, start, formulation=formulation).run(None, 0.3, 3000, [0.01])
    assert s.ended == 0
    assert np.abs(q - run.arrays["q"][-1]).max() < 1e-7


@needs_compiler
def test_map_ends_and_names_that_would_break_c(tmp_path):
    m = sl.Mechanism('evil */ #include "x" \\ "name"')
    ball = m.link("ball", mass=1.0)
    m.param("e", 0.8)
    m.slide("y", m.ground, ball, axes="y")
    m.point("ball", ball.origin)
    m.keyframes["up"] = {"y": 1.0}
    system = sl.HybridSystem(m)
    system.domain("while")
    reset = sl.Map(lambda s: {"v.y": -s.p.e * s.v.y})
    system.edge("while", "while", guard=sl.Touchdown("ball"), reset=reset)
    system.ends("late", sl.When(lambda s: s.t - 2.0, "rising"))
    start = m.keyframe("up")
    run = sl.simulate(system, start, until=1.5)
    stepper = Stepper(system, tmp_path, start)
    q, events, s = stepper.run("while", 1.5, 300)
    assert events == len(run.events) == 2
    assert q[0] == pytest.approx(run.q.y[-1], abs=1e-9)
    *_, s = stepper.run("while", 3.0, 300)
    assert s.ended == 2
    assert s.t == pytest.approx(2.0, abs=1e-9)


@needs_compiler
def test_lookup_table(tmp_path):
    x, y = np.linspace(0, 2, 9), np.random.default_rng(0).normal(size=(9, 2))
    sl.export(sl.zoo.four_bar(), tmp_path, tables={"gait table": (x, y)})
    look = built(tmp_path, "four_bar").four_bar_table_gait_table
    out = (ctypes.c_double * 2)()
    for at in (-1.0, 0.0, 0.33, 1.0, 1.999, 2.0, 5.0):
        look(ctypes.c_double(at), out)
        assert list(out) == pytest.approx([np.interp(at, x, y[:, i]) for i in range(2)], abs=1e-14)
    with pytest.raises(BadValue, match="table 'flat'"):
        sl.export(sl.zoo.four_bar(), tmp_path, tables={"flat": ([1.0, 1.0], [0, 0])})


def test_what_cannot_be_exported_is_named(tmp_path):
    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=1.0)
    m.slide("y", m.ground, ball, axes="xy")
    m.point("ball", ball.origin)
    system = sl.HybridSystem(m)
    system.domain("air")
    system.edge("air", "air", guard=sl.Touchdown("ball"), reset=sl.Collision([sl.Sliding("ball")], restitution=0.5))
    with pytest.raises(BadModel, match="touchdown"):
        sl.export(system, tmp_path)


@pytest.mark.parametrize("name", ["bolt", "four_bar", "compass"])
def test_numpy_module_agrees(name, tmp_path):
    thing = getattr(sl.zoo, name)()
    [path] = sl.export(thing, tmp_path, to="numpy", control=control_of(thing))
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exported = Exported(thing, control=control_of(thing))
    rng = np.random.default_rng(5)
    for r in exported.routines:
        for arguments, results in vectors(exported, r, rng)[:2]:
            given = [x[0] if n == "t" else x for (n, _), x in zip(r.inputs, arguments, strict=True)]
            found = getattr(module, r.name)(*given)
            for one, two in zip(found if isinstance(found, tuple) else (found,), results, strict=True):
                assert np.ravel(one) == pytest.approx(two, rel=1e-13, abs=1e-13 * max(1.0, np.abs(two).max(initial=0)))


@pytest.mark.parametrize(
    ("text", "name"),
    [("BOLT", "bolt"), ("9 lives", "model_9_lives"), ("int", "int_c"), ("名", "model"), ("a*/b", "a_b")],
)
def test_identifiers(text, name):
    assert identifier(text) == name


class Contacts(Stepper):
    """The compiled stepper of a machine with feet, stops or walls."""

    def __init__(self, thing, directory, start, **options):
        sl.export(thing, directory, start=start, **options)
        self.exported = e = Touching(thing, start, **options)
        self.library = built(directory, e.name, flags=[x for x in STRICT if x != "-pedantic"])
        count, real, m = len(e.contacts), ctypes.c_double, e.mechanism
        self.real, self.start = real, start
        fields = [("t", real), ("tolerance", real), ("domain", ctypes.c_int), ("ended", ctypes.c_int)]
        fields += [("x", real * (len(m.q_names) + len(e.w) + e.motion.e.z.numel())), ("p", real * len(e.p))]
        fields += [
            ("v", real * (len(m.v_names) + 1)),
            ("force", real * (3 * count)),
            ("touching", ctypes.c_ubyte * count),
        ]
        fields += [
            ("doubts", ctypes.c_longlong),
            ("over", ctypes.c_int),
            ("fresh", ctypes.c_int),
            ("stays", ctypes.c_int),
        ]
        self.kind = type("State", (ctypes.Structure,), {"_fields_": fields})


@needs_compiler
@pytest.mark.parametrize("name", ["bouncing_ball", "bolt_on_ground", "biped", "kneed_walker"])
def test_contacts_step_as_a_batch_does(name, tmp_path):
    """Feet and stops that find their own modes, with closed loops: the steps of sl.Batch, near simulate."""
    m = getattr(sl.zoo, name)()
    start, law = m.keyframe(list(m.keyframes)[-1]), next(iter(m.controls.values()), None)
    ground = sl.ground.Slope(-0.067) if name == "kneed_walker" else None
    stepper = Contacts(m, tmp_path, start, control=law, ground=ground)
    batch = sl.Batch(m, 1, step=1e-3, control=law, ground=ground)
    batch.reset(start)
    q, events, s = stepper.run(None, 0.25, 250)
    for _ in range(250):
        batch.step()
    assert np.abs(q - batch.state.q[0]).max() < 1e-12
    assert np.abs(np.array(s.v[:-1]) - batch.state.v[0]).max() < 1e-10
    force = np.hstack([x[0] for x in batch.forces.values()])
    size = {n: x.shape[1] for n, x in batch.forces.items()}
    own = np.hstack([s.force[3 * i : 3 * i + size[n]] for i, n in enumerate(size)])
    assert own == pytest.approx(force, abs=1e-7)
    run = sl.simulate(m, start, until=0.25, control=law, ground=ground, tolerance=1e-11)
    q, events, s = stepper.run(None, 0.25, 250, tolerance=1e-10)
    assert events >= len(run.events)  # the first modes are an event here
    assert np.abs(q - run.end.positions).max() < 1e-7


def sledge(**foot):
    """Two runners in the plane."""
    m = sl.Mechanism("sledge")
    body = m.link("body", mass=2.0, inertia=0.02)
    m.planar("base", m.ground, body)
    m.foot("front", body.at(0.1, -0.05), **foot)
    m.foot("hind", body.at(-0.1, -0.05), **foot)
    return m, lambda x, up: m.assemble(base=(x, up, 0.05), rates={"base": (0.5, 0.0, 0.2)})


def ball(**foot):
    """A body in space that rests on one point and turns."""
    m = sl.Mechanism("top", spatial=True)
    body = m.link("body", mass=2.0, inertia=(0.02, 0.02, 0.02))
    m.free("base", m.ground, body)
    m.foot("tip", body.at(0, 0, -0.05), **foot)
    return m, lambda x, up: m.assemble(base=(x, 0, up, 1, 0, 0, 0), rates={"base": (0.5, 0.1, 0, 0.3, 0, 9.0)})


@needs_compiler
@pytest.mark.parametrize("make", [sledge, ball])
@pytest.mark.parametrize("kind", ["stairs", "soft", "soft on stairs"])
def test_stairs_and_soft_feet_step_as_a_batch_does(kind, make, tmp_path):
    """From the exported start and from one on another step: the steps of sl.Batch; hard ones near simulate."""
    m, at = make(friction=0.6, **({"stiffness": 2e4, "damping": 0.5} if "soft" in kind else {}))
    ground = sl.ground.Stairs(-0.08, 0.5, 3, start=0.25) if "stairs" in kind else None
    starts = [at(0.0, 0.12), at(0.6, 0.05 if ground else 0.15)]
    stepper = Contacts(m, tmp_path, starts[0], ground=ground)
    for start in starts:
        stepper.start = start
        batch = sl.Batch(m, 1, step=1e-3, ground=ground)
        batch.reset(start)
        q, events, _ = stepper.run(None, 0.2, 200)
        for _ in range(200):
            batch.step()
        assert np.abs(q - batch.state.q[0]).max() < 1e-10  # products and sums are fused there: impacts grow round-off
        assert events > 1
        if kind == "stairs":
            q, *_ = stepper.run(None, 0.15, 150, tolerance=1e-9)
            run = sl.simulate(m, start, until=0.15, ground=ground, tolerance=1e-9)
            assert np.abs(q - run.end.positions).max() < 1e-6


@needs_compiler
@pytest.mark.parametrize("drive", [{"friction": 0.02}, {"backlash": 0.02}, {"stiffness": 200.0, "backlash": 0.02}])
def test_friction_and_play_of_motors_go_along(drive, tmp_path):
    m = sl.Mechanism("geared arm")
    arm = m.rod("arm", mass=1.0, length=0.3)
    m.revolute("hip", m.ground, arm.start, motor=sl.Motor(torque=5.0, gear=5.0, rotor_inertia=0.002, **drive))
    start = m.assemble(hip=-1.5)

    def law(t, s):
        return {"hip": 8 * (0.3 - s.q.hip) - 0.8 * s.v.hip}

    stepper = Contacts(m, tmp_path, start, control=law)
    q, events, _ = stepper.run(None, 0.3, 300, tolerance=1e-9)
    run = sl.simulate(m, start, until=0.3, control=law, tolerance=1e-10)
    assert events > 0
    assert np.abs(q - run.end.positions).max() < 1e-6
    assert subprocess.run(["make", "test"], cwd=tmp_path, capture_output=True).returncode == 0


@needs_compiler
def test_contacts_take_params_inputs_and_measurements(tmp_path):
    """A block that a motor pushes along the ground: friction is a Param, and who touches may be told."""
    m = sl.Mechanism("block")
    block = m.link("block", mass=2.0)
    m.slide("x", m.ground, block, axes="x", motor=True)
    m.slide("y", block, foot := m.link("foot", mass=1.0), axes="y")
    m.foot("foot", foot.origin, friction=m.param("mu", 0.5))
    start = m.assemble(x=0.0, y=0.0, rates={"x": 0.2})
    pushed = Contacts(m, tmp_path / "pushed", start)
    for mu in (0.5, 0.2):
        start.params["mu"] = pushed.exported.params[0] = mu
        run = sl.simulate(m, start, until=0.5, control=lambda t, s: {"x": 3.0})
        q, *_, s = pushed.run(None, 0.5, 100, [3.0])
        assert q == pytest.approx(run.end.positions, abs=1e-9)
        assert list(s.touching) == [1]
    law = sl.control.Scheduled(lambda t, s, row: {"x": row[0] * (1 + s.touching.foot)}, [0.0, 0.1], [[1.0], [-2.0]])
    told = Contacts(m, tmp_path / "told", start, control=law)
    s, u, q = told.begun(None), (ctypes.c_double * 1)(), (ctypes.c_double * 2)(0.0, 0.0)
    for t, touches, effort in ((0.05, 1, 2.0), (0.15, 0, -2.0), (0.2, 1, -4.0)):
        s.touching[0] = touches
        told.library.block_control(ctypes.byref(s), 0, ctypes.c_double(t), q, q, u)
        assert u[0] == effort


def test_contacts_that_cannot_be_exported_are_named(tmp_path):
    m = sl.zoo.bouncing_ball()
    with pytest.raises(BadModel, match="NumPy"):
        sl.export(m, tmp_path, to="numpy")
