"""What a run prints at its end: verdicts, and one line where a size judges no claim."""

import sys

import numpy as np
import pytest
from scipy import stats

from search_spaces.claim import Better, NoWorse
from search_spaces.study import Ablation
from service import api
from service.commands.running import run_resolved
from service.planning.run_options import RunOptions
from service.results import Result
from service.storage.home import Home
from service.terminal import views
from tests.rooms.by_hand import ByHand
from tests.rooms.service.reporting.test_claims_and_papers import ARMS, GAP, run, study

CLAIMS = (Better("pvt, peg", "pvt", source="table 13"), NoWorse("pvt, peg", "pvt", 0.03))


VALUES = {"optimizer.lr": 0.002}
PRINTED = {
    "a size that judges nothing says so once": (
        study(claims=CLAIMS).at("smoke"),
        {
            "NOT JUDGED": 1,
            f"NOT JUDGED at smoke: 2 claims. S{GAP[1:]}. The report has the scores that each is about.": 1,
        },
    ),
    "one claim that is not judged has its scores": (
        study().at("smoke"),
        {
            "NOT JUDGED at smoke: the typical seed of “pvt, peg” is better than that of “pvt” (table 13).": 1,
            "Here “pvt, peg” has test score 0.7": 1,
        },
    ),
    "own values tell what each claim finds": (
        study(claims=CLAIMS).at("full", set=VALUES),
        {"NOT JUDGED with own values": 2, "it comes out REFUTED": 2},
    ),
    "claims that are judged stand one by one": (study(claims=CLAIMS).at("full"), {"REFUTED: ": 2, "NOT JUDGED": 0}),
}


@pytest.mark.parametrize("case", PRINTED)
def test_verdicts_are_printed(case, tmp_path, capsys) -> None:
    edition, counts = PRINTED[case]
    views.answer(run(tmp_path, edition))
    text = " ".join(capsys.readouterr().out.split())
    assert {part: text.count(part) for part in counts} == counts


GAPS = (0.03, 0.008, 0.042, 0.02)


def undecided(root) -> Result:
    """Two arms of four seeds whose differences have p = 0.041: just too much for the first look."""
    edition = study(claims=(), plan=Ablation(ARMS, "pvt"), seeds=4).at("full")
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(ARMS, 4):
            score = 0.7 + (GAPS[seed] if trial.number else 0.0)
            hand.complete(trial, seed, score, score)
    return Result.open(Home(root), edition.id)


def test_seeds_are_named_where_they_can_decide_something(tmp_path, capsys) -> None:
    """The number is the smallest with a power of 80 % at the second look, by the noncentral t distribution."""
    views.ending(undecided(tmp_path), "locus run papers")
    shown = " ".join(capsys.readouterr().out.split())
    mean, std, level = np.mean(GAPS), np.std(GAPS, ddof=1), 0.05 * 3 / 16
    power = {n: stats.nct.sf(stats.t.ppf(1 - level / 2, n - 1), n - 1, mean / std * n**0.5) for n in range(5, 9)}
    seeds = min(n for n, share in power.items() if share >= 0.8)
    assert f"next locus run papers --seeds {seeds} (a difference of {mean:.4f} is found with a power of 80 %" in shown
    assert "This is look 1: its tests are at 0.0375 of 0.05." in shown


@pytest.mark.parametrize(
    ("tracking", "option"), [(None, ""), ("sqlite:///my runs.db", " --tracking 'sqlite:///my runs.db'")]
)
def test_where_no_seeds_would_decide_anything_the_study_is_done(tracking, option, tmp_path, capsys) -> None:
    """What shows it in MLflow is said as it must be typed, with the home and the store."""
    result = run(tmp_path, study(claims=CLAIMS).at("full"))
    views.ending(result, "locus run papers", tracking=tracking)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "done no open question would be decided by up to 6 seeds, if scores are as measured" in lines
    assert f"MLflow locus ui {result.edition.id}{result.home.option}{option}" in lines


NEXT = {
    "run papers --budget smoke --seeds 3 --home H": "locus run papers --home H --budget full (6 min; smoke shows only",
    "run papers@smoke": "",
    "run papers --budget full": "",
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
    run_resolved(result.edition, RunOptions(home=str(tmp_path)), detail="quiet", tell=tell)
    shown = " ".join(capsys.readouterr().out.split())
    assert (f"next {NEXT[typed]}" if NEXT[typed] else "done no open question") in shown
