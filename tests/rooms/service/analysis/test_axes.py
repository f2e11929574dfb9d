"""Arms that are combinations of axes: compared within the other axes, tested together, shown in groups."""

import random
import statistics

import pytest

from search_spaces.claim import Better
from search_spaces.study import Ablation, Published, Study
from service.analysis.headline import details
from service.reporting.figures.rows import to_baseline
from service.reporting.results_table import measured
from service.results import Result
from service.storage.facts import Counts
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.analysis.logits import two_sided

AXES = {
    "encoding": {"none": {"encoding.kind": "none"}, "fourier": {}, "table": {"encoding.kind": "learnable"}},
    "read-out": {"class token": {}, "mean pooling": {"model.pool": "avg"}},
}
MEANS = {"none": 0.5, "fourier": 0.97, "table": 0.95}
WITHOUT = ({"encoding": "table", "read-out": "mean pooling"},)


def crossed(root, seeds: int = 5) -> Result:
    """Five arms; mean pooling adds 0.02 to the encodings and 0.1 to the model without one."""
    study = Study(
        name="crossed", question="Which encoding under which read-out?", base=base(), seeds=seeds,
        plan=Ablation(axes=AXES, baseline="none", without=WITHOUT),
        published=(Published("fourier, mean pooling", 0.9, None, "table 1"),
                   Published("none, mean pooling", 0.6, None, "table 1")),
        claims=(Better("fourier, mean pooling", "fourier, class token"),),
    )  # fmt: skip
    edition = study.at()
    hand, noise = ByHand(root, edition), random.Random(5)
    with hand.journal:
        hand.journal.write(Counts(seeds=seeds))
        for number, (name, values) in enumerate(edition.study.plan.arms.items()):
            trial = hand.plan("trial", number, values, name)
            encoding, read_out = name.split(", ")
            mean = MEANS[encoding] + (0.1 if encoding == "none" else 0.02) * (read_out == "mean pooling")
            for seed in range(seeds):
                value = round(mean + noise.gauss(0, 0.004), 3)
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
    assert result.differences["fourier, mean pooling"].mean == pytest.approx(0.39, abs=0.01)
    assert result.differences["fourier, class token"].mean == pytest.approx(0.47, abs=0.01)


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
    assert [place for place in table.strong] == [4]


def test_the_row_of_an_arm_names_its_partner(result) -> None:
    rows = result.trials().set_index("name")
    assert rows.loc["fourier, mean pooling", "minus"] == "none, mean pooling"
    gap = result.differences["table, class token"]
    assert rows.loc["table, class token", "difference"] == gap.mean


def test_the_forest_draws_each_seed_against_its_own_partner(result) -> None:
    pairs = {pair.name: pair for pair in to_baseline(result)}
    who, than = (result.scores[name].values for name in ("fourier, mean pooling", "none, mean pooling"))
    assert pairs["fourier, mean pooling"].seeds == {seed: who[seed] - than[seed] for seed in range(5)}
    assert "“none” with the same read-out" in next(
        figure.caption for figure in _figures(result) if figure.name == "differences"
    )


def _figures(result):
    from service.reporting.page import FIGURES, figures

    return figures(result, FIGURES)


def test_claims_are_judged_by_whole_names(result) -> None:
    (verdict,) = result.claims
    assert verdict.word == "SUPPORTED"
    assert verdict.measured == pytest.approx(0.02, abs=0.006)


def test_with_a_baseline_that_has_no_scores_yet_there_is_no_difference(tmp_path) -> None:
    study = Study(name="begun", question="?", base=base(), plan=Ablation(axes=AXES, baseline="none"), seeds=3)
    with ByHand(tmp_path, study.at(), seeds=3) as hand:
        for number, (name, values) in enumerate(study.at().study.plan.arms.items()):
            trial = hand.plan("trial", number, values, name)
            for seed in range(3) if name != "none, mean pooling" else ():
                hand.complete(trial, seed, 0.9, 0.9)
    found = Result.open(Home(tmp_path), "begun@base")
    assert set(found.differences) == {"fourier, class token", "table, class token"}
