"""Which CustomResourceDefinitions are acceptable, and what is said about the others."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from tests.kube.definitions.bodies import WIDGETS, anything

from fathom.kube.definitions.crd import crd_causes, crd_update_causes
from fathom.kube.definitions.custom import crd_warnings, default_crd, established, kinds_of_crd
from fathom.kube.definitions.registry import Registry
from fathom.model.errors import ApiError, Cause

SCHEMA = "spec.versions[0].schema.openAPIV3Schema"
REGISTRY = Registry.builtin()


def widgets(**changes: Any) -> Any:
    """The ordinary definition, complete, with some fields of its spec replaced."""
    crd = copy.deepcopy(WIDGETS)
    default_crd(crd)
    crd["spec"] |= changes
    return crd


def version(**changes: Any) -> Any:
    crd = widgets()
    crd["spec"]["versions"][0] |= changes
    return crd


def names(**changes: Any) -> Any:
    crd = widgets()
    crd["spec"]["names"] |= changes
    return crd


def schema(**changes: Any) -> Any:
    crd = version(selectableFields=[])
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] |= changes
    return crd


def field(of: Any) -> Any:
    """A definition whose spec has the one field `x`."""
    return schema(properties={"spec": {"type": "object", "properties": {"x": of}}})


X = f"{SCHEMA}.properties[spec].properties[x]"


def test_an_ordinary_definition_is_accepted() -> None:
    assert crd_causes(widgets()) == []


@pytest.mark.parametrize(
    ("crd", "field_path", "words"),
    [
        (widgets(group=""), "spec.group", "Required value"),
        (widgets(group="example"), "spec.group", "should be a domain with at least one dot"),
        (widgets(group="Example.com"), "spec.group", "a lowercase RFC 1123 subdomain must consist"),
        (widgets(group="storage.k8s.io"), "spec.group", "belongs to the API server itself"),
        (widgets(group="other.com"), "metadata.name", 'must be spec.names.plural+"."+spec.group'),
        (widgets(scope=""), "spec.scope", "Required value"),
        (widgets(scope="Global"), "spec.scope", 'supported values: "Cluster", "Namespaced"'),
        (widgets(versions=[]), "spec.versions", "must have exactly one version marked as storage version"),
        (widgets(preserveUnknownFields=True), "spec.preserveUnknownFields", "cannot set to true"),
        (
            widgets(conversion={"strategy": "Webhook"}),
            "spec.conversion.strategy",
            "does not support conversion",
        ),
        (widgets(conversion={"strategy": "Magic"}), "spec.conversion.strategy", "Unsupported value"),
        (version(name="V1"), "spec.versions[0].name", "a DNS-1035 label must consist"),
        (version(storage=False), "spec.versions", "exactly one version marked as storage version"),
        (version(served=False), "spec.versions", "at least one version must be served"),
        (version(schema=None, selectableFields=[]), SCHEMA, "Required value"),
        (
            version(deprecationWarning="old"),
            "spec.versions[0].deprecationWarning",
            "only be set for deprecated",
        ),
        (
            version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}]),
            "spec.versions[0].additionalPrinterColumns[0].type",
            "must be one of boolean,date,integer,number,string",
        ),
        (
            version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "=pod_status"}]),
            "spec.versions[0].additionalPrinterColumns[0].JSONPath",
            "must be a simple json path starting with .",
        ),
        (
            version(
                subresources={"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".status.y"}}
            ),
            "spec.versions[0].subresources.scale.specReplicasPath",
            "should be a json path under .spec",
        ),
        (
            version(subresources={"scale": {"specReplicasPath": ".spec.x"}}),
            "spec.versions[0].subresources.scale.statusReplicasPath",
            "Required value",
        ),
        (
            version(selectableFields=[{"jsonPath": ".spec.nothing"}]),
            "spec.versions[0].selectableFields[0].jsonPath",
            "is an invalid path",
        ),
        (
            version(selectableFields=[{"jsonPath": ".spec"}]),
            "spec.versions[0].selectableFields[0].jsonPath",
            "must point to a field of type string, boolean or integer",
        ),
        (names(plural=""), "spec.names.plural", "Required value"),
        (names(singular="A"), "spec.names.singular", "a DNS-1035 label must consist"),
        (names(kind="Wid get"), "spec.names.kind", "may have mixed case, but should otherwise match"),
        (names(listKind="Widget"), "spec.names.listKind", "kind and listKind may not be the same"),
        (names(shortNames=["a", ""]), "spec.names.shortNames[1]", "a DNS-1035 label must consist"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(crd: Any, field_path: str, words: str) -> None:
    found = {cause.field: cause.message for cause in crd_causes(crd)}
    assert words in found[field_path]


def test_each_served_version_is_a_kind_the_preferred_first() -> None:
    first = widgets()["spec"]["versions"][0]
    names = ("v1alpha1", "v1beta1", "v1beta2", "v2", "other")
    more = [{**first, "name": name, "storage": False} for name in names]
    crd = widgets(versions=[first, *more, {**first, "name": "v3", "storage": False, "served": False}])
    assert crd_causes(crd) == []
    kinds = kinds_of_crd(crd)
    assert [kind.version for kind in kinds] == ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "other"]
    assert {kind.stored_version for kind in kinds} == {f"{crd['spec']['group']}/v1"}
    assert [bool(kind.stored_as) for kind in kinds] == [False, True, True, True, True, True]


def test_a_version_that_may_be_stored_cannot_be_dropped() -> None:
    first = widgets()["spec"]["versions"][0]
    old = {**widgets(), "status": {"storedVersions": ["v1"]}}
    (found,) = crd_update_causes(widgets(versions=[{**first, "name": "v2"}]), old)
    assert found.field == "status.storedVersions[0]"
    assert found.message.startswith('Invalid value: "v1": missing from spec.versions')


def test_kubernetes_domains_need_their_approval() -> None:
    crd = widgets(group="gateway.networking.k8s.io")
    crd["metadata"]["name"] = "widgets.gateway.networking.k8s.io"
    assert [cause.field for cause in crd_causes(crd)] == ["metadata.annotations[api-approved.kubernetes.io]"]
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for tests"}
    assert crd_causes(crd) == []


@pytest.mark.parametrize(
    ("crd", "cause"),
    [
        (
            schema(type="array", items={"type": "string"}),
            Cause(
                f"{SCHEMA}.type", "FieldValueInvalid", 'Invalid value: "array": must be object at the root'
            ),
        ),
        (
            schema(type=""),
            Cause(f"{SCHEMA}.type", "FieldValueRequired", "Required value: must not be empty at the root"),
        ),
        (
            schema(nullable=True),
            Cause(
                f"{SCHEMA}.nullable", "FieldValueForbidden", "Forbidden: nullable cannot be true at the root"
            ),
        ),
        (
            field({}),
            Cause(
                f"{X}.type",
                "FieldValueRequired",
                "Required value: must not be empty for specified object fields",
            ),
        ),
        (
            field({"type": "array"}),
            Cause(f"{X}.items", "FieldValueRequired", "Required value: must be specified"),
        ),
        (
            field({"type": "array", "items": {}}),
            Cause(
                f"{X}.items.type",
                "FieldValueRequired",
                "Required value: must not be empty for specified array items",
            ),
        ),
        (
            field({"type": "text"}),
            Cause(
                f"{X}.type",
                "FieldValueNotSupported",
                'Unsupported value: "text": supported values: '
                '"array", "boolean", "integer", "number", "object", "string"',
            ),
        ),
        (
            field({"type": "object", "$ref": "#/x"}),
            Cause(f"{X}.$ref", "FieldValueForbidden", "Forbidden: $ref is not supported"),
        ),
        (
            field({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
            Cause(
                f"{X}.uniqueItems",
                "FieldValueForbidden",
                "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ),
        ),
        (
            field({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}),
            Cause(
                f"{X}.additionalProperties",
                "FieldValueForbidden",
                "Forbidden: additionalProperties and properties are mutual exclusive",
            ),
        ),
        (
            field({"type": "string", "anyOf": [{"type": "string"}]}),
            Cause(f"{X}.anyOf[0].type", "FieldValueForbidden", "Forbidden: must be empty to be structural"),
        ),
        (
            field({"type": "string", "not": {"default": "x"}}),
            Cause(f"{X}.not.default", "FieldValueForbidden", "Forbidden: must be undefined to be structural"),
        ),
        (
            field({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            Cause(
                f"{X}.x-kubernetes-list-map-keys",
                "FieldValueRequired",
                "Required value: must not be empty if x-kubernetes-list-type is map",
            ),
        ),
        (
            field({"type": "string", "x-kubernetes-list-type": "set"}),
            Cause(
                f"{X}.type",
                "FieldValueInvalid",
                'Invalid value: "string": must be array if x-kubernetes-list-type is specified',
            ),
        ),
        (
            field({"type": "object", "x-kubernetes-embedded-resource": True}),
            Cause(
                f"{X}.properties",
                "FieldValueRequired",
                "Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
            ),
        ),
        (
            field({"type": "integer", "default": "x"}),
            Cause(
                f"{X}.default",
                "FieldValueTypeInvalid",
                f'Invalid value: "string": {X}.default in body must be of type integer: "string"',
            ),
        ),
        (
            schema(properties={"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
            Cause(
                f"{SCHEMA}.properties[metadata]",
                "FieldValueForbidden",
                "Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            ),
        ),
    ],
)
def test_schemas_must_be_structural(crd: Any, cause: Cause) -> None:
    assert crd_causes(crd) == [cause]


def test_a_pattern_must_be_a_regular_expression() -> None:
    (cause,) = crd_causes(field({"type": "string", "pattern": "("}))
    assert cause.field == f"{X}.pattern"
    assert cause.message.startswith('Invalid value: "(": must be a valid regular expression, but isn\'t:')


@pytest.mark.parametrize(
    "of",
    [
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minimum": 1}],
        },
        {"x-kubernetes-preserve-unknown-fields": True},
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-embedded-resource": True,
        },
        {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        {"type": "object", "oneOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 1}}}]},
        {"type": "integer", "default": 5, "minimum": 1},
    ],
)
def test_the_usual_idioms_are_structural(of: Any) -> None:
    assert crd_causes(field(of)) == []


def test_names_stay_once_objects_are_served() -> None:
    old = widgets()
    old["status"] = established(old, "2024-01-01T00:00:00Z")
    new = widgets(scope="Cluster", group="other.com")
    new["spec"]["names"] |= {"kind": "Gadget", "plural": "gadgets"}
    new["metadata"]["name"] = "gadgets.other.com"
    assert [cause.field for cause in crd_update_causes(new, old)] == [
        "spec.scope",
        "spec.names.kind",
        "spec.group",
        "spec.names.plural",
    ]
    del old["status"]
    assert [cause.field for cause in crd_update_causes(new, old)] == ["spec.group", "spec.names.plural"]


def test_rules_that_are_not_enforced_are_warned_about() -> None:
    crd = field({"type": "string", "format": "odd", "x-kubernetes-validations": [{"rule": "self != ''"}]})
    assert crd_causes(crd) == []
    assert crd_warnings(crd) == [
        f"{X}.x-kubernetes-validations: "
        "fathom does not support CEL validation rules, they are kept but not enforced",
        'unrecognized format "odd"',
    ]
    assert crd_warnings(widgets()) == []


@given(anything, anything)
def test_a_decoded_definition_is_judged_whatever_is_in_it(spec: Any, inside: Any) -> None:
    decoder, kind = (
        REGISTRY.decoder(),
        REGISTRY.by_gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    )
    assert kind is not None
    for body in (
        {"spec": spec},
        {"spec": {"names": inside, "versions": [{"name": "v1", "storage": True}]}},
        {"spec": {"versions": [{"storage": True, "schema": {"openAPIV3Schema": inside}}]}},
        {
            "spec": {
                "versions": [{"storage": True, "schema": {"openAPIV3Schema": {"properties": {"a": inside}}}}]
            }
        },
    ):
        try:
            crd = decoder.decode(kind, msgspec.json.encode(body)).obj
        except ApiError:
            continue
        default_crd(crd)
        crd_warnings(crd)
        if not crd_causes(crd):
            kinds_of_crd(crd)
