"""The live screen: it goes on between two facts, hides no failure, and fits its terminal."""

import io
import random
import re
import threading

from rich.console import Console

from search_spaces.study import Ablation, Study
from search_spaces.words import clock
from service.analysis.study_status import one_status
from service.analysis.trial_result import TrialSummary
from service.planning.forecast import Forecast
from service.planning.placement import Placement
from service.reporting.page import page
from service.results import Result
from service.storage.home import Home
from service.terminal.live import Progress
from service.terminal.views import most_telling
from tests.rooms.toy import Toy, driving
from tests.waiting import until
from trainables.encodings import Fourier
from trainables.recipe import Recipe

BASE = Recipe(encoding=Fourier()).put({"optimizer.epochs": 6})
ARMS = {f"arm number {number} with a long name": {"encoding.gamma": 1.0 + number} for number in range(30)}
STUDY = Study(name="many", question="Which?", base=BASE, plan=Ablation(ARMS, next(iter(ARMS))), seeds=1)


def screen(out, width=80, height=24):
    return Console(file=out, force_terminal=True, width=width, height=height, highlight=False)


def strip(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_the_clock_goes_on_without_a_fact_and_the_start_of_ray_has_one_of_its_own(tmp_path):
    out, now = io.StringIO(), [1000.0]
    progress = Progress(STUDY.at(), screen(out), now=lambda: now[0])
    with driving(Home(tmp_path), STUDY.at()) as driver:
        progress.begin(driver.history, driver.lock)
        try:
            until(lambda: "0 of 30 runs  00:00 gone, time left unknown" in strip(out.getvalue()))
            assert "01:02" not in strip(out.getvalue())
            now[0] += 62
            until(lambda: "0 of 30 runs  01:02 gone" in strip(out.getvalue()))
            progress.busy("starting Ray")
            now[0] += 21
            until(lambda: "starting Ray, 00:21" in strip(out.getvalue()))
            progress.busy("")
            until(lambda: "0 of 30 runs  01:23 gone" in strip(out.getvalue()))
        finally:
            progress.end()


def test_the_bar_the_status_and_the_page_say_the_same_time(tmp_path):
    """At each moment, with two runs at a time; before two runs have ended none of them says a time."""
    home, edition, said = Home(tmp_path), STUDY.at(), {}
    progress = Progress(edition, Console(file=io.StringIO(), width=120))
    with driving(home, edition) as driver:
        driver.placement = Placement(max_concurrent=2)
        progress.begin(driver.history, driver.lock)
        toy = Toy(driver, random.Random(0), max_concurrent=2)
        for step in range(60):
            toy._fill()
            toy._advance(sorted(toy.workers)[step % 3 == 0])
            if step % 3 == 2:
                with progress.console.capture() as captured:
                    progress.console.print(progress._bar())
                done, left = re.search(r"(\d+) of 30 runs  \S+ gone, (.* left.*)", captured.get()).groups()
                status, result = one_status(home, edition.id), Result.open(home, edition.id)
                assert status.left == Forecast(driver.history)(2).seconds
                assert left.strip() == (
                    "time left unknown" if status.left is None else f"about {clock(status.left)} left"
                )
                assert page(result, {}, running=True).progress.startswith(
                    f"{done} of 30 runs, {left.strip()}. Seeds are"
                )
                said[int(done)] = left.strip()
        toy.close()
    unknown = {done for done, left in said.items() if left == "time left unknown"}
    assert unknown == {0, 1}
    assert max(said) > 5


def test_the_screen_fits_its_terminal_and_says_how_many_rows_it_leaves_out(tmp_path):
    out = io.StringIO()
    progress = Progress(STUDY.at(), screen(out))
    with driving(Home(tmp_path), STUDY.at()) as driver:
        driver.listeners.append(progress.add)
        Toy(driver, random.Random(0)).drive()
        progress.begin(driver.history, driver.lock)
        progress.end()
    lines = strip(out.getvalue()).split("many@base  Which?")[-1].splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    assert " more: locus status many@base" in " ".join(" ".join(lines).split())


def summary(label, state, mean=None, mark=""):
    return TrialSummary(label, f"arm {label}", {}, 1, 1, 3, 3, mean, None, state, mark)


def test_rows_are_shown_in_order_that_failed_are_best_unfinished_highest_or_newest():
    rows = [summary(str(number), "done", mean=1 - number / 100) for number in range(40)]
    rows[30] = summary("30", "failed: CUDA error")
    rows[20] = summary("20", "done", 0.8, "best")
    rows[25] = summary("25", "running")
    for count, labels in ((1, [30]), (3, [20, 25, 30]), (8, [0, 1, 2, 3, 4, 20, 25, 30])):
        assert [row.label for row in most_telling(rows, count)] == [*map(str, labels)]
    assert [row.label for row in most_telling(rows, 10)][-2:] == ["38", "39"]
    assert most_telling(rows, 40) == rows


def test_a_screen_that_reads_while_the_driver_writes_never_fails(tmp_path):
    """Two threads on one history: without the lock a dictionary would change while it is read."""
    progress = Progress(STUDY.at(), screen(io.StringIO()))
    errors = []
    with driving(Home(tmp_path), STUDY.at()) as driver:
        progress.begin(driver.history, driver.lock)
        progress.live.stop()
        ended = threading.Event()

        def draw():
            while not ended.wait(0.001):  # a thread that takes the lock again at once keeps the driver out
                progress._news += 1
                try:
                    progress._view()
                except RuntimeError as error:
                    errors.append(error)

        drawer = threading.Thread(target=draw)
        drawer.start()
        Toy(driver, random.Random(0)).drive()
        ended.set()
        drawer.join()
    assert errors == []
