"""ResourceQuota: the sum of what a namespace's objects request stays within its quotas, exactly.

`status.used` of the quota itself is the ledger. Every write that changes the sum updates it in the same
commit, which expects the quota as it was read: no two writers can both take the last unit, and nothing counts
twice.

    create, update    charge: used + (new - old) must not exceed what is limited
    ended, removed    charge and release: used goes down, in the commit that ends or removes the object
    limits changed    recount: used is the sum over the existing objects
    quota begins      it is stored without `used`, and counted by the commit after that

A quota begins to count when it is created, and when it names other resources or other scopes. Writes that do
not know of that yet are in progress at that moment:

    1. A pod is admitted: there is no quota.  2. A quota is created: no pod is stored yet.  3. Both commit.

So each commit by which a quota begins or ends also writes the `QuotaRules` of its namespace, which every
commit that could change a sum expects. After that commit every such write finds the quota and writes it: a
count that is committed on the quota as it was read is exact, whoever commits it (`_account`, or
`api/writing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Charge, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.admission.scopes import in_scope
from fathom.api.admission.usage import CHANGEABLE, MUST_BE_ASKED, PODS, counted_by, unasked, usage_of
from fathom.api.ledger.accounts import document, key_in_store
from fathom.kinds.reservation import RESERVATIONS
from fathom.model.body import Body, canonical
from fathom.model.declared import RESOURCE_QUOTAS, Reads, Writes
from fathom.model.errors import ApiError, Cause
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.podresources import Amounts, added, amounts, subtracted
from fathom.model.quantity import ZERO, Quantity
from fathom.model.reasons import QUOTA_EXCEEDED, QUOTA_NEEDS_REQUESTS
from fathom.model.view import Seen, View
from fathom.store.protocol import Delete, Expect, Put, Write

QUOTAS = "resourcequotas"
RULES = "quotarules.fathom.dev"  # By namespace; removed with its last quota. The API does not serve it.
# Of all quotas of one namespace: each is read, and mostly written, with every object that they count.
NAMES_MAX = 10_000


class QuotaAccount(msgspec.Struct, frozen=True):
    """One quota's current numbers."""

    name: str
    seen: Seen
    hard: Amounts
    used: Amounts


class CountedObject:
    """What one object counts for. A namespace may have very many quotas: what they ask is computed once."""

    def __init__(self, resource: str, obj: Obj | None) -> None:
        self.resource, self.obj = resource, obj
        self._scopes: dict[str, bool] = {}
        self._unasked: dict[frozenset[str], dict[str, list[str]]] = {}

    @cached_property
    def _usage(self) -> Amounts:
        return {} if self.obj is None else usage_of(self.resource, self.obj)

    def counts_for(self, quota: Obj) -> bool:
        return self.obj is not None and in_scope(quota, self.resource, self.obj, self._scopes)

    def usage_in(self, account: QuotaAccount) -> Amounts:
        if not self.counts_for(account.seen.obj):
            return {}
        return {name: self._usage[name] for name in account.hard if name in self._usage}

    def unasked(self, names: frozenset[str]) -> dict[str, list[str]]:
        """The names that a pod's containers must request and do not."""
        if names and self.obj is not None and names not in self._unasked:
            self._unasked[names] = unasked(self.obj, names)
        return self._unasked.get(names, {})


class ResourceQuota(Plugin):
    name = "ResourceQuota"
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = frozenset({"", "status", "resize"})
    trusted = True
    reads = (
        Reads("ResourceQuota", ("spec", "status"), "commit"),
        Reads("QuotaRules", source="commit"),
        Reads("*", ("metadata", "spec", "status.phase")),  # A new quota begins with a count.
    )
    writes = (
        Writes("ResourceQuota", ("status",)),
        Writes("QuotaRules", ("*",), creates=True, deletes=True),
    )
    takes = (RESOURCE_QUOTAS,)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """A quota that begins is not counted yet. One whose limits change is counted again."""
        quota, old = attempt.obj, attempt.old
        assert quota is not None
        if attempt.kind.resource != QUOTAS or attempt.subresource:
            return quota
        if old is not None and old.get("spec") == quota.get("spec") and old.get("status"):
            return quota
        if _begins(attempt) and not attempt.dry_run:
            return {**quota, "status": {}}
        return {**quota, "status": recount(quota, view)}

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        if attempt.operation == DELETE:
            return ()
        begun = (_rules_changed(attempt.namespace, view, left=True),) if _begins(attempt) else ()
        return (*begun, *_settled(attempt, view)) if _may_change(attempt) else begun

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        settled = _settled(attempt, view)
        if attempt.kind.resource != QUOTAS:
            return settled
        names = (metadata(seen.obj)["name"] for seen in view.list(QUOTAS, attempt.namespace))
        left = any(name != attempt.name for name in names)
        return (_rules_changed(attempt.namespace, view, left=left), *settled)


