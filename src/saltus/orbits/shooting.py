"""Shooting: the equations of a periodic orbit on its sections, their exact Jacobian, and Newton's method for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.orbits.section import Relabel, Sameness, Section, Signal
from saltus.orbits.stride import Lost, Moment, Passage, Stride, after

GOAL = 1e-9  # residual (m, rad, m/s, rad/s), relative to the largest number, below which it counts as an orbit
MOST_STEPS = 40
HALVINGS = 12  # of a Newton step, at most
SLOW = 0.5  # a residual that falls to no less than this with derivatives of an earlier iterate asks for new ones


@dataclass(frozen=True, eq=False)
class Point:
    """A guess: one state a node, just after an event, and the values of all Params."""

    nodes: tuple[Moment, ...]
    theta: np.ndarray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Residual of a point; with derivatives also the Jacobian over the unknowns and how they move the point."""

    point: Point
    residual: np.ndarray
    passages: tuple[Passage, ...]
    jacobian: np.ndarray
    lift: np.ndarray  # unknowns -> (t, q, v) of every node, then the free Params
    section_map: np.ndarray  # derivative of the return map in the basis of the first section
    by_param: np.ndarray  # the same for the free Params

    @property
    def norm(self) -> float:
        """Length of the residual."""
        return float(np.linalg.norm(self.residual))


