"""What a report may set beside a paper: claims and published numbers only where they apply."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from search_spaces import library
from search_spaces.claim import (
    Better,
    ClaimOfProbe,
    NoWorse,
    ProbeAlike,
    ProbeAsAlike,
    ProbeBetween,
    ProbeRising,
    Rising,
)
from search_spaces.library import find, names
from search_spaces.study import Ablation, Budget, Edition, Published, Study
from service.analysis.verdicts import Verdict, departure
from service.cli import app
from service.recording import of_result
from service.reporting.figures.rows import dots
from service.reporting.results_table import measured, published_difference
from service.results import Result
from service.storage import outcomes
from service.storage.editions import save_edition
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from trainables.recipe.findings import REVISIONS, Findings, Probed
from trainables.spec import SpecError
from trainables.whole_files import write_whole

GAP = "smoke trains too little for the paper's score"
ARMS = {"pvt": {"encoding.gamma": 1.0}, "pvt, peg": {"encoding.gamma": 2.0}}


def study(**given) -> Study:
    published = (Published("pvt", 0.759, None, "table 13"), Published("pvt, peg", 0.781, None, "table 13"))
    return Study(
        **{
            "name": "papers",
            "question": "Does it help?",
            "base": base(),
            "plan": Ablation(ARMS, "pvt"),
            "published": published,
            "claims": (Better("pvt, peg", "pvt", source="table 13"),),
            "budgets": {"smoke": Budget(gap=GAP), "full": Budget()},
            **given,
        }
    )


def run(root, edition: Edition) -> Result:
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(ARMS, 3):
            score = 0.9 - 0.2 * trial.number + 0.01 * seed  # the claim is clearly wrong here
            hand.complete(trial, seed, score, score)
    return Result.open(Home(root), edition.id)


def asked(result: Result, **given) -> Result:
    """The same runs, of a study that asks otherwise about them."""
    edition = study(**given).at("full")
    assert edition.id == result.edition.id
    save_edition(edition, result.home)
    return Result.open(result.home, edition.id)


def checked(result: Result) -> Any:
    """What `locus report --check` says; it writes the page."""
    return CliRunner().invoke(app, ["report", result.edition.id, "--check", "--home", str(result.home.root)])


def text_of(result: Result) -> str:
    """The page that was written already."""
    return html.unescape((result.home.study(result.edition.id).report / "report.html").read_text())


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Result:
    """The study with its page; `asked` puts other questions to its runs."""
    result = run(tmp_path_factory.mktemp("full"), study().at("full"))
    result.report()
    return result


@pytest.mark.usefixtures("words_only")
def test_a_budget_with_a_gap_and_own_values_judge_nothing(tmp_path):
    result = run(tmp_path / "gap", study().at("smoke"))
    done = checked(result)
    for text in (repr(result), text_of(result)):
        assert re.search(r"not judged at smoke", text, flags=re.IGNORECASE)
        assert "moke trains too little for the paper" in text
        assert "refuted" not in re.sub(r"<style>.*</style>", "", text, flags=re.DOTALL).lower()
    assert (done.exit_code, "NOT JUDGED at smoke: the typical seed of “pvt, peg” is better" in done.output) == (0, True)
    result = run(tmp_path / "own", study().at("full", set={"optimizer.lr": 0.002}))
    assert [verdict.label for verdict in result.claims] == ["NOT JUDGED with own values"]
    found = "optimizer.lr differs from the study's values. Here it comes out REFUTED: “pvt, peg” minus “pvt” is −0.2000"
    assert result.claims[0].why.startswith(found), "other values refute no paper, but users see"
    assert checked(result).exit_code == 0
    assert departure(result.edition.named("again")).where == "with own values"


def test_what_departs_from_a_study_is_said() -> None:
    left = departure(study().at("smoke", set={"optimizer.lr": 0.002}))
    assert (left.where, left.told) == ("at smoke", False), "at smoke no word of a verdict may be read"
    assert left.why == f"{GAP}; and optimizer.lr differs from the study's values"
    own = {"optimizer.lr": 0.002, "optimizer.epochs": 2, "model.depth": 2}
    why = departure(study().at("full", set=own)).why
    assert why in {f"{path} and 2 more differ from the study's values" for path in own}
    assert departure(study().at("full", name="tuesday", seeds=5)) is None


REFUTED = (
    NoWorse("pvt, peg", "pvt", 0.01),
    Rising(("pvt", "pvt, peg"), source="table 3"),
)
OTHERS = {
    NoWorse("pvt", "pvt, peg", 0.01): "SUPPORTED",
    ProbeBetween("pvt", "direction", "accuracy", 0.9, None): "INCONCLUSIVE",
    ProbeRising(("pvt", "pvt, peg"), "direction", "left", source="5.1"): "INCONCLUSIVE",
    ProbeAlike("pvt", "pvt, peg", "similarity", "maps", 0.9, None, "figure 6"): "INCONCLUSIVE",
}


@pytest.mark.usefixtures("words_only")
def test_every_kind_of_claim_is_on_the_page_and_decides_the_exit_code(tmp_path):
    """Those that are refuted are asked one by one; all others together, for none of them is an error."""
    runs = run(tmp_path, study().at("full"))
    for words in (OTHERS, *({claim: "REFUTED"} for claim in REFUTED)):
        probes = {claim.probe for claim in words if isinstance(claim, ClaimOfProbe)}
        result = asked(runs, claims=tuple(words), probes=tuple(probes))
        assert [verdict.word for verdict in result.claims] == [*words.values()]
        done = checked(result)
        text = text_of(result)
        assert done.exit_code == int("REFUTED" in words.values())
        for claim, word in words.items():
            source = f" ({claim.source})" if claim.source else ""
            cited = f" <cite>{claim.source}</cite>" if claim.source else ""
            assert f' {word.capitalize()}</p>\n<div><p class="claim">{claim}{cited}</p>' in text
            assert f"{word}: {claim}{source}. " in done.output


def test_a_rise_of_a_probe_is_judged_on_its_own_moment(tmp_path):
    """The probe rises before training and falls after it; test scores, which fall, have no part in it."""
    runs = run(tmp_path, study(probes=("direction",)).at("full"))
    for number, row in enumerate(runs.of("trial")):
        for seed, one in row.probes.items():
            before, after = (
                Findings({"left": 0.8 + sign * number * (0.09 + 0.01 * (seed - 1)), "above": 0.5}) for sign in (1, -1)
            )
            outcomes.write_probe(one.path("direction"), Probed(before, after), REVISIONS["direction"])
    for when, margin, word in (
        ("before", 0.0, "SUPPORTED"),
        ("before", 0.09, "INCONCLUSIVE"),
        ("after", 0.0, "REFUTED"),
    ):
        claim = ProbeRising(("pvt", "pvt, peg"), "direction", "left", margin, when=when)
        result = asked(runs, claims=(claim,), probes=("direction",))
        (verdict,) = result.claims
        assert (verdict.word, verdict.n) == (word, 3)
        assert verdict.measured == pytest.approx(0.09 if when == "before" else -0.09)
        assert "The slope along “pvt” and “pvt, peg” is" in verdict.why
        done = checked(result)
        assert (done.exit_code, f"{word}: {claim}. " in done.output) == (int(word == "REFUTED"), True)


SHARED = {"pvt": (1.0, 0.2), "pvt, peg": (1.0, 1.0)}
NOISE = {**SHARED, "pvt": (0.0, 1.0)}
"""How much of the maps of an arm all its models share, and how much is a model's own."""
Maps = dict[tuple[str, int], np.ndarray]


