"""Attacks on what runs: requests to the studio by strangers, and kills of sweeps, workers and pages."""

from __future__ import annotations

import base64
import contextlib
import functools
import ipaddress
import json
import os
import random
import signal
import socket
import string
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import saltus as sl
from robust.attacks_data import square
from robust.wrong import Wrong
from saltus.studio.gate import Gate, asked
from saltus.studio.keeping import Keeping
from saltus.studio.pose import Posing

HOSTS = ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "10.0.0.7:9", "evil.example", "127.0.0.1.evil.example:8080"]
HOSTS += ["127.0.0.1:8080@evil", "evil@127.0.0.1", "", " ", "127.0.0.1:99999", "0x7f.1", "127.0.0.1:8080/x", "\xff"]
ORIGINS = ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8080", "file://", "", "*"]
LETTERS = {*string.ascii_letters, *string.digits, *"_=-"}  # of a state in a link
PATHS = ["/", "/?token=", "/?token=x", "/index.html", "/..%2f..%2fetc/passwd", "/?token[]=1", "//evil", "/\\evil", "?"]


def _answer(_connection: Any, request: Any) -> Any:
    """In place of viser: None for a WebSocket, a page for the rest."""
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    if "websocket" in "".join(request.headers.get_all("Upgrade")):
        return None
    return Response(200, "OK", Headers(), b"secret")


def _may(host: list[str], origin: list[str], cookie: bool, upgrade: bool) -> bool:
    """Who may come in, said once more and in other words than gate.py's."""
    if len(host) != 1 or not cookie:
        return False
    name, _, port = host[0].rpartition(":")
    if not port.isdigit():
        name, port = host[0], "80"
    if int(port) > 65535:
        return False
    if name != "localhost":
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
    return origin == [f"http://{host[0]}"] or (not origin and not upgrade)


