"""The source of a user's own encoding or data set is a part of a study and never a value that is shown."""

import json
from pathlib import Path

import pytest

from search_spaces.library import find
from search_spaces.study import Ablation, Study
from search_spaces.words import setting_words, short, value_words, without_sources
from service.analysis.study_status import one_status
from service.results import Result
from service.storage.home import Home
from service.terminal import views
from service.tracking.rows import rows
from service.tracking.store import _data_sets
from tests.rooms.by_hand import ByHand, base
from trainables.encodings import Fourier

pytestmark = pytest.mark.usefixtures("words_only")

SECRET = '"""SECRET TEXT | of the file `` ``` ``."""'
SOURCE = f"""from pydantic import Field
from trainables.encodings import EncodingSpec

class Spiral(EncodingSpec):
    {SECRET}
    kind: str = "mine.py:Spiral"
    turns: int = Field(default=2, description="a number")
"""
DATA = f"""from typing import ClassVar
from trainables.data import DatasetSpec

class Spiral(DatasetSpec):
    {SECRET}
    kind: str = "mine.py:Spiral"
    train_size: int = 20
    val_size: int = 20
    test_size: int = 20
    size: ClassVar = (3, 16, 16)
    outputs: ClassVar = 2
    metric: ClassVar = "accuracy"

    def arrays(self):
        return {{}}
"""
AS_NODE = {"encoding": {"kind": "mine.py:Spiral", "turns": 3, "source": SOURCE}}
AS_PATHS = {"encoding.kind": "mine.py:Spiral", "encoding.turns": 3, "encoding.source": SOURCE}
OF_DATA = {"data.kind": "mine.py:Spiral", "data.train_size": 30, "data.source": DATA}


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> dict[Path, Result]:
    """A study for each way to give a source, by the path of its page."""
    results = [written(tmp_path_factory.mktemp("own"), values) for values in (AS_NODE, AS_PATHS, OF_DATA)]
    return {result.report(): result for result in results}


def written(root: Path, values: dict) -> Result:
    arms = {"near": {}, "spiral": values}
    edition = Study(name="own", question="Which?", base=base(), plan=Ablation(arms, "near"), seeds=3).at()
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(arms, 3):
            hand.complete(trial, seed, 0.8, 0.8)
    return Result.open(Home(root), edition.id)


def test_it_is_in_no_table_and_no_param(reported, capsys, tmp_path):
    for page, result in reported.items():
        assert "SECRET TEXT" not in (page.parent / "results.csv").read_text()
        for row in rows(result.history, "FINISHED"):
            assert "SECRET TEXT" not in str(row.params) + str(row.tags) + row.name
        assert "SECRET TEXT" not in json.dumps(one_status(result.home, result.edition.id).plain())
        for trial in result.edition.arms():
            (shown,) = _data_sets([trial.recipe])
            dataset = shown.dataset
            assert "SECRET TEXT" not in f"{dataset.name} {dataset.source}"
        assert not {"encoding.source", "data.source"} & {*result.edition.study.paths()}
        file = tmp_path / "study.json"
        file.write_text(json.dumps(result.edition.study.plain()))
        views.show(find(str(file)), as_json=False)
        shown = capsys.readouterr().out
        assert "mine.py:Spiral" in shown
        assert "SECRET TEXT" not in shown


def test_it_stands_once_folded_at_the_end_of_the_report(reported):
    for page in reported:
        text = page.read_text()
        assert text.count("SECRET TEXT") == 1
        assert text.index("Source of mine.py") > text.rindex("How it was run")
        assert "mine.py:Spiral" in text[: text.rindex("How it was run")]


def test_values_read_the_same_everywhere():
    assert setting_words(AS_NODE) == ["encoding = mine.py:Spiral turns=3"]
    assert setting_words(AS_PATHS) == ["encoding.kind = mine.py:Spiral", "encoding.turns = 3"]
    assert short(AS_NODE) == "encoding=mine.py:Spiral turns=3"
    nested = {"init": {"kind": "from_trial", "values": AS_PATHS, "part": "encoding"}}
    assert "SECRET" not in value_words(nested) + json.dumps(without_sources(nested))
    assert [value_words(one) for one in (None, True, 0.1 + 0.2, 2000, (), (1, 2), "a", Fourier(gamma=2.0))] == [
        "none", "true", "0.3", "2000", "none", "1, 2", "a", "fourier gamma=2",
    ]  # fmt: skip
