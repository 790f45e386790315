"""A good object of every kind, from its definition, and any number of objects that are nearly as good."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from tests.api.fuzzing import NAMESPACE, anything, scalars, texts

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
from fathom.kube.definitions.unenforced import ACCEPT, REFUSED
from fathom.model.objects import Obj

# What names an object: with these changed, little else of it would be looked at.
IDENTITY = frozenset({"kind", "apiVersion", "name"})
STEPS_MAX = 12

_NAMED: dict[str, st.SearchStrategy[Any]] = {
    QUANTITY: st.sampled_from(["0", "1", "-1", "100m", "1Gi", "1e3", "", "x", 1, 0.5, "9" * 30]),
    TIME: st.sampled_from(["2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", ""]),
    MICRO_TIME: st.sampled_from(["2024-01-01T00:00:00.000000Z", "0001-01-01T00:00:00Z", ""]),
    INT_OR_STRING: st.sampled_from([0, 1, -1, 80, 65536, "http", "50%", "-1%", "", "x" * 70]),
}
_TYPED: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "boolean": st.booleans(),
    "integer": st.sampled_from([0, 1, -1, 2, 80, 65536, 2**31 - 1, -(2**31), 2**63 - 1]),
    "number": st.sampled_from([0, 1, -1, 0.5, 1e308]),
}


@st.composite
def shaped(draw: st.DrawFn, definitions: Definitions, schema: Schema, depth: int = 3) -> Any:
    """A value of the right types, down to a depth, whose values are seldom right."""
    ref = ref_of(schema)
    if ref in _NAMED:
        return draw(_NAMED[ref])
    schema = definitions.resolve(schema)
    kind = type_of(schema)
    if kind in _TYPED:
        return draw(_TYPED[kind])
    if kind == "array":
        count = draw(st.integers(0, 2)) if depth else 0
        return [draw(shaped(definitions, schema["items"], depth - 1)) for _ in range(count)]
    properties = schema.get("properties")
    if properties and depth:
        fields = draw(st.lists(st.sampled_from(sorted(properties)), max_size=4, unique=True))
        fields += [name for name in schema.get("required", ()) if name not in fields]
        return {name: draw(shaped(definitions, properties[name], depth - 1)) for name in fields}
    inner = schema.get("additionalProperties")
    if inner and depth:
        names = draw(st.lists(texts, max_size=2))
        return {name: draw(shaped(definitions, inner, depth - 1)) for name in names}
    return {}


@st.composite
def bent(draw: st.DrawFn, obj: Any, definitions: Definitions, schema: Schema) -> Any:
    """A copy with some places changed: of another type, odd, gone, doubled, or grown by the definition."""
    changed = deepcopy(obj)
    for _ in range(draw(st.integers(1, 3))):
        draw(_bend(changed, definitions, schema))
    return changed


@st.composite
def _bend(draw: st.DrawFn, here: Any, definitions: Definitions, schema: Schema) -> None:
    """Walk down from the root, at random, and change something in place."""
    anywhere = not draw(st.integers(0, 30))
    for _ in range(STEPS_MAX):
        schema = definitions.resolve(schema)
        inner = _schemas_in(here, schema, anywhere=anywhere)
        if not inner:
            break
        # Containers that are there lead further down; elsewhere something new grows.
        deep = [at for at in inner if _is_filled(here, at)]
        if not deep or not draw(st.integers(0, 3)):
            at = draw(st.sampled_from(list(inner)))
            draw(_change(here, at, definitions, inner[at]))
            return
        at = draw(st.sampled_from(deep))
        here, schema = here[at], inner[at]
    if isinstance(here, list):
        here.append(draw(shaped(definitions, schema.get("items") or {})))
    elif isinstance(here, dict):
        here[draw(texts)] = draw(shaped(definitions, schema.get("additionalProperties") or {}))


def _schemas_in(here: Any, schema: Schema, *, anywhere: bool) -> dict[Any, Schema]:
    """Every place within a value, by field or index, with what belongs there."""
    if isinstance(here, list):
        return dict.fromkeys(range(len(here)), schema.get("items") or {})
    if not isinstance(here, dict):
        return {}
    properties: dict[Any, Schema] = schema.get("properties") or {}
    if not properties:
        return dict.fromkeys(sorted(here), schema.get("additionalProperties") or {})
    return {name: properties[name] for name in sorted(properties) if anywhere or name not in IDENTITY}


def _is_filled(here: Any, at: Any) -> bool:
    value = here[at] if isinstance(here, list) else here.get(at)
    return isinstance(value, dict | list) and bool(value)


@st.composite
def _change(draw: st.DrawFn, here: Any, at: Any, definitions: Definitions, schema: Schema) -> None:
    how = draw(st.integers(0, 19))
    if how < 16:
        here[at] = draw(shaped(definitions, schema))
    elif how == 16:
        here[at] = draw(anything)
    elif how == 17 and isinstance(here, list):
        here.insert(at, deepcopy(here[at]))
    elif isinstance(here, dict):
        here.pop(at, None)
        if how == 18:
            here[draw(texts)] = draw(scalars)


# Good objects

_LEAST: dict[str, Any] = {
    QUANTITY: "1",
    TIME: "2024-01-01T00:00:00Z",
    MICRO_TIME: "2024-01-01T00:00:00.000000Z",
    INT_OR_STRING: 1,
    "boolean": True,
    "integer": 1,
    "number": 1,
}


def minimal(definitions: Definitions, schema: Schema) -> Any:
    """The least that a definition asks for."""
    ref = ref_of(schema)
    if ref in _LEAST:
        return _LEAST[ref]
    schema = definitions.resolve(schema)
    kind = type_of(schema)
    if kind == "string":
        return "eA==" if schema.get("format") == "byte" else "x"
    if kind in _LEAST:
        return _LEAST[kind]
    if kind == "array":
        return [minimal(definitions, schema["items"])]
    properties = schema.get("properties", {})
    return {name: minimal(definitions, properties[name]) for name in schema.get("required", ())}


_LABELS = {"app": "web"}
_POD: Obj = {"containers": [{"name": "c", "image": "busybox"}]}
_TEMPLATE: Obj = {"metadata": {"labels": _LABELS}, "spec": _POD}
_ONCE: Obj = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
_WORKLOAD: Obj = {"spec": {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}}
_ROLE_REF: Obj = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}
_ASKED: Obj = {"verb": "get", "resource": "pods", "namespace": NAMESPACE}

# Anybody's certificate; nothing is signed with its key any more.
_CERTIFICATE = (
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBBDCBq6ADAgECAgEBMAoGCCqGSM49BAMCMAwxCjAIBgNVBAMMAXgwHhcNMjQw\n"
    "MTAxMDAwMDAwWhcNMzQwMTAxMDAwMDAwWjAMMQowCAYDVQQDDAF4MFkwEwYHKoZI\n"
    "zj0CAQYIKoZIzj0DAQcDQgAEiYm3/1LcKYI7bfOfYfvFnblPexf5Q30S7odxRUff\n"
    "TWaXLpJhyYXlNU/3E+ZOwpuaj2yGLBhErXdoSt4LdHIoaTAKBggqhkjOPQQDAgNI\n"
    "ADBFAiB9hKhDpt3kyN02T8PzZdGY5iLLQ/V16kmO7q4SA1EP+QIhAN+0TAt1l5Dl\n"
    "E5B0sct3WRqrhfKvmr4ymcNbQEEy37Jl\n"
    "-----END CERTIFICATE-----\n"
)

# What a definition does not tell of a good object.
_GOOD: dict[str, Obj] = {
    "clustertrustbundles.certificates.k8s.io": {"spec": {"trustBundle": _CERTIFICATE}},
    "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "pods": {"spec": _POD},
    "podtemplates": {"template": _TEMPLATE},
    "replicationcontrollers": {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
    "services": {"spec": {"ports": [{"port": 80}], "selector": _LABELS}},
    "daemonsets.apps": _WORKLOAD,
    "deployments.apps": _WORKLOAD,
    "replicasets.apps": _WORKLOAD,
    "statefulsets.apps": _WORKLOAD,
    "jobs.batch": {"spec": _ONCE},
    "cronjobs.batch": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": _ONCE}}},
    "rolebindings.rbac.authorization.k8s.io": _ROLE_REF,
    "clusterrolebindings.rbac.authorization.k8s.io": _ROLE_REF,
    "events.events.k8s.io": {
        "reportingController": "example.com/x",
        "reportingInstance": "x",
        "action": "Act",
        "reason": "Because",
        "type": "Normal",
        "note": "x",
    },
    "localsubjectaccessreviews.authorization.k8s.io": {"spec": {"user": "j", "resourceAttributes": _ASKED}},
    "subjectaccessreviews.authorization.k8s.io": {"spec": {"user": "j", "resourceAttributes": _ASKED}},
    "selfsubjectaccessreviews.authorization.k8s.io": {"spec": {"resourceAttributes": _ASKED}},
    "selfsubjectrulesreviews.authorization.k8s.io": {"spec": {"namespace": NAMESPACE}},
}


def good(registry: Registry, kind: Kind, name: str) -> Obj:
    """An object that the server takes."""
    if kind.resource == "customresourcedefinitions.apiextensions.k8s.io":
        return definition(name)
    made: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
    schema = registry.definitions[kind.definition]
    made |= minimal(registry.definitions, schema)
    if "spec" in schema["properties"] and "spec" not in made:
        made["spec"] = minimal(registry.definitions, schema["properties"]["spec"])
    meta: Obj = {"name": name, "labels": dict(_LABELS)}
    if any(rule.resource == kind.resource for rule in REFUSED):
        meta["annotations"] = {ACCEPT: "true"}
    return {**made, **deepcopy(_GOOD.get(kind.resource, {})), "metadata": meta}


ANYTHING_GOES: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(name: str, *, schema: Obj | None = None) -> Obj:
    """The CRD of `fuzzlings.NAME.example.com`: a group of its own, so that no two collide."""
    version: Obj = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or ANYTHING_GOES},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"plural": "fuzzlings", "singular": "fuzzling", "kind": "Fuzzling", "listKind": "FuzzlingList"}
    group = f"{name}.example.com"
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"fuzzlings.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
