"""Code that a home carries runs in no command, before a person has seen it."""

import sys

import pytest

from search_spaces.study import Ablation, Study
from service.cli import main
from service.storage.home import Home
from tests.rooms.toy import conduct
from trainables import trusted
from trainables.encodings import OwnEncoding
from trainables.own import carry
from trainables.recipe import Recipe

MARKS = """
import os
from trainables.encodings import CodeSpec, Param, normal

with open(os.environ["MARK"], "a") as file:
    file.write("ran")


class Ramp(CodeSpec):
    kind: str = "strange.py:Ramp"

    def params(self, dim, grid):
        return {"slope": Param((dim,), normal(0.02))}

    def code(self, p, at):
        return at.x.long()[:, None] * p["slope"]
"""


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A study of another person: its code was run by her, and by nobody here."""
    mark = tmp_path / "mark"
    monkeypatch.setenv("MARK", str(mark))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "hers"))
    own = OwnEncoding(kind="strange.py:Ramp", source=MARKS)
    base = Recipe(encoding=own).put({"optimizer.epochs": 2})
    plan = Ablation({"ramp": {}, "none": {"encoding.kind": "none"}}, "none")
    study = Study(name="gift", question="?", base=base, plan=plan)
    conduct(Home(tmp_path / "home"), study.at())
    for name in [name for name in sys.modules if name.startswith("own_")]:
        monkeypatch.delitem(sys.modules, name)
    mark.unlink(missing_ok=True)  # there where this is the first test of the process
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCUS_HOME", str(tmp_path / "home"))
    return mark


def typed(monkeypatch, capsys, *words):
    """The exit code of a command, and all that it says."""
    monkeypatch.setattr("sys.argv", ["locus", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, "".join(capsys.readouterr())


VERBS = (
    "status gift", "report gift", "export gift --csv", "verify gift", "verify gift --repair", "logs gift",
    "plan gift@base", "compare gift gift", "forget gift@base --yes", "run gift@base --dry-run", "show gift@base",
)  # fmt: skip


def test_no_verb_runs_it_before_it_is_trusted(strange, monkeypatch, capsys):
    code, said = typed(monkeypatch, capsys, "status")
    assert (code, "strange.py" in said) == (0, True), said
    for verb in VERBS:
        code, said = typed(monkeypatch, capsys, *verb.split())
        assert not strange.exists(), verb
        assert code == 2, (verb, said)
        assert "Traceback" not in said
    code, said = typed(monkeypatch, capsys, "trust", "gift", "--yes")
    assert (code, "class Ramp(CodeSpec)" in said) == (0, True)
    assert not strange.exists(), "to show it runs nothing"
    code, said = typed(monkeypatch, capsys, "status", "gift")
    assert (code, strange.read_text()) == (0, "ran")
    assert "no code" in typed(monkeypatch, capsys, "trust", "gift")[1]


def test_what_a_person_names_is_known_from_then_on_and_the_working_folder_is_ones_own(strange, tmp_path, monkeypatch):
    with trusted.guarded():
        with pytest.raises(trusted.UntrustedError):
            OwnEncoding(kind="strange.py:Ramp", source=MARKS)
        with trusted.named():
            OwnEncoding(kind="strange.py:Ramp", source=MARKS)
    assert len(trusted.known()) == 1
    (tmp_path / "strange.py").write_text(MARKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "nobody's"))
    with trusted.guarded():
        assert Recipe().put(carry({"encoding.kind": "strange.py:Ramp"})).encoding.label == "Ramp"
