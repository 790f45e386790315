"""The admission plugin that joins the ledger to every write of a pod or a reservation.

A pod that is created with its node, ends, or goes; a reservation that comes, is confirmed, void, or goes: the
books change in the same commit. Binding does its own bookkeeping (`api/binding`), many pods to a commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Attempt, Charge
from fathom.api.admission.plugin import Plugin
from fathom.api.kinds.kind import Kind
from fathom.api.ledger.books import Books
from fathom.api.ledger.delta import PODS, Delta, ledger_delta
from fathom.api.ledger.holdings import Holding, account_for, pod_holding
from fathom.api.ledger.room import exceeds_quota, lacks_room, node_facts
from fathom.model.errors import ApiError, conflict
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of, with_metadata
from fathom.model.own.capacity import (
    CAPACITY_CLASSES,
    RESERVATIONS,
    TENANT_QUOTAS,
    CapacityClass,
    Reservation,
    TenantQuota,
)
from fathom.model.own.shape import read
from fathom.model.tenancy import ACCOUNT
from fathom.model.view import View


class LedgerKeeper(Plugin):
    name = "Ledger"
    resources = frozenset({PODS, RESERVATIONS})
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None
    trusted = True

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return subresource != "binding" and super().concerns(kind, operation, subresource)

    def mutate(self, attempt: Attempt, view: View) -> Obj:
        """Whose account it is on is stamped when it gets its node, and is nobody's to change."""
        assert attempt.obj is not None
        obj, old = attempt.obj, attempt.old
        if attempt.subresource:
            return obj
        node = lookup(obj, "spec", "nodeName")
        if node and not lookup(old, "spec", "nodeName"):
            return _stamped(obj, _account(obj, str(node), view))
        return _stamped(obj, lookup(old, "metadata", "annotations", ACCOUNT))

    def charge(self, attempt: Attempt, view: View) -> Sequence[Charge]:
        if attempt.operation == DELETE:
            return ()
        delta = ledger_delta(attempt.kind.resource, attempt.old, attempt.obj)
        if not delta:
            return ()
        books = Books(view)
        if attempt.kind.resource == RESERVATIONS and delta.charged is not None:
            _check_reservation(attempt, delta, books, view)
        return _posted(books, delta)

    def release(self, attempt: Attempt, view: View) -> Sequence[Charge]:
        delta = ledger_delta(attempt.kind.resource, attempt.old, None)
        return _posted(Books(view), delta) if delta else ()


def _posted(books: Books, delta: Delta) -> tuple[Charge, ...]:
    books.post(delta)
    return (books.charge(),)


def _account(obj: Obj, node: str, view: View) -> str:
    namespace = view.get("namespaces", Key("", str(metadata(obj).get("namespace") or "")))
    found = view.get("nodes", Key("", node))
    account = account_for(
        obj, namespace=namespace.obj if namespace else None, node=found.obj if found else None
    )
    return account.text


def _stamped(obj: Obj, account: str | None) -> Obj:
    annotations = metadata(obj).get("annotations") or {}
    if annotations.get(ACCOUNT) == account:
        return obj
    kept = {name: value for name, value in annotations.items() if name != ACCOUNT}
    if account is not None:
        kept[ACCOUNT] = account
    return with_metadata(obj, annotations=kept or None)


def _check_reservation(attempt: Attempt, delta: Delta, books: Books, view: View) -> None:
    """A reservation that is not covered promises what is not there. (A node that is not there either holds
    nothing: such a one is for repair.) What pods still hold that are leaving, and that it says it awaits, is
    as good as there: nobody else gets it, and the pod itself is bound when they are gone."""
    wanted = delta.charged
    assert wanted is not None
    leaving = _leaving(attempt, wanted.node, view)
    node = view.get("nodes", Key("", wanted.node))
    quota = view.get(TENANT_QUOTAS, Key("", wanted.account.tenant))
    if node is not None:
        classes = [read(CapacityClass, seen.obj) for seen in view.list(CAPACITY_CLASSES)]
        short = lacks_room(
            node_facts(node.obj),
            books.node(wanted.node).without(leaving),
            wanted,
            released=delta.released,
            classes=classes,
        )
        if short is not None:
            raise _refused(attempt, "NodeFull", f"node {wanted.node}: {short}")
    limits = read(TenantQuota, quota.obj) if quota is not None else None
    book = books.tenant(wanted.account.tenant).without(
        [one for one in leaving if one.account.tenant == wanted.account.tenant]
    )
    over = exceeds_quota(limits, book, wanted, released=delta.released)
    if over is not None:
        raise _refused(attempt, "QuotaExceeded", over)


def _leaving(attempt: Attempt, node: str, view: View) -> list[Holding]:
    """What the awaited pods hold on the node. Who is leaving does not stay after all; and when it has left,
    the books have changed, and the commit fails: so no precondition on the pods is needed."""
    found: dict[str, Holding] = {}
    for ref in read(Reservation, attempt.obj or {}).spec.awaits:
        seen = view.get(PODS, Key(ref.namespace or attempt.namespace, ref.name))
        holding = pod_holding(seen.obj) if seen is not None and is_deleting(seen.obj) else None
        if seen is not None and holding is not None and uid_of(seen.obj) == ref.uid and holding.node == node:
            found[ref.uid] = holding
    return list(found.values())


def _refused(attempt: Attempt, check: str, why: str) -> ApiError:
    error = conflict(attempt.kind.resource, attempt.name, why)
    error.details = {**error.details, "causes": [{"reason": check, "message": why}]}
    return error
