"""An ablation whose arms are tuned: what it may be, its definition, its counts."""

import json

import pytest

from search_spaces.space import Above, Choice, Integer, Real, Space
from search_spaces.study import Ablation, Budget, Edition, Study, Tuning
from trainables.recipe import Recipe
from trainables.spec import SpecError

RATE = {"optimizer.lr": Real(1e-5, 1e-2, log=True)}
ARMS = {"none": {}, "fourier": {"encoding.kind": "fourier", "optimizer.lr": 1e-9}, "peg": {"encoding.kind": "peg"}}


def tuned(space: dict | None = None, trials: int = 4, arms: dict | None = None, **more) -> Study:
    return study(Tuning(Space(space or RATE), trials, **more), arms)


def study(tune: Tuning | None, arms: dict | None = None, **more) -> Study:
    plan = Ablation(arms or ARMS, next(iter(arms or ARMS)), tune=tune)
    return Study(name="fair", question="?", base=Recipe(), plan=plan, **more)


def test_a_study_with_tuning_equals_its_own_json():
    made = tuned(first=({"optimizer.lr": 1e-3},), seeds=2)
    assert Study.read(json.loads(json.dumps(made.plain()))) == made


def test_without_tuning_an_ablation_is_what_it_was():
    plan = study(None).at().definition["plan"]
    assert plan == {"kind": "ablation", "arms": ARMS}
    given = Study(name="fair", question="?", base=Recipe(), plan=Ablation(ARMS, "none"))
    assert given.at(set={"optimizer.epochs": 3}).id == study(None).at(set={"optimizer.epochs": 3}).id
    old = study(None).at().plain()
    old["study"]["plan"].pop("tune")
    assert Edition.read(old) == study(None).at()


def test_the_tuning_is_part_of_the_definition_its_number_of_trials_too():
    found = [
        one.at().definition for one in (tuned(), tuned(trials=5), tuned(seeds=2), tuned(sampler="tpe"), study(None))
    ]
    texts = {json.dumps(one, sort_keys=True) for one in found}
    assert len(texts) == 5
    assert found[0]["plan"]["tune"]["trials"] == 4


def test_a_trial_that_tunes_has_the_arms_values_with_the_points_and_seeds_of_its_own():
    trial = tuned().at().tuning_trial("fourier", 3, {"optimizer.lr": 0.002})
    assert (trial.label, trial.role, trial.tunes) == ("t1.3", "tuning", ("fourier", 1))
    assert trial.name == "fourier: lr=0.002"
    assert (trial.recipe.encoding.kind, trial.recipe.optimizer.lr) == ("fourier", 0.002)
    assert [*trial.seeds(2)] == [3000, 3001]


def test_what_trials_differ_in_includes_what_is_tuned():
    assert tuned().paths() == ["encoding.kind", "optimizer.lr"]


def test_trials_of_a_budget_or_a_user_count_those_of_the_tuning():
    made = Study(**{**dict(tuned()), "budgets": {"smoke": Budget(trials=2, seeds=1)}})
    assert made.at("smoke").study.plan.tune.trials == 2
    assert made.at("smoke", trials=3).study.plan.tune.trials == 3
    assert made.at().study.plan.tune.trials == 4
    with pytest.raises(SpecError, match="trials are for searches, and for arms that are tuned"):
        study(None).at(trials=3)


def test_a_users_own_value_takes_a_path_out_of_the_tuning():
    made = tuned(
        {**RATE, "optimizer.weight_decay": Real(0.01, 0.1)},
        first=({"optimizer.lr": 1e-3, "optimizer.weight_decay": 0.05},),
    )
    plan = made.at(set={"optimizer.weight_decay": 0.2}).study.plan
    assert plan.tune.paths == ["optimizer.lr"]
    assert plan.tune.first == ({"optimizer.lr": 1e-3},)
    with pytest.raises(SpecError, match=r"fair tunes only optimizer\.lr, so --set leaves nothing to tune"):
        tuned().at(set={"optimizer.lr": 1e-3})
    assert made.at(set={"optimizer.epochs": 3}).study.plan.tune == made.plan.tune


