"""Looks at a growing study, claims that were written before or after, and comparisons that a claim tests."""

from itertools import permutations
from pathlib import Path

import pytest

from search_spaces.claim import AtLeast, Better
from search_spaces.study import Ablation, Edition, Published, Study
from service.analysis.verdicts import written_words
from service.consistency import repair
from service.results import Result
from service.storage.editions import resolve_edition, save_edition
from service.storage.facts import Confirms, Counts, Ended, FailedWith, Started
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Journal
from tests.rooms.by_hand import EPOCHS, ByHand, base
from tests.rooms.service.analysis.logits import two_sided
from tests.rooms.service.analysis.test_best import search
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct

CLAIMS = (Better("b", "a"), AtLeast("c", 0.7))
NOISE = (0.0, 0.004, -0.006, 0.002, -0.003)
MEANS = {"a": 0.8, "b": 0.806, "c": 0.81}


def ablation(claims=CLAIMS) -> Edition:
    plan = Ablation({name: {"encoding.gamma": 1.0 + place} for place, name in enumerate(MEANS)}, "a")
    return Study(name="grown", question="Which?", base=base(), plan=plan, seeds=3, claims=claims).at()


def trained(hand: ByHand, trials, seeds) -> None:
    for place, trial in enumerate(trials):
        for seed in seeds:
            value = round(MEANS[trial.name] + NOISE[seed] * (1 + place), 3)
            hand.complete(trial, seed, value, value)


def planned(hand: ByHand):
    arms = hand.edition.study.plan.arms
    return [hand.plan("trial", number, values, name) for number, (name, values) in enumerate(arms.items())]


def looks(root: Path, edition: Edition) -> int:
    return Result.open(Home(root), edition.id).history.looks


def ended(root: Path, edition: Edition) -> Result:
    """A study whose three arms have three seeds."""
    with ByHand(root, edition, seeds=3) as hand:
        trained(hand, planned(hand), range(3))
    return Result.open(Home(root), edition.id)


def test_more_seeds_after_a_verdict_are_another_look(tmp_path: Path) -> None:
    edition = ablation()
    with ByHand(tmp_path, edition, seeds=3) as hand:
        trials = planned(hand)
        hand.journal.write(Counts(seeds=4))
        assert looks(tmp_path, edition) == 1, "nothing had ended"
        trained(hand, trials, range(4))
        hand.journal.write(Counts(seeds=4))
        assert looks(tmp_path, edition) == 1, "the same command again"
        hand.journal.write(Counts(seeds=5))
        assert looks(tmp_path, edition) == 2
        trained(hand, trials, [4])
    result = Result.open(Home(tmp_path), edition.id)
    better, (first, *_) = result.claims[0], result.previous.claims
    a, b = ([*result.scores[name].values.values()] for name in "ab")
    assert better.p == pytest.approx(min(1.0, 2 * two_sided(b, a) / (3 / 16)), rel=1e-6), "the second p of three"
    assert first.p == pytest.approx(min(1.0, 2 * two_sided(b[:4], a[:4]) / 0.75), rel=1e-6)
    assert (first.word, better.word) == ("INCONCLUSIVE", "INCONCLUSIVE")
    assert "This is look 2: its tests are at 0.00938 of 0.05." in result.report().read_text()


