"""Every named study runs at its smallest size, from the command to the report; its claims are not judged there."""

import json
import os
import re
from pathlib import Path

import pytest

from search_spaces import library
from service.storage.home import Home
from tests.journeys.terminal import Terminal
from trainables.data import ImagesSpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4000)]
EVERY_DAY = Path(__file__).parents[2] / "service/commands/README.md"
SCORE = re.compile(r"\d\.\d{4}")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """One home for all, so that a parent of several studies is trained once; for all processes of pytest, too."""
    one_of_several = "PYTEST_XDIST_WORKER" in os.environ
    root = tmp_path_factory.getbasetemp().parent if one_of_several else tmp_path_factory.getbasetemp()
    folder = root / "studies"
    folder.mkdir(exist_ok=True)
    with Terminal(folder) as terminal:
        yield terminal


@pytest.mark.parametrize("name", library.names())
def test_a_study_runs_at_smoke(terminal, name: str) -> None:
    edition = library.find(name).at("smoke")
    if isinstance(edition.study.base.data, ImagesSpec):
        pytest.skip(f"{name} needs the images of {edition.study.base.data.kind}")
    ran = terminal.type("run", name, "--budget", "smoke", timeout_s=3600)
    assert ran.code == 0, ran.out + ran.err
    home = Home(terminal.home)
    assert (home.study(edition.id).report / "report.html").exists()
    status = terminal.type("status", edition.id, "--json")
    (found,) = json.loads(status.out)
    assert found["state"] == "done"
    assert not [row["label"] for row in found["rows"] if row["state"].startswith(("failed", "diverged"))]
    assert "SUPPORTED:" not in ran.out
    if name == "fourier-gamma":
        prints_what_the_page_shows(ran.out)
    assert ran.out.count("NOT JUDGED") == min(1, len(edition.study.claims))


def prints_what_the_page_shows(out: str) -> None:
    """Asserts that `make demo` ends as its page says, up to what "..." leaves out: words, and scores nearly.

    Another processor rounds otherwise, so a score may be off by 0.02.
    """
    sample = EVERY_DAY.read_text().split("`make demo` ends like this")[1].split("```")[1].removeprefix("text")
    out = " ".join(out.split())
    parts = [" ".join(part.split()) for part in sample.partition("\nreport ")[0].split("...")]
    assert len(parts) == 3
    for part in parts:
        begin = SCORE.sub("#.####", out).find(SCORE.sub("#.####", part))
        assert begin >= 0, f"{part}\nis not in\n{out}"
        printed = SCORE.findall(out[begin : begin + len(part)])
        assert [float(score) for score in SCORE.findall(part)] == pytest.approx([*map(float, printed)], abs=0.02)
