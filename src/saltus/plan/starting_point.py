"""From positions, velocities and inputs over time to the unknowns of a transcription."""

from __future__ import annotations

import numpy as np

from saltus.compile import Kernel
from saltus.model.assembly import assembler
from saltus.plan.guess import Guess
from saltus.plan.integrals import with_integrals
from saltus.plan.transcription import Transcription


def fill(t: Transcription, guess: Guess) -> np.ndarray:
    """Unknowns of a guess."""
    plan, x = t.plan, np.zeros(t.n)
    balls = assembler(plan.mechanism).balls
    begin = 0.0
    x[t.freed] = [np.clip(guess[0].params.get(n, plan.params[n]), *plan.freed[n]) for n in plan.freed]
    for k, (model, phase) in enumerate(zip(t.models, guess, strict=True)):
        length = float(np.clip(phase.duration, model.phase.low, model.phase.high))
        x[t.begins[k]], x[t.lengths[k]] = begin, length
        s = t.fractions[k]
        q, v, u = phase.at(s, balls)
        v = v * (phase.duration / length)
        anchors = _anchors(t, k, q[0], v[0])
        a, f, _ = model.accelerations(begin + s * length, q, v, u, anchors, t.p)
        z = np.zeros(0 if model.floating else model.full["z"].numel())
        unknowns = Kernel(model.node.unknowns, native=False)
        values, constants = unknowns.batch(q, v, a, u, f, z, t.p)
        x[t.nodes[k]] = np.hstack([values, np.zeros((len(s), model.n - values.shape[1]))]).T
        x[t.constants[k]] = constants[0] if model.floating else anchors
        begin += length
    _fill_impulses(t, x)
    return with_integrals(t, x)


def _fill_impulses(t: Transcription, x: np.ndarray) -> None:
    """Impulses that explain the jumps of velocity as well as any can."""
    for (a, b, _), after, at in zip(t.joins, t.impacts, t.impulses, strict=True):
        if after is not None:
            q, v = (part[0] for part in t.whole(b, x)[:2])
            jump = v - t.whole(a, x)[1][-1]
            x[at] = after.impulse(float(t.times(b, x)[0]), q, v, jump, t.anchors(b, x), t.params(x))


def _anchors(t: Transcription, k: int, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    stage = t.models[k].phase.stage
    if not stage.domain.contacts:
        return np.zeros(0)
    anchors = np.ravel(stage.touching(0.0, q, v, t.p)[0]).copy()
    anchors[stage.dimension - 1 :: stage.dimension] = t.plan.system.ground
    return anchors
