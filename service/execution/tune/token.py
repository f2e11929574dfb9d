"""Ray's auth token: keeps ~/.ray/auth_token readable by its owner alone, and clears the copy that Ray has cached."""

from __future__ import annotations

import secrets
from pathlib import Path

import ray
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]  # written in Cython


def clear_cached_token() -> None:
    """Makes Ray read its token again, from the place that the environment names now.

    A process keeps the first token that it read, which may be that of another cluster.
    """
    if not ray.is_initialized():
        AuthenticationTokenLoader.instance().reset_cache()


def protect_local_token() -> None:
    """Makes the token of local Ray sessions readable by its owner alone; Ray would write it for all to read."""
    token = Path("~/.ray/auth_token").expanduser()
    token.parent.mkdir(parents=True, exist_ok=True)
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
