"""Study: the hopper's periodic orbit and its stability (Zana, Bodor, Bencsik and Zelei 2018, sec. 4.2).

On the constrained model with four coordinates: the orbit, M of eq. 68, the monodromy matrix of eq. 69, their
multipliers (eqs. 70, 71), the energy lost at touchdown; beside it the closed form of sec. 4.1.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.hopper_closed_form import Closed
from saltus.studies.hopper_closed_form import orbit as closed_form
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

SHIFTED = {"orbit": (0.0, 0.0), "z_U + 0.03 m": (0.03, 0.0), "v_U + 0.3 m/s": (0.0, 0.3)}  # for figs. 3, 4
COLOURS = ("blue", "orange", "green")
TO_RATIO = 1 / (2 * math.sqrt(15000.0 * 75.0))  # D_G = d_G / (2 alpha m)
PAPER_D_G = -80.0
M_PRINTED = [[0.0175, 0.0024], [3.28, 0.453]]
PHI_PRINTED = [
    [-0.729, -0.134, -0.248, -0.0634],
    [0, 0, 0, 0],
    [11.41, 4.19, 3.18, 0.803],
    [-11.45, -2.27, -3.84, -0.980],
]


def example() -> sl.Orbit:
    """Orbit of the constrained model at the paper's Params."""
    hopper = sl.zoo.hopper(coordinates=4)
    return sl.find_orbit(hopper, hopper.keyframes["takeoff"])


def with_flight(mu: float, t_F: float) -> sl.Orbit:
    """Orbit with a given flight time: D_G is solved for, mu and t_F changed in steps from the example."""
    orbit = example()
    system, first = orbit.system, orbit.time_in("flight")
    steps = 1 + int(max(abs(t_F - first) / 0.02, abs(mu - 0.8) / 0.02))
    for s in np.linspace(1 / steps, 1, steps):
        params = {"mu": 0.8 + s * (mu - 0.8)}
        orbit = sl.find_orbit(
            system, orbit.start, params=params, free="D_G", where={"time in flight": first + s * (t_F - first)}
        )
    return orbit


def with_damping(mu: float, d_G: float) -> sl.Orbit:
    """Orbit with a given d_G (N s/m), the first that the family meets from the flight time of the example."""
    orbit = example() if mu == 0.8 else with_flight(mu, 0.3)
    goal = d_G * TO_RATIO
    if abs(orbit.params["D_G"] - goal) < 1e-14:
        return orbit
    fixed = sl.find_orbit(orbit.system, orbit.start)
    family = sl.orbits.follow(fixed, "D_G", to=goal)
    if abs(family.orbits[-1].params["D_G"] - goal) > 1e-12:
        raise sl.errors.NoOrbit(
            f"no periodic orbit at mu = {mu:g}, d_G = {d_G:g} N s/m: on the way there, {family.ends[1]}; "
            "give --t-F instead and let D_G be solved for",
            history=[],
            best=None,
        )
    return family.orbits[-1]


