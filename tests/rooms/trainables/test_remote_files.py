"""Room: files at a place that fsspec reaches: a folder, memory, an S3-compatible server."""

import os
import pickle
import signal
import socket
import threading
import time

import pytest
from fsspec import get_filesystem_class
from fsspec.asyn import get_loop
from fsspec.implementations.memory import MemoryFileSystem

from tests.s3_server import S3Server
from trainables import remote_files
from trainables.remote_files import RemoteFolder, StorageError


@pytest.fixture(params=["path", "file", "memory", "s3"])
def folder(request, tmp_path):
    if request.param == "s3":
        return RemoteFolder(request.getfixturevalue("s3"), patience=20)
    start = {"path": "", "file": "file://", "memory": "memory://"}[request.param]
    return RemoteFolder(f"{start}{tmp_path}/there", patience=1)


def test_files_go_there_and_back_whole(folder, tmp_path):
    assert (folder.names(), folder.read("a/b"), folder.has("a/b"), folder.modified("a/b")) == ([], None, False, None)
    assert not folder.get("a/b", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    folder.write("a/b", b"1")
    folder.write("a/b", b"23")
    (tmp_path / "local").write_bytes(b"456")
    folder.put(tmp_path / "local", "a/c/d")
    assert folder.names() == ["a/b", "a/c/d"]
    assert (folder.names("a/c"), folder.inside("a").names()) == (["a/c/d"], ["b", "c/d"])
    assert (folder.folders(), folder.inside("a").folders()) == (["a"], ["c"])
    assert folder.get("a/c/d", tmp_path / "deep" / "back")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()] == [("back", b"456")]
    assert (folder.copy("a/b", "e"), folder.copy("no", "f"), folder.read("e")) == (True, False, b"23")
    assert abs(time.time() - folder.modified("e")) < 60
    folder.remove("a")
    folder.remove("nothing")
    assert folder.names() == ["e"]
    folder.check()
    assert folder.names() == ["e"]


def test_a_name_is_made_by_one_alone(folder):
    made = [None] * 8

    def make(number: int) -> None:
        made[number] = folder.create("one", b"%d" % number)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 7 + [True]
    winner = made.index(True)
    assert folder.read("one") == b"%d" % winner
    assert folder.create("one", b"%d" % winner), "its own answer, which was lost on the way"


def test_a_place_that_cannot_be_used_is_said_at_once(tmp_path, s3):
    (tmp_path / "file").write_text("")
    for uri, words in (
        ("nothing://x", "Protocol not known"),
        (f"{tmp_path}/file/x", "NotADirectoryError"),
        ("s3://no-such-bucket/x", "bucket"),
    ):
        begun = time.monotonic()
        with pytest.raises(StorageError, match=words) as error:
            RemoteFolder(uri, patience=60).check()
        assert time.monotonic() - begun < 20
        assert pickle.loads(pickle.dumps(error.value)).args == error.value.args


def test_a_place_that_answers_again_is_used(tmp_path, monkeypatch):
    errors = [ConnectionError("away"), TimeoutError("away")]
    whole = MemoryFileSystem.cat_file

    def cat_file(*args, **more):
        if errors:
            raise errors.pop()
        return whole(*args, **more)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", cat_file)
    place = f"memory://{tmp_path}"
    RemoteFolder(place).write("a", b"1")
    assert RemoteFolder(place, patience=60).read("a") == b"1"
    errors.append(ConnectionError("away"))
    with pytest.raises(StorageError, match=r"does not answer \(ConnectionError: away\)"):
        RemoteFolder(place, patience=0).read("a")


