"""A write does what the request asked, under its preconditions, and changes nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fathom.api.admission.quota import QUOTAS, is_counted
from fathom.model.body import decode_json
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.seams.seam import Ask
from fathom.sim.checkers.store_history import AskedWrite, asked_of
from fathom.sim.world.invariants import Checker, Found, Seen

# Resources with a status subresource.
TWO_PARTS = frozenset(
    {
        "pods",
        "nodes",
        "services",
        "jobs.batch",
        "deployments.apps",
        "replicasets.apps",
        "poddisruptionbudgets.policy",
    }
)

KEPT = ("labels", "annotations", "finalizers", "ownerReferences")  # Metadata that status writes keep.


class WritesAreAsAsked(Checker):
    """A write that names a revision or a UID changes that one; a status write leaves the spec alone, and a
    spec write the status; a create replaces no object; and after a merge patch its fields have the patch's
    values."""

    name = "a write does what was asked"

    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}

    def commit(self, change: Seen) -> Found:
        before = self._revisions.get(change.path, 0)
        self._revisions[change.path] = change.revision
        request = asked_of(change.ask.target) if change.ask is not None else None
        if request is None or change.ask is None or request.resource != change.resource:
            return None
        if _counts_a_quota(change):
            return None
        if change.ask.method == "POST" and not request.name and change.old is not None and change.new:
            return f"{change.by} created {change.path}, which already existed" if _names(change) else None
        if request.name != change.key.name or request.namespace != change.key.namespace or not change.old:
            return None
        body = _body_of(change.ask)
        return _unmet_precondition(change, change.ask, change.old, body, before) or _side_effects(
            change, request, body
        )


def _counts_a_quota(change: Seen) -> bool:
    """A quota that begins is counted by the commit after that, for the same request: only its status
    changes."""
    old, new = change.old, change.new
    if change.resource != QUOTAS or old is None or new is None or is_counted(old):
        return False
    return all(old.get(name) == new.get(name) for name in {*old, *new} - {"status"})


def _names(change: Seen) -> bool:
    """The POST names this object: the same commit may also change others."""
    assert change.ask is not None
    return bool(lookup(_body_of(change.ask), "metadata", "name") == change.key.name)


def _body_of(ask: Ask) -> Obj:
    """The request's body; empty where it is no object, as in a JSON patch."""
    try:
        body: Any = decode_json(ask.body) if isinstance(ask.body, bytes) and ask.body else ask.body
    except (msgspec.DecodeError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def _unmet_precondition(change: Seen, ask: Ask, old: Obj, body: Obj, before: int) -> str | None:
    section: tuple[str, ...] = ("preconditions",) if ask.method == "DELETE" else ("metadata",)
    if ask.method == "POST" and ask.target.partition("?")[0].endswith("/eviction"):
        # The pod is marked, then deleted: only its UID stays the same in between.
        body, section = {"uid": lookup(body, "deleteOptions", "preconditions", "uid")}, ()
    revision, uid = lookup(body, *section, "resourceVersion"), lookup(body, *section, "uid")
    if revision and before and int(revision) != before:
        return f"{change.by} wrote {change.path} at resourceVersion {revision}, but it was at {before}"
    if uid and uid != uid_of(old):
        return f"{change.by} wrote {change.path} with UID {uid}, but its UID is {uid_of(old)}"
    return None


def _side_effects(change: Seen, request: AskedWrite, body: Obj) -> str | None:
    old, new, ask = change.old, change.new, change.ask
    if old is None or new is None or ask is None:
        return None
    if request.subresource == "status":
        changed = [name for name in {*old, *new} - {"status", "metadata"} if old.get(name) != new.get(name)]
        changed += [name for name in KEPT if metadata(old).get(name) != metadata(new).get(name)]
        if changed:
            return f"{change.by} wrote the status of {change.path}, but {', '.join(changed)} changed too"
    elif request.subresource or ask.method == "DELETE":
        return None
    elif change.resource in TWO_PARTS and old.get("status") != new.get("status"):
        return f"{change.by} wrote {change.path}, but its status changed too"
    if ask.method != "PATCH" or dict(ask.headers).get("content-type", MERGE_PATCH) != MERGE_PATCH:
        return None
    parts = ["status"] if request.subresource else ["spec", "data"]
    return _unpatched(change, new, parts, body)


def _unpatched(change: Seen, new: Obj, parts: list[str], body: Obj) -> str | None:
    for part in parts:
        field = next(unsaid(new.get(part), body[part], part), None) if part in body else None
        if field is not None:
            return f"{change.by} patched {change.path}, but {field} does not have the patch's value"
    return None


def unsaid(now: Any, patch: Any, path: str) -> Iterator[str]:
    """Where an object differs from a merge patch (RFC 7386). Fields that the patch leaves out may have any
    value, and items of a list may be filled in with defaults."""
    if not isinstance(patch, dict):
        if now != patch and not isinstance(patch, list):
            yield path
        return
    for name, value in patch.items():
        yield from unsaid(now.get(name) if isinstance(now, dict) else None, value, f"{path}.{name}")
