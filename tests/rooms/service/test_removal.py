"""A study that is forgotten: its folder, its answers and its MLflow rows go, and what others use stays."""

import pytest
from filelock import FileLock

import service
from search_spaces.study import Ablation, Study
from service.consistency import answers_of, wrong_answers
from service.execution.submission import pack
from service.removal import forgettable
from service.storage.facts import Ended, FailedWith, Measured, Started, StoppedAt, line_of
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import JournalError, read
from service.storage.outcomes import Outcomes
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


ONE, OTHER = study("one", near=NEAR), study("other", far=FAR)


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path)
    conduct(found, ONE)
    conduct(found, OTHER)
    return found


def keys(edition):
    return {run.key for arm in edition.arms() for run in arm.runs(2)}


def shown(home, edition):
    with driving(home, edition) as driver:
        sync = MlflowSync(edition, home, lambda recipe: driver.codes(recipe).digest, None)
        driver.listeners.append(sync.add)
        sync.open()
        driver.begin()
        sync.close("FINISHED", None)
    return look_up(home, edition)


def test_what_goes_is_said_and_what_others_use_stays(home):
    stores = [shown(home, edition) for edition in (ONE, OTHER)]
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
    assert {path.name for path in home.outcomes.glob("[!.]*")} == keys(OTHER)
    assert all(Outcomes(home).of(key) for key in keys(OTHER))
    assert look_up(home, ONE) is None
    assert len(look_up(home, OTHER).shown) == len(stores[1].shown)
    assert all(check.ok for check in service.verify(OTHER.id, home=str(home.root)))


def test_the_last_study_takes_all_answers(home):
    service.forget(ONE.id, home=str(home.root))
    service.forget(OTHER.id, home=str(home.root))
    assert list(home.outcomes.glob("[!.]*")) == []
    assert service.status(home=str(home.root)) == []


def test_a_study_that_runs_and_a_name_that_is_no_id_are_refused(home):
    with driving(home, ONE), pytest.raises(LocusError, match="one@base must have ended to be forgotten"):
        forgettable(home, ONE.id)
    with pytest.raises(LocusError, match="no study 'one'"):
        forgettable(home, "one")
    assert len(home.ids()) == 2


HOSTILE = ("/absolute", "../../victim", "..", ".", "", "victim", 16 * "x", "0123456789ABCDEF")


def test_a_journal_names_only_keys_and_codes(home, tmp_path):
    """A journal may be a stranger's. What it names is removed, renamed or locked by a driver, so it must be a key."""
    key, code = keys(ONE).pop(), 12 * "a"
    for one in (*HOSTILE, str(tmp_path / "victim")):
        for known in ({"run": one, "code": code}, {"run": key, "code": one}):
            for make in (
                lambda known: Ended(**known, outcome="completed", epoch=1),
                lambda known: FailedWith(**known, reason="?"),
                lambda known: Started(**known, attempt=1, seed=0, label="0"),
                lambda known: Measured(**known, epoch=1, values={}),
                lambda known: StoppedAt(**known, epoch=1, cutoff=0.5),
            ):
                with pytest.raises(SpecError, match="must be"):
                    make(known)


@pytest.mark.parametrize("run", HOSTILE)
def test_no_verb_touches_what_a_strangers_journal_names(home, run):
    """Such a line is no fact, also with a checksum, and is cut as other damage."""
    root = home.root.parent / f"{home.root.name}-of-another"
    victim = root / "victim" / "thesis"
    victim.mkdir(parents=True)
    (victim / "thesis.tex").write_text("years of work")
    run = run.replace("/absolute", str(root / "victim"))
    journal = home.study(ONE.id).journal
    said = Ended(run=16 * "1", code=12 * "a", outcome="completed", epoch=1, by=1).plain() | {
        "run": run,
        "code": "thesis",
    }
    whole = journal.read_bytes()
    journal.write_bytes(whole + line_of(said))
    before = {path for path in home.root.rglob("*") if path.is_file()}
    for act in (lambda: forgettable(home, ONE.id), lambda: conduct(home, ONE), lambda: pack(home, ONE.id)):
        with pytest.raises(JournalError, match=f"line {len(whole.splitlines()) + 1}, is no fact"):
            act()
    assert {path for path in home.root.rglob("*") if path.is_file()} == before
    assert (victim / "thesis.tex").exists()
    assert service.repair(ONE.id, home=str(home.root))
    assert not conduct(home, ONE).trained
    service.forget(ONE.id, home=str(home.root))
    assert (victim / "thesis.tex").exists()
    assert home.ids() == [OTHER.id]


def test_what_came_into_use_while_the_question_was_open_stays(home):
    found = forgettable(home, ONE.id)
    assert len(found.answers) == 2
    third = study("third", near=NEAR)
    conduct(home, third)
    assert found.remove() == 2
    assert [*repairs(home, third)] == []
    assert set(home.ids()) == {OTHER.id, third.id}


def test_what_came_into_use_while_mlflow_deleted_rows_stays(home, monkeypatch):
    shown(home, ONE)
    found, third, delete = forgettable(home, ONE.id), study("third", near=NEAR), Store.delete

    def slow(store, artifacts):
        delete(store, artifacts)
        assert not conduct(home, third).trained

    monkeypatch.setattr(Store, "delete", slow)
    assert found.remove() == 2
    assert [*repairs(home, third)] == []
    assert set(home.ids()) == {OTHER.id, third.id}


