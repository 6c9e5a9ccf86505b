"""Righting plans of the kangaroo rat (Table 2): refined and flown, and as the paper transcribed them."""

from __future__ import annotations

from typing import Any

from bench import Report, Row
from saltus.errors import NotSolved
from saltus.studies import rat_plans as rp
from saltus.studies.tail_segments import CASES, PAPER, WORKSPACE, plan

TITLE = "Planning (righting with 1, 2 and 3 segments; solver seconds, build apart)"
VERIFIED, PLAIN = {1: 9.0, 2: 20.0, 3: 40.0}, {1: 1.0, 2: 4.0, 3: 10.0}  # s
HEAD = (
    "| tail | transcription | build s | solve s | iterations | meshes | g, Jacobian, Hessian calls | in functions s | "
    "flown tilt deg | dynamics error |"
)


def run() -> Report:
    """Solve all six."""
    rows, lines = [], [HEAD, "|" + "---|" * 10]
    for m, n in CASES:
        name = f"{m} x {n}"
        for kind, solve, targets in (
            ("refined, flown", lambda m=m, n=n: plan(m, n), VERIFIED),
            ("trapezoidal, 100 Hz", lambda m=m, n=n: rp.plain(m, n, WORKSPACE), PLAIN),
        ):
            try:
                best = solve()
            except NotSolved as problem:
                rows.append(Row(f"{name}, {kind}", f"not solved: {problem.status}", f"<= {targets[m]:g} s", False))
                continue
            case = rp.numbers(best)
            rows.append(Row.at_most(f"{name}, {kind}: time in the solver", case["solve_seconds"], targets[m], " s"))
            if targets is VERIFIED:
                rows.append(Row.at_most(f"{name}: flown tilt", case["final_tilt_deg_flown"], 1.0, " deg"))
                ratio = PAPER[m][4] / case["dynamics_error"]
                rows.append(Row.at_least(f"{name}: dynamics error of the paper / ours", ratio, 100))
                faster = 60 * PAPER[m][0] / case["solve_seconds"]
                rows.append(Row(f"{name}: {PAPER[m][0]} min of the paper's fmincon / ours", f"{faster:.3g}x"))
            lines.append(_line(name, kind, best, case))
    return Report(rows, "\n".join(lines))


def _line(name: str, kind: str, best: Any, case: dict[str, Any]) -> str:
    calls = ", ".join(str(count) for count in case["evaluations"].values())
    meshes = " ".join("+".join(map(str, r.intervals)) for r in best.rounds)
    return (
        f"| {name} | {kind} | {case['build_seconds']:.2f} | {case['solve_seconds']:.2f} | {case['iterations']} "
        f"| {meshes} | {calls} | {case['evaluation_seconds']:.2f} | {case['final_tilt_deg_flown']:.3g} "
        f"| {case['dynamics_error']:.3g} |"
    )
