"""The ledger computed from scratch: the sums over all objects. The stored ledger must equal them."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.api.ledger.accounts import (
    BOOKS,
    INTENT_BOOKS,
    NODE_BOOKS,
    TENANT_BOOKS,
    IntentBook,
    NodeBook,
    TenantBook,
    intent_name,
)
from fathom.api.ledger.delta import claim_of
from fathom.api.ledger.holdings import Holding, pod_holding, reservation_holding
from fathom.kinds.reservation import RESERVATIONS
from fathom.model.objects import Key, Obj, key_of
from fathom.model.view import View

Place = tuple[str, Key]  # The resource and key of an account.
Fields = dict[Place, Obj]  # The fields of each account; empty accounts are absent.


def counted(pods: Iterable[Obj], reservations: Iterable[Obj]) -> Fields:
    nodes: dict[str, NodeBook] = {}
    tenants: dict[str, TenantBook] = {}
    intents: dict[Key, IntentBook] = {}
    reserved = list(reservations)
    holdings: list[Holding | None] = [pod_holding(pod) for pod in pods]
    holdings += [reservation_holding(reservation) for reservation in reserved]
    for holding in holdings:
        if holding is not None:
            nodes.setdefault(holding.node, NodeBook()).post(holding, 1)
            tenants.setdefault(holding.account.tenant, TenantBook()).post(holding, 1)
    for reservation in reserved:
        claim = claim_of(reservation)
        if claim is not None:
            intents.setdefault(Key(claim.namespace, intent_name(claim.intent)), IntentBook()).post(claim, 1)
    return {
        **{(NODE_BOOKS, Key("", name)): book.fields() for name, book in sorted(nodes.items())},
        **{(TENANT_BOOKS, Key("", name)): book.fields() for name, book in sorted(tenants.items())},
        **{(INTENT_BOOKS, key): book.fields() for key, book in sorted(intents.items())},
    }


def written(view: View) -> Fields:
    """The fields of the stored ledger."""
    return {
        (resource, key_of(seen.obj)): fields_of(seen.obj)
        for resource in BOOKS
        for seen in view.list(resource)
    }


def fields_of(book: Obj) -> Obj:
    return {name: part for name, part in book.items() if name not in {"kind", "apiVersion", "metadata"}}


def drift(view: View) -> dict[Place, tuple[Obj, Obj]]:
    """Where the stored ledger and a count of the view differ: (written, counted). Must be empty at every
    revision: pods and accounts change in one commit."""
    has = written(view)
    should = counted((seen.obj for seen in view.list("pods")), (seen.obj for seen in view.list(RESERVATIONS)))
    places = sorted({*has, *should})
    pairs = {place: (has.get(place, {}), should.get(place, {})) for place in places}
    return {place: pair for place, pair in pairs.items() if pair[0] != pair[1]}
