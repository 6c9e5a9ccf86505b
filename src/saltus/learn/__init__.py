"""Learning: tasks for machines as Gymnasium environments, one copy or many, and training. Needs the extra `learn`."""

from saltus.errors import SaltusError

try:
    import gymnasium
except ImportError as problem:
    raise SaltusError("sl.learn needs Gymnasium, which is an extra: pip install 'saltus[learn]'") from problem

from saltus.learn.environments import Env, VectorEnv
from saltus.learn.policy import Policy
from saltus.learn.task import Task
from saltus.learn.tasks import TASKS, task

__all__ = ["TASKS", "Env", "Policy", "Task", "VectorEnv", "task"]

for _name in TASKS:
    gymnasium.register(
        f"saltus/{_name}-v0",
        entry_point="saltus.learn.environments:Env",
        vector_entry_point="saltus.learn.environments:vector",
        kwargs={"task": _name},
    )
