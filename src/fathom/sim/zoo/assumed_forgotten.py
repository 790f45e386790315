"""12. The scheduler forgets a pod that it has assumed on a node after a while, although the binding is under
way: it gives the room to another pod, and then the first one lands (kubernetes#106361). As there, the API
server does not check for room either."""

from __future__ import annotations

import asyncio

from fathom.api.binding import checks
from fathom.schedule.loop.committing import Committing
from fathom.schedule.loop.pod_moves import SentBinding
from fathom.sim.zoo import put_back

SCENARIOS = ("one-scheduler",)
BREAKS = "no node or quota over its limit"

EXPIRES_S = 0.3

_right = Committing._commit


async def while_it_lasts(self: Committing, sent: list[SentBinding]) -> None:
    def forget() -> None:
        for binding in sent:
            if binding.pod.uid in self._state.waiting:
                self._state.known.table.forget(binding.pod.uid)

    asyncio.get_running_loop().call_later(EXPIRES_S, forget)
    await _right(self, sent)


put_back(Committing, "_commit", while_it_lasts)
put_back(checks, "lacks_room", lambda *args, **kwargs: None)
