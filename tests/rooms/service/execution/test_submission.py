"""A job that is watched through a bad connection, its log by Ray's own stream, and the archive of its result."""

import io
import lzma
import tarfile
from types import SimpleNamespace

import pytest
import requests

from service.execution import submission
from service.execution.submission import ArchiveError, Submission, SubmissionError, UnpackedError, fetched, pack
from service.results import Result, compare
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct
from trainables.spec import LocusError


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(submission, "POLL_S", 0.0)
    monkeypatch.setattr(submission, "AGAIN_S", 0.001)


class Answers:
    """A job client whose answers are written down; an exception is raised, and the last answer stays."""

    def __init__(self, statuses, logs=("",)):
        self.statuses, self.texts = list(statuses), list(logs)

    def get_job_info(self, job):
        return SimpleNamespace(message="")

    def get_job_status(self, job):
        return SimpleNamespace(value=self._next(self.statuses))

    def get_job_logs(self, job):
        return self._next(self.texts)

    def _next(self, answers):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def cached(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locus"


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    conduct(home, arms())
    home.named()
    return home


def watched(*answers, logs=("",)):
    return Submission(Answers(answers, logs), "http://head:8265", "locus-1", "reach@base", None)


@pytest.mark.parametrize(
    "lost",
    [
        requests.ConnectionError("refused"),
        requests.Timeout("slow"),
        ConnectionError("reset"),
        RuntimeError("Request failed with status code 503: unavailable."),
    ],
)
def test_an_answer_that_is_lost_is_asked_for_again(lost):
    job = watched(lost, lost, "RUNNING", lost, "SUCCEEDED")
    assert [job.status(), job.status()] == ["RUNNING", "SUCCEEDED"]


def test_a_cluster_that_stays_away_is_an_error_and_no_wait_without_end(monkeypatch):
    monkeypatch.setattr(submission, "LOST_S", 0.05)
    with pytest.raises(SubmissionError, match=r"head:8265 has not answered for .* minutes; the study may still run"):
        watched(requests.ConnectionError("refused")).status()


def test_a_refusal_is_not_asked_again():
    with pytest.raises(RuntimeError, match="status code 404"):
        watched(RuntimeError("Request failed with status code 404: no such job."), "RUNNING").status()


def test_a_line_that_is_still_printed_waits():
    job = watched("RUNNING", logs=("plan: reach@base: 3 runs\n00:02 epo",))
    assert list(job.logs()) == ["plan: reach@base: 3 runs"]
    ended = watched("SUCCEEDED", logs=("plan: reach@base: 3 runs\n00:02 epoch 2",))
    assert list(ended.logs()) == ["plan: reach@base: 3 runs", "00:02 epoch 2"]


@pytest.mark.parametrize(
    ("state", "logs", "facts", "lines", "ended"),
    [
        ("RUNNING", 'locus-fact {"study": "a@b"}\nplan\nlocus-fact {"mlflow": "x"}\nlocus-fact {"en',
         {"study": "a@b", "mlflow": "x"}, ["plan"], None),  # a torn fact is none
        ("FAILED", 'stopped\nlocus-fact {"ended": "stopped"}\n', {"ended": "stopped"}, ["stopped"], "STOPPED"),
        ("FAILED", 'locus-fact {"ended": "finished"}\n', {"ended": "finished"}, [], "FAILED"),
        ("FAILED", 'locus-fact {"ended": "failed"}\nten in a row\n', {"ended": "failed"}, ["ten in a row"], "broke"),
        ("FAILED", "ten in a row\n", {}, ["ten in a row"], "broke"),
    ],
    ids=["runs", "stopped by another command", "finished with failed runs", "failed", "killed"],
)  # fmt: skip
def test_facts_are_for_the_client_alone_and_say_how_a_job_ended(state, logs, facts, lines, ended):
    """Ray takes the exit codes of a driver that was stopped, or has failed runs, for a failure."""
    job = watched(state, logs=(logs,))
    assert (job.facts(), list(job.logs())) == (facts, lines)
    if ended == "broke":
        with pytest.raises(SubmissionError, match="locus-1 failed: ten in a row"):
            job.wait_for_end()
    elif ended:
        job.wait_for_end()
        assert job.status() == ended


def test_what_is_printed_to_be_typed_names_the_home_and_stops_no_job_that_has_ended():
    at = "reach@base --address http://head:8265 --home '/shared disk/home'"
    for state, last in (("RUNNING", f"stop       locus stop {at}"), ("SUCCEEDED", f"report     locus report {at}")):
        job = Submission(Answers([state]), "http://head:8265", "locus-1", "reach@base", "/shared disk/home")
        lines = job.describe().splitlines()
        assert lines[-3:] == [f"watch      locus status {at}", f"           locus logs {at} -f", last]


def test_a_home_is_the_jobs_where_its_id_is_the_same(home):
    """On a laptop the same path may hold a home of its own, with a study of the same name."""
    job = watched("SUCCEEDED")
    assert job.visible_home({"home": str(home.root.parent), "home_id": "3f9a"}) is None
    assert job.visible_home({"home": str(home.root), "home_id": home.id}).root == home.root
    assert job.visible_home({"home": str(home.root), "home_id": "another"}) is None
    assert job.visible_home({"home": str(home.root)}) is None


TRACE = """Traceback (most recent call last):
  File "/tmp/ray/session/runtime_resources/working_dir_files/_ray_pkg_3f9a/service/cli.py", line 3, in <module>
FileNotFoundError: [Errno 2] No such file or directory: '/tmp/ray/_ray_pkg_3f9a/trainables/training/loop.py'
"""


@pytest.mark.parametrize(
    ("logs", "error"),
    [(TRACE, UnpackedError), (TRACE.replace("_ray_pkg_3f9a", "mine"), SubmissionError)],
    ids=["files not unpacked", "another file"],
)
def test_a_traceback_before_the_plan_is_told_by_its_last_line(logs, error):
    lines: list[str] = []
    with pytest.raises(
        SubmissionError, match=r"locus-1 ended before its plan was made: FileNotFoundError: "
    ) as error_info:
        lines.extend(watched("FAILED", logs=(f"versions: python 3.11\n{logs}",)).followed())
    assert type(error_info.value) is error
    assert str(error_info.value).endswith("; the same command tries again")
    job = watched("FAILED", logs=(f"versions: python 3.11\n{logs}",)).followed()
    assert next(job) == "versions: python 3.11", "the line before is shown, and no other"
    with pytest.raises(SubmissionError):
        next(job)


LINES = [f"00:{number:02} epoch {number} of the wave, £ and 位" for number in range(60)]
TEXT = "".join(f"{line}\n" for line in LINES)


class Growing(Answers):
    """A job client whose log grows at each look, by pieces that end within lines; now and then no answer comes.

    The job ends with its last piece, which the same look may miss.
    """

    def __init__(self, piece: int, fails: int = 0) -> None:
        self.piece, self.fails, self.read, self.asked = piece, fails, 0, 0

    def get_job_status(self, job):
        return SimpleNamespace(value="SUCCEEDED" if self.read >= len(TEXT) else "RUNNING")

    def get_job_logs(self, job):
        self.asked += 1
        if self.fails and self.asked % self.fails == 0:
            raise ConnectionError
        self.read += self.piece
        return TEXT[: self.read]


@pytest.mark.parametrize("fails", [0, 2, 3])
@pytest.mark.parametrize("piece", [1, 7, len(LINES[0]) + 1, 700, 10_000])
def test_lines_come_whole_and_once_however_the_log_grows_and_looks_fail(monkeypatch, piece, fails):
    monkeypatch.setattr(submission, "LOOK_S", 0.0)
    monkeypatch.setattr(submission, "SHARE", 0.0)
    assert (
        list(Submission(Growing(piece, fails), "http://head:8265", "locus-1", "reach@base", None).logs(follow=True))
        == LINES
    )


def test_looks_at_a_log_that_takes_long_to_come_are_rare(monkeypatch):
    pauses, clock = [], iter(range(10_000))
    monkeypatch.setattr(submission.time, "sleep", pauses.append)
    monkeypatch.setattr(submission.time, "monotonic", lambda: float(next(clock)))  # each question takes seconds
    list(Submission(Growing(700), "http://head:8265", "locus-1", "reach@base", None).logs(follow=True))
    assert pauses
    assert min(pauses) >= submission.SHARE


def names(packed: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return archive.getnames()


def of(*members: tuple[str, bytes, bytes]) -> bytes:
    """An archive of members: a name, a content, and what kind of file it is. A link stays within the folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, text, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, "studies/a@b/study.json", len(text)
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def of_holes() -> bytes:
    """An archive of a file that says any size of itself."""
    member = tarfile.TarInfo("studies/a@b/study.json")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % 2**30  # the size that the file says it has
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 8 * 32)
    return lzma.compress(bytes(header) + bytes(1024))


def test_the_same_result_is_read_from_an_archive_without_weights(home, cached):
    """It holds what probes found, nothing of other studies or other code, and no line that a driver is writing."""
    id, outcomes = arms().id, Outcomes(home)
    for row in Result.open(home, id).rows:
        for run in row.runs.values():
            outcomes.probe(run.run.key, run.code, "direction").write_bytes(b"found")
    before = names(pack(home, id))
    assert {name.rpartition(".")[2] for name in before} == {"json", "jsonl", "npz", "id"}
    key = next(name.split("/")[1] for name in before if name.startswith("outcomes/"))
    (home.outcomes / "another").mkdir()
    for folder in ("another", key):
        (home.outcomes / folder / "othercode.json").write_text("{}")
    with home.study(id).journal.open("ab") as file:
        file.write(b'{"fact": "star')
    packed = pack(home, id)
    assert names(packed) == before
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        journal = archive.extractfile(f"studies/{id}/journal.jsonl").read()
    assert journal.endswith(b"}\n")

    copied_home = fetched(packed, "/shared/locus of the cluster at http://head:8265")
    assert (copied_home.root.parent, copied_home.id) == (cached, home.id)
    result, copy = Result.open(home, id), Result.open(copied_home, id)
    assert len(result.rows) > 1
    assert result.table().to_csv() == copy.table().to_csv()
    assert result.trials().to_csv() == copy.trials().to_csv()
    assert list(map(str, result.claims)) == list(map(str, copy.claims))
    assert copy.report().is_relative_to(copied_home.root)
    for needs_weights in (copy.rows[0].model, lambda: copy.rows[0].probe("direction")):
        with pytest.raises(LocusError, match="was fetched, and weights stayed in /shared/locus of the cluster"):
            needs_weights()


@pytest.mark.parametrize(
    "packed",
    [
        *(of(("studies/a@b/study.json", b"{}", tarfile.REGTYPE), member) for member in [
            ("../outside", b"x", tarfile.REGTYPE), ("link", b"", tarfile.SYMTYPE), ("device", b"", tarfile.CHRTYPE),
        ]),
        of_holes(),
    ],
    ids=["above", "link", "device", "holes"],
)  # fmt: skip
def test_nothing_but_plain_files_within_the_folder_is_unpacked(packed, cached):
    with pytest.raises(ArchiveError, match="must hold the files of a study"):
        fetched(packed, "there")
    assert [*cached.iterdir()] == []
    assert not (cached.parent / "outside").exists()


def test_an_absolute_path_stays_inside(cached, tmp_path):
    home = fetched(of((f"{tmp_path}/outside", b"x", tarfile.REGTYPE)), "there")
    assert not (tmp_path / "outside").exists()
    assert all(path.is_relative_to(home.root) for path in cached.rglob("*/*"))


def test_a_damaged_archive_is_a_sentence(home, cached):
    packed = pack(home, arms().id)
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 255
    for content in (*(packed[:cut] for cut in (0, 10, 200, -20)), bytes(broken)):
        with pytest.raises(ArchiveError):
            fetched(content, "there")


def test_a_small_archive_of_a_large_file_is_refused_before_a_file_is_written(cached, monkeypatch):
    monkeypatch.setattr(submission, "MOST", 20 * submission.PIECE)
    too_large, large = (
        of(("studies/a@b/study.json", bytes(pieces * submission.PIECE), tarfile.REGTYPE)) for pieces in (21, 19)
    )
    assert len(too_large) < submission.PIECE / 100
    with pytest.raises(ArchiveError, match=r"must hold at most 0.0195 GiB when unpacked, got more"):
        fetched(too_large, "there")
    assert [*cached.iterdir()] == []
    fetched(large, "there")


def test_what_is_fetched_again_is_as_it_is_now_beside_the_other_studies_of_its_home(tmp_path, home, cached):
    growing, edition, other = Home(tmp_path / "growing"), arms(), arms(name="others", seeds=3)
    conduct(growing, edition, cut=8)
    growing.named()
    first = fetched(pack(growing, edition.id), "there")

    def tables(id: str) -> list[str]:
        return [Result.open(root, id).table().to_csv() for root in (first, growing)]

    assert len({*tables(edition.id)}) == 1
    conduct(growing, edition)
    conduct(growing, other)
    for id in (edition.id, other.id):
        assert fetched(pack(growing, id), "there").root == first.root
        assert len({*tables(id)}) == 1
    assert len({compare(root, edition.id, other.id).table().to_csv() for root in (first, growing)}) == 1
    assert fetched(pack(home, edition.id), "there").root != first.root, "studies of two homes lie apart"
