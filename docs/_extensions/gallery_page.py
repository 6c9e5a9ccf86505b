"""The gallery page: its comments `<!-- machines -->` and `<!-- studies -->` become pictures with their commands."""

import inspect
from pathlib import Path

from sphinx.application import Sphinx

from saltus import zoo
from saltus.studies import STUDIES

PICTURES = Path(__file__).parents[1] / "images" / "gallery"


def tile(picture: str, title: str, command: str) -> str:
    """One picture with what it shows and the command that makes it; without a picture, the words alone."""
    said = f"{title}\n\n`{command}`"
    if not (PICTURES / f"{picture}.png").exists():
        return f":::{{container}} words\n{said}\n:::\n"
    return f":::{{figure}} images/gallery/{picture}.png\n:alt: {title}\n\n{said}\n:::\n"


def machines() -> str:
    """Every machine of the zoo."""
    tiles = []
    for name in zoo.__all__:
        if not name.endswith("_linkage"):
            label = name.replace("_", "-")
            title = (inspect.getdoc(getattr(zoo, name)) or "").splitlines()[0].rstrip(".:")
            tiles.append(tile(f"machine-{label}", title, f"sl.zoo.{name}()"))
    return "\n".join(tiles)


def studies() -> str:
    """Every study of the registry, whose source is named below it."""
    return "\n".join(tile(s.name, f"{s.title}. {s.source}", f"saltus study {s.name}") for s in STUDIES.values())


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill in the page."""
    if docname == "gallery":
        for marker, tiles in (("machines", machines), ("studies", studies)):
            box = f"::::{{container}} gallery\n{tiles()}\n::::"
            source[0] = source[0].replace(f"<!-- {marker} -->", box)


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook into the build."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
