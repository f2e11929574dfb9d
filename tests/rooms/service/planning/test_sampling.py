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
from service.execution.driver import EarlyStops
from service.planning import sampling
from service.planning.forecast import blind
from service.planning.sampling import Sampler, _frozen_trial
from service.planning.schedule import Confirm, next_action
from service.planning.stopping import EarlyStopper, rungs
from service.storage.facts import Counts, Ended, Exhausted, Measured, Planned, StoppedAt, TrialAnswer
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import read
from tests.rooms.service.planning import situations
from tests.rooms.service.planning.situations import Situation
from tests.rooms.toy import Toy, conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe, Run
from trainables.recipe.outcome import Measurement

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
    edition = search()
    assert len(points(undisturbed, edition)) == 14
    assert len(stops(undisturbed, edition)) > 1
    resumes_exactly(undisturbed, edition, tmp_path, (2, 9, 23, 40, 61))


def resumes_exactly(calm: Home, edition: Edition, folder: Path, cuts: tuple[int, ...]) -> None:
    for cut in cuts:
        home = Home(folder / str(cut))
        assert conduct(home, edition, 1, cut=cut) is None
        conduct(home, edition, 2)
        assert points(home, edition) == points(calm, edition), cut
        assert stops(home, edition) == stops(calm, edition), cut


def test_every_number_draws_anew(undisturbed: Home) -> None:
    found = points(undisturbed, search())
    assert len({json.dumps(point) for point in found}) == len(found)
    assert found[0] == {"encoding.gamma": 2.5, "encoding.hidden": 32, "optimizer.schedule": "cosine"}
    for point in found:
        SPACE.require_point(BASE, point, "point")


def test_what_is_kept_between_proposals_changes_none_of_them(tmp_path: Path) -> None:
    """Each point of a live search is the one of a sampler that was told everything at that moment."""
    for slots in (1, 4):
        kept_and_new_propose_alike(Home(tmp_path / str(slots)), slots)


def kept_and_new_propose_alike(home: Home, slots: int) -> None:
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


def test_an_answer_that_changes_is_told_again(undisturbed: Home) -> None:
    """More seeds change the mean of a trial. A sampler that told Optuna the old mean must tell it the new one."""
    facts = read(undisturbed.study(search().id).journal)[0]
    history = History(
        search(),
        lambda _: "c0dec0dec0de",
        [fact.model_copy(update={"code": "c0dec0dec0de"}) if hasattr(fact, "code") else fact for fact in facts],
    )
    kept = Sampler(history)
    before = kept.propose(14)
    trial = history.highest()[0]
    history.add(Counts(seeds=2, trials=20))
    known = {"run": trial.run(1).key, "code": "c0dec0dec0de"}
    history.add(Measured(**known, epoch=7, values={"val/accuracy": 0.0}))
    history.add(Ended(**known, outcome="completed", epoch=7))
    assert history.answer(trial).asked == 2
    assert kept.propose(14) == Sampler(history).propose(14)
    assert kept._told[""]._known[trial.label][1] == history.answer(trial)
    assert before is not None


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
    told = kept._told[""]
    states = [trial.state.name for trial in told._study.get_trials() if trial.state.name != "FAIL"]
    assert states == ["COMPLETE"] * 6 + ["RUNNING"]
    now.end(trials[0].run(2), 0.5)
    assert kept.propose(7) == Sampler(now.history).propose(7)
    assert told._known[trials[0].label][1].mean == pytest.approx(0.7)
    assert blind(now.history, 8) == ""


@pytest.mark.parametrize(("second", "cutoff"), [(0.9, 0.85), (0.6, pytest.approx(0.6)), (0.5, None)])
def test_what_each_seed_had_at_a_rung_counts_while_points_get_further_seeds(second, cutoff) -> None:
    """All end at 0.9. The lowest seed at the rung was there at 0.85, lower, or had not begun to learn."""
    now = Situation(situations.search(trials=8, seeds=3))
    trials = [now.plan(1.0 + number) for number in range(7)]
    now.add(Counts(seeds=4, trials=8))
    early = EarlyStops(now.edition, now.history)  # of the driver that adds the seeds

    def measured(run: Run, epoch: int, value: float) -> float | None:
        return early.cutoff(run.key, "c0dec0dec0de", Measurement(epoch=epoch, values={"val/accuracy": value}))

    for trial in trials[:6]:
        for run, value in zip(trial.runs(3), (0.9, second, 0.85), strict=True):
            assert measured(run, 2, value) is measured(run, 4, 0.9) is None
    assert measured(trials[6].run(0), 2, 0.55) == cutoff


