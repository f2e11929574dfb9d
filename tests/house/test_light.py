"""Looking is light: no torch, timm, Ray, Optuna or MLflow, seen from fresh processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.words import rough_time
from service.api import plan
from service.planning.run_options import RunOptions
from service.run_study import try_own
from service.storage.home import Home
from tests.house.sources import ROOT
from tests.rooms.toy import conduct

HEAVY = ("torch", "timm", "ray", "optuna", "mlflow", "numpy", "pandas", "scipy", "matplotlib", "sklearn")
CODE = """
import contextlib, io, json, sys
from service.cli import main
said = []
commands, heavy = map(json.loads, sys.argv[1:])
for words in commands:
    sys.argv, out, code = ["locus", *words], io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main()
        except SystemExit as exit:
            code = exit.code or 0
    said.append([code, [name for name in heavy if name in sys.modules], out.getvalue()])
print(json.dumps(said))
"""

STUDY = """
from search_spaces.study import Ablation, Study
from trainables.encodings import Fourier
from trainables.recipe import Recipe

study = Study(
    name="tiny", question="Which?", base=Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 3}), seeds=2,
    plan=Ablation(arms={"near": {"encoding.gamma": 1.0}, "none": {"encoding.kind": "none"}}, baseline="near"),
)
"""

OWN = """
from search_spaces.study import Ablation, Study
from trainables.encodings import CodeSpec, Param, normal
from trainables.recipe import Recipe


class Ramp(CodeSpec):
    kind: str = "mine.py:Ramp"

    def params(self, dim, grid):
        return {"slope": Param((dim,), normal(0.02))}

    def code(self, p, at):
        return at.prefixed(at.y[:, None] * p("slope"))


study = Study(
    name="ramp", question="Does it help?", base=Recipe(), seeds=1,
    plan=Ablation(arms={"none": {}, "ramp": {"encoding": Ramp()}}, baseline="none"),
)
"""


def locus(
    *commands: tuple[str, ...], home: Path, heavy: tuple[str, ...] = HEAVY, folder: Path = ROOT
) -> list[tuple[int, list[str], str]]:
    """Each command's exit code, what of `heavy` is loaded after it, and what it printed; in one fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(commands), json.dumps(heavy)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "LOCUS_HOME": str(home), "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(one) for one in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("home")
    (root / "tiny.py").write_text(STUDY)
    conduct(Home(root), library.find(str(root / "tiny.py")).at())
    return root


COMMANDS = [
    (("--help",), 0, "Which position encoding"),
    (("studies",), 0, "fourier-gamma"),
    (("studies", "--json"), 0, '"sizes"'),
    (("studies", "--papers"), 0, "cpvt-encodings"),
    (("studies", "--papers", "--json"), 0, '"gap": "top-5 accuracy'),
    (("show", "fourier-gamma"), 0, "Which gamma lets Fourier features"),
    (("show", "fourier-gamma", "--json"), 0, '"name": "fourier-gamma"'),
    (("show", "cifar-baselines", "--preset", "deit"), 0, "optimizer.ema_decay     0.99996"),
    (("show", "cifar-baselines", "--preset", "deit", "--set", "model.drop_path=0.2"), 0, "model.drop_path         0.2"),
    (("status",), 0, "tiny@base"),
    (("status", "tiny"), 0, "done; 4 of 4 runs"),
    (("status", "tiny", "--json"), 0, '"state": "done"'),
    (("run", "fourier-gama"), 2, "locus: no study 'fourier-gama'; did you mean fourier-gamma?"),
    (("stauts",), 2, "locus: No such command 'stauts'"),
    (("run", "fourier-gamma", "--set", "encoding.gamma=0"), 2, "encoding.gamma must be a positive length in patches"),
    (("run", "fourier-gamma", "--preset", "diet"), 2, "the preset must be one of deit, deit3, gabor, got 'diet'"),
    (("plan", "fourier-gamma", "--preset", "deit"), 2, "(the preset deit sets it; a value of your own for model.drop"),
    (("status", "tinny"), 2, "locus: no study 'tinny' was run in "),
    (("rerun", "zz"), 2, "has a key that begins with 'zz'"),
    (("compare", "tiny"), 2, "locus: Missing argument 'b'."),
]


def test_looking_and_mistakes_import_nothing_heavy_and_write_nothing(home: Path) -> None:
    before = sorted(home.rglob("*"))
    for (words, code, said), (found, loaded, text) in zip(
        COMMANDS, locus(*(words for words, _, _ in COMMANDS), home=home), strict=True
    ):
        assert said in text, words
        assert (found, loaded) == (code, []), words
    assert sorted(home.rglob("*")) == before


def test_with_nothing_missing_neither_ray_nor_torch_is_started(home: Path) -> None:
    mine = str(home / "tiny.py")
    planned, ran = locus(("plan", mine), ("run", mine), home=home)
    assert planned[0] == ran[0] == 0, ran[2]
    assert not {"ray", "torch", "timm", "optuna", "mlflow"} & set(planned[1])
    assert not {"ray", "torch", "timm"} & set(ran[1])
    for text in (planned[2], ran[2]):
        assert "0 runs to train, 4 done, 0 reused; nothing to wait for" in text


def test_without_a_gpu_and_a_server_doctor_imports_neither_torch_nor_mlflow(home: Path, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    ((_, loaded, text),) = locus(("doctor",), home=home, heavy=("torch", "ray", "mlflow"))
    assert "this machine has none" in text
    assert loaded == []


def test_the_list_of_studies_is_made_once(home: Path, tmp_path: Path, monkeypatch) -> None:
    """The second time, neither a study nor what it is made of is imported; nor for help and the names of a shell."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = ("search_spaces.study", "trainables.recipe", "trainables.spec", "service.storage.home")
    (first,) = locus(("studies",), home=home, heavy=made)
    again, plain, helped = locus(("studies",), ("studies", "--json"), ("--help",), home=home, heavy=made)
    assert {"search_spaces.study", "trainables.recipe"} < {*first[1]}
    assert (again[0], again[1], plain[1], helped[1]) == (0, [], [], [])
    assert again[2] == first[2]
    assert [one["name"] for one in json.loads(plain[2])] == library.names()


def test_code_of_ones_own_is_tried_once(tmp_path: Path, monkeypatch) -> None:
    """Plans import torch where code of one's own is new; what passed is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    edition = library.find("mine.py").at()
    empty = tmp_path / "home"
    _, estimate = plan(edition, RunOptions(home=str(empty)))
    assert try_own(edition, empty) == []
    (planned,) = locus(("plan", "mine.py"), home=empty, heavy=("torch", "ray", "mlflow"), folder=tmp_path)
    assert planned[:2] == (0, []), planned[2]
    assert f"about {rough_time(60 * estimate.gpu_hours)} of a GPU" in planned[2]


def test_importing_the_packages_loads_nothing_heavy(home: Path) -> None:
    code = "import sys, service, search_spaces.library, trainables.recipe; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", code.replace("{heavy}", repr(set(HEAVY)))], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
