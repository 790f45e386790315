"""Metadata: every rule refuses in kube-apiserver's words, and what is well formed passes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.definitions.kind import Kind
from fathom.kube.rules.metadata import create_causes, update_causes
from fathom.model.errors import Cause
from fathom.model.objects import Obj


def kind(plural: str = "pods", *, group: str = "", namespaced: bool = True, builtin: bool = True) -> Kind:
    return Kind(
        group=group,
        version="v1",
        kind="Thing",
        plural=plural,
        singular="thing",
        namespaced=namespaced,
        list_kind="ThingList",
        definition="thing" if builtin else "",
    )


def at_create(of: Kind | None = None, **meta: Any) -> list[Cause]:
    of = of or kind()
    base: Obj = {"name": "web"}
    if of.namespaced:
        base["namespace"] = "default"
    return create_causes({"metadata": base | meta}, of)


def at_update(meta: Obj, old: Obj) -> list[Cause]:
    base = {"name": "web", "namespace": "default", "uid": "u1", "creationTimestamp": "t"}
    return update_causes({"metadata": base | meta}, {"metadata": base | old}, kind())


def invalid(field: str, message: str) -> Cause:
    return Cause(field, "FieldValueInvalid", message)


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def test_everyday_metadata_passes() -> None:
    assert (
        at_create(
            generateName="web-",
            labels={"app": "web", "app.kubernetes.io/name": "web", "empty": "", "UPPER_case.1": "a_B-c.d"},
            annotations={"Example.COM/Note": "anything \N{SNOWMAN}", "plain": ""},
            finalizers=["example.com/cleanup", "orphan"],
            ownerReferences=[
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "u",
                    "controller": True,
                },
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u2", "controller": None},
            ],
        )
        == []
    )


def test_a_name_is_a_lower_case_subdomain() -> None:
    assert at_create(name="Foo_Bar") == [invalid("metadata.name", f'Invalid value: "Foo_Bar": {SUBDOMAIN}')]
    assert at_create(name="a" * 254) == [
        invalid("metadata.name", f'Invalid value: "{"a" * 254}": must be no more than 253 characters')
    ]
    assert at_create(name="a.b-c.d") == []


def test_some_kinds_have_their_own_rule_for_names() -> None:
    namespace = kind("namespaces", namespaced=False)
    assert at_create(namespace, name="a.b") == [
        invalid("metadata.name", 'Invalid value: "a.b": must not contain dots')
    ]
    assert at_create(namespace, name="A") == [invalid("metadata.name", f'Invalid value: "A": {LABEL}')]
    assert at_create(kind("services"), name="1a") == [
        invalid("metadata.name", f'Invalid value: "1a": {LABEL_1035}')
    ]
    role = kind("clusterroles", group="rbac.authorization.k8s.io", namespaced=False)
    assert at_create(role, name="system:node") == []
    assert at_create(role, name="a/b%c") == [
        invalid("metadata.name", "Invalid value: \"a/b%c\": may not contain '/'"),
        invalid("metadata.name", "Invalid value: \"a/b%c\": may not contain '%'"),
    ]
    assert at_create(role, name="..") == [invalid("metadata.name", "Invalid value: \"..\": may not be '..'")]


def test_a_name_is_required() -> None:
    assert at_create(name=None) == [
        Cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    ]


def test_generate_name_is_judged_as_the_start_of_a_name() -> None:
    assert at_create(generateName="web-") == []
    assert at_create(generateName="Web-") == [
        invalid("metadata.generateName", f'Invalid value: "Web-": {SUBDOMAIN}')
    ]


def test_the_namespace_is_required_or_forbidden_by_scope() -> None:
    assert at_create(namespace="") == [Cause("metadata.namespace", "FieldValueRequired", "Required value")]
    assert at_create(kind("nodes", namespaced=False), namespace="x") == [
        Cause("metadata.namespace", "FieldValueForbidden", "Forbidden: not allowed on this type")
    ]
    assert at_create(namespace="A") == [invalid("metadata.namespace", f'Invalid value: "A": {LABEL}')]


@pytest.mark.parametrize(
    ("key", "messages"),
    [
        ("-a", [KEY_NAME]),
        ("", ["name part must be non-empty", KEY_NAME]),
        ("a/", ["name part must be non-empty", KEY_NAME]),
        ("/a", ["prefix part must be non-empty"]),
        ("UP/a", [f"prefix part {SUBDOMAIN}"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 characters"]),
        (
            "a/b/c",
            [
                "a valid label key"
                + KEY_NAME.removeprefix("name part")
                + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ],
        ),
    ],
)
def test_label_keys_are_qualified_names(key: str, messages: list[str]) -> None:
    assert at_create(labels={key: "v"}) == [
        invalid("metadata.labels", f'Invalid value: "{key}": {message}') for message in messages
    ]


def test_label_values_are_short_and_plain() -> None:
    assert at_create(labels={"a": "x y"}) == [invalid("metadata.labels", f'Invalid value: "x y": {VALUE}')]
    assert at_create(labels={"a": "x" * 64}) == [
        invalid("metadata.labels", f'Invalid value: "{"x" * 64}": must be no more than 63 bytes')
    ]
    assert at_create(labels={"a": "x" * 63}) == []


def test_annotations_have_a_total_size() -> None:
    fits, over = "x" * (256 * 1024 - 1), "x" * (256 * 1024)
    too_long = Cause(
        "metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes"
    )
    assert at_create(annotations={"a": fits}) == []
    assert at_create(annotations={"a": over}) == [too_long]
    assert at_create(annotations={"a": "é" * 131072}) == [too_long]


def test_annotation_keys_are_qualified_names() -> None:
    assert at_create(annotations={"a b": ""}) == [
        invalid("metadata.annotations", f'Invalid value: "a b": {KEY_NAME}')
    ]


def test_finalizers_of_built_in_kinds_are_standard_or_qualified() -> None:
    refused = "name is neither a standard finalizer name nor is it fully qualified"
    assert at_create(finalizers=["example.com/x", "mine"]) == [
        invalid("metadata.finalizers[1]", f'Invalid value: "mine": {refused}')
    ]
    assert at_create(kind("gadgets", group="example.com", builtin=False), finalizers=["mine"]) == []
    definition = kind("customresourcedefinitions", group="apiextensions.k8s.io", namespaced=False)
    assert at_create(definition, finalizers=["customresourcecleanup.apiextensions.k8s.io"]) == []
    assert at_create(finalizers=["orphan", "foregroundDeletion"]) == [
        invalid(
            "metadata.finalizers",
            'Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion '
            "cannot be both set",
        )
    ]
    assert at_create(finalizers=["example.com/ x"]) == [
        invalid("metadata.finalizers", f'Invalid value: "example.com/ x": {KEY_NAME}')
    ]


def test_an_owner_is_named_completely() -> None:
    field = "metadata.ownerReferences[0]"
    assert at_create(ownerReferences=[{}]) == [
        Cause(f"{field}.{name}", "FieldValueRequired", "Required value: must not be empty")
        for name in ("apiVersion", "kind", "name", "uid")
    ]
    bad = {"apiVersion": "a/b/c", "kind": "X", "name": "x", "uid": "u"}
    assert at_create(ownerReferences=[bad]) == [
        invalid(f"{field}.apiVersion", 'Invalid value: "a/b/c": must be <group>/<version> or <version>')
    ]
    event = {"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u"}
    assert at_create(ownerReferences=[event]) == [
        invalid(
            field,
            'Invalid value: {"apiVersion":"v1","kind":"Event","name":"x","uid":"u"}: '
            "/v1, Kind=Event is disallowed from being an owner",
        )
    ]


def test_only_one_owner_is_the_controller() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "ab"
    ]
    (cause,) = at_create(ownerReferences=owners)
    assert (cause.field, cause.reason) == ("metadata.ownerReferences", "FieldValueInvalid")
    assert cause.message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


def test_identity_cannot_be_updated() -> None:
    assert at_update({}, {}) == []
    assert at_update({"uid": "u2", "name": "x"}, {}) == [
        invalid("metadata.name", 'Invalid value: "x": field is immutable'),
        invalid("metadata.uid", 'Invalid value: "u2": field is immutable'),
    ]
    assert at_update({"deletionTimestamp": None}, {"deletionTimestamp": "t"}) == [
        invalid("metadata.deletionTimestamp", "Invalid value: null: field is immutable")
    ]
    assert at_update({"deletionGracePeriodSeconds": None}, {}) == []


def test_generation_never_goes_back() -> None:
    assert at_update({"generation": 1}, {"generation": 2}) == [
        invalid("metadata.generation", "Invalid value: 1: must not be decremented")
    ]
    assert at_update({"generation": -1}, {})[0] == invalid(
        "metadata.generation", "Invalid value: -1: must be greater than or equal to 0"
    )


def test_finalizers_cannot_be_added_to_what_is_being_deleted() -> None:
    dying = {"deletionTimestamp": "t", "finalizers": ["a.b/c"]}
    assert at_update(dying | {"finalizers": ["a.b/c", "z.b/c", "d.b/c"]}, dying) == [
        Cause(
            "metadata.finalizers",
            "FieldValueForbidden",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            '[]string{"d.b/c", "z.b/c"}',
        )
    ]
    assert at_update(dying | {"finalizers": None}, dying) == []
    assert at_update({"finalizers": ["a.b/c"]}, {}) == []


def test_updates_judge_labels_too() -> None:
    assert at_update({"labels": {"a": "x y"}}, {}) == [
        invalid("metadata.labels", f'Invalid value: "x y": {VALUE}')
    ]


def test_strings_are_quoted_as_go_quotes_them() -> None:
    message = at_create(labels={"a": 'x"\\\n\x00\x7f\u200b\U000e0001é'})[0].message
    assert message.startswith('Invalid value: "x\\"\\\\\\n\\x00\\x7f\\u200b\\U000e0001é": ')


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_gets_an_answer_and_good_ones_pass(key: str, value: str) -> None:
    found = at_create(name=key, labels={key: value}, annotations={key: value}, finalizers=[key])
    assert all(cause.message for cause in found)


def test_the_answer_for_a_usual_object_is_cheap() -> None:
    obj = {
        "metadata": {
            "name": "web-6d4cf56db6-x2x9k",
            "namespace": "default",
            "labels": {"app": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "6d4cf56db6"},
            "annotations": {"example.com/note": "x" * 200},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}
            ],
        }
    }
    pods, rounds = kind(), 2000
    best = min(_seconds(lambda: create_causes(obj, pods), rounds) for _ in range(5))
    assert best / rounds < 40e-6  # Some 8 µs on an idle machine; the margin is for a busy one.


def _seconds(call: Any, rounds: int) -> float:
    start = time.perf_counter()
    for _ in range(rounds):
        call()
    return time.perf_counter() - start
