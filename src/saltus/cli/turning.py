"""inverse: the torques, pin forces and shaking force that a given motion of a machine takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from saltus.cli.console import check_directory, drawing, out, print_table
from saltus.cli.machines import MODEL, model_of, reads
from saltus.cli.running import numbers_of
from saltus.errors import BadValue


@reads
def inverse(
    model: Annotated[str, typer.Argument(help=MODEL)],
    turn: Annotated[
        list[str] | None, typer.Option(metavar="COORDINATE=RPM", help="Turn it steadily; repeat for more.")
    ] = None,
    hold: Annotated[
        list[str] | None, typer.Option(metavar="COORDINATE=VALUE", help="Hold it there (rad, m); repeat for more.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAM=VALUE", help="Give a Param another value; repeat for more."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Keyframe that says on which branch.", show_default="the machine's last")
    ] = None,
    samples: Annotated[int, typer.Option(help="Times over the turn, both ends included.")] = 361,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Result directory.", show_default="results/MODEL")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    reading: Any = None,
) -> None:
    """Move a machine through one turn and find the efforts, the force in every joint and the shaking force."""
    import saltus as sl

    machine = model_of(model, reading)
    params = numbers_of(set_ or [])
    begin, _ = machine.begin(start, params)
    turns = {n: sl.Turning(x, "rpm") for n, x in numbers_of(turn or [], "--turn", "crank=300").items()}
    if not turns:
        named = ", ".join(machine.system.mechanism.turns) or "none"
        raise BadValue(f"nothing turns; give --turn COORDINATE=RPM, with one of those that turn: {named}")
    directory = out_dir or Path("results") / machine.name
    check_directory(directory)
    found = sl.inverse(begin, {**turns, **numbers_of(hold or [], "--hold", "slider=0.1")}, samples=samples)
    rows = {f"effort {n}": (abs(x), "Nm" if n in found.mechanism.turns else "N") for n, x in found.effort.items()}
    rows |= {f"force in {n}": (x.size, "N") for n, x in found.loads.items()}
    rows["shaking force"] = found.shaking.size, "N"
    numbers = {n: {"largest": float(x.max()), "at": float(found.t[x.argmax()])} for n, (x, _) in rows.items()}
    directory.mkdir(parents=True, exist_ok=True)
    files = [directory / "loads.csv"]
    sl.write(found.records(), files[0])
    with drawing():
        files[:0] = sl.view.save(sl.view.plot_loads(found), directory / "loads")
    if as_json:
        print(json.dumps({"duration": float(found.t[-1]), "rows": numbers, "files": [str(x) for x in files]}, indent=2))
        return
    said = [
        (n, f"up to {numbers[n]['largest']:.6g} {unit} at {numbers[n]['at']:.4g} s") for n, (_, unit) in rows.items()
    ]
    print_table(f"{found.mechanism.name}: {found.t[-1]:.6g} s", said)
    out.print(f"Results in {escape(str(directory))}: open {escape(str(files[0]))}", soft_wrap=True)
