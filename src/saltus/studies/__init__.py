"""Studies: published results, computed again and compared; each one a module that loads when it is run."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable

from saltus.errors import BadValue, UnknownName, naming_extras
from saltus.studies.result import Comparison, Study, StudyResult

LIU = "Liu and Ben-Tzvi (2020), J. Mechanisms Robotics 12"
KAMIDI = "Kamidi, Williams and Ben-Tzvi (2018), A framework for modeling closed kinematic chains"
ZANA = "Zana, Bodor, Bencsik and Zelei (2018), A tutorial for the analysis of vertical hopping"
RAT = "Liu and Ben-Tzvi, kangaroo rat with a serpentine tail"
FONT = "Font-Llagunes and Kövecses (2009), Analysis of topology changes in multibody systems"


STUDIES = {
    s.name: s
    for s in (
        Study(
            "bolt-kinematics",
            "BOLT's foot and knee paths and loop angles over a turn of the crank",
            f"{LIU}, figs. 4, 5",
            "saltus.studies.bolt_kinematics",
        ),
        Study(
            "bolt-design",
            "BOLT's lengths chosen for its foot path: sensitivity, optimum, Pareto front",
            f"{LIU}, sec. 3, tables 1, 2, figs. 3 to 5",
            "saltus.studies.bolt_design",
        ),
        Study(
            "bolt-appendix",
            "BOLT's equations entry by entry against those printed, with the misprints",
            f"{LIU}, appendices A and B",
            "saltus.studies.bolt_appendix",
        ),
        Study(
            "four-bar-path",
            "A four-bar through five points at given crank angles",
            "Cabrera, Simon and Prado (2002), Mechanism and Machine Theory 37, second case",
            "saltus.studies.four_bar_path",
        ),
        Study("bolt-running", "BOLT runs 16 steps", f"{LIU}, figs. 10 to 14", "saltus.studies.bolt_running"),
        Study(
            "raptor-hopping",
            "A Raptor-like leg with three loops hops in place",
            f"{KAMIDI}, figs. 7, 8",
            "saltus.studies.raptor_hopping",
        ),
        Study(
            "bolt-swinging",
            "BOLT runs with its crank swinging in a narrow band",
            f"{KAMIDI}, sec. IV-A, figs. 5, 6",
            "saltus.studies.bolt_swinging",
        ),
        Study(
            "bolt-static-gait",
            "BOLT's crank turned slowly through full turns on a fixed base",
            f"{KAMIDI}, sec. IV",
            "saltus.studies.bolt_static_gait",
        ),
        Study(
            "pantograph-impact",
            "Energy, intensity and impulse of a pantograph that hits a wall, by direction",
            f"{FONT}, tables 3, 4, fig. 5",
            "saltus.studies.pantograph_impact",
        ),
        Study(
            "compass-heelstrike",
            "What the heel strike of a compass walker costs, by foot radius, step and lean",
            f"{FONT}, figs. 2, 3",
            "saltus.studies.compass_heelstrike",
        ),
        Study(
            "hopper-orbit",
            "The hopper's periodic orbit, its monodromy matrix and multipliers",
            f"{ZANA}, eqs. 68 to 71, figs. 3 to 5",
            "saltus.studies.hopper_orbit",
        ),
        Study(
            "hopper-continuation",
            "The family of the hopper's orbits over its negative damping, with folds",
            f"{ZANA}, figs. 6 to 9",
            "saltus.studies.hopper_continuation",
        ),
        Study(
            "bolt-gaits",
            "BOLT's running gaits over speed, their multipliers, cost of transport, and feedback once per stride",
            f"{LIU}; the gaits are ours, the paper leaves feedback as future work",
            "saltus.studies.bolt_gaits",
        ),
        Study(
            "tail-models",
            "Body yaw after a swing of the tail: constant-curvature arc against rigid links",
            f"{RAT}, sec. 4.1, figs. 7, 8",
            "saltus.studies.tail_models",
        ),
        Study(
            "tail-appendix",
            "The closed integrals of a bent tail segment against quadrature",
            f"{RAT}, appendix B",
            "saltus.studies.tail_appendix",
        ),
        Study(
            "bolt-optimal-gait",
            "BOLT runs at a chosen speed with the least energy: planned, flown for 16 steps, its multipliers",
            f"{LIU}: the machine and the control it is compared with",
            "saltus.studies.bolt_optimal_gait",
        ),
        Study(
            "rat-kick",
            "A kangaroo rat kicks itself into the air and tumbles with a passive tail",
            f"{RAT}, eq. 48, fig. 9a",
            "saltus.studies.rat_kick",
        ),
        Study(
            "rat-righting",
            "A tumbling kangaroo rat rights itself in the air: planned, then flown with feedback",
            f"{RAT}, sec. 4.2, figs. 9 to 11",
            "saltus.studies.rat_righting",
        ),
        Study(
            "tail-segments",
            "Righting with a tail of one, two and three segments: planned, then flown with feedback",
            f"{RAT}, sec. 4.3, figs. 12, 13, table 2",
            "saltus.studies.tail_segments",
        ),
        Study(
            "rat-jumping",
            "A kangaroo rat jumps and lands without a tail, with an articulated and with a continuum tail",
            f"{RAT}, fig. 14",
            "saltus.studies.rat_jumping",
        ),
        Study(
            "rat-recovery",
            "A kangaroo rat that lies back is pushed up by its tail",
            f"{RAT}, fig. 15",
            "saltus.studies.rat_recovery",
        ),
        Study(
            "bolt-with-tail",
            "BOLT runs with its pitch free, held by a tail",
            f"{LIU}; the tail is ours, the paper names it as the leg's purpose",
            "saltus.studies.bolt_with_tail",
        ),
        Study(
            "bolt-real-ground",
            "BOLT runs on hard ground with friction, its crank on a clock: speeds, slip, multipliers",
            f"{LIU}, sec. 6",
            "saltus.studies.bolt_real_ground",
        ),
        Study(
            "biped-walking",
            "A biped with two five-bar legs and free pitch walks on level and on random ground",
            "Raibert (1986), Legged robots that balance: foot placement; machine and gains are ours",
            "saltus.studies.biped_walking",
        ),
        Study(
            "quadruped",
            "A quadruped of four BOLT legs with a tail runs on hard ground: gaits by kind of tail, and its planar twin",
            f"{LIU}, fig. 1: a drawing; machine, clocks and gains are ours",
            "saltus.studies.quadruped",
        ),
        Study(
            "quadruped-orbits",
            "The tailed quadruped's trot in 3D as a periodic orbit, with its multipliers",
            f"{LIU}, fig. 1: a drawing; machine, clock and gains are ours",
            "saltus.studies.quadruped_orbits",
        ),
        Study(
            "quadruped-tails",
            "What the tail does for the quadruped's trot: fixed, passive, and under four laws of feedback",
            f"{LIU}, fig. 1: a drawing; machine, clocks and gains are ours",
            "saltus.studies.quadruped_tails",
        ),
        Study(
            "quadruped-landing",
            "The tailed quadruped, dropped with a roll, turns upright in the air with its tail and lands on its feet",
            f"{LIU}, fig. 1: a drawing; machine and motion are ours",
            "saltus.studies.quadruped_landing",
        ),
        Study(
            "quadruped-push",
            "How hard the trotting quadruped can be pushed to the side, with its tail controlled, passive and fixed",
            f"{LIU}, fig. 1: a drawing; machine, clocks and gains are ours",
            "saltus.studies.quadruped_push",
        ),
        Study(
            "quadruped-turn",
            "The tailed quadruped turns by 90 degrees as it trots, by its legs and its tail",
            f"{LIU}, fig. 1: a drawing; machine and steering are ours",
            "saltus.studies.quadruped_turn",
        ),
        Study(
            "quadruped-turn-plan",
            "The tailed quadruped turns by 90 degrees: a stride planned in 3D in the friction cone, flown",
            f"{LIU}, fig. 1: a drawing; machine and plans are ours",
            "saltus.studies.quadruped_turn_plan",
        ),
        Study(
            "quadruped-leap",
            "The quadruped's planar twin leaps over a gap from its bound: planned in the friction cone, flown",
            f"{LIU}, fig. 1: a drawing; machine and plans are ours",
            "saltus.studies.quadruped_leap",
        ),
        Study(
            "quadruped-stop",
            "The quadruped's planar twin stops from full speed: planned in the friction cone, flown on real ground",
            f"{LIU}, fig. 1: a drawing; machine and plans are ours",
            "saltus.studies.quadruped_stop",
        ),
        Study(
            "quadruped-jump",
            "The tailed quadruped jumps from standing and lands on its feet, levelled by its tail in the air",
            f"{LIU}, fig. 1: a drawing; machine and plans are ours",
            "saltus.studies.quadruped_jump",
        ),
        Study(
            "mechanism-benchmarks",
            "Problems of the literature with the defaults: Andrews, Bricard, N-four-bar, Jansen's leg, Garcia's walker",
            "IVP test set, IFToMM benchmarks A02 and A04, Garcia, Chatterjee, Ruina and Coleman (1998)",
            "saltus.studies.mechanism_benchmarks",
        ),
        Study(
            "contact-laws",
            "Contact with known answers: stick, slip, lift, bounce, roll, stops, and states without a solution",
            "closed forms of mechanics textbooks, and Housner (1963) for the rocking block",
            "saltus.studies.contact_laws",
        ),
    )
}


def options(name: str) -> tuple[str, dict[str, float | str | None]]:
    """What a study says of itself, and the options it takes with their defaults."""
    compute = _compute(name)
    return inspect.getdoc(compute) or "", {n: p.default for n, p in inspect.signature(compute).parameters.items()}


def run(name: str, **given: float | str) -> StudyResult:
    """Compute a study by name, with options it declares."""
    compute = _compute(name)
    _, declared = options(name)
    for option, value in given.items():
        if option not in declared:
            raise UnknownName(f"option of study {name!r}", option, declared)
        word = isinstance(declared[option], str)
        if isinstance(value, str) != word:
            expected = f"a word, as {declared[option]!r}" if word else "a number"
            raise BadValue(f"option {option!r} of study {name!r} is {value!r}; give {expected}", given=value)
        if isinstance(value, float) and not math.isfinite(value):
            raise BadValue(f"option {option!r} of study {name!r} is {value}; give a finite number", given=value)
    result: StudyResult = compute(**given)
    return result


def _compute(name: str) -> Callable[..., StudyResult]:
    if name not in STUDIES:
        raise UnknownName("study", name, STUDIES)
    with naming_extras():
        compute: Callable[..., StudyResult] = importlib.import_module(STUDIES[name].module).study
    return compute


__all__ = ["STUDIES", "Comparison", "Study", "StudyResult", "options", "run"]
