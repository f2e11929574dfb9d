"""The table of search_spaces/ATLAS.md is that of the study's records, and says how old its numbers are."""

from tests.house import atlas
from tests.house.sources import ROOT


def test_the_table_of_the_page_is_that_of_the_record() -> None:
    page = (ROOT / "search_spaces/ATLAS.md").read_text()
    ages, table = atlas.ages(), atlas.table(atlas.records())
    assert [text for text in (*(f"({age})" for age in ages), table) if text not in page] == []
    assert table.count("\n") > 10
    assert "*" in table, "some means have a star"
