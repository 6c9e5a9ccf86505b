"""switch: onto the branch that leaves a family at a flip or a branch point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from saltus.errors import BadValue, NoOrbit, SaltusError
from saltus.model.contents import unchanged
from saltus.orbits.family import Bifurcation
from saltus.orbits.orbit import Orbit
from saltus.orbits.section import Relabel
from saltus.orbits.shooting import Extra, Point, Shooting, newton

SMALLEST = 1e-5  # of the size asked for: a branch that cannot be entered by this much is not entered
SHRINK = 4.0
NEAR = 0.5  # of the size: an orbit further from where the branch was expected is on another one


@unchanged
def switch(point: Bifurcation, size: float = 0.02) -> Orbit:
    """Return an orbit on the branch that leaves a family at a flip (of twice the period) or at a branch point.

    `size` (arclength, as in `orbits.follow`) says how far from the bifurcation, its sign to which side; where the
    branch does not reach so far, or bends too much, it is reduced. An orbit of twice the period is asked for
    by how much its two halves differ, so it cannot be the old one run through twice. NoOrbit says in `tried` why
    each size failed.
    """
    if point.other is None:
        raise BadValue(f"no branch starts at a {point.kind}; switch at a flip or a branch point", kind=point.kind)
    if not np.isfinite(size) or size == 0:
        raise BadValue(f"size is {size}; give a number other than zero, as in 0.02", given=size)
    orbit = point.orbit
    first = orbit.evaluation.point.nodes[0]
    if point.kind == "flip":  # by single shooting, from the first node
        shooting, start = doubled(orbit), Point((first,), orbit.evaluation.point.theta)
        n, free = 1 + len(first.q) + len(first.v), len(shooting.free)
        along = np.concatenate([point.other[:n], point.other[len(point.other) - free :]])
        asked = _halves(orbit, shooting, along)
    else:
        shooting, start, along = orbit.shooting, orbit.evaluation.point, point.other
        asked = _aside(point, shooting)
    base, states = shooting.vector(start), len(along) - len(shooting.free)
    tried: list[tuple[float, str]] = []
    amount = size
    while abs(amount) >= SMALLEST * abs(size):
        try:
            found = newton(shooting, shooting.moved(start, amount * along), asked(amount), steps=12, halvings=3)
            off = shooting.vector(found.point) - base - amount * along
            if np.linalg.norm(off[:states]) < NEAR * abs(amount):
                return Orbit(orbit.system, orbit.control, shooting, found)
            tried.append((amount, f"what is found is {np.linalg.norm(off[:states]):.3g} off the branch"))
        except SaltusError as problem:
            tried.append((amount, str(problem)))
        amount /= SHRINK
    raise NoOrbit(
        f"the branch at the {point.kind} at {point.param} = {point.value:.8g} cannot be entered, by {size:g} or less: "
        f"{tried[0][1]}, and at {tried[-1][0]:.2g}: {tried[-1][1]}. Try the other side ({-size:g}), or locate the "
        "bifurcation again with a smaller `largest`",
        history=[],
        best=None,
        tried=tried,
    )


def doubled(orbit: Orbit) -> Shooting:
    """Equations of orbits of twice the period."""
    s = orbit.shooting
    relabel = s.relabel if s.relabel.plain else Relabel(orbit.system, {})
    period = None if s.period is None else 2 * s.period
    where = {k: 2 * v if isinstance(k, str) and k != "speed" else v for k, v in s.where.items()}
    stride = s.stride.like(s.stride.params)
    stride.longest *= 2
    events = None if s.events[0] is None else 2 * sum(n or 0 for n in s.events)
    return Shooting(stride, s.sections[:1], [events], s.sameness, relabel, period, where)


def _halves(orbit: Orbit, shooting: Shooting, along: np.ndarray) -> Callable[[float], Extra]:
    """Ask for the difference between the states after half of the time and at the start: -2 amount along the mode."""
    single, same, rows = orbit.shooting, orbit.shooting.sameness, orbit.shooting.stride.rows
    mode = same.seen(along) / (same.seen(along) @ same.seen(along))

    def asked(amount: float) -> Extra:
        def extra(point: Point, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            passage = single.whole(point.nodes[0], point.theta, lift)
            middle = single.relabel.moment(passage.end)
            middle = replace(middle, t=middle.t - (single.period or 0.0))
            change = same.seen(single.relabel.columns(passage.Y, rows.nq)) - same.seen(lift)
            return np.array([mode @ same.difference(middle, point.nodes[0]) + 2 * amount]), (mode @ change)[None, :]

        return extra

    return asked


def _aside(point: Bifurcation, shooting: Shooting) -> Callable[[float], Extra]:
    """Ask for a distance off the family: along the other tangent, not counting what lies along its own."""
    base = shooting.vector(point.orbit.evaluation.point)
    assert point.other is not None
    pair = np.column_stack([point.tangent, point.other])
    scale = np.abs(pair).max(axis=1)  # a Param's unit is not that of a state
    scale[: -len(shooting.free)], scale[scale == 0] = 1.0, 1.0
    row = np.linalg.pinv(pair / scale[:, None])[1] / scale

    def asked(amount: float) -> Extra:
        def extra(p: Point, lift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return np.array([row @ (shooting.vector(p) - base) - amount]), (row @ lift)[None, :]

        return extra

    return asked
