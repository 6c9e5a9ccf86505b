"""MJCF documents made of several files: <include> put in place, models of <asset> attached under a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from saltus.files.xml.found import Left
from saltus.files.xml.tree import Element, bad, inside, read_tree

MOST_FILES = 200
DEEPEST = 20
ASSETS = ("class", "childclass", "mesh", "material", "hfield", "texture")
KINDS = ("joint", "body", "site", "geom", "tendon")
PARTS = {
    **{f"{kind}{n}": kind for kind in KINDS for n in ("", 1, 2)},
    **dict.fromkeys(("refsite", "cranksite", "slidersite", "sidesite"), "site"),
    "jointinparent": "joint",
}  # attributes that name a part, and its tag
SECTIONS = ("asset", "default", "tendon", "equality", "actuator", "contact")


@dataclass(frozen=True, eq=False)
class Whole:
    """A document in one piece, and the <compiler> of every model attached, by its prefix ("" is its own)."""

    root: Element
    compilers: dict[str, Element] = field(default_factory=dict)


def whole(root: Element, folder: Path | None, left: Left, depth: int = 0) -> Whole:
    """The document with what it includes and attaches; all files lie inside the model's folder."""
    if depth > DEEPEST:
        raise bad(root, f"models attach each other more than {DEEPEST} deep")
    return _Attaching(_included(root, folder), folder, left, depth).done()


def _included(root: Element, folder: Path | None) -> Element:
    """The document with every <include> replaced by what the file holds."""
    seen: set[Path] = set()

    def expand(element: Element, base: Path | None) -> list[Element]:
        if element.tag != "include":
            children = [x for c in element.children for x in expand(c, base)]
            return [replace(element, children=children)]
        path = inside(element, folder, element.get("file"), base)
        if path in seen or len(seen) >= MOST_FILES:
            raise bad(element, f"{element.get('file')!r} is included twice; MuJoCo includes a file once")
        seen.add(path)
        return [x for c in read_tree(path).children for x in expand(c, path.parent)]

    return expand(root, folder)[0]


def merged(root: Element, tag: str) -> Element:
    """All sections of one kind as one; later attributes replace earlier ones."""
    found = list(root.all(tag))
    out = Element(tag, {}, found[0].line if found else root.line, file=found[0].file if found else root.file)
    for e in found:
        out.attributes |= e.attributes
        out.children += e.children
    return out


class _Attaching:
    def __init__(self, root: Element, folder: Path | None, left: Left, depth: int) -> None:
        self.root, self.folder, self.left, self.depth = root, folder, left, depth
        self.models = {e.get("name"): e for part in root.all("asset") for e in part.all("model")}
        self.loaded: dict[str, Whole] = {}
        self.more: list[Element] = []
        self.compilers = {"": merged(root, "compiler")}

    def done(self) -> Whole:
        """The document with what it attaches, whose sections follow its own."""
        root = replace(self.root, children=[self._expand(c) for c in self.root.children])
        root.children += self.more
        return Whole(root, self.compilers)

    def _expand(self, e: Element) -> Element:
        children: list[Element] = []
        for c in e.children:
            children += self._attached(c) if c.tag == "attach" else [self._expand(c)]
        return replace(e, children=children)

    def _model(self, e: Element) -> Whole:
        name = e.get("model")
        if name not in self.models:
            raise bad(e, f"<attach> names no <model> {name!r} of <asset>")
        if name not in self.loaded:
            path = inside(self.models[name], self.folder, self.models[name].get("file"), Path(e.file).parent)
            self.loaded[name] = whole(read_tree(path), self.folder, self.left, self.depth + 1)
        return self.loaded[name]

    def _attached(self, e: Element) -> list[Element]:
        """What stands in the place of <attach>: a body, a frame or all of a model, its names behind the prefix."""
        if "model" not in e.attributes:
            self.left.out(e, "<attach> of the model to itself")
            return []
        model, prefix = self._model(e), e.get("prefix")
        world = [c for part in model.root.all("worldbody") for c in part.children]
        found = world
        for tag in ("body", "frame"):
            if tag in e.attributes:
                found = [c for c in _all(world) if c.tag == tag and c.get("name") == e.get(tag)]
                if len(found) != 1:
                    raise bad(e, f"<attach> names no {tag} {e.get(tag)!r} of model {e.get('model')!r}")
        if prefix in self.compilers:
            raise bad(e, f"prefix {prefix!r} is used twice")
        self.compilers |= {prefix + inner: compiler for inner, compiler in model.compilers.items()}
        names = {(c.tag if c.tag != "freejoint" else "joint", c.get("name")) for c in _all(found)}
        for tag in SECTIONS:
            for part in model.root.all(tag):
                kept = part if tag in ("asset", "default") else replace(part, children=_within(part, names))
                self.more.append(_renamed(kept, prefix))
                names |= {("tendon", c.get("name")) for c in kept.children if tag == "tendon"}
        for part in model.root.all("keyframe"):
            self.left.remark(part, f"keyframes of the attached model {e.get('model')!r} are not taken over")
        return [_renamed(c, prefix) for c in found]


def _all(elements: list[Element]) -> Iterator[Element]:
    for e in elements:
        yield e
        yield from _all(e.children)


def _within(section: Element, names: set[tuple[str, str]]) -> list[Element]:
    """Members of a section all of whose parts were attached."""

    def has(e: Element) -> bool:
        used = [(PARTS[a], x) for a, x in e.attributes.items() if a in PARTS]
        return all(u in names for u in used) and all(has(c) for c in e.children)

    return [c for c in section.children if has(c)]


def _renamed(e: Element, prefix: str) -> Element:
    """An element whose names, and what it names, have a prefix."""
    own = ("name", *ASSETS, *PARTS)
    attributes = {k: prefix + x if k in own and x else x for k, x in e.attributes.items()}
    if e.tag == "mesh" and not e.get("name") and e.get("file"):
        attributes["name"] = prefix + mesh_name(e)
    if e.tag == "default" and not e.get("class"):
        attributes["class"] = f"{prefix}main"
    return replace(e, attributes=attributes, model=prefix + e.model, children=[_renamed(c, prefix) for c in e.children])


def mesh_name(e: Element) -> str:
    """Name of a mesh asset: its own, or that of its file."""
    return e.get("name") or e.get("file").replace("\\", "/").split("/")[-1].rsplit(".", 1)[0]
