"""A study that is forgotten: its folder, its answers and its MLflow rows go, and what others use stays."""

import pytest
from filelock import FileLock

import service
from search_spaces.study import Ablation, Study
from service.execution.submission import pack
from service.removal import forgettable
from service.storage.facts import Ended, FailedWith, Measured, Started, StoppedAt, line_of
from service.storage.home import Home
from service.storage.journal import JournalError
from service.tracking.store import Store, look_up
from service.tracking.sync import MlflowSync
from tests.rooms.toy import conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.spec import LocusError, SpecError

BASE = Recipe(encoding=Fourier()).put({"optimizer.epochs": 3})
NEAR, FAR = {"encoding.gamma": 1.0}, {"encoding.gamma": 9.0}


def study(name, **arms):
    return Study(name=name, question="?", base=BASE, plan=Ablation({"base": {}, **arms}, "base"), seeds=2).at()


ONE, OTHER, THIRD = study("one", near=NEAR), study("other", far=FAR), study("third", near=NEAR)


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path)
    conduct(found, ONE)
    conduct(found, OTHER)
    return found


def keys(edition):
    return {run.key for arm in edition.arms() for run in arm.runs(2)}


def kept(home):
    return {path.name for path in home.outcomes.glob("[!.]*")}


def files(*roots):
    return {path for root in roots for path in root.rglob("*") if path.is_file()}


def is_sound(home, edition):
    return all(check.ok for check in service.verify(edition.id, home=str(home.root)))


def in_mlflow(home, edition):
    with driving(home, edition) as driver:
        sync = MlflowSync(edition, home, None)
        driver.listeners.append(sync.add)
        sync.open()
        driver.begin()
        sync.close("FINISHED", None)
    return look_up(home, edition)


def refused(home, found, why):
    """To say what goes is refused, and so is to remove it."""
    for act in (found.remove, lambda: forgettable(home, ONE.id)):
        with pytest.raises(LocusError, match=why):
            act()


def test_what_goes_is_said_and_what_others_use_stays(home):
    stores = [in_mlflow(home, edition) for edition in (ONE, OTHER)]
    assert all(len(store.shown) > 4 for store in stores)
    found = forgettable(home, ONE.id)
    lines = "\n".join(found.lines())
    assert "2 answers with weights" in lines
    assert "kept: 2 answers that other studies use" in lines
    assert f"{len(stores[0].shown)} runs in MLflow" in lines
    assert home.study(ONE.id).root.exists(), "nothing is removed before it is asked for"
    assert "copies" not in lines
    home.study(ONE.id).storage.write_text("s3://bucket/locus")
    assert found.lines()[-1] == "kept: the copies at s3://bucket/locus"
    found.remove()
    assert home.ids() == [OTHER.id]
    assert kept(home) == keys(OTHER)
    assert look_up(home, ONE) is None
    assert len(look_up(home, OTHER).shown) == len(stores[1].shown)
    assert is_sound(home, OTHER)
    service.forget(OTHER.id, home=str(home.root))
    assert kept(home) == set(), "the last study takes all answers"
    assert service.status(home=str(home.root)) == []


def test_a_study_that_runs_and_a_name_that_is_no_id_are_refused(home):
    found = forgettable(home, ONE.id)
    with driving(home, ONE):
        refused(home, found, "one@base must have ended to be forgotten, but a driver runs it")
    with pytest.raises(LocusError, match="no study 'one'"):
        forgettable(home, "one")
    assert len(home.ids()) == 2
    assert kept(home) == keys(ONE) | keys(OTHER)


HOSTILE = ("/absolute", "../../victim", "..", ".", "", "victim", 16 * "x", "0123456789ABCDEF")


@pytest.mark.parametrize("hostile", [*HOSTILE, "/tmp/victim"])
def test_a_journal_names_only_keys_and_codes(hostile):
    """A journal may be a stranger's. What it names is removed, renamed or locked by a driver, so it must be a key."""
    for known in ({"run": hostile, "code": 12 * "a"}, {"run": 16 * "1", "code": hostile}):
        for kind, more in (
            (Ended, {"outcome": "completed", "epoch": 1}),
            (FailedWith, {"reason": "?"}),
            (Started, {"attempt": 1, "seed": 0, "label": "0"}),
            (Measured, {"epoch": 1, "values": {}}),
            (StoppedAt, {"epoch": 1, "cutoff": 0.5}),
        ):
            with pytest.raises(SpecError, match="must be"):
                kind(**known, **more)


