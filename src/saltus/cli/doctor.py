"""Doctor: what Saltus finds on this machine, and how fast it is there."""

from __future__ import annotations

import importlib.util
import os
import platform
import time
from typing import Any

from saltus.cli.console import print_table

MODULES = {"heyoka": "heyoka", "sundials": "sksundae"}


def doctor() -> None:
    """Say what was found on this machine and how fast it is."""
    from saltus.view.run_report import versions

    print_table("found", environment())
    print_table("packages", [row for row in versions() if row[0] != "python"])
    rows = [
        (f"one BOLT flight evaluation, {way}", f"{1e6 * seconds:.3f} microseconds")
        for way, seconds in evaluation_times().items()
    ]
    s = swing()
    pace = f"{1000 * s['seconds']:.0f} ms ({10 / s['seconds']:.0f}x real time) on engine {s['engine']}"
    rows.append(("10 s of free swing", f"{pace}, loop gap {s['loop_gap']:.1e} m, energy residual {s['residual']:.1e}"))
    print_table("speed", rows)


def environment() -> list[tuple[str, str]]:
    """Python, compiler, cache directory and engines, as rows of a table."""
    from saltus.compile import cache_dir, find_compiler
    from saltus.engines import NAMES

    compiler = find_compiler()
    rows = [
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        (
            "compiler",
            "none found: functions run on CasADi's virtual machine, runs on SciPy's integrator"
            if compiler is None
            else f"{compiler.path} ({compiler.version})",
        ),
        ("cache", str(cache_dir())),
    ]
    return rows + [(f"engine {name}", "available" if available(name) else _missing(name)) for name in NAMES]


def _missing(engine: str) -> str:
    """What would make an engine available."""
    return "needs a C compiler" if engine == "native" else f"pip install 'saltus[{engine}]'"


def available(engine: str) -> bool:
    """Whether an engine can run here."""
    from saltus.compile import find_compiler

    module = MODULES.get(engine)
    if engine == "native":
        return find_compiler() is not None
    return module is None or importlib.util.find_spec(module) is not None


def evaluation_times() -> dict[str, float]:
    """Seconds of one evaluation of BOLT's flight dynamics in the SPF, compiled and on the virtual machine."""
    import numpy as np

    from saltus.compile import Kernel, find_compiler
    from saltus.dynamics.choice import choose
    from saltus.dynamics.formulations import SPF
    from saltus.hybrid.mode import action, mode
    from saltus.hybrid.touched import constrained
    from saltus.hybrid.transition import entry
    from saltus.zoo import bolt

    system = bolt()
    c = constrained(system, system.domains["flight"])
    start = system.mechanism.keyframe("drop")
    choice = choose(system.mechanism, c.closure(0.0, start.positions, start.p)[1])
    now = mode(c, SPF(), choice, action(c, choice, system.controls["run"]))
    p = np.ravel(entry(now)(0.0, start.positions, start.velocities, start.p))
    at = (0.0, now.state_vector(start.positions, start.velocities), p)
    out: dict[str, float] = {}
    if find_compiler() is not None:
        out["compiled"] = Kernel(now.flow.rhs, native=True).time(100_000, at)
    out["virtual machine"] = Kernel(now.flow.rhs, native=False).time(2_000, at)
    return out


def swing(engine: str | None = None) -> dict[str, Any]:
    """Simulate 10 s of BOLT's leg swinging freely from a fixed base; seconds of the second run, and its loop gap."""
    from saltus import simulate
    from saltus.zoo import bolt_linkage

    m = bolt_linkage(base="fixed")
    start = m.keyframe("crank level", rates={"q1": 10.0})
    took = 0.0
    for _ in range(2):  # the first one compiles
        begin = time.perf_counter()
        run = simulate(m, start, until=10.0, engine=engine, rate=100.0)
        took = time.perf_counter() - begin
    return {
        "seconds": took,
        "loop_gap": run.loop_gap,
        "residual": run.energy_account["relative residual"],
        "outcome": run.outcome.kind,
        "engine": run.meta["engine"],
    }
