"""sweep: evaluate many designs of a machine."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from saltus.cli.console import INTERRUPTED, check_directory, err, out, print_table, progress_bar
from saltus.cli.machines import MODEL, model_of, reads
from saltus.errors import BadValue


@dataclass(frozen=True)
class Maker:
    """Builds the machine of a name or a file, in whatever process it is called; a linkage comes as it is.

    `reading` are the options with which a file is read, in pairs: what makes the same is equal, and kept by it.
    """

    model: str
    linkage: bool = False
    reading: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Any:
        """Build it."""
        system = model_of(self.model, dict(self.reading)).system
        return system.mechanism if self.linkage else system


@reads
def sweep(
    model: Annotated[str, typer.Argument(help=MODEL)],
    vary: Annotated[list[str], typer.Option(metavar="PARAM=LOW:HIGH", help="A Param and its range; repeat for more.")],
    runs: Annotated[int, typer.Option(help="Designs, spread evenly through the ranges.")] = 1000,
    driver: Annotated[
        str | None, typer.Option(help="Turn this coordinate and follow --point, instead of running the machine.")
    ] = None,
    point: Annotated[str, typer.Option(help="Point to follow with --driver.")] = "foot",
    strides: Annotated[int, typer.Option(help="Strides of each run, without --driver.")] = 8,
    seed: Annotated[int, typer.Option(help="Same seed, same designs and results, for any number of workers.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Local processes.", show_default="one per core")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://HOST:PORT.")] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Zarr store.", show_default="results/sweep-MODEL")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    reading: Any = None,
) -> None:
    """Evaluate many designs. Whatever ends it, the same command goes on where it was."""
    import saltus as sl

    ranges = dict(range_of(text) for text in vary)
    if len(ranges) < len(vary):
        raise BadValue(f"--vary names a Param twice: {', '.join(vary)}; give each one range")
    store = out_dir or Path("results") / f"sweep-{Path(model).stem}"
    check_directory(store)
    maker = Maker(model, linkage=driver is not None, reading=tuple(reading.items()))
    if driver is not None:
        task: Any = sl.design.LinkageTask(maker, driver, point)
    else:
        task = sl.design.GaitTask(maker, strides=strides)
    task.make()  # refuse a wrong name here, not in every worker
    begin = time.perf_counter()
    with progress_bar(as_json) as bar:
        row = bar.add_task("sweep", total=runs, note="starting")

        def show(done: int, total: int, rate: float, left: float) -> None:
            bar.update(row, completed=done, note=f"{done} of {total}, {rate:.0f} per second, {left:.0f} s left")

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
