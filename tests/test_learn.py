"""Environments: the checkers of Gymnasium and stable-baselines3, autoreset, seeds, noise and delay."""

import dataclasses

import numpy as np
import pytest

import saltus as sl

gymnasium = pytest.importorskip("gymnasium")


@pytest.fixture(scope="module")
def task():
    return sl.learn.task("bolt-run")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_and_stable_baselines_accept_it(task):
    from gymnasium.utils.env_checker import check_env

    env = sl.learn.Env(task, render_mode="rgb_array")
    check_env(env, skip_render_check=False)
    baselines = pytest.importorskip("stable_baselines3.common.env_checker")
    baselines.check_env(env)
    assert env.render().ndim == 3


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
    for change, said in (({"low": (1.0,), "high": (0.0,)}, "low"), ({"starts": []}, "start"), ({"delay": -1}, "delay")):
        with pytest.raises(sl.errors.BadValue, match=said):
            dataclasses.replace(task, **change)


def test_training_goes_on_where_it_was_killed(tmp_path):
    """Every checkpoint is whole; a second call goes on from it, its clock and its samples included."""
    training = pytest.importorskip("saltus.learn.training")
    rows = []
    training.train("bolt-run", tmp_path, seconds=2.0, copies=64, every=0.0, tell=rows.append)
    first = training._rows(tmp_path / "progress.csv")
    assert len(first) > 1
    (tmp_path / "checkpoint.part.zip").write_bytes(b"torn")  # what a kill while writing leaves behind
    longer = float(first[-1]["seconds"]) + 2.0
    model = training.train("bolt-run", tmp_path, seconds=longer, copies=64, every=0.0, tell=rows.append)
    second = training._rows(tmp_path / "progress.csv")
    assert second[: len(first)] == first
    assert float(second[len(first)]["samples"]) > float(first[-1]["samples"])
    assert model.num_timesteps == int(second[-1]["samples"])
    assert training.curve(tmp_path).exists()
    policy = training.Policy.of(model)
    seen = np.random.default_rng(0).normal(size=7)
    mean = model.predict(seen.astype(np.float32), deterministic=True)[0]
    assert policy(seen) == pytest.approx(mean, abs=1e-5)


def test_a_policy_is_judged_by_the_exact_simulator(task):
    training = pytest.importorskip("saltus.learn.training")
    still = training.Policy([(np.zeros((1, 7)), np.zeros(1))])
    found = training.judge(still, task, seconds=0.3, seed=3)
    env = sl.learn.Env(dataclasses.replace(task, tolerance=1e-9))
    env.reset(seed=3)
    begin = env.state
    for _ in range(30):
        env.step(np.zeros(1))
    assert found.seconds == pytest.approx(0.3)
    assert found.speed == pytest.approx((env.state.positions[0] - begin.positions[0]) / 0.3, abs=1e-4)
    assert found.touches >= 1
    assert found.energy > 0
