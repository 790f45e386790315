"""`fathom status`: the lines of the view, and the view made by the command itself from a real API server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, serving

from fathom.cli.problem import Problem
from fathom.cli.read_evidence import read_evidence, resource_named
from fathom.cli.status import status_lines
from fathom.client.api import Api
from fathom.explain.evidence import ObjectRef
from fathom.explain.status import explain_status
from fathom.model.decision import Decision, Rejection, SeenVersions, Subject
from fathom.model.objects import Obj
from fathom.record.journal import DiskJournal
from fathom.seams.seam import Ask, Reply, Stream


def entry(value: Any, source: str = "somewhere") -> Obj:
    return {"value": value, "source": source}


def view(**changes: Any) -> Obj:
    return {
        "workload": {"name": "risk-api"},
        "generation": entry(42),
        "rollbackObserved": entry(True),
        "pendingReplicas": entry(["replica-042"]),
        "lastReason": entry("quota/risk-zone-c"),
        "cacheRevision": {"TenantQuota": entry(918812), "Node": entry(918900)},
        "latestRevision": {"TenantQuota": entry(918946), "Node": entry(918900)},
        "autoscalerReason": entry("low ready replicas"),
        "repairCondition": entry({"type": "RepairComplete", "status": "True", "observedGeneration": 42}),
        "gaps": [],
        **changes,
    }


def test_the_text_reads_as_in_the_lesson() -> None:
    assert status_lines(view()) == [
        "workload: risk-api",
        "generation: 42",
        "rollback observed by scheduler: true",
        "pending replica: replica-042",
        "last scheduling reason: quota/risk-zone-c",
        "scheduler cache RV: 918812",
        "quota controller latest RV: 918946",
        "autoscaler reason: low ready replicas",
        "repair condition: RepairComplete=True, observedGeneration=42",
    ]


def test_a_kind_that_is_behind_has_lines_though_the_reason_is_about_another() -> None:
    lines = status_lines(view(lastReason=entry("capacity")))
    assert lines[5:7] == ["scheduler cache RV: 918900", "node latest RV: 918900"]
    assert lines[-2:] == ["scheduler cache RV of TenantQuota: 918812", "TenantQuota latest RV: 918946"]


def test_what_is_not_known_reads_no_data_with_the_reason() -> None:
    lines = status_lines(
        view(
            rollbackObserved=entry(None, "no PolicyRollout of this workload was rolled back"),
            pendingReplicas=entry([]),
            cacheRevision={},
            gaps=[{"source": "journal of scheduler", "why": "it does not answer"}],
        )
    )
    assert (
        "rollback observed by scheduler: no data (no PolicyRollout of this workload was rolled back)" in lines
    )
    assert "pending replicas: none" in lines
    assert "scheduler cache RV: no data (no data)" in lines
    assert lines[-1] == "no data from journal of scheduler: it does not answer"


def test_wide_output_has_the_source_of_every_line() -> None:
    lines = status_lines(view(), wide=True)
    assert all("[somewhere]" in line for line in lines[1:])


@pytest.mark.parametrize(
    ("kind", "resource"),
    [("deploy", "deployments.apps"), ("Pod", "pods"), ("hpa", "horizontalpodautoscalers.autoscaling"),
     ("nodes", "nodes"), ("scheduleroverride", "scheduleroverrides.fathom.dev")],
)  # fmt: skip
def test_kinds_are_found_by_the_names_that_users_write(kind: str, resource: str) -> None:
    found = resource_named(kind)
    assert found is not None
    assert found.name == resource
    assert resource_named("nonsense") is None


class InProcess:
    """A transport to an API server in this process."""

    def __init__(self, server: Any) -> None:
        self._server = server

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        raw = await self._server.raw(ask.method, ask.target, ask.body or None, token=ADMIN)
        return Reply(raw.status, raw.body)

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        raise NotImplementedError


def workload() -> Obj:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_the_command_reads_objects_journals_and_gaps_itself(tmp_path: Path) -> None:
    asyncio.run(read_itself(tmp_path))


async def read_itself(tmp_path: Path) -> None:
    async with serving(tmp_path / "server") as server:
        apps = "/apis/apps/v1/namespaces/default"
        made = (await server.post(f"{apps}/deployments", workload())).obj
        replica_set = {**made, "kind": "ReplicaSet", "metadata": {"name": "web-1", "labels": {"app": "web"}}}
        reference = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        replica_set["metadata"]["ownerReferences"] = [reference]
        replica_set["spec"] = {name: made["spec"][name] for name in ("replicas", "selector", "template")}
        owner = (await server.post(f"{apps}/replicasets", replica_set)).obj
        assert "uid" in owner["metadata"], owner
        pod = {
            "metadata": {
                "name": "web-1-0",
                "labels": {"app": "web"},
                "ownerReferences": [
                    {**reference, "kind": "ReplicaSet", "name": "web-1", "uid": owner["metadata"]["uid"]}
                ],
            },
            "spec": made["spec"]["template"]["spec"],
        }
        created = (await server.post("/api/v1/namespaces/default/pods", pod)).obj
        journal = DiskJournal(tmp_path / "data" / "journal" / "scheduler")
        journal.decided(
            Decision(
                id="d-1",
                time_ns=5,
                controller="scheduler",
                subject=Subject("pods", "default", "web-1-0", created["metadata"]["uid"]),
                verdict="unschedulable",
                seen={"TenantQuota": SeenVersions(3)},
                rejected=(Rejection("TenantQuota", "quota", 1, reason="quota/risk-zone-c"),),
            )
        )
        journal.close()
        api, about = Api(InProcess(server)), ObjectRef("deployments.apps", "default", "web")
        evidence = await read_evidence(api, about, tmp_path / "data", now_ns=6)
    status = explain_status(evidence)
    assert status.pending_replicas.value == ["web-1-0", "1 not created"]
    assert status.last_reason.value == "quota/risk-zone-c"
    assert status.cache_revision["TenantQuota"].value == 3
    assert [gap.source for gap in status.gaps] == ["audit log"]


def test_a_subject_without_a_kind_is_a_usage_error(tmp_path: Path) -> None:
    from fathom.cli.status import status

    with pytest.raises(Problem, match="write the workload as KIND/NAME"):
        status("web", kubeconfig=tmp_path / "none")
