"""A lab's machines, all real: PostgreSQL, `deploy/mlflow/serve`, two Ray nodes with a token, a browser.

A study is submitted, looked at in MLflow's pages, and examined by doctor. Pictures are kept in the folder that
LOCUS_PICTURES names.
"""

import html
import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from mlflow.tracking import MlflowClient

from service.storage import editions
from service.storage.home import Home
from service.tracking import views
from service.tracking.store import look_up
from tests.browser.chromium import Chromium, has, require_chromium
from tests.deploy.mlflow_served import ADMIN, USER, WORD, mlflow_served
from tests.e2e.postgres import postgres
from tests.faults.killed import ended, facts
from tests.journeys.cluster import cluster_of_two
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal
from tests.rooms.service.tracking.facts import packed, unpacked

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
ID = "waves@long"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """What a laptop knows of the lab, and what it printed when its study had ended."""
    require_chromium()
    with (
        postgres() as database,
        mlflow_served(database, tmp_path_factory.mktemp("mlflow")) as tracking,
        cluster_of_two(**USER) as cluster,
        Terminal(tmp_path_factory.mktemp("laptop"), **cluster.token) as laptop,
    ):
        (laptop.folder / "study.py").write_text(ENCODINGS)
        home = tmp_path_factory.mktemp("shared") / "home"
        at = ("--address", cluster.address)
        size = ("--budget", "long", "--seeds", "2")
        sent = laptop.do("submit", "./study.py", *size, "--home", str(home), "--tracking", tracking, *at)
        followed = laptop.type("logs", ID, *at, "-f")
        doctor = laptop.type("doctor", *at)
        yield Home(home), tracking, sent, followed, doctor


@pytest.fixture(scope="module")
def window(lab, tmp_path_factory):
    """A browser that has signed in, where pictures go, and the addresses of the study."""
    home, tracking, *_ = lab
    with pytest.MonkeyPatch.context() as patch:
        for name, value in USER.items():
            patch.setenv(name, value)
        store = look_up(home, editions.stored(home, ID), tracking)
        grouped = _group_by_encoding(store, MlflowClient(tracking))
    pictures = Path(os.environ.get("LOCUS_PICTURES") or tmp_path_factory.mktemp("pictures"))
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.look(
            tracking.replace("//", f"//{ADMIN}:{WORD}@"), "document.body.innerText.length > 20", pictures / "in.png"
        )
        (pictures / "in.png").unlink()
        yield browser, pictures, views.links(store, tracking), grouped


def _group_by_encoding(store, client) -> str:
    """The address of the runs grouped by `encoding.kind`, as a person chooses it in MLflow's menu."""
    tags = client.get_experiment(store.experiment).tags
    known = views.PREFIX + views.name(store.home, store.study, "runs")
    state = unpacked(tags[known])
    state["groupBy"]["groupByKeys"] = [{"mode": "param", "groupByData": "encoding.kind"}]
    told = tags[known].replace(re.search(r'"state": "([^"]+)"', tags[known]).group(1), packed(state))
    client.set_experiment_tag(store.experiment, f"{views.PREFIX}by-encoding", told)
    return f"viewStateShareKey={quote('by-encoding')}"


def test_the_study_is_sent_trained_and_answered(lab):
    home, tracking, sent, followed, _ = lab
    assert followed.code == 0, followed.out + followed.err
    assert len(ended(facts(home.root, ID))) == 6
    assert WORD not in sent.out + followed.out, "no password is shown"
    assert (home.study(ID).report / "report.html").exists()
    assert not (home.root / "mlflow.db").exists(), "the runs went to the server"
    assert html.escape(tracking) in (home.study(ID).report / "report.html").read_text()


def test_doctor_finds_nothing_wrong(lab):
    *_, doctor = lab
    assert doctor.code == 0, doctor.out + doctor.err


def test_the_study_and_its_report_lie_on_its_run(window):
    browser, pictures, links, _ = window
    browser.look(links.parent, has("best/val/accuracy_mean", ID), pictures / "lab-study.png")
    page = links.parent.replace("?", "/artifacts/report/report.html?")
    browser.look(page, "document.querySelector('iframe') !== null", pictures / "lab-report.png")


def test_its_trials_and_their_runs_are_rows(window):
    browser, pictures, links, _ = window
    browser.look(links.trials, has("sine", "3 matching runs"), pictures / "lab-trials.png")
    browser.look(links.runs, has("seed 0", "Group by: trial"), pictures / "lab-runs.png")


def test_its_runs_are_grouped_by_encoding(window):
    browser, pictures, links, grouped = window
    address = re.sub(r"viewStateShareKey=[^&]+", grouped, links.runs)
    shown = has("Group by: encoding.kind", "Group: none", "Group: sinusoidal")
    browser.look(address, shown, pictures / "lab-encodings.png")
