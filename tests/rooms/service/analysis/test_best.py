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
from service.tracking.rows import STUDY, rows
from tests.rooms.by_hand import ByHand, base

pytestmark = pytest.mark.usefixtures("words_only")


GAMMAS = {number: {"encoding.gamma": 1.0 + number} for number in range(9)}
Values = tuple[float | None, ...]


def search(trials: int = 3) -> Edition:
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, trials=trials, first=({"encoding.gamma": 1.0},))
    return Study(name="reach", question="How far?", base=base(), plan=plan, seeds=3).at()


def ablated(root: Path, scores: dict[str, Values], tests: dict[str, Values] | None = None) -> Result:
    """An ablation whose arms have these scores by seed, None for a run that failed; on test, too, unless `tests`."""
    arms, seeds = dict(zip(scores, GAMMAS.values(), strict=False)), max(map(len, scores.values()))
    first, claims = next(iter(arms)), (AtLeast(next(iter(arms)), 0.9),)
    plan = Ablation(arms, first)
    edition = Study(name="arms", question="Which?", base=base(), plan=plan, seeds=seeds, claims=claims).at()
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(arms, seeds):
            if seed < len(scores[trial.name]):
                value = scores[trial.name][seed]
                if value is None:
                    hand.fail(trial, seed, "no memory")
                else:
                    hand.complete(trial, seed, value, (tests or scores)[trial.name][seed])
    return Result.open(Home(root), edition.id)


def mlflow(result: Result):
    """The tags and the values of the study in MLflow, and the names of its trials by label."""
    study, *others = rows(result.history, "FINISHED")
    assert study.id == STUDY
    return study.tags, study.values.values, {row.id[1]: row.name for row in others if row.id[0] == "trial"}


def named(root: Path, id: str) -> list[str]:
    """The labels of the best trials, which all views name alike."""
    result = Result.open(Home(root), id)
    tags, _, titles = mlflow(result)
    tag = tags.get("locus.best", "").removeprefix("tie: ")
    views = {
        "python": [row.trial.label for row in result.winners],
        "terminal": [row.label for row in one_status(Home(root), id).rows if row.best],
        "mlflow": [label for label, title in titles.items() if title in tag],
        "rule": [trial.label for trial in find_best(result.history).trials],
    }
    assert views == dict.fromkeys(views, views["rule"])
    return views["rule"]


def test_while_a_confirmation_is_under_way_all_views_name_the_same_trial(tmp_path: Path) -> None:
    edition, seen = search(), []
    with ByHand(tmp_path, edition, seeds=3, trials=3) as hand:
        hand.points("trial", dict([*GAMMAS.items()][:3]), lambda number, place: ((0.7, 0.95, 0.9)[number],) * 2)
        hand.journal.write(Confirms(numbers=(1, 2)))
        seen.append(named(tmp_path, edition.id))
        again = [hand.plan("confirmation", number, GAMMAS[number]) for number in (1, 2)]
        for trial, score in zip(again, (0.8, 0.88), strict=True):
            for seed in trial.seeds(3):
                hand.complete(trial, seed, score, score)
            seen.append(named(tmp_path, edition.id))
    assert seen == [["1"], ["1"], ["c1"]], "its own seeds chose it; the fresh ones say how good it is"


def test_points_that_tie_are_told_by_the_scores_that_chose_them(tmp_path: Path) -> None:
    """The fresh seeds chose nothing, so their means are no tie; before, test images choose none."""
    edition, values = search(trials=2), {number: GAMMAS[number] for number in (0, 1)}
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        hand.points("trial", values, lambda number, place: (0.9, 0.8 + 0.1 * number))
        assert Result.open(Home(tmp_path), edition.id).best.trial.label == "0"
        hand.points("confirmation", values, lambda number, place: (0.85 + 0.1 * number, 0.84 + 0.1 * number))
        hand.journal.write(Confirms(numbers=(0, 1)))
    result = Result.open(Home(tmp_path), edition.id)
    assert result.headline == "#0 (gamma=1) and #1 (gamma=2) tie with the highest validation accuracy, 0.9000."
    assert details(result)[0].startswith("#0 (gamma=1) has test accuracy 0.8400 (95 % interval ")
    assert details(result)[1].endswith(" on fresh seeds.")


def test_a_tie_is_said_and_not_decided_by_the_order(tmp_path: Path) -> None:
    scores = {"low": (0.7, 0.7, 0.7), "b, c": (0.9, 0.95, 0.94), "d": (0.94, 0.9, 0.95)}
    result = ablated(tmp_path, scores, {"low": (0.7,) * 3, "b, c": (0.80, 0.81, 0.82), "d": (0.90, 0.91, 0.92)})
    assert named(tmp_path, result.edition.id) == ["1", "2"]
    assert result.headline == "“b, c” and “d” tie with the highest validation accuracy, 0.9300."
    status = one_status(Home(tmp_path), result.edition.id)
    assert [row.mark for row in status.rows] == ["", "best (tie)", "best (tie)"]
    assert "(tie with 1 other)" in status.best
    _, values, _ = mlflow(result)
    assert (result.best.name, values["best/test/accuracy_mean"]) == ("d", pytest.approx(0.91)), "the numbers of one"


def test_an_arm_with_a_failed_run_has_ended_and_cannot_win(tmp_path: Path) -> None:
    result = ablated(tmp_path, {"whole": (0.7, 0.7, 0.7), "part": (0.9, 0.9, None)})
    assert named(tmp_path, result.edition.id) == ["0"]
    _, values, _ = mlflow(result)
    assert one_status(Home(tmp_path), result.edition.id).trials_ended == values["progress/trials"] == 2


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
    result = ablated(tmp_path, {"whole": (0.7, 0.7, 0.7), "part": (0.9, 0.9)})
    assert named(tmp_path, result.edition.id) == []
    assert result.headline == "No answer yet: 1 trial begun."


@pytest.mark.parametrize("score", [0.5, 0.507, 0.518])
def test_with_all_arms_at_chance_nothing_is_best(score: float, tmp_path: Path) -> None:
    result = ablated(tmp_path, {"a": (0.5, 0.5, 0.5), "b": (score, score + 0.001, score)})
    assert (result.best, named(tmp_path, result.edition.id)) == (None, [])
    assert result.headline == "No trial is above chance (0.50) by validation, after 8 epochs."
    tags, values, _ = mlflow(result)
    assert (tags["locus.best"], [name for name in values if name.startswith("best/")]) == ("", [])
    assert 'class="strong"' not in result.report().read_text()
    assert result.claims[0].word == "REFUTED", "claims are judged all the same"


def test_points_at_chance_are_named_while_their_confirmation_has_no_score(tmp_path: Path) -> None:
    edition = search(trials=2)
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        points = {number: GAMMAS[number] for number in (0, 1)}
        hand.points("trial", points, lambda number, seed: (0.98, 0.98) if (number, seed) == (1, 2) else (0.5, 0.5))
        hand.plan("confirmation", 1, GAMMAS[1])
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
    assert result.headline == "“b” comes out best by validation: test accuracy 0.9250 on these 1,000 test images."
    assert details(result) == [
        "“b” has test accuracy 0.9250 (2 seeds: 0.9000, 0.9500).",
        "It is 0.3200 above “a” (2 seeds).",
        "With 2 seeds no difference can be tested.",
    ]
    assert result.claims[0].word == "INCONCLUSIVE"
    table = result.trials().set_index("name")
    assert table.loc["b", ["low", "high", "p_holm"]].isna().all()
    assert "0.9000, 0.9500" in result.report().read_text()


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
