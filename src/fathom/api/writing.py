"""Every write goes through here: prepare, admit, validate, charge, commit.

    draft ──> admission (mutate, validate) ──> validation ──> store.commit(expects, writes)
                                                                 │ Conflict: another write came first
      └──────────── again, from the current object <─────────────┘ (at most COMMITS_MAX times)

A draft is built from the entry that the commit then expects unchanged, so nothing is lost between reading and
writing. Admission's preconditions (the namespace is not terminating, the quota has room) are part of the same
commit. If the outcome is unknown, the answer is a 504; the server never tries such a commit again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from fathom.api.admission.attempt import Charge, Denied, WriteAttempt
from fathom.api.admission.lanes import lanes_of
from fathom.api.admission.quota import QUOTAS, is_counted, recount
from fathom.api.core import Call, Core
from fathom.api.drafts import new_draft, revised_draft
from fathom.api.field_owners import settle_owners
from fathom.api.lease_renewal import CHANGED, renewal
from fathom.api.removal import DeleteOptions, check_preconditions, is_over, plan_removal
from fathom.api.write_checks import check_own_kind, validate_create, validate_update
from fathom.api.write_observers import life_of, tell_of_deletion, tell_of_update
from fathom.model.body import Body, canonical, with_revision
from fathom.model.errors import (
    CHANGED_SINCE_READ,
    ApiError,
    already_exists,
    conflict,
    not_found,
    refused_by_store,
    timed_out,
)
from fathom.model.fields import changed_paths, changed_values
from fathom.model.objects import Obj, metadata
from fathom.store.protocol import (
    BadCommit,
    Committed,
    Conflict,
    Delete,
    Entry,
    Expect,
    Put,
    StoreUnavailable,
    Unknown,
    Write,
)

# Losing this many races in a row means that another client writes the object in a tight loop.
COMMITS_MAX = 5

# How many generated names are tried, as in kube-apiserver.
NAMES_MAX = 8

# An audit entry names this many changed fields; beyond it, the whole parent.
CHANGED_PATHS_MAX = 64

# From the current object, which is shared and must not be modified, to the object that the caller wants.
Change = Callable[[Obj], Obj]
Check = Callable[[Obj], None]
Bound = Callable[[Obj], tuple[Expect, ...]]  # From the object as it is stored.


class Written(msgspec.Struct, frozen=True):
    """`entry` is the stored entry; None after a dry run or a removal. `obj` is always set."""

    obj: Obj
    entry: Entry | None = None
    created: bool = False
    removed: bool = False


async def create(core: Core, call: Call, obj: Obj, *, again: Callable[[], Obj] | None = None) -> Written:
    """Store a new object. The caller hands over `obj`, complete except for the fields that the server adds.
    `again` returns a fresh copy, to try another name when a generated one is taken."""
    generated = not metadata(obj).get("name")
    draft = new_draft(core, call, obj)
    check_own_kind(core, call, draft)
    for attempt in range(max(NAMES_MAX, COMMITS_MAX)):
        name = str(metadata(draft).get("name") or "")
        admitted, charges = await _admit(core, call, "CREATE", obj=draft, old=None)
        validate_create(core, call, admitted)
        key = call.kind.store_key(call.namespace, name)
        if call.dry_run:
            return await _dry_create(core, call, key, admitted)
        async with core.lanes.hold(lanes_of(charges)) as waited:
            if waited:
                admitted, charges = await _admit(core, call, "CREATE", obj=draft, old=None)
            body = Body(canonical(admitted))
            outcome = await commit(core, Expect(key, 0), Put(key, body), charges)
        if isinstance(outcome, Committed):
            if core.updates is not None and core.updates.wants(call.kind.resource):
                core.updates.created(life_of(call, admitted))
            entry = Entry(key, body, outcome.revision, outcome.revision)
            return await _with_count(core, call, _created(call, entry, admitted))
        if outcome.current.get(key) is not None:
            if not generated or again is None or attempt + 1 >= NAMES_MAX:
                raise already_exists(call.kind.resource, name)
            draft = new_draft(core, call, again())
        elif attempt + 1 >= COMMITS_MAX:
            break
    raise _contended(call)


async def _dry_create(core: Core, call: Call, key: str, obj: Obj) -> Written:
    if await core.current(key) is not None:
        raise already_exists(call.kind.resource, metadata(obj)["name"])
    return Written(obj=obj, created=True)


def _created(call: Call, entry: Entry, obj: Obj) -> Written:
    call.audit.name, call.audit.uid = metadata(obj)["name"], metadata(obj)["uid"]
    call.audit.revision = entry.revision
    call.audit.changed = ("*",)  # The creator owns every field, except what admission added.
    return Written(obj=obj, entry=entry, created=True)


async def update(
    core: Core, call: Call, change: Change, *, subresource: str = "", bound: Bound | None = None
) -> Written:
    """Change an existing object. If a race is lost, `change` runs again on the then current object, and so
    does `bound`: what else the commit expects."""
    key = call.store_key
    entry = await core.current(key)
    for _ in range(COMMITS_MAX):
        if entry is None:
            raise not_found(call.kind.resource, call.target.name)
        await _catch_up_before_recount(core, call, entry)
        done = await _update_once(core, call, entry, change, subresource, bound=bound)
        if isinstance(done, Written):
            return await _with_count(core, call, done)
        entry = done.current.get(key, entry)
    raise _contended(call)


async def _with_count(core: Core, call: Call, written: Written) -> Written:
    """A quota that begins is counted in a commit of its own, from a cache that has it: `admission/quota` says
    why. If that fails, the quota is stored nevertheless; the next write that it counts, or housekeeping,
    counts it. If it has changed since, the caller is answered with what the caller wrote."""
    entry = written.entry
    if call.kind.resource != QUOTAS or entry is None or is_counted(entry.body.obj):
        return written
    quota = {**entry.body.obj, "status": recount(entry.body.obj, core.cache)}
    body = Body(canonical(quota))
    try:
        outcome = await commit(core, Expect(entry.key, entry.revision), Put(entry.key, body), ())
    except (ApiError, StoreUnavailable):
        return written
    if isinstance(outcome, Conflict):
        return written
    call.audit.revision = outcome.revision
    return msgspec.structs.replace(
        written, obj=quota, entry=Entry(entry.key, body, outcome.revision, entry.created)
    )


async def _catch_up_before_recount(core: Core, call: Call, entry: Entry) -> None:
    """Catch up with the store before a quota is recounted:
    1. Another server creates a pod and charges its quota.
    2. We read the quota from the store.
    3. We recount it from our cache, which lacks the pod of step 1; its revision is the expected one.
    So the cache must be at least at the quota's revision."""
    if core.shared_store and call.kind.resource == QUOTAS:
        await core.wait_for(entry.revision)


