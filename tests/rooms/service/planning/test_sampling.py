"""The sampler and the stopper: what they are told, and that a journal gives them back as they were."""

import json
import random
import shutil
from pathlib import Path

import pytest
from optuna.trial import TrialState

from search_spaces.plans.grid import grid
from search_spaces.roles import Role
from search_spaces.space import Choice, Integer, Real, Space, Subset
from search_spaces.study import Edition, Halving, Search, Study
from service.planning import sampling
from service.planning.forecast import blind
from service.planning.sampling import Sampler, _frozen_trial
from service.planning.schedule import Confirm, next_action
from service.storage.facts import Counts, Ended, Exhausted, Measured, Planned, StoppedAt, TrialAnswer
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import read
from tests.rooms.service.planning import situations
from tests.rooms.service.planning.situations import Situation
from tests.rooms.toy import Toy, conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 7})
SPACE = Space(
    {
        "encoding.gamma": Real(low=0.1, high=40, log=True),
        "encoding.hidden": Integer(low=8, high=64, step=8),
        "optimizer.schedule": Choice(options=("cosine", "constant")),
    }
)


def search(
    trials: int = 14, epochs: int = 7, factor: int = 3, space: Space = SPACE, seeds: int = 1, sampler: str = "tpe"
) -> Edition:
    base = BASE.put({"optimizer.epochs": epochs})
    first = ({"encoding.gamma": 2.5, "encoding.hidden": 32, "optimizer.schedule": "cosine"},)
    plan = Search(
        space=space, first=first if space is SPACE else (), trials=trials, stop=Halving(factor), sampler=sampler
    )
    return Study(name="reach", question="?", base=base, plan=plan, seeds=seeds).at()


def points(home: Home, edition: Edition) -> list[dict]:
    facts = read(home.study(edition.id).journal)[0]
    return [fact.values for fact in facts if isinstance(fact, Planned) and fact.role == "trial"]


def stops(home: Home, edition: Edition) -> list[tuple]:
    facts = read(home.study(edition.id).journal)[0]
    return [(fact.run, fact.epoch, fact.cutoff) for fact in facts if isinstance(fact, StoppedAt)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Home:
    home = Home(tmp_path_factory.mktemp("undisturbed"))
    conduct(home, search())
    return home


def test_a_search_cut_anywhere_proposes_and_stops_as_the_undisturbed_one(undisturbed: Home, tmp_path: Path) -> None:
    edition, found = search(), points(undisturbed, search())
    assert found[0] == {"encoding.gamma": 2.5, "encoding.hidden": 32, "optimizer.schedule": "cosine"}
    assert len(found) == len({json.dumps(point) for point in found}) == 14, "every number draws anew"
    for point in found:
        SPACE.require_point(BASE, point, "point")
    assert len(stops(undisturbed, edition)) > 1
    resumes_exactly(undisturbed, edition, tmp_path, (2, 9, 23, 40, 61))


def resumes_exactly(calm: Home, edition: Edition, folder: Path, cuts: tuple[int, ...]) -> None:
    for cut in cuts:
        home = Home(folder / str(cut))
        assert conduct(home, edition, 1, cut=cut) is None
        conduct(home, edition, 2)
        assert points(home, edition) == points(calm, edition), cut
        assert stops(home, edition) == stops(calm, edition), cut


@pytest.mark.parametrize("slots", [1, 4])
def test_what_is_kept_between_proposals_changes_none_of_them(home: Home, slots: int) -> None:
    """Each point of a live search is the one of a sampler that was told everything at that moment."""
    edition, compared = search(trials=30), list[int]()
    with driving(home, edition) as driver:
        kept = driver._decisions._sampler

        def propose(number: int, role: Role) -> dict | None:
            found = Sampler.propose(kept, number, role)
            assert Sampler(driver.history).propose(number, role) == found
            compared.append(number)
            return found

        kept.propose = propose
        Toy(driver, random.Random(0), slots).drive()
    assert compared == [*range(30)]


def test_points_that_had_ended_are_told_with_their_scores_while_they_get_further_seeds() -> None:
    """Told as RUNNING, they would send TPE away from the best ones, or leave it no score at all."""
    now = Situation(situations.search(trials=8, seeds=2))
    trials = [now.plan(1.0 + number) for number in range(7)]
    for number, trial in enumerate(trials):
        for run in trial.runs(2 if number < 6 else 1):
            now.end(run, 0.8 + 0.01 * number)
    calm = Sampler(now.history).propose(7)
    now.add(Counts(seeds=3, trials=9))
    assert {now.history.answer(trial).status for trial in trials} == {"open"}
    kept = Sampler(now.history)
    assert kept.propose(7) == calm, "more seeds are no other scores"
    for number, trial in enumerate(trials[:6]):
        now.end(trial.run(2), 0.9 - 0.15 * number)
    told_again = kept.propose(7)
    assert told_again == Sampler(now.history).propose(7) != calm, "means that changed are told again"
    assert blind(now.history, 8) == ""


def end_last(history: History, value: float) -> None:
    """Ends the first seed of the point that was planned last."""
    run = history.first_run(history.of("trial")[-1])
    known = {"run": run.key, "code": history.code(run)}
    history.add(Measured(**known, epoch=7, values={"val/accuracy": value}))
    history.add(Ended(**known, outcome="completed", epoch=7))


def test_tpe_keeps_away_from_a_point_that_is_trained() -> None:
    """Told of the best point alone, TPE stays near it; a RUNNING one there sends it elsewhere."""
    edition = search(30, space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}))
    near = []
    for running in (0, 6):
        history = History(edition)
        history.add(Counts(seeds=1, trials=30))
        for number, gamma in enumerate([0.2, 0.5, 2.0, 9.0, 30.0, *(2.0 + 0.01 * one for one in range(running))]):
            history.add(Planned(role="trial", number=number, name="", values={"encoding.gamma": gamma}))
            if number < 5:
                end_last(history, 0.9 if gamma == 2.0 else 0.5 + 0.01 * number)
        found = [Sampler(history).propose(number)["encoding.gamma"] for number in range(20, 40)]
        near.append(sum(1.5 < gamma < 2.7 for gamma in found))
    assert near[0] > 2 * near[1]


