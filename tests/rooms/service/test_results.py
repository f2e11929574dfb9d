import html
import math
import re
import statistics
import subprocess
import sys

import pytest

import service
from search_spaces.claim import KeepsMore
from search_spaces.study import Ablation, Study
from service.analysis.headline import details
from service.analysis.study_status import all_status
from service.analysis.tables import brief_table
from service.results import Result
from service.storage.editions import save_edition
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.by_hand import ARMS, ByHand, ablated, ablation, at_sides, base, judge, keep_weights, searched
from trainables.spec import LocusError


@pytest.fixture(scope="module")
def searched_result(tmp_path_factory) -> Result:
    root = tmp_path_factory.mktemp("search")
    return Result.open(Home(root), searched(root), "http://127.0.0.1:5000")


@pytest.fixture(scope="module")
def ablated_result(tmp_path_factory) -> Result:
    root = tmp_path_factory.mktemp("ablation")
    return Result.open(Home(root), ablated(root))


def test_a_row_a_run(searched_result):
    table = searched_result.table()
    assert set(table.columns) >= {"trial", "encoding.gamma", "seed", "outcome", "val/accuracy", "test/accuracy", "key"}
    assert table.outcome.value_counts().to_dict() == {"completed": 23, "stopped": 4, "diverged": 1, "failed": 1}
    stopped = table[table.outcome == "stopped"].iloc[0]
    assert stopped["reason"].startswith("stopped at epoch 3 (cut-off 0.85")
    assert math.isnan(stopped["test/accuracy"])
    assert table[table.trial == "c9"].seed.tolist() == [1000, 1001, 1002]


def test_a_row_a_trial(searched_result):
    table = searched_result.trials().set_index("trial")
    assert (table.loc["6", "status"], table.loc["6", "n"], table.loc["6", "asked"]) == ("incomplete", 2, 3)
    assert table.loc["6", "reason"] == "the worker died (exit code 137)"
    assert table.loc["2", "mean"] == 0.5
    runs = searched_result.table()
    for label in ("0", "c3"):
        tests = runs[runs.trial == label]["test/accuracy"].tolist()
        assert table.loc[label, "test_mean"] == pytest.approx(statistics.fmean(tests))
        assert table.loc[label, "test_std"] == pytest.approx(statistics.stdev(tests))


def test_a_table_without_rows_says_why(home, tmp_path):
    """Also in a notebook; what is made of a table is a plain one."""
    plans = {"early": Ablation({"none": {}, "peg": {"encoding.kind": "peg"}}, baseline="none"),
             "late": Ablation({"x": {"optimizer.lr": 0.1}}, "x")}  # fmt: skip
    for name, plan in plans.items():
        edition = Study(name, "?", base(), plan).at()
        save_edition(edition.model_copy(update={"study": edition.study.counted(seeds=1)}), home)
    early = Result.open(home, "early@base")
    assert repr(early.claims) == early.claims._repr_html_() == "early claims nothing"
    assert repr(service.status(home=str(tmp_path / "other"))) == f"no study was run in {tmp_path / 'other'} yet"
    for table in (early.table(), early.trials(), brief_table(early)):
        assert (len(table), repr(table)) == (0, "no trial of early@base has begun yet")
        assert table._repr_html_() == "<p>no trial of early@base has begun yet</p>"
    for name, encoding in (("one", "peg"), ("other", "irpe")):
        arms = {name: {"encoding.kind": encoding}}
        with ByHand(tmp_path, Study(name, "?", base(), Ablation(arms, name)).at()) as hand:
            for trial, seed in hand.runs(arms, 1):
                hand.complete(trial, seed, 0.9, 0.9)
    table = service.compare("one", "other", home=str(tmp_path)).table()
    assert len(table) == 0
    assert repr(table) == "A and B have no trial in common. In A alone: “one”. In B alone: “other”."
    trials = Result.open(home, "one@base").trials()
    assert (len(trials), "0.9" in repr(trials), "<table" in trials._repr_html_()) == (1, True, True)
    assert "Empty DataFrame" in repr(trials[trials.n > 9])


