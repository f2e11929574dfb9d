"""What early stopping saved: the images of each point with all epochs and seeds, less those that it saw."""

from service.planning.stopping import Saved, saved_images
from service.storage.facts import StoppedAt
from tests.rooms.service.planning.situations import BASE, Situation, arms, search


def test_each_way_has_the_images_that_its_points_did_not_see() -> None:
    now = Situation(search(trials=9, seeds=3, rival=True))
    images = BASE.data.image_counts.train
    for run in now.plan(1.0).runs(3):
        now.end(run)
    assert str(saved_images(now.history)) == ""
    now.stop(now.plan(2.0).runs(3)[0], epoch=2)
    raced = now.plan(3.0).runs(3)
    now.end(raced[0])
    now.add(StoppedAt(run=raced[1].key, code="c0dec0dec0de", epoch=0, cutoff=0.9))
    now.stop(now.plan(4.0, "rival").runs(2000)[0], epoch=1)
    found = saved_images(now.history)
    assert found == Saved(2, (10 + 11) * images, 1, 8 * images, (12 + 2 + 4 + 1) * images)
    assert str(found) == (
        f"Early stopping saved {21 * images:,} training images at rungs (2 points) and {8 * images:,} by the race over "
        f"seeds (1 point); {19 * images:,} were trained."
    )


def test_an_ablation_saves_nothing() -> None:
    assert str(saved_images(Situation(arms()).history)) == ""
