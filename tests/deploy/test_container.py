"""The Dockerfile: linted, of pinned versions, without root, and fed with nothing but the code."""

import re
import subprocess
from fnmatch import fnmatch

import pytest

from tests.deploy.deployed import DEPLOY, PINS, PROJECT, ROOT, tool

FILE = DEPLOY / "container" / "Dockerfile"
TEXT = FILE.read_text()
STAGES = {
    found[1]: found[2]
    for found in re.finditer(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
IGNORED = (FILE.parent / "Dockerfile.dockerignore").read_text().splitlines()


def test_hadolint_accepts_it():
    done = subprocess.run([tool("hadolint"), str(FILE)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_python_is_pinned_and_one_that_locus_runs_on():
    (version,) = re.findall(r"^ARG PYTHON=(\S+)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    least = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    assert tuple(map(int, version.split(".")[:2])) >= least
    assert f"CPython {version.rpartition('.')[0]}" in (ROOT / "constraints.txt").read_text()
    outside = [found for found in re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE) if found not in STAGES]
    assert set(outside) == {"python:${PYTHON}-slim-bookworm"}


def test_every_package_has_the_version_of_the_constraints():
    assert "PIP_CONSTRAINT=/src/constraints.txt" in STAGES["tools"]
    assert "COPY constraints.txt" in STAGES["tools"]
    installs = re.findall(r"pip install (.*?)(?:;|$)", TEXT, re.MULTILINE)
    assert len(installs) == 3
    for words in installs:
        for name in re.findall(r"(?<![-/\w.])'?([a-z][\w-]*)", re.sub(r"--\S+( https\S+)?|\[.*?\]", "", words)):
            assert name in PINS, name
    assert {"ray", "mlflow", "torch"} <= PINS.keys()


@pytest.mark.parametrize("stage", ["locus", "mlflow"])
def test_what_runs_is_not_root_and_has_no_tools_to_build(stage):
    users = re.findall(r"^USER (\S+)$", STAGES[stage], re.MULTILINE)
    assert users == ["1000:1000"]
    assert "pip install" not in STAGES[stage] + STAGES["base"]
    after = STAGES[stage].partition("USER")[2]
    assert "RUN" not in after


def test_the_last_stage_is_what_studies_run_in_gpus_are_the_default_and_no_layer_holds_a_secret():
    assert list(STAGES)[-1] == "locus"
    assert "ARG DEVICE=cuda" in STAGES["training"]
    given = re.findall(r"^(?:ARG|ENV) .*$", TEXT, re.MULTILINE)
    assert given
    assert not [line for line in given if re.search("PASSWORD|SECRET|TOKEN|_KEY", line)]


def kept(path: str) -> bool:
    """Whether docker sends a file into the build: the last line that fits it decides."""
    answer = True
    for line in IGNORED:
        pattern = line.removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = [path, *(path.rsplit("/", up)[0] for up in range(1, path.count("/") + 1))]
        if any(fnmatch(part, pattern.removeprefix("**/")) or fnmatch(part, pattern) for part in parts) or (
            pattern.startswith("**/") and pattern[3:] in path.split("/")
        ):
            answer = line.startswith("!")
    return answer


def test_the_build_gets_what_it_copies_and_nothing_else():
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", TEXT, re.MULTILINE) for word in line.split()]
    assert copied
    for path in copied:
        assert (ROOT / path).exists(), path
        assert kept(path), path
    for path in (".git/config", ".env", "deploy/compose/.env", ".venv/bin/python", "tests/conftest.py", "mlflow.db"):
        assert not kept(path), path
    assert not kept("service/__pycache__/api.cpython-311.pyc")
    assert kept("service/api.py")
