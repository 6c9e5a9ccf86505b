"""LinkageTask: a driven linkage with other Params, many at a time, for sweeps."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.design.cycle import Cycle
from saltus.design.turn import Turn
from saltus.errors import BadValue
from saltus.model.mechanism import Mechanism

MOST = 8  # tasks that a process keeps ready


@dataclass(frozen=True)
class LinkageTask:
    """Where a point goes over the driver's turn: picklable, for sweeps.

    `make` returns the Mechanism and must be importable; `start` names a keyframe (by default the first). Gives
    stride length and height (m), the bounds of the path, the sine of the least transmission angle, `assembles` (1
    or 0) and `gap`, by which the loops stay open (m). `path` adds the positions at all samples.
    """

    make: Callable[[], Mechanism]
    driver: str
    point: str
    start: str | None = None
    samples: int = 360
    path: bool = False

    def __call__(self, points: dict[str, np.ndarray], generators: Any = None) -> dict[str, np.ndarray]:
        """Evaluate many designs at once."""
        turn, reading = _prepared(self)
        walked = turn.walk(turn.params(points), reading, keep=False, threads=1)
        names = ("x_min", "x_max", "y_min", "y_max", "transmission")
        out = dict(zip(names, walked.values.T, strict=False))
        for name in names:
            out[name] = np.where(walked.assembles, out[name], np.nan)
        out["stride_length"], out["stride_height"] = out["x_max"] - out["x_min"], out["y_max"] - out["y_min"]
        out["assembles"], out["gap"] = walked.assembles.astype(float), walked.gap
        if self.path:
            out["path"] = walked.values[:, len(names) :].reshape(len(walked.gap), self.samples, -1)
        return out


_KEPT: dict[bytes, tuple[Turn, ca.Function]] = {}  # by the contents of tasks, which come anew with every chunk


def _prepared(task: LinkageTask) -> tuple[Turn, ca.Function]:
    """The turn and its reading, once per process."""
    key = pickle.dumps(task)
    if key not in _KEPT:
        if len(_KEPT) >= MOST:
            _KEPT.clear()
        _KEPT[key] = _made(task)
    return _KEPT[key]


def _made(task: LinkageTask) -> tuple[Turn, ca.Function]:
    m = task.make()
    if not m.keyframes:
        raise BadValue(f"{m.name!r} has no keyframe to start from; give it one in m.keyframes")
    turn = Turn(m.keyframe(task.start or next(iter(m.keyframes))), task.driver, task.samples)
    Q, p = turn.symbols
    cycle = Cycle(turn, Q, p)
    path = cycle.position(task.point)
    x, y = path[0, :], path[-1, :]
    wanted = [ca.mmin(x), ca.mmax(x), ca.mmin(y), ca.mmax(y), ca.mmin(ca.vec(cycle.transmission()))]
    if task.path:
        wanted.append(ca.vec(path))
    return turn, ca.Function("linkage", [Q, p], [ca.vertcat(*wanted)])
