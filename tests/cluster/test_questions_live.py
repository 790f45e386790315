"""Questions to a running cluster, asked with kubectl: decisions, explanations, and who may ask."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import yaml
from tests.clients.kubectl import Kubectl
from tests.cluster.living import Cluster, until
from tests.cluster.test_metrics_live import published, token_of

from fathom.agent.api_server_link import AgentsOverHttps
from fathom.api.auth.certificates import ensure_pki
from fathom.api.process_pages import process_address
from fathom.model.record_query import ObjectRef, ProcessState, Recorded, RecordQuery
from fathom.seams.outside import SystemClock

TOO_LARGE = "64"


def pod(name: str, cpu: str = "10m") -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sleep", "1000"],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def create(cluster: Cluster, namespace: str, name: str, cpu: str = "10m") -> dict[str, Any]:
    made: dict[str, Any] = cluster.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod(name, cpu))
    return made


def decisions(kubectl: Kubectl, name: str) -> list[dict[str, Any]]:
    """About the pod, by the scheduler, oldest first."""
    chosen = f"spec.subject.resource=pods,spec.subject.name={name},spec.controller=scheduler"
    listed: list[dict[str, Any]] = json.loads(
        kubectl.run(f"get decisions -o json --field-selector {chosen}").out
    )["items"]
    return listed


def until_decided(cluster: Cluster, kubectl: Kubectl, name: str, verdict: str) -> dict[str, Any]:
    def fitting() -> list[dict[str, Any]]:
        return [one for one in decisions(kubectl, name) if one["spec"]["verdict"] == verdict]

    until(fitting, cluster.told)
    return fitting()[-1]


@pytest.mark.live
def test_kubectl_lists_the_decisions_of_a_namespace_and_shows_one(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    create(cluster, namespace, "web-1")
    bound = until_decided(cluster, kubectl, "web-1", "bind")
    table = kubectl.run("get decisions").out.splitlines()
    assert table[0].split() == ["NAME", "OBJECT", "CONTROLLER", "VERDICT", "RESULT", "AGE"]
    (row,) = [line.split() for line in table if line.startswith(bound["metadata"]["name"])]
    assert row[1:4] == ["pods/web-1", "scheduler", "bind"]
    one = json.loads(kubectl.run(f"get decision {bound['metadata']['name']} -o json").out)
    assert set(one["status"]["nodes"]) == {"node-1", "node-2", "node-3"}
    assert one["status"]["process"] == "deciders"
    assert kubectl.run("get decision nobody").code == 1

    def reported() -> list[list[str]]:
        rows = [line.split() for line in kubectl.run("get decisions").out.splitlines()]
        return [row for row in rows if row[1:4] == ["pods/web-1", "agent", "status"]]

    until(lambda: bool(reported()), cluster.told)  # The agents of its pods are asked too.
    first = json.loads(kubectl.run(f"get decision {reported()[0][0]} -o json").out)
    cause = first["spec"]["cause"]
    (written,) = [outcome["revision"] for outcome in bound["status"]["outcomes"]]
    assert (cause["resource"], cause["name"], cause["revision"]) == ("pods", "web-1", written), cause


@pytest.mark.live
def test_a_question_is_asked_with_create_and_with_get(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    create(cluster, namespace, "large", TOO_LARGE)
    until_decided(cluster, kubectl, "large", "unschedulable")
    asked = json.loads(kubectl.run("get explanation pod.large -o json").out)
    assert asked["status"]["stage"] == "unschedulable"
    assert not asked["status"].get("gaps")
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Explanation",
        "spec": {"subject": {"kind": "Pod", "name": "large"}},
    }
    sent = kubectl.run("create -o json -f -", stdin=json.dumps(question))
    assert json.loads(sent.out)["status"]["stage"] == "unschedulable", sent.err
    assert "subject" in kubectl.run("explain explanation.spec").out
    assert "decisions" in kubectl.run("api-resources --api-group fathom.dev").out


@pytest.fixture
def viewer(cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path) -> Kubectl:
    """A user that may view this namespace and nothing else."""
    cluster.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "viewer"}})
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}],
    }
    where = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    cluster.ask("POST", where, binding)
    config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token_of(cluster, namespace, "viewer")}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return Kubectl(kubectl.binary, file, kubectl.home, namespace)


@pytest.mark.live
def test_a_user_of_one_namespace_asks_about_it_and_about_no_other(
    cluster: Cluster, kubectl: Kubectl, viewer: Kubectl, namespace: str
) -> None:
    create(cluster, namespace, "large", TOO_LARGE)
    create(cluster, "default", "elsewhere", TOO_LARGE)
    try:
        refused = until_decided(cluster, kubectl, "large", "unschedulable")
        until_decided(cluster, kubectl.within("default"), "elsewhere", "unschedulable")
        answer = viewer.run("get explanation pod.large -o json")
        assert json.loads(answer.out)["status"]["stage"] == "unschedulable", answer.err
        shown = viewer.run(f"get decision {refused['metadata']['name']} -o json").out
        assert "node-1" not in shown
        assert sum(json.loads(shown)["status"]["reasons"].values()) == 3
        denied = viewer.within("default").run("get explanation pod.elsewhere")
        assert (denied.code, "Forbidden" in denied.err) == (1, True)
        assert viewer.within("default").run("get decisions -o name").out == ""
        everywhere = json.loads(viewer.run("get decisions -A -o json").out)["items"]
        # Everybody may read the limits of overrides, and so ask about them.
        others = [
            one for one in everywhere if one["spec"]["subject"]["resource"] != "steeringlimits.fathom.dev"
        ]
        assert {one["metadata"]["namespace"] for one in others} == {namespace}
    finally:
        cluster.ask("DELETE", "/api/v1/namespaces/default/pods/elsewhere")


def page(cluster: Cluster, path: str) -> bytes:
    """A page of the deciders, read as the API server reads it."""

    async def read() -> bytes:
        agents = AgentsOverHttps(ensure_pki(cluster.data, clock=SystemClock()), SystemClock())
        slices = [one for one in published(cluster) if "deciders" in str(one["metadata"]["name"])]  # type: ignore[index]
        try:
            status, body = await agents.page(process_address(slices[0]), path)
        finally:
            await agents.close()
        assert status == 200, body
        return body

    return asyncio.run(read())


@pytest.mark.live
def test_a_process_tells_its_lease_its_caches_and_the_places_in_its_queue(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    made = create(cluster, namespace, "large", TOO_LARGE)
    uid = made["metadata"]["uid"]
    until_decided(cluster, kubectl, "large", "unschedulable")
    states = msgspec.json.decode(page(cluster, f"/state?about={uid}"), type=list[ProcessState])
    by_part = {state.parts[0]: state for state in states}
    assert set(by_part) == {"scheduler", "controllers"}
    scheduler = by_part["scheduler"]
    assert (scheduler.leads, scheduler.lease, scheduler.breaker) == (True, "fathom-system/scheduler", "")
    assert scheduler.caches["Pod"].revision > 0
    assert scheduler.state["queue"]["pods"][uid]["state"] == "parked"
    assert by_part["controllers"].state["loops"]
    query = msgspec.json.encode(RecordQuery(objects=(ObjectRef("pods", namespace, "large", uid),))).decode()
    records = msgspec.json.decode(page(cluster, f"/records?query={quote(query)}"), type=list[Recorded])
    assert records[-1].nodes is not None
    assert set(records[-1].nodes) == {"node-1", "node-2", "node-3"}


@pytest.mark.live
def test_a_stopped_scheduler_reads_no_data_and_a_killed_one_answers_again_from_its_journal(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    create(cluster, namespace, "large", TOO_LARGE)
    before = until_decided(cluster, kubectl, "large", "unschedulable")
    deciders = cluster.parts()["deciders"]
    os.kill(deciders, signal.SIGSTOP)
    try:
        listed = kubectl.run("get decisions")
        assert "no data from the journal of deciders" in listed.err
        status = json.loads(kubectl.run("get explanation pod.large -o json").out)["status"]
        assert [gap["source"] for gap in status["gaps"]] == ["journal of deciders"]
    finally:
        os.kill(deciders, signal.SIGKILL)
    name = before["metadata"]["name"]
    until(lambda: kubectl.run(f"get decision {name}").code == 0, cluster.told)
    again = json.loads(kubectl.run(f"get decision {name} -o json").out)
    assert again["spec"] == before["spec"]


@pytest.mark.live
def test_what_agents_decided_about_a_pod_that_is_gone_is_in_the_timeline(
    cluster: Cluster, namespace: str
) -> None:
    """Nobody knows any more on which node it was, but the audit log knows who wrote it."""
    made = create(cluster, namespace, "gone")
    path = f"/api/v1/namespaces/{namespace}/pods/gone"
    until(lambda: cluster.ask("GET", path)["status"].get("phase") == "Running", cluster.told)
    cluster.ask("DELETE", f"{path}?gracePeriodSeconds=1")
    names = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=metadata.name=gone"
    until(lambda: cluster.ask("GET", names)["items"] == [], cluster.told)
    head = {"apiVersion": "fathom.dev/v1alpha1", "kind": "Timeline"}
    spec = {"subject": {"kind": "pod", "name": "gone", "uid": made["metadata"]["uid"]}}
    timelines = f"/apis/fathom.dev/v1alpha1/namespaces/{namespace}/timelines"
    answer = cluster.ask("POST", timelines, {**head, "spec": spec})["status"]
    assert [gap for gap in answer.get("gaps") or () if gap["source"] == "journals"] == []
    assert [one for one in answer["entries"] if one["source"] == "decision" and "agent" in one["actor"]]
