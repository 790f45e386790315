"""Bodies of built-in kinds: what comes out, what is refused, and in which words."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.definitions.bodies import POD, anything, bodies

from fathom.kube.definitions import parse
from fathom.kube.definitions.decode import YAML, Decoded, Decoder
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.kube.definitions.walk import WrongField, walk
from fathom.model.body import encode_json
from fathom.model.errors import ApiError

REGISTRY = Registry.builtin()
DECODER = REGISTRY.decoder()
STRING, NUMBER = "json: cannot unmarshal string into", "json: cannot unmarshal number into"
AS_POD = 'Pod in version "v1" cannot be handled as a Pod: '
UNRECOGNIZED = (
    "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: "
)


def kind(resource: str) -> Kind:
    found = REGISTRY.by_resource(resource)
    assert found is not None
    return found


PODS = kind("pods")


def refusal(raw: bytes, of: Kind = PODS) -> str:
    with pytest.raises(ApiError) as caught:
        DECODER.decode(of, raw)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def test_an_ordinary_body_comes_out_as_it_went_in() -> None:
    assert DECODER.decode(PODS, encoded(POD)) == Decoded(POD)


def test_kind_apiversion_and_metadata_stand_first_as_they_are_stored() -> None:
    shuffled = {name: POD[name] for name in ("spec", "metadata", "apiVersion", "kind")}
    assert list(DECODER.decode(PODS, encoded(shuffled)).obj) == ["kind", "apiVersion", "metadata", "spec"]
    unknown = {"zzz": 1, **shuffled}
    assert list(DECODER.decode(PODS, encoded(unknown)).obj)[:2] == ["kind", "apiVersion"]


@pytest.mark.parametrize("left_out", [("kind",), ("apiVersion",), ("kind", "apiVersion")])
def test_the_address_says_the_kind_where_the_body_does_not(left_out: tuple[str, ...]) -> None:
    body = {name: value for name, value in POD.items() if name not in left_out}
    assert DECODER.decode(PODS, encoded(body)) == Decoded(POD)


def test_nulls_are_as_good_as_absent_fields() -> None:
    body = {**POD, "status": None, "metadata": {**POD["metadata"], "creationTimestamp": None}}
    assert DECODER.decode(PODS, encoded(body)) == Decoded(POD)


def test_empty_lists_and_maps_are_not_kept_unless_required() -> None:
    body = {
        **POD,
        "metadata": {"name": "p", "labels": {}, "annotations": None, "finalizers": []},
        "spec": {"containers": [], "nodeSelector": {}, "volumes": [{"name": "v", "emptyDir": {}}]},
    }
    kept = {"containers": [], "volumes": [{"name": "v", "emptyDir": {}}]}
    expected = {**POD, "metadata": {"name": "p"}, "spec": kept}
    assert DECODER.decode(PODS, encoded(body)) == Decoded(expected)
    assert DECODER.decode_obj(PODS, body) == Decoded(expected)
    slow = DECODER.decode(PODS, encoded({**body, "unknown": 1}))
    assert slow == Decoded(expected, ('unknown field "unknown"',))


def test_nulls_in_lists_and_maps_are_zero_values() -> None:
    body = {
        **POD,
        "metadata": {"labels": {"a": None}, "finalizers": [None]},
        "spec": {"containers": [None, {"resources": {"limits": {"cpu": None}}}], "hostAliases": None},
    }
    assert DECODER.decode(PODS, encoded(body)).obj == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"labels": {"a": ""}, "finalizers": [""]},
        "spec": {"containers": [{}, {"resources": {"limits": {"cpu": "0"}}}]},
    }


@pytest.mark.parametrize(
    ("given_value", "canonical"),
    [("1000m", "1"), ("0.5", "500m"), (2, "2"), (0.25, "250m"), ("1024Mi", "1Gi"), ("1500Mi", "1500Mi")],
)
def test_quantities_come_out_in_canonical_form(given_value: Any, canonical: str) -> None:
    body = {"spec": {"containers": [{"resources": {"limits": {"cpu": given_value}}}]}}
    spec = DECODER.decode(PODS, encoded(body)).obj["spec"]
    assert spec == {"containers": [{"resources": {"limits": {"cpu": canonical}}}]}


@pytest.mark.parametrize(
    ("given_value", "canonical"),
    [
        ("2024-02-29T12:00:00+02:00", "2024-02-29T10:00:00Z"),
        ("2024-01-31T12:00:00.999Z", "2024-01-31T12:00:00Z"),
        ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0987-06-05T04:03:02+01:00", "0987-06-05T03:03:02Z"),
    ],
)
def test_times_come_out_in_utc_and_whole_seconds(given_value: str, canonical: str) -> None:
    body = {"metadata": {"creationTimestamp": given_value}}
    assert DECODER.decode(PODS, encoded(body)).obj["metadata"] == {"creationTimestamp": canonical}


@pytest.mark.parametrize(
    ("given_value", "canonical"),
    [
        ("2024-01-31T12:00:00.000001Z", "2024-01-31T12:00:00.000001Z"),
        ("2024-01-31T12:00:00+01:00", "2024-01-31T11:00:00.000000Z"),
        ("2024-01-31T12:00:00.5Z", "2024-01-31T12:00:00.500000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_micro_times_come_out_with_six_digits(given_value: str, canonical: str) -> None:
    decoded = DECODER.decode(
        kind("leases.coordination.k8s.io"), encoded({"spec": {"renewTime": given_value}})
    )
    assert decoded.obj["spec"] == {"renewTime": canonical}


def test_base64_may_be_broken_into_lines() -> None:
    decoded = DECODER.decode(kind("secrets"), encoded({"data": {"a": "aGVs\nbG8=\n"}}))
    assert decoded.obj["data"] == {"a": "aGVsbG8="}


def test_free_form_fields_keep_everything_in_them() -> None:
    data = {"a": [1, None, {"b": 1.5}], "c": None}
    decoded = DECODER.decode(kind("controllerrevisions.apps"), encoded({"revision": 1, "data": data}))
    assert decoded.obj["data"] == data


@pytest.mark.parametrize(
    ("body", "unknown"),
    [
        ({"spec": {"foo": 1}}, ['unknown field "spec.foo"']),
        (
            {"spec": {"containers": [{"name": "a"}, {"imag": "x", "env": [{"nam": "x"}]}]}, "extra": {}},
            [
                'unknown field "spec.containers[1].imag"',
                'unknown field "spec.containers[1].env[0].nam"',
                'unknown field "extra"',
            ],
        ),
        ({"metadata": {"labels": {"any": "thing"}}}, []),
    ],
)
def test_every_unknown_field_is_named_and_dropped(body: Any, unknown: list[str]) -> None:
    decoded = DECODER.decode(PODS, encoded(body))
    assert decoded.unknown == tuple(unknown)
    assert "foo" not in str(decoded.obj)
    assert "extra" not in str(decoded.obj)


@pytest.mark.parametrize(
    ("raw", "unknown"),
    [
        (b'{"metadata":{"name":"a","name":"b"}}', ('duplicate field "metadata.name"',)),
        (
            b'{"kind":"Pod","spec":{"containers":[{"image":"a","image":"b","image":"c"}]},"spec":{"nodeName":"n"}}',
            ('duplicate field "spec"',),
        ),
        (
            b'{"spec":{"containers":[{"image":"a","image":"b"}],"x":1}}',
            ('unknown field "spec.x"', 'duplicate field "spec.containers[0].image"'),
        ),
        (b'{"metadata":{"annotations":{"a":"b: {\\"c\\":1}"}}}', ()),
    ],
)
def test_fields_given_twice_are_named(raw: bytes, unknown: tuple[str, ...]) -> None:
    assert DECODER.decode(PODS, raw).unknown == unknown


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            {"spec": {"containers": "x"}},
            f"{STRING} Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"spec": {"containers": [{"image": 5}]}},
            f"{NUMBER} Go struct field Container.spec.containers.image of type string",
        ),
        (
            {"spec": {"terminationGracePeriodSeconds": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            {"spec": {"containers": [{"ports": [{"containerPort": 2**31}]}]}},
            "json: cannot unmarshal number 2147483648 into Go struct field "
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": {"labels": ["a"]}},
            "json: cannot unmarshal array into Go struct field "
            "ObjectMeta.metadata.labels of type map[string]string",
        ),
        ({"spec": "x"}, "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": {}}}}]}},
            "json: cannot unmarshal object into Go value of type int32",
        ),
        (
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
        (
            {"spec": {"overhead": {"cpu": "much"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_wrong_type_is_refused_with_its_place_and_what_was_expected(body: Any, why: str) -> None:
    assert refusal(encoded(body)) == AS_POD + why
    with pytest.raises(ApiError, match="cannot be handled"):
        DECODER.decode_obj(PODS, {**body, "kind": "Pod", "apiVersion": "v1"})


def test_bad_base64_is_refused() -> None:
    why = 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 2'
    assert refusal(encoded({"data": {"a": "aG!"}}), kind("secrets")) == why


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"apiVersion": "apps/v1"},
            "the API version in the data (apps/v1) does not match the expected API version (v1)",
        ),
        (
            {"kind": "Service", "apiVersion": "v1", "spec": {"ports": []}},
            'Service in version "v1" cannot be handled as a Pod: '
            "converting (v1.Service) to (v1.Pod): unknown conversion",
        ),
        (
            {"kind": "Foo"},
            'Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1"',
        ),
        (
            {"kind": 1},
            f'{UNRECOGNIZED}{NUMBER} Go struct field .kind of type string ({{"kind":1}})',
        ),
    ],
)
def test_a_body_of_another_kind_is_refused(body: Any, message: str) -> None:
    assert refusal(encoded(body)) == message


def test_delete_options_may_speak_for_any_group() -> None:
    options = REGISTRY.by_gvk("", "v1", "DeleteOptions")
    assert options is not None
    for version in ("v1", "apps/v1", "policy/v1"):
        body = {"kind": "DeleteOptions", "apiVersion": version, "propagationPolicy": "Orphan"}
        assert DECODER.decode(options, encoded(body)).obj["propagationPolicy"] == "Orphan"
    assert "does not match" in refusal(encoded({"apiVersion": "example.com/v1"}), options)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "Input data was truncated (<empty>)"),
        (b'{"kind":"Pod"', 'Input data was truncated ({"kind":"Pod")'),
        (b'{"a":1}x', 'JSON is malformed: trailing characters (byte 8) ({"a":1}x)'),
        (b'{"a":NaN}', 'JSON is malformed: invalid character (byte 5) ({"a":NaN})'),
        (b'{"a":1e999}', 'Number out of range - at `$[...]` ({"a":1e999})'),
        (b'{"spec":\xff}', 'JSON is malformed: invalid character (byte 8) ({"spec":\ufffd})'),
        (b'{"a":"\xff"}', 'invalid UTF-8 in a string: invalid start byte ({"a":"\ufffd"})'),
        (b"[]", "json: cannot unmarshal array into Go value of type struct (5b5d)"),
        (b"null", "json: cannot unmarshal null into Go value of type struct (6e756c6c)"),
        (b"7", "json: cannot unmarshal number into Go value of type struct (37)"),
        (
            b'{"spec":{"x":18446744073709551616}}',
            'number 18446744073709551616 does not fit into 64 bits ({"spec":{"x":18446744073709551 ...)',
        ),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(raw: bytes, why: str) -> None:
    assert refusal(raw) == UNRECOGNIZED + why


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"metadata":' + b"[" * 250 + b"]" * 250 + b"}",
        b'{"spec":{"containers":' * 300 + b"1" + b"}}" * 300,
        b'{"data":' + b'{"a":' * 300 + b"1" + b"}" * 301,
    ],
)
def test_endless_nesting_is_refused(raw: bytes) -> None:
    for of in (
        PODS,
        kind("controllerrevisions.apps"),
        kind("customresourcedefinitions.apiextensions.k8s.io"),
    ):
        assert "exceeded max depth" in refusal(raw, of)


def test_more_values_than_can_be_looked_at_closely_are_refused() -> None:
    many = b"{}," * parse.VALUES_MAX + b"{},{}"
    assert "more than 100000 values" in refusal(b'{"unheardOf":[' + many + b"]}")
    # The fast reading would take them, but not those who look at each container next.
    assert "more than 100000 values" in refusal(b'{"spec":{"containers":[' + many + b"]}}")


def test_commas_in_a_string_are_no_values() -> None:
    table = 'a,b,"c",\\\n' * 40_000
    raw = encode_json({"data": {"table.csv": table}, "unheardOf": 1})
    decoded = DECODER.decode(kind("configmaps"), raw)
    assert (decoded.obj["data"], decoded.unknown) == ({"table.csv": table}, ('unknown field "unheardOf"',))


def test_a_schema_nested_as_deep_as_allowed_is_read() -> None:
    schema: Any = {"type": "object"}
    for _ in range(90):
        schema = {"type": "object", "properties": {"a": schema}}
    body = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    decoded = DECODER.decode(kind("customresourcedefinitions.apiextensions.k8s.io"), encoded(body))
    assert decoded.obj["spec"] == body["spec"]
    assert decoded.unknown == ()


def test_schemas_inside_definitions_are_read_closely() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"additionalProperties": {"tipe": "string"}, "items": {"type": "string"}},
            "b": {"additionalProperties": True, "default": {"any": [None]}, "minimum": 1},
        },
    }
    body = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    decoded = DECODER.decode(kind("customresourcedefinitions.apiextensions.k8s.io"), encoded(body))
    where = "spec.versions[0].schema.openAPIV3Schema.properties.a.additionalProperties.tipe"
    assert decoded.unknown == (f'unknown field "{where}"',)
    properties = decoded.obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["b"] == schema["properties"]["b"]  # type: ignore[index]  # a literal of mixed types


def test_an_object_out_of_a_patch_is_read_the_same_and_not_changed() -> None:
    patched = copy.deepcopy({**POD, "status": None})
    patched["spec"]["overhead"] = {"cpu": "1000m"}
    before = copy.deepcopy(patched)
    decoded = DECODER.decode_obj(PODS, patched)
    assert decoded == Decoded({**POD, "spec": {**POD["spec"], "overhead": {"cpu": "1"}}})
    assert patched == before
    decoded.obj["metadata"]["labels"]["app"] = "changed"
    assert patched == before


def test_free_form_values_of_a_patch_are_not_shared_with_it() -> None:
    of = kind("controllerrevisions.apps")
    patched = {"data": {"a": {"b": 1}}, "revision": 1, "x": 1}
    for body in (patched, {**patched, "kind": of.kind, "apiVersion": of.api_version}):
        decoded = DECODER.decode_obj(of, body)
        decoded.obj["data"]["a"]["b"] = 2
        assert patched["data"] == {"a": {"b": 1}}


def test_yaml_says_the_same_as_json() -> None:
    text = json.dumps(POD)  # JSON is YAML.
    assert DECODER.decode(PODS, text.encode(), media_type=YAML) == Decoded(POD)


def twin(of: Kind, raw: bytes) -> tuple[Any, list[str]] | None:
    """The slow reading alone."""
    try:
        parse.plain(raw)
        return walk(REGISTRY.definitions, of.definition, parse.noted(raw))
    except (WrongField, parse.MalformedBody):
        return None


RESOURCES = [
    "pods",
    "deployments.apps",
    "services",
    "secrets",
    "events",
    "jobs.batch",
    "leases.coordination.k8s.io",
]


@given(st.data(), st.sampled_from(RESOURCES))
def test_the_fast_reading_and_its_slow_twin_agree(data: st.DataObject, resource: str) -> None:
    of = kind(resource)
    body = data.draw(bodies(REGISTRY.definitions, {"$ref": f"#/$defs/{of.definition}"}))
    if not isinstance(body, dict):
        return
    raw = encoded({**body, "kind": of.kind, "apiVersion": of.api_version})
    slow = twin(of, raw)
    if slow is None:
        assert refusal(raw, of)
        return
    fast = DECODER.decode(of, raw)
    assert fast == Decoded(slow[0], tuple(f'unknown field "{path}"' for path in slow[1]))


@given(st.data(), st.sampled_from(RESOURCES))
def test_reading_what_was_read_changes_nothing(data: st.DataObject, resource: str) -> None:
    of = kind(resource)
    body = data.draw(bodies(REGISTRY.definitions, {"$ref": f"#/$defs/{of.definition}"}))
    try:
        once = DECODER.decode(of, encoded(body)).obj
    except ApiError:
        return
    assert DECODER.decode(of, encoded(once)) == Decoded(once)
    assert DECODER.decode_obj(of, once) == Decoded(once)
    DECODER.apply_defaults(of, once)
    whole = copy.deepcopy(once)
    assert DECODER.decode(of, encoded(once)).obj == whole
    DECODER.apply_defaults(of, once)
    assert once == whole


@given(st.binary(max_size=64) | anything.map(msgspec.json.encode), st.sampled_from(RESOURCES), st.booleans())
def test_nothing_but_a_refusal_ever_comes_of_a_strange_body(raw: bytes, resource: str, yaml: bool) -> None:
    media = {"media_type": YAML} if yaml else {}
    with suppress(ApiError):
        msgspec.json.encode(DECODER.decode(kind(resource), raw, **media).obj)


def test_a_decoder_is_made_without_reading_any_definition(registry: Registry) -> None:
    assert isinstance(registry.decoder(), Decoder)


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        ("volumeattachments.storage.k8s.io", {"attached": False}),
        ("horizontalpodautoscalers.autoscaling", {"desiredReplicas": 0}),
        ("pods", {}),
    ],
)
def test_what_every_status_has_is_there_from_the_start(resource: str, status: dict[str, Any]) -> None:
    obj: dict[str, Any] = {}
    DECODER.fill_status(kind(resource), obj)
    assert obj == {"status": status}
    told = {"status": dict.fromkeys(status, 7)}
    DECODER.fill_status(kind(resource), told)
    assert told == {"status": dict.fromkeys(status, 7)}
