"""search_spaces/ATLAS.md, its figure and README say what the study's records say, and no other number."""

import re

import pytest

from search_spaces.library import find
from tests.house import atlas
from tests.house.sources import ROOT

NUMBER = re.compile(r"\d+\.\d+")
FOUND = (ROOT / "README.md").read_text().split("## What we found\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def tasks():
    return atlas.tasks()


def test_the_page_has_what_the_records_say(tasks, subtests) -> None:
    page = atlas.PAGE.read_text()
    assert page.count("\n") <= 60
    for what, text in atlas.printed(tasks).items():
        with subtests.test(what):
            assert text
            assert text in page


def test_no_other_number_stands_on_the_page_or_in_readme(tasks, subtests) -> None:
    printed = " ".join(atlas.printed(tasks).values())
    known = {*NUMBER.findall(printed)}
    for name, text in (("page", atlas.PAGE.read_text()), ("README", FOUND)):
        with subtests.test(name):
            assert {*NUMBER.findall(text)} - known == set()


def test_the_figure_is_that_of_the_records(tasks) -> None:
    assert atlas.FIGURE.read_text() == atlas.svg_alone(atlas.figure(tasks))


def test_a_difference_is_that_of_the_means_and_all_of_a_task_are_tested_together(tasks, subtests) -> None:
    for task in tasks:
        with subtests.test(task.name):
            rows = {row.name: row for row in task.record.rows}
            assert {row.lengths[length].n for row in rows.values() for length in row.lengths} == {5}
            for (who, than), gaps in task.gaps.items():
                for length, gap in gaps.items():
                    means = [rows[name].lengths[length].mean for name in (who, than)]
                    assert gap.mean == pytest.approx(means[0] - means[1])
                    assert gap.adjusted.tests == len(task.scores) * len(atlas.PAIRS)


def test_every_task_is_scored_in_skill() -> None:
    study = find("atlas")
    assert {budget: study.at(budget).study.score.metric for budget in study.budgets} == dict.fromkeys(
        study.budgets, "val/skill"
    )
