"""Files of a newer or an older locus: one sentence says which file, and what to do; nothing of them is changed."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service import api
from service.cli import app
from service.planning.run_options import RunOptions
from service.storage import editions
from service.storage.facts import FORM, Counts, content_of, line_of
from service.storage.home import Home
from service.storage.journal import FormError, Journal, JournalError, cut, read
from service.storage.outcomes import Outcomes
from tests.rooms.by_hand import ablated, searched
from trainables.spec import LocusError
from trainables.whole_files import sealed, unsealed

ID = "reach@base"
RUN = CliRunner()


def lines_of(home: Home) -> list[dict]:
    lines = home.study(ID).journal.read_bytes().splitlines(keepends=True)
    return [json.loads(content_of(line) or line) for line in lines]


def put(home: Home, lines: list[dict]) -> None:
    home.study(ID).journal.write_bytes(b"".join(map(line_of, lines)))


def newer(home: Home) -> str:
    """Another form, whose first fact has a field more, and whose later lines nobody here can read."""
    first, *others = lines_of(home)
    put(home, [first | {"form": FORM + 1, "version": "7.1", "cluster": "x"}, *(line | {"more": 1} for line in others)])
    return f"got form {FORM + 1} of locus 7.1: use that locus, or locus run {ID} --as WORD"


def continued_by_a_newer_one(home: Home) -> str:
    opened = lines_of(home)[0] | {"by": 2, "form": FORM + 1, "version": "7.1"}
    put(home, [*lines_of(home), opened])
    return f"got form {FORM + 1} of locus 7.1: use that locus"


def older(home: Home) -> str:
    lines = [{name: value for name, value in line.items() if name != "by"} for line in lines_of(home)[1:]]
    home.study(ID).journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return f"got form none of an older locus: use that locus, or locus run {ID} --as WORD"


def form_zero(home: Home) -> str:
    """Before lines had checksums."""
    first, *others = lines_of(home)
    lines = [first | {"form": 0, "version": "0.1"}, *others]
    home.study(ID).journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return "got form 0 of locus 0.1: use that locus"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    searched(root)
    ablated(root)
    return root


@pytest.fixture(params=[newer, continued_by_a_newer_one, older, form_zero], ids=lambda one: one.__name__)
def told(sound: Path, tmp_path: Path, request) -> tuple[Home, str]:
    """A home with a study whose journal is of another form, beside a sound one; and a part of the sentence."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return Home(tmp_path), request.param(Home(tmp_path))


def typed(home: Home, *words: str):
    return RUN.invoke(app, [*words, "--home", str(home.root)])


def test_every_reader_says_it(told) -> None:
    home, sentence = told
    folder, before = home.study(ID), home.study(ID).journal.read_bytes()
    looks: list[Callable[[], object]] = [
        lambda: read(folder.journal),
        lambda: Journal(folder.journal, folder.lock).__enter__(),
        lambda: cut(folder.journal, folder.lock),
        lambda: api.repair(ID, home=str(home.root)),
        lambda: api.result(ID, home=str(home.root)),
        lambda: api.forget(ID, home=str(home.root)),
        lambda: api.here(editions.stored(home, ID), RunOptions(home=str(home.root))),
        lambda: api.plan(editions.stored(home, ID), RunOptions(home=str(home.root))),
        lambda: [*_events(home)],
    ]
    for look in looks:
        with pytest.raises(FormError, match=re.escape(sentence)):
            look()
    (check,) = api.verify(ID, home=str(home.root))
    assert not check.ok
    assert sentence in check.detail
    assert folder.journal.read_bytes() == before
    assert not folder.journal.with_name("journal.jsonl.damaged").exists()
    assert not folder.driven


def _events(home: Home):
    from service.terminal.live import events

    return events(home, ID)


