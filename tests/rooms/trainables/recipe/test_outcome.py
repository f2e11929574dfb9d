"""Measurements are finite; outcomes are a closed union that travels as JSON."""

import pytest
from pydantic import TypeAdapter

from trainables.recipe.outcome import Completed, Diverged, Failed, Measurement, Outcome, Stopped
from trainables.spec import SpecError


def test_a_measurement_is_finite_numbers(subtests) -> None:
    for value in [float("nan"), float("inf"), -float("inf"), "0.5"]:
        with subtests.test(str(value)), pytest.raises(SpecError, match=r"val/accuracy"):
            Measurement(epoch=1, values={"val/accuracy": value})


def test_every_outcome_travels_as_json() -> None:
    curve = (Measurement(epoch=1, values={"train/loss": 0.1}), Measurement(epoch=2, values={"train/loss": 1 / 3}))
    for outcome in (
        Completed(curve=curve),
        Diverged(epoch=3, curve=curve, reason="weights not finite"),
        Stopped(epoch=2, cutoff=0.9),
        Failed(reason="a full disk"),
    ):
        assert TypeAdapter(Outcome).validate_json(outcome.model_dump_json()) == outcome
    assert Completed(curve=curve).final == {"train/loss": 1 / 3}


def test_a_completed_run_has_a_curve() -> None:
    with pytest.raises(SpecError):
        Completed(curve=())
