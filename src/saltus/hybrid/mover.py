"""Mover: a machine on its way between domains; where it is, and how a reset and new constraints change that."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.formulations import SPF, Baumgarte, Formulation
from saltus.dynamics.impulse import Impact, plastic_impact
from saltus.errors import BadModel, BadValue
from saltus.hybrid.graph import Collision, Domain, Edge, HybridSystem, Map, PlasticImpact
from saltus.hybrid.mode import Stage, tree_of
from saltus.hybrid.signals import Entry, Signals, called
from saltus.hybrid.strike import consistent_target, strike
from saltus.model.assembly import assembler
from saltus.model.symbols import Named, flatten
from saltus.simulation.trajectory import Event

SPEED_ERROR = 1e-6  # m/s: a Continuous reset may violate new constraints by so much


class Mover:
    """Time, positions and velocities of a machine during a run, and its passage from domain to domain."""

    def __init__(
        self, system: HybridSystem, formulation: Formulation, t: float, q: np.ndarray, v: np.ndarray, params: np.ndarray
    ) -> None:
        self.system, self.formulation, self.params = system, formulation, params
        self.t, self.q, self.v = t, q, v
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.pulled = False  # whether the start is off the constraints, onto which the formulation pulls it

    def _stage(self, domain: Domain) -> Stage:
        return self.system.once(("stage", domain.name), lambda: Stage(self.system, domain))

    def _anchored(self, stage: Stage) -> np.ndarray:
        """Params and anchors that hold the contacts where they are, the normal one at the ground."""
        d, n = stage.dimension, stage.anchors.numel()
        zero = np.concatenate([self.params, np.zeros(n)])
        if not n:
            return zero
        anchors, _ = stage.places(self.t, self.q, self.v, zero)
        anchors = anchors.copy()
        anchors[d - 1 :: d] = self.system.ground
        return np.concatenate([self.params, anchors])

    def _places(self, frame: Any) -> tuple[np.ndarray, np.ndarray]:
        def make() -> tuple[Kernel, Any]:
            e = tree_of(self.system)
            f = ca.Function("place", [e.t, e.q, e.v, e.p], [e.position(frame), ca.densify(e.velocity(frame))])
            return Kernel(f), frame  # kept, so that no other frame gets its id

        return self.system.once(("place", id(frame)), make)[0](self.t, self.q, self.v, self.params)

    def _cross(self, edge: Edge, phase: int) -> Domain | None:
        """Apply the reset and settle into the target domain; `phase` is the number of the one that follows."""
        q, v = self.q.copy(), self.v.copy()
        impact: Impact | None = None
        shift = 0.0
        if isinstance(edge.reset, Map):
            self._map(edge.reset)
        elif isinstance(edge.reset, Collision):
            hit = strike(self.system, edge.reset.contacts, edge.source.params)
            now = hit.at(self.t, self.q, self.v, self.params)
            impact, _ = hit.collide(now, self.v, edge.reset.rule)
            self.v = impact.v
        target = edge.target
        if edge.candidates:
            target = consistent_target(self.system, edge, self.t, self.q, self.v, self.params)
        if target is not None:
            ideal, shift = self._settle(target, edge=edge)
            impact = impact or ideal
        self.events.append(
            Event(
                self.t,
                edge.name,
                edge.source.name,
                target.name if target else None,
                q,
                v,
                self.q.copy(),
                self.v.copy(),
                impact,
                shift,
                phase,
            )
        )
        return target

    def _map(self, reset: Map) -> None:
        m = self.system.mechanism
        signals = Signals(
            m,
            "",
            self.t,
            Named(m.q_names, self.q),
            Named(m.v_names, self.v, "velocity"),
            Named(list(m.params), self.params, "param"),
            Entry(self.t, Named(m.q_names, self.q), Named(m.v_names, self.v, "velocity")),
            self._places,
            None,
            self.system.ground,
        )
        given = called(reset.function, signals, what=f"reset at t = {self.t:.6g} s")
        if not hasattr(given, "items"):
            raise BadValue(f"a reset returned {given!r}; return a dict such as {{'v.hip': 0.0}}", given=given)
        speeds = flatten({k[2:]: x for k, x in given.items() if k.startswith("v.")}, m.v_names, "velocity")
        places = flatten({k: x for k, x in given.items() if not k.startswith("v.")}, m.q_names)
        for name, value in places.items():
            self.q[m.q_names.index(name)] = value
        for name, value in speeds.items():
            self.v[m.v_names.index(name)] = value

    def _settle(self, domain: Domain, *, edge: Edge | None = None, first: bool = False) -> tuple[Impact | None, float]:
        """Bring positions and velocities onto the constraints of a domain; say how far they moved."""
        stage = self._stage(domain)
        base = self._anchored(stage)
        helper, before = assembler(self.system.mechanism), self.q.copy()
        tolerant = isinstance(self.formulation, SPF | Baumgarte)
        if not stage.equations.phi.numel():
            return None, 0.0
        if not (first and tolerant):
            for _ in range(3):
                phi, J, _ = stage.closure(self.t, self.q, base)
                if np.abs(phi).max() < 1e-15:
                    break
                self.q = helper.move(self.q, -np.linalg.lstsq(J, phi, rcond=1e-10)[0], self.params)
        phi, J, phi_t = stage.closure(self.t, self.q, base)
        speed = J @ self.v + phi_t
        error = np.abs(speed).max()
        allowed = SPEED_ERROR * max(1.0, float(np.abs(self.v).max()))
        if phi_t.any():
            apart = float(np.abs(speed - J @ np.linalg.lstsq(J, speed, rcond=1e-8)[0]).max())
            if apart > allowed:
                raise BadModel(
                    f"domain {domain.name!r}: motions given in time contradict its constraints at t = {self.t:.6g} s, "
                    f"which no velocity meets to less than {apart:.3g} m/s; let go of a contact or of a given motion",
                    domain=domain.name,
                    error=apart,
                )
        impact: Impact | None = None
        if edge is not None and isinstance(edge.reset, PlasticImpact):
            impact = plastic_impact(self._mass(stage, base), J, self.v, phi_t, stage.row_names)
            self.v = impact.v
            acting = int(np.abs(J).any(axis=1).sum())
            note = (
                f"impact into {domain.name!r}: {acting - impact.rank} of {acting} constraint rows are dependent; "
                "velocities and energies are unique, impulses are the least-norm set"
            )
            if impact.rank < acting and note not in self.notes:
                self.notes.append(note)
        elif edge is not None and error > allowed:
            raise BadModel(
                f"edge {edge.name!r}: its reset leaves velocities that violate the constraints of {domain.name!r} by "
                f"{error:.3g} m/s; use reset=sl.PlasticImpact(), or after a collision list domains that fit as targets",
                edge=edge.name,
                error=float(error),
            )
        elif first and tolerant:
            off = float(np.abs(phi).max())
            if max(off, error) > allowed:
                self.pulled = True
                self.notes.append(
                    f"the start violates the constraints of {domain.name!r} by {off:.3g} m and {error:.3g} m/s; "
                    f"{type(self.formulation).__name__} pulls it onto them"
                )
        else:
            self.v = plastic_impact(self._mass(stage, base), J, self.v, phi_t).v
        return impact, float(np.abs(self.q - before).max())

    def _mass(self, stage: Stage, base: np.ndarray) -> np.ndarray:
        return stage.mass(self.t, self.q, base)
