"""The store of a sweep: a Zarr group of inputs and outputs, and a checksum of every chunk that is done.

What is read is checked: a chunk that is missing, changed or exchanged is named, and a sweep that goes on computes it
again. The checksums tell damage; they are no signature.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadFile, BadValue, naming_extras
from saltus.model.registry import readable
from saltus.sealed import checksum

if TYPE_CHECKING:
    import xarray

FORMAT = "saltus-sweep-3"
CODECS = {"bytes"}  # numbers as they are: others may be programs of their own, or make much of little
LARGEST = 1 << 34  # bytes of an array that is read into memory
DESCRIBED = 1 << 20  # bytes of the description of one

Points = Mapping[str, np.ndarray]


class Ledger:
    """The Zarr store of one sweep: inputs, outputs, and which chunks are done, which is written last.

    `done` holds a checksum per chunk, 0 where it is not done.
    """

    def __init__(self, path: Path, points: Points | None = None, seed: int = 0, title: str = "") -> None:
        self.path, self.points, self.seed, self.title = path, points, seed, title
        self.mark = "" if points is None else _fingerprint(points, seed, title)
        self.group: Any = None
        if (path / "zarr.json").exists():
            self._open()
        elif points is None:
            raise BadFile(f"{path} holds no sweep; give a file, or the directory that sl.sweep wrote", path=str(path))
        elif path.exists() and any(p.name != ".lock" for p in path.iterdir()):
            raise BadFile(f"{path} holds something else; give the store a directory of its own", path=str(path))

    def _open(self) -> None:
        with naming_extras():
            import zarr

        try:
            _only_plain_files(self.path)
            group = zarr.open_group(str(self.path), mode="r" if self.points is None else "r+", zarr_format=3)
            about = dict(group.attrs)
        except Exception as problem:
            raise BadFile(f"{self.path} cannot be read as Zarr: {problem}", path=str(self.path)) from problem
        if about.get("format") != FORMAT:
            if self.points is not None and not about:
                return  # the first write was cut short: begin again
            raise BadFile(f"{self.path} is no sweep of this version", path=str(self.path))
        try:
            self.about = _checked(about, group)
        except Exception as problem:  # of Zarr's reading of the arrays' descriptions, too
            raise self._damaged(str(problem)) from problem
        if self.mark and about["mark"] != self.mark:
            raise BadFile(
                f"{self.path} holds another sweep ({about['title']}, {about['total']} points); "
                "give this one another store, or the same points, seed and task to go on",
                path=str(self.path),
            )
        self.group = group

    def _damaged(self, what: str) -> BadFile:
        return BadFile(f"{self.path} is damaged: {what}; sweep again into another store", path=str(self.path))

    @property
    def ready(self) -> bool:
        """Whether the store has its arrays."""
        return self.group is not None

    @property
    def complete(self) -> bool:
        """Whether every chunk is done."""
        return self.ready and not self.missing

    @property
    def missing(self) -> list[int]:
        """Chunks that are not done, or no longer what they were when they were done."""
        return [i for i in range(self.chunks) if self._parts(i) is None]

    @property
    def chunks(self) -> int:
        """How many there are."""
        return -(-int(self.about["total"]) // int(self.about["chunk"]))

    def create(self, outputs: Mapping[str, np.ndarray], chunk: int) -> None:
        """Make the arrays; the attributes that make it a sweep come last."""
        with naming_extras():
            import zarr

        assert self.points is not None
        group = zarr.open_group(str(self.path), mode="a", zarr_format=3)
        total = len(next(iter(self.points.values())))
        chunk = max(1, min(int(chunk), total))
        for name, values in self.points.items():
            if name in outputs:
                raise BadValue(f"the task returns {name!r}, which is also the name of a point's entry", name=name)
            group.create_array(name, data=values, chunks=(total,), compressors=None, overwrite=True)
        for name, sample in outputs.items():
            shape = np.shape(sample)[1:]
            group.create_array(
                name,
                shape=(total, *shape),
                chunks=(chunk, *shape),
                dtype="float64",
                compressors=None,
                fill_value=np.nan,
                overwrite=True,
            )
        count = -(-total // chunk)
        group.create_array(
            "done", shape=(count,), chunks=(1,), dtype="uint64", compressors=None, fill_value=0, overwrite=True
        )
        about: dict[str, Any] = {
            "format": FORMAT,
            "mark": self.mark,
            "seed": self.seed,
            "title": self.title,
            "total": total,
            "chunk": chunk,
            "inputs": list(self.points),
            "outputs": {name: list(np.shape(sample)[1:]) for name, sample in outputs.items()},
        }
        group.attrs.update({**about, "seal": checksum(about)})
        self.group, self.about = group, about

    def span(self, index: int) -> slice:
        """Points of a chunk."""
        size = int(self.about["chunk"])
        return slice(index * size, min((index + 1) * size, int(self.about["total"])))

    def write(self, index: int, outputs: Mapping[str, Any]) -> None:
        """Write a chunk, then say that it is done."""
        span, expected = self.span(index), list(self.about["outputs"])
        if set(outputs) - set(expected):
            raise BadValue(f"the task returned {sorted(outputs)}; at the first points it was {expected}")
        parts = []
        for name in expected:
            array = self.group[name]
            shape = (span.stop - span.start, *array.shape[1:])
            values = np.asarray(outputs[name], float).reshape(shape) if name in outputs else np.full(shape, np.nan)
            array[span] = values = np.where(np.isnan(values), np.nan, values)  # one NaN, as Zarr gives back
            parts.append(values)
        self.group["done"][index] = self._sum(index, parts)

    def _sum(self, index: int, parts: list[np.ndarray]) -> int:
        """Checksum of a chunk, bound to its place in this very sweep; never 0, which means that it is not done."""
        digest = hashlib.sha256(json.dumps([self.about["mark"], index, self.about["outputs"]]).encode())
        for values in parts:
            digest.update(np.ascontiguousarray(values, float).tobytes())
        return int.from_bytes(digest.digest()[:8], "little") or 1

    def _parts(self, index: int) -> list[np.ndarray] | None:
        """Outputs of a chunk, in their order; None if it is not done, or not as it was written."""
        try:
            done, span = int(self.group["done"][index]), self.span(index)
            parts = [np.asarray(self.group[name][span]) for name in self.about["outputs"]]
        except Exception:  # whatever a codec makes of damaged bytes
            return None
        return parts if done and done == self._sum(index, parts) else None

    def dataset(self) -> xarray.Dataset:
        """Everything as an xarray Dataset over "run"; BadFile if what was done is not what was written."""
        with naming_extras():
            import xarray as xr

        about = self.about
        try:
            done = np.flatnonzero(np.asarray(self.group["done"][:])).tolist()
            points = {name: np.asarray(self.group[name][:]) for name in about["inputs"]}
        except Exception as problem:  # whatever a codec makes of damaged bytes
            raise self._damaged(f"{type(problem).__name__}: {problem}") from problem
        if _fingerprint(points, about["seed"], about["title"]) != about["mark"]:
            raise self._damaged("its points are not those of the sweep")
        results = {name: np.full((about["total"], *shape), np.nan) for name, shape in about["outputs"].items()}
        for index in done:
            span, parts = self.span(index), self._parts(index)
            if parts is None:
                raise BadFile(
                    f"{self.path} is damaged: points {span.start} to {span.stop - 1} (chunk {index}) are not what was "
                    "written; the same sweep computes them again",
                    path=str(self.path),
                    chunk=index,
                )
            for name, values in zip(results, parts, strict=True):
                results[name][span] = values
        variables = {
            name: (("run", *[f"{name}_{i}" for i in range(1, values.ndim)]), values)
            for name, values in {**points, **results}.items()
        }
        shown = np.zeros(about["total"], bool)
        for index in done:
            shown[self.span(index)] = True
        return xr.Dataset({**variables, "done": (("run",), shown)}, attrs={"title": about["title"]})


def _only_plain_files(path: Path) -> None:
    """Refuse what a store need not have: links and pipes, which lead out of it or never end, codecs that are not ours,
    and files longer than what they are said to hold, which would be read whole.

    Which code other codecs run is up to what is installed.
    """
    for file in path.rglob("*"):
        if file.is_symlink() or not (file.is_file() or file.is_dir()):
            raise ValueError(f"{file.relative_to(path)} is no plain file")
        if file.name == "zarr.json" and file.stat().st_size > DESCRIBED:
            raise ValueError(f"{file.relative_to(path)} has {file.stat().st_size} bytes, more than a description takes")
    for file in [path / "zarr.json", *path.glob("*/zarr.json")]:
        data, array = json.loads(file.read_text(encoding="utf-8")), file.parent
        names = {codec["name"] for codec in data.get("codecs", ())}
        if names - CODECS or data.get("storage_transformers"):
            raise ValueError(f"{array.name} wants {', '.join(sorted(names - CODECS)) or 'a transformer'}")
        grid = data.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape", ())
        for shape in (data.get("shape", ()), grid):
            if math.prod(shape) * 8 > LARGEST:
                raise ValueError(f"{array.name} has shape {shape}, too large to be read")
        for chunk in (array / "c").rglob("*"):
            if chunk.is_file() and chunk.stat().st_size > math.prod(grid) * 8:
                raise ValueError(
                    f"{chunk.relative_to(path)} has {chunk.stat().st_size} bytes, more than the {math.prod(grid)} "
                    "numbers of a chunk take; delete it, and the same sweep computes it again"
                )


def _checked(about: dict[str, Any], group: Any) -> dict[str, Any]:
    """The attributes of a sweep and the arrays they speak of."""
    seal = about.pop("seal", None)
    if seal != checksum(about):
        raise ValueError("its attributes are not those that were written")
    total, chunk = about["total"], about["chunk"]
    if not (isinstance(total, int) and isinstance(chunk, int) and 1 <= chunk <= total):
        raise ValueError(f"it has {total!r} points in chunks of {chunk!r}")
    readable(about["title"], "title")
    shapes = {readable(n, "input"): [total] for n in about["inputs"]}
    shapes |= {readable(n, "output"): [total, *shape] for n, shape in about["outputs"].items()}
    for name, shape in {**shapes, "done": [-(-total // chunk)]}.items():
        array = group[name]
        if list(array.shape) != shape or array.dtype.kind not in "fu" or array.dtype.itemsize != 8:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} of numbers")
    return about


def _fingerprint(points: Points, seed: int, title: str) -> str:
    digest = hashlib.sha256(json.dumps([seed, title, list(points)]).encode())
    for values in points.values():
        digest.update(np.ascontiguousarray(values, float).tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the store for this process; a killed one lets go by itself."""
    import fcntl

    path.mkdir(parents=True, exist_ok=True)
    try:  # never through a link that somebody left there
        handle = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as problem:
        raise BadFile(f"cannot write to {path}: {problem}; give the sweep another store", path=str(path)) from problem
    with open(handle, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadFile(f"another process is writing to {path}; wait for it or stop it", path=str(path)) from None
        yield
