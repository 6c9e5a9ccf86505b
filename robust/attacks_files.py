"""Attacks by model files: mutants of good ones, and names that mean something to whatever shows them."""

from __future__ import annotations

import ast
import csv
import functools
import html.parser
import random
import re
import string
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import saltus as sl
from robust.wrong import Wrong
from saltus.files.model.documents import parse, text_of
from saltus.files.model.expressions import evaluate
from saltus.files.model.template import KINDS, template
from saltus.files.model.writing import model_data
from saltus.files.model_file import build
from saltus.files.xml.models import build_xml, parse_xml, write_xml
from saltus.model.registry import readable
from saltus.simulation.store import ACCOUNTS, NAMES, TABLES

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
    "motion.x",
    "e\u0301",
    "near",
    "self",
    "params",
    "\\ud83d\\ude00",
    "\\ud800",
]
OPERATORS = [
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


def mutated(rng: random.Random, text: str) -> str:
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


@functools.cache
def good_texts() -> list[tuple[str, str]]:
    """Model files that are right, with their suffixes."""
    out = [(template("machine", kind), ".yaml") for kind in KINDS]
    for name in ("four_bar", "hopper", "bolt", "compass"):
        data = model_data(getattr(sl.zoo, name)())
        out += [(text_of(data, suffix), suffix) for suffix in (".yaml", ".json")]
    for machine in (sl.zoo.four_bar(), sl.zoo.bolt_linkage(), sl.zoo.compass_linkage()):
        out += [(write_xml(machine, suffix, True), suffix) for suffix in (".xml", ".urdf")]
    return out


def prepare() -> None:
    """Make what the attacks spoil."""
    good_texts()
    _run()


def expression(rng: random.Random) -> str:
    """A line of operators, names and worse."""
    return "".join(rng.choices([*OPERATORS, *NASTY], k=rng.randint(1, 25)))


def _known(name: str) -> float:
    if name not in ("a", "q.x"):
        raise sl.errors.UnknownName("quantity", name, ["a", "q.x"])
    return 0.5


def model_file(seed: int, folder: Path) -> str:
    """Read a mutant."""
    rng = random.Random(seed)
    if seed % 5 == 4:
        evaluate(expression(rng), _known)
        return "a value"
    text, suffix = rng.choice(good_texts())
    text = mutated(rng, text)
    if suffix in (".xml", ".urdf"):
        build_xml(parse_xml(text, f"attack{suffix}"), f"attack{suffix}", partial=True)
    else:
        build(parse(text, suffix, f"attack{suffix}"))
    return "a machine"


# ---- names ---------------------------------------------------------------------------------------------------------

MARKS = [
    "<script>document.title='PWNED'</script>",
    "<img src=x onerror=alert(1)>",
    "</title></style></svg><iframe src=//evil>",
    "' onmouseover='alert(1)",
    '" onload="alert(1)',
    "[a](javascript:alert(1))",
    "$\\x$",
    "$$",
    "\\input{/etc/passwd}",
    "$(touch PWNED)",
    "`touch PWNED`",
    "=cmd|' /C calc'!A0",
    "%(x)s {0} {x!r}",
    "[red]x[/]",
    ":skull:",
    "\x1b]0;PWNED\x07",
    "a\x00b",
    "a\nb",
    "a\u2028b",
    "a\u202eb",
    "&amp;&lt;",
    "]]>",
    "--><!--",
    "../../x",
    "名前",
    "x" * 500,
]


class _Tags(html.parser.HTMLParser):
    """Tags and attributes that could act."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        leads = ("href", "src", "srcdoc", "xlink:href", "action")
        acting = [
            n for n, v in attrs if n.startswith("on") or (n in leads and re.match(r"\s*javascript:", v or "", re.I))
        ]
        if tag in ("iframe", "object", "embed", "img", "base", "form", "link") or acting:
            self.found.append(f"<{tag} {acting}>")
        if tag == "script":
            self.found.append("<script>")


@functools.cache
def _run() -> sl.Trajectory:
    """A run with a foot, a stop, dry friction, a face, a motor, impacts and notes."""
    m = sl.Mechanism("puck")
    body, lid = m.link("body", mass=1.0, inertia=0.1), m.link("lid", mass=0.2, inertia=0.01)
    m.slide("at", m.ground, body, axes="xy")
    m.revolute("lid", body, lid, motor=True)
    m.foot("foot", body.at(0, 0), friction=0.5, restitution=0.3)
    m.stop("lid", lower=-1.0, upper=1.0)
    m.rub("at.x", 0.1)
    m.touch("wall", lid.at(0.1, 0.0), m.ground.plane(0, -1, normal=(0, 1)))
    start = m.assemble(**{"at.x": 0.0, "at.y": 0.02, "lid": 0.5}, rates={"at.x": 1.0, "lid": 2.0})
    run = sl.simulate(m, start, until=0.3, rate=200.0)
    return replace(run, meta=run.meta | {"notes": ["note"]})


def _renamed(run: sl.Trajectory, name: str) -> sl.Trajectory:
    """The same run with every text that a file may give replaced."""
    meta = dict(run.meta)
    meta |= {"name": name, "notes": [name, name], "formulation": name, "engine": name}
    meta["outcome"] = {"kind": name, "detail": name, "t": float(run.t[-1]), "faults": [name]}
    meta |= {key: [name, *meta[key][1:]] for key in NAMES if meta[key]}
    for key in (*TABLES, *ACCOUNTS):
        first = next(iter(meta[key]), None)
        meta[key] = {name if entry == first else entry: value for entry, value in meta[key].items()}
    events = []
    for e in run.events:
        rows = (name, *e.impact.rows[1:]) if e.impact and e.impact.rows else ()
        impact = e.impact and replace(e.impact, rows=rows)
        events.append(replace(e, name=name, source=name, target=name, impact=impact))
    return sl.Trajectory(meta, run.arrays, run.pieces, events)


def tags(text: str) -> list[str]:
    """What of a page could act or ask somebody for something."""
    parser = _Tags()
    parser.feed(text)
    return parser.found


def _html(text: str) -> None:
    if found := tags(text):
        raise Wrong(f"a name became {found[:4]}")


def _through_report(name: str, folder: Path) -> None:
    run = _renamed(_run(), name)
    for path in (sl.write(run, folder / f"run{suffix}") for suffix in (".csv", ".json", ".tex", ".nc")):
        path.read_bytes()
    with (folder / "run.csv").open(newline="") as table:
        if any(cell.startswith(("=", "@")) for row in csv.reader(table) for cell in row):
            raise Wrong("a name became a formula")
    again = sl.read(folder / "run.nc")
    said = [repr(again), again.report(), str(again.contacts), again.impacts.table(), repr(again.outcome), str(again.q)]
    if any(unicodedata.category(c) == "Cc" and c != "\n" for text in said for c in text):
        raise Wrong("a control character reached the terminal")
    _html(sl.view.report(again, folder / "r.html").read_text())
    _html(sl.view.html(again))


def _through_terminal(name: str, folder: Path) -> None:
    """The summary that the command line prints."""
    from saltus.cli.console import out, print_table
    from saltus.cli.results import facts, summary_rows

    run = sl.read(sl.write(_renamed(_run(), name), folder / "run.nc"))
    with out.capture() as shown:
        print_table(name, summary_rows(facts(run, 1.0)))
    if re.sub(r"\s", "", name) not in re.sub(r"\s", "", shown.get()):
        raise Wrong("a name became something else in the terminal")


def _through_figures(name: str, folder: Path) -> None:
    run = sl.read(sl.write(_renamed(_run(), name), folder / "run.nc"))
    makers = sl.view.makers(run)
    figure = makers[random.Random(name).choice(sorted(makers))]()
    figure.axes[0].set_title(name)
    for path in sl.view.save(figure, folder / "f", ("svg", "pdf", "png")):
        if path.suffix == ".svg":
            ET.fromstring(path.read_text())


def _through_models(name: str, folder: Path) -> None:
    data = model_data(sl.zoo.hopper())
    data["name"] = name
    data["keyframes"][name] = {}
    data["params"]["extra"] = {"value": 1.0, "unit": name}
    data["edges"][0]["name"] = name
    model = build(parse(text_of(data, ".json"), ".json", "names.json"))
    for suffix in (".yaml", ".json"):
        again = sl.read(sl.write(model, folder / f"again{suffix}"))
        if again.mechanism.name != name or name not in again.mechanism.keyframes:
            raise Wrong(f"a name came back as {again.mechanism.name!r}")
    four = sl.zoo.four_bar()
    four.name = name
    for suffix in (".xml", ".urdf"):
        ET.fromstring(sl.write(four, folder / f"again{suffix}", partial=True).read_text())


def _commands(text: str, suffix: str, name: str) -> str:
    """What of a program's text a compiler sees, without comments, texts and the program's own name."""
    if suffix == ".py":
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = ""
        return ast.dump(tree)
    bare = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', "", text, flags=re.DOTALL)
    return re.sub(rf"\b(?:{name}|{name.upper()})_", "NAME_", bare)


def _through_code(name: str, folder: Path) -> None:
    """Exported programs are the same whatever the machine is called."""
    four = sl.zoo.four_bar()
    said = []
    for called in ("plain", name):
        four.name = readable(called, "name")
        paths = [path for kind in ("numpy", "c") for path in sl.export(four, folder / str(len(said)), to=kind)]
        own = next(path.stem for path in paths if path.suffix == ".h")
        said += [_commands(path.read_text(), path.suffix, own) for path in paths if path.suffix in (".py", ".c", ".h")]
    half = len(said) // 2
    if sorted(said[:half]) != sorted(said[half:]):
        raise Wrong("a name became part of a program")


def _through_studio(name: str, _folder: Path) -> None:
    from saltus.studio.charts import Chart
    from saltus.studio.words import Words

    class Gui:
        def add_html(self, content: str) -> Any:
            self.content = content
            return self

    gui = Gui()
    Words(gui, name, name)
    _html(gui.content)
    _html(Chart(name, name, name, [(name, _run().t, _run().t)]).svg())


OUTPUTS: dict[str, Callable[[str, Path], None]] = {
    "report": _through_report,
    "terminal": _through_terminal,
    "figures": _through_figures,
    "models": _through_models,
    "code": _through_code,
    "studio": _through_studio,
}


def names(seed: int, folder: Path) -> str:
    """Send a name through one kind of output: it comes out as the text it is, or is refused."""
    rng = random.Random(seed)
    name = rng.choice(MARKS)
    if rng.random() < 0.5:
        name += rng.choice([*MARKS, *NASTY])
    kind = rng.choice(list(OUTPUTS))
    OUTPUTS[kind](name, folder)
    return f"text in {kind}"