def test_what_a_driver_trains_at_this_moment_stays(home):
    found = forgettable(home, ONE.id)
    with FileLock(home.claims / f"{found.answers[0]}.{12 * 'a'}"):
        assert found.remove() == 1
    assert (home.outcomes / found.answers[0]).is_dir()
    assert not (home.outcomes / found.answers[1]).exists()


def test_a_driver_that_began_while_the_question_was_open_keeps_its_folder(home):
    found = forgettable(home, ONE.id)
    said = "one@base must have ended to be forgotten, but a driver runs it"
    with driving(home, ONE), pytest.raises(LocusError, match=said):
        found.remove()
    assert len(Outcomes(home).of(found.answers[0])) == 1
    assert len(home.ids()) == 2


def test_a_study_that_another_disk_keeps_is_unlinked(home, tmp_path):
    disk = tmp_path.parent / f"{tmp_path.name}-disk"
    disk.mkdir()
    folder, answer = home.study(ONE.id).root, home.outcomes / forgettable(home, ONE.id).answers[0]
    for number, path in enumerate((folder, answer)):
        path.rename(disk / str(number))
        path.symlink_to(disk / str(number))
    found = forgettable(home, ONE.id)
    kept = [line for line in found.lines() if "is a link" in line]
    assert kept == [f"kept: {disk / str(n)}, to which {path} is a link" for n, path in enumerate((folder, answer))]
    found.remove()
    assert not folder.is_symlink()
    assert not answer.is_symlink()
    assert (disk / "0" / "journal.jsonl").exists()
    assert [*(disk / "1").glob("*.pt")]
    assert home.ids() == [OTHER.id]


def to_disk(folder):
    """Moves a folder to a larger disk, and leaves a link in its place."""
    disk = folder.parent.parent / f"{folder.parent.name}-disk" / folder.name
    disk.parent.mkdir(exist_ok=True)
    folder.rename(disk)
    folder.symlink_to(disk)
    return disk


@pytest.mark.parametrize("name", ["studies", "outcomes", "artifacts"])
def test_nothing_goes_where_a_link_leads_to_what_may_be_another_home_s(home, name):
    found, folder = forgettable(home, ONE.id), home.root / name
    folder.mkdir(exist_ok=True)
    disk = to_disk(folder)
    before = {path for root in (home.root, disk) for path in root.rglob("*") if path.is_file()}
    said = rf"{folder} must lie in its home for a study to be forgotten, got a link to {disk}, .*; nothing was removed"
    for act in (found.remove, lambda: forgettable(home, ONE.id)):
        with pytest.raises(LocusError, match=said):
            act()
    assert {path for root in (home.root, disk) for path in root.rglob("*") if path.is_file()} == before


def test_a_link_that_stays_in_the_home_takes_nothing_from_others(home):
    inside = home.root / "disk"
    home.outcomes.rename(inside)
    home.outcomes.symlink_to("disk")
    forgettable(home, ONE.id).remove()
    assert {path.name for path in inside.glob("[!.]*")} == keys(OTHER)


def test_a_study_that_cannot_be_looked_into_keeps_its_answers(home, tmp_path):
    """Its folder is a link to a disk that is away; what it uses is not known then."""
    disk = to_disk(home.study(OTHER.id).root)
    found = forgettable(home, ONE.id)
    disk.rename(disk.with_name("away"))
    for act in (found.remove, lambda: forgettable(home, ONE.id)):
        with pytest.raises(LocusError, match=r"other@base must be there, .* got No such file or directory; .* removed"):
            act()
    disk.with_name("away").rename(disk)
    (home.root / "studies" / "note.txt").write_text("of a person")
    forgettable(home, ONE.id).remove()
    assert {path.name for path in home.outcomes.glob("[!.]*")} == keys(OTHER)


def test_a_study_whose_journal_was_repaired_keeps_its_answers(home):
    """What was cut off is used again by its next run."""
    journal = home.study(OTHER.id).journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], b"xx\n", *lines[5:]]))
    assert "is cut at line 5" in service.repair(OTHER.id, home=str(home.root))[0]
    forgettable(home, ONE.id).remove()
    assert conduct(home, OTHER).order == [], "nothing is trained again"


@pytest.mark.parametrize("name", ["journal (1).jsonl", "journal.sync-conflict-20261127-X.jsonl"])
def test_a_study_whose_journal_a_clouds_client_has_put_beside_keeps_its_answers(home, name):
    journal = home.study(OTHER.id).journal
    journal.rename(journal.with_name(name))
    forgettable(home, ONE.id).remove()
    assert {path.name for path in home.outcomes.glob("[!.]*")} == keys(OTHER)


def test_nothing_goes_where_something_cannot(home, monkeypatch):
    """Rows in MLflow go first, so all folders are looked at before. (For root every folder can be written.)"""
    found = forgettable(home, ONE.id)
    last = home.outcomes / found.answers[-1]
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(last))
    for act in (found.remove, lambda: forgettable(home, ONE.id)):
        with pytest.raises(LocusError, match=f"{last} must be a folder that can be written to remove"):
            act()
    assert all((home.outcomes / key).is_dir() for key in found.answers)
    assert home.study(ONE.id).journal.exists()


def repairs(home, edition):
    """What `verify` finds wrong with the answers of a study."""
    history = History.open(home, edition)
    return wrong_answers(Outcomes(home), history, answers_of(read(home.study(edition.id).journal)[0], history))
