"""The studio in Debian's Chromium: time to the first picture, updates while a slider is dragged, playing a long run.

All is measured inside the page, by the pictures that WebGL draws. Without a graphics card the browser draws on the
same cores that compute, so these numbers mean something on an otherwise idle machine only.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
import statistics
import subprocess
import sys
import time
from typing import Any

from bench import Row

TITLE = "Studio in the browser (headless, software rendering)"
FLAGS = ("--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
PORT = 18490
DRAG, PLAY = 5.0, 8.0  # s that are watched
LONG = 60.0  # s of the run that is played

# Every picture on the screen is noted with its time (ms), the vertices drawn and a sum over all places of things.
WATCH = """
(() => {
  const log = (window.pictures = []), gl = WebGL2RenderingContext.prototype;
  let screen = true, matrices = 0;
  const bind = gl.bindFramebuffer, place = gl.uniformMatrix4fv;
  gl.bindFramebuffer = function (target, buffer) { screen = buffer === null; return bind.call(this, target, buffer); };
  gl.uniformMatrix4fv = function (where, flip, m) {
    for (let k = 0; k < m.length; k++) matrices = (matrices * 31 + m[k]) % 1e6;
    return place.call(this, where, flip, m);
  };
  for (const [name, count] of Object.entries({
    drawElements: 1, drawArrays: 2, drawElementsInstanced: 1, drawArraysInstanced: 2 })) {
    const draw = gl[name];
    gl[name] = function (...given) {
      const now = document.timeline.currentTime;
      if (screen && (!log.length || log.at(-1).frame !== now)) {
        log.push({ frame: now, wall: Date.now(), vertices: 0 }); matrices = 0;
      }
      if (screen) { log.at(-1).vertices += given[count]; log.at(-1).sum = matrices; }
      return draw.apply(this, given);
    };
  }
})();
"""


async def measure() -> dict[str, float]:
    """Start the command, open its page, drag a slider, run for a minute, play it."""
    from playwright.async_api import async_playwright

    found: dict[str, float] = {}
    async with async_playwright() as api:
        browser = await api.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = await browser.new_page(viewport={"width": 1280, "height": 720}, bypass_csp=True)  # it waits by eval
        page.set_default_timeout(120_000)
        await page.add_init_script(WATCH)
        script = "from saltus.cli.app import app; app()"
        begin = time.time()
        command = subprocess.Popen(
            [sys.executable, "-c", script, "studio", "bolt", "--no-browser", "--port", str(PORT)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert command.stdout is not None
            match = re.search(r"http://\S+", command.stdout.readline())
            assert match is not None
            found["listening"] = time.time() - begin
            await page.goto(match.group(0), wait_until="commit")
            seen = "window.pictures.find((p) => p.vertices > 1500)"
            await page.wait_for_function(seen)
            found["picture"] = await page.evaluate(f"{seen}.wall") / 1000 - begin
            await page.get_by_text("transmission angle").first.wait_for()
            found["panel"] = time.time() - begin
            await page.wait_for_timeout(2000)
            found |= await drag(page)
            found |= await play(page)
        finally:
            command.terminate()
            command.wait()
            await browser.close()
    return found


async def drag(page: Any) -> dict[str, float]:
    """Drag the slider of a length to and fro, a hundred moves of the mouse per second whatever the page does."""
    thumb = page.get_by_role("slider").nth(4)
    await thumb.scroll_into_view_if_needed()
    box = await thumb.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    await page.mouse.move(x, y)
    await page.mouse.down()
    await page.evaluate("window.pictures.length = 0")
    begin, moves = time.monotonic(), []
    while time.monotonic() - begin < DRAG:
        away = 30 * abs((time.monotonic() - begin) % 2 - 1)
        moves.append(asyncio.create_task(page.mouse.move(x + away, y)))
        await asyncio.sleep(0.01)
    pictures = await page.evaluate("window.pictures")
    await asyncio.gather(*moves)
    await page.mouse.up()
    return {"drag": len(changes(pictures)) / DRAG, "drag frames": len(pictures) / DRAG}


async def play(page: Any) -> dict[str, float]:
    """Run for a minute and play it."""
    await page.get_by_role("tab", name="Run").click()
    await page.get_by_label("Duration (s)").fill(f"{LONG:g}")
    await page.keyboard.press("Tab")
    await page.get_by_role("button", name="Run", exact=True).click()
    await page.get_by_text(re.compile(rf"finished at {LONG:g} s")).wait_for()
    await page.wait_for_timeout(3000)
    await page.evaluate("window.pictures.length = 0")
    await page.wait_for_timeout(1000 * PLAY)
    times = changes(await page.evaluate("window.pictures"))
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    return {
        "play": len(times) / PLAY,
        "play middle": statistics.median(gaps) if gaps else float("inf"),
        "play worst": gaps[int(0.95 * len(gaps))] if gaps else float("inf"),
    }


def changes(pictures: list[dict[str, float]]) -> list[float]:
    """Times (ms) of the pictures that differ from the one before."""
    return [b["frame"] for a, b in itertools.pairwise(pictures) if a["sum"] != b["sum"]]


def run() -> list[Row]:
    """Measure."""
    if shutil.which("chromium") is None:
        return [Row("studio", "skipped, there is no chromium")]
    found = asyncio.run(measure())
    return [
        Row("pages can be asked for, after the command", f"{found['listening']:.3g} s"),
        Row.at_most("first picture of the machine, after the command", found["picture"], 3, " s"),
        Row("panel complete, after the command", f"{found['panel']:.3g} s"),
        Row("slider of a length dragged: new poses", f"{found['drag']:.3g} per second", ">= 20", found["drag"] >= 20),
        Row("pictures drawn meanwhile", f"{found['drag frames']:.3g} per second"),
        Row("a run of 60 s played: new poses", f"{found['play']:.3g} per second", ">= 20", found["play"] >= 20),
        Row("time between them, median", f"{found['play middle']:.3g} ms"),
        Row("time between them, 95 of 100 below", f"{found['play worst']:.3g} ms"),
    ]
