"""The table of search_spaces/ATLAS.md is that of the study's records, and says how old its numbers are."""

from collections.abc import Mapping

from search_spaces.library import find
from search_spaces.record import RULES, Record, Row, Scored
from tests.house import atlas
from tests.house.sources import ROOT

TASKS = [*find("atlas").plan.axes["task"]]


def wrong(page: str, ages: list[str], found: Mapping[str, Record]) -> list[str]:
    """What the page of the atlas must have, and has not."""
    return [text for text in (*(f"({age})" for age in ages), atlas.table(found)) if text not in page]


def test_the_table_of_the_page_is_that_of_the_record() -> None:
    page = (ROOT / "search_spaces/ATLAS.md").read_text()
    assert wrong(page, atlas.ages(), atlas.records()) == []


def toy(budget: str, higher: float) -> Record:
    """Two encodings on all tasks: of the task 0 `peg` has 0.90, of the task 1 0.89 and so on; `none` is at chance.

    `higher`: is added to the scores of `peg`.
    """

    def row(encoding: str, place: int) -> Row:
        mean, std = (0.9 - place / 100 + higher, 0.11) if encoding == "peg" else (-0.004, 0.1)
        own = Scored(n=3, mean=mean, std=std, interval=(mean - 0.1, mean + 0.1), failed=0)
        larger = Scored(n=2, mean=0.5 + higher, std=None, interval=None, failed=0)
        name, time = f"{encoding}, {TASKS[place]}", 10.0 + place
        common = {"code": "abc", "values": {}, "asked": 3, "diverged": 0}
        return Row(name=name, test=own, test_sizes={48: larger}, time_s=time, **common)

    common = {"study": "atlas", "budget": budget, "date": "2026-11-25", "rules": RULES, "definition": "", "seeds": 3}
    common |= {"minutes": 1.0, "machine": "", "versions": {}, "headline": "", "metric": "test/skill", "level": 0.95}
    rows = tuple(row(name, place) for name in ("none", "peg") for place in range(len(TASKS)))
    return Record(rows=rows, verdicts=(), gap="", **common)


def test_two_records_give_the_table_and_its_age() -> None:
    names = ["direction", "direction, 12 x 12", "absolute place", "quadrant", "new colors", "few images", "digits"]
    names += ["photographs", "photographs, 12 x 12"]
    text = f"| encoding | mean | {' | '.join(names)} | seconds a run |\n"
    text += f"|---|{'---:|' * 11}\n"
    text += "| peg | 0.86 | 0.90* | 0.50 | 0.88* | 0.87* | 0.86* | 0.85* | 0.84* | 0.94* | 0.60 | 13.0 |\n"
    text += "| none | 0.00 | 0.00 | 0.50 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 | 0.60 | 13.0 |"
    found = {"cpu": toy("cpu", 0), "images": toy("images", 0.1)}
    assert atlas.table(found) == text
    age = "results of 2026-11-25, by older code"
    assert wrong(f"The table ({age}):\n\n{text}\n", [age], found) == []
    assert wrong(f"The table ({age}):\n\n{text.replace('0.88*', '0.89*')}\n", [age], found) == [text]
    assert wrong(f"The table (results of 2026-11-25):\n\n{text}\n", [age], found) == [f"({age})"]
