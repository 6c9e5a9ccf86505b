"""MJCF in: one document to a machine, with what of it could not be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from saltus.errors import BadFile, SaltusError
from saltus.files.mjcf.acting import Acting
from saltus.files.mjcf.document import Document
from saltus.files.mjcf.fluid import add_drag
from saltus.files.mjcf.ties import Ties
from saltus.files.mjcf.tree import Tree
from saltus.files.xml.bodies import configuration
from saltus.files.xml.found import Found, Kept, Left
from saltus.files.xml.rigid import Pose
from saltus.files.xml.tree import Element, Names, bad, located, numbers

SECTIONS = {
    "compiler",
    "option",
    "default",
    "worldbody",
    "equality",
    "tendon",
    "actuator",
    "keyframe",
}
MOVES_NOTHING = {
    "asset",
    "visual",
    "statistic",
    "size",
    "sensor",
    "custom",
    "contact",
    "extension",
}


def mjcf_mechanism(root: Element, file: str, folder: Path | None = None) -> Found:
    """The machine of a document, with what of it could not be read."""
    return _Reader(root, file, folder).read()


class _Reader:
    def __init__(self, root: Element, file: str, folder: Path | None) -> None:
        self.left, self.kept = Left(file), Kept()
        self.document = Document.of(root, folder, self.left)
        self.acting = Acting(self.document, self.left)
        self.tree = Tree(self.document, self.left, self.kept, self.acting.motor_of)
        self.m = self.tree.m

    def read(self) -> Found:
        """Read everything."""
        for child in self.document.root.children:
            if child.tag in MOVES_NOTHING:
                self.left.passed[child.tag] += max(1, len(child.children))
            elif child.tag not in SECTIONS:
                self.left.out(child, f"element <{child.tag}>")
        self.tree.read()
        try:
            ties = Ties(self.tree)
            ties.read()
            self.acting.act(self.tree, ties)
        except BadFile as problem:
            if self.left.refused:  # what is named may be in what was not read
                raise BadFile(f"{problem}; not read was {self.left.refused[0]}", **problem.data) from None
            raise
        self._lifted()
        add_drag(self.tree)
        keyframe = self._keyframes()
        return Found(self.m, self.left, self.kept, keyframe, self.acting.commands)

    def _lifted(self) -> None:
        """Gravity compensation: a share of a body's weight, upwards at its centre of mass."""
        for e, link, share in self.tree.compensated:
            mass = self.tree.mass[link]
            if mass.mass > 0:
                with located(e):
                    at = self.tree.frame(link, Pose(np.eye(3), mass.com))
                    self.m.force(f"{link}_gravcomp", at, list(-share * mass.mass * self.tree.gravity))

    def _keyframes(self) -> str:
        m = self.m
        m.keyframes["qpos0"] = configuration(m, self.tree.start)
        first = "qpos0"
        names = Names()
        names.taken.add("qpos0")
        for e in self.document.sections("keyframe"):
            with located(e):
                label = names.new(e.get("name"), "key")
                self.left.attributes(e, "name qpos qvel ctrl", "time class mpos mquat user")
                q = numbers(e, "qpos", "", None)
                if len(q) not in (0, len(m.q_names)):
                    raise bad(e, f"keyframe {label!r}: qpos has {len(q)} numbers; expected {len(m.q_names)}")
                m.keyframes[label] = configuration(
                    m, dict(zip(m.q_names, q, strict=False)) if len(q) else self.tree.start
                )
                v = numbers(e, "qvel", "", None)
                rates = dict(zip(m.v_names, map(float, v), strict=False))
                if v.any() and len(v) == len(m.v_names) and self._allowed(m.keyframes[label], rates):
                    m.keyframes[label]["rates"] = rates
                elif v.any():
                    self.left.remark(e, f"qvel of keyframe {label!r} is not taken over: loops forbid it, or its count")
                self.acting.key(e, label)
                first = label if first == "qpos0" else first
        return first

    def _allowed(self, where: dict[str, Any], rates: dict[str, float]) -> bool:
        """Whether the loops allow these velocities."""
        if not (self.m.loops or self.m.constraints):
            return True
        try:
            self.m.assemble(**where, rates=rates)
        except SaltusError:
            return False
        return True
