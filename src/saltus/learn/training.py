"""Training: PPO of stable-baselines3 on a batch of copies, with checkpoints, and judgement by `simulate`."""

from __future__ import annotations

import csv
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

import saltus as sl
from saltus.learn.environments import Env, VectorEnv
from saltus.learn.policy import Policy
from saltus.learn.task import Task
from saltus.learn.tasks import task as named

STEPS, BATCH, EPOCHS = 32, 4096, 5
SHAPE = (64, 64)
LASTING = 0.9  # of an episode: those that last so long in the mean make a policy worth a look by `simulate`
NEARLY = 0.3  # of the commanded speed: so far off it is still followed
JUDGED, SHOWN = 12.0, 2.0  # s of a run that judges a policy, and of it that its report shows
FIELDS = ("samples", "seconds", "processor", "reward", "length")


class Copies(VecEnv):
    """A VectorEnv behind the interface of stable-baselines3."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        self.env = env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self._actions = np.zeros(0)

    def reset(self) -> np.ndarray:
        """Start all copies."""
        return self.env.reset(seed=self._seeds[0])[0]

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Do them."""
        seen, rewards, over, cut, found = self.env.step(self._actions)
        ended = over | cut
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for k in np.flatnonzero(ended):
            infos[k] = {"terminal_observation": found["final_obs"][k], "TimeLimit.truncated": bool(cut[k])}
        return seen, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        """Nothing is held."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute, the same for all copies."""
        return [getattr(self.env, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: copies have no attributes of their own."""
        raise NotImplementedError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Refuse: copies have no methods of their own."""
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Say that nothing is wrapped."""
        return [False] * self.num_envs


class _Watch(BaseCallback):
    """Counts rewards of whole episodes, writes a line and a checkpoint now and then, and ends in time."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        every: float,
        tell: Callable[[dict[str, float]], None],
        task: Task,
    ) -> None:
        super().__init__()
        self.folder, self.limit, self.every, self.tell, self.task = folder, seconds, every, tell, task
        self.learned = False
        self.spent, self.worked = (float(_last(folder).get(name, 0.0)) for name in ("seconds", "processor"))
        self.begun = self.kept = time.monotonic()
        self.worked -= time.process_time()

    def _on_training_start(self) -> None:
        n = self.training_env.num_envs
        self.sums, self.counts = np.zeros(n), np.zeros(n, int)
        self.ended: list[tuple[float, float]] = []

    def _on_step(self) -> bool:
        self.sums += self.locals["rewards"]
        self.counts += 1
        done = self.locals["dones"]
        self.ended += list(zip(self.sums[done].tolist(), self.counts[done].tolist(), strict=True))
        self.sums[done], self.counts[done] = 0.0, 0
        return not self.learned and self.spent + time.monotonic() - self.begun < self.limit

    @property
    def row(self) -> dict[str, float]:
        """A line of the learning curve: means over the last thousand episodes, NaN before the first has ended.

        Seconds since it began, and of the processor, all threads together.
        """
        self.ended = self.ended[-1000:]
        reward, length = np.array(self.ended or [(math.nan, math.nan)]).mean(axis=0)
        return {
            "samples": self.num_timesteps,
            "seconds": round(self.spent + time.monotonic() - self.begun, 1),
            "processor": round(self.worked + time.process_time(), 1),
            "reward": round(float(reward), 3),
            "length": round(float(length), 1),
        }

    def _on_rollout_end(self) -> None:
        self.tell(self.row)
        if time.monotonic() - self.kept > self.every:
            keep(self.model, self.folder, self.row)
            whole = self.task.seconds / (self.task.step * self.task.times)
            if self.task.strides and self.row["length"] >= LASTING * whole:  # not worth a look before
                assert isinstance(self.model, PPO)
                self.learned = confirmed(policy_of(self.model), self.task)
            self.kept = time.monotonic()


def keep(model: BaseAlgorithm, folder: Path, row: dict[str, float]) -> None:
    """Write a checkpoint so that no reader ever sees half of one, then its line of the learning curve."""
    part = folder / "checkpoint.part.zip"
    model.save(part)
    os.replace(part, folder / "checkpoint.zip")
    rows = [r for r in progress(folder) if float(r["samples"]) < row["samples"]] + [row]
    part = folder / "progress.part.csv"
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, folder / "progress.csv")


