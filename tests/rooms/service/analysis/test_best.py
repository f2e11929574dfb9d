"""One rule says which trial is best: terminal, MLflow, report and Python name the same one at every moment."""

from pathlib import Path

import pytest

from search_spaces.claim import AtLeast
from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Search, Study
from service.analysis.best import find_best
from service.analysis.headline import details
from service.analysis.study_status import one_status
from service.results import Result
from service.storage.facts import Confirms
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from service.tracking.rows import STUDY, rows
from tests.rooms.by_hand import ByHand, base

pytestmark = pytest.mark.usefixtures("words_only")


def search(trials: int = 3) -> Edition:
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, trials=trials, first=({"encoding.gamma": 1.0},))
    return Study(name="reach", question="How far?", base=base(), plan=plan, seeds=3).at()


def arms(*names: str) -> Edition:
    plan = Ablation({name: {"encoding.gamma": 1.0 + place} for place, name in enumerate(names)}, names[0])
    claims = (AtLeast(names[0], 0.9),)
    return Study(name="arms", question="Which?", base=base(), plan=plan, seeds=3, claims=claims).at()


def ablated(root: Path, scores: dict[str, tuple[float, ...]]) -> Result:
    """An ablation whose arms have these scores, on validation and on test."""
    edition = arms(*scores)
    with ByHand(root, edition, seeds=3) as hand:
        for number, (name, values) in enumerate(scores.items()):
            trial = hand.plan("trial", number, {"encoding.gamma": 1.0 + number}, name)
            for seed, value in enumerate(values):
                hand.complete(trial, seed, value, value)
    return Result.open(Home(root), edition.id)


def named(root: Path, id: str) -> dict[str, list[str]]:
    """The labels of the best trials, as each view names them."""
    result = Result.open(Home(root), id)
    status = one_status(Home(root), id)
    study = next(row for row in rows(result.history, "RUNNING") if row.id == STUDY)
    titles = {row.name: row.id[1] for row in rows(result.history, "RUNNING") if row.id[0] == "trial"}
    tag = study.tags.get("locus.best", "").removeprefix("tie: ")
    return {
        "python": [row.trial.label for row in result.winners],
        "terminal": [row.label for row in status.rows if row.best],
        "mlflow": [label for title, label in titles.items() if title in tag],
        "rule": [trial.label for trial in find_best(result.history).trials],
    }


def test_while_a_confirmation_is_under_way_all_views_name_the_same_trial(tmp_path: Path) -> None:
    edition = search()
    seen = []
    with ByHand(tmp_path, edition, seeds=3, trials=3) as hand:
        points = [hand.plan("trial", n, {"encoding.gamma": gamma}) for n, gamma in enumerate((1.0, 2.0, 3.0))]
        for score, point in zip((0.7, 0.95, 0.9), points, strict=True):
            for seed in range(3):
                hand.complete(point, seed, score, score)
        hand.journal.write(Confirms(numbers=(1, 2)))
        seen.append(named(tmp_path, edition.id))
        again = [hand.plan("confirmation", n, {"encoding.gamma": gamma}) for n, gamma in ((1, 2.0), (2, 3.0))]
        for trial, score in zip(again, (0.8, 0.88), strict=True):
            for seed in trial.seeds(3):
                hand.complete(trial, seed, score, score)
            seen.append(named(tmp_path, edition.id))
    assert [one["rule"] for one in seen] == [["1"], ["1"], ["c1"]], (
        "its own seeds chose it; the fresh ones say how good it is"
    )
    for one in seen:
        assert len({tuple(labels) for labels in one.values()}) == 1, one


def test_points_that_tie_are_told_by_the_scores_that_chose_them(tmp_path: Path) -> None:
    """The fresh seeds chose nothing, so their means are no tie."""
    edition, values = search(trials=2), {0: {"encoding.gamma": 1.0}, 1: {"encoding.gamma": 2.0}}
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        hand.points("trial", values, lambda number, place: (0.9, 0.9))
        hand.points("confirmation", values, lambda number, place: (0.85 + 0.1 * number, 0.84 + 0.1 * number))
        hand.journal.write(Confirms(numbers=(0, 1)))
    result = Result.open(Home(tmp_path), edition.id)
    assert result.headline == "#0 (gamma=1) and #1 (gamma=2) tie with the highest validation accuracy, 0.9000."
    assert details(result)[0].startswith("#0 (gamma=1) has test accuracy 0.8400 (95 % interval ")
    assert details(result)[1].endswith(" on fresh seeds.")


