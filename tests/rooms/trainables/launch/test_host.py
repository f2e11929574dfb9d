import os
from importlib import metadata

from trainables.cgroup import cores
from trainables.launch.message import FRAMEWORKS, host, memory_gib


def test_a_run_records_its_machine_and_the_frameworks():
    found = host()
    assert found["host_cores"] == cores() >= 1
    assert 0.1 < found["host_memory_gib"] == memory_gib() < 2**14
    assert {name: found[name] for name in FRAMEWORKS} == {name: metadata.version(name) for name in FRAMEWORKS}
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = {line.partition(":")[2].strip() for line in file if line.startswith("model name")}
        assert not names or found["host_cpu"] in names
