"""Attacks by data files: runs, families and sweep stores that are damaged, cut, or hostile under a right checksum."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from robust.attacks_files import MARKS, NASTY, tags
from robust.wrong import Wrong
from saltus import sealed
from saltus.cli.machines import saved
from saltus.simulation import netcdf
from saltus.sweeps import read_sweep

EVIL = "open('PWNED', 'w').close()\nimport saltus as sl\nsystem = sl.zoo.hopper()\n"
VALUES: list[Any] = [None, True, -1, 0, 1e308, float("nan"), float("inf"), "", [], {}, [[]], "x", 10**400, *MARKS]


@functools.cache
def good_run() -> tuple[sl.Trajectory, bytes]:
    """A run with events and contacts, as it was and as a file."""
    system = sl.zoo.hopper()
    start = system.mechanism.keyframe("takeoff")
    run = sl.simulate(system, start, domain="flight", until=0.8, engine="sundials", rate=100.0)
    with tempfile.TemporaryDirectory() as folder:
        path = sl.write(run, Path(folder) / "run.nc")
        return sl.read(path), path.read_bytes()


def prepare() -> None:
    """Make what the attacks spoil."""
    good_run()
    good_family()
    good_store()


def damaged(rng: random.Random, whole: bytes) -> bytes:
    """Flipped bits, a piece lost, a piece twice, a piece of zeros, an early end."""
    at, size = rng.randrange(len(whole)), rng.randint(1, 200)
    match rng.randrange(6):
        case 0 | 1:
            out = bytearray(whole)
            for _ in range(rng.randint(1, 8)):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
            return bytes(out)
        case 2:
            return whole[:at] + whole[at + size :]
        case 3:
            return whole[: at + size] + whole[at:]
        case 4:
            return whole[:at] + bytes(size) + whole[at + size :]
        case _:
            return whole[:at]


def _same(run: sl.Trajectory, good: sl.Trajectory) -> None:
    equal = all(np.array_equal(run.arrays[n], good.arrays[n], equal_nan=True) for n in good.arrays)
    if not equal or json.dumps(run.meta) != json.dumps(good.meta) or len(run.events) != len(good.events):
        raise Wrong("a damaged file was read as another run")
    if not np.array_equal(run.at(run.t[1:-1]).positions, good.at(good.t[1:-1]).positions):
        raise Wrong("a damaged file has other polynomials")


def _somewhere(rng: random.Random, data: Any) -> tuple[Any, Any]:
    """A collection within JSON data, and a key of it."""
    while True:
        key = rng.choice(list(data) if isinstance(data, dict) else range(len(data)))
        inner = data[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.4:
            return data, key
        data = inner


def _rewritten(path: Path, change: Callable[[dict[str, str], dict[str, np.ndarray]], None]) -> None:
    """Change what a run's file says, and give it the checksum of what it says now."""
    content = sealed.unseal(path.read_bytes())
    assert content is not None
    attributes, arrays = netcdf.read(content)
    change(attributes, arrays)
    variables = {n: (tuple(f"{n}{i}" for i in range(x.ndim)), x, {}) for n, x in arrays.items()}
    path.write_bytes(sealed.seal(netcdf.written(attributes, variables)))


def _hostile(rng: random.Random, attributes: dict[str, str], arrays: dict[str, np.ndarray]) -> None:
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            name = rng.choice(["meta", "meta", "meta", "events"])
            data = json.loads(attributes[name])
            place, key = _somewhere(rng, data)
            if rng.random() < 0.3:
                del place[key]
            else:
                place[key] = rng.choice([*VALUES, *NASTY])
            attributes[name] = json.dumps(data)
        else:
            array = arrays[rng.choice([n for n, x in arrays.items() if x.dtype.kind in "if"])]
            if array.size:
                at = tuple(rng.randrange(n) for n in array.shape)
                array[at] = rng.choice(
                    [-1, 0, 7, 2**31 - 1] if array.dtype.kind == "i" else [-1.0, np.nan, np.inf, 1e300]
                )
    if rng.random() < 0.2:
        arrays["other"] = arrays.pop(rng.choice([*arrays]))


