"""Room: what a full disk caused is told in one sentence; every other error stays as it is."""

import errno
import pickle
from pathlib import Path

import pytest

from service.execution.driver import HomeGoneError, UnwritableError, disk_errors_in_a_sentence
from service.storage.leases import TakenOverError


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
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left on device"),
        (errno.EROFS, "Read-only file system"),
        (errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_a_disk_that_cannot_be_written_is_a_sentence_whatever_followed(tmp_path: Path, number: int, words: str) -> None:
    with pytest.raises(UnwritableError) as told, disk_errors_in_a_sentence(tmp_path):
        follows(OSError(number, "told by the system"))
    said = str(told.value)
    assert said.startswith(f"{tmp_path} must be on a disk that can be written, got: {words}; ")
    assert " MiB are free there; what was measured is kept, and the same command goes on" in said
    assert "\n" not in said
    assert str(pickle.loads(pickle.dumps(told.value))) == said


def test_a_file_elsewhere_is_named(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with pytest.raises(UnwritableError, match=f"^{scratch} must be"), disk_errors_in_a_sentence(tmp_path / "home"):
        raise OSError(errno.ENOSPC, "full", str(scratch))


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "none"), ValueError("odd"), KeyboardInterrupt()])
def test_other_errors_stay_as_they_are(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as told, disk_errors_in_a_sentence(tmp_path):
        raise error
    assert told.value is error


def test_a_home_that_is_gone_is_told_in_one_sentence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    def removed() -> None:
        home.rmdir()
        try:
            raise TakenOverError("its file is gone")
        finally:
            (home / "presence.draft").write_text("")

    said = f"^{home} must be there while a study runs, got no folder"
    with pytest.raises(HomeGoneError, match=said) as told, disk_errors_in_a_sentence(home):
        removed()
    assert told.value.exit_code == 1
    with pytest.raises(FileNotFoundError), disk_errors_in_a_sentence(tmp_path):
        (tmp_path / "none" / "file").write_text("")
