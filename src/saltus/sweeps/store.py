"""The store of a sweep: a Zarr group of inputs and outputs, and which chunks are done."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadFile, BadValue

if TYPE_CHECKING:
    import xarray

FORMAT = "saltus-sweep-1"

Points = Mapping[str, np.ndarray]


class Ledger:
    """The Zarr store of one sweep: inputs, outputs, and which chunks are done, which is written last."""

    def __init__(self, path: Path, points: Points | None = None, seed: int = 0, title: str = "") -> None:
        self.path, self.points = path, points
        self.mark = "" if points is None else _fingerprint(points, seed, title)
        self.group: Any = None
        if (path / "zarr.json").exists():
            self._open()
        elif points is None:
            raise BadFile(f"{path} holds no sweep", path=str(path))
        elif path.exists() and any(p.name != ".lock" for p in path.iterdir()):
            raise BadFile(f"{path} holds something else; give the store a directory of its own", path=str(path))

    def _open(self) -> None:
        import zarr

        try:
            group = zarr.open_group(str(self.path), mode="r" if self.points is None else "r+")
        except Exception as problem:
            raise BadFile(f"{self.path} cannot be read as Zarr: {problem}", path=str(self.path)) from problem
        about = dict(group.attrs)
        if about.get("format") != FORMAT:
            if self.points is not None and not about:
                return  # the first write was cut short: begin again
            raise BadFile(f"{self.path} is no sweep of this version", path=str(self.path))
        if self.mark and about["mark"] != self.mark:
            raise BadFile(
                f"{self.path} holds another sweep ({about['title']}, {about['total']} points); "
                "give this one another store, or the same points, seed and task to go on",
                path=str(self.path),
            )
        self.group = group

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
        """Chunks that are not done."""
        return np.flatnonzero(np.asarray(self.group["done"][:]) == 0).tolist()

    def create(self, outputs: Mapping[str, np.ndarray], chunk: int) -> None:
        """Make the arrays; the attributes that make it a sweep come last."""
        import zarr

        assert self.points is not None
        group = zarr.open_group(str(self.path), mode="a")
        total = len(next(iter(self.points.values())))
        chunk = max(1, min(int(chunk), total))
        for name, values in self.points.items():
            if name in outputs:
                raise BadValue(f"the task returns {name!r}, which is also the name of a point's entry", name=name)
            group.create_array(name, data=values, chunks=(total,), overwrite=True)
        for name, sample in outputs.items():
            shape = np.shape(sample)[1:]
            group.create_array(
                name, shape=(total, *shape), chunks=(chunk, *shape), dtype="float64", fill_value=np.nan, overwrite=True
            )
        count = -(-total // chunk)
        group.create_array("done", shape=(count,), chunks=(1,), dtype="uint8", fill_value=0, overwrite=True)
        group.attrs.update(
            {
                "format": FORMAT,
                "mark": self.mark,
                "title": self.mark.partition(" ")[2],
                "total": total,
                "chunk": chunk,
                "inputs": list(self.points),
                "outputs": list(outputs),
            }
        )
        self.group = group

    def span(self, index: int) -> slice:
        """Points of a chunk."""
        size = int(self.group.attrs["chunk"])
        return slice(index * size, min((index + 1) * size, int(self.group.attrs["total"])))

    def write(self, index: int, outputs: Mapping[str, Any]) -> None:
        """Write a chunk, then say that it is done."""
        span, expected = self.span(index), list(self.group.attrs["outputs"])
        if set(outputs) - set(expected):
            raise BadValue(f"the task returned {sorted(outputs)}; at the first points it was {expected}")
        for name in expected:
            array = self.group[name]
            shape = (span.stop - span.start, *array.shape[1:])
            array[span] = np.asarray(outputs[name], float).reshape(shape) if name in outputs else np.full(shape, np.nan)
        self.group["done"][index] = 1

    def dataset(self) -> xarray.Dataset:
        """Everything as an xarray Dataset over "run"."""
        import xarray as xr

        about = dict(self.group.attrs)
        variables = {}
        for name in [*about["inputs"], *about["outputs"]]:
            values = np.asarray(self.group[name][:])
            variables[name] = (("run", *[f"{name}_{i}" for i in range(1, values.ndim)]), values)
        done = np.repeat(np.asarray(self.group["done"][:]), about["chunk"])[: about["total"]]
        variables["done"] = (("run",), done.astype(bool))
        return xr.Dataset(variables, attrs={"title": about["title"]})


def _fingerprint(points: Points, seed: int, title: str) -> str:
    digest = hashlib.sha256(json.dumps([seed, title, list(points)]).encode())
    for values in points.values():
        digest.update(np.ascontiguousarray(values, float).tobytes())
    return f"{digest.hexdigest()} {title}"


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the store for this process; a killed one lets go by itself."""
    import fcntl

    path.mkdir(parents=True, exist_ok=True)
    with open(path / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadFile(f"another process is writing to {path}; wait for it or stop it", path=str(path)) from None
        yield
