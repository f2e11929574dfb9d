"""Records: each that we keep is readable and of a known study; what differs today is said, what is broken is named."""

import json
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.record import BEFORE, RULES, Record, Row, Scored, defined, read
from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Budget, Search, Study, Tuning
from trainables.encodings import PEG, Fourier
from trainables.recipe import Recipe
from trainables.recipe.revisions import code_of
from trainables.spec import SpecError

ARMS = {"near": {"encoding.gamma": 1.0}, "peg": {"encoding.kind": "peg"}}
STUDY = Study(
    name="arms", question="?", base=Recipe(encoding=Fourier()), plan=Ablation(ARMS, "near"), budgets={"cpu": Budget()}
)


def recorded(edition=None, **other) -> Record:
    edition = edition or STUDY.at("cpu")
    scored = Scored(n=3, mean=0.75, std=0.25, interval=(0.125, 1.0), failed=1)
    common = {"values": {}, "asked": 3, "diverged": 1, "time_s": 1.5, "test": scored, "test_sizes": {48: scored}}
    rows = tuple(Row(name=arm.name, code=code_of(arm.recipe).digest, **common) for arm in edition.arms())
    values = {
        "study": "arms", "budget": "cpu", "date": "2026-11-25", "rules": RULES, "definition": defined(edition),
        "seeds": 3, "minutes": 1.5, "machine": "EPYC, 2 cores", "versions": {"torch": "2.15.0"}, "headline": "Peg.",
        "metric": "test/accuracy", "level": 0.95, "rows": rows, "verdicts": (), "gap": "",
    }  # fmt: skip
    return Record(**{**values, **other})


def test_every_record_that_we_keep_is_whole() -> None:
    """Of a named study, at a budget that was run and is large enough to show something."""
    for file in library.records():
        found = read(file)
        assert found is not None
        study = library.find(found.study)
        assert found.budget in study.budgets, file.name
        assert found.budget != "smoke", file.name
        assert found.own or found.budget not in study.not_run, file.name
        found.since(found.edition(study))


def test_a_record_equals_its_file(tmp_path: Path) -> None:
    file = tmp_path / "arms@cpu.json"
    assert read(file) is None
    file.write_text(recorded().model_dump_json(indent=1))
    assert read(file) == recorded()


def test_a_broken_file_is_named_in_a_sentence(tmp_path: Path) -> None:
    plain = recorded().plain()
    lacking = {name: value for name, value in plain.items() if name != "headline"}
    row = {name: value for name, value in plain["rows"][0].items() if name != "code"}
    for text, said in (
        (json.dumps(lacking), "headline must be given"),
        (json.dumps({**plain, "rows": [row]}), "rows.0.code must be given"),
        (json.dumps({**plain, "learnt": 3}), "no field 'learnt'"),
        (json.dumps({**plain, "date": "today"}), "date must be a day such as '2026-11-25', got 'today'"),
        (json.dumps({**plain, "level": "x"}), "level must be a number, got 'x'"),
        (json.dumps({**plain, "budget": "smoke"}), "the record of arms@cpu, got arms@smoke"),
        ("{no", "must hold a record, but"),
        ("[1]", "must hold a record, but"),
    ):
        file = tmp_path / "arms@cpu.json"
        file.write_text(text)
        with pytest.raises(SpecError) as caught:
            read(file)
        assert str(caught.value).startswith(f"{file} must hold")
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    file.write_bytes(b"\xff")
    with pytest.raises(SpecError, match="must hold a record"):
        read(file)


def test_what_differs_today_is_said(monkeypatch) -> None:
    edition, found = STUDY.at("cpu"), recorded()
    assert found.since(edition) == []
    monkeypatch.setattr(PEG, "REVISION", PEG.REVISION + 1)
    assert found.since(edition) == ["by older code"], "one row is enough"
    assert found.model_copy(update={"rows": found.rows[:1]}).since(edition) == []
    assert found.model_copy(update={"rules": 2}).since(edition) == [BEFORE, "by older code"]
    monkeypatch.undo()
    longer = STUDY.model_copy(update={"base": STUDY.base.put({"optimizer.epochs": 3})}).at("cpu")
    assert found.since(longer) == ["of another definition"]
    more = Study(**{**dict(STUDY), "seeds": 9, "question": "Another one?", "found": {"cpu": "words"}}).at("cpu")
    assert found.since(more) == [], "counts and words may change"
    unknown = recorded(rows=(found.rows[0].model_copy(update={"name": "far"}),))
    assert unknown.since(edition) == ["of another definition"]


def test_a_row_knows_its_recipe() -> None:
    row = recorded().rows[0]
    space = Space({"optimizer.lr": Choice((0.001, 0.004))})
    tuned = STUDY.model_copy(update={"plan": Ablation(ARMS, "near", tune=Tuning(space, trials=2))}).at("cpu")
    found = row.model_copy(update={"values": {"optimizer.lr": 0.004}}).recipe(tuned)
    assert (found.optimizer.lr, found.encoding.gamma) == (0.004, 1.0)
    plan = Search(space=Space({"encoding.gamma": Real(0.5, 4)}), trials=2)
    search = STUDY.model_copy(update={"plan": plan}).at("cpu")
    found = row.model_copy(update={"name": "best", "values": {"encoding.gamma": 3.5}}).recipe(search)
    assert found.encoding.gamma == 3.5