def _begins(attempt: WriteAttempt) -> bool:
    """Whether the write makes a quota count what it did not count before."""
    if attempt.kind.resource != QUOTAS or attempt.subresource or attempt.obj is None:
        return False
    return attempt.old is None or _counts(attempt.old) != _counts(attempt.obj)


def _counts(quota: Obj) -> tuple[object, ...]:
    """What a quota counts, whatever its limits are."""
    spec = quota.get("spec") or {}
    return frozenset(spec.get("hard") or ()), spec.get("scopes"), spec.get("scopeSelector")


def is_counted(quota: Obj) -> bool:
    """False for a quota that has just begun, or that was restored from a backup, for example."""
    used = lookup(quota, "status", "used") or {}
    return all(limit in used for limit in lookup(quota, "spec", "hard") or ())


def _rules(namespace: str, view: View) -> Expect:
    """The precondition that no quota of the namespace has begun or ended since."""
    key = Key("", namespace)
    seen = view.get(RULES, key)
    return Expect(key_in_store(RULES, key), 0 if seen is None else seen.revision)


def _rules_changed(namespace: str, view: View, *, left: bool) -> Charge:
    """`left`: the namespace has a quota afterwards."""
    expect = _rules(namespace, view)
    write: Write = Delete(expect.key)
    if left:
        write = Put(expect.key, Body(document("QuotaRules", Key("", namespace), {})))
    return Charge((expect,), (write,))


def _may_change(attempt: WriteAttempt) -> bool:
    """A quick test: nearly all updates change no sum, and for most kinds none can."""
    if attempt.operation == CREATE:
        return True
    if attempt.kind.resource not in CHANGEABLE:
        return False
    if attempt.kind.resource == RESERVATIONS:
        return True  # There are few.
    obj, old = attempt.obj or {}, attempt.old or {}
    if attempt.subresource == "status":
        return attempt.kind.resource == PODS and is_terminal(obj) != is_terminal(old)
    return bool(obj.get("spec") != old.get("spec"))


def _settled(attempt: WriteAttempt, view: View) -> tuple[Charge, ...]:
    if not attempt.namespace or attempt.kind.virtual:
        return ()
    return Charge((_rules(attempt.namespace, view),)), *_settle(attempt, view)


def _settle(attempt: WriteAttempt, view: View) -> Iterator[Charge]:
    """The changes to every quota that counts the old or the new object."""
    resource = attempt.kind.resource
    new, old = CountedObject(resource, attempt.obj), CountedObject(resource, attempt.old)
    names_left = NAMES_MAX
    for seen in view.list(QUOTAS, attempt.namespace):
        names_left -= len(lookup(seen.obj, "spec", "hard") or ())
        if names_left < 0 and attempt.operation == CREATE:
            why = f"the quotas of the namespace name more than {NAMES_MAX} resources in all"
            raise refused(attempt, why, (Cause("", QUOTA_EXCEEDED, why),))
        name = metadata(seen.obj)["name"]
        if resource == QUOTAS and name == attempt.name:
            continue  # A quota cannot count itself while it is being written.
        account = _account(name, seen, resource, view)
        if account is None:
            continue
        if attempt.operation == CREATE and resource == PODS:
            _check_requests(attempt, new, account)
        change = _change(account, new, old)
        _check_room(attempt, account, change)
        if change:
            yield _booked(attempt.namespace, account, change)


def _account(name: str, seen: Seen, resource: str, view: View) -> QuotaAccount | None:
    """The quota's numbers, or None if it does not count the resource."""
    hard = lookup(seen.obj, "spec", "hard") or {}
    if not any(resource in counted_by(limit) for limit in hard):
        return None
    used = lookup(seen.obj, "status", "used") if is_counted(seen.obj) else recount(seen.obj, view)["used"]
    return QuotaAccount(name, seen, amounts(hard), amounts(used))