def request(seed: int, _folder: Path) -> str:
    """Ask the gate, with whatever a stranger may send."""
    from websockets.datastructures import Headers
    from websockets.http11 import Request

    rng = random.Random(seed)
    gate = Gate("127.0.0.1")
    token = gate.address("127.0.0.1", 1).partition("token=")[2]
    host = [rng.choice(HOSTS) for _ in range(rng.choice([1, 1, 1, 1, 1, 0, 2]))]
    if rng.random() < 0.5:
        host = ["127.0.0.1:8080"]
    origin = [rng.choice([*ORIGINS, f"http://{host[0]}" if host else "x"]) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    if rng.random() < 0.3:
        origin = [f"http://{h}" for h in host[:1]]
    cookie = rng.random() < 0.6
    upgrade = rng.random() < 0.5
    headers = Headers()
    for name, values in (("Host", host), ("Origin", origin)):
        for value in values:
            headers[name] = value
    held = token if cookie else rng.choice(["", "x", token[:-1], token + "x", "\xff", token.upper()])
    if cookie or rng.random() < 0.7:
        noise = rng.choice(["", "a=b; ", 'q="; ', "x; "]) if not cookie else ""
        headers["Cookie"] = f"{noise}{gate._cookie}={held}"
    if upgrade:
        headers["Upgrade"] = "websocket"
    state = _state(rng) if rng.random() < 0.5 else ""
    asking = Request(f"/?state={state}" if state else rng.choice(PATHS), headers)
    state = state.partition("&")[0]
    answer = gate.before(_answer)(None, asking)
    came_in = answer is None or answer.body == b"secret"
    plain = 0 < len(state) <= 6000 and not set(state) - LETTERS
    if answer is not None and answer.status_code == 303:  # to the page whose WebSocket asks for the state
        if not plain or answer.headers["Location"] != f"/?websocket=ws://{host[0]}/?state={state}":
            raise Wrong(f"state {state[:80]!r} was sent on to {answer.headers['Location'][:120]!r}")
        came_in = True
    if came_in != _may(host, origin, cookie, upgrade):
        raise Wrong(f"host {host}, origin {origin}, cookie {cookie}, upgrade {upgrade}: came in is {came_in}")
    if not came_in:
        return "403"
    if asked(asking) != (state if plain else ""):
        raise Wrong(f"state {state[:80]!r} was taken for {asked(asking)[:80]!r}")
    if not plain:
        return "came in, as it may"
    keeping, posing = _page(state)
    keeping.open()  # refuses what it cannot take
    if not posing.state.gap < 1e-9:
        raise Wrong(f"a link left loops open by {posing.state.gap:.1e} m")
    return "came in with a state"


def _state(rng: random.Random) -> str:
    """What a link may carry: changes of sliders, spoiled, or anything else."""
    kept: Any = {"format": "saltus-studio-1", "machine": "four-bar", "params": {}, "drivers": {}, "pose": {}}
    kept["drivers"] = {"crank": rng.choice([0.3, -2.0, 1e8, 1e300, "0.3", None, [1.0], True])}
    kept["params"] = {
        rng.choice(["l_1", "l_2", "evil", "__class__", ""]): rng.choice([0.02, 0, -1.0, 1e-300, "nan", {}])
    }
    kept["pose"] = {rng.choice(["crank", "rocker", "coupler"]): rng.choice([0.1, -3.0, 1e8, "1e999"])}
    if rng.random() < 0.4:
        kept = {**kept, "params": {}, "drivers": {"crank": rng.uniform(-3, 3)}}
    if rng.random() < 0.2:
        kept[rng.choice(list(kept))] = rng.choice([None, [], 7, "x", {"a": {"b": {}}}])
    data = json.dumps(kept).encode()
    spoiled = [data, data, data[: rng.randrange(len(data))], b"[" * 4000, b"\xff" * 50, b"", rng.randbytes(200)]
    text = base64.urlsafe_b64encode(rng.choice(spoiled)).decode()
    more = [
        text,
        text,
        text,
        text[:-1],
        text * 20,
        "%0d%0aSet-Cookie:%20a=b",
        "<script>",
        "..%2f..",
        "\xff",
        text + "&token=x",
    ]
    return rng.choice(more)


@functools.cache
def _machine() -> Any:
    return sl.zoo.four_bar()


def _page(wish: str) -> tuple[Any, Any]:
    """The part of a page that goes to the state of a link, and the machine it moves."""
    m = _machine()
    posing = Posing(m, m.keyframe("middle"))
    panel = SimpleNamespace(params=posing.params, sliders=posing.held, put=lambda *_: None, update=lambda: None)
    keeping = Keeping.__new__(Keeping)
    keeping.session, keeping.panel = SimpleNamespace(wish=wish, mechanism=m, posing=posing), panel
    return keeping, posing


# ---- kills ---------------------------------------------------------------------------------------------------------

SWEEP = """
import sys, time
import numpy as np
import saltus as sl
from robust.attacks_studio import slowly
if __name__ == "__main__":
    sl.sweep(slowly, {"a": np.arange(24.0)}, sys.argv[1], workers=1, chunk=2, seed=7)
"""


def slowly(points: dict[str, np.ndarray], generators: list[Any]) -> dict[str, np.ndarray]:
    """A task that takes a while."""
    time.sleep(0.03)
    return square(points, generators)


def kill(seed: int, folder: Path) -> str:
    """Kill a sweep, a worker or a page at some moment; what is left is right, and nothing stays behind."""
    rng = random.Random(seed)
    return rng.choice([_killed_sweep, _killed_worker, _closed_pages])(rng, folder)


def _killed_sweep(rng: random.Random, folder: Path) -> str:
    script, store = folder / "sweep.py", folder / "s"
    script.write_text(SWEEP)
    root = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    client = subprocess.Popen([sys.executable, str(script), str(store)], env=env, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.5, 6.0))
    workers = _children(client.pid)
    client.send_signal(rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
    client.wait()
    _until(lambda: not any(map(_lives, workers)), "workers of a killed sweep stayed")
    data = sl.sweep(slowly, {"a": np.arange(24.0)}, store, workers=1, chunk=2, seed=7)
    if not data.done.values.all() or not np.array_equal(data.square.values, np.arange(24.0) ** 2):
        raise Wrong("a killed sweep went on to other numbers")
    return "the sweep went on"


def _load() -> Any:
    from saltus.cli.machines import model_of

    return model_of("hopper")


def _killed_worker(rng: random.Random, _folder: Path) -> str:
    from saltus.studio.worker import Worker

    worker = Worker(_load)
    options = {"start": "takeoff", "control": "none", "domain": "flight", "params": {}}
    try:
        worker.do("run", formulation="SPF", until=1e5, **options)
        time.sleep(rng.uniform(0.0, 4.0))
        worker._process.kill()
        words: list[Any] = []

        def told() -> bool:
            words.extend(worker.read())
            return any(kind == "error" and "crashed" in str(said) for kind, said in words)

        _until(told, "a killed worker was not noticed")
    finally:
        worker.close()
    return "told in the page"


@functools.cache
def _studio() -> Any:
    from saltus.studio import serve

    return serve(_load, port=0)


def _children(pid: int) -> set[int]:
    """Processes that a process started."""
    found: set[int] = set()
    with contextlib.suppress(OSError):  # it may end meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= {int(child) for child in (task / "children").read_text().split()}
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(reached: Callable[[], bool], otherwise: str, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            raise Wrong(otherwise)
        time.sleep(0.05)


def _closed_pages(rng: random.Random, _folder: Path) -> str:
    """Pages that come, say what a browser says first, and leave; and heads that are no HTTP."""
    import msgspec
    import viser
    from websockets.sync.client import connect

    studio = _studio()
    port = studio.server.get_port()
    token = studio.url.partition("token=")[2]
    for _ in range(5):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
            raw.sendall(bytes(rng.randrange(256) for _ in range(rng.randint(1, 400))))
    own = f"127.0.0.1:{port}"
    headers = {"Cookie": f"{studio.gate._cookie}={token}"}
    camera = {
        "type": "ViewerCameraMessage",
        "wxyz": (1.0, 0.0, 0.0, 0.0),
        "position": (0.0, -1.0, 0.0),
        "image_height": 600,
        "image_width": 800,
        "fov": 1.0,
        "near": 0.01,
        "far": 100.0,
        "look_at": (0.0, 0.0, 0.0),
        "up_direction": (0.0, 0.0, 1.0),
    }
    before = _children(os.getpid())

    def more() -> bool:
        return bool(_children(os.getpid()) - before - _trackers())

    for wait in (None, *(rng.uniform(0.0, 1.5) for _ in range(4))):
        with connect(
            f"ws://{own}",
            origin=f"http://{own}",
            additional_headers=headers,
            subprotocols=[f"viser-v{viser.__version__}"],
        ) as page:
            page.send(msgspec.msgpack.encode(camera))
            if wait is None:  # this one stays until it has its worker, or the attack would prove nothing
                _until(more, "a page got no worker")
            else:
                time.sleep(wait)

    def gone() -> bool:
        threads = [t for t in threading.enumerate() if t.name.startswith("studio page")]
        return not studio.sessions and not threads and not more()

    _until(gone, "pages, threads or processes stayed")
    return "nothing stayed"


def _trackers() -> set[int]:
    """Python's own process that looks after semaphores, which stays."""
    from multiprocessing import resource_tracker

    pid = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
    return set() if pid is None else {pid}
