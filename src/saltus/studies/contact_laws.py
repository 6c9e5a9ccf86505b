"""Study: contact with known answers, with the defaults: stick, slip, lift, bounce, roll, stops, states without any."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view.style import logarithmic, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

G = 9.81  # m/s2
NEAR = 1e-8  # SI units: how near every number has to be
STIFFNESSES = (1e4, 1e5, 1e6, 1e7, 1e8)  # N/m
TOLERANCES = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)


@dataclass(frozen=True)
class Row:
    """A problem: its known answer, ours, how far they are apart, and whether the run was ok and near enough."""

    problem: str
    published: float
    computed: float
    error: float
    ok: bool


def row(problem: str, published: float, computed: float, run: sl.Trajectory | None = None) -> Row:
    """Compare one number; a run behind it must be ok."""
    error = abs(computed - published)
    fine = run is None or run.outcome.ok
    return Row(problem, float(published), float(computed), float(error), bool(fine and error <= NEAR))


# ---- machines -------------------------------------------------------------------------------------------------------


def block(friction: Any, *, push: Any = None, **law: Any) -> sl.Mechanism:
    """1 kg that cannot turn, on one foot."""
    m = sl.Mechanism("block")
    body = m.link("block", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.at(0, 0), friction=friction, **law)
    if push is not None:
        m.force("push", body.at(0, 0), (push(m) if callable(push) else push, 0.0))
    return m


def free(name: str, mass: float, inertia: float) -> tuple[sl.Mechanism, Any]:
    """A body free in the plane."""
    m = sl.Mechanism(name)
    body = m.link("body", mass=mass, inertia=inertia)
    m.planar("at", m.ground, body)
    return m, body


def times(run: sl.Trajectory, name: str) -> list[float]:
    """Times of all events of a name."""
    return [e.t for e in run.events if e.name == name]


# ---- blocks ---------------------------------------------------------------------------------------------------------


def pushed() -> Iterator[Row]:
    """Friction 0.5 bears 4.905 N."""
    m = block(0.5, push=10.0)
    run = sl.simulate(m, m.assemble(at=(0, 0)), until=1.0)
    yield row("block at rest, friction 0.5, pushed with 10 N: way in 1 s (m)", (10 - 0.5 * G) / 2, run.q.at.x[-1], run)
    m = block(0.5, push=4.9)
    run = sl.simulate(m, m.assemble(at=(0.3, 0)), until=1.0)
    yield row("the same pushed with 4.9 N: way in 1 s (m)", 0.0, np.abs(run.q.at.x - 0.3).max(), run)


def on_slope() -> Iterator[Row]:
    """tan 20 deg = 0.364 < 0.5: nothing moves; with friction tan(slope) a slip across turns downhill."""
    m = block(0.5)
    run = sl.simulate(m, m.assemble(at=(0, 0)), until=100.0, ground=sl.ground.Slope(20, "deg"))
    yield row("block on a slope of 20 degrees, friction 0.5: way in 100 s (m)", 0.0, np.abs(run.q.at.x).max(), run)
    m = sl.Mechanism("block", spatial=True)
    body = m.link("block", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.slide("at", m.ground, body, axes="xyz")
    m.foot("foot", body.at(0, 0, 0), friction=0.5)
    slope = sl.ground.Slope(math.atan(0.5))
    run = sl.simulate(m, m.assemble(at=(0, 0, 0), rates={"at": (0, 1.0, 0)}), until=20.0, ground=slope)
    end = float(np.linalg.norm(run.end.velocities))
    yield row("pushed across a slope with tan(slope) = friction at 1 m/s, 3D: speed in the end (m/s)", 0.5, end, run)
    v = np.array([run.v.at.x, run.v.at.y, run.v.at.z]).T
    down = np.array([-math.cos(slope.angle), 0, -math.sin(slope.angle)])
    kept = np.linalg.norm(v, axis=1) + v @ down
    yield row("the same: speed plus speed downhill, which stays (m/s)", 1.0, kept[np.abs(kept - 1).argmax()], run)


def stopping() -> Iterator[Row]:
    """v0 / (f g) and v0^2 / (2 f g)."""
    m = block(0.3)
    run = sl.simulate(m, m.assemble(at=(0, 0), rates={"at": (2.0, 0)}), until=2.0)
    yield row(
        "block at 2 m/s, friction 0.3: time until it sticks (s)", 2 / (0.3 * G), times(run, "foot sticks")[0], run
    )
    yield row("the same: where it stops (m)", 4 / (2 * 0.3 * G), run.q.at.x[-1], run)


def breaking_away() -> Iterator[Row]:
    """A push of 10 t: it holds up to 0.6 g, then 0.4 g act against it."""
    m = block(0.4, static=0.6, push=lambda m: 10 * m.time)
    run = sl.simulate(m, m.assemble(at=(0, 0)), until=1.0)
    t0 = 0.6 * G / 10
    way = 10 / 6 * (1 - t0**3) - 5 * t0**2 * (1 - t0) - 0.4 * G * (1 - t0) ** 2 / 2
    yield row("pushed with 10 t, static friction 0.6: when it breaks away (s)", t0, times(run, "foot slips")[0], run)
    yield row("the same, friction of slip 0.4: way in 1 s (m)", way, run.q.at.x[-1], run)


def turning_back() -> Iterator[Row]:
    """Up a slope of 30 degrees at 3 m/s with friction 0.2, then down again."""
    angle, mu = math.radians(30), 0.2
    m = block(mu)
    rate = {"at": (3 * math.cos(angle), 3 * math.sin(angle))}
    run = sl.simulate(m, m.assemble(at=(0, 0), rates=rate), until=1.0, ground=sl.ground.Slope(angle))
    up, down = (G * (math.sin(angle) + s * mu * math.cos(angle)) for s in (1, -1))
    turn = 3 / up
    along = 9 / (2 * up) - down * (1 - turn) ** 2 / 2
    yield row("thrown up a slope of 30 degrees: when it turns back (s)", turn, times(run, "foot turns back")[0], run)
    yield row("the same: where it is after 1 s (m)", along * math.cos(angle), run.q.at.x[-1], run)


# ---- wheels and balls -----------------------------------------------------------------------------------------------


def rolling() -> Iterator[Row]:
    """From slip to roll: a disc keeps 2/3 of its speed, a ball 5/7."""
    m, disc = free("disc", 1.0, 0.5 * 0.1**2)
    m.foot("rim", disc.at(0, 0), radius=0.1, friction=0.2)
    run = sl.simulate(m, m.assemble(at=(0, 0.1, 0), rates={"at": (3.0, 0, 0)}), until=1.0)
    yield row(
        "disc put down at 3 m/s, friction 0.2: when it rolls (s)", 3 / (0.6 * G), times(run, "rim sticks")[0], run
    )
    yield row("the same: speed (m/s)", 2.0, run.v.at.x[-1], run)
    m = sl.Mechanism("ball", spatial=True)
    ball = m.link("ball", mass=1.0, inertia=(0.4 * 0.1**2,) * 3)
    m.free("at", m.ground, ball)
    m.foot("ball", ball.at(0, 0, 0), radius=0.1, friction=0.2)
    start = m.assemble(near={"at.z": 0.1})
    q, v = start.positions.copy(), start.velocities.copy()
    q[m.q_names.index("at.z")] = 0.1
    v[m.v_names.index("at.x")] = 3.0
    run = sl.simulate(m, sl.State(m, q, v, start.params), until=1.0)
    when = times(run, "ball sticks")[0]
    yield row("ball put down at 3 m/s, friction 0.2, 3D: when it rolls (s)", 2 * 3 / (7 * 0.2 * G), when, run)
    yield row("the same: speed (m/s)", 15 / 7, run.v["at.x"][-1], run)


def bouncing() -> Iterator[Row]:
    """Zeno's end of the bounces; an oblique bounce that slips all along takes f (1 + e) v_n off the speed."""
    m = block(0.0, restitution=0.8)
    run = sl.simulate(m, m.assemble(at=(0, 1.0)), until=6.0)
    yield row(
        "ball from 1 m, restitution 0.8: when it rests (s)", 9 * math.sqrt(2 / G), times(run, "foot rests")[0], run
    )
    yield row("the same: height 2 s later (m)", 0.0, run.q.at.y[-1], run)
    m = block(0.1, restitution=0.5)
    run = sl.simulate(m, m.assemble(at=(0, 1.0), rates={"at": (4.0, 0)}), until=0.6)
    fast = math.sqrt(2 * G)
    yield row("bounce at 4 m/s along, friction 0.1, e = 0.5: speed along (m/s)", 4 - 0.15 * fast, run.v.at.x[-1], run)


