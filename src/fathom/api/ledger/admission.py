"""The admission plugin that updates the ledger with every write of a pod or a reservation.

When a pod is created with its node, ends or is removed, and when a reservation is created, confirmed, voided
or removed, the accounts change in the same commit. `api/binding` checks whether they may. Binding updates the
ledger itself, many pods to a commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Charge, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.ledger.accounts import Books
from fathom.api.ledger.delta import PODS, Delta, ledger_delta
from fathom.api.ledger.holdings import account_for
from fathom.api.ledger.quota_charges import charged_pod
from fathom.api.ledger.recharge import is_recharge, judge_recharge, wanted_account
from fathom.kinds.reservation import CHARGED_WITH, RESERVATIONS
from fathom.kube.definitions.kind import Kind
from fathom.model.declared import NODE_ROOM, TENANT_QUOTAS, Reads, Writes
from fathom.model.objects import Key, Obj, lookup, metadata, with_metadata
from fathom.model.tenancy import ACCOUNT
from fathom.model.view import View


class LedgerKeeper(Plugin):
    name = "Ledger"
    resources = frozenset({PODS, RESERVATIONS})
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None
    trusted = True
    reads = (
        Reads("TenantQuota", ("spec",), "commit"),
        Reads("CapacityClass", ("spec",), "commit"),
        Reads("Namespace", ("metadata.labels",)),
        Reads("Node", ("metadata", "status.allocatable")),
        Reads("Pod", ("metadata", "spec", "status.phase")),
        Reads("Reservation", ("metadata", "spec", "status")),
        Reads("NodeLedger", source="commit"),
        Reads("TenantLedger", source="commit"),
        Reads("IntentLedger", source="commit"),
    )
    writes = (
        Writes("Pod", (f"metadata.annotations[{ACCOUNT}]",)),
        Writes("Reservation", (f"metadata.annotations[{ACCOUNT}]",)),
        Writes("NodeLedger", ("*",), creates=True, deletes=True),
        Writes("TenantLedger", ("*",), creates=True, deletes=True),
        Writes("IntentLedger", ("*",), creates=True, deletes=True),
        Writes("Ledger", creates=True),
    )
    takes = (NODE_ROOM, TENANT_QUOTAS)

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return subresource != "binding" and super().concerns(kind, operation, subresource)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        """Stamp the account when the object gets its node; no client can change it afterwards, except as
        `recharge` says."""
        assert attempt.obj is not None
        obj, old = attempt.obj, attempt.old
        if attempt.kind.resource == RESERVATIONS:
            obj = annotated(obj, CHARGED_WITH, charged_pod(obj, old, view))
        if attempt.subresource:
            return obj
        node = lookup(obj, "spec", "nodeName")
        if node and not lookup(old, "spec", "nodeName"):
            return stamped(obj, _account(obj, str(node), view))
        account = wanted_account(attempt) or lookup(old, "metadata", "annotations", ACCOUNT)
        return stamped(obj, account)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        if attempt.operation == DELETE:
            return ()
        delta = ledger_delta(attempt.kind.resource, attempt.old, attempt.obj)
        if not delta:
            return ()
        books = Books(view)
        if not is_recharge(attempt, delta):
            return _posted(books, delta)
        judged = judge_recharge(delta, books, view)
        if judged.refusal:
            raise refused(attempt, judged.refusal)
        return (*_posted(books, delta), Charge(judged.expects))

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        delta = ledger_delta(attempt.kind.resource, attempt.old, None)
        return _posted(Books(view), delta) if delta else ()


def _posted(books: Books, delta: Delta) -> tuple[Charge, ...]:
    books.post(delta)
    return (books.charge(),)


def _account(obj: Obj, node: str, view: View) -> str:
    namespace = view.get("namespaces", Key("", str(metadata(obj).get("namespace") or "")))
    seen_node = view.get("nodes", Key("", node))
    account = account_for(
        obj, namespace=namespace.obj if namespace else None, node=seen_node.obj if seen_node else None
    )
    return account.text


def stamped(obj: Obj, account: str | None) -> Obj:
    return annotated(obj, ACCOUNT, account)


def annotated(obj: Obj, name: str, value: str | None) -> Obj:
    """The object with an annotation that only the server writes; without it if the value is None."""
    annotations = metadata(obj).get("annotations") or {}
    if annotations.get(name) == value:
        return obj
    kept = {key: text for key, text in annotations.items() if key != name}
    if value is not None:
        kept[name] = value
    return with_metadata(obj, annotations=kept or None)
