"""The wheel: built from a copy of the sources, installed elsewhere, tried by a program that knows only it.

python tests/wheel_smoke.py FOLDER    # into an empty environment, what it depends on installed by pip
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]

SMOKE = """
import math, sys
from importlib.resources import files
import saltus as sl

assert sl.__file__.startswith(sys.prefix), f"saltus comes from {sl.__file__}, not from {sys.prefix}"
package = files("saltus")
for name in ("py.typed", "engines/rodas.c", "design/walk.c"):
    assert package.joinpath(name).is_file(), f"{name} is not in the wheel"
hopper = sl.zoo.hopper()
run = sl.simulate(hopper, hopper.keyframes["takeoff"], domain="flight", until=1.0)
assert run.outcome.kind == "finished" and len(run.events) == 3, run.report()
assert run.energy_account["relative residual"] < 1e-7
turn = sl.design.kinematic_study(sl.zoo.four_bar().keyframe("middle"), "crank", "tracer", samples=36)
assert math.isclose(turn.path[:, 1].min(), 0.16, abs_tol=0.01), turn.path
sl.write(run, "run.nc")
assert sl.read("run.nc").outcome == run.outcome
sl.view.report(run, "run.html", figures={})
print(sl.__file__, run.meta["engine"])
"""


def build(folder: Path) -> Path:
    """Build the wheel with the setuptools of this environment, from a copy so that nothing stale gets in."""
    sources = folder / "sources"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(sources)], folder)
    (wheel,) = folder.glob("saltus-*.whl")
    return wheel


def install(wheel: Path, folder: Path, *, borrowed: bool) -> Path:
    """Make an environment with the wheel in it; its dependencies are this environment's own if `borrowed`."""
    _run([sys.executable, "-m", "venv", *(["--without-pip"] if borrowed else []), str(folder)], folder.parent)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    if not borrowed:
        _run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], folder)
        return python
    _run([*pip, "--no-deps", "--no-index", str(wheel)], folder)
    (site,) = folder.glob("lib/python*/site-packages")
    # behind the wheel on the path, and .pth files in there (such as an editable Saltus') are not read
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def try_it(python: Path, folder: Path) -> dict[str, str]:
    """What the smoke program and the commands print, run in an empty folder."""
    commands = {
        "program": [str(python), "-c", SMOKE],
        "version": [str(python.with_name("saltus")), "--version"],
        "studies": [str(python.with_name("saltus")), "study", "list"],
        "zoo": [str(python.with_name("saltus")), "zoo"],
    }
    folder.mkdir()
    said = {name: _run(command, folder) for name, command in commands.items()}
    (folder / "nothing").mkdir()
    alone = {"PATH": str(folder / "nothing"), "SALTUS_CACHE_DIR": str(folder / "nothing")}
    return said | {"no compiler": _run(commands["program"], folder, **alone)}


def _run(command: list[str], folder: Path, **more: str) -> str:
    """Run outside the tree and without its paths; what it printed."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SALTUS_CC")}
    clean = {**kept, **more}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:6])} ...: ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    made = build(target)
    said = try_it(install(made, target / "environment", borrowed=False), target / "elsewhere")
    size = sum(f.stat().st_blocks * 512 for f in (target / "environment").rglob("*") if not f.is_symlink())
    print(made, said["version"] + said["program"] + said["no compiler"], sep="\n", end="")
    print(f"{size / 2**20:.0f} MB in {target / 'environment'}")
