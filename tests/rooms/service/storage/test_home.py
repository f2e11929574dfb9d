"""Where everything lies, whole files, what is removed, and addresses of MLflow, whose credentials are hidden."""

import os
import shutil
from pathlib import Path

import pytest

from service.analysis.study_result import StudyResult
from service.storage.facts import Counts, line_of
from service.storage.home import (
    Home,
    check_removable,
    has_options,
    has_secrets,
    remove_member,
    tracking_uri,
    without_secrets,
)
from service.tracking.store import MlflowError
from service.tracking.sync import check
from tests.rooms.by_hand import ablated
from trainables.spec import LocusError, SpecError
from trainables.whole_files import rename_durably, write_whole

SECRET = "s3cret"


def test_the_home_is_as_given_else_from_the_environment_else_in_the_users(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCUS_HOME", "env")
    assert Home.find("given").root == tmp_path / "given"
    assert Home.find().root == tmp_path / "env"
    monkeypatch.delenv("LOCUS_HOME")
    assert Home.find().root == Path("~/.locus").expanduser()
    assert Home.find("~/other").root == Path("~/other").expanduser()


def test_every_file_has_its_place(home: Home, tmp_path: Path) -> None:
    study, root = home.study("reach@cpu~3f9a"), tmp_path / "studies" / "reach@cpu~3f9a"
    assert (study.study, study.journal, study.lock) == (root / "study.json", root / "journal.jsonl", root / "lock")
    assert (study.report, study.work("key", "code", 2)) == (root / "report", root / "work" / "key" / "code" / "2")
    assert (home.tracking, home.artifacts) == (f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts")


def test_a_copy_that_lost_the_times_of_files_keeps_the_order_in_which_studies_ran(tmp_path: Path) -> None:
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    assert home.ids() == []
    for began, id in enumerate(["c@cpu", "b@cpu", "a@cpu"]):
        write_whole(home.study(id).study, "{}")
        os.utime(home.study(id).study, (began, began))
        facts = [Counts(seeds=1, time=time).plain() for time in (began, began + 0.5)]
        write_whole(home.study(id).journal, b"".join(map(line_of, facts)) + b'{"time": 9, "torn')
    home.study("no-study").root.mkdir()
    assert home.ids() == ["c@cpu", "b@cpu", "a@cpu"]
    for id in home.ids():
        shutil.copytree(home.study(id).root, copy.study(id).root, copy_function=shutil.copyfile)
    assert copy.ids() == home.ids()
    with home.study("c@cpu").journal.open("wb") as journal:
        journal.write(line_of(Counts(seeds=2, time=99).plain()))
    assert home.ids() == ["c@cpu", "b@cpu", "a@cpu"], "of two that run now, the one that began last stays the latest"
    for damaged in (b"", b"garbage\n", b"[]\n", b'{"time":[]}\n', b"\n"):
        copy.study("c@cpu").journal.write_bytes(damaged)
        assert copy.ids() == ["b@cpu", "a@cpu", "c@cpu"]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError("no space left")

    path = tmp_path / "deep" / "file.json"
    write_whole(path, "first")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "second, longer")
    assert path.read_text() == "first"


def test_a_finished_file_is_moved_to_its_place(tmp_path: Path, monkeypatch) -> None:
    source, target, fsync = tmp_path / "weights.pt", tmp_path / "kept" / "w.pt", os.fsync
    source.write_bytes(b"123")
    order: list[tuple[bool, bool]] = []

    def noted(descriptor: int) -> None:
        order.append((os.path.samestat(os.fstat(descriptor), target.parent.stat()), target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    rename_durably(source, target)
    assert target.read_bytes() == b"123"
    assert not source.exists()
    assert order == [(False, False), (True, True)], "its bytes before its name, and then the names of the folder"


def test_no_name_leads_out_of_a_folder_and_a_link_goes_without_what_it_leads_to(tmp_path: Path) -> None:
    outcomes, victim = tmp_path / "outcomes", tmp_path / "victim"
    for folder in (outcomes / "answer", victim):
        folder.mkdir(parents=True)
        (folder / "thesis.tex").write_text("years of work")
    for name in (str(victim), "../victim", "answer/../../victim", "..", ".", "", "answer/thesis.tex", "a\0b"):
        for act in (
            lambda name: remove_member(outcomes, name),
            lambda name: remove_member(outcomes, "answer", name),
            lambda name: check_removable(outcomes, name),
        ):
            with pytest.raises(LocusError, match="what is removed must lie directly in"):
                act(name)
    assert {path.name for path in tmp_path.rglob("*")} == {"outcomes", "answer", "victim", "thesis.tex"}
    for names in (("link",), ("link", "thesis.tex")):
        (outcomes / "link").symlink_to(victim)
        check_removable(outcomes, "link")
        remove_member(outcomes, *names)
        assert not (outcomes / "link").is_symlink()
    (outcomes / "answer" / "link").symlink_to(victim)
    remove_member(outcomes, "answer", "thesis.tex")
    assert [path.name for path in (outcomes / "answer").iterdir()] == ["link"]
    for _ in range(2):
        remove_member(outcomes, "answer")
    assert [*outcomes.iterdir()] == []
    assert (victim / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize(
    "uri", [f"https://bob:{SECRET}@mlflow", f"https://{SECRET}@mlflow:443/x", f"http://mlflow/?password={SECRET}"]
)
def test_a_server_with_credentials_is_refused_and_they_are_not_repeated(uri, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for given in (uri, None):
        with pytest.raises(SpecError, match=r"must hold no credentials.*MLFLOW_TRACKING_PASSWORD") as info:
            tracking_uri(given)
        assert SECRET not in str(info.value)


def test_the_password_of_a_database_is_hidden_and_other_addresses_stay(tmp_path: Path) -> None:
    for text, hidden in [
        (f"postgresql://bob:{SECRET}@host/db", "postgresql://bob:***@host/db"),
        (f"postgresql+psycopg2://bob:{SECRET}@h:5432/db?x=1", "postgresql+psycopg2://bob:***@h:5432/db?x=1"),
        (f"mysql://bob:{SECRET}/@host", "mysql://bob:***@host"),
        (f"no postgresql://h/db?user=bob&password={SECRET} now", "no postgresql://h/db?user=bob&password=*** now"),
        (f"postgresql://bob:p@{SECRET}@host/db", "postgresql://bob:***@host/db"),
    ]:
        assert without_secrets(text) == hidden
    for uri in ["https://mlflow:5000/x", "sqlite:///runs/a@b/mlflow.db", "http://127.0.0.1:5000/?a=b"]:
        assert tracking_uri(uri) == without_secrets(uri) == uri
        assert not has_secrets(uri)
    with pytest.raises(MlflowError, match="got 'postgre://bob:") as info:
        check(Home(tmp_path), f"postgre://bob:{SECRET}@host/db")
    assert SECRET not in str(info.value)
    result = StudyResult.open(Home(tmp_path), ablated(tmp_path), f"postgresql://bob:{SECRET}@host/db")
    assert result.mlflow_url == "postgresql://bob:***@host/db"


def test_a_storage_has_no_part_that_may_hold_a_secret() -> None:
    for uri, has in [
        ("s3://bucket/locus", False),
        ("abfs://container@account.dfs.core.windows.net/locus", False),
        ("abfs://user:word@account/locus", True),
        ("s3://key:word@bucket/locus", True),
        ("s3://key@bucket/locus", True),
        ("simplecache::s3://key:word@bucket/locus", True),
        ("s3://bucket/locus?aws_secret_access_key=word", True),
    ]:
        assert has_options(uri) is has
