"""A machine whose contacts find their own modes, made ready for export: the fixed-step scheme of batches."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from saltus.batch.batch import Batch
from saltus.batch.motion import Acted, Motion
from saltus.compile.statements import Routine, routine
from saltus.files.code.routines import Machine, tables_of
from saltus.ground import Ground
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.touched import Touched
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX
from saltus.model.touching import Foot
from saltus.once import cached_property

STEP = 1e-3  # s: steps are done in parts where their error asks for it, so their length is a matter of taste


class Touching(Machine):
    """Equations of the machine, and what the steps of `saltus.batch` are made of; p are the parameters at the start."""

    stable_step = STEP

    def __init__(
        self,
        mechanism: Mechanism,
        start: State | None = None,
        *,
        control: Any = None,
        ground: Ground | float | None = None,
        name: str | None = None,
    ) -> None:
        grounds = Batch(mechanism, 1, step=STEP, ground=ground).grounds
        super().__init__(HybridSystem.alone(mechanism, grounds[0]), start, control, name)
        law = Acted(None, len(mechanism.inputs)) if control is None else control
        q, v, theta = self.start.positions, self.start.velocities, self.params
        self.motion = Motion(mechanism, grounds[0], law, None, None, q, theta)
        self.ground = grounds[0]
        self.contacts = [x.name for x in self.motion.elements]
        self.tables = [] if control is None else tables_of(control, self.motion.c)
        self.domains = [self]
        [self.w], [self.p] = Batch.parameters(self.motion, grounds, np.zeros(1, int), q[None], v[None], theta[None])
        if self.tables:
            self.p[self.slice("row")] = self.tables[0].rows[0]

    def slice(self, name: str) -> slice:
        """Place of a block of p."""
        return self.motion.slice(name)

    @cached_property
    def _laws(self) -> dict[int, SX]:
        """What of p follows from the Params, by its place: friction, restitution and springs of every contact."""
        motion, p = self.motion, self.mechanism.p
        c = motion.c
        given, springs = (c.laws.function(p), c.springs.function(p)) if isinstance(c, Touched) else (SX(0, 1), SX(0, 1))
        at = motion.slice("block").start
        out: dict[int, SX] = {}
        for i, x in enumerate(motion.elements):
            own = [given[3 * i + k] for k in range(3)]
            if "given" in motion.blocks:
                out |= {motion.slice("given").start + 2 * i + k: own[k] for k in range(2)}
            whole = isinstance(x.part, Foot) and not motion.patched  # patches have frictions of their own
            rough = self.ground.near(0.0, 0.0)[0].friction if whole else None
            if rough is not None:  # the smaller one; below zero, a foot has none of its own
                own[:2] = [ca.if_else(f < 0, rough, ca.fmin(f, rough)) for f in own[:2]]
            out[at + x.places["friction"].start] = own[0]
            out[at + x.places["static"].start] = ca.fmax(own[0], own[1])
            for block, value in (("restitution", own[2]), ("friction", own[0])):
                if block in motion.blocks:
                    out[motion.slice(block).start + i] = value
            out |= {motion.slice("springs").start + 2 * i + k: springs[2 * i + k] for k in range(2)}
            at += x.size
        return out

    @property
    def law_places(self) -> list[int]:
        """Places in p of what `laws` gives."""
        return list(self._laws)

    @cached_property
    def laws(self) -> Routine:
        """Friction, restitution and springs from the Params."""
        doc = "Friction, static friction, restitution, stiffness and damping of every contact."
        return routine("laws", doc, [self.mechanism.p], [ca.vertcat(SX(0, 1), *self._laws.values())], "params", "law")

    @property
    def routines(self) -> list[Routine]:
        """All routines, in order."""
        return [*self.machine, self.motion.commands, self.laws]

    def sample(self, r: Routine, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of a routine by name, near the start configuration."""
        w = self.w + 0.2 * rng.standard_normal(len(self.w))
        return super().sample(r, rng) | {"w": w, "z": np.zeros(self.motion.e.z.numel()), "p": self.p}
