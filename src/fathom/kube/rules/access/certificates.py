"""Rules of CertificateSigningRequests: the server sets the requesting user, and the spec never changes."""

from __future__ import annotations

from fathom.kube.rules.base import Strategy, WriteMoment
from fathom.model.objects import Obj

_REQUESTER = ("username", "uid", "groups", "extra")


class CertificateRequestStrategy(Strategy):
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
