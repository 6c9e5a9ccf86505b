"""Imports go one way, heavy libraries load late, and the code passes ruff and mypy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "saltus"
ORDER = [
    "errors",
    "once",
    "shown",
    "sealed",
    "compile",
    "engines",
    "model",
    "math",
    "dynamics",
    "hybrid",
    "simulation",
    "track",
    "control",
    "batch",
    "impacts",
    "orbits",
    "plan",
    "sweeps",
    "design",
    "files",
]
LEAVES = {"view", "zoo", "studies", "learn", "cli", "studio"}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, path.relative_to(SOURCE).with_suffix("").parts


def imported(path):
    """Every module a file imports at any depth, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(dotted):
    pieces = dotted.split(".")
    return pieces[1] if pieces[0] == "saltus" and len(pieces) > 1 else None


def test_imports_go_one_way():
    wrong = []
    for path, parts in modules():
        own = parts[0]
        for name in imported(path):
            part = part_of(name)
            if part is None or part == own:
                continue
            if own in ORDER and part in ORDER and ORDER.index(part) > ORDER.index(own):
                wrong.append(f"{path.name} imports {name}")
            if {own, part} == {"orbits", "plan"}:
                wrong.append(f"{path.name} imports {name}: orbits and plan do not know each other")
            if part in LEAVES and own not in (*LEAVES, "__init__", "__main__"):
                wrong.append(f"{path.name} imports the leaf {name}")
    assert not wrong


def test_no_module_imports_itself_by_way_of_others():
    """Imports at any depth count, also those for types and those inside functions."""
    known = {".".join(("saltus", *parts)).removesuffix(".__init__"): path for path, parts in modules()}
    uses = {name: {n for n in imported(path) if n in known and n != name} for name, path in known.items()}
    for name, others in uses.items():  # `from package import module` uses the module, not the package
        uses[name] = {o for o in others if not any(x.startswith(o + ".") for x in others)}
    reached = {name: set(others) for name, others in uses.items()}
    for _ in range(len(known)):
        grown = {n: r.union(*(uses[o] for o in r)) for n, r in reached.items()}
        if grown == reached:
            break
        reached = grown
    assert not [name for name, others in reached.items() if name in others]


def test_nothing_imports_files():
    """Files read every noun there is; only the command line and the package itself know them."""
    for path, parts in modules():
        if parts[0] not in ("files", "cli", "__init__"):
            assert "files" not in {part_of(name) for name in imported(path)}, path


def test_zoo_and_studies_use_public_names_only():
    wrong = []
    for path, parts in modules():
        if parts[0] in ("zoo", "studies"):
            for name in imported(path):
                part = part_of(name)
                if part in ORDER and part != "errors":
                    wrong.append(f"{path.name} imports {name}")
    assert not wrong


def test_casadi_stays_out_of_view_and_cli():
    for path, parts in modules():
        if parts[0] in ("view", "cli", "studio"):
            assert "casadi" not in {name.split(".")[0] for name in imported(path)}, path


def test_import_is_light():
    heavy = ("casadi", "numpy", "heyoka", "matplotlib", "xarray", "scipy")
    code = f"import sys, saltus; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_every_public_name_exists():
    import saltus as sl

    for name in sl.__all__:
        assert getattr(sl, name) is not None


LONG = {"righting": [pytest.mark.slow]}  # test_plan_studies flies a righting with a shorter tail
EXAMPLES = [pytest.param(x, id=x.stem, marks=LONG.get(x.stem, [])) for x in sorted((ROOT / "examples").glob("*.py"))]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example, tmp_path):
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_ruff():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "src", "tests", "bench", "robust", "examples"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


def test_mypy():
    done = subprocess.run([sys.executable, "-m", "mypy"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_no_file_names_a_package_registry():
    done = subprocess.run(
        ["git", "grep", "-nIE", r"index-url|trusted-host|/simple/|registry\."], capture_output=True, text=True, cwd=ROOT
    )
    hits = [line for line in done.stdout.splitlines() if not line.startswith(("docs/", "tests/test_architecture.py"))]
    assert not hits
