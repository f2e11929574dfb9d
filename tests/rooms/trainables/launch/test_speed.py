"""Speeds of a machine, on this one: a tiny model, and photographs that this process and another decode."""

import pytest

from trainables.backbones import ViT
from trainables.launch.speed import decoding_speed, training_speed


def test_a_training_has_a_speed_and_fills_memory():
    speed, gib = training_speed("cpu", ViT(embed_dim=8, depth=1, num_heads=2), side=16, batch=4)
    assert speed > 0
    assert gib > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_photographs_are_decoded_at_a_speed(workers):
    assert decoding_speed(workers, seconds=0.05, side=16) > 0
