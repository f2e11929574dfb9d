"""What the files for Kubernetes mean: locked up, alike in all pods, gone when idle, and slow to kill a study."""

import pytest

from service.execution.submission import STOP_S, job_environment
from tests.deploy.deployed import PINS, cluster_spec, pod_templates, values_of

RAY = ("head", "worker")


def templates(things, *roles):
    return [one for thing in things for role, one in pod_templates(thing) if not roles or role in roles]


def containers(things, *roles):
    return [one for template in templates(things, *roles) for one in template["spec"]["containers"]]


def cluster(things):
    """The one Ray cluster among the objects."""
    (found,) = [cluster_spec(thing) for thing in things if thing["kind"] in ("RayCluster", "RayJob")]
    return found


def environment(container):
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", ())}


def test_rays_version_is_the_pinned_one(built):
    assert cluster(built)["rayVersion"] == PINS["ray"]


def test_every_ray_process_asks_for_the_users_token(built):
    assert cluster(built)["authOptions"] == {"mode": "token", "secretName": "locus-token"}
    for template in templates(built, *RAY):
        (container,) = template["spec"]["containers"]
        env = environment(container)
        assert env["RAY_AUTH_MODE"] == "token"
        (mount,) = [one for one in container["volumeMounts"] if one["name"] == "token"]
        assert env["RAY_AUTH_TOKEN_PATH"] == f"{mount['mountPath']}/auth_token"
        assert mount["readOnly"]
        (volume,) = [one for one in template["spec"]["volumes"] if one["name"] == "token"]
        assert volume["secret"]["secretName"] == "locus-token"
        assert volume["secret"]["defaultMode"] & 0o007 == 0, "only the pod's own user and group read the token"


def test_no_secret_has_a_value_here(built):
    assert "Secret" not in {thing["kind"] for thing in built}
    for container in containers(built):
        for name, value in environment(container).items():
            if any(word in name for word in ("PASSWORD", "SECRET", "USERNAME")):
                assert value.keys() == {"secretKeyRef"}, name


def test_no_process_is_root_or_may_become_it(built):
    for template in templates(built):
        pod = template["spec"]["securityContext"]
        assert pod["runAsNonRoot"]
        assert pod["runAsUser"] > 0
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    own = [container["securityContext"] for container in containers(built)]
    for one in [*own, cluster(built)["autoscalerOptions"]["securityContext"]]:
        assert one["allowPrivilegeEscalation"] is False
        assert one["capabilities"] == {"drop": ["ALL"]}


