"""Rules of a Job's status: a finished Job stays finished, and its status is consistent."""

from __future__ import annotations

from fathom.kube.rules.workloads.shared import check_counts
from fathom.model import causes
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL = ("Failed", "Complete", "FailureTarget")


def is_true(conditions: list[Obj] | None, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True" for condition in conditions or ()
    )


def check_job_status(problems: list[Cause], obj: Obj, old: Obj) -> None:
    """`obj` and `old` are whole Jobs. A field is checked only where it changed, so that an inconsistent
    status can be repaired."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    check_counts(problems, status, _COUNTS, "status")
    _check_conditions(problems, status.get("conditions") or [], before.get("conditions") or [])
    _check_finish(problems, status, before)
    _check_times(problems, obj, before)
    for name in ("failed", "succeeded"):
        if status.get(name, 0) < before.get(name, 0):
            detail = f"cannot decrease the {name} counter"
            problems.append(causes.invalid(f"status.{name}", status.get(name, 0), detail))


def _check_conditions(problems: list[Cause], new: list[Obj], old: list[Obj]) -> None:
    def refuse(detail: str) -> None:
        problems.append(causes.invalid("status.conditions", causes.OMITTED, detail))

    complete, failed = is_true(new, "Complete"), is_true(new, "Failed")
    met, target = is_true(new, "SuccessCriteriaMet"), is_true(new, "FailureTarget")
    newly_complete, newly_failed = (
        complete and not is_true(old, "Complete"),
        failed and not is_true(old, "Failed"),
    )
    if complete and failed and (newly_complete or newly_failed):
        refuse("cannot set Complete=True and Failed=true conditions")
    if complete and target and newly_complete:
        refuse("cannot set Complete=True and FailureTarget=true conditions")
    if newly_failed and not target:
        refuse("cannot set Failed=True condition without the FailureTarget=true condition")
    if newly_complete and not met:
        refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if met and failed:
        refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and target:
        refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    for kind in _TERMINAL:
        if is_true(old, kind) and not is_true(new, kind):
            refuse(f"cannot disable the terminal {kind}=True condition")
    if is_true(old, "SuccessCriteriaMet") and not met:
        refuse("cannot disable the SuccessCriteriaMet=True condition")


def _check_finish(problems: list[Cause], status: Obj, before: Obj) -> None:
    conditions, old = status.get("conditions"), before.get("conditions")
    finished = is_true(conditions, "Complete") or is_true(conditions, "Failed")
    if not finished or (is_true(old, "Complete") or is_true(old, "Failed")):
        return
    for name in ("active", "terminating"):
        if status.get(name, 0) > 0:
            detail = f"{name}>0 is invalid for finished job"
            problems.append(causes.invalid(f"status.{name}", status[name], detail))
    if "startTime" not in status:
        problems.append(causes.required("status.startTime", "startTime is required for finished job"))
    if is_true(conditions, "Complete") and "completionTime" not in status:
        detail = "completionTime is required for Complete jobs"
        problems.append(causes.required("status.completionTime", detail))


def _check_times(problems: list[Cause], obj: Obj, before: Obj) -> None:
    status, field = obj.get("status") or {}, "status.completionTime"
    end, old_end = status.get("completionTime"), before.get("completionTime")
    if end is not None and end != old_end:
        if not is_true(status.get("conditions"), "Complete"):
            detail = "cannot set completionTime when there is no Complete=True condition"
            problems.append(causes.invalid(field, end, detail))
        if status.get("startTime", "") > end:  # Times are in one canonical form, which sorts.
            problems.append(causes.invalid(field, end, "must be equal to or after `startTime`"))
        if old_end is not None:
            problems.append(causes.invalid(field, end, causes.IMMUTABLE))
    start, old_start = status.get("startTime"), before.get("startTime")
    if old_start is not None and start != old_start and not (obj.get("spec") or {}).get("suspend"):
        detail = "field is immutable for unsuspended job once set"
        problems.append(causes.invalid("status.startTime", start, detail))
