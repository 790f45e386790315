"""The rules of Pods."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from fathom.kube.definitions.repeats import SPEC_BYTES_MAX
from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.pod.affinity import merge_label_keys
from fathom.kube.rules.pod.defaults import default_pod
from fathom.kube.rules.pod.pod_resources import with_pod_level
from fathom.kube.rules.pod.spec import check_annotations, check_pod_spec
from fathom.kube.rules.pod.status import check_pod_status, keep_observed, settle_addresses
from fathom.kube.rules.pod.update import check_annotation_update, check_pod_update
from fathom.kube.rules.pod.warnings import annotation_warnings, spec_warnings
from fathom.kube.rules.resources import qos_class
from fathom.model import causes, formats
from fathom.model.body import decode_json, encode_json
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, labels_of, metadata
from fathom.model.pod_phase import TERMINAL_PHASES

WITH_RESOURCES = ("containers", "initContainers")


class PodRules(KindRules):
    repeats = True

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        default_pod(spec)
        if status := obj.get("status"):
            settle_addresses(status)

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        spec = obj["spec"]
        # A pod that admission refuses is never stored: a stored pod was admitted.
        conditions = [_admitted(moment.now)]
        if spec.get("schedulingGates"):
            conditions.append(_gated(moment.now))
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec), "conditions": conditions}
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            merge_label_keys(spec, labels_of(obj))

    def settle_create(self, obj: Obj, draft: Obj) -> Obj:
        spec, before = obj["spec"], draft["spec"]
        if "resources" not in spec and all(spec.get(field) is before.get(field) for field in WITH_RESOURCES):
            return obj
        spec = with_pod_level(spec)
        return {**obj, "spec": spec, "status": {**obj["status"], "qosClass": qos_class(spec)}}

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        before = old.get("spec") or {}
        if "resources" in before and "resources" not in obj["spec"]:
            obj["spec"]["resources"] = before["resources"]  # Left out by a client that does not know it.

    def prepare_status(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        keep_observed(status, before)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems = _spec_causes(obj)
        spec = obj["spec"]
        if annotations := metadata(obj).get("annotations"):
            check_annotations(problems, annotations, spec, "metadata.annotations")
        if spec.get("ephemeralContainers"):
            problems.append(causes.forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            problems.append(causes.forbidden("spec.nodeName", detail))
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        meta, before = metadata(obj), metadata(old)
        new_spec, old_spec = obj["spec"], old.get("spec") or {}
        # An unchanged spec was checked when it was written, perhaps by older rules.
        problems = _spec_causes(obj) if new_spec != old_spec else []
        check_pod_update(problems, new_spec, old_spec)
        annotations, old_annotations = meta.get("annotations") or {}, before.get("annotations") or {}
        if annotations != old_annotations:
            check_annotation_update(problems, annotations, old_annotations)
            check_annotations(problems, annotations, new_spec, "metadata.annotations")
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        check_pod_status(problems, obj, old)
        return problems

    def warnings(self, obj: Obj) -> list[str]:
        meta = metadata(obj)
        annotations = meta.get("annotations")
        warnings = annotation_warnings(annotations) if annotations else []
        warnings += _judged(obj).warnings
        if reasons := formats.dns_label(meta.get("name", "")):
            why = "this is used in the Pod's hostname, which can result in surprising behavior"
            warnings.insert(0, f"metadata.name: {why}; a DNS label is recommended: [{' '.join(reasons)}]")
        return warnings

    def grace_seconds(self, obj: Obj, requested: int | None) -> int:
        spec = obj.get("spec") or {}
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in TERMINAL_PHASES:
            return 0
        wanted = requested if requested is not None else spec.get("terminationGracePeriodSeconds", 0)
        seconds = max(wanted, 0) if wanted >= 0 else 1
        earlier = metadata(obj).get("deletionGracePeriodSeconds")
        return min(seconds, earlier) if earlier is not None else int(seconds)

    def field(self, obj: Obj, path: str) -> str | None:
        if path == "spec.hostNetwork":
            return "true" if (obj.get("spec") or {}).get("hostNetwork") else "false"
        if path == "status.podIPs":
            return ",".join(
                address.get("ip", "") for address in (obj.get("status") or {}).get("podIPs") or ()
            )
        return None


class Judged(msgspec.Struct, frozen=True):
    """The errors and warnings of a spec."""

    causes: tuple[Cause, ...]
    warnings: tuple[str, ...]


def _spec_causes(obj: Obj) -> list[Cause]:
    return list(_judged(obj).causes)


def _judged(obj: Obj) -> Judged:
    """Cached: hundreds of pods come from one template, with equal specs."""
    spec = obj["spec"]
    # The pod's name is part of the names of its ephemeral claims; nothing else depends on it.
    name = metadata(obj).get("name", "") if _has_ephemeral(spec) else ""
    encoded = encode_json(spec)
    return _judged_cached(encoded, name) if len(encoded) <= SPEC_BYTES_MAX else judge_spec(spec, name)


def _has_ephemeral(spec: Obj) -> bool:
    return any("ephemeral" in volume for volume in spec.get("volumes") or ())


@lru_cache(maxsize=512)
def _judged_cached(encoded: bytes, name: str) -> Judged:
    return judge_spec(decode_json(encoded), name)


def judge_spec(spec: Obj, name: str) -> Judged:
    problems: list[Cause] = Causes()
    check_pod_spec(problems, spec, "spec", {"name": name})
    problems += causes.not_negative(
        "spec.terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds")
    )
    if not spec.get("serviceAccountName"):
        _check_no_tokens(problems, spec)
    return Judged(tuple(problems), tuple(spec_warnings(spec)))


def _check_no_tokens(problems: list[Cause], spec: Obj) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                where = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                detail = "must not be specified when serviceAccountName is not set"
                problems.append(causes.forbidden(where, detail))


def _admitted(now: str) -> Obj:
    return {"type": "Admitted", "status": "True", "lastTransitionTime": now}


def _gated(now: str) -> Obj:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": now,
    }
