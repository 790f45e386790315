"""Rules of CertificateSigningRequests: the server sets the requesting user, the spec never changes, and what
was decided about a request stands: its approval or denial, its failure, its certificate."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.model.causes import forbidden
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_REQUESTER = ("username", "uid", "groups", "extra")
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


def approvals(status: Obj) -> list[Obj]:
    """The conditions that only the subresource `approval` may write."""
    return _of_types(status, (APPROVED, DENIED))


def _of_types(status: Obj, types: Iterable[str]) -> list[Obj]:
    return [each for each in status.get("conditions") or () if each.get("type") in types]


class CertificateRequestRules(KindRules):
    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        spec = obj.setdefault("spec", {})
        for field in _REQUESTER:
            spec.pop(field, None)
        user = moment.user
        requester = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
        spec |= {field: value for field, value in requester.items() if value}
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra}

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        obj["spec"] = old["spec"]

    def prepare_status(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        for condition in (obj.get("status") or {}).get("conditions") or ():
            condition.setdefault("lastUpdateTime", moment.now)
            condition.setdefault("lastTransitionTime", moment.now)

    def prepare_approval(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        """Conditions alone: an approver signs nothing."""
        conditions = (obj.get("status") or {}).get("conditions")
        obj["status"] = {**(old.get("status") or {}), "conditions": list(conditions or ())}
        self.prepare_status(obj, old, moment)

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        status, before = obj.get("status") or {}, old.get("status") or {}
        causes = [
            forbidden("status.conditions", f"the condition {type_} may not be removed or changed")
            for type_ in (APPROVED, DENIED, FAILED)
            if (stood := _of_types(before, (type_,))) and _of_types(status, (type_,)) != stood
        ]
        if {each["type"] for each in approvals(status)} == {APPROVED, DENIED}:
            causes.append(forbidden("status.conditions", "a request is approved or denied, not both"))
        certificate = before.get("certificate")
        if certificate and status.get("certificate") != certificate:
            causes.append(forbidden("status.certificate", "may not be changed"))
        return causes
