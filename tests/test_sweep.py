"""Sweeps: nothing lost, nothing twice, the same for any number of workers, on processes and on a real Dask cluster."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import saltus as sl
import sweep_tasks
from saltus.errors import BadFile, BadValue
from saltus.sweeps import Each, grid, scattered
from saltus.sweeps.workers import pool_of

HERE = Path(__file__).parent
POINTS = {"a": np.arange(40.0)}


def environment(log):
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(HERE), os.environ.get("PYTHONPATH")])
        ),  # "" is the folder one is in
        "SWEEP_LOG": str(log),
    }


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def right(data):
    assert data.done.all()
    assert (data.square.values == POINTS["a"] ** 2).all()
    assert (data.pair.values == np.column_stack([POINTS["a"], -POINTS["a"]])).all()
    expected = [np.random.default_rng([7, i]).random() for i in range(40)]
    assert (data.dice.values == expected).all()


def done_in(store):
    """Chunks marked done: each is one file of the `done` array."""
    folder = store / "done" / "c"
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) if folder.exists() else []


def test_same_for_any_number_of_workers_and_any_chunk(tmp_path):
    for workers, chunk in ((1, 7), (2, 3), (2, None)):
        right(
            sl.sweep(sweep_tasks.quick, POINTS, tmp_path / f"{workers}-{chunk}", workers=workers, chunk=chunk, seed=7)
        )


def test_progress_counts_up_to_the_end(tmp_path):
    seen = []
    sl.sweep(sweep_tasks.quick, POINTS, tmp_path / "s", workers=1, chunk=10, seed=7, progress=lambda *a: seen.append(a))
    assert [s[0] for s in seen] == [10, 20, 30, 40]
    assert all(total == 40 and rate > 0 for _, total, rate, _ in seen)
    assert seen[-1][3] == 0


def test_errors_of_one_point_do_not_end_the_sweep(tmp_path):
    data = sl.sweep(Each(sweep_tasks.root), {"a": [4.0, -1.0, 9.0]}, tmp_path / "s", workers=1)
    assert data.failed.values.tolist() == [0, 1, 0]
    assert data.root.values[[0, 2]].tolist() == [2, 3]
    assert np.isnan(data.root.values[1])


CLIENT = """
import sys, numpy as np, sweep_tasks, saltus as sl
if __name__ == "__main__":
    sl.sweep(sweep_tasks.slow, {"a": np.arange(40.0)}, sys.argv[1], workers=2, chunk=2, seed=7)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_client_killed_then_resumed(tmp_path, how, monkeypatch):
    store, log, script = tmp_path / "store", tmp_path / "log", tmp_path / "client.py"
    script.write_text(CLIENT)
    slowly = environment(log) | {"SWEEP_PAUSE": "1.0"}  # so that a busy machine does not finish it before the signal
    client = subprocess.Popen(
        [sys.executable, str(script), str(store)],
        env=slowly,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a job in the background ignores
    )
    wait_for(lambda: len(done_in(store)) >= 4)
    client.send_signal(how)
    client.wait()
    kept = done_in(store)
    assert 4 <= len(kept) < 20
    partial = sl.read(store)
    assert partial.done.values.sum() == 2 * len(kept)
    workers = {int(line.split()[1]) for line in log.read_text().splitlines() if len(line.split()) == 2}

    def gone():
        return not any(Path(f"/proc/{pid}").exists() for pid in workers)

    wait_for(gone)
    before = log.read_text()
    monkeypatch.setenv("SWEEP_LOG", str(log))
    right(sl.sweep(sweep_tasks.slow, POINTS, store, workers=2, seed=7))
    again = [int(float(line.split()[0])) // 2 for line in log.read_text()[len(before) :].splitlines()]
    assert not set(again) & set(kept), "a finished chunk was computed again"


def test_worker_that_dies_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_LOG", str(tmp_path / "died"))
    data = sl.sweep(sweep_tasks.dies, POINTS, tmp_path / "s", workers=2, chunk=2)
    assert (tmp_path / "died").exists()
    assert (data.square.values == POINTS["a"] ** 2).all()


def test_workers_are_replaced_whose_pipes_close_while_another_is_started():
    """As they do where one dies between two chunks that are sent off."""
    with pool_of(1, None) as pool:
        pool._pool._call_queue._reader.close()
        outputs, _ = pool.submit(pickle.dumps(sweep_tasks.quick), {"a": POINTS["a"]}, 0, 0).result(timeout=60)
    assert (outputs["square"] == POINTS["a"] ** 2).all()


def test_dask_cluster_with_a_worker_killed(tmp_path):
    log, store, info = tmp_path / "log", tmp_path / "store", tmp_path / "scheduler.json"
    env = environment(log)
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(info),
    ]
    processes = [subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)]
    try:
        wait_for(info.exists)
        join = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            "--scheduler-file",
            str(info),
            "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--host",
            "127.0.0.1",
        ]
        processes += [subprocess.Popen(join, env=env, stderr=subprocess.DEVNULL, cwd=tmp_path) for _ in range(2)]
        address = json.loads(info.read_text())["address"]
        script = tmp_path / "client.py"
        script.write_text(CLIENT.replace("workers=2", f"scheduler={address!r}"))
        client = subprocess.Popen([sys.executable, str(script), str(store)], env=env)
        wait_for(lambda: len(done_in(store)) >= 4)
        processes[1].kill()
        assert len(done_in(store)) < 20
        assert client.wait(120) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    right(sl.read(store))


