"""Training: PPO of stable-baselines3 on a batch of copies, with checkpoints, and judgement by `simulate`."""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

import saltus as sl
from saltus.learn.environments import Env, VectorEnv
from saltus.learn.task import Task
from saltus.learn.tasks import task as named

STEPS, BATCH, EPOCHS = 32, 4096, 5
SHAPE = (64, 64)
FIELDS = ("samples", "seconds", "reward", "length")


class Copies(VecEnv):
    """A VectorEnv behind the interface of stable-baselines3."""

    def __init__(self, env: VectorEnv) -> None:
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

    def __init__(self, folder: Path, seconds: float, every: float, tell: Callable[[dict[str, float]], None]) -> None:
        super().__init__()
        self.folder, self.limit, self.every, self.tell = folder, seconds, every, tell
        self.spent = float(_last(folder).get("seconds", 0.0))
        self.begun = self.kept = time.monotonic()

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
        return self.spent + time.monotonic() - self.begun < self.limit

    @property
    def row(self) -> dict[str, float]:
        """A line of the learning curve: means over the last thousand episodes, NaN before the first has ended."""
        self.ended = self.ended[-1000:]
        reward, length = np.array(self.ended or [(math.nan, math.nan)]).mean(axis=0)
        return {
            "samples": self.num_timesteps,
            "seconds": round(self.spent + time.monotonic() - self.begun, 1),
            "reward": round(float(reward), 3),
            "length": round(float(length), 1),
        }

    def _on_rollout_end(self) -> None:
        self.tell(self.row)
        if time.monotonic() - self.kept > self.every:
            self.kept = time.monotonic()
            keep(self.model, self.folder, self.row)


def keep(model: BaseAlgorithm, folder: Path, row: dict[str, float]) -> None:
    """Write a checkpoint so that no reader ever sees half of one, then its line of the learning curve."""
    part = folder / "checkpoint.part.zip"
    model.save(part)
    os.replace(part, folder / "checkpoint.zip")
    path = folder / "progress.csv"
    rows = [r for r in _rows(path) if float(r["samples"]) < row["samples"]] + [row]
    part = folder / "progress.part.csv"
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, path)


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _last(folder: Path) -> dict[str, Any]:
    rows = _rows(folder / "progress.csv")
    return rows[-1] if rows and (folder / "checkpoint.zip").exists() else {}


def train(
    task: str | Task,
    folder: str | Path,
    *,
    seconds: float = 300.0,
    copies: int = 1024,
    every: float = 20.0,
    seed: int = 0,
    tell: Callable[[dict[str, float]], None] = lambda row: None,
) -> PPO:
    """Train a policy for so many seconds in all, a checkpoint `every` so many; what `folder` holds is gone on with."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    env = Copies(VectorEnv(named(task) if isinstance(task, str) else task, copies, seed=seed))
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
            policy_kwargs={"net_arch": list(SHAPE), "activation_fn": torch.nn.Tanh, "log_std_init": -0.7},
            seed=seed,
            device="cpu",
        )
    watch = _Watch(folder, seconds, every, tell)
    if watch.spent < seconds:
        model.learn(10**12, callback=watch, reset_num_timesteps=not done)
        keep(model, folder, watch.row)
    return model


# ---- what it learned ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Policy:
    """The mean action of a trained policy as a plain function of what it sees: tanh layers, then a linear one."""

    layers: Sequence[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, model: PPO) -> Policy:
        """Take the weights out of a model."""
        net = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
        linear = [x for x in net if isinstance(x, torch.nn.Linear)]
        return cls([(x.weight.detach().numpy().astype(float), x.bias.detach().numpy().astype(float)) for x in linear])

    def __call__(self, seen: np.ndarray) -> np.ndarray:
        """Action between -1 and 1."""
        for weight, bias in self.layers[:-1]:
            seen = np.tanh(weight @ seen + bias)
        weight, bias = self.layers[-1]
        return np.clip(weight @ seen + bias, -1.0, 1.0)


@dataclass(frozen=True)
class Judgement:
    """What a policy did in the event-exact simulator.

    Commanded speed (m/s), seconds it lasted, speed (m/s), touches of the ground, positive work of its motors per metre
    (J/m), reward, and how it ended.
    """

    command: float
    seconds: float
    speed: float
    touches: int
    energy: float
    reward: float
    ended: str


def judge(policy: Policy, task: Task, *, seconds: float, seed: int = 0) -> Judgement:
    """Run one episode of a task in the event-exact simulator, over so many seconds, and say what came out."""
    env = Env(replace(task, seconds=seconds), exact=True)
    seen, _ = env.reset(seed=seed)
    start, reward, over, cut = env.state, 0.0, False, False
    while not (over or cut):
        seen, earned, over, cut, _ = env.step(policy(seen))
        reward += earned
    runs = env.copies.batch.engine.runs[0]
    work = sum(_work(run, task.machine.inputs) for run in runs)
    lasted, way = runs[-1].t[-1], env.state.positions[0] - start.positions[0]
    touches = sum(event.name.endswith(" touches") for run in runs for event in run.events)
    command = start.params.get("command", math.nan)
    ended = "fell" if over else "lasted"
    return Judgement(command, float(lasted), float(way / lasted), touches, float(work / abs(way)), reward, ended)


def _work(run: sl.Trajectory, names: Iterable[str]) -> float:
    """Positive work of all motors (J)."""
    power = [np.maximum(run.torques[n] * run.v[n], 0.0) for n in names]
    return float(sum(np.trapezoid(p, run.t) for p in power))


def curve(folder: Path) -> Path:
    """Draw the learning curve."""
    from matplotlib.figure import Figure

    rows = _rows(Path(folder) / "progress.csv")
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    ax = figure.subplots()
    ax.plot([float(r["seconds"]) for r in rows], [float(r["reward"]) for r in rows])
    ax.set_xlabel("s of training")
    ax.set_ylabel("reward of an episode")
    path = Path(folder) / "learning.png"
    figure.savefig(path, dpi=120)
    return path
