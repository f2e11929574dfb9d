"""Every mistake is one line that says what must be, exit code 2, and nothing written."""

import socket
import sys
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.library import find
from search_spaces.study import Study
from service.cli import main
from service.storage import editions
from service.storage.home import Home
from tests.journeys.files import ENCODINGS, REACH, SPIRAL, WIDTHS

SEARCH = ("run", "fourier-gamma", "--budget", "smoke")
DEAD = "http://127.0.0.1:1"

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
    "gamma text": ((*SEARCH, "--set", "encoding.gamma=wide"),
        "encoding.gamma must be a positive length in patches, got 'wide'"),
    "heads": ((*SEARCH, "--set", "model.num_heads=5"), "model.embed_dim must be a multiple of num_heads (5), got 64"),
    "sinusoidal": (("run", "direction", "--set", "model.embed_dim=66", "--set", "model.num_heads=3"),
        "model.embed_dim must be divisible by 4 for sinusoidal"),
    "patch": ((*SEARCH, "--set", "data.image_size=34"),
        "model.patch_size must be a divisor of the image's sides (34, 34), got 4"),
    "set": ((*SEARCH, "--set", "encoding.gamma"), "--set must be PATH=VALUE, got 'encoding.gamma'"),
    "name with /": (("run", "a/b"), "no study 'a/b'"),
    "edition with /": ((*SEARCH, "--as", "a/b"), "version"),
    "trials 0": ((*SEARCH, "--trials", "0"), "trials must be a number of trials from 1 to 10,000, got 0"),
    "seeds": ((*SEARCH, "--seeds", "0"), "seeds must be a number of seeds from 1 to 1,000, got 0"),
    "seeds text": ((*SEARCH, "--seeds", "many"), "seeds must be a whole number, got 'many'"),
    "hours text": ((*SEARCH, "--hours", "long"), "hours must be a positive number of hours, got 'long'"),
    "device": ((*SEARCH, "--device", "tpu"), "Invalid value for '--device': 'tpu' is not one of 'auto', 'cpu',"),
    "node": ((*SEARCH, "--set", "encoding=peg"),
        "got 'peg'; did you mean encoding.kind=peg, or {\"kind\": \"peg\"}?"),
    "half JSON": ((*SEARCH, "--set", 'encoding={"kind": "peg"'),
        """must be JSON where it begins with {, got {"kind": "peg" (Expecting ',' delimiter at character 15)"""),
    "near task": ((*SEARCH, "--set", "data.task=distanse"), "got 'distanse'; did you mean distance?"),
    "a paper's name": ((*SEARCH, "--set", "encoding.kind=rope"), "got 'rope'; did you mean rotary?"),
    "British": ((*SEARCH, "--set", "optimiser.lr=1"), "did you mean optimizer?"),
    "another kind": ((*SEARCH, "--set", "encoding.kind=rotary"),
        "; the space of fourier-gamma names encoding.gamma"),
    "field of a file": (("plan", "./field.py"), "field.py, line 14: no field 'gama'; known: kind, gamma,"),
    "value of a file": (("plan", "./value.py"), "value.py, line 12: task must be one of direction,"),
    "kind of a file": (("plan", "./kind.py"),
        'kind.py, line 37: Spiral.kind must be declared, as in kind: str = "mine.py:Spiral", got nothing'),
    "class of no spec": (("plan", "./class.py"),
        "class.py, line 38: encoding must be a number, a text, a list or a spec, got a Spiral, which derives from no"),
    "class of another spec": (("plan", "./spec.py"),
        "encoding.kind must name an EncodingSpec in spec.py, got 'Spiral'"),
    "class itself": (("plan", "./itself.py"),
        "encoding must be a value, got the class Spiral; did you mean Spiral()?"),
    "tuple for a domain": (("plan", "./tuple.py"),
        "encoding.gamma must be Real(0.1, 30), got (0.1, 30)"),
    "alpha above beta": (("plan", "./irpe.py"), "Above keeps a path above another one"),
    "word for a node": (("plan", "./concat.py"), "got 'concat'; did you mean injection.kind=concat,"),
    "list": (("list",), "no command 'list'; did you mean studies?"),
    "delete": (("delete", "fourier-gamma"), "no command 'delete'; did you mean forget?"),
    "train": (("train", "fourier-gamma"), "no command 'train'; did you mean run?"),
    "id": (("plan", "fourier-gamma@smok"), "did you mean fourier-gamma@smoke?"),
    "home has ::, run": ((*SEARCH, "--home", "x::y"), "home must be a path without '::', got"),
    "home is a file, run": ((*SEARCH, "--home", "empty.py/x"), "home must be a folder that can be written, got"),
    "home is a file, plan": (("plan", "fourier-gamma", "--home", "empty.py"), "home must be a folder that can be"),
    "home is a file, status": (("status", "--home", "empty.py"), "home must be a folder that can be written, got"),
    "home in /proc": ((*SEARCH, "--home", "/proc/x"), "home must be a folder that can be written, got /proc/x"),
    "hours": ((*SEARCH, "--hours", "0"), "hours must be a positive number of hours, got 0"),
    "at once": ((*SEARCH, "--max-concurrent", "999"), "max-concurrent must be at most"),
    "threads": ((*SEARCH, "--threads", "0"), "threads must be a positive number of threads a run, got 0"),
    "workers": ((*SEARCH, "--workers", "999"), "must fit"),
    "trials of an ablation": (("run", "direction", "--trials", "3"), "trials are for searches"),
    "option": ((*SEARCH, "--bugdet", "cpu"), "No such option: --bugdet"),
    "verb": (("runn", "fourier-gamma"), "No such command 'runn'"),
    "file": (("run", "./nothing.py"), "no file nothing.py"),
    "broken file": (("run", "./broken.py"),
        "broken.py does not run: line 2: ModuleNotFoundError: No module named 'nonsense'"),
    "file without a study": (("run", "./empty.py"), "empty.py must define study = Study(...), got None"),
    "study's name in a file": (("run", "./escape.py"),
        "name must be lower-case words joined by '-', at most 80 letters, got '../escape'"),
    "status": (("status", "nothing"), "no study 'nothing' was run in"),
    "report": (("report", "../x"), "no study '../x' was run in"),
    "verify": (("verify", "nothing"), "no study 'nothing' was run in"),
    "rerun": (("rerun", "abc"), "has a key that begins with 'abc' (locus export NAME --csv prints"),
    "tracking scheme": ((*SEARCH, "--tracking", "nowhere"), "MLFLOW_TRACKING_URI must begin with one of http:"),
}  # fmt: skip

