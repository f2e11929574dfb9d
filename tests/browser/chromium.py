"""A headless Chromium, told what to do over its own protocol: open a page, wait for a condition, take a picture."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import LIMIT_S, until

CLOSED_PANEL = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
AT_REST = """
Promise.all(document.getAnimations().filter(one => Number.isFinite(one.effect?.getComputedTiming().endTime))
  .map(one => one.finished.catch(() => null)))
"""
"""Fulfilled once all that moves is in its place; what turns without end is not waited for."""


def has(*texts: str) -> str:
    """The JavaScript condition that a page shows some texts; line breaks count as spaces."""
    return f"{json.dumps(texts)}.every(one => document.body.innerText.replace(/\\s+/g, ' ').includes(one))"


def require_chromium() -> str:
    """The browser's program. Fails with a sentence where it is missing."""
    program = shutil.which("chromium")
    assert program, "chromium must be on the PATH (Debian: apt install chromium)"
    return program


class Chromium:
    """One browser with one page."""

    def __init__(self, profile: Path, width: int = 1720, height: int = 900) -> None:
        program = require_chromium()
        switches = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        switches += ["--remote-debugging-port=0", f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        with (profile / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [program, *switches, "about:blank"], stdout=log, stderr=log, start_new_session=True
            )
        said = profile / "DevToolsActivePort"  # Chromium's port, then a path

        def listens() -> bool:
            assert self.process.poll() is None, (profile / "log").read_text()
            return said.exists() and len(said.read_text().splitlines()) == 2

        until(listens, (profile / "log").read_text)
        self.address = f"127.0.0.1:{said.read_text().splitlines()[0]}"

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(LIMIT_S)

    def look(self, url: str, until: str, picture: Path) -> str:
        """The text of a page, once a JavaScript condition holds, and its picture."""
        return asyncio.run(self._look(url, until, picture))

    def evaluate(self, page: Path, expression: str, width: int, *, media: str = "screen") -> Any:
        """The value of a JavaScript expression on a file, in a window of a width, on a screen or in print."""
        return asyncio.run(self._evaluate(page, expression, width, media))

    async def _evaluate(self, page: Path, expression: str, width: int, media: str) -> Any:
        async with aiohttp.ClientSession() as session, session.ws_connect(await self._page(session)) as socket:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            await _ask(socket, "Emulation.setDeviceMetricsOverride", **size)
            await _ask(socket, "Emulation.setEmulatedMedia", media=media)
            await _ask(socket, "Page.navigate", url=page.as_uri())
            assert await self._wait(socket, f"location.href == {page.as_uri()!r} && document.readyState == 'complete'")
            return await _value(socket, expression)

    async def _page(self, session: aiohttp.ClientSession) -> str:
        async with session.get(f"http://{self.address}/json") as answer:
            return next(target for target in await answer.json() if target["type"] == "page")["webSocketDebuggerUrl"]

    async def _look(self, url: str, until: str, picture: Path) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(await self._page(session), max_msg_size=0) as socket,
        ):
            await _ask(socket, "Page.enable")
            await _ask(socket, "Page.addScriptToEvaluateOnNewDocument", source=CLOSED_PANEL)
            await _ask(socket, "Page.navigate", url="about:blank")
            await _ask(socket, "Page.navigate", url=url)
            held = await self._wait(socket, until)
            await _value(socket, AT_REST, awaitPromise=True)
            shot = await _ask(socket, "Page.captureScreenshot", format="png")
            picture.write_bytes(base64.b64decode(shot["data"]))
            text = await _value(socket, "document.body.innerText")
            assert held, f"{until} never held; see {picture}; the page said:\n{text}"
            return text

    async def _wait(self, socket: Any, until: str) -> bool:
        limit = time.monotonic() + LIMIT_S
        while time.monotonic() < limit:
            if await _value(socket, until):
                return True
            await asyncio.sleep(0.3)
        return False


async def _ask(socket: Any, method: str, **params: Any) -> dict:
    await socket.send_json({"id": 1, "method": method, "params": params})
    while True:
        said = await socket.receive_json()
        if said.get("id") == 1:
            return said.get("result", {})


async def _value(socket: Any, expression: str, **how: Any) -> Any:
    result = await _ask(socket, "Runtime.evaluate", expression=expression, returnByValue=True, **how)
    return result["result"].get("value")
