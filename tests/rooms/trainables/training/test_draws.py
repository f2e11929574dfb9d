"""Random numbers of encodings: those of the run, also where it goes on, or computes its batches in parts."""

import torch
from timm.models.vision_transformer import VisionTransformer

from tests.rooms.trainables.training.small_runs import folder, numbers, small, whole_if_it_goes_on
from trainables.encodings import Rotary
from trainables.training.attach import attach
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.loop import train

JITTER = {"encoding": Rotary(normalize_coords="separate", jitter_coords=3.0), "optimizer__epochs": 2}


def test_a_closed_run_goes_on_bit_for_bit_and_moves_as_no_other(tmp_path):
    whole = whole_if_it_goes_on(small(**JITTER), tmp_path)
    still = small(**JITTER | {"encoding": Rotary(normalize_coords="separate")})
    assert numbers(train(still, folder(tmp_path, "still"))) != numbers(whole)


def test_parts_of_a_batch_move_as_the_batch_does(tmp_path):
    weights = []
    for parts in (1, 3):
        run = small(**JITTER, optimizer__precision="float64", optimizer__accumulate=parts)
        list(train(run, folder(tmp_path, str(parts))))
        weights.append(read(tmp_path / str(parts) / WEIGHTS))
    for name, value in weights[0].items():
        assert torch.allclose(weights[1][name], value, rtol=0, atol=1e-10), name


def test_a_loop_of_ones_own_draws_before_each_step():
    torch.manual_seed(0)
    model = VisionTransformer((12, 20), 4, 3, embed_dim=16, depth=2, num_heads=2, num_classes=3)
    attached = attach(model, JITTER["encoding"]).train()
    images, outputs = torch.randn(2, 3, 12, 20), []
    for step in (0, 1, 0):
        attached.draw(5, step)
        outputs.append(attached(images))
    assert torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], outputs[1])
