import html
import re
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import pandas as pd
import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Search, Study
from search_spaces.words import configuration
from service.analysis.format import number, p_text, percent, signed
from service.reporting.provenance import circumstances, cost_columns
from service.reporting.results_table import measured
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ENVIRONMENT, ByHand, ablated, base, edit_lines, searched
from trainables.data import Cifar10
from trainables.encodings import Composed, Fourier, Learnable
from trainables.recipe import Recipe
from trainables.recipe.cost import estimate_cost


def test_the_files_of_a_report(reported_search, reported_ablation):
    of_search = (
        {"landscape", "history", "trials", "differences", "curves"},
        {"results", "points", "rungs", "unfinished", "space"},
    )
    of_ablation = {"trials", "differences", "curves"}, {"results", "unfinished", "arms"}
    for one, (drawn, tables) in ((reported_search, of_search), (reported_ablation, of_ablation)):
        folder = one.result.home.study(one.result.edition.id).report
        assert one.page == folder / "report.html"
        expected = {"report.html", "results.csv", "trials.csv", "files.json"}
        expected |= {f"{name}.{end}" for name in drawn for end in ("svg", "pdf")}
        expected |= {f"table-{name}.{end}" for name in tables | {"settings", "recipe"} for end in ("csv", "tex")}
        assert {path.name for path in folder.iterdir()} == expected


def test_a_page_needs_nothing_else(reported_search, reported_ablation):
    for path in (reported_search.page, reported_ablation.page):
        page = path.read_text()
        assert re.findall(r'src="([^"]+)"|url\((?!#)([^)]+)\)|@import|<script|<link', page) == []
        for name in re.findall(r'(?<!xlink:)href="(?!#|http)([^"]+)"', page):
            assert (path.parent / name).is_file(), "a page links to files beside it"
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        for used in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page):
            assert set(filter(None, used)) <= set(ids)


def test_a_page_says_what_was_found(reported_ablation):
    result, path = reported_ablation.result, reported_ablation.page
    page = path.read_text()
    for text in (
        result.edition.study.question,
        "Inconclusive",
        "0.9964 ± 0.0032",
        "CUDA error: out of memory",
        "diverged in epoch 5",
        "Only 4 of 5 seeds of “relative bias” have an answer.",
        "one block here, as in the thesis",
        "mixed: 1 (",
        "4/5",
        "optimizer.epochs",
        "encoding.kind = sinusoidal",
    ):
        assert text in page
    assert f"{result.best.test.mean:.4f}" in page
    assert page.count('class="strong"') == 1
    assert result.headline in html.unescape(page)


def test_what_users_write_is_escaped(tmp_path):
    wild = Study(**{**dict(searched_two()), "question": "Is a < b & c?", "gaps": ("<script>no</script>", "a|b")})
    page = two(tmp_path, wild).report().read_text()
    assert "Is a &lt; b &amp; c?" in page
    assert "<script>" not in page
    assert "not confirmed on fresh seeds" in page


def test_the_figures_are_figures(reported_search, reported_ablation):
    for page in (reported_search.page, reported_ablation.page):
        for path in page.parent.glob("*.svg"):
            root = ElementTree.parse(path).getroot()
            assert root.tag.endswith("svg")
            assert len(list(root.iter())) > 60
    trials = reported_ablation.page.with_name("trials.svg").read_text()
    for arm in ("none", "learnable", "sinusoidal", "fourier", "peg", "relative bias", "chance", "test accuracy"):
        assert f">{arm}</text>" in trials
    landscape = reported_search.page.with_name("landscape.svg").read_text()
    for mark in ("all seeds", "stopped early", "diverged", "a seed failed", "#9 on fresh seeds"):
        assert f">{mark}</text>" in landscape


def test_writing_twice_writes_the_same(reported_search):
    result, page = reported_search.result, reported_search.page
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;'), "a notebook shows it"
    assert pd.read_csv(page.with_name("results.csv"))["key"].tolist() == result.table()["key"].tolist()
    before = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    Result.open(result.home, result.edition.id).report()
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before


def test_the_configuration_names_what_differs():
    settings_of = {said.path: said for said in configuration(base())}
    assert settings_of["optimizer.epochs"].default == "10"
    assert settings_of["encoding.kind"].default == "none"
    assert settings_of["optimizer.lr"].default is None
    assert settings_of["encoding.features"].value == "none"
    parts = base().put({"encoding": Composed((Learnable(), Fourier(gamma=3.0)))})
    assert {said.path: said.value for said in configuration(parts)}["encoding.parts.1.gamma"] == "3"
    assert {said.path for said in configuration(parts) if said.default} > {"encoding.parts.0.kind"}
    few = {said.path: said for said in configuration(Recipe(data=Cifar10(train_size=1000)))}
    assert (few["data.train_size"].value, few["data.train_size"].default) == ("1000", "none")
    assert few["data.val_size"].default is None


