"""The admission policy of overrides, evaluated by the server of $FATHOM_KUBECONFIG: fathom's own server does
not evaluate policies."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.attach.real import FOREIGN, real_cluster
from tests.attach.scheduled import OVERRIDES, RBAC, override
from tests.clients.kubectl import eventually
from tests.clients.running import Kubernetes, client_tls

from fathom.attach.installed import objects_to_install
from fathom.attach.installing import INSTALLED
from fathom.kinds.override_policy import AUTHOR

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not FOREIGN, reason="FATHOM_KUBECONFIG names no Kubernetes that evaluates policies"),
]

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
JANE = "system:serviceaccount:default:jane"
BINDINGS = f"{RBAC}/clusterrolebindings"


@pytest.fixture
def cluster() -> Iterator[Kubernetes]:
    """With the policy, and its kind served."""
    with real_cluster() as server:
        for obj in objects_to_install(observe_only=False):
            path = INSTALLED[obj["kind"]].path(obj["metadata"].get("namespace", ""))
            server.request("POST", path, obj)
        eventually(lambda: server.answer("GET", OVERRIDES)[0] == 200, seconds=30)
        yield server


@pytest.fixture
def jane(cluster: Kubernetes) -> Iterator[Kubernetes]:
    """Somebody who may write overrides, and has none of the verbs."""
    cluster.request("POST", ACCOUNTS, {"metadata": {"name": "jane"}})
    rules = [{"apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"], "verbs": ["create", "patch"]}]
    cluster.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "jane-writes"}, "rules": rules})
    bind(cluster, "jane-writes")
    made = cluster.request("POST", f"{ACCOUNTS}/jane/token", {"spec": {"expirationSeconds": 3600}})
    yield dataclasses.replace(cluster, token=made["status"]["token"], tls=client_tls(cluster.kubeconfig))
    for path in (f"{BINDINGS}/jane-writes", f"{RBAC}/clusterroles/jane-writes", f"{ACCOUNTS}/jane"):
        cluster.request("DELETE", path)
    cluster.answer("DELETE", f"{BINDINGS}/fathom-steering")


def bind(cluster: Kubernetes, role: str) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"kind": "ServiceAccount", "namespace": "default", "name": "jane"}]
    body = {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects}
    cluster.request("POST", BINDINGS, body)


def signed(author: str, **changes: Any) -> dict[str, Any]:
    made = override("avoid-b", **(changes or {"avoidZones": ["b"]}))
    made["metadata"]["annotations"][AUTHOR] = author
    return made


def test_the_server_refuses_what_the_policy_refuses(cluster: Kubernetes, jane: Kubernetes) -> None:
    def refused(obj: dict[str, Any]) -> str:
        status, text = jane.answer("POST", OVERRIDES, obj)
        assert status in {403, 422}, text
        return str(json.loads(text)["message"])

    def is_enforced() -> bool:
        status, _ = jane.answer("POST", f"{OVERRIDES}?dryRun=All", signed("alice"))
        return status == 422

    eventually(is_enforced, seconds=30)  # The server reads new policies after a moment.
    verb = "the verb constrain on scheduleroverrides.fathom.dev is needed"
    assert verb in refused(signed(JANE))
    bind(cluster, "fathom-steering")
    eventually(lambda: jane.answer("POST", f"{OVERRIDES}?dryRun=All", signed(JANE))[0] == 201, seconds=30)
    wrong = f"the annotation fathom.dev/author must be your own user name, {JANE}"
    assert wrong in refused(signed("alice"))
    infrastructure = signed(JANE, cordon=True)
    infrastructure["spec"]["target"] = "node/node-1"
    assert "must be in the namespace fathom-system" in refused(infrastructure)
    assert jane.answer("POST", OVERRIDES, signed(JANE))[0] == 201
    longer = {"spec": {"expiresAfter": "90m"}}
    status, text = jane.answer("PATCH", f"{OVERRIDES}/avoid-b", longer, media="application/merge-patch+json")
    assert status == 422
    assert "spec and annotation fathom.dev/author cannot be changed" in text
