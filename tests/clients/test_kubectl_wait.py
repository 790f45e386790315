"""`kubectl wait`: for conditions, fields, creation and deletion; what happens when it is in vain."""

from __future__ import annotations

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import config_map, pod
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


def test_for_a_condition(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(pod("p"))
    with kubectl.started("wait pod/p --for=condition=Ready --timeout=20s") as waiting:
        for status in ("False", "True"):
            conditions = [{"type": "Ready", "status": status}]
            path = f"/api/v1/namespaces/{namespace}/pods/p/status"
            server.patch(path, {"status": {"conditions": conditions}})
        done = waiting.ended()
    assert (done.code, done.out) == (0, "pod/p condition met\n")
    assert kubectl.ok("wait pod/p --for=condition=Ready") == "pod/p condition met\n"
    assert kubectl.ok("wait pod --all --for=condition=Ready=True") == "pod/p condition met\n"


def test_for_a_field(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", state="old"))
    with kubectl.started("wait cm/c --for=jsonpath='{.data.state}'=new --timeout=20s") as waiting:
        kubectl.ok("patch cm c -p", '{"data":{"state":"new"}}')
        done = waiting.ended()
    assert (done.code, done.out) == (0, "configmap/c condition met\n")
    assert kubectl.ok("wait cm/c --for=jsonpath='{.data.state}'") == "configmap/c condition met\n"


def test_for_deletion(kubectl: Kubectl) -> None:
    held = config_map("c")
    held["metadata"]["finalizers"] = ["example.com/held"]
    kubectl.create(held)
    with kubectl.started("wait cm/c --for=delete --timeout=20s") as waiting:
        kubectl.ok("delete cm c --wait=false")
        kubectl.ok("patch cm c --type=merge -p", '{"metadata":{"finalizers":null}}')
        done = waiting.ended()
    assert (done.code, done.out) == (0, "configmap/c condition met\n")
    assert kubectl.ok("wait cm/c --for=delete") == ""


def test_for_creation(kubectl: Kubectl) -> None:
    with kubectl.started("wait cm/c --for=create --timeout=20s") as waiting:
        kubectl.create(config_map("c"))
        done = waiting.ended()
    assert (done.code, done.out) == (0, "configmap/c condition met\n")


def test_in_vain(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c"))
    said = kubectl.fails("wait cm/c --for=condition=Never --timeout=1s")
    assert said == "error: timed out waiting for the condition on configmaps/c"
    assert kubectl.fails("wait cm/c --for=delete --timeout=1s") == (
        "error: timed out waiting for the condition on configmaps/c"
    )
    said = kubectl.fails("wait cm/none --for=condition=Never --timeout=1s")
    assert said == 'Error from server (NotFound): configmaps "none" not found'
    assert (
        kubectl.fails("wait cm --all -l a=b --for=condition=Never --timeout=1s")
        == "error: no matching resources found"
    )
