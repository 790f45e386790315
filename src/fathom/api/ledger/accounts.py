"""The ledger's accounts as they are stored, and the changes of one commit to them.

An empty account has no key: a cluster at rest keeps no residue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from fathom.api.admission.attempt import Charge
from fathom.api.ledger.delta import Delta, LedgerClaim
from fathom.api.ledger.holdings import Account, Counts, Holding
from fathom.kinds.shape import API_VERSION
from fathom.model.body import Body
from fathom.model.objects import Key, Obj
from fathom.model.view import View
from fathom.store.protocol import Delete, Expect, Put, Write

# Resources in the store and its views, not in the API.
NODE_BOOKS = "nodeledgers.fathom.dev"
TENANT_BOOKS = "tenantledgers.fathom.dev"
INTENT_BOOKS = "intentledgers.fathom.dev"
BOOKS = (NODE_BOOKS, TENANT_BOOKS, INTENT_BOOKS)


def tenant_key(tenant: str) -> str:
    return f"/registry/{TENANT_BOOKS}/{tenant}"


def intent_name(intent: str) -> str:
    """Intents are arbitrary text; keys are short and plain."""
    return hashlib.sha256(intent.encode()).hexdigest()[:32]


class NodeBook:
    """What is held on one node: in total, and by each capacity class. A copy, used by one commit only."""

    __slots__ = ("classes", "ports", "requested")

    def __init__(self, obj: Obj | None = None) -> None:
        stored = obj or {}
        self.requested: Counts = dict(stored.get("requested") or {})
        self.classes: dict[str, Counts] = {
            name: dict(counts) for name, counts in (stored.get("classes") or {}).items()
        }
        self.ports: Counts = dict(stored.get("ports") or {})

    def post(self, holding: Holding, sign: int) -> None:
        add(self.requested, holding.counts, sign)
        capacity_class = holding.account.capacity_class
        if capacity_class:
            add_under(self.classes, capacity_class, holding.counts, sign)
        if holding.ports:
            add(self.ports, dict.fromkeys(holding.ports, 1), sign)

    def without(self, holdings: Iterable[Holding]) -> NodeBook:
        """A copy without these holdings."""
        copy = NodeBook(self.fields())
        for holding in holdings:
            copy.post(holding, -1)
        return copy

    def fields(self) -> Obj:
        parts = {"requested": self.requested, "classes": self.classes, "ports": self.ports}
        return {name: part for name, part in parts.items() if part}


class TenantBook:
    """What one tenant holds, by zone and class. One key, because a limit may span all zones. Also the number
    of pods that each override has let into a class."""

    __slots__ = ("overrides", "used")

    def __init__(self, obj: Obj | None = None) -> None:
        stored = obj or {}
        self.used: dict[str, Counts] = {
            place: dict(counts) for place, counts in (stored.get("used") or {}).items()
        }
        self.overrides: Counts = dict(stored.get("overrides") or {})

    def post(self, holding: Holding, sign: int) -> None:
        add_under(self.used, place_of(holding.account), holding.counts, sign)
        if holding.account.override:
            add(self.overrides, {holding.account.override: 1}, sign)

    def without(self, holdings: Iterable[Holding]) -> TenantBook:
        copy = TenantBook(self.fields())
        for holding in holdings:
            copy.post(holding, -1)
        return copy

    def fields(self) -> Obj:
        parts = {"used": self.used, "overrides": self.overrides}
        return {name: part for name, part in parts.items() if part}


class IntentBook:
    """The reservations of one intent that are not void. There should be one; if there are two, repair sees
    them here."""

    __slots__ = ("holders", "intent")

    def __init__(self, obj: Obj | None = None) -> None:
        stored = obj or {}
        self.intent = str(stored.get("intent") or "")
        self.holders: list[str] = list(stored.get("holders") or ())

    def post(self, claim: LedgerClaim, sign: int) -> None:
        self.intent = claim.intent
        others = [name for name in self.holders if name != claim.holder]
        self.holders = sorted([*others, claim.holder]) if sign > 0 else others

    def fields(self) -> Obj:
        return {"intent": self.intent, "holders": self.holders} if self.holders else {}


Book = NodeBook | TenantBook | IntentBook


def place_of(account: Account) -> str:
    return f"{account.zone}/{account.capacity_class}"


def add(counts: Counts, more: Counts, sign: int) -> None:
    """In place. A count of zero is dropped. A count below zero would mean that something was released that
    was never charged: a recount corrects that (`recount`), a negative account would only hide it."""
    for name, amount in more.items():
        total = counts.get(name, 0) + sign * amount
        if total > 0:
            counts[name] = total
        else:
            counts.pop(name, None)


def add_under(groups: dict[str, Counts], name: str, more: Counts, sign: int) -> None:
    counts = groups.setdefault(name, {})
    add(counts, more, sign)
    if not counts:
        del groups[name]


def document(kind: str, key: Key, fields: Obj) -> Obj:
    meta = {"namespace": key.namespace, "name": key.name} if key.namespace else {"name": key.name}
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": meta, **fields}


KINDS: dict[str, tuple[str, Any]] = {
    NODE_BOOKS: ("NodeLedger", NodeBook),
    TENANT_BOOKS: ("TenantLedger", TenantBook),
    INTENT_BOOKS: ("IntentLedger", IntentBook),
}


class Books:
    """The accounts that one commit reads and writes, on top of a view. Reads include what the commit has
    posted."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._open: dict[tuple[str, Key], tuple[Book, int]] = {}  # With the revision at which they were read.
        self._posted: dict[tuple[str, Key], None] = {}

    def node(self, name: str) -> NodeBook:
        book = self._book(NODE_BOOKS, Key("", name))
        assert isinstance(book, NodeBook)
        return book

    def tenant(self, name: str) -> TenantBook:
        book = self._book(TENANT_BOOKS, Key("", name))
        assert isinstance(book, TenantBook)
        return book

    def _book(self, resource: str, key: Key) -> Book:
        opened = self._open.get((resource, key))
        if opened is None:
            seen = self._view.get(resource, key)
            book: Book = KINDS[resource][1](seen.obj if seen else None)
            opened = self._open[resource, key] = (book, seen.revision if seen else 0)
        return opened[0]

    def post(self, delta: Delta) -> None:
        for holding, sign in ((delta.released, -1), (delta.charged, 1)):
            if holding is not None:
                self._post(NODE_BOOKS, Key("", holding.node), holding, sign)
                self._post(TENANT_BOOKS, Key("", holding.account.tenant), holding, sign)
        for claim, sign in ((delta.unclaimed, -1), (delta.claimed, 1)):
            if claim is not None:
                self._post(INTENT_BOOKS, Key(claim.namespace, intent_name(claim.intent)), claim, sign)

    def _post(self, resource: str, key: Key, entry: Any, sign: int) -> None:
        self._book(resource, key).post(entry, sign)
        self._posted[resource, key] = None

    @property
    def size(self) -> int:
        return len(self._open)

    def charge(self) -> Charge:
        """The commit expects every account that was read unchanged, and writes those that were posted to."""
        expects = tuple(Expect(key_in_store(*place), revision) for place, (_, revision) in self._open.items())
        return Charge(expects, tuple(self._write(*place) for place in self._posted))

    def _write(self, resource: str, key: Key) -> Write:
        fields = self._open[resource, key][0].fields()
        where = key_in_store(resource, key)
        if not fields:
            return Delete(where)
        return Put(where, Body(document(KINDS[resource][0], key, fields)))


def key_in_store(resource: str, key: Key) -> str:
    path = f"{key.namespace}/{key.name}" if key.namespace else key.name
    return f"/registry/{resource}/{path}"