# ---- bodies ---------------------------------------------------------------------------------------------------------


def rocking() -> Iterator[Row]:
    """Housner: each impact leaves 1 - 1.5 sin^2(alpha) of the angular rate; from 0.6 alpha on."""
    b, h = 0.1, 0.4
    alpha = math.atan(b / h)
    m, body = free("rocking block", 2.0, 2.0 * ((2 * b) ** 2 + (2 * h) ** 2) / 12)
    m.foot("left", body.at(-b, -h), friction=5.0)
    m.foot("right", body.at(b, -h), friction=5.0)
    tilt = -0.6 * alpha
    x, y = -(b * math.cos(tilt) + h * math.sin(tilt)), -(b * math.sin(tilt) - h * math.cos(tilt))
    run = sl.simulate(m, m.assemble(at=(x, y, tilt)), until=7.0)
    hits = [e for e in run.events if e.impact is not None][:5]
    kept = [e.v[2] / e.v_before[2] for e in hits]
    wanted = 1 - 1.5 * math.sin(alpha) ** 2
    worst = max(kept, key=lambda k: abs(k - wanted))
    yield row("rocking block, tan(alpha) = 1/4: rate kept by an impact (1)", wanted, worst, run)
    yield row("the same: rate in the end, on both corners (rad/s)", 0.0, run.v.at.angle[-1], run)
    weights = [float(run.force(n)[-1][1]) for n in ("left", "right")]
    yield row("standing on both corners: least-norm force of each (N)", G, max(weights, key=lambda f: abs(f - G)), run)


