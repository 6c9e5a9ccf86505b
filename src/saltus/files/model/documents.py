"""Documents: YAML and JSON text to plain data with the line of every entry, and back; never runs code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from saltus.errors import BadFile, BadValue
from saltus.model.registry import readable

ENDINGS = "model files end in .saltus.yaml or .json, robots' files in .xml (MJCF), .urdf or .sdf, which is only read"
LARGEST = 2_000_000  # bytes of a file
MOST = 200_000  # entries, aliases counted as often as they are used
DEEPEST = 40  # nested collections
PARTS = 2_000  # links and joints of a machine from a file: reading takes some ms for each

Path_ = tuple[str | int, ...]
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_SPOKEN = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)$", re.IGNORECASE)
_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent, yaml.ScalarEvent)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """Plain data (dict, list, str, float, int, bool, None) and the line on which each path begins."""

    file: str
    data: Any
    lines: dict[Path_, int] = field(default_factory=dict)

    def line(self, path: Path_) -> int:
        """Line of a path, or of the nearest entry around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path_, message: str, **data: Any) -> BadFile:
        """Error that names file, line and path."""
        where = ".".join(str(x) for x in path)
        at = f"{self.file}:{self.line(path)}: " + (f"{where}: " if where else "")
        return BadFile(at + message, file=self.file, line=self.line(path), path=where, **data)


def read(path: str | Path) -> Document:
    """Read a file by its suffix: .yaml, .yml or .json."""
    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", file=str(path))
    if path.stat().st_size > LARGEST:
        raise BadFile(f"{path} has {path.stat().st_size} bytes; a model has at most {LARGEST}", file=str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadFile(f"{path} is not UTF-8 text: {problem}", file=str(path)) from None
    return parse(text, path.suffix.lower(), str(path))


def parse(text: str, suffix: str, file: str) -> Document:
    """Turn text into plain data."""
    if len(text) > LARGEST:
        raise BadFile(f"{file} has {len(text)} characters; a model has at most {LARGEST}", file=file)
    if suffix == ".json":
        return _document(_json_events(text, file), file, "JSON")
    if suffix in (".yaml", ".yml"):
        return _document(yaml.parse(text, Loader=_Loader), file, "YAML")
    raise BadFile(f"{file} is no file of a machine: {ENDINGS}", file=file)


# ---- JSON and YAML as one stream of events -------------------------------------------------------------------------

_TOKEN = re.compile(r'[][{}]|"(?:[^"\\]|\\.)*"|[^][{}":,\s]+')


def _json_events(text: str, file: str) -> Iterator[Any]:
    """Events of a JSON text, as YAML's parser would give them: JSON is YAML but for tabs and pairs of surrogates."""
    try:
        json.loads(text, parse_constant=_no_constant, parse_int=float)
    except json.JSONDecodeError as problem:
        raise BadFile(
            f"{file}:{problem.lineno}: this is no JSON: {problem.msg}", file=file, line=problem.lineno
        ) from None
    line, at = 0, 0
    for token in _TOKEN.finditer(text):  # the grammar is right, so that the tokens say all
        line += text.count("\n", at, token.start())
        at, word = token.start(), token.group()
        mark = yaml.Mark(file, at, line, 0, None, 0)
        if word in "{[":
            start = yaml.MappingStartEvent if word == "{" else yaml.SequenceStartEvent
            yield start(None, None, True, mark, mark)
        elif word in "}]":
            yield (yaml.MappingEndEvent if word == "}" else yaml.SequenceEndEvent)(mark, mark)
        elif word[0] == '"':
            value = json.loads(word)
            if any("\ud800" <= c <= "\udfff" for c in value):
                raise BadFile(
                    f"{file}:{line + 1}: half of a pair of surrogates in {word[:40]}", file=file, line=line + 1
                )
            yield yaml.ScalarEvent(None, None, (False, True), value, mark, mark)
        else:
            yield yaml.ScalarEvent(None, None, (True, False), word, mark, mark)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


@dataclass
class _Open:
    """A collection that is being read."""

    value: Any
    path: Path_
    anchor: str | None
    key: str | None = None
    count: int = 1


def _document(events: Any, file: str, kind: str) -> Document:
    """Build data from parser events, so that depth, size and aliases stay under control.

    Scalars are those of JSON: 1e-3 is a number and `no` is text. Aliases repeat finished entries.
    """
    document = Document(file, None)
    stack: list[_Open] = []
    anchors: dict[str, tuple[Any, int]] = {}
    total = documents = 0

    def wrong(event: Any, message: str) -> BadFile:
        return BadFile(f"{file}:{_line(event)}: {message}", file=file, line=_line(event))

    def place(event: Any) -> Path_:
        if not stack:
            return ()
        top = stack[-1]
        return (*top.path, len(top.value) if isinstance(top.value, list) else str(top.key))

    def put(event: Any, value: Any, count: int) -> None:
        nonlocal total
        total += count
        if total > MOST:
            raise wrong(event, f"more than {MOST} entries, aliases included")
        if not stack:
            document.data = value
            return
        top = stack[-1]
        top.count += count
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[top.key] = value
            top.key = None

    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise wrong(event, "a second document; a model file has one")
            elif isinstance(event, _STARTS):
                _plain(event, wrong)
                is_key = bool(stack) and isinstance(stack[-1].value, dict) and stack[-1].key is None
                if is_key:
                    _key(event, stack[-1], document, wrong)
                    continue
                path = place(event)
                document.lines.setdefault(path, _line(event))
                if isinstance(event, yaml.ScalarEvent):
                    value = _scalar(event)
                    if event.anchor:
                        anchors[event.anchor] = (value, 1)
                    put(event, value, 1)
                else:
                    if len(stack) >= DEEPEST:
                        raise wrong(event, f"nested more than {DEEPEST} deep")
                    stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], path, event.anchor))
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                done = stack.pop()
                if done.anchor:
                    anchors[done.anchor] = (done.value, done.count)
                total -= done.count - 1
                put(event, done.value, done.count)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in anchors:
                    raise wrong(event, f"alias *{event.anchor} stands for nothing that is complete here")
                if stack and isinstance(stack[-1].value, dict) and stack[-1].key is None:
                    raise wrong(event, f"alias *{event.anchor} cannot be a name")
                document.lines.setdefault(place(event), _line(event))
                put(event, *anchors[event.anchor])
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        text_ = getattr(problem, "problem", None) or str(problem)
        if "cannot start any token" in text_:
            text_ = "a tab, or another character that nothing begins with; indent with spaces, put texts into quotes"
        raise BadFile(f"{file}:{line}: this is no {kind}: {text_}", file=file, line=line) from None
    except (RecursionError, ValueError) as problem:
        raise BadFile(f"{file}: this is no {kind}: {problem}", file=file) from None
    return document


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _plain(event: Any, wrong: Any) -> None:
    if event.tag is not None and event.tag != "!":
        raise wrong(event, f"tag {event.tag!r}; model files hold plain data, without tags")


