"""Room: what a run asks of Ray."""

from service.execution import tune
from service.planning.placement import Placement


def test_a_run_asks_for_its_cores_and_a_groups_asker_for_none():
    alone, _ = tune._resources(Placement(max_concurrent=2, threads=3))
    assert alone.bundles == [{"CPU": 3.0}]
    asker, _ = tune._resources(Placement(max_concurrent=2, threads=3, workers=2))
    assert [set(bundle) for bundle in asker.bundles] == [{"memory"}]
    on_gpu, _ = tune._resources(Placement(max_concurrent=1, device="cuda"))
    assert on_gpu.bundles == [{"CPU": 1.0, "GPU": 1.0}]


def test_as_many_runs_fit_on_a_gpu_as_were_asked_for():
    """Ray rounds to 1/10,000: six times 0.1667 would be more than one GPU."""
    for runs in range(1, 200):
        share = tune._resources(Placement(max_concurrent=runs, device="cuda", runs_per_gpu=runs))[0].bundles[0]["GPU"]
        assert runs * round(share * 10_000) <= 10_000 < (runs + 1) * round(share * 10_000) + runs


def test_a_run_asks_for_its_memory_so_that_no_node_takes_more_than_it_has():
    asked, _ = tune._resources(Placement(max_concurrent=2, threads=2, run_gib=1.5))
    assert asked.bundles == [{"CPU": 2.0, "memory": 1.5 * 2**30}]
    assert tune._resources(Placement(max_concurrent=2, threads=2, run_gib=1.5))[1] == "2 CPU and 1.5 GiB of memory"
    assert tune._resources(Placement(max_concurrent=2, threads=2))[1] == "2 CPU"
