"""What a run prints at its end: verdicts, and one line where a size judges no claim."""

import sys

import pytest

from search_spaces.claim import Better, NoWorse
from service import api
from service.commands.running import run_resolved
from service.planning.run_options import RunOptions
from service.terminal import summaries
from tests.rooms.service.reporting.test_claims_and_papers import GAP, run, study

CLAIMS = (Better("pvt, peg", "pvt", source="table 13"), NoWorse("pvt, peg", "pvt", 0.03))


def said(capsys, result) -> str:
    summaries.answer(result)
    return " ".join(capsys.readouterr().out.split())


def test_a_size_that_judges_nothing_says_so_once(tmp_path, capsys) -> None:
    text = said(capsys, run(tmp_path, study(claims=CLAIMS).at("smoke")))
    assert text.count("NOT JUDGED") == 1
    assert f"NOT JUDGED at smoke: 2 claims. S{GAP[1:]}. The report has the scores that each is about." in text


def test_one_claim_that_is_not_judged_has_its_scores(tmp_path, capsys) -> None:
    text = said(capsys, run(tmp_path, study().at("smoke")))
    assert "NOT JUDGED at smoke: “pvt, peg” is better than “pvt” (table 13)." in text
    assert "Here “pvt, peg” has test score 0.7" in text


def test_own_values_tell_what_each_claim_finds(tmp_path, capsys) -> None:
    text = said(capsys, run(tmp_path, study(claims=CLAIMS).at("full", set={"optimizer.lr": 0.002})))
    assert text.count("NOT JUDGED with own values") == 2
    assert text.count("it comes out REFUTED") == 2


def test_claims_that_are_judged_stand_one_by_one(tmp_path, capsys) -> None:
    text = said(capsys, run(tmp_path, study(claims=CLAIMS).at("full")))
    assert text.count("REFUTED of seeds that learn: ") == 2
    assert "NOT JUDGED" not in text


def test_more_seeds_have_a_price_where_verdicts_were_seen(tmp_path, capsys) -> None:
    for budget, price in (("smoke", ""), ("full", "; verdicts are then tested at 0.0025")):
        summaries.ending(run(tmp_path / budget, study(claims=CLAIMS).at(budget)), "locus run papers --seeds 5")
        shown = " ".join(capsys.readouterr().out.split())
        assert f"locus run papers --seeds 5 (only the new seeds run{price})" in shown


NEXT = {
    "run papers --budget smoke --seeds 3 --home H": "locus run papers --home H --budget full (6 min; smoke shows only",
    "run papers@smoke": "locus run papers@smoke --seeds 5 (only the new seeds run)",
    "run papers --budget full": "locus run papers --budget full --seeds 5 (only the new seeds run",
    "job": "the same locus submit with --budget full (6 min; smoke shows only that all works)",
}


@pytest.mark.parametrize("typed", NEXT)
def test_after_the_smallest_size_comes_the_next_one(typed, tmp_path, monkeypatch, capsys) -> None:
    """More seeds of trainings that are too short say nothing."""
    budget = "full" if "full" in typed else "smoke"
    result = run(tmp_path, study(minutes={"full": 6}).at(budget))
    monkeypatch.setattr(api, "here", lambda *_, **__: result)
    monkeypatch.setattr(sys, "argv", ["locus", *typed.split()])
    tell = (lambda **_: None) if typed == "job" else None
    run_resolved(result.edition, RunOptions(home=str(tmp_path)), fresh=False, detail="quiet", tell=tell)
    assert f"next {NEXT[typed]}" in " ".join(capsys.readouterr().out.split())