@pytest.mark.parametrize("run", HOSTILE)
def test_no_verb_touches_what_a_strangers_journal_names(home, run):
    """Such a line is no fact, also with a checksum, and is cut as other damage."""
    root = home.root.parent / f"{home.root.name}-of-another"
    thesis = root / "victim" / "thesis" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    journal = home.study(ONE.id).journal
    hostile = {"run": run.replace("/absolute", str(root / "victim")), "code": "thesis"}
    ended = Ended(run=16 * "1", code=12 * "a", outcome="completed", epoch=1, by=1).plain() | hostile
    whole = journal.read_bytes()
    journal.write_bytes(whole + line_of(ended))
    before = files(home.root)
    for act in (lambda: forgettable(home, ONE.id), lambda: conduct(home, ONE), lambda: pack(home, ONE.id)):
        with pytest.raises(JournalError, match=f"line {len(whole.splitlines()) + 1}, is no fact"):
            act()
    assert files(home.root) == before
    assert service.repair(ONE.id, home=str(home.root))
    assert not conduct(home, ONE).trained
    service.forget(ONE.id, home=str(home.root))
    assert thesis.exists()
    assert home.ids() == [OTHER.id]


@pytest.mark.parametrize("while_rows_go", [False, True])
def test_what_came_into_use_since_the_question_stays(home, monkeypatch, while_rows_go):
    in_mlflow(home, ONE)
    found, delete = forgettable(home, ONE.id), Store.delete
    assert len(found.answers) == 2

    def slow(store, artifacts):
        delete(store, artifacts)
        assert not conduct(home, THIRD).trained

    if while_rows_go:
        monkeypatch.setattr(Store, "delete", slow)
    else:
        conduct(home, THIRD)
    assert found.remove() == 2
    assert is_sound(home, THIRD)
    assert set(home.ids()) == {OTHER.id, THIRD.id}


def test_what_a_driver_trains_at_this_moment_stays(home):
    found = forgettable(home, ONE.id)
    with FileLock(home.claims / f"{found.answers[0]}.{12 * 'a'}"):
        assert found.remove() == 1
    assert kept(home) == keys(OTHER) | {found.answers[0]}


def to_disk(folder):
    """Moves a folder to a larger disk, and leaves a link in its place."""
    disk = folder.parent.parent / f"{folder.parent.name}-disk" / folder.name
    disk.parent.mkdir(exist_ok=True)
    folder.rename(disk)
    folder.symlink_to(disk)
    return disk


def test_a_study_that_another_disk_keeps_is_unlinked(home):
    folders = (home.study(ONE.id).root, home.outcomes / forgettable(home, ONE.id).answers[0])
    disks = [to_disk(folder) for folder in folders]
    found = forgettable(home, ONE.id)
    links = [line for line in found.lines() if "is a link" in line]
    assert links == [f"kept: {disk}, to which {path} is a link" for disk, path in zip(disks, folders, strict=True)]
    found.remove()
    assert not any(folder.is_symlink() for folder in folders)
    assert (disks[0] / "journal.jsonl").exists()
    assert [*disks[1].glob("*.pt")]
    assert home.ids() == [OTHER.id]


@pytest.mark.parametrize("name", ["studies", "outcomes", "artifacts"])
def test_nothing_goes_where_a_link_leads_to_what_may_be_another_home_s(home, name):
    found, folder = forgettable(home, ONE.id), home.root / name
    folder.mkdir(exist_ok=True)
    disk = to_disk(folder)
    before = files(home.root, disk)
    why = rf"{folder} must lie in its home for a study to be forgotten, got a link to {disk}, .*; nothing was removed"
    refused(home, found, why)
    assert files(home.root, disk) == before


def test_a_link_that_stays_in_the_home_takes_nothing_from_others(home):
    home.outcomes.rename(home.root / "disk")
    home.outcomes.symlink_to("disk")
    forgettable(home, ONE.id).remove()
    assert kept(home) == keys(OTHER)


def test_a_study_that_cannot_be_looked_into_keeps_its_answers(home):
    """Its folder is a link to a disk that is away; what it uses is not known then."""
    disk = to_disk(home.study(OTHER.id).root)
    found = forgettable(home, ONE.id)
    disk.rename(disk.with_name("away"))
    refused(home, found, r"other@base must be there, .* got No such file or directory; .* removed")
    disk.with_name("away").rename(disk)
    (home.root / "studies" / "note.txt").write_text("of a person")
    forgettable(home, ONE.id).remove()
    assert kept(home) == keys(OTHER)


@pytest.mark.parametrize("how", ["repaired", "journal (1).jsonl", "journal.sync-conflict-20261127-X.jsonl"])
def test_a_study_whose_journal_was_repaired_or_put_beside_by_a_clouds_client_keeps_its_answers(home, how):
    """What was cut off is used again by its next run."""
    journal = home.study(OTHER.id).journal
    if how == "repaired":
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join([*lines[:4], b"xx\n", *lines[5:]]))
        assert "is cut at line 5" in service.repair(OTHER.id, home=str(home.root))[0]
    else:
        journal.rename(journal.with_name(how))
    forgettable(home, ONE.id).remove()
    assert kept(home) == keys(OTHER)
    assert conduct(home, OTHER).order == [], "nothing is trained again"


def test_nothing_goes_where_something_cannot(home, monkeypatch):
    """Rows in MLflow go first, so all folders are looked at before. (For root every folder can be written.)"""
    found, before = forgettable(home, ONE.id), files(home.root)
    last = home.outcomes / found.answers[-1]
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(last))
    refused(home, found, f"{last} must be a folder that can be written to remove")
    assert before <= files(home.root)