def test_the_best_of_a_search_is_the_confirmed_one(searched_result):
    best = searched_result.best
    assert best.trial.role == "confirmation"
    means = {row.trial.number: row.validation.mean for row in searched_result.of("confirmation")}
    assert best.validation.mean == max(means.values())
    assert sorted(best.runs) == [1000, 1001, 1002]
    assert best.recipe.encoding.gamma in (2.5, 1.74, 2.31)
    assert set(searched_result.named) == {"best", "first"}
    assert searched_result.named["first"].recipe.encoding.gamma == 2.5
    assert [verdict.n for verdict in searched_result.claims] == [3, 3]


def test_differences_are_to_the_baseline_by_seed(ablated_result):
    runs = ablated_result.table()
    by_arm = {
        name: runs[(runs.name == name) & (runs.outcome == "completed")].set_index("seed")["test/accuracy"]
        for name in ARMS
    }
    gaps = (by_arm["fourier"] - by_arm["none"]).tolist()
    gap = ablated_result.differences["fourier"]
    alone = gap.estimate.p()
    assert (gap.estimate.n, gap.mean) == (5, pytest.approx(statistics.fmean(gaps)))
    assert alone < gap.p <= 10 / 0.75 * alone * (1 + 1e-9), "ten tests at the first look"
    assert ablated_result.differences["relative bias"].estimate.n == 4
    assert "none" not in ablated_result.differences


def test_verdicts_of_an_ablation(ablated_result):
    words = [verdict.word for verdict in ablated_result.claims]
    assert words == ["SUPPORTED", "INCONCLUSIVE", "INCONCLUSIVE", "REFUTED", "INCONCLUSIVE"]
    alone = judge([ablated_result.edition.study.claims[2]], ablated_result.scores_of)
    assert alone[0].word == "SUPPORTED", "the level is shared by ten tests"
    assert "Only 4 of 5 seeds" in ablated_result.claims[-1].why
    assert "1 diverged" in ablated_result.claims[1].why
    assert "“learnable” 4 of 5 seeds at 0.97, 1 failed (0.50)" in ablated_result.claims[1].why


def test_it_reads_well(ablated_result, searched_result):
    assert repr(ablated_result).splitlines()[0] == "encodings@base: Which position encodings tell left from right?"
    said = "“fourier” is best so far by validation: test accuracy 0.99"
    assert ablated_result.headline.startswith(said)
    more = " ".join(details(ablated_result))
    assert "Not finished: 1 trial with failed runs." in more
    assert re.search(
        r"Not told apart from it: .*“peg”, 0\.00\d\d above it \(5 seeds; 0\.0\d+ or more can be seen", more
    )
    assert searched_result.headline.startswith("#3 (gamma=1.74) comes out best: test accuracy 0.9950 on fresh seeds")
    assert "(95 % interval" in details(searched_result)[0]
    assert "<table" in ablated_result._repr_html_()
    assert searched_result.mlflow_url == "http://127.0.0.1:5000"


def test_what_a_notebook_shows_is_short(ablated_result, searched_result):
    best = searched_result.best
    assert re.fullmatch(
        rf"#{best.trial.label} gamma=[\d.]+ \(confirmation\): completed, 3 of 3 seeds, "
        r"validation 0\.\d{4} ± 0\.\d{4}, test 0\.\d{4} ± 0\.\d{4}",
        repr(best),
    )
    run = best.runs[1000]
    assert repr(run) == f"seed 1000: completed, {run.epochs} epochs, key {run.run.key}"
    claims = ablated_result.claims
    assert repr(claims).splitlines() == [str(verdict) for verdict in claims]
    assert claims._repr_html_().count("<li>") == 5
    assert "“" in claims._repr_html_()
    assert "Verdict(" not in claims._repr_html_()
    (status,) = found = all_status(ablated_result.home)
    assert repr(found) == repr(status)
    assert repr(status).startswith("encodings@base: failed, ")
    assert len(repr(status)) < 150