def test_what_was_found_at_a_look_stays_with_the_seeds_it_had(tmp_path: Path) -> None:
    """Four seeds find that `b` is better; the four that are added say the opposite."""
    edition = ablation((Better("b", "a"),))
    with ByHand(tmp_path, edition, seeds=4) as hand:
        trials = planned(hand)
        for seeds in (range(4), range(4, 8)):
            hand.journal.write(Counts(seeds=seeds[-1] + 1))
            for trial in trials:
                for seed in seeds:
                    gain = {"a": 0.0, "b": 0.08 if seed < 4 else -0.09, "c": -0.02}[trial.name]
                    value = round(0.8 + gain + 0.002 * (seed % 3) * (trial.name != "a"), 3)
                    hand.complete(trial, seed, value, value)
    result = Result.open(Home(tmp_path), edition.id)
    (verdict,), gap = result.claims, result.differences["b"]
    assert (verdict.word, verdict.n, verdict.later.word, verdict.later.n) == ("SUPPORTED", 4, "INCONCLUSIVE", 8)
    assert (gap.significant, gap.estimate.n, gap.later.estimate.n, gap.p) == (True, 4, 8, verdict.p)
    assert result.report().read_text().count("With 8 seeds: ") == 1


def test_answers_of_code_that_was_edited_since_were_seen_all_the_same(tmp_path: Path) -> None:
    """An edit of the code makes no earlier verdict unseen."""
    edition = ablation()
    told = {"code": "0" * 12}
    with ByHand(tmp_path, edition, seeds=3) as hand:
        for trial in planned(hand):
            for seed in range(3):
                run = trial.run(seed)
                hand.journal.write(Started(run=run.key, **told, attempt=1, seed=seed, label=trial.label))
                hand.journal.write(Ended(run=run.key, **told, outcome="completed", epoch=EPOCHS))
        hand.journal.write(Counts(seeds=5))
    earlier = History.open(Home(tmp_path), edition).at_earlier_look(Home(tmp_path))
    assert (earlier.looks, earlier.seeds) == (1, 3)
    assert not any(earlier.state(run).answered for trial in earlier.trials for run in earlier.runs(trial).values())


@pytest.mark.parametrize(("asked", "then", "expected"), [((3, 5), 5, 2), ((3,), 3, 1), ((3,), 5, 2), ((3, 5), 6, 3)])
def test_a_repaired_journal_forgets_no_look(home: Home, tmp_path: Path, asked, then: int, expected: int) -> None:
    """What its cut lines told was seen: their rises count, and so does the next one."""
    first = arms(seeds=3)
    for seeds in asked:
        conduct(home, first.study.at(seeds=seeds))
    journal = home.study(first.id).journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], b"garbage\n", *lines[4:]]))
    assert "is cut at line 5" in repair(home, first)[0]
    assert History.open(home, first).seeds == max(asked), "what was asked for stays"
    conduct(home, first.study.at(seeds=then))
    assert looks(tmp_path, first) == expected


@pytest.mark.parametrize("trained_again", [True, False])
def test_answers_that_are_lost_before_seeds_are_added_were_seen(tmp_path: Path, trained_again: bool) -> None:
    """A driver that ends between the loss and the training leaves them lost, and the next command asks for more."""
    with ByHand(tmp_path, edition := ablation(), seeds=3) as hand:
        trained(hand, trials := planned(hand), range(3))
        for run in (trial.run(seed) for trial in trials for seed in range(3)):
            code = hand.codes(run.recipe).digest
            hand.journal.write(FailedWith(run=run.key, code=code, reason="its answer is gone", counts=False))
        trained(hand, trials if trained_again else [], range(3))
        hand.journal.write(Counts(seeds=5))
    assert looks(tmp_path, edition) == 2


def alone(margin: float | None) -> Edition:
    """An arm beside its published number: who adds seeds until "equal within 0.02" comes out has looked as often."""
    known = Published("a", 0.8, None, "table 1", margin=margin)
    return Study("alone", "?", base(), Ablation({"a": {}}, "a"), seeds=3, published=(known,)).at()


TWICE = [("ab", range(3), 5), ("ab", range(3, 5), 7)]


