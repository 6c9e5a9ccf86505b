"""Frames of an SDF model: where links, joints and frames are, whatever relative to, and which link has them."""

from __future__ import annotations

import numpy as np

from saltus.files.xml.rigid import IDENTITY, Pose, from_quaternion, from_rpy
from saltus.files.xml.tree import Element, bad, numbers

MODEL, WORLD = "__model__", "world"


def words(e: Element, tag: str, default: str = "") -> str:
    """Text of a child."""
    child = e.first(tag)
    return default if child is None else child.text.strip()


def vector(e: Element, tag: str, default: str, count: int | None) -> np.ndarray:
    """Numbers in the text of a child."""
    child = e.first(tag) or e
    return numbers(Element(tag, {"text": words(e, tag, default)}, child.line, file=e.file), "text", default, count)


def value(e: Element, tag: str, default: float = 0.0) -> float:
    """One number in the text of a child."""
    return float(vector(e, tag, repr(float(default)), 1)[0])


def yes(e: Element, tag: str, default: bool = False) -> bool:
    """Whether a child says so."""
    text = words(e, tag, "true" if default else "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise bad(e, f"<{tag}> is {text[:40]!r}; expected true or false")
    return text in ("true", "1")


def own_pose(e: Element) -> Pose:
    """What the <pose> of an element says: xyz, then roll, pitch, yaw, or a quaternion x, y, z, w."""
    tag = e.first("pose")
    if tag is None or not tag.text.strip():
        return IDENTITY
    form = tag.get("rotation_format", "euler_rpy")
    x = vector(e, "pose", "", {"euler_rpy": 6, "quat_xyzw": 7}.get(form))
    if form == "euler_rpy":
        return Pose(from_rpy(np.radians(x[3:]) if tag.get("degrees") in ("true", "1") else x[3:]), x[:3])
    if form != "quat_xyzw":
        raise bad(tag, f"rotation_format {form!r} is neither euler_rpy nor quat_xyzw")
    if not x[3:].any():
        raise bad(tag, "a quaternion of zeros is no rotation")
    return Pose(from_quaternion(x[[6, 3, 4, 5]]), x[:3])


class Frames:
    """Poses in the model's frame, at zero coordinates, of all that has a name."""

    def __init__(self, model: Element, version: tuple[int, int]) -> None:
        self.model = model
        self.named: dict[str, Element] = {}
        links = {e.get("name") for e in model.all("link")}
        for e in model.all("link", "joint", "frame"):
            if e.tag == "joint" and e.get("name") in links and version < (1, 7):
                e.attributes["name"] += "_joint"  # as libsdformat does with older files, which may call both alike
            name = e.get("name")
            if not name or name in self.named or name in (MODEL, WORLD):
                raise bad(e, f"<{e.tag}> has the name {name!r}; give every link, joint and frame one of its own")
            self.named[name] = e
        self.links = [n for n, e in self.named.items() if e.tag == "link"]
        self._poses: dict[str, Pose | None] = {MODEL: IDENTITY}

    @property
    def canonical(self) -> str:
        """The link that the model's frame is attached to."""
        name = self.model.get("canonical_link") or self.links[0]
        if name not in self.links:
            raise bad(self.model, f"canonical_link {name!r} is no link of the model")
        return name

    def pose(self, name: str, asked: Element) -> Pose:
        """Where a link, joint or frame is in the model."""
        known = self._poses.get(name, IDENTITY)
        if known is None:
            raise bad(asked, f"the pose of {name!r} is relative to itself")
        if name in self._poses:
            return known
        if name not in self.named:
            raise bad(asked, f"no link, joint or frame {name!r} is in the model")
        self._poses[name] = None
        e = self.named[name]
        self._poses[name] = out = self.placed(e, self._usual(e))
        return out

    def placed(self, e: Element, usual: str) -> Pose:
        """The <pose> of an element in the model; `usual` is what it is relative to unless it says otherwise."""
        tag = e.first("pose")
        if tag is not None and tag.get("frame"):
            raise bad(tag, f"frame={tag.get('frame')!r} was never given a meaning; write relative_to=")
        other = tag.get("relative_to") if tag is not None else ""
        return self.pose(other or usual, e) @ own_pose(e)

    def _usual(self, e: Element) -> str:
        if e.tag == "joint":
            return words(e, "child")
        return e.get("attached_to") or MODEL if e.tag == "frame" else MODEL

    def link_of(self, name: str, asked: Element) -> str:
        """The link that moves with a frame."""
        for _ in range(len(self.named) + 1):
            if name == MODEL:
                return self.canonical
            if name not in self.named:
                raise bad(asked, f"no link, joint or frame {name!r} is in the model")
            if name in self.links:
                return name
            name = self._usual(self.named[name])
        raise bad(asked, f"frame {name!r} is attached to itself")
