"""The templates of all pages, and the links in their texts. It needs no matplotlib, so it is quick."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

REFERENCE = re.compile(
    r"arXiv:(?P<arxiv>\d{4}\.\d{4,5})|doi:(?P<doi>10\.\d{4,9}/[^\s,;()]*[^\s,;().])|(?P<url>https?://[^\s,;()]*[^\s,;().])"
)


def address(reference: re.Match[str]) -> str:
    """Where a reference leads."""
    if reference["arxiv"]:
        return f"https://arxiv.org/abs/{reference['arxiv']}"
    return f"https://doi.org/{reference['doi']}" if reference["doi"] else str(reference["url"])


def linked(text: str) -> Markup:
    """A text as HTML, with a link for each arXiv number, DOI and address; everything else is escaped."""
    found, end = Markup(), 0
    for reference in REFERENCE.finditer(text):
        found += escape(text[end : reference.start()])
        found += Markup('<a href="{}">{}</a>').format(address(reference), reference[0])
        end = reference.end()
    return found + escape(text[end:])


@cache
def templates() -> jinja2.Environment:
    """The templates of all pages."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    found.filters["linked"] = linked
    return found
