"""Requests that are nearly right, made from one seed as fast as the server answers them.

The fuzzers of tests/api find small counterexamples; this one sends very many requests. Same seed, same
requests: a failure names the seed and the number of the request.
"""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

import msgspec
from tests.api.bending import good
from tests.api.fuzzing import (
    JSON_PATCH,
    MERGE_PATCH,
    NAMESPACE,
    NUMBERS,
    SENDABLE,
    STRATEGIC_PATCH,
    TEXTS,
    encoded,
    path_to,
)
from tests.security.growing import base

from fathom.kube.definitions.definitions import (
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    Definitions,
    Schema,
    ref_of,
    type_of,
)
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.model.objects import Obj

NAMES = tuple(f"x{number}" for number in range(6))
# Without these there is nothing left to write to, or nobody who may.
SPARED = ("namespaces", "rbac.authorization.k8s.io", "nodes", "fathom.dev")
REPEATED_MAX = 400
TOKEN = "authorization"

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get")
_SEGMENTS = (
    *("api", "apis", "v1", "namespaces", NAMESPACE, "pods", "apps", "deployments", "status", "scale", "log"),
    *("binding", "configmaps", "x0", "watch", "openapi", "v3", "healthz", "metrics", "version", ".", ".."),
    *("%2e%2e", "%00", "%ff", "%", "%2F", "é", "a;b", "*", "", "x" * 300, "fathom.dev", "v1alpha1"),
)
_PARAMETERS = {
    "labelSelector": ("app=web", "a in (b,c)", "a notin (", "!a", "a>1", "a<b", "a==b,c!=d", "x" * 2000, ","),
    "fieldSelector": (
        "metadata.name=x0",
        "status.phase!=Running",
        "a=b",
        "metadata.name=\\",
        "=",
        "spec.nodeName=",
    ),
    "limit": ("0", "1", "2", "-1", "9" * 30, "x"),
    "continue": ("", "x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4In0"),
    "resourceVersion": ("", "0", "1", "-1", "x"),
    "resourceVersionMatch": ("", "Exact", "NotOlderThan", "x"),
    "dryRun": ("All", "x", ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "fieldManager": ("x", "x" * 200),
    "pretty": ("true", "x"),
    "timeout": ("1s", "-1s", "x", "9" * 30),
    "propagationPolicy": ("Background", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "-1", "x"),
}
_ACCEPTED = (
    *("application/json", "*/*", "text/html", ";;", "a=b=c", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    *("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/yaml"),
)
_MEDIA = (
    *("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/html", ""),
    *(JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, "application/apply-patch+yaml"),
)
_DOCUMENTS = (
    *(b"", b"null", b"[]", b"{}", b"0", b'"x"', b"{", b"\xff\xfe", b"\x00", b"NaN", b"-", b"[" * 5000),
    *(b'{"a":' * 5000, b'{"metadata":1e400}', b'{"a":1,"a":2}', b"&a [*a]", b"a: &a [*a, *a]", b"? a\n: b"),
    *(b"!!python/object:os.system x", b"---\na: 1\n---\nb: 2", b'{"metadata":{"name":"\\ud800"}}'),
    *(b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\xc3\x28"}}', b"k8s\x00\x0a\xff\xff", b"k8s\x00"),
)
_STEPS = (
    *("metadata", "labels", "data", "spec", "containers", "0", "-", "-1", "~0", "name", "finalizers"),
    *("ownerReferences", "status", "uid", "template", "", "x" * 70, "env", "ports"),
)
_NAMED: dict[str, tuple[Any, ...]] = {
    QUANTITY: ("0", "1", "-1", "100m", "1Gi", "1e3", "", "x", 1, 0.5, "9" * 30),
    TIME: ("2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", ""),
    MICRO_TIME: ("2024-01-01T00:00:00.000000Z", "0001-01-01T00:00:00Z", ""),
    INT_OR_STRING: (0, 1, -1, 80, 65536, "http", "50%", "-1%", "", "x" * 70),
}
_INTEGERS = (0, 1, -1, 2, 80, 65536, 2**31 - 1, -(2**31), 2**63 - 1)


class Sent(msgspec.Struct):
    method: str
    path: str
    body: bytes = b""
    query: dict[str, list[str]] = {}
    headers: dict[str, str] = {}

    @property
    def address(self) -> str:
        asked = "&".join(
            f"{quote(name)}={quote(one)}" for name, values in self.query.items() for one in values
        )
        path = quote(self.path, safe="/%;*.")
        return f"{path}?{asked}" if asked else path


class Fuzzer:
    def __init__(self, registry: Registry, seed: int) -> None:
        self._registry = registry
        self._definitions: Definitions = registry.definitions
        self._rng = random.Random(seed)
        kinds = [kind for kind in registry.kinds() if "create" in kind.verbs or kind.virtual]
        # Batches have no good object; usage is a 503 where nobody measures it.
        self._kinds = [
            kind for kind in kinds if kind.kind != "BindingBatch" and kind.group != "metrics.k8s.io"
        ]
        self._good: dict[tuple[str, str, str], bytes] = {}
        self._ways = (
            *((self._create,) * 8),
            *((self._update,) * 3),
            *((self._patch,) * 4),
            *((self._operate,) * 2),
            *((self._report,) * 2),
            *((self._read,) * 3),
            *((self._remove,) * 2),
            self._raw,
            self._anything,
        )

    def request(self) -> Sent:
        kind = self._rng.choice(self._kinds)
        return self._rng.choice(self._ways)(kind)

    # Ways to ask

    def _create(self, kind: Kind) -> Sent:
        return Sent("POST", path_to(kind), encoded(self._bent(kind)), self._query(8))

    def _update(self, kind: Kind) -> Sent:
        obj = self._bent(kind)
        return Sent("PUT", path_to(kind, self._rng.choice(NAMES)), encoded(obj), self._query(8))

    def _patch(self, kind: Kind) -> Sent:
        obj = self._bent(kind)
        for field in ("kind", "apiVersion"):
            if self._rng.random() < 0.7:
                obj.pop(field, None)
        media = self._rng.choice((MERGE_PATCH, STRATEGIC_PATCH))
        return self._patched(kind, encoded(obj), media)

    def _operate(self, kind: Kind) -> Sent:
        operations = [self._operation(kind) for _ in range(self._rng.randrange(5))]
        if self._rng.random() < 0.02:
            operations *= REPEATED_MAX
        return self._patched(kind, encoded(operations), JSON_PATCH)

    def _patched(self, kind: Kind, body: bytes, media: str) -> Sent:
        path = path_to(kind, self._rng.choice(NAMES))
        return Sent("PATCH", path, body, self._query(10), {"content-type": media})

    def _operation(self, kind: Kind) -> Obj:
        rng = self._rng
        made: Obj = {"op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "x"))}
        made["path"] = "".join(f"/{rng.choice(_STEPS)}" for _ in range(rng.randrange(4)))
        if rng.random() < 0.4:
            made["from"] = "".join(f"/{rng.choice(_STEPS)}" for _ in range(rng.randrange(4)))
        if rng.random() < 0.8:
            made["value"] = self._odd(2)
        return made

    def _report(self, kind: Kind) -> Sent:
        rng = self._rng
        if not kind.subresources:
            return self._create(kind)
        path = path_to(kind, rng.choice(NAMES), rng.choice(kind.subresources))
        method = rng.choice(("GET", "PUT", "POST", "PATCH"))
        headers = {"content-type": MERGE_PATCH} if method == "PATCH" else {}
        return Sent(method, path, encoded(self._bent(kind)), {}, headers)

    def _read(self, kind: Kind) -> Sent:
        rng = self._rng
        name = rng.choice(NAMES) if rng.random() < 0.4 else ""
        return Sent("GET", path_to(kind, name), b"", self._query(2), {"accept": rng.choice(_ACCEPTED)})

    def _remove(self, kind: Kind) -> Sent:
        rng = self._rng
        if rng.random() < 0.1:
            return Sent("DELETE", path_to(kind), b"", {**self._query(2), "dryRun": ["All"]})
        options = {"gracePeriodSeconds": 0} if rng.random() < 0.7 else self._odd(2)
        return Sent("DELETE", path_to(kind, rng.choice(NAMES)), encoded(options))

    def _raw(self, kind: Kind) -> Sent:
        rng = self._rng
        body = rng.choice(_DOCUMENTS) if rng.random() < 0.7 else rng.randbytes(rng.randrange(40))
        method, name = rng.choice((("POST", ""), ("PUT", "x0"), ("PATCH", "x0"), ("DELETE", "x1")))
        return Sent(method, path_to(kind, name), body, self._query(4), {"content-type": rng.choice(_MEDIA)})

    def _anything(self, kind: Kind) -> Sent:
        rng = self._rng
        path = "/" + "/".join(rng.choice(_SEGMENTS) for _ in range(rng.randrange(9)))
        headers = {"content-type": rng.choice(_MEDIA), "accept": rng.choice(_ACCEPTED)}
        if rng.random() < 0.2:
            headers[rng.choice(("impersonate-user", "traceparent", "fathom-fence", TOKEN))] = rng.choice(
                SENDABLE
            )
        headers = {name: value.encode(errors="replace").decode("latin-1") for name, value in headers.items()}
        method = rng.choice(_METHODS)
        if method == "DELETE" and any(spared in path for spared in SPARED):
            method = "GET"
        return Sent(method, path, rng.choice(_DOCUMENTS), self._query(2), headers)

    def _query(self, seldom: int) -> dict[str, list[str]]:
        rng = self._rng
        if rng.randrange(seldom):
            return {}
        names = rng.sample(sorted(_PARAMETERS), rng.randrange(1, 4))
        return {name: [rng.choice(_PARAMETERS[name])] for name in names}

    # Objects

    def _bent(self, kind: Kind) -> Obj:
        """A good object with up to three places changed; one in some is left good."""
        name = self._rng.choice(NAMES)
        known = (kind.resource, kind.version, name)
        if known not in self._good:
            make = good if kind.schema is None else base
            self._good[known] = encoded(make(self._registry, kind, name))
        obj: Obj = msgspec.json.decode(self._good[known])
        schema = kind.schema or self._definitions[kind.definition]
        for _ in range(self._rng.choice((0, 1, 1, 2, 3))):
            self._bend(obj, schema)
        return obj

    def _bend(self, here: Any, schema: Schema) -> None:
        rng = self._rng
        for _ in range(12):
            schema = self._definitions.resolve(schema)
            inner = _inner(here, schema)
            if not inner:
                break
            at = rng.choice(list(inner))
            there = here[at] if isinstance(here, list) else here.get(at)
            if isinstance(there, dict | list) and there and rng.random() < 0.75:
                here, schema = there, inner[at]
                continue
            self._change(here, at, inner[at])
            return
        if isinstance(here, list):
            here.append(self._shaped(schema.get("items") or {}, 3))

    def _change(self, here: Any, at: Any, schema: Schema) -> None:
        rng = self._rng
        how = rng.random()
        if at in {"kind", "apiVersion", "name"} and how < 0.9:
            return
        if how < 0.8:
            here[at] = self._shaped(schema, 3)
        elif how < 0.88:
            here[at] = self._odd(2)
        elif how < 0.9 and isinstance(here.get(at) if isinstance(here, dict) else here[at], list):
            here[at] = here[at] * rng.randrange(REPEATED_MAX)
        elif isinstance(here, dict):
            here.pop(at, None)
            if how > 0.95:
                here[rng.choice(TEXTS)] = self._odd(1)

    def _shaped(self, schema: Schema, depth: int) -> Any:
        """A value of the right types, down to a depth, whose values are seldom right."""
        rng, ref = self._rng, ref_of(schema)
        if ref in _NAMED:
            return rng.choice(_NAMED[ref])
        schema = self._definitions.resolve(schema)
        kind = type_of(schema)
        if kind == "string":
            return rng.choice(TEXTS)
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in {"integer", "number"}:
            return rng.choice(_INTEGERS)
        if kind == "array":
            return [
                self._shaped(schema.get("items") or {}, depth - 1)
                for _ in range(rng.randrange(3) if depth else 0)
            ]
        properties = schema.get("properties")
        if properties and depth:
            names = {*rng.sample(sorted(properties), min(3, len(properties))), *schema.get("required", ())}
            return {
                name: self._shaped(properties[name], depth - 1)
                for name in sorted(names)
                if name in properties
            }
        inner = schema.get("additionalProperties")
        if isinstance(inner, dict) and depth:
            return {rng.choice(TEXTS): self._shaped(inner, depth - 1) for _ in range(rng.randrange(3))}
        return {}

    def _odd(self, depth: int) -> Any:
        rng = self._rng
        how = rng.random()
        if depth and how < 0.2:
            return [self._odd(depth - 1) for _ in range(rng.randrange(3))]
        if depth and how < 0.4:
            return {rng.choice(TEXTS): self._odd(depth - 1) for _ in range(rng.randrange(3))}
        return rng.choice((None, True, False, rng.choice(NUMBERS), rng.choice(TEXTS)))


def _inner(here: Any, schema: Schema) -> dict[Any, Schema]:
    """Every place within a value, by field or index, with what belongs there."""
    if isinstance(here, list):
        return dict.fromkeys(range(len(here)), schema.get("items") or {})
    if not isinstance(here, dict):
        return {}
    properties: dict[Any, Schema] = schema.get("properties") or {}
    inner = schema.get("additionalProperties")
    return properties or dict.fromkeys(sorted(here), inner if isinstance(inner, dict) else {})
