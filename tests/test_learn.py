"""Environments: the checkers of Gymnasium and stable-baselines3, autoreset, seeds, noise and delay."""

import ctypes
import dataclasses
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import saltus as sl

gymnasium = pytest.importorskip("gymnasium")


@pytest.fixture(scope="module")
def task():
    return sl.learn.task("bolt-run")


def test_environments_say_that_they_are_slow_without_a_compiler(monkeypatch):
    monkeypatch.setenv("SALTUS_CC", "none")
    with pytest.warns(RuntimeWarning, match="without a C compiler"):
        env = sl.learn.VectorEnv("hopper", copies=2)
    assert env.reset(seed=0)[0].shape[0] == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["bolt-run", "hopper", "biped", "rat-righting", "quadruped"])
def test_gymnasium_and_stable_baselines_accept_them(name):
    from gymnasium.utils.env_checker import check_env

    env = sl.learn.Env(name, render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    assert env.render().ndim == 3
    many = sl.learn.VectorEnv(env.task, 8, threads=1)
    many.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        seen, rewards, *_ = many.step(rng.uniform(-1, 1, many.action_space.shape))
        assert np.isfinite(seen).all()
        assert np.isfinite(rewards).all()
    assert not many.copies.batch.lost.any()
    baselines = pytest.importorskip("stable_baselines3.common.env_checker")
    baselines.check_env(env)


def test_every_task_is_registered():
    assert set(sl.learn.TASKS) == {"bolt-run", "hopper", "biped", "rat-righting", "quadruped"}


def cart():
    m = sl.Mechanism("cart")
    body = m.link("body", mass=2.0)
    m.slide("x", m.ground, body, axes="x", motor=sl.Motor(torque=6.0))
    m.force("wind", body.at(0, 0), [m.input("wind"), 0.0])
    return m


def test_a_machine_of_ones_own():
    """Without control, starts or range: efforts of the motors within their limits, from the assembled state."""
    m = cart()
    own = {"observe": lambda t, s: [s.q.x, s.v.x], "reward": lambda t, s, a: -(s.q.x**2), "pushes": {"wind": (0, 0)}}
    env = sl.learn.Env(m, until=lambda t, s: s.q.x > 0.5, **own)
    env.reset(seed=0)
    assert env.action_space.shape == (1,)
    seen = env.step(np.array([0.5]))[0]
    assert seen == pytest.approx([1.5 * 0.01**2 / 2, 1.5 * 0.01], rel=1e-5)
    with pytest.raises(sl.errors.BadValue, match="low and high"):
        sl.learn.Env(m, **own | {"pushes": {}})


def test_pushes_come_now_and_then_and_last():
    """Impulses of a wind on carts that nobody drives: their share of the time, their size, from one seed."""
    own = {"observe": lambda t, s: [s.v.x], "reward": lambda t, s, a: s.q.x}

    def speeds(seed, threads=1):
        env = sl.learn.VectorEnv(
            cart(), 400, threads=threads, pushes={"wind": (10.0, 10.0)}, pushed=(1.0, 0.05), seconds=9.0, **own
        )
        env.reset(seed=seed)
        return np.array([env.step(np.zeros((400, 1)))[0][:, 0] for _ in range(200)])

    one = speeds(3)
    gains = np.diff(one, axis=0)
    assert gains.max() == pytest.approx(10.0 * 0.01 / 2.0, rel=1e-4)
    pushed = gains.mean() / gains.max()
    assert pushed == pytest.approx(0.05 / 1.05, rel=0.1)  # a calm of a second in the mean, then 0.05 s
    assert (speeds(3, 2) == one).all()
    assert not (speeds(4) == one).all()


def test_copies_have_grounds_of_their_own(task):
    grounds = [sl.ground.Level(0.0), sl.ground.Level(-0.05)]
    many = sl.learn.VectorEnv(task, 5, threads=1, ground=grounds)
    many.reset(seed=0)
    assert [g.offset for g in many.copies.batch.grounds] == [0.0, -0.05, 0.0, -0.05, 0.0]


def test_registered_by_name():
    assert sl.learn.Env  # importing sl.learn registers its tasks
    env = gymnasium.make("saltus/bolt-run-v0")
    assert env.unwrapped.task.machine.name == "BOLT"
    many = gymnasium.make_vec("saltus/bolt-run-v0", num_envs=3)
    assert many.num_envs == 3
    with pytest.raises(sl.errors.UnknownName):
        sl.learn.Env("bolt-swim")


def test_an_episode_is_what_simulate_says(task):
    """Actions held for 10 ms in a batch, and the same law with the same table of actions in the event-exact run."""
    fine = dataclasses.replace(task, tolerance=1e-9)
    env = sl.learn.Env(fine)
    env.reset(seed=4)
    start = env.state
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.3, 0.3, (25, 1))
    seen = [env.step(a)[0] for a in actions]
    held = -40.0 + 35.0 * actions
    law = sl.control.Scheduled(task.control, 0.01 * np.arange(25), held)
    run = sl.simulate(task.machine, start, until=0.25, control=law, tolerance=1e-11)
    assert run.outcome.ok
    assert env.state.positions == pytest.approx(run.end.positions, abs=1e-5)
    assert seen[-1][1] == pytest.approx(run.end.velocities[0], abs=1e-4)


