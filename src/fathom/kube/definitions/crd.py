"""Validates CustomResourceDefinitions, with kube-apiserver's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fathom.kube.definitions.schema_rules import schema_causes
from fathom.model import causes
from fathom.model.errors import Cause, Causes, TooManyCauses
from fathom.model.formats import dns_1035_label, dns_subdomain
from fathom.model.objects import Obj, lookup, metadata

# Every row of a table evaluates every column.
COLUMNS_MAX: Final = 100

# Groups of the built-in kinds: no definition may add to them. kinds.toml has the same.
BUILTIN_GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SELECTABLE_MAX: Final = 8
VERSIONS_MAX: Final = 32
APPROVED: Final = "api-approved.kubernetes.io"
_APPROVAL_LINK: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def crd_causes(crd: Obj) -> list[Cause]:
    """The errors in a new definition, with its defaults filled in. Raises TooManyCauses: every one of many
    thousand nested schemas may be invalid in several ways."""
    errors: list[Cause] = Causes()
    errors += _each_cause(crd)
    return errors


def is_valid_crd(crd: Obj) -> bool:
    try:
        return next(_each_cause(crd), None) is None
    except TooManyCauses:  # In one default alone.
        return False


def _each_cause(crd: Obj) -> Iterator[Cause]:
    spec = crd.get("spec") or {}
    yield from _name(crd, spec)
    yield from _group(spec)
    yield from _scope(spec)
    yield from _versions(spec)
    yield from _names(spec.get("names") or {}, "spec.names")
    yield from _conversion(spec.get("conversion") or {})
    yield from _preserve(spec)
    yield from _approval(crd, spec)


def crd_update_causes(crd: Obj, old: Obj) -> list[Cause]:
    """The errors in a changed definition. Group and plural never change; scope and kind not once it is
    established."""
    spec, before = crd.get("spec") or {}, old.get("spec") or {}
    errors = crd_causes(crd)
    if _is_established(old):
        errors += causes.unchanged("spec.scope", spec.get("scope"), before.get("scope"))
        errors += causes.unchanged(
            "spec.names.kind", lookup(spec, "names", "kind"), lookup(before, "names", "kind")
        )
    errors += causes.unchanged("spec.group", spec.get("group"), before.get("group"))
    names = {version.get("name") for version in spec.get("versions") or ()}
    for at, stored in enumerate(lookup(old, "status", "storedVersions") or ()):
        if stored not in names:
            why = f"missing from spec.versions: objects may be stored as {stored} until all are written again"
            errors.append(causes.invalid(f"status.storedVersions[{at}]", stored, why))
    errors += causes.unchanged(
        "spec.names.plural", lookup(spec, "names", "plural"), lookup(before, "names", "plural")
    )
    return errors


def _is_established(crd: Obj) -> bool:
    conditions = lookup(crd, "status", "conditions") or ()
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in conditions
    )


def _name(crd: Obj, spec: Obj) -> Iterator[Cause]:
    name = metadata(crd).get("name") or ""
    if name and name != f"{lookup(spec, 'names', 'plural') or ''}.{spec.get('group') or ''}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _group(spec: Obj) -> Iterator[Cause]:
    group = spec.get("group") or ""
    if not group:
        yield causes.required("spec.group")
    elif reasons := dns_subdomain(group):
        yield causes.invalid("spec.group", group, ",".join(reasons))
    elif "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    elif group in BUILTIN_GROUPS:
        yield causes.invalid("spec.group", group, "belongs to the API server itself")


def _scope(spec: Obj) -> Iterator[Cause]:
    scope = spec.get("scope") or ""
    if not scope:
        yield causes.required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        yield causes.not_supported("spec.scope", scope, ("Cluster", "Namespaced"))


def _versions(spec: Obj) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    names = [version.get("name") or "" for version in versions]
    if len(set(names)) != len(names):
        yield causes.invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield causes.invalid(
            "spec.versions", names, "must have exactly one version marked as storage version"
        )
    if len(versions) > VERSIONS_MAX:
        yield causes.too_many("spec.versions", len(versions), VERSIONS_MAX)
    elif versions and not any(version.get("served") for version in versions):
        yield causes.invalid("spec.versions", names, "at least one version must be served")
    for at, version in enumerate(versions[:VERSIONS_MAX]):
        yield from _version(version, f"spec.versions[{at}]")


def _version(version: Obj, path: str) -> Iterator[Cause]:
    name = version.get("name") or ""
    if reasons := dns_1035_label(name):
        yield causes.invalid(f"{path}.name", name, ",".join(reasons))
    yield from _deprecation(version, path)
    schema = lookup(version, "schema", "openAPIV3Schema")
    if schema is None:
        yield causes.required(f"{path}.schema.openAPIV3Schema")
    else:
        yield from schema_causes(schema, f"{path}.schema.openAPIV3Schema")
    yield from _scale_causes(lookup(version, "subresources", "scale"), f"{path}.subresources.scale")
    columns = version.get("additionalPrinterColumns") or ()
    if len(columns) > COLUMNS_MAX:
        yield causes.too_many(f"{path}.additionalPrinterColumns", len(columns), COLUMNS_MAX)
    for at, column in enumerate(columns[:COLUMNS_MAX]):
        yield from _column(column, f"{path}.additionalPrinterColumns[{at}]")
    yield from _selectable(version.get("selectableFields") or [], schema or {}, f"{path}.selectableFields")


def _deprecation(version: Obj, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield causes.invalid(field, warning, "can only be set for deprecated versions")
    elif not warning:
        yield causes.invalid(field, warning, "must not be an empty string")
    elif len(warning) > 256:
        yield causes.invalid(field, warning, "must be <= 256 characters long")
    elif not warning.isprintable():
        yield causes.invalid(field, warning, "must only contain printable UTF-8 characters")


def _json_path(path: str | None, field: str) -> Iterator[Cause]:
    if not path:
        yield causes.required(field)
    elif not path.startswith("."):
        yield causes.invalid(field, path, "must be a simple json path starting with .")


def _scale_causes(scale: Obj | None, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    for name, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value, field = scale.get(name), f"{path}.{name}"
        if name == "labelSelectorPath" and not value:
            continue
        wrong = list(_json_path(value, field))
        yield from wrong
        if not wrong and not str(value).startswith(roots):
            under = "either .spec or .status" if len(roots) > 1 else roots[0].rstrip(".")
            yield causes.invalid(field, value, f"should be a json path under {under}")


def _column(column: Obj, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield causes.required(f"{path}.name")
    kind, allowed_types = column.get("type"), f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        yield causes.required(f"{path}.type", allowed_types)
    elif kind not in COLUMN_TYPES:
        yield causes.invalid(f"{path}.type", kind, allowed_types)
    if column.get("format") and column["format"] not in COLUMN_FORMATS:
        yield causes.invalid(f"{path}.format", column["format"], f"must be one of {','.join(COLUMN_FORMATS)}")
    yield from _json_path(column.get("jsonPath"), f"{path}.JSONPath")


def _selectable(fields: list[Obj], schema: Obj, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for at, selectable_field in enumerate(fields):
        text, field = selectable_field.get("jsonPath") or "", f"{path}[{at}].jsonPath"
        wrong = list(_json_path(text, field))
        yield from wrong
        if wrong:
            continue
        field_schema = _schema_at(schema, text)
        if text.startswith(".metadata"):
            yield causes.invalid(field, text, "must not point to fields in metadata")
        elif field_schema is None:
            yield causes.invalid(field, text, "is an invalid path: does not refer to a valid field")
        elif field_schema.get("type") not in {"boolean", "integer", "string"}:
            why = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield causes.invalid(field, text, why)
        if text in seen:
            yield causes.duplicate(field, text)
        seen.add(text)
    if len(seen) > SELECTABLE_MAX:
        yield causes.too_many(path, len(seen), SELECTABLE_MAX)


def _schema_at(schema: Obj, json_path: str) -> Obj | None:
    level: Any = schema
    for step in json_path.lstrip(".").split("."):
        level = lookup(level, "properties", step)
    return level if isinstance(level, dict) else None


def _names(names: Obj, path: str) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield causes.required(f"{path}.{field}")
    for field in ("plural", "singular"):
        yield from _label(names.get(field), f"{path}.{field}")
    case_prefix = "may have mixed case, but should otherwise match: "
    for field in ("kind", "listKind"):
        yield from _label(names.get(field), f"{path}.{field}", str.lower, case_prefix)
    for field in ("shortNames", "categories"):
        for at, name in enumerate(names.get(field) or ()):
            yield from _label(name, f"{path}.{field}[{at}]", empty=True)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield causes.invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")


def _label(
    name: str | None,
    path: str,
    folded: Callable[[str], str] = str,
    prefix: str = "",
    *,
    empty: bool = False,
) -> Iterator[Cause]:
    reasons = dns_1035_label(folded(name or ""))
    if reasons and (name or empty):
        yield causes.invalid(path, name or "", f"{prefix}{','.join(reasons)}")


def _conversion(conversion: Obj) -> Iterator[Cause]:
    strategy = conversion.get("strategy") or ""
    if not strategy:
        yield causes.required("spec.conversion.strategy")
    elif strategy == "Webhook":
        why = "fathom does not support conversion by webhook"
        yield causes.invalid("spec.conversion.strategy", strategy, why)
    elif strategy != "None":
        yield causes.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif conversion.get("webhook") is not None:
        why = "should not be set when strategy is not set to Webhook"
        yield causes.forbidden("spec.conversion.webhookClientConfig", why)


def _preserve(spec: Obj) -> Iterator[Cause]:
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield causes.invalid("spec.preserveUnknownFields", True, why)


def _approval(crd: Obj, spec: Obj) -> Iterator[Cause]:
    """Kubernetes reserves its own domains for definitions that its community approved."""
    group = spec.get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    approval = (metadata(crd).get("annotations") or {}).get(APPROVED)
    field, message = (
        f"metadata.annotations[{APPROVED}]",
        f'protected groups must have approval annotation "{APPROVED}"',
    )
    if not approval:
        yield causes.required(field, f"{message}, {_APPROVAL_LINK}")
    elif "://" not in approval and not approval.startswith("unapproved"):
        yield causes.invalid(
            field,
            approval,
            f'{message} with either a URL or a reason starting with "unapproved", {_APPROVAL_LINK}',
        )
