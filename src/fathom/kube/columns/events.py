"""Table columns of Events, for both of their APIs (v1 and events.k8s.io/v1)."""

from __future__ import annotations

from fathom.kube.columns.texts import part, text
from fathom.kube.columns.times import since
from fathom.model.objects import Obj


def _involved(event: Obj) -> Obj:
    return dict(part(event, "involvedObject") or part(event, "regarding"))


def _source(event: Obj) -> Obj:
    return dict(part(event, "source") or part(event, "deprecatedSource"))


def event_first_seen(event: Obj, now_ns: int) -> str:
    first = text(event, "firstTimestamp") or text(event, "deprecatedFirstTimestamp")
    return since(first or text(event, "eventTime"), now_ns)


def event_last_seen(event: Obj, now_ns: int) -> str:
    if "series" in event:
        return since(text(event, "series", "lastObservedTime"), now_ns)
    last = text(event, "lastTimestamp") or text(event, "deprecatedLastTimestamp")
    return since(last, now_ns) if last else event_first_seen(event, now_ns)


def event_object(event: Obj, now_ns: int) -> str:
    involved = _involved(event)
    kind, name = text(involved, "kind").lower(), text(involved, "name")
    return f"{kind}/{name}" if name else kind


def event_subobject(event: Obj, now_ns: int) -> str:
    return text(_involved(event), "fieldPath")


def event_source(event: Obj, now_ns: int) -> str:
    controller = text(event, "reportingComponent") or text(event, "reportingController")
    component = text(_source(event), "component") or controller
    host = text(_source(event), "host") or text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


def event_message(event: Obj, now_ns: int) -> str:
    return (text(event, "message") or text(event, "note")).strip()


def event_count(event: Obj, now_ns: int) -> int:
    counted = part(event, "series").get("count") or event.get("count") or event.get("deprecatedCount")
    return int(counted or 1)
