"""Rules of CronJobs."""

from __future__ import annotations

import re

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.pod.defaults import default_template
from fathom.kube.rules.workloads.job_spec import check_job_spec
from fathom.kube.rules.workloads.shared import check_counts
from fathom.model import causes
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, metadata

NAME_MAX = 52  # A job's name is the cron job's and eleven characters of time, within 63.
_POLICIES = ("Allow", "Forbid", "Replace")
_MACROS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# For each field of a schedule: its lowest and highest number, and the names of its numbers.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_item = re.compile(r"(\*|\?|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]{1,4}))?").fullmatch
_is_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


class CronJobRules(KindRules):
    template = ("spec", "jobTemplate", "spec", "template")

    def default(self, obj: Obj) -> None:
        spec = obj.setdefault("spec", {})
        # The job's own numbers get their defaults when a Job is created from the template.
        default_template(((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {})

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems = self.validate_update(obj, obj)
        name = metadata(obj).get("name", "")
        if len(name) > NAME_MAX:
            detail = f"must be no more than {NAME_MAX} characters"
            problems.append(causes.invalid("metadata.name", name, detail))
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj["spec"]
        _check_schedule(problems, spec.get("schedule", ""))
        check_counts(problems, spec, ("startingDeadlineSeconds",), "spec")
        if "timeZone" in spec:
            _check_zone(problems, spec["timeZone"])
        policy = spec.get("concurrencyPolicy", "Allow")
        if policy not in _POLICIES:
            problems.append(causes.not_supported("spec.concurrencyPolicy", policy, _POLICIES))
        _check_job_template(problems, (spec.get("jobTemplate") or {}).get("spec") or {})
        check_counts(problems, spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
        return problems


def _check_job_template(problems: list[Cause], job: Obj) -> None:
    field = "spec.jobTemplate.spec"
    check_job_spec(problems, job, field)
    if "selector" in job:
        problems.append(
            causes.invalid(f"{field}.selector", job["selector"], "`selector` will be auto-generated")
        )
    if job.get("manualSelector"):
        problems.append(causes.not_supported(f"{field}.manualSelector", True, ("nil", "false")))


def _check_schedule(problems: list[Cause], schedule: str) -> None:
    field = "spec.schedule"
    if not schedule:
        problems.append(causes.required(field))
        return
    if fault := _schedule_fault(schedule):
        problems.append(causes.invalid(field, schedule, fault))
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        problems.append(causes.invalid(field, schedule, detail))


def _schedule_fault(schedule: str) -> str:
    if schedule.startswith("@"):
        if schedule in _MACROS or re.fullmatch(r"@every ([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+", schedule):
            return ""
        return f"unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, (low, high, names) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            if fault := _item_fault(item, low, high, names):
                return fault
    return ""


def _item_fault(item: str, low: int, high: int, names: dict[str, int]) -> str:
    match = _item(item.lower())
    if match is None:
        return f"failed to parse int from {item}: strconv.Atoi: parsing {causes.quoted(item)}: invalid syntax"
    first, last, step = match.groups()
    if first in {"*", "?"}:
        return "" if last is None and step != "0" else f"failed to parse int from {item}"
    begin, end = _number(first, names), _number(last or first, names)
    if begin is None or end is None:
        return f"failed to parse int from {item}: strconv.Atoi: parsing {causes.quoted(item)}: invalid syntax"
    if begin < low:
        return f"beginning of range ({begin}) below minimum ({low}): {item}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {item}"
    if begin > end:
        return f"beginning of range ({begin}) beyond end of range ({end}): {item}"
    return f"step of range should be a positive number: {item}" if step == "0" else ""


def _number(text: str, names: dict[str, int]) -> int | None:
    return names.get(text) if not text.isdecimal() else int(text[:9])


def _check_zone(problems: list[Cause], zone: str) -> None:
    field = "spec.timeZone"
    if not zone:
        problems.append(causes.invalid(field, zone, "timeZone must be nil or non-empty string"))
        return
    for part in zone.split("/"):
        if part in {".", ".."} or part.startswith("-") or not _is_zone_part(part):
            problems.append(causes.invalid(field, zone, f"unknown time zone {zone}"))
            return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        problems.append(causes.invalid(field, zone, detail))
