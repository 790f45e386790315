"""The smaller kinds: what is filled in, and what has a rule of its own."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tests.kube.rules.written import (
    MOMENT,
    at_create,
    changed,
    created,
    defaulted,
    golden,
    kind_of,
    rules_of,
    updated,
)

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.storage.configmaps import SIZE_BYTES_MAX
from fathom.kube.rules.table import RULES, rules_for
from fathom.model.errors import Cause
from fathom.model.objects import Obj
from fathom.model.user import User


@pytest.mark.parametrize("resource", sorted(RULES))
def test_all_rules_are_for_a_kind_that_exists(resource: str) -> None:
    assert kind_of(resource).resource == resource


def test_other_kinds_take_what_their_schema_allows() -> None:
    plain = rules_for("gadgets.example.com")
    assert type(plain) is KindRules
    assert plain.validate_create({"anything": True}) == []
    assert plain.grace_seconds({}, 30) == 0


@pytest.mark.parametrize("resource", sorted(RULES))
def test_an_empty_object_gets_an_answer_from_every_kind(resource: str) -> None:
    found = at_create(resource, {"metadata": {"name": "x"}})
    assert all(isinstance(cause, Cause) and cause.message for cause in found)
    stored = created(resource, {"metadata": {"name": "x"}})
    rules = rules_of(resource)
    assert isinstance(rules.validate_status(stored, stored), list)
    assert isinstance(rules.validate_update(updated(resource, stored, stored), stored), list)
    assert isinstance(rules.warnings(stored), list)


def test_a_namespace_is_active_labelled_and_kept() -> None:
    stored = created("namespaces", {"metadata": {"name": "team-a"}})
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team-a"}
    assert (stored["spec"], stored["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert rules_of("namespaces").held(stored)


def test_a_namespaces_finalizers_change_through_finalize_alone() -> None:
    old = created("namespaces", {"metadata": {"name": "team-a"}})
    assert updated("namespaces", changed(old, {"spec/finalizers": []}), old)["spec"] == old["spec"]


def test_a_namespace_goes_when_both_kinds_of_finalizers_are_gone() -> None:
    held = rules_of("namespaces").held
    assert not held({"spec": {"finalizers": []}, "metadata": {}})
    assert held({"spec": {}, "metadata": {"finalizers": ["a.b/c"]}})
    dying: Obj = {"metadata": {"name": "x"}, "status": {"phase": "Active", "conditions": []}}
    rules_of("namespaces").prepare_delete(dying, MOMENT)
    assert dying["status"] == {"phase": "Terminating", "conditions": []}


def test_a_node_registers_with_its_status() -> None:
    stored = created("nodes", golden("nodes")["object"])
    assert rules_of("nodes").keeps_status_at_create
    assert stored["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert stored["spec"]["podCIDRs"] == ["10.1.0.0/24"]


def test_nodes_are_selected_by_whether_they_take_pods() -> None:
    field = rules_of("nodes").field
    assert field({"spec": {}}, "spec.unschedulable") == "false"
    assert field({"spec": {"unschedulable": True}}, "spec.unschedulable") == "true"


def test_text_put_into_a_secret_is_encoded_over_what_was_there() -> None:
    obj = {"metadata": {"name": "s"}, "data": {"a": "AA==", "b": "AA=="}, "stringData": {"a": "hush"}}
    read = defaulted("secrets", obj)
    assert read["data"] == {"a": "aHVzaA==", "b": "AA=="}
    assert "stringData" not in read


def test_configuration_has_a_size() -> None:
    fits = {"metadata": {"name": "c"}, "data": {"a": "x" * SIZE_BYTES_MAX}}
    assert at_create("configmaps", fits) == []
    over = deepcopy(fits)
    over["data"]["b"] = "x"
    too_long = Cause("", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes")
    assert at_create("configmaps", over) == [too_long]


def test_a_registry_login_must_be_json() -> None:
    obj = {
        "metadata": {"name": "s"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": "{"},
    }
    (cause,) = at_create("secrets", obj)
    assert cause.message.startswith('Invalid value: "<secret contents redacted>": ')


def test_users_and_groups_are_of_rbacs_own_group() -> None:
    stored = created("clusterrolebindings.rbac.authorization.k8s.io", golden("clusterrolebindings")["object"])
    assert [subject.get("apiGroup") for subject in stored["subjects"]] == ["rbac.authorization.k8s.io", None]


def test_a_container_limit_fills_in_its_defaults() -> None:
    limits = [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Gi"}}]
    read = defaulted("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    assert read["spec"]["limits"][0] == {
        "type": "Container",
        "max": {"cpu": "2"},
        "min": {"cpu": "1", "memory": "1Gi"},
        "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "2", "memory": "1Gi"},
    }


def test_events_are_selected_by_who_reported_them() -> None:
    field = rules_of("events").field
    assert field({"source": {"component": "kubelet"}}, "source") == "kubelet"
    assert field({"reportingComponent": "scheduler"}, "source") == "scheduler"
    assert field({}, "reason") is None


def test_generation_grows_with_anything_but_metadata_and_status() -> None:
    plain = KindRules()
    assert not plain.generation_changed({"spec": 1, "status": 2, "metadata": 1}, {"spec": 1, "status": 1})
    assert plain.generation_changed({"spec": 1}, {"spec": 2})
    assert plain.generation_changed({}, {"data": 2})


def test_a_certificate_request_says_who_really_asked() -> None:
    rules = rules_of("certificatesigningrequests.certificates.k8s.io")
    moment = WriteMoment(
        now=MOMENT.now, view=MOMENT.view, user=User("jane", ("devs",), extra=(("k", ("v",)),))
    )
    asked = {"spec": {"request": "x", "username": "root", "groups": ["system:masters"]}}
    rules.prepare_create(asked, moment)
    spec = {"request": "x", "username": "jane", "groups": ["devs"], "extra": {"k": ["v"]}}
    assert asked == {"spec": spec}
    later = {"spec": {"request": "y", "username": "root"}}
    rules.prepare_update(later, asked, moment)
    assert later == asked
    decided = {"spec": spec, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    rules.prepare_status(decided, asked, moment)
    times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), MOMENT.now)
    assert decided["status"] == {"conditions": [{"type": "Approved", "status": "True", **times}]}
