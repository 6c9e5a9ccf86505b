"""How cost grows with loops, tail links and legs: size, build, compilation, evaluation, a second of motion, memory.

Each machine is measured in a process of its own with an empty cache. `python -m bench scaling` prints the exponents,
and writes the table of docs/scaling.md and its figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from bench import Row, growing
from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.engines import choose as engine
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.mode import action, mode
from saltus.hybrid.touched import constrained

TITLE = "How cost grows"
SIZES = {"chain": (1, 3, 10, 30, 100), "tail": (2, 6, 20, 60), "legs": (1, 2, 4)}
NAMES = {"chain": "four-bars in a chain", "tail": "links of a tail", "legs": "legs on a body"}
COLUMNS = {
    "coordinates": "coordinates",
    "instructions": "instructions",
    "build": "build (s)",
    "compile": "compile (s)",
    "virtual": "virtual machine (us)",
    "native": "compiled (us)",
    "second": "1 s of motion (s)",
    "steps": "steps",
    "memory": "peak memory (MB)",
}
FITTED = ("instructions", "build", "virtual", "memory")  # the others change their method on the way
LEAST = {"chain": 10, "tail": 6, "legs": 1}  # exponents are fitted from here on
PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
FIGURE = PAGE.parent / "images" / "scaling.png"


def measure(kind: str, n: int) -> dict[str, float]:
    """All numbers of one machine, in this process."""
    start = time.perf_counter()
    m, state = getattr(growing, kind)(n)
    system = HybridSystem.alone(m)
    c = constrained(system, system.domains["motion"])
    choice = Choice(tuple(range(len(c.rows))), tuple(range(c.equations.nv)), ())  # all rows are independent
    formulation = sl.formulations.Projection()
    now = mode(c, formulation, choice, action(c, choice, None))
    flow = now.flow
    built = time.perf_counter()
    engine("native").prepare(flow)
    compiled = time.perf_counter()
    arguments = [np.zeros(1), now.state_vector(state.positions, state.velocities), np.zeros(now.layout.n_p)]
    arguments[2][now.layout.slice("params")] = state.p
    repeats = max(20, 2_000_000 // flow.rhs.n_instructions())
    evaluation = {
        name: min(Kernel(flow.rhs, native).time(repeats, arguments) for _ in range(3))
        for name, native in (("virtual", False), ("native", None))
    }
    sl.simulate(system, state, until=1e-3, formulation=formulation)
    begin = time.perf_counter()
    run = sl.simulate(system, state, until=1.0, formulation=formulation)
    if not run.outcome.ok or run.energy_account["relative residual"] > 1e-6:
        raise AssertionError(f"{kind} {n} did not run well: {run.report()}")
    return {
        "coordinates": len(m.q_names),
        "instructions": flow.rhs.n_instructions(),
        "build": built - start,
        "compile": compiled - built,
        "virtual": evaluation["virtual"] * 1e6,
        "native": evaluation["native"] * 1e6,
        "second": time.perf_counter() - begin,
        "steps": run.meta["steps"],
        "memory": _peak_memory(),
    }


def _peak_memory() -> float:
    """MB of this program alone; the count that getrusage has begins with that of the process it came from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


def measured(kind: str, n: int) -> dict[str, float]:
    """The same in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        code = f"import json; from bench.scaling import measure; print(json.dumps(measure({kind!r}, {n})))"
        said = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "SALTUS_CACHE_DIR": cache},
        )
    return json.loads(said.stdout.splitlines()[-1])


def exponent(points: dict[int, dict[str, float]], what: str, least: int) -> float:
    """Slope of log(what) over log(n), from `least` on."""
    n = [k for k in points if k >= least]
    return float(np.polyfit(np.log(n), np.log([points[k][what] for k in n]), 1)[0])


def table(results: dict[str, dict[int, dict[str, float]]]) -> str:
    """All numbers and the exponents as Markdown."""
    lines = []
    for kind, points in results.items():
        lines += [f"| {NAMES[kind]} | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 1) + "|"]
        lines += [
            f"| {n} | {' | '.join(f'{p[c]:.3g}' if p[c] < 1000 else f'{p[c]:.0f}' for c in COLUMNS)} |"
            for n, p in points.items()
        ]
        slopes = [f"{exponent(points, c, LEAST[kind]):.2f}" if c in FITTED else "" for c in COLUMNS]
        lines += [f"| exponent, {LEAST[kind]} to {max(points)} | {' | '.join(slopes)} |", ""]
    return "\n".join(lines)


def draw(results: dict[str, dict[int, dict[str, float]]]) -> None:
    """Four panels of growth, one line per kind of machine."""
    import matplotlib

    from saltus.view.colours import COLOURS
    from saltus.view.style import RC

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    panels: dict[str, Any] = {
        "instructions": "instructions of the flow",
        "compile": "compilation (s)",
        "native": "one evaluation, compiled (us)",
        "memory": "peak memory (MB)",
    }
    with plt.rc_context(RC):
        figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")
        for axis, (what, label) in zip(axes.flat, panels.items(), strict=True):
            for (kind, points), colour, mark in zip(results.items(), COLOURS, "os^", strict=False):
                slope = f", $n^{{{exponent(points, what, LEAST[kind]):.2f}}}$" if what in FITTED else ""
                y = [p[what] for p in points.values()]
                axis.loglog(list(points), y, mark + "-", color=colour, label=NAMES[kind] + slope)
            axis.set(xlabel="number n", ylabel=label)
            axis.legend(loc="upper left")
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.margins(y=0.35)
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(FIGURE)
        plt.close(figure)


def run() -> list[Row]:
    """Measure everything, write the page's table and its figure, return the exponents."""
    results = {kind: {n: measured(kind, n) for n in sizes} for kind, sizes in SIZES.items()}
    draw(results)
    if PAGE.exists():
        head, _, rest = PAGE.read_text().partition("<!-- table -->\n")
        PAGE.write_text(head + "<!-- table -->\n" + table(results) + "<!-- end -->" + rest.partition("<!-- end -->")[2])
    rows = [
        Row(f"{NAMES[kind]}: growth of {COLUMNS[what]}", f"n^{exponent(points, what, LEAST[kind]):.2f}")
        for kind, points in results.items()
        for what in FITTED
    ]
    last = results["chain"][max(SIZES["chain"])]
    rows.append(
        Row.at_most("100 four-bars: instructions, exponent", exponent(results["chain"], "instructions", 10), 1.1)
    )
    rows.append(
        Row.at_most("100 four-bars: from nothing to a compiled flow", last["build"] + last["compile"], 60, " s")
    )
    return rows