def end_last(history: History, value: float) -> None:
    """Ends the first seed of the point that was planned last."""
    known = {"run": history.first_run(history.of("trial")[-1]).key, "code": "c0dec0dec0de"}
    history.add(Measured(**known, epoch=7, values={"val/accuracy": value}))
    history.add(Ended(**known, outcome="completed", epoch=7))


def test_tpe_keeps_away_from_a_point_that_is_trained() -> None:
    """Told of the best point alone, TPE stays near it; a RUNNING one there sends it elsewhere."""
    edition = search(30, space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}))
    near = []
    for running in (0, 6):
        history = History(edition, lambda _: "c0dec0dec0de")
        history.add(Counts(seeds=1, trials=30))
        for number, gamma in enumerate([0.2, 0.5, 2.0, 9.0, 30.0, *(2.0 + 0.01 * one for one in range(running))]):
            history.add(Planned(role="trial", number=number, name="", values={"encoding.gamma": gamma}))
            if number < 5:
                end_last(history, 0.9 if gamma == 2.0 else 0.5 + 0.01 * number)
        found = [Sampler(history).propose(number)["encoding.gamma"] for number in range(20, 40)]
        near.append(sum(1.5 < gamma < 2.7 for gamma in found))
    assert near[0] > 2 * near[1]


def test_another_study_draws_other_points() -> None:
    one = History(search(), lambda _: "c0dec0dec0de")
    other = History(search().named("again"), lambda _: "c0dec0dec0de")
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


def test_halving_keeps_the_best_share_at_each_rung() -> None:
    for epochs, factor in ((9, 3), (10, 2), (7, 4), (30, 2), (1, 3), (2, 3), (4, 3)):
        keeps_the_best_share(epochs, factor)


