"""Whatever is sent, the answer is a Kubernetes answer: never a 500, a traceback or a hang."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.bending import bent, definition, good, shaped
from tests.api.fuzzing import (
    CRDS,
    JSON_PATCH,
    MERGE_PATCH,
    NAMESPACE,
    SENDABLE,
    STRATEGIC_PATCH,
    TABLE,
    World,
    anything,
    encoded,
    path_to,
    texts,
)

from fathom.kube.definitions.definitions import Schema
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.kube.rules.table import RULES
from fathom.model.objects import Obj

pytestmark = pytest.mark.slow

REGISTRY = Registry.builtin()
DEFINITIONS = REGISTRY.definitions
WRITABLE = [kind for kind in REGISTRY.kinds() if "create" in kind.verbs or kind.virtual]
# Kinds with rules of their own come up more often.
WEIGHED = WRITABLE + [kind for kind in WRITABLE if kind.resource in RULES] * 3

EXAMPLES = settings().max_examples  # Of the profile that was chosen: 50, or 1000 in a deep run.


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("fuzz"))
    yield made
    made.still_answers()
    made.close()


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count(1)


def words(text: str) -> list[str]:
    return text.split(" ")


def named(resource: str) -> Kind:
    kind = REGISTRY.by_resource(resource)
    assert kind is not None
    return kind


def schema_of(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}


@pytest.mark.parametrize("kind", WRITABLE, ids=lambda kind: f"{kind.resource}-{kind.version}")
def test_a_good_object_of_every_kind_is_taken(world: World, kind: Kind) -> None:
    """Or the others would be refused for too simple a reason."""
    obj = good(REGISTRY, kind, "good")
    assert world.send("POST", path_to(kind), encoded(obj)).status == 201
    if not kind.virtual:
        assert world.send("GET", path_to(kind), headers=TABLE).status == 200
        assert world.send("DELETE", path_to(kind, obj["metadata"]["name"])).status == 200


# Objects


class Nearly:
    """One kind's good object, and bodies that are nearly it."""

    def __init__(self, data: st.DataObject, kind: Kind, name: str) -> None:
        self._data, self.kind = data, kind
        self.obj = good(REGISTRY, kind, name)
        self.path = path_to(kind, self.obj["metadata"]["name"])

    def good(self) -> bytes:
        return encoded(self.obj)

    def body(self) -> Any:
        return self._data.draw(bent(self.obj, DEFINITIONS, schema_of(self.kind.definition)))

    def body_of(self, subresource: str) -> Any:
        """What the subresource takes, where that is another kind; or the object all the same."""
        listed = REGISTRY.subresources.get(subresource)
        found = DEFINITIONS.name_of(listed.group, listed.version, listed.kind) if listed else ""
        if not found or self._data.draw(st.booleans()):
            return self.body()
        return self._data.draw(shaped(DEFINITIONS, schema_of(found)))


def fuzz_one_object(world: World, name: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(WEIGHED))
    nearly = Nearly(data, kind, name)
    made = world.send("POST", path_to(kind), encoded(nearly.body()))
    if kind.virtual:
        return
    if made.status == 201:
        world.send("DELETE", path_to(kind, quote(made.obj["metadata"]["name"], safe="")))
    if world.send("POST", path_to(kind), nearly.good()).status != 201:
        return
    world.send("PUT", nearly.path, encoded(nearly.body()))
    for media in (MERGE_PATCH, STRATEGIC_PATCH):
        world.patch(nearly.path, nearly.body(), media)
    for subresource in kind.subresources:
        fuzz_subresource(world, nearly, subresource)
    world.send("GET", path_to(kind), headers=TABLE)
    for field in kind.selectable:
        world.send("GET", path_to(kind), query={"fieldSelector": [f"{field}={data.draw(texts)}"]})
    world.send("DELETE", nearly.path, encoded({"gracePeriodSeconds": 0, "propagationPolicy": "Background"}))
    world.still_answers()


def fuzz_subresource(world: World, nearly: Nearly, subresource: str) -> None:
    path = f"{nearly.path}/{subresource}"
    world.send("PUT", path, encoded(nearly.body_of(subresource)))
    world.send("POST", path, encoded(nearly.body_of(subresource)))
    world.patch(path, nearly.body_of(subresource))
    world.send("GET", path, headers=TABLE)


