"""Which objects a list, watch or deletecollection selects: namespace, labels, fields."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fathom.api.core import Call, Core
from fathom.api.resource_cache import ResourceCache
from fathom.api.watch_events import node_trigger
from fathom.kube.definitions.kind import Kind
from fathom.kube.rules.base import KindRules
from fathom.model.errors import ApiError, bad_request
from fathom.model.objects import Obj, labels_of, lookup, metadata
from fathom.model.selectors import FieldSelector, LabelSelector, parse_field_selector, parse_label_selector

Matches = Callable[[Obj], bool]

ALWAYS_SELECTABLE = ("metadata.name", "metadata.namespace")


class Selection(msgspec.Struct, frozen=True):
    namespace: str | None  # None means all.
    matches: Matches | None  # None means everything in the namespace.
    name: str = ""  # Set if a field selector selects one object by name.
    node: str = ""  # Set if it selects the objects on one node.

    @property
    def trigger(self) -> str:
        """The trigger of the events that may concern a watch of this selection."""
        return node_trigger(self.node) if self.node else self.namespace or ""

    def keys(self, cache: ResourceCache) -> list[str]:
        """The sorted keys of the candidates."""
        return cache.keys_on(self.node, self.namespace) if self.node else cache.keys(self.namespace)


def choice_of(core: Core, call: Call) -> Selection:
    labels = _labels(call)
    fields = _fields(call)
    namespace = (call.namespace or None) if call.kind.namespaced else None
    matches = _predicate(call.kind, core.rules(call.kind), labels, fields)
    return Selection(namespace=namespace, matches=matches, name=_name(fields), node=_node(call, fields))


def _labels(call: Call) -> LabelSelector | None:
    text = call.request.param("labelSelector")
    try:
        return parse_label_selector(text) if text else None
    except ValueError as error:
        raise bad_request(str(error)) from None


def _fields(call: Call) -> FieldSelector | None:
    text = call.request.param("fieldSelector")
    if call.target.name and call.target.verb in {"watch", "list"}:
        text = f"{text},metadata.name={call.target.name}" if text else f"metadata.name={call.target.name}"
    if not text:
        return None
    try:
        selector = parse_field_selector(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
    for requirement in selector.requirements:
        if requirement.path not in ALWAYS_SELECTABLE and requirement.path not in call.kind.selectable:
            raise _unknown_field(call.kind, requirement.path)
    return selector


def _unknown_field(kind: Kind, path: str) -> ApiError:
    """In kube-apiserver's words, which differ for kinds with field selectors of their own."""
    if kind.resource == "jobs.batch":
        return bad_request(f'field label "{path}" not supported for Job')
    if kind.selectable or kind.schema is not None:
        return bad_request(f"field label not supported: {path}")
    known = ", ".join(f'"{name}"' for name in ALWAYS_SELECTABLE)
    return bad_request(f'"{path}" is not a known field selector: only {known}')


def _name(fields: FieldSelector | None) -> str:
    for requirement in fields.requirements if fields else ():
        if requirement.path == "metadata.name" and requirement.equal:
            return requirement.value
    return ""


def _node(call: Call, fields: FieldSelector | None) -> str:
    if fields is None or call.kind.resource != "pods":
        return ""
    return fields.exact("spec.nodeName") or ""


def _predicate(
    kind: Kind, rules: KindRules, labels: LabelSelector | None, fields: FieldSelector | None
) -> Matches | None:
    if labels is None and fields is None:
        return None

    def matches(obj: Obj) -> bool:
        if labels is not None and not labels.matches(labels_of(obj)):
            return False
        return fields is None or fields.matches(lambda path: field_value(rules, obj, path))

    return matches


def field_value(rules: KindRules, obj: Obj, path: str) -> str:
    """A field as selectors compare it: text, '' if it is not set."""
    special = rules.field(obj, path)
    if special is not None:
        return special
    meta = metadata(obj)
    if path == "metadata.name":
        return str(meta.get("name", ""))
    if path == "metadata.namespace":
        return str(meta.get("namespace", ""))
    value = lookup(obj, *path.split("."))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
