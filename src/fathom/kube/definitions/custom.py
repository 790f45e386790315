"""A user's CustomResourceDefinition: its defaults, its status, and the Kind that it defines.

Validation is in `crd`. Pure functions over the definition's object; the rules call them, and the registry
gets the Kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final

import msgspec

from fathom.kube.definitions.kind import Kind, ScalePaths
from fathom.kube.definitions.schema_formats import FORMATS
from fathom.kube.definitions.schema_rules import levels
from fathom.model.column import Column
from fathom.model.objects import Obj, key_of, lookup

GROUP: Final = "apiextensions.k8s.io"
# Formats that Kubernetes accepts and that have nothing to check.
_UNCHECKED: Final = frozenset({"float", "double", "password"})
_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


def default_crd(crd: Obj) -> None:
    """Fill in the fields that follow from the names, in place."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def kinds_of_crd(crd: Obj) -> tuple[Kind, ...]:
    """The kinds that an accepted definition defines: one for each served version, the preferred first."""
    spec = crd["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: version_order(version["name"]))
    versions = {version["name"] for version in spec["versions"]}
    several = len(versions.union(lookup(crd, "status", "storedVersions") or ())) > 1
    stored_version = f"{spec['group']}/{_stored(spec)['name']}" if several else ""
    return tuple(_kind(spec, version, stored_version, first=version is served[0]) for version in served)


def version_order(name: str) -> tuple[int, int, int, str]:
    """v2 before v1, v1 before v1beta2, that before v1beta1, v1alpha1 after them; then others by name."""
    match = _VERSION.fullmatch(name)
    if match is None:
        return 3, 0, 0, name
    major, level, minor = match.groups()
    return ("", "beta", "alpha").index(level or ""), -int(major), -int(minor or 0), name


def _kind(spec: Obj, version: Obj, stored_version: str, *, first: bool) -> Kind:
    names = spec["names"]
    schema = lookup(version, "schema", "openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    kind = Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("scale", "status") if subresources.get(name) is not None),
        scale=_scale(subresources.get("scale")),
        generation=True,
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ()),
        selectable=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
        schema=schema,
        stored_version=stored_version,
        deprecated=_deprecation(spec, version),
    )
    return kind if first else msgspec.structs.replace(kind, stored_as=kind.resource)


def _deprecation(spec: Obj, version: Obj) -> str:
    if not version.get("deprecated"):
        return ""
    plain = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or plain)


def _stored(spec: Obj) -> Obj:
    version: Obj = next(entry for entry in spec["versions"] if entry.get("storage"))
    return version


def _scale(scale: Obj | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        spec_replicas=scale["specReplicasPath"].lstrip("."),
        status_replicas=scale["statusReplicasPath"].lstrip("."),
        selector=(scale.get("labelSelectorPath") or "").lstrip("."),
    )


def _column(column: Obj) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        path=column["jsonPath"],
        description=column.get("description") or "",
        format=column.get("format") or "",
        priority=column.get("priority") or 0,
    )


def established(crd: Obj, now: str, other_crds: Iterable[Obj] = ()) -> Obj:
    """The status of a valid definition, given the other definitions. Names that another definition of its
    group already has are not accepted, and the kind is then not served."""
    spec, old = crd["spec"], crd.get("status") or {}
    conflict = _conflict(crd, other_crds)
    if conflict is None:
        names_accepted = ("True", "NoConflicts", "no conflicts found")
        is_established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        names_accepted = ("False", *conflict)
        is_established = ("False", "NotAccepted", "not all names are accepted")
        if _is_true(old, "Established"):  # It stays served under its old names.
            is_established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    return {
        **old,
        "conditions": [
            *_other_conditions(old, "NamesAccepted", "Established"),
            _condition(old, "NamesAccepted", names_accepted, now),
            _condition(old, "Established", is_established, now),
        ],
        "acceptedNames": deepcopy(spec["names"])
        if conflict is None
        else old.get("acceptedNames") or _no_names(),
        "storedVersions": list(dict.fromkeys([*(old.get("storedVersions") or ()), _stored(spec)["name"]])),
    }


def _no_names() -> Obj:
    return {"plural": "", "kind": ""}


def _conflict(crd: Obj, other_crds: Iterable[Obj]) -> tuple[str, str] | None:
    """(reason, message) for the last name that is already in use, as kube-apiserver reports it."""
    resources, kinds = _names_in_use(crd, other_crds)
    names = crd["spec"]["names"]
    accepted = lookup(crd, "status", "acceptedNames") or {}
    conflict = None
    for field, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        clashes = [
            name
            for name in _names_in(names, field)
            if name in taken and name not in _names_in(accepted, field)
        ]
        if clashes:
            messages = [f'"{name}" is already in use' for name in clashes]
            conflict = (reason, messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]")
    return conflict


def _names_in(names: Obj, field: str) -> list[str]:
    value = names.get(field) or []
    return value if isinstance(value, list) else [value]


def _names_in_use(crd: Obj, other_crds: Iterable[Obj]) -> tuple[set[str], set[str]]:
    """Names of resources and of kinds that other definitions of the group have."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other_crd in other_crds:
        if key_of(other_crd) == key_of(crd) or lookup(other_crd, "spec", "group") != crd["spec"]["group"]:
            continue
        names = lookup(other_crd, "status", "acceptedNames") or {}
        resources.update(
            name for field in ("plural", "singular", "shortNames") for name in _names_in(names, field)
        )
        kinds.update(name for field in ("kind", "listKind") for name in _names_in(names, field))
    return resources, kinds


def _condition(old: Obj, kind: str, outcome: tuple[str, ...], now: str) -> Obj:
    status, reason, message = outcome
    before = _find_condition(old, kind)
    since = (before.get("lastTransitionTime") or now) if before and before.get("status") == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


def _find_condition(status: Obj, kind: str) -> Obj | None:
    return next(
        (condition for condition in status.get("conditions") or () if condition.get("type") == kind), None
    )


def _other_conditions(status: Obj, *kinds: str) -> list[Any]:
    return [condition for condition in status.get("conditions") or () if condition.get("type") not in kinds]


def _is_true(status: Obj, kind: str) -> bool:
    condition = _find_condition(status, kind)
    return condition is not None and condition.get("status") == "True"


def crd_warnings(crd: Obj) -> list[str]:
    """Features that a definition requests and fathom does not provide."""
    warnings: dict[str, None] = {}
    for at, version in enumerate(lookup(crd, "spec", "versions") or ()):
        schema = lookup(version, "schema", "openAPIV3Schema")
        for path, level in levels(schema or {}, f"spec.versions[{at}].schema.openAPIV3Schema"):
            if level.get("x-kubernetes-validations"):
                no_cel = "fathom does not support CEL validation rules, they are kept but not enforced"
                warnings[f"{path}.x-kubernetes-validations: {no_cel}"] = None
            name = level.get("format")
            if name and name not in FORMATS and name not in _UNCHECKED:
                warnings[f'unrecognized format "{name}"'] = None
    return list(warnings)
