"""What the server writes into the status of a SchedulerOverride, and no client can: author, end, who must
honour it, approval, extensions."""

from __future__ import annotations

from typing import Any

from fathom.kinds import approval
from fathom.kinds.definition import Stamp
from fathom.kinds.override_changes import AT_THE_WRITE, affected_controllers, effective_changes
from fathom.kinds.values import items, mapping, stamps, text
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.times import duration_ns, moment_ns, timestamp

# Fields of status that only the server writes.
STAMPED = ("author", "authorImpersonatedBy", "expiresAt", "blastRadius", "approval", "extensions")
# Stamped too; of an override that an earlier version stored without it, the controllers may report it.
AFFECTED = "affectedControllers"


def hash_of(obj: Obj) -> str:
    """The hash that approvals of the override's spec are bound to."""
    return spec_hash(mapping(obj.get("spec")))


def spec_hash(spec: Obj) -> str:
    """Fields that say nothing do not count: a spec that was read and written again has the same hash."""
    return approval.spec_hash(_without_empty(spec))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        inner = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in inner.items() if not _is_empty(each)}
    return [_without_empty(each) for each in value] if isinstance(value, list | tuple) else value


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})


def status_at_create(obj: Obj, stamp: Stamp) -> Obj:
    real = {"authorImpersonatedBy": stamp.impersonator} if stamp.impersonator else {}
    return {"author": stamp.user, **real, **_expiry(obj, stamp), "active": False, **_honoured(obj, {}, stamp)}


def status_at_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj | None:
    """A changed duration counts from now. The author stays: the audit log has later writers."""
    if obj.get("spec") == old.get("spec"):
        return None
    status = {**mapping(old.get("status")), "active": False}
    if lookup(obj, "spec", "expiresAfter") != lookup(old, "spec", "expiresAfter"):
        later = _expiry(obj, stamp)
        if _is_later(later, status):
            status["extensions"] = _count(status.get("extensions")) + 1
        status |= later
    return {**status, **_honoured(obj, old, stamp)}


def status_at_status_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """As reported, except what the server stamps, and the acknowledgements of the server itself."""
    reported = {name: value for name, value in mapping(obj.get("status")).items() if name not in STAMPED}
    if "acknowledgements" in reported or _acknowledged(old, by_server=True):
        both = [*_acknowledged(old, by_server=True), *_acknowledged(obj, by_server=False)]
        reported["acknowledgements"] = both
    return {**reported, **stamps(old, (*STAMPED, AFFECTED))}


def status_at_approval(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """`approved` is taken from the request, and the hash of the spec that its sender has seen, if the request
    has one: admission refuses another spec's. The clock starts with the approval."""
    status = mapping(old.get("status"))
    before, sent = mapping(status.get("approval")), mapping(lookup(obj, "status", "approval"))
    if not before.get("required"):
        return {**status}
    approved, seen_hash = sent.get("approved"), text(sent.get("specHash")) or hash_of(old)
    decided = approval.with_decision(before, approved, stamp, hash_field="specHash", spec_hash=seen_hash)
    if approved is None:
        decided["specHash"] = hash_of(old)
    starts = approved is True and "expiresAt" not in status
    return {**status, "approval": decided, **(_expiry(old, stamp) if starts else {})}


def status_awaiting_approval(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """The status of an override whose new spec needs approval. Approval of the old spec is void. An end that
    was stamped for this duration stays: a change must not start the clock again."""
    status, before = mapping(obj.get("status")), mapping(lookup(old, "status", "approval"))
    people = (
        *items(before.get("requestedBy")),
        status.get("author"),
        status.get("authorImpersonatedBy"),
        stamp.user,
        stamp.impersonator,
    )
    asked = {
        "required": True,
        "specHash": hash_of(obj),
        "requestedAt": stamp.now,
        "requestedBy": [person for person in dict.fromkeys(people) if person],
    }
    runs_on = lookup(obj, "spec", "expiresAfter") == lookup(old, "spec", "expiresAfter")
    dropped = () if runs_on else ("expiresAt",)
    kept = {name: value for name, value in status.items() if name not in dropped}
    return {**kept, "approval": asked}


def status_without_approval(obj: Obj, stamp: Stamp) -> Obj:
    """The status of an override whose spec needs no approval (any more): its clock runs."""
    status = {name: value for name, value in mapping(obj.get("status")).items() if name != "approval"}
    return status if "expiresAt" in status else {**status, **_expiry(obj, stamp)}


def _expiry(obj: Obj, stamp: Stamp) -> Obj:
    lasts_ns = duration_ns(text(lookup(obj, "spec", "expiresAfter")))
    now_ns = moment_ns(stamp.now)
    if lasts_ns is None or now_ns is None:
        return {}
    return {"expiresAt": timestamp(now_ns + lasts_ns)}


def _is_later(status: Obj, before: Obj) -> bool:
    ends, ended = moment_ns(status.get("expiresAt")), moment_ns(before.get("expiresAt"))
    return ends is not None and ended is not None and ends > ended


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _honoured(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """Who must honour the override. The server's own part does from this commit on, and says so."""
    controllers = affected_controllers(effective_changes(mapping(lookup(obj, "spec", "changes"))))
    generation = _count(metadata(old).get("generation")) + 1
    by_server = [
        {"controller": name, "state": "Honoring", "observedGeneration": generation, "time": stamp.now}
        for name in controllers
        if name in AT_THE_WRITE
    ]
    by_others = [
        acknowledgement
        for acknowledgement in _acknowledged(old, by_server=False)
        if text(acknowledgement.get("controller")) in controllers
    ]
    return {AFFECTED: list(controllers), "acknowledgements": [*by_server, *by_others]}


def _acknowledged(obj: Obj, *, by_server: bool) -> list[Obj]:
    acknowledgements = (mapping(each) for each in items(lookup(obj, "status", "acknowledgements")))
    return [each for each in acknowledgements if (text(each.get("controller")) in AT_THE_WRITE) is by_server]
