"""Whatever its schema lets through, a kind has an answer to it: causes, never an exception."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest
from tests.kube.rules.written import (
    MOMENT,
    NOW,
    at_create,
    at_update,
    created,
    definitions,
    kind_of,
    rules_of,
)

from fathom.kube.definitions.definitions import (
    INT_OR_STRING,
    MICRO_TIME,
    QUANTITY,
    TIME,
    Definitions,
    ref_of,
    type_of,
)
from fathom.kube.rules.table import RULES
from fathom.model.errors import ApiError
from fathom.model.objects import Obj

STRINGS = (
    "",
    "a",
    "A b",
    "In",
    "Always",
    "None",
    "10.0.0.1",
    "RollingUpdate",
    "10%",
    "metadata.name",
    "é" * 70,
)
NUMBERS = (0, 1, -1, 80, 70000, 2**31 - 1)
ROUNDS = 60


class Maker:
    """Random objects of a definition, mostly shallow, some fields there and some not."""

    def __init__(self, rng: random.Random, known: Definitions) -> None:
        self._rng = rng
        self._known = known

    def make(self, name: str, depth: int = 0) -> Any:
        if name == QUANTITY:
            return self._rng.choice(["1", "-1", "500m", "1Gi", "1500u", "0"])
        if name in {TIME, MICRO_TIME}:
            return NOW
        if name == INT_OR_STRING:
            return self._rng.choice([*STRINGS, *NUMBERS])
        return self.value(self._known[name], depth)

    def value(self, schema: Any, depth: int) -> Any:
        if ref := ref_of(schema):
            return self.make(ref, depth)
        kind = type_of(schema)
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        if kind == "array":
            count = self._rng.choice([0, 1, 1, 2]) if depth < 12 else 0
            return [self.value(schema["items"], depth + 1) for _ in range(count)]
        if kind == "boolean":
            return self._rng.random() < 0.5
        if kind in {"integer", "number"}:
            return self._rng.choice(NUMBERS)
        return "AA==" if schema.get("format") == "byte" else self._rng.choice(STRINGS)

    def _object(self, schema: Any, depth: int) -> Obj:
        chance = 0.6 if depth < 3 else 0.25 if depth < 8 else 0.05
        properties = schema.get("properties") or {}
        made = {
            field: self.value(inner, depth + 1)
            for field, inner in properties.items()
            if field not in {"kind", "apiVersion"} and self._rng.random() < chance
        }
        if inner := schema.get("additionalProperties"):
            made |= {key: self.value(inner, depth + 1) for key in ("a", "cpu") if self._rng.random() < chance}
        return made


@pytest.mark.parametrize("resource", sorted(RULES))
def test_any_object_of_a_schema_gets_an_answer(resource: str) -> None:
    rng = random.Random(resource)
    maker, rules = Maker(rng, definitions()), rules_of(resource)
    accepted: list[Obj] = []
    kind = kind_of(resource)
    for _ in range(ROUNDS):
        obj = maker.make(kind.definition) if kind.schema is None else maker.value(kind.schema, 0)
        obj["metadata"] = {"name": "x", "uid": "u1", "labels": {"a": "b"}}
        try:
            assert all(cause.message for cause in at_create(resource, obj))
        except ApiError:
            continue  # The decoder's refusal.
        stored = created(resource, obj)
        accepted.append(stored)
        old = rng.choice(accepted)
        assert all(cause.message for cause in at_update(resource, obj, old))
        reported = deepcopy(stored)
        rules.prepare_status(reported, old, MOMENT)
        assert all(cause.message for cause in rules.validate_status(reported, old))
        rules.grace_seconds(stored, None)
        rules.warnings(stored)
        rules.held(stored)
    assert len(accepted) > ROUNDS // 2
