"""Sixteen steps of BOLT: compiled control and events, against NumPy with scipy.integrate.solve_ivp."""

from __future__ import annotations

import math
import time

import numpy as np
from scipy.integrate import solve_ivp

import saltus as sl
from bench import Disagreement, Row, best, peers
from saltus.zoo.bolt import bolt

TITLE = "Running: 16 steps of BOLT with flight, impact and stance"

STEPS = 16
SPEED, KP, KD, HOLD = -36.0, 76.0, 3.1, math.radians(-10.5)
HAND_TOLERANCE = 1e-8


class HandRun:
    """Appendix A and B with solve_ivp and its events, as a script ported from MATLAB: state (q, w)."""

    def __init__(self, q: np.ndarray, v: np.ndarray, tolerance: float) -> None:
        self.q, self.v, self.t, self.tolerance = q[peers.TO_PAPER], v[peers.TO_PAPER], 0.0, tolerance
        self.flight, self.stance = peers.HandPort(), peers.HandPort(stance=True)
        self.evaluations = 0

    def torque(self, t: float, q1: float, rate: float) -> float:
        """Eq. 20 with the motor's limits: 30 Nm in flight, 1350 W in stance."""
        ramp = self.entry_angle + SPEED * (t - self.entry_t)
        if self.port is self.flight:
            turn = 2 * math.pi
            ramp = max(ramp, HOLD + turn * math.floor((self.entry_angle - HOLD) / turn))
        command = KP * (ramp - q1) - KD * rate
        limit = 30.0 if self.port is self.flight else 1350.0 / max(abs(rate), 1e-9)
        return min(max(command, -limit), limit)

    def rhs(self, t: float, x: np.ndarray) -> np.ndarray:
        """Right-hand side of the present phase."""
        v, w_dot, _ = self.port.evaluate(x[:7], x[7:], self.torque(t, x[0], x[7]))
        return np.concatenate([v, w_dot])

    def touchdown(self, t: float, x: np.ndarray) -> float:
        """Height of the foot."""
        return x[2] + peers.HIP[1] + peers.L4 * math.sin(x[5]) + peers.L5 * math.sin(x[5] + x[6])

    def liftoff(self, t: float, x: np.ndarray) -> float:
        """Normal force."""
        self.rhs(t, x)
        return float(self.port.reactions()[5])

    def phase(self, port: peers.HandPort, event: str) -> None:
        """Integrate one phase to its event."""
        self.port, self.entry_t, self.entry_angle = port, self.t, self.q[0]
        x = np.append(self.q, self.v[port.independent])

        def watch(t: float, x: np.ndarray) -> float:
            return getattr(self, event)(t, x)

        watch.terminal, watch.direction = True, -1
        span, tolerance = (self.t, self.t + 1.0), self.tolerance
        run = solve_ivp(self.rhs, span, x, "DOP853", events=watch, rtol=tolerance, atol=tolerance)
        if not len(run.t_events[0]):
            raise Disagreement(f"the hand port found no {event}")
        self.evaluations += run.nfev
        self.t, x = float(run.t_events[0][0]), run.y_events[0][0]
        self.q, self.v = x[:7], self.rhs(self.t, x)[:7]

    def impact(self) -> None:
        """Plastic impact of the foot: [M -A'; A 0] [v+; impulse] = [M v-; 0]."""
        self.stance.anchor = np.zeros(2)
        sines = self.stance.sines(self.q)
        phi, A = self.stance.loops(self.q, sines)
        self.stance.anchor = phi[4:].copy()
        H, *_ = self.stance.dynamics(self.q, self.v, sines)
        matrix = np.block([[H, -A.T], [A, np.zeros((6, 6))]])
        self.v = np.linalg.solve(matrix, np.concatenate([H @ self.v, np.zeros(6)]))[:7]

    def go(self, steps: int) -> tuple[float, np.ndarray]:
        """Run so many touchdowns; return time and state just before the last impact."""
        for k in range(steps):
            self.phase(self.flight, "touchdown")
            if k + 1 < steps:
                self.impact()
                self.phase(self.stance, "liftoff")
        return self.t, self.q[peers.FROM_PAPER]


def run() -> list[Row]:
    """Measure."""
    system = bolt()
    start = system.mechanism.keyframe("drop")
    traced = system.controls["run"]

    def ours(tolerance: float, control: object = traced, rate: float = 1000.0) -> sl.Trajectory:
        return sl.simulate(
            system,
            start,
            until=20.0,
            domain="flight",
            control=control,
            tolerance=tolerance,
            rate=rate,
            stop_after={"touchdown": STEPS},
        )

    def end(run: sl.Trajectory) -> np.ndarray:
        return np.append(run.events[-1].q_before, run.events[-1].t)

    exact = end(ours(1e-13))
    first_start = time.perf_counter()
    first = ours(1e-9)
    first_wall = time.perf_counter() - first_start
    for _ in range(8):
        ours(1e-9)  # after 20,000 samples what records them is compiled too
    wall = best(lambda: ours(1e-9), 15)
    error = np.abs(end(first) - exact).max()
    rows = [
        Row(
            "16 steps at 1e-9",
            f"{first.duration:.4g} s simulated, end state off by {error:.1e}, "
            f"gap {first.loop_gap:.1e} m, energy {first.energy_account['relative residual']:.1e}",
        ),
        Row("wall time, all of simulate", f"{wall * 1e3:.3g} ms (second run in a process: {first_wall * 1e3:.3g} ms)"),
        Row.at_least("real-time factor at 1e-9", first.duration / wall, 20),
    ]

    hand = HandRun(start.positions, start.velocities, HAND_TOLERANCE)
    begin = time.process_time()
    t, q = hand.go(STEPS)
    hand_cpu = time.process_time() - begin
    hand_error = np.abs(np.append(q, t) - exact).max()
    if not hand_error < 1e-5:
        raise Disagreement(f"the hand port ends {hand_error:.3g} away from Saltus")
    rows.append(
        Row(
            f"NumPy and solve_ivp, DOP853 at {HAND_TOLERANCE:g}",
            f"{hand_cpu:.3g} s, {hand.evaluations} evaluations, end state off by {hand_error:.1e}",
        )
    )
    for mine in (1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 1e-9):  # the loosest tolerance that is at least as accurate
        result = ours(mine)
        if np.abs(end(result) - exact).max() <= hand_error:
            break
    cpu = best(lambda: ours(mine), 7, clock=time.process_time)
    rows += [
        Row(
            f"Saltus at the same accuracy, {mine:g}",
            f"{cpu:.3g} s, {result.meta['evaluations']} evaluations, "
            f"end state off by {np.abs(end(result) - exact).max():.1e}",
        ),
        Row.at_least("NumPy and solve_ivp / Saltus", hand_cpu / cpu, 100),
    ]

    sampled = sl.control.Sampled(plain, rate=1000.0)
    held = ours(1e-6, sampled)
    wall = best(lambda: ours(1e-6, sampled), 3)
    rows.append(Row.at_least("real-time factor with a Python callback at 1 kHz", held.duration / wall, 1))
    return rows


def plain(t: float, s: sl.Signals) -> dict[str, float]:
    """The same control as a plain Python function of numbers."""
    entry = s.entry.q.q1
    ramp = entry + SPEED * (t - s.entry.t)
    if s.domain == "flight":
        ramp = max(ramp, HOLD + 2 * math.pi * math.floor((entry - HOLD) / (2 * math.pi)))
    return {"q1": KP * (ramp - s.q.q1) - KD * s.v.q1}
