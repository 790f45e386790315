"""The admission plugins that hold the checks of a binding against every other way on to a node: a pod that is
created with its node, one whose end is taken back, a reservation.

The commit expects all that the judgement rests on as it was read: accounts, node, quota, rules. Who lost a
race is judged again.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from fathom.model.errors import ApiError, Cause, conflict
from fathom.model.mirror import is_mirror
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.times import timestamp
from fathom.model.view import View
from fathom.seams.outside import Clock
from fathom.store.protocol import Put


class NodePlacement(Plugin):
    """After the ledger's plugin, which has stamped on whose account the object goes."""

    name = "NodePlacement"
    resources = frozenset({PODS, RESERVATIONS})
    operations = frozenset({CREATE, UPDATE})
    subresources = None
    trusted = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._facts: tuple[View, BindingFacts] | None = None

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return subresource != "binding" and super().concerns(kind, operation, subresource)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """An override that lets a pod into a capacity class is part of its account, which counts them."""
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
    """What comes to hold room by this write and did not before. A node's own mirror pods run already: they
    are counted, not judged."""
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
    """NodeRestriction has seen to it that the node is the pod's."""
    return NODES in attempt.user.groups and is_mirror(attempt.obj or {})


def _holder(obj: Obj, view: View) -> Obj:
    """The pod that a reservation is held for; where there is none, as much of one as names its workload."""
    key, notes = key_of(obj), metadata(obj).get("annotations") or {}
    seen = view.get(PODS, Key(key.namespace, str(notes.get(HOLDER) or "")))
    if seen is not None and uid_of(seen.obj) == notes.get(HOLDER_UID):
        return seen.obj
    name = str(lookup(obj, "spec", "workload", "name") or "")
    return {"metadata": {"namespace": key.namespace, "name": name}}


def _leaving(obj: Obj, node: str, view: View) -> tuple[Holding, ...]:
    """What the awaited pods hold on the node: as good as free, since nobody else gets it, and the pod itself
    is bound when they are gone. Who is leaving does not stay after all; and when it has left, the books have
    changed, and the commit fails: so no precondition on the pods is needed."""
    found: dict[str, Holding] = {}
    for ref in read(Reservation, obj).spec.awaits:
        seen = view.get(PODS, Key(ref.namespace or key_of(obj).namespace, ref.name))
        holding = pod_holding(seen.obj) if seen is not None and is_deleting(seen.obj) else None
        if seen is not None and holding is not None and uid_of(seen.obj) == ref.uid and holding.node == node:
            found[ref.uid] = holding
    return tuple(found.values())


def _refused(attempt: WriteAttempt, refusal: Refusal) -> ApiError:
    """A pod is forbidden, as a quota forbids it; a reservation conflicts with what is there."""
    if attempt.kind.resource == PODS:
        return refused(attempt, refusal.message, (Cause("spec.nodeName", refusal.check, refusal.message),))
    error = conflict(attempt.kind.resource, attempt.name, refusal.message)
    error.details = {**error.details, "causes": [{"reason": refusal.check, "message": refusal.message}]}
    return error


class PlacementRules(Plugin):
    """Every override and capacity class that is made, changed or removed changes one key beside it. Every
    placement's commit expects that key: none that was judged before them is committed after them."""

    name = "PlacementRules"
    resources = frozenset({OVERRIDES, CAPACITY_CLASSES})
    operations = frozenset({CREATE, UPDATE, DELETE})
    trusted = True

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        old, new = attempt.old or {}, attempt.obj or {}
        if attempt.operation == DELETE or old.get("spec") == new.get("spec"):
            return ()
        return (_changed(view),)

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        return (_changed(view),)


def _changed(view: View) -> Charge:
    body = Body(document("PlacementRules", RULES_KEY, {}))
    return Charge((BindingFacts(view).rules(),), (Put(RULES_PATH, body),))
