"""One trial: build the machine of a seed, run it, judge it; every ending has a name."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robust import faults
from robust.build import Built, build, run
from robust.judge import of_run, of_start, residuals
from robust.machines import Machine, random_machine
from saltus.errors import CannotClose, SaltusError

LOOSE = 1e3  # tolerances by which a run may miss its accounts before a finer one has to do better
OUTCOMES = ("inaccurate", "chattering", "not finite", "step too small", "step limit", "slip reversed", "failed")


@dataclass(frozen=True)
class Result:
    """How a trial ended: verdict "right", "named" (an error or outcome that says what is wrong) or "wrong"."""

    seed: int
    verdict: str
    end: str
    detail: str
    theme: str = ""
    spatial: bool = False
    links: int = 0
    loops: int = 0
    formulation: str = ""
    engine: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


def trial(seed: int) -> Result:
    """Run the machine of a seed."""
    machine = random_machine(seed)
    begun = time.perf_counter()
    _compiler(machine.engine == "native")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        verdict, end, detail = _ending(machine)
    return Result(
        seed,
        verdict,
        end,
        detail,
        machine.theme,
        machine.spatial,
        len(machine.bodies),
        len(machine.loops),
        machine.formulation,
        machine.engine,
        round(time.perf_counter() - begun, 3),
    )


def _compiler(wanted: bool) -> None:
    """Only the native engine is worth a call of the C compiler here."""
    if wanted:
        os.environ.pop("SALTUS_CC", None)
    else:
        os.environ["SALTUS_CC"] = "none"


def _ending(machine: Machine) -> tuple[str, str, str]:
    try:
        if machine.theme == "bad input":
            return faults.trial(machine)
        built = build(machine)
        wrong = of_start(machine, built.start)
        if wrong:
            return "wrong", "assembled", "; ".join(wrong)
        return _judged(machine, built)
    except SaltusError as error:
        return _named(machine, error)
    except Exception as error:
        return "wrong", type(error).__name__, f"{error} | {_where(error)}"


def _named(machine: Machine, error: SaltusError) -> tuple[str, str, str]:
    """An error is an ending like any other if it explains itself and is not a lie."""
    kind, text = type(error).__name__, str(error)
    closes = machine.theme != "may not close" and machine.guess_error == 0.0
    if isinstance(error, CannotClose) and closes:
        return "wrong", kind, f"the guess given closes all loops, yet: {text}"
    return ("named" if len(text) >= 20 else "wrong"), kind, text


def _judged(machine: Machine, built: Built) -> tuple[str, str, str]:
    first = run(machine, built)
    outcome = first.outcome
    if not outcome.ok:
        clear = outcome.kind in OUTCOMES and len(outcome.detail) >= 20
        finite = all(np.isfinite(array).all() for array in first.arrays.values())
        if not finite:
            return "wrong", outcome.kind, f"numbers that are not finite among the samples; {outcome.detail}"
        return ("named" if clear else "wrong"), outcome.kind, outcome.detail
    wrong = of_run(machine, first)
    missed = {n: x for n, x in residuals(machine, first).items() if not x <= LOOSE * machine.tolerance}
    if missed and not wrong and machine.tolerance > 1e-10:
        finer = run(machine, built, machine.tolerance / 100)
        if finer.outcome.ok:
            again = residuals(machine, finer)
            wrong = [
                f"{name} is off by {x:.2g}, and by {again[name]:.2g} at a hundredth of the tolerance"
                for name, x in missed.items()
                if not (again[name] <= x / 3 or again[name] <= LOOSE * machine.tolerance)
            ]
    return ("wrong" if wrong else "right"), outcome.kind, "; ".join(wrong)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames[-4:]))
