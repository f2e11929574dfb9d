"""Ports of loopback for servers that are started later, and perhaps killed and started again at the same address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """A port that belongs to the block: its server may bind it at any time, and no other process is given it.

    A socket that is bound and does not listen keeps the port: the kernel gives nobody else a port that is bound. With
    SO_REUSEADDR on both sides a server may bind it too (asyncio, gRPC and PostgreSQL set it, `server.py` of uvicorn by
    asyncio). Who connects while no server listens is refused.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