@given(data=st.data())
@settings(max_examples=EXAMPLES * 2)
def test_nearly_good_objects_of_any_kind(world: World, numbers: Iterator[int], data: st.DataObject) -> None:
    fuzz_one_object(world, f"x{next(numbers)}", data)


@pytest.mark.full
@given(data=st.data())
@settings(max_examples=2_500)
@pytest.mark.timeout(3600)
def test_very_many_nearly_good_objects(world: World, numbers: Iterator[int], data: st.DataObject) -> None:
    fuzz_one_object(world, f"y{next(numbers)}", data)


# Requests of any sort

segments = st.sampled_from(
    words(
        "api apis v1 namespaces default pods apps deployments status scale log binding configmaps a watch "
        "openapi v3 healthz metrics version . .. fathom.dev %2e%2e %00 %ff % %zz %2F a%2Fb é a;b a,b *"
    )
) | st.sampled_from(["", "x" * 300, "a b"])
paths = st.lists(segments, max_size=8).map(lambda found: "/" + "/".join(found)) | st.sampled_from(
    [path_to(kind, name) for kind in REGISTRY.kinds() for name in ("", "x")]
)
methods = st.sampled_from(words("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT get é"))
parameters = st.sampled_from(
    words(
        "watch limit continue resourceVersion resourceVersionMatch labelSelector timeout fieldSelector "
        "timeoutSeconds allowWatchBookmarks sendInitialEvents dryRun pretty fieldValidation fieldManager x "
        "propagationPolicy gracePeriodSeconds orphanDependents force includeObject namespace"
    )
)
values = st.sampled_from(
    [*SENDABLE, *words("All Exact NotOlderThan Strict Foreground metadata.name=x 1s -1s !a a>1 a<b 0.5")]
) | st.sampled_from(["a in (b,c)", "a notin (", "a==b,c!=d", "status.phase=Running"])
queries = st.dictionaries(parameters, st.lists(values, min_size=1, max_size=2), max_size=4)
names = st.sampled_from(
    words(
        "accept content-type authorization impersonate-user impersonate-group impersonate-extra-x user-agent "
        "traceparent fathom-fence fathom-decision fathom-actor fathom-bookmark-seconds x"
    )
)
media = st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, "application/apply-patch+yaml"]) | (
    st.sampled_from(
        words(
            "application/json application/yaml */* text/html application/vnd.kubernetes.protobuf ;; a=b=c "
            "application/json;as=Table application/json;as=Table;v=v1;g=meta.k8s.io "
            "application/json;as=PartialObjectMetadataList;v=v1 application/json;charset=utf-16 "
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        )
    )
)
header_texts = media | texts.map(lambda text: text.encode(errors="replace").decode("latin-1"))
headers = st.dictionaries(names, header_texts, max_size=3)
documents = (
    st.sampled_from(
        (
            *(
                b"",
                b" ",
                b"null",
                b"[]",
                b"{}",
                b"0",
                b'"x"',
                b"{",
                b'{"a"',
                b"\xff\xfe",
                b"\x00",
                b"NaN",
                b"-",
            ),
            *(b"[" * 100_000, b'{"a":' * 100_000, b'{"metadata":1e400}', b'{"a":1,"a":2}', b"&a [*a]"),
            *(b"a: &a [*a, *a]", b"? a\n: b", b"- - - -", b"!!python/object:os.system x", b"a: b: c"),
            *(b"%YAML 9.9\n---\na", b"---\na: 1\n---\nb: 2", b"\t", b'{"metadata":{"name":"\\ud800"}}'),
            *(b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\xc3\x28"}}', b"k8s\x00\x0a\xff\xff"),
        )
    )
    | anything.map(encoded)
    | st.binary(max_size=30)
)


class Sent(msgspec.Struct):
    method: str
    path: str
    body: bytes
    query: dict[str, list[str]]
    headers: dict[str, str]

    def to(self, world: World) -> None:
        world.send(self.method, self.path, self.body, query=self.query, headers=self.headers)


@given(st.builds(Sent, methods, paths, documents, queries, headers))
@settings(max_examples=EXAMPLES * 5)
def test_any_request(world: World, sent: Sent) -> None:
    sent.to(world)


@given(
    st.builds(
        Sent,
        st.just("POST"),
        st.sampled_from([path_to(kind) for kind in WEIGHED]),
        documents,
        queries,
        st.fixed_dictionaries({"content-type": media}),
    )
)
@settings(max_examples=EXAMPLES * 3)
def test_any_body(world: World, sent: Sent) -> None:
    sent.to(world)
    sent.path += "/nothing-of-this-name"
    for sent.method in ("PUT", "PATCH", "DELETE"):
        sent.to(world)


# Lists and watches


def token(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


tokens = (
    st.sampled_from(SENDABLE)
    | st.binary(max_size=20).map(token)
    | anything.map(lambda value: token(encoded(value)))
    | st.fixed_dictionaries(
        {},
        optional={"v": st.just("meta.k8s.io/v1") | texts, "rv": st.integers() | texts, "start": texts},
    ).map(lambda value: token(encoded(value)))
)
selectors = st.lists(
    st.sampled_from(
        [*words("a = == != ! ( ) , in notin > < 1 x.y/z é metadata.name status.phase"), " ", "\0"]
    ),
    max_size=8,
).map("".join)
lists = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": selectors,
        "fieldSelector": selectors,
        "continue": tokens,
        "limit": st.sampled_from(["0", "1", "2", "-1", "9" * 18, "9" * 30, "x", ""]),
        # Not one of the future: that is waited for, and then a 504 is right.
        "resourceVersion": st.sampled_from(["", "0", "1", "2", "00", "-1", "+1", "1_0", "٣", "9" * 30, "x"]),
        "resourceVersionMatch": st.sampled_from(["", "Exact", "NotOlderThan", "x"]),
        "watch": st.sampled_from(["true", "1", "0", "x"]),
        "timeoutSeconds": st.sampled_from(["0", "1", "-1", "x", "9" * 30]),
        "allowWatchBookmarks": st.just("true"),
        "sendInitialEvents": st.sampled_from(["true", "false", "x"]),
    },
)


