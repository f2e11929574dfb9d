"""The machine that runs may use: counted as CUDA counts it, and refused where a device is asked for in vain."""

import pytest
import torch

from service.execution.machine import gpu_gib, gpus, machine, placement, visible_gpus
from service.planning.placement import Machine, Node
from service.planning.run_options import RunOptions
from trainables.spec import SpecError


def test_gpus_are_counted_as_cuda_counts_them() -> None:
    for names, count in [
        (None, 2),
        ("", 0),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("0", 1),
        ("1, 0", 2),
        ("0,-1,1", 1),
        ("7", 0),
        ("1,7,0", 1),
        ("GPU-8932f937,MIG-a/1/0", 2),
    ]:
        assert len(visible_gpus(2, names)) == count


def test_a_placement_is_compiled_where_asked_for():
    compiled = [placement(RunOptions(device="cpu", compile=compile), lambda: 0.1) for compile in (False, True)]
    assert [placement.compile for placement in compiled] == [False, True]
    assert str(compiled[1]) == f"{compiled[0]}, compiled"


def test_without_a_gpu_none_is_visible():
    assert [visible_gpus(0, names) for names in (None, "", "0", "GPU-8932f937")] == [[], [], [], []]
    assert visible_gpus(3, "2, GPU-8932f937") == ["2", "GPU-8932f937"]


def test_this_machine_has_what_torch_finds():
    assert gpus() == torch.cuda.device_count()
    assert (gpu_gib() is None) == (gpus() == 0)


def test_a_device_is_chosen_or_refused(monkeypatch):
    monkeypatch.setattr("service.execution.machine.gpus", lambda: 2)
    assert [machine(RunOptions(device=device)).gpus for device in ("auto", "cpu", "cuda")] == [2, 0, 2]
    monkeypatch.setattr("service.execution.machine.gpus", lambda: 0)
    assert machine(RunOptions()).gpus == 0
    with pytest.raises(SpecError, match=r"^device must be auto or cpu where there is no GPU, got 'cuda'$"):
        machine(RunOptions(device="cuda"))


def test_gpus_of_a_cluster_may_have_yet_to_join(monkeypatch):
    """Workers that are started when a study asks for them: none is there when it is planned."""
    head = Machine(cores=0, nodes=(Node(cores=0, gib=4.0),), grows=True)
    monkeypatch.setattr("service.execution.ray_session.machine", lambda *_: head)

    def asked(**options):
        found = placement(RunOptions(address="auto", device="cuda", **options), lambda: 1.0)
        return found.device, found.max_concurrent, found.fits

    assert asked(max_concurrent=6) == asked(max_concurrent=6, runs_per_gpu=2) == ("cuda", 6, 0)
    assert asked(max_concurrent=3, workers=4) == ("cuda", 3, 0)
    assert asked(max_concurrent=80, fuse=40) == ("cuda", 80, 0)
    with pytest.raises(SpecError, match=r"^max-concurrent must be a number where the nodes with GPUs have yet to join"):
        asked()


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr("service.execution.machine.gpus", lambda: 4)
    monkeypatch.setattr("service.execution.machine.cores", lambda: 32)
    monkeypatch.setattr("service.execution.machine.usable_gib", lambda: 400.0)
    monkeypatch.setattr("service.execution.machine.gpu_gib", lambda: 80.0)


def shared(run_gib=1.0, **options):
    found = placement(RunOptions(**options), lambda: run_gib)
    return found.runs_per_gpu, found.max_concurrent, found.loader_workers


def test_runs_share_a_gpu_where_asked_for(four_gpus):
    assert shared() == (1, 4, 7)
    assert shared(runs_per_gpu=3) == (3, 12, 1)
    assert shared(runs_per_gpu=3, max_concurrent=5) == (3, 5, 5)
    assert shared(runs_per_gpu=20) == (20, 32, 0), "as many as there are cores"


def test_auto_is_as_many_as_memory_and_cores_allow(four_gpus) -> None:
    for run_gib, options, runs in [
        (9.5, {}, 6),  # 64 of 80 GiB, 10 each with CUDA's own
        (1.0, {}, 8),  # a core each
        (1.0, {"threads": 4}, 2),
        (200.0, {}, 1),
        (1.0, {"workers": 2}, 1),
        (1.0, {"device": "cpu"}, 1),
    ]:
        assert shared(run_gib, runs_per_gpu="auto", **options)[0] == runs


def test_auto_needs_to_know_the_memory(four_gpus, monkeypatch):
    monkeypatch.setattr("service.execution.machine.gpu_gib", lambda: None)
    with pytest.raises(SpecError, match=r"^runs-per-gpu must be a number where the memory .* unknown, .*, got 'auto'$"):
        shared(runs_per_gpu="auto")


def test_a_number_is_positive():
    for wrong in (0, -1, "3", "many"):
        with pytest.raises(SpecError, match="runs_per_gpu"):
            RunOptions(runs_per_gpu=wrong)


def test_what_is_trained_as_one_is_not_compiled():
    with pytest.raises(SpecError, match=r"^fuse must be 1 with --grad-checkpointing, got 4$"):
        placement(RunOptions(fuse=4, grad_checkpointing=True), lambda: 1.0)
    with pytest.raises(SpecError, match=r"^grad-checkpointing must be left out with --compile"):
        placement(RunOptions(compile=True, grad_checkpointing=True), lambda: 1.0)
    with pytest.raises(SpecError, match=r"^fuse must be 1 with --compile, got 4$"):
        placement(RunOptions(fuse=4, compile=True), lambda: 1.0)