KIND = '    kind: str = Field(default="mine.py:Spiral", init=False)\n'
ALPHA = REACH.replace("import Real", "import Above, Real").replace(
    "base=BASE", 'base=BASE.put({"encoding.kind": "irpe"})'
)
FILES = {
    "broken.py": '"""A file."""\nimport nonsense\n',
    "empty.py": "x = 3\n",
    "escape.py": ENCODINGS.replace('"waves"', '"../escape"'),
    "field.py": ENCODINGS.replace("gamma=2.0", "gama=2.0"),
    "value.py": ENCODINGS.replace("RedGreen(", 'RedGreen(task="distanse", '),
    "concat.py": ENCODINGS.replace("Sinusoidal()", 'Sinusoidal(injection="concat")'),
    "kind.py": SPIRAL.replace(KIND, ""),
    "class.py": SPIRAL.replace("class Spiral(CodeSpec):", "class Spiral:").replace("Spiral(turns=1.5)", "Spiral()"),
    "spec.py": SPIRAL.replace("class Spiral(CodeSpec):", "class Spiral(Halving):").replace("mine.py", "spec.py"),
    "itself.py": SPIRAL.replace("Spiral(turns=1.5)", "Spiral"),
    "tuple.py": REACH.replace("Real(low=0.1, high=30.0, log=True)", "(0.1, 30)"),
    "irpe.py": ALPHA.replace('"encoding.gamma": Real(low=0.1, high=30.0, log=True)',
        '"encoding.index.alpha": Real(0.5, 5.0), "encoding.index.beta": Real(0.5, 8.0)'
    ).replace('first=({"encoding.gamma": 2.0},),', ""),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
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


def test_a_name_that_was_nearly_run_is_offered(folder, monkeypatch, capsys):
    edition = find("fourier-gamma").at("smoke")
    editions.save_edition(edition, Home(folder / "home"))
    for verb in ("report", "status", "verify"):
        assert typed(monkeypatch, verb, "fourier-gama") == 2
        assert capsys.readouterr().err.endswith("; did you mean fourier-gamma?\n")


def test_nodes_and_own_kinds_may_be_given_whole(folder, monkeypatch, capsys):
    (folder / "mine.py").write_text(WIDTHS)
    node = ("--set", 'encoding={"kind": "irpe"}', "--set", "encoding.index.alpha=1")
    assert typed(monkeypatch, "plan", "./mine.py", *node) == 0
    whole = capsys.readouterr().out.splitlines()[-2]
    assert typed(monkeypatch, "plan", "./mine.py", "--set", "encoding.kind=irpe", *node[2:]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == whole
    own = ("--set", 'encoding={"kind": "mine.py:Spiral"}')
    assert typed(monkeypatch, "plan", "./mine.py", *own) == 0
    capsys.readouterr()
    assert typed(monkeypatch, "plan", "direction", *own) == 2
    assert "would no longer be what its name says" in capsys.readouterr().err


def test_values_that_are_there_already_make_no_other_edition():
    study = find("fourier-gamma")
    plain = study.at("smoke")
    there, data = plain.study.base.optimizer.lr, plain.study.base.data
    assert study.at("smoke", set={"optimizer.lr": there, "data": data}) == plain
    assert study.at("smoke", set={"optimizer.lr": there}, name="mine").id == "fourier-gamma@smoke~mine"
    other = study.at("smoke", set={"optimizer.lr": 2 * there})
    assert (other.id, other.own_paths) != (plain.id, plain.own_paths)
    file = {"init": {"kind": "from_file", "path": "/a.pt", "sha256": "0" * 64, "part": "encoding"}}
    moved = Study(**{**dict(study), "base": study.base.put(file)}).at("smoke", set={"init.path": "/b.pt"})
    assert moved.study.base.get("init.path") == "/b.pt"


def test_a_file_with_the_name_of_a_named_study_is_reported(folder, monkeypatch, capsys):
    (folder / "same.py").write_text(ENCODINGS.replace('"waves"', '"fourier-gamma"'))
    assert typed(monkeypatch, "plan", "./same.py") == 0
    assert capsys.readouterr().err == (
        "./same.py calls its study fourier-gamma, which is the name of a study of locus, too; it is another one\n"
    )
    named = Path(library.__file__).parent / "studies/fourier_gamma.py"
    assert typed(monkeypatch, "plan", str(named)) == 0
    assert capsys.readouterr().err == ""


@pytest.fixture
def silent():
    """The address of a server that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("dead", [True, False])
def test_a_server_that_does_not_answer_is_reported(dead, silent, folder, monkeypatch, capsys):
    address = DEAD if dead else silent
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert typed(monkeypatch, *SEARCH) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"locus: MLflow at {address} does not answer (5 s); start it, or unset MLFLOW_TRACKING_URI to"
    )
    assert not (folder / "home").exists()
