"""What legs driven by one crank share: running on a pinned foot, and the clock that cranks follow on real ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import saltus as sl

UNLIMITED = 1e9


def crank_leg(
    m: sl.Mechanism, *, omega: float, K_P: float, K_D: float, q_td: float, leave: sl.Guard | None = None
) -> sl.HybridSystem:
    """Flight and stance of a leg with crank q1, points "hip" and "foot", and its control in `controls["run"]`.

    In flight the crank swings at omega (rad/s) to the touchdown angle q_td (deg) and holds it, in stance it
    pushes on at omega: eq. 20 of Liu and Ben-Tzvi (2020), gains K_P and K_D; all four become Params. Torque limits
    the motor in flight, power in stance. Stance ends at zero ground force, or with the guard `leave`.
    """
    system = sl.HybridSystem(m)
    flight = system.domain("flight", params={"power_limit": UNLIMITED})
    stance = system.domain("stance", contacts=[sl.Pinned("foot")], params={"torque_limit": UNLIMITED})
    system.edge(flight, stance, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(stance, flight, guard=leave or sl.Liftoff("foot"), reset=sl.Continuous())
    system.ends("fell", sl.When(lambda s: s.position("hip").y - 0.15, "falling"))
    m.param("omega", omega, "rad/s")
    m.param("K_P", K_P, "Nm/rad")
    m.param("K_D", K_D, "Nm s/rad")
    m.param("q_td", math.radians(q_td), "rad")
    system.controls["run"] = sl.control.PerDomain(
        flight=sl.control.ConstantSpeed("q1", "omega", "K_P", "K_D", hold="q_td"),
        stance=sl.control.ConstantSpeed("q1", "omega", "K_P", "K_D"),
    )
    return system


def clock(
    m: sl.Mechanism,
    phases: Mapping[str, Any],
    *,
    omega: float,
    K_P: float,
    K_D: float,
    h: float,
    b: float,
    ramp: float = 0.0,
    shift: Callable[[Any, sl.Signals, str, Any], Any] | None = None,
) -> Callable[[Any, sl.Signals], dict[str, Any]]:
    """Give every crank the law that draws it to a + h sin(a + b) with a = a_0 + omega t + its phase (rad).

    With a `ramp` (s) the clock starts from rest, at the speed omega (1 - exp(-t / ramp)). Nothing but the crank is fed
    back, unless `shift(t, s, crank, a)` says by how much its goal is moved (rad). omega, a_0, h, b, ramp and the gains
    K_P, K_D become Params.
    """
    m.param("omega", omega, "rad/s")
    m.param("a_0", 1.75, "rad")
    m.param("K_P", K_P, "Nm/rad")
    m.param("K_D", K_D, "Nm s/rad")
    m.param("h", h, "rad")
    m.param("b", b, "rad")
    if ramp:
        m.param("ramp", ramp, "s")

    def follow(t: Any, s: sl.Signals) -> dict[str, Any]:
        p, out = s.p, {}
        left = sl.math.exp(-t / p.ramp) if ramp else 0
        turned, speed = (t - p.ramp * (1 - left) if ramp else t), p.omega * (1 - left)
        for crank, phase in phases.items():
            a = p.a_0 + p.omega * turned + phase
            goal, rate = a + p.h * sl.math.sin(a + p.b), speed * (1 + p.h * sl.math.cos(a + p.b))
            behind = goal - s.q[crank] + (shift(t, s, crank, a) if shift else 0)
            off = sl.math.atan2(sl.math.sin(behind), sl.math.cos(behind))  # an encoder knows no full turns
            out[crank] = p.K_P * off + p.K_D * (rate - s.v[crank])
        return out

    return follow
