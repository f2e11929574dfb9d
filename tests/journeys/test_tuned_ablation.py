"""An ablation whose arms are tuned first, on a real Ray: a bad given rate is replaced, and nothing is trained twice."""

import html
import re

import pytest

import service
from service.storage.facts import Started
from service.storage.home import Home
from service.storage.journal import read

BASE = {
    "data.kind": "digits",
    "model.depth": 1,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "optimizer.epochs": 3,
    "optimizer.batch_size": 32,
    "optimizer.lr": 0.003,
}
ARMS = {"none": {}, "sinusoidal": {"encoding.kind": "sinusoidal", "optimizer.lr": 1e-9}}
SPACE = service.Space({"optimizer.lr": service.Real(1e-9, 0.01, log=True)})
FIRST = ({"optimizer.lr": 1e-9}, {"optimizer.lr": 0.003})
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def tuned(home, **more):
    tune = service.Tuning(SPACE, trials=2, first=FIRST)
    return service.ablate(ARMS, baseline="none", base=BASE, tune=tune, seeds=2, name="fair", home=str(home), **more)


def test_each_arm_is_tuned_by_as_many_trials_and_then_compared(tmp_path, capsys):
    result = tuned(tmp_path)
    assert "plan: fair@base: at most 8 runs to train" in capsys.readouterr().out
    journal = Home(tmp_path).study("fair@base").journal
    started = [(fact.label, fact.seed) for fact in read(journal)[0] if isinstance(fact, Started)]
    assert sorted(started[:4]) == [("t0.0", 3000), ("t0.1", 3000), ("t1.0", 3000), ("t1.1", 3000)]
    assert sorted(started[4:]) == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    assert result.history.tuning.chosen == {"none": 1, "sinusoidal": 1}
    assert [row.recipe.optimizer.lr for row in result.of("trial")] == [0.003, 0.003]
    assert [row.name for row in result.winners]
    page = html.unescape(re.sub(r"<[^>]+>", " ", result.report().read_text()))
    assert re.search(r"sinusoidal\s+2\s+#t1\.1\s+optimizer\.lr = 0\.003\s+optimizer\.lr = 1e-09\s", page)
    assert all(check.ok for check in service.verify("fair", home=str(tmp_path)))

    again = tuned(tmp_path)
    assert "plan: fair@base: 0 runs to train, 8 done" in capsys.readouterr().out
    assert len(read(journal)[0]) > 0
    assert [fact.run for fact in read(journal)[0] if isinstance(fact, Started)] == [
        run.key for run in _in_order(again, started)
    ]
    assert again.headline == result.headline
    assert service.status("fair", home=str(tmp_path))[0].state == "done"
    service.forget("fair", home=str(tmp_path))
    assert not service.status(home=str(tmp_path))


def _in_order(result, started):
    rows = {row.trial.label: row for row in result.rows}
    return [rows[label].runs[seed].run for label, seed in started]
