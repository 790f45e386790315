"""Rules of StatefulSets, DaemonSets, ControllerRevisions and PodTemplates."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.compare import check_fixed
from fathom.kube.rules.pod.defaults import default_template
from fathom.kube.rules.pod.spec import check_pod_template
from fathom.kube.rules.selectors import check_selector, is_empty
from fathom.kube.rules.workloads.shared import (
    check_at_most,
    check_collisions,
    check_counts,
    check_int_or_percent,
    check_kept_running,
    check_template_labels,
    check_up_to_all,
    int_or_percent,
)
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_SET_COUNTS = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)
_DAEMON_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


class StatefulSetRules(KindRules):
    template = ("spec", "template")

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = _ROLLING
            update.setdefault("rollingUpdate", {})
        if update["type"] == _ROLLING and "rollingUpdate" in update:
            update["rollingUpdate"].setdefault("partition", 0)
        default_template(spec.get("template") or {})

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj["spec"]
        policy = spec.get("podManagementPolicy", "OrderedReady")
        if policy not in {"OrderedReady", "Parallel"}:
            detail = "must be 'OrderedReady' or 'Parallel'"
            problems.append(causes.invalid("spec.podManagementPolicy", policy, detail))
        _check_set_update(problems, spec["updateStrategy"])
        _check_retention(problems, spec.get("persistentVolumeClaimRetentionPolicy") or {})
        check_counts(problems, spec, ("replicas", "minReadySeconds"), "spec")
        start = (spec.get("ordinals") or {}).get("start")
        problems += causes.not_negative("spec.ordinals.start", start)
        if service := spec.get("serviceName"):
            problems += causes.each("spec.serviceName", service, formats.dns_label(service))
        _check_set_template(problems, spec)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        names = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")
        check_fixed(problems, obj["spec"], old, *names)
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        status = obj.get("status") or {}
        check_counts(problems, status, _SET_COUNTS, "status")
        within = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        check_at_most(problems, status, within, "replicas")
        check_collisions(problems, status, old.get("status") or {})
        return problems


def _check_set_update(problems: list[Cause], update: Obj) -> None:
    kind, rolling, field = update.get("type", ""), update.get("rollingUpdate"), "spec.updateStrategy"
    if kind == _ON_DELETE:
        if rolling is not None:
            detail = f"only allowed for updateStrategy '{_ROLLING}'"
            problems.append(causes.invalid(f"{field}.rollingUpdate", rolling, detail))
    elif kind != _ROLLING:
        problems.append(causes.invalid(field, update, f"must be '{_ROLLING}' or '{_ON_DELETE}'"))
    elif rolling is not None:
        check_counts(problems, rolling, ("partition",), f"{field}.rollingUpdate")
        unavailable, where = rolling.get("maxUnavailable"), f"{field}.rollingUpdate.maxUnavailable"
        if unavailable is not None:
            check_int_or_percent(problems, unavailable, where)
            if int_or_percent(unavailable) == 0:
                problems.append(causes.invalid(where, unavailable, "cannot be 0"))
            check_up_to_all(problems, unavailable, where)


def _check_retention(problems: list[Cause], policy: Obj) -> None:
    for name in ("whenDeleted", "whenScaled"):
        value = policy.get(name, "Retain")
        if value not in {"Retain", "Delete"}:
            where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            problems.append(causes.not_supported(where, value, ("Retain", "Delete")))


def _check_set_template(problems: list[Cause], spec: Obj) -> None:
    selector = spec.get("selector")
    if selector is None:
        problems.append(causes.required("spec.selector"))
    else:
        check_selector(problems, selector, "spec.selector")
        if is_empty(selector):
            detail = "empty selector is invalid for statefulset"
            problems.append(causes.invalid("spec.selector", selector, detail))
    template = _with_claims(spec.get("template") or {}, spec.get("volumeClaimTemplates") or [])
    if check_template_labels(problems, selector, template):
        check_pod_template(problems, template, "spec.template")
    check_kept_running(problems, template, "StatefulSet")


def _with_claims(template: Obj, claims: list[Obj]) -> Obj:
    """The template as its pods will have it: with a volume for each claim, without hostname and subdomain,
    because each pod gets its own."""
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name != "hostname"}
    spec.pop("subdomain", None)
    names = [(claim.get("metadata") or {}).get("name", "") for claim in claims]
    if names:
        claim_volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        other_volumes = [volume for volume in spec.get("volumes") or () if volume.get("name") not in names]
        spec["volumes"] = claim_volumes + other_volumes
    return {**template, "spec": spec}


class DaemonSetRules(KindRules):
    template = ("spec", "template")

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        update = spec.setdefault("updateStrategy", {"type": _ROLLING})
        if update.get("type") == _ROLLING:
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        default_template(spec.get("template") or {})

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = dict.fromkeys(_DAEMON_COUNTS[:4], 0)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj["spec"]
        selector, template = spec.get("selector"), spec.get("template") or {}
        check_selector(problems, selector, "spec.selector")
        check_template_labels(problems, selector, template)
        if selector is not None and is_empty(selector):
            detail = "empty selector is invalid for daemonset"
            problems.append(causes.invalid("spec.selector", selector, detail))
        check_pod_template(problems, template, "spec.template")
        check_kept_running(problems, template, "DaemonSet")
        check_counts(problems, spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
        _check_daemon_update(problems, spec["updateStrategy"])
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        check_fixed(problems, obj["spec"], old, "selector")
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        status = obj.get("status") or {}
        check_counts(problems, status, _DAEMON_COUNTS, "status")
        check_collisions(problems, status, old.get("status") or {})
        return problems


def _check_daemon_update(problems: list[Cause], update: Obj) -> None:
    kind, field = update.get("type", ""), "spec.updateStrategy"
    if kind == _ON_DELETE:
        return
    if kind != _ROLLING:
        problems.append(causes.not_supported(field, update, (_ROLLING, _ON_DELETE)))
        return
    rolling = update.get("rollingUpdate") or {}
    for name in ("maxUnavailable", "maxSurge"):
        check_int_or_percent(problems, rolling.get(name, 0), f"{field}.rollingUpdate.{name}")
        check_up_to_all(problems, rolling.get(name), f"{field}.rollingUpdate.{name}")
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    if int_or_percent(unavailable) and int_or_percent(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        problems.append(causes.invalid(f"{field}.rollingUpdate.maxSurge", surge, detail))
    elif not int_or_percent(unavailable) and not int_or_percent(surge):
        detail = "cannot be 0 when maxSurge is 0"
        problems.append(causes.required(f"{field}.rollingUpdate.maxUnavailable", detail))


class ControllerRevisionRules(KindRules):
    """A snapshot: only its `revision` may change."""

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems = causes.not_negative("revision", obj.get("revision", 0))
        if not isinstance(obj.get("data"), dict):
            problems.append(causes.required("data", "data is mandatory"))
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = causes.not_negative("revision", obj.get("revision", 0))
        return problems + causes.unchanged("data", obj.get("data"), old.get("data"))


class PodTemplateRules(KindRules):
    def default(self, obj: Obj) -> None:
        default_template(obj.get("template") or {})

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        check_pod_template(problems, obj.get("template") or {}, "template")
        return problems
