"""Protobuf bodies: the same object comes out as from JSON, and nothing that is sent can break the reader."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.definitions.wire import (
    MEDIA,
    ODD,
    Writer,
    at,
    entry,
    envelope,
    field,
    go_meta,
    message,
    sample,
    varint,
)

from fathom.kube.definitions import protobuf
from fathom.kube.definitions.decode import Decoded
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.protobuf import DEPTH_MAX
from fathom.kube.definitions.registry import Registry
from fathom.model.body import encode_json
from fathom.model.errors import ApiError
from fathom.model.objects import Obj

REGISTRY = Registry.builtin()
DEFINITIONS = REGISTRY.definitions
DECODER = REGISTRY.decoder()
PACKAGES = tomllib.loads(Path(protobuf.__file__).with_name("protobuf.toml").read_text())
TABLE = {f"{package}.{name}": line for package, lines in PACKAGES.items() for name, line in lines.items()}
WRITER = Writer(DEFINITIONS, TABLE)
BODIES = [("", "v1", "Binding"), ("", "v1", "DeleteOptions"), ("autoscaling", "v1", "Scale"),
          ("policy", "v1", "Eviction"), ("authentication.k8s.io", "v1", "TokenRequest")]  # fmt: skip
# Kubernetes' own: those that have a schema of ours, or of a CRD, have no protobuf.
KINDS = [of for of in REGISTRY.kinds() if of.schema is None]
KINDS += [body for gvk in BODIES if (body := REGISTRY.by_gvk(*gvk))]

# As kubectl 1.32 sends `create deployment web --image=nginx --replicas=0 --port=80`.
KUBECTL_DEPLOYMENT = bytes.fromhex(
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b8010a1f0a0377656212001a0022002a003200380042005a"
    "0a0a0361707012037765621286010800120c0a0a0a0361707012037765621a6c0a1c0a0012001a0022002a003200380042005a0a"
    "0a036170701203776562124c122e0a056e67696e7812056e67696e782a00320a0a001000185022002a0042006a00720080010088"
    "0100900100a201001a00320042004a0052005800600068008201008a01009a0100c2010022020a00280038001a0c080010001800"
    "2000280038001a002200"
)


def kind(resource: str) -> Kind:
    found = REGISTRY.by_resource(resource)
    assert found is not None
    return found


PODS, CONFIG_MAPS = kind("pods"), kind("configmaps")
CRDS = kind("customresourcedefinitions.apiextensions.k8s.io")


def read(of: Kind, raw: bytes) -> Obj:
    """The object in a message of the kind."""
    decoded = DECODER.decode(of, envelope(of.api_version, of.kind, raw), media_type=MEDIA)
    assert decoded.unknown == ()
    return {name: value for name, value in decoded.obj.items() if name not in {"kind", "apiVersion"}}


def refusal(body: bytes, of: Kind = PODS) -> str:
    with pytest.raises(ApiError) as caught:
        DECODER.decode(of, body, media_type=MEDIA)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


def test_what_kubectl_sends_is_what_it_would_have_said_in_json() -> None:
    labels = {"app": "web"}
    container = {"name": "nginx", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {}}
    assert DECODER.decode(kind("deployments.apps"), KUBECTL_DEPLOYMENT, media_type=MEDIA) == Decoded(
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "web", "labels": labels},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                "strategy": {},
            },
            "status": {},
        }
    )


@pytest.mark.parametrize("of", KINDS, ids=[f"{of.api_version} {of.kind}" for of in KINDS])
def test_every_field_of_every_kind_is_read(of: Kind) -> None:
    whole = sample(DEFINITIONS, {"$ref": f"#/$defs/{of.definition}"})
    assert read(of, WRITER.message(of.definition, whole)) == whole
    head = {"kind": of.kind, "apiVersion": of.api_version}
    assert DECODER.decode(of, encode_json(whole)) == Decoded(head | whole), "the sample is no such object"


def names_of(package: str, message: str) -> list[str]:
    names: list[str] = []
    for word in PACKAGES[package][message].split():
        names += names_of(package, word[1:]) if word.startswith("*") else [word.removesuffix("?")]
    return [name for name in names if name != "-"]


def test_the_table_has_the_fields_of_the_definitions_and_no_others() -> None:
    reachable = DEFINITIONS.reachable(*(of.definition for of in KINDS))
    wrong = {}
    for name in reachable:
        schema, (package, _, short) = DEFINITIONS[name], name.rpartition(".")
        if name in ODD or not schema.get("properties"):
            continue
        said = names_of(package, short)
        outside = {"kind", "apiVersion"} if "x-kubernetes-group-version-kind" in schema else set()
        if sorted(said) != sorted(set(schema["properties"]) - outside):
            wrong[name] = set(said) ^ (set(schema["properties"]) - outside)
    assert wrong == {}


def test_a_zero_is_kept_where_it_was_meant_and_else_dropped() -> None:
    port = message((1, ""), (2, 0), (3, 0), (4, ""), (5, ""))
    container = message((1, "c"), (2, ""), (5, ""), (6, port), (8, b""), (13, ""), (14, ""), (16, 0))
    toleration = message((1, ""), (2, ""), (3, ""), (4, ""), (5, 0))
    spec = message((2, container), (3, ""), (4, 0), (11, 0), (21, 0), (22, toleration), (25, 0), (31, ""))
    assert read(PODS, message((1, go_meta("")), (2, spec), (3, b""))) == {
        "metadata": {},
        "spec": {
            "containers": [{"name": "c", "ports": [{"containerPort": 0}], "resources": {}}],
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [{"tolerationSeconds": 0}],
            "priority": 0,
            "preemptionPolicy": "",
        },
        "status": {},
    }


def test_embedded_messages_lie_flat() -> None:
    volumes = [
        message((1, "a"), (2, message((2, message((1, ""), (2, message((1, "1Gi")))))))),
        message((1, "b"), (2, message((19, message((1, message((1, "settings"))), (4, 0)))))),
    ]
    http = message((1, "/ready"), (2, message((1, 1), (2, 0), (3, "http"))), (3, ""), (4, ""))
    probe = message((1, message((2, http))), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0))
    container = message((1, "c"), (11, probe))
    spec = message((1, volumes[0]), (1, volumes[1]), (2, container))
    assert read(PODS, message((2, spec)))["spec"] == {
        "volumes": [
            {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "b", "configMap": {"name": "settings", "optional": False}},
        ],
        "containers": [{"name": "c", "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}}}],
    }


def test_maps_may_leave_out_a_key_or_a_value_that_is_empty() -> None:
    data = message((2, entry("a", "1")), (2, message((1, "b"))), (2, message((2, "2"))), (2, entry("a", "3")))
    blobs = message((3, entry("x", b"\x00\xff")), (3, message((1, "y"))))
    assert read(CONFIG_MAPS, data + blobs + field(4, 0)) == {
        "data": {"a": "3", "b": "", "": "2"},
        "binaryData": {"x": "AP8=", "y": ""},
        "immutable": False,
    }


def test_lists_in_maps_come_wrapped() -> None:
    extra = [(5, entry("scopes", message((1, "a"), (1, "")))), (5, message((1, "none")))]
    spec = message((3, "jane"), (4, "dev"), (4, "ops"), (6, ""), *extra)
    assert read(kind("subjectaccessreviews.authorization.k8s.io"), message((2, spec)))["spec"] == {
        "user": "jane",
        "groups": ["dev", "ops"],
        "extra": {"scopes": ["a", ""], "none": []},
    }


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_may_be_negative_large_and_packed(packed: bool) -> None:
    groups = [0, 5, 2**40]
    many = field(4, b"".join(map(varint, groups))) if packed else message(*((4, one) for one in groups))
    context = message((2, -(2**63))) + many
    assert read(PODS, message((2, message((14, context), (25, -(2**31))))))["spec"] == {
        "securityContext": {"runAsUser": -(2**63), "supplementalGroups": groups},
        "priority": -(2**31),
    }


def test_times() -> None:
    half_past = message((1, 1_700_000_000), (2, 123_456_789))
    spec = message((1, "me"), (2, 15), (3, half_past), (4, message((1, -1), (2, 999_999_999))), (5, 0))
    meta = go_meta("lock", (9, message((1, 0), (2, 0))))
    assert read(kind("leases.coordination.k8s.io"), message((1, meta), (2, spec))) == {
        "metadata": {"name": "lock", "deletionTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2023-11-14T22:13:20.123456Z",
            "renewTime": "1969-12-31T23:59:59.999999Z",
            "leaseTransitions": 0,
        },
    }


def test_quantities_are_put_in_their_canonical_form() -> None:
    hard = [(1, entry("cpu", message((1, "1000m")))), (1, message((1, "pods")))]
    assert read(kind("resourcequotas"), message((2, message(*hard))))["spec"] == {
        "hard": {"cpu": "1", "pods": "0"}
    }


def test_raw_json_is_taken_apart() -> None:
    managed = message((1, "kubectl"), (2, "Update"), (6, "FieldsV1"), (7, message((1, '{"f:data":{}}'))))
    revision = message((1, go_meta("r", (17, managed))), (2, message((1, '{"spec": [1, null]}'))), (3, 0))
    assert read(kind("controllerrevisions.apps"), revision) == {
        "metadata": {
            "name": "r",
            "managedFields": [
                {
                    "manager": "kubectl",
                    "operation": "Update",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:data": {}},
                }
            ],
        },
        "data": {"spec": [1, None]},
        "revision": 0,
    }


def test_schemas_are_this_or_that() -> None:
    text, no = message((5, "string")), message((1, 0))
    schema = message(
        (5, "object"),
        (8, message((1, '{"a":1}'))),
        (9, 10.0),
        (11, -0.5),
        (20, message((1, '"x"'))),
        (20, b""),
        (24, message((1, text))),
        (29, entry("a", text)),
        (30, no),
        (32, entry("b", message((2, "c")))),
        (32, entry("d", message((1, text)))),
        (33, message((1, 0), (2, text))),
        (38, 0),
    )
    found = read(CRDS, at(schema, 2, 7, 4, 1))["spec"]["versions"]
    assert found[0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "default": {"a": 1},
        "maximum": 10,
        "minimum": -0.5,
        "enum": ["x", None],
        "items": {"type": "string"},
        "properties": {"a": {"type": "string"}},
        "additionalProperties": False,
        "dependencies": {"b": ["c"], "d": {"type": "string"}},
        "additionalItems": {"type": "string"},
        "x-kubernetes-preserve-unknown-fields": False,
    }


def test_what_a_newer_client_knows_is_skipped() -> None:
    fixed = varint(1000 << 3 | 1) + b"8 bytes." + varint(1001 << 3 | 5) + b"4444"
    raw = message((2, entry("a", "1")), (999, "text"), (998, 7), (1, go_meta("c", (500, b"\x01"))))
    assert read(CONFIG_MAPS, raw + fixed) == {"metadata": {"name": "c"}, "data": {"a": "1"}}


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    raw = message((1, go_meta("first")), (1, go_meta("last")), (4, 1), (4, 0))
    assert read(CONFIG_MAPS, raw) == {"metadata": {"name": "last"}, "immutable": False}


def test_text_that_is_no_utf8_is_read_as_go_writes_it_in_json() -> None:
    assert read(CONFIG_MAPS, message((2, entry("a", b"x\xff"))))["data"] == {"a": "x\ufffd"}


def test_the_address_says_the_kind_where_the_envelope_does_not() -> None:
    assert DECODER.decode(CONFIG_MAPS, envelope("", "", b""), media_type=MEDIA) == Decoded(
        {"kind": "ConfigMap", "apiVersion": "v1"}
    )


def test_delete_options_come_in_the_words_of_any_group() -> None:
    of = REGISTRY.by_gvk("", "v1", "DeleteOptions")
    assert of is not None
    body = envelope("apps/v1", "DeleteOptions", message((1, 0), (2, message((1, "u"))), (4, "Orphan")))
    obj = DECODER.decode(of, body, media_type=MEDIA).obj
    assert {name: obj[name] for name in obj if name not in {"kind", "apiVersion"}} == {
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Orphan",
    }


def test_another_kind_or_version_is_refused_as_in_json() -> None:
    other = envelope("v1", "Secret", message((2, entry("a", "1"))))
    said = refusal(other, CONFIG_MAPS)
    with pytest.raises(ApiError) as in_json:
        DECODER.decode(CONFIG_MAPS, b'{"kind":"Secret","apiVersion":"v1"}')
    assert said == in_json.value.message
    assert refusal(envelope("v2", "Pod", b"")) == (
        "the API version in the data (v2) does not match the expected API version (v1)"
    )


def pod_of(raw: bytes) -> bytes:
    return envelope("v1", "Pod", raw)


def nested(levels: int) -> bytes:
    schema = b""
    for _ in range(levels):
        schema = message((28, schema))  # not
    return envelope(CRDS.api_version, CRDS.kind, at(schema, 2, 7, 4, 1))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "provided data does not appear to be a protobuf message"),
        (b"{}", "provided data does not appear to be a protobuf message"),
        (b"k8s\x00\x0a", "the body ends inside a number"),
        (b"k8s\x00\x0a\x05ab", "field 1 is truncated"),
        (b"k8s\x00\x0a" + b"\xff" * 9 + b"\x01", "field 1 is truncated"),
        (b"k8s\x00" + b"\xff" * 10, "a number is longer than 64 bits"),
        (b"k8s\x00\x0b", "field 1 is truncated or has an unknown wire type (3)"),
        (b"k8s\x00\x0f", "field 1 is truncated or has an unknown wire type (7)"),
        (pod_of(at(1, 2)), "wrong wire type 0 for field spec"),
        (pod_of(at("x", 2, 11)), "wrong wire type 2 for field hostNetwork"),
        (pod_of(at(1, 2, 2)), "wrong wire type 0 for field containers"),
        (pod_of(at(1, 2, 7)), "wrong wire type 0 for field nodeSelector"),
        (pod_of(at(1, 2, 7, 1)), "wrong wire type 0 for field nodeSelector"),
        (pod_of(at(1, 2, 7, 2)), "wrong wire type 0 for field nodeSelector"),
        (pod_of(at(1, 2, 1, 2)), "wrong wire type 0 for field *VolumeSource"),
        (pod_of(at(b"\x80", 2, 14, 4)), "the body ends inside a number"),
        (pod_of(at(2**62, 1, 8, 1)), "is not a valid time"),
        (pod_of(at("{", 1, 17, 7, 1)), "truncated"),
        (pod_of(at(entry("cpu", message((1, "x"))), 2, 32)), "quantities must match"),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, why: str) -> None:
    assert why in refusal(body)


def test_messages_in_messages_have_an_end() -> None:
    assert DECODER.decode(CRDS, nested(20), media_type=MEDIA)
    assert f"exceeded max depth of {DEPTH_MAX} messages" in refusal(nested(DEPTH_MAX), CRDS)
    assert "exceeded max depth" in refusal(nested(20_000), CRDS)


def test_numbers_that_are_none_are_refused() -> None:
    body = envelope(CRDS.api_version, CRDS.kind, at(float("nan"), 2, 7, 4, 1, 9))
    assert "nan is not a JSON number" in refusal(body, CRDS)


def test_a_body_of_a_million_tiny_fields_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "FIELDS_MAX", 100)
    assert read(CONFIG_MAPS, message((2, entry("a", "1"))) * 30) == {"data": {"a": "1"}}
    body = envelope("v1", "ConfigMap", message((2, entry("a", "1"))) * 34)
    assert "more than 100 fields" in refusal(body, CONFIG_MAPS)


def check_answered(of: Kind, body: bytes) -> None:
    """An object or a 400: nothing else may come of a body."""
    code = 0
    try:
        DECODER.decode(of, body, media_type=MEDIA)
    except ApiError as error:
        code = error.code
    assert code in {0, 400}


@given(of=st.sampled_from(KINDS), raw=st.binary(max_size=200), enveloped=st.booleans())
def test_no_bytes_can_break_the_reader(of: Kind, raw: bytes, enveloped: bool) -> None:
    check_answered(of, envelope(of.api_version, of.kind, raw) if enveloped else b"k8s\x00" + raw)


def whole_body(of: Kind) -> bytes:
    whole = sample(DEFINITIONS, {"$ref": f"#/$defs/{of.definition}"})
    return envelope(of.api_version, of.kind, WRITER.message(of.definition, whole))


@given(data=st.data(), of=st.sampled_from([PODS, CRDS, kind("nodes"), kind("ingresses.networking.k8s.io")]))
def test_no_damage_to_a_body_can_break_the_reader(data: st.DataObject, of: Kind) -> None:
    body = whole_body(of)
    damaged = bytearray(body)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=5)):
        damaged[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    check_answered(of, bytes(damaged[:cut]))
    check_answered(of, bytes(damaged))
