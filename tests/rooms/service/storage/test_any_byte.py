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

FILES: dict[str, str] = {
    "journal": "studies/*/journal.jsonl",
    "study": "studies/*/study.json",
    "answers": "outcomes/*/*.json",
    "weights": "outcomes/*/*.pt",
}
TABLES: dict[str, Callable[[str, str], str]] = {
    "status": lambda id, home: str(service.status(home=home)[0].plain()["rows"]),
    "status of one": lambda id, home: str(service.status(id, home=home)[0].plain()["rows"]),
    "export": lambda id, home: as_csv(service.result(id, home=home)),
    "logs": lambda id, home: "\n".join(events(Home(Path(home)), id)),
}


def tables(id: str, home: Path) -> dict[str, str]:
    """What each verb shows; the sentence of one that refuses. Any other error is one that a test must not see."""
    found = {}
    for name, table in TABLES.items():
        try:
            found[name] = table(id, str(home))
        except LocusError as error:
            found[name] = f"refused: {error}"
    return found


def checks(id: str, home: Path) -> list[tuple[str, bool, str]]:
    """What `verify` says of the files."""
    try:
        found = service.verify(id, home=str(home))
    except LocusError as error:
        return [("verify", False, str(error))]
    return [(one.name, one.ok, one.detail) for one in found]


def changed_one_by_one(root: Path, edition, kind: str, count: int, *, report: bool) -> None:
    """Changes `count` bytes of the files of a kind, one at a time, and looks at what each verb does."""
    sound = root / "sound" / "home"
    conduct(Home(sound), edition)
    victim = sound.parent / "victim"
    victim.write_text("not of this home")
    id, chance = edition.id, random.Random(f"{kind} {edition.id}")
    whole, well = tables(id, sound), checks(id, sound)
    assert all(ok for _, ok, _ in well)
    files = sorted(sound.glob(FILES[kind]))
    for number in range(count):
        home = root / str(number) / "home"
        shutil.copytree(sound.parent, home.parent)
        file = home / chance.choice(files).relative_to(sound)
        content = bytearray(file.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8) if number % 2 else chance.randrange(1, 256)
        file.write_bytes(content)
        why = (file.name, at, bytes(content[max(0, at - 20) : at + 20]))
        found, named = tables(id, home), checks(id, home)
        assert found == whole or named != well, why
        for name, said in found.items():
            refused = said.startswith("refused: ") or (name == "status" and said == "[]")
            assert said == whole[name] or refused or "torn" in str(named), (name, why)
        if report and number % 10 == 0:  # it takes a second
            try:
                service.report(id, home=str(home))
            except LocusError:
                assert named != well, why
        assert (home.parent / "victim").read_text() == "not of this home"
        assert {path.name for path in home.parent.iterdir()} == {"home", "victim"}
        shutil.rmtree(home.parent)


@pytest.mark.parametrize("kind", FILES)
def test_some_bytes(tmp_path, kind) -> None:
    changed_one_by_one(tmp_path, arms(), kind, 6, report=False)


@pytest.mark.slow
@pytest.mark.parametrize("study", [arms, search])
@pytest.mark.parametrize("kind", FILES)
def test_two_hundred_bytes(tmp_path, kind, study) -> None:
    changed_one_by_one(tmp_path, study(), kind, 100, report=True)
