"""Successive halving: against a loop of our own, at its edge, and with seeds that differ; what it saves."""

import pytest

from service.execution.driver import EarlyStops
from service.planning.stopping import EarlyStopper, Saved, rungs, saved_images
from service.storage.facts import Counts, StoppedAt
from tests.rooms.service.planning.situations import BASE, Situation, arms, search
from trainables.recipe import Run
from trainables.recipe.outcome import Measurement


def test_rungs_stand_at_thirds_of_the_epochs_and_never_at_the_last() -> None:
    assert [list(rungs(epochs)) for epochs in (1, 2, 3, 4, 9, 10, 30)] == [
        [], [1], [1, 2], [2], [3, 6], [4, 8], [10, 20],
    ]  # fmt: skip


@pytest.mark.parametrize(("epochs", "factor"), [(9, 3), (10, 2), (7, 4), (30, 2), (1, 3), (2, 3), (4, 3)])
def test_halving_keeps_the_best_share_at_each_rung(epochs: int, factor: int) -> None:
    """At each rung continue the best 1/factor of those that came, and those that the gain of a seed of the best five
    that ended would bring among these."""
    study = search().study
    plan = study.plan.model_copy(update={"stop": study.plan.stop.model_copy(update={"factor": factor})})
    edition = study.model_copy(update={"plan": plan}).at(set={"optimizer.epochs": epochs})
    stopper, heard = EarlyStopper(edition, seeds=2), {}
    ends = list[tuple[float, dict[int, float]]]()  # the mean of a point's seeds, and the lower one at each epoch
    first, stopped_at = -(-epochs // 3), set()
    for number, level in enumerate(0.6 + ((7 * number + 3) % 17) / 60 for number in range(17)):
        curve = {epoch: level + (epoch * (number % 3)) / 1000 for epoch in range(1, epochs + 1)}
        for epoch, value in curve.items():
            cutoff, expected = stopper.report(number, epoch, value), None
            if epoch in (first, 2 * first) and epoch != epochs:
                rung = heard.setdefault(epoch, [])
                rung.append(value)
                if len(ends) >= 5:
                    best = sorted(ends, key=lambda end: end[0], reverse=True)[:5]
                    halved = sorted(rung, reverse=True)[max(len(rung) // factor, 1) - 1]
                    least = min(halved, best[4][0] - max(mean - lowest[epoch] for mean, lowest in best))
                    expected = pytest.approx(least) if value < least else None
            assert cutoff == expected
            assert cutoff is None or stopper.report(number, epoch, value) is None, "a measurement counts once"
            if cutoff is not None:
                stopped_at.add(epoch)
                break
        else:
            lower = {epoch: value - 0.01 * (number % 2) for epoch, value in curve.items()}
            for epoch, value in lower.items():
                assert stopper.report(number, epoch, value, seed=1) is None
            ends.append(((curve[epochs] + lower[epochs]) / 2, lower))
    assert stopped_at <= {rung for rung in (first, 2 * first) if rung < epochs}
    assert stopped_at or epochs < 7


@pytest.mark.parametrize(("value", "cutoff"), [(0.625, None), (0.5625, 0.625)])
def test_a_value_at_the_cutoff_goes_on_and_one_below_it_is_stopped(value, cutoff) -> None:
    """Five trials gain 0.25 after the rung at epoch 2 of 4 and end at 0.875, as one with 0.625 there may."""
    stopper = EarlyStopper(search(), seeds=1)
    for number in range(5):
        assert stopper.report(number, 2, 0.625) is stopper.report(number, 4, 0.875) is None
    assert stopper.report(5, 2, value) == cutoff


@pytest.mark.parametrize(("lowest", "cutoff"), [(0.6, pytest.approx(0.6)), (0.5, None)])
def test_a_rung_stops_none_where_a_seed_of_the_best_began_to_learn_later(lowest, cutoff) -> None:
    """Chance is 0.5. The five best have two seeds, of which one was at the rung at 0.5, or at 0.6."""
    stopper = EarlyStopper(search(), seeds=2)
    for number in range(5):
        for seed, value in enumerate((0.9, lowest if number == 2 else 0.9)):
            assert stopper.report(number, 2, value, seed) is stopper.report(number, 4, 0.9, seed) is None
    assert stopper.report(5, 2, 0.55) == cutoff


def test_points_end_with_all_their_seeds() -> None:
    stopper = EarlyStopper(search(), seeds=2)
    for seed in range(2):
        for number in range(5):
            assert stopper.report(number, 2, 0.9, seed) is stopper.report(number, 4, 0.9, seed) is None
            assert stopper.report(6 + 5 * seed + number, 2, 0.55) == (0.9 if seed and number == 4 else None)


@pytest.mark.parametrize(("second", "cutoff"), [(0.9, 0.85), (0.6, pytest.approx(0.6)), (0.5, None)])
def test_what_each_seed_had_at_a_rung_counts_while_points_get_further_seeds(second, cutoff) -> None:
    """All end at 0.9. The lowest seed at the rung was there at 0.85, lower, or had not begun to learn."""
    now = Situation(search(trials=8, seeds=3))
    trials = [now.plan(1.0 + number) for number in range(7)]
    now.add(Counts(seeds=4, trials=8))
    early = EarlyStops(now.edition, now.history)  # of the driver that adds the seeds

    def measured(run: Run, epoch: int, value: float) -> float | None:
        return early.cutoff(run.key, now.history.code(run), Measurement(epoch=epoch, values={"val/accuracy": value}))

    for trial in trials[:6]:
        for run, value in zip(trial.runs(3), (0.9, second, 0.85), strict=True):
            assert measured(run, 2, value) is measured(run, 4, 0.9) is None
    assert measured(trials[6].run(0), 2, 0.55) == cutoff


def test_saved_are_the_images_of_each_point_with_all_epochs_and_seeds_less_those_that_it_saw() -> None:
    now = Situation(search(trials=9, seeds=3, rival=True))
    images = BASE.data.image_counts.train
    for run in now.plan(1.0).runs(3):
        now.end(run)
    assert str(saved_images(now.history)) == ""
    now.stop(now.plan(2.0).runs(3)[0], epoch=2)
    raced = now.plan(3.0).runs(3)
    now.end(raced[0])
    now.add(StoppedAt(run=raced[1].key, code=now.history.code(raced[1]), epoch=0, cutoff=0.9))
    now.stop(now.plan(4.0, "rival").runs(2000)[0], epoch=1)
    found = saved_images(now.history)
    assert found == Saved(2, (10 + 11) * images, 1, 8 * images, (12 + 2 + 4 + 1) * images)
    assert str(found) == (
        f"Early stopping saved {21 * images:,} training images at rungs (2 points) and {8 * images:,} by the race over "
        f"seeds (1 point); {19 * images:,} were trained."
    )
    assert str(saved_images(Situation(arms()).history)) == ""
