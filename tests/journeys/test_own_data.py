"""A user's study file with its own data set: it is run, trained by Ray, found in MLflow, and edited."""

import json

import pytest

from service.storage.editions import stored
from service.storage.home import Home
from service.tracking.store import look_up
from tests.journeys.terminal import Terminal
from tests.rooms.trainables.data.own_data import SHAPES
from trainables.recipe import Recipe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

STUDY = (
    SHAPES
    + """

from search_spaces.study import Ablation, Study
from trainables.backbones import ViT
from trainables.recipe import AdamW, Recipe

study = Study(
    name="shapes",
    question="Does the size of the shapes matter?",
    base=Recipe(
        data=Shapes(radius=3), model=ViT(embed_dim=8, num_heads=2), optimizer=AdamW(epochs=2, batch_size=16)
    ),
    plan=Ablation(
        arms={"small": {}, "large": {"data": Shapes(radius=4)}, "fields": {"data.radius": 5}}, baseline="small"
    ),
    seeds=1,
)
"""
)
RUN = ("run", "./mine.py")


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(STUDY)
    with Terminal(tmp_path) as terminal:
        yield terminal


def test_it_runs_is_shown_without_its_text_and_trains_again_when_edited(mine):
    shown = mine.type("show", "./mine.py")
    assert "mine.py:Shapes" in shown.out
    assert "np.indices" not in shown.out
    done = mine.type(*RUN)
    assert (done.code, done.err) == (0, "")
    assert len(mine.facts("shapes@base", "started")) == 3
    edition = stored(Home(mine.home), "shapes@base")
    for place, row in look_up(Home(mine.home), edition).shown.items():
        assert "np.indices" not in str(place) + json.dumps([row.params, row.tags])
    assert [Recipe.read(trial.recipe.plain()).data.spec.radius for trial in edition.arms()] == [3, 4, 5]
    mine.do("verify", "shapes")
    key = mine.facts("shapes@base", "started")[0].run
    assert ", 0 differ" in mine.type("rerun", key).out

    file = mine.folder / "mine.py"
    file.write_text(STUDY + "\n# a comment\n")
    assert "plan: shapes@base: 0 runs to train, 3 done" in mine.type("plan", "./mine.py").out
    file.write_text(STUDY.replace("integers(5, 8, (2,", "integers(4, 8, (2,"))
    plan = mine.type("plan", "./mine.py").out
    assert "not counted: 3 answers of other code: mine.py changed" in plan
    assert "plan: shapes@base: 3 runs to train" in plan


def test_a_kind_is_set_from_the_command_line(mine):
    values = ("--set", "data.kind=mine.py:Shapes", "--set", "data.radius=2", "--set", "data.train_size=30")
    plan = mine.do("plan", "fourier-gamma", "--budget", "smoke", *values)
    assert "runs to train" in plan.out
    wrong = mine.type("plan", "fourier-gamma", "--set", "data.kind=mine.py:Discs")
    assert wrong.code == 2
    assert "data.kind must name a DatasetSpec in mine.py, got 'Discs'" in wrong.err


def test_wrong_arrays_are_a_sentence_of_the_run_before_it_trains(mine):
    (mine.folder / "mine.py").write_text(STUDY.replace("np.uint8(255) * np.where", "1.0 * np.where"))
    done = mine.type(*RUN)
    assert done.code != 0
    assert "Shapes.arrays in mine.py must return images of 'train' of type uint8, got float64" in done.out + done.err
