"""The methods of an ablation over tasks: their table, and the sentence above it."""

import csv
import shutil

import pytest

from search_spaces.claim import BetterOverTasks
from search_spaces.plans.ablation import Ablation
from search_spaces.study import Score, Study
from service.analysis.across_trials import mean_over_families
from service.analysis.headline import answer, details, headline
from service.api import check_report
from service.reporting.results_table import over_tasks
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base, edit_lines
from trainables.spec import SpecError

NAMES = ("tree", "bush", "herb")
TABLE = {"iris": (0.6, 0.9, 0.7), "rose": (0.8, 0.7, 0.7), "wine": (0.5, 0.4, 0.6)}
"""By task, the score of each method."""
KINDS = dict(zip(NAMES, ("none", "learnable", "sinusoidal"), strict=True))
KINDS_BY_NAME = {name: {"encoding.kind": kind} for name, kind in KINDS.items()}
AXES = {"method": KINDS_BY_NAME, "task": {task: {"data.data_seed": number} for number, task in enumerate(TABLE)}}
FLOWERS = {"iris": "flowers", "rose": "flowers"}


def played(root, *, missing=(), table=TABLE, seeds=1, families=None, claims=()):
    """A study whose first seed scores as the table says, each further one 0.001 more.

    `missing`: pairs of a method and a task whose last run has no answer.
    """
    plan = Ablation(axes=AXES, baseline="tree", tasks="task", families=families or {})
    recipe = base().put({"data.skill": True, "data.test_size": 100_000})
    study = Study(
        name="plants", question="Which?", base=recipe, plan=plan, score=Score("val/skill"), seeds=seeds, claims=claims
    )
    with ByHand(root, study.at()) as hand:
        for trial, seed in hand.runs(plan.arms, seeds):
            names = plan.combination(trial.name)
            score = dict(zip(NAMES, table[names["task"]], strict=True))[names["method"]]
            if (names["method"], names["task"]) not in missing or seed < seeds - 1:
                hand.complete(trial, seed, score, score + 0.001 * seed)
    return Result.open(Home(root), hand.edition.id)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    return played(
        tmp_path_factory.mktemp("plants"), seeds=3, families=FLOWERS, claims=(BetterOverTasks("herb", "tree"),)
    )


def cells(result: Result) -> dict[str, list[str]]:
    return {column.full_head: list(column.cells) for column in over_tasks(result).columns}


def test_a_family_counts_once_and_in_it_each_task() -> None:
    """Three squares count as much as one photograph."""
    means = {"a": 0.1, "b": 0.3, "c": 0.5, "d": 0.9}
    assert mean_over_families(means, dict.fromkeys("abc", "squares")) == pytest.approx(0.6)
    assert mean_over_families(means, {}) == pytest.approx(0.45)


def test_the_table_has_the_mean_on_each_task_and_over_families(result) -> None:
    assert cells(result) == {
        "method": ["herb", "tree", "bush"],
        "test skill, iris": ["0.7010", "0.6010", "0.9010"],
        "test skill, rose": ["0.7010", "0.8010", "0.7010"],
        "test skill, wine": ["0.6010", "0.5010", "0.4010"],
        "mean over families": ["0.6510", "0.6010", "0.6010"],
    }
    note = over_tasks(result).note
    assert "Family “flowers”: iris and rose." in note
    assert "Not in a mean" not in note


def test_the_page_has_the_table_and_its_files(result) -> None:
    page = result.report()
    assert 'id="table-tasks"' in page.read_text()
    (head, *rows) = csv.reader(page.with_name("table-tasks.csv").read_text().splitlines())
    assert (head[-1], [row[0] for row in rows]) == ("mean over families", ["herb", "tree", "bush"])
    assert "herb & 0.7010 & 0.7010 & 0.6010 & 0.6510" in page.with_name("table-tasks.tex").read_text()


