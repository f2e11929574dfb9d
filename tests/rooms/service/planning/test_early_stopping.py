"""Successive halving at its edge: who is as good as the cut-off goes on."""

from service.planning.stopping import EarlyStopper
from tests.rooms.service.planning.situations import search


def test_a_value_at_the_cutoff_goes_on_and_one_below_it_is_stopped() -> None:
    """Five trials gain 0.25 after the rung at epoch 2 of 4 and end at 0.75, as one with 0.5 there may."""
    for value, cutoff in ((0.5, None), (0.4375, 0.5)):
        stopper = EarlyStopper(search())
        for number in range(5):
            assert stopper.report(number, 2, 0.5) is None
            assert stopper.report(number, 4, 0.75) is None
        assert stopper.report(5, 2, value) == cutoff
