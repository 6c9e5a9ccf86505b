"""Directions in which prescribed slips start from rest."""

from __future__ import annotations

import numpy as np

from saltus.errors import BadModel
from saltus.hybrid.contacts import Sliding
from saltus.hybrid.mode import Mode
from saltus.hybrid.transition import STILL

ROUNDS = 50  # that find the direction in which a contact starts to slip in 3D


def start_slips(now: Mode, t: float, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
    """Give sliding contacts that are at rest the direction of their acceleration, in the run-time parameters p.

    Friction acts against it, so that it is a fixed point; BadModel where friction holds the contact.
    """
    c, layout = now.constrained, now.layout
    if not c.sliding:
        return
    x = now.state_vector(q, v)
    tangents, at = c.dimension - 1, layout.slice("slip").start
    speeds = np.ravel(c.touching(t, q, v, p[layout.slice("params")])[1])
    for k, i in enumerate(c.sliding):
        contact = c.domain.contacts[i]
        assert isinstance(contact, Sliding)
        speed = np.linalg.norm(speeds[c.dimension * i : c.dimension * i + tangents])
        if speed > STILL or (isinstance(contact.friction, int | float) and contact.friction == 0):
            continue
        mine = slice(at + tangents * k, at + tangents * (k + 1))
        for _ in range(ROUNDS):
            starts = np.ravel(now.slip_acceleration(t, x, p))[tangents * k : tangents * (k + 1)]
            if not starts @ p[mine] > 0:
                raise BadModel(
                    f"contact {c.contacts[i].name!r} of domain {c.domain.name!r} is at rest at t = {t:.6g} s and "
                    "friction holds it: it does not slide; go on in a domain in which it is Pinned",
                    contact=c.contacts[i].name,
                )
            before = p[mine].copy()
            p[mine] = starts / np.linalg.norm(starts)
            if np.abs(p[mine] - before).max() < 1e-12:
                break