def test_the_first_sentence_names_the_highest_means_and_ranks_nothing(result, tmp_path) -> None:
    assert headline(result) == "“herb” has the highest mean over tasks, 0.6510; “tree” follows with 0.6010."
    assert result.best is None, "scores of different tasks say nothing about each other"
    for name, table, methods in (
        ("two", TABLE, "bush herb"),
        ("all", dict.fromkeys(TABLE, (0.5,) * 3), "tree bush herb"),
    ):
        found = answer(played(tmp_path / name, table=table))
        assert (found.kind, " ".join(part.values["name"] for part in found.values["names"])) == (
            "headline.task means",
            methods,
        )


def test_a_task_that_a_method_lacks_is_in_no_mean(tmp_path) -> None:
    found = played(tmp_path, missing=[("bush", "iris")], seeds=2)
    assert found.methods.counted == ["rose", "wine"]
    shown = cells(found)
    assert shown["test skill, iris"] == ["0.6005", "0.7005", "0.9000 (1/2)"]
    assert shown["mean over tasks"] == ["0.6505", "0.6505", "0.5505"]
    assert "Not in a mean over tasks, as some method lacks a seed there: iris." in over_tasks(found).note
    assert headline(found).startswith("“tree” and “herb” share the highest mean over tasks")
    assert [line.split(";")[0] for line in details(found)] == ["Means are over 2 tasks", "Not finished: 1 trial begun."]


def test_without_a_whole_task_there_is_no_mean(tmp_path) -> None:
    found = played(tmp_path, missing=[("herb", task) for task in TABLE], seeds=2)
    assert headline(found).startswith("No mean over tasks yet: no task has all its runs.")
    assert [*cells(found)] == ["method", *(f"test skill, {task}" for task in TABLE)]
    assert cells(found)["method"] == [*NAMES]


def test_a_method_that_lacks_a_task_has_no_score_over_tasks(tmp_path) -> None:
    result = played(tmp_path, seeds=3)
    result.rows = [row for row in result.rows if row.name != "bush, wine"]
    found = result.scores_of(BetterOverTasks("bush", "tree"))
    assert [*found] == ["tree"]
    assert {task: one.mean for task, one in found["tree"].tasks.items()} == pytest.approx(
        {task: TABLE[task][0] + 0.001 for task in TABLE}
    )


def test_families_change_no_run() -> None:
    plan = Ablation(axes=AXES, baseline="tree", tasks="task", families={"wine": "food"})
    recipe = base().put({"data.skill": True})
    study = Study(name="plants", question="?", base=recipe, plan=plan, score=Score("val/skill"))
    without = study.model_copy(update={"plan": Ablation(axes=AXES, baseline="tree", tasks="task")})
    assert study.at().definition == without.at().definition


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"tasks": "task", "families": {"beer": "food"}},
            r"^families must be by task \(iris, rose, wine\), got \['beer'\]",
        ),
        ({"families": {"wine": "food"}}, "families must be by task"),
        ({"axes": {}, "arms": KINDS_BY_NAME, "families": {"wine": "food"}}, "families must be left out"),
        ({"tasks": "method"}, r"^tasks must be one of two axes, that without tree \(task\), got "),
        ({"tasks": "tasks"}, r"^tasks must be one of two axes, that without tree \(task\), got "),
    ],
)
def test_tasks_are_the_other_of_two_axes_and_families_are_of_tasks(values, sentence) -> None:
    with pytest.raises(SpecError, match=sentence):
        Ablation(**{"axes": AXES, "baseline": "tree"} | values)


def test_a_page_is_written_again_where_one_answer_is_of_other_code(result, tmp_path) -> None:
    """No arm is best over tasks: that must not be read as a study without answers."""
    shutil.copytree(result.home.root, tmp_path / "home")
    home, found = Home(tmp_path / "home"), result
    page = home.study(found.edition.id).report / "report.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text("an earlier page")
    journal, run = home.study(found.edition.id).journal, found.rows[0].runs[0]
    edit_lines(journal, lambda line: line.replace(run.code, "0123456789ab") if run.run.key in line else line)
    again = Result.open(home, found.edition.id)
    assert again.stale == 1
    check_report(again)
