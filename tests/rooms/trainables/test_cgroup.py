"""Room: what a container may use, from files as Linux writes them."""

import pytest

from service.execution.machine import usable_gib
from trainables import cgroup


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({}, None, None),
        ({"cpu.max": "max 100000\n", "memory.max": "max\n"}, None, None),
        ({"cpu.max": "250000 100000\n", "memory.max": "8589934592\n"}, 2.5, 8 * 2**30),
        (
            {
                "cpu/cpu.cfs_quota_us": "400000",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "1073741824",
            },
            4.0,
            2**30,
        ),
        (
            {
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "9223372036854771712",
            },
            None,
            None,
        ),
        ({"cpu.max": "broken", "memory.max": ""}, None, None),
    ],
)
def test_limits_of_both_versions(tmp_path, files, cores, memory) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert cgroup.cpu_quota(tmp_path) == cores
    assert cgroup.memory_limit(tmp_path) == memory


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.9, 1), (10_000.0, None), (None, None)])
def test_cores_and_memory_of_a_container_are_those_of_its_limits(monkeypatch, quota, cores) -> None:
    everything, gib = cgroup.cores(), usable_gib()
    monkeypatch.setattr("trainables.cgroup.cpu_quota", lambda: quota)
    monkeypatch.setattr("service.execution.machine.memory_limit", lambda: 2**30)
    assert cgroup.cores() == (cores or everything)
    assert usable_gib() == pytest.approx(0.8)
    assert gib > 0.8