def _key(event: Any, top: _Open, document: Document, wrong: Any) -> None:
    if not isinstance(event, yaml.ScalarEvent):
        raise wrong(event, "a name must be plain text, not a collection")
    try:
        readable(event.value, "name")
    except BadValue as problem:
        raise wrong(event, str(problem)) from None
    if event.value in top.value:
        raise wrong(event, f"{event.value!r} is given twice")
    top.key = event.value
    document.lines[(*top.path, event.value)] = _line(event)


def _scalar(event: Any) -> Any:
    text = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.match(text):
        return float(text.lower().replace(".", ""))
    if _NUMBER.match(text):
        if len(text) <= 15 and text.lstrip("+-").isdigit():
            return int(text)
        return float(text)
    return text


# ---- writing ------------------------------------------------------------------------------------------------------


WIDTH = 110  # characters up to which a collection stays on one line
_SAFE = re.compile(r"[A-Za-z_(][\w .*/+()<>^'-]*$")


def text_of(data: dict[str, Any], suffix: str) -> str:
    """Write plain data as YAML or JSON."""
    if suffix == ".json":
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if suffix in (".yaml", ".yml"):
        return "\n".join(_block(data, 0, top=True)) + "\n"
    what = f"as {suffix!r}" if suffix else "to a file without an ending"
    raise BadFile(f"a machine cannot be written {what}: {ENDINGS}", suffix=suffix)


def _block(value: Any, indent: int, top: bool = False) -> list[str]:
    """Lines of a collection, each entry on one line if it fits and is no section of the file."""
    rows: list[str] = []
    pad = " " * indent
    entries = value.items() if isinstance(value, dict) else [(None, x) for x in value]
    for key, entry in entries:
        head = f"{pad}{word(key)}:" if key is not None else f"{pad}-"
        line = f"{head} {_flow(entry)}"
        if not (isinstance(entry, dict | list) and entry) or (
            len(line) <= WIDTH and not (top and isinstance(entry, dict))
        ):
            rows.append(line)
        elif key is None:
            inner = _block(entry, indent + 2)
            rows += [f"{pad}- {inner[0].lstrip()}", *inner[1:]]
        else:
            rows += [head, *_block(entry, indent + 2)]
    return rows


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{word(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return word(value) if isinstance(value, str) else repr(value)


def word(text: str) -> str:
    """Text, in quotes where YAML (of any version) could take it for something else."""
    plain = _SAFE.match(text) and not text.endswith(" ") and text.lower() not in _SPOKEN and len(text) < 200
    return text if plain else json.dumps(text, ensure_ascii=False)
