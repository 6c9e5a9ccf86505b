"""Forces that a guess of who is open, sticks or slips gives, and whether they meet the laws of contact.

A guess says which rows hold, w = 0 there with w = G f + b; those that slip have f_t = -friction f_n d. That is a
linear system, solved to round-off also where rows depend on each other. Directions d along which slips start are found
with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from saltus.dynamics.shared_forces import FINE, Forces, Law, centred

TURNS, HALVINGS, TURNED = 30, 20, 1e-14  # steps, halvings of one and its least (rad): how slips in 3D find their way
PARALLEL = 1e-8  # rad: how near a direction found so is to that of its slip
ROUND_OFF = 1e-13
STILL = 1e-12  # m/s, m/s2: less is measured by this
KNOWN = 1e-5  # of the terms that motions are sums of: less is, so that FINE of it is their round-off
TINY, HUGE = 1e-300, 1e100
UNLIKE = 1e-6  # of the largest mobility: less of it is measured by itself, since links may be light beyond measure
RANK = 1e-11  # of the largest mobility: none
NEARLY = 1e-6  # of a limit: contacts that share it come to it together


class Guesses:
    """Contacts whose rows move with w = G f + b under forces f, and their laws."""

    def __init__(self, G: np.ndarray, b: np.ndarray, laws: Sequence[Law], terms: float = 0.0) -> None:
        self.G, self.b, self.laws = G, b, laws
        self.n, self._unit = len(b), np.eye(len(b))
        self.size = max(float(np.abs(b).max(initial=0.0)), STILL, KNOWN * terms)
        own = np.abs(np.diag(G))
        least = UNLIKE * own.max(initial=0.0)
        self.units = np.where(own > 0, np.sqrt(np.maximum(1.0, least / np.maximum(own, TINY))), 1.0)  # of the rows

    def tried(
        self, f: np.ndarray, modes: Sequence[str], directions: Sequence[np.ndarray | None], *, lean: bool = False
    ) -> Forces | None:
        """The solution of a guess, if it has one; to `lean`, others of the forces with its motion are looked for."""
        ways = list(directions)
        with np.errstate(over="ignore", invalid="ignore"):  # what hardly moves may need forces without bound
            found = self.forces(f, modes, ways)
        if found is None or not np.abs(found).max(initial=0.0) < HUGE:
            return None
        return self.met(found, modes, ways, lean=lean)

    def met(
        self,
        f: np.ndarray,
        modes: Sequence[str],
        ways: Sequence[np.ndarray | None],
        *,
        lean: bool,
        gone: Collection[int] = (),
    ) -> Forces | None:
        """The solution with forces f, or to `lean` with others that move all as they do, if it meets every law."""
        w = self.G @ f + self.b
        judged = self.judged(f, w, modes, ways, gone)
        if judged is None and lean and "stick" in modes:
            other = centred(self.G, self.laws, Forces(f, w, tuple(modes), tuple(ways)), -NEARLY)
            judged = None if other is None else self.judged(other, self.G @ other + self.b, modes, ways, gone)
        return judged

    def forces(self, f: np.ndarray, modes: Sequence[str], ways: list[np.ndarray | None]) -> np.ndarray | None:
        """Forces near f of a guess, with the directions along which its slips start put into `ways`."""
        self._turn(f, modes, ways)
        return self.held(f, modes, ways)

    def _turn(self, f: np.ndarray, modes: Sequence[str], ways: list[np.ndarray | None]) -> None:
        """Directions d along which slips start: d x w = 0 of every contact that turns; by Newton on their angles."""
        turning = [i for i, x in enumerate(self.laws) if modes[i] == "slip" and x.rough and len(x.tangential) == 2]
        if not turning:
            return
        angle = np.array([0.0 if way is None else math.atan2(way[1], way[0]) for way in (ways[i] for i in turning)])
        rows = np.array([self.laws[i].tangential for i in turning])
        own = rows.ravel()
        moved, given = self.G[own], self.b[own]

        def put(at: np.ndarray) -> np.ndarray:
            d = np.array([(math.cos(a), math.sin(a)) for a in at.tolist()])
            for i, way in zip(turning, d, strict=True):
                ways[i] = way
            return d

        def off(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """d x w, and its derivative by the angles; nothing finite where there are no forces."""
            d = put(at)
            e = np.array([(-y, x) for x, y in d.tolist()])
            held = self._hold(f, modes, ways)
            if held is None:
                return np.full(len(at), np.nan), np.zeros((len(at), len(at)))
            found, C, solved, rest = held
            change = np.zeros((self.n, len(at)))  # of the forces, each with its load as it is
            for k, i in enumerate(turning):
                x = self.laws[i]
                change[rows[k], k] = -x.friction * (found[x.normal] if x.normal is not None else 1.0) * e[k]
            change -= C @ solved(self.G[rest] @ change)
            w = (moved @ found + given).reshape(-1, 2)
            by = (moved @ change).reshape(len(at), 2, len(at))
            slope = d[:, :1] * by[:, 1] - d[:, 1:] * by[:, 0] + np.diag(e[:, 0] * w[:, 1] - e[:, 1] * w[:, 0])
            return d[:, 0] * w[:, 1] - d[:, 1] * w[:, 0], slope

        now, slope = off(angle)
        for _ in range(TURNS):
            if not np.isfinite(now).all() or np.abs(now).max() < 1e-15 * self.size or not np.isfinite(slope).all():
                break
            step = -np.linalg.lstsq(slope, now, rcond=1e-14)[0]
            if np.abs(step).max() < TURNED:
                break
            step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))  # rad
            for _ in range(HALVINGS):
                ahead, its_slope = off(angle + step)
                if np.linalg.norm(ahead) < np.linalg.norm(now):
                    break
                step = step / 2
            else:
                break
            angle, now, slope = angle + step, ahead, its_slope
        put(angle)

    def held(self, f: np.ndarray, modes: Sequence[str], ways: Sequence[np.ndarray | None]) -> np.ndarray | None:
        """Forces near f with w = 0 along the rows that are held."""
        found = self._hold(f, modes, ways)
        return None if found is None else found[0]

    def _hold(
        self, f: np.ndarray, modes: Sequence[str], ways: Sequence[np.ndarray | None]
    ) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray], list[int]] | None:
        """Those forces, C they are made of (C y and fixed ones), how G C y = r is solved along rows held, and these."""
        rest, fixed = list[int](), np.zeros(self.n)
        for x, mode in zip(self.laws, modes, strict=True):
            if mode != "open":
                rest += ([] if x.normal is None else [x.normal]) + (list(x.tangential) if mode == "stick" else [])
        C = self._unit[:, rest]
        for x, mode, way in zip(self.laws, modes, ways, strict=True):
            if mode != "slip" or way is None or not x.tangential:
                continue
            if x.normal is None:
                fixed[list(x.tangential)] = -x.friction * way
            else:
                C[list(x.tangential), rest.index(x.normal)] = -x.friction * way
        if not rest:
            return fixed, C, lambda r: r, rest
        first, G, units = f[rest], self.G[rest], self.units[rest]
        try:
            U, sizes, V = np.linalg.svd(G @ C * np.outer(units, units))
        except np.linalg.LinAlgError:
            return None
        kept = int((sizes > RANK * sizes[0]).sum())

        def solved(r: np.ndarray) -> np.ndarray:
            scaled = V[:kept].T @ ((U[:, :kept].T @ (r.T * units).T).T / sizes[:kept]).T  # in this order, what is left
            return (scaled.T * units).T  # over is round-off

        y = first - solved(G @ (C @ first + fixed) + self.b[rest])
        return C @ y + fixed, C, solved, rest

    def judged(
        self,
        f: np.ndarray,
        w: np.ndarray,
        modes: Sequence[str],
        ways: Sequence[np.ndarray | None],
        gone: Collection[int] = (),
    ) -> Forces | None:
        """The solution if it meets every law; what has `gone` at its limit is about to part."""
        sizes = np.abs(f)
        round_off = ROUND_OFF * float((np.abs(self.G) @ sizes).max(initial=0.0))
        small_w, small_f = FINE * self.size + round_off, FINE * float(sizes.max(initial=0.0))
        forces, motions = f.tolist(), w.tolist()  # of numbers alone Python is quicker
        for k, (x, mode, way) in enumerate(zip(self.laws, modes, ways, strict=True)):
            load = 1.0
            if x.normal is not None:
                load, parts = forces[x.normal], motions[x.normal]
                if mode == "open":
                    if parts < -(NEARLY * self.size if k in gone else small_w):
                        return None
                    continue
                if load < -small_f or abs(parts) > small_w:
                    return None
            slip = [motions[row] for row in x.tangential]
            if mode == "stick" and (
                math.hypot(*[forces[row] for row in x.tangential]) > x.static * load + small_f
                or any(abs(part) > small_w for part in slip)
            ):
                return None
            if mode == "slip" and x.rough and way is not None:
                own = way.tolist()
                along = sum(a * b for a, b in zip(slip, own, strict=True))
                across = math.hypot(*[a - along * b for a, b in zip(slip, own, strict=True)])
                if along < -small_w or across > PARALLEL * along + small_w:
                    return None
        return Forces(f, w, tuple(modes), tuple(ways))