def test_what_matters_most_stands_first(ablated_result, searched_result):
    first = ["trial", "name", "n", "mean", "test_mean", "test_low", "test_high"]
    assert [*ablated_result.trials()][:9] == [*first, "difference", "p_holm"]
    assert [*searched_result.trials()][:7] == first
    cells = brief_table(ablated_result).set_index("trial")
    assert [*cells][:5] == ["#", "n", "failed", "validation accuracy", "test accuracy"]
    gap = f"{ablated_result.differences['fourier'].mean:+.4f}".replace("-", "\N{MINUS SIGN}")
    assert [*cells.loc[["fourier", "none"], "difference"]] == [gap, ""]
    assert html.escape(cells.loc["fourier", "p (Holm)"]) in ablated_result._repr_html_()
    assert "difference" not in brief_table(searched_result)


def test_a_mean_over_seeds_of_which_some_failed_has_its_interval_and_its_difference(ablated_result):
    """All are of all seeds: one of `learnable` diverged, and stands at chance."""
    learnable = ablated_result.named["learnable"].test
    assert (learnable.values[2], learnable.diverged) == (0.5, frozenset({2}))
    rows, brief = ablated_result.trials().set_index("name"), brief_table(ablated_result).set_index("trial")
    assert rows.loc["learnable", "reason"].startswith("diverged in epoch 5")
    for name, failed, pairs in (("learnable", 1, 5), ("peg", 0, 5), ("none", 0, None), ("relative bias", 0, 4)):
        assert rows.loc[name, "test_failed"] == brief.loc[name, "failed"] == failed
        assert rows.loc[name, "pairs"] == pairs if pairs else rows.isna().loc[name, "pairs"]
        assert rows.loc[name, "test_low"] <= rows.loc[name, "test_mean"] <= rows.loc[name, "test_high"]
        assert brief.loc[name, "95 % interval"]


def test_before_anything_ran_there_is_no_answer(tmp_path):
    edition = ablation().at()
    save_edition(edition, Home(tmp_path))
    result = Result.open(Home(tmp_path), edition.id)
    assert (result.best, result.headline) == (None, "No answer yet: 6 trials not begun.")
    assert {verdict.word for verdict in result.claims} == {"INCONCLUSIVE"}


def test_an_unknown_id_lists_the_known(ablated_result):
    with pytest.raises(LocusError, match=r"no study 'nothing@cpu' in .*; known: encodings@base"):
        Result.open(ablated_result.home, "nothing@cpu")


