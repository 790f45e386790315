"""What a survey means: a row for each thing that a server has or lacks, and what each lack costs. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from fathom.attach.ask_objects import API_SERVICE, AskAddress, serving_questions
from fathom.attach.kinds import MIRRORED, MirroredKind
from fathom.attach.rights import READ, scheduling
from fathom.attach.steering import OVERRIDES
from fathom.attach.survey import Survey
from fathom.kinds.override_policy import NAME as POLICY
from fathom.model.accounts import SYSTEM_NAMESPACE

State = Literal["yes", "no", "needed"]  # 'needed': it lacks, and without it nothing works.


class AttachFinding(msgspec.Struct, frozen=True, rename="camel"):
    """A document of the command line: its names are stable."""

    check: str
    state: State
    found: str
    cost: str = ""  # Of a lack.


def findings_of(
    survey: Survey, *, observe_only: bool, ask_api: AskAddress | None = None
) -> list[AttachFinding]:
    findings = [
        AttachFinding("server", "yes", f"{survey.version} at {survey.url}"),
        *([_own()] if survey.is_fathom else []),
        _watch_list(survey),
        _scheduler(survey),
        *_kinds(survey),
        _audit(),
        *_ask_rights(survey, ask_api),
        _ask_api(survey, ask_api),
    ]
    if observe_only:
        return findings if ask_api is None else [*findings, _namespace(survey)]
    return [*findings, *_rights(survey), _namespace(survey), _overrides(survey), _policy(survey)]


def is_possible(findings: list[AttachFinding]) -> bool:
    return all(finding.state != "needed" for finding in findings)


def readable(survey: Survey) -> list[MirroredKind]:
    """The kinds that can be copied, each with the namespaces where that is allowed."""
    denied = {(right.name, right.namespace) for right in survey.denied if right.verbs == READ}
    kinds = []
    for kind in MIRRORED:
        places = [place for place in kind.namespaces or ("",) if (kind.name, place) not in denied]
        if places and kind.name not in survey.absent:
            kinds.append(msgspec.structs.replace(kind, namespaces=tuple(filter(None, places))))
    return kinds


def _own() -> AttachFinding:
    return AttachFinding(
        "fathom", "needed", "the server is fathom's own", "nothing is to be attached: ask it directly"
    )


def _watch_list(survey: Survey) -> AttachFinding:
    if survey.has_watch_list:
        return AttachFinding("WatchList", "yes", "lists are streamed")
    return AttachFinding(
        "WatchList", "no", "not served, or never ended", "lists are read in pages: a slower start"
    )


def _scheduler(survey: Survey) -> AttachFinding:
    if survey.leader:
        return AttachFinding("kube-scheduler", "yes", f"{survey.leader} leads")
    cost = "it is not known whether pods wait for a scheduler that does not run"
    return AttachFinding(
        "kube-scheduler", "no", "nobody holds kube-system/kube-scheduler, or it is hidden", cost
    )


def _kinds(survey: Survey) -> list[AttachFinding]:
    """One row for all that can be read, and one for each kind that cannot."""
    can = {kind.name for kind in readable(survey)}
    rows = [AttachFinding("kinds to read", "yes", f"{len(can)} of {len(MIRRORED)}")]
    for kind in MIRRORED:
        if kind.name not in can and not (kind.name == OVERRIDES and kind.name in survey.absent):
            why = "not served" if kind.name in survey.absent else "you may not list and watch them"
            rows.append(AttachFinding(kind.name, "needed" if kind.needed else "no", why, kind.lack))
    return rows


def _audit() -> AttachFinding:
    return AttachFinding(
        "audit log", "no", "no API serves it", "writers are those of managedFields: programs, not users"
    )


def _ask_rights(survey: Survey, ask_api: AskAddress | None) -> list[AttachFinding]:
    denied = [] if ask_api is None else [right for right in serving_questions() if right in survey.denied]
    return [
        AttachFinding(f"{' '.join(right.verbs)} {right.name}", "needed", "you may not", right.lack)
        for right in denied
    ]


def _ask_api(survey: Survey, ask_api: AskAddress | None) -> AttachFinding:
    """Whether kubectl there can ask."""
    check, lack = "kubectl's questions", "kubectl there reads no decisions and explanations"
    if not survey.ask_api:
        remedy = (
            "--ask-api ADDRESS:PORT serves them" if ask_api is None else "it is installed, with your consent"
        )
        return AttachFinding(check, "no", f"no APIService {API_SERVICE}", f"{lack}: {remedy}")
    if ask_api is None or ask_api.text == survey.ask_api:
        return AttachFinding(check, "yes", f"APIService {API_SERVICE} leads to {survey.ask_api}")
    found = f"APIService {API_SERVICE} leads to {survey.ask_api}, not to {ask_api.text}"
    return AttachFinding(check, "needed", found, "run `fathom detach` first, or start there")


def _rights(survey: Survey) -> list[AttachFinding]:
    rows = [
        AttachFinding(
            f"{' '.join(right.verbs)} {right.name}",
            "needed" if right.needed else "no",
            "you may not",
            right.lack,
        )
        for right in scheduling()
        if right in survey.denied
    ]
    return rows or [AttachFinding("rights to schedule", "yes", "all")]


def _namespace(survey: Survey) -> AttachFinding:
    if survey.has_namespace:
        return AttachFinding(f"namespace {SYSTEM_NAMESPACE}", "yes", "installed")
    return AttachFinding(
        f"namespace {SYSTEM_NAMESPACE}", "no", "not installed", "it is created, with your consent"
    )


def _overrides(survey: Survey) -> AttachFinding:
    if survey.has_overrides:
        return AttachFinding("overrides", "yes", f"{OVERRIDES} is served")
    return AttachFinding(
        "overrides", "no", f"{OVERRIDES} is not installed", "it is installed, with your consent"
    )


def _policy(survey: Survey) -> AttachFinding:
    """Without it nobody checks who writes an override."""
    check, cost = f"policy {POLICY}", "every override is Declined: NoEnforcer"
    if not survey.has_policies:
        return AttachFinding(check, "no", "the server has no ValidatingAdmissionPolicy", cost)
    if survey.vouching.since_ns is None:
        installed = f"{cost}, until it is installed, with your consent"
        return AttachFinding(check, "no", survey.vouching.why_not, installed)
    return AttachFinding(check, "yes", "it vouches for the authors of overrides")
