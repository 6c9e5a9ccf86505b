"""Friction in impacts: one contact followed through stick, slip and slip reversal; several at once by Moreau's law.

As in `collision`: u (m/s) are velocities of the contact points, normal last, G (1/kg) with u+ = u- + G p, p (N s).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from saltus.errors import BadValue

SWEEPS = 100_000
REST = 1e-12  # share of the fastest contact velocity that counts as none


class Course:
    """One frictional contact, followed through the impact: Routh's method, in 3D the equations of Keller (1986).

    The normal impulse runs as time. While the point slides, friction opposes the slip; when it stops it sticks
    if friction can hold it and otherwise slides on, in the plane the other way: slip reversal.
    """

    def __init__(self, G: np.ndarray, u: np.ndarray, friction: float) -> None:
        self.G, self.friction = G, friction
        self.u, self.p = u.astype(float).copy(), np.zeros(len(u))
        self.start = float(u[-1])
        self.speed = float(np.abs(u).max())
        self.seen: list[str] = []
        self.first: np.ndarray | None = None

    def run(self, restitution: float, kind: str) -> tuple[np.ndarray, str]:
        """Compression, then restitution by Newton's or Poisson's rule; impulses and what the point did."""
        self._until(lambda u, p: u[-1])
        if restitution > 0:
            leave = -restitution * self.start
            whole = (1 + restitution) * self.p[-1]
            self._until((lambda u, p: u[-1] - leave) if kind == "newton" else (lambda u, p: p[-1] - whole))
        if "reverses" in self.seen:
            mode = "slip reversal"
        elif self.seen[-1:] == ["sticks"]:
            mode = "slips, then sticks" if "slips" in self.seen else "sticks"
        else:
            mode = "slips"
        return self.p, mode

    def _until(self, done: Callable[[np.ndarray, np.ndarray], float]) -> None:
        """Go on until `done(u, p)` rises to zero: slip until it stops, then what follows."""
        if done(self.u, self.p) >= 0:
            return
        if np.linalg.norm(self.u[:-1]) > REST * self.speed and self._slide(done):
            return
        if self._can_stick():
            self.seen.append("sticks")
            self._straight(self._stick_rate(), done, None)
        else:
            self._slide_on(done)

    def _stick_rate(self) -> np.ndarray:
        """Impulses a unit of normal impulse that keep the point at rest along the ground."""
        return np.append(-np.linalg.pinv(self.G[:-1, :-1], rcond=1e-12, hermitian=True) @ self.G[:-1, -1], 1.0)

    def _can_stick(self) -> bool:
        return float(np.linalg.norm(self._stick_rate()[:-1])) <= self.friction

    def _slide(self, done: Callable[[np.ndarray, np.ndarray], float]) -> bool:
        """Slide until done (true) or until the slip stops."""
        along = self.u[:-1]
        direction = along / np.linalg.norm(along)
        if self.first is None and not self.seen:
            self.first = direction
        self.seen.append("slips")
        if len(along) == 1:
            return self._straight(np.append(-self.friction * direction, 1.0), done, direction)
        return self._turning(done)

    def _slide_on(self, done: Callable[[np.ndarray, np.ndarray], float]) -> None:
        """Leave rest along the ground in the direction friction cannot hold."""
        direction = self._escape()
        back = self.first is not None and len(direction) == 1 and float(direction @ self.first) < 0
        self.seen.append("reverses" if back else "slips")
        self._straight(np.append(-self.friction * direction, 1.0), done, None)

    def _escape(self) -> np.ndarray:
        """Direction s with s parallel to G_tn - friction G_tt s: slip that goes straight on."""
        Gtt, Gtn = self.G[:-1, :-1], self.G[:-1, -1]
        if len(Gtn) == 1:
            return np.sign(Gtn)

        from scipy.optimize import brentq  # loads slowly, and only slip in 3D needs it

        def across(angle: float) -> float:
            s = np.array([math.cos(angle), math.sin(angle)])
            gain = Gtn - self.friction * Gtt @ s
            return float(s[0] * gain[1] - s[1] * gain[0])

        def onward(angle: float) -> float:
            s = np.array([math.cos(angle), math.sin(angle)])
            return float(s @ (Gtn - self.friction * Gtt @ s))

        angles = np.linspace(-math.pi, math.pi, 721)
        pairs = itertools.pairwise((a, across(a)) for a in angles)
        roots = [brentq(across, a, b) for (a, x), (b, y) in pairs if x * y <= 0]
        best = max(roots, key=onward)
        return np.array([math.cos(best), math.sin(best)])

    def _straight(
        self, rate: np.ndarray, done: Callable[[np.ndarray, np.ndarray], float], slipping: np.ndarray | None
    ) -> bool:
        """Advance at a constant rate of impulses until done (true) or, where it slips, until the slip stops."""
        du = self.G @ rate
        now = done(self.u, self.p)
        slope = done(self.u + du, self.p + rate) - now  # both rules are linear in u and p
        end = -now / slope if slope > 0 else math.inf
        if slipping is not None:
            loss = -float(slipping @ du[:-1])
            stop = float(slipping @ self.u[:-1]) / loss if loss > 0 else math.inf
            if stop < end:
                self._step(stop, rate, du)
                self.u[:-1] = 0.0
                return False
        if not math.isfinite(end):
            raise BadValue(
                "collision: the machine holds the point where it is (its normal mobility is zero), so it cannot "
                "collide; leave this contact out",
                mobility=self.G,
            )
        self._step(end, rate, du)
        return True

    def _step(self, amount: float, rate: np.ndarray, du: np.ndarray) -> None:
        self.p = self.p + amount * rate
        self.u = self.u + amount * du

    def _turning(self, done: Callable[[np.ndarray, np.ndarray], float]) -> bool:
        """Slip in 3D, whose direction turns; the clock of the integration slows as the slip stops."""
        from scipy.integrate import solve_ivp

        m = len(self.u)
        least = 1e-11 * self.speed

        def rates(_: float, x: np.ndarray) -> np.ndarray:
            along = x[: m - 1]
            size = float(np.linalg.norm(along))
            rate = np.append(-self.friction * along / max(size, 1e-300), 1.0) * size
            return np.concatenate([self.G @ rate, rate])

        def ends(_: float, x: np.ndarray) -> float:
            return done(x[:m], x[m:])

        def stops(_: float, x: np.ndarray) -> float:
            return float(np.linalg.norm(x[: m - 1])) - least

        ends.terminal = stops.terminal = True  # type: ignore[attr-defined]
        long = 1e6 * float(np.trace(np.linalg.pinv(self.G, hermitian=True)))
        found = solve_ivp(
            rates,
            (0.0, long),
            np.concatenate([self.u, self.p]),
            method="DOP853",
            rtol=1e-12,
            atol=1e-14 * self.speed,
            events=(ends, stops),
        )
        self.u, self.p = found.y[:m, -1], found.y[m:, -1]
        if len(found.t_events[1]):
            self.u[:-1] = 0.0
            return False
        if not len(found.t_events[0]):
            raise BadValue(
                "collision: the slip neither stops nor does the point leave the ground; look at the friction",
                friction=self.friction,
            )
        return True


# ---- several contacts with friction -------------------------------------------------------------------------------


def together(
    G: np.ndarray, u: np.ndarray, names: Sequence[str], friction: float, restitution: float, kind: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Simultaneous contacts as Moreau (1988) lets them collide: friction opposes the velocity after the impact."""
    n = len(names)
    d = len(u) // n
    normals = range(d - 1, len(u), d)
    approach = np.minimum(u[normals], 0.0)
    none = np.zeros(n)
    if kind == "newton":
        p = _cones(G, u, names, friction, none, -restitution * approach)
    else:
        p = _cones(G, u, names, friction, none, none)
        if restitution > 0:
            p = _cones(G, u, names, friction, (1 + restitution) * p[normals], none)
    after = u + G @ p
    small = 1e-8 * max(float(np.abs(u).max()), 1e-300)
    modes = []
    for k in normals:
        along = float(np.linalg.norm(after[k - d + 1 : k]))
        if p[k] <= 0 or after[k] > small:
            modes.append("bounces" if p[k] > 0 else "lifts off")
        else:
            modes.append("sticks" if along < small else "slips")
    return p, tuple(modes)


