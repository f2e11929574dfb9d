"""`locus export`: the runs as CSV and the results as LaTeX, as the report's folder has them."""

import csv
import io
import re

import pytest
import typer
from typer.testing import CliRunner

from service.cli import app, main
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ablated
from trainables.spec import LocusError

pytestmark = pytest.mark.usefixtures("words_only")

RUN = CliRunner()


def typed(*words):
    done = RUN.invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_report_says_the_answer_and_where_the_page_is(tmp_path):
    id = ablated(tmp_path)
    result = Result.open(Home(tmp_path), id)
    page = Home(tmp_path).study(id).report / "report.html"
    said = typed("report", id, "--home", str(tmp_path)).splitlines()
    assert said[:3] == [f"study      {id}", result.headline, f"report     {page}"]


def test_csv_has_a_row_a_run(tmp_path):
    id = ablated(tmp_path)
    rows = list(csv.DictReader(io.StringIO(typed("export", id, "--csv", "--home", str(tmp_path)))))
    table = Result.open(Home(tmp_path), id).table()
    assert len(rows) == len(table)
    assert [row["key"] for row in rows] == list(table["key"])
    known = [(row["test/accuracy"], value) for row, value in zip(rows, table["test/accuracy"], strict=True)]
    assert all(float(text) == value for text, value in known if text)


def test_which_study_it_is_stands_beside_the_numbers(tmp_path):
    id = ablated(tmp_path)
    done = RUN.invoke(app, ["export", id.partition("@")[0], "--csv", "--home", str(tmp_path)])
    assert done.stderr == f"study {id}\n"


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path):
    id = ablated(tmp_path)
    done = RUN.invoke(app, ["export", id, "--csv", "--to", str(tmp_path / "no" / "x.csv"), "--home", str(tmp_path)])
    assert isinstance(done.exception, LocusError)
    assert "--to must be a file that can be written, got" in str(done.exception)


def test_a_question_that_nobody_answers_removes_nothing(tmp_path):
    id = ablated(tmp_path)
    done = RUN.invoke(app, ["forget", id, "--home", str(tmp_path)], input="")
    assert done.exit_code == 130
    assert "nothing was removed; --yes removes without asking" in done.output
    assert Home(tmp_path).ids() == [id]


def test_latex_is_the_table_of_the_report(tmp_path):
    id = ablated(tmp_path)
    file = tmp_path / "table.tex"
    assert typed("export", id, "--latex", "--to", str(file), "--home", str(tmp_path)).strip() == str(file)
    result = Result.open(Home(tmp_path), id)
    result.report()
    assert file.read_text() == result.latex()
    assert file.read_text() == (Home(tmp_path).study(id).report / "table-results.tex").read_text()


def test_columns_of_latex_are_chosen_by_the_names_of_the_help(tmp_path):
    id = ablated(tmp_path)
    chosen = typed("export", id, "--latex", "--columns", "name, score", "--home", str(tmp_path))
    assert r"arm & mean $\pm$ SD \\" in chosen
    result = Result.open(Home(tmp_path), id)
    (known,) = (option for option in typer.main.get_command(app).commands["export"].params if option.name == "columns")
    for column in measured(result).columns:
        assert re.search(rf"\b{column.name}\b", known.help), column.name
    for words, said in (
        (["--latex", "--columns", ""], "columns must be of name, score,"),
        (["--csv", "--columns", "p"], "--columns must stand beside --latex, got 'p' without it"),
    ):
        assert said in str(RUN.invoke(app, ["export", id, *words, "--home", str(tmp_path)]).exception)


def test_one_thing_must_be_asked_for(tmp_path, monkeypatch, capsys):
    id = ablated(tmp_path)
    for words in ([], ["--csv", "--latex"]):
        monkeypatch.setattr("sys.argv", ["locus", "export", id, *words, "--home", str(tmp_path)])
        with pytest.raises(SystemExit, match="2"):
            main()
        assert capsys.readouterr().err == "locus: export must be told one of --csv, --latex, --model and --register\n"
