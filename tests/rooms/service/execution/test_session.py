"""Room: a session with Ray, and what its end must survive."""

import os
import subprocess
import sys

import pytest

from tests.house.test_arrows import ROOT

COLLECTED_WHILE_IT_ENDS = """
import gc, threading, time
import ray
from service.execution.machine import socket_folder
from service.execution.ray_session import LocalRay, session

class Cycle:
    pass

def work():
    while ray.is_initialized():
        time.sleep(0.001)
    while objects:
        one = Cycle()
        one.itself, one.object = one, objects.pop()
        time.sleep(0.0005)

with session("local", LocalRay(socket_folder()), num_cpus=1, include_dashboard=False):
    objects = [ray.put(1) for _ in range(3000)]
    gc.set_threshold(1)
    threading.Thread(target=work, daemon=True).start()
print("ended well", gc.isenabled())
"""


@pytest.mark.slow
def test_garbage_of_ray_that_another_thread_collects_does_not_end_the_process(tmp_path) -> None:
    """Tune leaves references in cycles, and Ray ends a process that drops one while the session ends."""
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTED_WHILE_IT_ENDS],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert ended.stdout == "ended well True\n", ended.stderr
    assert ended.returncode == 0, ended.stderr
