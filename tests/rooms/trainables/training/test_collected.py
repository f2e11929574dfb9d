"""Room: a training that nobody closes neither writes nor waits when Python's garbage collector ends it."""

import gc

from tests.rooms.trainables.training.small_runs import small
from trainables.training.loop import train


def test_a_training_that_is_collected_in_the_thread_of_its_checkpoints_keeps_nobody_waiting(tmp_path):
    running = train(small(), tmp_path)
    next(running)
    thread = running.gi_frame.f_locals["saver"]._thread
    cycle = [running]
    cycle.append(cycle)
    gc.collect()
    gc.disable()
    try:
        del running, cycle
        thread.submit(gc.collect).result(60)
    finally:
        gc.enable()
    thread.shutdown()
    assert list(tmp_path.iterdir()) == []