def test_command_line(tmp_path):
    command = [
        sys.executable,
        "-m",
        "saltus.cli.app",
        "sweep",
        "four-bar",
        "--driver",
        "crank",
        "--point",
        "tracer",
        "--vary",
        "l_1=0.03:0.05",
        "--runs",
        "64",
        "--workers",
        "1",
        "--out",
        str(tmp_path / "s"),
        "--json",
    ]
    first, again = (json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(2))
    assert first["runs"] == 64
    assert 0.05 < first["stride_length"][1] < 0.5
    assert first["stride_length"] == again["stride_length"]
    wrong = subprocess.run([*command, "--vary", "l_2=3"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "PARAM=LOW:HIGH" in wrong.stderr


def test_command_line_runs_machines_with_feet_as_copies(tmp_path):
    command = [sys.executable, "-m", "saltus.cli.app", "sweep", "runner", "--vary", "pace=-28:-20", "--runs", "8"]
    command += ["--strides", "2", "--workers", "1", "--out", str(tmp_path / "s"), "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert found["completed"] == [2.0, 2.0, 2.0]
    assert found["normal_min"] is None
    data = sl.read(tmp_path / "s")
    gait = sl.design.GaitTask(sl.zoo.runner, strides=2).gait({"pace": float(data.pace[3])})
    assert float(data.speed[3]) == pytest.approx(gait.speed, rel=1e-4)
    assert float(data.impact_loss[3]) == pytest.approx(gait.impact_loss, rel=1e-3)


def test_first_points_that_fail_do_not_hide_what_the_task_returns(tmp_path):
    data = sl.sweep(Each(sweep_tasks.root), {"a": [-1.0] * 9 + [4.0]}, tmp_path / "s", workers=1, chunk=3)
    assert data.root.values[-1] == 2
    assert data.failed.values.sum() == 9


def test_every_flipped_bit_of_a_store_is_found_and_repaired(tmp_path):
    """One flip in every file of a store: reading says so or gives the same numbers, the same sweep puts it right."""
    store = tmp_path / "s"
    right(sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, chunk=8, seed=7))
    rng = np.random.default_rng(0)
    found = 0
    for file in sorted(p for p in store.rglob("*") if p.is_file() and p.name != ".lock"):
        whole = file.read_bytes()
        at = int(rng.integers(len(whole)))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
        try:
            right(sl.read(store))
        except BadFile:
            found += 1
        file.write_bytes(whole)
    assert found > 20
    # what can be computed again is
    for name in ("square", "dice", "pair"):
        chunk = sorted((store / name / "c").rglob("*"))[1]
        if chunk.is_file():
            chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    with pytest.raises(BadFile, match="the same sweep computes them again"):
        sl.read(store)
    right(sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, seed=7))
    right(sl.read(store))


def test_a_deleted_or_exchanged_chunk_is_not_done(tmp_path):
    store = tmp_path / "s"
    right(sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, chunk=4, seed=7))
    (store / "square" / "c" / "2").unlink()
    with pytest.raises(BadFile, match=r"points 8 to 11 \(chunk 2\)"):
        sl.read(store)
    right(sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, seed=7))
    one, two = store / "square" / "c" / "3", store / "square" / "c" / "4"
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    with pytest.raises(BadFile, match="chunk 3"):
        sl.read(store)


