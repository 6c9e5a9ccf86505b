"""Righting plans of the kangaroo rat (Table 2): refined and flown, as the paper transcribed them; and two solvers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import saltus as sl
from bench import Report, Row, race
from saltus.errors import NotSolved
from saltus.studies import rat_plans as rp
from saltus.studies.tail_segments import CASES, PAPER, WORKSPACE, plan

TITLE = "Planning (righting with 1, 2 and 3 segments; solver seconds, build apart)"
VERIFIED, PLAIN = {1: 9.0, 2: 20.0, 3: 40.0}, {1: 1.0, 2: 4.0, 3: 10.0}  # s
HEAD = (
    "| tail | transcription | build s | solve s | iterations | meshes | g, Jacobian, Hessian calls | in functions s | "
    "flown tilt deg | dynamics error |"
)
SOLVERS = ("ipopt", "fatrop")
HEAD_OF_TWO = (
    "| one mesh, best of 3 in turn | IPOPT iterations | s | cost | FATROP iterations | s | cost | FATROP s / IPOPT s |"
)


def run() -> Report:
    """Solve all six, and some plans by both solvers."""
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
    return Report(rows, "\n".join([*lines, "", *by_two_solvers()]))


def by_two_solvers() -> list[str]:
    """IPOPT and FATROP on one mesh each: a table."""
    straight = {"t": [0, 2], "cart": [0, 1], "pole": [0, math.pi]}
    cases: list[tuple[str, sl.Plan, Any]] = [(f"cart-pole, {n} intervals", swing_up(n), straight) for n in (20, 160)]
    intervals = rp.intervals_at(100.0, "hermite-simpson")
    for m, n in CASES[:1]:
        cases.append((f"{m} x {n}, {intervals} intervals", rp.righting(m, n, WORKSPACE, intervals), None))
    lines = [HEAD_OF_TWO, "|" + "---|" * 8]
    for name, statement, guess in cases:
        found: dict[str, Any] = {}
        seconds = race({s: _timed(statement, guess, s, found) for s in SOLVERS}, rounds=3)
        cells = [f"{found[s][0]} | {seconds[s]:.3g} | {found[s][1]:.4g}" for s in SOLVERS]
        lines.append(f"| {name} | {' | '.join(cells)} | {seconds['fatrop'] / seconds['ipopt']:.2f} |")
    return lines


def swing_up(intervals: int) -> sl.Plan:
    """Kelly's cart-pole (2017), SIAM Review 59."""
    m = sl.Mechanism("cart-pole")
    cart, pole = m.link("cart", mass=1.0), m.link("pole", mass=0.3, com=(0, -0.5))
    m.slide("cart", m.ground, cart, axes="x", motor=True)
    m.revolute("pole", cart.at(0, 0), pole)
    plan = sl.Plan(m, duration=2.0, intervals=intervals)
    plan.require(plan.start == m.assemble(cart=0.0, pole=0.0), plan.end == m.assemble(cart=1.0, pole=math.pi))
    plan.bound(plan.u.cart, -20, 20)
    plan.minimise(plan.integral(plan.u.cart**2))
    return plan


def _timed(statement: sl.Plan, guess: Any, solver: str, found: dict[str, Any]) -> Callable[[], float]:
    """Seconds in a solver for all guesses; iterations and cost go into `found`."""

    def seconds() -> float:
        best = sl.plan.solve(
            statement, guess, method=sl.plan.Method(solver=solver, native=None), tolerance=None, fly=False
        )
        found[solver] = sum(r.iterations for r in best.rounds), best.objective
        return float(best.solve_seconds)

    return seconds


def _line(name: str, kind: str, best: Any, case: dict[str, Any]) -> str:
    calls = ", ".join(str(count) for count in case["evaluations"].values())
    meshes = " ".join("+".join(map(str, r.intervals)) for r in best.rounds)
    return (
        f"| {name} | {kind} | {case['build_seconds']:.2f} | {case['solve_seconds']:.2f} | {case['iterations']} "
        f"| {meshes} | {calls} | {case['evaluation_seconds']:.2f} | {case['final_tilt_deg_flown']:.3g} "
        f"| {case['dynamics_error']:.3g} |"
    )
