"""NetCDF's classic format (version 2, with 64-bit offsets) in plain Python, written and read.

Others read these files with any NetCDF library. Here no C library meets a file of unknown origin: the reader follows
no offset out of the file, takes no more memory than the file has bytes, and every byte of the header moves it forward.

    file = "CDF\\x02" records dimensions attributes variables data     (numbers are big-endian)
    list = tag count entry*          (zero and zero where there is none)
    name = length letters padding    (to a multiple of four bytes, as all values are)

Dimensions of size zero mean something else in this format. Arrays without entries are therefore left out and listed in
the attribute `empty`, as JSON: {name: [type, size, ...]}.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

MAGIC = b"CDF\x02"
LARGEST = 2**32 - 4  # bytes of one array
RANK = 8  # dimensions of one array that is read
_DIMENSION, _VARIABLE, _ATTRIBUTE = 10, 11, 12
_CHAR = 2
_TYPES = {_CHAR: np.dtype("S1"), 4: np.dtype(">i4"), 6: np.dtype(">f8")}  # of the six there are, those we write
_CODES = {"S": _CHAR, "i": 4, "f": 6}

Variable = tuple[tuple[str, ...], np.ndarray, Mapping[str, str]]  # dimensions; numbers, or objects (texts); attributes


# ---- writing -------------------------------------------------------------------------------------------------------


def written(attributes: Mapping[str, str], variables: Mapping[str, Variable]) -> bytes:
    """The file of some texts and arrays by name; raises ValueError for what the format cannot hold."""
    dimensions: dict[str, int] = {}
    stored: dict[str, Variable] = {}
    empty: dict[str, list[Any]] = {}
    for name, (dims, given, about) in variables.items():
        if not given.size:
            empty[name] = [given.dtype.kind, *given.shape]
            continue
        dims, array, about = _as_stored(dims, given, about)
        for dimension, size in zip(dims, array.shape, strict=True):
            if dimensions.setdefault(dimension, size) != size:
                raise ValueError(f"{name} has {size} entries along {dimension}, expected {dimensions[dimension]}")
        if array.nbytes > LARGEST:
            raise ValueError(f"{name} takes {array.nbytes} bytes, more than the {LARGEST} a NetCDF array may have")
        stored[name] = dims, array, about
    places = {name: i for i, name in enumerate(dimensions)}
    texts = {**attributes, "empty": json.dumps(empty)}
    entries = [_name(n) + _int(size) for n, size in dimensions.items()]
    head = MAGIC + _int(0) + _list(_DIMENSION, entries) + _attributes(texts)
    fixed = {
        name: b"".join([_name(name), _int(len(dims)), *(_int(places[d]) for d in dims), _attributes(about)])
        + _int(_CODES[array.dtype.kind])
        + _int(_padded(array.nbytes))
        for name, (dims, array, about) in stored.items()
    }
    at = len(head) + 8 + sum(len(entry) + 8 for entry in fixed.values())
    entries = []
    for name, (_, array, _) in stored.items():
        entries.append(fixed[name] + struct.pack(">q", at))
        at += _padded(array.nbytes)
    return b"".join([head, _list(_VARIABLE, entries), *(_pad(array.tobytes()) for _, array, _ in stored.values())])


def _as_stored(dims: tuple[str, ...], array: np.ndarray, about: Mapping[str, str]) -> Variable:
    """In one of the types of the format: texts as rows of letters, whole numbers in four bytes."""
    if array.dtype.kind == "O":
        letters = np.array([text.encode() for text in array.tolist()], "S")
        width = max(letters.dtype.itemsize, 1)
        rows = letters.astype(f"S{width}").view("S1").reshape(len(array), width)
        return (*dims, f"letters{width}"), rows, {**about, "_Encoding": "utf-8"}
    narrow = array.astype(_TYPES[_CODES[array.dtype.kind]])
    if array.dtype.kind == "i" and not np.array_equal(narrow, array):
        raise ValueError("a whole number takes more than four bytes")
    return dims, narrow, about


def _padded(size: int) -> int:
    return -(-size // 4) * 4


def _pad(data: bytes) -> bytes:
    return data.ljust(_padded(len(data)), b"\0")


def _int(number: int) -> bytes:
    return struct.pack(">I", number)


def _name(text: str) -> bytes:
    data = text.encode()
    return _int(len(data)) + _pad(data)


def _list(tag: int, entries: list[bytes]) -> bytes:
    return b"".join([_int(tag if entries else 0), _int(len(entries)), *entries])


def _attributes(texts: Mapping[str, str]) -> bytes:
    return _list(_ATTRIBUTE, [_name(n) + _int(_CHAR) + _name(text) for n, text in texts.items()])


# ---- reading -------------------------------------------------------------------------------------------------------


def read(content: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Attributes and arrays of a file; raises ValueError for one that `written` could not have given."""
    cursor = _Cursor(content)
    if cursor.take(4) != MAGIC or cursor.number():
        raise ValueError("it is no NetCDF file of this kind")
    sizes: list[int] = []
    for _ in cursor.entries(_DIMENSION):
        cursor.text()
        sizes.append(cursor.number())
    attributes = cursor.attributes()
    arrays: dict[str, np.ndarray] = {}
    room = len(content)
    for _ in cursor.entries(_VARIABLE):
        name = cursor.text()
        rank = cursor.count(4)
        if rank > RANK:
            raise ValueError(f"{name} has {rank} dimensions")
        shape = [sizes[cursor.number()] for _ in range(rank)]
        cursor.attributes()
        code = cursor.number()
        cursor.number()  # its size, which follows from its shape
        (at,) = struct.unpack(">q", cursor.take(8))
        if code not in _TYPES or name in arrays or 0 in shape:
            raise ValueError(f"{name} is of no known type, there twice, or empty")
        entries = math.prod(shape)
        room -= entries * _TYPES[code].itemsize
        if room < 0 or at < 0:
            raise ValueError("more data than the file has bytes")
        found = np.frombuffer(content, _TYPES[code], entries, at).reshape(shape)
        arrays[name] = found.astype(found.dtype.newbyteorder("="))
    for name, (kind, *shape) in json.loads(attributes.get("empty", "{}")).items():
        if 0 not in shape or kind not in "Oif" or name in arrays:
            raise ValueError(f"{name} is not empty")
        arrays[name] = np.zeros(shape, "f8" if kind == "O" else f"{kind}8")
    return attributes, arrays


class _Cursor:
    """Reads a file from its beginning, and never goes back."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, size: int) -> bytes:
        out = self._content[self._at : self._at + size]
        if len(out) < size:
            raise ValueError("it ends within its header")
        self._at += size
        return out

    def number(self) -> int:
        (number,) = struct.unpack(">I", self.take(4))
        return int(number)

    def count(self, least: int) -> int:
        """A number of entries, each of so many bytes at least."""
        number = self.number()
        if number * least > len(self._content) - self._at:
            raise ValueError(f"{number} entries are more than the file has bytes")
        return number

    def entries(self, tag: int) -> range:
        found, number = self.number(), self.count(8)
        if found != (tag if number else 0):
            raise ValueError("its header is out of order")
        return range(number)

    def text(self) -> str:
        size = self.count(1)
        return self.take(_padded(size))[:size].decode()

    def attributes(self) -> dict[str, str]:
        out = {}
        for _ in self.entries(_ATTRIBUTE):
            name = self.text()
            if self.number() != _CHAR:
                raise ValueError(f"attribute {name} is no text")
            out[name] = self.text()
        return out
