"""Objects on their way into the store: decoded, defaulted, prepared and judged as a request's would be."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fathom.kube.definitions.decode import Decoder
from fathom.kube.definitions.definitions import Definitions
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.registry import Registry
from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.table import rules_for
from fathom.model.errors import Cause
from fathom.model.objects import Key, Obj
from fathom.model.view import Seen, View

NOW = "2024-05-01T12:00:00Z"
REMOVED = "<removed>"
GOLDEN = Path(__file__).parent / "golden"

# What the first words of a message say about its cause.
_REASONS = {
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


class Nothing(View):
    """A cluster without objects."""

    def get(self, resource: str, key: Key) -> Seen | None:
        return None

    def list(self, resource: str, namespace: str | None = None) -> list[Seen]:
        return []

    def revision(self, resource: str) -> int:
        return 1


MOMENT = WriteMoment(now=NOW, view=Nothing())


@cache
def _parts() -> tuple[Registry, Decoder]:
    registry = Registry.builtin()
    for kind in OWN_KINDS:
        registry.add(kind)
    return registry, registry.decoder()


def definitions() -> Definitions:
    return _parts()[0].definitions


def kind_of(resource: str) -> Kind:
    kind = _parts()[0].by_resource(resource)
    assert kind is not None, resource
    return kind


def rules_of(resource: str) -> KindRules:
    return rules_for(resource)


def defaulted(resource: str, obj: Obj) -> Obj:
    kind, decoder = kind_of(resource), _parts()[1]
    whole = {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    read = decoder.decode_obj(kind, deepcopy(whole)).obj
    decoder.apply_defaults(kind, read)
    rules_of(resource).default(read)
    again = deepcopy(read)
    rules_of(resource).default(again)
    assert again == read, "defaulting is idempotent"
    return read


def created(resource: str, obj: Obj) -> Obj:
    """As stored, if it were valid."""
    read = defaulted(resource, obj)
    read.setdefault("metadata", {}).setdefault("uid", "u1")
    if not rules_of(resource).keeps_status_at_create:
        read.pop("status", None)
    rules_of(resource).prepare_create(read, MOMENT)
    return read


def at_create(resource: str, obj: Obj) -> list[Cause]:
    read = created(resource, obj)
    before = deepcopy(read)
    found = rules_of(resource).validate_create(read)
    assert read == before, "validation only looks"
    return found


def updated(resource: str, new: Obj, old: Obj) -> Obj:
    read = defaulted(resource, new)
    if "status" in old:
        read["status"] = deepcopy(old["status"])
    rules_of(resource).prepare_update(read, deepcopy(old), MOMENT)
    return read


def at_update(resource: str, new: Obj, old: Obj) -> list[Cause]:
    """`old` is an object as stored."""
    read, before = updated(resource, new, old), deepcopy(old)
    found = rules_of(resource).validate_update(read, old)
    assert old == before, "what is stored is never changed"
    return found


def at_status(resource: str, status: Obj, old: Obj) -> list[Cause]:
    new = {**deepcopy(old), "status": deepcopy(status)}
    rules_of(resource).prepare_status(new, old, MOMENT)
    return rules_of(resource).validate_status(new, old)


def causes(*expected: tuple[str, str]) -> list[Cause]:
    """From pairs of a field and a message."""
    return [Cause(field, _REASONS[message.partition(":")[0]], message) for field, message in expected]


def changed(obj: Obj, changes: dict[str, Any]) -> Obj:
    """A copy with values set at paths like `spec/ports/0/name`; REMOVED takes a field away."""
    copy = deepcopy(obj)
    for path, value in changes.items():
        *parents, last = path.split("/")
        at: Any = copy
        for step in parents:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        if value == REMOVED:
            del at[last]
        elif isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = deepcopy(value)
    return copy


@cache
def golden(name: str) -> Any:
    """A document, shared: `changed` copies what it is given."""
    return yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())
