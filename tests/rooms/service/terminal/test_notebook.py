"""The view of a notebook is one drawing, with the text of the terminal's and its colors."""

from rich.text import Text

from service.terminal.live import Progress
from service.terminal.notebook import WIDTH, NotebookLive
from tests.rooms.service.planning.situations import arms


def test_a_drawing_is_the_view_as_it_is_now():
    drawn = NotebookLive(lambda: Text(f"row {len(rows)} <b>", style="green"))
    rows = ["x"]
    assert "row 1 &lt;b&gt;" in drawn._drawn()
    rows.append("y")
    page = drawn._drawn()
    assert "row 2" in page
    assert "row 1" not in page
    assert page.startswith("<pre ")
    assert "color: #" in page
    assert "<html" not in page


def test_a_drawing_is_as_wide_as_it_is_told():
    page = NotebookLive(lambda: Text("word " * 100))._drawn()
    assert max(len(line) for line in page.splitlines()[1:]) <= WIDTH


def test_a_kernel_is_no_terminal(monkeypatch):
    """ipykernel sets FORCE_COLOR, for which rich would draw a terminal's screen, an output of the cell a drawing."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    progress = Progress(arms())
    assert progress.in_notebook
    assert not progress.console.is_terminal
