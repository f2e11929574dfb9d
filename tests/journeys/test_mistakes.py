"""Every mistake is one line that says what must be, exit code 2, and nothing written."""

import sys
import time

import pytest

from service.cli import main
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal

SEARCH = ("run", "fourier-gamma", "--budget", "smoke")
DEAD = "http://127.0.0.1:1"
NO_ROUTE = "http://10.255.255.1:80"

MISTAKES = {
    "study": (("run", "fourier-gama"),
        "no study 'fourier-gama'; did you mean fourier-gamma? (locus studies lists all)"),
    "budget": (("run", "fourier-gamma", "--budget", "huge"),
        "fourier-gamma has no budget 'huge'; known: base, smoke, cpu"),
    "encoding": ((*SEARCH, "--set", "encoding.kind=fourrier"), "encoding.kind must be one of none, learnable,"),
    "task": ((*SEARCH, "--set", "data.task=left"), "data.task must be one of direction, direction4,"),
    "path": ((*SEARCH, "--set", "encoding.gama=1"),
        "no field 'encoding.gama'; known: kind, gamma, features, hidden, coordinates"),
    "gamma 0": ((*SEARCH, "--set", "encoding.gamma=0"), "encoding.gamma must be a positive length in patches, got 0"),
    "gamma -1": ((*SEARCH, "--set", "encoding.gamma=-1"),
        "encoding.gamma must be a positive length in patches, got -1"),
    "gamma text": ((*SEARCH, "--set", "encoding.gamma=wide"),
        "encoding.gamma must be a positive length in patches, got 'wide'"),
    "heads": ((*SEARCH, "--set", "model.num_heads=5"), "model.embed_dim must be a multiple of num_heads (5), got 64"),
    "sinusoidal": (("run", "red-green-direction", "--set", "model.embed_dim=66", "--set", "model.num_heads=3"),
        "model.embed_dim must be divisible by 4 for sinusoidal"),
    "patch": ((*SEARCH, "--set", "data.image_size=34"),
        "model.patch_size must be a divisor of the image's sides (34, 34), got 4"),
    "set": ((*SEARCH, "--set", "encoding.gamma"), "--set must be PATH=VALUE, got 'encoding.gamma'"),
    "name with /": (("run", "a/b"), "no study 'a/b'"),
    "name with ..": (("run", "../x"), "no study '../x'"),
    "edition with /": ((*SEARCH, "--as", "a/b"), "edition"),
    "edition with ..": ((*SEARCH, "--as", "../.."), "edition"),
    "trials": ((*SEARCH, "--trials", "-1"), "trials must be a positive number of trials, got -1"),
    "trials 0": ((*SEARCH, "--trials", "0"), "trials must be a positive number of trials, got 0"),
    "seeds": ((*SEARCH, "--seeds", "0"), "seeds must be a positive number of seeds, got 0"),
    "seeds text": ((*SEARCH, "--seeds", "many"), "'--seeds'"),
    "hours": ((*SEARCH, "--hours", "0"), "hours must be a positive number of hours, got 0"),
    "at once": ((*SEARCH, "--max-concurrent", "999"), "max-concurrent must be at most"),
    "threads": ((*SEARCH, "--threads", "0"), "threads must be a positive number of threads a run, got 0"),
    "workers": ((*SEARCH, "--workers", "999"), "must fit"),
    "trials of an ablation": (("run", "red-green-direction", "--trials", "3"), "trials are for searches"),
    "option": ((*SEARCH, "--bugdet", "cpu"), "No such option: --bugdet"),
    "verb": (("runn", "fourier-gamma"), "No such command 'runn'"),
    "file": (("run", "./nothing.py"), "no file nothing.py"),
    "broken file": (("run", "./broken.py"),
        "broken.py does not run: line 2: ModuleNotFoundError: No module named 'nonsense'"),
    "file without a study": (("run", "./empty.py"), "empty.py must define study = Study(...), got None"),
    "study's name in a file": (("run", "./escape.py"), "name must be lower-case words joined by '-', got '../escape'"),
    "status": (("status", "nothing"), "no study 'nothing' was run in"),
    "report": (("report", "../x"), "no study '../x' was run in"),
    "verify": (("verify", "nothing"), "no study 'nothing' was run in"),
    "rerun": (("rerun", "abc"), "'abc' must name one run, got 0"),
    "tracking scheme": ((*SEARCH, "--tracking", "nowhere"), "MLFLOW_TRACKING_URI must begin with one of http:"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text('"""A file."""\nimport nonsense\n')
    (tmp_path / "empty.py").write_text("x = 3\n")
    (tmp_path / "escape.py").write_text(ENCODINGS.replace('"encodings"', '"../escape"'))
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCUS_HOME", str(tmp_path / "home"))
    return tmp_path


def typed(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["locus", *words])
    with pytest.raises(SystemExit) as exit:
        main()
    return exit.value.code


@pytest.mark.parametrize(("words", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_it_is_one_line(words, sentence, folder, monkeypatch, capsys):
    before = sorted(folder.iterdir())
    assert typed(monkeypatch, *words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("locus: ")
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("address", [DEAD, NO_ROUTE])
def test_a_server_that_does_not_answer_is_known_within_5_s(address, folder, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    begun = time.monotonic()
    assert typed(monkeypatch, *SEARCH) == 2
    assert time.monotonic() - begun < 6.5  # MLflow's import is in it
    said = capsys.readouterr().err
    assert said.startswith(
        f"locus: MLflow at {address} does not answer (5 s); start it, or unset MLFLOW_TRACKING_URI to"
    )
    assert not (folder / "home").exists()


def test_a_typed_mistake_imports_nothing_heavy(tmp_path):
    terminal = Terminal(tmp_path)
    done = terminal.type("run", "fourier-gama", PYTHONPROFILEIMPORTTIME="1")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("locus: no study 'fourier-gama'")
    heavy = [name for name in ("torch", "timm", "ray", "optuna", "mlflow") if f" {name}\n" in done.err]
    assert heavy == []
