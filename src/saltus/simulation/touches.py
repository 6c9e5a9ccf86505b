"""What contacts with modes of their own did: forces, slip, friction used; when they were open, stuck and slipped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from saltus.dynamics.unilateral import Element
from saltus.errors import UnknownName

QUANTITIES = ("normal", "tangential", "slip", "gap", "closed", "stick", "friction", "static")  # of the samples
NORMAL, TANGENTIAL, SLIP, GAP, CLOSED, STICK, FRICTION, STATIC = range(8)
MODES = ("open", "stick", "slip")
NOTHING = 1e-12  # a friction so small is round-off
LOADED = 1e-6  # of the largest normal force: below it a share of friction says nothing


def modes(touches: np.ndarray) -> np.ndarray:
    """0, 1 or 2 (open, stick, slip) per sample and contact."""
    closed, stick = touches[..., CLOSED] > 0.5, touches[..., STICK] > 0.5
    return np.where(closed, np.where(stick, 1, 2), 0)


def summary(arrays: Mapping[str, np.ndarray], elements: Sequence[Element]) -> dict[str, dict[str, float]]:
    """Least and largest normal force, friction needed and missing, gap, of every contact."""
    out = {}
    for i, x in enumerate(elements):
        own = arrays["touches"][:, i]
        closed = own[:, CLOSED] > 0.5
        N, f = own[closed, NORMAL], own[closed, TANGENTIAL]
        limit = own[closed][:, STATIC] * (N if x.normal else 1.0)
        stuck = own[closed, STICK] > 0.5
        loaded = LOADED * max(float(np.abs(N).max(initial=0.0)), 1e-12) < N
        beyond = np.where(stuck, f - limit, 0.0) if x.slips else np.zeros(len(f))
        worst = int(beyond.argmax()) if len(beyond) else 0
        out[x.name] = {
            "normal_min": float(N.min(initial=np.inf)) if len(N) and x.normal else 0.0,
            "normal_max": float(N.max(initial=0.0)),
            "friction_need": float((f[loaded] / N[loaded]).max(initial=0.0)) if x.normal and x.slips else 0.0,
            "friction_given": float(own[closed][worst, STATIC]) if len(beyond) and x.slips else -1.0,
            "friction_short": float(max(beyond[worst], 0.0)) if len(beyond) else 0.0,
            "pulling": float((N < 0).mean()) if len(N) and x.normal else 0.0,
            "gap_min": float(own[:, GAP].min(initial=np.inf)) if x.normal and not x.soft else 0.0,
        }
    return out


@dataclass(frozen=True)
class Interval:
    """A time during which a contact kept its mode: "open", "stick" or "slip"; `slid` (m) is the length of its slip."""

    mode: str
    begin: float
    end: float
    slid: float


class Touches:
    """The contacts of a run: `run.contacts["left"]` is the list of its intervals; print it for a table."""

    def __init__(
        self,
        t: np.ndarray,
        phase: np.ndarray,
        touches: np.ndarray,
        names: Sequence[str],
        events: Mapping[str, list[int]],
    ) -> None:
        self.names, self._events = tuple(names), events
        self._t, self._phase, self._touches = t, phase, touches
        self._modes = modes(touches)

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise UnknownName("contact", name, self.names)
        return self.names.index(name)

    def __getitem__(self, name: str) -> list[Interval]:
        i = self._index(name)
        mode, t = self._modes[:, i], self._t
        borders = np.flatnonzero(np.diff(mode)) + 1
        out = []
        for a, b in itertools.pairwise([0, *borders.tolist(), len(t)]):
            speed = np.abs(self._touches[a:b, i, SLIP])
            slid = float(np.trapezoid(speed, t[a:b])) if mode[a] == 2 else 0.0
            out.append(Interval(MODES[mode[a]], float(t[a]), float(t[b - 1]), slid))
        return out

    def __iter__(self) -> object:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def of(self, name: str) -> dict[str, np.ndarray]:
        """Quantities of a contact at every sample: normal (N), tangential (N), slip (m/s), gap (m), friction (1) ..."""
        return dict(zip(QUANTITIES, self._touches[:, self._index(name)].T, strict=True))

    def mode(self, name: str) -> np.ndarray:
        """0, 1 or 2 (open, stick, slip) at every sample."""
        return self._modes[:, self._index(name)]

    def slip_length(self, name: str) -> float:
        """Way (m) that a contact slid in all."""
        return sum(x.slid for x in self[name])

    def friction_used(self, name: str) -> float:
        """Largest share of the tangential by the normal force."""
        own = self._touches[:, self._index(name)]
        loaded = (own[:, CLOSED] > 0.5) & (own[:, NORMAL] > LOADED * max(own[:, NORMAL].max(initial=0.0), 1e-12))
        used = float((own[loaded, TANGENTIAL] / own[loaded, NORMAL]).max(initial=0.0))
        return used if used > NOTHING else 0.0

    def touched(self, name: str) -> int:
        """How often a contact came to touch; a start in touch and touches that took no time count."""
        closed = self.mode(name) > 0
        began = int((np.diff(closed.astype(int)) == 1).sum()) + bool(len(closed) and closed[0])
        phases = [p for word in ("touches", "bounces") for p in self._events.get(f"{name} {word}", [])]
        after = np.minimum(np.searchsorted(self._phase, phases), len(closed) - 1)
        return began + int((~closed[after]).sum())

    def friction_given(self, name: str) -> float:
        """Least friction that there was while it touched (of rest where it stuck); NaN where it never touched."""
        own = self._touches[:, self._index(name)]
        given = np.where(self.mode(name) == 1, own[:, STATIC], own[:, FRICTION])[self.mode(name) > 0]
        return float(given.min()) if len(given) else math.nan

    def lines(self) -> list[str]:
        """What each contact did, one line each, for reports."""
        out = []
        for i, name in enumerate(self.names):
            count = self.touched(name)
            if count:
                used, given = self.friction_used(name), self.friction_given(name)
                rubs = f", slid {self.slip_length(name):.4g} m" if given else ""
                rubs += f", friction used {used:.3g} of {given:.3g}" if used else ""
                largest = self._touches[:, i, NORMAL].max(initial=0.0)
                pressed = f", at most {largest:.4g} N" if largest else ""  # dry friction of a joint has no normal force
                out.append(f"  contact {name}: touched {count} x{pressed}{rubs}")
        never = [name for name in self.names if not self.touched(name)]
        return out + ([f"  never touched: {', '.join(never)}"] if never else [])

    def __str__(self) -> str:
        wide = max([16, *map(len, self.names)])
        head = f"{'touched':>8} {'stick (s)':>10} {'slip (s)':>10} {'slid (m)':>10} {'N max (N)':>10} "
        lines = [f"{'contact':<{wide}} {head}friction used"]
        for i, name in enumerate(self.names):
            times = {k: sum(x.end - x.begin for x in self[name] if x.mode == k) for k in MODES}
            lines.append(
                f"{name:<{wide}} {self.touched(name):>8} {times['stick']:>10.4f} {times['slip']:>10.4f} "
                f"{self.slip_length(name):>10.4g} {self._touches[:, i, NORMAL].max(initial=0.0) + 0.0:>10.4g} "
                f"{self.friction_used(name):.4g}"
            )
        return "\n".join(lines)

    __repr__ = __str__
