"""Our own kinds, as a client meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.bending import definition
from tests.api.harness import JANE, Api, tell
from tests.api.own.test_crds import ANSWERED
from tests.security.people import CONTROLLERS, introduce, lead

from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.scheduler_override import SchedulerOverride, override_active
from fathom.kinds.shape import read
from fathom.kube.definitions.own import OWN_KINDS
from fathom.model.objects import Obj
from fathom.model.user import User

ROOT = "/apis/fathom.dev/v1alpha1"

# As lesson 021 has it, given an apiVersion and metadata.
LESSON = {
    "apiVersion": "fathom.dev/v1alpha1",
    "kind": "SchedulerOverride",
    "metadata": {"name": "risk-api-eu-west-recovery"},
    "spec": {
        "target": "workload/risk-api",
        "scope": "region/eu-west",
        "reason": "recovery-capacity",
        "expiresAfter": "45m",
        "changes": {
            "pauseAutoscaler": True,
            "avoidZones": ["eu-west-a"],
            "allowReservedCapacityClass": "recovery",
        },
    },
    "status": {"observedGeneration": 12, "active": True, "affectedControllers": ["scheduler"]},
}


def own(kind: str, name: str, spec: Any) -> Obj:
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


# A runbook of one step.
JUDGE: Obj = {
    "title": "Wait for an answer",
    "steps": [{"id": "judge", "action": {"prompt": {"question": "Is the zone quiet?"}}}],
}

GOOD: dict[str, tuple[str, Obj]] = {
    "Runbook": (f"{ROOT}/namespaces/default/runbooks", JUDGE),
    "RunbookRun": (
        f"{ROOT}/namespaces/default/runbookruns",
        {
            "runbook": {
                "name": "judge",
                "source": "cluster",
                "hash": spec_hash(msgspec.convert(JUDGE, RunbookSpec)),
            },
            "content": JUDGE,
        },
    ),
    "TenantQuota": (
        f"{ROOT}/tenantquotas",
        {"limits": [{"zone": "zone-c", "resources": {"cpu": "4"}}, {"resources": {"pods": 10}}]},
    ),
    "CapacityClass": (
        f"{ROOT}/capacityclasses",
        {"nodeSelector": {"pool": "recovery"}, "tenants": ["risk"]},
    ),
    "SchedulingPolicy": (f"{ROOT}/schedulingpolicies", {"maxZoneSkew": 1, "weights": {"spread": 2}}),
    "PolicyRollout": (
        f"{ROOT}/policyrollouts",
        {"from": "v4", "to": "v5", "steps": [{"percent": 10, "hold": "5m"}, {"percent": 100}]},
    ),
    "SchedulerOverride": (f"{ROOT}/namespaces/default/scheduleroverrides", LESSON["spec"]),  # type: ignore[dict-item]  # A literal
    "SteeringLimits": (f"{ROOT}/namespaces/fathom-system/steeringlimits", {"approvals": "on"}),
    "OverrideReview": (
        f"{ROOT}/namespaces/default/overridereviews",
        {"override": {"kind": "SchedulerOverride", "name": "o"}, "author": "jane", "role": "r"},
    ),
    "WorkloadProgress": (
        f"{ROOT}/namespaces/default/workloadprogresses",
        {"workload": {"kind": "Deployment", "name": "web"}},
    ),
    "RepairProposal": (
        f"{ROOT}/namespaces/default/repairproposals",
        {
            "subject": {"kind": "Pod", "name": "web", "namespace": "default"},
            "problem": "Orphan",
            "action": "Delete",
        },
    ),
    "TrafficRoute": (
        f"{ROOT}/namespaces/default/trafficroutes",
        {"service": "web", "routes": [{"region": "eu", "weight": 1}]},
    ),
    "ComponentSignals": (f"{ROOT}/componentsignals", {}),
    "Reservation": (
        f"{ROOT}/namespaces/default/reservations",
        {"workload": {"uid": "1"}, "intent": "place"},
    ),
}


def test_every_kind_is_served_and_printed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(CONTROLLERS))
        fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
        makers: dict[str, Any] = {
            "RepairProposal": {"token": CONTROLLERS, "headers": fence},
            "OverrideReview": {"token": "housekeeping-token"},
        }
        for kind, (path, spec) in GOOD.items():
            how = makers.get(kind, {})
            name = "default" if kind == "SteeringLimits" else "one"  # The one that is read.
            await api.delete(f"{path}/{name}")
            made = await api.post(path, own(kind, name, spec), **how)
            assert (kind, made.status) == (kind, 201), made.obj
            table = await api.get(
                path, headers={"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
            )
            assert (table.obj["kind"], len(table.obj["rows"])) == ("Table", 1)
            assert (await api.delete(f"{path}/{name}", **how)).status == 200

    tell(story, tmp_path)
    assert {kind.kind for kind in OWN_KINDS} == {*GOOD, *ANSWERED}


@pytest.mark.parametrize(
    ("kind", "change", "causes"),
    [
        ("TenantQuota", {"limits": [{"resources": {"cpu": "lots"}}]}, ["spec.limits[0].resources[cpu]"]),
        ("TenantQuota", {"limits": [{"resources": {}}, {"resources": {}}]}, ["spec.limits[1]"]),
        ("TenantQuota", {"limits": [{"zone": "a"}]}, ["spec.limits[0].resources"]),
        ("CapacityClass", {"nodeSelector": {}}, ["spec.nodeSelector"]),
        ("SchedulingPolicy", {"maxZoneSkew": 0}, ["spec.maxZoneSkew"]),
        ("SchedulingPolicy", {"disabledFilters": ["NodeResourcesFit"]}, ["spec.disabledFilters[0]"]),
        ("PolicyRollout", {"to": "v4"}, ["spec.to"]),
        ("PolicyRollout", {"steps": [{"percent": 50}, {"percent": 10}]}, ["spec.steps[1].percent"]),
        ("PolicyRollout", {"steps": [{"percent": 50, "hold": "soon"}]}, ["spec.steps[0].hold"]),
        ("SchedulerOverride", {"target": "risk-api"}, ["spec.target"]),
        ("SchedulerOverride", {"target": "node/a"}, ["spec.target"]),
        ("SchedulerOverride", {"scope": "planet/earth"}, ["spec.scope"]),
        ("SchedulerOverride", {"expiresAfter": "for ever"}, ["spec.expiresAfter"]),
        ("SchedulerOverride", {"expiresAfter": "1000h"}, ["spec.expiresAfter"]),
        ("SchedulerOverride", {"changes": {"makeItWork": True}}, ["spec.changes"]),
        ("SchedulerOverride", {"changes": {}}, ["spec.changes"]),
        ("SchedulerOverride", {"changes": {"avoidZones": 3}}, ["spec.changes.avoidZones"]),
        (
            "SchedulerOverride",
            {"changes": {"reservedReplicas": 2}},
            ["spec.changes.allowReservedCapacityClass"],
        ),
        ("TrafficRoute", {"workload": "web"}, ["spec.service"]),
        (
            "TrafficRoute",
            {"routes": [{"weight": 0, "zone": "a", "pool": "b"}]},
            ["spec.routes[0]", "spec.routes"],
        ),
        (
            "TrafficRoute",
            {"routes": [{"weight": 1, "zone": "a"}, {"weight": 2, "zone": "a"}]},
            ["spec.routes[1].zone"],
        ),
        ("Reservation", {"resources": {"cpu": "-1"}}, ["spec.resources[cpu]"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(
    kind: str, change: Obj, causes: list[str], tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        path, spec = GOOD[kind]
        answer = await api.post(path, own(kind, "one", {**spec, **change}))
        assert answer.status == 422, answer.obj
        assert [field for field, _ in answer.causes] == causes

    tell(story, tmp_path)


def test_the_lessons_override_applies_as_it_stands_and_is_stamped(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = f"{ROOT}/namespaces/default/scheduleroverrides"
        made = (await api.post(path, LESSON)).obj
        assert made["spec"] == LESSON["spec"]
        assert (made["status"]["author"], made["status"]["active"]) == ("admin", False)
        now_ns = api.core.outside.clock.now_ns()
        assert override_active(read(SchedulerOverride, made), now_ns)
        assert override_active(read(SchedulerOverride, made), now_ns + 44 * 60 * 10**9)
        assert not override_active(read(SchedulerOverride, made), now_ns + 46 * 60 * 10**9)
        one = f"{path}/risk-api-eu-west-recovery"
        forged = {"status": {"author": "nobody", "expiresAt": "2999-01-01T00:00:00Z", "active": True}}
        said = (await api.patch(f"{one}/status", forged)).obj["status"]
        assert said == {**made["status"], "active": True}
        assert (await api.patch(one, {"spec": {"expiresAfter": "2h"}})).causes == [
            ("spec.reason", "FieldValueInvalid")
        ]
        longer = (await api.patch(one, {"spec": {"expiresAfter": "2h", "reason": "not over"}})).obj
        assert longer["status"]["expiresAt"] > made["status"]["expiresAt"]
        assert longer["status"]["author"] == "admin"

    tell(story, tmp_path)


def test_a_policy_is_never_changed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path, spec = GOOD["SchedulingPolicy"]
        await api.post(path, own("SchedulingPolicy", "v5", spec))
        answer = await api.patch(f"{path}/v5", {"spec": {"maxZoneSkew": 2}})
        assert (answer.status, answer.causes) == (422, [("spec", "FieldValueInvalid")])
        assert (await api.patch(f"{path}/v5", {"metadata": {"labels": {"a": "b"}}})).status == 200

    tell(story, tmp_path)


def test_a_rule_that_is_not_built_in_is_warned_of(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        spec = {"weights": {"NodeTrust": 1, "Spread": 2}, "disabledFilters": ["MaxZoneSkew"]}
        answer = await api.post(GOOD["SchedulingPolicy"][0], own("SchedulingPolicy", "v6", spec))
        assert answer.status == 201
        assert "spec.weights: Spread is not a built-in rule" in answer.headers["warning"]

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("view", "list", "scheduleroverrides", True),
        ("view", "get", "tenantquotas", True),
        ("view", "create", "scheduleroverrides", False),
        ("edit", "create", "trafficroutes", False),
        ("edit", "create", "scheduleroverrides", False),
        ("admin", "create", "trafficroutes", True),
        ("admin", "create", "scheduleroverrides", True),
        ("admin", "create", "tenantquotas", False),
        ("admin", "create", "bindingbatches", False),
    ],
)
def test_the_usual_roles_know_our_kinds(
    role: str, verb: str, resource: str, allowed: bool, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        binding = {
            "kind": "ClusterRoleBinding",
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        }
        await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        asked = {"group": "fathom.dev", "resource": resource, "verb": verb, "namespace": "default"}
        review = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await api.post(path, review, token=JANE)
        assert answer.obj["status"]["allowed"] is allowed

    tell(story, tmp_path)


def test_an_object_with_very_many_errors_is_refused_like_one_with_a_few(tmp_path: Path) -> None:
    """Checks stop after a thousand errors: that is an answer, not a failure of the server."""

    async def story(api: Api) -> None:
        bad: Obj = {"limits": [{"resources": {f"example.com/r{number}": [] for number in range(3_000)}}]}
        answer = await api.post(f"{ROOT}/tenantquotas", own("TenantQuota", "many", bad))
        assert (answer.status, answer.reason) == (422, "Invalid")
        good = await api.post(f"{ROOT}/tenantquotas", own("TenantQuota", "many", GOOD["TenantQuota"][1]))
        assert good.status == 201
        changed = await api.put(f"{ROOT}/tenantquotas/many", {**good.obj, "spec": bad})
        assert (changed.status, changed.reason) == (422, "Invalid")

    tell(story, tmp_path)


def test_a_definition_whose_default_has_very_many_errors_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        crd = definition("many")
        fields = {"names": {"type": "array", "items": {"type": "string"}, "default": [1] * 3_000}}
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
        crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
        answer = await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        assert (answer.status, answer.reason) == (422, "Invalid")

    tell(story, tmp_path)
