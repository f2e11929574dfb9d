"""`locus run --join`: the study uses the Ray cluster that runs on this machine already."""

import pytest
from typer.testing import CliRunner

from service.cli import app


@pytest.fixture
def told(monkeypatch):
    """The options that `run` gives to what runs a study."""
    found = []
    monkeypatch.setattr("service.commands.running.run_resolved", lambda edition, options, **_: found.append(options))
    return found


@pytest.mark.parametrize(("words", "address"), [((), "local"), (("--join",), "auto")])
def test_a_study_starts_a_ray_or_joins_one(told, tmp_path, words, address):
    done = CliRunner().invoke(app, ["run", "fourier-gamma", "--home", str(tmp_path), *words])
    assert done.exit_code == 0, done.output
    assert [options.address for options in told] == [address]
