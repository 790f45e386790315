"""One cluster for all tests, and for each test a namespace and a kubectl that works in it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.kubectl import Kubectl
from tests.cluster.connecting import NS as CONNECTED
from tests.cluster.connecting import make_pods
from tests.cluster.living import Cluster, until

from fathom.model.objects import Obj

# Programs that stand for images; other images do not exist.
IMAGES = """
"sleeper:*" = ["sleep", "1000"]
"starter:*" = ["sh", "-c", "touch /scratch/up; exec sleep 1000"]
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    images = directory / "images.toml"
    images.write_text(IMAGES)
    made = Cluster(directory, "--nodes", "3", "--zones", "a,b", "--images", str(images))
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.end()


@pytest.fixture(scope="session")
def web(cluster: Cluster) -> Iterator[Obj]:
    """A pod to connect to, and others beside it."""
    yield make_pods(cluster)
    cluster.ask("DELETE", f"/api/v1/namespaces/{CONNECTED}")


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def namespace(cluster: Cluster, numbers: Iterator[int]) -> Iterator[str]:
    """It goes afterwards, with what runs in it. The Events of its last pods are refused while it goes, so we
    wait: another test counts what is refused."""
    name = f"live-{next(numbers)}"
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    cluster.ask("DELETE", f"/api/v1/namespaces/{name}")
    until(lambda: all(other["metadata"]["name"] != name for other in namespaces(cluster)), cluster.told)


def namespaces(cluster: Cluster) -> list[Obj]:
    found: list[Obj] = cluster.ask("GET", "/api/v1/namespaces")["items"]
    return found


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def kubectl_binary() -> str:
    """For tests with a cluster of their own."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not installed")
    return found


@pytest.fixture
def kubectl(kubectl: str, cluster: Cluster, namespace: str, kubectl_home: Path) -> Kubectl:
    return Kubectl(kubectl, cluster.data / "kubeconfig", kubectl_home, namespace)
