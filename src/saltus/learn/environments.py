"""Gymnasium's environments: one copy of a task, and many of them behind the vector interface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

import saltus as sl
from saltus.errors import BadValue
from saltus.learn.task import Copies, Task
from saltus.learn.tasks import task as named


def _task(given: Task | str | sl.Mechanism, more: dict[str, Any]) -> Task:
    if isinstance(given, sl.Mechanism):
        return Task(given, **more)
    made = given if isinstance(given, Task) else named(given)
    return replace(made, **more) if more else made


def _spaces(copies: Copies) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """What a policy sees, and what it does, between -1 and 1."""
    n = len(copies.task.low)
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (copies.size,), np.float32)
    return seen, gymnasium.spaces.Box(-1.0, 1.0, (n,), np.float32)


class Env(gymnasium.Env[np.ndarray, np.ndarray]):
    """One copy of a task, by name or one's own; actions between -1 and 1 stand for its range.

    A machine makes a task with what else is given, as `Env(machine, observe=..., reward=..., until=...)`; of a task it
    replaces that. With `exact` it runs in `sl.simulate`, to judge what was learned.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(
        self, task: Task | str | sl.Mechanism, render_mode: str | None = None, *, exact: bool = False, **more: Any
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise BadValue(f"render_mode is {render_mode!r}; there is 'rgb_array'", given=render_mode)
        self.task, self.render_mode = _task(task, more), render_mode
        self.copies = Copies(self.task, 1, threads=1, exact=exact)
        self.observation_space, self.action_space = _spaces(self.copies)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.copies.rng = np.random.default_rng(seed)
        self.copies.start()
        return self.copies.observed[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Do one action."""
        copies = self.copies
        reward = copies.act(action).item()
        over = copies.over[0] > 0
        return copies.observed[0], reward, bool(over), bool(copies.t[0] > copies.last and not over), {}

    @property
    def state(self) -> sl.State:
        """The machine as it is."""
        return self.copies.batch.state[0]

    def render(self) -> np.ndarray | None:
        """A picture of the machine, (height, width, 3)."""
        if self.render_mode is None:
            return None
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = sl.view.plot_machine(self.state, ground=self.copies.batch.grounds[0], names=False)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


class VectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of a task; one that is over starts anew within the step (autoreset in the same step)."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(
        self,
        task: Task | str | sl.Mechanism,
        copies: int,
        *,
        seed: int | None = None,
        threads: int | None = None,
        **more: Any,
    ) -> None:
        self.copies = Copies(_task(task, more), copies, seed, threads)
        self.num_envs = copies
        self.single_observation_space, self.single_action_space = _spaces(self.copies)
        self.observation_space = batch_space(self.single_observation_space, copies)
        self.action_space = batch_space(self.single_action_space, copies)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode in every copy; one seed serves them all."""
        if seed is not None:
            self.copies.rng = np.random.default_rng(seed)
        self.copies.start()
        return self.copies.observed, {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Do one action per copy."""
        copies = self.copies
        rewards, over = copies.act(actions), copies.over > 0
        cut = (copies.t > copies.last) > over
        ended = over | cut
        infos: dict[str, Any] = {}
        if ended.any():
            last = copies.observed
            final = np.full(self.num_envs, None, object)
            for k in np.flatnonzero(ended):
                final[k] = last[k]
            infos = {"final_obs": final, "_final_obs": ended, "final_info": {}, "_final_info": ended}
            copies.start(np.flatnonzero(ended))
        return copies.observed, rewards, over, cut, infos


def vector(task: Task | str, num_envs: int = 1, **given: Any) -> VectorEnv:
    """A VectorEnv as gymnasium.make_vec asks for it."""
    given.pop("render_mode", None)
    return VectorEnv(task, num_envs, **given)
