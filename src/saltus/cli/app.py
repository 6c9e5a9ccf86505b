"""The command line: parse, call, print."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from saltus import __version__
from saltus.cli import files as cli_files
from saltus.cli import pages as cli_pages
from saltus.cli.results import err, facts, out, print_table, progress_bar, summary_rows, write_results
from saltus.errors import BadValue, SaltusError, UnknownName

BAD_INPUT, ENDED_BADLY, INTERRUPTED = 2, 1, 130
DEFAULT_UNTIL = 5.0  # s
LONGEST = 600.0  # s, with --steps and no --until

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Legged machines with closed kinematic chains: simulate, study, report.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        out.print(f"saltus {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def speaking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Print errors of Saltus as one message and end with code 2."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SaltusError as problem:
            err.print(f"[bold red]error:[/] {escape(str(problem))}", soft_wrap=True)
            raise typer.Exit(BAD_INPUT) from None

    return wrapper


# ---- machines -----------------------------------------------------------------------------------------------------


def machines() -> dict[str, Callable[..., Any]]:
    """Every machine of the zoo by the name the command line gives it."""
    zoo = importlib.import_module("saltus.zoo")
    return {name.replace("_", "-"): getattr(zoo, name) for name in zoo.__all__}


@dataclass
class Model:
    """What a run needs: the system and what its maker suggests for it."""

    name: str
    system: Any
    start: Any = None
    control: Any = None
    domain: str | None = None
    until: float | None = None
    run: Any = None


def model_of(text: str) -> Model:
    """Return the machine of a zoo name, of a model file, or of a Python file that defines `system`."""
    if text.endswith(cli_files.MODEL_FILES):
        return _from_model_file(text)
    if is_file(text):
        return _from_file(Path(text))
    name = zoo_name(text)
    return Model(name, _as_system(machines()[name]()))


def is_file(text: str) -> bool:
    """Whether a model is named by a file, not by a name of the zoo."""
    return text.endswith((*cli_files.MODEL_FILES, ".py")) or "/" in text


def zoo_name(text: str) -> str:
    """Return the name of a machine of the zoo as it is spelt there."""
    known = machines()
    name = text.replace("_", "-")
    if name not in known:
        raise UnknownName("machine", text, [*known, "FILE.py", "FILE.saltus.yaml"])
    return name


def check_name(text: str) -> None:
    """Refuse a model that does not exist, without building it."""
    if not is_file(text):
        zoo_name(text)
    elif not Path(text).is_file():
        raise BadValue(f"{text} is no file; give a name of `saltus zoo` or a file that defines a machine")


def _from_model_file(text: str) -> Model:
    import saltus as sl

    found = sl.read(text)
    name = Path(text).name.split(".")[0]
    return Model(name, _as_system(found.system), found.start, found.control, found.domain, found.until)


def _from_file(path: Path) -> Model:
    if not path.is_file():
        raise BadValue(f"{path} is no file; give a name of `saltus zoo` or a Python file that defines `system`")
    try:
        found = runpy.run_path(str(path), run_name="saltus_model")
    except SaltusError:
        raise
    except Exception as problem:
        raise BadValue(f"{path} cannot be run: {type(problem).__name__}: {problem}") from problem
    if "system" not in found:
        raise BadValue(f"{path} defines no `system`; assign a sl.HybridSystem or a sl.Mechanism to that name")
    system = _as_system(found["system"])
    return Model(path.stem, system, *(found.get(n) for n in ("start", "control", "domain", "until")))


def _as_system(thing: Any) -> Any:
    from saltus import HybridSystem, Mechanism

    if isinstance(thing, HybridSystem):
        return thing
    if isinstance(thing, Mechanism):
        system = HybridSystem(thing)
        system.domain("motion")
        return system
    raise BadValue(f"`system` is a {type(thing).__name__}; it must be a sl.HybridSystem or a sl.Mechanism")


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


def numbers_of(pairs: list[str]) -> dict[str, float]:
    """Turn ["l_1=0.02"] into numbers by name."""
    given: dict[str, float] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            if not (equals and name):
                raise ValueError
            given[name.strip()] = float(value)
        except ValueError:
            raise BadValue(f"--set {pair!r}: write PARAM=NUMBER, as in --set l_1=0.02", given=pair) from None
    return given


def start_of(model: Model, keyframe: str | None, params: Mapping[str, float]) -> tuple[Any, str]:
    """Return the state to start from: the keyframe asked for, the file's own, or the machine's last keyframe."""
    m = model.system.mechanism
    m.values(params)  # refuses unknown names before anything else does
    if keyframe is None and model.start is not None:
        return model.start, "start of the file"
    if not m.keyframes and keyframe is None:
        return m.assemble(params=params), "zero angles"
    name = keyframe if keyframe is not None else list(m.keyframes)[-1]
    return m.keyframe(name, params=dict(params)), name


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


# ---- running ------------------------------------------------------------------------------------------------------


def simulate_with_progress(
    model: Model, start: Any, *, until: float, steps: int | None, quiet: bool, **options: Any
) -> tuple[Any, float]:
    """Simulate, showing time, events and real-time factor; return the run and the seconds it took."""
    import saltus as sl

    stop_after = None
    if steps is not None:
        events = {e.name for e in model.system.edges}
        if "touchdown" not in events:
            named = ", ".join(sorted(events)) or "none"
            raise BadValue(f"--steps counts touchdowns and {model.name} has none (its events: {named}); use --until")
        if steps < 1:
            raise BadValue(f"--steps {steps}: give one or more", given=steps)
        stop_after = {"touchdown": steps + 1}
    with progress_bar(quiet) as bar:
        task = bar.add_task("simulating", total=steps * 2 + 1 if steps else until, note="compiling")
        begin = time.perf_counter()
        first: list[float] = []

        def show(t: float, _until: float, events: int) -> None:
            now = time.perf_counter()
            if not first:
                first.extend((now, t))
            pace = (t - first[1]) / max(now - first[0], 1e-6)
            note = f"{t:8.3f} s, {events} events" + (f", {pace:.1f}x real time" if now - first[0] > 0.05 else "")
            bar.update(task, completed=events if steps else t, note=note)

        run = sl.simulate(model.system, start, until=until, stop_after=stop_after, progress=show, **options)
        return run, time.perf_counter() - begin


def _finish(run: Any) -> None:
    """End with a code that tells how the run ended."""
    if run.outcome.ok:
        return
    raise typer.Exit(INTERRUPTED if run.outcome.kind == "interrupted" else ENDED_BADLY)


@app.command()
@speaking
def run(
    model: Annotated[str, typer.Argument(help="A machine of `saltus zoo`, or a Python file that defines `system`.")],
    until: Annotated[float | None, typer.Option(help="Simulated time (s).", show_default="5")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after so many strides (touchdown to touchdown).")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAM=VALUE", help="Give a Param another value; repeat for more."),
    ] = None,
    formulation: Annotated[
        str | None, typer.Option(help="spf, index1, baumgarte, projection or minimal; gains after a colon: spf:1e-4.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="native, heyoka or sundials.")] = None,
    tolerance: Annotated[float, typer.Option(help="Local error of a step.")] = 1e-9,
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
    animation: Annotated[bool, typer.Option(help="Write the animation.")] = True,
    png: Annotated[bool, typer.Option("--png", help="Write the figures as PNG too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Simulate a machine and write data, figures, animation and report. Ctrl-C keeps what was simulated."""
    machine = model_of(model)
    params = numbers_of(set_ or [])
    begin, start_name = start_of(machine, start, params)
    law, law_name = control_of(machine, control)
    if until is None:
        until = machine.until or (LONGEST if steps is not None else DEFAULT_UNTIL)
    first = domain or machine.domain or next(iter(machine.system.domains))
    result, seconds = simulate_with_progress(
        machine,
        begin,
        until=until,
        steps=steps,
        quiet=as_json,
        domain=first,
        control=law,
        params=params,
        formulation=formulation_of(formulation),
        engine=engine,
        tolerance=tolerance,
    )
    numbers = {**facts(result, seconds), "start": start_name, "control": law_name, "domain": first}
    directory = out_dir or Path("results") / machine.name
    command = "saltus " + " ".join(sys.argv[1:])
    files = write_results(
        result, machine.system, directory, numbers, animation=animation, quiet=as_json, command=command, png=png
    )
    if as_json:
        print(json.dumps({**numbers, "files": [str(x) for x in files]}, indent=2))
    else:
        print_table(str(result.meta["name"]), summary_rows(numbers))
        out.print(f"Results in {escape(str(directory))}: open {escape(str(files[-1]))}", soft_wrap=True)
    _finish(result)


