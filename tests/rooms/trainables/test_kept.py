"""What is kept for a user, what a container may use, waiting for an answer, and streams of random numbers."""

import os
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from service.execution.machine import usable_gib
from trainables import cgroup
from trainables.kept import cache_folder, keep, kept, seen
from trainables.polling import poll
from trainables.rng_torch import numpy_stream, torch_stream

VALUE = [{"name": "peg", "numbers": [1, 2.5, None]}]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locus"


def test_a_value_is_kept_under_its_mark_alone(cache: Path) -> None:
    assert kept("one.json", "mark") is None
    keep("one.json", "mark", VALUE)
    assert kept("one.json", "mark") == VALUE
    assert kept("one.json", "another") is None
    keep("one.json", "another", [])
    assert (kept("one.json", "mark"), kept("one.json", "another")) == (None, [])
    assert [path.name for path in cache.iterdir()] == ["one.json"]


def test_a_changed_byte_is_seen(cache: Path) -> None:
    keep("one.json", "mark", VALUE)
    whole = (cache / "one.json").read_bytes()
    for place in range(len(whole)):
        (cache / "one.json").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept("one.json", "mark") is None, place
    for left in range(len(whole)):
        (cache / "one.json").write_bytes(whole[:left])
        assert kept("one.json", "mark") is None, left


def test_what_nobody_used_for_long_goes_and_files_of_others_stay(cache: Path) -> None:
    for name in ("old.json", "read.json", "new.json", "folders/old.json"):
        keep(name, "mark", VALUE)
    (cache / "notes.json").write_text("a list of mine\n")
    (cache / "elsewhere.json").symlink_to(cache.parent / "mine.json")
    (cache.parent / "mine.json").write_bytes((cache / "old.json").read_bytes())
    for path in (*cache.rglob("*.json"), cache.parent / "mine.json"):
        if path.name != "new.json":
            os.utime(path, (0, 0))
    assert kept("read.json", "mark") == VALUE
    keep("another.json", "mark", VALUE)
    left = {str(path.relative_to(cache)) for path in cache.rglob("*.json")}
    assert left == {"another.json", "read.json", "new.json", "notes.json", "elsewhere.json", "folders/old.json"}
    keep("folders/another.json", "mark", VALUE)
    assert [path.name for path in (cache / "folders").iterdir()] == ["another.json"]
    assert (cache.parent / "mine.json").exists()


@pytest.mark.parametrize("place", ["a file", "/proc/none"])
def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch, place: str) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    keep("one.json", "mark", VALUE)
    assert kept("one.json", "mark") is None


def test_an_edited_a_new_and_a_lost_file_are_seen(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for name in ("a.py", "room/b.py", "c.txt"):
        (tmp_path / name).write_text("1\n")
    marks = [seen(tmp_path)]
    (tmp_path / "room" / "b.py").write_text("22\n")
    marks.append(seen(tmp_path))
    (tmp_path / "room" / "d.py").write_text("")
    marks.append(seen(tmp_path))
    (tmp_path / "a.py").unlink()
    marks.append(seen(tmp_path))
    assert len({*marks}) == 4
    (tmp_path / "c.txt").write_text("333\n")
    assert seen(tmp_path) == marks[-1]


def test_tests_keep_nothing_for_the_user_who_runs_them(monkeypatch):
    monkeypatch.undo()
    assert "locus-user-" in str(cache_folder())


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


def test_the_first_true_answer_is_returned():
    asked = count()
    assert poll(lambda: next(asked) // 3, every_s=0) == 1
    assert next(asked) == 4


def test_the_last_answer_is_returned_when_the_time_is_up():
    asked = count()
    assert poll(lambda: next(asked) and "", every_s=0, at_most_s=0) == 0
    assert next(asked) == 1


def test_a_name_gives_its_numbers_again():
    assert torch.equal(
        torch.rand(5, generator=torch_stream(3, "a", 1)), torch.rand(5, generator=torch_stream(3, "a", 1))
    )
    assert np.array_equal(numpy_stream(3, "a", 1).random(5), numpy_stream(3, "a", 1).random(5))


def test_every_part_of_the_name_counts():
    names = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "a"), (0, "a1"), (10, "a", 1)]
    assert len({float(torch.rand(1, generator=torch_stream(*name))) for name in names}) == len(names)
    assert len({numpy_stream(*name).random() for name in names}) == len(names)


def test_the_global_generators_stay():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    torch.rand(3, generator=torch_stream(0, "a"))
    numpy_stream(0, "a").random(3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


def test_numbers_are_pinned():
    assert torch.randperm(8, generator=torch_stream(0, "order", 1)).tolist() == [2, 1, 6, 3, 5, 7, 4, 0]
    assert numpy_stream(0, "red_green", "train").integers(0, 100, 4).tolist() == [82, 69, 10, 25]
