"""Actuators of MJCF: force = gain x ctrl + bias between limits, through a gear on a joint, a tendon or a site."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from saltus.files.mjcf.document import Document
from saltus.files.xml.found import called
from saltus.files.xml.tree import Element, bad, numbers, scalar
from saltus.model.symbols import SX

COMMON = (
    "name class group joint jointinparent tendon site refsite gear ctrllimited forcelimited ctrlrange forcerange "
    "lengthrange actlimited actrange actearly"
)
MUSCLE = "range force scale lmin lmax vmax fpmax fvmax"
OWN = {
    "general": "gaintype biastype dyntype gainprm biasprm dynprm",
    "motor": "",
    "position": "kp kv dampratio inheritrange timeconst",
    "velocity": "kv",
    "damper": "kv",
    "intvelocity": "kp kv dampratio inheritrange",
    "cylinder": "timeconst area diameter bias",
    "muscle": f"timeconst tausmooth {MUSCLE}",
}
QUIET = "user cranklength actdim"
FLESH = np.array([0.75, 1.05, -1.0, 200.0, 0.5, 1.6, 1.5, 1.3, 1.2])  # range (2) and the rest of MUSCLE
LEAST = 1e-15
Range = tuple[float, float]


@dataclass
class Actuator:
    """One actuator: `length` and its `rate` follow from what it acts on."""

    element: Element
    name: str
    gear: np.ndarray = field(default_factory=lambda: np.array([1.0, 0, 0, 0, 0, 0]))
    gain: np.ndarray = field(default_factory=lambda: _row(1.0))
    bias: np.ndarray = field(default_factory=lambda: _row())
    times: np.ndarray = field(default_factory=lambda: _row(1.0))
    gain_type: str = "fixed"
    bias_type: str = "none"
    dynamics: str = "none"
    inherit: float = 0.0
    ctrl: Range | None = None
    force: Range | None = None
    act: Range | None = None
    lengths: Range | None = None
    unknown: list[str] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether the command is the force itself."""
        return (
            self.gain_type == "fixed"
            and self.gain[0] == 1
            and (self.bias_type == "none" or not self.bias.any())
            and self.gear[0] == 1
            and self.dynamics == "none"
        )

    @property
    def limit(self) -> float | None:
        """The one limit of a plain actuator whose ranges are symmetric: none is inf, ranges of another kind None."""
        given = [r for r in (self.ctrl, self.force) if r is not None]
        if any(low != -high or not high > 0 for low, high in given):
            return None
        return min((high for _, high in given), default=np.inf)

    @property
    def feels_length(self) -> bool:
        """Whether its force depends on the length."""
        affine = (self.gain_type, self.gain[1]), (self.bias_type, self.bias[1])
        return "muscle" in (self.gain_type, self.bias_type) or any(t == "affine" and x for t, x in affine)

    @property
    def feels_rate(self) -> bool:
        """Whether its force depends on the rate."""
        affine = (self.gain_type, self.gain[2]), (self.bias_type, self.bias[2])
        return self.gain_type == "muscle" or any(t == "affine" and x for t, x in affine)

    def limited(self, command: SX) -> SX:
        """The command within its range."""
        return command if self.ctrl is None else clipped(command, *self.ctrl)

    def quickness(self, command: SX, act: SX) -> SX:
        """Rate of the activation; at the end of its range it goes no further."""
        u = self.limited(command)
        if self.dynamics == "integrator":
            out = u
        elif self.dynamics == "muscle":
            out = activation(u, act, self.times)
        else:
            out = (u - act) / max(self.times[0], LEAST)
        if self.act is None:
            return out
        low, high = self.act
        ends = ca.logic_or(ca.logic_and(act >= high, out > 0), ca.logic_and(act <= low, out < 0))
        return ca.if_else(ends, 0, out)

    def value(self, signal: SX, length: SX, rate: SX, quick: float = 0.0) -> SX:
        """Force of the actuator (N, Nm before the gear) for a command or activation.

        `quick` is the acceleration that a unit force causes at the start, by which muscles are scaled.
        """
        terms = ca.vertcat(1, length, rate)
        gain, bias = SX(self.gain[0]), SX(0)
        if self.gain_type == "affine":
            gain = ca.dot(ca.DM(self.gain[:3]), terms)
        elif self.gain_type == "muscle":
            gain = (
                -_strength(self.gain, quick)
                * _active(self._stretch(self.gain, length), self.gain)
                * _fast(rate / max(self._optimum(self.gain) * self.gain[6], LEAST), self.gain[8])
            )
        if self.bias_type == "affine":
            bias = ca.dot(ca.DM(self.bias[:3]), terms)
        elif self.bias_type == "muscle":
            bias = -_strength(self.bias, quick) * _passive(self._stretch(self.bias, length), self.bias)
        out = SX(gain * signal + bias)
        return out if self.force is None else clipped(out, *self.force)

    def _optimum(self, muscle: np.ndarray) -> float:
        """Optimal length (m) of a muscle, of whose multiples its range is given."""
        assert self.lengths is not None
        return max((self.lengths[1] - self.lengths[0]) / max(muscle[1] - muscle[0], LEAST), LEAST)

    def _stretch(self, muscle: np.ndarray, length: SX) -> SX:
        """Length of a muscle in optimal lengths."""
        assert self.lengths is not None
        return muscle[0] + (length - self.lengths[0]) / self._optimum(muscle)