async def _update_once(
    core: Core, call: Call, entry: Entry, change: Change, subresource: str, *, bound: Bound | None
) -> Written | Conflict:
    before = entry.body.obj
    old = with_revision(before, entry.revision)
    bounds = bound(old) if bound is not None else ()
    new = change(old)
    draft = revised_draft(core, call, new, old, entry=entry, subresource=subresource)
    sent = metadata(new).get("managedFields")
    settle_owners(core, call, draft, old, sent=sent, subresource=subresource)
    check_own_kind(core, call, draft, old, subresource)
    admitted, charges = await _admit(core, call, "UPDATE", obj=draft, old=old, subresource=subresource)
    validate_update(core, call, admitted, old, subresource)
    rules = core.rules(call.kind)
    gone = is_over(admitted, rules)
    stored = canonical(admitted)
    if not gone and stored == before:
        return Written(obj=old, entry=entry)
    call.audit.name, call.audit.uid = call.target.name, metadata(admitted).get("uid", "")
    observed = core.updates is not None and core.updates.wants(call.kind.resource)
    changes = changed_values(old, admitted, CHANGED_PATHS_MAX) if core.audited or observed else []
    if core.audited:
        call.audit.changed = tuple(path for path, _, _ in changes)
    if call.dry_run:
        metadata(admitted)["resourceVersion"] = str(entry.revision)  # Unchanged so far.
        return Written(obj=admitted)
    if gone:
        # The update itself is never stored: only the removal is charged. What it was judged by must hold.
        expected = (Charge(bounds), *(Charge(charge.preconditions) for charge in charges))
        return await _remove_now(core, call, entry, expected, admitted)
    body = Body(stored)
    async with core.lanes.hold(lanes_of(charges)) as waited:
        if waited:
            _, charges = await _admit(core, call, "UPDATE", obj=draft, old=old, subresource=subresource)
        together = (*charges, Charge(bounds))
        outcome = await commit(core, Expect(entry.key, entry.revision), Put(entry.key, body), together)
    if isinstance(outcome, Conflict):
        return outcome
    call.audit.revision = outcome.revision
    if observed:
        tell_of_update(core, call, changes, owned="ownerReferences" in metadata(admitted))
    return Written(obj=admitted, entry=Entry(entry.key, body, outcome.revision, entry.created))


