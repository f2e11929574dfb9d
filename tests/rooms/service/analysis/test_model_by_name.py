"""A search over names of models: its tables, params and colors have the name, though a recipe holds the numbers."""

import pytest

from search_spaces.space import Choice, Space
from search_spaces.study import Search, Study
from service.results import Result
from service.storage.home import Home
from service.tracking.rows import rows
from tests.rooms.by_hand import ByHand, base

pytestmark = pytest.mark.usefixtures("words_only")

NAMES = ("deit_tiny_patch16_224", "deit_small_patch16_224")


def test_the_names_are_shown(tmp_path):
    space = Space({"model.kind": Choice(options=("timm",)), "model.name": Choice(options=NAMES)})
    edition = Study(name="names", question="Which?", base=base(), plan=Search(space, trials=2), seeds=1).at()
    with ByHand(tmp_path, edition, seeds=1, trials=2) as hand:
        for number, name in enumerate(NAMES):
            hand.complete(hand.plan("trial", number, {"model.kind": "timm", "model.name": name}), 0, 0.8, 0.8)
    result = Result.open(Home(tmp_path), edition.id)
    assert result.table()["model.name"].tolist() == [*NAMES]
    assert result.table()["model.kind"].tolist() == ["vit", "vit"]
    params = [row.params for row in rows(result.history, "FINISHED") if "model.name" in row.params]
    assert {param["model.name"] for param in params} == {*NAMES}
    assert result.report().exists()
