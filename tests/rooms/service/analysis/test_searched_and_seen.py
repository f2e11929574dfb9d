"""Winners and kinds that are searched, where points are stopped, answers are lost or code is edited."""

import random
from pathlib import Path

import pytest

from search_spaces.plans.tuning import Tuning
from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Halving, Search, Study
from service.results import Result
from service.storage.home import Home
from service.tracking.rows import rows
from tests.rooms import toy
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.planning.situations import BASE
from tests.rooms.toy import conduct
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.recipe.outcome import Measurement
from trainables.spec import SpecError

KINDS = Space({"optimizer.kind": Choice(("adamw", "lamb")), "encoding.gamma": Real(low=0.5, high=8, log=True)})


def test_a_value_that_a_searched_kind_would_take_away_is_refused() -> None:
    base, plan = Recipe(encoding=Fourier(gamma=2.5)), Search(space=KINDS, trials=2, sampler="random")
    with pytest.raises(SpecError, match=r"optimizer\.epochs"):
        Study("opts", "?", base.put({"optimizer.epochs": 4}), plan, seeds=1)  # as service.sweep makes it
    study = Study("opts", "?", base, plan, seeds=1)
    for own in ({"optimizer.epochs": 20}, {"optimizer.lr": 0.01, "optimizer.epochs": 20}):
        with pytest.raises(SpecError, match=r"optimizer\.kind"):
            study.at(set=own)
    fixed = study.at(set={"optimizer.kind": "lamb", "optimizer.epochs": 20}).study
    assert fixed.recipe({"encoding.gamma": 1.0}).optimizer.epochs == 20
    plan = Ablation(
        {"none": {"encoding.kind": "none"}, "peg": {"encoding.kind": "peg"}},
        "none",
        tune=Tuning(Space({"optimizer.kind": Choice(("adamw", "lamb"))}), trials=2),
    )
    with pytest.raises(SpecError, match=r"optimizer\.kind"):
        Study("tuned", "?", base, plan, seeds=1).at(set={"optimizer.epochs": 20})
    with pytest.raises(SpecError, match=r"optimizer\.kind must be searched without optimizer\.epochs in the base"):
        Study("tuned", "?", base.put({"optimizer.epochs": 4}), plan, seeds=1)
    arms = {name: {**values, "optimizer.epochs": 4} for name, values in plan.arms.items()}
    of_arms = Study("tuned", "?", base, plan.model_copy(update={"arms": arms}), seeds=1).at()
    assert of_arms.tuning_trial("peg", 0, {"optimizer.kind": "lamb"}).recipe.optimizer.epochs == 4, (
        "an arm keeps its own"
    )


def falling(run, epoch: int) -> Measurement:
    """Scores fall after epoch 2 of 6; the point tried first is the worst at every epoch."""
    gamma = run.recipe.encoding.gamma
    noise = 0.001 * random.Random(f"{run.key} {epoch}").random()
    value = (0.8 if epoch <= 2 else 0.7) - 0.04 * (gamma == 2.5) + noise + 0.0005 * (gamma % 1)
    tests = {"test/accuracy": value} if epoch == 6 else {}
    return Measurement(epoch=epoch, values={"train/loss": 1 - value, "val/accuracy": value, **tests})


def test_a_point_that_was_stopped_is_not_best_by_the_score_at_which_it_was_stopped(home: Home, monkeypatch) -> None:
    monkeypatch.setattr(toy, "measure", falling)
    monkeypatch.setattr(toy, "cliff", lambda run: None)
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, first=({"encoding.gamma": 2.5},), trials=8, stop=Halving())
    edition = Study("falls", "?", BASE.put({"optimizer.epochs": 6}), plan, seeds=3).at()
    conduct(home, edition, fails=lambda job, epoch: job.run.recipe.encoding.gamma == 2.5)
    conduct(home, edition)  # the first point is tried again
    result = Result.open(home, edition.id)
    assert result.history.answer(result.history.of("trial")[0]).status == "stopped"
    assert [row.trial.number for row in result.winners] != [0], result.headline
    assert result.best.test.mean > 0.7


NAMES = ("deit_tiny_patch16_224", "deit_small_patch16_224")


@pytest.mark.usefixtures("words_only")
def test_names_of_models_are_shown_though_a_recipe_holds_the_numbers(tmp_path: Path) -> None:
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
