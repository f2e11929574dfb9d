"""Files of one study that cannot be read hide no other study."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.analysis.study_status import all_status
from service.cli import app
from service.storage.home import Home
from service.tracking.server import _editions
from tests.rooms.by_hand import ablated, searched

RUN = CliRunner()


def journal(home: Home) -> Path:
    return home.study("reach@base").journal


def study(home: Home) -> Path:
    return home.study("reach@base").study


def a_newer_fact(home: Home) -> None:
    with journal(home).open("a") as file:
        file.write(json.dumps({"fact": "teleported", "time": 1.0}) + "\n")


DAMAGES = {
    "a fact of a newer locus": a_newer_fact,
    "bytes that are no text": lambda home: journal(home).write_bytes(b"\xff\xfe\n" * 3),
    "half a study": lambda home: study(home).write_text(study(home).read_text()[:400]),
    "an empty study": lambda home: study(home).write_text(""),
    "a study of another form": lambda home: study(home).write_text('{"budget": "cpu"}'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_it_is_a_row_of_its_own(tmp_path, damage):
    home = Home(tmp_path)
    searched(tmp_path)
    ablated(tmp_path)
    whole = {one.id: one for one in all_status(home)}
    damage(home)
    found = {one.id: one for one in all_status(home)}
    assert found["encodings@base"].plain() == whole["encodings@base"].plain()
    assert found["reach@base"].state == "unreadable"
    assert found["reach@base"].trouble
    done = RUN.invoke(app, ["status", "--home", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "encodings@base" in done.output
    assert "reach@base cannot be read: " in done.output
    assert "Traceback" not in done.output
    said = json.loads(RUN.invoke(app, ["status", "--home", str(tmp_path), "--json"]).output)
    assert {one["id"]: bool(one["trouble"]) for one in said} == {"reach@base": True, "encodings@base": False}
    assert "encodings@base" in {edition.id for edition in _editions(home, None)}
