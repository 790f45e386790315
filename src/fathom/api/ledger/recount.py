"""Counts the ledger of a store that has pods and no ledger: from an older version or another writer.

    1. We count the cache at revision R.  2. A pod is bound, at R+1.  3. We write what we counted.

Every write that changes a sum writes the account too, so step 3 expects each account as it was at R, and
fails. Then we count again.
"""

from __future__ import annotations

from fathom.api.core import Core
from fathom.api.ledger.accounts import BOOKS, KINDS, document, key_in_store
from fathom.api.ledger.counting import Place, drift
from fathom.kinds.shape import API_VERSION
from fathom.model.body import Body
from fathom.model.objects import Key, Obj
from fathom.store.protocol import Committed, Conflict, Delete, Expect, Put, Write

# Marks that the store was counted once: from then on every write keeps the ledger, and a start need not
# count.
MARKER_RESOURCE = "ledgers.fathom.dev"
MARKER = Key("", "counted")

# Each round leaves only what other servers changed meanwhile; a starting server is not yet under load.
ROUNDS_MAX = 20


async def settle_ledger(core: Core) -> int:
    """Correct the ledger once in a store's life; return how many accounts were wrong."""
    await core.catch_up()
    if core.cache.get(MARKER_RESOURCE, MARKER) is not None or not core.cache.of("pods").entries:
        return 0
    wrong = await mend_ledger(core)
    key = key_in_store(MARKER_RESOURCE, MARKER)
    marker = {"kind": "Ledger", "apiVersion": API_VERSION, "metadata": {"name": MARKER.name}}
    await _commit(core, Expect(key, 0), Put(key, Body(marker)))  # A conflict: another server has written it.
    return wrong


async def mend_ledger(core: Core) -> int:
    """Count, compare and correct until count and ledger agree."""
    corrected = 0
    for _ in range(ROUNDS_MAX):
        wrong = drift(core.cache)
        if not wrong:
            break
        for place, (_, should) in wrong.items():
            corrected += await _correct(core, place, should)
        await core.catch_up()
    return corrected


async def _correct(core: Core, place: Place, should: Obj) -> int:
    resource, key = place
    seen = core.cache.get(resource, key)
    where = key_in_store(resource, key)
    write: Write = Delete(where)
    if should:
        write = Put(where, Body(document(KINDS[resource][0], key, should)))
    return await _commit(core, Expect(where, seen.revision if seen else 0), write)


async def _commit(core: Core, expect: Expect, write: Write) -> int:
    outcome = await core.store.commit((expect,), (write,))
    if isinstance(outcome, Conflict):
        await core.wait_for(outcome.revision)
        return 0
    if isinstance(outcome, Committed):
        await core.cache.at_least(outcome.revision)
    return 1


__all__ = ["BOOKS", "MARKER", "MARKER_RESOURCE", "mend_ledger", "settle_ledger"]
