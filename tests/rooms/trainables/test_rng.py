"""Streams: the same name the same numbers, another name others, and nobody else's numbers moved."""

import numpy as np
import torch

from trainables.rng_torch import numpy_stream, torch_stream


def test_a_name_gives_its_numbers_again():
    assert torch.equal(
        torch.rand(5, generator=torch_stream(3, "a", 1)), torch.rand(5, generator=torch_stream(3, "a", 1))
    )
    assert np.array_equal(numpy_stream(3, "a", 1).random(5), numpy_stream(3, "a", 1).random(5))


def test_every_part_of_the_name_counts():
    names = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "a"), (0, "a1"), (10, "a", 1)]
    assert len({float(torch.rand(1, generator=torch_stream(*name))) for name in names}) == len(names)
    assert len({numpy_stream(*name).random() for name in names}) == len(names)


def test_the_global_generators_stay():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    torch.rand(3, generator=torch_stream(0, "a"))
    numpy_stream(0, "a").random(3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


def test_numbers_are_pinned():
    assert torch.randperm(8, generator=torch_stream(0, "order", 1)).tolist() == [2, 1, 6, 3, 5, 7, 4, 0]
    assert numpy_stream(0, "red_green", "train").integers(0, 100, 4).tolist() == [82, 69, 10, 25]
