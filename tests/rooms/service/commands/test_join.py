"""What `locus run` and `locus submit` make of the options that are typed, `--join` among them."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.planning.run_options import RunOptions


@pytest.fixture
def told(monkeypatch):
    """The options that `run` gives to what runs a study."""
    found = []
    monkeypatch.setattr("service.commands.running.run_resolved", lambda edition, options, **_: found.append(options))
    return found


def typed(*words):
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, done.output


def test_a_study_starts_a_ray_or_joins_one(told, tmp_path):
    for words in ((), ("--join",)):
        typed("run", "fourier-gamma", "--home", str(tmp_path), *words)
    assert [options.address for options in told] == ["local", "auto"]


def test_every_option_that_is_typed_reaches_the_study(told, tmp_path, monkeypatch):
    """Of both verbs that run one. `submit` has a home of its own: the one at the cluster."""
    values: dict[str, object] = {"tracking": "http://mlflow", "experiment": "mine", "storage": "s3://bucket/locus"}
    values |= {"max_concurrent": 2, "threads": 3, "workers": (2, 4), "loader_workers": 5, "device": "cpu"}
    values |= {"runs_per_gpu": "auto", "fuse": 8, "hours": 6.0, "run_hours": 7.0}
    words = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words[words.index("(2, 4)")] = "2-4"
    flags = ["compile", "grad_checkpointing", "deterministic", "download"]
    words += [f"--{flag.replace('_', '-')}" for flag in flags] + ["--budget", "smoke", "--seeds", "8"]
    asked = RunOptions(**values, home=str(tmp_path), **dict.fromkeys(flags, True))
    assert {name for name in RunOptions.model_fields if getattr(asked, name) != getattr(RunOptions(), name)} == {
        *RunOptions.model_fields
    } - {"address"}, "no option has its default"
    editions, sent = [], []

    def submitted(edition, options, address, *, say):
        editions.append(edition)
        sent.append((options, address))
        return SimpleNamespace(describe=str)

    monkeypatch.setattr("service.execution.jobs.submit", submitted)
    typed("run", "fourier-gamma", "--home", str(tmp_path), *words)
    typed("submit", "fourier-gamma", "--address", "http://head:8265", "--home", str(tmp_path), *words)
    assert told == [asked]
    assert sent == [(asked, "http://head:8265")]
    assert (editions[0].id, editions[0].study.seeds) == ("fourier-gamma@smoke", 8)