def test_every_command_says_it_without_a_traceback(told) -> None:
    home, sentence = told
    for words in (("status", ID), ("report", ID), ("logs", ID), ("verify", ID, "--repair"), ("run", ID), ("plan", ID)):
        done = typed(home, *words)
        assert isinstance(done.exception, FormError), words
        assert sentence in str(done.exception), words
    done = typed(home, "verify", ID)
    assert done.exit_code == 1
    assert "must be of form" in done.output
    done = typed(home, "status")
    assert done.exit_code == 0
    assert "encodings@base" in done.output
    assert f"{ID} cannot be read: " in done.output
    assert sentence in done.output.replace("\n", "")


def test_another_edition_leaves_it(told) -> None:
    home, _ = told
    before = home.study(ID).journal.read_bytes()
    again = api.resolve(ID, home=str(home.root), edition="again")
    history, estimate = api.plan(again, RunOptions(home=str(home.root)))
    assert history.edition.id == "reach@base~again"
    assert estimate.to_train
    assert home.study(ID).journal.read_bytes() == before


def test_a_line_that_is_no_fact_is_no_other_form(home: Home, tmp_path: Path) -> None:
    searched(tmp_path)
    put(home, [*lines_of(home)[:5], {"fact": "teleported", "form": 7}])
    with pytest.raises(JournalError, match=r"line 6, is no fact: .*--repair cuts the journal there") as info:
        read(home.study(ID).journal)
    assert not isinstance(info.value, FormError)
    put(home, [{"fact": "opened", "form": FORM}])
    with pytest.raises(JournalError, match="line 1, is no fact"):
        read(home.study(ID).journal)


def test_a_journal_with_both_is_not_cut(home: Home, tmp_path: Path) -> None:
    """The line that is no fact comes first; what a newer locus wrote behind it would be lost."""
    searched(tmp_path)
    newest = lines_of(home)[0] | {"by": 2, "form": FORM + 1}
    put(home, [*lines_of(home)[:5], {"fact": "teleported"}, newest])
    with pytest.raises(FormError):
        cut(home.study(ID).journal, home.study(ID).lock)
    assert len(lines_of(home)) == 7


def test_an_empty_journal_has_no_form(tmp_path: Path) -> None:
    path = tmp_path / "reach@cpu" / "journal.jsonl"
    path.parent.mkdir()
    path.touch()
    assert read(path) == ([], False)
    with Journal(path, path.with_name("lock")) as journal:
        journal.write(Counts(seeds=3))
    assert [fact.fact for fact in read(path)[0]] == ["opened", "counts"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda plain: plain | {"planet": "Mars"}, "no field 'planet'"),
        (lambda plain: {name: value for name, value in plain.items() if name != "budget"}, "budget must be given"),
    ],
    ids=["a field more", "a field less"],
)
def test_a_study_of_another_locus_names_its_file(home: Home, tmp_path: Path, spoil, why: str) -> None:
    searched(tmp_path)
    path = home.study(ID).study
    path.write_bytes(sealed(spoil(json.loads(unsealed(path.read_bytes())))))
    sentence = (
        rf"^{re.escape(str(path))} cannot be read \({why}.*\); use the locus that wrote it, or start the study again"
    )
    with pytest.raises(editions.EditionError, match=sentence):
        editions.stored(home, ID)
    assert isinstance(typed(home, "report", ID).exception, editions.EditionError)


def test_an_answer_of_another_locus_names_its_file(home: Home, tmp_path: Path) -> None:
    searched(tmp_path)
    path = next(home.outcomes.glob("*/*.json"))
    key, name, whole = path.parent.name, path.stem, json.loads(unsealed(path.read_bytes()))
    path.write_bytes(sealed(whole | {"planet": "Mars"}))
    for look in (lambda: Outcomes(home).get(key, name), lambda: api.verify(ID, home=str(home.root))):
        with pytest.raises(
            LocusError, match=rf"^{re.escape(str(path))} cannot be read \(no field 'planet'.*\); use the"
        ):
            look()
    with pytest.raises(LocusError, match="cannot be read"):
        api.repair(ID, home=str(home.root))
    assert json.loads(path.read_text())["planet"] == "Mars", "it is not set aside as damaged"
