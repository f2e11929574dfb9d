"""Weights of timm's in a file, given by a relative path: position learns on a frozen backbone, in the real engine."""

import csv
import hashlib
import re

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.journeys.files import PLUGGED
from tests.journeys.terminal import Terminal

ID = "plugged@base"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def plugged(tmp_path_factory):
    backbone = VisionTransformer(img_size=16, patch_size=4, embed_dim=16, depth=1, num_heads=2, num_classes=2)
    with Terminal(tmp_path_factory.mktemp("plugged")) as terminal:
        terminal.weights = {name: value.clone() for name, value in backbone.state_dict().items()}
        file = terminal.folder / "weights.pt"
        torch.save({"model": terminal.weights}, file)
        terminal.text = PLUGGED.replace("SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
        (terminal.folder / "plugged.py").write_text(terminal.text)
        terminal.first = terminal.type("run", "./plugged.py")
        yield terminal


def test_only_position_moved(plugged):
    assert plugged.first.code == 0, plugged.first.out + plugged.first.err
    home = Home(plugged.home)
    ended = {fact.run: fact.code for fact in plugged.facts(ID) if fact.fact == "ended"}
    runs = {Outcomes(home).get(key, code).run.recipe.encoding.kind: (key, code) for key, code in ended.items()}
    assert runs.keys() == {"gabor", "learnable"}
    learnt = torch.load(Outcomes(home).weights(*runs["gabor"]), weights_only=True)
    backbone = {name for name in learnt if not name.startswith("encoding.")}
    assert backbone == plugged.weights.keys() - {"pos_embed"}
    assert all(torch.equal(learnt[name], plugged.weights[name]) for name in backbone)
    assert not torch.equal(
        torch.load(Outcomes(home).weights(*runs["learnable"]), weights_only=True)["norm.weight"],
        plugged.weights["norm.weight"],
    )


def test_what_learns_is_said(plugged):
    assert re.search(r"; 4,370 to 4,418 parameters, 224 to 4,418 of them learn, ", plugged.first.out)
    with (plugged.home / "studies/plugged@base/report/table-results.csv").open(newline="") as file:
        cells = next(row for row in csv.DictReader(file) if row["arm"].startswith("gabor"))
    assert [value for name, value in cells.items() if name.endswith("learnt")] == ["224"]


def test_the_file_elsewhere_is_the_same_question(plugged):
    before = plugged.facts(ID)
    (plugged.folder / "moved").mkdir()
    (plugged.folder / "weights.pt").rename(plugged.folder / "moved/weights.pt")
    (plugged.folder / "plugged.py").write_text(plugged.text.replace("weights.pt", "moved/weights.pt"))
    again = plugged.do("run", "./plugged.py")
    assert "plan: plugged@base: 0 runs to train, 2 done" in again.out
    assert plugged.facts(ID) == before
    plugged.do("verify", "plugged")


def test_another_files_content_fails_in_one_sentence(plugged):
    (plugged.folder / "plugged.py").write_text(plugged.text.replace('name="plugged"', 'name="other"'))
    torch.save({"other": torch.zeros(2, 3)}, plugged.folder / "weights.pt")
    done = plugged.type("run", "./plugged.py", "--set", "optimizer.lr=0.02", "--seeds", "1")
    assert done.code == 1
    assert "failed     2 runs; the same command tries again" in done.out
    assert re.search(r"^why        locus status other@base~\w+, and /.*/driver\.log$", done.out, re.MULTILINE), done.out
    assert re.search(r"weights\.pt must have the SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}", done.out), done.out + done.err