@app.command()
@speaking
def demo(out_dir: Annotated[Path, typer.Option("--out", help="Result directory.")] = Path("results/demo")) -> None:
    """BOLT runs 16 steps: simulation, figures, animation and a report to look at."""
    out.print("BOLT, a leg with one motor and two closed loops (Liu and Ben-Tzvi 2020), runs 16 steps.", soft_wrap=True)
    machine = model_of("bolt")
    begin, _ = start_of(machine, None, {})
    law, _ = control_of(machine, None)
    result, seconds = simulate_with_progress(
        machine, begin, until=LONGEST, steps=16, quiet=False, domain="flight", control=law
    )
    numbers = facts(result, seconds)
    again = "saltus run bolt --steps 16"
    files = write_results(
        result, machine.system, out_dir, numbers, animation=True, quiet=False, command=again, png=True
    )
    print_table("BOLT", summary_rows(numbers))
    out.print("\nLook at:", soft_wrap=True)
    for path, what in (
        (files[-1], "everything on one page"),
        (out_dir / "run.gif", "the animation"),
        (out_dir / "run.nc", "the data: sl.read(...)"),
    ):
        out.print(f"  {escape(str(path))}  {what}", soft_wrap=True)
    out.print("Next: saltus zoo, saltus run raptor, saltus study list", soft_wrap=True)
    _finish(result)


