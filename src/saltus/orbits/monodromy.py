"""Derivatives of an orbit's flow: monodromy, the shooting matrix, saltation matrices, an estimate by differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.dynamics.choice import choose
from saltus.errors import BadValue, UnknownName
from saltus.model.assembly import assembler
from saltus.model.contents import unchanged
from saltus.orbits.orbit import Orbit
from saltus.orbits.section import Relabel, Section
from saltus.orbits.shooting import Shooting


def _independent(orbit: Orbit) -> list[int]:
    stride, node = orbit.shooting.stride, orbit.node
    c = stride.constrained(orbit.system.domains[node.domain])
    m, theta = orbit.system.mechanism, orbit.evaluation.point.theta
    if not c.rows:
        return list(range(len(m.v_names)))
    J = c.unitless(node.t, node.q, np.concatenate([theta, np.zeros(c.anchors.numel())]))
    return list(choose(m, J).independent)


def _consistent(orbit: Orbit, chosen: list[int]) -> np.ndarray:
    """Perturbations (t, q, v) of the start: one coordinate moved, then one velocity, the dependent ones following."""
    stride, node, theta = orbit.shooting.stride, orbit.node, orbit.evaluation.point.theta
    rows, m = stride.rows, orbit.system.mechanism
    if assembler(m).balls:
        raise BadValue("monodromy by coordinate needs coordinates that are numbers; this machine has quaternions")
    n, k = rows.nq + rows.nv, len(chosen)
    seeds = np.zeros((rows.n, 2 * k))
    given = [*chosen, *(rows.nq + i for i in chosen)]
    seeds[1 + np.array(given, int), np.arange(2 * k)] = 1.0
    C = Section(stride, None, node, Relabel(orbit.system, {}), theta).slope(node, theta)[:, rows.x]
    if not len(C):
        return seeds
    others = [i for i in range(n) if i not in given]
    seeds[1 + np.array(others, int)] = -np.linalg.lstsq(C[:, others], C[:, given], rcond=1e-10)[0]
    return seeds


@unchanged
def monodromy(orbit: Orbit, coordinates: Sequence[str] | None = None) -> np.ndarray:
    """Derivative of the flow over one period at fixed time, S of the last event included (eq. 36).

    Rows and columns are the positions of the chosen coordinates, independent ones by default, then their
    velocities. One multiplier is 1 along the flow of a machine that does not depend on time, and one more for
    each cyclic coordinate.
    """
    return _derivative(orbit, coordinates)[1]


@unchanged
def shooting_matrix(orbit: Orbit, coordinates: Sequence[str] | None = None) -> np.ndarray:
    """M of eq. 32: derivative of the state at the moving last event with respect to that at the start.

    `coordinates` are those that may be perturbed; the others are held as they are at the start (eqs. 65, 66).
    """
    return _derivative(orbit, coordinates)[0]


@unchanged
def shooting_estimate(orbit: Orbit, step: float = 1e-6) -> np.ndarray:
    """The map's derivative on the section by differences, M = J + I of eqs. 32 and 33: two plain strides a direction.

    It is in the basis of `Stability.matrix` and cheap to have, but only as good as the step.
    """
    known = orbit.shooting
    parts: Any = (known.sections, known.events, known.sameness, known.relabel, known.period, {}, step)
    return Shooting(known.stride.like(()), *parts).evaluate(orbit.evaluation.point).section_map


def _named(orbit: Orbit, coordinates: Sequence[str] | None) -> list[int]:
    if coordinates is None:
        return _independent(orbit)
    names = orbit.system.mechanism.v_names
    for name in coordinates:
        if name not in names:
            raise UnknownName("coordinate", name, names)
    return [names.index(n) for n in coordinates]


def _derivative(orbit: Orbit, coordinates: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Derivative of one period over chosen coordinates: at the moving event, and at fixed time."""
    chosen = _named(orbit, coordinates)
    rows, seeds = orbit.shooting.stride.rows, _consistent(orbit, chosen)
    passage = orbit.shooting.whole(orbit.node, orbit.evaluation.point.theta, seeds)
    read = np.array([*chosen, *(rows.nq + i for i in chosen)], int)
    mirror = orbit.shooting.relabel
    moving = mirror.columns(passage.Y, rows.nq)[rows.x]
    fixed = mirror.columns(np.vstack([np.zeros((1, seeds.shape[1])), passage.flow]), rows.nq)[rows.x]
    return moving[read], fixed[read]


@dataclass(frozen=True, eq=False)
class Saltation:
    """How a small change (dq, dv) at fixed time jumps across an event (eqs. 38, 39).

    `matrix` maps what the change was just before to what it is just after, seen at the same instant; the memory
    of when and where the domain before was entered is held.
    """

    event: str
    source: str
    target: str
    t: float
    matrix: np.ndarray


@unchanged
def saltations(orbit: Orbit) -> list[Saltation]:
    """Saltation matrix of every event of an orbit."""
    stride, theta = orbit.shooting.stride, orbit.evaluation.point.theta
    rows, out = stride.rows, []
    n = rows.nq + rows.nv
    for c in orbit.crossings:
        before = stride.dynamics(c.before, theta)
        variation = stride.variation(before, 0)
        Y = np.zeros((rows.n, n))
        Y[rows.x] = np.eye(n)
        x = np.concatenate([c.before.q, c.before.v])
        Y = stride.at_event(variation, c.fired, c.t, x, c.p_before, np.eye(n), np.zeros((0, n)), Y)
        assert c.by is not None
        Y = rows.moved(Y, c.by)
        after = stride.dynamics(c.after, theta)
        p, _ = after.entered(c.after, theta, stride.contacts(c.after, theta))
        f = after.rates(c.t, np.concatenate([c.after.q, c.after.v]), p)[0]
        out.append(Saltation(c.name, c.before.domain, c.after.domain, c.t, Y[rows.x] - np.outer(f, Y[rows.t])))
    return out
