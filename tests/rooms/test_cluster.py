"""Room: what surrounds a Ray of our own."""

import stat
from pathlib import Path

from service import cluster
from service.placement import Placement


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_token_of_a_ray_of_our_own_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    cluster._keep_token()
    text = token.read_text()
    assert (mode(token), len(text)) == (0o600, 64)
    token.chmod(0o644)
    cluster._keep_token()
    assert (mode(token), token.read_text()) == (0o600, text)


def test_a_run_asks_for_its_cores_and_a_groups_asker_for_none():
    alone = cluster._resources(Placement(at_once=2, threads=3))
    assert alone.bundles == [{"CPU": 3.0}]
    asker = cluster._resources(Placement(at_once=2, threads=3, workers=2))
    assert [set(bundle) for bundle in asker.bundles] == [{"memory"}]
    on_gpu = cluster._resources(Placement(at_once=1, device="cuda"))
    assert on_gpu.bundles == [{"CPU": 1.0, "GPU": 1.0}]
