"""Two studies, or two code versions of one, set against each other: what is matched, how it is tested, what is said."""

import random
import re
import statistics
from dataclasses import replace

import pytest
from scipy import stats

from search_spaces.study import Ablation, Study
from service.analysis.comparison import Comparison, other_images, unpaired
from service.analysis.multiple_testing import subtracted, together
from service.analysis.statistics import Scale, Scores
from service.api import compare
from service.reporting.pages import comparison_headline, comparison_note
from service.storage.editions import save_edition
from service.storage.facts import Counts
from tests.rooms.by_hand import ARMS, ByHand, ablated, base, searched
from tests.rooms.service.analysis.logits import two_sided
from trainables.data import Cifar10, RedGreen
from trainables.recipe import Recipe

SPIRAL = """from trainables.encodings import EncodingSpec


class Spiral(EncodingSpec):
    kind: str = "mine.py:Spiral"
"""
FEW = {name: ARMS[name] for name in ("none", "peg", "fourier")}


def study(arms=FEW, name="encodings", **changes) -> Study:
    baseline = next(iter(arms))
    return Study(**{"name": name, "question": "Which?", "base": base(), "plan": Ablation(arms, baseline), "seeds": 5}
                 | changes)  # fmt: skip


def write(root, edition, means, seeds=range(5), noise=3, **odd) -> ByHand:
    """Runs every arm of an edition; `means`: by arm, where 0.9 is usual. The code is that of `odd["codes"]`."""
    hand, draw = ByHand(root, edition), random.Random(noise)
    hand.codes = odd.pop("codes", hand.codes)
    with hand.journal:
        hand.journal.write(Counts(seeds=len(seeds)))
        for number, (name, values) in enumerate(edition.study.plan.arms.items()):
            trial = hand.plan("trial", number, values, name)
            for seed in seeds:
                value = round(means.get(name, 0.9) + draw.gauss(0, 0.004), 3)
                hand.complete(trial, seed, value, value, **odd)
    return hand


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A study at two editions: 0.02 better with another rate, but for the arm without an encoding."""
    root = tmp_path_factory.mktemp("two")
    write(root, study().at(), {})
    other = study().at(set={"optimizer.lr": 0.01})
    write(root, other, {"peg": 0.92, "fourier": 0.92}, noise=4)
    return compare("encodings@base", other.id, home=str(root))


def test_a_race_and_seeds_that_were_added_later_are_named(tmp_path) -> None:
    """Both editions say five seeds; one of them got two more."""
    write(tmp_path, study().at(), {})
    racing = study(name="racing", plan=Ablation(FEW, next(iter(FEW)), race=True)).at()
    write(tmp_path, racing, {}, seeds=range(7))
    found = compare("encodings@base", racing.id, home=str(tmp_path)).changes
    assert {change.what: (change.a, change.b) for change in found} == {"race": ("no", "yes"), "seeds": ("5", "7")}


def test_differences_are_paired_by_seed_and_adjusted_together(two) -> None:
    assert [match.name for match in two.matches] == list(FEW)
    pairs = {str(number): (match.b.test, match.a.test) for number, match in enumerate(two.matches)}
    assert two.differences == {int(number): gap for number, gap in together(subtracted(pairs)).items()}
    for match, gap in zip(two.matches, two.differences.values(), strict=True):
        a, b = ([*side.test.values.values()] for side in (match.a, match.b))
        assert (match.how, match.seeds) == ("paired", (0, 1, 2, 3, 4))
        assert gap.mean == pytest.approx(statistics.fmean(b) - statistics.fmean(a))
        assert gap.estimate.p() == pytest.approx(two_sided(b, a), rel=1e-6)
    assert two.headline == "B is above A in “peg” and “fourier”."


def test_what_differs_is_listed_and_plain_values_hold_every_number(two) -> None:
    assert [vars(change) for change in two.changes] == [{"what": "optimizer.lr", "a": "0.001", "b": "0.01"}]
    assert any("optimizer.lr differs from the study's values" in warning for warning in two.warnings)
    assert not any("comparable" in warning for warning in two.warnings)
    plain, gap = two.plain(), two.differences[1]
    numbers = [plain["trials"][1][name] for name in ("difference", "low", "high", "p_holm")]
    assert numbers == [gap.mean, *gap.interval, gap.p]
    assert (plain["a"], plain["metric"], plain["only_a"]) == ("encodings@base", "test/accuracy", [])
    assert list(two.table()["name"]) == list(FEW)


def test_an_own_file_that_differs_is_named(tmp_path) -> None:
    for name, text in {"before": SPIRAL, "after": SPIRAL + "\n\nTURNS = 3\n", "again": SPIRAL + "# more\n"}.items():
        arms = FEW | {"mine": {"encoding": {"kind": "mine.py:Spiral", "source": text}}}
        write(tmp_path, study(arms, name=name).at(), {})
    (change,) = compare("before", "after", home=str(tmp_path)).changes
    assert change.what == "code of mine.py"
    assert change.a != change.b
    assert compare("before", "again", home=str(tmp_path)).changes == []


def test_a_test_without_pairs_is_welchs() -> None:
    draw = random.Random(1)
    for n, m, spread in ((3, 3, 1), (4, 7, 3), (10, 5, 0.2)):
        one = [draw.gauss(0.6, 0.02) for _ in range(n)]
        other = [draw.gauss(0.62, 0.02 * spread) for _ in range(m)]
        gap = unpaired(Scores(dict(enumerate(one)), n), Scores({100 + seed: x for seed, x in enumerate(other)}, m))
        exact = stats.ttest_ind(one, other, equal_var=False)
        assert gap.mean == pytest.approx(statistics.fmean(one) - statistics.fmean(other))
        assert gap.df == int(exact.df)
        assert gap.mean / gap.error == pytest.approx(exact.statistic)
        assert gap.p() == pytest.approx(2 * stats.t.sf(abs(exact.statistic), gap.df))
        assert gap.p() >= exact.pvalue * (1 - 1e-9)
        low, high = gap.interval()
        half = stats.t.ppf(0.975, gap.df) * gap.error
        assert (low, high) == (pytest.approx(gap.mean - half), pytest.approx(gap.mean + half))
    same = Scores({0: 1.0, 1: 1.0, 2: 1.0}, 3, Scale(0.5, 0, 1, 0.01))
    floor = unpaired(same, Scores({5: 0.5, 6: 0.5, 7: 0.5}, 3, Scale(0.5, 0, 1, 0.01)))
    assert floor.error == pytest.approx(0.01 / 12**0.5 * 2**0.5)
    assert floor.df == 4
    assert unpaired(same, Scores({}, 3)) is None


def test_equal_recipes_are_matched_where_names_differ_and_seeds_need_not_be_shared(tmp_path) -> None:
    write(tmp_path, study().at(), {})
    searched(tmp_path)
    found = compare("encodings", "reach", home=str(tmp_path))
    (match,) = found.matches
    assert match.name == "fourier / first: gamma=2.5"
    assert match.how == "unpaired"
    assert found.only[0] == ["none", "peg"]
    assert set(found.only[1]) == {"best: gamma=1.74", "gamma=2.31"}
    exact = stats.ttest_ind(*([*side.test.values.values()] for side in (match.b, match.a)), equal_var=False)
    assert found.differences[0].estimate.p() >= exact.pvalue > 0
    assert any("Welch's test" in warning for warning in found.warnings)
    assert [change.what for change in found.changes if change.what in ("plan", "trials")] == ["plan"], (
        "arms are no trials"
    )


def test_the_best_of_two_searches_are_compared(home, tmp_path) -> None:
    from tests.rooms.by_hand import search

    searched(tmp_path)
    again = search().at(name="again")
    folder = home.study(again.id)
    save_edition(again, home)
    folder.journal.write_bytes(home.study("reach@base").journal.read_bytes())
    found = compare("reach@base", again.id, home=str(tmp_path))
    assert [match.how for match in found.matches] == ["same runs"] * 3
    assert {match.name.partition(":")[0] for match in found.matches[::2]} == {"best", "first"}
    assert all(gap.mean == 0 and gap.p is None for gap in found.differences.values())
    assert found.headline == "No difference can be tested."


@pytest.mark.parametrize(
    ("seeds", "how", "note"),
    [
        (3, "same runs", "both have the very same runs"),
        (8, "3 same runs", "so many seeds are the very same runs in both"),  # the means differ though no pair does
    ],
)
def test_runs_of_both_are_not_tested(tmp_path, seeds, how, note) -> None:
    """The very same run on both sides differs by 0 whatever the truth is."""
    for name, count, arms in (("encodings", 3, FEW), ("more", seeds, {**FEW, "table": {"encoding.kind": "learnable"}})):
        with ByHand(tmp_path, study(arms, name, seeds=count).at()) as hand:
            for trial, seed in hand.runs(arms, count):
                hand.complete(trial, seed, 0.9 + 0.002 * seed, 0.9 + 0.002 * seed)
    found = compare("encodings", "more", home=str(tmp_path))
    matches = {(match.how, match.how_words, match.all_shared, match.b.test.n) for match in found.matches}
    assert matches == {("same runs", how, seeds == 3, seeds)}
    assert any(note in line for line in found.notes)
    assert (found.tests, found.only, found.headline) == (0, ([], ["table"]), "No difference can be tested.")


def test_few_seeds_are_shown_and_not_tested(tmp_path) -> None:
    write(tmp_path, study(seeds=2).at(), {}, seeds=range(2))
    write(tmp_path, study(name="other", base=base().put({"optimizer.lr": 0.1}), seeds=2).at(), {}, seeds=range(2))
    found = compare("encodings", "other", home=str(tmp_path))
    assert [match.how for match in found.matches] == ["paired"] * 3
    assert all(gap.p is None and gap.interval is None for gap in found.differences.values())
    assert found.headline == "No difference can be tested."
    assert any("No test for fewer than 3 pairs" in note for note in found.notes)


def test_three_common_seeds_are_paired_and_fewer_only_where_there_are_no_more(two) -> None:
    """A difference is B minus A in both ways."""
    one, other = two.matches[0].a, two.matches[0].b

    def of(scores: Scores, seeds: str) -> Scores:
        return Scores({seed: scores.values[seed] for seed in map(int, seeds)}, len(seeds))

    for mine, theirs, how, seeds in [
        ("012", "012", "paired", (0, 1, 2)),
        ("0123", "1234", "paired", (1, 2, 3)),
        ("012", "123", "unpaired", ()),
        ("01", "1234", "paired", (1,)),
        ("01", "234", "unpaired", ()),
    ]:
        a, b = replace(one, test=of(one.test, mine)), replace(other, test=of(other.test, theirs))
        (match,) = Comparison(replace(two.a, contenders=(a,)), replace(two.b, contenders=(b,))).matches
        assert (match.how, match.seeds) == (how, seeds)
        means = [statistics.fmean(side.test.values[seed] for seed in seeds or side.test.values) for side in (a, b)]
        assert match.estimate.mean == pytest.approx(means[1] - means[0])


def test_a_comparison_finds_what_a_study_of_both_trials_would(two) -> None:
    """Seeds that fail, draws of images, looks: a table of a study follows the same rules."""
    draw, scale, seen = random.Random(6), Scale(0.5, 0.0, 1.0, 0.001), set()

    def trial(seeds: int, mean: float, failing: float, draws: int) -> Scores:
        images = [draw.gauss(0, 0.003) for _ in range(draws)]
        values = {seed: 0.5 if draw.random() < failing else mean + draw.gauss(0, 0.004) for seed in range(seeds)}
        further = {seed: tuple(value + one for one in images) for seed, value in values.items() if images}
        return Scores(values, seeds, scale, further=further)

    def compared(a: Scores, b: Scores, look: int = 1, of_both: range = range(0)) -> Comparison:
        same = {seed: two.a.contenders[0].answers[seed] for seed in of_both}
        sides = [
            replace(side, contenders=(replace(side.contenders[0], test=test, answers=same),), looks=looks)
            for side, test, looks in ((two.a, a, 1), (two.b, b, look))
        ]
        return Comparison(*sides)

    for _ in range(40):
        failing, look, draws = draw.choice([0.0, 0.1, 0.7]), draw.choice([1, 2]), draw.choice([0, 4])
        a, b = trial(draw.choice([8, 12]), 0.95, 0.0, draws), trial(12, draw.choice([0.95, 0.98]), failing, draws)
        found = compared(a, b, look)
        (gap,) = found.differences.values()
        assert gap == together(subtracted({"b": (b, a)}), look)["b"]
        assert gap.p == pytest.approx(min(1.0, gap.estimate.p() / (0.75, 0.1875)[look - 1]))
        assert gap.significant == (gap.p < 0.05)
        groups = f"“{two.matches[0].name}” {12 - len(b.failed)} of 12 seeds at "
        assert (groups in comparison_note(found)) == bool(b.failed)
        seen.add((bool(b.failed), gap.significant, gap.estimate.draws))
    assert {(True, False, 5), (False, True, 5), (True, False, 1), (False, True, 1), (False, False, 1)} <= seen

    a, b = trial(12, 0.95, 0.0, 4), trial(12, 0.98, 0.0, 4)
    b = Scores({50 + seed: value if seed < 5 else 0.5 for seed, value in b.values.items()}, 12, scale)
    alone = compared(a, b)
    assert alone.matches[0].how == "unpaired"
    assert comparison_headline(alone).startswith("None of 1 tested differences is significant"), "seeds that fail count"

    few = compared(a, trial(12, 0.98, 0.0, 4), of_both=range(4)).matches[0]
    gaps = [few.b.test.values[seed] - few.a.test.values[seed] for seed in range(4, 12)]
    assert (few.how_words, few.estimate.mean) == ("8 pairs", pytest.approx(statistics.fmean(gaps)))
    (two_left,) = compared(trial(5, 0.9, 0.0, 0), trial(5, 0.95, 0.0, 0), of_both=range(3)).matches
    assert (two_left.how, two_left.seeds) == ("paired", (3, 4)), "what both share differs by nothing"


def test_a_diverged_seed_counts_at_chance_and_a_missing_one_is_named(tmp_path) -> None:
    ablated(tmp_path)
    write(tmp_path, study(ARMS, name="other", base=base().put({"optimizer.lr": 0.1})).at(), {})
    found = compare("encodings", "other", home=str(tmp_path))
    by_name = {match.name: place for place, match in enumerate(found.matches)}
    learnable = found.matches[by_name["learnable"]]
    assert (learnable.a.test.values[2], learnable.a.test.diverged) == (0.5, {2})
    assert found.plain()["trials"][by_name["learnable"]]["a_diverged"] == 1
    assert found.matches[by_name["relative bias"]].seeds == (0, 1, 2, 4)
    assert "encodings@base lacks seeds of “relative bias”" in found.warnings


def test_an_arm_out_of_the_race_is_not_said_to_lack_answers(tmp_path) -> None:
    racing = study(name="racing", plan=Ablation(FEW, next(iter(FEW)), race=True)).at()
    with ByHand(tmp_path, racing) as hand:
        for trial, seed in hand.runs(FEW, 4):
            if trial.name == "peg" and seed == 3:
                hand.stop(trial, seed, 0.5, 0, 0.8)
            else:
                hand.complete(trial, seed, 0.9 + 0.001 * seed, 0.9 + 0.001 * seed)
    write(tmp_path, study(name="all").at(), {}, seeds=range(4))
    warnings = compare("racing", "all", home=str(tmp_path)).warnings
    assert "racing@base: out of the race: “peg” after 3 seeds" in warnings
    assert not any("lacks" in warning for warning in warnings)


def test_scores_of_another_metric_are_not_subtracted(tmp_path) -> None:
    write(tmp_path, study().at(), {})
    far = study(name="far", base=base().put({"data.task": "direction4"}))
    write(tmp_path, far.at(), {})
    found = compare("encodings", "far", home=str(tmp_path))
    assert [match.how for match in found.matches] == ["other scale"] * 3
    assert found.differences == {}
    assert any("not comparable" in warning and "chance 0.25 in B" in warning for warning in found.warnings)
    assert found.report().exists()


def test_other_images_are_warned_of() -> None:
    def images(a, b):
        return other_images(Recipe(data=a), Recipe(data=b))

    assert images(RedGreen(), RedGreen()) == ""
    assert images(RedGreen(), RedGreen(data_seed=1)) == "data.data_seed"
    assert images(RedGreen(), RedGreen(train_size=400)) == "data.train_size", "test images are drawn after these"
    assert images(RedGreen(), Cifar10()) == "the data set"
    assert images(Cifar10(train_size=500), Cifar10(samples_per_class=9)) == ""
    assert images(Cifar10(test_size=500), Cifar10()) == "data.test_size"
    assert images(Cifar10(image_size=64), Cifar10()) == "data.image_size"


def test_the_page_has_the_numbers_and_lies_beside_the_report(two) -> None:
    page = two.report()
    assert page.parent == two.home.study("encodings@base").report
    text = page.read_text()
    assert page.name == f"compare-{two.b.label.removeprefix('encodings@base')}.html"
    for place, gap in two.differences.items():
        assert f"{gap.mean:+.4f}".replace("-", "\N{MINUS SIGN}") in text
        assert two.matches[place].name in text
    assert text.count('<svg class="gap"') == 3
    assert "optimizer.lr" in text
    assert re.search(r"<h1>encodings@base and encodings@base~\w+</h1>", text)
