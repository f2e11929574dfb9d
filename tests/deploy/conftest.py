"""The kustomizations that a user applies, each built once."""

import pytest

from tests.deploy.deployed import KUBERNETES
from tests.deploy.kustomize import build

OVERLAYS = ("cpu", "gpu", "gpu-spot")
LABS = tuple(f"overlays/{name}" for name in OVERLAYS)
STUDIES = tuple(f"overlays/{name}/study" for name in OVERLAYS)


@pytest.fixture(scope="session", params=LABS + STUDIES)
def built(request):
    """The objects of a lab's cluster, or of a study with a cluster of its own."""
    return build(KUBERNETES / request.param)


@pytest.fixture(scope="session", params=OVERLAYS)
def pair(request):
    """The objects of an overlay: those of the lab, and those of a study."""
    folder = KUBERNETES / "overlays" / request.param
    return build(folder), build(folder / "study")
