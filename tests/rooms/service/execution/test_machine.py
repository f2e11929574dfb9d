"""The machine that runs may use: counted as CUDA counts it, a folder for Ray's sockets, and a disk that is full."""

import errno
import os
import pickle
from pathlib import Path

import pytest
import torch

from service.execution import machine as room
from service.execution.driver import HomeGoneError, UnwritableError, disk_errors_in_a_sentence
from service.execution.machine import gpu_gib, gpus, machine, placement, socket_folder, visible_gpus
from service.planning.placement import Machine, Node
from service.planning.run_options import RunOptions
from service.storage.leases import TakenOverError
from trainables.spec import LocusError, SpecError


@pytest.mark.parametrize(
    ("total", "names", "count"),
    [
        (2, None, 2),
        (2, "", 0),
        (2, "-1", 0),
        (2, "NoDevFiles", 0),
        (2, "0", 1),
        (2, "1, 0", 2),
        (2, "0,-1,1", 1),
        (2, "7", 0),
        (2, "1,7,0", 1),
        (2, "GPU-8932f937,MIG-a/1/0", 2),
        (0, None, 0),
        (0, "0", 0),
        (0, "GPU-8932f937", 0),
    ],
)
def test_gpus_are_counted_as_cuda_counts_them(total, names, count) -> None:
    assert len(visible_gpus(total, names)) == count


def test_this_machine_has_what_torch_finds():
    assert visible_gpus(3, "2, GPU-8932f937") == ["2", "GPU-8932f937"]
    assert gpus() == torch.cuda.device_count()
    assert (gpu_gib() is None) == (gpus() == 0)


def test_a_placement_is_compiled_where_asked_for():
    compiled = [placement(RunOptions(device="cpu", compile=compile), lambda: 0.1) for compile in (False, True)]
    assert [placement.compile for placement in compiled] == [False, True]
    assert str(compiled[1]) == f"{compiled[0]}, compiled"


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

    for options in ({"max_concurrent": 6, "runs_per_gpu": 2}, {"max_concurrent": 3, "workers": 4},
                    {"max_concurrent": 80, "fuse": 40}):  # fmt: skip
        placed = placement(RunOptions(address="auto", device="cuda", **options), lambda: 1.0)
        assert (placed.device, placed.max_concurrent, placed.fits) == ("cuda", options["max_concurrent"], 0)
    with pytest.raises(SpecError, match=r"^max-concurrent must be a number where the nodes with GPUs have yet to join"):
        placement(RunOptions(address="auto", device="cuda"), lambda: 1.0)


@pytest.mark.parametrize(("run_gib", "options", "expected"), [
    (1.0, {}, (1, 4, 7)),
    (1.0, {"runs_per_gpu": 3}, (3, 12, 1)),
    (1.0, {"runs_per_gpu": 3, "max_concurrent": 5}, (3, 5, 5)),
    (1.0, {"runs_per_gpu": 20}, (20, 32, 0)),  # as many as there are cores
    (9.5, {"runs_per_gpu": "auto"}, 6),  # 64 of 80 GiB, 10 each with CUDA's own
    (1.0, {"runs_per_gpu": "auto"}, 8),  # a core each
    (1.0, {"runs_per_gpu": "auto", "threads": 4}, 2),
    (200.0, {"runs_per_gpu": "auto"}, 1),
    (1.0, {"runs_per_gpu": "auto", "workers": 2}, 1),
    (1.0, {"runs_per_gpu": "auto", "device": "cpu"}, 1),
    (1.0, {"runs_per_gpu": "auto", "gpu_gib": None},
     r"^runs-per-gpu must be a number where the memory .* unknown, .*, got 'auto'$"),
])  # fmt: skip
def test_runs_share_a_gpu_where_asked_for_as_memory_and_cores_allow(monkeypatch, run_gib, options, expected):
    options = dict(options)
    memory = options.pop("gpu_gib", 80.0)
    for name, value in {"gpus": 4, "cores": 32, "usable_gib": 400.0, "gpu_gib": memory}.items():
        monkeypatch.setattr(room, name, lambda value=value: value)
    if isinstance(expected, str):
        with pytest.raises(SpecError, match=expected):
            placement(RunOptions(**options), lambda: run_gib)
        return
    placed = placement(RunOptions(**options), lambda: run_gib)
    assert expected in (placed.runs_per_gpu, (placed.runs_per_gpu, placed.max_concurrent, placed.loader_workers))


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"runs_per_gpu": 0}, "runs_per_gpu"),
        ({"runs_per_gpu": -1}, "runs_per_gpu"),
        ({"runs_per_gpu": "3"}, "runs_per_gpu"),
        ({"runs_per_gpu": "many"}, "runs_per_gpu"),
        ({"fuse": 4, "grad_checkpointing": True}, "^fuse must be 1 with --grad-checkpointing, got 4$"),
        ({"compile": True, "grad_checkpointing": True}, "^grad-checkpointing must be left out with --compile"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, refusal):
    with pytest.raises(SpecError, match=refusal):
        placement(RunOptions(**options), lambda: 1.0)


