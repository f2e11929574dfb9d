"""Arms that are combinations of axes: compared within the other axes, tested together, shown in groups."""

import random
import statistics

import pytest

from search_spaces.claim import Better
from search_spaces.study import Ablation, Published, Study
from service.analysis.headline import details
from service.reporting.figures.rows import to_baseline
from service.reporting.page import FIGURES, figures
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.analysis.logits import two_sided

AXES = {
    "encoding": {"none": {"encoding.kind": "none"}, "fourier": {}, "table": {"encoding.kind": "learnable"}},
    "read-out": {"class token": {}, "mean pooling": {"model.pool": "avg"}},
}
MEANS = {"none": 0.5, "fourier": 0.97, "table": 0.95}
PUBLISHED = {"fourier": 0.9, "none": 0.6}
WITHOUT = ({"encoding": "table", "read-out": "mean pooling"},)


def crossed(root, seeds: int = 5) -> Result:
    """Five arms; mean pooling adds 0.02 to the encodings and 0.1 to the model without one."""
    plan = Ablation(axes=AXES, baseline="none", without=WITHOUT)
    published = tuple(Published(f"{name}, mean pooling", score, None, "table 1") for name, score in PUBLISHED.items())
    claims = (Better("fourier, mean pooling", "fourier, class token"),)
    edition = Study("crossed", "Which?", base(), plan, seeds=seeds, published=published, claims=claims).at()
    noise = random.Random(5)
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(plan.arms, seeds):
            encoding, read_out = trial.name.split(", ")
            gain = (0.1 if encoding == "none" else 0.02) * (read_out == "mean pooling")
            value = round(MEANS[encoding] + gain + noise.gauss(0, 0.004), 3)
            hand.complete(trial, seed, value, value)
    return Result.open(Home(root), edition.id)


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    return crossed(tmp_path_factory.mktemp("axes"))


def test_differences_are_within_the_other_axes_and_adjusted_with_the_claim(result) -> None:
    assert set(result.differences) == {"fourier, class token", "fourier, mean pooling", "table, class token"}
    ps = {}
    for name, gap in result.differences.items():
        partner = f"none, {name.split(', ')[1]}"
        who, than = (list(result.scores[arm].values.values()) for arm in (name, partner))
        assert gap.mean == pytest.approx(statistics.fmean(who) - statistics.fmean(than))
        ps[name] = two_sided(who, than)
        assert gap.estimate.p() == pytest.approx(ps[name], rel=1e-6)
    ps["the claim"] = two_sided(*([*result.scores[name].values.values()] for name in result.claims[0].claim.names))
    found = {name: gap.p for name, gap in result.differences.items()} | {"the claim": result.claims[0].p}
    largest = 0.0
    for rank, name in enumerate(sorted(ps, key=ps.get)):
        largest = max(largest, min(1.0, (4 - rank) * ps[name] / 0.75))
        assert found[name] == pytest.approx(largest, rel=1e-6)
    (verdict,) = result.claims
    assert (verdict.word, verdict.measured) == ("SUPPORTED", pytest.approx(0.02, abs=0.006))


def test_the_headline_names_the_arm_that_the_best_is_compared_with(result) -> None:
    assert result.headline.startswith("“fourier, mean pooling” comes out best by validation: ")
    assert result.headline.endswith(", significantly above “none, mean pooling”.")
    gap = result.differences["fourier, mean pooling"]
    assert any(f"It is {gap.mean:.4f} above “none, mean pooling” (" in line for line in details(result))


def test_the_table_has_a_column_for_each_axis_in_groups(result) -> None:
    table = measured(result)
    assert [column.head for column in table.columns[:2]] == ["read-out", "encoding"]
    assert [row[:2] for row in table.rows] == [
        ("class token", "none (baseline)"),
        ("class token", "fourier"),
        ("class token", "table"),
        ("mean pooling", "none (baseline)"),
        ("mean pooling", "fourier"),
    ]
    heads = [column.full_head for column in table.columns]
    published = heads.index("minus “none” with the same read-out, paired, published")
    assert [row[published] for row in table.rows] == ["", "", "", "", "+0.3000"]
    assert [*table.strong] == [4]
    rows = result.trials().set_index("name")
    assert rows.loc["fourier, mean pooling", "minus"] == "none, mean pooling"
    gap = result.differences["table, class token"]
    assert rows.loc["table, class token", "difference"] == gap.mean


def test_the_forest_draws_each_seed_against_its_own_partner(result) -> None:
    pairs = {pair.name: pair for pair in to_baseline(result)}
    who, than = (result.scores[name].values for name in ("fourier, mean pooling", "none, mean pooling"))
    assert pairs["fourier, mean pooling"].seeds == {seed: who[seed] - than[seed] for seed in range(5)}
    assert "“none” with the same read-out" in next(
        figure.caption for figure in figures(result, FIGURES) if figure.name == "differences"
    )


def test_with_a_baseline_that_has_no_scores_yet_there_is_no_difference(tmp_path) -> None:
    edition = Study("begun", "?", base(), Ablation(axes=AXES, baseline="none"), seeds=3).at()
    with ByHand(tmp_path, edition) as hand:
        for trial, seed in hand.runs(edition.study.plan.arms, 3):
            if trial.name != "none, mean pooling":
                hand.complete(trial, seed, 0.9, 0.9)
    found = Result.open(Home(tmp_path), "begun@base")
    assert set(found.differences) == {"fourier, class token", "table, class token"}
