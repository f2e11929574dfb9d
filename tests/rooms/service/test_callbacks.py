"""What a user's functions are called with while a study runs, held against its journal."""

import random
from statistics import fmean

import pytest

import service
from search_spaces.study import Ablation, Study
from service.callbacks import Callbacks, EpochEnd, TrialEnd
from service.storage.facts import Measured
from service.storage.home import Home
from service.storage.journal import read
from tests.rooms.toy import Toy, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.spec import SpecError

BASE = Recipe(encoding=Fourier()).put({"optimizer.epochs": 3})
ARMS = {"near": {}, "far": {"encoding.gamma": 9.0}, "cliff": {"encoding.gamma": 30.0}}


def edition(seeds):
    return Study("told", "?", BASE, Ablation(ARMS, "near"), seeds=seeds).at()


def ran(home, seeds, functions, **toy):
    said = []
    with driving(home, edition(seeds)) as driver:
        driver.listeners.append(Callbacks(functions, driver, said.append).add)
        driver.begin()  # tells what earlier drivers wrote
        Toy(driver, random.Random(0), max_concurrent=2, **toy).drive()
        return said, driver.history


def test_functions_are_called_with_what_this_command_adds(home, tmp_path):
    ends, more = [], []

    def broken(end):
        more.append(end)
        raise ValueError("of mine")

    said, history = ran(home, 2, [broken, ends.append])
    assert more == ends
    journal = home.study("told@base").journal
    (line,) = said
    assert line.startswith("the callback broken failed (ValueError: of mine; see ")
    assert "of mine" in home.study("told@base").log.read_text()
    epochs = [end for end in ends if isinstance(end, EpochEnd)]
    runs = {run.key: (trial, seed) for trial in history.trials for seed, run in history.runs(trial).items()}
    expected = [(*runs[fact.run], fact) for fact in read(journal)[0] if isinstance(fact, Measured)]
    assert epochs == [
        EpochEnd("told@base", trial.label, trial.name, seed, fact.epoch, fact.values) for trial, seed, fact in expected
    ]
    trials = {end.name: end for end in ends if isinstance(end, TrialEnd)}
    assert len(trials) == len(ends) - len(epochs) == 3, "each trial ends once, with its last seed"
    assert [trials[name].status for name in ARMS] == ["completed"] * 3
    last = [end.values["val/accuracy"] for end in epochs if (end.name, end.epoch) == ("far", 3)]
    assert trials["far"].mean == pytest.approx(fmean(last))
    assert trials["cliff"].mean == 0.5, "both diverge, which counts as chance"
    place = {name: max(at for at, end in enumerate(ends) if end.name == name) for name in ARMS}
    assert all(isinstance(ends[at], TrialEnd) for at in place.values())

    later = []
    ran(home, 3, [later.append])
    assert {end.seed for end in later if isinstance(end, EpochEnd)} == {2}
    assert sorted(end.name for end in later if isinstance(end, TrialEnd)) == sorted(ARMS)
    nothing = []
    ran(home, 3, [nothing.append])
    assert nothing == []

    failing = []
    ran(Home(tmp_path / "other"), 2, [failing.append], fails=lambda job, epoch: job.label == "1" and epoch == 2)
    assert {end.name: end.status for end in failing if isinstance(end, TrialEnd)}["far"] == "incomplete"


def test_callbacks_that_cannot_be_called_are_refused_before_anything_is_written(tmp_path):
    home = str(tmp_path / "home")
    for wrong in (print, [print, 3], "print"):
        with pytest.raises(SpecError, match="callbacks must be a list of functions, got "):
            service.run(edition(1).study, home=home, callbacks=wrong)
    with pytest.raises(SpecError, match="callbacks must be left out where a study is submitted"):
        service.ablate(ARMS, base=BASE, baseline="near", home=home, callbacks=[print], address="http://head:8265")
    assert not (tmp_path / "home").exists()