@pytest.mark.parametrize(
    ("edition", "fails", "steps", "expected"),
    [
        (ablation(), "", [("c", range(3), 5)], 2),  # one claim, whose trials have ended
        (alone(0.02), "", [("a", range(3), 5)], 2),
        (alone(None), "", [("a", range(3), 5)], 1),
        (ablation(), "c", TWICE, 3),  # the verdicts of the other arms are seen all the same
        (ablation(()), "c", TWICE, 3),  # and their differences
    ],
)
def test_arms_that_could_be_seen_before_seeds_are_added(tmp_path, edition, fails, steps, expected) -> None:
    """Each step: the arms that end, of which seeds, and how many seeds are asked for then."""
    with ByHand(tmp_path, edition, seeds=3) as hand:
        trials = planned(hand)
        for trial in trials:
            if trial.name in fails:
                hand.fail(trial, 0, "no memory")
        for names, seeds, count in steps:
            trained(hand, [trial for trial in trials if trial.name in names], seeds)
            hand.journal.write(Counts(seeds=count))
    assert looks(tmp_path, edition) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([((0, 1), (0,), (4, 2))], 2),  # one of two confirmations fails
        ([((), (), (3, 3))], 1),  # before the confirmation no verdict is seen
        ([((), (), (3, 3)), ((1,), (1,), (3, 4))], 2),
        # a point that had failed completes, and is confirmed in the place of the one that was seen
        ([((0,), (0,), (3, 2)), ((1,), (), (4, 2))], 2),
        ([((0,), (0,), (3, 2)), ((1,), (), (3, 2))], 1),
    ],
)
def test_confirmed_points_that_could_be_seen_before_seeds_or_points_are_added(tmp_path, steps, expected) -> None:
    """Each step: the points that are confirmed, those that end, the seeds and trials that are asked for then."""
    edition, points = search(trials=2), {0: {"encoding.gamma": 1.0}, 1: {"encoding.gamma": 2.0}}
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        hand.points("trial", points, lambda number, seed: (0.9, 0.9))
        for confirmed, completed, (seeds, trials) in steps:
            if confirmed:
                hand.journal.write(Confirms(numbers=confirmed))
            for number in confirmed:
                if number in completed:
                    hand.points("confirmation", {number: points[number]}, lambda number, seed: (0.9, 0.9))
                else:
                    trial = hand.plan("confirmation", number, points[number])
                    if completed:
                        hand.fail(trial, trial.seeds(1)[0], "no memory")
            hand.journal.write(Counts(seeds=seeds, trials=trials))
    assert looks(tmp_path, edition) == expected


def test_a_comparison_that_a_claim_asks_is_tested_once(tmp_path: Path) -> None:
    result = ended(tmp_path, ablation())
    better, at_least = result.claims
    gap, other = result.differences["b"], result.differences["c"]
    assert (gap.claimed, gap.p, gap.interval) == (True, better.p, pytest.approx(better.interval))
    assert (gap.significant, other.claimed) == (better.word == "SUPPORTED", False)
    ps = sorted((better.estimate.p(), other.estimate.p(), at_least.estimate.p(0.7)))
    adjusted = [max((3 - place) * p / 0.75 for place, p in enumerate(ps[: rank + 1])) for rank in range(3)]
    assert other.p == pytest.approx(adjusted[ps.index(other.estimate.p())]), "one of three tests of the page"
    best = result.against_best(result.named["b"], [result.named["a"], result.named["c"]])
    assert (best["0"].p, best["0"].claimed, best["2"].claimed) == (better.p, True, False)
    assert "adjusted for 3 tests (Holm) and for looks" in result.report().read_text(), "two claims, and the other one"
    for claims in permutations((Better("b", "a"), Better("a", "b"))):
        both = ended(tmp_path / claims[0].who, ablation(claims))
        assert {verdict.p for verdict in both.claims} == {both.differences["b"].p}, "claims that ask both ways"