def _cones(
    G: np.ndarray, u: np.ndarray, names: Sequence[str], friction: float, least: np.ndarray, aim: np.ndarray
) -> np.ndarray:
    """Gauss-Seidel over contacts, each impulse projected into its friction cone, until nothing moves.

    Normal impulses are at least `least`, normal velocities after the impact at least `aim`.
    """
    n, p = len(names), np.zeros(len(u))
    d = len(u) // n
    blocks = [slice(d * i, d * i + d) for i in range(n)]
    along = [float(np.linalg.eigvalsh(G[b, b][:-1, :-1]).max()) for b in blocks]
    for _ in range(SWEEPS):
        moved = 0.0
        for i, b in enumerate(blocks):
            old, k = p[b].copy(), d * i + d - 1
            if G[k, k] > 0:
                p[k] = max(least[i], p[k] - (u[k] + G[k] @ p - aim[i]) / G[k, k])
            t = slice(d * i, k)
            if along[i] > 0:
                p[t] -= (u[t] + G[t] @ p) / along[i]
            size, limit = float(np.linalg.norm(p[t])), friction * p[k]
            if size > limit:
                p[t] *= limit / size
            moved = max(moved, float(np.abs(p[b] - old).max()))
        if moved <= 1e-14 * max(float(np.abs(p).max()), 1e-300):
            return p
    raise BadValue(
        f"collision of {', '.join(names)}: impulses did not settle in {SWEEPS} sweeps; contacts that depend on each "
        "other may have none with this friction: leave one out or lower the friction",
        impulses=p,
    )
