"""Slip: the directions in which contacts slide as a domain is entered, and whether they last."""

from __future__ import annotations

import numpy as np

from saltus.hybrid.graph import Sliding, contact_names
from saltus.hybrid.mode import Program
from saltus.simulation.engines.port import Segment
from saltus.simulation.trajectory import Outcome

STILL = 1e-12  # m/s: slower than this a contact has no direction of slip
BACK = 1e-6  # m/s, or of the fastest slip: what counts as sliding back


def directions(program: Program, t: float, q: np.ndarray, v: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Unit directions of slip of the sliding contacts, one after another; zero for one at rest."""
    d, out = program.stage.dimension, [np.zeros(0)]
    _, speeds = program.stage.places(t, q, v, base)
    for i, _ in _sliding(program):
        tangential = speeds[d * i : d * (i + 1) - 1]
        size = float(np.linalg.norm(tangential))
        out.append(tangential / size if size > STILL else np.zeros(d - 1))
    return np.concatenate(out)


def reversal(program: Program, segment: Segment, p: np.ndarray) -> Outcome | None:
    """Outcome of a run in which a contact slides back: friction, which keeps its direction, would drive it on."""
    stage, layout, contacts = program.stage, program.layout, program.domain.contacts
    sliding = _sliding(program)
    if not sliding or len(segment.breaks) < 2:
        return None
    t, x = segment.breaks[:, None], np.vstack([segment.coefficients[:, 0], segment.x])
    base = np.concatenate([p[layout.slice("params")], p[layout.slice("anchors")]])
    _, speeds = stage.places.batch(t, x[:, : layout.nq], program.velocity.batch(t, x, p), base)
    d, at_entry = stage.dimension, p[layout.slice("slip")].reshape(len(sliding), -1)
    for (i, contact), direction in zip(sliding, at_entry, strict=True):
        if isinstance(contact.friction, int | float) and contact.friction == 0:
            continue
        along = speeds[:, d * i : d * i + d - 1] @ direction
        back = np.flatnonzero(along < -BACK * max(1.0, float(along.max())))
        if back.size:
            name, when = contact_names(stage.system.mechanism, contacts)[i], float(segment.breaks[back[0]])
            return Outcome(
                "slip reversed",
                f"contact {name!r} of {program.domain.name!r} slides back from t = {when:.6g} s on, while friction "
                "keeps the direction it had at entry; leave the domain as the slip ends, with an edge to one in which "
                "the point is Pinned",
                when,
            )
    return None


def _sliding(program: Program) -> list[tuple[int, Sliding]]:
    return [(i, contact) for i, contact in enumerate(program.domain.contacts) if isinstance(contact, Sliding)]
