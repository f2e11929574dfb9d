"""`locus simulate`: what it prints, and what it refuses."""

import json

import pytest
from typer.testing import CliRunner

from service.cli import app, main


def typed(*words):
    done = CliRunner().invoke(app, ["simulate", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_it_says_how_long_it_takes_what_is_full_first_and_how_early_stopping_did():
    said = typed("fourier-gamma", "--trials", "12", "--max-concurrent", "4")
    for words in ("12 trials", "4 runs together", "first full", "Ray's ASHA", "made up"):
        assert words in said, words


def test_all_numbers_are_there_as_json():
    found = json.loads(typed("fourier-gamma", "--trials", "12", "--json"))
    assert found["trials"] == 12
    assert {row["way"] for row in found["stopping"]} == {"locus", "Ray's ASHA", "none"}
    assert found["bottleneck"]["share"] > 0


@pytest.mark.parametrize(
    ("words", "reason"), [(("--max-concurrent", "0"), "max-concurrent"), (("--epoch-s", "0"), "epoch-s")]
)
def test_what_is_not_positive_is_refused(monkeypatch, capsys, words, reason):
    monkeypatch.setattr("sys.argv", ["locus", "simulate", "fourier-gamma", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"{reason} must be a positive number, got 0" in capsys.readouterr().err
