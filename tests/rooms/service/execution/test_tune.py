"""Room: what surrounds a Ray of our own."""

from service.execution import tune as cluster
from service.planning.placement import Placement


def test_a_run_asks_for_its_cores_and_a_groups_asker_for_none():
    alone = cluster._resources(Placement(max_concurrent=2, threads=3))
    assert alone.bundles == [{"CPU": 3.0}]
    asker = cluster._resources(Placement(max_concurrent=2, threads=3, workers=2))
    assert [set(bundle) for bundle in asker.bundles] == [{"memory"}]
    on_gpu = cluster._resources(Placement(max_concurrent=1, device="cuda"))
    assert on_gpu.bundles == [{"CPU": 1.0, "GPU": 1.0}]