def test_mixed_circumstances_are_counted(ablation):
    found = circumstances(ablation)
    assert found["torch"] == {ENVIRONMENT["torch"]: 29}
    assert found["threads"] == {"1": 24, "2": 5}


def test_answers_of_other_code_are_said_not_to_count(tmp_path):
    id = ablated(tmp_path)
    journal = Home(tmp_path).study(id).journal
    opened = Result.open(Home(tmp_path), id)
    keys = "|".join(run.run.key for run in opened.named["none"].runs.values())
    edit_lines(journal, lambda line: re.sub(rf'("run":"(?:{keys})","code":)"\w+"', r'\1"0123456789ab"', line))
    result = Result.open(Home(tmp_path), id)
    assert (opened.stale, result.stale) == (0, 5)
    assert "5 answers of other code that do not count" in result.headline
    assert "Not counted: 5 answers of other code; locus run trains what is missing." in result.report().read_text()


def test_numbers_as_people_read_them():
    assert [number(value) for value in (0.99, 0.9961, 0.5, 1.0, -0.02)] == ["0.99", "0.9961", "0.50", "1.00", "−0.02"]
    assert (signed(-0.01), signed(0.01)) == ("−0.0100", "+0.0100")
    ps = {0.00001: "< 0.0001", 0.00137: "= 0.0014", 0.0123: "= 0.012", 0.456: "= 0.46"}
    assert {p: p_text(p) for p in ps} == ps
    levels = {0.95: "95 %", 0.98333: "98.3 %", 0.9996: "99.96 %", 1.0: "100 %"}
    assert {level: percent(level) for level in levels} == levels


@pytest.mark.parametrize("make", [searched, ablated])
def test_a_report_can_be_written_at_any_moment(make, tmp_path):
    id = make(tmp_path)
    journal = Home(tmp_path).study(id).journal
    lines = journal.read_text().splitlines(keepends=True)
    for count in (0, 1, 3, len(lines) // 8, len(lines) // 2, len(lines) - 1):
        journal.write_text("".join(lines[:count]))
        result = Result.open(Home(tmp_path), id)
        page = html.unescape(result.report().read_text())
        assert result.headline in page
        assert not re.search(r"\bnan\b", page, flags=re.IGNORECASE)


POINTS = (
    {"encoding.kind": "fourier", "encoding.gamma": 1.5, "optimizer.lr": 0.001},
    {"encoding.kind": "peg", "optimizer.lr": 0.01},
    {"encoding.kind": "fourier", "encoding.gamma": 9.0, "optimizer.lr": 0.003},
)


def searched_two() -> Study:
    gamma = {"encoding.gamma": Real(low=0.1, high=40.0, log=True)}
    domains = {"encoding.kind": Choice(("fourier", "peg")), "optimizer.lr": Real(low=1e-4, high=0.1, log=True)}
    plan = Search(space=Space(domains, {"encoding.kind": {"fourier": gamma}}), trials=3)
    return Study(name="two", question="Which kind, how fast?", base=base(), plan=plan)


def two(root, study: Study) -> Result:
    edition = study.at(seeds=1, trials=3)
    with ByHand(root, edition) as hand:
        for number, values in enumerate(POINTS):
            hand.complete(hand.plan("trial", number, values), 0, 0.6 + number / 10, 0.6)
    return Result.open(Home(root), edition.id)


def test_parameters_stand_where_arms_differ_in_them(ablation):
    result = ablation
    weights = {row.name: estimate_cost(row.recipe) for row in result.of("trial")}
    table = measured(result)
    assert [column.head for column in table.columns][-2:] == ["time (s)", "parameters"], "all of them learn"
    assert table.columns[-1].cells == [f"{weight.parameters:,}" for weight in weights.values()]
    rows = [
        SimpleNamespace(recipe=Recipe(encoding=Fourier(), trainable=learns), runs={}, median_cost=lambda cost: None)
        for learns in ("all", "position+head")
    ]
    (learnt,) = cost_columns(rows)
    assert (learnt.head, learnt.cells) == ("learnt", ["57,698", "4,386"]), "the models are as large as each other"
