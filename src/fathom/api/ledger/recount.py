"""A store that has pods and no ledger, from before there was one or out of a foreign hand, is counted.

    1. We count the cache at revision R.  2. Somebody binds a pod, at R+1.  3. We write what we counted.

Every write that changes a sum writes the book too, so step 3 expects each book as it was at R, and fails.
Then the count is made anew.
"""

from __future__ import annotations

from fathom.api.core import Core
from fathom.api.ledger.accounts import BOOKS, KINDS, document, key_in_store
from fathom.api.ledger.counting import Place, drift
from fathom.kinds.shape import API_VERSION
from fathom.model.body import Body
from fathom.model.objects import Key, Obj
from fathom.store.protocol import Committed, Conflict, Delete, Expect, Put, Write

# Says that a count was made once: from then on the ledger is kept, and starting need not count again.
MARKER_RESOURCE = "ledgers.fathom.dev"
MARKER = Key("", "counted")

# Each round ends with what others changed meanwhile; a server that is started is not yet under load.
ROUNDS_MAX = 20


async def settle_ledger(core: Core) -> int:
    """Puts the ledger right once in a store's life; says how many books were wrong."""
    await core.catch_up()
    if core.cache.get(MARKER_RESOURCE, MARKER) is not None or not core.cache.of("pods").entries:
        return 0
    wrong = await mend_ledger(core)
    key = key_in_store(MARKER_RESOURCE, MARKER)
    marker = {"kind": "Ledger", "apiVersion": API_VERSION, "metadata": {"name": MARKER.name}}
    await _commit(core, Expect(key, 0), Put(key, Body(marker)))  # Lost: another server has written it.
    return wrong


async def mend_ledger(core: Core) -> int:
    """Count, compare, correct, until they agree."""
    mended = 0
    for _ in range(ROUNDS_MAX):
        wrong = drift(core.cache)
        if not wrong:
            break
        for place, (_, should) in wrong.items():
            mended += await _correct(core, place, should)
        await core.catch_up()
    return mended


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
