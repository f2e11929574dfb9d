"""What is removed lies where the home has it: no name leads out, and a link goes without what it leads to."""

from pathlib import Path

import pytest

from service.storage.removing import check_removable, remove
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
                remove(outcomes, *names)
        with pytest.raises(LocusError, match="what is removed must lie directly in"):
            check_removable(outcomes, name)
    assert {path.name for path in outcomes.parent.rglob("*")} == {"outcomes", "answer", "victim", "thesis.tex"}
    remove(outcomes, "answer", "thesis.tex")
    remove(outcomes, "answer")
    remove(outcomes, "answer")
    assert [*outcomes.iterdir()] == []
    assert (victim / "thesis.tex").exists()


def test_a_link_goes_and_what_it_leads_to_stays(outcomes: Path) -> None:
    victim = outcomes.parent / "victim"
    for names in (("link",), ("link", "thesis.tex")):
        (outcomes / "link").symlink_to(victim)
        check_removable(outcomes, "link")
        remove(outcomes, *names)
        assert not (outcomes / "link").is_symlink()
    (outcomes / "answer" / "link").symlink_to(victim)
    remove(outcomes, "answer")
    assert (victim / "thesis.tex").read_text() == "years of work"
