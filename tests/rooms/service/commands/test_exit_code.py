"""The exit code of `locus run` says whether every run of the study has an answer."""

import pytest
import typer

from service import api
from service.commands.running import run_resolved
from service.planning.run_options import RunOptions
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ablated, at_sides


@pytest.mark.parametrize(("make", "failed"), [(ablated, 1), (at_sides, 0)])
def test_a_study_with_a_failed_run_ends_with_1(make, failed, tmp_path, monkeypatch, capsys) -> None:
    result = Result.open(Home(tmp_path), make(tmp_path))
    assert result.history.failed == failed
    monkeypatch.setattr(api, "here", lambda *_, **__: result)
    code = 0
    try:
        run_resolved(result.edition, RunOptions(home=str(tmp_path)), detail="quiet")
    except typer.Exit as ended:
        code = ended.exit_code
    assert code == failed
    assert ("1 run; the same command tries again" in capsys.readouterr().out) == bool(failed)


@pytest.mark.parametrize(("ended", "hours", "code", "said"), [
    ("failed", 2.0, 1, ""),
    ("stopped", 2.0, 3, "stopped after 2 hours; what is finished is kept"),
    ("stopped", 1.0, 3, "stopped after 1 hour; "),
])  # fmt: skip
def test_a_study_that_failed_before_its_hours_were_over_is_not_said_to_be_stopped_by_them(
    ended, hours, code, said, tmp_path, monkeypatch, capsys
) -> None:
    id = ablated(tmp_path)
    if ended == "stopped":  # nothing was trained
        journal = Home(tmp_path).study(id).journal
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    result = Result.open(Home(tmp_path), id)

    def here(*_, tell, **__):
        tell(ended=ended)
        return result

    monkeypatch.setattr(api, "here", here)
    with pytest.raises(typer.Exit) as exit_:
        run_resolved(result.edition, RunOptions(home=str(tmp_path), hours=hours), detail="quiet")
    assert exit_.value.exit_code == code
    assert (said in capsys.readouterr().out) if said else "stopped after" not in capsys.readouterr().out