def test_opening_is_light(ablated_result):
    heavy = ("torch", "timm", "ray", "optuna", "mlflow")
    script = (
        "import sys; from service.storage.home import Home; from service.results import Result;"
        f"repr(Result.open(Home.find({str(ablated_result.home.root)!r}), 'encodings@base').trials());"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_model_has_the_weights_as_they_were_written(ablated_result):
    import torch

    from trainables.recipe.model_torch import build_model

    fourier = ablated_result.named["fourier"]
    weights = {name: torch.full_like(value, 0.25) for name, value in build_model(fourier.recipe).state_dict().items()}
    with pytest.raises(LocusError, match="weights of 'fourier' must hold one kept, got seeds none"):
        fourier.model()
    run = fourier.runs[1]
    keep_weights(Outcomes(ablated_result.home), run.run.key, run.code, lambda path: torch.save(weights, path))
    try:
        assert all(bool((value == 0.25).all()) for value in fourier.model().state_dict().values())
        assert fourier.model(1, image_size=48)(torch.randn(2, 3, 48, 48)).shape == (2, 2)
        with pytest.raises(LocusError, match="test_sizes must be such that at 30 px"):
            fourier.model(1, image_size=30)
        with pytest.raises(LocusError, match="averaged weights of 'fourier' must hold one kept, got seeds none"):
            fourier.model(ema=True)
        torch.save({name: value + 1 for name, value in weights.items()}, fourier.weights[1])
        with pytest.raises(LocusError, match="must be there as it was written, got other bytes"):
            fourier.model()
    finally:
        fourier.weights[1].unlink()


@pytest.fixture(scope="module")
def sides_result(tmp_path_factory) -> Result:
    root = tmp_path_factory.mktemp("sides")
    return Result.open(Home(root), at_sides(root))


def test_scores_at_other_sides_are_rows_and_columns(sides_result):
    peg, learnable = (sides_result.named[name] for name in ("peg", "learnable"))
    assert {side: list(at.values.values()) for side, at in peg.test_sizes.items()} == {
        24: [0.97, 0.972, 0.974], 64: [0.95, 0.952, 0.954],
    }  # fmt: skip
    assert (learnable.test_sizes[64].values, learnable.test_sizes[64].diverged) == (
        {0: 0.6, 1: 0.5, 2: 0.604},
        frozenset({1}),
    )
    runs, trials = sides_result.table().set_index("name"), sides_result.trials().set_index("name")
    assert runs.loc["peg", "test/accuracy_at_64"].tolist() == [0.95, 0.952, 0.954]
    assert trials.loc["peg", "test_at_24_mean"] == pytest.approx(0.972)
    assert trials.loc["peg", "test_mean"] == pytest.approx(0.982)


def test_a_claim_is_judged_at_its_side_and_what_a_trial_keeps_is_a_share_by_seed(sides_result):
    assert [verdict.word for verdict in sides_result.claims] == ["INCONCLUSIVE", "SUPPORTED", "INCONCLUSIVE"]
    better, _, unknown = sides_result.claims
    assert "+0.3840 at 64 px" in better.why
    assert unknown.why == "“none” has no test score at 48 px yet."
    shares = sides_result.scores_of(KeepsMore("peg", "learnable", 64))
    assert shares["peg"].values == pytest.approx({0: 0.45 / 0.48, 1: 0.452 / 0.482, 2: 0.454 / 0.484})
    assert shares["learnable"].values == pytest.approx({0: 0.10 / 0.49, 2: 0.104 / 0.494}), "seed 1 diverged"
    assert shares["none"].values == {}, "a trial at chance has nothing to keep"
    claims = [KeepsMore("peg", "learnable", 64), KeepsMore("none", "peg", 64)]
    lacking = [verdict.why.partition(" had ")[0] for verdict in judge(claims, sides_result.scores_of)]
    assert lacking == ["1 seed of “learnable”", "3 seeds of “none”"]


def test_what_seeds_can_detect_is_more_than_what_they_did_not(tmp_path):
    """Eleven differences share one level: three seeds detect 0.04, where one difference alone would need 0.01."""
    arms = {f"arm {number}": {"encoding.gamma": 1.0 + number} for number in range(12)}
    with ByHand(
        tmp_path, Study(name="many", question="?", base=base(), plan=Ablation(arms, "arm 0")).at(), seeds=3
    ) as hand:
        for number, (name, values) in enumerate(arms.items()):
            trial = hand.plan("trial", number, values, name)
            for seed, wobble in enumerate((0.0, 0.004, 0.008)):
                score = 0.9 if number == 1 else 0.88 - wobble + 0.004
                hand.complete(trial, seed, score, score)
    text = " ".join(details(Result.open(Home(tmp_path), "many@base")))
    found = re.findall(r"(\d\.\d+) below it \(3 seeds; (\d\.\d+) or more can be seen\)", text)
    assert len(found) == 3, text
    assert all(float(least) > float(gap) for gap, least in found), found