async def renew(core: Core, call: Call) -> Written | None:
    """Write a Lease in the short way if the body only renews it. None: nothing is written, take the long
    way."""
    entry = await core.current(call.store_key)
    draft = None if entry is None else renewal(entry, call.request.body)
    if entry is None or draft is None:
        return None
    old = entry.body.obj_at(entry.revision)
    admitted, charges = await _admit(core, call, "UPDATE", obj=draft, old=old)
    if admitted is not draft or lanes_of(charges):
        return None  # Admission changes or charges more than a renewal.
    body = Body(draft)
    outcome = await commit(core, Expect(entry.key, entry.revision), Put(entry.key, body), charges)
    if isinstance(outcome, Conflict):
        return None
    call.audit.name, call.audit.uid = call.target.name, metadata(draft).get("uid", "")
    call.audit.changed, call.audit.revision = CHANGED, outcome.revision
    return Written(obj=draft, entry=Entry(entry.key, body, outcome.revision, entry.created))


async def remove(core: Core, call: Call, options: DeleteOptions, *, check: Check | None = None) -> Written:
    """Delete an object, or mark it as being deleted while something holds it. `check` raises if it may not be
    deleted as it is stored."""
    key = call.store_key
    entry = await core.current(key)
    for _ in range(COMMITS_MAX):
        if entry is None:
            raise not_found(call.kind.resource, call.target.name)
        if check is not None:
            check(entry.body.obj)
        done = await _remove_once(core, call, entry, options)
        if isinstance(done, Written):
            if core.updates is not None and not (call.dry_run or options.dry_run):
                tell_of_deletion(core.updates, call, entry.body.obj)
            return done
        entry = done.current.get(key, entry)
    raise _contended(call)


async def _remove_once(core: Core, call: Call, entry: Entry, options: DeleteOptions) -> Written | Conflict:
    old = entry.body.fresh_at(entry.revision)
    check_preconditions(old, options, resource=call.kind.resource, revision=entry.revision)
    _, charges = await _admit(core, call, "DELETE", obj=None, old=old)
    rules, moment = core.rules(call.kind), core.moment(call.caller.user)
    removal = plan_removal(old, options, rules=rules, moment=moment, now_ns=core.outside.clock.now_ns())
    call.audit.name, call.audit.uid = call.target.name, metadata(old).get("uid", "")
    if call.dry_run or options.dry_run:
        return Written(obj=removal.obj or old, removed=removal.obj is None)
    if removal.obj is None:
        return await _remove_now(core, call, entry, charges, old)
    if canonical(removal.obj) == entry.body.obj:
        return Written(obj=removal.obj, entry=entry)
    if core.audited:
        call.audit.changed = changed_paths(entry.body.obj, canonical(removal.obj), limit=CHANGED_PATHS_MAX)
    body = Body(canonical(removal.obj))
    outcome = await commit(core, Expect(entry.key, entry.revision), Put(entry.key, body), charges)
    if isinstance(outcome, Conflict):
        return outcome
    call.audit.revision = outcome.revision
    return Written(obj=removal.obj, entry=Entry(entry.key, body, outcome.revision, entry.created))


