"""`locus compare`, as it is typed: one page of a terminal, the same as a page of HTML, JSON for programs."""

import json
import os
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

from search_spaces.trial import Score
from service.analysis.format import metric_words
from service.api import compare
from service.cli import app
from service.reporting import pages
from service.terminal import output, summaries
from tests.rooms.by_hand import ablated, base
from tests.rooms.service.analysis.test_comparison import ARMS, study, write
from tests.rooms.service.commands.test_looking_verbs import strip

RUN = CliRunner()
LIGHT = """
import contextlib, io, sys
from service.cli import main
sys.argv = ["locus", "compare", "encodings", "other"]
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main()
    except SystemExit as exit:
        assert not exit.code
heavy = ("torch", "timm", "ray", "mlflow", "optuna", "numpy", "pandas", "scipy", "matplotlib", "sklearn")
print([name for name in heavy if name in sys.modules])
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Six arms of five seeds at two rates, one seed diverged and one failed: 59 runs."""
    root = tmp_path_factory.mktemp("home")
    ablated(root)
    write(root, study(ARMS, name="other", base=base().put({"optimizer.lr": 0.1})).at(), {"peg": 0.93})
    return root


def typed(home, *words):
    done = RUN.invoke(app, ["compare", *words, "--home", str(home)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(home, width, monkeypatch, capsys):
    for module in (summaries, output):
        monkeypatch.setattr(module, "console", lambda: Console(width=width, highlight=False, force_terminal=True))
    found = compare("encodings", "other", home=str(home))
    summaries.comparison(found, found.headline, found.notes, None)
    text = strip(capsys.readouterr().out)
    assert all(len(line) <= width for line in text.splitlines())
    for name in (*ARMS, "optimizer.lr", "encodings@base", "other@base", "95 % interval", "5 pairs", "4 pairs"):
        assert name in text
    for gap in found.differences.values():
        assert f"{gap.mean:+.4f}".replace("-", "\N{MINUS SIGN}") in text


def test_what_differs_comes_before_the_scores(home):
    text = typed(home, "encodings", "other")
    assert text.index("optimizer.lr") < text.index("B - A") < text.index("page")
    page = next(line.split()[-1] for line in text.splitlines() if line.startswith("page"))
    assert page.endswith("encodings@base/report/compare-other@base.html")
    assert os.path.getsize(page) > 5000


def test_json_has_the_numbers_and_writes_nothing(home):
    before = sorted(home.rglob("*.html"))
    found = json.loads(typed(home, "other", "encodings", "--json"))
    back = json.loads(typed(home, "encodings", "other", "--json"))
    assert sorted(home.rglob("*.html")) == before
    pairs = zip(found["trials"], back["trials"], strict=True)
    assert all(one["difference"] == pytest.approx(-other["difference"]) for one, other in pairs)
    assert found["changes"][0] == {"what": "optimizer.lr", "a": "0.1", "b": "0.001"}


def test_studies_of_different_metrics_have_each_their_own_head(tmp_path, capsys):
    write(tmp_path, study().at(), {})
    distances = study(name="distances", base=base().put({"data.task": "distance"}), score=Score("val/r2"))
    write(tmp_path, distances.at(), {})
    found = compare("encodings", "distances", home=str(tmp_path))
    a, b = metric_words("test/accuracy"), metric_words("test/r2")
    table = pages.scores(found)
    assert [column.full_head for column in table.columns[1:3]] == [f"{a}, A", f"{b}, B"]
    assert table.title == "The scores of 3 trials of both"
    summaries.comparison(found, found.headline, found.notes, None)
    assert f"A: {a}; B: {b}" in strip(capsys.readouterr().out)
    assert (found.plain()["metric"], found.plain()["metric_b"]) == ("test/accuracy", "test/r2")


def test_it_imports_nothing_heavy(home):
    env = {**os.environ, "LOCUS_HOME": str(home), "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, env=env)
    assert done.stdout.strip() == "[]", done.stderr