def progress(folder: str | Path) -> list[dict[str, Any]]:
    """Lines of the learning curve that were kept."""
    path = Path(folder) / "progress.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _last(folder: Path) -> dict[str, Any]:
    rows = progress(folder)
    return rows[-1] if rows and (folder / "checkpoint.zip").exists() else {}


def train(
    task: str | Task,
    folder: str | Path,
    *,
    seconds: float = 600.0,
    samples: int | None = None,
    copies: int = 1024,
    every: float = 20.0,
    seed: int = 0,
    shape: Sequence[int] = SHAPE,
    tell: Callable[[dict[str, float]], None] = lambda row: None,
    world: Any = None,
) -> PPO:
    """Train a policy for so many seconds in all, a checkpoint `every` so many; what `folder` holds is gone on with.

    It ends after so many `samples`, too, rounded up to whole batches: without a limit of time the same seed gives the
    same policy. Where the task says how many strides are enough, training ends as soon as `simulate` confirms them.
    `shape` are the sizes of its layers of tanh, `world` is a vector environment in place of a batch of `copies`.
    """
    made = named(task) if isinstance(task, str) else task
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # the network is small: a second thread waits more than it computes
    env = Copies(world or VectorEnv(made, copies, seed=seed))
    copies = env.num_envs
    env.seed(seed)
    done = _last(folder)
    if done:
        model = PPO.load(folder / "checkpoint.zip", env=env, device="cpu")
    else:
        model = PPO(
            "MlpPolicy",
            env,
            n_steps=STEPS,
            batch_size=min(BATCH, STEPS * copies),
            n_epochs=EPOCHS,
            learning_rate=3e-4,
            gamma=0.98,
            policy_kwargs={"net_arch": list(shape), "activation_fn": torch.nn.Tanh, "log_std_init": -0.7},
            seed=seed,
            device="cpu",
        )
    watch = _Watch(folder, seconds, every, tell, made)
    left = (samples or 10**12) - model.num_timesteps
    if watch.spent < seconds and left > 0:
        model.learn(left, callback=watch, reset_num_timesteps=not done)
        keep(model, folder, watch.row)
    return model


# ---- what it learned ----------------------------------------------------------------------------------------------


def policy_of(model: PPO) -> Policy:
    """Take the weights out of a model."""
    net = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
    linear = [x for x in net if isinstance(x, torch.nn.Linear)]
    return Policy([(x.weight.detach().numpy().astype(float), x.bias.detach().numpy().astype(float)) for x in linear])


@dataclass(frozen=True)
class Judgement:
    """What a policy did in the event-exact simulator.

    Commanded speed (m/s), seconds it lasted, speed (m/s), touches of the ground, positive work of its motors per metre
    (J/m), reward, and how it ended: "lasted", "fell", or what `simulate` says.
    """

    command: float
    seconds: float
    speed: float
    touches: int
    energy: float
    reward: float
    ended: str


def commanded(task: Task) -> list[Task]:
    """The task with the least, the middle and the largest of its ranges of Params in place of them."""
    return [
        replace(task, params={name: (low + share * (high - low),) * 2 for name, (low, high) in task.params.items()})
        for share in (0.0, 0.5, 1.0)
    ]


def confirmed(policy: Policy, task: Task) -> bool:
    """Whether a policy does what its task asks for, through the range of commands, in `simulate`."""
    return all(enough(judge(policy, asked, seconds=JUDGED)[0], task) for asked in commanded(task))


def enough(found: Judgement, task: Task) -> bool:
    """Whether it lasted, with as many touches of the ground as its task asks for, and near the commanded speed."""
    runs = abs(found.speed - found.command) <= NEARLY * found.command
    return found.ended == "lasted" and found.touches >= task.strides and runs


