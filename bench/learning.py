"""The same PPO on a batch and on mujoco.rollout: what each policy does in the event-exact simulator."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from bench import Report, Row, field_mujoco, peers
from bench.batch import FRICTION, GROUND

TITLE = "PPO for BOLT's run at a commanded speed: trained on a batch and on mujoco.rollout"
SECONDS = float(os.environ.get("SALTUS_LEARNING_SECONDS", "600"))
COPIES = 1024
CRANKS = (-30, -36, -42, -48, -54)  # rad/s of gaits by hand


class Rolled:
    """The task bolt-run in mujoco.rollout, behind what a vector environment of Gymnasium has.

    Its motor has the limit of torque, not that of power, for which MuJoCo has no element.
    """

    def __init__(self, task: Any, copies: int) -> None:
        import gymnasium
        import mujoco

        one = sl.learn.Env(task)
        self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
        self.task, self.num_envs, self.rng = task, copies, np.random.default_rng(0)
        limit = task.starts[0].params["torque_limit"]
        acting = (
            f'<actuator><general joint="q1" gainprm="1" biastype="affine" biasprm="0 0 -1" '
            f'forcerange="-{limit} {limit}"/></actuator>'
        )
        ground = "---".join([*GROUND.split("---")[:2], acting])
        text = field_mujoco.mjcf(False, step=task.step, integrator="Euler", ground=ground)
        self.model = mujoco.MjModel.from_xml_string(text.replace('iterations="1" tolerance="0"', ""))
        self.data = mujoco.MjData(self.model)
        self.size = mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self.states = np.zeros((copies, self.size))
        self.command, self.taken = np.zeros(copies), np.zeros(copies, int)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def start(self, which: np.ndarray) -> None:
        """Begin episodes as the task does."""
        for k in which:
            x = self.task.starts[int(self.rng.integers(len(self.task.starts)))]
            self.states[k, 1:] = [*x.positions, *x.velocities, *np.zeros(self.size - 15)]
            self.states[k, 0] = 0.0
        self.command[which] = self.rng.uniform(*self.task.params["command"], len(which))
        self.taken[which] = 0

    def seen(self) -> np.ndarray:
        """The observations of the task."""
        q, v = self.states[:, 1:8], self.states[:, 8:15]
        own = [10 * (q[:, 1] - 0.45), v[:, 0], v[:, 1], np.sin(q[:, 2]), np.cos(q[:, 2]), v[:, 2] / 50, self.command]
        return np.nan_to_num(np.column_stack(own)).astype(np.float32)

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict]:
        """Start all."""
        self.rng = np.random.default_rng(seed)
        self.start(np.arange(self.num_envs))
        return self.seen(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Ten steps with the action held."""
        from mujoco import rollout

        low, high = self.task.low[0], self.task.high[0]
        asked = low + (high - low) * (np.clip(actions, -1, 1) + 1) / 2
        control = np.repeat(asked[:, None, :], self.task.times, axis=1)
        found, _ = rollout.rollout(self.model, self.data, self.states, control)
        self.states = found[:, -1].copy()
        self.taken += 1
        y, forward, crank = self.states[:, 2], self.states[:, 8], self.states[:, 10]
        reward = np.exp(-(((forward - self.command) / 0.707) ** 2)) - 1e-5 * (asked[:, 0] - crank) ** 2
        fresh = self.states[:, 0] < (self.taken - 0.5) * self.task.times * self.task.step  # it blew up and began anew
        over = ~((y > 0.33) & (y < 0.9)) | fresh
        cut = (self.taken >= round(self.task.seconds / self.task.step / self.task.times)) > over
        last = self.seen()
        final = np.full(self.num_envs, None, object)
        for k in np.flatnonzero(over | cut):
            final[k] = last[k]
        self.start(np.flatnonzero(over | cut))
        return self.seen(), np.nan_to_num(reward), over, cut, {"final_obs": final}


def by_plan() -> str:
    """The gait of least energy planned within the cone of friction, on its sprung toe, flown on real ground."""
    from saltus.learn import training
    from saltus.studies import bolt_optimal_on_ground as study

    best = study.planned(study.OWN, FRICTION)
    run = study.flown(best, FRICTION)
    way, touches = np.ptp(run["boom.x"]), run.event_counts["toe touches"]
    ended = "fell" if run["boom.y"].min() < study.FALLEN else "lasted"
    energy = training.work(run, run.mechanism.inputs) / way
    return f"| planned | {study.OWN} | {way / run.t[-1]:.2f} | {touches} | {energy:.0f} | {ended} {run.t[-1]:.0f} s |"


def run() -> Report:
    """Train both, each until it is confirmed or for as long, and judge both."""
    from saltus.learn import training

    task = sl.learn.task("bolt-run")
    rows, lines = [], []
    worlds = {"Saltus": lambda: sl.learn.VectorEnv(task, COPIES, seed=0)}
    if peers.installed("mujoco"):
        worlds["MuJoCo"] = lambda: Rolled(task, COPIES)
    for speed in CRANKS:
        share = 2 * (speed - task.low[0]) / (task.high[0] - task.low[0]) - 1
        x, _ = training.judge(sl.learn.Policy([(np.zeros((1, 7)), np.array([share]))]), task, seconds=training.JUDGED)
        lines.append(
            f"| by hand: crank at {speed} rad/s | | {x.speed:.2f} | {x.touches} | {x.energy:.0f} | {x.ended} |"
        )
    lines.append(by_plan())
    for name, world in worlds.items():
        with tempfile.TemporaryDirectory() as folder:
            model = training.train(task, Path(folder), seconds=SECONDS, world=world())
            curve = training.progress(folder)
        policy = training.policy_of(model)
        judged = [training.judge(policy, asked, seconds=training.JUDGED)[0] for asked in training.commanded(task)]
        lines += [
            f"| PPO on {name} | {x.command:.1f} | {x.speed:.2f} | {x.touches} | {x.energy:.0f} | {x.ended} |"
            for x in judged
        ]
        last = curve[-1]
        if name == "Saltus":
            good = all(training.enough(x, task) for x in judged)
            what = f"s until `simulate` confirms {task.strides} strides at 0.8, 1.5 and 2.2 m/s"
            took = float(last["seconds"])
            rows.append(Row(what, f"{took:.0f}" if good else "never", "<= 600", good and took <= 600))
        said = (
            f"{int(last['samples']):,} samples, reward {float(last['reward']):.0f} of 400, {last['seconds']} s, "
            f"{float(last['processor']):.0f} s of processor"
        )
        rows.append(Row(f"trained on {name}", said))
    text = (
        f"Friction {FRICTION}. All run in `simulate`, for 12 s unless said; J/m is the positive work of the motor:\n\n"
        "| gait | asked for (m/s) | speed (m/s) | touches | J/m | it |\n|---|---|---|---|---|---|\n"
    )
    return Report(rows, text + "\n".join(lines))
