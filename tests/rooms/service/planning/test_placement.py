"""Concurrent runs, threads, devices: what fits, and what is refused."""

import pytest

from service.planning.placement import (
    SHARED_GIB,
    Machine,
    Node,
    Placement,
    fused_gib,
    gpu_advice,
    loader_gib,
    one_of_fused_gib,
    place,
    runs_by_cores,
    runs_by_memory,
)
from trainables.data.streamed_torch import SHARED_BYTES
from trainables.recipe import Recipe
from trainables.recipe.cost import PROCESS_BYTES
from trainables.spec import SpecError


def test_as_many_runs_as_fit() -> None:
    for machine, options, max_concurrent, device in [
        (Machine(cores=2), {}, 2, "cpu"),
        (Machine(cores=7), {"threads": 2}, 3, "cpu"),
        (Machine(cores=8), {"max_concurrent": 3, "threads": 2}, 3, "cpu"),
        (Machine(cores=8), {"threads": 2, "workers": 2}, 2, "cpu"),
        (Machine(cores=16, gpus=4), {}, 4, "cuda"),
        (Machine(cores=16, gpus=4), {"workers": 2}, 2, "cuda"),
        (Machine(cores=8), {"threads": 4, "workers": 2}, 1, "cpu"),
        (Machine(cores=8), {"threads": 2, "max_concurrent": 4}, 4, "cpu"),
        (Machine(cores=3, gpus=8), {}, 3, "cuda"),
    ]:
        placement = place(machine, **options)
        assert (placement.max_concurrent, placement.device) == (max_concurrent, device)
        assert placement.max_concurrent * placement.threads * max(placement.workers, 1) <= machine.cores


BIG, SMALL = Node(cores=64, gib=20.0), Node(cores=8, gib=3.0)
HEAD = Machine(cores=0, nodes=(Node(cores=0, gib=4.0),), grows=True)
GPU = Machine(cores=16, gpus=1, gpu_gib=80.0)


