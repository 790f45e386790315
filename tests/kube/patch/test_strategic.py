"""Strategic merge on real definitions: cases worked out by hand, and roundtrips on generated pods."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.definitions.definitions import load
from fathom.kube.patch.schema import DefinitionSchema, PatchSchema, patch_schema
from fathom.kube.patch.strategic import merge_strategically
from fathom.model.errors import ApiError

Json = Any


@cache
def schema(name: str = "core.v1.Pod") -> DefinitionSchema:
    found = patch_schema(load().schemas, f"io.k8s.api.{name}")
    assert found is not None
    return found


def merged(current: Json, patch: Json, kind: str = "core.v1.Pod") -> Json:
    before = copy.deepcopy((current, patch))
    result = merge_strategically(current, patch, schema(kind))
    assert (current, patch) == before
    return result


def pod(**spec: Json) -> Json:
    return {"metadata": {"name": "p"}, "spec": spec}


WEB, SIDE = {"name": "web", "image": "web:1"}, {"name": "side", "image": "side:1"}


def test_the_schema_knows_merge_keys_through_references_lists_and_maps() -> None:
    spec = schema().field("spec")
    assert spec is not None
    containers = spec.field("containers")
    assert containers is not None
    ports = containers.field("ports")
    volumes = spec.field("volumes")
    tolerations = spec.field("tolerations")
    assert ports is not None
    assert volumes is not None
    assert tolerations is not None
    assert (containers.merge_key, containers.strategy) == ("name", "merge")
    assert (ports.merge_key, ports.strategy) == ("containerPort", "merge")
    assert (volumes.merge_key, volumes.strategy) == ("name", "merge")
    assert (tolerations.merge_key, tolerations.strategy) == ("", "")
    assert spec.field("nonsense") is None
    assert patch_schema(load().schemas, "nonsense") is None


def test_items_of_a_keyed_list_merge_by_their_key() -> None:
    patch = {"spec": {"containers": [{"name": "side", "image": "side:2", "args": ["-v"]}]}}
    assert merged(pod(containers=[WEB, SIDE]), patch) == pod(
        containers=[WEB, {"name": "side", "image": "side:2", "args": ["-v"]}]
    )


def test_a_new_item_comes_before_those_the_patch_does_not_name() -> None:
    patch = {"spec": {"containers": [{"name": "new", "image": "new:1"}]}}
    assert merged(pod(containers=[WEB]), patch)["spec"]["containers"] == [
        {"name": "new", "image": "new:1"},
        WEB,
    ]


def test_named_items_take_the_patchs_order_and_others_stay_between_them() -> None:
    a, b, c, d = ({"name": name} for name in "abcd")
    patch = {"spec": {"containers": [d, a]}}
    assert merged(pod(containers=[a, b, c, d]), patch)["spec"]["containers"] == [b, c, d, a]
    patch = {"spec": {"containers": [a, d]}}
    assert merged(pod(containers=[a, b, c, d]), patch)["spec"]["containers"] == [a, b, c, d]


def test_keyed_lists_merge_inside_keyed_lists() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    patch = {"spec": {"containers": [{"name": "web", "env": [{"name": "B", "value": "3"}]}]}}
    assert merged(pod(containers=[{**WEB, "env": env}]), patch)["spec"]["containers"] == [
        {**WEB, "env": [env[0], {"name": "B", "value": "3"}]}
    ]


def test_a_list_without_a_merge_key_is_replaced() -> None:
    patch = {"spec": {"tolerations": [{"key": "b", "value": None}]}}
    assert merged(pod(tolerations=[{"key": "a"}]), patch) == pod(tolerations=[{"key": "b"}])


def test_null_deletes_a_field_and_is_nothing_where_there_is_none() -> None:
    patch = {"spec": {"nodeName": None, "hostname": None, "securityContext": {"runAsUser": None}}}
    assert merged(pod(nodeName="n"), patch) == pod(securityContext={})


def test_an_object_can_be_replaced_or_emptied() -> None:
    current = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    assert merged(current, {"metadata": {"labels": {"$patch": "replace", "c": "3", "d": None}}}) == {
        "metadata": {"labels": {"c": "3"}}
    }
    assert merged(current, {"metadata": {"labels": {"$patch": "delete"}}}) == {"metadata": {"labels": {}}}
    assert merged(current, {"metadata": {"labels": {"$patch": "merge", "b": "9"}}}) == {
        "metadata": {"labels": {"a": "1", "b": "9"}}
    }


def test_an_item_can_be_deleted_by_its_key() -> None:
    patch = {
        "spec": {"containers": [{"name": "web", "$patch": "delete"}, {"name": "side", "image": "side:2"}]}
    }
    assert merged(pod(containers=[WEB, SIDE]), patch) == pod(containers=[{"name": "side", "image": "side:2"}])


def test_deleting_removes_every_item_of_the_key_and_merging_changes_the_first() -> None:
    dns = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    current = pod(containers=[{**WEB, "ports": dns}])

    def ports(patch: Json) -> Json:
        return merged(current, {"spec": {"containers": [{"name": "web", "ports": patch}]}})["spec"][
            "containers"
        ][0]["ports"]

    assert ports([{"containerPort": 53, "$patch": "delete"}]) == []
    assert ports([{"containerPort": 53, "name": "dns"}]) == [{**dns[0], "name": "dns"}, dns[1]]


def test_a_keyed_list_can_be_replaced_whole() -> None:
    patch = {"spec": {"containers": [{"$patch": "replace"}, {"name": "new", "image": None}]}}
    assert merged(pod(containers=[WEB, SIDE]), patch) == pod(containers=[{"name": "new"}])


def test_directives_mean_nothing_where_there_is_nothing_yet() -> None:
    patch = {
        "spec": {"containers": [{"name": "web", "$patch": "delete"}, SIDE], "affinity": {"$retainKeys": []}}
    }
    assert merged(pod(), patch) == pod(containers=[SIDE], affinity={})


def test_retained_keys_drop_all_others() -> None:
    current = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert merged(current, patch, "apps.v1.Deployment") == {"spec": {"strategy": {"type": "Recreate"}}}
    volume = {"name": "v", "emptyDir": {}}
    retain = {"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}
    assert merged(pod(volumes=[volume]), {"spec": {"volumes": [retain]}}) == pod(
        volumes=[{"name": "v", "hostPath": {"path": "/"}}]
    )


def test_plain_lists_that_merge_are_united_and_values_can_be_taken_out() -> None:
    current = {"metadata": {"finalizers": ["a", "b"]}}
    assert merged(current, {"metadata": {"finalizers": ["c", "b"]}}) == {
        "metadata": {"finalizers": ["c", "a", "b"]}
    }
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}}
    assert merged(current, patch) == {"metadata": {"finalizers": ["b"]}}
    assert merged({"metadata": {}}, patch) == {"metadata": {}}


def test_a_stated_order_is_the_lists_order() -> None:
    current = pod(containers=[WEB, SIDE, {"name": "other"}])
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "side"}, {"name": "web"}],
            "containers": [{"name": "web", "image": "web:2"}],
        }
    }
    assert merged(current, patch) == pod(
        containers=[SIDE, {"name": "web", "image": "web:2"}, {"name": "other"}]
    )
    only_order = {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}}
    assert merged(current, only_order) == pod(containers=[SIDE, WEB, {"name": "other"}])
    finalizers = {"metadata": {"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["a"]}}
    assert merged({"metadata": {"finalizers": ["b"]}}, finalizers) == {"metadata": {"finalizers": ["b", "a"]}}
    assert merged(pod(), only_order) == pod()


def test_a_field_with_the_strategy_replace_is_replaced() -> None:
    current = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch: Json = {"spec": {"selector": {"matchExpressions": []}}}
    assert merged(current, patch, "policy.v1.PodDisruptionBudget") == patch


def test_unknown_fields_merge_as_objects_and_are_replaced_as_lists() -> None:
    assert merged({"x": {"a": 1, "l": [1]}}, {"x": {"b": 2, "l": [{"name": 2}]}}) == {
        "x": {"a": 1, "b": 2, "l": [{"name": 2}]}
    }


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"$patch": "melt"}}, 'unknown patch type: melt in map: {"$patch":"melt"}'),
        ({"spec": {"$patch": ["x"]}}, 'unknown patch type: ["x"] in map: {"$patch":["x"]}'),
        (
            {"spec": {"containers": [{"image": "x"}]}},
            'map: {"image":"x"} does not contain declared merge key: name',
        ),
        ({"spec": {"containers": ["x"]}}, 'map: "x" does not contain declared merge key: name'),
        (
            {"spec": {"containers": [{"$patch": "delete"}]}},
            'map: {"$patch":"delete"} does not contain declared merge key: name',
        ),
        (
            {"spec": {"containers": [{"$patch": "melt", "name": "x"}]}},
            'unknown patch type: melt in map: {"$patch":"melt","name":"x"}',
        ),
        (
            {"spec": {"containers": [{"$patch": "merge", "name": "x"}]}},
            "merging lists cannot yet be specified in the patch",
        ),
        ({"spec": {"$retainKeys": "x"}}, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["a"], "b": 1}}, "invalid patch format of retainKeys"),
        ({"metadata": {"finalizers": [{}]}}, "a list of plain values cannot hold {}"),
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
            "invalid patch format of primitive list",
        ),
        (
            {"metadata": {"$deleteFromPrimitiveList/": []}},
            "invalid directive: $deleteFromPrimitiveList/ names no field",
        ),
        ({"spec": {"$setElementOrder/containers": {}}}, "invalid patch format of $setElementOrder list"),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
            'The order in patch list:\n[{"name":"b"}]\n'
            " doesn't match $setElementOrder list:\n"
            '[{"name":"a"}]\n',
        ),
    ],
)
def test_a_patch_that_cannot_be_meant_is_a_400(patch: Json, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        merged(pod(containers=[WEB]), patch)
    assert (refused.value.code, refused.value.message) == (400, words)


def test_a_huge_patch_is_not_told_back_whole() -> None:
    with pytest.raises(ApiError) as refused:
        merged(pod(containers=[WEB]), {"spec": {"containers": [{"image": "x" * 100_000}]}})
    assert len(refused.value.message) < 1000


names = st.sampled_from(["a", "b", "c", "d"])
env = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"value": names}),
    max_size=3,
    unique_by=lambda one: one["name"],
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": names}, optional={"image": names, "args": st.lists(names, max_size=2), "env": env}
    ),
    max_size=4,
    unique_by=lambda one: one["name"],
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("p")},
            optional={
                "labels": st.dictionaries(names, names, max_size=3),
                "finalizers": st.lists(names, max_size=3, unique=True),
            },
        ),
        "spec": st.fixed_dictionaries(
            {"containers": containers},
            optional={
                "nodeName": names,
                "tolerations": st.lists(st.fixed_dictionaries({"key": names}), max_size=2),
                "securityContext": st.dictionaries(
                    st.sampled_from(["runAsUser", "fsGroup"]), st.integers(0, 3)
                ),
            },
        ),
    }
)


def difference(old: Json, new: Json, at: PatchSchema | None) -> Json:
    """What kubectl does: a strategic patch from one object to another."""
    patch: Json = {name: None for name in old if name not in new}
    for name, value in new.items():
        before, field = old.get(name), at.field(name) if at else None
        if before == value:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            patch[name] = difference(before, value, field)
        elif isinstance(before, list) and isinstance(value, list) and field and field.strategy == "merge":
            patch |= list_difference(name, before, value, field)
        else:
            patch[name] = value
    return patch


def list_difference(name: str, old: list[Json], new: list[Json], field: PatchSchema) -> Json:
    key = field.merge_key
    if not key:
        return {
            f"$deleteFromPrimitiveList/{name}": [item for item in old if item not in new],
            f"$setElementOrder/{name}": new,
            name: [item for item in new if item not in old],
        }
    before = {item[key]: item for item in old}
    kept = {item[key] for item in new}
    changed = [
        {key: item[key], **difference(before.get(item[key], {}), item, field)}
        for item in new
        if before.get(item[key]) != item
    ]
    gone = [{key: item[key], "$patch": "delete"} for item in old if item[key] not in kept]
    return {f"$setElementOrder/{name}": [{key: item[key]} for item in new], name: changed + gone}


@given(pods, pods)
def test_the_difference_of_two_pods_leads_from_one_to_the_other(old: Json, new: Json) -> None:
    assert merged(old, difference(old, new, schema())) == new


@given(pods, pods)
def test_patching_twice_changes_nothing_more(old: Json, new: Json) -> None:
    patch = difference(old, new, schema())
    once = merged(old, patch)
    assert merged(once, patch) == once


@given(pods, pods)
def test_a_patch_without_directives_is_all_there_afterwards(old: Json, patch: Json) -> None:
    result = merged(old, patch)
    assert merged(result, patch) == result
    assert [one for one in result["spec"]["containers"] if one["name"] not in names_of(patch)] == [
        one for one in old["spec"]["containers"] if one["name"] not in names_of(patch)
    ]


def names_of(one: Json) -> set[str]:
    return {item["name"] for item in one["spec"]["containers"]}


garbage = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), names),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "spec",
                    "containers",
                    "env",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/containers",
                    "$deleteFromPrimitiveList/finalizers",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=15,
)


@given(st.fixed_dictionaries({"spec": garbage, "metadata": garbage}), pods)
def test_any_patch_is_applied_or_refused_as_the_callers_fault(patch: Json, current: Json) -> None:
    try:
        merged(current, patch)
    except ApiError as error:
        assert error.code == 400  # noqa: PT017 - either outcome is fine, a 500 is not
