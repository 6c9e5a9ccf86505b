"""Study: a tumbling kangaroo rat rights itself with its tail (kangaroo rat paper, sec. 4.2, figs. 9 to 11)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies import rat_plans as rp
from saltus.studies.rat_views import curves, lean
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate_side, plot_strip
from saltus.view.style import logarithmic, new_figure, styled

WORKSPACE = 180.0  # degrees of all joints together
RATES = (25.0, 50.0, 100.0, 200.0, 400.0)  # Hz, fig. 11
PATIENCE = 200  # iterations of a plan of fig. 11
TIMES = (0.0, 0.2, 0.4, rp.DURATION)  # s after t_1; the paper draws 0.5, 0.7, 0.9 and 1.1 s


def study(
    segments: float = 1, links: float = 3, rate: float = 100.0, scheme: str = "hermite-simpson", rates: float = 1
) -> StudyResult:
    """Plan at `rate` nodes per second, refine, fly; then by the paper's transcription; `rates` 0 leaves out fig. 11."""
    for name, count in (("segments", segments), ("links", links)):
        if count != int(count) or count < 1:
            raise sl.errors.BadValue(f"--{name} {count:g}: give a whole number, one or more", given=count)
    m, n = int(segments), int(links)
    best = sl.plan.solve(
        rp.righting(m, n, WORKSPACE, rp.intervals_at(rate, scheme)),
        method=sl.plan.Method(scheme=rp.SCHEMES[scheme]),
        tolerance=rp.TOLERANCE,
    )
    case = rp.numbers(best)
    naive = rp.plain(m, n, WORKSPACE, rate)
    printed = rp.numbers(naive)
    sweep = {name: [_at(best, m, n, name, hz) for hz in RATES] for name in rp.SCHEMES} if rates else {}
    data = {
        "segments": m,
        "links": n,
        "rate_hz": rate,
        "scheme": scheme,
        "start": "keyframe tumbling",
        **case,
        "plain_trapezoidal": printed,
        "rates_hz": list(RATES) if rates else [],
        "schemes": sweep,
    }
    start = best.mechanism.keyframe("tumbling")
    system = best.plan.system
    passive = sl.simulate(system, start, domain="flight", until=rp.DURATION, control=system.controls["damp"])
    comparisons = _compared(case, printed, passive, sweep, published=(m, n) == (1, 3))
    rows = {"passive tail": passive, "planned": best}
    if best.flown is not None:
        rows["flown"] = best.flown
    figures = {
        "fig9_snapshots": plot_strip({k: (run, curves(run.mechanism)) for k, run in rows.items()}, TIMES, ground=None),
        "fig10_details": _details(best, passive),
    }
    if sweep:
        figures["fig11_rates"] = _plot_rates(sweep)
    info = STUDIES["rat-righting"]
    return StudyResult(
        info,
        data,
        comparisons,
        figures,
        [
            "Time counts from t_1 = 0.5 s. The state there is not printed; ours comes from a jump of our own.",
            "A plan at `rate` Hz has so many nodes per second; Hermite-Simpson has every other one in the middle of an "
            "interval. Plans are refined to a relative error of 5e-5; those of fig. 11 are not, and start from the "
            "refined one, so that all are of one family: their iterations are fewer than from nothing.",
            "Energy is the integral of the sum of the motors' |torque times rate|, peak power the largest of that sum.",
        ],
        {"righting": functools.partial(animate_side, rows.get("flown", best), curves(best.mechanism), ground=None)},
    )


def _at(best: sl.plan.Planned, segments: int, links: int, scheme: str, hz: float) -> dict[str, Any]:
    """A plan of fig. 11: one mesh, flown; trapezoidal ones as in the paper, without exact momentum."""
    plan = rp.righting(segments, links, WORKSPACE, rp.intervals_at(hz, scheme))
    run, ok = rp.solved(
        plan,
        guess=best,
        tolerance=None,
        method=sl.plan.Method(scheme=rp.SCHEMES[scheme], momentum=scheme != "trapezoidal"),
        limits=sl.plan.Limits(iterations=PATIENCE),
    )
    if not ok:
        return {"rate_hz": hz, "solved": False}
    wanted = ("objective", "dynamics_error", "final_tilt_deg_flown", "follows", "peak_torque_Nm", "momentum_drift")
    case = rp.numbers(run)
    return {"rate_hz": hz, "solved": True, **{k: case[k] for k in (*wanted, "iterations", "solve_seconds")}}


