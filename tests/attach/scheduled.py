"""A Kubernetes that is not fathom's, with fathom's scheduler beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.api.harness import JANE
from tests.attach.foreign import NODES, PODS, Foreign, foreign
from tests.attach.real import FOREIGN, RealApi, config_of_account
from tests.cli.asking import kubeconfig, node, pod

from fathom.attach.installed import objects_to_install
from fathom.attach.installing import install
from fathom.cli.cluster.scheduler import run_scheduler
from fathom.client.once import api_of
from fathom.kinds.override_policy import AUTHOR
from fathom.kube.definitions.unenforced import ACCEPT
from fathom.record.journal import DiskJournal, read_journal
from fathom.record.journals import journal_directory

OVERRIDES = "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOURNAL = "scheduler-fathom"
TWO_ZONES = (("node-1", "a", "4"), ("node-2", "b", "16"))  # Name, zone, cpu: b has more room.


def accepted(objects: list[Any]) -> list[Any]:
    """With the annotation that a server of ours asks for, since it evaluates no policies, and proxies
    nothing."""
    if FOREIGN:
        return objects
    return [
        {**obj, "metadata": {**obj["metadata"], "annotations": {ACCEPT: "true"}}}
        if obj["kind"].startswith(("ValidatingAdmissionPolicy", "APIService"))
        else obj
        for obj in objects
    ]


async def granted(cluster: Foreign, objects: list[Any]) -> None:
    """Install, and give jane the roles of the service account: fathom's own server has further rules for
    accounts in its namespace, which another Kubernetes has not."""
    async with api_of(cluster.address()) as api:
        await install(api, objects)
    if isinstance(cluster.api, RealApi):
        return
    for obj in objects:
        if obj["kind"] in {"ClusterRoleBinding", "RoleBinding"}:
            namespace = obj["metadata"].get("namespace")
            name = f"jane-{obj['metadata']['name']}"
            subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}
            path = (
                f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
            )
            body = {"metadata": {"name": name}, "roleRef": obj["roleRef"], "subjects": [subject]}
            assert (await cluster.api.post(path, body)).status == 201


def config_of_jane(cluster: Foreign, tmp_path: Path) -> Path:
    if isinstance(cluster.api, RealApi):
        return config_of_account(cluster.api.server, tmp_path)
    config = tmp_path / "config"
    as_jane: Any = kubeconfig(cluster.url)
    as_jane["users"][0]["user"]["token"] = JANE
    config.write_text(json.dumps(as_jane))
    return config


def in_zone(name: str, zone: str, cpu: str) -> dict[str, Any]:
    made: dict[str, Any] = node(name, cpu)
    labels = {**(made["metadata"].get("labels") or {}), "topology.kubernetes.io/zone": zone}
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def waiting(name: str, cpu: str = "1") -> dict[str, Any]:
    made: dict[str, Any] = pod(name, cpu)
    return {**made, "spec": {**made["spec"], "schedulerName": "fathom"}}


def override(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name, "annotations": {AUTHOR: "admin"}},
        "spec": {
            "target": "workload/web",
            "scope": "cluster",
            "reason": "repair",
            "expiresAfter": "45m",
            "changes": changes,
        },
    }


@asynccontextmanager
async def scheduling(
    tmp_path: Path, *, policy: bool = True, nodes: tuple[tuple[str, str, str], ...] = TWO_ZONES
) -> AsyncIterator[Foreign]:
    """A cluster with these nodes, and a scheduler with the installed roles alone."""
    (tmp_path / "foreign").mkdir()
    async with foreign(tmp_path / "foreign") as cluster:
        objects = objects_to_install(observe_only=False)
        await granted(cluster, accepted(objects) if policy else objects)
        for name, zone, cpu in nodes:
            await cluster.api.post(NODES, in_zone(name, zone, cpu))
        journal, stop = DiskJournal(journal_directory(tmp_path, JOURNAL)), asyncio.Event()
        config = config_of_jane(cluster, tmp_path)
        running = asyncio.create_task(
            run_scheduler(config, stop, journal=journal, names=("fathom",), data=tmp_path)
        )
        try:
            yield cluster
        finally:
            stop.set()
            await asyncio.wait_for(running, 30)
            journal.close()


async def placed(cluster: Foreign, name: str) -> str:
    async def bound() -> bool:
        return bool((await cluster.api.get(f"{PODS}/{name}")).obj["spec"].get("nodeName"))

    await cluster.api.eventually(bound, timeout_s=30)
    return str((await cluster.api.get(f"{PODS}/{name}")).obj["spec"]["nodeName"])


def verdicts(tmp_path: Path, name: str) -> list[str]:
    """What the scheduler decided about the pod, in order."""
    return [
        kept.decision.verdict
        for kept in read_journal(journal_directory(tmp_path, JOURNAL))
        if kept.decision.subject.name == name
    ]
