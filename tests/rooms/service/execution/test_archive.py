"""The archive of a result: what it holds gives the same result elsewhere, and nothing in it leaves its folder."""

import io
import json
import lzma
import tarfile

import pytest

from service.execution import submission
from service.execution.submission import ArchiveError
from service.results import Result, compare
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct
from trainables.spec import LocusError


@pytest.fixture
def cached(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locus"


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path / "home")
    conduct(found, arms())
    found.named()
    return found


def names(packed: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as found:
        return found.getnames()


def of(*members: tuple[str, bytes, bytes]) -> bytes:
    """An archive of members: a name, a content, and what kind of file it is. A link stays within the folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as found:
        for name, text, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, "studies/a@b/study.json", len(text)
            found.addfile(member, io.BytesIO(text))
    return content.getvalue()


def test_the_same_result_is_read_from_it(home, cached):
    id = arms().id
    packed = submission.pack(home, id)
    there = submission.fetched(packed, "/shared/locus of the cluster at http://head:8265")
    assert there.root.parent == cached
    assert there.id == home.id
    before, after = Result.open(home, id), Result.open(there, id)
    assert len(before.rows) > 1
    assert before.table().to_csv() == after.table().to_csv()
    assert before.trials().to_csv() == after.trials().to_csv()
    assert list(map(str, before.claims)) == list(map(str, after.claims))
    assert after.report().is_relative_to(there.root)


def test_it_has_no_weights_and_says_where_they_are(home, cached):
    id = arms().id
    for row in Result.open(home, id).rows:
        for key, name in ((run.run.key, run.code) for run in row.runs.values()):
            Outcomes(home).probe(key, name, "direction").write_bytes(b"found")
    packed = submission.pack(home, id)
    kinds = {name.rpartition(".")[2] for name in names(packed)}
    assert kinds == {"json", "jsonl", "npz", "id"}
    assert "/shared" not in str(names(packed))
    row = Result.open(submission.fetched(packed, "/shared/locus of the cluster"), id).rows[0]
    with pytest.raises(LocusError, match="was fetched, and weights stayed in /shared/locus of the cluster"):
        row.model()
    with pytest.raises(LocusError, match="was fetched, and weights stayed in /shared/locus of the cluster"):
        row.probe("direction")


def test_answers_of_other_studies_and_of_other_code_stay_behind(home):
    id = arms().id
    before = names(submission.pack(home, id))
    key = next(name.split("/")[1] for name in before if name.startswith("outcomes/"))
    (home.outcomes / "another").mkdir()
    (home.outcomes / "another" / "code.json").write_text("{}")
    (home.outcomes / key / "othercode.json").write_text("{}")
    assert names(submission.pack(home, id)) == before


def test_a_line_that_a_driver_is_writing_is_left_out(home):
    folder = home.study(arms().id)
    with folder.journal.open("ab") as file:
        file.write(b'{"fact": "star')
    packed = submission.pack(home, arms().id)
    with tarfile.open(fileobj=io.BytesIO(packed)) as found:
        text = found.extractfile(f"studies/{arms().id}/journal.jsonl").read()
    assert [json.loads(line) for line in text.splitlines()]
    assert text.endswith(b"\n")


@pytest.mark.parametrize(
    "member",
    [("../outside", b"x", tarfile.REGTYPE), ("link", b"", tarfile.SYMTYPE), ("device", b"", tarfile.CHRTYPE)],
    ids=["above", "link", "device"],
)
def test_nothing_leaves_the_folder(member, cached):
    packed = of(("studies/a@b/study.json", b"{}", tarfile.REGTYPE), member)
    with pytest.raises(ArchiveError, match="must hold the files of a study"):
        submission.fetched(packed, "there")
    assert [*cached.iterdir()] == []
    assert not (cached.parent / "outside").exists()


def test_an_absolute_path_stays_inside(cached, tmp_path):
    home = submission.fetched(of((f"{tmp_path}/outside", b"x", tarfile.REGTYPE)), "there")
    assert not (tmp_path / "outside").exists()
    assert all(path.is_relative_to(home.root) for path in cached.rglob("*/*"))


@pytest.mark.parametrize("cut", [0, 10, 200, -20], ids=str)
def test_a_damaged_archive_is_a_sentence(home, cached, cut):
    packed = submission.pack(home, arms().id)
    with pytest.raises(ArchiveError):
        submission.fetched(packed[:cut], "there")
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 255
    with pytest.raises(ArchiveError):
        submission.fetched(bytes(broken), "there")


def test_a_small_archive_of_a_large_file_is_refused_before_a_file_is_written(cached, monkeypatch):
    monkeypatch.setattr(submission, "MOST", 20 * submission.PIECE)
    bomb = of(("studies/a@b/study.json", bytes(21 * submission.PIECE), tarfile.REGTYPE))
    assert len(bomb) < submission.PIECE / 100
    with pytest.raises(ArchiveError, match=r"must hold at most 0.0195 GiB when unpacked, got more"):
        submission.fetched(bomb, "there")
    assert [*cached.iterdir()] == []
    submission.fetched(of(("studies/a@b/study.json", bytes(19 * submission.PIECE), tarfile.REGTYPE)), "there")


def test_a_file_with_holes_is_refused(cached):
    map_of_holes = tarfile.TarInfo("studies/a@b/study.json")
    map_of_holes.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(map_of_holes.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % 2**30  # the size that the file says it has
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 8 * 32)
    content = lzma.compress(bytes(header) + bytes(1024))
    with pytest.raises(ArchiveError, match="must hold the files of a study"):
        submission.fetched(content, "there")
    assert [*cached.iterdir()] == []


def test_what_is_fetched_again_is_as_it_is_now_beside_the_other_studies_of_its_home(tmp_path, cached):
    home, one, other = Home(tmp_path / "growing"), arms(), arms(name="others", seeds=3)
    conduct(home, one, cut=8)
    home.named()
    first = submission.fetched(submission.pack(home, one.id), "there")
    assert Result.open(first, one.id).table().to_csv() == Result.open(home, one.id).table().to_csv()
    conduct(home, one)
    conduct(home, other)
    for edition in (one, other):
        again = submission.fetched(submission.pack(home, edition.id), "there")
        assert again.root == first.root
        assert Result.open(first, edition.id).table().to_csv() == Result.open(home, edition.id).table().to_csv()
    both = [compare(place, one.id, other.id).table().to_csv() for place in (first, home)]
    assert both[0] == both[1]


def test_studies_of_two_homes_lie_apart(home, cached, tmp_path):
    another = Home(tmp_path / "another")
    conduct(another, arms())
    another.named()
    places = {submission.fetched(submission.pack(one, arms().id), "there").root for one in (home, another)}
    assert len(places) == 2
