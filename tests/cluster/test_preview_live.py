"""Previews on a running cluster: who gets which answer, and that the cluster does not notice."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from tests.cluster.living import Cluster, until
from tests.cluster.test_metrics_live import token_of

from fathom.cli.main import run
from fathom.sim.fork import end, fork, run_for
from fathom.sim.fork_state import state_from_store

pytestmark = pytest.mark.live

OWN = "/apis/fathom.dev/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HEARTBEATS = ("/registry/leases.coordination.k8s.io/", "/registry/nodes/", "/registry/fences.", "/fathom/")
REPLICAS = 3


def web() -> dict[str, Any]:
    container = {"name": "c", "image": "sleeper:1", "resources": {"requests": {"cpu": "10m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": REPLICAS, "selector": selector, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def override(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "tried", "namespace": namespace},
        "spec": {
            "target": "workload/web",
            "scope": "cluster",
            "reason": "zone a is stale",
            "expiresAfter": "30m",
            "changes": {"avoidZones": ["a"]},
        },
    }


@pytest.fixture
def running_web(cluster: Cluster, namespace: str) -> str:
    """The namespace in which all pods of web are ready."""
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.ask("POST", where, web())

    def is_ready() -> bool:
        status = cluster.ask("GET", f"{where}/web").get("status") or {}
        return bool(status.get("readyReplicas") == REPLICAS)

    until(is_ready, cluster.told)
    return namespace


def versions(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Of everything in the namespace that is written at all."""
    paths = {
        "pods": f"/api/v1/namespaces/{namespace}/pods",
        "deployments": f"/apis/apps/v1/namespaces/{namespace}/deployments",
        "replicasets": f"/apis/apps/v1/namespaces/{namespace}/replicasets",
        "overrides": f"{OWN}/namespaces/{namespace}/scheduleroverrides",
    }
    return {
        f"{kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for kind, path in paths.items()
        for item in cluster.ask("GET", path)["items"]
    }


def preview_as(cluster: Cluster, namespace: str, token: str) -> dict[str, Any]:
    spec = {"override": override(namespace), "minutes": 1, "seeds": 1}
    body = {"apiVersion": "fathom.dev/v1alpha1", "kind": "OverridePreview", "spec": spec}
    tls = ssl.create_default_context(cafile=str(cluster.data / "pki" / "ca.crt"))
    connection = http.client.HTTPSConnection(urlsplit(cluster.url).netloc, context=tls, timeout=70)
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    connection.request(
        "POST", f"{OWN}/namespaces/{namespace}/overridepreviews", json.dumps(body), headers=headers
    )
    answer = connection.getresponse()
    told: dict[str, Any] = json.loads(answer.read())
    connection.close()
    assert answer.status == 201, told
    status: dict[str, Any] = told["status"]
    return status


def bind(cluster: Cluster, namespace: str, account: str, role: str) -> None:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": f"{namespace}-{role}"}, "roleRef": reference, "subjects": [subject]}
    where = f"{RBAC}/namespaces/{namespace}/rolebindings" if role == "view" else f"{RBAC}/clusterrolebindings"
    cluster.ask("POST", where, binding)


def test_the_command_shows_both_futures_and_create_refuses_a_token_whose_target_has_moved(
    cluster: Cluster,
    running_web: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "override.yaml"
    file.write_text(yaml.safe_dump(override(running_web)))
    config = ("--kubeconfig", str(cluster.data / "kubeconfig"))
    before = versions(cluster, running_web)
    assert run(["override", "preview", "-f", str(file), "--minutes", "2", "--seeds", "1", *config]) == 0
    out = capsys.readouterr().out
    assert versions(cluster, running_web) == before
    assert "It changes none of these counts." in out
    token = next(line.split()[1] for line in out.splitlines() if line.startswith("Token: "))
    assert f"fathom override create -f {file} --from-preview {token}" in out
    cluster.patch(f"/apis/apps/v1/namespaces/{running_web}/deployments/web", {"spec": {"replicas": 4}})
    create = ["override", "create", "-f", str(file), "--from-preview", token, "--yes", *config]
    assert run(create) == 1
    moved = f"Deployment {running_web}/web: its generation was 1 and is 2"
    assert moved in capsys.readouterr().err


def test_a_user_without_the_verb_gets_the_what_if_and_with_it_the_fork(
    cluster: Cluster, running_web: str
) -> None:
    cluster.ask("POST", f"/api/v1/namespaces/{running_web}/serviceaccounts", {"metadata": {"name": "jane"}})
    bind(cluster, running_web, "jane", "view")
    token = token_of(cluster, running_web, "jane")
    before = versions(cluster, running_web)
    without = preview_as(cluster, running_web, token)
    assert (without["method"], without["with"]) == ("what-if", [])
    assert 'the verb "fork" on clusterstates.fathom.dev' in without["reason"]
    role = f"{running_web}-previewer"
    rules = [
        {"apiGroups": ["fathom.dev"], "resources": ["clusterstates"], "verbs": ["fork"]},
        {"apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"], "verbs": ["*"]},
    ]
    cluster.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    bind(cluster, running_web, "jane", role)
    with_verb = preview_as(cluster, running_web, token)
    assert (with_verb["method"], with_verb["refused"]) == ("fork", None)
    assert with_verb["with"][0]["target"]["ready"] == REPLICAS
    assert versions(cluster, running_web) == before


def test_a_fork_of_the_running_cluster_is_quiet(cluster: Cluster, running_web: str) -> None:
    world = fork(state_from_store(cluster.data), "1")
    run_for(world, 60)  # What was under way ends.
    keys: list[str] = []
    world.engine.watchers.append(
        lambda changes: keys.extend(
            change.key
            for change in changes
            if not change.key.startswith(HEARTBEATS) and f"/{running_web}/" in change.key
        )
    )
    run_for(world, 600)
    end(world)
    assert keys == []
