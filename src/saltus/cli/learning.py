"""train: learn a policy for a task on a batch of copies, and judge it in the event-exact simulator."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from saltus.cli.console import check_directory, out, print_table
from saltus.errors import SaltusError


def train(
    task: Annotated[str, typer.Argument(help="bolt-run, hopper, biped, rat-righting or quadruped.")],
    seconds: Annotated[float, typer.Option(help="Most seconds of training, those before a break included.")] = 600.0,
    copies: Annotated[int, typer.Option(help="Copies of the machine side by side.")] = 1024,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    judged: Annotated[float, typer.Option(help="Seconds of each run that judges the policy; 0 for none.")] = 12.0,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Directory of the checkpoint.", show_default="results/train/TASK")
    ] = None,
) -> None:
    """Train a policy with PPO; a directory that holds a checkpoint is gone on with, also after a crash."""
    try:
        from saltus.learn import training
    except ImportError as problem:
        raise SaltusError("training needs more libraries: pip install 'saltus[learn]'") from problem
    folder = out_dir or Path("results") / "train" / task
    check_directory(folder)
    made = training.named(task)

    def tell(row: dict[str, float]) -> None:
        ended = f"reward {row['reward']:8.2f}  episode {row['length']:6.1f} actions"
        ended = "no episode has ended yet" if math.isnan(row["length"]) else ended
        out.print(f"{row['seconds']:8.1f} s  {row['samples']:>12,} samples  {ended}", highlight=False)

    model = training.train(made, folder, seconds=seconds, copies=copies, seed=seed, tell=tell)
    if judged > 0:
        found = training.judged(training.policy_of(model), made, folder, seconds=judged)
        print_table("In the event-exact simulator", [training.told(x) for x in found])
    out.print(f"written to {folder}", highlight=False)
