"""Malformed, huge, nested, cyclic and hostile model files: an error of Saltus or a machine, never anything else."""

import random
import re
import string
from pathlib import Path

import pytest

import saltus as sl
from saltus.errors import SaltusError
from saltus.files.model.documents import parse, text_of
from saltus.files.model.expressions import evaluate
from saltus.files.model.template import template
from saltus.files.model.writing import model_data
from saltus.files.model_file import build
from saltus.files.xml.models import build_xml, parse_xml, write_xml

QUICK, LONG = 5_000, 100_000
NASTY = [
    "__import__('os').system('touch PWNED')",
    "!!python/object/apply:os.system ['touch PWNED']",
    "${HOME}",
    "../../etc/passwd",
    "&a [*a]",
    "*a",
    "<<: *a",
    "{" * 50,
    "[" * 2000,
    "\x00",
    "\ufeff",
    "\u202e",
    "NaN",
    ".inf",
    "-.inf",
    "1e999",
    "0x10",
    "1_000",
    "int main(){}",
    "*/ #include <stdlib.h>",
    'system("touch PWNED")',
    "exec",
    "lambda x: x",
    "a.b.c",
    "q.",
    ".q",
    "9**9**9**9",
    "%s%s%n",
    "'; DROP TABLE",
    "\\",
    '"',
    "'",
    "#",
    "---",
    "...",
    "? a",
    "|\n  x",
    "true",
    "null",
    "~",
    "[]",
    "{}",
    "",
    " ",
    "sin(",
    ")",
    "where(1,2)",
    "-1",
    "0",
    "1e-320",
    "1" * 400,
    "é",
    "名前",
    "class",
    "while",
    "t",
    "p.t",
    "drive.x",
    "e\u0301",
]


def mutated(rng, text):
    """One or a few damages to a text."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(7):
            case 0:
                text = text[:at] + text[at + rng.randint(1, 30) :]
            case 1:
                text = text[:at] + rng.choice(NASTY) + text[at:]
            case 2:
                text = text[:at] + "".join(rng.choices(string.printable, k=rng.randint(1, 8))) + text[at:]
            case 3:
                rows = text.split("\n")
                i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
                rows[i], rows[j] = rows[j], rows[i]
                text = "\n".join(rows)
            case 4:
                words = re.findall(r"[\w.]+", text) or ["x"]
                text = text.replace(rng.choice(words), rng.choice([*words, *NASTY]), 1)
            case 5:
                rows = text.split("\n")
                i = rng.randrange(len(rows))
                text = "\n".join([*rows[: i + 1], *rows[i : i + rng.randint(1, 5)], *rows[i + 1 :]])
            case _:
                text = text.replace(rng.choice("{}[]:,\"'\n "), rng.choice("{}[]:,\"'\n "), rng.randint(1, 3))
    return text


def seeds():
    yield template("machine"), ".yaml"
    for name in ("four_bar", "hopper", "bolt", "compass"):
        data = model_data(getattr(sl.zoo, name)())
        for suffix in (".yaml", ".json"):
            yield text_of(data, suffix), suffix


def fuzz(count, seed, folder):
    rng = random.Random(seed)
    texts = list(seeds())
    built = refused = 0
    for k in range(count):
        try:
            if k % 3 == 2:  # expressions alone
                words = [
                    "a",
                    "q.x",
                    "sin(",
                    ")",
                    "+",
                    "-",
                    "*",
                    "/",
                    "^",
                    "(",
                    "1.5",
                    ",",
                    " and ",
                    " not ",
                    "<",
                    "=",
                    ";",
                    "where(",
                ]
                text = "".join(rng.choices([*words, *NASTY], k=rng.randint(1, 25)))
                evaluate(text, {"a": 0.5, "q.x": 2.0}.get)
            else:
                text, suffix = rng.choice(texts)
                build(parse(mutated(rng, text), suffix, "fuzz" + suffix))
            built += 1
        except SaltusError:
            refused += 1
        except TypeError:
            if k % 3 != 2:  # an unknown name is None there
                raise
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


def test_fuzz_xml():
    rng = random.Random(4)
    machines = (sl.zoo.four_bar(), sl.zoo.bolt_linkage(), sl.zoo.compass_linkage())
    texts = [write_xml(m, suffix, True) for m in machines for suffix in (".xml", ".urdf")]
    built = 0
    for _ in range(1500):
        text = mutated(rng, rng.choice(texts))
        try:
            build_xml(parse_xml(text, "fuzz.xml"), "fuzz.xml", partial=True)
            built += 1
        except SaltusError:
            pass
    assert built > 30


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
