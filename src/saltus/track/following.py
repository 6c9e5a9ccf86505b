"""Laws that follow a reference, and whether a run stayed with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saltus.errors import BadValue
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.laws import Schedule, law_in
from saltus.model.assembly import assembler
from saltus.model.mechanism import Mechanism
from saltus.simulation.trajectory import Trajectory
from saltus.track.reference import Reference, full_turns, stays_of

LOST = 0.2  # rad or m: feedback that lets a coordinate go so far, and further than it began, does not hold


@dataclass(frozen=True, eq=False)
class Referenced(Schedule):
    """A law that follows a reference, stay by stay."""

    reference: Trajectory
    _reference: Reference = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_reference", Reference(self.reference, type(self).__name__))

    def stays(self, stage: Constrained) -> int:
        """Count the reference's stays in a domain."""
        return self._reference.count(stage.domain.name)

    def judged(self, run: Trajectory, control: Any) -> str:
        """Say so where the feedback did not hold."""
        held = _compared(run, control)
        return "" if held is None or held.holds else held.detail


@dataclass(frozen=True)
class Following:
    """How far a run was from its reference: `begun` with, `largest` (rad, m) of coordinate `name` at time t (s)."""

    holds: bool
    begun: float
    largest: float
    name: str
    t: float
    detail: str


def following(run: Trajectory, control: Any) -> Following:
    """Compare a run with the reference of its law (Track, JointPD, LQR, or PerDomain of them), stay by stay.

    Feedback holds unless a coordinate is ever more than 0.2 (rad, m) off and further than three times what it
    began with. Coordinates of a free base that inputs do not reach count as well: it is they that fall.
    """
    if not isinstance(run.mechanism, Mechanism):
        raise BadValue("a run read from a file knows no machine; compare the run as simulate returned it")
    found = _compared(run, control)
    if found is None:
        raise BadValue("the law follows no reference in any domain of the run; give Track, JointPD or LQR")
    return found


def _compared(run: Trajectory, control: Any) -> Following | None:
    """Compare; nothing comes of a run that was never in a domain whose law follows a reference."""
    m = run.mechanism
    assert isinstance(m, Mechanism)
    visits: dict[str, int] = {}
    begun, worst = None, (0.0, m.q_names[0], float(run.t[0]))
    law_name = ""
    for stay in stays_of(run):
        visit = visits[stay.domain] = visits.get(stay.domain, -1) + 1
        law = law_in(control, stay.domain)
        if not isinstance(law, Referenced):
            continue
        law_name = type(law).__name__
        off = _off(m, stay, law, visit, float(run.t[0]))
        begun = float(off[0].max()) if begun is None else begun
        i, j = np.unravel_index(int(off.argmax()), off.shape)
        if off[i, j] > worst[0]:
            worst = float(off[i, j]), m.q_names[j], float(stay.t[i])
    if begun is None:
        return None
    largest, name, t = worst
    holds = largest <= max(LOST, 3 * begun)
    reached = f"{name} is {largest:.3g} off at {t:.4g} s, {begun:.3g} at the start"
    if holds:
        return Following(holds, begun, *worst, f"{law_name} holds the reference: {reached}")
    advice = {
        "LQR": "it is built on small differences: raise Q over R, weigh all that must not fall, or use Track",
        "Track": "what its outputs leave free does as it likes: choose other outputs, or use LQR",
        "JointPD": "raise its gains, or use Track or LQR, which know the machine",
    }[law_name]
    return Following(holds, begun, *worst, f"{law_name} does not hold the reference: {reached}; {advice}")


def _off(m: Mechanism, stay: Any, law: Any, visit: int, begin: float) -> np.ndarray:
    """Differences of positions at the samples of a stay; the way along the ground counts from entry in later ones.

    A reference through other domains than the run's is followed from the `begin` (s) of the run.
    """
    reference = law._reference
    mine = reference.through(stay.domain, visit)
    t, q = (np.concatenate([getattr(x, name) for x in mine]) for name in ("t", "q"))
    entered = stay.t[0] if reference.count(stay.domain) else begin
    elapsed = np.clip(stay.t - entered, 0.0, t[-1] - t[0]) + t[0]
    wanted = np.stack([np.interp(elapsed, t, column) for column in q.T], axis=1)
    for shift in full_turns(m, m.q_names, mine[0]):
        wanted[:, shift.place] += shift.by(stay.q[0])
    if visit >= reference.count(stay.domain) > 0:
        advancing = np.abs(stay.q[0] - wanted[0]) > LOST
        wanted += np.where(advancing, stay.q[0] - wanted[0], 0.0)
    for b in assembler(m).balls:  # a quaternion and its negative are one turn
        turn = slice(b, b + 4)
        wanted[:, turn] *= np.where((stay.q[:, turn] * wanted[:, turn]).sum(axis=1) < 0, -1, 1)[:, None]
    return np.abs(stay.q - wanted)
