"""Malformed, huge, nested, cyclic and hostile model files: an error of Saltus or a machine, never anything else."""

import json
import random
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robust import attacks, attacks_data, attacks_files

import saltus as sl
from saltus import sealed
from saltus.errors import BadFile, SaltusError
from saltus.files.model.documents import parse
from saltus.files.model_file import build
from saltus.simulation import netcdf
from saltus.simulation.trajectory import SAMPLES

QUICK, LONG = 2_000, 100_000


def fuzz(count, seed, folder):
    rng = random.Random(seed)
    built = refused = 0
    for _ in range(count):
        try:
            attacks_files.model_file(rng.randrange(2**31), folder)
            built += 1
        except SaltusError:
            refused += 1
    assert not list(folder.rglob("PWNED"))
    assert not Path("PWNED").exists()
    return built, refused


def test_fuzz_quick(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built, refused = fuzz(QUICK, 1, tmp_path)
    assert built > QUICK // 50  # harmless damage still gives machines
    assert refused > QUICK // 3


@pytest.mark.slow
def test_fuzz_long(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    built, refused = fuzz(LONG, 2, tmp_path)
    assert built + refused >= LONG * 0.9


HEAD = "saltus: 1\nname: x\nlinks: {a: {mass: 1}}\njoints: {j: {type: slide, a: ground, b: a}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [*x]",
        "a: &x {b: *x}",
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "? " * 50_000,
        "\n".join([f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" if i else "l0: &l0 [x, x]" for i in range(30)]),
        "x" * 3_000_000,
        "a: 1\na: 2",
        "a: !!python/name:os.system",
        "!!python/object/new:os.system [true]",
        "a: !foo 1",
        "--- 1\n--- 2",
        "? [a, b]\n: 1",
        "a: \x07",
        "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
        HEAD.replace("name: x", "name: [x]"),
        HEAD.replace("mass: 1", "mass: .nan"),
        HEAD.replace("mass: 1", "mass: 1e400"),
        HEAD.replace("a: {mass: 1}", "'1a': {mass: 1}"),
        HEAD.replace("a: {mass: 1}", "'a; int x': {mass: 1}"),
        HEAD + "keyframes: {k: {held: {nothing: 1}}}\nrun: {start: q}",
        HEAD + "params: {'a/*': 1}",
        HEAD.replace("name: x", 'name: "a\\u0007b"'),
        HEAD.replace("name: x", 'name: "a\\nb"'),
        HEAD + 'keyframes: {"a\\eb": {}}',
        HEAD + "keyframes: {k: {held: {near: 1}}}\nrun: {start: k}",
        *(HEAD.replace("{j:", f"{{{name}:") for name in ("near", "rates", "params", "self", "name")),
    ],
)
def test_hostile_files_are_refused(text):
    with pytest.raises(SaltusError):
        build(parse(text, ".yaml", "hostile.yaml"))


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 50_000, '{"a": 1, "a": 2}', '{"saltus": 1'])
def test_hostile_json_is_refused(text):
    with pytest.raises(SaltusError):
        build(parse(text, ".json", "hostile.json"))


def test_files_that_are_none(tmp_path):
    for path in (tmp_path, tmp_path / "missing.yaml", "/dev/null.yaml", tmp_path / "x.txt"):
        with pytest.raises(SaltusError):
            sl.read(path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(SaltusError):
        sl.read(binary)


def test_json_is_json(tmp_path):
    """Tabs, pairs of surrogates and the mark of the byte order, as json.dumps and Windows write them."""
    data = json.loads(json.dumps({"saltus": 1, "name": "\U0001f98e", "links": {"a": {"mass": 1}}, "joints": {}}))
    data["joints"]["j"] = {"type": "slide", "a": "ground", "b": "a"}
    path = tmp_path / "m.json"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(json.dumps(data, indent="\t"), encoding=encoding)
        assert sl.read(path).mechanism.name == "\U0001f98e"
    for text in ('{"a": "\\ud800"}', '{"a": NaN}', '{"a": ' + "9" * 5000 + "}", "[" * 100_000, '{"a": 1} {}'):
        with pytest.raises(SaltusError):
            build(parse(text, ".json", "x.json"))


def test_a_python_machine_has_a_readable_name():
    with pytest.raises(sl.errors.BadValue, match="control character"):
        sl.Mechanism("a\x07b")
    with pytest.raises(sl.errors.BadValue, match="control character"):
        sl.Mechanism("a").param("p", 1.0, "\x1b[31m")
    m = sl.Mechanism("a")
    with pytest.raises(sl.errors.BadValue, match="means something else"):
        m.revolute("near", m.ground, m.link("b", mass=1.0, inertia=1.0))


# ---- data files and the rest of the attacks -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good_run():
    return attacks_data.good_run()


def test_every_flipped_bit_of_a_run_is_found(good_run, tmp_path):
    """300 single flips spread over the file."""
    _, whole = good_run
    rng = np.random.default_rng(5)
    path = tmp_path / "run.nc"
    for at in np.linspace(0, len(whole) - 1, 300).astype(int).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :])
        with pytest.raises(BadFile, match="damaged"):
            sl.read(path)