def test_another_study_draws_other_points() -> None:
    one = History(search())
    other = History(search().named("again"))
    assert Sampler(one).propose(3) == Sampler(one).propose(3)
    assert Sampler(one).propose(3) != Sampler(other).propose(3)
    assert Sampler(one).propose(3) != Sampler(one).propose(4)


def test_a_journal_cut_between_measured_and_stopped_replays_to_equal_decisions(
    undisturbed: Home, tmp_path: Path
) -> None:
    edition = search()
    lines = undisturbed.study(edition.id).journal.read_text().splitlines(keepends=True)
    for number in [number for number, line in enumerate(lines) if '"fact":"stopped"' in line][:4]:
        home = Home(tmp_path / str(number))
        folder = home.study(edition.id)
        shutil.copytree(undisturbed.study(edition.id).root, folder.root)
        folder.journal.write_text("".join(lines[:number]))
        conduct(home, edition)
        assert stops(home, edition) == stops(undisturbed, edition)
        assert points(home, edition) == points(undisturbed, edition)


@pytest.mark.parametrize(
    ("answer", "state", "value", "reports"),
    [
        (TrialAnswer("open", {0: 0.5}, 2, 7), TrialState.RUNNING, None, {}),
        (TrialAnswer("completed", {0: 0.5, 1: 0.7}, 2, 7), TrialState.COMPLETE, 0.6, {}),
        (TrialAnswer("stopped", {0: 0.55}, 2, 3, 0.8), TrialState.PRUNED, None, {3: 0.55}),
        (TrialAnswer("stopped", {0: 0.5, 1: 0.7}, 3, 7, 0.8, raced=True), TrialState.COMPLETE, 0.6, {}),
        (TrialAnswer("diverged", {0: 0.5}, 2, 4), TrialState.PRUNED, None, {0: 0.5}),
    ],
)
def test_the_sampler_is_told_how_a_trial_ended(answer, state, value, reports) -> None:
    edition = search()
    values = {"encoding.gamma": 3.0, "encoding.hidden": 16, "optimizer.schedule": "constant"}
    told = _frozen_trial(edition.study.plan.space, edition.study.base, edition.trial(3, values), answer)
    assert (told.state, told.intermediate_values) == (state, reports)
    assert told.values == (None if value is None else [pytest.approx(value)])
    assert told.params == {
        "encoding.fourier.gamma": 3.0,
        "encoding.fourier.hidden": 16,
        "optimizer.adamw.schedule": "constant",
    }


def test_branches_and_subsets_are_sampled_too(home: Home) -> None:
    space = Space(
        {"encoding.kind": Choice(options=("fourier", "peg")), "model.depth": Integer(low=2, high=3)},
        {
            "encoding.kind": {
                "fourier": {"encoding.gamma": Real(low=0.1, high=40, log=True)},
                "peg": {"encoding.places": Subset(of=(-1, 0))},
            }
        },
    )
    edition = search(16, space=space)
    conduct(home, edition)
    found = points(home, edition)
    assert {point["encoding.kind"] for point in found} == {"fourier", "peg"}
    for point in found:
        space.require_point(edition.study.base, point, "point")


def test_tpe_climbs(home: Home) -> None:
    """The five random points hit the hill by chance (0.37 of the log range); those after them more often."""
    edition = search(40, space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}))
    conduct(home, edition)
    gammas = [point["encoding.gamma"] for point in points(home, edition)]
    assert sum(0.7 < gamma < 6.5 for gamma in gammas[5:]) / 35 > 0.5


