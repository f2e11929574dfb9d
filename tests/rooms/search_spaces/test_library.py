"""Studies are found by name, by file, as JSON; every one of the house builds at each of its budgets."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.study import Study
from trainables.recipe import Recipe, Run
from trainables.source import SourceError
from trainables.spec import SpecError

MINE = '''"""Mine."""
from search_spaces.study import Ablation, Study
from trainables.encodings import EncodingSpec
from trainables.recipe import Recipe


class Spiral(EncodingSpec):
    kind: str = "mine.py:Spiral"
    turns: int = 2


study = Study(name="mine", question="Does it turn?", base=Recipe(), plan=Ablation(
    arms={"none": {}, "named": {"encoding.kind": "mine.py:Spiral"}, "given": {"encoding": Spiral(turns=5)}},
    baseline="none",
))
'''


def test_every_study_is_whole() -> None:
    for name in library.names():
        study = library.find(name)
        assert study.name == name
        assert study.question.endswith("?"), name
        assert study.paper, name
        assert study.expected, name
        assert study.gaps, f"{name}: what differs from the paper is said"
        for budget in ["base", *study.budgets]:
            edition = study.at(budget)
            assert Study.read(json.loads(json.dumps(edition.study.plain()))) == edition.study, (name, budget)
        module = import_module(f"search_spaces.studies.{name.replace('-', '_')}")
        missing = [word for word in ("Source:", "Cost:", "Expected:") if word not in module.__doc__]
        assert missing == [], f"the note of {name}"


def test_an_unknown_name_is_met_with_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        library.find("fourier-gama")
    assert str(caught.value) == "no study 'fourier-gama'; did you mean fourier-gamma? (locus studies lists all)"
    with pytest.raises(SpecError, match=r"^no study 'zzz' \(locus studies lists all\)$"):
        library.find("zzz")


def test_a_file_of_ones_own_with_its_encoding(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    study = library.find("./mine.py")
    arms = study.at().arms()
    assert [arm.recipe.encoding.label for arm in arms] == ["none", "Spiral", "Spiral"]
    assert [arm.recipe.get("encoding.turns") for arm in arms[1:]] == [2, 5]
    again = Study.read(json.loads(json.dumps(study.plain())))
    Path("mine.py").unlink()
    keys = [[Run(arm.recipe, 1).key for arm in one.at().arms()] for one in (study, again)]
    assert keys[0] == keys[1]
    Path("study.json").write_text(json.dumps(study.plain()))
    assert library.find("study.json") == study


def test_another_study_of_a_file_is_named_behind_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE + 'other = Study(**{**dict(study), "name": "other"})\n')
    assert library.find("mine.py:other").name == "other"
    assert library.find("./mine.py:study") == library.find("./mine.py")
    with pytest.raises(SpecError, match=r"must define none = .*, got None; it has mine.py:study, mine.py:other"):
        library.find("./mine.py:none")
    Path("only.py").write_text(MINE[: MINE.index("study =")].replace("mine.py", "only.py"))
    for name in ("./only.py", "./only.py:Spiral"):
        with pytest.raises(
            SpecError, match=r"; Spiral is an encoding: locus run \(or check\) encodings --arms only.py:S"
        ):
            library.find(name)


def test_an_edited_file_is_read_anew(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    before = library.find("mine.py").at().arms()[1].recipe
    Path("mine.py").write_text(MINE.replace("turns: int = 2", "turns: int = 2\n    width: int = 1"))
    after = library.find("mine.py").at().arms()[1].recipe
    assert "width" in after.encoding.source
    assert "width" not in before.encoding.source


def test_files_that_are_no_study_say_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no file .*nowhere.py"):
        library.find(str(tmp_path / "nowhere.py"))
    (tmp_path / "pets").mkdir()
    (tmp_path / "study.py").touch()
    with pytest.raises(SpecError, match=rf"no file {tmp_path}/stduy.py; did you mean {tmp_path}/study.py\?$"):
        library.find(str(tmp_path / "stduy.py"))
    with pytest.raises(SpecError, match=rf"got {tmp_path}/pest; did you mean {tmp_path}/pets\?$"):
        Recipe().put({"data": {"kind": "folder", "path": str(tmp_path / "pest")}})
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(SpecError, match=r"empty.py must define study = Study\(\.\.\.\), got None"):
        library.find(str(tmp_path / "empty.py"))
    (tmp_path / "broken.py").write_text("x = 1\nraise RuntimeError('no')\n")
    with pytest.raises(SourceError, match=r"broken.py does not run: line 2: RuntimeError: no"):
        library.find(str(tmp_path / "broken.py"))


@pytest.mark.parametrize("text", [None, "{no", "[1]", "{}"])
def test_a_json_file_that_holds_no_study_is_refused_in_a_sentence(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "study.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SpecError, match=r"study\.json|must be given|Study must be"):
        library.find(str(file))
