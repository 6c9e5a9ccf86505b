"""The reproduction table: verdicts, the registry, the page against fresh results, the command."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import saltus as sl
from saltus import studies
from saltus.cli.app import app
from saltus.studies import reproduction
from saltus.studies.collect import Run, collect
from saltus.studies.reproduction import Item, Paper, differences, page, papers, row
from saltus.studies.reproduction.page import same
from saltus.studies.reproduction.rows import verdict
from saltus.studies.result import Comparison, StudyResult, plain

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
QUICK = ("tail-appendix", "pantograph-impact", "compass-heelstrike", "hopper-orbit", "bolt-appendix")
ITEMS = [(paper, item) for paper in papers() for item in paper.items]


def results_of(runs):
    return {r: json.loads(json.dumps(plain(studies.run(r.study, **dict(r.options)).as_dict()))) for r in runs}


# ---- verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "value", "said"),
    [
        ("0.0175", 0.0175388, "agrees"),  # eq. 68 of Zana et al. (2018)
        ("3.28", 3.2885166, "agrees, printed cut off instead of rounded"),
        ("-3.84", -3.8439, "agrees"),
        ("0.05", 0.058, "differs by 16 %"),  # two digits are too few to tell
        ("-0.980", -0.97899, "differs by 0.1 %"),
        ("1.2345", 1.2351, "agrees to 3 digits"),
        ("97.58", 97.5842, "agrees"),  # Font-Llagunes and Kövecses (2009)
        ("43", 44.4775, "differs by 3.4 %"),
        ("5.81e-7", 5.8149e-7, "agrees"),
        ("5.81e-7", 6.6e-6, "differs by 1036 %"),
        ("0", 0.6, "differs"),
        ("0", 0.4, "agrees"),
        ("16", 16.0, "agrees"),
    ],
)
def test_printed_digits_decide(printed, value, said):
    assert verdict(printed, value) == said


def test_bounds_and_costs():
    assert verdict("0.5", 0.401, "<") == "agrees"
    assert verdict("0.50", 0.513, "<") == "differs"
    assert verdict("1.0", 1.2, ">") == "agrees"
    assert verdict("15", 0.2, "beat") == "beaten"
    assert verdict("15", 15.3, "beat") == "agrees"
    assert verdict("0.0165", 0.056, "beat") == "differs by 239 %"


def test_a_zero_among_digits_is_held_to_them():
    item = Item("eq. 69, entry 2, 1", "0", study="s", field="x", digit="0.0001")
    assert row(item, {Run("s"): {"x": 1e-9}}).verdict == "agrees"
    assert row(item, {Run("s"): {"x": 0.02}}).verdict == "differs"


def test_what_is_missing_is_said():
    item = Item("a", "1", study="s", field="x.0")
    assert row(item, {}).verdict == "not computed"
    assert "no orbit" in row(item, {Run("s"): {"error": "no orbit"}}).reason
    assert "'0' of 'x.0'" in row(item, {Run("s"): {"x": []}}).reason
    drawn = Item("b", "drawn", study="s", figure="fig1")
    assert row(drawn, {Run("s"): {"figures": ["fig1"]}}).verdict == "cannot be compared"
    assert row(drawn, {Run("s"): {"figures": []}}).verdict == "not computed"


def test_statements_come_from_the_study():
    said = {"quantity": "order", "computed": 1.25, "unit": "", "why": "slope", "agrees": False}
    results = {Run("s"): {"comparisons": [said], "figures": []}}
    line = row(Item("a", "one", study="s", statement="order"), results)
    assert (line.computed, line.verdict, line.reason) == ("1.25", "differs", "slope")
    assert row(Item("a", "one", study="s", statement="other"), results).verdict == "not computed"


def test_bad_items_are_refused():
    with pytest.raises(sl.errors.BadValue, match="reason"):
        Item("a", "photograph")
    with pytest.raises(sl.errors.BadValue, match="a field, a statement or a figure"):
        Item("a", "1", study="s")
    with pytest.raises(sl.errors.BadValue, match="relation"):
        Item("a", "1", study="s", field="x", relation="~")


# ---- registry and page ----------------------------------------------------------------------------------------------


def test_the_five_papers_are_there():
    authors = ("Articulated Closed", "Kamidi", "Zana", "kangaroo rat", "Font-Llagunes")
    for name in authors:
        assert sum(name in paper.source for paper in papers()) == 1
    names = [(paper.name, item.item) for paper, item in ITEMS]
    assert len(names) == len(set(names)) > 200


def test_every_item_is_on_the_page():
    lines = PAGE.read_text(encoding="utf-8")
    for paper, item in ITEMS:
        assert f"| {item.item} | " in lines, f"{paper.name}: {item.item}; write the page with `saltus reproduce`"
    for paper in papers():
        assert paper.notes in lines


def test_quick_rows_of_the_page_are_what_comes_out_now():
    fresh = results_of({item.run: 0 for _, item in ITEMS if item.study in QUICK})
    assert {run.study for run in fresh} == set(QUICK)
    assert all(result["agrees"] for result in fresh.values())
    assert differences(PAGE.read_text(encoding="utf-8"), fresh) == []
    for _, item in ITEMS:
        if item.study in QUICK:
            line = row(item, fresh)
            assert line.kind in ("agrees", "differs", "cannot", "beaten"), line
            assert line.verdict.startswith("agrees") or line.reason, f"{line.item}: no reason given"


@pytest.mark.slow
def test_all_rows_of_the_page_are_what_comes_out_now():
    known = {item.run: 0 for _, item in ITEMS if item.study in studies.STUDIES}
    assert differences(PAGE.read_text(encoding="utf-8"), results_of(known)) == []


def test_numbers_may_differ_in_their_last_digits_only():
    assert same("at most 0.4011 deg", "at most 0.40111 deg")
    assert same("| -21.4547 |", "| -21.4546 |")
    assert not same("0.4011 deg", "0.4111 deg")
    assert not same("0.4011 deg", "0.4011 rad")
    assert not same("agrees", "agrees to 3 digits")


def test_matrices_give_a_row_an_entry():
    """Table 3 of Font-Llagunes and Kövecses (2009): four cases of four numbers."""
    items = {item.item: item for paper, item in ITEMS if paper.name == "Topology changes"}
    mine = items["Table 3, case 2: T_c"]
    assert (mine.published, mine.unit, mine.field) == ("9.82", "mJ", "rows.1.T_c_mJ")
    assert sum(name.startswith("Table 3, case") for name in items) == 16
    assert items["Table 4, case 2: tangential impulse"].reason != items["Table 4, case 1: tangential impulse"].reason


# ---- collecting and the command -----------------------------------------------------------------------------------


@pytest.fixture
def toy(monkeypatch):
    """A registry of one study that counts its runs, and a paper about it."""
    ran = []

    class Module:
        @staticmethod
        def study(*, x: float = 1.0):
            ran.append(x)
            if x < 0:
                raise sl.errors.BadValue("x is negative")
            return StudyResult(info, {"x": x}, [Comparison("one", "yes", "yes", holds=True)])

    info = studies.Study("toy", "t", "s and t", "toy")
    monkeypatch.setattr(studies, "STUDIES", {"toy": info})
    monkeypatch.setitem(sys.modules, "toy", Module)
    items = (
        Item("number", "1.00", study="toy", field="x"),
        Item("other", "2.0", study="toy", options=(("x", 2.0),), field="x"),
        Item("planned", "3", study="later", field="x", reason="not yet"),
        Item("photograph", "drawn", reason="hardware"),
    )
    for module in (reproduction, sys.modules["saltus.studies.reproduction.page"]):
        monkeypatch.setattr(module, "papers", lambda: (Paper("Toy", "s", items, "Prose."),))
    return ran


def test_results_are_kept_and_taken_up_again(toy, tmp_path):
    runs = [Run("toy"), Run("toy", (("x", 2.0),)), Run("toy"), Run("later")]
    seen = []
    first = collect(runs, tmp_path, progress=lambda run, i, n: seen.append((run.directory, i, n)))
    assert toy == [1.0, 2.0]
    assert seen == [("toy", 0, 2), ("toy-x-2", 1, 2)]
    assert Run("toy", (("x", 2.0),)).command == "saltus study toy --x 2"
    (tmp_path / "toy" / "result.json").unlink()
    assert collect(runs, tmp_path, resume=True) == first
    assert toy == [1.0, 2.0, 1.0]


def test_a_failing_study_is_told_apart(toy, tmp_path):
    bad = Run("toy", (("x", -1.0),))
    assert collect([bad], tmp_path) == {bad: {"error": "x is negative"}}
    assert not (tmp_path / bad.directory).exists()


def test_page_reads_back(toy, tmp_path):
    results = collect([Run("toy"), Run("toy", (("x", 2.0),))], tmp_path)
    text = page(results)
    assert "4 rows: 2 agree, 1 with nothing to compute, 1 not computed." in text
    assert differences(text, results) == []
    off = {**results, Run("toy"): {"x": 1.2}}
    found = differences(text, off)
    assert any("computed '1.00000' on the page, '1.20000' now" in line for line in found)
    assert any("verdict" in line for line in found)
    assert differences(text.replace("| number |", "| numeral |"), results) == ["Toy, number: not on the page"]


def test_reproduce_writes_and_checks(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = CliRunner().invoke
    assert call(app, ["reproduce", "--check", "--resume"]).exit_code == 2  # no page yet
    assert call(app, ["reproduce"]).exit_code == 0
    written = (tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert "Prose." in written
    assert page(collect([Run("toy"), Run("toy", (("x", 2.0),))], tmp_path / "results", resume=True)) == written
    runs = len(toy)
    assert call(app, ["reproduce", "--check", "--resume"]).exit_code == 0
    assert len(toy) == runs
    (tmp_path / "docs" / "reproduction.md").write_text(written.replace("1.00000", "1.10000"), encoding="utf-8")
    done = call(app, ["reproduce", "--check"])
    assert done.exit_code == 1
    assert "1 differences" in done.output
