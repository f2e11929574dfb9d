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
from service.storage.facts import FORM, content_of, line_of
from service.storage.home import Home
from service.storage.journal import FormError, Journal, JournalError, cut, read
from service.storage.outcomes import Outcomes
from tests.rooms.by_hand import ablated, searched
from trainables.spec import LocusError
from trainables.whole_files import sealed, unsealed

ID = "reach@base"
NEWER = {"form": FORM + 1, "version": "7.1"}


def plain(lines: list[dict]) -> bytes:
    """Lines as they were before they had checksums."""
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def summed(lines: list[dict]) -> bytes:
    return b"".join(map(line_of, lines))


def without_by(lines: list[dict]) -> list[dict]:
    return [{name: value for name, value in line.items() if name != "by"} for line in lines]


FORMS: dict[str, tuple[Callable[[list[dict]], bytes], str]] = {
    "newer, and no later line can be read": (
        lambda lines: summed([lines[0] | NEWER | {"cluster": "x"}, *(line | {"more": 1} for line in lines[1:])]),
        f"got form {FORM + 1} of locus 7.1: use that locus, or locus run {ID} --as WORD",
    ),
    "continued by a newer one": (
        lambda lines: summed([*lines, lines[0] | NEWER | {"by": 2}]),
        f"got form {FORM + 1} of locus 7.1: use that locus",
    ),
    "older": (
        lambda lines: plain(without_by(lines[1:])),
        f"got form none of an older locus: use that locus, or locus run {ID} --as WORD",
    ),
    "zero": (
        lambda lines: plain([lines[0] | {"form": 0, "version": "0.1"}, *lines[1:]]),
        "got form 0 of locus 0.1: use that locus",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    searched(root)
    ablated(root)
    return root


@pytest.fixture
def home(sound: Path, tmp_path: Path) -> Home:
    """Two studies, to be spoiled."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return Home(tmp_path)


def lines_of(home: Home) -> list[dict]:
    lines = home.study(ID).journal.read_bytes().splitlines(keepends=True)
    return [json.loads(content_of(line) or line) for line in lines]


@pytest.mark.parametrize("name", FORMS)
def test_every_reader_and_every_command_says_it(home, name) -> None:
    change, sentence = FORMS[name]
    folder, root = home.study(ID), str(home.root)
    folder.journal.write_bytes(change(lines_of(home)))
    before = folder.journal.read_bytes()
    options = RunOptions(home=root)
    looks: list[Callable[[], object]] = [
        lambda: Journal(folder.journal, folder.lock).__enter__(),
        lambda: cut(folder.journal, folder.lock),
        lambda: api.result(ID, home=root),
        lambda: api.forget(ID, home=root),
        lambda: api.here(editions.stored(home, ID), options),
    ]
    for look in looks:
        with pytest.raises(FormError, match=re.escape(sentence)):
            look()
    for words in (("status", ID), ("report", ID), ("logs", ID), ("verify", ID, "--repair"), ("run", ID), ("plan", ID)):
        done = CliRunner().invoke(app, [*words, "--home", root])
        assert isinstance(done.exception, FormError), words
        assert sentence in str(done.exception), words
    done = CliRunner().invoke(app, ["verify", ID, "--home", root])
    assert done.exit_code == 1
    assert sentence.split(":")[0] in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["status", "--home", root])
    assert done.exit_code == 0
    assert "encodings@base" in done.output
    assert sentence in done.output.replace("\n", "")
    assert folder.journal.read_bytes() == before
    assert not folder.journal.with_name("journal.jsonl.damaged").exists()
    assert not folder.driven

    history, estimate = api.plan(api.resolve(ID, home=root, version="again"), options)
    assert history.edition.id == "reach@base~again"
    assert estimate.to_train
    assert folder.journal.read_bytes() == before


def test_a_line_that_is_no_fact_is_no_other_form(home: Home) -> None:
    for lines, number in (
        ([*lines_of(home)[:5], {"fact": "teleported", "form": 7}], 6),
        ([{"fact": "opened", "form": FORM}], 1),
    ):
        home.study(ID).journal.write_bytes(summed(lines))
        with pytest.raises(
            JournalError, match=rf"line {number}, is no fact: .*--repair cuts the journal there"
        ) as info:
            read(home.study(ID).journal)
        assert not isinstance(info.value, FormError)


def test_a_study_and_an_answer_of_another_locus_name_their_files(home: Home) -> None:
    def written_by_another(path: Path, change: Callable[[dict], dict]) -> str:
        path.write_bytes(sealed(change(json.loads(unsealed(path.read_bytes())))))
        return rf"^{re.escape(str(path))} cannot be read \({{}}.*\); use the locus that wrote it"

    path = home.study(ID).study
    whole = path.read_bytes()
    for change, why in (
        (lambda values: values | {"planet": "Mars"}, "no field 'planet'"),
        (lambda values: {name: value for name, value in values.items() if name != "budget"}, "budget must be given"),
    ):
        path.write_bytes(whole)
        with pytest.raises(editions.EditionError, match=written_by_another(path, change).format(why)):
            api.result(ID, home=str(home.root))
    path.write_bytes(whole)

    keys = {fact.get("run") for fact in lines_of(home)}
    path = next(path for path in home.outcomes.glob("*/*.json") if path.parent.name in keys)
    sentence = written_by_another(path, lambda values: values | {"planet": "Mars"}).format("no field 'planet'")
    key, name = path.parent.name, path.stem
    for look in (
        Outcomes(home).get,
        lambda *_: api.verify(ID, home=str(home.root)),
        lambda *_: api.repair(ID, home=str(home.root)),
    ):
        with pytest.raises(LocusError, match=sentence.partition(";")[0]):
            look(key, name)
    assert json.loads(path.read_text())["planet"] == "Mars", "it is not set aside as damaged"
