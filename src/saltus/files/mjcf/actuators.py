"""Actuators of MJCF: force = gain x ctrl + bias between limits, through a gear on a joint, a tendon or a site."""

from __future__ import annotations

from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from saltus.files.mjcf.document import Document
from saltus.files.xml.found import called
from saltus.files.xml.tree import Element, bad, numbers, scalar
from saltus.model.symbols import SX

COMMON = "name class group joint jointinparent tendon site refsite gear ctrllimited forcelimited ctrlrange forcerange"
OWN = {
    "general": "gaintype biastype dyntype gainprm biasprm dynprm",
    "motor": "",
    "position": "kp kv dampratio inheritrange timeconst",
    "velocity": "kv",
    "damper": "kv",
}
QUIET = "user lengthrange cranklength actlimited actrange actdim actearly"
Range = tuple[float, float]


@dataclass
class Actuator:
    """One actuator: `length` and its `rate` follow from what it acts on."""

    element: Element
    name: str
    gear: np.ndarray = field(default_factory=lambda: np.array([1.0, 0, 0, 0, 0, 0]))
    gain: np.ndarray = field(default_factory=lambda: np.array([1.0, 0, 0]))
    bias: np.ndarray = field(default_factory=lambda: np.zeros(3))
    gain_type: str = "fixed"
    bias_type: str = "none"
    dynamics: str = "none"
    inherit: float = 0.0
    ctrl: Range | None = None
    force: Range | None = None
    unknown: list[str] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Whether the command is the force itself."""
        return (
            self.gain_type == "fixed"
            and self.gain[0] == 1
            and (self.bias_type == "none" or not self.bias.any())
            and self.gear[0] == 1
        )

    @property
    def limit(self) -> float | None:
        """The one limit of a plain actuator whose ranges are symmetric: none is inf, ranges of another kind None."""
        given = [r for r in (self.ctrl, self.force) if r is not None]
        if any(low != -high or not high > 0 for low, high in given):
            return None
        return min((high for _, high in given), default=np.inf)

    def value(self, command: SX, length: SX, rate: SX) -> SX:
        """Force of the actuator (N, Nm before the gear)."""
        u = command if self.ctrl is None else clipped(command, *self.ctrl)
        terms = ca.vertcat(1, length, rate)
        gain = ca.dot(ca.DM(self.gain), terms) if self.gain_type == "affine" else self.gain[0]
        bias = ca.dot(ca.DM(self.bias), terms) if self.bias_type == "affine" else 0
        out = SX(gain * u + bias)
        return out if self.force is None else clipped(out, *self.force)


def clipped(value: SX, low: float, high: float) -> SX:
    """Value between two numbers; unlike fmin and fmax this lets a NaN through, so that it is noticed."""
    return ca.if_else(value > high, high, ca.if_else(value < low, low, value))


def ranged(e: Element, document: Document, attribute: str, flag: str) -> Range | None:
    """A range that is switched on, by its flag or by being given."""
    limited = e.get(flag, "auto")
    auto = limited == "auto" and document.compiler.get("autolimits", "true") == "true"
    if limited == "true" or (auto and attribute in e.attributes):
        low, high = numbers(e, attribute, "0 0", 2)
        return (float(low), float(high))
    return None


def read_actuator(raw: Element, document: Document) -> Actuator:
    """An actuator with its defaults: each tag sets what it stands for, as MuJoCo does."""
    steps = [*document.steps(raw, "", "actuator"), (raw.tag, raw.attributes)]
    out = Actuator(raw, raw.get("name"))
    together: dict[str, str] = {}
    for tag, attributes in steps:
        _apply(out, tag, raw.with_attributes(attributes))
        together |= attributes
    e = raw.with_attributes(together)
    out.element = e
    for tag, attributes in steps:
        known = f"{COMMON} {OWN.get(tag, '')}".split()
        out.unknown += [a for a in attributes if a not in known and a not in QUIET.split()]
        if tag not in OWN:
            out.unknown.append(f"<{tag}>")
    gear = numbers(e, "gear", "1", None)
    if len(gear) > 6:
        raise bad(e, f"gear of <{raw.tag}>{called(raw)} has {len(gear)} numbers; MuJoCo takes up to 6")
    out.gear = np.concatenate([gear, [1.0, 0, 0, 0, 0, 0][len(gear) :]])
    out.ctrl = ranged(e, document, "ctrlrange", "ctrllimited")
    out.force = ranged(e, document, "forcerange", "forcelimited")
    return out


def _apply(a: Actuator, tag: str, e: Element) -> None:
    def three(name: str) -> np.ndarray:
        given = numbers(e, name, "", None)[:3]
        return np.concatenate([given, np.zeros(3 - len(given))])

    if tag == "general":
        a.gain_type, a.bias_type = e.get("gaintype", a.gain_type), e.get("biastype", a.bias_type)
        a.dynamics = e.get("dyntype", a.dynamics)
        if "gainprm" in e.attributes:
            given = numbers(e, "gainprm", "", None)[:3]
            a.gain[: len(given)] = given
        if "biasprm" in e.attributes:
            given = numbers(e, "biasprm", "", None)[:3]
            a.bias[: len(given)] = given
    elif tag == "motor":
        a.gain, a.bias, a.gain_type, a.bias_type, a.dynamics = (
            np.array([1.0, 0, 0]),
            np.zeros(3),
            "fixed",
            "none",
            "none",
        )
    elif tag == "position":
        kp = scalar(e, "kp", a.gain[0])
        a.gain[0], a.bias[1], a.gain_type, a.bias_type = kp, -kp, "fixed", "affine"
        if "kv" in e.attributes:
            a.bias[2] = -scalar(e, "kv")
        if "dampratio" in e.attributes:
            a.bias[2] = scalar(e, "dampratio")
        if "timeconst" in e.attributes:
            a.dynamics = "filterexact" if scalar(e, "timeconst") else "none"
        a.inherit = scalar(e, "inheritrange", a.inherit)
    elif tag == "velocity":
        kv = scalar(e, "kv", a.gain[0])
        a.gain, a.bias = np.array([kv, 0, 0]), np.array([0, 0, -kv])
        a.gain_type, a.bias_type, a.dynamics = "fixed", "affine", "none"
    elif tag == "damper":
        kv = scalar(e, "kv", 0.0)
        a.gain, a.bias, a.gain_type, a.bias_type, a.dynamics = (
            np.array([0, 0, -kv]),
            np.zeros(3),
            "affine",
            "none",
            "none",
        )