class Shooting:
    """Unknowns are states on sections and free Params; equations that arcs meet, and the user's conditions.

    `events` says how many of them each arc has; None is an arc of one period, whatever happens in it. With a `step`
    (m, rad, m/s, rad/s) derivatives are central differences of whole arcs, two plain arcs per direction, instead of
    columns beside the flow: for machines so large that differentiating their flow takes longer than running it.
    """

    def __init__(
        self,
        stride: Stride,
        sections: Sequence[Section],
        events: Sequence[int | None],
        sameness: Sameness,
        relabel: Relabel,
        period: float | None,
        where: Mapping[Any, float],
        step: float | None = None,
    ) -> None:
        self.stride, self.sections, self.events = stride, list(sections), list(events)
        self.sameness, self.relabel, self.step = sameness, relabel, step
        self.period, self.where = period, dict(where)
        self.signals: dict[Any, Signal] = {}

    @property
    def free(self) -> list[int]:
        """Places of the free Params among all."""
        return list(self.stride.rows.params)

    def with_free(self, params: tuple[str, ...], where: Mapping[Any, float] | None = None) -> Shooting:
        """Return the same equations with other Params free."""
        return Shooting(
            self.stride.like(params),
            self.sections,
            self.events,
            self.sameness,
            self.relabel,
            self.period,
            self.where if where is None else where,
            self.step,
        )

    def whole(self, start: Moment, theta: np.ndarray, Y: np.ndarray | None = None) -> Passage:
        """One period in one go: as many events as there are, or the time."""
        if self.events[0] is None:
            return self.stride.run(start, theta, Y, until=start.t + (self.period or 0.0))
        return self.stride.run(start, theta, Y, stop=after(sum(n or 0 for n in self.events)))

    # ---- evaluation ---------------------------------------------------------------------------------------------

    def _arc(self, i: int, point: Point, Y: np.ndarray | None) -> Passage:
        """An arc with columns that begin as Y."""
        if Y is None or self.step is None:
            return self._run(i, point, Y)
        passage, rows = self._run(i, point, None), self.stride.rows
        ahead, behind = ([self._beside(i, point, way * self.step * y, passage) for y in Y.T] for way in (1, -1))
        Y, pairs = Y.copy(), list(zip(ahead, behind, strict=True))
        Y[rows.t] = [(a.end.t - b.end.t) / (2 * self.step) for a, b in pairs]
        for where, what in ((rows.q, "q"), (rows.v, "v")):
            Y[where] = np.array([getattr(a.end, what) - getattr(b.end, what) for a, b in pairs]).T / (2 * self.step)
        times = [[np.array([c.t for c in p.crossings] + [p.end.t]) for p in pair] for pair in pairs]
        dt = np.array([(a - b) / (2 * self.step) for a, b in times]).T
        return replace(passage, Y=Y, dt=list(dt[: len(passage.arcs)]))

    def _beside(self, i: int, point: Point, change: np.ndarray, passage: Passage) -> Passage:
        """An arc from beside a node; Lost where other events happen on it than on the node's own."""
        theta, nodes = point.theta.copy(), list(point.nodes)
        theta[self.free] += change[self.stride.rows.p]
        nodes[i] = self._moved(i, nodes[i], change, theta)
        out = self._run(i, Point(tuple(nodes), theta), None)
        if (names := [c.name for c in out.crossings]) != (own := [c.name for c in passage.crossings]):
            raise Lost(
                f"events change within {self.step:.1g} of the state: {' -> '.join(own)} become {' -> '.join(names)}",
                reason="other events",
            )
        return out

    def _run(self, i: int, point: Point, Y: np.ndarray | None) -> Passage:
        count, j = self.events[i], (i + 1) % len(self.sections)
        until = math.inf if count is not None else point.nodes[i].t + (self.period or 0.0)
        stop = None if count is None else after(count)
        passage = self.stride.run(point.nodes[i], point.theta, Y, stop=stop, until=until)
        arrived = self.relabel.moment(passage.end) if j == 0 else passage.end
        wanted = point.nodes[j]
        if (arrived.domain, arrived.modes) != (wanted.domain, wanted.modes):
            names, where = " -> ".join(c.name for c in passage.crossings), f"{wanted.domain!r}"
            if wanted.contacts:
                where = ", ".join(f"{one.element.name} {one.mode}" for one in wanted.contacts)
            raise Lost(f"its events {names or '(none)'} do not lead to {where}", reason="other events")
        return passage

    def evaluate(self, point: Point, derivatives: bool = True) -> Evaluation:
        """Run all arcs; Lost if one of them does not arrive."""
        rows, same, m = self.stride.rows, self.sameness, len(point.nodes)
        bases = [s.basis(n, point.theta, same, rows) for s, n in zip(self.sections, point.nodes, strict=True)]
        sizes = [b.shape[1] for b, _ in bases]
        at = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        n_free, total = len(self.free), int(at[-1]) + len(self.free)
        passages, residual, jacobian = [], [], []
        for i in range(m):
            seeds = np.hstack(bases[i]) if derivatives else None
            passage = self._arc(i, point, seeds)
            passages.append(passage)
            j = (i + 1) % m
            end, Y = passage.end, passage.Y
            if j == 0:
                end, Y = self.relabel.moment(end), self.relabel.columns(Y, rows.nq)
                end = replace(end, t=end.t - (self.period or 0.0) if self.events[i] is not None else point.nodes[j].t)
            residual.append(same.difference(end, point.nodes[j]))
            if derivatives:
                block = np.zeros((len(same.rows), total))
                moved = same.seen(Y)
                block[:, at[i] : at[i + 1]] += moved[:, : sizes[i]]
                block[:, at[j] : at[j + 1]] -= same.seen(bases[j][0])
                block[:, at[-1] :] += moved[:, sizes[i] :] - same.seen(bases[j][1])
                jacobian.append(block)
        for what, wanted in self.where.items():
            value, gradient = self._condition(what, point, passages, bases, at, total)
            residual.append(np.array([value - wanted]))
            jacobian.append(gradient[None, :])
        empty = np.zeros((0, 0))
        if not derivatives:
            return Evaluation(point, np.concatenate(residual), tuple(passages), empty, empty, empty, empty)
        n = 1 + rows.nq + rows.nv
        lift = np.zeros((m * n + n_free, total))
        for i, (own, by) in enumerate(bases):
            lift[i * n : (i + 1) * n, at[i] : at[i + 1]] = own[:n]
            lift[i * n : (i + 1) * n, at[-1] :] = by[:n]
        lift[m * n :, at[-1] :] = np.eye(n_free)
        A, by_param = self._return(passages, bases)
        return Evaluation(point, np.concatenate(residual), tuple(passages), np.vstack(jacobian), lift, A, by_param)

    def _return(
        self, passages: Sequence[Passage], bases: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivative of the return map on the first section, and with respect to the free Params."""
        seen, nq = self.sameness.seen, self.stride.rows.nq
        A, b = np.eye(bases[0][0].shape[1]), np.zeros((bases[0][0].shape[1], len(self.free)))
        for i, passage in enumerate(passages):
            own, by = bases[(i + 1) % len(bases)]
            Y = self.relabel.columns(passage.Y, nq) if i + 1 == len(passages) else passage.Y
            k = bases[i][0].shape[1]
            inverse, moved = np.linalg.pinv(seen(own)), seen(Y)
            step = inverse @ moved[:, :k]
            b = step @ b + inverse @ (moved[:, k:] - seen(by))
            A = step @ A
        return A, b

    def _condition(
        self, what: Any, point: Point, passages: Sequence[Passage], bases: Sequence[Any], at: np.ndarray, total: int
    ) -> tuple[float, np.ndarray]:
        """Value of a condition and its gradient over the unknowns."""
        rows, derivatives = self.stride.rows, passages[0].Y.shape[1] > 0
        seeds = [np.hstack(b) for b in bases]

        def add(gradient: np.ndarray, i: int, row: np.ndarray) -> None:
            k = at[i + 1] - at[i]
            gradient[at[i] : at[i + 1]] += row[:k]
            gradient[at[-1] :] += row[k:]

        time, by_time, length, by_length = 0.0, np.zeros(total), 0.0, np.zeros(total)
        if callable(what):
            if what not in self.signals:
                self.signals[what] = Signal(self.stride, what, point.nodes[0].domain)
            node = point.nodes[0]
            value, slope = self.signals[what].kernel(node.t, node.q, node.v, point.theta)
            add(by_time, 0, np.ravel(slope)[rows.among_all] @ seeds[0])
            return float(np.ravel(value)[0]), by_time
        domain = what.removeprefix("time in ")
        valid = ["period", "speed", *(f"time in {d}" for d in self.stride.system.domains)]
        if what not in valid:
            raise UnknownName("condition", what, valid)
        for i, passage in enumerate(passages):
            shifts = [seeds[i][rows.t], *passage.dt]
            for k, arc in enumerate(passage.arcs):
                if what in ("period", "speed") or arc.dynamics.domain.name == domain:
                    time += arc.duration
                    if derivatives:
                        add(by_time, i, shifts[k + 1] - shifts[k])
        if what != "speed":
            return time, by_time
        if not self.sameness.cyclic:
            raise BadValue("speed: no coordinate of this machine is free to travel, so it has no speed", given=what)
        j = self.sameness.cyclic[0]
        for i, passage in enumerate(passages):
            length += passage.end.q[j] - passage.start.q[j]
            if derivatives:
                add(by_length, i, passage.Y[1 + j] - seeds[i][1 + j])
        return length / time, by_length / time - length / time**2 * by_time

    @staticmethod
    def goal(point: Point) -> float:
        """Residual below which a point counts as an orbit."""
        return GOAL * max(1.0, *(float(np.abs(np.concatenate([n.q, n.v])).max()) for n in point.nodes))

    # ---- moving -------------------------------------------------------------------------------------------------

    def vector(self, point: Point) -> np.ndarray:
        """All numbers of a point: (t, q, v) of every node, then the free Params."""
        parts = [np.concatenate([[n.t], n.q, n.v]) for n in point.nodes]
        return np.concatenate([*parts, point.theta[self.free]])

    def moved(self, point: Point, change: np.ndarray) -> Point:
        """Point after a change of its vector, put back onto the sections."""
        rows = self.stride.rows
        n = 1 + rows.nq + rows.nv
        theta = point.theta.copy()
        theta[self.free] += change[len(point.nodes) * n :]
        nodes = []
        for i, node in enumerate(point.nodes):
            nodes.append(self._moved(i, node, change[i * n : (i + 1) * n], theta))
        return Point(tuple(nodes), theta)

    def _moved(self, i: int, node: Moment, change: np.ndarray, theta: np.ndarray) -> Moment:
        """A node after a change of its (t, q, v), put back onto its section."""
        rows, section = self.stride.rows, self.sections[i]
        q = section.helper.unit(node.q + change[rows.q])
        return section.nearest(replace(node, t=node.t + change[rows.t], q=q, v=node.v + change[rows.v]), theta)


Extra = Callable[[Point, np.ndarray], tuple[np.ndarray, np.ndarray]]


def newton(
    shooting: Shooting,
    start: Point,
    extra: Extra | None = None,
    *,
    steps: int = MOST_STEPS,
    halvings: int = HALVINGS,
    history: list[float] | None = None,
) -> Evaluation:
    """Solve by Newton's method with halved steps; Lost if it does not converge, with the best iterate in `best`.

    `extra(point, lift)` adds equations: their residuals and their gradients over the unknowns.
    """
    history = [] if history is None else history
    costly = shooting.step is not None and extra is None  # then an iterate is judged without derivatives first

    def judged(point: Point, derivatives: bool) -> tuple[Evaluation, np.ndarray, np.ndarray]:
        e = shooting.evaluate(point, derivatives)
        if extra is None:
            return e, e.residual, e.jacobian
        r, J = extra(point, e.lift)
        return e, np.concatenate([e.residual, r]), np.vstack([e.jacobian, J])

    goal = shooting.goal(start)
    e, r, J = judged(start, True)
    lift = e.lift
    history.append(float(np.linalg.norm(r)))
    if history[-1] < 1e-3 * goal:  # one of a family, as of a machine without losses: a step would go along it, anywhere
        return e
    last_chance = False
    for _ in range(steps):
        step = -np.linalg.lstsq(J, r, rcond=1e-11)[0]
        size, accepted = 1.0, False
        while size >= 2.0**-halvings and not accepted:
            try:
                trial, r_trial, J_trial = judged(shooting.moved(e.point, lift @ (size * step)), not costly)
                accepted = bool(np.linalg.norm(r_trial) < (1 - 1e-4 * size) * np.linalg.norm(r))
            except SaltusError:
                accepted = False
            if not accepted and history[-1] < goal:
                return _whole(shooting, e)  # at round-off: it cannot get better
            size = size if accepted else size / 2
        if not accepted:
            break
        if costly:  # Broyden's update: the change of J of least norm that explains the change of r
            J = J + np.outer(r_trial - r - J @ (size * step), step) / (size * float(step @ step))
        e, r = trial, r_trial
        history.append(float(np.linalg.norm(r)))
        if history[-1] < goal and (last_chance or history[-1] < 1e-3 * goal):
            return _whole(shooting, e)
        last_chance = history[-1] < goal
        if not costly:
            J, lift = J_trial, e.lift
        elif history[-1] > SLOW * history[-2]:
            e, r, J = judged(e.point, True)
            lift = e.lift
    if history[-1] < goal:
        return _whole(shooting, e)
    raise Lost(f"Newton's method stops at a residual of {history[-1]:.3g}", reason="not converged", best=e)


def _whole(shooting: Shooting, e: Evaluation) -> Evaluation:
    """An evaluation with its derivatives."""
    return e if e.lift.size else shooting.evaluate(e.point)
