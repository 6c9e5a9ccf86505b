"""Study: the family of the hopper's orbits in D_G (Zana, Bodor, Bencsik and Zelei 2018, sec. 4.3, figs. 6 to 9)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.hopper_closed_form import ends as family_ends
from saltus.studies.hopper_closed_form import limit
from saltus.studies.hopper_closed_form import orbit as closed_form
from saltus.studies.hopper_orbit import example, with_flight
from saltus.studies.result import Comparison, StudyResult

FLIGHT = (0.02, 1.0)  # s


def family_of(mu: float) -> sl.orbits.Family:
    """All orbits of the constrained model with flight times of 0.02 to 1 s."""
    orbit = example() if mu == 0.8 else with_flight(mu, 0.3)
    fixed = sl.find_orbit(orbit.system, orbit.start)
    return sl.orbits.follow(fixed, "D_G", to=(1.2 * limit(mu), 0.0), bounds={"time in flight": FLIGHT}, largest=0.1)


def study(*, mu: float = 0.8) -> StudyResult:
    """Follow the family from hardly leaving the ground to a second in the air."""
    family = family_of(mu)
    flight = family.values("time in flight")
    if flight[0] > flight[-1]:
        family = sl.orbits.Family(
            family.param,
            family.orbits[::-1],
            family.bifurcations[::-1],
            family.ends[::-1],
            [-t for t in family.tangents[::-1]],
        )
        flight = flight[::-1]
    folds = [[b.orbit.time_in("flight"), b.value] for b in family.of_kind("fold")]
    ends = [float(flight[0]), *(f[0] for f in folds), float(flight[-1])]
    stable = [[a, b] for a, b in pairwise(ends) if family.stable[(flight > a) & (flight < b)].all()]
    data = {
        "mu": mu,
        "folds": folds,
        "number_of_folds": len(folds),
        "limit_D_G": limit(mu),
        "stable_intervals": stable,
        "flips": [b.value for b in family.of_kind("flip")],
        "orbits": len(family),
        "ends": list(family.ends),
        "t_F": flight,
        "D_G": family.values("D_G"),
        "period": family.values("period"),
        "multiplier": [float(np.real(o.multipliers[0])) for o in family.orbits],
        "apex_U": family.values("apex"),
        "apex_L": [o.highest("foot") for o in family.orbits],
        "pulling": [bool(o.violations) for o in family.orbits],
        "lost_share": _lost(family),
        "period_of_the_oscillator": 2 * math.pi * math.sqrt(mu * 75.0 / 15000.0),
        **family_ends(mu),
    }
    info = STUDIES["hopper-continuation"]
    notes = [
        "stable_intervals are flight times (s) between folds: the family is single-valued in the flight time.",
        "limit_D_G is where the family goes as the flight becomes endless, in closed form.",
    ]
    if folds:
        notes.append("The paper calls every indicator a strictly monotonic function of t_F; D_G is not: it folds.")
    rows = _rows(family, mu, folds) + _end_rows(data)
    return StudyResult(info, data, rows, _figures(family), notes)


def _rows(family: sl.orbits.Family, mu: float, folds: list[list[float]]) -> list[Comparison]:
    gaps = []
    for o in family.orbits[:: max(1, len(family) // 12)]:
        check = closed_form(mu, o.time_in("flight"))
        gaps.append((abs(check.D_G - o.params["D_G"]), abs(check.multiplier - float(np.real(o.multipliers[0])))))
    worst = np.array(gaps).max(axis=0)
    at_folds = [abs(float(np.real(b.orbit.multipliers[0])) - 1) for b in family.of_kind("fold")]
    rows = [
        Comparison(
            "D_G along the family, largest deviation from the closed form",
            0.0,
            float(worst[0]),
            "",
            1e-9,
            why="semi-analytic solution of sec. 4.1",
        ),
        Comparison(
            "multiplier along the family, largest deviation",
            0.0,
            float(worst[1]),
            "",
            1e-6,
            why="differences of the closed-form map",
        ),
        Comparison(
            "stable as D_G goes to 0", "yes (fig. 7)", "yes" if family.stable[0] else "no", holds=bool(family.stable[0])
        ),
        Comparison(
            "period doubling", "none (fig. 7)", str(len(family.of_kind("flip"))), holds=not family.of_kind("flip")
        ),
    ]
    if at_folds:
        rows.append(
            Comparison(
                "multiplier at the folds, largest distance from 1",
                0.0,
                max(at_folds),
                "",
                1e-8,
                why="a fold is where a multiplier is 1",
            )
        )
    if mu == 0.8:
        rows.append(
            Comparison(
                "unstable orbits",
                "exist at mu = 0.8 (sec. 4.3)",
                f"{len(folds)} folds between",
                holds=not family.stable.all(),
            )
        )
    if mu == 0.95:
        rows.append(
            Comparison(
                "stable everywhere",
                "at mu = 0.95 (sec. 4.3)",
                "yes" if family.stable.all() else "no",
                holds=bool(family.stable.all()),
            )
        )
    return rows


def _end_rows(data: dict[str, Any]) -> list[Comparison]:
    """What sec. 4.3 says of the ends of the family."""
    why = "extrapolated on the closed form"
    return [
        Comparison(
            "ground time as D_G goes to 0",
            data["period_of_the_oscillator"],
            data["ground_time_without_flight"],
            "s",
            1e-5,
            why=f"2 pi sqrt(m_U / k), sec. 4.3; {why}",
        ),
        Comparison("multiplier as D_G goes to 0", 1.0, data["multiplier_without_flight"], "", 1e-3, why=why),
        Comparison("multiplier of endless flight", 1.0, data["multiplier_of_endless_flight"], "", 1e-3, why=why),
        Comparison(
            "share of T kept after a long flight",
            data["mu"],
            data["kept_after_long_flight"],
            "",
            1e-6,
            why="it converges to mu, sec. 4.3; after 10 s in the air",
        ),
    ]


def _lost(family: sl.orbits.Family) -> np.ndarray:
    """T_c / T at touchdown along the family."""
    return np.array([next(c.impact for c in o.crossings if c.impact is not None).intensity for o in family.orbits])


def _figures(family: sl.orbits.Family) -> dict[str, Figure]:
    figures = {
        "fig6_times": _times(family),
        "fig7_multiplier": sl.view.plot_family(family, "D_G", "multiplier"),
        "fig8_apex": _apex(family),
        "flight_time": sl.view.plot_family(family, "time in flight", "D_G"),
        "fig9_impact": _impact(family),
    }
    figures["fig7_multiplier"].axes[0].axhline(1.0, color="#222222", linewidth=0.8, linestyle=":")
    return figures


def _times(family: sl.orbits.Family) -> Figure:
    """Flight, ground and whole period over D_G (fig. 6)."""
    names = {"time in flight": "blue", "time in ground": "green", "period": "orange"}
    figure = None
    for name, colour in names.items():
        ax = None if figure is None else figure.axes[0]
        figure = sl.view.plot_family(family, "D_G", name, ax=ax, colour=sl.view.PALETTE[colour], label=name)
    assert figure is not None
    figure.axes[0].set_ylabel("time (s)")
    return figure


def _apex(family: sl.orbits.Family) -> Figure:
    """Greatest heights of both masses over D_G (fig. 8)."""
    figure = sl.view.plot_family(family, "D_G", "apex", label="z_U")
    ax = figure.axes[0]
    lower = [o.highest("foot") for o in family.orbits]
    ax.plot(family.values("D_G"), lower, color=sl.view.PALETTE["green"], linewidth=1.4, label="z_L")
    ax.set_ylabel("greatest height (m)")
    ax.legend()
    return figure


def _impact(family: sl.orbits.Family) -> Figure:
    """Shares of the kinetic energy at touchdown that are lost and kept (fig. 9)."""
    D_G = family.values("D_G")
    lost = _lost(family)
    return sl.view.plot_impact_curves(
        {"share of T at touchdown (1)": [("T_c / T, lost", D_G, lost), ("T_a / T, kept", D_G, 1 - lost)]}, "D_G"
    )
