"""The page of a report: its numbers, links and addresses, and how it was run."""

import dataclasses
import html
import re
from pathlib import Path

import pytest

from search_spaces.study import Ablation, Study
from service.reporting import page as page_module
from service.reporting.page import page as page_of
from service.reporting.page import write_report
from service.reporting.pages import linked
from service.reporting.provenance import surroundings
from service.results import Result
from service.storage.home import WRITTEN, Home, as_written
from service.tracking.views import Links
from tests.rooms.by_hand import ByHand, base
from trainables.whole_files import write_whole


def test_figures_and_tables_are_numbered_in_their_order(reported_search):
    page = html.unescape(reported_search.page.read_text())
    for word in ("Figure", "Table"):
        found = re.findall(rf'<a href="#{word.lower()}-[a-z]+">{word} (\d+)\.</a>', page)
        assert found == [str(number + 1) for number in range(len(found))]
        assert len(found) >= 4
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\sid="([^"]+)"', page))


def small(root, arms=("one",), **given) -> Result:
    """A study of one run an arm, whose page is written soon."""
    plan = Ablation({name: {"encoding.gamma": 1.0 + place} for place, name in enumerate(arms)}, arms[0])
    edition = Study(name="small", question="?", base=base(), plan=plan, seeds=1).at()
    with ByHand(root, edition, seeds=1) as hand:
        for number, name in enumerate(arms):
            hand.complete(hand.plan("trial", number, plan.arms[name], name), 0, 0.8, 0.8, **given)
    return Result.open(Home(root), edition.id)


def test_the_study_in_mlflow_is_linked(tmp_path):
    result = small(tmp_path)
    links = Links("http://host/#/experiments/1/runs?a=1&b=2", "http://host/#/b", "http://host/#/d", "http://host/#/c")
    page = result.report(links).read_text()
    assert page.count('<a href="http://host/#/experiments/1/runs?a=1&amp;b=2">MLflow: trials</a>') == 2
    assert (
        '<a href="http://host/#/c">MLflow: the study</a>'
        in write_report(result, {"the study": "http://host/#/c"}).read_text()
    )
    assert "MLflow: trials" not in result.report().read_text(), "the store of the home has no address"
    away = Result.open(Home(tmp_path), result.edition.id, "http://127.0.0.1:9/#/experiments/1/runs/2")
    assert "MLflow: trials" not in away.report().read_text(), "a server that is away is no error"


def test_papers_are_linked_by_their_numbers():
    text = "Chu & al. (arXiv:2102.10882), (doi:10.1007/s11063-024-11539-7), see https://a.b/c?d=1&e=2."
    assert re.findall(r'href="([^"]+)"', linked(text)) == [
        "https://arxiv.org/abs/2102.10882", "https://doi.org/10.1007/s11063-024-11539-7", "https://a.b/c?d=1&amp;e=2",
    ]  # fmt: skip
    assert linked(text).startswith("Chu &amp; al. (<a")
    assert linked('<b> "no" reference') == "&lt;b&gt; &#34;no&#34; reference"


def test_how_it_was_run_names_seeds_and_explains_workers(search, tmp_path):
    first, second, *_ = surroundings(search)
    assert (first, second) == (("seeds", "0, 1, 2", False), ("seeds of the confirmation", "1000, 1001, 1002", False))
    known = {"workers": 0, "host_cpu": "Xeon", "host_memory_gib": 23.6, "ray": "2.60.0"}
    rows = {name: value for name, value, _ in surroundings(small(tmp_path, **known))}
    assert rows["workers a run"] == "0 (each run in one process)"
    assert (rows["CPU"], rows["memory (GiB)"], rows["Ray"], rows["PyTorch"]) == ("Xeon", "23.6", "2.60.0", "2.15.0")


SOURCES = [path.read_text() for path in Path(page_module.__file__).parent.rglob("*.py")]
FIGURES = sorted({name for text in SOURCES for name in re.findall(r'(?:Plot|pictured)\(\s*"(\w+)"', text)})
"""The name of every figure that a page may have."""


def test_files_that_an_earlier_page_wrote_are_removed_and_no_others(tmp_path, monkeypatch):
    assert {"channel_shapes", "logit_terms", "sides"} <= {*FIGURES}
    result = small(tmp_path)
    earlier = page_of(result, {})
    table = dataclasses.replace(earlier.tables[0], name="parents")
    drawn = [dataclasses.replace(earlier.figures[0], name=name) for name in FIGURES]
    richer = dataclasses.replace(earlier, figures=drawn, more=[*earlier.more, table])
    with monkeypatch.context() as patch:
        patch.setattr(page_module, "page", lambda *_, **__: richer)
        folder = result.report().parent
    gone = {f"{figure.name}.{end}" for figure in drawn for end in ("svg", "pdf")}
    assert {*gone, "table-parents.tex", "table-parents.csv"} <= {path.name for path in folder.iterdir()}
    (folder / "mine.svg").write_text("a user's")
    (folder / "table-mine.tex").write_text("a user's")
    (folder / "sides.svg").write_text("a user's own in the place of ours")
    (folder / "channel_shapes.pdf").unlink()
    (folder / "channel_shapes.pdf").mkdir()
    result.report()
    kept = {"mine.svg", "table-mine.tex", "sides.svg", "channel_shapes.pdf"}
    assert {path.name for path in folder.iterdir()} == kept | written(earlier)
    result.report()
    assert {path.name for path in folder.iterdir()} == kept | written(earlier), "nor by a third page"


def written(page) -> set[str]:
    """The names of the files of a page."""
    names = {"report.html", "results.csv", "trials.csv", "files.json"}
    names |= {f"{figure.name}.{end}" for figure in page.all_figures for end in ("svg", "pdf")}
    return names | {f"table-{table.name}.{end}" for table in page.tables for end in ("csv", "tex")}


def test_a_page_that_was_cut_is_known_as_such(tmp_path, monkeypatch):
    result = small(tmp_path)
    folder = result.report().parent
    assert {*as_written(folder)} == written(page_of(result, {})) - {WRITTEN}
    assert all(as_written(folder).values())
    (folder / "report.html").write_text("another is best")
    assert [name for name, sound in as_written(folder).items() if not sound] == ["report.html"]

    def cut(path, content):
        if path.name == "report.html":
            raise KeyboardInterrupt
        write_whole(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(page_module, "write_whole", cut)
        with pytest.raises(KeyboardInterrupt):
            result.report()
    assert as_written(folder) == {}
    result.report()
    assert all(as_written(folder).values())


def test_a_record_that_is_none_removes_nothing(tmp_path):
    result = small(tmp_path)
    folder = result.report().parent
    (folder / "mine.svg").write_text("a user's")
    for record in (b"", b"[]", b"\xff", b'{"mine.svg": 1, "../journal.jsonl": ""}'):
        (folder / "files.json").write_bytes(record)
        result.report()
        assert (folder / "mine.svg").exists(), record
        assert result.home.study(result.edition.id).journal.exists()
