"""What stands between a worker group and the process that asked for it: a message an epoch, and a verdict on each.

An actor's class, of asyncio alone: every method may wait without holding up the others. Rank 0 says; the asker hears,
then answers. Nothing is queued beyond one message, so nobody is left holding what nobody will take.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Bridge:
    """Messages one way, verdicts the other. Once ended, every message is answered with an end."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._verdicts: asyncio.Queue[bool] = asyncio.Queue()
        self._ended = False

    async def say(self, message: dict[str, Any]) -> bool:
        """Gives a message and waits for its verdict: True to go on, False to end."""
        if self._ended:
            return False
        await self._said.put(message)
        return await self._verdicts.get()

    async def hear(self) -> dict[str, Any] | None:
        """The next message; None where none will come."""
        return await self._said.get()

    async def go_on(self) -> None:
        """Answers the message heard last: go on."""
        await self._verdicts.put(True)

    async def end(self) -> None:
        """Answers the message heard last, if there is one, and all to come: end."""
        self._ended = True
        await self._verdicts.put(False)

    async def close(self) -> None:
        """No message will come any more."""
        await self._said.put(None)
