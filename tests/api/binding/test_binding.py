"""Binding one pod: what is charged, what is refused and in whose name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.binding.cluster import (
    NODES,
    OWN,
    PODS,
    assert_kept,
    batch,
    bind,
    book,
    check_of,
    item,
    node,
    own,
    pod,
)
from tests.api.harness import Api, tell

from fathom.api.ledger.accounts import NODE_BOOKS, TENANT_BOOKS
from fathom.model.objects import Obj


def test_a_bound_pod_is_charged_to_its_node_and_its_tenant(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", zone="zone-c"))
        await api.post(PODS, pod("p", cpu="1500m", port=80))
        binding = {
            "target": {"kind": "Node", "name": "n1", "resourceVersion": "77"},
            "metadata": {"annotations": {"fathom.dev/decision": "d1"}},
        }
        assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
        bound = (await api.get(f"{PODS}/p")).obj
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {
            "fathom.dev/decision": "d1",
            "fathom.dev/account": "default/zone-c/",
            "fathom.dev/node-revision": "77",
        }
        counts = {"cpu": 1500, "pods": 1}
        assert book(api, NODE_BOOKS, "n1") == {"requested": counts, "ports": {"TCP/0.0.0.0/80": 1}}
        assert book(api, TENANT_BOOKS, "default") == {"used": {"zone-c/": counts}}
        assert_kept(api)

    tell(story, tmp_path)


def test_a_bound_pod_is_stored_in_the_form_that_later_writes_store(tmp_path: Path) -> None:
    """Otherwise the next writer of its status would also change what the binding wrote."""

    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, pod("p", cpu="1500m", port=80))
        await bind(api, "p", "n1")
        before = (await api.get(f"{PODS}/p")).obj
        mark = {"type": "DisruptionTarget", "status": "True"}
        conditions = [*before["status"]["conditions"], mark]
        after = (await api.patch(f"{PODS}/p/status", {"status": {"conditions": conditions}})).obj
        assert "PodScheduled" in {condition["type"] for condition in conditions}
        assert after["status"]["conditions"] == conditions

    tell(story, tmp_path)


def test_capacity_comes_back_at_the_end_or_the_removal_never_at_the_wish(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        for name in ("ends", "goes"):
            await api.post(PODS, pod(name))
            await bind(api, name, "n1")
        await api.delete(f"{PODS}/goes")  # Asked for; it may still run.
        assert book(api, NODE_BOOKS, "n1")["requested"] == {"cpu": 200, "pods": 2}
        await api.delete(f"{PODS}/goes", {"gracePeriodSeconds": 0})
        assert book(api, NODE_BOOKS, "n1")["requested"] == {"cpu": 100, "pods": 1}
        await api.patch(f"{PODS}/ends/status", {"status": {"phase": "Succeeded"}})
        assert book(api, NODE_BOOKS, "n1") == {}
        await api.delete(f"{PODS}/ends")  # Not given back a second time.
        assert_kept(api)

    tell(story, tmp_path)


def test_a_pod_created_with_its_node_is_charged_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", zone="a"))
        forged = {"fathom.dev/account": "somebody/else/"}
        made = (await api.post(PODS, pod("p", node_name="n1", annotations=forged))).obj
        assert made["metadata"]["annotations"] == {"fathom.dev/account": "default/a/"}
        change = {"metadata": {"annotations": {"fathom.dev/account": None}}}
        kept = (await api.patch(f"{PODS}/p", change)).obj
        assert kept["metadata"]["annotations"] == {"fathom.dev/account": "default/a/"}
        assert book(api, NODE_BOOKS, "n1") == {"requested": {"cpu": 100, "pods": 1}}
        assert_kept(api)

    tell(story, tmp_path)


async def _uid(api: Api) -> None:
    await api.post(PODS, pod("p"))


async def _bound(api: Api) -> None:
    await api.post(PODS, pod("p"))
    await bind(api, "p", "n2")


async def _deleting(api: Api) -> None:
    await api.post(PODS, pod("p", finalizers=["a.b/c"]))
    await api.delete(f"{PODS}/p")


async def _gated(api: Api) -> None:
    gated = pod("p")
    gated["spec"]["schedulingGates"] = [{"name": "a.b/c"}]
    await api.post(PODS, gated)


async def _cordoned(api: Api) -> None:
    await api.post(PODS, pod("p"))
    await api.patch(f"{NODES}/n1", {"spec": {"unschedulable": True}})


async def _full(api: Api) -> None:
    await api.post(PODS, pod("big", cpu="3950m"))
    await bind(api, "big", "n1")
    await api.post(PODS, pod("p"))


async def _port(api: Api) -> None:
    await api.post(PODS, pod("other", port=80))
    await bind(api, "other", "n1")
    await api.post(PODS, pod("p", port=80))


async def _quota(api: Api) -> None:
    limits = [{"zone": "zone-c", "resources": {"cpu": "150m"}}]
    await api.post(f"{OWN}/tenantquotas", own("TenantQuota", "default", {"limits": limits}))
    await api.post(PODS, pod("other"))
    await bind(api, "other", "n2")
    await api.post(PODS, pod("p"))


@pytest.mark.parametrize(
    ("check", "before", "ask"),
    [
        ("PodUidChanged", _uid, {"uid": "another"}),
        ("PodBound", _bound, {}),
        ("PodDeleting", _deleting, {}),
        ("PodGated", _gated, {}),
        ("NodeUnschedulable", _cordoned, {}),
        ("NodeFull", _full, {}),
        ("NodePorts", _port, {}),
        ("QuotaExceeded", _quota, {}),
        ("NodeGone", _uid, {"node": "n9"}),
        ("NodeGone", _uid, {"nodeUid": "another"}),  # Deleted, and made again under the same name.
        ("PolicyInactive", _uid, {"policy": "v9"}),
        ("OverrideInactive", _uid, {"overrides": ["nothing"]}),
        ("ReservationGone", _uid, {"reservation": "nothing"}),
    ],
)
def test_a_false_predicate_is_a_conflict_that_names_it(
    check: str, before: Any, ask: Obj, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        for name in ("n1", "n2"):
            await api.post(NODES, node(name, zone="zone-c"))
        await before(api)
        told = dict(api.core.cache.of("pods").entries)
        [result] = await batch(api, item("p", "n1") | ask)
        assert (result["status"], result["check"]) == ("Refused", check), result
        assert dict(api.core.cache.of("pods").entries) == told
        if set(ask) - {"node"}:
            return
        answer = await bind(api, "p", ask.get("node", "n1"))
        assert (answer.status, answer.reason, check_of(answer)) == (409, "Conflict", check)
        assert ("currentRevision" in answer.obj["details"]) == (check != "NodeGone")
        assert_kept(api)

    tell(story, tmp_path)


def test_no_pod_no_binding(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        answer = await bind(api, "nobody", "n1")
        assert (answer.status, check_of(answer)) == (404, "PodGone")

    tell(story, tmp_path)


def test_a_pod_that_has_ended_is_not_bound(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, pod("p"))
        await api.patch(f"{PODS}/p/status", {"status": {"phase": "Failed"}})
        answer = await bind(api, "p", "n1")
        assert (answer.status, check_of(answer)) == (409, "PodGone")
        assert_kept(api)

    tell(story, tmp_path)


def test_limits_over_all_zones_count_all_zones(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        limits = {"limits": [{"resources": {"pods": 2}}]}
        await api.post(f"{OWN}/tenantquotas", own("TenantQuota", "risk", limits))
        await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"fathom.dev/tenant": "risk"}}})
        for name in ("a", "b", "c"):
            await api.post(NODES, node(name, zone=name))
            await api.post(PODS, pod(name))
        assert [(await bind(api, name, name)).status for name in ("a", "b", "c")] == [201, 201, 409]
        await api.patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}})
        assert (await bind(api, "c", "c")).status == 201
        assert_kept(api)

    tell(story, tmp_path)


async def _owner(api: Api) -> Obj:
    """A workload that pods may name; the collector would take them otherwise."""
    path, meta = "/apis/apps/v1/namespaces/default/deployments", {"name": "risk-api"}
    labels = {"app": "risk-api"}
    template = {"metadata": {"labels": labels}, "spec": pod("p")["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await api.post(path, {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": meta, "spec": spec})
    uid = (await api.get(f"{path}/risk-api")).obj["metadata"]["uid"]
    return {"kind": "Deployment", "apiVersion": "apps/v1", "name": "risk-api", "uid": uid, "controller": True}


def test_a_reserved_pool_is_for_its_class_and_its_tenants(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("r1", labels={"pool": "recovery", "topology.kubernetes.io/region": "eu"}))
        spec = {"nodeSelector": {"pool": "recovery"}, "tenants": ["risk"]}
        await api.post(f"{OWN}/capacityclasses", own("CapacityClass", "recovery", spec))
        for number in range(3):
            await api.post(PODS, pod(f"risk-api-{number}", ownerReferences=[await _owner(api)]))
        into = {"fathom.dev/capacity-class": "recovery"}
        assert check_of(await bind(api, "risk-api-0", "r1")) == "ClassReserved"
        assert check_of(await bind(api, "risk-api-0", "r1", annotations=into)) == "ClassReserved"
        override = own(
            "SchedulerOverride",
            "recovery",
            {
                "target": "workload/risk-api",
                "scope": "region/eu",
                "reason": "recovery-capacity",
                "expiresAfter": "30m",
                "changes": {"allowReservedCapacityClass": "recovery", "reservedReplicas": 2},
            },
        )
        made = (await api.post(f"{OWN}/namespaces/default/scheduleroverrides", override)).obj
        asks = [
            item(f"risk-api-{number}", "r1", annotations=into, overrides=["recovery"]) for number in range(3)
        ]
        results = await batch(api, *asks)
        assert [one.get("check") for one in results] == [None, None, "ClassReserved"]
        used = book(api, TENANT_BOOKS, "default")
        assert used["overrides"] == {made["metadata"]["uid"]: 2}
        assert list(used["used"]) == ["/recovery"]
        assert_kept(api)

    tell(story, tmp_path)


def test_what_a_class_keeps_on_a_node_is_not_for_others(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1", labels={"pool": "mixed"}))
        spec = {"nodeSelector": {"pool": "mixed"}, "resources": {"cpu": "1"}, "tenants": ["*"]}
        await api.post(f"{OWN}/capacityclasses", own("CapacityClass", "recovery", spec))
        for name, cpu in (("big", "3"), ("small", "100m"), ("urgent", "1")):
            await api.post(PODS, pod(name, cpu=cpu))
        assert (await bind(api, "big", "n1")).status == 201
        assert check_of(await bind(api, "small", "n1")) == "NodeFull"
        into = {"fathom.dev/capacity-class": "recovery"}
        assert (await bind(api, "urgent", "n1", annotations=into)).status == 201
        assert_kept(api)

    tell(story, tmp_path)


def test_a_pod_takes_the_place_of_its_reservation(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        spec = {
            "workload": {"uid": "w", "name": "web"},
            "intent": "place",
            "nodeName": "n1",
            "resources": {"cpu": "4"},
        }
        path = f"{OWN}/namespaces/default/reservations"
        assert (await api.post(path, own("Reservation", "r", spec))).status == 201
        second = await api.post(path, own("Reservation", "s", {**spec, "intent": "other"}))
        assert (second.status, check_of(second)) == (409, "NodeFull")
        for name in ("stranger", "p"):
            await api.post(PODS, pod(name, cpu="4"))
        assert check_of(await bind(api, "stranger", "n1")) == "NodeFull"
        [result] = await batch(api, item("p", "n1", reservation="r"))
        assert result["status"] == "Bound", result
        assert (await api.get(f"{path}/r")).obj["status"]["phase"] == "Bound"
        assert book(api, NODE_BOOKS, "n1")["requested"] == {"cpu": 4000, "pods": 1}
        assert_kept(api)
        [late] = await batch(api, item("stranger", "n1", reservation="r"))
        assert late["check"] == "ReservationGone"
        await api.delete(f"{path}/r")
        assert_kept(api)

    tell(story, tmp_path)


def test_the_room_of_pods_that_leave_is_kept_for_who_awaits_them(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        limits = {"limits": [{"resources": {"cpu": "4"}}]}
        await api.post(f"{OWN}/tenantquotas", own("TenantQuota", "default", limits))
        victim = (await api.post(PODS, pod("victim", cpu="3", node_name="n1"))).obj["metadata"]
        important = (await api.post(PODS, pod("important", cpu="4"))).obj["metadata"]
        await api.post(PODS, pod("stranger", cpu="1"))
        path = f"{OWN}/namespaces/default/reservations"
        spec = {
            "workload": {"uid": important["uid"]},
            "intent": "preempt",
            "nodeName": "n1",
            "resources": {"cpu": "4"},
            "awaits": [{"name": "victim", "namespace": "default", "uid": victim["uid"]}],
        }
        notes = {"fathom.dev/pod": "important", "fathom.dev/pod-uid": important["uid"]}
        early = await api.post(path, own("Reservation", "r", spec, annotations=notes))
        assert (early.status, check_of(early)) == (409, "NodeFull")
        await api.delete(f"{PODS}/victim")
        assert (await api.post(path, own("Reservation", "r", spec, annotations=notes))).status == 201
        assert check_of(await bind(api, "stranger", "n1")) == "NodeFull"
        [stranger] = await batch(api, item("stranger", "n1", reservation="r"))
        assert stranger["check"] == "ReservationGone"
        [early_bind] = await batch(api, item("important", "n1", reservation="r"))
        assert early_bind["check"] == "NodeFull"  # The victim still runs.
        await api.delete(f"{PODS}/victim", {"gracePeriodSeconds": 0})
        assert check_of(await bind(api, "stranger", "n1")) == "NodeFull"
        [result] = await batch(api, item("important", "n1", reservation="r"))
        assert result["status"] == "Bound", result
        assert_kept(api)

    tell(story, tmp_path)


def test_a_policy_counts_while_a_rollout_has_it_active(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        for name in ("v4", "v5"):
            await api.post(f"{OWN}/schedulingpolicies", own("SchedulingPolicy", name, {"maxZoneSkew": 1}))
        rollout = own("PolicyRollout", "next", {"from": "v4", "to": "v5", "steps": [{"percent": 10}]})
        await api.post(f"{OWN}/policyrollouts", rollout)
        for name in ("a", "b", "c"):
            await api.post(PODS, pod(name))
        asked = {"fathom.dev/policy": "v5"}
        assert (await bind(api, "a", "n1", annotations={"fathom.dev/policy": "v4"})).status == 201
        assert check_of(await bind(api, "b", "n1", annotations=asked)) == "PolicyInactive"
        status = {"phase": "Canary", "active": "v4", "canary": "v5", "percent": 10}
        await api.patch(f"{OWN}/policyrollouts/next/status", {"status": status})
        assert (await bind(api, "b", "n1", annotations=asked)).status == 201
        await api.patch(f"{OWN}/policyrollouts/next/status", {"status": {"canary": "", "percent": 0}})
        assert check_of(await bind(api, "c", "n1", annotations=asked)) == "PolicyInactive"
        assert (await api.get(f"{PODS}/b")).obj["metadata"]["annotations"]["fathom.dev/policy"] == "v5"

    tell(story, tmp_path)


def test_bad_asks_are_refused_with_their_places(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        items = [{"namespace": "default", "name": "", "node": "n"}, item("p", "n", annotations={"no no": ""})]
        answer = await api.post(f"{OWN}/bindingbatches", {"items": items})
        assert answer.status == 422
        assert [field for field, _ in answer.causes] == ["items[0].name", "items[1].annotations"]
        for body in (b"{", {"items": 3}, {"items": [{"name": "p"}]}, {}):
            assert (await api.post(f"{OWN}/bindingbatches", body)).status == 400
        assert (await api.get(f"{OWN}/bindingbatches")).status == 405

    tell(story, tmp_path)


def test_a_dry_run_judges_and_changes_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await api.post(PODS, pod("p"))
        before = api.core.cache.reached
        body = {"target": {"name": "n1"}}
        assert (await api.post(f"{PODS}/p/binding?dryRun=All", body)).status == 201
        assert (await api.post(f"{PODS}/p/binding?dryRun=All", {"target": {"name": "n2"}})).status == 409
        assert api.core.cache.reached == before

    tell(story, tmp_path)


def test_nominating_a_node_is_a_report_like_any_other(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(PODS, pod("p"))
        change = {"status": {"nominatedNodeName": "n1"}}
        assert (await api.patch(f"{PODS}/p/status", change)).obj["status"]["nominatedNodeName"] == "n1"
        assert_kept(api)
        await api.post(NODES, node("n2"))
        assert (await bind(api, "p", "n2")).status == 201
        assert "nominatedNodeName" not in (await api.get(f"{PODS}/p")).obj["status"]

    tell(story, tmp_path)