def with_maps(root: Path, shares: dict[str, tuple[float, float]]) -> tuple[Result, Maps]:
    """A study whose arms have maps; and the maps off their diagonal, which is 1 in every map."""
    result = run(root, study(probes=("similarity",)).at("full"))
    apart = ~np.eye(6, dtype=bool)
    common = np.random.default_rng(7).normal(size=(6, 6))
    known: Maps = {}
    for number, row in enumerate(result.of("trial")):
        shared, own = shares[row.name]
        for seed, one in row.probes.items():
            noise = np.random.default_rng([seed, number]).normal(size=(6, 6))
            maps = np.where(apart, shared * common + own * noise, 1.0)
            known[row.name, seed] = maps[apart]
            found = Findings({}, {"maps": maps.reshape(6, 2, 3)})
            path, code = one.path("similarity"), REVISIONS["similarity"]
            outcomes.write_probe(path, Probed(Findings(), found), code)
    return result, known


def judged(runs: Result, claim) -> tuple[Result, Verdict]:
    result = asked(runs, claims=(claim,), probes=("similarity",))
    (verdict,) = result.claims
    return result, verdict


def test_maps_are_compared_by_their_correlation_at_neighboring_seeds(tmp_path):
    """Models of one seed share initial weights, so a seed is paired with the next one, and the last with the first."""
    runs, maps = with_maps(tmp_path, SHARED)
    between, within = (
        np.mean([np.corrcoef(maps[who, seed], maps["pvt", (seed + 1) % 3])[0, 1] for seed in range(3)])
        for who in ("pvt, peg", "pvt")
    )
    alike, as_alike = "SUPPORTED", "REFUTED"
    for kind, line, word, expected in (
        (ProbeAlike, 0.1, alike, between),
        (ProbeAsAlike, -0.01, as_alike, between - within),
    ):
        for low, high in ((line, None), (None, line)):
            claim = kind("pvt, peg", "pvt", "similarity", "maps", low, high, when="after")
            result, verdict = judged(runs, claim)
            turned = {"SUPPORTED": "REFUTED", "REFUTED": "SUPPORTED"}[word]
            assert (verdict.word, verdict.n) == (word if high is None else turned, 3)
            assert verdict.measured == pytest.approx(expected, abs=1e-9)
            assert verdict.interval[0] < verdict.measured < verdict.interval[1]
            why = verdict.why.replace("\u2212", "-")
            assert "The maps of “pvt, peg” and “pvt” correlate by" in why
            assert (f"those of two seeds of “pvt” by {within:.4f}: " in why) == (kind is ProbeAsAlike)
            assert result.scores_of(claim.put({"when": "before"}))["pvt"].n == 0, "nothing was kept before training"


