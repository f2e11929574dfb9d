"""Room: the token that a Ray asks for."""

import stat
from pathlib import Path

from ray._raylet import AuthenticationTokenLoader

from service.execution.ray_session import clear_cached_token, protect_local_token


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_token_of_a_ray_of_our_own_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    protect_local_token()
    text = token.read_text()
    assert (mode(token), len(text)) == (0o600, 64)
    token.chmod(0o644)
    protect_local_token()
    assert (mode(token), token.read_text()) == (0o600, text)


def test_a_token_is_read_where_the_environment_says_now(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    seen = []
    for letter in "ab":
        (tmp_path / letter).write_text(letter * 48)
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / letter))
        clear_cached_token()
        seen.append(AuthenticationTokenLoader.instance().get_raw_token(ignore_auth_mode=True))
    clear_cached_token()
    assert seen[0] != seen[1]
