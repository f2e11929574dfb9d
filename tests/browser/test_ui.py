"""What someone who only knows MLflow sees from the links of `locus ui`."""

from __future__ import annotations

import html
import json
import re

import pytest

from search_spaces.study import Edition
from service.results import Result
from service.storage.editions import stored
from service.storage.home import Home
from service.storage.journal import read
from service.tracking.server import find_links, serve, server
from service.tracking.sync import MlflowSync
from service.tracking.views import Links
from tests.browser.chromium import Chromium, has
from tests.ports import held_port
from tests.rooms.by_hand import ablated, searched
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.browser


def show(home: Home, id: str, tracking: str | None = None) -> tuple[Edition, Links | None]:
    edition = stored(home, id)
    report = Result.open(home, id).report().parent
    shown = MlflowSync(edition, home, tracking)
    shown.open()
    for fact in read(home.study(id).journal)[0]:
        shown.add(fact)
    links = shown.links(LIMIT_S) if tracking else None
    assert shown.close("FINISHED", report) is None
    return edition, links


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """A search and an ablation in MLflow, a server, a browser, and where pictures go."""
    home = Home(tmp_path_factory.mktemp("home"))
    search, ablation = (show(home, make(home.root))[0] for make in (searched, ablated))
    pictures = tmp_path_factory.mktemp("pictures")
    with (
        held_port() as port,
        Chromium(tmp_path_factory.mktemp("profile")) as browser,
        server(home, port),
    ):
        address = f"http://127.0.0.1:{port}"
        yield browser, pictures, find_links(home, search, address), find_links(home, ablation, address)


def order(text: str, names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: text.index(name))


def test_trials_best_first_with_the_path_that_varies(window):
    browser, pictures, links, _ = window
    ranked = ["c3 gamma=1.74", "c9 gamma=2.31", "c0 gamma=2.5"]  # the confirmed answers, then the points
    ranked += ["#03 gamma=1.74", "#09 gamma=2.31", "#00 gamma=2.5", "#08 gamma=0.8", "#06 gamma=4.1", "#05 gamma=8.4"]
    columns = ("role", "confirmation", "locus.score", "locus.test", "locus.best", "encoding.gamma", "val/accuracy_mean")
    shown = has("#02 gamma=31.2", *ranked, *columns, "best", "0.9950 ± 0.0020 (n 3)", "13 matching runs")
    text = browser.look(links.trials, shown, pictures / "mlflow-trials.png")
    assert order(text, ranked) == ranked


def test_runs_grouped_by_trial(window):
    browser, pictures, _, links = window
    shown = has("fourier seed 0", "Group by: trial", "Group: fourier", "30 matching runs")
    text = browser.look(links.runs, shown, pictures / "mlflow-runs.png")
    assert re.sub(r"\s+", " ", text).count("30 matching runs") == 1


def test_the_views_are_in_the_menu_and_the_plain_page_links_the_trials(window):
    browser, pictures, links, _ = window
    plain = links.trials.partition("&viewState")[0]
    press = "button.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true, cancelable: true, button: 0}))"
    closed = "one.innerText.trim() === 'Views' && one.dataset.state !== 'open'"
    button = f"const button = [...document.querySelectorAll('button')].find(one => {closed})"
    views = ("trials, best first", "runs by trial", "runs, flat")
    names = [f"reach@base: {view}" for view in views]
    listed = f"(() => {{ {button}; if (button) {press}; return {has(*names)} }})()"
    browser.look(plain, listed, pictures / "mlflow-menu.png")
    target = json.dumps(links.trials.partition("/#")[2])
    there = f"[...document.querySelectorAll('a')].some(one => one.getAttribute('href')?.endsWith({target}))"
    browser.look(plain, f"{there} && {has('Trials, best first')}", pictures / "mlflow-plain.png")


def test_runs_flat_are_rows_with_their_numbers(window):
    browser, pictures, links, _ = window
    rows = ["#03 seed 1", "#09 seed 0", "#08 seed 0"]
    text = browser.look(links.flat, has("c0 seed 1001", "29 matching runs", *rows), pictures / "mlflow-flat.png")
    assert order(text, rows) == rows


def test_a_sweep_has_its_charts_and_nothing_beside(window):
    browser, pictures, links, _ = window
    charts = ("encoding.gamma vs. val/accuracy_mean", "time/train_s vs. val/accuracy_mean")
    shown = has("Parallel Coordinates", "mean over seeds (6)", *charts)
    drawn = f"{shown} && document.querySelectorAll('.js-plotly-plot').length >= 5"
    text = browser.look(links.trials + "&compareRunsMode=CHART", drawn, pictures / "mlflow-sweep.png")
    assert "val/accuracy_n" not in text


def test_mean_curves_of_arms_in_one_chart(window):
    browser, pictures, _, links = window
    lines = "document.querySelectorAll('.js-plotly-plot .scatterlayer .trace').length >= 6"
    shown = f"{lines} && {has('curves', 'val/accuracy', 'Group: fourier')}"
    browser.look(links.runs + "&compareRunsMode=CHART", shown, pictures / "mlflow-curves.png")


def test_what_failed_and_why(window):
    browser, pictures, _, links = window
    shown = has("locus.reason", "CUDA error: out of memory")
    browser.look(links.trials, shown, pictures / "mlflow-arms.png")


def test_the_report_lies_on_the_parent(window):
    browser, pictures, links, _ = window
    shown = has("best/val/accuracy_mean", "Which gamma lets Fourier features tell left from right?")
    browser.look(links.parent, shown, pictures / "mlflow-study.png")
    page = links.parent.replace("?", "/artifacts/report/report.html?")
    shown = f"document.querySelector('iframe') !== null && {has('report/report.html')}"
    browser.look(page, shown, pictures / "mlflow-report.png")


def test_a_served_store_shows_the_same_and_gives_its_links_early(window, tmp_path):
    browser, pictures, links, _ = window
    address = links.trials.partition("/#/")[0]
    home = Home(tmp_path)
    id = ablated(home.root)  # the same study once more, from another home
    edition, early = show(home, id, address)
    assert not (home.root / "mlflow.db").exists()
    browser.look(early.trials, has("relative bias", "6 matching runs"), pictures / "served.png")
    report = Result.open(home, id, address).report().read_text()
    assert all(html.escape(link) in report for link in (early.trials, early.runs, early.parent))
    said: list[str] = []
    serve(home, None, tracking=address, note=said.append)
    assert said[:2] == [f"MLflow: {address}/#/experiments?workflowType=machine_learning", edition.id]
    assert [line.split()[-1] for line in said[2:]] == [early.trials, early.runs, early.flat, early.parent]