def test_a_tie_is_said_and_not_decided_by_the_order(tmp_path: Path) -> None:
    result = ablated(tmp_path, {"low": (0.7, 0.7, 0.7), "b, c": (0.9, 0.95, 0.94), "d": (0.94, 0.9, 0.95)})
    assert [row.name for row in result.winners] == ["b, c", "d"]
    assert result.headline == "“b, c” and “d” tie with the highest validation accuracy, 0.9300."
    status = one_status(Home(tmp_path), result.edition.id)
    assert [row.mark for row in status.rows] == ["", "best (tie)", "best (tie)"]
    assert "(tie with 1 other)" in status.best
    assert named(tmp_path, result.edition.id)["mlflow"] == ["1", "2"]


def test_of_several_that_tie_all_views_hold_the_numbers_of_one(tmp_path: Path) -> None:
    edition = arms("a", "b")
    with ByHand(tmp_path, edition) as hand:
        tests = {"a": (0.80, 0.81, 0.82), "b": (0.90, 0.91, 0.92)}
        for trial, seed in hand.runs({"a": {"encoding.gamma": 1.0}, "b": {"encoding.gamma": 2.0}}, 3):
            hand.complete(trial, seed, 0.93, tests[trial.name][seed])
    result = Result.open(Home(tmp_path), edition.id)
    assert [row.name for row in result.winners] == ["a", "b"]
    assert (result.best.name, best_in_mlflow(result)["test/accuracy_mean"]) == ("b", pytest.approx(0.91))


def best_in_mlflow(result: Result) -> dict[str, float]:
    study = next(row for row in rows(result.history, "FINISHED") if row.id == STUDY)
    return {name.removeprefix("best/"): value for name, value in study.values.values.items()}


def test_of_points_that_tie_before_they_are_confirmed_test_images_choose_none(tmp_path: Path) -> None:
    edition, values = search(trials=2), {0: {"encoding.gamma": 1.0}, 1: {"encoding.gamma": 2.0}}
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        hand.points("trial", values, lambda number, place: (0.9, 0.8 + 0.1 * number))
    assert Result.open(Home(tmp_path), edition.id).best.trial.label == "0"


def test_a_trial_with_a_failed_run_has_ended_for_all_views(tmp_path: Path) -> None:
    edition = arms("a", "b")
    with ByHand(tmp_path, edition) as hand:
        for trial, seed in hand.runs({"a": {"encoding.gamma": 1.0}, "b": {"encoding.gamma": 2.0}}, 3):
            if (trial.name, seed) == ("b", 1):
                hand.fail(trial, seed, "no memory")
            else:
                hand.complete(trial, seed, 0.9, 0.9)
    result = Result.open(Home(tmp_path), edition.id)
    study = next(row for row in rows(result.history, "FINISHED") if row.id == STUDY)
    assert one_status(Home(tmp_path), edition.id).trials_ended == study.values.values["progress/trials"] == 2


def test_a_sentence_names_three_of_many_trials(tmp_path: Path) -> None:
    scores = (0.9, 0.95, 0.94)
    tied = ablated(tmp_path / "tied", {"low": (0.7, 0.7, 0.7)} | dict.fromkeys("abcde", scores))
    assert tied.headline == "“a”, “b”, “c” and 2 more trials tie with the highest validation accuracy, 0.9300."
    assert [line[:3] for line in details(tied)] == ["“a”", "“b”", "“c”"]
    arms = {name: tuple(one - 0.001 * place for one in scores) for place, name in enumerate("abcdef")}
    noise = {
        name: tuple(one + 0.01 * (seed == place) for seed, one in enumerate(arms[name]))
        for place, name in enumerate(arms)
    }
    near = ablated(tmp_path / "near", noise)
    _, *others = sorted(noise, key=lambda name: -sum(noise[name]))
    (said,) = [line for line in details(near) if line.startswith("Not told apart from it: ")]
    assert said.endswith("; 2 more trials.")
    assert [name for name in others if f"“{name}”" in said] == others[:3], "the nearest three"


def test_nothing_is_best_while_an_arm_gets_seeds(tmp_path: Path) -> None:
    """Its next seed may make it the best, or not: until then no view names one."""
    edition = arms("whole", "part")
    with ByHand(tmp_path, edition, seeds=3) as hand:
        whole, part = (
            hand.plan("trial", n, {"encoding.gamma": 1.0 + n}, name) for n, name in enumerate(("whole", "part"))
        )
        for trial, seed in [(whole, 0), (whole, 1), (whole, 2), (part, 0), (part, 1)]:
            hand.complete(trial, seed, 0.7 + 0.2 * (trial is part), 0.8)
        assert {tuple(labels) for labels in named(tmp_path, edition.id).values()} == {()}
        assert Result.open(Home(tmp_path), edition.id).headline == "No answer yet: 1 trial begun."
        hand.complete(part, 2, 0.9, 0.8)
        assert {tuple(labels) for labels in named(tmp_path, edition.id).values()} == {("1",)}