def test_differences_of_too_few_pairs_are_not_counted_as_tested(tmp_path: Path) -> None:
    """Of `c` one of three seeds failed, so only `b` is tested, alone."""
    edition = ablation(())
    with ByHand(tmp_path, edition, seeds=3) as hand:
        a, b, c = planned(hand)
        trained(hand, [a, b], range(3))
        for seed in range(2):
            hand.complete(c, seed, 0.8, 0.8)
        hand.fail(c, 2, "the worker died")
    result = Result.open(Home(tmp_path), edition.id)
    assert (len(result.differences), result.adjusted_over) == (2, 1)
    gap = result.differences["b"]
    assert gap.p == pytest.approx(gap.estimate.p() / 0.75)
    assert result.differences["c"].adjusted is None
    assert "p is two-sided and adjusted for looks" in result.report().read_text(), "one test alone"


def test_claims_are_said_to_be_written_before_the_runs_or_after(tmp_path: Path) -> None:
    edition, home = ablation(), Home(tmp_path)
    folder, hand = home.study(edition.id), ByHand(tmp_path, edition, seeds=3)

    def said(claims: Edition, opens: bool = True) -> str:
        """What is said of these claims, after a driver has opened the journal with them."""
        save_edition(claims, home)
        if opens:
            with Journal(folder.journal, folder.lock, claims=claims.claims_digest):
                pass
        return written_words(Result.open(home, edition.id).history).removeprefix("These claims were written")

    assert said(edition) == "", "before any run there is nothing to say"
    with hand as opened:
        trials = planned(opened)
        trained(opened, trials, range(3))
    assert said(edition) == " before the first run."
    other = ablation((Better("c", "a"),))
    assert said(other, opens=False) == " after the last run."
    assert said(other).startswith(", or changed, on ")
    run = trials[0].run(0)
    code = hand.codes(run.recipe).digest
    with hand.journal:
        hand.journal.write(Ended(run=run.key, code=code, outcome="completed", epoch=EPOCHS, reused=True))
    assert said(edition) == (
        " before the first run of this study. Some of its runs are those of another study, trained before."
    )


def grown_arms(*names: str, seeds: int = 3) -> Edition:
    gammas = {"a": 1.0, "b": 2.0, "c": 8.0, "d": 9.0}
    plan = Ablation({name: {"encoding.gamma": gammas[name]} for name in names}, "a")
    return Study(name="grown", question="Which?", base=base(), plan=plan, seeds=seeds).at()


def grown(home: Home, *names: str, seeds: int = 3) -> Edition:
    """Runs some arms; of a study that is there, those that are added."""
    edition = resolve_edition(grown_arms(*names, seeds=seeds), home)
    conduct(home, edition)
    return edition


def test_arms_that_are_added_after_a_verdict_are_one_more_look(home: Home) -> None:
    """And what was found before stays: the larger family of tests takes nothing back."""
    edition = grown(home, "a", "b", seeds=2)
    assert looks(home.root, grown(home, "a", "b", "c", seeds=2)) == 1, "two seeds show no verdict"
    assert looks(home.root, grown(home, "a", "b", "c", seeds=3)) == 1
    before = Result.open(home, edition.id)
    edition = grown(home, "a", "b", "c", "d", seeds=3)
    result = Result.open(home, edition.id)
    assert result.history.looks == 2
    assert [trial.name for trial in result.previous.history.trials] == ["a", "b", "c"]
    assert before.differences["c"].significant
    assert result.previous.differences == before.differences, "a family of tests is that of its look"
    assert result.differences["c"].significant
    assert result.differences["c"].p == before.differences["c"].p
    assert result.adjusted_over == 3
    assert looks(home.root, grown(home, "a", "b", "c", "d", seeds=3)) == 2, "the same call again"


def test_arms_and_seeds_that_are_added_together_are_one_look(home: Home) -> None:
    grown(home, "a", "b")
    history = History.open(home, edition := resolve_edition(grown_arms("a", "b", "c", "d"), home))
    history.raise_counts(edition)
    assert history.looks == 2, "the plan says it before anything runs"
    assert looks(home.root, grown(home, "a", "b", "c", "d", seeds=4)) == 2
