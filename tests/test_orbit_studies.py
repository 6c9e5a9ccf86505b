"""Studies of orbits: JSON fields, options, agreement with the paper."""

import json

import pytest
from typer.testing import CliRunner

from saltus import studies
from saltus.cli.app import app
from saltus.errors import NoOrbit, UnknownName


def test_hopper_orbit_at_the_papers_params():
    result = studies.run("hopper-orbit")
    data = result.as_dict()
    assert result.agrees, [c for c in result.comparisons if c.agrees is False]
    assert data["multipliers"] == pytest.approx([0.471387630823884], abs=1e-9)
    assert data["period"] == pytest.approx(0.548240660888677, abs=1e-10)
    assert (data["t_F"], data["t_G"]) == pytest.approx((0.298898121589078, 0.249342539299599), abs=1e-10)
    assert (data["T_c"], data["T_a"]) == pytest.approx((17.3668720235713, 71.5610825657986), abs=1e-8)
    assert data["apex_U"] == pytest.approx(1.11100669114979, abs=1e-9)
    assert len(data["monodromy"]) == 4
    assert data["M"][1] == pytest.approx([3.2885166, 0.4538489], abs=6e-8)
    assert {"fig3_orbit", "fig4_phase_portraits", "fig5_energy"} <= set(result.figures)


def test_hopper_orbit_by_command_line(tmp_path):
    words = ["study", "hopper-orbit", "--t-F", "0.2", "--json", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    data = json.loads(done.output)
    assert data["D_G"] == pytest.approx(-0.0279691895617, abs=1e-11)
    assert data["apex_U"] == pytest.approx(1.0571871048, abs=1e-9)
    assert data["multipliers"] == pytest.approx([1.35194246861], abs=1e-8)
    assert data["stable"] is False


@pytest.mark.parametrize(("mu", "t_F", "D_G"), [(0.8, 0.05, -0.00130574969726), (0.95, 0.3, -0.00872769870207)])
def test_hopper_orbit_options(mu, t_F, D_G):
    result = studies.run("hopper-orbit", mu=mu, t_F=t_F)
    assert result.agrees
    assert result.as_dict()["D_G"] == pytest.approx(D_G, abs=1e-11)


def test_hopper_orbit_where_there_is_none():
    with pytest.raises(NoOrbit, match="t-F"):
        studies.run("hopper-orbit", d_g=-200.0)
    with pytest.raises(UnknownName, match="t_F"):
        studies.run("hopper-orbit", tf=0.3)


@pytest.mark.parametrize(("mu", "folds", "limit"), [(0.8, 8, -0.0607541711778858), (0.95, 0, -0.0157496481318151)])
def test_hopper_continuation(mu, folds, limit):
    result = studies.run("hopper-continuation", mu=mu)
    data = result.as_dict()
    assert result.agrees, [c for c in result.comparisons if c.agrees is False]
    assert len(data["folds"]) == folds
    assert data["limit_D_G"] == pytest.approx(limit, abs=1e-12)
    assert len(data["stable_intervals"]) == folds // 2 + 1
    if folds:
        assert data["folds"][0] == pytest.approx([0.1613260171732, -0.035439034174461], abs=1e-10)


@pytest.mark.slow
def test_bolt_gaits():
    result = studies.run("bolt-gaits")
    data = result.as_dict()
    assert result.agrees
    speeds = [row["speed"] for row in data["family"]]
    assert min(speeds) < 1.25 < 1.45 < max(speeds)
    assert all(row["stable"] for row in data["family"])
    held, loose = (data["feedback"][f"{kind}_loop_distance"] for kind in ("closed", "open"))
    assert held[-1] < 1e-3 * loose[-1]