def _change(account: QuotaAccount, new: CountedObject, old: CountedObject) -> Amounts:
    """The change of the quota's sums. An update may also move an object into or out of a scope."""
    change = subtracted(new.usage_in(account), old.usage_in(account))
    return {name: amount for name, amount in change.items() if amount}


def _check_requests(attempt: WriteAttempt, pod: CountedObject, account: QuotaAccount) -> None:
    if not pod.counts_for(account.seen.obj):
        return
    missing = pod.unasked(MUST_BE_ASKED.intersection(account.hard))
    if missing:
        listed = "; ".join(f"{name} for: {','.join(containers)}" for name, containers in missing.items())
        why = f"failed quota: {account.name}: must specify {listed}"
        raise refused(attempt, why, (Cause("", QUOTA_NEEDS_REQUESTS, why),))


def _check_room(attempt: WriteAttempt, account: QuotaAccount, change: Amounts) -> None:
    """Only growing sums are refused: a quota that was lowered below its use still lets sums shrink."""
    exceeded = [
        name
        for name, amount in change.items()
        if amount > ZERO and account.used.get(name, ZERO) + amount > account.hard[name]
    ]
    if exceeded:
        raise _exceeded(attempt, account, change, sorted(exceeded))


def _exceeded(
    attempt: WriteAttempt, account: QuotaAccount, change: Amounts, names: Sequence[str]
) -> ApiError:
    def listed(source: Amounts) -> str:
        return ",".join(f"{name}={source.get(name, ZERO)}" for name in names)

    why = (
        f"exceeded quota: {account.name}, requested: {listed(change)}, "
        f"used: {listed(account.used)}, limited: {listed(account.hard)}"
    )
    return refused(attempt, why, (Cause("", QUOTA_EXCEEDED, why),))


def _booked(namespace: str, account: QuotaAccount, change: Amounts) -> Charge:
    used = added(account.used, change)
    # Below zero would mean that an object was subtracted that was never added.
    sums = {name: str(max(used.get(name, ZERO), ZERO)) for name in account.hard}
    quota = account.seen.obj
    status = {**(quota.get("status") or {}), "hard": quota["spec"]["hard"], "used": sums}
    key = f"/registry/{QUOTAS}/{namespace}/{account.name}"
    body = Body(canonical({**quota, "status": status}))
    return Charge((Expect(key, account.seen.revision),), (Put(key, body),))


def given_back(namespace: str, old: Obj, new: Obj, view: View) -> Iterator[Charge]:
    """A reservation that its pod has taken over no longer counts: the pod was charged when it was created."""
    yield Charge((_rules(namespace, view),))
    after, before = CountedObject(RESERVATIONS, new), CountedObject(RESERVATIONS, old)
    for seen in view.list(QUOTAS, namespace):
        account = _account(metadata(seen.obj)["name"], seen, RESERVATIONS, view)
        change = _change(account, after, before) if account is not None else {}
        if account is not None and change:
            yield _booked(namespace, account, change)


def recount(quota: Obj, view: View) -> Obj:
    """The quota's status, counted from the existing objects. Exact when committed with the quota's revision
    as precondition, because every write that changes a sum also writes the quota; the view must be at one
    revision for all kinds, and not older than the quota."""
    hard = lookup(quota, "spec", "hard") or {}
    namespace = str(metadata(quota).get("namespace") or "")
    used: Amounts = dict.fromkeys(hard, ZERO)
    for resource in dict.fromkeys(counted for name in hard for counted in counted_by(name)):
        for amount in _all_usage(quota, resource, view.list(resource, namespace)):
            for name in amount.keys() & used.keys():
                used[name] += amount[name]
    return {"hard": hard, "used": {name: str(amount) for name, amount in used.items()}}


def _all_usage(quota: Obj, resource: str, objects: Iterable[Seen]) -> Iterator[Amounts]:
    for seen in objects:
        if in_scope(quota, resource, seen.obj):
            yield usage_of(resource, seen.obj)


def corrected_status(quota: Obj, view: View) -> Obj | None:
    """The status by a recount; None if the stored one is right."""
    return recount(quota, view) if drift(quota, view) or not is_counted(quota) else None


def drift(quota: Obj, view: View) -> dict[str, tuple[Quantity, Quantity]]:
    """Where the ledger and a count differ: (written, counted) by name. Must be empty."""
    counted = amounts(recount(quota, view)["used"])
    written = amounts(lookup(quota, "status", "used"))
    names = sorted({*counted, *written})
    pairs = {name: (written.get(name, ZERO), counted.get(name, ZERO)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
