"""Priority: a pod's priority comes from its PriorityClass, never from the pod."""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.kube.rules.cluster.priority_classes import SYSTEM_PREFIX, USER_VALUE_MAX
from fathom.model import causes
from fathom.model.declared import Reads, Writes
from fathom.model.errors import Cause, invalid
from fathom.model.objects import Key, Obj, metadata
from fathom.model.resource_names import PRIORITY_CLASSES
from fathom.model.view import View

PREEMPT_LOWER = "PreemptLowerPriority"

# They exist in every Kubernetes cluster, even before they have been created.
SYSTEM_CLASSES = {
    "system-cluster-critical": 2 * USER_VALUE_MAX,
    "system-node-critical": 2 * USER_VALUE_MAX + 1000,
}


class Priority(Plugin):
    name = "Priority"
    resources = frozenset({"pods", PRIORITY_CLASSES})
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    reads = (Reads("PriorityClass"),)
    writes = (Writes("Pod", ("spec.preemptionPolicy", "spec.priority", "spec.priorityClassName")),)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        if attempt.kind.resource != "pods":
            return attempt.obj
        if attempt.operation == UPDATE:
            return _with_missing_fields(attempt.obj, attempt.old or {})
        return _resolved(attempt, attempt.obj, view)

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.kind.resource != PRIORITY_CLASSES or attempt.obj is None:
            return
        problems = class_causes(attempt.obj, attempt.old)
        if problems:
            kind = attempt.kind
            raise invalid(group=kind.group, kind=kind.kind, name=attempt.name, causes=problems)
        default = default_class(view)
        if attempt.obj.get("globalDefault") and default and metadata(default).get("name") != attempt.name:
            name = metadata(default)["name"]
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise refused(attempt, why)


def _with_missing_fields(pod: Obj, old: Obj) -> Obj:
    """Clients that send back a pod without these fields do not mean to change them."""
    spec, before = pod.get("spec") or {}, old.get("spec") or {}
    missing = {
        field: before[field]
        for field in ("priority", "preemptionPolicy")
        if spec.get(field) is None and before.get(field) is not None
    }
    return {**pod, "spec": {**spec, **missing}} if missing else pod


def _resolved(attempt: WriteAttempt, pod: Obj, view: View) -> Obj:
    spec = pod.get("spec") or {}
    name = spec.get("priorityClassName")
    chosen = find_class(view, name) if name else default_class(view)
    if name and chosen is None:
        raise refused(attempt, f"no PriorityClass with name {name} was found")
    value = int((chosen or {}).get("value") or 0)
    policy = (chosen or {}).get("preemptionPolicy") or PREEMPT_LOWER
    if spec.get("priority") not in {None, value}:
        raise refused(
            attempt,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy") not in {None, "", policy}:
        raise refused(
            attempt,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name",
        )
    changed = {**spec, "priority": value, "preemptionPolicy": policy}
    if chosen and not name:
        changed["priorityClassName"] = metadata(chosen)["name"]
    return {**pod, "spec": changed}


def find_class(view: View, name: str) -> Obj | None:
    seen = view.get(PRIORITY_CLASSES, Key("", name))
    if seen is not None:
        return seen.obj
    return _system_class(name) if name in SYSTEM_CLASSES else None


def _system_class(name: str) -> Obj:
    return {"metadata": {"name": name}, "value": SYSTEM_CLASSES[name], "preemptionPolicy": PREEMPT_LOWER}


def default_class(view: View) -> Obj | None:
    """The class marked as default. Two can only result from a race; then the lower one counts."""
    marked = [seen.obj for seen in view.list(PRIORITY_CLASSES) if seen.obj.get("globalDefault")]
    return min(marked, key=lambda priority_class: int(priority_class.get("value") or 0), default=None)


def class_causes(obj: Obj, old: Obj | None) -> list[Cause]:
    name, value = str(metadata(obj).get("name") or ""), int(obj.get("value") or 0)
    if old is not None:
        return _update_causes(obj, old)
    if name.startswith(SYSTEM_PREFIX):
        why = _unlike_system_class(name, value, bool(obj.get("globalDefault")))
        reserved = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only"
        return [causes.forbidden("metadata.name", f"{reserved}. error: {why}")] if why else []
    if value > USER_VALUE_MAX:
        why = f"maximum allowed value of a user defined priority is {USER_VALUE_MAX}"
        return [causes.forbidden("value", why)]
    return []


def _unlike_system_class(name: str, value: int, default: bool) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def _update_causes(obj: Obj, old: Obj) -> list[Cause]:
    problems = []
    if (obj.get("value") or 0) != (old.get("value") or 0):
        problems.append(causes.forbidden("value", "may not be changed in an update."))
    policy, before = (version.get("preemptionPolicy") or PREEMPT_LOWER for version in (obj, old))
    return problems + causes.unchanged("preemptionPolicy", policy, before)
