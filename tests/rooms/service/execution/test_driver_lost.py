"""Room: an answer whose file is gone or was cut is trained again, with the same numbers, and nothing else is."""

import pytest

from service.analysis.study_status import one_status
from service.planning.estimate import estimate_work
from service.planning.placement import Placement
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Ended
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct
from trainables.recipe.code_digest import CodeDigests


def cut(path, share: float | None) -> None:
    whole = path.read_bytes()
    path.unlink() if share is None else path.write_bytes(whole[: int(share * len(whole))])


@pytest.mark.parametrize("share", [None, 0.0, 0.5, 0.99])
@pytest.mark.parametrize("study", [arms, search])
def test_a_lost_answer_is_trained_again_and_comes_out_the_same(home: Home, study, share) -> None:
    edition = study()
    conduct(home, edition)
    outcomes = Outcomes(home)
    lost = facts(home, edition, Ended)[1]
    before = outcomes.get(lost.run, lost.code)
    means = [row.mean for row in one_status(home, edition.id).rows]
    cut(outcomes.path(lost.run, lost.code), share)
    assert outcomes.get(lost.run, lost.code) is None
    codes = CodeDigests()
    plan = estimate_work(History.open(home, edition, codes), outcomes, Placement(max_concurrent=2), codes)
    assert plan.missing == 1
    toy = conduct(home, edition)
    assert [run.key for run in toy.order] == [lost.run]
    assert outcomes.get(lost.run, lost.code).repeats(before)
    assert [row.mean for row in one_status(home, edition.id).rows] == means
    aside = [path.name for path in outcomes.path(lost.run, lost.code).parent.glob("*.damaged")]
    assert len(aside) == (share is not None)
    assert conduct(home, edition).order == [], "once"


def test_another_study_does_not_stumble_over_it(home: Home) -> None:
    conduct(home, arms())
    lost = facts(home, arms(), Ended)[0]
    cut(Outcomes(home).path(lost.run, lost.code), 0.5)
    toy = conduct(home, arms(name="others"))
    assert [run.key for run in toy.order] == [lost.run]
