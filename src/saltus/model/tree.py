"""Tree: which joint places which link, which closes a loop, and the coordinates that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Set

import casadi as ca

from saltus.errors import BadModel
from saltus.model.joints import Joint
from saltus.model.parts import Link
from saltus.model.registry import Parts, Registry
from saltus.model.structure import Placement
from saltus.model.symbols import SX


class Tree:
    """Joints in the order they were written. One that reaches a new link places it; one between placed links closes."""

    def __init__(self, registry: Registry, spatial: bool) -> None:
        self.book, self.spatial = registry, spatial
        self.joints: dict[str, Joint] = Parts("joint")
        self.placements: list[Placement] = []
        self.loops: list[Joint] = []
        self._waiting: list[Joint] = []
        self._placed: set[str] = {"ground"}

    def add(self, joint: Joint) -> None:
        """Take a joint in, and place what now hangs together with the ground."""
        self.joints[joint.name] = joint
        self._waiting.append(joint)
        while found := next((j for j in self._waiting if {j.a.link.name, j.b.link.name} & self._placed), None):
            self._waiting.remove(found)
            if {found.a.link.name, found.b.link.name} <= self._placed:
                self._close(found)
            else:
                self._place(found)
            for name in found.v_names if found.motor else ():
                self.book.new_name("input", name, self.book.inputs)
                self.book.inputs[name] = SX.sym(f"u_{name}")

    def _place(self, joint: Joint) -> None:
        backwards = joint.a.link.name not in self._placed
        parent, child = (joint.b.link, joint.a.link) if backwards else (joint.a.link, joint.b.link)
        self.placements.append(Placement(joint, parent, child, reversed=backwards))
        self._placed.add(child.name)
        if joint.motion is None:
            self.book.q.update((n, SX.sym(n)) for n in joint.q_names)
            self.book.v.update((n, SX.sym(n + "'")) for n in joint.v_names)

    def _close(self, joint: Joint) -> None:
        problem = None
        if joint.kind == "bend":
            problem = f"{joint.title}: a bend places a link and cannot close a loop; weld its end where it belongs"
        elif joint.motion is not None:
            problem = f"{joint.title} closes a loop and cannot also have a motion; give it no `motion`"
        elif joint.kind == "free" or (joint.kind == "planar" and not self.spatial):
            problem = f"{joint.title}: both links are placed already and a free joint removes no freedom; leave it out"
        elif joint.motor and len(joint.v_names) != 1:
            count = len(joint.v_names)
            problem = f"{joint.title} closes a loop and has {count} motions; a motor there needs a joint with one"
        if problem is not None:
            del self.joints[joint.name]
            raise BadModel(problem, joint=joint.name)
        self.loops.append(joint)

    def check(self, links: Mapping[str, Link], turning: Set[str] = frozenset()) -> None:
        """Raise BadModel unless every link hangs together with the ground and something heavy moves.

        `turning` are velocities that carry the inertia of a rotor.
        """
        name, loose = self.book.name, [n for n in links if n not in self._placed]
        if loose:
            raise BadModel(
                f"links {', '.join(map(repr, loose))} of {name!r} are not connected to the ground; join them "
                "(m.free(...) lets a link float)",
                links=loose,
            )
        self._check_masses(links, turning)
        if not self.book.v and not any(x.joint.motion is not None for x in self.placements):
            raise BadModel(f"{name!r} has no coordinate: nothing in it can move; add a joint", name=name)

    def idle(self, links: Mapping[str, Link], turning: Set[str]) -> list[Placement]:
        """Placed joints whose coordinates move nothing heavy: loops alone give them an acceleration."""
        heavy = {
            name
            for name, link in links.items()
            if not isinstance(link.mass, int | float) or link.mass > 0 or link.inertia.nnz()
        }
        light: list[Placement] = []
        carrying: list[SX] = [SX(0, 1)]
        for placement in reversed(self.placements):
            joint = placement.joint
            if placement.child.name in heavy:
                heavy.add(placement.parent.name)
                carrying += joint.motion or ()
            elif joint.motion is None and joint.v_names and not turning >= set(joint.v_names):
                light.append(placement)
        moving = ca.vertcat(*carrying)
        return [x for x in light if not ca.depends_on(moving, ca.vertcat(*[self.book.q[n] for n in x.joint.q_names]))]

    def _check_masses(self, links: Mapping[str, Link], turning: Set[str]) -> None:
        """Refuse coordinates that move nothing heavy: their acceleration would be undefined."""
        idle = [] if self.loops else self.idle(links, turning)
        if idle:
            joint = idle[0].joint
            raise BadModel(
                f"{joint.title} moves a link without mass; give it a motion "
                "(motion=m.motion(...)) or give the link a mass",
                joint=joint.name,
            )
