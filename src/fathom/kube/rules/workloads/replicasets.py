"""Rules of ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from fathom.kube.rules.base import Strategy, WriteMoment
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


class ReplicaSetStrategy(Strategy):
    template = ("spec", "template")

    def default(self, obj: Obj) -> None:
        default_template(obj.setdefault("spec", {}).get("template") or {})

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"replicas": 0}

    def validate_create(self, obj: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        check_counts(found, obj["spec"], ("replicas", "minReadySeconds"), "spec")
        check_selected_template(found, obj["spec"], "ReplicaSet", empty_for="deployment")
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        found = self.validate_create(obj)
        check_fixed(found, obj["spec"], old, "selector")
        return found

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        found: list[Cause] = Causes()
        status = obj.get("status") or {}
        check_counts(found, status, _STATUS_COUNTS, "status")
        check_at_most(
            found, status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"), "replicas"
        )
        check_at_most(found, status, ("availableReplicas",), "readyReplicas")
        return found

    def field(self, obj: Obj, path: str) -> str | None:
        if path == "status.replicas":
            return str((obj.get("status") or {}).get("replicas", 0))
        return None


class ReplicationControllerStrategy(ReplicaSetStrategy):
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
        found: list[Cause] = Causes()
        spec = obj["spec"]
        check_counts(found, spec, ("minReadySeconds", "replicas"), "spec")
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            found.append(causes.required("spec.selector"))
        found += label_causes(selector, "spec.selector")
        if template is None:
            found.append(causes.required("spec.template"))
            return found
        labels = (template.get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            detail = "`selector` does not match template `labels`"
            found.append(causes.invalid("spec.template.metadata.labels", labels, detail))
        check_pod_template(found, template, "spec.template")
        check_kept_running(found, template, "ReplicationController")
        return found

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        return self.validate_create(obj)