def ladder() -> Iterator[Row]:
    """sin(theta) = 2/3 sin(theta0)."""
    m = sl.Mechanism("ladder")
    rod = m.rod("rod", mass=1.0, length=1.0)
    m.planar("at", m.ground, rod)
    m.touch("foot", rod.end, m.ground.plane(0, 0, normal=(0, 1)))
    m.touch("top", rod.start, m.ground.plane(0, 0, normal=(1, 0)))
    theta = math.radians(70)
    run = sl.simulate(m, m.assemble(at=(0, math.sin(theta), -theta)), until=0.45)
    left = next(e for e in run.events if e.name == "top lifts")
    wanted = 2 / 3 * math.sin(theta)
    yield row(
        "rod between smooth wall and floor: sin(angle) where it leaves the wall (1)", wanted, math.sin(-left.q[2]), run
    )


def dome() -> Iterator[Row]:
    """A point that slides down a smooth ball leaves it at two thirds of its height, from rest at the top."""
    m = sl.Mechanism("dome")
    body = m.link("bead", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.touch("bead", body.at(0, 0), m.ground.round(0, 0, radius=1.0))
    start = 0.1
    run = sl.simulate(m, m.assemble(at=(math.sin(start), math.cos(start))), until=1.5)
    left = next(e for e in run.events if e.name == "bead lifts")
    yield row("bead on a smooth dome: height where it leaves (m)", 2 / 3 * math.cos(start), left.q[1], run)


def knee() -> Iterator[Row]:
    """A knee stop is plastic: what is left turns as one, with the angular momentum about the hip."""
    m = sl.Mechanism("leg")
    thigh, shank = m.rod("thigh", mass=2.0, length=0.4), m.rod("shank", mass=1.0, length=0.5)
    m.revolute("hip", m.ground, thigh.start)
    m.revolute("knee", thigh.end, shank.start)
    m.stop("knee", upper=0.0)
    start = m.assemble(hip=-math.pi / 2, knee=-1.0, rates={"hip": 1.0, "knee": 2.0})
    run = sl.simulate(m, start, until=0.6)
    hit = next(e for e in run.events if e.name == "knee upper touches")
    hip, bent = hit.v_before
    momentum = (2 * 0.4**2 / 3 + 0.4**2) * hip + 0.4 * 0.25 * (2 * hip + bent) + 0.5**2 / 3 * (hip + bent)
    whole = 2 * 0.4**2 / 3 + 0.4**2 + 2 * 0.4 * 0.25 + 0.5**2 / 3
    yield row("knee that meets its stop: rate of the straight leg (rad/s)", momentum / whole, hit.v[0], run)


def rubbing() -> Iterator[Row]:
    """A wheel of 0.02 kg m2 at 10 rad/s with dry friction of 0.5 Nm."""
    m = sl.Mechanism("wheel")
    wheel = m.link("wheel", mass=1.0, inertia=0.02)
    m.revolute("axle", m.ground, wheel.origin)
    m.rub("axle", 0.5)
    run = sl.simulate(m, m.assemble(axle=0.0, rates={"axle": 10.0}), until=1.0)
    yield row("wheel with dry friction: when it stands (s)", 0.4, times(run, "axle friction sticks")[0], run)
    yield row("the same: turned by (rad)", 2.0, run.q.axle[-1], run)


def painleve() -> Iterator[Row]:
    """The least friction with which a uniform rod that slides with its tip has no solution, at tan(angle) = 2."""
    angle = -math.atan(2.0)

    def impossible(friction: float) -> bool:
        m = sl.Mechanism("rod")
        rod = m.rod("rod", mass=1.0, length=1.0)
        m.planar("at", m.ground, rod)
        m.foot("tip", rod.end, friction=m.param("friction", friction))
        start = m.assemble(at=(-math.cos(angle), -math.sin(angle), angle), rates={"at": (2.0, 0, 0)})
        return sl.simulate(m, start, until=1e-6).outcome.kind == "painleve"

    low, high = 1.0, 2.0
    if impossible(low) or not impossible(high):
        yield row("rod whose tip slides: friction from which on it may have no solution (1)", 4 / 3, math.nan)
        return
    while high - low > NEAR / 10:
        middle = (low + high) / 2
        low, high = (low, middle) if impossible(middle) else (middle, high)
    yield row("rod whose tip slides: friction from which on it may have no solution (1)", 4 / 3, (low + high) / 2)


PROBLEMS: tuple[Callable[[], Iterator[Row]], ...] = (
    pushed,
    on_slope,
    stopping,
    breaking_away,
    turning_back,
    rolling,
    bouncing,
    rocking,
    ladder,
    dome,
    knee,
    rubbing,
    painleve,
)


# ---- times of events as the tolerance falls -------------------------------------------------------------------------


def convergence() -> list[tuple[float, float]]:
    """Error of the time at which the ladder leaves its wall, by tolerance; against quadrature of its energy."""
    theta0 = math.radians(70)
    # theta'^2 = 3 g (sin theta0 - sin theta), so t = integral of d theta / theta'; theta = theta0 - s^2 is smooth at 0.
    low = math.asin(2 / 3 * math.sin(theta0))
    s, weight = np.polynomial.legendre.leggauss(200)
    end = math.sqrt(theta0 - low)
    s, weight = (s + 1) * end / 2, weight * end / 2
    exact = float(weight @ (2 * s / np.sqrt(3 * G * (math.sin(theta0) - np.sin(theta0 - s**2)))))
    out = []
    for tolerance in TOLERANCES:
        m = sl.Mechanism("ladder")
        rod = m.rod("rod", mass=1.0, length=1.0)
        m.planar("at", m.ground, rod)
        m.touch("foot", rod.end, m.ground.plane(0, 0, normal=(0, 1)))
        m.touch("top", rod.start, m.ground.plane(0, 0, normal=(1, 0)))
        run = sl.simulate(m, m.assemble(at=(0, math.sin(theta0), -theta0)), until=0.6, tolerance=tolerance)
        out.append((tolerance, abs(times(run, "top lifts")[0] - exact)))
    return out


def softness() -> list[tuple[float, float, float]]:
    """Stiffness (N/m) of a soft foot, and how far its block is from where a hard foot's is, pushed and stopping (m).

    Pushed with 10 N from rest the spring first gives way by f m g / k, which lends the block a speed of that times
    sqrt(k / m): the way differs by the order of 1 / sqrt(k).
    """
    out = []
    for k in STIFFNESSES:
        deep = -G / k
        ends = []
        for push, speed in ((10.0, 0.0), (0.0, 2.0)):
            m = block(0.5, push=push, stiffness=k, damping=1.0)
            run = sl.simulate(m, m.assemble(at=(0, deep), rates={"at": (speed, 0)}), until=1.0)
            ends.append(float(run.q.at.x[-1]))
        out.append((k, abs(ends[0] - (10 - 0.5 * G) / 2), abs(ends[1] - 4 / G)))
    return out


def order(errors: list[tuple[float, float]]) -> float:
    """Slope of log(error) over log(cause)."""
    cause, error = np.log10(np.maximum(np.array(errors), 1e-16)).T
    return float(np.polyfit(cause, error, 1)[0])


@styled
def figure(errors: list[tuple[float, float]]) -> Figure:
    """Error of an event's time over the tolerance."""
    fig, ax = _axes()
    tolerance, error = np.array(errors).T
    ax.plot(tolerance, error, "o-", label="ladder leaves its wall")
    ax.plot(tolerance, tolerance, "k--", lw=1, label="error = tolerance")
    ax.set(xlabel="tolerance", ylabel="error of the time of lift-off (s)")
    ax.legend()
    return fig


@styled
def soft_figure(rows: list[tuple[float, float, float]]) -> Figure:
    """Distance of soft runs from hard ones over the stiffness."""
    fig, ax = _axes()
    k, pushed_by, stopped_by = np.array(rows).T
    ax.plot(k, pushed_by, "o-", label="block pushed from rest")
    ax.plot(k, stopped_by, "s--", label="block that stops")
    ax.set(xlabel="stiffness of the foot (N/m)", ylabel="distance from the hard run (m)")
    ax.legend()
    return fig


def _axes() -> tuple[Figure, Any]:
    fig = new_figure(5.0, 3.4)
    ax = fig.add_subplot()
    logarithmic(ax, "xy")
    return fig, ax


def study() -> StudyResult:
    """Compute problems of contact with known answers with the defaults; each number is to come out to 1e-8."""
    rows = [r for problem in PROBLEMS for r in problem()]
    errors = convergence()
    comparisons = [
        Comparison(r.problem, f"{r.published:.9g}", f"{r.computed:.9g}", holds=r.ok, why=f"apart by {r.error:.1e}")
        for r in rows
    ]
    slope, soft = order(errors), softness()
    stiffer = order([(k, x) for k, x, _ in soft])
    comparisons.append(
        Comparison("order in which soft runs approach hard ones in 1/stiffness", 0.5, -stiffer, tolerance=0.05)
    )
    comparisons.append(
        Comparison(
            "order of the error of an event's time in the tolerance", "about 1", f"{slope:.2f}", holds=slope > 0.7
        )
    )
    info = STUDIES["contact-laws"]
    data = {
        "rows": [asdict(r) for r in rows],
        "convergence": [{"tolerance": t, "error": e} for t, e in errors],
        "order": slope,
        "soft": [{"stiffness": k, "pushed": a, "stopped": b} for k, a, b in soft],
    }
    figures = {"convergence": figure(errors), "soft": soft_figure(soft)}
    return StudyResult(info, data, comparisons, figures)