def _mangled(rng: random.Random, whole: bytes) -> bytes:
    """Damage to a file, mostly to its header, under a checksum that is right."""
    content = sealed.unseal(whole)
    assert content is not None
    if rng.random() < 0.3:
        return sealed.seal(damaged(rng, content))
    out = bytearray(content)
    names = content.index(b"event_v")  # the header's list of arrays ends about there
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(0, names, 4)
        out[at : at + 4] = struct.pack(
            ">I", rng.choice([0, 1, 2, 4, 6, 10, 11, 12, 255, 2**31, 2**32 - 1, rng.randrange(2**32)])
        )
    return sealed.seal(bytes(out))


def _used(run: sl.Trajectory, folder: Path, whole: bool) -> None:
    """What one does with a run that was read."""
    repr(run), run.report(), run.energy_account, run.domain, run.params, run.impacts.table()
    sl.strides(run)
    middle = (run.t[0] + run.t[-1]) / 2
    run.at(float(middle))
    for suffix in (".csv", ".json", ".tex"):
        sl.write(run, folder / f"again{suffix}")
    if whole:
        sl.view.report(run, folder / "report.html")


def run_file(seed: int, folder: Path) -> str:
    """Read a run that is damaged, hostile, or named after a script beside it."""
    rng = random.Random(seed)
    good, whole = good_run()
    path = folder / "run.nc"
    kind = rng.randrange(4)
    if kind == 0:
        path.write_bytes(damaged(rng, whole))
        _same(sl.read(path), good)
        return "the same run"
    path.write_bytes(_mangled(rng, whole) if kind == 1 else whole)
    if kind == 2:
        _rewritten(path, functools.partial(_hostile, rng))
    if kind in (1, 2):
        _used(sl.read(path), folder, rng.random() < 0.05)
        return "a run"
    for name in ("evil.py", "hopper.py", "system.py"):
        (folder / name).write_text(EVIL)
    name = rng.choice(
        ["evil.py", "./evil.py", f"{folder}/evil.py", "hopper.py", "Evil.py", "evil", "HOPPER", "zoo/x", *MARKS]
    )

    def renamed(attributes: dict[str, str], _arrays: dict[str, np.ndarray]) -> None:
        attributes["meta"] = json.dumps(json.loads(attributes["meta"]) | {"name": name})

    _rewritten(path, renamed)
    saved(path)
    return "a machine of the zoo"


# ---- families of orbits --------------------------------------------------------------------------------------------


@functools.cache
def good_family() -> tuple[sl.Orbit, str]:
    """An orbit, and the file of a short family of it."""
    system = sl.zoo.hopper()
    orbit = sl.find_orbit(system, system.mechanism.keyframe("takeoff"), domain="flight")
    family = sl.orbits.follow(orbit, "D_G", to=orbit.params["D_G"] - 0.002)
    with tempfile.TemporaryDirectory() as folder:
        return orbit, sl.write(family, Path(folder) / "family.json").read_text()


def family_file(seed: int, folder: Path) -> str:
    """Read a family that is damaged, or says something else under a right checksum: what comes out are orbits."""
    rng = random.Random(seed)
    orbit, text = good_family()
    path = folder / "family.json"
    if rng.random() < 0.3:
        path.write_bytes(damaged(rng, text.encode()))
    else:
        data = json.loads(text)
        del data["checksum"]
        place, key = _somewhere(rng, data)
        place[key] = rng.choice([*VALUES, *NASTY, 0.1, 1e-3])
        path.write_text(json.dumps(data | {"checksum": sealed.checksum(data)}))
    family = sl.read(path, like=orbit)
    repr(family), family.stable, family.values("period")
    if any(o.evaluation.norm > 1e-6 for o in [*family.orbits, *(b.orbit for b in family.bifurcations)]):
        raise Wrong("a family of motions that are no orbits")
    return "a family"


# ---- results of studies --------------------------------------------------------------------------------------------

RESULT: dict[str, Any] = {
    "study": "hopper-orbit",
    "title": "Hopper",
    "source": "a paper",
    "comparisons": [
        {
            "quantity": "period",
            "published": 0.5,
            "computed": 0.5,
            "unit": "s",
            "agrees": True,
            "why": "",
            "tolerance": 0,
        },
        {"quantity": "gait", "published": "run", "computed": "run", "unit": "", "agrees": None, "why": "said so"},
    ],
    "notes": ["one", "two"],
    "period": 0.5,
}