def test_a_server_that_stands_still_is_waited_for_and_a_dead_one_is_said(monkeypatch):
    server = S3Server()
    try:
        server.reach(monkeypatch)
        folder = RemoteFolder(server.uri, patience=60)
        folder.write("a", b"1")
        server.signal(signal.SIGSTOP)
        threading.Timer(2, lambda: server.signal(signal.SIGCONT)).start()
        folder.write("a", b"2")
        assert folder.read("a") == b"2"
        server.end()
        with pytest.raises(StorageError, match=r"s3://locus/here does not answer .*Could not connect"):
            RemoteFolder(server.uri, patience=0).read("a")
    finally:
        server.end()


def test_a_server_that_takes_a_call_and_never_answers_is_said(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "word")
        get_filesystem_class("s3").clear_instance_cache()
        folder = RemoteFolder("s3://locus/here", limit=0.2)
        for ask in (folder.check, folder.names, lambda: folder.inside("x").read("a")):
            with pytest.raises(StorageError, match=r"s3://locus/here.* does not answer \(nothing came for 0.2 s\)"):
                ask()


def test_a_thread_of_fsspec_that_does_not_answer_is_said_and_used_again_when_it_does(s3):
    folder, again = RemoteFolder(s3), threading.Event()
    folder.write("a", b"1")
    get_loop().call_soon_threadsafe(again.wait, 60)
    with pytest.raises(StorageError, match=r"does not answer \(nothing came for 0.2 s\)"):
        RemoteFolder(s3, limit=0.2).read("a")
    again.set()
    assert folder.read("a") == b"1"


def test_a_call_in_the_thread_of_fsspec_is_refused(s3):
    """It would wait for itself. Only the garbage collector makes such calls, when it closes what nobody has closed."""
    said: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            RemoteFolder(s3).read("a")
        except StorageError as error:
            said.append(error)
        done.set()

    get_loop().call_soon_threadsafe(ask)
    assert done.wait(60)
    assert "cannot be asked in fsspec's own thread" in str(*said)


def test_a_disk_that_does_not_answer_is_said(tmp_path):
    os.mkfifo(tmp_path / "away")  # who opens it waits until another process writes
    with pytest.raises(StorageError, match=r"does not answer \(nothing came for 0.2 s\)"):
        RemoteFolder(str(tmp_path), limit=0.2).read("away")
    os.close(os.open(tmp_path / "away", os.O_RDWR))


def test_what_is_large_has_more_time_to_be_sent(tmp_path, monkeypatch):
    limits: list[float] = []
    in_time = remote_files._in_time

    def seen(action, limit, come):
        limits.append(limit)
        return in_time(action, limit, come)

    monkeypatch.setattr(remote_files, "_in_time", seen)
    monkeypatch.setattr(remote_files, "SLOWEST", 2)
    folder = RemoteFolder(f"memory://{tmp_path}", patience=5, limit=10)
    (tmp_path / "local").write_bytes(b"12345678")
    folder.write("a", b"123456")
    folder.create("b", b"1234")
    folder.put(tmp_path / "local", "c")
    folder.read("c")
    assert limits == [13, 12, 14, 10]
    assert folder.longest(8) == 19
    with pytest.raises(StorageError, match=r"FileNotFoundError"):
        folder.put(tmp_path / "nothing", "d")


def test_a_file_is_fetched_as_long_as_it_grows(tmp_path, monkeypatch):
    whole, size = threading.Event(), remote_files.size_of

    def growing(draft):
        with draft.open("ab") as file:
            file.write(b"1")
        if size(draft) == 4:
            whole.set()
        return size(draft)

    monkeypatch.setattr(MemoryFileSystem, "get_file", lambda *_: whole.wait(60))
    monkeypatch.setattr(remote_files, "size_of", growing)
    folder = RemoteFolder(f"memory://{tmp_path}", limit=0.01)
    assert folder.get("a", tmp_path / "back")
    assert (tmp_path / "back").read_bytes().startswith(b"1111")
    whole.clear()
    monkeypatch.setattr(remote_files, "size_of", size)
    with pytest.raises(StorageError, match=r"does not answer \(nothing came for 0.01 s\)"):
        folder.get("a", tmp_path / "again")
    whole.set()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("again")]
