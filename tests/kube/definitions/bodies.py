"""Bodies for the suites: ordinary ones, and any that a definition allows or nearly allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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

POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "example.com/web:1",
                "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "readinessProbe": {"httpGet": {"port": "http"}},
            }
        ],
        "volumes": [{"name": "c", "configMap": {"name": "c"}}],
    },
}

WIDGETS: dict[str, Any] = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "default": 1},
                                    "colour": {"type": "string", "enum": ["red", "blue"]},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
                ],
                "selectableFields": [{"jsonPath": ".spec.colour"}],
            }
        ],
    },
}

texts = st.text(max_size=8)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
quantities = (
    st.sampled_from(["1", "100m", "1500m", "0.5", "1Gi", "1024Mi", "1e3", "+1", "x", ""]) | st.integers()
)
times = st.sampled_from(
    [
        "2024-01-01T00:00:00Z",
        "2024-02-29T12:00:00.25+02:00",
        "2024-01-01T00:00:00.123456Z",
        "2023-02-29T00:00:00Z",
        "",
    ]
)
scalars: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "boolean": st.booleans(),
    "integer": st.integers(min_value=-(2**31), max_value=2**31 - 1) | st.sampled_from([2**31, 2**63, 2**64]),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
}
named: dict[str, st.SearchStrategy[Any]] = {
    QUANTITY: quantities,
    TIME: times,
    MICRO_TIME: times,
    INT_OR_STRING: st.integers(min_value=-1, max_value=9) | texts,
}


@st.composite
def bodies(draw: st.DrawFn, definitions: Definitions, schema: Schema, depth: int = 6) -> Any:
    """A value that mostly follows a definition; now and then a field is unknown, null, or of another type."""
    odd = draw(st.integers(min_value=0, max_value=60))
    if odd == 0:
        return draw(anything)
    if odd == 1:
        return None
    ref = ref_of(schema)
    if ref in named:
        return draw(named[ref])
    schema = definitions.resolve(schema)
    kind = type_of(schema)
    if kind in scalars:
        return draw(scalars[kind])
    if kind == "array":
        count = draw(st.integers(min_value=0, max_value=2)) if depth else 0
        return [draw(bodies(definitions, schema["items"], depth - 1)) for _ in range(count)]
    if schema.get("properties") and depth:
        fields = draw(st.lists(st.sampled_from(sorted(schema["properties"])), max_size=5, unique=True))
        made = {name: draw(bodies(definitions, schema["properties"][name], depth - 1)) for name in fields}
        return {**made, "unheardOf": 1} if odd == 2 else made
    inner = schema.get("additionalProperties")
    if inner and depth:
        return {
            name: draw(bodies(definitions, inner, depth - 1)) for name in draw(st.lists(texts, max_size=2))
        }
    return {}
