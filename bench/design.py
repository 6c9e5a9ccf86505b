"""Designs of BOLT: a full turn with its gradient against fsolve at each angle, and how many turns per second."""

from __future__ import annotations

import os
import time

import casadi as ca
import numpy as np
from scipy.optimize import fsolve

from bench import Disagreement, Row, best
from saltus.design import Turn
from saltus.zoo.bolt import bolt_linkage

TITLE = "Design (BOLT, 360 points of the crank's turn)"
LENGTHS = ("l_c", "l_1", "l_2", "l_3", "l_4", "l_5", "l_s", "l_f", "l_t", "theta")


def by_fsolve(angles: np.ndarray, z: np.ndarray, p: dict[str, float]) -> np.ndarray:
    """Foot path by the paper's way: solve the two loops at each angle from the last solution."""
    hip = p["l_c"] * np.array([np.cos(p["theta"]), np.sin(p["theta"])])

    def phi(z: np.ndarray, q1: float) -> list[float]:
        q2, q3, q4, q5 = z
        a = q1 + q2
        x, y = p["l_1"] * np.cos(q1) - hip[0], p["l_1"] * np.sin(q1) - hip[1]
        return [
            x + p["l_2"] * np.cos(a) - p["l_f"] * np.cos(q4),
            y + p["l_2"] * np.sin(a) - p["l_f"] * np.sin(q4),
            x + p["l_s"] * np.cos(a) + p["l_3"] * np.cos(a + q3) - p["l_4"] * np.cos(q4) - p["l_t"] * np.cos(q4 + q5),
            y + p["l_s"] * np.sin(a) + p["l_3"] * np.sin(a + q3) - p["l_4"] * np.sin(q4) - p["l_t"] * np.sin(q4 + q5),
        ]

    out = []
    for q1 in angles:
        z = fsolve(phi, z, (q1,), xtol=1e-12)
        out.append(
            hip
            + p["l_4"] * np.array([np.cos(z[2]), np.sin(z[2])])
            + p["l_5"] * np.array([np.cos(z[2] + z[3]), np.sin(z[2] + z[3])])
        )
    return np.array(out)


def with_differences(angles: np.ndarray, z: np.ndarray, p: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Path and its derivatives by forward differences, one more turn a length."""
    path, h = by_fsolve(angles, z, p), 1e-6
    return path, np.stack([(by_fsolve(angles, z, {**p, n: p[n] + h}) - path) / h for n in LENGTHS], axis=-1)


def run() -> list[Row]:
    """Measure."""
    start = bolt_linkage(base="fixed").keyframe("crank level")
    m, turn = start.mechanism, Turn(start, "q1", 360)
    world = m.position("foot")
    index = [list(m.params).index(n) for n in LENGTHS]
    both = turn.mapped("both", ca.vertcat(world, ca.vec(turn.gradient(world)[:, index])))
    path = turn.mapped("path", world)
    one = turn.params()
    theirs, slopes = with_differences(turn.values, start.positions[1:], start.params)
    ours = turn.walk(one, both, keep=False).values.reshape(360, 2 + 2 * len(LENGTHS))
    if np.abs(ours[:, :2] - theirs).max() > 1e-9:
        raise Disagreement(f"paths differ by {np.abs(ours[:, :2] - theirs).max():.3g} m")
    if np.abs(ours[:, 2:].reshape(360, len(LENGTHS), 2).transpose(0, 2, 1) - slopes).max() > 1e-3:
        raise Disagreement("derivatives differ")
    mine = best(lambda: turn.walk(one, both, keep=False), 9, 20)
    plain = best(lambda: turn.walk(one, path, keep=False), 9, 20)
    lean = best(lambda: by_fsolve(turn.values, start.positions[1:], start.params), 3)
    full = best(lambda: with_differences(turn.values, start.positions[1:], start.params), 1)

    generator = np.random.default_rng(0)
    many = start.p * generator.uniform(0.98, 1.02, (8000, len(start.p)))
    target = np.asarray(path(turn.walk(one).q[0].T, start.p))
    Q, p = turn.symbols
    error = ca.Function("error", [Q, p], [ca.sumsqr(path(Q, p) - target)])
    turn.walk(many[:8], error, keep=False)
    threads = os.cpu_count() or 1
    wall = best(lambda: turn.walk(many, error, keep=False, threads=threads), 5)
    work = best(lambda: turn.walk(many, error, keep=False, threads=1), 5, clock=time.process_time)
    assembled = turn.walk(many, error, keep=False).assembles.mean()
    return [
        Row("one turn, path", f"{plain * 1e6:.3g} us"),
        Row("one turn, path and exact derivatives by 10 lengths", f"{mine * 1e6:.3g} us"),
        Row("fsolve, path", f"{lean * 1e3:.3g} ms"),
        Row("fsolve, path and differences", f"{full * 1e3:.3g} ms"),
        Row.at_least("path and gradient: fsolve / Saltus", full / mine, 100),
        Row.at_least("path alone: fsolve / Saltus", lean / plain, 100),
        Row("designs within 2 % of BOLT that assemble", f"{assembled:.1%}"),
        Row(
            f"turns with path error per second, {threads} threads",
            f"{len(many) / wall:.0f}",
            ">= 20000",
            len(many) / wall >= 20000,
        ),
        Row(
            "the same from the processor time of one thread, twice",
            f"{2 * len(many) / work:.0f}",
            ">= 20000",
            2 * len(many) / work >= 20000,
        ),
    ]