def activation(u: SX, act: SX, times: np.ndarray) -> SX:
    """Rate of a muscle's activation (Millard 2013): (u - a) / tau, t1 (0.5 + 1.5 a) up, t2 / (0.5 + 1.5 a) down."""
    more = clipped(u, 0.0, 1.0) - act
    slow = 0.5 + 1.5 * clipped(act, 0.0, 1.0)
    up, down, width = times[0] * slow, times[1] / slow, times[2]
    if width < LEAST:
        tau = ca.if_else(more > 0, up, down)
    else:
        x = clipped(more / width + 0.5, 0.0, 1.0)
        tau = down + (up - down) * x**3 * (3 * x * (2 * x - 5) + 10)
    return more / ca.fmax(tau, LEAST)


def _strength(muscle: np.ndarray, quick: float) -> float:
    """Peak force (N): as given, or by what the muscle moves."""
    return float(muscle[2] if muscle[2] >= 0 else muscle[3] / max(quick, LEAST))


def _active(x: SX, muscle: np.ndarray) -> SX:
    """Share of its force that a muscle of length x (in optimal lengths) can give: parabolas from lmin by 1 to lmax."""
    low, high = muscle[4], muscle[5]
    rising, falling = (low + 1) / 2, (1 + high) / 2

    def half(y: SX, width: float) -> SX:
        return (y / max(width, LEAST)) ** 2 / 2

    out = ca.if_else(x <= falling, 1 - half(x - 1, falling - 1), half(high - x, high - falling))
    out = ca.if_else(x <= 1, 1 - half(1 - x, 1 - rising), out)
    out = ca.if_else(x <= rising, half(x - low, rising - low), out)
    return ca.if_else(ca.logic_and(x >= low, x <= high), out, 0)


def _fast(x: SX, most: float) -> SX:
    """Share of its force at a speed x (in largest speeds, shortening is negative); `most` where it lengthens."""
    y = most - 1
    out = ca.if_else(x <= y, most - (y - x) ** 2 / max(y, LEAST), most)
    return ca.if_else(x <= -1, 0, ca.if_else(x <= 0, (x + 1) ** 2, out))


def _passive(x: SX, muscle: np.ndarray) -> SX:
    """Passive force in peak forces: a parabola from 1 to half way to lmax, then a straight line."""
    bend, most = (1 + muscle[5]) / 2, muscle[7]
    y = (x - 1) / max(bend - 1, LEAST)
    straight = 0.5 + (x - bend) / max(bend - 1, LEAST)
    return ca.if_else(x <= 1, 0, most * ca.if_else(x <= bend, y**2 / 2, straight))


def _row(*given: float) -> np.ndarray:
    """Numbers of an actuator, the rest of them zero."""
    return np.concatenate([given, np.zeros(9 - len(given))])


def clipped(value: SX, low: float, high: float) -> SX:
    """Value between two numbers; unlike fmin and fmax this lets a NaN through, so that it is noticed."""
    return ca.if_else(value > high, high, ca.if_else(value < low, low, value))


def ranged(e: Element, document: Document, attribute: str, flag: str) -> Range | None:
    """A range that is switched on, by its flag or by being given."""
    limited = e.get(flag, "auto")
    auto = limited == "auto" and document.compiler(e).get("autolimits", "true") == "true"
    if limited == "true" or (auto and attribute in e.attributes):
        low, high = numbers(e, attribute, "0 0", 2)
        return (float(low), float(high))
    return None