GRID = Space(
    {
        "encoding.gamma": Real(low=0.1, high=40, log=True, points=3),
        "encoding.hidden": Integer(low=8, high=24, step=8),
        "optimizer.schedule": Choice(options=("cosine", "constant")),
    }
)
SAMPLED = {"random": search(12, space=SPACE, sampler="random"), "grid": search(12, space=GRID, sampler="grid")}


@pytest.mark.parametrize("sampler", SAMPLED)
def test_every_sampler_resumes_exactly(tmp_path: Path, sampler: str) -> None:
    edition, calm = SAMPLED[sampler], Home(tmp_path / "calm")
    conduct(calm, edition)
    assert len({json.dumps(point) for point in points(calm, edition)}) == 12
    resumes_exactly(calm, edition, tmp_path, (3, 17, 41))


def test_a_random_search_learns_nothing_and_a_grid_tries_every_point(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "random"), Home(tmp_path / "grid")
    random_, laid = SAMPLED["random"], search(40, space=GRID, sampler="grid")
    conduct(home, random_)
    blind = History(random_)
    assert points(home, random_)[5] == Sampler(blind).propose(5), "what was measured changes nothing"
    conduct(other, laid)
    found = points(other, laid)
    assert len(found) == len({json.dumps(point) for point in found}) == 3 * 3 * 2
    assert sorted({point["encoding.gamma"] for point in found}) == [0.1, pytest.approx(2.0), 40]
    assert [point for point in found] != list(grid(GRID, laid.study.base)), "in an order of its own"
    (end,) = [fact for fact in read(other.study(laid.id).journal)[0] if isinstance(fact, Exhausted)]
    assert end.trials == 18


SMALL_SPACE = Space({"encoding.hidden": Choice(options=(8, 16, 24, 32))})
HALF_NONE = Space(
    {"encoding.kind": Choice(options=("none", "peg"))},
    {"encoding.kind": {"peg": {"encoding.places": Subset(of=(-1,))}}},
)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_small_space_is_tried_once_and_ends(home: Home, sampler: str) -> None:
    edition = search(12, epochs=1, space=SMALL_SPACE, sampler=sampler)
    conduct(home, edition)
    found = points(home, edition)
    assert sorted(point["encoding.hidden"] for point in found) == [8, 16, 24, 32]
    halves = search(6, space=HALF_NONE, sampler=sampler).named("halves")
    conduct(home, halves)
    assert len(points(home, halves)) == 2, "without a choice of PEG's places two of four points are `none`"
    history = History.open(home, edition)
    assert (history.exhausted, history.trial_count, history.trials_asked) == (4, 4, 12)
    assert len(set(history.confirms)) == 4
    again = conduct(home, edition)
    assert not again.trained
    assert len([fact for fact in read(home.study(edition.id).journal)[0] if isinstance(fact, Exhausted)]) == 1


KINDS = Space(
    {"encoding.kind": Choice(options=("none", "learnable", "sinusoidal", "rotary", "relative", "alibi", "fourier"))},
    {"encoding.kind": {"fourier": {"encoding.gamma": Real(low=0.1, high=40, log=True)}}},
)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_an_endless_space_is_never_exhausted_though_most_draws_repeat_a_point(sampler: str) -> None:
    """Six kinds have no number, so that most draws of TPE, which likes `rotary`, are points that were tried."""
    edition = search(25, space=KINDS, sampler=sampler)
    history = History(edition)
    history.add(Counts(seeds=1, trials=25))
    for number in range(25):
        point = Sampler(history).propose(number)
        assert point is not None, number
        assert point == Sampler(history).propose(number)
        history.add(Planned(role="trial", number=number, name="", values=point))
        end_last(history, {"rotary": 0.9, "fourier": 0.5}.get(point["encoding.kind"], 0.6))
    assert len({trial.recipe for trial in history.of("trial")}) == 25


def test_a_space_that_is_endless_on_paper_alone_ends(monkeypatch) -> None:
    """A range with no number between its ends has two points at most."""
    monkeypatch.setattr(sampling, "MOST_ATTEMPTS", 100)
    space = Space({"encoding.gamma": Real(low=1.0, high=1.0 + 2**-52)})
    history = History(search(9, space=space, sampler="random"))
    history.add(Counts(seeds=1, trials=9))
    while (point := Sampler(history).propose(len(history.of("trial")))) is not None:
        history.add(Planned(role="trial", number=len(history.of("trial")), name="", values=point))
        assert len(history.of("trial")) <= 2


def test_a_journal_with_doubles_confirms_distinct_points() -> None:
    edition = search(4, space=SMALL_SPACE)
    history = History(edition)
    history.add(Counts(seeds=1, trials=4))
    for number, (hidden, value) in enumerate([(8, 0.7), (16, 0.9), (16, 0.9), (24, 0.6)]):
        history.add(Planned(role="trial", number=number, name="", values={"encoding.hidden": hidden}))
        end_last(history, value)
    assert next_action(history, set()) == Confirm((1, 0, 3))
