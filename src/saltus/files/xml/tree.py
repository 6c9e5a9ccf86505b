"""XML with lines: a small safe reader (no entities, no DTD) and writer for MJCF and URDF."""

from __future__ import annotations

import keyword
import re
import xml.parsers.expat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from saltus.errors import BadFile, SaltusError
from saltus.files.model.documents import PARTS

LARGEST = 20_000_000  # bytes
DEEPEST = 200
MOST = 200_000  # elements
KINDS = {
    **dict.fromkeys(("body", "link", "joint", "freejoint"), "bodies and joints"),
    **dict.fromkeys(("connect", "weld", "fixed", "spatial"), "equalities and tendons"),
    **dict.fromkeys(("general", "motor", "position", "velocity", "intvelocity", "damper", "cylinder"), "actuators"),
    **dict.fromkeys(("muscle", "adhesion", "dcmotor"), "actuators"),
}  # of what a machine is made of, in MJCF, URDF and SDF
LONGEST = 10_000  # characters of text in an element
AGAIN = re.compile(rb"\s*(</[\w:]+>\s*)+")  # closed once more than it was opened, which MuJoCo does not mind


@dataclass
class Element:
    """A tag with its attributes, children and line; `model` is the prefix of the attached model it belongs to."""

    tag: str
    attributes: dict[str, str]
    line: int = 0
    children: list[Element] = field(default_factory=list)
    comment: str = ""
    file: str = ""
    text: str = ""
    model: str = ""

    @property
    def place(self) -> str:
        """File and line, as errors name them."""
        return f"{self.file}:{self.line}"

    def with_attributes(self, attributes: Mapping[str, str]) -> Element:
        """The same element with other attributes."""
        return replace(self, attributes=dict(attributes))

    def get(self, name: str, default: str = "") -> str:
        """Attribute or default."""
        return self.attributes.get(name, default)

    def all(self, *tags: str) -> Iterator[Element]:
        """Children with one of the tags."""
        return (c for c in self.children if c.tag in tags)

    def first(self, tag: str) -> Element | None:
        """The first child with the tag."""
        return next(self.all(tag), None)

    def add(self, tag: str, **attributes: object) -> Element:
        """Append a child; numbers and vectors become text, None is left out."""
        given = {k.rstrip("_"): text_of(x) for k, x in attributes.items() if x is not None}
        self.children.append(Element(tag, given))
        return self.children[-1]

    def lines(self, indent: int = 0) -> list[str]:
        """Text, one element per line."""
        pad = "  " * indent
        head = "".join(f" {k}={quoteattr(x)}" for k, x in self.attributes.items())
        note = [f"{pad}<!-- {escape(self.comment).replace('--', '- -')} -->"] if self.comment else []
        if not self.children:
            return [*note, f"{pad}<{self.tag}{head}/>"]
        inner = [row for c in self.children for row in c.lines(indent + 1)]
        return [*note, f"{pad}<{self.tag}{head}>", *inner, f"{pad}</{self.tag}>"]