def keeps_the_best_share(epochs: int, factor: int) -> None:
    """Against a loop of our own: rungs at thirds of the epochs; at each continue the best 1/factor of those that came,
    and those that the gain of a seed of the best five that ended would bring among these."""
    stopper, heard = EarlyStopper(search(epochs=epochs, factor=factor), seeds=2), {}
    ends = list[tuple[float, dict[int, float]]]()  # the mean of a point's seeds, and the lower one at each epoch
    first = -(-epochs // 3)
    stopped_at = set()
    values = [0.6 + ((7 * number + 3) % 17) / 60 for number in range(17)]
    for number, level in enumerate(values):
        curve = {epoch: level + (epoch * (number % 3)) / 1000 for epoch in range(1, epochs + 1)}
        for epoch, value in curve.items():
            cutoff = stopper.report(number, epoch, value)
            if epoch not in (first, 2 * first) or epoch == epochs:
                assert cutoff is None
                continue
            rung = heard.setdefault(epoch, [])
            rung.append(value)
            least = sorted(rung, reverse=True)[max(len(rung) // factor, 1) - 1]
            if len(ends) >= 5:
                best = sorted(ends, key=lambda one: one[0], reverse=True)[:5]
                least = min(least, best[4][0] - max(mean - lowest[epoch] for mean, lowest in best))
                assert cutoff == (pytest.approx(least) if value < least else None)
            else:
                assert cutoff is None
            if cutoff is not None:
                stopped_at.add(epoch)
                break
        else:
            lower = {epoch: value - 0.01 * (number % 2) for epoch, value in curve.items()}
            for epoch, value in lower.items():
                assert stopper.report(number, epoch, value, seed=1) is None
            ends.append(((curve[epochs] + lower[epochs]) / 2, lower))
    assert stopped_at <= {rung for rung in (first, 2 * first) if rung < epochs}
    assert stopped_at or epochs < 7


def test_halving_halves_twice_where_there_are_epochs_for_it() -> None:
    assert [list(rungs(epochs)) for epochs in (1, 2, 3, 4, 9, 10, 30)] == [
        [], [1], [1, 2], [2], [3, 6], [4, 8], [10, 20],
    ]  # fmt: skip


def test_the_first_rung_stands_at_a_third_of_the_epochs() -> None:
    stopper = after_five(10)
    assert [stopper.report(5, epoch, 0.1) for epoch in range(1, 4)] == [None] * 3
    assert stopper.report(5, 4, 0.1) == 0.9


def test_a_trial_that_passed_the_first_rung_is_stopped_at_the_second() -> None:
    stopper = after_five(9)
    assert [stopper.report(5, epoch, 0.95) for epoch in range(1, 6)] == [None] * 5
    assert stopper.report(5, 6, 0.7) == 0.9


def after_five(epochs: int, *, late: float = 0.0) -> EarlyStopper:
    """Five trials have ended at 0.9; `late`: how much the last one gained after the rungs."""
    stopper = EarlyStopper(search(epochs=epochs), seeds=1)
    for number in range(5):
        for epoch in range(1, epochs + 1):
            behind = late if number == 4 and epoch < epochs else 0.0
            assert stopper.report(number, epoch, 0.9 - behind) is None
    return stopper


def test_a_trial_that_may_still_gain_enough_goes_on() -> None:
    """One trial learned late: it was at 0.6 at both rungs. So one at 0.61 may be one of the best, one at 0.59 not."""
    assert after_five(9).report(5, 3, 0.61) == 0.9
    stopper = after_five(9, late=0.3)
    assert stopper.report(5, 3, 0.61) is None
    assert stopper.report(6, 3, 0.59) == pytest.approx(0.6)


def test_nothing_is_stopped_before_five_have_ended() -> None:
    stopper = EarlyStopper(search(epochs=9), seeds=1)
    for number in range(4):
        assert [stopper.report(number, epoch, 0.9) for epoch in range(1, 10)] == [None] * 9
    assert stopper.report(4, 3, 0.1) is None


def test_a_measurement_counts_once() -> None:
    stopper = after_five(3)
    assert stopper.report(5, 1, 0.4) == 0.9
    assert stopper.report(5, 1, 0.4) is None


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
    blind = History(random_, lambda _: "c0dec0dec0de")
    assert points(home, random_)[5] == Sampler(blind).propose(5), "what was measured changes nothing"
    conduct(other, laid)
    found = points(other, laid)
    assert len(found) == len({json.dumps(point) for point in found}) == 3 * 3 * 2
    assert sorted({point["encoding.gamma"] for point in found}) == [0.1, pytest.approx(2.0), 40]
    assert [point for point in found] != list(grid(GRID, laid.study.base)), "in an order of its own"
    (end,) = [fact for fact in read(other.study(laid.id).journal)[0] if isinstance(fact, Exhausted)]
    assert end.trials == 18


SMALL_SPACE = Space({"encoding.hidden": Choice(options=(8, 16, 24, 32))})


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_small_space_is_tried_once_and_ends(home: Home, sampler: str) -> None:
    edition = search(12, epochs=1, space=SMALL_SPACE, sampler=sampler)
    conduct(home, edition)
    found = points(home, edition)
    assert sorted(point["encoding.hidden"] for point in found) == [8, 16, 24, 32]
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
    history = History(edition, lambda _: "c0dec0dec0de")
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
    history = History(search(9, space=space, sampler="random"), lambda _: "c0dec0dec0de")
    history.add(Counts(seeds=1, trials=9))
    while (point := Sampler(history).propose(len(history.of("trial")))) is not None:
        history.add(Planned(role="trial", number=len(history.of("trial")), name="", values=point))
        assert len(history.of("trial")) <= 2


def test_points_that_build_one_recipe_are_one_point(home: Home) -> None:
    """Without a choice of PEG's places two of four points are `none`."""
    space = Space(
        {"encoding.kind": Choice(options=("none", "peg"))},
        {"encoding.kind": {"peg": {"encoding.places": Subset(of=(-1,))}}},
    )
    edition = search(6, space=space)
    conduct(home, edition)
    assert len(points(home, edition)) == 2


def test_a_journal_with_doubles_confirms_distinct_points() -> None:
    edition = search(4, space=SMALL_SPACE)
    history = History(edition, lambda _: "c0dec0dec0de")
    history.add(Counts(seeds=1, trials=4))
    for number, (hidden, value) in enumerate([(8, 0.7), (16, 0.9), (16, 0.9), (24, 0.6)]):
        history.add(Planned(role="trial", number=number, name="", values={"encoding.hidden": hidden}))
        end_last(history, value)
    assert next_action(history, set()) == Confirm((1, 0, 3))
