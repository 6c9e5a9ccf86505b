"""Robots' files on the command line: every command takes them, with the options they are read with."""

import pytest
from typer.testing import CliRunner

import saltus as sl
from saltus.cli import app as cli
from saltus.cli import pages
from test_rounded import BALL, four_bar

FLOATER = """<robot name='r'>
  <link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial></link>
  <link name='b'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1'/></inertial></link>
  <joint name='j' type='continuous'><parent link='a'/><child link='b'/></joint></robot>"""
ODD = BALL.replace("</mujoco>", "<deformable><flex name='cloth'/></deformable></mujoco>")
GAP = four_bar(4e-7)
CASES = {  # text, suffix, what it takes, and what it says without
    "partial": (ODD, ".xml", ["--partial"], "deformable"),
    "closing": (GAP, ".xml", ["--closing", "1e-6"], "cannot close"),
    "repair": (GAP, ".xml", ["--repair"], "cannot close"),
}


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_options_of_reading_reach_every_command(case, tmp_path):
    text, suffix, options, said = CASES[case]
    path = tmp_path / f"m{suffix}"
    path.write_text(text)
    for command in (
        ["check", path, "--no-draw"],
        ["run", path, "--until", "0.002", "--out", "r"],
        ["export", path, "--to", "json", "--out", "e"],
        ["report", "r", "--model", path],
        ["plot", "r", "--model", path, "--kind", "energy"],
    ):
        if command[0] in ("check", "run"):
            bare = call(*command)
            assert bare.exit_code != 0, command
            assert said in bare.stderr
        done = call(*command, *options)
        assert done.exit_code == 0, (command, done.output, done.stderr)
    assert (tmp_path / "e" / "m.saltus.json").is_file()
    assert (tmp_path / "r" / "report.html").is_file()


def test_base_holds_or_frees_the_root(tmp_path):
    path = tmp_path / "m.urdf"
    path.write_text(FLOATER)
    fixed, free = (call("check", path, "--no-draw", "--base", x) for x in ("fixed", "free"))
    assert "1 velocities" in fixed.output
    assert "7 velocities" in free.output
    odd = call("run", path, "--base", "sideways")
    assert odd.exit_code != 0
    assert 'give "fixed" or "free"' in odd.stderr


def test_contacts_act_in_a_run_and_in_the_studio(tmp_path, monkeypatch):
    path = tmp_path / "m.xml"
    path.write_text(BALL)
    assert "skin" in call("check", path, "--no-draw", "--contacts").output.split("may touch")[1].splitlines()[0]
    assert call("run", path, "--until", "0.5", "--contacts", "--out", "r").exit_code == 0
    assert sl.read(tmp_path / "r" / "run.nc")["f.z"][-1] == pytest.approx(0.4, abs=1e-9)
    made = []

    class Running:
        def stop(self):
            made.append("stopped")

    def serve(make, **_):
        made.append(make())
        return Running()

    def at_once(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("saltus.studio.serve", serve)
    monkeypatch.setattr(pages.time, "sleep", at_once)
    assert call("studio", path, "--contacts", "--no-browser").exit_code == 0
    assert "skin" in made[0].system.mechanism.touching
    assert made[1] == "stopped"


def test_new_from_a_robot_takes_them_too(tmp_path):
    (tmp_path / "m.xml").write_text(ODD)
    done = call("new", "mine", "--from", tmp_path / "m.xml", "--contacts")
    assert done.exit_code == 0, done.stderr
    assert "deformable" in done.output
    model = sl.read(tmp_path / "mine.saltus.yaml")
    assert "skin" in model.mechanism.touching
    assert model.ground.height(0.0) == pytest.approx(0.3)
