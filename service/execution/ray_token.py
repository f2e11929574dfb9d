"""The token that a Ray asks for: one of our own is its owner's alone, and one that was read before is read anew."""

from __future__ import annotations

import secrets
from pathlib import Path

import ray
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]  # written in Cython


def read_anew() -> None:
    """Has Ray read its token where the environment says now: a process keeps the first that it read.

    A session with another cluster, before this one, would have left its own there.
    """
    if not ray.is_initialized():
        AuthenticationTokenLoader.instance().reset_cache()


def keep_own() -> None:
    """Sees to it that the token of a Ray of our own, which Ray would write for all to read, is its owner's alone."""
    token = Path("~/.ray/auth_token").expanduser()
    token.parent.mkdir(parents=True, exist_ok=True)
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