def test_copies_that_fall_start_again_within_the_step(task):
    falls = dataclasses.replace(task, until=lambda t, s: s.q["boom.y"] < 0.42, seconds=0.3)
    many = sl.learn.VectorEnv(falls, 16, threads=1)
    first, _ = many.reset(seed=2)
    over = np.zeros(16, bool)
    cut = np.zeros(16, bool)
    for _ in range(40):
        seen, rewards, terminated, truncated, infos = many.step(np.zeros((16, 1)))
        ended = terminated | truncated
        over, cut = over | terminated, cut | truncated
        assert np.isfinite(seen).all()
        assert rewards.shape == (16,)
        if ended.any():
            k = int(np.flatnonzero(ended)[0])
            assert infos["_final_obs"].tolist() == ended.tolist()
            assert infos["final_obs"][k].shape == first[k].shape
            assert not np.allclose(infos["final_obs"][k], seen[k])
            assert many.copies.batch.t[k] == 0.0
    assert over.any()
    assert not (terminated & truncated).any()


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(task):
    noisy = dataclasses.replace(task, noise=0.01, delay=2, seconds=0.1)

    def episode(threads, seed):
        many = sl.learn.VectorEnv(noisy, 80, threads=threads)
        many.reset(seed=seed)
        return [many.step(np.full((80, 1), 0.1))[0] for _ in range(15)]

    one, two, other = episode(1, 5), episode(2, 5), episode(1, 6)
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert not (one[0] == other[0]).all()


def test_observations_come_late_and_noisy(task):
    plain = sl.learn.VectorEnv(task, 200, threads=1)
    late = sl.learn.VectorEnv(dataclasses.replace(task, delay=2), 200, threads=1)
    noisy = sl.learn.VectorEnv(dataclasses.replace(task, noise=0.05), 200, threads=1)
    a, b, c = (x.reset(seed=1)[0] for x in (plain, late, noisy))
    assert (a == b).all()
    assert np.std(c - a) == pytest.approx(0.05, rel=0.1)
    history = [a] + [plain.step(np.zeros((200, 1)))[0] for _ in range(4)]
    delayed = [late.step(np.zeros((200, 1)))[0] for _ in range(4)]
    assert (delayed[3] == history[2]).all()


def test_params_are_drawn_for_every_episode(task):
    many = sl.learn.VectorEnv(task, 500, threads=1)
    many.reset(seed=0)
    drawn = many.copies.batch.state.params[:, list(task.machine.params).index("command")]
    low, high = task.params["command"]
    assert drawn.min() > low
    assert drawn.max() < high
    assert np.ptp(drawn) > 0.9 * (high - low)


def test_a_task_that_cannot_be_is_refused(task):
    for change, said in (({"low": (1.0,), "high": (0.0,)}, "low"), ({"delay": -1}, "delay")):
        with pytest.raises(sl.errors.BadValue, match=said):
            dataclasses.replace(task, **change)


TRAINING = """
import sys
from saltus.learn import training
tell = lambda row: print(row["samples"], flush=True)
training.train("bolt-run", sys.argv[1], seconds=1e6, copies=64, every=0.0, tell=tell)
"""


