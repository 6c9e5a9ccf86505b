"""What a foreign file holds beside the machine: what is refused, what is kept for later, what is passed over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from saltus.files.xml.mesh import Surface
from saltus.files.xml.rigid import Pose
from saltus.files.xml.tree import Element
from saltus.model.mechanism import Mechanism

FAR = 1e6  # rad, m: a limit so far away is none


@dataclass(frozen=True, eq=False)
class Shape:
    """A geometric shape on a link: `size` in m as the format counts it, `friction` the sliding coefficient.

    `touches` tells shapes that can collide from those that are only drawn; `file` is a mesh's. `share` is the part of a
    box's half edges that `size` counts, `masks` MuJoCo's contype and conaffinity.
    """

    name: str
    link: str
    kind: str
    pose: Pose
    size: tuple[float, ...] = ()
    friction: float = 1.0
    touches: bool = True
    file: str = ""
    share: float = 1.0
    masks: tuple[int, int] = (1, 1)
    surface: Surface | None = None

    def meets(self, other: Shape) -> bool:
        """Whether two shapes may touch each other."""
        return bool(self.masks[0] & other.masks[1] or other.masks[0] & self.masks[1])


@dataclass(frozen=True, eq=False)
class Kept:
    """Parts of a foreign file that are read and do not act on the motion yet.

    `ranges` are the least and largest value of a coordinate (rad, m), `dry_friction` the effort (Nm, N) of Coulomb
    friction in it, `speeds` the largest rate (rad/s, m/s), `shapes` the geometry of links and surroundings.
    """

    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    dry_friction: dict[str, float] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)

    def notes(self, file: str) -> list[str]:
        """What is kept, one line per kind."""
        out = []
        for what, names in (
            ("joint limits", list(self.ranges)),
            ("dry friction in joints", list(self.dry_friction)),
            ("largest speeds of joints", list(self.speeds)),
            ("shapes that can touch", [s.name or s.kind for s in self.shapes if s.touches]),
        ):
            if names:
                few = listed(names)
                out.append(f"{file}: kept, not acting unless contacts are asked for: {len(names)} {what} ({few})")
        return out


class Left:
    """What a reader has no place for, by name and line, and how much it passed over that moves nothing."""

    def __init__(self, file: str) -> None:
        self.file, self.refused = file, []  # type: str, list[str]
        self.remarks: list[str] = []
        self.passed: Counter[str] = Counter()

    def out(self, element: Element, what: str) -> None:
        """Refuse something that has a meaning for the motion."""
        self.refused.append(f"{element.place}: {what}")

    def remark(self, element: Element, what: str) -> None:
        """Say how something was taken."""
        self.remarks.append(f"{element.place}: {what}")

    def over(self, element: Element) -> None:
        """Pass over something that moves nothing."""
        self.passed[element.tag] += 1

    def attributes(self, element: Element, known: str, harmless: str = "") -> None:
        """Refuse every attribute that is neither used nor without meaning for motion."""
        for name in element.attributes:
            if name not in known.split() and name not in harmless.split():
                self.out(element, f"attribute {name!r} of <{element.tag}>{called(element)}")

    def notes(self, kept: Kept) -> tuple[str, ...]:
        """Everything there is to say, refusals first."""
        passed = ", ".join(f"{n} <{tag}>" for tag, n in self.passed.items())
        return (
            *self.refused,
            *self.remarks,
            *kept.notes(self.file),
            *([f"{self.file}: passed over, moves nothing: {passed}"] if passed else []),
        )


@dataclass(frozen=True, eq=False)
class Found:
    """A foreign file read: the machine, what of it could not be read, what was kept."""

    mechanism: Mechanism
    left: Left
    kept: Kept = field(default_factory=Kept)
    keyframe: str | None = None
    commands: dict[str, dict[str, float]] = field(default_factory=dict)

    def dress(self) -> None:
        """Give links the surfaces that are drawn of them: those that are only seen, else those that touch."""
        looks: dict[str, dict[bool, list[Surface]]] = {}
        meshes = [s for s in self.kept.shapes if s.file and self.mechanism.spatial]
        missing = list(dict.fromkeys(str(s.file) for s in meshes if s.surface is None or not s.surface.known))
        if missing:
            why = "not in the model's folder, or of a kind that is not read"
            self.left.remarks.append(
                f"{self.left.file}: not drawn: {len(missing)} of the meshes ({listed(missing)}), {why}"
            )
        for shape in self.kept.shapes:
            if shape.surface is not None:
                looks.setdefault(shape.link, {}).setdefault(shape.touches, []).append(shape.surface)
        self.mechanism.surfaces = {link: own.get(False) or own[True] for link, own in looks.items()}


def listed(names: list[str]) -> str:
    """The first of them."""
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def called(element: Element) -> str:
    """Name of an element as texts give it."""
    return f" {element.get('name')!r}" if element.get("name") else ""


def bounds(low: float, high: float) -> tuple[float, float]:
    """Limits in order."""
    return float(np.minimum(low, high)), float(np.maximum(low, high))
