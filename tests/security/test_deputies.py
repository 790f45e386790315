"""Nobody reaches another's namespace, tenant or reserved capacity through an object that fathom acts upon."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import JANE, Api, config_map, deployment, tell
from tests.security.people import (
    CONTROLLERS,
    OWN,
    grant,
    grant_rule,
    introduce,
    lead,
    namespaces,
    node,
    own,
    pod,
)

from fathom.model.objects import Obj
from fathom.model.user import User

MINE = f"{OWN}/namespaces/mine/repairproposals"


def proposal(subject: Obj, name: str = "p", **spec: object) -> Obj:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1", **subject}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "RepairProposal",
        "metadata": {"name": name},
        "spec": {"subject": about, "problem": "TerminatingOnSilentNode", "action": "Delete", **spec},
    }


async def repaired(api: Api, namespace: str = "mine", name: str = "p") -> dict[str, str]:
    """A proposal as repair makes it; the fence of whoever made it."""
    introduce(api, User(CONTROLLERS), User("approver"), User("editor"), node("n1"))
    fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
    path = f"{OWN}/namespaces/{namespace}/repairproposals"
    made = await api.post(path, proposal({"namespace": namespace}, name), token=CONTROLLERS, headers=fence)
    assert made.status == 201, made.obj
    return fence


def test_nobody_but_repair_makes_a_proposal_not_even_an_administrator(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine", "theirs")
        await grant(api, "jane", "admin", "mine")
        forged = await api.post(MINE, proposal({"namespace": "theirs"}, approved=True), token=JANE)
        assert forged.status == 403, forged.obj
        elsewhere = await api.post(MINE, proposal({"namespace": "theirs"}, approved=True))
        assert (elsewhere.status, elsewhere.reason) == (422, "Invalid"), elsewhere.obj
        by_hand = await api.post(MINE, proposal({"namespace": "mine"}, approved=True))
        assert (by_hand.status, by_hand.reason) == (403, "Forbidden"), by_hand.obj
        fence = await lead(api, "admin-token", "fathom-system/controllers")
        disguised = {"impersonate-user": CONTROLLERS, **fence}
        made = await api.post(MINE, proposal({"namespace": "mine"}), headers=disguised)
        assert made.status == 403, made.obj
        assert (await api.get(MINE)).obj["items"] == []

    tell(story, tmp_path)


def test_a_proposal_is_about_its_own_namespace_whoever_makes_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine", "theirs")
        introduce(api, User(CONTROLLERS))
        headers = await lead(api, CONTROLLERS, "fathom-system/controllers")
        system = f"{OWN}/namespaces/fathom-system/repairproposals"
        for path, subject, status in (
            (MINE, {"namespace": "theirs"}, 422),
            (MINE, {"namespace": ""}, 422),
            (MINE, {"kind": "Node", "namespace": ""}, 422),
            (system, {"namespace": "theirs"}, 422),
            (system, {"kind": "Node", "namespace": ""}, 201),
            (MINE, {"namespace": "mine"}, 201),
        ):
            made = await api.post(path, proposal(subject), token=CONTROLLERS, headers=headers)
            assert made.status == status, (path, subject, made.obj)

    tell(story, tmp_path)


def test_an_approval_that_comes_with_the_proposal_is_dropped(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        introduce(api, User(CONTROLLERS))
        headers = await lead(api, CONTROLLERS, "fathom-system/controllers")
        approved = {"approved": True, "approver": "jane", "phase": "Approved", "maker": "jane"}
        forged = {**proposal({"namespace": "mine"}, approved=True), "status": approved}
        made = await api.post(MINE, forged, token=CONTROLLERS, headers=headers)
        assert made.status == 201, made.obj
        assert made.obj["status"] == {"phase": "Proposed", "maker": CONTROLLERS}
        assert "approved" not in made.obj["spec"]

    tell(story, tmp_path)


def test_an_approval_names_who_gave_it_and_is_nothing_that_a_writer_of_status_can_forge(
    tmp_path: Path,
) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        headers = await repaired(api)
        await grant(api, "approver", "admin", "mine")
        await grant(api, "editor", "edit", "mine")
        forged = {"status": {"approved": True, "approver": "jane", "approvedSpec": "x", "maker": "jane"}}
        merge = {"content-type": "application/merge-patch+json"}
        written = await api.call(
            "PATCH", f"{MINE}/p/status", forged, token=CONTROLLERS, headers={**merge, **headers}
        )
        assert written.obj["status"] == {"phase": "Proposed", "maker": CONTROLLERS}, written.obj
        assert (await api.patch(f"{MINE}/p/status", forged, token="approver")).status == 403
        assert (await api.patch(f"{MINE}/p", {"spec": {"approved": True}}, token="approver")).status == 403
        assert (
            await api.patch(f"{MINE}/p/approval", {"status": {"approved": True}}, token="editor")
        ).status == 403
        given = await api.patch(
            f"{MINE}/p/approval",
            {"spec": {"action": "RemoveFinalizer"}, "status": {"approved": True, "approver": "jane"}},
            token="approver",
        )
        assert given.status == 200, given.obj
        status = given.obj["status"]
        assert (status["approved"], status["approver"], status["maker"]) == (True, "approver", CONTROLLERS)
        assert status["approvedAt"]
        assert status["approvedSpec"]
        assert given.obj["spec"]["action"] == "Delete"
        whole = {**given.obj, "status": {**status, "approved": False, "approver": "jane"}}
        refused = await api.put(f"{MINE}/p/approval", whole, token="approver")
        assert (refused.obj["status"]["approved"], refused.obj["status"]["approver"]) == (False, "approver")

    tell(story, tmp_path)


@pytest.mark.parametrize(
    "who",
    [
        User(CONTROLLERS, ("system:masters",)),
        User("system:fathom:gateway", ("system:masters",)),
        User("system:serviceaccount:fathom-system:helper", ("system:masters",)),
        User("system:node:n1", ("system:nodes", "system:masters")),
    ],
    ids=lambda who: who.name,
)
def test_none_of_our_own_accounts_approves_whatever_rights_it_has(who: User, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        headers = await repaired(api)
        introduce(api, who)
        merge = {"content-type": "application/merge-patch+json", **headers}
        approved = {"status": {"approved": True}}
        given = await api.call("PATCH", f"{MINE}/p/approval", approved, token=who.name, headers=merge)
        assert given.status == 403, given.obj
        assert "approved" not in (await api.get(f"{MINE}/p")).obj["status"]

    tell(story, tmp_path)


CLASS = own("capacityclasses", "kept", {"nodeSelector": {"pool": "kept"}, "tenants": ["theirs"]})
OVERRIDES = f"{OWN}/namespaces/mine/scheduleroverrides"


def override(**changes: object) -> Obj:
    spec: Obj = {"target": "workload/web", "scope": "cluster", "reason": "r", "expiresAfter": "10m"}
    spec["changes"] = changes
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "o"},
        "spec": spec,
    }


def test_an_override_opens_a_reserved_class_only_to_who_may_use_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        assert (await api.post(f"{OWN}/capacityclasses", CLASS)).status == 201
        introduce(api, User("allowed"))
        for who in ("jane", "allowed"):
            await grant(api, who, "admin", "mine")
        use = {"verbs": ["use"], "apiGroups": ["fathom.dev"], "resources": ["capacityclasses"]}
        await grant_rule(api, "allowed", "use-kept", {**use, "resourceNames": ["kept"]})
        opening = override(allowReservedCapacityClass="kept")
        assert (await api.post(OVERRIDES, opening, token=JANE)).status == 403
        assert (
            await api.post(OVERRIDES, override(allowReservedCapacityClass="other"), token="allowed")
        ).status == 403
        plain = await api.post(OVERRIDES, override(avoidZones=["a"]), token=JANE)
        assert plain.status == 201, plain.obj
        opened = {"spec": {"changes": {"allowReservedCapacityClass": "kept", "avoidZones": None}}}
        assert (await api.patch(f"{OVERRIDES}/o", opened, token=JANE)).status == 403
        assert (await api.patch(f"{OVERRIDES}/o", opened, token="allowed")).status == 200
        later = {"expiresAfter": "20m", "reason": "not over yet"}
        for longer in (later, {"changes": {"reservedReplicas": 50}}, {"scope": "zone/a"}):
            assert (await api.patch(f"{OVERRIDES}/o", {"spec": longer}, token=JANE)).status == 403, longer
        closed = {"spec": {"changes": {"allowReservedCapacityClass": None, "avoidZones": ["a"]}}}
        assert (await api.patch(f"{OVERRIDES}/o", closed, token=JANE)).status == 200

    tell(story, tmp_path)


def test_a_pod_that_comes_with_its_node_does_not_get_reserved_capacity(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine", "theirs")
        await api.post(f"{OWN}/capacityclasses", CLASS)
        part = {"nodeSelector": {"pool": "part"}, "resources": {"cpu": "1"}, "tenants": ["theirs"]}
        shared = own("capacityclasses", "part", part)
        await api.post(f"{OWN}/capacityclasses", shared)
        for name in ("kept", "part"):
            await api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"pool": name}}})
        for who, namespace in (("jane", "mine"), ("jane", "theirs")):
            await grant(api, who, "edit", namespace)
        named = {"fathom.dev/capacity-class": "part"}
        pods = "/api/v1/namespaces/mine/pods"
        onto_kept = await api.post(pods, pod("a", nodeName="kept"), token=JANE)
        assert onto_kept.status == 403, onto_kept.obj
        mirror = {"kubernetes.io/config.mirror": "x"}
        disguised = await api.post(pods, pod("m", nodeName="kept", annotations=mirror), token=JANE)
        assert disguised.status == 403, disguised.obj
        as_part = await api.post(pods, pod("b", nodeName="part", annotations=named), token=JANE)
        assert as_part.status == 403, as_part.obj
        assert (await api.post(pods, pod("c", nodeName="part"), token=JANE)).status == 201
        admitted = pod("d", nodeName="kept", annotations={"fathom.dev/capacity-class": "kept"})
        assert (await api.post("/api/v1/namespaces/theirs/pods", admitted, token=JANE)).status == 201

    tell(story, tmp_path)


def test_a_workload_does_not_name_a_tenant_that_its_writer_may_not_use(tmp_path: Path) -> None:
    """The controllers make its pods: what they may do must not open what its writer may not."""

    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        await grant(api, "jane", "admin", "mine")
        path = "/apis/apps/v1/namespaces/mine/deployments"
        foreign = deployment("web")
        foreign["spec"]["template"]["metadata"]["labels"]["fathom.dev/tenant"] = "theirs"
        assert (await api.post(path, foreign, token=JANE)).status == 403
        assert (await api.post(path, deployment("web"), token=JANE)).status == 201
        labels = {"metadata": {"labels": {"fathom.dev/tenant": "theirs"}}}
        changed = await api.patch(f"{path}/web", {"spec": {"template": labels}}, token=JANE)
        assert changed.status == 403, changed.obj
        jobs = "/apis/batch/v1/namespaces/mine"
        template = {**labels, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        job = {"metadata": {"name": "j"}, "spec": {"template": template}}
        assert (await api.post(f"{jobs}/jobs", job, token=JANE)).status == 403
        cron = {
            "metadata": {"name": "c"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job["spec"]}},
        }
        assert (await api.post(f"{jobs}/cronjobs", cron, token=JANE)).status == 403

    tell(story, tmp_path)


def test_a_namespace_changes_its_tenant_only_by_who_may_use_both(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        rule = {"verbs": ["create", "update", "patch"], "apiGroups": [""], "resources": ["namespaces"]}
        await grant_rule(api, "jane", "makes-namespaces", rule)
        tenant = {"labels": {"fathom.dev/tenant": "theirs"}}
        spaces = "/api/v1/namespaces"
        assert (await api.post(spaces, {"metadata": {"name": "x", **tenant}}, token=JANE)).status == 403
        assert (await api.post(spaces, {"metadata": {"name": "x"}}, token=JANE)).status == 201
        assert (await api.patch(f"{spaces}/x", {"metadata": tenant}, token=JANE)).status == 403
        assert (await api.patch(f"{spaces}/x", {"metadata": tenant})).status == 200
        out = {"metadata": {"labels": {"fathom.dev/tenant": None}}}
        assert (await api.patch(f"{spaces}/x", out, token=JANE)).status == 403
        assert (
            await api.patch(f"{spaces}/x", {"metadata": {"labels": {"a": "b"}}}, token=JANE)
        ).status == 200

    tell(story, tmp_path)


def test_a_namespace_does_not_take_the_name_of_a_tenant_that_has_something(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        rule = {"verbs": ["create"], "apiGroups": [""], "resources": ["namespaces"]}
        await grant_rule(api, "jane", "makes-namespaces", rule)
        assert (await api.post(f"{OWN}/capacityclasses", CLASS)).status == 201
        assert (
            await api.post(f"{OWN}/tenantquotas", own("tenantquotas", "rich", {"limits": []}))
        ).status == 201
        for name, status in (("theirs", 403), ("rich", 403), ("other", 201)):
            made = await api.post("/api/v1/namespaces", {"metadata": {"name": name}}, token=JANE)
            assert made.status == status, made.obj

    tell(story, tmp_path)


def test_an_override_of_infrastructure_comes_from_the_system_namespace_alone(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await namespaces(api, "mine")
        await grant(api, "jane", "admin", "mine")
        for target in ("node/n1", "zone/a", "pool/p"):
            wide = override(cordon=True)
            wide["spec"]["target"] = target
            assert (await api.post(OVERRIDES, wide, token=JANE)).status == 422
        cluster_wide: dict[str, Obj] = {
            "schedulingpolicies": {},
            "policyrollouts": {"to": "p"},
            "tenantquotas": {"limits": []},
            "capacityclasses": {"nodeSelector": {"a": "b"}},
        }
        for plural, spec in cluster_wide.items():
            made = await api.post(f"{OWN}/{plural}", own(plural, "x", spec), token=JANE)
            assert made.status == 403, made.obj

    tell(story, tmp_path)


def test_a_binding_does_not_change_whose_a_pod_is(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(
            "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
        )
        pods = "/api/v1/namespaces/default/pods"
        await api.post(pods, pod("p"))
        labels = {"fathom.dev/tenant": "theirs"}
        bound = await api.post(
            f"{pods}/p/binding", {"metadata": {"labels": labels}, "target": {"name": "n1"}}
        )
        assert bound.status == 422, bound.obj
        item = {"namespace": "default", "name": "p", "node": "n1", "labels": labels}
        assert (await api.post(f"{OWN}/bindingbatches", {"items": [item]})).status == 422

    tell(story, tmp_path)


def owned_by(name: str, owner: Obj) -> Obj:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    meta = {"name": name, "finalizers": ["example.com/held"], "ownerReferences": [reference]}
    return {**config_map(name), "metadata": meta}


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_an_object_of_another_namespace_holds_no_owner_up(policy: str, tmp_path: Path) -> None:
    """The garbage collector waits for dependents, which name their owner by its UID: anybody may do that."""

    async def story(api: Api) -> None:
        await namespaces(api, "a", "b")
        introduce(api, User("eve"))
        await grant(api, "eve", "edit", "a")
        owner = (await api.post("/api/v1/namespaces/b/configmaps", config_map("owner"))).obj
        made = await api.post("/api/v1/namespaces/a/configmaps", owned_by("held", owner), token="eve")
        assert made.status == 201
        path = "/api/v1/namespaces/b/configmaps/owner"
        assert (await api.delete(path, {"propagationPolicy": policy})).status == 200

        async def gone() -> bool:
            return (await api.get(path)).status == 404

        await api.eventually(gone)

    tell(story, tmp_path)
