"""Blocks of every page run, links hold; the site builds without a warning, is complete, and fetches nothing."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import saltus as sl
from browser import launch, watched

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name(page):
    return page.relative_to(DOCS).with_suffix("").as_posix() if page.is_relative_to(DOCS) else page.stem


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=name)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    for block in re.finditer(r"```python\n(.*?)```", page.read_text(), re.S):
        above = page.read_text().count("\n", 0, block.start(1))
        exec(compile("\n" * above + block[1], str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_hold(page):
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
        if not target.startswith(("http", "mailto")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_that_is_named_exists(page):
    for path in re.findall(r"`([\w./]+/\w+\.py)`", page.read_text()):
        assert any((ROOT / base / path).is_file() for base in ("", "src", "src/saltus")), f"{page.name} names {path}"


# ---- the site -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="the test extra installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(folder / "trees"), str(DOCS), str(folder / "html")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Loads(HTMLParser):
    """What a page makes a browser load, and how many formulas it has."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.formulas = [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.formulas += tag == "math"
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev", "index", "search"):
            return
        wanted = given.get("src") or (given.get("href") if tag == "link" else None) or given.get("data")
        if wanted and tag != "a":
            self.loads.append(wanted)


def test_pages_load_local_files_only(site):
    pages = {p: Loads(p.read_text()) for p in site.rglob("*.html")}
    assert len(pages) > 40
    for page, found in pages.items():
        for load in found.loads:
            assert not re.match(r"(https?:)?//", load), f"{page.name} loads {load}"
            if not load.startswith("data:"):
                assert (page.parent / load.split("?")[0].split("#")[0]).exists(), f"{page.name} misses {load}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text()), sheet.name


@pytest.mark.parametrize("page", ["spf", "impacts", "saltation", "collocation"])
def test_formulas_are_mathml(site, page):
    text = (site / "theory" / f"{page}.html").read_text()
    assert Loads(text).formulas > 20
    shown = re.sub(r"<pre>.*?</pre>", "", text, flags=re.S)
    assert "$" not in re.sub(r"<[^>]*>", "", shown.split('role="main"')[1])
    assert r"\mathsf" not in shown


def test_reference_has_every_public_name(site):
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind in inventory.data.values() for name in kind}
    for name, home in sl._HOME.items():
        assert home == "casadi" or f"saltus.{name}" in known, f"{name} of {home} is on no page below docs/api"
    for module in ("zoo", "view", "design"):
        assert not [n for n in getattr(sl, module).__all__ if f"saltus.{module}.{n}" not in known]
    assert "saltus.Mechanism.assemble" in known
    assert "saltus.errors.CannotClose" in known


def test_gallery_shows_every_machine(site):
    text = (site / "gallery.html").read_text()
    for machine in sl.zoo.__all__:
        if not machine.endswith("_linkage"):
            assert f"machine-{machine.replace('_', '-')}.png" in text, "run `python docs/gallery.py`"


def test_in_a_browser(site):
    """Desktop and phone: nothing asked of other machines, no errors, nothing wider than the page, formulas drawn."""
    manager, browser = launch()
    complaints = []
    try:
        for width in (1280, 390):
            page = watched(browser.new_page(viewport={"width": width, "height": 844}), complaints)
            for path in ("index", "tutorial", "theory/spf", "theory/collocation", "gallery", "api/model", "hybrid"):
                page.goto((site / f"{path}.html").as_uri())
                assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 1, (path, width)
                if path.startswith("theory"):
                    heights = page.eval_on_selector_all("math", "all => all.map(m => m.getBoundingClientRect().height)")
                    assert min(heights) > 5
            page.close()
    finally:
        browser.close()
        manager.stop()
    assert not complaints


# ---- beside the site ----------------------------------------------------------------------------------------------


def test_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "license"} <= set(cited)
    assert cited["version"] == sl.__version__
    assert f"## {sl.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert cited["license"] == "BSD-3-Clause"
    assert "BSD 3-Clause" in (ROOT / "LICENSE").read_text()
