"""The verbs that only look, as they are typed: at 80 columns no name is broken, and what they print agrees."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from search_spaces import library
from search_spaces.study import Ablation, Study
from search_spaces.trial import Score
from service.analysis.format import metric_words
from service.analysis.study_status import all_status
from service.api import compare
from service.cli import app
from service.commands.options import study_names
from service.reporting import pages
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from service.terminal import catalog, output, views
from tests.house.sources import ROOT
from tests.house.test_light import HEAVY, STUDY
from tests.rooms.by_hand import ablated, base
from tests.rooms.service.analysis.test_comparison import ARMS, study, write
from tests.rooms.toy import conduct
from trainables.encodings import Fourier
from trainables.recipe import Recipe, kinds
from trainables.spec import LocusError, SpecError

LONG = "a-study-whose-name-is-rather-long"
OWN = Study(
    name=LONG,
    question="Does a question of many words stay readable on a terminal that is only eighty columns wide?",
    base=Recipe(encoding=Fourier()).put({"optimizer.epochs": 3}),
    plan=Ablation({"a rather long arm name": {"encoding.gamma": 1.5}, "none": {"encoding.kind": "none"}}, "none"),
    seeds=2,
)


def typed(*words, home=None):
    done = CliRunner().invoke(app, list(words), env={"LOCUS_HOME": str(home)} if home else {})
    assert done.exit_code == 0, done.output
    return done.stdout


def strip(text):
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Six arms of five seeds at two rates, one seed diverged and one failed: 59 runs."""
    root = tmp_path_factory.mktemp("home")
    ablated(root)
    write(root, study(ARMS, name="other", base=base().put({"optimizer.lr": 0.1})).at(), {"peg": 0.93})
    return root


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_name_is_broken(tmp_path, compared, capsys, monkeypatch, width):
    for module in (catalog, views, output):
        monkeypatch.setattr(module, "console", lambda: Console(width=width, force_terminal=True, highlight=False))
    conduct(Home(tmp_path), OWN.at())
    catalog.studies(as_json=False)
    text = strip(capsys.readouterr().out)
    assert all(name in text for name in library.names())
    assert all(len(line) <= width for line in text.splitlines())
    states = all_status(Home(tmp_path))
    views.status_of_all([*states], Home(tmp_path))
    assert f"{LONG}@base" in capsys.readouterr().out
    views.status_of_one(states[0], Home(tmp_path))
    text = strip(capsys.readouterr().out)
    for word in (f"{LONG}@base", "readable", "eighty", "3/3", "2/2", "val/accuracy", f"locus run {LONG}@base"):
        assert word in text
    assert "a rather long arm name" in " ".join(text.split())

    found = compare("encodings", "other", home=str(compared))
    views.comparison(found, found.headline, found.notes, None)
    text = strip(capsys.readouterr().out)
    assert all(len(line) <= width for line in text.splitlines())
    for name in (*ARMS, "optimizer.lr", "encodings@base", "other@base", "95 % interval", "5 pairs", "4 pairs"):
        assert name in text
    for gap in found.differences.values():
        assert f"{gap.mean:+.4f}".replace("-", "\N{MINUS SIGN}") in text


def test_status_ends_with_the_command_that_goes_on(home, tmp_path):
    conduct(home, OWN.at(), cut=2)
    assert f"to go on   locus run {LONG}@base\n" in typed("status", LONG, home=tmp_path)
    conduct(home, OWN.at())
    assert f"next       locus run {LONG}@base --seeds 4\n" in typed("status", f"{LONG}@base", home=tmp_path)
    elsewhere = typed("status", LONG, "--home", str(tmp_path))
    assert f"locus run {LONG}@base --home {tmp_path} --seeds 4" in elsewhere


def test_every_kind_shows_its_fields_and_what_they_may_be():
    for node, found in kinds.nodes().items():
        for name, cls in found.items():
            text = typed("show", f"{node}.{name}")
            fields = kinds.fields(cls)
            assert all(field.may_be and field.name in text and field.may_be in text for field in fields), text
            assert cls.__doc__.split()[0] in text
    assert "must be given" in typed("show", "init.from_file")
    assert "encoding.peg " in typed("show", "encoding")
    assert "AdamW" in typed("show", "optimizer")
    assert "alpha" in json.loads(typed("show", "encoding.index.piecewise", "--json"))["properties"]
    for kind, must in (
        ("encoding.pegg", r"encoding must be of a kind .*peg.*, got 'pegg'"),
        ("encoding", "encoding must be followed by a kind"),
        ("encodings.peg", r"a kind must be one of a recipe's, such as encoding.peg"),
    ):
        with pytest.raises(SpecError, match=must):
            kinds.kind(kind)


def base_recipe(*words):
    """The lines below "base recipe", one blank between words."""
    text = typed("show", *words).partition("\nbase recipe\n")[2].partition("\n\n")[0]
    return [" ".join(line.split()) for line in text.splitlines()]


