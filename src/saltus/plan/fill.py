"""From positions, velocities and inputs over time to the unknowns of a transcription."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np

from saltus.machine import Kernel
from saltus.model.assembly import assembler
from saltus.plan.guess import Guess
from saltus.plan.statement import Plan
from saltus.plan.transcription import PhaseModel, Transcription


class Dynamics:
    """Accelerations and constraint forces of one phase, in numbers: M a + h = Q + J' f, J a + gamma = 0."""

    def __init__(self, plan: Plan, model: PhaseModel) -> None:
        self.plan, self.model = plan, model
        self.p = np.array([plan.params[n] for n in plan.mechanism.params])

    @cached_property
    def _terms(self) -> Kernel:
        stage = self.model.phase.stage
        e = stage.tree.constrained(stage.contacts, stage.anchors, unlimited=True)
        rows = list(self.model.rows)
        parts = [e.M, e.Q - e.h, e.J[rows, :], e.gamma[rows], e.q_dot]
        outputs = stage.with_domain_params([ca.densify(SXpart) for SXpart in parts])
        return Kernel(ca.Function("terms", [e.t, e.q, e.v, e.u, e.p, e.z], ca.cse(outputs)), native=False)

    def solve(
        self, t: np.ndarray, q: np.ndarray, v: np.ndarray, u: np.ndarray, anchors: np.ndarray, params: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a, f (independent rows) and q', one row a time."""
        z = np.zeros(self._terms.function.size1_in(5))
        M, rhs, J, gamma, q_dot = self._terms.batch(t[:, None], q, v, u, np.concatenate([params, anchors]), z)
        n, m = v.shape[1], len(self.model.rows)
        M, J, gamma = M.reshape(len(t), n, n), J.reshape(len(t), m, n), gamma.reshape(len(t), m)
        K = np.zeros((len(t), n + m, n + m))
        K[:, :n, :n] = M
        K[:, :n, n:], K[:, n:, :n] = -np.swapaxes(J, 1, 2), J
        b = np.concatenate([rhs, -gamma], axis=1)[..., None]
        try:
            out = np.linalg.solve(K, b)[..., 0]
        except np.linalg.LinAlgError:
            out = (np.linalg.pinv(K) @ b)[..., 0]
        return out[:, :n], out[:, n:], q_dot


def fill(t: Transcription, guess: Guess) -> np.ndarray:
    """Unknowns of a guess."""
    plan, x = t.plan, np.zeros(t.n)
    balls = assembler(plan.mechanism).balls
    begin = 0.0
    x[t.freed] = [plan.params[n] for n in plan.freed]
    for k, (model, phase) in enumerate(zip(t.models, guess, strict=True)):
        length = float(np.clip(phase.duration, model.phase.low, model.phase.high))
        x[t.begins[k]], x[t.lengths[k]] = begin, length
        s = t.fractions[k]
        q, v, u = phase.at(s, balls)
        v = v * (phase.duration / length)
        anchors = _anchors(t, k, q[0], v[0])
        a, f, _ = Dynamics(plan, model).solve(begin + s * length, q, v, u, anchors, t.p)
        z = np.zeros(model.full["z"].numel() if "turn" not in model.node.blocks else 0)
        unknowns = Kernel(model.node.unknowns, native=False)
        values, constants = unknowns.batch(q, v, a, u, f, z, t.p)
        sizes = np.zeros((len(s), model.sizes.numel() + model.sums.numel()))
        x[t.nodes[k]] = np.hstack([values, sizes]).T
        x[t.constants[k]] = constants[0] if "turn" in model.node.blocks else anchors
        _fill_sizes(t, k, x)
        begin += length
    return x


def _anchors(t: Transcription, k: int, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    stage = t.models[k].phase.stage
    if not stage.domain.contacts:
        return np.zeros(0)
    base = np.concatenate([t.p, np.zeros(stage.anchors.numel())])
    anchors, _ = stage.places(0.0, q, v, base)
    anchors = np.array(anchors)
    anchors[stage.dimension - 1 :: stage.dimension] = t.plan.system.ground
    return anchors


def _fill_sizes(t: Transcription, k: int, x: np.ndarray) -> None:
    """Sizes of expressions, and integrals added up so far."""
    model = t.models[k]
    if not (model.sizes.numel() or model.sums.numel()):
        return
    first = model.node.x.numel()
    arguments = [model.x, model.common, model.s, model.p]
    values = ca.vertcat(*[model.along(e) for _, e in t.plan.sizes]) if t.plan.sizes else ca.SX(0, 1)
    here = x[t.nodes[k]].T, x[t.common(k)], t.fractions[k][:, None], t.p
    if model.sizes.numel():
        sizes = Kernel(ca.Function("sizes", arguments, [ca.densify(values)]), native=False).batch(*here)
        x[t.nodes[k][first : first + model.sizes.numel()]] = np.abs(sizes).T
    n = model.sums.numel()
    if n:
        rate = np.asarray(Kernel(model.rate, native=False).batch(x[t.nodes[k]].T, *here[1:]))[:, -n:]
        h = np.diff(t.fractions[k]) * x[t.lengths[k]]
        sums = np.vstack([np.zeros(n), np.cumsum((rate[1:] + rate[:-1]) / 2 * h[:, None], axis=0)])
        before = x[t.nodes[k - 1][-n:, -1]] if k else 0.0
        x[t.nodes[k][-n:]] = (sums + before).T
