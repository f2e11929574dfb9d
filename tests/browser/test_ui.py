"""What someone who only knows MLflow sees from the links of `locus ui`."""

from __future__ import annotations

import html
import json
import re
import socket

import pytest

from search_spaces.study import Edition
from service.results import Result
from service.storage.home import Home
from service.storage.journal import read
from service.tracking.server import find_links, serve, server
from service.tracking.sync import MlflowSync
from service.tracking.views import Links
from tests.browser.chromium import Chromium
from tests.rooms.by_hand import ablated, searched
from trainables.recipe.code_digest import CodeDigests

pytestmark = pytest.mark.browser


def show(home: Home, id: str, tracking: str | None = None) -> tuple[Edition, Links | None]:
    edition = Edition.read(json.loads(home.study(id).study.read_text()))
    report = Result.open(home, id).report().parent
    codes = CodeDigests()
    shown = MlflowSync(edition, home, lambda recipe: codes(recipe).digest, tracking)
    shown.open()
    for fact in read(home.study(id).journal)[0]:
        shown.add(fact)
    links = shown.links(30) if tracking else None
    assert shown.close("FINISHED", report) is None
    return edition, links


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """A search and an ablation in MLflow, a server, a browser, and where pictures go."""
    home = Home(tmp_path_factory.mktemp("home"))
    search, ablation = (show(home, make(home.root))[0] for make in (searched, ablated))
    pictures = tmp_path_factory.mktemp("pictures")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with server(home, port), Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser, pictures, find_links(home, search, address), find_links(home, ablation, address)


def has(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


def order(text: str, names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: text.index(name))


def test_trials_best_first_with_the_path_that_varies(window):
    browser, pictures, links, _ = window
    text = browser.look(links.trials, has("#02 gamma=31.2"), pictures / "mlflow-trials.png")
    ranked = ["c0 gamma=2.5", "c3 gamma=1.74", "c9 gamma=2.31"]  # the confirmed answers, then the points
    ranked += ["#03 gamma=1.74", "#09 gamma=2.31", "#00 gamma=2.5", "#08 gamma=0.8", "#06 gamma=4.1", "#05 gamma=8.4"]
    assert order(text, ranked) == ranked
    for column in (
        "role",
        "confirmation",
        "locus.score",
        "locus.test",
        "locus.best",
        "encoding.gamma",
        "val/accuracy_mean",
    ):
        assert column in text
    assert "best (tie)" in text
    assert "0.9947 ± 0.0015 (n 3)" in text
    assert "13 matching runs" in re.sub(r"\s+", " ", text)


def test_runs_grouped_by_trial(window):
    browser, pictures, _, links = window
    text = browser.look(links.runs, has("fourier seed 0"), pictures / "mlflow-runs.png")
    assert "Group by: trial" in text
    assert "Group: fourier" in text
    assert re.sub(r"\s+", " ", text).count("30 matching runs") == 1


def test_the_views_are_in_the_menu_and_the_plain_page_links_the_trials(window):
    browser, pictures, links, _ = window
    plain = links.trials.partition("&viewState")[0]
    press = "button.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true, cancelable: true, button: 0}))"
    closed = "one.innerText.trim() === 'Views' && one.dataset.state !== 'open'"
    button = f"const button = [...document.querySelectorAll('button')].find(one => {closed})"
    listed = f"(() => {{ {button}; if (button) {press}; return {has('reach@base: runs, flat')} }})()"
    text = browser.look(plain, listed, pictures / "mlflow-menu.png")
    for view in ("trials, best first", "runs by trial", "runs, flat"):
        assert f"reach@base: {view}" in text
        assert f"encodings@base: {view}" in text
    target = json.dumps(links.trials.partition("/#")[2])
    there = f"[...document.querySelectorAll('a')].some(one => one.getAttribute('href')?.endsWith({target}))"
    assert "Trials, best first" in browser.look(plain, there, pictures / "mlflow-plain.png")


def test_runs_flat_are_rows_with_their_numbers(window):
    browser, pictures, links, _ = window
    text = browser.look(links.flat, has("c0 seed 1001"), pictures / "mlflow-flat.png")
    assert "29 matching runs" in re.sub(r"\s+", " ", text)
    assert order(text, ["#03 seed 1", "#09 seed 0", "#08 seed 0"]) == ["#03 seed 1", "#09 seed 0", "#08 seed 0"]


def test_a_sweep_has_its_charts_and_nothing_beside(window):
    browser, pictures, links, _ = window
    drawn = f"{has('Parallel Coordinates')} && document.querySelectorAll('.js-plotly-plot').length >= 5"
    text = browser.look(links.trials + "&compareRunsMode=CHART", drawn, pictures / "mlflow-sweep.png")
    assert "mean over seeds (6)" in re.sub(r"\s+", " ", text)
    for chart in ("encoding.gamma vs. val/accuracy_mean", "time/train_s vs. val/accuracy_mean"):
        assert chart in text
    assert "val/accuracy_n" not in text


def test_mean_curves_of_arms_in_one_chart(window):
    browser, pictures, _, links = window
    lines = "document.querySelectorAll('.js-plotly-plot .scatterlayer .trace').length >= 6"
    text = browser.look(links.trials + "&compareRunsMode=CHART", lines, pictures / "mlflow-curves.png")
    assert "mean over seeds" in text
    assert "fourier (val/accuracy_mean)" in text


def test_what_failed_and_why(window):
    browser, pictures, _, links = window
    trial = "document.body.innerText.includes('locus.reason')"
    text = browser.look(links.trials, trial, pictures / "mlflow-arms.png")
    assert "CUDA error: out of memory" in text


def test_the_report_lies_on_the_parent(window):
    browser, pictures, links, _ = window
    text = browser.look(links.parent, has("best/val/accuracy_mean"), pictures / "mlflow-study.png")
    assert "Which gamma lets Fourier features tell left from right?" in text
    page = links.parent.replace("?", "/artifacts/report/report.html?")
    text = browser.look(page, "document.querySelector('iframe') !== null", pictures / "mlflow-report.png")
    assert "report/report.html" in text


def test_a_served_store_shows_the_same_and_gives_its_links_early(window, tmp_path):
    browser, pictures, links, _ = window
    address = links.trials.partition("/#/")[0]
    home = Home(tmp_path)
    id = ablated(home.root)  # the same study once more, from another home
    edition, early = show(home, id, address)
    assert not (home.root / "mlflow.db").exists()
    text = browser.look(early.trials, has("relative bias"), pictures / "served.png")
    assert "6 matching runs" in re.sub(r"\s+", " ", text)
    report = Result.open(home, id, address).report().read_text()
    assert all(html.escape(link) in report for link in (early.trials, early.runs, early.parent))
    said: list[str] = []
    serve(home, None, tracking=address, note=said.append)
    assert said[:2] == [f"MLflow: {address}/#/experiments?workflowType=machine_learning", edition.id]
    assert [line.split()[-1] for line in said[2:]] == [early.trials, early.runs, early.flat, early.parent]