def test_an_arm_that_failed_lacks_a_seed_and_cannot_win(tmp_path: Path) -> None:
    edition = arms("whole", "part")
    with ByHand(tmp_path, edition, seeds=3) as hand:
        for trial, seed in hand.runs({"whole": {"encoding.gamma": 1.0}, "part": {"encoding.gamma": 2.0}}, 3):
            if (trial.name, seed) == ("part", 2):
                hand.fail(trial, seed, "no memory")
            else:
                hand.complete(trial, seed, 0.7 + 0.2 * (trial.name == "part"), 0.8)
    assert [row.name for row in Result.open(Home(tmp_path), edition.id).winners] == ["whole"]


def test_with_all_arms_at_chance_nothing_is_best(tmp_path: Path) -> None:
    for scores in ((0.5, 0.5, 0.5), (0.507, 0.507, 0.507), (0.518, 0.519, 0.53)):
        root = tmp_path / str(scores)
        result = ablated(root, {"a": (0.5, 0.5, 0.5), "b": scores})
        assert (result.best, result.winners) == (None, [])
        assert result.headline == "No trial is above chance (0.50) by validation, after 8 epochs."
        assert not any(row.best for row in one_status(Home(root), result.edition.id).rows)
        study = next(row for row in rows(result.history, "FINISHED") if row.id == STUDY)
        assert study.tags["locus.best"] == ""
        assert not [name for name in study.values.values if name.startswith("best/")]
        page = result.report().read_text()
        assert 'class="strong"' not in page
        assert result.claims[0].word == "REFUTED", "claims are judged all the same"


def test_points_at_chance_are_named_while_their_confirmation_has_no_score(tmp_path: Path) -> None:
    edition = search(trials=2)
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        points = {0: {"encoding.gamma": 1.0}, 1: {"encoding.gamma": 2.0}}
        hand.points("trial", points, lambda number, seed: (0.98, 0.98) if (number, seed) == (1, 2) else (0.5, 0.5))
        hand.plan("confirmation", 1, {"encoding.gamma": 2.0})
        hand.journal.write(Confirms(numbers=(1,)))
    assert Result.open(Home(tmp_path), edition.id).headline == (
        "#1 (gamma=2) is highest so far: validation accuracy 0.6600, not confirmed on fresh seeds."
    )


def test_seeds_that_fail_are_said_beside_the_mean_of_all(tmp_path: Path) -> None:
    result = ablated(tmp_path, {"a": (0.5, 0.5, 0.5), "b": (0.5, 0.5, 0.98)})
    assert "test accuracy 0.6600 on these" in result.headline
    groups = "1 of 3 seeds at 0.98, 2 failed (0.50)"
    assert details(result)[0].endswith(f"{groups}).")
    assert f"Seeds lie in two groups, and the mean is that of all: b: {groups}." in result.report().read_text()


def test_two_seeds_show_their_values_and_no_interval(tmp_path: Path) -> None:
    result = ablated(tmp_path, {"a": (0.6, 0.61), "b": (0.9, 0.95)})
    edition = Edition(budget="base", study=Study(**{**dict(result.edition.study), "seeds": 2}))
    result.history.edition, result.history.seeds = edition, 2
    again = Result(result.home, edition, result.history, Outcomes(result.home))
    assert again.headline == "“b” comes out best by validation: test accuracy 0.9250 on these 1,000 test images."
    assert details(again) == [
        "“b” has test accuracy 0.9250 (2 seeds: 0.9000, 0.9500).",
        "It is 0.3200 above “a” (2 seeds).",
        "With 2 seeds no difference can be tested.",
    ]
    assert again.claims[0].word == "INCONCLUSIVE"
    table = again.trials().set_index("name")
    assert table.loc["b", ["low", "high", "p_holm"]].isna().all()
    assert "0.9000, 0.9500" in again.report().read_text()


def test_no_difference_is_tested_before_both_arms_have_ended(tmp_path: Path) -> None:
    """Each seed that comes would be a look: of equal arms one would be told apart at some time in 10 % of studies."""
    values = {name: {"encoding.gamma": 1.0 + place} for place, name in enumerate("ab")}
    edition = Study(name="grows", question="?", base=base(), plan=Ablation(values, "a"), seeds=4).at()
    tested = []
    with ByHand(tmp_path, edition) as hand:
        for trial, seed in hand.runs(values, 4):
            test = 0.8 + 0.001 * seed + (0.1 if trial.name == "b" else 0.0)
            hand.complete(trial, seed, test, test)
            gap = Result.open(Home(tmp_path), edition.id).differences.get("b") if seed > 1 else None
            tested.append(gap is not None and gap.adjusted is not None)
    assert tested == [*[False] * 7, True]