@pytest.fixture
def short(tmp_path_factory, monkeypatch):
    """A folder below which a short one may be made, and no variable that names another."""
    base = tmp_path_factory.mktemp("s")
    monkeypatch.setattr(room, "LONGEST", len(os.fsencode(base / "locus-ray-1234567" / "ray" / room.BELOW)))
    monkeypatch.setattr(room, "SHORT", (base,))
    for name in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    return base


def test_rays_own_choice_stays_where_it_is_short(monkeypatch):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert socket_folder() == Path("/var/tmp/ray")
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    assert socket_folder() == Path("/tmp/ray")


@pytest.mark.parametrize("name", ["TMPDIR", "RAY_TMPDIR"])
@pytest.mark.parametrize("long", ["x" * 90, "ä" * 45], ids=["letters", "bytes"])
def test_a_long_one_is_replaced_by_a_short_one_of_the_users_own(short, tmp_path, monkeypatch, name, long):
    (tmp_path / long).mkdir()
    monkeypatch.setenv(name, str(tmp_path / long))
    folder = socket_folder()
    assert folder == short / f"locus-ray-{os.getuid()}" / "ray"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(folder / room.BELOW)) <= room.LONGEST
    folder.mkdir()
    folder.chmod(0o777)  # as Ray does
    assert socket_folder() == folder, "the next study uses it as well"


def test_one_that_does_not_exist_is_replaced(short, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/no")
    assert socket_folder().parent.parent == short


def test_a_folder_that_another_may_write_or_a_link_is_not_used(short, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("x" * 90)))
    link = short / f"locus-ray-{os.getuid()}"
    link.symlink_to(tmp_path)
    refusal = r"TMPDIR must be a folder that can be written, with a path of at most \d+ bytes.*got .*x{90}"
    with pytest.raises(LocusError, match=refusal):
        socket_folder()
    link.unlink()
    link.mkdir()
    link.chmod(0o777)
    with pytest.raises(LocusError, match=refusal):
        socket_folder()


def follows(error: OSError) -> None:
    """Raises what Ray and a lock make of an error: one that names it, and one while that is handled."""
    try:
        try:
            raise error
        except OSError as cause:
            raise RuntimeError("Tune failed") from cause
    finally:  # as a lock or a journal that cannot be closed either
        raise ValueError("so did the rest")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "No space left on device"),
        (errno.EROFS, "Read-only file system"),
        (errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_a_disk_that_cannot_be_written_is_a_sentence_whatever_followed(tmp_path, number, reason) -> None:
    with pytest.raises(UnwritableError) as error, disk_errors_in_a_sentence(tmp_path):
        follows(OSError(number, "told by the system"))
    sentence = str(error.value)
    assert sentence.startswith(f"{tmp_path} must be on a disk that can be written, got: {reason}; ")
    assert " MiB are free there; what was measured is kept, and the same command goes on" in sentence
    assert "\n" not in sentence
    assert str(pickle.loads(pickle.dumps(error.value))) == sentence


def test_a_file_elsewhere_is_named(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with pytest.raises(UnwritableError, match=f"^{scratch} must be"), disk_errors_in_a_sentence(tmp_path / "home"):
        raise OSError(errno.ENOSPC, "full", str(scratch))


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "none"), ValueError("odd"), KeyboardInterrupt()])
def test_other_errors_stay_as_they_are(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, disk_errors_in_a_sentence(tmp_path):
        raise error
    assert raised.value is error


def test_a_home_that_is_gone_is_told_in_one_sentence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    def removed() -> None:
        home.rmdir()
        try:
            raise TakenOverError("its file is gone")
        finally:
            (home / "presence.draft").write_text("")

    sentence = f"^{home} must be there while a study runs, got no folder"
    with pytest.raises(HomeGoneError, match=sentence) as error, disk_errors_in_a_sentence(home):
        removed()
    assert error.value.exit_code == 1
    with pytest.raises(FileNotFoundError), disk_errors_in_a_sentence(tmp_path):
        (tmp_path / "none" / "file").write_text("")
