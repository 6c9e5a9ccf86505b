"""One trial: build the machine of a seed, run it, judge it; every ending has a name."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from robust import faults
from robust.build import Built, build, run
from robust.draw import random_machine
from robust.ends import compared
from robust.gathering import Trial
from robust.judge import of_run, of_start, residuals
from robust.machines import DEFAULT, Machine
from robust.maximal import NoOpinion
from saltus.errors import CannotClose, SaltusError

ROUND_OFF = 1e-8  # what a second judge knows no better than
LOOSE = 1e3  # tolerances by which a run may miss its accounts before a finer one has to do better
OUTCOMES = ("chattering", "not finite", "step too small", "step limit", "slip ended", "failed")


@dataclass(frozen=True)
class Result(Trial):
    """How a trial ended: verdict "right", "named" (an error or outcome that says what is wrong) or "wrong"."""

    theme: str = ""
    spatial: bool = False
    links: int = 0
    loops: int = 0
    formulation: str = ""
    engine: str = ""
    seconds: float = 0.0
    compared: str = ""  # by the second judge: how far the end state is off, or why it has no opinion


def trial(seed: int) -> Result:
    """Run the machine of a seed."""
    machine = random_machine(seed)
    begun = time.process_time()
    _compiler(machine.engine == DEFAULT)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        verdict, end, detail, end_state = _ending(machine)
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
        round(time.process_time() - begun, 3),
        end_state,
    )


def lost(seed: int, end: str, detail: str) -> Result:
    """A trial whose process gave no answer."""
    m = random_machine(seed)
    return Result(seed, "wrong", end, detail, m.theme, m.spatial, len(m.bodies), len(m.loops), m.formulation, m.engine)


def _compiler(wanted: bool) -> None:
    """Only the native engine is worth a call of the C compiler here."""
    if wanted:
        os.environ.pop("SALTUS_CC", None)
    else:
        os.environ["SALTUS_CC"] = "none"


def _ending(machine: Machine) -> tuple[str, str, str, str]:
    try:
        if machine.theme == "bad input":
            return *faults.trial(machine), ""
        built = build(machine)
        wrong = of_start(machine, built.start)
        if wrong:
            return "wrong", "assembled", "; ".join(wrong), ""
        first, second = _answer(machine, built), _answer(machine, built)
        unlike = differ(first, second)
        if unlike:
            return "wrong", "not the same twice", unlike, ""
        if isinstance(first, SaltusError):
            return *_named(machine, first), ""
        return _judged(machine, built, first)
    except SaltusError as error:
        return *_named(machine, error), ""
    except Exception as error:
        return "wrong", type(error).__name__, f"{error} | {where(error)}", ""


def _answer(machine: Machine, built: Built) -> Any:
    """What one call gives: a run, or the error it raises."""
    try:
        return run(machine, built)
    except SaltusError as error:
        return error


def differ(one: Any, other: Any) -> str:
    """What two answers to the same call do not share; empty if they are the same to the last bit."""
    if isinstance(one, SaltusError) or isinstance(other, SaltusError):
        texts = [f"{type(x).__name__}: {x}" if isinstance(x, SaltusError) else str(x.outcome) for x in (one, other)]
        return "" if texts[0] == texts[1] else f"first {texts[0]}; then {texts[1]}"
    if str(one.outcome) != str(other.outcome):
        return f"first {one.outcome}; then {other.outcome}"
    return ", ".join(
        f"{name} differs by up to {_spread(array, other.arrays[name])}"
        for name, array in one.arrays.items()
        if array.tobytes() != other.arrays[name].tobytes()
    )


def _spread(a: np.ndarray, b: np.ndarray) -> str:
    return f"{np.abs(a - b).max(initial=0.0):.2g}" if a.shape == b.shape else f"shapes {a.shape}, {b.shape}"


def _named(machine: Machine, error: SaltusError) -> tuple[str, str, str]:
    """An error is an ending like any other if it explains itself and is not a lie."""
    kind, text = type(error).__name__, str(error)
    closes = machine.theme != "may not close" and machine.guess_error == 0.0
    if isinstance(error, CannotClose) and closes:
        return "wrong", kind, f"the guess given closes all loops, yet: {text}"
    return ("named" if len(text) >= 20 else "wrong"), kind, text


def _judged(machine: Machine, built: Built, first: Any) -> tuple[str, str, str, str]:
    outcome = first.outcome
    if not all(np.isfinite(array).all() for array in first.arrays.values()):
        return "wrong", outcome.kind, f"numbers that are not finite among the samples; {outcome}", ""
    if not outcome.ok:
        said = "; ".join(outcome.faults) or outcome.detail
        clear = (outcome.faults or outcome.kind in OUTCOMES) and len(said) >= 20
        end = f"{outcome.kind}, not ok" if outcome.kind == "finished" else outcome.kind
        return ("named" if clear else "wrong"), end, said, ""
    wrong = of_run(machine, first)
    missed = {n: x for n, x in residuals(machine, first).items() if not x <= LOOSE * machine.tolerance + ROUND_OFF}
    finer = None
    if missed and not wrong:
        finer = _finer(machine, built)
        again = residuals(machine, finer) if finer is not None else missed
        wrong = [
            f"{name} is off by {x:.2g}, and by {again[name]:.2g} at a finer tolerance"
            for name, x in missed.items()
            if not (again[name] <= x / 3 or again[name] <= LOOSE * machine.tolerance)
        ]
    try:
        off, allowed = compared(machine, first, machine.tolerance)
        told = f"{off:.1e}"
        if not off <= allowed:
            finer = _finer(machine, built)
            less = compared(machine, finer, machine.tolerance)[0] if finer is not None else off
            if not less <= max(off / 3, allowed):
                wrong.append(
                    f"the end state is off by {off:.2g}, {less:.2g} at a finer tolerance; {allowed:.2g} may be"
                )
    except NoOpinion as reason:
        told = f"no opinion: {reason}"
    return ("wrong" if wrong else "right"), outcome.kind, "; ".join(wrong), told


def _finer(machine: Machine, built: Built) -> Any:
    """The same at a hundredth of the tolerance; None where that is as fine as it gets, or does not end well."""
    if machine.tolerance <= 1e-10:
        return None
    out = run(machine, built, machine.tolerance / 100)
    return out if out.outcome.ok else None


def where(error: BaseException) -> str:
    """The last lines of the program before an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames[-4:]))
