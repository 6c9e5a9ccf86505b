"""Orbit: a periodic gait, what happens on it, and its numbers by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from saltus.errors import BadModel, UnknownName
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.touched import Touched
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.packing import Packed
from saltus.once import cached_property
from saltus.orbits.shooting import Evaluation, Shooting
from saltus.orbits.stability import Stability, stability
from saltus.orbits.stride import Crossing, Moment, Passage, heights
from saltus.orbits.trust import error
from saltus.shown import Shown
from saltus.simulation.run import simulate
from saltus.simulation.trajectory import Trajectory

VERGE = 1e-4  # m, of the weight: so near to a touch or a lift that the next orbit may have it
DOUBTFUL = 1e-6  # m, rad, m/s, rad/s: an orbit that may be off by more says so


@dataclass(frozen=True, eq=False)
class Orbit(Packed, Shown):
    """A periodic gait: where it starts just after an event, how long it takes, what happens on the way.

    `start` is a State with the Param values of the gait, in the domain `domain`; `time` is the instant it belongs
    to where the machine depends on time. `advance` says how far cyclic coordinates travel per stride. `history` are
    the residuals of the search.
    """

    system: HybridSystem
    control: Any
    shooting: Shooting
    evaluation: Evaluation
    history: list[float] = field(default_factory=list)

    @property
    def node(self) -> Moment:
        """Start as the stride map takes it: domain, time, positions, velocities."""
        return self.evaluation.point.nodes[0]

    @property
    def domain(self) -> str:
        """Domain it starts in."""
        return self.node.domain

    @property
    def time(self) -> float:
        """Time at the start (s); zero unless the machine depends on time."""
        return self.node.t

    @property
    def params(self) -> dict[str, float]:
        """Param values by name."""
        return dict(zip(self.system.mechanism.params, map(float, self.evaluation.point.theta), strict=True))

    @property
    def start(self) -> State:
        """State at the start, just after the event."""
        return State(self.system.mechanism, self.node.q.copy(), self.node.v.copy(), self.params, None, self.time)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """What was run, one passage per shooting arc."""
        return self.evaluation.passages

    @property
    def period(self) -> float:
        """Duration of one stride (s); of half a stride if left and right change places in it."""
        return float(sum(p.duration for p in self.passages))

    @property
    def residual(self) -> float:
        """By how much the end misses the start."""
        return self.evaluation.norm

    @cached_property
    def error(self) -> float:
        """Estimate of how far the start is from the true orbit's (m, rad, m/s, rad/s); see `orbits.trust`."""
        return error(self.shooting, self.evaluation)

    @property
    def events(self) -> list[str]:
        """Names of its events in order."""
        return [c.name for c in self.crossings]

    @property
    def crossings(self) -> list[Crossing]:
        """Its events with the states before and after."""
        return [c for p in self.passages for c in p.crossings]

    def time_in(self, domain: str) -> float:
        """Time spent in a domain (s)."""
        if domain not in self.system.domains:
            raise UnknownName("domain", domain, self.system.domains)
        return float(sum(p.time_in(domain) for p in self.passages))

    @property
    def duty(self) -> float:
        """Share of the period in which something touches."""
        if self.system.terrain is not None:
            arcs = [a for p in self.passages for a in p.arcs]
            return sum(a.duration for a in arcs if any(mode != "open" for mode in a.modes)) / self.period
        return sum(self.time_in(n) for n, d in self.system.domains.items() if d.contacts) / self.period

    @property
    def advance(self) -> dict[str, float]:
        """How far each coordinate that may shift freely travels in one period (m, rad)."""
        names = self.system.mechanism.q_names
        return {
            names[i]: float(sum(p.end.q[i] - p.start.q[i] for p in self.passages))
            for i in self.shooting.sameness.cyclic
        }

    @property
    def speed(self) -> float:
        """Travel of the first coordinate that may shift freely, by the period (m/s)."""
        return next(iter(self.advance.values())) / self.period if self.advance else 0.0

    @property
    def impact_loss(self) -> float:
        """Kinetic energy lost at all impacts of one period, T_c (J)."""
        return float(sum(c.impact.T_c for c in self.crossings if c.impact is not None))

    @cached_property
    def apex(self) -> float:
        """Greatest height of the machine's first named point (m)."""
        m = self.system.mechanism
        if not m.points:
            raise BadModel(f"{m.name!r} has no named point to measure the height of; add m.point(...)")
        return self.highest(next(iter(m.points)))

    def highest(self, point: str) -> float:
        """Greatest height of a point above the ground over the period (m)."""
        self.system.mechanism.frame(point)
        height, theta, best = heights(self.system, point), self.evaluation.point.theta, -np.inf
        nq = len(self.system.mechanism.q_names)
        for passage in self.passages:
            for arc in passage.arcs:
                if len(arc.breaks) < 2:
                    continue
                t, x = arc.sampled(6)
                y = np.array([height(ti, xi[:nq], theta)[0] for ti, xi in zip(t, x, strict=True)])
                best = max(best, _peak(t, y))
        return best

    @cached_property
    def violations(self) -> list[str]:
        """What unilateral contact forbids: the ground pulling, a foot below the ground."""
        return [text for p in self.passages for text in p.wrong_sides()]

    @property
    def on_the_verge(self) -> str:
        """Which contact with modes of its own comes nearest to a touch or a lift that it does not make, if any does."""
        found = [(VERGE, "")]
        for arc in (a for p in self.passages for a in p.arcs if len(a.breaks) > 1):
            c = arc.dynamics.constrained
            if not isinstance(c, Touched):
                continue
            t, x = arc.sampled()
            room = np.array([np.ravel(arc.dynamics.clearances(ti, xi, arc.p)) for ti, xi in zip(t, x, strict=True)])
            for y, i in zip(room.T, (i for what, i in c.watched if what == "normal"), strict=True):
                word = "touches" if arc.modes[i] == "open" else "lifts"
                for k in range(2, len(t) - 2):
                    at = slice(k - 2, k + 3)
                    if y[at].argmin() == 2:
                        said = f"{c.elements[i].name} all but {word} at t = {t[k]:.4g} s"
                        found.append((-_peak(t[at], -y[at]), said))
        return min(found)[1]

    # ---- stability ----------------------------------------------------------------------------------------------

    @cached_property
    def stability(self) -> Stability:
        """Multipliers with their vectors."""
        return stability(self.shooting, self.evaluation)

    @property
    def multipliers(self) -> np.ndarray:
        """Multipliers of the return map on its section, largest magnitude first."""
        return self.stability.multipliers

    @property
    def is_stable(self) -> bool:
        """Whether every multiplier is inside the unit circle."""
        return self.stability.is_stable

    # ---- running it ---------------------------------------------------------------------------------------------

    def simulate(self, periods: float = 1.0, **options: Any) -> Trajectory:
        """Run it through `sl.simulate`."""
        given = {"until": self.time + periods * self.period, "tolerance": 1e-10, **options}
        system: HybridSystem | Mechanism = self.system
        if self.system.terrain is not None:
            system, given["ground"] = self.system.mechanism, self.shooting.stride.ground
        else:
            given["domain"] = self.domain
        return simulate(system, self.start, control=self.control, begin=self.time, **given)

    @property
    def notes(self) -> list[str]:
        """What its derivatives leave out."""
        return [
            f"at t = {c.t:.6g} s {c.name}: several contacts meet at once, and small perturbations part them; the "
            "multipliers hold for those that keep them together"
            for c in self.crossings
            if c.tied
        ]

    @cached_property
    def trajectory(self) -> Trajectory:
        """One period as a Trajectory."""
        return self.simulate()

    @property
    def impacts(self) -> Any:
        """What each touchdown of one period costs."""
        return self.simulate(1.0 + 1e-9).impacts

    def value(self, name: str) -> float:
        """Number by name: a Param, period, speed, apex, duty, impact loss, multiplier, error or "time in" a domain."""
        known: dict[str, Callable[[], float]] = {
            "period": lambda: self.period,
            "speed": lambda: self.speed,
            "apex": lambda: self.apex,
            "duty": lambda: self.duty,
            "impact loss": lambda: self.impact_loss,
            "multiplier": lambda: float(np.abs(self.multipliers).max(initial=0.0)),
            "error": lambda: self.error,
        }
        known |= {f"time in {d}": partial(self.time_in, d) for d in self.system.domains}
        if name in known:
            return known[name]()
        if name in self.params:
            return self.params[name]
        raise UnknownName("number of an orbit", name, [*known, *self.params])

    def __repr__(self) -> str:
        multipliers = ", ".join(f"{m:.4g}" for m in self.multipliers[:4])
        doubt = f", its start uncertain by {self.error:.1g}" if self.error > DOUBTFUL else ""
        return (
            f"<Orbit of {self.system.mechanism.name}: period {self.period:.6g} s, {' -> '.join(self.events)}, "
            f"multipliers {multipliers}, {'stable' if self.is_stable else 'unstable'}{doubt}>"
        )


def _peak(t: np.ndarray, y: np.ndarray) -> float:
    """Largest value of a smooth function known at samples: the top of the quartic through five of them."""
    k = int(np.argmax(y))
    lo = min(max(k - 2, 0), max(len(t) - 5, 0))
    ts, ys = t[lo : lo + 5], y[lo : lo + 5]
    if len(ts) < 5 or k in (0, len(t) - 1):
        return float(y[k])
    scale = ts[-1] - ts[0]
    poly = np.polynomial.Polynomial.fit((ts - ts[0]) / scale, ys, 4)
    roots = np.asarray(poly.deriv().roots(), complex)
    inside = [float(r.real) for r in roots if abs(r.imag) < 1e-9 and 0 <= float(r.real) <= 1]
    return max([float(y[k]), *(float(poly(r)) for r in inside)])
