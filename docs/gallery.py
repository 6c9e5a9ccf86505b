"""Pictures of the gallery page: one of every machine of the zoo and one of every study.

    python docs/gallery.py                   # makes those of machines that are missing
    python docs/gallery.py hopper-orbit ...  # makes these anew

A study's picture is its first figure. Studies take up to hours and some have none, so theirs are made when asked for.
Pictures are small PNGs in docs/images/gallery.
"""

import io
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

import saltus as sl
from saltus.studies import run
from saltus.view.style import RC

FOLDER = Path(__file__).parent / "images" / "gallery"
MACHINES = {f"machine-{name.replace('_', '-')}": name for name in sl.zoo.__all__ if not name.endswith("_linkage")}
POSES = {"slider_crank": {"crank": 0.9}}  # where the first keyframe shows little


def machine(name: str) -> Figure:
    """A machine of the zoo in its first keyframe."""
    made = getattr(sl.zoo, name)()
    m = getattr(made, "mechanism", made)
    return sl.view.plot_machine(m.keyframe(next(iter(m.keyframes)), **POSES.get(name, {})), names=False)


def study(name: str) -> Figure | None:
    """The first figure of a study, if it has any."""
    return next(iter(run(name).figures.values()), None)


def main(wanted: list[str]) -> None:
    """Make the pictures asked for, or those of machines that are missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for label in wanted or [x for x in MACHINES if not (FOLDER / f"{x}.png").exists()]:
        with matplotlib.rc_context(RC):
            figure = machine(MACHINES[label]) if label in MACHINES else study(label)
            if figure is None:
                continue
            drawn = io.BytesIO()
            figure.savefig(drawn, dpi=100)
        Image.open(drawn).convert("RGB").quantize(128).save(FOLDER / f"{label}.png", optimize=True)
        print(label)


if __name__ == "__main__":
    main(sys.argv[1:])
