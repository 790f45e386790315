"""The rules of fathom's own kinds: they call those in the kind's file (`fathom.kinds`)."""

from __future__ import annotations

from fathom.kinds.definition import Rules, Stamp
from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.model.errors import Cause
from fathom.model.objects import Obj


class OwnRules(KindRules):
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.warns = rules.warnings is not None

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        if self.rules.status_at_create is not None:
            obj["status"] = self.rules.status_at_create(obj, _stamp(moment))

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        if self.rules.status_at_update is None:
            return
        status = self.rules.status_at_update(obj, old, _stamp(moment))
        if status is not None:
            obj["status"] = status

    def prepare_status(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        if self.rules.status_at_status_update is not None:
            obj["status"] = self.rules.status_at_status_update(obj, old, _stamp(moment))

    def prepare_approval(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        if self.rules.status_at_approval is None:
            self.prepare_status(obj, old, moment)
        else:
            obj["status"] = self.rules.status_at_approval(obj, old, _stamp(moment))

    def validate_create(self, obj: Obj) -> list[Cause]:
        return [] if self.rules.validate_create is None else self.rules.validate_create(obj)

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        if self.rules.validate_update is None:
            return self.validate_create(obj)
        return self.rules.validate_update(obj, old)

    def warnings(self, obj: Obj) -> list[str]:
        return [] if self.rules.warnings is None else self.rules.warnings(obj)


def _stamp(moment: WriteMoment) -> Stamp:
    return Stamp(moment.user.name, moment.now, moment.user.impersonator)
