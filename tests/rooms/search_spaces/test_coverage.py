"""Every table and figure of the papers is asked by a study that speaks of it, or its gap is declared."""

import re

from search_spaces import library
from search_spaces.coverage import PAPERS

COUNTS = {
    "thesis": {"table": 9, "figure": 6},
    "cpvt": {"table": 16, "figure": 6},
    "gabor": {"table": 5, "figure": 11},
    "concat": {"table": 3, "figure": 11},
}
"""How many tables and figures each paper has, by their captions; the thesis' drawings by chapter are one entry."""
ITEMS = [(paper, item, entry) for paper, items in PAPERS.items() for item, entry in items.items()]
MENTION = re.compile(r"\b(table|figure)s? (\d+(?:(?:, | and | to )\d+)*)")


def mentions(text: str) -> set[str]:
    """The tables and figures that a text names: `figures 3 to 5` are three."""
    found = set()
    for word, numbers in MENTION.findall(text):
        for part in re.split(", | and ", numbers):
            first, _, last = part.partition(" to ")
            found |= {f"{word} {number}" for number in range(int(first), int(last or first) + 1)}
    return found


def test_no_table_and_no_figure_is_forgotten() -> None:
    for paper, counts in COUNTS.items():
        expected = {f"{word} {number}" for word, count in counts.items() for number in range(1, count + 1)}
        assert {item for item in PAPERS[paper] if not item.startswith("figures ")} == expected, paper


def test_each_is_asked_by_a_study_that_names_it_or_is_declared() -> None:
    silent = [(paper, item) for paper, item, entry in ITEMS if not (entry.studies or entry.gap)]
    for paper, item, entry in ITEMS:
        for name in entry.studies:
            study = library.find(name)
            texts = [study.paper, study.expected, *(one.source for one in (*study.published, *study.claims))]
            texts += study.gaps if entry.gap else ()
            texts += [budget.gap for budget in study.budgets.values()]
            if item not in mentions(" ; ".join(texts)):
                silent.append((paper, item, f"{name} does not say that it asks it"))
    assert silent == []


def test_every_study_of_a_paper_is_in_the_list() -> None:
    """The studies of the four papers that have tables and figures ask one of them, but for those that are ours."""
    known = {name for _, _, entry in ITEMS for name in entry.studies}
    ours = {"fourier-gamma"}
    for name in library.names():
        if library.find(name).family in ("thesis", "cpvt", "gabor", "concat"):
            assert name in known | ours, name