@pytest.mark.parametrize(
    ("machine", "options", "words"),
    [
        (Machine(cores=2), {"max_concurrent": 3}, "max-concurrent must be at most 2 with 2 cores and 1 a run, got 3"),
        (
            Machine(cores=64, nodes=(BIG,)),
            {"max_concurrent": 30, "run_gib": 0.8},
            "max-concurrent must be at most 25 with 20.0 GiB of memory and 0.8 GiB a run, got 30",
        ),
        (Machine(cores=2), {"threads": 3}, "a run of 1 x 3 threads must fit 2 cores, got 3"),
        (Machine(cores=1), {"workers": 2}, "a run of 2 x 1 threads must fit 1 core, got 2"),
        (HEAD, {}, "a run of 1 x 1 threads must fit 0 cores, got 1"),
        (Machine(cores=8, gpus=1), {"workers": 2}, "workers must be at most 1, one a GPU, got 2"),
        (Machine(cores=8), {"max_concurrent": 0}, "max-concurrent must be 1 or more, got 0"),
        (Machine(cores=8), {"threads": 0}, "threads must be 1 or more, got 0"),
        (Machine(cores=8), {"runs_per_gpu": 2}, "runs-per-gpu must be 1 where there is no GPU, got 2"),
        (Machine(cores=8, gpus=2), {"runs_per_gpu": 2, "workers": 2}, "runs-per-gpu must be 1 with workers, got 2"),
        (
            Machine(cores=8, gpus=2),
            {"runs_per_gpu": 2, "max_concurrent": 5},
            "max-concurrent must be at most 4 with 8 cores and 1 a run, got 5",
        ),
        (GPU, {"fuse": 0}, "fuse must be 1 or more, got 0"),
        (GPU, {"fuse": 2, "workers": 1}, "fuse must be 1 with workers, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(machine, options, words) -> None:
    with pytest.raises(SpecError) as caught:
        place(machine, **options)
    assert str(caught.value) == words


def test_memory_is_never_exceeded() -> None:
    for nodes, run_gib, options, runs, by_memory in [
        ((BIG,), 0.8, {}, 25, True),
        ((BIG,), 0.2, {}, 64, False),
        ((BIG,), 30.0, {}, 1, True),  # the prediction may be too high
        ((BIG, SMALL), 0.8, {}, 25 + 3, True),
        ((BIG, SMALL), 0.8, {"threads": 16}, 4, False),  # the small node has too few cores
        ((BIG, SMALL), 0.8, {"workers": 4}, 7, True),
        ((BIG, Node(cores=0, gib=100.0)), 0.8, {}, 25, True),  # a head without cores adds nothing
        ((BIG,), 0.8, {"max_concurrent": 5}, 5, False),
    ]:
        found = place(Machine(cores=sum(node.cores for node in nodes), nodes=nodes), run_gib=run_gib, **options)
        assert (found.max_concurrent, found.by_memory) == (runs, by_memory)
        assert found.run_gib == min(run_gib, 20.0) or found.run_gib == run_gib
        assert ("(by memory)" in str(found)) == by_memory


def test_loader_workers_count_with_the_memory_of_a_run() -> None:
    for loaders, runs in [(0, 20), (1, 11), (2, 8), (8, 3)]:
        found = place(Machine(cores=64, nodes=(BIG,)), run_gib=1.0, loader_workers=loaders)
        assert (found.max_concurrent, found.by_memory) == (runs, True)
        assert found.run_gib == 1.0 + loader_gib(loaders)
        assert found.max_concurrent * found.run_gib <= BIG.gib
    assert place(Machine(cores=64, nodes=(BIG,)), loader_workers=2).run_gib is None


def test_a_gpu_gets_as_many_loader_workers_as_cores_and_memory_are_left() -> None:
    for gib, options, loaders in [
        (200.0, {}, 15),
        (8.0, {}, 9),
        (8.0, {"threads": 8}, 8),
        (3.0, {}, 1),  # more would not help, none would leave the GPU waiting
        (32.0, {"runs_per_gpu": 2}, 7),
        (8.0, {"runs_per_gpu": 2}, 1),
        (8.0, {"loader_workers": 12}, 12),
    ]:
        found = place(Machine(cores=16, gpus=1, nodes=(Node(cores=16, gib=gib),)), **options)
        assert found.loader_workers == loaders, (gib, options)
    assert place(Machine(cores=16, gpus=1)).loader_workers == 15
    assert loader_gib(15) == 15 * loader_gib(1) - 14 * SHARED_GIB
    assert SHARED_GIB * 2**30 == SHARED_BYTES


def test_runs_may_wait_for_machines_that_join_a_cluster() -> None:
    """A head without cores, and workers that the cluster starts where something waits."""
    found = place(HEAD, max_concurrent=12, run_gib=0.8)
    assert (found.max_concurrent, found.fits) == (12, 0)
    assert str(found) == "12 concurrent runs (0 fit now), 1 thread each, cpu"
    assert "fit now" not in str(place(Machine(cores=8, grows=True), max_concurrent=5))


def test_a_run_never_asks_for_more_memory_than_a_node_with_cores_has() -> None:
    """Ray would wait for ever: here the head alone has so much, and it has no cores."""
    nodes = (Node(cores=0, gib=100.0), Node(cores=4, gib=3.5))
    assert place(Machine(cores=4, nodes=nodes), run_gib=6.0).run_gib == 3.5
    assert place(Machine(cores=4, nodes=nodes), run_gib=6.0, threads=4).run_gib == 3.5
    assert place(Machine(cores=0, nodes=nodes[:1], grows=True), run_gib=6.0, max_concurrent=2).run_gib is None


def test_memory_decides_how_many_runs_fit() -> None:
    assert runs_by_memory(80.0, 9.5) == 6
    assert runs_by_memory(8.0, 40.0) == 1
    assert [runs_by_cores(Machine(cores=cores, gpus=4), 2) for cores in (3, 16, 31)] == [1, 2, 3]


def test_a_placement_reads_as_words() -> None:
    assert str(place(Machine(cores=2))) == "2 concurrent runs, 1 thread each, cpu"
    two = place(Machine(cores=8, gpus=2), runs_per_gpu=2)
    each = "1 loader worker each where images are streamed (up to 0.8 GiB)"
    assert str(two) == f"4 concurrent runs, 1 thread each, cuda (2 runs a GPU), {each}"
    assert str(place(Machine(cores=8), threads=2, workers=2, max_concurrent=1)) == (
        "1 concurrent run, 2 threads each, 2 workers a run, cpu"
    )


def test_runs_that_are_trained_as_one_share_a_process_and_have_the_memory_of_all():
    assert place(GPU, fuse=50).max_concurrent == 50
    assert place(GPU, fuse=50, runs_per_gpu=3).max_concurrent == 150
    assert place(GPU, fuse=50, max_concurrent=20).max_concurrent == 20
    assert "50 as one model, compiled" in str(place(GPU, fuse=50).model_copy(update={"compile": True}))
    process = PROCESS_BYTES / 2**30
    assert fused_gib(process + 0.5, 1) == process + 0.5
    assert fused_gib(process + 0.5, 4) == pytest.approx(process + 2.0)
    assert one_of_fused_gib(process + 2.0, 4) == pytest.approx(process + 0.5), "and back"
    assert one_of_fused_gib(process + 0.5, 1) == process + 0.5
    here = Machine(cores=2, nodes=(Node(cores=2, gib=8.0),))
    assert place(here, fuse=4, run_gib=1.0).run_gib == pytest.approx(fused_gib(1.0, 4))


@pytest.mark.parametrize(
    ("placement", "values", "said"),
    [
        ({"device": "cuda"}, {}, True),
        ({"device": "cuda", "fuse": 50}, {}, False),
        ({"device": "cuda", "workers": 1}, {}, False),
        ({"device": "cpu"}, {}, False),
        ({"device": "cuda"}, {"model.embed_dim": 768, "model.depth": 12}, False),
        ({"device": "cuda"}, {"optimizer.ema_decay": 0.9}, False),
    ],
    ids=["small", "asked for", "groups", "cpu", "large", "not computed together"],
)
def test_the_plan_says_where_fusing_pays(placement, values, said):
    advice = gpu_advice(Recipe().put(values), Placement(max_concurrent=1, **placement))
    assert any("--fuse 50" in line for line in advice) == said