def text_of(value: object) -> str:
    """Numbers with all their digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(
        repr(float(x)) if float(x) != int(x) or abs(x) > 1e15 else str(int(x))
        for x in np.ravel(np.asarray(value, float))
    )


def numbers(element: Element, name: str, default: str, count: int | None = None) -> np.ndarray:
    """Numbers of an attribute."""
    text = element.get(name, default)
    try:
        out = np.array([float(x) for x in text.split()])
        if not text.isascii() or "_" in text:  # numbers for Python, not for those who own the formats
            raise ValueError(text)
    except ValueError:
        out = np.array([np.nan])
    empty = not len(out) and (name in element.attributes and text != default)
    if not np.isfinite(out).all() or (count is not None and len(out) != count) or empty:
        want = "numbers" if count is None else f"{count} number(s)"
        raise bad(element, f"<{element.tag}> {name}={text[:60]!r}; expected {want}")
    return out


def scalar(element: Element, name: str, default: float = 0.0) -> float:
    """One number of an attribute."""
    return float(numbers(element, name, repr(float(default)), 1)[0])


def bad(element: Element, what: str) -> BadFile:
    """The error that names file and line."""
    return BadFile(f"{element.place}: {what}", file=element.file, line=element.line)


def read_tree(path: Path) -> Element:
    """Parse a file; BadFile says on which line it is no XML."""
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", file=str(path))
    if path.stat().st_size > LARGEST:
        raise BadFile(f"{path} has {path.stat().st_size} bytes; at most {LARGEST} are read", file=str(path))
    return parse_tree(path.read_bytes(), str(path))


def parse_tree(data: bytes, file: str, longest: int = LONGEST) -> Element:
    """Parse text; of the text in an element as many characters are kept as `longest` says."""
    data = _without_comments(data)
    before, mark, rest = data.partition(b"<?xml")
    if mark and before and not before.strip():  # expat wants it first, others do not mind
        data = before + rest.partition(b"?>")[2]
    parser = xml.parsers.expat.ParserCreate()
    root, stack = Element("", {}), []  # type: Element, list[Element]
    said: list[list[str]] = []
    found: Counter[str] = Counter()

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        for kind, most in (("elements", MOST), (KINDS.get(tag, ""), PARTS)):
            found[kind] += 1
            if kind and found[kind] > most:
                text = f"more than {most} {kind} are not read; leave out what the machine does not need"
                raise BadFile(f"{file}:{parser.CurrentLineNumber}: {text}", file=file)
        if len(stack) >= DEEPEST:
            raise BadFile(f"{file}:{parser.CurrentLineNumber}: nested more than {DEEPEST} deep", file=file)
        element = Element(tag, dict(attributes), parser.CurrentLineNumber, file=file)
        (stack[-1] if stack else root).children.append(element)
        stack.append(element)
        said.append([])

    def end(tag: str) -> None:
        stack.pop().text = "".join(said.pop())[:longest]

    def words(text: str) -> None:
        if said:
            said[-1].append(text)

    def refuse(name: str, *_: object) -> None:
        if name.lower() == "html":
            raise BadFile(f"{file} is a web page, no robot's file; save the file that the page shows (raw)", file=file)
        raise BadFile(f"{file}:{parser.CurrentLineNumber}: document types and entities are not read", file=file)

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, words
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as problem:
        if root.children and not stack and AGAIN.fullmatch(data[parser.ErrorByteIndex - 1 :]):
            return root.children[0]
        raise BadFile(f"{file}:{problem.lineno}: this is no XML: {problem}", file=file, line=problem.lineno) from None
    except (ValueError, LookupError) as problem:
        raise BadFile(f"{file}: this is no XML: {problem}", file=file) from None
    return root.children[0]


def _without_comments(data: bytes) -> bytes:
    """Text with the lines of its comments left empty: robots' files have "--" in them, which XML forbids."""
    kept, at = list[bytes](), 0
    while (begin := data.find(b"<!--", at)) >= 0 and (end := data.find(b"-->", begin + 4)) >= 0:
        kept += data[at:begin], b"\n" * data.count(b"\n", begin, end)
        at = end + 3
    return b"".join([*kept, data[at:]])


@contextmanager
def located(element: Element) -> Iterator[None]:
    """Errors within name file and line."""
    try:
        yield
    except BadFile:
        raise
    except (SaltusError, ValueError, TypeError, RuntimeError, ArithmeticError) as problem:
        raise BadFile(f"{element.place}: {problem}", file=element.file, line=element.line, problem=problem) from problem


class Names:
    """Valid, unique names made from any text."""

    def __init__(self) -> None:
        self.taken: set[str] = {"ground"}

    def new(self, text: str, fallback: str) -> str:
        """A name not given before."""
        name = re.sub(r"\W+", "_", text).strip("_") or fallback
        name = f"_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        found, k = name, 2
        while found in self.taken:
            found, k = f"{name}_{k}", k + 1
        self.taken.add(found)
        return found


def inside(element: Element, folder: Path | None, *names: str | Path | None) -> Path:
    """A file that stands in the model's folder or below: the first name, in the folder or in the other places given."""
    name, *others = names
    if folder is None:
        raise bad(element, f"file {str(name)!r} is not read from a text that has no folder")
    found = [(base / str(name)).resolve() for base in (folder, *(Path(o) for o in others if o))]
    within = [path for path in found if path.is_relative_to(folder.resolve())]
    if not within:
        raise bad(element, f"file {str(name)!r} lies outside the model's folder {folder}; move it inside")
    path = next((path for path in within if path.is_file()), None)
    if path is None:
        raise bad(element, f"file {str(name)!r} does not exist in {folder}")
    return path
