"""What BOLT and the Raptor-like leg share: a leg driven by one crank that runs on a pinned foot."""

from __future__ import annotations

import math

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
