"""The status of a TenantQuota: the tenant's account in the ledger, in the form of the API."""

from __future__ import annotations

from fathom.api.ledger.accounts import TENANT_BOOKS, TenantBook
from fathom.api.ledger.holdings import Counts
from fathom.model.objects import Key, Obj, metadata
from fathom.model.quantity import BINARY, of_milli, of_value
from fathom.model.view import View


def tenant_status(quota: Obj, view: View) -> Obj | None:
    """The new status; None if the current one is correct. A new revision alone is no reason to write."""
    meta, before = metadata(quota), quota.get("status") or {}
    seen = view.get(TENANT_BOOKS, Key("", str(meta.get("name") or "")))
    book = TenantBook(seen.obj if seen is not None else None)
    used = [_usage(place, counts) for place, counts in sorted(book.used.items())]
    status = {"used": used, "observedGeneration": meta.get("generation") or 0}
    if all(before.get(name) == value for name, value in status.items()):
        return None
    return {
        **before,
        **status,
        "countedAt": seen.revision if seen is not None else view.revision(TENANT_BOOKS),
    }


def _usage(place: str, counts: Counts) -> Obj:
    zone, _, capacity_class = place.partition("/")
    named = {"zone": zone, "capacityClass": capacity_class}
    resources = {name: _quantity(name, amount) for name, amount in sorted(counts.items())}
    return {**{name: value for name, value in named.items() if value}, "resources": resources}


def _quantity(name: str, amount: int) -> str:
    if name == "cpu":
        return str(of_milli(amount))
    is_bytes = name in {"memory", "ephemeral-storage"} or name.startswith("hugepages-")
    return str(of_value(amount, BINARY) if is_bytes else of_value(amount))
