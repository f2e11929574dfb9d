"""What a plan knows of points that are not proposed yet: those that follow from answers which other studies have."""

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Study, Tuning
from tests.rooms.service.execution.studies import BASE
from tests.rooms.service.planning.situations import planned
from tests.rooms.toy import conduct
from trainables.recipe import FromTrial

ARMS = {"token": {}, "mean": {"model.pool": "avg"}, "far": {"encoding.gamma": 30.0, "model.depth": 2}}
RATES = Tuning(Space({"optimizer.lr": Choice((0.001, 0.002, 0.004))}), trials=3, sampler="grid")
GAMMA = Space({"encoding.gamma": Real(0.3, 40, log=True)})


def tuned(tune: Tuning = RATES) -> Study:
    return Study(name="tuned", question="?", base=BASE, plan=Ablation(ARMS, "token", tune=tune), seeds=2)


@pytest.mark.parametrize("tune", [RATES, Tuning(GAMMA, 12, sampler="tpe")], ids=["grid", "tpe"])
def test_a_study_whose_answers_are_all_there_trains_nothing(home, tune) -> None:
    """Another edition of it proposes the same points, and the plan says so before."""
    edition = tuned(tune).at()
    trained = len(conduct(home, edition).order)
    again = edition.named("again")
    work = planned(home, again)
    assert (work.to_train, work.done, work.reused) == (0, 0, trained)
    assert sum(row.reused for row in work.work) == trained
    assert not conduct(home, again).order


def test_what_some_arms_have_is_reused_and_the_others_are_tuned(home) -> None:
    """Rates are tuned arm by arm, so an arm whose answers are there is chosen, though others are still to be tuned."""
    study = tuned()
    some = len(conduct(home, study.at(arms=["mean"])).order)
    work = planned(home, study.at())
    assert (some, work.reused, work.to_train) == (2 * (3 + 2), 2 * (3 + 2), 3 + 2)
    assert len(conduct(home, study.at()).order) == work.to_train


def test_a_point_that_depends_on_runs_to_be_trained_is_not_guessed(home) -> None:
    """TPE proposes others once it has answers; what is there for its first points is reused all the same."""
    study = tuned(Tuning(GAMMA, 12, sampler="tpe"))
    assert planned(home, study.at()).reused == 0
    conduct(home, study.at(trials=4))
    longer = study.at(trials=12).named("again")
    work = planned(home, longer)
    trained = len(conduct(home, longer).order)
    assert work.reused >= 3 * 4
    assert work.reused + work.to_train == 3 * (12 + 2)
    assert trained <= work.to_train


def test_runs_that_failed_are_tried_again_so_no_value_is_chosen_without_them(home) -> None:
    """A driver that was killed before it chose: the next one begins with counts, after which failures count no more."""
    edition = tuned().at()
    conduct(home, edition, fails=lambda job, epoch: job.label == "t0.1", cut=30)
    work = planned(home, edition)
    assert len(conduct(home, edition).order) == work.to_train > 0


def test_a_child_whose_parent_diverged_trains_nothing_again(home) -> None:
    """Its answer is there, too; and the other arms are looked at all the same."""
    wide = Tuning(Space({"encoding.gamma": Choice((2.0, 30.0, 4.0))}), trials=3, sampler="grid")
    arms = {"fresh": {}, "child": {"init": FromTrial({"model.pool": "avg"})}, "mean": {"model.pool": "avg"}}
    study = Study(name="tuned", question="?", base=BASE, plan=Ablation(arms, "fresh", tune=wide), seeds=2)
    conduct(home, study.at())
    work = planned(home, study.at().named("again"))
    assert work.to_train == 0
    assert not conduct(home, study.at().named("again")).order
