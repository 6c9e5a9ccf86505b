"""What a plain install lacks names the extra that brings it, and the rest works without."""

import json
import subprocess
import sys

import pytest

from saltus.errors import EXTRAS

PROGRAM = """
import json, sys
for name in {missing}:
    sys.modules[name] = None  # as if it were not installed
import saltus as sl

hopper = sl.zoo.hopper()
run = sl.simulate(hopper, hopper.keyframes["takeoff"], domain="flight", until=0.2)
sl.write(run, "run.nc")
sl.view.report(sl.read("run.nc"), "run.html", figures={{}})
start = hopper.keyframes["takeoff"]
uses = dict(
    figures=lambda: sl.view.plot_energy(run),
    page=lambda: sl.view.report(run, "all.html"),
    study=lambda: __import__("saltus.studies").studies.run("bolt-kinematics"),
    dataset=lambda: run.dataset(),
    sweep=lambda: sl.sweep(sl.design.GaitTask(sl.zoo.hopper), {{"k": [1.0]}}, "store"),
    heyoka=lambda: sl.simulate(hopper, start, domain="flight", until=0.1, engine="heyoka"),
    sundials=lambda: sl.simulate(hopper, start, domain="flight", until=0.1, engine="sundials"),
    studio=lambda: __import__("saltus.studio").studio.serve(lambda: None, port=0),
)
said = {{}}
for name, use in uses.items():
    try:
        use()
        said[name] = "no error"
    except sl.errors.MissingExtra as problem:
        said[name] = str(problem)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    program = PROGRAM.format(missing=sorted(EXTRAS))
    folder = tmp_path_factory.mktemp("plain")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("use", "extra"),
    {
        "figures": "figures",
        "page": "figures",
        "study": "figures",
        "dataset": "sweeps",
        "sweep": "sweeps",
        "heyoka": "heyoka",
        "sundials": "sundials",
        "studio": "studio",
    }.items(),
)
def test_what_is_missing_names_its_extra(said, use, extra):
    assert f"pip install 'saltus[{extra}]'" in said[use]


def test_every_extra_that_is_named_exists():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert {extra for extra, _ in EXTRAS.values()} <= set(project["optional-dependencies"])


@pytest.mark.parametrize(
    "words", [["check", "four_bar.saltus.yaml"], ["inverse", "four-bar", "--turn", "crank=300", "--out", "turn"]]
)
def test_commands_that_also_draw_say_that_they_do_not(words, tmp_path):
    program = f"""
import sys
sys.modules["matplotlib"] = None
import saltus as sl
from saltus.cli.app import app
sl.write(sl.zoo.four_bar(), "four_bar.saltus.yaml")
sys.argv = ["saltus", *{words!r}]
app()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not drawn:" in done.stderr
    assert "saltus[figures]" in done.stderr
