"""Log: what a run leaves behind for recording: stays in domains, events, notes, faults, counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from saltus.dynamics.formulations import Formulation
from saltus.engines.port import Look, Segment
from saltus.ground import Ground, Level
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.mode import Mode
from saltus.simulation.trajectory import Event, Outcome


class Stay:
    """Stay in one domain with one choice of coordinates: the engine's polynomials and the parameters they ran with.

    One that `goes_on` ended where coordinates had to change: the next counts its work on.
    """

    def __init__(self, mode: Mode, t: float, x: np.ndarray, look: Look | None = None) -> None:
        self.mode, self.t, self.x_end, self.look = mode, t, x, look
        self.breaks: list[np.ndarray] = []
        self.coefficients: list[np.ndarray] = []
        self.parameters: list[np.ndarray] = []
        self.goes_on = False

    def add(self, segment: Segment, p: np.ndarray) -> None:
        """Append what an engine returned."""
        if len(segment.breaks) > 1:
            self.breaks.append(segment.breaks)
            self.coefficients.append(segment.coefficients)
            self.parameters.append(p)
        self.x_end = segment.x


@dataclass(eq=False)
class Log:
    """Everything about a run but the state it is in."""

    system: HybridSystem
    formulation: Formulation
    tolerance: float
    params: np.ndarray
    ground: Ground = field(default_factory=Level)  # that the feet of a machine alone meet
    stays: list[Stay] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    engines: dict[str, None] = field(default_factory=dict)  # those in use, in order
    outcome: Outcome | None = None
    pulled: bool = False  # whether the start is off the constraints, onto which the formulation pulls it
    steps: int = 0
    evaluations: int = 0
    rejected: int = 0

    def note(self, text: str) -> None:
        """Keep a note once."""
        if text and text not in self.notes:
            self.notes.append(text)

    def fault(self, text: str) -> None:
        """Keep a fault once: something that no machine could do, or that the run got wrong."""
        if text not in self.faults:
            self.faults.append(text)
