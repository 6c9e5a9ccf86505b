"""Time from nothing: `import saltus`, and `saltus run bolt` the first time on a machine and later."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import Row, best

TITLE = "Start-up in fresh processes"

HEAVY = ("casadi", "heyoka", "matplotlib", "numpy", "scipy", "sksundae", "xarray")


def python(code: str) -> str:
    """Output of some code in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def timed(code: str) -> float:
    """Seconds that some code takes in a fresh interpreter, its own start left out."""
    return float(python(f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"))


def run() -> list[Row]:
    """Measure."""
    empty = best(lambda: python("pass"), 7)
    seconds = min(timed("import saltus") for _ in range(7))
    code = f"import saltus, sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    heavy = python(code).split()
    rows = [
        Row.at_most("import saltus", seconds, 0.3, " s"),
        Row("an interpreter that does nothing", f"{empty:.3g} s"),
        Row("heavy libraries imported by it", ", ".join(heavy) or "none", "none", not heavy),
    ]
    model = min(timed("from saltus.zoo.bolt import bolt; bolt()") for _ in range(5))
    rows.append(Row("a model: libraries and BOLT's description", f"{model:.3g} s"))
    if importlib.util.find_spec("saltus.cli.app") is None:
        return [*rows, Row("saltus run bolt", "skipped, there is no command line yet")]
    return rows + command()


def command() -> list[Row]:
    """`saltus run bolt` with an empty cache and again."""
    with tempfile.TemporaryDirectory() as directory:
        cache = Path(directory) / "cache"
        environment = os.environ | {"SALTUS_CACHE_DIR": str(cache)}
        script = [sys.executable, "-c", "from saltus.cli.app import app; app()", "run", "bolt"]

        def once() -> float:
            start = time.perf_counter()
            done = subprocess.run(
                [*script, "--out", str(Path(directory) / "out")],
                env=environment,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                said = done.stderr.strip().splitlines()[-1:]
                raise RuntimeError(f"saltus run bolt ended with {done.returncode}: {said}")
            return time.perf_counter() - start

        try:
            first = once()
            again = min(once() for _ in range(3))
        except RuntimeError as problem:
            return [Row("saltus run bolt", f"failed: {problem}")]
    return [
        Row.at_most("saltus run bolt, empty cache", first, 20, " s"),
        Row.at_most("saltus run bolt, warm cache", again, 3, " s"),
    ]
