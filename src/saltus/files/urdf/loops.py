"""Loops of URDF files, which stand beside the tree: each dialect's elements to joints that close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from saltus.files.urdf.beside import Beside
from saltus.files.xml.found import Left
from saltus.files.xml.rigid import Pose, from_rpy
from saltus.files.xml.tree import Element, Names, bad, located, numbers, scalar
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX

SIDES = (("a", "b"), ("predecessor", "successor"), ("link1", "link2"))


class Loops:
    """<loop> (ours and ROAM-Lab-ND's), <loop_joint> (Drake's), <coupling>, <spring>, and a robot.yaml beside."""

    def __init__(
        self,
        m: Mechanism,
        left: Left,
        links: dict[str, str],
        joints: dict[str, str],
        values: dict[str, SX],
        frame: Callable[[str, Pose, Element], Frame],
    ) -> None:
        self.m, self.left, self.links, self.joints, self.values, self._frame = m, left, links, joints, values, frame
        self.names = Names()
        self.names.taken |= set(m.joints) | set(m.constraints)

    def read(self, root: Element, beside: Beside) -> None:
        """Read all loops of a document."""
        for e in root.children:
            with located(e):
                if e.tag in ("loop", "loop_joint"):
                    self._loop(e)
                elif e.tag == "coupling":
                    self._coupling(e, root)
                elif e.tag == "spring":
                    self._spring(e)
        for one, two, kind in beside.loops:
            e = Element("closed_loop", {}, 1, file=beside.file)
            with located(e):
                a, b = (self._frame(self._link_of(n, root, e), Pose(np.eye(3), np.zeros(3)), e) for n in (one, two))
                name = self.names.new(f"{one}_{two}", "loop")
                (self.m.spherical if kind == "3d" else self.m.weld)(name, a, b)

    def _link_of(self, name: str, root: Element, e: Element) -> str:
        """Link of a frame: a link itself, or the child of a joint."""
        if name in self.links:
            return name
        for j in root.all("joint"):
            child = j.first("child")
            if j.get("name") == name and child is not None:
                return child.get("link")
        raise bad(e, f"closed_loop names no link or joint {name!r}")

    def _ends(self, e: Element) -> list[Frame]:
        sides = next((s for s in SIDES if e.first(s[0]) is not None and e.first(s[1]) is not None), None)
        if sides is None:
            raise bad(e, f"<{e.tag}> has no <a link=... xyz=.../> and <b .../>")
        out = []
        for side in sides:
            end = e.first(side)
            assert end is not None
            at = end.first("origin") or end
            pose = Pose(from_rpy(numbers(at, "rpy", "0 0 0", 3)), numbers(at, "xyz", "0 0 0", 3))
            out.append(self._frame(end.get("link"), pose, end))
        return out

    def _loop(self, e: Element) -> None:
        kind, name = e.get("type", "revolute"), self.names.new(e.get("name"), "loop")
        axes = [list(numbers(x, "xyz", "0 0 1", 3)) for x in e.all("axis")]
        known: dict[str, dict[str, Any]] = {
            "revolute": {"axis": axes[0]} if axes and self.m.spatial else {},
            "slide": {"axes": axes},
            "universal": {"axes": axes},
            "weld": {},
            "spherical": {},
            "planar": {"normal": axes[-1]} if axes else {},
        }
        kind = {"fixed": "weld", "ball": "spherical", "continuous": "revolute", "prismatic": "slide"}.get(kind, kind)
        if kind not in known:
            raise bad(e, f"loop type {kind!r} is not one of {', '.join(known)}")
        getattr(self.m, kind)(name, *self._ends(e), **known[kind])

    def _coupling(self, e: Element, root: Element) -> None:
        """ratio x (turns from the common ancestor to the predecessor) = turns to the successor."""
        above = {}
        for j in root.all("joint"):
            parent, child = j.first("parent"), j.first("child")
            if parent is not None and child is not None:
                above[child.get("link")] = (j.get("name"), parent.get("link"))
        chains = []
        for side in ("predecessor", "successor"):
            end = e.first(side)
            link, chain = end.get("link") if end is not None else "", list[str]()
            if link not in self.links:
                raise bad(e, f"<coupling> names no {side} link {link!r}")
            while link in above:
                chain.append(above[link][0])
                link = above[link][1]
            chains.append(chain)
        shared = set(chains[0]) & set(chains[1])
        ratio = e.first("ratio")
        if ratio is None:
            raise bad(e, "<coupling> has no <ratio value=.../>")
        one, two = (sum((self.values.get(n, SX(0)) for n in c if n not in shared), SX(0)) for c in chains)
        name = self.names.new(e.get("name"), "coupling")
        self.m.constraint(name, scalar(ratio, "value", 1.0) * one - two)

    def _spring(self, e: Element) -> None:
        k, length, d = (scalar(e, n) for n in ("stiffness", "length", "damping"))
        self.m.spring(self.names.new(e.get("name"), "spring"), *self._ends(e), stiffness=k, length=length, damping=d)
