"""Rules of ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.compare import check_fixed
from fathom.kube.rules.metadata import label_causes
from fathom.kube.rules.pod.defaults import default_template
from fathom.kube.rules.pod.spec import check_pod_template
from fathom.kube.rules.workloads.shared import (
    check_at_most,
    check_counts,
    check_kept_running,
    check_selected_template,
)
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata

_STATUS_COUNTS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
)


class ReplicaSetRules(KindRules):
    template = ("spec", "template")

    def default(self, obj: Obj) -> None:
        default_template(obj.setdefault("spec", {}).get("template") or {})

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"replicas": 0}

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        check_counts(problems, obj["spec"], ("replicas", "minReadySeconds"), "spec")
        check_selected_template(problems, obj["spec"], "ReplicaSet", empty_for="deployment")
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        check_fixed(problems, obj["spec"], old, "selector")
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        status = obj.get("status") or {}
        check_counts(problems, status, _STATUS_COUNTS, "status")
        check_at_most(
            problems, status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"), "replicas"
        )
        check_at_most(problems, status, ("availableReplicas",), "readyReplicas")
        return problems

    def field(self, obj: Obj, path: str) -> str | None:
        if path == "status.replicas":
            return str((obj.get("status") or {}).get("replicas", 0))
        return None


class ReplicationControllerRules(ReplicaSetRules):
    """Its selector is a plain map, and may come from the template."""

    def default(self, obj: Obj) -> None:
        super().default(obj)
        spec = obj["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            meta = metadata(obj)
            if not meta.get("labels"):
                meta["labels"] = dict(labels)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj["spec"]
        check_counts(problems, spec, ("minReadySeconds", "replicas"), "spec")
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            problems.append(causes.required("spec.selector"))
        problems += label_causes(selector, "spec.selector")
        if template is None:
            problems.append(causes.required("spec.template"))
            return problems
        labels = (template.get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            detail = "`selector` does not match template `labels`"
            problems.append(causes.invalid("spec.template.metadata.labels", labels, detail))
        check_pod_template(problems, template, "spec.template")
        check_kept_running(problems, template, "ReplicationController")
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        return self.validate_create(obj)