def test_maps_that_are_noise_are_not_as_alike_as_those_of_two_seeds(tmp_path):
    """Where two seeds have nothing in common, whatever is compared with them is as alike as they are."""
    runs, _ = with_maps(tmp_path, NOISE)
    for low, high in ((-0.1, None), (None, -0.1)):
        _, verdict = judged(runs, ProbeAsAlike("pvt, peg", "pvt", "similarity", "maps", low, high, when="after"))
        assert (verdict.word, verdict.interval) == ("INCONCLUSIVE", None)
        assert re.match("The maps of two seeds of “pvt” correlate by .?0.0[0-9]+ only", verdict.why), verdict.why


def test_a_claim_names_arms_and_probes_that_there_are():
    arms, probes = "one of pvt, pvt, peg, got 'peg'", "a probe that `probes` names, got 'direction'"
    for claim, named, must in (
        (Rising(("pvt", "peg")), (), arms),
        (ProbeBetween("peg", "direction", "r2", 0, None), (), arms),
        (ProbeRising(("pvt", "peg"), "direction", "left"), ("direction",), arms),
        (ProbeBetween("pvt", "direction", "left", 0, None), (), probes),
        (ProbeRising(("pvt", "pvt, peg"), "direction", "left"), (), probes),
    ):
        with pytest.raises(SpecError, match=f"claims must be about {must}"):
            study(claims=(claim,), probes=named)


@pytest.mark.parametrize(
    ("mine", "other", "difference"),
    [
        ("table 13, ImageNet", "table 13, whose baseline is 75.9", "+0.0220"),
        ("table 1 and table 13, ImageNet", "table 13", "+0.0220"),
        ("README", "README, ImageNet", "+0.0220"),
        ("table 13", "table 1, ImageNet", ""),
        ("table 1 and table 7", "table 13", ""),
        ("appendix D.4, table 8", "appendix D.4, table 9", ""),
        ("Touvron 2021, table 5", "Chu 2021, table 5", ""),
        ("", "", ""),
    ],
)
def test_a_published_difference_is_of_numbers_of_one_table(full, mine, other, difference):
    """Two tables of a paper often have other trainings."""
    numbers = zip(ARMS, (0.759, 0.781), (mine, other), strict=True)
    result = asked(full, published=tuple(Published(who, value, None, source) for who, value, source in numbers))
    assert published_difference(result, result.trial("pvt, peg")) == difference


def test_published_numbers_of_other_data_are_in_the_table_and_never_on_the_axis(tmp_path, full):
    published = tuple(Published(**{**dict(one), "same_data": True}) for one in study().published)
    same = run(tmp_path / "same", study(published=published).at("full"))
    small = run(tmp_path / "small", study(published=published).at("smoke"))
    for result, axis in ((same, True), (small, False), (asked(full), False)):
        diamonds = [line for line in dots(result).draw().axes[0].lines if line.get_marker() == "D"]
        cells = {column.name: column.cells for column in measured(result).columns}
        assert bool(diamonds) == axis
        assert ("0.7590" if axis else "0.7590*") in cells["published"]
        assert "+0.0220" in cells["published-difference"], "the paper's own difference may stand beside ours"
    text = text_of(full)
    assert text.count("Intervals hold for other seeds on these test images") == 1, "it is said once"
    assert "3 seeds can detect a difference of" in text


def test_every_smoke_budget_of_a_study_with_claims_says_what_it_cannot_judge():
    studies = [find(name) for name in names()]
    assert [one.name for one in studies if one.claims and "smoke" in one.budgets and not one.budgets["smoke"].gap] == []
    same = {one.name for one in studies if any(known.same_data for known in one.published) and one.family != "thesis"}
    assert same == {"cifar-encodings"}, "only the thesis' own images, and CIFAR-10, share our axis"


@pytest.mark.usefixtures("words_only")
def test_what_was_found_before_stands_beside_the_same_size_alone(tmp_path, monkeypatch):
    told = study(expected="a PEG helps", found={"full": "3 seeds: a PEG adds 0.02"})
    for name, edition, there in (
        ("same", told.at("full"), True),
        ("other", told.at("smoke"), False),
        ("own", told.at("full", set={"optimizer.lr": 0.002}), False),
    ):
        result = run(tmp_path / name, edition)
        result.report()
        text = text_of(result)
        assert "Expected: a PEG helps." in text
        assert ("when the authors of this study ran it" in text) == there
        assert ("before these rules: 3 seeds: a PEG adds 0.02" in text) == there
    monkeypatch.setattr(library, "folder", lambda name: tmp_path)
    result = Result.open(Home(tmp_path / "same"), "papers@full")
    write_whole(library.record_file("papers", "papers@full"), of_result(result).model_dump_json())
    result.report()
    text = text_of(result)
    assert "results of" in text
    assert "“pvt, peg”: 0.7100 ± 0.0100 (0.6846 to 0.7348)" in text
    assert "a PEG adds 0.02" not in text
    assert "found at cpu" in CliRunner().invoke(app, ["show", "irpe-index"]).output
