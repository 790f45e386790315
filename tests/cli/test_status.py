"""`fathom status`: the lines of the view, and a view that a real API server answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api
from tests.ask.processes import AskedProcess
from tests.cli.asking import PODS, Fathom, told

from fathom.cli.ask.status import status_lines
from fathom.cli.problem import Problem
from fathom.model.decision import Decision, Rejection, SeenVersions, Subject
from fathom.model.objects import Obj


def entry(value: Any, source: str = "somewhere") -> Obj:
    return {"value": value, "source": source}


def view(**changes: Any) -> Obj:
    return {
        "workload": {"name": "risk-api"},
        "summary": "deployment/risk-api: 8 of 9 replicas serve; 1 is not ready: quota/risk-zone-c",
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
        "deployment/risk-api: 8 of 9 replicas serve; 1 is not ready: quota/risk-zone-c",
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
    assert lines[6:8] == ["scheduler cache RV: 918900", "node latest RV: 918900"]
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
    assert "scheduler cache RV: no data (no scheduler that answers reports it)" in lines
    assert lines[-1] == "no data from journal of scheduler: it does not answer"


def test_each_service_of_the_workload_has_a_line_with_its_error_rate_and_burn() -> None:
    level = {"errorRate": {"5m": 0.02, "1h": 0.001}, "burnRate": {"5m": 20.0, "1h": 1.0}}
    quiet = {"errorRate": {"5m": None, "1h": 0.0}, "burnRate": {"5m": None, "1h": 0.0}}
    silent = entry(None, "process gateway does not answer")
    levels = {"shop/web": entry(level), "shop/api": entry(quiet), "shop/db": silent}
    assert status_lines(view(serviceLevels=levels))[-3:] == [
        "service shop/web: error rate 2.00% in 5m, SLO burn 20.0; error rate 0.10% in 1h, SLO burn 1.0",
        "service shop/api: error rate 0.00% in 1h, SLO burn 0.0",
        "service shop/db: no data (process gateway does not answer)",
    ]


def test_wide_output_has_the_source_of_every_line() -> None:
    lines = status_lines(view(), wide=True)
    assert all("[somewhere]" in line for line in lines[2:])


def workload() -> Obj:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def with_a_pod(api: Api) -> Obj:
    """A Deployment of two replicas, its ReplicaSet and one pod, as controllers create them: the pod."""
    apps = "/apis/apps/v1/namespaces/default"
    made = (await api.post(f"{apps}/deployments", workload())).obj
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    meta = {"name": "web-1", "labels": {"app": "web"}, "ownerReferences": [reference]}
    spec = {name: made["spec"][name] for name in ("replicas", "selector", "template")}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    owner = (await api.post(f"{apps}/replicasets", replica_set)).obj
    of_pod = {**reference, "kind": "ReplicaSet", "name": "web-1", "uid": owner["metadata"]["uid"]}
    meta = {"name": "web-1-0", "labels": {"app": "web"}, "ownerReferences": [of_pod]}
    pod = {"metadata": meta, "spec": made["spec"]["template"]["spec"]}
    created: Obj = (await api.post(PODS, pod)).obj
    return created


def test_the_command_shows_the_objects_and_the_decisions_that_the_server_knows(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        created = await with_a_pod(api)
        scheduler.journal.decided(
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
        code, out, err = await fathom("status", "deploy/web", "-o", "json")
        assert code == 1, err
        status = json.loads(out)
        assert status["pendingReplicas"]["value"] == ["web-1-0", "1 not created"]
        assert status["lastReason"]["value"] == "quota/risk-zone-c"
        assert status["cacheRevision"]["TenantQuota"]["value"] == 3
        code, out, err = await fathom("status", "deploy/none")
        assert (code, out) == (1, "")
        assert "there is no deployment default/none, and nothing is on record about one" in err

    told(dialogue, tmp_path)


def test_a_subject_without_a_kind_is_a_usage_error(tmp_path: Path) -> None:
    from fathom.cli.ask.status import status

    with pytest.raises(Problem, match="write the workload as KIND/NAME"):
        status("web", kubeconfig=tmp_path / "none")
