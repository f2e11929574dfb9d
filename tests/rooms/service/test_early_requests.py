"""A request that comes while a driver, which has the lock, still reads its journal."""

import pytest

from service import run_study
from service.execution.signals import Control, ask_driver
from service.planning.run_options import RunOptions
from service.storage.home import Home
from service.storage.leases import Session
from service.terminal.live import Progress
from tests.rooms.service.test_run_study import answered


def test_a_stop_that_comes_while_the_journal_is_read_is_heard(tmp_path, monkeypatch):
    edition, begin = answered(tmp_path), Session.begin
    folder = Home(tmp_path).study(edition.id)

    def slowly(session, above=0):
        assert folder.driven, "locus stop takes the study for one that is run"
        ask_driver(folder, Control(stop="after the epoch"))
        begin(session, above)

    monkeypatch.setattr(Session, "begin", slowly)
    with pytest.raises(KeyboardInterrupt):
        run_study.run_study(edition, RunOptions(home=str(tmp_path)), Progress(edition))
