"""Debian's headless Chromium for end-to-end tests, driven by playwright; installed by apt where it is missing."""

import os
import shutil
import subprocess

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]


def chromium():
    """Path of Chromium; skips where there is none and none can be installed."""
    found = shutil.which("chromium")
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update"], capture_output=True)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], capture_output=True)
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium, and apt-get as root could not install it; install Debian's package chromium")
    return found


def launch():
    """A playwright and its browser; the caller closes both."""
    api = pytest.importorskip("playwright.sync_api", reason="the test extra installs playwright")
    path = chromium()
    manager = api.sync_playwright().start()
    return manager, manager.chromium.launch(executable_path=path, args=FLAGS)


# viser's renderer of Gaussian splats, which the studio does not use, asks for what the studio's policy denies
# and its way to drag a part of the scene cannot keep the page from scrolling, which it need not
KNOWN = (
    "Evaluating a string as JavaScript violates the following Content Security Policy directive",
    "Unable to preventDefault inside passive event listener invocation.",
)


def watched(page, complaints):
    """Note errors on the console and anything asked of another machine."""

    def note(text):
        if not text.startswith(KNOWN):
            complaints.append(text)

    page.on("console", lambda m: note(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: note(str(e)))
    local = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:")
    page.on("request", lambda r: None if r.url.startswith(local) else complaints.append(f"asked for {r.url}"))
    return page
