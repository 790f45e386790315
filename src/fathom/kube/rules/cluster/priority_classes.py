"""Rules of PriorityClasses."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.kube.rules.pod.spec import check_preemption_policy
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata
from fathom.model.well_known import USER_PRIORITY_MAX

SYSTEM_PREFIX = "system-"
USER_VALUE_MAX = USER_PRIORITY_MAX
SYSTEM_CLASSES = {
    "system-node-critical": 2 * USER_VALUE_MAX + 1000,
    "system-cluster-critical": 2 * USER_VALUE_MAX,
}


class PriorityClassRules(KindRules):
    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        name, value = metadata(obj).get("name", ""), obj.get("value", 0)
        if name.startswith(SYSTEM_PREFIX):
            if problem := _system_class_problem(name, obj):
                rule = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only"
                problems.append(causes.forbidden("metadata.name", f"{rule}. error: {problem}"))
        elif value > USER_VALUE_MAX:
            detail = f"maximum allowed value of a user defined priority is {USER_VALUE_MAX}"
            problems.append(causes.forbidden("value", detail))
        if "preemptionPolicy" in obj:
            check_preemption_policy(problems, obj["preemptionPolicy"], "preemptionPolicy")
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        if obj.get("value", 0) != old.get("value", 0):
            problems.append(causes.forbidden("value", "may not be changed in an update."))
        policy, before = obj.get("preemptionPolicy"), old.get("preemptionPolicy")
        return problems + causes.unchanged("preemptionPolicy", policy, before)


def _system_class_problem(name: str, obj: Obj) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if obj.get("value", 0) != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
