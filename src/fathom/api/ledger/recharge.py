"""A placed pod that is moved from the account of an override that has ended to its tenant's ordinary account.

The override controller asks for it by writing the account that it wants. Everything is judged in the commit,
as for a new pod: the ordinary account must have the quota, and the node the room, that the override lent.
"""

from __future__ import annotations

import msgspec

from fathom.api.admission.attempt import WriteAttempt
from fathom.api.ledger.accounts import Books, key_in_store
from fathom.api.ledger.delta import PODS, Delta
from fathom.api.ledger.holdings import Account, Holding, account_of
from fathom.api.ledger.room import exceeds_quota, lacks_room, node_facts
from fathom.kinds.capacity_class import CAPACITY_CLASSES, CapacityClass
from fathom.kinds.shape import read
from fathom.kinds.tenant_quota import TENANT_QUOTAS, TenantQuota
from fathom.model.accounts import CONTROLLERS
from fathom.model.objects import Key, lookup
from fathom.model.tenancy import ACCOUNT
from fathom.model.view import View
from fathom.store.protocol import Expect


def wanted_account(attempt: WriteAttempt) -> str | None:
    """The account that the controllers ask for, for a pod that is charged to an override; None: the pod keeps
    its own. Tenant and zone stay; the class stays or goes."""
    if attempt.kind.resource != PODS or attempt.user.name != CONTROLLERS or attempt.old is None:
        return None
    asked = lookup(attempt.obj, "metadata", "annotations", ACCOUNT)
    held = account_of(attempt.old)
    ordinary = (held._replace(override="").text, held._replace(override="", capacity_class="").text)
    return str(asked) if held.override and asked in ordinary else None


class Recharge(msgspec.Struct, frozen=True):
    expects: tuple[Expect, ...] = ()
    refusal: str = ""  # Why the ordinary account cannot take the pod over.


def judge_recharge(delta: Delta, books: Books, view: View) -> Recharge:
    """`books` are as before the write."""
    released, charged = delta.released, delta.charged
    if released is None or charged is None:
        return Recharge()
    classes = [(read(CapacityClass, seen.obj), seen.revision) for seen in view.list(CAPACITY_CLASSES)]
    expects = [Expect(key_in_store(CAPACITY_CLASSES, Key("", each.name)), rev) for each, rev in classes]
    node = view.get("nodes", Key("", charged.node))
    if node is not None:
        expects.append(Expect(key_in_store("nodes", Key("", charged.node)), node.revision))
    quota = view.get(TENANT_QUOTAS, Key("", charged.account.tenant))
    revision = quota.revision if quota is not None else 0
    expects.append(Expect(key_in_store(TENANT_QUOTAS, Key("", charged.account.tenant)), revision))
    held_classes = tuple(each for each, _ in classes)
    labels = node_facts(node.obj).labels if node is not None else {}
    refusal = _class_refusal(charged.account, labels, held_classes)
    if not refusal and node is not None:
        book = books.node(charged.node).without((released,))
        short = lacks_room(node_facts(node.obj), book, charged, released=None, classes=held_classes)
        refusal = f"node {charged.node}: {short}" if short else ""
    if not refusal:
        limits = None if quota is None else read(TenantQuota, quota.obj)
        held = books.tenant(charged.account.tenant).without((released,))
        refusal = exceeds_quota(limits, held, charged) or ""
    return Recharge(tuple(expects), refusal)


def _class_refusal(account: Account, labels: dict[str, str], classes: tuple[CapacityClass, ...]) -> str:
    for each in classes:
        if each.name == account.capacity_class and not each.admits(account.tenant):
            return f"tenant {account.tenant} may not use capacity class {each.name}"
        if each.exclusive and each.name != account.capacity_class and each.holds(labels):
            return f"its node is reserved for capacity class {each.name}"
    return ""


def is_recharge(attempt: WriteAttempt, delta: Delta) -> bool:
    """Whether the write moves a pod from an override's account to another."""
    before, after = delta.released, delta.charged
    return (
        attempt.kind.resource == PODS
        and _same_place(before, after)
        and before is not None
        and bool(before.account.override)
    )


def _same_place(before: Holding | None, after: Holding | None) -> bool:
    return before is not None and after is not None and before.node == after.node
