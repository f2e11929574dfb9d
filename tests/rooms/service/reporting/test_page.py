"""The page of a report: its numbers, links and addresses, and how it was run."""

import html
import re

import pytest

from service.reporting.files import write
from service.reporting.links import linked, linked_markdown
from service.reporting.provenance import code_rows, seed_rows, surroundings
from service.results import Result
from service.storage.home import Home
from service.tracking.views import Links
from tests.rooms.by_hand import ByHand, ablated, searched


@pytest.fixture(scope="module")
def search(tmp_path_factory) -> Result:
    root = tmp_path_factory.mktemp("search")
    return Result.open(Home(root), searched(root))


def test_figures_and_tables_are_numbered_in_their_order(search):
    page = html.unescape(search.report().read_text())
    for word in ("Figure", "Table"):
        found = re.findall(rf'<a href="#{word.lower()}-[a-z]+">{word} (\d+)\.</a>', page)
        assert found == [str(number + 1) for number in range(len(found))]
        assert len(found) >= 4
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\sid="([^"]+)"', page))


def test_the_study_in_mlflow_is_linked(search):
    links = Links("http://host/#/experiments/1/runs?a=1&b=2", "http://host/#/b", "http://host/#/d", "http://host/#/c")
    page = search.report(links).read_text()
    assert page.count('<a href="http://host/#/experiments/1/runs?a=1&amp;b=2">MLflow: trials</a>') == 2
    assert (
        "[MLflow: the study](http://host/#/c)"
        in write(search, {"the study": "http://host/#/c"}).with_name("report.md").read_text()
    )
    assert "MLflow: trials" not in search.report().read_text(), "the store of the home has no address"


def test_a_server_that_is_away_is_no_link_and_no_error(tmp_path):
    id = searched(tmp_path)
    result = Result.open(Home(tmp_path), id, "http://127.0.0.1:9/#/experiments/1/runs/2")
    assert "MLflow: trials" not in result.report().read_text()


def test_papers_are_linked_by_their_numbers():
    text = "Chu & al. (arXiv:2102.10882), (doi:10.1007/s11063-024-11539-7), see https://a.b/c?d=1&e=2."
    assert re.findall(r'href="([^"]+)"', linked(text)) == [
        "https://arxiv.org/abs/2102.10882", "https://doi.org/10.1007/s11063-024-11539-7", "https://a.b/c?d=1&amp;e=2",
    ]  # fmt: skip
    assert linked(text).startswith("Chu &amp; al. (<a")
    assert "[arXiv:2102.10882](https://arxiv.org/abs/2102.10882)" in linked_markdown(text)
    assert linked('<b> "no" reference') == "&lt;b&gt; &#34;no&#34; reference"


def test_how_it_was_run_names_seeds_and_explains_workers(search, tmp_path, monkeypatch):
    assert seed_rows(search) == [("seeds", "0, 1, 2"), ("seeds of the confirmation", "1000, 1001, 1002")]
    known = {"workers": 0, "host_cpu": "Xeon", "host_memory_gib": 23.6, "ray": "2.60.0"}
    first = ByHand.complete
    monkeypatch.setattr(ByHand, "complete", lambda self, *args, **odd: first(self, *args, **odd | known))
    rows = {name: value for name, value, _ in surroundings(Result.open(Home(tmp_path), searched(tmp_path)))}
    assert rows["workers a run"] == "0 (each run in one process)"
    assert (rows["CPU"], rows["memory (GiB)"], rows["Ray"], rows["PyTorch"]) == ("Xeon", "23.6", "2.60.0", "2.15.0")


def test_digests_of_code_are_short_and_folded(tmp_path):
    result = Result.open(Home(tmp_path), ablated(tmp_path))
    codes = code_rows(result)
    assert all(re.fullmatch(r"[0-9a-f]{7}", code) for code, _ in codes)
    assert sorted(name for _, names in codes for name in re.findall("“(.*?)”", names)) == sorted(result.named)
    page = result.report().read_text()
    folded = re.search(r"<details><summary>Code that trained.*?</details>", page, flags=re.DOTALL)[0]
    assert all(code in folded for code, _ in codes)


def test_files_of_figures_that_are_gone_are_removed(tmp_path):
    result = Result.open(Home(tmp_path), searched(tmp_path))
    folder = result.report().parent
    for name in ("sides.svg", "table-parents.tex", "mine.svg"):
        (folder / name).write_text("old")
    result.report()
    assert not (folder / "sides.svg").exists()
    assert not (folder / "table-parents.tex").exists()
    assert (folder / "mine.svg").exists(), "what is not ours stays"