async def _remove_now(
    core: Core, call: Call, entry: Entry, charges: Sequence[Charge], last: Obj
) -> Written | Conflict:
    stored = entry.body.obj_at(entry.revision)
    released = _release(core, call, stored)
    async with core.lanes.hold(lanes_of((*charges, *released))) as waited:
        if waited:
            released = _release(core, call, stored)
        outcome = await commit(
            core, Expect(entry.key, entry.revision), Delete(entry.key), (*charges, *released)
        )
    if isinstance(outcome, Conflict):
        return outcome
    call.audit.revision = outcome.revision
    metadata(last)["resourceVersion"] = str(outcome.revision)
    return Written(obj=last, removed=True)


async def commit(core: Core, expect: Expect, write: Write, charges: Sequence[Charge]) -> Committed | Conflict:
    """One commit: the object, its preconditions and the writes that go with it. On return our own cache has
    it."""
    expects, writes = {expect.key: expect}, [write]
    for charge in charges:
        expects |= {extra.key: extra for extra in charge.preconditions}
        writes += charge.writes
    try:
        outcome = await core.store.commit(tuple(expects.values()), writes)
    except StoreUnavailable:
        core.health.failed()
        raise
    except BadCommit as error:
        raise refused_by_store(str(error)) from None
    core.health.saw(outcome)
    if isinstance(outcome, Unknown):
        raise timed_out(
            f"the outcome of the write is unknown ({outcome.cause}): read the object before trying again"
        )
    if isinstance(outcome, Committed):
        await core.cache.at_least(outcome.revision)  # Our own cache has it before the caller is answered.
    else:
        # The write that won the race must be in the cache before we decide again. The revision of a shared
        # store may have risen without an event for our watch, so waiting for the revision alone is not
        # enough.
        core.counts.commits_retried += 1
        await core.wait_for(outcome.revision)
    return outcome


async def _admit(
    core: Core, call: Call, operation: str, *, obj: Obj | None, old: Obj | None, subresource: str = ""
) -> tuple[Obj, Sequence[Charge]]:
    """A refusal counts once the cache that it was judged by has caught up with a shared store:
    1. Another server creates a namespace, or removes what is in the way: a pod on a full node, an override.
    2. Our cache does not know yet.
    3. We would answer that there is no such namespace, that the node is full.
    What is allowed needs no such care: the commit expects what it was judged by."""
    judged_at = core.cache.reached
    try:
        return _judge(core, call, operation, obj=obj, old=old, subresource=subresource)
    except Denied:
        if not core.shared_store or await core.catch_up() == judged_at:
            raise
    return _judge(core, call, operation, obj=obj, old=old, subresource=subresource)


def _judge(
    core: Core, call: Call, operation: str, *, obj: Obj | None, old: Obj | None, subresource: str
) -> tuple[Obj, Sequence[Charge]]:
    attempt = WriteAttempt(
        operation=operation,
        kind=call.kind,
        subresource=subresource,
        namespace=call.namespace,
        name=str(metadata(obj or old or {}).get("name") or ""),
        obj=obj,
        old=old,
        user=call.caller.user,
        dry_run=call.dry_run,
        break_glass=call.audit.break_glass,
        fence=call.caller.fence,
        overrides_seen=call.caller.overrides_seen,
    )
    settle = None
    if operation == "CREATE" and obj is not None and not subresource:
        settle = partial(core.rules(call.kind).settle_create, draft=obj)
    try:
        admitted = core.chain.admit(attempt, core.cache, settle)
    except Denied as error:
        call.audit.admission = error.verdicts
        raise
    call.audit.admission = admitted.verdicts
    for warning in admitted.warnings:
        call.warn(warning)
    return admitted.obj or {}, admitted.charges


def _release(core: Core, call: Call, old: Obj) -> Sequence[Charge]:
    attempt = WriteAttempt(
        operation="DELETE",
        kind=call.kind,
        subresource="",
        namespace=call.namespace,
        name=call.target.name,
        obj=None,
        old=old,
        user=call.caller.user,
        dry_run=call.dry_run,
    )
    return core.chain.release(attempt, core.cache)


def _contended(call: Call) -> ApiError:
    return conflict(call.kind.resource, call.target.name, CHANGED_SINCE_READ)
