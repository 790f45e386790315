"""Updates of a pod's spec: which fields may change after its creation.

Images, a shorter deadline, more tolerations, fewer scheduling gates, and while gated also where it may run.
Only a binding sets its node.
"""

from __future__ import annotations

from typing import Any

from fathom.kube.rules.compare import difference, same
from fathom.kube.rules.pod.affinity import REQUIRED, check_tolerations
from fathom.model import causes
from fathom.model.body import encode_sorted
from fathom.model.errors import Cause
from fathom.model.mirror import MIRROR
from fathom.model.objects import Obj

_INT32_MAX = 2147483647
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)


def check_pod_update(problems: list[Cause], new: Obj, old: Obj) -> None:
    """`new` and `old` are specs of one pod."""
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            detail = "pod updates may not add or remove containers"
            problems.append(causes.forbidden(f"spec.{field}", detail))
            return
    if not _check_deadline(problems, new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")):
        return
    _check_tolerations(problems, new.get("tolerations") or [], old.get("tolerations") or [])
    _check_gates(problems, new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if new == old:
        return
    rest = _without_updatable(problems, new, old)
    if not same(rest, old):
        detail = f"pod updates may not change fields other than {_UPDATABLE}"
        problems.append(causes.forbidden("spec", f"{detail}\n{difference(rest, old, 'spec')}"))


def _check_deadline(problems: list[Cause], new: int | None, old: int | None) -> bool:
    """Whether further checks make sense."""
    field = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            detail = "must not update from a positive integer to nil value"
            problems.append(causes.invalid(field, None, detail))
        return True
    if not 0 <= new <= _INT32_MAX:
        problems.append(causes.invalid(field, new, f"must be between 0 and {_INT32_MAX}, inclusive"))
        return False
    if old is not None and new > old:
        problems.append(causes.invalid(field, new, "must be less than or equal to previous value"))
        return False
    return True


def _check_tolerations(problems: list[Cause], new: list[Obj], old: list[Obj]) -> None:
    kept = {_without_seconds(toleration) for toleration in new}
    if any(_without_seconds(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        problems.append(causes.forbidden("spec.tolerations", detail))
    elif new != old:
        check_tolerations(problems, new, "spec.tolerations")


def _without_seconds(toleration: Obj) -> bytes:
    """The toleration without its seconds, in a hashable form."""
    return encode_sorted({name: value for name, value in toleration.items() if name != "tolerationSeconds"})


def _check_gates(problems: list[Cause], new: list[Obj], old: list[Obj]) -> None:
    before = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        name = gate.get("name", "")
        if name not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            problems.append(causes.forbidden(f"spec.schedulingGates[{index}].name", detail))


def _without_updatable(problems: list[Cause], new: Obj, old: Obj) -> Obj:
    """The new spec with the old values of updatable fields: any field that still differs must not change."""
    rest = dict(new)
    for field in ("containers", "initContainers"):
        if field in new:
            rest[field] = [
                _with(container, "image", before.get("image"))
                for container, before in zip(new[field], old.get(field) or (), strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        rest = _with(rest, field, old.get(field))
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        rest["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if old.get("schedulingGates"):
        rest = _without_gated(problems, rest, old)
    return rest


def _with(obj: Obj, field: str, value: Any) -> Obj:
    changed = {**obj, field: value}
    if value is None:
        del changed[field]
    return changed


def _without_gated(problems: list[Cause], rest: Obj, old: Obj) -> Obj:
    """A gated pod is not placed yet: its node selection can still be narrowed."""
    selector, before = rest.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        problems.append(causes.invalid("spec.nodeSelector", selector, detail))
    rest = _with(rest, "nodeSelector", old.get("nodeSelector"))
    affinity, old_affinity = rest.get("affinity") or {}, old.get("affinity") or {}
    _check_narrowed(problems, affinity.get("nodeAffinity") or {}, old_affinity.get("nodeAffinity") or {})
    return _with(rest, "affinity", _with(affinity, "nodeAffinity", old_affinity.get("nodeAffinity")))


def _check_narrowed(problems: list[Cause], new: Obj, old: Obj) -> None:
    before = (old.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    after = (new.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    field = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        problems.append(causes.invalid(field, after, detail))
        return
    for index, (term, old_term) in enumerate(zip(after, before, strict=False)):
        if not _only_adds(term, old_term):
            detail = "only additions are allowed (no mutations or deletions)"
            problems.append(causes.invalid(f"{field}[{index}]", term, detail))


def _only_adds(term: Obj, old_term: Obj) -> bool:
    names = ("matchExpressions", "matchFields")
    if not any(old_term.get(name) for name in names):
        return not any(term.get(name) for name in names)
    return all(
        (term.get(name) or [])[: len(old_term.get(name) or ())] == (old_term.get(name) or [])
        for name in names
    )


def check_annotation_update(problems: list[Cause], new: Obj, old: Obj) -> None:
    field = f"metadata.annotations[{MIRROR}]"
    if new.get(MIRROR) == old.get(MIRROR):
        return
    words = "may not remove or update" if MIRROR in old else "may not add"
    problems.append(causes.forbidden(field, f"{words} mirror pod annotation"))
