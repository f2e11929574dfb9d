"""What the files for Kubernetes mean: locked up, alike in all pods, gone when idle, and slow to kill a study."""

import pytest

from service.execution.submission import STOP_S, job_environment
from tests.deploy.deployed import PINS, cluster_spec, pod_templates, values_of

RAY = ("head", "worker")


def pods(things, *roles):
    """The role, pod template and only container of each pod, of some roles or of all."""
    found = []
    for role, template in (pod for thing in things for pod in pod_templates(thing)):
        if not roles or role in roles:
            (container,) = template["spec"]["containers"]
            found.append((role, template, container))
    return found


def cluster(things):
    """The one Ray cluster among the objects."""
    (found,) = [cluster_spec(thing) for thing in things if thing["kind"] in ("RayCluster", "RayJob")]
    return found


def of_kind(things, kind):
    return {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == kind}


def environment(container):
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container.get("env", ())}


def test_every_ray_process_has_the_pinned_version_and_asks_for_the_users_token(built):
    assert cluster(built)["rayVersion"] == PINS["ray"]
    assert cluster(built)["authOptions"] == {"mode": "token", "secretName": "locus-token"}
    for _, template, container in pods(built, *RAY):
        env = environment(container)
        assert env["RAY_AUTH_MODE"] == "token"
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "token"]
        assert env["RAY_AUTH_TOKEN_PATH"] == f"{mount['mountPath']}/auth_token"
        assert mount["readOnly"]
        (volume,) = [volume for volume in template["spec"]["volumes"] if volume["name"] == "token"]
        assert volume["secret"]["secretName"] == "locus-token"
        assert volume["secret"]["defaultMode"] & 0o007 == 0, "only the pod's own user and group read the token"


def test_no_secret_has_a_value_here(built):
    assert not of_kind(built, "Secret")
    for _, _, container in pods(built):
        for name, value in environment(container).items():
            if any(word in name for word in ("PASSWORD", "SECRET", "USERNAME")):
                assert value.keys() == {"secretKeyRef"}, name


def test_every_pod_is_no_root_asks_kubernetes_nothing_is_probed_and_gets_what_it_asks_for(built):
    scaler = cluster(built)["autoscalerOptions"]
    containers = [container for _, _, container in pods(built)]
    for container in [*containers, scaler]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    for role, template, container in pods(built):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod.get("automountServiceAccountToken", True) == (role == "head")
        assert role == "worker" or not pod.get("tolerations"), role
        if role != "submitter":
            ports = {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert container[probe].get("httpGet", {"port": next(iter(ports))})["port"] in ports


def test_the_head_trains_nothing_and_workers_come_and_go(built):
    spec = cluster(built)
    assert spec["enableInTreeAutoscaling"]
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert spec["headGroupSpec"]["rayStartParams"]["num-gpus"] == "0"
    for group in spec["workerGroupSpecs"]:
        assert (group["replicas"], group["minReplicas"]) == (0, 0)
        assert group["maxReplicas"] > 0
    assert "nvidia.com/gpu" not in str(spec["headGroupSpec"])


def test_a_study_on_no_workers_says_how_many_runs_wait(pair):
    """Its driver plans before the first worker is there."""
    for thing in pair[1]:
        words = thing["spec"]["entrypoint"].split()
        (group,) = cluster_spec(thing)["workerGroupSpecs"]
        ((_, _, container),) = pods([thing], "worker")
        resources = container["resources"]["limits"]
        assert words[:2] == ["locus", "run"]
        assert "--join" in words
        assert int(words[words.index("--max-concurrent") + 1]) <= group["maxReplicas"] * int(resources["cpu"])
        assert ("--device" in words) == ("nvidia.com/gpu" in resources)


def test_a_head_waits_until_studies_have_stopped_and_a_worker_drains(built):
    for _, template, container in pods(built, "head"):
        assert container["lifecycle"]["preStop"]["exec"]["command"] == ["drain"]
        assert template["spec"]["terminationGracePeriodSeconds"] > STOP_S + 60
        assert template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    for job in of_kind(built, "RayJob").values():
        for name in ("RAY_JOB_STOP_SIGNAL", "RAY_JOB_STOP_WAIT_TIME_S"):
            assert f"{name}: {job_environment(None)[name]}" in job["spec"]["runtimeEnvYAML"].replace('"', "")
    for _, template, container in pods(built, "worker"):
        drains = int(environment(container)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
        assert 0 < drains < template["spec"]["terminationGracePeriodSeconds"]


def test_all_nodes_see_the_same_home(built):
    claims, homes = set(), set()
    for _, template, container in pods(built, *RAY):
        (volume,) = [volume for volume in template["spec"]["volumes"] if "persistentVolumeClaim" in volume]
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
        claims.add((volume["persistentVolumeClaim"]["claimName"], mount["mountPath"]))
        home = environment(container)["LOCUS_HOME"]
        assert home.startswith(f"{mount['mountPath']}/")
        homes.add(home)
    assert len(claims) == len(homes) == 1


def test_the_claims_of_pods_are_there(pair):
    claims = of_kind(pair[0], "PersistentVolumeClaim")
    used = [claim["claimName"] for things in pair for claim in values_of("persistentVolumeClaim", things)]
    assert set(used) == set(claims)
    assert claims["locus-home"]["spec"]["accessModes"] == ["ReadWriteMany"]


@pytest.mark.parametrize("built", ["overlays/gpu-spot", "overlays/gpu-spot/study"], indirect=True)
def test_spot_workers_go_to_spot_machines(built):
    ((_, worker, _),) = pods(built, "worker")
    keys = set(values_of("key", worker["spec"]["affinity"]))
    tolerated = {toleration["key"] for toleration in worker["spec"]["tolerations"]}
    assert {key for key in keys if "eks" not in key} | {"nvidia.com/gpu"} == tolerated
    assert worker["spec"]["terminationGracePeriodSeconds"] <= 30, "a spot machine is gone 30 s after its notice"


def test_priorities_are_there_and_workers_come_last(pair):
    ranks = {name: thing["value"] for name, thing in of_kind(pair[0], "PriorityClass").items()}
    for role, template, _ in pods([*pair[0], *pair[1]]):
        assert (ranks[template["spec"]["priorityClassName"]] == min(ranks.values())) == (role == "worker")


def test_what_no_policy_allows_is_forbidden_and_the_namespace_refuses_root(pair):
    policies = {name: thing["spec"] for name, thing in of_kind(pair[0], "NetworkPolicy").items()}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert not [name for name, spec in policies.items() for rule in spec.get("ingress", ()) if not rule.get("from")]
    labels = [template["metadata"]["labels"] for _, template, _ in pods([*pair[0], *pair[1]])]
    for name, spec in policies.items():
        chosen = spec["podSelector"].get("matchLabels", {}).items()
        assert any(chosen <= of_pod.items() for of_pod in labels), f"{name} must choose a pod"
    (namespace,) = of_kind(pair[0], "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_mlflow_is_locked_up_and_alone(pair):
    ((_, _, mlflow),) = pods(pair[0], "mlflow")
    hosts = environment(mlflow)["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert "*" not in hosts
    (deployment,) = of_kind(pair[0], "Deployment").values()
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    address = f"mlflow:{of_kind(pair[0], 'Service')['mlflow']['spec']['ports'][0]['port']}"
    assert address in hosts
    for things in pair:
        for _, _, container in pods(things, *RAY):
            assert environment(container)["MLFLOW_TRACKING_URI"] == f"http://{address}"