def judge(policy: Policy, task: Task, *, seconds: float, seed: int = 0) -> tuple[Judgement, sl.Trajectory]:
    """Run one episode of a task in the event-exact simulator; what came out, and its last seconds as one run."""
    calm = replace(task, seconds=seconds, noise=0.0, pushes={name: (0.0, 0.0) for name in task.pushes})
    env = Env(calm, exact=True)
    seen, _ = env.reset(seed=seed)
    start, reward, over, cut = env.state, 0.0, False, False
    states, actions = [], []
    while not (over or cut):
        states.append(env.state)
        actions.append(policy(seen))
        seen, earned, over, cut, _ = env.step(actions[-1])
        reward += earned
    runs = env.copies.batch.engine.runs[0]
    done = sum(work(run, task.machine.inputs) for run in runs)
    lasted, way = runs[-1].t[-1], env.state.positions[0] - start.positions[0]
    touches = sum(event.name.endswith(" touches") for run in runs for event in run.events)
    command = start.params.get("command", math.nan)
    ended = "lasted" if not over else "fell" if env.copies.over[0] == 1 else runs[-1].outcome.kind
    found = Judgement(command, float(lasted), float(way / lasted), touches, float(done / abs(way)), reward, ended)
    lasts = task.step * task.times
    first = max(0, len(actions) - round(SHOWN / lasts))
    rows = np.pad(np.array(actions[first:]), ((0, 0), (0, len(task.pushes))))
    law = sl.control.Scheduled(calm.effort, lasts * np.arange(first, len(actions)), rows)
    ground = {"ground": env.copies.batch.grounds[0]} if task.ground is not None else {}
    run = sl.simulate(
        task.machine, states[first], begin=first * lasts, until=len(actions) * lasts, control=law, **ground
    )
    return found, run


def work(run: sl.Trajectory, names: Iterable[str]) -> float:
    """Positive work of all motors (J)."""
    power = [np.maximum(run.torques[n] * run.v[n], 0.0) for n in names if n in run.v]
    return float(sum(np.trapezoid(p, run.t) for p in power))


def curve(folder: str | Path) -> Any:
    """The learning curve as a figure."""
    from matplotlib.figure import Figure

    rows = progress(folder)
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    ax = figure.subplots()
    ax.plot([float(r["seconds"]) for r in rows], [float(r["reward"]) for r in rows])
    ax.set_xlabel("s of training")
    ax.set_ylabel("reward of an episode")
    return figure


def judged(policy: Policy, task: Task, folder: str | Path, *, seconds: float) -> list[Judgement]:
    """Judge a policy through the range of commands: judgement.json, report.html with the animation, the policy in C.

    The machine with the policy as its law goes into `machine`, as C that steps, if the task has no ground of its own.
    """
    folder = Path(folder)
    found, run = list[Judgement](), None
    for k, asked in enumerate(commanded(task)):
        one, shown = judge(policy, asked, seconds=seconds)
        found.append(one)
        run = shown if k == 1 or run is None else run
    (folder / "judgement.json").write_text(json.dumps([asdict(x) for x in found], indent=2))
    learning = curve(folder)
    learning.savefig(folder / "learning.png", dpi=120)
    assert run is not None
    sl.view.report(run, folder / "report.html", figures={"Learning": learning}, summary=[told(x) for x in found])
    policy.export(task, folder)
    if task.ground is None:
        sl.export(task.machine, folder / "machine", start=task.starts[0], control=policy.law(task))
    return found


def told(found: Judgement) -> tuple[str, str]:
    """A judgement in words."""
    asked = "" if math.isnan(found.command) else f"asked for {found.command:.2f}"
    return asked or "judged", (
        f"{found.speed:.2f} m/s, {found.touches} touches of the ground, {found.energy:.0f} J/m, reward "
        f"{found.reward:.1f}, {found.ended} for {found.seconds:.1f} s"
    )
