"""Rules of Ingresses."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.model.objects import Obj, metadata

_CLASS = "kubernetes.io/ingress.class"


class IngressRules(KindRules):
    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"loadBalancer": {}}

    def warnings(self, obj: Obj) -> list[str]:
        if _CLASS not in (metadata(obj).get("annotations") or ()):
            return []
        return [f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]
