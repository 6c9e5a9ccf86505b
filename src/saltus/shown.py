"""How things show themselves in a notebook."""

from __future__ import annotations


class Shown:
    """What a notebook shows instead of a line of text.

    The one place where what computes asks for what draws, and by way of the package, which loads it then.
    """

    def _repr_html_(self) -> str:
        import saltus

        return str(saltus.view.html(self))
