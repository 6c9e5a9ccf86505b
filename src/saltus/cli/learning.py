"""train: learn a policy for a task on a batch of copies, and judge it in the event-exact simulator."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from saltus.cli.console import check_directory, out, print_table
from saltus.errors import SaltusError


def train(
    task: Annotated[str, typer.Argument(help="A task of sl.learn, such as bolt-run.")],
    seconds: Annotated[float, typer.Option(help="Seconds of training in all, those before a break included.")] = 300.0,
    copies: Annotated[int, typer.Option(help="Copies of the machine side by side.")] = 1024,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    judged: Annotated[float, typer.Option(help="Seconds of each run that judges the policy; 0 for none.")] = 4.0,
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
        out.print(
            f"{row['seconds']:8.1f} s  {row['samples']:>12,} samples  reward {row['reward']:8.2f}  "
            f"episode {row['length']:6.1f} actions",
            highlight=False,
        )

    model = training.train(made, folder, seconds=seconds, copies=copies, seed=seed, tell=tell)
    training.curve(folder)
    if judged > 0:
        policy, rows = training.Policy.of(model), []
        for share in (0.0, 0.5, 1.0):  # through the range of the commands
            asked = {name: (low + share * (high - low),) * 2 for name, (low, high) in made.params.items()}
            rows.append(asdict(training.judge(policy, replace(made, params=asked), seconds=judged)))
        (folder / "judgement.json").write_text(json.dumps(rows, indent=2))
        found = [
            (
                f"asked for {r['command']:.2f} m/s",
                f"{r['speed']:.2f} m/s, {r['touches']} touches of the ground, {r['energy']:.0f} J/m, "
                f"{r['ended']} for {r['seconds']:.1f} s",
            )
            for r in rows
        ]
        print_table("In the event-exact simulator", found)
    out.print(f"written to {folder}", highlight=False)
