"""Names with brackets print as they stand: rich would read `[q]` as markup, and fail at `[/v]`."""

import io
import json
import random
import re

from rich.console import Console
from rich.text import Text

from search_spaces.library import find
from search_spaces.study import Ablation, Study
from service.analysis.study_status import all_status, one_status
from service.consistency import Check
from service.results import Result
from service.terminal import views
from service.terminal.live import Progress
from service.terminal.output import Paper, columns, printable, row
from tests.rooms.toy import Toy, conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe

NAMES = ("gabor [q]", "[/v]", "[bold]k[/]")
ARMS = {name: {"encoding.gamma": 1.0 + place} for place, name in enumerate(NAMES)}
BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 3})
STUDY = Study(name="odd", question="Does a [spiral] help?", base=BASE, plan=Ablation(ARMS, NAMES[0]), seeds=3)


def all_there(text: str) -> None:
    for name in (*NAMES, "Does a [spiral] help?"):
        assert name in text


def test_in_the_live_table(home):
    out = io.StringIO()
    progress = Progress(STUDY.at(), Console(file=out, force_terminal=True, width=120, highlight=False))
    with driving(home, STUDY.at()) as driver:
        driver.listeners.append(progress.add)
        progress.begin(driver.history, driver.lock)
        Toy(driver, random.Random(0)).drive()
        progress.end()
    all_there(out.getvalue())


def test_in_status_show_the_end_of_a_run_and_checks(home, tmp_path, capsys):
    conduct(home, STUDY.at())
    views.status_of_one(one_status(home, "odd@base"), home)
    text = capsys.readouterr().out
    all_there(text)
    assert "+-: standard deviation over seeds" in text
    views.status_of_all(all_status(home), home)
    assert "odd@base" in capsys.readouterr().out
    (tmp_path / "odd.json").write_text(json.dumps(STUDY.plain()))
    views.show(find(str(tmp_path / "odd.json")), as_json=False)
    all_there(capsys.readouterr().out)
    result = Result.open(home, "odd@base")
    views.ending(result, "locus run [odd]", larger="locus run [odd] --budget full")
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)
    assert "locus run [odd]" in text
    views.checks([Check("MLflow", False, "[/v] seed 1 is RUNNING"), Check("a [q]", True, "3 looked at")])
    text = capsys.readouterr().out
    assert all(cell in text for cell in ("[/v] seed 1 is RUNNING", "a [q]"))


def test_no_text_is_a_command_to_the_terminal():
    """A question, or the reason of a failure, may hold anything; colors and links of our own stay."""
    text = "a\x1b[2Jb\x1b]0;title\x07c\x9b1md\x7f\te"
    out = io.StringIO()
    paper = Paper(file=out, force_terminal=True, width=80, color_system="standard")
    view = columns(text, "second")
    row(view, text, text)
    paper.print(view)
    paper.print(Text(text, style="red"))
    said = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", said)
    assert "\x1b[31m" in out.getvalue()
    assert printable(text) == "a[2Jb]0;titlec1md\te"
