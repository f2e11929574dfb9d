"""An encoding that is edited while a study trains: no answer is stored under the code of another file, on Ray."""

import os
import shutil
from pathlib import Path

import pytest

from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.faults.killed import numbers
from tests.journeys.terminal import ROOT, Terminal
from trainables.launch.errors import CHANGED
from trainables.recipe.code_digest import FOLDER

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

STUDY = """
from search_spaces.study import Ablation, Study
from trainables.recipe import Recipe

base = Recipe().put({
    "data.image_size": 16, "data.train_size": 400, "data.val_size": 40, "data.test_size": 40, "model.embed_dim": 16,
    "model.num_heads": 2, "optimizer.epochs": 40, "optimizer.batch_size": 40, "encoding.kind": "peg",
})
study = Study(
    name="edited", question="Which?", base=base, seeds=1,
    plan=Ablation(arms={"none": {"encoding.kind": "none"}, "peg": {}}, baseline="none"),
)
"""
RUN = ("run", "./study.py", "-v", "--max-concurrent", "1")
ID = "edited@base"
EDITS = {
    "the spec": ("peg.py", "default=3,", "default=5,"),
    "the half that computes": ("peg_torch.py", "patches + positions", "patches - positions"),
}
"""The spec is imported before the edit, its torch half after it."""


@pytest.fixture
def copied(terminals, tmp_path):
    """Makes terminals in front of a copy of the three packages."""
    for package in ("service", "search_spaces", "trainables"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return lambda name: terminals(name, STUDY, PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")


def answers(terminal: Terminal) -> dict[str, str]:
    """The code digest of each encoding's answer."""
    outcomes = Outcomes(Home(terminal.home))
    found = [one for path in outcomes.folder.glob("*") for one in outcomes.of(path.name)]
    return {one.run.recipe.encoding.kind: one.code.digest for one in found}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_while_a_study_trains_poisons_no_answer(copied, tmp_path: Path, name: str) -> None:
    file, old, new = EDITS[name]
    edited = tmp_path / FOLDER.name / "encodings" / file
    text = edited.read_text()
    assert old in text
    hurt, calm = copied("hurt"), copied("calm")
    running = hurt.begin(*RUN)
    running.wait_for("#0 seed 0 epoch 2/40")
    edited.write_text(text.replace(old, new))
    os.utime(edited)
    done = running.end()
    if name == "the spec":
        assert done.code == 0, done.out + done.err
    else:
        assert done.code == 1, done.out + done.err
        assert f"#1 seed 0 failed: trainables/encodings/{file} {CHANGED}" in done.out
        assert done.out.count("#1 seed 0 failed") == 1, "it is not tried twice"
        assert answers(hurt).keys() == {"none"}, "the other run is unharmed"
    edited.write_text(text)
    hurt.do(*RUN)
    calm.do(*RUN)
    assert answers(hurt) == answers(calm)
    assert numbers(hurt.facts(ID)) == numbers(calm.facts(ID))
