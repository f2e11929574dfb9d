"""The verbs that only look, as they are typed: at 80 columns no name is broken, and every kind shows its fields."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from search_spaces import library
from search_spaces.study import Ablation, Study
from service.cli import app
from service.commands.options import study_names
from service.storage.home import Home
from service.terminal import catalog, output, tables
from tests.rooms.toy import conduct
from trainables.encodings import Fourier
from trainables.recipe import Recipe, kinds
from trainables.spec import SpecError

LONG = "a-study-whose-name-is-rather-long"
STUDY = Study(
    name=LONG,
    question="Does a question of many words stay readable on a terminal that is only eighty columns wide?",
    base=Recipe(encoding=Fourier()).put({"optimizer.epochs": 3}),
    plan=Ablation({"a rather long arm name": {"encoding.gamma": 1.5}, "none": {"encoding.kind": "none"}}, "none"),
    seeds=2,
)


def typed(*words, home=None):
    done = CliRunner().invoke(app, list(words), env={"LOCUS_HOME": str(home)} if home else {})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def narrow(monkeypatch):
    def at(width):
        for module in (catalog, tables, output):
            monkeypatch.setattr(module, "console", lambda: Console(width=width, force_terminal=True, highlight=False))

    return at


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_name_is_broken(tmp_path, capsys, narrow, width):
    narrow(width)
    conduct(Home(tmp_path), STUDY.at())
    catalog.studies(as_json=False)
    text = capsys.readouterr().out
    assert all(name in text for name in library.names())
    assert all(len(line) <= width for line in plain(text).splitlines())
    tables.status_of_all([*looking_status(tmp_path)], Home(tmp_path))
    assert f"{LONG}@base" in capsys.readouterr().out
    tables.status_of_one(looking_status(tmp_path)[0], Home(tmp_path))
    text = plain(capsys.readouterr().out)
    for word in (f"{LONG}@base", "readable", "eighty", "3/3", "2/2", "val/accuracy", f"locus run {LONG}@base"):
        assert word in text
    assert "a rather long arm name" in " ".join(text.split())


def plain(text):
    return Console(width=500).render_str(text, markup=False).plain if "\x1b" not in text else strip(text)


def strip(text):
    import re

    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)


def looking_status(root):
    from service.analysis.study_status import all_status

    return all_status(Home(root))


def test_status_ends_with_the_command_that_goes_on(home, tmp_path):
    conduct(home, STUDY.at(), cut=2)
    text = typed("status", LONG, home=tmp_path)
    assert f"to go on   locus run {LONG}@base\n" in text
    conduct(home, STUDY.at())
    text = typed("status", f"{LONG}@base", home=tmp_path)
    assert f"next       locus run {LONG}@base --seeds 4\n" in text
    elsewhere = typed("status", LONG, "--home", str(tmp_path))
    assert f"locus run {LONG}@base --home {tmp_path} --seeds 4" in elsewhere


def test_every_kind_shows_its_fields():
    for node, found in kinds.nodes().items():
        for name, cls in found.items():
            text = typed("show", f"{node}.{name}")
            assert all(field.name in text and field.may_be in text for field in kinds.fields(cls)), text
            assert cls.__doc__.split()[0] in text
    assert "must be given" in typed("show", "init.from_file")
    assert "encoding.peg " in typed("show", "encoding")
    assert "AdamW" in typed("show", "optimizer")
    assert "alpha" in json.loads(typed("show", "encoding.index.piecewise", "--json"))["properties"]


def test_every_field_says_what_it_may_be():
    found = kinds.nodes()
    silent = [
        f"{node}.{name}.{field.name}"
        for node, each in found.items()
        for name, cls in each.items()
        for field in kinds.fields(cls)
        if not field.may_be
    ]
    assert silent == []


def test_a_kind_that_is_none_is_one_sentence():
    with pytest.raises(SpecError, match=r"encoding must be of a kind .*peg.*, got 'pegg'"):
        kinds.kind("encoding.pegg")
    with pytest.raises(SpecError, match="encoding must be followed by a kind"):
        kinds.kind("encoding")
    with pytest.raises(SpecError, match=r"a kind must be one of a recipe's, such as encoding.peg"):
        kinds.kind("encodings.peg")


def test_show_takes_a_budget_and_values():
    assert "optimizer.epochs  " in typed("show", "fourier-gamma", "--all")
    text = typed("show", "fourier-gamma", "--budget", "smoke", "--set", "optimizer.lr=0.007")
    assert "0.007" in text
    smoke = library.find("fourier-gamma").at("smoke").study.base
    assert f"data.train_size {smoke.data.train_size}" in " ".join(text.split())


def test_show_folds_what_is_a_default():
    """What is shown and the count of the rest are the whole recipe; what the study or the user names is shown."""
    for name in ("fourier-gamma", "atlas"):
        study = library.find(name)
        shown, whole = base_recipe("show", name), base_recipe("show", name, "--all")
        (rest,) = [line for line in shown if line.endswith("--all shows them")]
        shown.remove(rest)
        assert f"and {len(whole) - len(shown)} defaults" in rest
        assert {*shown} < {*whole}
        differs = Recipe().identity()["data"] != study.base.identity()["data"]
        assert any(line.startswith("data.") for line in shown) == differs
    assert base_recipe("show", "fourier-gamma")[:2] == ["encoding.kind fourier", "encoding.gamma 2.5"]
    mine = ("--set", "model.drop_path=0", "--set", "optimizer.lr=0.001")
    assert {"model.drop_path 0", "optimizer.lr 0.001"} < {*base_recipe("show", "cifar-baselines", *mine)}
    assert "model.drop_path 0" not in base_recipe("show", "cifar-baselines")
    own = json.loads(typed("show", "fourier-gamma", "--json"))
    assert own == library.find("fourier-gamma").plain()


def base_recipe(*words):
    """The lines below "base recipe", one blank between words."""
    text = typed(*words).partition("\nbase recipe\n")[2].partition("\n\n")[0]
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_version_and_names_for_the_shell(tmp_path, monkeypatch):
    assert typed("--version").startswith("locus ")
    conduct(Home(tmp_path), STUDY.at())
    monkeypatch.setenv("LOCUS_HOME", str(tmp_path))
    assert study_names("a-st") == [f"{LONG}@base"]
    assert study_names("fourier-g") == ["fourier-gamma"]


def test_sizes_are_those_of_the_editions():
    """They are read from the budgets, for an edition takes long to build."""
    for name in library.names():
        study = library.find(name)
        for budget, size in catalog.sizes(study).items():
            built = study.at(budget).study
            trials = len(built.plan.arms) if isinstance(built.plan, Ablation) else built.plan.trials
            assert size == f"{trials} x {built.seeds}", f"{name}@{budget}"


def test_a_study_of_axes_shows_them_and_not_each_combination() -> None:
    text = typed("show", "atlas")
    assert "encoding (12)" in text
    assert "task (7)" in text
    assert "84 arms, one a combination" in text
    assert "peg, direction" not in text.partition("base recipe")[0]
    assert "without from scratch, cait; from scratch, convit;" in typed("show", "concat-transfer")


@pytest.mark.parametrize(("name", "budget"), [("fourier-gamma", "smoke"), ("absolute", "cpu")])
def test_show_of_a_budget_has_its_own_counts(name, budget):
    study = library.find(name).at(budget).study
    count = len(study.plan.arms) if isinstance(study.plan, Ablation) else study.plan.trials
    (lines,) = (part.split("\n\n")[0] for part in typed("show", name, "--budget", budget).split("budgets (")[1:])
    told = [line.split()[0] for line in lines.splitlines()[1:] if " x " in line]
    assert told == [budget]
    assert f"; {count} x {study.seeds}" in " ".join(lines.split())
