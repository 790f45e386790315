"""A CustomResourceDefinition is about a kind of its author's: never about one that the server has already,
nor about what it keeps in its store beside the API's objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import Api, config_map, tell
from tests.security.people import grant_rule, introduce

from fathom.api.admission.fences import FENCES
from fathom.api.custom import CustomKinds
from fathom.api.ledger.accounts import BOOKS
from fathom.api.ledger.recount import MARKER_RESOURCE
from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.registry import Registry
from fathom.model.body import Body
from fathom.model.objects import Obj
from fathom.model.user import User

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPROVED = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
INTERNAL = (FENCES, *BOOKS, MARKER_RESOURCE)


def definition(name: str, version: str = "v1alpha1") -> Obj:
    plural, _, group = name.partition(".")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural.title(),
        "listKind": f"{plural.title()}List",
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": APPROVED},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [served]},
    }


@pytest.mark.parametrize(
    "name",
    [
        "reservations.fathom.dev",
        "tenantquotas.fathom.dev",
        "decisions.fathom.dev",
        "pods.metrics.k8s.io",
        "others.metrics.k8s.io",
        "others.fathom.dev",
        "leases.coordination.k8s.io",
        *INTERNAL,
    ],
)
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_nobody_defines_what_is_the_servers_own(name: str, version: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User("operator"))
        rule = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create", "delete"]}
        await grant_rule(api, "operator", "definitions", rule)
        made = await api.post(DEFINITIONS, definition(name, version), token="operator")
        assert (made.status, made.causes) == (422, [("spec.group", "FieldValueInvalid")]), made.obj
        # Who follows the store is well.
        assert (await api.post("/api/v1/namespaces/default/configmaps", config_map("a"))).status == 201
        assert (await api.get("/readyz")).status == 200

    tell(story, tmp_path)


@pytest.mark.parametrize("name", INTERNAL)
def test_what_is_beside_the_api_is_no_kind_where_our_own_are_not_built_in_either(
    name: str, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        made = await api.post(DEFINITIONS, definition(name))
        assert (made.status, made.causes) == (422, [("spec.group", "FieldValueInvalid")]), made.obj
        assert (await api.post(DEFINITIONS, definition("reservations.fathom.dev"))).status == 201

    tell(story, tmp_path, own_kinds=False)


def test_a_definition_of_a_built_in_kind_that_is_in_the_store_does_not_stop_the_server() -> None:
    registry = Registry.builtin()
    for kind in OWN_KINDS:
        registry.add(kind)
    before = registry.by_resource("reservations.fathom.dev")
    stored = definition("reservations.fathom.dev")
    stored["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    kinds = CustomKinds(registry)
    for body in (Body(stored), None):
        resource = "customresourcedefinitions.apiextensions.k8s.io"
        kinds.observe(resource, "reservations.fathom.dev", body, None, 7)
        assert registry.by_resource("reservations.fathom.dev") is before


def test_a_status_that_somebody_else_wrote_does_not_keep_a_definition_for_ever(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(DEFINITIONS, definition("rockets.example.com"))).status == 201
        path = f"{DEFINITIONS}/rockets.example.com"
        bare = {
            "conditions": [
                {"type": "Established", "status": "True"},
                {"type": "NamesAccepted", "status": "True"},
            ]
        }
        assert (await api.patch(f"{path}/status", {"status": bare})).status == 200
        changed = await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
        assert changed.status == 200, changed.obj
        assert all(each["lastTransitionTime"] for each in changed.obj["status"]["conditions"])
        await api.delete(path)

        async def gone() -> bool:
            return (await api.get(path)).status == 404

        await api.eventually(gone)

    tell(story, tmp_path)


def test_two_definitions_of_one_kind_come_and_go() -> None:
    """The server accepts the name of a kind once. But whoever may write the status of definitions can say
    that another one with that name is established, too."""
    registry = Registry.builtin()
    kinds, resource = CustomKinds(registry), "customresourcedefinitions.apiextensions.k8s.io"
    for name in ("rockets.example.com", "shuttles.example.com"):
        stored = definition(name)
        stored["spec"]["names"]["kind"] = "Rocket"
        stored["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        kinds.observe(resource, name, Body(stored), None, 7)
    for name in ("rockets.example.com", "shuttles.example.com"):
        kinds.observe(resource, name, None, None, 8)
        assert registry.by_resource(name) is None
    assert registry.by_gvk("example.com", "v1alpha1", "Rocket") is None