@app.command()
@speaking
def zoo() -> None:
    """List the machines that come along."""
    from saltus import HybridSystem

    table = Table(box=None, pad_edge=False)
    for column in ("name", "what it is", "runs"):
        table.add_column(column, style="cyan" if column == "name" else None)
    for name, make in machines().items():
        text = inspect.getdoc(make) or ""
        machine = make()
        kind = ", ".join(machine.domains) if isinstance(machine, HybridSystem) else "linkage"
        table.add_row(escape(name), escape(text.splitlines()[0] if text else ""), escape(kind))
    out.print(table)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@speaking
def study(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name of `saltus study list`, or list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Result directory.", show_default="results/NAME")
    ] = None,
) -> None:
    """Compute a published result, compare, draw its figures. Ends with code 1 if a stated agreement fails.

    Further options are those of the study, as in `saltus study compass-heelstrike --theta 40 --rho 0.25`.
    """
    from saltus import studies

    if name == "list":
        _list_studies(as_json)
        return
    with progress_bar(as_json) as bar:
        bar.add_task(f"study {name}", total=None, note="")
        result = studies.run(name, **study_options(context.args))
        directory = out_dir or Path("results") / name
        files = result.write(directory)
    if as_json:
        print(json.dumps({**result.as_dict(), "files": [str(f) for f in files]}, indent=2))
    else:
        _print_study(result, directory)
    if not result.agrees:
        raise typer.Exit(ENDED_BADLY)