def _compared(
    case: dict[str, Any], printed: dict[str, Any], passive: sl.Trajectory, sweep: dict[str, Any], published: bool
) -> list[Comparison]:
    still = float(rp.tilt(passive)[-1])
    out = [
        *rp.upright("righting", case),
        Comparison(
            "without control of the tail",
            "not upright (fig. 9a)",
            f"{still:.0f} deg off",
            holds=still > 10,
            why="the same start with a tail that only damps",
        ),
        Comparison(
            "the paper's own transcription, flown",
            "planned and simulated orientation differ (fig. 10b, c)",
            f"{printed['final_tilt_deg_flown']:.1f} deg off, momentum drifts by "
            f"{100 * printed['momentum_drift']:.0f} %",
            holds=not printed["follows"],
            why="trapezoidal at 100 Hz: it cannot be followed and is not counted as a plan",
        ),
    ]
    if published:
        out.append(
            Comparison(
                "tracking error of a joint, standard deviation",
                "0.0065 rad",
                f"{case['tracking_error_deviation_rad']:.2g} rad",
                holds=case["tracking_error_deviation_rad"] <= 0.0065,
                why="feedback includes the acceleration of the reference, which the paper leaves out",
            )
        )
    errors = [c["dynamics_error"] for c in sweep.get("trapezoidal", []) if c["solved"]]
    if len(errors) > 1:
        out.append(
            Comparison(
                "a higher collocation rate reduces the dynamics error",
                "yes (fig. 11)",
                ", ".join(f"{e:.2g}" for e in errors),
                holds=errors[-1] < errors[0] / 2,
                why="trapezoidal, 25 to 400 Hz: the last less than half of the first",
            )
        )
    return out


@styled
def _details(best: sl.plan.Planned, passive: sl.Trajectory) -> Any:
    """Panels of fig. 10: place, turn, tilt, tail angles, tracking error, torques."""
    figure = new_figure(10.0, 5.6)
    (place, turn, tilted), (tail, off, torque) = figure.subplots(2, 3, sharex=True)
    names = rp.labels(best)
    flown = best.flown or best
    for letter, dashes in zip("xyz", ("-", "--", "-."), strict=True):
        place.plot(flown.t, flown[f"base.{letter}"], dashes, label=letter)
    for run, label, dashes in ((passive, "passive", ":"), (best, "planned", "-"), (flown, "flown", "--")):
        turn.plot(run.t, lean(run), dashes, label=label)
        tilted.plot(run.t, rp.tilt(run), dashes, label=label)
    rp.lines(tail, flown.t, np.degrees(rp.angles(flown)), names)
    if best.flown is not None:
        rp.lines(off, flown.t, 1e6 * rp.tracking(best), names)
    rp.lines(torque, flown.t, 1e3 * flown.arrays["torques"], names, linewidth=1.0)
    for i in range(len(names)):
        torque.plot(best.t, 1e3 * best.arrays["torques"][:, i], ".", color="#555555", markersize=2.0)
    for sign in (-1, 1):
        torque.axhline(sign * 1e3 * rp.TORQUE, color="#777777", linewidth=0.8, linestyle=":")
    place.set(title="a  body", ylabel="position (m)")
    turn.set(title="b  turn in the y-z plane", ylabel="angle (deg)")
    tilted.set(title="c  tilt from upright", ylabel="angle (deg)")
    tail.set(title="d  tail, flown", ylabel="angle of a joint (deg)")
    off.set(title="e  flown minus planned", ylabel="angle of a joint (µrad)")
    torque.set(title="f  torque, flown; dots: planned", ylabel="torque (mNm)")
    for ax in (place, turn, tilted, tail, off, torque):
        ax.legend(fontsize=7)
    for ax in (tail, off, torque):
        ax.set_xlabel("time (s)")
    return figure


@styled
def _plot_rates(sweep: dict[str, list[dict[str, Any]]]) -> Any:
    """Fig. 11: what the collocation rate does."""
    figure = new_figure(7.5, 5.0)
    axes = figure.subplots(2, 2, sharex=True).ravel()
    panels = {
        "dynamics_error": "dynamics error, eq. 50",
        "objective": "objective (N²m²s)",
        "iterations": "iterations",
        "solve_seconds": "time to solve (s)",
    }
    for (field, label), ax in zip(panels.items(), axes, strict=True):
        for (scheme, cases), mark in zip(sweep.items(), ("o-", "s--"), strict=True):
            done = [c for c in cases if c["solved"]]
            ax.plot([c["rate_hz"] for c in done], [c[field] for c in done], mark, markersize=4, label=scheme)
        ax.set(ylabel=label, xscale="log", xticks=RATES, xticklabels=[f"{hz:g}" for hz in RATES])
        ax.minorticks_off()
        if field in ("dynamics_error", "solve_seconds"):
            logarithmic(ax)
    axes[0].legend()
    for ax in axes[2:]:
        ax.set_xlabel("nodes per second (Hz)")
    return figure
