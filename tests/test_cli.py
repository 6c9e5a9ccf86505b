"""The command line: results, exit codes, bad input, interruption."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import saltus as sl
from saltus import studies
from saltus.cli import app as cli
from saltus.studies.result import Comparison, StudyResult

runner = CliRunner()


def call(*arguments):
    return runner.invoke(cli.app, [str(a) for a in arguments])


def message(result):
    """Printed error as one line."""
    return " ".join(result.stderr.split())


# ---- run -------------------------------------------------------------------------------------------------


def test_run_writes_data_figures_animation_and_report(tmp_path):
    result = call("run", "bolt", "--steps", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for name in ("run.nc", "run.gif", "report.html", "summary.json", "snapshots.svg", "energy.svg", "contacts.svg"):
        assert (tmp_path / name).stat().st_size > 500, name
    for word in ("outcome", "events", "mean speed", "stride time", "loop gap", "energy residual", "friction need"):
        assert word in result.output
    assert str(tmp_path) in "".join(result.output.split())
    assert sl.read(tmp_path / "run.nc").outcome.kind == "stopped"
    assert not re.search(r"https?://", (tmp_path / "report.html").read_text())


def test_json_is_all_that_is_printed(tmp_path):
    result = call("run", "four-bar", "--until", 0.2, "--no-animation", "--json", "--out", tmp_path)
    assert result.exit_code == 0
    numbers = json.loads(result.stdout)
    assert numbers["outcome"] == "finished"
    assert numbers["time"] == pytest.approx(0.2)
    assert numbers["steps"] == 0
    assert numbers["mean_speed"] is None
    assert not (tmp_path / "run.gif").exists()


def test_options_reach_the_simulation(tmp_path):
    numbers = ["--until", 0.1, "--set", "l_1=0.03", "--set", "m_2=0.2", "--tolerance", "1e-7"]
    names = ["--formulation", "baumgarte:40,60", "--engine", "sundials", "--start", "middle"]
    result = call("run", "four-bar", *numbers, *names, "--no-animation", "--json", "--out", tmp_path)
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
    result = call("run", tmp_path / "ball.py", "--no-animation", "--json", "--out", tmp_path / "out")
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
    result = call("run", tmp_path / "fall.py", "--json", "--no-animation", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["fell"] is True
    assert sl.read(tmp_path / "out" / "run.nc").outcome.kind == "fell"


BAD = {
    "unknown machine": (["run", "blot"], "Did you mean 'bolt'?"),
    "unknown param": (["run", "bolt", "--set", "l_9=1"], "no param named 'l_9'"),
    "param without a number": (["run", "bolt", "--set", "l_1"], "PARAM=NUMBER"),
    "param that is no number": (["run", "bolt", "--set", "l_1=long"], "PARAM=NUMBER"),
    "param that is not finite": (["run", "bolt", "--set", "l_1=nan"], "not a finite number"),
    "length that cannot close": (["run", "bolt", "--set", "l_1=0.5"], "cannot close"),
    "unknown formulation": (["run", "bolt", "--formulation", "euler"], "spf"),
    "gain that is negative": (["run", "bolt", "--formulation", "spf:-1"], "positive"),
    "gain that is no number": (["run", "bolt", "--formulation", "spf:small"], "epsilon"),
    "unknown keyframe": (["run", "bolt", "--start", "dropp"], "'drop'"),
    "unknown control": (["run", "bolt", "--control", "walk"], "none, run"),
    "unknown engine": (["run", "bolt", "--engine", "rk4"], "heyoka, native, sundials"),
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
    options = ["run", "slow.py", "--until", "1000", "--no-animation", "--json", "--out", "out"]
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


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_study_ends_with_a_code_that_says_whether_it_agrees(monkeypatch, tmp_path, holds, code):
    row = Comparison("speed", 1.0, 1.0 if holds else 2.0, "m/s", 0.1, why="because")
    monkeypatch.setattr(studies, "run", lambda name: StudyResult(name, "title", "source", {}, [row]))
    result = call("study", "anything", "--out", tmp_path)
    assert result.exit_code == code
    assert ("yes" if holds else "no") in result.output


def test_zoo_lists_machines_and_they_can_be_run():
    result = call("zoo")
    assert result.exit_code == 0
    for name in ("bolt", "raptor", "four-bar", "hopper"):
        assert name in result.output
        assert name in cli.machines()


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


def test_demo_runs_16_steps_and_says_where_to_look(tmp_path):
    result = call("demo", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "summary.json").read_text())["steps"] == 16
    assert "report.html" in result.output