def test_not_a_numbers_of_any_bits_are_kept(tmp_path):
    data = sl.sweep(sweep_tasks.strange, {"a": np.arange(8.0)}, tmp_path / "s", workers=1, chunk=2)
    assert np.isnan(data.odd.values).all()
    assert np.isnan(sl.read(tmp_path / "s").half.values).tolist() == [True] * 4 + [False] * 4


def test_foreign_codecs_and_huge_shapes_are_refused_unread(tmp_path):
    store = tmp_path / "s"
    sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, seed=7)
    meta = store / "square" / "zarr.json"
    good = json.loads(meta.read_text())
    grid = {"name": "regular", "configuration": {"chunk_shape": [10**12]}}
    packed = [*good["codecs"], {"name": "zstd", "configuration": {"level": 0}}]  # a little of it may hold very much
    foreign = [{"name": "numcodecs.pickle", "configuration": {}}]
    for change in ({"codecs": foreign}, {"codecs": packed}, {"shape": [10**12]}, {"chunk_grid": grid}):
        meta.write_text(json.dumps({**good, **change}))
        with pytest.raises(BadFile, match="square"):
            sl.read(store)


@pytest.mark.parametrize("name", ["square/c/1", "square/zarr.json"])
def test_a_file_longer_than_it_may_be_is_refused_unread(tmp_path, name):
    """A terabyte of nothing, which takes no room on a disk: reading it would end the process."""
    store = tmp_path / "s"
    right(sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, chunk=8, seed=7))
    with (store / name).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadFile, match=f"{name} has {1 << 40} bytes"):
        sl.read(store)


def test_workers_killed_while_the_first_points_are_tried_are_named(tmp_path):
    with pytest.raises(BadValue, match="lost their worker"):
        sl.sweep(sweep_tasks.ends, POINTS, tmp_path / "s", workers=1)


def test_second_client_is_refused_while_the_first_writes(tmp_path):
    from saltus.sweeps.store import alone

    with alone(tmp_path / "s"), pytest.raises(BadFile, match="another process"):
        sl.sweep(sweep_tasks.quick, POINTS, tmp_path / "s", workers=1)


def test_other_points_or_foreign_directories_are_refused(tmp_path):
    sl.sweep(sweep_tasks.quick, POINTS, tmp_path / "s", workers=1, seed=7)
    with pytest.raises(BadFile, match="another sweep"):
        sl.sweep(sweep_tasks.quick, POINTS, tmp_path / "s", workers=1, seed=8)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(BadFile, match="something else"):
        sl.sweep(sweep_tasks.quick, POINTS, tmp_path / "other", workers=1)
    with pytest.raises(BadFile, match="does not exist"):
        sl.read(tmp_path / "nowhere")
    with pytest.raises(BadFile, match="no sweep"):
        sl.read(tmp_path / "other")


