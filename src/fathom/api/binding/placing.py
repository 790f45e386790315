"""Admission plugins that apply the checks of a binding to every other way in which a node's room is taken.

Those are: a pod that is created with its node, a pod that is no longer terminal, a reservation. The commit
expects everything that the checks read unchanged: accounts, node, quota, rules. A write that loses a race is
checked again.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.approvers import APPROVAL
from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Charge, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.binding.checks import BindingMoment
from fathom.api.binding.created_with_node import Arrival, account_on, judge_arrival
from fathom.api.binding.facts import RULES_KEY, RULES_PATH, BindingFacts
from fathom.api.binding.requests import Refusal
from fathom.api.ledger.accounts import Books, document
from fathom.api.ledger.admission import stamped
from fathom.api.ledger.delta import PODS
from fathom.api.ledger.holdings import Holding, pod_holding, reservation_holding
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.reservation import HOLDER, HOLDER_UID, RESERVATIONS, Reservation
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.shape import read
from fathom.kube.definitions.kind import Kind
from fathom.model.accounts import NODES
from fathom.model.body import Body
from fathom.model.declared import Reads, Writes
from fathom.model.errors import ApiError, Cause, conflict
from fathom.model.mirror import is_mirror
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.times import timestamp
from fathom.model.view import View
from fathom.seams.outside import Clock
from fathom.store.protocol import Put


class NodePlacement(Plugin):
    """Check pods and reservations that begin to hold room. Runs after the ledger's plugin, which stamps the
    account on the object."""

    name = "NodePlacement"
    resources = frozenset({PODS, RESERVATIONS})
    operations = frozenset({CREATE, UPDATE})
    subresources = None
    trusted = True
    reads = (
        Reads("Node", ("metadata", "spec", "status.allocatable", "status.conditions"), "commit"),
        Reads("NodeLedger", source="commit"),
        Reads("TenantLedger", source="commit"),
        Reads("TenantQuota", ("spec",), "commit"),
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._facts: tuple[View, BindingFacts] | None = None

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return subresource != "binding" and super().concerns(kind, operation, subresource)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """If an override lets a pod into a capacity class, the account names the override: pods are counted
        per override."""
        assert attempt.obj is not None
        node = (attempt.obj.get("spec") or {}).get("nodeName")
        if not node or attempt.operation != CREATE or attempt.kind.resource != PODS:
            return attempt.obj
        facts = self._facts_of(view)
        account = account_on(attempt.obj, str(node), facts=facts, books=Books(view), at=self._moment())
        return attempt.obj if account is None else stamped(attempt.obj, account.text)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        arrival = arrival_of(attempt, view)
        if arrival is None:
            return ()
        books = Books(view)
        judged = judge_arrival(arrival, facts=self._facts_of(view), books=books, at=self._moment())
        if isinstance(judged, Refusal):
            raise _refused(attempt, judged)
        return (Charge((*judged, *books.charge().preconditions)),)

    def _moment(self) -> BindingMoment:
        now_ns = self._clock.now_ns()
        return BindingMoment(timestamp(now_ns), now_ns)

    def _facts_of(self, view: View) -> BindingFacts:
        if self._facts is None or self._facts[0] is not view:
            self._facts = (view, BindingFacts(view))
        return self._facts[1]


def arrival_of(attempt: WriteAttempt, view: View) -> Arrival | None:
    """The object that begins to hold room by this write. A node's own mirror pods already run: they are
    counted, not checked."""
    obj = attempt.obj
    if obj is None or not (obj.get("spec") or {}).get("nodeName"):
        return None
    if attempt.kind.resource == PODS:
        wanted = pod_holding(obj)
        if wanted is None or pod_holding(attempt.old) is not None or _is_mirror(attempt):
            return None
        return Arrival(obj, obj, wanted)
    wanted = reservation_holding(obj)
    if wanted is None or reservation_holding(attempt.old) is not None:
        return None
    return Arrival(obj, _holder(obj, view), wanted, _leaving(obj, wanted.node, view))


def _is_mirror(attempt: WriteAttempt) -> bool:
    """NodeRestriction has already checked that the pod is on the user's own node."""
    return NODES in attempt.user.groups and is_mirror(attempt.obj or {})


def _holder(obj: Obj, view: View) -> Obj:
    """The pod that a reservation is held for; if there is none, a stub that names the reservation's
    workload."""
    key, notes = key_of(obj), metadata(obj).get("annotations") or {}
    seen = view.get(PODS, Key(key.namespace, str(notes.get(HOLDER) or "")))
    if seen is not None and uid_of(seen.obj) == notes.get(HOLDER_UID):
        return seen.obj
    name = str(lookup(obj, "spec", "workload", "name") or "")
    return {"metadata": {"namespace": key.namespace, "name": name}}


def _leaving(obj: Obj, node: str, view: View) -> tuple[Holding, ...]:
    """What the awaited pods hold on the node. That counts as free, since no other pod gets it, and the pod
    itself is bound only after they are gone. No precondition on these pods is needed: a pod that is being
    deleted cannot stay, and once it is gone the accounts have changed, so the commit fails."""
    holdings: dict[str, Holding] = {}
    for ref in read(Reservation, obj).spec.awaits:
        seen = view.get(PODS, Key(ref.namespace or key_of(obj).namespace, ref.name))
        holding = pod_holding(seen.obj) if seen is not None and is_deleting(seen.obj) else None
        if seen is not None and holding is not None and uid_of(seen.obj) == ref.uid and holding.node == node:
            holdings[ref.uid] = holding
    return tuple(holdings.values())


def _refused(attempt: WriteAttempt, refusal: Refusal) -> ApiError:
    """A refused pod gets a 403, as from a quota; a refused reservation gets a 409."""
    if attempt.kind.resource == PODS:
        return refused(attempt, refusal.message, (Cause("spec.nodeName", refusal.check, refusal.message),))
    error = conflict(attempt.kind.resource, attempt.name, refusal.message)
    error.details = {**error.details, "causes": [{"reason": refusal.check, "message": refusal.message}]}
    return error


class PlacementRules(Plugin):
    """Every override or capacity class that is created, changed or removed also writes one common key. Every
    placement's commit expects that key: no placement checked before the change is committed after it."""

    name = "PlacementRules"
    resources = frozenset({OVERRIDES, CAPACITY_CLASSES})
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = frozenset({"", APPROVAL})  # An approval puts an override in force.
    trusted = True
    writes = (Writes("PlacementRules", ("*",), creates=True),)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        if attempt.operation == DELETE or _says(attempt.old) == _says(attempt.obj):
            return ()
        return (_changed(view),)

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        return (_changed(view),)


def _says(rule: Obj | None) -> tuple[object, object]:
    return lookup(rule, "spec"), lookup(rule, "status", "approval", "approved")


def _changed(view: View) -> Charge:
    body = Body(document("PlacementRules", RULES_KEY, {}))
    return Charge((BindingFacts(view).rules(),), (Put(RULES_PATH, body),))