def test_training_that_is_killed_loses_no_more_than_one_checkpoint(tmp_path):
    """kill -9 while it learns; the second call goes on from what was kept, its clock and its samples included."""
    training = pytest.importorskip("saltus.learn.training")
    with subprocess.Popen([sys.executable, "-c", TRAINING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        told = [int(child.stdout.readline()) for _ in range(3)]
        child.kill()
    assert child.returncode == -signal.SIGKILL
    kept = training.progress(tmp_path)
    assert int(kept[-1]["samples"]) >= told[-2]
    model = training.train("bolt-run", tmp_path, seconds=float(kept[-1]["seconds"]) + 0.2, copies=64, every=0.0)
    rows = training.progress(tmp_path)
    assert rows[: len(kept)] == kept
    assert int(rows[len(kept)]["samples"]) > int(kept[-1]["samples"])
    assert model.num_timesteps == int(rows[-1]["samples"])
    policy = training.policy_of(model)
    seen = np.random.default_rng(0).normal(size=7)
    mean = model.predict(seen.astype(np.float32), deterministic=True)[0]
    assert policy(seen) == pytest.approx(mean, abs=1e-5)


def test_a_policy_in_c_is_the_policy(task, tmp_path):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    rng = np.random.default_rng(1)
    policy = sl.learn.Policy([(rng.normal(size=(n, m)), rng.normal(size=n)) for n, m in ((5, 7), (4, 5), (1, 4))])
    policy.export(task, tmp_path)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "policy.c", "-o", "policy.so", "-lm"], cwd=tmp_path, check=True)
    function = ctypes.CDLL(str(tmp_path / "policy.so")).policy
    for seen in rng.normal(size=(20, 7)):
        out = np.zeros(1)
        function(seen.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
        assert out == pytest.approx(-40.0 + 35.0 * policy(seen), rel=1e-12)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_machine_with_its_policy_in_c_steps_as_simulate_does(task, tmp_path):
    """The network is traced into the law, so that C, batch and simulate run the same expression."""
    from tests.test_ccode import Contacts

    rng = np.random.default_rng(2)
    policy = sl.learn.Policy([(0.4 * rng.normal(size=(n, m)), np.zeros(n)) for n, m in ((8, 7), (1, 8))])
    law, start = policy.law(task), task.starts[4]
    stepper = Contacts(task.machine, tmp_path, start, control=law)
    q, events, _ = stepper.run(None, 0.2, 200, tolerance=1e-9)
    run = sl.simulate(task.machine, start, until=0.2, control=law, tolerance=1e-11)
    assert len(run.events) >= 1
    assert events >= len(run.events)
    assert np.abs((q - run.end.positions) / (1 + np.abs(q))).max() < 1e-6  # a crank two turns on, and limits have kinks
    env = sl.learn.Env(task)
    env.reset(seed=0)
    asked = policy(env.copies.observed[0].astype(float))
    m, at = task.machine, env.state
    one = sl.simulate(m, at, until=1e-4, control=law, tolerance=1e-11)
    speed = -40.0 + 35.0 * asked[0]
    effort = speed - at.velocities[m.v_names.index("q1")]
    assert 0.1 < abs(effort) < 30.0  # within the motor's limit
    assert one.torques["q1"][0] == pytest.approx(effort, rel=1e-5)


def test_a_policy_is_judged_by_the_exact_simulator(task, tmp_path):
    training = pytest.importorskip("saltus.learn.training")
    still = sl.learn.Policy([(np.zeros((1, 7)), np.zeros(1))])
    found, run = training.judge(still, task, seconds=0.3, seed=3)
    env = sl.learn.Env(dataclasses.replace(task, tolerance=1e-9))
    env.reset(seed=3)
    begin = env.state
    for _ in range(30):
        env.step(np.zeros(1))
    assert found.seconds == pytest.approx(0.3)
    assert found.speed == pytest.approx((env.state.positions[0] - begin.positions[0]) / 0.3, abs=1e-4)
    assert found.touches >= 1
    assert found.energy > 0
    assert run.end.positions == pytest.approx(env.state.positions, abs=1e-4)
    (tmp_path / "progress.csv").write_text("samples,seconds,reward,length\n1,1,0,1\n2,2,1,2\n")
    rows = training.judged(still, task, tmp_path, seconds=0.1)
    assert [r.command for r in rows] == pytest.approx([0.8, 1.5, 2.2])
    written = {"judgement.json", "report.html", "learning.png", "policy.c", "machine"}
    assert written <= {x.name for x in tmp_path.iterdir()}
    assert not training.confirmed(still, dataclasses.replace(task, strides=10**6))
    assert [x.params["command"][0] for x in training.commanded(task)] == pytest.approx([0.8, 1.5, 2.2])
