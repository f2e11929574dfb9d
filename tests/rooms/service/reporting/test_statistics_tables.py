"""The tables of effect sizes, agreement with papers and early stopping, on the page and as files."""

import csv
import io
import re

import pytest

from search_spaces.study import Ablation, Published, Study
from service.analysis.estimates.bootstrap import bootstrap_interval
from service.analysis.estimates.effect import effect_size
from service.analysis.format import between, two
from service.reporting.estimates.effects import BOOTSTRAP, effects
from service.reporting.page import page
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from service.storage.journal import Counts
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.analysis.test_axes import crossed

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
    hand = ByHand(root, edition)
    with hand.journal:
        hand.journal.write(Counts(seeds=seeds))
        for number, (name, values) in enumerate(ARMS.items()):
            trial = hand.plan("trial", number, values, name)
            for seed in range(seeds):
                score = round(0.8 + 0.05 * number + 0.003 * (seed * (2 + number) % 5), 4)
                hand.complete(trial, seed, score, score)
    return Result.open(Home(root), edition.id)


def cells(table) -> dict[str, list[str]]:
    return {column.full_head: list(column.cells) for column in table.columns}


def test_effect_sizes_are_those_of_the_analysis(tmp_path):
    result = run(tmp_path, 5)
    table = effects(result)
    found, gap = cells(table), result.differences["high"]
    group = "minus “low”, paired"
    effect = effect_size(gap.estimate)
    assert found[f"{group}, effect size d"] == ["", two(effect.value)]
    assert found[f"{group}, 95 % interval of d"] == ["", f"{two(effect.interval[0])} to {two(effect.interval[1])}"]
    assert found[f"{group}, seeds needed"] == ["", "3"]
    assert (table.folded, table.title) == (True, "Effect sizes")
    assert not any(BOOTSTRAP in head for head in found), "five seeds are too few"
    trials = result.trials().set_index("name")
    assert trials.loc["high", "effect_size"] == pytest.approx(effect.value)
    assert trials.loc["high", "effect_size_low"] == pytest.approx(effect.interval[0])


def test_with_axes_each_arm_is_compared_with_its_own_partner(tmp_path):
    result = crossed(tmp_path, seeds=6)
    found = cells(effects(result))
    wanted = []
    for name in (row.name for row in result.of("trial")):
        encoding, read_out = name.split(", ")
        who, than = (list(result.scores[one].values.values()) for one in (name, f"none, {read_out}"))
        gaps = [one - other for one, other in zip(who, than, strict=True)]
        wanted.append("" if encoding == "none" else between(bootstrap_interval(gaps)))
    assert found[f"minus “none” with the same read-out, paired, {BOOTSTRAP}"] == wanted
    assert wanted.count("") == 2
    assert "effects" in [table.name for table in page(result, {}).tables]


def test_with_six_seeds_a_bootstrap_interval_stands_beside_students(tmp_path):
    result = run(tmp_path, 6)
    table = effects(result)
    found = cells(table)
    tests = [list(row.test.values.values()) for row in result.of("trial")]
    gaps = [high - low for low, high in zip(*tests, strict=True)]
    assert found[f"test accuracy, {BOOTSTRAP}"] == [between(bootstrap_interval(values)) for values in tests]
    assert found[f"minus “low”, paired, {BOOTSTRAP}"] == ["", between(bootstrap_interval(gaps))]
    student = result.differences["high"].estimate.interval()
    assert found["minus “low”, paired, 95 % interval (Student)"] == ["", between(student)]
    assert "It is too narrow with few seeds" in table.note
    assert table.title == "Effect sizes and bootstrap intervals"


def test_two_seeds_have_no_effect_sizes(tmp_path):
    assert effects(run(tmp_path, 2)) is None


def test_agreement_stands_under_the_published_number(tmp_path):
    result = run(tmp_path, 5, published=PUBLISHED)
    table = measured(result)
    assert cells(table)["test accuracy, ours"] == ["equal within 0.02", "differs by more than 0.02"]
    assert sorted(result.agreements) == [0, 1], "not of other data, and not without a margin"
    assert "Holm over 2 numbers" in table.note
    without = run(tmp_path / "without", 5, published=PUBLISHED[2:])
    assert "test accuracy, ours" not in cells(measured(without))
    assert "“Equal”" not in measured(without).note


def test_a_number_is_not_compared_where_the_question_is_another(tmp_path):
    own = Study(name="pair", question="Which?", base=base(), plan=Ablation(ARMS, "low"), published=PUBLISHED)
    edition = own.at(set={"optimizer.lr": 0.002})
    hand = ByHand(tmp_path, edition)
    with hand.journal:
        hand.journal.write(Counts(seeds=3))
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