def test_show_folds_what_is_a_default():
    """What is shown and the count of the rest are the whole recipe; what the study or the user names is shown."""
    for name in ("fourier-gamma", "atlas"):
        shown, whole = base_recipe(name), base_recipe(name, "--all")
        (rest,) = [line for line in shown if line.endswith("--all shows them")]
        shown.remove(rest)
        assert f"and {len(whole) - len(shown)} defaults" in rest
        assert {*shown} < {*whole}
        differs = Recipe().identity()["data"] != library.find(name).base.identity()["data"]
        assert any(line.startswith("data.") for line in shown) == differs
    assert base_recipe("fourier-gamma")[:2] == ["encoding.kind fourier", "encoding.gamma 2.5"]
    mine = ("--set", "model.drop_path=0", "--set", "optimizer.lr=0.001")
    assert {"model.drop_path 0", "optimizer.lr 0.001"} < {*base_recipe("cifar-baselines", *mine)}
    assert "model.drop_path 0" not in base_recipe("cifar-baselines")
    assert json.loads(typed("show", "fourier-gamma", "--json")) == library.find("fourier-gamma").plain()


@pytest.mark.parametrize(("name", "budget"), [("fourier-gamma", "smoke"), ("absolute", "cpu")])
def test_show_of_a_budget_has_its_own_values_and_counts(name, budget):
    study = library.find(name).at(budget).study
    count = len(study.plan.arms) if isinstance(study.plan, Ablation) else study.plan.trials
    text = typed("show", name, "--budget", budget, "--set", "optimizer.lr=0.007", "--all")
    assert "0.007" in text
    assert f"data.train_size {study.base.data.train_size}" in " ".join(text.split())
    (lines,) = (part.split("\n\n")[0] for part in typed("show", name, "--budget", budget).split("budgets (")[1:])
    assert [line.split()[0] for line in lines.splitlines()[1:] if " x " in line] == [budget]
    assert f"; {count} x {study.seeds}" in " ".join(lines.split())


def test_sizes_are_those_of_the_editions():
    """They are read from the budgets, for an edition takes long to build."""
    for name in library.names():
        study = library.find(name)
        for budget, size in catalog.sizes(study).items():
            built = study.at(budget).study
            trials = len(built.plan.arms) if isinstance(built.plan, Ablation) else built.plan.trials
            assert size == f"{trials} x {built.seeds}", f"{name}@{budget}"


def test_a_study_of_axes_shows_them_and_not_each_combination() -> None:
    text = typed("show", "concat-vs-add")
    for words in ("backbone (5)", "table (3)", "15 arms, one a combination"):
        assert words in text
    assert "vit, added, " not in text.partition("base recipe")[0]
    assert "without from scratch, cait; from scratch, convit;" in typed("show", "concat-transfer")


def test_compare_is_a_page_and_json_and_both_have_what_differs_first(compared):
    text = typed("compare", "encodings", "other", home=compared)
    assert text.index("optimizer.lr") < text.index("B - A") < text.index("page")
    page = next(line.split()[-1] for line in text.splitlines() if line.startswith("page"))
    assert page.endswith("encodings@base/report/compare-other@base.html")
    assert os.path.getsize(page) > 5000
    before = sorted(compared.rglob("*.html"))
    found = json.loads(typed("compare", "other", "encodings", "--json", home=compared))
    back = json.loads(typed("compare", "encodings", "other", "--json", home=compared))
    assert sorted(compared.rglob("*.html")) == before
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
    views.comparison(found, found.headline, found.notes, None)
    assert f"A: {a}; B: {b}" in strip(capsys.readouterr().out)
    assert (found.plain()["metric"], found.plain()["metric_b"]) == ("test/accuracy", "test/r2")


COMPLETES = """
import contextlib, io, json, os, sys
from service.cli import main
told = []
for words in json.loads(sys.argv[1]):
    os.environ |= {"COMP_WORDS": "\\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    told.append(out.getvalue().split("\\n")[:-1])
os.environ.pop("_LOCUS_COMPLETE")
sys.argv = ["locus", "compare", "encodings", "other", "--home", sys.argv[2]]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(json.dumps([told, [name for name in HEAVY if name in sys.modules]]))
"""
RUN = ("locus", "run", "fourier-gamma")
COMPLETED = [
    ((*RUN, "--budget", ""), ["smoke", "cpu"]),
    ((*RUN, "--budget", "s"), ["smoke"]),
    (("locus", "re"), ["report", "rerun", "record"]),
    (("locus", "plan", "fourier-g"), ["fourier-gamma"]),
    (("locus", "run", "./tiny.py", "--budget", ""), [""]),
    (("locus", "run", "nothing", "--budget", ""), [""]),
]


