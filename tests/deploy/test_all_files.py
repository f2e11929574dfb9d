"""What holds for every file of deploy/: versions are pinned, secrets are left to the user, programs can be run."""

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from search_spaces import library
from tests.deploy.deployed import (
    DEPLOY,
    KUBERNETES,
    OWN,
    PINS,
    PROJECT,
    ROOT,
    documents,
    files,
    named,
    scripts,
    tool,
    values_of,
)  # fmt: skip
from tests.deploy.kustomize import build

TEXTS = files()
YAMLS = [file for file in TEXTS if file.suffix in (".yaml", ".yml")]
SECRET = re.compile(r"^\W*[\w.-]*(password|passwd|secret|token|_key)[\w-]*\s*[:=]\s*(?P<value>\S.*)$", re.IGNORECASE)
LEFT_TO_THE_USER = re.compile(
    r"""^["']?(\$|/|~|-?\s*\{|\[|false|true|https?:|locus-(token|mlflow)|inside|required|token[,}]?$|ray_token)"""
)
"""What may stand behind such a name: a variable, a path, the name of a Secret, or how it is used."""


def test_no_file_holds_a_secret():
    lines = [(named(file), line) for file in TEXTS for line in file.read_text().splitlines()]
    found = [(file, line, SECRET.match(line)) for file, line in lines if not line.lstrip().startswith("#")]
    assert [(file, line) for file, line, match in found if match and not LEFT_TO_THE_USER.match(match["value"])] == []


@pytest.mark.parametrize(
    "line", ["POSTGRES_PASSWORD: hunter2", "RAY_AUTH_TOKEN=abc", "    STORE_SECRET: 'x'", "admin_password = 1"]
)
def test_a_secret_would_be_found(line):
    found = SECRET.match(line)
    assert found
    assert not LEFT_TO_THE_USER.match(found["value"])


def test_every_image_has_its_version():
    for document in (document for file in YAMLS for document in documents(file)):
        images = [one for name in ("image", "worker_image") for one in values_of(name, document)]
        images += [f"{one['name']}:{one['newTag']}" for one in next(values_of("images", document), [])]
        for image in images:
            name, _, tag = image.rpartition(":")
            assert re.match(r"\d+\.\d+", tag), f"{image} must have a version"
            if name in OWN:
                assert tag.removesuffix("-cpu") == PROJECT["version"], image


def test_versions_are_those_of_the_project():
    """A version of Ray, of MLflow or of locus that a file tells is the pinned one, and none is the latest."""
    text = "\n".join(file.read_text() for file in TEXTS)
    assert not re.search(r":latest\b", text)
    for found in re.findall(r"(?:rayVersion: |\bray==|rayproject/ray:)\"?(\d[\w.]*)", text):
        assert found == PINS["ray"]
    for found in re.findall(r"\bmlflow(?:==|:v?)(\d+\.[\w.]+)", text):
        assert found in (PINS["mlflow"], PROJECT["version"])
    for found in re.findall(r"\blocus(?:-mlflow)?:(\d+\.[\w.]+)", text):
        assert found.rstrip(".") == PROJECT["version"]


def test_the_readme_names_files_and_studies_that_are_there():
    text = (DEPLOY / "README.md").read_text()
    studies = re.findall(r"(?:study\.sbatch|locus (?:submit|report|stop)) ([\w-]+)", text)
    assert len(studies) > 5
    assert set(studies) <= set(library.names())
    paths = re.findall(r"\b(?:deploy/)?((?:container|compose|kubernetes|slurm|vms|mlflow|base|kueue)/[\w./-]+)", text)
    assert len(paths) > 8
    for path in paths:
        assert (DEPLOY / path).exists() or (DEPLOY / "kubernetes" / path).exists() or "mine" in path, path


OF_OTHERS = (
    "Submitted batch job", "Forwarding from 127.0.0.1", "8265", "Healthy", "1/1 Running", "get pods",
    "naming to docker.io/library/locus", "0.2.0", "kubectl apply -k", "curl",
)  # fmt: skip
"""Words of Slurm, Docker and Kubernetes, which are not installed here."""


def test_what_the_readme_says_you_see_is_printed():
    """Each quoted piece between dots stands in the sources of locus, of deploy/, or of the pinned Ray and MLflow."""
    text = (DEPLOY / "README.md").read_text()
    seen = re.findall(r"^You see: .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    assert len(seen) > 15
    packages = [Path(find_spec(name).origin).parent for name in ("ray", "mlflow")]
    places = (ROOT / "service", DEPLOY, ROOT / "tests" / "deploy")
    printing = [packages[0] / "scripts", packages[0] / "autoscaler", packages[1] / "server" / "__init__.py"]
    files = [file for place in (*places, *printing) for file in (place.rglob("*") if place.is_dir() else [place])]
    own = Path(__file__), DEPLOY / "README.md"
    sources = "\n".join(file.read_text() for file in files if file not in own and file.suffix in (".py", ".sbatch"))
    objects = {
        f"{thing['kind'].lower()}/{thing['metadata']['name']}"
        for overlay in ("gpu", "gpu/study")
        for thing in build(KUBERNETES / "overlays" / overlay)
    }
    objects |= {f"{kind}/{name}" for kind, name in re.findall(r"create (secret|namespace)(?: generic)? ([\w-]+)", text)}
    for quote in re.findall(r"`(.*?)`", " ".join(seen)):
        if made := re.fullmatch(r"(\w+)[\w.]*/([\w-]+) created", quote):
            assert f"{made[1]}/{made[2]}" in objects, quote
            continue
        for piece in filter(None, map(str.strip, re.split(r"\.\.\.|: |:(?=\d)|https?://\S*", quote))):
            assert piece in sources or piece in OF_OTHERS, (quote, piece)


@pytest.mark.parametrize("file", scripts(), ids=named)
def test_programs_can_be_run_and_bash_and_shellcheck_accept_them(file):
    assert os.access(file, os.X_OK) or file.suffix == ".sbatch"
    if not file.read_text().splitlines()[0].endswith("bash"):
        return
    assert "set -euo pipefail" in file.read_text()
    for words in (["bash", "-n"], [tool("shellcheck"), "--severity=info"]):
        done = subprocess.run([*words, str(file)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
