"""Rules of Events, in their stored core/v1 form. Lenient: a refused event is lost information."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata

_LENGTHS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_NAMESPACE_MISMATCH = "does not match event.namespace"


class EventRules(KindRules):
    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        if obj.get("eventTime"):
            _check_new(problems, obj)
        else:
            _check_old(problems, obj)
        return problems

    def field(self, obj: Obj, path: str) -> str | None:
        if path == "source":
            component = (obj.get("source") or {}).get("component")
            return str(component or obj.get("reportingComponent", ""))
        return None


def _namespaces(obj: Obj) -> tuple[str, str]:
    return metadata(obj).get("namespace", ""), (obj.get("involvedObject") or {}).get("namespace", "")


def _check_old(problems: list[Cause], obj: Obj) -> None:
    event_namespace, object_namespace = _namespaces(obj)
    if event_namespace != object_namespace and (object_namespace or event_namespace not in {"", "default"}):
        problems.append(causes.invalid("involvedObject.namespace", object_namespace, _NAMESPACE_MISMATCH))


def _check_new(problems: list[Cause], obj: Obj) -> None:
    """Events with an eventTime must name the reporter and the action."""
    event_namespace, object_namespace = _namespaces(obj)
    if not object_namespace and event_namespace not in {"default", "kube-system"}:
        problems.append(causes.invalid("involvedObject.namespace", object_namespace, _NAMESPACE_MISMATCH))
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        if not obj.get(name):
            problems.append(causes.required(name))
    controller = obj.get("reportingComponent", "")
    problems += causes.each("reportingComponent", controller, formats.qualified_name(controller))
    for name, limit in _LENGTHS.items():
        if len(obj.get(name, "").encode()) > limit:
            problems.append(causes.invalid(name, "", f"can have at most {limit} characters"))
