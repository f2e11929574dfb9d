"""Agreement with papers in the table of results, and every table, on the page and as files."""

import csv
import io
import re

import pytest

from search_spaces.claim import Better
from search_spaces.study import Ablation, Published, Study
from service.reporting.results_table import measured
from service.results import Result
from service.storage.facts import Counts
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base

pytestmark = pytest.mark.usefixtures("words_only")

ARMS = {"low": {"encoding.gamma": 1.0}, "high": {"encoding.gamma": 2.0}}
PUBLISHED = (
    Published("low", 0.803, None, "table 1", same_data=True, margin=0.02),
    Published("high", 0.95, None, "table 1", same_data=True, margin=0.02),
    Published("low", 0.803, None, "table 2", same_data=False, margin=0.02),
    Published("low", 0.803, None, "table 3", same_data=True),
)


def run(root, seeds: int, **given) -> Result:
    study = Study(name="pair", question="Which?", base=base(), plan=Ablation(ARMS, "low"), seeds=seeds, **given)
    edition = study.at()
    with ByHand(root, edition, seeds=seeds) as hand:
        for number, (name, values) in enumerate(ARMS.items()):
            trial = hand.plan("trial", number, values, name)
            for seed in range(seeds):
                score = round(0.8 + 0.05 * number + 0.003 * (seed * (2 + number) % 5), 4)
                hand.complete(trial, seed, score, score)
    return Result.open(Home(root), edition.id)


def cells(table) -> dict[str, list[str]]:
    return {column.full_head: list(column.cells) for column in table.columns}


def test_agreement_stands_under_the_published_number(tmp_path):
    result = run(tmp_path, 5, published=PUBLISHED)
    table = measured(result)
    assert cells(table)["test accuracy, ours"] == ["equal within 0.02", "differs by more than 0.02"]
    assert sorted(result.agreements) == [0, 1], "not of other data, and not without a margin"
    without = run(tmp_path / "without", 5, published=PUBLISHED[2:])
    assert "test accuracy, ours" not in cells(measured(without))


def test_a_number_is_not_compared_where_the_question_is_another(tmp_path):
    own = Study(name="pair", question="Which?", base=base(), plan=Ablation(ARMS, "low"), published=PUBLISHED)
    edition = own.at(set={"optimizer.lr": 0.002})
    with ByHand(tmp_path, edition, seeds=3) as hand:
        trial = hand.plan("trial", 0, ARMS["low"], "low")
        for seed in range(3):
            hand.complete(trial, seed, 0.803, 0.803)
    assert Result.open(Home(tmp_path), edition.id).agreements == {}


def test_every_table_has_one_head_a_column_and_travels_as_csv(
    reported_search, reported_ablation, reported_sizes, tmp_path
):
    published = run(tmp_path, 7, published=PUBLISHED).report()
    for path in (reported_search.page, reported_ablation.page, reported_sizes.page, published):
        names = re.findall(r'<a href="#table-([\w-]+)">Table \d+\.</a>', path.read_text())
        assert len(names) == len(set(names)) >= 4
        assert {f"table-{name}" for name in names} == {file.stem for file in path.parent.glob("table-*.csv")}
        for name in names:
            rows = list(csv.reader(io.StringIO((path.parent / f"table-{name}.csv").read_text())))
            heads = rows[0]
            assert len(heads) == len(set(heads)), name
            assert {len(row) for row in rows} == {len(heads)}
            assert (path.parent / f"table-{name}.tex").exists()


def test_what_an_earlier_look_found_says_its_seeds_beside_later_ones(tmp_path):
    claims = (Better("high", "low"),)
    edition = Study(name="pair", question="?", base=base(), plan=Ablation(ARMS, "low"), seeds=3, claims=claims).at()
    with ByHand(tmp_path, edition, seeds=3) as hand:
        trials = [hand.plan("trial", place, values, name) for place, (name, values) in enumerate(ARMS.items())]

        def train(seeds) -> None:
            for trial in trials:
                for seed in seeds:
                    score = 0.8 + 0.01 * seed + 0.05 * trial.number * (seed < 3)
                    hand.complete(trial, seed, score, score)

        train(range(3))
        hand.journal.write(Counts(seeds=5))
        train((3, 4))
    result = Result.open(Home(tmp_path), edition.id)
    table = measured(result)
    assert cells(table)["minus “low”, paired, mean"] == ["", "+0.0500"]
    assert "Found at an earlier look, and so it stays: “high” (3 seeds; with 5: 0.0300, p = 0.38)." in table.note
    assert "Found at an earlier look" in result.latex()