def study(*, mu: float = 0.8, d_g: float | None = None, t_F: float | None = None) -> StudyResult:
    """Compute the orbit at mu and d_G (N s/m), the paper's if not given, or at mu with the flight time t_F (s).

    t_F gives D_G, so that only one of the two can be given.
    """
    if d_g is not None and t_F is not None:
        raise sl.errors.BadValue(
            f"--d-g {d_g:g} and --t-F {t_F:g}: the flight time gives the damping; give one of them"
        )
    orbit = with_flight(mu, t_F) if t_F is not None else with_damping(mu, PAPER_D_G if d_g is None else d_g)
    flight, ground = orbit.time_in("flight"), orbit.time_in("ground")
    M = sl.orbits.shooting_matrix(orbit, ["z_1"])
    Phi = sl.orbits.monodromy(orbit, ["z_1", "z_3"])
    impact = next(c.impact for c in orbit.crossings if c.impact is not None)
    check = closed_form(mu, flight)
    data = {
        "alpha": math.sqrt(15000.0 / 75.0),
        "D_G": orbit.params["D_G"],
        "period": orbit.period,
        "t_F": flight,
        "t_G": ground,
        "multipliers": [
            [x.real, x.imag] if abs(x.imag) > 0 else float(x.real) for x in orbit.multipliers.astype(complex)
        ],
        "M": M,
        "M_multipliers": np.sort(np.linalg.eigvals(M).real)[::-1],
        "monodromy": Phi,
        "monodromy_multipliers": np.sort(np.linalg.eigvals(Phi).real)[::-1],
        "T_c": impact.T_c,
        "T_a": impact.T_a,
        "apex_U": orbit.highest("body"),
        "apex_L": orbit.highest("foot"),
        "start": {"z_U": float(orbit.start.q.z_1), "v_U": float(orbit.start.v.z_1)},
        "stable": orbit.is_stable,
        "residual": orbit.residual,
        "energy_change_J": float(np.ptp(orbit.trajectory.energy["total"][[0, -1]])),
        "pulls": orbit.violations,
        "closed_form": {
            "D_G": check.D_G,
            "t_G": check.t_G,
            "z_U": check.z_U,
            "v_U": check.v_U,
            "multiplier": check.multiplier,
        },
    }
    comparisons = [
        *_closed_rows(orbit, check),
        Comparison("energy over a period", 0.0, data["energy_change_J"], "J", 1e-6, why="back at its level, fig. 5"),
    ]
    if mu == 0.8 and d_g in (None, PAPER_D_G) and t_F is None:
        comparisons = _paper_rows(orbit, M, Phi) + comparisons
    info = STUDIES["hopper-orbit"]
    notes = [
        "M is the derivative at the moving lift-off; its printed entries are truncated, not rounded (eq. 68).",
        "State order of the monodromy matrix: z_U, z_L, v_U, v_L.",
    ]
    return StudyResult(info, data, comparisons, _figures(orbit), notes)


def _closed_rows(orbit: sl.Orbit, check: Closed) -> list[Comparison]:
    why = "closed form of sec. 4.1, no integration"
    rows = (
        ("D_G", check.D_G, orbit.params["D_G"], "", 1e-10),
        ("t_G", check.t_G, orbit.time_in("ground"), "s", 1e-9),
        ("z_U at lift-off", check.z_U, float(orbit.start.q.z_1), "m", 1e-9),
        ("v_U at lift-off", check.v_U, float(orbit.start.v.z_1), "m/s", 1e-9),
        ("multiplier", check.multiplier, float(np.real(orbit.multipliers[0])), "", 1e-7),
    )
    return [
        Comparison(f"{name}, against the closed form", a, b, unit, within, why=why) for name, a, b, unit, within in rows
    ]


def _paper_rows(orbit: sl.Orbit, M: np.ndarray, Phi: np.ndarray) -> list[Comparison]:
    worst_M = float(np.abs(M - M_PRINTED).max())
    worst_Phi = float(np.abs(Phi - PHI_PRINTED).max())
    return [
        Comparison("D_G", -0.0377, orbit.params["D_G"], "", 5e-5, why="printed digits, sec. 4.2"),
        Comparison(
            "multiplier mu_1", 0.4714, float(np.real(orbit.multipliers[0])), "", 5e-5, why="printed digits, eq. 70"
        ),
        Comparison("M, largest deviation from eq. 68", 0.0, worst_M, "", 1e-2, why="3.28 is printed for 3.2885"),
        Comparison("monodromy, largest deviation from eq. 69", 0.0, worst_Phi, "", 5e-3, why="printed digits"),
        Comparison(
            "multipliers of the monodromy",
            "1, 0.4714, 0, 0 (eq. 71)",
            ", ".join(f"{abs(x):.4f}" for x in sorted(np.linalg.eigvals(Phi), key=abs, reverse=True)),
            holds=bool(np.abs(np.sort(np.abs(np.linalg.eigvals(Phi)))[::-1] - [1, 0.47138763, 0, 0]).max() < 1e-5),
        ),
    ]


def _figures(orbit: sl.Orbit) -> dict[str, Figure]:
    runs = {label: _stride(orbit, *shift) for label, shift in SHIFTED.items()}
    return {
        "fig3_orbit": _space(orbit, runs),
        "fig4_phase_portraits": _portraits(orbit, runs),
        "fig5_energy": sl.view.plot_energy(_stride(orbit, 0.0, 0.0, strides=3)),
    }


def _stride(orbit: sl.Orbit, dz: float, dv: float, strides: int = 1) -> sl.Trajectory:
    """Strides from the orbit's lift-off with the upper mass dz (m) higher and dv (m/s) faster."""
    start, upper = orbit.start, np.array([1.0, 1.0, 0.0, 0.0])
    q, v = start.positions + dz * upper, start.velocities + dv * upper
    state = sl.State(orbit.system.mechanism, q, v, start.params)
    return sl.simulate(orbit.system, state, domain="flight", until=10.0, stop_after={"liftoff": strides})


