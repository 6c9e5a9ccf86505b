"""run and demo: simulate a machine and write what came out."""

from __future__ import annotations

import inspect
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from saltus.cli.console import (
    ENDED_BADLY,
    INTERRUPTED,
    check_directory,
    out,
    print_table,
    progress_bar,
    telling_of_compilation,
)
from saltus.cli.machines import MODEL, Model, model_of, reads
from saltus.cli.results import facts, summary_rows, write_results
from saltus.errors import BadValue, UnknownName

DEFAULT_UNTIL = 5.0  # s
LONGEST = 600.0  # s, with --steps and no --until


@reads
def run(
    model: Annotated[str, typer.Argument(help=MODEL)],
    until: Annotated[float | None, typer.Option(help="Simulated time (s).", show_default="5")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Stop after so many strides, from touch to touch of the (first) foot.")
    ] = None,
    ground: Annotated[
        str | None,
        typer.Option(
            help="What feet meet: a height (m), slope:DEGREES or stairs:RISE,RUN,COUNT; other shapes in a model file.",
            show_default="the file's, or level at 0",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAM=VALUE", help="Give a Param another value; repeat for more."),
    ] = None,
    formulation: Annotated[
        str | None, typer.Option(help="spf, index1, baumgarte, projection or minimal; gains after a colon: spf:1e-4.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="native, scipy, heyoka or sundials.")] = None,
    tolerance: Annotated[float, typer.Option(help="Local error of a step.")] = 1e-10,
    check: Annotated[
        bool, typer.Option("--check", help="Run again at a hundredth of the tolerance and say how far it is off.")
    ] = False,
    start: Annotated[
        str | None, typer.Option(help="Keyframe to start from.", show_default="the machine's last")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Domain to start in.", show_default="the system's first")] = None,
    control: Annotated[
        str | None, typer.Option(help="Controller of the system, or none.", show_default="its first")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Result directory.", show_default="results/MODEL")
    ] = None,
    figures: Annotated[bool, typer.Option("--figures", help="Draw figures (SVG) and a film (GIF), too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    reading: Any = None,
) -> None:
    """Simulate a machine and write its data and a page that plays it. Ctrl-C keeps what was simulated.

    `saltus plot` and `saltus report` draw figures of it later. Ends with code 0 only if the run went as far as asked
    and well.
    """
    machine = model_of(model, reading)
    params = numbers_of(set_ or [])
    begin, start_name = machine.begin(start, params)
    law, law_name = control_of(machine, control)
    if until is None:
        until = machine.until or (LONGEST if steps is not None else DEFAULT_UNTIL)
    first = domain or machine.domain or next(iter(machine.system.domains))
    directory = out_dir or Path("results") / machine.name
    check_directory(directory)
    result, seconds = simulate_with_progress(
        machine,
        begin,
        until=until,
        steps=steps,
        quiet=as_json,
        domain=first,
        control=law,
        params=params,
        ground=machine.ground if ground is None else ground_of(ground),
        formulation=formulation_of(formulation),
        engine=engine,
        tolerance=tolerance,
        check=check,
    )
    numbers = {**facts(result, seconds), "start": start_name, "control": law_name, "domain": first}
    command = "saltus " + " ".join(sys.argv[1:])
    files = write_results(result, machine.system, directory, numbers, figures=figures, quiet=as_json, command=command)
    if as_json:
        print(json.dumps({**numbers, "files": [str(x) for x in files]}, indent=2))
    else:
        print_table(str(result.meta["name"]), summary_rows(numbers))
        out.print(f"Results in {escape(str(directory))}: open {escape(str(files[-1]))}", soft_wrap=True)
    _finish(result)


def demo(out_dir: Annotated[Path, typer.Option("--out", help="Result directory.")] = Path("results/demo")) -> None:
    """A leg with one motor runs for five seconds: simulation, figures, film and a report to look at."""
    check_directory(out_dir)
    out.print("A leg with one motor and a closed loop runs for 5 s on ground with friction 0.8.", soft_wrap=True)
    machine = model_of("runner")
    begin, _ = machine.begin()
    law, _ = control_of(machine, None)
    result, seconds = simulate_with_progress(machine, begin, until=5.0, steps=None, quiet=False, control=law)
    numbers = facts(result, seconds)
    again = "saltus run runner --until 5 --figures"
    files = write_results(result, machine.system, out_dir, numbers, figures=True, quiet=False, command=again)
    print_table("runner", summary_rows(numbers))
    out.print("\nLook at:", soft_wrap=True)
    for path, what in (
        (files[-1], "everything on one page"),
        (out_dir / "run.gif", "the animation"),
        (out_dir / "run.nc", "the data: sl.read(...)"),
    ):
        out.print(f"  {escape(str(path))}  {what}", soft_wrap=True)
    out.print("Next: saltus studio runner, saltus zoo, saltus study bolt-running, saltus study list", soft_wrap=True)
    _finish(result)


def _finish(run: Any) -> None:
    """End with a code that tells how the run ended."""
    if run.outcome.ok:
        return
    raise typer.Exit(INTERRUPTED if run.outcome.kind == "interrupted" else ENDED_BADLY)


def simulate_with_progress(
    model: Model, start: Any, *, until: float, steps: int | None, quiet: bool, **options: Any
) -> tuple[Any, float]:
    """Simulate, showing time, events and real-time factor; return the run and the seconds it took."""
    import saltus as sl

    stop_after = None
    if steps is not None:
        if steps < 1:
            raise BadValue(f"--steps {steps}: give one or more", given=steps)
        stop_after = {touchdown(model): steps + 1}
    with progress_bar(quiet) as bar:
        task = bar.add_task("simulating", total=until, note="deriving the equations")
        begin = time.perf_counter()
        first: list[float] = []

        def show(t: float, _until: float, events: int) -> None:
            now = time.perf_counter()
            if not first:
                first.extend((now, t))
            pace = (t - first[1]) / max(now - first[0], 1e-6)
            note = f"{t:8.3f} s, {events} events" + (f", {pace:.1f}x real time" if now - first[0] > 0.05 else "")
            bar.update(task, completed=t, note=note)

        with telling_of_compilation(bar, task):
            run = sl.simulate(model.felt, start, until=until, stop_after=stop_after, progress=show, **options)
        return run, time.perf_counter() - begin


def touchdown(model: Model) -> str:
    """Event that --steps counts: the touchdown of a graph of domains, the touch of a machine's first foot."""
    from saltus.model.touching import Foot

    system = model.system
    events = [e.name for e in system.edges]
    if system.terrain is not None:
        events = [f"{n} touches" for n, part in system.mechanism.touching.items() if isinstance(part, Foot)]
    found = [n for n in events if n == "touchdown" or n.endswith(" touches")]
    if not found:
        named = ", ".join(sorted(events)) or "none"
        raise BadValue(f"--steps counts touchdowns and {model.name} has none (its events: {named}); use --until")
    return found[0]


# ---- what was typed ------------------------------------------------------------------------------------------------


def formulation_of(text: str | None) -> Any:
    """Turn "spf:1e-4" or "baumgarte:50,50" into a formulation."""
    import saltus as sl

    if text is None:
        return None
    kinds = {
        "spf": sl.formulations.SPF,
        "index1": sl.formulations.Index1,
        "baumgarte": sl.formulations.Baumgarte,
        "projection": sl.formulations.Projection,
        "minimal": sl.formulations.Minimal,
    }
    name, _, gains = text.partition(":")
    if name.lower() not in kinds:
        raise UnknownName("formulation", name, kinds)
    kind = kinds[name.lower()]
    try:
        numbers = [int(g) if g.strip().isdigit() else float(g) for g in gains.split(",")] if gains else []
        return kind(*numbers)
    except (TypeError, ValueError) as problem:
        takes = ", ".join(inspect.signature(kind).parameters) or "no numbers"
        raise BadValue(f"formulation {text!r}: {name} takes {takes}, as in spf:1e-3 or baumgarte:50,50") from problem


def ground_of(text: str | None) -> Any:
    """Turn "0.1", "slope:5" or "stairs:0.05,0.3,6" into a shape of the ground."""
    import saltus as sl

    if text is None:
        return None
    kind, _, rest = text.partition(":")
    try:
        numbers = [float(x) for x in (rest or kind).split(",")]
        if kind == "slope":
            (angle,) = numbers
            return sl.ground.Slope(angle, "deg")
        if kind == "stairs":
            rise, run, count = numbers
            return sl.ground.Stairs(rise, run, int(count))
        (height,) = numbers
        return height
    except (TypeError, ValueError):
        raise BadValue(
            f"--ground {text!r}: give a height in m, slope:DEGREES or stairs:RISE,RUN,COUNT, as in --ground slope:5",
            given=text,
        ) from None


def numbers_of(pairs: list[str], option: str = "--set", example: str = "l_1=0.02") -> dict[str, float]:
    """Turn ["l_1=0.02"] into numbers by name."""
    given: dict[str, float] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            if not (equals and name):
                raise ValueError
            number = float(value)
        except ValueError:
            raise BadValue(f"{option} {pair!r}: write NAME=NUMBER, as in {option} {example}", given=pair) from None
        if name.strip() in given:
            both = f"both {given[name.strip()]:g} and {number:g}"
            raise BadValue(f"{option} gives {name.strip()} {both}; give one of them")
        given[name.strip()] = number
    return given


def control_of(model: Model, name: str | None) -> tuple[Any, str]:
    """Return the controller asked for, the file's own, or the system's first."""
    known = model.system.controls
    if name == "none":
        return None, "none"
    if name is not None:
        if name not in known:
            raise UnknownName("control", name, [*known, "none"])
        return known[name], name
    if model.control is not None:
        return model.control, "control of the file"
    return next(((c, n) for n, c in known.items()), (None, "none"))
