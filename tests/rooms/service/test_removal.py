"""A study that is forgotten: its folder, its answers and its MLflow rows go, and what others use stays."""

import pytest

import service
from search_spaces.study import Ablation, Study
from service.removal import forgettable
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync
from tests.rooms.toy import conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.spec import LocusError

BASE = Recipe(encoding=Fourier()).put({"optimizer.epochs": 3})
NEAR, FAR = {"encoding.gamma": 1.0}, {"encoding.gamma": 9.0}


def study(name, **arms):
    return Study(name=name, question="?", base=BASE, plan=Ablation({"base": {}, **arms}, "base"), seeds=2).at()


ONE, OTHER = study("one", near=NEAR), study("other", far=FAR)


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path)
    conduct(found, ONE)
    conduct(found, OTHER)
    return found


def keys(edition):
    return {run.key for arm in edition.arms() for run in arm.runs(2)}


def shown(home, edition):
    with driving(home, edition) as driver:
        sync = MlflowSync(edition, home, lambda recipe: driver.codes(recipe).digest, None)
        driver.listeners.append(sync.add)
        sync.open()
        driver.begin()
        sync.close("FINISHED", None)
    return look_up(home, edition)


def test_what_goes_is_said_and_what_others_use_stays(home):
    stores = [shown(home, edition) for edition in (ONE, OTHER)]
    assert all(len(store.shown) > 4 for store in stores)
    found = forgettable(home, ONE.id)
    lines = "\n".join(found.lines())
    assert "2 answers with weights" in lines
    assert "kept: 2 answers that other studies use" in lines
    assert f"{len(stores[0].shown)} runs in MLflow" in lines
    assert home.study(ONE.id).root.exists(), "nothing is removed before it is asked for"
    assert "copies" not in lines
    home.study(ONE.id).storage.write_text("s3://bucket/locus")
    assert found.lines()[-1] == "kept: the copies at s3://bucket/locus"
    found.remove()
    assert home.ids() == [OTHER.id]
    assert {path.name for path in home.outcomes.iterdir()} == keys(OTHER)
    assert all(Outcomes(home).of(key) for key in keys(OTHER))
    assert look_up(home, ONE) is None
    assert len(look_up(home, OTHER).shown) == len(stores[1].shown)
    assert all(check.ok for check in service.verify(OTHER.id, home=str(home.root)))


def test_the_last_study_takes_all_answers(home):
    service.forget(ONE.id, home=str(home.root))
    service.forget(OTHER.id, home=str(home.root))
    assert list(home.outcomes.iterdir()) == []
    assert service.status(home=str(home.root)) == []


def test_a_study_that_runs_and_a_name_that_is_no_id_are_refused(home):
    with driving(home, ONE), pytest.raises(LocusError, match="one@base must have ended to be forgotten"):
        forgettable(home, ONE.id)
    with pytest.raises(LocusError, match="no study 'one'"):
        forgettable(home, "one")
    assert len(home.ids()) == 2
