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
from fathom.api.ledger.holdings import ACCOUNT, account_for
from fathom.api.ledger.room import exceeds_quota, lacks_room, node_facts
from fathom.model.errors import ApiError, conflict
from fathom.model.objects import Key, Obj, lookup, metadata, with_metadata
from fathom.model.own.capacity import (
    CAPACITY_CLASSES,
    RESERVATIONS,
    TENANT_QUOTAS,
    CapacityClass,
    TenantQuota,
)
from fathom.model.own.shape import read
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
    nothing: such a one is for repair.)"""
    wanted = delta.charged
    assert wanted is not None
    node = view.get("nodes", Key("", wanted.node))
    quota = view.get(TENANT_QUOTAS, Key("", wanted.account.tenant))
    if node is not None:
        classes = [read(CapacityClass, seen.obj) for seen in view.list(CAPACITY_CLASSES)]
        short = lacks_room(
            node_facts(node.obj),
            books.node(wanted.node),
            wanted,
            released=delta.released,
            classes=classes,
        )
        if short is not None:
            raise _refused(attempt, "NodeFull", f"node {wanted.node}: {short}")
    limits = read(TenantQuota, quota.obj) if quota is not None else None
    over = exceeds_quota(limits, books.tenant(wanted.account.tenant), wanted, released=delta.released)
    if over is not None:
        raise _refused(attempt, "QuotaExceeded", over)


def _refused(attempt: Attempt, check: str, why: str) -> ApiError:
    error = conflict(attempt.kind.resource, attempt.name, why)
    error.details = {**error.details, "causes": [{"reason": check, "message": why}]}
    return error
