"""Carries messages between a worker group and the process that started it: one an epoch, each with an answer.

It is the class of a Ray actor with asyncio methods, so that one method can wait without blocking the others. Rank 0
sends a message and waits; the other process receives it and answers. At most one message is queued.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Bridge:
    """Messages one way, answers the other. After `end`, every message is answered with an end."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: asyncio.Queue[bool] = asyncio.Queue()
        self._ended = False

    async def send(self, message: dict[str, Any]) -> bool:
        """Sends a message and waits for its answer: True to go on, False to end."""
        if self._ended:
            return False
        await self._messages.put(message)
        return await self._answers.get()

    async def receive(self) -> dict[str, Any] | None:
        """Returns the next message; None if none will come."""
        return await self._messages.get()

    async def go_on(self) -> None:
        """Answers the last message: go on."""
        await self._answers.put(True)

    async def end(self) -> None:
        """Answers the last message, if there is one, and all later ones: end."""
        self._ended = True
        await self._answers.put(False)

    async def close(self) -> None:
        """Marks the end of all messages."""
        await self._messages.put(None)
