"""The order of an ablation whose arms are tuned: round by round, then a choice an arm, then the arms by seed."""

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Study, Tuning
from service.planning.schedule import Assign, Choose, Done, PlanArms, Tune, Wait
from service.storage.facts import Counts, Planned, Tuned
from tests.rooms.service.planning.situations import BASE, Situation

SPACE = Space({"encoding.gamma": Real(0.5, 40, log=True)})
ARMS = {"token": {}, "mean": {"model.pool": "avg"}}
GAMMAS = (1.0, 2.0, 3.0)


def tuned(trials: int = 2, seeds: int = 2, arms: dict | None = None, **more) -> Edition:
    plan = Ablation(arms or ARMS, next(iter(arms or ARMS)), tune=Tuning(SPACE, trials, **more))
    return Study(name="fair", question="?", base=BASE, plan=plan, seeds=seeds).at()


class Following(Situation):
    """A history whose next steps can be followed."""

    def tune(self, arm: str, number: int) -> None:
        values = {"encoding.gamma": GAMMAS[number]}
        self.add(Planned(role="tuning", number=number, name="", values=values, tunes=arm))

    def of(self, label: str):
        return next(trial for trial in self.history.trials if trial.label == label)

    def run(self, label: str, seed: int | None = None):
        return [*self.history.runs(self.of(label)).values()][0 if seed is None else seed]

    def list_arms(self) -> None:
        for arm in self.edition.arms():
            self.add(Planned(role="trial", number=arm.number, name=arm.name, values=arm.values))

    def tune_all(self, scores: dict[str, float]) -> None:
        for number in range(2):
            for arm in ARMS:
                self.tune(arm, number)
        for label, score in scores.items():
            self.end(self.run(label), score)


def test_the_highest_mean_is_chosen_and_of_equal_ones_the_first():
    found = Following(tuned())
    found.tune_all({"t0.0": 0.7, "t0.1": 0.8, "t1.0": 0.6, "t1.1": 0.6})
    assert found.next() == Choose("token", 1)
    found.add(Tuned(arm="token", number=1))
    assert found.next() == Choose("mean", 0)
    found.add(Tuned(arm="mean", number=0))
    assert found.next() == PlanArms(("token", "mean"))


def test_no_arm_is_listed_before_every_arm_is_tuned():
    found = Following(tuned())
    found.tune_all({"t0.0": 0.7, "t0.1": 0.8, "t1.0": 0.6})
    assert found.next() == Choose("token", 1)
    found.add(Tuned(arm="token", number=1))
    assert isinstance(found.next(found.run("t1.1")), Wait)


def test_the_choice_is_fixed_whatever_comes_after_it():
    found = Following(tuned())
    found.tune_all({"t0.0": 0.7, "t0.1": 0.8, "t1.0": 0.9, "t1.1": 0.6})
    found.add(Tuned(arm="token", number=0), Tuned(arm="mean", number=0))  # as an earlier code may have chosen
    found.list_arms()
    assert found.of("0").recipe.encoding.gamma == 1.0
    assert isinstance(found.next(), Assign)
    assert found.next().trial.role == "trial"


def test_a_failed_trial_is_tried_twice_and_then_left_out_of_the_choice():
    found = Following(tuned())
    found.tune_all({"t0.0": 0.3, "t1.0": 0.3, "t1.1": 0.4})
    found.add(Tuned(arm="mean", number=1))
    found.fail(found.run("t0.1"))
    assert found.next() == Assign(found.run("t0.1"), found.of("t0.1"))
    found.fail(found.run("t0.1"))
    assert found.next() == Choose("token", 0)
    found.add(Tuned(arm="token", number=0), Counts(seeds=2))
    found.list_arms()
    assert found.next().trial.role == "trial", "the next command does not train what can change nothing"
    assert found.history.failed == 0


def test_an_arm_without_a_completed_trial_is_left_to_the_next_command_and_the_others_go_on():
    found = Following(tuned())
    found.tune_all({"t0.0": 0.3, "t0.1": 0.4})
    found.end(found.run("t1.0"), outcome="diverged")
    found.fail(found.run("t1.1"), 2)
    found.add(Tuned(arm="token", number=1))
    assert found.next() == PlanArms(("token",))
    found.add(Planned(role="trial", number=0, name="token", values={}))
    for seed in range(2):
        found.end(found.run("0", seed))
    assert isinstance(found.next(), Done)
    assert found.history.failed == 1
    found.add(Counts(seeds=2))
    assert found.next() == Assign(found.run("t1.1"), found.of("t1.1"))
    found.end(found.run("t1.1"), 0.5)
    assert found.next() == Choose("mean", 1)
    found.add(Tuned(arm="mean", number=1))
    assert found.next() == PlanArms(("mean",))


def test_further_seeds_of_a_trial_follow_where_its_first_completed():
    plan = Ablation(ARMS, "token", tune=Tuning(SPACE, 2, seeds=2))
    found = Following(Study(name="fair", question="?", base=BASE, plan=plan, seeds=3).at())
    found.tune("token", 0)
    first, second = (found.run("t0.0", seed) for seed in range(2))
    assert [first.seed, second.seed] == [3000, 3001]
    assert found.next() == Assign(first, found.of("t0.0"))
    found.end(first)
    assert found.next() == Assign(second, found.of("t0.0"))
    found.end(second)
    assert found.next() == Tune("mean", 0)
    found.tune("mean", 0)
    found.end(found.run("t1.0"), outcome="diverged")
    assert found.next() == Tune("token", 1)
    assert found.history.answer(found.of("t1.0")).status == "diverged"
