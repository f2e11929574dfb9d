"""Files of a study that are cut: what is damaged is said and made again, and all numbers are those of the whole one."""

import shutil

import pytest

from tests.faults.killed import ended, facts, numbers, of
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1800)]

ID = "waves@long"
RUN = ("run", "./study.py", "--budget", "long")
SHARES = (0.0, 0.5, 0.99)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A folder with a study that was interrupted, and the numbers that it has at its end."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "study.py").write_text(ENCODINGS)
    with Terminal(folder) as terminal:
        running = terminal.begin(*RUN, "-v", "--max-concurrent", "1")
        running.wait_for("#1 seed 0 epoch 20/40")
        running.interrupt()
        assert running.end().code == 130
        left = tmp_path_factory.mktemp("left") / "home"
        shutil.copytree(terminal.home, left, ignore=shutil.ignore_patterns("mlflow.db*"))
        terminal.do(*RUN)
        return left, numbers(facts(terminal.home, ID))


FILES = {
    "journal": f"studies/{ID}/journal.jsonl",
    "study": f"studies/{ID}/study.json",
    "answer": "outcomes/*/*.json",
    "weights": "outcomes/*/*.pt",
    "checkpoint": f"studies/{ID}/work/*/*/*/checkpoint.pt",
}
"""The one file of a kind: of the study, of its finished run, or of the run that was interrupted."""


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_cut_costs_time_and_no_number(terminals, interrupted, tally, kind):
    left, calm = interrupted
    for share in SHARES:
        terminal = terminals(f"{kind}-{share}")
        shutil.copytree(left, terminal.home)
        (file,) = terminal.home.glob(FILES[kind])
        whole = file.read_bytes()
        begin = whole[: int(share * len(whole))]
        file.write_bytes(begin)
        if kind == "weights":  # no run needs them, so only who looks finds it out
            looked = terminal.type("verify", ID)
            assert looked.code == 1
            assert "has damaged weights" in looked.out
            terminal.type("verify", ID, "--repair")
        done = terminal.do(*RUN)
        assert "Traceback" not in done.out + done.err
        if kind == "journal" and begin[-1:] not in (b"", b"\n"):
            assert "the journal's last line was torn by a crash, and dropped" in done.out
        told = facts(terminal.home, ID)
        assert len(ended(told)) == 3
        if kind != "journal":
            assert numbers(told) == calm
        terminal.do("verify", ID)
        tally(max(0, len(of(told, "measured")) - 120))
