"""`kubectl wait`: for conditions, fields, creation and deletion; what happens when it is in vain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.clients.kubectl import Kubectl, Started
from tests.clients.objects import config_map, pod
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


@contextmanager
def waiting(kubectl: Kubectl, command: str) -> Iterator[Started]:
    """A `kubectl wait` that has begun to watch: at this verbosity it says so."""
    with kubectl.started(f"wait {command} --timeout=20s -v=6") as started:
        started.until("watch=true")
        yield started


def met(started: Started) -> bool:
    done = started.ended()
    good = done.code == 0 and done.out.splitlines()[-1].endswith("condition met")
    assert good, done  # With what kubectl printed.
    return good


def test_for_a_condition(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(pod("p"))
    with waiting(kubectl, "pod/p --for=condition=Ready") as wait:
        for status in ("False", "True"):
            conditions = [{"type": "Ready", "status": status}]
            path = f"/api/v1/namespaces/{namespace}/pods/p/status"
            server.patch(path, {"status": {"conditions": conditions}})
        assert met(wait)
    assert kubectl.ok("wait pod/p --for=condition=Ready") == "pod/p condition met\n"
    assert kubectl.ok("wait pod --all --for=condition=Ready=True") == "pod/p condition met\n"


def test_for_a_field(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", state="old"))
    with waiting(kubectl, "cm/c --for=jsonpath='{.data.state}'=new") as wait:
        kubectl.ok("patch cm c -p", '{"data":{"state":"new"}}')
        assert met(wait)
    assert kubectl.ok("wait cm/c --for=jsonpath='{.data.state}'") == "configmap/c condition met\n"


def test_for_deletion(kubectl: Kubectl) -> None:
    held = config_map("c")
    held["metadata"]["finalizers"] = ["example.com/held"]
    kubectl.create(held)
    with waiting(kubectl, "cm/c --for=delete") as wait:
        kubectl.ok("delete cm c --wait=false")
        kubectl.ok("patch cm c --type=merge -p", '{"metadata":{"finalizers":null}}')
        assert met(wait)
    assert kubectl.ok("wait cm/c --for=delete") == ""


def test_for_creation(kubectl: Kubectl) -> None:
    with kubectl.started("wait cm/c --for=create --timeout=20s") as waiting:
        kubectl.create(config_map("c"))
        done = waiting.ended()
    assert (done.code, done.out) == (0, "configmap/c condition met\n")


def test_in_vain(kubectl: Kubectl) -> None:
    """kubectl may complain about the watch that it ends itself; what it says last counts."""
    kubectl.create(config_map("c"))
    timed_out = "error: timed out waiting for the condition on configmaps/c"
    assert kubectl.fails("wait cm/c --for=condition=Never --timeout=1s").endswith(timed_out)
    assert kubectl.fails("wait cm/c --for=delete --timeout=1s").endswith(timed_out)


def test_for_what_is_not_there(kubectl: Kubectl) -> None:
    said = kubectl.fails("wait cm/none --for=condition=Never --timeout=1s")
    assert said == 'Error from server (NotFound): configmaps "none" not found'
    said = kubectl.fails("wait cm --all -l a=b --for=condition=Never --timeout=1s")
    assert said == "error: no matching resources found"
