"""What studies publish of the papers' tables is what is printed there, and what they leave out is said."""

import re

import pytest

from search_spaces import library
from search_spaces.coverage import PAPERS
from search_spaces.published import Published
from search_spaces.study import Study

ASKED, TOLD = "asked", "told"
"""Numbers that stand beside an arm; numbers that a study names in words. Any other name is what the coverage says."""
PRINTED: dict[str, dict[str, dict[str, str]]] = {
    "thesis": {
        "table 1": {
            ASKED: "52.72±1.08 99.92±0.06 99.43±0.36 99.81±0.16 99.64±0.32 "
            "-0.01±0.01 0.84±0.04 0.92±0.06 0.96±0.01 0.94±0.03"
        },
        "table 2": {TOLD: "51.47 100 92.41 99.99 99.71 50.69 92.47 49.61 92.55 0.00 0.91 0.93 0.96"},
        "table 3": {ASKED: "49.79±1.86 99.94±0.10 99.85±0.13 54.02±7.12 99.99±0.03"},
        "table 4": {ASKED: "50.06±0.16 57.03±14.90 97.46±3.26 49.70±0.60 98.49±3.97"},
        "table 7": {
            ASKED: "80.61±0.10 84.83±0.11 85.82±0.40 85.60±0.35",
            TOLD: "55.03 70.80 42.36 57.93 75.76 44.80 59.37 76.35 45.46 57.89 76.78 46.02",
        },
    },
    "cpvt": {
        "table 1": {ASKED: "68.2 72.2 72.3 70.5", TOLD: "68.6 71.2 70.8 69.8"},
        "table 2": {
            ASKED: "72.2 72.3 68.2 72.4 73.4",
            TOLD: "65.6 71.2 68.8 65.9 65.2 70.8 68.2 65.1 62.1 68.6 68.4 65.0 66.8 73.2 71.8 70.3 67.7 74.2 72.6 70.8",
            "the models S and B": "75.6 79.9 78.1 75.9 72.6 76.1 79.9 80.4 78.6 76.8 "
            "79.1 81.8 79.7 79.8 78.2 80.5 81.9 82.3 82.4 81.0",
        },
        "table 3": {ASKED: "72.2 72.6 73.4 74.9", "small models": "79.9 80.2 80.5 81.5"},
        "table 4": {
            ASKED: "72.2 73.4 74.5 75.9",
            TOLD: "74.9",
            "without position and with sines": "68.2 72.3",
            "the models S and B": "79.9 80.5 81.5 81.8 82.3 82.7",
            "networks of other papers": "76.2 77.4 78.3 80.0 77.1 79.1 80.1 81.6 82.9 77.9 76.5",
        },
        "table 5": {ASKED: "68.2 71.3 72.3 68.6 72.4", "12 layers": "68.6"},
        "table 6": {ASKED: "68.2 70.6 72.4 72.5", TOLD: "72.3 71.7 69.0"},
        "table 7": {ASKED: "72.2 72.3 70.5 72.9", TOLD: "72.4 73.4"},
        "table 8": {ASKED: "72.4", TOLD: "65.6 70.8 68.4 66.8 73.2 71.8 70.3"},
        "table 11": {ASKED: "72.4 70.5"},
        "table 12": {ASKED: "72.4 73.4", "small models": "79.9 80.5 80.6", "0-11": "73.4"},
        "table 13": {ASKED: "75.0 77.3 75.9 78.1", TOLD: "79.8 81.2 82.7", "ResNet-18": "69.8"},
        "table 14": {ASKED: "72.4 72.5 72.3"},
        "table 15": {TOLD: "79.8 81.2 81.3 82.3", "CPVT-S-GAP": "81.5", "other papers": "79.9 81.3 81.6"},
        "table 16": {"CvT": "72.4 70.6"},
    },
    "gabor": {
        "table 1": {ASKED: "81.8 81.6 80.7 72.0", TOLD: "75.4 77.0 76.4 60.5"},
        "table 3": {ASKED: "68.10 70.02 70.83 70.07 70.80"},
        "table 4": {ASKED: "68.12 70.02 68.95 70.19 70.71 70.29 70.75 70.80"},
        "table 5": {ASKED: "68.10 70.02 70.38 70.64 70.73 70.79 70.80"},
    },
    "concat": {
        "table 1": {
            ASKED: "79.8 80.0 79.1 79.3 81.3 81.6 84.2 81.5 81.4",
            TOLD: "81.8 82.2 82.6 85.2 85.3 82.9 82.8 79.8 80.3 81.2 81.5 78.2 78.5",
            "PVT and LocalViT": "79.8 80.3 81.2 81.5 78.2 78.5",
        },
        "table 3": {
            ASKED: "98.6 98.8 98.9 98.5",
            TOLD: "87.5 87.8 99.2 99.1 95.5 95.7 88.8 89.0 99.3 95.8 96.0 89.1 89.3 96.1 89.8 89.9 99.4 96.7 88.6 95.9",
            "Stanford Cars": "92.0 92.1 92.3 92.5 92.2 93.4 93.5 92.8 92.6",
            "PVT-S": "98.3 98.4 81.7 82.0 99.1 98.9 91.5 91.8 95.8 96.0",
        },
    },
}
"""Top-1 accuracy in percent, R^2 as it is; deviations after ±. As printed, typed from the papers."""
TABLES = [(paper, table) for paper, tables in PRINTED.items() for table in tables]
STUDIES = [library.find(name) for name in library.names()]


def as_printed(study: Study, known: Published) -> tuple[float, float | None]:
    scale = 1 if study.score.metric.endswith("r2") else 100
    return round(scale * known.value, 4), None if known.spread is None else round(scale * known.spread, 4)


def numbers(words: str) -> set[tuple[float, float | None]]:
    pairs = [word.partition("±") for word in words.split()]
    return {(float(value), float(spread) if spread else None) for value, _, spread in pairs}


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_published_numbers_are_those_of_the_table_that_is_named(paper: str, table: str) -> None:
    """All of them: none stands in another table, and none that an arm has is left out."""
    found = {
        as_printed(study, known)
        for study in STUDIES
        for known in study.published
        if study.family == paper and re.search(rf"(?<!beside ){table}\b", known.source)
    }
    assert found == numbers(PRINTED[paper][table].get(ASKED, ""))


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_what_stands_beside_no_arm_is_named_by_a_study_or_by_the_coverage(paper: str, table: str) -> None:
    item = PAPERS[paper][table]
    studies = [library.find(name) for name in item.studies]
    words = " ".join(
        text
        for study in studies
        for text in (*study.gaps, study.expected, *(one.source for one in (*study.published, *study.claims)))
    )
    told = PRINTED[paper][table].get(TOLD, "").split()
    assert [one for one in told if one not in words and f"{float(one) / 100:.3f}" not in words] == []
    assert [left for left in PRINTED[paper][table] if left not in (ASKED, TOLD) and left not in item.gap] == []


def test_the_tables_with_scores_are_all_here() -> None:
    """Others explain, hold parts of another one, or have marks."""
    others = {"thesis": {"table 5", "table 6", "table 8", "table 9"}, "cpvt": {"table 9", "table 10"}}
    others |= {"gabor": {"table 2"}, "concat": {"table 2"}}
    for paper, items in PAPERS.items():
        assert {item for item in items if item.startswith("table")} == {*PRINTED[paper]} | others[paper], paper
