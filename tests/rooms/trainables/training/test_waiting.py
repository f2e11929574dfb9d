"""A training step never waits for the device: it reads no value from there, and copies nothing to it but pinned memory.

Steps are taken on torch's device `meta`, whose tensors have no values: what would read one raises there, and a copy
from the CPU is seen as the operation `_to_copy`.
"""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.laws.conftest import EXAMPLES
from tests.rooms.trainables.training.small_runs import LOCALISED, small
from trainables.data.augment import DeiT, Standard
from trainables.data.augment_torch import Augmentation
from trainables.data.splits_torch import Reading
from trainables.training.distributed import SINGLE, DataParallel
from trainables.training.loop import Training

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
