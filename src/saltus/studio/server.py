"""serve: the studio on loopback, one session a page; on another address only behind a token."""

from __future__ import annotations

import contextlib
import io
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from saltus.errors import BadValue
from saltus.studio import page
from saltus.studio.gate import Gate

if TYPE_CHECKING:
    from saltus.studio.session import Session

LOOPBACK = "127.0.0.1"


class Studio:
    """A running studio: `url` to open, `sessions` by page, `stop()`."""

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        port: int = 8080,
        host: str | None = None,
        listening: Callable[[str], Any] | None = None,
    ) -> None:
        self.load = load
        self._spare: list[Any] = []
        self._loaded = threading.Event()
        self._open = True
        self.sessions: dict[int, Session] = {}
        self._lock = threading.Lock()
        inner = port if host is None else port + 1  # the gate takes the port that was asked for
        try:
            with _quiet():
                self.server = page.server(host=LOOPBACK, port=inner, verbose=False, label="Saltus")
        except ImportError as problem:
            raise BadValue("the studio needs viser; install it with: pip install 'saltus[studio]'") from problem
        light(self.server.scene)
        self.server.on_client_connect(self._came)
        self.server.on_client_disconnect(self._left)
        self.gate: Gate | None = None
        self.url = f"http://{LOOPBACK}:{self.server.get_port()}/"
        try:
            if host is not None:
                token = secrets.token_urlsafe(18)
                self.gate = Gate(host, port, self.server.get_port(), token)
                self.url = f"http://{host}:{self.gate.port}/?token={token}"
            if listening is not None:
                listening(self.url)
            self._spare.append(load())  # while the browser loads the page; refuses a bad model here
        except BaseException:
            self.stop()
            raise
        self._loaded.set()

    def _came(self, client: Any) -> None:
        from saltus.studio.session import Session  # brings the whole model with it, and pages can be asked for before

        self._loaded.wait()
        if not self._open:
            return
        with self._lock:
            model = self._spare.pop() if self._spare else None
        session = Session(client, model if model is not None else self.load(), self.load)
        with self._lock:
            self.sessions[client.client_id] = session
        session.thread.start()
        if client.client_id not in self.server.get_clients():  # it left before its model was there
            self._left(client)

    def _left(self, client: Any) -> None:
        with self._lock:
            session = self.sessions.pop(client.client_id, None)
        if session is not None:
            session.close()

    def stop(self) -> None:
        """End every session and the server."""
        self._open = False
        self._loaded.set()
        with self._lock:
            open_now, self.sessions = list(self.sessions.values()), {}
        for session in open_now:
            session.close()
        if self.gate is not None:
            self.gate.close()
        with _quiet():
            self.server.stop()


def _quiet() -> contextlib.redirect_stdout[io.StringIO]:
    """Keep viser from printing an address of its own."""
    return contextlib.redirect_stdout(io.StringIO())


def serve(
    load: Callable[[], Any],
    *,
    port: int = 8080,
    host: str | None = None,
    listening: Callable[[str], Any] | None = None,
) -> Studio:
    """Start a studio for the model that `load()` builds; `load` must be importable, for work goes to other processes.

    The port may be another if the one asked for is taken: `studio.url` says. With `host` (an address of this machine)
    others can come in, with the token that is part of the url. `listening(url)` is called as soon as pages can be
    asked for, before the model is built: a browser takes as long to load its page.
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
