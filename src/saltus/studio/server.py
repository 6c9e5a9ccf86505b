"""serve: the studio, one session per page, behind a gate that wants the token."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable
from typing import Any

from saltus.errors import BadValue
from saltus.studio import page
from saltus.studio.gate import Gate

LOOPBACK = "127.0.0.1"


class Studio:
    """A running studio: `url` to open, `sessions` by page, `stop()`."""

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        port: int = 8080,
        host: str | None = None,
        listening: Callable[[Studio], Any] | None = None,
    ) -> None:
        self.load = load
        self._spare: list[Any] = []
        self._loaded = threading.Event()
        self._open = True
        self.sessions: dict[int, Any] = {}  # Session by page
        self._lock = threading.Lock()
        self.host = host or LOOPBACK
        _can_listen(self.host)
        self.gate = Gate(self.host)
        with _quiet():
            self.server = page.server(self.gate, host=self.host, port=port, verbose=False, label="Saltus")
        light(self.server.scene)
        self.server.on_client_connect(self._came)
        self.server.on_client_disconnect(self._left)
        self.url = self.gate.address(self.host, self.server.get_port())
        try:
            if listening is not None:
                listening(self)
            self._spare.append(load())  # while the browser loads the page; refuses a bad model here
        except BaseException:
            self.stop()
            raise
        self._loaded.set()

    def _came(self, client: Any) -> None:
        from saltus.studio.panels import furnish  # bring the whole model with them, and pages can be asked for before
        from saltus.studio.session import Session

        def here() -> bool:
            return self._open and client.client_id in self.server.get_clients()

        self._loaded.wait()
        if not here():
            return
        with self._lock:
            model = self._spare.pop() if self._spare else None
        visit = page.visit(self.server, client.client_id)
        session = Session(client, model if model is not None else self.load(), self.load, furnish, here, *visit)
        with self._lock:
            self.sessions[client.client_id] = session
        session.thread.start()
        if not here():  # it left before it was in the list of those that are closed
            self._left(client)

    def _left(self, client: Any) -> None:
        with self._lock:
            session = self.sessions.pop(client.client_id, None)
        if session is not None:
            session.close()

    def ticket(self) -> str:
        """Address that lets one visitor in, once: for a browser that is started with it."""
        return self.gate.address(self.host, self.server.get_port(), once=True)

    def stop(self) -> None:
        """End every session and the server."""
        self._open = False
        self._loaded.set()
        with self._lock:
            open_now, self.sessions = list(self.sessions.values()), {}
        for session in open_now:
            session.close()
        with _quiet():
            self.server.stop()


def _quiet() -> contextlib.redirect_stdout[io.StringIO]:
    """Keep viser from printing an address of its own."""
    return contextlib.redirect_stdout(io.StringIO())


def _can_listen(host: str) -> None:
    """Refuse an address that is not this machine's; a port that is taken is no reason."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((host, 0))
    except OSError as problem:
        raise BadValue(f"cannot listen on {host}: {problem}; give an address of this machine", host=host) from problem


def serve(
    load: Callable[[], Any],
    *,
    port: int = 8080,
    host: str | None = None,
    listening: Callable[[Studio], Any] | None = None,
) -> Studio:
    """Start a studio for the model that `load()` builds; `load` must be importable, for work goes to other processes.

    The port may be another if the one asked for is taken, and 0 lets the system choose: `studio.url` says, with the
    token without which nobody comes in. With `host` (an address of this machine) others can reach it.
    `listening(studio)` is called as soon as pages can be asked for, before the model is built: a browser takes as long
    to load its page.
    """
    return Studio(load, port=port, host=host, listening=listening)


def light(scene: Any) -> None:
    """Light a scene with one lamp and an even glow.

    viser's own light (an environment map and cascades of lamps) costs most of a frame where there is no graphics card.
    """
    scene.configure_environment_map(hdri=None)
    scene.configure_default_lights(enabled=False)
    scene.add_light_ambient("/glow", intensity=1.3)
    scene.add_light_directional("/lamp", intensity=2.2, position=(-0.4, -1.0, 0.9))
