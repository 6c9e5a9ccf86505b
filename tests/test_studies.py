"""Studies: the registry, the numbers of each, and what happens when an agreement fails."""

import json

import numpy as np
import pytest

import saltus as sl
from saltus import studies
from saltus.studies.result import Comparison, Study, StudyResult, plain


@pytest.fixture(scope="module")
def results():
    made = {}

    def get(name):
        if name not in made:
            made[name] = studies.run(name)
        return made[name]

    return get


def test_unknown_study_lists_the_known_ones():
    with pytest.raises(sl.errors.UnknownName, match="bolt-running"):
        studies.run("bolt-runing")


def test_every_study_names_its_source():
    for study in studies.STUDIES.values():
        assert study.title
        assert " and " in study.source  # its authors


STATED = ("bolt-kinematics", "bolt-running", "bolt-swinging", "raptor-hopping", "bolt-static-gait", "rat-kick")


@pytest.mark.parametrize("name", STATED)
def test_study_agrees_with_what_was_published(results, name):
    result = results(name)
    failed = [c.quantity for c in result.comparisons if c.agrees is False]
    assert not failed
    assert result.agrees
    assert any(c.agrees for c in result.comparisons)
    json.dumps(result.as_dict(), allow_nan=False)
    assert result.figures


def test_bolt_foot_path(results):
    """Range of the foot over a turn for the lengths of Table 2 (Liu and Ben-Tzvi 2020), drawn in fig. 5b."""
    data = results("bolt-kinematics").data
    assert data["foot_x_min"] == pytest.approx(-0.0711, abs=1e-4)
    assert data["foot_x_max"] == pytest.approx(0.1613, abs=1e-4)
    assert data["foot_y_min"] == pytest.approx(-0.4237, abs=1e-4)
    assert data["foot_y_max"] == pytest.approx(-0.3619, abs=1e-4)
    assert data["closed_form_difference"] < 1e-9
    assert np.shape(data["knee"])[1] == 2
    assert set(data["loop_1_angles"]) == {"theta_2", "theta_3"}


GAIT = {
    "steps",
    "mean_speed",
    "stride_time",
    "max_loop_gap",
    "fell",
    "epsilon",
    "energy_residual",
    "worst_friction_need",
}


def test_bolt_runs_16_steps_at_the_published_pace(results):
    """Sec. 5.2: 16 steps, around 1.3 m/s; sec. 6.2: 284 ms per stride."""
    data = results("bolt-running").data
    assert set(data) >= GAIT
    assert data["steps"] == 16
    assert data["fell"] is False
    assert data["mean_speed"] == pytest.approx(1.3, abs=0.05)
    assert data["stride_time"] == pytest.approx(0.284, abs=0.001)
    assert data["max_loop_gap"] < 1e-7
    assert data["energy_residual"] < 1e-7
    assert data["inconsistent_start"]["gap_at_start"] == pytest.approx(2e-3, rel=0.1)
    assert data["inconsistent_start"]["decay_time"] == pytest.approx(data["epsilon"], rel=0.05)
    assert data["smallest_normal_force"] < 0  # the paper's rule lets the ground pull
    assert data["force_rule"]["smallest_normal_force"] > -1e-6


def test_raptor_like_leg_hops_with_three_loops(results):
    result = results("raptor-hopping")
    assert set(result.data) >= GAIT
    assert (result.data["loops"], result.data["constraint_rows"], result.data["steps"]) == (3, 6, 16)
    assert abs(result.data["mean_speed"]) < 0.1
    assert result.data["apex_height"] > 0.5
    assert "Raptor-like" in result.study.title


def test_static_gait_is_static(results):
    """Torque equals dV/dq1 (virtual work) where inertia does not matter."""
    data = results("bolt-static-gait").data
    assert data["turns"] == pytest.approx(2, abs=0.02)
    assert data["torque_difference"] < 0.02 * data["static_peak_torque"]
    assert data["max_loop_gap"] < 1e-8


def test_figures_of_studies_name_their_units(results):
    for name in ("bolt-kinematics", "bolt-running", "raptor-hopping", "bolt-static-gait"):
        for title, figure in results(name).figures.items():
            for ax in figure.axes:
                assert "(" in ax.get_ylabel(), f"{name}: {title}"


def test_written_files(results, tmp_path):
    files = results("bolt-kinematics").write(tmp_path / "out")
    assert {f.suffix for f in files} == {".json", ".png", ".pdf"}
    assert json.loads(files[0].read_text())["agrees"] is True


# ---- results ---------------------------------------------------------------------------------------------


def test_comparison_by_tolerance_by_statement_and_without_a_number():
    assert Comparison("a", 1.0, 1.04, tolerance=0.05).agrees is True
    assert Comparison("a", 1.0, 1.06, tolerance=0.05).agrees is False
    assert Comparison("a", "it holds", "it does not", holds=False).agrees is False
    assert Comparison("a", None, 3.0).agrees is None
    assert Comparison("a", 1.0, float("nan"), tolerance=0.05).agrees is False


def test_one_failed_agreement_fails_the_study():
    good, bad = Comparison("a", 1, 1, tolerance=0), Comparison("b", 1, 2, tolerance=0)
    about = Study("n", "t", "s", "m")
    assert StudyResult(about, {}, [good, Comparison("c", None, 1)]).agrees
    assert not StudyResult(about, {}, [good, bad]).agrees


def test_plain_turns_numpy_into_json():
    given = {"a": np.float64(1.5), "b": np.array([1, 2]), "c": float("nan"), "d": np.bool_(True), "e": (np.int64(3),)}
    assert plain(given) == {"a": 1.5, "b": [1, 2], "c": None, "d": True, "e": [3]}
