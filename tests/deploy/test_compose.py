"""The compose file: as compose's own schema has it, on loopback alone, locked up, and slow to kill a study."""

import json
import re
from importlib.resources import files as resources

import jsonschema
import pytest
import yaml

from service.execution.submission import STOP_S
from tests.deploy.deployed import DEPLOY, OWN, Loader, strings

FOLDER = DEPLOY / "compose"
SCHEMA = json.loads((resources("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
COMPOSE = yaml.load((FOLDER / "compose.yaml").read_text(), Loader)
SERVICES = COMPOSE["services"]
NAMES = set(re.findall(r"^(\w+)=", (FOLDER / ".env.example").read_text(), re.MULTILINE))


def test_it_fits_the_schema_of_compose_which_finds_a_misspelt_key():
    for name in ("compose.yaml", "cpu.yaml"):
        jsonschema.validate(yaml.load((FOLDER / name).read_text(), Loader), SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"head": {"image": "x", "prots": []}}}, SCHEMA)


def test_only_this_machine_reaches_its_ports():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not [name for name, service in SERVICES.items() if service.get("network_mode") or service.get("privileged")]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_looked_after(name):
    service = SERVICES[name]
    assert service["healthcheck"]["test"]
    assert service["restart"] == "unless-stopped"
    assert service["deploy"]["resources"]["limits"]["memory"]
    assert "no-new-privileges:true" in service["security_opt"]
    if service["image"].partition(":")[0] in OWN:
        assert service["cap_drop"] == ["ALL"]
        assert service["init"], "somebody must wait for processes that end"
    assert "user" not in service, "the images say who runs them"


def test_ray_asks_for_the_token_trains_on_workers_alone_and_waits_until_studies_have_stopped():
    for name in ("head", "worker"):
        env = SERVICES[name]["environment"]
        assert env["RAY_AUTH_MODE"] == "token"
        assert env["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"
        assert SERVICES[name]["secrets"] == ["ray_token"]
        assert SERVICES[name]["volumes"] == ["shared:/shared"]
        assert env["LOCUS_HOME"].startswith("/shared/")
    assert COMPOSE["secrets"]["ray_token"].keys() == {"file"}
    assert "--num-cpus 0 --num-gpus 0" in SERVICES["head"]["command"]
    (device,) = SERVICES["worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"]) == ("nvidia", "all")
    assert "devices" not in str(SERVICES["head"]["deploy"])
    assert SERVICES["head"]["pre_stop"] == [{"command": ["drain"]}]
    assert float(SERVICES["head"]["stop_grace_period"].removesuffix("s")) > STOP_S + 60


def test_services_wait_for_what_they_need_and_data_outlive_their_containers():
    needed = {name: set(service.get("depends_on", {})) for name, service in SERVICES.items()}
    assert needed == {
        "head": {"mlflow", "store"}, "worker": {"head"}, "mlflow": {"database"}, "database": set(), "store": set()
    }  # fmt: skip
    conditions = [one["condition"] for service in SERVICES.values() for one in service.get("depends_on", {}).values()]
    assert set(conditions) == {"service_healthy"}
    mounted = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert mounted == COMPOSE["volumes"].keys()


def test_every_variable_stands_in_the_example_and_has_no_secret_value():
    used = {name for text in strings(COMPOSE) for name in re.findall(r"\$\{(\w+)", text)}
    assert used == NAMES
    for line in (FOLDER / ".env.example").read_text().splitlines():
        if line and not line.startswith(("#", "WORKER_MEMORY=")):
            assert line.endswith("="), line
    for text in strings(COMPOSE):
        for name, default in re.findall(r"\$\{(\w+)(\S*?)\}", text):
            assert default.startswith(":?") or name == "WORKER_MEMORY", f"{name} must be refused where it is empty"


def test_mlflow_is_reached_by_its_own_names_alone():
    env = SERVICES["mlflow"]["environment"]
    hosts = env["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert "*" not in hosts
    assert SERVICES["head"]["environment"]["MLFLOW_TRACKING_URI"].removeprefix("http://") in hosts
    assert env["MLFLOW_BACKEND_STORE_URI"].startswith("postgresql://")
