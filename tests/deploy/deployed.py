"""What the tests of deploy/ read: its folder, the versions that are pinned, YAML, and the pods of every kind."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = ("locus", "locus-mlflow")
"""The images that the Dockerfile makes."""


class Loader(yaml.SafeLoader):
    """YAML with the tags of compose: `!reset` takes what another file says away."""


Loader.add_constructor("!reset", lambda loader, node: loader.construct_sequence(node))


def tool(name: str) -> str:
    """A program of the environment that runs the tests, whether or not it is on the PATH."""
    return str(Path(sys.executable).with_name(name))


def documents(file: Path) -> list[Any]:
    """The documents of a YAML file."""
    return [one for one in yaml.load_all(file.read_text(), Loader) if one is not None]


def files(folder: Path = DEPLOY) -> list[Path]:
    """The text files of a folder, those in its folders too."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".png")


def scripts() -> list[Path]:
    """The programs of deploy/, which begin with a shebang."""
    return [file for file in files() if file.read_text().startswith("#!")]


def named(file: Path) -> str:
    """A file's path, for the name of a test."""
    return str(file.relative_to(DEPLOY))


def pod_templates(thing: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pod templates of an object: `head`, `worker`, `submitter`, or the name of a Deployment or StatefulSet."""
    spec = thing.get("spec", {})
    if thing["kind"] in ("Deployment", "StatefulSet"):
        yield thing["metadata"]["name"], spec["template"]
    if thing["kind"] == "RayJob":
        yield "submitter", spec["submitterPodTemplate"]
        spec = spec["rayClusterSpec"]
    if thing["kind"] in ("RayCluster", "RayJob"):
        yield "head", spec["headGroupSpec"]["template"]
        for group in spec["workerGroupSpecs"]:
            yield "worker", group["template"]


def cluster_spec(thing: dict[str, Any]) -> Any:
    """The Ray cluster of a RayCluster or a RayJob."""
    return thing["spec"].get("rayClusterSpec", thing["spec"])


def strings(value: Any) -> Iterator[str]:
    """Every text in nested dicts and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


def values_of(name: str, value: Any) -> Iterator[Any]:
    """Every value of a key, in nested dicts and lists."""
    if isinstance(value, dict) and name in value:
        yield value[name]
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from values_of(name, one)
