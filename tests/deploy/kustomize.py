"""As much of kustomize as deploy/kubernetes uses, so that its meaning is tested where kubectl is missing.

Where kubectl is there, a test holds this equal to it.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.deployed import documents, values_of

KNOWN = {"apiVersion", "kind", "namespace", "resources", "components", "patches", "replacements", "images"}
CLUSTER_WIDE = ("Namespace", "PriorityClass")


def build(folder: Path, given: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """The objects of a kustomization. `given`: those that a component changes."""
    (asked,) = documents(folder / "kustomization.yaml")
    assert asked.keys() <= KNOWN, f"{folder}: this helper knows {KNOWN}"
    found = list(given or [])
    for name in asked.get("resources", ()):
        path = folder / name
        found += build(path) if path.is_dir() else documents(path)
    for name in asked.get("components", ()):
        found = build(folder / name, found)
    for patch in asked.get("patches", ()):
        text = patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text()
        found = _patched(found, patch["target"], yaml.safe_load(text))
    for replacement in asked.get("replacements", ()):
        _replace(found, replacement)
    for image in asked.get("images", ()):
        _name_images(found, image)
    if "namespace" in asked:
        for one in found:
            if one["kind"] == "Namespace":
                one["metadata"]["name"] = asked["namespace"]
            elif one["kind"] not in CLUSTER_WIDE:
                one["metadata"]["namespace"] = asked["namespace"]
    return found


def _fits(one: dict[str, Any], target: dict[str, str]) -> bool:
    group = one["apiVersion"].rpartition("/")[0]
    named = target.get("name", one["metadata"]["name"]) == one["metadata"]["name"]
    return named and target.get("group", group) == group and bool(re.fullmatch(target["kind"], one["kind"]))


def _patched(found: list[dict[str, Any]], target: dict[str, str], patch: Any) -> list[dict[str, Any]]:
    mine = [one for one in found if _fits(one, target)]
    assert mine, f"a patch must have a target: {target}"
    if isinstance(patch, dict):
        assert patch["$patch"] == "delete", "this helper knows JSON patches, and strategic ones that delete"
        return [one for one in found if one not in mine]
    for one in mine:
        for step in patch:
            _apply(one, step)
    return found


def _apply(one: Any, step: dict[str, Any]) -> None:
    """One operation of a JSON patch."""
    *above, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].strip("/").split("/")]
    for part in above:
        one = one[int(part)] if isinstance(one, list) else one[part]
    assert step["op"] in ("add", "replace"), step
    assert step["op"] == "add" or last in one, f"only what is there can be replaced: {step['path']}"
    one[last] = copy.deepcopy(step["value"])


def _replace(found: list[dict[str, Any]], replacement: dict[str, Any]) -> None:
    source = replacement["source"]
    (one,) = [one for one in found if _fits(one, source)]
    for part in source["fieldPath"].split("."):
        one = one[part]
    for target in replacement["targets"]:
        for other in found:
            if _fits(other, target["select"]):
                for path in target["fieldPaths"]:
                    _apply(other, {"op": "add", "path": path.replace(".", "/"), "value": one})


def _name_images(found: list[dict[str, Any]], image: dict[str, str]) -> None:
    for containers in (*values_of("containers", found), *values_of("initContainers", found)):
        for container in containers:
            if container["image"].partition(":")[0] == image["name"]:
                name, _, tag = container["image"].partition(":")
                container["image"] = f"{image.get('newName', name)}:{image.get('newTag', tag)}"
