"""TenantUse: charging another tenant's account requires the verb `use` on that tenant's TenantQuota.

That applies to the creator of a pod or a reservation, to the writer of a template from which the controllers
create pods, and to the writer of a namespace's tenant label.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.request import RequestTarget
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.reservation import RESERVATIONS
from fathom.kinds.shape import GROUP, VERSION
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.kube.definitions.kind import Kind
from fathom.kube.rules.table import rules_for
from fathom.model.declared import Reads
from fathom.model.objects import Key, Obj, labels_of, lookup
from fathom.model.tenancy import TENANT, tenant_of
from fathom.model.view import View

NAMESPACES = "namespaces"
HOLDERS = frozenset({"pods", RESERVATIONS})


class TenantUse(Plugin):
    name = "TenantUse"
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    reads = (
        Reads("Namespace", ("metadata.labels",)),
        Reads("TenantQuota", ("metadata",)),
        Reads("CapacityClass", ("spec",)),
    )

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        if not super().concerns(kind, operation, subresource):
            return False
        return kind.resource in HOLDERS or kind.resource == NAMESPACES or bool(_template(kind))

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        for tenant in _tenants(attempt, view):
            wanted = RequestTarget(
                verb="use", path="", group=GROUP, version=VERSION, plural="tenantquotas", name=tenant
            )
            if not self._authorizer.authorize(attempt.user, wanted).allowed:
                raise refused(attempt, f'{attempt.user.name} may not use the quota of tenant "{tenant}"')


def _template(kind: Kind) -> tuple[str, ...]:
    return rules_for(kind.resource).template


def _tenants(attempt: WriteAttempt, view: View) -> Iterator[str]:
    """The tenants whose quotas the writer must be allowed to use for this change."""
    obj, old = attempt.obj or {}, attempt.old or {}
    if attempt.kind.resource == NAMESPACES:
        yield from _of_namespace(attempt, obj, old, view)
        return
    path = _template(attempt.kind)
    new, before = (lookup(obj, *path) or {}, lookup(old, *path) or {}) if path else (obj, old)
    named = labels_of(new).get(TENANT)
    if not named or named == labels_of(before).get(TENANT):
        return
    namespace = view.get(NAMESPACES, Key("", attempt.namespace))
    plain = {"metadata": {"namespace": attempt.namespace}}
    if named != tenant_of(plain, namespace.obj if namespace is not None else None):
        yield named


def _of_namespace(attempt: WriteAttempt, obj: Obj, old: Obj, view: View) -> Iterator[str]:
    """Moving a namespace into a tenant and out of one both need permission: leaving a tenant also leaves its
    limits. A namespace without a label is its own tenant; if a tenant of that name has limits or reserved
    capacity already, the namespace belongs to that tenant."""
    into, out_of = (labels_of(namespace).get(TENANT) or attempt.name for namespace in (obj, old))
    if attempt.operation == CREATE:
        if into != attempt.name or _has_something(into, view):
            yield into
    elif into != out_of:
        yield from (
            tenant for tenant in (into, out_of) if tenant != attempt.name or _has_something(tenant, view)
        )


def _has_something(tenant: str, view: View) -> bool:
    """Whether the tenant has limits of its own, or a share in reserved capacity."""
    if view.get(TENANT_QUOTAS, Key("", tenant)) is not None:
        return True
    classes = (seen.obj for seen in view.list(CAPACITY_CLASSES))
    return any(tenant in (lookup(capacity_class, "spec", "tenants") or ()) for capacity_class in classes)
