"""Rules of Jobs. By default a Job selects its pods by its own uid, which is written into its template."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.compare import check_fixed, same
from fathom.kube.rules.selectors import check_selector, selects
from fathom.kube.rules.workloads.job_spec import check_job_spec, default_job_spec
from fathom.kube.rules.workloads.job_status import check_job_status, is_true
from fathom.kube.rules.workloads.shared import check_template_labels
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata, uid_of

NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_UID_LABEL = "batch.kubernetes.io/controller-uid"
_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


class JobRules(KindRules):
    template = ("spec", "template")

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        default_job_spec(spec)
        meta = metadata(obj)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not meta.get("labels"):
            meta["labels"] = dict(labels)

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {}
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        _check_generated(problems, obj)
        _check_spec(problems, obj["spec"])
        _check_name(problems, obj)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec, before = obj["spec"], old.get("spec") or {}
        _check_spec(problems, spec)
        _check_completions(problems, spec, before)
        check_fixed(problems, spec, old, "selector", *_IMMUTABLE)
        _check_template(problems, spec.get("template") or {}, old)
        _check_name(problems, obj)
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        check_job_status(problems, obj, old)
        return problems

    def warnings(self, obj: Obj) -> list[str]:
        warnings = super().warnings(obj)
        if reasons := formats.dns_label(metadata(obj).get("name", "")):
            why = "this is used in Pod names and hostnames, which can result in surprising behavior"
            warnings.insert(0, f"metadata.name: {why}; a DNS label is recommended: [{' '.join(reasons)}]")
        return warnings

    def field(self, obj: Obj, path: str) -> str | None:
        if path == "status.successful":
            return str((obj.get("status") or {}).get("succeeded", 0))
        return None


def _generate_selector(obj: Obj) -> None:
    """Existing labels stay: if they are wrong, validation refuses them."""
    spec = obj["spec"]
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for key in NAME_LABELS:
        labels.setdefault(key, metadata(obj).get("name", ""))
    for key in UID_LABELS:
        labels.setdefault(key, uid_of(obj))
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(_UID_LABEL, uid_of(obj))


def _check_generated(problems: list[Cause], obj: Obj) -> None:
    spec = obj["spec"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    name, uid = metadata(obj).get("name", ""), uid_of(obj)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    for key, value in expected.items():
        where = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            problems.append(causes.required(where, f"must be '{value}'"))
        elif labels[key] != value:
            problems.append(causes.invalid(where, labels, f"must be '{value}'"))
    if selects(selector, expected) is False:
        problems.append(causes.invalid("spec.selector", selector, "`selector` not auto-generated"))


def _check_spec(problems: list[Cause], spec: Obj) -> None:
    check_job_spec(problems, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        problems.append(causes.required("spec.selector"))
    else:
        check_selector(problems, selector, "spec.selector")
    if selects(selector, {}) is not None:
        check_template_labels(problems, selector, spec.get("template") or {})


def _check_name(problems: list[Cause], obj: Obj) -> None:
    """The pods of an indexed Job have the Job's name and their index as host name."""
    spec, name = obj["spec"], metadata(obj).get("name", "")
    if spec.get("completionMode") != "Indexed" or not spec.get("completions"):
        return
    longest = f"{name}-{spec['completions'] - 1}"
    if formats.dns_label(longest):
        detail = f"will not able to create pod with invalid DNS label: {longest}"
        problems.append(causes.invalid("metadata.name", name, detail))


def _check_completions(problems: list[Cause], spec: Obj, before: Obj) -> None:
    """Immutable, except that an indexed Job may be resized together with its parallelism."""
    new, old = spec.get("completions"), before.get("completions")
    if new == old:
        return
    if spec.get("completionMode") != "Indexed":
        problems.append(causes.invalid("spec.completions", new, causes.IMMUTABLE))
    elif new is not None and spec.get("parallelism") != new:
        detail = "can only be modified in tandem with spec.parallelism"
        problems.append(causes.invalid("spec.completions", new, detail))


def _check_template(problems: list[Cause], template: Obj, old: Obj) -> None:
    before = (old.get("spec") or {}).get("template") or {}
    if template == before:
        return
    if _not_started(old):
        before = _with_scheduling(before, template)
    if not same(template, before):
        problems.append(causes.invalid("spec.template", template, causes.IMMUTABLE))


def _not_started(old: Obj) -> bool:
    status = old.get("status") or {}
    if not (old.get("spec") or {}).get("suspend") or status.get("active"):
        return False
    return not status.get("startTime") or is_true(status.get("conditions"), "Suspended")


def _with_scheduling(before: Obj, template: Obj) -> Obj:
    """The old template with the new one's labels, placement and resources."""
    spec, new_spec = dict(before.get("spec") or {}), template.get("spec") or {}
    for name in _SCHEDULING:
        spec[name] = new_spec.get(name)
    affinity = {**(spec.get("affinity") or {})}
    affinity["nodeAffinity"] = (new_spec.get("affinity") or {}).get("nodeAffinity")
    spec["affinity"] = affinity
    for name in ("containers", "initContainers"):
        spec[name] = _with_resources(spec.get(name) or [], new_spec.get(name) or [])
    meta = {**(before.get("metadata") or {})}
    for name in ("labels", "annotations"):
        meta[name] = (template.get("metadata") or {}).get(name)
    return {**before, "metadata": meta, "spec": spec}


def _with_resources(old: list[Obj], new: list[Obj]) -> list[Obj]:
    if len(old) != len(new):
        return old
    return [
        {**before, "resources": after.get("resources")} if before.get("name") == after.get("name") else before
        for before, after in zip(old, new, strict=True)
    ]