def test_runs_of_an_older_format_are_refused_by_name(good_run, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(sealed.seal(netcdf.written({"format": "saltus-trajectory-1"}, {})))
    with pytest.raises(BadFile, match=r"saltus-trajectory-1.*simulate again"):
        sl.read(path)


@pytest.mark.parametrize(("name", "among"), [("standing", "forces"), ("elements", "contacts")])
def test_a_run_that_speaks_of_what_it_has_not_is_refused(name, among, tmp_path):
    system = sl.zoo.hopper()
    run = sl.simulate(system, system.mechanism.keyframe("takeoff"), domain="flight", until=0.1, engine="scipy")
    sl.read(sl.write(run, tmp_path / "run.nc"))
    run.meta[name] = ["nobody"]
    with pytest.raises(BadFile, match=f"{name} names nobody, which is none of its {among}"):
        sl.read(sl.write(run, tmp_path / "run.nc"))


@pytest.mark.parametrize("name", ["impulses", "works"])
def test_a_run_with_an_impact_of_more_impulses_than_rows_is_refused(name, good_run, tmp_path):
    good, _ = good_run
    hit = next(e for e in good.events if e.impact is not None)
    bad = replace(hit, impact=replace(hit.impact, **{name: np.ones(len(hit.impact.rows) + 1)}))
    run = sl.Trajectory(good.meta, good.arrays, good.pieces, [bad if e is hit else e for e in good.events])
    with pytest.raises(BadFile, match="one impulse, and one work or none, per row"):
        sl.read(sl.write(run, tmp_path / "run.nc"))


def _claiming(dimension: int, variables: int) -> bytes:
    """A file whose arrays all claim the same stretch of it."""
    good = netcdf.written({}, {f"x{i:06}": (("n",), np.zeros(2), {}) for i in range(variables)})
    size = struct.pack(">I", 2)
    return good.replace(b"n\0\0\0" + size, b"n\0\0\0" + struct.pack(">I", dimension), 1)


@pytest.mark.parametrize(("dimension", "variables"), [(10**9, 1), (2**32 - 1, 1), (1500, 1000)])
def test_a_small_file_that_claims_much_is_refused_unread(dimension, variables, tmp_path):
    """One array larger than the file; a thousand arrays of 12 kB that lie in the same 70 kB."""
    content = _claiming(dimension, variables)
    (tmp_path / "bomb.nc").write_bytes(sealed.seal(content))
    with pytest.raises(BadFile, match="more data than the file has bytes"):
        sl.read(tmp_path / "bomb.nc")


def test_other_readers_of_netcdf_agree(good_run, tmp_path):
    """SciPy's reader and xarray see the numbers, names, units and texts that were written."""
    import xarray
    from scipy.io import netcdf_file

    good, whole = good_run
    path = tmp_path / "run.nc"
    path.write_bytes(whole)
    with netcdf_file(path, mmap=False) as file:
        for name, (dims, unit) in SAMPLES.items():
            if good.arrays[name].size:
                assert file.variables[name].units.decode() == unit
                assert file.variables[name].dimensions == ("time", *dims)
                np.testing.assert_array_equal(file.variables[name][:], good.arrays[name])
            else:
                assert name not in file.variables
        assert json.loads(file.meta) == good.meta
    with xarray.open_dataset(path, engine="scipy", decode_timedelta=False) as data:
        assert data.coordinate.values.tolist() == good.meta["q_names"]
        np.testing.assert_array_equal(data.time, good.t)


@pytest.mark.parametrize("kind", ["f8", "i8"])
def test_netcdf_gives_back_what_it_took(kind):
    rng = np.random.default_rng(3)
    shapes = [(), (1,), (3,), (2, 3), (1, 5, 2), (0,), (4, 0), (0, 3, 2)]
    arrays = {f"a{i}": rng.integers(-9, 9, shape).astype(kind) for i, shape in enumerate(shapes)}
    texts = {"one": "α β", "two": "", "three": "x" * 5}
    variables = {n: (tuple(f"{n}d{k}" for k in range(x.ndim)), x, {"units": "m"}) for n, x in arrays.items()}
    attributes, again = netcdf.read(netcdf.written(texts, variables))
    assert {n: attributes[n] for n in texts} == texts
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert again[name].dtype.kind == array.dtype.kind
        np.testing.assert_array_equal(again[name], array)


@pytest.mark.parametrize("name", [n for n in attacks.campaigns() if n not in ("kills", "threads")])
def test_attacks(name, tmp_path, monkeypatch):
    """The first seeds of every campaign of `python -m robust attacks`; kills and threads have tests of their own."""
    pytest.importorskip("viser")
    monkeypatch.chdir(tmp_path)
    attacks_files.prepare()
    attacks_data.prepare()
    seeds = [s for s in range(2000) if attacks.chosen(s)[0] == name][: 8 if name == "names" else 25]
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        result = attacks.attack(seed, folder)
        assert result.verdict != "wrong", result
