"""One byte of a finished study's files changes: no verb fails, and no number changes unless `verify` names the file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import service
from service.reporting.latex import as_csv
from service.storage.home import Home
from service.terminal.live import events
from tests.rooms.service.execution.studies import arms, search
from tests.rooms.toy import conduct
from trainables.spec import LocusError

FILES = {
    "journal": "studies/*/journal.jsonl",
    "study": "studies/*/study.json",
    "answers": "outcomes/*/*.json",
    "weights": "outcomes/*/*.pt",
}
SHOWS: dict[str, Callable[[str, str], object]] = {
    "status": lambda id, home: service.status(home=home)[0].plain()["rows"],
    "status of one": lambda id, home: service.status(id, home=home)[0].plain()["rows"],
    "export": lambda id, home: as_csv(service.result(id, home=home)),
    "logs": lambda id, home: "\n".join(events(Home(Path(home)), id)),
    "verify": lambda id, home: [(check.name, check.ok, check.detail) for check in service.verify(id, home=home)],
}


def shown(id: str, home: Path) -> dict[str, str]:
    """What each verb shows; the sentence of one that refuses. Any other error is one that a test must not see."""
    found = {}
    for name, show in SHOWS.items():
        try:
            found[name] = str(show(id, str(home)))
        except LocusError as error:
            found[name] = f"refused: {error}"
    return found


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("study", "count"), [(arms, 6), pytest.param(arms, 100, marks=SLOW), pytest.param(search, 100, marks=SLOW)]
)
@pytest.mark.parametrize("kind", FILES)
def test_one_byte_changes_after_another(tmp_path, kind, study, count) -> None:
    edition, sound = study(), tmp_path / "sound" / "home"
    conduct(Home(sound), edition)
    (sound.parent / "victim").write_text("not of this home")
    id, chance, whole = edition.id, random.Random(f"{kind} {edition.id}"), shown(edition.id, sound)
    assert "False" not in whole["verify"]
    files = sorted(sound.glob(FILES[kind]))
    for number in range(count):
        home = tmp_path / str(number) / "home"
        shutil.copytree(sound.parent, home.parent)
        file = home / chance.choice(files).relative_to(sound)
        content = bytearray(file.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8) if number % 2 else chance.randrange(1, 256)
        file.write_bytes(content)
        why = (file.name, at, bytes(content[max(0, at - 20) : at + 20]))
        found = shown(id, home)
        named = found["verify"] != whole["verify"]
        assert found == whole or named, why
        for name in SHOWS.keys() - {"verify"}:
            refused = found[name].startswith("refused: ") or (name == "status" and found[name] == "[]")
            assert found[name] == whole[name] or refused or "torn" in found["verify"], (name, why)
        if count > 6 and number % 10 == 0:  # it takes a second
            try:
                service.report(id, home=str(home))
            except LocusError:
                assert named, why
        assert (home.parent / "victim").read_text() == "not of this home"
        assert {path.name for path in home.parent.iterdir()} == {"home", "victim"}
        shutil.rmtree(home.parent)
