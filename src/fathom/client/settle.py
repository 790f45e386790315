"""A write that is sure to be known in the end: the only way to try one again.

    1. The write is sent. 2. The server commits it. 3. The answer is lost. 4. A blind retry does it twice.

So an unknown outcome is settled by reading the object's identity, which must be stable: a name that follows
from the intent, or a UID. A read that finds nothing does not prove that nothing will come: the request may
still be on its way. It is safe all the same, because the caller's next try uses the same identity and meets
the late one as a conflict.
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
    """The outcome, with `Unknown` and `Conflict` looked into. `is_done` says whether an object, as read (or
    None for "not there"), is what the write was to bring about. Still `Unknown` only if no read came
    through."""
    if isinstance(outcome, Committed | Rejected):
        return outcome
    cause = outcome.cause if isinstance(outcome, Unknown) else outcome.why
    for attempt in range(1, READS_MAX + 1):
        try:
            found = await read()
        except ApiError as error:
            cause = f"{cause}; then: {error.message}"
            await asyncio.sleep(READ_AGAIN.jittered_s(attempt, rng))
            continue
        if is_done(found):
            return Committed(found or {})
        return Conflict(found, cause)
    return Unknown(cause)
