"""A step never waits for the device; gradient checkpointing takes less memory and gives the numbers without it."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.laws.conftest import EXAMPLES
from tests.rooms.trainables.backbones.test_specs import BACKBONES, OTHERS
from tests.rooms.trainables.training.small_runs import LOCALISED, SMALL, folder, numbers, small
from trainables.backbones import VOLO
from trainables.data.augment import DeiT, Standard
from trainables.data.augment_torch import Augmentation
from trainables.data.splits_torch import Reading
from trainables.encodings import PEG, Composed, Learnable, Rotary
from trainables.recipe import Recipe
from trainables.recipe.cost import PROCESS_BYTES, check_placement, estimate_cost
from trainables.recipe.model_torch import build_model
from trainables.recipe.optimizer import normalizes_batches
from trainables.spec import SpecError
from trainables.training.distributed import SINGLE, DataParallel
from trainables.training.init import init_weights
from trainables.training.loop import Training, train
from trainables.training.optional.checkpointing import checkpointed

READS = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique")


class Waits(TorchDispatchMode):
    """Collects the operations for which a host waits for a GPU."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, given=(), named=None):
        name, named = function._schema.name.removeprefix("aten::"), named or {}
        out = function(*given, **named)
        devices = [value.device for value in given if isinstance(value, torch.Tensor) and value.ndim]
        if name.startswith(READS) and any(device.type == "meta" for device in devices):
            self.found.append(name)
        if name == "lift_fresh" and out.device.type == "meta":  # numbers of Python that become a tensor there
            self.found.append(name)
        if isinstance(out, torch.Tensor) and any(device != out.device for device in devices):
            self.found += [] if named.get("non_blocking") else [f"{name} to {out.device}"]
        return out


def waits(run, team=SINGLE):
    """What a step of a run waits for, its images included."""
    training = Training(run, "cpu", {}, team, Reading())
    device = torch.device("meta")
    training.objective.to(device)
    if training.ema is not None:
        training.ema.to(device)
    training.autocast = nullcontext()
    training.splits = training.splits.to(device)
    training.optimizer.step = lambda: None  # fused AdamW is for real devices
    chosen = torch.arange(16, device=device)
    with Waits() as found:
        ((images, targets),) = training.splits.train.batches([team.share(chosen)], training.dtype, 1)
        training._step(chosen, images, targets, 0)
    return found.found


def test_waiting_is_seen():
    with Waits() as found:
        values = torch.zeros(3, device="meta")
        torch.zeros(3).to("meta")
        torch.zeros(3).to("meta", non_blocking=True)
        with pytest.raises(RuntimeError):
            float(values.sum())
        with pytest.raises((RuntimeError, NotImplementedError)):
            values[values > 0]
        values.new_tensor([1.0, 2.0])
    assert found.found == ["_to_copy to meta", "lift_fresh"]


def test_no_encoding_makes_a_step_wait(subtests):
    for spec in [some[0] for some in EXAMPLES.values()]:
        with subtests.test(str(spec)):
            assert waits(small(encoding=spec, model__depth=2, model__embed_dim=16)) == []


@pytest.mark.parametrize(
    "values",
    [
        {**LOCALISED, "model__depth": 3, "model__drop_path": 0.5, "optimizer__accumulate": 3},
        {"optimizer__ema_decay": 0.9, "optimizer__layer_decay": 0.9},
        {"optimizer__clip_grad": 1.0, "optimizer__precision": "float64"},
    ],
    ids=["drloc, drop path, parts", "average, layer decay", "clip"],
)
def test_nothing_in_a_step_waits(values):
    assert waits(small(**values)) == []


def test_augmenting_a_batch_does_not_wait(subtests):
    for spec in [Standard(border=2), DeiT(), DeiT(mixup=0, cutmix=0)]:
        for count in [6, 7]:
            with subtests.test(f"{spec}, {count}"):
                device = torch.device("meta")
                made = Augmentation(spec, 0, 50, 4)
                made._table(1, device)  # once an epoch
                images, labels = (
                    torch.zeros(count, 3, 8, 8, device=device),
                    torch.zeros(count, dtype=torch.int64, device=device),
                )
                with Waits() as found:
                    made.batch(images, labels, torch.arange(count, device=device), 1, 0)
                assert found.found == []


def test_a_share_of_a_batch_does_not_wait():
    team = DataParallel(rank=1, world_size=3)
    rows = torch.arange(16, device="meta")
    with Waits() as found:
        assert team.share(rows).shape == (6,)
    assert found.found == []


def test_shares_are_mirrored_and_in_order(subtests):
    """The first and the last row are of one worker, the second and the last but one of the next, and so on."""
    for world_size in [2, 3, 5]:
        for count in [1, 2, 3, 7, 8, 16, 17]:
            with subtests.test(f"{world_size}, {count}"):
                teams = [DataParallel(rank, world_size) for rank in range(world_size)]
                shares = [team.share(torch.arange(count)).tolist() for team in teams if not team.idle(count)]
                assert sorted(place for share in shares for place in share) == [*range(count)]
                for rank, share in enumerate(shares):
                    assert share == [
                        place for place in range(count) if min(place, count - 1 - place) % world_size == rank
                    ]


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


def bytes_kept(model, images):
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
    plain, again = (
        bytes_kept(change(build_model(recipe)).train(), images) for change in (lambda model: model, checkpointed)
    )
    tokens = 8 * 64 * 32 * 4
    weights = 4 * estimate_cost(recipe).parameters
    assert plain > 6 * 16 * tokens
    assert again < weights + (6 + 5) * tokens
    assert bytes_kept(checkpointed(build_model(recipe)).eval(), images) == plain


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