def test_a_shell_completes_names_and_budgets_lightly_and_compare_is_light_too(tmp_path, compared, monkeypatch):
    """As bash asks behind Tab: nothing is written or run."""
    (tmp_path / "tiny.py").write_text(f"{STUDY}\nopen('ran', 'w').close()\n")
    before = sorted(tmp_path.rglob("*"))
    env = {"LOCUS_HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    code, words = COMPLETES.replace("HEAVY", repr(HEAVY)), json.dumps([words for words, _ in COMPLETED])
    done = subprocess.run(
        [sys.executable, "-c", code, words, str(compared)],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | env | {"_LOCUS_COMPLETE": "complete_bash"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[expected for _, expected in COMPLETED], []]
    assert sorted(tmp_path.rglob("*")) == before
    assert typed("--version").startswith("locus ")
    conduct(Home(tmp_path), OWN.at())
    monkeypatch.setenv("LOCUS_HOME", str(tmp_path))
    assert study_names("a-st") == [f"{LONG}@base"]


def test_numbers_are_exported_as_the_report_s_folder_has_them(tmp_path, words_only):
    id = ablated(tmp_path)
    result, folder = Result.open(Home(tmp_path), id), Home(tmp_path).study(id).report
    answer = typed("report", id, home=tmp_path).splitlines()
    assert answer[:3] == [f"study      {id}", result.headline, f"report     {folder / 'report.html'}"]
    table = result.table()
    rows = list(csv.DictReader(io.StringIO(typed("export", id, "--csv", home=tmp_path))))
    assert [row["key"] for row in rows] == list(table["key"])
    scores = [(row["test/accuracy"], value) for row, value in zip(rows, table["test/accuracy"], strict=True)]
    assert all(float(text) == value for text, value in scores if text)
    file = tmp_path / "table.tex"
    assert typed("export", id, "--latex", "--to", str(file), home=tmp_path).strip() == str(file)
    assert file.read_text() == result.latex() == (folder / "table-results.tex").read_text()
    chosen = typed("export", id, "--latex", "--columns", "name, score", home=tmp_path)
    assert r"arm & mean $\pm$ SD \\" in chosen
    export = typer.main.get_command(app).commands["export"]
    (columns,) = (option for option in export.params if option.name == "columns")
    for column in measured(result).columns:
        assert re.search(rf"\b{column.name}\b", columns.help), column.name


def test_a_figure_is_exported_by_its_name_or_the_first(tmp_path):
    id = ablated(tmp_path)
    typed("report", id, home=tmp_path)
    folder = Home(tmp_path).study(id).report
    first, named = tmp_path / "paper.pdf", tmp_path / "differences.svg"
    for file in (first, named):
        assert typed("export", id, "--figure", str(file), home=tmp_path).strip() == str(file)
    with pytest.raises(LocusError, match="must be a new file, got one that is there; --force replaces it"):
        Result.open(Home(tmp_path), id).figure(first)
    pages = re.findall(r'<figure id="figure-([a-z-]+)"', (folder / "report.html").read_text())
    assert first.read_bytes() == (folder / f"{pages[0]}.pdf").read_bytes()
    assert pages[0] != "differences"
    text = named.read_text()
    assert re.findall(r">([^<>]+)</text>", text) == re.findall(
        r">([^<>]+)</text>", (folder / "differences.svg").read_text()
    )
    (style,) = re.findall(r"<style>(:root.*?)</style>", text, re.DOTALL)
    looks = [
        dict(re.findall(r"--([\w-]+): *(#\w+)", part)) for part in style.split("@media (prefers-color-scheme: dark)")
    ]
    used = {*re.findall(r"var\(--([\w-]+)\)", text)}
    assert used
    assert all(used <= look.keys() for look in looks), "each color has a light and a dark value"
    ElementTree.fromstring(text)


ONE = "export must be told one of --csv, --latex, --figure, --model and --register"


@pytest.mark.parametrize(("words", "sentence"), [
    ([], ONE),
    (["--csv", "--latex"], ONE),
    (["--latex", "--columns", ""], "columns must be of name, score,"),
    (["--csv", "--columns", "p"], "--columns must stand beside --latex, got 'p' without it"),
    (["--figure", "x.png"], "the file of a figure must end in .pdf or .svg, got 'x.png'"),
    (["--figure", f"{__file__}/x.pdf"], "a figure's file must be one that can be written, got"),
    (["--csv", "--to", "no/x.csv"], "--to must be a file that can be written, got"),
])  # fmt: skip
def test_an_export_that_cannot_be_is_one_sentence(tmp_path, words, sentence):
    id = ablated(tmp_path)
    done = CliRunner().invoke(app, ["export", id.partition("@")[0], *words, "--home", str(tmp_path)])
    assert isinstance(done.exception, LocusError)
    assert sentence in str(done.exception)
    assert "--to" not in words or done.stderr == f"study {id}\n", "which study it is stands beside the numbers"


def test_a_question_that_nobody_answers_removes_nothing(tmp_path):
    id = ablated(tmp_path)
    done = CliRunner().invoke(app, ["forget", id, "--home", str(tmp_path)], input="")
    assert done.exit_code == 130
    assert "nothing was removed; --yes removes without asking" in done.output
    assert Home(tmp_path).ids() == [id]