def test_the_arms_of_axes_are_tuned_each():
    axes = {
        "encoding": {"none": {}, "peg": {"encoding.kind": "peg"}},
        "read-out": {"cls": {}, "avg": {"model.pool": "avg"}},
    }
    plan = Ablation(axes=axes, baseline="none", tune=Tuning(Space(RATE), 2))
    edition = Study(name="fair", question="?", base=Recipe(), plan=plan).at()
    assert edition.tuning_trial("peg, avg", 0, {"optimizer.lr": 1e-3}).label == "t3.0"
    assert edition.tuning_trial("peg, avg", 0, {"optimizer.lr": 1e-3}).recipe.model.pool == "avg"


def test_what_no_tuning_can_be_is_refused_in_a_sentence(subtests):
    for make, words in [
        (lambda: tuned({"encoding.gamma": Real(1.0, 2.0)}), "arm “none”: no field 'encoding.gamma'.*same space"),
        (lambda: tuned({"model.num_heads": Integer(1, 5)}), "arm “none”: model"),
        (
            lambda: tuned(arms={"slow": {"optimizer.lr": 1e-4}, "fast": {"optimizer.lr": 1e-3}}),
            "must leave out what arms differ in.*“slow” and “fast” are one recipe",
        ),
        (lambda: tuned({"optimizer.batch_size": Choice((16, 32))}, 3), "tune.trials must be at most 2.*got 3"),
        (lambda: tuned({"optimizer.lr": Real(1e-4, 1e-2, points=3)}, 4, sampler="grid"), "at most 3"),
        (lambda: tuned(sampler="grid"), "sampler must be random or tpe where optimizer.lr has no points"),
        (lambda: tuned({"data.train_size": Choice((100, 200))}, 2), "outside data"),
        (lambda: tuned(first=({"optimizer.epochs": 3},)), "first must be points with optimizer.lr"),
        (lambda: tuned(first=({"optimizer.lr": 1.0},)), "first.optimizer.lr must be a value that the space has"),
        (lambda: tuned(first=({"optimizer.lr": 1e-3}, {"optimizer.lr": 1e-3})), "without doubles"),
        (lambda: tuned(trials=0), "trials must be a number of trials from 1 to 10,000"),
        (lambda: tuned(seeds=0), "seeds must be a number of seeds from 1 to 1,000"),
    ]:  # fmt: skip
        with subtests.test(str(make)), pytest.raises(SpecError, match=words):
            make()


def test_a_factor_over_a_value_of_the_arm_is_taken_over_the_arms_own():
    space = {"optimizer.lr": Above("optimizer.weight_decay", Real(1.5, 2.0))}
    arms = {"light": {"optimizer.weight_decay": 0.001}, "heavy": {"optimizer.weight_decay": 0.01, "model.pool": "avg"}}
    made = tuned(space, arms=arms)
    assert made.plan.tune.paths == ["optimizer.lr"]


def test_a_tuning_may_end_at_the_shortest_length() -> None:
    """Its trials are shorter than the arms that get their values, and the values do not say so."""
    base = Recipe().put({"optimizer.schedule": "wsd", "optimizer.lengths": [2, 4], "optimizer.epochs": 8})
    for length, expected in (("shortest", (2,)), ("longest", (2, 4, 8))):
        tune = Tuning(Space(RATE), 2, length=length)
        edition = Study(name="tuned", question="?", base=base, plan=Ablation(ARMS, "none", tune=tune)).at()
        trial = edition.tuning_trial("peg", 0, {"optimizer.lr": 0.003})
        assert trial.recipe.optimizer.every_length == expected
        arm = edition.trial(2, trial.values, "peg")
        assert arm.values["optimizer.lr"] == arm.recipe.optimizer.lr == 0.003
        assert arm.recipe.optimizer.every_length == (2, 4, 8)
