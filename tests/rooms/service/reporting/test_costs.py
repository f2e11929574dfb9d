"""What trials cost, in the table of results, the files and the sentence about the whole study."""

import pytest

from search_spaces.study import Ablation, Study
from service.reporting.page import page
from service.reporting.provenance import MIXED
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import EPOCHS, ByHand, base
from trainables.recipe.outcome import Measurement

ARMS = {"one": {"encoding.gamma": 1.0}, "two": {"encoding.gamma": 2.0}}
EDITION = Study(name="costs", question="Which?", base=base(), plan=Ablation(ARMS, "one"), seeds=2).at()


class Measured(ByHand):
    """Epochs with images a second."""

    def curve(self, trial, seed, final, epochs=EPOCHS):
        extra = {"train/images_per_s": 100.0 if seed % 2 else 300.0}
        found = super().curve(trial, seed, final, epochs)
        return [Measurement(epoch=one.epoch, values=one.values | extra) for one in found]


def run(root, workers: int = 0) -> Result:
    with Measured(root, EDITION) as hand:
        for trial, seed in hand.runs(ARMS, 2):
            hand.complete(trial, seed, 0.9, 0.9, workers=workers)
    return Result.open(Home(root), EDITION.id)


def cells(result: Result) -> dict[str, list[str]]:
    return {column.full_head: list(column.cells) for column in measured(result).columns}


def test_speed_stands_under_the_time(tmp_path):
    result = run(tmp_path)
    found = cells(result)
    assert found["cost, images/s"] == ["200", "200"]
    assert "cost, device-seconds" not in found
    column = next(one for one in measured(result).columns if one.head == "images/s")
    assert column.under, "the page is no wider"
    assert MIXED not in measured(result).note
    row = result.of("trial")[0].runs[0]
    assert (row.images_per_s, row.device_s) == (pytest.approx(300.0), 12.0)


def test_every_worker_is_a_device(tmp_path):
    result = run(tmp_path, workers=3)
    assert cells(result)["cost, device-seconds"] == ["36", "36"]
    assert result.trials().device_s.tolist() == [72.0, 72.0]
    assert result.trials().time_s.tolist() == [24.0, 24.0]
    assert "4 runs trained here, 48 s of training, summed over runs, 2 min 24 s of devices" in page(result, {}).effort


class Together(Measured):
    """Runs that trained as one: four of them, and two from the fifth epoch on."""

    def curve(self, trial, seed, final, epochs=EPOCHS):
        alone = super().curve(trial, seed, final, epochs)
        return [
            Measurement(epoch=one.epoch, values=one.values | {"time/runs": 4 - 2 * (one.epoch > 4)}) for one in alone
        ]


def test_a_run_of_a_pack_costs_its_part(tmp_path):
    with Together(tmp_path, EDITION) as hand:
        first, *others = hand.runs(ARMS, 2)
        hand.stop(*first, 0.9, 6, 0.95)
        for trial, seed in others:
            hand.complete(trial, seed, 0.9, 0.9, fused=4)
    result = Result.open(Home(tmp_path), EDITION.id)
    stopped, done = result.of("trial")[0].runs.values()
    assert stopped.seconds == pytest.approx(4 * 1.5 / 4 + 2 * 1.5 / 2), "also one that has no answer"
    assert done.seconds == done.device_s == pytest.approx(4 * 1.5 / 4 + 4 * 1.5 / 2)
    assert done.images_per_s == pytest.approx(8 / (4 / 400 + 4 / 200)), "the images of all of them"
    assert result.trials().device_s.sum() == pytest.approx(3 * done.seconds + stopped.seconds)


def test_a_run_by_itself_beside_those_of_a_pack_is_said(tmp_path):
    with Together(tmp_path, EDITION) as hand:
        for number, (trial, seed) in enumerate(hand.runs(ARMS, 2)):
            hand.complete(trial, seed, 0.9, 0.9, fused=1 + number)
    assert MIXED in measured(Result.open(Home(tmp_path), EDITION.id)).note