def result_file(seed: int, folder: Path) -> str:
    """Make a gallery over results that say something else, in folders with hostile names."""
    rng = random.Random(seed)
    text = json.dumps(RESULT)
    if rng.random() < 0.2:
        content = damaged(rng, text.encode())
    else:
        data = json.loads(text)
        for _ in range(rng.randint(1, 3)):
            place, key = _somewhere(rng, data)
            place[key] = rng.choice([*VALUES, *NASTY, "\ud800"])
        content = json.dumps(data).encode()
    names = [n for n in MARKS if "/" not in n and "\0" not in n and len(n) < 200]
    for name in ("plain", rng.choice(names)):
        place = folder / name
        place.mkdir()
        (place / "result.json").write_bytes(content)
        (place / f"{rng.choice(names)}.png").write_bytes(b"")
        (place / "report.html").write_text("<p>a report")
    page = sl.view.gallery(folder).read_text()
    found = tags(page)
    if set(found) - {"<img []>"}:
        raise Wrong(f"a result became {found[:4]}")
    return "a gallery"


# ---- sweep stores --------------------------------------------------------------------------------------------------


def square(points: dict[str, np.ndarray], _generators: list[Any]) -> dict[str, np.ndarray]:
    """A task of two outputs."""
    return {"square": points["a"] ** 2, "pair": np.column_stack([points["a"], -points["a"]])}


@functools.cache
def good_store() -> Path:
    """A sweep that was finished."""
    from saltus.sweeps.store import Ledger

    path = Path(tempfile.mkdtemp(prefix="saltus-attack-store-")) / "s"
    points = {"a": np.arange(24.0)}
    ledger = Ledger(path, points, 7, "robust.attacks_data.square")
    ledger.create({n: v[:1] for n, v in square(points, []).items()}, 5)
    for index in range(ledger.chunks):
        span = ledger.span(index)
        ledger.write(index, square({"a": points["a"][span]}, []))
    return path


def _zarr_json(rng: random.Random, file: Path, _all: list[Path]) -> None:
    """A hostile change of a group's or an array's description."""
    data = json.loads(file.read_text())
    place, key = _somewhere(rng, data)
    place[key] = rng.choice([*VALUES, [{"name": "numcodecs.pickle"}], 10**12, [10**12], "object"])
    file.write_text(json.dumps(data))


def _exchange(rng: random.Random, file: Path, files: list[Path]) -> None:
    other = rng.choice(files)
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def _delete(_rng: random.Random, file: Path, _all: list[Path]) -> None:
    file.unlink()


def _odd(rng: random.Random, file: Path, _all: list[Path]) -> None:
    """A pipe, or a link that leads somewhere else, in place of a file."""
    file.unlink()
    if rng.random() < 0.5:
        os.mkfifo(file)
    else:
        file.symlink_to(rng.choice(["/dev/zero", "/etc/passwd", ".", "/nowhere"]))


def _flip(rng: random.Random, file: Path, _all: list[Path]) -> None:
    file.write_bytes(damaged(rng, file.read_bytes()))


HARMS: list[Callable[[random.Random, Path, list[Path]], None]] = [_flip, _flip, _delete, _exchange, _zarr_json, _odd]


def sweep_store(seed: int, folder: Path) -> str:
    """Read a store that was harmed: what it gives as done is right."""
    rng = random.Random(seed)
    path = folder / "s"
    shutil.copytree(good_store(), path)
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".lock")
    described = [p for p in files if p.name == "zarr.json"]
    harm = rng.choice(HARMS)
    harm(rng, rng.choice(described if harm is _zarr_json else files), files)
    data = read_sweep(path)
    done = data.done.values
    a = np.arange(24.0)
    if not np.array_equal(data.a.values, a) or not np.array_equal(data.square.values[done], a[done] ** 2):
        raise Wrong("a damaged store was read as other numbers")
    if not np.isnan(data.square.values[~done]).all() or not np.array_equal(data.pair.values[done, 1], -a[done]):
        raise Wrong("a damaged store was read as other numbers")
    return "right, or not done"
