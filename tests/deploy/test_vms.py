"""The file of `ray up`: as Ray's own schema has it, with a token, and with a dashboard that only a tunnel reaches."""

import json
from pathlib import Path

import jsonschema
import pytest
import ray
import yaml

from tests.deploy.deployed import DEPLOY

FILE = DEPLOY / "vms" / "cluster.yaml"
CLUSTER = yaml.safe_load(FILE.read_text())
SCHEMA = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
STARTS = {role: CLUSTER[f"{role}_start_ray_commands"] for role in ("head", "worker")}
WORKERS = {name: one for name, one in CLUSTER["available_node_types"].items() if name != CLUSTER["head_node_type"]}


def test_it_fits_the_schema_of_ray_which_finds_a_misspelt_key():
    jsonschema.validate(CLUSTER, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(CLUSTER | {"file_mount": {}}, SCHEMA)


@pytest.mark.parametrize("role", STARTS)
def test_ray_is_started_with_the_token_that_is_copied(role):
    (target,) = CLUSTER["file_mounts"]
    (line,) = [line for line in STARTS[role] if "ray start" in line]
    assert f"RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={target} " in line
    assert CLUSTER["file_mounts"][target].startswith("~/"), "the token is a file of the user's"


def test_the_dashboard_is_behind_a_tunnel_the_head_trains_nothing_and_workers_come_and_go():
    assert "--dashboard-host 127.0.0.1" in STARTS["head"][-1]
    assert "0.0.0.0" not in FILE.read_text()
    assert CLUSTER["available_node_types"][CLUSTER["head_node_type"]]["resources"] == {"CPU": 0}
    assert "--autoscaling-config" in STARTS["head"][-1]
    assert WORKERS
    for worker in WORKERS.values():
        assert worker["min_workers"] == 0
        assert worker["max_workers"] <= CLUSTER["max_workers"]
        assert worker["resources"]["CPU"] > 0
    for kind in CLUSTER["available_node_types"].values():
        metadata = kind["node_config"]["MetadataOptions"]
        assert metadata == {"HttpTokens": "required"}, "no process that only forwards is given the machine's keys"
