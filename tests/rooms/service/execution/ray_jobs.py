"""A server that speaks as Ray's Jobs API does, of one job whose log grows, and whose stream breaks where it is told."""

from __future__ import annotations

import asyncio
import threading
from importlib.metadata import version
from typing import Any

from aiohttp import web

JOB = "locus-reach-base-1"


class RayJobs:
    """One job. `log` is its whole log, `status` its state; `breaks`: after how many letters each connection breaks.

    `stands_still`: a connection does not break there, and sends nothing more; `refuses`: none is taken.
    """

    def __init__(self, breaks: tuple[int, ...] = (), *, stands_still: bool = False, refuses: bool = False) -> None:
        self.log, self.status = "", "RUNNING"
        self.breaks, self.stands_still, self.refuses = list(breaks), stands_still, refuses
        self.connections = self.fetched = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._begin())
        self._ready.set()
        self._loop.run_forever()

    async def _begin(self) -> None:
        app = web.Application()
        app.router.add_get("/api/version", self._version)
        app.router.add_get(f"/api/jobs/{JOB}", self._info)
        app.router.add_get(f"/api/jobs/{JOB}/logs", self._logs)
        app.router.add_get(f"/api/jobs/{JOB}/logs/tail", self._tail)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _version(self, request: Any) -> Any:
        return web.json_response({"version": "4", "ray_version": version("ray"), "session_name": ""})

    async def _info(self, request: Any) -> Any:
        said = {"type": "SUBMISSION", "submission_id": JOB, "status": self.status, "entrypoint": "python"}
        return web.json_response(said)

    async def _logs(self, request: Any) -> Any:
        self.fetched += 1
        return web.json_response({"logs": self.log})

    async def _tail(self, request: Any) -> Any:
        self.connections += 1
        if self.refuses:
            return web.Response(status=400)
        stream = web.WebSocketResponse()
        await stream.prepare(request)
        until = self.breaks.pop(0) if self.breaks else None
        sent = 0
        while until is None or sent < until:
            piece = self.log[sent : sent + 7 if until is None else min(sent + 7, until)]
            if not piece and until is None and self.status != "RUNNING":
                return stream
            if piece:
                await stream.send_str(piece)
                sent += len(piece)
            else:
                await asyncio.sleep(0.01)
        if self.stands_still:
            await asyncio.Event().wait()
        request.transport.abort()
        return stream

    async def _close(self) -> None:
        await self._runner.cleanup()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def end(self) -> None:
        """Ends the server."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