@given(st.sampled_from(REGISTRY.kinds()), lists, media)
@settings(max_examples=EXAMPLES * 4)
def test_any_list(world: World, kind: Kind, asked: dict[str, str], accept: str) -> None:
    query = {name: [value] for name, value in asked.items()}
    world.send("GET", path_to(kind), query=query, headers={"accept": accept})
    world.send("DELETE", path_to(kind), query={**query, "dryRun": ["All"]})


# Patches

pointers = st.lists(
    st.sampled_from(
        words(
            "metadata labels data spec containers 0 - -1 01 ~0 ~2 ~ name finalizers ownerReferences status "
            "uid resourceVersion"
        )
    )
    | st.sampled_from(["", "x" * 70]),
    max_size=4,
).map(lambda steps: "".join(f"/{step}" for step in steps))
operations = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", 1]),
        "path": pointers | anything,
        "from": pointers,
        "value": anything,
    },
)
directives = st.sampled_from(
    ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"]
)


@given(st.sampled_from(["pods", "configmaps", "deployments.apps"]), st.data())
@settings(max_examples=EXAMPLES * 3)
def test_any_patch(world: World, numbers: Iterator[int], of: str, data: st.DataObject) -> None:
    nearly = Nearly(data, named(of), f"p{next(numbers)}")
    assert world.send("POST", path_to(nearly.kind), nearly.good()).status == 201
    world.patch(nearly.path, data.draw(st.lists(operations, max_size=4)), JSON_PATCH)
    world.patch(nearly.path, data.draw(anything))
    merged = nearly.body()
    for directive in data.draw(st.lists(directives, max_size=2)):
        place = data.draw(st.sampled_from([merged, merged.get("metadata"), merged.get("spec")]))
        if isinstance(place, dict):
            place[directive] = data.draw(anything | st.sampled_from(["replace", "delete", "merge"]))
    world.patch(nearly.path, merged, STRATEGIC_PATCH)
    wrong = {"uid": data.draw(texts), "resourceVersion": data.draw(texts)}
    world.send("DELETE", nearly.path, encoded({"preconditions": wrong}))
    world.send("DELETE", nearly.path, encoded({"gracePeriodSeconds": 0}))


# Custom kinds

