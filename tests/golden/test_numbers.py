"""The numbers of every kind are those of its revision, and the file of golden numbers is of today's revisions."""

import pytest

from tests.golden import numbers

UNMOVED = {
    "data.red_green, test_size 8", "data.red_green, val_size 8", "data.arrays, balanced True",
    "data.arrays, test_size 2", "data.arrays, val_size 2", "optimizer.adamw, accumulate 2",
    "optimizer.lamb, accumulate 2", "optimizer.muon, accumulate 2", "optimizer.sgd, accumulate 2",
    "loss.bce, target_threshold 0.5", "encoding.injection.extend, blocks 2", "encoding.injection.parts, blocks 2",
}  # fmt: skip
"""What other values of fields leave as it is in so small a training."""


@pytest.mark.parametrize("group", numbers.GROUPS)
def test_no_number_moved_without_a_revision_and_each_field_moves_some(group: str) -> None:
    today = dict(numbers.computed(group))
    then = {case: kept for case, kept in numbers.recorded().items() if case.partition(".")[0] == group}
    assert then.keys() == today.keys(), "python -m tests.golden.numbers --record"
    assert {case: why for case, now in today.items() if (why := numbers.moved(case, then[case], now))} == {}
    plain = {case: today.get(case.partition(",")[0], {}).get("numbers") for case in today if "," in case}
    unmoved = {
        case
        for case, of_kind in plain.items()
        if of_kind is not None and of_kind == pytest.approx(today[case]["numbers"], rel=1e-12, abs=0)
    }
    assert unmoved == {case for case in UNMOVED if case in today}


def test_a_moved_number_is_seen_and_a_raised_revision_asks_for_new_ones() -> None:
    then = {"revisions": {}, "numbers": [0.5, 2.0], "defaults": {"gamma": 2.5}}

    def wrong(case: str = "encoding.fourier", **now: object) -> str:
        return numbers.moved(case, then, then | now)

    assert wrong(numbers=[0.5, 2.0 + 1e-7]) == ""
    assert "raise REVISION" in wrong(numbers=[0.5, 2.0 + 1e-5])
    assert "raise REVISION" in wrong(numbers=[0.5])
    assert wrong("optimizer.muon, lr 0.02", numbers=[0.5, 2.01]) == ""
    assert "raise REVISION" in wrong("optimizer.muon, lr 0.02", numbers=[0.5, 2.03])
    assert "record" in wrong(revisions={"Fourier": 2})
    assert "another default of gamma" in wrong(defaults={"gamma": 3.0})
    assert "record" in wrong(defaults={"gamma": 2.5, "hidden": 7})
    hidden = wrong(defaults={"gamma": 2.5, "hidden": 7}, numbers=[0.5, 3.0])
    assert "raise REVISION" in hidden, "a new field hides no moved number"
