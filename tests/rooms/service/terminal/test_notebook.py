"""The view of a notebook is one drawing, with the text of the terminal's and its colors."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.text import Text

from service.terminal.live import WIDTH, NotebookLive, Progress
from tests.rooms.service.planning.situations import arms


def test_a_drawing_is_the_view_as_it_is_now_and_fits_its_width():
    drawn = NotebookLive(lambda: Text(f"row {len(rows)} <b>", style="green"))
    rows = ["x"]
    assert "row 1 &lt;b&gt;" in drawn._drawn()
    rows.append("y")
    page = drawn._drawn()
    assert [part in page for part in ("row 2", "row 1", "color: #", "<html")] == [True, False, True, False]
    assert page.startswith("<pre ")
    wide = NotebookLive(lambda: Text("word " * 100))._drawn()
    assert max(len(line) for line in wide.splitlines()[1:]) <= WIDTH


def test_a_cell_has_one_output_that_changes(monkeypatch):
    shown, rows = [], ["x"]
    handle = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(HTML=str, display=lambda page, display_id: shown.append(page) or (display_id and handle))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    live = NotebookLive(lambda: Text(f"row {len(rows)}"))
    live.start()
    rows.append("y")
    live.stop()
    assert "row 1" in shown[0]
    assert "row 2" in shown[-1]


@pytest.mark.slow
def test_nothing_says_in_a_kernel_that_widgets_are_missing():
    """In a process that looks to Ray and tqdm as ipykernel does."""
    done = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    loud = KERNEL.replace("service.run", "service")
    said = subprocess.run([sys.executable, "-c", loud], capture_output=True, text=True, check=False, timeout=120)
    assert all(word in said.stderr for word in ("IProgress not found", "Missing packages: ['ipywidgets']"))


KERNEL = """
import sys, types
class ZMQInteractiveShell:
    config = {"IPKernelApp": {}}
    events = types.SimpleNamespace(register=lambda *given: None, unregister=lambda *given: None)
shell = ZMQInteractiveShell()
python = types.ModuleType("IPython")
python.get_ipython = lambda: shell
python.version_info = (9, 0)
html = types.ModuleType("IPython.display")
html.HTML = html.display = html.clear_output = object
python.display = html
sys.modules |= {"IPython": python, "IPython.display": html, "ipykernel": types.ModuleType("ipykernel")}
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
import service
service.run
import ray.tune, ray.train
import mlflow.utils.file_utils
import tqdm.auto
"""


def test_a_kernel_is_no_terminal(monkeypatch):
    """ipykernel sets FORCE_COLOR, for which rich would draw a terminal's screen, an output of the cell a drawing."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    progress = Progress(arms())
    assert progress.in_notebook
    assert not progress.console.is_terminal
