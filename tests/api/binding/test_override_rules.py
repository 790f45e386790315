"""Where an override holds at the write, and which changes of it every placement's commit notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.admission.world import JANE, World
from tests.api.binding.cluster import NODES, OWN, PODS, batch, bind, book, check_of, item, node, own, pod
from tests.api.harness import Answer, Api, tell

from fathom.api.admission.attempt import DELETE, UPDATE, WriteAttempt
from fathom.api.binding.facts import RULES_PATH
from fathom.api.binding.placing import PlacementRules
from fathom.api.ledger.accounts import NODE_BOOKS, TENANT_BOOKS
from fathom.kube.definitions.own import OWN_KINDS
from fathom.model.objects import Obj

REGION, POOL = "topology.kubernetes.io/region", "fathom.dev/pool"
[OVERRIDE] = [kind for kind in OWN_KINDS if kind.kind == "SchedulerOverride"]


async def ordered(
    api: Api, target: str, scope: str, changes: Obj, *, namespace: str, name: str = "stop"
) -> None:
    spec = {"target": target, "scope": scope, "reason": "works", "expiresAfter": "10m", "changes": changes}
    path = f"{OWN}/namespaces/{namespace}/scheduleroverrides"
    made = await api.post(path, own("SchedulerOverride", name, spec))
    assert made.status == 201, made.obj


async def ways(api: Api, name: str, where: str) -> list[str]:
    """Each way on to a node, by somebody whose scheduler knows nothing of overrides: what refuses it."""
    await api.post(PODS, pod(name))
    [in_batch] = await batch(api, item(name, where))
    alone: Answer = await bind(api, name, where)
    created = await api.post(PODS, pod(f"{name}-named", node_name=where))
    return [str(in_batch.get("check") or ""), check_of(alone), check_of(created)]


CORDONED, FREE = ["NodeCordoned"] * 3, ["", "PodBound", ""]


@pytest.mark.parametrize("change", ["cordon", "drain"])
@pytest.mark.parametrize(
    ("target", "scope", "closed"),
    [
        ("zone/x", "cluster", ["west", "east"]),
        ("zone/x", "region/eu-west", ["west"]),
        ("zone/x", "pool/blue", ["east"]),
        ("node/west", "region/eu-east", []),
        ("pool/blue", "zone/x", ["east"]),
    ],
)
def test_a_cordon_holds_for_the_nodes_of_its_target_in_its_scope(
    change: str, target: str, scope: str, closed: list[str], tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "fathom-system"}})
        await api.post(NODES, node("west", zone="x", labels={REGION: "eu-west"}))
        await api.post(NODES, node("east", zone="x", labels={REGION: "eu-east", POOL: "blue"}))
        await ordered(api, target, scope, {change: True}, namespace="fathom-system")
        for name in ("west", "east"):
            assert await ways(api, f"p-{name}", name) == (CORDONED if name in closed else FREE)

    tell(story, tmp_path)


def test_what_is_to_be_avoided_is_so_within_the_scope(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("west", zone="x", labels={REGION: "eu-west"}))
        await api.post(NODES, node("east", zone="x", labels={REGION: "eu-east"}))
        await ordered(api, "workload/db", "region/eu-west", {"avoidZones": ["x"]}, namespace="default")
        await api.post(PODS, pod("db"))
        assert check_of(await bind(api, "db", "west")) == "NodeCordoned"
        assert (await bind(api, "db", "east")).status == 201

    tell(story, tmp_path)


def test_a_pod_in_a_class_is_charged_to_the_override_and_given_back(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("gold", labels={"pool": "gold", REGION: "eu-west"}))
        await api.post(NODES, node("far", labels={"pool": "gold", REGION: "eu-east"}))
        spec = {"nodeSelector": {"pool": "gold"}, "tenants": []}
        await api.post(f"{OWN}/capacityclasses", own("CapacityClass", "gold", spec))
        changes = {"allowReservedCapacityClass": "gold", "reservedReplicas": 1}
        await ordered(api, "workload/db", "region/eu-west", changes, namespace="default")
        into = {"fathom.dev/capacity-class": "gold"}
        template = {"metadata": {"labels": {"app": "db"}}, "spec": pod("p")["spec"]}
        made = await api.post(
            "/apis/apps/v1/namespaces/default/replicasets",
            {
                "kind": "ReplicaSet",
                "apiVersion": "apps/v1",
                "metadata": {"name": "db"},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "db"}}, "template": template},
            },
        )
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "controller": True}
        owner["uid"] = made.obj["metadata"]["uid"]
        for name in ("db-1", "db-2"):
            await api.post(PODS, pod(name, ownerReferences=[owner], annotations=into))

        async def use(name: str, where: str, by: str = "stop") -> str:
            [result] = await batch(api, item(name, where, annotations=into, overrides=[by]))
            return str(result.get("check") or "")

        assert await use("db-1", "far") == "ClassReserved", "the override is not for this region"
        assert await use("db-1", "gold") == ""
        assert await use("db-2", "gold") == "ClassReserved"
        await ordered(api, "workload/db", "region/eu-west", changes, namespace="default", name="again")
        assert await use("db-2", "gold", "again") == "ClassReserved", "the same twice is not twice as much"
        assert list(book(api, TENANT_BOOKS, "default")["overrides"].values()) == [1]
        await api.delete(f"{PODS}/db-1", {"gracePeriodSeconds": 0})
        assert "overrides" not in book(api, TENANT_BOOKS, "default")
        assert book(api, NODE_BOOKS, "gold") == {}
        assert await use("db-2", "gold") == ""

    tell(story, tmp_path)


# The key that every placement's commit expects.


def stored(**fields: Any) -> Obj:
    spec = {"target": "workload/web", "changes": {"pauseExpansion": True}}
    return {
        "kind": "SchedulerOverride",
        "metadata": {"name": "calm", "namespace": "default", "uid": "u"},
        "spec": spec,
        "status": {"expiresAt": "2026-01-01T00:10:00Z"},
        **fields,
    }


def noticed(old: Obj, new: Obj | None, operation: str = UPDATE) -> bool:
    attempt = WriteAttempt(
        operation=operation,
        kind=OVERRIDE,
        namespace="default",
        name="calm",
        obj=new,
        old=old,
        user=JANE,
        subresource="status" if new is not None else "",
    )
    writes = [write.key for charge in PlacementRules().charge(attempt, World()) for write in charge.writes]
    return writes == [RULES_PATH]


def test_placements_notice_that_an_override_was_approved_prolonged_or_changed() -> None:
    later = {"expiresAt": "2026-01-01T00:20:00Z"}
    assert noticed(stored(), stored(status=later))
    assert noticed(stored(), stored(status={**stored()["status"], "approval": {"approved": True}}))
    assert noticed(stored(), stored(spec={"target": "workload/web", "changes": {"cordon": True}}))
    assert not noticed(stored(), stored(status={**stored()["status"], "active": True}))


def test_placements_notice_the_deletion_of_an_override_that_a_finalizer_holds() -> None:
    meta = {**stored()["metadata"], "finalizers": ["fathom.dev/override"]}
    assert noticed(stored(metadata=meta), None, DELETE)
    assert not noticed(stored(), None, DELETE), "its removal is noticed"
    going = {**meta, "deletionTimestamp": "2026-01-01T00:05:00Z"}
    assert not noticed(stored(metadata=going), None, DELETE)
