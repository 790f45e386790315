"""Settles the unknown outcome of a write by a read; only then may the write be tried again.

    1. The write is sent. 2. The server commits it. 3. The answer is lost. 4. A blind retry does it twice.

So an unknown outcome is settled by reading the object by its identity, which must be stable: a name derived
from the intent, or a UID. A read that finds nothing does not prove that the write will not happen: the
request may still be on its way. That is safe, because the caller's next try uses the same identity and gets a
conflict if the late request came first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.model.backoff import Backoff
from fathom.model.errors import ApiError
from fathom.model.objects import Obj

READS_MAX = 5
READ_AGAIN = Backoff(0.05, 2.0)

Read = Callable[[], Awaitable[Obj | None]]
IsDone = Callable[[Obj | None], bool]


async def settled(outcome: Outcome, read: Read, is_done: IsDone, *, rng: random.Random) -> Outcome:
    """The outcome, with `Unknown` and `Conflict` settled by a read. `is_done` says whether an object, as read
    (or None if absent), is what the write was meant to achieve. Still `Unknown` only if no read succeeded."""
    if isinstance(outcome, Committed | Rejected):
        return outcome
    cause = outcome.cause if isinstance(outcome, Unknown) else outcome.why
    for attempt in range(1, READS_MAX + 1):
        try:
            current = await read()
        except ApiError as error:
            cause = f"{cause}; then the read failed: {error.message}"
            await asyncio.sleep(READ_AGAIN.jittered_s(attempt, rng))
            continue
        if is_done(current):
            return Committed(current or {})
        return Conflict(current, cause)
    return Unknown(cause)
