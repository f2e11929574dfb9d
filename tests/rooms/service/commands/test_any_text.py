"""Whatever text a person types, a verb answers or refuses in a sentence, and touches nothing outside the home."""

import io
import os
import re
import sys
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command

from service import cli
from tests.rooms.by_hand import ablated

pytestmark = pytest.mark.usefixtures("words_only")

OUTSIDE = "../../other/studies/encodings@base"
"""A study of another home, seen from the folder of this home's studies."""
ODD = [
    "", " ", ".", "..", "../..", "/", "/etc/passwd", "~", "~x", "a/b", "a@b", "@", "encodings@", "@small", "[bold]",
    "[/]", "%s", "{}", "\\", "'", '"', "$HOME", "-", "--", "a\nb", "é", "名", "\u202e", "x" * 300, "1e999", "nan",
    "inf", "0", "-1", "1.5", "null", "true", "[]", "[1,", '{"kind":1}', "{'a': 1}", "a=b=c", "=", "encoding.kind",
    "encoding.kind=peg", "encoding.kind=", "optimizer.lr=x", "optimizer.lr=nan", "optimizer.epochs=9999999999999999999",
    "encoding=[]", "encoding.gamma.x=1", "data.image_size=-3", "model.depth=1e3", "study.json", "./", "./no.py",
    "mine.py:", ":x", "http://127.0.0.1:1", "sqlite:///../x.db", OUTSIDE, f"x/../{OUTSIDE}",
]  # fmt: skip
PARTS = ["encoding", "kind", ".", "=", "peg", "0", "[", "]", "@", "/", "direction"]
TEXT = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30),
    st.lists(st.sampled_from(PARTS), max_size=6).map("".join),
)  # fmt: skip
NAME = st.one_of(st.sampled_from(["encodings", "encodings@base", "direction"]), TEXT)
VERBS: dict[str, list] = {
    "show": [("--set", TEXT), ("--budget", TEXT)],
    "plan": [("--set", TEXT), ("--budget", TEXT), ("--seeds", TEXT), ("--name", TEXT), ("--hours", TEXT)],
    "export": [("--csv", None)], "logs": [("--run", TEXT)], "check": [("--set", TEXT)], "forget": [("--yes", None)],
    "status": [], "report": [], "stop": [], "verify": [], "rerun": [],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _built_once():
    """Builds the commands once: each call of Typer's app would build all of them again."""
    with mock.patch.object(cli, "app", get_command(cli.app)):
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    around = tmp_path_factory.mktemp("around")
    for name in ("home", "other"):
        ablated(around / name)
    return around / "home"


def outside(home) -> list:
    """The files beside a home, with their content."""
    return [(path, path.read_bytes()) for path in sorted((home.parent / "other").rglob("*")) if path.is_file()]


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_verb_answers_or_refuses_in_a_sentence(capsys, home, verb, data):
    before, code = outside(home), 0
    words = [verb, data.draw(NAME, label="name")]
    for option, values in VERBS[verb]:
        if data.draw(st.booleans(), label=option):
            words += [option] if values is None else [option, data.draw(values, label=f"value of {option}")]
    capsys.readouterr()
    typed = mock.patch.object(sys, "argv", ["locus", *words]), mock.patch.object(sys, "stdin", io.StringIO())
    with mock.patch.dict(os.environ, {"LOCUS_HOME": str(home)}), typed[0], typed[1]:
        try:
            cli.main()
        except SystemExit as error:
            code = int(error.code or 0)
    text = "".join(capsys.readouterr())
    assert code in (0, 1, 2) or (verb, code) == ("forget", 130), text
    assert "Traceback" not in text, text
    assert outside(home) == before, "nothing is touched outside the home"
    assert code != 2 or re.search(r"\w", text), "a refusal has words"
