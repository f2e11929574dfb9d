"""The live view in a notebook: one output of the cell, which changes in place."""

from __future__ import annotations

import io
import logging
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from rich.console import RenderableType

from service.terminal.output import Paper

WIDTH, HEIGHT = 110, 60
"""The columns and lines of the view, in characters."""
REDRAW_S = 1.0
"""Seconds between two drawings."""
FORMAT = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


def without_widgets() -> None:
    """Keeps what is imported later from saying in a cell that ipywidgets are missing, which locus does not use.

    Ray says so when it is imported, and tqdm, which Ray and MLflow import.
    """
    logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
    with warnings.catch_warnings(), suppress(ModuleNotFoundError):
        warnings.simplefilter("ignore")
        import_module("tqdm.auto")


class NotebookLive:
    """Draws a view again and again in one output; `start` and `stop` as rich's Live has them."""

    def __init__(self, view: Callable[[], RenderableType]) -> None:
        self._view = view
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="locus-notebook", daemon=True)
        self._handle: Any = None

    def start(self) -> None:
        """Shows the view below what the cell has printed."""
        from IPython.display import HTML, display

        self._handle = display(HTML(self._drawn()), display_id=True)
        self._thread.start()

    def stop(self) -> None:
        """Leaves the last view in the cell."""
        self._ended.set()
        self._thread.join()
        self._update()

    def _redraw(self) -> None:
        while not self._ended.wait(REDRAW_S):
            self._update()

    def _update(self) -> None:
        from IPython.display import HTML

        self._handle.update(HTML(self._drawn()))

    def _drawn(self) -> str:
        paper = Paper(file=io.StringIO(), record=True, width=WIDTH, height=HEIGHT, force_jupyter=False, highlight=False)
        paper.print(self._view())
        return paper.export_html(inline_styles=True, code_format=FORMAT)