def _lift_off(orbit: sl.Orbit, z_L: np.ndarray | float, v_U: np.ndarray) -> np.ndarray:
    """Height of the upper mass at which the ground force vanishes, eq. 62 with v_L = 0: the surface G2F."""
    p = orbit.params
    d_G = p["D_G"] / TO_RATIO
    return z_L + 1.0 + ((1 - p["mu"]) * 75.0 * 9.81 - d_G * v_U) / 15000.0


@styled
def _space(orbit: sl.Orbit, runs: dict[str, sl.Trajectory]) -> Figure:
    """The orbit and two perturbed strides in (z_U, z_L, v_U) with both switching surfaces (fig. 3)."""
    figure = new_figure(5.6, 4.8)
    ax = figure.add_subplot(projection="3d")
    z_U = np.concatenate([r["z_1"] for r in runs.values()])
    z_L, v_U = (np.concatenate(x) for x in ([r["z_4"] for r in runs.values()], [r.v["z_1"] for r in runs.values()]))
    speeds = np.array([1.1 * v_U.min(), 1.1 * v_U.max()])
    width, speed = np.meshgrid([z_U.min() - 0.02, z_U.max() + 0.02], speeds)
    ax.plot_surface(width, 0 * width, speed, color=PALETTE["sky"], alpha=0.25)
    height, speed = np.meshgrid([0.0, 1.1 * z_L.max()], speeds)
    ax.plot_surface(_lift_off(orbit, height, speed), height, speed, color=PALETTE["yellow"], alpha=0.25)
    for (label, run), colour in zip(runs.items(), COLOURS, strict=True):
        line = {"color": PALETTE[colour], "linewidth": 2.0 if label == "orbit" else 1.2}
        ax.plot(run["z_1"], run["z_4"], run.v["z_1"], label=label, **line)
        for e in run.events:
            i = int(np.searchsorted(run.t, e.t))
            ax.plot(run["z_1"][i], run["z_4"][i], run.v["z_1"][i], "o", color=PALETTE[colour], markersize=4)
    ax.text(width.min(), 0.0, speeds[1], "F2G: z_L = 0", va="bottom")
    ax.text(float(_lift_off(orbit, z_L.max(), speeds[1])), 1.1 * z_L.max(), speeds[1], "G2F: force 0", ha="right")
    ax.set(xlabel="z_U (m)", ylabel="z_L (m)", zlabel="v_U (m/s)")
    ax.legend(loc="upper left")
    ax.view_init(elev=22, azim=-62)
    return figure


@styled
def _portraits(orbit: sl.Orbit, runs: dict[str, sl.Trajectory]) -> Figure:
    """Both masses in the plane of height and speed with the switching surfaces (fig. 4), and two perturbed strides."""
    figure = new_figure(7.4, 3.6)
    left, right = figure.subplots(1, 2)
    for (label, run), colour in zip(runs.items(), COLOURS, strict=True):
        line = {"color": PALETTE[colour], "linewidth": 1.8 if label == "orbit" else 1.0, "label": label}
        left.plot(run["z_1"], run.v["z_1"], **line)
        right.plot(run["z_4"], run.v["z_4"], **line)
    speeds = np.array(left.get_ylim())
    left.plot(_lift_off(orbit, 0.0, speeds), speeds, color=PALETTE["black"], linewidth=0.9, linestyle="--")
    left.set_ylim(*speeds)
    left.annotate("G2F", (float(_lift_off(orbit, 0.0, speeds[:1])[0]), speeds[0]), (4, 4), textcoords="offset points")
    right.axvline(0.0, color=PALETTE["black"], linewidth=0.9, linestyle="--")
    right.annotate("F2G", (0.0, right.get_ylim()[1]), (4, -10), textcoords="offset points")
    for ax, name, title in ((left, "U", "upper mass"), (right, "L", "lower mass; it jumps to v_L = 0 at touchdown")):
        ax.set(xlabel=f"z_{name} (m)", ylabel=f"v_{name} (m/s)", title=title)
    left.legend(loc="center", bbox_to_anchor=(0.31, 0.45))
    return figure
