"""Looking answers within a second: medians of interleaved calls of the command.

Held to by processor time, which other programs of the machine do not stretch as they do the wall clock's.
"""

import os
import resource
import statistics

import pytest

from tests.journeys.terminal import Terminal
from tests.rooms.by_hand import ablated, searched

ROUNDS = 5
LOOKS = {
    "--help": 0,
    "studies": 0,
    "show fourier-gamma": 0,
    "status": 0,
    "status reach": 0,
    "status encodings --json": 0,
    "run fourier-gama": 2,
    "runn fourier-gamma": 2,
}


@pytest.mark.benchmark
def test_looking_answers_within_a_second(tmp_path):
    terminal = Terminal(tmp_path)
    searched(terminal.home)
    ablated(terminal.home)
    times = {words: [] for words in LOOKS}
    for _ in range(ROUNDS):
        for words, code in LOOKS.items():
            before = processor()
            done = terminal.type(*words.split())
            assert done.code == code, done.err
            times[words].append((processor() - before, done.seconds))
    medians = {
        words: [statistics.median(column) for column in zip(*rows, strict=True)] for words, rows in times.items()
    }
    for words, (worked, waited) in medians.items():
        print(f"{worked:.2f} s of a processor, {waited:.2f} s waited: locus {words}")
    print(f"load {os.getloadavg()[0]:.1f}")
    assert max(worked for worked, _ in medians.values()) <= 1.0


def processor():
    """Seconds that the commands so far have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
