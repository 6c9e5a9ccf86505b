"""The command line: results, exit codes, bad input, interruption."""

import csv
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import saltus as sl
from saltus import studies
from saltus.cli import app as cli
from saltus.cli import machines
from saltus.cli.console import speaking
from saltus.studies.result import Comparison, StudyResult

runner = CliRunner()


def call(*arguments):
    return runner.invoke(cli.app, [str(a) for a in arguments])


def message(result):
    """Printed error as one line."""
    return " ".join(result.stderr.split())


# ---- run -------------------------------------------------------------------------------------------------


def test_run_writes_data_figures_animation_and_report(tmp_path):
    result = call("run", "bolt", "--steps", 2, "--figures", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for name in ("run.nc", "run.gif", "report.html", "summary.json", "snapshots.svg", "energy.svg", "contacts.svg"):
        assert (tmp_path / name).stat().st_size > 500, name
    for word in ("outcome", "events", "mean speed", "stride time", "loop gap", "energy residual", "friction need"):
        assert word in result.output
    assert str(tmp_path) in "".join(result.output.split())
    assert sl.read(tmp_path / "run.nc").outcome.kind == "stopped"
    assert not re.search(r"https?://", (tmp_path / "report.html").read_text())


def test_json_is_all_that_is_printed(tmp_path):
    result = call("run", "four-bar", "--until", 0.2, "--check", "--json", "--out", tmp_path)
    assert result.exit_code == 0
    numbers = json.loads(result.stdout)
    assert 1e-9 <= max(numbers["error"].values()) < 1e-7
    assert numbers["outcome"] == "finished"
    assert numbers["time"] == pytest.approx(0.2)
    assert numbers["steps"] == 0
    assert numbers["mean_speed"] is None
    assert not (tmp_path / "run.gif").exists()


def test_options_reach_the_simulation(tmp_path):
    numbers = ["--until", 0.1, "--set", "l_1=0.03", "--set", "m_2=0.2", "--tolerance", "1e-7"]
    names = ["--formulation", "baumgarte:40,60", "--engine", "sundials", "--start", "middle"]
    result = call("run", "four-bar", *numbers, *names, "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    run = sl.read(tmp_path / "run.nc")
    assert (run.params["l_1"], run.params["m_2"]) == (0.03, 0.2)
    assert run.meta["formulation"] == "Baumgarte(alpha=40, beta=60)"
    assert (run.meta["engine"], run.meta["tolerance"]) == ("sundials", 1e-7)


def test_run_of_a_file_that_defines_a_system(tmp_path):
    (tmp_path / "ball.py").write_text("""
import saltus as sl
m = sl.Mechanism("ball")
ball = m.link("ball", mass=1.0)
m.slide("ball", m.ground, ball, axes="y")
m.point("centre", ball.at(0, 0))
system = m
start = m.assemble(ball=1.0)
until = 0.25
""")
    result = call("run", tmp_path / "ball.py", "--json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    run = sl.read(tmp_path / "out" / "run.nc")
    assert run.outcome.t == pytest.approx(0.25)
    assert run["ball"][-1] == pytest.approx(1 - 9.81 * 0.25**2 / 2, abs=1e-9)


def test_a_fall_is_saved_and_ends_with_code_1(tmp_path):
    (tmp_path / "fall.py").write_text("""
import saltus as sl
m = sl.Mechanism("ball")
ball = m.link("ball", mass=1.0)
m.slide("ball", m.ground, ball, axes="y")
m.point("centre", ball.at(0, 0))
system = sl.HybridSystem(m)
system.domain("flight")
system.ends("fell", sl.When(lambda s: s.position("centre").y, "falling"))
start = m.assemble(ball=0.2)
""")
    result = call("run", tmp_path / "fall.py", "--json", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["fell"] is True
    assert sl.read(tmp_path / "out" / "run.nc").outcome.kind == "fell"


BAD = {
    "unknown machine": (["run", "blot"], "Did you mean 'bolt'?"),
    "unknown param": (["run", "bolt", "--set", "l_9=1"], "no param named 'l_9'"),
    "param without a number": (["run", "bolt", "--set", "l_1"], "NAME=NUMBER"),
    "param that is no number": (["run", "bolt", "--set", "l_1=long"], "NAME=NUMBER"),
    "param that is not finite": (["run", "bolt", "--set", "l_1=nan"], "not a finite number"),
    "length that cannot close": (["run", "bolt", "--set", "l_1=0.5"], "cannot close"),
    "unknown formulation": (["run", "bolt", "--formulation", "euler"], "spf"),
    "gain that is negative": (["run", "bolt", "--formulation", "spf:-1"], "positive"),
    "gain that is no number": (["run", "bolt", "--formulation", "spf:small"], "epsilon"),
    "unknown keyframe": (["run", "bolt", "--start", "dropp"], "'drop'"),
    "unknown control": (["run", "bolt", "--control", "walk"], "none, run"),
    "unknown engine": (["run", "bolt", "--engine", "rk4"], "heyoka, native, scipy, sundials"),
    "unknown domain": (["run", "bolt", "--domain", "swim"], "flight, stance"),
    "time that is negative": (["run", "bolt", "--until", "-1"], "until is -1"),
    "steps of what does not step": (["run", "four-bar", "--steps", "2"], "use --until"),
    "file that is not there": (["run", "nothing.py"], "is no file"),
    "unknown study": (["study", "bolt-walking"], "bolt-running"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_message_and_code_2(case, tmp_path):
    arguments, expected = BAD[case]
    result = call(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message(result).startswith("error: ")
    assert expected in message(result)
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_warning_is_one_message(tmp_path):
    (tmp_path / "arm.saltus.yaml").write_text("""saltus: 1
name: arm
links: {arm: {mass: 1, length: 0.3}}
joints: {pin: {type: revolute, a: ground, b: arm.start}}
stops: {pin: {lower: -90}}
keyframes: {level: {held: {pin: 0}}}
""")
    result = call("run", tmp_path / "arm.saltus.yaml", "--until", 0.05, "--out", tmp_path / "out")
    assert result.exit_code == 0, message(result)
    assert message(result).startswith("warning: stop of 'pin' at -90 is in radians")
    assert ".py" not in message(result)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", "defines no `system`"),
        ("system = 3\n", "must be a sl.HybridSystem"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_bad_files(tmp_path, text, expected):
    (tmp_path / "bad.py").write_text(text)
    result = call("run", tmp_path / "bad.py")
    assert result.exit_code == 2
    assert expected in message(result)


# ---- strangers' files ------------------------------------------------------------------------------------


def four_bar_run(tmp_path, **meta):
    """A saved run whose file says other things than were simulated."""
    m = sl.zoo.four_bar()
    run = sl.simulate(m, m.keyframe("middle"), until=0.05)
    run.meta |= meta
    return sl.write(run, tmp_path / "run.nc")


@pytest.mark.parametrize("name", ["evil.py", "./evil.py", "/evil.py", "evil", "sub/../evil.py", "EVIL.PY", "evil.yaml"])
@pytest.mark.parametrize("command", ["report", "plot", "studio"])
def test_a_name_in_a_data_file_runs_nothing(tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for place in (".", "sub"):
        (tmp_path / place / "evil.py").write_text("open('RAN', 'w')\nimport saltus as sl\nsystem = sl.zoo.four_bar()\n")
    shown = name.replace("/evil.py", f"{tmp_path}/evil.py") if name.startswith("/") else name
    four_bar_run(tmp_path, name=shown)
    result = call(command, tmp_path, *(["--no-browser", "--port", "0"] if command == "studio" else []))
    assert result.exit_code == 2
    assert "--model FILE" in message(result)
    assert not (tmp_path / "RAN").exists()


def test_a_python_file_the_user_names_is_run(tmp_path):
    (tmp_path / "own.py").write_text("import saltus as sl\nsystem = sl.zoo.four_bar()\n")
    four_bar_run(tmp_path, name="something else")
    result = call("report", tmp_path, "--model", tmp_path / "own.py")
    assert result.exit_code == 0, result.output


def test_one_function_runs_python_files_and_has_two_callers():
    """From data there is no way to code: of all sources one calls runpy, and only two functions come to it."""
    source = Path(sl.__file__).parent
    texts = {path: path.read_text() for path in source.rglob("*.py")}
    assert [p.name for p, text in texts.items() if "runpy" in text] == ["machines.py"]
    assert sum(len(re.findall(r"\b_from_python\(", text)) for text in texts.values()) == 2  # defined, called
    assert sum(len(re.findall(r"\bresolve\(\S", text)) for text in texts.values() if "_from_python" in text) == 3
    for word in (r"\bpickle\.load", r"\beval\(", r"\bexec\(", r"yaml\.(unsafe_|full_)?load\("):
        users = [p.name for p, text in texts.items() if re.search(rf"(?<![.\w])(?<!def ){word}", text)]
        assert users == (["workers.py"] if "pickle" in word else []), word  # a sweep's own task, in its own worker


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def test_hostile_text_of_a_run_is_text_in_its_report(tmp_path):
    outcome = {"kind": HOSTILE, "detail": HOSTILE, "t": 0.05}
    path = four_bar_run(tmp_path, notes=[HOSTILE], outcome=outcome, formulation=HOSTILE, engine=HOSTILE)
    assert call("report", path).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("place", ["file", "file/below", 300 * "x"])
@pytest.mark.parametrize(
    "command", [["run", "four-bar"], ["demo"], ["study", "bolt-kinematics"], ["export", "four-bar", "--to", "c"]]
)
def test_an_out_that_cannot_be_written_is_found_before_the_work(tmp_path, monkeypatch, command, place):
    def never(*given, **more):
        raise AssertionError("it was computed first")

    monkeypatch.setattr("saltus.simulate", never, raising=False)
    monkeypatch.setattr(studies, "run", never)
    monkeypatch.setattr("saltus.export", never, raising=False)
    (tmp_path / "file").write_text("mine")
    result = call(*command, "--out", f"{tmp_path}/{place}")
    assert result.exit_code == 2, result.output
    assert "cannot write" in message(result)


def test_ok_and_faults_are_told(tmp_path, monkeypatch):
    m = sl.zoo.four_bar()
    good = sl.simulate(m, m.keyframe("middle"), until=0.05)

    class Bad:
        kind, detail, t, ok, faults = "finished", "reached 0.05 s", 0.05, False, ("the ground pulled 12 N",)

    monkeypatch.setattr(sl.Trajectory, "outcome", Bad)
    monkeypatch.setattr(sl, "simulate", lambda *given, **more: good, raising=False)
    result = call("run", "four-bar", "--json", "--out", tmp_path)
    assert result.exit_code == 1
    numbers = json.loads(result.stdout)
    assert numbers["ok"] is False
    assert numbers["faults"] == ["the ground pulled 12 N"]
    assert "the ground pulled 12 N" in (tmp_path / "report.html").read_text()
    assert "the ground pulled 12 N" in call("run", "four-bar", "--out", tmp_path).output


def test_interrupting_keeps_what_was_simulated(tmp_path):
    """SIGINT as Ctrl-C sends it: the run is saved, code 130."""
    (tmp_path / "slow.py").write_text("""
import time
import saltus as sl
m = sl.zoo.four_bar()
def slowly(t, s):
    if t > 0.2:
        open("called", "w").close()
    time.sleep(0.001)
    return {"crank": 0.0}
system, control = m, sl.control.Sampled(slowly, rate=500)
""")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from saltus.cli.app import app; app()"
    )
    options = ["run", "slow.py", "--until", "1000", "--json", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(400):  # until the controller has been called for a while
        time.sleep(0.1)
        if (tmp_path / "called").exists():
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["outcome"] == "interrupted"
    assert sl.read(tmp_path / "out" / "run.nc").duration > 0


def test_ctrl_c_is_not_lost_among_symbols():
    """Code of casadi.py drops what is raised while it runs; the signal is sent again until it is heard."""
    deaf = "def ask(send, number):\n    try:\n        send(number)\n    except BaseException:\n        pass\n"
    names = {}
    exec(compile(deaf, "casadi.py", "exec"), names)

    def press():
        names["ask"](signal.raise_signal, signal.SIGINT)
        time.sleep(30)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            speaking(press)()
        assert time.monotonic() - begin < 20  # within the wait, not after it
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


# ---- inverse dynamics ----------------------------------------------------------------------------------------


def test_inverse_of_a_slider_crank_at_its_dead_centre(tmp_path):
    """Outstretched at speed w the crank pin has r w^2, the slider (1 + r / l) times it, rods the mean of both ends."""
    result = call("inverse", "slider-crank", "--turn", "crank=3000", "--out", tmp_path, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    r, length, accel = 0.040, 0.120, 0.040 * (100 * math.pi) ** 2
    slider = 0.20 * accel * (1 + r / length)
    rod, crank = 0.10 * accel * (1 + r / length / 2), 0.05 * accel / 2
    assert found["duration"] == pytest.approx(0.02)
    assert found["rows"]["force in wrist"] == pytest.approx({"largest": slider, "at": 0.0}, rel=1e-6)
    assert found["rows"]["shaking force"] == pytest.approx({"largest": slider + rod + crank, "at": 0.0}, rel=1e-6)
    with open(tmp_path / "loads.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 361
    largest = max(abs(float(row["effort.crank"])) for row in rows)
    assert largest == pytest.approx(found["rows"]["effort crank"]["largest"])
    assert (tmp_path / "loads.svg").exists()


def test_inverse_says_what_is_missing(tmp_path):
    result = call("inverse", "four-bar", "--out", tmp_path)
    assert result.exit_code == 2
    assert "give --turn COORDINATE=RPM, with one of those that turn: crank, coupler, rocker" in message(result)
    assert "as in --turn crank=300" in message(call("inverse", "four-bar", "--turn", "crank"))
    assert "free to move" in message(call("inverse", "five-bar", "--turn", "left=30"))


# ---- studies, zoo, doctor --------------------------------------------------------------------------------


def test_study_list_names_all():
    result = call("study", "list", "--json")
    assert result.exit_code == 0
    names = {s["name"] for s in json.loads(result.stdout)}
    assert names >= {"bolt-kinematics", "bolt-running", "raptor-hopping", "bolt-static-gait"}


def test_study_prints_fields_and_writes_figures(tmp_path):
    result = call("study", "bolt-kinematics", "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    fields = json.loads(result.stdout)
    assert fields["foot_x_max"] == pytest.approx(0.1613, abs=1e-4)
    assert (tmp_path / "fig5_paths.png").exists()
    assert (tmp_path / "result.json").exists()


@pytest.mark.parametrize("name", studies.STUDIES)
def test_study_help_lists_its_options(name):
    result = call("study", name, "--help")
    assert result.exit_code == 0, result.output
    _, declared = studies.options(name)
    for option in declared:
        assert f"--{option.replace('_', '-')} " in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hopper-orbit", "--d-g", 3, "--t-F", 0.2], "give one of them"),
        (["hopper-orbit", "--mu", 0.8, "--mu", 0.7], "given twice"),
        (["hopper-orbit", "--mu", "inf"], "finite"),
        (["hopper-orbit", "--mu"], "--NAME VALUE"),
        (["rat-righting", "--links", 6], "give fewer links"),
        (["rat-righting", "--links", 2.5], "whole number"),
        (["list", "--mu", 1], "takes no options"),
        (["nothing", "--help"], "no study named"),
    ],
)
def test_contradictory_options_of_a_study_are_refused(tmp_path, arguments, expected):
    result = call("study", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert expected in message(result)


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_study_ends_with_a_code_that_says_whether_it_agrees(monkeypatch, tmp_path, holds, code):
    row = Comparison("speed", 1.0, 1.0 if holds else 2.0, "m/s", 0.1, why="because")
    about = studies.Study("anything", "title", "source", "")
    monkeypatch.setattr(studies, "run", lambda name, **given: StudyResult(about, {}, [row]))
    result = call("study", "anything", "--out", tmp_path)
    assert result.exit_code == code
    assert ("yes" if holds else "no") in result.output


def test_zoo_lists_machines_and_they_can_be_run():
    result = call("zoo")
    assert result.exit_code == 0
    for name in ("bolt", "raptor", "four-bar", "hopper"):
        assert name in result.output
        assert name in machines.machines()


def test_doctor_finds_compiler_engines_and_speed():
    result = call("doctor")
    assert result.exit_code == 0, result.output
    for word in ("python", "compiler", "cache", "engine native", "casadi", "virtual machine", "free swing"):
        assert word in result.output


def test_help_does_not_load_heavy_libraries():
    heavy = ("casadi", "numpy", "matplotlib", "xarray")
    code = f"import sys; from saltus.cli import app; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_demo_runs_on_real_ground_and_says_where_to_look(tmp_path):
    result = call("demo", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "summary.json").read_text())
    assert numbers["ok"]
    assert numbers["steps"] == 15
    assert numbers["mean_speed"] == pytest.approx(1.0, abs=0.05)
    assert numbers["worst_friction_need"] <= 0.8 + 1e-9
    assert "report.html" in result.output


# ---- new ------------------------------------------------------------------------------------------------------------


def test_new_offers_a_biped_that_stands_and_squats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "saltus check duo.saltus.yaml" in call("new", "duo", "--kind", "biped").output
    told = call("check", "duo.saltus.yaml").output
    for words in ("ground: Level(0)", "controllers: 1: squat", "starts from: stand"):
        assert words in told
    result = call("run", "duo.saltus.yaml", "--until", 0.3, "--json", "--out", "out")
    numbers = json.loads(result.stdout)
    assert numbers["ok"], numbers["faults"]
    run = sl.read("out/run.nc")
    assert run.q["base"].y.min() > 0.3
    low = json.loads(call("run", "duo.saltus.yaml", "--until", 0.15, "--ground=-0.05", "--json", "--out", "low").stdout)
    assert low["events"]["right_foot touches"] >= 1  # it falls onto a ground that is lower
    assert "left_foot" in message(
        call("run", "duo.saltus.yaml", "--ground", "slope:5", "--out", "steep")
    )  # in the hill
    longer = call("run", "duo.saltus.yaml", "--set", "thigh=0.3", "--until", 0.1, "--json", "--out", "longer")
    assert json.loads(longer.stdout)["ok"], longer.output  # its start stands higher, by the formula of the file
    assert sl.read("out/run.nc").q["base"].y[0] < sl.read("longer/run.nc").q["base"].y[0] - 0.04


def test_strides_of_a_machine_with_feet_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = json.loads(call("run", "runner", "--steps", 2, "--json").stdout)
    assert done["events"]["foot touches"] == 3
    assert "--steps counts touchdowns" in message(call("run", "four-bar", "--steps", 2))


def test_export_keeps_what_the_file_says_about_running_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("new", "duo", "--kind", "biped")
    assert call("export", "duo.saltus.yaml", "--to", "json").exit_code == 0
    one, two = sl.read("duo.saltus.yaml"), sl.read("duo.saltus.json")
    assert (two.keyframe, two.until, list(two.system.controls)) == ("stand", one.until, ["squat"])
    assert two.control is two.system.controls["squat"]
    assert np.allclose(one.start.positions, two.start.positions, atol=1e-15)
    assert call("export", "duo.saltus.yaml", "--to", "json", "--control", "none", "--out", "b").exit_code == 0
    assert sl.read("b/duo.saltus.json").control is None
    for to in ("c", "yaml"):
        assert "no keyframe named 'jump'" in message(call("export", "bolt", "--to", to, "--start", "jump"))


def test_new_takes_a_robot_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sl.write(sl.zoo.five_bar(), "arm.urdf")
    result = call("new", "mine", "--from", "arm.urdf")
    assert result.exit_code == 0, result.output
    theirs, mine = sl.read("arm.urdf").mechanism, sl.read("mine.saltus.yaml").mechanism
    assert mine.q_names == theirs.q_names
    assert "no kind of machine named 'horse'" in message(call("new", "x", "--kind", "horse"))


@pytest.mark.parametrize("given", ["slope:steep", "stairs:1,2", "high", "slope:"])
def test_a_ground_that_is_none_is_refused_with_an_example(given, tmp_path):
    said = message(call("run", "four-bar", "--ground", given, "--out", tmp_path))
    assert "slope:DEGREES" in said
    assert "--ground slope:5" in said
