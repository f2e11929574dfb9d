"""The machine that runs may use: counted as CUDA counts it, and refused where a device is asked for in vain."""

import pytest
import torch

from service.execution.machine import cores, gpus, machine, placement, visible_gpus
from service.planning.run_options import RunOptions
from trainables.spec import SpecError


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (None, 2), ("", 0), ("-1", 0), ("NoDevFiles", 0), ("0", 1), ("1, 0", 2), ("0,-1,1", 1), ("7", 0), ("1,7,0", 1),
        ("GPU-8932f937,MIG-a/1/0", 2),
    ],
)  # fmt: skip
def test_gpus_are_counted_as_cuda_counts_them(names, count):
    assert visible_gpus(2, names) == count


def test_a_placement_is_compiled_where_asked_for():
    compiled = [placement(RunOptions(device="cpu", compile=compile)) for compile in (False, True)]
    assert [placement.compile for placement in compiled] == [False, True]
    assert str(compiled[1]) == f"{compiled[0]}, compiled"


def test_without_a_gpu_none_is_visible():
    assert [visible_gpus(0, names) for names in (None, "", "0", "GPU-8932f937")] == [0, 0, 0, 0]


def test_this_machine_has_what_torch_finds():
    assert gpus() == torch.cuda.device_count()
    assert cores() >= 1


def test_a_device_is_chosen_or_refused(monkeypatch):
    monkeypatch.setattr("service.execution.machine.gpus", lambda: 2)
    assert [machine(RunOptions(device=device)).gpus for device in ("auto", "cpu", "cuda")] == [2, 0, 2]
    monkeypatch.setattr("service.execution.machine.gpus", lambda: 0)
    assert machine(RunOptions()).gpus == 0
    with pytest.raises(SpecError, match=r"^device must be auto or cpu where there is no GPU, got 'cuda'$"):
        machine(RunOptions(device="cuda"))
