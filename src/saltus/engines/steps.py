"""The steps of one run as an engine makes them: put on the manifold, looked through for events, collected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saltus.compile import Kernel
from saltus.engines.events import Watch, guards_with_rates
from saltus.engines.port import Array, Flow, Request, Segment, Stop


@dataclass(frozen=True)
class Surroundings:
    """What a flow has beside its right-hand side: guards with their rates, and the projection."""

    guards: Kernel
    project: Kernel | None

    @classmethod
    def of(cls, flow: Flow, native: bool | None) -> Surroundings:
        """Compiled, or on the virtual machine (`native` as for Kernel)."""
        project = None if flow.project is None else Kernel(flow.project, native)
        return cls(Kernel(guards_with_rates(flow), native), project)

    @property
    def notes(self) -> list[str]:
        """What its kernels note."""
        return [note for kernel in (self.guards, self.project) if kernel is not None for note in kernel.notes]


class Steps:
    """Where a run is, and the polynomials that led there."""

    def __init__(self, around: Surroundings, request: Request, degree: int) -> None:
        self._project, self.request = around.project, request
        self._powers = np.arange(degree + 1)
        self.t, self.x = float(request.t), np.array(request.x, float)
        self.breaks, self.pieces = [self.t], list[Array]()
        self.watch = Watch(around.guards, request)
        self.fired: tuple[int, ...] = ()

    def add(self, t: float, piece: Array) -> Stop | None:
        """Go on to time t along a polynomial of s, up to the first event; return why to stop, None to go on.

        With a projection the end is put on the manifold, and the polynomial with it: it is bent by a cubic that is
        level at both ends, so that pieces join with their slopes and an event is looked for where the motion is.
        """
        h, end = t - self.t, piece.sum(axis=0)
        onto = self.projected(t, end)
        if not np.isfinite(onto).all():
            return Stop.NOT_FINITE
        if self._project is not None:
            piece = piece.copy()
            start = self.x - piece[0]
            piece[0] += start
            piece[2] += 3 * (onto - end - start)
            piece[3] -= 2 * (onto - end - start)
        event = self.watch.first(self.t, h, piece)
        if event is None:
            self._append(t, piece, onto)
            return None
        s, self.fired = event
        piece = piece * s ** self._powers[:, None]
        t = self.t + s * h
        self._append(t, piece, self.projected(t, piece.sum(axis=0)))
        return Stop.EVENT

    def projected(self, t: float, x: Array) -> Array:
        """A state on its manifold."""
        return x if self._project is None else np.asarray(self._project(t, x, self.request.p))

    def _append(self, t: float, piece: Array, x: Array) -> None:
        if t > self.t:
            self.breaks.append(t)
            self.pieces.append(piece)
        self.t, self.x = t, x

    def segment(self, stop: Stop, evaluations: int, step: float = 0.0, rejected: int = 0) -> Segment:
        """What the port asks for."""
        shape = (-1, len(self._powers), len(self.x))
        return Segment(
            breaks=np.array(self.breaks),
            coefficients=np.array(self.pieces).reshape(shape) if self.pieces else np.zeros((0, *shape[1:])),
            x=self.x,
            stop=stop,
            fired=self.fired,
            armed=self.watch.armed,
            left=tuple(self.watch.left),
            step=step,
            evaluations=evaluations,
            rejected=rejected,
        )
