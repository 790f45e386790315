"""One server for all client tests, and for each test a namespace and a kubectl that works in it.

    FATHOM_KUBECONFIG=FILE script/test tests/clients

asks the same of the cluster of that kubeconfig, which may be another Kubernetes: what fails there and not
here is a difference, and belongs into docs/decisions/0005. Needs an administrator's rights; each test has a
namespace of its own, and a few make nodes and kinds, which go afterwards.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.clients.kubectl import As, Kubectl, eventually, minor_of
from tests.clients.running import Kubernetes, Server, kubernetes_of, running

NAME_MAX = 40  # Leaves room for a number, and for what tests append to their namespace's name.

MINOR_MIN = 32  # Of kubectl: older ones work too, but say many things in other words.

FOREIGN = os.environ.get("FATHOM_KUBECONFIG", "")
# What only fathom's own server has, or what starts servers of its own.
OWN = {
    "test_extension_authentication.py",
    "test_kopf.py",
    "test_kubectl_override_matrix.py",
    "test_kubectl_overrides.py",
    "test_kubectl_own.py",
    "test_kubectl_workloads.py",
    "test_tutorial_controller.py",
}

ASKED_MAX = 100  # The server looks at the token file now and then.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOREIGN and item.path.parent == Path(__file__).parent and item.path.name in OWN:
            item.add_marker(pytest.mark.skip(reason="of fathom's own server alone: FATHOM_KUBECONFIG is set"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    if FOREIGN:
        yield kubernetes_of(Path(FOREIGN))
        return
    with running(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def namespace(server: Kubernetes, numbers: Iterator[int], request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace, named after the test. It goes afterwards, without anybody waiting for it."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    name = f"{test[:NAME_MAX].strip('-')}-{next(numbers)}"
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    until_pods_are_taken(server, name)
    yield name
    listed = server.request("GET", f"/api/v1/namespaces?fieldSelector=metadata.name={name}")
    if listed["items"]:
        server.request("DELETE", f"/api/v1/namespaces/{name}")


def until_pods_are_taken(server: Kubernetes, namespace: str) -> None:
    """Where controllers make a service account for each namespace, a kube-apiserver takes no pods before."""

    def has_account(name: str) -> bool:
        path = f"/api/v1/namespaces/{name}/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
        return bool(server.request("GET", path)["items"])

    if FOREIGN and has_account("default"):
        eventually(lambda: has_account(namespace))


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all tests of a run, so that discovery is asked for once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def kubectl(kubectl: str, server: Kubernetes, namespace: str, kubectl_home: Path) -> Kubectl:
    if minor_of(kubectl) < MINOR_MIN:
        pytest.skip(f"these tests compare the words of kubectl 1.{MINOR_MIN} and later")
    return Kubectl(kubectl, server.kubeconfig, kubectl_home, namespace)


@pytest.fixture
def cluster(kubectl: Kubectl) -> Kubectl:
    """For objects that are in no namespace: kubectl warns when it is told one all the same."""
    return kubectl.within("")


@pytest.fixture
def node_name(server: Kubernetes, namespace: str) -> Iterator[str]:
    """A node that is there for the test. Its name is the namespace's: no other test has it."""
    server.request("POST", "/api/v1/nodes", {"metadata": {"name": namespace}})
    yield namespace
    server.request("DELETE", f"/api/v1/nodes/{namespace}")


@pytest.fixture
def person(kubectl: Kubectl, server: Kubernetes, tmp_path: Path) -> Iterator[As]:
    """kubectl as somebody, known by a line of the token file."""
    if not isinstance(server, Server):
        pytest.skip("only a server of ours has a token file: FATHOM_KUBECONFIG is set")
    tokens = server.data / "tokens.csv"
    before = tokens.read_text() if tokens.exists() else None
    lines = [] if before is None else [before]

    def as_person(name: str) -> Kubectl:
        token = secrets.token_hex(16)
        lines.append(f"{token},{name},{name}\n")
        tokens.write_text("".join(lines))
        tokens.chmod(0o600)
        config = yaml.safe_load(server.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        own = tmp_path / f"{name}.kubeconfig"
        own.write_text(yaml.safe_dump(config))
        somebody = dataclasses.replace(kubectl, kubeconfig=own)
        asked = (somebody.run("auth whoami").code for _ in range(ASKED_MAX))
        assert 0 in asked, "the server does not read the token file"
        return somebody

    yield as_person
    tokens.write_text(before or "")
