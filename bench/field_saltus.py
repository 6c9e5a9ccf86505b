"""The leg in Saltus: the whole of `simulate`, recording as many samples as the peers keep."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

import saltus as sl
from bench import best
from bench.field import LOOK, Motion, Setting, Swing
from saltus.dynamics.formulations import Formulation

WARM = 22  # runs before the clock starts: after 20,000 samples what records them is compiled too


def swing(
    own: Swing, formulation: Formulation, tolerance: float, q: np.ndarray, v: np.ndarray, until: float, samples: int
) -> Motion:
    """Least CPU time of several runs. Samples lie between steps, so the loop gap is the run's own at its steps."""
    call = partial(
        sl.simulate,
        own.machine,
        own.start,
        until=until,
        formulation=formulation,
        tolerance=tolerance,
        rate=samples / until,
    )
    warm, repeats = (WARM, 7) if until <= 10 else (1, 3)
    run = [call() for _ in range(warm)][-1]
    cpu = best(call, repeats, clock=time.process_time)
    samples_of = (run.arrays[name] for name in ("t", "q", "v"))
    look = run.at(LOOK).positions[:5]
    return Motion(cpu, *samples_of, run.meta["evaluations"], look, run.meta["loop_gap"])


def settings(own: Swing) -> Sequence[Setting]:
    """The formulations that hold the loops; the default is the paper's at the library's own tolerance."""

    def several() -> Iterator[Setting]:
        for formulation, tolerances in (
            (sl.formulations.SPF(), (1e-7, 1e-8, 1e-9, 1e-10)),
            (sl.formulations.Minimal(), (1e-6, 3e-7, 2e-7, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)),
            (sl.formulations.Projection(), (3e-7, 1e-8, 1e-10)),
        ):
            for tolerance in tolerances:
                default = formulation == sl.formulations.SPF() and tolerance == 1e-9
                yield Setting(f"{formulation!r}, {tolerance:g}", partial(swing, own, formulation, tolerance), default)

    return list(several())


def lasting(given: Iterable[Setting]) -> list[Setting]:
    """Those that are run for 100 s as well."""
    return [s for s in given if s.label.startswith("Minimal") and s.label.endswith(("1e-07", "1e-09", "1e-11"))]