def study_options(arguments: list[str]) -> dict[str, float | str]:
    """Turn ["--theta", "40", "--rho=0.25", "--scheme", "trapezoidal"] into numbers and words by name."""
    given: dict[str, float | str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        text = value if equals else next(words, "")
        if not name.startswith("--") or not text or text.startswith("--"):
            raise BadValue(f"study option {word!r}: write --NAME VALUE, as in --theta 40", given=word)
        try:
            given[name[2:].replace("-", "_")] = float(text)
        except ValueError:
            given[name[2:].replace("-", "_")] = text
    return given


def _list_studies(as_json: bool) -> None:
    from saltus import studies

    if as_json:
        print(
            json.dumps(
                [{"name": s.name, "title": s.title, "source": s.source} for s in studies.STUDIES.values()], indent=2
            )
        )
        return
    table = Table(box=None, pad_edge=False)
    for column in ("study", "what it computes", "published in"):
        table.add_column(column, style="cyan" if column == "study" else None)
    for s in studies.STUDIES.values():
        table.add_row(escape(s.name), escape(s.title), escape(s.source))
    out.print(table)


def _print_study(result: Any, directory: Path) -> None:
    out.print(f"[bold]{escape(result.title)}[/]\n{escape(result.source)}", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("quantity", "published", "computed", "agrees", "tolerance and why"):
        table.add_column(column, overflow="fold", no_wrap=column == "agrees")
    for c in result.comparisons:
        word = {True: "[green]yes[/]", False: "[bold red]no[/]", None: "-"}[c.agrees]
        table.add_row(escape(c.quantity), escape(c.published_text), escape(c.computed_text), word, escape(c.reason))
    out.print(table)
    for note in result.notes:
        out.print(f"[dim]note:[/] {escape(note)}", soft_wrap=True)
    out.print(f"Results in {escape(str(directory))}", soft_wrap=True)


@dataclass(frozen=True)
class Maker:
    """Builds the machine of a name or a file, in whatever process it is called; a linkage comes as it is."""

    model: str
    linkage: bool = False

    def __call__(self) -> Any:
        """Build it."""
        system = model_of(self.model).system
        return system.mechanism if self.linkage else system


@app.command()
@speaking
def sweep(
    model: Annotated[str, typer.Argument(help="A machine of `saltus zoo`, or a Python file that defines `system`.")],
    vary: Annotated[list[str], typer.Option(metavar="PARAM=LOW:HIGH", help="A Param and its range; repeat for more.")],
    runs: Annotated[int, typer.Option(help="Designs, spread evenly through the ranges.")] = 1000,
    driver: Annotated[
        str | None, typer.Option(help="Turn this coordinate and follow --point, instead of running the machine.")
    ] = None,
    point: Annotated[str, typer.Option(help="Point to follow with --driver.")] = "foot",
    strides: Annotated[int, typer.Option(help="Strides of each run, without --driver.")] = 8,
    seed: Annotated[int, typer.Option(help="Same seed, same designs and results, for any number of workers.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Local processes.", show_default="one a core")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://HOST:PORT.")] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Zarr store.", show_default="results/sweep-MODEL")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Evaluate many designs. Whatever ends it, the same command goes on where it was."""
    import saltus as sl

    ranges = dict(range_of(text) for text in vary)
    if driver is not None:
        task: Any = sl.design.LinkageTask(Maker(model, linkage=True), driver, point)
    else:
        task = sl.design.GaitTask(Maker(model), strides=strides)
    task.make()  # refuse a wrong name here, not in every worker
    store = out_dir or Path("results") / f"sweep-{Path(model).stem}"
    begin = time.perf_counter()
    with progress_bar(as_json) as bar:
        row = bar.add_task("sweep", total=runs, note="starting")

        def show(done: int, total: int, rate: float, left: float) -> None:
            bar.update(row, completed=done, note=f"{done} of {total}, {rate:.0f} a second, {left:.0f} s left")

        try:
            data = sl.sweep(
                task,
                sl.sweeps.scattered(ranges, runs, seed),
                store,
                workers=workers,
                scheduler=scheduler,
                seed=seed,
                progress=show,
            )
        except KeyboardInterrupt:
            err.print(f"stopped; what is finished is in {escape(str(store))}, the same command goes on", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None
    summary: dict[str, Any] = {"runs": runs, "store": str(store), "seconds": time.perf_counter() - begin}
    for name in data.data_vars:
        values = data[name].values.astype(float)
        if values.ndim == 1 and name not in (*ranges, "done"):
            finite = values[[math.isfinite(v) for v in values]]
            ends = (finite.min(), finite.mean(), finite.max()) if len(finite) else ()
            summary[str(name)] = [float(x) for x in ends] or None
    if as_json:
        print(json.dumps(summary, indent=2))
        return
    rows = [(n, f"{v[0]:.5g} to {v[2]:.5g}, mean {v[1]:.5g}") for n, v in summary.items() if isinstance(v, list)]
    print_table(f"{runs} designs of {model}", rows)
    out.print(f"Store: {escape(str(store))}; read it with sl.read(...)", soft_wrap=True)


def range_of(text: str) -> tuple[str, tuple[float, float]]:
    """Turn "l_1=0.015:0.045" into a name and its range."""
    name, equals, ends = text.partition("=")
    low, colon, high = ends.partition(":")
    try:
        if not (equals and colon and name):
            raise ValueError
        return name.strip(), (float(low), float(high))
    except ValueError:
        raise BadValue(f"--vary {text!r}: write PARAM=LOW:HIGH, as in --vary l_1=0.015:0.045", given=text) from None


@app.command()
@speaking
def doctor() -> None:
    """Say what was found on this machine and how fast it is."""
    from saltus.cli import doctor as find
    from saltus.view.report import versions

    print_table("found", find.environment())
    print_table("packages", [row for row in versions() if row[0] != "python"])
    rows = [
        (f"one BOLT flight evaluation, {way}", f"{1e6 * seconds:.3f} microseconds")
        for way, seconds in find.evaluation_times().items()
    ]
    s = find.swing()
    pace = f"{1000 * s['seconds']:.0f} ms ({10 / s['seconds']:.0f}x real time) on engine {s['engine']}"
    rows.append(("10 s of free swing", f"{pace}, loop gap {s['loop_gap']:.1e} m, energy residual {s['residual']:.1e}"))
    print_table("speed", rows)


cli_files.register(app, speaking, model_of)
cli_pages.register(app, speaking, model_of, check_name)

if __name__ == "__main__":
    app()
