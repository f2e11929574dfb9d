"""What is removed lies where the home has it: no name leads out, and a link goes without what it leads to."""

from pathlib import Path

import pytest

from service.storage.home import check_removable, remove_member
from trainables.spec import LocusError


@pytest.fixture
def outcomes(tmp_path: Path) -> Path:
    """A folder with one answer, beside a folder of somebody else."""
    for name in ("outcomes/answer", "victim"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "thesis.tex").write_text("years of work")
    return tmp_path / "outcomes"


def test_a_name_that_leads_out_is_refused(outcomes: Path) -> None:
    victim = outcomes.parent / "victim"
    for name in (str(victim), "../victim", "answer/../../victim", "..", ".", "", "answer/thesis.tex", "a\0b"):
        for names in ((name,), ("answer", name)):
            with pytest.raises(LocusError, match="what is removed must lie directly in"):
                remove_member(outcomes, *names)
        with pytest.raises(LocusError, match="what is removed must lie directly in"):
            check_removable(outcomes, name)
    assert {path.name for path in outcomes.parent.rglob("*")} == {"outcomes", "answer", "victim", "thesis.tex"}
    remove_member(outcomes, "answer", "thesis.tex")
    remove_member(outcomes, "answer")
    remove_member(outcomes, "answer")
    assert [*outcomes.iterdir()] == []
    assert (victim / "thesis.tex").exists()


def test_a_link_goes_and_what_it_leads_to_stays(outcomes: Path) -> None:
    victim = outcomes.parent / "victim"
    for names in (("link",), ("link", "thesis.tex")):
        (outcomes / "link").symlink_to(victim)
        check_removable(outcomes, "link")
        remove_member(outcomes, *names)
        assert not (outcomes / "link").is_symlink()
    (outcomes / "answer" / "link").symlink_to(victim)
    remove_member(outcomes, "answer")
    assert (victim / "thesis.tex").read_text() == "years of work"
