"""TenantUse: a pod may name another tenant than its namespace's only if its creator may use that tenant's
quota: the verb `use` on the TenantQuota."""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, Attempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.request import Target
from fathom.model.objects import Key, labels_of
from fathom.model.own.capacity import RESERVATIONS
from fathom.model.own.shape import GROUP, VERSION
from fathom.model.tenancy import TENANT, tenant_of
from fathom.model.view import View


class TenantUse(Plugin):
    name = "TenantUse"
    resources = frozenset({"pods", RESERVATIONS})
    operations = frozenset({CREATE, UPDATE})
    trusted = True

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: Attempt, view: View) -> None:
        named = labels_of(attempt.obj or {}).get(TENANT)
        if not named or named == labels_of(attempt.old or {}).get(TENANT):
            return
        namespace = view.get("namespaces", Key("", attempt.namespace))
        plain = {"metadata": {"namespace": attempt.namespace}}
        if named == tenant_of(plain, namespace.obj if namespace is not None else None):
            return
        wanted = Target(verb="use", path="", group=GROUP, version=VERSION, plural="tenantquotas", name=named)
        if not self._authorizer.authorize(attempt.user, wanted).allowed:
            raise refused(attempt, f'{attempt.user.name} may not use the quota of tenant "{named}"')
