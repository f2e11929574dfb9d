"""Writes the page of a matrix. It needs no matplotlib, so it is quick."""

from __future__ import annotations

from pathlib import Path

from service.analysis.comparison.matrix import FilledMatrix
from service.analysis.format import fixed
from service.reporting.comparison.page import templates
from service.storage.home import Home
from trainables.whole_files import write_whole


def write(home: Home, found: FilledMatrix) -> Path:
    """Writes the page and returns its path."""
    reports = {study: home.study(f"{study}@{found.budget}").report / "report.html" for study in found.matrix.studies}
    links = {study: page.as_uri() for study, page in reports.items() if page.exists()}
    text = templates().get_template("matrix.html.j2").render(found=found, links=links, fixed=fixed)
    path = home.matrix(found.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
    return path
