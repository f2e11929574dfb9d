"""`locus report --watch`: pages of a study that trains meanwhile, each as the journal is, and a last one."""

import random
import re
from contextlib import ExitStack

import pytest
from typer.testing import CliRunner

from service.api import check_report
from service.cli import app
from service.reporting.figures.curves import curve_lines
from service.results import Result, watch_report
from service.storage.home import Home
from service.terminal.live import POLL_S
from tests.journeys.terminal import Terminal
from tests.rooms.by_hand import ablated, edit_lines
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import Toy, conduct, driving
from tests.waiting import until
from trainables.spec import LocusError

pytestmark = pytest.mark.usefixtures("words_only")

EVERY_S = 1
LOOKS = round(EVERY_S / POLL_S)
REFRESH = f'<meta http-equiv="refresh" content="{EVERY_S}">'
ID = arms().id


class Watched:
    """A study that trains while the watch waits, a few epochs a pause after `idle` pauses; then its driver ends."""

    def __init__(self, home: Home, stack: ExitStack, idle: int = 0) -> None:
        self.stack, self.idle, self.pauses = stack, idle, 0
        self.toy = Toy(stack.enter_context(driving(home, arms())), random.Random(0))
        self.home = home

    def pause(self, seconds: float) -> None:
        self.pauses += 1
        if self.pauses <= self.idle:
            return
        for _ in range(8):
            self.toy._fill()
            if not self.toy.workers:
                self.stack.close()
                return
            self.toy._advance(min(self.toy.workers))

    def opened(self) -> Result:
        return Result.open(self.home, ID)


def epochs(result: Result) -> int:
    return sum(run.epochs for row in result.rows for run in row.runs.values())


def test_pages_follow_a_study_to_its_end(tmp_path):
    home, pages = Home(tmp_path / "watched"), []

    def show(result, page):
        pages.append((page.read_text(), epochs(result), curve_lines(result)))

    with ExitStack() as stack:
        study = Watched(home, stack, idle=2 * LOOKS)
        last = watch_report(home.study(ID), study.opened, EVERY_S, show, study.pause)
    texts, counts, lines = zip(*pages, strict=True)
    assert counts == (0, 14, 28, 36), "no page while nothing happened"
    assert all(REFRESH in text for text in texts[:-1])
    far = [re.search(r"The study is running: (.*) The page loads", text)[1] for text in texts[:-1]]
    missing = "Seeds are missing, so no arm is best yet."
    assert "time left unknown" in far[0]
    assert re.fullmatch(rf"\d of 6 runs, about \d\d:\d\d left. {missing}", far[2])
    assert 'class="strong"' not in texts[2]
    assert 'class="strong"' in texts[-1]
    assert texts[2].index("The study is running") < texts[2].index('class="lead"'), "first how far"
    assert not any(word in texts[-1] for word in ("http-equiv", "The study is running"))
    assert [len(line.values) for line in lines[1]] == [6, 6, 2], "two runs have ended, and one has two of its epochs"
    assert all(row.validation.complete for row in last.rows)
    conduct(alone := Home(tmp_path / "alone"), arms())
    kinds = [[fact.fact for fact in facts(one, arms())] for one in (home, alone)]
    assert sorted(kinds[0]) == sorted(kinds[1]), "who watches writes nothing to the journal"


def test_a_watch_that_is_interrupted_leaves_a_page_that_stays(home):
    texts = []

    def interrupted(seconds):
        raise KeyboardInterrupt

    with ExitStack() as stack:
        study = Watched(home, stack)
        page = home.study(ID).report / "report.html"
        with pytest.raises(KeyboardInterrupt):
            watch_report(
                home.study(ID), study.opened, EVERY_S, lambda _, page: texts.append(page.read_text()), interrupted
            )
    assert REFRESH in texts[0]
    assert "http-equiv" not in page.read_text()


def test_a_study_that_is_trained_again_is_watched_before_its_first_answer(home):
    conduct(home, arms())
    folder = home.study(ID)
    folder.report.mkdir()
    (folder.report / "report.html").touch()
    edit_lines(folder.journal, lambda line: re.sub('"code":"[^"]+"', '"code":"0123456789ab"', line))
    with pytest.raises(LocusError, match="today's code has no answers of"):
        check_report(Result.open(home, ID))
    with driving(home, arms()):
        check_report(Result.open(home, ID))


def test_without_a_driver_it_is_a_report(tmp_path):
    id = ablated(tmp_path)
    said = [
        CliRunner().invoke(app, ["report", id, "--check", *watch, "--home", str(tmp_path)])
        for watch in ([], ["--watch"])
    ]
    assert (said[0].exit_code, said[0].output) == (said[1].exit_code, said[1].output)
    for words, must in (
        (["--every", "5"], "--every must be of at least 1 s and stand beside --watch, got 5"),
        (["--watch", "--every", "0"], "--every must be of at least 1 s and stand beside --watch, got 0"),
        (["--watch", "--address", "http://x"], "--watch must stand without --address, got http://x"),
    ):
        assert str(CliRunner().invoke(app, ["report", id, *words, "--home", str(tmp_path)]).exception) == must


@pytest.mark.slow
def test_ctrl_c_ends_the_watch_alone(tmp_path):
    terminal = Terminal(tmp_path)
    with driving(home := Home(terminal.home), arms()) as driver:
        watching = terminal.begin("report", "arms", "--watch", "--every", "1")
        page = home.study(ID).report / "report.html"
        until(lambda: page.exists() and "http-equiv" in page.read_text())
        watching.interrupt()
        ended = watching.end(60)
        assert not driver.stop
    assert (ended.code, ended.err) == (130, "")
    assert ended.out.splitlines()[-1] == f"{ID} is no longer watched"
    assert "http-equiv" not in page.read_text()
