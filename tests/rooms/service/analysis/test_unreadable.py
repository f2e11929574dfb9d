"""Files of one study that cannot be read hide no other study."""

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from service.analysis.study_status import all_status
from service.cli import app
from service.storage.home import Home
from service.tracking.server import _editions

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


def test_it_is_a_row_of_its_own(two_studies, tmp_path):
    whole = {one.id: one for one in all_status(two_studies)}
    for name, damage in DAMAGES.items():
        home = Home(tmp_path / name)
        shutil.copytree(two_studies.root, home.root)
        damage(home)
        found = {one.id: one for one in all_status(home)}
        assert found["encodings@base"].plain() == whole["encodings@base"].plain(), name
        assert found["reach@base"].state == "unreadable", name
        assert found["reach@base"].trouble, name
        done = RUN.invoke(app, ["status", "--home", str(home.root)])
        assert done.exit_code == 0, done.output
        assert "encodings@base" in done.output
        assert "reach@base cannot be read: " in done.output
        assert "Traceback" not in done.output
        said = json.loads(RUN.invoke(app, ["status", "--home", str(home.root), "--json"]).output)
        assert {one["id"]: bool(one["trouble"]) for one in said} == {"reach@base": True, "encodings@base": False}
        assert "encodings@base" in {edition.id for edition in _editions(home, None)}, name
