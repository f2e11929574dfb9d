"""`locus matrix`: a table of a paper, filled with the verdicts of studies that were run."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from search_spaces.claim import AtChance, AtLeast
from search_spaces.matrix import Cell, Matrix, Property
from service.analysis.matrix import fill
from service.analysis.study_result import StudyResult
from service.analysis.verdicts import judge
from service.cli import app
from service.results import MatrixWithPage
from service.storage.facts import Counts
from service.storage.home import Home
from service.terminal import summaries
from tests.rooms.by_hand import ByHand, ablated
from tests.rooms.service.analysis.test_looks import ablation, planned, trained
from trainables.recipe.code_digest import CodeDigest

RUN = CliRunner()
MATRIX = Matrix(
    name="small",
    question="Which encoding tells left from right?",
    paper="a paper, table 9",
    rows=(
        Property(
            "tells left from right",
            "encodings",
            {"none": Cell("no", ("none",)), "sinusoidal": Cell("yes", ("sinusoidal",)), "peg": Cell("partly")},
        ),
        Property("is small", "other", {name: Cell("yes", (name,)) for name in ("none", "sinusoidal", "peg")}),
    ),
    gaps=("its table has no deviations",),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    root = tmp_path_factory.mktemp("home")
    ablated(root)
    return Home(root)


@pytest.fixture(scope="module")
def filled(home):
    return fill(home, MATRIX, "base")


def test_a_cell_holds_the_verdicts_of_the_studys_own_report(home, filled):
    known = {verdict.claim.names: verdict for verdict in StudyResult.open(home, "encodings@base").claims}
    none, sinusoidal, peg = filled.cells[0]
    assert [one.verdict for one in none.verdicts] == [known[("none",)]]
    assert [one.verdict for one in sinusoidal.verdicts] == [known[("sinusoidal",)]]
    assert (none.verdicts[0].word, sinusoidal.verdicts[0].word) == ("SUPPORTED", "REFUTED")
    assert none.found == [f"“none” stays at chance, within 0.03: SUPPORTED {known[('none',)].measured:.4f}"]
    assert peg.found == ["not tested"]
    assert (
        filled.headline
        == "Of 2 claims behind the table, at base: 1 SUPPORTED, 1 REFUTED, adjusted over all of them (Holm)."
    )


def test_verdicts_are_adjusted_over_all_claims_of_the_table_in_place_of_those_of_their_study(home, filled):
    """`none` stays at chance with p = 0.006 alone, adjusted for the look: of 8 claims 0.048, of 9 claims 0.055."""
    row = Property("stays at chance", "encodings", {"none": Cell("no", ("none",)), "peg": Cell("partly")})
    alone = judge([AtChance("none", 0.03)], StudyResult.open(home, "encodings@base").scores_of)[0].p
    assert filled.cells[0][0].verdicts[0].p == pytest.approx(alone), "the other claim is surer"
    for count, word in ((1, "SUPPORTED"), (8, "SUPPORTED"), (9, "INCONCLUSIVE")):
        rows = tuple(row.model_copy(update={"name": f"{place}"}) for place in range(count))
        found = fill(home, Matrix(name="many", question="?", paper="a paper", rows=rows), "base")
        cells = [cells[0] for cells in found.cells]
        assert [cell.verdicts[0].p for cell in cells] == pytest.approx([count * alone] * count)
        assert {(cell.verdicts[0].word, cell.verdicts[0].verdict.word) for cell in cells} == {(word, "SUPPORTED")}
    said = "Of 9 claims behind the table, at base: 9 INCONCLUSIVE, adjusted over all of them (Holm)."
    assert found.headline == said
    note = f"(SUPPORTED in its study; p = {9 * alone:.3f} over all claims here)"
    assert cells[0].found == [f"“none” stays at chance, within 0.03: INCONCLUSIVE 0.4998 {note}"]
    assert note in MatrixWithPage(**vars(found), home=home).report().read_text()
    (plain,) = cells[0].plain()["claims"]
    assert (plain["verdict"], plain["in_study"], plain["p"]) == ("INCONCLUSIVE", "SUPPORTED", cells[0].verdicts[0].p)


def test_a_claim_that_an_earlier_look_decided_has_the_p_of_that_look(tmp_path):
    """A claim of a later look is held to the level of its own."""
    claims = AtLeast("c", 0.7), AtLeast("b", 0.797)
    edition = ablation(claims)
    with ByHand(tmp_path, edition, seeds=3) as hand:
        trials = planned(hand)
        trained(hand, trials, range(3))
        hand.journal.write(Counts(seeds=5))
        first = StudyResult.open(Home(tmp_path), edition.id).previous
        trained(hand, trials, range(3, 5))
    result = StudyResult.open(Home(tmp_path), edition.id)
    assert [verdict.word for verdict in result.claims] == ["SUPPORTED", "INCONCLUSIVE"]
    row = Property("is high", "grown", {"c": Cell("yes", ("c",)), "b": Cell("yes", ("b",))})
    found = fill(Home(tmp_path), Matrix(name="one", question="?", paper="a paper", rows=(row,)), "base")
    (high,), (low,) = (cell.verdicts for cell in found.cells[0])
    (alone,) = judge(claims[:1], first.scores_of)
    assert high.word == high.verdict.word == "SUPPORTED"
    assert high.p == pytest.approx(2 * alone.p)
    assert low.p is None


def test_a_study_that_was_not_run_is_said_with_its_command(filled):
    assert {cell.found[0] for cell in filled.cells[1]} == {"other was not run"}
    assert filled.missing == ("other",)
    assert filled.commands == [f"locus run {study} --budget base" for study in ("other", "encodings")]
    assert filled.lacks == ["encodings: 4 of 5 seeds"], "one failed"


def test_its_page_has_every_cell_and_links_the_reports_that_are_there(home, filled):
    found = MatrixWithPage(**vars(filled), home=home)
    text = found.report().read_text()
    assert found.report() == home.root / "matrices" / "small@base.html"
    for words in (
        "tells left from right",
        "is small",
        "Supported",
        "Refuted",
        "its table has no deviations",
        "table 9",
    ):
        assert words in text
    assert text.count("<td>paper: <b>") == 6
    assert "report.html" not in text
    report = home.study("encodings@base").report / "report.html"
    report.parent.mkdir(exist_ok=True)
    report.touch()
    assert report.as_uri() in found.report().read_text()
    assert found.table().shape == (2, 3)
    assert "SUPPORTED" in found.table().loc["tells left from right", "none"]
    assert repr(found).startswith("small@base\n")


def test_the_named_one_as_it_is_typed(tmp_path):
    done = RUN.invoke(app, ["matrix", "properties", "--budget", "smoke", "--home", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for words in ("encodes absolute location", "absolute was not run", "No claim is judged yet at smoke.", "table 5"):
        assert words in done.output
    assert f"locus run direction-probe --budget smoke --home {tmp_path}" in done.output
    said = json.loads(RUN.invoke(app, ["matrix", "properties", "--home", str(tmp_path), "--json"]).output)
    learnt = {cell["encoding"]: cell["parameters"] for cell in said["cells"] if cell["property"] == "learnable"}
    assert learnt["sinusoidal"] == 0 < min(learnt[name] for name in ("relative", "absolute", "fourier"))
    assert learnt["absolute"] == 65 * 64, "a row for each of 8 x 8 patches and the class token, of 64 channels"
    assert said["missing"] == ["absolute", "direction", "distance", "direction-probe", "distance-probe"]
    listed = RUN.invoke(app, ["matrix"])
    assert listed.exit_code == 0
    assert "properties" in listed.output


ONE = Matrix(
    name="one",
    question="?",
    paper="a paper",
    rows=(Property("is high", "grown", {"c": Cell("yes", ("c",))}),),
)


def test_a_study_counts_and_is_linked_and_an_edition_of_a_name_does_not(tmp_path):
    home, edition = Home(tmp_path), ablation((AtLeast("c", 0.7),))
    for one, score in ((edition, 0.6), (edition.named("again"), 0.9)):
        shutil.rmtree(home.outcomes, ignore_errors=True)
        with ByHand(tmp_path, one) as hand:
            for trial, seed in hand.runs(one.study.plan.arms, 3):
                hand.complete(trial, seed, score, score + 0.001 * seed)
        (cell,) = fill(home, ONE, "base").cells[0]
        assert (cell.id, cell.plain()["id"]) == (edition.id, edition.id)
    found = MatrixWithPage(**vars(fill(home, ONE, "base")), home=home)
    report = home.study("grown@base").report / "report.html"
    report.parent.mkdir()
    report.touch()
    assert report.as_uri() in found.report().read_text()


def test_what_an_unfinished_study_lacks_is_said_with_its_command(tmp_path):
    home, edition = Home(tmp_path), ablation((AtLeast("c", 0.7),))
    assert fill(home, ONE, "base").lacks == []
    with ByHand(tmp_path, edition, seeds=3) as hand:
        trials = planned(hand)
        trained(hand, trials, range(2))
    found = fill(home, ONE, "base")
    assert (found.missing, found.lacks, found.commands) == (
        (),
        ["grown: 2 of 3 seeds"],
        ["locus run grown --budget base"],
    )
    assert found.plain()["unfinished"] == {"grown": "2 of 3 seeds"}
    shown = MatrixWithPage(**vars(found), home=home)
    for text in (repr(shown), shown.report().read_text(), shown._repr_html_()):
        assert "grown: 2 of 3 seeds" in text
    with hand.journal:
        trained(hand, trials, range(2, 3))
    assert fill(home, ONE, "base").lacks == []


def test_answers_of_other_code_are_said_with_their_command(tmp_path, capsys):
    home, edition = Home(tmp_path), ablation((AtLeast("c", 0.7),))
    hand = ByHand(tmp_path, edition)
    hand.codes = lambda recipe: CodeDigest(files={"older": recipe.encoding.kind})
    with hand.journal:
        hand.journal.write(Counts(seeds=3))
        trained(hand, planned(hand), range(3))
    found = fill(home, ONE, "base")
    assert found.lacks == ["grown: 9 answers of other code do not count"]
    summaries.matrix(found, home, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "grown: 9 answers of other code do not count" in printed
    assert "to run locus run grown --budget base" in printed
