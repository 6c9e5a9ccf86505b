"""Keeping what was changed in a page: to a file or a link and back, and the machine as it is now as a model file."""

from __future__ import annotations

import base64
import binascii
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from saltus.errors import BadFile, BadValue
from saltus.studio.gate import LINK
from saltus.studio.machine_panel import MachinePanel
from saltus.studio.session import Session

FORMAT = "saltus-studio-1"
LARGEST = 1_000_000  # bytes of a file that is read
POSED = "posed"  # keyframe of an exported machine


class Keeping:
    """Buttons that save and load the sliders, and export the machine."""

    def __init__(self, session: Session, panel: MachinePanel) -> None:
        self.session, self.panel = session, panel
        gui = session.client.gui
        with gui.add_folder("Keep", expand_by_default=False):
            save = gui.add_button("Save changes", hint="Params and drivers, into a small file")
            save.on_click(lambda _: session.post("save", self.save))
            self.chosen = gui.add_upload_button("Load changes", mime_type="application/json")
            self.chosen.on_upload(lambda _: session.post("load", self.load))
            link = gui.add_button("Link to this", hint="An address that opens the studio as it is now")
            link.on_click(lambda _: session.post("link", self.link))
            self.address = gui.add_text("Link", "", visible=False)
            export = gui.add_button("Export model", hint="The machine with its present Params and pose, as a file")
            export.on_click(lambda _: session.post("export", self.export))

    @property
    def _stem(self) -> str:
        return re.sub(r"\W+", "_", self.session.mechanism.name)

    def _send(self, name: str, content: bytes) -> None:
        self.session.client.send_file_download(name, content, save_immediately=True)

    def save(self) -> None:
        """Send what the sliders say to the browser as a file."""
        self._send(f"{self._stem}.studio.json", self.text().encode())

    def text(self) -> str:
        """What the sliders say."""
        posing = self.session.posing
        kept = {"format": FORMAT, "machine": posing.mechanism.name, "params": posing.params, "drivers": posing.held}
        return json.dumps(kept | {"pose": {n: float(f"{x:.6g}") for n, x in posing.state.q.items()}}, indent=2)

    def link(self) -> None:
        """Show the address that opens the studio as it is now."""
        text = base64.urlsafe_b64encode(json.dumps(json.loads(self.text()), separators=(",", ":")).encode()).decode()
        if not LINK.fullmatch(text):
            raise BadValue(f"{self.session.mechanism.name!r} has too many numbers for a link; use Save changes")
        self.address.value, self.address.visible = f"{self.session.address}/?state={text}", True

    def open(self) -> None:
        """Go to the state that the page's link asks for."""
        try:
            content = base64.b64decode(self.session.wish, altchars=b"-_", validate=True)
        except binascii.Error:
            raise BadFile("the link is not whole; copy it again") from None
        self.take(content)

    def load(self) -> None:
        """Take a file that `save` wrote."""
        self.take(self.chosen.value.content)

    def take(self, content: bytes) -> None:
        """Set the sliders as a file says, or refuse it."""
        kept = checked(content, self.panel.params, self.panel.sliders, self.session.mechanism.q_names)
        self.panel.put(kept["params"], kept["drivers"])
        self.session.posing.jump(kept["pose"], kept["drivers"], kept["params"])
        self.panel.update()

    def export(self) -> None:
        """Send the machine to the browser as a model file whose first configuration is the present one."""
        import saltus as sl

        m, state = self.session.mechanism, self.session.posing.state
        m.keyframes[POSED] = {"near": dict(state.q.items()), "params": dict(state.params)}
        with tempfile.TemporaryDirectory() as folder:
            path = sl.write(self.session.system, Path(folder) / f"{self._stem}.saltus.yaml", start=POSED)
            self._send(path.name, path.read_bytes())


def checked(content: bytes, params: Any, drivers: Any, pose: Any) -> dict[str, dict[str, float]]:
    """Numbers by name of a file of changes; BadFile says what is wrong with it."""
    if len(content) > LARGEST:
        raise BadFile(f"the file has {len(content)} bytes, more than changes of sliders take; save them again")
    try:
        kept = json.loads(content)
        if kept["format"] != FORMAT:
            raise ValueError(f"its format is {kept['format']!r}, expected {FORMAT!r}")
        out = {}
        for kind, known in (("params", params), ("drivers", drivers), ("pose", pose)):
            out[kind] = {str(n): float(v) for n, v in kept[kind].items()}
            strange = [n for n in out[kind] if n not in known]
            if strange:
                raise ValueError(f"this machine has no {', '.join(strange)}; it was saved from {kept.get('machine')!r}")
            if any(not abs(v) < 1e9 for v in out[kind].values()):
                raise ValueError("it holds numbers that are not finite")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise BadFile(f"the file holds no changes of this machine: {problem}") from None
    return out
