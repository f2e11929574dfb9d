"""Gradient checkpointing: the numbers of runs without it, to the last bit, from less memory."""

from dataclasses import replace

import pytest
import torch

from tests.laws.conftest import EXAMPLES
from tests.rooms.trainables.backbones.test_specs import BACKBONES, OTHERS
from tests.rooms.trainables.training.small_runs import LOCALISED, SMALL, folder, numbers, small
from trainables.backbones import VOLO
from trainables.encodings import PEG, Composed, Learnable, Rotary
from trainables.recipe import Recipe
from trainables.recipe.cost import PROCESS_BYTES, check_placement, estimate_cost
from trainables.recipe.model_torch import build_model
from trainables.recipe.optimizer import normalizes_batches
from trainables.spec import SpecError
from trainables.training.distributed import SINGLE
from trainables.training.init import init_weights
from trainables.training.loop import train
from trainables.training.optional.checkpointing import checkpointed

OTHER = {
    "drop path, parts": {"model__drop_path": 0.5, "optimizer__accumulate": 3},
    "localization, an average": {**LOCALISED, "optimizer__ema_decay": 0.9},
    "random coordinates": {
        "encoding": Composed(
            parts=(Rotary(jitter_coords=2.0, shift_coords=0.5), Learnable(), Rotary(rescale_coords=1.5))
        ),
        "model__drop_path": 0.5,
        "optimizer__accumulate": 3,
    },
    "half precision": {"optimizer__precision": "bfloat16"},
}


def gradients(recipe, change):
    """The outputs of a few images, and the gradients of all parameters."""
    model = build_model(recipe)
    init_weights(model, 0)
    change(model).train()
    images = torch.rand((3, *recipe.data.size), generator=torch.Generator().manual_seed(0))
    outputs = model(images)
    outputs.square().sum().backward()
    return [outputs.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


def assert_same(**values):
    recipe = small(**values).recipe
    plain, again = gradients(recipe, lambda model: model), gradients(recipe, checkpointed)
    assert len(plain) == len(again) > 3
    for mine, other in zip(again, plain, strict=True):
        assert torch.equal(mine, other)


def test_every_encoding_has_the_same_gradients(subtests):
    for kind, some in EXAMPLES.items():
        for number, encoding in enumerate(some):
            if not normalizes_batches(SMALL.model, encoding, "all"):
                with subtests.test(f"{kind}-{number}"):
                    assert_same(encoding=encoding, model__depth=2, model__embed_dim=16)


def test_every_backbone_has_the_same_gradients(subtests):
    for kind in {*BACKBONES} - {"volo"}:  # whose stem has batch norms
        with subtests.test(kind):
            encoding = "none" if kind == "tnt" else "learnable"
            model = {"kind": kind, **OTHERS.get(kind, {})}
            assert_same(model=model, encoding={"kind": encoding}, data__image_size=32)


@pytest.mark.parametrize("values", OTHER.values(), ids=OTHER)
def test_a_run_has_the_same_numbers(values, tmp_path):
    run = small(**{"optimizer__epochs": 2, "model__depth": 3, **values})
    plain, again = (
        numbers(train(run, folder(tmp_path, name), "cpu", team=replace(SINGLE, wrap=wrap)))
        for name, wrap in (("plain", lambda module: module), ("again", checkpointed))
    )
    assert plain == again


def kept(model, images):
    """The bytes that a forward pass keeps for the gradient, each tensor once."""
    seen = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(images)
    return sum(seen.values())


def test_training_keeps_what_goes_into_each_block_alone():
    """Without it a block keeps at least 16 numbers a channel and token: inputs, norms, projections and MLP."""
    recipe = small(model={"kind": "vit", "embed_dim": 32, "depth": 6, "pool": "gap"}, data__image_size=32).recipe
    images = torch.rand((8, 3, 32, 32))
    plain, again = (kept(change(build_model(recipe)).train(), images) for change in (lambda model: model, checkpointed))
    tokens = 8 * 64 * 32 * 4
    weights = 4 * estimate_cost(recipe).parameters
    assert plain > 6 * 16 * tokens
    assert again < weights + (6 + 5) * tokens
    assert kept(checkpointed(build_model(recipe)).eval(), images) == plain


def test_less_memory_is_predicted():
    recipe = small(model={"kind": "vit", "embed_dim": 32, "depth": 6, "pool": "gap"}).recipe
    whole, again = (estimate_cost(recipe, some).memory_bytes - PROCESS_BYTES for some in (False, True))
    activations = 16 * 4 * recipe.model.saved_activations(recipe.data.size, recipe.encoding.saved_pairs)
    inputs = 16 * 4 * 6 * 16 * 32
    assert whole - again == pytest.approx(activations * 5 / 6 - inputs, rel=0.01)


def test_a_batch_norm_that_learns_is_refused():
    for recipe in (small(encoding=PEG(form="dense_stack")).recipe, Recipe(model=VOLO())):
        with pytest.raises(SpecError, match=r"^grad_checkpointing must be false where a model has batch norms"):
            check_placement(recipe, 0, "cuda", True)
        check_placement(recipe, 0, "cuda", False)
        with pytest.raises(SpecError, match=r"^grad_checkpointing must be false where a batch norm learns, got true$"):
            checkpointed(build_model(recipe))
