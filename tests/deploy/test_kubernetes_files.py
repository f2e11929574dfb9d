"""The files for Kubernetes are what its API, KubeRay and kustomize accept."""

import json
import re
import shutil
import subprocess
from functools import cache

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.conftest import LABS, STUDIES
from tests.deploy.deployed import DEPLOY, KUBERNETES, ROOT, cluster_spec, documents, files, named, pod_templates
from tests.deploy.kustomize import build

VERSION = "1.36"
RAY_KINDS = {"RayCluster": "kuberay-rayclusters-v1.json", "RayJob": "kuberay-rayjobs-v1.json"}
SCHEMAS = ROOT.parent / "shared" / "schemas"
ALLOWED = {
    "cluster": {
        "rayVersion", "authOptions", "enableInTreeAutoscaling", "autoscalerOptions", "headGroupSpec",
        "workerGroupSpecs",
    },
    "job": {
        "entrypoint", "runtimeEnvYAML", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished",
        "submissionMode", "submitterPodTemplate", "rayClusterSpec",
    },
    "authOptions": {"mode", "secretName"},
    "autoscalerOptions": {"version", "idleTimeoutSeconds", "imagePullPolicy", "securityContext", "resources"},
    "headGroupSpec": {"serviceType", "rayStartParams", "template"},
    "group": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}  # fmt: skip
"""The keys of KubeRay's kinds that these files may use: its API drops one that is misspelt, without a word."""


def require_as_kubectl_builds(name, things):
    done = subprocess.run(["kubectl", "kustomize", str(name)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    theirs, ours = (
        sorted(side, key=lambda thing: (thing["kind"], thing["metadata"]["name"]))
        for side in (yaml.safe_load_all(done.stdout), things)
    )
    assert theirs == ours


def test_core_kinds_and_pods_are_valid_and_a_misspelt_key_is_found(built):
    """In a pod of Ray's, too."""
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"name": role}, "spec": template["spec"]}
        for thing in built
        for role, template in pod_templates(thing)
    ]
    assert len(pods) >= 3
    for thing in (*pods, *(thing for thing in built if thing["kind"] not in RAY_KINDS)):
        kubernetes_validate.validate(thing, VERSION, strict=True)
    (head,) = [pod for pod in pods if pod["metadata"]["name"] == "head"]
    wrong = head | {"spec": head["spec"] | {"terminationGracePeriod": 3}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_kinds_of_ray_have_known_keys(built):
    for thing in built:
        if thing["kind"] not in RAY_KINDS:
            continue
        spec = cluster_spec(thing)
        if thing["kind"] == "RayJob":
            assert thing["spec"].keys() <= ALLOWED["job"]
            assert len(thing["metadata"]["name"]) <= 47
        assert spec.keys() <= ALLOWED["cluster"]
        for name in ("authOptions", "autoscalerOptions", "headGroupSpec"):
            assert spec[name].keys() <= ALLOWED[name]
        for group in spec["workerGroupSpecs"]:
            assert group.keys() <= ALLOWED["group"]
        for part in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            assert all(isinstance(value, str) for value in part["rayStartParams"].values()), "KubeRay takes texts alone"


@cache
def validator(name):
    """KubeRay's schema of a kind, read and checked once."""
    schema = json.loads((SCHEMAS / name).read_text())
    made = jsonschema.validators.validator_for(schema)
    made.check_schema(schema)
    return made(schema)


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="KubeRay's own schemas are not beside the repository")
def test_kinds_of_ray_fit_their_schemas(built):
    for thing in built:
        if thing["kind"] in RAY_KINDS:
            validator(RAY_KINDS[thing["kind"]]).validate(thing)


def test_queues_are_an_option(tmp_path):
    """The component of Kueue puts its label on both kinds."""
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    for name in ("overlays/gpu", "overlays/gpu/study"):
        folder = tmp_path / "kubernetes" / name
        asked = yaml.safe_load((folder / "kustomization.yaml").read_text())
        assert "kueue" not in json.dumps(asked)
        up = "../" * (name.count("/") + 1)
        asked["components"] = [*asked.get("components", []), f"{up}kueue"]
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(asked))
        labels = [one["metadata"]["labels"] for one in build(folder) if one["kind"] in RAY_KINDS]
        assert labels == [{"kueue.x-k8s.io/queue-name": "locus"}]


def test_the_overlay_of_the_readme_can_be_built(tmp_path):
    (block,) = re.findall(r"```yaml\n(# overlays/mine.*?)```", (DEPLOY / "README.md").read_text(), re.DOTALL)
    shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    mine = tmp_path / "kubernetes" / "overlays" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(block)
    built = build(mine)
    images = {one["image"] for thing in built for _, pod in pod_templates(thing) for one in pod["spec"]["containers"]}
    assert {image.rpartition("/")[0] for image in images} == {"registry.example.org/lab", ""}
    (claim,) = [one for one in built if one["metadata"]["name"] == "locus-home"]
    assert claim["spec"]["storageClassName"] == "shared-files"
    if shutil.which("kubectl"):
        require_as_kubectl_builds(mine, built)


@pytest.mark.parametrize("file", [file for file in files(KUBERNETES) if file.suffix == ".yaml"], ids=named)
def test_every_file_is_used(file):
    """By a kustomization beside it, or as one."""
    assert documents(file)
    if file.name != "kustomization.yaml":
        (asked,) = documents(file.parent / "kustomization.yaml")
        patches = [patch.get("path") for patch in asked.get("patches", ())]
        assert file.name in (*asked.get("resources", ()), *patches)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("name", LABS + STUDIES)
def test_kubectl_builds_the_same(name):
    require_as_kubectl_builds(KUBERNETES / name, build(KUBERNETES / name))