def test_wrong_requests_are_said_plainly(tmp_path):
    with pytest.raises(BadValue, match="same number"):
        sl.sweep(sweep_tasks.quick, {"a": [1.0], "b": [1.0, 2.0]}, tmp_path / "s")
    with pytest.raises(BadValue, match="module"):
        sl.sweep(lambda points, generators: {}, POINTS, tmp_path / "s")
    with pytest.raises(BadValue, match="no Dask scheduler"):
        sl.sweep(sweep_tasks.quick, POINTS, tmp_path / "s", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(BadValue, match="lower"):
        scattered({"a": (2.0, 1.0)}, 8)


def test_points():
    assert {k: v.tolist() for k, v in grid(a=[1, 2], b=[3, 4]).items()} == {"a": [1, 1, 2, 2], "b": [3, 4, 3, 4]}
    points = scattered({"a": (0.0, 1.0), "b": (10.0, 20.0)}, 64, seed=3)
    assert np.histogram(points["a"], 8, (0, 1))[0].tolist() == [8] * 8  # Sobol: equally many in every eighth
    assert points["b"].min() >= 10
    assert points["b"].max() <= 20
    again = scattered({"a": (0.0, 1.0), "b": (10.0, 20.0)}, 64, seed=3)
    assert (points["a"] == again["a"]).all()


def test_linkages_and_gaits_as_tasks(tmp_path):
    """Grashof: a crank of 0.13 m is too long to turn, shortest + longest = 0.08 + 0.13 > 0.10 + 0.10."""
    task = sl.design.LinkageTask(sl.zoo.four_bar, "crank", "tracer")
    data = sl.sweep(task, {"l_1": np.array([0.03, 0.04, 0.13])}, tmp_path / "s", workers=1)
    assert data.assembles.values.tolist() == [1, 1, 0]
    assert np.isnan(data.stride_length.values[2])
    assert data.gap.values[2] > 0
    gait = sl.design.GaitTask(sl.zoo.bolt, strides=2)({"l_1": np.array([0.02, 0.2])})
    assert gait["completed"].tolist() == [2, 0]


def test_a_store_of_links_and_pipes_is_refused(tmp_path):
    """They lead out of the store, or are never read to an end."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / ".lock").symlink_to(precious)
    with pytest.raises(BadFile, match="cannot write"):
        sl.sweep(sweep_tasks.quick, POINTS, trap, workers=1)
    assert precious.read_text() == "mine"
    store = tmp_path / "s"
    sl.sweep(sweep_tasks.quick, POINTS, store, workers=1, chunk=20)
    (store / "square" / "c" / "0").unlink()
    os.mkfifo(store / "square" / "c" / "0")
    with pytest.raises(BadFile, match="no plain file"):
        sl.read(store)


HOSTILE = ("threading", "pickle", "struct", "tempfile", "signal", "socket", "copyreg", "numpy", "saltus", "casadi")
VISITOR = """
import sys
import time
import saltus as sl
import sweep_tasks
from functools import partial
from saltus.cli.machines import model_of
from saltus.studio.worker import Worker
if __name__ == "__main__":
    print(sl.sweep(sweep_tasks.quick, {"a": [1.0, 2.0]}, sys.argv[1], workers=1).square.values.sum())
    worker = Worker(partial(model_of, "hopper"))
    worker.do("run", start="takeoff", control="none", formulation="SPF", domain="flight", until=0.1, params={})
    while worker.busy:
        for kind, word in worker.read():
            print(kind)
        time.sleep(0.05)
    worker.close()
"""


def test_workers_run_nothing_of_the_folder_one_is_in(tmp_path):
    """A folder of somebody's results holds modules with the names of those that a worker needs as it starts."""
    folder, script = tmp_path / "results", tmp_path / "mine" / "script.py"
    folder.mkdir()
    script.parent.mkdir()
    script.write_text(VISITOR)
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write('{name} ')\nraise ImportError")
    command = [sys.executable, str(script), str(tmp_path / "store")]
    env = environment(tmp_path / "log")
    out = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert not (tmp_path / "RAN").exists()
    assert out.stdout.split()[0] == "5.0", out.stderr
    assert out.stdout.split()[-1] == "result"