def test_the_namespace_refuses_what_is_not_so(pair):
    (namespace,) = [one for one in pair[0] if one["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_only_the_head_may_ask_kubernetes(built):
    for thing in built:
        for role, template in pod_templates(thing):
            assert template["spec"].get("automountServiceAccountToken", True) == (role == "head")


def test_every_server_is_probed(built):
    for thing in built:
        for role, template in pod_templates(thing):
            if role == "submitter":
                continue
            (container,) = template["spec"]["containers"]
            ports = {one["name"] for one in container["ports"]}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert container[probe].get("httpGet", {"port": next(iter(ports))})["port"] in ports


def test_a_pod_gets_what_it_asks_for_and_no_more(built):
    found = [one["resources"] for one in containers(built)]
    for resources in [*found, cluster(built)["autoscalerOptions"]["resources"]]:
        assert resources["requests"] == resources["limits"]
        assert {"cpu", "memory"} <= resources["limits"].keys()


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
        (resources,) = [one["resources"]["limits"] for one in group["template"]["spec"]["containers"]]
        assert words[:2] == ["locus", "run"]
        assert "--join" in words
        assert int(words[words.index("--max-concurrent") + 1]) <= group["maxReplicas"] * int(resources["cpu"])
        assert ("--device" in words) == ("nvidia.com/gpu" in resources)


def test_a_head_waits_until_studies_have_stopped(built):
    for template in templates(built, "head"):
        (container,) = template["spec"]["containers"]
        assert container["lifecycle"]["preStop"]["exec"]["command"] == ["drain"]
        assert template["spec"]["terminationGracePeriodSeconds"] > STOP_S + 60
        assert template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    for thing in built:
        if thing["kind"] == "RayJob":
            for name in ("RAY_JOB_STOP_SIGNAL", "RAY_JOB_STOP_WAIT_TIME_S"):
                assert f"{name}: {job_environment(None)[name]}" in thing["spec"]["runtimeEnvYAML"].replace('"', "")


def test_a_worker_drains_before_it_is_killed(built):
    for template in templates(built, "worker"):
        (container,) = template["spec"]["containers"]
        drains = int(environment(container)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
        assert 0 < drains < template["spec"]["terminationGracePeriodSeconds"]


def test_all_nodes_see_the_same_home(built):
    claims, homes = set(), set()
    for template in templates(built, *RAY):
        (container,) = template["spec"]["containers"]
        (volume,) = [one for one in template["spec"]["volumes"] if "persistentVolumeClaim" in one]
        (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
        claims.add((volume["persistentVolumeClaim"]["claimName"], mount["mountPath"]))
        home = environment(container)["LOCUS_HOME"]
        assert home.startswith(f"{mount['mountPath']}/")
        homes.add(home)
    assert len(claims) == len(homes) == 1


def test_the_claims_of_pods_are_there(pair):
    there = {one["metadata"]["name"]: one["spec"] for one in pair[0] if one["kind"] == "PersistentVolumeClaim"}
    asked = [claim["claimName"] for things in pair for claim in values_of("persistentVolumeClaim", things)]
    assert set(asked) == set(there)
    assert there["locus-home"]["accessModes"] == ["ReadWriteMany"]


def test_workers_alone_tolerate_taints(built):
    for thing in built:
        for role, template in pod_templates(thing):
            assert role == "worker" or not template["spec"].get("tolerations"), role


@pytest.mark.parametrize("built", ["overlays/gpu-spot", "overlays/gpu-spot/study"], indirect=True)
def test_spot_workers_go_to_spot_machines(built):
    (worker,) = templates(built, "worker")
    asked = set(values_of("key", worker["spec"]["affinity"]))
    tolerated = {one["key"] for one in worker["spec"]["tolerations"]}
    assert {key for key in asked if "eks" not in key} | {"nvidia.com/gpu"} == tolerated
    assert worker["spec"]["terminationGracePeriodSeconds"] <= 30, "a spot machine is gone 30 s after its notice"


def test_priorities_are_there_and_workers_come_last(pair):
    ranks = {one["metadata"]["name"]: one["value"] for one in pair[0] if one["kind"] == "PriorityClass"}
    for things in pair:
        for thing in things:
            for role, template in pod_templates(thing):
                rank = ranks[template["spec"]["priorityClassName"]]
                assert (rank == min(ranks.values())) == (role == "worker")


def test_what_no_policy_allows_is_forbidden(pair):
    policies = {one["metadata"]["name"]: one["spec"] for one in pair[0] if one["kind"] == "NetworkPolicy"}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    open_to_all = [name for name, spec in policies.items() for rule in spec.get("ingress", ()) if not rule.get("from")]
    assert not open_to_all
    labels = [template["metadata"]["labels"] for things in pair for template in templates(things)]
    for name, spec in policies.items():
        chosen = spec["podSelector"].get("matchLabels", {}).items()
        assert any(chosen <= one.items() for one in labels), f"{name} must choose a pod"


def test_mlflow_is_locked_up_and_alone(pair):
    (mlflow,) = containers(pair[0], "mlflow")
    env = environment(mlflow)
    assert "*" not in env["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    (deployment,) = [one for one in pair[0] if one["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (service,) = [one for one in pair[0] if one["kind"] == "Service" and one["metadata"]["name"] == "mlflow"]
    address = f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert address in env["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    for things in pair:
        for container in containers(things, *RAY):
            assert environment(container)["MLFLOW_TRACKING_URI"] == f"http://{address}"
