"""Words of a panel: plain text, whatever stands in it, for names and notes come from files of strangers."""

from __future__ import annotations

import html
from typing import Any

STYLE = "font-size:0.875rem;line-height:1.45;padding:0.1rem 0.4rem;overflow-wrap:anywhere"


class Words:
    """A text in a panel, with a head in bold; lines break where the text has line breaks."""

    def __init__(self, gui: Any, text: str = "", head: str = "") -> None:
        self._handle = gui.add_html("")
        self.say(text, head)

    def say(self, text: str, head: str = "") -> None:
        """Show another text."""
        self.head, self.text = head, text
        bold = f"<b>{html.escape(head)}</b>" if head else ""
        self._handle.content = f'<div style="{STYLE}">{bold}{html.escape(text).replace(chr(10), "<br>")}</div>'