def read_actuator(raw: Element, document: Document) -> Actuator:
    """An actuator with its defaults: gains come from those of its own tag and of <general>, the rest from all."""
    steps = [*document.steps(raw, "", "actuator"), (raw.tag, raw.attributes)]
    out = Actuator(raw, raw.get("name"))
    together: dict[str, str] = {}
    for tag, attributes in steps:
        if raw.tag in ("general", tag) or tag == "general":
            _apply(out, tag, raw.with_attributes(attributes))
            known = f"{COMMON} {OWN.get(tag, '')}".split()
            out.unknown += [a for a in attributes if a not in known and a not in QUIET.split()]
            if tag not in OWN:
                out.unknown.append(f"<{tag}>")
        together |= attributes
    e = raw.with_attributes(together)
    out.element = e
    gear = numbers(e, "gear", "1", None)
    if len(gear) > 6:
        raise bad(e, f"gear of <{raw.tag}>{called(raw)} has {len(gear)} numbers; MuJoCo takes up to 6")
    out.gear = np.concatenate([gear, [1.0, 0, 0, 0, 0, 0][len(gear) :]])
    out.ctrl = ranged(e, document, "ctrlrange", "ctrllimited")
    out.force = ranged(e, document, "forcerange", "forcelimited")
    out.act = ranged(e, document, "actrange", "actlimited")
    if "lengthrange" in e.attributes:
        low, high = numbers(e, "lengthrange", "", 2)
        out.lengths = (float(low), float(high)) if low < high else None
    if "muscle" in (out.gain_type, out.bias_type) and out.lengths is None:
        out.unknown.append("no lengthrange, which MuJoCo finds by trial")
    if e.get("actearly", "false") == "true":
        out.unknown.append("actearly")
    return out


def _apply(a: Actuator, tag: str, e: Element) -> None:
    """Set what one element says, as MuJoCo does: all but <general> set everything they stand for."""

    def rows(name: str, onto: np.ndarray) -> np.ndarray:
        given = numbers(e, name, "", None)[:9]
        return np.concatenate([given, onto[len(given) :]])

    if tag == "general":
        a.gain_type, a.bias_type = e.get("gaintype", a.gain_type), e.get("biastype", a.bias_type)
        a.dynamics = e.get("dyntype", a.dynamics)
        a.gain, a.bias, a.times = rows("gainprm", a.gain), rows("biasprm", a.bias), rows("dynprm", a.times)
    elif tag == "motor":
        a.gain, a.bias, a.gain_type, a.bias_type, a.dynamics = _row(1.0), _row(), "fixed", "none", "none"
    elif tag in ("position", "intvelocity"):
        kp = scalar(e, "kp", a.gain[0])
        a.gain, a.gain_type, a.bias_type = _row(kp), "fixed", "affine"
        a.bias = _row(0.0, -kp, -scalar(e, "kv", -a.bias[2]))
        if "dampratio" in e.attributes:
            a.bias[2] = scalar(e, "dampratio")
        if tag == "intvelocity":
            a.dynamics = "integrator"
        elif "timeconst" in e.attributes:
            a.times = _row(scalar(e, "timeconst"))
            a.dynamics = "filterexact" if a.times[0] else "none"
        a.inherit = scalar(e, "inheritrange", a.inherit)
    elif tag == "velocity":
        kv = scalar(e, "kv", a.gain[0])
        a.gain, a.bias, a.gain_type, a.bias_type, a.dynamics = _row(kv), _row(0, 0, -kv), "fixed", "affine", "none"
    elif tag == "damper":
        a.gain, a.bias = _row(0, 0, -scalar(e, "kv", 0.0)), _row()
        a.gain_type, a.bias_type, a.dynamics = "affine", "none", "none"
    elif tag == "cylinder":
        a.times = _row(scalar(e, "timeconst", 1.0))
        area = scalar(e, "area", 1.0)
        if "diameter" in e.attributes:
            area = np.pi / 4 * scalar(e, "diameter") ** 2
        a.gain, a.bias = _row(area), rows("bias", _row())
        a.gain_type, a.bias_type, a.dynamics = "fixed", "affine", "filter"
    elif tag == "muscle":
        fresh = a.gain_type != "muscle"
        a.times = rows("timeconst", _row(0.01, 0.04) if fresh else a.times)
        a.times[2] = scalar(e, "tausmooth", a.times[2])
        a.gain = rows("range", FLESH if fresh else a.gain)
        for i, name in enumerate(MUSCLE.split()[1:]):
            a.gain[2 + i] = scalar(e, name, a.gain[2 + i])
        a.bias = a.gain.copy()
        a.gain_type = a.bias_type = a.dynamics = "muscle"
