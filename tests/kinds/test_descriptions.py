"""`kubectl explain` has words for every kind of fathom.dev, and for each of its fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kinds.test_table import named

from fathom.kinds.all import KINDS
from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import Schema

# The API server publishes Kubernetes' own words for these: kube/definitions/openapi.py.
OF_EVERY_OBJECT = {"apiVersion", "kind", "metadata"}


def own_fields(kind: KindDefinition) -> Iterator[tuple[str, Schema]]:
    for name, schema in kind.schema["properties"].items():
        if name not in OF_EVERY_OBJECT:
            yield from with_inner_fields(name, schema)


def with_inner_fields(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The field, and those of its object, of the items of its list, and of the values of its map."""
    yield path, schema
    for inner in (schema, schema.get("items"), schema.get("additionalProperties")):
        for name, field in (inner or {}).get("properties", {}).items():
            yield from with_inner_fields(f"{path}.{name}", field)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_every_field_has_a_description(kind: KindDefinition) -> None:
    assert [path for path, schema in own_fields(kind) if not schema.get("description")] == []


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_description_is_one_line_of_whole_sentences(kind: KindDefinition) -> None:
    texts = {path: schema.get("description", ".") for path, schema in own_fields(kind)}
    texts |= {kind.kind: kind.schema.get("description", "")}
    odd = {
        path: text for path, text in texts.items() if not text.endswith(".") or text != " ".join(text.split())
    }
    assert odd == {}


def test_a_field_without_words_is_found_at_any_depth() -> None:
    silent = {"type": "object", "properties": {"silent": {"type": "string"}}}
    listed, mapped = {"type": "array", "items": silent}, {"type": "object", "additionalProperties": silent}
    outer = {"type": "object", "properties": {"listed": listed, "mapped": mapped, "nested": silent}}
    assert [path for path, _ in with_inner_fields("outer", outer)] == [
        "outer",
        *(f"outer.{name}{inner}" for name in ("listed", "mapped", "nested") for inner in ("", ".silent")),
    ]
