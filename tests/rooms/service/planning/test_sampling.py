"""The sampler and the stopper: what they are told, and that a journal gives them back as they were."""

import json
import shutil
from pathlib import Path

import pytest
from optuna.trial import TrialState

from search_spaces.space import Choice, Integer, Real, Space, Subset
from search_spaces.study import Edition, Halving, Search, Study
from service.planning.sampling import EarlyStopper, _told, propose
from service.storage.history import History, TrialAnswer
from service.storage.home import Home
from service.storage.journal import Planned, StoppedAt, read
from tests.rooms.toy import conduct
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


def search(trials: int = 14, epochs: int = 7, factor: int = 3, space: Space = SPACE, seeds: int = 1) -> Edition:
    base = BASE.put({"optimizer.epochs": epochs})
    first = ({"encoding.gamma": 2.5, "encoding.hidden": 32, "optimizer.schedule": "cosine"},)
    plan = Search(space=space, first=first if space is SPACE else (), trials=trials, stop=Halving(factor))
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


@pytest.mark.parametrize("cut", [2, 9, 23, 40, 61])
def test_a_search_cut_anywhere_proposes_and_stops_as_the_undisturbed_one(
    undisturbed: Home, tmp_path: Path, cut: int
) -> None:
    home = Home(tmp_path)
    assert conduct(home, search(), 1, cut=cut) is None
    conduct(home, search(), 2)
    assert points(home, search()) == points(undisturbed, search())
    assert stops(home, search()) == stops(undisturbed, search())
    assert len(points(home, search())) == 14
    assert len(stops(home, search())) > 3


def test_every_number_draws_anew(undisturbed: Home) -> None:
    found = points(undisturbed, search())
    assert len({json.dumps(point) for point in found}) == len(found)
    assert found[0] == {"encoding.gamma": 2.5, "encoding.hidden": 32, "optimizer.schedule": "cosine"}
    for point in found:
        SPACE.require_point(BASE, point, "point")


def test_another_study_draws_other_points() -> None:
    one = History(search(), lambda _: "code")
    other = History(search().fresh(2), lambda _: "code")
    assert propose(one, 3) == propose(one, 3)
    assert propose(one, 3) != propose(other, 3)
    assert propose(one, 3) != propose(one, 4)


def test_a_journal_cut_between_measured_and_stopped_replays_to_equal_decisions(
    undisturbed: Home, tmp_path: Path
) -> None:
    lines = undisturbed.study(search().id).journal.read_text().splitlines(keepends=True)
    for number in [number for number, line in enumerate(lines) if '"fact":"stopped"' in line][:4]:
        home = Home(tmp_path / str(number))
        folder = home.study(search().id)
        shutil.copytree(undisturbed.study(search().id).root, folder.root)
        folder.journal.write_text("".join(lines[:number]))
        conduct(home, search())
        assert stops(home, search()) == stops(undisturbed, search())
        assert points(home, search()) == points(undisturbed, search())


def rungs(first: int, factor: int, epochs: int) -> list[int]:
    found = []
    while first < epochs:
        found.append(first)
        first *= factor
    return found


@pytest.mark.parametrize(("epochs", "factor"), [(9, 3), (10, 2), (7, 4), (30, 2), (1, 3), (2, 3)])
def test_halving_keeps_the_best_share_at_each_rung(epochs: int, factor: int) -> None:
    """Against a loop of our own: rungs from a third of the epochs on, at each the best 1/factor of those heard."""
    stopper, heard = EarlyStopper(search(epochs=epochs, factor=factor)), {}
    first = -(-epochs // 3)
    values = [((7 * number + 3) % 17) / 17 for number in range(17)]
    for number, level in enumerate(values):
        for epoch in range(1, epochs + 1):
            cutoff = stopper.report(number, epoch, level + epoch / 100)
            if epoch not in rungs(first, factor, epochs + 1):
                assert cutoff is None
                continue
            rung = heard.setdefault(epoch, [])
            rung.append(level + epoch / 100)
            least = sorted(rung, reverse=True)[max(len(rung) // factor, 1) - 1]
            assert cutoff == (least if level + epoch / 100 < least else None)
            if cutoff is not None:
                break


def test_the_first_rung_stands_at_a_third_of_the_epochs() -> None:
    stopper = EarlyStopper(search(epochs=10))
    assert [stopper.report(0, epoch, 0.9) for epoch in range(1, 5)] == [None] * 4
    assert [stopper.report(1, epoch, 0.1) for epoch in range(1, 4)] == [None] * 3
    assert stopper.report(1, 4, 0.1) == 0.9


def test_a_measurement_is_heard_once() -> None:
    stopper = EarlyStopper(search(epochs=3))
    stopper.report(0, 1, 0.5)
    assert stopper.report(1, 1, 0.4) == 0.5
    assert stopper.report(1, 1, 0.4) is None


@pytest.mark.parametrize(
    ("answer", "state", "value", "reports"),
    [
        (TrialAnswer("completed", {0: 0.5, 1: 0.7}, 2, 7), TrialState.COMPLETE, 0.6, {}),
        (TrialAnswer("stopped", {0: 0.55}, 2, 3, 0.8), TrialState.PRUNED, None, {3: 0.55}),
        (TrialAnswer("diverged", {0: 0.5}, 2, 4), TrialState.PRUNED, None, {0: 0.5}),
        (TrialAnswer("incomplete", {0: 0.9}, 2, 7), TrialState.FAIL, None, {}),
        (TrialAnswer("open", {}, 2, 1), TrialState.RUNNING, None, {}),
    ],
)
def test_the_sampler_is_told_how_a_trial_ended(answer, state, value, reports) -> None:
    edition = search()
    values = {"encoding.gamma": 3.0, "encoding.hidden": 16, "optimizer.schedule": "constant"}
    told = _told(edition, edition.trial(3, values), answer)
    assert (told.state, told.intermediate_values) == (state, reports)
    assert told.values == (None if value is None else [pytest.approx(value)])
    assert told.params == {
        "encoding.fourier.gamma": 3.0,
        "encoding.fourier.hidden": 16,
        "optimizer.adamw.schedule": "constant",
    }


def test_branches_and_subsets_are_sampled_too(tmp_path: Path) -> None:
    space = Space(
        {"encoding.kind": Choice(options=("fourier", "peg")), "model.depth": Integer(low=2, high=3)},
        {
            "encoding.kind": {
                "fourier": {"encoding.gamma": Real(low=0.1, high=40, log=True)},
                "peg": {"encoding.places": Subset(of=(-1, 0))},
            }
        },
    )
    home = Home(tmp_path)
    edition = search(16, space=space)
    conduct(home, edition)
    found = points(home, edition)
    assert {point["encoding.kind"] for point in found} == {"fourier", "peg"}
    for point in found:
        space.require_point(edition.study.base, point, "point")


def test_tpe_climbs(tmp_path: Path) -> None:
    """The ten random points hit the hill by chance (0.37 of the log range); those after them more often."""
    home = Home(tmp_path)
    edition = search(40, space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}))
    conduct(home, edition)
    gammas = [point["encoding.gamma"] for point in points(home, edition)]
    assert sum(0.7 < gamma < 6.5 for gamma in gammas[10:]) / 30 > 0.5
