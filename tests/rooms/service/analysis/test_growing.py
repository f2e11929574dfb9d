"""While a study runs, the history remembers what it has computed. A history read from the journal must be equal."""

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Tuning
from service.analysis.trial_result import Summaries, summarize
from service.execution.signals import Control
from service.planning.forecast import Forecast
from service.storage.facts import Ended
from service.storage.history import History
from service.storage.journal import read
from tests.rooms.service.execution.studies import Asked, facts
from tests.rooms.service.planning import situations
from tests.rooms.toy import driving

TUNE = Tuning(space=Space({"optimizer.lr": Real(low=1e-4, high=1e-2)}), trials=3)
EDITIONS = {
    "a search": situations.search(trials=5),
    "a search with rivals": situations.search(trials=4, rival=True),
    "arms and parents": situations.arms(),
    "tuned arms": situations.arms({"none": {"encoding.kind": "none"}, "near": {}}, tune=TUNE),
}


def drive(home, edition, asks=None, **toy) -> int:
    """One command; all that is remembered is asked for after every fact, and compared after every eighth."""
    asked = 0

    def compare(fact):
        nonlocal asked
        asked += 1
        grown, path = driver.history, home.study(edition.id).journal
        answers, rows, left = [grown.answer(trial) for trial in grown.trials], summaries(), forecast(2)
        if asked % 8:
            return
        read_again = History(edition, read(path)[0])
        assert answers == [read_again.answer(trial) for trial in read_again.trials]
        assert rows == summarize(read_again)
        assert left == Forecast(read_again)(2)

    with driving(home, edition) as driver:
        summaries, forecast = Summaries(driver.history), Forecast(driver.history)
        driver.listeners.append(compare)
        Asked(driver, asks or {}, max_concurrent=3, **toy).drive()
    assert driver.listener_failed is None, driver.folder.log.read_text()
    return asked


@pytest.mark.parametrize("name", EDITIONS)
def test_it_is_what_the_journal_says(home, name):
    edition = EDITIONS[name]
    trials = 6 if "search" in name else None
    assert drive(home, edition, {25: Control(seeds=3), 70: Control(trials=trials, seeds=4)}) > 50
    grown = edition.study.at(seeds=5, trials=trials and 8)
    assert drive(home, grown) > 5, "more seeds, and trials that replace confirmations"


def test_runs_that_fail_and_answers_that_are_gone(home):
    edition = EDITIONS["arms and parents"]
    drive(home, edition, fails=lambda job, epoch: job.label == "1" and epoch == 2)
    drive(home, edition)
    for ended in facts(home, edition, Ended)[:3]:
        for file in (home.root / "outcomes" / ended.run).iterdir():
            file.unlink()
    assert drive(home, edition.study.at(seeds=3)) > 5
