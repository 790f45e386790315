"""Validates an object's metadata as kube-apiserver does.

Runs on every write, so the common case is a handful of regular expressions and no string is built unless
something is refused. Values have their schema's types already; null means absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fathom.kube.definitions.kind import Kind
from fathom.model import causes, formats
from fathom.model.errors import CAUSES_MAX, Cause, Causes
from fathom.model.objects import Obj, metadata

NameRule = Callable[[str], list[str]]

ANNOTATIONS_BYTES_MAX = 256 * 1024
# The garbage collector looks up each owner, twice where it is absent. Objects have one, seldom three.
OWNERS_MAX = 1_000
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})

# Kinds whose names are not the usual DNS subdomains.
NAME_RULES: Mapping[str, NameRule] = {
    "namespaces": formats.dns_label,
    "services": formats.dns_1035_label,
    "statefulsets.apps": formats.dns_label,
    "events": formats.path_segment,
    "events.events.k8s.io": formats.path_segment,
    "roles.rbac.authorization.k8s.io": formats.path_segment,
    "rolebindings.rbac.authorization.k8s.io": formats.path_segment,
    "clusterroles.rbac.authorization.k8s.io": formats.path_segment,
    "clusterrolebindings.rbac.authorization.k8s.io": formats.path_segment,
    "poddisruptionbudgets.policy": formats.path_segment,
    "certificatesigningrequests.certificates.k8s.io": formats.path_segment,
    "clustertrustbundles.certificates.k8s.io": formats.path_segment,  # The rules of the kind check the rest.
    "leasecandidates.coordination.k8s.io": formats.config_key,
}

# Built-in groups whose kinds take any well-formed finalizer, such as a definition's own
# `customresourcecleanup.apiextensions.k8s.io`; the other built-ins want a standard or a qualified one.
_ANY_FINALIZER = frozenset(
    {"apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io", "policy"}
)


def create_causes(obj: Obj, kind: Kind) -> list[Cause]:
    """At creation; with generateName, the name has been generated already."""
    meta = metadata(obj)
    problems = name_causes(meta, NAME_RULES.get(kind.resource, formats.dns_subdomain))
    problems += _namespace_causes(meta.get("namespace"), namespaced=kind.namespaced)
    return problems + _content_causes(meta, kind)


def update_causes(obj: Obj, old: Obj, kind: Kind) -> list[Cause]:
    """At an update. The name is not checked again: it cannot have changed."""
    meta, before = metadata(obj), metadata(old)
    problems = _added_finalizers(meta, before) if before.get("deletionTimestamp") else []
    for field in _IMMUTABLE:
        value, old_value = meta.get(field), before.get(field)
        if value != old_value and (value or old_value):
            problems.append(causes.invalid(f"metadata.{field}", value, causes.IMMUTABLE))
    if meta.get("generation") != before.get("generation"):
        problems += _generation_causes(meta.get("generation") or 0, before.get("generation") or 0)
    # Unchanged fields were checked when they were written.
    if all(meta.get(field) == before.get(field) for field in _CONTENT):
        return problems
    return problems + _content_causes(meta, kind)


_CONTENT = ("labels", "annotations", "ownerReferences", "finalizers")


_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def name_causes(meta: Obj, rule: NameRule) -> list[Cause]:
    """Name and generateName under one rule. A prefix may end in a dash, because a suffix follows it."""
    problems: list[Cause] = Causes()
    prefix = meta.get("generateName")
    if prefix:
        masked = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        problems += causes.each("metadata.generateName", prefix, rule(masked))
    name = meta.get("name")
    if not name:
        problems.append(causes.required("metadata.name", "name or generateName is required"))
    elif reasons := rule(name):
        problems += causes.each("metadata.name", name, reasons)
    return problems


def _namespace_causes(namespace: str | None, *, namespaced: bool) -> list[Cause]:
    if not namespaced:
        return [causes.forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [causes.required("metadata.namespace")]
    return causes.each("metadata.namespace", namespace, formats.dns_label(namespace))


def _generation_causes(new: int, old: int) -> list[Cause]:
    problems = causes.not_negative("metadata.generation", new)
    if new < old:
        problems.append(causes.invalid("metadata.generation", new, "must not be decremented"))
    return problems


def _content_causes(meta: Obj, kind: Kind) -> list[Cause]:
    problems: list[Cause] = Causes()
    if labels := meta.get("labels"):
        problems += label_causes(labels, "metadata.labels")
    if annotations := meta.get("annotations"):
        problems += annotation_causes(annotations, "metadata.annotations")
    if owners := meta.get("ownerReferences"):
        problems += _owner_causes(owners)
    if finalizers := meta.get("finalizers"):
        problems += _finalizer_causes(
            finalizers, strict=bool(kind.definition) and kind.group not in _ANY_FINALIZER
        )
    return problems


def label_causes(labels: Mapping[str, str], field: str) -> list[Cause]:
    problems: list[Cause] = Causes()
    for key, value in labels.items():
        if len(problems) > CAUSES_MAX:
            break  # No more are reported.
        if reasons := formats.qualified_name(key):
            problems += causes.each(field, key, reasons)
        if reasons := formats.label_value(value):
            problems += causes.each(field, value, reasons)
    return problems


def annotation_causes(annotations: Mapping[str, str], field: str) -> list[Cause]:
    """Keys are as label keys, with upper case in the prefix too; values are free within a total size."""
    problems: list[Cause] = Causes()
    size = 0
    for key, value in annotations.items():
        size += len(key) + (len(value) if value.isascii() else len(value.encode()))
        if len(problems) <= CAUSES_MAX and (reasons := formats.qualified_name(key.lower())):
            problems += causes.each(field, key, reasons)
    if size > ANNOTATIONS_BYTES_MAX:
        problems.append(causes.too_long(field, ANNOTATIONS_BYTES_MAX))
    return problems


def _owner_causes(owners: list[Obj]) -> list[Cause]:
    problems: list[Cause] = Causes()
    if len(owners) > OWNERS_MAX:
        return [causes.too_many("metadata.ownerReferences", len(owners), OWNERS_MAX)]
    controller = ""
    for index, owner in enumerate(owners):
        if len(problems) > CAUSES_MAX:
            break
        problems += _owner_reference_causes(owner, f"metadata.ownerReferences[{index}]")
        if owner.get("controller"):
            reference = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {reference}"
                )
                problems.append(causes.invalid("metadata.ownerReferences", owners, detail))
            controller = controller or reference
    return problems


def _owner_reference_causes(owner: Obj, field: str) -> list[Cause]:
    problems: list[Cause] = Causes()
    version = owner.get("apiVersion")
    if not version:
        problems.append(causes.required(f"{field}.apiVersion", "must not be empty"))
    elif version.count("/") > 1 or version.endswith("/"):
        detail = "must be <group>/<version> or <version>"
        problems.append(causes.invalid(f"{field}.apiVersion", version, detail))
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            problems.append(causes.required(f"{field}.{name}", "must not be empty"))
    if version == "v1" and owner.get("kind") == "Event":
        problems.append(causes.invalid(field, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return problems


def _finalizer_causes(finalizers: list[str], *, strict: bool) -> list[Cause]:
    problems: list[Cause] = Causes()
    for finalizer in finalizers:
        if len(problems) > CAUSES_MAX:
            break
        if reasons := formats.qualified_name(finalizer):
            problems += causes.each("metadata.finalizers", finalizer, reasons)
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        detail = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        problems.append(causes.invalid("metadata.finalizers", finalizers, detail))
    if strict:
        for index, finalizer in enumerate(finalizers):
            if len(problems) > CAUSES_MAX:
                break
            problems += standard_finalizer_causes(finalizer, f"metadata.finalizers[{index}]")
    return problems


def standard_finalizer_causes(finalizer: str, field: str) -> list[Cause]:
    if "/" in finalizer or finalizer in _STANDARD_FINALIZERS:
        return []
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [causes.invalid(field, finalizer, detail)]


def _added_finalizers(meta: Obj, before: Obj) -> list[Cause]:
    added = sorted({*_finalizers_of(meta)} - {*_finalizers_of(before)})
    if not added:
        return []
    shown = "[]string{" + ", ".join(causes.quoted(finalizer) for finalizer in added) + "}"
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers"
    return [causes.forbidden("metadata.finalizers", f"{detail} {shown}")]


def _finalizers_of(meta: Obj) -> list[Any]:
    return meta.get("finalizers") or []
