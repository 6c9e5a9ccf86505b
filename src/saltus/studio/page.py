"""The page: viser's own, with a script of ours that runs before it, behind the gate."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Any

from saltus.errors import BadValue, naming_extras
from saltus.studio.gate import Gate, asked

_starting = threading.Lock()
_log = logging.getLogger("saltus.studio.connections")
_log.addFilter(lambda record: record.msg != "opening handshake failed")  # whoever can reach the port can cause that

SCRIPT = """(() => {
  // viser's page unpacks its program and adds it as a script: that one may run (see the policy in gate.py), no other
  const nonce = document.currentScript.nonce, create = document.createElement;
  document.createElement = function (name, options) {
    const made = create.call(this, name, options);
    if (name === "script") {
      made.nonce = nonce;
      document.createElement = create;
    }
    return made;
  };

  // viser turns its camera with the arrow keys, also when they move a slider or choose a tab: those keys stay there
  addEventListener("DOMContentLoaded", () => document.body.addEventListener("keydown", (event) => {
    if (event.target.closest("[role=slider], [role=tab]")) event.stopPropagation();
  }));

  // without a graphics card the cores that compute draw too
  const context = HTMLCanvasElement.prototype.getContext;
  const software = () => {
    const gl = context.call(document.createElement("canvas"), "webgl2");
    const known = gl?.getExtension("WEBGL_debug_renderer_info");
    return known && /swiftshader|llvmpipe|software/i.test(gl.getParameter(known.UNMASKED_RENDERER_WEBGL));
  };
  // viser says so over the picture; the studio's page in the documentation says it, too
  const hush = () => new MutationObserver(() => {
    for (const box of document.querySelectorAll("[role=alert]"))
      if (box.textContent.startsWith("Software WebGL")) box.querySelector("button")?.click();
  }).observe(document.documentElement, { childList: true, subtree: true });
  const save = () => {
    hush();
    // no multisampling
    HTMLCanvasElement.prototype.getContext = function (kind, options) {
      return context.call(this, kind, { ...options, antialias: false });
    };

    // viser shades every pixel for a picture behind the scene, also where there is none
    window.__THREE_DEVTOOLS__ = new EventTarget();
    window.__THREE_DEVTOOLS__.addEventListener("observe", ({ detail: renderer }) => {
      if (!renderer.isWebGLRenderer) return;
      const render = renderer.render;
      renderer.render = (scene, camera) => {
        for (const { material } of scene.children)
          if (material?.uniforms?.hasDepth) material.visible = material.uniforms.enabled.value;
        render.call(renderer, scene, camera);
      };
    });

    // viser draws without a pause while anything changes: 30 pictures per second leave it time to listen
    const frame = requestAnimationFrame.bind(window);
    let waiting = new Map(), due = waiting, asked = false, count = 0, last = 0;
    const draw = (now) => {
      if (now - last < 30) { frame(draw); return; }
      due = waiting;
      waiting = new Map();
      asked = false;
      last = now;
      for (const callback of due.values())
        try { callback(now); } catch (problem) { reportError(problem); }
    };
    window.requestAnimationFrame = (callback) => {
      if (!asked) frame(draw);
      asked = true;
      waiting.set(++count, callback);
      return count;
    };
    window.cancelAnimationFrame = (number) => { waiting.delete(number); due.delete(number); };
  };
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    HTMLCanvasElement.prototype.getContext = context;
    if (software()) save();
    return this.getContext(kind, options);
  };
})();"""


class Folder:
    """What viser serves in place of the folder of its client: one page."""

    def __init__(self, page: bytes | None) -> None:
        self.page = page

    def __truediv__(self, name: str) -> Folder:
        return self if name == "index.html" else Folder(None)

    def is_file(self) -> bool:
        """Whether there is such a page."""
        return self.page is not None

    def read_bytes(self) -> bytes:
        """The page."""
        return self.page or b""


def visit(running: Any, client_id: int) -> tuple[str, str]:
    """The address a page was asked for under, and the state that its link names ("" if none)."""
    request = running._websock_server._live_connections[client_id].request  # viser keeps it, and has no name for it
    return f"http://{request.headers['Host']}", asked(request)


def server(gate: Gate, **options: Any) -> Any:
    """Start a server of viser whose page begins with our script, and which answers nobody the gate refuses."""
    with naming_extras():
        import viser
    from viser import infra
    from websockets.asyncio import server as sockets

    html = Path(viser.__file__).with_name("client").joinpath("build", "index.html").read_text(encoding="utf-8")
    named = re.sub(r"<script\b", f'<script nonce="{gate.nonce}"', html)
    ours = f'<head><script nonce="{gate.nonce}">{SCRIPT}</script>'
    folder = Folder(named.replace("<head>", ours, 1).encode())
    plain, serve = infra.WebsockServer, sockets.serve
    started: list[Any] = []

    def guarded(*given: Any, **more: Any) -> Any:
        started.append(more)
        return serve(*given, **{**more, "process_request": gate.before(more["process_request"]), "logger": _log})

    with _starting:  # viser has no setting for either, and both are asked for while it starts
        infra.WebsockServer = lambda **given: plain(**{**given, "http_server_root": folder})  # type: ignore[misc,assignment]
        sockets.serve = guarded  # type: ignore[misc,assignment]
        try:
            running = viser.ViserServer(**options)
        finally:
            infra.WebsockServer, sockets.serve = plain, serve  # type: ignore[misc]
    if len(started) != 1:  # another version of viser may start otherwise: rather none than one without a gate
        running.stop()
        raise BadValue(
            f"viser {viser.__version__} starts its server in a way that the studio cannot guard; install 1.1.1"
        )
    return running
