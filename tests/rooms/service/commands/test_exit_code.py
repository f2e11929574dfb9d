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
        run_resolved(result.edition, RunOptions(home=str(tmp_path)), fresh=False, detail="quiet")
    except typer.Exit as ended:
        code = ended.exit_code
    assert code == failed
    assert ("1 run; the same command tries again" in capsys.readouterr().out) == bool(failed)