CRD = named("customresourcedefinitions.apiextensions.k8s.io")
SCHEMA = schema_of("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
SIZED: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 1},
                "names": {"type": "array", "items": {"type": "string", "pattern": "^x"}, "maxItems": 3},
                "free": {"x-kubernetes-int-or-string": True},
            },
            "x-kubernetes-validations": [{"rule": "self.size > 0"}],
        }
    },
}


@given(data=st.data())
@settings(max_examples=min(EXAMPLES * 2, 1000))
def test_any_custom_kind(world: World, numbers: Iterator[int], data: st.DataObject) -> None:
    schema = data.draw(st.none() | bent(SIZED, DEFINITIONS, SCHEMA))
    crd = definition(f"c{next(numbers)}", schema=schema)
    if data.draw(st.booleans()):
        crd = data.draw(bent(crd, DEFINITIONS, schema_of(CRD.definition)))
    made = world.send("POST", CRDS, encoded(crd))
    if made.status != 201:
        return
    fuzz_custom_objects(world, made.obj["spec"], data)
    one = f"{CRDS}/{made.obj['metadata']['name']}"
    changed = data.draw(bent(made.obj, DEFINITIONS, schema_of(CRD.definition)))
    world.send("PUT", one, encoded(changed))
    world.send("PUT", f"{one}/status", encoded(changed))
    fuzz_custom_objects(world, made.obj["spec"], data)
    world.send("DELETE", one)
    world.still_answers()


def fuzz_custom_objects(world: World, spec: Obj, data: st.DataObject) -> None:
    version = f"{spec['group']}/{spec['versions'][0]['name']}"
    inside = f"/namespaces/{NAMESPACE}" if spec["scope"] == "Namespaced" else ""
    where = f"/apis/{version}{inside}/{spec['names']['plural']}"
    head = {"kind": spec["names"]["kind"], "apiVersion": version}
    odd = {"spec": data.draw(anything), "status": data.draw(anything)}
    world.send("POST", where, encoded({**head, "metadata": {"name": "x"}, **odd}))
    world.send("POST", where, encoded({**head, "metadata": {"name": "y"}, "spec": {"size": 1}}))
    world.patch(f"{where}/y", {"spec": data.draw(anything)})
    world.patch(f"{where}/y/status", {"status": data.draw(anything)})
    world.send("PUT", f"{where}/y/scale", encoded({"spec": {"replicas": data.draw(anything)}}))
    world.send("GET", f"{where}/x/scale")
    world.send("GET", where, headers=TABLE)
    world.send("GET", f"/openapi/v3/apis/{version}")


# What was found once

ONCE_BROKEN = {
    "fewer than no pods": ("replicationcontrollers", "status", {"status": {"replicas": -1}}),
    "fewer than no ready pods": ("deployments.apps", "status", {"status": {"readyReplicas": -1}}),
}


@pytest.mark.parametrize(("of", "subresource", "change"), ONCE_BROKEN.values(), ids=ONCE_BROKEN.keys())
def test_what_once_broke_is_refused(world: World, of: str, subresource: str, change: Obj) -> None:
    kind = named(of)
    world.send("POST", path_to(kind), encoded(good(REGISTRY, kind, "broken")))
    assert world.patch(path_to(kind, "broken", subresource), change).status == 422
    world.send("DELETE", path_to(kind, "broken"))


@pytest.mark.parametrize("spec", [["a"], "text", 7, True])
def test_what_has_no_place_for_replicas_cannot_be_scaled(
    world: World, numbers: Iterator[int], spec: object
) -> None:
    group = f"s{next(numbers)}"
    world.send("POST", CRDS, encoded(definition(group)))
    where = f"/apis/{group}.example.com/v1/namespaces/{NAMESPACE}/fuzzlings"
    head = {"kind": "Fuzzling", "apiVersion": f"{group}.example.com/v1"}
    assert world.send("POST", where, encoded({**head, "metadata": {"name": "a"}, "spec": spec})).status == 201
    refused = world.send("PUT", f"{where}/a/scale", encoded({"spec": {"replicas": 2}}))
    assert (refused.status, refused.obj["details"]["causes"][0]["field"]) == (422, "spec")
    assert world.send("GET", f"{where}/a/scale").obj["spec"] == {}


def test_the_server_still_answers_after_all_that(world: World) -> None:
    world.still_answers()
