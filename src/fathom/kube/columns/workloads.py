"""Table columns of workloads: Deployments and similar kinds, Jobs, budgets and autoscalers."""

from __future__ import annotations

from typing import Any

from fathom.kube.columns.texts import (
    NONE,
    UNKNOWN,
    is_true,
    items,
    labels_text,
    listed,
    number,
    part,
    selector_text,
    text,
)
from fathom.kube.columns.times import between, since
from fathom.model.objects import Obj, is_deleting, lookup, metadata

_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))


def _template(obj: Obj) -> Obj:
    for path in _TEMPLATES:
        if template := part(obj, *path):
            return dict(template)
    return {}


def containers(obj: Obj, now_ns: int) -> str:
    return ",".join(text(container, "name") for container in items(_template(obj), "spec", "containers"))


def images(obj: Obj, now_ns: int) -> str:
    return ",".join(text(container, "image") for container in items(_template(obj), "spec", "containers"))


def selector(obj: Obj, now_ns: int) -> str:
    own_selector = lookup(obj, "spec", "selector")
    return selector_text(
        lookup(obj, "spec", "jobTemplate", "spec", "selector") if own_selector is None else own_selector
    )


def template_labels(obj: Obj, now_ns: int) -> str:
    return labels_text(lookup(_template(obj), "metadata", "labels"))


def node_selector(obj: Obj, now_ns: int) -> str:
    return labels_text(lookup(_template(obj), "spec", "nodeSelector"))


def owner(obj: Obj, now_ns: int) -> str:
    for ref in metadata(obj).get("ownerReferences") or ():
        if ref.get("controller"):
            group, slash, _ = text(ref, "apiVersion").rpartition("/")
            kind = text(ref, "kind").lower()
            return f"{kind}.{group}/{text(ref, 'name')}" if slash else f"{kind}/{text(ref, 'name')}"
    return NONE


def replicas_ready(obj: Obj, now_ns: int) -> str:
    return f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"


def updated_replicas(obj: Obj, now_ns: int) -> int:
    return number(obj, "status", "updatedReplicas")


def available_replicas(obj: Obj, now_ns: int) -> int:
    return number(obj, "status", "availableReplicas")


def current_replicas(obj: Obj, now_ns: int) -> int:
    return number(obj, "status", "currentReplicas")


def job_status(job: Obj, now_ns: int) -> str:
    if is_true(job, "Complete"):
        return "Complete"
    if is_true(job, "Failed"):
        return "Failed"
    if is_deleting(job):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(job, kind):
            return kind
    return "Running"


def job_completions(job: Obj, now_ns: int) -> str:
    succeeded, wanted = number(job, "status", "succeeded"), lookup(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = number(job, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: Obj, now_ns: int) -> str:
    start, end = text(job, "status", "startTime"), text(job, "status", "completionTime")
    if not start:
        return ""
    return between(start, end) if end else since(start, now_ns)


def cronjob_suspend(obj: Obj, now_ns: int) -> str:
    return "True" if part(obj, "spec").get("suspend") else "False"


def active_jobs(obj: Obj, now_ns: int) -> int:
    return len(items(obj, "status", "active"))


def last_schedule(obj: Obj, now_ns: int) -> str:
    last = text(obj, "status", "lastScheduleTime")
    return since(last, now_ns) if last else NONE


def hpa_reference(obj: Obj, now_ns: int) -> str:
    return f"{text(obj, 'spec', 'scaleTargetRef', 'kind')}/{text(obj, 'spec', 'scaleTargetRef', 'name')}"


def hpa_targets(obj: Obj, now_ns: int) -> str:
    current = items(obj, "status", "currentMetrics")
    targets = []
    for index, metric in enumerate(items(obj, "spec", "metrics")):
        targets.append(_hpa_target(metric, current[index] if index < len(current) else {}))
    return listed(targets, missing=NONE, limit=2, separator=", ")


def _hpa_target(metric: Obj, status: Obj) -> str:
    kind = text(metric, "type")
    field = kind[:1].lower() + kind[1:]
    target, current = part(metric, field, "target"), part(status, field, "current")
    if kind in {"Resource", "ContainerResource"}:
        name = text(metric, field, "name")
        if "averageValue" in target:
            return f"{name}: {text(current, 'averageValue', missing=UNKNOWN)}/{target['averageValue']}"
        wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
        return f"{name}: {_percent(current.get('averageUtilization'))}/{wanted}"
    if kind == "Pods":
        return f"{text(current, 'averageValue', missing=UNKNOWN)}/{text(target, 'averageValue')}"
    if kind not in {"Object", "External"}:
        return "<unknown type>"
    if "averageValue" in target:
        return f"{text(current, 'averageValue', missing=UNKNOWN)}/{target['averageValue']} (avg)"
    return f"{text(current, 'value', missing=UNKNOWN)}/{text(target, 'value')}"


def _percent(value: Any) -> str:
    return UNKNOWN if value is None else f"{value}%"
