"""Trajectories and records as CSV, ROS-style JSON, NetCDF and LaTeX."""

import csv
import json

import numpy as np
import pytest

import saltus as sl


@pytest.fixture(scope="module")
def run():
    hopper = sl.zoo.hopper()
    return sl.simulate(hopper, hopper.mechanism.keyframe("takeoff"), domain="flight", until=0.7, rate=100)


def test_csv_reads_back_exactly(run, tmp_path):
    with sl.write(run, tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(r["t"]) for r in rows] == run.t.tolist()
    assert [float(r["q.z_U"]) for r in rows] == run.q.z_U.tolist()
    assert [float(r["force.foot.y"]) for r in rows] == run.force("foot")[:, 1].tolist()
    assert [r["domain"] for r in rows] == run.domain


def test_joint_state_messages(tmp_path):
    m = sl.zoo.four_bar()
    run = sl.simulate(m, m.keyframe("middle"), until=1.25, control=lambda t, s: {"crank": 0.01}, rate=20)
    messages = json.loads(sl.write(run, tmp_path / "r.json").read_text())
    assert len(messages) == len(run.t)
    last = messages[-1]
    assert set(last) == {"header", "name", "position", "velocity", "effort"}
    assert last["header"]["stamp"] == {"sec": 1, "nanosec": 250000000}
    assert last["name"] == ["crank", "coupler", "rocker"]
    assert last["position"] == run.arrays["q"][-1].tolist()
    assert last["effort"] == pytest.approx([0.01, 0, 0])


def test_netcdf_and_latex(run, tmp_path):
    again = sl.read(sl.write(run, tmp_path / "r.nc"))
    assert np.array_equal(again.arrays["q"], run.arrays["q"])
    text = sl.write(run, tmp_path / "events.tex").read_text()
    assert text.count(r"\\") == 1 + len(run.events)
    text = sl.write([{"l_1": 2.5e-9, "what": "50 % & more", "n": 3}], tmp_path / "t.tex").read_text()
    assert r"l\_1" in text
    assert r"$2.5 \cdot 10^{-9}$ & 50 \% \& more & 3 \\" in text


def test_records(tmp_path):
    records = [{"a": 0.1, "b": "x"}, {"a": 1 / 3, "b": "y"}]
    assert json.loads(sl.write(records, tmp_path / "t.json").read_text()) == records
    with sl.write(records, tmp_path / "t.csv").open() as file:
        assert [float(r["a"]) for r in csv.DictReader(file)] == [0.1, 1 / 3]
    with pytest.raises(sl.errors.BadValue, match="same names"):
        sl.write([{"a": 1}, {"b": 2}], tmp_path / "t.csv")
    with pytest.raises(sl.errors.BadValue, match="ends in"):
        sl.write(records, tmp_path / "t.xls")
